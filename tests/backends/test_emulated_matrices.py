"""Products by registers of whole matrices, whose instructions are emulated: on any processor."""

import ctypes

import numpy as np
import pytest

from tests.backends.modules import module
from tests.backends.tasks import run_tasks
from weft import numpy as jnp
from weft.backends.cpu.routines.products import dot, product
from weft.kernel.program import Type

I8, I64, POINTER = ctypes.c_int8, ctypes.c_int64, ctypes.c_void_p


class Registers:
    """Eight registers of sixteen rows of 64 bytes, and what instructions do to them."""

    def __init__(self):
        self.tiles = np.zeros((8, 16, 64), np.uint8)
        instructions = {
            "ldtilecfg": (lambda shapes: None, [POINTER]),
            "tilerelease": (lambda: None, []),
            "tilezero": (self.zero, [I8]),
            "tileloadd64": (self.load, [I8, POINTER, I64]),
            "tilestored64": (self.store, [I8, POINTER, I64]),
            "tdpbf16ps": (self.multiply, [I8, I8, I8]),
        }
        self.kept = {
            name: ctypes.CFUNCTYPE(None, *types)(function)
            for name, (function, types) in instructions.items()
        }

    def zero(self, i):
        self.tiles[i] = 0

    def load(self, i, at, stride):
        for row in range(16):
            self.tiles[i, row] = list(ctypes.string_at(at + row * stride, 64))

    def store(self, i, at, stride):
        for row in range(16):
            ctypes.memmove(at + row * stride, self.tiles[i, row].tobytes(), 64)

    def multiply(self, to, a, b):
        left, right = (
            self.tiles[i].reshape(-1).view(jnp.bfloat16).astype(np.float64) for i in (a, b)
        )
        left, right = left.reshape(16, 16, 2), right.reshape(16, 16, 2)
        total = np.einsum("mkp,knp->mn", left, right)
        total += self.tiles[to].reshape(-1).view(np.float32).reshape(16, 16)
        self.tiles[to] = total.astype(np.float32).view(np.uint8).reshape(16, 64)

    def module(self, made):
        """A module that calls functions instead of instructions."""
        text = str(made)
        lines = [
            line for line in text.splitlines() if not line.startswith("declare void @llvm.x86")
        ]
        text = "\n".join([*lines, ""])
        for name, function in self.kept.items():
            address = ctypes.cast(function, POINTER).value
            text = text.replace(f"@llvm.x86.{name}(", f"inttoptr (i64 {address} to ptr)(")
        return module(text)


LAYOUTS = {
    "plain": ("mk", "kn"),
    "left": ("km", "kn"),
    "right": ("mk", "nk"),
    "both": ("km", "nk"),
    "outer": ("bmk", "bkn"),
    "shared": ("bmk", "kn"),
    "apart": ("mbk", "bnk"),
}


def check(layout, out, sizes, monkeypatch):
    """The tasks of a product, whose results are those of the reference."""
    monkeypatch.setattr(product, "has_matrices", lambda: True)
    left, right = LAYOUTS[layout]
    rng = np.random.default_rng(3)
    a, b = (
        rng.normal(size=[sizes[axis] for axis in axes]).astype(jnp.bfloat16)
        for axes in (left, right)
    )
    outer = [axis for axis in left if axis in right and axis != "k"]
    numbers = (
        ((left.index("k"),), (right.index("k"),)),
        tuple(tuple(side.index(axis) for axis in outer) for side in (left, right)),
    )
    free = [axis for side in (left, right) for axis in side if axis not in (*outer, "k")]
    want = np.einsum(
        f"{left},{right}->{''.join([*outer, *free])}",
        *(x.astype(np.float64) for x in (a, b)),
    )
    types = [Type(x.shape, x.dtype) for x in (a, b)]
    result = Type(want.shape, np.dtype(out))
    params = {"dimension_numbers": numbers, "precision": None}
    lowered = dot.lower_dot(types, [result], params)
    registers = Registers()
    tasks = [t._replace(module=registers.module(t.module)) for t in lowered.tasks]
    whole = [t._replace(chunk=max(1, t.extent)) for t in tasks]
    (got,) = run_tasks(lowered._replace(tasks=whole), [a, b], [result])
    scale = (1e-5 if out == jnp.float32 else 2.0**-7) * max(1, sizes["k"] / 64) ** 0.5
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=scale, atol=10 * scale)
    return tasks


@pytest.mark.parametrize("out", [jnp.bfloat16, jnp.float32])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products(layout, out, monkeypatch):
    for sizes in ({"b": 2, "m": 33, "n": 70, "k": 35}, {"b": 3, "m": 17, "n": 48, "k": 64}):
        tasks = check(layout, out, sizes, monkeypatch)
        assert len(tasks) == 3 and "inttoptr" in str(tasks[-1].module)
        if layout == "plain":  # nothing is transposed: a loop copies the rows of a tile
            assert [str(t.module).count("@llvm.masked.load") for t in tasks] == [2, 3, 0]


@pytest.mark.parametrize("layout", ["plain", "both"])
def test_parts_of_a_long_sum(layout, monkeypatch):
    for out in (jnp.bfloat16, jnp.float32):
        tasks = check(layout, out, {"m": 17, "n": 48, "k": 1 << 13}, monkeypatch)
        assert "inttoptr" in str(tasks[-2].module) and tasks[-1].name == "add"
