"""Modules in parts: what LLVM is to take care with, and what it is to be done with quickly.

A function marked ``optnone`` calls the others of its module and does little besides. Compiled on
its own, without any care, it takes a fraction of the time, and two threads can work on a module.
"""

from __future__ import annotations

import re
import struct

from weft.backends.cpu.llvm import INLINE, LIGHT, OPTIMISE, QUICK

_MAGIC = b"weftmany"
_FUNCTION = re.compile(r"^define [^\n]*\n(?:[^}\n][^\n]*\n)*}\n", re.MULTILINE)
_HEAD = re.compile(r"define (?:internal )?(.+? @\w+)\(([^)]*)\)")


def divided(text: str) -> list[str]:
    """The texts of a module's parts, called ones before those that call them."""
    if " optnone " not in text or text.startswith((OPTIMISE, INLINE, LIGHT, QUICK, "@")):
        return [text]
    functions = _FUNCTION.findall(text)
    quick = [f for f in functions if " optnone " in f.split("\n", 1)[0]]
    others = [f for f in functions if f not in quick]
    if "\n@" in text or not others or len(quick) != 1:
        return [text]
    rest = _FUNCTION.sub("", text)
    shared = [f.replace("define internal ", "define ", 1) for f in others]
    declared = [_declared(f) for f in others]
    plain = quick[0].replace(" noinline optnone", "", 1)
    return ["".join([rest, *shared]), "".join([QUICK, rest, *declared, plain])]


def _declared(function: str) -> str:
    head = _HEAD.match(function)
    assert head is not None, function[:100]
    kinds = (given.rsplit(" ", 1)[0] for given in head[2].split(", ") if given)
    return f"declare {head[1]}({', '.join(kinds)})\n"


def joined(objects: list[bytes]) -> bytes:
    """The objects of a module's parts as one."""
    if len(objects) == 1:
        return objects[0]
    sizes = [len(objects), *map(len, objects)]
    return b"".join([_MAGIC, struct.pack(f"<{len(sizes)}Q", *sizes), *objects])


def taken_apart(blob: bytes) -> list[bytes]:
    """The objects of a module's parts."""
    if not blob.startswith(_MAGIC):
        return [blob]
    (count,) = struct.unpack_from("<Q", blob, 8)
    at, objects = 16 + 8 * count, []
    for size in struct.unpack_from(f"<{count}Q", blob, 16):
        objects.append(blob[at : at + size])
        at += size
    return objects
