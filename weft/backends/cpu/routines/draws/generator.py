"""Random integers of a key in bulk."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.code.stub import translate
from weft.backends.cpu.routines.draws import generator_stubs as stubs
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.base.functional import lru
from weft.kernel.kinds import kind_of
from weft.kernel.program import Lowered, Place, Task, Type

# Elements of a piece of work.
BLOCKS = 1 << 12
_THREEFRY = 1  # the number of that algorithm; all others are Philox


@lru(64)
def _bits(main: Any, *helpers: Any, **names: Any) -> str:
    private = [f.__name__ for f in helpers]
    return translate([*helpers, main], names=names, private=private)


def rng_bit_generator(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered:
    """The next key and random integers."""
    shape, dtype = outs[1].shape, outs[1].dtype
    names: dict[str, Any] = {"OUT": kind_of(dtype), "SIZE": dtype.itemsize}
    count = prod(shape)
    if int(params["algorithm"]) == _THREEFRY:
        axis, taken = _pairs(shape or (1,))
        if dtype.itemsize == 8:
            taken = count
        inner = prod(shape[axis + 1 :])
        names |= {"INNER": inner, "HALF": (shape or (1,))[axis]}
        helpers = (stubs.rotate, stubs.rounds, stubs.inject, stubs.threefry, stubs.turned)
        text, main, extent = _bits(stubs.threefry_bits, *helpers, **names), "threefry_bits", count
    else:
        names["COUNT"] = count * (2 if dtype.itemsize == 8 else 1)
        extent = taken = -(-names["COUNT"] // 4)
        text, main = _bits(stubs.philox_bits, stubs.philox, **names), "philox_bits"
    key = (Place("in", 0), Place("out", 0))
    return Lowered(
        [
            Task(text, main, (Place("in", 0), Place("out", 1)), extent, BLOCKS),
            Task(_bits(stubs.advance, TAKEN=taken), "advance", key),
        ]
    )


def _pairs(shape: tuple[int, ...]) -> tuple[int, int]:
    """The axis along which Threefry's pairs of words lie, and how many counters they take."""
    even = [i for i, n in enumerate(shape) if n % 2 == 0]
    axis = even[0] if even else int(np.argmax(shape))
    return axis, prod(shape) // max(shape[axis], 1) * -(-shape[axis] // 2)


LOWERINGS["rng_bit_generator"] = rng_bit_generator
