"""Loops that become one kernel: their text, run on the host by threads, gives what the loop does;
on a GPU, also what its commands give."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.host_device import install
from tests.backends.test_reference import check_samples
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import assemble, commands, driver, loops, program, ptx
from weft.backends.cuda.groups import Access
from weft.backends.cuda.schedule import Schedule
from weft.backends.cuda.text import loops as text_loops
from weft.base import knobs
from weft.compiler.pipeline import simplify
from weft.control.while_loop import While
from weft.core.jaxpr import jaxprs_in_params
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Loop, Reduce, Store, affine
from weft.kernel.nodes import F32
from weft.nn import logsumexp, softmax


class Target(program.Cuda):
    """All operations stay, without the libraries that a GPU has."""

    def keeps(self, eqn):
        return True

    def epilogue(self, eqn, finish, looped):
        return None


def draws(*shape, dtype=np.float32, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) / 2).astype(dtype)


def rnn(w, xs):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h.sum(0)

    return lax.scan(step, jnp.zeros(xs.shape[1:], xs.dtype), xs)


def collatz(x):
    def body(c):
        n, steps = c
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + (n > 1)

    return lax.while_loop(lambda c: c[0].max() > 4, body, (x, jnp.zeros_like(x)))


def nested(x):
    def outer(i, x):
        x = lax.fori_loop(0, 3, lambda j, x: x * 0.5 + (i + j), x)
        return lax.while_loop(lambda x: x.sum() > 10, lambda x: x * 0.75, x)

    return lax.fori_loop(0, 4, outer, x)


def branching(x):
    def body(i, x):
        return lax.switch(i % 3, [lambda x: x + 1, lambda x: x[::-1] * 2, lambda x: x - 3], x)

    return lax.fori_loop(0, 5, body, x)


def swapping(x, y):
    return lax.fori_loop(0, 3, lambda i, c: (c[1] + i, c[0] * 2), (x, y))


def power_method(a, x):
    def body(c):
        i, x, _ = c
        y = a @ x
        size = jnp.sqrt(jnp.sum(y * y))
        return i + 1, y / size, size

    return lax.while_loop(lambda c: c[0] < 4, body, (0, x, jnp.float32(0)))


def balanced(cost):
    """Turns of a matrix's logarithms of sums by rows and by columns."""

    def step(i, f):
        g = -logsumexp(f[:, None] - cost, 0)
        return -logsumexp(g[None] - cost, 1)

    return lax.fori_loop(0, 2, step, jnp.zeros(len(cost)))


def transposed(a, b):
    return lax.fori_loop(0, 2, lambda i, b: jnp.einsum("kim,kj->ijm", a, b).sum(2) * 0.1, b)


def stencil(x):
    def step(i, x):
        near = [jnp.roll(x, n, axis) for n in (1, -1) for axis in (0, 1)]
        return x + 0.1 * (sum(near) - 4 * x)

    return lax.fori_loop(0, 3, step, x)


CASES = {
    "stencil": (stencil, [draws(36, 35)]),
    "rnn": (rnn, [draws(5, 5), draws(4, 3, 5, seed=1)]),
    "rnn of one row": (rnn, [draws(40, 40), draws(3, 1, 40, seed=1)]),
    "rnn, bfloat16": (rnn, [draws(8, 8, dtype=jnp.bfloat16), draws(3, 2, 8, dtype=jnp.bfloat16)]),
    "gradient": (
        weft.grad(lambda w, xs: jnp.sum(rnn(w, xs)[1] ** 2)),
        [draws(4, 4), draws(5, 3, 4, seed=1)],
    ),
    "back": (
        lambda xs: lax.scan(lambda c, x: (c * 0.9 + x, c), xs[0], xs, reverse=True),
        [draws(7, 33)],
    ),
    "collatz": (collatz, [np.arange(1, 20, dtype=np.int32)]),
    "nested": (nested, [draws(12)]),
    "branches": (branching, [draws(9)]),
    "values that change places": (swapping, [draws(6), draws(6, seed=1)]),
    "rows": (lambda x: lax.fori_loop(0, 3, lambda i, x: softmax(x * 2 + i), x), [draws(5, 70)]),
    "long rows": (
        lambda x: lax.fori_loop(0, 2, lambda i, x: softmax(x * 2 + i), x),
        [draws(3, 2000)],
    ),
    "columns": (
        lambda x: lax.fori_loop(0, 3, lambda i, x: x - x.mean(0) + x.max(), x),
        [draws(6, 5)],
    ),
    "long columns": (balanced, [draws(61, 40) ** 2]),
    "power method": (power_method, [draws(20, 20), draws(20, seed=1)]),
    "transposed product": (transposed, [draws(6, 6, 3), draws(6, 3, seed=1)]),
    "tiles": (
        lambda a, b: lax.fori_loop(0, 2, lambda i, b: jnp.sin(a @ b), b),
        [draws(50, 50), draws(50, 70, seed=1)],
    ),
}


def looped(run):
    """The loop kernels among the commands."""
    return [c for c in run.commands if isinstance(c, commands.LoopKernel)]


def check(name, target, runs=1):
    fun, args = CASES[name]
    run = target.compile(weft.make_jaxpr(fun)(*args))
    assert looped(run) and not any(commands.regions_of(c) for c in run.commands)
    with knobs.scope(backend="native"):
        want = weft.tree.leaves(weft.jit(fun)(*args))
    for _ in range(runs):
        got = run([np.asarray(x) for x in args])
        tol = 0.05 if args[0].dtype == jnp.bfloat16 else 2e-5
        for a, b in zip(got, want, strict=True):
            wide = np.float32 if a.dtype == jnp.bfloat16 else a.dtype
            a, b = np.asarray(a, wide), np.asarray(b).astype(wide)
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
    return run


@pytest.mark.parametrize("name", CASES)
def test_on_the_host(name, monkeypatch):
    install(monkeypatch)
    monkeypatch.setattr(commands.LoopKernel, "capturable", False)
    monkeypatch.setattr(assemble, "choose", lambda *given: loops.Grid(1, 64))
    check(name, Target())


GRIDS = {"grid": loops.Grid(3, 32), "cluster": loops.Grid(2, 64, True)}


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("name", ["rnn", "collatz", "nested", "rows", "stencil", "tiles"])
def test_several_blocks_on_the_host(name, kind, monkeypatch):
    install(monkeypatch)
    monkeypatch.setattr(commands.LoopKernel, "capturable", False)
    monkeypatch.setattr(assemble, "choose", lambda *given: GRIDS[kind])
    (loop,) = looped(check(name, Target(), 2))
    assert (loop.blocks, loop.cluster) == (GRIDS[kind].blocks, kind == "cluster")


@pytest.mark.parametrize("prim", ["scan", "while"])
def test_samples_on_the_host(prim, monkeypatch):
    install(monkeypatch)
    monkeypatch.setattr(commands.LoopKernel, "capturable", False)
    monkeypatch.setattr(assemble, "choose", lambda *given: loops.Grid(1, 32))
    check_samples(Target(), prim)


def test_an_element_of_a_product_is_gone_on_with_before_any_barrier(monkeypatch):
    install(monkeypatch)
    args = draws(256, 256), draws(1000, 64, 256)
    step = lambda w, xs: lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), xs[0], xs)[0]
    monkeypatch.setattr(driver.device(), "multiprocessors", 132)
    run = Target().compile(weft.make_jaxpr(step)(*args))
    (loop,) = looped(run)
    assert loop.blocks == 132 and "1 barrier a round" in loop.rounds
    assert "loop in one kernel, 1000 times" in run.explain()


def test_short_rounds_are_those_of_a_cluster(monkeypatch):
    """Of a cluster, a barrier takes a third of the time that it takes of a grid, and so do few
    elements of its blocks; many keep all multiprocessors busy."""
    install(monkeypatch)
    monkeypatch.setattr(driver.device(), "multiprocessors", 132)
    near = lambda x: lax.fori_loop(0, 9, lambda i, x: x[::-1] - x.mean(1, keepdims=True), x)
    runs = {n: Target().compile(weft.make_jaxpr(near)(draws(n, 64))) for n in (1 << 6, 1 << 10)}
    (loop,) = looped(runs[1 << 6])
    assert loop.cluster and loop.blocks == loops.CLUSTER_BLOCKS
    text = ptx.assemble(loop.function.loop.module)
    assert ".reqnctapercluster 8" in text and "barrier.cluster.wait.acquire;" in text
    (loop,) = looped(runs[1 << 10])
    assert not loop.cluster and loop.blocks == 132
    monkeypatch.setattr(driver.device(), "architecture", 80)
    (loop,) = looped(Target().compile(weft.make_jaxpr(near)(draws(1 << 6, 64))))
    assert not loop.cluster


@pytest.mark.parametrize("shape", [(100, 512), (60, 300), (5000, 100), (300, 7)])
def test_no_thread_reads_long_columns_alone(shape, monkeypatch):
    """A thread waits for one row after the other, and a grid has threads to spare."""
    install(monkeypatch)
    monkeypatch.setattr(driver.device(), "multiprocessors", 132)
    made = []
    monkeypatch.setattr(
        assemble, "choose", lambda items, *given: made.extend(items) or loops.choose(items, *given)
    )
    run = Target().compile(weft.make_jaxpr(balanced)(draws(*shape)))
    assert len(looped(run)) == 1
    parts = [x.schedule for x in loops.items_of(made) if isinstance(x, loops.Part)]
    assert parts and all(loops.longest_row(p) <= 16 for p in parts if not p.shares)


def test_few_long_rows_have_a_block_each(monkeypatch):
    """A warp would wait for one load after the other."""
    part = loops.in_a_loop(rows_of(16, 1000))
    found = loops.Part(part, (0, 1), (Access(0, False), Access(1, True)), 1)
    assert found.mode == "warps"
    assert found.fitted(loops.Grid(132, 256)).threads == 256
    many = found._replace(schedule=loops.in_a_loop(rows_of(100000, 100)))
    assert many.fitted(loops.Grid(132, 256)).threads == 32


def rows_of(rows, length):
    """How sums of rows are spread."""
    at = affine(0, {"row": length, "column": 1})
    total = Reduce(0, "add", Builder().make("load", (), F32, (0, at)), F32, 0.0)
    body = [
        Loop("column", length, [total]),
        Store(1, affine(0, {"row": 1}), Builder().make("acc", (), F32, 0)),
    ]
    buffers = [Buffer(F32, rows * length, "in"), Buffer(F32, rows, "out")]
    made = Kernel("rows", buffers, ("row", rows), body)
    return Schedule(made, True, 32, 1, (0, 1))


def test_loops_that_need_more_shared_memory_stay_commands(monkeypatch):
    install(monkeypatch)
    monkeypatch.setattr(driver.device(), "shared_memory", 4 << 10)
    args = draws(64, 64), draws(4, 64, 64)
    run = Target().compile(weft.make_jaxpr(rnn)(*args))
    assert (
        not looped(run)
        and "several kernels per iteration (too much shared memory)" in run.explain()
    )


def test_loops_of_more_arrays_than_a_launch_takes_stay_commands(monkeypatch):
    """A kernel has 4 KiB of parameters."""
    install(monkeypatch)
    args = [draws(3 + i, seed=i) for i in range(44) for _ in range(13)]
    step = lambda xs: [x[::-1] * 0.9 for x in xs]

    def fun(*xs):
        rest = [xs[i + 1 : i + 13] for i in range(0, len(xs), 13)]
        body = lambda i, c: [x + sum(own) for x, own in zip(step(c), rest, strict=True)]
        return lax.fori_loop(0, 5, body, list(xs[::13]))

    run = Target().compile(weft.make_jaxpr(fun)(*args))
    assert not looped(run) and "too many arrays" in run.explain()
    few = args[: 13 * 5]
    (loop,) = looped(Target().compile(weft.make_jaxpr(fun)(*few)))
    assert 8 * len(loop.spots) < 4 << 10


def test_loops_of_other_operations_stay_commands(monkeypatch):
    install(monkeypatch)
    fun = lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.sort(x) + i, x)
    run = Target().compile(weft.make_jaxpr(fun)(draws(10)))
    assert not looped(run) and any(commands.regions_of(c) for c in run.commands)
    large = lambda x: lax.fori_loop(0, 3, lambda i, x: x * 2, x)
    run = Target().compile(weft.make_jaxpr(large)(draws(1 << 24)))
    assert not looped(run)


needs_gpu = pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")


@needs_gpu
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu(name):
    check(name, program.Cuda(), 3)


@needs_gpu
@pytest.mark.parametrize("name", CASES)
def test_several_blocks_on_a_gpu(name, monkeypatch):
    monkeypatch.setattr(assemble, "choose", lambda items, n, *more: loops.Grid(n, 256))
    check(name, program.Cuda(), 3)


@needs_gpu
def test_commands_give_the_same(monkeypatch):
    args = draws(96, 96) / 5, draws(9, 16, 96, seed=1)
    closed = weft.make_jaxpr(rnn)(*args)
    one = program.Cuda().compile(closed)(args)

    def unfit(*given):
        raise loops.Unfit("to compare")

    monkeypatch.setattr(assemble, "choose", unfit)
    other = program.Cuda().compile(closed)(args)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


# --- batched loops --------------------------------------------------------------------------------


class Few(Target):
    min_lane_work = 1 << 9  # operations from which on smaller batches pay
    own_loops = False  # which small elements otherwise have


def relaxed(n, x):
    step = lambda s: (s[0] - 1, s[1] * 0.9 + 0.1 / (1 + jnp.sum(s[1] ** 2)))
    return lax.while_loop(lambda s: s[0] > 0, step, (n, x))[1]


def until_small(n, x):
    goes = lambda s: (s[0] > 0) & (jnp.sum(s[1] ** 2) > 1e-2)
    return lax.while_loop(goes, lambda s: (s[0] - 1, s[1] * 0.7), (n, x))[1]


def multiplied(n, x):
    a = x[:36].reshape(6, 6) * 0.3
    step = lambda s: (s[0] - 1, a @ s[1] * 0.5 + a)
    return lax.while_loop(lambda s: s[0] > 0, step, (n, a))[1]


@pytest.mark.parametrize("one", [relaxed, until_small, multiplied])
def test_batches_of_loops_with_sums_get_smaller(one, monkeypatch):
    """Each element has the bits that it has in a batch of constant size."""
    install(monkeypatch)
    monkeypatch.setattr(commands.LoopKernel, "capturable", False)
    monkeypatch.setattr(assemble, "choose", lambda *given: loops.Grid(1, 64))
    n = np.array([1, 3, 2, 9, 1, 0, 4, 2, 1, 1, 2, 12, 3, 1, 1, 2], np.int32)
    args, made = (n, draws(16, 40)), []
    closed = weft.make_jaxpr(weft.vmap(one))(*args)
    own = While.compacted

    def seen(self, params, judge):
        made.append(own(self, params, judge))
        return made[-1]

    monkeypatch.setattr(While, "compacted", seen)
    (new,) = Few().compile(closed)(args)
    monkeypatch.setattr(While, "compacted", lambda *given: None)
    (old,) = Few().compile(closed)(args)
    assert [len(jaxprs_of(p, "while")) > 1 for p in made] == [True]
    assert np.asarray(new).tobytes() == np.asarray(old).tobytes()
    np.testing.assert_allclose(new, weft.jit(weft.vmap(one))(*args), rtol=1e-5, atol=1e-6)


def test_batches_of_loops_with_long_sums_keep_their_size(monkeypatch):
    install(monkeypatch)
    closed = weft.make_jaxpr(weft.vmap(relaxed))(np.ones(16, np.int32), draws(16, 100))
    found = simplify(closed, target=Few())
    assert len(jaxprs_of(found, "while")) == 1


def jaxprs_of(closed, name):
    """Equations of a primitive in a program and the programs in it."""
    found = []
    for eqn in closed.eqns:
        found += [eqn] if eqn.primitive.name == name else []
        for inner in jaxprs_in_params(eqn.params):
            found += jaxprs_of(inner, name)
    return found


PRODUCTS = {
    "tiles": CASES["tiles"],
    "rnn": (rnn, [draws(32, 32), draws(3, 16, 32, seed=1)]),
    "rnn, bfloat16": (
        rnn,
        [draws(32, 32, dtype=jnp.bfloat16), draws(3, 16, 32, dtype=jnp.bfloat16)],
    ),
    "gradient": (
        weft.grad(lambda w, xs: jnp.sum(rnn(w, xs)[1] ** 2)),
        [draws(32, 32), draws(3, 16, 32, seed=1)],
    ),
    "two": (
        lambda f, p: lax.fori_loop(0, 3, lambda i, p: f @ p @ f.T + p[0], p),
        [draws(24, 24), draws(24, 24, seed=1)],
    ),
}


@pytest.mark.parametrize("kind", ["block", *GRIDS])
@pytest.mark.parametrize("name", PRODUCTS)
def test_compact_texts_of_products_have_the_same_bits(name, kind, monkeypatch):
    """Units add up in one order, whether their sums are straight code or a loop."""
    install(monkeypatch)
    monkeypatch.setattr(commands.LoopKernel, "capturable", False)
    grid = GRIDS.get(kind, loops.Grid(1, 64))
    monkeypatch.setattr(assemble, "choose", lambda *given: grid)
    fun, args = PRODUCTS[name]
    real, found, lengths = assemble.load, [], []

    def compactly(module, dynamic=0, label=""):
        if isinstance(module, ptx.GpuModule) and module.compact is not None:
            shorter = module.compact()
            assert shorter.functions[-1].parameters == module.functions[-1].parameters
            lengths.append(len(str(shorter)) / len(str(module)))
            module = shorter
        return real(module, dynamic, label)

    for load in (real, compactly):
        monkeypatch.setattr(assemble, "load", load)
        run = Target().compile(weft.make_jaxpr(fun)(*args))
        assert looped(run)
        found.append(run([np.asarray(x) for x in args]))
    assert lengths and max(lengths) < 0.9
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(np.asarray(a).view(np.uint8), np.asarray(b).view(np.uint8))


def test_modules_of_loops_keep_nothing_of_programs(monkeypatch):
    install(monkeypatch)
    monkeypatch.setattr(commands.LoopKernel, "capturable", False)
    monkeypatch.setattr(assemble, "choose", lambda *given: loops.Grid(1, 64))
    made, real = [], assemble.load

    def load(module, dynamic=0, label=""):
        made.append((module, getattr(module, "compact", None)))
        return real(module, dynamic, label)

    monkeypatch.setattr(assemble, "load", load)
    fun, args = PRODUCTS["tiles"]
    Target().compile(weft.make_jaxpr(fun)(*args))
    ((module, compact),) = [pair for pair in made if pair[1] is not None]
    assert compact is not None and module.compact is None


@pytest.mark.parametrize("rounds", [50, 5000])
def test_loops_of_many_rounds_have_no_compact_text(rounds, monkeypatch):
    planned.install(monkeypatch)
    made = []
    load = lambda module, dynamic=0, label="": (
        made.append(module.compact) or planned._kernel(module)
    )
    monkeypatch.setattr(assemble, "load", load)
    step = lambda i, x: lax.fori_loop(0, 10, lambda i, x: jnp.sin(x @ x), x)
    x = weft.ShapeDtypeStruct((24, 24), np.dtype(np.float32))
    planned.planned(lambda x: lax.fori_loop(0, rounds // 10, step, x), x)
    assert [x is not None for x in made] == [rounds < 4096]


@pytest.mark.parametrize("kind", ["block", *GRIDS])
@pytest.mark.parametrize("name", PRODUCTS)
def test_sides_that_stay_take_most_of_the_shared_memory(name, kind, monkeypatch):
    """With any amount of it: a side stays where there is room, chunks get smaller where not."""
    install(monkeypatch)
    monkeypatch.setattr(commands.LoopKernel, "capturable", False)
    monkeypatch.setattr(text_loops, "MOST_CHUNK", 1 << 10)
    monkeypatch.setattr(text_loops, "MOST_KEPT", 1 << 10)
    monkeypatch.setattr(text_loops, "RESERVED", 64)
    grid = GRIDS.get(kind, loops.Grid(1, 64))
    monkeypatch.setattr(assemble, "choose", lambda *given: grid)
    fun, args = PRODUCTS[name]
    texts = []
    real = text_loops.Writer.whole

    def whole(writer, *given):
        found = real(writer, *given)
        texts.append((writer.has_large, "keep_" in str(found.module)))
        assert writer.kept + writer.shared + writer.fixed <= writer.most_shared
        return found

    monkeypatch.setattr(text_loops.Writer, "whole", whole)
    with knobs.scope(backend="native"):
        want = weft.tree.leaves(weft.jit(fun)(*args))
    for size in (6, 9, 12, 18, 24, 40, 200):
        monkeypatch.setattr(driver.device(), "shared_memory", size << 10)
        got = Target().compile(weft.make_jaxpr(fun)(*args))([np.asarray(x) for x in args])
        tol = 0.05 if args[0].dtype == jnp.bfloat16 else 2e-5
        for a, b in zip(got, want, strict=True):
            a, b = np.asarray(a, np.float32), np.asarray(b).astype(np.float32)
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol * abs(b).max())
    assert all(kept or not large for large, kept in texts)
    if name != "tiles":  # which has more tiles than the grid has blocks
        assert any(large for large, _ in texts) or kind == "block"
