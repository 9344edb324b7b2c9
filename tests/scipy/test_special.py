"""``weft.scipy.special`` against SciPy and mpmath, in float64, with derivatives."""

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc

import weft
import weft.numpy as jnp
from weft.scipy import special

RNG = np.random.default_rng(0)
INF, NAN = np.inf, np.nan


@pytest.fixture(autouse=True)
def double():
    with weft.enable_x64(True):
        yield


def spread(low, high, n=60):
    return RNG.uniform(low, high, n)


def scales(low, high, n=60):
    return 10.0 ** RNG.uniform(low, high, n)


# name, operands, relative tolerance
CASES = [
    ("gammaln", [spread(0.01, 20)], 1e-13),
    ("digamma", [spread(0.01, 20)], 1e-13),
    ("gamma", [np.r_[spread(-9.9, 25), -1, INF]], 2e-14),
    ("gammasgn", [np.r_[spread(-9, 9), -1, 0, NAN]], 0),
    ("loggamma", [np.r_[spread(0.01, 9), -1, -0.5]], 1e-12),
    ("betaln", [scales(-2, 2), scales(-2, 2)], 1e-10),
    ("beta", [scales(-1, 1), scales(-1, 1)], 1e-13),
    ("betainc", [scales(-1, 1), scales(-1, 1), spread(0, 1)], 1e-12),
    ("gammainc", [scales(-1, 2), scales(-1, 2)], 1e-11),
    ("gammaincc", [scales(-1, 2), scales(-1, 2)], 1e-11),
    ("factorial", [np.r_[np.arange(10.0), -1]], 1e-14),
    ("comb", [np.array([5.0, 6, 3, -1]), np.array([2.0, 0, 4, 1])], 1e-14),
    ("poch", [spread(0.1, 5), spread(0.1, 5)], 1e-13),
    ("polygamma", [RNG.integers(0, 6, 60), spread(0.1, 10)], 1e-14),
    ("zeta", [1 + scales(-2, 1), scales(-2, 2)], 1e-14),
    ("erf", [spread(-3, 3)], 1e-14),
    ("erfc", [spread(-3, 5)], 1e-14),
    ("erfinv", [spread(-1, 1)], 1e-14),
    ("erfcx", [np.r_[spread(-3, 30), scales(0, 10), INF]], 1e-14),
    ("ndtr", [np.r_[spread(-8, 8), INF, -INF, NAN]], 1e-13),
    ("ndtri", [np.r_[spread(0, 1), scales(-300, 0), 0, 1, -1, NAN]], 1e-14),
    ("log_ndtr", [np.r_[spread(-40, 10), INF, -INF]], 1e-13),
    ("logit", [spread(0, 1)], 1e-13),
    ("expit", [spread(-20, 20)], 1e-14),
    ("owens_t", [np.r_[spread(-3, 3), 0, 1], np.r_[spread(-3, 3), 1, 0]], 1e-12),
    ("xlogy", [np.r_[spread(0, 3), 0, 0], np.r_[spread(0, 3), 0, NAN]], 1e-15),
    ("xlog1py", [np.r_[spread(0, 3), 0], np.r_[spread(-0.9, 3), -1]], 1e-15),
    ("entr", [np.r_[spread(0, 3), 0, -1]], 1e-15),
    ("rel_entr", [np.r_[spread(0, 3), 0, 0, 1], np.r_[spread(4, 6), 0, 1, 0]], 1e-13),
    ("kl_div", [np.r_[spread(0, 3), 0], np.r_[spread(4, 6), 1]], 1e-12),
    ("boxcox", [spread(0.1, 4), np.r_[spread(-2, 2, 59), 0]], 1e-14),
    ("boxcox1p", [spread(0.1, 4), np.r_[spread(-2, 2, 59), 0]], 1e-14),
    ("exp1", [np.r_[scales(-10, 2), 0, INF, -1, NAN]], 1e-14),
    ("expi", [np.r_[spread(-30, 80), scales(0, 2), 0, INF, -INF]], 1e-13),
    ("expn", [RNG.integers(0, 40, 60), scales(-4, 2)], 1e-13),
    ("expn", [np.array([1, 2, 3, 0, 5000]), np.array([0, 0, 0, 0, 3.0])], 1e-13),
    ("i0", [spread(-10, 10)], 1e-14),
    ("i1", [spread(-10, 10)], 1e-14),
    ("i0e", [spread(-10, 10)], 1e-14),
    ("i1e", [spread(-10, 10)], 1e-14),
    ("spence", [np.r_[spread(0, 5), scales(-6, 6), 0, 1, -1, 2]], 1e-13),
    ("hyp1f1", [spread(0.5, 5), spread(0.5, 5), spread(-30, 150)], 1e-10),
    ("hyp2f1", [spread(0, 3), spread(0, 3), spread(3, 6), spread(-3, 0.999)], 1e-11),
    ("hyp2f1", [np.array([1.0, 2, 1, 1, -2]), np.array([1.0, 1, 2, 1, 3]),
                np.array([2.0, 4, 3, 3, 1]), np.array([0.95, 0.99, 0.999, 1, 5])], 1e-12),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "operands", "tolerance"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_against_scipy(name, operands, tolerance):
    got = getattr(special, name)(*operands)
    wanted = getattr(sc, name)(*operands)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=1e-300)


def test_more_accurate_than_scipy():
    with mp.workdps(40):
        x = 0.010181022690278875
        wanted = mp.sqrt(mp.pi) / 2 * mp.exp(-(mp.mpf(x) ** 2)) * mp.erfi(x)
        np.testing.assert_allclose(special.dawsn(x), float(wanted), rtol=4e-16)
        np.testing.assert_allclose(special.expi(0.3725074), float(mp.ei(0.3725074)), rtol=1e-14)
        a, b = 73283.97957224849, 0.1301752984359443
        np.testing.assert_allclose(special.betaln(a, b), float(mp.log(mp.beta(a, b))), rtol=1e-14)
    x = np.r_[spread(-12, 12), scales(0, 15), INF, -INF]
    np.testing.assert_allclose(special.dawsn(x), sc.dawsn(x), rtol=1e-13)


@pytest.mark.parametrize("name", ["sici", "fresnel"])
def test_pairs(name):
    x = np.r_[spread(-10, 10), scales(-5, 0), INF, -INF, 0]
    for got, wanted in zip(getattr(special, name)(x), getattr(sc, name)(x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["loggamma", "gamma", "wofz", "erfcx"])
def test_complex(name):
    z = spread(-6, 6) + 1j * spread(-6, 6)
    np.testing.assert_allclose(getattr(special, name)(z), getattr(sc, name)(z), rtol=5e-14)


def test_riemann_zeta():
    x = np.r_[spread(1.01, 20), spread(0, 0.99), 0]
    np.testing.assert_allclose(special.zeta(x), sc.zeta(x), rtol=1e-13)
    with mp.workdps(30):
        wanted = [float(mp.zeta(v)) for v in (-0.5, -1.0, -3.3, -7.5)]
    np.testing.assert_allclose(special.zeta(np.array([-0.5, -1.0, -3.3, -7.5])), wanted, rtol=1e-13)
    assert float(special.zeta(1.0)) == INF


def test_orders_in_front():
    z = spread(0.01, 20, 20)
    got = special.bessel_jn(z, v=4)
    np.testing.assert_allclose(got, [sc.jv(k, z) for k in range(5)], atol=1e-14)
    np.testing.assert_array_equal(special.bessel_jn(jnp.zeros(1), v=1), [[1], [0]])


def test_spherical_harmonics():
    n = RNG.integers(0, 12, 50)
    m = np.array([RNG.integers(-k, k + 1) for k in n])
    theta, phi = spread(0.01, 3.1, 50), spread(0, 6.28, 50)
    got = special.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(got, sc.sph_harm_y(n, m, theta, phi), atol=1e-14)
    # The polar angle may leave [0, pi]: the root of 1 - cos(theta)^2 is the positive one.
    got = special.sph_harm_y(n, m, theta - 4.0, phi)
    np.testing.assert_allclose(got, sc.sph_harm_y(n, m, theta - 4.0, phi), atol=1e-14)


def test_counted_ones():
    np.testing.assert_allclose(special.bernoulli(30), sc.bernoulli(30), rtol=1e-11)
    assert special.bernoulli(0).shape == (1,)
    wanted = [sc.multigammaln(v, 3) for v in (3.0, 4.5)]
    np.testing.assert_allclose(special.multigammaln(jnp.array([3.0, 4.5]), 3), wanted, rtol=1e-14)
    assert int(special.factorial(5, exact=True)) == 120


SLOPES = [
    ("gamma", [2.5]), ("erfcx", [0.7]), ("dawsn", [1.3]), ("ndtri", [0.03]), ("ndtri", [0.4]),
    ("log_ndtr", [-3.0]), ("logit", [0.3]), ("owens_t", [0.5, 0.7]), ("exp1", [1.2]),
    ("expi", [2.3]), ("spence", [0.8]), ("spence", [1.0]), ("xlogy", [1.0, 2.0]),
    ("entr", [0.5]), ("rel_entr", [0.3, 0.4]), ("hyp1f1", [1.0, 2.0, 0.5]),
    ("hyp2f1", [1.0, 0.7, 2.0, 0.4]), ("poch", [2.0, 1.5]), ("zeta", [2.5, 1.5]),
    ("comb", [5.0, 2.0]), ("betaln", [3.0, 20.0]), ("boxcox", [2.0, 0.5]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "point"), SLOPES)
def test_slopes(name, point):
    fun = getattr(special, name)
    for i in range(len(point)):
        up, down = list(point), list(point)
        up[i] += 1e-6
        down[i] -= 1e-6
        wanted = (float(fun(*up)) - float(fun(*down))) / 2e-6
        got = weft.jvp(lambda v, i=i: fun(*point[:i], v, *point[i + 1 :]), (point[i],), (1.0,))[1]
        np.testing.assert_allclose(float(got), wanted, rtol=1e-6, atol=1e-8)


def test_slopes_of_pairs_and_orders():
    x = jnp.asarray(1.2)
    by_x = weft.jvp(special.sici, (x,), (jnp.ones_like(x),))[1]
    np.testing.assert_allclose([float(v) for v in by_x], [np.sin(1.2) / 1.2, np.cos(1.2) / 1.2])
    angle = np.pi / 2 * 1.44
    by_x = weft.jvp(special.fresnel, (x,), (jnp.ones_like(x),))[1]
    np.testing.assert_allclose([float(v) for v in by_x], [np.sin(angle), np.cos(angle)])
    slope = weft.grad(lambda v: special.expn(2, v))(1.2)
    np.testing.assert_allclose(float(slope), -sc.expn(1, 1.2), rtol=1e-12)
    slope = weft.grad(lambda v: special.bessel_jn(v, v=1)[0])(1.2)
    np.testing.assert_allclose(float(slope), -sc.jv(1, 1.2), rtol=1e-12)


def test_narrow_floats():
    with weft.enable_x64(False):
        for name in ("dawsn", "exp1", "expi", "erfcx"):
            out = getattr(special, name)(jnp.asarray(1.5, jnp.bfloat16))
            assert out.dtype == jnp.bfloat16
            np.testing.assert_allclose(float(out), getattr(sc, name)(1.5), rtol=0.01)


def test_errors():
    with pytest.raises(ValueError, match="integer order"):
        special.polygamma(1.0, 2.0)
    with pytest.raises(ValueError, match="real numbers"):
        special.dawsn(1j)
    with pytest.raises(TypeError, match="float32 or float64"):
        special.ndtr(jnp.arange(3))
    with pytest.raises(ValueError, match="between 0 and 30"):
        special.log_ndtr(1.0, 31)
    with pytest.raises(TypeError, match="list"):
        special.erf([1.0])


def test_softmax_over_all_axes():
    np.testing.assert_allclose(special.softmax(jnp.zeros((2, 2))), np.full((2, 2), 0.25))
    np.testing.assert_allclose(special.log_softmax(jnp.zeros(2)), np.log([0.5, 0.5]))
