"""Updates of ``weft.optim`` against optax on JAX: whole trees, first calls and small trees."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from bench.rows import Program, Row, same


def _optim(jax: Any) -> Any:
    """The optimisers that go with a library: `weft.optim`, or optax."""
    return importlib.import_module("optax" if jax.__name__ == "jax" else "weft.optim")


def _parameters(width: int, layers: int = 12, words: int = 512) -> Any:
    """The leaves of a transformer, 12 a layer."""
    draw = np.random.default_rng(0).standard_normal

    def array(*shape: int) -> Any:
        return draw(shape).astype(np.float32)

    def layer() -> Any:
        sides = {"qkv": (1, 3), "out": (1, 1), "up": (1, 4), "down": (4, 1)}
        dense = {
            name: {"w": array(rows * width, columns * width), "b": array(columns * width)}
            for name, (rows, columns) in sides.items()
        }
        norms = {name: {"scale": array(width), "bias": array(width)} for name in ("ln1", "ln2")}
        return dense | norms

    return {
        "layers": [layer() for _ in range(layers)],
        "embed": array(words, width),
        "positions": array(128, width),
        "norm": {"scale": array(width), "bias": array(width)},
        "head": array(width, words),
    }


def _step(make: Any, parameters: Any) -> Any:
    """A program that updates parameters with fixed gradients."""

    def setup(jax: Any) -> Program:
        optim = _optim(jax)
        opt = make(optim)
        params = jax.tree.map(jax.numpy.asarray, parameters())
        grads = jax.tree.map(lambda p: 0.1 * p, params)

        def step(grads: Any, state: Any, params: Any) -> Any:
            updates, state = opt.update(grads, state, params)
            return optim.apply_updates(params, updates), state

        return Program(step, (grads, opt.init(params), params), convert=False)

    return setup


def _small() -> Any:
    return {"w": np.ones((4, 4), np.float32), "b": np.ones(4, np.float32)}


def _eager(make: Any) -> Any:
    """The update of a small tree, without jit."""

    def setup(jax: Any) -> Program:
        opt = make(_optim(jax))
        params = jax.tree.map(jax.numpy.asarray, _small())
        return Program(
            opt.update, (params, opt.init(params), params), compiled=False, convert=False
        )

    return setup


ADAMW = lambda optim: optim.adamw(1e-3)
MAKERS = {
    "sgd with momentum": lambda optim: optim.sgd(1e-2, momentum=0.9),
    "adamw": ADAMW,
    "lion": lambda optim: optim.lion(1e-4),
    "adafactor": lambda optim: optim.adafactor(1e-3, min_dim_size_to_factor=32),
    "clipped adamw": lambda optim: optim.chain(optim.clip_by_global_norm(1.0), ADAMW(optim)),
}

ROWS = [
    *(
        Row(
            f"{name}, 149 leaves",
            "update of a 12-layer transformer, width 256",
            same(_step(make, lambda: _parameters(256))),
            unit="ms",
            clock="wall",
            ratio=1.0,
        )
        for name, make in MAKERS.items()
    ),
    *(
        Row(
            f"{name}, 2 leaves",
            "compiled update of a matrix and a vector",
            same(_step(make, _small)),
            unit="us",
            ratio=0.15,
        )
        for name, make in MAKERS.items()
    ),
    Row("eager adamw, 2 leaves", "update without jit", same(_eager(ADAMW)), unit="us", ratio=0.15),
    *(
        Row(
            f"{kind}: adamw, 149 leaves",
            "first call of the update of a 12-layer transformer, width 256",
            same(_step(ADAMW, lambda: _parameters(256))),
            kind=kind,
            unit="ms",
            clock="wall",
            ratio=0.3,
            limit=120.0,
        )
        for kind in ("cold", "warm")
    ),
]
