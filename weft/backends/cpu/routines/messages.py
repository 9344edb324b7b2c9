"""Messages between processes, as native code: functions of MPI called on the program's memory.

A message is begun without blocking, and asked for until it is done. Whoever asks gives up when the
watch over the processes says so, and comes back now and then, so that Python may see signals.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.library import MESSAGES
from weft.backends.llvm.code import Module
from weft.backends.llvm.tasks import Place, Task
from weft.backends.llvm.text.stub import translate
from weft.base.functional import lru
from weft.base.record import Record
from weft.core import processes
from weft.core.avals import ShapedArray
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import JaxprEqn, Var
from weft.core.processes import MET_ANOTHER
from weft.core.registry import lookup
from weft.kernel.kinds import External, i32, i64, invoke, memcpy, memset, ptr, stack, u8, void

# Bytes of one message that MPI's functions count by an int.
MAX_MESSAGE_BYTES = (1 << 31) - 1
# Words of the watch, as in ``parallel/transport/watch.py``.
STOP, SITE, COUNT = range(3)
# Bytes for a request, for what MPI says of it, and for the mark of a message: its program's, and
# how many bytes it has.
REQUEST, STATUS, MARK = 8, 64, 16
# Times that a message is asked for before others may run, and before Python may see signals.
SPINS_PER_YIELD, SPINS_PER_SIGNAL_POLL = 64, 20000

sched_yield = External(i32, ())


class Message(Record):
    """How a message is begun and asked for, the memory that takes, and the equation that raises."""

    begin: Task
    test: Task
    memory: int
    fault: Any


def begin_collective(buffers: ptr, start: i64, stop: i64) -> void:
    """Begin an operation of a whole communicator, and, on another one, to gather marks."""
    own = ptr[buffers, 2]
    table = ptr[buffers, 10]
    words = ptr[buffers, 7]
    i64[words, COUNT] = i64[words, COUNT] + 1
    kind = i64(ptr[buffers, 5])
    size = i32(i64[table, 0])
    mark = own + (2 * REQUEST + STATUS)
    i64[mark, 0] = i64[table, 1]
    i64[mark, 1] = i64[table, 0]
    marked = invoke(
        i32,
        ptr[buffers, 8],
        mark,
        i32(MARK),
        kind,
        mark + MARK,
        i32(MARK),
        kind,
        i64(ptr[buffers, 9]),
        own,
    )
    code = invoke(
        i32,
        ptr[buffers, 4],
        ptr[buffers, 0],
        size,
        kind,
        ptr[buffers, 1],
        size,
        kind,
        i64(ptr[buffers, 6]),
        own + REQUEST,
    )
    i64[ptr[buffers, 3], 0] = 0
    if marked != 0:
        i64[ptr[buffers, 3], 0] = i64(marked) + 2
    if code != 0:
        i64[ptr[buffers, 3], 0] = i64(code) + 2


def begin_permute(buffers: ptr, start: i64, stop: i64) -> void:
    """Begin to send and receive rows; those of this process itself are copied."""
    given = ptr[buffers, 0]
    result = ptr[buffers, 1]
    own = ptr[buffers, 2]
    table = ptr[buffers, 9]
    words = ptr[buffers, 8]
    i64[words, COUNT] = i64[words, COUNT] + 1
    kind = i64(ptr[buffers, 6])
    world = i64(ptr[buffers, 7])
    size = i64[table, 0]
    moves = i64[table, 1]
    tag = i32(i64[table, 2])
    i64[ptr[buffers, 3], 0] = 0
    requests = 0
    for i in range(moves):
        row = table + (3 + 4 * i) * 8
        what = i64[row, 0]
        other = i32(i64[row, 1])
        code = i32(0)
        if what == 0:
            memcpy(result + i64[row, 3] * size, given + i64[row, 2] * size, size)
        elif what == 1:
            place = result + i64[row, 3] * size
            code = invoke(
                i32, ptr[buffers, 5], place, i32(size), kind, other, tag, world, own + requests * 8
            )
            requests = requests + 1
        elif what == 2:
            place = given + i64[row, 2] * size
            code = invoke(
                i32, ptr[buffers, 4], place, i32(size), kind, other, tag, world, own + requests * 8
            )
            requests = requests + 1
        else:
            memset(result + i64[row, 3] * size, i32(0), size)
        if code != 0:
            i64[ptr[buffers, 3], 0] = i64(code) + 2


def ask(buffers: ptr, start: i64, stop: i64) -> void:
    """Ask for messages; the flag says whether to ask again."""
    own = ptr[buffers, 0]
    status = ptr[buffers, 1]
    flag = ptr[buffers, 2]
    test = ptr[buffers, 3]
    words = ptr[buffers, 4]
    count = i64[ptr[buffers, 6], 0]
    parties = i64[ptr[buffers, 6], 1]  # whose marks come first; 0 where messages are marked
    mark = own + count * REQUEST + STATUS
    u8[flag, 0] = u8(0)
    if i64[status, 0] != 0:
        return
    i64[words, SITE] = i64(ptr[buffers, 5])
    done = stack(8)
    number = 0
    turns = 0
    while number < count:
        if i64[words, STOP] != 0:
            i64[status, 0] = 1
            i64[words, SITE] = 0
            return
        code = invoke(i32, test, own + number * REQUEST, done, own + count * REQUEST)
        if code != 0:
            i64[status, 0] = i64(code) + 2
            i64[words, SITE] = 0
            return
        if i32[done, 0] != 0:
            number = number + 1
            if parties > 0:
                for i in range(parties):
                    other = mark + (i + 1) * MARK
                    if i64[other, 0] != i64[mark, 0]:
                        i64[status, 0] = MET_ANOTHER
                    if i64[other, 1] != i64[mark, 1]:
                        i64[status, 0] = MET_ANOTHER
                parties = 0
                if i64[status, 0] != 0:
                    i64[words, SITE] = 0
                    return
        else:
            turns = turns + 1
            if turns > SPINS_PER_YIELD:
                sched_yield()
            if turns > SPINS_PER_SIGNAL_POLL:
                u8[flag, 0] = u8(1)
                return
    i64[words, SITE] = 0


@lru(8)
def _module(function: Any) -> Module:
    return translate([function])


def _word(name: str) -> Place:
    return Place("library", MESSAGES + name)


def lower(eqn: Any) -> Message | None:
    """A message as native functions; None where Python sends it, as it is too long for one."""
    aval = eqn.invars[0].aval
    size = prod(aval.shape) * storage_dtype(aval.dtype).itemsize
    params, name = eqn.params, eqn.primitive.name
    if not 0 < size <= MAX_MESSAGE_BYTES or not processes.transport.native:
        return None
    scratch = tuple(Place("scratch", i) for i in range(3))
    both = (Place("in", 0), Place("out", 0), *scratch[:2])
    ranks, where = params["ranks"], params["site"]
    gathers, mark = name == "process_all_gather", processes.transport.mark(where)
    if name == "process_permute":
        moves, count = _moves(aval.shape[0], params["moves"])
    else:
        moves, count = _others(ranks, gathers, gathers or params["own"])
    direct = name == "process_permute" or len(ranks) <= processes.DIRECT_PROCESSES
    if direct or not (gathers or params["own"]):
        parties = 0
        own = (_word("MPI_Isend"), _word("MPI_Irecv"), _word("byte"), _word("world"))
        table = (size if gathers else size // aval.shape[0], len(moves) // 4, mark, *moves)
        places = (*both, *own, _word("words"), Place("numbers", table))
        begin = Task(_module(begin_permute), "begin_permute", places)
    else:
        count, parties = 2, len(ranks)
        function, listed = "MPI_Iallgather", ",".join(map(str, ranks))
        own = (_word(function if gathers else "MPI_Ialltoall"), _word("byte"))
        own = (*own, _word(f"comm:{listed}"), _word("words"))
        own = (*own, _word(function), _word(f"marks:{listed}"))
        table = (size if gathers else size // len(ranks), mark)
        places = (*both, *own, Place("numbers", table))
        begin = Task(_module(begin_collective), "begin_collective", places)
    site = _word(f"site:{','.join(map(str, ranks))}:{where}")
    numbers = Place("numbers", (count, parties))
    asked = (*scratch, _word("MPI_Test"), _word("words"), site, numbers)
    code, params = ShapedArray((), np.dtype(np.int64)), {"site": where, "ranks": ranks}
    fault = JaxprEqn([Var(code)], [], lookup("process_fault"), params)
    memory = REQUEST * count + STATUS + MARK * (parties + 1)
    return Message(begin, Task(_module(ask), "ask", asked), memory, fault)


def _others(ranks: tuple[int, ...], gathers: bool, copies: bool) -> tuple[list[int], int]:
    """Rows of a table, as below: one to each other process, and one from each.

    ``gathers`` where all are sent the same, ``copies`` where this process has its own row, too.
    """
    own = ranks.index(processes.index)
    row = 0 if gathers else own
    table = [0, ranks[own], row, own] if copies else []
    for i, rank in enumerate(ranks):
        if i != own:
            table += [1, rank, 0, i]
    for i, rank in enumerate(ranks):
        if i != own:
            table += [2, rank, 0 if gathers else i, own]
    return table, 2 * (len(ranks) - 1)


def _moves(rows: int, moves: Any) -> tuple[list[int], int]:
    """Rows of a table: to copy (0), receive (1), send (2) or clear (3); the other process, and the
    rows here. The number of requests, too."""
    own, table, count = processes.index, [], 0
    left = set(range(rows))
    for sender, row, receiver, target in moves:
        if receiver == own:
            left.discard(target)
        if sender == receiver == own:
            table += [0, own, row, target]
        else:
            table += [1, sender, row, target] if receiver == own else [2, receiver, row, target]
            count += 1
    for row in sorted(left):
        table += [3, own, 0, row]
    return table, count
