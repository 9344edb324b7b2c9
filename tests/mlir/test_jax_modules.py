"""Modules that JAX wrote run to the results that JAX recorded (`tools/record_stablehlo.py`)."""

import json
import lzma
import warnings
from pathlib import Path

import numpy as np
import pytest

from weft import export
from weft.dtypes.kinds import dtype_by_name

RECORD = Path(__file__).parent / "data" / "jax_modules.json.xz"
MODULES = {m["name"]: m for m in json.loads(lzma.decompress(RECORD.read_bytes()))}
NAMES = list(MODULES)
# Names, and how far results may be apart; without one, 2e-5 of the largest number.
LOOSE = {"network": 2e-4, "linalg": 2e-4, "lax igamma": 2e-4, "random gamma": 1e-4}


def array(held):
    name, shape, raw = held
    return np.frombuffer(bytes.fromhex(raw), dtype_by_name[name]).reshape(shape)


def tolerance(name):
    return next((value for prefix, value in LOOSE.items() if name.startswith(prefix)), 2e-5)


def compare(name, got, expected):
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(got, expected)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    got, expected = got.astype(wide), expected.astype(wide)
    narrow = 1e-2 if MODULES[name]["outs"][0][0] in ("bfloat16", "float16") else 0
    bound = max(tolerance(name), narrow)
    finite = np.abs(expected[np.isfinite(expected)])
    np.testing.assert_allclose(
        got, expected, rtol=bound, atol=bound * (finite.max(initial=0) + 0.1)
    )


def run(name):
    module = MODULES[name]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the shardings of the StableHLO module")
        found = export.from_stablehlo(module["text"])(*[array(x) for x in module["ins"]])
    outs = [array(x) for x in module["outs"]]
    for got, expected in zip(found, outs, strict=True):
        compare(name, got, expected)


def test_there_are_two_hundred():
    assert len(MODULES) >= 200


@pytest.mark.parametrize("part", range(8))
def test_modules_of_jax(part):
    failures = []
    for name in NAMES[part::8]:
        try:
            run(name)
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
    assert not failures, "\n".join(failures)
