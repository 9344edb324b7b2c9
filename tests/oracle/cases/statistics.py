"""The distributions of ``scipy.stats``, ranks and modes, and kernel density estimates."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, DIFF, VALUE, Adder, Rng, Tol, call, family

INF, NAN = np.inf, np.nan
LOCATED = ((-0.5, 0.5), (0.5, 2.0))  # ranges of loc and scale

# name: the functions, the range of the argument, the ranges of the parameters.
CONTINUOUS: dict[str, tuple[str, tuple[float, float], tuple[tuple[float, float], ...]]] = {
    "beta": ("cdf logcdf logpdf logsf pdf sf", (0.1, 0.9), ((0.5, 3.0), (0.5, 3.0))),
    "cauchy": ("cdf isf logcdf logpdf logsf pdf ppf sf", (-3.0, 3.0), LOCATED),
    "chi2": ("cdf logcdf logpdf logsf pdf sf", (0.5, 6.0), ((1.0, 5.0),)),
    "expon": ("cdf logcdf logpdf logsf pdf ppf sf", (0.6, 4.0), LOCATED),
    "gamma": ("cdf logcdf logpdf logsf pdf sf", (0.3, 5.0), ((0.5, 4.0),)),
    "gennorm": ("cdf logpdf pdf", (-2.0, 2.0), ((0.7, 3.0),)),
    "gumbel_l": ("cdf logcdf logpdf logsf pdf ppf sf", (-2.0, 2.0), LOCATED),
    "gumbel_r": ("cdf logcdf logpdf logsf pdf ppf sf", (-2.0, 2.0), LOCATED),
    "laplace": ("cdf logpdf pdf", (-3.0, 3.0), LOCATED),
    "logistic": ("cdf isf logpdf pdf ppf sf", (-3.0, 3.0), LOCATED),
    "norm": ("cdf isf logcdf logpdf logsf pdf ppf sf", (-3.0, 3.0), LOCATED),
    "pareto": ("cdf logcdf logpdf logsf pdf ppf sf", (1.2, 5.0), ((0.7, 3.0),)),
    "t": ("logpdf pdf", (-3.0, 3.0), ((1.0, 6.0),)),
    "truncnorm": ("cdf logcdf logpdf logsf pdf sf", (-0.9, 0.9), ((-2.0, -1.0), (1.0, 2.0))),
    "uniform": ("cdf logpdf pdf ppf", (0.51, 0.99), ((-0.5, 0.5), (1.0, 2.0))),
    "vonmises": ("logpdf pdf", (-3.0, 3.0), ((0.5, 3.0),)),
    "wrapcauchy": ("logpdf pdf", (0.1, 6.0), ((0.2, 0.8),)),
}
DISCRETE: dict[str, tuple[str, tuple[Any, ...]]] = {
    "bernoulli": ("cdf logpmf pmf ppf", ((0.2, 0.8),)),
    "betabinom": ("logpmf pmf", (8.0, (0.5, 3.0), (0.5, 3.0))),
    "binom": ("logpmf pmf", (8.0, (0.2, 0.8))),
    "geom": ("logpmf pmf", ((0.2, 0.8),)),
    "nbinom": ("logpmf pmf", (4.0, (0.2, 0.8))),
    "poisson": ("cdf logpmf pmf", ((0.5, 6.0),)),
}
SHIFTED = ("beta", "chi2", "gamma", "pareto", "t", "truncnorm")


def parameters(rng: Rng, ranges: tuple[Any, ...], shape: tuple[int, ...], d: str) -> list[Any]:
    """An array for every range; a plain number stays the same in all its places."""
    out = []
    for given in ranges:
        lo, hi = given if isinstance(given, tuple) else (given, given)
        out.append(rng.f(shape, d, lo, hi))
    return out


@family("stats_continuous", Tol(256, True))
def continuous(add: Adder) -> None:
    """Densities, distribution functions, survival and quantiles."""
    for name, (functions, span, ranges) in CONTINUOUS.items():
        for function in functions.split():
            fn = call(f"stats.{name}.{function}")
            lo, hi = (0.1, 0.9) if function in ("ppf", "isf") else span
            for d in ("f32", "f64"):
                key = f"{name}/{function}/{d}"
                rng = add.rng(key)
                args = [rng.f((4,), d, lo, hi), *parameters(rng, ranges, (4,), d)]
                add(key, fn, args, modes=ALL, each=d == "f32")
            rng = add.rng(f"{name}/{function}")
            args = [rng.f((2, 1), "f32", lo, hi), *parameters(rng, ranges, (3,), "f32")]
            add(f"{name}/{function}/broadcast", fn, args, modes=ALL)
            args = [rng.f((), "f32", lo, hi), *parameters(rng, ranges, (), "f32")]
            add(f"{name}/{function}/0d", fn, args, modes=DIFF)
            args = [rng.f((0,), "f32", lo, hi), *parameters(rng, ranges, (), "f32")]
            add(f"{name}/{function}/empty", fn, args, modes=BATCH)
            plain = tuple((lo + hi) / 2 for lo, hi in ranges)
            one = [rng.f((3,), "f32", lo, hi)]
            numbers = call(f"stats.{name}.{function}", *plain)
            add(f"{name}/{function}/numbers", numbers, one, modes=ALL)
            odd = np.array([-INF, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, INF, NAN], np.float32)
            if name in ("gamma", "truncnorm", "uniform"):
                odd = odd[:-1]  # weft's are NaN for NaN, as SciPy's; some of JAX's are not
            add(f"{name}/{function}/edges", numbers, [odd])
            whole = np.array([0, 1, 2], np.int32)
            # Weak in JAX, unlike the others of pareto; refused by JAX's quantiles.
            if f"{name}.{function}" not in ("pareto.logcdf", "norm.ppf", "norm.isf"):
                add(f"{name}/{function}/int", numbers, [whole], error="maybe")
            if name in SHIFTED:
                args = [rng.f((3,), "f32", lo + 0.01, hi), *parameters(rng, ranges, (3,), "f32")]
                shifted = lambda J, *a, f=fn: f(J, *a, 0.125, 1.25)
                add(f"{name}/{function}/shifted", shifted, args, modes=ALL)
                named = call(f"stats.{name}.{function}", loc=0.125, scale=1.25)
                add(f"{name}/{function}/keywords", named, args)
            if name in ("norm", "expon", "laplace", "uniform", "gamma"):
                narrow = rng.f((4,), "bf16", lo, hi), *parameters(rng, ranges, (4,), "bf16")
                add(f"{name}/{function}/bf16", fn, narrow, error="maybe")


@family("stats_discrete", Tol(256, True))
def discrete(add: Adder) -> None:
    """Probabilities of counts, inside and outside of the support."""
    for name, (functions, ranges) in DISCRETE.items():
        for function in functions.split():
            fn = call(f"stats.{name}.{function}")
            top = 2 if name == "bernoulli" else 6
            # JAX's betaln loses half of the digits of float64 (against mpmath).
            for d in ("f32",) if name == "betabinom" else ("f32", "f64"):
                for counts in (d, "i32"):
                    key = f"{name}/{function}/{counts}/{d}"
                    rng = add.rng(key)
                    k = rng.i((4,), "i32", 1 if name == "geom" else 0, top)
                    if function == "ppf":
                        k = rng.f((4,), d, 0.05, 0.95)
                    elif counts != "i32":
                        k = k.astype(np.float32 if d == "f32" else np.float64)
                    args = [k, *parameters(rng, ranges, (4,), d)]
                    add(key, fn, args, modes=ALL, each=d == "f32")
            rng = add.rng(f"{name}/{function}")
            k = rng.i((2, 1), "i32", 1, top).astype(np.float32)
            args = [k / 8 if function == "ppf" else k, *parameters(rng, ranges, (3,), "f32")]
            add(f"{name}/{function}/broadcast", fn, args, modes=ALL)
            odd = np.array([-INF, -1, 0, 0.5, 1, 2, 100, INF, NAN], np.float32)
            args = [odd, *parameters(rng, ranges, (), "f32")]
            add(f"{name}/{function}/edges", fn, args)
            if function in ("pmf", "logpmf"):
                args = [k, *parameters(rng, ranges, (3,), "f32")]
                add(f"{name}/{function}/loc", call(f"stats.{name}.{function}", loc=-1), args)
    for d in ("f32", "f64"):
        # JAX's derivative of the entropy is NaN.
        mu = add.rng("entropy").f((5,), d, 0.5, 40.0)
        key = f"poisson/entropy/{d}"
        add(key, call("stats.poisson.entropy"), [mu], modes=BATCH, tol=Tol(2048, True))
    add("poisson/entropy/0d", call("stats.poisson.entropy"), [np.asarray(np.float32(3.5))])


@family("stats_vectors", Tol(256, True))
def vectors(add: Adder) -> None:
    """Dirichlet, multinomial, multivariate normal."""
    for d in ("f32", "f64"):
        rng = add.rng(f"vectors/{d}")
        alpha = rng.f((3,), d, 0.5, 3.0)
        x = rng.f((3,), d, 0.2, 1.0)
        x = (x / x.sum()).astype(x.dtype)
        many = rng.f((3, 4), d, 0.2, 1.0)
        many = (many / many.sum(0)).astype(x.dtype)
        for function in ("pdf", "logpdf"):
            fn = call(f"stats.dirichlet.{function}")
            add(f"dirichlet/{function}/{d}", fn, [x, alpha], modes=ALL, each=True)
            add(f"dirichlet/{function}/many/{d}", fn, [many, alpha], modes=ALL)
            short = [x[:2], alpha]
            add(f"dirichlet/{function}/short/{d}", fn, short, error="maybe")
            wrong = np.array([0.5, 0.6, 0.7], x.dtype)
            add(f"dirichlet/{function}/outside/{d}", fn, [wrong, alpha])
            fn = call(f"stats.multivariate_normal.{function}")
            mean, cov = rng.f((3,), d), rng.spd(3, d)
            add(f"multivariate_normal/{function}/{d}", fn, [x, mean, cov], modes=ALL, each=True)
            args = [rng.f((5, 3), d), mean, cov]
            add(f"multivariate_normal/{function}/many/{d}", fn, args, modes=ALL)
            args = [rng.f((5, 3), d), np.zeros((), x.dtype), np.asarray(2.5, x.dtype)]
            add(f"multivariate_normal/{function}/scalar/{d}", fn, args, modes=ALL, error="maybe")
            wrong = [x, mean, cov[:2]]
            add(f"multivariate_normal/{function}/wrong/{d}", fn, wrong, error="maybe")
        for function in ("pmf", "logpmf"):
            fn = call(f"stats.multinomial.{function}")
            p = np.array([0.2, 0.3, 0.5], x.dtype)
            for k in ([1, 2, 3], [0, 0, 6], [1, 1, 1], [-1, 3, 4]):
                args = [np.array(k, np.int32), np.asarray(np.int32(6)), p]
                add(f"multinomial/{function}/{k}/{d}", fn, args, modes=ALL, error="maybe")


@family("stats_samples", Tol(64, True))
def samples(add: Adder) -> None:
    """mode, rankdata, sem and gaussian_kde."""
    x = np.array([[3, 1, 2, 1], [3, 3, 2, 0], [1, 1, 2, 2]], np.float32)
    for axis in (0, 1, -1, None):
        for keep in (False, True):
            for d in (np.float32, np.int32):
                fn = call("stats.mode", axis=axis, keepdims=keep)
                key = f"mode/{axis}/{keep}/{np.dtype(d).name}"
                add(key, fn, [x.astype(d)], modes=BATCH, error="maybe")
        for method in ("average", "min", "max", "dense", "ordinal", "wrong"):
            fn = call("stats.rankdata", method=method, axis=axis)
            add(f"rankdata/{method}/{axis}", fn, [x], modes=BATCH, error="maybe")
        for ddof in (0, 1):
            for keep in (False, True):
                fn = call("stats.sem", axis=axis, ddof=ddof, keepdims=keep)
                y = add.rng("sem").f((3, 4))
                add(f"sem/{axis}/{ddof}/{keep}", fn, [y], modes=ALL, error="maybe")
    holes = np.where(x == 2, np.float32(NAN), x)
    for policy in ("propagate", "omit", "raise", "wrong"):
        for name in ("mode", "rankdata", "sem"):
            fn = call(f"stats.{name}", axis=0, nan_policy=policy)
            add(f"{name}/policy/{policy}", fn, [holes], error="maybe")
    for d in ("f32", "f64"):
        rng = add.rng("kde" + d)
        data, weights = rng.f((2, 6), d), rng.f((6,), d, 0.5, 1.0)
        points = rng.f((2, 3), d)
        methods: dict[str, Any] = {
            "evaluate": lambda k, p: k.evaluate(p),
            "call": lambda k, p: k(p),
            "pdf": lambda k, p: k.pdf(p),
            "logpdf": lambda k, p: k.logpdf(p),
            "covariance": lambda k, p: (k.covariance, k.neff),
            "gaussian": lambda k, p: k.integrate_gaussian(p[:, 0], np.eye(2, dtype=np.float32)),
            "kde": lambda k, p: k.integrate_kde(k),
        }
        for name, method in methods.items():
            for width in (None, "scott", "silverman", 0.5):
                fn = lambda J, a, p, m=method, w=width: m(J.stats.gaussian_kde(a, bw_method=w), p)
                add(f"gaussian_kde/{name}/{width}/{d}", fn, [data, points], modes=ALL)
            fn = lambda J, a, p, w, m=method: m(J.stats.gaussian_kde(a, weights=w), p)
            add(f"gaussian_kde/{name}/weights/{d}", fn, [data, points, weights], modes=ALL)
        line = lambda J, a: J.stats.gaussian_kde(a).integrate_box_1d(-1.0, 1.0)
        add(f"gaussian_kde/box/{d}", line, [data[0]], modes=ALL)
    add("gaussian_kde/one", lambda J, a: J.stats.gaussian_kde(a), [data[0, :1]], error=True)
    wide = lambda J, a: J.stats.gaussian_kde(a, bw_method="wide")
    add("gaussian_kde/width", wide, [data], error=True)
    add("rankdata/odd", call("stats.rankdata"), [np.array([NAN, 1.0, INF, -INF], np.float32)])
    add("mode/empty", call("stats.mode"), [np.zeros((0, 3), np.float32)], modes=VALUE,
        error="maybe")  # fmt: skip
