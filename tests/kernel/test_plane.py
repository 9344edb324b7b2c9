"""Functions of complex numbers in kernels: accuracy in the norm, cuts and infinities."""

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft.base import knobs

NAMES = "sqrt rsqrt exp2 expm1 log1p logistic sin cos tan sinh cosh tanh asin acos atan asinh"
NAMES += " acosh atanh"
EDGES = [0.0, -0.0, 1, -1, 0.5, -2, 1e-3, -3e-8, 100, -800, 1e30, -1e-30, np.inf, -np.inf, np.nan]
# what C leaves open: signs of zeros and infinities beside a NaN, and where exponentials vanish
OPEN = {"sin", "cos", "sinh", "cosh", "logistic"}


def points(dtype, part):
    x, y = (v.ravel().astype(part) for v in np.meshgrid(EDGES, EDGES))
    rng = np.random.default_rng(0)
    more = rng.normal(size=(2, 2000)) * np.exp(3 * rng.normal(size=(2, 2000)))
    z = np.empty(x.size + 2000, dtype)
    z.real, z.imag = np.concatenate([x, more[0]]), np.concatenate([y, more[1]])
    return z


def run(fun, backend, *args):
    if backend == "reference":
        return np.asarray(ways.interpreted(fun, *args))
    with knobs.scope(backend=backend):
        return np.asarray(weft.jit(lambda *xs: fun(*xs))(*args))


def same_kind(a, b, signs):
    """Where both are NaN, both are infinite with one sign, or both finite, zeros with one sign."""
    zeros = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    endless = np.isinf(a) & np.isinf(b) & (np.sign(a) != np.sign(b))
    kinds = (np.isnan(a) == np.isnan(b)) & (np.isinf(a) == np.isinf(b))
    return kinds & ~((zeros | endless) & signs)


@pytest.mark.parametrize("dtype, part", [("complex64", "float32"), ("complex128", "float64")])
@pytest.mark.parametrize("name", NAMES.split())
def test_functions_are_those_of_the_reference(name, dtype, part):
    with weft.enable_x64(True), np.errstate(all="ignore"):
        z = points(dtype, part)
        got, want = (run(getattr(lax, name), b, z) for b in ("native", "reference"))
        finite = np.isfinite(got) & np.isfinite(want)
        info = np.finfo(part)
        error = np.abs(got[finite] - want[finite])
        # next to a pole the operand's own rounding is magnified
        most = 64 if name == "logistic" else 4
        assert np.all(error <= most * info.eps * np.abs(want[finite]) + info.tiny)
        kinds = [
            same_kind(*ab, name not in OPEN)
            for ab in ((got.real, want.real), (got.imag, want.imag))
        ]
        bad = z[~(kinds[0] & kinds[1])]
        assert bad.size == 0, bad


@pytest.mark.parametrize("fun", [lax.max, lax.min, lax.eq, lax.atan2, lax.pow])
def test_functions_of_two(fun):
    with np.errstate(all="ignore"):
        z = points("complex64", "float32")[225:]
        w = np.roll(z, 1) / 4
        got, want = (run(fun, b, z / 4, w) for b in ("native", "reference"))
        finite = np.isfinite(got) & np.isfinite(want)
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
        np.testing.assert_allclose(got[finite], want[finite], 2e-5, 1e-6)


def test_lengths_of_complex_numbers():
    rng = np.random.default_rng(2)
    parts = (rng.normal(size=(2, 20000)) * np.exp(20 * rng.normal(size=(2, 20000)))).clip(
        -1e38, 1e38
    )
    z = (parts[0] + 1j * parts[1]).astype(np.complex64)
    want = np.hypot(z.real.astype(np.float64), z.imag.astype(np.float64))
    got = run(lax.abs, "native", z)
    known = want < 3e38
    step = np.spacing(want[known].astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(got[known] - want[known]) / step) < 1.2
