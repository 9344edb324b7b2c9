"""Cumulative reductions: values, dtypes, derivatives, batches, text, errors."""

import numpy as np
import pytest

import weft
from tests.prims.derivatives import check_batch, check_derivatives
from weft import dtypes, lax
from weft.prims.cumulative import parallel_scan
from weft.prims.extreme_tangent import extreme_tangent_p

NUMPY = {
    lax.cumsum: np.add.accumulate,
    lax.cumprod: np.multiply.accumulate,
    lax.cummax: np.maximum.accumulate,
    lax.cummin: np.minimum.accumulate,
    lax.cumlogsumexp: np.logaddexp.accumulate,
}


def draw(shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 5, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("function", NUMPY)
def test_values(function, dtype, axis, reverse):
    if function is lax.cumlogsumexp and dtype != np.float32:
        return
    x = draw((5, 7), dtype)
    out = function(x, axis, reverse)
    given = np.flip(x, axis) if reverse else x
    want = NUMPY[function](given, axis=axis, dtype=dtype)
    assert out.dtype == dtype
    np.testing.assert_allclose(out, np.flip(want, axis) if reverse else want, rtol=1e-5)


def test_narrow_floats_are_summed_in_float32():
    out = lax.cumsum(np.ones(1000, dtypes.bfloat16))
    assert out.dtype == dtypes.bfloat16
    assert float(out[-1]) == 1000


def test_complex():
    x = draw((6,)) + 1j * draw((6,), seed=1)
    x = x.astype(np.complex64)
    np.testing.assert_allclose(lax.cumsum(x), np.cumsum(x), rtol=1e-6)
    np.testing.assert_allclose(lax.cumprod(x), np.cumprod(x), rtol=1e-5)
    want = np.log(np.cumsum(np.exp(x)))
    np.testing.assert_allclose(lax.cumlogsumexp(x), want, rtol=1e-4)


def test_infinities_nan_and_zeros():
    x = np.array([-np.inf, -np.inf, 0.0, np.inf, 1.0], np.float32)
    assert np.asarray(lax.cumlogsumexp(x)).tolist() == [-np.inf, -np.inf, 0, np.inf, np.inf]
    assert np.isnan(lax.cummax(np.array([1, np.nan, 2], np.float32))).tolist() == [
        False,
        True,
        True,
    ]
    assert not np.any(np.signbit(lax.cumsum(np.array([-0.0, -0.0], np.float32))))
    zeros = np.array([-0.0, 0.0, -0.0], np.float32)
    assert np.signbit(lax.cummax(zeros)).tolist() == [True, False, False]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1,), (2,), (5,), (3, 4)])
@pytest.mark.parametrize("function", NUMPY)
def test_derivatives(function, shape, reverse):
    axis = len(shape) - 1
    check_derivatives(lambda x: function(x, axis, reverse), draw(shape))
    check_batch(lambda x: function(x, axis, reverse), draw(shape))


def test_products_with_zeros_have_right_gradients():
    x = np.array([2.0, 0.0, 3.0, 0.0], np.float32)
    grad = weft.grad(lambda y: lax.reduce_sum(lax.cumprod(y), (0,)))(x)
    assert np.asarray(grad).tolist() == [1, 8, 0, 0]


def test_equal_extrema_share_the_gradient():
    x = np.array([2.0, 2.0], np.float32)
    grad = weft.grad(lambda y: lax.cummax(y)[1])(x)
    assert np.asarray(grad).tolist() == [0.5, 0.5]


SHARED = {
    # of running maxima of equal elements, by JAX: what each result has of each tangent
    4: [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.5, 0], [0.25, 0.25, 0.25, 0.25]],
    5: [0.125, 0.125, 0.125, 0.125, 0.5],
    7: [0.0625, 0.0625, 0.0625, 0.0625, 0.125, 0.125, 0.5],
}


@pytest.mark.parametrize("function", [lax.cummax, lax.cummin])
def test_many_equal_extrema_share_it_as_in_jax(function):
    equal = lambda n: np.zeros(n, np.float32)
    found = weft.jacfwd(function)(equal(4))
    np.testing.assert_array_equal(found, SHARED[4])
    np.testing.assert_array_equal(weft.jacrev(function)(equal(4)), SHARED[4])
    backwards = weft.jacrev(lambda x: function(x, reverse=True))(equal(4))
    np.testing.assert_array_equal(backwards, np.flip(np.array(SHARED[4])))
    for n in (5, 7):
        np.testing.assert_array_equal(weft.grad(lambda x: function(x)[-1])(equal(n)), SHARED[n])


def by_the_tree(x, axis, reverse):
    """Running maxima whose derivative is that of the parallel scan."""
    return parallel_scan(lambda a, b: [lax.max(a[0], b[0])], [x], reverse, axis)[0]


@pytest.mark.parametrize("shape, axis, reverse", [
    ((19,), 0, False), ((3, 16), 1, True), ((9, 5), 0, True), ((2, 13, 3), 1, False),
])  # fmt: skip
def test_tangents_of_extrema_are_those_of_the_tree(shape, axis, reverse):
    rng = np.random.default_rng(len(shape))
    values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    special = rng.choice(values, shape, p=[0.2, 0.2, 0.2, 0.3, 0.02, 0.05, 0.03])

    def derivatives(function):
        tangent = lambda x, t: weft.jvp(function, (x,), (t,))[1]
        return weft.jit(lambda x, t: (tangent(x, t), weft.vjp(function, x)[1](t)[0]))

    ours = derivatives(lambda x: lax.cummax(x, axis, reverse))
    tree = derivatives(lambda x: by_the_tree(x, axis, reverse))
    t = draw(shape)
    for x in (draw(shape), special.astype(np.float32)):
        for got, want in zip(ours(x, t), tree(x, t), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_second_derivatives_of_extrema():
    """A tangent depends on tangents alone; by elements, its derivative is zero."""
    x = np.array([1.0, 3.0, 3.0, 2.0, 5.0], np.float32)
    loss = lambda x: (lax.cummax(x) ** 3).sum()
    tree = lambda x: (by_the_tree(x, 0, False) ** 3).sum()
    np.testing.assert_allclose(weft.hessian(loss)(x), weft.hessian(tree)(x), rtol=1e-6)
    rows = np.stack([x, x[::-1], -x])
    got, want = (weft.vmap(weft.grad(f))(rows) for f in (loss, tree))
    np.testing.assert_allclose(got, want, rtol=1e-6)
    got, want = (weft.vmap(weft.grad(f), 1)(rows.T) for f in (loss, tree))
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_gradients_of_extrema_are_few_operations():
    x = np.zeros((4, 1000), np.float32)
    grad = weft.grad(lambda x: (lax.cummax(x, 1) - lax.cummin(x, 1, True)).sum())
    names = [str(eqn.primitive) for eqn in weft.make_jaxpr(grad)(x).eqns]
    assert names.count("extreme_tangent") == 2 and len(names) < 12


TANGENT_OF_PRODUCT = """\
{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[1] = slice[limit_indices=(2,) start_indices=(0,) strides=(2,)] a
    d:f32[1] = slice[limit_indices=(2,) start_indices=(0,) strides=(2,)] b
    e:f32[1] = slice[limit_indices=(3,) start_indices=(1,) strides=(2,)] a
    f:f32[1] = slice[limit_indices=(3,) start_indices=(1,) strides=(2,)] b
    g:f32[1] = mul c e
    h:f32[1] = mul d e
    i:f32[1] = mul c f
    j:f32[1] = add_any h i
    k:f32[1] = slice[limit_indices=(3,) start_indices=(2,) strides=(2,)] a
    l:f32[1] = slice[limit_indices=(3,) start_indices=(2,) strides=(2,)] b
    m:f32[1] = mul g k
    n:f32[1] = mul j k
    o:f32[1] = mul g l
    p:f32[1] = add_any n o
    q:f32[1] = slice[limit_indices=(1,) start_indices=(0,) strides=(1,)] a
    r:f32[1] = slice[limit_indices=(1,) start_indices=(0,) strides=(1,)] b
    s:f32[2] = concatenate[dimension=0] q m
    t:f32[2] = concatenate[dimension=0] r p
    u:f32[3] = pad[padding_config=((0, 0, 1),)] s 0.0:f32[]
    v:f32[3] = pad[padding_config=((0, 0, 1),)] t 0.0:f32[]
    w:f32[3] = pad[padding_config=((1, 1, 1),)] g 0.0:f32[]
    x:f32[3] = pad[padding_config=((1, 1, 1),)] j 0.0:f32[]
    y:f32[3] = add u w
    z:f32[3] = add v x
  in (y, z) }"""


def test_text_of_a_tangent():
    x = np.ones(3, np.float32)
    tangent = weft.make_jaxpr(lambda x, t: weft.jvp(lax.cumprod, (x,), (t,)))
    assert str(tangent(x, x)) == TANGENT_OF_PRODUCT


def shared(t, dtype=np.float32, axis=0):
    x = np.ones(2, dtype)
    params = {"axis": axis, "reverse": False, "least": False, "transposed": False}
    return extreme_tangent_p.bind(t.astype(dtype), x, x, **params)


ERRORS = [
    (lambda: lax.cumsum(np.ones((2, 3)), 2), ValueError, "axis 2"),
    (lambda: lax.cummax(np.ones((2, 3)), -1), ValueError, "at least 0"),
    (lambda: lax.cumsum(np.ones(3, bool)), TypeError, "does not accept dtype bool"),
    (lambda: lax.cumlogsumexp(np.ones(3, np.int32)), TypeError, "int32"),
    (lambda: shared(np.ones(3)), TypeError, "same shape"),
    (lambda: shared(np.ones(2), axis=1), ValueError, "axis 1"),
    (lambda: shared(np.ones(2, np.int32), np.int32), TypeError, "int32"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
