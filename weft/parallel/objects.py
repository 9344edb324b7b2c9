"""Arguments of ``shard_map`` that are not arrays: objects under a spec of None, and references."""

from __future__ import annotations

import functools
from typing import Any

from weft.core.registry import lookup
from weft.core.sharding import PartitionSpec
from weft.core.trace import typeof
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_unflatten


def _kind(x: Any) -> str:
    try:
        aval = typeof(x)
    except TypeError:
        return "object"
    return "reference" if aval.is_ref else "array"


def on_arrays(f: Any, in_specs: Any, out_specs: Any, args: Any) -> Any:
    """A function of the arrays among the arguments, with their specs, those of its results, these
    arrays, and what is to be done with the results; None where all arguments are arrays.

    Objects are closed over. A reference is read before, is a new one for each device inside, and is
    written afterwards.
    """
    leaves, tree = tree_flatten(args)
    kinds = [_kind(x) for x in leaves]
    if all(kind == "array" for kind in kinds):
        return None
    try:
        specs = broadcast_prefix(in_specs, args, is_leaf=lambda s: s is None or _is_spec(s))
    except ValueError:
        return None  # which is reported elsewhere
    objects = [i for i, kind in enumerate(kinds) if kind == "object"]
    if any(specs[i] is not None for i in objects):
        return None
    refs = [i for i, kind in enumerate(kinds) if kind == "reference"]
    kept = [i for i in range(len(leaves)) if i not in objects]

    @functools.wraps(f, updated=())
    def inside(*parts: Any) -> Any:
        given = list(leaves)
        for i, x in zip(kept, parts, strict=True):
            given[i] = _reference(x) if i in refs else x
        out = f(*tree_unflatten(tree, given))
        return (out, [given[i][...] for i in refs]) if refs else out

    def finish(results: Any) -> Any:
        if not refs:
            return results
        out, values = results
        for i, value in zip(refs, values, strict=True):
            leaves[i][...] = value
        return out

    arrays = tuple(leaves[i][...] if i in refs else leaves[i] for i in kept)
    in_specs = tuple(specs[i] for i in kept)
    if refs:
        out_specs = (out_specs, [specs[i] for i in refs])
    return inside, in_specs, out_specs, arrays, finish


def _is_spec(x: Any) -> bool:
    return isinstance(x, PartitionSpec)


def _reference(x: Any) -> Any:
    return lookup("new_ref").bind(x, memory_space=None, kind=None)
