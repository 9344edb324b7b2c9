"""Mutable references under vmap, jvp, grad, checkpoint and custom rules."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.ad import DidntWant, DontWant, GradRef, GradValue


def held(ref):
    return np.asarray(ref[...]).tolist()


def by_mutation(x):
    ref = weft.new_ref(jnp.zeros(3))
    ref[0] = x
    ref[1] = jnp.sin(x)
    ref.addupdate(x * x, 2)
    ref[0] *= ref[1]
    return ref[...].sum()


def plainly(x):
    return x * jnp.sin(x) + jnp.sin(x) + x * x


def by_scan(x):
    ref = weft.new_ref(jnp.zeros(4))
    ref[0] = x

    def body(c, i):
        ref[i + 1] = ref[i] * x
        return c + ref[i], None

    total, _ = lax.scan(body, 0.0, jnp.arange(3))
    return total + ref[3]


def powers(x):
    return x + x**2 + x**3 + x**4


def by_branches(x):
    ref = weft.new_ref(jnp.ones(2))

    def write(y):
        ref[0] = y * y

    lax.cond(x > 0.0, write, lambda y: ref.__setitem__(1, y), x)
    return ref[0] * x + ref[1]


def branches(x):
    return jnp.where(x > 0.0, x**3 + 1.0, 2.0 * x)


def by_rows(x):
    ref = weft.new_ref(jnp.zeros(3))
    rows = jnp.array([2, 0, 2])
    ref[rows] = jnp.stack([x, 2.0 * x, x * x])
    ref.addupdate(jnp.stack([x, x, x]), rows)
    return (ref[rows] * jnp.arange(1.0, 4.0)).sum()


def rows_plainly(x):
    first, last = 2.0 * x + x, x * x + 2.0 * x
    return last + 2.0 * first + 3.0 * last


FUNCTIONS = [(by_mutation, plainly), (by_scan, powers), (by_branches, branches)]
FUNCTIONS += [(by_rows, rows_plainly)]
TRANSFORMED = {
    "value": lambda f: f,
    "grad": weft.grad,
    "jacfwd": weft.jacfwd,
    "hessian": weft.hessian,
    "vmap": lambda f: lambda x: weft.vmap(f)(jnp.stack([x, -x])),
    "vmap of grad": lambda f: lambda x: weft.vmap(weft.grad(f))(jnp.stack([x, -x])),
    "grad of vmap": lambda f: weft.grad(lambda x: weft.vmap(f)(jnp.stack([x, 2 * x])).sum()),
    "linearize": lambda f: lambda x: weft.linearize(f, x)[1](1.0),
}


@pytest.mark.parametrize("transform", TRANSFORMED)
@pytest.mark.parametrize("pair", FUNCTIONS, ids=lambda p: p[0].__name__)
def test_inside_a_function_nothing_is_to_be_seen_of_them(pair, transform):
    by_refs, pure = pair
    wanted = TRANSFORMED[transform](pure)(1.5)
    for wrap in (lambda f: f, weft.jit):
        got = TRANSFORMED[transform](wrap(by_refs))(1.5)
        np.testing.assert_allclose(got, wanted, rtol=2e-5)


@pytest.mark.parametrize("pair", FUNCTIONS, ids=lambda p: p[0].__name__)
def test_inside_of_calls_of_other_kinds(pair):
    by_refs, pure = pair
    wanted = weft.grad(pure)(1.5)
    for wrap in (weft.checkpoint, lambda f: weft.jit(weft.jit(f))):
        np.testing.assert_allclose(weft.grad(wrap(by_refs))(1.5), wanted, rtol=2e-5)


# --- vmap -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_mapped_references(wrap):
    ref = weft.new_ref(jnp.arange(6.0).reshape(3, 2))

    def f(r, x, i):
        r[0] = x
        r[i] += 10.0
        r.addupdate(1.0, i)
        return r[...], r[weft.ds(i, 1)], weft.ref.swap(r, jnp.array([i]), jnp.array([5.0]))

    xs, places = jnp.array([7.0, 8.0, 9.0]), jnp.array([0, 1, 0])
    whole, window, before = wrap(weft.vmap(f))(ref, xs, places)
    assert whole.tolist() == [[18.0, 1.0], [8.0, 14.0], [20.0, 5.0]]
    assert window.tolist() == before.tolist() == [[18.0], [14.0], [20.0]]
    assert held(ref) == [[5.0, 1.0], [8.0, 5.0], [5.0, 5.0]]


def test_mapped_along_another_axis():
    ref = weft.new_ref(jnp.arange(6.0).reshape(2, 3))
    weft.vmap(lambda r, x: r.__setitem__(0, x), in_axes=(1, 0))(ref, jnp.array([7.0, 8.0, 9.0]))
    assert held(ref) == [[7.0, 8.0, 9.0], [3.0, 4.0, 5.0]]
    sums = weft.vmap(lambda r: lax.fori_loop(0, 2, lambda i, c: c + r[i], 0.0), in_axes=1)(ref)
    assert sums.tolist() == [10.0, 12.0, 14.0]


def test_unmapped_references_are_read_but_not_written_with_mapped_values():
    ref = weft.new_ref(jnp.arange(4.0))
    assert weft.vmap(lambda i: ref[i])(jnp.array([2, 0])).tolist() == [2.0, 0.0]
    for write in (
        lambda x: ref.__setitem__(0, x),
        lambda x: ref.addupdate(x, 0),
        lambda x: lax.scan(lambda c, _: (c, ref.__setitem__(0, c)), x, length=2)[0],
    ):
        with pytest.raises(ValueError, match="that is not mapped"):
            weft.vmap(write)(jnp.ones(2))
    assert held(ref) == [0.0, 1.0, 2.0, 3.0]


def test_a_reference_is_mapped_by_the_vmap_it_was_made_in():
    def outer(x):
        ref = weft.new_ref(jnp.zeros(()))
        with pytest.raises(ValueError, match="that is not mapped"):
            weft.vmap(lambda y: ref.__setitem__(..., y))(jnp.stack([x, x]))
        return ref[...] + x

    assert weft.vmap(outer)(jnp.ones(2)).tolist() == [1.0, 1.0]
    made, mapped = weft.vmap(
        lambda x: (weft.new_ref(1.0)[...], by_mutation(x)), out_axes=(None, 0)
    )(jnp.ones(2))
    assert made.shape == () and mapped.shape == (2,)


# --- derivatives ----------------------------------------------------------------------------------


def test_values_are_logged_without_their_derivatives():
    log = weft.new_ref(jnp.zeros(2))

    def f(x, log):
        y = x * x
        log[0] = lax.stop_gradient(y)
        return y * log[0]

    assert float(weft.grad(f)(3.0, log)) == 54.0
    assert held(log) == [9.0, 0.0]
    assert float(weft.jit(weft.grad(f))(2.0, log)) == 16.0
    assert held(log) == [4.0, 0.0]
    for transformed in (weft.grad, weft.jit, lambda f: weft.grad(weft.jit(f))):
        pushed = lambda x: weft.jvp(lambda x: log.__setitem__(1, x), (x,), (1.0,))
        with pytest.raises(ValueError, match="stop_gradient"):
            transformed(pushed)(1.0)
    ints = weft.new_ref(jnp.zeros(2, int))
    weft.grad(lambda x: x * ints[0])(1.0)
    unheeded = weft.ref.new_ref(jnp.float32(0.0), kind="no_grad_no_remat")
    weft.grad(lambda x: (unheeded.__setitem__(..., x), x * x)[1])(jnp.float32(3.0))
    assert held(unheeded) == 3.0


def test_jvp_by_references():
    ref, dot = weft.new_ref(jnp.array([2.0, 3.0])), weft.new_ref(jnp.array([1.0, 10.0]))

    def f(r):
        r[0] = r[1] * r[1]
        return r[0] + r[1]

    y, t = weft.jvp(f, (ref,), (dot,))
    assert (float(y), float(t)) == (12.0, 70.0)
    assert held(ref) == [9.0, 3.0] and held(dot) == [60.0, 10.0]


def test_cotangents_in_references():
    f = lambda x, y: jnp.sin(x) * y
    _, pull = weft.vjp(f, 2.0, 3.0)
    total = weft.new_ref(jnp.float32(1.0))
    dx, dy = (float(g) for g in pull(1.0))
    assert pull.with_refs(total, GradValue())(1.0) == (GradRef(), dy)
    assert float(total[...]) == pytest.approx(1.0 + dx)
    assert pull.with_refs(total, DontWant())(2.0) == (GradRef(), DidntWant())
    assert float(total[...]) == pytest.approx(1.0 + 3 * dx)

    @weft.jit
    def accumulated(x, y, total):
        return weft.vjp(f, x, y)[1].with_refs(total, GradValue())(1.0)

    assert accumulated(2.0, 3.0, total) == (GradRef(), pytest.approx(dy))
    assert float(total[...]) == pytest.approx(1.0 + 4 * dx)
    with pytest.raises(ValueError, match="for every input"):
        pull.with_refs(total)(1.0)
    with pytest.raises(ValueError, match="a reference of type"):
        pull.with_refs(weft.new_ref(jnp.zeros(2)), total)(1.0)


def test_a_reference_as_an_input_has_a_reference_as_cotangent():
    def f(ref, x):
        y = ref[0] * x
        ref[0] = ref[1] * 5.0
        return y + ref[0]

    ref = weft.new_ref(jnp.array([2.0, 3.0]))
    y, pull = weft.vjp(f, ref, 4.0)
    assert float(y) == 23.0 and held(ref) == [15.0, 3.0]
    ct = weft.new_ref(jnp.array([100.0, 1.0]))  # of what the reference holds at the end
    assert pull.with_refs(ct, GradValue())(1.0) == (GradRef(), 2.0)
    assert held(ct) == [4.0, 1.0 + 5.0 + 500.0]
    with pytest.raises(ValueError, match="with_refs"):
        pull(1.0)
    with pytest.raises(ValueError, match="with_refs"):
        weft.grad(lambda r: r[...].sum())(ref)


def test_linear_functions_by_mutation_are_transposed():
    def double(x):
        ref = weft.new_ref(jnp.zeros(2))
        ref.addupdate(x)
        ref[0] += x[1]
        return 2.0 * ref[...]

    (ct,) = weft.linear_transpose(double, jnp.ones(2))(jnp.array([1.0, 10.0]))
    assert ct.tolist() == [2.0, 22.0]


# --- custom rules and checkpoints -----------------------------------------------------------------


@weft.custom_vjp
def stash(ref, x):
    return x


def stash_bwd(ref, ct):
    ref[...] = ct
    return None, ct


stash.defvjp(lambda ref, x: (x, ref), stash_bwd)


def test_a_backward_rule_writes_cotangents_into_a_reference():
    def f(x, ref):
        return 3.0 * stash(ref, jnp.sin(x))

    for wrap in (
        lambda f: weft.grad(f),
        lambda f: weft.jit(weft.grad(f)),
        lambda f: weft.grad(weft.jit(f)),
        lambda f: weft.grad(weft.checkpoint(f)),
    ):
        ref = weft.new_ref(jnp.float32(0.0))
        assert float(wrap(f)(1.0, ref)) == pytest.approx(3.0 * np.cos(1.0))
        assert held(ref) == 3.0
    rows = weft.new_ref(jnp.zeros(2))
    weft.vmap(weft.grad(f))(jnp.ones(2), rows)
    assert held(rows) == [3.0, 3.0]
    looped = lambda x: lax.scan(lambda c, _: (stash(ref, c), None), x, length=2)[0]
    assert weft.grad(looped)(jnp.float32(1.0)) == 1.0


def test_functions_with_rules_may_read_references():
    scale = weft.new_ref(jnp.float32(3.0))

    @weft.custom_jvp
    def scaled(x):
        return scale[...] * x

    scaled.defjvp(lambda primals, tangents: (scaled(*primals), 10.0 * tangents[0]))
    assert float(scaled(2.0)) == float(weft.jit(scaled)(2.0)) == 6.0
    assert float(weft.grad(scaled)(2.0)) == float(weft.grad(weft.jit(scaled))(2.0)) == 10.0


def test_a_checkpoint_writes_once():
    count = weft.new_ref(jnp.zeros(()))

    @weft.checkpoint
    def f(x):
        count[...] += 1.0
        return jnp.sin(jnp.sin(x))

    assert float(weft.grad(f)(1.0)) == pytest.approx(np.cos(np.sin(1.0)) * np.cos(1.0))
    assert held(count) == 1.0
    weft.jit(weft.grad(f))(1.0)
    assert held(count) == 2.0


def test_training_in_place():
    w = weft.new_ref(jnp.zeros(3))
    data = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32)
    target = data @ np.array([1.0, -2.0, 0.5], np.float32)

    @weft.jit
    def step():
        loss = lambda w: ((data @ w - target) ** 2).mean()
        value, gradient = weft.value_and_grad(loss)(w[...])
        w[...] -= 0.1 * gradient
        return value

    first = step()
    for _ in range(50):
        last = step()
    assert float(last) < 1e-3 * float(first)
    np.testing.assert_allclose(w[...], [1.0, -2.0, 0.5], atol=0.02)
