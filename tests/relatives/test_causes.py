"""Causes that random calls found: the classes of errors and the dtypes are JAX's."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.scipy.linalg
from weft import image, lax, nn, random
from weft.dtypes import TypePromotionError
from weft.experimental import sparse
from weft.scipy import fft, signal, special, stats
from weft.scipy.cluster.vq import vq


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
    "a negative size of draws": (TypeError, lambda: random.uniform(random.key(0), (-1,))),
    "a negative size of counts": (TypeError, lambda: random.randint(random.key(0), (2, -1), 0, 3)),
    "a cosine transform of nothing": (TypeError, lambda: fft.dct(zeros(3), n=0)),
    "a cosine transform of less": (ValueError, lambda: fft.dct(zeros(3), n=-1)),
    "a negative size before the dimension": (
        TypeError,
        lambda: lax.broadcasted_iota(int, (1, -1), 3),
    ),
    "counting along a dimension from the end": (
        ValueError,
        lambda: lax.broadcasted_iota(int, (2, 3), -1),
    ),
    "the derivative of products of a scalar": (
        ValueError,
        lambda: weft.jvp(lax.cumprod, (zeros(),), (zeros(),)),
    ),
    "hypergeometric complex numbers": (
        TypeError,
        lambda: special.hyp2f1(jnp.complex64(1), 1.0, 1.0, 0.5),
    ),
    "a permutation from the end": (TypeError, lambda: jnp.permute_dims(zeros(2, 3), (-1, 0))),
    "a permutation of too many": (TypeError, lambda: jnp.permute_dims(zeros(3), (0, 1))),
    "a traced condition": (
        weft.errors.TracerBoolConversionError,
        lambda: weft.jit(lambda m, x: jnp.compress(m, x))(zeros(3) > 0, zeros(3)),
    ),
    "a traced condition of elements": (
        weft.errors.TracerBoolConversionError,
        lambda: weft.jit(jnp.extract)(zeros(3) > 0, zeros(3)),
    ),
    "an intersection that is traced": (
        weft.errors.NonConcreteBooleanIndexError,
        lambda: weft.jit(lambda x: jnp.intersect1d(x, x, assume_unique=True))(zeros(3)),
    ),
    "no axis of differences": (TypeError, lambda: jnp.diff(zeros(3), n=-1, axis=None)),
    "an unknown algorithm": (ValueError, lambda: nn.standardize(zeros(3), algorithm="other")),
    "traced segments of nothing": (
        ValueError,
        lambda: weft.jit(weft.ops.segment_sum)(zeros(), jnp.zeros(0, int)),
    ),
    "a fill value without a size": (
        ValueError,
        lambda: jnp.argwhere(jnp.ones((2, 3)), fill_value=zeros(2, 3)),
    ),
    "an image of one number": (ValueError, lambda: image.resize(zeros(6, 5, 3), -1, "linear")),
    "an image moved to one number": (
        ValueError,
        lambda: image.scale_and_translate(zeros(3, 3), 9, (0,), zeros(1), zeros(1), "linear"),
    ),
    "running sums along no axis": (ValueError, lambda: jnp.cumsum(jnp.float32(1), axis=0)),
    "running products along no axis": (ValueError, lambda: jnp.nancumprod(zeros(), axis=-1)),
    "solving with no matrix": (
        ValueError,
        lambda: weft.scipy.linalg.lu_solve((zeros(2), jnp.zeros(2, int)), zeros(2)),
    ),
    "solving for a scalar": (
        ValueError,
        lambda: weft.scipy.linalg.solve_triangular(jnp.eye(3), 2.0),
    ),
    "samples at one place": (ValueError, lambda: jnp.trapezoid(zeros(3), x=3)),
    "numbers of rows before axes": (ValueError, lambda: jnp.linalg.lstsq(zeros(4), zeros(2, 2))),
    "all and some singular vectors": (
        ValueError,
        lambda: jnp.linalg.svd(zeros(4, 4), subset_by_index=-1),
    ),
    "numbers of swaps before dtypes": (
        ValueError,
        lambda: lax.linalg.lu_pivots_to_permutation(jnp.zeros((2, 3), jnp.int16), 1),
    ),
    "stacks of other sizes": (
        ValueError,
        lambda: lax.linalg.triangular_solve(jnp.ones((2, 3, 3)), jnp.ones((4, 3, 3))),
    ),
    "stacks of other ranks": (
        TypeError,
        lambda: lax.linalg.householder_product(jnp.ones((2, 3, 3)), jnp.ones(3)),
    ),
    "axes of a scalar": (
        ValueError,
        lambda: jnp.linalg.tensorsolve(1, zeros(0, 3, 3), axes=(0, 1, 2)),
    ),
    "positions that are scalars": (ValueError, lambda: lax.index_take(zeros(3), jnp.arange(2), 0)),
    "a root of no matrix": (TypeError, lambda: weft.scipy.linalg.sqrtm(1.0)),
    "polynomials in a matrix": (TypeError, lambda: jnp.polydiv(zeros(3, 2), zeros(3, 3))),
    "one number of tiles": (TypeError, lambda: lax.tile(zeros(3), 2)),
    "a negative triangle": (TypeError, lambda: jnp.triu_indices(-1)),
    "a negative lower triangle": (TypeError, lambda: jnp.tril_indices(2, m=-1)),
    "bits of booleans in other numbers": (
        ValueError,
        lambda: lax.bitcast_convert_type(zeros(3) > 0, jnp.int32),
    ),
    "numbers of padding before pairs": (
        TypeError,
        lambda: lax.conv_shape_tuple((7, 5, 3), (7, 5, 3), (1,), zeros(7, 5)),
    ),
    "ragged products of no dimensions": (
        TypeError,
        lambda: lax.ragged_dot_general(zeros(2, 2), zeros(2, 2), jnp.ones(2, int), zeros(2)),
    ),
    "shapes of matrices before dtypes": (
        ValueError,
        lambda: lax.linalg.schur(jnp.zeros((7, 4), jnp.int8)),
    ),
    "shapes of a system before dtypes": (
        ValueError,
        lambda: lax.linalg.triangular_solve(jnp.zeros((1, 1), jnp.int16), zeros(2, 2)),
    ),
    "an axis of a sum": (ValueError, lambda: lax.reduce_sum(zeros(3), (1,))),
    "an axis of the sum of a scalar": (ValueError, lambda: lax.reduce_sum(0.5, (0,))),
    "an array of padding before its dtype": (
        ValueError,
        lambda: lax.pad(zeros(3), jnp.arange(3), [(0, 0, 0)]),
    ),
    "one size of pieces": (TypeError, lambda: lax.split(zeros(5), 5)),
    "one size in front": (TypeError, lambda: lax.broadcast(zeros(5), 5)),
    "a matrix before how to decompose it": (
        TypeError,
        lambda: lax.linalg.eig(zeros(), implementation=lax.linalg.EigImplementation.MAGMA),
    ),
    "a symmetric matrix before how to decompose it": (
        TypeError,
        lambda: lax.linalg.eigh(zeros(), implementation=lax.linalg.EighImplementation.QDWH),
    ),
    "a list as an index before a mode": (TypeError, lambda: zeros(3).at[[1, 2]].get(mode="other")),
    "a float as an index before a mode": (TypeError, lambda: zeros(3).at[1.5].get(mode="wrap")),
    "more than the condition has": (
        ValueError,
        lambda: jnp.compress(jnp.zeros(2, bool), zeros(4, 4), size=3),
    ),
    "division of scalars": (TypeError, lambda: jnp.polydiv(2.0, 1.0)),
    "division of stacks": (ValueError, lambda: jnp.polydiv(zeros(2, 3), zeros(2, 2, 3))),
    "an array as a number of rows": (
        TypeError,
        lambda: lax.linalg.lu_pivots_to_permutation(jnp.zeros((5, 7), int), zeros(7, 7)),
    ),
    "an orthogonal matrix of a negative size": (
        ValueError,
        lambda: random.orthogonal(random.key(0), -1),
    ),
    "one size of pieces of a scalar": (TypeError, lambda: lax.split(zeros(), -1)),
    "positions along no axes": (ValueError, lambda: lax.index_take(zeros(3), (), ())),
    "a traced dimension before a dtype": (
        weft.errors.ConcretizationTypeError,
        lambda: weft.jit(lambda n: random.ball(random.key(0), n, dtype=bool))(3),
    ),
    "an array of dimensions of an image": (
        TypeError,
        lambda: image.scale_and_translate(
            zeros(4, 5, 1), (5, 4, 1), zeros(4, 5, 1), zeros(3), zeros(3), "bilinear"
        ),
    ),
    "the derivative at no matrix": (ValueError, lambda: weft.scipy.linalg.expm_frechet(2, 1.0)),
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


# JAX's answers: a formula with a constant of its own is of a weak type where the first operand is
# a scalar of one.
WEAK_DENSITIES = {
    "norm.pdf": [((True,), True), ((1.5, jnp.arange(3)), True), ((jnp.full(3, 1.5),), False)],
    "gamma.pdf": [((-1.5, jnp.arange(3)), True), ((jnp.arange(3), 1.5), False)],
    "beta.logpdf": [((0.5, 2, True), True), ((jnp.full(3, 0.5), 2.0, 2.0), False)],
    "geom.pmf": [((2, 0.5), True), ((jnp.arange(3), 0.5), False)],
    "poisson.logpmf": [((jnp.arange(3), 1.5), True), ((jnp.zeros(3), 1.5), False)],
    "pareto.logcdf": [((jnp.arange(3), 1.5), True), ((2.0, jnp.ones(3)), False)],
    "logistic.pdf": [((True,), True), ((1.5, jnp.arange(3)), False)],
    "betabinom.pmf": [((1, 2, 1.5, True), True), ((jnp.zeros(3), 2, 1.5, 1), False)],
}


@pytest.mark.parametrize("name", WEAK_DENSITIES)
def test_weak_types_of_distributions(name):
    distribution, function = name.split(".")
    for args, weak in WEAK_DENSITIES[name]:
        found = getattr(getattr(stats, distribution), function)(*args)
        assert (found.dtype, found.weak_type) == (jnp.float32, weak), args


def test_weak_types_of_special_functions():
    assert special.betaln(1.0, 2.0).weak_type
    for strong in (
        special.rel_entr(jnp.ones(1, jnp.int8), 1.5),
        special.kl_div(jnp.ones(1, jnp.int8), 1.5),
        special.logit(jnp.full(3, 0.5)),
        special.multigammaln(3.0, 2.0),
        weft.scipy.linalg.toeplitz(1),
    ):
        assert not strong.weak_type


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "float32"])
def test_owens_t_is_of_single_precision(dtype):
    assert special.owens_t(jnp.ones(2, dtype), 2.0).dtype == jnp.float32


def test_parts_without_elements_keep_weak_types():
    x, none = jnp.full((3, 2), 1.5), jnp.zeros((0, 3), int)
    for part in (x[none], x[none, 1], jnp.take(x, none), jnp.take(x, none, axis=1)):
        assert part.size == 0
        assert part.weak_type
    assert weft.eval_shape(lambda: jnp.unique(0.5, size=0)).weak_type
    assert jnp.compress(jnp.zeros(0, bool), -1.5).weak_type


def test_fill_values_of_nothing_are_not_looked_at():
    assert jnp.nonzero(zeros(0), size=2, fill_value=zeros(2, 3))[0].shape == (2,)
    assert jnp.argwhere(zeros(0), size=2, fill_value=zeros(1)).shape == (2, 1)


def test_scalars_are_repeated_along_an_axis():
    np.testing.assert_array_equal(jnp.repeat(jnp.float32(2), 3, axis=0), [2, 2, 2])
    np.testing.assert_array_equal(jnp.float32(2).repeat(3, axis=-1), [2, 2, 2])
    assert jnp.cumsum(2.0, axis=0).shape == (1,)


def test_an_algorithm_without_use_is_not_looked_at():
    found = nn.standardize(jnp.ones(2), mean=0.0, variance=1.0, algorithm="other")
    np.testing.assert_allclose(found, [1, 1], rtol=1e-4)


def test_products_of_other_dtypes_in_a_third():
    found = lax.mul(jnp.full(3, 1.5, jnp.bfloat16), jnp.full(3, 2, jnp.int32), out_dtype="float16")
    assert found.dtype == jnp.float16
    np.testing.assert_array_equal(found, [3, 3, 3])


@pytest.mark.parametrize("other", ["bool", "float32"])
def test_products_of_booleans_are_refused_in_any_dtype(other):
    truth, y = jnp.array(True), jnp.ones((1, 5), other)
    for args in ((truth, y), (y, truth)):
        with pytest.raises(TypeError, match="mul does not accept dtype bool"):
            lax.mul(*args, out_dtype="float32")
        with pytest.raises(TypeError, match="mul does not accept dtype bool"):
            weft.jit(lambda x, y: lax.mul(x, y, out_dtype="float32"))(*args)


def test_products_in_a_complex_dtype_or_out_of_one():
    x, z = jnp.arange(2.0), jnp.array([1 + 2j, 3j])
    for f in (lax.mul, weft.jit(lax.mul, static_argnames="out_dtype")):
        np.testing.assert_array_equal(f(x, x, out_dtype="complex64"), [0, 1 + 0j])
        np.testing.assert_array_equal(f(x, z, out_dtype="complex64"), [0, 3j])
        assert f(z, z, out_dtype="float32").tolist() == [1, 0]
    grad = weft.grad(lambda x: jnp.abs(lax.mul(x, x, out_dtype="complex64")).sum())
    np.testing.assert_allclose(grad(x + 1), [2, 4], rtol=1e-6)


def test_hermitian_parts_of_integers():
    vectors, values = lax.linalg.eigh(jnp.array([[2, 1], [1, 2]]))
    assert vectors.dtype == values.dtype == jnp.float32
    np.testing.assert_allclose(values, [1, 3], rtol=1e-5)


def test_multinomial_counts_booleans():
    found = stats.multinomial.pmf(jnp.ones(3, bool), 3, jnp.ones(3) / 3)
    np.testing.assert_allclose(found, 2 / 9, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_constants_are_not_blamed_for_nans(dtype):
    with weft.debug_nans(True):
        slope = weft.grad(lambda v: jnp.where(v > 0, v, np.nan))(jnp.asarray(1.0, dtype))
        with pytest.raises(FloatingPointError):
            weft.grad(lambda v: jnp.where(v < 0, v, np.nan))(jnp.asarray(1.0, dtype))
    assert float(slope) == 1


def test_numbers_of_samples_come_before_nans():
    with weft.debug_nans(True), pytest.raises(ValueError, match="samples"):
        jnp.geomspace(jnp.array([-1.0, 2.0]), 3.0, num=-1)


# --- operands that are Python's numbers -----------------------------------------------------------


def test_blocks_that_are_numbers():
    np.testing.assert_array_equal(weft.scipy.linalg.block_diag(1.5, 2), [[1.5, 0], [0, 2]])


@pytest.mark.parametrize("order", [None, 0, 2, 4])
def test_lengths_of_numbers(order):
    found = jnp.linalg.vector_norm(2, ord=order)
    assert (found.shape, found.dtype) == ((), jnp.float32)
    assert float(found) == (1 if order == 0 else 2)


def test_gradients_stop_at_numbers():
    assert lax.stop_gradient(1.5) == 1.5 and lax.stop_gradient(1.5).weak_type
    assert float(weft.grad(lambda x: x * lax.stop_gradient(2.0))(3.0)) == 2


def test_weak_types_of_sets_and_diagonals():
    for weak in (
        jnp.intersect1d(2, 2.0),
        jnp.intersect1d(2, 2.0, return_indices=True)[0],
        jnp.setxor1d(2, 1.0),
        jnp.setdiff1d(2, 3),
        jnp.insert(1.5, 0, 2),
        weft.scipy.linalg.fiedler_companion(0),
    ):
        assert weak.weak_type
    for strong in (jnp.diagflat(2), jnp.setxor1d(jnp.arange(2), 1), jnp.insert(jnp.ones(2), 0, 2)):
        assert not strong.weak_type


def test_choices_among_as_many_as_a_float_says():
    key = random.key(0)
    assert int(random.choice(key, 2.0)) == int(random.choice(key, 2))
    with pytest.raises(TypeError):
        random.permutation(key, 2.0)


@pytest.mark.parametrize("unique", [True, False])
def test_places_of_common_elements(unique):
    x, y = jnp.array([3, 1, 2], jnp.int32), jnp.array([2, 3], jnp.int32)
    with weft.enable_x64(True):
        _, *places = jnp.intersect1d(x, y, assume_unique=unique, return_indices=True)
        for place, want in zip(places, ([2, 0], [0, 1]), strict=True):
            assert place.dtype == (jnp.int32 if unique else jnp.int64)
            np.testing.assert_array_equal(place, want)


# --- values, as on JAX ----------------------------------------------------------------------------


def test_sizes_beyond_an_index_dtype_wrap():
    rows, columns = jnp.unravel_index(jnp.array([2, 200, 50], jnp.uint8), (3, 300))
    np.testing.assert_array_equal(rows, [0, 2, 1])
    np.testing.assert_array_equal(columns, [2, 43, 6])
    np.testing.assert_array_equal(jnp.insert(jnp.array([1], jnp.uint8), 0, 300), [44, 1])


def test_poisson_counts_from_any_origin():
    np.testing.assert_allclose(stats.poisson.logpmf(1, 2.0, 0.5), -1.5326445, rtol=1e-5)
    assert float(stats.poisson.logpmf(1.5, 2.0)) == -np.inf


def test_exp1_has_no_derivative_below_zero():
    assert np.isnan(weft.grad(special.exp1)(-1.0))
    np.testing.assert_allclose(weft.grad(special.exp1)(1.0), -np.exp(-1), rtol=1e-5)


def test_nothing_is_trimmed_of_a_scalar():
    assert jnp.trim_zeros(0, None).shape == ()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "bool"])
@pytest.mark.parametrize("compiled", [True, False])
def test_cases_are_selected_by_any_integers(dtype, compiled):
    select = weft.jit(lax.select_n) if compiled else lax.select_n
    cases = [jnp.full(3, 10.0 * i) for i in range(2 if dtype == "bool" else 3)]
    found = select(jnp.array([1, 0, 2], dtype), *cases)
    np.testing.assert_array_equal(found, [10, 0, 10 if dtype == "bool" else 20])


def test_numbers_outside_select_the_first_or_the_last_case():
    cases = [jnp.full(2, 10.0 * i) for i in range(3)]
    np.testing.assert_array_equal(lax.select_n(jnp.array([-9, 9], "int8"), *cases), [0, 20])
    np.testing.assert_array_equal(
        lax.select_n(jnp.array([0, 2**32 - 1], "uint32"), *cases), [0, 20]
    )


# --- operands that a rule stumbles over -----------------------------------------------------------


@pytest.mark.parametrize("transform", [weft.jacfwd, weft.jacrev])
def test_types_are_refused_before_rules_look_at_them(transform):
    with pytest.raises(TypeError, match="at least 2 axes"):
        transform(lambda x: lax.linalg.svd(x, full_matrices=False)[1])(jnp.ones(3))


def test_products_of_scalars_in_groups():
    with pytest.raises(TypeError):
        weft.vmap(lax.ragged_dot)(jnp.ones(2), jnp.ones(2), jnp.ones(2, int))


def test_a_constant_nan_that_is_broadcast_is_not_blamed():
    x, scale = jnp.linspace(-1.0, 1.0, 8), jnp.ones(1)
    with weft.debug_nans(True):
        _, slope = weft.jvp(lambda v: stats.gumbel_l.pdf(v, scale=scale), (x,), (x,))
        with pytest.raises(FloatingPointError):
            weft.jvp(lambda v: stats.gumbel_l.pdf(v, scale=-scale), (x,), (x,))
    assert np.isfinite(slope).all()


def test_the_mode_of_nothing_is_of_the_default_dtype():
    for dtype in (jnp.int32, jnp.float16, jnp.float32):
        assert stats.mode(jnp.zeros(0, dtype)).mode.dtype == jnp.float32
        with weft.enable_x64(True):
            assert stats.mode(jnp.zeros(0, dtype)).mode.dtype == jnp.float64


def test_dtypes_of_codes_come_before_ranks():
    with weft.numpy_dtype_promotion("strict"), pytest.raises(TypePromotionError):
        vq(zeros(2, 2), jnp.zeros(2, bool))
    with pytest.raises(ValueError, match="ranks 2 and 1"):
        vq(zeros(2, 2), jnp.zeros(2, bool))


RULES = {
    "custom_jvp": lambda f: _with_rule(weft.custom_jvp, f),
    "custom_vjp": lambda f: _with_rule(weft.custom_vjp, f),
    "checkpoint": weft.checkpoint,
    "jit": weft.jit,
    "cond": lambda f: lambda x: lax.cond(x.sum() > 0, f, f, x),
}


def _with_rule(kind, f):
    made = kind(f)
    if kind is weft.custom_jvp:
        made.defjvp(lambda primals, tangents: (f(*primals), f(*tangents)))
    else:
        made.defvjp(lambda x: (f(x), x), lambda x, g: (f(x),))
    return made


@pytest.mark.parametrize("around", RULES)
@pytest.mark.parametrize("transform", [weft.vmap, weft.grad])
def test_errors_of_functions_stay_what_they_are(around, transform):
    def f(x):
        raise ZeroDivisionError("of my own")

    with pytest.raises(ZeroDivisionError, match="of my own"):
        transform(RULES[around](f))(jnp.float32(1) if transform is weft.grad else jnp.ones(2))


def test_nans_in_functions_with_rules_are_named():
    with weft.debug_nans(True), pytest.raises(FloatingPointError):
        weft.jvp(lambda x: jnp.logaddexp(x, x), (jnp.array([-jnp.inf]),), (jnp.ones(1),))


@pytest.mark.parametrize("function", [weft.scipy.linalg.rsf2csf, weft.scipy.linalg.expm_frechet])
def test_pairs_of_matrices_are_promoted_together(function):
    with weft.numpy_dtype_promotion("strict"), pytest.raises(TypePromotionError):
        function(jnp.ones((2, 2), "uint8"), zeros(2, 2))


def test_dtypes_come_before_other_faults():
    with pytest.raises(TypeError, match="bool"):
        lax.broadcasted_iota(bool, (5,), -3)
    with pytest.raises(ValueError, match="dimension -3"):
        lax.broadcasted_iota(int, (5,), -3)
    with pytest.raises(TypeError, match="int32"):
        lax.linalg.schur(jnp.ones((2, 2), int), sort_eig_vals=True)


def test_axes_of_istft_are_checked():
    for axes in ({"time_axis": 3}, {"freq_axis": -3}):
        with pytest.raises(ValueError, match="out of bounds"):
            weft.scipy.signal.istft(jnp.ones((4, 3)), **axes)


def test_schur_gives_a_list():
    assert weft.tree.structure(weft.scipy.linalg.schur(jnp.eye(2))) == weft.tree.structure([1, 1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32"])
def test_quantiles_take_numbers_that_parameters_promote(dtype):
    """JAX refuses these, because of the dtype of the first argument alone."""
    q, scale = jnp.array([0, 1], dtype), jnp.float32(2)
    found = stats.norm.ppf(q / 2 + 0.25, scale=scale)
    np.testing.assert_allclose(found, [-1.349, 1.349], rtol=5e-3)
    assert stats.norm.ppf(q, scale=scale).tolist() == [-np.inf, np.inf]
    assert stats.norm.isf(q, scale=scale).tolist() == [np.inf, -np.inf]


def test_own_nans_of_fresnel_are_not_blamed():
    def total(x):
        s, c = special.fresnel(x)
        return s.sum() + c.sum()

    x = jnp.array([-2.0, 0.0, 1.0])
    with weft.debug_nans(True):
        found = weft.grad(weft.checkpoint(total))(x)
    half = np.pi / 2 * np.asarray(x, "f8") ** 2
    np.testing.assert_allclose(found, np.sin(half) + np.cos(half), atol=2e-5)


def test_exports_may_have_dictionaries_with_any_keys():
    made = weft.export.export(weft.jit(lambda d: d[1] * 2))({1: zeros(3) + 1})
    assert weft.export.deserialize(made.serialize()).call({1: zeros(3) + 1}).tolist() == [2, 2, 2]


def test_a_reference_on_one_device_is_passed_to_shard_map():
    mesh = weft.make_mesh((1,), ("x",), axis_types=(weft.sharding.AxisType.Auto,))

    def double(ref):
        ref[...] *= 2

    def run(ref):
        over = weft.shard_map(double, mesh=mesh, in_specs=weft.P("x"), out_specs=None)
        over(ref)
        return ref[...]

    assert weft.jit(run)(weft.new_ref(jnp.arange(4.0))).tolist() == [0, 2, 4, 6]
