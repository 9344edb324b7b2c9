"""Every float32 number: each function against its own float64 form, all of it compiled.

The float64 forms have polynomials and reductions of their own and are held against extended
precision and mpmath in test_math.py, so that they are references here (a few units of float64 are
nothing in units of float32). Denormal numbers are flushed, as in all programs. lgamma and digamma
are one computation for both widths, where this would say little: every 101st number is held against
SciPy instead, and every 151st of erf_inv against its reference in NumPy. All 2**32 numbers take
about a minute a function on two cores; ``--full`` runs them.
"""

import numpy as np
import pytest
import scipy.special

import weft
import weft.numpy as jnp
from tests.kernel.test_math import (
    F32,
    F64,
    INF,
    NAN,
    SINGLE,
    Compiled,
    errors,
    every_bit,
    lgamma,
)
from weft import lax
from weft.base import knobs
from weft.prims.special import erf_inv_p

BLOCK = 1 << 22
LARGEST, SMALLEST = float(np.finfo(F32).max), float(np.finfo(F32).tiny)


@pytest.fixture(autouse=True)
def double_width():
    with weft.enable_x64(True):
        yield


def units(got, want):
    """`errors` of test_math for float32 and float64, for compiled code."""
    rounded = lax.bitcast_convert_type(want.astype(F32), np.uint32)
    exponent = jnp.clip((rounded >> 23) & 0xFF, 1, 254).astype(np.uint64)
    # one unit is 2**(exponent - 150): times its inverse, which is exact
    inverse = lax.bitcast_convert_type((1023 + 150 - exponent) << 52, F64)
    wide = got.astype(F64)
    error = jnp.abs(wide - want) * inverse
    over = jnp.abs(want) > LARGEST
    largest = jnp.abs(wide) >= LARGEST
    infinite = jnp.where(over & largest & ((wide > 0) == (want > 0)), 0.0, INF)
    infinity = (rounded & 0x7FFFFFFF) == 0x7F800000
    error = jnp.where((jnp.abs(wide) == INF) | infinity, infinite, error)
    error = jnp.where(jnp.isnan(wide) | jnp.isnan(want), INF, error)
    error = jnp.where(jnp.isnan(wide) & jnp.isnan(want), 0.0, error)
    # denormal results are flushed; at the smallest normal number, some before they are rounded
    flushes = knobs.denormals.value == "flush"
    flushed = flushes & (wide == 0) & (jnp.abs(want) < SMALLEST * (1 + 2**-22))
    error = jnp.where(flushed, 0.0, error)
    zeros = (wide == 0) & (flushed | (want == 0)) & (jnp.signbit(wide) != jnp.signbit(want))
    return jnp.where(zeros, INF, error)


def sweep(single, double):
    """Functions of a block's first bits: its largest error, and at which of its numbers that is."""

    def found(start):
        bits = lax.iota(np.uint32, BLOCK) + start
        x = lax.bitcast_convert_type(bits, F32)
        return units(single(x), double(x.astype(F64)))

    largest = weft.jit(lambda start: jnp.max(found(start)))
    return largest, weft.jit(lambda start: jnp.argmax(found(start)))


def sweep_alone(name):
    """The same for a function of kernels that no primitive has."""
    single, double, judge = Compiled.of(name, F32), Compiled.of(name, F64), weft.jit(units)

    def found(start):
        bits = np.arange(BLOCK, dtype=np.uint32) + start
        x = bits.view(F32)
        with np.errstate(invalid="ignore"):
            wide = x.astype(F64)
        return judge(single(x), double(wide))

    return lambda start: jnp.max(found(start)), lambda start: jnp.argmax(found(start))


def sweep_of(name):
    function = getattr(lax, name, None)
    return sweep(function, function) if function else sweep_alone(name)


def worst(largest, place, blocks):
    """The largest error over blocks of numbers, and the number that has it."""
    starts = [np.uint32(i * BLOCK) for i in blocks]
    error, start = max((float(largest(s)), s) for s in starts)
    return error, np.uint32(start + np.uint32(place(start))).view(F32)


def hold(name, blocks):
    error, x = worst(*sweep_of(name), blocks)
    bound = SINGLE[name][1]
    assert error <= bound, f"{name}({x!r}): {error:.3f} units, not {bound}"


# Two blocks have one exponent: denormal numbers, 1/2, 1, 64, 2**127, infinity and NaN, -1, -64.
SAMPLE = [0, 252, 254, 266, 509, 510, 766, 778]


@pytest.mark.parametrize("name", ["exp", "sin", "log2"])
def test_some_blocks(name):
    hold(name, SAMPLE)


@pytest.mark.parametrize("name", ["exp", "log2"])
def test_some_blocks_with_denormal_numbers(name):
    with knobs.denormals("keep"):
        hold(name, SAMPLE)


@pytest.mark.full
@pytest.mark.parametrize("name", SINGLE)
def test_every_single(name):
    hold(name, range((1 << 32) // BLOCK))


def test_one_wrong_number_is_found():
    wrong = F32(1.2345678)

    def single(x):
        y = lax.exp(x)
        return jnp.where(x == wrong, y * F32(1.000001), y)

    error, x = worst(*sweep(single, lax.exp), [253, 254, 255])
    assert error > 5
    assert x == wrong


def test_units_are_those_of_the_other_tests():
    g = np.random.default_rng(0)
    want = g.integers(0, 2**64, 20_000, dtype=np.uint64, endpoint=False).view(F64)
    with np.errstate(all="ignore"):
        want = np.concatenate([want, every_bit(99_991).astype(F64) * (1 + 1e-8)])
        near = np.nextafter(want.astype(F32), g.choice([F32(INF), F32(-INF)], want.size))
    edges = np.array([0.0, -0.0, INF, -INF, NAN, LARGEST, -LARGEST, 1e-45, -1e-45, 1.0])
    beyond = np.concatenate([edges, [LARGEST * (1 + 1e-9), LARGEST * 1.5, -LARGEST * 2, 1e-46]])
    got_edge, want_edge = np.meshgrid(edges.astype(F32), beyond)
    got = np.concatenate([near, got_edge.ravel()])
    want = np.concatenate([want, want_edge.ravel()])
    with knobs.denormals("keep"):
        np.testing.assert_array_equal(weft.jit(units)(got, want), errors(got, want))
    assert errors(np.zeros(1, F32), np.full(1, LARGEST)) > 1e7


def digamma(x):
    return np.where(x == 0, NAN, scipy.special.psi(x))


@pytest.mark.parametrize(("name", "reference"), [("lgamma", lgamma), ("digamma", digamma)])
@pytest.mark.parametrize("step", [pytest.param(499_979), pytest.param(101, marks=pytest.mark.full)])
def test_gamma_of_every_kth(name, reference, step):
    run = Compiled.of(name, F32)
    largest = 0.0
    for start in range(0, 1 << 32, 1 << 28):
        x = np.arange(start, start + (1 << 28), step, dtype=np.uint64).astype(np.uint32).view(F32)
        with np.errstate(all="ignore"):
            got = run(x)
            want = reference(x.astype(F64))
            # below 1 the error is absolute: next to a zero neither is right to the last unit
            small = np.where(np.abs(want) < 1, np.abs(got - want) * 2.0**23, INF)
        largest = max(largest, np.max(np.minimum(errors(got, want), small), initial=0))
    assert largest <= 1, f"{name}: {largest:.3f} units"


@pytest.mark.full
def test_the_inverse_of_erf_of_every_kth():
    run = Compiled.of("erf_inv", F32)
    for sign in (0, 1 << 31):
        for start in range(0, 0x3F800000, 1 << 26):
            bits = np.arange(start, min(start + (1 << 26), 0x3F800002), 151, dtype=np.uint32) | sign
            x = bits.astype(np.uint32).view(F32)
            assert np.array_equal(run(x), erf_inv_p.ref(x), equal_nan=True), hex(start)
