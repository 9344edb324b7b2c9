"""Convolutions and windows as native tasks, against the reference of their primitives."""

import random
from itertools import product

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.backends.tasks import run_tasks
from tests.laws import checks
from weft import lax
from weft.api.threads import num_threads
from weft.backends.cpu.routines.contractions import contraction, conv, decisions, tiles, window
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.llvm.native.processor import vector_bits
from weft.kernel.program import Type
from weft.prims.conv import ConvDimensionNumbers, conv_general_dilated_p
from weft.prims.selection import ge_p, le_p
from weft.prims.window import (
    dilate_shape,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_shape,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), BF16, np.dtype(np.float16)]
INTEGERS = [np.dtype(name) for name in ("int8", "uint16", "int32", "int64")]
COMPLEX = [np.dtype(np.complex64), np.dtype(np.complex128)]
WEIGHTS = ConvDimensionNumbers((3, 0, 1, 2), (3, 0, 1, 2), (2, 3, 0, 1))
LAST = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
FIRST = ConvDimensionNumbers((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))


def tasks_of(name, ins, out, params):
    types = [Type(x.shape, x.dtype) for x in ins]
    return LOWERINGS[name](types, [Type(*out)], params)


def run(lowered, ins, shape, dtype):
    """The result of tasks whose memory begins as rubbish."""
    return run_tasks(lowered, ins, [Type(shape, np.dtype(dtype))])[0]


def values(rng, shape, dtype):
    dtype = np.dtype(dtype)
    x = rng.standard_normal(shape) * 3
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    if dtype.kind == "b":
        return x > 0
    if dtype.kind == "u":
        x = np.abs(x)
    return x.astype(dtype)


def conv_params(space, layout=FIRST, **given):
    ones = (1,) * space
    params = {
        "window_strides": ones,
        "padding": ((0, 0),) * space,
        "lhs_dilation": ones,
        "rhs_dilation": ones,
        "dimension_numbers": layout,
        "feature_group_count": 1,
        "batch_group_count": 1,
        "precision": None,
        "preferred_element_type": None,
        "out_sharding": None,
    }
    return params | given


def check_conv(left, right, params, depth):
    aval = conv_general_dilated_p.shape(
        *[weft.core.ShapedArray(x.shape, x.dtype) for x in (left, right)], **params
    )
    lowered = tasks_of("conv_general_dilated", [left, right], (aval.shape, aval.dtype), params)
    assert lowered is not None
    got = run(lowered, [left, right], aval.shape, aval.dtype)
    want = np.asarray(conv_general_dilated_p.ref(left, right, **params)).astype(aval.dtype)
    checks.assert_close(got, want, 8 + 2 * np.sqrt(depth), str(params))
    return lowered, got


# --- convolutions ---------------------------------------------------------------------------------


def random_convolution(seed):
    """Operands, parameters and the length of sums."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    space = choose.choice([0, 1, 1, 2, 2, 2, 3])
    groups = choose.choice([1, 1, 1, 2, 3, 17])
    of_batches = groups > 1 and choose.random() < 0.4
    features, outputs = choose.choice([1, 2, 3, 16]), choose.choice([1, 2, 10, 16, 33])
    batch = choose.choice([1, 2, 5])
    many = lambda *options: tuple(choose.choice(options) for _ in range(space))
    sizes, taps = many(1, 2, 5, 7, 16), many(1, 2, 3)
    lhs = (batch * groups, features, *sizes) if of_batches else (batch, features * groups, *sizes)
    rhs = (outputs * groups, features, *taps)
    layout = ConvDimensionNumbers(*[tuple(rng.permutation(space + 2)) for _ in range(3)])
    params = conv_params(
        space,
        layout,
        window_strides=many(1, 1, 2, 3),
        padding=tuple(zip(many(0, 1, 2, -1, 5), many(0, 1, 4, -1), strict=True)),
        lhs_dilation=many(1, 1, 2, 3),
        rhs_dilation=many(1, 1, 2, 3),
        feature_group_count=1 if of_batches else groups,
        batch_group_count=groups if of_batches else 1,
    )
    dtype = choose.choice([*FLOATS, *INTEGERS, *COMPLEX])
    operands = [
        values(rng, [shape[i] for i in np.argsort(spec)], dtype)
        for shape, spec in ((lhs, layout.lhs_spec), (rhs, layout.rhs_spec))
    ]
    return operands, params, features * int(np.prod(taps))


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_convolutions(first):
    for seed in range(first, first + 10):
        operands, params, depth = random_convolution(seed)
        try:
            check_conv(*operands, params, depth)
        except ValueError as error:  # padding cut off more than there is
            assert "negative padding" in str(error)


@pytest.mark.parametrize("bits", [128, 256])
def test_narrower_vectors_and_fewer_registers(monkeypatch, bits):
    monkeypatch.setattr(contraction, "vector_bits", lambda: bits)
    monkeypatch.setattr(tiles, "registers", lambda: 16)
    for seed in range(100, 110):
        operands, params, depth = random_convolution(seed)
        try:
            check_conv(*operands, params, depth)
        except ValueError as error:
            assert "negative padding" in str(error)


def own_borders(lowered):
    """Of how many tasks the tiles copy what they read, and how many of these keep the copies."""
    own = [t for t in lowered.tasks if "border" in t.module.names]
    return np.array([len(own), sum("%near = alloca" not in str(t.module) for t in own)])


# Copies of whole images; kept ones; of as few rows as can be.
@pytest.mark.parametrize("bytes_near", [1 << 18, 0, 1500])
def test_tiles_that_copy_their_own_borders(monkeypatch, bytes_near):
    monkeypatch.setattr(conv, "OWN", 1)
    monkeypatch.setattr(conv, "MAX_STACK_COPY_BYTES", bytes_near)
    monkeypatch.setattr(conv, "MORE", 1e9)
    found = np.zeros(2, int)
    for seed in range(200, 220):
        operands, params, depth = random_convolution(seed)
        try:
            lowered, _ = check_conv(*operands, params, depth)
        except ValueError as error:
            assert "negative padding" in str(error)
        else:
            found += own_borders(lowered)
    assert found[0] and (found[1] == 0) == (bytes_near > 1500)
    x, w = np.ones((4, 6, 6, 3), np.float32), np.ones((3, 3, 3, 64), np.float32)
    for given in ({}, {"padding": ((1, 1), (0, 2))}):
        lowered, _ = check_conv(x, w, conv_params(2, LAST, **given), 27)
        assert own_borders(lowered)[0] == bool(given)
        assert len(lowered.tasks[-1].places) == 3 + (bool(given) and bytes_near == 0)


@pytest.mark.parametrize("layout", [LAST, FIRST])
def test_units_of_rows(monkeypatch, layout):
    monkeypatch.setattr(conv, "OWN", 1)
    monkeypatch.setattr(conv, "MORE", 1e9)
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((2, 23, 9, 20)), rng.standard_normal((3, 3, 20, 33))
    if layout is FIRST:
        x, w = x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)
    x, w = (np.ascontiguousarray(v, np.float32) for v in (x, w))
    several = 0
    for stride, dilation, low in [(1, 1, 1), (2, 1, 2), (1, 2, -1), (3, 2, 4)]:
        given = {
            "window_strides": (stride, 1),
            "rhs_dilation": (dilation, 1),
            "padding": ((low, 3), (1, 1)),
        }
        counts = set()
        for bytes_near in (9_000, 14_000, 1 << 18):
            monkeypatch.setattr(conv, "MAX_STACK_COPY_BYTES", bytes_near)
            lowered, _ = check_conv(x, w, conv_params(2, layout, **given), 180)
            assert own_borders(lowered)[0] == 1
            counts.add(lowered.tasks[-1].extent)
        assert min(counts) <= 2  # one for each image, or for both
        several += len(counts) > 1
    assert several >= 2  # a tile may have all rows of an image


CASES = {
    "same": ((2, 14, 14, 16), (3, 3, 16, 32), LAST, {"padding": ((1, 1), (1, 1))}),
    "channels_first": ((2, 16, 14, 14), (32, 16, 3, 3), FIRST, {"padding": ((1, 1), (1, 1))}),
    "stride": (
        (2, 9, 9, 8),
        (3, 3, 8, 24),
        LAST,
        {"window_strides": (2, 2), "padding": ((1, 1), (0, 1))},
    ),
    "point": ((2, 8, 8, 24), (1, 1, 24, 40), LAST, {"window_strides": (2, 2)}),
    "depthwise": (
        (2, 9, 9, 40),
        (3, 3, 1, 40),
        LAST,
        {"padding": ((1, 1), (1, 1)), "feature_group_count": 40},
    ),
    "grouped": (
        (2, 7, 7, 24),
        (3, 3, 4, 12),
        LAST,
        {"rhs_dilation": (2, 1), "feature_group_count": 6},
    ),
    "transposed": (
        (2, 5, 5, 8),
        (4, 4, 8, 16),
        LAST,
        {"lhs_dilation": (2, 2), "padding": ((2, 2), (2, 2))},
    ),
    "batches": ((6, 7, 7, 3), (3, 3, 3, 6), LAST, {"batch_group_count": 3}),
}


@pytest.mark.parametrize("label", CASES)
def test_a_convolution_and_its_gradients(label):
    """All three convolutions of a layer, through the primitive's own transposes."""
    left, right, layout, given = CASES[label]
    params = conv_params(2, layout, **given)
    rng = np.random.default_rng(0)
    x, w = (values(rng, shape, np.float32) for shape in (left, right))

    def layer(x, w):
        return conv_general_dilated_p.bind(x, w, **params)

    ct = values(rng, weft.eval_shape(layer, x, w).shape, np.float32)
    jaxpr = weft.make_jaxpr(lambda x, w, ct: weft.vjp(layer, x, w)[1](ct))(x, w, ct).jaxpr
    found = [e for e in jaxpr.eqns if e.primitive is conv_general_dilated_p]
    assert len(found) >= 2
    for eqn in found:
        ins = [values(rng, v.aval.shape, np.float32) for v in eqn.invars]
        depth = np.prod([ins[1].shape[i] for i in eqn.params["dimension_numbers"].rhs_spec[1:]])
        check_conv(*ins, eqn.params, depth)


def test_a_long_sum_is_cut_into_parts():
    rng = np.random.default_rng(0)
    x = values(rng, (16, 16, 16, 4), np.float32)
    g = values(rng, (16, 16, 16, 8), np.float32)
    params = conv_params(2, WEIGHTS, padding=((1, 1), (1, 1)))
    lowered, _ = check_conv(x, g, params, 16 * 16 * 16)
    assert [t.name for t in lowered.tasks][-1] == "add"


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "float16", "int8", "int32"])
@pytest.mark.parametrize("space", [(7, 7), (3, 5), (1, 1)])
def test_tiles_with_vectors_across_the_result(kind, space):
    rng = np.random.default_rng(3)
    x = values(rng, (2, 16, *space), np.dtype(kind))
    w = values(rng, (40, 16, 3, 3), np.dtype(kind))
    params = conv_params(2, FIRST, padding=((1, 1), (1, 1)))
    lowered, _ = check_conv(x, w, params, 144)
    if kind == "float32" and vector_bits() == 512:  # short vectors make small tiles
        assert ("%block = alloca" in str(lowered.tasks[-1].module)) == (space[1] > 1)


WITHOUT_WINDOWS = {
    "forward": (LAST, (2, 9, 9, 40), (1, 1, 40, 33)),
    "channels first": (FIRST, (2, 40, 9, 9), (33, 40, 1, 1)),
    "weights": (
        ConvDimensionNumbers((3, 0, 1, 2), (3, 0, 1, 2), (2, 3, 0, 1)),
        (2, 9, 9, 40),
        None,
    ),
}


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("name", WITHOUT_WINDOWS)
def test_what_has_no_windows_is_a_product(name, step):
    """Also where images are read at steps, and copied for it."""
    rng = np.random.default_rng(step)
    layout, left, right = WITHOUT_WINDOWS[name]
    size = 1 + 8 // step
    steps = {"window_strides": (step, step)}
    if right is None:
        right, steps = (2, size, size, 33), {"rhs_dilation": (step, step)}
    for dtype in ("float32", "float16", "int8"):
        x, w = values(rng, left, dtype), values(rng, right, dtype)
        lowered, _ = check_conv(x, w, conv_params(2, layout, **steps), 2 * 81)
        assert lowered.tasks[-1].name == "product"
        # what is converted or packed is what is read, with tiles that are filled up
        assert max(lowered.scratch, default=0) <= 2 * 4 * (2 * size * size * 40)
    padded = conv_params(2, layout, padding=((1, 0), (0, 0)), **steps)
    lowered, _ = check_conv(x, w, padded, 2 * 81)
    assert lowered.tasks[-1].name == "conv"


def test_images_are_copied_where_few_rows_read_a_far_kernel(monkeypatch):
    """Once, so that all rows read a panel of the kernel while it is near."""
    rng = np.random.default_rng(0)
    x, w = values(rng, (4, 10, 10, 40), "float32"), values(rng, (1, 1, 40, 70), "float32")
    params = conv_params(2, LAST, window_strides=(2, 2))
    for size, copies in ((1 << 19, 0), (1 << 10, 1)):
        monkeypatch.setattr("weft.backends.cpu.routines.products.product.L2_BYTES", size)
        lowered, _ = check_conv(x, w, params, 40)
        copied = [t for t in lowered.tasks if t.name == "copy" and t.places[0] == ("in", 0)]
        assert (lowered.tasks[-1].name, len(copied)) == ("product", copies)


def test_products_that_nothing_goes_on_with_are_no_other_convolutions(monkeypatch):
    left, right, out = (Type(s, np.dtype("f4")) for s in ((64, 64), (64, 64), (64, 64)))
    params = conv_params(0, ConvDimensionNumbers((0, 1), (1, 0), (0, 1)))
    monkeypatch.setattr(conv.Product, "run", lambda *_: None)
    assert conv.convolution([left, right], [out], params, object()) is None


def test_short_rows_are_read_in_place(monkeypatch):
    """Where vectors are lines of the cache, and a copy would take long beside the sums."""
    monkeypatch.setattr(decisions, "has_by_element_fma", lambda: False)
    rng = np.random.default_rng(0)
    x = values(rng, (4, 20, 20, 8), np.float32)
    g = values(rng, (4, 20, 20, 128), np.float32)
    params = conv_params(2, WEIGHTS, padding=((1, 1), (1, 1)))
    copies = []
    for most in (decisions.MAX_ROW_IN_PLACE, 0):
        monkeypatch.setattr(decisions, "MAX_ROW_IN_PLACE", most)
        lowered, _ = check_conv(x, g, params, 4 * 20 * 20)
        copies.append(sum(t.name == "copy" for t in lowered.tasks))
    assert copies[0] < copies[1]


@pytest.mark.parametrize("features", [24, 25])
def test_units_of_a_long_sum(monkeypatch, features):
    rng = np.random.default_rng(0)
    x = values(rng, (16, 16, 16, features), np.float32)
    g = values(rng, (16, 16, 16, 32), np.float32)
    params = conv_params(2, WEIGHTS, padding=((1, 1), (1, 1)))
    monkeypatch.setattr(decisions, "PIECES", 1 << 10)  # narrow vectors leave more of them
    monkeypatch.setattr(decisions, "MAX_PARTS", 2)
    counts = []
    for bytes_near, wanted in ((1 << 18, 1), (1 << 18, 3), (0, 1)):
        monkeypatch.setattr(conv, "MAX_STACK_COPY_BYTES", bytes_near)
        monkeypatch.setattr(conv, "OWN", wanted)
        lowered, _ = check_conv(x, g, params, 16 * 16 * 16)
        assert lowered.tasks[-1].name == "add"
        assert list(own_borders(lowered)) == [1, bytes_near == 0]
        counts.append(lowered.tasks[-2].extent)
    parts, more, kept = counts
    assert more > parts == kept and more % parts == 0


def test_sums_are_in_the_preferred_type():
    rng = np.random.default_rng(0)
    for have, want in (("int8", "int32"), ("float16", "float32"), ("float32", "float64")):
        x, w = (values(rng, s, have) for s in ((2, 3, 8, 9), (5, 3, 3, 3)))
        preferred = conv_params(2, preferred_element_type=np.dtype(want))
        check_conv(x, w, preferred, 27)


def test_nothing_to_sum_and_nothing_to_compute():
    for left, right in (((2, 0, 5), (3, 0, 2)), ((0, 2, 5), (3, 2, 2)), ((2, 2, 1), (3, 2, 4))):
        x, w = np.zeros(left, np.float32), np.zeros(right, np.float32)
        layout = ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
        check_conv(x, w, conv_params(1, layout), 1)


def test_positions_without_taps_do_not_choose_the_vectors():
    rng = np.random.default_rng(0)
    x, w = values(rng, (2, 6, 5), np.float32), values(rng, (1, 2, 3), np.float32)
    layout = ConvDimensionNumbers((0, 1, 2), (1, 2, 0), (1, 0, 2))
    given = {"window_strides": (2,), "padding": ((5, 4),), "lhs_dilation": (3,)}
    check_conv(x, w, conv_params(1, layout, **given, feature_group_count=2), 3)


def test_special_values_go_where_they_belong():
    x = np.zeros((1, 1, 6, 6), np.float32)
    x[0, 0, 2, 2], x[0, 0, 5, 5] = np.nan, np.inf
    w = np.ones((1, 1, 3, 3), np.float32)
    params = conv_params(2, padding=((1, 1), (1, 1)))
    _, got = check_conv(x, w, params, 9)
    assert np.isnan(got[0, 0, 1:4, 1:4]).all() and np.isnan(got).sum() == 9
    assert np.isinf(got[0, 0, 4:, 4:]).all() and np.isinf(got).sum() == 4


@pytest.mark.parametrize("kind", ["float8_e5m2", "int4"])
def test_types_without_instructions_are_left_to_the_reference(kind):
    dtype = np.dtype(getattr(ml_dtypes, kind))
    x, w = np.zeros((1, 1, 4), dtype), np.zeros((1, 1, 2), dtype)
    params = conv_params(1, ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2)))
    assert tasks_of("conv_general_dilated", [x, w], ((1, 1, 3), dtype), params) is None


def test_the_same_bits_at_any_number_of_threads():
    rng = np.random.default_rng(0)
    x, w = values(rng, (8, 12, 12, 8), np.float32), values(rng, (3, 3, 8, 16), np.float32)
    params = conv_params(2, LAST, padding=((1, 1), (1, 1)))
    lowered = tasks_of("conv_general_dilated", [x, w], ((8, 12, 12, 16), x.dtype), params)
    results = []
    for count in (1, 2, 8):
        with num_threads(count):
            results.append(run(lowered, [x, w], (8, 12, 12, 16), x.dtype).tobytes())
    assert results[0] == results[1] == results[2]


# --- windows --------------------------------------------------------------------------------------

REDUCTIONS = {
    "reduce_window_sum": reduce_window_sum_p,
    "reduce_window_max": reduce_window_max_p,
    "reduce_window_min": reduce_window_min_p,
}


def random_window(seed):
    choose = random.Random(seed)
    rank = choose.choice([1, 2, 2, 3, 4])
    many = lambda *options: tuple(choose.choice(options) for _ in range(rank))
    shape = many(1, 2, 5, 9, 17, 70) if rank < 3 else many(1, 2, 5, 9, 20)
    taps, strides = many(1, 2, 3, 4), many(1, 1, 2, 3)
    low, high = many(0, 0, 1, 2, -1), many(0, 0, 1, -1)
    base, dilation = many(1, 1, 1, 2, 3), many(1, 1, 1, 2)
    if choose.random() < 0.5:  # no window moves along the last axis
        still = lambda values, one: (*values[:-1], one)
        taps, strides, base, dilation = (still(v, 1) for v in (taps, strides, base, dilation))
        low, high = still(low, 0), still(high, 0)
    window = {
        "window_dimensions": taps,
        "window_strides": strides,
        "padding": tuple(zip(low, high, strict=True)),
        "base_dilation": base,
        "window_dilation": dilation,
    }
    return shape, window, choose


def sprinkled(rng, choose, shape, dtype):
    """Values with ties, and with infinities or NaN here and there."""
    x = np.round(rng.standard_normal(shape) * 3)
    if dtype.kind not in "iub" and choose.random() < 0.4:
        places = rng.integers(0, x.size, 1 + x.size // 5)
        x.flat[places] = choose.choice([-np.inf, np.inf, np.nan])
    return x > 0 if dtype.kind == "b" else (abs(x) if dtype.kind == "u" else x).astype(dtype)


def check_window(name, ins, shape, params, want, exact=True):
    dtype = ins[0].dtype
    lowered = tasks_of(name, ins, (shape, dtype), params)
    if lowered is None:
        assert 0 in [x.size for x in ins]
        return
    got = run(lowered, ins, shape, dtype)
    want = np.asarray(want).astype(dtype)
    if exact:
        wide = (lambda x: x) if dtype.kind in "iub" else (lambda x: x.astype(np.complex128))
        np.testing.assert_array_equal(wide(got), wide(want), f"{name} {params}")
    else:
        checks.assert_close(got, want, 64, f"{name} {params}")


def fits(shape, window):
    sizes = dilate_shape(shape, window["base_dilation"])
    return all(n + low + high >= 0 for n, (low, high) in zip(sizes, window["padding"], strict=True))


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_windows(first):
    for seed in range(first, first + 10):
        shape, window, choose = random_window(seed)
        if not fits(shape, window):
            continue
        rng = np.random.default_rng(seed)
        out = reduce_window_shape(shape, *window.values())
        name = choose.choice([*REDUCTIONS])
        extra = COMPLEX if name == "reduce_window_sum" else [np.dtype(bool)]
        dtype = choose.choice([*FLOATS, *INTEGERS, *extra])
        x = sprinkled(rng, choose, shape, dtype)
        with np.errstate(all="ignore"):
            want = REDUCTIONS[name].ref(x, **window)
        check_window(name, [x], out, window, want, exact=name != "reduce_window_sum")


@pytest.mark.parametrize("first", range(200, 240, 10))
def test_random_selections(first):
    for seed in range(first, first + 10):
        shape, window, choose = random_window(seed)
        if not fits(shape, window):
            continue
        rng = np.random.default_rng(seed)
        dtype = choose.choice([*FLOATS, *INTEGERS])
        window["select_prim"] = choose.choice([ge_p, le_p])
        x, g = sprinkled(rng, choose, shape, dtype), values(rng, shape, dtype)
        sizes = {k: v for k, v in window.items() if k != "select_prim"}
        out = reduce_window_shape(shape, *sizes.values())
        want = select_and_gather_add_p.ref(g, x, **window)
        check_window("select_and_gather_add", [g, x], out, window, want)
        plain = {k: v for k, v in window.items() if "dilation" not in k}
        if not fits(shape, plain | {"base_dilation": (1,) * len(shape)}):
            continue
        counts = reduce_window_shape(shape, *list(sizes.values())[:3])
        source = values(rng, counts, dtype)
        want = select_and_scatter_add_p.ref(source, x, **plain)
        check_window("select_and_scatter_add", [source, x], shape, plain, want, exact=False)


@pytest.mark.parametrize("shape", [(20_003,), (2, 9_001), (70, 3, 30)])
def test_few_long_rows_and_many_short_ones(shape):
    window = {
        "window_dimensions": (*[1] * (len(shape) - 1), 3),
        "window_strides": (*[1] * (len(shape) - 1), 2),
        "padding": (*[(0, 0)] * (len(shape) - 1), (1, 2)),
    }
    rng = np.random.default_rng(0)
    x = values(rng, shape, np.float32)
    ones = {"base_dilation": (1,) * len(shape), "window_dilation": (1,) * len(shape)}
    out = reduce_window_shape(shape, *window.values())
    want = reduce_window_max_p.ref(x, **window, **ones)
    check_window("reduce_window_max", [x], out, window | ones, want)
    source = values(rng, out, np.float32)
    window["select_prim"] = le_p
    want = select_and_scatter_add_p.ref(source, x, **window)
    check_window("select_and_scatter_add", [source, x], shape, window, want, exact=False)


def test_a_border_is_below_all_elements_and_before_those_after_it():
    """The first extremum decides, and an infinity is not above the border."""
    x = np.full((1, 4), -np.inf, np.float32)
    g = np.arange(1, 5, dtype=np.float32)[None]
    window = {
        "window_dimensions": (1, 2),
        "window_strides": (1, 1),
        "padding": ((0, 0), (1, 1)),
        "base_dilation": (1, 1),
        "window_dilation": (1, 1),
        "select_prim": ge_p,
    }
    want = select_and_gather_add_p.ref(g, x, **window)
    assert want.tolist() == [[0, 1, 2, 3, 4]]
    check_window("select_and_gather_add", [g, x], (1, 5), window, want)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_windows_are_the_same_bits_at_any_number_of_threads(layout):
    shape = (4, 12, 12, 20) if layout == "NHWC" else (4, 20, 12, 12)
    taps = (1, 3, 3, 1) if layout == "NHWC" else (1, 1, 3, 3)
    window = {
        "window_dimensions": taps,
        "window_strides": taps,
        "padding": tuple((t // 2, t // 2) for t in taps),
    }
    rng = np.random.default_rng(0)
    x = values(rng, shape, np.float32)
    source = values(rng, reduce_window_shape(shape, *window.values()), np.float32)
    window["select_prim"] = ge_p
    lowered = tasks_of("select_and_scatter_add", [source, x], (shape, x.dtype), window)
    results = []
    for count in (1, 2, 8):
        with num_threads(count):
            results.append(run(lowered, [source, x], shape, x.dtype).tobytes())
    assert results[0] == results[1] == results[2]


def test_every_lowering_is_registered():
    names = ["conv_general_dilated", *REDUCTIONS, "select_and_gather_add", "select_and_scatter_add"]
    assert all(name in LOWERINGS for name in names)
    assert LOWERINGS["select_and_scatter_add"] is window.select_and_scatter_add


def test_a_pooled_layer_through_jit():
    """A convolution, pooling and their gradients in one compiled function."""
    rng = np.random.default_rng(0)
    x, w = values(rng, (2, 8, 8, 3), np.float32), values(rng, (3, 3, 3, 5), np.float32)

    def loss(x, w):
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAST)
        y = lax.reduce_window(y, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return (y * y).sum()

    results = []
    for backend in ("native", "reference"):
        with weft.base.knobs.scope(backend=backend):
            results.append(weft.jit(lambda x, w: weft.grad(loss, (0, 1))(x, w))(x, w))
    for got, want in zip(*results, strict=True):
        checks.assert_close(np.asarray(got), np.asarray(want), 64, "gradients")


def test_lines_of_a_dilated_input_cover_every_output_once():
    for out, taps, stride, low, dilation, apart in product(
        (1, 5, 8), (1, 3), (1, 2, 3), (-1, 0, 2), (1, 2, 3), (1, 2)
    ):
        seen = set()
        for line in conv.lines(out, taps, stride, low, dilation, apart):
            for i in range(line.size):
                o = line.first + i * line.step
                seen.add(o)
                reads = {
                    (line.tap + t * line.tap_step, line.start + i * line.stride + t * line.dilation)
                    for t in range(line.taps)
                }
                positions = [(t, o * stride + t * apart - low) for t in range(taps)]
                assert reads == {(t, p // dilation) for t, p in positions if p % dilation == 0}
        assert seen == set(range(out))
