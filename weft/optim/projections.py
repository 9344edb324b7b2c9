"""Nearest points of sets, for trees: ``weft.optim.projections``."""

from __future__ import annotations

from typing import Any, TypeVar

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.flatten_util import ravel_pytree
from weft.optim import tree as _tree

T = TypeVar("T")


def projection_non_negative(tree: T) -> T:
    """Onto what is not negative."""
    return weft.tree.map(weft.nn.relu, tree)


def projection_box(tree: T, lower: Any, upper: Any) -> T:
    """Onto what lies between two trees, or two numbers."""

    def bounds(limit):
        if weft.tree.structure(limit) == weft.tree.structure(tree):
            return limit
        return weft.tree.broadcast(limit, tree)

    return weft.tree.map(jnp.clip, tree, bounds(lower), bounds(upper))


def projection_hypercube(tree: T, scale: Any = 1) -> T:
    """Onto [0, scale] in every element."""
    return projection_box(tree, 0, scale)


@weft.custom_jvp
def _unit_simplex(values):
    """By sorting (Held et al., 1974): all above one threshold are kept and lowered by it."""
    descending = jnp.sort(values)[::-1]
    sums = jnp.cumsum(descending)
    counts = jnp.arange(values.shape[0]) + 1
    kept = jnp.count_nonzero(1 / counts + (descending - sums / counts) > 0)
    return weft.nn.relu(1 / kept + (values - sums[kept - 1] / kept))


@_unit_simplex.defjvp
def _unit_simplex_jvp(primals, tangents):
    (values,), (direction,) = primals, tangents
    projected = _unit_simplex(values)
    support = (projected > 0).astype(values.dtype)
    mean = jnp.dot(support, direction) / jnp.count_nonzero(support)
    return projected, support * direction - mean * support


def projection_simplex(tree: T, scale: Any = 1) -> T:
    """Onto what is not negative and sums to `scale`.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> optim.projections.projection_simplex(jnp.array([2.0, 0.5, 1.5]))
    Array([0.75, 0.  , 0.25], dtype=float32)
    """
    if weft.tree.leaves(tree) == []:
        raise ValueError("projection_simplex: there is nothing to project in an empty tree")
    values, unravel = ravel_pytree(tree)
    return unravel(scale * _unit_simplex(values / scale))


def projection_l1_sphere(tree: T, scale: Any = 1) -> T:
    """Onto what has magnitudes that sum to `scale`."""
    sizes = projection_simplex(weft.tree.map(jnp.abs, tree), scale)
    return _tree.mul(weft.tree.map(jnp.sign, tree), sizes)


def projection_l1_ball(tree: T, scale: Any = 1) -> T:
    """Onto what has magnitudes that sum to `scale` or less."""
    inside = _tree.norm(tree, ord=1) <= scale
    return lax.cond(inside, lambda x: x, lambda x: projection_l1_sphere(x, scale), tree)


def projection_l2_sphere(tree: T, scale: Any = 1) -> T:
    """Onto what has the norm `scale`."""
    return _tree.scale(scale / _tree.norm(tree), tree)


def projection_l2_ball(tree: T, scale: Any = 1) -> T:
    """Onto what has the norm `scale` or less."""
    squares = _tree.norm(tree, squared=True)
    return _tree.scale(scale / jnp.sqrt(jnp.maximum(squares, scale**2)), tree)


def projection_linf_ball(tree: T, scale: Any = 1) -> T:
    """Onto what has no magnitude above `scale`."""
    return projection_box(tree, -scale, scale)


def projection_vector(x: T, a: Any) -> T:
    """Onto the line through zero and `a`."""
    return _tree.scale(_tree.vdot(x, a) / _tree.vdot(a, a), a)


def projection_hyperplane(x: T, a: Any, b: Any) -> T:
    """Onto ⟨a, x⟩ = b."""
    return _tree.add_scale(x, (b - _tree.vdot(x, a)) / _tree.vdot(a, a), a)


def projection_halfspace(x: T, a: Any, b: Any) -> T:
    """Onto ⟨a, x⟩ ≤ b."""
    excess = (b - _tree.vdot(x, a)) / _tree.vdot(a, a)
    return _tree.add_scale(x, jnp.clip(excess, max=0), a)
