"""Routines at sizes that samples don't have, graphs, and memory, on a GPU."""

import numpy as np
import pytest

import weft
from tests.backends.cuda.test_epilogues import CASES
from tests.backends.cuda.test_join import PROGRAMS as JOINED
from tests.backends.cuda.test_join import decoded, normal
from tests.compiler.test_attention import CASES as ATTENTION
from tests.compiler.test_attention import ONE_ROW, projected, with_gradients
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import commands, driver, memory
from weft.backends.cuda.program import Cuda, get, put
from weft.backends.cuda.routines import attention
from weft.base import knobs

pytestmark = pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")

LONG = 3_000_001


def draws(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


ROUTINES = {
    "cumsum": (lambda x: jnp.cumsum(x), lambda x: np.cumsum(x, dtype=np.float64), (LONG,)),
    "cumsum rows": (lambda x: jnp.cumsum(x, 1), lambda x: np.cumsum(x, 1), (5, 100_003)),
    "cumsum columns": (lambda x: jnp.cumsum(x, 0), lambda x: np.cumsum(x, 0), (1000, 300)),
    "cummax back": (
        lambda x: lax.cummax(x, reverse=True),
        lambda x: np.maximum.accumulate(x[::-1])[::-1],
        (LONG,),
    ),
    "sort": (jnp.sort, np.sort, (LONG,)),
    "sort rows": (jnp.sort, np.sort, (300, 3000)),
    "sort columns": (lambda x: jnp.sort(x, 0), lambda x: np.sort(x, 0), (5000, 30)),
    "argsort": (jnp.argsort, lambda x: np.argsort(x, kind="stable"), (100_000,)),
    "top_k": (lambda x: lax.top_k(x, 7)[0], lambda x: -np.sort(-x, 1)[:, :7], (40, 50_000)),
    "transposed product": (
        lambda x: jnp.einsum("abc,dbc->bad", x, x),
        lambda x: np.einsum("abc,dbc->bad", x, x),
        (30, 20, 50),
    ),
}


@pytest.mark.parametrize("name", ROUTINES)
def test_routines(name):
    fun, reference, shape = ROUTINES[name]
    x = draws(shape)
    (got,) = Cuda().compile(weft.make_jaxpr(fun)(x))([x])
    want = reference(x)
    scale = np.abs(want).max()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("width", [1, 64])
def test_scatter_add_gives_the_same_bits_in_every_run(width):
    rng = np.random.default_rng(1)
    at = rng.integers(0, 1000, 200_000 // width)
    x, updates = draws((1000, width)), draws((len(at), width), seed=2)
    with knobs.scope(deterministic_ops=True):
        run = Cuda().compile(weft.make_jaxpr(lambda x, i, u: x.at[i].add(u))(x, at, updates))
    first, *others = [run([x, at.astype(np.int32), updates])[0] for _ in range(4)]
    want = x.astype(np.float64)
    np.add.at(want, at, updates)
    np.testing.assert_allclose(first, want, atol=1e-3)
    assert all(first.tobytes() == other.tobytes() for other in others)


def test_scans_give_the_same_bits_in_every_run():
    x = draws(LONG)
    run = Cuda().compile(weft.make_jaxpr(jnp.cumsum)(x))
    first, *others = [run([x])[0] for _ in range(4)]
    assert all(first.tobytes() == other.tobytes() for other in others)


@pytest.mark.parametrize("dtype, tol", [(np.float32, 1e-5), (jnp.bfloat16, 0.02)])
@pytest.mark.parametrize("name", CASES)
def test_epilogues(name, dtype, tol):
    fun = CASES[name][0]
    args = [draws(s, dtype, seed=i) for i, s in enumerate([(256, 96), (96, 256), (256,)])]
    (got,) = Cuda().compile(weft.make_jaxpr(fun)(*args))(args)
    want = np.asarray(weft.jit(fun)(*(x.astype(np.float32) for x in args)))
    assert np.abs(got.astype(np.float32) - want).max() < tol * np.abs(want).max()


@pytest.mark.parametrize("flags", ["", "--xla_gpu_deterministic_ops"], ids=["fast", "same bits"])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name, flags, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", flags)
    fun, shapes = ATTENTION[name]
    larger = {8: 200, 5: 130, 16: 64, 40: 300}
    shapes = [tuple(larger.get(n, n) for n in s) for s in shapes]
    args = [draws(s, jnp.bfloat16, seed=i) * 0.5 for i, s in enumerate(shapes)]
    args = [x.astype(jnp.bfloat16) for x in args]
    args.append(draws(weft.eval_shape(fun, *args).shape, jnp.bfloat16, seed=9))
    both = with_gradients(fun)
    run = Cuda().compile(weft.make_jaxpr(both)(*args))
    # two calls of cuDNN's, or one launch forward and three backward
    assert sum("attention" in getattr(c, "told", "") for c in run.commands) in (2, 4)
    want = weft.tree.leaves(weft.jit(both)(*(x.astype(np.float32) for x in args)))
    found = run(args)
    for a, b in zip(found, want, strict=True):
        assert np.abs(a.astype(np.float32) - np.asarray(b)).max() < 0.02 * np.abs(b).max()
    if flags:
        for a, b in zip(found, run(args), strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", JOINED)
def test_small_kernels_are_one_launch(name):
    fun, args, _, count = JOINED[name]
    run = Cuda().compile(weft.make_jaxpr(fun)(*args))
    assert count is None or len(run.commands) <= count + 2  # copies of what is updated
    want = weft.tree.leaves(weft.jit(fun)(*args))
    for _ in range(4):  # the third time as a graph
        for a, b in zip(run(args), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_tokens_one_after_the_other(monkeypatch):
    """Keys and values are kept in place, and written by the kernel that attends to them."""

    def fun(row, keys, values):
        def step(carry, x):
            keys, values, at = carry
            keys, values, found = decoded(x, 2 * x, x + 1, keys, values, at)
            return (keys, values, at + 1), found

        return lax.scan(step, (keys, values, np.int32(3)), row)

    monkeypatch.setattr(attention, "MIN_KEPT", 1)
    args = [draws((20, 3, 16)), draws((40, 3, 16), seed=1), draws((40, 3, 16), seed=2)]
    run = Cuda().compile(weft.make_jaxpr(fun)(*args))
    told = [getattr(c, "told", "") for c in commands.leaves(run.commands)]
    assert sum("decode_attention" in name for name in told) == 1
    want = weft.tree.leaves(weft.jit(fun)(*args))
    for _ in range(3):  # the third time as a graph
        for a, b in zip(run(args), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def layers(params, carry, x):
    """A token through layers of a transformer, narrow ones of 16 heads."""
    caches, at = carry
    kept = []
    for (gain, qkv, out, up, down), (keys, values) in zip(params, caches, strict=True):
        q, k, v = (z.reshape(16, 64) for z in jnp.split(normal(x, gain) @ qkv, 3))
        keys = lax.dynamic_update_slice(keys, k[None], (at, 0, 0))
        values = lax.dynamic_update_slice(values, v[None], (at, 0, 0))
        scores = jnp.einsum("hd,thd->ht", q, keys).astype(np.float32) / 8
        seen = jnp.arange(len(keys)) <= at
        weights = weft.nn.softmax(jnp.where(seen, scores, -1e30), -1).astype(x.dtype)
        x = x + jnp.einsum("ht,thd->hd", weights, values).reshape(-1) @ out
        x = x + weft.nn.gelu(normal(x, gain) @ up) @ down
        kept.append([keys, values])
    return (kept, at + 1), x


def test_chains_of_products():
    """Two launches for each layer, and what the CPU computes of wider numbers."""
    shapes = (1024, 3072), (1024, 1024), (1024, 4096), (4096, 1024)
    matrix = lambda shape, seed: draws(shape, jnp.bfloat16, seed=seed) / 32
    params = [
        (draws((1024,), jnp.bfloat16), *(matrix(s, 4 * n + i) for i, s in enumerate(shapes)))
        for n in range(2)
    ]
    caches = [[draws((300, 16, 64), jnp.bfloat16, seed=i) for i in range(2)]] * 2
    rows = draws((6, 1024), jnp.bfloat16, seed=9)

    def fun(params, caches, at, rows):
        return lax.scan(lambda carry, x: layers(params, carry, x), (caches, at), rows)

    leaves, tree = weft.tree.flatten((params, caches, np.int32(0), rows))
    flat = lambda *leaves: fun(*weft.tree.unflatten(tree, leaves))
    run = Cuda().compile(weft.make_jaxpr(flat)(*leaves))
    chained = [c for c in commands.leaves(run.commands) if getattr(c, "blocks", 0) == 128]
    assert len(chained) == 4
    for at in (0, 7, 290):
        leaves[-2] = np.int32(at)
        wide = [x if x.dtype == np.int32 else x.astype(np.float32) for x in leaves]
        want = weft.tree.leaves(weft.jit(flat)(*wide))
        found = [run(leaves) for _ in range(3)]  # the third time as a graph
        for a, *others, b in zip(*found, want, strict=True):
            b = np.asarray(b, np.float32)
            assert np.abs(np.asarray(a, np.float32) - b).max() <= 0.05 * np.abs(b).max()
            assert all(np.asarray(x).tobytes() == np.asarray(a).tobytes() for x in others)


@pytest.mark.parametrize("name", ONE_ROW)
def test_attention_of_a_row(name, monkeypatch):
    monkeypatch.setattr(attention, "MIN_KEPT", 1)
    fun, shapes, at = ONE_ROW[name]
    args = [draws(s, jnp.bfloat16, seed=i) for i, s in enumerate(shapes)]
    run = Cuda().compile(weft.make_jaxpr(fun)(*args, at))
    assert any("decode_attention" in getattr(c, "told", "") for c in run.commands)
    want = np.asarray(weft.jit(fun)(*(x.astype(np.float32) for x in args), at))
    found = [run([*args, at])[0] for _ in range(3)]
    assert np.abs(found[0].astype(np.float32) - want).max() < 0.02 * np.abs(want).max()
    assert all(x.tobytes() == found[0].tobytes() for x in found)


@pytest.mark.parametrize("columns", [100, 1000, 5000])
@pytest.mark.parametrize("dtype, depth", [(jnp.bfloat16, 64), (np.float32, 256), (np.float16, 20)])
def test_long_attention_of_a_row(dtype, depth, columns):
    """Columns in several ranges, of which some are seen."""

    def fun(q, keys, values, at):
        scores = jnp.einsum("hd,thd->ht", q, keys).astype(np.float32) / 8
        scores = jnp.where(jnp.arange(columns) <= at, scores, -1e30)
        weights = weft.nn.softmax(scores, -1).astype(q.dtype)
        return jnp.einsum("ht,thd->hd", weights, values)

    kept = (columns, 4, depth)
    args = [draws(s, dtype, seed=i) for i, s in enumerate([(4, depth), kept, kept])]
    run = Cuda().compile(weft.make_jaxpr(fun)(*args, np.int32(0)))
    for at in (0, columns // 2, columns - 1, columns + 5):
        want = np.asarray(weft.jit(fun)(*(x.astype(np.float32) for x in args), np.int32(at)))
        found = [run([*args, np.int32(at)])[0] for _ in range(3)]
        assert np.abs(found[0].astype(np.float32) - want).max() < 0.02 * np.abs(want).max()
        assert all(x.tobytes() == found[0].tobytes() for x in found)


@pytest.mark.parametrize("flags", ["", "--xla_gpu_deterministic_ops"], ids=["fast", "same bits"])
@pytest.mark.parametrize("shared", [4, 2])
def test_attention_of_parts(shared, flags, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", flags)
    fun = projected(4, shared, depth=64)[0]

    def both(x, weights, g):
        out, back = weft.vjp(fun, x, weights)
        return out, back(g)

    shapes = (2, 200, 32), (32, (4 + 2 * shared) * 64), (2, 200, 256)
    args = [(0.3 * draws(s, seed=i)).astype(jnp.bfloat16) for i, s in enumerate(shapes)]
    run = Cuda().compile(weft.make_jaxpr(both)(*args))
    assert any("packed_attention" in getattr(c, "told", "") for c in run.commands)
    want = weft.tree.leaves(weft.jit(both)(*(x.astype(np.float32) for x in args)))
    for _ in range(3):  # the third time as a graph
        for a, b in zip(run(args), want, strict=True):
            assert np.abs(a.astype(np.float32) - np.asarray(b)).max() < 0.02 * np.abs(b).max()


def rnn(w, xs):
    return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h.sum()), jnp.zeros(16), xs)


PROGRAMS = {
    "elementwise": lambda w, xs: (jnp.sin(w) @ w, xs.sum()),
    "scan": rnn,
    "while": lambda w, xs: lax.while_loop(lambda c: jnp.sum(c) < 50, lambda c: c * 1.5 + 1, w),
    "two carries": lambda w, xs: lax.while_loop(
        lambda c: c[0] < 10, lambda c: (c[0] + 1, c[2] * 0.5 + 1, c[1] @ w), (0, w, w.T)
    ),
    "branches": lambda w, xs: [
        lax.switch(i, [jnp.sin, jnp.cos, lambda x: x @ x], w)
        for i in ((xs[0, 0] > 0).astype(int), xs[0].argmax(), 1)
    ],
    "loop in loop": lambda w, xs: lax.fori_loop(
        0,
        5,
        lambda i, c: lax.while_loop(lambda d: jnp.sum(d) < 40, lambda d: d * 2 + 1, c) * 0.1,
        w,
    ),
    "branch in loop": lambda w, xs: lax.fori_loop(
        0, 6, lambda i, c: lax.cond(i % 2 == 0, jnp.sin, lambda x: x @ w, c), w
    ),
    "sort in loop": lambda w, xs: lax.fori_loop(0, 3, lambda i, c: jnp.sort(c + i, 0) * 0.5, w),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs(name):
    args = [draws((16, 16)) * 0.2, draws((6, 16), seed=3)]
    closed = weft.make_jaxpr(PROGRAMS[name])(*args)
    run = Cuda().compile(closed)
    want = weft.tree.leaves(weft.jit(PROGRAMS[name])(*args))
    given = [put(x) for x in args]

    def call():
        results = run.run_on_device(given)
        for buffer, aval, b in zip(results, closed.out_avals, want, strict=True):
            np.testing.assert_allclose(get(buffer, aval), b, rtol=2e-5, atol=1e-5)

    for _ in range(4):
        call()
    run.improve()  # graphs of code that was made quickly are made again
    for _ in range(4):
        call()
    assert run.capturable and any(graph is not None for graph in run.graphs.values())


def test_memory_is_given_back():
    x = draws((1000, 1000))
    run = Cuda().compile(weft.make_jaxpr(lambda x: jnp.cumsum(x @ x, 0) @ x)(x))
    run([x])
    before = memory.memory_stats()
    run([x])
    after = memory.memory_stats()
    assert after["bytes_in_use"] == before["bytes_in_use"]
    assert after["bytes_reserved"] == before["bytes_reserved"]
    assert after["peak_bytes_in_use"] >= 4 * x.nbytes


def test_exhausted_memory_is_an_error_and_all_goes_on():
    def fun(x):
        return jnp.cumsum(jnp.broadcast_to(x, (1 << 18, 1 << 18)), 0)[0, 0]

    run = Cuda().compile(weft.make_jaxpr(fun)(np.float32(1)))
    with pytest.raises(weft.errors.JaxRuntimeError, match=r"RESOURCE_EXHAUSTED[^$]*262144,262144"):
        run([np.float32(1)])
    x = draws(100)
    (got,) = Cuda().compile(weft.make_jaxpr(jnp.sort)(x))([x])
    np.testing.assert_array_equal(got, np.sort(x))


def test_a_fallback_warns_once():
    commands._warned.discard("schur")
    x = draws((4, 4))
    closed = weft.make_jaxpr(lambda x: lax.linalg.schur(x))(x)
    with pytest.warns(commands.HostFallbackWarning, match="schur"):
        Cuda().compile(closed)
