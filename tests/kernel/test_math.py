"""Accuracy and edges of the kernel mathematics, as compiled code and by the evaluator.

Errors are in units in the last place of the true value. float32 is held against float64 of NumPy
and SciPy, float64 against extended precision (where the machine has it) and mpmath.
"""

import math as pymath

import mpmath
import numpy as np
import pytest
import scipy.special

from tests.backends.tasks import function
from weft.backends.cpu.code.loops import render
from weft.backends.llvm.native.machine import compile_one
from weft.kernel import math
from weft.kernel.build import Builder
from weft.kernel.evaluate import evaluate
from weft.kernel.kernel import Buffer, Kernel, Store, affine
from weft.prims.special import erf_inv_p

F32, F64 = np.float32, np.float64
LONG = np.longdouble
EXTENDED = np.finfo(LONG).nmant > np.finfo(F64).nmant
INF, NAN = np.inf, np.nan


def rsqrt(x):
    root = np.sqrt(x)
    return np.where(x == 0, np.copysign(INF, x), 1 / root)


def logistic(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def signed_erfinv(x):
    return np.where(x == 0, x, scipy.special.erfinv(x))


def lgamma(x):
    return np.where(np.isneginf(x), INF, scipy.special.gammaln(x))


# name: reference, bound in float32, bound in float64
UNARY = {
    "exp": (np.exp, 1.0, 1.0),
    "exp2": (np.exp2, 1.0, 1.0),
    "expm1": (np.expm1, 1.5, 2.0),
    "log": (np.log, 1.0, 1.0),
    "log2": (np.log2, 1.0, 1.0),
    "log1p": (np.log1p, 1.0, 1.0),
    "sin": (np.sin, 2.0, 1.0),
    "cos": (np.cos, 2.0, 1.0),
    "tan": (np.tan, 1.0, 2.5),
    "asin": (np.arcsin, 2.0, 2.0),
    "acos": (np.arccos, 2.0, 2.0),
    "atan": (np.arctan, 2.0, 2.0),
    "sinh": (np.sinh, 2.0, 2.0),
    "cosh": (np.cosh, 2.0, 2.0),
    "tanh": (np.tanh, 3.0, 3.0),
    "asinh": (np.arcsinh, 2.0, 2.0),
    "acosh": (np.arccosh, 2.5, 2.5),
    "atanh": (np.arctanh, 2.5, 2.5),
    "logistic": (logistic, 2.5, 2.5),
    "rsqrt": (rsqrt, 0.55, 0.55),
    "cbrt": (np.cbrt, 0.55, 0.55),
}
# float64 of these is held against mpmath at fewer points
SPECIAL = {
    "erf": (scipy.special.erf, mpmath.erf, 2.0, 2.0, 6.0),
    "erfc": (scipy.special.erfc, mpmath.erfc, 3.0, 2.5, 26.0),
    "erf_inv": (signed_erfinv, mpmath.erfinv, 3.0, 4.0, 0.999999),
}
BINARY = {
    "pow": (np.power, 1.0, 1.0),
    "atan2": (np.arctan2, 2.0, 2.0),
    "hypot": (np.hypot, 0.55, 0.55),
    "rem": (np.fmod, 0.0, 0.0),
}
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, INF, -INF, NAN, 1.5, -1.5, 1e10]


class Compiled:
    """A function of the kernel mathematics as machine code over arrays."""

    made: dict = {}

    def __init__(self, name, dtype, count):
        k, self.dtype = Builder(), np.dtype(dtype)
        at = affine(0, {"i": 1})
        self.value = getattr(math, name)(k, *(k.load(j, dtype, at) for j in range(count)))
        size = 1 << 40
        buffers = [Buffer(self.dtype, size, "in")] * count + [Buffer(self.dtype, size, "out")]
        kernel = Kernel("f", buffers, ("i", size), [Store(count, at, self.value)])
        self.call = function(compile_one(render(kernel, 64 // self.dtype.itemsize), "f"))

    def __call__(self, *xs):
        out = np.empty_like(xs[0])
        self.call([a.ctypes.data for a in (*xs, out)], 0, out.size)
        return out

    def evaluated(self, *xs):
        return evaluate([self.value], lambda attr: xs[attr[0]])[0]

    @classmethod
    def of(cls, name, dtype, count=1):
        key = name, np.dtype(dtype).name, count
        if key not in cls.made:
            cls.made[key] = cls(name, dtype, count)
        return cls.made[key]


def errors(got, want):
    """Units in the last place between results and references of a wider type."""
    dtype = got.dtype
    with np.errstate(all="ignore"):
        rounded = want.astype(dtype)
        # beyond the largest number the next one is infinity
        below = np.nextafter(np.finfo(dtype).max, dtype.type(0))
        unit = np.spacing(np.where(np.abs(rounded) < below, np.abs(rounded), below))
        error = np.abs(got.astype(want.dtype) - want) / unit.astype(want.dtype)
        # near the largest number a result may be rounded to infinity or not
        over = np.abs(want) > np.finfo(dtype).max
        largest = np.isinf(got) | (np.abs(got) == np.finfo(dtype).max)
        infinite = np.where(over & largest & (np.sign(got) == np.sign(want)), 0, INF)
        error = np.where(np.isinf(got) | np.isinf(rounded), infinite, error)
        error = np.where(np.isnan(got) | np.isnan(want), INF, error)
        error = np.where(np.isnan(got) & np.isnan(want), 0, error)
        zeros = (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
        return np.where(zeros, INF, error)


def check(name, dtype, reference, bound, *xs):
    run = Compiled.of(name, dtype, len(xs))
    wide = F64 if np.dtype(dtype) == F32 else LONG
    with np.errstate(all="ignore"):
        want = reference(*(x.astype(wide) for x in xs))
    error = errors(run(*xs), want)
    worst = int(np.argmax(error))
    at = [x[worst] for x in xs]
    assert error[worst] <= bound, f"{name}{at}: {error[worst]:.3f} units, want {want[worst]!r}"


def every_bit(step, start=0):
    return np.arange(start, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(F32)


def doubles(count=20_000):
    g = np.random.default_rng(0)
    bits = g.integers(0, 2**64, count, dtype=np.uint64, endpoint=False).view(F64)
    sign = g.choice([-1.0, 1.0], count)
    quarter = np.rint(g.uniform(-1, 1, count) * 2.0 ** g.uniform(0, 50, count)) * (pymath.pi / 2)
    ranges = [g.uniform(-r, r, count) for r in (1, 2, 30, 750)]
    near_one = 1 + g.uniform(-1, 1, count) * 2.0 ** g.uniform(-40, 0, count)
    powers = np.exp2(g.uniform(-60, 60, count)) * sign
    return np.concatenate([bits, quarter, near_one, powers, *ranges, EDGES])


# --- float32 --------------------------------------------------------------------------------------

SINGLE = {n: (r, b) for n, (r, b, _) in UNARY.items()}
SINGLE |= {n: (r, b) for n, (r, _, b, _, _) in SPECIAL.items()}
del SINGLE["erf_inv"]  # not the nearest number, but JAX's


@pytest.mark.parametrize("name", SINGLE)
def test_single(name):
    reference, bound = SINGLE[name]
    x = np.concatenate([every_bit(19_997), np.array(EDGES, F32)])
    check(name, F32, reference, bound, x)


def test_the_inverse_of_erf_is_jaxs():
    x = np.concatenate([every_bit(9_973), np.array(EDGES, F32)])
    x = np.concatenate([x, np.random.default_rng(0).uniform(-1, 1, 100_000).astype(F32)])
    got, want = Compiled.of("erf_inv", F32, 1)(x), erf_inv_p.ref(x)
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_close_to_quarter_turns(name):
    reference, bound = SINGLE[name]
    n = np.unique(np.rint(2.0 ** np.linspace(0, 125, 20_000)))
    x = (n * (pymath.pi / 2)).astype(F32)
    hard = np.array([16367173 * 2.0**72, 2.0**127, 3.4028235e38, 1.5707964, 3.1415927], F32)
    around = [np.nextafter(x, F32(INF)), np.nextafter(x, F32(0)), x, hard]
    finite = np.concatenate(around)
    check(name, F32, reference, bound, finite[np.isfinite(finite)])


# --- float64 --------------------------------------------------------------------------------------


@pytest.mark.skipif(not EXTENDED, reason="no extended precision to compare with")
@pytest.mark.parametrize("name", UNARY)
def test_double(name):
    reference, _, bound = UNARY[name]
    check(name, F64, reference, bound, doubles())


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_hard_doubles(name):
    with mpmath.workprec(1300):
        x = np.array([6381956970095103 * 2.0**797, 2.0**1023, 1e22, 5e300, 2.0**48, 2.0**48 - 1])
        x = np.concatenate([x, -x, np.rint(2.0 ** np.linspace(1, 60, 60)) * (pymath.pi / 2)])
        exact = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
        got = Compiled.of(name, F64)(x)
        for value, want in zip(got, exact, strict=True):
            unit = float(np.spacing(abs(float(want))))
            assert abs(mpmath.mpf(float(value)) - want) <= UNARY[name][2] * unit


@pytest.mark.parametrize("name", SPECIAL)
def test_special_double(name):
    _, exact, _, bound, reach = SPECIAL[name]
    g = np.random.default_rng(0)
    x = np.concatenate([g.uniform(-reach, reach, 300), g.uniform(-1, 1, 100), [1e-300, 1e-9]])
    if name == "erf_inv":
        x = np.concatenate([x[np.abs(x) < 1], 1 - 2.0 ** -np.linspace(3, 53, 51)])
    got = Compiled.of(name, F64)(x)
    with mpmath.workprec(200):
        for at, value in zip(x, got, strict=True):
            want = exact(mpmath.mpf(float(at)))
            unit = float(np.spacing(abs(float(want))))
            assert abs(mpmath.mpf(float(value)) - want) <= bound * unit, at


# --- gamma: absolute near the zeros, relative elsewhere -------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype", "bound"),
    [("lgamma", F32, 1), ("digamma", F32, 1), ("lgamma", F64, 32), ("digamma", F64, 10)],
)
def test_gamma(name, dtype, bound):
    exact = {"lgamma": lambda v: mpmath.log(abs(mpmath.gamma(v))), "digamma": mpmath.digamma}[name]
    g = np.random.default_rng(0)
    ranges = [(-20, 0), (0, 0.5), (0.5, 3), (3, 30), (30, 1e5), (-1e-3, 1e-3), (0.999, 1.001)]
    x = np.concatenate([g.uniform(*r, 60) for r in ranges]).astype(dtype)
    got = Compiled.of(name, dtype)(x)
    epsilon = float(np.finfo(dtype).eps)
    with mpmath.workprec(200):
        for at, value in zip(x, got, strict=True):
            want = exact(mpmath.mpf(float(at)))
            scale = max(1.0, abs(float(want)))
            assert abs(mpmath.mpf(float(value)) - want) <= bound * epsilon * scale, at


@pytest.mark.parametrize("dtype", [F32, F64])
def test_gamma_edges(dtype):
    x = np.array([0.0, -0.0, -1.0, -2.0, 1.0, 2.0, INF, -INF, NAN], dtype)
    want = np.array([INF, INF, INF, INF, 0, 0, INF, INF, NAN], dtype)
    np.testing.assert_array_equal(Compiled.of("lgamma", dtype)(x), want)
    got = Compiled.of("digamma", dtype)(x)
    assert np.isnan(got[[0, 1, 2, 3, 7, 8]]).all()
    assert got[6] == INF


# --- two arguments --------------------------------------------------------------------------------


def pairs(dtype, count=30_000):
    g = np.random.default_rng(0)
    info = np.finfo(dtype)
    integer = np.uint32 if dtype is F32 else np.uint64
    top = np.iinfo(integer).max
    edges = np.array([*EDGES, info.max, info.tiny, info.smallest_subnormal, 1 - info.epsneg])
    edge_x, edge_y = np.meshgrid(edges, edges)
    bits = g.integers(0, top, (2, count), dtype=integer, endpoint=True).view(dtype)
    many = [
        (edge_x.ravel(), edge_y.ravel()),
        bits,
        (g.uniform(-4, 4, count), g.uniform(-4, 4, count)),
        (g.uniform(0, 4, count), g.uniform(-60, 60, count)),
        (g.uniform(-4, 4, count), np.rint(g.uniform(-30, 30, count))),
        (
            1 + g.uniform(-1, 1, count) * 2.0 ** g.uniform(-20, 0, count),
            2.0 ** g.uniform(0, 20, count),
        ),
        tuple(np.exp2(g.uniform(-90, 90, (2, count)))),
    ]
    with np.errstate(all="ignore"):
        return [np.concatenate([p[i] for p in many]).astype(dtype) for i in (0, 1)]


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    if dtype is F64 and not EXTENDED:
        pytest.skip("no extended precision to compare with")
    reference, single, double = BINARY[name]
    check(name, dtype, reference, single if dtype is F32 else double, *pairs(dtype))


# --- exact functions ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F32, F64])
def test_exact(dtype):
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(Compiled.of("sign", dtype)(x), np.sign(x))
        np.testing.assert_array_equal(Compiled.of("round_even", dtype)(x), np.rint(x))
        np.testing.assert_array_equal(Compiled.of("nextafter", dtype, 2)(x, y), np.nextafter(x, y))
    halves = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388607.5, INF, -0.0, 1e20], dtype)
    want = np.array([1, 2, 3, -1, -3, 0, 8388608, INF, -0.0, dtype(1e20)], dtype)
    got = Compiled.of("round_away", dtype)(halves)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("power", [0, 1, 2, 3, 7, -1, -4])
def test_integer_pow(power):
    k = Builder()
    x = np.array([0.3, -1.7, 2.0, -0.0, INF], F32)
    value = math.integer_pow(k, k.load(0, F32), power)
    [got] = evaluate([value], lambda attr: x)
    with np.errstate(all="ignore"):
        want = x.astype(F64) ** power
    np.testing.assert_allclose(np.broadcast_to(got, x.shape), want, rtol=1e-6)


# --- the evaluator agrees with compiled code ------------------------------------------------------


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", [*UNARY, *SPECIAL, "lgamma", "digamma", "sign", "round_away"])
def test_evaluator(name, dtype):
    g = np.random.default_rng(0)
    x = np.concatenate([g.uniform(-3, 3, 200), g.uniform(0, 1, 50), g.uniform(-80, 80, 200), EDGES])
    x = x.astype(dtype)
    run = Compiled.of(name, dtype)
    # the evaluator's fused multiply-add may round twice
    np.testing.assert_allclose(run.evaluated(x), run(x), rtol=8 * np.finfo(dtype).eps, atol=1e-14)
