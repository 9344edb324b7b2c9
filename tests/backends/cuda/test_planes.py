"""Windows over planes with channels last: their kernels run on the host, and their texts."""

import itertools

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.emulation import run_routine
from tests.laws.checks import assert_close
from weft.backends.cuda import ptx
from weft.backends.cuda.routines import conv, window
from weft.backends.cuda.routines.base import ROUTINES
from weft.core.interpret import storage_dtype
from weft.core.registry import lookup
from weft.kernel.nodes import BF16, F16, F32, F64
from weft.kernel.program import Type

ONES = (1, 1, 1, 1)


def check(prim, arrays, params, dtype, tol=16.0):
    """What kernels of planes give, and that there are such."""
    primitive = lookup(prim)
    want = primitive.ref(*arrays, **params)
    types = [Type(x.shape, dtype) for x in arrays]
    routine = ROUTINES[prim](types, [Type(want.shape, dtype)], params)
    texts = [ptx.assemble(step.module) for step in routine.steps]
    out = np.zeros(want.shape, storage_dtype(dtype))
    run_routine(routine, arrays, [out])
    assert_close(out, np.asarray(want, out.dtype), tol, str(params))
    return routine, texts


def numbers(rng, shape, dtype):
    return rng.integers(-8, 9, shape).astype(storage_dtype(dtype))


@pytest.fixture(autouse=True)
def few_threads(monkeypatch):
    """As many results a thread as in large arrays, and parts that are summed."""
    monkeypatch.setattr(window, "ENOUGH_THREADS", 1)
    monkeypatch.setattr(window, "PART_THREADS", 64)
    monkeypatch.setattr(window, "SLICES", 2)


DTYPES = [F32, BF16, F16, F64, np.dtype(np.int32)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_windows(seed, dtype, monkeypatch):
    rng = np.random.default_rng(seed)
    used = []
    monkeypatch.setattr(window, "by_planes", tracked(window.by_planes, used))
    pick = lambda *n: int(rng.choice(n))
    shape = (pick(1, 2), pick(1, 5, 8), pick(3, 7, 11), pick(4, 8, 24, 2))
    size = (1, pick(1, 2, 3), pick(2, 3), 1)
    dilation = (1, pick(1, 2), pick(1, 1, 2), 1)
    reach = [(s - 1) * d + 1 for s, d in zip(size, dilation, strict=True)]
    pads = [(0, 0), (pick(0, 1), pick(0, 2)), (pick(0, 1, 2), pick(0, 1)), (0, 0)]
    for k in (1, 2):  # at least one window
        pads[k] = (pads[k][0], max(pads[k][1], reach[k] - shape[k] - pads[k][0]))
    params = {
        "window_dimensions": size,
        "window_strides": (1, pick(1, 2), pick(1, 2, 3), 1),
        "padding": tuple(pads),
        "base_dilation": ONES,
        "window_dilation": dilation,
    }
    x = numbers(rng, shape, dtype)
    if dtype.kind == "f":
        x[0, 0, 1, 1] = np.nan
    for name in ("max", "sum", "min"):
        check(f"reduce_window_{name}", [x], params, dtype)
    assert any(found is not None for found in used)


def tracked(function, results):
    def run(*given):
        results.append(function(*given))
        return results[-1]

    return run


def settings(xs, ws, os, **more):
    rank = len(xs) - 2
    ones = (1,) * rank
    return {
        **dict.fromkeys(("window_strides", "lhs_dilation", "rhs_dilation"), ones),
        "padding": ((0, 0),) * rank,
        "feature_group_count": 1,
        "batch_group_count": 1,
        "dimension_numbers": weft.lax.ConvDimensionNumbers(xs, ws, os),
        "precision": None,
        "preferred_element_type": None,
        "out_sharding": None,
        **more,
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_filters_of_one_channel_each_and_their_gradients(seed, dtype, monkeypatch):
    """A convolution, and both gradients as differentiation writes them."""
    rng = np.random.default_rng(seed)
    pick = lambda *n: int(rng.choice(n))
    line, channels = bool(seed % 2), pick(2, 4, 8, 20)
    rank = 1 if line else 2
    taps = tuple(pick(1, 2, 3, 4) for _ in range(rank))
    strides = tuple(pick(1, 1, 2) for _ in range(rank))
    dilation = tuple(pick(1, 1, 2) for _ in range(rank))
    padding = tuple((pick(0, 1, 3), pick(0, 2)) for _ in range(rank))
    shape = (2, *(pick(7, 9, 12) for _ in range(rank)), channels)
    used = []
    monkeypatch.setattr(conv.window, "depthwise", tracked(window.depthwise, used))
    monkeypatch.setattr(conv, "_with_dnn", lambda *given: None)
    letters = ("NWC", "WIO", "NWC") if line else ("NHWC", "HWIO", "NHWC")
    function = lambda x, w: weft.lax.conv_general_dilated(
        x, w, strides, padding, rhs_dilation=dilation, dimension_numbers=letters,
        feature_group_count=channels,
    )  # fmt: skip
    name = str(dtype) if dtype.kind != "i" else "float32"
    args = [np.zeros(shape, name), np.zeros((*taps, 1, channels), name)]
    both = weft.make_jaxpr(weft.grad(lambda x, w: (function(x, w) ** 2).sum(), (0, 1)))(*args)
    own = [e for e in both.jaxpr.eqns if e.primitive.name == "conv_general_dilated"]
    assert len(own) == 3
    for eqn in own:
        arrays = [numbers(rng, v.aval.shape, dtype) for v in eqn.invars]
        check("conv_general_dilated", arrays, eqn.params, dtype)
    strided = max(strides) > 1
    assert [found is not None for found in used].count(True) == 3 - strided


def test_what_planes_do_not_fit():
    first = settings((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3), feature_group_count=4)
    x, w = Type((2, 4, 9, 9), F32), Type((4, 1, 3, 3), F32)
    assert window.depthwise([x, w], [Type((2, 4, 7, 7), F32)], first) is None  # channels first
    last = settings((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2), feature_group_count=4)
    x, w = Type((2, 9, 9, 4), F32), Type((3, 3, 1, 8), F32)
    assert window.depthwise([x, w], [Type((2, 7, 7, 8), F32)], last) is None  # two for each
    x, w = Type((2, 9, 99, 4), F32), Type((3, 80, 1, 4), F32)
    assert window.depthwise([x, w], [Type((2, 7, 20, 4), F32)], last) is None  # too wide a window


@pytest.mark.parametrize("dtype, channels", list(itertools.product([F32, BF16], [64, 100])))
def test_channels_are_read_in_words(dtype, channels):
    """Neighbouring channels are one access of 16 bytes, or of 8 where there are no more."""
    params = {
        "window_dimensions": (1, 3, 3, 1),
        "window_strides": (1, 2, 2, 1),
        "padding": ((0, 0), (0, 1), (0, 1), (0, 0)),
        "base_dilation": ONES,
        "window_dilation": ONES,
    }
    given, made = Type((8, 128, 128, channels), dtype), Type((8, 64, 64, channels), dtype)
    (step,) = ROUTINES["reduce_window_max"]([given], [made], params).steps
    text = ptx.assemble(step.module)
    kind = "v4" if dtype == F32 or channels == 64 else "v2"
    assert f"ld.global.{kind}" in text and f"st.global.{kind}" in text
    assert "ld.global.b16" not in text and "ld.global.b32" not in text


def test_a_causal_line_is_read_where_it_is(monkeypatch):
    """Forward and both gradients: no library, nothing permuted, filled or padded."""
    monkeypatch.undo()
    planned.install(monkeypatch)
    function = lambda x, w: weft.lax.conv_general_dilated(
        x, w, (1,), [(3, 0)], dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=100
    )
    args = [weft.ShapeDtypeStruct(s, "float32") for s in ((3, 2048, 100), (4, 1, 100))]
    made = planned.planned(function, *args)
    assert len(made.commands) == 1 and made.arena == 0
    loss = lambda x, w: (function(x, w) ** 2).sum()
    made = planned.planned(weft.grad(loss, (0, 1)), *args)
    assert len(made.commands) <= 6


@pytest.mark.parametrize("images, side, channels, taps", [(3, 31, 256, 7), (8, 64, 512, 3)])
def test_gradients_by_filters_keep_a_gpu_busy(images, side, channels, taps, monkeypatch):
    """Threads go through few groups of results one after the other; what parts take is less than
    what that saves."""
    monkeypatch.undo()
    planned.install(monkeypatch)
    image = weft.ShapeDtypeStruct((images, side, side, channels), "bfloat16")
    filters = weft.ShapeDtypeStruct((taps, taps, 1, channels), "bfloat16")
    function = lambda x, w: weft.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=channels,
    )  # fmt: skip
    loss = lambda x, w: (function(x, w).astype("float32") ** 2).sum()
    made = planned.planned(weft.grad(loss, 1), image, filters)
    *_, parts, whole = made.commands
    assert parts.blocks >= 132  # a block for each multiprocessor of an H200
    (scratch,) = set(parts.slots()) & set(whole.slots())
    assert made.sizes[scratch] <= 1 << 24
