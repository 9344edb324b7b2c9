"""Functions that take a function, called with its arguments too; and other surplus arguments."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.errors.reading import text_of
from weft import export
from weft.experimental import checkify

X = jnp.ones((40, 3))


def f(x):
    return jnp.sum(x * x)


TRANSFORMS = {
    "checkpoint": weft.checkpoint,
    "checkify": checkify.checkify,
    "explain": weft.explain,
    "export": export.export,
    "grad": weft.grad,
    "hessian": weft.hessian,
    "jacfwd": weft.jacfwd,
    "jacrev": weft.jacrev,
    "jit": weft.jit,
    "make_jaxpr": weft.make_jaxpr,
    "named_call": weft.named_call,
    "value_and_grad": weft.value_and_grad,
    "verify": weft.verify,
    "vmap": weft.vmap,
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize(
    "argument", [X, np.ones((40, 3)), {"w": X}], ids=["array", "numpy", "tree"]
)
def test_arguments_of_the_function_are_refused_with_the_call_to_write(name, argument):
    text = text_of(TypeError, lambda: TRANSFORMS[name](f, argument))
    assert f"write {name}(f)(x)" in text
    assert len(text.splitlines()[0]) < 300


def test_options_are_named():
    text = text_of(TypeError, lambda: weft.explain(f, X))
    assert "and quiet, measure, html by keyword" in text


@pytest.mark.parametrize("positions", [0, np.int64(0), jnp.int32(0), (0,), [np.int32(0)]])
def test_positions_may_be_any_integer(positions):
    grads = weft.grad(f, positions)(2.0)
    assert float(grads[0] if isinstance(positions, (tuple, list)) else grads) == 4.0


def test_surplus_arguments_of_other_functions():
    text = text_of(TypeError, lambda: weft.random.normal(weft.random.key(0), (3,), "f4", 1, 2, 3))
    assert "but 6 were given; it takes out_sharding by keyword" in text
    text = text_of(TypeError, lambda: jnp.tanh(1.0, 2.0))
    assert "its parameters are x" in text


def test_an_error_of_the_function_itself_is_not_completed():
    def two(a, b):
        return a + b

    text = text_of(TypeError, lambda: weft.jit(two)(1, 2, 3))
    assert "write" not in text
