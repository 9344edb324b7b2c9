"""Calls of a plugin's programs that native code answers, from matching arguments to executing.

The native code is that of the processor's calls (``backends/llvm/calls``), and what a plugin needs
beyond it (``stubs.py``).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

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
from weft.backends.pjrt import header, stubs
from weft.backends.pjrt.api import Api
from weft.backends.pjrt.buffers import Buffer, Fields
from weft.runtime.parts import Parts
from weft.runtime.patterns import Pattern
from weft.runtime.places import array_type

_SOURCES = (
    "weft.kernel.kinds",
    "weft.backends.llvm.text.stub_expressions",
    "weft.backends.llvm.text.stub",
    "weft.backends.llvm.native.capi",
    "weft.backends.llvm.native.asking",
    "weft.backends.llvm.calls.tables",
    "weft.backends.pjrt.stubs",
)
# Functions that run programs, and make and drop results: on one device, and on several.
_ONE = ("run_plugin", "no_piece", "give_buffer", "plugin_block")
_SEVERAL = ("run_parts", "no_piece", "give_parts", "parts_owner")
_TP_MEMBERS = 72
_OBJECT, _UNSIGNED = 6, 18  # kinds of members, as structmember.h numbers them
_READ_ONLY = 1


class Code:
    """The native code of plugins' programs, and the type of owners that it makes."""

    def __init__(self, walks: Native) -> None:
        items = {"SLOT_ITEMS": tuple.__basicsize__ // ctypes.sizeof(ctypes.c_void_p)}
        code = load_stubs(_SOURCES, items, light=True)
        walks.kept.append(code)
        symbols = code.symbols
        self.blocks = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object)(
            symbols["plugin_blocks"]
        )
        self.functions = [symbols[name] for name in _ONE]
        self.functions_of_several = [symbols[name] for name in _SEVERAL]
        named = [
            (b"handle", _UNSIGNED, stubs.BUFFER, _READ_ONLY),
            (b"host", _OBJECT, stubs.HOST, 0),
            (b"api", _OBJECT, stubs.BLOCK_API, _READ_ONLY),
        ]
        words = [
            x for name, kind, at, flags in named for x in (walks.text(name), kind, 8 * at, flags, 0)
        ]
        members = walks.kept_words([*words, *[0] * 5])
        rows = [(TP_DEALLOC, symbols["plugin_dealloc"]), (_TP_MEMBERS, members)]
        self.kind: Any = walks.new_type(b"weft.runtime.PluginBlock", rows, stubs.BLOCK_WORDS)
        for name in ("wait", "is_ready", "address", "size", "layout"):
            setattr(self.kind, name, vars(Buffer)[name])
        walks.kept.append(self.kind)
        walks.shared[tables.PLUGIN_TYPE] = id(self.kind)
        walks.shared[tables.PLUGIN_BUFFER] = id(Buffer)
        walks.shared[tables.PARTS_TYPE] = id(Parts)
        walks.shared[tables.PARTS_BUFFERS] = slot_numbers(Parts, ["buffers"])["buffers"]
        walks.shared[tables.PLUGIN_HANDLE] = slot_numbers(Fields, ["handle"])["handle"]


@functools.cache
def _code() -> Code:
    walks = native()
    assert walks is not None
    return Code(walks)


class Shelf:
    """The table of a device for native code, and the owners of buffers that it has made there."""

    def __init__(self, api: Api, client: int, device: int) -> None:
        values = {
            stubs.DESTROY: api.address("Buffer_Destroy"),
            stubs.DESTROY_EVENT: api.address("Event_Destroy"),
            stubs.DESTROY_ERROR: api.address("Error_Destroy"),
            stubs.PUT: api.address("Client_BufferFromHostBuffer"),
            stubs.CLIENT: client,
            stubs.DEVICE: device,
            stubs.API: id(api),
            stubs.ENDED: address(Api.end),
        }
        self.words = words_of([values.get(word, 0) for word in range(stubs.SHELF_WORDS)])
        # owners hold the functions of their plugin, and these the table that owners point to
        api.kept.append(self.words)

    def blocks(self) -> list[Any]:
        """The owners that there are."""
        found = _code().blocks(address(self.words), None)
        return [block for block in found if block is not None]


class PluginCall:
    """An executable with tables for native code; results are at placements."""

    stops = False

    def __init__(
        self, clients: Any, executable: Any, closed: Any, places: Any, is_one: bool
    ) -> None:
        """``clients`` are the devices; results are parts on each of them unless ``is_one``."""
        walks, code = native(), _code()
        assert walks is not None
        self.clients, self.executable = clients, executable
        self.out_avals, self.taken = closed.out_avals, executable.taken
        first, devices = clients[0], len(clients)
        count, outputs = len(closed.in_avals), len(closed.out_avals)
        self.types = [array_type(a, where) for a, where in zip(closed.out_avals, places)]
        names = [getattr(getattr(a, "dtype", None), "name", "") for a in closed.in_avals]
        self.elements = words_of([header.TYPES.get(name, 0) for name in names])
        self.raised = first.raised
        self.shelves = words_of([address(client.shelf().words) for client in clients])
        group = {
            stubs.GROUP_DEVICES: devices,
            stubs.GROUP_STEP: outputs,
            stubs.GROUP_SHELVES: address(self.shelves),
            stubs.GROUP_TYPE: id(Parts),
        }
        self.group = words_of([group[word] for word in range(stubs.GROUP_WORDS)])
        owner = address(first.shelf().words) if is_one else address(self.group)
        values = {
            stubs.HANDLE: executable.handle,
            stubs.OPTIONS: executable.options_address,
            stubs.EXECUTE: first.api.address("LoadedExecutable_Execute"),
            stubs.RAISE: id(self.raised),
            stubs.SHELF: owner,
            stubs.OUTPUTS: outputs,
            stubs.ELEMENTS: address(self.elements),
        }
        rest = range(tables.DEVICE_WORDS, stubs.TABLE_WORDS)
        functions = code.functions if is_one else code.functions_of_several
        self.device = words_of([*functions, *[values[word] for word in rest]])
        rows: list[int] = []
        for i, kind in enumerate(self.types):
            row = {tables.KIND: tables.FRESH, tables.NUMBER: count + i, tables.OWNER: owner}
            row[tables.TYPE] = id(kind)
            rows += [row.get(word, 0) for word in range(tables.RESULT_WORDS)]
        self.results = words_of(rows)
        slots = count + outputs
        if not is_one:  # handles on each device, and lists of them
            slots += devices * (count + outputs + 2)
        self.template = words_of([0] * slots)
        table = {
            tables.SHARED: address(walks.shared),
            tables.SLOTS: slots,
            tables.TEMPLATE: address(self.template),
            tables.RUN_WORDS: run_words(outputs, slots, 0),
            tables.RESULTS: address(self.results),
            tables.RESULT_COUNT: outputs,
            tables.HOSTS: id(self.raised),
            tables.ARGUMENTS: count,
            tables.DEVICE: address(self.device),
        }
        self.table = words_of([table.get(word, 0) for word in range(tables.PROGRAM_WORDS)])


def call(client: Any, pattern: Pattern, places: Any) -> PluginCall | None:
    """What native code calls for arguments like these; None where it can't."""
    closed = pattern.closed
    found = client.native_program(closed, pattern.donated, places, pattern.operands)
    if found is None:
        return None
    clients, executable = found
    known = executable.native.get(places)
    if known is None:
        is_one = clients[0] is client
        known = PluginCall(clients, executable, closed, places, is_one)
        executable.native[places] = known
    return known
