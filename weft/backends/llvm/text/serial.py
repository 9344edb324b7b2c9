"""Statements of kernels with serial loops, atomics and barriers as LLVM text: one number at a time.

Threads of an iteration are a loop here, so a barrier is there by itself.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from weft.backends.llvm.text.instructions import MEMORY, memory_type
from weft.backends.llvm.text.loops import combine, scalar_loop
from weft.backends.llvm.text.render import Function
from weft.kernel.kernel import Atomic, Barrier, Loop, Reduce, Serial, statements
from weft.kernel.nodes import BOOL, walk

_ALONE = (Loop, Serial, Barrier)


class Writer:
    """The statements of a kernel while they are written, for one thread."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.changing: set[int] = set()  # numbers of values that depend on memory it writes
        written = {i for i, b in enumerate(f.kernel.buffers) if b.role != "in"}
        roots = [v for s in statements(f.kernel.body) if type(s) is not Loop for v in s.operands]
        for v in walk(roots):
            own = v.op == "load" and v.attr[0] in written
            if own or any(a.number in self.changing for a in v.args):
                self.changing.add(v.number)

    def forget(self) -> None:
        """Leave out what has been read of memory that may have been written since."""
        f = self.f
        f.known = {key: name for key, name in f.known.items() if key[0] not in self.changing}

    def inside(self, f: Function, body: list[Any]) -> None:
        """The statements of a loop, which may have written before."""
        self.forget()
        self.block(body)

    def block(self, body: list[Any]) -> None:
        """Statements one after the other; those without loops read before they write."""
        for alone, group in groupby(body, lambda s: isinstance(s, _ALONE)):
            run = list(group)
            if not alone:
                self.run(run)
                continue
            for s in run:
                if isinstance(s, Loop):
                    scalar_loop(self.f, s, "0", str(s.extent), self.inside)
                elif isinstance(s, Serial):
                    self.serial(s) if s.axis is None else self.counted(s)
                self.forget()

    def run(self, run: list[Any]) -> None:
        f = self.f
        for v in [v for s in run for v in s.operands]:
            f.value(v)
        for s in run:
            if isinstance(s, Atomic):
                self.atomic(s)
            elif isinstance(s, Reduce):
                f.accumulators[s.symbol] = combine(
                    f, s.op, s.dtype, f.start_of(s.symbol), f.value(s.value)
                )
            else:
                f.store(s)
        self.forget()

    def counted(self, s: Serial) -> None:
        """A serial loop over an axis."""
        f, outside = self.f, self.f.known
        assert s.axis is not None
        axis, symbols = s.axis, [c.symbol for c in s.carried]

        def body(index: str, so_far: list[str]) -> list[str]:
            f.axes[axis] = index
            f.accumulators.update(zip(symbols, so_far, strict=True))
            f.known = dict(outside)
            self.inside(f, s.body)
            return [f.value(c.after) for c in s.carried]

        starts = [(f.type_of(c.initial.dtype), f.value(c.initial)) for c in s.carried]
        finals = f.carry("0", str(s.extent), starts, body, once=False)
        f.accumulators.update(zip(symbols, finals, strict=True))
        f.known = outside

    def serial(self, s: Serial) -> None:
        """A serial loop with a condition."""
        f = self.f
        f.count += 1
        tag, outside, before = f"w{f.count}", f.known, f.block
        starts = [f.value(c.initial) for c in s.carried]
        f.line(f"br label %{tag}head")
        f.label(f"{tag}head")
        first = len(f.lines)
        for c in s.carried:
            f.accumulators[c.symbol] = f"%{tag}a{c.symbol}"
        f.known = dict(outside)
        self.forget()
        assert s.condition is not None
        again = f.value(s.condition)
        f.line(f"br i1 {again}, label %{tag}body, label %{tag}exit")
        f.label(f"{tag}body")
        self.block(s.body)
        after = [f.value(c.after) for c in s.carried]
        for c, name in zip(s.carried, after, strict=True):
            f.line(f"%{tag}a{c.symbol}.next = freeze {f.type_of(c.after.dtype)} {name}")
        for i, (c, start) in enumerate(zip(s.carried, starts, strict=True)):
            kind, name = f.type_of(c.initial.dtype), f"%{tag}a{c.symbol}"
            met = f"[ {start}, %{before} ], [ {name}.next, %{f.block} ]"
            f.lines.insert(first + i, f"  {name} = phi {kind} {met}")
        f.line(f"br label %{tag}head")
        f.label(f"{tag}exit")
        for c in s.carried:
            f.accumulators[c.symbol] = f"%{tag}a{c.symbol}"
        f.known = outside

    def atomic(self, s: Atomic) -> None:
        """An element combined with a value."""
        f = self.f
        dtype = f.kernel.buffers[s.buffer].dtype
        value, mask = f.value(s.value), s.mask is None or f.value(s.mask)
        base = f.address(s.buffer, f.offset(s.at))
        if s.offset is not None:
            kind, offset = memory_type(dtype), f.value(s.offset)
            base = f.emit(f"getelementptr {kind}, ptr {base}, i64 {offset}")
        assert dtype not in MEMORY and dtype != BOOL
        with f.when(mask):
            self.combined(s.op, dtype, base, value)

    def combined(self, op: str, dtype: np.dtype, base: str, value: str) -> None:
        """Combine what is at an address with a value."""
        f, kind = self.f, memory_type(dtype)
        found = f.emit(f"load {kind}, ptr {base}, align {dtype.itemsize}")
        made = combine(f, op, dtype, found, value)
        f.line(f"store {kind} {made}, ptr {base}, align {dtype.itemsize}")
