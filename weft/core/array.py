"""The abstract array: concrete arrays and tracers are both instances of it.

Operators and methods are found through ``core.hooks`` when they are first used: they belong to the
NumPy room, far above this one, and few programs use them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from weft.core.array_methods import Methods
else:
    Methods = object

OPERATORS = """
T all any argmax argmin argpartition argsort astype at byteswap choose clip compress conj conjugate
copy cumprod cumsum diagonal dot flat flatten format imag mT max mean min nonzero prod ptp ravel
real repeat reshape round searchsorted sort squeeze std sum swapaxes take to_device trace transpose
var view
__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__
__rfloordiv__ __mod__ __rmod__ __divmod__ __rdivmod__ __pow__ __rpow__ __matmul__ __rmatmul__
__and__ __rand__ __or__ __ror__ __xor__ __rxor__ __lshift__ __rlshift__ __rshift__ __rrshift__
__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __abs__ __neg__ __pos__ __invert__ __round__
__contains__ __iter__ __getitem__ __setitem__
__array_module__ __array_namespace__ __numpy_dtype__
""".split()


class Operator:
    """Stands for an operator, method or property of arrays until it is first used."""

    __slots__ = ("name",)

    attach: Callable[[str], None]  # puts the one of a name in the place of this; filled by hooks

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, array: Any, kind: type) -> Any:
        Operator.attach(self.name)
        return getattr(kind if array is None else array, self.name)


# What only arrays in memory have: the class answers to these names, a traced array does not.
IN_MEMORY = """
addressable_data addressable_shards committed copy_to_host_async device global_shards
is_fully_addressable is_fully_replicated item sharding
""".split()


class InMemory:
    """Stands on the abstract class for an attribute of arrays in memory."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, array: Any, kind: type) -> Any:
        if array is None:
            return self
        # an AttributeError, so that hasattr and getattr with a default work
        raise AttributeError(
            f"{self.name} is an attribute of arrays in memory, and this one is traced:"
            f" {getattr(array, 'display', type(array).__name__)}({array.aval.str_short()})"
        )


# How public functions on concrete arrays read numbers (``weft.api.learning``): whole ones of 32
# bits that are operands as arrays are, or from 0 up (``Natural``); those that may be operands, as
# each element is made by the same steps (``Number``) or is the same anyway (``Exact``); those that
# are part of the program (``Setting``), may change nothing (``Neutral``), or are looked at if they
# are one integer (``Exponent``).
Whole = Natural = Number = Exact = Setting = Neutral = Exponent = Any


class Array(Methods):
    """An n-dimensional array, concrete or traced; immutable.

    Made by ``weft.numpy.array`` and the like, never by calling this class. Use it in annotations
    and with ``isinstance``; a traced array is an instance too.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> isinstance(jnp.ones(3), weft.Array)
        True
    """

    __slots__ = ()
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    aval: Any

    if not TYPE_CHECKING:
        vars().update((name, Operator(name)) for name in OPERATORS)
        vars().update((name, InMemory(name)) for name in IN_MEMORY)

    # Not __new__: that would be a Python call for every tracer made.
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("weft.Array cannot be instantiated directly; write weft.numpy.array(...)")

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each dimension, a tuple of integers."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """Dtype of the elements."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way in promotion, as that of a Python scalar does."""
        return self.aval.weak_type

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.aval.size * self.aval.dtype.itemsize

    def __len__(self) -> int:
        return len(self.aval)


StaticScalar: TypeAlias = np.bool_ | np.number | bool | int | float | complex
# Data of other kinds, which functions of arrays take and give back as arrays.
ArrayData: TypeAlias = np.ndarray | StaticScalar
# What becomes an array without being asked: not lists, not strings. Usable with isinstance.
ArrayLike: TypeAlias = Array | ArrayData
