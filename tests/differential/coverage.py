"""All cases, and what of the public functions they cover."""

import importlib
import json
import warnings
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tests.differential import (
    numpy_arrays,
    numpy_elementwise,
    numpy_products,
    numpy_reductions,
    scipy_linalg,
    scipy_special,
    scipy_stats,
)
from tests.differential.harness import Case, Table

TOPICS = (
    numpy_elementwise,
    numpy_reductions,
    numpy_arrays,
    numpy_products,
    scipy_special,
    scipy_linalg,
    scipy_stats,
)
NAMES = Path(__file__).parents[1] / "data" / "public_names.json"

# Public functions without a case, and why.
UNCOVERED: dict[str, str] = {
    **dict.fromkeys(
        ("numpy.load", "numpy.save", "numpy.savez", "numpy.fromfile"), "reads or writes files"
    ),
    **dict.fromkeys(
        (
            "numpy.get_printoptions",
            "numpy.set_printoptions",
            "numpy.printoptions",
            "numpy.array_repr",
            "numpy.array_str",
        ),
        "text of arrays, which names the dtype of weft's",
    ),
    "scipy.special.bessel_jn": "SciPy spells it jv; a case of that compares the two",
}


def all_cases() -> list[Case]:
    """Every case of every topic."""
    tables = [t for topic in TOPICS for t in vars(topic).values() if isinstance(t, Table)]
    return [case for table in tables for case in table.cases]


def public_functions() -> list[str]:
    """The functions of ``weft.numpy`` and ``weft.scipy``, as NumPy and SciPy name them."""
    found = []
    for module, names in json.loads(NAMES.read_text()).items():
        if not module.startswith(("weft.numpy", "weft.scipy")):
            continue
        home = importlib.import_module(module)
        found += [f"{module[5:]}.{name}" for name in names if is_function(getattr(home, name))]
    return sorted(found)


def is_function(value: Any) -> bool:
    """Whether a public value is called for what it computes: no type, module or constant."""
    if isinstance(value, (type, ModuleType)) or not callable(value):
        return False
    return getattr(value, "dtype", None) is None


class Recorder:
    """A module that notes which of its names are read."""

    def __init__(self, value: Any, prefix: str = "") -> None:
        self._value, self._prefix, self.read = value, prefix, set[str]()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._value, name)
        self.read.add(self._prefix + name)
        if (not hasattr(value, "pdf") and not hasattr(value, "pmf")) or isinstance(value, type):
            return value
        inner = Recorder(value, f"{name}.")  # a distribution, whose methods are the functions
        inner.read = self.read
        return inner


def used(case: Case) -> set[str]:
    """The names of its module that a case reads, as it is run by NumPy or SciPy."""
    recorder = Recorder(importlib.import_module(case.module))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        case.call(recorder, *case.arrays)
    return recorder.read


def sampled(cases: list[Case], most: int) -> list[Case]:
    """At most so many cases of every function: those whose names happen to come first."""
    found: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        found.setdefault((case.module, case.name), []).append(case)
    chosen = (
        sorted(some, key=lambda c: zlib.crc32(c.id.encode()))[:most] for some in found.values()
    )
    return [case for some in chosen for case in some]
