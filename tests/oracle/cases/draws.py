"""Distributions of ``random`` with their key as an argument: compiled, batched, differentiated."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, EXACT, VALUE, Adder, Tol, dtype, family

KEY = np.array([7, 11], np.uint32)

# name: the ranges of its parameters, and the units that its functions may be off by.
PARAMETERS: dict[str, tuple[tuple[tuple[float, float], ...], float]] = {
    "beta": (((0.5, 3.0), (0.5, 3.0)), 64),
    "chisquare": (((1.0, 6.0),), 64),
    "f": (((2.0, 6.0), (3.0, 6.0)), 64),
    "gamma": (((0.4, 4.0),), 64),
    "loggamma": (((0.4, 4.0),), 64),
    "lognormal": (((0.3, 1.5),), 16),
    "pareto": (((1.0, 3.0),), 16),
    "rayleigh": (((0.5, 2.0),), 16),
    "t": (((2.0, 6.0),), 64),
    "triangular": (((-2.0, -1.0), (-0.5, 0.5), (1.0, 2.0)), 16),
    "truncated_normal": (((-2.0, -0.5), (0.5, 2.0)), 16),
    "wald": (((0.5, 2.0),), 256),
    "generalized_normal": (((0.7, 3.0),), 64),
    "weibull_min": (((0.5, 2.0), (0.7, 3.0)), 16),
    "double_sided_maxwell": (((-1.0, 1.0), (0.5, 2.0)), 64),
    "dirichlet": (((0.5, 3.0),), 64),
}
# Those that take numbers or a shape in front of their parameters.
SHAPED = ("generalized_normal", "weibull_min", "double_sided_maxwell")
PLAIN: dict[str, float] = {
    "normal": 2,
    "uniform": 0,
    "gumbel": 8,
    "exponential": 4,
    "laplace": 4,
    "logistic": 8,
    "cauchy": 16,
    "maxwell": 16,
}
COUNTS: dict[str, tuple[Any, ...]] = {
    "bernoulli": ((0.2, 0.8),),
    # Rates below 10 ride along as 1e5 in the loop of the others, where float32 rounds lgamma to
    # 0.06: how often that loop runs is then chance.
    "poisson": ((11.0, 20.0),),
    "geometric": ((0.2, 0.8),),
    "binomial": (9.0, (0.2, 0.8)),
}


def key_of(J: Any, k: Any) -> Any:
    return J.random.wrap_key_data(k)


@family("random_plain", Tol(16, True))
def plain(add: Adder) -> None:
    """Draws without parameters: shapes, dtypes, many keys."""
    for name, ulp in PLAIN.items():
        for shape in ((), (3,), (2, 2), (0,), (1, 5)):
            for d in ("f32", "f64", "f16", "bf16"):
                if d != "f32" and shape not in ((3,), (2, 2)):
                    continue
                fn = lambda J, k, n=name, s=shape, d=d: getattr(J.random, n)(
                    key_of(J, k), s, dtype(d)
                )
                key = f"{name}/{d}/{'x'.join(map(str, shape)) or '0d'}"
                # JAX's log1p of float64 is off by many units.
                ulp = 16 if d == "f64" and ulp > 2 else ulp
                tol = Tol(ulp, ulp > 2)
                add(key, fn, [KEY], modes=BATCH, tol=tol, x64=d == "f64")
        fn = lambda J, k, n=name: getattr(J.random, n)(k, (4,))
        add(f"{name}/legacy", fn, [KEY], modes=BATCH, tol=Tol(ulp, ulp > 2))
        for d in (np.int32, np.complex64, "text"):
            fn = lambda J, k, n=name, d=d: getattr(J.random, n)(key_of(J, k), (2,), d)
            label = d if isinstance(d, str) else np.dtype(d).name
            add(f"{name}/dtype/{label}", fn, [KEY], error="maybe")
        for shape in (3, (-1,), (2.5,), "a", None):
            fn = lambda J, k, n=name, s=shape: getattr(J.random, n)(key_of(J, k), s)
            add(f"{name}/shape/{shape}", fn, [KEY], error="maybe", tol=Tol(ulp, True))
    lo, hi = np.array([-1.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)
    fn = lambda J, k, a, b: J.random.uniform(key_of(J, k), (2,), minval=a, maxval=b)
    add("uniform/range", fn, [KEY, lo, hi], modes=ALL, each=True, tol=Tol(2))
    for mode in ("low", "high", "highest", "wrong"):
        fn = lambda J, k, m=mode: J.random.gumbel(key_of(J, k), (4,), mode=m)
        add(f"gumbel/mode/{mode}", fn, [KEY], modes=BATCH, error="maybe", tol=Tol(16, True))
        fn = lambda J, k, p, m=mode: J.random.bernoulli(key_of(J, k), p, mode=m)
        p = np.array([0.2, 0.5, 0.9], np.float32)
        add(f"bernoulli/mode/{mode}", fn, [KEY, p], modes=BATCH, error="maybe")


@family("random_parameters", Tol(64, True))
def parameters(add: Adder) -> None:
    """Draws with parameters, whose derivatives hold the quantile."""
    for name, (ranges, ulp) in PARAMETERS.items():
        for d in ("f32", "f64"):
            for size in (0, 3):
                if name == "dirichlet" and not size:
                    continue
                rng = add.rng(f"{name}/{d}/{size}")
                args = [rng.f((size,) if size else (), d, lo, hi) for lo, hi in ranges]
                shape = (size,) if size else ()

                def fn(J: Any, k: Any, *p: Any, n: str = name, s: Any = shape, d: str = d) -> Any:
                    if n in SHAPED:
                        return getattr(J.random, n)(key_of(J, k), *p, s, dtype(d))
                    return getattr(J.random, n)(key_of(J, k), *p, dtype=dtype(d))

                key = f"{name}/{d}/{size}"
                modes = ALL if d == "f32" and size == 3 else VALUE
                add(key, fn, [KEY, *args], modes=modes, tol=Tol(ulp, True))
        rng = add.rng(name)
        args = [rng.f((3,), "f32", lo, hi) for lo, hi in ranges]
        wide = (2,) if name == "dirichlet" else (2, 3)
        fn = lambda J, k, *p, n=name, s=wide: getattr(J.random, n)(key_of(J, k), *p, s)
        if name != "f":  # fails in JAX, which divides arrays of different rank
            add(f"{name}/wide", fn, [KEY, *args], tol=Tol(ulp, True))
        for label, shape in (("narrow", (2,)), ("text", "a"), ("number", 3)):
            fn = lambda J, k, *p, n=name, s=shape: getattr(J.random, n)(key_of(J, k), *p, s)
            if name != "dirichlet":
                key = f"{name}/shape/{label}"
                add(key, fn, [KEY, *args], error="maybe", tol=Tol(ulp, True))
        fn = lambda J, k, *p, n=name: getattr(J.random, n)(key_of(J, k), *p, dtype=np.int32)
        add(f"{name}/int32", fn, [KEY, *args], error="maybe")
    for d in ("f32", "f64"):
        rng = add.rng("vectors" + d)
        mean, cov = rng.f((2, 3), d), rng.spd(3, d)
        for method in ("cholesky", "eigh", "svd"):
            fn = lambda J, k, m, c, how=method: J.random.multivariate_normal(
                key_of(J, k), m, c, method=how
            )
            tol = Tol(64 if method == "cholesky" else 4096, True)
            modes = ALL if method == "cholesky" else VALUE
            add(f"multivariate_normal/{method}/{d}", fn, [KEY, mean, cov], modes=modes, tol=tol)
    for d, p in ((2, 2.0), (3, 1.0), (4, 3.0)):
        fn = lambda J, k, d=d, p=p: J.random.ball(key_of(J, k), d, p, (2,))
        add(f"ball/{d}/{p}", fn, [KEY], modes=BATCH)
    for n, m in ((2, None), (3, 4), (4, 2)):
        fn = lambda J, k, n=n, m=m: J.random.orthogonal(key_of(J, k), n, (2,), m=m)
        add(f"orthogonal/{n}/{m}", fn, [KEY], modes=VALUE, tol=Tol(512, True))


@family("random_counts")
def counts(add: Adder) -> None:
    """Integers, choices, permutations and categories: equal to the last one."""
    for name, ranges in COUNTS.items():
        for size in (0, 4):
            rng = add.rng(f"{name}/{size}")
            spans = [r if isinstance(r, tuple) else (r, r) for r in ranges]
            args = [rng.f((size,) if size else (), "f32", lo, hi) for lo, hi in spans]
            fn = lambda J, k, *p, n=name: getattr(J.random, n)(key_of(J, k), *p)
            add(f"{name}/{size}", fn, [KEY, *args], modes=BATCH, each=True)
            fn = lambda J, k, *p, n=name, s=size: getattr(J.random, n)(
                key_of(J, k), *p, (3, s) if s else (3,)
            )
            add(f"{name}/shape/{size}", fn, [KEY, *args], modes=BATCH)
    lo, hi = np.array([-5, 0, 7], np.int32), np.array([5, 100, 8], np.int32)
    for d in ("i32", "u8", "i8", "u32", "i64", "f32"):
        fn = lambda J, k, a, b, d=d: J.random.randint(key_of(J, k), (3,), a, b, dtype(d))
        add(f"randint/{d}", fn, [KEY, lo, hi], modes=BATCH, x64=d == "i64", error="maybe")
    for d in ("u8", "u16", "u32", "u64", "i32"):
        for shape in ((), (5,), (2, 3)):
            fn = lambda J, k, s=shape, d=d: J.random.bits(key_of(J, k), s, dtype(d))
            add(f"bits/{d}/{len(shape)}", fn, [KEY], modes=BATCH, x64=d == "u64", error="maybe")
    for d in ("i32", "f32", "i8"):
        fn = lambda J, k, d=d: J.random.rademacher(key_of(J, k), (6,), dtype(d))
        add(f"rademacher/{d}", fn, [KEY], modes=BATCH)
    logits = add.rng("logits").f((3, 4))
    table: dict[str, Any] = {
        "categorical": lambda r, k, x: r.categorical(k, x),
        "categorical/axis": lambda r, k, x: r.categorical(k, x, axis=0),
        "categorical/shape": lambda r, k, x: r.categorical(k, x, shape=(2, 3)),
        "categorical/replace": lambda r, k, x: r.categorical(k, x, shape=(2, 3), replace=False),
        "categorical/mode": lambda r, k, x: r.categorical(k, x, mode="high"),
        "categorical/wrong": lambda r, k, x: r.categorical(k, x, shape=(2, 2)),
        "choice": lambda r, k, x: r.choice(k, x),
        "choice/axis": lambda r, k, x: r.choice(k, x, (2,), axis=1),
        "choice/replace": lambda r, k, x: r.choice(k, x, (2, 2), replace=False, axis=1),
        "choice/p": lambda r, k, x: r.choice(k, x, (5,), p=np.float32([0.2, 0.5, 0.3])),
        "choice/both": lambda r, k, x: r.choice(
            k, x, (2,), replace=False, p=np.float32([0.2, 0.5, 0.3])
        ),
        "choice/many": lambda r, k, x: r.choice(k, x, (9,), replace=False),
        "permutation": lambda r, k, x: r.permutation(k, x),
        "permutation/axis": lambda r, k, x: r.permutation(k, x, axis=1),
        "permutation/free": lambda r, k, x: r.permutation(k, x, axis=-1, independent=True),
        "permutation/number": lambda r, k, x: r.permutation(k, 7),
        "multinomial": lambda r, k, x: r.multinomial(k, 20, np.float32([0.2, 0.5, 0.3])),
        "split": lambda r, k, x: r.key_data(r.split(k)),
        "split/shape": lambda r, k, x: r.key_data(r.split(k, (2, 3))),
        "fold_in": lambda r, k, x: r.key_data(r.fold_in(k, 12)),
        "clone": lambda r, k, x: r.key_data(r.clone(k)),
        "key_data": lambda r, k, x: r.key_data(k),
        "key_impl": lambda r, k, x: str(r.key_impl(k)),
        "wrap_key_data": lambda r, k, x: r.wrap_key_data(r.key_data(k)),
    }
    for name, f in table.items():
        fn = lambda J, k, x, f=f: f(J.random, key_of(J, k), x)
        add(name, fn, [KEY, logits], modes=ALL, each=True, error="maybe", tol=EXACT)
    seed = np.asarray(np.int32(5))
    add("PRNGKey", lambda J, s: J.random.PRNGKey(s), [seed], modes=BATCH)
    add("key", lambda J, s: J.random.key_data(J.random.key(s)), [seed], modes=BATCH)
    add("key_dtype", lambda J: str(J.random.key_dtype()))
    for impl in ("rbg", "unsafe_rbg", "threefry2x32", "none"):
        fn = lambda J, s, i=impl: J.random.key_data(J.random.key(s, impl=i))
        add(f"key/{impl}", fn, [seed], modes=BATCH, error="maybe")
        fn = lambda J, s, i=impl: J.random.bits(J.random.key(s, impl=i), (5,))
        add(f"bits/{impl}", fn, [seed], error="maybe")


@family("nn_initializers", Tol(8, True))
def initializers(add: Adder) -> None:
    """Initialisers with their key as an argument: compiled and batched."""
    scaled = "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform"
    scaled += " lecun_normal lecun_uniform xavier_normal xavier_uniform"
    for name in scaled.split():
        for shape in ((3, 4), (2, 3, 4)):
            for d in ("f32", "f64", "bf16"):
                fn = lambda J, k, n=name, s=shape, d=d: getattr(J.initializers, n)()(
                    key_of(J, k), s, dtype(d)
                )
                key = f"{name}/{len(shape)}/{d}"
                add(key, fn, [KEY], modes=BATCH, x64=d == "f64")
        fn = lambda J, k, n=name: getattr(J.initializers, n)(0, 1, batch_axis=2)(
            key_of(J, k), (3, 4, 2)
        )
        add(f"{name}/axes", fn, [KEY])
        fn = lambda J, k, n=name: getattr(J.initializers, n)()(key_of(J, k), (3,))
        add(f"{name}/vector", fn, [KEY], error="maybe")
    made: dict[str, Any] = {
        "normal": lambda i: i.normal(0.5),
        "truncated_normal": lambda i: i.truncated_normal(0.5, lower=-1.0, upper=1.5),
        "uniform": lambda i: i.uniform(0.5),
        "constant": lambda i: i.constant(2.5),
        "zeros": lambda i: i.zeros,
        "ones": lambda i: i.ones,
        "orthogonal": lambda i: i.orthogonal(2.0),
        "orthogonal/axis": lambda i: i.orthogonal(1.0, 0),
    }
    for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg", "wrong"):
        for shape in ("truncated_normal", "normal", "uniform", "wrong"):
            made[f"variance_scaling/{mode}/{shape}"] = lambda i, m=mode, s=shape: (
                i.variance_scaling(2.0, m, s)
            )
    for name, make in made.items():
        for d in ("f32", "bf16", "c64"):
            fn = lambda J, k, m=make, d=d: m(J.initializers)(key_of(J, k), (3, 4), dtype(d))
            tol = Tol(512, True) if "orthogonal" in name else None
            add(f"{name}/{d}", fn, [KEY], modes=BATCH, error="maybe", tol=tol)
    delta = lambda J, k: J.initializers.delta_orthogonal()(key_of(J, k), (3, 2, 4))
    add("delta_orthogonal", delta, [KEY], modes=BATCH, tol=Tol(512, True))
    short = lambda J, k: J.initializers.delta_orthogonal()(key_of(J, k), (3, 4))
    add("delta_orthogonal/flat", short, [KEY], error=True)
