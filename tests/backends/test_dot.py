"""Products as native code against the reference: every order of axes, type and edge."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu import library
from weft.backends.cpu.routines.contractions import contraction, decisions, tiles
from weft.backends.cpu.routines.products import dot, product
from weft.backends.llvm.native import pool
from weft.backends.llvm.native.machine import compile_many
from weft.base import knobs
from weft.compiler.passes.contract import contract
from weft.kernel.program import Type
from weft.prims.dot import dot_dtype, dot_general_p, dot_shape

BF16 = np.dtype(ml_dtypes.bfloat16)
PLAIN = (((1,), (0,)), ((), ()))
TYPES = ["f4", "f8", "f2", BF16, "c8", "c16", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def random(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(-100 if dtype.kind == "i" else 0, 100, shape).astype(dtype)
    x = rng.standard_normal(shape)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x).astype(dtype)


def lowered(lhs, rhs, numbers, preferred=None):
    out = Type(
        dot_shape(lhs.shape, rhs.shape, numbers),
        dot_dtype("dot_general", lhs.dtype, rhs.dtype, preferred, True),
    )
    params = parameters(numbers, preferred)
    types = [Type(x.shape, x.dtype) for x in (lhs, rhs)]
    return dot.lower_dot(types, [out], params), out


def parameters(numbers, preferred=None, precision=None):
    return {
        "dimension_numbers": numbers,
        "precision": precision,
        "preferred_element_type": preferred,
        "out_sharding": None,
    }


def native(lhs, rhs, numbers, preferred=None):
    """The product by its tasks, with memory around the result that must stay as it is."""
    (tasks, scratch, _), out = lowered(lhs, rhs, numbers, preferred)
    guard = 64
    size = int(np.prod(out.shape)) * out.dtype.itemsize
    memory = np.full(size + 2 * guard, 0x5A, np.uint8)
    result = memory[guard : guard + size].view(out.dtype).reshape(out.shape)
    scratches = [np.full(n, 0x7F, np.uint8) for n in scratch]
    places = {"in": [lhs, rhs], "out": [result], "scratch": scratches}
    for task, address in zip(tasks, compile_many([(t.module, t.name) for t in tasks]), strict=True):
        tables = [what for kind, what in task.places if kind == "numbers"]
        places["numbers"] = {what: np.array(what, np.int64) for what in tables}
        given = [
            library.address(what) if kind == "library" else places[kind][what].ctypes.data
            for kind, what in task.places
        ]
        pointers = (ctypes.c_void_p * len(given))(*given)
        pool.run(address, pointers, 0, task.extent, task.chunk)
    assert (memory[:guard] == 0x5A).all() and (memory[guard + size :] == 0x5A).all()
    return result


def check(lhs, rhs, numbers=PLAIN, preferred=None):
    got = native(lhs, rhs, numbers, preferred)
    want = np.asarray(dot_general_p.ref(lhs, rhs, **parameters(numbers, preferred)))
    message = f"{lhs.dtype}{lhs.shape} by {rhs.dtype}{rhs.shape}, {numbers}"
    if got.dtype.kind in "iu":
        assert np.array_equal(got, want.astype(got.dtype)), message
        return got
    depth = int(np.prod([lhs.shape[i] for i in numbers[0][0]]))
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    scale = np.abs(lhs.astype(wide)).max(initial=0) * np.abs(rhs.astype(wide)).max(initial=0)
    unit = {"bfloat16": 2**-8, "float16": 2**-11}.get(got.dtype.name)
    unit = float(np.finfo(got.dtype).eps) if unit is None else unit
    sum_unit = max(unit, 2.0**-23) if got.dtype.itemsize < 4 else unit
    bound = 4 * sum_unit * (1 + np.sqrt(depth)) * scale + unit * np.abs(want.astype(wide))
    error = np.abs(got.astype(wide) - want.astype(wide))
    assert (error <= bound).all(), f"{message}: off by {error.max(initial=0)}"
    return got


def orders(rng, dtype):
    """A product of random axes in random order."""
    counts = dict(zip("bkmn", rng.choice([0, 1, 1, 2], 4), strict=True))
    small = [1, 2, 3, 4, 5, 7, 8, 9, 10, 15, 16, 17]
    sizes = small + [20, 28, 33, 48, 65, 100] if sum(counts.values()) <= 3 else small
    size = {(c, i): int(rng.choice(sizes)) for c, n in counts.items() for i in range(n)}
    for axis in size:
        if axis[0] == "b":
            size[axis] = int(rng.integers(1, 5))
    left = [a for a in size if a[0] in "bkm"]
    right = [a for a in size if a[0] in "bkn"]
    for side in (left, right):
        rng.shuffle(side)
    left, right = [tuple(a) for a in left], [tuple(a) for a in right]
    left, right = [(str(c), int(i)) for c, i in left], [(str(c), int(i)) for c, i in right]
    dims = {c: [(c, i) for i in range(counts[c])][::-1] for c in "bk"}
    numbers = tuple(
        tuple(tuple(side.index(a) for a in dims[c]) for side in (left, right)) for c in "kb"
    )
    lhs, rhs = (random(rng, [size[a] for a in side], dtype) for side in (left, right))
    return lhs, rhs, numbers


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_axes_in_any_order(dtype):
    rng = np.random.default_rng(5)
    for _ in range(30 if np.dtype(dtype) == np.float32 else 8):
        check(*orders(rng, dtype))


@pytest.mark.parametrize(("bits", "registers"), [(128, 32), (128, 16), (256, 16)])
def test_machines_with_other_registers(monkeypatch, bits, registers):
    for module in (dot, contraction):
        monkeypatch.setattr(module, "vector_bits", lambda: bits)
    for module in (product, decisions, tiles):
        monkeypatch.setattr(module, "registers", lambda: registers)
    rng = np.random.default_rng(8)
    for dtype in ("f4", "f4", "f8", BF16, "i2"):
        check(*orders(rng, dtype))
    for m, k, n in ((70, 130, 99), (3, 300, 200), (300, 200, 5), (1, 1000, 40)):
        check(random(rng, (m, k), "f4"), random(rng, (k, n), "f4"))
        check(random(rng, (m, k), "f4"), random(rng, (n, k), "f4"), (((1,), (1,)), ((), ())))


EDGES = [1, 2, 3, 7, 8, 9, 10, 15, 16, 17, 28, 31, 33, 47, 49, 130]


@pytest.mark.parametrize("dtype", ["f4", "f8", BF16], ids=str)
def test_every_edge_of_rows_and_columns(dtype):
    rng = np.random.default_rng(1)
    edges = EDGES if np.dtype(dtype) == np.float32 else EDGES[::3]
    for m in edges:
        for n in edges:
            k = int(rng.choice([1, 3, 5, 16, 70]))
            check(random(rng, (m, k), dtype), random(rng, (k, n), dtype))


@pytest.mark.parametrize("numbers", [(((a,), (b,)), ((), ())) for a in (0, 1) for b in (0, 1)])
def test_sizes_that_are_packed(numbers):
    rng = np.random.default_rng(2)
    for m, k, n in ((150, 301, 203), (9, 600, 130), (203, 90, 301), (300, 517, 10), (5, 300, 77)):
        lhs = random(rng, (m, k) if numbers[0][0] == (1,) else (k, m), "f4")
        rhs = random(rng, (k, n) if numbers[0][1] == (0,) else (n, k), "f4")
        check(lhs, rhs, numbers)


@pytest.mark.parametrize(
    ("left", "right", "preferred"),
    [
        ("f4", BF16, None),
        (BF16, BF16, "f4"),
        ("f2", "f2", "f4"),
        ("f4", "f8", None),
        ("i1", "i1", "i4"),
        ("u1", "u1", "i4"),
        ("i1", "i1", "f4"),
        ("i4", "i8", None),
    ],
    ids=str,
)
def test_mixed_types(left, right, preferred):
    rng = np.random.default_rng(3)
    preferred = None if preferred is None else np.dtype(preferred)
    check(random(rng, (33, 70), left), random(rng, (70, 50), right), PLAIN, preferred)


@pytest.mark.parametrize("dtype", ["f4", BF16, "i4"], ids=str)
def test_a_long_depth_is_summed_in_parts(dtype):
    rng = np.random.default_rng(7)
    for left, right, depth in (
        ((2**18,), (2**18,), 0),
        ((3, 65536), (65536, 5), 1),
        ((65536, 20), (65536, 18), 0),
    ):
        lhs, rhs = random(rng, left, dtype), random(rng, right, dtype)
        numbers = (((depth,), (0,)), ((), ()))
        assert len(lowered(lhs, rhs, numbers)[0].tasks) > 1
        check(lhs, rhs, numbers)


def test_nothing_to_sum_gives_zeros_and_no_result_is_fine():
    for shape in ((3, 0, 5), (0, 4, 5), (3, 4, 0), (1, 0, 1), (0, 0, 0)):
        m, k, n = shape
        got = check(np.ones((m, k), np.float32), np.ones((k, n), np.float32))
        assert not got.any()


def test_what_is_not_finite_stays_in_its_row_and_column():
    for m, k, n in ((9, 20, 50), (1, 37, 9), (40, 100, 5), (3, 33, 2)):
        lhs, rhs = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
        lhs[0, -1], rhs[-1, n - 1] = np.inf, np.nan
        got = native(lhs, rhs, PLAIN)
        assert np.isnan(got[:, n - 1]).all() and np.isfinite(got[1:, : n - 1]).all()
        assert np.isinf(got[0, : n - 1]).all()


def test_narrow_results_are_rounded_once():
    lhs = np.full((4, 512), 1.0, BF16)
    rhs = np.full((512, 40), 2.0**-7, BF16)
    rhs[0] = 128
    assert (native(lhs, rhs, PLAIN).astype(np.float32) == 132).all()
    assert np.isinf(native(np.full((9, 8), 3e38, BF16), np.full((8, 20), 3e38, BF16), PLAIN)).all()


F8 = ml_dtypes.float8_e4m3fn


@pytest.mark.parametrize(
    ("left", "right", "params"),
    [
        ("?", "?", {}),
        (F8, F8, {}),
        (F8, ml_dtypes.float8_e5m2, {"preferred_element_type": np.float32}),
        ("c8", "f4", {}),
        ("i4", "c8", {}),
        ("f4", "f4", {"precision": lax.DotAlgorithmPreset.F32_F32_F32}),
        ("f4", "f4", {"precision": lax.DotAlgorithmPreset.BF16_BF16_BF16}),
        ("f4", "f4", {"precision": lax.DotAlgorithmPreset.F16_F16_F32}),
        (F8, F8, {"precision": lax.DotAlgorithmPreset.ANY_F8_ANY_F8_F32}),
    ],
    ids=str,
)
def test_rare_types_and_algorithms_are_conversions_around_a_product(left, right, params):
    rng = np.random.default_rng(9)
    x, y = ((2 * random(rng, s, "f4")).astype(d) for s, d in (((9, 20), left), ((20, 17), right)))

    def f(x, y):
        return lax.dot_general(x, y, PLAIN, **params)

    (product,) = (
        eqn
        for eqn in contract(weft.make_jaxpr(f)(x, y)).jaxpr.eqns
        if eqn.primitive.name == "dot_general"
    )
    ins = [Type(v.aval.shape, v.aval.dtype) for v in product.invars]
    outs = [Type(v.aval.shape, v.aval.dtype) for v in product.outvars]
    assert dot.lower_dot(ins, outs, product.params) is not None
    results = []
    for backend in ("native", "reference"):
        with knobs.scope(backend=backend):
            results.append(np.asarray(weft.jit(lambda *xs: f(*xs))(x, y)))
    got, want = results
    assert got.dtype == want.dtype
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["f4", BF16], ids=str)
def test_a_depth_in_blocks_is_one_chain(dtype):
    """Sums kept between blocks of the depth change no bits, also where tiles overlap."""
    rng = np.random.default_rng(10)
    for m, k, n in ((67, 1030, 70), (130, 1537, 65)):
        lhs, rhs = random(rng, (m, k), dtype), random(rng, (k, n), dtype)
        got = check(lhs, rhs)
        assert np.array_equal(got[3:50], native(lhs[3:50], rhs, PLAIN))


def test_the_same_bits_at_every_thread_count():
    rng = np.random.default_rng(4)
    cases = [
        (random(rng, (300, 260), "f4"), random(rng, (260, 400), "f4"), PLAIN),
        (random(rng, (40, 64, 65), "f4"), random(rng, (40, 65, 66), "f4"),
         (((2,), (1,)), ((0,), (0,)))),
        (random(rng, (500, 900), "f4"), random(rng, (900,), "f4"), (((1,), (0,)), ((), ()))),
        (random(rng, (300, 200), "c8"), random(rng, (200, 300), "c8"), PLAIN),
    ]  # fmt: skip
    for lhs, rhs, numbers in cases:
        results = []
        for count in (1, 2, 8):
            with knobs.scope(num_threads=count):
                results.append(native(lhs, rhs, numbers).tobytes())
        assert len(set(results)) == 1


def test_one_text_serves_every_shape():
    """Of those, at least, that have the same tile, as these do by vectors of any width."""
    texts = set()
    for m, k, n in ((144, 512, 576), (192, 300, 384), (288, 256, 768)):
        (tasks, *_), _ = lowered(np.empty((m, k), "f4"), np.empty((k, n), "f4"), PLAIN)
        texts.add(tuple(t.module for t in tasks))
    assert len(texts) == 1


def test_a_program_with_products_is_the_same_as_interpreted():
    def program(x, w, v):
        h = jnp.tanh(x @ w)
        return jnp.einsum("bi,ij->bj", h, v), jnp.sum(h @ w.T, axis=0), x.T @ h

    rng = np.random.default_rng(6)
    args = [random(rng, s, "f4") for s in ((33, 20), (20, 50), (50, 7))]
    results = []
    for backend in ("native", "reference"):
        with knobs.scope(backend=backend):
            results.append(weft.jit(lambda *xs: program(*xs))(*args))
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-4)
