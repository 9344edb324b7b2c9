"""Whole programs as C: planned without routines, so that all of them are kernels, and written out.

Memory is one arena: temporaries whose lives do not meet share it, and so does the scratch memory of
kernels, which run one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.c.helpers import HEAD, definitions
from weft.backends.c.render import kernel_text, memory_kind
from weft.base.record import Record
from weft.compiler.arena import ALIGNMENT, Life, arrange
from weft.compiler.backend import MIN_STORED_OPS, Target
from weft.compiler.pipeline import simplify
from weft.compiler.plan import Planner
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.kernel import Kernel, signature
from weft.kernel.program import (
    Branch,
    Copy,
    Finish,
    For,
    Launch,
    Op,
    Point,
    Program,
    Swap,
    While,
    all_nodes,
)

_CHOICES = {1: "u8", 4: "i32", 8: "i64"}
# Bytes of a constant in one line.
_LINE = 16


class Portable(Target):
    """A machine of which nothing is known: every operation is made of kernels."""

    general = recomputes = False
    neutral = True
    passes: tuple[Any, ...] = ()
    min_stored_ops = MIN_STORED_OPS

    def keeps(self, eqn: Any) -> bool:
        return False

    def exact(self) -> Portable:
        return self

    def simplify(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        return simplify(closed, target=self)

    def epilogue(self, eqn: Any, finish: Finish, looped: bool) -> None:
        return None

    def block(self, size: int, values: int) -> int:
        return 1

    def blocks(self, blocks: Any) -> None:
        return None


class Unwritable(Exception):
    """An operation that no kernels compute; ``eqn`` is its equation, ``needed`` what does."""

    def __init__(self, eqn: Any, needed: str) -> None:
        super().__init__(eqn.primitive.name)
        self.eqn, self.needed = eqn, needed


class Source(Record):
    """A program in C: the text behind its header, and the bytes that a call works in."""

    text: str
    arena: int


def source(
    closed: ClosedJaxpr,
    donated: Sequence[bool],
    name: str,
    kinds: Sequence[str],
    sizes: Sequence[int],
) -> Source:
    """A staged function as C; ``kinds`` are the types of its arguments and results, as its header
    has them, and ``sizes`` the bytes of its results.

    Raises `Unwritable` where an operation cannot be made of kernels.
    """
    program = Planner(Portable()).program(closed, donated)
    for node in all_nodes(program.nodes):
        if hasattr(node, "eqn"):
            python = not isinstance(node, Op) or "callback" in node.eqn.params
            raise Unwritable(node.eqn, "Python" if python else "LAPACK")
    return _Writer(program, name, kinds, sizes).source()


def _slots(node: Any) -> list[int]:
    """The slots that a node itself names."""
    if isinstance(node, Launch):
        return [*node.slots, *node.writes]
    if isinstance(node, (Copy, Point, Swap)):
        return [*node[:2]]
    if isinstance(node, Branch):
        return [node.choice, *node.uses]
    if isinstance(node, While):
        return [node.flag, *node.uses]
    assert isinstance(node, For)
    return [*node.uses, *(slot for view, base, _ in node.slices for slot in (view, base))]


def _lives(program: Program) -> dict[int, Life]:
    """When temporaries are in use, counted in nodes of the program; a loop is one."""
    found: dict[int, Life] = {}
    for clock, node in enumerate(program.nodes):
        waiting = [slot for inner in all_nodes([node]) for slot in _slots(inner)]
        seen: set[int] = set()
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            waiting += program.under.get(number, ())
            slot = program.slots[number]
            if slot.role == "temp":
                first = found[number].first if number in found else clock
                found[number] = Life(slot.size, first, clock)
    return found


class _Writer:
    """One program while it is written."""

    def __init__(
        self, program: Program, name: str, kinds: Sequence[str], sizes: Sequence[int]
    ) -> None:
        self.program, self.name, self.sizes = program, name, sizes
        arguments = len(kinds) - len(program.results)
        names = [f"a{i}" for i in range(arguments)] + [f"r{i}" for i in range(len(sizes))]
        self.names = names
        self.parameters = [f"{kind} *{word}" for kind, word in zip(kinds, names, strict=True)]
        self.lines: list[str] = []
        self.depth = 1
        self.used: set[str] = set()
        self.kernels: dict[Any, str] = {}
        self.texts: list[str] = []
        self.constants: dict[int, str] = {}
        self.count = 0
        self.scratch = 0  # bytes of the kernel that works in most

    def source(self) -> Source:
        program, name = self.program, self.name
        offsets, self.arena = arrange(_lives(program), len(program.slots))
        self._nodes(program.nodes)
        self._end()
        self.lines = [*self._pointers(offsets, "\n".join(self.lines)), *self.lines]
        arena = max(self.arena + self.scratch, 1)
        inside = "\n".join(self.lines)
        self.lines += [
            f"    (void){word};" for word in self.names if not re.search(rf"\b{word}\b", inside)
        ]
        given = ", ".join(["void *arena", *self.parameters])
        own = ", ".join(["memory.bytes", *self.names])
        text = "".join(
            [
                f'#include "{name}.h"\n',
                HEAD,
                definitions(self.used),
                *[_constant(self.constants[i], program.constants[i]) for i in self.constants],
                *self.texts,
                f"void {name}_in({given}) {{\n",
                *[f"{line}\n" for line in self.lines],
                "}\n",
                f"static union {{ uint64_t align; unsigned char bytes[{arena}]; }} memory;\n",
                (
                    f"void {name}({', '.join(self.parameters) or 'void'}) {{\n"
                    f"    {name}_in({own});\n}}\n"
                ),
            ]
        )
        return Source(text, arena)

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _open(self, head: str) -> None:
        self._line(head + " {")
        self.depth += 1

    def _close(self) -> None:
        self.depth -= 1
        self._line("}")

    def _pointers(self, offsets: Sequence[int], inside: str) -> list[str]:
        """A pointer for every slot that the text inside names: loops may list others."""
        results = {r.number: i for i, r in enumerate(self.program.results) if r.kind == "slot"}
        lines = ["unsigned char *const base = arena;"]
        used = {int(number) for number in re.findall(r"\bp(\d+)\b", inside)}
        for number, slot in enumerate(self.program.slots):
            if number not in used:
                continue
            start = "0"
            if number in results:
                start = f"(void *)r{results[number]}"
            elif slot.role == "arg":
                start = f"(void *)a{slot.what}"
            elif slot.role == "const":
                start = f"(void *){self._data(slot.what)}"
            elif slot.role == "temp":
                start = f"base + {offsets[number]}"
            lines.append(f"unsigned char *p{number} = {start};")
            if slot.role == "view":  # which may be set and never asked for
                lines.append(f"(void)p{number};")
        return [f"    {line}" for line in [*lines, "(void)base;"]]

    def _data(self, number: int) -> str:
        return self.constants.setdefault(number, f"constant{number}")

    def _end(self) -> None:
        for i, ((kind, number), size) in enumerate(
            zip(self.program.results, self.sizes, strict=True)
        ):
            if kind == "slot" or size == 0:
                continue
            source = {"const": self._data, "same": "r{}".format}.get(kind, "a{}".format)(number)
            test = f"if (r{i} != {source}) " if kind == "taken" else ""
            self._line(f"{test}memcpy(r{i}, {source}, {size});")

    def _nodes(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            if isinstance(node, Launch):
                self._launch(node)
            elif isinstance(node, Copy):
                self._line(f"memcpy(p{node.target}, p{node.source}, {node.size});")
            elif isinstance(node, Point):
                self._line(f"p{node.view} = p{node.base};")
            elif isinstance(node, Swap):
                self.count += 1
                first, second, held = f"p{node.first}", f"p{node.second}", f"held{self.count}"
                self._line(f"unsigned char *{held} = {first};")
                self._line(f"{first} = {second};")
                self._line(f"{second} = {held};")
            elif isinstance(node, Branch):
                self._branch(node)
            elif isinstance(node, While):
                self._open("for (;;)")
                self._nodes(node.condition)
                self._line(f"if (!*p{node.flag}) break;")
                self._nodes(node.body)
                self._close()
            else:
                self._for(node)

    def _launch(self, node: Launch) -> None:
        name, slots, offset = self._kernel(node.kernel), iter(node.slots), self.arena
        given = []
        for b in node.kernel.buffers:
            if b.role == "row":
                place = f"base + {offset}"
                offset += -(-b.size * b.dtype.itemsize // ALIGNMENT) * ALIGNMENT
            else:
                place = f"p{next(slots)}"
            const = "const " if b.role == "in" else ""
            given.append(f"({const}{memory_kind(b.dtype)} *)({place})")
        self.scratch = max(self.scratch, offset - self.arena)
        self._line(f"{name}({', '.join(given)});")

    def _kernel(self, kernel: Kernel) -> str:
        key = signature(kernel)
        found = self.kernels.get(key)
        if found is None:
            found = f"{kernel.name}_{len(self.kernels)}"
            found = self.kernels[key] = f"{found}_" if found == self.name else found
            self.texts.append(kernel_text(kernel, found, self.used))
        return found

    def _branch(self, node: Branch) -> None:
        self.count += 1
        chosen, last = f"chosen{self.count}", len(node.regions) - 1
        self._line(f"const i64 {chosen} = *(const {_CHOICES[node.size]} *)p{node.choice};")
        for i, region in enumerate(node.regions):
            test = f"if ({chosen} <= {i})" if i < last else ""
            self._open(f"{'else ' if i else ''}{test}".rstrip())
            self._nodes(region)
            self._close()

    def _for(self, node: For) -> None:
        self.count += 1
        trip = f"t{self.count}"
        self._open(f"for (i64 {trip} = 0; {trip} < {node.trips}; {trip}++)")
        now = f"({node.trips - 1} - {trip})" if node.reverse else trip
        for view, base, size in node.slices:
            self._line(f"p{view} = p{base} + {now} * {size};")
        self._nodes(node.body)
        self._close()


def _constant(name: str, value: Any) -> str:
    array = np.asarray(value, np.int64) if type(value) is tuple else np.ascontiguousarray(value)
    data = array.tobytes() or b"\0"
    rows = [", ".join(map(str, data[i : i + _LINE])) for i in range(0, len(data), _LINE)]
    inside = ",\n    ".join(rows)
    return (
        f"static const union {{ unsigned char bytes[{len(data)}]; uint64_t align; }} {name}_data ="
        f" {{{{\n    {inside}\n}}}};\n#define {name} ({name}_data.bytes)\n"
    )
