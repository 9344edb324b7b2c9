"""Random integers of a key in bulk, and samples of gamma distributions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.heroes import generator_stubs as stubs
from weft.backends.cpu.heroes.registry import HEROES
from weft.backends.cpu.heroes.scalar_math import translate_with_math
from weft.backends.cpu.stub import kind_of, translate
from weft.base.functional import lru
from weft.kernel.nodes import F32, F64
from weft.kernel.program import Lowered, Place, Task, Type

# Elements of a piece of work, of integers and of samples.
BLOCKS, SAMPLES = 1 << 12, 1 << 8
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


def random_gamma(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """Samples for keys of Threefry, in float32 and float64."""
    keys, alphas = ins
    if keys.dtype.name != "key<fry>" or alphas.dtype not in (F32, F64):
        return None
    count = prod(alphas.shape)
    text = _samples(alphas.dtype, count // prod(keys.shape), params["log_space"])
    places = (Place("in", 0), Place("in", 1), Place("out", 0))
    return Lowered([Task(text, "gamma", places, count, SAMPLES)])


@lru(64)
def _samples(dtype: np.dtype, each: int, logs: bool) -> str:
    of, info = dtype.type, np.finfo(dtype)
    low = np.nextafter(of(-1), of(0))
    unsigned = np.dtype(f"u{dtype.itemsize}")
    names: dict[str, Any] = {"F": kind_of(dtype), "W": kind_of(unsigned), "EACH": each}
    names |= {"SIZE": dtype.itemsize, "SHIFT": info.bits - info.nmant, "LOGS": int(logs)}
    names["ONE"] = int(of(1).view(unsigned))
    numbers = {"LOW": low, "SPAN": of(1) - low, "THIRD": of(1 / 3), "SQUEEZE": of(0.0331)}
    numbers["ROOT_TWO"] = of(np.sqrt(2))
    names |= {name: float(x) for name, x in numbers.items()}
    math = {"LOG": "log", "LOG1P": "log1p", "ROOT": "sqrt", "POWER": "power", "ERF_INV": "erf_inv"}
    suffix = "_single" if dtype == F32 else ""
    given = {name: f"{stem}{suffix}" for name, stem in math.items()}
    return translate_with_math(stubs.gamma, names, **given)


HEROES["rng_bit_generator"] = rng_bit_generator
HEROES["random_gamma"] = random_gamma
