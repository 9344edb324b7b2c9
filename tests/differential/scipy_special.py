"""Cases of ``scipy.special``."""

import numpy as np

from tests.differential.harness import FLOATS, INTS, SHAPES, Spec, Table

table = Table("scipy.special")

# Accuracy in units in the last place, by how hard the functions are in float32.
EASY, HARD, SERIES = {"ulp": 8}, {"ulp": 64}, {"ulp": 256}
FEW = SHAPES[:1] + SHAPES[3:]

table.unary("erf erfc expit", dtypes=FLOATS, **EASY)
table.unary("erf expit", dtypes=INTS, points=False, **EASY)
table.unary("logit erfinv ndtri", low=0.05, high=0.95, points=False, **HARD)
table.unary("gammaln loggamma", low=0.1, high=20, points=False, ulp=64, scaled=True)
table.unary("gamma", low=0.2, high=9, **HARD)
table.unary("digamma", low=0.2, high=9, points=False, ulp=64, scaled=True)
table.unary("gammasgn", low=-4.5, high=4.5, points=False)
table.unary("entr", low=0, high=5, points=False, **EASY)
table.unary("i0 i0e i1 i1e", low=-6, high=6, points=False, **HARD)
table.unary("ndtr log_ndtr", low=-5, high=5, points=False, **SERIES)
table.unary("dawsn erfcx", low=-3, high=6, points=False, **HARD)
table.unary("exp1", low=0.1, high=9, points=False, **SERIES)
table.unary("expi", low=0.5, high=9, points=False, **SERIES)
table.unary("spence", low=0.1, high=6, points=False, ulp=64, scaled=True)
table.unary("sici fresnel", FEW, low=0.2, high=6, points=False, ulp=128, scaled=True)
table.binary("beta", low=0.5, high=5, **HARD)
table.binary("betaln", low=0.5, high=5, ulp=64, scaled=True)
table.binary("gammainc gammaincc", low=0.5, high=6, **SERIES)
table.binary("xlogy xlog1py", low=0.1, high=5, ulp=16, scaled=True)
table.binary("kl_div rel_entr", low=0.1, high=5, ulp=32, scaled=True)
table.binary("boxcox boxcox1p", low=0.2, high=3, ulp=64, scaled=True)
table.binary("poch", low=0.5, high=4, **SERIES)
table.binary("zeta", low=1.5, high=9, **HARD)
table.binary("owens_t", low=-2, high=2, ulp=256, scaled=True)
table.add(
    "betainc",
    None,
    Spec((2, 3), low=0.5, high=5),
    Spec((3,), low=0.5, high=5),
    Spec((2, 3), low=0.02, high=0.98),
    **SERIES,
)
table.add(
    "polygamma", lambda m, x: [m.polygamma(n, x) for n in (1, 2, 3)], Spec((5,), low=0.5), **SERIES
)
table.add(
    "expn", lambda m, x: [m.expn(n, x) for n in (1, 2, 5)], Spec((5,), low=0.3, high=6), **SERIES
)
table.add(
    "multigammaln",
    lambda m, x: m.multigammaln(x, 3),
    Spec((5,), low=2, high=9),
    ulp=64,
    scaled=True,
)
table.add(
    "factorial",
    lambda m, x: [m.factorial(x), m.comb(x + 3, x), m.comb(x + 3, 2)],
    Spec((5,), low=0, high=6, make=np.round),
    **HARD,
)
# SciPy is the one that is off, by 260 ULP in 64 bits
table.add("bernoulli", lambda m: m.bernoulli(9), ulp=256, scaled=True)
table.add("hyp1f1", lambda m, x: m.hyp1f1(1.5, 2.5, x), Spec((5,), low=-2, high=2), **SERIES)
table.add(
    "hyp2f1", lambda m, x: m.hyp2f1(0.5, 1.5, 2.5, x), Spec((5,), low=-0.8, high=0.8), **SERIES
)
table.add(
    "wofz",
    lambda m, x: m.wofz(x),
    Spec((5,), low=0.2, high=3),
    dtypes=("complex64",),
    ulp=256,
    scaled=True,
)
table.add(
    "sph_harm_y",
    lambda m, t, p: m.sph_harm_y(np.array([2] * 5), np.array([1] * 5), t, p),
    Spec((5,), low=0.1),
    Spec((5,), low=0.1),
    ulp=64,
    scaled=True,
    jit=False,
)
table.options(
    "softmax log_softmax logsumexp",
    [{}, {"axis": 0}, {"axis": -1}, {"axis": (0, 1)}],
    (3, 4),
    ulp=16,
    scaled=True,
)
table.options("logsumexp", [{"axis": 1, "keepdims": True}], (3, 4), ulp=16, scaled=True)
table.add(
    "logsumexp",
    lambda m, x, b: [
        m.logsumexp(x, b=b),
        m.logsumexp(x, axis=0, b=b),
        *m.logsumexp(x, b=b, return_sign=True),
    ],
    (3, 4),
    Spec((3, 4), low=0.1),
    ulp=16,
    scaled=True,
)
table.add(
    "bessel_jn",
    lambda m, x: (
        m.bessel_jn(x, v=2) if hasattr(m, "bessel_jn") else np.stack([m.jv(n, x) for n in range(3)])
    ),
    Spec((5,), low=0.3),
    ulp=1024,
    scaled=True,
)
