"""A second call plans nothing: what a stack of transformations made, the next call finds again.

A stack over a jitted function has all of it after its first call. Operations outside of ``jit`` are
compiled when they come for the second time, so what has some of them is settled after three.
"""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.compose.programs import generate
from tests.compose.stacks import Stack
from weft import lax
from weft.base import events, knobs

X = np.linspace(0.1, 1, 12, dtype=np.float32).reshape(3, 4)


@weft.custom_vjp
def own_vjp(x):
    return jnp.sin(x)


own_vjp.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))


@weft.custom_jvp
def own_jvp(x):
    return jnp.sin(x)


own_jvp.defjvp(lambda p, t: (jnp.sin(p[0]), t[0] * jnp.cos(p[0])))


FUNCTIONS = {
    "elementwise": lambda x: jnp.tanh(x) * 2 + x.sum(),
    "scan": lambda x: lax.scan(lambda c, a: (c * 0.5 + jnp.sin(a), c), x[0], x)[1],
    "cond": lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda y: y * 2, x),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x),
    "custom_vjp": lambda x: own_vjp(x * 2),
    "custom_jvp": lambda x: own_jvp(x * 2),
    "checkpoint": weft.checkpoint(lambda x: jnp.sin(jnp.sin(x))),
    "sort": lambda x: jnp.sort(x) + jnp.linalg.norm(x),
    "product": lambda x: x @ x.T,
    "while_loop": lambda x: lax.while_loop(lambda c: c.sum() < 40, lambda c: c * 1.5, x),
    "constants": lambda x: x * jnp.asarray(X) + jnp.arange(4.0),
}
total = lambda f: lambda x: f(x).sum()
STACKS = {
    "jit": lambda f: f,
    "grad": lambda f: weft.grad(total(f)),
    "value_and_grad": lambda f: weft.value_and_grad(total(f)),
    "grad of grad": lambda f: weft.grad(total(weft.grad(total(f)))),
    "hessian": lambda f: weft.hessian(total(f)),
    "jacrev": weft.jacrev,
    "jacfwd": weft.jacfwd,
    "jvp": lambda f: lambda x: weft.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: weft.vjp(f, x)[1](f(x)),
    "linearize": lambda f: lambda x: weft.linearize(f, x)[1](x),
    "vmap": lambda f: weft.vmap(f, in_axes=None, axis_size=2),
    "grad of checkpoint": lambda f: weft.grad(total(weft.checkpoint(f))),
    "jit of grad": lambda f: weft.jit(weft.grad(total(f))),
    "jit of vmap of grad": lambda f: weft.jit(
        weft.vmap(weft.grad(total(f)), in_axes=None, axis_size=2)
    ),
}
FORWARD_ONLY, REVERSE_ONLY = {"while_loop"}, {"custom_vjp"}
FORWARD = {"jvp", "linearize", "jacfwd", "hessian"}
REVERSE = {name for name in STACKS if "grad" in name or name in ("jacrev", "vjp", "hessian")}


def fits(function, stack):
    if function in FORWARD_ONLY:
        return stack not in REVERSE
    return function not in REVERSE_ONLY or stack not in FORWARD


@pytest.fixture
def made():
    """What is traced and compiled, as it happens."""
    seen = []
    events.watch(lambda kind, name, *rest: seen.append((kind, name)))
    with knobs.eager_compile_share(1.0):
        yield seen
    events.watch(None)


PAIRS = [(function, stack) for function in FUNCTIONS for stack in STACKS if fits(function, stack)]


@pytest.mark.parametrize(("function", "stack"), PAIRS)
def test_a_settled_call_makes_nothing(function, stack, made):
    fun = STACKS[stack](weft.jit(FUNCTIONS[function]))
    x = jnp.asarray(X)
    for _ in range(3):
        fun(x)
    made.clear()
    fun(x)
    assert not made


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_new_body_of_a_loop_has_the_code_of_the_one_before(function, made):
    """Outside of ``jit`` bodies are staged at every call; their code is there by structure."""
    x = jnp.asarray(X)
    for _ in range(3):
        FUNCTIONS[function](x)
    made.clear()
    FUNCTIONS[function](x)
    assert not made


@pytest.mark.parametrize("seed", range(40))
def test_random_stacks(seed, made):
    with weft.enable_x64(True):
        program, args, traits = generate(seed)
        stack = Stack(seed, args, traits)
        stack.grow(lambda *xs: program(True, *xs))
        fun = stack.build(weft.jit(lambda *xs: program(False, *xs)), "fast")
        args = [jnp.asarray(x) for x in stack.args]
        for _ in range(3):
            fun(*args)
        made.clear()
        fun(*args)
        assert not made, stack.names()


M = X @ X.T + np.eye(3, dtype=np.float32)
times = lambda v: jnp.asarray(M) @ v
STAGED_ANEW = {
    "custom_linear_solve": lambda: lax.custom_linear_solve(
        lambda v: times(v), jnp.ones(3), lambda matvec, b: jnp.linalg.solve(jnp.asarray(M), b)
    ),
    "cg": lambda: weft.scipy.sparse.linalg.cg(lambda v: times(v), jnp.ones(3)),
    "gmres": lambda: weft.scipy.sparse.linalg.gmres(jnp.asarray(M), jnp.ones(3)),
    "gradient of a checkpointed scan": lambda: weft.grad(
        lambda x: lax.scan(weft.checkpoint(lambda c, a: (jnp.sin(c) * a, c)), x[0], x)[0].sum()
    )(jnp.asarray(X)),
    "checkpoint with a policy": lambda: weft.grad(
        weft.checkpoint(
            lambda x: jnp.sin(jnp.sin(x) @ x.T).sum(),
            policy=weft.checkpoint_policies.dots_saveable,
        )
    )(jnp.asarray(X)),
    "gradient of custom_root": lambda: weft.grad(
        lambda a: lax.custom_root(
            lambda y: y * y - a,
            1.0,
            lambda f, y: lax.fori_loop(0, 9, lambda i, y: y - f(y) / (2 * y), y),
            lambda g, y: y / g(1.0),
        )
    )(2.0),
    "linear_call": lambda: weft.linear_transpose(
        lambda x: weft.custom_derivatives.linear_call(
            lambda r, x: r * x, lambda r, x: r * x, jnp.asarray(X), x
        ),
        jnp.asarray(X),
    )(jnp.asarray(X)),
}


@pytest.mark.parametrize("name", STAGED_ANEW)
def test_functions_made_at_every_call_have_the_code_of_those_before(name, made):
    """What calls a program is staged at every call; the program's code is there by structure."""
    for _ in range(3):
        first = STAGED_ANEW[name]()
    made.clear()
    again = STAGED_ANEW[name]()
    assert not made
    weft.tree.map(np.testing.assert_array_equal, first, again)


def test_programs_of_one_structure_keep_what_they_close_over():
    solve = lambda m: lax.custom_linear_solve(
        lambda v: m @ v, jnp.ones(3), lambda matvec, b: jnp.linalg.solve(m, b)
    )
    for k in (1.0, 2.0, 1.0):
        m = jnp.asarray(k * M)
        np.testing.assert_allclose(m @ solve(m), np.ones(3), rtol=1e-4)


def test_loops_of_one_structure_keep_what_sets_them_apart():
    """Code is shared by structure; constants, lengths and users' functions are each loop's own."""
    x = jnp.asarray(X)
    weights = [jnp.full(4, k) for k in (1.0, 3.0)]
    sums = [lax.scan(lambda s, a, w=w: (s + (a * w).sum(), None), 0.0, x)[0] for w in weights]
    np.testing.assert_allclose(sums[1], 3 * sums[0], rtol=1e-6)
    steps = [float(lax.fori_loop(0, n, lambda i, s: s + 1.5, 0.0)) for n in (3, 4, 3)]
    assert steps == [4.5, 6.0, 4.5]
    seen = []
    for tag in "ab":
        told = lambda _, tag=tag: seen.append(tag)
        lax.fori_loop(0, 2, lambda i, s, told=told: (weft.debug.callback(told, s), s + 1)[1], 0)
    weft.effects_barrier()
    assert seen == ["a", "a", "b", "b"]
