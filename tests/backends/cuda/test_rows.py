"""Rows of all sizes: how they are spread over a GPU, and their text run on the host."""

import re

import numpy as np
import pytest

import weft
from tests.backends.cuda.test_columns import launch
from tests.backends.cuda.test_ptx import kernels_of
from weft import nn
from weft import numpy as jnp
from weft.backends.cuda import ptx
from weft.backends.cuda import schedule as schedules
from weft.backends.cuda import stages as staging
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text.render import render
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Loop, Reduce, Store, affine
from weft.kernel.run import run_kernel


def f32(*shape):
    return weft.ShapeDtypeStruct(shape, np.float32)


def check(fun, *args):
    """All kernels of a function by their text, against the kernels; how they are scheduled."""
    rng, found = np.random.default_rng(0), []
    for kernel in kernels_of(fun, *args):
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        whole = [_drawn(rng, kernel.buffers[i]) for i in outside]
        parts, scratch = schedule(kernel)
        memory = dict(zip(outside, (x.copy() for x in whole), strict=True))
        for i, b in enumerate(scratch):
            memory[len(kernel.buffers) + i] = np.zeros(b.size, b.dtype)
        run_kernel(kernel, whole)
        for part in parts:
            launch(part, [memory[i] for i in part.buffers])
        for i, x in zip(outside, whole, strict=True):
            np.testing.assert_allclose(memory[i], x, rtol=1e-4, atol=1e-5)
        found += parts
    return found


def _drawn(rng, b):
    x = rng.normal(size=b.size)
    return x > 0 if b.dtype == bool else x.astype(b.dtype)


def masked(scores, keep):
    return nn.softmax(jnp.where(keep[:, None, None], scores, -1e30), -1)


@pytest.mark.parametrize("length", [5, 64, 65])
def test_rows_with_a_mask_are_apart(length):
    """A mask that broadcasts over heads and queries once had a block for each of its rows."""
    keep = weft.ShapeDtypeStruct((2, length), bool)
    (part,) = check(masked, f32(2, 3, length, length), keep)
    assert part.iterations == 2 * 3 * length


def test_warps_of_the_last_block_may_have_no_row(monkeypatch):
    monkeypatch.setattr(schedules, "ENOUGH_BLOCKS", 1)
    (part,) = check(lambda x: nn.softmax(x, -1), f32(19, 128))
    assert (part.group, part.blocks) == (schedules.WARPS, 3)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 16])
def test_short_rows_have_a_thread_each(length, monkeypatch):
    monkeypatch.setattr(schedules, "ENOUGH_THREADS", 1)
    monkeypatch.setattr(schedules, "SPLIT_THREADS", 1)
    for fun in (lambda x: (x * x).sum(-1), lambda x: nn.softmax(x, -1)):
        for part in check(fun, f32(70, length)):
            assert not part.shares


@pytest.mark.parametrize("columns", [2, 3, 7, 31])
def test_few_columns_are_split_into_many_pieces(columns):
    (kernel,) = kernels_of(lambda x: jnp.abs(x).sum(0), f32(1 << 20, columns))
    first, second = schedule(kernel).parts
    assert first.iterations >= 1 << 15
    assert second.iterations == columns
    check(lambda x: jnp.abs(x).sum(0), f32(200, columns))


# Rows, their length, and who has one.
DECISIONS = [
    *((rows, length, "thread") for rows in (5000, 10**6, 10**7) for length in (2, 3, 8, 16, 31)),
    *((rows, length, "warp") for rows in (5000, 10**6) for length in (48, 64, 197, 512)),
    *((rows, length, "block") for rows in (5000, 10**5) for length in (2048, 5000)),
    *((rows, length, "block") for rows in (1, 7, 100) for length in (2048, 5000)),
    *((rows, length, "warp") for rows in (1, 7, 100) for length in (2, 31)),
]


@pytest.mark.parametrize("rows, length, who", DECISIONS)
def test_who_has_a_row(rows, length, who):
    (kernel,) = kernels_of(lambda x: nn.softmax(x, -1), f32(rows, length))
    (part,) = schedule(kernel).parts
    found = "thread" if not part.shares else "warp" if part.threads == 32 else "block"
    assert found == who
    if who == "thread":
        assert part.blocks * part.threads >= rows


def test_a_thread_has_no_row_that_leaves_its_cache():
    (kernel,) = kernels_of(lambda x: (x * x).sum(-1), f32(10**6, 8))
    cost = lambda threads, length, rows=10**6: schedules.row_cost(kernel, threads, length, rows)
    assert cost(1, 8) < cost(32, 8) / 4
    assert cost(1, 33) == float("inf") > cost(32, 33)
    assert cost(1, 8, 100) == float("inf")  # too few to keep processors busy
    assert cost(32, 64) > cost(32, 32)


def test_rows_that_loops_inside_write_are_one_threads_own():
    """Rows in memory that threads share must not be written for two iterations at once."""
    k, dtype = Builder(), np.dtype(np.float32)
    at = affine(0, {"p": 12, "q": 3, "r": 1})
    row = affine(0, {"r": 1})
    kept = Store(2, row, k.load(0, dtype, at))
    total = Reduce(0, "add", k.load(2, dtype, row), dtype, 0.0)
    inner = [Loop("r", 3, [kept]), Loop("r", 3, [total], (0,))]
    store = Store(1, affine(0, {"p": 4, "q": 1}), k.make("acc", (), dtype, 0))
    before = Loop("r", 3, [Store(3, row, k.load(0, dtype, affine(0, {"p": 12, "r": 1})))])
    body = [before, Loop("q", 4, [*inner, store])]
    roles = [(24, "in"), (8, "out"), (3, "row"), (3, "row")]
    kernel = Kernel("k", [Buffer(dtype, n, role) for n, role in roles], ("p", 2), body)
    (part,) = schedule(kernel).parts
    assert not part.shares
    arrays = [np.arange(24, dtype=np.float32), np.zeros(8, np.float32)]
    launch(part, arrays)
    np.testing.assert_allclose(arrays[1], arrays[0].reshape(8, 3).sum(1))


LONG = {
    "layer norm": lambda x: (
        (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1)
    ),
    "softmax": lambda x: nn.softmax(x, -1),
    "gradient": weft.grad(lambda x: (nn.log_softmax(x, -1) ** 2).sum()),
    "much work": lambda x: nn.softmax(much(x), -1),
    "gradient of much work": weft.grad(lambda x: (nn.log_softmax(much(x), -1) ** 2).sum()),
}


def much(x):
    """More operations of an element than to write and read it takes."""
    for _ in range(4):
        x = jnp.tanh(jnp.exp(-x * x)) + jnp.log1p(x * x)
    return x


@pytest.mark.parametrize("shape", [(1, 700), (3, 515), (2, 3, 130)])
@pytest.mark.parametrize("name", LONG)
def test_few_long_rows_go_through_stages(name, shape, monkeypatch):
    monkeypatch.setattr(staging, "LAUNCH", 0.0)
    monkeypatch.setattr(staging, "MIN_KEPT_WORK", 0)
    monkeypatch.setattr(staging, "ALL_BYTES", 1e12)
    monkeypatch.setattr(schedules, "PIECE_ELEMENTS", 64)
    parts = check(LONG[name], f32(*shape))
    assert len(parts) > 3
    assert any(part.kernel.axes and part.kernel.axes[0][0] == "piece" for part in parts)


@pytest.mark.parametrize(
    "rows, length, several",
    [(1, 1 << 20, True), (4, 1 << 20, True), (32, 1 << 20, True), (2, 1 << 10, False),
     (100, 1 << 12, False), (1000, 1 << 16, False)],
)  # fmt: skip
def test_stages_are_for_rows_that_leave_processors_idle(rows, length, several):
    (kernel,) = kernels_of(LONG["softmax"], f32(rows, length))
    parts = schedule(kernel).parts
    assert (len(parts) > 1) == several
    if several:
        assert max(part.blocks for part in parts[:-1]) > rows


@pytest.mark.parametrize("rows", [1, 3])
def test_stages_read_what_others_have_computed(rows):
    """A Gumbel softmax over one long row once drew its numbers in each of eight kernels."""
    shape = f32(rows, 1 << 19)
    one, whole = (
        [schedules.operations(p) for k in kernels_of(f, shape) for p in schedule(k).parts]
        for f in (much, LONG["much work"])
    )
    assert len(one) == 1 and len(whole) > 4
    assert sum(whole) < 1.5 * one[0]


BF16 = weft.numpy.bfloat16


def wide(text):
    """The accesses of a kernel's PTX to device memory."""
    lines = [line.split() for line in ptx.assemble(text).splitlines()]
    return [words[0] for words in lines if words and re.match(r"(ld|st)\.global", words[0])]


@pytest.mark.parametrize("length, accesses", [(10, 20), (8, 4), (7, 28)])
def test_short_rows_are_written_out_with_wide_accesses(length, accesses):
    """Gradients of losses of rows of ten in bfloat16 once took three times as long as in JAX."""

    def loss(x, y):
        gap = jnp.abs(x - y)
        return (jnp.where(gap < 1, 0.5 * gap * gap, gap - 0.5).mean(-1) ** 2).sum()

    x = weft.ShapeDtypeStruct((10**6, length), BF16)
    kernel = kernels_of(weft.grad(loss, (0, 1)), x, x)[-1]
    (part,) = schedule(kernel).parts
    assert part.written and not part.shares
    assert len(wide(render(part))) == accesses
    assert not schedule(kernel, aligned=False).parts[0].written


def test_long_rows_of_a_thread_are_loops():
    (kernel,) = kernels_of(lambda x: nn.softmax(jnp.tan(x), -1), f32(10**6, 31))
    (part,) = schedule(kernel).parts
    assert not part.shares and not part.written
    (kernel,) = kernels_of(lambda x: nn.softmax(x, -1), f32(10**6, 5))
    assert schedule(kernel).parts[0].written


def test_bfloat16_is_rounded_by_one_instruction():
    """Values between operations are rounded to 16 bits and read back at once; those that are of 16
    bits already, not at all."""

    def fun(x, y):
        return jnp.maximum(jnp.abs(x / y), -x) / y

    x = weft.ShapeDtypeStruct((4096,), BF16)
    (kernel,) = kernels_of(fun, x, x)
    text = render(schedule(kernel).parts[0]._replace(vector=1))
    found = ptx.assemble(text)
    assert found.count("cvt.rn.bf16x2.f32") == 1  # the first quotient
    assert found.count("cvt.rn.bf16.f32") == 1  # what is stored


@pytest.mark.parametrize(
    "length, threads, trips",
    [(197, 32, 7), (50, 32, 2), (250, 32, 8), (1009, 128, 8), (2003, 256, 8), (4001, 512, 8),
     (8000, 512, 4), (9001, 1024, 0)],
)  # fmt: skip
def test_odd_rows_stay_in_registers(length, threads, trips):
    """Softmax of rows of 197 with relative positions once took 1.7 times as long as in JAX: rows
    that aren't whole numbers of warps were in shared memory, a block of one warp for each."""
    (kernel,) = kernels_of(lambda x: nn.softmax(x, -1), f32(20_000, length))
    (part,) = schedule(kernel).parts
    assert (part.threads, part.trips) == (threads, trips)
    assert part.group == (schedules.WARPS if threads == 32 else 1)
    text = render(part)
    assert any("row" in x.name for x in text.memory) == (trips == 0)


@pytest.mark.parametrize("name, length", [("layer norm", 50), ("softmax", 100), ("gradient", 35)])
def test_odd_rows_by_their_text(name, length):
    for part in check(LONG[name], f32(2, length)):
        if part.shares:
            assert part.trips == -(-length // (part.threads * part.vector))


def test_rows_of_much_work_are_loops():
    """Written out eight times, a row of draws took seconds to assemble."""

    def drawn(x):
        return nn.softmax(jnp.sin(jnp.exp(x) + jnp.log1p(x)) * jnp.tan(x), -1)

    (kernel,) = kernels_of(drawn, f32(20_000, 2003))
    (part,) = schedule(kernel).parts
    assert (part.trips, part.threads) == (0, 128)


def squares_apart(x, y):
    """Of all pairs of rows."""
    return jnp.sqrt(((x[:, None] - y[None]) ** 2).sum(-1) + 1)


PAIRS = {
    "squares": (squares_apart, (13, 40), (34, 40)),
    "squares, wide rows of results": (squares_apart, (12, 33), (36, 33)),
    "largest": (lambda x, y: abs(x[:, None] - y[None]).max(-1), (13, 45), (34, 45)),
    "batches": (lambda x, y: jnp.sin(x[:, :, None] * y[:, None]).sum(-1), (2, 9, 35), (2, 36, 35)),
    "two sums": (lambda x, y: (squares_apart(x, y), (x[:, None] * y).sum(-1)), (13, 36), (34, 36)),
    "planes": (lambda x, y: abs(x[:, None] - y[None]).sum((-1, -2)), (40, 7, 6), (34, 7, 6)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_rows_are_columns(name, monkeypatch):
    """A thread has a pair, and reads a copy of its row in which neighbours lie side by side."""
    monkeypatch.setattr(schedules, "ENOUGH_THREADS", 64)
    monkeypatch.setattr(schedules, "COPY", 0)
    monkeypatch.setattr(schedules, "REUSED", 4)
    fun, *shapes = PAIRS[name]
    parts = check(fun, *[f32(*s) for s in shapes])
    sums = [p for p in parts if any(isinstance(s, Loop) for s in p.kernel.body)]
    assert sums and not any(p.shares for p in sums)
    assert len(parts) > len(sums)


@pytest.mark.parametrize("rows", [(20, 130, 40), (129, 16, 40), (129, 130, 800)])
def test_few_pairs_and_long_rows_are_read_where_they_are(rows):
    first, second, length = rows
    (kernel,) = kernels_of(squares_apart, f32(first, length), f32(second, length))
    assert len(schedule(kernel).parts) == 1


def test_rows_that_few_read_are_not_copied():
    (kernel,) = kernels_of(lambda x: (x * x).sum(-1), f32(1 << 15, 40))
    assert len(schedule(kernel).parts) == 1
