"""The late bindings of the house, filled once by ``weft/__init__.py``.

1. ``set_operators``: the search for operators and methods of arrays, of the NumPy room;
2. ``evaluate``: what happens when a primitive is bound with nothing being traced;
3. ``box``: how a NumPy result becomes a concrete array.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from weft.base.traceback import bounded
from weft.core.array import Array, Operator


def _unfilled(*_: Any) -> Any:
    raise RuntimeError("weft.core.hooks is filled by importing weft")


evaluate: Callable[..., Any] = _unfilled
box: Callable[..., Any] = _unfilled


def set_evaluate(function: Callable[..., Any]) -> None:
    """Fill the evaluation of a bound primitive: ``function(primitive, args, params)``."""
    global evaluate
    evaluate = function


def set_box(function: Callable[..., Any]) -> None:
    """Fill the boxing of results: ``function(ndarray, aval) -> Array``."""
    global box
    box = function


def _public(function: Any) -> Any:
    """A function with its boundary; many a method is a function of a public package, too."""
    if type(function) is FunctionType:
        return bounded(function, function.__module__.rpartition(".")[0])
    return function


def set_operators(find: Callable[[str], Any]) -> None:
    """Fill the search for an operator, method or property of the abstract array by its name."""

    def attach(name: str) -> None:
        method = find(name)
        method = property(_public(method.fget)) if type(method) is property else _public(method)
        setattr(Array, name, method)

    Operator.attach = staticmethod(attach)
