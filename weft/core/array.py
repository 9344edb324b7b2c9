"""The abstract array: concrete arrays and tracers are both instances of it.

Operators and methods are attached through ``core.hooks`` by the package's ``__init__``: they
belong to the NumPy room, far above this one.
"""

from __future__ import annotations

from typing import Any


class Array:
    """An n-dimensional array, concrete or traced; immutable.

    Made by ``weft.numpy.array`` and its kin, never by calling this class.
    """

    __slots__ = ()
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    aval: Any

    # Not __new__: that would be a Python call for every tracer made.
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("weft.Array cannot be instantiated directly; write weft.numpy.array(...)")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    @property
    def itemsize(self) -> int:
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.aval.size * self.aval.dtype.itemsize

    def __len__(self) -> int:
        return len(self.aval)
