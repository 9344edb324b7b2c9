"""Arrays made of parts, references that are refused, and derivatives of custom_vmap functions."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.custom_batching import custom_vmap
from weft.errors import UnexpectedTracerError

WHOLE = weft.sharding.SingleDeviceSharding(weft.devices()[0])


# --- parts ----------------------------------------------------------------------------------------


def test_arrays_of_random_keys():
    keys = weft.random.split(weft.random.key(0), 2)
    data = weft.random.key_data(keys)
    for found in (
        weft.make_array_from_callback((2,), WHOLE, lambda index: keys[index]),
        weft.make_array_from_single_device_arrays((2,), WHOLE, [keys]),
    ):
        assert found.dtype == keys.dtype
        np.testing.assert_array_equal(weft.random.key_data(found), data)


def test_parts_of_another_dtype_are_refused():
    x = jnp.arange(2.0)
    for dtype, part in ((np.int32, x), (np.float32, np.arange(2))):
        with pytest.raises(ValueError, match="dtype"):
            weft.make_array_from_callback((2,), WHOLE, lambda _: part, dtype)  # noqa: B023
    with pytest.raises(ValueError, match="dtype"):
        weft.make_array_from_single_device_arrays((2,), WHOLE, [x], dtype=np.int32)
    found = weft.make_array_from_callback((2,), WHOLE, lambda _: np.arange(2.0), np.float32)
    assert found.dtype == np.float32  # as 64-bit numbers become


def test_traced_parts_are_refused():
    make = weft.make_array_from_callback
    with pytest.raises(UnexpectedTracerError, match="traced"):
        weft.jit(lambda y: make((2,), WHOLE, lambda index: y[index]))(jnp.ones(2))
    with pytest.raises(ValueError, match="traced"):
        weft.jit(lambda y: weft.make_array_from_single_device_arrays((2,), WHOLE, [y]))(jnp.ones(2))
    with pytest.raises(TypeError, match="list"):
        weft.make_array_from_single_device_arrays((2,), WHOLE, jnp.ones(2))


def test_shapes_of_trees_of_local_data():
    data = {"a": np.ones(2), "b": np.ones((2, 3))}
    make = weft.make_array_from_process_local_data
    found = make(WHOLE, data, {"a": (2,), "b": (2, 3)})
    assert {k: x.shape for k, x in found.items()} == {"a": (2,), "b": (2, 3)}
    assert make(WHOLE, [np.ones(2)], [(2,)])[0].shape == make(WHOLE, np.ones(2), (2,)).shape
    with pytest.raises(ValueError, match="structure"):
        make(WHOLE, data, {"a": (2,)})
    with pytest.raises(ValueError, match="shape"):
        make(WHOLE, data, {"a": (3,), "b": (2, 3)})


# --- references -----------------------------------------------------------------------------------


def _ruled(fun, fwd=None):
    f = weft.custom_vjp(fun)
    f.defvjp(fwd or (lambda *args: (fun(*args), None)), lambda _, ct: (ct, None))
    return f


def test_a_reference_passed_twice():
    r = weft.new_ref(0.0)
    with pytest.raises(ValueError, match="passed twice"):
        _ruled(lambda a, b: a[...] + b[...])(r, r)
    wrong = (lambda a, b: (a[...], b[...]), lambda a, b: 0.0, r, r)
    with pytest.raises(ValueError, match="passed twice"):  # before the branches are compared
        lax.cond(True, *wrong)
    with pytest.raises(ValueError, match="passed twice"):
        lax.scan(lambda c, _: ((c[0], 1.0, 2.0), None), (r, r), None, length=2)


def test_a_reference_returned():
    r = weft.new_ref(0.0)
    with pytest.raises(ValueError, match="returned a mutable reference"):
        _ruled(lambda x, r: r)(1.0, r)
    with pytest.raises(ValueError, match="returned a mutable reference"):
        weft.jit(lambda x: _ruled(lambda x, r: r)(x, r)[...])(1.0)
    with pytest.raises(ValueError, match="returned a mutable reference"):
        weft.grad(lambda x: _ruled(lambda x, r: x, lambda x, r: (r, None))(x, r))(1.0)


def test_a_reference_freed_twice():
    def f(x):
        r = weft.new_ref(x)
        weft.free_ref(r)
        weft.free_ref(r)
        return x

    with pytest.raises(ValueError, match="freed twice"):
        weft.jit(f)(1.0)


# --- custom_vmap ----------------------------------------------------------------------------------


def test_the_rule_sees_what_is_batched_with_its_tangent():
    seen = []
    f = custom_vmap(jnp.sin)

    @f.def_vmap
    def rule(size, batched, x):
        seen.append((size, list(batched)))
        return jnp.sin(x), batched[0]

    x = jnp.arange(3.0)
    np.testing.assert_allclose(weft.jacfwd(f)(x), np.diag(np.cos(x)), atol=1e-6)
    np.testing.assert_allclose(
        weft.vmap(lambda x: weft.jvp(f, (x,), (1.0,))[1])(x), np.cos(x), 1e-6
    )
    np.testing.assert_allclose(weft.jvp(weft.vmap(f), (x,), (jnp.ones(3),))[1], np.cos(x), 1e-6)
    assert seen == [(3, [False]), (3, [False]), (3, [True])]
    np.testing.assert_allclose(weft.jacfwd(weft.jacfwd(f))(1.0), -np.sin(1.0), 1e-6)


def test_operands_that_are_batched_in_both_ways():
    f = custom_vmap(lambda x, y: x * y)

    @f.def_vmap
    def rule(size, batched, x, y):
        return x * y, any(batched)

    x, y = jnp.arange(3.0), jnp.arange(3.0) + 1
    both = lambda x, t, y: weft.jvp(f, (x, y), (t, 1.0))[1]
    np.testing.assert_array_equal(weft.vmap(both)(x, x + 2, y), (x + 2) * y + x)


# --- references given to rules inside of loops ----------------------------------------------------


def _noting():
    """The identity, whose backward rule notes the cotangents in a reference, digit by digit."""
    f = weft.custom_vjp(lambda x, r: x)

    def bwd(r, ct):
        r[...] = 10 * r[...] + ct
        return ct, None

    f.defvjp(lambda x, r: (x, r), bwd)
    return f


note = _noting()
AROUND = {
    "scan": lambda r, x: lax.scan(lambda c, _: (note(2 * c, r), c), x, None, length=3)[0],
    "fori_loop": lambda r, x: lax.fori_loop(0, 3, lambda _, c: note(2 * c, r), x),
    "jit in scan": lambda r, x: lax.scan(
        lambda c, _: (weft.jit(note)(2 * c, r), c), x, None, length=3
    )[0],
    "remat in scan": lambda r, x: lax.scan(
        weft.checkpoint(lambda c, _: (note(2 * c, r), c)), x, None, length=3
    )[0],
    "scan in remat": lambda r, x: weft.checkpoint(lambda x: AROUND["scan"](r, x))(x),
}


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", AROUND)
def test_rules_write_references_inside_of_loops(name, wrap):
    r = weft.new_ref(0.0)
    grad = wrap(weft.grad(lambda x: AROUND[name](r, x)))
    assert grad(1.0) == 8 and r[...] == 124  # cotangents 1, 2 and 4, from the last step on


def test_rules_with_references_and_stacked_results():
    def f(x, reverse):
        body = lambda c, y: (note(c * y, r), c)
        return lax.scan(body, x, jnp.arange(1.0, 4.0), reverse=reverse)[1]

    for reverse, expected in ((True, [6, 3, 1]), (False, [1, 1, 2])):
        r = weft.new_ref(0.0)
        out, pull = weft.vjp(lambda x: f(x, reverse), 1.0)  # noqa: B023
        np.testing.assert_array_equal(out, expected)
        assert pull(jnp.array([1.0, 0.0, 0.0]))[0] == expected[0]


def test_rules_with_references_in_a_branch_or_while():
    r = weft.new_ref(0.0)
    assert weft.grad(lambda x: lax.cond(x > 0, lambda: note(2 * x, r), lambda: x))(1.0) == 2
    assert r[...] == 1

    def counted(x):
        body = lambda c: (c[0] + 1, note(2 * c[1], r))
        return lax.while_loop(lambda c: c[0] < 2, body, (0, x))[1]

    assert weft.grad(counted)(1.0) == 4 and r[...] == 112
    with pytest.raises(NotImplementedError, match="unknown number of steps"):
        weft.jit(weft.grad(counted))(1.0)


@pytest.mark.parametrize(
    "under",
    [
        lambda f: f(1.0),
        lambda f: weft.vmap(f)(jnp.arange(3.0)),
        lambda f: weft.jvp(f, (1.0,), (1.0,)),
        lambda f: weft.jit(f)(1.0),
    ],
    ids=["here", "vmap", "jvp", "jit"],
)
def test_references_keep_copies_of_what_is_written(under):
    data = np.ones(2, np.float32)
    ref, number = weft.new_ref(jnp.zeros(2)), weft.new_ref(0.0)

    def write(x):
        weft.ref.set(ref, ..., data)
        weft.ref.set(number, ..., 2.0)
        return x

    under(write)
    data[0] = 7
    assert isinstance(number[...], weft.Array) and number[...] == 2
    np.testing.assert_array_equal(ref[...], [1, 1])
