"""Lowering rules of primitives: given as functions of other primitives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["lower_fun", "register_lowering"]


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> Callable[..., Any]:
    """A lowering that is a function of other primitives."""

    @functools.wraps(fun, updated=())
    def lowering(*args: Any, **params: Any) -> Any:
        return fun(*args, **params)

    lowering.is_function = True  # type: ignore[attr-defined]
    return lowering


def register_lowering(
    prim: Any, rule: Callable[..., Any], platform: Any = None, **_: Any
) -> Callable[..., Any]:
    """Give a primitive its lowering: what ``lower_fun`` made.

    A rule that writes MLIR itself, ``rule(context, *values)``, says nothing to weft: there the
    primitive is computed by what it was given with ``def_impl``.
    """
    if getattr(rule, "is_function", False) or not getattr(prim, "has_impl", False):
        prim.def_lowering(rule)
    return rule
