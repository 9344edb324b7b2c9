"""Convolutions by code that is the same for all shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.convolutions.blocks import Blocks
from weft.backends.cpu.routines.convolutions.contract import Choice, Job, Operand, Role, Side, Unfit
from weft.backends.cpu.routines.convolutions.contract_text import parts_text
from weft.backends.cpu.routines.convolutions.conv import Convolution, real_of, working
from weft.backends.cpu.routines.convolutions.lines import Line
from weft.backends.cpu.routines.registry import GENERAL
from weft.kernel.program import Lowered, Place, Type

# Cycles up to which one contraction does, and its few short texts; and vectors of a row that is so
# long that it is as quick at any size.
BRIEF, WIDE = 1 << 15, 4


def lower_any(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a convolution, or None where it is lowered as others."""
    (left, right), (out,) = ins, outs
    work = working(left.dtype, out.dtype)
    if work is None or left.dtype != right.dtype or not prod(out.shape):
        return None
    try:
        few = _Any(left, right, out, work, params).lowered()
    except Unfit:
        few = None
    try:
        return few or Blocks(left, right, out, work, params).run()
    except Unfit:
        return None


class _Any(Convolution):
    """A convolution as contractions of any shape."""

    def lowered(self) -> Lowered | None:
        """The tasks, or None where they are not brief."""
        self.job = Job(self.work)
        place, dtype = Place("in", 1), self.right.dtype
        size = prod(self.right.shape)
        if self.complex and size:
            dtype, place = self.work, self.job.memory(4 * size)
            numbers = Place("numbers", (size,))
            places = (Place("in", 1), place, numbers)
            self.job.add(parts_text(self.work, "contract"), places, size, 1 << 12)
        for part in self.parts:
            kernel = self.kernel_of(part, place, dtype)
            options = [self.given(part, i) for i in (-1, *self.strided(part))]
            choices = [self.job.choose(roles, x, kernel) for roles, x in options]
            choice = min(choices, key=lambda c: c.cost)
            if not self.fits(choice):
                return None
            roles, x = options[choices.index(choice)]
            start = sum(
                line.first * stride for line, stride in zip(part, self.out_strides[2:], strict=True)
            )
            out = Place("out", 0), real_of(self.out.dtype), start
            self.job.contract(roles, x, kernel, out, choice)
        return self.job.lowered()

    def fits(self, choice: Choice) -> bool:
        """Whether a part is brief, or of rows that are computed one by one from long ones."""
        if choice.cost <= BRIEF:
            return True
        long = choice.vector.name[:1] == "o" and choice.vector.size >= WIDE * choice.lanes
        return len(self.space) == 1 and long and choice.row.size <= 2 and choice.stride == 1

    def strided(self, part: Sequence[Line]) -> list[int]:
        """Axes along which results are far apart: in vectors once taps are copied one by one."""
        return [i for i, x in enumerate(part) if x.taps and x.stride > 2 and x.size > 1]

    def given(self, part: Sequence[Line], taken: int) -> tuple[list[Role], Operand]:
        """The roles of a part, and the left operand with one axis taken apart by taps."""
        sides = []
        for e in self.edges:
            if e.name[0] != "s":
                sides.append((e.stride, [Side(e.name, e.size, e.stride)]))
                continue
            i = int(e.name[1:])
            x = part[i]
            if i == taken:
                tap = Side(f"t{i}", x.taps, 0, x.dilation, 0, 0, 1 << 40)
                own = Side(f"o{i}", x.size, e.stride, x.stride, x.start, 1, e.size)
                sides.append((e.stride, [tap, own]))
            else:
                span = (x.size - 1) * x.stride + (x.taps - 1) * x.dilation + 1
                sides.append((e.stride, [Side(e.name, span, e.stride, 1, x.start, 0, e.size)]))
        sides.sort(key=lambda pair: -pair[0])
        operand = Operand(
            Place("in", 0), real_of(self.left.dtype), tuple(s for _, own in sides for s in own)
        )
        roles = []
        for r in self.roles(part):
            axis: tuple[str, int] | None = (r.axis, r.times) if r.axis else None
            if r.name in (f"o{taken}", f"t{taken}"):
                axis = (r.name, 1)
            kernel = (r.name, 1) if r.right else None
            roles.append(Role(r.name, r.size, axis, kernel, r.out))
        return roles, operand

    def kernel_of(self, part: Sequence[Line], place: Place, dtype: np.dtype) -> Operand:
        """The right operand with the taps that a part has."""
        steps = {
            f"t{i}": (line.tap, line.tap_step, stride, size)
            for i, (line, stride, size) in enumerate(
                zip(part, self.right_strides[2:], self.window, strict=True)
            )
        }
        sides = []
        for r in sorted(self.roles(part), key=lambda r: -r.right):
            if r.name in steps:
                tap, step, stride, size = steps[r.name]
                sides.append(Side(r.name, r.size, stride, step, tap, 0, size))
            elif r.right:
                sides.append(Side(r.name, r.size, r.right))
        return Operand(place, dtype, tuple(sides))


GENERAL["conv_general_dilated"] = lower_any
