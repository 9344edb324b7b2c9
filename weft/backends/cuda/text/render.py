"""Kernels as LLVM modules for a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cuda import driver
from weft.backends.cuda.chain import Chain
from weft.backends.cuda.ptx import MOST_EARLY_BLOCKS, NAME, WAIT, GpuModule, group, quickly
from weft.backends.cuda.schedule import TILE, Schedule, largest, operations, turned
from weft.backends.cuda.text.columns import (
    BlockColumns,
    Clusters,
    Columns,
    early,
    prefetch_next,
    prefetched,
)
from weft.backends.cuda.text.own_loops import Refilled
from weft.backends.cuda.text.threads import Threads
from weft.backends.llvm.code import Function, Parameter
from weft.backends.llvm.text.instructions import MEMORY, memory_type, scalar_type
from weft.backends.llvm.text.loops import combine
from weft.backends.llvm.text.serial import Writer
from weft.base.sizes import Size, is_same, writing
from weft.kernel.kernel import Atomic, affine, ends_by_itself
from weft.kernel.nodes import BOOL, F32, Value, is_float
from weft.kernel.spec import verify

# Threads of a multiprocessor that are enough, so that the assembler keeps many loads in registers
# rather than more blocks.
_RESIDENT = 1024
# Blocks of chains that a multiprocessor is to hold: with one, fewer clusters than a launch has find
# their processors, which have to be of one group.
_CHAINS = 2
DECLARED = {
    "llvm.nvvm.read.ptx.sreg.tid.x": "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
    "llvm.nvvm.read.ptx.sreg.ctaid.x": "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
    "llvm.nvvm.barrier0": "declare void @llvm.nvvm.barrier0()",
    "llvm.nvvm.barrier.sync": "declare void @llvm.nvvm.barrier.sync(i32)",
    "llvm.nvvm.bar.warp.sync": "declare void @llvm.nvvm.bar.warp.sync(i32)",
    "llvm.nvvm.shfl.sync.bfly.i32": (
        "declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)"
    ),
}


class Taken:
    """Named sizes that a kernel takes as its last parameters."""

    def __init__(self) -> None:
        self.sizes: list[Size] = []

    def name(self, size: Size) -> str:
        """What stands for a size in the text."""
        for i, known in enumerate(self.sizes):
            if is_same(known, size):
                return f"%size{i}_"
        self.sizes.append(size)
        return f"%size{len(self.sizes) - 1}_"


def render_sized(schedule: Schedule) -> tuple[GpuModule, tuple[Size, ...]]:
    """The module of a kernel that does for arrays of other sizes too, and the sizes that it
    takes as its last parameters."""
    taken = Taken()
    with writing(taken.name):
        module = render(schedule, 0, taken)
    return module, tuple(taken.sizes)


def render(
    schedule: Schedule, ahead: int = 0, taken: Taken | None = None, compact: bool = False
) -> GpuModule:
    """The module of a kernel; ``ahead`` is how many arrays it may prefetch for a later one.
    ``compact`` asks for few instructions, for first calls."""
    writer = writer_of(schedule, compact)
    writer.write("")
    outside = writer.outside()
    parameters = []
    for i in outside:
        told = ["readonly"] if schedule.kernel.buffers[i].role == "in" else []
        told += ["noalias"] if schedule.distinct else []
        told += ["align 16"] if schedule.vector > 1 or schedule.written else []
        parameters.append(Parameter("ptr", f"b{i}", " ".join(told)))
    begun, first = early(schedule, {i: f"%b{i}" for i in outside})
    parameters += prefetched(ahead)
    if ahead:
        first += prefetch_next(schedule.blocks, ahead)
    if taken is not None:
        parameters += [Parameter("i64", taken.name(size)[1:]) for size in taken.sizes]
    lines = ("entry:", *writer.serial, *first, *WAIT, *writer.lines)
    may_begin = taken is not None or schedule.blocks <= MOST_EARLY_BLOCKS
    own = kernel_module(parameters, lines, groups_of(schedule), may_begin, cluster_of(schedule))
    made = own.replaced(functions=(), declared=DECLARED | writer.declared, memory=writer.shared)
    made = made.joined(*writer.words.values(), *begun, own)
    if compact:
        return made
    if taken is None and not ends_by_itself(schedule.kernel):
        made = quickly(made, operations(schedule), largest(schedule.kernel))
    if taken is None and may_be_compact(schedule):
        made.compact = lambda: render(schedule, ahead, compact=True)
    return made


def may_be_compact(schedule: Any) -> bool:
    """Whether the elements that a thread of a kernel has are written out, and may be a loop."""
    if not isinstance(schedule, Schedule) or schedule.kernel.serial or schedule.rows:
        return False
    if schedule.tile is not None:
        return False
    return schedule.written or max(schedule.vector, schedule.each, schedule.trips) > 1


def kernel_module(
    parameters: Sequence[Parameter],
    lines: Sequence[str],
    groups: Sequence[str],
    early: bool,
    cluster: int,
) -> GpuModule:
    """A kernel alone, with what is told of it."""
    own = Function(NAME, tuple(parameters), tuple(lines), attributes=("#1",))
    own = own._replace(convention="ptx_kernel")
    return GpuModule([own], groups=groups, early=early, cluster=cluster)


def cluster_of(schedule: Any) -> int:
    """The blocks of a cluster that a kernel is launched with."""
    cluster = getattr(schedule, "cluster", 0)
    plain = not isinstance(schedule, Chain)
    return 0 if plain and (schedule.block_threads > 256 or cluster < 2) else cluster


def writer_of(schedule: Schedule, compact: bool = False) -> Threads:
    """What writes the text of a kernel."""
    if not compact:
        verify(schedule.kernel)
    if schedule.kernel.serial:
        return Refilled(schedule) if schedule.each > 1 else SerialText(schedule)
    if schedule.rows:
        found = Clusters if schedule.cluster else BlockColumns if schedule.columns else Columns
        return found(schedule)
    if schedule.tile is not None:
        return _Tiles(schedule)
    made = Threads(schedule)
    made.compact = compact
    return made


def groups_of(schedule: Any) -> list[str]:
    """Attributes of functions, and of a kernel: how many threads a block has, so that registers for
    all of them are there."""
    enough = 0
    if isinstance(schedule, Chain):
        enough = _CHAINS
    elif schedule.block_threads <= 256:
        # fewer threads have all registers there are, and the assembler then takes too many
        return [group(0), group(1)]
    elif getattr(schedule, "columns", True):
        enough = _RESIDENT // schedule.block_threads
    told = [f'"nvvm.maxntid"="{schedule.block_threads}"']
    return [group(0), group(1, *told, *([f'"nvvm.minctasm"="{enough}"'] if enough else []))]


class _Tiles(Threads):
    """A kernel that transposes: squares go through shared memory, so that neighbouring threads read
    and write neighbouring elements."""

    def _run(self, number: str) -> None:
        assert self.schedule.tile is not None
        across, last = self.schedule.tile
        extents = dict(self.kernel.axes)
        counts = [(a, -(-n // TILE) if a in (across, last) else n) for a, n in self.kernel.axes]
        self._count(number, counts)
        firsts = {a: self.emit(f"mul i64 {self.axes[a]}, {TILE}") for a in (across, last)}
        fast = self.emit(f"and i64 {self.tid}, {TILE - 1}")
        slow = self.emit(f"lshr i64 {self.tid}, {TILE.bit_length() - 1}")
        rows = self.schedule.threads // TILE
        loads = turned(self.kernel, last)
        self.tiles: dict[int, str] = {}
        for v in loads:
            kind = memory_type(v.dtype)
            self.tiles[v.number] = self.share(f"tile{v.number}", TILE * (TILE + 1), kind)
        self.reading = False
        for row in range(0, TILE, rows):
            other = self.emit(f"add i64 {slow}, {row}") if row else slow
            self._guarded(firsts, {across: fast, last: other}, extents, lambda: self._keep(loads))
        self._barrier()
        self.reading = True
        for row in range(0, TILE, rows):
            other = self.emit(f"add i64 {slow}, {row}") if row else slow
            spots = {across: other, last: fast}
            self._guarded(firsts, spots, extents, lambda: self._body(self.kernel.body))

    def _guarded(self, firsts: Any, spots: dict[str, str], extents: Any, run: Any) -> None:
        """Do something at a spot of the square, if that is inside of the arrays."""
        inside = "true"
        self.spots = spots
        for axis, spot in spots.items():
            self.axes[axis] = self.emit(f"add i64 {firsts[axis]}, {spot}")
            one = self.emit(f"icmp slt i64 {self.axes[axis]}, {extents[axis]}")
            inside = one if inside == "true" else self.emit(f"and i1 {inside}, {one}")
        with self.when(inside):
            self.known = {}
            run()
            self.known = {}

    def _spot(self, v: Value) -> str:
        """Where an element of a load is in its square, a row for each place along the last axis."""
        assert self.schedule.tile is not None
        across, last = self.schedule.tile
        row = self.emit(f"mul i64 {self.spots[last]}, {TILE + 1}")
        at = self.emit(f"add i64 {row}, {self.spots[across]}")
        kind = memory_type(v.dtype)
        return self.emit(f"getelementptr {kind}, ptr addrspace(3) {self.tiles[v.number]}, i64 {at}")

    def _keep(self, loads: list[Value]) -> None:
        for v in loads:
            kind = memory_type(v.dtype)
            base = self.address(v.attr[0], self.offset(v.attr[1]))
            one = self.emit(f"load {kind}, ptr {base}, align {v.dtype.itemsize}")
            self.line(f"store {kind} {one}, ptr addrspace(3) {self._spot(v)}")

    def load(self, value: Value, args: list[str]) -> str:
        if not self.reading or value.number not in self.tiles:
            return super().load(value, args)
        kind = memory_type(value.dtype)
        name = self.emit(f"load {kind}, ptr addrspace(3) {self._spot(value)}")
        if value.dtype not in MEMORY:
            return name
        if value.dtype == BOOL:
            return self.emit(f"icmp ne {kind} {name}, 0")
        return self.emit(f"bitcast {kind} {name} to {scalar_type(value.dtype)}")


# --- serial kernels -------------------------------------------------------------------------------

# What one instruction does: of integers with and without sign, and of floats.
_ATOMIC = {"add": ("add", "add"), "min": ("min", "umin"), "max": ("max", "umax")}


def _is_vector(run: list[Any], buffers: Sequence[Any]) -> bool:
    """Whether statements add four neighbouring floats, at places that are multiples of four: as
    those are that a kernel adds four at a time (`Target.scatters`)."""
    if len(run) != 4 or not all(isinstance(s, Atomic) and s.op == "add" for s in run):
        return False
    first = run[0]
    if buffers[first.buffer].dtype != F32 or any(
        s.at != first.at.plus(affine(i, {})) or s[4:] != first[4:] for i, s in enumerate(run)
    ):
        return False
    return first.at.const % 4 == 0 and all(factor % 4 == 0 for _, factor in first.at.terms)


class SerialText(Threads):
    """The text of a kernel whose threads each run one iteration of the grid."""

    def _run(self, number: str) -> None:
        self._open_grid(number)
        _Atomics(self).block(self.kernel.body)
        self.line("br label %done")
        self.label("done")


# Four neighbouring numbers added at once, at a multiple of 16 bytes.
_ADD_4 = (
    'call void asm sideeffect "red.global.add.v4.f32 [$0], {$1, $2, $3, $4};", '
    '"l,f,f,f,f,~{memory}"'
)


class _Atomics(Writer):
    """Statements of a thread that others run beside."""

    def run(self, run: list[Any]) -> None:
        if not driver.reduces_vectors() or not _is_vector(run, self.f.kernel.buffers):
            super().run(run)
            return
        f, first = self.f, run[0]
        values = [f.value(s.value) for s in run]
        mask = first.mask is None or f.value(first.mask)
        base = f.address(first.buffer, f.offset(first.at))
        if first.offset is not None:
            base = f.emit(f"getelementptr float, ptr {base}, i64 {f.value(first.offset)}")
        with f.when(mask):
            whole = f.emit(f"addrspacecast ptr {base} to ptr addrspace(1)")
            given = ", ".join(f"float {v}" for v in values)
            f.line(f"{_ADD_4}(ptr addrspace(1) {whole}, {given})")
        self.forget()

    def combined(self, op: str, dtype: np.dtype, base: str, value: str) -> None:
        f, kind = self.f, memory_type(dtype)
        if is_float(dtype) and op == "add":
            f.emit(f"atomicrmw fadd ptr {base}, {kind} {value} monotonic")
        elif not is_float(dtype) and op in _ATOMIC:
            word = _ATOMIC[op][dtype.kind == "u"]
            f.emit(f"atomicrmw {word} ptr {base}, {kind} {value} monotonic")
        else:
            self._until_unchanged(op, dtype, base, value)

    def _until_unchanged(self, op: str, dtype: np.dtype, base: str, value: str) -> None:
        """Combine and write, again where another thread has written in between."""
        f, kind, bits = self.f, scalar_type(dtype), f"i{8 * dtype.itemsize}"
        tag = f.fresh("x")[1:]
        first = f.emit(f"load {bits}, ptr {base}, align {dtype.itemsize}")
        before = f.block
        f.line(f"br label %{tag}again")
        f.label(f"{tag}again")
        f.line(f"%{tag}old = phi {bits} [ {first}, %{before} ], [ %{tag}now, %{tag}again ]")
        old = f.emit(f"bitcast {bits} %{tag}old to {kind}")
        made = f.emit(f"bitcast {kind} {combine(f, op, dtype, old, value)} to {bits}")
        pair = f.emit(f"cmpxchg ptr {base}, {bits} %{tag}old, {bits} {made} monotonic monotonic")
        f.line(f"%{tag}now = extractvalue {{ {bits}, i1 }} {pair}, 0")
        done = f.emit(f"extractvalue {{ {bits}, i1 }} {pair}, 1")
        f.line(f"br i1 {done}, label %{tag}end, label %{tag}again")
        f.label(f"{tag}end")
