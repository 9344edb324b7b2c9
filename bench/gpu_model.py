"""A training step of a transformer in plain array code, for a GPU: 12 layers of 1,024, bfloat16."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import weft
from weft import lax, nn
from weft import numpy as jnp
from weft.backends.cuda import driver
from weft.backends.cuda.program import Cuda, get, put

LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORDS = 12, 1024, 16, 1024, 8, 50304


def norm(x: Any, gain: Any) -> Any:
    x = x.astype(jnp.float32)
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return ((x - mean) * lax.rsqrt(variance + 1e-5) * gain).astype(jnp.bfloat16)


def layer(x: Any, p: Any) -> Any:
    narrow = lambda w: w.astype(jnp.bfloat16)
    heads = lambda z: z.reshape(*z.shape[:2], HEADS, -1)
    q, k, v = map(heads, jnp.split(norm(x, p["first"]) @ narrow(p["qkv"]), 3, -1))
    seen = nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
    x = x + seen @ narrow(p["out"])
    return x + nn.gelu(norm(x, p["second"]) @ narrow(p["up"])) @ narrow(p["down"])


def loss(params: Any, tokens: Any, targets: Any) -> Any:
    words = params["words"].astype(jnp.bfloat16)
    x = words[tokens] + params["places"].astype(jnp.bfloat16)[None]
    for p in params["layers"]:
        x = layer(x, p)
    logits = (norm(x, params["last"]) @ words.T).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (nn.logsumexp(logits, -1) - picked).mean()


def step(params: Any, m: Any, v: Any, tokens: Any, targets: Any) -> Any:
    """The loss, and parameters and moments after one step of Adam."""
    value, grads = weft.value_and_grad(loss)(params, tokens, targets)
    m = weft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = weft.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, v, grads)
    change = lambda p, m, v: p - 1e-4 * m / (jnp.sqrt(v) + 1e-8)
    return value, weft.tree.map(change, params, m, v), m, v


def parameters(rng: np.random.Generator) -> Any:
    draw = lambda *shape: 0.02 * rng.standard_normal(shape, dtype=np.float32)
    ones = lambda: np.ones(WIDTH, np.float32)
    wide = 4 * WIDTH
    layers = [
        {
            "first": ones(),
            "second": ones(),
            "qkv": draw(WIDTH, 3 * WIDTH),
            "out": draw(WIDTH, WIDTH),
            "up": draw(WIDTH, wide),
            "down": draw(wide, WIDTH),
        }
        for _ in range(LAYERS)
    ]
    words, places = draw(WORDS, WIDTH), draw(LENGTH, WIDTH)
    return {"words": words, "places": places, "last": ones(), "layers": layers}


def training_step(rounds: int = 12) -> str:
    """Time of a step, and of compiling it, as text."""
    rng = np.random.default_rng(0)
    params = parameters(rng)
    zeros = weft.tree.map(np.zeros_like, params)
    tokens = rng.integers(0, WORDS, (BATCH, LENGTH)).astype(np.int32)
    args = (params, zeros, zeros, tokens, np.roll(tokens, -1, 1))
    begin = time.perf_counter()
    closed = weft.make_jaxpr(step)(*args)
    run = Cuda().compile(closed)
    compiled = time.perf_counter() - begin
    held = [put(np.asarray(x)) for x in weft.tree.leaves(args)]
    changed = len(held) - 2
    timer, best, last = driver.Timer(), float("inf"), 0.0
    for _ in range(rounds):
        timer.start()
        made = run.run_on_device(held)
        best = min(best, timer.stop())
        last = float(get(made[0], closed.out_avals[0]))
        held = [*made[1 : 1 + changed], *held[changed:]]
    name = f"training step, {LAYERS} x {WIDTH}, {BATCH} x {LENGTH}"
    return (
        f"{name:50}{best:10.2f} ms  (loss {last:.2f} after {rounds}, compiled in {compiled:.1f} s)"
    )
