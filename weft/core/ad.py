"""Values of differentiation: symbolic zeros and the marks of linear inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.core.avals import AbstractValue, ShapedArray
from weft.core.registry import lookup
from weft.core.trace import box, eval_trace, state, typeof


class Zero:
    """A tangent or cotangent known to be zero.

    Args:
        aval: its type.

    Example:
        >>> import weft.numpy as jnp
        >>> Zero(jnp.ones(3).aval).aval
        ShapedArray(float32[3])
    """

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue) -> None:
        self.aval = aval

    @staticmethod
    def from_primal(x: Any) -> Zero:
        return Zero(typeof(x).to_tangent_aval())

    def __repr__(self) -> str:
        return f"Zero({self.aval.str_short()})"


class UndefPrimal:
    """An input of a linear program that is not known: the one to transpose with respect to.

    ``masked`` says whether its cotangent may come back with a mask of live elements.
    """

    __slots__ = ("aval", "masked")

    def __init__(self, aval: AbstractValue, masked: bool = False) -> None:
        self.aval = aval
        self.masked = masked

    def __repr__(self) -> str:
        return f"UndefPrimal({self.aval.str_short()})"


def is_undef(x: Any) -> bool:
    return type(x) is UndefPrimal


def zeros(aval: Any) -> Any:
    """A materialised zero of an abstract value, bound as a broadcast so that it stays symbolic."""
    if aval.is_high:
        return aval.vspace_zero()
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return filled(0, aval)


def filled(value: Any, aval: ShapedArray) -> Any:
    """An array of type ``aval`` with every element ``value``."""
    if aval.weak_type:
        scalar = dtypes.scalar_type_of(aval.dtype)(value)
    else:
        scalar = np.asarray(value, aval.dtype)[()]
    if not aval.shape:
        return scalar
    broadcast = lookup("broadcast_in_dim")
    return broadcast.bind(scalar, shape=aval.shape, broadcast_dimensions=(), sharding=aval.divided)


def instantiate(x: Any) -> Any:
    """``x`` itself, or the materialised array if ``x`` is a symbolic zero."""
    return zeros(x.aval) if type(x) is Zero else x


def instantiate_array(x: Any) -> Any:
    """Like ``instantiate``, never a bare scalar: what is handed to the user is an array."""
    value = zeros(x.aval) if type(x) is Zero else x
    if isinstance(value, (np.generic, int, float, complex)) and state.trace is eval_trace:
        aval = typeof(value)
        return box(np.asarray(value, aval.dtype), aval)
    return value


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents, symbolic zeros included."""
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    aval = typeof(x)
    return aval.vspace_add(x, y) if aval.is_high else lookup("add_any").bind(x, y)
