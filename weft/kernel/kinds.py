"""What stubs are written with: kinds of machine values, and words that stand for instructions.

The CPU's `stub.py` says what the language is and translates it to native functions; `scalar.py`
makes values of kernels of the part of it that has no memory of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.base.record import Record


class Kind:
    """A kind of machine value; a vector is one of so many lanes, each of another kind."""

    def __init__(self, name: str, llvm: str, size: int, family: str, lanes: int = 1) -> None:
        self.name = name
        self.llvm = llvm
        self.size = size
        self.family = family  # "signed", "unsigned", "float", "pointer", "truth" or "nothing"
        self.lanes = lanes
        self.lane: Kind = self
        self.vectors: dict[int, Kind] = {1: self}  # by lanes; no clearing of caches makes others

    def of(self, lanes: int) -> Kind:
        """The kind of vectors of this one."""
        if lanes not in self.vectors:
            llvm, size = f"<{lanes} x {self.llvm}>", lanes * self.size
            kind = self.vectors[lanes] = Kind(f"v{lanes}{self}", llvm, size, self.family, lanes)
            kind.lane = self
        return self.vectors[lanes]

    def __repr__(self) -> str:
        return self.name

    # Stubs are read and not run; these only let them be written.
    def __getitem__(self, place: Any) -> Any:
        raise TypeError("a stub is not run by Python")

    def __setitem__(self, place: Any, value: Any) -> None:
        raise TypeError("a stub is not run by Python")

    def __call__(self, value: Any) -> Any:
        raise TypeError("a stub is not run by Python")


i8, i16, i32, i64 = (Kind(f"i{n}", f"i{n}", n // 8, "signed") for n in (8, 16, 32, 64))
u8, u16, u32, u64 = (Kind(f"u{n}", f"i{n}", n // 8, "unsigned") for n in (8, 16, 32, 64))
u128 = Kind("u128", "i128", 16, "unsigned")
f16, f32 = Kind("f16", "half", 2, "float"), Kind("f32", "float", 4, "float")
f64 = Kind("f64", "double", 8, "float")
ptr = Kind("ptr", "ptr", 8, "pointer")
truth = Kind("truth", "i1", 1, "truth")
void = Kind("void", "void", 0, "nothing")
values = Kind("values", "", 0, "nothing")  # what straight code of stubs returns
static = Kind(
    "static", "", 0, "nothing"
)  # a parameter of a stub that is known when it is translated
KINDS = {k.name: k for k in (i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, ptr, truth, void)}
_BY_DTYPE = {np.dtype(c): k for c, k in zip("bhiqBHIQfd", list(KINDS.values())[:10], strict=True)}


def unrolled(*bounds: Any) -> Any:
    """Numbers as of ``range``, for each of which the body is written out; for stubs only."""
    raise TypeError("a stub is not run by Python")


def bits(kind: Any, value: Any) -> Any:
    """The same bits as another kind; for stubs only."""
    raise TypeError("a stub is not run by Python")


def stack(size: Any) -> Any:
    """Memory that lives as long as the call; for stubs only."""
    raise TypeError("a stub is not run by Python")


def invoke(kind: Any, function: Any, *args: Any) -> Any:
    """A call of a function at an address; for stubs only."""
    raise TypeError("a stub is not run by Python")


# What is invoked for the same number or pointer, of which LLVM does not know that it depends on a
# loop's index: it would take longer over how to count along places in memory than over the rest.
OPAQUE = 'asm "", "=r,0"'


def shuffle(left: Any, right: Any, lanes: Any) -> Any:
    """Lanes of two vectors in an order that is given; for stubs only."""
    raise TypeError("a stub is not run by Python")


def select(test: Any, x: Any, y: Any) -> Any:
    """One of two values of straight code by a bit, or by one a lane; for stubs only."""
    raise TypeError("a stub is not run by Python")


def clock() -> Any:
    """A count that grows with time; for stubs only."""
    raise TypeError("a stub is not run by Python")


def float_mode() -> Any:
    """The floating-point mode of this thread, as in ``float_mode.py``; for stubs only."""
    raise TypeError("a stub is not run by Python")


def set_float_mode(mode: Any) -> Any:
    """Give this thread a floating-point mode; for stubs only."""
    raise TypeError("a stub is not run by Python")


def kind_of(dtype: Any) -> Kind:
    """The kind of an element of a NumPy dtype."""
    return _BY_DTYPE[np.dtype(dtype)]


class External(Record):
    """A function outside of a module: its result and its parameters.

    ``definition`` is a module of a backend's, if there is one: it becomes part of the caller's.
    """

    result: Kind
    parameters: tuple[Kind, ...]
    definition: Any = None

    def __call__(self, *args: Any) -> Any:
        raise TypeError("a stub is not run by Python")


class Intrinsic(Record):
    """An instruction of LLVM on values of one kind, whichever that is, and which is ``named`` in
    its whole name; what it finds of all lanes, if it ``reduces`` them, is of a lane's. Its result
    is of the same kind unless it says otherwise."""

    name: str
    reduces: bool = False
    named: bool = True
    result: Kind | None = None

    def __call__(self, *args: Any) -> Any:
        raise TypeError("a stub is not run by Python")


fabs, root, copysign = Intrinsic("fabs"), Intrinsic("sqrt"), Intrinsic("copysign")
fma = Intrinsic("fmuladd")  # a product and what is added to it
any_lane, lane_sum, least_lane, largest_lane = (
    Intrinsic(f"vector.reduce.{name}", reduces=True) for name in ("or", "add", "umin", "umax")
)
umin, umax, count_bits = Intrinsic("umin"), Intrinsic("umax"), Intrinsic("ctpop")
compress = Intrinsic("experimental.vector.compress")  # lanes with a flag packed in front of others
compress_store = Intrinsic("masked.compressstore", result=void)


# Of the C library.
memcpy, memset = External(ptr, (ptr, ptr, i64)), External(ptr, (ptr, i32, i64))
malloc, free = External(ptr, (i64,)), External(void, (ptr,))


# The mathematics of kernels as functions of single numbers, for stubs to call; all are of float64
# but those that say otherwise.
exp = log = log1p = expm1 = erfc = sqrt = floor = digamma = External(f64, (f64,))
power = External(f64, (f64, f64))
log_single = log1p_single = sqrt_single = erf_inv_single = External(f32, (f32,))
power_single = External(f32, (f32, f32))
erf_inv = External(f64, (f64,))
