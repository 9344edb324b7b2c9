"""Products with the Hessian and its diagonal: ``weft.optim.second_order``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import weft
import weft.numpy as jnp
from weft.flatten_util import ravel_pytree

T = TypeVar("T")


def hvp(loss: Callable[..., Any], v: Any, params: T, inputs: Any, targets: Any) -> T:
    """The Hessian of `loss(params, inputs, targets)` times `v`, a flat vector; as a tree.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> loss = lambda params, inputs, targets: jnp.sum((inputs * params - targets) ** 2)
    >>> x = jnp.array([1.0, 2.0])
    >>> optim.second_order.hvp(loss, jnp.ones(2), jnp.zeros(2), x, x)
    Array([2., 8.], dtype=float32)
    """
    _, unravel = ravel_pytree(params)
    gradient = weft.grad(lambda p: loss(p, inputs, targets))
    return weft.jvp(gradient, [params], [unravel(v)])[1]


def hessian_diag(loss: Callable[..., Any], params: Any, inputs: Any, targets: Any) -> weft.Array:
    """The diagonal of the Hessian, as a flat vector."""

    def entry(v):
        return jnp.vdot(v, ravel_pytree(hvp(loss, v, params, inputs, targets))[0])

    flat, _ = ravel_pytree(params)
    return weft.vmap(entry)(jnp.eye(flat.size, dtype=flat.dtype))


def fisher_diag(
    negative_log_likelihood: Callable[..., Any], params: Any, inputs: Any, targets: Any
) -> weft.Array:
    """The squared gradient, as a flat vector: the diagonal of the observed Fisher information."""
    gradient = weft.grad(negative_log_likelihood)(params, inputs, targets)
    return jnp.square(ravel_pytree(gradient)[0])
