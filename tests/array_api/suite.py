"""How the checks are written and run: a library, the dtypes it has, and comparison with NumPy.

NumPy's main namespace follows the standard, so most checks are one call that is made on both.
"""

import importlib
import traceback
import warnings
import zlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.array_api import table

NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (3,), (2, 1, 3))


@dataclass(frozen=True)
class Library:
    """A namespace under test and the dtypes that it has at present."""

    xp: Any
    dtypes: dict[str, Any]

    @property
    def wide(self) -> bool:
        return "float64" in self.dtypes

    def kind(self, kind: str) -> list[str]:
        return [name for name in table.KINDS[kind] if name in self.dtypes]

    def array(self, value: np.ndarray) -> Any:
        return self.xp.asarray(value, dtype=self.dtypes[value.dtype.name])

    def name(self, dtype: Any) -> str:
        for name, own in self.dtypes.items():
            if own == dtype:
                return name
        raise AssertionError(f"{dtype} is not a dtype of the standard")


@dataclass
class Suite:
    """Named checks: each is called with a library and raises where the library is at fault."""

    checks: dict[str, Callable[[Library], None]] = field(default_factory=dict)

    def add(self, name: str, check: Callable[[Library], None]) -> None:
        assert name not in self.checks, f"two checks are named {name}"
        self.checks[name] = check

    def same(self, name: str, call: Callable[..., Any], *values: np.ndarray, **how: Any) -> None:
        """Check that a call on a namespace and arrays of it gives what it gives for NumPy."""
        self.add(name, lambda library: same(library, call, values, **how))


def sample(name: str, shape: tuple[int, ...], low: float = -4, high: float = 4) -> np.ndarray:
    """Values of a dtype, the same for the same arguments."""
    rng = np.random.default_rng(zlib.crc32(f"{name}{shape}{low}{high}".encode()))
    if name == "bool":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if name in table.INTS:
        low = max(low, 0) if name in table.UNSIGNED else low
        return np.asarray(rng.integers(int(low), int(high) + 1, shape)).astype(name)
    values = rng.uniform(low, high, shape)
    if name in table.COMPLEX:
        values = values + 1j * rng.uniform(low, high, shape)
    return np.asarray(values).astype(name)


def tolerance(dtype: Any, approximate: bool = True) -> float:
    if np.dtype(dtype).kind not in "fc":
        return 0.0
    return float(np.finfo(dtype).eps) * (64 if approximate else 1)


def compare(library: Library, got: Any, want: Any, rtol: float | None = None) -> None:
    """Equal structure, shape, dtype (64 bits are 32 where there are none) and values."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want), f"{len(got)} results, not {len(want)}"
        for mine, theirs in zip(got, want, strict=True):
            compare(library, mine, theirs, rtol)
        return
    want = np.asarray(want)
    name = want.dtype.name if library.wide else NARROW.get(want.dtype.name, want.dtype.name)
    assert hasattr(got, "__array_namespace__"), f"a {type(got).__name__}, not an array"
    assert got.shape == want.shape, f"shape {got.shape}, not {want.shape}"
    assert got.dtype == library.dtypes[name], f"dtype {got.dtype}, not {name}"
    rtol = tolerance(name) if rtol is None else rtol
    scale = np.abs(want[np.isfinite(want)]).max(initial=0) if want.dtype.kind in "fc" else 0
    np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=rtol * float(scale))


def same(
    library: Library,
    call: Callable[..., Any],
    values: Iterable[np.ndarray],
    rtol: float | None = None,
) -> None:
    values = list(values)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = call(np, *values)
    compare(library, call(library.xp, *(library.array(value) for value in values)), want, rtol)


def raises(call: Callable[[], Any]) -> None:
    try:
        call()
    except Exception:
        return
    raise AssertionError("nothing was raised")


def find_library(name: str) -> Library:
    """The namespace of a library by its name, with its present dtypes."""
    xp = importlib.import_module(name)
    return Library(xp, dict(xp.__array_namespace_info__().dtypes()))


def run(
    suite: Suite, library: Library, pattern: str = "", done: Collection[str] = ()
) -> tuple[int, dict[str, str]]:
    """The number of checks made, and the last line of the error of each that failed.

    Checks of dtypes that were all ``done`` before are left out.
    """
    failed, count = {}, 0
    for name, check in suite.checks.items():
        if pattern not in name:
            continue
        named = [word for word in name.split("/") if word in table.ALL]
        # a check of a dtype is made where the library has that dtype
        if any(word not in library.dtypes for word in named):
            continue
        if named and all(word in done for word in named):
            continue
        count += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(library)
        except Exception:
            failed[name] = traceback.format_exc(limit=-1).strip()
    return count, failed
