"""checkpoint: what is kept, what is computed again, and that gradients do not change."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import checkpoint_policies as policies
from weft import debug, lax
from weft.ad_checkpoint import (
    Recompute,
    Saveable,
    checkpoint,
    checkpoint_name,
    print_saved_residuals,
    saved_residuals,
)
from weft.experimental import io_callback

X = np.linspace(0.1, 0.9, 9).reshape(3, 3).astype(np.float32)
W = X.T.copy()


def total(x):
    return lax.reduce_sum(x, tuple(range(x.ndim)))


def model(x, w):
    hidden = checkpoint_name(jnp.sin(lax.dot(x, w)), "hidden")
    return total(jnp.sin(lax.dot(jnp.cos(hidden), w)))


POLICIES = {
    "none": None,
    "everything": policies.everything_saveable,
    "nothing": policies.nothing_saveable,
    "dots": policies.dots_saveable,
    "dots without batch": policies.dots_with_no_batch_dims_saveable,
    "names": policies.save_only_these_names("hidden"),
    "state": policies.save_only_these_names("state"),
    "other names": policies.save_any_names_but_these("other"),
    "all but names": policies.save_anything_except_these_names("hidden"),
    "both": policies.save_from_both_policies(
        policies.dots_saveable, policies.save_only_these_names("hidden")
    ),
    "offload": policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "offload names": policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["hidden"],
        names_which_can_be_offloaded=["other"],
        offload_src="device",
        offload_dst="pinned_host",
    ),
    "own": lambda prim, *avals, **params: Saveable if prim.name == "cos" else Recompute,
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit])
def test_gradients_are_those_of_the_function(policy, wrap):
    f = wrap(checkpoint(model, policy=policy))
    np.testing.assert_allclose(f(X, W), model(X, W), rtol=1e-6)
    for got, expected in zip(
        weft.grad(f, argnums=(0, 1))(X, W), weft.grad(model, argnums=(0, 1))(X, W), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def kept(f, *args):
    return [origin.split(" from ")[0] for _, origin in saved_residuals(f, *args)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("none", []),
        ("nothing", []),
        ("dots", ["output of dot_general", "output of dot_general"]),
        ("names", ["named 'hidden'"]),
        ("own", ["output of cos"] * 3),
        ("everything", ["output of cos", "output of cos", "output of sin", "output of cos"]),
    ],
)
def test_what_a_policy_keeps(policy, expected):
    found = kept(checkpoint(model, policy=POLICIES[policy]), X, W)
    assert [f for f in found if not f.startswith("from the argument")] == expected


def test_saved_residuals_are_printed(capsys):
    print_saved_residuals(checkpoint(lambda x: jnp.sin(jnp.sin(x))), X)
    assert capsys.readouterr().out == "f32[3,3] from the argument x\n"


def test_staged_text_is_that_of_jax():
    f = checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    assert (
        str(weft.make_jaxpr(weft.grad(f))(np.float32(1.0)))
        == """\
{ lambda ; a:f32[]. let
    b:f32[] = sin a
    _:f32[] = sin b
    c:f32[] = remat2[
      differentiated=True
      jaxpr={ lambda ; d:f32[] e:f32[]. let
          f:f32[] = sin d
          g:f32[] = cos d
          h:f32[] = cos f
          i:f32[] = mul e h
          j:f32[] = mul i g
        in (j,) }
      policy=None
      prevent_cse=True
    ] a 1.0:f32[]
  in (c,) }"""
    )


def test_policy_looks_into_nested_jit():
    inner = weft.jit(lambda x: jnp.sin(lax.dot(jnp.sin(x), x)))
    f = checkpoint(lambda x: total(inner(x)), policy=policies.dots_saveable)
    program = weft.make_jaxpr(weft.grad(f))(X)
    first = program.eqns[0].params["jaxpr"]
    assert [e.primitive.name for e in first.eqns].count("dot_general") == 1
    again = next(e for e in program.eqns if e.primitive.name == "remat2").params["jaxpr"]
    recomputed = [e.primitive.name for e in again.eqns[0].params["jaxpr"].eqns]
    assert recomputed == ["sin", "cos", "cos"]
    np.testing.assert_allclose(weft.grad(f)(X), weft.grad(lambda x: total(inner(x)))(X), rtol=1e-5)


def deep(x):
    return jnp.sin(jnp.sin(jnp.sin(x)))


@pytest.mark.parametrize(
    "wrapped",
    [
        checkpoint(lambda x: checkpoint(lambda y: jnp.sin(jnp.sin(y)))(jnp.sin(x))),
        weft.jit(checkpoint(weft.jit(deep))),
        weft.vmap(weft.vmap(checkpoint(deep))),
        checkpoint(weft.vmap(deep)),
        checkpoint(
            lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=3)[0],
            policy=policies.dots_saveable,
        ),
        lambda x: lax.scan(checkpoint(lambda c, _: (jnp.sin(c), None)), x, None, length=3)[0],
        checkpoint(lambda x: lax.cond(True, deep, jnp.cos, x)),
    ],
    ids=["nested", "jit", "vmap", "of vmap", "of scan", "in scan", "of cond"],
)
def test_in_every_nesting_to_second_order(wrapped):
    expected = weft.grad(lambda x: total(deep(x)))(X)
    np.testing.assert_allclose(weft.grad(lambda x: total(wrapped(x)))(X), expected, rtol=1e-5)
    second = weft.grad(lambda x: total(weft.grad(lambda x: total(deep(x)))(x)))(X)
    got = weft.grad(lambda x: total(weft.grad(lambda x: total(wrapped(x)))(x)))(X)
    np.testing.assert_allclose(got, second, rtol=1e-4)
    _, tangent = weft.jvp(wrapped, (X,), (np.ones_like(X),))
    np.testing.assert_allclose(tangent, expected, rtol=1e-5)


def test_callbacks_are_seen_again_where_values_are_recomputed():
    seen = []

    def f(x):
        debug.callback(lambda v: seen.append(float(v)), x)
        return jnp.sin(jnp.sin(x))

    weft.grad(checkpoint(f))(1.0)
    assert seen == [1.0, 1.0]


@pytest.mark.parametrize(
    "options", [{"static_argnums": 1}, {"static_argnums": (-1,)}, {"static_argnames": "double"}]
)
def test_static_arguments(options):
    traced = []

    def f(x, double):
        traced.append(double)
        return 2.0 * x if double else x

    g = checkpoint(f, **options)
    assert float(weft.grad(g)(1.0, True)) == 2.0
    assert float(weft.grad(g)(1.0, False)) == 1.0
    assert float(g(3.0, True)) == 6.0
    assert traced == [True, False]


def test_traced_condition_names_the_way_out():
    with pytest.raises(weft.errors.ConcretizationTypeError, match="static_argnums"):
        checkpoint(lambda x: x if x > 0 else -x)(1.0)


def test_prevent_cse_for_each_argument():
    f = checkpoint(lambda x, y: jnp.sin(x["a"]) * y, prevent_cse=(False, True))
    program = weft.make_jaxpr(f)({"a": X}, X)
    assert program.eqns[0].params["prevent_cse"] == (False, True)
    grad = weft.grad(lambda x: total(f({"a": x}, X)))(X)
    np.testing.assert_allclose(grad, np.cos(X) * X, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: checkpoint(jnp.sin, concrete=True), NotImplementedError, "static_argnums"),
        (lambda: checkpoint(jnp.sin, prevent_cse="no"), TypeError, "bool or a tuple"),
        (lambda: checkpoint(jnp.sin, static_argnums="x"), TypeError, "int or a tuple"),
        (lambda: checkpoint(jnp.sin, static_argnums=3)(1.0), ValueError, "1 positional"),
        (lambda: checkpoint(3), TypeError, "callable"),
        (
            lambda: weft.grad(checkpoint(jnp.sin, policy=lambda *_, **__: "yes"))(1.0),
            TypeError,
            "policy must return a bool",
        ),
        (
            lambda: policies.save_and_offload_only_these_names(
                names_which_can_be_saved=["a"],
                names_which_can_be_offloaded=["a"],
                offload_src="",
                offload_dst="",
            ),
            ValueError,
            "are in both",
        ),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


# --- inside of loops and branches -----------------------------------------------------------------


def steps(x, w):
    return total(lax.scan(lambda c, _: (jnp.tanh(lax.dot(c, w)), None), x, None, length=4)[0])


def rows(x, w):
    def body(c, row):
        a, b, n = c
        a = checkpoint_name(jnp.tanh(lax.dot(a, w) + row), "state")
        return (a, jnp.sin(b) * a, n + 1), (lax.dot(b, w), n)

    (a, b, n), (ys, ns) = lax.scan(body, (x, x + 1, 0), jnp.stack([x, w, x]), reverse=True)
    return total(a) + total(jnp.sin(b)) * n + total(ys * ns[:, None, None])


def nested(x, w):
    def outer(c, row):
        inner = lax.scan(lambda d, _: (jnp.tanh(lax.dot(d, w)), d), c, None, length=2)
        return jnp.sin(inner[0]) + row, total(jnp.cos(inner[1]))

    c, ys = lax.scan(outer, x, jnp.stack([x, w]))
    return total(c) + total(ys)


def called(x, w):
    step = weft.jit(lambda c: checkpoint_name(jnp.sin(jnp.tanh(lax.dot(c, w))), "state"))
    return total(lax.scan(lambda c, _: (step(c), lax.dot(w, c)), x, None, length=3)[0])


def chosen(x, w):
    branches = [
        lambda x: jnp.tanh(lax.dot(jnp.sin(x), w)),
        lambda x: jnp.sin(x),
        lambda x: lax.dot(x, total(checkpoint_name(jnp.exp(lax.dot(x, w)[0]), "state")) * w),
    ]
    places = [(total(x) * i / 4).astype(int) for i in range(3)]
    return total(sum(jnp.sin(lax.switch(i, branches, x)) for i in places))


def chosen_in_steps(x, w):
    def body(c, i):
        return lax.cond(i > 1, lambda c: jnp.tanh(lax.dot(c, w)), jnp.sin, c), lax.dot(c, c)

    c, ys = lax.scan(body, x, jnp.arange(4))
    return total(c) + total(ys)


PROGRAMS = [steps, rows, nested, called, chosen, chosen_in_steps]


@pytest.mark.parametrize("policy", ["none", "dots", "state", "own", "everything"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_policies_inside_of_loops_and_branches(program, policy):
    expected = weft.grad(program, argnums=(0, 1))(X, W)
    f = checkpoint(program, policy=POLICIES[policy])
    np.testing.assert_allclose(f(X, W), program(X, W), rtol=1e-6)
    for got, want in zip(weft.grad(f, argnums=(0, 1))(X, W), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("program", [rows, nested, chosen_in_steps])
def test_policies_inside_of_loops_to_second_order_and_batched(program):
    def twice(f):
        return weft.grad(lambda x: total(weft.grad(f)(x, W)))

    f = checkpoint(program, policy=policies.dots_saveable)
    np.testing.assert_allclose(twice(f)(X), twice(program)(X), rtol=1e-4, atol=1e-5)
    many = np.stack([X, 2 * X])
    got, want = (weft.vmap(weft.grad(p), (0, None))(many, W) for p in (f, program))
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


def programs_in(eqn):
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else [value]:
            program = getattr(each, "jaxpr", each)
            if hasattr(program, "eqns"):
                yield program


def count(program, name):
    return sum(
        (eqn.primitive.name == name) + sum(count(p, name) for p in programs_in(eqn))
        for eqn in program.eqns
    )


# Products in the forward and in the backward pass, and how many elements the backward pass is given
# (the arguments and the cotangent are 19): the figures of JAX 0.10.2.
@pytest.mark.parametrize(
    ("program", "policy", "forward", "backward", "elements"),
    [
        (steps, "nothing", 1, 3, 19),
        (steps, "dots", 1, 2, 55),
        (steps, "everything", 1, 2, 91),
        (rows, "dots", 2, 4, 46),
        (rows, "state", 2, 5, 46),
        (rows, "everything", 2, 4, 203),
        (nested, "dots", 1, 2, 55),
        (nested, "everything", 1, 2, 163),
        (called, "dots", 1, 2, 46),
        (called, "state", 1, 3, 46),
        (called, "everything", 1, 2, 127),
        (chosen, "dots", 9, 18, 73),
        (chosen, "state", 9, 27, 28),
        (chosen_in_steps, "nothing", 2, 5, 19),
        (chosen_in_steps, "dots", 2, 4, 55),
    ],
)
def test_as_much_is_kept_as_by_jax(program, policy, forward, backward, elements):
    f = checkpoint(program, policy=POLICIES[policy])
    jaxpr = weft.make_jaxpr(weft.grad(f, argnums=(0, 1)))(X, W).jaxpr
    again = next(eqn for eqn in jaxpr.eqns if eqn.primitive.name == "remat2")
    found = count(again.params["jaxpr"], "dot_general")
    assert (count(jaxpr, "dot_general") - found, found) == (forward, backward)
    assert sum(x.aval.size for x in again.invars) == elements


def show(seen, value):
    debug.callback(lambda v: seen.append(round(float(v), 3)), value)


@pytest.mark.parametrize("policy", ["none", "dots", "own", "everything"])
def test_effects_inside_of_loops_and_branches_are_repeated(policy):
    seen = []

    def body(c, n):
        show(seen, c)
        return lax.cond(n > 0, lambda c: (show(seen, -c), jnp.sin(jnp.cos(c)))[1], jnp.sin, c), c

    def f(x):
        c, cs = lax.scan(body, weft.jit(lambda x: (show(seen, 10 * x), 2 * x)[1])(x), jnp.arange(2))
        return c + cs.sum()

    got = weft.grad(checkpoint(f, policy=POLICIES[policy]))(0.25)
    weft.effects_barrier()
    once = [-0.479, 0.479, 0.5, 2.5]
    assert sorted(seen) == sorted(once * 2)
    np.testing.assert_allclose(got, weft.grad(f)(0.25), rtol=1e-6)


def test_policies_are_asked_about_what_is_inside():
    asked = set()

    def policy(primitive, *avals, **params):
        asked.add(primitive.name)
        return False

    weft.grad(checkpoint(lambda x: nested(x, W) + chosen(x, W) + called(x, W), policy=policy))(X)
    assert {"dot_general", "tanh", "name"} <= asked
    assert not asked & {"jit", "scan", "cond"}


def test_results_that_cannot_be_repeated_are_kept():
    calls = []

    def body(c, _):
        def twice(v):
            calls.append(1)
            return np.float32(2 * v)

        return jnp.sin(c * io_callback(twice, c, lax.stop_gradient(c))), None

    def f(x):
        return lax.scan(body, x, None, length=3)[0]

    got = weft.grad(checkpoint(f, policy=policies.dots_saveable))(np.float32(0.5))
    assert len(calls) == 3
    np.testing.assert_allclose(got, weft.grad(f)(np.float32(0.5)), rtol=1e-6)
