"""Policies for ``checkpoint``: which values the forward pass keeps for the backward pass.

A policy is called with a primitive, the abstract values of its operands and its parameters, and
says whether its results may be kept. Any function of that form is a policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.control.recompute import Offloadable, Recompute, Saveable
from weft.control.remat import name_p

Policy = Callable[..., Any]


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Keep every value, as if there were no checkpoint.

    Returns:
        True.

    Example:
        >>> from weft import checkpoint_policies
        >>> checkpoint_policies.everything_saveable()
        True
    """
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Compute everything again; this is what checkpoint does without a policy.

    Returns:
        False.

    Example:
        >>> from weft import checkpoint_policies
        >>> checkpoint_policies.nothing_saveable()
        False
    """
    return False


class DotsSaveable:
    """A policy that keeps matrix products and convolutions, which are expensive to compute.

    Args:
        only_if_no_batch_dims: keep only matrix products without batch dimensions.

    Example:
        >>> from weft import checkpoint_policies
        >>> checkpoint_policies.dots_saveable
        DotsSaveable(only_if_no_batch_dims=False)
    """

    def __init__(self, only_if_no_batch_dims: bool) -> None:
        self.only_if_no_batch_dims = only_if_no_batch_dims

    def __call__(self, prim: Any, *args: Any, **params: Any) -> bool:
        if not self.only_if_no_batch_dims:
            return prim.name in ("dot_general", "conv_general_dilated", "scaled_matmul_wrapper")
        if prim.name == "dot_general":
            _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
            return not lhs_batch and not rhs_batch
        return prim.name == "scaled_matmul_wrapper" and args[0].shape[0] == 1

    def __repr__(self) -> str:
        return f"DotsSaveable(only_if_no_batch_dims={self.only_if_no_batch_dims})"

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


checkpoint_dots = dots_saveable = DotsSaveable(False)
dots_with_no_batch_dims_saveable = DotsSaveable(True)
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Return a policy that keeps matrix products without batch dimensions in another memory.

    Args:
        offload_src: the memory that values come from, such as ``'device'``.
        offload_dst: the memory that they are kept in, such as ``'pinned_host'``.

    Returns:
        A policy, for ``weft.checkpoint(..., policy=...)``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> policy = offload_dot_with_no_batch_dims("device", "pinned_host")
        >>> float(weft.grad(weft.checkpoint(jnp.sin, policy=policy))(0.0))
        1.0
    """

    def policy(prim: Any, *args: Any, **params: Any) -> Any:
        if dots_with_no_batch_dims_saveable(prim, *args, **params):
            return Offloadable(src=offload_src, dst=offload_dst)
        return Recompute

    return policy


class SaveOnlyTheseNames:
    """A policy that keeps the values that ``checkpoint_name`` gave one of these names.

    Args:
        saveable_names: the names.

    Example:
        >>> from weft import checkpoint_policies
        >>> checkpoint_policies.save_only_these_names("hidden")
        SaveOnlyTheseNames(saveable_names=frozenset({'hidden'}))
    """

    def __init__(self, saveable_names: frozenset[str]) -> None:
        self.saveable_names = saveable_names

    def __call__(self, prim: Any, *_: Any, **params: Any) -> bool:
        return prim is name_p and params["name"] in self.saveable_names

    def __repr__(self) -> str:
        return f"SaveOnlyTheseNames(saveable_names={self.saveable_names})"


class SaveAnyNamesButThese:
    """A policy that keeps the values that ``checkpoint_name`` gave a name other than these.

    Args:
        names: the names.

    Example:
        >>> from weft import checkpoint_policies
        >>> checkpoint_policies.save_any_names_but_these("hidden")
        SaveAnyNamesButThese(names=frozenset({'hidden'}))
    """

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def __call__(self, prim: Any, *_: Any, **params: Any) -> bool:
        return prim is name_p and params["name"] not in self.names

    def __repr__(self) -> str:
        return f"SaveAnyNamesButThese(names={self.names})"


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Return a policy that keeps only values with one of the given names.

    Args:
        *names_which_can_be_saved: the names of values to keep.

    Returns:
        A policy, for ``weft.checkpoint(..., policy=...)``.

    Example:
        >>> save_only_these_names("hidden")
        SaveOnlyTheseNames(saveable_names=frozenset({'hidden'}))
    """
    return SaveOnlyTheseNames(frozenset(names_which_can_be_saved))


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Return a policy that keeps only named values, except those of the given names.

    Args:
        *names_not_to_save: the names of values that are computed again.

    Returns:
        A policy, for ``weft.checkpoint(..., policy=...)``.

    Example:
        >>> save_any_names_but_these("hidden")
        SaveAnyNamesButThese(names=frozenset({'hidden'}))
    """
    return SaveAnyNamesButThese(frozenset(names_not_to_save))


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Return a policy that keeps every value but those with one of the given names.

    Args:
        *names_not_to_save: the names of values that are computed again.

    Returns:
        A policy, for ``weft.checkpoint(..., policy=...)``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> policy = save_anything_except_these_names("hidden")
        >>> float(weft.grad(weft.checkpoint(jnp.sin, policy=policy))(0.0))
        1.0
    """

    def policy(prim: Any, *_: Any, **params: Any) -> bool:
        return not (prim is name_p and params["name"] in names_not_to_save)

    return policy


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Any,
    names_which_can_be_offloaded: Any,
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Return a policy that keeps values of some names, and of other names in another memory.

    Args:
        names_which_can_be_saved: the names of values to keep.
        names_which_can_be_offloaded: the names of values to keep in the other memory.
        offload_src: the memory that values come from, such as ``'device'``.
        offload_dst: the memory that they are kept in, such as ``'pinned_host'``.

    Returns:
        A policy, for ``weft.checkpoint(..., policy=...)``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> policy = save_and_offload_only_these_names(
        ...     names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"],
        ...     offload_src="device", offload_dst="pinned_host")
        >>> float(weft.grad(weft.checkpoint(jnp.sin, policy=policy))(0.0))
        1.0
    """
    saved, offloaded = set(names_which_can_be_saved), set(names_which_can_be_offloaded)
    both = saved & offloaded
    if both:
        raise ValueError(
            f"names are either saved or offloaded, but {sorted(both)} are in both"
            " names_which_can_be_saved and names_which_can_be_offloaded"
        )

    def policy(prim: Any, *_: Any, **params: Any) -> Any:
        name = params["name"] if prim is name_p else None
        if name in saved:
            return Saveable
        if name in offloaded:
            return Offloadable(src=offload_src, dst=offload_dst)
        return Recompute

    return policy


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Return a policy that keeps what either of two policies keeps.

    Args:
        policy_1: a policy.
        policy_2: another policy.

    Returns:
        A policy, for ``weft.checkpoint(..., policy=...)``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> policy = save_from_both_policies(dots_saveable, save_only_these_names("hidden"))
        >>> float(weft.grad(weft.checkpoint(jnp.sin, policy=policy))(0.0))
        1.0
    """

    def policy(prim: Any, *args: Any, **params: Any) -> bool:
        first = policy_1(prim, *args, **params)
        second = policy_2(prim, *args, **params)
        if not (isinstance(first, bool) and isinstance(second, bool)):
            raise ValueError(
                "save_from_both_policies joins policies that return a bool, but they returned"
                f" {first} and {second}; write one policy function instead"
            )
        return first or second

    return policy
