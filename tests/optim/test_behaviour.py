"""What records of optax do not show: compiled steps, fusion, estimators, and states of optax."""

from typing import NamedTuple

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import optim


def tree(seed=0):
    draw = np.random.RandomState(seed).standard_normal
    return {"w": jnp.asarray(draw((3, 2)), "float32"), "b": jnp.asarray(draw(2), "float32")}


@pytest.mark.parametrize(
    "opt",
    [
        optim.adamw(0.1, weight_decay=0.1),
        optim.chain(optim.clip_by_global_norm(0.5), optim.lion(0.1)),
        optim.apply_if_finite(optim.rmsprop(0.1, momentum=0.9), 2),
        optim.MultiSteps(optim.nadam(0.1), 2).gradient_transformation(),
        optim.contrib.muon(0.1),
    ],
)
def test_compiled_steps_equal_eager_ones(opt):
    params = compiled = tree()
    state = other = opt.init(params)
    update = weft.jit(opt.update)
    for step in range(3):
        updates, state = opt.update(tree(step), state, params)
        params = optim.apply_updates(params, updates)
        updates, other = update(tree(step), other, compiled)
        compiled = optim.apply_updates(compiled, updates)
    for ours, theirs in zip(
        weft.tree.leaves((params, state)), weft.tree.leaves((compiled, other)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_update_of_a_leaf_is_one_kernel():
    """Kernels are as many as shapes at most, and each value is read and written once."""
    shapes = [(64, 192), (192,), (64, 64), (64,)]
    params = [{str(shape): jnp.ones(shape) for shape in shapes} for _ in range(3)]
    opt = optim.adamw(1e-3)

    def step(grads, state, params):
        updates, state = opt.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    told = str(weft.explain(step, quiet=True)(params, opt.init(params), params))
    names = {line.split(":")[0].strip() for line in told.splitlines() if line.startswith("  k")}
    scalars = 2  # the step and what it makes of the decay rates
    assert len(names) <= len(shapes) + scalars, told
    ideal = 7 * sum(np.prod(shape) for shape in shapes) * 3 * 4
    traffic = next(x for x in told.splitlines() if x.startswith("  memory traffic")).split()
    unit = {"B;": 1, "kB;": 1e3, "MB;": 1e6}[traffic[3]]
    assert float(traffic[2]) * unit <= 1.1 * ideal, told


def test_lbfgs_with_zoom_finds_the_valley():
    def rosenbrock(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    opt = optim.lbfgs()
    x = jnp.array([-1.0, 1.0, 0.5])
    state = opt.init(x)

    @weft.jit
    def step(x, state):
        value, grad = optim.value_and_grad_from_state(rosenbrock)(x, state=state)
        updates, state = opt.update(grad, state, x, value=value, grad=grad, value_fn=rosenbrock)
        return optim.apply_updates(x, updates), state

    for _ in range(60):
        x, state = step(x, state)
    np.testing.assert_allclose(x, 1.0, atol=1e-2)


class ScaleByAdamState(NamedTuple):
    """A state as another library defines it: same names, other class."""

    count: np.ndarray
    mu: dict
    nu: dict


def test_a_state_of_optax_goes_on():
    opt = optim.adam(0.1)
    params = tree()
    state = opt.init(params)
    for step in range(3):
        _, state = opt.update(tree(step), state, params)
    saved = [np.asarray(leaf) for leaf in weft.tree.leaves(state)]
    foreign = (
        ScaleByAdamState(saved[0], {"b": saved[1], "w": saved[2]}, {"b": saved[3], "w": saved[4]}),
        (),
    )
    restored = weft.tree.unflatten(weft.tree.structure(state), weft.tree.leaves(foreign))
    expected, _ = opt.update(tree(7), state, params)
    found, _ = opt.update(tree(7), restored, params)
    for ours, theirs in zip(weft.tree.leaves(found), weft.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert state[0]._fields == foreign[0]._fields


def product(x):
    return jnp.sum(x**2) + x[0] * x[1]


# The mean of `product` is |m|² + Σ exp(2s) + m0 m1.
MEAN, LOG_SCALE = jnp.array([0.5, -1.0]), jnp.array([0.1, -0.3])
BY_MEAN = np.array([2 * 0.5 - 1.0, -2.0 + 0.5])
BY_LOG_SCALE = 2 * np.exp(2 * np.array([0.1, -0.3]))


@pytest.mark.parametrize(
    ("estimator", "samples", "tolerance"),
    [
        (optim.monte_carlo.score_function_jacobians, 40_000, 0.25),
        (optim.monte_carlo.pathwise_jacobians, 10_000, 0.1),
        (optim.monte_carlo.measure_valued_jacobians, 10_000, 0.1),
    ],
)
def test_monte_carlo_estimators_are_unbiased(estimator, samples, tolerance):
    jacobians = estimator(
        product, [MEAN, LOG_SCALE], optim.multi_normal, weft.random.key(0), samples
    )
    assert [j.shape for j in jacobians] == [(samples, 2)] * 2
    np.testing.assert_allclose(jacobians[0].mean(0), BY_MEAN, atol=tolerance)
    np.testing.assert_allclose(jacobians[1].mean(0), BY_LOG_SCALE, atol=tolerance)


@pytest.mark.parametrize("coefficients", [False, True])
def test_the_delta_method_takes_the_variance_away(coefficients):
    jacobians, state = optim.monte_carlo.control_variates_jacobians(
        product,
        optim.monte_carlo.control_delta_method,
        optim.monte_carlo.score_function_jacobians,
        [MEAN, LOG_SCALE],
        optim.multi_normal,
        weft.random.key(1),
        200,
        estimate_cv_coeffs=coefficients,
    )
    assert state is None
    np.testing.assert_allclose(jacobians[0].mean(0), BY_MEAN, atol=1e-2)
    np.testing.assert_allclose(jacobians[1].mean(0), BY_LOG_SCALE, atol=1e-2)


def test_a_moving_average_as_baseline():
    def control(function):
        return optim.monte_carlo.moving_avg_baseline(function, decay=0.5)

    state = (jnp.zeros(()), 0)
    for step in range(3):
        jacobians, state = optim.monte_carlo.control_variates_jacobians(
            product,
            control,
            optim.monte_carlo.score_function_jacobians,
            [MEAN, LOG_SCALE],
            optim.multi_normal,
            weft.random.key(step),
            2_000,
            control_variate_state=state,
        )
    assert state[1] == 3
    np.testing.assert_allclose(jacobians[0].mean(0), BY_MEAN, atol=0.5)


def test_assignments_have_the_least_cost():
    for seed in range(4):
        costs = np.random.RandomState(seed).randint(0, 9, (4, 5 - seed % 2)).astype(np.float32)
        rows, columns = optim.assignment.hungarian_algorithm(jnp.asarray(costs))
        found = costs[np.asarray(rows), np.asarray(columns)].sum()
        assert found == least_cost(costs)


def least_cost(costs, row=0, used=()):
    """By trying everything."""
    if row == len(costs):
        return 0
    free = [c for c in range(costs.shape[1]) if c not in used]
    return min(costs[row, c] + least_cost(costs, row + 1, (*used, c)) for c in free)


def test_microbatches_along_other_axes():
    x = jnp.arange(12.0).reshape(3, 4)
    doubled = optim.microbatching.micro_vmap(lambda v: 2 * v, 1, 1, microbatch_size=2)(x)
    np.testing.assert_array_equal(doubled, 2 * x)
