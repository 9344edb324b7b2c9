"""ResNet, ViT and U-Net: published numbers of parameters, training, options and errors.

Outputs of ResNet and ViT are compared in test_huggingface.py.
"""

import math

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.linen.architectures.harness import close
from weft.linen.architectures import (
    ResNet,
    ResNetConfig,
    UNet,
    UNetConfig,
    ViT,
    ViTConfig,
    stack_layers,
)
from weft.linen.architectures.unet import time_embedding

KEY = weft.random.key(0)
VIT = ViTConfig(
    image_size=8, patch_size=4, features=8, hidden=16, num_layers=2, num_heads=2, num_classes=3
)
RESNET = ResNetConfig(depths=(1, 2), features=(4, 8), num_classes=3, stem="small")
UNET = UNetConfig.named("tiny")


def images(*shape, seed=0):
    return jnp.asarray(np.random.RandomState(seed).standard_normal(shape), jnp.float32)


def size(model, *inputs):
    shapes = weft.eval_shape(model.init, KEY, *inputs)["params"]
    return sum(math.prod(leaf.shape) for leaf in weft.tree.leaves(shapes))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("resnet-18", 11_689_512),
        ("resnet-34", 21_797_672),
        ("resnet-50", 25_557_032),
        ("resnet-101", 44_549_160),
    ],
)
def test_resnets_have_the_published_number_of_parameters(name, count):
    assert size(ResNet(ResNetConfig.named(name)), jnp.zeros((1, 64, 64, 3))) == count


@pytest.mark.parametrize(
    ("name", "count"),
    [("vit-ti/16", 5_717_416), ("vit-b/16", 86_567_656), ("vit-b/32", 88_224_232)],
)
def test_vits_have_the_published_number_of_parameters(name, count):
    model = ViT(ViTConfig.named(name, scan_layers=True))
    assert size(model, jnp.zeros((1, 224, 224, 3))) == count


def test_the_u_net_of_ddpm_has_the_published_number_of_parameters():
    model = UNet(UNetConfig.named("ddpm-cifar10"))
    assert size(model, jnp.zeros((1, 32, 32, 3)), jnp.zeros(1)) == 35_746_307


@pytest.mark.parametrize(("stem", "bottleneck"), [("small", False), ("imagenet", True)])
def test_a_resnet_learns_and_moves_its_averages(stem, bottleneck):
    model = ResNet(RESNET.replace(stem=stem, bottleneck=bottleneck))
    x, labels = images(4, 16, 16, 3), jnp.array([0, 1, 2, 0])
    variables = weft.jit(model.init)(KEY, x)

    @weft.jit
    def step(variables):
        def loss(params):
            state = {**variables, "params": params}
            logits, updates = model.apply(state, x, train=True, mutable=["batch_stats"])
            return -jnp.mean(weft.nn.log_softmax(logits)[jnp.arange(4), labels]), updates

        (value, updates), grads = weft.value_and_grad(loss, has_aux=True)(variables["params"])
        move = lambda p, g: p - 0.1 * g
        return value, {**updates, "params": weft.tree.map(move, variables["params"], grads)}

    losses, start = [], variables
    for _ in range(20):
        value, variables = step(variables)
        losses.append(float(value))
    assert losses[-1] < 0.9 * losses[0]
    before, after = start["batch_stats"]["stem_norm"], variables["batch_stats"]["stem_norm"]
    assert not bool(jnp.any(before["mean"] == after["mean"]))
    assert weft.eval_shape(model.apply, variables, x).shape == (4, 3)
    last = weft.eval_shape(lambda v: model.apply(v, x, features=True), variables)
    assert last.shape == (4, 32 if bottleneck else 8)


@pytest.mark.parametrize("pool", ["token", "mean"])
def test_scanned_layers_of_a_vit_give_what_separate_ones_give(pool):
    x = images(2, 8, 8, 3)
    one, loop = (ViT(VIT.replace(pool=pool, scan_layers=scan, remat=scan)) for scan in (0, 1))
    params = weft.jit(one.init)(KEY, x)["params"]
    stacked = stack_layers(params)
    made = weft.eval_shape(loop.init, KEY, x)["params"]
    assert weft.tree.map(jnp.shape, made) == weft.tree.map(jnp.shape, stacked)
    total = lambda model: lambda p: jnp.sum(model.apply({"params": p}, x) ** 2)
    value, grads = weft.jit(weft.value_and_grad(total(one)))(params)
    scanned, others = weft.jit(weft.value_and_grad(total(loop)))(stacked)
    close(value, scanned)
    weft.tree.map(lambda a, b: close(a, b, 1e-4), stack_layers(grads), others)


def test_patches_of_a_vit_have_places():
    """Without positions, a ViT that pools does not see where patches are."""
    model, x = ViT(VIT.replace(pool="mean")), images(1, 8, 8, 3)
    params = weft.jit(model.init)(KEY, x)["params"]
    apply = weft.jit(model.apply)
    moved = jnp.roll(x, 4, axis=1)
    assert not np.allclose(
        model.apply({"params": params}, x), model.apply({"params": params}, moved)
    )
    blind = {**params, "positions": jnp.zeros_like(params["positions"])}
    close(apply({"params": blind}, x), apply({"params": blind}, moved))


def test_a_u_net_learns_noise_and_sees_times_and_labels():
    model = UNet(UNET.replace(num_classes=3, dropout_rate=0.1, attention_levels=(1,)))
    x, noise = images(4, 8, 8, 1), images(4, 8, 8, 1, seed=1)
    time, labels = jnp.arange(4.0) * 100, jnp.array([0, 1, 2, 0])
    variables = weft.jit(model.init)(KEY, x, time, labels)
    apply = weft.jit(model.apply)
    assert not np.any(apply(variables, x, time, labels))

    @weft.jit
    def step(variables, key):
        call = lambda v: model.apply(v, x, time, labels, deterministic=False, rngs={"dropout": key})
        value, grads = weft.value_and_grad(lambda v: jnp.mean((call(v) - noise) ** 2))(variables)
        return value, weft.tree.map(lambda p, g: p - 0.05 * g, variables, grads)

    losses = []
    for seed in range(20):
        value, variables = step(variables, weft.random.key(seed))
        losses.append(float(value))
    assert losses[-1] < 0.95 * losses[0]
    first = apply(variables, x, time, labels)
    assert not np.allclose(first, apply(variables, x, time + 1, labels), atol=1e-7)
    assert not np.allclose(first, apply(variables, x, time, labels[::-1]), atol=1e-7)
    other = images(1, 6, 10, 1), time[:1], labels[:1]
    assert weft.eval_shape(model.apply, variables, *other).shape == (1, 6, 10, 1)


def test_times_become_waves():
    wave = np.asarray(time_embedding(jnp.array([3.0, 500.0]), 6))
    slow = 10000.0 ** (-np.arange(3) / 3)
    angles = np.array([[3.0], [500.0]]) * slow
    close(wave, np.concatenate([np.sin(angles), np.cos(angles)], axis=1), 1e-4)


@pytest.mark.parametrize("model", [ResNet(RESNET.replace(dtype=jnp.bfloat16)),
                                   ViT(VIT.replace(dtype=jnp.bfloat16))])  # fmt: skip
def test_bfloat16_inside_and_float32_outside(model):
    x = images(1, 8, 8, 3)
    variables = weft.eval_shape(model.init, KEY, x)
    assert {leaf.dtype for leaf in weft.tree.leaves(variables)} == {jnp.dtype("float32")}
    assert weft.eval_shape(model.apply, variables, x).dtype == jnp.float32
    options = {"capture_intermediates": True, "mutable": ["intermediates"]}
    inside = weft.eval_shape(lambda v: model.apply(v, x, **options), variables)[1]
    assert jnp.dtype("bfloat16") in {leaf.dtype for leaf in weft.tree.leaves(inside)}


def test_wrong_inputs_say_what_to_write():
    with pytest.raises(ValueError, match=r"expects images \(batch, 8, 8, channels\)"):
        ViT(VIT).init(KEY, images(1, 8, 9, 3))
    with pytest.raises(ValueError, match="neither 'token' nor 'mean'"):
        ViT(VIT.replace(pool="max")).init(KEY, images(1, 8, 8, 3))
    with pytest.raises(ValueError, match="neither 'imagenet' nor 'small'"):
        ResNet(RESNET.replace(stem="tiny")).init(KEY, images(1, 8, 8, 3))
    with pytest.raises(ValueError, match="to be multiples of 2"):
        UNet(UNET).init(KEY, images(1, 7, 8, 1), jnp.zeros(1))
    with pytest.raises(ValueError, match="got labels with num_classes=None"):
        UNet(UNET).init(KEY, images(1, 8, 8, 1), jnp.zeros(1), jnp.zeros(1, int))
    with pytest.raises(ValueError, match="even number of features, not 3"):
        time_embedding(jnp.zeros(1), 3)
