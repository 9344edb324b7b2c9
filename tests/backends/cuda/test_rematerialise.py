"""Values that are computed again rather than kept: planned bytes of training steps, and results."""

import numpy as np
import pytest

import weft
from bench.suites import cuda_models as models
from tests.backends.cuda import host_device, planned
from tests.compose.programs import generate
from weft import lax, nn
from weft import numpy as jnp
from weft.backends.cuda.passes.rematerialise import rematerialise
from weft.backends.cuda.passes.target import GpuTarget
from weft.backends.cuda.routines import products
from weft.base import knobs
from weft.compiler.pipeline import simplify
from weft.core.jaxpr import eval_jaxpr
from weft.core.verify import check_jaxpr
from weft.linen.architectures import UNet, UNetConfig


def array(*sizes, scale=0.0):
    return weft.ShapeDtypeStruct(sizes, np.float32)


def transformer(monkeypatch):
    monkeypatch.setattr(models, "draw", array)
    for name, value in {"LAYERS": 2, "WIDTH": 256, "HEADS": 4, "LENGTH": 256, "WORDS": 512}.items():
        monkeypatch.setattr(models, name, value)
    params = models.parameters()
    return models.training(weft), (params, params, params, *models.texts())


def residual(monkeypatch):
    monkeypatch.setattr(models, "draw", array)
    monkeypatch.setattr(models, "STAGES", ((2, 64), (2, 128), (1, 256), (1, 512)))
    params, images = models.images_parameters(), array(8, 224, 224, 3)
    return models.images_step(weft), (params, params, images, np.zeros(8, np.int32))


def unet(monkeypatch):
    net = UNet(UNetConfig(features=32, multipliers=(1, 2), blocks=1))
    image, time = weft.ShapeDtypeStruct((8, 32, 32, 3), np.float32), np.zeros(8, np.float32)
    params = weft.eval_shape(net.init, weft.random.key(0), image, time)

    def step(params, images, time):
        value = lambda p: jnp.mean(net.apply(p, images, time) ** 2)
        found, grads = weft.value_and_grad(value)(params)
        return found, weft.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    return step, (params, image, weft.ShapeDtypeStruct((8,), np.float32))


@pytest.mark.parametrize("network", [transformer, residual, unet])
def test_planned_peak(network, monkeypatch):
    planned.install(monkeypatch)
    step, args = network(monkeypatch)
    plain = planned.planned(step, *args)
    with knobs.scope(gpu_rematerialise=0.0):
        again = planned.planned(step, *args)
    assert plain.saved == 0 and again.saved == plain.arena - again.arena

    assert again.arena <= 0.8 * plain.arena


def normal(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def layers(params, x):
    for first, second in params:
        x = x + nn.gelu(normal(x) @ first) @ second
    return (x**2).sum()


def shared(params, x):
    """What is computed again is used by a value that is kept, and is a result itself."""
    kept = []
    for first, _ in params:
        y = nn.relu(x) * 2
        x = jnp.tanh(y @ first[:, :64]) + y
        kept.append(y.sum(-1))
    return (x * kept[0][:, None]).sum() + kept[-1].sum()


def operands(seed=0):
    rng = np.random.default_rng(seed)
    draw = lambda *sizes: rng.normal(size=sizes).astype(np.float32) / 8
    return [(draw(64, 128), draw(128, 64)) for _ in range(4)], draw(96, 64)


def test_results_and_story(monkeypatch):
    gpu = host_device.install_client(monkeypatch)
    for name in ("lt_product", "strided_product"):  # the host multiplies
        monkeypatch.setattr(products, name, planned.Algorithm)
    monkeypatch.setattr(GpuTarget, "epilogue", lambda *_: None)
    want = weft.jit(weft.value_and_grad(layers, (0, 1)))(*operands())
    there = weft.device_put(operands(), gpu)
    plain, short = (weft.jit(weft.value_and_grad(layers, (0, 1))) for _ in range(2))
    for run, share in ((plain, 0.8), (short, 0.0)):
        with knobs.scope(gpu_rematerialise=share):
            got = run(*there)
            said = str(weft.explain(run)(*there))
        assert ("recomputation saves" in said) == (share == 0)
        for g, w in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("fun", [layers, shared])
def test_programs_give_the_same(fun):
    args = operands()
    closed = simplify(weft.make_jaxpr(weft.value_and_grad(fun, (0, 1)))(*args))
    again = rematerialise(closed)
    assert len(again.jaxpr.eqns) > len(closed.jaxpr.eqns)
    check_jaxpr(again)
    leaves = weft.tree.leaves(args)
    first, second = (eval_jaxpr(c.jaxpr, c.consts, *leaves) for c in (closed, again))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_random_programs(first):
    changed = 0
    for seed in range(first, first + 20):
        program, args, traits = generate(seed)
        if "forward only" in traits:
            continue

        def fun(*xs, program=program):
            return sum(jnp.sum(y * y) for y in program(False, *xs))

        with weft.enable_x64(True):
            numbers = tuple(range(len(args)))
            closed = simplify(weft.make_jaxpr(weft.value_and_grad(fun, numbers))(*args))
            again = rematerialise(closed)
            changed += again is not closed
            check_jaxpr(again)
            before, second = (eval_jaxpr(c.jaxpr, c.consts, *args) for c in (closed, again))
        for a, b in zip(before, second, strict=True):
            np.testing.assert_array_equal(a, b)
    assert changed


def test_programs_without_such_values_stay(monkeypatch):
    planned.install(monkeypatch)
    x = weft.ShapeDtypeStruct((256, 256), np.float32)
    with knobs.scope(gpu_rematerialise=0.0):
        made = planned.planned(lambda x: jnp.tanh(x @ x) @ x, x)
    assert made.saved == 0
