"""What optimisers are made of: pairs of `init` and `update`, and checks of what they are given."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import weft
import weft.numpy as jnp

Params = Any
Updates = Any
OptState = Any
ScheduleState = Any
Schedule = Callable[[Any], Any]
ScalarOrSchedule = float | weft.Array | Schedule
MaskOrFn = Any | Callable[[Params], Any] | None


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
    """A pair of pure functions: `init(params)` and `update(updates, state, params=None)`.

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
    """A transformation whose `update` accepts further arguments by keyword."""

    update: TransformUpdateExtraArgsFn


class EmptyState(NamedTuple):
    """The state of a transformation that keeps none."""


def init_empty_state(params: Params) -> EmptyState:
    """The `init` of a transformation without a state."""
    return EmptyState()


def identity() -> GradientTransformation:
    """Leave updates as they are."""
    return stateless(lambda updates, params: updates)


def set_to_zero() -> GradientTransformation:
    """Replace every update with zeros, which freezes the parameters."""
    return stateless(lambda updates, params: weft.tree.map(jnp.zeros_like, updates))


def stateless(f: Callable[[Updates, Params | None], Updates]) -> GradientTransformation:
    """A transformation without a state from `f(updates, params)`.

    >>> import weft.optim as optim
    >>> halve = optim.stateless(lambda updates, params: updates / 2)
    >>> halve.update(3.0, halve.init(0.0))[0]
    1.5
    """

    def update(updates, state, params=None):
        return f(updates, params), state if isinstance(state, EmptyState) else EmptyState()

    return GradientTransformation(init_empty_state, update)


def stateless_with_tree_map(f: Callable[[Any, Any], Any]) -> GradientTransformation:
    """A transformation without a state from `f(update, param)`, applied leaf by leaf."""

    def over_leaves(updates, params):
        if params is None:
            return weft.tree.map(lambda update: f(update, None), updates)
        return weft.tree.map(f, updates, params)

    return stateless(over_leaves)


def with_extra_args_support(tx: GradientTransformation) -> GradientTransformationExtraArgs:
    """The same transformation, ignoring further keyword arguments if it takes none."""
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
