"""Making arrays: from data, of one value, of ranges."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.core.array import Array
from weft.core.avals import ShapedArray
from weft.core.shape_dtype import ShapeDtypeStruct
from weft.core.trace import Tracer, box, canonical_numeric, typeof
from weft.lax.shape import canonical_shape
from weft.numpy.promotion import convert_operand
from weft.prims.convert import copy_p
from weft.prims.families import scalar
from weft.tree.functions import tree_leaves


def array(
    object: Any,
    dtype: Any = None,
    *args: Any,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of given data: numbers, nested sequences, NumPy arrays or other arrays.

    >>> import weft.numpy as jnp
    >>> jnp.array([1, 2, 3])
    Array([1, 2, 3], dtype=int32)
    """
    if order is not None and order not in ("K", "C", "A"):
        raise ValueError(f"arrays are laid out in row-major order; order={order!r} is not supported")
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "array")
    result = _from_object(object, wanted, copy)
    if ndmin > result.ndim:
        result = lax.broadcast_to_rank(result, ndmin)
    return result


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """``a`` as an array; itself if it is one of the right dtype already.

    >>> import weft.numpy as jnp
    >>> jnp.asarray([1.0, 2.0])
    Array([1., 2.], dtype=float32)
    """
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "asarray")
    if copy is False and not isinstance(a, Array):
        if isinstance(a, (np.ndarray, bool, int, float, complex, list, tuple)):
            raise ValueError("asarray cannot make an array of this object without a copy")
    return _from_object(a, wanted, bool(copy))


def _from_object(x: Any, dtype: Any, copy: bool) -> Array:
    if isinstance(x, Array):
        return _from_array(x, dtype, copy)
    for protocol in ("__jax_array__", "__weft_array__"):
        if hasattr(x, protocol):
            return _from_array(getattr(x, protocol)(), dtype, copy)
    kind = type(x)
    if kind in (bool, int, float, complex):
        return _from_scalar(x, dtype)
    if isinstance(x, (np.ndarray, np.generic)):
        return _from_numpy(np.asarray(x), dtype)
    if x is None:
        raise TypeError("None is not a valid value for array; arrays hold numbers and booleans")
    if isinstance(x, (list, tuple)):
        return _from_sequence(x, dtype)
    if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
        return _from_numpy(np.asarray(x), dtype)
    try:
        view = memoryview(x)
    except TypeError:
        raise TypeError(
            f"cannot make an array of {x!r} of type {type(x).__name__}; arrays are made of"
            " numbers, nested lists of numbers, and array-like objects"
        ) from None
    return _from_numpy(np.asarray(view), dtype)


def _from_array(x: Any, dtype: Any, copy: bool) -> Array:
    aval = x.aval
    if dtype is not None and (dtype != aval.dtype or aval.weak_type):
        return convert_operand(x, dtype, False)
    if copy:
        return copy_p.bind(x)
    return x


def _from_scalar(x: Any, dtype: Any) -> Array:
    aval = typeof(x)
    weak = aval.weak_type and dtype is None
    dtype = aval.dtype if dtype is None else dtype
    return _boxed(np.asarray(x, dtype), ShapedArray((), dtype, weak))


def _boxed(value: np.ndarray, aval: ShapedArray) -> Any:
    """A concrete array, made even while tracing: its values are known."""
    return box(value, aval)


def _from_numpy(x: np.ndarray, dtype: Any) -> Array:
    if dtype is None:
        dtype = canonical_numeric(x.dtype, x)
    if isinstance(dtype, dtypes.ExtendedDType):
        raise TypeError(f"an array of dtype {dtype} is made with weft.random.wrap_key_data")
    if dtypes.issubdtype(x.dtype, np.complexfloating) and not dtypes.issubdtype(
        dtype, np.complexfloating
    ):
        x = x.real
    value = np.array(x, dtype=dtype, order="C", copy=True)
    return _boxed(value, ShapedArray(value.shape, dtype))


def _from_sequence(x: Any, dtype: Any) -> Array:
    leaves = tree_leaves(x, is_leaf=lambda v: v is None)
    if any(v is None for v in leaves):
        raise TypeError("None is not a valid value for array; arrays hold numbers and booleans")
    if not any(isinstance(v, Array) or hasattr(v, "__jax_array__") for v in leaves):
        return _from_plain_sequence(x, leaves, dtype)
    if dtype is None:
        dtype, weak = dtypes.lattice_result_type(*leaves)
    else:
        weak = False
    parts = [_from_object(v, None, False) for v in x]
    shapes = {p.shape for p in parts}
    if len(shapes) > 1:
        raise ValueError(
            f"cannot make an array of parts of different shapes: {sorted(shapes)}"
        )
    return lax.concatenate(
        [lax.expand_dims(convert_operand(p, dtype, weak), (0,)) for p in parts], 0
    )


def _from_plain_sequence(x: Any, leaves: Any, dtype: Any) -> Array:
    weak = False
    if dtype is None:
        if not leaves:
            dtype, weak = dtypes.default_float_dtype(), False
        else:
            dtype, weak = dtypes.lattice_result_type(*leaves)
            weak = False
    try:
        value = np.asarray(x)
    except ValueError:
        raise ValueError(f"cannot make an array of nested sequences of different lengths: {x!r}") from None
    if value.dtype == object:
        bad = next((v for v in leaves if not isinstance(v, (bool, int, float, complex))), x)
        if isinstance(bad, int):
            raise OverflowError(f"Python int too large to convert to {dtype}: {bad}")
        raise TypeError(
            f"cannot make an array of {bad!r} of type {type(bad).__name__}; arrays hold numbers"
            " and booleans"
        )
    if value.dtype.kind in "SU":
        raise TypeError(f"arrays hold numbers and booleans, not strings: {x!r}")
    return _boxed(_checked_cast(value, dtype), ShapedArray(value.shape, dtype, weak))


def _checked_cast(value: np.ndarray, dtype: Any) -> np.ndarray:
    if value.dtype.kind in "iu" and value.size and dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        low, high = value.min(), value.max()
        if low < info.min or high > info.max:
            raise OverflowError(
                f"Python int too large to convert to {dtype}: {low if low < info.min else high}"
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array(value, dtype=dtype, order="C", copy=True)


def copy(a: Any, order: str | None = None) -> Array:
    """A copy of an array.

    >>> import weft.numpy as jnp
    >>> jnp.copy(jnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    return array(a, copy=True, order=order)


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Array:
    """``x`` in another dtype.

    >>> import weft.numpy as jnp
    >>> jnp.astype(jnp.array([1.7]), int)
    Array([1], dtype=int32)
    """
    if not isinstance(x, Array):
        x = asarray(x)
    wanted = (
        dtypes.default_float_dtype()
        if dtype is None
        else dtypes.check_user_dtype(dtype, "astype")
    )
    if isinstance(wanted, dtypes.ExtendedDType) or isinstance(x.dtype, dtypes.ExtendedDType):
        if wanted == x.dtype:
            return x
        raise ValueError(f"cannot convert an array of dtype {x.dtype} to {wanted}")
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        if dtypes.issubdtype(wanted, np.bool_):
            return lax.ne(x, lax.full_like(x, 0))
        if not dtypes.issubdtype(wanted, np.complexfloating):
            warnings.warn(
                "casting complex numbers to real discards the imaginary part; use jnp.real first",
                np.exceptions.ComplexWarning,
                stacklevel=2,
            )
            x = lax.real(x)
    result = convert_operand(x, wanted, False)
    return copy_p.bind(result) if copy and result is x else result


def _fill_dtype(dtype: Any, name: str) -> Any:
    return (
        dtypes.default_float_dtype() if dtype is None else dtypes.check_user_dtype(dtype, name)
    )


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of zeros.

    >>> import weft.numpy as jnp
    >>> jnp.zeros(2)
    Array([0., 0.], dtype=float32)
    """
    return lax.full(canonical_shape(shape), 0, _fill_dtype(dtype, "zeros"))


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of ones.

    >>> import weft.numpy as jnp
    >>> jnp.ones(2)
    Array([1., 1.], dtype=float32)
    """
    return lax.full(canonical_shape(shape), 1, _fill_dtype(dtype, "ones"))


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array whose values are not to be relied on: zeros.

    >>> import weft.numpy as jnp
    >>> jnp.empty(2).shape
    (2,)
    """
    return zeros(shape, dtype)


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of one value, which may itself be an array to broadcast.

    >>> import weft.numpy as jnp
    >>> jnp.full(2, 7.0)
    Array([7., 7.], dtype=float32)
    """
    shape = canonical_shape(shape)
    weak = dtype is None and dtypes.is_weakly_typed(fill_value)
    if dtype is None:
        wanted = dtypes.dtype(fill_value)
    else:
        wanted = dtypes.check_user_dtype(dtype, "full")
    value = convert_operand(fill_value, wanted, weak)
    have = np.shape(value)
    dims = tuple(range(len(shape) - len(have), len(shape)))
    return lax.broadcast_in_dim(value, shape, dims)


def _like(a: Any, dtype: Any, shape: Any, name: str) -> tuple[Any, tuple[int, ...], bool]:
    if isinstance(a, ShapeDtypeStruct):
        base_dtype, base_shape, weak = a.dtype, a.shape, a.weak_type
    elif hasattr(a, "shape") and hasattr(a, "dtype"):
        base_dtype = dtypes.canonicalize_dtype(a.dtype, allow_extended_dtype=True)
        base_shape, weak = tuple(a.shape), getattr(a, "weak_type", False)
    else:
        x = asarray(a)
        base_dtype, base_shape, weak = x.dtype, x.shape, x.weak_type
    if dtype is not None:
        base_dtype, weak = dtypes.check_user_dtype(dtype, name), False
    return base_dtype, base_shape if shape is None else canonical_shape(shape), weak


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of one value with the shape and dtype of another.

    >>> import weft.numpy as jnp
    >>> jnp.full_like(jnp.ones(2), 7)
    Array([7., 7.], dtype=float32)
    """
    wanted, sizes, weak = _like(a, dtype, shape, "full_like")
    value = convert_operand(fill_value, wanted, weak and not np.shape(fill_value))
    have = np.shape(value)
    return lax.broadcast_in_dim(value, sizes, tuple(range(len(sizes) - len(have), len(sizes))))


def zeros_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Zeros with the shape and dtype of another array.

    >>> import weft.numpy as jnp
    >>> jnp.zeros_like(jnp.ones(2))
    Array([0., 0.], dtype=float32)
    """
    return full_like(a, 0, dtype, shape)


def ones_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Ones with the shape and dtype of another array.

    >>> import weft.numpy as jnp
    >>> jnp.ones_like(jnp.zeros(2))
    Array([1., 1.], dtype=float32)
    """
    return full_like(a, 1, dtype, shape)


def empty_like(
    prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None
) -> Array:
    """An array like another, whose values are not to be relied on.

    >>> import weft.numpy as jnp
    >>> jnp.empty_like(jnp.ones(2)).shape
    (2,)
    """
    return full_like(prototype, 0, dtype, shape)


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Evenly spaced numbers from ``start`` (or 0) up to, not including, ``stop``.

    >>> import weft.numpy as jnp
    >>> jnp.arange(3)
    Array([0, 1, 2], dtype=int32)
    """
    for x in (start, stop, step):
        if isinstance(x, Tracer):
            raise _traced_size(x)
    given = [_scalar_value(x) for x in (start, stop, step) if x is not None]
    if dtype is None:
        dtype = dtypes.result_type(*(x for x in (start, stop, step) if x is not None))
    else:
        dtype = dtypes.check_user_dtype(dtype, "arange")
    if stop is None and step is None:
        size = max(0, int(np.ceil(given[0])))
        return lax.iota(dtype, size)
    first = 0 if stop is None else given[0]
    last = given[0] if stop is None else given[1]
    stride = 1 if step is None else _scalar_value(step)
    if stride == 0:
        raise ZeroDivisionError("arange needs a step that is not zero")
    count = lax.iota(dtype, max(0, int(np.ceil((last - first) / stride))))
    if stride != 1:
        count = lax.mul(scalar(dtype, stride), count)
    return count if first == 0 else lax.add(scalar(dtype, first), count)


def _scalar_value(x: Any) -> Any:
    if isinstance(x, (bool, int, float, complex)):
        return x
    value = np.asarray(x)
    if value.ndim:
        raise TypeError(f"arange takes scalars, got an array of shape {value.shape}")
    return value.item()


def _traced_size(x: Tracer) -> Exception:
    try:
        operator.index(x)
    except Exception as error:
        return error
    return TypeError("arange needs concrete values")


