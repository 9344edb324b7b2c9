"""Divisors that cannot be zero are not looked at; those that can be, are."""

import numpy as np
import pytest

import weft
from weft import lax, nn
from weft import numpy as jnp
from weft.compiler.checks.flow import Flow
from weft.compiler.checks.instrument import flat
from weft.compiler.checks.signs import ABOVE, NOT_BELOW, UNKNOWN
from weft.core.registry import primitives

X = np.float32([[-2, 0, 3], [1, -1, 0.5]])
# Functions, and the sign that is known of their results.
CASES = {
    "an argument": (lambda x: x + 0, UNKNOWN),
    "exp": (jnp.exp, NOT_BELOW),
    "1 + exp": (lambda x: 1 + jnp.exp(-x), ABOVE),
    "sqrt of squares": (lambda x: jnp.sqrt(x * x), NOT_BELOW),
    "sqrt of squares, and a little": (lambda x: jnp.sqrt(x**2) + 1e-8, ABOVE),
    "a little, rounded to zero": (lambda x: (abs(x) + 1e-8).astype(np.float16), NOT_BELOW),
    "a number of its own": (lambda x: jnp.full_like(x, 2.0), ABOVE),
    "a difference": (lambda x: jnp.exp(x) - 1, UNKNOWN),
    "a product of small numbers": (lambda x: (1 + x * x) * 1e-30, NOT_BELOW),
    "at least": (lambda x: jnp.maximum(x, 1e-6), ABOVE),
    "at most": (lambda x: jnp.minimum(x * x, 1.0), NOT_BELOW),
    "a choice": (lambda x: jnp.where(x > 0, jnp.exp(x) + 1, 2.0), ABOVE),
    "a choice of zero": (lambda x: jnp.where(x > 0, jnp.exp(x) + 1, 0.0), NOT_BELOW),
    "a sum": (lambda x: (1 + abs(x)).sum(1), ABOVE),
    "a sum of nothing": (lambda x: (1 + abs(x[:, :0])).sum(1), UNKNOWN),
    "another view": (lambda x: (1 + abs(x)).T.reshape(-1)[None], ABOVE),
    "softmax's sum": (lambda x: jnp.exp(x - x.max(1, keepdims=True)).sum(1), ABOVE),
    "softmax's sum, other axis": (lambda x: jnp.exp(x - x.max(0)[None]).sum(0), ABOVE),
    "softmax's sum, all": (lambda x: jnp.exp(x - x.max()).sum(), UNKNOWN),
    "the sum over another axis": (
        lambda x: jnp.exp(x - x.max(1, keepdims=True)).sum(0),
        NOT_BELOW,
    ),
    "the maximum of others": (
        lambda x: jnp.exp(x - x[::-1].max(1, keepdims=True)).sum(1),
        NOT_BELOW,
    ),
    "the maximum of another axis": (
        lambda x: jnp.exp(x[:, :2] - x[:, :2].max(0)[:, None]).sum(1),
        NOT_BELOW,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_signs(name):
    function, sign = CASES[name]
    body = flat(weft.make_jaxpr(function)(X)).jaxpr
    found = Flow(body).signs.of(body.outvars[0])
    # less may be known than is true, as where NumPy's function is written in another way
    assert found == sign or (name == "softmax's sum, all" and found in (NOT_BELOW, ABOVE))


NUMBERS = {
    UNKNOWN: [-np.inf, -3e38, -1.5, -1e-38, -0.0, 0.0, 1e-45, 2e-38, 0.7, 3.0, 3e38, np.inf],
    NOT_BELOW: [-0.0, 0.0, 1e-45, 2e-38, 0.7, 3.0, 3e38, np.inf],
    ABOVE: [2e-38, 1e-19, 0.7, 3.0, 3e38, np.inf],
}
SIGNED = sorted(name for name, p in primitives.items() if p.sign is not None)
PAIRS = {"add": lax.add, "add_any": lax.add, "max": lax.max, "min": lax.min, "mul": lax.mul}
POWERS = {"integer_pow": [lambda x, y=y: lax.integer_pow(x, y) for y in (-3, -2, 0, 2, 3, 4)]}


@pytest.mark.parametrize("name", SIGNED)
def test_primitives_have_the_sign_that_they_say(name):
    for function in POWERS.get(name, [PAIRS.get(name, getattr(lax, name, None))]):
        for signs in np.ndindex(*[3] * (2 if name in PAIRS else 1)):
            args = [g.reshape(-1) for g in np.meshgrid(*[np.float32(NUMBERS[s]) for s in signs])]
            (eqn,) = weft.make_jaxpr(function)(*args).eqns
            said = primitives[name].sign(list(signs), eqn.params)
            with np.errstate(all="ignore"):
                found = np.asarray(function(*args))
            found = found[~np.isnan(found)]
            assert said == UNKNOWN or (found >= 0).all(), signs
            # numbers that are not normal may be taken for zeros
            assert said != ABOVE or (found >= np.finfo(np.float32).tiny).all(), signs


def test_softmax_and_adam_have_no_check_of_their_divisors():
    def step(x, m, v):
        g = weft.grad(lambda x: -nn.log_softmax(x)[:, 0].sum() + nn.softmax(x)[:, 1].sum())(x)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v**2 + 0.01 * g * g
        return x - m / (jnp.sqrt(v) + 1e-8)

    body = flat(weft.make_jaxpr(step)(X, X, X)).jaxpr
    signs = Flow(body).signs
    divisors = [eqn.invars[1] for eqn in body.eqns if eqn.primitive.name == "div"]
    assert divisors
    assert all(signs.of(x) == ABOVE for x in divisors)


def test_divisors_that_become_zero_are_named():
    with weft.checks(division=True), pytest.raises(ZeroDivisionError, match="div divided by zero"):
        weft.jit(lambda x: 1 / (jnp.exp(-x) * 1e-30))(np.float32([1.0, 200.0])).block_until_ready()
