"""The late bindings of the house, filled once by ``weft/__init__.py``.

1. ``set_operators``: operators and methods of arrays, defined in the NumPy room;
2. ``evaluate``: what happens when a primitive is bound with nothing being traced;
3. ``box``: how a NumPy result becomes a concrete array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from weft.base.traceback import bounded
from weft.core.array import Array


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


def set_operators(methods: Mapping[str, Any]) -> None:
    """Attach operators, methods and properties to the abstract array."""
    for name, method in methods.items():
        if type(method) is FunctionType:
            method = bounded(method, Array.__module__)
        elif type(method) is property and type(method.fget) is FunctionType:
            method = property(bounded(method.fget, Array.__module__))
        setattr(Array, name, method)
