"""Operations that a target has no routine for, replaced by their device-neutral lowerings.

A lowering is a function of other primitives, which is put in place of the equation before fusion,
or kernels, which the planner launches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.base.lazy import load
from weft.compiler.expand import decomposition, expand, substituted
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

    def inner(eqn: JaxprEqn) -> Jaxpr | None:
        primitive, avals = eqn.primitive, [x.aval for x in eqn.invars]
        if not primitive.neutral or keeps(eqn) or eqn.effects:
            return None
        if primitive.form is not None and primitive.fuses(eqn.params, avals):
            return None
        if primitive.kernels and kernels_of(eqn) is not None:
            return None
        if not fits(primitive.neutral, avals, eqn.params):
            return None
        return lower(expand(decomposition(eqn, find(primitive.neutral))), keeps)

    return substituted(jaxpr, inner)


def fits(name: str, avals: Any, params: Any) -> bool:
    """Whether a lowering is for these types; its file may have a test of that, in ``FITS``."""
    file, function = name.split(".")
    tests = getattr(load(f"{_ROOM}.{file}"), "FITS", {})
    return function not in tests or tests[function](avals, params)
