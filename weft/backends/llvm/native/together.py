"""Kernels that go through LLVM together, as one module, and leave it as an object each.

Whatever is in a module, LLVM takes some milliseconds to set its passes up, and on Arm as long again
to learn how many registers there are. So a thread that finds several waiting joins them; a section
of its own for each one's functions is what takes the object apart again.
"""

from __future__ import annotations

import re
import struct
from functools import partial

from weft.backends.llvm.code import Effort, Function, Module

_MARK = "$part"
_SECTION = re.compile(rb"\.text\.\d+\0")
_GROUPS = ("attributes #0 = { nounwind }",)
# Lines of a module that joins others, beyond which the passes' own time is little.
MAX_JOINED_LINES = 400
# Kinds of sections that code needs: contents, symbols, names, relocations, zeros.
_KINDS = {1, 2, 3, 4, 8}
_EXECUTE = 4


def joinable(module: Module) -> bool:
    """Whether a module may share one with others: it is for LLVM's usual effort, that of loops, or
    none, not long, and has no machine code."""
    if module.effort not in (Effort.KERNEL, Effort.QUICK, Effort.LOOP) or not module.functions:
        return False
    if module.line_count > MAX_JOINED_LINES or any(f.prologue for f in module.functions):
        return False
    return module.groups in ((), _GROUPS) and not module.metadata


def joint(modules: list[Module]) -> Module | None:
    """One module of several; functions have the number of theirs in their names.

    All are for the same effort. None where they do not agree on what they call.
    """
    known: dict[str, object] = {}
    marked: list[Module] = []
    for number, module in enumerate(modules):
        shared = {**module.declared, **{x.name: x for x in module.memory}}
        if any(known.setdefault(name, x) != x for name, x in shared.items()):
            return None
        section = f'section ".text.{number}"'
        module = module.renamed({name: f"{name}{_MARK}{number}" for name in module.names})
        in_section = partial(_in_section, section=section)
        marked.append(module.mapped(in_section))
    return marked[0].joined(*marked[1:]).replaced(groups=_GROUPS)


def _in_section(function: Function, section: str) -> Function:
    return function._replace(attributes=(*function.attributes, section))


def was_joint(blob: bytes) -> bool:
    """Whether an object comes from several modules."""
    return _SECTION.search(blob) is not None


def apart(blob: bytes, count: int) -> list[bytes]:
    """The object of each module, from that of so many."""
    return [_part(blob, number) for number in range(count)]


def _part(blob: bytes, number: int) -> bytes:
    """An object without the code of other modules, its names as its own has them."""
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
    """Whether a section is the module's own or for all: code, constants, names, relocations."""
    kind, info = header[1], header[7]
    if kind not in _KINDS or name.endswith(b".eh_frame") or name.startswith(b".comment"):
        return False
    if kind == 4:  # relocations of another section, which has a name that this one ends with
        return not headers[info][2] & _EXECUTE or name == b".rela.text.%d" % number
    return not header[2] & _EXECUTE or name == b".text.%d" % number
