"""Groups of values that are made alike share a kernel, and native code."""

import numpy as np
import pytest

import weft
from weft import numpy as jnp
from weft.backends.cpu.calls.native import Executable
from weft.compiler.fuse import Fusion
from weft.compiler.pipeline import simplify
from weft.core.interpret import run as interpret
from weft.core.jaxpr import Literal
from weft.kernel.build import Builder
from weft.kernel.spec import verify

X = np.linspace(-2, 2, 2000, dtype=np.float32).reshape(40, 50)


def steps_of(fun, *args):
    steps = Fusion(simplify(weft.make_jaxpr(fun)(*args)).jaxpr).plan()
    for step in steps:
        verify(step.kernel)
    return steps


def check(fun, *args):
    """The program as it is run, its results compared with those of the references."""
    closed = weft.make_jaxpr(fun)(*args)
    made = Executable(closed)
    expected = interpret(closed.jaxpr, [np.asarray(c) for c in closed.consts], list(args))
    for got, want in zip(made(list(args)), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
    return made.plan


def layer(x, a, b=2.0):
    """Many operations, and a reduction that kernels end with."""
    for _ in range(6):
        x = 0.25 * jnp.sin(x * a) + b - jnp.abs(x) * 0.5
    return x - x.mean(0, keepdims=True)


def test_equal_layers_have_one_kernel():
    steps = steps_of(lambda x: layer(layer(layer(x, 1.5), 1.5), 1.5), X)
    assert len(steps) > 2
    assert len({id(step.kernel) for step in steps}) < len(steps)
    for step in steps:
        assert len(step.buffers) == len(set(step.buffers))
    check(lambda x: layer(layer(layer(x, 1.5), 1.5), 1.5), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layers_that_differ_in_numbers_read_them(dtype):
    def fun(x):
        for i in range(4):
            x = layer(x, 1.0 + 0.125 * i, 0.25 * i)
        return x

    with weft.enable_x64(dtype == np.float64):
        x = X.astype(dtype)
        steps = steps_of(fun, x)
        arrays = [v for step in steps for v in step.buffers if type(v) is Literal]
        assert arrays and all(v.aval.dtype == dtype and v.val.dtype == dtype for v in arrays)
        assert len({id(step.kernel) for step in steps}) < len(steps)
        plan = check(fun, x)
    assert len(plan.codes) < len(steps)


def test_the_first_of_them_reads_its_numbers_too():
    def fun(x):
        for a in (1.5, 2.5, 3.5):  # the first is not like the others: nothing comes before it
            x = layer(x, a)
        return x

    arrays = [v.val for s in steps_of(fun, X) for v in s.buffers if type(v) is Literal]
    assert {a for array in arrays for a in array.tolist()} == {2.5, 3.5}
    check(lambda x: [fun(x)], X)


def test_a_number_that_stands_for_several():
    def fun(x):
        results = []
        for i in range(4):
            c = np.float32(i + 1)
            d = np.float32(i + 1 if i % 2 else 7)
            y = x
            for _ in range(6):
                y = 0.1 * jnp.tanh(y * c) + d * 0.01 * jnp.cos(y)
            results.append(y.sum(0))
        return results

    check(fun, X)


def test_numbers_that_rules_look_at_stay_where_they_are():
    def fun(x):
        results = []
        for power in (2.0, 0.5, 3.0):
            y = jnp.abs(x)
            for _ in range(8):
                y = jnp.abs(jnp.power(y + 1.0, power) - 1.0) * 0.0625
            results.append(y.sum(0))
        return results

    for step in steps_of(fun, X):
        assert not any(type(v) is Literal for v in step.buffers)
    check(fun, X)


def test_what_a_group_has_to_wait_for_is_noted_for_all_like_it():
    def fun(x, y):
        for _ in range(8):
            x = x + 0.01 * jnp.sin(y)
            y = y - 0.01 * x * jnp.mean(x) + 0.001 * y
        return x, y

    x = X[0]
    steps = steps_of(fun, x, x + 1)
    assert len({id(step.kernel) for step in steps}) <= len(steps) // 2
    check(fun, x, x + 1)


def test_several_results_of_one_operation():
    def fun(x):
        results = []
        for i in range(3):
            m, e = jnp.frexp(x + i)
            results += [m, e, (m * 2).sum(0), jnp.modf(x * i)[1]]
        return results

    check(fun, X)


def test_other_sizes_and_types_are_other_kernels():
    steps = steps_of(lambda x, y: (layer(x, 1.5), layer(y, 1.5)), X, X[:, :9])
    kernels = {id(step.kernel): step for step in steps}
    assert len(kernels) == len(steps)


def test_numbers_in_a_loop():
    def fun(x):
        def body(i, x):
            for j in range(3):
                x = layer(x, 1.0 + 0.25 * j)
            return x

        return weft.lax.fori_loop(0, 3, body, x)

    check(lambda x: [fun(x)], X)


def test_a_function_is_followed_as_it_was_written_down():
    k = Builder()
    x, y = k.load(0, np.float32), k.load(1, np.float32)
    recipe = k.recipe([x, y], k.fma(k.abs(x), y, k.const(2, np.float32)))
    other = Builder()
    a, b = other.load(3, np.float32), other.load(4, np.float32)
    made = other.follow(recipe, [a, b])
    assert made is other.fma(other.abs(a), b, other.const(2, np.float32))
    assert other.follow(recipe, [a, b]) is made and other.constants == 1
