"""Elements of known arrays that a test picks: counted natively, then written into as much memory as
they need. No program is made for it, since every call may have a result of another size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.calls import first_runs
from weft.backends.cpu.code.selection_text import CHUNK_ELEMENTS, count_module, packs, write_module
from weft.backends.llvm.calls.dispatch import address
from weft.backends.llvm.calls.dispatch import supported as supported
from weft.backends.llvm.native.machine import Address, compile_one
from weft.base.functional import lru
from weft.runtime.memory import empty

# Pieces that are handed out together.
_CHUNK = 1


@lru(64)
def _counting(test: str, bits: int) -> Address:
    return compile_one(count_module(test, bits), "select_count")


@lru(64)
def _writing(test: str, bits: int, wanted: tuple[Any, ...]) -> Address:
    return compile_one(write_module(test, bits, wanted, packs(wanted)), "select_write")


def select(
    test: str, source: np.ndarray, wanted: Sequence[np.dtype | np.ndarray]
) -> list[np.ndarray]:
    """Of the elements of a vector that a test picks, what is wanted.

    That is their positions, for an integer dtype, or the elements of an array that are at them.
    Tests are those of ``selection_text``; the first element is new.
    """
    compares = test.startswith("new")
    count, size = source.size - compares, source.itemsize
    pieces = -(-count // CHUNK_ELEMENTS)
    table = np.array([count, compares])
    begin = address(source) + compares * size
    starts = np.zeros(pieces + 1, np.int64)
    starts[0] = compares
    _run(_counting(test, 8 * size), [address(table), begin, address(starts) + 8], pieces)
    np.cumsum(starts, out=starts)
    results, arrays, kinds = [], [], []
    for what in wanted:
        if isinstance(what, np.ndarray):
            result = _memory(int(starts[-1]), what.dtype)
            result[:compares] = what[:compares]
            arrays.append(address(what) + compares * what.itemsize)
            kinds.append(("value", 8 * result.itemsize))
        else:
            result = _memory(int(starts[-1]), what)
            result[:compares] = 0
            arrays.append(0)
            kinds.append(("place", 8 * result.itemsize))
        results.append(result)
    code = _writing(test, 8 * size, tuple(kinds))
    places = [address(table), begin, address(starts), *map(address, results), *arrays]
    _run(code, places, pieces)
    return results


def _run(code: Address, places: list[int], pieces: int) -> None:
    first_runs.run(code, (ctypes.c_void_p * len(places))(*places), 0, pieces, _CHUNK)


def _memory(count: int, dtype: np.dtype) -> np.ndarray:
    """Memory for so many elements, of one of few sizes, so that it is used again."""
    step = 1 << max(count.bit_length() - 4, 0)
    return empty((-(-count // step) * step,), dtype)[:count]
