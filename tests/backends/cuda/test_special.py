"""Operations of a special form that GPUs compute as others: the same values, in any dtype."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda.passes.special import special
from weft.core.jaxpr import jaxpr_as_fun

SPECS = {
    1: [("NWC", "WIO", "NWC"), ("NCW", "OIW", "NCW")],
    2: [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NHWC"), ("NHWC", "OIHW", "NCHW")],
}
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def names(closed):
    return {eqn.primitive.name for eqn in closed.jaxpr.eqns}


def drawn(seed):
    """A convolution of a dilated image with a filter for each channel."""
    rng = np.random.default_rng(seed)
    rank, batch, channels = *rng.integers(1, 3, 2), int(rng.integers(2, 6))
    sizes = {"N": int(batch), "C": channels, "O": channels, "I": 1}
    image, window = rng.integers(2, 7, rank), rng.integers(1, 4, rank)
    spec = SPECS[rank][rng.integers(len(SPECS[rank]))]
    shapes = []
    for letters, extents in ((spec[0], iter(image)), (spec[1], iter(window))):
        shapes.append([sizes[c] if c in sizes else int(next(extents)) for c in letters])
    pads = [tuple(map(int, rng.integers(-1, 4, 2))) for _ in range(rank)]
    drawn = lambda low, high: tuple(map(int, rng.integers(low, high, rank)))
    dilation = (2, *drawn(1, 4)[1:])
    options = {
        "window_strides": drawn(1, 3), "lhs_dilation": dilation, "rhs_dilation": drawn(1, 3)
    }  # fmt: skip
    dtype = DTYPES[seed % len(DTYPES)]
    args = [rng.normal(size=shape).astype(dtype) for shape in shapes]

    def convolve(x, w):
        return lax.conv_general_dilated(
            x, w, padding=pads, dimension_numbers=spec, feature_group_count=channels, **options
        )

    return convolve, args


@pytest.mark.parametrize("seed", range(24))
def test_filters_of_dilated_channels_are_sums(seed):
    function, args = drawn(seed)
    closed = weft.make_jaxpr(function)(*args)
    want = np.asarray(function(*args), np.float32)
    found = special(closed)
    if want.size:
        assert "conv_general_dilated" not in names(found)
    (got,) = jaxpr_as_fun(found)(*args)
    assert got.dtype == args[0].dtype
    rtol = 2e-2 if args[0].dtype != np.float32 else 1e-5
    np.testing.assert_allclose(np.asarray(got, np.float32), want, rtol, 10 * rtol)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_gradients_of_strided_filters_of_channels_are_no_convolutions_of_zeros(dtype):
    def loss(x, w):
        spec = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(
            x, w, (2, 2), "SAME", dimension_numbers=spec, feature_group_count=8
        )
        return (y.astype(np.float32) ** 2).sum()

    x, w = np.ones((2, 9, 12, 8), dtype), np.ones((3, 3, 1, 8), dtype)
    closed = special(weft.make_jaxpr(weft.grad(loss, (0, 1)))(x, w))
    dilated = [
        eqn.params["lhs_dilation"]
        for eqn in closed.jaxpr.eqns
        if eqn.primitive.name == "conv_general_dilated"
    ]
    assert all(max(steps) == 1 for steps in dilated)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("axis", [0, 1])
def test_gradients_of_one_element_a_row_are_comparisons(dtype, axis):
    x = np.arange(35.0).reshape(7, 5).astype(dtype)
    at = np.array([0, 4, -1, 2, 9, 3, 1]) if axis else np.array([6, 0, -7, 8, 2])

    def loss(x):
        own = jnp.take_along_axis(x, jnp.expand_dims(at, axis), axis)
        return jnp.where(own == own, own, 0).astype(np.float32).sum() + (x * x).sum()

    gradient = weft.grad(loss)
    closed = special(weft.make_jaxpr(gradient)(x))
    assert "scatter-add" not in names(closed)
    (got,) = jaxpr_as_fun(closed)(x)
    np.testing.assert_array_equal(np.float32(got), np.float32(gradient(x)))
