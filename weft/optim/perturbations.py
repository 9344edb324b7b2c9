"""Functions made differentiable by noise on their input: ``weft.optim.perturbations``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import tree

R = TypeVar("R")


class Normal:
    """Normal noise."""

    def sample(self, key, sample_shape=(), dtype=float):
        """Draws of a shape."""
        return weft.random.normal(key, sample_shape, dtype)

    def log_prob(self, inputs):
        """The logarithm of the density, up to a constant."""
        return -0.5 * inputs**2


class Gumbel:
    """Gumbel noise."""

    def sample(self, key, sample_shape=(), dtype=float):
        """Draws of a shape."""
        return weft.random.gumbel(key, sample_shape, dtype)

    def log_prob(self, inputs):
        """The logarithm of the density."""
        return -inputs - jnp.exp(-inputs)


_GUMBEL = Gumbel()


def make_perturbed_fun(
    fun: Callable[..., R],
    num_samples: int = 1000,
    sigma: float | weft.Array = 0.1,
    noise: Any = _GUMBEL,
    use_baseline: bool = True,
) -> Callable[..., R]:
    """The mean of `fun` over noise on its input (Berthet et al., 2020), as `f(key, x)`.

    It has derivatives even where `fun` has none, by the score of the noise, less noisy with the
    baseline fun(x).

    >>> import weft, weft.numpy as jnp, weft.optim as optim
    >>> hard = lambda x: weft.nn.one_hot(jnp.argmax(x), 3)
    >>> soft = optim.perturbations.make_perturbed_fun(hard, num_samples=100, sigma=0.5)
    >>> soft(weft.random.key(0), jnp.array([0.1, 0.2, 2.0])).shape
    (3,)
    """

    def estimate(key, x, baseline):
        sample = tree.random_like(key, x, sampler=noise.sample)
        shifted = lax.stop_gradient(tree.add_scale(x, sigma, sample))
        # The same draw as a function of x: its log-density carries the derivative.
        draw = weft.tree.map(lambda x, y: (y - x) / sigma, x, shifted)
        log_prob = tree.sum(weft.tree.map(noise.log_prob, draw))
        one = jnp.exp(log_prob - lax.stop_gradient(log_prob))
        value = tree.scale(one, fun(shifted))
        return tree.add_scale(value, 1 - one, baseline) if use_baseline else value

    def perturbed(key, x):
        baseline = fun(lax.stop_gradient(x)) if use_baseline else None
        keys = weft.random.split(key, num_samples)
        values = weft.vmap(estimate, in_axes=(0, None, None))(keys, x, baseline)
        return weft.tree.map(lambda v: jnp.mean(v, axis=0), values)

    return perturbed
