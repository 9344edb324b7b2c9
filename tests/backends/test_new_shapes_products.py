"""Products, convolutions and windows outside of compiled functions: results are right, and new
shapes find code that is there already."""

import numpy as np
import pytest

import weft
from tests.backends.shapes import all_general
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.routines.contractions import contraction, conv, decisions, tiles, window
from weft.backends.cpu.routines.products import product
from weft.base import knobs

TYPES = "float32 int32 int8 uint16 bfloat16 float16 complex64".split()
CLOSE = {"bfloat16": 2e-2, "float16": 3e-3}


@pytest.fixture
def general(monkeypatch):
    """All programs as those of operations outside of compiled functions."""
    with all_general(monkeypatch):
        yield


def numbers(rng, shape, name):
    x = rng.normal(size=shape) * 3
    if name == "complex64":
        return jnp.asarray((x + 1j * rng.normal(size=shape)).astype(np.complex64))
    return jnp.asarray(x.astype(np.float32)).astype(name)


def check(fun, args, name):
    """Native results against those of the references."""
    found = []
    for backend in ("native", "reference"):
        with knobs.scope(backend=backend):
            found.append(np.asarray(weft.jit(lambda *xs: fun(*xs))(*args)))
    got, want = found
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    wide = np.complex128 if name == "complex64" else np.float64
    tol = CLOSE.get(name, 1e-4)
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tol, atol=20 * tol)


# --- results --------------------------------------------------------------------------------------


def some_convolution(rng):
    """A convolution of few elements, with any of what one can have."""
    rank, feature, batch = int(rng.integers(1, 4)), 1, 1
    kind = rng.integers(0, 5)
    feature, batch = (2, 1) if kind == 0 else (1, 2) if kind == 1 else (1, 1)
    channels = feature * int(rng.integers(1, 4))
    outputs = feature * batch * int(rng.choice([1, 3, 17]))
    space = rng.integers(2, [0, 60, 16, 8][rank], rank)
    window = rng.integers(1, 5, rank)
    many = {
        "window_strides": rng.choice([1, 1, 2, 3], rank).tolist(),
        "lhs_dilation": rng.choice([1, 1, 1, 2, 3], rank).tolist(),
        "rhs_dilation": rng.choice([1, 1, 2], rank).tolist(),
        "padding": [tuple(p) for p in rng.integers(-1, 6, (rank, 2)).tolist()],
        "feature_group_count": feature,
        "batch_group_count": batch,
    }
    orders = [rng.permutation(rank + 2).tolist() for _ in range(3)]
    shapes = []
    given = [batch * 2, channels, *space], [outputs, channels // feature, *window]
    for order, sizes in zip(orders, given, strict=False):
        shape = [0] * (rank + 2)
        for axis, n in zip(order, sizes, strict=True):
            shape[axis] = int(n)
        shapes.append(shape)
    many["dimension_numbers"] = lax.ConvDimensionNumbers(*map(tuple, orders))
    return shapes, many


def check_convolutions(rng, name, count):
    while count:
        shapes, given = some_convolution(rng)
        left, right = (numbers(rng, shape, name) for shape in shapes)

        def fun(x, y, given=given):
            return lax.conv_general_dilated(x, y, **given)

        try:
            out = weft.eval_shape(fun, left, right)
        except (TypeError, ValueError):  # a window larger than what it is moved over
            continue
        if 0 not in out.shape:
            check(fun, (left, right), name)
            count -= 1


@pytest.mark.parametrize("name", TYPES)
def test_convolutions_are_those_of_the_reference(name, general):
    check_convolutions(np.random.default_rng(TYPES.index(name)), name, 8)


@pytest.mark.parametrize("bits", [128, 256])
def test_other_widths_of_vectors_do_as_well(bits, general, monkeypatch):
    for module in (contraction, window):
        monkeypatch.setattr(module, "vector_bits", lambda: bits)
    for module in (conv, decisions, tiles, product):
        monkeypatch.setattr(module, "registers", lambda: 16 if bits == 256 else 32)
    rng = np.random.default_rng(bits)
    for name in ("float32", "int8", "bfloat16"):
        check_convolutions(rng, name, 3)
        x, y = numbers(rng, (9, 40), name), numbers(rng, (40, 21), name)
        check(lambda x, y: x @ y, (x, y), name)
    check(pooled, [numbers(rng, (30, 41), "float32")], "float32")


@pytest.mark.parametrize("name", [t for t in TYPES if t != "complex64"])
@pytest.mark.parametrize("kind", ["add", "max", "min"])
def test_windows_are_those_of_the_reference(name, kind, general):
    rng = np.random.default_rng(TYPES.index(name))
    for rank in (1, 2, 3):
        shape = rng.integers(4, [0, 90, 20, 9][rank], rank).tolist()
        x = numbers(rng, shape, name)
        if name == "float32":
            flat = np.asarray(x).copy()
            flat.ravel()[:3] = [np.nan, -np.inf, -0.0]
            x = jnp.asarray(flat)
        low = jnp.finfo(x.dtype).min if jnp.issubdtype(x.dtype, jnp.floating) else None
        ends = {"add": 0, "max": -np.inf, "min": np.inf}
        if low is None:
            ends |= {"max": jnp.iinfo(x.dtype).min, "min": jnp.iinfo(x.dtype).max}
        first = np.asarray(ends[kind]).astype(x.dtype)
        given = (
            rng.integers(1, 4, rank).tolist(),
            rng.choice([1, 2, 3], rank).tolist(),
            [tuple(p) for p in rng.integers(0, 3, (rank, 2)).tolist()],
            rng.choice([1, 1, 2], rank).tolist(),
            rng.choice([1, 2], rank).tolist(),
        )
        check(
            lambda x, g=given, f=first: lax.reduce_window(x, f, getattr(lax, kind), *g), [x], name
        )


@pytest.mark.parametrize("name", TYPES)
def test_products_are_those_of_the_reference(name, general):
    rng = np.random.default_rng(TYPES.index(name))
    shapes = [
        ((5, 7), (7, 3), (((1,), (0,)), ((), ()))),
        ((33, 20), (33, 41), (((0,), (0,)), ((), ()))),
        ((4, 9, 6), (4, 6, 17), (((2,), (1,)), ((0,), (0,)))),
        ((3, 5, 7), (7, 5, 18), (((1, 2), (1, 0)), ((), ()))),
        ((30,), (30, 4), (((0,), (0,)), ((), ()))),
        ((7, 6), (7, 6), (((), ()), ((0, 1), (0, 1)))),
        ((65, 70), (70, 80), (((1,), (0,)), ((), ()))),
    ]
    for left, right, axes in shapes:
        args = numbers(rng, left, name), numbers(rng, right, name)
        check(lambda x, y, n=axes: lax.dot_general(x, y, n), args, name)


def test_few_columns_of_any_number(general):
    """Vectors run along the depth only where a text knows how many there are."""
    rng = np.random.default_rng(0)
    for columns in (2, 3, 5, 7, 11):
        x, y = numbers(rng, (90, 310), "float32"), numbers(rng, (310, columns), "float32")
        check(lambda x, y: x @ y, (x, y), "float32")
        check(lambda x, y: y.T @ x.T, (x, y), "float32")


@pytest.mark.parametrize("depth", [*range(1, 10), 15, 17])
def test_few_rows_of_depth_before_others(general, depth):
    """A turn of some depths, and what is left of them, where there is one turn."""
    rng = np.random.default_rng(depth)
    x, y = numbers(rng, (2, depth, 30), "float32"), numbers(rng, (2, depth, 2100), "float32")
    check(lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((0,), (0,)))), (x, y), "float32")


def test_arrays_of_many_axes_are_done_in_other_ways(general):
    rng = np.random.default_rng(0)
    x = numbers(rng, (2, 3) * 5, "float32")
    two, one = (2,) * 10, (1,) * 10
    check(lambda x: lax.reduce_window(x, 0.0, lax.add, two, one, "VALID"), [x], "float32")
    x, y = numbers(rng, (2, 3, 4, 4, 4, 4), "float32"), numbers(rng, (4, 3, 2, 2, 2, 2), "float32")
    strides, padding = (2,) * 4, ((1, 1),) * 4
    check(lambda x, y: lax.conv_general_dilated(x, y, strides, padding), (x, y), "float32")
    x = numbers(rng, (2, 3) * 4, "int32")
    check(
        lambda x: jnp.einsum("abcdefgh,bakdefhg->ck", x, x.transpose(1, 0, 2, 3, 4, 5, 7, 6)),
        [x],
        "int32",
    )


# --- new shapes -----------------------------------------------------------------------------------


def array(*shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def whole(*shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).integers(-9, 9, shape))


def layers(x, w, stride=1):
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def pooled(x):
    return lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID")


def summed(x):
    return lax.reduce_window(x, 0.0, lax.add, (3, 3), (1, 1), "SAME")


# each has a few structures: what is left of a row beyond whole vectors, rows that are short
LINES = [(911,), (700,), (1313,), (1017,), (650,), (1100,)]
PLANES = [(41, 43), (37, 39), (47, 38), (40, 46), (45, 36), (39, 41)]
# so wide that tiles of the widest vectors have the same form for all
WIDE = [(81, 103), (77, 99), (87, 98), (80, 106), (85, 96), (79, 101)]
LARGE = [(151, 163), (141, 152), (170, 181), (149, 139), (160, 211), (207, 144)]

CALLS = {
    "convolve": (lambda x: jnp.convolve(x, array(31)), LINES),
    "convolve with as many": (lambda x: jnp.convolve(x, x), LINES),
    "correlate": (lambda x: jnp.correlate(x, array(9), "same"), LINES),
    "convolve integers": (lambda x: jnp.convolve(x.astype(int), whole(12)), LINES),
    "convolve complex": (lambda x: jnp.convolve(x * 1j, array(12)), LINES),
    "polymul": (lambda x: jnp.polymul(x, array(5)), LINES),
    "convolve2d": (lambda x: weft.scipy.signal.convolve2d(x, array(5, 5)), WIDE),
    "layer": (lambda x: layers(x[None, :, :, None] + jnp.ones(3), array(3, 3, 3, 16)), PLANES),
    "strides": (lambda x: layers(x[None, :, :, None], array(3, 3, 1, 8), 2), PLANES),
    "pool": (pooled, PLANES),
    "window": (summed, PLANES),
    "integers": (lambda x: x.astype(int) @ x.T.astype(int), PLANES),
    "bfloat16": (lambda x: x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16), PLANES),
    "float16": (
        lambda x: x.astype(jnp.float16) @ array(64)[: x.shape[1]].astype(jnp.float16),
        PLANES,
    ),
    "einsum": (lambda x: jnp.einsum("ij,jk->ki", x, x.T), PLANES),
    "tensordot": (lambda x: jnp.tensordot(x[:, None], x[None], ((1, 2), (0, 2))), PLANES),
    "matmul": (lambda x: x @ x.T, LARGE),
    "gram": (lambda x: lax.dot_general(x, x, (((0,), (0,)), ((), ()))), LARGE),
    "batches": (lambda x: jnp.stack([x, x]) @ x.T, LARGE),
    "vector": (lambda x: x @ x[0], LARGE),
    "resize": (lambda x: weft.image.resize(x, (200, 100), "linear"), PLANES),
    "scale": (
        lambda x: weft.image.scale_and_translate(
            x, (90, 80), (0, 1), np.array([0.5, 1.5]), np.array([1.0, 2.0]), "cubic"
        ),
        PLANES,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_new_shape_compiles_nothing(name, texts):
    fun, shapes = CALLS[name]
    *known, fourth, fifth, sixth = (array(*shape) for shape in shapes)
    for x in known:
        for _ in range(3):
            fun(x)
    texts.clear()
    for x in (fourth, fifth, sixth):
        for _ in range(3):
            found = fun(x)
        assert texts == []
        with knobs.scope(backend="reference"):
            want = fun(x)
        tol = CLOSE.get(str(want.dtype), 1e-4)
        wide = np.complex64 if want.dtype == jnp.complex64 else np.float32
        np.testing.assert_allclose(
            np.asarray(found).astype(wide), np.asarray(want).astype(wide), rtol=tol, atol=20 * tol
        )


def test_long_convolutions_are_as_others(texts):
    for n in (120_001, 130_007, 123_456):
        x = array(n)
        found = jnp.convolve(x, array(17))
        np.testing.assert_allclose(found, np.convolve(x, array(17)), rtol=1e-4, atol=1e-4)
        if n == 120_001:
            texts.clear()
    assert texts == []
