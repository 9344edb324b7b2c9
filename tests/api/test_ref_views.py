"""References in other shapes, and references that functions with rules of their own are given."""

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from weft import lax

X = np.arange(6, dtype=np.float32)


def read_row(x):
    return jax.new_ref(x).reshape(2, 3)[1]


def write_row(x):
    ref = jax.new_ref(x)
    ref.reshape(3, 2)[1] = jnp.array([7.0, 8.0])
    return ref[...]


def write_all(x):
    ref = jax.new_ref(x)
    ref.reshape((2, -1))[...] = -x.reshape(2, 3)
    return ref[...]


def add_column(x):
    ref = jax.new_ref(x)
    ref.reshape(2, 3)[:, 1] += 10 * x[:2]
    return ref[...]


def add_at(x):
    ref = jax.new_ref(x)
    ref.reshape(2, 3).addupdate(x[:2] * x[:2], (jnp.array([0, 0]), jnp.array([2, 2])))
    return ref[...]


def of_part(x):
    ref = jax.new_ref(x)
    view = ref.at[1:5].reshape(2, 2)
    view.at[0].reshape(2, 1)[1] = x[:1] * 3
    return ref[...] * view[1, 1]


def in_loop(x):
    ref = jax.new_ref(x)
    view = ref.reshape(2, 3)

    def body(i, _):
        view[i] *= x[i]

    lax.fori_loop(0, 2, body, None)
    return ref[...]


def as_argument(x):
    ref = jax.new_ref(x)

    def body(view):
        view[0] += 1.0

    jax.jit(body)(ref.reshape(3, 2))
    return ref[...]


def expected(name, x):
    x = np.array(x, np.float64)
    two, three = x.reshape(2, 3).copy(), x.reshape(3, 2).copy()
    if name == "read_row":
        return two[1]
    if name == "write_row":
        three[1] = [7, 8]
        return three.ravel()
    if name == "write_all":
        return -x
    if name == "add_column":
        two[:, 1] += 10 * x[:2]
    if name == "add_at":
        two[0, 2] += (x[:2] ** 2).sum()
    if name == "of_part":
        out = x.copy()
        out[2] = x[0] * 3
        return out * out[4]
    if name == "in_loop":
        two *= x[:2, None]
    if name == "as_argument":
        three[0] += 1
        return three.ravel()
    return two.ravel()


CASES = [read_row, write_row, write_all, add_column, add_at, of_part, in_loop, as_argument]


@pytest.mark.parametrize("case", CASES)
def test_views_in_other_shapes_are_read_and_written(case):
    want = expected(case.__name__, X + 1)
    x = jnp.asarray(X + 1)
    np.testing.assert_allclose(jax.jit(case)(x), want, rtol=1e-6)
    if case is not as_argument:  # which, outside of jit, JAX refuses too
        np.testing.assert_allclose(case(x), want, rtol=1e-6)
    rows = jnp.stack([x, 2 * x])
    stacked = [expected(case.__name__, r) for r in np.asarray(rows)]
    np.testing.assert_allclose(jax.vmap(jax.jit(case))(rows), stacked, rtol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_gradients_go_through_them(case):
    x = jnp.asarray(X + 1)
    found = jax.grad(lambda x: (jax.jit(case)(x) ** 2).sum())(x)
    step = 1e-4
    for i in range(6):
        there, back = (expected(case.__name__, X + 1 + s * np.eye(6)[i]) for s in (step, -step))
        wanted = ((there**2).sum() - (back**2).sum()) / (2 * step)
        np.testing.assert_allclose(found[i], wanted, rtol=1e-3, atol=1e-2)


def test_shapes_that_do_not_fit_are_refused():
    ref = jax.new_ref(jnp.zeros(6))
    for shape in ((4, 2), (5, -1), (-1, -1)):
        with pytest.raises(ValueError, match="cannot be viewed with shape"):
            ref.reshape(*shape)
    with pytest.raises(ValueError, match="cannot be viewed"):
        jax.jit(lambda x: jax.new_ref(x).reshape(4, 2)[...])(X)
    assert ref.reshape(2, -1).shape == (2, 3) and ref.at[:4].reshape(2, 2).shape == (2, 2)


def test_a_program_shows_them():
    closed = jax.make_jaxpr(read_row)(X)
    assert "{reshape(2,3)}[1,:]" in str(closed)


# --- references given to functions with rules of their own ----------------------------------------


@jax.custom_vjp
def writes(ref, x):
    ref[...] = x * 2
    return x * 3


writes.defvjp(lambda ref, x: (writes(ref, x), None), lambda _, g: (None, g * 3))


@jax.custom_vjp
def noted(x, ref):
    return x


def _note(ref, g):
    ref[...] = g
    return g * 2, None


noted.defvjp(lambda x, ref: (x, ref), _note)


def written(x):
    ref = jax.new_ref(jnp.zeros(4))
    return writes(ref, x).sum() + ref[...].sum()


def written_over(x):
    ref = jax.new_ref(x * 5)
    return writes(ref, x).sum() + ref[...].sum()


def used_again(x):
    ref = jax.new_ref(x * 5)
    y = writes(ref, x)
    ref[...] *= x
    return y.sum() + (ref[...] * x).sum()


def cotangent_noted(x):
    ref = jax.new_ref(jnp.zeros(4))
    return (noted(x, ref) ** 2).sum()


Y = np.arange(4, dtype=np.float32)
# What JAX gives: rules say nothing of what they do to references.
GRADIENTS = [
    (written, [3, 3, 3, 3]),
    (written_over, [8, 8, 8, 8]),
    (used_again, [3, 12, 39, 84]),
    (cotangent_noted, [0, 4, 8, 12]),
]


@pytest.mark.parametrize("function, wanted", GRADIENTS)
def test_a_reference_made_inside_of_a_gradient_may_be_given_to_them(function, wanted):
    assert jax.grad(function)(Y).tolist() == wanted
    assert jax.jit(jax.grad(function))(Y).tolist() == wanted
    assert jax.grad(jax.jit(function))(Y).tolist() == wanted


def test_a_rule_may_note_a_cotangent_in_a_reference():
    @jax.jit
    def both(x):
        ref = jax.new_ref(jnp.zeros(4))
        return jax.grad(lambda x: (noted(x, ref) ** 2).sum())(x), ref[...]

    gradient, seen = both(Y)
    assert gradient.tolist() == (4 * Y).tolist() and seen.tolist() == (2 * Y).tolist()
