"""Native functions that differ in sizes alone, made one that reads its sizes from a table.

A network has the same kernels for arrays of many shapes. As texts they differ in how far apart
elements are and how often loops run: whole numbers that need not be known when code is made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from weft.backends.cpu.sizes import MAX_SIZE, read_sizes
from weft.base.functional import lru
from weft.base.record import Record

_HEAD = "(ptr noalias %buffers, i64 %start, i64 %stop) #0 {\nentry:\n"
# Lines from which on a function is worth it.
_MIN_LINES = 24
# Sizes that a function may read; and offsets into memory, where it computes much with what it
# reads, so that they are better off as parts of its instructions.
_MAX_SIZES, _MAX_OFFSETS = 20, 4
# Sizes that a function may read which does for any arrays.
_MOST_ALONE = 100
# Words of lines whose numbers stay: parts of vectors, places in tables, widths of numbers.
_FIXED = ("<i64", "splat", "getelementptr ptr", "getelementptr [", "@llvm.", "phi i32", "phi <")


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


def general(text: str, name: str, buffers: int, few: bool = True) -> tuple[str, list[int]] | None:
    """A module whose function reads all sizes from a table, its last buffer after so many; and
    these. None where it is not for that.

    Equal numbers are not one: they would not be the same for arrays of another shape. Unless it is
    for few elements, what are bytes of an element or steps of a vector, by their looks, stay.
    """
    if "%sized" in text or " optnone " in text or "\n@" in f"\n{text}":
        return None
    rules, rounds, internal = _rules()
    digits = re.compile(r"[ [](?=\d)").search
    read: list[int] = []

    def named(found: re.Match[str]) -> str:
        number = int(found.group(2))
        # few rounds are as many as others; elsewhere 0 and 1 are what they are for all sizes
        if not 1 < number < MAX_SIZE and found.re is not rounds:
            return found.group()
        if not few and _is_step(found.string, number):
            return found.group()
        read.append(number)
        return f"{found.group(1)}%sized{len(read) - 1}"

    lines: list[str] = []
    start = began = 0
    main, first = False, ""
    for line in text.split("\n"):
        if line.startswith("  "):
            rule = rules.get(line[2:].rpartition(" = ")[2].partition(" ")[0])
            if rule is not None and digits(line) and not any(word in line for word in _FIXED):
                line = (rounds if rounds.match(line) else rule).sub(named, line)
        elif line.startswith("define "):
            start, began = len(lines) + 2, len(read)  # after its first label
            main = f"@{name}(" in line
            first = line.partition("(")[2].partition(",")[0].rpartition(" ")[2]
        elif line == "}" and len(read) > began:
            which = range(began, len(read))
            lines[start:start] = read_sizes(which, buffers if main else None, first)
        elif line == "}" and main:
            lines[start:start] = read_sizes(range(0), buffers, first)
        lines.append(line)
    if not read or len(read) > _MOST_ALONE:
        return None
    text = "\n".join(lines)
    for other in internal.findall(text):
        text = text.replace(f"@{other}(", f"@{other}(ptr %sized, ")
    return text.replace("ptr %sized, )", "ptr %sized)"), read


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
    for other in _rules()[2].findall(text):
        text = text.replace(f"@{other}(", f"@{other}(ptr %sized, ")
    sizes = [tokens[int(token)] for token in found]
    return text.replace("ptr %sized, )", "ptr %sized)"), sizes


def _is_step(line: str, number: int) -> bool:
    """Whether the number of a line is the bytes of an element, or what a loop goes on by."""
    if number in (2, 4, 8) and " = mul i64 " in line:
        return True
    return line.startswith("  %n") and " = add i64 %i" in line


@lru(1)
def _rules() -> tuple[dict[str, re.Pattern[str]], re.Pattern[str], re.Pattern[str]]:
    """Where sizes stand in the lines of operations, and in those that end loops; and what the
    private functions are."""
    operand = re.compile(r"( i64 (?:%[^ ,]+, )?)(\d+)\b")
    argument = re.compile(r"(\bi64 )(\d+)\b")
    first = re.compile(r"((?<= phi i64 )\[ |(?<=\], )\[ )(\d+)(?=, %)")
    rules = dict.fromkeys("mul add sub udiv urem sdiv srem icmp".split(), operand)
    rules |= dict.fromkeys("select call store getelementptr ret".split(), argument)
    rounds = re.compile(r"(  %c\d+ = icmp slt i64 %i\d+, )(\d+)$")
    private = re.compile(r"^define internal [^@]*@(\w+)\(", re.MULTILINE)
    return {**rules, "phi": first}, rounds, private


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
