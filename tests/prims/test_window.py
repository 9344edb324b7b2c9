"""Windows: values by their definition, derivatives, batches, text, padding, errors."""

from itertools import product

import numpy as np
import pytest

import weft
from tests.prims.derivatives import check_batch, check_derivatives
from weft import dtypes, lax

# window_dimensions, window_strides, padding, base_dilation, window_dilation
WINDOWS = {
    "plain": ((2, 3), None, "VALID", None, None),
    "same": ((2, 3), (1, 2), "SAME", None, None),
    "lower": ((2, 2), (2, 1), "SAME_LOWER", None, None),
    "pairs": ((2, 2), (1, 1), ((1, 2), (0, 1)), None, None),
    "base": ((2, 2), (1, 2), ((0, 1), (1, 0)), (2, 3), None),
    "dilated": ((2, 3), (2, 1), "VALID", None, (2, 1)),
    "both": ((3, 2), (2, 2), "SAME", (1, 2), (1, 2)),
    "cut": ((2, 2), (1, 1), ((-1, 0), (0, -2)), None, None),
    "one": ((1, 1), (2, 2), "VALID", None, None),
    "none": ((9, 2), (1, 1), "VALID", None, None),
}


def draw(shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 50, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def by_definition(reduce, x, identity, window, strides, padding, base, dilation):
    ones = (1,) * x.ndim
    strides, base, dilation = strides or ones, base or ones, dilation or ones
    extents = [1 + d * (w - 1) for w, d in zip(window, dilation, strict=True)]
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(x.shape, extents, strides, padding)
    sizes = [1 + d * (n - 1) for n, d in zip(x.shape, base, strict=True)]
    counts = [
        max((n + lo + hi - e) // s + 1, 0)
        for n, (lo, hi), e, s in zip(sizes, padding, extents, strides, strict=True)
    ]
    out = np.full(counts, identity, x.dtype)
    for index in np.ndindex(*counts):
        for offset in product(*map(range, window)):
            place = [
                i * s + o * d - lo
                for i, s, o, d, (lo, _) in zip(
                    index, strides, offset, dilation, padding, strict=True
                )
            ]
            bounds = zip(place, sizes, base, strict=True)
            if all(0 <= p < n and p % d == 0 for p, n, d in bounds):
                value = x[tuple(p // d for p, d in zip(place, base, strict=True))]
                out[index] = reduce(out[index], value)
    return out


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_values(name, dtype):
    x = draw((5, 7), dtype)
    low, high = (-np.inf, np.inf) if dtype == np.float32 else (-(2**31), 2**31 - 1)
    for function, reduce, identity in (
        (lax.add, np.add, 0),
        (lax.max, np.maximum, low),
        (lax.min, np.minimum, high),
        (lax.mul, np.multiply, 1),
    ):
        out = lax.reduce_window(x, np.array(identity, dtype)[()], function, *WINDOWS[name])
        with np.errstate(over="ignore"):
            want = by_definition(reduce, x, identity, *WINDOWS[name])
        assert out.dtype == dtype
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)


def test_narrow_floats_are_summed_in_float32():
    out = lax.reduce_window(np.ones(600, dtypes.bfloat16), dtypes.bfloat16(0), lax.add, (512,))
    assert out.dtype == dtypes.bfloat16
    assert float(out[0]) == 512


def test_nan_is_the_extremum():
    x = np.array([1, np.nan, 3, 4], np.float32)
    out = lax.reduce_window(x, -np.inf, lax.max, (2,))
    assert np.isnan(out).tolist() == [True, True, False]


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("function", [lax.add, lax.max, lax.min, lax.mul])
def test_derivatives_and_batches(function, name):
    identity = {lax.add: 0.0, lax.max: -np.inf, lax.min: np.inf, lax.mul: 1.0}[function]

    def fun(x):
        start = np.array(identity, weft.typeof(x).dtype)[()]
        return lax.reduce_window(x, start, function, *WINDOWS[name])

    check_derivatives(fun, draw((5, 7)))
    check_batch(fun, draw((5, 7)))


def larger_with_place(a, b):
    first = lax.ge(a[0], b[0])
    return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])


def test_several_operands():
    x = draw((9,))
    inits = (np.float32(-np.inf), np.int32(-1))
    operands = (x, np.arange(9, dtype=np.int32))
    values, places = lax.reduce_window(operands, inits, larger_with_place, (3,), (2,))
    want = [i + int(np.argmax(x[i : i + 3])) for i in range(0, 7, 2)]
    assert np.asarray(places).tolist() == want
    np.testing.assert_array_equal(values, x[want])

    def fun(y):
        start = np.array(-np.inf, weft.typeof(y).dtype)[()]
        return lax.reduce_window((y, operands[1]), (start, inits[1]), larger_with_place, (3,))[0]

    check_derivatives(fun, x)


def test_start_that_depends_on_the_operand():
    def fun(x):
        return lax.reduce_window(x, lax.sin(x[0]), lax.mul, (2,), (1,), "SAME")

    check_derivatives(fun, draw((5,)))
    check_batch(fun, draw((5,)))


def test_gradient_of_max_goes_to_the_first_of_equals():
    x = np.array([1.0, 2.0, 2.0, 0.0], np.float32)

    def fun(y):
        return lax.reduce_sum(lax.reduce_window(y, -np.inf, lax.max, (2,)), (0,))

    assert np.asarray(weft.grad(fun)(x)).tolist() == [0, 2, 1, 0]


def test_select_and_scatter():
    x = draw((4, 5))
    source = draw((3, 4), seed=1)
    closed = {
        name: weft.make_jaxpr(function)(np.float32(0), np.float32(0))
        for name, function in (("select", lax.ge), ("scatter", lax.add))
    }
    params = {"window_dimensions": (2, 2), "window_strides": (1, 1), "padding": ((0, 0), (0, 0))}

    def fun(x, source):
        return lax.select_and_scatter_p.bind(
            x,
            source,
            np.float32(0),
            select_jaxpr=closed["select"].jaxpr,
            select_consts=(),
            scatter_jaxpr=closed["scatter"].jaxpr,
            scatter_consts=(),
            **params,
        )

    def pooled(y):
        return lax.reduce_window(y, -np.inf, lax.max, (2, 2))

    _, pull = weft.vjp(pooled, x)
    np.testing.assert_allclose(fun(x, source), pull(source)[0], rtol=1e-6)
    out = weft.vmap(fun)(np.stack([x, -x]), np.stack([source, source]))
    np.testing.assert_allclose(out[1], fun(-x, source), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="select_and_scatter has no derivative; wrap"):
        weft.grad(lambda x: fun(x, source).sum())(x)


TANGENT_OF_MAX = """\
{ lambda ; a:f32[4,5] b:f32[4,5]. let
    c:f32[4,3] = reduce_window_max[
      base_dilation=(1, 1)
      padding=((0, 1), (1, 1))
      window_dilation=(1, 1)
      window_dimensions=(2, 3)
      window_strides=(1, 2)
    ] a
    d:f32[4,3] = select_and_gather_add[
      base_dilation=(1, 1)
      padding=((0, 1), (1, 1))
      select_prim=ge
      window_dilation=(1, 1)
      window_dimensions=(2, 3)
      window_strides=(1, 2)
    ] b a
  in (c, d) }"""

TANGENT_OF_PRODUCT = """\
{ lambda ; a:f32[4,5] b:f32[4,5]. let
    c:f32[4,3] d:f32[4,3] = reduce_window[
      base_dilation=(1, 1)
      consts=()
      jaxpr={ lambda ; e:f32[] f:f32[] g:f32[] h:f32[]. let
          i:f32[] = mul e g
          j:f32[] = mul f g
          k:f32[] = mul e h
          l:f32[] = add_any j k
        in (i, l) }
      padding=((0, 1), (1, 1))
      window_dilation=(1, 1)
      window_dimensions=(2, 3)
      window_strides=(1, 2)
    ] a b 1.0:f32[] 0.0:f32[]
  in (c, d) }"""


@pytest.mark.parametrize(
    ("function", "start", "text"),
    [(lax.max, -np.inf, TANGENT_OF_MAX), (lax.mul, 1.0, TANGENT_OF_PRODUCT)],
)
def test_text_of_tangents(function, start, text):
    def fun(x):
        return lax.reduce_window(x, start, function, (2, 3), (1, 2), "SAME")

    x = np.ones((4, 5), np.float32)
    assert str(weft.make_jaxpr(lambda x, t: weft.jvp(fun, (x,), (t,)))(x, x)) == text


def test_padding_by_name():
    assert lax.padtype_to_pads((10, 5), (3, 2), (2, 1), "SAME") == [(0, 1), (0, 1)]
    assert lax.padtype_to_pads((10, 5), (3, 2), (2, 1), "same_lower") == [(1, 0), (1, 0)]
    assert lax.padtype_to_pads((10, 5), (3, 2), (2, 1), "VALID") == [(0, 0), (0, 0)]
    with pytest.raises(RuntimeError, match="'SAME_LOWER'"):
        lax.padtype_to_pads((10,), (3,), (2,), "FULL")
    with pytest.raises(TypeError, match="3"):
        lax.padtype_to_pads((10,), (3,), (2,), 3)


def test_shape_tuple():
    assert lax.reduce_window_shape_tuple((10, 5), (3, 2), (2, 1), ((0, 0), (1, 1))) == (4, 6)
    assert lax.reduce_window_shape_tuple((3,), (2,), (1,), ((0, 0),), (2,), (2,)) == (3,)


X = np.ones((4, 5), np.float32)
ERRORS = [
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2,)), TypeError, r"window_dimensions \(2,\)"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1, 0)), TypeError, "window_strides"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 0)), TypeError, "positive window_dimensions"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1,)), TypeError, "lengths differ"),
    (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), base_dilation=(0, 1)),
        TypeError,
        "base_dilation",
    ),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), padding="NO"), RuntimeError, "'NO'"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), padding=((0, 0),)), ValueError, "pair"),
    (lambda: lax.reduce_window(X, np.int32(1), lax.mul, (2, 2)), TypeError, "dtypes"),
    (lambda: lax.reduce_window(X, np.zeros(2, "f"), lax.mul, (2, 2)), TypeError, "scalar"),
    (lambda: lax.reduce_window((), (), lax.add, ()), ValueError, "at least one operand"),
    (lambda: lax.reduce_window(X, (1.0,), lax.add, (2, 2)), ValueError, "structure"),
    (
        lambda: lax.reduce_window(X, 1.0, lambda a, b: (a, b), (2, 2)),
        ValueError,
        "structure of the operands",
    ),
    (lambda: lax.reduce_window(X > 0, False, lax.add, (2, 2)), TypeError, "bool"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
