"""What contractions do with the elements that they walk over: sums of products, folds of one
operand, and selections that differentiate extrema."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.backends.cpu.routines.contractions.conv_writer import Text
from weft.backends.llvm.native.processor import has_ieee_minimum
from weft.base.record import Record
from weft.kernel.nodes import BOOL, I32, is_float

Read = Callable[[int], str]


class Rule(Record):
    """A rule ``does`` one of these with a state of some ``kinds``, the last of which is the result:

    - "products" adds products of both operands;
    - "sum", "max" and "min" fold the left one, and with two kinds select what goes with the first
      extremum: the right operand's element, or the number of the tap;
    - "chosen" adds elements of the left operand where the right one is the number of the tap.

    ``sides`` are what is walked along: operands, of ``types``, and "out", the number of a tap.
    """

    does: str
    sides: tuple[str, ...]
    types: tuple[np.dtype, ...]
    kinds: tuple[np.dtype, ...]
    identity: bytes

    def first(self, text: Text) -> str:
        """What is folded with the first element."""
        if text.lanes > 1 and not any(self.identity):
            return "zeroinitializer"
        return text.constant(self.kinds[0], self.identity)

    def start(self, text: Text, exact: str | None, read: Read) -> list[str]:
        """The state before any element; ``read(i)`` is side ``i`` at a window's own first element,
        and ``exact`` says whether that is inside: "true", a condition, or None.

        A selection counts borders as elements, below all others, that go with zero or with no tap.
        A window whose own first element is inside starts with what goes with that.
        """
        if len(self.kinds) == 1:
            return [self.first(text)]
        goes, width, before = self.kinds[1], text.lanes, text.block
        bits = b"\xff" if self.sides[1] == "out" else b"\0"
        nothing = text.constant(goes, bits * goes.itemsize)
        if exact is None:
            return [self.first(text), nothing]
        if exact == "true":
            return [self.first(text), self.other(text, read)]
        found: list[str] = []
        text.when(exact, lambda: found.append(self.other(text, read)))
        text.lanes = width
        ways = f"[ {found[0]}, %{text.last_block} ], [ {nothing}, %{before} ]"
        return [self.first(text), text.emit(f"phi {text.type_of(goes)} {ways}")]

    def step(self, text: Text, state: list[str], read: Read) -> list[str]:
        """The state after an element; ``read(i)`` is side ``i`` there."""
        work, kind = self.kinds[0], text.type_of(self.kinds[0])
        x, total = text.cast(self.types[0], work, read(0)), state[0]
        if self.does == "products":
            y = read(1)
            if is_float(work):
                return [text.call("fmuladd", work, [x, y, total])]
            term = text.emit(f"mul {kind} {x}, {y}")
            return [text.emit(f"add {kind} {total}, {term}")]
        if self.does in ("sum", "chosen"):
            added = text.emit(f"{'fadd' if is_float(work) else 'add'} {kind} {total}, {x}")
            if self.does == "sum":
                return [added]
            number = _number(text, read(2))
            same = text.emit(f"icmp eq {text.type_of(I32)} {read(1)}, {number}")
            return [_either(text, same, work, added, total)]
        if len(state) == 1:
            if total == self.first(text):
                return [x]  # nothing is further out than the first
            if is_float(work) and has_ieee_minimum():
                return [text.call(f"{self.does}imum", work, [x, total])]
        better = self.beats(text, x, total)
        found = [_either(text, better, work, x, total)]
        for goes, before in zip(self.kinds[1:], state[1:], strict=True):
            found.append(_either(text, better, goes, self.other(text, read), before))
        return found

    def other(self, text: Text, read: Read) -> str:
        """What goes with an element."""
        return _number(text, read(1)) if self.sides[1] == "out" else read(1)

    def beats(self, text: Text, new: str, old: str) -> str:
        """Whether a value is further out than another, or the first that is no number."""
        word, dtype = "gt" if self.does == "max" else "lt", self.kinds[0]
        of = text.type_of(dtype)
        if not is_float(dtype):
            sign = "u" if dtype.kind in "ub" else "s"
            return text.emit(f"icmp {sign}{word} {of} {new}, {old}")
        # Unordered means that one of them is NaN: the new one is taken unless the old one is.
        further = text.emit(f"fcmp u{word} {of} {new}, {old}")
        number = text.emit(f"fcmp ord {of} {old}, {old}")
        return text.emit(f"and {text.type_of(BOOL)} {further}, {number}")


def products(work: np.dtype) -> Rule:
    return Rule("products", ("left", "right"), (work, work), (work,), bytes(work.itemsize))


def _either(text: Text, condition: str, dtype: np.dtype, yes: str, no: str) -> str:
    of = text.type_of(dtype)
    return text.emit(f"select {text.type_of(BOOL)} {condition}, {of} {yes}, {of} {no}")


def _number(text: Text, tap: str) -> str:
    """A tap's number in all lanes."""
    if tap[0] != "%":
        return text.whole(int(tap))
    width, text.lanes = text.lanes, 1
    number = text.emit(f"trunc i64 {tap} to i32")
    text.lanes = width
    return text.splat(I32, number)
