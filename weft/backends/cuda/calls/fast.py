"""Calls of programs on a GPU that native code answers, from matching arguments to launching.

A program of few kernels is launched kernel by kernel; others as the graph that was captured for the
addresses of a call, which Python makes where there is none. The native code is that of the
processor's calls (``backends/llvm/calls``), and what a GPU needs beyond it (``stubs.py``).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from weft.backends.cuda import driver
from weft.backends.cuda.calls import stubs
from weft.backends.cuda.commands import Launched, Pointed
from weft.backends.cuda.memory import Buffer, pool_of
from weft.backends.cuda.program import MOST_GRAPHS
from weft.backends.llvm.calls import tables
from weft.backends.llvm.calls.dispatch import (
    TP_DEALLOC,
    Native,
    address,
    native,
    slot_numbers,
    words_of,
)
from weft.backends.llvm.calls.walker import run_words
from weft.backends.llvm.native.machine import load_stubs
from weft.runtime.array import ArrayImpl
from weft.runtime.patterns import Pattern
from weft.runtime.places import array_type

# Kernels that are launched one by one; more of them are sooner launched as a graph.
MOST_LAUNCHES = 3
_SOURCES = (
    "weft.kernel.kinds",
    "weft.backends.llvm.text.stub_expressions",
    "weft.backends.llvm.text.stub",
    "weft.backends.llvm.native.capi",
    "weft.backends.llvm.native.asking",
    "weft.backends.llvm.calls.tables",
    "weft.backends.cuda.calls.stubs",
)
_TP_MEMBERS = 72
_UNSIGNED, _SIGNED, _ALWAYS_NONE = 18, 19, 20  # kinds of members, as structmember.h numbers them


class Pieces:
    """Lists of blocks of device memory, as native code has them; its code stays loaded."""

    def __init__(self, walks: Native) -> None:
        code = load_stubs(_SOURCES, {}, light=True)
        walks.kept.append(code)
        symbols, word = code.symbols, ctypes.c_void_p
        self.put = ctypes.PYFUNCTYPE(None, word, word)(symbols["put_piece"])
        self.take = ctypes.PYFUNCTYPE(word, word)(symbols["take_piece"])
        self.functions = [
            symbols[name] for name in ("run_there", "get_piece", "give_piece", "device_block")
        ]
        # owners of device memory, whose address and size Python can see
        named = [(b"address", _UNSIGNED, 16), (b"size", _SIGNED, 24)]
        named += [(name, _ALWAYS_NONE, 0) for name in (b"foreign", b"host", b"pool")]
        words = [x for name, kind, at in named for x in (walks.text(name), kind, at, 1, 0)]
        members = walks.kept_words([*words, *[0] * 5])
        rows = [(TP_DEALLOC, symbols["device_dealloc"]), (_TP_MEMBERS, members)]
        walks.kept.append(walks.new_type(b"weft.runtime.DeviceBlock", rows))
        walks.shared[tables.DEVICE_TYPE] = id(walks.kept[-1])
        # arrays that Python made own buffers: where these have what native code reads
        slots = slot_numbers(Buffer, ["address", "foreign"])
        walks.shared[tables.BUFFER_TYPE] = id(Buffer)
        walks.shared[tables.BUFFER_ADDRESS] = slots["address"]
        walks.shared[tables.BUFFER_FOREIGN] = slots["foreign"]


@functools.cache
def _pieces() -> Pieces:
    walks = native()
    assert walks is not None
    return Pieces(walks)


@driver.per_device(1)
def _ring() -> np.ndarray:
    """Pinned memory for numbers: which piece is next, and where it begins."""
    start = driver.allocate_host(stubs.RING_PIECES * stubs.RING_BYTES)
    return words_of([0, start])


class DeviceCall:
    """An executable with tables for native code; results are at placements."""

    stops = False

    def __init__(self, client: Any, executable: Any, avals: Any, places: Any) -> None:
        walks = native()
        assert walks is not None
        self.client, self.executable, self.out_avals = client, executable, executable.out_avals
        self.taken = executable.taken
        self.count = len(avals)
        pieces, pool = _pieces(), pool_of(client.number)
        outs = executable.outs
        # where addresses are: of arguments, results and the arena, as in the keys of graphs; then 0
        self.words = self.count + len(outs) + 1
        launches = self._launches()
        mode = 0
        if executable.commands:
            mode = stubs.BY_GRAPH if launches is None else stubs.BY_LAUNCHES
        self.takes_numbers = mode != stubs.BY_GRAPH
        self.launches = words_of(launches or [])
        self.graphs = np.zeros(MOST_GRAPHS * (self.words + 1), np.uint64)
        arena = pool.list_of(executable.arena, pieces) if executable.arena else 0
        launch, launch_graph = driver.addresses()
        self.kept: list[Any] = [self.missed, self.refill, self.exhausted, _ring()]
        values = {
            stubs.MODE: mode,
            stubs.STREAM: driver.device().stream.value or 0,
            stubs.LAUNCH: launch,
            stubs.LAUNCH_GRAPH: launch_graph,
            stubs.LAUNCHES: address(self.launches),
            stubs.LAUNCHES_END: address(self.launches) + 8 * len(launches or []),
            stubs.GRAPHS: address(self.graphs),
            stubs.KEY_WORDS: self.words,
            stubs.MISSED: id(self.kept[0]),
            stubs.REFILL: id(self.kept[1]),
            stubs.ARENA_LIST: arena,
            stubs.RING: address(self.kept[3]),
        }
        rest = range(tables.DEVICE_WORDS, stubs.TABLE_WORDS)
        self.device = words_of([*pieces.functions, *[values.get(word, 0) for word in rest]])
        given = zip(executable.out_avals, places, strict=True)
        self.types = [array_type(aval, where) for aval, where in given]
        numbers = {slot: self.count + k for k, (slot, _) in enumerate(outs)}
        sizes = dict(outs)
        rows = []
        for i, (kind, number) in enumerate(executable.program.results):
            row = [0, number, 0, id(self.types[i]), 0]
            if kind == "slot":
                row[tables.KIND], row[tables.NUMBER] = tables.FRESH, numbers[number]
                row[tables.BYTES] = sizes[number]
                row[tables.OWNER] = pool.list_of(sizes[number], pieces)
            elif kind == "const":
                owner = executable._constant(number)
                self.kept.append(owner)
                row[tables.KIND], row[tables.OWNER] = tables.CONSTANT, id(owner)
            else:
                row[tables.KIND] = tables.REPEATED if kind == "same" else tables.PASSED
            rows += row
        self.results = words_of(rows)
        self.passed = [n for kind, n in executable.program.results if kind in ("arg", "taken")]
        self.template = words_of([0] * (self.words + 1))
        widest = max([len(c.spots) + len(c.numbers) for c in self._kernels()], default=0)
        table = {
            tables.SHARED: address(walks.shared),
            tables.SLOTS: self.words + 1,
            tables.TEMPLATE: address(self.template),
            tables.RUN_WORDS: run_words(len(executable.out_avals), self.words + 1, 2 * widest),
            tables.RESULTS: address(self.results),
            tables.RESULT_COUNT: len(executable.out_avals),
            tables.HOSTS: id(self.kept[2]),
            tables.ARGUMENTS: self.count,
            tables.DEVICE: address(self.device),
        }
        self.table = words_of([table.get(word, 0) for word in range(tables.PROGRAM_WORDS)])

    def _kernels(self) -> list[Any]:
        return [c for c in self.executable.commands if type(c) is Launched]

    def _launches(self) -> list[int] | None:
        """The kernels of a program as words; None where it does more than launch a few."""
        executable, last = self.executable, self.words - 1
        where = {slot: (what, 0) for slot, what in executable.args}
        where.update({slot: (self.count + k, 0) for k, (slot, _) in enumerate(executable.outs)})
        for slot, role in enumerate(executable.roles):
            if role == "const":
                where[slot] = (last + 1, executable.fixed[slot])
            elif role == "temp":
                where[slot] = (last, executable.offsets[slot])
        words: list[int] = []
        for command in executable.commands:
            if type(command) is Pointed and command.base in where:
                where[command.view] = where[command.base]
            elif type(command) is not Launched or not driver.is_plain(command.function):
                return None
            elif command.blocks:
                spots = [(where[s.slot], s.offset) for s in command.spots]
                row = [command.function.handle, command.blocks, command.threads]
                row += [command.function.dynamic, len(spots), len(command.numbers)]
                row += [x for (at, offset), more in spots for x in (at, offset + more)]
                row += command.numbers
                words += [len(row) + 1, *row]
        return words if len(self._kernels()) <= MOST_LAUNCHES else None

    def missed(self, where: int) -> None:
        """Run the program at addresses for which native code has no graph."""
        key = list((ctypes.c_uint64 * self.words).from_address(where))
        self.client.use()
        self.executable.run_at(key)
        self.know_graphs()

    def know_graphs(self) -> None:
        """Have native code launch the graphs that there are now."""
        if self.executable.beginnings:
            return  # Python tells others of every run
        row = self.words + 1
        known = [(key, g) for key, g in self.executable.graphs.items() if g is not None]
        self.device[stubs.GRAPH_COUNT] = 0
        for i, (found, graph) in enumerate(known[-MOST_GRAPHS:]):
            self.graphs[i * row : (i + 1) * row] = [graph.handle, *found]
        self.device[stubs.GRAPH_COUNT] = len(known[-MOST_GRAPHS:])

    def know_kernels(self) -> None:
        """Have native code launch the kernels that there are now."""
        at = 0
        for command in self._kernels() if self.takes_numbers else ():
            if command.blocks:
                self.launches[at + 1] = command.function.handle
                at += int(self.launches[at])

    def refill(self, where: int) -> None:
        """Put a block into a list that is empty."""
        self.client.use()
        pool_of(self.client.number).refill(where)

    def exhausted(self, *_: int) -> None:
        """Raise for lack of memory."""
        raise self.executable._exhausted()


def call(client: Any, pattern: Pattern, places: Any) -> DeviceCall | None:
    """What native code calls for arguments like these; None where it can't."""
    operands = pattern.operands
    arrays = [type(x) is ArrayImpl for x in operands]
    for x, is_array in zip(operands, arrays, strict=True):
        if is_array and x._type.placement.client is not client:
            return None
    client.use()
    closed = pattern.closed
    executable = client.executable(closed, pattern.donated)
    if executable is None or (executable.commands and not executable.capturable):
        return None
    found = executable.native.get(places)
    if found is None:
        found = executable.native[places] = DeviceCall(client, executable, closed.in_avals, places)
        found.know_kernels()  # which may have become better meanwhile
    if not all(arrays) and not found.takes_numbers:
        return None
    if any(not arrays[number] for number in found.passed):
        return None
    return found
