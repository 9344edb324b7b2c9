"""Loops: every length around a vector's, masks that touch nothing beyond the end, elements from
anywhere, and choices that few lanes need."""

import numpy as np
import pytest

import weft
from tests.backends.tasks import function
from weft import numpy as jnp
from weft.backends.cpu.calls import native
from weft.backends.cpu.code import width
from weft.backends.cpu.code.loops import render
from weft.backends.llvm.native.machine import compile_many
from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.text.rare import rare
from weft.backends.llvm.text.render import _windows
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Loop, Reduce, Store, affine
from weft.kernel.math_circular import sin
from weft.kernel.nodes import BF16, BOOL, F16, F32, F64, I64
from weft.kernel.spec import verify

TYPES = [F32, F64, F16, BF16, BOOL, np.dtype(np.int8), np.dtype(np.uint16), np.dtype(np.int32)]
LENGTHS = [0, 1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1003]
MARGIN = 64


def execute(kernel, arrays, start=0, stop=1):
    verify(kernel)
    (address,) = compile_many([(render(kernel), kernel.name)])
    function(address)([a.ctypes.data for a in arrays], start, stop)


def guarded(n, dtype):
    """An array of ones with more of them around it, which nobody may touch."""
    whole = np.ones(n + 2 * MARGIN, dtype)
    return whole, whole[MARGIN : MARGIN + n]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_length(dtype):
    k = Builder()
    at = affine(0, {"i": 1})
    for n in LENGTHS:
        x = np.arange(n).astype(dtype)
        whole, out = guarded(n, dtype)
        buffers = [Buffer(dtype, n, "in"), Buffer(dtype, n, "out")]
        store = Store(1, at, k.load(0, dtype, at))
        execute(Kernel("copy", buffers, ("i", n), [store]), [x, out], 0, n)
        assert out.tobytes() == x.tobytes()
        assert np.all(whole[:MARGIN] == 1) and np.all(whole[MARGIN + n :] == 1)


@pytest.mark.parametrize("dtype", [F32, F64, BF16], ids=str)
def test_ranges_that_are_whole_chunks(dtype):
    """Text that is made for one way of cutting the grid: less of it where vectors fit."""
    k = Builder()
    at = affine(0, {"i": 1})
    lines = set()
    for n in [*LENGTHS, 10, 48, 128, 640, 1024]:
        for chunk in sorted({1, 13, 64, 128, max(n, 1), 2 * n + 1}):
            x = np.arange(n).astype(dtype)
            whole, out = guarded(n, dtype)
            buffers = [Buffer(dtype, n, "in"), Buffer(dtype, n, "out")]
            store = Store(1, at, k.load(0, dtype, at))
            kernel = Kernel("copy", buffers, ("i", n), [store])
            made = render(kernel, chunk=chunk)
            lines.add(made.line_count)
            (address,) = compile_many([(made, kernel.name)])
            for start in range(0, n, chunk):
                pointers = [x.ctypes.data, out.ctypes.data]
                function(address)(pointers, start, min(start + chunk, n))
            assert out.tobytes() == x.tobytes()
            assert np.all(whole[:MARGIN] == 1) and np.all(whole[MARGIN + n :] == 1)
    assert len(lines) > 1


@pytest.mark.parametrize("op", ["add", "max", "min", "mul"])
def test_reductions_of_every_length(op):
    k = Builder()
    at = affine(0, {"r": 1})
    initial = {"add": 0, "mul": 1, "max": -np.inf, "min": np.inf}[op]
    reference = {"add": np.sum, "mul": np.prod, "max": np.max, "min": np.min}[op]
    for n in LENGTHS:
        x = np.where(np.arange(n) % 7 == 3, -1.0, 1.0).astype(np.float32)
        reduce = Reduce(0, op, k.load(0, F32, at), F32, initial)
        store = Store(1, affine(0, {}), k.make("acc", (), F32, 0))
        kernel = Kernel(
            "all",
            [Buffer(F32, n, "in"), Buffer(F32, 1, "out")],
            None,
            [Loop("r", n, [reduce], (0,)), store],
        )
        out = np.zeros(1, np.float32)
        execute(kernel, [x, out])
        assert out[0] == reference(x, initial=initial)


def test_reductions_go_through_several_loops_in_vectors():
    k = Builder()
    at = affine(0, {"a": 77, "b": 1})
    reduce = Reduce(0, "add", k.load(0, F32, at), F32, 0)
    store = Store(1, affine(0, {}), k.make("acc", (), F32, 0))
    nest = Loop("a", 50, [Loop("b", 70, [reduce], (0,))], (0,))
    kernel = Kernel("two", [Buffer(F32, 50 * 77, "in"), Buffer(F32, 1, "out")], None, [nest, store])
    x = np.random.default_rng(0).integers(-9, 9, (50, 77)).astype(np.float32)
    out = np.zeros(1, np.float32)
    execute(kernel, [x, out])
    assert out[0] == x[:, :70].sum()
    assert render(kernel).counts(["extractelement"]) <= 2  # lanes are added up once


@pytest.mark.parametrize("stride", [-1, 2, 3, 4, 5, -3, 17])
@pytest.mark.parametrize("dtype", [F32, BF16, BOOL, F64], ids=str)
def test_distances_between_neighbours(stride, dtype):
    k = Builder()
    for n in (1, 7, 16, 40, 65):
        size = abs(stride) * (n - 1) + 1
        x = np.random.default_rng(n).integers(0, 2, size).astype(dtype)
        first = 0 if stride > 0 else size - 1
        load = k.load(0, dtype, affine(first, {"i": stride}))
        buffers = [Buffer(dtype, size, "in"), Buffer(dtype, n, "out")]
        out = np.zeros(n, dtype)
        store = Store(1, affine(0, {"i": 1}), load)
        execute(Kernel("strided", buffers, ("i", n), [store]), [x, out], 0, n)
        assert np.array_equal(out, x[::stride])
        back = np.zeros(size, dtype)
        store = Store(1, affine(first, {"i": stride}), k.load(0, dtype, affine(0, {"i": 1})))
        swapped = [Buffer(dtype, n, "in"), Buffer(dtype, size, "out")]
        execute(Kernel("spread", swapped, ("i", n), [store]), [out, back], 0, n)
        assert np.array_equal(back[::stride], out)


def test_windows_stay_between_the_first_and_the_last_element():
    rng = np.random.default_rng(0)
    for _ in range(200):
        pattern = rng.integers(-50, 50, int(rng.choice([2, 8, 24, 48]))).tolist()
        windows = _windows(pattern)
        for first, size in windows:
            assert first >= min(pattern) and first + size - 1 <= max(pattern)
            assert size <= len(pattern)
        assert all(any(f <= o < f + n for f, n in windows) for o in pattern)


def test_axes_of_a_grid_are_counted():
    k = Builder()
    total = k.add(k.mul(k.index("a"), k.const(100, I64)), k.index("b"))
    value = k.add(k.mul(total, k.const(100, I64)), k.index("i"))
    store = Store(0, affine(0, {"a": 15, "b": 5, "i": 1}), value)
    body = [Loop("i", 5, [store])]
    kernel = Kernel("grid", [Buffer(I64, 30, "out")], ("g", 6), body, (("a", 2), ("b", 3)))
    out = np.full(30, -1)
    for start in (3, 0, 5, 1):
        execute(kernel, [out], start, {3: 5, 0: 1, 5: 6, 1: 3}[start])
    want = [a * 10000 + b * 100 + i for a in range(2) for b in range(3) for i in range(5)]
    assert out.tolist() == want


def test_rare_choices_branch_and_keep_their_bits():
    k = Builder()
    at = affine(0, {"i": 1})
    value = sin(k, k.load(0, F64, at))
    assert len(rare([value])) == 1
    n = 200
    kernel = Kernel(
        "far", [Buffer(F64, n, "in"), Buffer(F64, n, "out")], ("i", n), [Store(1, at, value)]
    )
    assert "vector.reduce.or" in str(render(kernel))
    rng = np.random.default_rng(0)
    near = rng.standard_normal(n)
    far = near.copy()
    far[5::37] = rng.standard_normal(len(far[5::37])) * 1e12
    results = []
    for x in (near, far):
        out = np.zeros(n)
        execute(kernel, [x, out], 0, n)
        assert np.max(np.abs(out - np.sin(x)) / np.spacing(np.abs(np.sin(x)))) <= 2
        results.append(out)
    same = near == far
    assert results[0][same].tobytes() == results[1][same].tobytes()


def test_wide_vectors_for_small_bodies_and_narrow_ones_for_short_loops():
    k = Builder()
    at = affine(0, {"i": 1})
    small = Loop("i", 1000, [Store(1, at, k.load(0, F32, at))])
    large = Loop("i", 1000, [Store(1, at, sin(k, k.load(0, F32, at)))])
    kernel = Kernel("any", [Buffer(F32, 1000, "in"), Buffer(F32, 1000, "out")], None, [small])

    assert width.lanes_of(small) > width.lanes_of(large)
    assert width.lanes_of(small._replace(extent=3)) < width.lanes_of(small)
    assert f"<{width.lanes_of(small)} x float>" in str(render(kernel))


def test_a_result_may_take_the_place_of_an_operand():
    k = Builder()
    at = affine(0, {"i": 1})
    x, y = k.load(0, F32, at), k.load(1, F32, at)
    n = 100
    stores = [Store(2, at, k.add(y, y)), Store(3, at, k.add(x, y))]
    roles = ("in", "in", "out", "out")
    kernel = Kernel("place", [Buffer(F32, n, role) for role in roles], ("i", n), stores)
    a, b, c = (np.arange(n, dtype=np.float32) * factor for factor in (1, 10, 0))
    want = a + b
    execute(kernel, [a, b, a, c], 0, n)
    assert np.array_equal(c, want)
    assert np.array_equal(a, b + b)


@pytest.mark.parametrize("count", [1, 2, 40])
def test_short_rows_far_apart_are_not_read_one_by_one(count):
    """Many of them would be text for which LLVM takes seconds."""
    k = Builder()
    rows, columns, apart = 37, 5, 30
    total = k.const(0, F32)
    for i in range(count):
        total = k.add(total, k.load(0, F32, affine(i, {"i": apart, "j": 1})))
    store = Store(1, affine(0, {"i": columns, "j": 1}), total)
    x = np.arange(apart * rows + count + columns, dtype=np.float32)
    buffers = [Buffer(F32, x.size, "in"), Buffer(F32, rows * columns, "out")]
    kernel = Kernel("rows", buffers, ("i", rows), [Loop("j", columns, [store])])
    whole, out = guarded(rows * columns, F32)
    execute(kernel, [x, out], 0, rows)
    at = apart * np.arange(rows)[:, None] + np.arange(columns)
    want = sum(x[at + i] for i in range(count))
    np.testing.assert_array_equal(out.reshape(rows, columns), want)
    assert np.all(whole[:MARGIN] == 1) and np.all(whole[MARGIN + out.size :] == 1)
    assert render(kernel).line_count < 1000


@pytest.mark.parametrize("rows", [1, 2, 5, 16, 33])
def test_short_rows_fill_vectors(rows):
    with weft.base.knobs.scope(backend="native"):
        for columns in (1, 2, 3, 5, 7, 10, 12, 28):
            x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
            b = np.arange(columns, dtype=np.float32) * 100
            got = weft.jit(lambda x, b: (x + b, x * x[:, :1]))(x, b)
            assert np.array_equal(got[0], x + b)
            assert np.array_equal(got[1], x * x[:, :1])


@pytest.mark.parametrize("copies", [3, 5])
def test_few_short_rows_are_vectors_of_their_own(copies):
    """Where they do not fill one together, each is a vector: no element is stored by itself."""
    k = Builder()
    groups, columns = 7, 10
    load = k.load(0, F32, affine(0, {"g": columns, "j": 1}))
    store = Store(1, affine(0, {"g": copies * columns, "i": columns, "j": 1}), load)
    nest = Loop("i", copies, [Loop("j", columns, [store])])
    buffers = [Buffer(F32, groups * columns, "in"), Buffer(F32, copies * groups * columns, "out")]
    kernel = Kernel("copies", buffers, ("g", groups), [nest])
    x = np.arange(groups * columns, dtype=np.float32)
    whole, out = guarded(copies * x.size, F32)
    execute(kernel, [x, out], 0, groups)
    want = np.repeat(x.reshape(groups, columns), copies, 0)
    np.testing.assert_array_equal(out.reshape(want.shape), want)
    assert np.all(whole[:MARGIN] == 1) and np.all(whole[MARGIN + out.size :] == 1)
    assert "store float " not in str(render(kernel))


def test_nan_and_signed_zeros_survive_every_path():
    x = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf] * 7, np.float32)
    with weft.base.knobs.scope(backend="native"):
        fun = weft.jit(lambda x: (jnp.max(x), jnp.min(x[1:5]), x.reshape(5, 7).T, -x))
        high, low, turned, negated = fun(x)
    assert np.isnan(high) and low == -np.inf
    assert np.array_equal(turned, x.reshape(5, 7).T, equal_nan=True)
    assert np.array_equal(np.signbit(negated), np.signbit(-x))


def test_integers_are_not_divided_by_what_lies_past_the_end():
    k = Builder()
    at = affine(0, {"i": 1})
    kind = np.dtype(np.int32)
    for n in LENGTHS:
        x, y = np.arange(n, dtype=np.int32) * 7, np.arange(n, dtype=np.int32) + 1
        value = k.div(k.load(0, kind, at), k.load(1, kind, at))
        buffers = [Buffer(kind, n, "in"), Buffer(kind, n, "in"), Buffer(kind, n, "out")]
        out = np.zeros(n, np.int32)
        execute(Kernel("divided", buffers, ("i", n), [Store(2, at, value)]), [x, y, out], 0, n)
        assert np.array_equal(out, x // y)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_rows_that_begin_anywhere_in_a_cache_line(dtype):
    k = Builder()
    for m, n in ((5, 257), (3, 1000), (4, 1013)):
        x = np.arange(n).astype(dtype)
        buffers = [Buffer(dtype, n, "in"), Buffer(dtype, m * n, "out")]
        store = Store(1, affine(0, {"r": n, "i": 1}), k.load(0, dtype, affine(0, {"i": 1})))
        kernel = Kernel("rows", buffers, ("r", m), [Loop("i", n, [store])])
        for skipped in (0, 1, 13):
            whole = np.ones(m * n + 2 * MARGIN, dtype)
            out = whole[MARGIN + skipped :][: m * n]
            execute(kernel, [x, out], 0, m)
            assert np.array_equal(out.reshape(m, n), np.broadcast_to(x, (m, n)))
            assert (whole[: MARGIN + skipped] == 1).all()
            assert (whole[MARGIN + skipped + m * n :] == 1).all()


def test_a_tree_of_many_small_arrays_is_little_text():
    """LLVM takes long for kernels of many arrays, and for masks that the processor has not."""
    tree = {i: jnp.ones(3) * i for i in range(100)}
    closed = weft.make_jaxpr(lambda tree: weft.tree.map(lambda x: x + 1, tree))(tree)
    texts = {str(made) for made, _ in native.Executable(closed).plan.codes}
    assert len(texts) <= 2
    for text in texts:
        assert text.count("\n") < 250
        assert vector_bits() > 128 or "masked" not in text


@pytest.mark.parametrize("bits, count, tested", [(128, 16, 0), (128, 80, 1), (512, 80, 0)])
def test_loops_of_many_constants_are_tested_for_on_arm(monkeypatch, bits, count, tested):
    """LLVM hoists constants that registers do not hold only out of loops that it sees tested."""
    monkeypatch.setattr(width, "vector_bits", lambda: bits)
    monkeypatch.setattr(width, "registers", lambda: 32)
    k = Builder()
    at = affine(0, {"i": 1})
    value = k.load(0, F32, at)
    for number in range(count):
        value = k.add(k.mul(value, value), k.const(number, F32))
    loop = Loop("i", 1000, [Store(1, at, value)])
    buffers = [Buffer(F32, 1000, "in"), Buffer(F32, 1000, "out")]
    text = str(render(Kernel("any", buffers, None, [loop])))
    before = text[: text.index("phi")]
    assert before.count("icmp slt") == before.count("br i1") == tested


@pytest.mark.parametrize("columns", [10, 13, 15])
def test_a_row_kept_on_the_stack_is_read_where_it_was_written(columns):
    """Cross entropy and its gradient: the last pass cuts a row in another way than the others."""
    rng = np.random.default_rng(columns)
    x, y = (rng.standard_normal((7, columns)).astype(np.float32) for _ in range(2))
    loss = lambda x, y: -(y * weft.nn.log_softmax(x)).sum(-1).mean()
    weft.clear_caches()  # code for this shape alone, not for any
    _, found = weft.jit(weft.value_and_grad(loss))(x, y)
    shares = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    want = (shares * y.sum(-1, keepdims=True) - y) / 7
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6)
