"""Single operations as programs, and what backends make of programs, kept with them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from time import perf_counter
from typing import Any

from weft.base import events, knobs, logs, observing, progress
from weft.base.functional import ById, lru
from weft.base.lazy import Late
from weft.compiler.identity import identify
from weft.compiler.plan import Unplannable
from weft.core import sharding as meshes
from weft.core.avals import ShapedArray
from weft.core.caches import ProgramCache
from weft.core.jaxpr import ClosedJaxpr
from weft.core.staging import stage
from weft.division.plain import plain
from weft.runtime.code import CODE, CodeKey

# needed where types carry shardings
explicit = Late("weft.division.explicit")

# Programs that a user's loop may have, for arrays of several shapes; programs kept by structure.
MOST_OF_LOOP, MAX_INTERNED = 64, 512


def compiled(closed: ClosedJaxpr, key: CodeKey, make: Callable[[ClosedJaxpr], Any]) -> Any:
    """What ``make`` makes of a program, kept with it under a key; None where it has no plan."""
    found = CODE.get(closed, key)
    if found is None:
        name = _name_of(closed)
        with observed(closed), progress.making("compiling", name):
            began, started = events.begin_making(), perf_counter()
            try:
                found = make(without_shardings(closed))
            except Unplannable:
                found = False
        events.end_making(began, "compile", name, equations=len(closed.eqns))
        level = logs.level_of(knobs.thread.log_compiles)
        if level:
            seconds = perf_counter() - started
            logs.log(level, f"Finished compilation of {name} in {seconds:.3g} s")
        CODE.set(closed, key, found)
    return None if found is False else found


def observed(closed: ClosedJaxpr) -> Any:
    """A scope in which a program is compiled: those who listen are told, and may refuse it."""
    if not observing.is_on():
        return contextlib.nullcontext()
    call = observing.thread.call
    given = ", ".join([aval.str_short() for aval in closed.in_avals])
    said = f"first call with arguments of types ({given})"

    def why() -> Any:
        return call.why() if call is not None and call.why is not None else [said]

    return observing.making("compiled", _name_of(closed), why)


def without_shardings(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program whose types carry no shardings: where results are is said by placements."""
    if not meshes.explicit_ones or not explicit.has_types(closed):
        return closed
    found = plain(closed)
    found.marks = closed.marks  # it may have been given some since
    return found


def _name_of(closed: ClosedJaxpr) -> str:
    """What a program is called: as its function, or as its only operation."""
    info = closed.debug_info
    named = None if info is None or info.function is None else info.func_name
    return named or (closed.eqns[0].primitive.name if len(closed.eqns) == 1 else "program")


def staged(primitive: Any, avals: Any, params: dict[str, Any]) -> ClosedJaxpr:
    """A program of one equation."""
    several = primitive.multiple_results
    bound = lambda *xs: primitive.bind(*xs, **params)
    return stage(lambda *xs: bound(*xs) if several else [bound(*xs)], avals)


def of_operation(primitive: Any, avals: Any, params: dict[str, Any]) -> ClosedJaxpr:
    """The program that an operation calls, or one of its equation."""
    callee: ClosedJaxpr | None = primitive.callee(params)
    if callee is None or primitive.shardings is not None:
        return staged(primitive, avals, params)
    return callee


@lru(4096)
def _program_of(primitive: Any, avals: Any, params: Any, context: Any) -> ClosedJaxpr:
    return staged(primitive, avals, dict(params))


def of_primitive(primitive: Any, avals: Any, params: Any) -> ClosedJaxpr | None:
    """A primitive as a program of one equation; None where its parameters cannot be a key."""
    try:
        return _program_of(primitive, tuple(avals), tuple(params.items()), knobs.context_key())
    except TypeError:
        return None


# Programs that run a loop, kept with its body.
_loops: ProgramCache[None, dict[Any, ClosedJaxpr]] = ProgramCache("loops")


def of_loop(primitive: Any, avals: Any, params: Any) -> ClosedJaxpr:
    """A primitive that carries programs as a program of one equation."""
    inner = [p for p in params.values() if type(p) is ClosedJaxpr]
    others = tuple([(k, v) for k, v in params.items() if type(v) is not ClosedJaxpr])
    key = (primitive, tuple(avals), others, *map(ById, inner), knobs.context_key())
    known = _loops.made(inner[-1], None, dict)
    closed = known.get(key)
    if closed is None:
        closed = interned(staged(primitive, avals, params))
        if len(known) >= MOST_OF_LOOP:
            known.clear()
        known[key] = closed
    return closed


# Programs that stand for others of their structure, kept with these.
_standing: ProgramCache[None, ClosedJaxpr] = ProgramCache("programs of the same structure")


def called(primitive: Any, params: Any) -> ClosedJaxpr | None:
    """The program that a primitive calls, or None; if each call comes with a new one, that which is
    kept for all of this structure."""
    closed: ClosedJaxpr | None = primitive.callee(params)
    if closed is None or primitive.keeps_callee:
        return closed
    return _standing.made(closed, None, lambda: interned(closed))


def alone(primitive: Any, avals: Any, params: dict[str, Any]) -> ClosedJaxpr | None:
    """A primitive as a program, kept for operands like these; None where it isn't one."""
    callee = called(primitive, params)
    if callee is not None:
        return callee if primitive.shardings is None else staged(primitive, avals, params)
    if any(type(a) is not ShapedArray for a in avals):
        return None
    if any(type(p) is ClosedJaxpr for p in params.values()):
        return of_loop(primitive, avals, params)
    return of_primitive(primitive, avals, params)


class _Structure(tuple[Any, ...]):
    """What a program is made of, and the first program of that."""

    closed: ClosedJaxpr


@lru(MAX_INTERNED)
def _first(structure: _Structure) -> ClosedJaxpr:
    return structure.closed


def interned(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program kept for all of this structure, with what was compiled for it.

    A loop that a user's function runs outside of ``jit`` has a new body at every call, which is
    staged again. Its structure is the same, so its code is too. Programs that call Python are kept
    apart: what a user's function does is not in their structure.
    """
    identity = identify(closed)
    if identity is None or identity.calls_users:
        return closed
    structure = _Structure((identity.text(), *[id(const) for const, _ in identity.consts]))
    structure.closed = closed
    return _first(structure)
