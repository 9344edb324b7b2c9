"""Optimisers as triples ``(init_fun, update_fun, get_params)``.

``state = init_fun(params)``; ``state = update_fun(step, gradients, state)``;
``params = get_params(state)``. Parameters and gradients are trees of one structure. New programs
are better served by ``weft.optim``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from weft import numpy as jnp
from weft.tree.functions import tree_flatten, tree_leaves, tree_map, tree_unflatten
from weft.tree.registry import register_pytree_node

__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads",
    "constant", "exponential_decay", "inverse_time_decay", "l2_norm", "make_schedule", "momentum",
    "nesterov", "optimizer", "pack_optimizer_state", "piecewise_constant", "polynomial_decay",
    "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state",
]  # fmt: skip

Schedule = Callable[[Any], Any]

# The states of all parameters, the tree of the parameters, and the tree of each one's state.


class OptimizerState(NamedTuple):
    """The state of an optimiser of trees.

    Args:
        packed_state: the states of all parameters, as flat lists.
        tree_def: the structure of the parameters.
        subtree_defs: the structure of the state of each parameter.

    Example:
        >>> type(sgd(0.1).init_fn({"w": 1.0})).__name__
        'OptimizerState'
    """

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda trees, packed: OptimizerState(packed[0], *trees),
)


class Optimizer(NamedTuple):
    """The three functions of an optimiser.

    Args:
        init_fn: from parameters to the first state.
        update_fn: from step, gradients and state to the next state.
        params_fn: from a state to the parameters.

    Example:
        >>> sgd(0.1)._fields
        ('init_fn', 'update_fn', 'params_fn')
    """

    init_fn: Callable[[Any], Any]
    update_fn: Callable[[Any, Any, Any], Any]
    params_fn: Callable[[Any], Any]


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Return an optimiser of trees, made from one of single arrays.

    Args:
        opt_maker: a function that returns the three functions for single arrays.

    Returns:
        A function of the same arguments that returns an ``Optimizer``.

    Example:
        >>> @optimizer
        ... def descent(rate):
        ...     return (lambda x: x), (lambda i, g, x: x - rate * g), (lambda x: x)
        >>> init, update, get_params = descent(0.5)
        >>> get_params(update(0, [2.0], init([3.0])))
        [2.0]
    """

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(params: Any) -> OptimizerState:
            leaves, tree = tree_flatten(params)
            states = [tree_flatten(init(x)) for x in leaves]
            packed, subtrees = zip(*states, strict=True) if states else ((), ())
            return OptimizerState(packed, tree, subtrees)

        def tree_update(i: Any, gradients: Any, state: OptimizerState) -> OptimizerState:
            packed, tree, subtrees = state
            given, given_tree = tree_flatten(gradients)
            if given_tree != tree:
                raise TypeError(
                    "an optimiser was given gradients of another structure than the parameters:"
                    f" {given_tree} for {tree}"
                )
            states = [tree_unflatten(t, s) for t, s in zip(subtrees, packed, strict=True)]
            new = [tree_flatten(update(i, g, s)) for g, s in zip(given, states, strict=True)]
            packed, new_subtrees = zip(*new, strict=True) if new else ((), ())
            for old, found in zip(subtrees, new_subtrees, strict=True):
                if old != found:
                    raise TypeError(
                        "an optimiser's update returned a state of another structure than it was"
                        f" given: {found} for {old}"
                    )
            return OptimizerState(packed, tree, subtrees)

        def tree_params(state: OptimizerState) -> Any:
            packed, tree, subtrees = state
            states = [tree_unflatten(t, s) for t, s in zip(subtrees, packed, strict=True)]
            return tree_unflatten(tree, [get_params(s) for s in states])

        return Optimizer(tree_init, tree_update, tree_params)

    return make


# --- optimisers -----------------------------------------------------------------------------------


@optimizer
def sgd(step_size: Any) -> Any:
    """Return gradient descent: ``x - step_size * g``.

    Args:
        step_size: the step size, a number or a function of the step.

    Returns:
        An ``Optimizer``: the functions init, update and get_params.

    Example:
        >>> init, update, get_params = sgd(0.1)
        >>> float(get_params(update(0, 2.0, init(1.0))))
        0.8
    """
    rate = make_schedule(step_size)
    return (lambda x: x), (lambda i, g, x: x - rate(i) * g), (lambda x: x)


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Return gradient descent with momentum: ``v = mass * v + g``; ``x - step_size * v``.

    Args:
        step_size: the step size, a number or a function of the step.
        mass: the decay of the momentum.

    Returns:
        An ``Optimizer``: the functions init, update and get_params.

    Example:
        >>> init, update, get_params = momentum(0.1, mass=0.9)
        >>> float(get_params(update(0, 2.0, init(1.0))))
        0.800000011920929
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * velocity, velocity

    return _with_zeros(1), update, _first


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Return gradient descent with Nesterov momentum: ``x - step_size * (mass * v + g)``.

    Args:
        step_size: the step size, a number or a function of the step.
        mass: the decay of the momentum.

    Returns:
        An ``Optimizer``: the functions init, update and get_params.

    Example:
        >>> init, update, get_params = nesterov(0.1, mass=0.5)
        >>> round(float(get_params(update(0, 2.0, init(1.0)))), 4)
        0.7
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * (mass * velocity + g), velocity

    return _with_zeros(1), update, _first


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Return Adagrad (Duchi, Hazan and Singer, 2011), with momentum.

    Args:
        step_size: the step size, a number or a function of the step.
        momentum: the decay of the momentum.

    Returns:
        An ``Optimizer``: the functions init, update and get_params.

    Example:
        >>> init, update, get_params = adagrad(0.1)
        >>> round(float(get_params(update(0, jnp.array(2.0), init(jnp.array(1.0))))), 4)
        0.99
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, m = state
        squares = squares + jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * m
        return x - rate(i) * m, squares, m

    return _with_zeros(2), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """Return RMSProp: gradients over the root of the average of their squares.

    Args:
        step_size: the step size, a number or a function of the step.
        gamma: the weight of the past in the mean of squared gradients.
        eps: a small number added to the divisor.

    Returns:
        An ``Optimizer``: the functions init, update and get_params.

    Example:
        >>> init, update, get_params = rmsprop(0.1)
        >>> round(float(get_params(update(0, jnp.array(2.0), init(jnp.array(1.0))))), 4)
        0.6838
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, average = state
        average = average * gamma + jnp.square(g) * (1.0 - gamma)
        return x - rate(i) * g / jnp.sqrt(average + eps), average

    return _with_zeros(1), update, _first


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Any:
    """Return RMSProp with momentum on its steps.

    Args:
        step_size: the step size, a number or a function of the step.
        gamma: the weight of the past in the mean of squared gradients.
        eps: a small number added to the divisor.
        momentum: the decay of the momentum.

    Returns:
        An ``Optimizer``: the functions init, update and get_params.

    Example:
        >>> init, update, get_params = rmsprop_momentum(0.1)
        >>> round(float(get_params(update(0, jnp.array(2.0), init(jnp.array(1.0))))), 4)
        0.6838
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, average, step = state
        average = average * gamma + jnp.square(g) * (1.0 - gamma)
        step = momentum * step + rate(i) * g / jnp.sqrt(average + eps)
        return x - step, average, step

    return _with_zeros(2), update, _first


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Return Adam (Kingma and Ba, 2014).

    Args:
        step_size: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.

    Returns:
        An ``Optimizer``: the functions init, update and get_params.

    Example:
        >>> init, update, get_params = adam(0.1)
        >>> state = init({"w": jnp.ones(2)})
        >>> get_params(update(0, {"w": jnp.ones(2)}, state))["w"].round(3)
        Array([0.9, 0.9], dtype=float32)
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        step = jnp.asarray(i + 1, m.dtype)
        mean = m / (1 - jnp.asarray(b1, m.dtype) ** step)
        square = v / (1 - jnp.asarray(b2, m.dtype) ** step)
        return x - rate(i) * mean / (jnp.sqrt(square) + eps), m, v

    return _with_zeros(2), update, _first


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Return AdaMax: Adam with the largest gradient in place of the root of squares.

    Args:
        step_size: the step size, a number or a function of the step.
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.

    Returns:
        An ``Optimizer``: the functions init, update and get_params.

    Example:
        >>> init, update, get_params = adamax(0.1)
        >>> round(float(get_params(update(0, jnp.array(2.0), init(jnp.array(1.0))))), 4)
        0.9
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, largest = state
        m = (1 - b1) * g + b1 * m
        largest = jnp.maximum(b2 * largest, jnp.abs(g))
        step = jnp.asarray(i + 1, m.dtype)
        corrected = rate(i) / (1 - jnp.asarray(b1, m.dtype) ** step)
        return x - corrected * m / (largest + eps), m, largest

    return _with_zeros(2), update, _first


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """Return SM3 (Anil, Gupta, Koren and Singer, 2019): Adagrad in less memory.

    Args:
        step_size: the step size, a number or a function of the step.
        momentum: the decay of the momentum.

    Returns:
        An ``Optimizer``: the functions init, update and get_params.

    Example:
        >>> init, update, get_params = sm3(0.1)
        >>> get_params(update(0, jnp.array([2.0]), init(jnp.array([1.0])))).shape
        (1,)
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        per_axis = [jnp.zeros(n, jnp.result_type(x)) for n in jnp.shape(x)]
        return x, jnp.zeros_like(x), per_axis

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, per_axis = state
        spread = [
            v.reshape([-1 if axis == k else 1 for axis in range(x.ndim)])
            for k, v in enumerate(per_axis)
        ]
        least = functools.reduce(jnp.minimum, spread) if spread else jnp.zeros_like(x)
        squares = least + jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * m
        axes = range(x.ndim)
        per_axis = [squares.max(tuple(a for a in axes if a != k)) for k in axes]
        return x - rate(i) * m, m, per_axis

    return init, update, _first


def _with_zeros(count: int) -> Callable[[Any], Any]:
    return lambda x: (x, *[jnp.zeros_like(x) for _ in range(count)])


def _first(state: Any) -> Any:
    return state[0]


def _inverse_root(x: Any) -> Any:
    """One over the root of what is positive, else zero."""
    return jnp.where(x > 0, 1.0 / jnp.sqrt(x), 0.0)


# --- schedules ------------------------------------------------------------------------------------


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """Return a number as a schedule; a schedule as it is.

    Args:
        scalar_or_schedule: a number, or a function of the step.

    Returns:
        A function of the step.

    Example:
        >>> make_schedule(0.1)(7)
        0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if not isinstance(scalar_or_schedule, (list, tuple)) and jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(f"a step size is a number or a function of the step, got {scalar_or_schedule}")


def constant(step_size: Any) -> Schedule:
    """Return a schedule with the same step size always.

    Args:
        step_size: the step size.

    Returns:
        A function of the step.

    Example:
        >>> constant(0.1)(7)
        0.1
    """
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """Return the schedule ``step_size * decay_rate ** (i / decay_steps)``.

    Args:
        step_size: the first step size.
        decay_steps: how many steps the decay takes.
        decay_rate: the rate of the decay.

    Returns:
        A function of the step.

    Example:
        >>> float(exponential_decay(1.0, 10, 0.5)(10))
        0.5
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """Return the schedule ``step_size / (1 + decay_rate * i / decay_steps)``.

    Args:
        step_size: the first step size.
        decay_steps: how many steps the decay takes.
        decay_rate: the rate of the decay.
        staircase: change in jumps, every ``decay_steps`` steps.

    Returns:
        A function of the step.

    Example:
        >>> float(inverse_time_decay(1.0, 10, 1.0)(10))
        0.5
    """
    if staircase:
        return lambda i: step_size / (1 + decay_rate * jnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
) -> Schedule:
    """Return a schedule from one step size to another, by a power of the fraction of steps left.

    Args:
        step_size: the first step size.
        decay_steps: how many steps the decay takes.
        final_step_size: the last step size.
        power: the power; 1 is a line.

    Returns:
        A function of the step.

    Example:
        >>> float(polynomial_decay(1.0, 10, 0.0)(5))
        0.5
    """

    def schedule(step: Any) -> Any:
        left = 1 - jnp.minimum(step, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """Return a schedule whose value changes at each boundary.

    Args:
        boundaries: the steps at which the value changes.
        values: the values, one more than boundaries.

    Returns:
        A function of the step.

    Example:
        >>> float(piecewise_constant([10], [1.0, 0.5])(20))
        0.5
    """
    boundaries, values = jnp.array(boundaries), jnp.array(values)
    if boundaries.ndim != 1 or values.shape != (boundaries.size + 1,):
        raise ValueError(
            "piecewise_constant takes one value more than boundaries, got shapes"
            f" {values.shape} and {boundaries.shape}"
        )
    return lambda i: values[jnp.sum(i > boundaries)]


# --- gradients ------------------------------------------------------------------------------------


def l2_norm(tree: Any) -> Any:
    """Return the Euclidean norm of all arrays of a tree.

    Args:
        tree: the tree.

    Returns:
        A scalar.

    Example:
        >>> float(l2_norm([jnp.array(3.0), jnp.array(4.0)]))
        5.0
    """
    return jnp.sqrt(sum([jnp.vdot(x, x).real for x in tree_leaves(tree)]))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Return gradients scaled down to a norm, if theirs is above it.

    Args:
        grad_tree: the gradients, a tree of arrays.
        max_norm: the largest norm.

    Returns:
        A tree of the same structure.

    Example:
        >>> clip_grads([jnp.array([3.0, 4.0])], 1.0)
        [Array([0.6, 0.8], dtype=float32)]
    """
    norm = l2_norm(grad_tree)
    return tree_map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


# --- saving ---------------------------------------------------------------------------------------


class JoinPoint:
    """A mark where the state of one parameter hangs in the tree of parameters.

    Args:
        subtree: the state of the parameter.

    Example:
        >>> JoinPoint((1.0,)).subtree
        (1.0,)
    """

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """Return the state as the tree of parameters, with a ``JoinPoint`` in the place of each.

    Args:
        opt_state: the state.

    Returns:
        A tree.

    Example:
        >>> unpack_optimizer_state(sgd(0.1).init_fn({"w": 1.0}))["w"].subtree
        1.0
    """
    packed, tree, subtrees = opt_state
    states = [tree_unflatten(t, s) for t, s in zip(subtrees, packed, strict=True)]
    return tree_unflatten(tree, [JoinPoint(s) for s in states])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """Return the state that ``unpack_optimizer_state`` took apart.

    Args:
        marked_pytree: the tree with a ``JoinPoint`` in the place of each parameter.

    Returns:
        The state.

    Example:
        >>> state = sgd(0.1).init_fn({"w": 1.0})
        >>> sgd(0.1).params_fn(pack_optimizer_state(unpack_optimizer_state(state)))
        {'w': 1.0}
    """
    points, tree = tree_flatten(marked_pytree)
    if not all(isinstance(point, JoinPoint) for point in points):
        raise TypeError("pack_optimizer_state takes a tree whose leaves are JoinPoints")
    states = [tree_flatten(point.subtree) for point in points]
    packed, subtrees = zip(*states, strict=True) if states else ((), ())
    return OptimizerState(packed, tree, subtrees)
