"""Operations applied to the elements of a batch one after the other, as effects ask for."""

from __future__ import annotations

from typing import Any

from weft.base.functional import merge_lists, partition_list
from weft.control.initial_style import mapped_at_front
from weft.control.scan import scan_p
from weft.core.batching import AxisData
from weft.core.effects import Effects, NamedAxisEffect
from weft.core.primitive import Primitive
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.transforms.dce import close, convert_constvars
from weft.transforms.vmap import unbatched


def by_device(axis: AxisData, effects: Effects) -> bool:
    """Whether a loop or branch is run for each device by itself: others see what it does, and it
    does not speak to other devices."""
    names = [e.name for e in effects if isinstance(e, NamedAxisEffect)]
    seen = len(effects) > len(names) and not any(e.on_refs for e in effects)
    return axis.spread and seen and axis.name not in names


def one_by_one(
    primitive: Primitive, axis: AxisData, args: Any, dims: Any, params: Any, unroll: int
) -> tuple[list[Any], list[int | None]]:
    """The primitive applied to the elements of a batch, one after the other."""
    mapped = [d is not None for d in dims]
    fixed, xs = partition_list(mapped, mapped_at_front(args, dims))

    def body(*values: Any) -> list[Any]:
        merged = merge_lists(mapped, values[: len(fixed)], values[len(fixed) :])
        return primitive.bind(*merged, **params)

    avals = [*(typeof(x) for x in fixed), *(unbatched(typeof(x), 0) for x in xs)]
    closed = stage(body, avals)
    outs = scan_p.bind(
        *closed.consts,
        *fixed,
        *xs,
        jaxpr=close(convert_constvars(closed.jaxpr)),
        length=axis.size,
        reverse=False,
        unroll=unroll,
        num_consts=len(closed.consts) + len(fixed),
        num_carry=0,
    )
    return outs, [0] * len(outs)
