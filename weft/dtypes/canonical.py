"""From what a user gives as a dtype, or a value, to the dtype that weft uses.

64-bit dtypes become 32-bit ones here unless the knob ``enable_x64`` is on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

from weft.base import knobs, source
from weft.dtypes import kinds
from weft.dtypes.kinds import AnyDType, DType, DTypeLike, ExtendedDType

_BOOL = np.dtype(np.bool_)
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_UINT32, _UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_COMPLEX64, _COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)

_NARROWED: dict[DType, DType] = {
    _INT64: _INT32,
    _UINT64: _UINT32,
    _FLOAT64: _FLOAT32,
    _COMPLEX128: _COMPLEX64,
}

_knobs = knobs.thread


def default_bool_dtype() -> DType:
    """The dtype of Python's bool."""
    return _BOOL


def default_int_dtype() -> DType:
    """Return the dtype of Python's int: int32, or int64 under ``enable_x64``.

    Returns:
        A dtype.

    Example:
        >>> default_int_dtype()
        dtype('int32')
    """
    return _INT64 if _knobs.enable_x64 else _INT32


def default_uint_dtype() -> DType:
    """Return the default unsigned dtype: uint32, or uint64 under ``enable_x64``.

    Returns:
        A dtype.

    Example:
        >>> default_uint_dtype()
        dtype('uint32')
    """
    return _UINT64 if _knobs.enable_x64 else _UINT32


def default_float_dtype() -> DType:
    """Return the dtype of Python's float: float32, or float64 under ``enable_x64``.

    Returns:
        A dtype.

    Example:
        >>> default_float_dtype()
        dtype('float32')
    """
    return _FLOAT64 if _knobs.enable_x64 else _FLOAT32


def default_complex_dtype() -> DType:
    """Return the dtype of Python's complex: complex64, or complex128 under ``enable_x64``.

    Returns:
        A dtype.

    Example:
        >>> default_complex_dtype()
        dtype('complex64')
    """
    return _COMPLEX128 if _knobs.enable_x64 else _COMPLEX64


# By NumPy's letter for the kind.
default_types: dict[str, Callable[[], DType]] = {
    "b": default_bool_dtype,
    "i": default_int_dtype,
    "u": default_uint_dtype,
    "f": default_float_dtype,
    "c": default_complex_dtype,
}

python_scalar_dtypes: dict[type, Callable[[], DType]] = {
    bool: default_bool_dtype,
    int: default_int_dtype,
    float: default_float_dtype,
    complex: default_complex_dtype,
}


def _canonical_table(narrowed: dict[DType, DType]) -> dict[Any, DType]:
    table: dict[Any, DType] = {}
    for dtype in kinds.all_dtypes:
        table[dtype] = narrowed.get(dtype, dtype)
        if dtype != kinds.float0:
            table[dtype.type] = table[dtype]
    return table


# For every valid dtype and its scalar class, so that the usual call is one lookup.
_CANONICAL_64 = _canonical_table({})
_CANONICAL_32 = _canonical_table(_NARROWED)


@overload
def canonicalize_dtype(dtype: Any, allow_extended_dtype: Literal[False] = False) -> DType: ...


@overload
def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool) -> Any: ...


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """Return the dtype as weft uses it: 64-bit ones become 32-bit unless ``enable_x64`` is on.

    Args:
        dtype: a dtype, or what stands for one.
        allow_extended_dtype: accept dtypes such as those of random keys.

    Returns:
        A dtype.

    Example:
        >>> canonicalize_dtype("float16")
        dtype('float16')
    """
    x64 = _knobs.enable_x64
    found = (_CANONICAL_64 if x64 else _CANONICAL_32).get(dtype)
    if found is not None:
        return found
    if isinstance(dtype, ExtendedDType) or _is_extended_class(dtype):
        if not allow_extended_dtype:
            raise ValueError(f"this needs an ordinary dtype; got the extended dtype {dtype}")
        return dtype
    converted = np.dtype(dtype)
    return converted if x64 else _NARROWED.get(converted, converted)


def _is_extended_class(x: Any) -> bool:
    return isinstance(x, type) and issubclass(x, kinds.extended)


def narrow_explicit_dtype(dtype: DType, where: str = "") -> DType:
    """``canonicalize_dtype`` for a dtype that was asked for: says so when it is narrowed."""
    if dtype not in _NARROWED or _knobs.enable_x64:
        return dtype
    mode = _knobs.explicit_x64_dtypes
    if mode == "allow":
        return dtype
    narrowed = _NARROWED[dtype]
    asked = f"Explicitly requested dtype {dtype}{f' in {where}' if where else ''}"
    advice = (
        f"Ask for {narrowed}, or turn 64-bit dtypes on with "
        "weft.config.update('jax_enable_x64', True) or WEFT_ENABLE_X64=1."
    )
    if mode == "error":
        raise ValueError(f"{asked} is not available while 64-bit dtypes are off. {advice}")
    source.warn(
        f"{asked} is narrowed to {narrowed}, because 64-bit dtypes are off. {advice}", UserWarning
    )
    return narrowed


@overload
def check_user_dtype(dtype: DTypeLike, name: str | None = None) -> DType: ...


@overload
def check_user_dtype(dtype: Any, name: str | None = None) -> Any: ...


def check_user_dtype(dtype: Any, name: str | None = None) -> Any:
    """Return the canonical form of a dtype argument, checked.

    Python's scalar types stand for the default dtypes; 64-bit dtypes asked for while they are
    off are narrowed with a warning.

    Args:
        dtype: a dtype, or what stands for one.
        name: the name of the function, for messages.

    Returns:
        A dtype.

    Example:
        >>> check_user_dtype("int8", "zeros"), check_user_dtype(float) == default_float_dtype()
        (dtype('int8'), True)
    """
    try:
        return _settled[dtype]
    except (KeyError, TypeError):
        pass
    if dtype is None:
        raise ValueError(f"a dtype must be given{f' to {name}' if name else ''}; got None")
    if isinstance(dtype, ExtendedDType) or _is_extended_class(dtype):
        return dtype
    if isinstance(dtype, type) and dtype in python_scalar_dtypes:
        return python_scalar_dtypes[dtype]()
    if hasattr(dtype, "aval"):
        raise ValueError(
            f"dtype must be a dtype, not an array of {dtype.dtype}: write dtype=x.dtype"
        )
    converted = np.dtype(dtype)
    if converted not in kinds.all_dtypes:
        raise TypeError(
            f"{f'{name} got ' if name else ''}dtype {dtype!r}, which weft does not have; "
            "arrays hold booleans, integers, floats or complex numbers in native byte order"
        )
    if converted not in _NARROWED and isinstance(dtype, (type, np.dtype, str)):
        _settled[dtype] = converted
    return narrow_explicit_dtype(converted, name or "")


# What names dtypes that are the same whether 64 bits are enabled or not.
_settled: dict[Any, Any] = {}


def dtype(x: Any, *, canonicalize: bool = True) -> Any:
    """Return the dtype of a value, or the dtype that a dtype-like object stands for.

    Values of weft keep their dtype; all else is narrowed to 32 bits unless ``enable_x64`` is on
    or ``canonicalize`` is false.

    Args:
        x: a value, or what stands for a dtype.
        canonicalize: narrow 64-bit dtypes unless ``enable_x64`` is on.

    Returns:
        A dtype.

    Example:
        >>> dtype(np.ones(3, np.int8)), dtype("float16"), dtype(True)
        (dtype('int8'), dtype('float16'), dtype('bool'))
    """
    if isinstance(x, (np.ndarray, np.generic)):
        return _checked(x, x.dtype, canonicalize)
    if x is None:
        raise ValueError("dtype needs a value or a dtype; got None")
    if isinstance(x, (str, np.dtype)) or (isinstance(x, type) and issubclass(x, np.generic)):
        asked = _checked(x, np.dtype(x), False)
        return narrow_explicit_dtype(asked, "dtype") if canonicalize else asked
    scalar = x if isinstance(x, type) else type(x)
    if scalar in python_scalar_dtypes:
        return python_scalar_dtypes[scalar]() if canonicalize else np.dtype(scalar)
    # Once a 64-bit value of ours exists, it stays one whatever the knob says now.
    return _checked(x, _dtype_of_object(x), canonicalize and not hasattr(x, "aval"))


def _checked(x: Any, given: AnyDType, canonicalize: bool) -> Any:
    if isinstance(given, ExtendedDType):
        return given
    table = _CANONICAL_32 if canonicalize and not _knobs.enable_x64 else _CANONICAL_64
    found = table.get(given)
    if found is None:
        raise TypeError(
            f"{x!r} has dtype {given}, which weft does not have; arrays hold booleans, integers, "
            "floats or complex numbers in native byte order"
        )
    return found


def _dtype_of_object(x: Any) -> AnyDType:
    found = getattr(x, "dtype", None)
    if isinstance(found, (np.dtype, ExtendedDType)):
        return found
    if getattr(x, "is_size", False):  # a symbolic dimension
        return default_int_dtype()
    try:
        return np.result_type(x)
    except TypeError as error:
        raise TypeError(f"cannot determine a dtype for {x!r} of type {type(x).__name__}") from error


def is_python_scalar(x: Any) -> bool:
    """Return whether ``x`` is a bool, int, float or complex of Python itself, not of a subclass.

    Args:
        x: a value.

    Returns:
        True or False.

    Example:
        >>> is_python_scalar(1.0), is_python_scalar(np.float32(1.0))
        (True, False)
    """
    return type(x) in python_scalar_dtypes


def scalar_type_of(x: Any) -> type:
    """Return the Python type (bool, int, float or complex) for the elements of a value.

    Args:
        x: a value.

    Returns:
        A type.

    Example:
        >>> scalar_type_of(np.ones(3, np.float16))
        <class 'float'>
    """
    given = dtype(x)
    for kind, scalar in (
        ("integral", int),
        ("real floating", float),
        ("complex floating", complex),
        ("bool", bool),
    ):
        if given in kinds.DTYPE_KINDS[kind]:
            return scalar
    raise TypeError(f"elements of dtype {given} are not Python scalars")


def scalar_type_to_dtype(typ: type, value: Any = None) -> DType:
    """Return the dtype of a Python scalar type.

    Args:
        typ: bool, int, float or complex.
        value: if given, an int is checked to fit into the dtype.

    Returns:
        A dtype.

    Example:
        >>> scalar_type_to_dtype(int, 7) == default_int_dtype()
        True
    """
    found = python_scalar_dtypes[typ]()
    if typ is int and value is not None:
        limit = 1 << (8 * found.itemsize - 1)
        if not -limit <= value < limit:
            raise OverflowError(f"Python int {value} does not fit into {found}")
    return found


def coerce_to_array(x: Any, dtype: DTypeLike | None = None) -> np.ndarray[Any, Any]:
    """Return a NumPy array of a scalar or array; Python scalars take weft's default dtypes.

    Args:
        x: a value.
        dtype: the dtype of the result. By default that of the value.

    Returns:
        A NumPy array.

    Example:
        >>> coerce_to_array(1.5).dtype
        dtype('float32')
    """
    if dtype is None and type(x) in python_scalar_dtypes:
        dtype = scalar_type_to_dtype(type(x), x)
    return np.asarray(x, dtype)


# Integers up to 32 bits become float32; exactness is not kept, as NumPy's float64 would.
_INEXACT: dict[DType, DType] = {
    given: _FLOAT64 if given.itemsize == 8 else _FLOAT32
    for given in kinds.bool_dtypes + kinds.integer_dtypes
}


def to_numeric_dtype(dtype: DTypeLike) -> DType:
    """Return the dtype itself, or int32 for bool.

    Args:
        dtype: a dtype, or what stands for one.

    Returns:
        A dtype.

    Example:
        >>> to_numeric_dtype("bool")
        dtype('int32')
    """
    given = np.dtype(dtype)
    return _INT32 if given == _BOOL else given


def to_inexact_dtype(dtype: DTypeLike) -> DType:
    """Return the dtype itself if floating or complex; float32 or float64 for bools and integers.

    Args:
        dtype: a dtype, or what stands for one.

    Returns:
        A dtype.

    Example:
        >>> to_inexact_dtype("int8")
        dtype('float32')
    """
    given = np.dtype(dtype)
    return _INEXACT.get(given, given)


def to_floating_dtype(dtype: DTypeLike) -> DType:
    """Return the real floating dtype that goes with a dtype, such as that of a complex one's parts.

    Args:
        dtype: a dtype, or what stands for one.

    Returns:
        A dtype.

    Example:
        >>> to_floating_dtype("complex64")
        dtype('float32')
    """
    return kinds.finfo(to_inexact_dtype(dtype)).dtype


def to_complex_dtype(dtype: DTypeLike) -> DType:
    """Return complex128 for dtypes that become float64 or complex128, complex64 for all others.

    Args:
        dtype: a dtype, or what stands for one.

    Returns:
        A dtype.

    Example:
        >>> to_complex_dtype("float32")
        dtype('complex64')
    """
    wide = to_inexact_dtype(dtype) in (_FLOAT64, _COMPLEX128)
    return _COMPLEX128 if wide else _COMPLEX64
