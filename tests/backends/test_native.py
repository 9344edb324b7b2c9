"""Native code against the interpreter: samples of every primitive, programs that fuse, edges of
every type, and random programs."""

import numpy as np
import pytest

import weft
from tests.compose.test_random_programs import check_seed
from tests.laws import checks
from tests.runtime import ways
from tests.samples import all_samples
from weft import dtypes, lax
from weft import numpy as jnp
from weft.base import knobs
from weft.compiler import pull
from weft.core.registry import lookup

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
COUNT, FULL_COUNT, CHUNK = 50, 20_000, 50


def both(fun, *args):
    """Results by native code and by the references; each is traced anew."""
    with knobs.scope(backend="native"):
        got = checks.arrays(weft.jit(lambda *xs: fun(*xs))(*args))
    want = checks.arrays(ways.interpreted(fun, *args))
    assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in want]
    return got, want


def close(got, want, size, message=""):
    """Within the bound of sums of ``size`` terms, magnified by what follows them."""
    if not dtypes.issubdtype(want.dtype, np.inexact):
        return checks.assert_same_bits(got, want, message)
    checks.assert_close(got, want, 8 + 2 * np.sqrt(size), message)


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", all_samples(), ids=repr)
def test_a_sample_is_the_same_natively(sample):
    for dtype in sample.dtypes:
        with checks.precision(dtype):
            args = sample.operands(dtype, checks.seed_of(sample))
            got, want = both(checks.spread(sample, sample.function(dtype)), *args)
            exact = checks.is_exact(sample, dtype, args)
            for a, b in zip(got, want, strict=True):
                if exact:
                    checks.assert_same_bits(a, b, dtype)
                else:
                    # digamma is a difference of larger numbers around its zero
                    least = 16.0 if "digamma" in repr(sample) else 4.0
                    checks.assert_close(a, b, max(sample.tol, least), dtype)


# --- edges of types -------------------------------------------------------------------------------


def edge_values(dtype):
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.array([False, True, True, False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        small = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100]
        ends = [info.max, info.max - 1, info.max // 2, info.min, info.min + 1]
        negative = [-1, -2, -3, -100] if dtype.kind == "i" else []
        return np.array([np.array(n, dtype) for n in [*small, *ends, *negative]])
    info = dtypes.finfo(dtype)
    tiny = float(info.tiny)
    values = [0.0, 1.0, 0.5, 1.5, 2.5, 3.7, 1e-3, 127.5, 255.7, 2.0**31, 2.0**63, 3e9]
    values += [np.inf, float(info.max), tiny, tiny / 4]
    with np.errstate(over="ignore"):
        return np.array([*values, *(-x for x in values), np.nan]).astype(dtype)


def pairs(dtype):
    values = edge_values(dtype)
    return [np.ascontiguousarray(x) for x in np.broadcast_arrays(values[:, None], values)]


def accepts(fun, *args):
    try:
        weft.eval_shape(fun, *args)
    except TypeError:
        return False
    return True


BINARY = [lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.min, lax.nextafter]
BINARY += [lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge]
BINARY += [lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor, lax.shift_left]
BINARY += [lax.shift_right_logical, lax.shift_right_arithmetic]
UNARY = [lax.neg, lax.abs, lax.sign, lax.floor, lax.ceil, lax.round, lax.is_finite, lax.sqrt]
UNARY += [lax.square, lax.bitwise_not, lax.population_count, lax.clz]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_arithmetic_is_exact_at_the_edges(dtype):
    with weft.enable_x64(True):
        x, y = pairs(dtype)
        binary = [f for f in BINARY if accepts(f, x, y)]
        unary = [f for f in UNARY if accepts(f, x)]
        names = [f.__name__ for f in [*binary, *unary]]
        fun = lambda x, y: [*(f(x, y) for f in binary), *(f(x) for f in unary)]
        for name, a, b in zip(names, *both(fun, x, y), strict=True):
            checks.assert_same_bits(a, b, name)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_conversions_are_exact_at_the_edges(dtype):
    with weft.enable_x64(True):
        x = edge_values(dtype)
        targets = [*FLOATS, *INTEGERS, "bool"]
        fun = lambda x: [lax.convert_element_type(x, t) for t in targets]
        for name, a, b in zip(targets, *both(fun, x), strict=True):
            checks.assert_same_bits(a, b, name)


def test_float64_is_rounded_to_float16_once():
    with weft.enable_x64(True):
        tie = 1 + 2.0**-11
        x = np.array(
            [tie, tie + 2.0**-40, tie - 2.0**-40, 2.0**-25, 2.0**-25 + 2.0**-60, 65519.9999]
        )
        got, want = both(lambda x: lax.convert_element_type(x, "float16"), np.tile(x, 5))
        checks.assert_same_bits(got[0], want[0])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_reductions_wrap_around(dtype):
    with weft.enable_x64(True):
        x, _ = pairs(dtype)
        ops = (jnp.sum, jnp.prod, jnp.max, jnp.min)
        fun = lambda x: [
            op(x, axis, dtype) if op in ops[:2] else op(x, axis)
            for op in ops
            for axis in (0, 1, None)
        ]
        for a, b in zip(*both(fun, x), strict=True):
            checks.assert_same_bits(a, b)


# --- programs that fuse ---------------------------------------------------------------------------


def softmax(x):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    s = x - x.max(-1, keepdims=True)
    return s - jnp.log(jnp.exp(s).sum(-1, keepdims=True))


def layer_norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * 2 + 1


def variances(x):
    return jnp.var(x, -1), jnp.var(x, 0), jnp.var(x)


def cross_entropy(x):
    return -(log_softmax(x) * jnp.cos(x)).sum(-1).mean()


def shared(x):
    e = jnp.exp(x)
    return e.sum(0), e.sum(1), e[::-1] + e, e * 2


def update(x):
    m = 0.9 * x + 0.1
    v = 0.99 * x * x + 0.01
    return m, v, x - m / jnp.sqrt(v + 1e-3)


def rows_of_each_other(x):
    s = x.sum(-1)
    return s, s[::-1] + 1, x / (1 + s[:1] ** 2), x + s[::-1][:, None]


def reread(x):
    y = x * 2
    return y, y.reshape(-1)[::-1].reshape(x.shape) + 1, y[::-1] - 1


def movements(x):
    flat = x.reshape(-1)
    return x[::-1, ::2] + 1, x.T * 2, flat[::-3], jnp.flip(x, 1) - x, x.T.reshape(-1), flat + 1


def truths(x):
    return x > 0, (x > 0) & (x < 1), jnp.any(x > 1, -1), jnp.all(x > -1), jnp.sum(x > 0, 0)


def outer(x):
    return x[:, None, :] * x[None, :, :1], (x[:, None] + x[None]).sum(0), x.sum(0)[:, None] * x[:1]


def mixed(x):
    n = x.astype("int32")
    return (
        n + 1,
        (n * x).astype("bfloat16"),
        jnp.where(n > 0, x, 2).astype("uint8"),
        n.astype("bool"),
    )


def joined(x):
    return jnp.concatenate([x, x + 1]) * 2, jnp.pad(x, 1) + 1, jnp.cumsum(x * 2, 0) + 1


PROGRAMS = [softmax, log_softmax, layer_norm, variances, cross_entropy, shared, update]
PROGRAMS += [rows_of_each_other, reread, movements, truths, outer, mixed, joined]
SHAPES = [(1, 1), (3, 7), (17, 16), (2, 77), (5, 1003), (77, 1)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda f: f.__name__)
def test_a_program_is_the_same_natively(fun, dtype):
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = rng.standard_normal(shape).astype(np.dtype(dtype))
        for a, b in zip(*both(fun, x), strict=True):
            close(a, b, x.size, str(shape))


@pytest.mark.parametrize("fun", PROGRAMS[:7], ids=lambda f: f.__name__)
def test_a_gradient_is_the_same_natively(fun):
    def loss(x):
        return sum(jnp.sum(jnp.sin(y) * y) for y in weft.tree.leaves(fun(x)))

    rng = np.random.default_rng(0)
    for shape in SHAPES[1:4]:
        x = rng.standard_normal(shape).astype(np.float32)
        for a, b in zip(*both(weft.value_and_grad(loss), x), strict=True):
            close(a, b, 16 * x.size, str(shape))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (0,), (3, 0, 2)])
def test_empty_arrays(shape):
    x = np.zeros(shape, np.float32)
    fun = lambda x: (jnp.exp(x) + 1, x.sum(-1), x.sum(0), x.sum(), x.T * 2, x.prod(-1) + 1, x > 0)
    for a, b in zip(*both(fun, x), strict=True):
        checks.assert_same_bits(a, b)


def test_single_numbers():
    fun = lambda x: (x + 1, x * x > 2, jnp.sum(x), -x, x.astype("int8"), x.reshape(1, 1) * 3)
    for a, b in zip(*both(fun, np.float32(1.75)), strict=True):
        checks.assert_same_bits(a, b)


def test_inputs_constants_and_literals_as_results():
    table = jnp.arange(4)

    def fun(x):
        y = x + 1
        return x, x, y, y, 3, 2.5, table, table * 2, np.float32(1.5), x + table[1]

    for a, b in zip(*both(fun, np.arange(6, dtype=np.float32)), strict=True):
        checks.assert_same_bits(a, b)


def test_operands_in_any_memory_order():
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    for view in (x.T, x[::-1, ::2], x[:, ::-1, 1:4], np.broadcast_to(x[:, :1], x.shape)):
        for a, b in zip(*both(lambda x: (x + 1, x.sum(1), x.max(-1) * 2), view), strict=True):
            checks.assert_same_bits(a, b)


def test_programs_longer_than_the_stack_is_deep():
    def fun(x):
        for _ in range(700):
            x = x * 0.5 + 1.0
        return x

    (got,), (want,) = both(fun, np.linspace(-1, 1, 33, dtype=np.float32))
    checks.assert_same_bits(got, want)


# --- random programs of exact operations ----------------------------------------------------------

MAPS = [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - y, jnp.maximum, jnp.minimum]
MAPS += [lambda x, y: jnp.where(x > y, x, y + 1), lambda x, y: x ^ y, lambda x, y: -x + (y > 3)]
MOVES = [
    lambda x: x[::-1],
    lambda x: x.T,
    lambda x: x[:, ::-1],
    lambda x: x.reshape(-1)[::-1].reshape(x.shape),
    lambda x: x.T.reshape(x.shape),
    lambda x: jnp.concatenate([x[1:], x[:1]]),
    lambda x: jnp.broadcast_to(x[:1], x.shape),
    lambda x: jnp.broadcast_to(x[:, 1:2], x.shape),
]
SUMS = [jnp.sum, jnp.max, jnp.min, jnp.prod]


def grow(rng, steps):
    """A program of integers on one matrix: every step acts on values so far."""
    plan = [(int(rng.integers(3)), rng.integers(1 << 30, size=4)) for _ in range(steps)]

    def fit(x, shape):
        return jnp.broadcast_to(x, shape) if x.shape != shape[::-1] else x.T

    def fun(x):
        values = [x]
        for kind, (a, b, c, d) in plan:
            u, v = (values[-1 - i % min(4, len(values))] for i in (a, b))
            if kind == 0:
                values.append(MAPS[c % len(MAPS)](fit(u, x.shape), fit(v, x.shape)))
            elif kind == 1:
                values.append(fit(MOVES[c % len(MOVES)](u), x.shape))
            else:
                axis = (0, 1, 1, 1, None)[d % 5]
                values.append(u + SUMS[c % len(SUMS)](u, axis, keepdims=True))
        chosen = [i for i in range(len(values)) if plan[i - 1][1][3] % 4 == 0]
        return [values[i] for i in [*chosen, -1]]

    return fun


@pytest.mark.parametrize("costly", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_random_integer_programs_are_exact(seed, costly, monkeypatch):
    if costly:  # every rule about costly values, on operations whose bits can be compared
        for name in ("mul", "max", "sub"):
            monkeypatch.setattr(type(lookup(name)), "costly", True)
        monkeypatch.setattr(pull, "MIN_STORED_ELEMENTS", 1)
        monkeypatch.setattr(pull, "MAX_KERNEL_OPS", 30)
    rng = np.random.default_rng(seed)
    fun = grow(rng, int(rng.integers(2, 14)))
    n = int(rng.choice([2, 3, 7, 17, 33]))
    for shape in ((n, n), (n, n + 2)):
        x = rng.integers(-9, 9, shape).astype(np.int32)
        for a, b in zip(*both(fun, x), strict=True):
            checks.assert_same_bits(a, b)


# --- random programs ------------------------------------------------------------------------------


def check_range(first):
    with knobs.scope(backend="native"):
        for seed in range(first, first + CHUNK):
            check_seed(seed)


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_random_programs_natively(first):
    check_range(first)


@pytest.mark.full
@pytest.mark.parametrize("first", range(COUNT, FULL_COUNT, CHUNK))
def test_many_random_programs_natively(first):
    check_range(first)


def test_complex_elements_at_computed_places():
    x = np.arange(32.0).reshape(4, 8)[:, :4] + 1j * np.arange(32.0).reshape(4, 8)[:, 4:]
    got, want = both(lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 4)), x.astype(np.complex64), 1)
    checks.assert_same_bits(got[0], want[0])
