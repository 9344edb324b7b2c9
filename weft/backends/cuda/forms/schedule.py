"""How a kernel in named sizes is spread over the threads of a GPU.

What a choice costs is estimated with the sizes at hand, and the choice is right for all others. It
is good for sizes of the same order: a kernel of few long rows has another one than one of many
short rows.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cuda.schedule import (
    CACHED_ROW,
    ELEMENTS_PER_THREAD,
    ENOUGH_BLOCKS,
    ENOUGH_THREADS,
    FEW_ROWS,
    MAX_THREADS,
    PIECE_ELEMENTS,
    SERIAL_THREADS,
    SPLIT_ITERATIONS,
    SPLIT_THREADS,
    THREADS,
    VECTOR,
    Parts,
    Schedule,
    flat,
    halves,
    has_rows,
    has_rows_inside,
    nest,
    reads_along_loops,
    reads_where_it_writes,
    reduces_columns,
    stores_ranges,
    transposes,
)
from weft.backends.cuda.text.threads import FEWEST_SHARED
from weft.base.sizes import Size, plain, room_for
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.diagonal import diagonal
from weft.kernel.kernel import Kernel, Loop
from weft.runtime.client import Special

# Bytes of shared memory that rows of a block take at most: what every kernel may have.
MAX_ROW_BYTES = 47 << 10
# How many times larger or smaller than those at hand sizes are that a choice is good for.
_NEAR = 16


def schedule_sized(kernel: Kernel, aligned: bool, distinct: bool) -> Parts:
    """A kernel as the compiler fused it, for a GPU; the arguments are as for `schedule`."""
    outside = tuple(i for i, b in enumerate(kernel.buffers) if b.role != "row")
    if kernel.serial:
        return Parts([Schedule(kernel, False, SERIAL_THREADS, 1, outside)], [])
    if stores_ranges(kernel) and (distinct or reads_where_it_writes(kernel)):
        made = [_whole(kernel._replace(body=[s]), outside, aligned, distinct) for s in kernel.body]
        return Parts([part._replace(apart=True) for whole in made for part in whole.parts], [])
    return _whole(kernel, outside, aligned, distinct)


def _whole(kernel: Kernel, outside: tuple[int, ...], aligned: bool, distinct: bool) -> Parts:
    kernel = flat(collapse(diagonal(kernel)))
    apart = _split(kernel)
    if apart is None:
        made = _one(kernel, outside, aligned)._replace(distinct=distinct)
        tile = transposes(kernel) if distinct and not made.shares else None
        return Parts([made if tile is None else made._replace(vector=1, tile=tile)], [])
    first, second, scratch = apart
    more = tuple(len(kernel.buffers) + i for i in range(len(scratch)))
    parts = [_one(part, (*outside, *more), aligned) for part in (first, second)]
    return Parts([part._replace(distinct=distinct) for part in parts], scratch)


def _near(n: Any) -> int:
    """The number at hand; a choice made by it is good for sizes of the same order."""
    if type(n) is Size:
        least, most = n.value // _NEAR, n.value * _NEAR
        assert least <= n <= most  # guards
    return plain(n)


def _is_whole(n: Any) -> bool:
    """Whether a row is whole vectors for all values of its names."""
    rest = n % VECTOR
    return type(rest) is int and rest == 0


def _split(kernel: Kernel) -> Any:
    """A kernel of few, long reductions as one over pieces of them and one over what these give."""
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    rest = [s for s in kernel.body if not isinstance(s, Loop)]
    if not loops or not rest or kernel.body[: len(loops)] != loops:
        return None
    if not reduces_columns(kernel) or any(loop.whole is not None for loop in loops):
        return None
    iterations = 1 if kernel.grid is None else _near(kernel.grid[1])
    length = loops[0].extent
    if any(loop.extent is not length and loop.extent != length for loop in loops):
        return None
    total = max(_near(prod(n for _, n in nest(loop)[0])) for loop in loops)
    if reads_along_loops(kernel):
        if iterations >= ENOUGH_BLOCKS:
            return None
        count = min(total // PIECE_ELEMENTS, 2 * ENOUGH_BLOCKS // iterations)
    else:
        count = min(total // SPLIT_ITERATIONS, SPLIT_THREADS // iterations)
    count = min(count, _near(length))
    if count < 2:
        return None
    extent = -(-plain(length) // count)
    if extent < 2:
        return None
    return halves(kernel, loops, rest, extent, -(-length // extent), None)


def _one(kernel: Kernel, buffers: tuple[int, ...], aligned: bool) -> Schedule:
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    iterations = 1 if kernel.grid is None else kernel.grid[1]
    if not loops:
        axes = kernel.grid_axes
        fits = aligned and axes and _is_whole(axes[-1][1])
        return Schedule(kernel, False, THREADS, VECTOR if fits else 1, buffers)
    count = _near(iterations)
    threads = THREADS if count > 1 << 16 else SERIAL_THREADS
    if has_rows_inside(kernel):
        return Schedule(kernel, False, SERIAL_THREADS, 1, buffers)
    inner = [nest(loop)[0] for loop in loops]
    length = max(_near(prod(n for _, n in axes)) for axes in inner)
    if not has_rows(kernel):
        pieces = any(loop.whole is not None for loop in loops)
        along = reads_along_loops(kernel)
        if (pieces or count >= ENOUGH_THREADS) and not along:
            return Schedule(kernel, False, threads, 1, buffers)
        if count >= ENOUGH_THREADS and 4 * length <= CACHED_ROW:
            return Schedule(kernel, False, threads, 1, buffers)
    fits = aligned and all(_is_whole(axes[-1][1]) for axes in inner)
    each = VECTOR if count < FEW_ROWS else ELEMENTS_PER_THREAD
    threads = 32
    while threads < min(MAX_THREADS, length // each):
        threads *= 2
    rows = [b for b in kernel.buffers if b.role == "row"]
    if sum(room_for(b.size, FEWEST_SHARED) * b.dtype.itemsize for b in rows) > MAX_ROW_BYTES:
        raise Special
    return Schedule(kernel, True, threads, VECTOR if fits else 1, buffers)
