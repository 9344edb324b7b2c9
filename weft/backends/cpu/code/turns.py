"""Loops in the text of a function, with no more blocks than they need.

Every block and every branch costs LLVM time, even those that it removes again: a loop that is known
to run has no test before it, and whatever block its body ends in leads back to its head.
"""

from __future__ import annotations

from weft.backends.cpu.code.render import Function

_LATCH = "%the.latch"


class Turns:
    """A loop that is being written, from its head to its end; its counter is ``index``."""

    def __init__(self, f: Function, tag: str, low: str, high: str) -> None:
        self.f, self.tag, self.high = f, tag, high
        self.index = f"%{tag}i"
        self.before = f.block
        self.sure = low.isdigit() and high.isdigit() and int(low) < int(high)
        if self.sure:
            f.line(f"br label %{tag}head")
        else:
            enter = f.emit(f"icmp slt i64 {low}, {high}")
            f.line(f"br i1 {enter}, label %{tag}head, label %{tag}exit")
        f.label(f"{tag}head")
        self.open: list[int] = []  # lines that name the last block of the loop
        self.carry(self.index, "i64", low, f"%{tag}n")

    def carry(self, name: str, kind: str, first: str, following: str) -> None:
        """A value that goes through the loop: the first one, and what each turn makes of it."""
        self.open.append(len(self.f.lines))
        self.f.line(f"{name} = phi {kind} [ {first}, %{self.before} ], [ {following}, {_LATCH} ]")

    def close(self, step: str) -> None:
        """End the loop, whose body is written."""
        f, tag = self.f, self.tag
        self.latch = f.block
        for i in self.open:
            f.lines[i] = f.lines[i].replace(_LATCH, f"%{self.latch}")
        # Frozen, a counter is none to LLVM, which has no better loop in mind then: code is as fast,
        # and made in up to a third less time.
        f.line(f"%{tag}m = add i64 {self.index}, {step}")
        f.line(f"%{tag}n = freeze i64 %{tag}m")
        again = f.emit(f"icmp slt i64 %{tag}n, {self.high}")
        f.line(f"br i1 {again}, label %{tag}head, label %{tag}exit")
        f.label(f"{tag}exit")

    def left(self, kind: str, first: str, last: str) -> str:
        """What a value is after the loop: what it was before, where there was no turn."""
        if self.sure:
            return last
        return self.f.emit(f"phi {kind} [ {first}, %{self.before} ], [ {last}, %{self.latch} ]")
