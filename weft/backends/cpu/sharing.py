"""Native functions that differ in sizes alone, made one that reads its sizes from a table.

A network has the same kernels for arrays of many shapes. As texts they differ in how far apart
elements are and how often loops run: whole numbers that need not be known when code is made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from weft.backends.cpu.sizes import read_sizes
from weft.base.functional import lru
from weft.base.record import Record

_HEAD = "(ptr noalias %buffers, i64 %start, i64 %stop) #0 {\nentry:\n"
# Lines from which on a function is worth it.
_MIN_LINES = 24
# Sizes that a function may read; and offsets into memory, where it computes much with what it
# reads, so that they are better off as parts of its instructions.
_MAX_SIZES, _MAX_OFFSETS = 20, 4


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


@lru(1)
def _private() -> re.Pattern[str]:
    """The private functions of a module."""
    return re.compile(r"^define internal [^@]*@(\w+)\(", re.MULTILINE)


def sizable(text: str) -> bool:
    """Whether a text is that of one function which could read its sizes."""
    if text.startswith(";") or text.count("\n") < _MIN_LINES or _HEAD not in text:
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


def reading(
    text: str, name: str, buffers: int, tokens: Sequence[Any]
) -> tuple[str, list[Any]] | None:
    """A text in which tokens stand for sizes, as one that reads these from a table, its last buffer
    after so many; and the sizes. None where there are none."""
    found: dict[str, int] = {}

    def numbered(token: re.Match[str]) -> str:
        return f"%sized{found.setdefault(token[1], len(found))}"

    text = re.sub(r"%size(\d+)_", numbered, text)
    if not found:
        return None
    text = re.sub(r"\bi32 (%sized\d+)\b", r"i32 \1.i32", text)
    lines: list[str] = []
    main, start, first = False, 0, ""
    began: list[int] = []
    narrow: list[int] = []
    for line in text.split("\n"):
        if line.startswith("define "):
            start, began, narrow = len(lines) + 2, [], []
            main = f"@{name}(" in line
            first = line.partition("(")[2].partition(",")[0].rpartition(" ")[2]
        elif line == "}" and (began or main):
            head = read_sizes(sorted(set(began)), buffers if main else None, first)
            head += [f"  %sized{i}.i32 = trunc i64 %sized{i} to i32" for i in sorted(set(narrow))]
            lines[start:start] = head
        else:
            began += map(int, re.findall(r"%sized(\d+)", line))
            narrow += map(int, re.findall(r"%sized(\d+)\.i32", line))
        lines.append(line)
    text = "\n".join(lines)
    for other in _private().findall(text):
        text = text.replace(f"@{other}(", f"@{other}(ptr %sized, ")
    sizes = [tokens[int(token)] for token in found]
    return text.replace("ptr %sized, )", "ptr %sized)"), sizes


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
        body += (f"%sized{read.setdefault(column, len(read))}", after)
    text = "".join(body)
    if len(read) > _MAX_SIZES or (len(offsets) > _MAX_OFFSETS and "@llvm.fm" in text):
        return None
    return _reading(text, buffers, len(read)), [list(row) for row in zip(*read, strict=True)]


def _reading(text: str, buffers: int, count: int) -> str:
    """A function that begins with reading so many sizes."""
    return text.replace(_HEAD, _HEAD + "\n".join(read_sizes(range(count), buffers)) + "\n", 1)
