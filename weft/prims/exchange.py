"""Collectives of another shape: parts of different sizes exchanged, and sends apart from receives.

Under ``vmap`` the exchange is a gather of the rows that arrive. A send gives no more than a token,
and a receive gets no more than that: there is no data to find in the batch, so they are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import Zero, instantiate, is_undef, zeros
from weft.core.avals import AbstractToken, ShapedArray, abstract_token
from weft.core.batching import AxisData, all_at_front
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.prims.arithmetic import add, mul, sub
from weft.prims.collective import (
    Collective,
    Names,
    all_to_all_p,
    as_names,
    axes_size,
    check_pairs,
    fold_axes,
    no_groups,
    reshape,
    rows_at,
)
from weft.prims.families import broadcast_in_dim, const, converted, positions_along, scalar
from weft.prims.index_dims import GatherScatterMode
from weft.prims.selection import ge, lt, select_n

_INT32 = np.dtype(np.int32)


def _iota(size: int) -> Any:
    return positions_along((size,), 0)


def _as_int32(x: Any) -> Any:
    return x if typeof(x).dtype == _INT32 else converted(x, _INT32)


class RaggedAllToAll(Collective):
    """Slices of rows of the operand, each written to rows of one member's output.

    Of ``n`` slices the first ``n / size`` go to the first member, and so on; ``output_offsets``
    says where a slice is written there.
    """

    name = "ragged_all_to_all"

    def shape(
        self,
        operand: Any,
        output: Any,
        *places: Any,
        axis_name: Names,
        axis_index_groups: Any,
    ) -> ShapedArray:
        size = axes_size(as_names(axis_name))
        if axis_index_groups is not None:
            size = len(axis_index_groups[0])
        names = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")
        for name, x in zip(names, places, strict=True):
            if not dtypes.issubdtype(x.dtype, np.integer):
                raise ValueError(f"ragged_all_to_all needs integers as {name}, got {x.dtype}")
            if len(x.shape) != 1 or not x.shape[0]:
                raise ValueError(
                    f"ragged_all_to_all needs a vector of at least one element as {name}, got"
                    f" shape {x.shape}"
                )
        if len({x.shape for x in places}) > 1 or places[0].shape[0] % size:
            raise ValueError(
                "ragged_all_to_all needs offsets and sizes of one length, divisible by the number"
                f" {size} of members, got shapes {', '.join(str(x.shape) for x in places)}"
            )
        same = operand.dtype == output.dtype and operand.shape[1:] == output.shape[1:]
        if not same or not operand.shape or not output.shape:
            raise ValueError(
                "ragged_all_to_all writes rows of the operand into the output, got"
                f" {operand.str_short()} and {output.str_short()}"
            )
        return output.strip_weak_type()

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        dots = map(instantiate, tangents[:2])
        return out, self.bind(*dots, *primals[2:], **params)

    def transpose(self, ct: Any, operand: Any, output: Any, *places: Any, **params: Any) -> Any:
        starts, sends, targets, receives = places
        exchanged = dict(params, split_axis=0, concat_axis=0, tiled=True)
        arrived = all_to_all_p.bind(targets, **exchanged)
        found: list[Any] = [None, None]
        if is_undef(operand):
            back = all_to_all_p.bind(starts, **exchanged)
            blank = zeros(operand.aval)
            found[0] = self.bind(ct, blank, arrived, receives, back, sends, **params)
        if is_undef(output):
            found[1] = _without_rows(ct, arrived, receives)
        return [*found, None, None, None, None]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, axis_name: Names, axis_index_groups: Any
    ) -> tuple[Any, int]:
        operand, output, *places = all_at_front(axis, args, dims)
        if axis.name in as_names(axis_name):
            no_groups(self, axis_index_groups)
            if len(as_names(axis_name)) > 1:
                raise NotImplementedError(f"{self} over the several axes {axis_name} under vmap")
            return exchange_rows(operand, output, *places), 0
        # One exchange of all: a slice of every element of the batch in the place of each slice.
        count, parts = axis.size, np.shape(places[0])[1]
        starts, sends, targets, receives = (_by_slice(_as_int32(x)) for x in places)
        starts = _shifted(starts, np.shape(operand)[1])
        targets = _shifted(targets, np.shape(output)[1])
        vectors = [reshape(x, (count * parts,)) for x in (starts, sends, targets, receives)]
        out = self.bind(
            fold_axes(operand, 0),
            fold_axes(output, 0),
            *vectors,
            axis_name=axis_name,
            axis_index_groups=axis_index_groups,
        )
        return reshape(out, np.shape(output)), 0


def _by_slice(x: Any) -> Any:
    return lookup("transpose").bind(x, permutation=(1, 0))


def _shifted(offsets: Any, rows: int) -> Any:
    """Offsets into the rows of all elements of a batch, one element after the other."""
    parts, count = np.shape(offsets)
    first = mul(_iota(count), scalar(_INT32, rows))
    return add(offsets, broadcast_in_dim(first, (parts, count), (1,)))


def exchange_rows(
    operand: Any, output: Any, starts: Any, sends: Any, targets: Any, receives: Any
) -> Any:
    """The exchange between the elements of a batch: for every row that arrives, where it is from.

    Sizes are those of the receivers.
    """
    starts, sends, targets, receives = map(_as_int32, (starts, sends, targets, receives))
    size, rows = np.shape(operand)[:2]
    total = np.shape(output)[1]
    parts = np.shape(starts)[1]

    def received(x: Any) -> Any:
        """What senders say of their slices, by receiver, in the order of senders."""
        x = reshape(x, (size, size, parts // size))
        return reshape(lookup("transpose").bind(x, permutation=(1, 0, 2)), (size, parts))

    sender = mul(_iota(size), scalar(_INT32, rows))
    sender = reshape(broadcast_in_dim(sender, (size, parts // size), (0,)), (parts,))
    first = add(received(starts), broadcast_in_dim(sender, (size, parts), (1,)))
    begin = received(targets)
    covered, chosen = _covering(begin, receives, total)
    shape = (size, total, parts)
    moved = sub(first, begin)
    where = select_n(
        chosen, broadcast_in_dim(scalar(_INT32, 0), shape), broadcast_in_dim(moved, shape, (0, 2))
    )
    shift = lookup("reduce_sum").bind(where, axes=(2,), out_sharding=None)
    source = add(shift, broadcast_in_dim(_iota(total), (size, total), (1,)))
    picked = rows_at(fold_axes(operand, 0), source, GatherScatterMode.CLIP)
    mask = broadcast_in_dim(covered, np.shape(output), (0, 1))
    return select_n(mask, output, picked)


def _covering(begin: Any, sizes: Any, total: int) -> tuple[Any, Any]:
    """Which rows of ``total`` any slice covers, and the last slice that covers each."""
    count, parts = np.shape(begin)
    shape = (count, total, parts)
    at = broadcast_in_dim(_iota(total), shape, (1,))
    low = broadcast_in_dim(begin, shape, (0, 2))
    high = add(low, broadcast_in_dim(sizes, shape, (0, 2)))
    inside = lookup("and").bind(ge(at, low), lt(at, high))
    number = broadcast_in_dim(add(_iota(parts), scalar(_INT32, 1)), shape, (2,))
    numbers = select_n(inside, broadcast_in_dim(scalar(_INT32, 0), shape), number)
    last = lookup("reduce_max").bind(numbers, axes=(2,))
    chosen = lookup("eq").bind(numbers, broadcast_in_dim(last, shape, (0, 1)))
    chosen = lookup("and").bind(chosen, inside)
    return lookup("gt").bind(last, const(last, 0)), chosen


def _without_rows(x: Any, begin: Any, sizes: Any) -> Any:
    """``x`` with zeros in the rows that arrive from elsewhere."""
    begin, sizes = (reshape(_as_int32(v), (1, *np.shape(v))) for v in (begin, sizes))
    covered, _ = _covering(begin, sizes, np.shape(x)[0])
    mask = broadcast_in_dim(reshape(covered, (np.shape(x)[0],)), np.shape(x), (0,))
    return select_n(mask, x, zeros(typeof(x)))


# --- sends and receives apart ---------------------------------------------------------------------


class OneSided(Collective):
    """One half of a transfer; the other half is known to it by a token."""

    holes = {
        "ref": "one device has no partner to communicate with",
        "transpose": "a token joins the two halves, and tokens have no gradient",
        "batch": "a token carries no data between the elements of a batch; ppermute does",
    }

    def batch(self, axis: AxisData, args: Any, dims: Any, *, axis_name: Names, **_: Any) -> Any:
        raise NotImplementedError(
            f"{self} over {axis_name} is not defined under vmap: a token carries no data between"
            " the elements of a batch; use lax.ppermute, which sends and receives"
        )


class PSend(OneSided):
    """Send to other members, by pairs; the result is a token."""

    name = "psend"

    def shape(self, x: Any, *, axis_name: Names, perm: Any) -> AbstractToken:
        check_pairs(self, axis_name, perm)
        return abstract_token

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        return self.bind(*primals, **params), Zero(abstract_token)


class PRecv(OneSided):
    """Receive from other members, by pairs."""

    name = "precv"

    def shape(self, token: Any, *, out_shape: Any, axis_name: Names, perm: Any) -> ShapedArray:
        if not isinstance(token, AbstractToken):
            raise TypeError(
                f"precv takes a token, as psend and create_token give, got {token.str_short()}"
            )
        check_pairs(self, axis_name, perm)
        return out_shape

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        return out, Zero(params["out_shape"].to_tangent_aval())


ragged_all_to_all_p = RaggedAllToAll()
psend_p = PSend()
precv_p = PRecv()
