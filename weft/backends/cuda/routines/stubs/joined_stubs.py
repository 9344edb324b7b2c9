"""Arrays joined along an axis, as stubs: which operand a block copies from, and its part of it."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.kernel.kinds import i64, ptr, static, u32, void

# Kinds and static parameters: the kind of a word that is copied, operands, words of a row of the
# result.
W: Any = u32
# Numbers of an operand: its first block, words, words of a row, and where these begin in a row.
NUMBERS = 4
THREADS, EACH = 256, 4


def owner(table: ptr, *, COUNT: static) -> i64:
    """The operand whose words this block copies: the last that begins at or before it."""
    low = i64(0)
    high = i64(COUNT)
    while high - low > 1:
        middle = (low + high) // 2
        if i64[table, middle * NUMBERS] <= block():
            low = middle
        else:
            high = middle
    return low


def copy_part(source: ptr, out: ptr, table: ptr, number: i64, *, WHOLE: static) -> void:
    """Copy the words of this block from an operand to the result."""
    row = table + 8 * NUMBERS * number
    total = i64[row, 1]
    inner = i64[row, 2]
    first = (block() - i64[row, 0]) * (THREADS * EACH) + thread()
    for k in range(EACH):
        at = first + k * THREADS
        if at < total:
            W[out, at // inner * WHOLE + i64[row, 3] + at % inner] = W[source, at]
