"""Planned programs kept on disk, next to the code they call: found by what the program is.

An entry names native functions by the keys of their objects, constants and equations left to
Python by where they stand in the staged program; it holds no address and nothing of a user's.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.assembly import Assembly, HostCall, Python, Run
from weft.backends.llvm.code import Module
from weft.backends.llvm.native.machine import Address, load_known, setting
from weft.base import disk
from weft.compiler.identity import Identity
from weft.core.interpret import constant_value
from weft.kernel.program import (
    Branch,
    Copy,
    For,
    Point,
    Result,
    Slot,
    Swap,
    While,
    with_regions,
)

_NODES = (Run, Copy, Point, Swap, Branch, While, For, Python)
_NUMBERS = {kind: number for number, kind in enumerate(_NODES)}
# Bytes of constants that planning itself has made, beyond which a program is not kept.
MAX_CONSTANT_BYTES = 1 << 16


class TypeName(str):
    """A type of which only the name is left."""

    __slots__ = ()

    def str_short(self) -> str:
        return str(self)


def find(walked: Identity) -> tuple[Assembly, dict[int, Address]] | None:
    """A planned program and its code, if the disk has all of it."""
    name = walked.key(setting()) if disk.has_entries() else None
    blob = None if name is None else disk.load(name)
    if blob is None:
        return None
    try:
        keys, *fields = marshal.loads(blob)
        program = _decoded(walked, *fields)
    except (ValueError, TypeError, EOFError, IndexError, KeyError):
        return None
    code = load_known(list(keys.values()))
    return None if code is None else (program, dict(zip(keys, code, strict=True)))


def keep(walked: Identity, program: Assembly, code: Mapping[int, Address]) -> None:
    """Write a planned program to disk."""
    keys = {number: function.key for number, function in code.items()}

    def made() -> tuple[bytes, bytes] | None:
        name = walked.key(setting())
        if name is None:
            return None
        try:
            # by the format in which bytes do not depend on who else holds the objects
            return name, marshal.dumps((keys, *_encoded(walked, program)), 2)
        except (_Tied, ValueError):
            return None

    disk.save_later(made)


class _Tied(Exception):
    """A program with something in it that has no place in the staged program."""


# --- to plain values and back ---------------------------------------------------------------------


def _encoded(walked: Identity, program: Assembly) -> Sequence[Any]:
    slots = [(role, size, _plain(what)) for role, size, what in program.slots]
    nodes = _told(program.nodes)
    constants: list[Any] = []
    for number, value in enumerate(program.constants):
        if number in program.given:
            constants.append(walked.const_numbers[id(program.given[number])])
        else:
            constants.append((value.dtype.name, value.shape, value.tobytes()))
    if sum(len(c[2]) for c in constants if isinstance(c, tuple)) > MAX_CONSTANT_BYTES:
        raise _Tied
    hosts = [(_place(walked, eqn), ins, outs) for eqn, ins, outs in program.hosts]
    results = [tuple(result) for result in program.results]
    sizes = (len(program.codes), list(program.offsets), program.arena)
    return slots, nodes, sizes, constants, hosts, results


def _decoded(
    walked: Identity, slots: Any, nodes: Any, sizes: Any, constants: Any, hosts: Any, results: Any
) -> Assembly:
    codes, offsets, arena = sizes
    found: list[Any] = []
    for told in constants:
        if isinstance(told, int):
            const, aval = walked.consts[told]
            found.append(constant_value(const, aval))
        else:
            name, shape, data = told
            found.append(np.frombuffer(data, np.dtype(name)).reshape(shape))
    return Assembly(
        [Slot(role, size, _unplain(what)) for role, size, what in slots],
        offsets,
        arena,
        _untold(nodes),
        [(Module(()), "")] * codes,
        found,
        [HostCall(walked.eqns[place], ins, outs) for place, ins, outs in hosts],
        [Result(*told) for told in results],
    )


def _plain(what: Any) -> Any:
    """What a slot is for; the type of a value as a tuple of its name."""
    return (what.str_short(),) if hasattr(what, "str_short") else what


def _unplain(what: Any) -> Any:
    return TypeName(what[0]) if type(what) is tuple else what


def _told(nodes: Any) -> tuple[Any, ...]:
    return tuple([(_NUMBERS[type(node)], *with_regions(node, _told)) for node in nodes])


def _untold(told: Any) -> tuple[Any, ...]:
    return tuple([with_regions(_NODES[n](*fields), _untold) for n, *fields in told])


def _place(walked: Identity, eqn: Any) -> int:
    """Where an equation that Python computes stands in the staged program."""

    def types(found: Any) -> list[Any]:
        return [x.aval for x in [*found.invars, *found.outvars]]

    for number, found in enumerate(walked.eqns):
        if found.params is eqn.params and found.primitive is eqn.primitive:
            if types(found) == types(eqn):
                return number
    raise _Tied
