"""Operators, methods and properties of arrays, which ``weft.Array`` finds here by their names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.placement import device_put
from weft.base.lazy import Late
from weft.base.source import warn
from weft.core.array import Array
from weft.core.layout import format_of
from weft.core.trace import Tracer
from weft.numpy import indexing, parts, ufuncs, unary
from weft.numpy.promotion import as_array, convert_operand, ensure_array
from weft.prims.convert import copy_p
from weft.prims.families import BOOL, COMPLEX, kind_of

# Each is loaded when an array's operator or method first needs it.
averages = Late("weft.numpy.averages")
contraction = Late("weft.numpy.contraction")
creation = Late("weft.numpy.creation")
index_functions = Late("weft.numpy.index_functions")
index_update = Late("weft.numpy.index_update")
manipulation = Late("weft.numpy.manipulation")
matrices = Late("weft.numpy.matrices")
positions = Late("weft.numpy.positions")
rearranging = Late("weft.numpy.rearranging")
reductions = Late("weft.numpy.reductions")
sorting = Late("weft.numpy.sorting")

_OPERANDS = (Array, int, float, complex, np.ndarray, np.generic)
_UINT8 = np.dtype(np.uint8)


# --- operators ------------------------------------------------------------------------------------


def _other_operand(
    other: Any, symbol: str, refused: tuple[type, ...], self: Any, first: bool = False
) -> Any:
    """What an operand of an unknown type stands for; NotImplemented if for nothing. It may be the
    ``first`` of both as they are written."""
    if hasattr(other, "__jax_array__"):
        return other.__jax_array__()
    if type(other) in refused:
        left, right = (other, self) if first else (self, other)
        name = type(other).__name__
        raise TypeError(
            f"unsupported operand type(s) for {symbol}: '{type(left).__name__}' and"
            f" '{type(right).__name__}'; convert the {name} with jnp.array(...)"
        )
    return NotImplemented


def _binary(
    name: str, symbol: str, function: Callable[..., Any], refused: tuple[type, ...]
) -> Callable[[Any, Any], Any]:
    """The method for an operator, or for its reflection."""

    def operate(self: Any, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            other = _other_operand(other, symbol, refused, self)
            if other is NotImplemented:
                return NotImplemented
        return function(self, other)

    def reflected(self: Any, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            other = _other_operand(other, symbol, refused, self, first=True)
            if other is NotImplemented:
                return NotImplemented
        return function(other, self)

    method = reflected if name in _REFLECTED else operate
    method.__name__ = method.__qualname__ = name
    return method


_SEQUENCES, _CONTAINERS = (tuple, list), (dict, list, set, tuple)
_ARITHMETIC: dict[str, tuple[str, Late, str, tuple[type, ...]]] = {
    "add": ("+", ufuncs, "add", _SEQUENCES),
    "sub": ("-", ufuncs, "subtract", _SEQUENCES),
    "mul": ("*", ufuncs, "multiply", _SEQUENCES),
    "truediv": ("/", ufuncs, "true_divide", _SEQUENCES),
    "floordiv": ("//", ufuncs, "floor_divide", _SEQUENCES),
    "mod": ("%", ufuncs, "remainder", _SEQUENCES),
    "divmod": ("divmod()", ufuncs, "divmod", _SEQUENCES),
    "pow": ("**", ufuncs, "power", _SEQUENCES),
    "matmul": ("@", contraction, "matmul", _SEQUENCES),
    "and": ("&", ufuncs, "bitwise_and", _SEQUENCES),
    "or": ("|", ufuncs, "bitwise_or", _SEQUENCES),
    "xor": ("^", ufuncs, "bitwise_xor", _SEQUENCES),
    "lshift": ("<<", ufuncs, "left_shift", _SEQUENCES),
    "rshift": (">>", ufuncs, "right_shift", _SEQUENCES),
}
_COMPARISONS: dict[str, tuple[str, Late, str, tuple[type, ...]]] = {
    "eq": ("==", ufuncs, "equal", _CONTAINERS),
    "ne": ("!=", ufuncs, "not_equal", _CONTAINERS),
    "lt": ("<", ufuncs, "less", ()),
    "le": ("<=", ufuncs, "less_equal", ()),
    "gt": (">", ufuncs, "greater", ()),
    "ge": (">=", ufuncs, "greater_equal", ()),
}
_REFLECTED = {f"__r{name}__": operator for name, operator in _ARITHMETIC.items()}
_OPERATORS = _REFLECTED | {
    f"__{name}__": operator for name, operator in (_ARITHMETIC | _COMPARISONS).items()
}


def _setitem(self: Any, index: Any, value: Any) -> None:
    if self.aval.is_ref or self.aval.is_high:
        return self.aval.setitem(self, index, value)
    raise TypeError(
        f"'{type(self).__name__}' object does not support item assignment: arrays are immutable."
        " Write x = x.at[index].set(value) (or .add, .multiply, ...) instead of x[index] = value"
    )


def _round_number(self: Any, ndigits: int | None = None) -> Array:
    out = unary.round(self, ndigits or 0)
    return creation.astype(out, int) if ndigits is None else out


def _iterate(self: Any) -> Iterator[Any]:
    if not self.ndim:
        raise TypeError("iteration over a 0-d array")
    return (lax.index_in_dim(self, i, keepdims=False) for i in range(int(self.shape[0])))


def _contains(self: Any, other: Any) -> Array:
    if other is None or isinstance(other, str):
        raise TypeError(f"an array cannot be searched for {other!r}")
    query = ensure_array("in", other)
    if self.ndim != 1 or query.ndim:
        raise ValueError(
            f"'in' looks for a scalar in a vector, got shapes {query.shape} and {self.shape}"
        )
    return reductions.any(ufuncs.equal(self, query))


# --- methods whose arguments differ from the function's -------------------------------------------


def _reshape(self: Any, *args: Any, order: str = "C", out_sharding: Any = None) -> Array:
    """Return the elements of the array with another shape.

    Args:
        *args: New shape, as integers or as one tuple; one size may be -1 and is computed from the
            others.
        order: "C" reads and writes elements in row-major order, "F" in column-major order.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array in the same dtype.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arange(6).reshape(2, -1).shape
        (2, 3)
    """
    if self.aval.is_ref:
        return self.aval.reshape(self, *args)
    shape = args[0] if len(args) == 1 else args
    return manipulation.reshape(self, shape, order, out_sharding=out_sharding)


def _transpose(self: Any, *args: Any) -> Array:
    """Return the array with its axes permuted, by default reversed.

    Args:
        *args: For each axis of the result, the axis it comes from, as integers or as one tuple.

    Returns:
        Array with permuted axes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ones((2, 3, 4)).transpose(0, 2, 1).shape
        (2, 4, 3)
    """
    if len(args) == 1:
        axes = args[0] if args[0] is None else manipulation.axis_tuple(args[0])
        return manipulation.transpose(self, axes)
    return manipulation.transpose(self, args or None)


def _astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Array:
    """Return the array converted to another dtype.

    Args:
        dtype: Dtype of the result; None is the default float type. Floats are truncated towards
            zero when converted to integers.
        copy: If true, the result is a new array even if the dtype stays.
        device: Device or sharding to put the result on.

    Returns:
        Array with the same shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.array([1.7]).astype(int)
        Array([1], dtype=int32)
    """
    return creation.astype(self, dtype, copy=copy, device=device)


def _copy(self: Any) -> Array:
    """Return a copy of the array.

    Returns:
        New array with the same shape and dtype.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ones(2).copy()
        Array([1., 1.], dtype=float32)
    """
    return copy_p.bind(self)


def _compress(
    self: Any,
    condition: Any,
    axis: int | None = None,
    *,
    out: None = None,
    size: int | None = None,
    fill_value: Any = 0,
) -> Array:
    """Return the slices along an axis at which a condition holds.

    Args:
        condition: Boolean vector, at most as long as the axis.
        axis: Axis to select along; None selects from the flattened array.
        out: Must be None; arrays are immutable.
        size: Static number of slices, needed under ``jit``: more are cut off, missing ones filled.
        fill_value: What fills missing slices.

    Returns:
        Array with fewer elements, or ``size``, along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arange(3).compress(jnp.array([True, False, True]))
        Array([0, 2], dtype=int32)
    """
    return index_functions.compress(
        condition, self, axis, size=size, fill_value=fill_value, out=out
    )


def _to_device(self: Any, device: Any, *, stream: Any = None) -> Array:
    """Return the array on another device.

    Args:
        device: Device or sharding.
        stream: Must be None.

    Returns:
        Array with the same values.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> jnp.ones(2).to_device(weft.devices("cpu")[0])
        Array([1., 1.], dtype=float32)
    """
    if stream is not None:
        raise NotImplementedError("to_device does not take a stream: copies are synchronous")
    return device_put(self, device)


def _byteswap(self: Any) -> Array:
    """Return the array with the bytes of each element in reverse order.

    Returns:
        Array with the same shape and dtype.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.array([1], dtype="int16").byteswap()
        Array([256], dtype=int16)
    """
    if kind_of(self.dtype) == COMPLEX:
        return lax.complex(_byteswap(lax.real(self)), _byteswap(lax.imag(self)))
    if self.dtype.itemsize == 1:
        return _copy(self)
    swapped = lax.rev(lax.bitcast_convert_type(self, _UINT8), (self.ndim,))
    return lax.bitcast_convert_type(swapped, self.dtype)


def _view(self: Any, dtype: Any = None, type: None = None) -> Array:
    """Return the bits of the array read as another dtype.

    Args:
        dtype: Dtype of the result. If its width differs, the last axis grows or shrinks
            accordingly.
        type: Must be None.

    Returns:
        Array with the same bits.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.array([1.0]).view("uint32")
        Array([1065353216], dtype=uint32)
    """
    if type is not None:
        raise NotImplementedError("view takes a dtype, not an array class")
    if dtype is None:
        return self
    wanted = dtypes.check_user_dtype(dtype, "view")
    have, want = dtypes.itemsize_bits(self.dtype), dtypes.itemsize_bits(wanted)
    if self.ndim == 0:
        if have != want:
            raise ValueError(f"view of a scalar keeps the width: {self.dtype} is not {wanted}")
        return lax.squeeze(_view(lax.expand_dims(self, (0,)), wanted), (0,))
    if self.shape[-1] * have % want:
        raise ValueError(
            f"view of shape {self.shape} and {self.dtype} as {wanted} needs a last axis that"
            f" divides into elements of {want} bits"
        )
    if self.dtype == wanted:
        return self
    return _reinterpret(self, wanted, have, want)


def _reinterpret(x: Any, dtype: Any, have: int, want: int) -> Any:
    if kind_of(x.dtype) == BOOL:
        if isinstance(x, Tracer):
            return _view(convert_operand(x, _UINT8), dtype)
        return _view(as_array(np.asarray(x).view(_UINT8)), dtype)  # bytes as they are in memory
    if kind_of(x.dtype) == COMPLEX:
        parts = manipulation.stack([lax.real(x), lax.imag(x)], -1)
        flat = lax.reshape(parts, (*x.shape[:-1], 2 * x.shape[-1]))
        return _view(flat, dtype)
    if kind_of(dtype) == BOOL:
        return as_array(convert_operand(_view(x, _UINT8), dtype))
    if kind_of(dtype) == COMPLEX:
        parts = _view(x, dtypes.to_floating_dtype(dtype))
        return lax.complex(parts[..., 0::2], parts[..., 1::2])
    if have < want:
        factor = want // have
        grouped = lax.reshape(x, (*x.shape[:-1], x.shape[-1] // factor, factor))
        return lax.bitcast_convert_type(grouped, dtype)
    out = lax.bitcast_convert_type(x, dtype)
    if have == want:
        return out
    return lax.reshape(out, (*out.shape[:-2], out.shape[-2] * out.shape[-1]))


def _dtype_for_numpy(self: Any) -> Any:
    """What ``np.dtype(x)`` asks for."""
    warn("np.dtype(x) of an array is deprecated; write x.dtype", DeprecationWarning)
    return self.dtype


def _array_namespace(self: Any, *, api_version: str | None = None) -> Any:
    """The module of functions for arrays: this room."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"version {api_version!r} of the array API is not supported")
    return sys.modules[__package__]  # type: ignore[index]


def _array_module(self: Any, types: Any) -> Any:
    if all(issubclass(t, (Array, np.ndarray)) for t in types):
        return sys.modules[__package__]  # type: ignore[index]
    return NotImplemented


_OWN: dict[str, Callable[..., Any]] = {
    "astype": _astype,
    "byteswap": _byteswap,
    "compress": _compress,
    "copy": _copy,
    "reshape": _reshape,
    "to_device": _to_device,
    "transpose": _transpose,
    "view": _view,
    "__abs__": lambda self: unary.absolute(self),
    "__neg__": lambda self: lax.neg(self),
    "__pos__": lambda self: self,
    "__invert__": lambda self: lax.bitwise_not(self),
    "__round__": _round_number,
    "__contains__": _contains,
    "__iter__": _iterate,
    "__setitem__": _setitem,
    "__array_namespace__": _array_namespace,
    "__array_module__": _array_module,
}
_OWN_PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "format": format_of,
    "__numpy_dtype__": _dtype_for_numpy,
}
# The functions that are methods and properties; the function's name stands behind another name.
_METHODS: dict[Late, str] = {
    averages: "mean std var",
    contraction: "dot",
    index_functions: "choose take",
    indexing: "__getitem__=getitem",
    manipulation: "flatten=ravel ravel squeeze swapaxes",
    matrices: "diagonal trace",
    parts: "conj=conjugate conjugate",
    positions: "nonzero",
    rearranging: "repeat",
    reductions: "all any argmax argmin clip cumprod cumsum max min prod ptp sum",
    sorting: "argpartition argsort searchsorted sort",
    unary: "round",
}
_PROPERTIES: dict[Late, str] = {
    index_update: "at=IndexUpdateHelper",
    manipulation: "T=transpose flat=ravel mT=matrix_transpose",
    parts: "imag real",
}


def _function(table: dict[Late, str], name: str) -> Any:
    """The function that a table has for a name, or None."""
    for module, names in table.items():
        for entry in names.split():
            own, _, other = entry.partition("=")
            if own == name:
                return getattr(module, other or own)
    return None


def find(name: str) -> Any:
    """The operator, method or property of a name."""
    if name in _OPERATORS:
        symbol, module, function, refused = _OPERATORS[name]
        return _binary(name, symbol, getattr(module, function), refused)
    getter = _OWN_PROPERTIES.get(name) or _function(_PROPERTIES, name)
    if getter is not None:
        return property(getter)
    return _OWN.get(name) or _function(_METHODS, name)
