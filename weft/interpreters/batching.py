"""Batching rules of primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.api.vmappable import register_vmappable as register_vmappable
from weft.api.vmappable import unregister_vmappable as unregister_vmappable
from weft.core.batching import broadcast_axis
from weft.core.batching import moveaxis as moveaxis
from weft.core.batching import not_mapped as not_mapped
from weft.interpreters.tables import RuleTable
from weft.transforms.vmap import BatchTrace as BatchTrace
from weft.transforms.vmap import BatchTracer as BatchTracer


def _give(primitive: Any, rule: Any) -> None:
    def batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
        return rule(args, dims, **params)

    primitive.batch = batch


# ``rule(args, dims, **params)``
primitive_batchers = RuleTable("batch", _give)


def _give_fancy(primitive: Any, rule: Any) -> None:
    primitive.batch = rule


def _give_axis(primitive: Any, rule: Any) -> None:
    def batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
        return rule(axis.size, axis.name, None, args, dims, **params)

    primitive.batch = batch


# ``rule(axis_data, args, dims, **params)``
fancy_primitive_batchers = RuleTable("batch", _give_fancy)
# ``rule(axis_size, axis_name, trace_type, args, dims, **params)``
axis_primitive_batchers = RuleTable("batch", _give_axis)


def broadcast(x: Any, size: int, axis: int, mesh_axis: Any = None) -> Any:
    """``x`` repeated along a new axis."""
    return broadcast_axis(x, size, axis)


def bdim_at_front(x: Any, dim: int | None, size: int, mesh_axis: Any = None) -> Any:
    """``x`` with its batch dimension in front, made if absent."""
    return broadcast(x, size, 0) if dim is None else moveaxis(x, dim, 0)


def defvectorized(primitive: Any) -> None:
    """Say that a primitive of one operand acts on each element alone."""

    def batch(args: Any, dims: Any, **params: Any) -> tuple[Any, Any]:
        return primitive.bind(*args, **params), dims[0]

    primitive.def_batching(batch)


def defbroadcasting(primitive: Any) -> None:
    """Say that a primitive acts elementwise on operands that broadcast."""

    def batch(args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        size = next(np.shape(x)[d] for x, d in zip(args, dims, strict=True) if d is not None)
        moved = [bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)]
        return primitive.bind(*moved, **params), 0

    primitive.def_batching(batch)


def defreducer(primitive: Any) -> None:
    """Say that a primitive of one operand reduces it along its parameter ``axes``."""

    def batch(args: Any, dims: Any, *, axes: Any, **params: Any) -> tuple[Any, int]:
        (x,), (dim,) = args, dims
        shifted = tuple([a + (a >= dim) for a in axes])
        return primitive.bind(x, axes=shifted, **params), dim - sum(a < dim for a in axes)

    primitive.def_batching(batch)
