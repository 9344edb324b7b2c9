"""Printing is stable: programs against their recorded text in tests/golden.

``python -m tests.laws.test_golden`` writes the records anew. The functions are written against
JAX's names, so that JAX itself can print them too: JAX 0.10.2 prints the same text, but for axes
that its rules for batches count with NumPy and show as ``np.int64(1)``.
"""

from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parent.parent / "golden"
X, M = np.float32([1, 2, 3]), np.zeros((3, 3), np.float32)


def programs(jax):
    """Functions of one array argument or two, and the arguments, for a module like JAX."""
    lax, jnp = jax.lax, jax.numpy

    def scanned(x):
        return lax.scan(lambda c, row: (jnp.sin(c) + row, c * 2.0), x, jnp.ones((4, 3)))

    def branches(x):
        return lax.cond(x[0] > 0, lambda x: lax.sin(x), lambda x: 2.0 * x, x)

    def loop(x):
        return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, lax.cos(c[1])), (0, x))

    def layer(x, w):
        return lax.tanh(lax.dot_general(x, w, (((0,), (0,)), ((), ()))))

    def loss(x, w):
        return lax.reduce_sum_p.bind(layer(x, w), axes=(0,), out_sharding=None)

    @jax.custom_jvp
    def ruled(x):
        return lax.sin(x)

    ruled.defjvps(lambda t, out, x: t * out)
    return {
        "arithmetic": (lambda x: lax.sin(x) * 2.0 + x / 3.0 - x, (X,)),
        "movement": (lambda x: lax.pad(lax.rev(x, (0,)), 0.0, [(1, 2, 0)])[1:], (X,)),
        "scan": (scanned, (X,)),
        "cond": (branches, (X,)),
        "while": (loop, (X,)),
        "jit": (jax.jit(layer), (X, M)),
        "jvp": (lambda x, w: jax.jvp(layer, (x, w), (x, w)), (X, M)),
        "grad": (jax.grad(loss, argnums=1), (X, M)),
        "vmap": (jax.vmap(layer, in_axes=(1, None)), (M, M)),
        "vmap_grad": (jax.vmap(jax.grad(loss), in_axes=(0, None)), (M, M)),
        "custom_jvp": (ruled, (X,)),
        "checkpoint": (jax.grad(jax.checkpoint(lambda x: lax.sin(lax.sin(x)))), (1.0,)),
        "random": (lambda: jax.random.split(jax.random.key(0)), ()),
    }


def render(jax):
    return {name: f"{jax.make_jaxpr(fun)(*args)}\n" for name, (fun, args) in programs(jax).items()}


@pytest.fixture(scope="module")
def texts():
    import weft

    return render(weft)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_text_is_the_recorded_one(path, texts):
    assert texts[path.stem] == path.read_text(encoding="utf-8")


def test_every_program_is_recorded(texts):
    assert sorted(texts) == sorted(p.stem for p in FOLDER.glob("*.txt"))


def write():
    import weft

    for name, text in render(weft).items():
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
