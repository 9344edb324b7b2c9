"""Kernels and the function that runs them as one module of LLVM's, and as a library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.backends.cpu.assembly import Assembly, called, launched
from weft.backends.cpu.standalone.driver import KERNEL, driver, libraries
from weft.backends.cpu.standalone.shared import shared_library
from weft.backends.cpu.standalone.web import FUSED, FUSED_NAMES, Web, web_module
from weft.backends.cpu.target import Cpu
from weft.backends.llvm.code import Module, Verbatim
from weft.backends.llvm.native.compiling import llvm
from weft.backends.llvm.native.processor import architecture
from weft.base import knobs
from weft.base.record import Record
from weft.core.jaxpr import ClosedJaxpr


class Linked(Record):
    """A program that needs no Python: its module as text and as an object, and the library made of
    that, for Linux or, with ``web``, for WebAssembly."""

    text: str
    object: bytes
    library: bytes
    arena: int  # bytes that a call works in
    calls: list[str]  # functions of other libraries that it calls
    web: Web | None = None


def link(closed: ClosedJaxpr, donated: Sequence[bool], name: str, sizes: Sequence[int]) -> Linked:
    """A staged function as one module of all that it runs; ``sizes`` are the bytes of results.

    Raises `NeedsPython` where an operation needs Python.
    """
    plan = Cpu().assemble(closed, donated)
    if plan.hosts:
        raise NeedsPython(plan.hosts[0].eqn)
    flush = knobs.thread.denormals == "flush"
    text = driver(plan, name, len(closed.in_avals), sizes, architecture(), flush)
    on_web = architecture() == "wasm32"
    own = [Verbatim(text), *([Verbatim(FUSED)] if on_web else [])]
    whole, made = _linked(plan, name, own)
    rest = max(plan.arena, 1), libraries(plan)
    if on_web:
        web = web_module(made, [name, f"{name}_in"])
        return Linked(whole, made, web.module, *rest, web)
    return Linked(whole, made, shared_library(made, f"lib{name}.so", public(name)), *rest)


class NeedsPython(Exception):
    """An operation that only Python computes; ``eqn`` is its equation."""

    def __init__(self, eqn: Any) -> None:
        super().__init__(eqn.primitive.name)
        self.eqn = eqn


def public(name: str) -> set[str]:
    """The functions that a library has for its users."""
    return {name, f"{name}_in", f"{name}_set_parallel"}


def _linked(plan: Assembly, name: str, own: Sequence[Module]) -> tuple[str, bytes]:
    """The text and the object of the program's module."""
    import llvmlite.binding as binding

    library = llvm()
    machine = library.machine(2)
    whole = _module(binding, library, machine, own)
    kept = public(name) | FUSED_NAMES
    for number in sorted(launched(plan.nodes) | called(plan.slots)):
        code, function = plan.codes[number]
        part = _module(binding, library, machine, _apart(code))
        wanted = part.get_function(function)
        for value in _defined(part):  # no name of a module meets the same one of another
            if value.name != wanted.name:
                value.linkage = "internal"
        wanted.name = KERNEL.format(name, number)
        whole.link_in(part)
    for value in _defined(whole):
        if value.name not in kept:
            value.linkage = "internal"
    whole.triple = library.triple
    made = library.emitted(whole._ptr, machine)
    return str(whole), made


def _apart(code: Module) -> list[Module]:
    """The modules that one is written in."""
    return [*code.parts, code.replaced(parts=())] if code.parts else [code]


def _module(binding: Any, library: Any, machine: int, codes: Iterable[Module]) -> Any:
    """LLVM's module of some, each optimised as it asks for."""
    whole = None
    for code in codes:
        part = binding.parse_assembly(str(code))
        part.data_layout = library.layout(machine)  # passes ask how long pointers are
        library.optimise(part._ptr, code.effort, machine)
        if whole is None:
            whole = part
        else:
            whole.link_in(part)
    return whole


def _defined(module: Any) -> list[Any]:
    values = [*module.functions, *module.global_variables]
    return [value for value in values if not value.is_declaration]
