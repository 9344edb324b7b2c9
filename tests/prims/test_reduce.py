"""Reductions along axes and by a function: values, dtypes, derivatives, batches, text, errors."""

import numpy as np
import pytest

import weft
from tests.prims.derivatives import check_batch, check_derivatives, leaves
from weft import dtypes, lax

AXES = [(0,), (1,), (2,), (0, 2), (0, 1, 2), ()]
NUMPY = {
    lax.reduce_sum: np.sum,
    lax.reduce_prod: np.prod,
    lax.reduce_max: np.max,
    lax.reduce_min: np.min,
}
BITWISE = {
    lax.reduce_and: np.bitwise_and,
    lax.reduce_or: np.bitwise_or,
    lax.reduce_xor: np.bitwise_xor,
}


def draw(shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iub":
        return rng.integers(0, 100, shape).astype(dtype)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.uint16, np.complex64])
@pytest.mark.parametrize("function", NUMPY)
def test_values(function, dtype, axes):
    x = draw((2, 3, 4), dtype)
    out = function(x, axes)
    want = NUMPY[function](x, axis=axes)
    assert out.dtype == dtype
    np.testing.assert_allclose(out, want.astype(dtype), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.uint8])
@pytest.mark.parametrize("function", BITWISE)
def test_logic(function, dtype, axes):
    x = draw((2, 3, 4), dtype)
    out = function(x, axes)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, BITWISE[function].reduce(x, axis=axes))


@pytest.mark.parametrize("dtype", [np.float16, dtypes.bfloat16])
def test_narrow_floats_are_summed_in_float32(dtype):
    out = lax.reduce_sum(np.ones(5000, dtype), (0,))
    assert out.dtype == dtype
    assert float(out) == float(np.float32(5000).astype(dtype))


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float8_e4m3fn", "bfloat16"])
def test_narrow_dtypes(dtype):
    x = np.array([[1, 0, 1], [3, 1, 0]]).astype(dtype)
    assert np.asarray(lax.reduce_sum(x, (0,))).tolist() == [4, 1, 1]
    assert np.asarray(lax.reduce_max(x, (0,))).tolist() == [3, 1, 1]
    assert np.asarray(lax.reduce_prod(x, (1,))).tolist() == [0, 0]
    assert np.asarray(lax.argmax(x, 1, np.int32)).tolist() == [0, 0]


def test_nothing_gives_the_identity():
    nothing = np.zeros((0, 2), np.float32)
    assert np.asarray(lax.reduce_sum(nothing, (0,))).tolist() == [0, 0]
    assert np.asarray(lax.reduce_prod(nothing, (0,))).tolist() == [1, 1]
    assert np.asarray(lax.reduce_max(nothing, (0,))).tolist() == [-np.inf] * 2
    assert np.asarray(lax.reduce_min(nothing.astype(np.int32), (0,))).tolist() == [2**31 - 1] * 2
    assert np.asarray(lax.reduce_and(nothing.astype(np.int32), (0,))).tolist() == [-1, -1]
    assert np.asarray(lax.reduce_max(nothing.astype("float8_e4m3fn"), (0,))).tolist() == [-448] * 2


def test_nan_and_signed_zeros():
    x = np.array([1, np.nan, 3], np.float32)
    assert np.isnan(lax.reduce_max(x, (0,)))
    assert np.isnan(lax.reduce_min(x, (0,)))
    for zeros in ([0.0, -0.0], [-0.0, 0.0]):
        assert not np.signbit(lax.reduce_max(np.array(zeros, np.float32), (0,)))
        assert np.signbit(lax.reduce_min(np.array(zeros, np.float32), (0,)))


def test_arguments_of_extrema():
    x = np.array([[1, np.nan, 3, np.nan], [2, 5, 5, -1]], np.float32)
    assert np.asarray(lax.argmax(x, 1, np.int32)).tolist() == [1, 1]
    assert np.asarray(lax.argmin(x, 1, np.int32)).tolist() == [1, 3]
    assert lax.argmax(x, 0, np.uint8).dtype == np.uint8
    check_batch(lambda y: lax.argmax(y, 1, np.int32), draw((3, 4)))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), ()])
@pytest.mark.parametrize("function", NUMPY)
def test_derivatives(function, axes):
    check_derivatives(lambda x: function(x, axes), draw((3, 4)))
    check_batch(lambda x: function(x, axes), draw((3, 4)))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8])
def test_products_with_zeros_have_right_gradients(n):
    x = np.arange(1.0, n + 1)
    x[: n // 2] = 0
    grad = weft.grad(lambda y: lax.reduce_prod(y, (0,)))(x.astype(np.float32))
    want = [np.prod(np.delete(x, i)) for i in range(n)]
    np.testing.assert_allclose(grad, np.array(want, np.float32).reshape(n))


def test_equal_extrema_share_the_gradient():
    x = np.array([[3.0, 1.0], [3.0, 2.0], [0.0, 2.0]], np.float32)
    grad = weft.grad(lambda y: lax.reduce_sum(lax.reduce_max(y, (0,)), (0,)))(x)
    assert np.asarray(grad).tolist() == [[0.5, 0], [0.5, 0.5], [0, 0.5]]


def test_weak_types():
    assert weft.typeof(lax.reduce_sum(2.0, ())).weak_type
    assert not weft.typeof(lax.reduce_or(3, ())).weak_type
    assert not weft.typeof(lax.reduce(2.0, np.float32(0), lax.add, ())).weak_type
    assert weft.typeof(lax.reduce(2.0, 0.0, lax.add, ())).weak_type


TANGENT_OF_MAX = """\
{ lambda ; a:f32[3,4] b:f32[3,4]. let
    c:f32[4] = reduce_max[axes=(0,)] a
    d:f32[1,4] = reshape[dimensions=None new_sizes=(1, 4) sharding=None] c
    e:bool[3,4] = eq a d
    f:f32[3,4] = convert_element_type[new_dtype=float32 weak_type=False] e
    g:f32[4] = reduce_sum[axes=(0,) out_sharding=None] f
    h:f32[3,4] = mul b f
    i:f32[4] = reduce_sum[axes=(0,) out_sharding=None] h
    j:f32[4] = div i g
  in (c, j) }"""

TANGENT_OF_PRODUCT = """\
{ lambda ; a:f32[2,2] b:f32[2,2]. let
    c:f32[2,2] = reshape[dimensions=(1, 0) new_sizes=(2, 2) sharding=None] a
    d:f32[2,2] = reshape[dimensions=(1, 0) new_sizes=(2, 2) sharding=None] b
    e:f32[1,2] = slice[limit_indices=(1, 2) start_indices=(0, 0) strides=(1, 1)] c
    f:f32[1,2] = slice[limit_indices=(1, 2) start_indices=(0, 0) strides=(1, 1)] d
    g:f32[1,2] = slice[limit_indices=(2, 2) start_indices=(1, 0) strides=(1, 1)] c
    h:f32[1,2] = slice[limit_indices=(2, 2) start_indices=(1, 0) strides=(1, 1)] d
    i:f32[1,2] = mul e g
    j:f32[1,2] = mul f g
    k:f32[1,2] = mul e h
    l:f32[1,2] = add_any j k
    m:f32[2] = squeeze[dimensions=(0,)] i
    n:f32[2] = squeeze[dimensions=(0,)] l
  in (m, n) }"""


@pytest.mark.parametrize(
    ("function", "axes", "shape", "text"),
    [
        (lax.reduce_max, (0,), (3, 4), TANGENT_OF_MAX),
        (lax.reduce_prod, (1,), (2, 2), TANGENT_OF_PRODUCT),
    ],
)
def test_text_of_tangents(function, axes, shape, text):
    x = np.ones(shape, np.float32)
    tangent = weft.make_jaxpr(lambda x, t: weft.jvp(lambda y: function(y, axes), (x,), (t,)))
    assert str(tangent(x, x)) == text


ERRORS = [
    (lambda: lax.reduce_sum(np.ones(3, bool), (0,)), TypeError, "does not accept dtype bool"),
    (lambda: lax.reduce_and(np.ones(3, np.float32), (0,)), TypeError, "float32"),
    (lambda: lax.reduce_sum(np.ones((3, 4)), (0, 0)), ValueError, "twice"),
    (lambda: lax.reduce_max(np.ones((3, 4)), (2,)), ValueError, r"float32\[3,4\]"),
    (lambda: lax.reduce_max(np.ones((3, 4)), (-1,)), ValueError, "out of bounds"),
    (lambda: lax.argmax(np.ones((0, 3)), 0, np.int32), ValueError, r"\(0, 3\) is empty"),
    (lambda: lax.argmax(np.ones(3), 1, np.int32), ValueError, "axis 1"),
    (lambda: lax.argmax(np.ones(3), 0, np.float32), TypeError, "integer index_dtype"),
    (lambda: lax.argmin(np.ones(3, complex), 0, np.int32), TypeError, "complex"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


# --- by a function --------------------------------------------------------------------------------


MONOIDS = [
    (lax.add, 0, "reduce_sum"),
    (lax.mul, 1, "reduce_prod"),
    (lax.max, -(2**31), "reduce_max"),
    (lax.min, 2**31 - 1, "reduce_min"),
    (lax.bitwise_and, -1, "reduce_and"),
    (lax.bitwise_or, 0, "reduce_or"),
    (lax.bitwise_xor, 0, "reduce_xor"),
]


@pytest.mark.parametrize(("function", "identity", "name"), MONOIDS)
def test_known_functions_become_their_primitives(function, identity, name):
    def fun(x):
        return lax.reduce(x, np.int32(identity), function, (0,))

    (eqn,) = weft.make_jaxpr(fun)(np.ones((2, 3), np.int32)).eqns
    assert eqn.primitive.name == name
    other = weft.make_jaxpr(lambda x: lax.reduce(x, np.int32(3), function, (0,)))
    (eqn,) = other(np.ones((2, 3), np.int32)).eqns
    assert eqn.primitive.name == "reduce"


def hypotenuse(a, b):
    return lax.sqrt(lax.add(lax.mul(a, a), lax.mul(b, b)))


def larger_with_place(a, b):
    first = lax.ge(a[0], b[0])
    return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])


@pytest.mark.parametrize("dimensions", [(0,), (1,), (0, 1), (-1,)])
def test_reduce_by_a_function(dimensions):
    x = draw((5, 3))
    out = lax.reduce(x, np.float32(0), hypotenuse, dimensions)
    np.testing.assert_allclose(out, np.sqrt(np.sum(x * x, axis=dimensions)), rtol=1e-6)


def test_reduce_of_several_operands():
    x = draw((4, 6))
    places = np.broadcast_to(np.arange(6, dtype=np.int32), x.shape)
    inits = (np.float32(-np.inf), np.int32(0))
    values, where = lax.reduce((x, places), inits, larger_with_place, (1,))
    np.testing.assert_array_equal(values, x.max(1))
    np.testing.assert_array_equal(where, x.argmax(1))


def test_reduce_starts_at_the_initial_value():
    assert float(lax.reduce(np.ones(3, np.float32), 1.0, lax.add, (0,))) == 4
    nothing = lax.reduce(np.ones((0, 2), np.float32), np.float32(7), hypotenuse, (0,))
    assert np.asarray(nothing).tolist() == [7, 7]


def test_derivatives_of_reduce():
    def fun(x):
        return lax.reduce(x, np.zeros((), weft.typeof(x).dtype), hypotenuse, (0,))

    check_derivatives(fun, draw((5, 2)))
    check_batch(fun, draw((5, 2)))

    def from_start(x):
        return lax.reduce(x, lax.reduce_sum(x, (0, 1)), hypotenuse, (0,))

    check_derivatives(from_start, draw((5, 2)))
    check_batch(from_start, draw((5, 2)))


def test_errors_of_reduce():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="structure"):
        lax.reduce((x, x), 0.0, lax.add, (0,))
    with pytest.raises(ValueError, match="scalar initial values"):
        lax.reduce(x, np.zeros(2, np.float32), lax.add, (0,))
    with pytest.raises(TypeError, match="dtypes"):
        lax.reduce(x, np.int32(1), lax.add, (0,))
    with pytest.raises(TypeError, match=r"returned int32\[\]"):
        lax.reduce(x, 0.0, lambda a, b: 1, (0,))
    with pytest.raises(IndexError, match="out of bounds"):
        lax.reduce(x, 0.0, hypotenuse, (7,))
    with pytest.raises(NotImplementedError, match="further operands"):
        weft.make_jaxpr(lambda y: lax.reduce(y, 0.0, lambda a, b: lax.add(a, y[0, 0]), (0,)))(x)


def test_inside_jit():
    x = draw((5, 3))
    fun = weft.jit(lambda y: lax.reduce(y, np.float32(0), hypotenuse, (0,)))
    for a, b in zip(leaves(fun(x)), [np.sqrt(np.sum(x * x, 0))], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
