"""Several transformations made one: after each other, or each for its own parameters."""

from __future__ import annotations

import collections
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import weft
from weft.optim import base
from weft.optim.transforms.masking import masked


class PartitionState(NamedTuple):
    """The state of ``partition``.

    Args:
        inner_states: the state of each group, by its label.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.partition({"a": optim.scale(2.0)}, "a")
        >>> opt.init(jnp.zeros(2))
        PartitionState(inner_states={'a': MaskedState(inner_state=EmptyState())})
    """

    inner_states: Mapping[Hashable, base.OptState]


def chain(*args: base.GradientTransformation) -> base.GradientTransformationExtraArgs:
    """Return a transformation that applies others one after the other.

    Args:
        *args: the transformations, in order. The state is the tuple of their states.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.optim as optim
        >>> opt = optim.chain(optim.scale(2.0), optim.scale(-0.5))
        >>> opt.update(3.0, opt.init(0.0))[0]
        -3.0
    """
    transforms = [base.with_extra_args_support(tx) for tx in args]

    def init(params):
        return tuple(tx.init(params) for tx in transforms)

    def update(updates, state, params=None, **extra_args):
        if not isinstance(state, tuple) or len(state) != len(transforms):
            raise ValueError(
                f"chain of {len(transforms)} transformations got the state of another optimiser; "
                "create the state with this optimiser's init, and pass the state that update "
                "returns"
            )
        states = []
        for tx, inner in zip(transforms, state, strict=True):
            updates, inner = tx.update(updates, inner, params, **extra_args)
            states.append(inner)
        return updates, tuple(states)

    return base.GradientTransformationExtraArgs(init, update)


def named_chain(
    *args: tuple[str, base.GradientTransformation],
) -> base.GradientTransformationExtraArgs:
    """Return a chain of named transformations, whose state is a dictionary.

    Args:
        *args: pairs of a name and a transformation, in order.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.optim as optim
        >>> opt = optim.named_chain(("double", optim.scale(2.0)), ("flip", optim.scale(-1.0)))
        >>> opt.update(3.0, opt.init(0.0))[0]
        -6.0
    """
    names = [name for name, _ in args]
    if len(names) != len(set(names)):
        raise ValueError(f"named_chain: each name may be used once, got {names}")
    transforms = [(name, base.with_extra_args_support(tx)) for name, tx in args]

    def init(params):
        return collections.OrderedDict((name, tx.init(params)) for name, tx in transforms)

    def update(updates, state, params=None, **extra_args):
        states = collections.OrderedDict()
        for name, tx in transforms:
            updates, states[name] = tx.update(updates, state[name], params, **extra_args)
        return updates, states

    return base.GradientTransformationExtraArgs(init, update)


def partition(
    transforms: Mapping[Any, base.GradientTransformation],
    param_labels: Any,
    *,
    mask_compatible_extra_args: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return a transformation that applies another one to each group of parameters.

    Args:
        transforms: the transformation of each group, by label.
        param_labels: a tree of labels with the structure of the parameters or a prefix of it, or a
            function of the parameters that returns one.
        mask_compatible_extra_args: divide those keyword arguments of ``update`` too that have the
            structure of the parameters.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.partition(
        ...     {"fast": optim.sgd(1.0), "slow": optim.sgd(0.1)}, {"w": "slow", "b": "fast"}
        ... )
        >>> params = {"w": jnp.array(1.0), "b": jnp.array(1.0)}
        >>> updates, state = opt.update(params, opt.init(params))
        >>> float(updates["b"])
        -1.0
    """
    transforms = {label: base.with_extra_args_support(tx) for label, tx in transforms.items()}

    def groups(params):
        labels = param_labels(params) if callable(param_labels) else param_labels
        unknown = set(weft.tree.leaves(labels)) - transforms.keys()
        if unknown:
            raise ValueError(
                f"partition has no transformation for the labels {sorted(map(str, unknown))}; "
                f"it has {sorted(map(str, transforms))}"
            )
        for label, tx in transforms.items():
            mask = weft.tree.map(lambda name, label=label: name == label, labels)
            yield label, masked(tx, mask, mask_compatible_extra_args=mask_compatible_extra_args)

    def init(params):
        return PartitionState({label: tx.init(params) for label, tx in groups(params)})

    def update(updates, state, params=None, **extra_args):
        states = {}
        for label, tx in groups(updates):
            inner = state.inner_states[label]
            updates, states[label] = tx.update(updates, inner, params, **extra_args)
        return updates, PartitionState(states)

    return base.GradientTransformationExtraArgs(init, update)


def freeze(mask: base.MaskOrFn) -> base.GradientTransformationExtraArgs:
    """Return a transformation that replaces updates with zeros where a mask is True.

    Args:
        mask: a tree of booleans, or a function of the parameters that returns one.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.freeze({"w": False, "b": True})
        >>> grads = {"w": jnp.array(1.0), "b": jnp.array(1.0)}
        >>> updates, state = opt.update(grads, opt.init(grads))
        >>> float(updates["w"]), float(updates["b"])
        (1.0, 0.0)
    """
    return masked(base.set_to_zero(), mask)


def selective_transform(
    optimizer: base.GradientTransformation, *, freeze_mask: Any
) -> base.GradientTransformationExtraArgs:
    """Return an optimiser of some parameters that leaves the others as they are.

    Args:
        optimizer: the optimiser of the parameters that are not frozen.
        freeze_mask: a tree of booleans, True for the parameters to freeze.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.selective_transform(optim.sgd(0.5), freeze_mask={"w": False, "b": True})
        >>> grads = {"w": jnp.array(1.0), "b": jnp.array(1.0)}
        >>> updates, state = opt.update(grads, opt.init(grads))
        >>> float(updates["w"]), float(updates["b"])
        (-0.5, 0.0)
    """

    def labels(params):
        return weft.tree.map(lambda frozen: "freeze" if frozen else "train", freeze_mask)

    return partition({"train": optimizer, "freeze": base.set_to_zero()}, labels)
