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
            "stand in both",
        ),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
