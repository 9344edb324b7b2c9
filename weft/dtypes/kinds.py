"""The dtypes weft knows, their families, and the questions one asks about a dtype.

NumPy knows the standard ones; ``ml_dtypes`` adds the narrow integers and floats, whose scalar
classes stand outside NumPy's hierarchy; extended dtypes (random keys) are objects of our own.
"""

from __future__ import annotations

import abc
import functools
import math
from typing import Any, Protocol, TypeAlias, runtime_checkable

import ml_dtypes
import numpy as np

DType: TypeAlias = np.dtype[Any]


@runtime_checkable
class SupportsDType(Protocol):
    """Anything that carries a ``dtype``, such as ``jnp.float32`` or an array."""

    @property
    def dtype(self, /) -> DType: ...


DTypeLike: TypeAlias = str | type[Any] | DType | SupportsDType


class extended(np.generic):
    """Scalar class of all extended dtypes; exists for ``issubdtype`` and has no instances.

    >>> import weft
    >>> weft.dtypes.issubdtype(weft.random.key(0).dtype, weft.dtypes.extended)
    True
    """


class prng_key(extended):
    """Scalar class of random key dtypes; exists for ``issubdtype`` and has no instances.

    >>> import weft
    >>> weft.dtypes.issubdtype(weft.random.key(0).dtype, weft.dtypes.prng_key)
    True
    """


class ExtendedDType(abc.ABC):
    """Base of dtypes whose elements are small arrays of an ordinary dtype.

    Subclasses define equality and hash, print as Jaxprs should show them, and name the shape and
    dtype of one element once it is made physical.

    >>> import weft
    >>> isinstance(weft.random.key(0).dtype, weft.dtypes.ExtendedDType)
    True
    """

    @property
    @abc.abstractmethod
    def type(self) -> type: ...

    @property
    @abc.abstractmethod
    def name(self) -> str: ...

    @property
    @abc.abstractmethod
    def physical_shape(self) -> tuple[int, ...]: ...

    @property
    @abc.abstractmethod
    def physical_dtype(self) -> DType: ...

    @property
    def tangent_dtype(self) -> DType | ExtendedDType:
        return float0

    @property
    def itemsize(self) -> int:
        return math.prod(self.physical_shape) * self.physical_dtype.itemsize

    @property
    def storage(self) -> DType:
        """The NumPy dtype that holds one element: opaque bytes, whose meaning is the subclass's."""
        return np.dtype((np.void, self.itemsize))


AnyDType: TypeAlias = DType | ExtendedDType

# The tangent space of integers and booleans has one point, so its elements need no bytes.
float0: DType = np.dtype([("float0", np.void, 0)])

_FLOAT8 = (
    "float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz "
    "float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)
_FLOAT46 = "float4_e2m1fn float6_e2m3fn float6_e3m2fn"


def _scalar(name: str) -> type[Any] | None:
    return getattr(ml_dtypes, name, None) or getattr(np, name, None)


def _family(names: str) -> tuple[DType, ...]:
    # The 1-bit integers are missing from older releases of ml_dtypes.
    found = [_scalar(name) for name in names.split()]
    return tuple(np.dtype(scalar) for scalar in found if scalar is not None)


bool_dtypes = (np.dtype(np.bool_),)
unsigned_dtypes = _family("uint1 uint2 uint4 uint8 uint16 uint32 uint64")
signed_dtypes = _family("int1 int2 int4 int8 int16 int32 int64")
integer_dtypes = unsigned_dtypes + signed_dtypes
small_float_dtypes = _family(f"{_FLOAT46} {_FLOAT8}")
floating_dtypes = small_float_dtypes + _family("bfloat16 float16 float32 float64")
complex_dtypes = _family("complex64 complex128")
numeric_dtypes = integer_dtypes + floating_dtypes + complex_dtypes
lattice_dtypes = bool_dtypes + numeric_dtypes
all_dtypes = frozenset((float0, *lattice_dtypes))

dtype_by_name: dict[str, DType] = {dtype.name: dtype for dtype in lattice_dtypes}

# Families by the name that the array API standard gives them.
DTYPE_KINDS: dict[str, frozenset[DType]] = {
    "bool": frozenset(bool_dtypes),
    "signed integer": frozenset(signed_dtypes),
    "unsigned integer": frozenset(unsigned_dtypes),
    "integral": frozenset(integer_dtypes),
    "real floating": frozenset(floating_dtypes),
    "complex floating": frozenset(complex_dtypes),
    "numeric": frozenset(numeric_dtypes),
}

bfloat16 = ml_dtypes.bfloat16
int2, int4, uint2, uint4 = ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4
float4_e2m1fn = ml_dtypes.float4_e2m1fn
float6_e2m3fn, float6_e3m2fn = ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn
float8_e3m4, float8_e4m3 = ml_dtypes.float8_e3m4, ml_dtypes.float8_e4m3
float8_e4m3b11fnuz = ml_dtypes.float8_e4m3b11fnuz
float8_e4m3fn, float8_e4m3fnuz = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz
float8_e5m2, float8_e5m2fnuz = ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz
float8_e8m0fnu = ml_dtypes.float8_e8m0fnu

finfo: type[Any] = ml_dtypes.finfo
iinfo: type[Any] = ml_dtypes.iinfo


def _foreign_bases() -> dict[type, frozenset[type]]:
    """For each scalar class outside NumPy's hierarchy, the NumPy classes it belongs to."""
    families = (
        (floating_dtypes, (np.floating, np.inexact)),
        (signed_dtypes, (np.signedinteger, np.integer)),
        (unsigned_dtypes, (np.unsignedinteger, np.integer)),
    )
    return {
        dtype.type: frozenset((dtype.type, np.number, np.generic, *bases))
        for dtypes, bases in families
        for dtype in dtypes
        if not issubclass(dtype.type, np.number)
    }


_FOREIGN_BASES = _foreign_bases()
_HASHABLE = (type, np.dtype, ExtendedDType)


def issubdtype(a: Any, b: Any) -> bool:
    """Return whether a dtype or scalar class belongs to another, narrow and extended ones too.

    Args:
        a: a dtype or scalar class.
        b: a dtype or scalar class such as ``np.floating``.

    Returns:
        True or False.

    Example:
        >>> import numpy as np
        >>> from ml_dtypes import bfloat16
        >>> issubdtype(bfloat16, np.floating), issubdtype("int4", np.signedinteger)
        (True, True)
        >>> issubdtype(np.float32, np.integer)
        False
    """
    # Objects that merely carry a dtype need not be hashable, so they are resolved before.
    return _issubdtype(
        a if isinstance(a, _HASHABLE) else np.dtype(a),
        b if isinstance(b, _HASHABLE) else np.dtype(b),
    )


def _scalar_class(x: Any) -> type:
    if isinstance(x, ExtendedDType):
        return x.type
    if isinstance(x, type) and issubclass(x, np.generic):
        return x
    return np.dtype(x).type


@functools.lru_cache(1024)
def _issubdtype(a: Any, b: Any) -> bool:
    if isinstance(b, ExtendedDType):
        return isinstance(a, ExtendedDType) and a == b
    a_class, b_class = _scalar_class(a), _scalar_class(b)
    if a_class in _FOREIGN_BASES:
        return b_class in _FOREIGN_BASES[a_class]
    return issubclass(a_class, b_class)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Return whether a dtype is of a kind.

    Args:
        dtype: Dtype to test.
        kind: A dtype, the name of a family of dtypes, or a tuple of either.

    Returns:
        Python bool.

    The names are those of the array API standard: ``'bool'``, ``'signed integer'``,
    ``'unsigned integer'``, ``'integral'``, ``'real floating'``, ``'complex floating'`` and
    ``'numeric'``.

    Example:
        >>> import numpy as np
        >>> isdtype(np.float16, "real floating"), isdtype("int8", ("bool", np.int8))
        (True, True)
    """
    given = np.dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    # All are looked at, so that a wrong name is told even after a match.
    matches = [_is_of_kind(given, one) for one in kinds]
    return any(matches)


def _is_of_kind(dtype: DType, kind: Any) -> bool:
    if isinstance(kind, str) and kind in DTYPE_KINDS:
        return dtype in DTYPE_KINDS[kind]
    try:
        return dtype == np.dtype(kind)
    except TypeError as error:
        if isinstance(kind, str):
            names = ", ".join(map(repr, DTYPE_KINDS))
            raise ValueError(
                f"isdtype got the unknown kind {kind!r}; kinds are {names}, or a dtype"
            ) from None
        raise TypeError(
            f"isdtype takes a dtype, a kind's name or a tuple of them; got kind={kind!r}"
        ) from error


@functools.lru_cache(256)
def _bits(dtype: DType) -> int:
    if dtype.type is np.bool_:
        return 8
    if issubdtype(dtype, np.integer):
        return iinfo(dtype).bits
    if issubdtype(dtype, np.floating):
        return finfo(dtype).bits
    if issubdtype(dtype, np.complexfloating):
        return 2 * finfo(dtype).bits
    raise ValueError(f"itemsize_bits needs a bool or numeric dtype; got {dtype}")


def itemsize_bits(dtype: DTypeLike) -> int:
    """Return the number of bits of one element; unlike ``dtype.itemsize``, right below one byte.

    Args:
        dtype: the dtype.

    Returns:
        An integer.

    Example:
        >>> itemsize_bits("int4"), itemsize_bits(bool), itemsize_bits(np.complex64)
        (4, 8, 64)
    """
    if dtype is None or isinstance(dtype, ExtendedDType):
        raise ValueError(f"itemsize_bits needs a bool or numeric dtype; got {dtype}")
    return _bits(np.dtype(dtype))


def supports_inf(dtype: DTypeLike) -> bool:
    """Return whether a dtype can hold infinity; the narrow floats named ``...fn`` cannot.

    Args:
        dtype: the dtype.

    Returns:
        True or False.

    Example:
        >>> supports_inf(bfloat16), supports_inf(float8_e4m3fn), supports_inf(np.int32)
        (True, False, False)
    """
    given = np.dtype(dtype)
    if given in small_float_dtypes:
        return not given.name.endswith(("fn", "fnuz", "fnu"))
    return issubdtype(given, np.inexact)


@functools.lru_cache(256)
def short_name(dtype: AnyDType) -> str:
    """Return the dtype as Jaxprs print it: ``f32``, ``bf16``, ``i4``, ``bool``, ``key<fry>``.

    Args:
        dtype: the dtype.

    Returns:
        The name.

    Example:
        >>> [short_name(np.dtype(name)) for name in ("float32", "uint8", "bool", "complex64")]
        ['f32', 'u8', 'bool', 'c64']
    """
    if isinstance(dtype, ExtendedDType):
        return str(dtype)
    if dtype == float0:
        return "float0"
    name = dtype.name
    for long, short in (("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        name = name.replace(long, short)
    return name


@functools.lru_cache(256)
def primal_to_tangent_dtype(dtype: AnyDType) -> AnyDType:
    """Return the dtype of tangents: the dtype itself where one can differentiate, else ``float0``.

    Args:
        dtype: the dtype.

    Returns:
        A dtype.

    Example:
        >>> primal_to_tangent_dtype(np.dtype("float32"))
        dtype('float32')
        >>> primal_to_tangent_dtype(np.dtype("int32"))
        dtype([('float0', 'V')])
    """
    if isinstance(dtype, ExtendedDType):
        return dtype.tangent_dtype
    return dtype if issubdtype(dtype, np.inexact) else float0


def check_valid_dtype(dtype: AnyDType) -> None:
    """Raise TypeError unless arrays can have this dtype.

    Args:
        dtype: the dtype.

    Example:
        >>> check_valid_dtype(np.dtype("float32"))
    """
    if dtype not in all_dtypes and not isinstance(dtype, ExtendedDType):
        raise TypeError(
            f"dtype {dtype} is not a weft dtype; arrays hold booleans, integers, floats or "
            "complex numbers in native byte order"
        )
