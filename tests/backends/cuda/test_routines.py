"""Routines of GPUs run on the host, and their kernels as PTX."""

import os
import shutil
import subprocess
from glob import glob

import numpy as np
import pytest

import weft
from tests.backends.cuda.emulation import Native, run_routine
from tests.laws.checks import assert_close, seed_of
from tests.samples import WIDE, all_samples
from weft import numpy as jnp
from weft.backends.cuda import driver, ptx
from weft.backends.cuda.program import Cuda
from weft.backends.cuda.routines import attention, conv, cumulative, extremes, moves, sort
from weft.backends.cuda.routines.base import ROUTINES, Library, Move, Run, module
from weft.backends.cuda.routines.device import thread
from weft.backends.cuda.routines.stubs.sort_stubs import before_tile
from weft.backends.cuda.routines.table import lower
from weft.backends.reference.program import Reference
from weft.base import knobs
from weft.base.lazy import folders_of
from weft.compiler.plan import Planner, Unplannable
from weft.core.interpret import run_primitive, storage_dtype
from weft.core.registry import lookup
from weft.kernel.kinds import ptr, u32, u64, void
from weft.kernel.nodes import BF16, F64
from weft.kernel.program import Launch, Op, Type, inner_regions
from weft.prims.shape import MOST_JOINED

# Samples of a primitive that are run, as threads of the host are slow.
MOST_SAMPLES = 4
FEWER = {"approx_top_k": 1, "partition": 1, "sort": 2, "top_k": 1}
# Those that libraries compute, and what has a test of its own.
LIBRARIES = frozenset(
    "attention attention_backward decode_attention packed_attention packed_attention_backward"
    " dot_general fft cholesky lu eigh eig qr geqrf ormqr svd"
    " householder_product tridiagonal triangular_solve tridiagonal_solve rng_uniform".split()
)
EMULATED = sorted(ROUTINES.keys() - LIBRARIES)


def operations(nodes):
    for node in nodes:
        if isinstance(node, Op):
            yield node
        for region in inner_regions(node):
            yield from operations(region)


def samples_of(prim):
    found = [s for s in all_samples() if s.axis is None and s.prim == prim]
    pairs = [(s, dtype) for s in found for dtype in s.dtypes]
    step = max(1, len(pairs) // FEWER.get(prim, MOST_SAMPLES))
    return pairs[::step][: FEWER.get(prim, MOST_SAMPLES)]


def types(xs):
    return [Type(x.aval.shape, x.aval.dtype) for x in xs]


def check(node, arrays, tol, text):
    eqn = node.eqn
    routine = lower(node, types(eqn.invars), types(eqn.outvars))
    if routine is None or any(isinstance(step, Library) for step in routine.steps):
        return  # libraries of GPUs can't be given the host's memory
    outs = [np.zeros(v.aval.shape, storage_dtype(v.aval.dtype)) for v in eqn.outvars]
    run_routine(routine, arrays, outs)
    avals, several = [v.aval for v in eqn.outvars], eqn.primitive.multiple_results
    with np.errstate(all="ignore"):
        want = run_primitive(eqn.primitive, avals if several else avals[0], arrays, eqn.params)
    for a, b in zip(outs, want if several else [want], strict=True):
        assert_close(a, np.asarray(b, a.dtype), tol, text)


@pytest.mark.parametrize("prim", EMULATED)
def test_samples(prim):
    for sample, dtype in samples_of(prim):
        args = sample.operands(dtype, seed_of(sample))
        with weft.enable_x64(dtype in WIDE):
            closed = weft.make_jaxpr(sample.function(dtype))(*args)
            try:
                program = Planner(Reference()).program(closed)
            except Unplannable:
                continue
            slots = {n: s.what for n, s in enumerate(program.slots) if s.role == "arg"}
            leaves = weft.tree.leaves(args)
            for node in operations(program.nodes):
                if node.eqn.primitive.name != prim or not all(i in slots for i in node.ins):
                    continue
                arrays = [
                    np.ascontiguousarray(
                        np.asarray(
                            getattr(leaves[slots[i]], "_value", leaves[slots[i]]),
                            storage_dtype(x.aval.dtype),
                        ).reshape(x.aval.shape)
                    )
                    for i, x in zip(node.ins, node.eqn.invars, strict=True)
                ]
                check(node, arrays, 4 * max(sample.tol, 4.0), f"{sample} of {dtype}")


RNG = np.random.default_rng(0)
WORDS = np.arange(8400, dtype=np.int32)
LARGER = {
    "a scan in tiles": ("cumsum", [RNG.normal(size=9000)], {"axis": 0, "reverse": True}),
    "a sort in tiles": (
        "sort",
        [RNG.normal(size=(1, 4200)).astype(np.float16)],
        {"dimension": 1, "num_keys": 1, "is_stable": True},
    ),
    "a sort of rows in tiles": (
        "sort",
        [RNG.integers(-128, 128, (2, 4200)).astype(np.int8), np.arange(8400.0).reshape(2, 4200)],
        {"dimension": 1, "num_keys": 1, "is_stable": True},
    ),
    "a sort of rows in tiles, with words": (
        "sort",
        [RNG.integers(-9, 9, (2, 4200)).astype(np.int16), WORDS.reshape(2, 4200)],
        {"dimension": 1, "num_keys": 1, "is_stable": True},
    ),
    "a scan of columns": (
        "cumsum",
        [RNG.normal(size=(300, 3)).astype(np.float32)],
        {"axis": 0, "reverse": False},
    ),
}


CHANNELS = {
    **dict.fromkeys(("base_dilation", "window_dilation"), (1, 1, 1, 1)),
    "window_dimensions": (1, 3, 3, 1),
    "window_strides": (1, 2, 2, 1),
    "padding": ((0, 0), (0, 1), (1, 1), (0, 0)),
}
IMAGES = RNG.integers(0, 9, (2, 8, 9, 12)).astype(np.float32)
IMAGES[0, 3, 4, 5] = np.nan


@pytest.mark.parametrize("prim", ["reduce_window_max", "reduce_window_sum"])
def test_windows_of_neighbouring_channels(prim):
    check_routine(prim, [IMAGES], CHANNELS)


@pytest.mark.parametrize("select", ["ge", "le"])
def test_selections_of_neighbouring_channels(select):
    params = {"select_prim": lookup(select), **CHANNELS}
    source = RNG.normal(size=(2, 4, 5, 12)).astype(np.float32)
    plain = {k: v for k, v in params.items() if not k.endswith("dilation")}
    check_routine("select_and_scatter_add", [source, IMAGES], plain)
    check_routine("select_and_gather_add", [IMAGES * 2, IMAGES], params)


STRIPS = {
    "even": (np.float32, (24, 64), {"axis": 0, "reverse": False}),
    "ragged": (np.float32, (2, 21, 32), {"axis": 1, "reverse": False}),
    "back": (np.float64, (13, 32), {"axis": 0, "reverse": True}),
}


@pytest.mark.parametrize("name", STRIPS)
def test_scans_of_strips_of_columns(name, monkeypatch):
    monkeypatch.setattr(cumulative, "ENOUGH_STRIPS", 1)
    monkeypatch.setattr(cumulative, "STRIP_WARPS", 2)
    monkeypatch.setattr(cumulative, "STRIP_ROWS", 4)
    dtype, shape, params = STRIPS[name]
    check_routine("cumsum", [RNG.normal(size=shape).astype(dtype)], params)


@pytest.mark.parametrize("name", LARGER)
def test_larger(name):
    check_routine(*LARGER[name])


def test_a_sort_of_many_tiles(monkeypatch):
    """Blocks that count several tiles, tiles that others come before, and one that is not full."""
    monkeypatch.setattr(sort, "ITEMS", 1)
    monkeypatch.setattr(sort, "COUNTING", 3)
    keys = RNG.integers(-300, 300, (2, 1500)).astype(np.int16)
    keys[1, :700] = 7
    params = {"dimension": 1, "num_keys": 1, "is_stable": True}
    check_routine("sort", [keys], params)
    check_routine("sort", [keys, np.arange(3000.0).reshape(2, 1500)], params)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_barriers_are_not_copied(dtype):
    """Threads of a warp that wait at copies of a barrier, on different ways, wait for ever."""
    names = sort.key_names(np.dtype(dtype))
    (step,), _, _ = sort.sort_rows(sort.Scratch(), sort.given(0), None, 3, 200, names)
    assert ptx.assemble(step.module).count("bar.sync") == 5


@pytest.mark.parametrize("length, dtype", [(1, np.uint8), (3, BF16), (9, np.float64), (33, "f4")])
def test_short_rows_are_sorted_by_lanes(length, dtype, monkeypatch):
    """Rows that lanes of a warp share: equal keys stay in order, the last warp isn't full."""
    monkeypatch.setattr(sort, "SHORT_ROWS", 1)
    keys = RNG.integers(-3, 3, (13, length)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        keys[5, 0], keys[6, :] = np.nan, -0.0
    params = {"dimension": 1, "num_keys": 1, "is_stable": True}
    check_routine("sort", [keys], params)
    check_routine("sort", [keys, np.arange(13.0 * length).reshape(13, length)], params)
    kept = {"k": min(3, length), "axis": 1}
    check_routine("top_k", [keys], kept)
    room = sort.Scratch()
    names = sort.key_names(np.dtype(dtype))
    (step,), _, _ = sort.sort_rows(room, sort.given(0), None, 10**6, length, names)
    assert step.threads == 256 and step.blocks <= 10**6 // 8 + 1


def look_back(state: ptr, out: ptr) -> void:
    for tile in range(1, 8):
        at = tile * 256 + thread()
        u32[out, (tile - 1) * 32 + thread()] = before_tile(state, at, thread(), u64(3) << 32)


@pytest.mark.parametrize("whole", range(7))
def test_tiles_add_up_what_those_before_have_said(whole):
    """Tiles behind one that knows where it ends have said only how many they have themselves."""
    counts = RNG.integers(0, 9, (8, 256))
    ends = np.cumsum(counts, 0)
    state = (counts | 3 << 32).astype(np.uint64)
    state[: whole + 1] = ends[: whole + 1] | 4 << 32
    state[0] = ends[0] | 4 << 32
    out = np.zeros((7, 32), np.uint32)
    kernel = Native(module(look_back, {"AHEAD": 4}))
    kernel.launch(1, 32, [state.ctypes.data, out.ctypes.data])
    np.testing.assert_array_equal(out, ends[:7, :32])


def check_routine(prim, arrays, params):
    """A routine gives what its reference does, and its kernels can be assembled."""
    primitive = lookup(prim)
    want = primitive.ref(*arrays, **params)
    want = list(want) if primitive.multiple_results else [want]
    given, made = ([Type(x.shape, x.dtype) for x in xs] for xs in (arrays, want))

    class Eqn:
        pass

    eqn = Eqn()
    eqn.primitive, eqn.params = primitive, params
    routine = lower(Op(eqn, (), ()), given, made)
    outs = [np.zeros(x.shape, x.dtype) for x in want]
    run_routine(routine, [np.ascontiguousarray(x) for x in arrays], outs)
    for a, b in zip(outs, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    check_assembly(routine)


def check_assembly(routine):
    assembler = assembler_path()
    for text in {step.module for step in routine.steps if isinstance(step, Run)}:
        made = ptx.assemble(text)
        assert ".visible .entry kernel" in made
        if assembler is not None:
            command = [assembler, "-arch=sm_90", "-", "-o", os.devnull]
            subprocess.run(command, input=made.encode(), check=True, capture_output=True)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64"])
@pytest.mark.parametrize("name", ["scatter-add", "scatter-sub", "scatter-min", "scatter-max"])
def test_scatters_in_any_order(name, dtype, deterministic):
    """Runs of updates to one place, some of them left out, one by one and in rows."""
    rng = np.random.default_rng(5)
    places = np.sort(rng.integers(-1, 12, 600)).astype(np.int32)
    places[300:] = rng.permutation(places[300:])
    for width in ((), (3,)):
        updates = rng.integers(0, 9, (600, *width)).astype(dtype)
        x = rng.integers(3, 5, (10, *width)).astype(dtype)
        fun = getattr(weft.lax, name.replace("-", "_"))
        numbers = weft.lax.ScatterDimensionNumbers(tuple(range(1, 1 + len(width))), (0,), (0,))
        with weft.enable_x64(), knobs.scope(deterministic_ops=deterministic):
            closed = weft.make_jaxpr(lambda *xs: fun(*xs, numbers))(x, places[:, None], updates)  # noqa: B023
            (node,) = operations(Planner(Reference()).program(closed).nodes)
            check(node, [x, places[:, None], updates], 4.0, name)
            routine = lower(node, types(node.eqn.invars), types(node.eqn.outvars))
        ordered = deterministic and dtype.startswith("f") and name in ("scatter-add", "scatter-sub")
        texts = [str(step.module) for step in routine.steps if isinstance(step, Run)]
        assert any("@combine(" in x or "_extreme(" in x for x in texts) != ordered


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["scatter-min", "scatter-max"])
def test_extremes_of_floats_in_any_order(name, dtype):
    """NaNs of both signs win, zeros and negative numbers are ordered."""
    nan = np.array(np.nan, dtype)
    x = np.array([1, -1, 0, -0.0, nan, -nan, -np.inf, 5], dtype)
    places = np.arange(32, dtype=np.int32) % 8
    updates = RNG.normal(size=32).astype(dtype)
    updates[[2, 10, 18, 26, 3, 11, 19, 27]] = [-0.0, 0.0, -0.0, -0.0, 0, 0, 0, -0.0]
    updates[[0, 7, 9]] = [nan, -nan, -np.inf]
    numbers = weft.lax.ScatterDimensionNumbers((), (0,), (0,))
    fun = getattr(weft.lax, name.replace("-", "_"))
    with weft.enable_x64():
        closed = weft.make_jaxpr(lambda *xs: fun(*xs, numbers))(x, places[:, None], updates)
        (node,) = operations(Planner(Reference()).program(closed).nodes)
        routine = lower(node, types(node.eqn.invars), types(node.eqn.outvars))
    out = np.zeros_like(x)
    run_routine(routine, [x, places[:, None].copy(), updates], [out])
    one = np.minimum if name == "scatter-min" else np.maximum
    want = np.array([one.reduce([x[i], *updates[i::8]]) for i in range(8)])
    np.testing.assert_array_equal(out, want)
    assert list(np.isnan(out)) == [True, False, False, False, True, True, False, True]
    check_assembly(routine)


@pytest.mark.parametrize("width", [(), (3,)])
def test_of_updates_that_replace_each_other_the_last_counts(width):
    """By a maximum of their numbers, for each place where one may begin."""
    rng = np.random.default_rng(2)
    places = rng.integers(-1, 12, (1100 // (3 if width else 1), 1)).astype(np.int32)
    x = rng.normal(size=(10, *width)).astype(np.float32)
    updates = rng.normal(size=(len(places), *width)).astype(np.float32)
    numbers = weft.lax.ScatterDimensionNumbers(tuple(range(1, 1 + len(width))), (0,), (0,))
    closed = weft.make_jaxpr(lambda *xs: weft.lax.scatter(*xs, numbers))(x, places, updates)
    (node,) = operations(Planner(Reference()).program(closed).nodes)
    check(node, [x, places, updates], 0, "scatter")
    routine = lower(node, types(node.eqn.invars), types(node.eqn.outvars))
    assert len(routine.steps) == 4 and routine.scratch == (4 * 11,)
    check_assembly(routine)


@pytest.mark.parametrize("name", ["scatter-add", "scatter-sub"])
def test_scattered_rows_in_fours(name, monkeypatch):
    monkeypatch.setattr(driver, "reduces_vectors", lambda: True)
    rng = np.random.default_rng(6)
    places = rng.integers(-1, 6, (50, 1)).astype(np.int32)
    fun = getattr(weft.lax, name.replace("-", "_"))
    numbers = weft.lax.ScatterDimensionNumbers((1,), (0,), (0,))
    for width, fours in ((8, True), (6, False)):
        updates = rng.integers(0, 9, (50, width)).astype(np.float32)
        x = rng.integers(0, 9, (5, width)).astype(np.float32)
        closed = weft.make_jaxpr(lambda *xs: fun(*xs, numbers))(x, places, updates)
        (node,) = operations(Planner(Reference()).program(closed).nodes)
        check(node, [x, places, updates], 4.0, name)
        routine = lower(node, types(node.eqn.invars), types(node.eqn.outvars))
        (text,) = [step.module for step in routine.steps if isinstance(step, Run)]
        made = ptx.assemble(text)
        assert ("red.global.add.v4.f32" in made) == fours == (".version 8.1" in made)


def attention_types(*shapes):
    return [Type(s, BF16) for s in shapes]


@pytest.mark.parametrize("causal", [None, 3])
def test_attention(causal, monkeypatch):
    """One warp a block, so that there are few threads."""
    monkeypatch.setattr(attention, "WARPS", 1)
    monkeypatch.setattr(attention, "COLUMNS", 16)
    many, few = (1, 2, 20, 16), (1, 1, 23, 16)
    q, k, v, g = (RNG.normal(size=s).astype(BF16) for s in (many, few, few, many))
    params = {"orders": ("bhtd",) * 3, "scale": 0.25, "causal": causal}
    out, stats = np.zeros(many, BF16), np.zeros(many[:3], np.float32)
    types_ = [*attention_types(many), Type(many[:3], stats.dtype)]
    run_routine(
        ROUTINES["attention"](attention_types(many, few, few), types_, params),
        [q, k, v],
        [out, stats],
    )
    want = lookup("attention").ref(q, k, v, **params)
    np.testing.assert_allclose(stats, want[1], rtol=1e-5, atol=1e-5)
    close(out, want[0])
    params["orders"] += ("bhtd",)
    given = [q, k, v, out, stats, g]
    made = [np.zeros(s, BF16) for s in (many, few, few)]
    ins = [Type(x.shape, x.dtype) for x in given]
    run_routine(
        ROUTINES["attention_backward"](ins, attention_types(many, few, few), params),
        given,
        made,
    )
    for a, b in zip(made, lookup("attention_backward").ref(*given, **params), strict=True):
        close(a, b)


ROW_CASES = {
    # dtype, batch, heads, heads of keys, columns, depth, limits
    "parts of an array": (BF16, 1, 2, 2, 50, 64, 20),
    "all columns in ranges": (BF16, 1, 2, 2, 90, 64, None),
    "few columns seen": (np.float16, 2, 4, 2, 80, 24, (70, 3)),
    "nothing seen": (np.float32, 2, 2, 1, 40, 16, (-1, 5)),
    "a long row": (np.float32, 1, 1, 1, 37, 256, 30),
    "rows that aren't aligned": (BF16, 1, 3, 1, 33, 7, 40),
    "a short row": (np.float32, 2, 1, 1, 70, 1, None),
}


def row_case(name):
    """Operands and parameters of attention of a row."""
    dtype, batch, heads, shared, columns, depth, limits = ROW_CASES[name]
    width = (heads + 2 * shared) * depth
    draw = lambda *shape: RNG.normal(size=shape).astype(dtype)
    args = [draw(batch, width), *(draw(columns, batch, shared, depth) for _ in range(2))]
    kept = (0, shared * depth, depth, batch * shared * depth)
    places = ((width - heads * depth, width, depth, 0), kept, kept)
    if limits is not None:
        args.append(np.asarray(limits, np.int32))
    return args, {
        "sizes": (batch, heads, shared, columns, depth),
        "places": places,
        "scale": 0.25,
        "shift": None if limits is None else 0,
        "mean": True,
    }


@pytest.mark.parametrize("name", ROW_CASES)
def test_attention_of_a_row(name, monkeypatch):
    """Two warps a block, and ranges of few columns, so that there are few threads."""
    monkeypatch.setattr(attention, "ROW_THREADS", 64)
    monkeypatch.setattr(attention, "SMALLEST_RANGE", 32)
    args, params = row_case(name)
    types_ = [Type(x.shape, x.dtype) for x in args]
    (want,) = lookup("decode_attention").ref(*args, **params)
    routine = ROUTINES["decode_attention"](types_, [Type(want.shape, want.dtype)], params)
    (counts,) = [p.what for step in routine.steps for p in step.places if p.kind == "state"]
    found = []
    for _ in range(2):
        out = np.zeros_like(want)
        run_routine(routine, args, [out])
        assert not counts.any()  # ready for the next launch
        close(out, want)
        found.append(out.tobytes())
    assert found[0] == found[1]
    check_assembly(routine)


def test_a_row_that_sees_nothing_is_not_a_number(monkeypatch):
    monkeypatch.setattr(attention, "ROW_THREADS", 64)
    args, params = row_case("nothing seen")
    params["mean"] = False
    (want,) = lookup("decode_attention").ref(*args, **params)
    types_ = [Type(x.shape, x.dtype) for x in args]
    out = np.zeros_like(want)
    run_routine(ROUTINES["decode_attention"](types_, [], params), args, [out])
    np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
    assert np.isnan(out[0]).all() and not np.isnan(out[1]).any()


def close(a, b):
    a, b = a.astype(np.float32), b.astype(np.float32)
    assert np.abs(a - b).max() < 0.02 * np.abs(b).max()


def assembler_path():
    """NVIDIA's assembler, from its wheel or the system."""
    folders = folders_of("nvidia")
    found = [p for f in folders for p in glob(os.path.join(f, "*", "bin", "ptxas"))]
    return next(iter(found), shutil.which("ptxas"))


JOINED = {
    "many scalars": ("stack", [()] * 40, np.float32, {"axis": 0}),
    "rows": ("stack", [(3, 5)] * 13, BF16, {"axis": 1}),
    "columns": ("stack", [(2, 3)] * 150, np.int8, {"axis": 2}),
    "vectors of any length": ("concatenate", [(n,) for n in range(13)], F64, {"dimension": 0}),
    "ragged columns": (
        "concatenate",
        [(2, n % 4, 3) for n in range(140)],
        np.float16,
        {"dimension": 1},
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_many_arrays_are_joined_by_the_gpu(name):
    prim, shapes, dtype, params = JOINED[name]
    arrays = [RNG.normal(size=shape).astype(dtype) for shape in shapes]
    assert len(arrays) > MOST_JOINED
    check_routine(prim, arrays, params)


def test_a_long_operand_is_copied_as_it_is(monkeypatch):
    monkeypatch.setattr(moves, "LARGE", 64)
    arrays = [RNG.normal(size=n).astype(np.float32) for n in (3, 16, 5, 1, 40, 2, 7, 1, 9)]
    routine = moves.concatenate(
        [Type(x.shape, x.dtype) for x in arrays],
        [Type((84,), np.dtype(np.float32))],
        {"dimension": 0},
    )
    assert sum(isinstance(step, Move) for step in routine.steps) == 2
    check_routine("concatenate", arrays, {"dimension": 0})


def test_nothing_that_is_joined_or_repeated_goes_to_the_host():
    x = np.zeros((3, 4), np.float32)
    for fun in (lambda x: jnp.tile(x, (5, 7)), lambda x: jnp.tile(x, (2, 9, 1))):
        nodes = Planner(Cuda()).program(weft.make_jaxpr(fun)(x)).nodes
        assert all(isinstance(node, Launch) for node in nodes)


SCALARS = {"window_dimensions": (), "window_strides": (), "padding": ()}
DILATIONS = {"base_dilation": (), "window_dilation": ()}


@pytest.mark.parametrize("prim", ["reduce_window_sum", "reduce_window_max", "reduce_window_min"])
def test_windows_of_a_scalar(prim):
    check_routine(prim, [np.array(3, np.float32)], SCALARS | DILATIONS)
    check_routine(prim, [np.array(3, np.int32)], SCALARS | DILATIONS)


def test_selections_of_a_scalar():
    params = {"select_prim": lookup("ge"), **SCALARS}
    x, y = np.array(3, np.float32), np.array(5, np.float32)
    check_routine("select_and_scatter_add", [x, y], params)
    check_routine("select_and_gather_add", [x, y], params | DILATIONS)


CONVOLUTIONS = {
    "depthwise": {"feature_group_count": 6},
    "its gradient by filters": {"batch_group_count": 2},
    "dilated": {"lhs_dilation": (2, 1), "rhs_dilation": (1, 2)},
}


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_windows_are_divided_where_results_are_few(name, dtype, monkeypatch):
    params = {
        **dict.fromkeys(("window_strides", "lhs_dilation", "rhs_dilation"), (1, 1)),
        "padding": ((1, 1), (0, 2)),
        "feature_group_count": 1,
        "batch_group_count": 1,
        "dimension_numbers": weft.lax.ConvDimensionNumbers(
            (0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)
        ),
        "precision": None,
        "preferred_element_type": None,
        "out_sharding": None,
        **CONVOLUTIONS[name],
    }
    monkeypatch.setattr(conv, "LEAST_PRODUCTS", 2)
    monkeypatch.setattr(conv, "_with_dnn", lambda *given: None)  # kernels of our own, run here
    channels = 6 // params["feature_group_count"]
    x = RNG.integers(-3, 4, (2, 9, 7, 6)).astype(dtype)
    w = RNG.integers(-3, 4, (5, 4, channels, 12)).astype(dtype)
    check_routine("conv_general_dilated", [x, w], params)
    wanted = conv.parts_of(7, 20, channels)
    assert wanted > 1
    assert conv.parts_of(1 << 20, 20, channels) == 1  # enough as they are
    assert conv.parts_of(3136, 4096, 53) > 30  # of depthwise filters of 7 by 7


def test_bytes_are_multiplied_in_wider_integers():
    rows = np.array([[3, -1, 4], [1, -5, 9]], np.int8)
    product = lambda a, b: weft.lax.dot(a, b, preferred_element_type=np.int32)
    (eqn,) = weft.make_jaxpr(product)(rows, rows.T).eqns
    check_routine("dot_general", [rows, np.ascontiguousarray(rows.T)], eqn.params)


@pytest.mark.parametrize("length", [1025, 1028, 2112, 2113, 5000, 8192])
@pytest.mark.parametrize("name, reverse", [("cummax", False), ("cumsum", True)])
def test_rows_of_one_tile_wait_for_nothing(length, name, reverse):
    """A row that one block has needs no memory to tell other blocks, which is filled."""
    params = {"axis": 1, "reverse": reverse}
    rows = RNG.integers(-9, 9, (3, length)).astype(np.float32)
    check_routine(name, [rows], params)
    given = [Type(rows.shape, rows.dtype)]
    routine = cumulative.ROUTINES[name](given, given, params)
    (step,) = routine.steps
    assert not routine.scratch and step.blocks == 3
    assert step.threads < 256 or length > 3000


def test_rows_of_one_tile_are_read_in_fours():
    given = [Type((1280, 2112), np.dtype(np.float32))]
    (step,) = cumulative.ROUTINES["cummax"](given, given, {"axis": 1, "reverse": False}).steps
    text = ptx.assemble(step.module)
    assert "ld.global.v4" in text and "st.global.v4" in text


def extremes_of(shape, axis, **params):
    """Operands with many equal elements, and parameters, of tangents of running extremes."""
    x = RNG.integers(-3, 4, shape).astype(np.float32)
    name = "cummin" if params["least"] else "cummax"
    out = lookup(name).ref(x, axis=axis, reverse=params["reverse"])
    return [RNG.normal(size=shape).astype(np.float32), x, out], {"axis": axis, **params}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("least, reverse", [(False, False), (True, True)])
@pytest.mark.parametrize(
    "shape, axis", [((5, 40), 1), ((1, 100), 1), ((35, 3), 0), ((2, 17, 5), 1)]
)
def test_tangents_of_extremes_in_tiles(shape, axis, least, reverse, transposed, monkeypatch):
    """Rows of tiles of at most 16 elements, whose roots are rows too."""
    monkeypatch.setattr(extremes, "LEAF_BYTES", 64)
    arrays, params = extremes_of(shape, axis, least=least, reverse=reverse, transposed=transposed)
    check_routine("extreme_tangent", arrays, params)


@pytest.mark.parametrize("transposed", [False, True])
def test_tangents_of_extremes_of_narrow_and_wide_floats(transposed, monkeypatch):
    monkeypatch.setattr(extremes, "LEAF_BYTES", 128)
    for dtype in (BF16, np.float16, F64):
        arrays, params = extremes_of((3, 21), 1, least=False, reverse=False, transposed=transposed)
        arrays = [x.astype(dtype) for x in arrays]
        given = [Type(x.shape, x.dtype) for x in arrays]
        routine, out = extremes.lower(given, given[:1], params), np.zeros_like(arrays[0])
        run_routine(routine, arrays, [out])
        want = lookup("extreme_tangent").ref(*arrays, **params).astype(np.float64)
        np.testing.assert_allclose(out.astype(np.float64), want, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("shape, axis, launches, rooms", [
    ((1 << 22, 6), 1, 1, 0), ((64, 2048), 1, 1, 0), ((5, 524706), 1, 3, 5),
    ((1, 1 << 25), 1, 5, 10), ((1000, 640), 0, 3, 5), ((64, 640), 0, 1, 0),
])  # fmt: skip
def test_tangents_of_extremes_are_few_launches(shape, axis, launches, rooms):
    given = [Type(shape, np.dtype(np.float32))] * 3
    params = {"axis": axis, "reverse": False, "least": False, "transposed": True}
    routine = extremes.lower(given, given[:1], params)
    assert (len(routine.steps), len(routine.scratch)) == (launches, rooms)


@pytest.mark.parametrize("seed", range(6))
def test_permutations_of_any_axes(seed):
    """Axes that stay neighbours are one axis of the kernel; those of one element are none."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 33, 40], rng.integers(1, 6)))
    order = tuple(int(n) for n in rng.permutation(len(shape)))
    x = rng.integers(0, 100, shape).astype(np.uint16)
    out = np.zeros([shape[i] for i in order], np.uint16)
    routine = moves.Routine([(moves.permute(shape, order, 2), (moves.given(0), moves.made(0)))])
    run_routine(routine, [x], [out])
    np.testing.assert_array_equal(out, x.transpose(order))


@pytest.mark.parametrize("shape", [(40, 20), (3, 700), (1, 5000)])
@pytest.mark.parametrize("dtype, more", [("i4", 0), (BF16, 1)])
def test_keys_are_sorted_with_what_goes_with_them(shape, dtype, more):
    """A word goes with its key; the key itself isn't brought again by where it came from."""
    keys = RNG.integers(-3, 4, shape).astype(np.float32)
    keys[0, 2], keys[0, 3] = np.nan, -0.0
    first = np.arange(keys.size).reshape(shape).astype(dtype)
    arrays = [keys, first, *[first.astype(np.float32)] * more]
    params = {"dimension": 1, "num_keys": 1, "is_stable": True}
    check_routine("sort", arrays, params)
    types = [Type(x.shape, x.dtype) for x in arrays]
    steps = ROUTINES["sort"](types, types, params).steps
    alone = ROUTINES["sort"](types[:1], types[:1], params).steps
    assert len(steps) == len(alone) + 2 * more
