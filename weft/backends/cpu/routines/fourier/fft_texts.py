"""Texts of the stubs of Fourier transforms, and what these are given."""

from __future__ import annotations

import math
from typing import Any

from weft.backends.cpu.routines.fourier import kernel_stubs as kernels
from weft.backends.cpu.routines.fourier import pass_stubs
from weft.backends.cpu.routines.lanes import Lanes
from weft.backends.cpu.routines.square_stubs import square_names, squares
from weft.backends.cpu.routines.stub_text import calling_module, plain_module
from weft.backends.llvm.code import Effort, Module
from weft.backends.llvm.text.stub import known_to
from weft.base.functional import lru
from weft.kernel.kinds import kind_of

# Radices with straight code; the longest that has none.
STRAIGHT, LONGEST = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13), 97
# Where the results of powers of two are.
_ORDERS = {2: (0, 1), 4: (0, 2, 1, 3), 8: (0, 4, 2, 6, 1, 5, 3, 7)}


@lru(16)
def _names(itemsize: int, bits: int) -> dict[str, Any]:
    """What all stubs are given for vectors of one kind."""
    v = Lanes(itemsize, bits)
    kind, n = kind_of(v.real), v.count
    names: dict[str, Any] = {
        "F": kind,
        "V": kind.of(n),
        "PAIR": kind.of(2),
        "LANES": n,
        "ITEM": itemsize,
    }
    names |= {"BYTES": v.bytes, "ELEMENT": v.element, "ROW": v.row, "STEP": kernels.STEP}
    for word, order in (("", 1), ("_BACK", -1)):
        picks = [i + part for i in range(n)[::order] for part in (0, n)]
        names[f"APART{word}"] = [range(part, 2 * n, 2)[::order] for part in (0, 1)]
        names[f"TOGETHER{word}"] = [picks[:n], picks[n:]]
    names["EVEN"], names["ODD"] = names["APART"]
    names["LOW"], names["HIGH"] = names["TOGETHER"]
    return names


# --- what goes over data once ---------------------------------------------------------------------


@lru(64)
def move_module(stub: Any, itemsize: int, bits: int, more: tuple[tuple[str, int], ...]) -> Module:
    """The text of a stub that goes over data once."""
    return plain_module([stub], {**known_to(stub, _names(itemsize, bits)), **dict(more)})


# --- passes ---------------------------------------------------------------------------------------


@lru(64)
def pass_module(
    itemsize: int, bits: int, radix: int, may_be_last: bool, paired: bool
) -> tuple[Module, str]:
    """The text and the name of a pass of some radix, or of any odd prime one if that is 0.

    What the last pass does is half of the text, and left out of passes that come before it. So is
    what passes of columns do, whose elements lie as pairs, out of those of rows.
    """
    v = Lanes(itemsize, bits)
    names = {**_names(itemsize, bits), "RADIX": radix, "LONGEST": LONGEST}
    names["MAY_BE_LAST"], names["PAIRED"] = int(may_be_last), int(paired)
    names["EIGHTH"] = _rounded(v, math.sqrt(0.5))[0]
    if radix in _ORDERS:
        names["ORDER"] = _ORDERS[radix]
    elif radix:
        names |= _products(v, radix)
    main = pass_stubs.straight_pass if radix else pass_stubs.any_pass
    return plain_module([main], known_to(main, names)), main.__name__


def _rounded(v: Lanes, *numbers: float) -> list[float]:
    """Numbers as those of vectors can be."""
    return [float(v.real.type(number)) for number in numbers]


def _products(v: Lanes, radix: int) -> dict[str, Any]:
    """What a radix is that is an odd prime, or another number times one."""
    first = next(p for p in (2, 3, 5, radix) if radix % p == 0)
    a, b = (1, radix) if first == radix else (first, radix // first)
    rotations = []
    for j in range(1, b):
        for k in range(1, a):
            turns, rest = divmod(4 * j * k, radix)
            angle = 2 * math.pi * rest / (4 * radix)
            rotations.append((j + k * b, *_rounded(v, math.cos(angle), -math.sin(angle)), turns))
    half = range(1, (b + 1) // 2)
    angles = [[2 * math.pi * (j * k % b) / b for k in half] for j in half]
    return {
        "COLUMNS": [range(j, radix, b) for j in range(b)] if a > 1 else (),
        "ROTATIONS": rotations,
        "ROWS": [range(k * b, k * b + b) for k in range(a)],
        "TURNS": [[_rounded(v, math.cos(x), math.sin(x)) for x in row] for row in angles],
        "ORDER": [k % a * b + k // a for k in range(radix)],
    }


# --- kernels --------------------------------------------------------------------------------------


@lru(8)
def calls_module(itemsize: int, bits: int, long: bool) -> tuple[Module, str]:
    """The text and the name of a function that calls all passes of a transform, which is made with
    care where passes are short."""
    made = plain_module([kernels.passes], known_to(kernels.passes, _names(itemsize, bits)))
    return made.with_effort(Effort.QUICK) if long else made, "passes"


@lru(4)
def columns_module(itemsize: int, bits: int) -> Module:
    """Transforms along the middle axis of three, or one half of long ones."""
    made = plain_module([kernels.columns], known_to(kernels.columns, _names(itemsize, bits)))
    return made.with_effort(Effort.QUICK)


@lru(4)
def turn_module(itemsize: int, bits: int) -> tuple[Module, str]:
    """The text and the name of a function that transposes what a first half has done."""
    names = _names(itemsize, bits) | square_names(Lanes(itemsize, bits))
    names = known_to(kernels.turn_blocks, names, squares)
    return calling_module(kernels.turn_blocks, names, [squares]), "turn_blocks"


@lru(16)
def rows_module(itemsize: int, bits: int, real: int, gathered: bool) -> Module:
    """Transforms of rows, which may be real, and may be gathered."""
    names = {**_names(itemsize, bits), "REAL": real, "GATHERED": int(gathered)}
    moves: list[Any] = [kernels.read_rows, kernels.write_rows]
    if gathered:
        moves = [kernels.gather, kernels.scatter]
    if real:
        moves.append(kernels.pack)
    names = known_to(kernels.rows, names, *moves)
    return calling_module(kernels.rows, names, moves, **square_names(Lanes(itemsize, bits)))
