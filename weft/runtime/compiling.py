"""Which code a program runs: one policy for all clients.

Known code in named sizes that serves the program; else what the disk has of it; else new code in
named sizes, where another shape of the same program has come before; else code for its sizes alone.
A program that code in named sizes serves gets code of its own in the background once it has been
called some times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base import checking, disk, knobs
from weft.base.background import in_background
from weft.base.lazy import Late
from weft.compiler.identity import Identity, identify
from weft.core.caches import Mark, ProgramCache
from weft.core.jaxpr import ClosedJaxpr
from weft.runtime import programs
from weft.runtime.client import Compiler
from weft.runtime.code import CODE, CodeKey

# loaded when a knob asks for checks
instrument = Late("weft.compiler.checks.instrument")
# loaded when a program may be one of several shapes
kinds = Late("weft.runtime.kinds")

# Programs whose code serves other sizes too; and those whose code is for exactly their sizes.
GENERAL, EXACT = Mark("general"), Mark("exact")
# What makes another shape of a program, until its code is made.
_siblings: ProgramCache[None, Callable[[], ClosedJaxpr]] = ProgramCache("siblings")


def code(
    compiler: Compiler,
    closed: ClosedJaxpr,
    donated: tuple[bool, ...] = (),
    exactly: bool = False,
    watch: Any = None,
) -> tuple[Any, bool]:
    """The code of a program, and whether it serves other sizes too; not if it must be for
    ``exactly`` these. Notes are taken of code that is made only."""
    search, general = None, is_general(closed)
    wanted = (knobs.thread.shape_generic or general) and not exactly
    if compiler.has_named_sizes and wanted and watch is None and not EXACT.on(closed):
        search = kinds.search(compiler, closed, donated, general)
        served = None if search is None else search.found()
        if served is not None:
            return served, True
    identity = _identity(closed, donated, general) if compiler.is_stored else None
    found = None if identity is None or watch is not None else compiler.load(identity)
    if found is None:
        if identity is not None:
            compiler.expect()  # a new program is seldom made of known code alone
        if search is not None:
            sibling = None if general else _siblings.pop(closed, None)
            served = search.alone() if general else search.made(sibling)
            if served is not None:
                if general and identity is not None:
                    compiler.keep(identity, served)
                return served, True
        found = compiler.make(closed, donated, watch)
        if identity is not None:
            compiler.keep(identity, found)
    if search is not None and not general:
        search.known()
    return found, False


def _identity(closed: ClosedJaxpr, donated: tuple[bool, ...], general: bool) -> Identity | None:
    """What a program is found by; None where it is not kept, or is to be seen while it is made."""
    knob = knobs.thread
    if knob.debug or knob.dump or knob.verify or knob.compilation_cache_check_contents:
        return None
    if not knob.cache_programs or disk.folder() is None:
        return None
    return identify(closed, donated, general)


def is_general(closed: ClosedJaxpr) -> bool:
    """Whether a program's code is to do for arrays of other sizes too."""
    return GENERAL.on(closed)


def generalise(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program, to be compiled to code that does for arrays of other sizes too."""
    return GENERAL.give(closed)


def expect_sibling(closed: ClosedJaxpr, make: Callable[[], ClosedJaxpr]) -> None:
    """Have shape-generic code made for a program at once, from it and another shape of it."""
    _siblings.set(closed, None, make)


def awaits_exact(
    executable: Any, closed: ClosedJaxpr, key: CodeKey, make: Callable[[ClosedJaxpr], Any]
) -> bool:
    """Whether code for exactly a program's sizes is yet to replace shape-generic code, which is
    called again; after some calls ``make`` makes it in the background."""
    after = knobs.thread.exact_after
    if not executable.generic or is_general(closed) or after <= 0:
        return False
    executable.calls += 1
    if executable.calls == after:
        in_background(lambda: CODE.set(closed, key, make(programs.without_shardings(closed))))
    return True


def checked(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with the checks that the knobs ask for, whose code is for its sizes alone."""
    asked = checking.asked()
    if asked is None:
        return closed
    found = instrument.stopping(closed, asked)
    return found if found is closed else EXACT.give(found)
