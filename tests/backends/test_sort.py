"""Sorting as native tasks against the reference, to the bit: every dtype, ways to split rows,
several keys, the largest elements."""

import numpy as np
import pytest

from tests.backends.by_python import Cells, runnable
from tests.backends.tasks import run_tasks
from weft import dtypes
from weft.api.threads import num_threads
from weft.backends.cpu.routines.sorting import largest, packing, rows, sort
from weft.backends.cpu.routines.sorting.tiles import MAX_ROW_ELEMENTS
from weft.kernel.program import Type
from weft.prims.sort import approx_top_k_p, sort_p, top_k_p

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
# Single vectors and less, tiles with empty lanes, columns, rows that are split, in one and more.
SHAPES = [((5,), 0), ((16,), 0), ((300,), 0), ((40, 100), 1), ((20, 5), 1), ((5, 33), 0)]
SHAPES += [((3, 50, 20), 1), ((2, 7, 3), 1), ((2, 3000), 1), ((40000,), 0), ((300, 40), 0)]
SHAPES += [((3000, 4), 0), ((1, 2), 1), ((33, 130), 1), ((2, 2100, 37), 1), ((17, 16), 0)]


def sample(shape, dtype, seed=0):
    """Numbers with many ties and, for floats, zeros of both signs, infinities and NaNs."""
    random = np.random.default_rng([seed, *shape])
    dtype = np.dtype(dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    if dtype.kind in "biu":
        wide = random.integers(-(2**40), 2**40, shape).astype(dtype)
        return np.where(random.random(shape) < 0.3, np.ones((), dtype), wide)
    x = random.standard_normal(shape)
    if dtype.kind == "c":
        return (np.round(x) + 1j * random.standard_normal(shape)).astype(dtype)
    for value in (np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf, 1.5):
        x = np.where(random.random(shape) < 0.06, value, x)
    return x.astype(dtype)


def check(primitive, lower, ins, **params):
    """Native results have the bits of the reference's, NaNs too."""
    want = [np.ascontiguousarray(x) for x in primitive.ref(*ins, **params)]
    types = [[Type(x.shape, x.dtype) for x in xs] for xs in (ins, want)]
    lowered = lower(*types, params)
    assert lowered is not None
    for a, b in zip(run_tasks(lowered, ins, types[1]), want, strict=True):
        assert a.tobytes() == b.tobytes(), (params, a, b)


def positions(shape, dimension):
    sizes = [-1 if i == dimension else 1 for i in range(len(shape))]
    along = np.arange(shape[dimension], dtype=np.int32).reshape(sizes)
    return np.ascontiguousarray(np.broadcast_to(along, shape))


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS, *COMPLEX])
def test_sorted_alone(dtype):
    for shape, dimension in SHAPES:
        x = sample(shape, dtype)
        check(sort_p, sort.sort, [x], dimension=dimension, is_stable=True, num_keys=1)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "bfloat16", "float32", "complex64"])
def test_sorted_with_others(dtype):
    for shape, dimension in SHAPES:
        x = sample(shape, dtype)
        ins = [x, positions(shape, dimension), sample(shape, "complex128")]
        check(sort_p, sort.sort, ins, dimension=dimension, is_stable=True, num_keys=1)


@pytest.mark.parametrize("dtype", ["int16", "float64"])
def test_sorted_by_several_keys(dtype):
    for shape, dimension in SHAPES:
        ins = [sample(shape, "bool"), sample(shape, dtype), positions(shape, dimension)]
        check(sort_p, sort.sort, ins, dimension=dimension, is_stable=True, num_keys=2)


def test_long_rows():
    for n in (1, MAX_ROW_ELEMENTS, MAX_ROW_ELEMENTS + 1, 70_001, 270_000):
        x = sample((n,), "float32", n)
        if n > 1:
            check(sort_p, sort.sort, [x], dimension=0, is_stable=True, num_keys=1)
            ins = [x, positions((n,), 0)]
            check(sort_p, sort.sort, ins, dimension=0, is_stable=True, num_keys=1)


@pytest.mark.parametrize("kind", ["rising", "falling", "equal", "saw"])
def test_orders_that_networks_and_pivots_may_stumble_over(kind):
    n = 50_000
    values = {"rising": np.arange(n), "falling": -np.arange(n), "equal": np.zeros(n)}
    x = values.get(kind, np.arange(n) % 97).astype(np.int32)
    check(sort_p, sort.sort, [x], dimension=0, is_stable=True, num_keys=1)
    check(sort_p, sort.sort, [x, x[::-1].copy()], dimension=0, is_stable=True, num_keys=1)


@pytest.mark.parametrize("bits", [128, 256])
def test_other_widths_of_vectors(bits, monkeypatch):
    monkeypatch.setattr(sort, "vector_bits", lambda: bits)
    for shape, dimension in SHAPES:
        for dtype in ("float32", "float64", "uint8"):
            ins = [sample(shape, dtype)]
            check(sort_p, sort.sort, ins, dimension=dimension, is_stable=True, num_keys=1)
            ins.append(positions(shape, dimension))
            check(sort_p, sort.sort, ins, dimension=dimension, is_stable=True, num_keys=1)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", *FLOATS])
def test_the_largest(dtype):
    for shape, axis in SHAPES:
        for k in {1, 3, shape[axis]}:
            if k <= shape[axis]:
                check(top_k_p, largest.top_k, [sample(shape, dtype)], k=k, axis=axis)


@pytest.mark.parametrize("is_max_k", [True, False])
def test_approximately_the_largest(is_max_k):
    for shape, axis in SHAPES:
        params = {"reduction_dimension": axis, "recall_target": 0.95, "is_max_k": is_max_k}
        params |= {"reduction_input_size_override": -1, "aggregate_to_topk": True}
        x = sample(shape, "float32")
        check(approx_top_k_p, largest.approx_top_k, [x], k=min(3, shape[axis]), **params)


def test_any_number_of_threads():
    ins = [sample((100_000,), "float32"), positions((100_000,), 0)]
    for threads in (1, 8):
        with num_threads(threads):
            check(sort_p, sort.sort, ins[:1], dimension=0, is_stable=True, num_keys=1)
            check(sort_p, sort.sort, ins, dimension=0, is_stable=True, num_keys=1)


def test_what_the_reference_does():
    empty = Type((0, 4), np.dtype(np.float32))
    single = Type((4, 1), np.dtype(np.float32))
    odd = Type((4,), np.dtype(dtypes.float8_e4m3fn))
    for t, dimension in ((empty, 0), (empty, 1), (single, 1), (odd, 0)):
        params = {"dimension": dimension, "is_stable": True, "num_keys": 1}
        assert sort.sort([t], [t], params) is None
    assert largest.top_k([single], [single, single], {"k": 0, "axis": 0}) is None


def test_a_text_serves_every_shape():
    def texts(n):
        t = Type((n,), np.dtype(np.float32))
        params = {"dimension": 0, "is_stable": True, "num_keys": 1}
        return {task.module for task in sort.sort([t], [t], params).tasks[1:]}

    assert texts(100_000) == texts(777_777)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bfloat16"])
def test_few_of_the_largest_are_kept_in_a_heap(dtype):
    for shape, k, axis in [
        ((5000,), 64, 0),
        ((3, 600), 63, 1),
        ((1000, 3), 64, 0),
        ((449,), 64, 0),
    ]:
        x = sample(shape, dtype)
        rising = np.arange(x.size).reshape(shape).astype(x.dtype)
        last = np.full(shape, dtypes.finfo(dtype).min if x.dtype.kind in "fV" else 0, x.dtype)
        for given in (x, rising, rising[::-1], last):
            check(top_k_p, largest.top_k, [np.ascontiguousarray(given)], k=k, axis=axis)
    single = Type((5000,), np.dtype(np.float32))
    found = largest.top_k([single], [single, single], {"k": 64, "axis": 0})
    assert [task.name for task in found.tasks] == ["top_heap"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint32", "bfloat16"])
def test_many_of_the_largest_are_kept_in_a_heap(dtype):
    shapes = [((5000,), 100, 0), ((3, 4000), 300, 1), ((2000, 3), 90, 0), ((70000,), 8192, 0)]
    for shape, k, axis in shapes:
        x = sample(shape, dtype)
        rising = np.arange(x.size).reshape(shape).astype(x.dtype)
        for given in (x, rising):
            check(top_k_p, largest.top_k, [given], k=k, axis=axis)
    single = Type((5000,), np.dtype(np.float32))
    found = largest.top_k([single], [single, single], {"k": 100, "axis": 0})
    assert [task.name for task in found.tasks][-1] == "top_heap"


def hard_rows(n):
    """Keys that are hard to split: all the same, few, in order, one far from all others."""
    random = np.random.default_rng(0)
    yield np.full(n, 7)
    yield random.integers(0, 3, n)
    yield np.arange(n)
    yield np.arange(n)[::-1]
    yield np.where(np.arange(n) == n // 3, -(2**31), 2**31 - 1)
    yield np.where(random.random(n) < 0.99, 5, random.integers(0, 10**6, n))
    yield 2 ** (np.arange(n) % 31)  # halves of the range of keys hold one kind of key each
    yield np.abs(np.arange(n) - n // 2)


@pytest.mark.parametrize("n", [257, 300, 5000, 32768, 70001])
@pytest.mark.parametrize("dtype", ["int32", "float64", "uint16"])
def test_rows_that_are_hard_to_split(n, dtype):
    for x in hard_rows(n):
        x = x.astype(dtype)
        check(sort_p, sort.sort, [x], dimension=0, is_stable=True, num_keys=1)


@pytest.mark.parametrize("dtype", ["int32", "float16", "float32", "int64"])
def test_long_rows_by_several_threads(dtype):
    for shape in [(100003,), (3, 40000), (20, 33000)]:
        x = sample(shape, dtype)
        kept = {"dimension": len(shape) - 1, "is_stable": True, "num_keys": 1}
        check(sort_p, sort.sort, [x], **kept)
        check(sort_p, sort.sort, [x, positions(shape, len(shape) - 1)], **kept)


def test_pivots_by_the_range_of_keys(monkeypatch):
    """Where chosen keys split badly again and again, the range of keys is halved."""
    monkeypatch.setattr(packing, "DEPTH", 1)
    monkeypatch.setattr(sort, "quick_module", sort.quick.quick_module)
    for x in hard_rows(9000):
        check(sort_p, sort.sort, [x.astype("int32")], dimension=0, is_stable=True, num_keys=1)


def test_usual_nans_need_no_mending():
    """The NaN that NumPy writes keeps its bits through its key; others are put back."""
    order = sort.order_of(np.dtype("float32"))
    assert order.nan == np.float32(np.nan).view("uint32")
    x = sample((3000,), "float32")
    x.view("uint32")[::50] = 0x7FC00001
    x.view("uint32")[::70] = 0xFFC00000
    check(sort_p, sort.sort, [x], dimension=0, is_stable=True, num_keys=1)


@pytest.mark.parametrize("dtype", ["int32", "float32", "bfloat16", "int64"])
def test_split_where_no_instruction_permutes_lanes(dtype, monkeypatch):
    monkeypatch.setattr(sort, "vector_bits", lambda: 128)
    monkeypatch.setattr(packing, "is_arm", lambda: False)
    for name in ("quick_module", "buckets_module"):
        monkeypatch.setattr(sort, name, getattr(sort, name).__wrapped__)
    for shape in [(300,), (2, 3000), (40000,)]:
        x = sample(shape, dtype)
        kept = {"dimension": len(shape) - 1, "is_stable": True, "num_keys": 1}
        check(sort_p, sort.sort, [x], **kept)
        check(sort_p, sort.sort, [x, positions(shape, len(shape) - 1)], **kept)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint64"])
@pytest.mark.parametrize("canonical", [False, True])
def test_keys_have_the_order_of_elements(dtype, canonical):
    """The stub of keys, run by Python."""
    x = sample((400,), dtype)
    x = np.unique(x[x == x].astype(float if x.dtype.kind in "fV" else x.dtype)).astype(x.dtype)
    order = rows.order_of(x.dtype)
    found = x.view(f"u{x.dtype.itemsize}")
    rising = runnable(rows.key, **rows.key_names(order, canonical))(found)
    falling = runnable(rows.key, **rows.key_names(order, canonical, True))(found)
    np.testing.assert_array_equal(rising, ~falling)
    assert np.all(rising[1:] > rising[:-1])
    if order.kind == "float":
        zeros = np.array([order.sign, 0], found.dtype)
        below, above = runnable(rows.key, **rows.key_names(order, canonical))(zeros)
        assert below == above if canonical else below < above


def test_a_heap_keeps_the_first_records():
    """The stubs of the heap, run by Python."""
    sift = runnable(largest.sift, RECORD=Cells(np.int64))
    records = np.random.RandomState(0).permutation(200)
    for count in (1, 2, 3, 16, 31):
        heap = [1000] * count
        for x in records:
            if x < heap[0]:
                sift(heap, count, x)
        found = []
        for i in reversed(range(count)):
            found.append(int(heap[0]))
            sift(heap, i, heap[i])
        assert found == sorted(range(count), reverse=True)
