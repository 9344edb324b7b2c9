"""Arrays with their axes in another order, as kernels of the compiler's IR; and arrays joined along
an axis: one launch copies from up to `MAX_OPERANDS`. Up to twelve operands are ranges of a kernel
of the compiler's, which computes them too."""

from __future__ import annotations

from math import gcd, prod
from typing import Any

import numpy as np

from weft.backends.cuda.ptx import GpuModule
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Move,
    Place,
    Routine,
    Run,
    ceil_div,
    entry,
    given,
    made,
)
from weft.backends.cuda.routines.stubs import joined_stubs as stubs
from weft.backends.llvm.code import Call, Function, Module, parameters
from weft.backends.llvm.text.stub import translate
from weft.base.functional import lru
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Store, affine
from weft.kernel.kinds import u8, u16, u32, u64
from weft.kernel.program import Type, contiguous

# Operands of a launch, and bytes from which one has a copy of its own where it is contiguous.
MAX_OPERANDS, LARGE = 128, 1 << 22
_COPIED = ("ptr %source", "ptr %a.out", "ptr %a.table")
_WORDS = {1: u8, 2: u16, 4: u32, 8: u64}


@lru(256)
def permute(shape: tuple[int, ...], order: tuple[int, ...], size: int) -> Kernel:
    """A kernel that gives an array of elements of some bytes with its axes in another order."""
    if size == 16:
        shape, order, size = (*shape, 2), (*order, len(shape)), 8
    dtype = np.dtype(f"u{size}")
    total = prod(shape)
    shape, order = _joined(shape, order)
    strides = contiguous(shape)
    axes = [(f"a{i}", shape[axis]) for i, axis in enumerate(order)]
    outs = contiguous([n for _, n in axes])
    reads = affine(0, {name: strides[axis] for (name, _), axis in zip(axes, order, strict=True)})
    writes = affine(0, {name: n for (name, _), n in zip(axes, outs, strict=True)})
    value = Builder().load(0, dtype, reads)
    buffers = [Buffer(dtype, total, "in"), Buffer(dtype, total, "out")]
    body: list[Any] = [Store(1, writes, value)]
    if len(axes) == 1:
        return Kernel("permute", buffers, axes[0], body)
    return Kernel("permute", buffers, ("grid", total), body, tuple(axes))


def _joined(
    shape: tuple[int, ...], order: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A permutation of as few axes as possible: those that stay neighbours are one.

    >>> _joined((2, 5, 1, 7, 3), (0, 4, 1, 2, 3))
    ((2, 35, 3), (0, 2, 1))
    """
    runs: list[list[int]] = []
    long = [axis for axis, n in enumerate(shape) if n > 1]
    number = {axis: i for i, axis in enumerate(long)}
    for axis in order:
        if axis not in number:
            continue
        if runs and number[runs[-1][-1]] + 1 == number[axis]:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    firsts = sorted(run[0] for run in runs)
    sizes = {run[0]: prod(shape[axis] for axis in run) for run in runs}
    found = tuple(sizes[first] for first in firsts)
    return found or (1,), tuple(firsts.index(run[0]) for run in runs) or (0,)


# --- joined arrays --------------------------------------------------------------------------------


@lru(64)
def _module(numbers: tuple[int, ...], word: int, whole: int) -> GpuModule:
    """The module of a launch; ``numbers`` has a row for each operand."""
    count = len(numbers) // stubs.NUMBERS
    names = {"W": _WORDS[word], "COUNT": count, "WHOLE": whole}
    made = translate([stubs.owner, stubs.copy_part], names)
    made = made.mapped(lambda f: f._replace(internal=True, attributes=("nounwind", "alwaysinline")))
    given = parameters("ptr", *[f"a.{i}" for i in range(count)], "a.out", "a.table")
    cases = " ".join(f"i64 {i}, label %s{i}" for i in range(1, count))
    labels = [line for i in range(count) for line in (f"s{i}:", "  br label %copy")]
    sources = ", ".join(f"[ %a.{i}, %s{i} ]" for i in range(count))
    lines = (
        "entry:",
        Call("  %own = call i64 ", "owner", ["ptr %a.table"]),
        f"  switch i64 %own, label %s0 [ {cases} ]",
        *labels,
        "copy:",
        f"  %source = phi ptr {sources}",
        Call("  call void ", "copy_part", [*_COPIED, "i64 %own"]),
        "  ret void",
    )
    whole_module = made.joined(Module([Function("main", given, lines)]))
    return entry(whole_module, "main", numbers={"table": numbers})


def _join(outer: int, sizes: list[int], total: int) -> Routine:
    """Operands that are ``outer`` rows of so many bytes each, next to each other in rows of
    ``total`` bytes."""
    word = gcd(8, *sizes)
    steps: list[Any] = []
    rows: list[tuple[Place, tuple[int, ...]]] = []
    start = 0
    for i, size in enumerate(sizes):
        if outer == 1 and size >= LARGE:
            steps.append(Move(Place("out", 0, start), given(i), size))
        elif size:
            rows.append((given(i), (outer * size // word, size // word, start // word)))
        start += size
    for first in range(0, len(rows), MAX_OPERANDS):
        some = rows[first : first + MAX_OPERANDS]
        numbers, blocks = list[int](), 0
        for _, (words, inner, begin) in some:
            numbers += [blocks, words, inner, begin]
            blocks += ceil_div(words, stubs.THREADS * stubs.EACH)
        module = _module(tuple(numbers), word, total // word)
        places = (*(place for place, _ in some), made(0))
        steps.append(Run(module, blocks, stubs.THREADS, places))
    return Routine(steps)


def concatenate(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (out,), axis = outs, params["dimension"]
    sizes = [prod(x.shape[axis:]) * x.dtype.itemsize for x in ins]
    return _join(prod(out.shape[:axis]), sizes, sum(sizes))


def stack(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (out,), axis = outs, params["axis"]
    sizes = [prod(x.shape[axis:]) * x.dtype.itemsize for x in ins]
    return _join(prod(out.shape[:axis]), sizes, sum(sizes))


ROUTINES |= {"concatenate": concatenate, "stack": stack}
