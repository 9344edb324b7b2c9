"""Programs whose odd values are meant pass the checks, and mistakes in odd places are named."""

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from weft import lax
from weft.sharding import AxisType
from weft.sharding import PartitionSpec as P

X = np.linspace(-1, 3, 8, dtype=np.float32)
PLACES = np.array([3, 99])


def causal(scores):
    return jnp.where(jnp.tril(jnp.ones((4, 4), bool)), scores, -jnp.inf)


def mapped(f):
    mesh = jax.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
    return jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P())


MEANT = {
    "drop": lambda x: x.at[PLACES].set(1.0, mode="drop"),
    "drop of sums": lambda x: x.at[PLACES].add(1.0, mode=lax.GatherScatterMode.FILL_OR_DROP),
    "fill": lambda x: x.at[PLACES].get(mode="fill", fill_value=0.0),
    "take with fill": lambda x: jnp.take(x, PLACES, mode="fill", fill_value=0),
    "gradient of fill": jax.grad(lambda x: x.at[PLACES].get(mode="fill", fill_value=0.0).sum()),
    "clip": lambda x: jnp.take(x, PLACES, mode="clip"),
    "segments": lambda x: jax.ops.segment_sum(x, jnp.arange(8) - 2, num_segments=4),
    "bincount": lambda x: jnp.bincount(jnp.arange(8), length=3),
    "unique": lambda x: jnp.unique(jnp.abs(x), size=5, fill_value=0.0, return_inverse=True),
    "nonzero": lambda x: jnp.nonzero(x > 0, size=5),
    "repeat": lambda x: jnp.repeat(x, jnp.arange(8), total_repeat_length=5),
    "nanmean": lambda x: jnp.nanmean(jnp.where(x > 0, x, jnp.nan)),
    "carry of nan": lambda x: lax.scan(lambda c, v: (v, c), jnp.nan, x),
    "masked softmax": jax.grad(
        lambda x: (jax.nn.softmax(causal(jnp.outer(x[:4], x[4:]))) @ x[:4]).sum()
    ),
    "guard": lambda x: jnp.nan_to_num(jnp.log(x)),
    "hash": lambda x: jnp.arange(5, dtype=jnp.uint32) * jnp.uint32(2654435761),
}


@pytest.mark.parametrize("name", MEANT)
def test_what_is_meant_raises_nothing(name):
    want = jax.jit(MEANT[name])(X)
    with jax.checks():
        got = jax.jit(lambda x: MEANT[name](x))(X)
    for mine, plain in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-5)


ACTIVATIONS = """celu elu gelu hard_sigmoid hard_silu hard_tanh leaky_relu log_sigmoid mish relu
relu6 selu sigmoid silu soft_sign softplus squareplus sparse_plus log_softmax softmax""".split()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_their_gradients_take_any_number(name):
    function = getattr(jax.nn, name)
    x = np.array([-1e4, -100.0, -1.0, 0.0, 1.0, 100.0, 1e4], np.float32)
    with jax.checks():
        value, slope = jax.jit(jax.value_and_grad(lambda x: function(x)[::2].sum()))(x)
    assert np.isfinite(value) and np.isfinite(slope).all()


def looped(x, i):
    """A gradient of a scan of branches that gather."""

    def step(c, k):
        return lax.cond(k > 2, lambda c: c + x[i + k].sum(), lambda c: c * 1.0, c), None

    return lax.scan(step, 0.0, jnp.arange(6))[0]


@jax.custom_vjp
def bad_rule(x):
    return jnp.sin(x)


bad_rule.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.sqrt(x),))

MISTAKES = {
    "set without a mode": (lambda x: x.at[PLACES].set(1.0), "scatter got index 99"),
    "take without a mode": (lambda x: jnp.take(x, PLACES), "gather got index 99"),
    "along an axis": (lambda x: jnp.take_along_axis(x, PLACES, 0), "gather got index 99"),
    "vmap of grad of scan of cond": (
        lambda x: jax.vmap(jax.grad(looped), (None, 0))(x, jnp.array([[1, 2], [3, 4]])),
        "gather got index 8 for axis 0 of size 8, at [1, 1] of",
    ),
    "custom rule": (jax.grad(lambda x: bad_rule(x).sum()), "sqrt made nan at [0]: sqrt(-1)"),
    "checkpoint": (
        jax.grad(jax.checkpoint(lambda x: jnp.sqrt(jnp.sin(x)).sum())),
        "sqrt made nan at [0]: sqrt(-0.841471)",
    ),
    "loop in a checkpoint": (
        jax.grad(
            lambda x: jax.checkpoint(
                lambda y: lax.scan(lambda c, _: (jnp.log(c) * 2, None), y, None, length=3)[0]
            )(x[4])
        ),
        "log made nan: log(-1.37",
    ),
    "floor division": (
        lambda x: 7 // x.astype(int),
        "div divided by zero at [1]: 7 // 0",
    ),
    "remainder": (lambda x: 7 % x.astype(int), "rem divided by zero at [1]: 7 % 0"),
    "condition": (
        lambda x: lax.while_loop(lambda n: 10 // n > 0, lambda n: n - 1, x[6].astype(int) + 3),
        "div divided by zero: 10 // 0",
    ),
    "slice": (lambda x: lax.dynamic_slice(x, (x[7].astype(int),), (6,)), "index 3 of 6 elements"),
    "int8": (lambda x: jnp.int8(100) + x.astype(jnp.int8) * jnp.int8(20), "add overflowed int8"),
    "parts": (mapped(lambda x: lax.psum(jnp.log(x), "i")), "log made nan at [0, 0]: log(-1)"),
    "comparison": (lambda x: jnp.argmax(jnp.log(x)), "log made nan at [0]: log(-1)"),
    "solve": (
        lambda x: lax.custom_linear_solve(lambda v: v / 2, x, lambda _, b: jnp.log(b)),
        "log made nan at [0]: log(-1)",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_odd_places_are_named(name):
    function, told = MISTAKES[name]
    with jax.checks(), pytest.raises(jax.errors.CheckError) as caught:
        jax.jit(function)(X)
    assert told in str(caught.value), caught.value


def test_modes_read_as_before():
    program = jax.make_jaxpr(lambda x: x.at[PLACES].set(1.0, mode="drop"))(X)
    assert "mode=GatherScatterMode.FILL_OR_DROP\n" in str(program)
    assert lax.GatherScatterMode.from_any("drop") is lax.GatherScatterMode.FILL_OR_DROP
