"""Small kernels that follow each other as one launch with barriers: which are, and what they
compute on the host, on one block, a cluster and a grid."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.host_device import install
from tests.backends.cuda.test_join import compiled, draws, launches
from tests.compiler.test_gpu_programs import chain, gradient
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import assemble, commands, ptx
from weft.backends.cuda.loops import Grid
from weft.backends.cuda.text import runs
from weft.backends.cuda.text.loops import Writer

GRIDS = {"block": Grid(1, 32), "cluster": Grid(2, 32, True), "grid": Grid(3, 32)}


def join_all(monkeypatch, grid):
    """Have whatever can be a run be one, on these blocks."""
    install(monkeypatch)
    monkeypatch.setattr(runs, "MIN_LAUNCHES", 2)
    monkeypatch.setattr(runs, "launch_of", lambda *given: 1 << 40)
    monkeypatch.setattr(runs, "blocks", lambda *given: [grid])
    monkeypatch.setattr(assemble, "choose", lambda *given: grid)


def tree(x):
    return lax.associative_scan(lambda a, b: jnp.maximum(a * 0.5, b), x)


def scans(x):
    """Trees of small kernels that each read what others have written."""
    return lax.cummax(x, 0), tree(x)


def around_a_loop(x, y):
    """A loop that begins with what kernels before it have made, and kernels after it."""
    z = jnp.sort(jnp.cos(x.sum(0) + y)) * 0 + jnp.cumsum(x, 0).sum(0)
    begin = (z / 9, jnp.flip(y) - z.mean())
    z, y = lax.fori_loop(0, 3, lambda i, c: (c[1] * 0.5 + i, c[0] - c[1].max()), begin)
    return z + y.sum(), y * z


def counted(x):
    """A loop of unknown length whose state has come out of small kernels."""
    x = x - x.max(0) + jnp.roll(x.sum(0), 1)
    more = lambda c: c[0].sum() > -400
    return lax.while_loop(more, lambda c: (c[1] - 1, c[0] * 0.9), (x, x[::-1].cumsum(0)))


def overwritten(x):
    """Values whose memory others have later, within a run and after it."""
    for n in range(6):
        x = jnp.roll(x - x.mean(1, keepdims=True), n, 0) + x.max(0) * x[:, ::-1]
    return x


def joined_ranges(x, y):
    z = jnp.concatenate([x[1:] * 2, jnp.pad(y, ((1, 2), (0, 0))), x[:1]], 0)
    return z[::2] + z[1::2].sum(0), z.T @ z


def marked(x, y):
    """What is asked of arrays is noted by the kernels that make them, and read by later ones."""
    z = jnp.cumsum(x, 0) * 2
    found = jnp.any(z > 90), jnp.all(z < 90), jnp.any(y != y)
    w = jnp.where(found[1], z.sum(0), y) + jnp.flip(y)
    return w, found, jnp.any(w > 3), jnp.all(w.T @ w > 0)


def empty_loops(x, y):
    """Loops of no rounds among small kernels, and in the rounds of others."""
    z = jnp.cumsum(x, 0) + y
    z, n = lax.fori_loop(3, 3, lambda i, c: (c[1] * 2 - i, c[0]), (z, z[::-1]))
    step = lambda c, r: (c + r.sum(), r * c)
    total, rows = lax.scan(step, z.sum() * n.max(), x[:0], reverse=True)
    inside = lambda i, x: lax.fori_loop(0, 0, lambda j, x: x + j, x - x.mean())
    return lax.fori_loop(0, 2, inside, jnp.flip(z)) * total, jnp.concatenate([rows, y[None]])


PROGRAMS = {
    "empty loops": (empty_loops, [draws(7, 19), draws(19, seed=1)]),
    "marked": (marked, [draws(9, 21), draws(21, seed=1)]),
    "marked otherwise": (marked, [draws(9, 21) + 50, draws(21, seed=1) * np.nan]),
    "scans": (scans, [draws(40, 5)]),
    "around a loop": (around_a_loop, [draws(7, 19), draws(19, seed=1)]),
    "counted": (counted, [draws(6, 33)]),
    "overwritten": (overwritten, [draws(13, 24)]),
    "ranges": (joined_ranges, [draws(8, 6), draws(5, 6, seed=1)]),
    "gradient": (
        weft.grad(lambda x: jnp.sum(scans(x)[1] ** 2) + overwritten(x).std()),
        [draws(12, 7) / 3],
    ),
    **{f"generated {n}": chain(n) for n in range(0, 12, 2)},
    **{f"generated {n}": (gradient(chain(n)[0]), chain(n)[1]) for n in range(1, 12, 2)},
}


def runs_of(run):
    """The launches that are runs, and loops."""
    leaves = commands.leaves(run.commands)
    return [x for x in leaves if hasattr(getattr(x, "function", None), "loop")]


def check(run, fun, args):
    want = weft.tree.leaves(weft.jit(fun)(*args))
    for _ in range(2):
        for a, b in zip(run([x.copy() for x in args]), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4 * max(1, abs(b).max(initial=0)))


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name, kind, monkeypatch):
    fun, args = PROGRAMS[name]
    install(monkeypatch)
    apart = compiled(fun, *args)
    join_all(monkeypatch, GRIDS[kind])
    run = compiled(fun, *args)
    if len(launches(apart)) > 1:
        assert runs_of(run) and commands.length(run.commands) < commands.length(apart.commands)
    check(run, fun, args)


def test_loops_of_no_rounds_are_nothing(monkeypatch):
    """A kernel for a loop ends after its last round, which there isn't."""
    planned.install(monkeypatch)
    loop = lambda x: lax.fori_loop(0, 0, lambda i, x: (x * 2).sum(0) + x, jnp.flip(x.cumsum(0)))
    for fun in (loop, weft.grad(lambda x: loop(x).sum()), weft.vmap(loop)):
        made = commands.leaves(plans(fun, draws(8, 9)))
        loops = [x for x in made if isinstance(x, commands.LoopKernel)]
        assert made and not any(x.rounds.startswith("0 times") for x in loops)


def test_barriers_are_needed(monkeypatch):
    """Without them the host finds out: a thread goes on where others haven't written yet."""
    join_all(monkeypatch, GRIDS["block"])
    fun, args = tree, [draws(40, 5)]
    check(compiled(fun, *args), fun, args)
    monkeypatch.setattr(Writer, "conflicts", lambda *given: False)
    with pytest.raises(AssertionError):
        check(compiled(fun, *args), fun, [7 - 3 * x for x in args])  # not what memory holds still


def plans(fun, *args):
    return planned.planned(fun, *args).commands


def test_small_kernels_are_one_launch(monkeypatch):
    planned.install(monkeypatch)
    shapes = [weft.ShapeDtypeStruct((n, 8), np.float32) for n in (64, 1 << 11, 1 << 19)]
    small, middle, large = (plans(tree, x) for x in shapes)
    assert len(small) <= 2 and all(c.blocks <= 4 for c in small)
    assert any(c.blocks == 8 for c in middle) and len(middle) <= 8
    assert any(c.blocks > 1000 for c in large)
    monkeypatch.setattr(runs, "MIN_LAUNCHES", 1 << 30)
    assert len(plans(tree, shapes[0])) > 8 and len(plans(tree, shapes[2])) > len(large)


def test_texts_are_short(monkeypatch):
    """A run's kernel has the instructions of its parts, and a bound on these."""
    planned.install(monkeypatch)
    made = []
    load = assemble.load
    monkeypatch.setattr(assemble, "load", lambda m, *more: made.append(m) or load(m, *more))
    plans(weft.grad(lambda x: jnp.sum(scans(x)[1] ** 2)), draws(2000, 3))
    (longest, *_) = sorted(made, key=lambda m: -len(str(m)))
    assert len(ptx.assemble(longest)) < 400_000
    monkeypatch.setattr(runs, "MAX_VALUES", 200)
    count = len(made)
    plans(weft.grad(lambda x: jnp.sum(scans(x)[1] ** 2)), draws(2000, 3))
    assert all(len(str(m)) < len(str(longest)) for m in made[count:])


def test_equal_runs_are_one_kernel(monkeypatch):
    """Runs that differ only in what memory they have are the same code."""
    planned.install(monkeypatch)

    def layer(x, w):
        x = jnp.sort(x)  # which no run has
        return jnp.roll(x - x.mean(), 1) + jnp.flip(x * w.max()) - (x * x).sum()

    def fun(x, *ws):
        for w in ws:
            x = layer(x, w)
        return x

    found = plans(fun, draws(50), *[draws(9)] * 6)
    assert [c.told.split("_")[0] for c in found] == ["sort", "div"] * 6
    assert len({id(c.function) for c in found[1::2]}) == 1


def test_grids_of_gpus_without_clusters():
    assert not any(g.cluster for g in runs.blocks(108, False))
    assert not any(g.cluster for g in runs.blocks(2, True))
    assert any(g.cluster for g in runs.blocks(132, True))
