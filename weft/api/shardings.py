"""Shardings of a jitted function's arguments and results: what is given, checked and put there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.api.placement import check_fits, current_mesh
from weft.core.registry import lookup
from weft.core.sharding import (
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    UnspecifiedValue,
)
from weft.core.trace import typeof
from weft.runtime.array import ArrayImpl
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


def _of_arguments(shardings: Any, args: tuple[Any, ...], kwargs: Any) -> list[Sharding | None]:
    """The sharding of each leaf of a function's arguments."""
    if not is_given(shardings):
        return [None] * tree_flatten(args)[1].num_leaves
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
    return spread_shardings(shardings, tuple(args), "in_shardings of jit")


def check_arguments(shardings: Any, args: Any, kwargs: Any) -> None:
    """Raise ValueError where an argument does not fit its sharding, or is committed to another."""
    wanted = _of_arguments(shardings, tuple(args), kwargs)
    for i, (x, sharding) in enumerate(zip(tree_flatten(tuple(args))[0], wanted, strict=True)):
        if sharding is None:
            continue
        check_fits(sharding, np.shape(x), f"in_shardings of jit, leaf {i}:")
        if type(x) is not ArrayImpl or not x.committed:
            continue
        if not sharding.is_equivalent_to(x.sharding, x.ndim):
            raise ValueError(
                f"in_shardings of jit say {sharding} for leaf {i} of the arguments,"
                f" {x.aval.str_short()}, which is committed to {x.sharding}; move it first with"
                " device_put, or leave that sharding out (None)"
            )


def placing(fun: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """A function whose arguments and results are constrained to the shardings of its options."""
    device = options["device"]
    here = None if device is None else SingleDeviceSharding(device)

    @functools.wraps(fun, updated=())
    def placed(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten(args)
        wanted = _of_arguments(options["in_shardings"], args, kwargs)
        given = [_constrained(x, s or here, "in") for x, s in zip(leaves, wanted, strict=True)]
        result = fun(*tree_unflatten(tree, given), **kwargs)
        outs, out_tree = tree_flatten(result)
        shardings = options["out_shardings"]
        if is_given(shardings):
            wanted = spread_shardings(shardings, result, "out_shardings of jit")
        else:
            wanted = [here] * len(outs)
        found = [_constrained(y, s, "out") for y, s in zip(outs, wanted, strict=True)]
        return tree_unflatten(out_tree, found)

    return placed


def _constrained(x: Any, sharding: Sharding | None, what: str) -> Any:
    if sharding is None or not hasattr(typeof(x), "shape"):
        return x
    check_fits(sharding, np.shape(x), f"{what}_shardings of jit:")
    return lookup("sharding_constraint").bind(x, sharding=sharding)
