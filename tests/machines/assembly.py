"""Loops of assembly as LLVM prints it: what they are made of, what they cost, and which rules of
ours they break.

A cost is the least number of cycles that the instructions need by their number: of those that the
front end delivers in a cycle, and of those that each kind of execution unit takes. It knows nothing
of latency. The units are those of a Neoverse N1 (Arm's optimisation guide for it) and, for x86-64,
of a Skylake server core.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.machines.processors import Processor

_LABEL = re.compile(r"^(\.L\w+):")
_TARGET = re.compile(r"(\.L\w+)$")

# Vector instructions of which only one starts in a cycle, and cycles that a unit is busy for.
_ARM_SINGLE = re.compile(r"(fcvt|[su]cvtf|frint|mul|mla|[su]mull|[su]?shr|shl|ushl|sshl|addv|fmov)")
_ARM_BUSY = {"fdiv": 7, "fsqrt": 8}
_X86_SINGLE = re.compile(r"v?(p?shuf|perm|p?unpck|p?broadcast|insert|extract|vpmull)")
_X86_BUSY = {"div": {128: 3, 256: 5, 512: 10}, "sqrt": {128: 3, 256: 6, 512: 12}}


@dataclass
class Instruction:
    """One instruction, by what units it needs."""

    name: str
    operands: str
    processor: Processor

    @property
    def branch(self) -> bool:
        arm = re.match(r"(b|b\..*|cbn?z|tbn?z|ret|bl|blr|br)$", self.name)
        return bool(arm if self.processor.arm else re.match(r"(j|call|ret)", self.name))

    @property
    def target(self) -> str:
        found = _TARGET.search(self.operands)
        return found[1] if self.branch and found else ""

    @property
    def memory(self) -> bool:
        if self.processor.arm:
            return self.name.startswith(("ld", "st", "prfm"))
        return "(" in self.operands and not self.name.startswith(("lea", "nop"))

    @property
    def store(self) -> bool:
        if self.processor.arm:
            return self.name.startswith("st")
        return self.memory and "mov" in self.name and self.operands.endswith(")")

    @property
    def accesses(self) -> int:
        """Vectors or words that are read or written."""
        return (2 if self.name in ("ldp", "stp") else 1) if self.memory else 0

    @property
    def stack(self) -> bool:
        """Whether a variable on the stack is read or written; arrays there have an index."""
        base = r"\[(sp|x29)(, #-?\w+)?\]" if self.processor.arm else r"\(%r[sb]p\)"
        return self.memory and re.search(base, self.operands) is not None

    @property
    def vector(self) -> bool:
        """Whether a vector unit does something, besides loads and stores."""
        if self.processor.arm:
            if self.name.startswith("ld1r"):  # brought by a load, spread by a vector unit
                return True
            return (
                not self.memory and re.search(r"\b[vqdsh]\d+\b|\bv\d+\.", self.operands) is not None
            )
        moves = re.match(r"v?mov|vbroadcast|vpbroadcast", self.name) and self.memory
        return re.search(r"%[xyz]mm", self.operands) is not None and not moves

    @property
    def fma(self) -> bool:
        return self.name.startswith(("fmla", "fmls", "vfmadd", "vfnmadd"))

    @property
    def floating(self) -> bool:
        """Whether this computes with floating-point numbers."""
        if self.processor.arm:
            pattern = r"f(add|sub|mul|mla|mls|madd|msub|nmadd|nmsub|div|sqrt|min|max)"
            return re.match(pattern, self.name) is not None
        return (
            re.match(r"v?(add|sub|mul|div|sqrt|min|max|fn?m(add|sub)\d+)[ps][sd]$", self.name)
            is not None
        )

    @property
    def scalar(self) -> bool:
        """Whether this computes with a single floating-point number."""
        if self.processor.arm:
            return self.floating and not re.search(r"v\d+\.", self.operands)
        return self.floating and self.name[-2] == "s"

    @property
    def busy(self) -> float:
        """Cycles that one of two vector units is busy for."""
        if not self.vector:
            return 0
        if self.processor.arm:
            found = next((n for key, n in _ARM_BUSY.items() if self.name.startswith(key)), 0)
            return found or 1
        for key, cycles in _X86_BUSY.items():
            if key in self.name:
                return cycles[self.bits]
        return 1

    @property
    def single(self) -> bool:
        """Whether only one of the vector units does this."""
        pattern = _ARM_SINGLE if self.processor.arm else _X86_SINGLE
        return self.vector and (self.busy > 1 or pattern.match(self.name) is not None)

    @property
    def bits(self) -> int:
        """The width of the vector that is used."""
        if self.processor.arm:
            return 128
        return 512 if "%zmm" in self.operands else 256 if "%ymm" in self.operands else 128


@dataclass
class Loop:
    """The instructions of an innermost loop."""

    body: list[Instruction]
    processor: Processor

    @property
    def arithmetic(self) -> int:
        return sum(i.floating for i in self.body)

    @property
    def cycles(self) -> float:
        body = self.body
        vector = sum(i.busy for i in body)
        single = sum(i.busy for i in body if i.single)
        accesses = sum(i.accesses for i in body)
        stores = sum(i.accesses for i in body if i.store)
        others = sum(not (i.vector or i.memory or i.branch) for i in body)
        return max(len(body) / 4, vector / 2, single, accesses / 2, stores, others / 3)

    @property
    def stored(self) -> int:
        """The bytes that are written, not counting the stack."""
        return sum(i.accesses * i.bits // 8 for i in self.body if i.store and not self.on_stack(i))

    def on_stack(self, i: Instruction) -> bool:
        """Whether this is about the stack: a frame pointer that the loop moves is none."""
        moved = any(not x.memory and x.operands.endswith(", %rbp") for x in self.body)
        return i.stack and not (moved and "(%rbp)" in i.operands)

    def cost(self) -> float:
        """Cycles for each 32-bit element that is written; where none is, for two FMAs."""
        if self.stored:
            return self.cycles / (self.stored / 4)
        return self.cycles / (sum(i.fma for i in self.body) / 2)

    def faults(self, tile: bool) -> list[str]:
        """What is not as it should be; a tile keeps all its values in registers."""
        found = [f"a single number in a vector loop: {i.name}" for i in self.body if i.scalar]
        spills = [
            f"a spill: {i.name} {i.operands}" for i in self.body if self.on_stack(i) and i.store
        ]
        # Constants are loaded from the stack on purpose; one spill in fifty instructions is free.
        if 50 * len(spills) > len(self.body):
            found += spills
        for i in self.body:
            if tile and self.on_stack(i):
                found.append(f"the stack in a tile: {i.name} {i.operands}")
            if tile and self.processor.arm:
                if i.fma and not re.search(r"\.[hsd]\[\d\]", i.operands):
                    found.append(f"an FMA that is not by element: {i.operands}")
                if i.name == "mov" and i.vector:
                    found.append(f"a copy of a register: {i.operands}")
        return found


def instructions(text: str, processor: Processor) -> tuple[list[Instruction], dict[str, int]]:
    """The instructions of a text, and where its labels are among them."""
    found: list[Instruction] = []
    labels = {}
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = len(found)
        elif line.startswith("\t") and not line.lstrip().startswith((".", "//", "#")):
            code = line.split("//" if processor.arm else "#")[0]
            words = code.strip().split(None, 1)
            found.append(Instruction(words[0], words[1] if len(words) > 1 else "", processor))
    return found, labels


def loops(text: str, processor: Processor) -> list[Loop]:
    """The innermost loops of a text."""
    body, labels = instructions(text, processor)
    ends: dict[int, int] = {}
    for at, instruction in enumerate(body):
        begin = labels.get(instruction.target, at + 1)
        if begin <= at:
            ends[begin] = at
    inner = [
        (begin, end)
        for begin, end in ends.items()
        if not any(begin < other <= end for other in ends)
    ]
    return [Loop(body[begin : end + 1], processor) for begin, end in inner]
