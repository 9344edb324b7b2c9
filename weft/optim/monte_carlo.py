"""Gradients of expectations by sampling: ``weft.optim.monte_carlo``.

Each estimator gives, for every sample, the gradient of E[f(x)] with respect to the parameters of
the distribution x is drawn from; their mean over samples is the estimate. `dist_builder(*params)`
gives a distribution with `sample(shape, key)` and `log_prob(x)`, such as `optim.multi_normal`.
See Mohamed et al., Monte Carlo Gradient Estimation in Machine Learning, 2019.
"""

import math

import weft
import weft.lax as lax
import weft.numpy as jnp


def score_function_jacobians(function, params, dist_builder, rng, num_samples):
    """f(x)·∇ log p(x): for any `function` and any density.

    >>> import weft, weft.numpy as jnp, weft.optim as optim
    >>> params = [jnp.array([1.0]), jnp.array([0.0])]
    >>> jacobians = optim.monte_carlo.score_function_jacobians(
    ...     lambda x: jnp.sum(x), params, optim.multi_normal, weft.random.key(0), 10_000
    ... )
    >>> round(float(jacobians[0].mean()), 1)
    1.0
    """
    samples = dist_builder(*params).sample((num_samples,), rng)
    samples = lax.stop_gradient(samples)

    def surrogate(params, x):
        return function(x) * dist_builder(*params).log_prob(x)

    return weft.vmap(weft.grad(surrogate), in_axes=(None, 0))(params, samples)


def pathwise_jacobians(function, params, dist_builder, rng, num_samples):
    """∇ f(x(params)): for a differentiable `function`, through the sampling itself."""
    keys = weft.random.split(rng, num_samples)

    def value(params, key):
        return function(dist_builder(*params).sample((), key))

    return weft.vmap(weft.grad(value), in_axes=(None, 0))(params, keys)


def measure_valued_jacobians(function, params, dist_builder, rng, num_samples, coupling=True):
    """Differences of `function` at samples of two densities, for a diagonal normal distribution.

    The derivative of the density by the mean is a difference of two shifted Weibull densities, that
    by the deviation of a double-sided Maxwell density and the normal one. With `coupling` both
    sides use the same draws.
    """
    mean, log_scale = params
    dist = dist_builder(*params)
    samples = dist.sample((num_samples,), rng)
    keys = weft.random.split(rng, 6)
    scale = jnp.exp(log_scale)
    shape = samples.shape

    def replaced(coordinate):
        """f at every sample with one coordinate replaced: (samples, coordinates)."""

        def at(x, value, i):
            return function(x.at[i].set(value[i]))

        over = weft.vmap(at, in_axes=(None, None, 0))
        return weft.vmap(over, in_axes=(0, 0, None))(samples, coordinate, jnp.arange(shape[-1]))

    def weibull(key):
        return jnp.sqrt(-2.0 * jnp.log1p(-weft.random.uniform(key, shape, samples.dtype)))

    up = weibull(keys[0])
    down = up if coupling else weibull(keys[1])
    by_mean = replaced(mean + scale * up) - replaced(mean - scale * down)
    by_mean = by_mean / (scale * math.sqrt(2 * math.pi))

    normals = weft.random.normal(keys[2], (3, *shape), samples.dtype)
    maxwell = jnp.sqrt(jnp.sum(normals**2, axis=0))
    sign = weft.random.rademacher(keys[3], shape).astype(samples.dtype)
    wide = maxwell * sign
    if coupling:  # a Maxwell draw times a uniform one is half-normal
        narrow = wide * weft.random.uniform(keys[4], shape, samples.dtype)
    else:
        narrow = weft.random.normal(keys[5], shape, samples.dtype)
    by_log_scale = replaced(mean + scale * wide) - replaced(mean + scale * narrow)
    return [by_mean, by_log_scale]


def control_delta_method(function):
    """The second-order Taylor expansion of `function` about the mean, as a control variate.

    For `control_variates_jacobians` with a diagonal normal distribution: its expectation is known.
    """

    def delta(params, sample, state=None):
        mean = params[0]
        gap = sample - mean
        value, gradient = weft.value_and_grad(function)(mean)
        hessian = weft.hessian(function)(mean)
        return value + jnp.dot(gap, gradient) + jnp.dot(gap, jnp.dot(hessian, gap)) / 2.0

    def expected(params, state=None):
        mean, log_scale = params
        curvature = jnp.diag(weft.hessian(function)(mean))
        return function(mean) + jnp.sum(jnp.exp(2.0 * log_scale) * curvature) / 2.0

    def update_state(params, samples, state=None):
        return state

    return delta, expected, update_state


def moving_avg_baseline(
    function, decay=0.99, zero_debias=True, use_decay_early_training_heuristic=True
):
    """The moving average of past values of `function`, as a control variate.

    Its state is the average and the number of steps, `(jnp.zeros(()), 0)` to start with.
    """

    def baseline(params, sample, state):
        average, step = state
        if zero_debias:
            weight = 1 - jnp.asarray(decay) ** jnp.asarray(step)
            average = jnp.where(step > 0, average / jnp.where(step > 0, weight, 1.0), average)
        return average

    def expected(params, state):
        return baseline(params, None, state)

    def update_state(params, samples, state):
        average, step = state
        rate = decay
        if use_decay_early_training_heuristic:
            rate = jnp.minimum(decay, (1.0 + step) / (10.0 + step))
        value = jnp.mean(weft.vmap(function)(samples))
        return rate * average + (1 - rate) * value, step + 1

    return baseline, expected, update_state


def control_variates_jacobians(
    function,
    control_variate_from_function,
    grad_estimator,
    params,
    dist_builder,
    rng,
    num_samples,
    control_variate_state=None,
    estimate_cv_coeffs=False,
    estimate_cv_coeffs_num_samples=20,
):
    """Jacobians of function - c·control, plus c times the exact gradient of the control's mean.

    c is 1, or estimated from further samples so that the variance is least. Returns the jacobians
    and the new state of the control variate.
    """
    control, expected, update_state = control_variate_from_function(function)
    state = control_variate_state
    jacobian_of = _jacobians(grad_estimator, params, dist_builder)
    of_control = lambda x: control(params, x, state)
    known = weft.grad(lambda params: expected(params, state))(params)
    coefficients = [jnp.ones(()) for _ in params]
    if estimate_cv_coeffs:
        rng, key = weft.random.split(rng)
        coefficients = _coefficients(
            jacobian_of(function, key, estimate_cv_coeffs_num_samples),
            jacobian_of(of_control, key, estimate_cv_coeffs_num_samples),
        )
    plain = jacobian_of(function, rng, num_samples)
    controlled = jacobian_of(of_control, rng, num_samples)
    jacobians = [
        f - c * (g - mean)
        for f, g, c, mean in zip(plain, controlled, coefficients, known, strict=True)
    ]
    samples = dist_builder(*params).sample((num_samples,), rng)
    return jacobians, update_state(params, samples, state)


def _jacobians(grad_estimator, params, dist_builder):
    def of(function, rng, num_samples):
        return grad_estimator(function, params, dist_builder, rng, num_samples)

    return of


def _coefficients(plain, controlled):
    """For each parameter, the covariance of both jacobians over the variance of the second."""

    def of(f, g):
        f, g = f - f.mean(0), g - g.mean(0)
        return jnp.sum(f * g) / jnp.maximum(jnp.sum(g * g), jnp.finfo(g.dtype).tiny)

    return [of(f, g) for f, g in zip(plain, controlled, strict=True)]
