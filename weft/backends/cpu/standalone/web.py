"""A WebAssembly module made of one object file.

The object is already a module whose addresses are right if its data begins at 0. What is missing
are the functions that it exports. Data that is zero is left out: memory begins as zeros.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.base.record import Record

_MAGIC = b"\0asm\1\0\0\0"
_CUSTOM, _IMPORT, _EXPORT, _ELEMENTS, _DATA = 0, 2, 7, 9, 11
_AFTER_EXPORT = 8  # sections stand in the order of their numbers, but for 12, the count of data
_COUNT = 12
_SYMBOLS, _FUNCTION_SYMBOL, _UNDEFINED, _NAMED = 8, 0, 0x10, 0x40

# Functions that processors have and WebAssembly has not: LLVM calls them by C's names.
FUSED = """
define float @fmaf(float %x, float %y, float %z) {
  %a = fpext float %x to double
  %b = fpext float %y to double
  %c = fpext float %z to double
  %ab = fmul double %a, %b
  %sum = fadd double %ab, %c
  %found = fptrunc double %sum to float
  ret float %found
}
define double @fma(double %x, double %y, double %z) {
  %p = fmul double %x, %y
  %xs = fmul double %x, 134217729.0
  %xd = fsub double %xs, %x
  %xh = fsub double %xs, %xd
  %xl = fsub double %x, %xh
  %ys = fmul double %y, 134217729.0
  %yd = fsub double %ys, %y
  %yh = fsub double %ys, %yd
  %yl = fsub double %y, %yh
  %e0 = fmul double %xh, %yh
  %e1 = fsub double %e0, %p
  %e2 = fmul double %xh, %yl
  %e3 = fadd double %e1, %e2
  %e4 = fmul double %xl, %yh
  %e5 = fadd double %e3, %e4
  %e6 = fmul double %xl, %yl
  %e = fadd double %e5, %e6
  %t = fadd double %p, %z
  %back = fsub double %t, %p
  %r0 = fsub double %t, %back
  %r1 = fsub double %p, %r0
  %r2 = fsub double %z, %back
  %r = fadd double %r1, %r2
  %re = fadd double %r, %e
  %found = fadd double %t, %re
  %size = call double @llvm.fabs.f64(double %found)
  %fine = fcmp olt double %size, 0x7FF0000000000000
  %result = select i1 %fine, double %found, double %t
  ret double %result
}
declare double @llvm.fabs.f64(double)
"""
FUSED_NAMES = frozenset(["fma", "fmaf"])


class Web(Record):
    """A module, the functions that it wants from its host, where its data ends, and how many
    functions its table needs room for."""

    module: bytes
    imports: list[str]
    end: int
    entries: int


def web_module(blob: bytes, public: Collection[str]) -> Web:
    """The module of an object file that exports these functions."""
    if not blob.startswith(_MAGIC):
        raise ValueError("not a WebAssembly object")
    sections = _sections(blob)
    imports: list[str] = []
    symbols: dict[str, int] = {}
    end = 0
    for kind, data in sections:
        if kind == _IMPORT:
            imports = _imports(data)
        elif kind == _CUSTOM:
            reader = _Reader(data)
            if reader.text() == "linking":
                symbols = _functions(reader)
    made = bytearray(_MAGIC)
    exported = _exports({name: symbols[name] for name in public if name in symbols})
    for kind, data in sections:
        if kind in (_CUSTOM, _COUNT):
            continue
        if exported and _AFTER_EXPORT <= kind:
            made += _section(_EXPORT, exported)
            exported = b""
        if kind == _DATA:
            data, end = _without_zeros(data)
        made += _section(kind, data)
    entries = sum(data.count(b"") for kind, data in sections if kind == _ELEMENTS)
    return Web(bytes(made), imports, end, entries + 1)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        found = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        return self.take(self.number()).decode()


def _leb(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def _section(kind: int, data: bytes) -> bytes:
    return bytes([kind]) + _leb(len(data)) + data


def _sections(blob: bytes) -> list[tuple[int, bytes]]:
    reader, found = _Reader(blob), []
    reader.at = len(_MAGIC)
    while reader.at < len(blob):
        kind = reader.take(1)[0]
        found.append((kind, reader.take(reader.number())))
    return found


def _imports(data: bytes) -> list[str]:
    """The names of what a module imports, functions first come first."""
    reader, found = _Reader(data), []
    for _ in range(reader.number()):
        reader.text()
        name, kind = reader.text(), reader.take(1)[0]
        if kind == 0:  # a function: its type
            reader.number()
            found.append(name)
        elif kind == 3:  # a variable: its type, and whether it changes
            reader.take(2)
        else:  # a table has a type; memory and tables have limits
            if kind == 1:
                reader.take(1)
            limits = reader.take(1)[0]
            reader.number()
            if limits & 1:
                reader.number()
    return found


def _functions(reader: _Reader) -> dict[str, int]:
    """The numbers of defined functions by name, from the table for linkers."""
    reader.number()  # the version
    while reader.at < len(reader.data):
        kind = reader.take(1)[0]
        part = _Reader(reader.take(reader.number()))
        if kind == _SYMBOLS:
            return _symbols(part)
    return {}


def _symbols(part: _Reader) -> dict[str, int]:
    found = {}
    for _ in range(part.number()):
        kind, flags = part.take(1)[0], part.number()
        if kind == 1:  # data
            part.text()
            if not flags & _UNDEFINED:
                for _ in range(3):
                    part.number()
        elif kind == 3:  # a section
            part.number()
        else:
            number = part.number()
            if not flags & _UNDEFINED or flags & _NAMED:
                name = part.text()
                if kind == _FUNCTION_SYMBOL and not flags & _UNDEFINED:
                    found[name] = number
    return found


def _exports(functions: dict[str, int]) -> bytes:
    made = _leb(len(functions))
    for name, number in functions.items():
        word = name.encode()
        made += _leb(len(word)) + word + b"\0" + _leb(number)
    return made


def _without_zeros(data: bytes) -> tuple[bytes, int]:
    """The data of a module without pieces of zeros, and where all of it ends in memory."""
    reader, pieces, end = _Reader(data), [], 0
    for _ in range(reader.number()):
        begin = reader.at
        mode = reader.number()
        assert mode == 0, "data at a place of memory"
        assert reader.take(1) == b"\x41"  # i32.const
        place = _signed(reader)
        assert reader.take(1) == b"\x0b"
        held = reader.take(reader.number())
        end = max(end, place + len(held))
        if held.strip(b"\0"):
            pieces.append(data[begin : reader.at])
    return _leb(len(pieces)) + b"".join(pieces), end


def _signed(reader: _Reader) -> int:
    found = shift = 0
    while True:
        byte = reader.take(1)[0]
        found |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return found - (1 << shift) if byte & 64 else found
