"""Models and training steps in plain array code, as a user would write them without a library."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np


def weights(seed: int = 0) -> Any:
    """Makes arrays of normal numbers scaled for the size of what they are multiplied with."""
    random = np.random.default_rng(seed)

    def make(*shape: int) -> np.ndarray:
        fan = int(np.prod(shape[:-1])) or 1
        return random.standard_normal(shape, np.float32) * np.float32(fan**-0.5)

    return make


def cross_entropy(jax: Any, logits: Any, labels: Any) -> Any:
    jnp = jax.numpy
    logs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(logs, labels[..., None], axis=-1))


def sgd(jax: Any, loss: Any, rate: float = 0.1) -> Any:
    """A step of gradient descent for a loss of parameters and a batch."""

    def step(params: Any, *batch: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, *batch)
        return value, jax.tree.map(lambda p, g: p - rate * g, params, grads)

    return step


def adam(jax: Any, loss: Any, rate: float = 1e-3) -> Any:
    """A step of Adam (Kingma and Ba, 2015); the state is a count and two moments."""
    jnp = jax.numpy

    def step(params: Any, state: Any, *batch: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, *batch)
        count, first, second = state
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        unbias1, unbias2 = 1 / (1 - 0.9**count), 1 / (1 - 0.999**count)
        update = lambda p, m, v: p - rate * (m * unbias1) / (jnp.sqrt(v * unbias2) + 1e-8)
        return value, jax.tree.map(update, params, first, second), (count, first, second)

    return step


def zeros_like(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: zeros_like(child) for key, child in tree.items()}
    return [zeros_like(x) for x in tree] if isinstance(tree, list) else np.zeros_like(tree)


# A perceptron of three layers.


def mlp_arguments(batch: int = 128) -> tuple[Any, ...]:
    make, random = weights(), np.random.default_rng(1)
    sizes = [784, 512, 512, 10]
    params = [{"w": make(a, b), "b": np.zeros(b, np.float32)} for a, b in pairwise(sizes)]
    labels = random.integers(0, 10, batch).astype(np.int32)
    return params, random.standard_normal((batch, 784), np.float32), labels


def mlp_loss(jax: Any) -> Any:
    def loss(params: Any, x: Any, labels: Any) -> Any:
        for layer in params[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        return cross_entropy(jax, x @ params[-1]["w"] + params[-1]["b"], labels)

    return loss


# A language model: embedding, blocks of attention and perceptron, cross-entropy of the next token.


def language_arguments(
    layers: int, batch: int = 8, time: int = 128, width: int = 256, words: int = 512
) -> tuple[Any, ...]:
    make, random = weights(), np.random.default_rng(1)
    ones = lambda: np.ones(width, np.float32)
    blocks = [
        {
            "gain1": ones(),
            "gain2": ones(),
            "qkv": make(width, 3 * width),
            "out": make(width, width),
            "up": make(width, 4 * width),
            "down": make(4 * width, width),
        }
        for _ in range(layers)
    ]
    params = {"embed": make(words, width), "blocks": blocks, "gain": ones()}
    params["where"] = make(time, width)
    params["head"] = make(width, words)
    tokens = random.integers(0, words, (batch, time + 1)).astype(np.int32)
    state = (np.float32(0), zeros_like(params), zeros_like(params))
    return params, state, tokens


def language_loss(jax: Any, head_width: int = 32) -> Any:
    jnp = jax.numpy

    def norm(x: Any, gain: Any) -> Any:
        mean = jnp.mean(x, -1, keepdims=True)
        variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain

    def attention(p: Any, x: Any) -> Any:
        batch, time, width = x.shape
        heads = width // head_width
        parts = jnp.reshape(x @ p["qkv"], (batch, time, 3, heads, head_width))
        query, key, value = parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]
        scores = jnp.einsum("bthd,bshd->bhts", query, key) * head_width**-0.5
        past = jnp.tril(jnp.ones((time, time), bool))
        chance = jax.nn.softmax(jnp.where(past, scores, -1e30), axis=-1)
        mixed = jnp.einsum("bhts,bshd->bthd", chance, value)
        return jnp.reshape(mixed, (batch, time, width)) @ p["out"]

    def loss(params: Any, tokens: Any) -> Any:
        x = params["embed"][tokens[:, :-1]] + params["where"]
        for p in params["blocks"]:
            x = x + attention(p, norm(x, p["gain1"]))
            x = x + jax.nn.gelu(norm(x, p["gain2"]) @ p["up"]) @ p["down"]
        return cross_entropy(jax, norm(x, params["gain"]) @ params["head"], tokens[:, 1:])

    return loss


# Convolutional networks, channels last.


def conv(jax: Any, x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
    return jax.lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def max_pool(jax: Any, x: Any) -> Any:
    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(x, -np.inf, jax.lax.max, window, window, "VALID")


def batch_norm(jax: Any, x: Any, p: Any) -> Any:
    jnp = jax.numpy
    mean = jnp.mean(x, (0, 1, 2))
    variance = jnp.mean(jnp.square(x), (0, 1, 2)) - jnp.square(mean)
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * p["gain"]) + p["shift"]


def residual_block(jax: Any, x: Any, p: Any, stride: int) -> Any:
    y = jax.nn.relu(batch_norm(jax, conv(jax, x, p["conv1"], stride), p["norm1"]))
    y = batch_norm(jax, conv(jax, y, p["conv2"]), p["norm2"])
    short = batch_norm(jax, conv(jax, x, p["short"], stride), p["norm3"]) if "short" in p else x
    return jax.nn.relu(y + short)


def block_parameters(make: Any, before: int, after: int, short: bool) -> dict[str, Any]:
    norm = lambda: {"gain": np.ones(after, np.float32), "shift": np.zeros(after, np.float32)}
    p = {"conv1": make(3, 3, before, after), "conv2": make(3, 3, after, after)}
    p |= {"norm1": norm(), "norm2": norm()}
    return p | ({"short": make(1, 1, before, after), "norm3": norm()} if short else {})


# Strides of the eight blocks of ResNet-18 (He et al., 2015), with the stem for small pictures.
STRIDES = (1, 1, 2, 1, 2, 1, 2, 1)


def resnet_arguments(batch: int = 16) -> tuple[Any, ...]:
    make, random = weights(), np.random.default_rng(1)
    blocks, before = [], 64
    for i, stride in enumerate(STRIDES):
        after = 64 << (i // 2)
        blocks.append(block_parameters(make, before, after, before != after or stride != 1))
        before = after
    norm = {"gain": np.ones(64, np.float32), "shift": np.zeros(64, np.float32)}
    params = {"stem": make(3, 3, 3, 64), "norm": norm, "blocks": blocks, "head": make(512, 10)}
    pictures = random.standard_normal((batch, 32, 32, 3), np.float32)
    return params, pictures, random.integers(0, 10, batch).astype(np.int32)


def resnet_loss(jax: Any) -> Any:
    def loss(params: Any, x: Any, labels: Any) -> Any:
        x = jax.nn.relu(batch_norm(jax, conv(jax, x, params["stem"]), params["norm"]))
        for p, stride in zip(params["blocks"], STRIDES):
            x = residual_block(jax, x, p, stride)
        return cross_entropy(jax, jax.numpy.mean(x, (1, 2)) @ params["head"], labels)

    return loss
