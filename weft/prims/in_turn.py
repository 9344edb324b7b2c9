"""Updates by a function, one after the other: what compiled programs do of scatters by one."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.core.avals import ShapedArray
from weft.core.registry import lookup
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.prims.arithmetic import max_p
from weft.prims.selection import ge, select_n
from weft.prims.shape import reshape

PLACE = np.dtype(np.int32)
# Elements that places can number.
MOST = 2**31 - 1


def update_in_turn(x: Any, places: Any, updates: Any, function: Callable[[Any, Any], Any]) -> Any:
    """``x`` with ``function(old, update)`` at each place of the flat array, in their order.

    Places below 0 are left out.
    """
    shape, dtype = np.shape(x), typeof(x).dtype
    flat = reshape(x, (prod(shape),))
    count = prod(np.shape(places))
    places, updates = reshape(places, (count,)), reshape(updates, (count,))
    zero = PLACE.type(0)

    def step(values: Any, place: Any, update: Any) -> list[Any]:
        at = max_p.bind(place, zero)
        old = reshape(lookup("dynamic_slice").bind(values, at, slice_sizes=(1,)), ())
        new = select_n(ge(place, zero), old, function(old, update))
        return [lookup("dynamic_update_slice").bind(values, reshape(new, (1,)), at)]

    one = ShapedArray((), PLACE)
    body = stage(step, [typeof(flat), one, ShapedArray((), dtype)])
    (out,) = lookup("scan").bind(
        flat,
        places,
        updates,
        jaxpr=body,
        length=count,
        reverse=False,
        num_consts=0,
        num_carry=1,
        unroll=1,
    )
    return reshape(out, shape)
