"""Kernels: loops over axes, with stores and reductions of scalar values inside.

An index is affine in the kernel's axes: a constant plus coefficients, in elements of the buffer.
Extents are numbers here; a backend is free to run the grid axis in any order and in parallel.

What fusion makes is loops, stores and reductions. Lowerings of whole operations may also have
serial loops, atomics, loops over threads and barriers: a kernel with such statements is `serial`,
and no pass changes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.kernel.nodes import NEIGHBOURS, Value, walk


class Affine(Record):
    """``const + sum(coefficient * axis)``, in elements."""

    const: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    def coefficient(self, axis: str | None) -> int:
        for name, factor in self.terms:
            if name == axis:
                return factor
        return 0

    def scaled(self, factor: int, offset: int) -> Affine:
        """``factor * self + offset``."""
        if factor == 1:
            return Affine(self.const + offset, self.terms) if offset else self
        terms = tuple((a, c * factor) for a, c in self.terms if c * factor)
        return Affine(self.const * factor + offset, terms)

    def plus(self, other: Affine) -> Affine:
        """The sum of two indices."""
        terms = dict(self.terms)
        for axis, c in other.terms:
            terms[axis] = terms.get(axis, 0) + c
        return affine(self.const + other.const, terms)

    def __str__(self) -> str:
        parts = [f"{c}*{a}" if c != 1 else a for a, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


def affine(const: int, terms: dict[str, int]) -> Affine:
    """An affine index without zero terms, its axes in order of name."""
    return Affine(const, tuple(sorted((a, c) for a, c in terms.items() if c)))


def linear(index: Sequence[Affine], shape: Sequence[int]) -> Affine:
    """The element offset of an index into a row-major array."""
    const, stride = 0, 1
    terms: dict[str, int] = {}
    for entry, size in zip(reversed(index), reversed(shape), strict=True):
        const += entry.const * stride
        for axis, factor in entry.terms:
            terms[axis] = terms.get(axis, 0) + factor * stride
        stride *= size
    return affine(const, terms)


class Within(Record):
    """Asked by the rule of a joined array: between which of the points does an index lie?

    The answer is the number of points that are not above it, the same for all elements at hand. A
    rule that can choose for each element may also be told None; ``cheaply`` is whether that is only
    worth it where computing costs little next to memory.
    """

    entry: Affine
    points: tuple[int, ...]
    chooses: bool = False
    cheaply: bool = False


class Buffer(Record):
    """Memory that a kernel reads or writes."""

    dtype: np.dtype
    size: int
    role: str  # "in", "out" or "row": scratch of one iteration of the grid, shared by its threads


class Store(Record):
    """One element written; ``offset``, in the range of ``reach``, is added to its place.

    A store that ``marks`` writes that boolean where its value holds, and nothing elsewhere: any
    number of iterations may write the one element, and all of them write the same.
    """

    buffer: int
    at: Affine
    value: Value
    offset: Value | None = None
    reach: tuple[int, int] = (0, 0)
    marks: bool | None = None

    @property
    def operands(self) -> list[Value]:
        """The values that it needs."""
        return [self.value] if self.offset is None else [self.value, self.offset]


class Reduce(Record):
    """A value combined over the iterations of a loop; read afterwards as ``acc`` of its symbol."""

    symbol: int
    op: str  # add, mul, min, max, and, or, xor
    value: Value
    dtype: np.dtype
    initial: Any

    @property
    def operands(self) -> list[Value]:
        """The values that it needs."""
        return [self.value]


class Loop(Record):
    """Iterations of an axis: inner loops, stores and reductions.

    A loop may be a piece of a longer axis: ``whole`` names the axis that counts the pieces, each
    of ``extent`` iterations, and says how many there are in all; the last piece is what is left.
    """

    axis: str
    extent: int
    body: list[Any]
    carries: tuple[int, ...] = ()  # reductions inside that go on from iteration to iteration
    lanes: bool = False  # neighbouring iterations run side by side, loops inside one by one
    whole: tuple[str, int] | None = None
    threads: bool = False  # the threads of one iteration of the grid share its iterations


class Carry(Record):
    """A scalar that serial iterations hand on: read as ``acc`` of its symbol, inside and after.

    ``after`` is its value in the next iteration.
    """

    symbol: int
    initial: Value
    after: Value


class Serial(Record):
    """Iterations one after the other: ``extent`` of them, counted by ``axis``, or, where there is
    no axis, as many as there are until ``condition`` is false.

    The condition sees what is carried before the body runs; all of ``after`` is computed once the
    body has run, and before any of it is handed on.
    """

    carried: tuple[Carry, ...]
    body: list[Any]
    axis: str | None = None
    extent: int = 0
    condition: Value | None = None

    @property
    def operands(self) -> list[Value]:
        """The values that it needs, those of its body apart."""
        tests = [] if self.condition is None else [self.condition]
        return [c.initial for c in self.carried] + tests + [c.after for c in self.carried]


class Atomic(Record):
    """One element combined with a value, where ``mask`` holds: no other iteration comes between.

    Iterations may come in any order: a backend that runs them in order gives the same bits always.
    """

    buffer: int
    at: Affine
    op: str  # add, mul, min, max
    value: Value
    offset: Value | None = None
    reach: tuple[int, int] = (0, 0)
    mask: Value | None = None

    @property
    def operands(self) -> list[Value]:
        """The values that it needs."""
        return [v for v in (self.value, self.offset, self.mask) if v is not None]


class Barrier(Record):
    """All threads of an iteration of the grid come here before any of them goes on."""

    @property
    def operands(self) -> list[Value]:
        return []


class Kernel(Record):
    """A grid of independent iterations over one axis, or a single one where ``grid`` is None."""

    name: str
    buffers: list[Buffer]
    grid: tuple[str, int] | None
    body: list[Any]
    axes: tuple[tuple[str, int], ...] = ()  # what the grid counts, the last fastest, if several
    serial: bool = False  # it has statements other than loops, stores and reductions

    @property
    def grid_axes(self) -> tuple[tuple[str, int], ...]:
        """The axes of the grid, the last fastest; none of a single iteration."""
        return self.axes or ((self.grid,) if self.grid is not None else ())


def statements(body: list[Any]) -> Iterator[Any]:
    """All statements of a kernel's body, loops before what they hold."""
    for statement in body:
        yield statement
        if isinstance(statement, (Loop, Serial)):
            yield from statements(statement.body)


def ends_by_itself(kernel: Kernel) -> bool:
    """Whether each iteration of the grid runs a loop to its own end."""
    if not kernel.serial or not kernel.body or kernel.grid is None:
        return False
    return isinstance(kernel.body[0], Serial) and kernel.body[0].condition is not None


def combines_neighbours(kernel: Kernel) -> bool:
    """Whether neighbouring iterations of a kernel must be the threads of a warp."""
    if not kernel.serial or kernel.grid is None or kernel.grid_axes[-1][1] != NEIGHBOURS:
        return False
    values = [v for s in statements(kernel.body) if not isinstance(s, Loop) for v in s.operands]
    return any(v.op == "across" for v in walk(values))


def in_loops(
    axes: Sequence[tuple[str, int]], body: list[Any], carries: tuple[int, ...] = ()
) -> list[Any]:
    """Statements in loops over axes, the first of them outermost."""
    for axis, extent in reversed(axes):
        body = [Loop(axis, extent, body, carries)]
    return body


def signature(kernel: Kernel) -> tuple[Any, ...]:
    """What a kernel computes, as a key: equal for kernels that differ only in how they came to be.

    Values are counted in the order they were made in, from 0.
    """
    places: dict[int, int] = {}
    values = []
    roots = [v for s in statements(kernel.body) if not isinstance(s, Loop) for v in s.operands]
    for v in walk(roots):
        places[v.number] = len(places)
        values.append((v.op, v.dtype, v.attr, *[places[a.number] for a in v.args]))

    def body(given: list[Any]) -> tuple[Any, ...]:
        return tuple([statement(s) for s in given])

    def statement(s: Any) -> tuple[Any, ...]:
        if isinstance(s, Loop):
            return (s.axis, s.extent, body(s.body), s.carries, s.lanes, s.whole, s.threads)
        if isinstance(s, Store):
            offset = None if s.offset is None else places[s.offset.number]
            return (s.buffer, s.at, places[s.value.number], offset, s.reach, s.marks)
        if isinstance(s, (Serial, Atomic, Barrier)):
            own = tuple([places[v.number] for v in s.operands])
            if isinstance(s, Serial):
                symbols = tuple([c.symbol for c in s.carried])
                return ("serial", own, symbols, s.axis, s.extent, s.condition is None, body(s.body))
            if isinstance(s, Barrier):
                return ("barrier",)
            return ("atomic", own, s.buffer, s.at, s.op, s.offset is None, s.reach)
        initial = np.asarray(s.initial, s.dtype).tobytes()
        return (s.symbol, s.op, places[s.value.number], s.dtype, initial)

    whole = (kernel.name, *kernel.buffers, kernel.grid, kernel.axes)
    return (whole, tuple(values), body(kernel.body))


def show(kernel: Kernel) -> str:
    """A kernel as readable text."""
    lines = [f"kernel {kernel.name}("]
    for i, b in enumerate(kernel.buffers):
        lines.append(f"    {b.role} b{i}: {b.dtype.name}[{b.size}]")
    grid = "" if kernel.grid is None else f" grid {kernel.grid[0]} < {kernel.grid[1]}"
    if kernel.axes:
        grid += " of " + ", ".join(f"{axis} < {extent}" for axis, extent in kernel.axes)
    lines.append(f"){grid}:")
    _Text(kernel, lines).body(kernel.body, 1, set())
    return "\n".join(lines)


# Operations that are written as one expression, at most.
_INLINE = 3
_LEAVES = frozenset("const size index acc".split())


class _Text:
    """The statements of a kernel as lines; values used twice and long ones have names."""

    def __init__(self, kernel: Kernel, lines: list[str]) -> None:
        self.lines = lines
        self.names: dict[int, str] = {}
        roots = [v for s in statements(kernel.body) if not isinstance(s, Loop) for v in s.operands]
        uses = Counter(a.number for v in walk(roots) for a in v.args)
        uses.update(v.number for v in roots)
        size: dict[int, int] = {}
        whole = {v.number for v in roots}
        for v in walk(roots):
            if v.op in _LEAVES or (v.op == "load" and not v.args):
                size[v.number] = 0
                continue
            size[v.number] = 1 + sum(size[a.number] for a in v.args)
            long = size[v.number] > _INLINE and v.number not in whole
            if uses[v.number] > 1 or long:
                self.names[v.number] = f"v{len(self.names)}"
                size[v.number] = 0

    def body(self, body: list[Any], depth: int, known: set[int]) -> None:
        pad = "    " * depth
        for s in body:
            if isinstance(s, Loop):
                piece = "" if s.whole is None else f" of {s.whole[1]} by {s.whole[0]}"
                lanes = " in lanes" if s.lanes else " by threads" if s.threads else ""
                self.lines.append(f"{pad}for {s.axis} < {s.extent}{piece}{lanes}:")
                self.body(s.body, depth + 1, set(known))
                continue
            if isinstance(s, Serial):
                self.serial(s, depth, known)
                continue
            if isinstance(s, Barrier):
                self.lines.append(f"{pad}barrier")
                continue
            self.named(s.operands, pad, known)
            if isinstance(s, (Store, Atomic)):
                place = str(s.at) if s.offset is None else f"{s.at} + {self.value(s.offset)}"
                op, when = " =", ""
                if isinstance(s, Atomic):
                    op = f" atomic {s.op}="
                    when = "" if s.mask is None else f"if {self.value(s.mask)}: "
                elif s.marks is not None:
                    self.lines.append(
                        f"{pad}if {self.value(s.value)}: b{s.buffer}[{place}] = {s.marks}"
                    )
                    continue
                self.lines.append(f"{pad}{when}b{s.buffer}[{place}]{op} {self.value(s.value)}")
            else:
                self.lines.append(f"{pad}s{s.symbol} {s.op}= {self.value(s.value)}")

    def named(self, values: Sequence[Value], pad: str, known: set[int]) -> None:
        """Lines for the values that have names."""
        for v in walk(values):
            if v.number in self.names and v.number not in known:
                known.add(v.number)
                self.lines.append(f"{pad}{self.names[v.number]} = {self.operation(v)}")

    def serial(self, s: Serial, depth: int, known: set[int]) -> None:
        """A serial loop, with what it carries before and after its body."""
        pad, inner = "    " * depth, "    " * (depth + 1)
        self.named([c.initial for c in s.carried], pad, known)
        for c in s.carried:
            self.lines.append(f"{pad}s{c.symbol} = {self.value(c.initial)}")
        inside = set(known)
        if s.condition is None:
            self.lines.append(f"{pad}for {s.axis} < {s.extent} in order:")
        else:
            self.lines.append(f"{pad}while:")
            self.named([s.condition], inner, inside)
            self.lines.append(f"{inner}until not {self.value(s.condition)}")
        self.body(s.body, depth + 1, inside)
        self.named([c.after for c in s.carried], inner, inside)
        for c in s.carried:
            self.lines.append(f"{inner}s{c.symbol} = {self.value(c.after)}")

    def value(self, v: Value) -> str:
        return self.names.get(v.number) or self.operation(v)

    def operation(self, v: Value) -> str:
        if v.op == "const":
            return str(np.frombuffer(v.attr, v.dtype)[0])
        if v.op == "size":
            return repr(v.attr)
        if v.op == "load":
            return f"b{v.attr[0]}[{' + '.join([str(v.attr[1]), *map(self.value, v.args)])}]"
        if v.op == "index":
            return str(v.attr)
        if v.op == "acc":
            return f"s{v.attr}"
        name = f"{v.op}.{v.dtype.name}" if v.op in ("cast", "bitcast") else v.op
        name = f"{v.attr.op}_{name}" if name == "across" else name
        return f"{name}({', '.join(map(self.value, v.args))})"
