"""Gather, scatter and slices: references against element-by-element loops, checks, rules."""

import itertools

import numpy as np
import pytest

from tests.samples.index_cases import random_case
from weft.prims.index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    dynamic_slice_shape,
    dynamic_update_slice_shape,
    gather_shape,
    scatter_numbers,
    scatter_shape,
    slice_shape,
    window_sizes,
)
from weft.prims.index_reference import (
    dynamic_slice_reference,
    dynamic_update_slice_reference,
    gather_reference,
    scatter_reference,
)

CLIP = GatherScatterMode.CLIP
FILL = GatherScatterMode.FILL_OR_DROP
PROMISE = GatherScatterMode.PROMISE_IN_BOUNDS


def windows(shape, indices, numbers, sizes):
    """For each index vector: its place, the window's start before clamping, and its elements."""
    absent = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = [d for d in range(len(shape)) if d not in absent]
    for place in np.ndindex(indices.shape[:-1]):
        start = [0] * len(shape)
        for k, axis in enumerate(numbers.start_index_map):
            start[axis] = int(indices[place][k])
        for axis, other in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims):
            start[axis] = place[other]
        offsets = list(itertools.product(*(range(sizes[d]) for d in kept)))
        yield place, start, kept, offsets


def result_place(place, offset, numbers):
    rank = len(place) + len(offset)
    place, offset = iter(place), iter(offset)
    return tuple(next(offset if d in numbers.offset_dims else place) for d in range(rank))


def clamped(start, shape, sizes):
    return [min(max(s, 0), n - w) for s, n, w in zip(start, shape, sizes)]


def element(start, kept, offset):
    at = list(start)
    for axis, step in zip(kept, offset):
        at[axis] += step
    return tuple(at)


def slow_gather(operand, indices, numbers, sizes, mode, fill):
    out = np.zeros(gather_shape(operand.shape, indices.shape, numbers, sizes), operand.dtype)
    for place, start, kept, offsets in windows(operand.shape, indices, numbers, sizes):
        inside = clamped(start, operand.shape, sizes)
        for offset in offsets:
            value = operand[element(inside, kept, offset)]
            if mode is FILL and inside != start:
                value = fill
            out[result_place(place, offset, numbers)] = value
    return out


def slow_scatter(operand, indices, updates, numbers, sizes, mode, combine):
    out = operand.copy()
    for place, start, kept, offsets in windows(operand.shape, indices, numbers, sizes):
        inside = clamped(start, operand.shape, sizes)
        if mode is not CLIP and inside != start:
            continue
        for offset in offsets:
            at = element(inside, kept, offset)
            out[at] = combine(out[at], updates[result_place(place, offset, numbers)])
    return out


@pytest.mark.parametrize("seed", range(60))
def test_references_match_loops(seed):
    rng = np.random.default_rng(seed)
    shape, index_shape, numbers, sizes = random_case(rng)
    dtype = str(rng.choice(["float32", "int8", "uint16", "complex64"]))
    operand = rng.integers(-9, 9, shape).astype(dtype)
    indices = rng.integers(-2, 6, index_shape).astype(rng.choice(["int32", "int8", "int64"]))
    result = gather_shape(shape, index_shape, numbers, sizes)
    updates = rng.integers(-9, 9, result).astype(dtype)
    dims = scatter_numbers(numbers)
    assert scatter_shape(shape, index_shape, result, dims) == shape
    assert window_sizes(len(shape), result, dims) == sizes
    for mode in (CLIP, FILL, PROMISE):
        got = gather_reference(operand, indices, numbers, sizes, mode, 7)
        np.testing.assert_array_equal(got, slow_gather(operand, indices, numbers, sizes, mode, 7))
        for ufunc in (np.add, np.subtract, np.multiply, np.minimum, np.maximum):
            want = slow_scatter(operand, indices, updates, numbers, sizes, mode, ufunc)
            got = scatter_reference(operand, indices, updates, dims, mode, ufunc)
            np.testing.assert_array_equal(got, want)
            by_turns = lambda x, y, f=ufunc: f(x, y)
            got = scatter_reference(operand, indices, updates, dims, mode, by_turns)
            np.testing.assert_array_equal(got, want)
        want = slow_scatter(operand, indices, updates, numbers, sizes, mode, lambda x, y: y)
        got = scatter_reference(operand, indices, updates, dims, mode)
        np.testing.assert_array_equal(got, want)


def test_unsigned_indices_beyond_the_signed_range_are_out_of_bounds():
    numbers = GatherDimensionNumbers((), (0,), (0,))
    indices = np.array([[2**64 - 1]], np.uint64)
    x = np.arange(3)
    assert gather_reference(x, indices, numbers, (1,), CLIP).tolist() == [2]
    assert gather_reference(x, indices, numbers, (1,), FILL, -1).tolist() == [-1]


def test_dynamic_slices_are_moved_inside():
    x = np.arange(12).reshape(3, 4)
    starts = [np.int32(5), np.int32(-3)]
    np.testing.assert_array_equal(dynamic_slice_reference(x, starts, (2, 2)), x[1:3, 0:2])
    updated = dynamic_update_slice_reference(x, np.zeros((2, 2), int), starts)
    assert updated.tolist() == [[0, 1, 2, 3], [0, 0, 6, 7], [0, 0, 10, 11]]
    assert x[1, 0] == 4


def test_mode_names():
    assert GatherScatterMode.from_any(None) is FILL
    assert GatherScatterMode.from_any("drop") is FILL
    assert GatherScatterMode.from_any("fill") is FILL
    assert GatherScatterMode.from_any(CLIP) is CLIP
    assert GatherScatterMode.from_any("promise_in_bounds") is PROMISE
    assert str(CLIP) == "GatherScatterMode.CLIP"
    with pytest.raises(ValueError, match="'wrap'"):
        GatherScatterMode.from_any("wrap")


def test_slice_shapes():
    assert slice_shape((5, 6), (1, 0), (4, 6), (1, 4)) == (3, 2)
    assert slice_shape((5,), (2,), (2,)) == (0,)
    for starts, limits, strides in [
        ((0,), (6, 6), None),
        ((0, 0), (5, 7), None),
        ((-1, 0), (5, 6), None),
        ((3, 0), (2, 6), None),
        ((0, 0), (5, 6), (1, 0)),
        ((0, 0), (5, 6), (1,)),
    ]:
        with pytest.raises((TypeError, ValueError), match="slice"):
            slice_shape((5, 6), starts, limits, strides)
    with pytest.raises(TypeError, match=r"\(9, 2\)"):
        dynamic_slice_shape((5, 6), [(), ()], (9, 2))
    with pytest.raises(TypeError, match="scalar"):
        dynamic_slice_shape((5,), [(1,)], (2,))
    with pytest.raises(TypeError, match="one start index"):
        dynamic_update_slice_shape((5, 6), (1, 1), [()])
    with pytest.raises(TypeError, match="as many axes"):
        dynamic_update_slice_shape((5, 6), (1,), [(), ()])


@pytest.mark.parametrize(
    "indices, numbers, sizes, word",
    [
        ((), ((), (0,), (0,)), (1, 1), "scalar"),
        ((2, 1), ((1, 0), (), (0,)), (1, 4), "offset_dims"),
        ((2, 1), ((5,), (0,), (0,)), (1, 4), "offset_dims"),
        ((2, 2), ((1,), (0,), (0,)), (1, 4), "start_index_map"),
        ((2, 1), ((1,), (0,), (2,)), (1, 4), "start_index_map"),
        ((2, 2), ((1,), (0,), (0, 0)), (1, 4), "start_index_map"),
        ((2, 1), ((1,), (3,), (0,)), (1, 4), "collapsed_slice_dims"),
        ((2, 1), ((1,), (0,), (0,)), (1,), "slice size"),
        ((2, 1), ((), (0,), (0,)), (1, 4), "offset dimension"),
        ((2, 1), ((1,), (0,), (0,)), (1, 5), "slice size 5"),
        ((2, 1), ((1,), (0,), (0,)), (2, 4), "collapse"),
        ((3, 1), ((1,), (), (1,), (0,), (1,)), (1, 4), "last axis"),
        ((2, 1), ((1,), (), (1,), (0,), (0,)), (1, 4), "equal sizes"),
        ((3, 1), ((1,), (), (0,), (0,), (0,)), (1, 4), "neither"),
        ((3, 1), ((1,), (), (1,), (0,), (0,)), (3, 4), "0 or 1"),
    ],
)
def test_gather_checks(indices, numbers, sizes, word):
    with pytest.raises(TypeError, match=word):
        gather_shape((3, 4), indices, GatherDimensionNumbers(*numbers), sizes)


@pytest.mark.parametrize(
    "indices, updates, numbers, word",
    [
        ((), (), ((), (0, 1), (0, 1)), "scalar"),
        ((2, 1), (2,), ((1,), (0,), (0,)), "2 axes"),
        ((2, 1), (2, 4), ((0, 1), (0,), (0,)), "3 axes"),
        ((2, 1), (2, 5), ((1,), (0,), (0,)), "larger"),
        ((2, 1), (3, 4), ((1,), (0,), (0,)), "indices"),
        ((2, 1), (2, 4), ((1,), (), (0,)), "window dimension"),
        ((2, 2), (2, 4), ((1,), (0,), (0,)), "scatter_dims_to_operand_dims"),
    ],
)
def test_scatter_checks(indices, updates, numbers, word):
    with pytest.raises(TypeError, match=word):
        scatter_shape((3, 4), indices, updates, ScatterDimensionNumbers(*numbers))
