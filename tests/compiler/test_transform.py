"""Transforms along other axes than the last: no transposes are left, and results are NumPy's."""

import numpy as np
import pytest

import weft
from weft import numpy as jnp
from weft.compiler.pipeline import simplify
from weft.core.verify import check_jaxpr


def names(fun, *args):
    closed = simplify(weft.make_jaxpr(fun)(*args))
    check_jaxpr(closed)
    return [eqn.primitive.name for eqn in closed.eqns]


def array(*shape):
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


@pytest.mark.parametrize("name", ["fft", "ifft"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((12, 20), 0), ((3, 10, 33), 1), ((14, 3, 5), 0), ((101, 6), 0), ((4, 1), 0)],
)
def test_along_an_axis(name, shape, axis):
    x = array(*shape)
    ours, theirs = getattr(jnp.fft, name), getattr(np.fft, name)
    np.testing.assert_allclose(
        weft.jit(lambda x: ours(x, axis=axis))(x), theirs(x, axis=axis), rtol=1e-4, atol=1e-4
    )
    assert names(lambda x: ours(x, axis=axis), x) == ["fft"]


def test_other_transposes_stay():
    x = array(6, 8)
    assert names(lambda x: jnp.fft.fft(x.T), x) == ["transpose", "fft"]
    assert names(lambda x: jnp.fft.fft(x, axis=0).T, x).count("fft") == 1
    both = weft.jit(lambda x: (jnp.fft.fft(x.T), jnp.fft.fft(x.T).T))(x)
    for got, want in zip(both, (np.fft.fft(x.T), np.fft.fft(x.T).T), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    y = array(6, 8).real
    found = weft.jit(lambda y: jnp.fft.rfft(y, axis=0))(y)
    np.testing.assert_allclose(found, np.fft.rfft(y, axis=0), rtol=1e-4, atol=1e-4)
    turned = weft.jit(lambda x: jnp.fft.fft(x.transpose(1, 0, 2)).transpose(2, 0, 1))
    z = array(3, 4, 5)
    want = np.fft.fft(z.transpose(1, 0, 2)).transpose(2, 0, 1)
    np.testing.assert_allclose(turned(z), want, rtol=1e-4, atol=1e-4)
