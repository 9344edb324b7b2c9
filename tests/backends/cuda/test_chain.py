"""Products that follow each other as one launch of clusters: which do, and what they compute."""

import numpy as np
import pytest

import weft
from tests.backends.cuda.host_device import install
from tests.backends.cuda.test_join import check_assembly, compiled, draws, launches, normal
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import assemble, chain
from weft.backends.cuda import schedule as schedules
from weft.backends.cuda.routines import attention
from weft.backends.cuda.text import join


@pytest.fixture
def small(monkeypatch):
    """Chains of two clusters of two blocks."""
    install(monkeypatch)
    monkeypatch.setattr(schedules, "ENOUGH_CLUSTER_BLOCKS", 2)
    for name, value in {"CLUSTER": 2, "MAX_CLUSTERS": 2, "FEWEST_CLUSTERS": 2}.items():
        monkeypatch.setattr(chain, name, value)
    monkeypatch.setattr(join, "MANY_LOADS", 2)
    monkeypatch.setattr(attention, "MIN_KEPT", 1)
    found = []
    made = assemble.render_joined
    monkeypatch.setattr(
        assemble, "render_joined", lambda j, *more: found.append(j) or made(j, *more)
    )
    return found


def perceptron(x, gain, up, down):
    return x + weft.nn.gelu(normal(x, gain) @ up) @ down


def twice(x, gain, up, down, more):
    x = perceptron(x, gain, up, down)
    return x, normal(x, gain) @ more


def attended(x, gain, qkv, out, keys, values, at):
    """A layer of attention to what is kept of earlier rows."""
    heads = lambda z: z.reshape(2, -1)
    q, k, v = map(heads, jnp.split(normal(x, gain) @ qkv, 3))
    keys = lax.dynamic_update_slice(keys, k[None], (at, 0, 0))
    values = lax.dynamic_update_slice(values, v[None], (at, 0, 0))
    scores = jnp.einsum("hd,thd->ht", q, keys) / 8
    weights = weft.nn.softmax(jnp.where(jnp.arange(len(keys)) <= at, scores, -1e30), -1)
    found = jnp.einsum("ht,thd->hd", weights, values)
    return x + found.reshape(-1) @ out, keys, values


PAIR = [draws(128), draws(128), draws(128, 256) / 8, draws(256, 128) / 8]
HEADS = [
    *(draws(128), draws(128), draws(128, 384) / 8, draws(128, 128) / 8),
    *(draws(40, 2, 64), draws(40, 2, 64) + 1, np.int32(21)),
]


@pytest.mark.parametrize(
    "fun, args, donated, count",
    [
        (perceptron, PAIR, (), 2),
        (twice, [*PAIR, draws(128, 128)], (), 2),
        (attended, HEADS, (0, 0, 0, 0, 1, 1, 0), 2),
    ],
)
@pytest.mark.sampled(3)
def test_programs(fun, args, donated, count, small):
    run = compiled(fun, *args, donated=[bool(d) for d in donated])
    want = weft.tree.leaves(weft.jit(fun)(*args))
    for _ in range(2):
        for a, b in zip(run([x.copy() for x in args]), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    assert len(launches(run)) == count
    assert sum(isinstance(p.schedule, chain.Chain) for j in small for p in j.pieces) == 1


def chained_twice(found):
    """The second of two chains, which begins with the sums of the first."""
    args = [*PAIR, draws(128, 256, seed=1) / 8, draws(256, 128, seed=2) / 8]
    compiled(lambda x, gain, a, b, c, d: perceptron(perceptron(x, gain, a, b), gain, c, d), *args)
    _, second = [j for j in found if isinstance(j.pieces[-1].schedule, chain.Chain)]
    return second


def test_the_text(small):
    """What is summed is shared by the blocks of a cluster; matrices are read before the launch
    before this one has ended, one to shared memory and one to registers."""
    second = chained_twice(small)
    assert second.repeated == 2 and list(join._parts(second)) == [0]
    made = check_assembly(join.render(second, 2))
    assert made.count("griddepcontrol.wait") == 1
    early, rest = made.split("griddepcontrol.wait")
    assert "cp.async.cg" in early and "ld.global.L1::no_allocate" in early
    assert "cp.async.cg" not in rest and "no_allocate" not in rest
    assert early.count("cp.async.bulk.prefetch.L2.global") == 2


@pytest.mark.parametrize("dtype, shared", [("f4", 1), ("f8", 0), ("i1", 1)])
def test_what_blocks_share(dtype, shared, small, monkeypatch):
    """Threads give four bytes each: parts of wider numbers than they are many are no parts."""
    second = chained_twice(small)
    monkeypatch.setattr(chain, "CLUSTER_THREADS", 64)
    schedule = second.pieces[0].schedule
    buffers = [
        b._replace(dtype=np.dtype(dtype)) if b.role == "out" else b for b in schedule.kernel.buffers
    ]
    schedule = schedule._replace(kernel=schedule.kernel._replace(buffers=buffers))
    first = second.pieces[0]._replace(schedule=schedule)
    made = second._replace(pieces=(first, *second.pieces[1:]))
    assert join._parts(made) == ({0: 64} if shared else {})


@pytest.mark.parametrize(
    "fun",
    [
        lambda x, gain, up, down: (normal(x, gain) @ up, normal(x, gain) @ up @ down),
        lambda x, gain, up, down: (normal(x, gain) @ up)[::-1] @ down,
        lambda x, gain, up, down: x * (normal(x, gain) @ up @ down).max(),
    ],
)
def test_what_is_read_elsewhere_is_no_chain(fun, small):
    """The first product's results are a result; are read in another order; the second's in one."""
    run = compiled(fun, *PAIR)
    for a, b in zip(run([x.copy() for x in PAIR]), weft.tree.leaves(fun(*PAIR)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_updates_that_are_no_part_of_a_head(small):
    """Keys that are written a row and a half further are no part of what one cluster reads."""

    def fun(x, gain, qkv, out, keys, values, at):
        flat = lax.dynamic_update_slice(keys.reshape(-1), x, (128 * at + 64,))
        return attended(x, gain, qkv, out, flat.reshape(keys.shape), values, at)

    run = compiled(fun, *HEADS, donated=[False] * 4 + [True] * 2 + [False])
    want = weft.tree.leaves(weft.jit(fun)(*HEADS))
    for a, b in zip(run([x.copy() for x in HEADS]), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_keys_that_a_product_reads(small):
    """Another cluster may not have written them by then."""

    def fun(x, gain, qkv, out, keys, values, at):
        y, keys, values = attended(x, gain, qkv, out, keys, values, at)
        return keys[21].reshape(-1) + (y - x), keys, values

    run = compiled(fun, *HEADS, donated=[False] * 4 + [True] * 2 + [False])
    assert not any(isinstance(p.schedule, chain.Chain) for j in small for p in j.pieces)
    want = weft.tree.leaves(weft.jit(fun)(*HEADS))
    for a, b in zip(run([x.copy() for x in HEADS]), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_matrices_that_are_too_large(small, monkeypatch):
    monkeypatch.setattr(chain, "MAX_COPIED", 1 << 10)
    compiled(perceptron, *PAIR)
    assert not any(isinstance(p.schedule, chain.Chain) for j in small for p in j.pieces)
