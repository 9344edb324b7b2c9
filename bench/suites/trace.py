"""What Python costs before anything is compiled: tracing, differentiating, trees, importing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from bench.rows import Row, same
from bench.suites import transformer

REPEATED = 1250  # of four operations: 5,000 equations


def _lax_chain(jax: Any) -> Any:
    lax = jax.lax

    def chain(x: Any) -> Any:
        for _ in range(REPEATED):
            x = lax.neg(lax.add(lax.sin(lax.mul(x, x)), x))
        return x

    x = np.ones((3, 4), np.float32)
    return lambda: jax.make_jaxpr(lambda v: chain(v))(x)


def _numpy_chain(jax: Any) -> Any:
    jnp = jax.numpy

    def chain(x: Any) -> Any:
        for _ in range(REPEATED):
            x = jnp.negative(jnp.add(jnp.sin(jnp.multiply(x, x)), x))
        return x

    x = np.ones((3, 4), np.float32)
    return lambda: jax.make_jaxpr(lambda v: chain(v))(x)


def _operators(jax: Any) -> Any:
    jnp = jax.numpy

    def chain(x: Any) -> Any:
        for _ in range(REPEATED):
            x = -(jnp.sin(x * 2.0) + x)
        return x

    x = np.ones((3, 4), np.float32)
    return lambda: jax.make_jaxpr(lambda v: chain(v))(x)


# Functions that do more than bind one primitive: reductions, indexing, products, broadcasting.
MIXED = 12


def _mixed(jax: Any) -> Any:
    jnp = jax.numpy

    def some(x: Any) -> Any:
        for _ in range(50):
            y = jnp.matmul(x, jnp.transpose(x))
            y = jnp.where(y > 0, y, 0.1 * y)
            y = jnp.sum(y, axis=-1, keepdims=True)
            x = jnp.concatenate([x[:2], x[2:]]) + jnp.reshape(jnp.exp(y), (4, 1))
        return x

    x = np.ones((4, 4), np.float32)
    return lambda: jax.make_jaxpr(lambda v: some(v))(x)


def _grad(jax: Any) -> Any:
    step, params, batch = transformer.training_step(jax, layers=12)
    return lambda: jax.make_jaxpr(lambda p, b: step(p, b))(params, batch)


def _vmap(jax: Any) -> Any:
    step, params, batch = transformer.training_step(jax, layers=12)
    batches = np.ones((3, *batch.shape), np.float32)
    mapped = jax.vmap(step, in_axes=(None, 0))
    return lambda: jax.make_jaxpr(lambda p, b: mapped(p, b))(params, batches)


def _new_shapes(jax: Any) -> Any:
    """Operations outside of compiled functions on arrays of shapes that never came before."""
    jnp, size = jax.numpy, itertools.count(10)

    def some() -> None:
        for _ in range(5):
            x = jnp.asarray(np.ones(next(size), np.float32))
            (jnp.tanh(x) + x[1:].sum() * jnp.mean(x)).block_until_ready()

    return some


def _tree() -> dict[str, Any]:
    return {f"layer{i}": {"w": i, "b": float(i)} for i in range(50)}


def _flatten(jax: Any) -> Any:
    tree, flatten = _tree(), jax.tree.flatten

    def many() -> None:
        for _ in range(200):
            flatten(tree)

    return many


def _unflatten(jax: Any) -> Any:
    leaves, structure = jax.tree.flatten(_tree())
    unflatten = jax.tree.unflatten

    def many() -> None:
        for _ in range(200):
            unflatten(structure, leaves)

    return many


def _flat_dict(jax: Any) -> Any:
    tree, flatten = {f"k{i}": i for i in range(100)}, jax.tree.flatten

    def many() -> None:
        for _ in range(200):
            flatten(tree)

    return many


ROWS = [
    Row(
        "lax primitive",
        "tracing one of 5,000 lax operations",
        same(_lax_chain),
        per=4 * REPEATED,
        budget=10,
    ),
    Row(
        "jnp function",
        "tracing one of 5,000 elementwise jnp functions",
        same(_numpy_chain),
        per=4 * REPEATED,
        budget=30,
    ),
    Row(
        "operator",
        "tracing one of 5,000 operators and functions",
        same(_operators),
        per=4 * REPEATED,
        budget=30,
    ),
    Row(
        "jnp mixed",
        "tracing one of 600 products, reductions, selections, slices, ...",
        same(_mixed),
        per=50 * MIXED,
        budget=30,
    ),
    Row(
        "transformer grad",
        "trace + grad of a step of 12 layers",
        same(_grad),
        unit="ms",
        ratio=0.4,
    ),
    Row(
        "transformer vmap grad",
        "the same step, mapped over a batch of batches",
        same(_vmap),
        unit="ms",
        ratio=0.4,
    ),
    Row(
        "eager, new shapes",
        "tanh, a slice, a sum, a mean, a product and a sum on arrays of a new size",
        same(_new_shapes),
        per=5,
        unit="ms",
        ratio=0.4,
    ),
    Row(
        "flatten flat dict",
        "tree.flatten of a dict of 100 leaves",
        same(_flat_dict),
        per=200,
        budget=26,
        ratio=1.0,
    ),
    Row(
        "flatten nested dict",
        "tree.flatten of 50 dicts of 2 leaves",
        same(_flatten),
        per=200,
        ratio=1.0,
    ),
    Row(
        "unflatten nested dict",
        "tree.unflatten of 50 dicts of 2 leaves",
        same(_unflatten),
        per=200,
        ratio=1.0,
    ),
    Row(
        "import",
        "a new process that imports the library and ends",
        {
            "weft": "import weft, weft.numpy",
            "jax": "import jax, jax.numpy",
            "numpy": "import numpy",
        },
        kind="process",
        unit="ms",
        budget=100,
        beyond="numpy",
    ),
]
