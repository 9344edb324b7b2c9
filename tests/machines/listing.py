"""Machine code with its assembly beside it, so that its loops are looked at as LLVM's are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from weft.backends.cpu.code.avx512 import LESS, ZERO, Code, Memory, Operand

_NAMES = [*"ax cx dx bx sp bp si di".split(), *map(str, range(8, 16))]


def shown(operand: Operand) -> str:
    if isinstance(operand, int):
        return f"%r{_NAMES[operand]}"
    scale = f",{operand.scale}" if operand.scale > 1 else ""
    index = f",{shown(operand.index)}{scale}" if operand.index >= 0 else ""
    return f"{operand.offset or ''}({shown(operand.base)}{index})"


class Listing(Code):
    """Code that keeps ``lines`` of assembly; ``made_so_far`` has all of them."""

    made_so_far: ClassVar[list[Listing]] = []

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.made_so_far.append(self)

    def line(self, name: str, *operands: str) -> None:
        self.lines.append(f"\t{name}\t{', '.join(operands)}")

    def move(self, target: int, source: Operand) -> None:
        super().move(target, source)
        self.line("movq", shown(source), shown(target))

    def store(self, target: Memory, source: int) -> None:
        super().store(target, source)
        self.line("movq", shown(source), shown(target))

    def add(self, target: int, source: Operand) -> None:
        super().add(target, source)
        self.line("addq", shown(source), shown(target))

    def multiply(self, target: int, source: Operand) -> None:
        super().multiply(target, source)
        self.line("imulq", shown(source), shown(target))

    def lea(self, target: int, source: Memory) -> None:
        super().lea(target, source)
        self.line("leaq", shown(source), shown(target))

    def set_number(self, target: int, number: int) -> None:
        super().set_number(target, number)
        self.line("movq", f"${number}", shown(target))

    def add_number(self, target: int, number: int) -> None:
        super().add_number(target, number)
        if number:
            self.line("addq", f"${number}", shown(target))

    def multiply_number(self, target: int, source: int, number: int) -> None:
        super().multiply_number(target, source, number)
        self.line("imulq", f"${number}", shown(source), shown(target))

    def least(self, target: int, other: int) -> None:
        super().least(target, other)
        self.line("cmpq", shown(other), shown(target))
        self.line("cmovgq", shown(other), shown(target))

    def compare(self, one: int, other: Operand) -> None:
        super().compare(one, other)
        self.line("cmpq", shown(other), shown(one))

    def test(self, register: int) -> None:
        super().test(register)
        self.line("testq", shown(register), shown(register))

    def count_down(self, target: Operand) -> None:
        super().count_down(target)
        self.line("decq", shown(target))

    def push(self, register: int) -> None:
        super().push(register)
        self.line("pushq", shown(register))

    def pop(self, register: int) -> None:
        super().pop(register)
        self.line("popq", shown(register))

    def here(self, align: int = 1) -> int:
        place = super().here(align)
        self.lines.append(f".L{place}:")
        return place

    def jump(self, condition: int, to: int = 0) -> int:
        self.line({ZERO: "je", LESS: "jl"}.get(condition, "jne"), f".L{to}")
        return super().jump(condition, to)

    def load(self, target: int, source: Memory) -> None:
        super().load(target, source)
        self.line("vmovups", shown(source), f"%zmm{target}")

    def write(self, target: Memory, source: int) -> None:
        super().write(target, source)
        self.line("vmovups", f"%zmm{source}", shown(target))

    def clear(self, target: int) -> None:
        super().clear(target)
        self.line("vxorps", *[f"%xmm{target}"] * 3)

    def broadcast(self, dtype: np.dtype, target: int, source: Memory) -> None:
        super().broadcast(dtype, target, source)
        self.line(f"vbroadcasts{_kind(dtype)}", shown(source), f"%zmm{target}")

    def fma(self, dtype: np.dtype, target: int, x: int, y: int) -> None:
        super().fma(dtype, target, x, y)
        self.line(f"vfmadd231p{_kind(dtype)}", f"%zmm{y}", f"%zmm{x}", f"%zmm{target}")

    def fma_broadcast(self, dtype: np.dtype, target: int, x: int, y: Memory) -> None:
        super().fma_broadcast(dtype, target, x, y)
        number = f"{shown(y)}{{1to{64 // dtype.itemsize}}}"
        self.line(f"vfmadd231p{_kind(dtype)}", number, f"%zmm{x}", f"%zmm{target}")


def _kind(dtype: np.dtype) -> str:
    return "s" if dtype.itemsize == 4 else "d"
