"""Networks of the GPU's rows in plain array code, the same for weft and JAX: a transformer's
training step and its decoding, a residual network's training step, a small network's step."""

from __future__ import annotations

from typing import Any

import numpy as np

LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORDS = 12, 1024, 16, 1024, 8, 50304


def draw(*shape: int, scale: float = 0.02) -> np.ndarray:
    """Normal numbers; long arrays repeat the same million of them."""
    some = np.random.default_rng(0).standard_normal(1 << 20, dtype=np.float32)
    return np.float32(scale) * np.resize(some, shape)


# --- transformer ----------------------------------------------------------------------------------


def norm(m: Any, x: Any, gain: Any) -> Any:
    x = x.astype(np.float32)
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return ((x - mean) * m.lax.rsqrt(variance + 1e-5) * gain).astype(m.numpy.bfloat16)


def layer(m: Any, x: Any, p: Any, attend: Any) -> Any:
    narrow = lambda w: w.astype(m.numpy.bfloat16)
    heads = lambda z: z.reshape(*z.shape[:-1], HEADS, -1)
    joined = norm(m, x, p["first"]) @ narrow(p["qkv"])
    q, k, v = map(heads, m.numpy.split(joined, 3, -1))
    x = x + attend(q, k, v).reshape(x.shape) @ narrow(p["out"])
    return x + m.nn.gelu(norm(m, x, p["second"]) @ narrow(p["up"])) @ narrow(p["down"])


def loss(m: Any, params: Any, tokens: Any, targets: Any, **attention: Any) -> Any:
    attend = lambda *qkv: m.nn.dot_product_attention(*qkv, is_causal=True, **attention)
    words = params["words"].astype(m.numpy.bfloat16)
    x = words[tokens] + params["places"].astype(m.numpy.bfloat16)[None]
    for p in params["layers"]:
        x = layer(m, x, p, attend)
    logits = (norm(m, x, params["last"]) @ words.T).astype(np.float32)
    picked = m.numpy.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (m.nn.logsumexp(logits, -1) - picked).mean()


def training(m: Any, **attention: Any) -> Any:
    """The loss, and parameters and moments after one step of Adam."""

    def step(params: Any, first: Any, second: Any, tokens: Any, targets: Any) -> Any:
        found = lambda p: loss(m, p, tokens, targets, **attention)
        value, grads = m.value_and_grad(found)(params)
        each = m.tree.map
        first = each(lambda a, g: 0.9 * a + 0.1 * g, first, grads)
        second = each(lambda b, g: 0.95 * b + 0.05 * g * g, second, grads)
        change = lambda p, a, b: p - 1e-4 * a / (m.numpy.sqrt(b) + 1e-8)
        return value, each(change, params, first, second), first, second

    return step


def parameters() -> Any:
    ones = lambda: np.ones(WIDTH, np.float32)
    layers = [
        {
            "first": ones(),
            "second": ones(),
            "qkv": draw(WIDTH, 3 * WIDTH),
            "out": draw(WIDTH, WIDTH),
            "up": draw(WIDTH, 4 * WIDTH),
            "down": draw(4 * WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ]
    words, places = draw(WORDS, WIDTH), draw(LENGTH, WIDTH)
    return {"words": words, "places": places, "last": ones(), "layers": layers}


def mapped(function: Any, tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: mapped(function, v) for k, v in tree.items()}
    return [mapped(function, v) for v in tree] if isinstance(tree, list) else function(tree)


def texts() -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng(0).integers(0, WORDS, (BATCH, LENGTH)).astype(np.int32)
    return tokens, np.roll(tokens, -1, 1)


def training_arguments() -> tuple[Any, ...]:
    params = parameters()
    zeros = mapped(np.zeros_like, params)
    return params, zeros, zeros, *texts()


# --- decoding -------------------------------------------------------------------------------------

TOKENS = 32


def decoding(m: Any) -> Any:
    """So many tokens one after the other, each the likeliest; keys and values are kept."""

    def attend(cache: Any, at: Any, q: Any, k: Any, v: Any) -> Any:
        keys, values = cache
        keys = m.lax.dynamic_update_slice(keys, k[None], (at, 0, 0))
        values = m.lax.dynamic_update_slice(values, v[None], (at, 0, 0))
        scores = m.numpy.einsum("hd,thd->ht", q, keys).astype(np.float32) / 8
        scores = m.numpy.where(m.numpy.arange(LENGTH) <= at, scores, -1e30)
        weights = m.nn.softmax(scores, -1).astype(q.dtype)
        return (keys, values), m.numpy.einsum("ht,thd->hd", weights, values)

    def token(params: Any, carry: Any, _: Any) -> Any:
        caches, at, word = carry
        x = params["words"][word] + params["places"][at]
        kept = []
        for p, cache in zip(params["layers"], caches, strict=True):

            def looked(q: Any, k: Any, v: Any, cache: Any = cache) -> Any:
                cache, found = attend(cache, at, q, k, v)
                kept.append(cache)
                return found

            x = layer(m, x, p, looked)
        logits = norm(m, x, params["last"]) @ params["words"].T
        word = m.numpy.argmax(logits).astype(np.int32)
        return (kept, at + 1, word), word

    def generate(params: Any, caches: Any, at: Any, word: Any) -> Any:
        step = lambda carry, x: token(params, carry, x)
        (caches, _, _), words = m.lax.scan(step, (caches, at, word), None, TOKENS)
        return words, caches

    return generate


def decoding_arguments() -> tuple[Any, ...]:
    shape = (LENGTH, HEADS, WIDTH // HEADS)
    caches = [(np.zeros(shape, np.float32), np.zeros(shape, np.float32)) for _ in range(LAYERS)]
    return parameters(), caches, np.int32(100), np.int32(1)


# --- residual network -----------------------------------------------------------------------------

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
IMAGES, SIDE, CLASSES = 128, 224, 1000


def blocks() -> list[tuple[int, int, int, int]]:
    """Channels in, inside and out, and the stride, of each block of ResNet-50."""
    found, inside = [], 64
    for stage, (count, width) in enumerate(STAGES):
        for i in range(count):
            found.append((inside, width, 4 * width, 2 if stage and not i else 1))
            inside = 4 * width
    return found


def images_parameters() -> Any:
    def unit(*shape: int) -> Any:
        scale = (2 / np.prod(shape[:-1])) ** 0.5
        ones, zeros = np.ones(shape[-1], np.float32), np.zeros(shape[-1], np.float32)
        return {"filter": draw(*shape, scale=scale), "scale": ones, "shift": zeros}

    layers = []
    for before, width, after, _ in blocks():
        units = [unit(1, 1, before, width), unit(3, 3, width, width), unit(1, 1, width, after)]
        if before != after:
            units.append(unit(1, 1, before, after))
        layers.append(units)
    return {"first": unit(7, 7, 3, 64), "layers": layers, "last": draw(2048, CLASSES)}


def images_step(m: Any) -> Any:
    """The loss, and parameters and their moments after a step of gradient descent."""
    narrow = lambda x: x.astype(m.numpy.bfloat16)

    def unit(x: Any, p: Any, stride: int = 1) -> Any:
        order = ("NHWC", "HWIO", "NHWC")
        x = m.lax.conv_general_dilated(
            x, narrow(p["filter"]), (stride, stride), "SAME", dimension_numbers=order
        )
        wide = x.astype(np.float32)
        mean = wide.mean((0, 1, 2))
        variance = (wide * wide).mean((0, 1, 2)) - mean * mean
        factor = m.lax.rsqrt(variance + 1e-5) * p["scale"]
        return narrow((wide - mean) * factor + p["shift"])

    def value(params: Any, images: Any, labels: Any) -> Any:
        x = m.nn.relu(unit(narrow(images), params["first"], 2))
        x = m.lax.reduce_window(x, -np.inf, m.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for units, (_, _, _, stride) in zip(params["layers"], blocks(), strict=True):
            y = m.nn.relu(unit(x, units[0]))
            y = m.nn.relu(unit(y, units[1], stride))
            y = unit(y, units[2])
            x = m.nn.relu(y + (unit(x, units[3], stride) if len(units) > 3 else x))
        pooled = narrow(x.astype(np.float32).mean((1, 2)))
        logits = (pooled @ narrow(params["last"])).astype(np.float32)
        picked = m.numpy.take_along_axis(logits, labels[:, None], -1)[:, 0]
        return (m.nn.logsumexp(logits, -1) - picked).mean()

    def step(params: Any, moments: Any, images: Any, labels: Any) -> Any:
        found, grads = m.value_and_grad(value)(params, images, labels)
        moments = m.tree.map(lambda a, g: 0.9 * a + g, moments, grads)
        return found, m.tree.map(lambda p, a: p - 0.01 * a, params, moments), moments

    return step


def images_arguments() -> tuple[Any, ...]:
    params = images_parameters()
    zeros = mapped(np.zeros_like, params)
    labels = np.random.default_rng(0).integers(0, CLASSES, IMAGES).astype(np.int32)
    return params, zeros, draw(IMAGES, SIDE, SIDE, 3, scale=1.0), labels


# --- small network --------------------------------------------------------------------------------


def network_step(m: Any) -> Any:
    def step(w1: Any, w2: Any, x: Any, y: Any) -> Any:
        def value(w1: Any, w2: Any) -> Any:
            return m.numpy.mean((m.numpy.tanh(x @ w1) @ w2 - y) ** 2)

        g1, g2 = m.grad(value, (0, 1))(w1, w2)
        return w1 - 0.1 * g1, w2 - 0.1 * g2

    return step


def network_arguments() -> tuple[Any, ...]:
    return draw(784, 512), draw(512, 10), draw(128, 784, scale=1.0), draw(128, 10, scale=1.0)
