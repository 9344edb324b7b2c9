"""Random keys and draws: integers, uniforms and permutations to the bit, the rest within ULPs."""

from typing import Any

import numpy as np

from ..table import EXACT, VALUE, Adder, Tol, dtype, family

SEEDS = (0, 1, 42, 2**31 - 1, -1, 123456789)


def both(J: Any, seed: int, legacy: bool) -> Any:
    return J.random.PRNGKey(seed) if legacy else J.random.key(seed)


@family("random_keys")
def keys(add: Adder) -> None:
    """Making, splitting, folding and wrapping keys, typed and legacy."""
    for seed in (*SEEDS, 2**32 - 1):
        for x64 in (False, True):
            tag = f"{seed}/{'x64' if x64 else 'x32'}"
            add(f"key/{tag}", lambda J, s=seed: J.random.key(s), x64=x64, error="maybe")
            add(f"PRNGKey/{tag}", lambda J, s=seed: J.random.PRNGKey(s), x64=x64, error="maybe")
    add("key/2**40", lambda J: J.random.key(2**40), x64=True)
    for legacy in (False, True):
        tag = "legacy" if legacy else "typed"
        for seed in SEEDS:
            add(f"split/{tag}/{seed}", lambda J, s=seed, g=legacy: J.random.split(both(J, s, g)))
            for data in (0, 1, 7, 2**31 - 1, 2**32 - 1):
                fn = lambda J, s=seed, d=data, g=legacy: J.random.fold_in(both(J, s, g), d)
                add(f"fold_in/{tag}/{seed}/{data}", fn)
        for num in (1, 2, 3, 5, (2, 3), (0,)):
            fn = lambda J, n=num, g=legacy: J.random.split(both(J, 7, g), n)
            add(f"split/{tag}/num/{num}", fn)
        chain = lambda J, g=legacy: J.random.split(J.random.split(both(J, 3, g), 4)[2], 3)
        add(f"split/{tag}/chain", chain)
        many = lambda J, g=legacy: J.vmap(J.random.split)(J.random.split(both(J, 3, g), 3))
        add(f"split/{tag}/vmap", many)
        fold = lambda J, g=legacy: J.vmap(J.random.fold_in, (None, 0))(both(J, 3, g), np.arange(4))
        add(f"fold_in/{tag}/vmap", fold)
        add(f"clone/{tag}", lambda J, g=legacy: J.random.clone(both(J, 3, g)))
    add("key_data", lambda J: J.random.key_data(J.random.key(9)))
    add("wrap_key_data", lambda J: J.random.wrap_key_data(np.array([1, 2], np.uint32)))
    add("wrap/batch", lambda J: J.random.wrap_key_data(np.arange(6, dtype=np.uint32).reshape(3, 2)))
    add("key_impl", lambda J: str(J.random.key_impl(J.random.key(0))))
    shapes = lambda J: [
        J.random.key(0).shape,
        J.random.split(J.random.key(0), 3).shape,
        str(J.random.key(0).dtype),
    ]
    add("shapes", shapes)
    ks = lambda J: J.random.split(J.random.key(0), 4)
    add("index", lambda J: ks(J)[1])
    add("slice", lambda J: ks(J)[1:3])
    add("reshape", lambda J: ks(J).reshape(2, 2))
    add("concatenate", lambda J: J.jnp.concatenate([ks(J), ks(J)[:1]]))
    add("stack", lambda J: J.jnp.stack([ks(J)[0], ks(J)[1]]))
    add("where", lambda J: J.jnp.where(np.array([True, False, True, False]), ks(J), ks(J)[::-1]))
    add("equal", lambda J: ks(J) == ks(J)[::-1])
    add("take", lambda J: J.jnp.take(ks(J), np.array([3, 0])))
    add("iterate", lambda J: list(ks(J)))
    add("at_set", lambda J: ks(J).at[0].set(ks(J)[3]))
    add("broadcast", lambda J: J.jnp.broadcast_to(J.random.key(0), (2,)))
    add("expand", lambda J: J.jnp.expand_dims(ks(J), 0))
    add("issubdtype", lambda J: bool(J.dtypes.issubdtype(J.random.key(0).dtype, J.dtypes.prng_key)))
    add("jit", lambda J: J.jit(lambda k: J.random.split(k))(J.random.key(5)))
    for impl in ("threefry2x32", "rbg", "unsafe_rbg"):
        add(f"impl/{impl}", lambda J, i=impl: J.random.key_data(J.random.key(1, impl=i)))


SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (5,), (2, 3), (0,), (7, 3))


@family("random_bits")
def bits(add: Adder) -> None:
    """bits, uniform, randint, permutation, bernoulli, rademacher to the bit."""
    for shape in SHAPES:
        tag = "x".join(map(str, shape)) or "0d"
        for d in ("u8", "u16", "u32", "u64"):
            fn = lambda J, s=shape, d=d: J.random.bits(J.random.key(11), s, dtype(d))
            add(f"bits/{d}/{tag}", fn, x64=d == "u64")
        for d in ("f32", "f16", "bf16", "f64"):
            fn = lambda J, s=shape, d=d: J.random.uniform(J.random.key(12), s, dtype(d))
            add(f"uniform/{d}/{tag}", fn, x64=d == "f64")
            fn = lambda J, s=shape, d=d: J.random.uniform(
                J.random.PRNGKey(12), s, dtype(d), -2.0, 3.0
            )
            add(f"uniform/range/{d}/{tag}", fn, x64=d == "f64", tol=Tol(1, True))
        for d in ("i32", "u32", "i8", "u8", "i16", "u16", "i64", "u64"):
            fn = lambda J, s=shape, d=d: J.random.randint(J.random.key(13), s, 3, 90, dtype(d))
            add(f"randint/{d}/{tag}", fn, x64="64" in d)
        add(f"rademacher/{tag}", lambda J, s=shape: J.random.rademacher(J.random.key(2), s))
        add(f"bernoulli/{tag}", lambda J, s=shape: J.random.bernoulli(J.random.key(2), 0.3, s))
    for seed in SEEDS[:5]:
        add(f"uniform/seed/{seed}", lambda J, s=seed: J.random.uniform(J.random.key(s), (9,)))
        add(f"bits/seed/{seed}", lambda J, s=seed: J.random.bits(J.random.key(s), (9,)))
        add(
            f"randint/seed/{seed}",
            lambda J, s=seed: J.random.randint(J.random.key(s), (9,), 0, 1000),
        )
        add(f"permutation/seed/{seed}", lambda J, s=seed: J.random.permutation(J.random.key(s), 12))
    ranges = ((0, 1), (-5, 5), (0, 2**31 - 1), (-(2**31), 2**31 - 1), (5, 5), (7, 3), (0, 256))
    for lo, hi in ranges:
        fn = lambda J, lo=lo, hi=hi: J.random.randint(J.random.key(4), (6,), lo, hi)
        add(f"randint/range/{lo}..{hi}", fn)
    arrays = lambda J: J.random.randint(
        J.random.key(4), (3,), np.array([0, 10, 20]), np.array([5, 15, 90])
    )
    add("randint/arrays", arrays)
    x = np.arange(12).reshape(4, 3).astype(np.float32)
    for axis in (0, 1):
        for independent in (False, True):
            fn = lambda J, x, a=axis, i=independent: J.random.permutation(J.random.key(8), x, a, i)
            add(f"permutation/{axis}/{independent}", fn, [x])
    for n in (0, 1, 2, 10, 100):
        add(f"permutation/{n}", lambda J, n=n: J.random.permutation(J.random.PRNGKey(1), n))
    probability = np.array([0.1, 0.9, 0.5], np.float32)
    add("bernoulli/array", lambda J, p: J.random.bernoulli(J.random.key(6), p), [probability])
    add(
        "bernoulli/high",
        lambda J, p: J.random.bernoulli(J.random.key(6), p, mode="high"),
        [probability],
    )
    vmapped = lambda J: J.vmap(lambda k: J.random.bits(k, (3,)))(J.random.split(J.random.key(0), 4))
    add("bits/vmap", vmapped)
    vmapped = lambda J: J.vmap(lambda k: J.random.permutation(k, 5))(
        J.random.split(J.random.key(0), 3)
    )
    add("permutation/vmap", vmapped)
    jitted = lambda J: J.jit(lambda k: (J.random.bits(k, (3,)), J.random.uniform(k, (4,))))(
        J.random.key(9)
    )
    add("jit", jitted)
    add(
        "uniform/grad",
        lambda J: J.grad(lambda s: J.random.uniform(J.random.key(0), (), minval=0.0, maxval=s))(
            2.0
        ),
    )
    add("large", lambda J: J.random.bits(J.random.key(0), (1000,))[-5:])
    add(
        "rng_bit_generator",
        lambda J, k: J.lax.rng_bit_generator(
            k, (5,), algorithm=J.lax.RandomAlgorithm.RNG_THREE_FRY
        ),
        [np.array([1, 2, 3, 4], np.uint32)],
    )


DRAWS: dict[str, Any] = {
    "normal": lambda r, k, s, t: r.normal(k, s, t),
    "gumbel": lambda r, k, s, t: r.gumbel(k, s, t),
    "exponential": lambda r, k, s, t: r.exponential(k, s, t),
    "laplace": lambda r, k, s, t: r.laplace(k, s, t),
    "logistic": lambda r, k, s, t: r.logistic(k, s, t),
    "cauchy": lambda r, k, s, t: r.cauchy(k, s, t),
    "truncated_normal": lambda r, k, s, t: r.truncated_normal(k, -2.0, 1.5, s, t),
    "gamma": lambda r, k, s, t: r.gamma(k, 2.5, s, t),
    "loggamma": lambda r, k, s, t: r.loggamma(k, 0.7, s, t),
    "beta": lambda r, k, s, t: r.beta(k, 2.0, 3.0, s, t),
    "t": lambda r, k, s, t: r.t(k, 4.0, s, t),
    "chisquare": lambda r, k, s, t: r.chisquare(k, 3.0, s, t),
    "f": lambda r, k, s, t: r.f(k, 3.0, 4.0, s, t),
    "pareto": lambda r, k, s, t: r.pareto(k, 2.0, s, t),
    "rayleigh": lambda r, k, s, t: r.rayleigh(k, 2.0, s, t),
    "weibull_min": lambda r, k, s, t: r.weibull_min(k, 2.0, 1.5, s, t),
    "maxwell": lambda r, k, s, t: r.maxwell(k, s, t),
    "wald": lambda r, k, s, t: r.wald(k, 1.5, s, t),
    "lognormal": lambda r, k, s, t: r.lognormal(k, 0.5, s, t),
    "triangular": lambda r, k, s, t: r.triangular(k, 0.0, 1.0, 2.0, s, t),
    "generalized_normal": lambda r, k, s, t: r.generalized_normal(k, 2.0, s, t),
    "double_sided_maxwell": lambda r, k, s, t: r.double_sided_maxwell(k, 0.0, 1.0, s, t),
}
CORE = ("normal", "gumbel", "truncated_normal", "exponential")


@family("random_draws", Tol(4))
def draws(add: Adder) -> None:
    """Distributions: normal within 2 ULP, others within what their functions allow."""
    for name, draw in DRAWS.items():
        for shape in ((), (5,), (2, 3)):
            for d in ("f32", "f64", "bf16", "f16"):
                if d in ("bf16", "f16") and (name not in CORE or shape != (5,)):
                    continue
                if name not in CORE and shape == ():
                    continue
                tag = "x".join(map(str, shape)) or "0d"
                for seed in (0, 5):
                    fn = lambda J, f=draw, s=shape, d=d, seed=seed: f(
                        J.random, J.random.key(seed), s, dtype(d)
                    )
                    tol = Tol(2) if name == "normal" else Tol(4 if name in CORE else 16, True)
                    add(f"{name}/{d}/{tag}/{seed}", fn, x64=d == "f64", tol=tol)
    add("normal/complex", lambda J: J.random.normal(J.random.key(0), (4,), "complex64"), tol=Tol(4))
    add("normal/legacy", lambda J: J.random.normal(J.random.PRNGKey(0), (4,)), tol=Tol(2))
    add("normal/long", lambda J: J.random.normal(J.random.PRNGKey(1), (64,)), tol=Tol(2))
    discrete(add)


def discrete(add: Adder) -> None:
    """Choices, categories, counts; vectors."""
    logits = np.array([[0.1, 1.0, -2.0], [2.0, 0.0, 0.5]], np.float32)
    weights = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    for seed in (0, 1, 2):
        key = lambda J, s=seed: J.random.key(s)
        table: dict[str, Any] = {
            "categorical": lambda J, k=key: J.random.categorical(k(J), logits),
            "categorical/axis": lambda J, k=key: J.random.categorical(k(J), logits, axis=0),
            "categorical/shape": lambda J, k=key: J.random.categorical(k(J), logits, shape=(3, 2)),
            "categorical/without": lambda J, k=key: J.random.categorical(
                k(J), logits[0], shape=(2,), replace=False
            ),
            "choice": lambda J, k=key: J.random.choice(k(J), 10, (4,)),
            "choice/without": lambda J, k=key: J.random.choice(k(J), 10, (4,), replace=False),
            "choice/p": lambda J, k=key: J.random.choice(k(J), 4, (5,), p=weights),
            "choice/p_without": lambda J, k=key: J.random.choice(
                k(J), 4, (3,), replace=False, p=weights
            ),
            "choice/array": lambda J, k=key: J.random.choice(
                k(J), np.arange(12.0, dtype=np.float32).reshape(4, 3), (2,)
            ),
            "choice/axis": lambda J, k=key: J.random.choice(
                k(J), np.arange(12.0, dtype=np.float32).reshape(4, 3), (2,), axis=1
            ),
            "geometric": lambda J, k=key: J.random.geometric(k(J), 0.3, (5,)),
            "poisson": lambda J, k=key: J.random.poisson(k(J), 3.0, (6,)),
            "poisson/large": lambda J, k=key: J.random.poisson(k(J), 50.0, (6,)),
            "binomial": lambda J, k=key: J.random.binomial(k(J), 10, 0.4, (5,)),
            "rademacher": lambda J, k=key: J.random.rademacher(k(J), (5,), np.float32),
        }
        for name, fn in table.items():
            add(f"{name}/seed{seed}", fn, tol=EXACT)
        vectors: dict[str, Any] = {
            "dirichlet": lambda J, k=key: J.random.dirichlet(
                k(J), np.array([1.0, 2.0, 0.5], np.float32), (2,)
            ),
            "multivariate_normal": lambda J, k=key: J.random.multivariate_normal(
                k(J), np.zeros(2, np.float32), np.array([[2.0, 0.5], [0.5, 1.0]], np.float32), (3,)
            ),
            "ball": lambda J, k=key: J.random.ball(k(J), 3, shape=(2,)),
            "orthogonal": lambda J, k=key: J.random.orthogonal(k(J), 3),
        }
        for name, fn in vectors.items():
            add(f"{name}/seed{seed}", fn, tol=Tol(8, True), modes=VALUE)
