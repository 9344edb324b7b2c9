"""What an operation becomes on a GPU: launches, fills, copies and calls of libraries, in order."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.backends.cuda.routines.device import definitions
from weft.backends.llvm.text.scalar_math import translate_with_math
from weft.backends.llvm.text.stub import called_stubs
from weft.base import knobs
from weft.base.functional import lru
from weft.base.record import Record
from weft.kernel.kinds import Kind, f32, f64, kind_of, u8, u16, u32, u64
from weft.kernel.nodes import BF16, F16

NAME = "kernel"


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
    """A launch: an LLVM module, its blocks and threads, and what its parameters are: memory, then
    numbers of 64 bits. ``dynamic`` is the bytes of shared memory beyond what the text declares."""

    text: str
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

_DECLARED = re.compile(r"^declare [^\n]*@(\w+)\([^\n]*\n", re.MULTILINE)
# Denormal numbers of float32 are flushed, as in kernels that the compiler made. Functions with
# barriers are convergent until they are inlined.
_FLUSHES = (
    'attributes #0 = { "denormal-fp-math-f32"="preserve-sign,preserve-sign" convergent nounwind }\n'
)


def module(
    main: Any,
    names: dict[str, Any],
    shared: dict[str, int] | None = None,
    resident: tuple[int, int] | None = None,
    numbers: dict[str, tuple[int, ...]] | None = None,
) -> str:
    """The LLVM module of a stub: ``main`` becomes the kernel, with all that it calls.

    ``numbers`` has, for parameters that aren't the kernel's, the 64-bit integers they point to.

    ``resident`` is how many threads a block has, and how many blocks a multiprocessor is to hold.

    ``shared`` has the bytes of memory that the threads of a block share, by the name of the
    function that gives its address; 0 where a launch says how many.
    """
    inline = tuple(called_stubs([main]))
    text = str(translate_with_math(main, names, inline=inline))
    return entry(text, main.__name__, shared, resident, numbers)


def entry(
    text: str,
    name: str,
    shared: dict[str, int] | None = None,
    resident: tuple[int, int] | None = None,
    numbers: dict[str, tuple[int, ...]] | None = None,
) -> str:
    """A module of stubs as one with a kernel."""
    rooms = [_room(word, size) for word, size in (shared or {}).items()]
    used = definitions(text)
    known = {*used, *(shared or {})}
    text = _DECLARED.sub(lambda m: "" if m.group(1) in known else m.group(0), text)
    head = re.search(rf"^define void @{name}\(([^)]*)\) nounwind {{", text, re.MULTILINE)
    assert head is not None, name
    given = head.group(1).split(", ")
    for word, values in (numbers or {}).items():
        given.remove(f"ptr %a.{word}")
        begin = head.end()
        end = text.index("\n}", begin)
        body = re.sub(rf"%a\.{word}\b", f"@numbers_{word}", text[begin:end])
        text = text[:begin] + body + text[end:]
        array = ", ".join(f"i64 {n}" for n in values)
        rooms.append(
            f"@numbers_{word} = internal constant [{len(values)} x i64] [{array}], align 8"
        )
    parameters = re.sub(r"\bptr %", "ptr align 16 %", ", ".join(given))
    start = f"define ptx_kernel void @{NAME}({parameters}) #0 {{"
    text = text.replace(head.group(0), start)
    text = text.replace(") nounwind alwaysinline {", ") #0 alwaysinline {")
    text = text.replace(") nounwind noinline {", ") #0 {")
    flushes = _FLUSHES
    if resident is not None:
        told = f'"nvvm.maxntid"="{resident[0]}" "nvvm.minctasm"="{resident[1]}"'
        text = text.replace(start, start.replace(" #0 {", " #1 {"))
        flushes += _FLUSHES.replace("#0", "#1").replace("nounwind }", f"nounwind {told} }}")
    return "\n".join([*rooms, *dict.fromkeys(used.values()), text, flushes])


@lru(512)
def text_of(main: Any, **names: Any) -> str:
    """The module of a stub that needs no shared memory."""
    return module(main, names)


def launch(main: Any, total: int, places: Sequence[Place], **names: Any) -> Run:
    """A stub run by a thread for each of a number of elements."""
    return Run(text_of(main, **names), ceil_div(total, 256), 256, tuple(places))


def _room(name: str, size: int) -> str:
    where = f"@room_{name}"
    kind = f"internal addrspace(3) global [{size} x i8] undef, align 16"
    if not size:
        kind = "external addrspace(3) global [0 x i8], align 128"
    return (
        f"{where} = {kind}\n"
        f"define internal ptr @{name}() alwaysinline {{\n"
        f"  ret ptr addrspacecast (ptr addrspace(3) {where} to ptr)\n}}"
    )


def deterministic() -> bool:
    """Whether results must have the same bits in every run: a knob says so, or JAX's flag."""
    flags = os.environ.get("XLA_FLAGS", "")
    asked = re.search(r"--xla_gpu_deterministic_ops(=true|=1|\s|$)", flags)
    return bool(knobs.thread.deterministic_ops) or asked is not None


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
