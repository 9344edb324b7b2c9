"""The few largest elements of rows, one by one: the text run on the host."""

import ml_dtypes
import numpy as np
import pytest

from tests.backends.cuda.emulation import run_routine
from weft.backends.cuda.routines import sort
from weft.backends.cuda.routines.base import Run
from weft.kernel.program import Type

# Shapes, axes, elements that are kept and dtypes; ties are many.
CASES = [
    ((3, 40), 1, 5, np.float32),
    ((9, 7), 1, 7, np.float32),
    ((2, 600), 1, 3, np.float32),
    ((2, 37, 3), 1, 4, np.int8),
    ((11, 2), 0, 16, np.uint8),
    ((5, 33), 1, 2, ml_dtypes.bfloat16),
]


def largest(x, axis, kept):
    shape = [kept if i == axis else n for i, n in enumerate(x.shape)]
    params = {"k": kept, "axis": axis}
    routine = sort.top_k([Type(x.shape, x.dtype)], [], params)
    found = np.empty(shape, x.dtype), np.empty(shape, np.int32)
    run_routine(routine, [x], found)
    return routine, *found


@pytest.mark.parametrize("shape, axis, kept, dtype", CASES)
def test_few_are_found_one_by_one(shape, axis, kept, dtype):
    kept = min(kept, shape[axis])
    x = np.round(np.random.default_rng(0).normal(5, 3, shape)).astype(dtype)
    routine, values, places = largest(x, axis, kept)
    assert [type(step) for step in routine.steps] == [Run] and not routine.scratch
    order = np.argsort(-x.astype(np.float64), axis=axis, kind="stable").take(range(kept), axis)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))


def test_nan_is_the_largest_and_zeros_have_signs():
    x = np.array([[0.0, np.nan, -0.0, np.inf, 2.0]], np.float32)
    _, _, places = largest(x, 1, 5)
    np.testing.assert_array_equal(places, [[1, 3, 4, 0, 2]])


@pytest.mark.parametrize(
    "kept, length, few", [(5, 3025, True), (40, 3025, False), (5, 10**6, False)]
)
def test_more_are_sorted(kept, length, few):
    x = Type((7, length), np.dtype(np.float32))
    routine = sort.top_k([x], [], {"k": kept, "axis": 1})
    assert (len(routine.steps) == 1) == few


def test_a_text_for_few_keys_is_short():
    """Assembling the kernel of a sort once took seven times as long as JAX's first call."""
    x = Type((1026, 3025), np.dtype(np.float32))
    (step,) = sort.top_k([x], [], {"k": 5, "axis": 1}).steps
    assert len(str(step.module)) < 10_000
