"""Corners of the public interface that once were other than JAX's."""

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.api_util import debug_info
from weft.dtypes import float0
from weft.extend import random as extend_random
from weft.extend.core import JaxprTypeError, check_jaxpr
from weft.interpreters import batching
from weft.scipy.sparse.linalg import bicgstab, cg, gmres

WHOLE = weft.sharding.SingleDeviceSharding(weft.devices()[0])
HERMITIAN = np.array([[2, 1j], [-1j, 3]], "complex64")


# --- solvers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["batched", "incremental"])
def test_gmres_of_complex_systems_under_strict_promotion(method):
    with weft.numpy_dtype_promotion("strict"):
        found = gmres(HERMITIAN, np.ones(2, "complex64"), solve_method=method)[0]
    np.testing.assert_allclose(found, [0.6 - 0.2j, 0.4 + 0.2j], rtol=1e-5)


@pytest.mark.parametrize("solve", [cg, bicgstab, gmres])
def test_solvers_take_integers(solve):
    assert solve(lambda x: 2 * x, 1)[0] == 0.5
    np.testing.assert_array_equal(solve(lambda x: 2 * x, jnp.arange(3))[0], [0, 0.5, 1])


@pytest.mark.parametrize("solve", [bicgstab, gmres])
def test_weak_types_beside_others_are_not_kept(solve):
    twice = functools.partial(weft.tree.map, lambda x: 2 * x)
    assert solve(twice, {"a": 1.0, "b": 1.0})[0]["a"].weak_type
    assert not solve(twice, {"a": 1.0, "b": jnp.float32(1)})[0]["a"].weak_type


# --- names ----------------------------------------------------------------------------------------


def original(x):
    """What it says."""
    return x


class Nameless:
    def __call__(self, x):
        return x


TRANSFORMS = [
    weft.jit,
    weft.vmap,
    weft.grad,
    weft.value_and_grad,
    weft.jacfwd,
    weft.jacrev,
    weft.checkpoint,
]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_names_of_transformed_functions(transform):
    for fun in (original, functools.partial(original), functools.partial(jnp.sin)):
        name = "sin" if "sin" in repr(fun) else "original"
        found = transform(fun)
        assert found.__name__ == found.__qualname__ == name
    assert transform(Nameless()).__name__ == "<unnamed function>"


def test_texts_of_transformed_functions():
    assert weft.jit(original).__doc__ == weft.checkpoint(original).__doc__ == "What it says."
    assert weft.grad(original).__doc__ == "The gradient of original.\n\nWhat it says."
    assert weft.grad(functools.partial(Nameless())).__doc__.startswith("The gradient of <unnamed")
    first = weft.vmap(original).__doc__.splitlines()[0]
    assert first == "Over an axis of its arguments, the function original."


def test_names_of_programs_of_partial_functions():
    (eqn,) = weft.make_jaxpr(weft.jit(functools.partial(original)))(1.0).eqns
    assert eqn.params["name"] == "original"


def test_names_of_arguments_are_known_at_once():
    info = debug_info("jit", lambda x, y: x, (1,), {"y": 2})
    assert info.arg_names == ("x", "y") and info.func_name == "<lambda>"


# --- objects --------------------------------------------------------------------------------------


class Holder:
    def __jax_array__(self):
        return jnp.ones(2)


TAKING = {
    "scan": lambda x: lax.scan(lambda c, _: (c, None), x, None, length=1),
    "while_loop": lambda x: lax.while_loop(lambda c: False, lambda c: c, x),
    "cond": lambda x: lax.cond(True, lambda x: x, lambda x: x, x),
    "eval_shape": lambda x: weft.eval_shape(lambda x: x, x),
    "make_jaxpr": lambda x: weft.make_jaxpr(lambda x: x)(x),
    "checkpoint": lambda x: weft.checkpoint(lambda x: x)(x),
    "linear_transpose": lambda x: weft.linear_transpose(lambda x: x, x),
    "vjp": lambda x: weft.vjp(lambda x: x, x),
    "sin": lax.sin,
    "add": lambda x: lax.add(x, 1.0),
    "device_put": weft.device_put,
    "new_ref": weft.new_ref,
    "typeof": weft.typeof,
    "result of jit": lambda x: weft.jit(lambda: x)(),
}


@pytest.mark.parametrize("name", TAKING)
def test_objects_that_stand_for_arrays_are_not_arrays(name):
    with pytest.raises(ValueError, match="Holder"):
        TAKING[name](Holder())


def test_objects_that_stand_for_arrays_are_converted():
    np.testing.assert_array_equal(lax.convert_element_type(Holder(), int), [1, 1])


class Named:
    """Data whose axes have names; a tree, too."""

    def __init__(self, names, data):
        self.names, self.data = names, data


weft.tree_util.register_pytree_node(
    Named, lambda x: ((x.data,), x.names), lambda names, data: Named(names, data[0])
)


def test_types_that_vmap_knows_are_leaves_although_they_are_trees():
    def element(part, _, value, name):
        axis = value.names.index(str(name)[1:])
        return Named([n for n in value.names if n != str(name)[1:]], part(value.data, axis))

    def together(whole, size, value, name):
        return Named([str(name)[1:], *value.names], whole(size, value.data, 0))

    class Axis(str):
        """The name of an axis, after a sign."""

    batching.register_vmappable(Named, Axis, int, element, together, None)
    try:
        twice = weft.vmap(
            lambda x: Named(x.names, 2 * x.data), in_axes=(Axis("@i"),), out_axes=Axis("@i"),
            axis_size=3,
        )  # fmt: skip
        found = twice(Named(["j", "i"], jnp.arange(6.0).reshape(2, 3)))
    finally:
        batching.unregister_vmappable(Named)
    assert found.names == ["i", "j"]
    np.testing.assert_array_equal(found.data, 2 * np.arange(6.0).reshape(2, 3).T)


def test_generators_of_ones_own_are_told_by_keys():
    own = extend_random.define_prng_impl(
        key_shape=(1,),
        seed=lambda n: jnp.full((1,), n, jnp.uint32),
        split=lambda key, shape: jnp.broadcast_to(key, (*shape, 1)),
        random_bits=lambda key, width, shape: jnp.broadcast_to(key[0], shape),
        fold_in=lambda key, n: key + n,
        name="own",
        tag="own",
    )
    key = weft.random.key(3, impl=own)
    assert weft.random.key_impl(key) == own and hash(own) == hash(weft.random.key_impl(key))
    again = weft.random.wrap_key_data(weft.random.key_data(key), impl=own)
    assert again.dtype == key.dtype and weft.random.bits(again) == 3


# --- numbers that are cotangents ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [float, np.float32])
def test_numbers_of_rules_and_users_are_handed_on(kind):
    f = weft.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (kind(3),))
    for found in (
        weft.vjp(f, 1.0)[1](1.0)[0],
        weft.grad(f)(jnp.float32(1)),
        weft.value_and_grad(f)(1.0)[1],
        weft.vjp(lambda x: x, 1.0)[1](kind(3))[0],
        weft.linear_transpose(lambda x: x, kind(1))(kind(3))[0],
    ):
        assert type(found) is kind and found == 3
    for found in (weft.jit(weft.grad(f))(1.0), weft.vmap(weft.grad(f))(jnp.ones(2))):
        assert isinstance(found, weft.Array)


def test_other_cotangents_are_arrays():
    for found in (
        weft.grad(lambda x: x)(1.0),
        weft.grad(lambda x: 2.0)(1.0),
        weft.vjp(lambda x: 2 * x, 1.0)[1](1.0)[0],
        weft.vjp(lambda x: 2.0, 1.0)[1](1.0)[0],
        weft.linearize(lambda x: x.astype(float).sum(), jnp.arange(3))[1](np.zeros(3, float0)),
    ):
        assert isinstance(found, weft.Array)


# --- the rest -------------------------------------------------------------------------------------


def test_local_data_may_be_traced():
    make = functools.partial(weft.make_array_from_process_local_data, WHOLE)
    np.testing.assert_array_equal(weft.jit(lambda x: make(2 * x))(jnp.ones(2)), [2, 2])
    with pytest.raises(ValueError, match="shape"):
        weft.jit(lambda x: make(x, (3,)))(jnp.ones(2))


def _with_params(fun, x, **wrong):
    closed = weft.make_jaxpr(fun)(x)
    *before, eqn = closed.eqns
    return closed.jaxpr.replace(eqns=[*before, eqn.replace(params=eqn.params | wrong)])


@pytest.mark.parametrize("wrong", [{"linear": (False,)}, {"_split_transpose": 3}], ids=str)
def test_parameters_that_scan_does_not_have(wrong):
    scan = lambda x: lax.scan(lambda c, a: (c + a, c), 0.0, x)
    with pytest.raises(TypeError):
        check_jaxpr(_with_params(scan, jnp.arange(3.0), **wrong))


@pytest.mark.parametrize("wrong", [3, (3, 4), "list"], ids=str)
def test_branches_that_are_no_programs(wrong):
    cond = lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x)
    if wrong == "list":
        wrong = list(weft.make_jaxpr(cond)(1.0).eqns[-1].params["branches"])
    with pytest.raises(JaxprTypeError, match="branches"):
        check_jaxpr(_with_params(cond, 1.0, branches=wrong))


@pytest.mark.parametrize("fun", [original, jnp.sin, lambda x, /: x])
def test_marks_that_are_no_names(fun):
    with pytest.raises(TypeError, match="static_argnames"):
        weft.jit(fun, static_argnames=("x", 3))


def test_positions_of_a_traced_shape_are_as_weak_as_the_index():
    assert weft.jit(jnp.unravel_index)(3, 5)[0].weak_type
    assert not weft.jit(jnp.unravel_index)(jnp.int32(3), 5)[0].weak_type


@pytest.mark.parametrize("value", [2**32, 2**40 + 3, -(2**31) - 1])
def test_wide_integers_are_converted_by_their_low_bits(value):
    assert lax.convert_element_type(value, "int32") == np.int64(value).astype("int32")
    assert lax.convert_element_type(2**100, "float32") == np.float32(2.0**100)


SLOPES = {
    "expm1": (-80.0, np.exp(-80.0)),
    "tanh": (20.0, 4 * np.exp(-40.0)),
    "logistic": (40.0, np.exp(-40.0)),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_have_the_accuracy_that_is_asked_for(name):
    x, slope = SLOPES[name]
    fun = getattr(lax, name)
    grad = lambda **how: weft.grad(lambda x: fun(x, **how))(x)
    np.testing.assert_allclose(grad(accuracy=lax.AccuracyMode.HIGHEST), slope, rtol=1e-5)
    for other in ({}, {"accuracy": lax.AccuracyMode.DEFAULT}, {"accuracy": lax.Tolerance(1e-6)}):
        assert grad(**other) == 0


def test_slopes_of_sines_are_plain():
    grad = weft.grad(lambda x: lax.sin(x, accuracy=lax.AccuracyMode.HIGHEST))
    used = {e.primitive.name: e.params["accuracy"] for e in weft.make_jaxpr(grad)(0.3).eqns[:2]}
    assert used == {"sin": lax.AccuracyMode.HIGHEST, "cos": None}


def test_tri_takes_no_booleans():
    for k in (True, np.True_, jnp.array(True)):
        with pytest.raises(TypeError):
            jnp.tri(3, k=k)


def test_bessel_functions_of_few_orders():
    expected = [0.5118277, 0.5579365, 0.2320877]  # from tables
    found = weft.scipy.special.bessel_jn(jnp.float32(1.5), v=2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
