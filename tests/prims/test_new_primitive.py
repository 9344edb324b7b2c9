"""An elementwise primitive that is defined here alone works everywhere: nothing lists them."""

import ast
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.base import knobs
from weft.core.registry import load_declared, primitives
from weft.prims.arithmetic import abs_, add, integer_pow, mul, neg
from weft.prims.families import FLOAT, Elementwise, const, widened
from weft.prims.transcendental import Transcendental
from weft.runtime import policy

ROOT = Path(__file__).resolve().parents[2]


class Softsign(Elementwise):
    """x / (1 + |x|)."""

    name, accepts = "softsign", FLOAT
    ref = widened(lambda x: x / (1 + np.abs(x)))

    def d0(self, g, out, x):
        return mul(g, integer_pow(add(const(x, 1), abs_(x)), -2))

    def lower(self, k, x):
        return k.div(x, k.add(k.like(x, 1), k.abs(x)))


class Decay(Transcendental):
    """e to the power -|x|."""

    name, accepts = "decay", FLOAT
    ref = widened(lambda x: np.exp(-np.abs(x)))

    def d0(self, g, out, x):
        return neg(mul(g, mul(out, lax.sign(x))))

    def lower(self, k, x):
        return lax.exp_p.lower(k, k.neg(k.abs(x)))


softsign_p, decay_p = Softsign(), Decay()
for made in (softsign_p, decay_p):
    del primitives[made.name]  # weft's own are told apart by their names

softsign = softsign_p.bind
decay = decay_p.bind


PAIRS = {
    "softsign": (softsign, lambda x: x / (1 + jnp.abs(x))),
    "decay": (decay, lambda x: jnp.exp(-jnp.abs(x))),
}
X = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
LARGE = np.random.default_rng(1).normal(size=(300, 200)).astype(np.float32)
WAYS = {
    "eager": lambda f: f,
    "jit": weft.jit,
    "vmap": weft.vmap,
    "vmap of columns": lambda f: weft.vmap(f, 1, 1),
    "jvp": lambda f: lambda x: weft.jvp(f, (x,), (jnp.cos(x),)),
    "grad": lambda f: weft.grad(lambda x: f(x).sum()),
    "jit of grad": lambda f: weft.jit(weft.grad(lambda x: (f(x) ** 2).sum())),
    "grad of grad": lambda f: weft.grad(lambda x: weft.grad(lambda x: f(x).sum())(x).sum()),
    "checkpoint": lambda f: weft.grad(lambda x: weft.checkpoint(f)(x).sum()),
    "scan": lambda f: lambda x: lax.scan(lambda c, x: (f(c + x), f(x)), x[0], x),
    "loop": lambda f: weft.jit(lambda x: lax.fori_loop(0, 9, lambda i, c: f(c) + x, x)),
    "cond": lambda f: lambda x: lax.cond(x.sum() > 0, f, lambda x: x, x),
    "with a product": lambda f: weft.jit(lambda x: f(x.T @ x + 1)),
}


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PAIRS)
def test_it_is_transformed_and_run(name, way, backend):
    own, others = PAIRS[name]
    with knobs.backend(backend):
        for x in (X, LARGE, X):
            got, want = (weft.tree.leaves(WAYS[way](f)(jnp.asarray(x))) for f in (own, others))
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("name", PAIRS)
def test_dtypes(name, dtype):
    own, _ = PAIRS[name]
    with weft.enable_x64(dtype == "float64"):
        x = jnp.asarray(X.astype(getattr(ml_dtypes, dtype, dtype)))
        got = weft.jit(own)(x)
        with knobs.backend("reference"):
            want = own(x)
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got.astype("f4"), want.astype("f4"), rtol=1e-2)
        assert weft.explain(own, quiet=True)(x).python == 0


@pytest.mark.parametrize("name", PAIRS)
def test_it_is_fused(name, capsys):
    own, _ = PAIRS[name]
    told = weft.explain(lambda x: own(x * 2) + x.sum(1, keepdims=True))(X)
    assert (told.kernels, told.python) == (1, 0)
    assert name in told.steps[0].primitives


def test_it_is_counted_and_weighed_like_its_family():
    costs = {name: weft.jit(f).lower(X).cost_analysis() for name, (f, _) in PAIRS.items()}
    assert (costs["softsign"]["flops"], costs["softsign"]["transcendentals"]) == (35, 0)
    assert (costs["decay"]["flops"], costs["decay"]["transcendentals"]) == (0, 35)


def test_the_eager_policy_knows_it():
    small, large = (weft.make_jaxpr(softsign)(x).in_avals[0] for x in (X, LARGE))
    assert not policy.is_native(softsign_p, [small], small, {})
    assert policy.is_native(softsign_p, [large], large, {})
    assert policy.is_native(decay_p, [small], small, {})  # NumPy rounds functions in other ways
    assert policy.is_exact(weft.make_jaxpr(softsign)(X))
    x = jnp.asarray(X)
    first = np.asarray(softsign(x))
    for _ in range(4):
        np.testing.assert_array_equal(softsign(x), first)
    np.testing.assert_array_equal(weft.jit(softsign)(x), first)


def test_it_is_printed_and_divided():
    assert "b:f32[5,7] = softsign a" in str(weft.make_jaxpr(softsign)(X))
    aval = weft.make_jaxpr(softsign)(X).in_avals[0]
    assert softsign_p.shard([("i", ())], [aval], [aval], {}) == [("i", ())]
    assert softsign_p.factors([aval], [aval], {}) is not None


def test_no_table_lists_elementwise_primitives():
    load_declared()
    names = {name for name, made in primitives.items() if isinstance(made, Elementwise)}
    for room in ("runtime", "compiler", "api"):
        for path in sorted((ROOT / "weft" / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                    words = [x.value for x in ast.walk(node.value) if isinstance(x, ast.Constant)]
                    listed = {w for word in words if isinstance(word, str) for w in word.split()}
                    # the four that sizes are computed with
                    assert len(listed & names) <= 4, f"{path}:{node.lineno}: {listed & names}"
