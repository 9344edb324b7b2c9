"""Operators and methods of arrays: the table that is attached to ``weft.Array``."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft.core.array import Array
from weft.numpy import creation, indexing, ufuncs, unary
from weft.numpy.index_update import IndexUpdateHelper

_OPERANDS = (Array, bool, int, float, complex, np.ndarray, np.generic)


def _accepted(x: Any) -> bool:
    return isinstance(x, _OPERANDS) or hasattr(x, "__jax_array__")


def _binary(name: str, function: Any) -> Any:
    def operate(self: Any, other: Any) -> Any:
        if not _accepted(other):
            return NotImplemented
        return function(self, other)

    operate.__name__ = operate.__qualname__ = name
    return operate


def _reflected(name: str, function: Any) -> Any:
    def operate(self: Any, other: Any) -> Any:
        if not _accepted(other):
            return NotImplemented
        return function(other, self)

    operate.__name__ = operate.__qualname__ = name
    return operate


def _setitem(self: Any, index: Any, value: Any) -> None:
    raise TypeError(
        f"'{type(self).__name__}' object does not support item assignment: arrays are immutable."
        " Write x = x.at[index].set(value) (or .add, .multiply, ...) instead of x[index] = value"
    )


def _unary(function: Any) -> Any:
    return lambda self: function(self)


BINARY = {
    "add": ufuncs.add,
    "sub": ufuncs.subtract,
    "mul": ufuncs.multiply,
    "truediv": ufuncs.true_divide,
    "floordiv": ufuncs.floor_divide,
    "mod": ufuncs.remainder,
    "divmod": ufuncs.divmod,
    "pow": ufuncs.power,
    "and": ufuncs.bitwise_and,
    "or": ufuncs.bitwise_or,
    "xor": ufuncs.bitwise_xor,
    "lshift": ufuncs.left_shift,
    "rshift": ufuncs.right_shift,
}
COMPARE = {
    "eq": ufuncs.equal,
    "ne": ufuncs.not_equal,
    "lt": ufuncs.less,
    "le": ufuncs.less_equal,
    "gt": ufuncs.greater,
    "ge": ufuncs.greater_equal,
}


def methods() -> dict[str, Any]:
    """Operators, methods and properties by name."""
    table: dict[str, Any] = {}
    for name, function in BINARY.items():
        table[f"__{name}__"] = _binary(f"__{name}__", function)
        table[f"__r{name}__"] = _reflected(f"__r{name}__", function)
    for name, function in COMPARE.items():
        table[f"__{name}__"] = _binary(f"__{name}__", function)
    table["__neg__"] = _unary(unary.negative)
    table["__pos__"] = _unary(unary.positive)
    table["__abs__"] = _unary(unary.absolute)
    table["__invert__"] = _unary(unary.invert)
    table["__getitem__"] = indexing.getitem
    table["__setitem__"] = _setitem
    table["at"] = property(IndexUpdateHelper)
    table["astype"] = creation.astype
    table["copy"] = creation.copy
    table["conj"] = table["conjugate"] = unary.conjugate
    table["real"] = property(unary.real)
    table["imag"] = property(unary.imag)
    table["reshape"] = _reshape
    return table


def _reshape(self: Any, *args: Any, order: str = "C", out_sharding: Any = None) -> Any:
    shape = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
    return lax.reshape(self, tuple(shape))
