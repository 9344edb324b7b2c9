"""Masks of triangles that change nothing, and others that do."""

import numpy as np
import pytest

import weft
from weft import numpy as jnp
from weft.backends.cuda.passes.triangles import triangles
from weft.compiler.pipeline import simplify
from weft.core.jaxpr import eval_jaxpr

RAW = lambda a: weft.lax.linalg.cholesky(a, symmetrize_input=False)
# Functions, and whether what they mask is zero there already.
CASES = {
    "a factor": (jnp.linalg.cholesky, True),
    "its lower triangle": (lambda a: jnp.tril(RAW(a)), True),
    "more of it": (lambda a: jnp.tril(RAW(a), 1), True),
    "used twice": (lambda a: (RAW(a) + 1.0, RAW(a) * 2.0), True),
    "less of it": (lambda a: jnp.tril(RAW(a), -1), False),
    "above": (lambda a: jnp.triu(RAW(a)), False),
    "others there": (lambda a: jnp.where(jnp.tri(4, dtype=bool), RAW(a), 7.0), False),
    "another one": (lambda a: jnp.tril(a + RAW(a)), False),
}


@pytest.mark.parametrize("stack", [(), (3,)], ids=["one", "stack"])
@pytest.mark.parametrize("name", CASES)
def test_masks_of_factors(name, stack):
    fun, plain = CASES[name]
    rng = np.random.default_rng(0)
    a = rng.normal(size=(*stack, 4, 4)).astype(np.float32)
    a = a @ a.swapaxes(-1, -2) + np.eye(4, dtype=np.float32)
    closed = simplify(weft.make_jaxpr(lambda a: weft.tree.leaves(fun(a)))(a))
    found = triangles(closed)
    masks = lambda c: [e.primitive.name for e in c.jaxpr.eqns].count("select_n")
    kept = 0 if plain else masks(closed) - 1
    assert masks(found) == kept and masks(closed) > 0
    got, want = (eval_jaxpr(c.jaxpr, c.consts, a) for c in (found, closed))
    for x, y in zip(got, want, strict=True):
        np.testing.assert_array_equal(x, y)
