"""A transformation for some of the parameters only."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft.optim import base
from weft.optim.tree_utils.states import ParamsPlaceholder


class MaskedState(NamedTuple):
    """The state of ``masked``.

    Args:
        inner_state: the state of the inner transformation, for the parameters it sees.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.masked(optim.trace(0.9), {"w": True, "b": False}).init({"w": 1.0, "b": 1.0})
        MaskedState(inner_state=TraceState(trace={'b': MaskedNode(), 'w': Array(0.,
         dtype=float32, weak_type=True)}))
    """

    inner_state: Any


class MaskedNode(NamedTuple):
    """The placeholder of a parameter that the inner transformation of ``masked`` does not see.

    >>> import weft.optim as optim
    >>> optim.MaskedNode()
    MaskedNode()
    """


def masked(
    inner: base.GradientTransformation,
    mask: base.MaskOrFn,
    *,
    mask_compatible_extra_args: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return a transformation that applies ``inner`` only where a mask is True.

    Args:
        inner: the transformation to apply.
        mask: a tree of booleans with the structure of the parameters or a prefix of it, or a
            function of the parameters that returns one.
        mask_compatible_extra_args: mask those keyword arguments of ``update`` too that have the
            structure of the parameters.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.masked(optim.scale(-1.0), {"w": True, "b": False})
        >>> params = {"w": jnp.array(1.0), "b": jnp.array(1.0)}
        >>> updates, state = opt.update(params, opt.init(params))
        >>> float(updates["w"]), float(updates["b"])
        (-1.0, 1.0)
    """
    inner = base.with_extra_args_support(inner)

    def mask_of(like):
        return mask(like) if _is_function(mask) else mask

    def hide(mask_tree, values, what):
        try:
            return weft.tree.map(lambda m, x: x if m else MaskedNode(), mask_tree, values)
        except ValueError as error:
            raise ValueError(
                f"masked: the mask's tree does not match the {what}. It must be the same tree, or "
                f"a prefix of it with one boolean per subtree: {error}"
            ) from None

    def hide_extra_args(extra_args, updates, mask_tree):
        if not mask_compatible_extra_args:
            return extra_args
        structure = weft.tree.structure(updates)
        return {
            name: hide(mask_tree, value, name) if weft.tree.structure(value) == structure else value
            for name, value in extra_args.items()
        }

    def init(params):
        if isinstance(params, ParamsPlaceholder):
            return MaskedState(inner.init(params))
        return MaskedState(inner.init(hide(mask_of(params), params, "parameters")))

    def update(updates, state, params=None, **extra_args):
        mask_tree = mask_of(updates)
        new, inner_state = inner.update(
            hide(mask_tree, updates, "updates"),
            state.inner_state,
            None if params is None else hide(mask_tree, params, "parameters"),
            **hide_extra_args(extra_args, updates, mask_tree),
        )
        merged = weft.tree.map(lambda m, new, old: new if m else old, mask_tree, new, updates)
        return merged, MaskedState(inner_state)

    return base.GradientTransformationExtraArgs(init, update)


def _is_function(mask) -> bool:
    """Whether the mask is to be called: a tree may itself be callable, its leaves are not."""
    leaves = weft.tree.leaves(mask)
    return bool(leaves) and all(callable(leaf) for leaf in leaves)
