"""Lowering rules of primitives: given as functions of other primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> Callable[..., Any]:
    """A lowering that is a function of other primitives."""
    if multiple_results:
        return fun
    return lambda *args, **params: fun(*args, **params)


def register_lowering(primitive: Any, rule: Callable[..., Any], platform: Any = None) -> Any:
    """Give a primitive its lowering: the function that ``lower_fun`` was given."""
    primitive.def_lowering(rule)
    return rule
