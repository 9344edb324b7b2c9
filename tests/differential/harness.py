"""Cases that run on two libraries, and how their results are compared.

A case calls a function of one module, which is NumPy's or SciPy's, or weft's of the same name, on
the same arrays. Values are compared in units in the last place (ULP) of the result's dtype with
what the other library gives for the same numbers in twice the precision; shapes are equal; dtypes
are equal for 32-bit arguments (64 bits being 32 in weft) and of the same kind for others.
"""

import importlib
import operator
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import weft

Shape = tuple[int, ...]
FLOATS, INTS, BOOLS, COMPLEX = ("float32",), ("int32",), ("bool",), ("complex64",)
SMALL = ("int8", "uint8", "uint16", "uint32")
REAL = FLOATS + INTS + ("uint8",)
NUMBERS = REAL + COMPLEX
ALL = NUMBERS + BOOLS
NARROW = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}
DOUBLE = {narrow: wide for wide, narrow in NARROW.items()}
WIDE = {"float32": "float64", "float16": "float64", "complex64": "complex128"}
# of small integers NumPy makes floats of 16 bits
WIDE |= dict.fromkeys(("int8", "int16", "uint8", "uint16", "uint32"), "int64")

SHAPES: tuple[Shape, ...] = ((), (0,), (3,), (2, 3), (2, 1, 4), (37,))
PAIRS: tuple[tuple[Shape, Shape], ...] = (
    ((), ()),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((2, 1), (3,)),
    ((), (2, 2)),
    ((0,), (1,)),
    ((37,), (37,)),
)
POINTS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e30, -1e-30])


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be off: ULP of each element, or of the largest number involved."""

    ulp: float = 0
    scaled: bool = False
    dtype: bool = True
    wide: bool = True


EXACT = Tolerance(0, wide=False)


@dataclass(frozen=True)
class Case:
    """A call ``call(module, *arrays)`` of a function of a module."""

    module: str
    name: str
    label: str
    call: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    tolerance: Tolerance
    jit: bool = True

    @property
    def id(self) -> str:
        return f"{self.module}.{self.name}/{self.label}"


@dataclass(frozen=True)
class Spec:
    """An argument: its shape, and dtype and range where they are not those of the case."""

    shape: Shape
    dtype: str | None = None
    low: float | None = None
    high: float | None = None
    make: Callable[[np.ndarray], np.ndarray] | None = None


def sample(seed: str, shape: Shape, dtype: str, low: float = -3, high: float = 3) -> np.ndarray:
    """Values of a dtype; the same ones for the same seed."""
    rng = np.random.default_rng(zlib.crc32(f"{seed}{shape}{dtype}".encode()))
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if np.dtype(dtype).kind in "iu":
        low = max(low, 0) if np.dtype(dtype).kind == "u" else low
        return np.asarray(rng.integers(int(low), int(high) + 1, shape)).astype(dtype)
    values = rng.uniform(low, high, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.uniform(low, high, shape)
    return np.asarray(values).astype(dtype)


def strided(x: np.ndarray) -> np.ndarray:
    """The same values in memory that is not in order."""
    if not x.ndim:
        return x
    room = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)[..., ::-2]
    room[...] = x
    return room


@dataclass
class Table:
    """The cases of one module."""

    module: str
    cases: list[Case] = field(default_factory=list)

    def add(
        self,
        names: str,
        call: Callable[..., Any] | None,
        *specs: Shape | Spec,
        label: str = "",
        dtypes: Sequence[str] = FLOATS,
        low: float = -3,
        high: float = 3,
        ulp: float = 0,
        scaled: bool = False,
        dtype: bool = True,
        wide: bool = True,
        jit: bool = True,
    ) -> None:
        """A case for each name and dtype: of the function alone, or of a call of the module."""
        tolerance = Tolerance(ulp, scaled, dtype, wide and ulp > 0)
        for name in names.split():
            number = sum(case.name == name for case in self.cases)
            for kind in dict.fromkeys(dtypes):
                seed = f"{self.module}{name}{label}"
                arrays = [
                    self._array(spec, f"{seed}{place}", kind, low, high)
                    for place, spec in enumerate(specs)
                ]
                if number % 3 == 2:
                    arrays = [strided(x) for x in arrays]
                shapes = ",".join("x".join(map(str, x.shape)) or "-" for x in arrays)
                text = f"{label or number}/{kind}/{shapes}"
                made = _function(name) if call is None else call
                self.cases.append(
                    Case(self.module, name, text, made, tuple(arrays), tolerance, jit)
                )

    def _array(self, spec: Any, seed: str, kind: str, low: float, high: float) -> np.ndarray:
        if not isinstance(spec, Spec):
            return sample(seed, spec, kind, low, high)
        low = low if spec.low is None else spec.low
        high = high if spec.high is None else spec.high
        x = sample(seed, spec.shape, spec.dtype or kind, low, high)
        return x if spec.make is None else spec.make(x)

    def unary(
        self, names: str, shapes: Sequence[Shape] = SHAPES, points: bool = True, **how: Any
    ) -> None:
        """Functions of one array, over shapes, and at special values of floats."""
        for name in names.split():
            for shape in shapes:
                self.add(name, None, shape, **how)
            if points:
                dtypes = [d for d in how.get("dtypes", FLOATS) if np.dtype(d).kind == "f"]
                spec = Spec((11,), make=_points)
                self.add(name, None, spec, **{**how, "dtypes": dtypes})

    def binary(self, names: str, pairs: Sequence[tuple[Shape, Shape]] = PAIRS, **how: Any) -> None:
        """Functions of two arrays, over shapes that broadcast."""
        for name in names.split():
            for left, right in pairs:
                self.add(name, None, left, right, **how)

    def options(
        self, names: str, options: Sequence[dict[str, Any]], *specs: Shape | Spec, **how: Any
    ) -> None:
        """Functions with each of several sets of keyword arguments."""
        for name in names.split():
            for chosen in options:
                self.add(name, _function(name, chosen), *specs, **how)


@np.errstate(over="ignore")
def _points(x: np.ndarray) -> np.ndarray:
    return POINTS.astype(x.dtype)


def _function(name: str, chosen: dict[str, Any] | None = None) -> Callable[..., Any]:
    found = operator.attrgetter(name)
    return lambda module, *arrays: found(module)(*arrays, **(chosen or {}))


# --- running --------------------------------------------------------------------------------------


def modules(name: str) -> tuple[Any, Any]:
    """weft's module of a name, and the one that it is held to."""
    return importlib.import_module(f"weft.{name}"), importlib.import_module(name)


def leaves(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [leaf for item in result for leaf in leaves(item)]
    return [result]


def widened(x: np.ndarray) -> np.ndarray:
    return x.astype(WIDE.get(x.dtype.name, x.dtype))


def expected(case: Case, theirs: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What the other library gives: values of the best precision, and values of its dtypes."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        plain = [np.asarray(x) for x in leaves(case.call(theirs, *case.arrays))]
        if not case.tolerance.wide:
            return plain, plain
        wide = leaves(case.call(theirs, *map(widened, case.arrays)))
    return [np.asarray(x) for x in wide], plain


def differs(got: np.ndarray, want: np.ndarray, case: Case) -> str | None:
    """In what way the values are off, or None."""
    if got.dtype.kind not in "fc":
        return None if np.array_equal(got, want) else f"got {got}, not {want}"
    if got.dtype.kind == "c":
        return differs(got.real, np.real(want), case) or differs(got.imag, np.imag(want), case)
    limits = np.finfo(got.dtype)
    got, want = got.astype(np.float64), want.astype(np.float64)
    # what the result's dtype cannot hold is infinite or flushed in it
    want = np.where(np.abs(want) > float(limits.max), np.sign(want) * np.inf, want)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return f"NaN in other places: got {got}, not {want}"
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return f"infinite in other places: got {got}, not {want}"
    if not np.all(np.isfinite(got[finite])):
        return f"got {got}, not {want}"
    size = np.abs(want)
    if case.tolerance.scaled:
        parts = [np.abs(x[np.isfinite(x)]).max(initial=0) for x in case.arrays if x.size]
        size = np.full_like(size, max([size[finite].max(initial=0), *map(float, parts)]))
    allowed = case.tolerance.ulp * float(limits.eps) * size + float(limits.smallest_normal)
    off = np.abs(got - want)[finite] - allowed[finite]
    if case.tolerance.ulp == 0:
        off = np.abs(got - want)[finite]
    if np.any(off > 0):
        error = np.abs(got - want)[finite] / (float(limits.eps) * np.maximum(size[finite], 1e-300))
        return f"off by {error.max():.3g} ULP: got {got}, not {want}"
    return None


@np.errstate(all="ignore")
def fault(case: Case, result: Any, want: tuple[list[np.ndarray], list[np.ndarray]]) -> str | None:
    """What is wrong with a result, or None."""
    mine = [np.asarray(x) for x in leaves(result)]
    values, plain = want
    if len(mine) != len(values):
        return f"{len(mine)} results, not {len(values)}"
    wide = weft.config.jax_enable_x64
    alike = wide or all(x.dtype.name in (*NARROW.values(), "bool") for x in case.arrays)
    for got, value, typed in zip(mine, values, plain, strict=True):
        if got.shape != typed.shape:
            return f"shape {got.shape}, not {typed.shape}"
        if case.tolerance.dtype:
            name = typed.dtype.name if wide else NARROW.get(typed.dtype.name, typed.dtype.name)
            if alike and got.dtype.name != name:
                return f"dtype {got.dtype}, not {name}"
            if got.dtype.kind != typed.dtype.kind:
                return f"dtype {got.dtype}, not of the kind of {typed.dtype}"
        wrong = differs(got, value, case)
        if wrong is not None:
            return wrong
    return None


def eagerly(case: Case, ours: Any) -> Any:
    return case.call(ours, *map(weft.numpy.asarray, case.arrays))


def compiled(cases: Sequence[Case], ours: Any) -> list[Any]:
    """The results of several cases from one compiled program."""
    counts = [len(case.arrays) for case in cases]

    def program(*arrays: Any) -> list[Any]:
        results, start = [], 0
        for case, count in zip(cases, counts, strict=True):
            results.append(case.call(ours, *arrays[start : start + count]))
            start += count
        return results

    return weft.jit(program)(*(x for case in cases for x in case.arrays))


def check(cases: Sequence[Case]) -> Iterator[tuple[Case, str, str]]:
    """The faults of cases of one module: case, how it was run, what was wrong."""
    ours, theirs = modules(cases[0].module)
    wanted = [expected(case, theirs) for case in cases]
    for case, want in zip(cases, wanted, strict=True):
        try:
            wrong = fault(case, eagerly(case, ours), want)
        except Exception as error:
            wrong = f"raised {error!r}"[:300]
        if wrong:
            yield case, "eager", wrong
    staged = [(case, want) for case, want in zip(cases, wanted, strict=True) if case.jit]
    results: list[Any] = []
    try:
        results = compiled([case for case, _ in staged], ours) if staged else []
    except Exception:  # one of them is at fault: each by itself
        for case, _ in staged:
            try:
                results.append(compiled([case], ours)[0])
            except Exception as error:
                results.append(error)
    for (case, want), result in zip(staged, results, strict=True):
        if isinstance(result, Exception):
            yield case, "compiled", f"raised {result!r}"[:300]
            continue
        wrong = fault(case, result, want)
        if wrong:
            yield case, "compiled", wrong


def doubled(cases: Sequence[Case]) -> list[Case]:
    """The cases of 32 bits with arguments of 64, to be run where those are enabled.

    The other library has no more bits than weft then, and may be as far off.
    """
    found = []
    for case in cases:
        if all(x.dtype.name in (*DOUBLE, "bool") for x in case.arrays):
            arrays = tuple(x.astype(DOUBLE.get(x.dtype.name, x.dtype)) for x in case.arrays)
            tolerance = replace(case.tolerance, ulp=2 * case.tolerance.ulp, wide=False)
            label = f"{case.label}/64"
            found.append(replace(case, label=label, arrays=arrays, tolerance=tolerance))
    return found


def groups(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases of the same function together, at most a dozen."""
    found: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        found.setdefault((case.module, case.name), []).append(case)
    return [
        members[start : start + 12]
        for members in found.values()
        for start in range(0, len(members), 12)
    ]
