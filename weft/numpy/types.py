"""Scalar types, constants, and questions about dtypes and objects, under NumPy's names."""

from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np

from weft import dtypes
from weft.core.array import Array
from weft.dtypes import DType
from weft.numpy.creation import asarray

ndarray = Array

e, euler_gamma, inf, nan, newaxis, pi = np.e, np.euler_gamma, np.inf, np.nan, None, np.pi

generic, number, integer, signedinteger = np.generic, np.number, np.integer, np.signedinteger
unsignedinteger, inexact, floating = np.unsignedinteger, np.inexact, np.floating
complexfloating, flexible, character, object_ = (
    np.complexfloating,
    np.flexible,
    np.character,
    np.object_,
)
ComplexWarning = np.exceptions.ComplexWarning
dtype = np.dtype


class _ScalarMeta(type):
    """Scalar types that make arrays when called and compare as dtypes."""

    dtype: np.dtype

    @property
    def __numpy_dtype__(cls) -> np.dtype:
        return cls.dtype

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: Any) -> bool:
        return (
            cls is other
            or cls.dtype.type == other
            or (isinstance(other, np.dtype) and cls.dtype == other)
        )

    def __ne__(cls, other: Any) -> bool:
        return not cls == other

    def __call__(cls, x: Any) -> Any:  # type: ignore[override]
        return asarray(x, dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)


def _scalar_type(scalar: Any) -> Any:
    name = scalar.__name__
    doc = f"""The dtype {name}: give it as ``dtype=``, or call it to make an array of that dtype.

    Args:
        x: Number, nested sequence of numbers or array to convert. Types of 64 bits need
            ``enable_x64``; without it they give 32 bits.

    Returns:
        Array of dtype {name} with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.dtype(jnp.{name}).name
        '{np.dtype(scalar).name}'
    """
    members = {"dtype": np.dtype(scalar), "__module__": "weft.numpy", "__doc__": doc}
    return _ScalarMeta(name, (object,), members)


bool_ = bool = _scalar_type(np.bool_)
int8, int16, int32, int64 = map(_scalar_type, (np.int8, np.int16, np.int32, np.int64))
uint8, uint16, uint32, uint64 = map(_scalar_type, (np.uint8, np.uint16, np.uint32, np.uint64))
float16, float32, float64 = map(_scalar_type, (np.float16, np.float32, np.float64))
complex64, complex128 = map(_scalar_type, (np.complex64, np.complex128))
single, double, csingle, cdouble = float32, float64, complex64, complex128
bfloat16 = _scalar_type(ml_dtypes.bfloat16)
int1, uint1 = map(_scalar_type, (ml_dtypes.int1, ml_dtypes.uint1))
int2, int4, uint2, uint4 = map(
    _scalar_type, (ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4)
)
float8_e3m4 = _scalar_type(ml_dtypes.float8_e3m4)
float8_e4m3 = _scalar_type(ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz = _scalar_type(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = _scalar_type(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = _scalar_type(ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = _scalar_type(ml_dtypes.float8_e5m2)
float8_e5m2fnuz = _scalar_type(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = _scalar_type(ml_dtypes.float8_e8m0fnu)
float4_e2m1fn = _scalar_type(ml_dtypes.float4_e2m1fn)
float6_e2m3fn = _scalar_type(ml_dtypes.float6_e2m3fn)
float6_e3m2fn = _scalar_type(ml_dtypes.float6_e3m2fn)


int_, uint, float_, complex_ = int64, uint64, float64, complex128
finfo, iinfo = dtypes.finfo, dtypes.iinfo
isdtype, promote_types = dtypes.isdtype, dtypes.promote_types


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Return whether a dtype belongs to a kind of dtypes, or equals another dtype.

    Args:
        arg1: Dtype, or something that names one.
        arg2: Dtype, or an abstract kind such as ``jnp.floating`` or ``weft.dtypes.prng_key``.

    Returns:
        Python bool.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.issubdtype(jnp.bfloat16, jnp.floating)
        True
    """
    return dtypes.issubdtype(arg1, arg2)


def result_type(*args: Any) -> DType:
    """Return the dtype that the arguments are promoted to together.

    Args:
        *args: Arrays, scalars or dtypes. Python scalars are weak: they take the width of the
            others.

    Returns:
        NumPy dtype.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.result_type(jnp.int32, 1.0)
        dtype('float32')
    """
    return dtypes.result_type(*args)


can_cast = np.can_cast
get_printoptions, set_printoptions = np.get_printoptions, np.set_printoptions
printoptions, iterable = np.printoptions, np.iterable
array_repr, array_str = np.array_repr, np.array_str


def iscomplexobj(x: Any) -> builtins.bool:
    """Return whether an object is a complex number or an array of a complex dtype.

    Args:
        x: Any object; the dtype counts, not the values.

    Returns:
        Python bool.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.iscomplexobj(jnp.array([1j]))
        True
    """
    if isinstance(x, (complex, np.complexfloating)):
        return True
    if x is None or isinstance(x, (builtins.bool, int, float, str, np.generic)):
        return False
    kind = x.dtype if hasattr(x, "dtype") else asarray(x).dtype
    return dtypes.issubdtype(kind, np.complexfloating)


def isrealobj(x: Any) -> builtins.bool:
    """Return whether an object is not complex and not an array of a complex dtype.

    Args:
        x: Any object; the dtype counts, not the values.

    Returns:
        Python bool.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.isrealobj(jnp.array([1j]))
        False
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> builtins.bool:
    """Return whether an object is a number or an array without dimensions.

    Args:
        element: Any object.

    Returns:
        Python bool.

    Differs from NumPy: arrays of zero dimensions are scalars.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.isscalar(jnp.float32(1)), jnp.isscalar(jnp.ones(1))
        (True, False)
    """
    if np.isscalar(element):
        return True
    if isinstance(element, (np.ndarray, Array)):
        return element.ndim == 0
    if hasattr(element, "__jax_array__"):
        return asarray(element).ndim == 0
    return False
