"""What a case is, how families of cases are declared, and the seeded arrays they use.

A case is a function ``fn(J, *args)`` of a namespace ``J`` (JAX or weft) and NumPy arguments, so
the same code makes the record and is tested against it.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True)
class Tol:
    """How far a float result may be off: units in the last place, of itself or of the largest."""

    ulp: float = 0.0
    scale: bool = False

    def derivative(self) -> "Tol":
        return Tol(max(4.0 * self.ulp, 8.0), True)


EXACT = Tol()
VALUE = ("value", "jit")
DIFF = ("value", "jit", "jvp", "vjp")
BATCH = ("value", "jit", "vmap")
ALL = ("value", "jit", "jvp", "vjp", "vmap")

SHORT = {
    "bool": "bool",
    "i4": "int4",
    "u4": "uint4",
    "i2": "int2",
    "u2": "uint2",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f8e4": "float8_e4m3fn",
    "f8e5": "float8_e5m2",
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
}
WIDE = ("i64", "u64", "f64", "c128")


def dtype(short: str) -> np.dtype:
    """The NumPy dtype of a short name such as ``f32`` or ``bf16``."""
    name = SHORT.get(short, short)
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def is_inexact(d: Any) -> bool:
    """True for real and complex floating types, the small ones of ml_dtypes included."""
    d = np.dtype(d)
    return d.kind in "fc" or (d.kind == "V" and "float" in d.name)


@dataclass(frozen=True, slots=True)
class Case:
    """One program with its arguments and the ways to run it."""

    id: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    modes: tuple[str, ...]
    tol: Tol
    x64: bool
    error: bool | str  # True: must raise; "maybe": as JAX does
    each: bool

    def crc(self) -> int:
        """A fingerprint of the arguments: a record made from others is stale."""
        total = 0
        for arg in self.args:
            if isinstance(arg, np.ndarray):
                text = f"{arg.dtype.name}{arg.shape}".encode() + np.ascontiguousarray(arg).tobytes()
            else:
                text = repr(arg).encode()
            total = zlib.crc32(text, total)
        return total


class Rng:
    """Seeded arrays; the stream of ``RandomState`` is frozen by NumPy, so records stay valid."""

    def __init__(self, seed: str):
        self.state = np.random.RandomState(zlib.crc32(seed.encode()))

    def f(self, shape: Any, d: str = "f32", lo: float = -2.0, hi: float = 2.0) -> np.ndarray:
        """Floats (or complex numbers) spread over [lo, hi), short in bits."""
        x = self.state.uniform(lo, hi, size=shape)
        if d in ("c64", "c128"):
            x = x + 1j * self.state.uniform(lo, hi, size=shape)
        return np.asarray(x).astype(dtype(d))

    def i(self, shape: Any, d: str = "i32", lo: int = -5, hi: int = 6) -> np.ndarray:
        """Integers in [lo, hi); unsigned types take the range's positive part."""
        if d == "bool":
            return np.asarray(self.state.randint(0, 2, size=shape)).astype(bool)
        if d.startswith("u"):
            lo = max(lo, 0)
        return np.asarray(self.state.randint(lo, hi, size=shape)).astype(dtype(d))

    def any(self, shape: Any, d: str, lo: float = -2.0, hi: float = 2.0) -> np.ndarray:
        """An array of any dtype: floats in [lo, hi), integers of a similar range."""
        if is_inexact(dtype(d)):
            return self.f(shape, d, lo, hi)
        return self.i(shape, d, int(3 * lo) if lo < 0 else int(lo), int(3 * hi) + 1)

    def distinct(self, shape: Any, d: str = "f32") -> np.ndarray:
        """Well separated values in random order, so that comparisons have no ties."""
        n = int(np.prod(shape))
        x = ((self.state.permutation(n) - n // 2) * 0.375 + 0.125).reshape(shape)
        if not is_inexact(dtype(d)):
            x = x.astype(np.int64)  # unsigned ones wrap; of floats each machine makes its own
        return x.astype(dtype(d))

    def spd(self, n: int, d: str = "f32", batch: tuple[int, ...] = ()) -> np.ndarray:
        """Symmetric (Hermitian) positive definite, well conditioned, eigenvalues apart."""
        wide = "c128" if d.startswith("c") else "f64"
        a = self.f(batch + (n, n), wide, -1.0, 1.0)
        if wide == "c128":
            a = np.round(a * 2**20) / 2**20  # short: the product is exact in any order
        a = a @ np.conj(np.swapaxes(a, -1, -2)) / n
        return (a + np.diag(np.arange(1.0, n + 1.0))).astype(dtype(d))

    def square(self, n: int, d: str = "f32", batch: tuple[int, ...] = ()) -> np.ndarray:
        """A general matrix far from singular."""
        a = self.f(batch + (n, n), "c128" if d.startswith("c") else "f64", -1.0, 1.0)
        return (a + np.diag(2.0 + np.arange(n))).astype(dtype(d))


@dataclass(slots=True)
class Family:
    """A named group of cases with one default tolerance."""

    name: str
    tol: Tol
    make: Callable[["Adder"], None]
    about: str = ""

    def cases(self) -> list[Case]:
        """All cases in order; generation is deterministic."""
        adder = Adder(self)
        self.make(adder)
        return adder.cases


@dataclass(slots=True)
class Adder:
    """Collects the cases of a family as its function declares them."""

    family: Family
    cases: list[Case] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def __call__(
        self,
        name: str,
        fn: Callable[..., Any],
        args: Any = (),
        *,
        modes: tuple[str, ...] = VALUE,
        tol: Tol | None = None,
        x64: bool = False,
        error: bool | str = False,
        each: bool = False,
    ) -> None:
        ident = f"{self.family.name}/{name}"
        if ident in self.seen:
            raise ValueError(f"two cases are called {ident}")
        self.seen.add(ident)
        wide = any(isinstance(a, np.ndarray) and a.dtype.name in _WIDE_NAMES for a in args)
        modes = ("value",) if error is True and modes == VALUE else modes
        tol = self.family.tol if tol is None else tol
        self.cases.append(Case(ident, fn, tuple(args), modes, tol, x64 or wide, error, each))

    def rng(self, name: str) -> Rng:
        return Rng(f"{self.family.name}/{name}")


_WIDE_NAMES = frozenset(SHORT[s] for s in WIDE)
FAMILIES: dict[str, Family] = {}


def family(name: str, tol: Tol = EXACT) -> Callable[[Callable[[Adder], None]], Any]:
    """Register the decorated function as the maker of a family."""

    def register(make: Callable[[Adder], None]) -> Callable[[Adder], None]:
        if name in FAMILIES:
            raise ValueError(f"family {name} is declared twice")
        FAMILIES[name] = Family(name, tol, make, make.__doc__ or "")
        return make

    return register


def path(dotted: str) -> Callable[[Any], Any]:
    """A getter for ``J.<dotted>``, made here so that loops do not capture their variable."""
    parts = dotted.split(".")

    def get(J: Any) -> Any:
        for part in parts:
            J = getattr(J, part)
        return J

    return get


def call(dotted: str, *tail: Any, **kwargs: Any) -> Callable[..., Any]:
    """``fn(J, *args)`` that calls ``J.<dotted>(*args, *tail, **kwargs)``."""
    get = path(dotted)

    def fn(J: Any, *args: Any) -> Any:
        return get(J)(*args, *tail, **kwargs)

    return fn


def shape_name(shape: tuple[int, ...]) -> str:
    """``2x3`` for (2, 3), ``0d`` for ()."""
    return "x".join(map(str, shape)) or "0d"


def all_cases(names: list[str] | None = None) -> Iterator[Case]:
    """The cases of the named families, or of all."""
    for name in names or sorted(FAMILIES):
        yield from FAMILIES[name].cases()
