"""Equations replaced by what their primitive is made of, where fusion does better with that."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from weft.base import knobs
from weft.base.knobs import enable_x64
from weft.core.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var
from weft.core.staging import stage

_MAX_INT32 = (1 << 31) - 1
_WIDE = frozenset(("int64", "uint64", "float64", "complex128"))


def expand(jaxpr: Jaxpr, general: bool = False) -> Jaxpr:
    """The program with equations replaced by their decomposition where they ask for it.

    General programs are for arrays of other sizes too.
    """

    def inner(eqn: JaxprEqn) -> Jaxpr | None:
        avals = tuple([x.aval for x in eqn.invars])
        if not eqn.primitive.expands(avals, eqn.params):
            return None
        if general and eqn.primitive.whole(avals, eqn.params):
            return None
        return _decomposition(eqn.primitive, avals, tuple(sorted(eqn.params.items())))

    return substituted(jaxpr, inner)


def substituted(jaxpr: Jaxpr, inner: Callable[[JaxprEqn], Jaxpr | None]) -> Jaxpr:
    """The program with the equations of others in place of those that ``inner`` gives one for."""
    found = [inner(eqn) for eqn in jaxpr.eqns]
    if all(program is None for program in found):
        return jaxpr
    eqns: list[JaxprEqn] = []
    for eqn, program in zip(jaxpr.eqns, found, strict=True):
        if program is None:
            eqns.append(eqn)
            continue
        env: dict[Any, Any] = dict(zip(program.invars, eqn.invars, strict=True))
        results = zip(program.outvars, eqn.outvars, strict=True)
        env.update((v, out) for v, out in results if type(out) is not DropVar)
        for step in program.eqns:
            invars = [x if type(x) is Literal else env[x] for x in step.invars]
            outvars = [
                v if type(v) is DropVar else env.setdefault(v, Var(v.aval)) for v in step.outvars
            ]
            eqns.append(step.replace(invars=invars, outvars=outvars, source_info=eqn.source_info))
    return jaxpr.replace(eqns=eqns)


@functools.lru_cache(512)
def _decomposition(primitive: Any, avals: tuple[Any, ...], params: Any) -> Jaxpr:
    known = None if primitive.unrolled is None else primitive.unrolled(avals, dict(params))
    return expand(
        _staged(primitive, primitive.decompose, avals, params) if known is None else known
    )


def decomposition(eqn: JaxprEqn, function: Any) -> Jaxpr:
    """A function of an equation's operands and parameters as a program of equations; it says which
    dtypes it means, whatever the knob for wide ones says."""
    params = tuple(sorted(eqn.params.items()))
    given = (eqn.primitive, function, tuple([x.aval for x in eqn.invars]), params, True)
    try:
        return _known(knobs.context_key(), *given)
    except TypeError:  # a parameter that cannot be a key
        return _staged(*given)


@functools.lru_cache(512)
def _known(context: Any, *given: Any) -> Jaxpr:
    return _staged(*given)


def _staged(
    primitive: Any, function: Any, avals: tuple[Any, ...], params: Any, wide: bool = False
) -> Jaxpr:
    def fun(*xs: Any) -> list[Any]:
        out = function(*xs, **dict(params))
        return list(out) if primitive.multiple_results else [out]

    # types are the equation's, whatever the knob says by now
    with enable_x64(True) if wide or any(map(_is_wide, avals)) else nullcontext():
        closed = stage(fun, avals)
    if closed.consts or not set(closed.jaxpr.outvars) <= {
        v for eqn in closed.eqns for v in eqn.outvars
    }:
        raise TypeError(f"the decomposition of {primitive} is not a program of equations only")
    return closed.jaxpr


def _is_wide(aval: Any) -> bool:
    """Whether a value has elements of 64 bits, or an axis that 32 bits cannot count."""
    wide = isinstance(aval.dtype, np.dtype) and aval.dtype.name in _WIDE
    return wide or any(n > _MAX_INT32 for n in aval.shape)
