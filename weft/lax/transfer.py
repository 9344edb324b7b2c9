"""Placement and ordering under lax's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.api.placement import check_fits
from weft.api.shardings import spread_shardings
from weft.core.sharding import NO_AXES
from weft.prims.transfer import after_all_p, create_token_p, dce_sink_p, sharding_constraint_p
from weft.tree.functions import tree_flatten, tree_unflatten


def create_token(_: Any = None) -> Any:
    """A new token, to order effects by."""
    return create_token_p.bind()


def after_all(*operands: Any) -> Any:
    """A token that comes after all of the given ones."""
    return after_all_p.bind(*operands)


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keep a tree of values from being pruned although nothing reads them."""
    for leaf in tree_flatten(val)[0]:
        dce_sink_p.bind(leaf, prevent_mlir_dce=prevent_mlir_dce)


def stage(x: Any, /) -> Any:
    """``x`` unchanged."""
    return x


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """A tree of arrays whose sharding is prescribed; ``shardings`` may be a prefix of the tree.

    >>> import weft, weft.numpy as jnp
    >>> mesh = weft.make_mesh((1,), 'x')
    >>> with_sharding_constraint(jnp.ones(2), weft.NamedSharding(mesh, weft.P('x')))
    Array([1., 1.], dtype=float32)
    """
    leaves, tree = tree_flatten(x)
    wanted = spread_shardings(shardings, x, "with_sharding_constraint")
    outs = []
    for leaf, sharding in zip(leaves, wanted, strict=True):
        # the sharding of a type that says nothing of devices, as typeof(x).sharding, asks for none
        if sharding is not None and getattr(sharding, "mesh", None) != NO_AXES:
            check_fits(sharding, np.shape(leaf), "with_sharding_constraint")
            leaf = sharding_constraint_p.bind(leaf, sharding=sharding)
        outs.append(leaf)
    return tree_unflatten(tree, outs)
