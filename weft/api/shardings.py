"""Shardings of a jitted function's arguments and results: what is given, checked and put there."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.api.placement import check_fits, current_mesh, where_to
from weft.core.sharding import NamedSharding, PartitionSpec, Sharding, UnspecifiedValue
from weft.core.trace import Tracer
from weft.runtime.array import ArrayImpl, from_numpy
from weft.runtime.places import array_type, on_device, placement
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_unflatten


def is_given(shardings: Any) -> bool:
    """Whether anything is said of where values are."""
    leaves, _ = tree_flatten(shardings, is_leaf=_is_leaf)
    return any(x is not None and not isinstance(x, UnspecifiedValue) for x in leaves)


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec, UnspecifiedValue))


def spread_shardings(shardings: Any, tree: Any, what: str) -> list[Sharding | None]:
    """The sharding of each leaf of a tree, of which shardings are a prefix."""
    try:
        found = broadcast_prefix(shardings, tree, is_leaf=_is_leaf)
    except ValueError as error:
        raise ValueError(f"the shardings of {what} do not fit: {error}") from None
    return [_full(s, what) for s in found]


def _full(sharding: Any, what: str) -> Sharding | None:
    if sharding is None or isinstance(sharding, (Sharding, UnspecifiedValue)):
        return sharding if isinstance(sharding, Sharding) else None
    if not isinstance(sharding, PartitionSpec):
        raise ValueError(
            f"{what} takes shardings, partition specs or None, got {sharding!r}; write"
            " NamedSharding(mesh, P('x'))"
        )
    try:
        return NamedSharding(current_mesh(), sharding)
    except ValueError as error:
        raise RuntimeError(f"{what}: {error}") from None


def put_arguments(shardings: Any, device: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """Arguments placed as the shardings of a function say, or on its device."""
    leaves, tree = tree_flatten(args)
    if device is not None:
        places = [on_device(device)] * len(leaves)
        moved = [_moved(x, w) for x, w in zip(leaves, places, strict=True)]
        return tree_unflatten(tree, moved), kwargs
    if not is_given(shardings):
        return args, kwargs
    if kwargs:
        raise ValueError(
            "a function with in_shardings takes its arguments by position, got"
            f" {', '.join(kwargs)} by name"
        )
    if isinstance(shardings, list):
        shardings = tuple(shardings)
    if isinstance(shardings, tuple) and not _is_leaf(shardings) and len(shardings) != len(args):
        raise ValueError(
            f"in_shardings of jit are for {len(shardings)} arguments, and it is called with"
            f" {len(args)}; give one sharding for all, or a tuple with one for each"
        )
    wanted = spread_shardings(shardings, args, "in_shardings of jit")
    found = [_put(x, s, i) for i, (x, s) in enumerate(zip(leaves, wanted, strict=True))]
    return tree_unflatten(tree, found), kwargs


def _moved(x: Any, where: Any) -> Any:
    if isinstance(x, Tracer):
        return x
    return (x if type(x) is ArrayImpl else from_numpy(np.asarray(x)))._at(where)


def _put(x: Any, sharding: Sharding | None, number: int) -> Any:
    if sharding is None or isinstance(x, Tracer):
        return x
    check_fits(sharding, np.shape(x), f"in_shardings of jit, leaf {number}:")
    if type(x) is ArrayImpl and x.committed:
        if sharding.is_equivalent_to(x.sharding, x.ndim):
            return x
        raise ValueError(
            f"in_shardings of jit say {sharding} for leaf {number} of the arguments,"
            f" {x.aval.str_short()}, which is committed to {x.sharding}; move it first with"
            " device_put, or leave that sharding out (None)"
        )
    return _moved(x, where_to(x, sharding))


def put_results(shardings: Any, outs: list[Any], tree: Any) -> list[Any]:
    """Results placed as ``out_shardings`` say."""
    if not is_given(shardings):
        return outs
    wanted = spread_shardings(shardings, tree_unflatten(tree, outs), "out_shardings of jit")
    for x, sharding in zip(outs, wanted, strict=True):
        if sharding is not None and type(x) is ArrayImpl:
            check_fits(sharding, x.shape, "out_shardings of jit:")
            x._type = array_type(x.aval, placement(sharding, True))
    return outs
