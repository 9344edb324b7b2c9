"""Names of scopes and transformations around operations: as JAX 0.10.2 has them, in programs, in
their text and in profiles."""
# ruff: noqa: E501

import copy
import re

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from weft import lax

X = np.arange(4, dtype=np.float32)


def net(x):
    with jax.named_scope("foo"):
        y = jnp.sin(x)
        with jax.named_scope("bar"):
            y = jnp.cos(y)
    return y.sum()


def steps(x):
    with jax.named_scope("top"):
        return lax.scan(lambda c, a: (c + net(a), c), x[0], x)[0]


def stacks(closed):
    """Each equation's primitive and names, those of programs inside behind a blank."""
    found = []

    def walk(jaxpr, before):
        for eqn in jaxpr.eqns:
            found.append(f"{before}{eqn.primitive.name}:{eqn.source_info.name_stack}")
            for value in eqn.params.values():
                if hasattr(value, "jaxpr"):
                    walk(value.jaxpr, before + " ")

    walk(closed.jaxpr, "")
    return found


# What JAX says.
STACKS = {
    "plain": (net, X, "sin:foo|cos:foo/bar|reduce_sum:"),
    "vmap": (jax.vmap(net), X.reshape(2, 2), "sin:vmap(foo)|cos:vmap(foo)/bar|reduce_sum:vmap()"),
    "grad": (
        jax.grad(net),
        X,
        (
            "sin:jvp(foo)|cos:jvp(foo)|cos:jvp(foo)/bar|sin:jvp(foo)/bar|reduce_sum:jvp()"
            "|broadcast_in_dim:transpose(jvp())|neg:transpose(jvp(foo))/bar|mul:transpose(jvp(foo))/bar"
            "|mul:transpose(jvp(foo))"
        ),
    ),
    "vmap of grad": (
        jax.vmap(jax.grad(net)),
        X.reshape(2, 2),
        (
            "sin:vmap(jvp(foo))|cos:vmap(jvp(foo))|cos:vmap(jvp(foo))/bar|sin:vmap(jvp(foo))/bar"
            "|reduce_sum:vmap(jvp())|broadcast_in_dim:vmap(transpose(jvp()))"
            "|neg:vmap(transpose(jvp(foo)))/bar|broadcast_in_dim:vmap(transpose(jvp(foo)))/bar"
            "|mul:vmap(transpose(jvp(foo)))/bar|mul:vmap(transpose(jvp(foo)))"
        ),
    ),
    "grad of jit": (
        jax.grad(jax.jit(net)),
        X,
        (
            "jit:jvp()| sin:foo| cos:foo| cos:foo/bar| sin:foo/bar| reduce_sum:|jit:transpose(jvp())"
            "| broadcast_in_dim:| neg:foo/bar| mul:foo/bar| mul:foo"
        ),
    ),
    "grad of scan": (
        jax.grad(steps),
        X,
        (
            "slice:jvp(top)|squeeze:jvp(top)|scan:jvp(top)| sin:foo| cos:foo| cos:foo/bar| sin:foo/bar"
            "| reduce_sum:| add:|scan:transpose(jvp(top))| neg:foo/bar| mul:foo/bar| mul:foo"
            "|broadcast_in_dim:transpose(jvp(top))|pad:transpose(jvp(top))|add_any:transpose(jvp(top))"
        ),
    ),
}


@pytest.mark.parametrize("case", STACKS)
def test_equations_have_the_names_around_them(case):
    function, x, expected = STACKS[case]
    assert stacks(jax.make_jaxpr(function)(x)) == expected.split("|")


TEXTS = {
    "scopes": (net, {"jit(net)/foo/sin", "jit(net)/foo/bar/cos"}),
    "grad": (
        jax.grad(net),
        {"jit(net)/jvp(foo)/cos", "jit(net)/transpose(jvp(foo))/bar/neg"},
    ),
    "while": (
        lambda x: lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1, x),
        {"jit(<lambda>)/while/body/add", "jit(<lambda>)/while/cond/lt", "jit(<lambda>)/while"},
    ),
    "cond": (
        lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
        {"jit(<lambda>)/cond/branch_0_fun/cos", "jit(<lambda>)/cond/branch_1_fun/sin"},
    ),
    "call": (lambda x: jax.jit(net)(x), {"jit(<lambda>)/jit(net)", "foo/bar/cos"}),
    "checkpoint": (
        jax.grad(jax.checkpoint(net)),
        {
            "jit(net)/transpose(jvp())/checkpoint/foo/bar/mul",
            "jit(net)/transpose(jvp())/checkpoint/rematted_computation/foo/sin",
        },
    ),
}


def test_what_is_computed_again_says_so():
    @jax.checkpoint
    def f(x):
        with jax.named_scope("foo"):
            y = jnp.sin(x)
        with jax.named_scope("bar"):
            return lax.scan(lambda c, _: (jnp.cos(c) * y, None), y, None, length=2)[0]

    closed = jax.make_jaxpr(jax.grad(f))(1.0)
    (again,) = [eqn for eqn in closed.eqns if eqn.primitive.name == "remat2"]
    names = [f"{e.source_info.name_stack} {e.primitive}" for e in again.params["jaxpr"].eqns]
    assert names == [
        "rematted_computation/foo sin",
        "rematted_computation/foo cos",
        "rematted_computation/bar scan",
        "bar scan",
        "bar add_any",
        "foo mul",
    ]


@pytest.mark.parametrize("case", TEXTS)
def test_the_text_of_a_program_has_them_if_it_is_asked(case):
    function, expected = TEXTS[case]
    lowered = jax.jit(function).lower(X)
    text = lowered.as_text(debug_info=True)
    assert expected <= set(re.findall(r'loc\("([^"]*)"\("[^"]*":\d+:\d+\)\)', text))
    assert "test_name_stacks.py" in text
    assert "loc(" not in lowered.as_text()


def test_a_quote_in_a_name_is_escaped():
    with jax.named_scope('a "b"\\'):
        text = jax.jit(lambda x: jnp.sin(x)).lower(X)
    assert "loc(" in text.as_text(debug_info=True)

    def quoted(x):
        with jax.named_scope('a "b"\\'):
            return jnp.sin(x)

    text = jax.jit(quoted).lower(X).as_text(debug_info=True)
    assert 'loc("jit(quoted)/a \\"b\\"\\\\/sin"' in text


def test_copies_of_traced_arrays_are_copies():
    for copied in (copy.copy, copy.deepcopy):
        (eqn,) = jax.make_jaxpr(copied)(X).eqns
        assert eqn.primitive.name == "copy"
        x = jnp.asarray(X)
        y = jax.jit(copied)(x)
        assert y.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
        assert jax.grad(lambda x, f=copied: (f(x) * x).sum())(X).tolist() == (2 * X).tolist()
