"""Layers of the example libraries; shapes and figures are JAX 0.10.2's."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.example_libraries import optimizers, stax

KEY = weft.random.key(0)

SHAPES = [
    (stax.Dense(3), (-1, 4), (-1, 3), [(4, 3), (3,)]),
    (stax.Conv(3, (3, 3)), (-1, 8, 8, 2), (-1, 6, 6, 3), [(3, 3, 2, 3), (1, 1, 1, 3)]),
    (
        stax.ConvTranspose(3, (3, 3), padding="SAME", strides=(2, 2)),
        (-1, 8, 8, 2),
        (-1, 16, 16, 3),
        [(3, 3, 2, 3), (1, 1, 1, 3)],
    ),
    (stax.Conv1DTranspose(3, (3,), strides=(2,)), (-1, 8, 2), (-1, 17, 3), [(3, 2, 3), (1, 1, 3)]),
    (stax.BatchNorm(), (-1, 8, 8, 2), (-1, 8, 8, 2), [(2,), (2,)]),
    (stax.MaxPool((2, 2)), (4, 8, 8, 2), (4, 7, 7, 2), []),
    (stax.SumPool((2, 2), strides=(2, 2), padding="SAME"), (1, 7, 7, 2), (1, 4, 4, 2), []),
    (stax.AvgPool((2,), spec="NCH"), (1, 2, 7), (1, 2, 6), []),
    (stax.Flatten, (-1, 8, 8, 2), (-1, 128), []),
    (stax.Dropout(0.5), (-1, 3), (-1, 3), []),
    (stax.Gelu, (-1, 3), (-1, 3), []),
    (
        stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1])),
        (-1, 3),
        (-1, 6),
        [(3, 6), (6,)],
    ),
]


@pytest.mark.parametrize("layer, given, expected, params", SHAPES)
def test_shapes_are_jaxs(layer, given, expected, params):
    init_fun, apply_fun = layer
    shape, made = init_fun(KEY, given)
    assert tuple(shape) == expected
    assert [x.shape for x in weft.tree.leaves(made)] == params
    batch = [2 if n == -1 else n for n in given]
    out = apply_fun(made, jnp.ones(batch), rng=KEY)
    assert out.shape == tuple(2 if n == -1 else n for n in expected)


def test_weights_are_jaxs():
    _, (W, b) = stax.Dense(3)[0](KEY, (2, 4))
    assert np.allclose(W[0], [0.57203406, -0.5183409, -0.42999786], atol=1e-6)
    assert np.allclose(b, [-0.02442456, -0.0203568, 0.00205544], atol=1e-6)


def test_fans_and_parallel_layers():
    init_fun, apply_fun = stax.serial(
        stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Identity), stax.FanInConcat()
    )
    shape, params = init_fun(KEY, (-1, 4))
    assert shape == (-1, 7)
    assert apply_fun(params, jnp.ones((2, 4)), rng=KEY).shape == (2, 7)
    assert stax.FanInSum[1]((), [jnp.ones(2), jnp.ones(2)]).tolist() == [2.0, 2.0]


def test_dropout_needs_a_key_and_keeps_the_mean():
    _, apply_fun = stax.Dropout(0.8)
    out = apply_fun((), jnp.ones(10_000), rng=KEY)
    assert set(np.unique(out)) == {0.0, np.float32(1 / 0.8)}
    assert abs(float(out.mean()) - 1.0) < 0.05
    assert stax.Dropout(0.8, "test")[1]((), 3.0, rng=KEY) == 3.0
    with pytest.raises(ValueError, match="needs a key"):
        apply_fun((), 1.0)


def test_a_small_network_learns():
    init_fun, predict = stax.serial(stax.Dense(16), stax.Tanh, stax.Dense(1))
    _, params = init_fun(KEY, (-1, 1))
    x = jnp.linspace(-1, 1, 32)[:, None]
    loss = lambda p: jnp.mean((predict(p, x) - x**2) ** 2)
    init, update, get_params = optimizers.adam(0.02)

    @weft.jit
    def step(i, state):
        return update(i, weft.grad(loss)(get_params(state)), state)

    state = init(params)
    for i in range(200):
        state = step(i, state)
    assert loss(get_params(state)) < 0.01 < loss(params)
