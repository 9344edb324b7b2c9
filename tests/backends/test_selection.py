"""Elements that a test picks: counted and written by native code, against NumPy."""

import numpy as np
import pytest

from weft.backends.cpu.calls import selection
from weft.backends.cpu.code import selection_text

CHUNK = selection_text.CHUNK_ELEMENTS
SIZES = (1, 2, 15, 16, 17, 100, CHUNK, CHUNK + 1, 50_003)
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)


@pytest.fixture(params=["packed", "one by one"], autouse=True)
def way(request, monkeypatch):
    """Both ways of writing, whatever this processor does by itself."""
    if request.param == "one by one":
        monkeypatch.setattr(selection, "packs", lambda wanted: False)
    selection._writing.cache_clear()
    yield
    selection._writing.cache_clear()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int16, np.uint32, np.int64])
def test_positions_of_integers(dtype, share):
    rng = np.random.default_rng(0)
    for size in SIZES:
        value = rng.integers(1, 100, size).astype(dtype) * (rng.random(size) < share)
        value = value.astype(dtype)
        for number in (INT32, INT64):
            (found,) = selection.select("set", value, [number])
            assert found.dtype == number
            np.testing.assert_array_equal(found, np.flatnonzero(value))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_zeros_of_both_signs_are_zero_and_nan_is_not(dtype):
    rng = np.random.default_rng(1)
    for size in SIZES:
        value = rng.choice(np.array([0.0, -0.0, np.nan, 1e-7, -np.inf]), size).astype(dtype)
        (found,) = selection.select("real", value, [INT32])
        np.testing.assert_array_equal(found, np.flatnonzero(value))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.complex64])
def test_elements_and_positions_together(dtype):
    rng = np.random.default_rng(2)
    for size in SIZES:
        mask, value = rng.random(size) < 0.3, rng.standard_normal(size).astype(dtype)
        found, places = selection.select("set", mask, [value, INT64])
        np.testing.assert_array_equal(found, value[mask])
        np.testing.assert_array_equal(places, np.flatnonzero(mask))


@pytest.mark.parametrize("dtype", [np.bool_, np.int16, np.uint32, np.int64])
def test_new_integers(dtype):
    rng = np.random.default_rng(3)
    for size in SIZES:
        value = np.sort(rng.integers(0, size, size).astype(dtype))
        found, places = selection.select("new", value, [value, INT32])
        expected, first = np.unique(value, return_index=True)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(places, first)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_new_floats_with_and_without_equal_nans(dtype):
    rng = np.random.default_rng(4)
    for size in SIZES:
        kinds = np.array([-np.inf, -1.0, 0.0, 3.5, np.nan], dtype)
        value = np.sort(rng.choice(kinds, size))
        for test, equal in (("new number", True), ("new real", False)):
            (found,) = selection.select(test, value, [value])
            np.testing.assert_array_equal(found, np.unique(value, equal_nan=equal))
