"""What JAX refuses, refused by an error of the same class."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.extend.core import JaxprTypeError, Primitive, check_jaxpr


class NotComparable:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        raise RuntimeError("no comparison")


def _struct(n, dtype="int8"):
    return weft.ShapeDtypeStruct((n,), dtype)


def _primitive(name, multiple, rule):
    p = Primitive(name)
    p.multiple_results = multiple
    p.def_abstract_eval(rule)
    return p


def _calls_twice():
    f = weft.jit(lambda x, s: x, static_argnums=1)
    f(1.0, NotComparable())
    f(1.0, NotComparable())


COMPILED = weft.jit(lambda x: x).lower(1.0).compile()
solve = lax.custom_linear_solve
REFUSED = {
    "staticmethod": (TypeError, lambda: weft.jit(staticmethod(abs))),
    "compiled under vmap": (TypeError, lambda: weft.vmap(COMPILED)(jnp.ones(3))),
    "compiled under jit": (TypeError, lambda: weft.jit(COMPILED)(1.0)),
    "compiled under grad": (TypeError, lambda: weft.grad(COMPILED)(1.0)),
    "static without comparison": (ValueError, _calls_twice),
    "one type as a list": (
        ValueError,
        lambda: weft.make_jaxpr(_primitive("one", False, lambda x: [x]).bind)(1.0),
    ),
    "many types as one": (
        ValueError,
        lambda: weft.make_jaxpr(_primitive("many", True, lambda x: x).bind)(1.0),
    ),
    "pad": (ValueError, lambda: lax.pad(jnp.ones(3), jnp.ones(1), [(0, 0, 0)])),
    "negative size": (TypeError, lambda: lax.broadcast_shapes((-1,))),
    "negative sizes": (TypeError, lambda: lax.broadcast_shapes((-1,), (2,))),
    "incompatible": (ValueError, lambda: lax.broadcast_shapes((3,), (2,))),
    "solve of a tuple": (TypeError, lambda: solve(lambda x: x, (1.0,), lambda _, b: b[0])),
    "matvec of a list": (TypeError, lambda: solve(lambda x: (x[0],), [1.0], lambda _, b: b)),
    "solve of more": (ValueError, lambda: solve(lambda x: x, [1.0], lambda _, b: (b, b))),
    "abs of int4": (TypeError, lambda: jnp.abs(jnp.ones(2, jnp.int4))),
    "top_k": (
        ValueError,
        lambda: weft.eval_shape(lambda x: lax.top_k(x, 2), _struct(2**31 + 5)),
    ),
    "searchsorted": (
        OverflowError,
        lambda: weft.eval_shape(jnp.searchsorted, _struct(2**31 + 5), np.int8(1)),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    kind, call = REFUSED[name]
    with pytest.raises(kind) as found:
        call()
    assert type(found.value) is kind


def test_long_axes_that_are_not_refused():
    assert weft.eval_shape(lambda x: lax.top_k(x, 2), _struct(2**31))[1].shape == (2,)
    assert weft.eval_shape(jnp.searchsorted, _struct(2**31 - 1), np.int8(1)).dtype == np.int32
    with weft.enable_x64(True):
        found = weft.eval_shape(jnp.searchsorted, _struct(2**31 + 5), np.int8(1))
        assert found.dtype == np.int64


@pytest.mark.parametrize(
    "wrong",
    [
        {"length": 7},
        {"num_consts": 1},
        {"num_consts": -1},
        {"num_carry": 5},
        {"reverse": 3},
        {"unroll": "a"},
    ],
    ids=str,
)
def test_wrong_parameters_of_scan(wrong):
    closed = weft.make_jaxpr(lambda x: lax.scan(lambda c, a: (c + a, c), 0.0, x))(jnp.arange(3.0))
    (eqn,) = closed.eqns
    check_jaxpr(closed.jaxpr)
    bad = closed.jaxpr.replace(eqns=[eqn.replace(params=eqn.params | wrong)])
    with pytest.raises(JaxprTypeError):
        check_jaxpr(bad)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: weft.jit(lambda x: x)(x),
        lambda x: weft.vmap(lambda x: x)(x),
        lambda x: weft.grad(jnp.sum)(x),
        lambda x: weft.jvp(jnp.sum, (x,), (x,)),
    ],
)
def test_objects_that_stand_for_arrays_as_arguments(call):
    class Holder:
        def __jax_array__(self):
            return jnp.ones(2)

    with pytest.raises(ValueError, match="Holder"):
        call(Holder())
