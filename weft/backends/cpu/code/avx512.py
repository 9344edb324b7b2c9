"""Machine code of x86-64 with AVX-512, for loops that LLVM would take milliseconds to write as they
are written here: what vectors, addresses and loops of register tiles need, and no more.

Instructions are encoded as the Intel 64 and IA-32 Architectures Software Developer's Manual, volume
2, has them (REX in section 2.2.1, EVEX in section 2.7).

>>> code = Code()
>>> code.fma(F32, 0, 24, 25)
>>> code.load(26, Memory(RSI, 64))
>>> code.made().hex(" ")
'62 92 3d 40 b8 c1 62 61 7c 48 10 56 01'
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import numpy as np

from weft.backends.llvm.native.processor import architecture, vector_bits
from weft.base.record import Record
from weft.kernel.nodes import F32, F64

RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 = range(16)
# Those that a function has to leave as it found them.
SAVED = (RBX, RBP, R12, R13, R14, R15)
VECTOR_BYTES = 64

# Instructions on general registers.
_ADD, _ADD_NUMBER, _COMPARE, _COUNT_DOWN, _LEA = b"\x03", b"\x81", b"\x3b", b"\xff", b"\x8d"
_MOVE, _MOVE_NUMBER, _STORE, _TEST = b"\x8b", b"\xc7", b"\x89", b"\x85"
_MULTIPLY, _MULTIPLY_NUMBER, _MOVE_IF_GREATER = b"\x0f\xaf", b"\x69", b"\x0f\x4f"
# Jumps where the last result was not zero, was, or a comparison said less.
NOT_ZERO, ZERO, LESS = 0x85, 0x84, 0x8C
_NOP, _LONG_NOP = b"\x90", bytes.fromhex("0f1f840000000000")
_CLEAR_UPPER_AND_RETURN = bytes.fromhex("c5f877c3")
# Instructions on vectors: the map of their number, the prefix that they would have, W, the number.
_VECTOR_LOAD, _VECTOR_STORE, _XOR = (1, 0, 0, 0x10), (1, 0, 0, 0x11), (1, 0, 0, 0x57)
_BROADCAST = {F32: (2, 1, 0, 0x18), F64: (2, 1, 1, 0x19)}
_FMA = {F32: (2, 1, 0, 0xB8), F64: (2, 1, 1, 0xB8)}


def has_avx512() -> bool:
    """Whether the machine runs what is written here."""
    return architecture() == "x86_64" and vector_bits() == 512


def fits(number: object) -> bool:
    """Whether an instruction has room for a number."""
    return type(number) is int and -(1 << 31) <= number < 1 << 31


class Memory(Record):
    """A place in memory: a base, so many bytes on, and an index times 1, 2, 4 or 8."""

    base: int
    offset: int = 0
    index: int = -1  # type: ignore[assignment]  # a field, not the method of tuples
    scale: int = 1


Operand: TypeAlias = int | Memory


class Code:
    """Instructions one after another. Registers are numbers; the first operand is the target."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def made(self) -> bytes:
        return bytes(self.bytes)

    # --- general registers ------------------------------------------------------------------------

    def move(self, target: int, source: Operand) -> None:
        self._general(_MOVE, target, source)

    def store(self, target: Memory, source: int) -> None:
        self._general(_STORE, source, target)

    def add(self, target: int, source: Operand) -> None:
        self._general(_ADD, target, source)

    def multiply(self, target: int, source: Operand) -> None:
        self._general(_MULTIPLY, target, source)

    def lea(self, target: int, source: Memory) -> None:
        """The address itself."""
        self._general(_LEA, target, source)

    def set_number(self, target: int, number: int) -> None:
        self._general(_MOVE_NUMBER, 0, target, number)

    def add_number(self, target: int, number: int) -> None:
        if number:
            self._general(_ADD_NUMBER, 0, target, number)

    def multiply_number(self, target: int, source: int, number: int) -> None:
        self._general(_MULTIPLY_NUMBER, target, source, number)

    def least(self, target: int, other: int) -> None:
        """The smaller of two numbers."""
        self._general(_COMPARE, target, other)
        self._general(_MOVE_IF_GREATER, target, other)

    def compare(self, one: int, other: Operand) -> None:
        self._general(_COMPARE, one, other)

    def test(self, register: int) -> None:
        """Whether a number is zero."""
        self._general(_TEST, register, register)

    def count_down(self, target: Operand) -> None:
        self._general(_COUNT_DOWN, 1, target)

    def push(self, register: int) -> None:
        self.bytes += (b"\x41" if register > 7 else b"") + bytes([0x50 + register % 8])

    def pop(self, register: int) -> None:
        self.bytes += (b"\x41" if register > 7 else b"") + bytes([0x58 + register % 8])

    def leave(self) -> None:
        """Return, with vectors as code without AVX likes them."""
        self.bytes += _CLEAR_UPPER_AND_RETURN

    def _general(self, opcode: bytes, reg: int, rm: Operand, number: int | None = None) -> None:
        index, base = (rm.index, rm.base) if isinstance(rm, Memory) else (0, rm)
        prefix = 0x48 | reg >> 3 << 2 | (index > 7) << 1 | base >> 3
        self.bytes += bytes([prefix]) + opcode + _operands(reg, rm, 1)
        if number is not None:
            self.bytes += struct.pack("<i", number)

    # --- places -----------------------------------------------------------------------------------

    def here(self, align: int = 1) -> int:
        """A place to jump to."""
        missing = -len(self.bytes) % align
        self.bytes += missing // 8 * _LONG_NOP + missing % 8 * _NOP
        return len(self.bytes)

    def jump(self, condition: int, to: int = 0) -> int:
        """Jump to a place, or to one that ``land`` says; where the distance is written."""
        self.bytes += bytes([0x0F, condition]) + bytes(4)
        self.land(len(self.bytes) - 4, to)
        return len(self.bytes) - 4

    def land(self, jump: int, to: int) -> None:
        struct.pack_into("<i", self.bytes, jump, to - jump - 4)

    # --- vectors ----------------------------------------------------------------------------------

    def load(self, target: int, source: Memory) -> None:
        self._vector(_VECTOR_LOAD, target, 0, source, VECTOR_BYTES)

    def write(self, target: Memory, source: int) -> None:
        self._vector(_VECTOR_STORE, source, 0, target, VECTOR_BYTES)

    def clear(self, target: int) -> None:
        # Of 128 bits, for which no unit has to do anything, and the others are zero with them.
        if target > 15:
            self._vector(_XOR, target, target, target, bits=128)
            return
        head = b"\xc4\x41" if target > 7 else b"\xc5"
        second = (~target & 15) << 3 | (0 if target > 7 else 0x80)
        self.bytes += head + bytes([second, _XOR[-1]]) + _operands(target, target, 1)

    def broadcast(self, dtype: np.dtype, target: int, source: Memory) -> None:
        self._vector(_BROADCAST[dtype], target, 0, source, dtype.itemsize)

    def fma(self, dtype: np.dtype, target: int, x: int, y: int) -> None:
        """Add a product to the target."""
        self._vector(_FMA[dtype], target, x, y)

    def fma_broadcast(self, dtype: np.dtype, target: int, x: int, y: Memory) -> None:
        """The same where one number in memory is a factor for all lanes."""
        self._vector(_FMA[dtype], target, x, y, dtype.itemsize, every=True)

    def _vector(
        self,
        kind: tuple[int, int, int, int],
        reg: int,
        other: int,
        rm: Operand,
        unit: int = 1,
        every: bool = False,
        bits: int = 512,
    ) -> None:
        """An instruction on vectors; distances in memory are short as multiples of ``unit``. A
        number in memory may be for ``every`` lane."""
        table, prefix, wide, opcode = kind
        high = [reg >> 3 & 1, rm >> 4 if isinstance(rm, int) else rm.index > 7]
        high += [(rm if isinstance(rm, int) else rm.base) >> 3 & 1, reg >> 4]
        inverted = sum((not bit) << 7 - i for i, bit in enumerate(high))
        second = wide << 7 | (~other & 15) << 3 | 4 | prefix
        third = bits >> 8 << 5 | every << 4 | (not other >> 4) << 3
        self.bytes += bytes([0x62, inverted | table, second, third, opcode])
        self.bytes += _operands(reg, rm, unit)


def _operands(reg: int, rm: Operand, unit: int) -> bytes:
    """The bytes ModRM and SIB and a distance, in units if it is short."""
    first = (reg & 7) << 3
    if isinstance(rm, int):
        return bytes([0xC0 | first | rm & 7])
    base, offset, index, scale = rm
    short = offset % unit == 0 and -128 <= offset // unit < 128
    mode, distance = 2, struct.pack("<i", offset)
    if offset == 0 and base & 7 != RBP:  # which without a distance would mean something else
        mode, distance = 0, b""
    elif short:
        mode, distance = 1, struct.pack("<b", offset // unit)
    if index < 0 and base & 7 != RSP:
        return bytes([mode << 6 | first | base & 7]) + distance
    scaled = scale.bit_length() - 1 << 6 | (index & 7 if index >= 0 else RSP) << 3 | base & 7
    return bytes([mode << 6 | first | RSP, scaled]) + distance
