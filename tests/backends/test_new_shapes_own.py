"""Operations with algorithms of their own: arrays of a new shape find the code of others."""

import numpy as np
import pytest

import weft
from tests.laws import checks
from tests.samples import all_samples
from weft import lax, ops, random, scipy
from weft import numpy as jnp
from weft.backends.cpu.calls import native
from weft.base import knobs
from weft.compiler import generic

KEY = random.key(3)
NUMBERS = lax.ScatterDimensionNumbers((), (0,), (0,))

# The first shapes of each are of no other test. What one of them has compiled is for those that
# follow: few elements, and many.
LINES = [(619,), (701,), (583,), (655,)]
LONG = [(200_117,), (203_345,), (201_777,)]
PLANES = [(31, 27), (29, 33), (35, 25)]
WIDE = [(311, 257), (323, 263), (305, 299)]


def places(x):
    return jnp.arange(0, x.size, 3, dtype=jnp.int32) * 7 % x.shape[0]


def drawn(x):
    return (jnp.arange(x.size, dtype=jnp.int32) * 7919) % 137


CALLS = {
    "cumsum": lambda x: jnp.cumsum(x),
    "cummax": lambda x: lax.cummax(x, reverse=True),
    "cumsum of integers": lambda x: jnp.cumsum(drawn(x)),
    "sort": lambda x: jnp.sort(x),
    "argsort": lambda x: jnp.argsort(x),
    "sort of two": lambda x: lax.sort((drawn(x), x), num_keys=1),
    "top_k": lambda x: lax.top_k(x, 7),
    "partition": lambda x: jnp.partition(x, 20)[20],
    "median": lambda x: jnp.median(x),
    "quantiles": lambda x: jnp.quantile(x, jnp.asarray([0.1, 0.5, 0.7])),
    "nanmedian": lambda x: jnp.nanmedian(x),
    "set": lambda x: x.at[places(x)].set(0.5),
    "add": lambda x: x.at[places(x)].add(x[places(x)]),
    "max": lambda x: x.at[places(x)].max(0.25),
    "scatter_mul": lambda x: lax.scatter_mul(x, places(x)[:, None], x[places(x)], NUMBERS),
    "put": lambda x: jnp.put(x, jnp.arange(37), 2.0, inplace=False),
    "bincount": lambda x: jnp.bincount(drawn(x), length=x.size // 3),
    "segment_sum": lambda x: ops.segment_sum(x, drawn(x), 140),
    "segment_min": lambda x: ops.segment_min(x, drawn(x), 140),
    "repeat": lambda x: jnp.repeat(x, drawn(x) % 3, total_repeat_length=x.size // 2),
    "nonzero": lambda x: jnp.flatnonzero(x > 0, size=30),
    "unique": lambda x: jnp.unique(drawn(x), size=x.size // 4),
    "gamma": lambda x: random.gamma(KEY, 1 + x * x),
    "poisson": lambda x: random.poisson(KEY, 1 + x * x),
    "choice": lambda x: random.choice(KEY, x, x.shape),
    "gammainc": lambda x: scipy.special.gammainc(1 + x * x, 2.5),
}
OF_PLANES = {
    "cumsum of rows": lambda x: jnp.cumsum(x, 1),
    "cumsum of columns": lambda x: jnp.cumsum(x, 0),
    "sort of rows": lambda x: jnp.sort(x, 1),
    "argsort of columns": lambda x: jnp.argsort(x, 0),
    "top_k of rows": lambda x: lax.top_k(x, 5),
    "median of rows": lambda x: jnp.median(x, 1),
    "rows added": lambda x: x.at[jnp.asarray([3, 0, 3, 7])].add(1.5),
    "segments of rows": lambda x: ops.segment_sum(x, jnp.arange(x.shape[0]) % 11, 12),
}


def array(shape):
    return jnp.asarray(np.random.default_rng(shape[0]).normal(size=shape).astype(np.float32))


def check(fun, shapes, texts):
    """Nothing is compiled for the last shapes, and results are those of compiled functions."""
    first, *others = map(array, shapes)
    second = others.pop(0)  # of the same kind, but not by chance so
    for x in (first, second):
        for _ in range(3):
            fun(x)
    for x in others:
        texts.clear()
        for _ in range(3):
            found = fun(x)
        assert texts == []
        wanted = weft.jit(lambda x: fun(x))(x)
        for a, b in zip(checks.arrays(found), checks.arrays(wanted), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shapes", [LINES, LONG], ids=["few", "many"])
@pytest.mark.parametrize("name", CALLS)
def test_a_new_length_compiles_nothing(name, shapes, texts):
    check(CALLS[name], shapes, texts)


@pytest.mark.parametrize("shapes", [PLANES, WIDE], ids=["few", "many"])
@pytest.mark.parametrize("name", OF_PLANES)
def test_a_new_plane_compiles_nothing(name, shapes, texts):
    check(OF_PLANES[name], shapes, texts)


# --- what reads its sizes -------------------------------------------------------------------------


def plan_of(fun, *args):
    closed = native.generalise(weft.make_jaxpr(fun)(*args))
    return native.Executable(closed).plan


def test_functions_without_sizes_are_those_of_compiled_functions():
    x = np.ones(50_000, np.float32)
    for fun in (jnp.sort, lambda x: lax.top_k(x, 3), lambda x: jnp.partition(x, 9)):
        own = {code for code in plan_of(fun, x).codes if "stub" not in str(code[0])}
        compiled = set(native.Executable(weft.make_jaxpr(fun)(x)).plan.codes)
        assert len(own & compiled) >= 1
        assert all("%sized" not in str(module) for module, _ in own & compiled)


def test_two_functions_that_finish_a_product_have_buffers_of_their_own():
    """A product calls a function that goes on with its result, whose buffers follow: where there
    are two with more or fewer of them, a table of sizes has no one place."""
    a, b, c = (array((n, 96, 96)) for n in (21, 22, 23))

    def fun(a, b, c):
        return jnp.tanh(a @ a + 1), (b @ b) * b[:, :1] + b[:, 1:2] * jnp.exp(b), c @ c

    with knobs.scope(cache="off"):
        closed = native.generalise(weft.make_jaxpr(fun)(a, b, c))
        found = native.Executable(closed)([a, b, c])
    with knobs.scope(backend="reference"):
        wanted = fun(a, b, c)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("count", [60, 1000, 70_001])
def test_a_division_by_a_size_is_exact(dtype, count):
    info = np.iinfo(dtype)
    draw = np.random.default_rng(count)
    for below in (count, 7, 255, 1000, 70_001, 2**27 - 1):
        x = draw.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        near = draw.integers(0, info.max // below, count // 2, dtype=dtype) * dtype(below)
        x[: count // 2] = near - (np.arange(count // 2) % 2).astype(dtype)
        x[:3] = info.max, info.min, 0

        def fun(x, below=below):
            return lax.div(x, dtype(below)), lax.rem(x, dtype(below))

        with knobs.scope(cache="off"):
            closed = native.generalise(weft.make_jaxpr(fun)(x))
            quotient, rest = native.Executable(closed)([x])
        wide = x.astype(np.int64)
        wanted = np.sign(wide) * (np.abs(wide) // below)
        assert (np.asarray(quotient) == wanted).all()
        assert (np.asarray(rest) == wide - wanted * below).all()


def test_a_kernel_of_few_elements_of_a_large_array_is_small(texts):
    x = array((50_333,))
    for start in (5, 9, 11):
        closed = native.generalise(weft.make_jaxpr(lambda x, n=start: x[10 : 10 + n] * 2.0)(x))
        made = native.Executable(closed)
        np.testing.assert_array_equal(made([x])[0], np.asarray(x)[10 : 10 + start] * 2)
        if start == 5:
            texts.clear()
    assert texts == []


@pytest.mark.parametrize("low", [0, -7])
@pytest.mark.parametrize("count", [1, 3, 1000, 65_535, 65_536, 65_537, 2**31 - 8])
def test_integers_are_the_same_whether_their_bounds_are_known_or_not(count, low):
    high = low + count
    known = weft.jit(lambda key: random.randint(key, (33,), low, high))(KEY)
    given = weft.jit(lambda key, a, b: random.randint(key, (33,), a, b))(KEY, low, high)
    assert known.dtype == given.dtype and (known == given).all()
    assert (random.randint(KEY, (33,), low, high) == given).all()
    if low == 0:
        assert (random.choice(KEY, count, (33,)) == given).all()
        assert (weft.jit(lambda key: random.choice(key, count, (33,)))(KEY) == given).all()


# --- results of what is made for many elements ----------------------------------------------------

OWN = ("cum", "scatter", "rng_bit", "random_")


@pytest.mark.parametrize("sample", [s for s in all_samples() if repr(s).startswith(OWN)], ids=repr)
def test_a_sample_is_the_same_as_if_there_were_many_elements(sample, monkeypatch):
    monkeypatch.setattr(generic, "SMALL_ELEMENTS", 0)
    monkeypatch.setattr(native, "is_general", lambda closed: True)
    dtype = sample.dtypes[0]
    fun = checks.spread(sample, sample.function(dtype))
    with checks.precision(dtype), knobs.scope(cache="off"):
        args = sample.operands(dtype, checks.seed_of(sample))
        exact = checks.is_exact(sample, dtype, args)
        found, wanted = (
            checks.arrays(run(fun, args, backend)) for backend in ("native", "reference")
        )
    for a, b in zip(found, wanted, strict=True):
        if exact:
            checks.assert_same_bits(a, b, dtype)
        else:
            checks.assert_close(a, b, max(sample.tol, 4.0), dtype)


def run(fun, args, backend):
    with knobs.scope(backend=backend):
        return weft.jit(lambda *xs: fun(*xs))(*args)
