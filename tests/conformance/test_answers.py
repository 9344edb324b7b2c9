"""Answers of the public interface that once were other than JAX's."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.scipy import signal
from weft.scipy.sparse.linalg import cg


def test_cg_of_a_complex_system_has_the_transposed_gradient():
    a = jnp.array([[2, 1j], [-1j, 3]])
    pull = weft.vjp(lambda b: cg(a, b)[0], jnp.ones(2, "complex64"))[1]
    (found,) = pull(jnp.array([1, 2], "complex64"))
    np.testing.assert_allclose(found, [0.6 + 0.4j, 0.8 - 0.2j], rtol=1e-5)


@pytest.mark.parametrize("k", [-(2**31), -5, -1, 0, 2, 4, 2**31 - 1])
def test_tri_at_any_diagonal(k):
    expected = np.tri(4, 3, k=max(-9, min(k, 9)))
    np.testing.assert_array_equal(jnp.tri(4, 3, k=k), expected)
    np.testing.assert_array_equal(weft.jit(lambda k: jnp.tri(4, 3, k=k))(k), expected)


def test_tri_of_a_traced_small_integer():
    found = weft.jit(lambda k: jnp.tri(300, k=k))(np.int8(-128))
    np.testing.assert_array_equal(found, np.tri(300, k=-128))


@pytest.mark.parametrize("k", [2**31, 2**33, -(2**31) - 1])
def test_tri_refuses_diagonals_beyond_int32(k):
    with pytest.raises(OverflowError, match="int32"):
        jnp.tri(4, k=k)


def test_tuple_of_tuples_of_traced_integers_is_an_index():
    x = np.arange(42.0).reshape(2, 3, 7)
    index = ((1, 0), (1, 2))
    found = weft.jit(lambda x, i: x[i])(x, index)
    np.testing.assert_array_equal(found, x[index])


def test_istft_counts_times_along_the_first_axis():
    z = np.ones((3, 17, 5), "complex64")
    times, x = signal.istft(z)
    assert times.shape == (3,) and x.shape == (3, 64)
    assert signal.istft(z[0])[0].shape == (64,)
    moved = signal.istft(np.moveaxis(z, 0, 2), time_axis=1, freq_axis=0)
    assert moved[0].shape == (64,) and moved[1].shape == (64, 3)


def test_device_put_commits():
    device = weft.devices()[0]
    x = weft.device_put(np.arange(3), device)
    assert x.committed and not weft.device_put(np.arange(3)).committed
    assert weft.device_put(x).committed and weft.device_put([x])[0].committed
    assert weft.device_put(jnp.ones(3), weft.sharding.SingleDeviceSharding(device)).committed
    y = jnp.ones(3)
    assert weft.device_put(y, device).committed and not y.committed
    assert jnp.full_like(x, 1).committed and jnp.zeros(3, device=device).committed
    assert not weft.jit(lambda: weft.device_put(1.0, device))().committed


def test_loops_without_jit_do_not_write_into_arguments():
    def body(c):
        c += 1
        return c

    x = np.array(1.0, "float32")
    with weft.disable_jit():
        assert lax.while_loop(lambda c: c < 10, body, x) == 10
        assert lax.scan(lambda c, _: (body(c), c), x, None, length=3)[0] == 4
        assert lax.fori_loop(0, 3, lambda i, c: body(c), {"x": x}["x"]) == 4
    assert x == 1
