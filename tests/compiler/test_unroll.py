"""Short reductions written out: the same results, and forces between all pairs in one pass."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from weft import numpy as jnp
from weft.backends.cuda.passes.target import GpuTarget
from weft.compiler import unroll as room
from weft.compiler.fuse import fusible
from weft.compiler.pipeline import simplify
from weft.core.jaxpr import ClosedJaxpr, eval_jaxpr
from weft.core.verify import check_jaxpr


def forces(x):
    gap = x[None] - x[:, None]
    r2 = (gap * gap).sum(-1) + 1e-2
    return (gap * (r2**-1.5)[..., None]).sum(1)


def potential(x):
    gap = x[None] - x[:, None]
    r = jnp.sqrt(jnp.sum(jnp.abs(gap) ** 2, -1) + 1.0)
    return jnp.sum(jnp.exp(-r) / r)


def nearest(x):
    """The smallest of the largest distances along an axis."""
    return jnp.min(jnp.max(jnp.abs(x[None] - x[:, None]), -1) + jnp.eye(len(x)), 1)


def volumes(x):
    return jnp.sum(jnp.prod(jnp.tanh(x[None] + x[:, None]), -1), 0)


def squares(x):
    """Sums over two short axes."""
    y = jnp.sin(x[:, None, :2, None] * x[None, :, None, :2])
    return jnp.max(jnp.sum(y, (-2, -1)), 0)


def summed_gradient(f):
    return weft.grad(lambda x: jnp.sum(f(x) ** 2))


PROGRAMS = [forces, potential, nearest, volumes, squares]
ALL = [*PROGRAMS, *map(summed_gradient, (forces, potential, squares))]


def unrolled(fun, x):
    closed = simplify(weft.make_jaxpr(fun)(x), target=GpuTarget())
    return closed, ClosedJaxpr(room.unroll(closed.jaxpr, fusible), closed.consts)


@pytest.mark.parametrize("number", range(len(ALL)))
def test_results_stay(monkeypatch, number):
    monkeypatch.setattr(room, "MIN_SUMS", 1)
    x = np.random.default_rng(number).normal(size=(20, 3)).astype("f")
    before, after = unrolled(ALL[number], x)
    check_jaxpr(after)
    assert len(after.jaxpr.eqns) > len(before.jaxpr.eqns)
    expected = eval_jaxpr(before.jaxpr, before.consts, x)
    for a, b in zip(eval_jaxpr(after.jaxpr, after.consts, x), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * np.abs(b).max())


@pytest.mark.parametrize("number", range(len(ALL)))
def test_nothing_is_kept_for_all_pairs(monkeypatch, number):
    planned.install(monkeypatch)
    x = weft.ShapeDtypeStruct((1500, 3), np.float32)
    assert planned.planned(ALL[number], x).arena < 4 * 1500**2


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x[None] - x[:, None]).sum(-1),  # a result
        lambda x: jnp.sum((x[None] - x[:, None]) ** 2, 1).sum(-1),  # long first
        lambda x: x.sum(-1).max(),  # few sums
    ],
)
def test_others_stay(program):
    before, after = unrolled(program, np.ones((300, 3), "f"))
    assert after.jaxpr is before.jaxpr
