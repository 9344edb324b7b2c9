"""custom_vjp and its relatives: rules under every transformation, and errors of wrong rules."""

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.api.remat import checkpoint
from weft.control.custom_vjp import CustomVJPException
from weft.custom_derivatives import (
    SymbolicZero,
    closure_convert,
    custom_gradient,
    custom_vjp,
    custom_vjp_primal_tree_values,
    linear_call,
    zero_from_primal,
)

X = np.linspace(0.1, 1.0, 4).astype(np.float32)
WRAPPERS = [lambda f: f, weft.jit, weft.vmap, lambda f: weft.jit(weft.vmap(f))]


def total(x):
    return lax.reduce_sum(x, tuple(range(x.ndim)))


@custom_vjp
def tripled(x, y):
    """sin(x) * y with a derivative three times too large, so that the rules are seen."""
    return jnp.sin(x) * y


def tripled_fwd(x, y):
    return tripled(x, y), (x, y)


def tripled_bwd(residuals, ct):
    x, y = residuals
    return 3.0 * jnp.cos(x) * y * ct, 3.0 * jnp.sin(x) * ct


tripled.defvjp(tripled_fwd, tripled_bwd)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_rules_are_used_under_every_transformation(wrap):
    f = wrap(tripled)
    np.testing.assert_allclose(f(X, X), np.sin(X) * X, rtol=1e-6)
    gx, gy = weft.grad(lambda x, y: total(f(x, y)), argnums=(0, 1))(X, X)
    np.testing.assert_allclose(gx, 3 * np.cos(X) * X, rtol=1e-5)
    np.testing.assert_allclose(gy, 3 * np.sin(X), rtol=1e-5)


@pytest.mark.parametrize("jit", [lambda f: f, weft.jit])
def test_cotangent_of_an_unmapped_operand_is_summed(jit):
    f = jit(weft.vmap(tripled, in_axes=(0, None)))
    grad = weft.grad(lambda y: total(f(X, y)))(np.float32(2.0))
    np.testing.assert_allclose(grad, 3 * np.sin(X).sum(), rtol=1e-5)


def test_constant_cotangent_of_an_unmapped_operand_counts_for_each_element():
    @custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(lambda x, y: (f(x, y), None), lambda res, ct: (None, np.float32(1.0)))
    grad = weft.grad(lambda y: total(weft.vmap(f, in_axes=(0, None))(X, y)))(np.float32(2.0))
    assert float(grad) == 4.0


def test_vmap_outside_of_grad():
    grads = weft.vmap(weft.grad(tripled), in_axes=(0, None))(X, np.float32(2.0))
    np.testing.assert_allclose(grads, 6 * np.cos(X), rtol=1e-5)


def test_second_derivative():
    f = functools.partial(tripled, y=np.float32(2.0))
    expected = -6 * np.sin(0.3)
    np.testing.assert_allclose(weft.grad(weft.grad(f))(np.float32(0.3)), expected, rtol=1e-5)
    jitted = weft.jit(weft.grad(weft.jit(weft.grad(f))))
    np.testing.assert_allclose(jitted(np.float32(0.3)), expected, rtol=1e-5)


@pytest.mark.parametrize("layer", [weft.jit, weft.checkpoint, lambda f: f])
def test_second_derivative_where_a_rule_uses_constants(layer):
    """A number that a rule converts is known, and no input of what is transposed."""

    @weft.custom_vjp
    def steps(x):
        return x * 0.5 + (x * 5).astype(np.int32).astype(np.float32) * 0.05 + jnp.asarray(0.25)

    def forward(x):
        return steps.fun(x), x

    steps.defvjp(forward, lambda x, ct: weft.vjp(steps.fun, x)[1](ct))

    def fun(f, x):
        return jnp.sin(layer(lambda y, z: jnp.sin(y) * z)(f(-x), -x))

    def slope(f, x):
        return weft.grad(lambda x: jnp.cos(weft.grad(lambda x: fun(f, x))(x)))(x)

    np.testing.assert_allclose(slope(steps, 0.37), slope(steps.fun, 0.37), rtol=1e-5)


def test_forward_over_reverse_differentiates_the_rules():
    @custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (3.0 * jnp.cos(x) * ct,))
    _, tangent = weft.jvp(weft.grad(f), (np.float32(0.3),), (np.float32(1.0),))
    np.testing.assert_allclose(tangent, -3 * np.sin(0.3), rtol=1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit])
def test_forward_mode_is_refused(wrap):
    with pytest.raises(TypeError, match=r"can't apply forward-mode.*tripled_bwd"):
        weft.jvp(wrap(lambda x: tripled(x, X)), (X,), (X,))


def test_under_scan_and_checkpoint():
    def loop(x):
        return lax.scan(lambda c, _: (tripled(c, np.float32(1.0)), None), x, None, length=2)[0]

    expected = 9 * np.cos(np.sin(0.3)) * np.cos(0.3)
    np.testing.assert_allclose(weft.grad(loop)(np.float32(0.3)), expected, rtol=1e-5)
    np.testing.assert_allclose(weft.grad(checkpoint(loop))(np.float32(0.3)), expected, rtol=1e-5)


def test_none_and_trees_of_cotangents():
    @custom_vjp
    def f(tree, n):
        return tree["a"] * n

    f.defvjp(lambda tree, n: (f(tree, n), n), lambda n, ct: ({"a": 7.0 * ct, "b": None}, None))
    grad = weft.grad(f, allow_int=True)({"a": 2.0, "b": 3.0}, 3)
    assert float(grad["a"]) == 7.0 and float(grad["b"]) == 0.0


def test_none_stands_for_a_whole_argument():
    @custom_vjp
    def f(tree, x):
        return x

    f.defvjp(lambda tree, x: (x, None), lambda res, ct: (None, ct))
    grads = weft.grad(f, argnums=(0, 1))({"a": 1.0, "b": (2.0, 3.0)}, 1.0)
    assert [float(g) for g in (grads[0]["a"], *grads[0]["b"], grads[1])] == [0.0, 0.0, 0.0, 1.0]


def test_nondiff_arguments_come_first_and_must_not_be_traced():
    @functools.partial(custom_vjp, nondiff_argnums=(0,))
    def apply(g, x):
        return g(x)

    apply.defvjp(lambda g, x: (g(x), None), lambda g, res, ct: (5.0 * ct,))
    assert float(weft.grad(lambda x: apply(jnp.sin, x))(1.0)) == 5.0
    with pytest.raises(weft.errors.UnexpectedTracerError, match=r"argument 0 .*nondiff_argnums"):
        weft.jit(apply)(1.0, 2.0)


def test_symbolic_zeros():
    perturbed, zero_cts = [], []

    @custom_vjp
    def f(x, y):
        return x * y, x + y

    def fwd(x, y):
        perturbed.append((x.perturbed, y.perturbed))
        return f(x.value, y.value), custom_vjp_primal_tree_values((x, y))

    def bwd(residuals, cts):
        zero_cts.append([type(ct) is SymbolicZero for ct in cts])
        return cts[0] * residuals[1], zero_from_primal(residuals[1], symbolic_zeros=True)

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert float(weft.grad(lambda x: f(x, 5.0)[0])(2.0)) == 5.0
    grad = weft.grad(lambda x: total(weft.vmap(f, (0, None))(x, 5.0)[0]))(X)
    np.testing.assert_array_equal(grad, np.full(4, 5.0))
    assert perturbed == [(True, False)] * 2
    assert zero_cts == [[False, True]] * 2


def test_unused_results_are_pruned_from_staged_calls():
    @custom_vjp
    def f(x):
        return jnp.sin(x), jnp.cos(x)

    f.defvjp(lambda x: (f(x), None), lambda res, cts: (2.0 * cts[0] + 3.0 * cts[1],))
    g = weft.jit(lambda x: f(x)[1])
    assert float(weft.grad(weft.jit(g))(1.0)) == 3.0


def test_differentiation_by_a_closed_over_value():
    def f(c, x):
        @custom_vjp
        def scaled(x):
            return c * x

        scaled.defvjp(lambda x: (scaled(x), None), lambda res, ct: (ct,))
        return scaled(x)

    with pytest.raises(CustomVJPException, match="closed-over value"):
        weft.grad(weft.jit(f))(2.0, 3.0)
    with pytest.raises(weft.errors.UnexpectedTracerError, match="closes over"):
        weft.grad(f)(2.0, 3.0)


def test_optimize_remat_keeps_the_rule_and_recomputes_the_function():
    @custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), jnp.exp(x)), lambda res, ct: (res * ct,), optimize_remat=True)
    np.testing.assert_allclose(weft.grad(f)(np.float32(0.5)), np.exp(0.5), rtol=1e-6)
    grads = weft.grad(lambda x: total(weft.vmap(f)(x)))(X)
    np.testing.assert_allclose(grads, np.exp(X), rtol=1e-6)
    program = weft.make_jaxpr(weft.grad(checkpoint(lambda x: jnp.cos(f(x)))))(np.float32(0.5))
    names = [eqn.primitive.name for eqn in program.eqns]
    assert "remat_opt" not in names and "jit" in names


def test_custom_gradient():
    @custom_gradient
    def f(x, y):
        z = jnp.sin(x)
        return z * y, lambda ct: (ct * z, ct * 2.0)

    grads = weft.jit(weft.grad(f, argnums=(0, 1)))(1.0, 4.0)
    np.testing.assert_allclose(grads[0], np.sin(1.0), rtol=1e-6)
    assert float(grads[1]) == 2.0


def test_closure_convert_hoists_perturbed_values_only():
    table = jnp.arange(3.0)

    def f(c):
        converted, hoisted = closure_convert(lambda x: total(table * c * x), 1.0)
        assert len(hoisted) == 1
        return converted(2.0, *hoisted)

    assert float(weft.grad(f)(5.0)) == 6.0
    converted, hoisted = closure_convert(lambda x: x, 1.0)
    with pytest.raises(TypeError, match="example arguments"):
        converted((1.0, 2.0), *hoisted)


def test_linear_call_and_its_transpose():
    def forward(r, x):
        return x / r

    def backward(r, ct):
        return 100.0 * ct / r

    def f(x):
        return linear_call(forward, backward, np.float32(4.0), x)

    np.testing.assert_allclose(f(X), X / 4)
    np.testing.assert_allclose(weft.jvp(f, (X,), (X,))[1], X / 4)
    np.testing.assert_allclose(weft.grad(lambda x: total(f(x)))(X), np.full(4, 25.0))
    np.testing.assert_allclose(weft.grad(lambda x: total(weft.vmap(f)(x)))(X), np.full(4, 25.0))


def make(fwd, bwd):
    f = custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(fwd, bwd)
    return lambda x: total(weft.jit(f)(x))


@pytest.mark.parametrize(
    ("fwd", "bwd", "error", "words"),
    [
        (lambda x: x, None, TypeError, "fwd rule.*must return a pair"),
        (lambda x: (x[:2], None), None, TypeError, r"rule has float32\[2\].*function float32\[4\]"),
        (lambda x: ((x,), None), None, TypeError, "containers"),
        (lambda x: (x, None), lambda res, ct: ct, TypeError, "must return a tuple"),
        (lambda x: (x, None), lambda res, ct: (ct, ct), TypeError, "one cotangent for each"),
        (
            lambda x: (x, None),
            lambda res, ct: (ct[:2],),
            ValueError,
            r"output\[0\] it returned float32\[2\] for an argument of type float32\[4\]",
        ),
    ],
)
def test_wrong_rules_are_named(fwd, bwd, error, words):
    with pytest.raises(error, match=words):
        weft.grad(make(fwd, bwd or (lambda res, ct: (ct,))))(X)


def test_missing_rule():
    with pytest.raises(AttributeError, match="no VJP rule is defined"):
        custom_vjp(lambda x: x)(1.0)


def test_a_cotangent_of_none_is_zeros_for_the_rules_behind_it():
    @weft.custom_vjp
    def marked(x):
        return 2 * x, 3 * x

    marked.defvjp(lambda x: (marked(x), x), lambda x, g: (jnp.full_like(x, 7.0) + g[0],))

    @weft.custom_vjp
    def silent(a, b):
        return a + b

    silent.defvjp(lambda a, b: (silent(a, b), None), lambda _, g: (None, None))
    direct = lambda x: silent(*marked(x))
    through = lambda x: silent(*(jnp.sin(y) for y in marked(x))) + x
    for f, expected in ((direct, 7.0), (through, 8.0)):
        assert float(weft.grad(f)(1.0)) == expected  # as JAX 0.10.2 gives
        assert float(weft.jit(weft.grad(f))(1.0)) == expected
