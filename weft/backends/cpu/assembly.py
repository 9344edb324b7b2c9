"""What a Program becomes on the CPU: native functions run over slots of planned memory.

Native functions are called as ``void f(ptr buffers, i64 start, i64 stop)`` over a range that
threads share in chunks of a fixed size; ``buffers`` is an array of pointers, one for each slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from weft.backends.llvm.code import Module
from weft.base.record import Record
from weft.kernel.program import Result, Slot, all_nodes


class Piece(Record):
    """A native function: its module and name, its range, and its buffers.

    Buffers are numbers of the kernel's (those of a row, on its stack, left out), and after these
    of its scratch memory.
    """

    module: Module
    name: str
    extent: int
    chunk: int
    buffers: tuple[int, ...]
    sizes: tuple[int, ...] = ()  # a table that it reads, its last buffer


class Run(Record):
    """A native function run over a range."""

    code: int
    slots: tuple[int, ...]
    extent: int
    chunk: int


class Python(Record):
    """A call of Python, by the number of the equation it computes."""

    number: int


class HostCall(Record):
    """An equation that Python computes: its operands and results, each a slot."""

    eqn: Any
    ins: tuple[int, ...]
    outs: tuple[int, ...]


class Assembly(Record):
    """A compiled function before its code is loaded.

    Slots have two more roles: ``library`` (``what`` is the name of a function) and ``code``
    (``what`` is the number of a native function of the program). ``given`` has the constants that
    are the traced function's own, by number.
    """

    slots: list[Slot]
    offsets: list[int]  # of planned memory, by slot
    arena: int
    nodes: tuple[Any, ...]
    codes: list[tuple[Module, str]]  # module and name of every native function
    constants: list[Any]
    hosts: list[HostCall]
    results: list[Result]
    given: Mapping[int, Any] = MappingProxyType({})
    lives: Mapping[int, Any] = MappingProxyType({})  # of temporaries, by slot


def launched(nodes: Any) -> set[int]:
    """The native functions that nodes call; those of a loop that became one are called no more."""
    return {node.code for node in all_nodes(nodes) if isinstance(node, Run)}


def called(slots: Any) -> set[int]:
    """The native functions that others are given to call."""
    return {slot.what for slot in slots if slot.role == "code"}
