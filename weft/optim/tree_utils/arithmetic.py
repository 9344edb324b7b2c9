"""Arithmetic on whole trees, leaf by leaf, and their sums, norms and moments."""

from __future__ import annotations

import functools
import operator
from typing import Any, TypeVar

import weft
import weft.numpy as jnp
from weft.optim import base
from weft.optim.numerics import abs_sq

T = TypeVar("T")


def tree_add(tree_x: T, tree_y: Any, *other_trees: Any) -> T:
    """The sum of two or more trees.

    >>> import weft.optim as optim
    >>> optim.tree.add({"a": 1, "b": 2}, {"a": 10, "b": 20})
    {'a': 11, 'b': 22}
    """
    return weft.tree.map(lambda *leaves: sum(leaves), tree_x, tree_y, *other_trees)


def tree_sub(tree_x: T, tree_y: Any) -> T:
    """`tree_x - tree_y`."""
    return weft.tree.map(operator.sub, tree_x, tree_y)


def tree_mul(tree_x: T, tree_y: Any) -> T:
    """`tree_x * tree_y`."""
    return weft.tree.map(operator.mul, tree_x, tree_y)


def tree_div(tree_x: T, tree_y: Any) -> T:
    """`tree_x / tree_y`."""
    return weft.tree.map(operator.truediv, tree_x, tree_y)


def tree_scale(scalar: Any, tree: T) -> T:
    """`scalar * tree`."""
    return weft.tree.map(lambda x: scalar * x, tree)


def tree_add_scale(tree_x: T, scalar: Any, tree_y: Any) -> T:
    """`tree_x + scalar * tree_y`."""
    scalar = jnp.asarray(scalar)
    return map_unless_none(lambda x, y: x + scalar * y, tree_x, tree_y)


def tree_vdot(tree_x: Any, tree_y: Any) -> weft.Array:
    """The inner product of two trees, conjugating the first."""
    products = weft.tree.map(_vdot, tree_x, tree_y)
    return weft.tree.reduce(operator.add, products, 0)


def _vdot(x, y):
    return jnp.vdot(x, y, precision=weft.lax.Precision.HIGHEST)


def tree_sum(tree: Any, associative_reduction: bool = False) -> Any:
    """The sum of all elements of all leaves, leaf after leaf or in pairs."""
    sums = weft.tree.map(jnp.sum, tree)
    if associative_reduction:
        return weft.tree.reduce_associative(operator.add, sums, identity=0)
    return weft.tree.reduce(operator.add, sums, 0)


def tree_max(tree: Any) -> weft.Array:
    """The largest element of all leaves; minus infinity if there is none."""
    largest = weft.tree.map(lambda x: jnp.max(x) if jnp.size(x) else None, tree)
    return weft.tree.reduce(jnp.maximum, largest, -float("inf"))


def tree_min(tree: Any) -> weft.Array:
    """The smallest element of all leaves; infinity if there is none."""
    smallest = weft.tree.map(lambda x: jnp.min(x) if jnp.size(x) else None, tree)
    return weft.tree.reduce(jnp.minimum, smallest, float("inf"))


def tree_size(tree: Any) -> int:
    """How many elements all leaves have together."""
    return sum(jnp.size(leaf) for leaf in weft.tree.leaves(tree))


def tree_conj(tree: T) -> T:
    """The complex conjugate."""
    return weft.tree.map(jnp.conj, tree)


def tree_real(tree: T) -> T:
    """The real part."""
    return weft.tree.map(jnp.real, tree)


def _square(x):
    return jnp.square(x.real) + jnp.square(x.imag) if jnp.iscomplexobj(x) else jnp.square(x)


def tree_norm(tree: Any, ord: Any = None, squared: bool = False) -> weft.Array:
    """The norm of all leaves as one vector: 2 (the default), 1 or infinity.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> float(optim.tree.norm({"a": jnp.array(3.0), "b": jnp.array(4.0)}))
    5.0
    """
    if ord is None or ord == 2:
        total = tree_sum(weft.tree.map(_square, tree))
        return jnp.asarray(total if squared else jnp.sqrt(total))
    if ord == 1:
        norm = tree_sum(weft.tree.map(jnp.abs, tree))
    elif ord in (jnp.inf, "inf", "infinity"):
        norm = tree_max(weft.tree.map(jnp.abs, tree))
    else:
        raise ValueError(f"tree_norm supports ord=None, 1, 2 and 'inf', got {ord!r}")
    return jnp.asarray(_square(jnp.asarray(norm)) if squared else norm)


def tree_batch_shape(tree: T, shape: Any = ()) -> T:
    """Every leaf broadcast to further leading dimensions."""
    return weft.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *jnp.shape(x))), tree)


def tree_zeros_like(tree: T, dtype: Any = None) -> T:
    """Zeros of the same shapes."""
    return weft.tree.map(lambda x: jnp.zeros_like(x, dtype=dtype), tree)


def tree_ones_like(tree: T, dtype: Any = None) -> T:
    """Ones of the same shapes."""
    return weft.tree.map(lambda x: jnp.ones_like(x, dtype=dtype), tree)


def tree_full_like(tree: T, fill_value: Any, dtype: Any = None) -> T:
    """One value everywhere, in the same shapes."""
    return weft.tree.map(lambda x: jnp.full_like(x, fill_value, dtype=dtype), tree)


def tree_clip(tree: T, min_value: Any = None, max_value: Any = None) -> T:
    """Every element limited to a range."""
    return weft.tree.map(lambda x: jnp.clip(x, min_value, max_value), tree)


def tree_where(condition: Any, tree_x: T, tree_y: Any) -> T:
    """`tree_x` where the condition holds, else `tree_y`."""
    return weft.tree.map(lambda x, y: jnp.where(condition, x, y), tree_x, tree_y)


def tree_allclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> weft.Array:
    """Whether all elements of two trees are close."""
    close = weft.tree.map(lambda x, y: jnp.allclose(x, y, rtol, atol, equal_nan), a, b)
    return functools.reduce(operator.and_, weft.tree.leaves(close), True)


def tree_update_moment(updates: Any, moments: T, decay: base.Numeric, order: int) -> T:
    """Return the moving average of the updates to the power of ``order``.

    Args:
        updates: the updates, a tree of arrays.
        moments: the average before, with the same structure.
        decay: the weight of the past.
        order: the power.

    Returns:
        A tree with the structure of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.tree.update_moment(jnp.array([2.0]), jnp.array([0.0]), 0.5, 2)
        Array([2.], dtype=float32)
    """
    power = (lambda g: g) if order == 1 else (lambda g: g**order)
    return map_unless_none(lambda g, m: (1 - decay) * power(g) + decay * m, updates, moments)


def tree_update_infinity_moment(updates: Any, moments: T, decay: base.Numeric, eps: float) -> T:
    """Return the larger of the update's magnitude and the decayed moment.

    Args:
        updates: the updates, a tree of arrays.
        moments: the average before, with the same structure.
        decay: the weight of the past.
        eps: a small number added to the magnitude.

    Returns:
        A tree with the structure of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.tree.update_infinity_moment(jnp.array([-2.0]), jnp.array([1.0]), 0.5, 0.0)
        Array([2.], dtype=float32)
    """
    return map_unless_none(lambda g, m: jnp.maximum(jnp.abs(g) + eps, decay * m), updates, moments)


def tree_update_moment_per_elem_norm(
    updates: Any, moments: T, decay: base.Numeric, order: int
) -> T:
    """Return the moving average of the updates' magnitudes to the power of ``order``.

    Args:
        updates: the updates, a tree of arrays.
        moments: the average before, with the same structure.
        decay: the weight of the past.
        order: the power.

    Returns:
        A tree with the structure of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.tree.update_moment_per_elem_norm(jnp.array([2.0]), jnp.array([0.0]), 0.5, 2)
        Array([2.], dtype=float32)
    """

    def power(g):
        if jnp.isrealobj(g):
            return g**order
        return abs_sq(g) ** (order // 2 if order % 2 == 0 else order / 2)

    return map_unless_none(lambda g, m: (1 - decay) * power(g) + decay * m, updates, moments)


def tree_bias_correction(moment: T, decay: base.Numeric, count: Any) -> T:
    """Return a moving average that started from zero, divided by the weight it has collected.

    Args:
        moment: the average, a tree of arrays.
        decay: the weight of the past in the average.
        count: how many steps were averaged.

    Returns:
        A tree with the structure of ``moment``.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.tree.bias_correction(jnp.array(1.5), 0.5, 1)
        Array(3., dtype=float32)
    """
    weight = 1 - jnp.asarray(decay) ** jnp.asarray(count)
    return weft.tree.map(lambda m: m / weight.astype(m.dtype), moment)


def inverse_weight(decay, count):
    """One over the weight that a moving average has collected after `count` steps."""
    return 1 / (1 - jnp.asarray(decay) ** jnp.asarray(count))


def times_inverse(moment, inverse):
    """A moving average over its weight; a division by element takes as long as all else."""
    return weft.tree.map(lambda m: m * inverse.astype(m.dtype), moment)


def map_unless_none(f, tree, *rest):
    """`f` over the leaves of trees in which None stays None."""
    return weft.tree.map(
        lambda x, *others: None if x is None else f(x, *others),
        tree,
        *rest,
        is_leaf=lambda x: x is None,
    )
