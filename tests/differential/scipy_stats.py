"""Cases of ``scipy.stats``, ``signal``, ``fft`` and the small rooms of ``scipy``."""

from typing import Any

import numpy as np

from tests.differential.harness import COMPLEX, FLOATS, INTS, Spec, Table

table, signal, fft = Table("scipy.stats"), Table("scipy.signal"), Table("scipy.fft")
ndimage, integrate = Table("scipy.ndimage"), Table("scipy.integrate")
vq, interpolate = Table("scipy.cluster.vq"), Table("scipy.interpolate")
optimize, rotations = Table("scipy.optimize"), Table("scipy.spatial.transform")
sparse = Table("scipy.sparse.linalg")

# --- distributions --------------------------------------------------------------------------------

CLOSE: dict[str, Any] = {"ulp": 256, "scaled": True}
PROBABILITY = Spec((2, 3), low=0.03, high=0.97)

# name: arguments of the shape, range of the variable, further functions beside pdf and logpdf
CONTINUOUS: dict[str, tuple[tuple[float, ...], float, float, str]] = {
    "beta": ((2.0, 3.5), 0.05, 0.95, "cdf logcdf sf logsf"),
    "cauchy": ((), -3, 3, "cdf logcdf sf logsf ppf isf"),
    "chi2": ((3.0,), 0.2, 8, "cdf logcdf sf logsf"),
    "expon": ((), 0.1, 5, "cdf logcdf sf logsf ppf"),
    "gamma": ((2.5,), 0.2, 8, "cdf logcdf sf logsf"),
    "gennorm": ((1.5,), -3, 3, "cdf"),
    "gumbel_l": ((), -3, 2, "cdf logcdf sf logsf ppf"),
    "gumbel_r": ((), -2, 3, "cdf logcdf sf logsf ppf"),
    "laplace": ((), -3, 3, "cdf"),
    "logistic": ((), -3, 3, "cdf sf ppf isf"),
    "norm": ((), -3, 3, "cdf logcdf sf logsf ppf isf"),
    "pareto": ((2.5,), 1.1, 6, "cdf logcdf sf logsf ppf"),
    "t": ((4.0,), -3, 3, ""),
    "truncnorm": ((-1.0, 2.0), -0.9, 1.9, "cdf logcdf sf logsf"),
    "uniform": ((), 0.1, 0.9, "cdf ppf"),
    "vonmises": ((1.5,), -3, 3, ""),
    "wrapcauchy": ((0.4,), 0.2, 6, ""),
}
# these take no loc and scale
UNMOVED = ("gennorm", "vonmises", "wrapcauchy")


def distribution(name: str, function: str, shape: tuple[float, ...], low: float) -> Any:
    def call(m: Any, x: Any) -> list[Any]:
        family = getattr(m, name)
        found = getattr(family, function)
        results = [found(x, *shape)]
        if name not in UNMOVED and function not in ("ppf", "isf"):
            results.append(found(x * 2 + 0.5, *shape, loc=0.5, scale=2.0))
        return results

    return call


for family, (shape, low, high, more) in CONTINUOUS.items():
    for function in ("pdf", "logpdf", *more.split()):
        if function in ("ppf", "isf"):
            spec = PROBABILITY
        else:
            spec = Spec((2, 3), low=low, high=high)
        table.add(f"{family}.{function}", distribution(family, function, shape, low), spec, **CLOSE)
        table.add(
            f"{family}.{function}",
            distribution(family, function, shape, low),
            Spec((), low=spec.low, high=spec.high),
            **CLOSE,
        )

DISCRETE: dict[str, tuple[tuple[float, ...], int]] = {
    "bernoulli": ((0.3,), 1),
    "betabinom": ((9, 2.0, 3.0), 9),
    "binom": ((9, 0.3), 9),
    "geom": ((0.3,), 9),
    "nbinom": ((4, 0.4), 9),
    "poisson": ((2.5,), 9),
}
for family, (shape, high) in DISCRETE.items():
    extra = {"bernoulli": ["cdf"], "poisson": ["cdf"]}.get(family, [])
    for function in ("pmf", "logpmf", *extra):
        table.add(
            f"{family}.{function}",
            lambda m, x, family=family, function=function, shape=shape: getattr(
                getattr(m, family), function
            )(x, *shape),
            Spec((2, 5), low=1 if family == "geom" else 0, high=high),
            dtypes=INTS,
            dtype=False,
            **CLOSE,
        )
table.add("bernoulli.ppf", lambda m, q: m.bernoulli.ppf(q, 0.3), PROBABILITY, dtype=False, **CLOSE)
table.add("poisson.entropy", lambda m, mu: m.poisson.entropy(mu), Spec((3,), low=0.5), **CLOSE)
for function in ("pdf", "logpdf"):
    table.add(
        f"dirichlet.{function}",
        lambda m, f=function: getattr(m.dirichlet, f)(
            np.array([0.2, 0.3, 0.5], np.float32), np.array([1.5, 2.0, 3.0], np.float32)
        ),
        dtype=False,
        **CLOSE,
    )
    table.add(
        f"multivariate_normal.{function}",
        lambda m, x, f=function: getattr(m.multivariate_normal, f)(
            x, np.array([0.5, -0.5], np.float32), np.array([[2, 0.5], [0.5, 1]], np.float32)
        ),
        (3, 2),
        dtype=False,
        **CLOSE,
    )
for function in ("pmf", "logpmf"):
    table.add(
        f"multinomial.{function}",
        lambda m, f=function: getattr(m.multinomial, f)(
            np.array([1, 2, 3]), 6, np.array([0.2, 0.3, 0.5], np.float32)
        ),
        dtype=False,
        **CLOSE,
    )

# --- statistics -----------------------------------------------------------------------------------

for method in ("average", "min", "max", "dense", "ordinal"):
    table.add(
        "rankdata",
        lambda m, x, k=method: m.rankdata(x, k),
        (9,),
        label=method,
        dtypes=INTS + FLOATS,
        dtype=False,
    )
table.add("rankdata", lambda m, x: m.rankdata(x, axis=1), (3, 5), dtype=False)
table.add("mode", lambda m, x: list(m.mode(x, axis=0)), (7, 3), dtypes=INTS, dtype=False)
table.add("sem", lambda m, x: [m.sem(x), m.sem(x, axis=1, ddof=0)], (4, 5), ulp=64, scaled=True)
table.add(
    "gaussian_kde",
    lambda m, x, p: [m.gaussian_kde(x)(p), m.gaussian_kde(x, bw_method=0.4).logpdf(p)],
    (20,),
    (5,),
    dtype=False,
    ulp=1024,
    scaled=True,
)

# --- signals --------------------------------------------------------------------------------------

NEAR: dict[str, Any] = {"ulp": 64, "scaled": True}
for mode in ("full", "same", "valid"):
    signal.add(
        "convolve",
        lambda m, x, y, k=mode: [
            m.convolve(x, y, mode=k),
            m.correlate(x, y, mode=k),
            m.fftconvolve(x, y, mode=k),
            m.convolve(x, y, mode=k, method="fft"),
        ],
        (9,),
        (4,),
        label=mode,
        dtypes=FLOATS + COMPLEX,
        **NEAR,
    )
    signal.add(
        "convolve2d",
        lambda m, x, y, k=mode: [m.convolve2d(x, y, mode=k), m.correlate2d(x, y, mode=k)],
        (5, 6),
        (3, 2),
        label=mode,
        **NEAR,
    )
signal.add(
    "detrend",
    lambda m, x: [m.detrend(x), m.detrend(x, type="constant"), m.detrend(x, axis=0, bp=2)],
    (5, 8),
    ulp=512,
    scaled=True,
)
signal.add(
    "stft",
    lambda m, x, y: [
        *m.stft(x, nperseg=16),
        *m.welch(x, nperseg=16),
        *m.csd(x, y, nperseg=16),
        m.istft(m.stft(x, nperseg=16)[2], nperseg=16)[1],
    ],
    (64,),
    (64,),
    ulp=512,
    scaled=True,
)
KINDS: list[dict[str, Any]] = [{}, {"type": 2, "norm": "ortho"}, {"axis": 0}, {"n": 5}]
fft.options("dct idct", KINDS, (4, 7), **NEAR)
fft.options("dctn idctn", [{}, {"norm": "ortho"}, {"axes": (0,)}], (4, 7), **NEAR)

# --- the rest -------------------------------------------------------------------------------------

places = Spec((2, 9), low=-0.5, high=5)
# what SciPy calls these two modes has another period, or other values at the edge
GRID = {"constant": "grid-constant", "wrap": "grid-wrap"}
for mode in ("constant", "nearest", "wrap", "mirror", "reflect"):
    ndimage.add(
        "map_coordinates",
        lambda m, x, c, k=mode: [
            m.map_coordinates(
                x,
                [c[0], c[1]],
                order=o,
                mode=GRID.get(k, k) if m.__name__.startswith("scipy") else k,
                cval=2.0,
            )
            for o in (0, 1)
        ],
        (5, 6),
        places,
        label=mode,
        **NEAR,
    )
integrate.add(
    "trapezoid",
    lambda m, y: [m.trapezoid(y), m.trapezoid(y, dx=0.5, axis=0)],
    (4, 5),
    ulp=16,
    scaled=True,
)
vq.add("vq", lambda m, x, b: list(m.vq(x, b)), (9, 3), (4, 3), ulp=64, scaled=True, dtype=False)
interpolate.add(
    "RegularGridInterpolator",
    lambda m, v, p: [
        m.RegularGridInterpolator((np.arange(4.0), np.arange(5.0)), v, method=k)(p)
        for k in ("linear", "nearest")
    ],
    (4, 5),
    Spec((6, 2), low=0.1, high=2.9),
    ulp=64,
    scaled=True,
    dtype=False,
)
optimize.add(
    "minimize",
    lambda m, x: m.minimize(lambda v: ((v - 1.5) ** 2).sum(), x, method="BFGS").x.round(3),
    (3,),
    ulp=4,
    scaled=True,
    dtype=False,
)
rotations.add(
    "Rotation",
    lambda m, q, v: [
        m.Rotation.from_quat(q).as_matrix(),
        m.Rotation.from_quat(q).as_rotvec(),
        m.Rotation.from_quat(q).apply(v),
        m.Rotation.from_rotvec(v).as_quat(),
        m.Rotation.from_quat(q).inv().as_matrix(),
        m.Rotation.from_euler("xyz", v).as_matrix(),
    ],
    (4,),
    (3,),
    ulp=256,
    scaled=True,
    dtype=False,
    jit=False,
)
rotations.add(
    "Slerp",
    lambda m, q: (
        m.Slerp.init(np.arange(3.0, dtype=np.float32), m.Rotation.from_quat(q))(
            np.array([0.5, 1.25], np.float32)
        ).as_matrix()
        if hasattr(m.Slerp, "init")
        else m.Slerp(np.arange(3.0), m.Rotation.from_quat(q))(np.array([0.5, 1.25])).as_matrix()
    ),
    (3, 4),
    ulp=1024,
    scaled=True,
    dtype=False,
    jit=False,
)
sparse.add(
    "cg",
    lambda m, x, b: [f(x, b)[0] for f in (m.cg, m.gmres, m.bicgstab)],
    Spec((5, 5), make=lambda x: (x @ x.T + 9 * np.eye(5)).astype(x.dtype)),
    (5,),
    ulp=2**12,
    scaled=True,
    dtype=False,
)
