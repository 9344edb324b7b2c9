"""Causes that random calls found: the classes of errors and the dtypes are JAX's."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.scipy.linalg
from weft import lax
from weft.experimental import sparse
from weft.scipy import fft, signal, stats


def zeros(*shape):
    return jnp.zeros(shape)


REFUSED = {
    "an array as a device": (TypeError, lambda: weft.device_put(zeros(3), zeros(3))),
    "a set as a device": (TypeError, lambda: zeros(3).to_device({1})),
    "a number as a device": (ValueError, lambda: weft.device_put(zeros(3), 3)),
    "stacked ranks": (ValueError, lambda: lax.stack([zeros(3), zeros(1, 3)])),
    "stacked sizes": (ValueError, lambda: lax.stack([zeros(3), zeros(4)])),
    "stacked dtypes": (TypeError, lambda: lax.stack([zeros(3), jnp.arange(3)])),
    "a scalar start": (TypeError, lambda: lax.dynamic_slice(zeros(3), 1, (1,))),
    "a scalar start of an update": (
        TypeError,
        lambda: lax.dynamic_update_slice(zeros(3), zeros(1), jnp.int32(1)),
    ),
    "a matrix of starts": (
        ValueError,
        lambda: lax.dynamic_slice(zeros(3, 3), jnp.zeros((2, 1), int), (1, 1)),
    ),
    "a negative size": (
        TypeError,
        lambda: jnp.where(zeros(3, 5) > 0, size=-1, fill_value=zeros(4, 7)),
    ),
    "a bad fill value": (
        ValueError,
        lambda: jnp.nonzero(jnp.ones(3), size=2, fill_value=zeros(4, 7)),
    ),
    "padding before strides": (ValueError, lambda: lax.conv(zeros(4, 3), zeros(4, 3), 3, zeros(2))),
    "strides": (TypeError, lambda: lax.conv(zeros(1, 1, 4), zeros(1, 1, 2), 3, "VALID")),
    "layouts in an array": (ValueError, lambda: lax.conv_general_permutations(np.zeros((8, 8)))),
    "a negative size of tri": (TypeError, lambda: jnp.tri(0, -1)),
    "an exclusive or that is traced": (
        weft.errors.NonConcreteBooleanIndexError,
        lambda: weft.jit(lambda x: jnp.setxor1d(x, x, assume_unique=True))(zeros(3)),
    ),
    "an unknown boundary": (ValueError, lambda: signal.stft(1, boundary=2.0)),
    "two layouts": (ValueError, lambda: lax.conv_general_permutations("NC")),
    "no layouts": (TypeError, lambda: lax.conv_general_permutations(None)),
    "cholesky of a scalar": (
        TypeError,
        lambda: weft.scipy.linalg.cholesky(zeros(), lower=True),
    ),
    "upper cholesky of a vector": (ValueError, lambda: weft.scipy.linalg.cholesky(zeros(3))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_error_classes(case):
    error, call = REFUSED[case]
    with pytest.raises(error) as info:
        call()
    assert isinstance(info.value, error)


@pytest.mark.parametrize("name", "chi2.cdf norm.sf gamma.logpdf poisson.pmf expon.pdf".split())
def test_distributions_refuse_complex_numbers_with_a_type_error(name):
    distribution, function = name.split(".")
    args = [1.0] * (1 if distribution in ("norm", "expon") else 2)
    with pytest.raises(TypeError, match="real numbers"):
        getattr(getattr(stats, distribution), function)(jnp.complex64(1), *args[1:])


def test_beta_refuses_complex_numbers_as_betainc_does():
    with pytest.raises(ValueError, match="real numbers"):
        stats.beta.cdf(jnp.complex64(1), 1.0, 1.0)


@pytest.mark.parametrize("function", [fft.dctn, fft.idctn])
def test_transforms_over_no_axes_keep_the_dtype(function):
    assert function(jnp.int32(3)).dtype == jnp.int32
    assert function(jnp.ones((2, 2), jnp.float16), axes=()).dtype == jnp.float16
    assert function(jnp.arange(3)).dtype == jnp.float32


def test_one_shape_is_broadcast_as_it_is():
    assert lax.broadcast_shapes(0) == 0
    assert lax.broadcast_shapes((2, 3)) == (2, 3)


def test_fill_values_decide_the_dtype_of_positions():
    mask = jnp.array([[True, False]])
    for size in (None, 3):
        (rows, columns) = jnp.where(mask, size=size, fill_value=0.5)
        assert rows.dtype == columns.dtype == jnp.float32
        assert rows.weak_type
        assert jnp.nonzero(mask, size=size, fill_value=jnp.int8(1))[0].dtype == jnp.int32
    np.testing.assert_array_equal(columns, [0, 0.5, 0.5])


@pytest.mark.parametrize(("batch", "dense"), [(1, 1), (0, 2), (2, 0), (1, 0), (0, 1)])
def test_sums_of_sparse_arrays_stay_sparse(batch, dense):
    x = jnp.arange(12).reshape(3, 4) % 5
    matrix = sparse.BCOO.fromdense(x, n_batch=batch, n_dense=dense)
    total = sparse.sparsify(lambda m: m.sum(0))(matrix)
    assert isinstance(total, sparse.BCOO)
    np.testing.assert_array_equal(total.todense(), x.sum(0))
    assert int(sparse.sparsify(lambda m: m.sum())(matrix)) == int(x.sum())
