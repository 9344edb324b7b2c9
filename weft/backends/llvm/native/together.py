"""Kernels that go through LLVM together, as one module, and leave it as an object each.

Whatever is in a module, LLVM takes some milliseconds to set its passes up, and on Arm as long again
to learn how many registers there are. So a thread that finds several texts waiting joins them; a
section of its own for each text's functions is what takes the object apart again.
"""

from __future__ import annotations

import re
import struct

from weft.backends.llvm.native.llvm import LOOP, QUICK

_MARK = "$part"
_DEFINED = re.compile(r"^(?:define [^\n]*?|)@([\w.]+)(?: = |\()", re.MULTILINE)
_HEAD = re.compile(r"^(define [^\n]*) \{$", re.MULTILINE)
_SECTION = re.compile(rb"\.text\.\d+\0")
_GLOBAL = re.compile(r"@([\w.]+)")
_ATTRIBUTES = "attributes #0 = { nounwind }"
# Lines of a text that joins others, beyond which the passes' own time is little.
MAX_JOINED_LINES = 400
# Kinds of sections that code needs: contents, symbols, names, relocations, zeros.
_KINDS = {1, 2, 3, 4, 8}
_EXECUTE = 4


def joinable(text: str) -> bool:
    """Whether a text may share a module: it is for LLVM's usual care, that of loops, or none, not
    long, and has no machine code."""
    own = text.removeprefix(QUICK).removeprefix(LOOP)
    if own.startswith(";") or text.count("\n") > MAX_JOINED_LINES or " prologue " in text:
        return False
    groups = [line for line in text.split("\n") if line.startswith("attributes ")]
    plain = groups in ([], [_ATTRIBUTES]) and text.count("\ndefine ") + text.startswith("define ")
    return bool(plain) and len(_HEAD.findall(text)) == plain and "\n!" not in text


def joint(texts: list[str]) -> str | None:
    """One module of several texts; what each defines has the text's number in its name.

    All are for the same care. None where they do not agree on what they call.
    """
    declared: dict[str, str] = {}
    bodies: list[str] = []
    for number, text in enumerate(texts):
        own = set(_DEFINED.findall(text))
        mark = f"{_MARK}{number}"

        def renamed(found: re.Match[str], own: set[str] = own, mark: str = mark) -> str:
            return found[0] + mark if found[1] in own else found[0]

        text = _GLOBAL.sub(renamed, text)
        text = _HEAD.sub(rf'\1 section ".text.{number}" {{', text)
        lines = text.split("\n")
        for line in lines:
            if line.startswith("declare ") and declared.setdefault(_called(line), line) != line:
                return None
        rest = [line for line in lines if not line.startswith(("declare ", "attributes "))]
        bodies.append("\n".join(rest))
    head = next((care for care in (QUICK, LOOP) if texts[0].startswith(care)), "")
    return head + "\n".join([*declared.values(), *bodies, _ATTRIBUTES, ""])


def _called(line: str) -> str:
    """The name of a function that a line declares."""
    found = _GLOBAL.search(line)
    return found[1] if found else ""


def was_joint(blob: bytes) -> bool:
    """Whether an object comes from a module of several texts."""
    return _SECTION.search(blob) is not None


def apart(blob: bytes, count: int) -> list[bytes]:
    """The object of each text, from that of a module of so many."""
    return [_part(blob, number) for number in range(count)]


def _part(blob: bytes, number: int) -> bytes:
    """An object without the code of other texts, its names as the text has them."""
    head = list(struct.unpack_from("<16sHHIQQQIHHHHHH", blob))
    start, step, count, names = head[6], head[11], head[12], head[13]
    headers = [
        list(struct.unpack_from("<IIQQQQIIQQ", blob, start + i * step)) for i in range(count)
    ]

    def name(header: list[int]) -> bytes:
        begin = headers[names][4] + header[0]
        return blob[begin : blob.index(b"\0", begin)]

    kept = [_is_kept(header, name(header), headers, number) for header in headers]
    mark = f"{_MARK}{number}\0".encode()
    made = bytearray(blob[:64])
    for header, keep in zip(headers, kept, strict=True):
        if not keep:
            header[1:] = [0] * 9
            continue
        offset, size = header[4:6]
        contents = blob[offset : offset + size] if header[1] != 8 else b""
        if header[1] == 3:  # names, each up to a zero
            contents = contents.replace(mark, bytes(len(mark)))
        made.extend(bytes(-len(made) % max(1, header[8])))
        header[4] = len(made)
        made.extend(contents)
    made.extend(bytes(-len(made) % 8))
    head[6] = len(made)
    for header in headers:
        made.extend(struct.pack("<IIQQQQIIQQ", *header))
    made[:64] = struct.pack("<16sHHIQQQIHHHHHH", *head)
    return bytes(made)


def _is_kept(header: list[int], name: bytes, headers: list[list[int]], number: int) -> bool:
    """Whether a section is the text's own or for all: code, constants, names, relocations."""
    kind, info = header[1], header[7]
    if kind not in _KINDS or name.endswith(b".eh_frame") or name.startswith(b".comment"):
        return False
    if kind == 4:  # relocations of another section, which has a name that this one ends with
        return not headers[info][2] & _EXECUTE or name == b".rela.text.%d" % number
    return not header[2] & _EXECUTE or name == b".text.%d" % number
