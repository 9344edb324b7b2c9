"""custom_jvp: rules under every transformation, and the errors of wrong rules."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.custom_derivatives import SymbolicZero, custom_jvp

X = np.linspace(0.1, 1.0, 4).astype(np.float32)
WRAPPERS = [lambda f: f, weft.jit, weft.vmap, lambda f: weft.jit(weft.vmap(f))]


def total(x):
    return lax.reduce_sum(x, tuple(range(x.ndim)))


@custom_jvp
def tripled(x, y):
    """sin(x) * y with a derivative three times too large, so that the rule is seen."""
    return jnp.sin(x) * y


@tripled.defjvp
def tripled_jvp(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return tripled(x, y), 3.0 * (jnp.cos(x) * dx * y + jnp.sin(x) * dy)


def test_value_is_the_function():
    np.testing.assert_allclose(tripled(X, X), np.sin(X) * X, rtol=1e-6)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_rule_is_used_under_every_transformation(wrap):
    f = wrap(tripled)
    expected = 3 * np.cos(X) * X
    _, tangent = weft.jvp(lambda x: f(x, X), (X,), (np.ones_like(X),))
    np.testing.assert_allclose(tangent, expected, rtol=1e-5)
    grad = weft.grad(lambda x: total(f(x, X)))(X)
    np.testing.assert_allclose(grad, expected, rtol=1e-5)


def test_vmap_outside_of_grad():
    grads = weft.vmap(weft.grad(tripled), in_axes=(0, None))(X, np.float32(2.0))
    np.testing.assert_allclose(grads, 6 * np.cos(X), rtol=1e-5)


def test_second_derivative_goes_through_the_rule():
    second = weft.grad(weft.grad(tripled))(np.float32(0.3), np.float32(2.0))
    np.testing.assert_allclose(second, -3 * np.sin(0.3) * 2, rtol=1e-5)


def test_python_control_flow_on_concrete_values():
    @custom_jvp
    def f(x):
        return jnp.sin(x) if x > 0 else jnp.cos(x)

    @f.defjvp
    def _(primals, tangents):
        (x,), (dx,) = primals, tangents
        return (f(x), 2 * dx) if x > 0 else (f(x), 3 * dx)

    np.testing.assert_allclose(f(-1.0), np.cos(-1.0), rtol=1e-6)
    assert float(weft.grad(f)(1.0)) == 2.0
    assert float(weft.grad(f)(-1.0)) == 3.0


def test_trees_defaults_and_keywords():
    @custom_jvp
    def f(tree, scale=2.0):
        return {"out": tree["a"] * scale}

    @f.defjvp
    def _(primals, tangents):
        return f(*primals), {"out": 5.0 * tangents[0]["a"]}

    assert float(f({"a": 3.0})["out"]) == 6.0
    assert float(weft.grad(lambda a: f({"a": a}, scale=4.0)["out"])(1.0)) == 5.0


def test_defjvps_and_its_none():
    @custom_jvp
    def f(x, y, z):
        return x * y + z

    f.defjvps(lambda dx, out, x, y, z: dx * y, None, lambda dz, out, x, y, z: 7.0 * dz)
    assert [float(g) for g in weft.grad(f, argnums=(0, 1, 2))(2.0, 5.0, 1.0)] == [5.0, 0.0, 7.0]


@pytest.mark.parametrize("options", [{"nondiff_argnums": (0,)}, {"nondiff_argnames": ("g",)}])
def test_nondiff_arguments_come_first(options):
    def apply(g, x):
        return g(x)

    f = custom_jvp(apply, **options)

    @f.defjvp
    def _(g, primals, tangents):
        return f(g, *primals), 9.0 * tangents[0]

    assert float(weft.grad(lambda x: f(jnp.sin, x))(1.0)) == 9.0
    assert float(weft.jit(weft.grad(lambda x: f(jnp.sin, x)))(1.0)) == 9.0


def test_integer_arguments_have_float0_tangents():
    seen = []

    @custom_jvp
    def f(x, n):
        return x * n

    @f.defjvp
    def _(primals, tangents):
        seen.append(tangents[1].dtype)
        return f(*primals), tangents[0]

    assert float(weft.grad(f)(2.0, 3)) == 1.0
    assert seen == [weft.float0]


def test_symbolic_zeros_mark_what_is_not_perturbed():
    seen = []

    @custom_jvp
    def f(x, y):
        return x * y

    def rule(primals, tangents):
        seen.append([type(t) is SymbolicZero for t in tangents])
        zero = SymbolicZero.from_primal_value(primals[0])
        dx = tangents[0] if type(tangents[0]) is not SymbolicZero else zero
        return f(*primals), dx

    f.defjvp(rule, symbolic_zeros=True)
    assert float(weft.grad(f)(2.0, 5.0)) == 1.0
    assert float(weft.grad(f, argnums=1)(2.0, 5.0)) == 0.0
    np.testing.assert_array_equal(weft.grad(lambda x: total(weft.vmap(f)(x, X)))(X), np.ones(4))
    assert seen == [[False, True], [True, False], [False, True]]


def test_unused_results_are_pruned_from_staged_calls():
    @custom_jvp
    def f(x):
        return jnp.sin(x), jnp.cos(x)

    @f.defjvp
    def _(primals, tangents):
        return f(*primals), (2.0 * tangents[0], 3.0 * tangents[0])

    g = weft.jit(lambda x: f(x)[1])
    assert float(weft.grad(g)(1.0)) == 3.0
    assert float(weft.grad(weft.jit(g))(1.0)) == 3.0


def test_staged_equation_reads_as_jax_prints_it():
    assert (
        str(weft.make_jaxpr(tripled)(X, X))
        == """\
{ lambda ; a:f32[4] b:f32[4]. let
    c:f32[4] = custom_jvp_call[
      name=tripled
      call_jaxpr={ lambda ; d:f32[4] e:f32[4]. let
          f:f32[4] = sin d
          g:f32[4] = mul f e
        in (g,) }
      jvp=tripled_jvp
      symbolic_zeros=False
    ] a b
  in (c,) }"""
    )


def test_closed_over_tracer_becomes_an_operand():
    def f(c, x):
        @custom_jvp
        def scaled(x):
            return c * x

        scaled.defjvp(lambda primals, tangents: (scaled(*primals), 2.0 * tangents[0]))
        return scaled(x)

    np.testing.assert_allclose(weft.jit(f)(X, X), X * X, rtol=1e-6)
    assert weft.make_jaxpr(f)(X, X).eqns[0].params["num_consts"] == 1


def make(rule, fun=lambda x: jnp.sin(x)):
    f = custom_jvp(fun)
    f.defjvp(rule)
    return f


def no_rule():
    return custom_jvp(lambda x: x)(1.0)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (no_rule, AttributeError, "no JVP rule is defined"),
        (lambda: make(lambda p, t: (p[0], t[0]))(1.0, 2.0), TypeError, "too many positional"),
        (lambda: weft.grad(make(lambda p, t: p[0]))(1.0), TypeError, "must return a pair"),
        (
            lambda: weft.grad(make(lambda p, t: (p[0], (t[0],))))(1.0),
            TypeError,
            "equal container",
        ),
        (
            lambda: weft.jvp(make(lambda p, t: (p[0], t[0][:2])), (X,), (X,)),
            TypeError,
            r"expected float32\[4\].*got float32\[2\]",
        ),
        (
            lambda: weft.jvp(weft.jit(make(lambda p, t: (p[0][:2], t[0][:2]))), (X,), (X,)),
            TypeError,
            r"the rule has float32\[2\], the function float32\[4\]",
        ),
        (
            lambda: weft.jvp(weft.jit(make(lambda p, t: ((p[0],), (t[0],)))), (X,), (X,)),
            TypeError,
            r"the rule has \(float32\[4\],\), the function float32\[4\]",
        ),
        (
            lambda: custom_jvp(lambda x, y: x, nondiff_argnums=(0,)).defjvps(None),
            TypeError,
            "nondiff_argnums",
        ),
    ],
)
def test_wrong_rules_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
