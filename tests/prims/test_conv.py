"""Convolutions: values against the definition, derivatives, transposes, batches and errors."""

import itertools

import numpy as np
import pytest

import weft
from weft import dtypes, lax


def draw(shape, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iub":
        return rng.integers(0, 4, shape).astype(dtype)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values).astype(dtype)


class Config:
    """A convolution with everything drawn at random."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        pick = lambda low, high: int(rng.integers(low, high))
        n = pick(0, 4)
        self.features, self.batches = ((1, 1), (pick(2, 4), 1), (1, pick(2, 4)))[pick(0, 3)]
        self.strides = tuple(pick(1, 4) for _ in range(n))
        self.lhs_dilation = tuple(pick(1, 3) for _ in range(n))
        self.rhs_dilation = tuple(pick(1, 3) for _ in range(n))
        space = [pick(1, 5) for _ in range(n)]
        window = [pick(1, 4) for _ in range(n)]
        self.padding = tuple(
            (pick(-1, 3), pick(-1, 3)) if size > 2 else (pick(0, 3), pick(0, 3)) for size in space
        )
        inputs = pick(1, 3)
        letters = "HWD"[:n]
        sizes = dict(zip(letters, space, strict=True))
        sizes |= {"N": self.batches * pick(1, 3), "C": inputs * self.features}
        kernel = dict(zip(letters, window, strict=True))
        kernel |= {"O": self.features * self.batches * pick(1, 3), "I": inputs}
        shuffled = lambda names: "".join(rng.permutation(list(names + letters)))
        self.layout = shuffled("NC"), shuffled("OI"), shuffled("NC")
        self.lhs = tuple(sizes[c] for c in self.layout[0])
        self.rhs = tuple(kernel[c] for c in self.layout[1])

    def __call__(self, x, w):
        return lax.conv_general_dilated(
            x,
            w,
            self.strides,
            self.padding,
            self.lhs_dilation,
            self.rhs_dilation,
            self.layout,
            self.features,
            self.batches,
        )

    def by_definition(self, x, w):
        """Every element of the result, one product at a time."""
        lhs_spec, rhs_spec, out_spec = lax.conv_general_permutations(self.layout)
        x, w = x.transpose(lhs_spec), w.transpose(rhs_spec)
        counts = []
        for i, (low, high) in enumerate(self.padding):
            size = self.lhs_dilation[i] * (x.shape[2 + i] - 1) + 1 + low + high
            reach = self.rhs_dilation[i] * (w.shape[2 + i] - 1) + 1
            counts.append(max(0, (size - reach) // self.strides[i] + 1))
        batch, outputs = x.shape[0] // self.batches, w.shape[0]
        out = np.zeros((batch, outputs, *counts), x.dtype)
        groups = self.features * self.batches
        for n, o in itertools.product(range(batch), range(outputs)):
            group = o // (outputs // groups)
            row = n + group * batch if self.batches > 1 else n
            first = group * w.shape[1] if self.features > 1 else 0
            for place in np.ndindex(*counts):
                for tap in np.ndindex(*w.shape[2:]):
                    at = self._source(place, tap, x.shape[2:])
                    if at is not None:
                        part = x[(row, slice(first, first + w.shape[1]), *at)]
                        out[(n, o, *place)] += np.sum(part * w[(o, slice(None), *tap)])
        return out.transpose(np.argsort(out_spec))

    def _source(self, place, tap, sizes):
        """Which element of the input a tap of the window at a place meets, if any."""
        at = []
        for i, size in enumerate(sizes):
            position = place[i] * self.strides[i] + tap[i] * self.rhs_dilation[i]
            index, hole = divmod(position - self.padding[i][0], self.lhs_dilation[i])
            if hole or not 0 <= index < size:
                return None
            at.append(index)
        return at


@pytest.fixture(autouse=True)
def double():
    with weft.enable_x64(True):
        yield


@pytest.mark.parametrize("seed", range(60))
def test_definition(seed):
    config = Config(seed)
    dtype = [np.float64, np.int64, np.complex128][seed % 3]
    x, w = draw(config.lhs, dtype), draw(config.rhs, dtype, 1)
    want = config.by_definition(x, w)
    out = config(x, w)
    assert out.dtype == dtype
    assert out.shape == want.shape
    np.testing.assert_allclose(out, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(40))
def test_derivatives(seed):
    config = Config(seed)
    x, w = draw(config.lhs), draw(config.rhs, seed=1)
    dx, dw = draw(config.lhs, seed=2), draw(config.rhs, seed=3)
    out, tangent = weft.jvp(config, (x, w), (dx, dw))
    step = 1e-5
    above, below = config(x + step * dx, w + step * dw), config(x - step * dx, w - step * dw)
    want = (np.asarray(above) - np.asarray(below)) / (2 * step)
    np.testing.assert_allclose(tangent, want, rtol=1e-7, atol=1e-7)
    ct = draw(out.shape, seed=4)
    _, pull = weft.vjp(config, x, w)
    back = pull(weft.numpy.asarray(ct))
    assert back[0].shape == config.lhs
    assert back[1].shape == config.rhs
    reverse = np.sum(np.asarray(back[0]) * dx) + np.sum(np.asarray(back[1]) * dw)
    np.testing.assert_allclose(np.sum(np.asarray(tangent) * ct), reverse, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_batches(seed):
    config = Config(seed)
    rng = np.random.default_rng(seed)
    xs, ws = draw((2, *config.lhs)), draw((2, *config.rhs), seed=1)
    i, j = int(rng.integers(xs.ndim)), int(rng.integers(ws.ndim))
    x, w = np.moveaxis(xs, 0, i), np.moveaxis(ws, 0, j)
    close = lambda got, loop: np.testing.assert_allclose(got, loop, rtol=1e-10, atol=1e-10)
    close(weft.vmap(config, (i, j))(x, w), [config(xs[k], ws[k]) for k in range(2)])
    close(weft.vmap(config, (i, None))(x, ws[0]), [config(xs[k], ws[0]) for k in range(2)])
    close(weft.vmap(config, (None, j))(xs[0], w), [config(xs[0], ws[k]) for k in range(2)])


def test_a_batch_of_none():
    out = weft.vmap(lambda x, w: lax.conv(x, w, (1,), "SAME"), (0, None))(
        np.zeros((0, 1, 2, 5)), np.zeros((3, 2, 2))
    )
    assert out.shape == (0, 1, 3, 5)


def test_no_result_means_no_gradient():
    x, w = draw((1, 1, 2)), draw((1, 1, 3))
    out, pull = weft.vjp(lambda x, w: lax.conv(x, w, (1,), "VALID"), x, w)
    assert out.shape == (1, 1, 0)
    gx, gw = pull(out)
    np.testing.assert_array_equal(gx, np.zeros((1, 1, 2)))
    np.testing.assert_array_equal(gw, np.zeros((1, 1, 3)))


def test_a_large_batch_is_taken_in_parts(monkeypatch):
    config = Config(5)
    x, w = draw(config.lhs), draw(config.rhs, seed=1)
    want = config(x, w)
    monkeypatch.setattr("weft.prims.conv._WINDOW_ELEMENTS", 1)
    np.testing.assert_allclose(config(x, w), want, rtol=1e-12)


PROGRAM = """\
{ lambda ; a:f32[2,4,5] b:f32[6,2,3]. let
    c:f32[2,6,3] = conv_general_dilated[
      batch_group_count=1
      dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 1, 2), rhs_spec=(0, 1, 2), \
out_spec=(0, 1, 2))
      feature_group_count=2
      lhs_dilation=(1,)
      out_sharding=None
      padding=((1, 1),)
      precision=None
      preferred_element_type=None
      rhs_dilation=(1,)
      window_strides=(2,)
    ] a b
  in (c,) }"""


def test_printed():
    fun = lambda x, w: lax.conv_general_dilated(x, w, (2,), "SAME", feature_group_count=2)
    x, w = draw((2, 4, 5), np.float32), draw((6, 2, 3), np.float32)
    assert str(weft.make_jaxpr(fun)(x, w)) == PROGRAM


@pytest.mark.parametrize(
    ("padding", "want"),
    [
        ("SAME", [3, 6, 9, 12, 9]),
        ("same_lower", [3, 6, 9, 12, 9]),
        ("VALID", [6, 9, 12]),
        (((0, 1),), [6, 9, 12, 9]),
        (((-1, 0),), [9, 12]),
    ],
)
def test_padding(padding, want):
    x, w = np.arange(1.0, 6).reshape(1, 1, 5), np.ones((1, 1, 3))
    np.testing.assert_array_equal(lax.conv_general_dilated(x, w, (1,), padding)[0, 0], want)


def test_same_puts_the_odd_border_after_and_same_lower_before():
    x, w = np.arange(1.0, 5).reshape(1, 1, 4), np.ones((1, 1, 2))
    np.testing.assert_array_equal(lax.conv(x, w, (1,), "SAME")[0, 0], [3, 5, 7, 4])
    np.testing.assert_array_equal(lax.conv(x, w, (1,), "SAME_LOWER")[0, 0], [1, 3, 5, 7])


@pytest.mark.parametrize(
    ("source", "preferred"),
    [("int8", "int32"), ("int8", "float32"), ("bfloat16", "float32"), ("bfloat16", None)],
)
def test_dtypes(source, preferred):
    x, w = draw((1, 2, 9), np.int8).astype(source), draw((3, 2, 4), np.int8, 1).astype(source)
    out = lax.conv_general_dilated(
        x, w, (1,), "VALID", preferred_element_type=preferred and np.dtype(preferred)
    )
    want = lax.conv(x.astype(np.float64), w.astype(np.float64), (1,), "VALID")
    assert out.dtype == np.dtype(preferred or source)
    np.testing.assert_allclose(np.asarray(out).astype(np.float64), want, rtol=1e-2)


def test_gradients_of_narrow_operands_have_their_dtype():
    x, w = draw((1, 2, 5)).astype(dtypes.bfloat16), draw((3, 2, 2)).astype(dtypes.bfloat16)
    fun = lambda x, w: lax.conv(x, w, (1,), "SAME", preferred_element_type=np.float32)
    out, pull = weft.vjp(fun, x, w)
    assert [g.dtype for g in pull(out)] == [dtypes.bfloat16, dtypes.bfloat16]


# --- the other public functions -------------------------------------------------------------------


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_conv_transpose_is_the_gradient_of_conv(padding, stride, window):
    x, w = draw((1, 4, 2)), draw((window, 3, 2), seed=1)
    out = lax.conv_transpose(x, w, (stride,), padding, transpose_kernel=True)
    layout = ("NHC", "HIO", "NHC")
    shape = lax.conv_transpose_shape_tuple(x.shape, (window, 2, 3), (stride,), padding, layout)
    assert out.shape == shape
    fun = lambda y: lax.conv_general_dilated(y, w, (stride,), padding, None, None, layout)
    if padding == "VALID" and window < stride:
        return  # then several sizes convolve to this one, and the smallest is not the result's
    _, pull = weft.vjp(fun, np.zeros(out.shape))
    np.testing.assert_allclose(out, pull(weft.numpy.asarray(x))[0], rtol=1e-10, atol=1e-10)


def test_conv_transpose_padding_in_pairs():
    x, w = draw((1, 5, 2)), draw((3, 2, 2), seed=1)
    pads = ((1, 0),)
    own = lax.conv_transpose(x, w, (2,), pads)
    assert own.shape == (1, 8, 2)
    consistent = lax.conv_transpose(x, w, (2,), pads, use_consistent_padding=True)
    np.testing.assert_array_equal(consistent, lax.conv_transpose(x, w, (2,), ((1, 2),)))


def test_patches_are_ordered_by_feature_then_place():
    x = np.arange(2 * 3 * 3.0).reshape(1, 2, 3, 3)
    out = np.asarray(lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"))
    assert out.shape == (1, 8, 2, 2)
    want = [x[0, c, i : i + 2, j : j + 2] for c in range(2) for i in range(2) for j in range(2)]
    got = out[0].reshape(2, 2, 2, 2, 2)  # feature, place in the window, place in the result
    for c, i, j in itertools.product(range(2), repeat=3):
        np.testing.assert_array_equal(got[c, :, :, i, j], want[4 * c + 2 * i + j])


def test_local_with_equal_kernels_is_a_convolution():
    x, w = draw((2, 5, 4, 3)), draw((3, 2, 3, 4), seed=1)
    layout = ("NHWC", "HWIO", "NHWC")
    want = lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=layout)
    flat = w.transpose(2, 0, 1, 3).reshape(18, 4)
    local = np.broadcast_to(flat, (*want.shape[1:3], 18, 4))
    out = lax.conv_general_dilated_local(
        x, local, (1, 1), "VALID", (3, 2), dimension_numbers=layout
    )
    np.testing.assert_allclose(out, want, rtol=1e-10)


def test_shapes_and_layouts():
    numbers = lax.conv_dimension_numbers((1, 5, 5, 2), (3, 3, 2, 4), ("NHWC", "HWIO", "NHWC"))
    assert numbers == lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    shape = lax.conv_shape_tuple((1, 2, 8, 8), (4, 2, 3, 3), (2, 2), ((0, 0), (1, 1)))
    assert shape == (1, 4, 3, 4)
    assert lax.conv_shape_tuple((6, 2, 8), (4, 2, 3), (1,), "SAME", 2) == (3, 4, 8)
    layout = ("NHWC", "HWIO", "NCHW")
    shape = lax.conv_general_shape_tuple((1, 8, 8, 2), (3, 3, 2, 4), (2, 1), "SAME", layout)
    assert shape == (1, 4, 4, 8)
    ones = np.ones((1, 2, 5))
    lists = lax.ConvDimensionNumbers([0, 1, 2], [0, 1, 2], [0, 2, 1])
    assert lax.conv_general_dilated(ones, ones, [1], [(0, 0)], [1], [1], lists).shape == (1, 1, 1)


ERRORS = [
    (TypeError, "equal rank", {"rhs": (3, 2, 2, 2)}),
    (ValueError, "one number in window_strides", {"strides": (1, 1), "padding": "VALID"}),
    (ValueError, "one stride per dimension", {"strides": (1, 1)}),
    (ValueError, "positive window_strides", {"strides": (0,), "padding": "VALID"}),
    (TypeError, "positive lhs_dilation", {"lhs_dilation": (0,), "padding": ((0, 0),)}),
    (TypeError, "one pair in padding", {"padding": ((0, 0), (1, 1))}),
    (RuntimeError, "padding 'ALL' is not known", {"padding": "ALL"}),
    (ValueError, "sequence of", {"padding": (0,)}),
    (ValueError, "negative padding", {"padding": ((-4, -4),)}),
    (ValueError, "is undefined with lhs_dilation", {"lhs_dilation": (2,)}),
    (ValueError, "lhs has 1 features in each group", {"feature_group_count": 2}),
    (ValueError, "does not divide the 3 output", {"feature_group_count": 2, "rhs": (3, 1, 2)}),
    (ValueError, "does not divide the batch", {"batch_group_count": 3}),
    (TypeError, "three strings", {"dimension_numbers": ("NCW", "OIW")}),
    (TypeError, "three strings", {"dimension_numbers": "NCW"}),
    (TypeError, "must have 'N' and 'C'", {"dimension_numbers": ("NCW", "OIW", "NWX")}),
    (TypeError, "same spatial", {"dimension_numbers": ("NCW", "OIH", "NCW")}),
    (TypeError, "letter for each", {"dimension_numbers": ("NCHW", "OIW", "NCW")}),
    (TypeError, "same dtype", {"rhs_dtype": np.int32}),
    (TypeError, "narrower", {"preferred_element_type": np.float16}),
    (TypeError, "cannot sum", {"preferred_element_type": np.int64}),
]


@pytest.mark.parametrize(("error", "message", "changes"), ERRORS)
def test_errors(error, message, changes):
    changes = dict(changes)
    x = draw((1, 2, 5))
    w = draw(changes.pop("rhs", (3, 2, 2)), changes.pop("rhs_dtype", np.float64))
    strides, padding = changes.pop("strides", (1,)), changes.pop("padding", "SAME")
    with pytest.raises(error, match=message):
        lax.conv_general_dilated(x, w, strides, padding, **changes)


def test_signedness():
    x = np.ones((1, 1, 2), np.int8)
    with pytest.raises(TypeError, match="must be signed"):
        lax.conv(x, x, (1,), "SAME", preferred_element_type=np.uint32)


@pytest.mark.parametrize("padding", ["SAME", "SAME_LOWER", "VALID"])
def test_strides_are_positive(padding):
    x, w = np.ones((1, 4, 4, 2), np.float32), np.ones((1, 1, 2, 3), np.float32)
    with pytest.raises(ValueError, match=r"positive window_strides, got \(0, 1\)"):
        lax.conv_general_dilated(x, w, (0, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
