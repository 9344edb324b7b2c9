"""Functions called with arguments of many shapes: how long a new process takes for all of them.

Ragged batches and growing sequences: twenty shapes, each called once, with nothing compiled on
disk. JAX compiles each of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from bench.rows import Program, Row, same
from bench.suites import models

BATCHES = tuple(range(12, 112, 5))
LENGTHS = tuple(range(10, 70, 3))
# Of JAX's time, for all shapes together.
TARGET = 0.05


def _each(jax: Any, step: Any) -> Any:
    """A function compiled, and called with every one of some batches."""
    compiled = jax.jit(step)

    def run(params: Any, batches: Any) -> Any:
        return [jax.block_until_ready(compiled(params, *batch)) for batch in batches][-1]

    return run


def _draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def mlp(jax: Any) -> Program:
    """Training steps of three layers for twenty sizes of a batch."""
    sizes = (64, 256, 256, 10)
    params = [(_draw(a, b) / a**0.5, _draw(b)) for a, b in pairwise(sizes)]

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        return -jax.numpy.mean(jax.numpy.sum(jax.nn.log_softmax(x @ w + b) * y, -1))

    batches = [(_draw(n, 64), _draw(n, 10)) for n in BATCHES]
    return Program(_each(jax, models.sgd(jax, loss)), (params, batches), compiled=False)


def rnn(jax: Any) -> Program:
    """Gradients of a recurrent network over twenty lengths of a sequence."""
    params = (_draw(32, 64) / 6, _draw(64, 64) / 8)

    def loss(params: Any, xs: Any) -> Any:
        def turn(h: Any, x: Any) -> Any:
            h = jax.numpy.tanh(x @ params[0] + h @ params[1])
            return h, h.sum()

        return jax.lax.scan(turn, jax.numpy.zeros((8, 64)), xs)[1].mean()

    batches = [(_draw(n, 8, 32),) for n in LENGTHS]
    return Program(_each(jax, jax.grad(loss)), (params, batches), compiled=False)


def transformer(jax: Any) -> Program:
    """Training steps of two layers of a transformer for twenty lengths of a sequence."""
    params, _, tokens = models.language_arguments(2, batch=2, width=128)
    loss = models.language_loss(jax)

    def shorter(params: Any, tokens: Any) -> Any:
        where = params["where"][: tokens.shape[1] - 1]
        return loss({**params, "where": where}, tokens)

    step = models.sgd(jax, shorter)
    batches = [(np.ascontiguousarray(tokens[:, :n]),) for n in LENGTHS]
    return Program(_each(jax, step), (params, batches), compiled=False)


def _row(name: str, about: str, setup: Any) -> Row:
    return Row(
        name, about, same(setup), kind="cold", unit="ms", clock="wall", ratio=TARGET, limit=180.0
    )


ROWS = [
    _row("MLP, 20 batches", "training step, 64-256-256-10", mlp),
    _row("RNN, 20 lengths", "gradient of a scan, width 64, batch 8", rnn),
    _row("transformer, 20 lengths", "training step, 2 layers, width 128, batch 2", transformer),
]
