"""Operations of a special form as others: they give what the operation gives, bit by bit where no
number is rounded."""

import numpy as np
import pytest

import weft
import weft.extend.core
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda.passes.special import special

RNG = np.random.default_rng(0)
LAYOUTS = {
    "last": (("NHWC", "HWIO", "NHWC"), (2, 23, 24, 3), (7, 7, 3, 8)),
    "first": (("NCHW", "OIHW", "NCHW"), (2, 1, 17, 30), (8, 1, 5, 3)),
    "mixed": (("NCHW", "HWIO", "NHWC"), (2, 4, 16, 16), (4, 4, 4, 8)),
    "a line": (("NHC", "HIO", "NHC"), (3, 90, 2), (5, 2, 8)),
}


def small(*shape):
    return jnp.asarray(RNG.integers(-2, 3, shape), jnp.bfloat16)


def run(function, *args):
    """Results of a program after the pass, and its convolutions."""
    made = special(weft.make_jaxpr(function)(*args))
    convolutions = [e for e in made.jaxpr.eqns if e.primitive.name == "conv_general_dilated"]
    return weft.extend.core.jaxpr_as_fun(made)(*args), convolutions


@pytest.mark.parametrize("padding", ["SAME", "VALID", 2])
@pytest.mark.parametrize("strides", [(2, 2), (3, 1), (4, 2)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_of_few_channels_become_channels(layout, strides, padding):
    numbers, *shapes = LAYOUTS[layout]
    x, w = (small(*shape) for shape in shapes)
    strides = strides[: x.ndim - 2]
    padding = [(1, padding)] * len(strides) if padding == 2 else padding

    def layer(x, w):
        return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers)

    want = layer(x, w)
    (found,), (convolution,) = run(layer, x, w)
    assert max(convolution.params["window_strides"]) == 1
    assert convolution.invars[1].aval.shape[-2] % 8 == 0
    np.testing.assert_array_equal(found, want)
    g = small(*want.shape) / 2
    by_filters = lambda x, w, g: weft.vjp(lambda w: layer(x, w), w)[1](g)
    found, convolutions = run(by_filters, x, w, g)
    np.testing.assert_array_equal(found[0], by_filters(x, w, g)[0])
    assert len(convolutions) <= 2


def test_a_gradient_by_filters_of_many_results_has_no_dilation():
    layer = lambda x, w: lax.conv_general_dilated(
        x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x, w, g = small(2, 40, 40, 3), small(7, 7, 3, 8), small(2, 20, 20, 8)
    by_filters = lambda x, w, g: weft.vjp(lambda w: layer(x, w), w)[1](g)
    (found,), convolutions = run(by_filters, x, w, g)
    assert [e.params["rhs_dilation"] for e in convolutions][-1] == (1, 1)
    np.testing.assert_array_equal(found, by_filters(x, w, g)[0])


@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
@pytest.mark.parametrize("padding", ["SAME", ((0, 1), (2, 1)), ((1, 0), (1, 1))])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 1)])
def test_padding_is_the_same_on_both_sides(strides, padding, dilation):
    numbers = ("NHWC", "HWIO", "NHWC")
    layer = lambda x, w: lax.conv_general_dilated(
        x, w, strides, padding, rhs_dilation=dilation, dimension_numbers=numbers
    )
    x, w = small(2, 16, 17, 8), small(3, 5, 8, 8)
    (found,), (convolution,) = run(layer, x, w)
    want = layer(x, w)
    assert all(low == high for low, high in convolution.params["padding"])
    np.testing.assert_array_equal(found, want)
    gradients = lambda x, w, g: weft.vjp(layer, x, w)[1](g)
    g = small(*want.shape)
    for a, b in zip(run(gradients, x, w, g)[0], gradients(x, w, g), strict=True):
        np.testing.assert_allclose(a.astype(np.float32), b.astype(np.float32), rtol=1e-2)


def test_a_gradient_by_data_of_what_was_padded_is_a_part_of_a_larger_one():
    layer = lambda x, w: lax.conv_general_dilated(
        x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x, w, g = small(2, 16, 16, 8), small(3, 3, 8, 8), small(2, 8, 8, 8)
    by_data = lambda x, w, g: weft.vjp(lambda x: layer(x, w), x)[1](g)
    (found,), convolutions = run(by_data, x, w, g)
    assert convolutions[-1].params["padding"] == ((2, 2), (2, 2))
    np.testing.assert_array_equal(found, by_data(x, w, g)[0])


def test_other_convolutions_stay():
    numbers = ("NHWC", "HWIO", "NHWC")
    for x, w, strides in (
        (small(2, 16, 16, 8), small(3, 3, 8, 8), (2, 2)),  # many channels
        (small(2, 16, 16, 3), small(3, 3, 3, 8), (1, 1)),  # no strides
        (small(2, 16, 16, 3), small(2, 2, 3, 8), (2, 2)),  # windows that don't overlap
        (small(2, 17, 17, 3).astype(np.float32), small(3, 3, 3, 8).astype(np.float32), (2, 2)),
    ):
        layer = lambda x, w, s=strides: lax.conv_general_dilated(
            x, w, s, [(1, 1), (1, 1)], dimension_numbers=numbers
        )
        _, (convolution,) = run(layer, x, w)
        assert convolution.params["window_strides"] == strides
