"""Behaviour that libraries written for JAX rely on, each case seen in one of them."""

import functools
import inspect
import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.core.trace import Tracer, state
from weft.custom_derivatives import CustomVJPPrimal
from weft.experimental import checkify

STRUCT = weft.ShapeDtypeStruct((2,), np.float32)


# --- ensure_compile_time_eval ---------------------------------------------------------------------


def folds_and_traces(x):
    with weft.ensure_compile_time_eval():
        total = jnp.arange(4.0).sum()
        return x * float(total) + 1.0


@pytest.mark.parametrize(
    "transform, expected",
    [
        (lambda f: f, 13.0),
        (weft.jit, 13.0),
        (weft.grad, 6.0),
        (lambda f: weft.jit(weft.grad(f)), 6.0),
        (lambda f: lambda x: weft.vmap(f)(jnp.full(3, x))[1], 13.0),
    ],
)
def test_what_is_concrete_is_computed_and_the_rest_is_traced(transform, expected):
    assert float(transform(folds_and_traces)(2.0)) == expected


def test_a_jitted_function_of_concrete_values_is_computed_inside_a_trace():
    @weft.jit
    def f(x):
        with weft.ensure_compile_time_eval():
            n = int(weft.jit(lambda y: y + 1)(jnp.int32(2)))
        return x[:n]

    assert f(jnp.arange(5)).tolist() == [0, 1, 2]


# --- custom rules ---------------------------------------------------------------------------------


def test_custom_vjp_primal_is_a_leaf():
    assert len(weft.tree.leaves(CustomVJPPrimal(jnp.ones(2), True))) == 1


def test_integer_arguments_are_not_perturbed():
    @weft.custom_vjp
    def f(n, x):
        return n * x

    seen = []

    def fwd(n, x):
        seen.append((n.perturbed, x.perturbed))
        return n.value * x.value, n.value

    f.defvjp(fwd, lambda n, ct: (None, n * ct), symbolic_zeros=True)
    weft.vjp(f, 1, 2.0)
    assert seen == [(False, True)]


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
def test_rules_of_staged_calls_are_given_arrays_for_literals(kind):
    seen = []
    if kind == "vjp":
        f = weft.custom_vjp(lambda x, n: x * n)

        def fwd(x, n):
            seen.append(n)
            return x * n, n

        f.defvjp(fwd, lambda n, ct: (ct * n, None))
    else:
        f = weft.custom_jvp(lambda x, n: x * n)

        @f.defjvp
        def rule(primals, tangents):
            seen.extend((primals[1], tangents[1]))
            return primals[0] * primals[1], tangents[0] * primals[1]

    assert float(weft.grad(weft.jit(lambda x: f(x, 3.0)))(2.0)) == 3.0
    assert seen and all(x.shape == () and x.dtype == np.float32 for x in seen)


# --- arguments that are not arrays ----------------------------------------------------------------


def test_vmap_passes_on_what_is_not_mapped():
    out = weft.vmap(lambda f, x: f(x), in_axes=(None, 0))(jnp.sin, jnp.arange(2.0))
    assert np.allclose(out, np.sin([0.0, 1.0]))
    with pytest.raises(TypeError, match=r"argument f .* is not an array"):
        weft.vmap(lambda f, x: f(x))(jnp.sin, jnp.arange(2.0))


def test_eval_shape_returns_the_structs_that_it_is_given():
    out = weft.eval_shape(lambda x: {"given": STRUCT, "made": x + 1}, 1.0)
    assert out["given"] == STRUCT
    assert out["made"].shape == ()


def test_structs_are_staged_but_not_computed_with():
    staged = weft.eval_shape(lambda: weft.jit(lambda x: weft.lax.sin(x))(STRUCT))
    assert staged == STRUCT
    with pytest.raises(TypeError, match="has a type but no value"):
        weft.jit(lambda x: x + 1)(STRUCT)


def test_struct_like():
    like = weft.ShapeDtypeStruct.like
    assert like(jnp.ones(3)) == weft.ShapeDtypeStruct((3,), np.float32)
    assert like(1.0) == weft.ShapeDtypeStruct((), np.float32, weak_type=True)
    assert like(STRUCT) == STRUCT


# --- what wrapped functions keep ------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrap",
    [
        weft.jit,
        weft.vmap,
        weft.grad,
        weft.value_and_grad,
        weft.jacfwd,
        weft.jacrev,
        weft.hessian,
        weft.checkpoint,
        weft.make_jaxpr,
        weft.named_call,
        weft.custom_jvp,
        weft.custom_vjp,
    ],
)
def test_attributes_of_functions_are_kept(wrap):
    def f(x):
        return x

    f.tag = 3
    assert wrap(f).tag == 3


def test_attributes_do_not_hide_what_compiled_functions_have():
    def f(x):
        return x + 1

    f.lower = "mine"
    assert weft.jit(f).lower(1.0).compile()(1.0) == 2.0
    assert "PjitFunction" in repr(weft.jit(f))
    assert "PjitFunction" in str(type(weft.jit(f)))


# --- types and classes ----------------------------------------------------------------------------


def test_types_carry_a_sharding():
    sharding = weft.typeof(jnp.ones((2, 3))).sharding
    assert sharding.is_fully_replicated
    assert sharding.mesh.empty
    assert sharding.spec == weft.P(None, None)
    assert repr(weft.P("a", None)) == "P('a', None)"


@pytest.mark.parametrize("name", "item sharding addressable_data device committed".split())
def test_attributes_of_arrays_are_attributes_of_the_class(name):
    assert hasattr(weft.Array, name)
    assert hasattr(jnp.ones(()), name)


def test_traced_arrays_say_that_they_have_no_sharding():
    @weft.jit
    def f(x):
        assert not hasattr(x, "sharding")
        with pytest.raises(AttributeError, match="this one is traced"):
            x.device
        return x

    f(1.0)


def test_tracer_can_be_subclassed():
    class Labelled(Tracer):
        def __init__(self, trace, aval, label):
            super().__init__(trace, aval)
            self.label = label

    x = Labelled(state.trace, weft.typeof(jnp.ones(3)), "w")
    assert (x.shape, x.label) == ((3,), "w")
    assert isinstance(x, weft.Array)


# --- leaks and caches -----------------------------------------------------------------------------


def test_what_is_no_leak_is_not_reported():
    with weft.checking_leaks():
        checked = checkify.checkify(weft.jit(jnp.log), errors=checkify.float_checks)
        assert checked(1.0)[0].get() is None
        remat = weft.checkpoint(lambda x: weft.nn.relu(1.0 * x))
        _, pull = weft.jit(lambda x: weft.vjp(remat, x))(1.0)
    assert float(pull(2.0)[0]) == 2.0


def test_functions_are_staged_once_for_the_same_types():
    calls = []

    def f(x):
        calls.append(x)
        return 2.0 * x

    for _ in range(3):
        weft.eval_shape(f, jnp.ones(3))
    assert len(calls) == 1
    first = weft.make_jaxpr(f)(jnp.ones(3))
    assert weft.make_jaxpr(f)(jnp.ones(3)) is first
    weft.eval_shape(f, jnp.ones(4))
    with weft.enable_x64(True):
        weft.eval_shape(f, jnp.ones(3))
    assert len(calls) == 4


def test_programs_that_close_over_traced_values_are_staged_anew():
    @weft.jit
    def outer(x):
        shapes = [weft.eval_shape(inner := (lambda y: y * x), x), weft.eval_shape(inner, x)]
        assert shapes[0] == shapes[1]
        return x

    outer(1.0)
    outer(jnp.ones(3))


def test_shardings_are_updated():
    sharding = weft.typeof(jnp.ones((2, 3))).sharding
    longer = sharding.update(spec=weft.P(None, *sharding.spec))
    assert longer.spec == weft.P(None, None, None)
    assert longer.mesh == sharding.mesh
    assert sharding.spec.update(partitions=("x",)) == weft.P("x")


def test_a_struct_takes_the_sharding_of_a_type():
    aval = weft.typeof(jnp.ones((2, 3)))
    struct = weft.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=aval.sharding)
    assert weft.eval_shape(lambda x: x + 1, struct).shape == (2, 3)


def test_compiled_functions_have_the_signature_of_what_they_compile():
    f = weft.jit(lambda x, *, scale=2.0: x * scale)
    f(1.0)
    f(1.0)
    assert str(inspect.signature(f, follow_wrapped=False)) == "(x, *, scale=2.0)"
    assert "fun" in str(inspect.signature(type(f)))


def test_equations_have_the_names_of_scopes_and_transformations_around_them():
    """What summaries of models group operations by; as JAX has them."""

    def f(x):
        with weft.named_scope("net"):
            with weft.named_scope("layer"):
                y = jnp.sin(x)
            y = weft.jit(lambda z: jnp.cos(z) * z)(y)
        return y * 2

    def names(function, *args):
        eqns = weft.make_jaxpr(function)(*args).eqns
        return [str(eqn.source_info.name_stack) for eqn in eqns]

    inside = [eqn for eqn in weft.make_jaxpr(f)(1.0).eqns if "jaxpr" in eqn.params]
    assert names(f, 1.0) == ["net/layer", "net", ""]
    assert [str(e.source_info.name_stack) for e in inside[0].params["jaxpr"].eqns] == ["", ""]
    forward = ["jvp(net)/layer"] * 2 + ["jvp(net)", "jvp()"]
    back = ["transpose(jvp())", "transpose(jvp(net))", "transpose(jvp(net))/layer"]
    assert names(weft.grad(f), 1.0) == [*forward, *back]
    assert names(weft.vmap(f), jnp.ones(2)) == ["vmap(net)/layer", "vmap(net)", "vmap()"]
    both = ["jvp(net)/layer"] * 3 + ["jvp(net)", "jvp()", "jvp()"]
    assert names(lambda x: weft.jvp(f, (x,), (x,)), 1.0) == both


def test_windows_are_summed_in_one_order():
    """Average pooling of each image and of a batch has the same bits, as haiku checks."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal((4, 9, 9, 3)), jnp.float32)
    sums = lambda x, window: weft.lax.reduce_window(x, 0.0, weft.lax.add, window, window, "VALID")
    batch = sums(x, (1, 4, 4, 1))
    assert np.array_equal(batch, weft.vmap(lambda x: sums(x, (4, 4, 1)))(x))
    assert np.array_equal(batch, weft.jit(sums, static_argnums=1)(x, (1, 4, 4, 1)))


def test_the_sharding_of_a_type_asks_for_no_devices():
    """flax.nnx draws dropout masks at the sharding of its input's type."""

    @weft.jit
    def mask(x):
        where = weft.typeof(x).sharding
        return weft.random.bernoulli(weft.random.key(0), 0.5, x.shape, out_sharding=where)

    x = jnp.ones((2, 3))
    assert mask(x).shape == x.shape
    assert weft.lax.with_sharding_constraint(x, weft.typeof(x).sharding) is x


def test_primitives_are_bound_with_a_trace_and_types():
    from weft.core.registry import lookup
    from weft.core.trace import eval_trace

    x = jnp.ones(3)
    for given in ([{"accuracy": None}], [[weft.typeof(x)], {"accuracy": None}]):
        np.testing.assert_allclose(
            lookup("sin").bind_with_trace(eval_trace, [x], *given), np.sin(1.0)
        )


# --- callables whose names are no strings ---------------------------------------------------------


class Callable:
    """A function object with a name of the user's own kind."""

    def __init__(self, name):
        self.__name__ = name

    def __call__(self, x):
        return 2.0 * x


USES = {
    "vmap": lambda f: weft.vmap(f)(jnp.ones(2))[0],
    "grad": lambda f: weft.grad(f)(1.0),
    "value_and_grad": lambda f: weft.value_and_grad(f)(1.0)[1],
    "checkpoint": lambda f: weft.checkpoint(f)(1.0),
    "jacfwd": lambda f: weft.jacfwd(f)(1.0),
    "hessian": lambda f: 2.0 + weft.hessian(f)(1.0),
    "make_jaxpr": lambda f: 1 + len(weft.make_jaxpr(f)(1.0).eqns),
    "jit": lambda f: weft.jit(f)(1.0),
    "lower": lambda f: weft.jit(f).lower(1.0).compile()(1.0),
    "pmap": lambda f: weft.pmap(f)(jnp.ones(1))[0],
    "checkify": lambda f: checkify.checkify(f)(1.0)[1],
    "vectorize": lambda f: jnp.vectorize(f)(1.0),
    "partial": lambda f: weft.vmap(functools.partial(f))(jnp.ones(2))[1],
}


@pytest.mark.parametrize("name", [None, 3])
@pytest.mark.parametrize("use", USES)
def test_callables_whose_name_is_no_string(use, name):
    assert float(USES[use](Callable(name))) == 2.0


def test_a_callable_without_a_name_is_printed_as_unnamed():
    assert weft.vmap(Callable(None)).__name__ == "<unnamed function>"
    assert "name=<unnamed function>" in str(weft.make_jaxpr(weft.jit(Callable(None)))(1.0))


# --- device_get, fields of closed programs, argument names ----------------------------------------


@pytest.mark.parametrize(
    "transform, expected",
    [
        (lambda f: f, 3.0),
        (weft.jit, 3.0),
        (weft.grad, [2.0, 2.0, 2.0]),
        (lambda f: weft.jit(weft.grad(f)), [2.0, 2.0, 2.0]),
    ],
)
def test_device_get_leaves_tracers_alone(transform, expected):
    got = []

    def f(x):
        got.append(weft.device_get({"x": x, "y": 3}))
        return jnp.sum(got[-1]["x"] ** 2)

    assert np.asarray(transform(f)(jnp.ones(3))).tolist() == expected
    assert got[0]["y"] == 3


def test_device_get_of_mapped_arrays():
    doubled = weft.vmap(lambda x: weft.device_get(x) * 2)(jnp.arange(3))
    assert doubled.tolist() == [0, 2, 4]


def test_closed_programs_have_the_fields_of_their_program():
    closed = weft.make_jaxpr(lambda x: x + np.ones(2, np.float32))(1.0)
    assert closed.invars is closed.jaxpr.invars and closed.outvars is closed.jaxpr.outvars
    assert closed.constvars is closed.jaxpr.constvars


@pytest.mark.parametrize("fun", [weft.nn.gelu, jnp.sum, weft.lax.scan, weft.random.normal])
def test_argument_names_are_found_without_following_wrappers(fun):
    spec, signature = inspect.getfullargspec(fun), inspect.signature(fun)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    assert spec.args == [p.name for p in signature.parameters.values() if p.kind in kinds]
    assert pickle.loads(pickle.dumps(signature)) == signature
    assert type(signature.replace(parameters=[])) is inspect.Signature
    assert repr(signature).startswith("<Signature (")


def test_defaults_are_found_by_getfullargspec():
    assert inspect.getfullargspec(weft.nn.gelu).defaults == (True,)
