"""Updates preconditioned by the last changes of parameters and gradients (limited-memory BFGS)."""

from __future__ import annotations

from typing import NamedTuple

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.numerics import safe_increment


class ScaleByLBFGSState(NamedTuple):
    """The state of ``scale_by_lbfgs``.

    Args:
        count: how many steps were made.
        params: the last parameters.
        updates: the last gradients.
        diff_params_memory: the last changes of the parameters.
        diff_updates_memory: the last changes of the gradients.
        weights_memory: the inverse products of both changes.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_lbfgs(memory_size=3).init(jnp.zeros(2)).weights_memory
        Array([0., 0., 0.], dtype=float32)
    """

    count: weft.Array
    params: base.Params
    updates: base.Params
    diff_params_memory: base.Params
    diff_updates_memory: base.Params
    weights_memory: weft.Array


def scale_by_lbfgs(
    memory_size: int = 10, scale_init_precond: bool = True
) -> base.GradientTransformation:
    """Return a transformation that multiplies the gradient by an estimate of the inverse Hessian.

    The two loops of Nocedal and Wright, algorithm 7.4, over the last changes of parameters and
    gradients.

    Args:
        memory_size: how many changes to keep.
        scale_init_precond: start from the multiple of the identity that fits the last change.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_lbfgs()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.5, 1.5], dtype=float32)
    """
    if memory_size < 1:
        raise ValueError(f"scale_by_lbfgs: memory_size must be 1 or more, got {memory_size}")

    def init(params):
        zeros = weft.tree.map(lambda p: jnp.zeros((memory_size, *p.shape), p.dtype), params)
        return ScaleByLBFGSState(
            count=jnp.asarray(0, dtype=jnp.int32),
            params=tree.zeros_like(params),
            updates=tree.zeros_like(params),
            diff_params_memory=zeros,
            diff_updates_memory=zeros,
            weights_memory=jnp.zeros(memory_size),
        )

    def update(updates, state, params=None):
        base.check_params("scale_by_lbfgs", updates, params)
        base.check_updates("scale_by_lbfgs", updates, state.updates)
        started = state.count > 0
        steps, changes = tree.sub(params, state.params), tree.sub(updates, state.updates)
        product = tree.real(tree.vdot(changes, steps))
        weight = jnp.where(product == 0.0, 0.0, 1.0 / product)
        newest = weft.tree.map(
            lambda x: jnp.where(started, x, jnp.zeros_like(x)), (steps, changes, weight)
        )
        memories = state.diff_params_memory, state.diff_updates_memory, state.weights_memory
        memories = weft.tree.map(
            lambda memory, new: memory.at[(state.count - 1) % memory_size].set(new),
            memories,
            newest,
        )
        scale = 1.0
        if scale_init_precond:
            scale = _first_scale(updates, newest[0], newest[1], started)
        order = (state.count % memory_size + jnp.arange(memory_size)) % memory_size
        return _precondition(updates, memories, order, scale), ScaleByLBFGSState(
            safe_increment(state.count), params, updates, *memories
        )

    return base.GradientTransformation(init, update)


def _first_scale(updates, steps, changes, started):
    """⟨change, step⟩ / ‖change‖², or at first what makes the step no longer than 1."""
    product = tree.real(tree.vdot(changes, steps))
    squares = tree.norm(changes, squared=True)
    fitted = jnp.where(squares > 0.0, product / squares, 1.0)
    capped = jnp.minimum(1.0, 1.0 / tree.norm(lax.stop_gradient(updates)))
    return jnp.where(started, fitted, capped)


def _precondition(updates, memories, order, scale):
    """The inverse Hessian times the gradient, from the newest change to the oldest and back."""
    steps, changes, weights = memories

    def at(index):
        return weft.tree.map(lambda memory: memory[index], (steps, changes))

    def backward(vector, index):
        step, change = at(index)
        alpha = weights[index] * tree.real(tree.vdot(step, vector))
        return tree.cast_like(tree.add_scale(vector, -alpha, change), vector), alpha

    def forward(vector, index_and_alpha):
        index, alpha = index_and_alpha
        step, change = at(index)
        beta = weights[index] * tree.real(tree.vdot(change, vector))
        return tree.cast_like(tree.add_scale(vector, alpha - beta, step), vector), None

    vector, alphas = lax.scan(backward, updates, order, reverse=True)
    vector = tree.cast_like(tree.scale(scale, vector), updates)
    return lax.scan(forward, vector, (order, alphas))[0]
