"""Symbolic shapes for exported functions: one program for arguments of many shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.dims.dim import is_symbolic_dim as is_symbolic_dim
from weft.core.dims.text import SymbolicScope as SymbolicScope
from weft.core.dims.text import symbolic_shape as symbolic_shape
from weft.core.shape_dtype import ShapeDtypeStruct, abstractify
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_unflatten


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """Return types of arguments with symbolic shapes, to export a function for.

    Args:
        args: the arguments, arrays or their types.
        shapes_specs: None for the shapes that the arguments have, text as for ``symbolic_shape``
            for all of them, or a tree of these that is a prefix of ``args``.
        constraints: what is known of the dimensions, as for ``SymbolicScope``.
        scope: the scope of the names. By default a new one.

    Returns:
        A tree of ``ShapeDtypeStruct`` with the structure of ``args``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import export
        >>> export.symbolic_args_specs((jnp.ones((3, 4)), jnp.ones(4)), ("b, _", "..."))
        (ShapeDtypeStruct(shape=(b, 4), dtype=float32), ShapeDtypeStruct(shape=(4,), dtype=float32))
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError("constraints belong to a new scope: pass constraints= or scope=, not both")
    leaves, tree = tree_flatten(args)
    if isinstance(args, tuple) and isinstance(shapes_specs, list):
        shapes_specs = tuple(shapes_specs)
    specs = broadcast_prefix(shapes_specs, args, is_leaf=lambda x: x is None)
    made = []
    for x, spec in zip(leaves, specs, strict=True):
        aval = abstractify(x)
        shape = symbolic_shape(spec, like=aval.shape, scope=scope)
        made.append(ShapeDtypeStruct(shape, aval.dtype))
    return tree_unflatten(tree, made)
