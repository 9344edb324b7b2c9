"""Results that read the same arrays are written by one kernel although a product comes between."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from weft import nn
from weft import numpy as jnp
from weft.backends.cuda import commands
from weft.backends.cuda.passes.target import GpuTarget
from weft.compiler import nearer as room
from weft.compiler.fuse import fusible
from weft.compiler.pipeline import simplify
from weft.core.jaxpr import ClosedJaxpr, eval_jaxpr
from weft.core.verify import check_jaxpr


def gated(x, a, b, c):
    return (nn.silu(x @ a) * (x @ b)) @ c


def bilinear(x, a, b, c):
    return (jnp.tanh(x @ a) * jnp.sin(x @ b)) @ c


def gelu(x, a, b, c):
    return (nn.gelu(x @ a, approximate=True) * (x @ b)) @ c


def plain(x, a, b, c):
    return nn.relu(jnp.sin(x @ a) @ b.T) @ a @ c


def gradient(f):
    return weft.grad(lambda *args: (f(*args) ** 2).mean(), (0, 1, 2, 3))


def shapes(rows, width, inner):
    return [(rows, width), (width, inner), (width, inner), (inner, width)]


@pytest.mark.parametrize("function, before", [(gated, 4), (bilinear, 5), (gelu, 4)])
def test_gradients_of_gated_layers_have_a_kernel_less(function, before, monkeypatch):
    planned.install(monkeypatch)
    args = [weft.ShapeDtypeStruct(s, jnp.float32) for s in shapes(981, 100, 400)]
    count = lambda: sum(
        isinstance(c, commands.Launched)
        for c in commands.leaves(planned.planned(gradient(function), *args).commands)
    )
    assert count() == before - 1
    monkeypatch.setattr(room, "MAX_BETWEEN", 0)
    assert count() == before


@pytest.mark.parametrize("function", [gated, bilinear, gelu, plain])
def test_results_stay(function, monkeypatch):
    monkeypatch.setattr(room, "MIN_ELEMENTS", 1)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s).astype(np.float32) for s in shapes(96, 64, 128)]
    closed = simplify(weft.make_jaxpr(gradient(function))(*args), target=GpuTarget())
    moved = ClosedJaxpr(room.nearer(closed.jaxpr, fusible), closed.consts)
    check_jaxpr(moved.jaxpr)
    assert (moved.jaxpr is closed.jaxpr) == (function is plain)
    assert len(moved.jaxpr.eqns) == len(closed.jaxpr.eqns)
    want = eval_jaxpr(closed.jaxpr, closed.consts, *args)
    for a, b in zip(eval_jaxpr(moved.jaxpr, moved.consts, *args), want, strict=True):
        np.testing.assert_array_equal(a, b)
