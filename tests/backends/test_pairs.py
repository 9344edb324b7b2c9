"""Memory read and written in pairs: complex numbers, and every other element of an array."""

import numpy as np
import pytest

import weft
from weft import numpy as jnp
from weft.compiler.plan import Planner
from weft.runtime.target import Cpu

SIZES = [1, 2, 15, 16, 33, 64, 129, 1000, 4097]


def numbers(n, dtype):
    rng = np.random.default_rng(n)
    return (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_of_every_length(dtype):
    with weft.enable_x64(dtype == "complex128"):
        product = weft.jit(lambda z, w: (z * w, z.real, w.imag, jnp.conj(z)))
        for n in SIZES:
            z, w = numbers(n, dtype), numbers(n + 1, dtype)[1:]
            got = product(z, w)
            np.testing.assert_allclose(got[0], z * w, 1e-5)
            for a, b in zip(got[1:], (z.real, w.imag, z.conj()), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bfloat16", "bool"])
def test_every_other_element(dtype):
    with weft.enable_x64(dtype == "float64"):
        halves = weft.jit(lambda x: (x[::2], x[1::2]))
        for n in SIZES:
            x = (np.arange(n) % 100).astype(jnp.dtype(dtype))
            for a, b in zip(halves(x), (x[::2], x[1::2]), strict=True):
                np.testing.assert_array_equal(np.asarray(a), b)


def test_parts_are_read_and_written_together():
    z = numbers(1000, np.complex64)
    program = Planner(Cpu()).program(weft.make_jaxpr(lambda z, w: z * w)(z, z + 1))
    ((text, _),) = program.codes
    vectors = [line for line in text.splitlines() if "<" in line]
    assert sum(" load <" in line for line in vectors) == 2
    assert sum("store <" in line for line in vectors) == 1
    assert "extractelement" not in text
