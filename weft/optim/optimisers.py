"""The optimisers by name: chains of a scaling of gradients, weight decay and a learning rate."""

import functools

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


def sgd(learning_rate, momentum=None, nesterov=False, accumulator_dtype=None):
    """Stochastic gradient descent, with momentum if given.

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
    learning_rate,
    b1=0.9,
    b2=0.999,
    eps=1e-8,
    eps_root=0.0,
    mu_dtype=None,
    *,
    nesterov=False,
):
    """Adam (Kingma and Ba, 2014): steps by the mean of the gradient over the root of its square.

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
    learning_rate,
    b1=0.9,
    b2=0.999,
    eps=1e-8,
    eps_root=0.0,
    mu_dtype=None,
    weight_decay=1e-4,
    mask=None,
    *,
    nesterov=False,
):
    """Adam with weight decay beside the gradient (Loshchilov and Hutter, 2017).

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


def adabelief(learning_rate, b1=0.9, b2=0.999, eps=1e-16, eps_root=1e-16, *, nesterov=False):
    """AdaBelief (Zhuang et al., 2020): large steps where the gradient is as predicted."""
    return chain(
        scale_by_belief(b1, b2, eps, eps_root, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


def adadelta(learning_rate=None, rho=0.9, eps=1e-6, weight_decay=0.0, weight_decay_mask=None):
    """Adadelta (Zeiler, 2012): steps in the units of the parameters."""
    return chain(
        add_decayed_weights(weight_decay, mask=weight_decay_mask),
        scale_by_adadelta(rho, eps),
        scale_by_learning_rate(learning_rate),
    )


def adafactor(
    learning_rate=None,
    min_dim_size_to_factor=128,
    decay_rate=0.8,
    decay_offset=0,
    multiply_by_parameter_scale=True,
    clipping_threshold=1.0,
    momentum=None,
    dtype_momentum=jnp.float32,
    weight_decay_rate=None,
    eps=1e-30,
    factored=True,
    weight_decay_mask=None,
):
    """Adafactor (Shazeer and Stern, 2018): second moments as rows and columns, to save memory."""
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


def adagrad(learning_rate, initial_accumulator_value=0.1, eps=1e-7):
    """Adagrad (Duchi et al., 2011): steps over the root of the sum of squared gradients."""
    return chain(
        scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate)
    )


def adamax(learning_rate, b1=0.9, b2=0.999, eps=1e-8):
    """Adam with the largest magnitude in place of the second moment."""
    return chain(scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adamaxw(learning_rate, b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-4, mask=None):
    """Adamax with weight decay."""
    return chain(
        scale_by_adamax(b1, b2, eps),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def adan(
    learning_rate,
    b1=0.98,
    b2=0.92,
    b3=0.99,
    eps=1e-8,
    eps_root=1e-8,
    weight_decay=0.0,
    mask=None,
):
    """Adan (Xie et al., 2022): Nesterov's momentum from the change of the gradient."""
    return chain(
        scale_by_adan(b1, b2, b3, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def amsgrad(
    learning_rate,
    b1=0.9,
    b2=0.999,
    eps=1e-8,
    eps_root=0.0,
    mu_dtype=None,
    bias_correction_mu=True,
    bias_correction_nu=True,
):
    """Adam whose second moment never falls (Reddi et al., 2018)."""
    return chain(
        scale_by_amsgrad(b1, b2, eps, eps_root, mu_dtype, bias_correction_mu, bias_correction_nu),
        scale_by_learning_rate(learning_rate),
    )


def fromage(learning_rate, min_norm=1e-6):
    """Fromage (Bernstein et al., 2020): steps relative to the norm of each leaf."""

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
    learning_rate,
    weight_decay=0.0,
    weight_decay_mask=True,
    trust_coefficient=0.001,
    eps=0.0,
    trust_ratio_mask=True,
    momentum=0.9,
    nesterov=False,
):
    """LARS (You et al., 2017): momentum with steps relative to the norm of each leaf."""
    return chain(
        add_decayed_weights(weight_decay, mask=weight_decay_mask),
        masked(
            scale_by_trust_ratio(trust_coefficient=trust_coefficient, eps=eps), trust_ratio_mask
        ),
        scale_by_learning_rate(learning_rate),
        trace(momentum, nesterov),
    )


def lamb(learning_rate, b1=0.9, b2=0.999, eps=1e-6, eps_root=0.0, weight_decay=0.0, mask=None):
    """LAMB (You et al., 2019): Adam with steps relative to the norm of each leaf."""
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )


def lion(learning_rate, b1=0.9, b2=0.99, mu_dtype=None, weight_decay=1e-3, mask=None):
    """Lion (Chen et al., 2023): the sign of a mean of gradient and momentum."""
    return chain(
        scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def noisy_sgd(learning_rate, eta=0.01, gamma=0.55, key=None, *, seed=None):
    """Gradient descent with noise that fades (Neelakantan et al., 2014)."""
    return chain(add_noise(eta, gamma, key, seed=seed), scale_by_learning_rate(learning_rate))


def sign_sgd(learning_rate):
    """Steps by the sign of the gradient."""
    return chain(scale_by_sign(), scale_by_learning_rate(learning_rate))


def signum(learning_rate, beta=0.9, accumulator_dtype=None):
    """Steps by the sign of the momentum."""
    return chain(
        ema(beta, debias=False, accumulator_dtype=accumulator_dtype),
        scale_by_sign(),
        scale_by_learning_rate(learning_rate),
    )


def novograd(learning_rate, b1=0.9, b2=0.25, eps=1e-6, eps_root=0.0, weight_decay=0.0):
    """NovoGrad (Ginsburg et al., 2019): momentum of gradients over their norm by leaf."""
    return chain(
        scale_by_novograd(b1, b2, eps, eps_root, weight_decay),
        scale_by_learning_rate(learning_rate),
    )


def optimistic_gradient_descent(learning_rate, alpha=1.0, beta=1.0):
    """Gradient descent that extrapolates from the last gradient, for games."""
    return chain(scale_by_optimistic_gradient(alpha, beta), scale_by_learning_rate(learning_rate))


def optimistic_adam(
    learning_rate,
    optimism=None,
    b1=0.9,
    b2=0.999,
    eps=1e-8,
    eps_root=0.0,
    mu_dtype=None,
    *,
    nesterov=True,
):
    """Adam that extrapolates from the last update; the older form of `optimistic_adam_v2`."""
    warn("optimistic_adam is deprecated, use optimistic_adam_v2", DeprecationWarning)
    if callable(learning_rate):
        raise ValueError("optimistic_adam takes no schedule; use optimistic_adam_v2")
    optimism = learning_rate if optimism is None else optimism
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_optimistic_gradient(learning_rate, optimism),
        scale_by_learning_rate(1.0),
    )


def optimistic_adam_v2(
    learning_rate,
    *,
    alpha=1.0,
    beta=1.0,
    b1=0.9,
    b2=0.999,
    eps=1e-8,
    eps_root=0.0,
    mu_dtype=None,
    nesterov=True,
):
    """Adam that extrapolates from the last update (Daskalakis et al., 2017)."""
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_optimistic_gradient(alpha, beta),
        scale_by_learning_rate(learning_rate),
    )


def radam(
    learning_rate, b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, threshold=5.0, *, nesterov=False
):
    """Rectified Adam (Liu et al., 2019): cautious until the variance is known."""
    return chain(
        scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate,
    decay=0.9,
    eps=1e-8,
    initial_scale=0.0,
    eps_in_sqrt=True,
    centered=False,
    momentum=None,
    nesterov=False,
    bias_correction=False,
):
    """RMSProp: steps over the root of the mean squared gradient, centred or not."""
    scaling = scale_by_stddev if centered else scale_by_rms
    return chain(
        scaling(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        base.identity() if momentum is None else trace(momentum, nesterov),
    )


def rprop(learning_rate, eta_minus=0.5, eta_plus=1.2, min_step_size=1e-6, max_step_size=50.0):
    """Rprop (Riedmiller and Braun, 1993): a step size for each element, from signs alone."""
    return chain(
        scale_by_rprop(learning_rate, eta_minus, eta_plus, min_step_size, max_step_size),
        scale(-1.0),
    )


def sm3(learning_rate, momentum=0.9):
    """SM3 (Anil et al., 2019): Adagrad with accumulators for rows and columns."""
    return chain(scale_by_sm3(momentum), scale(-learning_rate))


def yogi(learning_rate, b1=0.9, b2=0.999, eps=1e-3):
    """Yogi (Zaheer et al., 2018): Adam whose second moment changes gently."""
    return chain(scale_by_yogi(b1, b2, eps), scale_by_learning_rate(learning_rate))


def polyak_sgd(max_learning_rate=1.0, scaling=1.0, f_min=0.0, eps=0.0, variant="sps"):
    """Gradient descent with the Polyak step size; `update` takes the loss as `value=`.

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
    learning_rate=None,
    memory_size=10,
    scale_init_precond=True,
    linesearch=_ZOOM,
):
    """L-BFGS with a line search; `update` takes `value=`, `grad=` and `value_fn=` for it.

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
