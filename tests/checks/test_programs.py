"""Checks raise no false alarm: random programs under random stacks, programs of users, networks."""

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from bench.suites import models
from tests.compose.programs import generate
from tests.compose.stacks import Stack
from tests.programs.programs import PROGRAMS
from tests.programs.record import summary

SEEDS = range(24)


def is_finite(results):
    return all(np.isfinite(np.asarray(x)).all() for x in results)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_under_random_stacks(seed):
    with jax.enable_x64(True):
        program, args, traits = generate(seed)
        stack = Stack(seed, args, traits)
        stack.grow(lambda *xs: program(True, *xs))
        fast = stack.build(lambda *xs: program(False, *xs), "fast")
        want = jax.jit(fast)(*stack.args)
        if not is_finite(want):
            return
        again = stack.build(lambda *xs: program(False, *xs), "fast")
        with jax.checks(nan=True, inf=True):
            got = jax.jit(again)(*stack.args)
        for mine, plain in zip(got, want, strict=True):
            np.testing.assert_allclose(mine, plain, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_users(name):

    with jax.checks(nan=True, index=True, overflow=True):
        summary(jax, PROGRAMS[name](jax))


def steps():
    yield models.sgd(jax, models.mlp_loss(jax)), models.mlp_arguments(16)
    yield (
        models.adam(jax, models.language_loss(jax)),
        models.language_arguments(1, batch=2, time=16, width=32, words=32),
    )


@pytest.mark.parametrize("step", list(steps()), ids=["perceptron", "transformer"])
def test_training_steps(step):
    function, args = step
    want = jax.jit(function)(*args)
    checked = jax.jit(lambda *given: function(*given))
    with jax.checks():
        got = checked(*args)
    for mine, plain in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-5, atol=1e-6)
    broken = [*args[:-1], args[-1]]
    broken[0] = jax.tree.map(lambda x: jnp.full_like(x, 1e38), args[0])
    with jax.checks(nan=True), pytest.raises(FloatingPointError, match="made nan"):
        checked(*broken)


@pytest.mark.parametrize("seed", range(6))
def test_a_bad_operation_is_found_under_transformations(seed):
    """A logarithm of a negative number, in a stack of loops, branches and maps."""
    rng = np.random.default_rng(seed)
    bad = int(rng.integers(1, 6))

    def work(x, i):
        return jnp.tanh(x) + jnp.log(jnp.where(i == bad, -1.0, 2.0) * (1.5 + jnp.sin(x)))

    def scanned(x):
        return jax.lax.scan(lambda c, i: (work(c, i), None), x, jnp.arange(8))[0]

    def fori(x):
        return jax.lax.fori_loop(0, 8, lambda i, c: work(c, i), x)

    def repeated(x):
        return jax.lax.while_loop(
            lambda s: s[0] < 8, lambda s: (s[0] + 1, work(s[1], s[0])), (0, x)
        )[1]

    def branching(x):
        def step(c, i):
            return jax.lax.cond(i % 2 == 0, lambda c: c, lambda c: c * 1.5, work(c, i)), None

        return jax.lax.scan(step, x, jnp.arange(8))[0]

    for loop in (scanned, fori, repeated, branching):
        functions = [loop, jax.vmap(loop), jax.vmap(jax.vmap(loop))]
        if loop is not repeated:
            functions.append(jax.grad(lambda x, loop=loop: loop(x).sum()))
        for function in functions:
            x = np.full((2, 3), 0.5, np.float32)
            with jax.checks(nan=True), pytest.raises(FloatingPointError) as error:
                jax.jit(function)(x)
            assert str(error.value).startswith("log made nan at [0, 0]: log(-"), error.value
            assert f"iteration {bad} of the loop" in str(error.value)
