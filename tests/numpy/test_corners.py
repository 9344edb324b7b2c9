"""Arguments that few programs pass, with what JAX 0.10.2 does with them."""

from collections import UserList, deque

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.scipy import special


@pytest.mark.parametrize(
    ("data", "dtype", "values"),
    [
        (range(3), "int32", [0, 1, 2]),
        (range(0), "float32", []),
        ([range(2), range(2, 4)], "int32", [[0, 1], [2, 3]]),
        ((range(2), [1.5, 2]), "float32", [[0.0, 1.0], [1.5, 2.0]]),
        (deque([1, 2]), "int32", [1, 2]),
        (UserList([True, False]), "bool", [True, False]),
        ([deque([1, 2])], "int32", [[1, 2]]),
    ],
)
def test_arrays_of_other_sequences(data, dtype, values):
    made = jnp.array(data)
    assert made.dtype == dtype and made.tolist() == values
    assert jnp.asarray(data, dtype=jnp.float32).tolist() == np.array(values, float).tolist()


@pytest.mark.parametrize("data", [{1, 2}, {"a": 1}, {1: 2}.values(), (i for i in range(2)), "ab"])
def test_no_arrays_of_what_has_no_order(data):
    with pytest.raises(TypeError, match="cannot make an array"):
        jnp.array(data)
    with pytest.raises(TypeError, match="cannot make an array"):
        jnp.array([data])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_parts_of_one_number_are_arrays(dtype):
    mantissa, exponent = jnp.frexp(jnp.array(12, dtype))
    assert isinstance(mantissa, weft.Array) and isinstance(exponent, weft.Array)
    assert (mantissa.item(), exponent.item()) == (0.75, 4)
    assert (mantissa.dtype, exponent.dtype) == (dtype, "int32")


@pytest.mark.parametrize(("ddof", "want"), [(0.5, 0.8), (2.5, 4.0), (1, 1.0), (3, np.nan)])
def test_nanvar_by_a_fraction(ddof, want):
    found = jnp.nanvar(jnp.array([1.0, 2.0, np.nan, 3.0]), ddof=ddof)
    np.testing.assert_allclose(found, want, rtol=1e-6)
    np.testing.assert_allclose(jnp.nanstd(jnp.array([1, 2, 3]), ddof=ddof) ** 2, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "ord", "dtype", "want"),
    [
        ([1, -2], 1, "int32", 3),
        ([1, -2], np.inf, "int32", 2),
        ([1, -2], -np.inf, "int32", 1),
        ([True, False, True], 1, "int32", 2),
        ([True, False], np.inf, "bool", True),
        ([3, -4], 2, "float32", 5.0),
        ([3, 0], 0, "float32", 1.0),
    ],
)
def test_norms_of_integers(values, ord, dtype, want):
    found = jnp.linalg.vector_norm(jnp.array(values), ord=ord)
    assert found.dtype == dtype and found.item() == want


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "fftn"])
def test_transforms_of_nothing(name, norm):
    found = getattr(jnp.fft, name)(jnp.zeros((2, 0)), norm=norm)
    assert found.shape == (2, 0) and found.dtype == "complex64"
    with pytest.raises(ValueError, match="norm must be"):
        getattr(jnp.fft, name)(jnp.zeros((2, 0)), norm="half")


ONE = jnp.ones(3)

AXES = {
    "unwrap": lambda: jnp.unwrap(jnp.array(1.0)),
    "diagonal": lambda: jnp.diagonal(jnp.ones((2, 2)), axis1=2),
    "hfft": lambda: jnp.fft.hfft(ONE, axis=1),
    "ihfft": lambda: jnp.fft.ihfft(ONE, axis=1),
    "glu": lambda: weft.nn.glu(jnp.array(1.0)),
    "mean": lambda: jnp.mean(ONE, axis=1),
    "argmax": lambda: jnp.argmax(ONE, axis=-2),
}


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("kind", [ValueError, IndexError])
def test_an_axis_that_is_not_there(name, kind):
    # JAX raises the one or the other, by function.
    with pytest.raises(kind, match=r"axis -?\d is out of bounds for an array of \d dimensions"):
        AXES[name]()


def test_mistakes_are_named():
    with pytest.raises(ZeroDivisionError, match="step other than 0"):
        jnp.arange(0, 5, 0)
    with pytest.raises(ValueError, match="booleans"):
        jnp.round(jnp.array([True]), 2)
    with pytest.raises(TypeError, match="two axes"):
        jnp.fft.fft2(jnp.ones((2, 2)), axes=None)
    with pytest.raises(weft.errors.ConcretizationTypeError, match="dimension d"):
        weft.jit(special.multigammaln)(3.0, 2)
    with pytest.raises(weft.errors.ConcretizationTypeError, match="size of its result"):
        weft.jit(special.bernoulli)(2)


def test_positions_of_complex_extremes_are_numpys():
    rng = np.random.default_rng(0)
    holes = np.array([1 + 1j, 1 + 2j, complex(0, np.nan), 1 - 5j, complex(np.nan, 0), 3 - 1j])
    parts = rng.integers(-2, 3, (2, 3, 7))
    for x in (holes.astype("c8"), (parts[0] + 1j * parts[1]).astype("c8")):
        for name in ("argmax", "argmin", "nanargmax", "nanargmin"):
            for axis in (None, *range(x.ndim)):
                want = getattr(np, name)(x, axis)
                fun = lambda x, n=name, a=axis: getattr(jnp, n)(x, a)
                np.testing.assert_array_equal(fun(x), want)
                np.testing.assert_array_equal(weft.jit(fun)(x), want)
