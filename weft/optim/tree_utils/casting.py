"""Dtypes of whole trees, and random trees like others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import weft
import weft.numpy as jnp

T = TypeVar("T")


def tree_cast(tree: T, dtype: Any) -> T:
    """Every leaf in another dtype; None leaves the tree as it is."""
    if dtype is None:
        return tree
    return weft.tree.map(lambda x: x.astype(dtype), tree)


def tree_cast_like(tree: T, other_tree: Any) -> T:
    """Every leaf in the dtype of its counterpart."""
    return weft.tree.map(
        lambda x, other: x.astype(other.dtype) if hasattr(other, "dtype") else x, tree, other_tree
    )


def tree_dtype(tree: Any, mixed_dtype_handler: Any = None) -> Any:
    """The one dtype of all leaves.

    Several dtypes are an error, unless the handler is "promote" (what they promote to together),
    "highest" or "lowest" (the first or last of them in the order of promotion).

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> optim.tree.dtype([jnp.ones(2), jnp.ones(2, "bfloat16")], "lowest")
    dtype(bfloat16)
    """
    leaves = weft.tree.leaves(tree)
    dtypes = [jnp.asarray(leaf).dtype for leaf in leaves]
    if not leaves:
        return jnp.asarray([]).dtype
    if mixed_dtype_handler is None:
        _check_one_dtype(tree, dtypes[0])
        return dtypes[0]
    if mixed_dtype_handler == "promote":
        return functools.reduce(jnp.promote_types, dtypes)
    if mixed_dtype_handler in ("highest", "lowest"):
        return functools.reduce(functools.partial(_extreme, mixed_dtype_handler), dtypes)
    raise ValueError(
        f"mixed_dtype_handler must be None, 'promote', 'highest' or 'lowest', "
        f"got {mixed_dtype_handler!r}"
    )


def _check_one_dtype(tree, dtype):
    others = [
        f"{weft.tree_util.keystr(path) or 'the leaf'} is {jnp.asarray(leaf).dtype}"
        for path, leaf in weft.tree.leaves_with_path(tree)
        if jnp.asarray(leaf).dtype != dtype
    ]
    if others:
        raise ValueError(
            f"the first leaf is {dtype}, but {', '.join(others)}; choose a dtype with "
            "mixed_dtype_handler"
        )


def _extreme(which, first, second):
    """The higher or the lower of two dtypes, if one promotes to the other."""
    promoted = jnp.promote_types(first, second)
    if promoted not in (first, second):
        raise ValueError(f"neither of {first} and {second} promotes to the other")
    lower = second if promoted == first else first
    if which == "lowest":
        return lower
    return second if lower == first else first


def tree_split_key_like(rng_key: Any, target_tree: Any) -> Any:
    """A tree of keys, one for each leaf."""
    structure = weft.tree.structure(target_tree)
    keys = weft.random.split(rng_key, structure.num_leaves)
    return weft.tree.unflatten(structure, list(keys))


def tree_random_like(
    rng_key: Any,
    target_tree: T,
    sampler: Callable[..., Any] = weft.random.normal,
    dtype: Any = None,
) -> T:
    """A random tree of the same shapes, from `sampler(key, shape, dtype)`, a key for each leaf.

    >>> import weft, weft.numpy as jnp, weft.optim as optim
    >>> noise = optim.tree.random_like(weft.random.key(0), {"w": jnp.ones((2, 3))})
    >>> noise["w"].shape
    (2, 3)
    """
    keys = tree_split_key_like(rng_key, target_tree)
    return weft.tree.map(
        lambda leaf, key: sampler(key, leaf.shape, dtype or leaf.dtype), target_tree, keys
    )


def tree_unwrap_random_key_data(input_tree: T) -> T:
    """The tree with keys replaced by their words."""

    def unwrap(leaf):
        is_key = isinstance(leaf, weft.Array) and jnp.issubdtype(leaf.dtype, weft.dtypes.prng_key)
        return weft.random.key_data(leaf) if is_key else leaf

    return weft.tree.map(unwrap, input_tree)
