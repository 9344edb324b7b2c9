"""Reductions over windows and their gradients outside of compiled functions: results are right, and
new shapes of many elements find code that is there already."""

import numpy as np
import pytest

import weft
from tests.backends.shapes import all_general
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.calls import native
from weft.backends.cpu.routines.contractions import window
from weft.base import knobs
from weft.runtime.kinds import kind_of

FLOATS = "float32 bfloat16 float16".split()
TYPES = [*FLOATS, "int32", "int8", "uint16", "complex64", "bool"]
CLOSE = {"bfloat16": 2e-2, "float16": 3e-3}
FOLDS = {"add": lax.add, "max": lax.max, "min": lax.min}
LENGTHS = [1, 2, 3, 5, 7, 8, 12, 16, 17, 20, 31, 32, 40, 64, 65, 97, 130]


@pytest.fixture
def general(monkeypatch):
    """All programs as those of operations outside of compiled functions, of many elements."""
    with all_general(monkeypatch):
        yield


def numbers(rng, shape, name):
    x = (np.round(rng.normal(size=shape) * 3, 1)).astype(np.float32)
    if name == "float32" and x.size > 8:
        x.reshape(-1)[rng.integers(0, x.size, 4)] = [np.nan, -np.inf, np.inf, -0.0]
    if name == "complex64":
        return jnp.asarray((x + 1j * rng.normal(size=shape)).astype(np.complex64))
    if name == "bool":
        return jnp.asarray(x > 0)
    return jnp.asarray(np.abs(x) if name[0] == "u" else x).astype(name)


def first_of(kind, name):
    """What a fold begins with."""
    if kind == "add":
        return np.asarray(0).astype(name)
    if name == "bool":
        return np.asarray(kind == "min")
    if jnp.issubdtype(jnp.dtype(name), jnp.integer):
        info = jnp.iinfo(name)
        return np.asarray(info.min if kind == "max" else info.max, name)
    return np.asarray(-np.inf if kind == "max" else np.inf).astype(jnp.dtype(name))


def some_windows(rng, name, holes=True):
    """An array and a reduction over windows with any of what one can have."""
    rank = int(rng.integers(1, 5))
    shape = rng.integers(1, [0, 900, 70, 20, 9][rank], rank).tolist()
    shape[-1] = int(rng.choice(LENGTHS))
    kind = "add" if name == "complex64" else str(rng.choice(list(FOLDS)[name == "bool" :]))
    given = (
        rng.choice([1, 2, 3, 5, 9] if rank < 4 else [1, 2, 3], rank).tolist(),
        rng.choice([1, 1, 2, 3, 5], rank).tolist(),
        [tuple(p) for p in rng.integers(-1 if rng.random() < 0.2 else 0, 4, (rank, 2)).tolist()],
        rng.choice([1, 1, 2, 3] if holes else [1], rank).tolist(),
        rng.choice([1, 1, 2] if holes else [1], rank).tolist(),
    )
    fold = {"max": lax.bitwise_or, "min": lax.bitwise_and} if name == "bool" else FOLDS
    return numbers(rng, shape, name), lambda x: lax.reduce_window(
        x, first_of(kind, name), fold[kind], *given
    )


def check(fun, args, name):
    """Native results against those of the references."""
    found = []
    for backend in ("native", "reference"):
        with knobs.scope(backend=backend):
            found.append(np.asarray(weft.jit(lambda *xs: fun(*xs))(*args)))
    got, want = found
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if name == "complex64":
        got, want = (np.ascontiguousarray(x).view(np.float32) for x in (got, want))
    tol = CLOSE.get(name, 1e-4)
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=tol, atol=20 * tol
    )


def check_some(rng, name, count, what):
    while count:
        x, fun = some_windows(rng, name, what == "values")
        try:
            out = weft.eval_shape(fun, x)
        except (TypeError, ValueError):  # nothing is left of the array
            continue
        count -= 1
        if what == "values":
            check(fun, [x], name)
        elif what == "pulled back":
            y = numbers(rng, out.shape, name)
            check(lambda x, y, f=fun: weft.vjp(f, x)[1](y)[0], [x, y], name)
        else:
            dx = numbers(rng, x.shape, name)
            check(lambda x, dx, f=fun: weft.jvp(f, (x,), (dx,))[1], [x, dx], name)


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
def test_windows_are_those_of_the_reference(name, general):
    check_some(np.random.default_rng(TYPES.index(name)), name, 12, "values")


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("what", ["pulled back", "pushed forward"])
def test_derivatives_are_those_of_the_reference(name, what, general):
    check_some(np.random.default_rng(10 + TYPES.index(name)), name, 8, what)


@pytest.mark.parametrize("bits", [128, 256])
def test_other_widths_of_vectors_do_as_well(bits, general, monkeypatch):
    monkeypatch.setattr(window, "vector_bits", lambda: bits)
    rng = np.random.default_rng(bits)
    check_some(rng, "float32", 8, "values")
    check_some(rng, "int8", 4, "values")
    check_some(rng, "float32", 4, "pulled back")


@pytest.mark.parametrize("channels", [1, 2, 3, 6, 7])
def test_few_elements_at_each_place_are_one_axis_with_it(channels, general):
    rng = np.random.default_rng(channels)
    x, y = (numbers(rng, (2, 9, 40, channels), "float32") for _ in range(2))

    def pooled(x):
        return lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")

    check(pooled, [x], "float32")
    check(lambda x, y: weft.vjp(pooled, x)[1](y)[0], [x, y], "float32")


def test_loops_of_one_axis_may_have_short_rows_and_others(general):
    """What truth values are made of has several loops along an axis."""
    x = numbers(np.random.default_rng(0), (11, 27, 11), "bool")
    given = (5, 2, 5), (2, 1, 2), [(1, 3), (0, 3), (0, 3)], (1, 1, 1), (2, 1, 3)
    check(lambda x: lax.reduce_window(x, np.True_, lax.bitwise_and, *given), [x], "bool")


# --- large windows --------------------------------------------------------------------------------


@pytest.mark.parametrize("general_code", [False, True])
def test_large_windows_are_done_one_axis_after_another(general_code, monkeypatch):
    """Of equal extrema, and of several that are no numbers, it is still the first."""
    rng = np.random.default_rng(0)
    x = rng.choice(np.float32([0.0, -0.0, -1.0]), size=(90, 101))
    at = rng.integers(0, x.size, 3)
    x.reshape(-1).view(np.uint32)[at] = 0x7FC00000 + np.arange(3)
    results = []
    for apart in (window._apart, lambda *_: []):
        monkeypatch.setattr(window, "_apart", apart)
        kind_of.cache_clear()
        closed = weft.make_jaxpr(
            lambda x: lax.reduce_window(x, -np.inf, lax.max, (7, 9), (1, 2), "SAME")
        )(x)
        if general_code:
            native.generalise(closed)
        program = native.compile_program(closed)
        (out,) = program([jnp.asarray(x)])
        results.append((len(program.plan.codes), np.asarray(out).view(np.uint32)))
    (apart, one), (together, other) = results
    assert (apart, together) == (2, 1)
    np.testing.assert_array_equal(one, other)


def test_sums_of_large_windows_are_close_and_those_of_small_ones_the_same():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 70)).astype(np.float32)

    def summed(x, size):
        return lax.reduce_window(x, 0.0, lax.add, (size, size), (1, 1), "VALID")

    for size in (5, 6, 20):
        wide = np.lib.stride_tricks.sliding_window_view(x, (size, size))
        got = np.asarray(weft.jit(summed, static_argnums=1)(x, size))
        want = wide.astype(np.float64).sum((2, 3))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)
    one = np.float32(0)
    for t in wide[3, 4].reshape(-1)[:25]:
        one += t
    row = jnp.asarray(wide[3, 4].reshape(-1)[:25].reshape(5, 5))
    assert np.asarray(weft.jit(summed, static_argnums=1)(row, 5))[0, 0] == one


def test_rows_with_strides_are_picked_out_of_vectors():
    rng = np.random.default_rng(0)
    for stride in (2, 3, 4, 5, 15, 16, 17):
        for count in (5, 16, 40):
            x = rng.normal(size=(3, (count - 1) * stride + 2)).astype(np.float32)
            fun = lambda x, s=stride: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, s), "VALID")
            want = x[:, :-1:stride] + x[:, 1::stride]
            np.testing.assert_array_equal(weft.jit(fun)(x), want)


# --- new shapes -----------------------------------------------------------------------------------


def array(*shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def pool(kind, sizes, strides, padding="SAME"):
    first = {"add": 0.0, "max": -np.inf, "min": np.inf}[kind]
    return lambda x: lax.reduce_window(x, first, FOLDS[kind], sizes, strides, padding)


def gradient(fun):
    return lambda x: weft.vjp(fun, x)[1](fun(x))[0]


# each has a few structures: whether windows reach beyond the array, and short rows
LAYERS = [(8, 33, 80, 16), (9, 38, 75, 16), (8, 34, 76, 16), (7, 35, 78, 16), (10, 42, 71, 16)]
# whose halves have as many of each as two of the widest vectors hold
BATCHES = [(33, 67, 80, 16), (34, 76, 71, 16), (36, 68, 72, 16), (35, 69, 78, 16), (37, 84, 73, 16)]
FIRST = [(9, 16, 37, 83), (8, 16, 42, 80), (7, 16, 44, 87), (9, 16, 35, 90), (8, 16, 46, 76)]
PLANES = [(331, 343), (347, 352), (401, 307), (333, 376), (319, 371)]
LINES = [(123_456,), (130_001,), (111_113,), (150_000,), (101_234,)]

CALLS = {
    "pool": (pool("max", (1, 2, 2, 1), (1, 2, 2, 1)), LAYERS),
    "pool whole": (pool("max", (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), LAYERS),
    "mean": (pool("add", (1, 3, 3, 1), (1, 1, 1, 1)), LAYERS),
    "channels first": (pool("max", (1, 1, 2, 2), (1, 1, 2, 2), "VALID"), FIRST),
    "thirds": (pool("min", (1, 1, 3, 3), (1, 1, 3, 3)), FIRST),
    "gradient": (gradient(pool("max", (1, 3, 3, 1), (1, 2, 2, 1))), LAYERS),
    "gradient, channels first": (gradient(pool("max", (1, 1, 3, 3), (1, 1, 2, 2))), FIRST),
    "gradient of sums": (gradient(pool("add", (1, 3, 3, 1), (1, 2, 2, 1))), BATCHES),
    "tangent": (
        lambda x: weft.jvp(pool("max", (1, 3, 3, 1), (1, 2, 2, 1)), (x,), (2 * x,))[1],
        LAYERS,
    ),
    "plane": (pool("add", (5, 5), (1, 1)), PLANES),
    "large": (pool("max", (15, 11), (1, 1)), PLANES),
    "line": (pool("add", (100,), (1,)), LINES),
    "short line": (pool("max", (4,), (1,), "VALID"), LINES),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_new_shape_compiles_nothing(name, texts):
    fun, shapes = CALLS[name]
    *known, fourth, fifth = (array(*shape) for shape in shapes)
    for x in known:
        for _ in range(3):
            fun(x)
    texts.clear()
    for x in (fourth, fifth):
        for _ in range(3):
            found = fun(x)
        assert texts == []
        want = weft.jit(fun)(x)
        texts.clear()
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-4)


def test_windows_of_other_sizes_may_be_the_same_code(texts):
    """Taps that are not written one after another are counted by what is read."""
    x = array(127, 991)
    pool("add", (1, 80), (1, 1))(x)
    assert texts
    texts.clear()
    pool("add", (1, 90), (1, 1))(x)
    assert texts == []


def test_the_same_bits_on_any_number_of_threads():
    for fun, shape in (
        (pool("add", (5, 5), (1, 1)), (301, 407)),
        (pool("add", (100,), (1,)), (120_007,)),
        (gradient(pool("max", (1, 3, 3, 1), (1, 2, 2, 1))), (9, 31, 33, 20)),
    ):
        results = set()
        for count in (1, 2, 5):
            with knobs.scope(num_threads=count):
                results.add(np.asarray(fun(array(*shape))).tobytes())
        assert len(results) == 1


@pytest.mark.parametrize("kind", [float, np.float32, lambda x: np.asarray(x, np.float32)])
def test_what_a_fold_begins_with_is_looked_at(kind, texts, monkeypatch):
    made = []
    sweep = window.Windows.sweep
    monkeypatch.setattr(
        window.Windows, "sweep", lambda w, *given: (made.append(w), sweep(w, *given))[1]
    )
    x = array(139, 977)
    want = np.maximum(np.maximum(x[:-2], x[1:-1]), x[2:])
    got = lax.reduce_window(x, kind(-np.inf), lax.max, (3, 1), (1, 1), "VALID")
    assert len(made) == 1
    np.testing.assert_array_equal(got, want)
    got = lax.reduce_window(x, kind(0.5), lax.max, (3, 1), (1, 1), "VALID")
    assert len(made) == 1
    np.testing.assert_array_equal(got, want.clip(0.5))


@pytest.mark.parametrize("shape", [(6, 41), (40, 7)])
def test_extrema_of_windows_with_nan_and_zeros(shape):
    x = np.resize(np.array([0.0, -0.0, np.nan, 1, -np.inf, -2, -0.0, np.inf], np.float32), shape)
    for name, fold in (("max", np.maximum), ("min", np.minimum)):
        got = np.asarray(weft.jit(pool(name, (2, 1), (1, 1), "VALID"))(x))
        np.testing.assert_array_equal(got, fold(x[:-1], x[1:]))
