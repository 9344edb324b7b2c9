"""The code of small kernels that are one launch, which takes longer than they do.

Kernels that need nothing of each other have ranges of its blocks. Those of a single row, or of few
elements, which give the next one what it needs, are done by every block of that first: all of them
write the same. What they make all of stays in shared memory, of which the first block gives a copy
to others; the next one may be a routine, which reads other memory.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

from weft.backends.cuda.chain import Chain, held
from weft.backends.cuda.groups import MIN_SHARING, Joined, Piece, Stub, code_of
from weft.backends.cuda.ptx import MOST_EARLY_BLOCKS, NAME, WAIT, GpuModule, quickly, shared_memory
from weft.backends.cuda.routines.device import words
from weft.backends.cuda.schedule import Schedule, largest, nest, operations
from weft.backends.cuda.text.chains import Text
from weft.backends.cuda.text.columns import early, prefetch_next, prefetched
from weft.backends.cuda.text.render import DECLARED, kernel_module, writer_of
from weft.backends.cuda.text.threads import inlined
from weft.backends.llvm.code import Call, Function, Module, Parameter, parameters
from weft.base.record import Record
from weft.compiler.passes.rewrite import loads, position
from weft.kernel.kernel import Loop, Store

# Bytes of an array that a block keeps for itself, at most.
MAX_KEPT = 1 << 14
# Loads for an element from which on the blocks of a cluster have a part of a kernel each.
MANY_LOADS = 8


# --- text -----------------------------------------------------------------------------------------


def render(joined: Joined, ahead: int = 0) -> GpuModule:
    """The module of a launch, which may prefetch so many arrays for a later one."""
    modules = [Module((), DECLARED)]
    calls: list[_Called] = []
    kept = _kept(joined)
    parts = _parts(joined)
    shared = _shared(joined)
    for i, (schedule, places, _) in enumerate(joined.pieces):
        if shared.get(i, i) != i:
            pass
        elif isinstance(schedule, Stub):
            modules.append(_as_function(schedule.module, f"piece{i}"))
        elif isinstance(schedule, Chain):
            chained = Text(schedule, f"piece{i}")
            begun, near = chained.early(), chained.near(_as_function)
            chained.whole(_as_function)
            modules += chained.modules
        else:
            if i in parts:
                schedule = schedule._replace(threads=parts[i], vector=1)
            modules += writer_of(schedule).modules(f"piece{i}")
        called = [f"ptr %{'k' if n in kept else 'p'}{n}" for n in places]
        if isinstance(schedule, Chain):
            called.insert(0, "ptr %held")
        calls.append(_Called(f"piece{shared.get(i, i)}", tuple(called)))
    number = "own" if _side_by_side(joined) else "block"
    body: list[str] = [f"%{number} = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()"]
    for n, size in kept.items():
        modules.append(Module((), memory=[shared_memory(f"kept{n}", size)]))
        body.append(f"%k{n} = addrspacecast ptr addrspace(3) @kept{n} to ptr")
    more, lines = _beforehand(joined, parts, kept, calls)
    modules.append(Module(more))
    body += lines
    if parts:
        modules += words(_SHARING).values()
    if isinstance(joined.pieces[-1].schedule, Chain):
        given = [f"ptr %p{n}" for n in joined.pieces[-1].places]
        body.append(Call("call void ", near, ["ptr %held", *given, "i32 %block"]))
    if joined.repeated:
        body.append("call void @llvm.nvvm.barrier0()")
    for n, size in kept.items():
        modules.append(Module([_copying(f"give{n}", size, joined.block_threads)]))
        body.append(Call("call void ", f"give{n}", [f"ptr %p{n}", f"ptr %k{n}", "i32 %block"]))
    ranges = list(enumerate(joined.pieces))[joined.repeated :]
    body += _in_turn(ranges) if _side_by_side(joined) else []
    body += _ranges(ranges, calls, shared)
    first_lines: list[str] = []
    schedule, places, _ = joined.pieces[-1]
    if len(ranges) == 1 and isinstance(schedule, Schedule):
        buffers = dict(zip(schedule.buffers, (f"%p{n}" for n in places), strict=True))
        modules_early, first_lines = early(schedule, buffers)
        modules += modules_early
    if isinstance(schedule, Chain):
        first_lines = _held_early(schedule, places, begun)
    noalias = ["noalias"] if joined.distinct else []
    told = [" ".join([*["readonly"] * read, *noalias, "align 16"]) for read in joined.only_read]
    own_parameters = [Parameter("ptr", f"p{n}", how) for n, how in enumerate(told)]
    first_lines += prefetch_next(joined.blocks, ahead)
    own = kernel_module(
        [*own_parameters, *prefetched(ahead)],
        ["entry:", *first_lines, *WAIT, *body],
        schedule,
        joined.blocks <= MOST_EARLY_BLOCKS,
    )
    whole = own.replaced(functions=()).joined(*modules, own)
    plain = [p.schedule for p in joined.pieces if isinstance(p.schedule, Schedule)]
    # ranges of what is moved have many loads, which take LLVM's passes to be near each other
    if joined.repeated or len(plain) < len(joined.pieces) or any(p.apart for p in plain):
        return whole
    return quickly(whole, sum(map(operations, plain)), max(largest(p.kernel) for p in plain))


class _Called(Record):
    """A function of a launch, and what it is given besides the number of a block."""

    name: str
    given: tuple[str, ...]

    def with_number(self, number: str | int) -> str:
        """A call of it."""
        return Call("call void ", self.name, [*self.given, f"i32 {number}"])


def _ranges(
    ranges: list[tuple[int, Piece]], calls: list[_Called], shared: dict[int, int]
) -> list[str]:
    """Lines by which a block does what it is of; kernels that share code differ in its operands."""
    body: list[str] = []
    first = 0
    for i, piece in ranges:
        last = first + piece.schedule.blocks
        done = [f"br label %code{shared[i]}"] if i in shared else []
        done = done or [calls[i].with_number(f"%number{i}"), "ret void"]
        if i != ranges[-1][0]:
            body += [
                f"%less{i} = icmp slt i32 %block, {last}",
                f"br i1 %less{i}, label %run{i}, label %else{i}",
                f"run{i}:",
            ]
        elif i in shared:
            body += [f"br label %run{i}", f"run{i}:"]
        body += [f"%number{i} = sub i32 %block, {first}", *done]
        if i != ranges[-1][0]:
            body.append(f"else{i}:")
        first = last
    for code in sorted(set(shared.values())):
        members = [i for i in shared if shared[i] == code]
        body.append(f"code{code}:")
        count = len(calls[code].given)
        for k in range(count):
            ways = [f"[ {calls[i].given[k].removeprefix('ptr ')}, %run{i} ]" for i in members]
            body.append(f"%given{code}.{k} = phi ptr {', '.join(ways)}")
        numbers = [f"[ %number{i}, %run{i} ]" for i in members]
        body.append(f"%number.{code} = phi i32 {', '.join(numbers)}")
        call = _Called(calls[code].name, tuple(f"ptr %given{code}.{k}" for k in range(count)))
        body += [call.with_number(f"%number.{code}"), "ret void"]
    return body


def _shared(joined: Joined) -> dict[int, int]:
    """Of the kernels of a launch of many, by number, the first one that has the same code."""
    if len(joined.pieces) < MIN_SHARING or joined.repeated:
        return {}
    firsts: dict[Any, int] = {}
    codes = [code_of(p.schedule) for p in joined.pieces]
    found = {i: firsts.setdefault(code, i) for i, code in enumerate(codes)}
    return {i: first for i, first in found.items() if codes.count(codes[i]) > 1}


def _side_by_side(joined: Joined) -> bool:
    """Whether ranges of as many blocks read the same arrays: blocks that follow each other then
    have the same part of each, which is in the cache for all but the first."""
    pieces = joined.pieces
    if joined.repeated or len(pieces) < 2 or len({p.schedule.blocks for p in pieces}) > 1:
        return False
    if pieces[0].schedule.blocks < 2 or not all(isinstance(p.schedule, Schedule) for p in pieces):
        return False
    read = [_arrays_read(p) for p in pieces]
    return any(a & b for a, b in pairwise([*read, read[0]]))


def _arrays_read(piece: Piece) -> set[int]:
    """The parameters of a launch that a kernel of it reads arrays from."""
    schedule = piece.schedule
    assert isinstance(schedule, Schedule)
    buffers = {v.attr[0] for v in loads(schedule.kernel.body) if v.attr[1].terms}
    return {n for i, n in zip(schedule.buffers, piece.places, strict=True) if i in buffers}


def _in_turn(ranges: list[tuple[int, Piece]]) -> list[str]:
    """Lines by which blocks have ranges in turn: the number of a block as if they came in order."""
    blocks = ranges[0][1].schedule.blocks
    return [
        f"%turn = urem i32 %own, {len(ranges)}",
        f"%part = udiv i32 %own, {len(ranges)}",
        f"%before = mul i32 %turn, {blocks}",
        "%block = add i32 %before, %part",
    ]


def _held_early(chain: Chain, places: tuple[int, ...], begun: str) -> list[str]:
    """Lines that begin a chain before the launch before it has ended."""
    given = ["ptr %held", *[f"ptr %p{n}" for n in places], "i32 %early.block"]
    return [
        "  %early.block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
        f"  %held = alloca [{held(chain)} x i8], align 16",
        Call("  call void ", begun, given),
    ]


# Words by which blocks give each other parts.
_SHARING = ("cluster_write_f32", "cluster_arrive", "cluster_wait")


def _beforehand(
    joined: Joined, parts: dict[int, int], kept: dict[int, int], calls: list[_Called]
) -> tuple[list[Function], list[str]]:
    """Functions, and lines by which blocks do the kernels that all of them do."""
    functions: list[Function] = []
    body: list[str] = []
    written: set[int] = set()
    for i, piece in enumerate(joined.pieces[: joined.repeated]):
        if not written.isdisjoint(piece.places):
            body.append("call void @llvm.nvvm.barrier0()")
        own = [n for n, read in zip(piece.places, piece.reads, strict=True) if not read]
        if i not in parts:
            body += [calls[i].with_number(turn) for turn in range(piece.schedule.blocks)]
            written |= set(own)
            continue
        cluster = joined.pieces[-1].schedule.cluster
        body += _in_part(i, parts[i], cluster, calls[i])
        for n in own:
            functions.append(_sharing(f"share{n}", kept[n] // cluster, cluster))
            body.append(Call("call void ", f"share{n}", [f"ptr %k{n}", f"i32 %rank{i}"]))
        body += [Call("call void ", word, ()) for word in ("cluster_arrive", "cluster_wait")]
    return functions, body


def _parts(joined: Joined) -> dict[int, int]:
    """Kernels before a chain that read much for each element, by their numbers: a block of each
    cluster has so many elements, for all blocks of it."""
    last = joined.pieces[-1].schedule
    found: dict[int, int] = {}
    if isinstance(last, Chain):
        kept = _kept(joined)
        for i, (schedule, places, reads) in enumerate(joined.pieces[: joined.repeated]):
            elements, rest = divmod(schedule.iterations, last.cluster)
            if schedule.shares or rest or elements > last.block_threads:
                continue
            own = [n for n, read in zip(places, reads, strict=True) if not read]
            sizes = [kept.get(n, 0) // last.cluster for n in own]
            # each thread gives at most four bytes
            fits = all(size and size % 4 == 0 and size <= 4 * last.block_threads for size in sizes)
            if fits and len(loads(schedule.kernel.body)) >= MANY_LOADS:
                found[i] = elements
    return found


def _in_part(i: int, elements: int, cluster: int, call: _Called) -> list[str]:
    """Lines by which a block does its part of a kernel."""
    return [
        f"%rank{i} = and i32 %block, {cluster - 1}",
        f"%tid{i} = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
        f"%some{i} = icmp slt i32 %tid{i}, {elements}",
        f"br i1 %some{i}, label %part{i}, label %rest{i}",
        f"part{i}:",
        call.with_number(f"%rank{i}"),
        f"br label %rest{i}",
        f"rest{i}:",
        "call void @llvm.nvvm.barrier0()",
    ]


def _sharing(name: str, size: int, cluster: int) -> Function:
    """A function by which a block gives its part, of so many bytes, to others of the cluster."""
    writes = [
        Call("  call void ", "cluster_write_f32", ["ptr %at", f"i32 {block}", "float %x"])
        for block in range(cluster)
    ]
    before = f"""\
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %some = icmp slt i32 %tid, {size // 4}
  br i1 %some, label %give, label %done
give:
  %before = mul i32 %rank, {size // 4}
  %own = add i32 %before, %tid
  %at = getelementptr float, ptr %all, i32 %own
  %x = load float, ptr %at"""
    lines = [*before.split("\n"), *writes, "  br label %done", "done:", "  ret void"]
    return inlined(name, (*parameters("ptr", "all"), *parameters("i32", "rank")), lines)


def _kept(joined: Joined) -> dict[int, int]:
    """Parameters that blocks have copies of, and their bytes: those that a kernel of all blocks
    makes all of, for others of the launch."""
    found: dict[int, int] = {}
    for i, (schedule, places, _) in enumerate(joined.pieces[: joined.repeated]):
        later = joined.pieces[i + 1 :]
        if any(isinstance(piece.schedule, Stub) for piece in later):
            return {}
        for number, place in zip(schedule.buffers, places, strict=True):
            b = schedule.kernel.buffers[number]
            size = b.size * b.dtype.itemsize
            if any(place in p.places for p in later) and size <= MAX_KEPT:
                if b.role == "out" and _makes_all(schedule, number):
                    found[place] = size
    return found


def _makes_all(schedule: Schedule, number: int) -> bool:
    """Whether a kernel writes all of a buffer, one place at a time."""
    kernel = schedule.kernel
    size, dtype = kernel.buffers[number].size, kernel.buffers[number].dtype
    for s in kernel.body:
        axes, body = nest(s) if isinstance(s, Loop) else ([], [s])
        for store in body:
            if isinstance(store, Store) and store.buffer == number and store.offset is None:
                whole = [(a, n) for a, n in (*kernel.grid_axes, *axes) if n > 1]
                if prod(n for _, n in whole) == size and store.at == position(whole):
                    return dtype.kind != "b"
    return False


def _copying(name: str, size: int, threads: int) -> Function:
    """A function by which the first block copies so many bytes."""
    wide = next(n for n in (4, 2, 1) if size % n == 0)
    lines = f"""\
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %before = mul i32 %block, {size}
  %first = add i32 %before, %tid
  br label %head
head:
  %at = phi i32 [ %first, %entry ], [ %next, %body ]
  %more = icmp slt i32 %at, {size // wide}
  br i1 %more, label %body, label %done
body:
  %source = getelementptr i{8 * wide}, ptr %from, i32 %at
  %target = getelementptr i{8 * wide}, ptr %to, i32 %at
  %x = load i{8 * wide}, ptr %source
  store i{8 * wide} %x, ptr %target
  %next = add i32 %at, {threads}
  br label %head
done:
  ret void"""
    given = (*parameters("ptr", "to", "from"), *parameters("i32", "block"))
    return inlined(name, given, lines.split("\n"))


def _as_function(module: GpuModule, name: str) -> Module:
    """The module of a kernel as a function of its parameters and a number, and what that calls."""
    main = module.function(NAME)
    given = (*main.parameters, *parameters("i32", "number"))
    made = inlined(name, given, main.lines)
    functions = [made if f.name == NAME else f for f in module.functions]
    return Module(functions, module.declared, module.memory)
