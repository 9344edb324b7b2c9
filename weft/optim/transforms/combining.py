"""Several transformations made one: after each other, or each for its own parameters."""

import collections
from collections.abc import Hashable, Mapping
from typing import NamedTuple

import weft
from weft.optim import base
from weft.optim.transforms.masking import masked


class PartitionState(NamedTuple):
    """The states of the groups, by label."""

    inner_states: Mapping[Hashable, base.OptState]


def chain(*args):
    """Apply transformations one after the other.

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
                f"chain of {len(transforms)} transformations got a state of another optimiser; "
                "make it with the init of this one and pass on what update returns"
            )
        states = []
        for tx, inner in zip(transforms, state, strict=True):
            updates, inner = tx.update(updates, inner, params, **extra_args)
            states.append(inner)
        return updates, tuple(states)

    return base.GradientTransformationExtraArgs(init, update)


def named_chain(*args):
    """A chain from pairs of a name and a transformation; its state is a dictionary."""
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


def partition(transforms, param_labels, *, mask_compatible_extra_args=False):
    """A transformation for each group of parameters.

    `transforms` goes from labels to transformations, `param_labels` is a tree of labels (or a
    prefix of it), or a function of the parameters that gives one.

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
                f"there are {sorted(map(str, transforms))}"
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


def freeze(mask):
    """Zero updates where the mask is true."""
    return masked(base.set_to_zero(), mask)


def selective_transform(optimizer, *, freeze_mask):
    """Apply the optimiser where the mask is false; zero updates where it is true."""

    def labels(params):
        return weft.tree.map(lambda frozen: "freeze" if frozen else "train", freeze_mask)

    return partition({"train": optimizer, "freeze": base.set_to_zero()}, labels)
