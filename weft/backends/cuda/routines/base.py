"""What an operation becomes on a GPU: launches, fills, copies and calls of libraries, in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.backends.cuda.ptx import NAME, GpuModule, group, room
from weft.backends.cuda.routines.device import definitions
from weft.backends.llvm.code import Function, Memory, Module
from weft.backends.llvm.text.scalar_math import translate_with_math
from weft.backends.llvm.text.stub import called_stubs
from weft.base import knobs
from weft.base.functional import lru
from weft.base.record import Record
from weft.kernel.kinds import Kind, f32, f64, kind_of, u8, u16, u32, u64
from weft.kernel.nodes import BF16, F16


class Place(Record):
    """Memory of an operation: ``in`` and ``out`` by number, ``scratch`` by number, a constant array
    (``const``), or one that is kept from call to call and written (``state``)."""

    kind: str
    what: Any
    offset: int = 0


def given(number: int) -> Place:
    return Place("in", number)


def made(number: int) -> Place:
    return Place("out", number)


def scratch(number: int, offset: int = 0) -> Place:
    return Place("scratch", number, offset)


class Run(Record):
    """A launch: a module, its blocks and threads, and what its parameters are: memory, then
    numbers of 64 bits. ``dynamic`` is the bytes of shared memory beyond what that declares."""

    module: GpuModule
    blocks: int
    threads: int
    places: tuple[Place, ...]
    numbers: tuple[int, ...] = ()
    dynamic: int = 0


class Fill(Record):
    """Bytes set to a value."""

    place: Place
    value: int
    size: int


class Move(Record):
    """Bytes copied."""

    target: Place
    source: Place
    size: int


class Library(Record):
    """A call of a library: ``function(stream, *addresses)``; some can't be part of a graph."""

    function: Callable[..., None]
    places: tuple[Place, ...]
    name: str = ""
    captured: bool = True


class Routine(Record):
    """The steps of an operation, and the bytes of each piece of scratch memory."""

    steps: list[Any]
    scratch: tuple[int, ...] = ()


# Lowerings by primitive: (operand types, result types, parameters) -> Routine, or None where there
# is none for these.
ROUTINES: dict[str, Callable[..., Routine | None]] = {}


def module(
    main: Any,
    names: dict[str, Any],
    shared: dict[str, int] | None = None,
    resident: tuple[int, int] | None = None,
    numbers: dict[str, tuple[int, ...]] | None = None,
) -> GpuModule:
    """The module of a stub: ``main`` becomes the kernel, with all that it calls.

    ``numbers`` has, for parameters that aren't the kernel's, the 64-bit integers they point to.

    ``resident`` is how many threads a block has, and how many blocks a multiprocessor is to hold.

    ``shared`` has the bytes of memory that the threads of a block share, by the name of the
    function that gives its address; 0 where a launch says how many.
    """
    inline = tuple(called_stubs([main]))
    made = translate_with_math(main, names, inline=inline)
    return entry(made, main.__name__, shared, resident, numbers)


def entry(
    made: Module,
    name: str,
    shared: dict[str, int] | None = None,
    resident: tuple[int, int] | None = None,
    numbers: dict[str, tuple[int, ...]] | None = None,
) -> GpuModule:
    """A module of stubs as one with a kernel."""
    rooms = [room(word, size) for word, size in (shared or {}).items()]
    main, first = made.function(name), list[str]()
    given = [p._replace(attributes="align 16" * (p.kind == "ptr")) for p in main.parameters]
    for word, values in (numbers or {}).items():
        given = [p for p in given if p.name != f"a.{word}"]
        first.append(f"  %a.{word} = getelementptr i64, ptr @numbers_{word}, i64 0")
        array = ", ".join(f"i64 {n}" for n in values)
        kind = f"internal constant [{len(values)} x i64] [{array}], align 8"
        rooms.append(Module((), memory=[Memory(f"numbers_{word}", kind)]))
    main = main._replace(
        name=NAME,
        parameters=tuple(given),
        attributes=("#0" if resident is None else "#1",),
        convention="ptx_kernel",
    ).beginning(first)
    functions = [main if f.name == name else _flushing(f) for f in made.functions]
    # Denormal numbers of float32 are flushed, as in kernels that the compiler made. Functions with
    # barriers are convergent until they are inlined.
    groups = [group(0, "nounwind")]
    if resident is not None:
        told = f'"nvvm.maxntid"="{resident[0]}" "nvvm.minctasm"="{resident[1]}"'
        groups.append(group(1, "nounwind", told))
    words = definitions(made.functions)
    whole = GpuModule((), made.declared, groups=groups, effort=made.effort)
    return whole.joined(*rooms, *words.values(), made.replaced(functions=functions))


def _flushing(f: Function) -> Function:
    """A function that a kernel calls, with the attributes of the kernel."""
    if f.attributes == ("nounwind", "noinline"):
        return f._replace(attributes=("#0",))
    if f.attributes == ("nounwind", "alwaysinline"):
        return f._replace(attributes=("#0", "alwaysinline"))
    return f


@lru(512)
def module_of(main: Any, **names: Any) -> GpuModule:
    """The module of a stub that needs no shared memory."""
    return module(main, names)


def launch(main: Any, total: int, places: Sequence[Place], **names: Any) -> Run:
    """A stub run by a thread for each of a number of elements."""
    return Run(module_of(main, **names), ceil_div(total, 256), 256, tuple(places))


def deterministic() -> bool:
    """Whether results must have the same bits in every run: a knob says so, or JAX's flag."""
    flags = os.environ.get("XLA_FLAGS", "")
    name = "--xla_gpu_deterministic_ops"
    asked = {name, f"{name}=true", f"{name}=1"}.intersection(flags.split())
    return bool(knobs.thread.deterministic_ops) or bool(asked)


def ceil_div(x: int, y: int) -> int:
    return -(-x // y)


# --- elements -------------------------------------------------------------------------------------


_BITS = {1: u8, 2: u16, 4: u32, 8: u64}


def bits_kind(dtype: np.dtype) -> Kind:
    """The unsigned kind as wide as an element."""
    return _BITS[dtype.itemsize]


def computed_kind(dtype: np.dtype) -> Kind | None:
    """The kind that elements are computed in; None for those that kernels don't compute with."""
    if dtype in (BF16, F16):
        return f32
    if dtype.kind == "b":
        return u8
    return kind_of(dtype) if dtype.kind in "iuf" and dtype.itemsize <= 8 else None


def accessors(dtype: np.dtype) -> dict[str, Any]:
    """The names under which stubs read and write elements: ``C``, ``get`` and ``put`` by word."""
    kind = computed_kind(dtype)
    word = {BF16: "bf16", F16: "f16"}.get(dtype)
    return {
        "C": kind,
        "E": kind if word is None else u16,
        "NARROW": {None: 0, "bf16": 1}.get(word, 2),
    }


def is_float_kind(kind: Kind | None) -> bool:
    return kind in (f32, f64)
