"""A small transformer in plain array code, as a user would write it without a layer library."""

from __future__ import annotations

from typing import Any

import numpy as np


def parameters(jnp: Any, layers: int, width: int, hidden: int) -> list[dict[str, Any]]:
    random = np.random.RandomState(0)

    def weight(*shape: int) -> Any:
        return jnp.asarray((random.randn(*shape) * 0.02).astype(np.float32))

    return [
        {
            "query": weight(width, width),
            "key": weight(width, width),
            "value": weight(width, width),
            "out": weight(width, width),
            "up": weight(width, hidden),
            "down": weight(hidden, width),
            "gain1": weight(width),
            "gain2": weight(width),
        }
        for _ in range(layers)
    ]


def loss_function(jnp: Any, heads: int) -> Any:
    def norm(x: Any, gain: Any) -> Any:
        mean = jnp.mean(x, -1, keepdims=True)
        variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * gain

    def attention(p: Any, x: Any) -> Any:
        batch, time, width = x.shape
        split = lambda z: jnp.reshape(z, (batch, time, heads, width // heads))
        query = split(jnp.matmul(x, p["query"]))
        key = split(jnp.matmul(x, p["key"]))
        value = split(jnp.matmul(x, p["value"]))
        scores = jnp.einsum("bthd,bshd->bhts", query, key) / np.sqrt(width / heads)
        weights = jnp.exp(scores - jnp.max(scores, -1, keepdims=True))
        weights = weights / jnp.sum(weights, -1, keepdims=True)
        mixed = jnp.einsum("bhts,bshd->bthd", weights, value)
        return jnp.matmul(jnp.reshape(mixed, (batch, time, width)), p["out"])

    def loss(params: Any, x: Any) -> Any:
        for p in params:
            x = x + attention(p, norm(x, p["gain1"]))
            x = x + jnp.matmul(jnp.tanh(jnp.matmul(norm(x, p["gain2"]), p["up"])), p["down"])
        return jnp.mean(x**2)

    return loss


def training_step(jax: Any, layers: int) -> tuple[Any, Any, Any]:
    """A step of gradient descent, parameters and a batch for it."""
    gradient = jax.value_and_grad(loss_function(jax.numpy, heads=4))

    def step(params: Any, x: Any) -> Any:
        loss, grads = gradient(params, x)
        return loss, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    return step, parameters(jax.numpy, layers, 64, 128), np.ones((2, 8, 64), np.float32)
