"""This machine as a target: kernels scheduled and rendered, operations lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.backends.cpu.assemble import Assembler
from weft.backends.cpu.assembly import Assembly, Piece
from weft.backends.cpu.code.loops import (
    ranges,
    render,
    render_sized,
    render_unified,
    render_unrolled,
)
from weft.backends.cpu.routines import choices
from weft.backends.cpu.sizes import handing_on
from weft.backends.llvm.code import Module
from weft.backends.llvm.native.machine import Ahead
from weft.backends.llvm.native.processor import has_wide_tiles, vector_bits
from weft.backends.llvm.tasks import Lowered
from weft.base import knobs
from weft.base.lazy import Late
from weft.base.sizes import LEAST, Size, recording
from weft.compiler.backend import Target
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.grid import chunk
from weft.compiler.passes.one_hot import Costs, one_hot
from weft.compiler.passes.rewrite import roots
from weft.compiler.passes.split import Part, Parts
from weft.compiler.passes.unify import apart, named
from weft.compiler.pipeline import Pass, schedule, simplify
from weft.compiler.plan import Planner
from weft.compiler.watch import UNWATCHED, Watch
from weft.core.jaxpr import ClosedJaxpr, DropVar
from weft.kernel.kernel import Kernel, signature
from weft.kernel.nodes import walk
from weft.kernel.program import Blocks, Finish, Type
from weft.kernel.spec import verify
from weft.tree.functions import tree_leaves

# loaded when a program has a loop, and when it has an operation with an algorithm of its own
loop_text = Late("weft.backends.cpu.code.loop_text")
lanes_text = Late("weft.backends.cpu.code.lanes_text")
shared_text = Late("weft.backends.cpu.code.shared_text")
serial = Late("weft.backends.cpu.code.serial")
tiny = Late("weft.backends.cpu.routines.factorisations.tiny")
routines = Late("weft.backends.cpu.routines.table")


# Sizes that one function may read for several kernels: each of them takes a register.
MAX_READ_SIZES = 8
# Elements of a buffer that is no array, whatever sizes arrays are of.
MAX_SCALAR_ELEMENTS = 2
# Operations of a round of a batched loop from which on smaller batches pay: some microseconds.
MIN_LANE_WORK = 1 << 15


Rendered = tuple[list[Piece], list[int], list[Part]]


def _facts(kernel: Kernel) -> tuple[int, int]:
    """What the ranges of a kernel's grid are known to be; the second number is always a size."""
    extent, pieces = ranges(kernel, chunk(kernel))
    return extent, pieces + LEAST


def _is_sized(kernel: Kernel) -> bool:
    """Whether a kernel has named sizes."""
    numbers = [b.size for b in kernel.buffers] + [extent for _, extent in kernel.axes]
    return any(type(n) is Size for n in [*numbers, *[v.attr for v in walk(roots(kernel.body))]])


# Roughly those of two cores.
COSTS = Costs(1e10, 5e10, 2e-6, 2e-6)


class Cpu(Target):
    """This machine's processor."""

    fills_lanes = same_rows = True
    min_lane_work = MIN_LANE_WORK
    passes = (
        Pass(
            "one_hot",
            "program",
            lambda closed, _: one_hot(closed, COSTS),
            lambda to: not to.general and not knobs.thread.reproducible,
        ),
    )

    def __init__(
        self,
        watch: Watch | None = None,
        ahead: Ahead | None = None,
        named: bool = False,
        eager: bool = False,
    ) -> None:
        self.watch: Any = watch or UNWATCHED
        self.ahead = ahead
        # whether functions are for sizes that have names: these are read, plain numbers are not
        self.general = named
        self.marks = "" if named else "checks"
        # whether what has few elements is done as it is outside of compiled functions, and what has
        # no named sizes by code that other programs share
        self.eager = eager
        self.neutral = choices.some_off()
        # native functions by module and name, and the same in a row
        self.codes: dict[tuple[Module, str], int] = {}
        self.modules: list[tuple[Module, str]] = []
        # equal layers are scheduled and rendered once
        self.kernels: dict[Any, Rendered] = {}
        self.signatures: dict[Any, int] = {}
        self.same: dict[int, tuple[Kernel, int]] = {}  # kernels by id, kept alive
        self.lowerings: dict[Any, Lowered | None] = {}
        # kernels by signature before they are rendered, and what is known of each of their parts
        self.scheduled: dict[int, tuple[Parts, list[Any]]] = {}
        # parts that share a function with others: its module, and the sizes that it reads for them
        self.unified: dict[tuple[Any, tuple[int, ...]], tuple[Module, tuple[int, ...]]] = {}

    def assemble(self, closed: ClosedJaxpr, donated: Sequence[bool] = ()) -> Assembly:
        """A staged function planned and assembled."""
        program = Planner(self, self.watch).program(closed, donated)
        assembler = Assembler(self, program.slots, program.constants, program.under, self.watch)
        return assembler.program(program)

    def exact(self) -> Cpu:
        if not self.general:
            return self
        made = Cpu(self.watch)
        made.codes, made.modules = self.codes, self.modules
        return made

    def keeps(self, eqn: Any) -> bool:
        name = eqn.primitive.name
        return routines.has(name) and choices.is_on(name)

    def simplify(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        return simplify(closed, self.watch, self)

    def kernel(self, kernel: Kernel, looped: bool = False) -> Rendered:
        """A kernel as pieces to be run in order, the bytes of scratch memory they share, and the
        parts that they are; in a loop, one of a few elements is meant to become part of a larger
        function."""
        if kernel.serial:
            return self._serial(kernel)
        if looped and self.general:
            sizes = [b.size for b in kernel.buffers]
            looped = all(type(n) is not Size and n <= MAX_SCALAR_ELEMENTS for n in sizes)
        key = (looped, self._signature(kernel))
        found = self.kernels.get(key)
        if found is None:
            found = self._unrolled(kernel, looped) or self._rendered(kernel)
            self.kernels[key] = found
        return found

    def _serial(self, kernel: Kernel) -> Rendered:
        """A kernel that no pass changes."""
        verify(kernel)
        module = serial.render_serial(kernel)
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        extent = 1 if kernel.grid is None else kernel.grid[1]
        piece = Piece(module, kernel.name, extent, serial.chunk(kernel), tuple(outside))
        return [piece], [], [Part(kernel, outside)]

    def _signature(self, kernel: Kernel) -> int:
        """A number that is the same for equal kernels."""
        same = self.same.get(id(kernel))
        if same is None:
            number = self.signatures.setdefault(signature(kernel), len(self.signatures))
            same = self.same[id(kernel)] = kernel, number
        return same[1]

    def _unrolled(self, kernel: Kernel, looped: bool) -> Rendered | None:
        """A kernel of a few elements in a loop, without loops of its own."""
        if not looped:
            return None
        kernel = collapse(kernel)
        verify(kernel)
        module = render_unrolled(kernel)
        if module is None:
            return None
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        return [Piece(module, kernel.name, 1, 1, tuple(outside))], [], [Part(kernel, outside)]

    def _rendered(self, kernel: Kernel) -> Rendered:
        scheduled = self.scheduled.get(self._signature(kernel))
        parts, scratch = schedule(kernel, self.watch) if scheduled is None else scheduled[0]
        since = self.watch.mark()
        pieces = []
        for i, (part, buffers) in enumerate(parts):
            extent = 1 if part.grid is None else part.grid[1]
            count = chunk(part)
            sizes: Sequence[Any] = ()
            verify(part)
            unified = None if scheduled is None else self.unified.get(scheduled[1][i])
            if unified is not None:
                module, sizes = unified
            elif self.general and (self.eager or _is_sized(part)):
                module, sizes = render_sized(part)
            else:
                module = render(part, chunk=count)
            pieces.append(Piece(module, part.name, extent, count, tuple(buffers), tuple(sizes)))
        self.watch.spent("render", since)
        return pieces, [b.size * b.dtype.itemsize for b in scratch], parts

    def begin(self, module: Module, name: str, early: bool = False) -> None:
        """Take a native function that the program will call; it may be compiled by now, and is if
        it comes ``early``, before others are written."""
        if self.ahead is not None:
            self.ahead.begin(module, name, early)

    def unify(self, kernels: Sequence[Kernel]) -> None:
        """Have one function do for kernels of a program that differ in sizes alone."""
        found = {self._signature(kernel): kernel for kernel in kernels if not kernel.serial}
        if self.general or len(found) < 2:
            return
        kinds: dict[Any, int] = {}
        alike: list[dict[tuple[int, ...], Kernel]] = []
        for number, kernel in found.items():
            parts = schedule(kernel, self.watch)
            marks = []
            for part, _ in parts.parts:
                key, sizes = apart(part, _facts(part))
                kind = kinds.setdefault(key, len(kinds))
                if kind == len(alike):
                    alike.append({})
                alike[kind][sizes] = part
                marks.append((kind, sizes))
            self.scheduled[number] = parts, marks
        since = self.watch.mark()
        for kind, members in enumerate(alike):
            self._unify(kind, members)
        self.watch.spent("render", since)

    def _unify(self, kind: int, members: Mapping[tuple[int, ...], Kernel]) -> None:
        """One function for the first of some kernels that are alike, and for all that its code
        does for; then for the others."""
        while len(members) > 1:
            kernel = next(iter(members.values()))
            made, (extent, more), values = named(kernel, _facts(kernel), list(members))
            with recording() as guards:
                module, read = render_unified(made, extent, more - LEAST)
            fits = {
                sizes: all(guard.is_met(row) for guard in guards)
                for sizes, row in zip(members, values, strict=True)
            }
            if all(fits.values()):
                if len(read) <= MAX_READ_SIZES:
                    for sizes, row in zip(members, values, strict=True):
                        self.unified[kind, sizes] = module, tuple([size.at(row) for size in read])
                return
            self._unify(kind, {sizes: k for sizes, k in members.items() if fits[sizes]})
            members = {sizes: k for sizes, k in members.items() if not fits[sizes]}

    def is_small(self, size: int) -> bool:
        """Whether a loop with so many bytes of its own may be one function."""
        return size <= loop_text.BYTES

    def loop(self, node: Any, slots: Any, codes: Any, inside: int) -> Any:
        """A small loop as one function, or None."""
        return loop_text.render_loop(node, slots, codes, inside, self.general)

    def shared(self, node: Any, parts: Any, slots: Any, codes: Any, inside: int) -> Any:
        """A loop with rounds that threads share as a function over workers, or None."""
        shared = shared_text.SharedLoop(node, *parts)
        return shared_text.render_shared(shared, slots, codes, inside)

    def calls(self, node: Any, slots: Any, codes: Any) -> Any:
        """A loop as a function that calls its kernels, or None."""
        return loop_text.render_calls(node, slots, codes, self.general)

    def block(self, size: int, values: int) -> int:
        lanes = max(1, vector_bits() // (8 * max(4, size)))
        registers = 16 if vector_bits() == 256 else 32
        return lanes * max(k for k in (1, 2, 4) if k == 1 or (values + 4) * k <= registers)

    def blocks(self, blocks: Blocks) -> Any:
        # a block is of the same size for all arrays
        inner = Assembler(self.exact(), blocks.slots, blocks.constants, {}, self.watch, loops=1)
        nodes = inner.nodes(blocks.nodes)
        if inner.hosts:
            return None
        assembled = blocks._replace(nodes=tuple(nodes))
        render = loop_text.render_blocks if blocks.lanes is None else lanes_text.render_lanes
        return render(assembled, inner.slots, inner.modules, self.general)

    def epilogue(self, eqn: Any, finish: Finish, looped: bool) -> Lowered | None:
        return self.operation(eqn, looped, finish) if has_wide_tiles() else None

    def operation(self, eqn: Any, looped: bool, finish: Finish | None = None) -> Lowered | None:
        """Tasks of an operation that is not fused; with an epilogue, of both, or None where they
        stay apart. ``looped`` is meant as for kernels."""
        name, params = eqn.primitive.name, eqn.params
        ins, outs = (
            [Type(x.aval.shape, x.aval.dtype, type(x) is not DropVar) for x in xs]
            for xs in (eqn.invars, eqn.outvars)
        )
        if looped and finish is None and not self.general:
            found = tiny.lower(name, ins, outs, params)
            if found is not None:
                return found
        more = None if finish is None else (finish.buffer, self._signature(finish.kernel))
        key = (name, *ins, *outs, *params.items(), more)
        try:
            if key not in self.lowerings:
                self.lowerings[key] = self._lowered(name, ins, outs, params, finish, looped)
            return self.lowerings[key]
        except TypeError:  # a parameter that cannot be a key
            return self._lowered(name, ins, outs, params, finish, looped)

    def _lowered(
        self,
        name: str,
        ins: list[Type],
        outs: list[Type],
        params: Any,
        finish: Finish | None,
        looped: bool,
    ) -> Lowered | None:
        if finish is not None:
            verify(finish.kernel)
        if self.general and finish is not None:
            return None  # they stay apart
        given = [*[t.shape for t in ins + outs], *params.values()]
        if self.general and (self.eager or Size in map(type, tree_leaves(given))):
            return routines.lower_sized(name, ins, outs, params, self.eager)
        since = self.watch.mark()
        # others may come to nothing, or become part of a larger function
        begun = self.begin if finish is None and not looped else None
        with recording(), handing_on(begun):  # routines have sizes of their own
            lowered = routines.lower(name, ins, outs, params, finish)
        self.watch.spent("render", since)
        return lowered
