"""Results written over operands: only where every read is at the written index, and it saves."""

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax, nn
from weft import numpy as jnp
from weft.backends.llvm.native.processor import has_wide_tiles
from weft.compiler import pipeline
from weft.compiler.fuse import Fusion
from weft.compiler.in_place import donations, free_after, last_uses, overwrites, renewed

N = 100  # rows and columns
BYTES = 4 * N * N


@pytest.fixture(autouse=True)
def by_native(monkeypatch):
    ways.take("native", monkeypatch)


def steps_of(fun, *avals):
    jaxpr = pipeline.simplify(weft.make_jaxpr(fun)(*avals)).jaxpr
    fusion, steps = pipeline.fuse(jaxpr)
    return fusion, steps, last_uses(steps, jaxpr.outvars)


def matrix(dtype="float32"):
    return weft.ShapeDtypeStruct((N, N), dtype)


def memory(fun, *args, **options):
    return weft.jit(lambda *xs: fun(*xs), **options).lower(*args).compile().memory_analysis()


def packed():
    """The bytes that a product of two arrays packs its operands into, if this machine does."""
    x = jnp.ones((N, N))
    return memory(jnp.matmul, x, x).temp_size_in_bytes


# --- kernels --------------------------------------------------------------------------------------


def kernel(fun, *avals):
    """The last step of a function, and its operands and results."""
    fusion, steps, _ = steps_of(fun, *avals)
    return steps[-1], fusion.jaxpr.invars, fusion.jaxpr.outvars


def test_elementwise_kernels_write_over_their_operands():
    step, (x, y), (out,) = kernel(lambda x, y: x * y + 1, matrix(), matrix())
    assert overwrites(step, x, out) and overwrites(step, y, out)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x, y: x + y[::-1],
        lambda x, y: x + y.T,
        lambda x, y: x + y[0],
        lambda x, y: x + y[:, :1],
        lambda x, y: x + jnp.roll(y, 1, 0),
        lambda x, y: jnp.cumsum(x, 0) + jnp.take(y, jnp.arange(N) // 2, 0),
        lambda x, y: x + y * y[0, 0],
        lambda x, y: x + jnp.sum(y, 1, keepdims=True) * y,
    ],
)
def test_what_is_read_elsewhere_is_not_written_over(fun):
    fusion, steps, _ = steps_of(fun, matrix(), matrix())
    y, (out,) = fusion.jaxpr.invars[1], fusion.jaxpr.outvars
    assert not any(overwrites(step, y, out) for step in steps)


def test_other_sizes_and_types_are_not_written_over():
    step, (x, y), (out,) = kernel(
        lambda x, y: x.astype("float32") + y, matrix("bfloat16"), matrix()
    )
    assert not overwrites(step, x, out) and overwrites(step, y, out)


def test_complex_numbers_are_written_over():
    step, (x, y), (out,) = kernel(lambda x, y: x * y, matrix("complex64"), matrix("complex64"))
    assert overwrites(step, x, out) and overwrites(step, y, out)


def test_several_results_each_over_an_operand_of_its_own():
    _, steps, last = steps_of(
        lambda x, y: (jnp.sort(x) * jnp.sort(y), jnp.sort(y) + jnp.sort(x)), *[matrix()] * 2
    )
    found = renewed(steps, len(steps) - 1, last)
    assert len(found) == 2 and len(set(found.values())) == 2
    assert renewed(steps, len(steps) - 1, last, least=1 << 20) == {}


def test_a_product_is_not_written_over_its_operand():
    step, (w, x), (out,) = kernel(lambda w, x: w - 0.1 * (x.T @ x), matrix(), matrix())
    assert step.finish is not None and overwrites(step, w, out)
    assert not overwrites(step, x, out)
    step, (w,), (out,) = kernel(lambda w: w - 0.1 * (w @ w), matrix())
    assert step.finish is not None and not overwrites(step, w, out)


# --- memory ---------------------------------------------------------------------------------------


def test_a_chain_of_kernels_needs_no_memory_of_its_own():
    def fun(x):
        for _ in range(4):
            x = jnp.sort(x, axis=0) * 2 + 1
        return x

    # sorting needs its operand and its result at once, the rest happens in them
    x = jnp.ones((N, N))
    assert memory(fun, x).temp_size_in_bytes < 3 * BYTES


def test_layers_that_end_in_their_result():
    def fun(x, w):
        h = jnp.tanh(x @ w)
        return nn.relu(jnp.sort(h, axis=1) + h[::-1])

    x = jnp.ones((N, N))
    want = np.asarray(ways.interpreted(fun, x, x))
    assert np.allclose(weft.jit(fun)(x, x), want, rtol=1e-5)
    assert memory(fun, x, x).temp_size_in_bytes <= 2 * BYTES + packed()


PROGRAMS = {
    "both ways": lambda x, y: (jnp.sort(x) + y, jnp.sort(x) - jnp.sort(y)[::-1]),
    "twice": lambda x, y: (lambda a: (a * 2, a * 3, a.T))(jnp.sort(x)),
    "reduced after": lambda x, y: (lambda a: a / jnp.sum(a, 0) + jnp.sum(a * y, 1))(jnp.sort(x)),
    "product": lambda x, y: (lambda a: (a @ y + a, jnp.sort(a) * 2))(jnp.sort(x) * y),
    "product over itself": lambda x, y: (lambda a: a - a @ y)(jnp.sort(x)),
    "pieces": lambda x, y: jnp.concatenate([jnp.sort(x) * 2, jnp.sort(y) + 1]) * 3,
    "updates": lambda x, y: jnp.sort(x).at[3:5].set(0).at[:, 2].add(1) * jnp.sort(y),
    "scatter": lambda x, y: (jnp.sort(x) + 1).at[jnp.arange(5), jnp.arange(5) * 2].add(2.0) * y,
    "loop": lambda x, y: lax.fori_loop(0, 3, lambda i, c: jnp.sort(c) * 0.5 + y, jnp.sort(x)),
    "branch": lambda x, y: lax.cond(x[0, 0] > 0, lambda a: a + 1, lambda a: a.T, jnp.sort(x) * y),
}


@pytest.mark.filterwarnings("ignore:.*donated.*")
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_interpreters(name):
    random = np.random.default_rng(3)
    x, y = (jnp.asarray(random.standard_normal((N, N), np.float32)) for _ in range(2))
    fun = PROGRAMS[name]
    want = weft.tree.leaves(ways.interpreted(fun, x, y))
    plain = weft.jit(lambda *xs: fun(*xs))
    donating = weft.jit(lambda *xs: fun(*xs), donate_argnums=(0, 1))
    for _ in range(2):
        for got in (plain(x, y), donating(jnp.array(x), jnp.array(y))):
            for one, two in zip(weft.tree.leaves(got), want, strict=True):
                np.testing.assert_allclose(one, two, rtol=2e-5, atol=1e-4)


# --- donated arguments ----------------------------------------------------------------------------


def taken(fun, *avals, donated=(0,)):
    """Which results have the memory of which argument."""
    jaxpr = pipeline.simplify(weft.make_jaxpr(fun)(*avals)).jaxpr
    fusion, steps = pipeline.fuse(jaxpr)
    last = last_uses(steps, jaxpr.outvars)
    bound = {v: 100 + i for i, v in enumerate(jaxpr.outvars) if v not in fusion.given}
    found = donations(steps, last, bound, [jaxpr.invars[i] for i in donated])
    return {slot - 100: jaxpr.invars.index(v) for slot, v in found.items()}


def test_which_donated_arguments_are_taken():
    x = matrix()
    assert taken(lambda x: x + 1, x) == {0: 0}
    assert taken(lambda x: x[::-1], x) == {}
    assert taken(lambda x: x, x) == {}
    assert taken(lambda x: (x, x + 1), x) == {}
    assert taken(lambda x: jnp.sum(x), x) == {}
    assert taken(lambda x, y: (x * y, y * 2), x, x, donated=(0, 1)) == {0: 0, 1: 1}
    assert taken(lambda x, y: (y * 2, x * y), x, x, donated=(0,)) in ({0: 0}, {1: 0})
    assert taken(lambda x, y: y @ y - x, x, x) == {0: 0}
    assert taken(lambda x: x @ x, x) == {}
    assert taken(lambda x: jnp.sort(x @ x) + 1, x) == {0: 0}
    assert taken(lambda x: x.astype("int32"), x) == {0: 0}
    assert taken(lambda x: x.astype("float16"), x) == {}
    assert taken(lambda x: x.reshape(-1) + 1, x) == {0: 0}
    assert taken(lambda x: x.at[3].set(0), x) == {0: 0}
    assert taken(lambda x: (x.at[3].set(0), x[4] * 2), x) in ({}, {0: 0})
    assert taken(lambda x: lax.fori_loop(0, 4, lambda i, c: c * 2, x), x) == {0: 0}
    assert taken(lambda x: lax.fori_loop(0, 4, lambda i, c: c + x, x), x) == {}


def test_a_step_of_training_in_place():
    def loss(params, x):
        for w, b in params:
            x = jnp.tanh(x @ w + b)
        return jnp.sum(x * x)

    def fun(params, x):
        grads = weft.grad(loss)(params, x)
        return weft.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    params = [(jnp.ones((N, N)) * 0.01, jnp.ones(N)) for _ in range(3)]
    x = jnp.ones((40, N))
    plain, donated = memory(fun, params, x), memory(fun, params, x, donate_argnums=0)
    size = sum(p.nbytes for p in weft.tree.leaves(params))
    assert donated.alias_size_in_bytes == size
    # without an epilogue, a gradient is in memory of its own while a parameter is written over
    spare = 0 if has_wide_tiles() else BYTES
    assert donated.peak_memory_in_bytes <= plain.peak_memory_in_bytes - size + spare


def test_a_single_element_that_is_read_after_its_update():
    def body(p):
        return jnp.cos(p + lax.dynamic_update_slice(p, jnp.sin(p), (0,)))

    def fun(x):
        rounds = lax.fori_loop(0, 4, lambda i, p: body(p), x)
        return rounds, body(jnp.sort(x))

    x = jnp.array([0.4])
    want = ways.interpreted(fun, x)
    for got in (weft.jit(fun)(x), weft.jit(fun, donate_argnums=0)(jnp.array(x))):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_updates_are_free_if_nothing_needs_the_old_value():
    fusion, steps, last = steps_of(lambda x: jnp.sort(x).at[3].set(0) * 2, matrix())
    i = next(i for i, s in enumerate(steps) if s.source is not None)
    assert free_after(steps, i, last[steps[i].source])
    assert isinstance(fusion, Fusion)


def test_values_that_go_round_stay_where_they_are():
    a = jnp.asarray(np.random.default_rng(1).standard_normal((N, N), np.float32))

    def step(carried):
        x, m, v = carried
        g = a @ x
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return x - 0.01 * m / (jnp.sqrt(v) + 1e-3), m, v

    def by_scan(x):
        return lax.scan(lambda c, _: (step(c), None), (x, x, x), None, length=5)[0]

    def by_while(x):
        body = lambda s: (s[0] + 1, step(s[1]))
        return lax.while_loop(lambda s: s[0] < 5, body, (0, (x, x, x)))[1]

    x = jnp.ones((N, N))
    want = ways.interpreted(by_scan, x)
    # what the product reads has two places, and so has the number of rounds; in a while loop none
    # of them is that of the result
    for fun, swaps, arrays in ((by_scan, 1, 1), (by_while, 2, 4)):
        compiled = weft.jit(fun).lower(x).compile()
        assert compiled.as_text().count("swap") == swaps
        own = compiled.memory_analysis().temp_size_in_bytes - packed()
        assert own < (arrays + 1) * BYTES
        for got, expected in zip(compiled(x), want, strict=True):
            np.testing.assert_allclose(got, expected, 1e-4, 1e-5)
