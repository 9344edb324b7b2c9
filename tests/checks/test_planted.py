"""One planted mistake for each operation that makes NaNs or infinities, wherever it may stand."""

import zlib

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from tests.laws import checks as laws
from tests.samples import all_samples
from weft import lax
from weft.core.registry import lookup

# Finite numbers at which functions have poles, no values, or values too large for float32.
NUMBERS = np.array([-3.5, -2.0, -1.0, 0.0, 0.5, 2.0, 3.0, 90.0, -3e38, 3e38], np.float32)


def is_candidate(sample):
    primitive = lookup(sample.prim)
    plain = primitive.form in ("map", "reduce") or sample.prim.startswith(("cum", "dot", "conv"))
    return plain and "float32" in sample.dtypes and sample.axis is None and sample.fun is None


def planted(sample):
    """Finite operands of which the reference makes a NaN or an infinity, or None; and whether it
    is a NaN."""
    rng = np.random.default_rng(zlib.crc32(sample.prim.encode()))
    function = jax.jit(sample.function("float32"))
    for _ in range(12):
        args = [
            rng.choice(NUMBERS, np.shape(x)).astype(x.dtype)
            if getattr(x, "dtype", None) == np.float32
            else x
            for x in sample.operands("float32", rng)
        ]
        found = [np.asarray(x) for x in jax.tree.leaves(function(*args)) if laws.is_inexact(x)]
        found = [x.astype(np.complex128) for x in found]
        if any(np.isnan(x).any() for x in found):
            return args, True
        if any(np.isinf(x).any() for x in found):
            return args, False
    return None


def total(outs):
    return sum(
        jnp.sum(jnp.abs(x)).astype(jnp.float32) for x in jax.tree.leaves(outs) if laws.is_inexact(x)
    )


def mapped(f):
    return lambda *xs: jax.vmap(lambda *ys: f(*ys))(*[x[None] for x in xs])


def scanned(f):
    def run(*xs):
        def one(c, i):
            made = lax.cond(i == 2, lambda xs: total(f(*xs)), lambda xs: jnp.float32(0), xs)
            return c + made, i

        return lax.scan(one, jnp.float32(0), jnp.arange(4))[0]

    return run


def condition(f):
    def run(*xs):
        def going(s):
            return (s[0] < 4) & ~(total(f(*s[1:])) < -1)

        return lax.while_loop(going, lambda s: (s[0] + 1, *s[1:]), (0, *xs))

    return run


def branch(f):
    return lambda *xs: lax.cond(xs[0].ravel()[0] < 3.2e38, f, f, *xs)


def reference(f):
    def run(*xs):
        r = jax.new_ref(jnp.zeros(2))
        r[0] = total(f(*xs))
        return jax.freeze(r)

    return run


def gradient(f):
    """The mistake is made on the way there."""
    return lambda *xs: jax.value_and_grad(lambda x: total(f(x, *xs[1:])))(xs[0])[0]


# Functions without a derivative with respect to their first operand.
NO_FIRST_DERIVATIVE = ("polygamma", "zeta")
# What is computed by products of two where it is differentiated.
AS_PRODUCTS = ("cumprod", "reduce_prod")
PLACES = {
    "jit": lambda f: f,
    "vmap": mapped,
    "scan": scanned,
    "while condition": condition,
    "branch": branch,
    "reference": reference,
    "grad": gradient,
}
CANDIDATES = {s.prim: s for s in reversed([s for s in all_samples() if is_candidate(s)])}


@pytest.mark.parametrize("name", sorted(CANDIDATES))
def test_the_operation_is_named(name, request):
    sample = CANDIDATES[name]
    found = planted(sample)
    if found is None:
        return  # it maps finite numbers to finite ones
    args, is_nan = found
    f = sample.function("float32")
    kinds = {"nan": True} if is_nan else {"inf": True}
    made = "nan" if is_nan else "inf"
    places = list(PLACES)
    if not request.config.getoption("--full", False):  # each place has its turn
        at = zlib.crc32(name.encode()) % len(places)
        places = [places[at], places[(at + 3) % len(places)]]
    for place in places:
        if place == "grad" and (not sample.differentiable or name in NO_FIRST_DERIVATIVE):
            continue
        wrapped = PLACES[place](f)
        with jax.checks(**kinds), pytest.raises(FloatingPointError, match=f"made {made}") as error:
            jax.jit(wrapped)(*args)
        told = str(error.value)
        by = "mul" if place == "grad" and name in AS_PRODUCTS else name
        assert told.startswith(f"{by} made {made}"), (place, told)
        assert ("iteration" in told) == (place in ("scan", "while condition")), (place, told)
        if place == "scan":
            assert "iteration 2 of the loop" in told
