"""Operations that a target has no routine for, replaced by their device-neutral lowerings.

A lowering is a function of other primitives, which is put in place of the equation before fusion,
or kernels, which the planner launches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.base.lazy import load
from weft.compiler.expand import decomposition, expand, substitute
from weft.core.jaxpr import DropVar, Jaxpr, JaxprEqn
from weft.kernel.lowering import Lowering
from weft.kernel.program import Type

_ROOM = "weft.prims.lowerings"


@functools.lru_cache(256)
def find(name: str) -> Callable[..., Any]:
    """The function that a primitive names as its lowering."""
    file, function = name.split(".")
    return getattr(load(f"{_ROOM}.{file}"), function)


def kernels_of(eqn: JaxprEqn) -> Lowering | None:
    """An operation as kernels, or None where its primitive has no such form for these types."""
    if not eqn.primitive.kernels:
        return None
    ins, outs = (
        [Type(x.aval.shape, x.aval.dtype, type(x) is not DropVar) for x in xs]
        for xs in (eqn.invars, eqn.outvars)
    )
    return find(eqn.primitive.kernels)(ins, outs, eqn.params)


def lower(jaxpr: Jaxpr, keeps: Callable[[JaxprEqn], bool]) -> Jaxpr:
    """The program with operations replaced by functions of other primitives, where the target does
    not keep them."""
    chosen = [_function(e, keeps) for e in jaxpr.eqns]
    if not any(chosen):
        return jaxpr
    eqns: list[JaxprEqn] = []
    for eqn, function in zip(jaxpr.eqns, chosen, strict=True):
        if function is None:
            eqns.append(eqn)
        else:
            inner = decomposition(eqn, function)
            substitute(eqn, lower(expand(inner), keeps), eqns)
    return jaxpr.replace(eqns=eqns)


def _function(eqn: JaxprEqn, keeps: Callable[[JaxprEqn], bool]) -> Callable[..., Any] | None:
    """What replaces an equation, or None where it stays."""
    primitive, avals = eqn.primitive, [x.aval for x in eqn.invars]
    if not primitive.neutral or keeps(eqn) or eqn.effects:
        return None
    if primitive.form is not None and primitive.fuses(eqn.params, avals):
        return None
    if primitive.kernels and kernels_of(eqn) is not None:
        return None
    return find(primitive.neutral) if fits(primitive.neutral, avals, eqn.params) else None


def fits(name: str, avals: Any, params: Any) -> bool:
    """Whether a lowering is for these types; its file may have a test of that, in ``FITS``."""
    file, function = name.split(".")
    tests = getattr(load(f"{_ROOM}.{file}"), "FITS", {})
    return function not in tests or tests[function](avals, params)
