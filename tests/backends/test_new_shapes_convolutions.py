"""Convolutions of many elements outside of compiled functions: results are right, and new shapes
find code that is there already."""

import numpy as np
import pytest

import weft
from tests.backends import test_new_shapes_products as products
from tests.backends.shapes import all_general
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.routines.contractions import contraction, conv, tiles
from weft.base import knobs

LAST, FIRST = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


@pytest.fixture
def named(monkeypatch):
    """All programs as those of operations outside of compiled functions; the convolutions whose
    sizes had names."""
    weft.clear_caches()  # a program of another test may serve
    made = []
    run = conv.Convolution.run

    def noted(self):
        if self.named is not None:
            made.append(self)
        return run(self)

    monkeypatch.setattr(conv.Convolution, "run", noted)
    with all_general(monkeypatch):
        yield made


def array(*shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def layer(names=LAST, padding="SAME", **given):
    given = {"window_strides": (1, 1), **given}
    return lambda x, y: lax.conv_general_dilated(
        x, y, padding=padding, dimension_numbers=names, **given
    )


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", products.TYPES)
def test_results_are_those_of_the_reference(name, named):
    products.check_convolutions(np.random.default_rng(len(name) + 77), name, 8)
    assert named


@pytest.mark.parametrize("bits", [128, 256])
def test_other_widths_of_vectors_do_as_well(bits, named, monkeypatch):
    monkeypatch.setattr(contraction, "vector_bits", lambda: bits)
    for module in (conv, tiles):
        monkeypatch.setattr(module, "registers", lambda: 16 if bits == 256 else 32)
    rng = np.random.default_rng(bits)
    for name in ("float32", "int8", "bfloat16"):
        products.check_convolutions(rng, name, 3)
    assert named


GRADIENT = ("CHWN", "IHWO", "HWNC")
CASES = {
    "channels last": (layer(), (3, 29, 31, 20), (3, 3, 20, 40)),
    "channels first": (layer(FIRST), (3, 20, 29, 31), (40, 20, 3, 3)),
    "strides": (layer(window_strides=(2, 2)), (2, 60, 61, 3), (7, 7, 3, 48)),
    "few outputs": (layer(), (2, 40, 41, 12), (3, 3, 12, 10)),
    "a row of few": (layer(), (40, 5, 3, 24), (3, 3, 24, 33)),
    "groups": (layer(feature_group_count=4), (2, 28, 30, 64), (3, 3, 16, 64)),
    "one each": (layer(feature_group_count=50), (2, 28, 31, 50), (3, 3, 1, 50)),
    "one each, first": (layer(FIRST, feature_group_count=20), (2, 20, 57, 58), (20, 1, 3, 3)),
    "two each": (layer(feature_group_count=40), (2, 20, 21, 40), (3, 3, 1, 80)),
    "an image": (layer(FIRST), (1, 1, 301, 333), (1, 1, 5, 5)),
    "far apart": (layer(rhs_dilation=(2, 2)), (2, 30, 31, 20), (3, 3, 20, 32)),
    "holes": (
        layer(padding=((1, 2), (1, 2)), lhs_dilation=(2, 2)),
        (3, 14, 15, 30),
        (3, 3, 30, 32),
    ),
    "fewer": (layer(padding=((-2, -1), (-1, 3))), (3, 30, 31, 20), (3, 3, 20, 40)),
    "gradients": (layer(GRADIENT, ((1, 1), (1, 1))), (8, 20, 22, 32), (8, 20, 22, 50)),
    "long sums": (layer(GRADIENT, ((0, 0), (0, 0))), (3, 80, 90, 9), (3, 78, 89, 20)),
    "large copies": (layer(), (1, 12, 500, 48), (11, 1, 48, 17)),
    "rows of three": (
        layer(
            ("CWN", "IOW", "CNW"),
            ((3, 3),),
            window_strides=(1,),
            rhs_dilation=(2,),
            feature_group_count=4,
        ),
        (80, 1489, 3),
        (20, 64, 5),
    ),
    "batches": (layer(batch_group_count=2), (4, 30, 31, 12), (3, 3, 12, 40)),
}


@pytest.mark.parametrize("name", CASES)
def test_many_elements(name, named):
    fun, *shapes = CASES[name]
    args = [array(*shape) / 4 for shape in shapes]
    products.check(fun, args, "float32")
    assert named


@pytest.mark.parametrize("name", ["bfloat16", "float16", "complex64", "int32", "int8"])
def test_many_elements_of_other_types(name, named):
    rng = np.random.default_rng(len(name))
    args = [products.numbers(rng, s, name) for s in ((2, 20, 21, 8), (3, 3, 8, 30))]
    products.check(layer(), args, name)
    args = [products.numbers(rng, s, name) for s in ((2, 8, 20, 21), (30, 8, 3, 3))]
    products.check(layer(FIRST), args, name)
    assert named


def test_what_is_not_a_number_stays_where_it_is(named):
    x = np.ones((2, 20, 21, 24), np.float32)
    x[1, 5, 7, 3], x[0, 19, 20, 23] = np.nan, np.inf
    products.check(layer(), (jnp.asarray(x), array(3, 3, 24, 40)), "float32")
    assert named


def test_sums_of_nothing_are_zero(named):
    found = weft.jit(layer())(array(2, 20, 21, 0), jnp.zeros((3, 3, 0, 20)))
    np.testing.assert_array_equal(found, np.zeros((2, 20, 21, 20), np.float32))
    assert named


@pytest.mark.parametrize("name", ["channels last", "one each", "gradients", "long sums"])
def test_bits_are_the_same_at_any_number_of_threads(name, named):
    fun, *shapes = CASES[name]
    args = [array(*shape) for shape in shapes]
    before, found = weft.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            weft.set_num_threads(threads)
            found.append(np.asarray(weft.jit(lambda *xs: fun(*xs))(*args)))
    finally:
        weft.set_num_threads(before)
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


# --- shapes ---------------------------------------------------------------------------------------

# First those from which the forms of tiles are learnt, by vectors of any width.
LEARNT = [(28, 28), (32, 40), (33, 45), (24, 36), (50, 30), (39, 43), (31, 29)]
SIZES = [*LEARNT, (29, 41), (35, 52), (37, 47)]
CALLS = {
    "channels last": (layer(), (6, 0, 0, 32), (3, 3, 32, 64)),
    "channels first": (layer(FIRST), (6, 32, 0, 0), (64, 32, 3, 3)),
    "one each": (layer(feature_group_count=64), (6, 0, 0, 64), (3, 3, 1, 64)),
    "holes": (layer(padding=((1, 2), (1, 2)), lhs_dilation=(2, 2)), (3, 0, 0, 64), (3, 3, 64, 32)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_new_shape_compiles_nothing(name, texts):
    fun, shape, kernel = CALLS[name]
    y, made = array(*kernel), []
    for height, width in SIZES:
        sizes = iter((height, width))
        x = array(*(n or next(sizes) for n in shape))
        texts.clear()
        found = fun(x, y)
        made.append(len(texts))
    assert made[-3:] == [0, 0, 0]
    assert sum(made) <= 8
    with knobs.scope(backend="reference"):
        want = fun(x, y)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-3)


def test_images_are_as_others(texts):
    made = []
    for shape in [(400, 500), (311, 518), (350, 402), (333, 610), (501, 488), (431, 402)]:
        x = array(1, 1, *shape)
        texts.clear()
        found = layer(FIRST)(x, array(1, 1, 5, 5))
        assert found.shape == x.shape
        made.append(len(texts))
    assert made[-3:] == [0, 0, 0]
