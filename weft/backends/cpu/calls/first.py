"""What LLVM compiles before the first program: code by which threads share its work, and a tile.

What LLVM does once, and what the system does when a page of its library or of its memory is first
touched, takes as long as a small kernel. So a text with what most products have goes ahead of them.

Both are stubs (`first_stubs.py`), and files beside this one are their text: to load what translates
stubs, and to translate these, would take a tenth of the time of a small first program.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.backends.cpu.calls import first_runs
from weft.backends.llvm.code import Effort, Verbatim
from weft.backends.llvm.native import loader
from weft.backends.llvm.native.compiling import compile_now
from weft.backends.llvm.native.processor import vector_bits
from weft.base.cores import threads, usable_cores
from weft.base.helpers import Helper
from weft.base.limits import address_space_left

# Threads that compile something ahead, and cores from which on they do.
_COMPILERS, MIN_CORES = 3, 4
# Lanes of vectors in the files of tiles.
LANES = (4, 8, 16)


def _file(name: str) -> str:
    path = __file__.rpartition(".")[0] + f"_{name}.ll"
    # by whatever has loaded this module, which may be in an archive
    return __loader__.get_data(path).decode()  # type: ignore[name-defined]


def tile_lanes() -> int:
    """Lanes of the tile for this processor."""
    return max((n for n in LANES if 32 * n <= vector_bits()), default=LANES[0])


# What shares ranges, which is made in the least time, and a tile. They are read here: a thread that
# reads a file loses Python's lock to who plans a program.
SHARE = Verbatim(_file("share"), Effort.QUICK)
TILE = Verbatim(_file(f"tile_{tile_lanes()}"))


def begin(idle: Callable[[], bool]) -> None:
    """Compile the first texts, as far as that makes nobody wait who compiles others."""
    many = min(threads(), usable_cores()) >= MIN_CORES and address_space_left() is None
    if many or idle():
        first_runs.sharer = first_runs.Sharer(loader.load(compile_now(SHARE)))
    if idle():
        others: list[Helper] = []
        if many:
            # memory that a thread gives back is taken by the next one, which finds its pages there
            first_runs.help_with(others, lambda: compile_now(TILE), _COMPILERS - 1)
        compile_now(TILE)
        for other in others:
            other.join()
