"""Native functions that differ in sizes alone, made one that reads its sizes from a table.

A network has the same kernels for arrays of many shapes. As texts they differ in how far apart
elements are and how often loops run: whole numbers that need not be known when code is made.
"""

from __future__ import annotations

import re

from weft.base.functional import lru
from weft.base.record import Record

_HEAD = "(ptr noalias %buffers, i64 %start, i64 %stop) #0 {\nentry:\n"
# Lines from which on a function is worth it.
_LONG = 24
# Sizes that a function may read; and offsets into memory, where it computes much with what it
# reads, so that they are better off as parts of its instructions.
_MOST, _OFFSETS = 20, 4


class Sized(Record):
    """A text with its sizes taken out: what is between them, a mark for each, and what they are."""

    between: str
    sizes: tuple[int, ...]


@lru(1)
def _pattern() -> re.Pattern[str]:
    """Numbers that may as well be in a register: no part of a type, a mask or an alignment."""
    return re.compile(
        r"^(  %\S+ = (?:(?:mul|add|sub|udiv|urem) i64 %\S+, |sub i64 |icmp \w+ i64 (?:0|%\S+), "
        r"|select i1 %\S+, i64 %\S+, i64 |getelementptr (?:float|double|half|bfloat|i\d+), "
        r"ptr %\S+, i64 ))(\d+)(?=$|, (?:0|%\S+)$)",
        re.MULTILINE,
    )


def sizable(text: str) -> bool:
    """Whether a text is that of one function which could read its sizes."""
    if text.startswith(";") or text.count("\n") < _LONG or _HEAD not in text:
        return False
    return text.count("\ndefine ") + text.startswith("define ") == 1


def sized(text: str) -> Sized:
    """A function's text apart from its sizes."""
    pieces = _pattern().split(text)
    sizes = tuple([int(n) for n in pieces[2::3]])
    del pieces[2::3]
    between = pieces[0]
    between += "".join([f"{a}\0{b}" for a, b in zip(pieces[1::2], pieces[2::2], strict=True)])
    return Sized(between, sizes)


def shared(texts: list[Sized], buffers: int) -> tuple[str, list[list[int]]] | None:
    """One text for several that have the same between their sizes, and the sizes each reads.

    They are in a table that is the last of the function's buffers, after so many.
    """
    first, *between = texts[0].between.split("\0")
    columns = list(zip(*(t.sizes for t in texts), strict=True))
    read: dict[tuple[int, ...], int] = {}
    offsets: set[tuple[int, ...]] = set()
    body = [first]
    for column, after in zip(columns, between, strict=True):
        if len(set(column)) == 1:
            body += (str(column[0]), after)
            continue
        if "= getelementptr " in body[-1].rpartition("\n")[2]:
            offsets.add(column)
        body += (f"%size{read.setdefault(column, len(read))}", after)
    text = "".join(body)
    if len(read) > _MOST or (len(offsets) > _OFFSETS and "@llvm.fm" in text):
        return None
    lines = [
        f"  %sizes.at = getelementptr ptr, ptr %buffers, i64 {buffers}",
        "  %sizes = load ptr, ptr %sizes.at, align 8",
    ]
    for i in range(len(read)):
        lines.append(f"  %size{i}.at = getelementptr i64, ptr %sizes, i64 {i}")
        lines.append(f"  %size{i} = load i64, ptr %size{i}.at, align 8")
    text = text.replace(_HEAD, _HEAD + "\n".join(lines) + "\n", 1)
    return text, [list(row) for row in zip(*read, strict=True)]
