"""Small programs of ``numpy`` and ``lax`` whose answers JAX 0.10.2 gives otherwise than NumPy."""

from unittest.mock import Mock

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.scipy import special


def test_diagonal_of_tri_may_be_traced():
    traced = weft.jit(lambda k: jnp.tri(3, 4, k=k))
    for k in (-2, 0, 1, 5):
        np.testing.assert_array_equal(traced(k), np.tri(3, 4, k, np.float32))
    stack = weft.vmap(lambda k: jnp.tri(2, k=k))(jnp.arange(2))
    np.testing.assert_array_equal(stack, [np.tri(2, k=0), np.tri(2, k=1)])
    np.testing.assert_array_equal(
        weft.jit(lambda m, k: jnp.triu(m, k))(jnp.ones((3, 3)), 1), np.triu(np.ones((3, 3)), 1)
    )
    with pytest.raises(TypeError, match="tri needs an integer k"):
        traced(1.0)


def test_unravel_index_of_a_traced_shape():
    index = jnp.array([1, 7, 40, -2, -99])
    want = jnp.unravel_index(index, (3, 4))
    for shape in ((3, 4), jnp.array([3, 4])):
        found = weft.jit(jnp.unravel_index)(index, shape)
        np.testing.assert_array_equal(found, want)
    assert jnp.unravel_index(5, 10)[0].weak_type


def test_histogram2d_with_edges_of_different_length():
    x, y = np.array([0.5, 1.5, 4.0]), np.array([0.5, 2.5, 5.0])
    bins = [np.array([0, 1, 3, 5]), np.array([0, 2, 3, 4, 6])]
    for found, want in zip(jnp.histogram2d(x, y, bins), np.histogram2d(x, y, bins), strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (2**32, "int32", 0),
        (2**31, "int32", -(2**31)),
        (-(2**31) - 1, "int32", 2**31 - 1),
        (2**63, "uint8", 0),
        (2**40, "bool", True),
        (2**100, "float32", np.float32(2.0**100)),
        (2**40, "complex64", 2.0**40),
        (2**40, "bfloat16", 2.0**40),
    ],
)
def test_convert_element_type_of_wide_integers(value, dtype, want):
    found = lax.convert_element_type(value, dtype)
    assert found.dtype == dtype and found.item() == want and not found.weak_type
    assert weft.jit(lambda: lax.convert_element_type(value, dtype))().item() == want


def test_convert_element_type_of_too_wide_integers():
    with pytest.raises(OverflowError, match="64 bits"):
        lax.convert_element_type(2**64, "int32")
    with pytest.raises(OverflowError):
        lax.convert_element_type(2**2000, "float32")


@pytest.mark.parametrize(
    "unchanged",
    [
        lambda x: lax.convert_element_type(x, np.float32),
        lambda x: lax.expand_dims(x, ()),
        lambda x: lax.broadcast(x, ()),
    ],
)
def test_what_changes_nothing_makes_arrays_of_numpy_data(unchanged):
    data = np.ones(3, np.float32)
    found = unchanged(data)
    assert isinstance(found, weft.Array) and isinstance(unchanged(np.float32(1)), weft.Array)
    data[:] = 2
    assert found.tolist() == [1, 1, 1]


def test_broadcast_in_dim_in_any_order():
    x = jnp.arange(6.0).reshape(3, 2)
    turned = lambda x: lax.broadcast_in_dim(x, (2, 4, 3), (2, 0))
    want = np.broadcast_to(np.asarray(x).T[:, None], (2, 4, 3))
    weights = jnp.arange(24.0).reshape(2, 4, 3)
    for run in (turned, weft.jit(turned)):
        np.testing.assert_array_equal(run(x), want)
        slope = weft.grad(lambda x, run=run: jnp.sum(run(x) * weights))(x)
        np.testing.assert_array_equal(slope, weights.sum(1).T)
        stack = weft.vmap(run, 1)(jnp.stack([x, 2 * x], 1))
        np.testing.assert_array_equal(stack, [want, 2 * want])
    column = jnp.arange(3.0)[:, None]
    slope = weft.grad(lambda x: jnp.sum(lax.broadcast_in_dim(x, (2, 3, 4), (1, 0)) ** 2))(column)
    np.testing.assert_array_equal(slope, 16 * column)
    with pytest.raises(TypeError, match="distinct dimensions"):
        lax.broadcast_in_dim(x, (3, 2), (0, 0))
    with pytest.raises(TypeError, match="from 0 up to 1"):
        lax.broadcast_in_dim(x, (3, 2), (0, -1))


@pytest.mark.parametrize(
    "make",
    [
        jnp.ones,
        jnp.zeros,
        jnp.empty,
        lambda n: jnp.full(n, 1),
        lambda n: jnp.broadcast_to(1, n),
        lambda n: jnp.arange(4).reshape(n),
    ],
)
@pytest.mark.parametrize("array", [np.array, jnp.array])
def test_shapes_of_one_number_in_an_array(make, array):
    assert make(array(4)).shape == (4,)
    with pytest.raises(TypeError, match="integers"):
        make(np.array(4.0))


def test_logsumexp_of_weights_is_no_nan_on_the_way():
    with weft.debug_nans(True):
        assert special.logsumexp(1.0, b=1.0).item() == 1.0
        found = special.logsumexp(jnp.arange(3.0), b=jnp.array([1.0, 0.0, 2.0]))
        np.testing.assert_allclose(found, np.log(1 + 2 * np.exp(2)), rtol=1e-6)
        assert np.isnan(special.logsumexp(jnp.arange(3.0), b=jnp.array([1.0, -5.0, -2.0])))


def test_accurate_expm1_has_an_accurate_slope():
    accurate = lambda x: lax.expm1(x, accuracy=lax.AccuracyMode.HIGHEST)
    np.testing.assert_allclose(weft.grad(accurate)(-80.0), np.exp(-80.0), rtol=1e-6)
    names = [eqn.primitive.name for eqn in weft.make_jaxpr(weft.grad(accurate))(1.0).eqns]
    assert names == ["expm1", "exp", "mul"]


def test_every_byte_but_zero_is_true():
    odd = np.resize(np.array([96, 1, 0, 2], np.uint8), 37).view(bool)
    truth = odd.view(np.uint8) != 0

    def used(b):
        return b + 0, ~b, b & True, b.sum(), b.astype("float32"), jnp.where(b, 1, 2), b[::2] | False

    want = [truth, ~truth, truth, truth.sum(), truth, np.where(truth, 1, 2), truth[::2]]
    for run in (used, weft.jit(used)):
        for found, expected in zip(run(jnp.array(odd)), want, strict=True):
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(jnp.array(odd).view("uint8"), odd.view(np.uint8))


def test_dtype_of_an_array_by_numpy_is_deprecated():
    with pytest.warns(DeprecationWarning, match="write x.dtype"):
        assert jnp.arange(4).__numpy_dtype__ == np.int32


def test_copy_to_host_async_asks_leaves_of_other_kinds():
    leaf = Mock()
    tree = [object(), leaf, jnp.ones(2)]
    assert weft.copy_to_host_async(tree) is tree
    assert leaf.copy_to_host_async.call_count == 1


class Wrapped:
    """Not an array, but it says which one it is."""

    def __init__(self, x):
        self.x = x

    def __jax_array__(self):
        return jnp.asarray(self.x)


@pytest.mark.parametrize("name", ["dot", "matmul", "tensordot", "matvec", "cov", "operator"])
def test_the_same_bits_whatever_stands_for_an_array(name):
    random = np.random.default_rng(0)
    for _ in range(5):
        a = random.standard_normal((5, 10), np.float32)
        b = random.standard_normal((10,) if name == "matvec" else (10, 4), np.float32)
        if name == "operator":
            results = [jnp.asarray(a) @ x for x in (jnp.asarray(b), b)]
            results.append(jnp.matmul(a, b))
        elif name == "cov":
            results = [jnp.cov(x) for x in (a, jnp.asarray(a), Wrapped(a))]
        else:
            fun, options = getattr(jnp, name), ((1,) if name == "tensordot" else ())
            results = [fun(f(a), f(b), *options) for f in (np.asarray, jnp.asarray, Wrapped)]
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8])
def test_complex_determinants_agree_compiled(n):
    random = np.random.default_rng(n)
    a = 3 * random.standard_normal((6, n, n)) + 3j * random.standard_normal((6, n, n))
    a = a.astype(np.complex64)
    np.testing.assert_allclose(weft.jit(jnp.linalg.det)(a), jnp.linalg.det(a), rtol=1e-5)
    np.testing.assert_allclose(jnp.linalg.det(a), np.linalg.det(a.astype(complex)), rtol=2e-5)
    assert jnp.linalg.det(jnp.ones((0, 0), "complex64")) == 1
