"""while_loop and fori_loop with traced bounds: values, derivatives, batches, user errors."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.core.verify import check_jaxpr
from weft.transforms.dce import dce_jaxpr

X = np.array([0.5, 1.5, 2.0], np.float32)


def power(x, n=3):
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * x), (0, 1.0))[1]


def test_values():
    assert lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3) == 192
    assert lax.while_loop(lambda x: x < 0, lambda x: 2 * x, 3) == 3
    carry = lax.while_loop(
        lambda c: c["n"] < 4, lambda c: {"n": c["n"] + 1, "v": c["v"] + c["n"]}, {"n": 0, "v": X}
    )
    np.testing.assert_allclose(carry["v"], X + 6)
    assert weft.jit(power)(2.0) == 8.0


def test_weak_start_takes_the_type_of_the_body():
    out = lax.while_loop(lambda x: x < 3, lambda x: x + jnp.float32(1), 0)
    assert out.dtype == np.float32 and out == 3


def test_program():
    c = jnp.full(3, 2.0)
    program = weft.make_jaxpr(
        lambda x: lax.while_loop(
            lambda s: lax.lt(s[0], 3),
            lambda s: (lax.add(s[0], 1), lax.mul(lax.mul(s[1], c), x)),
            (0, x),
        )
    )(X)
    assert (
        str(program)
        == """\
{ lambda a:f32[3]; b:f32[3]. let
    c:i32[] d:f32[3] = while[
      body_jaxpr={ lambda ; e:f32[3] f:f32[3] g:i32[] h:f32[3]. let
          i:i32[] = add g 1:i32[]
          j:f32[3] = mul h e
          k:f32[3] = mul j f
        in (i, k) }
      body_nconsts=2
      cond_jaxpr={ lambda ; l:i32[] m:f32[3]. let
          n:bool[] = lt l 3:i32[]
        in (n,) }
      cond_nconsts=0
    ] a b 0:i32[] b
  in (c, d) }"""
    )
    check_jaxpr(program)


def test_unchanged_carry_becomes_a_constant():
    program = weft.make_jaxpr(
        lambda x, y: lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1], s[2] * s[1]), (0, x, y)
        )
    )(X, X)
    (eqn,) = program.eqns
    assert eqn.params["body_nconsts"] == 1 and len(eqn.outvars) == 2


def test_forward_derivatives():
    assert weft.jvp(power, (2.0,), (1.0,)) == (8.0, 12.0)
    assert weft.jacfwd(weft.jacfwd(power))(2.0) == 12.0
    y, push = weft.linearize(power, 2.0)
    assert (y, push(1.0)) == (8.0, 12.0)


def test_reverse_derivative_is_an_error_that_helps():
    with pytest.raises(ValueError, match=r"lax\.scan"):
        weft.grad(power)(2.0)
    with pytest.raises(ValueError, match=r"test_while\.py"):
        weft.jit(weft.grad(lambda x, n: lax.fori_loop(0, n, lambda i, y: y * x, x)))(2.0, 3)


def test_reverse_derivative_beside_a_loop():
    f = lambda x: x * lax.stop_gradient(power(x))
    assert weft.grad(f)(2.0) == 8.0


def test_batch_with_one_predicate_for_all():
    program = weft.make_jaxpr(weft.vmap(power))(X)
    (loop,) = (e for e in program.eqns if e.primitive.name == "while")
    assert loop.params["cond_jaxpr"].out_avals[0].shape == ()
    np.testing.assert_allclose(weft.vmap(power)(X), X**3)


def test_batch_where_elements_stop_by_themselves():
    def doubled(x, limit):
        return lax.while_loop(lambda s: s[1] < limit, lambda s: (s[0] + 1, s[1] * 2), (0, x))

    limits = np.array([1.0, 10.0, 1.0], np.float32)
    count, value = weft.vmap(doubled)(X, limits)
    np.testing.assert_array_equal(count, [1, 3, 0])
    np.testing.assert_allclose(value, [1.0, 12.0, 2.0])
    count, value = weft.vmap(weft.vmap(doubled, in_axes=(0, None)), in_axes=(None, 0))(X, limits)
    np.testing.assert_array_equal(count, [[1, 0, 0], [5, 3, 3], [1, 0, 0]])
    value, tangent = weft.jvp(lambda x: weft.vmap(doubled)(x, limits)[1], (X,), (X,))
    np.testing.assert_allclose(tangent, value)


def test_batch_of_a_batched_loop_over_another_axis():
    def f(x, y):
        step = lambda s: (s[0] * 2, s[1] + y)
        return lax.while_loop(lambda s: s[0] < 5, step, (x, y))[1]

    got = weft.vmap(lambda y: weft.vmap(lambda x: f(x, y))(X))(X)
    steps = np.array([4, 2, 2])
    np.testing.assert_allclose(got, X[:, None] * (1 + steps))


def test_fori_with_traced_bounds():
    total = weft.jit(lambda a, b: lax.fori_loop(a, b, lambda i, s: s + i, 0))
    assert total(2, 5) == 9 and total(5, 2) == 0
    got = weft.vmap(lambda n: lax.fori_loop(0, n, lambda i, s: s * 2, 1))(np.array([0, 3, 5]))
    np.testing.assert_array_equal(got, [1, 8, 32])
    got = weft.jit(lambda n: lax.fori_loop(np.int8(0), n, lambda i, s: s + i, np.int8(0)))
    assert got(np.int8(4)).dtype == np.int8


def test_dead_parts_of_the_carry_are_pruned():
    program = weft.make_jaxpr(
        lambda x: lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2, jnp.sin(s[2])), (0, x, x)
        )
    )(1.0)
    smaller, _ = dce_jaxpr(program.jaxpr, [False, True, False])
    check_jaxpr(smaller)
    assert len(smaller.eqns[0].outvars) == 2


def test_without_jit_it_is_python():
    seen = []
    with weft.disable_jit():
        assert lax.while_loop(lambda x: x < 3, lambda x: seen.append(x) or x + 1, 0) == 3
    assert seen == [0, 1, 2]


def test_body_is_traced_once_for_the_same_types():
    seen = []

    def body(x):
        seen.append(1)
        return x + 1

    condition = lambda x: x < 3
    lax.while_loop(condition, body, 0)
    lax.while_loop(condition, body, 1)
    assert len(seen) == 1
    lax.while_loop(condition, body, 0.0)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lax.while_loop(1, 2, 3), "two functions"),
        (lambda: lax.while_loop(lambda x: 1, lambda x: x, 0), r"boolean scalar.*int32\[\]"),
        (lambda: lax.while_loop(lambda x: (True,), lambda x: x, 0), "boolean scalar"),
        (lambda: lax.while_loop(lambda x: x > 0, lambda x: x > 1, X), r"bool\[3\]"),
        (lambda: lax.while_loop(lambda x: True, lambda x: x[None], X), r"float32\[1,3\]"),
        (lambda: lax.while_loop(lambda x: True, lambda x: (x, x), X), "tree structure"),
        (lambda: lax.fori_loop(0, 3, 7, 0), "body_fun"),
        (lambda: lax.fori_loop(0, np.uint8(3), lambda i, x: x, 0), "same dtype"),
    ],
)
def test_user_errors(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_carry_errors_name_the_component():
    def body(i, state):
        return {"a": state["a"], "b": state["b"].astype(jnp.int32)}

    with pytest.raises(TypeError) as caught:
        lax.fori_loop(0, 3, body, {"a": X, "b": X})
    text = str(caught.value)
    assert "state['b']" in text and "float32[3]" in text and "int32[3]" in text
    assert "the input carry" in text and "output carry" in text and "body at" in text


def test_unroll_needs_static_bounds():
    with pytest.raises(ValueError, match="unroll"):
        weft.jit(lambda n: lax.fori_loop(0, n, lambda i, x: x, 0, unroll=2))(3)
