"""Products of complex numbers by code for all shapes: against NumPy, and none compiled for new."""

import numpy as np
import pytest

import weft
from tests.backends.tasks import run_tasks
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.calls import native
from weft.backends.cpu.routines.products import complex_products
from weft.backends.llvm.native import processor
from weft.base import knobs
from weft.kernel.program import Type

KINDS = [np.complex64, np.complex128]
# rows of fewer numbers than vectors hold, and of several pieces; few columns, many; several axes
CASES = [((n,), (0,)) for n in (1, 2, 5, 63, 64, 65, 200, 4096, 4097, 9000)]
CASES += [((n, columns), (0,)) for n in (1, 3, 15, 16, 40, 4500) for columns in (2, 7, 16, 33)]
CASES += [((5, 33), (1,)), ((2, 3, 4, 5), (0, 2)), ((2, 3, 4, 5), (1, 3)), ((7, 6), (1, 0))]
CASES += [((2, 70, 4, 5), (1, 2)), ((1, 5, 1), (0, 2)), ((2, 1, 3), (1,)), ((3, 4), ())]


def draw(shape, dtype):
    """Numbers near the circle, so that long products stay in range."""
    rng = np.random.default_rng(sum(shape))
    radius = 1 + rng.normal(size=shape) / (10 * np.sqrt(max(1, np.prod(shape))))
    return (radius * np.exp(2j * np.pi * rng.uniform(size=shape))).astype(dtype)


def check(x, axes):
    want = np.prod(x.astype(np.complex128), axis=axes)
    out = Type(want.shape, x.dtype)
    lowered = complex_products.lower([Type(x.shape, x.dtype)], [out], {"axes": axes})
    (got,) = run_tasks(lowered, [x], [out])
    bound = 4 * np.finfo(x.dtype).eps * np.sqrt(x.size)
    assert np.abs(got - want).max() <= bound * np.abs(want).max(), (x.shape, axes)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_products(bits, dtype, monkeypatch):
    monkeypatch.setattr(processor, "vector_bits", lambda: bits)
    for shape, axes in CASES:
        check(draw(shape, dtype), axes)


def test_what_is_not_multiplied_stays():
    for x in ([np.inf + 0j], [complex(-0.0, 0.0)], [complex(np.nan, 1)]):
        for shape in ((1,), (1, 40), (1, 3)):
            given = np.broadcast_to(np.array(x, np.complex64), shape)
            assert np.asarray(jnp.prod(given, 0)).tobytes() == given[0].tobytes()


def test_numbers_that_are_not_finite_are_told():
    x = draw((300,), np.complex64)
    x[200] = np.nan
    assert np.isnan(jnp.prod(x))
    x[200] = 0
    assert jnp.prod(x) == 0


def test_no_numbers_give_one():
    assert np.all(np.asarray(jnp.prod(np.ones((0, 3), np.complex64), 0)) == 1)
    assert jnp.prod(np.ones((3, 0), np.complex64), 0).shape == (0,)


def test_new_shapes_compile_nothing(texts):
    shapes = [((9,), (0,)), ((40, 5), (0,)), ((12, 40), (1,)), ((3, 4, 50), (0, 2))]
    for shape, axes in shapes:
        lax.reduce_prod(draw(shape, np.complex64), axes)
    texts.clear()
    new = [(n,) for n in (10, 13, 31, 64, 500, 5000, 20001, 150000)]
    cases = [(shape, (0,)) for shape in new]
    cases += [((70, 31), (0,)), ((71, 3), (0,)), ((60000, 3), (0,)), ((50, 41), (1,))]
    cases += [((5, 6, 70), (0, 2)), ((9, 5, 7), (0, 2))]
    for shape, axes in cases:
        x = draw(shape, np.complex64)
        got = np.asarray(lax.reduce_prod(x, axes))
        want = np.prod(x.astype(np.complex128), axis=axes)
        assert np.abs(got - want).max() <= 1e-6 * np.sqrt(x.size) * np.abs(want).max()
        assert texts == [], (shape, axes)


def test_the_same_bits_on_any_number_of_threads():
    x, results = draw((70001,), np.complex64), set()
    for count in (1, 2, 8):
        with knobs.scope(num_threads=count):
            results.add(np.asarray(jnp.prod(jnp.asarray(x))).tobytes())
    assert len(results) == 1


def test_compiled_functions_multiply_neighbours():
    x = draw((37,), np.complex64)
    closed = weft.make_jaxpr(jnp.prod)(x)
    codes = [text for text, _ in native.Executable(closed).plan.codes]
    other = complex_products.columns_module(np.dtype(np.float32), processor.vector_bits() // 32)
    assert other not in codes
    np.testing.assert_allclose(weft.jit(jnp.prod)(x), np.prod(x), rtol=1e-5)
