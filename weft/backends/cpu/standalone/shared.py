"""A shared library made of one object file: laid out, relocated, and written as ELF.

No linker is needed, and so none has to know the machine. The library is two segments. The first is
read and run: tables for the dynamic loader, jumps to functions of other libraries, code and
constants. The second is written: the loader's own table, addresses that it fills in, and variables.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

from weft.backends.llvm.native.loader import MACHINES, Object

PAGE = 1 << 16  # the largest that systems for these machines use
_HEADER, _PROGRAM_HEADER, _SEGMENTS = 64, 56, 4
_SYMBOL, _RELOCATION, _ENTRY = 24, 24, 16
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_SECTION_WRITE, _SECTION_EXECUTE, _NOBITS = 1, 4, 8
# Entries of the table for the dynamic loader.
_NEEDED, _HASH, _NAMES, _SYMBOLS, _RELOCATIONS = 1, 4, 5, 6, 7
_RELOCATION_BYTES, _RELOCATION_SIZE, _NAME_BYTES, _SYMBOL_SIZE, _OWN_NAME = 8, 9, 10, 11, 14
LIBRARIES = ("libm.so.6", "libc.so.6")

_X86, _ARM = MACHINES["x86_64"], MACHINES["aarch64"]
# Kinds of relocations: an address in the object, and what the dynamic loader does.
_ABSOLUTE = {_X86: 1, _ARM: 257}
_FILLED, _MOVED = {_X86: 6, _ARM: 1025}, {_X86: 8, _ARM: 1027}
_TABLE = {_X86: (9, 41, 42), _ARM: (311, 312)}
_UNDEFINED = 0
_STUB = 16  # bytes of a jump
_CODE_SECTION = 4  # the number of the section that functions are in


def shared_library(blob: bytes, name: str, public: Collection[str]) -> bytes:
    """The bytes of a shared library with this object's code; ``public`` are what it exports."""
    return _Library(blob, name, public).content()


class _Library(Object):
    """An object while it becomes a library; its image is the library's memory from address 0."""

    def __init__(self, blob: bytes, name: str, public: Collection[str]) -> None:
        super().__init__(blob, {})
        self.name, self.public = name, public
        self.stubs: dict[int, int] = {}  # jumps by symbol
        self.dynamic: list[tuple[int, int, int, int]] = []  # place, kind, symbol, addend

    def _is_variable(self, section: int) -> bool:
        return bool(self.sections[section].flags & _SECTION_WRITE)

    def _is_needed(self, section: int) -> bool:
        header = self.sections[section]
        held = header._replace(flags=header.flags & ~_SECTION_WRITE)
        return self._wanted(held)

    def _relocations(self) -> list[tuple[int, int, int, int, int]]:
        found = []
        for table in self.sections:
            if table.kind != 4 or not self._is_needed(table.info):
                continue
            for at in range(table.offset, table.offset + table.size, _RELOCATION):
                place, what, addend = struct.unpack_from("<QQq", self.blob, at)
                found.append((table.info, place, what & 0xFFFFFFFF, what >> 32, addend))
        return found

    def content(self) -> bytes:
        self._read_symbols()
        relocations = self._relocations()
        needed = [i for i in range(len(self.sections)) if self._is_needed(i)]
        moved = {r[0] for r in relocations if r[2] == _ABSOLUTE[self.machine]}
        variable = [i for i in needed if self._is_variable(i) or i in moved]
        fixed = [i for i in needed if i not in variable]
        outside = sorted({r[3] for r in relocations if self.symbols[r[3]].section == _UNDEFINED})
        exported = [
            i for i, s in enumerate(self.symbols) if s.name in self.public and s.section in needed
        ]
        table = sorted({r[3] for r in relocations if r[2] in _TABLE[self.machine]} | {*outside})
        self.numbers = {symbol: i + 1 for i, symbol in enumerate([*outside, *exported])}
        moves = sum(r[2] == _ABSOLUTE[self.machine] for r in relocations)

        # the first segment
        names = b"\0" + b"".join(self.symbols[i].name.encode() + b"\0" for i in self.numbers)
        places = {}
        for word in (self.name, *LIBRARIES):
            places[word] = len(names)
            names += word.encode() + b"\0"
        at = {"hash": self._room(_HEADER + _SEGMENTS * _PROGRAM_HEADER, 8)}
        count = len(self.numbers) + 1
        at["symbols"] = self._room(4 * (3 + count), 8)
        at["names"] = self._room(_SYMBOL * count, 8)
        at["relocations"] = self._room(len(names), 8)
        code = self._room(_RELOCATION * (len(table) + moves), 16)
        for symbol in outside:
            self.stubs[symbol] = len(self.image)
            self.image.extend(bytes(_STUB))
        for i in sorted(fixed, key=lambda i: not self.sections[i].flags & _SECTION_EXECUTE):
            self._put(i)
        end = len(self.image)

        # the second, on a page of its own, at the same place in it as in the file
        start = -(-end // 64) * 64 + PAGE
        self.image.extend(bytes(start - end))
        entries = 10 + len(LIBRARIES)
        self.image.extend(bytes(_ENTRY * entries))
        for symbol in table:
            self.jumps[symbol] = len(self.image) - 8  # as the patches take them
            self.image.extend(bytes(8))
        for i in sorted(variable, key=lambda i: self.sections[i].kind == _NOBITS):
            if self.sections[i].kind == _NOBITS:
                break
            self._put(i)
        stop = len(self.image)
        for i in variable:
            if self.sections[i].kind == _NOBITS:
                self._put(i)

        self._fill(relocations)
        self._loader_tables(at, names, exported)
        values = [*[(_NEEDED, places[library]) for library in LIBRARIES]]
        values += [(_OWN_NAME, places[self.name]), (_HASH, at["hash"]), (_NAMES, at["names"])]
        values += [(_SYMBOLS, at["symbols"]), (_RELOCATIONS, at["relocations"])]
        values += [(_RELOCATION_BYTES, _RELOCATION * len(self.dynamic))]
        values += [(_RELOCATION_SIZE, _RELOCATION), (_NAME_BYTES, len(names))]
        values += [(_SYMBOL_SIZE, _SYMBOL), (0, 0)]
        assert len(values) == entries
        for i, pair in enumerate(values):
            struct.pack_into("<QQ", self.image, start + _ENTRY * i, *pair)
        file = bytes(start - PAGE - end) + bytes(self.image[start:stop])
        spans: list[tuple[Any, ...]] = [
            (b".hash", 5, 2, at["hash"], at["hash"], 4 * (3 + count), 2, 0, 8, 4),
            (b".dynsym", 11, 2, at["symbols"], at["symbols"], _SYMBOL * count, 3, 1, 8, _SYMBOL),
            (b".dynstr", 3, 2, at["names"], at["names"], len(names), 0, 0, 1, 0),
            (b".text", 1, 6, code, code, end - code, 0, 0, 16, 0),
            (b".dynamic", 6, 3, start - PAGE, start, _ENTRY * entries, 3, 0, 8, _ENTRY),
        ]
        tables, first = _section_headers(end + len(file), spans)
        self._headers(end, start, stop, _ENTRY * entries, first, len(spans) + 2)
        return bytes(self.image[:end]) + file + tables

    def _room(self, size: int, align: int) -> int:
        """Take so many bytes; where the next ones begin."""
        self.image.extend(bytes(size))
        self.image.extend(bytes(-len(self.image) % align))
        return len(self.image)

    def _put(self, number: int) -> None:
        section = self.sections[number]
        self.image.extend(bytes(-len(self.image) % max(1, section.align)))
        self.places[number] = len(self.image)
        if section.kind == _NOBITS:
            self.image.extend(bytes(section.size))
        else:
            self.image.extend(self.blob[section.offset : section.offset + section.size])

    def _near(self, symbol: int) -> int:
        if self.symbols[symbol].section == _UNDEFINED:
            return self.stubs[symbol]
        return self._address(symbol)

    def _fill(self, relocations: list[tuple[int, int, int, int, int]]) -> None:
        machine = self.machine
        for symbol, at in self.jumps.items():
            self._late(at + 8, _FILLED[machine], symbol, 0)
        for symbol, at in self.stubs.items():
            entry = self.jumps[symbol] + 8
            if machine == _X86:  # jmp *entry(%rip)
                struct.pack_into("<HI", self.image, at, 0x25FF, (entry - at - 6) & 0xFFFFFFFF)
            else:  # adrp x16, entry; ldr x17, [x16, entry]; br x17
                pages = (entry >> 12) - (at >> 12)
                words = (
                    0x90000010 | (pages & 3) << 29 | ((pages >> 2) & 0x7FFFF) << 5,
                    0xF9400211 | ((entry & 0xFFF) >> 3) << 10,
                    0xD61F0220,
                )
                struct.pack_into("<III", self.image, at, *words)
        patch = self._patch_x86 if machine == _X86 else self._patch_arm
        for section, place, kind, symbol, addend in relocations:
            at = self.places[section] + place
            if kind == _ABSOLUTE[machine]:
                self._late(at, kind, symbol, addend)
            else:
                patch(at, kind, symbol, addend)

    def _late(self, at: int, kind: int, symbol: int, addend: int) -> None:
        """Have the dynamic loader write an address."""
        if self.symbols[symbol].section == _UNDEFINED:
            self.dynamic.append((at, kind, self.numbers[symbol], addend))
        else:
            self.dynamic.append((at, _MOVED[self.machine], 0, self._address(symbol) + addend))

    def _loader_tables(self, at: dict[str, int], names: bytes, exported: list[int]) -> None:
        count = len(self.numbers) + 1
        chain = [*range(2, count), 0] if count > 1 else []
        words = [1, count, 1 if count > 1 else 0, 0, *chain]  # one chain of all of them
        struct.pack_into(f"<{len(words)}I", self.image, at["hash"], *words)
        place = 1
        for symbol, number in self.numbers.items():
            defined = symbol in exported
            address = self._address(symbol) if defined else 0
            entry = (place, 0x12, 0, _CODE_SECTION if defined else 0, address, 0)
            struct.pack_into("<IBBHQQ", self.image, at["symbols"] + _SYMBOL * number, *entry)
            place += len(self.symbols[symbol].name.encode()) + 1
        self.image[at["names"] : at["names"] + len(names)] = names
        for i, (where, kind, number, addend) in enumerate(self.dynamic):
            fields = where, number << 32 | kind, addend
            struct.pack_into("<QQq", self.image, at["relocations"] + _RELOCATION * i, *fields)

    def _headers(
        self, end: int, start: int, stop: int, dynamic: int, sections: int, count: int
    ) -> None:
        magic = b"\x7fELF\x02\x01\x01" + bytes(9)
        sizes = _HEADER, _PROGRAM_HEADER, _SEGMENTS, 64, count, count - 1
        fields = 3, self.machine, 1, 0, _HEADER, sections, 0, *sizes
        struct.pack_into("<16sHHIQQQIHHHHHH", self.image, 0, magic, *fields)
        data = start - PAGE  # in the file
        segments = [
            (_LOAD, _READ | _EXECUTE, 0, 0, end, end, PAGE),
            (_LOAD, _READ | _WRITE, data, start, stop - start, len(self.image) - start, PAGE),
            (_DYNAMIC, _READ | _WRITE, data, start, dynamic, dynamic, 8),
            (_STACK, _READ | _WRITE, 0, 0, 0, 0, 16),
        ]
        for i, (kind, flags, offset, place, held, size, align) in enumerate(segments):
            at = _HEADER + _PROGRAM_HEADER * i
            segment = kind, flags, offset, place, place, held, size, align
            struct.pack_into("<IIQQQQQQ", self.image, at, *segment)


def _section_headers(at: int, spans: list[tuple[Any, ...]]) -> tuple[bytes, int]:
    """The table of sections, for linkers: what stands at a place of the file, and its own place."""
    names = b"\0" + b"".join(span[0] + b"\0" for span in spans) + b".shstrtab\0"
    own = (b".shstrtab", 3, 0, at, 0, len(names), 0, 0, 1, 0)
    first = -(-(at + len(names)) // 8) * 8
    headers = bytes(64)
    for name, kind, flags, offset, place, size, link, info, align, entry in [*spans, own]:
        word = names.index(b"\0" + name + b"\0") + 1
        fields = word, kind, flags, place, offset, size, link, info, align, entry
        headers += struct.pack("<IIQQQQIIQQ", *fields)
    return names + bytes(first - at - len(names)) + headers, first
