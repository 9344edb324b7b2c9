"""The optimisers by name: chains of a scaling of gradients, weight decay and a learning rate."""

from __future__ import annotations

import functools
from typing import Any

import weft.numpy as jnp
from weft.extend.source_info_util import warn
from weft.optim import base
from weft.optim.factored import scale_by_factored_rms
from weft.optim.linesearch import scale_by_zoom_linesearch
from weft.optim.moments import (
    scale_by_adam,
    scale_by_adamax,
    scale_by_adan,
    scale_by_amsgrad,
    scale_by_belief,
    scale_by_lion,
    scale_by_novograd,
    scale_by_radam,
    scale_by_yogi,
)
from weft.optim.quasi_newton import scale_by_lbfgs
from weft.optim.scaling import (
    scale,
    scale_by_learning_rate,
    scale_by_param_block_rms,
    scale_by_polyak,
    scale_by_sign,
    scale_by_trust_ratio,
)
from weft.optim.squares import (
    scale_by_adadelta,
    scale_by_optimistic_gradient,
    scale_by_rms,
    scale_by_rprop,
    scale_by_rss,
    scale_by_sm3,
    scale_by_stddev,
)
from weft.optim.transforms import (
    add_decayed_weights,
    add_noise,
    chain,
    clip_by_block_rms,
    ema,
    masked,
    trace,
)


def sgd(
    learning_rate: base.ScalarOrSchedule,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: Any = None,
) -> base.GradientTransformationExtraArgs:
    """Return stochastic gradient descent, with momentum if given.

    Args:
        learning_rate: the step size, a number or a function of the step.
        momentum: the decay of the momentum; None for none.
        nesterov: use Nesterov's momentum.
        accumulator_dtype: the dtype of the momentum. By default that of the parameters.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft, weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.sgd(0.1, momentum=0.9)
        >>> x = jnp.array([1.0, 2.0])
        >>> state = opt.init(x)
        >>> for _ in range(100):
        ...     updates, state = opt.update(weft.grad(lambda x: jnp.sum(x**2))(x), state, x)
        ...     x = optim.apply_updates(x, updates)
        >>> bool(jnp.abs(x).max() < 0.05)
        True
    """
    first = base.identity()
    if momentum is not None:
        first = trace(momentum, nesterov, accumulator_dtype)
    return chain(first, scale_by_learning_rate(learning_rate))


def adam(
    learning_rate: base.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return Adam (Kingma and Ba, 2014): the mean gradient over the root of its mean square.

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        mu_dtype: the dtype of the mean of the gradient. By default that of the parameters.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft, weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.adam(0.1)
        >>> x = jnp.array([1.0, 2.0])
        >>> state = opt.init(x)
        >>> updates, state = opt.update(jnp.array([5.0, -3.0]), state, x)
        >>> optim.apply_updates(x, updates).round(3)
        Array([0.9, 2.1], dtype=float32)
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


def adamw(
    learning_rate: base.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    weight_decay: base.ScalarOrSchedule = 1e-4,
    mask: base.MaskOrFn = None,
    *,
    nesterov: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return Adam with weight decay beside the gradient (Loshchilov and Hutter, 2017).

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        mu_dtype: the dtype of the mean of the gradient. By default that of the parameters.
        weight_decay: the factor of the parameters that each step subtracts, times the learning
            rate.
        mask: which parameters decay: a tree of booleans, or a function of the parameters that
            returns one. By default all.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.adamw(0.1, weight_decay=0.01, mask={"w": True, "b": False})
        >>> params = {"w": jnp.array(2.0), "b": jnp.array(2.0)}
        >>> grads = {"w": jnp.array(1.0), "b": jnp.array(1.0)}
        >>> updates, state = opt.update(grads, opt.init(params), params)
        >>> round(float(updates["w"]), 4), round(float(updates["b"]), 4)
        (-0.102, -0.1)
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


nadam = functools.partial(adam, nesterov=True)
nadam.__doc__ = "Adam with Nesterov's momentum (Dozat, 2016)."
nadamw = functools.partial(adamw, nesterov=True)
nadamw.__doc__ = "Adam with Nesterov's momentum and weight decay."


def adabelief(
    learning_rate: base.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    *,
    nesterov: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return AdaBelief (Zhuang et al., 2020): large steps where the gradient is as predicted.

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the variance of the gradient.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.adabelief(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.889, 2.111], dtype=float32)
    """
    return chain(
        scale_by_belief(b1, b2, eps, eps_root, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


def adadelta(
    learning_rate: base.ScalarOrSchedule | None = None,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    weight_decay_mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """Return Adadelta (Zeiler, 2012): steps in the units of the parameters.

    Args:
        learning_rate: the factor of the steps, a number or a function of the step. None stands for
            1.
        rho: the weight of the past in the averages.
        eps: a small number added to the divisor.
        weight_decay: the factor of the parameters that each step subtracts, times the learning
            rate.
        weight_decay_mask: which parameters decay: a tree of booleans, or a function of the
            parameters that returns one. By default all.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.adadelta(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1., 2.], dtype=float32)
    """
    return chain(
        add_decayed_weights(weight_decay, mask=weight_decay_mask),
        scale_by_adadelta(rho, eps),
        scale_by_learning_rate(learning_rate),
    )


def adafactor(
    learning_rate: base.ScalarOrSchedule | None = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8,
    decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0,
    momentum: float | None = None,
    dtype_momentum: Any = jnp.float32,
    weight_decay_rate: base.ScalarOrSchedule | None = None,
    eps: float = 1e-30,
    factored: bool = True,
    weight_decay_mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """Return Adafactor (Shazeer and Stern, 2018), which keeps second moments of rows and columns.

    Args:
        learning_rate: the step size, a number or a function of the step. None for 1.
        min_dim_size_to_factor: factor only if the two largest dimensions have at least this size.
        decay_rate: how fast the weight of old squares grows with the step.
        decay_offset: the number of steps made before, for fine-tuning.
        multiply_by_parameter_scale: multiply steps by the root mean square of each parameter.
        clipping_threshold: the largest root mean square of an update; None for no bound.
        momentum: the decay of the momentum; None for none.
        dtype_momentum: the dtype of the momentum.
        weight_decay_rate: the factor of the parameters that each step subtracts; None for none.
        eps: a small number added to squares.
        factored: whether to factor second moments.
        weight_decay_mask: which parameters decay: a tree of booleans, or a function of the
            parameters that returns one. By default all.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.adafactor(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.842, 2.158], dtype=float32)
    """
    parts = [scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)]
    if clipping_threshold is not None:
        parts.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        parts.append(scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        parts.append(scale_by_param_block_rms())
    if momentum is not None:
        parts.append(ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        parts.append(add_decayed_weights(weight_decay_rate, mask=weight_decay_mask))
    return chain(*parts, scale(-1))


def adagrad(
    learning_rate: base.ScalarOrSchedule, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> base.GradientTransformationExtraArgs:
    """Return Adagrad (Duchi et al., 2011): steps over the root of the sum of squared gradients.

    Args:
        learning_rate: the step size, a number or a function of the step.
        initial_accumulator_value: the value at which the sum starts.
        eps: a small number added to the divisor.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.adagrad(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.915, 2.085], dtype=float32)
    """
    return chain(
        scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate)
    )


def adamax(
    learning_rate: base.ScalarOrSchedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> base.GradientTransformationExtraArgs:
    """Return Adam with the largest decayed magnitude in place of the second moment.

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the decay of the largest magnitude.
        eps: a small number added to the divisor.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.adamax(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.9, 2.1], dtype=float32)
    """
    return chain(scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adamaxw(
    learning_rate: base.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: base.ScalarOrSchedule = 1e-4,
    mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """Return Adamax with weight decay.

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the decay of the largest magnitude.
        eps: a small number added to the divisor.
        weight_decay: the factor of the parameters that each step subtracts, times the learning
            rate.
        mask: which parameters decay: a tree of booleans, or a function of the parameters that
            returns one. By default all.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.adamaxw(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.9, 2.1], dtype=float32)
    """
    return chain(
        scale_by_adamax(b1, b2, eps),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def adan(
    learning_rate: base.ScalarOrSchedule,
    b1: float = 0.98,
    b2: float = 0.92,
    b3: float = 0.99,
    eps: float = 1e-8,
    eps_root: float = 1e-8,
    weight_decay: base.ScalarOrSchedule = 0.0,
    mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """Return Adan (Xie et al., 2022): Nesterov's momentum from the change of the gradient.

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of the gradient's change.
        b3: the weight of the past in the mean square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        weight_decay: the factor of the parameters that each step subtracts, times the learning
            rate.
        mask: which parameters decay: a tree of booleans, or a function of the parameters that
            returns one. By default all.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.adan(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.9, 2.1], dtype=float32)
    """
    return chain(
        scale_by_adan(b1, b2, b3, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def amsgrad(
    learning_rate: base.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> base.GradientTransformationExtraArgs:
    """Return Adam whose second moment never falls (Reddi et al., 2018).

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        mu_dtype: the dtype of the mean of the gradient. By default that of the parameters.
        bias_correction_mu: correct the mean for its start at zero.
        bias_correction_nu: correct the mean square for its start at zero.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.amsgrad(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.9, 2.1], dtype=float32)
    """
    return chain(
        scale_by_amsgrad(b1, b2, eps, eps_root, mu_dtype, bias_correction_mu, bias_correction_nu),
        scale_by_learning_rate(learning_rate),
    )


def fromage(learning_rate: float, min_norm: float = 1e-6) -> base.GradientTransformationExtraArgs:
    """Return Fromage (Bernstein et al., 2020): steps relative to the norm of each leaf.

    Args:
        learning_rate: the step size.
        min_norm: the smallest norm of parameters and gradients.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.fromage(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.838, 2.147], dtype=float32)
    """

    def shrinkage(rate):
        return 1 / (1 + rate**2) ** 0.5

    if callable(learning_rate):
        rate = lambda step: shrinkage(learning_rate(step)) * learning_rate(step)
        decay = lambda step: shrinkage(learning_rate(step)) - 1
    else:
        rate, decay = learning_rate * shrinkage(learning_rate), shrinkage(learning_rate) - 1
    return chain(
        scale_by_trust_ratio(min_norm), scale_by_learning_rate(rate), add_decayed_weights(decay)
    )


def lars(
    learning_rate: base.ScalarOrSchedule,
    weight_decay: base.ScalarOrSchedule = 0.0,
    weight_decay_mask: base.MaskOrFn = True,
    trust_coefficient: float = 0.001,
    eps: float = 0.0,
    trust_ratio_mask: base.MaskOrFn = True,
    momentum: float = 0.9,
    nesterov: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return LARS (You et al., 2017): momentum with steps relative to the norm of each leaf.

    Args:
        learning_rate: the step size, a number or a function of the step.
        weight_decay: the factor of the parameters that each step subtracts, times the learning
            rate.
        weight_decay_mask: which parameters decay: a tree of booleans, or a function of the
            parameters that returns one. By default all.
        trust_coefficient: the factor of the ratio of norms.
        eps: a small number added to the divisor.
        trust_ratio_mask: which parameters have relative steps; as ``weight_decay_mask``.
        momentum: the decay of the momentum.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.lars(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1., 2.], dtype=float32)
    """
    return chain(
        add_decayed_weights(weight_decay, mask=weight_decay_mask),
        masked(
            scale_by_trust_ratio(trust_coefficient=trust_coefficient, eps=eps), trust_ratio_mask
        ),
        scale_by_learning_rate(learning_rate),
        trace(momentum, nesterov),
    )


def lamb(
    learning_rate: base.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: base.ScalarOrSchedule = 0.0,
    mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """Return LAMB (You et al., 2019): Adam with steps relative to the norm of each leaf.

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        weight_decay: the factor of the parameters that each step subtracts, times the learning
            rate.
        mask: which parameters decay: a tree of booleans, or a function of the parameters that
            returns one. By default all.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.lamb(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.842, 2.158], dtype=float32)
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )


def lion(
    learning_rate: base.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: Any = None,
    weight_decay: base.ScalarOrSchedule = 1e-3,
    mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """Return Lion (Chen et al., 2023): the sign of a mean of gradient and momentum.

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the momentum in that mean.
        b2: the weight of the past in the momentum.
        mu_dtype: the dtype of the mean of the gradient. By default that of the parameters.
        weight_decay: the factor of the parameters that each step subtracts, times the learning
            rate.
        mask: which parameters decay: a tree of booleans, or a function of the parameters that
            returns one. By default all.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.lion(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.9, 2.1], dtype=float32)
    """
    return chain(
        scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def noisy_sgd(
    learning_rate: base.ScalarOrSchedule,
    eta: float = 0.01,
    gamma: float = 0.55,
    key: Any = None,
    *,
    seed: int | None = None,
) -> base.GradientTransformationExtraArgs:
    """Return gradient descent with noise that fades (Neelakantan et al., 2014).

    Args:
        learning_rate: the step size, a number or a function of the step.
        eta: the variance of the noise at the first step.
        gamma: how fast the noise fades.
        key: a random key, or an integer to make one from.
        seed: the older name of ``key``, an integer.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.noisy_sgd(0.1, eta=0.0, key=0)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.95, 2.05], dtype=float32)
    """
    return chain(add_noise(eta, gamma, key, seed=seed), scale_by_learning_rate(learning_rate))


def sign_sgd(learning_rate: base.ScalarOrSchedule) -> base.GradientTransformationExtraArgs:
    """Return descent by the sign of the gradient.

    Args:
        learning_rate: the step size, a number or a function of the step.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.sign_sgd(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.9, 2.1], dtype=float32)
    """
    return chain(scale_by_sign(), scale_by_learning_rate(learning_rate))


def signum(
    learning_rate: base.ScalarOrSchedule, beta: float = 0.9, accumulator_dtype: Any = None
) -> base.GradientTransformationExtraArgs:
    """Return descent by the sign of the momentum.

    Args:
        learning_rate: the step size, a number or a function of the step.
        beta: the weight of the past in the momentum.
        accumulator_dtype: the dtype of the momentum. By default that of the parameters.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.signum(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.9, 2.1], dtype=float32)
    """
    return chain(
        ema(beta, debias=False, accumulator_dtype=accumulator_dtype),
        scale_by_sign(),
        scale_by_learning_rate(learning_rate),
    )


def novograd(
    learning_rate: base.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
) -> base.GradientTransformationExtraArgs:
    """Return NovoGrad (Ginsburg et al., 2019): momentum of gradients over their norm by leaf.

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the momentum.
        b2: the weight of the past in the squared norm.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        weight_decay: the factor of the parameters that is added to the scaled gradient.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.novograd(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.929, 2.071], dtype=float32)
    """
    return chain(
        scale_by_novograd(b1, b2, eps, eps_root, weight_decay),
        scale_by_learning_rate(learning_rate),
    )


def optimistic_gradient_descent(
    learning_rate: base.ScalarOrSchedule, alpha: float = 1.0, beta: float = 1.0
) -> base.GradientTransformationExtraArgs:
    """Return gradient descent that extrapolates from the last gradient, for games.

    Args:
        learning_rate: the step size, a number or a function of the step.
        alpha: the weight of the gradient.
        beta: the weight of its change.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.optimistic_gradient_descent(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.95, 2.05], dtype=float32)
    """
    return chain(scale_by_optimistic_gradient(alpha, beta), scale_by_learning_rate(learning_rate))


def optimistic_adam(
    learning_rate: float,
    optimism: float | None = None,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = True,
) -> base.GradientTransformationExtraArgs:
    """Return Adam that extrapolates from the last update; the older form of ``optimistic_adam_v2``.

    Args:
        learning_rate: the step size.
        optimism: the weight of the update's change. By default the learning rate.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        mu_dtype: the dtype of the mean of the gradient. By default that of the parameters.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation.

    Example:
        >>> import warnings, weft.numpy as jnp, weft.optim as optim
        >>> with warnings.catch_warnings(action="ignore"):
        ...     opt = optim.optimistic_adam(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> updates.shape
        (2,)
    """
    warn("optimistic_adam is deprecated, use optimistic_adam_v2", DeprecationWarning)
    if callable(learning_rate):
        raise ValueError("optimistic_adam does not take a schedule; use optimistic_adam_v2")
    optimism = learning_rate if optimism is None else optimism
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_optimistic_gradient(learning_rate, optimism),
        scale_by_learning_rate(1.0),
    )


def optimistic_adam_v2(
    learning_rate: base.ScalarOrSchedule,
    *,
    alpha: base.ScalarOrSchedule = 1.0,
    beta: base.ScalarOrSchedule = 1.0,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    nesterov: bool = True,
) -> base.GradientTransformationExtraArgs:
    """Return Adam that extrapolates from the last update (Daskalakis et al., 2017).

    Args:
        learning_rate: the step size, a number or a function of the step.
        alpha: the weight of the update.
        beta: the weight of its change.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        mu_dtype: the dtype of the mean of the gradient. By default that of the parameters.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.optimistic_adam_v2(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.853, 2.147], dtype=float32)
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_optimistic_gradient(alpha, beta),
        scale_by_learning_rate(learning_rate),
    )


def radam(
    learning_rate: base.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return rectified Adam (Liu et al., 2019): cautious until the variance is known.

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        threshold: how many effective samples of the variance are enough.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.radam(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.95, 2.05], dtype=float32)
    """
    return chain(
        scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate: base.ScalarOrSchedule,
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return RMSProp: steps over the root of the mean squared gradient, centred or not.

    Args:
        learning_rate: the step size, a number or a function of the step.
        decay: the weight of the past in the averages.
        eps: a small number added to the divisor.
        initial_scale: the value at which the mean square starts.
        eps_in_sqrt: add ``eps`` inside of the root, not outside.
        centered: subtract the squared mean of the gradient, so that its standard deviation divides.
        momentum: the decay of the momentum; None for none.
        nesterov: use Nesterov's momentum.
        bias_correction: correct the averages for their start at zero.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.rmsprop(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.684, 2.316], dtype=float32)
    """
    scaling = scale_by_stddev if centered else scale_by_rms
    return chain(
        scaling(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        base.identity() if momentum is None else trace(momentum, nesterov),
    )


def rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> base.GradientTransformationExtraArgs:
    """Return Rprop (Riedmiller and Braun, 1993): a step size for each element, from signs alone.

    Args:
        learning_rate: the first step size.
        eta_minus: the factor of the step size after the gradient changed its sign.
        eta_plus: the factor of the step size while the gradient keeps its sign.
        min_step_size: the smallest step size.
        max_step_size: the largest step size.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.rprop(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1., 2.], dtype=float32)
    """
    return chain(
        scale_by_rprop(learning_rate, eta_minus, eta_plus, min_step_size, max_step_size),
        scale(-1.0),
    )


def sm3(learning_rate: float, momentum: float = 0.9) -> base.GradientTransformationExtraArgs:
    """Return SM3 (Anil et al., 2019): Adagrad with accumulators for rows and columns.

    Args:
        learning_rate: the step size.
        momentum: the decay of the momentum.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.sm3(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.99, 2.01], dtype=float32)
    """
    return chain(scale_by_sm3(momentum), scale(-learning_rate))


def yogi(
    learning_rate: base.ScalarOrSchedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-3
) -> base.GradientTransformationExtraArgs:
    """Return Yogi (Zaheer et al., 2018): Adam whose second moment changes gently.

    Args:
        learning_rate: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.yogi(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.9, 2.1], dtype=float32)
    """
    return chain(scale_by_yogi(b1, b2, eps), scale_by_learning_rate(learning_rate))


def polyak_sgd(
    max_learning_rate: float = 1.0,
    scaling: base.ScalarOrSchedule = 1.0,
    f_min: float = 0.0,
    eps: float = 0.0,
    variant: str = "sps",
) -> base.GradientTransformationExtraArgs:
    """Return gradient descent with the Polyak step size; ``update`` takes the loss as ``value=``.

    Args:
        max_learning_rate: the largest step size.
        scaling: the factor of the step, a number or a function of the step count.
        f_min: the smallest value that the loss can have.
        eps: a small number added to the squared norm of the gradient.
        variant: ``'sps'``, or ``'sps+'`` to take no step where the loss is below ``f_min``.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft, weft.numpy as jnp, weft.optim as optim
        >>> loss = lambda x: jnp.sum(x**2)
        >>> opt = optim.polyak_sgd()
        >>> x = jnp.array([1.0, 2.0])
        >>> value, grad = weft.value_and_grad(loss)(x)
        >>> updates, state = opt.update(grad, opt.init(x), x, value=value)
        >>> updates
        Array([-0.5, -1. ], dtype=float32)
    """
    return chain(sgd(scaling), scale_by_polyak(f_min, max_learning_rate, eps, variant))


_ZOOM = scale_by_zoom_linesearch(max_linesearch_steps=20, initial_guess_strategy="one")


def lbfgs(
    learning_rate: base.ScalarOrSchedule | None = None,
    memory_size: int = 10,
    scale_init_precond: bool = True,
    linesearch: base.GradientTransformationExtraArgs | base.GradientTransformation | None = _ZOOM,
) -> base.GradientTransformationExtraArgs:
    """Return L-BFGS with a line search.

    ``update`` takes ``value=``, ``grad=`` and ``value_fn=`` for the line search.

    Args:
        learning_rate: the factor of the step before the line search; None for 1.
        memory_size: how many changes of parameters and gradients to keep.
        scale_init_precond: start from the multiple of the identity that fits the last change.
        linesearch: the line search, such as ``scale_by_zoom_linesearch``; None for none.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft, weft.numpy as jnp, weft.optim as optim
        >>> loss = lambda x: jnp.sum((x - jnp.array([1.0, 2.0])) ** 2)
        >>> opt = optim.lbfgs()
        >>> x = jnp.zeros(2)
        >>> state = opt.init(x)
        >>> for _ in range(3):
        ...     value, grad = optim.value_and_grad_from_state(loss)(x, state=state)
        ...     step, state = opt.update(grad, state, x, value=value, grad=grad, value_fn=loss)
        ...     x = optim.apply_updates(x, step)
        >>> bool(loss(x) < 1e-6)
        True
    """
    rate = scale(-1.0) if learning_rate is None else scale_by_learning_rate(learning_rate)
    search = base.identity() if linesearch is None else linesearch
    return chain(scale_by_lbfgs(memory_size, scale_init_precond), rate, search)
