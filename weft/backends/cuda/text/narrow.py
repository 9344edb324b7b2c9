"""Arithmetic of bfloat16 as text for GPUs: a sum or product of two numbers is one instruction, and
so are those of two neighbouring elements.

Kernels compute with bfloat16 as with float32, and round every result. GPUs have an instruction that
adds and multiplies bfloat16, rounded once: that gives the same numbers, as float32 has more than
twice the bits (and two more) of what is rounded. It keeps denormal numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from weft.backends.llvm.text.rare import rare
from weft.backends.llvm.text.render import Function
from weft.kernel.kernel import Kernel, Loop, statements
from weft.kernel.nodes import BF16, BOOL, F32, Value, walk

# Operations that seldom matter from which a branch around them costs less.
RARE = 8
# What LLVM has to know of instructions that are written out to move others past them.
PURE = "memory(none) nounwind willreturn"
# Operations that give one of the numbers that they are given, or its negative.
_EXACT = frozenset("abs neg max min select".split())
# Sums and products as a * b + c, by the operands of the operation: numbers of them, or constants.
_ONE, _MINUS_ONE, _MINUS_ZERO = "3f80", "bf80", "8000"
_FUSED: dict[str, tuple[int | str, int | str, int | str]] = {
    "add": (0, _ONE, 1),
    "sub": (1, _MINUS_ONE, 0),
    "mul": (0, 1, _MINUS_ZERO),
}


def _rounded(kernel: Kernel) -> frozenset[int]:
    """The numbers of sums and products of two bfloat16, as bfloat16."""
    roots = [v for s in statements(kernel.body) if not isinstance(s, Loop) for v in s.operands]
    exact: set[int] = set()
    found: list[int] = []
    for v in walk(roots):
        if _is_exact(v, exact):
            exact.add(v.number)
        elif v.op == "cast" and v.dtype == BF16 and v.args[0].op in _FUSED:
            x = v.args[0]
            if x.dtype == F32 and all(a.number in exact for a in x.args):
                found.append(v.number)
    return frozenset(found)


def _is_exact(v: Value, known: set[int]) -> bool:
    """Whether a value of float32 is one of bfloat16, of which nothing is cut off."""
    if v.dtype != F32:
        return False
    if v.op == "const":
        return not np.frombuffer(v.attr, np.uint16)[0]
    if v.op == "cast":
        return v.args[0].dtype in (BF16, BOOL)
    return v.op in _EXACT and all(x.number in known for x in v.args if x.dtype == F32)


class Narrow(Function):
    """The text of one kernel, with the instructions of bfloat16."""

    written_out = True  # instructions that LLVM wouldn't choose

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, 1)
        self.fused = _rounded(kernel) if self.written_out else frozenset()
        self.pairs: dict[int, str] = {}  # values of two elements that are one register

    # --- which values are computed ----------------------------------------------------------------

    def value(self, root: Value) -> str:
        known = self.known.get((root.number, self.lanes))
        if known is not None:
            return known
        if not self.fused:
            return super().value(root)
        for v in self._needed([root]):
            if v.number not in self.inside:
                self.single(v)
        return self.known[root.number, self.lanes]

    def _needed(self, roots: Iterable[Value]) -> list[Value]:
        """Like ``walk``, without what only stands for a part of an instruction."""
        stack, seen = list(roots), {}
        while stack:
            v = stack.pop()
            if v.number not in seen:
                seen[v.number] = v
                stack += self._sources(v)
        return [seen[number] for number in sorted(seen)]

    def _sources(self, v: Value) -> list[Value]:
        """The values that the text of a value takes."""
        if v.number not in self.fused:
            return list(v.args)
        return [x for a in v.args[0].args for x in self._narrow_sources(a)]

    def _narrow_sources(self, x: Value) -> list[Value]:
        """The values that the bits of an exact value of float32 are made of."""
        if x.op == "cast":
            return [x.args[0]]
        return [a for v in x.args for a in (self._narrow_sources(v) if v.dtype == F32 else [v])]

    def single(self, v: Value) -> None:
        key = (v.number, self.lanes)
        if v.number not in self.fused:
            super().single(v)
        elif key not in self.known:
            self.known[key] = self._fused(v.args[0], self._bits)

    # --- one element ------------------------------------------------------------------------------

    def bfloat(self, v: Value, args: list[str]) -> str | None:
        """A conversion from or to bfloat16 by one instruction, or by none."""
        x = v.args[0]
        if v.dtype == BF16:
            if x.dtype == BOOL:
                return self.emit(f"select i1 {args[0]}, i16 {0x3F80}, i16 0")
            if x.dtype != F32 or not self._is_narrow(x):
                return None
            bits = self.emit(f"bitcast float {args[0]} to i32")
            return self.emit(f"trunc i32 {self.emit(f'lshr i32 {bits}, 16')} to i16")
        if v.dtype != F32 or x.op != "cast" or x.args[0].dtype != F32 or x.number in self.fused:
            return None
        wide = self.value(x.args[0])
        if self._is_narrow(x.args[0]):
            return wide
        # two numbers are rounded at once: the other one is zero, and so are the bits cut off
        word = "cvt.rn.bf16x2.f32 $0, $1, 0f00000000;"
        bits = self.emit(f'call i32 asm "{word}", "=r,f"(float {wide}) {PURE}')
        return self.emit(f"bitcast i32 {bits} to float")

    def _is_narrow(self, v: Value) -> bool:
        """Whether a value of float32 is one of bfloat16, of which nothing is cut off."""
        exact: set[int] = set()
        for x in walk([v]):
            if _is_exact(x, exact):
                exact.add(x.number)
        return v.number in exact

    def to_bfloat(self, x: str) -> str:
        return self.emit(f'call i16 asm "cvt.rn.bf16.f32 $0, $1;", "=h,f"(float {x}) {PURE}')

    def _fused(self, x: Value, bits: Callable[[Value], str], pair: bool = False) -> str:
        """A sum or product of exact values of float32, given how to get their bits."""
        operands = [_constant(a, pair) if isinstance(a, str) else bits(x.args[a])
                    for a in _FUSED[x.op]]  # fmt: skip
        return self._instruction("fma.rn", operands, pair)

    def _instruction(self, word: str, operands: Sequence[str], pair: bool) -> str:
        kind, suffix, register = ("i32", "x2", "r") if pair else ("i16", "", "h")
        places = ", ".join(f"${i}" for i in range(len(operands) + 1))
        given = ", ".join(f"{kind} {x}" for x in operands)
        constraints = ",".join([f"={register}", *[register] * len(operands)])
        asm = f'"{word}.bf16{suffix} {places};", "{constraints}"'
        return self.emit(f"call {kind} asm {asm}({given}) {PURE}")

    def _bits(self, x: Value) -> str:
        """The bits of an exact value of float32."""
        if x.op == "const":
            return str(int(np.frombuffer(x.attr, np.uint16)[1]))
        if x.op == "cast":
            found = self.known[x.args[0].number, self.lanes]
            if x.args[0].dtype == BOOL:
                return self.emit(f"select i1 {found}, i16 {0x3F80}, i16 0")
            return found
        if x.op == "select":
            flag = self.known[x.args[0].number, self.lanes]
            first, second = map(self._bits, x.args[1:])
            return self.emit(f"select i1 {flag}, i16 {first}, i16 {second}")
        return self._exact(x, [self._bits(a) for a in x.args], False)

    def _exact(self, x: Value, args: list[str], pair: bool) -> str:
        """What an operation other than a choice gives, of bits."""
        kind, times = ("i32", 0x10001) if pair else ("i16", 1)
        if x.op == "neg":
            return self.emit(f"xor {kind} {args[0]}, {0x8000 * times}")
        if x.op == "abs":
            return self.emit(f"and {kind} {args[0]}, {0x7FFF * times}")
        return self._instruction(f"{x.op}.NaN", args, pair)

    # --- two elements -----------------------------------------------------------------------------

    def computed(
        self, body: list[Any], states: list[dict[Any, str]], enter: Callable[[int], None]
    ) -> list[dict[Any, str]]:
        """The values of statements at several elements, of which some are known; ``enter`` goes to
        an element by its number, with what is known of it. Values are read before anything is
        written: results may have the memory of operands."""
        straight = list(takewhile(lambda s: not isinstance(s, Loop), body))
        operands = [v for s in straight for v in s.operands]
        found = rare(operands, RARE)
        needed = self._needed(operands) if len(states) > 1 and self.fused and not found else []
        paired = 0
        if any(v.number in self.fused for v in needed):
            paired = len(states) // 2 * 2
        bits = {v.number for v in operands}
        bits |= {x.number for v in needed if v.number in self.fused for x in self._sources(v)}
        for v in reversed(needed):
            if v.number in bits and v.op == "select":
                bits |= {x.number for x in v.args}
        for i in range(0, paired, 2):
            self.pairs = {}
            for v in needed:
                self._both(v, states, enter, (i, i + 1), v.number in bits)
        for i in range(paired, len(states)):
            enter(i)
            self.expect(found)
            for v in operands:
                self.value(v)
            self.expect([])
            states[i] = self.known
        return states

    def _both(
        self,
        v: Value,
        states: list[dict[Any, str]],
        enter: Callable[[int], None],
        two: Any,
        bits: bool,
    ) -> None:
        """A value at two elements; ``bits`` is whether it is needed as bfloat16."""
        key = (v.number, self.lanes)
        known = [states[i] for i in two]
        fused = v.number in self.fused
        if fused or (bits and self._is_rounded(v)):
            x = v.args[0]
            if fused:
                both = self._fused(x, lambda x: self._packed(x, known), True)
            else:
                low, high = (state[x.number, self.lanes] for state in known)
                word = "cvt.rn.bf16x2.f32 $0, $1, $2;"
                given = f"(float {high}, float {low})"
                both = self.emit(f'call i32 asm "{word}", "=r,f,f"{given} {PURE}')
            self.pairs[v.number] = both
            halves = self.emit(f"bitcast i32 {both} to <2 x i16>")
            for i, state in enumerate(known):
                state[key] = self.emit(f"extractelement <2 x i16> {halves}, i32 {i}")
        elif v.op == "cast" and v.dtype == F32 and self._is_made(v.args[0]):
            both = self.pairs[v.args[0].number]
            for rule, state in zip(("shl i32 {}, 16", "and i32 {}, -65536"), known, strict=True):
                state[key] = self.emit(f"bitcast i32 {self.emit(rule.format(both))} to float")
        else:
            for i in two:
                enter(i)
                self.single(v)

    def _is_same(self, x: Value) -> bool:
        """Whether a value is a conversion that changes no number."""
        if x.op != "cast":
            return False
        kinds = (x.dtype, x.args[0].dtype)
        return kinds == (F32, BF16) or (kinds == (BF16, F32) and self._is_narrow(x.args[0]))

    def _is_rounded(self, v: Value) -> bool:
        """Whether a value is one of float32, rounded."""
        is_cast = v.op == "cast" and v.dtype == BF16 and v.args[0].dtype == F32
        return is_cast and not self._is_narrow(v.args[0])

    def _is_made(self, v: Value) -> bool:
        """Whether a value was made as one register for two elements."""
        return v.op != "load" and v.number in self.pairs

    def _packed(self, x: Value, known: list[dict[Any, str]]) -> str:
        """The bits of a bfloat16, or an exact value of float32, at two elements."""
        if x.op == "const":
            bits = np.frombuffer(x.attr, np.uint16)
            return _constant(f"{int(bits[-1]):x}", True)
        if x.number not in self.pairs and self._is_same(x):
            return self._packed(x.args[0], known)
        if x.number not in self.pairs:
            self.pairs[x.number] = self._packed_first(x, known)
        return self.pairs[x.number]

    def _packed_first(self, x: Value, known: list[dict[Any, str]]) -> str:
        if x.op == "select" or x.op == "cast":
            low, high = self._apart(x, known)
            word = "prmt.b32 $0, $1, $2, 0x7610;"
            return self.emit(f'call i32 asm "{word}", "=r,r,r"(i32 {low}, i32 {high}) {PURE}')
        if x.dtype == F32:
            return self._exact(x, [self._packed(a, known) for a in x.args], True)
        return self._beside(x, known)

    def _beside(self, x: Value, known: list[dict[Any, str]]) -> str:
        first, second = (state[x.number, self.lanes] for state in known)
        half = self.emit(f"insertelement <2 x i16> poison, i16 {first}, i32 0")
        both = self.emit(f"insertelement <2 x i16> {half}, i16 {second}, i32 1")
        return self.emit(f"bitcast <2 x i16> {both} to i32")

    def _apart(self, x: Value, known: list[dict[Any, str]]) -> list[str]:
        """A register whose low half is right at the first element, and one whose high half is at
        the second: choices are put together only after the last one."""
        if x.number in self.pairs:
            return [self.pairs[x.number]] * 2
        if self._is_same(x):
            return self._apart(x.args[0], known)
        if x.op == "select":
            ways = [self._apart(a, known) for a in x.args[1:]]
        elif x.op == "cast" and x.args[0].dtype == BOOL:
            ways = [[_constant(_ONE, True)] * 2, ["0"] * 2]
        elif x.op == "cast":
            return [self._beside(x, known)] * 2
        else:
            return [self._packed(x, known)] * 2
        flags = [state[x.args[0].number, self.lanes] for state in known]
        return [
            self.emit(f"select i1 {flag}, i32 {first}, i32 {second}")
            for flag, first, second in zip(flags, *ways, strict=True)
        ]


def _constant(bits: str, pair: bool) -> str:
    """The bits of a number, given in hexadecimal digits, once or twice."""
    return str(int(bits, 16) * (0x10001 if pair else 1))
