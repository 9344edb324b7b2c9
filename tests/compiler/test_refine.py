"""Elementwise work on both sides of a reshape, in one shape: the same results, and no copies."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from weft import numpy as jnp
from weft.backends.cuda.passes.target import GpuTarget
from weft.compiler import refine as room
from weft.compiler.fuse import fusible
from weft.compiler.pipeline import simplify
from weft.core.jaxpr import ClosedJaxpr, eval_jaxpr
from weft.core.verify import check_jaxpr
from weft.kernel.program import Copy


def group_norm(x, scale):
    *outer, channels = x.shape
    y = jnp.reshape(x, (*outer, 4, channels // 4))
    axes = tuple(range(1, y.ndim - 2)) + (y.ndim - 1,)
    mean, var = (f(y, axes, keepdims=True) for f in (jnp.mean, jnp.var))
    y = (y - mean) / jnp.sqrt(var + 1e-5)
    return jnp.reshape(y, x.shape) * scale


def pairs(x, scale):
    """Neighbours turned against each other, as positions are in attention."""
    y = jnp.tanh(jnp.reshape(x, (*x.shape[:-1], -1, 2)))
    return jnp.reshape(y * jnp.array([1.0, -1.0]), x.shape) + scale


def flat(x, scale):
    y = jnp.exp(x * scale)
    return jnp.sum(jnp.reshape(y, (-1, x.shape[-1])) ** 2, 0)


def split_rows(x, scale):
    y = jnp.reshape(jnp.sin(x), (x.shape[0] // 2, 2, *x.shape[1:]))
    z = jnp.reshape(y * 2 + y.sum(1, keepdims=True), x.shape)
    return jnp.where(z > 0, z, scale), jnp.max(z, -1)


def integers(x, scale):
    y = jnp.reshape((x * 10).astype("int32"), (-1,))
    return jnp.reshape(y // 3, x.shape) % 5, jnp.sum(y), jnp.reshape(y, (-1, 2)).max(1)


def gradient(f):
    def loss(*args):
        return sum(jnp.mean(jnp.square(out)) for out in weft.tree.leaves(f(*args)))

    return weft.grad(loss, (0, 1))


FUNCTIONS = [group_norm, pairs, flat, split_rows, integers]
GRADIENTS = [gradient(f) for f in FUNCTIONS[:-1]]


def refined(fun, *args):
    target = GpuTarget()
    closed = simplify(weft.make_jaxpr(fun)(*args), target=target)
    return closed, ClosedJaxpr(room.refine(closed.jaxpr, fusible), closed.consts)


@pytest.mark.parametrize("number", range(len(FUNCTIONS + GRADIENTS)))
@pytest.mark.parametrize("shape", [(4, 6, 8), (2, 3, 5, 16), (6, 24), (2, 1, 4, 1, 8)])
def test_results_stay(monkeypatch, number, shape):
    monkeypatch.setattr(room, "MIN_REFINED", 1)
    fun = (FUNCTIONS + GRADIENTS)[number]
    random = np.random.default_rng(number)
    args = random.normal(size=shape).astype("f"), random.normal(size=shape[-1]).astype("f")
    before, after = refined(fun, *args)
    check_jaxpr(after)
    expected = eval_jaxpr(before.jaxpr, before.consts, *args)
    found = eval_jaxpr(after.jaxpr, after.consts, *args)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def between(closed):
    """Reshapes of what is computed, that join dimensions: kernels cannot go through them."""
    jaxpr = closed.jaxpr
    made = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    return [
        eqn
        for eqn in jaxpr.eqns
        if room._reshapes(eqn)
        and eqn.outvars[0] not in jaxpr.outvars
        and room._in_the_way(eqn, set(jaxpr.invars), made, fusible)
    ]


@pytest.mark.parametrize("fun", [group_norm, *GRADIENTS[:2]])
def test_no_reshape_is_between(fun):
    before, after = refined(fun, np.ones((8, 32, 32, 64), "f"), np.ones(64, "f"))
    assert between(before) and not between(after)


@pytest.mark.parametrize("shape", [(8, 64, 64, 128), (3, 100, 101, 96)])
def test_gradient_of_groups_keeps_nothing_large(monkeypatch, shape):
    planned.install(monkeypatch)
    args = [weft.ShapeDtypeStruct(s, np.float32) for s in (shape, shape[-1:])]
    executable = planned.planned(GRADIENTS[0], *args)
    assert executable.arena < 4 * np.prod(shape) / 4
    assert not any(isinstance(c, Copy) for c in executable.commands)


def test_small_arrays_and_other_uses_stay():
    x, scale = np.ones((4, 6, 8), "f"), np.ones(8, "f")
    before, after = refined(group_norm, x, scale)
    assert after.jaxpr is before.jaxpr  # too small for a copy to cost much
    turned = lambda x, s: jnp.reshape(jnp.sin(jnp.reshape(x, (-1, 4, 16))), x.shape).T * s[0]
    before, after = refined(turned, np.ones((4096, 64), "f"), np.ones(64, "f"))
    assert after.jaxpr is before.jaxpr  # a transposition reads the joined dimension
