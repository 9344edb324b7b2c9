"""Placement and ordering under lax's names."""

from __future__ import annotations

from typing import Any

from weft.prims.transfer import after_all_p, create_token_p, dce_sink_p, sharding_constraint_p
from weft.tree.functions import tree_flatten, tree_map


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
    """A tree of arrays whose sharding is prescribed inside a compiled function."""

    def constrain(leaf: Any) -> Any:
        return sharding_constraint_p.bind(leaf, sharding=shardings)

    return tree_map(constrain, x)
