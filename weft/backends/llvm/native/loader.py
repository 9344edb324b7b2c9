"""Objects made executable: sections of an ELF file laid out in memory and relocated.

LLVM can do this too. Doing it here means that code found in the disk cache runs without loading
LLVM, and that code nobody uses any more is given back.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import sys
import weakref
from collections.abc import Mapping
from typing import Any

from weft.backends.llvm.native.parts import taken_apart
from weft.backends.llvm.native.processor import architecture
from weft.base.record import Record

MACHINES = {"x86_64": 62, "aarch64": 183}

_PROGBITS, _NOBITS, _RELA = 1, 8, 4
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_UNDEFINED = 0

# A jump through the eight bytes at its end, which also serve as an entry of a table of addresses.
_JUMP = {62: bytes.fromhex("ff2502000000cccc"), 183: bytes.fromhex("50000058 00021fd6")}

# Relocations by what is written where: S the symbol, A the addend, P the place.
_X86_RELATIVE = (2, 4)  # PC32, PLT32
_X86_TABLE = (9, 41, 42)  # GOTPCREL and its relaxed forms
_ARM_PAGE, _ARM_ADD, _ARM_CALL, _ARM_TABLE_PAGE, _ARM_TABLE_LOW = 275, 277, (282, 283), 311, 312
_ARM_LOW = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}  # loads and stores by the log of their size


class Section(Record):
    """One section's header, as far as it matters here."""

    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


class Symbol(Record):
    """One symbol: where it is defined, or that it is not."""

    name: str
    section: int
    value: int


class Region:
    """Executable memory that holds one object; given back when nobody refers to it."""

    __slots__ = ("__weakref__", "address", "others", "size", "symbols")

    def __init__(self, address: int, size: int, symbols: dict[str, int]) -> None:
        self.address = address
        self.size = size
        self.symbols = symbols
        self.others: list[Region] = []  # that it calls
        # Not __del__: weak references still find an object while its __del__ runs, so that another
        # thread could take the region from a cache while its memory goes.
        ending = weakref.finalize(self, _libc().munmap, address, size)
        ending.atexit = False  # at exit a daemon thread may still be inside


def supported() -> bool:
    """Whether this file knows the machine's objects and memory."""
    return sys.platform == "linux" and architecture() in MACHINES


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    size, pointer, whole = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    libc.mmap.restype = pointer
    libc.mmap.argtypes = [pointer, size, whole, whole, whole, ctypes.c_long]
    libc.mprotect.argtypes = [pointer, size, whole]
    libc.munmap.argtypes = [pointer, size]
    return libc


def reserve(size: int) -> int:
    """The address of fresh zeroed memory of our own."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = _libc().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise MemoryError(f"could not get {size} bytes for machine code")
    return address


@functools.cache
def external(name: str) -> int:
    """The address of a function of the C library or the mathematical library."""
    for library in (None, "libm.so.6", "libgcc_s.so.1"):
        try:
            return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0
        except (AttributeError, OSError):
            continue
    raise RuntimeError(f"compiled code calls {name}, which no library of this process defines")


def load(blob: bytes) -> Region:
    """An ELF object in executable memory, its global functions by name."""
    first, *more = taken_apart(blob)
    region = Object(first, {}).load()
    for part in more:
        caller = Object(part, region.symbols).load()
        caller.symbols = {**region.symbols, **caller.symbols}
        caller.others = [region]
        region = caller
    return region


def code(blob: bytes) -> list[bytes]:
    """The instructions of an object, as they are before any addresses are filled in."""
    found = []
    for part in taken_apart(blob):
        sections = Object(part, {}).sections
        wanted = [s for s in sections if s.flags & _EXECUTE and s.size]
        found += [part[s.offset : s.offset + s.size] for s in wanted]
    return found


class Object:
    """An object file while it is laid out."""

    def __init__(self, blob: bytes, known: Mapping[str, int]) -> None:
        """``known`` has functions of other objects that this one may call."""
        self.known = known
        head = struct.unpack_from("<4sBB10xHHIQQQIHHHHHH", blob)
        magic, bits, order, kind, self.machine = head[:5]
        if (magic, bits, order, kind) != (b"\x7fELF", 2, 1, 1):
            raise ValueError("not a relocatable object of this kind of machine")
        if self.machine != MACHINES.get(architecture()):
            raise ValueError(f"an object for another machine: {self.machine}")
        self.blob = blob
        start, step, count = head[8], head[13], head[14]
        self.sections = []
        for i in range(count):
            fields = struct.unpack_from("<IIQQQQIIQQ", blob, start + i * step)
            name, kind, flags, _, offset, size, link, info, align, _ = fields
            self.sections.append(Section(name, kind, flags, offset, size, link, info, align))
        self.names = self.sections[head[15]]
        self.symbols: list[Symbol] = []
        self.places: dict[int, int] = {}
        self.jumps: dict[int, int] = {}
        self.image = bytearray()
        self.base = 0

    def text_at(self, table: Section, offset: int) -> str:
        begin = table.offset + offset
        return self.blob[begin : self.blob.index(b"\0", begin)].decode()

    def load(self) -> Region:
        """Lay out, relocate, copy, make executable."""
        self._read_symbols()
        relocations = self._relocations()
        size = self._lay_out(relocations)
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.base = reserve(pages)
        try:
            self._fill(relocations)
            ctypes.memmove(self.base, bytes(self.image), size)
            # On aarch64 the kernel brings instruction caches up to date where a page that was
            # written becomes executable for the first time.
            if _libc().mprotect(self.base, pages, mmap.PROT_READ | mmap.PROT_EXEC):
                raise OSError(ctypes.get_errno(), "memory could not be made executable")
        except BaseException:
            _libc().munmap(self.base, pages)
            raise
        symbols = {
            s.name: self.base + self.places[s.section] + s.value
            for s in self.symbols
            if s.name and s.section in self.places
        }
        return Region(self.base, pages, symbols)

    def _read_symbols(self) -> None:
        table = next(s for s in self.sections if s.kind == 2)
        names = self.sections[table.link]
        for at in range(table.offset, table.offset + table.size, 24):
            name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.blob, at)
            self.symbols.append(Symbol(self.text_at(names, name), section, value))

    def _wanted(self, section: Section) -> bool:
        """Whether a section is needed to run; tables for unwinding are not."""
        if not section.flags & _ALLOC or not section.size:
            return False
        if section.kind not in (_PROGBITS, _NOBITS):
            return False
        if self.text_at(self.names, section.name).startswith((".eh_frame", ".note")):
            return False
        if section.flags & _WRITE:
            raise ValueError("compiled code must not define variables")
        return True

    def _relocations(self) -> list[tuple[int, int, int, int, int]]:
        """All of them: section, place in it, kind, symbol, addend."""
        found = []
        for table in self.sections:
            if table.kind != _RELA or not self._wanted(self.sections[table.info]):
                continue
            for at in range(table.offset, table.offset + table.size, 24):
                place, what, addend = struct.unpack_from("<QQq", self.blob, at)
                found.append((table.info, place, what & 0xFFFFFFFF, what >> 32, addend))
        return found

    def _lay_out(self, relocations: list[tuple[int, int, int, int, int]]) -> int:
        """Code first, then constants, then jumps to functions that lie elsewhere."""
        image = self.image
        order = sorted(
            (i for i, s in enumerate(self.sections) if self._wanted(s)),
            key=lambda i: not self.sections[i].flags & _EXECUTE,
        )
        for i in order:
            section = self.sections[i]
            image.extend(bytes(-len(image) % max(1, section.align)))
            self.places[i] = len(image)
            if section.kind == _NOBITS:
                image.extend(bytes(section.size))
            else:
                image.extend(self.blob[section.offset : section.offset + section.size])
        image.extend(bytes(-len(image) % 16))
        table = (*_X86_TABLE, _ARM_TABLE_PAGE, _ARM_TABLE_LOW)
        for _, _, kind, symbol, _ in relocations:
            elsewhere = self.symbols[symbol].section == _UNDEFINED
            if (elsewhere or kind in table) and symbol not in self.jumps:
                self.jumps[symbol] = len(image)
                image.extend(bytes(16))
        return len(image)

    def _address(self, symbol: int) -> int:
        found = self.symbols[symbol]
        if found.section == _UNDEFINED:
            return self.known.get(found.name) or external(found.name)
        return self.base + self.places[found.section] + found.value

    def _fill(self, relocations: list[tuple[int, int, int, int, int]]) -> None:
        for symbol, at in self.jumps.items():
            self.image[at : at + 8] = _JUMP[self.machine]
            struct.pack_into("<Q", self.image, at + 8, self._address(symbol))
        patch = self._patch_x86 if self.machine == 62 else self._patch_arm
        for section, place, kind, symbol, addend in relocations:
            patch(self.places[section] + place, kind, symbol, addend)

    def _near(self, symbol: int) -> int:
        """Where a call of the symbol goes: to it, or to the jump that reaches it."""
        if self.symbols[symbol].section == _UNDEFINED:
            return self.base + self.jumps[symbol]
        return self._address(symbol)

    def _patch_x86(self, at: int, kind: int, symbol: int, addend: int) -> None:
        here = self.base + at
        if kind == 1:
            struct.pack_into("<Q", self.image, at, self._address(symbol) + addend)
        elif kind in _X86_RELATIVE:
            struct.pack_into("<i", self.image, at, self._near(symbol) + addend - here)
        elif kind in _X86_TABLE:
            entry = self.base + self.jumps[symbol] + 8
            struct.pack_into("<i", self.image, at, entry + addend - here)
        elif kind == 24:
            struct.pack_into("<q", self.image, at, self._address(symbol) + addend - here)
        else:
            raise ValueError(f"unknown relocation {kind}")

    def _patch_arm(self, at: int, kind: int, symbol: int, addend: int) -> None:
        here = self.base + at
        if kind == 257:
            struct.pack_into("<Q", self.image, at, self._address(symbol) + addend)
            return
        if kind == 261:
            struct.pack_into("<i", self.image, at, self._near(symbol) + addend - here)
            return
        (word,) = struct.unpack_from("<I", self.image, at)
        if kind in (_ARM_TABLE_PAGE, _ARM_TABLE_LOW):
            target = self.base + self.jumps[symbol] + 8
        else:
            target = self._near(symbol) + addend
        if kind in _ARM_CALL:
            word |= ((target - here) >> 2) & 0x3FFFFFF
        elif kind in (_ARM_PAGE, _ARM_TABLE_PAGE):
            pages = (target >> 12) - (here >> 12)
            word |= (pages & 3) << 29 | ((pages >> 2) & 0x7FFFF) << 5
        elif kind == _ARM_ADD:
            word |= (target & 0xFFF) << 10
        elif kind in _ARM_LOW or kind == _ARM_TABLE_LOW:
            word |= ((target & 0xFFF) >> _ARM_LOW.get(kind, 3)) << 10
        else:
            raise ValueError(f"unknown relocation {kind}")
        struct.pack_into("<I", self.image, at, word)
