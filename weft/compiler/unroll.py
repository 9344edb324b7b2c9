"""Sums of a few elements, written out.

A kernel reduces along its columns. A distance, a sum of three squares that is needed again and
again by a sum over all pairs, would be written to memory first; written out, it is part of the
kernel that needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np

from weft.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from weft.core.registry import lookup

# Sums of up to so many elements are written out, if there are at least so many sums.
MOST, MIN_SUMS = 4, 1 << 16
_EXACT = [np.dtype(name) for name in ("float32", "float64", "int32", "int64")]
_COMBINING = {"add": "add", "mul": "mul", "max": "max", "min": "min"}


def unroll(jaxpr: Jaxpr, fuses: Callable[[JaxprEqn], bool]) -> Jaxpr:
    """The program with short reductions of what is computed as operations on elements, where a
    reduction over other axes follows."""
    if not any(map(_is_short, jaxpr.eqns)):
        return jaxpr
    made: dict[Any, JaxprEqn] = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    results = {x for x in jaxpr.outvars if type(x) is not Literal}
    reduced = _reduced(jaxpr, fuses)
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        short = _is_short(eqn) and fuses(eqn) and eqn.outvars[0] not in results
        source = made.get(eqn.invars[0]) if short and type(eqn.invars[0]) is not Literal else None
        computed = source is not None and fuses(source) and source.primitive.form == "map"
        eqns += _written_out(eqn) if computed and eqn.outvars[0] in reduced else [eqn]
    return jaxpr if len(eqns) == len(jaxpr.eqns) else jaxpr.replace(eqns=eqns)


def _reduced(jaxpr: Jaxpr, fuses: Any) -> set[Any]:
    """Variables that longer reductions are computed of, element by element."""
    found: set[Any] = set()
    for eqn in reversed(jaxpr.eqns):
        if not fuses(eqn):
            continue
        long = eqn.primitive.form == "reduce" and not _is_short(eqn)
        spread = eqn.primitive.form in ("map", "move")
        if long or (spread and not found.isdisjoint(eqn.outvars)):
            found.update(x for x in eqn.invars if type(x) is not Literal)
    return found


def _is_short(eqn: JaxprEqn) -> bool:
    if eqn.primitive.form != "reduce" or set(eqn.params) > {"axes", "out_sharding"}:
        return False
    if getattr(eqn.primitive, "combines", None) not in _COMBINING:
        return False
    if eqn.outvars[0].aval.dtype not in _EXACT:  # sums of narrow floats are rounded once
        return False
    shape, axes = eqn.invars[0].aval.shape, eqn.params["axes"]
    count = prod(shape[axis] for axis in axes)
    return 1 < count <= MOST and prod(eqn.outvars[0].aval.shape) >= MIN_SUMS


def _written_out(eqn: JaxprEqn) -> list[JaxprEqn]:
    (x,), (out,) = eqn.invars, eqn.outvars
    shape, axes = x.aval.shape, eqn.params["axes"]
    combine = lookup(_COMBINING[eqn.primitive.combines])
    eqns: list[JaxprEqn] = []

    def add(primitive: Any, ins: list[Any], v: Var, **params: Any) -> Var:
        eqns.append(JaxprEqn(ins, [v], primitive, params, source_info=eqn.source_info))
        return v

    total: Any = None
    places = list(product(*(range(shape[axis]) for axis in axes)))
    for number, place in enumerate(places):
        at = dict(zip(axes, place, strict=True))
        start = tuple(at.get(axis, 0) for axis in range(len(shape)))
        stop = tuple(at[axis] + 1 if axis in at else n for axis, n in enumerate(shape))
        sizes = tuple(high - low for low, high in zip(start, stop, strict=True))
        piece = add(
            lookup("slice"),
            [x],
            Var(x.aval.update(shape=sizes)),
            start_indices=start,
            limit_indices=stop,
            strides=None,
        )
        one = add(lookup("squeeze"), [piece], Var(out.aval), dimensions=tuple(sorted(axes)))
        last = number == len(places) - 1
        if total is None:
            total = one
        else:
            total = add(combine, [total, one], out if last else Var(out.aval))
    return eqns
