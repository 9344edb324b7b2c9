"""Samples of random primitives; keys are made of words and taken apart into words."""

import numpy as np

from tests.samples import Sample, between, fixed, whole
from weft.core.registry import lookup
from weft.lax import RandomAlgorithm
from weft.prims.random import threefry_impl

UINT32 = np.dtype(np.uint32)
WORDS = whole(0, 1 << 32, 3, 2, dtype=np.uint32)


def bind(name, *args, **params):
    return lookup(name).bind(*args, **params)


def keys(words):
    return bind("random_wrap", words, impl=threefry_impl)


def words(keys):
    return bind("random_unwrap", keys)


def sample(prim, label, args, fun, dtypes=("uint32",), **options):
    return Sample(f"{prim}_{label}", prim, args, fun=fun, dtypes=dtypes, **options)


def seeded(seeds):
    return words(bind("random_seed", seeds, impl=threefry_impl))


def split(x):
    return words(bind("random_split", keys(x), shape=(2, 2)))


def folded(x, data):
    return words(bind("random_fold_in", keys(x), data))


SAMPLES = [
    sample("random_wrap", "words", [WORDS], lambda x: words(keys(x))),
    sample("random_unwrap", "words", [WORDS], lambda x: words(keys(x))),
    sample("random_clone", "words", [WORDS], lambda x: words(bind("random_clone", keys(x)))),
    sample("random_seed", "int32", [whole(0, 99, 3, dtype=np.int32)], seeded),
    sample("random_seed", "uint8", [whole(0, 99, dtype=np.uint8)], seeded),
    sample("random_split", "keys", [WORDS], split),
    sample("random_fold_in", "keys", [WORDS, whole(0, 99, 3, dtype=np.uint32)], folded),
    sample("random_fold_in", "one", [WORDS, whole(0, 99, dtype=np.uint32)], folded),
]


def bits(width, shape):
    return lambda x: bind("random_bits", keys(x), bit_width=width, shape=shape)


SAMPLES += [
    sample("random_bits", f"{width}_{len(shape)}", [WORDS], bits(width, shape))
    for width in (8, 16, 32)
    for shape in ((), (5,), (2, 3))
]
FOUR = [whole(0, 1 << 32, 2, 3, dtype=np.uint32)] * 4
SAMPLES += [
    sample("threefry2x32", "matrix", FOUR, lambda *x: bind("threefry2x32", *x)),
    sample("iota_2x32_shape", "matrix", [], lambda: bind("iota_2x32_shape", shape=(2, 3))),
]


def generate(algorithm, dtype):
    params = {"shape": (2, 3), "dtype": np.dtype(dtype), "algorithm": algorithm}
    return lambda key: bind("rng_bit_generator", key, **params, out_sharding=None)


SAMPLES += [
    sample(
        "rng_bit_generator",
        f"{algorithm.name}_{dtype}",
        [whole(0, 1 << 32, 4, dtype=np.uint32)],
        generate(algorithm, dtype),
        mapped=(),
        notes="a batch of keys draws from its first key alone, as in JAX",
    )
    for algorithm in (RandomAlgorithm.RNG_THREE_FRY, RandomAlgorithm.RNG_PHILOX)
    for dtype in ("uint32", "uint8")
]
SAMPLES += [
    Sample("rng_uniform", "rng_uniform", [fixed(0.5), fixed(0.5)], {"shape": (2, 3)}, ("float32",))
]


def gamma(log_space):
    return lambda x, a: bind("random_gamma", keys(x), a, log_space=log_space)


SAMPLES += [
    sample(
        "random_gamma",
        "log" if log_space else "plain",
        [WORDS, between(0.5, 3, 3, 2)],
        gamma(log_space),
        ("float32", "float64"),
        differentiable=False,
        order=1,
        tol=64,
        notes="the derivative holds the quantile fixed, which the sampler's own steps do not",
    )
    for log_space in (False, True)
]


def counts(name):
    return lambda x, *operands: bind(name, keys(x), *operands)


# means and trials on both sides of where the method changes
MEANS = fixed([[0.5, 3.0], [12.0, 0.0], [9.0, 40.0]])
SAMPLES += [
    sample(
        "random_poisson",
        "both",
        [WORDS, MEANS],
        counts("random_poisson"),
        ("float32", "float64"),
        differentiable=False,
        notes="counts jump, and have no slope between",
    ),
    sample(
        "random_binomial",
        "both",
        [
            WORDS,
            fixed([[5.0, 300.0], [0.0, 90.0], [40.0, 7.0]]),
            fixed([[0.5, 0.25], [0.25, 0.5], [0.125, 0.5]]),
            fixed([[True, False], [True, False], [True, True]], np.bool_),
        ],
        counts("random_binomial"),
        ("float32", "float64"),
        differentiable=False,
        notes="counts jump, and have no slope between",
    ),
]
