"""This machine as a target: kernels scheduled and rendered, operations lowered."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from weft.backends.cpu.assemble import Assembler
from weft.backends.cpu.assembly import Assembly, Piece
from weft.backends.cpu.code.loops import render, render_sized
from weft.backends.cpu.native.machine import Ahead
from weft.backends.cpu.native.processor import has_wide_tiles, vector_bits
from weft.backends.cpu.routines import choices
from weft.backends.cpu.sharing import Sized, reading, shared, sizable, sized
from weft.base.lazy import Late
from weft.base.sizes import Size, is_same, writing
from weft.compiler.backend import Target
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.grid import chunk
from weft.compiler.passes.split import Part
from weft.compiler.pipeline import schedule, simplify
from weft.compiler.plan import Planner
from weft.compiler.watch import UNWATCHED, Watch
from weft.core.jaxpr import ClosedJaxpr, DropVar
from weft.kernel.kernel import Kernel, signature
from weft.kernel.program import Blocks, Finish, Lowered, Type
from weft.kernel.spec import verify

# loaded when a program has a loop, and when it has an operation with an algorithm of its own
loop_text = Late("weft.backends.cpu.code.loop_text")
called_text = Late("weft.backends.cpu.code.called_text")
block_text = Late("weft.backends.cpu.code.block_text")
serial = Late("weft.backends.cpu.code.serial")
unrolled = Late("weft.backends.cpu.code.unrolled")
tiny = Late("weft.backends.cpu.routines.products.tiny")
routines = Late("weft.backends.cpu.routines.table")


# Functions that wait for others like them while the program is planned.
HELD = 64
# Elements of a buffer that is no array, whatever sizes arrays are of.
MAX_SCALAR_ELEMENTS = 2


Rendered = tuple[list[Piece], list[int], list[Part]]


class Cpu(Target):
    """This machine's processor."""

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
        # whether what has few elements is done as it is outside of compiled functions
        self.eager = eager
        self.tokens: list[Size] = []
        self.neutral = choices.some_off()
        # native functions by text and name, and the same in a row
        self.codes: dict[tuple[str, str], int] = {}
        self.texts: list[tuple[str, str]] = []
        # equal layers are scheduled and rendered once
        self.kernels: dict[Any, Rendered] = {}
        self.signatures: dict[Any, int] = {}
        self.same: dict[int, tuple[Kernel, int]] = {}  # kernels by id, kept alive
        self.lowerings: dict[Any, Lowered | None] = {}
        # functions that wait for others like them, apart from their sizes once that was looked at
        self.waiting: dict[tuple[str, str], Sized | None] = {}
        self.shared = self.general  # whether nothing is to wait any more

    def assemble(self, closed: ClosedJaxpr, donated: Sequence[bool] = ()) -> Assembly:
        """A staged function planned and assembled."""
        program = Planner(self, self.watch).program(closed, donated)
        assembler = Assembler(self, program.slots, program.constants, program.under, self.watch)
        return assembler.program(program)

    def exact(self) -> Cpu:
        if not self.general:
            return self
        made = Cpu(self.watch)
        made.codes, made.texts, made.shared = self.codes, self.texts, True
        return made

    def keeps(self, eqn: Any) -> bool:
        return choices.is_on(eqn.primitive.name)

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
        text = serial.render_serial(kernel)
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        extent = 1 if kernel.grid is None else kernel.grid[1]
        piece = Piece(text, kernel.name, extent, serial.chunk(kernel), tuple(outside))
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
        text = unrolled.render_unrolled(kernel)
        if text is None:
            return None
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        return [Piece(text, kernel.name, 1, 1, tuple(outside))], [], [Part(kernel, outside)]

    def _rendered(self, kernel: Kernel) -> Rendered:
        parts, scratch = schedule(kernel, self.watch)
        begin = perf_counter()
        pieces = []
        for part, buffers in parts:
            extent = 1 if part.grid is None else part.grid[1]
            count = chunk(part)
            sizes: list[Size] = []
            verify(part)
            if self.general:
                text, sizes = render_sized(part)
            else:
                text = render(part, chunk=count)
            pieces.append(Piece(text, part.name, extent, count, tuple(buffers), tuple(sizes)))
        self.watch.spent("render", perf_counter() - begin)
        return pieces, [b.size * b.dtype.itemsize for b in scratch], parts

    def token(self, size: Size) -> str:
        """What stands for a named size in the text of a function until all of it is written."""
        for i, known in enumerate(self.tokens):
            if is_same(known, size):
                return f"%size{i}_"
        self.tokens.append(size)
        return f"%size{len(self.tokens) - 1}_"

    def sized(self, text: str, name: str, buffers: int) -> tuple[str, list[int]] | None:
        """A function that reads its sizes from a table, after so many buffers, and these, or None
        where they stay in its text."""
        return reading(text, name, buffers, self.tokens) if self.general else None

    def begin(self, text: str, name: str) -> None:
        """Told of a native function that the program will call; it may be compiled by now."""
        if self.shared or not sizable(text):
            self._compile_ahead(text, name)
            return
        self.waiting.setdefault((text, name))
        if len(self.waiting) > HELD:
            self._let_go()

    def _compile_ahead(self, text: str, name: str) -> None:
        if self.ahead is not None:
            self.ahead.begin(text, name)

    def _alike(self) -> dict[Any, list[tuple[str, str]]]:
        """The functions that wait, those together that differ in sizes alone."""
        found: dict[Any, list[tuple[str, str]]] = {}
        for code, apart in self.waiting.items():
            if apart is None:
                apart = self.waiting[code] = sized(code[0])
            found.setdefault((code[1], apart.between), []).append(code)
        return found

    def _let_go(self) -> None:
        """Have the function compiled that has waited longest for another like it."""
        for codes in self._alike().values():
            if len(codes) == 1:
                self._compile_ahead(*codes[0])
                del self.waiting[codes[0]]
                return

    def share(
        self, codes: list[tuple[str, str]], buffers: dict[int, int]
    ) -> dict[int, tuple[tuple[str, str], list[int]]]:
        """Of native functions, by number and with how many buffers each has: for those that one
        function can stand for, that function and a table of numbers, its last buffer."""
        self.shared = True
        found: dict[int, tuple[tuple[str, str], list[int]]] = {}
        if self.general:
            return found
        # a look at their lengths tells most small programs that none are alike
        if len({(text.count("\n"), name) for text, name in self.waiting}) < len(self.waiting):
            numbers = {codes[i]: i for i in buffers}
            for alike in self._alike().values():
                own = [numbers[code] for code in alike if code in numbers]
                if len(own) < 2 or len({buffers[i] for i in own}) > 1:
                    continue
                texts = [self.waiting[codes[i]] for i in own]
                made = shared([t for t in texts if t is not None], buffers[own[0]])
                if made is not None:
                    text, rows = made
                    name = alike[0][1]
                    found.update((i, ((text, name), r)) for i, r in zip(own, rows, strict=True))
        replaced = {codes[i] for i in found}
        for code in self.waiting:
            if code not in replaced:
                self.begin(*code)
        self.waiting.clear()
        return found

    def loop(self, node: Any, slots: Any, codes: Any, inside: int) -> Any:
        """A small loop as one function: its text and the slots it takes, or None."""
        return loop_text.render_loop(node, slots, codes, inside, self.general)

    def calls(self, node: Any, slots: Any) -> Any:
        """A loop as a function that calls its kernels: its text, the slots and the native functions
        it takes, or None."""
        return called_text.render_calls(node, slots, self.general)

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
        return block_text.render_blocks(assembled, inner.slots, inner.texts, self.general)

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
                self.lowerings[key] = self._lowered(name, ins, outs, params, finish)
            return self.lowerings[key]
        except TypeError:  # a parameter that cannot be a key
            return self._lowered(name, ins, outs, params, finish)

    def _lowered(
        self, name: str, ins: list[Type], outs: list[Type], params: Any, finish: Finish | None
    ) -> Lowered | None:
        if finish is not None:
            verify(finish.kernel)
        if self.general:
            with writing(self.token):
                return routines.lower(name, ins, outs, params, finish, True, self.eager)
        begin = perf_counter()
        lowered = routines.lower(name, ins, outs, params, finish)
        self.watch.spent("render", perf_counter() - begin)
        return lowered
