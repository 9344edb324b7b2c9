"""Making arrays: from data, of one value, of ranges."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import numpy as np

from weft import dtypes, lax
from weft.api.batching import vmap
from weft.api.placement import device_put, of_rank, resharded, result_sharding
from weft.base import knobs
from weft.base.source import warn
from weft.core.array import Array, Number
from weft.core.avals import ShapedArray
from weft.core.dims.dim import Dim, divided_up, is_constant_shape, max_dim, whole
from weft.core.shape_dtype import ShapeDtypeStruct
from weft.core.trace import Tracer, canonical_numeric, eval_trace, state, typeof
from weft.division import varying
from weft.lax.shape import canonical_shape
from weft.numpy.broadcasting import broadcast_to, filled
from weft.numpy.promotion import (
    as_array,
    check_arraylike,
    concrete,
    constant,
    convert_operand,
    ensure_array,
)
from weft.prims.convert import convert_values, copy_p, warn_of_lost_parts
from weft.prims.families import COMPLEX, FLOAT, kind_of, scalar
from weft.runtime import guards
from weft.runtime.devices import default_device, dlpack_client
from weft.transforms.jvp import JVPTracer
from weft.tree.functions import tree_leaves

_PYTHON_SCALARS = (bool, int, float, complex)

R = TypeVar("R")


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
    """Return a new array from numbers, nested sequences, NumPy arrays or other arrays.

    Args:
        object: Data: a number, nested lists or tuples, an array, an object with ``__array__`` or
            ``__jax_array__``, or a buffer.
        dtype: Dtype of the result; by default the one of the data, without ``enable_x64`` at most
            32 bits wide.
        *args: ``copy``, ``order`` and ``ndmin`` by position, which is deprecated.
        copy: If true, an array is copied; if false, the result may be ``object`` itself.
        order: Must be "K" or None; arrays are laid out in row-major order.
        ndmin: Least number of dimensions; axes of size 1 are added in front.
        device: Device or sharding to put the result on; by default the default device.
        out_sharding: Sharding of the result, for meshes with explicit axes. Give ``device`` or
            this, not both.

    Returns:
        Array with the shape of the data.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.array([1, 2, 3])
        Array([1, 2, 3], dtype=int32)
    """
    if args:
        copy, order, ndmin = _positional(args, copy, order, ndmin)
    if order is not None and order != "K":
        raise NotImplementedError(f"arrays are always in row-major order; got order={order!r}")
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "array")
    result = _from_object(object, wanted, copy)
    if ndmin > result.ndim:
        result = lax.broadcast_to_rank(result, ndmin)
    return placed(result, device, out_sharding)


def _positional(args: tuple[Any, ...], copy: Any, order: Any, ndmin: Any) -> tuple[Any, ...]:
    """Options of ``array`` that were given by position."""
    if len(args) > 3:
        raise TypeError(f"array takes at most 5 positional arguments, got {len(args) + 2}")
    warn("pass copy, order and ndmin to array by keyword", DeprecationWarning)
    given = [copy, order, ndmin]
    for i, name in enumerate(("copy", "order", "ndmin")):
        if i < len(args) and given[i] != (True, "K", 0)[i]:
            raise TypeError(f"array got the argument {name} twice")
    return (*args, *given[len(args) :])


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return ``a`` as an array, without a copy if it already is one of the right dtype.

    Args:
        a: Data as for ``array``: a number, nested sequence, or array-like object.
        dtype: Dtype of the result; by default the one of the data, without ``enable_x64`` at most
            32 bits wide.
        order: Must be None or "K"; arrays are laid out in row-major order.
        copy: True always copies; False raises ValueError if memory can't be shared; None copies if
            needed.
        device: Device or sharding to put the result on; by default the default device.
        out_sharding: Sharding of the result, for meshes with explicit axes. Give ``device`` or
            this, not both.

    Returns:
        Array with the shape of the data; ``a`` itself where nothing has to be changed.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.asarray([1.0, 2.0])
        Array([1., 2.], dtype=float32)
    """
    if order is not None and order != "K":
        raise NotImplementedError(f"arrays are always in row-major order; got order={order!r}")
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "asarray")
    if copy is False:
        _check_shared(a, device)
    return placed(_from_object(a, wanted, bool(copy)), device, out_sharding)


def _check_shared(a: Any, device: Any) -> None:
    """Raise ValueError where an array can't be the memory of an object: it is on another device."""
    if isinstance(a, Array):
        return
    try:
        memoryview(a)
    except (TypeError, ValueError):  # numbers, lists
        return
    where = default_device() if device is None else device
    first = next(iter(getattr(where, "device_set", (where,))))
    if first.platform != "cpu":
        raise ValueError(
            f"asarray with copy=False cannot share the memory of a {type(a).__name__} with"
            f" {first}: pass copy=None, or device=weft.devices('cpu')[0]"
        )


def placed(x: Any, device: Any, out_sharding: Any) -> Any:
    """An array put on a device or laid out by a sharding, if one is given."""
    if device is None and out_sharding is None:
        return x
    if device is not None and out_sharding is not None:
        raise ValueError(
            f"give device or out_sharding, not both: got {device!r} and {out_sharding!r}"
        )
    if device is not None:
        return device_put(x, of_rank(device, typeof(x).ndim))
    where = result_sharding(out_sharding, "array creation")
    if where is not None and where.spec.unreduced:
        # each device has all of it as its part of a sum: what is made is not summed up
        shape = np.shape(x)
        dims = tuple(range(len(shape)))
        return lax.broadcast_in_dim(x, shape, dims, out_sharding=where)
    return x if where is None else resharded(x, where)


def _guarded(name: str, *values: Any) -> None:
    """Raise where a transfer guard forbids to copy values of the host."""
    if guards.looks() and state.trace is eval_trace:
        guards.from_host([leaf for x in values for leaf in tree_leaves(x)], name)


def _from_object(x: Any, dtype: Any, copy: bool) -> Array:
    thread = knobs.thread
    if thread.transfer_guard_host_to_device is not None or thread.context_key.plain is not None:
        _guarded("array", x)
    kind = type(x)
    if kind is float or kind is int:
        return _from_scalar(x, dtype)
    if kind is list:
        return _from_sequence(x, dtype)
    if isinstance(x, Array):
        return _from_array(x, dtype, copy)
    if isinstance(x, (np.ndarray, np.generic)):
        canonical_numeric(x.dtype, x)  # as an array it would look like others
        return _from_numpy(np.asarray(x), dtype)
    if isinstance(x, _PYTHON_SCALARS):
        return _from_scalar(x, dtype)
    if isinstance(x, (list, tuple)):
        return _from_sequence(x, dtype)
    if hasattr(x, "__jax_array__"):
        return _from_array(x.__jax_array__(), dtype, copy)
    if x is None:
        raise ValueError("None is not a valid value for array; arrays hold numbers and booleans")
    if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
        return _from_numpy(np.asarray(x), dtype)
    try:
        view = memoryview(x)
    except TypeError:
        if isinstance(x, str) and dtype is not None:
            raise ValueError(f"the text {x!r} isn't a number of dtype {dtype}") from None
        if not _holds_numbers(x):
            raise _not_data(x) from None
        return _from_numpy(np.asarray(x), dtype)
    return _from_numpy(np.asarray(view), dtype)


def _holds_numbers(x: Any) -> bool:
    """Whether NumPy reads numbers out of an object: a range, a deque, a sequence of the user's."""
    return hasattr(x, "__getitem__") and np.asarray(x).dtype.kind in "biufc"


def _not_data(x: Any) -> TypeError:
    return TypeError(
        f"cannot make an array of {x!r} of type {type(x).__name__}; arrays are made of numbers,"
        " nested lists of numbers, and array-like objects"
    )


_NOT_YET_ARRAYS = (int, float, complex, np.generic, np.ndarray)


def _from_array(x: Any, dtype: Any, copy: bool) -> Array:
    if copy or (type(x) is JVPTracer and isinstance(x._concrete(), _NOT_YET_ARRAYS)):
        x = copy_p.bind(x)  # of what is being differentiated, an array
    if dtype is None:
        return x
    if isinstance(dtype, dtypes.ExtendedDType):
        return lax.convert_element_type(x, dtype)
    return as_array(convert_operand(x, dtype))


def _from_scalar(x: Any, dtype: Any) -> Array:
    if dtype is None:
        return as_array(x)
    if type(x) is complex and kind_of(dtype) != COMPLEX:
        raise TypeError(f"cannot make an array of dtype {dtype} of the complex number {x}")
    return constant(np.asarray(x, dtype), ShapedArray((), dtype))


def _from_numpy(x: np.ndarray, dtype: Any) -> Array:
    own = canonical_numeric(x.dtype, x)
    if isinstance(dtype, dtypes.PrimalTangentDType):
        return lax.convert_element_type(_from_numpy(x, None), dtype)
    if isinstance(dtype, dtypes.ExtendedDType):
        raise TypeError(f"make an array of dtype {dtype} with weft.random.wrap_key_data")
    if dtype is None or dtype == x.dtype:
        value = x.astype(own if dtype is None else dtype, "C", "unsafe", False)
    else:
        warn_of_lost_parts(own, dtype)
        with np.errstate(all="ignore"):
            value = np.array(convert_values(x, dtype), order="C", copy=True)
    return constant(value, ShapedArray(value.shape, value.dtype), x)


def _is_leaf(x: Any) -> bool:
    return not isinstance(x, (list, tuple))


def _item_kind(x: Any) -> Any:
    """The one type of number in a sequence, or in the sequences in it; None if there are more."""
    kinds = set(map(type, x))
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    if kind is list or kind is tuple:
        inner = {_item_kind(row) for row in x}
        return inner.pop() if len(inner) == 1 else None
    return kind if kind in _ITEM_DTYPES else None


_ITEM_DTYPES: dict[Any, Callable[[], Any]] = {
    bool: lambda: np.dtype(np.bool_),
    int: dtypes.default_int_dtype,
    float: dtypes.default_float_dtype,
}


def _from_sequence(x: Any, dtype: Any) -> Array:
    kind = _item_kind(x)
    if kind is not None:
        try:
            value = np.array(x, _ITEM_DTYPES[kind]() if dtype is None else dtype)
        except (ValueError, OverflowError):
            pass  # the rest says what is wrong
        else:
            return constant(value, ShapedArray(value.shape, value.dtype))
    leaves = tree_leaves(x, is_leaf=_is_leaf)
    for leaf in leaves:
        if leaf is None:
            raise ValueError(
                "None is not a valid value for array; arrays hold numbers and booleans"
            )
    wanted = dtype
    if dtype is None:
        wanted = dtypes.default_float_dtype() if not leaves else _common_dtype(leaves)
    for leaf in leaves:
        if isinstance(leaf, Array) or hasattr(leaf, "__jax_array__"):
            return _joined(x, wanted)
    try:
        value = np.array(x, dtype=wanted, order="C")
    except ValueError:
        raise ValueError(
            f"cannot make an array of nested sequences of different lengths: {x!r}"
        ) from None
    return constant(value, ShapedArray(value.shape, wanted))


def _common_dtype(leaves: Any) -> Any:
    for leaf in leaves:
        if isinstance(leaf, (str, bytes, set, dict)):
            raise _not_data(leaf)
    try:
        return dtypes.lattice_result_type(*leaves)[0]
    except TypeError:
        for leaf in leaves:
            known = isinstance(leaf, _PYTHON_SCALARS) or hasattr(leaf, "__array__")
            if not known and not _holds_numbers(leaf):
                raise _not_data(leaf) from None
        return dtypes.lattice_result_type(*map(np.asarray, leaves))[0]


def _joined(x: Any, dtype: Any) -> Any:
    """An array of a sequence with arrays in it: its parts joined along a new leading axis."""
    rows = [lax.expand_dims(_from_object(v, dtype, False), (0,)) for v in x]
    shapes = sorted({row.shape[1:] for row in rows})
    if len(shapes) > 1:
        raise TypeError(f"cannot make an array of parts of different shapes: {shapes}")
    # many parts are joined by levels, so that no equation has too many operands
    while len(rows) > 16:
        rows = [lax.concatenate(rows[i : i + 16], 0) for i in range(0, len(rows), 16)]
    return lax.concatenate(rows, 0)


def copy(a: Any, order: str | None = None) -> Array:
    """Return a copy of an array.

    Args:
        a: Array or scalar.
        order: Must be None or "K"; arrays are laid out in row-major order.

    Returns:
        New array with the shape and dtype of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.copy(jnp.ones(2))
        Array([1., 1.], dtype=float32)
    """
    check_arraylike("copy", a)
    return array(a, copy=True, order=order)


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Array:
    """Return an array converted to another dtype.

    Args:
        x: Array or scalar.
        dtype: Dtype of the result; None is the default float type. Floats are truncated towards
            zero when converted to integers.
        copy: If true, the result is a new array even if the dtype stays.
        device: Device or sharding to put the result on.

    Returns:
        Array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.astype(jnp.array([1.7]), int)
        Array([1], dtype=int32)
    """
    x = ensure_array("astype", x)
    if dtype is None:
        wanted: Any = dtypes.default_float_dtype()
    else:
        wanted = dtypes.check_user_dtype(dtype, "astype")
    if isinstance(wanted, dtypes.ExtendedDType) or isinstance(x.dtype, dtypes.ExtendedDType):
        x = lax.convert_element_type(x, wanted)
    elif kind_of(x.dtype) == COMPLEX and kind_of(wanted) != COMPLEX:
        x = _without_imaginary(x, wanted)
    result = convert_operand(x, wanted)
    return placed(copy_p.bind(result) if copy else as_array(result), device, None)


def _without_imaginary(x: Any, dtype: Any) -> Any:
    if dtype == np.bool_:
        return lax.ne(x, scalar(x.dtype, 0))
    warn(
        "casting complex numbers to real discards the imaginary part; use jnp.real first",
        DeprecationWarning,
    )
    return lax.real(x)


# --- of one value ---------------------------------------------------------------------------------


def _fill_dtype(dtype: Any, shape: Any, name: str) -> Any:
    if isinstance(shape, Generator):
        raise TypeError(f"{name} needs a shape with a length or an integer, got a generator")
    if isinstance(dtype, int) and isinstance(shape, int):
        raise TypeError(
            f"cannot use {dtype} as a dtype; for a shape of two sizes write"
            f" {name}(({shape}, {dtype}))"
        )
    return dtypes.check_user_dtype(float if dtype is None else dtype, name)


def _sizes(name: str, shape: Any) -> tuple[int, ...]:
    sizes = canonical_shape(shape)
    for n in sizes:
        if n < 0:
            raise TypeError(f"{name} needs non-negative sizes, got shape {sizes}")
    return sizes


def _void(sizes: tuple[int, ...]) -> Any:
    """An array of float0, the tangents of integers: it has no values, and NumPy's type."""
    return np.zeros(sizes, dtypes.float0)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Return an array of zeros.

    Args:
        shape: Shape of the result, an integer or a tuple of integers. Must be static.
        dtype: Dtype of the result; by default the default float type (float32, or float64 with
            ``enable_x64``).
        device: Device or sharding to put the result on; by default the default device.
        out_sharding: Sharding of the result, for meshes with explicit axes. Give ``device`` or
            this, not both.

    Returns:
        Array of shape ``shape``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.zeros(2)
        Array([0., 0.], dtype=float32)
    """
    wanted = _fill_dtype(dtype, shape, "zeros")
    if wanted == dtypes.float0:
        return _void(_sizes("zeros", shape))
    _guarded("zeros", 0)
    return placed(filled(_sizes("zeros", shape), scalar(wanted, 0)), device, out_sharding)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Return an array of ones.

    Args:
        shape: Shape of the result, an integer or a tuple of integers. Must be static.
        dtype: Dtype of the result; by default the default float type (float32, or float64 with
            ``enable_x64``).
        device: Device or sharding to put the result on; by default the default device.
        out_sharding: Sharding of the result, for meshes with explicit axes. Give ``device`` or
            this, not both.

    Returns:
        Array of shape ``shape``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ones(2)
        Array([1., 1.], dtype=float32)
    """
    wanted = _fill_dtype(dtype, shape, "ones")
    if wanted == dtypes.float0:
        return _void(_sizes("ones", shape))
    _guarded("ones", 1)
    return placed(filled(_sizes("ones", shape), scalar(wanted, 1)), device, out_sharding)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Return an array whose values you must not rely on.

    Args:
        shape: Shape of the result, an integer or a tuple of integers. Must be static.
        dtype: Dtype of the result; by default the default float type (float32, or float64 with
            ``enable_x64``).
        device: Device or sharding to put the result on; by default the default device.
        out_sharding: Sharding of the result, for meshes with explicit axes. Give ``device`` or
            this, not both.

    Returns:
        Array of shape ``shape``. It holds zeros: memory is never left uninitialised.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.empty(2).shape
        (2,)
    """
    return zeros(shape, dtype, device=device, out_sharding=out_sharding)


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array filled with one value.

    Args:
        shape: Shape of the result, an integer or a tuple of integers. Must be static.
        fill_value: Scalar, or an array that broadcasts to ``shape``.
        dtype: Dtype of the result; by default that of ``fill_value``.
        device: Device or sharding to put the result on; by default the default device.
        out_sharding: Sharding of the result, for meshes with explicit axes. Give ``device`` or
            this, not both.

    Returns:
        Array of shape ``shape``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.full(2, 7.0)
        Array([7., 7.], dtype=float32, weak_type=True)
    """
    check_arraylike("full", fill_value)
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "full")
    if wanted is not None and wanted == dtypes.float0:
        return _void(_sizes("full", shape))
    if np.ndim(fill_value):
        value = asarray(fill_value, wanted)
        return placed(broadcast_to(value, shape), device, out_sharding)
    weak = wanted is None and dtypes.is_weakly_typed(fill_value)
    if wanted is None:
        wanted = dtypes.dtype(fill_value)
    _refuse_complex("full", fill_value, wanted)
    _guarded("full", fill_value)
    value = convert_operand(fill_value, wanted, weak)
    return placed(filled(_sizes("full", shape), value), device, out_sharding)


def _like(a: Any, dtype: Any, shape: Any, name: str) -> tuple[Any, tuple[int, ...], bool]:
    """Dtype, shape and weak type of a new array that is like another."""
    if isinstance(a, ShapeDtypeStruct):
        own, sizes, weak = a.dtype, a.shape, a.weak_type
    elif hasattr(a, "shape") and hasattr(a, "dtype"):
        own = a.dtype if isinstance(a, Array) else dtypes.canonicalize_dtype(a.dtype, True)
        sizes, weak = tuple(a.shape), getattr(a, "weak_type", False)
    else:
        aval = ensure_array(name, a).aval
        own, sizes, weak = aval.dtype, aval.shape, aval.weak_type
    if dtype is not None:
        own, weak = dtypes.check_user_dtype(dtype, name), False
    return own, sizes if shape is None else _sizes(name, shape), weak


def _kept(dtype: Any) -> Any:
    """A scope in which a dtype is not narrowed: an array like one of 64 bits has as many."""
    wide = dtypes.canonicalize_dtype(dtype, True) != dtype
    return knobs.enable_x64(True) if wide else contextlib.nullcontext()


def _refuse_complex(name: str, value: Any, dtype: Any) -> None:
    if type(value) is complex and kind_of(dtype) != COMPLEX:
        raise TypeError(
            f"{name} cannot put the complex number {value} into an array of dtype {dtype};"
            " give its real part, or a complex dtype"
        )


def full_like(
    a: Any,
    fill_value: Number,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array filled with one value, with the shape and dtype of another.

    Args:
        a: Array, scalar or ``ShapeDtypeStruct`` that gives shape, dtype and, if it is committed to
            one, the device.
        fill_value: Scalar, or an array that broadcasts to the shape; converted to the dtype.
        dtype: Dtype of the result; by default that of ``a``.
        shape: Shape of the result; by default that of ``a``.
        device: Device or sharding to put the result on; by default the default device.
        out_sharding: Sharding of the result, for meshes with explicit axes. Give ``device`` or
            this, not both.

    Returns:
        Array with the shape and dtype of ``a`` unless others are given.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.full_like(jnp.ones(2), 7)
        Array([7., 7.], dtype=float32)
    """
    wanted, sizes, weak = _like(a, dtype, shape, "full_like")
    if wanted == dtypes.float0:
        return _void(sizes)
    check_arraylike("full_like", fill_value)
    _guarded("full_like", fill_value)
    with _kept(wanted):
        if np.ndim(fill_value):
            value = broadcast_to(asarray(fill_value, wanted), sizes)
        else:
            _refuse_complex("full_like", fill_value, wanted)
            value = filled(sizes, convert_operand(fill_value, wanted, weak))
    if device is None and out_sharding is None:
        own = getattr(getattr(a, "aval", None), "divided", None)
        if getattr(a, "committed", isinstance(a, ShapeDtypeStruct)) and a.sharding is not None:
            if sizes == a.shape or a.sharding.num_devices == 1:
                device = a.sharding
        elif own is not None and sizes == a.shape:
            return resharded(value, own)
    if shape is None and isinstance(a, Tracer):
        value = varying.like(value, a)
    return placed(value, device, out_sharding)


def zeros_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Return an array of zeros with the shape and dtype of another.

    Args:
        a: Array, scalar or ``ShapeDtypeStruct`` that gives shape, dtype and, if it is committed to
            one, the device.
        dtype: Dtype of the result; by default that of ``a``.
        shape: Shape of the result; by default that of ``a``.
        device: Device or sharding to put the result on; by default the default device.
        out_sharding: Sharding of the result, for meshes with explicit axes. Give ``device`` or
            this, not both.

    Returns:
        Array with the shape and dtype of ``a`` unless others are given.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.zeros_like(jnp.ones(2))
        Array([0., 0.], dtype=float32)
    """
    return full_like(a, 0, dtype, shape, device=device, out_sharding=out_sharding)


def ones_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Return an array of ones with the shape and dtype of another.

    Args:
        a: Array, scalar or ``ShapeDtypeStruct`` that gives shape, dtype and, if it is committed to
            one, the device.
        dtype: Dtype of the result; by default that of ``a``.
        shape: Shape of the result; by default that of ``a``.
        device: Device or sharding to put the result on; by default the default device.
        out_sharding: Sharding of the result, for meshes with explicit axes. Give ``device`` or
            this, not both.

    Returns:
        Array with the shape and dtype of ``a`` unless others are given.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ones_like(jnp.zeros(2))
        Array([1., 1.], dtype=float32)
    """
    return full_like(a, 1, dtype, shape, device=device, out_sharding=out_sharding)


def empty_like(
    prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None
) -> Array:
    """Return an array like another whose values you must not rely on.

    Args:
        prototype: Array, scalar or ``ShapeDtypeStruct`` that gives shape and dtype.
        dtype: Dtype of the result; by default that of ``prototype``.
        shape: Shape of the result; by default that of ``prototype``.
        device: Device or sharding to put the result on; by default the default device.

    Returns:
        Array with the shape and dtype of ``prototype`` unless others are given. It holds zeros.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.empty_like(jnp.ones(2)).shape
        (2,)
    """
    return full_like(prototype, 0, dtype, shape, device=device)


# --- of ranges and functions ----------------------------------------------------------------------


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return evenly spaced numbers from ``start`` up to, but not including, ``stop``.

    Args:
        start: First number; with one argument, the end, and the range starts at 0.
        stop: End of the range, which is not included.
        step: Distance of neighbours, not 0; 1 by default. May be negative.
        dtype: Dtype of the result; by default the one that the arguments promote to.
        device: Device or sharding to put the result on; by default the default device.
        out_sharding: Sharding of the result, for meshes with explicit axes. Give ``device`` or
            this, not both.

    Returns:
        One-dimensional array of ``ceil((stop - start) / step)`` numbers. The arguments must be
        static; for floats ``linspace`` is safer.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arange(3)
        Array([0, 1, 2], dtype=int32)
    """
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "arange")
    names = ("stop" if stop is None else "start", "stop", "step")
    given = [_bound(name, x) for name, x in zip(names, (start, stop, step))]
    if given[0] is None:
        raise TypeError("arange needs at least one number")
    if wanted is None:
        wanted = dtypes.result_type(*(x for x in given if x is not None))
    first, last, stride = given
    if last is None:
        first, last = 0, first
    if not is_constant_shape((first, last, stride)):
        return placed(_symbolic_range(first, last, stride, wanted), device, out_sharding)
    return placed(_range(first, last, stride, wanted), device, out_sharding)


def _range(first: Any, last: Any, stride: Any, dtype: Any) -> Any:
    if stride is not None:
        working = dtype
        if kind_of(dtype) == FLOAT and dtype.itemsize < 4:
            working = np.dtype(np.float32)
        if stride == 0:
            raise ZeroDivisionError("arange needs a step other than 0")
        size = max(0, int(np.ceil((last - first) / stride)))
        steps = lax.mul(convert_operand(stride, working), lax.iota(working, size))
        return convert_operand(lax.add(convert_operand(first, working), steps), dtype)
    if first == 0:
        return lax.iota(dtype, max(0, int(np.ceil(last))))
    size = max(0, int(np.ceil(last - first)))
    return lax.add(convert_operand(first, dtype), lax.iota(dtype, size))


def _symbolic_range(first: Any, last: Any, stride: Any, dtype: Any) -> Any:
    """A range with a symbolic dimension among its bounds."""
    try:
        bounds = [whole(n) for n in (first, last, 1 if stride is None else stride)]
    except TypeError:
        raise ValueError(
            f"arange with a symbolic dimension takes whole numbers, got {(first, last, stride)}"
        ) from None
    first, last, stride = bounds
    if stride == 0:
        raise ZeroDivisionError("arange needs a step other than 0")
    if not stride > 0:  # which is an error if it depends on the dimensions
        size = max_dim(divided_up(first - last, -stride), 0)
    else:
        size = max_dim(divided_up(last - first, stride), 0)
    found = lax.iota(dtype, size)
    if not (type(stride) is int and stride == 1):
        found = lax.mul(scalar(dtype, stride), found)
    return found if type(first) is int and not first else lax.add(scalar(dtype, first), found)


def _bound(name: str, x: Any) -> Any:
    """A number that bounds a range, known and real."""
    if x is None or type(x) in (int, float, Dim):
        return x
    check_arraylike("arange", x)
    value = concrete(x, f"arange needs a concrete {name}; sizes cannot depend on traced values")
    if np.ndim(value):
        raise ValueError(f"arange takes scalars, got {name} of shape {np.shape(value)}")
    if isinstance(value, Array):
        value = np.asarray(value)[()]
    if np.iscomplexobj(value):
        raise ValueError(f"arange takes real numbers, got {name}={value}")
    return value


def fromfunction(function: Callable[..., R], shape: Any, *, dtype: Any = float, **kwargs: Any) -> R:
    """Return an array with the values of a function at every index of a shape.

    Args:
        function: Function of one scalar index for each axis. It is mapped with ``vmap``, so it must
            be traceable.
        shape: Shape of the result, a tuple of integers.
        dtype: Dtype of the indices that ``function`` receives.
        **kwargs: Passed on to ``function``.

    Returns:
        Array of shape ``shape``, or a tree of them as ``function`` returns.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fromfunction(lambda i, j: i + 10 * j, (2, 2), dtype=int)
        Array([[ 0, 10],
               [ 1, 11]], dtype=int32)
    """
    sizes = canonical_shape(shape)
    for i in range(len(sizes)):
        mapped = [0 if i == j else None for j in range(len(sizes))]
        function = vmap(function, in_axes=tuple(mapped[::-1]))
    return function(*(arange(n, dtype=dtype) for n in sizes), **kwargs)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """Return a one-dimensional array of the bytes of an object.

    Args:
        buffer: Object with the buffer interface, such as bytes.
        dtype: Dtype that the bytes are read as.
        count: Number of elements to read; -1 for all.
        offset: Byte to start at.

    Returns:
        One-dimensional array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.frombuffer(b"\x01\x02", dtype="uint8")
        Array([1, 2], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtype=dtype, count=count, offset=offset))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Array:
    """Return a one-dimensional array of the numbers in a text.

    Args:
        string: Text with numbers.
        dtype: Dtype of the numbers.
        count: Number of elements to read; -1 for all.
        sep: Text between the numbers; whitespace matches any whitespace.

    Returns:
        One-dimensional array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fromstring("1 2", sep=" ")
        Array([1., 2.], dtype=float32)
    """
    return asarray(np.fromstring(string, dtype=dtype, count=count, sep=sep))


def fromfile(*args: Any, **kwargs: Any) -> Array:
    """Return an array of the data in a file.

    Args:
        *args: Arguments of ``numpy.fromfile``: file, dtype, count, sep, offset.
        **kwargs: The same by keyword.

    Returns:
        One-dimensional array. The file is read when the function is called, while tracing too.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fromfile("/dev/null").shape
        (0,)
    """
    return asarray(np.fromfile(*args, **kwargs))


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """Return an array of the values that an iterable yields.

    Args:
        *args: Arguments of ``numpy.fromiter``: iterable, dtype, count.
        **kwargs: The same by keyword.

    Returns:
        One-dimensional array. The iterable is read when the function is called, while tracing too.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fromiter(range(3), int)
        Array([0, 1, 2], dtype=int32)
    """
    return asarray(np.fromiter(*args, **kwargs))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Return an array that shares the memory of another library's array.

    Args:
        x: Object with ``__dlpack__``, such as a PyTorch tensor or a NumPy array.
        device: Device or sharding to move the result to; by default it stays where it is.
        copy: True copies the memory; None and False share it where dtype and device allow.

    Returns:
        Array with the shape and dtype of ``x``. Don't change ``x`` afterwards: arrays are
        immutable.

    Example:
        >>> import numpy as np, weft.numpy as jnp
        >>> jnp.from_dlpack(np.ones(2, np.float32))
        Array([1., 1.], dtype=float32)
    """
    if isinstance(x, Tracer):
        raise TypeError("a traced array has no memory to share through DLPack")
    if isinstance(x, Array):
        return placed(copy_p.bind(x) if copy else x, device, None)
    if not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"from_dlpack takes arrays that export their memory, got {type(x).__name__}"
        )
    kind, number = x.__dlpack_device__() if hasattr(x, "__dlpack_device__") else (1, 0)
    reads = kind == 1 and _reads_host(device)
    if kind != 1 or reads:
        client = device.client if reads else dlpack_client(kind, number)
        found = client.from_dlpack(x, copy)
        dtype = canonical_numeric(found.dtype, found)
        return placed(found if dtype == found.dtype else found.astype(dtype), device, None)
    value = np.from_dlpack(x)
    if copy or canonical_numeric(value.dtype, value) != value.dtype:
        return placed(_from_numpy(value, None), device, None)
    return placed(constant(value, ShapedArray(value.shape, value.dtype)), device, None)


def _reads_host(device: Any) -> bool:
    """Whether a device other than the host's has arrays over memory of the host."""
    client = getattr(device, "client", None)
    return hasattr(client, "from_dlpack") and client.dlpack_device[0] == 1


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the array, or the arrays, of a file written by ``save`` or ``savez``.

    Args:
        file: Path, or file object opened for reading bytes.
        *args: Further arguments of ``numpy.load``.
        **kwargs: Further arguments of ``numpy.load``, such as ``allow_pickle``.

    Returns:
        Array for a .npy file; for a .npz file NumPy's mapping of names to NumPy arrays.

    Example:
        >>> import io, weft.numpy as jnp
        >>> file = io.BytesIO()
        >>> jnp.save(file, jnp.arange(2)); _ = file.seek(0)
        >>> jnp.load(file)
        Array([0, 1], dtype=int32)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == np.dtype("V2"):
        found = found.view("bfloat16")
    return asarray(found)


save, savez = np.save, np.savez
