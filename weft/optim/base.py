"""What optimisers are made of: pairs of `init` and `update`, and checks of what they are given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import weft
import weft.numpy as jnp
from weft.typing import ArrayLike

Params = Any
Updates = Any
OptState = Any
ScheduleState = Any
Schedule = Callable[[Any], Any]
ScalarOrSchedule = ArrayLike | Schedule
MaskOrFn = Any | Callable[[Params], Any] | None
Numeric = ArrayLike


@runtime_checkable
class StatefulSchedule(Protocol):
    """A schedule that keeps a state of its own between steps."""

    def init(self) -> ScheduleState:
        """The state before the first step."""

    def update(self, state: ScheduleState, **extra_args: Any) -> ScheduleState:
        """The state after a step."""

    def __call__(self, state: ScheduleState, **extra_args: Any) -> Any:
        """The value for this step."""


class TransformInitFn(Protocol):
    """`init(params) -> state`."""

    def __call__(self, params: Params) -> OptState:
        """The state before the first step."""


class TransformUpdateFn(Protocol):
    """`update(updates, state, params) -> (updates, state)`."""

    def __call__(
        self, updates: Updates, state: OptState, params: Params | None = None
    ) -> tuple[Updates, OptState]:
        """The updates and the state of the next step."""


class TransformUpdateExtraArgsFn(Protocol):
    """An update that takes more by keyword, such as the value of the loss."""

    def __call__(
        self, updates: Updates, state: OptState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OptState]:
        """The updates and the state of the next step."""


class GradientTransformation(NamedTuple):
    """A pair of pure functions: ``init(params)`` and ``update(updates, state, params=None)``.

    Args:
        init: returns the state before the first step.
        update: takes gradients (or updates), the state and the parameters; returns the updates and
            the next state.

    Example:
        >>> import weft.optim as optim
        >>> double = optim.GradientTransformation(
        ...     lambda params: optim.EmptyState(), lambda g, state, params=None: (2 * g, state)
        ... )
        >>> double.update(3.0, double.init(0.0))[0]
        6.0
    """

    init: TransformInitFn
    update: TransformUpdateFn


class GradientTransformationExtraArgs(GradientTransformation):
    """A transformation whose ``update`` accepts further arguments by keyword.

    Args:
        update: takes gradients, the state, the parameters, and by keyword what else a
            transformation needs, such as ``value=``, the loss.
        init: returns the state before the first step.

    Example:
        >>> import weft.optim as optim
        >>> isinstance(optim.adam(0.1), optim.GradientTransformationExtraArgs)
        True
    """

    update: TransformUpdateExtraArgsFn


class EmptyState(NamedTuple):
    """The state of a transformation that keeps none.

    >>> import weft.optim as optim
    >>> optim.scale(2.0).init(0.0)
    EmptyState()
    """


def init_empty_state(params: Params) -> EmptyState:
    """Return an empty state: the ``init`` of a transformation that keeps none.

    Args:
        params: the parameters, which are not looked at.

    Returns:
        An ``EmptyState``.

    Example:
        >>> import weft.optim as optim
        >>> optim.init_empty_state({"w": 1.0})
        EmptyState()
    """
    return EmptyState()


def identity() -> GradientTransformation:
    """Return a transformation that leaves updates as they are.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.optim as optim
        >>> optim.identity().update(3.0, optim.EmptyState())[0]
        3.0
    """
    return stateless(lambda updates, params: updates)


def set_to_zero() -> GradientTransformation:
    """Return a transformation that replaces every update with zeros, which freezes the parameters.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.set_to_zero().update(jnp.array([3.0]), optim.EmptyState())[0]
        Array([0.], dtype=float32)
    """
    return stateless(lambda updates, params: weft.tree.map(jnp.zeros_like, updates))


def stateless(f: Callable[[Updates, Params | None], Updates]) -> GradientTransformation:
    """Return a transformation without a state, made from a function of all updates.

    Args:
        f: ``f(updates, params)`` returns the new updates.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.optim as optim
        >>> halve = optim.stateless(lambda updates, params: updates / 2)
        >>> halve.update(3.0, halve.init(0.0))[0]
        1.5
    """

    def update(updates, state, params=None):
        return f(updates, params), state if isinstance(state, EmptyState) else EmptyState()

    return GradientTransformation(init_empty_state, update)


def stateless_with_tree_map(f: Callable[[Any, Any], Any]) -> GradientTransformation:
    """Return a transformation without a state, made from a function of one leaf.

    Args:
        f: ``f(update, param)`` returns the new update. It is called for each leaf; ``param`` is
            None if ``update`` gets no parameters.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.optim as optim
        >>> halve = optim.stateless_with_tree_map(lambda update, param: update / 2)
        >>> halve.update({"w": 3.0}, halve.init({"w": 0.0}))[0]
        {'w': 1.5}
    """

    def over_leaves(updates, params):
        if params is None:
            return weft.tree.map(lambda update: f(update, None), updates)
        return weft.tree.map(f, updates, params)

    return stateless(over_leaves)


def with_extra_args_support(tx: GradientTransformation) -> GradientTransformationExtraArgs:
    """Return the same transformation, which ignores further keyword arguments if it takes none.

    Args:
        tx: a gradient transformation.

    Returns:
        A ``GradientTransformationExtraArgs``.

    Example:
        >>> import weft.optim as optim
        >>> double = optim.with_extra_args_support(optim.scale(2.0))
        >>> double.update(3.0, double.init(0.0), value=1.0)[0]
        6.0
    """
    if isinstance(tx, GradientTransformationExtraArgs):
        return tx
    if not (hasattr(tx, "init") and hasattr(tx, "update")):
        raise TypeError(
            f"expected a gradient transformation, with init and update, but got {tx!r}; call the "
            "optimiser first, as in optim.adam(1e-3), and take MultiSteps(...) as it is"
        )

    def update(updates, state, params=None, **extra_args):
        return tx.update(updates, state, params)

    return GradientTransformationExtraArgs(tx.init, update)


def own_leaves(init: Callable[[Params], Any]) -> Callable[[Params], Any]:
    """An `init` in whose state no array stands twice: such a state can be donated."""

    @functools.wraps(init)
    def with_own_leaves(params):
        seen: set[int] = set()

        def own(leaf):
            if not isinstance(leaf, weft.Array) or id(leaf) not in seen:
                seen.add(id(leaf))
                return leaf
            return jnp.array(leaf, copy=True)

        return weft.tree.map(own, init(params))

    return with_own_leaves


def check_updates(
    name: str,
    updates: Updates,
    like: Any,
    without: Callable[[Any, Any], bool] | None = None,
) -> None:
    """Refuse updates whose tree is not that of `like`, a part of the state or the parameters.

    `without(update, other)` says where one of them may be None.
    """
    if weft.tree.structure(updates) == weft.tree.structure(like):
        return
    if without is not None:
        is_none = lambda x: x is None
        if weft.tree.structure(updates, is_none) == weft.tree.structure(like, is_none):
            pairs = zip(weft.tree.leaves(updates, is_none), weft.tree.leaves(like, is_none))
            if all((u is None) == (p is None) or without(u, p) for u, p in pairs):
                return
    raise ValueError(f"{name}: {_difference(updates, like)}")


def check_params(name: str, updates: Updates, params: Params) -> None:
    """Refuse an update without the parameters, or with others than it is for."""
    check_given(name, params)
    check_updates(name, updates, params)


def check_given(name: str, params: Params) -> None:
    """Refuse an update without the parameters."""
    if params is None:
        raise ValueError(
            f"{name} needs the current parameters: write update(grads, state, params), "
            "not update(grads, state)"
        )


def check_numbers(name: str, **values: Any) -> None:
    """Refuse hyperparameters that are neither numbers nor arrays."""
    for argument, value in values.items():
        if isinstance(value, (int, float, complex)) or hasattr(value, "dtype"):
            continue
        hint = "; it takes no schedule" if callable(value) else ""
        raise TypeError(f"{name}: {argument} must be a number or an array, got {value!r}{hint}")


def _difference(updates: Updates, like: Any) -> str:
    """What first sets two trees apart, in words."""
    given, wanted = _leaves_by_path(updates), _leaves_by_path(like)
    for path, leaf in wanted.items():
        where = path or "the only leaf"
        if path in given and given[path] is None and leaf is not None:
            return (
                f"the gradient of {where} is None, but there is a parameter there. Give zeros, "
                "or leave the parameter out of both with optim.masked or optim.partition"
            )
        if path in given and leaf is None and given[path] is not None:
            return (
                f"there is a gradient for {where}, but the parameter there was None when the "
                "state was made. Call init with the parameters that are trained"
            )
    missing = [path for path in wanted if path not in given]
    extra = [path for path in given if path not in wanted]
    lines = []
    if missing:
        lines.append(f"no gradient was given for {', '.join(missing[:3])}")
    if extra:
        lines.append(f"there is no parameter for the gradient of {', '.join(extra[:3])}")
    if not lines:
        lines.append(
            f"the gradients are a {weft.tree.structure(updates)}, "
            f"the state is for a {weft.tree.structure(like)}"
        )
    return (
        "; ".join(lines) + ". The trees of gradients, parameters and state must be equal: make the "
        "state with init(params) and take the gradients with respect to the same params"
    )


def _leaves_by_path(tree: Any) -> dict[str, Any]:
    pairs = weft.tree.leaves_with_path(tree, is_leaf=lambda node: node is None)
    return {weft.tree_util.keystr(path): leaf for path, leaf in pairs}
