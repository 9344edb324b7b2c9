"""Register tiles that are written as machine code: what it does, by a small processor in Python."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.machines.listing import Listing
from weft.backends.cpu.code import avx512
from weft.backends.cpu.code.avx512 import Memory
from weft.backends.cpu.routines.contractions import tile_code
from weft.backends.cpu.routines.contractions.conv_moves import Copied
from weft.backends.cpu.routines.contractions.conv_text import (
    CARELESS,
    Axis,
    Contraction,
    Dim,
    Panel,
)
from weft.backends.cpu.routines.contractions.conv_writer import Coded, Text
from weft.backends.llvm.code import Effort, Parameter
from weft.backends.llvm.native import loader
from weft.backends.llvm.native.compiling import compile_now
from weft.backends.llvm.native.parts import divided
from weft.backends.llvm.native.together import joinable
from weft.base.sizes import size_named
from weft.kernel.nodes import F32, F64


class Processor:
    """As much of x86-64 with AVX-512 as these functions use; memory begins at address 0."""

    def __init__(self, memory: np.ndarray, stack: int) -> None:
        self.memory, self.general, self.vectors = memory, [0] * 16, np.zeros((32, 64), np.uint8)
        self.general[avx512.RSP], self.zero, self.less = stack, False, False

    def call(self, code: bytes, arguments: list[int]) -> None:
        for number in reversed(arguments[6:]):
            self.push(number)
        self.push(0)
        for register, number in zip((7, 6, 2, 1, 8, 9), arguments, strict=False):
            self.general[register] = number
        kept = [self.general[r] for r in (*avx512.SAVED, avx512.RSP)]
        self.code, self.at = code, 0
        while self.step():
            pass
        assert kept == [self.general[r] for r in (*avx512.SAVED, avx512.RSP)]

    def push(self, number: int) -> None:
        self.general[avx512.RSP] -= 8
        self.put(self.general[avx512.RSP], number)

    def put(self, place: int, number: int) -> None:
        self.memory[place : place + 8] = np.frombuffer(struct.pack("<q", number), np.uint8)

    def got(self, place: int) -> int:
        return struct.unpack("<q", self.memory[place : place + 8].tobytes())[0]

    def take(self, form: str) -> int:
        found = struct.unpack_from(f"<{form}", self.code, self.at)[0]
        self.at += struct.calcsize(form)
        return found

    def operands(self, high: tuple[int, int, int], unit: int) -> tuple[int, int, bool]:
        """A register, and a register or a place in memory, which the last says."""
        byte = self.take("B")
        mode, reg, rm = byte >> 6, byte >> 3 & 7 | high[0] << 3, byte & 7
        if mode == 3:
            return reg, rm | high[2] << 3, False
        place = 0
        if rm == 4:
            byte = self.take("B")
            index, rm = byte >> 3 & 7 | high[1] << 3, byte & 7
            place = 0 if index == 4 else self.general[index] << (byte >> 6)
        assert mode or rm != 5
        place += self.general[rm | high[2] << 3]
        if mode:
            place += unit * self.take("b") if mode == 1 else self.take("i")
        return reg, place, True

    def step(self) -> bool:
        byte = self.take("B")
        if byte == 0x62:
            self.vector()
        elif self.code[self.at - 1 :] == b"\xc5\xf8\x77\xc3":  # vzeroupper, ret
            return False
        elif byte in (0xC4, 0xC5):  # a vector of zeros
            high = self.take("B") == 0x41 if byte == 0xC4 else 0
            other, number = ~self.take("B") >> 3 & 15, (self.take("B"), self.take("B"))[1] & 7
            assert other == number | high << 3
            self.vectors[other] = 0
        elif byte == 0x0F:
            self.jump(self.take("B"))
        elif byte != 0x90:
            self.whole(byte)
        return True

    def jump(self, kind: int) -> None:
        if kind == 0x1F:
            self.at += 6
            return
        distance = self.take("i")
        if {0x84: self.zero, 0x85: not self.zero, 0x8C: self.less}[kind]:
            self.at += distance

    def whole(self, byte: int) -> None:
        """An instruction on general registers."""
        high = 0
        if 0x40 <= byte < 0x50:
            high, byte = byte & 7, self.take("B")
        if 0x50 <= byte < 0x60:
            register = byte & 7 | (high & 1) << 3
            if byte < 0x58:
                self.push(self.general[register])
            else:
                self.general[register] = self.got(self.general[avx512.RSP])
                self.general[avx512.RSP] += 8
            return
        if byte == 0x0F:
            byte = 0x0F00 | self.take("B")
        reg, rm, placed = self.operands((high >> 2, high >> 1 & 1, high & 1), 1)
        value = rm
        if byte != 0x8D:
            value = self.got(rm) if placed else self.general[rm]
        own = self.general[reg]
        if byte == 0x89:
            self.put(rm, own)
        elif byte in (0xC7, 0x81):
            assert not placed and reg & 7 == 0
            self.general[rm] = self.take("i") + (value if byte == 0x81 else 0)
        elif byte == 0xFF:
            assert reg & 7 == 1
            self.zero = value == 1
            if placed:
                self.put(rm, value - 1)
            else:
                self.general[rm] = value - 1
        elif byte in (0x3B, 0x85):
            self.zero, self.less = (own == value, own < value) if byte == 0x3B else (not own, False)
        elif byte == 0x0F4F:
            if not (self.less or self.zero):
                self.general[reg] = value
        else:
            operations = {0x03: own + value, 0x8B: value, 0x8D: value, 0x0FAF: own * value}
            if byte == 0x69:
                operations[byte] = value * self.take("i")
            self.general[reg] = operations[byte]

    def vector(self) -> None:
        first, second, third, opcode = (self.take("B") for _ in range(4))
        up = [not first >> bit & 1 for bit in (7, 6, 5, 4)]
        other = ~second >> 3 & 15 | (not third >> 3 & 1) << 4
        dtype = F64 if second >> 7 else F32
        every = third >> 4 & 1
        unit = dtype.itemsize if every or opcode in (0x18, 0x19) else 64
        reg, rm, placed = self.operands((up[0], up[1], up[2]), unit)
        reg |= up[3] << 4
        rm = rm if placed else rm | up[1] << 4
        if placed:
            size = dtype.itemsize if unit < 64 else 64
            value = np.resize(self.memory[rm : rm + size], 64)
        else:
            value = self.vectors[rm]
        if opcode == 0x11:
            self.memory[rm : rm + 64] = self.vectors[reg]
        elif opcode in (0x10, 0x18, 0x19):
            self.vectors[reg] = value
        elif opcode == 0x57:
            self.vectors[reg] = value ^ self.vectors[other]
        else:
            assert opcode == 0xB8
            x, y, z = (v.view(dtype) for v in (self.vectors[other], value, self.vectors[reg]))
            self.vectors[reg] = (z + x * y).astype(dtype).view(np.uint8)


def contraction(dtype: np.dtype, **given: object) -> Contraction:
    lanes = 64 // dtype.itemsize
    vectors = given.pop("vectors", 2)
    pieces = tuple((i * lanes, lanes) for i in range(vectors))
    plan = {"vector": Dim(vectors * lanes, 0, 1, 1), "pieces": pieces, "registers": 32}
    plan |= {"left_start": 0, "right_start": 0, "out_start": 0}
    return Contraction(**{"work": dtype, "out": dtype, **plan, **given})


def named(**values: int) -> list[object]:
    return [size_named(name, values) for name in values]


def coded(monkeypatch: pytest.MonkeyPatch, plan: Contraction) -> dict[str, Coded]:
    monkeypatch.setattr(avx512, "has_avx512", lambda: True)
    return tile_code.coded(plan)


def summed(plan: Contraction, left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """What the rows of a plan are, element by element."""
    axis, width = plan.grid[-1], int(plan.vector.size)
    for number in range(int(axis.count)):
        place = min(number * int(axis.step), int(axis.size - axis.step))
        for point in np.ndindex(*[int(d.size) for d in plan.box]):
            total = np.zeros(width, plan.work)
            for index in np.ndindex(*[int(d.size) for d in plan.reduced]):
                steps = [(i, d) for i, d in zip(index, plan.reduced, strict=True)]
                a = sum(i * int(d.left) for i, d in steps)
                a += sum(i * int(d.left) for i, d in zip(point, plan.box, strict=True))
                b = sum(i * int(d.right) for i, d in steps)
                a += number * int(axis.tiles) if axis.tiles else place * int(axis.left)
                b += number * int(axis.panels) if axis.panels else place * int(axis.right)
                total = total + left[a] * right[b : b + width]
            at = place * int(axis.out)
            at += sum(i * int(d.out) for i, d in zip(point, plan.box, strict=True))
            out[at : at + width] = total


def plans() -> dict[str, Contraction]:
    rows, depth, columns, odd = named(rows=20, depth=10, columns=37, odd=7)
    inner = Dim(6, 1, 32)
    return {
        # rows and columns are read, tiles of six rows overlap in the end
        "product": contraction(
            F32, grid=(Axis(4, 6, rows, depth, 0, columns),), box=(Dim(6, depth, 0, columns),),
            reduced=(Dim(depth, 1, 32),),
        ),
        # a depth that turns do not divide, and a right operand that is not packed
        "odd": contraction(
            F32, grid=(Axis(2, 5, rows // 2, odd, 0, columns),), box=(Dim(5, odd, 0, columns),),
            reduced=(Dim(odd, 1, columns),), unrolled=30,
        ),
        # more than eight rows, beside each other where left operands are packed
        "rows": contraction(
            F64, grid=(Axis(2, 11, 22, 0, 0, 37, tiles=66),), box=(Dim(11, depth, 0, 37),),
            reduced=(Dim(odd, 1, 16),),
        ),
        # strides of both kinds, three sums, and panels
        "window": contraction(
            F32, grid=(Axis(2, 32, 64, 0, 0, 1, panels=600),),
            box=(Dim(2, 40, 0, 200), Dim(3, 4, 0, 64)),
            reduced=(Dim(3, 40, 192), Dim(2, 4, 96), inner),
        ),
        "one vector": contraction(
            F64, vectors=1, grid=(Axis(3, 9, 27, 6, 0, 8),), box=(Dim(9, 6, 0, 8),),
            reduced=(inner,),
        ),
        "short": contraction(
            F32, grid=(Axis(1, 2, 2, 3, 0, 40),), box=(Dim(2, 3, 0, 40),), reduced=(Dim(3, 1, 32),),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", plans())
def test_rows_of_tiles_are_sums_of_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plans()[name]
    row = coded(monkeypatch, plan)["row"]
    random, elements = np.random.default_rng(0), 1 << 11
    size = elements * plan.work.itemsize
    numbers = random.integers(-8, 8, 3 * elements).astype(plan.work)
    memory = np.concatenate([numbers.view(np.uint8), np.zeros(1024, np.uint8)])
    given = [0, size, 2 * size, 0, int(plan.grid[-1].count), *map(int, row.given)]
    Processor(memory, len(memory)).call(row.binary, given)
    summed(plan, *np.split(numbers, 3))
    assert np.array_equal(memory[: 3 * size].view(plan.work), numbers)


def test_panels_are_copied_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    depth, columns = named(depth=5, columns=70)
    panel = Panel((Copied(depth, columns, 32), Copied(32, 1, 1)), F32, 16, 640)
    plan = plans()["product"]._replace(panel=panel)
    pack = coded(monkeypatch, plan)["pack"]
    numbers = np.arange(512, dtype=np.float32)
    memory = np.concatenate([numbers, np.zeros(512, np.float32)]).view(np.uint8)
    Processor(memory, 4096).call(pack.binary, [0, 2048, *map(int, pack.given)])
    copied = memory.view(np.float32)[512:672].reshape(5, 32)
    assert np.array_equal(copied, numbers[:350].reshape(5, 70)[:, :32])


@pytest.mark.parametrize(
    "change",
    [
        {"finish": True},
        {"ahead": 8},
        {"out": np.dtype(np.float16)},
        {"vector": Dim(32, 0, 1, 7)},
        {"vector": Dim(32, 1, 0, 1)},
        {"pieces": ((0, 16), (16, 8))},
        {"box": (Dim(6, 9, 2, 40),)},
    ],
)
def test_other_tiles_are_left_to_llvm(
    change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plans()["product"]
    assert coded(monkeypatch, plan) and not coded(monkeypatch, plan._replace(**change))


R = avx512
# Instructions as LLVM disassembles them.
ENCODED = [
    ("move", (R.RAX, Memory(R.RSP, 56)), "488b442438", "movq 56(%rsp), %rax"),
    ("move", (R.R10, R.RCX), "4c8bd1", "movq %rcx, %r10"),
    ("store", (Memory(R.RSP), R.RAX), "48890424", "movq %rax, (%rsp)"),
    ("store", (Memory(R.R13, 8), R.R9), "4d894d08", "movq %r9, 8(%r13)"),
    ("add", (R.R10, R.RDI), "4c03d7", "addq %rdi, %r10"),
    ("add", (R.R15, Memory(R.RSP, 4096)), "4c03bc2400100000", "addq 4096(%rsp), %r15"),
    ("multiply", (R.R10, Memory(R.R12, -8)), "4d0faf5424f8", "imulq -8(%r12), %r10"),
    ("multiply", (R.RAX, R.R11), "490fafc3", "imulq %r11, %rax"),
    ("lea", (R.R14, Memory(R.R10, 0, R.R9, 8)), "4f8d34ca", "leaq (%r10,%r9,8), %r14"),
    ("lea", (R.RBP, Memory(R.RBP, 0, R.RBP, 4)), "488d6cad00", "leaq (%rbp,%rbp,4), %rbp"),
    ("set_number", (R.R10, -3), "49c7c2fdffffff", "movq $-3, %r10"),
    ("add_number", (R.RSP, -16), "4881c4f0ffffff", "addq $-16, %rsp"),
    ("multiply_number", (R.R11, R.R9, 6), "4d69d906000000", "imulq $6, %r9, %r11"),
    ("compare", (R.RCX, R.R8), "493bc8", "cmpq %r8, %rcx"),
    ("test", (R.RAX,), "4885c0", "testq %rax, %rax"),
    ("count_down", (R.RAX,), "48ffc8", "decq %rax"),
    ("count_down", (Memory(R.RSP, 8),), "48ff4c2408", "decq 8(%rsp)"),
    ("push", (R.RBX,), "53", "pushq %rbx"),
    ("push", (R.R15,), "4157", "pushq %r15"),
    ("pop", (R.R12,), "415c", "popq %r12"),
    ("load", (26, Memory(R.RSI, 64)), "62617c48105601", "vmovups 64(%rsi), %zmm26"),
    ("load", (7, Memory(R.R11, 8192)), "62d17c4810bb00200000", "vmovups 8192(%r11), %zmm7"),
    ("load", (15, Memory(R.R13)), "62517c48107d00", "vmovups (%r13), %zmm15"),
    ("write", (Memory(R.R10, -8192, R.R12, 4), 31), "62017c48117ca280",
     "vmovups %zmm31, -8192(%r10,%r12,4)"),
    ("write", (Memory(R.RSP, 100), 16), "62e17c4811842464000000", "vmovups %zmm16, 100(%rsp)"),
    ("clear", (3,), "c5e057db", "vxorps %xmm3, %xmm3, %xmm3"),
    ("clear", (8,), "c4413857c0", "vxorps %xmm8, %xmm8, %xmm8"),
    ("clear", (23,), "62a1440057ff", "vxorps %xmm23, %xmm23, %xmm23"),
    ("broadcast", (F32, 24, Memory(R.R10, 508, R.R9, 4)), "62027d4818448a7f",
     "vbroadcastss 508(%r10,%r9,4), %zmm24"),
    ("broadcast", (F64, 24, Memory(R.R15, 8, R.RBX, 2)), "6242fd4819445f01",
     "vbroadcastsd 8(%r15,%rbx,2), %zmm24"),
    ("fma", (F32, 23, 8, 7), "62e23d48b8ff", "vfmadd231ps %zmm7, %zmm8, %zmm23"),
    ("fma", (F64, 17, 31, 16), "62a28540b8c8", "vfmadd231pd %zmm16, %zmm31, %zmm17"),
    ("fma_broadcast", (F32, 5, 31, Memory(R.R10, 4, R.R9, 2)), "62920550b86c4a01",
     "vfmadd231ps 4(%r10,%r9,2){1to16}, %zmm31, %zmm5"),
    ("fma_broadcast", (F64, 29, 31, Memory(R.R14, 4)), "62428550b8ae04000000",
     "vfmadd231pd 4(%r14){1to8}, %zmm31, %zmm29"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "given", "code", "shown"), ENCODED)
def test_instructions_are_encoded_as_llvm_reads_them(
    method: str, given: tuple, code: str, shown: str
) -> None:
    listing = Listing()
    getattr(listing, method)(*given)
    assert (listing.made().hex(), listing.lines[0].split()) == (code, shown.split())


def test_modules_with_machine_code_alone_are_compiled_without_care() -> None:
    row = Coded("row", (Parameter("ptr"),), b"\xc3", ["7"])
    row.attributes = CARELESS
    text = Text(())
    text.attributes = CARELESS
    row.called(text, ["ptr %buffers"])
    (part,) = divided(text.finish("kernel", [row]))
    assert part.effort is Effort.QUICK and "optnone" not in str(part) and not joinable(part)
    assert part.function("row").prologue == 'align 64 prologue [1 x i8] c"\\C3"'
    assert "@row(ptr %buffers, i64 7)" in str(part)
    assert b"\xc3" in loader.code(compile_now(part))[0]
