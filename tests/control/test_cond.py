"""cond, switch and platform_dependent: values, derivatives, batches, programs and user errors."""

import numpy as np
import pytest

import weft
import weft.debug
import weft.numpy as jnp
from weft import lax
from weft.core.verify import check_jaxpr
from weft.experimental import io_callback

X = np.array([0.5, 1.5, -2.0], np.float32)


def test_forms_of_cond():
    assert lax.cond(True, lambda x: x + 1, lambda x: x - 1, 3) == 4
    assert lax.cond(0.0, lambda x: x + 1, lambda x: x - 1, 3) == 2
    assert lax.cond(np.bool_(True), lambda: 1, lambda: 2) == 1
    assert lax.cond(False, jnp.sin, jnp.negative, operand=2.0) == -2.0
    assert lax.cond(True, 2.0, lambda x: 3 * x, 5.0, lambda x: x) == 6.0
    got = lax.cond(True, lambda a, b: {"s": a + b}, lambda a, b: {"s": a - b}, 1.0, 2.0)
    assert got == {"s": 3.0}


def test_one_branch_runs_and_both_are_traced():
    seen = []

    def branch(name):
        return lambda x: seen.append(name) or x

    lax.cond(True, branch("true"), branch("false"), 1.0)
    assert seen == ["true", "false"]


@pytest.mark.parametrize(("index", "expected"), [(-3, 0), (0, 0), (1, 10), (2, 20), (9, 20)])
def test_switch_clamps(index, expected):
    branches = [lambda x: x * 0, lambda x: x * 10, lambda x: x * 20]
    assert lax.switch(index, branches, 1) == expected
    assert weft.jit(lambda i: lax.switch(i, branches, 1))(index) == expected


def test_switch_of_one_branch_needs_no_index():
    assert lax.switch(5, [lambda x: x + 1], 1) == 2


def test_program_of_cond():
    c = jnp.full(3, 2.0)
    program = weft.make_jaxpr(
        lambda p, x: lax.cond(p, lambda x: lax.add(x, 1.0), lambda x: lax.mul(x, c), x)
    )(True, X)
    assert (
        str(program)
        == """\
{ lambda a:f32[3]; b:bool[] c:f32[3]. let
    d:i32[] = convert_element_type[new_dtype=int32 weak_type=False] b
    e:f32[3] = cond[
      branches=(
        { lambda ; f:f32[3] g:f32[3]. let h:f32[3] = mul g f in (h,) }
        { lambda ; i:f32[3] j:f32[3]. let k:f32[3] = add j 1.0:f32[] in (k,) }
      )
    ] d a c
  in (e,) }"""
    )
    check_jaxpr(program)


def test_outputs_handed_through_leave_the_program():
    program = weft.make_jaxpr(
        lambda p: lax.cond(p, lambda x: (x, x, 1.0), lambda x: (x, 2.0, 1.0), 3.0)
    )(True)
    assert "in (3.0:f32[], " in str(program)
    assert len(program.eqns[-1].params["branches"][0].out_avals) == 2


@pytest.mark.parametrize("index", [0, 1, 2])
def test_gradient_is_that_of_the_branch(index):
    branches = [lambda x: jnp.sin(x).sum(), lambda x: (x * x * 3).sum(), lambda x: 1.0]
    got = weft.grad(lambda x: lax.switch(index, branches, x))(X)
    expected = [np.cos(X), 6 * X, np.zeros(3, np.float32)][index]
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    jitted = weft.jit(weft.grad(lambda x, i: lax.switch(i, branches, x)))(X, index)
    np.testing.assert_allclose(jitted, expected, rtol=1e-6)


def test_second_derivative_and_jvp():
    f = lambda x: lax.cond(x > 0, lambda x: x**3, lambda x: jnp.sin(x), x)
    assert weft.grad(weft.grad(f))(2.0) == pytest.approx(12.0)
    assert weft.grad(weft.grad(f))(-2.0) == pytest.approx(np.sin(2.0))
    primal, tangent = weft.jvp(f, (2.0,), (1.0,))
    assert (primal, tangent) == (8.0, 12.0)


def test_derivative_by_what_a_branch_closes_over():
    f = lambda w, p: lax.cond(p, lambda: w * w, lambda: 2 * w)
    assert weft.grad(f)(3.0, True) == 6.0
    assert weft.grad(f)(3.0, False) == 2.0


def test_residuals_that_are_operands_are_not_copied():
    def f(w, x):
        return lax.cond(x[0] > 0, lambda: (jnp.sin(w) * x).sum(), lambda: (w * w).sum())

    program = weft.make_jaxpr(weft.grad(f))(X, X)
    known, backward = (e for e in program.eqns if e.primitive.name == "cond")
    check_jaxpr(program)
    # one branch reads w itself, the other x and cos(w): only the last is a result
    assert len(known.outvars) == 2
    assert len(backward.invars) == 1 + 3 + 1


def test_batched_operands_keep_the_cond():
    program = weft.make_jaxpr(
        weft.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), in_axes=(None, 0))
    )(True, X)
    assert [e.primitive.name for e in program.eqns] == ["convert_element_type", "cond"]


def test_batched_predicate_selects():
    p = np.array([True, False, True])
    got = weft.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x))(p, X)
    np.testing.assert_allclose(got, np.where(p, np.sin(X), np.cos(X)), rtol=1e-6)
    got = weft.vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.abs], x))(
        np.array([0, 1, 7]), X
    )
    np.testing.assert_allclose(got, [np.sin(X[0]), np.cos(X[1]), 2.0], rtol=1e-6)


def test_branch_not_taken_gives_no_nan():
    f = lambda x: lax.cond(x > 0, jnp.log, lambda x: x * x, x)
    got = weft.grad(lambda x: weft.vmap(f)(x).sum())(np.array([2.0, 0.0], np.float32))
    np.testing.assert_allclose(got, [0.5, 0.0])


def test_unused_results_are_pruned():
    def f(x):
        out = lax.cond(x > 0, lambda x: (jnp.sin(x), x * x), lambda x: (x, x + 1), x)
        return out[0]

    pruned = weft.make_jaxpr(lambda x: weft.jvp(f, (x,), (1.0,))[1])(1.0)
    check_jaxpr(pruned)


def test_without_jit_it_is_python():
    seen = []
    with weft.disable_jit():
        lax.cond(True, lambda: seen.append(1), lambda: seen.append(2))
        lax.switch(2, [seen.append] * 2 + [lambda _: seen.append("last")], 0)
    assert seen == [1, "last"]


def test_platform_dependent():
    f = lambda x: lax.platform_dependent(x, cpu=lambda x: x + 1, default=lambda x: x)
    assert f(1.0) == 2.0
    assert weft.jit(f)(1.0) == 2.0
    assert weft.grad(f)(1.0) == 1.0
    np.testing.assert_allclose(weft.vmap(f)(X), X + 1)
    program = weft.make_jaxpr(f)(1.0)
    assert "platform_index[platforms=(('cpu',), None)]" in str(program)
    assert "branches_platforms=(('cpu',), None)" in str(program)
    with pytest.raises(ValueError, match="'cuda' or 'rocm'"):
        lax.platform_dependent(1.0, gpu=lambda x: x)
    with pytest.raises(NotImplementedError, match="no branch for platform 'cpu'"):
        lax.platform_dependent(1.0, cuda=lambda x: x)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lax.cond(X > 0, lambda: 1, lambda: 2), TypeError, r"scalar, got shape \(3,\)"),
        (lambda: lax.cond(None, lambda: 1, lambda: 2), TypeError, "NoneType"),
        (lambda: lax.cond(1j, lambda: 1, lambda: 2), TypeError, "complex64"),
        (lambda: lax.cond(True, 1, 2), TypeError, "two functions"),
        (lambda: lax.cond(True, abs, abs, 1, operand=2), TypeError, "by position"),
        (lambda: lax.cond(True, lambda: 1, lambda: 2.0), TypeError, r"int32\[\].*float32\[\]"),
        (lambda: lax.cond(True, lambda: 1, lambda: (2,)), TypeError, "tree structure"),
        (lambda: lax.cond(True, lambda: "a", lambda: 2), TypeError, "returned 'a'"),
        (lambda: lax.switch(1.0, [abs, abs], 1), TypeError, r"integer, got float32\[\]"),
        (lambda: lax.switch(X, [abs, abs], 1), TypeError, "must be a scalar"),
        (lambda: lax.switch(1, []), ValueError, "no branches"),
        (lambda: lax.switch(1, [abs, 3]), TypeError, "int"),
    ],
)
def test_user_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_type_error_names_path_and_functions():
    def grow(x):
        return {"a": [x, x]}

    def keep(x):
        return {"a": [x, jnp.sin(x)[None]]}

    with pytest.raises(TypeError) as caught:
        lax.cond(True, grow, keep, 1.0)
    text = str(caught.value)
    assert "['a'][1]" in text and "float32[1]" in text
    assert "grow at" in text and "keep at" in text and "test_cond.py" in text


def test_effects_are_not_repeated_behind_the_users_back():
    def f(x):
        return lax.cond(x > 0, lambda: io_callback(np.sin, x, x), lambda: x)

    with pytest.raises(NotImplementedError, match="io_callback"):
        weft.vmap(f)(X)
    seen = []
    weft.debug.callback(seen.append, 0)
    g = lambda x: lax.cond(True, lambda: weft.debug.callback(seen.append, x) or x, lambda: x)
    weft.grad(g)(1.0)
    assert len(seen) == 2
