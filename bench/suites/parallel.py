"""Several devices in one process: data-parallel steps, sums over devices, dispatch, first calls.

Both libraries show the processor as several devices. "alone" is weft on one device, whose step all
threads share.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from bench.rows import Program, Row, same
from bench.suites import transformer

MLP_WIDTHS = (784, 1024, 1024, 10)


def _mesh(jax: Any, count: int) -> Any:
    return jax.sharding.Mesh(np.array(jax.devices()[:count]), ("x",))


def _mlp(jax: Any) -> tuple[Any, Any, Any]:
    """A step of gradient descent, parameters and a batch for it."""
    jnp, random = jax.numpy, np.random.RandomState(0)
    params = [
        (random.randn(m, n).astype(np.float32) * 0.03, np.zeros(n, np.float32))
        for m, n in itertools.pairwise(MLP_WIDTHS)
    ]
    batch = random.randn(256, MLP_WIDTHS[0]).astype(np.float32)

    def loss(params: Any, x: Any) -> Any:
        for w, b in params:
            x = jnp.tanh(x @ w + b)
        return (x**2).mean()

    def step(params: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    return step, params, batch


def _transformer(jax: Any, layers: int = 2) -> tuple[Any, Any, Any]:
    gradient = jax.value_and_grad(transformer.loss_function(jax.numpy, heads=4))

    def step(params: Any, x: Any) -> Any:
        loss, grads = gradient(params, x)
        return loss, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    params = transformer.parameters(jax.numpy, layers, 256, 1024)
    return step, params, np.random.RandomState(1).randn(8, 64, 256).astype(np.float32)


def _data_parallel(model: Any, count: int) -> Any:
    """The step with its batch divided over devices and parameters on all of them."""

    def setup(jax: Any) -> Program:
        step, params, batch = model(jax)
        if count == 1:
            return Program(step, (jax.tree.map(jax.numpy.asarray, params), batch), convert=True)
        mesh = _mesh(jax, count)
        place = lambda *spec: jax.NamedSharding(mesh, jax.P(*spec))
        args = jax.device_put(params, place()), jax.device_put(batch, place("x"))
        return Program(step, args, convert=False)

    return setup


def _psum(count: int, size: int) -> Any:
    def setup(jax: Any) -> Program:
        mesh = _mesh(jax, count)
        summed = jax.shard_map(
            lambda x: jax.lax.psum(x, "x"),
            mesh=mesh,
            in_specs=jax.P("x"),
            out_specs=jax.P(),
        )
        x = np.random.RandomState(0).randn(count * size).astype(np.float32)
        placed = jax.device_put(x, jax.NamedSharding(mesh, jax.P("x")))
        return Program(summed, (placed,), convert=False)

    return setup


def _increment(jax: Any) -> Program:
    mapped = jax.pmap(lambda x: x + 1)
    return Program(mapped, (mapped(np.zeros((8, 4), np.float32)),), compiled=False, convert=False)


def _pmapped_step(jax: Any) -> Program:
    step, params, x = transformer.training_step(jax, 12)
    params = jax.tree.map(np.asarray, params)

    def each(params: Any, x: Any) -> Any:
        loss, new = step(params, x)
        return jax.lax.pmean((loss, new), "x")

    mapped = jax.pmap(each, axis_name="x", in_axes=(None, 0))
    return Program(mapped, (params, np.stack([x, x])), compiled=False, convert=False)


MODELS = {"MLP": _mlp, "transformer of 2": _transformer}
SIZES = {"64 kB": 1 << 14, "16 MB": 1 << 22}

ROWS = [
    *(
        Row(
            f"data-parallel step: {name}",
            "batch divided over 2 devices, jit",
            same(_data_parallel(model, 2)),
            unit="ms",
            clock="wall",
            ratio=0.7,
            limit=60.0,
            devices=2,
            tolerance=1e-3,
        )
        for name, model in MODELS.items()
    ),
    *(
        Row(
            f"against one device: {name}",
            "batch divided over 2 devices, against one device with all threads",
            {"weft": _data_parallel(model, 2), "alone": _data_parallel(model, 1)},
            unit="ms",
            clock="wall",
            ratio=1.05,
            limit=60.0,
            devices=2,
            tolerance=1e-3,
        )
        for name, model in MODELS.items()
    ),
    *(
        Row(
            f"psum: {size}, {count} devices",
            f"{size} a device, shard_map, result on all",
            same(_psum(count, elements)),
            clock="wall",
            ratio=0.5,
            limit=60.0,
            devices=count,
            tolerance=1e-5,
        )
        for count in (2, 4, 8)
        for size, elements in SIZES.items()
    ),
    Row(
        "dispatch: pmap of x + 1, 8 devices",
        "4 numbers a device",
        same(_increment),
        clock="wall",
        budget=10.0,
        ratio=0.1,
        limit=60.0,
        devices=8,
    ),
    Row(
        "first call: pmap of a step of 12 layers, 2 devices",
        "nothing in a cache",
        same(_pmapped_step),
        kind="cold",
        unit="s",
        clock="wall",
        ratio=0.2,
        limit=300.0,
        devices=2,
    ),
]
