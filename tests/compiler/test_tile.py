"""Schedules: split reductions, tiles and grids compute what the kernel did, in any order of
chunks."""

import numpy as np
import pytest

import weft
from tests.backends.tasks import function
from weft import numpy as jnp
from weft.backends.cpu.code import blocks, width
from weft.backends.cpu.code.loops import render
from weft.backends.llvm.native.machine import compile_many
from weft.compiler.fuse import Fusion
from weft.compiler.passes import grid, split, tile
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.cse import cse
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.compiler.pipeline import schedule
from weft.core.jaxpr import Literal
from weft.kernel.kernel import Loop, Store, statements
from weft.kernel.spec import KernelError, verify


def steps_of(fun, *args):
    closed = prune(cse(inline(weft.make_jaxpr(fun)(*args))))
    return closed, Fusion(closed.jaxpr).plan()


def parts_of(fun, *args):
    """The kernels of the only step of a program."""
    _, steps = steps_of(fun, *args)
    (step,) = [s for s in steps if s.kernel is not None]
    return schedule(step.kernel)


def run(fun, *args, order=1, pieces=None):
    """Results by scheduled kernels, their chunks in a given order."""
    closed, steps = steps_of(fun, *args)
    env = dict(zip(closed.jaxpr.invars, map(np.ascontiguousarray, args), strict=True))
    env.update(zip(closed.jaxpr.constvars, map(np.asarray, closed.consts), strict=True))
    count = 0
    for step in steps:
        assert step.kernel is not None, step.eqn
        for v in step.writes:
            env[v] = np.empty(v.aval.shape, v.aval.dtype)
        parts, scratch = schedule(step.kernel)
        count += len(parts)
        arrays = [env[v] for v in step.buffers] + [np.empty(b.size, b.dtype) for b in scratch]
        for kernel, buffers in parts:
            verify(kernel)
            (address,) = compile_many([(render(kernel), kernel.name)])
            addresses = [arrays[i].ctypes.data for i in buffers]
            extent = 1 if kernel.grid is None else kernel.grid[1]
            chunk = grid.chunk(kernel) if pieces is None else pieces
            for start in range(0, extent, chunk)[::order]:
                function(address)(addresses, start, min(start + chunk, extent))
    outs = [env[x] for x in closed.jaxpr.outvars if type(x) is not Literal]
    return outs, count


@pytest.fixture
def small(monkeypatch):
    """Thresholds so low that small arrays are split and tiled."""
    monkeypatch.setattr(split, "CHUNK_ELEMENTS", 8)
    monkeypatch.setattr(split, "_COLUMNS", 24)
    monkeypatch.setattr(split, "_MIN_COLUMNS", 12)
    monkeypatch.setattr(tile, "_SIDE", 32)
    monkeypatch.setattr(grid, "_CHUNK_ELEMENTS", 48)
    monkeypatch.setattr(grid, "_CHUNK", 64)


def softmax(x):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True), e.sum(-1)


REDUCTIONS = {
    "all": lambda x: (x + x * x).sum(),
    "several": lambda x: (x.max(), x.sum(), (x * x).sum()),
    "rows": lambda x: (x * 2).sum(-1),
    "columns": lambda x: (x + 1).sum(0),
    "least": lambda x: x.min(0),
    "softmax": softmax,
    "weighted": lambda x: (x * jnp.arange(x.shape[-1])).sum(),
    "turned": lambda x: x.T.sum(0),
    "turned columns": lambda x: x.T.sum(-1),
    "position": lambda x: (x * jnp.arange(x.shape[0])[:, None]).sum(0),
}
SHAPES = [(1, 1), (3, 7), (2, 300), (300, 2), (5, 1003), (77, 3), (64, 64), (33, 130), (1, 5000)]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_split_reductions(name, small):
    fun = REDUCTIONS[name]
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = rng.integers(-4, 5, shape).astype(np.float32)
        outs, _ = run(fun, x)
        with weft.base.knobs.scope(backend="reference"):
            want = weft.tree.leaves(fun(x))
        for got, expected in zip(outs, want, strict=True):
            np.testing.assert_allclose(got, np.asarray(expected), 1e-5, err_msg=str(shape))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16"])
def test_reductions_of_three_axes(axes, dtype, small):
    rng = np.random.default_rng(1)
    for shape in [(3, 5, 7), (2, 40, 3), (40, 3, 2), (17, 9, 33), (0, 3, 4), (3, 0, 4)]:
        x = rng.integers(0, 2, shape).astype(dtype)
        for op, reference in ((jnp.sum, np.sum), (jnp.any, np.any)):
            (got,), _ = run(lambda x, op=op: op(x, axes), x)
            assert np.array_equal(got, reference(x, axes)), (op, shape)


def test_bits_do_not_depend_on_the_order_of_chunks():
    x = np.random.default_rng(2).standard_normal((3, 100_000)).astype(np.float32)
    for name in ("all", "rows", "softmax"):
        first, count = run(REDUCTIONS[name], x)
        assert count > 1
        for order, pieces in ((-1, None), (1, 1), (1, 1 << 30)):
            again, _ = run(REDUCTIONS[name], x, order=order, pieces=pieces)
            for a, b in zip(first, again, strict=True):
                assert a.tobytes() == b.tobytes(), (name, order, pieces)


def test_long_sums_are_accurate():
    x = np.full(1 << 20, 0.1, np.float32)
    (got,), _ = run(jnp.sum, x)
    assert abs(got - 0.1 * (1 << 20)) < 1e-5 * (1 << 20) * 0.1
    y = np.full((1 << 16, 4), 0.1, np.float32)
    (got,), _ = run(lambda y: y.sum(0), y)
    np.testing.assert_allclose(got, 0.1 * (1 << 16), 1e-5)


MOVES = {
    "turned": lambda x: x.T + 1,
    "copied": lambda x: x.T,
    "both": lambda x: x.reshape(x.shape[0], -1).T * 2 + jnp.arange(x.shape[0]),
    "twice": lambda x: (x.T + 1, x.T * 2),
    "reversed": lambda x: x.T[::-1] - 1,
    "strided": lambda x: x[:, ::3] + 1,
    "narrow": lambda x: x[:, :3] + jnp.arange(3),
    "chosen": lambda x: jnp.where(x[:, :3] > x[:, 3:6], x[:, :3], jnp.arange(3).astype(x.dtype)),
    "repeated": lambda x: x[:, :1] + jnp.zeros((1, 10), x.dtype),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "bfloat16", "bool"])
@pytest.mark.parametrize("name", MOVES)
def test_tiles(name, dtype, small):
    fun = MOVES[name]
    rng = np.random.default_rng(3)
    with weft.enable_x64(True):
        for shape in [(1, 6), (8, 9), (17, 16), (31, 70), (64, 64), (129, 100)]:
            x = rng.integers(0, 2, shape).astype(np.dtype(dtype))
            if dtype == "bool" and name == "reversed":
                continue
            outs, _ = run(fun, x)
            with weft.base.knobs.scope(backend="reference"):
                want = weft.tree.leaves(fun(x))
            for got, expected in zip(outs, want, strict=True):
                assert np.array_equal(got, np.asarray(expected)), shape


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0), (1, 0, 2), (1, 2, 0), (2, 0, 1)])
def test_transposes_of_three_axes(order, small):
    for shape in [(3, 17, 18), (20, 33, 3), (16, 3, 40), (2, 2, 2), (9, 10, 11)]:
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        (got,), _ = run(lambda x: jnp.transpose(x, order) * 2, x)
        assert np.array_equal(got, x.transpose(order) * 2), shape


def test_a_transpose_runs_over_tiles():
    (part,), scratch = parts_of(lambda x: x.T + 1, np.zeros((200, 100), np.float32))
    assert not scratch
    assert part.kernel.axes == (("p1o", 4), ("p0o", 2)) or len(part.kernel.axes) == 2
    assert any(b.role == "row" for b in part.kernel.buffers)


def test_few_long_rows_are_shared():
    parts, scratch = parts_of(lambda x: x.sum(1), np.zeros((3, 100_000), np.float32))
    assert len(parts) == 2
    assert len(scratch) == 1
    assert parts[0].kernel.grid[1] >= 12


def test_few_rows_of_a_map_are_shared():
    fun = lambda x, y: x + y[:, None]
    (part,), _ = parts_of(fun, np.zeros((3, 100_000), np.float32), np.zeros(3, np.float32))
    assert part.kernel.grid[1] >= 12


def test_axes_of_several_passes_are_merged_together():
    def fun(x):
        e = x - x.max((-2, -1), keepdims=True)
        return e / (e * e).sum((-2, -1), keepdims=True)

    x = np.random.default_rng(4).standard_normal((4, 6, 16)).astype(np.float32)
    (got,), _ = run(fun, x)
    with weft.base.knobs.scope(backend="reference"):
        np.testing.assert_allclose(got, np.asarray(fun(x)), 1e-5)
    _, steps = steps_of(fun, x)
    loops = [s for s in statements(collapse(steps[0].kernel).body) if isinstance(s, Loop)]
    assert {s.extent for s in loops} == {96}


def test_pieces_are_verified():
    (part,), _ = parts_of(lambda x: x.T + 1, np.zeros((200, 100), np.float32))
    verify(part.kernel)
    loop = part.kernel.body[0]
    wrong = loop._replace(whole=(loop.whole[0], loop.whole[1] + 1000))
    with pytest.raises(KernelError, match="piece"):
        verify(part.kernel._replace(body=[wrong, *part.kernel.body[1:]]))


def test_a_chunk_is_some_work():
    for n in (10, 1000, 10_000_000):
        (part,), _ = parts_of(lambda x: x + 1, np.zeros(n, np.float32))
        size = grid.chunk(part.kernel)
        assert size == n if n < 10_000 else 4096 <= size <= 65536


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_short_rows_run_side_by_side(dtype):
    rng = np.random.default_rng(5)
    with weft.enable_x64(True):
        for shape in [(200, 9), (200, 10), (64, 3), (33, 16), (3, 70, 2), (130, 1)]:
            x = rng.standard_normal(shape).astype(np.dtype(dtype))
            got, _ = run(softmax, x)
            wide = x.astype(np.float64)
            e = np.exp(wide - wide.max(-1, keepdims=True))
            tolerance = 0.05 if dtype == "bfloat16" else 1e-5
            np.testing.assert_allclose(
                got[0].astype(np.float64), e / e.sum(-1, keepdims=True), tolerance
            )
            np.testing.assert_allclose(got[1].astype(np.float64), e.sum(-1), tolerance)
    parts, _ = parts_of(lambda x: x.sum(-1), np.zeros((1000, 9), np.float32))
    assert any(s.lanes for s in statements(parts[0].kernel.body) if isinstance(s, Loop))


@pytest.mark.parametrize("bits", [128, 256])
def test_registers_of_other_processors(bits, small, monkeypatch):
    monkeypatch.setattr(width, "vector_bits", lambda: bits)
    monkeypatch.setattr(blocks, "vector_bits", lambda: bits)
    rng = np.random.default_rng(6)
    for fun in [*REDUCTIONS.values(), *MOVES.values()]:
        for shape in [(37, 45), (130, 6)]:
            x = rng.integers(-4, 5, shape).astype(np.float32)
            outs, _ = run(fun, x)
            with weft.base.knobs.scope(backend="reference"):
                want = weft.tree.leaves(fun(x))
            for got, expected in zip(outs, want, strict=True):
                np.testing.assert_allclose(got, np.asarray(expected), 1e-5)


def test_few_rows_of_the_result_are_read_together():
    """What lies in the same lines of memory is read once, by one thread, not once for each row."""
    x = np.arange(3 * 20_001, dtype=np.float32).reshape(20_001, 3)
    (part,), _ = parts_of(lambda x: x.T + 1, x)
    assert [name for name, _ in part.kernel.axes] == ["cut", "p0"]
    assert grid.chunk(part.kernel) % 3 == 0
    for order in (1, -1):
        outs, _ = run(lambda x: x.T + 1, x, order=order)
        np.testing.assert_array_equal(outs[0], x.T + 1)
    y = np.arange(4 * 3 * 9001).reshape(4, 9001, 3).astype(np.float32)
    outs, _ = run(lambda y: y.transpose(0, 2, 1) * 2, y)
    np.testing.assert_array_equal(outs[0], y.transpose(0, 2, 1) * 2)


STACKS = {
    "last": lambda x, y: jnp.stack([x + y, x * y, x - 2 * y], -1),
    "two": lambda x, y: jnp.stack([jnp.sin(x) + y, x], -1),
    "first": lambda x, y: jnp.stack([x + y, x * y]),
    "uneven": lambda x, y: jnp.concatenate([x[:, :1] + y[:, :1], x * y, y[:, 1:]], 1),
    "ones": lambda x, y: (x + y).reshape(*x.shape, 1) + jnp.ones((1, 1, 1)),
    "both": lambda x, y: (jnp.stack([x + y, y], -1), jnp.stack([x, x * y], -1)),
}


@pytest.mark.parametrize("name", STACKS)
def test_pieces_of_joined_arrays_are_computed_side_by_side(name):
    fun = STACKS[name]
    for shape in [(1, 1), (7, 3), (50, 17), (300, 100)]:
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 37
        args = x, x[::-1] + 1
        with weft.base.knobs.scope(backend="reference"):
            want = weft.tree.leaves(fun(*args))
        for got, expected in zip(weft.tree.leaves(weft.jit(fun)(*args)), want, strict=True):
            np.testing.assert_allclose(got, np.asarray(expected), 1e-6, err_msg=str(shape))


def test_a_stack_along_the_last_axis_is_one_loop():
    x = np.zeros(500, np.float32)
    (part,), _ = parts_of(lambda x: jnp.stack([x + 1, x * 2, x - 3], -1), x)
    assert part.kernel.grid == ("p0", 500)
    assert [type(s) for s in part.kernel.body] == [Store] * 3
