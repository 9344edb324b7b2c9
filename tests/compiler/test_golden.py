"""Plans and kernels as text, against their record in tests/golden/compiled.

``python -m tests.compiler.test_golden`` writes the records anew. The programs are such that what
is printed does not depend on the machine: no operation with an algorithm of its own is in them.
"""

from pathlib import Path

import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.backends.cpu.assembly_text import whole_text
from weft.backends.cpu.target import Cpu
from weft.compiler.watch import Watch

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "compiled"


def spec(*shape):
    return weft.ShapeDtypeStruct(shape, "float32")


def layer_norm(x, scale):
    centred = x - jnp.mean(x, 1, keepdims=True)
    return centred * lax.rsqrt(jnp.mean(centred * centred, 1, keepdims=True) + 1e-5) * scale


def momentum(params, velocity, grads):
    """One step for a tree of two leaves."""
    velocity = weft.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    return weft.tree.map(lambda p, v: p - 0.1 * v, params, velocity), velocity


def joined(x, y):
    return jnp.concatenate([x + 1, y * 2], axis=1)


def loop(a, x):
    return lax.fori_loop(0, 901, lambda i, x: a * x[::-1] + 1, x)


def choice(x):
    return lax.cond(x[0, 0] > 0, lambda x: x + 1, lambda x: x - 1, x)


TREE = {"b": spec(40), "w": spec(30, 40)}
PROGRAMS = {
    "layer_norm": (layer_norm, (spec(64, 1000), spec(1000))),
    "column_sum": (lambda x: jnp.sum(x, 0), (spec(2048, 300),)),
    "total": (lambda x: jnp.sum(x * x), (spec(1 << 20),)),
    "transpose": (lambda x: x.T + 1, (spec(512, 300),)),
    "momentum": (momentum, (TREE, TREE, TREE)),
    "joined": (joined, (spec(300, 200), spec(300, 100))),
    "loop": (loop, (spec(1000, 1000), spec(1000, 1000))),
    "choice": (choice, (spec(20, 30),)),
    "update": (lambda x, y: lax.dynamic_update_slice(x, y, (3, 4)), (spec(50, 60), spec(5, 6))),
}


def text_of(name):
    fun, args = PROGRAMS[name]
    watch = Watch(weft.make_jaxpr(fun)(*args))
    program = Cpu(watch).assemble(watch.closed)
    return whole_text(program, watch) + "\n"


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_text_is_the_recorded_one(name):
    assert text_of(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_every_record_has_a_program():
    assert sorted(PROGRAMS) == sorted(p.stem for p in FOLDER.glob("*.txt"))


def test_text_is_stable():
    """The same program traced again has the same text: no counter or address is in it."""
    assert text_of("layer_norm") == text_of("layer_norm")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        (FOLDER / f"{name}.txt").write_text(text_of(name), encoding="utf-8")
