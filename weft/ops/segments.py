"""Reductions of the elements that share a segment number, by scatters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import lax
from weft.api.placement import divided_as
from weft.core.array import Array
from weft.core.dims.dim import whole
from weft.numpy import reductions
from weft.numpy.creation import arange, asarray, full
from weft.numpy.indexing import update_index
from weft.numpy.promotion import check_arraylike, concrete
from weft.numpy.ufuncs import floor_divide
from weft.prims.reduce import max_identity, min_identity


def _reduction(
    name: str,
    scatter: Any,
    identity: Callable[[Any], Any],
    combine: Any,
    what: str,
    empty: str,
    example: str,
) -> Callable[..., Array]:
    """The public function that reduces segments by a scatter."""
    name = f"segment_{name}"

    def function(
        data: Any,
        segment_ids: Any,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
        out_sharding: Any = None,
    ) -> Array:
        if out_sharding is not None:
            options = (indices_are_sorted, unique_indices, bucket_size, mode)
            alone = lambda: function(data, segment_ids, num_segments, *options)
            return divided_as(out_sharding, alone, name)
        check_arraylike(name, data, segment_ids)
        values, ids = asarray(data), asarray(segment_ids)
        if num_segments is None:
            if not ids.size:
                raise ValueError(f"{name} of no segment_ids needs num_segments")
            known = concrete(ids, f"{name} of traced segment_ids needs num_segments")
            num_segments = int(np.max(np.asarray(known))) + 1
        count = whole(concrete(num_segments, f"{name} needs a concrete num_segments"))
        if count < 0:
            raise ValueError(f"{name} needs a non-negative num_segments, got {count}")
        given: dict[str, Any] = {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
            "mode": lax.GatherScatterMode.FILL_OR_DROP if mode is None else mode,
            "wrap_negative_indices": False,
        }
        start = identity(values.dtype)
        if bucket_size is None:
            out = full((count, *values.shape[1:]), start, values.dtype)
            return update_index(out, ids, values, scatter, **given)
        # sums of buckets first: rounding errors grow with the number of terms in a row
        buckets = -(-ids.size // bucket_size)
        out = full((buckets, count, *values.shape[1:]), start, values.dtype)
        bucket = floor_divide(arange(ids.shape[0]), bucket_size)
        out = update_index(out, (bucket, ids), values, scatter, **given)
        return combine(out, axis=0).astype(values.dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return {what} of each segment.

    Args:
        data: the elements, along the first axis.
        segment_ids: for each element the number of its segment. Elements of a segment need not
            be neighbours. A number that is negative or too large leaves the element out.
        num_segments: how many segments the result has. By default one more than the largest
            number in ``segment_ids``; under ``jit`` it must be given.
        indices_are_sorted: promise that ``segment_ids`` is in ascending order.
        unique_indices: promise that no two elements share a segment.
        bucket_size: reduce this many elements at a time, then the partial results, for smaller
            rounding errors. By default all at once.
        mode: what happens to numbers out of range, a ``lax.GatherScatterMode``; by default they
            are dropped.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec``.

    Returns:
        An array of shape ``(num_segments, *data.shape[1:])``. A segment without elements holds
        {empty}.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.ops.{name}(jnp.arange(4.0), jnp.array([0, 0, 1, 1]))
        Array({example}, dtype=float32)
    """
    return function


segment_sum = _reduction(
    "sum", lax.scatter_add, lambda dtype: 0, reductions.sum, "the sum", "0", "[1., 5.]"
)
segment_prod = _reduction(
    "prod",
    lax.scatter_mul,
    lambda dtype: 1,
    reductions.prod,
    "the product",
    "1",
    "[0., 6.]",
)
segment_max = _reduction(
    "max",
    lax.scatter_max,
    max_identity,
    reductions.max,
    "the largest element",
    "the smallest number of the dtype",
    "[1., 3.]",
)
segment_min = _reduction(
    "min",
    lax.scatter_min,
    min_identity,
    reductions.min,
    "the smallest element",
    "the largest number of the dtype",
    "[0., 2.]",
)
