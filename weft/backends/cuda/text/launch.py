"""The text of a launch of several parts.

A part is a function: of its arrays, and of numbers that say which of its elements a thread is for.
The kernel calls it from the threads that have a share of it. Parts that need nothing of each other
are a phase; a barrier of the block, the cluster or the grid is between two phases. `join.py` gives
parts blocks of the launch, `chains.py` clusters, and `loops.py` all threads, round after round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from weft.backends.cuda.groups import Access, SameMemory, collide
from weft.backends.cuda.loops import Grid
from weft.backends.cuda.ptx import NAME, GpuModule, shared_memory
from weft.backends.cuda.routines.device import definitions
from weft.backends.cuda.routines.stubs import loop_stubs as stubs
from weft.backends.cuda.text.render import kernel_module
from weft.backends.cuda.text.threads import Threads, counted, inlined
from weft.backends.llvm.code import Module, Parameter, parameters
from weft.backends.llvm.text.instructions import Lines
from weft.backends.llvm.text.scalar_math import translate_with_math
from weft.backends.llvm.text.stub import called_stubs, known_to


class Launch(Lines):
    """The kernel of several parts while it is written.

    ``grid`` is whose threads meet at a barrier, ``same_memory`` whether two slots may be the same
    memory. A barrier of a grid counts in the slot ``state``. Where threads of a block are
    ``aligned``, those of a warp come to barriers together.
    """

    def __init__(
        self, grid: Grid, same_memory: SameMemory, state: int = -1, aligned: bool = False
    ) -> None:
        super().__init__()
        self.grid, self.same_memory, self.state, self.aligned = grid, same_memory, state, aligned
        self.slots: dict[int, None] = {}  # that the parameters are
        self.allocated: list[str] = []
        self.modules: list[Module] = []  # functions of parts, and shared memory
        self.stubs: dict[str, Module] = {}
        self.pending: list[tuple[Access, Any, int]] = []  # accesses, by what, of which kernel
        self.barriers = 0

    # --- parts ------------------------------------------------------------------------------------

    def add(self, name: str, what: Threads | GpuModule, first: Sequence[Parameter] = ()) -> None:
        """The function of a part: of a kernel as it is written, which may have some parameters
        ahead of its own, or of a routine's."""
        if isinstance(what, Threads):
            self.modules += what.modules(name, first)
            return
        main = what.function(NAME)
        made = inlined(name, (*main.parameters, *parameters("i32", "number")), main.lines)
        functions = [made if f.name == NAME else f for f in what.functions]
        self.modules.append(Module(functions, what.declared, what.memory))

    def stub(
        self, main: Any, names: dict[str, Any], tag: str = "", own: Sequence[str] = ()
    ) -> None:
        """The functions of a stub, named with a tag, as are its ``own`` words."""
        if f"{main.__name__}{tag}" in self.stubs:
            return
        made = translate_with_math(main, known_to(main, names), inline=tuple(called_stubs([main])))
        if tag:
            made = made.renamed({name: f"{name}{tag}" for name in (*made.names, *own)})
        self.modules.append(made.replaced(functions=()))
        for f in made.functions:
            f = inlined(f.name, f.parameters, f.lines, f.result)
            self.stubs.setdefault(f.name, Module([f]))

    def keep(self, sizes: dict[str, int]) -> None:
        """Have shared memory of so many bytes, by name."""
        self.modules.append(Module((), memory=[shared_memory(*x) for x in sizes.items()]))

    # --- shares -----------------------------------------------------------------------------------

    def variable(self, kind: str) -> str:
        name = self.fresh()
        self.allocated.append(f"  {name} = alloca {kind}")
        return name

    def counted(
        self, first: str, step: int, stop: int, run: Callable[[str], None], kind: str = "i64"
    ) -> None:
        """A loop of numbers from a first one up."""
        at = self.variable(kind)
        self.line(f"store {kind} {first}, ptr {at}")
        counted(self, at, stop, step, run, kind)

    def thread(self) -> str:
        """The number of a thread in its block."""
        return self.emit("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()")

    def first_threads(self, count: int) -> AbstractContextManager[bool]:
        """Lines for so many threads of each block."""
        return self.when(self.emit(f"icmp slt i32 {self.thread()}, {count}"))

    # --- phases -----------------------------------------------------------------------------------

    def begin(self, accesses: Sequence[Access], key: Any = None, origin: int = 0) -> None:
        """Begin with a part, in a phase of its own if it has to wait for others."""
        if self.conflicts(accesses, key, origin):
            self.barrier()
        self.note(accesses, key, origin)

    def note(self, accesses: Sequence[Access], key: Any, origin: int = 0) -> None:
        self.pending += [(a, key, origin) for a in accesses]

    def conflicts(self, accesses: Sequence[Access], key: Any, origin: int = 0) -> bool:
        """Whether a part has to wait for those since the last barrier.

        Not where a thread touches only what it has itself touched: parts with the same key have
        the same elements by the same threads. What all have computed for themselves, each of them
        may read at once, but none may write it again while others are still there.
        """
        for a in accesses:
            for b, other, before in self.pending:
                if a.writes and b.writes and origin and origin == before:
                    continue
                if not collide(a, b, self.same_memory):
                    continue
                if a.own and b.own and key == other and key not in (None, "all"):
                    continue
                if other == "all" and b.writes and not a.writes and a.slot == b.slot:
                    continue
                return True
        return False

    def barrier(self) -> None:
        """End a phase, if it has any parts."""
        if self.pending:
            self.barriers += 1
            self.pending = []
            self.meet()

    def meet(self) -> None:
        """A barrier."""
        if self.aligned:
            self.line("call void @llvm.nvvm.barrier0()")
        elif self.grid.blocks == 1:
            self.call_function("meet", ())
        elif self.grid.cluster:
            self.stub(stubs.cluster_barrier, {})
            self.call_function("cluster_barrier", ())
        else:
            for stub in (stubs.begin_barriers, stubs.grid_barrier):
                self.stub(stub, {})
            self.call_function("grid_barrier", [f"ptr {self.pointer(self.state)}", "ptr %goal"])

    # --- the whole --------------------------------------------------------------------------------

    def pointer(self, slot: int) -> str:
        """Where a slot is."""
        self.slots[slot] = None
        return f"%a{slot}"

    def module(
        self,
        groups: Sequence[str],
        early: bool,
        cluster: int,
        more: Sequence[Parameter] = (),
        told: Callable[[int], str] = lambda slot: "",
    ) -> GpuModule:
        """The module of the launch, with ``more`` parameters after its slots and what is ``told``
        of these; see `GpuModule` for the others."""
        given = [Parameter("ptr", f"a{slot}", told(slot)) for slot in self.slots]
        lines = ["entry:", *self.allocated, *self.lines]
        own = kernel_module([*given, *more], lines, groups, early, cluster)
        found = [*self.stubs.values(), *self.modules, own]
        used = definitions(f for m in found for f in m.functions)
        return own.replaced(functions=()).joined(*used.values(), *found)
