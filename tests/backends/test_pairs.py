"""Memory read and written in pairs: complex numbers, and every other element of an array."""

import numpy as np
import pytest

import weft
from weft import numpy as jnp
from weft.backends.cpu.target import Cpu

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


@pytest.mark.parametrize("step", [4, 8])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int16", "bfloat16", "bool"])
def test_one_of_several_elements(dtype, step):
    parts = weft.jit(lambda x: tuple(x[i::step] for i in range(step)) + (x[::step][1:],))
    for n in [32, 33, 72, 128, 1000, 4096]:
        x = (np.arange(n) % 101 % 7).astype(jnp.dtype(dtype))
        wanted = [*(x[i::step] for i in range(step)), x[::step][1:]]
        for a, b in zip(parts(x), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)


def test_bytes_that_lie_apart_are_read_once():
    x = np.random.default_rng(1).random(8000) < 0.5
    program = Cpu().assemble(weft.make_jaxpr(jnp.packbits)(x))
    ((made, _),) = program.codes
    text = str(made)
    assert sum("load <" in line for line in text.splitlines()) == 1
    assert "insertelement" not in text
    for some in (x, x[:-3], x.reshape(80, 100), np.arange(100)):
        for order in ("big", "little"):
            got = weft.jit(lambda x, order=order: jnp.packbits(x, bitorder=order))(some)
            np.testing.assert_array_equal(got, np.packbits(some, bitorder=order))


def test_parts_are_read_and_written_together():
    z = numbers(1000, np.complex64)
    program = Cpu().assemble(weft.make_jaxpr(lambda z, w: z * w)(z, z + 1))
    ((made, _),) = program.codes
    text = str(made)
    vectors = [line for line in text.splitlines() if "<" in line]
    # in wide vectors, and in narrow ones for what these leave
    assert sum(" load <" in line for line in vectors) == 2 * 2
    assert sum("store <" in line for line in vectors) == 2
    assert "extractelement" not in text
