"""Optimisers of the example libraries; the figures are JAX 0.10.2's."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.example_libraries import optimizers

# Parameters after three steps from (1, -2) with gradients (0.5, 0.25) * (step + 1).
STEPS = {
    "sgd": ((0.1,), (0.6999999, -2.15)),
    "momentum": ((0.1, 0.9), (0.5244999, -2.23775)),
    "nesterov": ((0.1, 0.9), (0.27205, -2.363975)),
    "adagrad": ((0.1,), (0.9478881, -2.052112)),
    "rmsprop": ((0.1,), (0.13899419, -2.8610055)),
    "rmsprop_momentum": ((0.1,), (-0.658898, -3.6588974)),
    "adam": ((0.1,), (0.7076846, -2.2923155)),
    "adamax": ((0.1,), (0.75468063, -2.2453194)),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_jaxs(name):
    args, expected = STEPS[name]
    init, update, get_params = getattr(optimizers, name)(*args)
    state = init({"x": jnp.array([1.0, -2.0])})
    step = weft.jit(update)
    for i in range(3):
        state = step(i, {"x": jnp.array([0.5, 0.25]) * (i + 1)}, state)
    assert np.allclose(get_params(state)["x"], expected, rtol=1e-5)


def test_sm3_keeps_one_vector_for_each_axis():
    init, update, get_params = optimizers.sm3(0.1)
    state = update(0, jnp.ones((2, 3)), init(jnp.zeros((2, 3))))
    assert [x.shape for x in weft.tree.leaves(state)] == [(2, 3), (2, 3), (2,), (3,)]
    assert np.allclose(get_params(state), -0.01)


@pytest.mark.parametrize(
    "name, args, expected",
    [
        ("constant", (0.1,), [0.1, 0.1]),
        ("exponential_decay", (0.1, 10, 0.9), [0.1, 0.1 * 0.9**0.5]),
        ("inverse_time_decay", (0.1, 10, 0.9), [0.1, 0.1 / 1.45]),
        ("inverse_time_decay", (0.1, 10, 0.9, True), [0.1, 0.1]),
        ("polynomial_decay", (0.1, 10, 0.0, 2.0), [0.1, 0.025]),
        ("piecewise_constant", ([3, 9], [0.1, 0.2, 0.3]), [0.1, 0.2]),
    ],
)
def test_schedules(name, args, expected):
    schedule = getattr(optimizers, name)(*args)
    assert np.allclose([schedule(0), schedule(5)], expected)


def test_states_are_unpacked_and_packed():
    init, _, _ = optimizers.momentum(0.1, 0.9)
    state = init({"a": jnp.ones(2), "b": jnp.ones(())})
    unpacked = optimizers.unpack_optimizer_state(state)
    assert sorted(unpacked) == ["a", "b"]
    again = optimizers.pack_optimizer_state(unpacked)
    assert weft.tree.structure(again) == weft.tree.structure(state)
    with pytest.raises(TypeError, match="JoinPoints"):
        optimizers.pack_optimizer_state({"a": 1})


def test_gradients_of_another_structure_are_refused():
    init, update, _ = optimizers.sgd(0.1)
    with pytest.raises(TypeError, match="another structure"):
        update(0, {"b": 1.0}, init({"a": 1.0}))
    with pytest.raises(TypeError, match="a step size is a number"):
        optimizers.sgd([0.1, 0.2])


def test_gradients_are_clipped_to_a_norm():
    clipped = optimizers.clip_grads({"a": jnp.array([3.0, 4.0])}, 1.0)
    assert np.allclose(clipped["a"], [0.6, 0.8])
    assert np.allclose(optimizers.clip_grads(jnp.array([0.3]), 1.0), 0.3)
