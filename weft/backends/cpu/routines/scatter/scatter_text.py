"""The LLVM text of the tasks of a scatter: which stubs make one, and the vectors it has."""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.scatter import scatter_stubs as stubs
from weft.backends.cpu.routines.scatter.scatter_stubs import TURN
from weft.backends.llvm.code import Module
from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.text.stub import known_to, translate_main
from weft.base.functional import lru
from weft.base.sizes import plain
from weft.kernel.kinds import f32

# Elements in a row of a window from which on vectors are worth the time it takes LLVM to find them,
# where they are not written here.
MIN_VECTOR_WINDOW = 8

# Stubs that combine elements.
_COMBINING = frozenset(["in_a_row", "in_slabs", "apart", "in_pieces", "join", "work_off"])
# Stubs that do little: no code of them would be worth the time it takes to make it well.
_BRIEF = frozenset(["look", "rank"])
# Updates for each element of all pieces from which on it is little to join these.
RARE_JOIN_UPDATES = 16


@lru(512)
def module(stub: str, names: tuple[tuple[str, Any], ...]) -> Module:
    """The module of one of the tasks."""
    main = getattr(stubs, stub)
    known = dict(names)
    if stub == "copy":
        return translate_main(main, known_to(main, known), brief=True)
    op, kind, width = known["OP"], known["U"], known["W2"]
    most = vector_bits() // 8
    # narrow and complex numbers are combined in many steps, of which LLVM makes vectors by itself
    written = not known["HALF"] and op != TURN
    straight = known["S2"] == known["R2"] == 1 and written
    lanes = min(most // kind.size, 1 << width.bit_length() - 1) if straight else 1
    lanes = most // kind.size if stub == "join" else lanes
    known |= {"N": f32 if known["HALF"] else kind, "V": kind.of(lanes)}
    known |= {"LANES": lanes, "FULL": width // lanes * lanes if lanes > 1 else 0}
    found = stub in _COMBINING and not written and width >= MIN_VECTOR_WINDOW
    updates = known["COUNT"] * known["W0"] * known["W1"] * width
    few = plain(known["PIECES"] * known["TOTAL"]) * RARE_JOIN_UPDATES <= plain(updates)
    brief = stub in _BRIEF or (stub == "join" and few)
    return translate_main(main, known_to(main, known), plain=not found, brief=brief)
