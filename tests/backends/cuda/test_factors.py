"""Numbers that operands of products are multiplied by become factors of the products."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from weft import numpy as jnp
from weft.backends.cuda import commands
from weft.backends.cuda.passes.factors import factors
from weft.core.jaxpr import eval_jaxpr
from weft.core.verify import check_jaxpr


def polynomial(a, b):
    """A step of Newton and Schulz, as optimisers with orthogonal updates have it."""
    square = a @ a.T
    mixed = -4.775 * square + 2.0315 * square @ square
    return 3.4445 * a + mixed @ a


PROGRAMS = [
    lambda a, b: (2.5 * a) @ b,
    lambda a, b: (a * 0.5) @ (b * -3.0),
    lambda a, b: ((a @ b) * 0.25) @ b + b,
    lambda a, b: jnp.einsum("ij,kj->ki", 3.0 * a, b),
    lambda a, b: jnp.tanh((-0.125 * a) @ b),
    polynomial,
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_no_kernel_multiplies_by_a_number(monkeypatch, number):
    random = np.random.default_rng(number)
    a, b = random.normal(size=(2, 128, 128)).astype("f")
    closed = weft.make_jaxpr(PROGRAMS[number])(a, b)
    after = factors(closed)
    check_jaxpr(after)
    assert len(after.jaxpr.eqns) > len(closed.jaxpr.eqns)  # the first ones are now for nothing
    for found, expected in zip(
        eval_jaxpr(after.jaxpr, after.consts, a, b),
        eval_jaxpr(closed.jaxpr, closed.consts, a, b),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-4 * np.abs(expected).max())
    planned.install(monkeypatch)
    made = planned.planned(PROGRAMS[number], a, b).commands
    assert sum(isinstance(c, commands.Launched) for c in made) <= (number == 4)


def test_what_others_need_and_narrow_floats_stay():
    a, b = np.ones((2, 64, 64), "f")
    for program in (
        lambda a, b: ((c := 2.0 * a) @ b, c),
        lambda a, b: (2.0 * jnp.sin(a)) @ b,
        lambda a, b: (2.0 * a[:1]) @ jnp.concatenate([b] * 8, 1),
        lambda a, b: (2 * a.astype("bfloat16")) @ b.astype("bfloat16"),
    ):
        closed = weft.make_jaxpr(program)(a, b)
        assert factors(closed) is closed
