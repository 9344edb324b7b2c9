"""Code that does for arrays of any size: results as of code for one, and none for new shapes."""

import numpy as np
import pytest

import weft
from tests.compose.test_random_programs import check_seed
from tests.laws import checks
from tests.runtime import ways
from tests.samples import all_samples
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.calls import native
from weft.base import knobs
from weft.compiler import generic
from weft.runtime import compiling

COUNT, FULL_COUNT, CHUNK = 50, 1_000, 50


@pytest.fixture
def every(monkeypatch):
    """All programs as those of operations outside of compiled functions."""
    made = []

    def noted(closed):
        made.append(native.is_general(native.generalise(closed)))
        return made[-1]

    monkeypatch.setattr(compiling, "is_general", noted)
    with knobs.scope(cache="off"):
        yield made


def both(fun, *args):
    with knobs.scope(backend="native"):
        got = checks.arrays(weft.jit(lambda *xs: fun(*xs))(*args))
    want = checks.arrays(ways.interpreted(fun, *args))
    return zip(got, want, strict=True)


# --- results --------------------------------------------------------------------------------------


def check_sample(sample, count, every):
    for dtype in sample.dtypes[:count]:
        with checks.precision(dtype):
            args = sample.operands(dtype, checks.seed_of(sample))
            exact = checks.is_exact(sample, dtype, args)
            for a, b in both(checks.spread(sample, sample.function(dtype)), *args):
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                if exact:
                    checks.assert_same_bits(a, b, dtype)
                else:
                    least = 16.0 if "digamma" in repr(sample) else 4.0
                    checks.assert_close(a, b, max(sample.tol, least), dtype)
    assert every


@pytest.mark.sampled(6)
@pytest.mark.parametrize("sample", all_samples(), ids=repr)
def test_a_sample_is_the_same(sample, every):
    check_sample(sample, None, every)


@pytest.mark.parametrize("sample", all_samples()[::2], ids=repr)
def test_a_sample_is_the_same_as_if_it_were_large(sample, every, monkeypatch):
    monkeypatch.setattr(generic, "SMALL_ELEMENTS", 0)
    check_sample(sample, 1, every)


def check_range(first, every, monkeypatch):
    for seed in range(first, first + CHUNK):
        monkeypatch.setattr(generic, "SMALL_ELEMENTS", (1 << 12) * (seed % 2))
        with knobs.scope(backend="native"):
            check_seed(seed)
    assert any(every)


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_random_programs_are_the_same(first, every, monkeypatch):
    check_range(first, every, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("first", range(COUNT, FULL_COUNT, CHUNK))
def test_many_random_programs_are_the_same(first, every, monkeypatch):
    check_range(first, every, monkeypatch)


def test_sums_have_the_bits_that_compiled_functions_give():
    for n in (1, 7, 16, 17, 33, 64, 100, 129, 1000, 40_000):
        x = jnp.asarray(np.random.default_rng(n).normal(size=n).astype(np.float32))
        assert jnp.sum(x) == weft.jit(lambda x: jnp.sum(x))(x)


# --- new shapes -----------------------------------------------------------------------------------

# the first ones are of no other test: operators do not forget what they have learnt
LINES = [(617,), (7,), (12,), (40,), (100,), (300,), (1000,)]
PLANES = [(23, 29), (20, 30), (5, 7), (8, 3), (3, 40), (17, 4)]
INDICES = [2, 0, 1]

CALLS = {
    "add": lambda x: x + x,
    "multiply": lambda x: x * 2.5,
    "compare": lambda x: x < 0.3,
    "tanh": jnp.tanh,
    "exp": jnp.exp,
    "where": lambda x: jnp.where(x > 0, x, 0.5),
    "clip": lambda x: jnp.clip(x, -1, 1),
    "astype": lambda x: x.astype(jnp.int32),
    "sum": lambda x: x.sum(),
    "sum of columns": lambda x: jnp.sum(x, 0),
    "mean": jnp.mean,
    "mean of rows": lambda x: jnp.mean(x, -1),
    "std": jnp.std,
    "max": jnp.max,
    "argmax": jnp.argmax,
    "argmin of columns": lambda x: jnp.argmin(x, 0),
    "any": lambda x: jnp.any(x > 1),
    "softmax": weft.nn.softmax,
    "logsumexp": weft.nn.logsumexp,
    "gelu": weft.nn.gelu,
    "norm": jnp.linalg.norm,
    "slice": lambda x: x[1:],
    "steps": lambda x: x[::2],
    "row": lambda x: x[2],
    "rows": lambda x: x[jnp.asarray(INDICES)],
    "set": lambda x: x.at[1].set(0.5),
    "flip": jnp.flip,
    "transpose": lambda x: x.T + 1,
    "concatenate": lambda x: jnp.concatenate([x, x]),
    "stack": lambda x: jnp.stack([x, x]),
    "pad": lambda x: jnp.pad(x, 1),
    "broadcast": lambda x: x + x[:1],
    "repeat": lambda x: jnp.repeat(x, 2),
    "diff": jnp.diff,
    "searchsorted": lambda x: jnp.searchsorted(jnp.arange(x.size, dtype=x.dtype), x.ravel()),
}


def array(shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("shapes", [LINES, PLANES], ids=["lines", "planes"])
@pytest.mark.parametrize("name", CALLS)
def test_a_new_shape_compiles_nothing(name, shapes, texts):
    first, *others = map(array, shapes)
    fun = CALLS[name]
    compiled = weft.jit(lambda x: fun(x))
    for _ in range(3):
        fun(first)
    texts.clear()
    for x in others:
        for _ in range(3):
            found = fun(x)
        assert texts == []
        np.testing.assert_allclose(found, compiled(x), rtol=1e-5, atol=1e-5)
        texts.clear()


def test_random_numbers_of_a_new_shape_compile_nothing(texts):
    key = weft.random.key(0)
    # numbers up to 5 are written into the generator as well
    for shape in [(20, 30), (6, 7), (8, 9), (11, 40), (17, 10)]:
        for _ in range(3):
            found = weft.random.normal(key, shape)
        if shape == (20, 30):
            texts.clear()
        compiled = weft.jit(lambda key, s=shape: weft.random.normal(key, s))
        assert texts == [] and found.shape == shape
        assert (found == compiled(key)).all()
        texts.clear()


def test_code_for_one_element_is_not_that_for_many(texts):
    for _ in range(3):
        jnp.arcsinh(jnp.ones(1))
    texts.clear()
    for _ in range(3):
        jnp.arcsinh(jnp.ones(50))
    assert any(" x float>" in text for text in texts)


def test_what_a_table_holds_is_what_differs():
    def planned(n):
        closed = weft.make_jaxpr(lambda x: x[1:, ::2] * 2.5)(np.ones((n, n), np.float32))
        made = native.Executable(native.generalise(closed)).plan
        (table,) = [c for c in made.constants if c.dtype == np.int64]
        return [c for c in made.codes if c[0].functions], table.tolist()

    (one, few), (other, many) = planned(8), planned(18)
    assert one == other and 8 in few and 18 in many


def test_products_of_all_shapes_are_two_programs(texts):
    shapes = [(5, 7), (20, 30), (2, 3), (8, 3), (33, 12), (3, 40), (40, 40)]
    for rows, columns in shapes:
        x = array((rows, columns))
        for _ in range(3):
            found = jnp.dot(x, x.T)
        np.testing.assert_allclose(found, np.asarray(x) @ np.asarray(x).T, rtol=1e-5, atol=1e-5)
        if (rows, columns) == (20, 30):
            texts.clear()
    assert texts == []


def test_constants_that_say_how_to_compute_stay(texts):
    x = jnp.arange(12)
    assert (x % 5).tolist() == [n % 5 for n in range(12)]
    for _ in range(3):
        y = lax.shift_left(x, jnp.full(12, 3, jnp.int32)) // 7
    assert y.tolist() == [n * 8 // 7 for n in range(12)]
