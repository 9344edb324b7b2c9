"""Scatters by native tasks: every mode, operation and layout against the reference."""

import numpy as np
import pytest

import weft
from tests.backends.tasks import run_tasks
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.routines.scatter import scatter
from weft.kernel.program import Type


def equations(fun, *args):
    return [e for e in weft.make_jaxpr(fun)(*args).eqns if e.primitive.name.startswith("scatter")]


def lowered(name, ins, out, params):
    types = [Type(x.shape, x.dtype) for x in ins]
    return scatter.LOWERINGS[name](types, [Type(out.shape, out.dtype)], params)


def check(primitive, ins, params, close=False):
    want = primitive.ref(*ins, **params)
    found = lowered(primitive.name, ins, want, params)
    assert found is not None
    (got,) = run_tasks(found, ins, [Type(want.shape, want.dtype)])
    if close:
        np.testing.assert_allclose(got, want, 1e-5)
    else:
        np.testing.assert_array_equal(got, want)
    return found


def scattered(
    method, dtype, shape, at, update_shape, seed=0, mode=None, close=False, numbers=(-9, 9)
):
    """Check ``x.at[at].method(u)`` for operands of a dtype."""
    rng = np.random.default_rng(seed)
    draw = lambda s: rng.integers(*numbers, s).astype(jnp.dtype(dtype))
    x, u = draw(shape), draw(update_shape)
    fun = lambda x, u, *at: getattr(x.at[at], method)(u, mode=mode)
    closed = weft.make_jaxpr(lambda x, u: fun(x, u, *at))(x, u)
    env = dict(zip(closed.jaxpr.constvars, map(np.asarray, closed.consts), strict=True))
    env |= dict(zip(closed.jaxpr.invars, (x, u), strict=True))
    for eqn in closed.eqns:
        values = [env[v] if v in env else np.asarray(v.val, v.aval.dtype) for v in eqn.invars]
        if eqn.primitive.name.startswith("scatter"):
            return check(eqn.primitive, values, eqn.params, close)
        out = eqn.primitive.ref(*values, **eqn.params)
        env[eqn.outvars[0]] = np.asarray(out, eqn.outvars[0].aval.dtype)
    raise AssertionError("no scatter")


def every_half():
    """All bit patterns of two bytes."""
    return np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("method", ["add", "subtract", "multiply", "min", "max"])
def test_narrow_floats_are_rounded_at_every_step(dtype, method):
    x = every_half().view(jnp.dtype(dtype))
    u = np.random.default_rng(3).permutation(x)
    at = np.arange(x.size, dtype=np.int32)
    (eqn,) = equations(lambda x, u: getattr(x.at[at], method)(u), x, u)
    want = eqn.primitive.ref(x, at[:, None], u, **eqn.params)
    found = lowered(eqn.primitive.name, [x, at[:, None], u], want, eqn.params)
    (got,) = run_tasks(found, [x, at[:, None], u], [Type(want.shape, want.dtype)])
    with np.errstate(invalid="ignore"):  # some processors do signal what a signalling one is
        nan, nans = (np.isnan(a.astype(np.float32)) for a in (want, got))
    np.testing.assert_array_equal(nans, nan)
    np.testing.assert_array_equal(got[~nan].view(np.uint16), want[~nan].view(np.uint16))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("method", ["set", "add", "subtract", "multiply"])
def test_complex_numbers_are_scattered_by_parts(dtype, method):
    idx = np.random.default_rng(4).integers(-12, 12, 500)
    scattered(method, dtype, (10,), (idx,), (500,))
    scattered(method, dtype, (10, 6, 4), (idx, slice(1, 3)), (500, 2, 4))


METHODS = ["set", "add", "multiply", "min", "max"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_elements_and_rows(method, dtype):
    rng = np.random.default_rng(1)
    idx = rng.integers(-12, 12, 500)
    scattered(method, dtype, (10,), (idx,), (500,))
    scattered(method, dtype, (10, 7), (idx,), (500, 7))
    scattered(method, dtype, (5, 10), (slice(None), idx), (5, 500))
    scattered(method, dtype, (10, 6, 4), (idx, slice(1, 3)), (500, 2, 4))


@pytest.mark.parametrize("method", ["set", "add"])
@pytest.mark.parametrize("mode", ["drop", "clip", "promise_in_bounds"])
def test_many_updates_are_dealt_into_buckets(method, mode):
    rng = np.random.default_rng(2)
    idx = rng.integers(0, 90_000, 70_000) - (10 if mode == "drop" else 0)
    idx = np.where(idx >= 80_000, 5, idx) if mode == "promise_in_bounds" else idx
    for dtype in ("int32", "int64"):
        with weft.enable_x64():
            found = scattered(method, dtype, (80_000,), (idx,), (70_000,), mode=mode)
        assert names_of(found) == ["look", "count", "rank", "deal", "work_off", "in_a_row"]
        assert names_of(found.in_place) == names_of(found)
    rows = rng.integers(0, 9000, 5000)
    found = scattered(method, "float32", (9000, 9), (rows,), (5000, 9), mode=mode)
    assert names_of(found) == ["count", "rank", "deal", "work_off"]


@pytest.mark.parametrize("dtype", ["float32", "int16", "float64", "bfloat16"])
@pytest.mark.parametrize("method", ["set", "add", "subtract", "multiply", "min", "max"])
def test_updates_of_which_most_go_into_one_bucket_are_worked_off_in_a_row(method, dtype):
    rng = np.random.default_rng(8)
    total = 400_000
    for some, others in ((70_001, 0.0), (300_000, 0.0), (300_001, 0.02)):
        near = rng.integers(200_100, 200_900, some)
        far = rng.integers(-20, total + 20, some)
        idx = np.where(rng.random(some) < others, far, near)
        with weft.enable_x64():
            found = scattered(method, dtype, (total,), (idx,), (some,), mode="drop", numbers=(1, 3))
        assert names_of(found) == ["look", "count", "rank", "deal", "work_off", "in_a_row"]


@pytest.mark.parametrize("method", ["set", "add", "multiply", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int16", "bfloat16", "complex64"])
def test_parts_that_no_index_moves_anything_between(method, dtype):
    if dtype == "complex64" and method == "min":
        return
    rng = np.random.default_rng(9)
    idx = rng.integers(-60, 60, 900)
    options = {"mode": "drop", "numbers": (1, 3), "close": dtype == "complex64"}
    for shape, at, updates in (
        ((40, 50), (slice(None), idx), (40, 900)),
        ((4, 10, 50), (slice(None), slice(None), idx), (4, 10, 900)),
        ((20, 50, 3), (slice(None), idx), (20, 900, 3)),
        ((20, 50, 3, 7), (slice(2, 18), idx, slice(None), slice(1, 3)), (16, 900, 3, 2)),
    ):
        found = scattered(method, dtype, shape, at, updates, **options)
        slabs = len(shape) < 4
        assert ("in_slabs" in names_of(found)) == slabs
        assert not slabs or names_of(found.in_place) == ["in_slabs"]


def names_of(found):
    return [task.name for task in found.tasks]


@pytest.mark.parametrize("method", ["add", "subtract", "multiply", "min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8", "float64"])
def test_updates_of_a_small_array_come_in_pieces(method, dtype):
    rng = np.random.default_rng(6)
    idx = rng.integers(-20, 400, 30_000)
    with weft.enable_x64():
        ordered = method == "multiply" and dtype.startswith("float")
        numbers = (-1, 2) if ordered else (-9, 9)
        for inner in ((), (5,)):
            found = scattered(
                *(method, dtype, (300, *inner), (idx,), (30_000, *inner)),
                mode="drop",
                numbers=numbers,
            )
            assert names_of(found) == (["copy", "in_a_row"] if ordered else ["in_pieces", "join"])


@pytest.mark.parametrize("method", ["add", "subtract", "min", "max"])
def test_pieces_keep_signs_of_zeros_and_nan(method):
    x = np.array([-0.0, 0.0, -0.0, 1.0, np.nan], np.float32)
    at = np.full((1 << 15, 1), 3, np.int32)
    u = np.zeros(1 << 15, np.float32)
    u[777] = np.nan
    (eqn,) = equations(lambda x, u: getattr(x.at[at[:, 0]], method)(u), x, u)
    want = eqn.primitive.ref(x, at, u, **eqn.params)
    found = lowered(eqn.primitive.name, [x, at, u], want, eqn.params)
    (got,) = run_tasks(found, [x, at, u], [Type(x.shape, x.dtype)])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[:3]), np.signbit(x[:3]))


@pytest.mark.parametrize("total", [300, 70_000])
@pytest.mark.parametrize(
    "factors",
    ["usual", "near one", "up and down", "down and up", "up at first", "down at first", "special"],
)
def test_products_of_floats_are_made_in_their_order(total, factors):
    rng = np.random.default_rng(10)
    count = 80_000
    at = total // 2 + rng.integers(0, 100, count)
    at[rng.integers(0, count, 50)] = total - 1
    x = np.where(np.arange(total) % 3 == 1, 1e-40, rng.standard_normal(total)).astype(np.float32)
    x[total // 2 : total // 2 + 3] = -0.0, 0.0, -1.0
    order = np.argsort(at, kind="stable")
    nth = np.empty(count, int)
    nth[order] = np.arange(count) - np.searchsorted(at[order], at[order])  # of its place
    close = rng.uniform(0.998, 1.002, count)
    steps = np.array([90, 90, -90, -90])
    u = {
        "usual": rng.standard_normal(count),
        "near one": close,
        "up and down": close * 2.0 ** steps[nth % 4],
        "down and up": -close * 2.0 ** -steps[nth % 4],
        "up at first": close * np.where(nth < 400, 1.5, 1 / 1.5),
        "down at first": close * np.where(nth < 400, 1 / 1.5, 1.5),
        "special": np.where(
            rng.random(count) < 1e-3, rng.choice([0, np.inf, np.nan], count), close
        ),
    }[factors].astype(np.float32)
    (eqn,) = equations(lambda x, i, u: x.at[i].mul(u), x, at, u)
    ins = [x, at[:, None].astype(np.int32), u]
    found = lowered(eqn.primitive.name, ins, x, eqn.params)
    (got,) = run_tasks(found, ins, [Type(x.shape, x.dtype)])
    want = x.copy()
    with np.errstate(all="ignore"):
        np.multiply.at(want, at, u)
    np.testing.assert_array_equal(got, want)
    real = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[real]), np.signbit(want[real]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("method", METHODS)
def test_rows_of_all_widths(method, dtype):
    if dtype == "bool" and method in ("add", "multiply"):
        return
    idx = np.random.default_rng(11).integers(-2, 9, 40)
    options = {"mode": "drop", "numbers": (0, 3)}
    with weft.enable_x64():
        for width in (1, 2, 3, 8, 17, 130):
            scattered(method, dtype, (8, width), (idx,), (40, width), **options)
        part = (idx, slice(1, 3))
        scattered(method, dtype, (8, 4, 21), part, (40, 2, 21), **options)


@pytest.mark.parametrize("method", METHODS)
def test_updates_that_do_not_meet_go_straight_to_their_places(method):
    at = np.random.default_rng(7).permutation(40_000)[:30_000, None].astype(np.int32)
    x, u = np.arange(39_000, dtype=np.float32), np.arange(30_000, dtype=np.float32)
    fun = lambda x, u: getattr(x.at[at[:, 0]], method)(u, mode="drop", unique_indices=True)
    (eqn,) = equations(fun, x, u)
    assert names_of(check(eqn.primitive, [x, at, u], eqn.params)) == ["copy", "apart"]


def test_memory_of_an_operand_that_is_not_needed_again_is_used():
    at = np.random.default_rng(8).integers(0, 1000, 500)
    u = np.ones(500, np.float32)

    def tasks_of(fun, *args):
        text = weft.jit(fun).lower(*args).compile().as_text()
        return "copy." in text

    assert not tasks_of(lambda u: jnp.zeros(1000, "float32").at[at].add(u), u)
    assert not tasks_of(lambda u: jnp.zeros(1000, "float32").at[at].add(u).at[at].mul(u), u)
    assert tasks_of(lambda x, u: x.at[at].add(u), jnp.zeros(1000), u)
    assert tasks_of(lambda u: (x := jnp.sin(u)).at[at].add(u) + x, jnp.zeros(1000)[:500])


def test_values_that_are_read_later_stay():
    at = np.random.default_rng(9).integers(0, 300, 500)
    x, u = jnp.arange(300, dtype="float32"), jnp.ones(500, "float32")

    def late(x, u):
        y = jnp.sin(x)
        z = y.at[at].add(u)
        return z, y.at[at].mul(2 * u), y

    def loop(x, u):
        body = lambda i, c: (c[0].at[at].add(u * i), c[1] + c[0].sum())
        return weft.lax.fori_loop(0, 4, body, (x, jnp.float32(0)))

    def both(x, u):
        return weft.lax.fori_loop(0, 3, lambda i, c: (c[0].at[at].add(u), c[0]), (x, x * 2))

    def own(x, u):
        y = jnp.cos(x)
        return y.at[(y * 100).astype("int32")].add(y)

    for fun in (late, loop, both, own):
        want = fun_without_compiler(fun, x, u)
        got = weft.tree.leaves(weft.jit(fun)(x, u))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, 1e-5)
    np.testing.assert_array_equal(x, np.arange(300))


def fun_without_compiler(fun, *args):
    with weft.disable_jit():
        return weft.tree.leaves(fun(*args))


def test_pairs_of_indices_and_batches():
    rng = np.random.default_rng(3)
    i, j = rng.integers(0, 50, 30_000), rng.integers(0, 60, 30_000)
    scattered("add", "int32", (50, 60), (i, j), (30_000,))
    scattered("set", "int32", (50, 3, 60), (i, slice(None), j), (30_000, 3))
    x, u = np.zeros((6, 40), np.int32), np.ones((6, 100), np.int32)
    k = rng.integers(0, 40, (6, 100))
    fun = weft.vmap(lambda x, k, u: x.at[k].add(u))
    (eqn,) = equations(fun, x, k, u)
    check(eqn.primitive, [x, k[..., None], u], eqn.params)


def test_windows_that_overlap_are_written_in_their_order():
    numbers = lax.ScatterDimensionNumbers((1,), (), (0,))
    x = np.zeros(5000, np.int32)
    at = np.random.default_rng(4).integers(0, 4990, (6000, 1)).astype(np.int32)
    u = np.arange(30_000, dtype=np.int32).reshape(6000, 5)
    (eqn,) = equations(lambda x, u: lax.scatter(x, at, u, numbers), x, u)
    assert len(check(eqn.primitive, [x, at, u], eqn.params).tasks) == 2


def test_sums_of_a_large_array_are_those_of_one_update_after_the_other():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(80_000).astype(np.float32)
    at = rng.integers(0, 80_000, 90_000) // 100 * 100
    u = rng.standard_normal(90_000).astype(np.float32)
    (eqn,) = equations(lambda x, i, u: x.at[i].add(u, mode="promise_in_bounds"), x, at, u)
    check(eqn.primitive, [x, at[:, None].astype(np.int32), u], eqn.params)


def test_nan_wins_and_rare_kinds_are_left_to_the_reference():
    x = np.array([1, np.nan, 3], np.float32)
    at = np.array([[0], [1], [2], [2]], np.int32)
    u = np.array([np.nan, 1, 2, -5], np.float32)
    for fun in (lambda x, u: x.at[at[:, 0]].min(u), lambda x, u: x.at[at[:, 0]].max(u)):
        (eqn,) = equations(fun, x, u)
        check(eqn.primitive, [x, at, u], eqn.params)
    (eqn,) = equations(lambda x: x.at[0].apply(jnp.sin), x)
    assert lowered("scatter", [x, at[:1], u[:1]], x, eqn.params) is None
