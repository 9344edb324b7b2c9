"""Native execution: a staged program compiled, its tables written, and called."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import threading
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu import target
from weft.backends.cpu.assembly import Assembly, Python, called, launched
from weft.backends.cpu.calls import stored
from weft.backends.cpu.calls.first import begin
from weft.backends.cpu.calls.slowly import Walk
from weft.backends.llvm.calls.dispatch import (
    Native,
    busy,
    companions,
    is_loaded,
    is_loading,
    native,
    supported,
)
from weft.backends.llvm.native.compiling import preload
from weft.backends.llvm.native.machine import Address, Ahead, compile_many, origins
from weft.backends.llvm.native.processor import vector_bits
from weft.base import checking, errors, events, knobs
from weft.base.forks import across_forks
from weft.base.garbage import uncollected
from weft.base.lazy import Late, load
from weft.base.stacks import MIN_STACK_BYTES, stack_bytes, with_room
from weft.base.switches import brisk_switches
from weft.compiler.plan import Unplannable
from weft.compiler.watch import UNWATCHED
from weft.core.interpret import run_primitive, storage_dtype
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.program import For, While, all_nodes, inner_regions
from weft.runtime import programs
from weft.runtime.array import ArrayImpl
from weft.runtime.client import NONE, Compiler, Donated, host_named
from weft.runtime.code import CODE, CodeKey
from weft.runtime.compiling import awaits_exact, checked, code, generalise, is_general
from weft.runtime.donation import given_up
from weft.runtime.patterns import CallPattern, Pattern
from weft.runtime.places import HOME, ArrayType, array_type

# loaded when a knob asks what was compiled, when calls become native
tell = Late("weft.backends.cpu.calls.tell")
entries = Late("weft.backends.llvm.calls.entries")
generic = Late("weft.backends.cpu.generic")
# loaded when a trace is taken
traces = Late("weft.backends.cpu.calls.traces")
layout = Late("weft.backends.cpu.calls.layout")
companions.append(layout._module)

# Nodes run by one call from which on nobody walks them in Python.
MAX_WALKED_NODES = 5000

# Rounds of a user's loop up to which it hardly matters that it calls a function for each step,
# where it would be one function otherwise; and those of loops whose length is not known. Elements
# of a round from which on it does not matter at all.
SHORT_LOOP_ROUNDS, UNKNOWN_ROUNDS, LARGE_ROUND_ELEMENTS = 64, 1 << 40, 1 << 12

_settling = across_forks(threading.Lock())


def load_products() -> None:
    """Load what most programs need besides the compiler: products, programs in named sizes."""
    if supported():
        target.routines.load("dot_general")
        load(generic._module)
        load("weft.runtime.kinds")
        load("weft.lax.convolutions")


def prepare(needed: bool = False) -> None:
    """Have a thread load LLVM, where the disk is of no help."""
    if supported():
        preload(begin, needed)


def _with_settings(settings: dict[str, Any], function: Any, *args: Any) -> Any:
    """What a function gives under the settings of another thread."""
    with knobs.scope(**settings):
        return function(*args)


class Executable:
    """A program with its code loaded, called with the leaves of its arguments."""

    def __init__(
        self,
        closed: ClosedJaxpr,
        watch: Any = None,
        donated: tuple[bool, ...] = (),
        exactly: bool = False,
    ) -> None:
        self.places: Any = None  # of the results; None for where most arrays are
        self.elsewhere: dict[Any, Executable] = {}
        prepare()
        if watch is None and (knobs.thread.debug or knobs.thread.dump):
            watch = tell.Watch(closed)
        self.avals = closed.in_avals
        self.out_avals = closed.out_avals
        self.generic = False  # whether its code serves other sizes too
        self.calls = 0  # of shape-generic code, by Python
        with busy(), uncollected(), brisk_switches:
            (self.plan, self.code), self.generic = code(COMPILER, closed, donated, exactly, watch)
        self.taken = [r.number for r in self.plan.results if r.kind == "taken"]
        self.stops = _stops(self.plan.nodes)
        self.host = Hosts(self.plan, self.out_avals)
        self.call: Any = None
        self.walked = 0  # calls made while there was no native walker
        self.flushes = knobs.flushes()
        self.slowly = Walk(self.plan, self.code, self.out_avals, self.host, self.flushes)

    def at(self, places: Any) -> Executable:
        """The same code with results at other placements, or of other types, one for each."""
        found = self.elsewhere.get(places)
        if found is None:
            found = copy.copy(self)
            found.places, found.call, found.walked = places, None, self.walked
            self.elsewhere[places] = found
        return found

    def __call__(self, args: Any) -> list[Any]:
        """Results as arrays; arguments are arrays or NumPy arrays of the right types."""
        if stack_bytes() < MIN_STACK_BYTES:  # some kernels keep hundreds of kilobytes there
            return with_room(_with_settings, knobs.in_key_values(), self._run, args)
        return self._run(args)

    def _run(self, args: Any) -> list[Any]:
        if self.call is None:
            self.walked += 1
            if not self.settle():
                results = self.slowly(*args)
                native(wait=False, first=self.walked == 1)
                return results
        return self.call(*args)

    def settle(self) -> bool:
        """Write the tables for the native walker, if it is there by now.

        The first call is for its result alone. Later ones go on in Python until a thread has made
        the native walker; only a program with very many nodes waits for it.
        """
        if self.call is None:
            far = not is_loaded() and _steps(self.plan.nodes) > MAX_WALKED_NODES
            if self.walked <= 1 and not is_loaded() and not far:
                return False
            walks = native(wait=far)
            if walks is None:
                return False
            with _settling:  # tables point at each other: there may be one set only
                if self.call is None:
                    self.table = self._tables(walks)
                    held = (self.table, self.types, self.host, self.code, self.plan)
                    self.call = walks.function("call_flat", held)
        return True

    def _tables(self, walks: Native) -> np.ndarray:
        plan, places = self.plan, self.places or (HOME,) * len(self.out_avals)
        self.types = [
            p if type(p) is ArrayType else array_type(a, p)
            for a, p in zip(self.out_avals, places, strict=True)
        ]
        arguments = len(self.avals)
        made = layout.Layout(plan, self.code, arguments, self.out_avals, self.flushes, walks)
        return made.filled(
            self.types,
            ARENA=plan.arena,
            LONG=layout.work(plan.nodes, plan) >= layout.LONG_BYTES,
            PARALLEL=any(run.extent > run.chunk for run in layout.runs(plan.nodes)),
            HOSTS=id(self.host),
        )


class NativeCompiler(Compiler):
    """Code of the processor: a plan, and native functions by their numbers in it."""

    name, has_named_sizes, is_stored = "native", True, True

    def make(
        self, closed: ClosedJaxpr, donated: tuple[bool, ...], watch: Any
    ) -> tuple[Assembly, dict[int, Address]]:
        notes = watch or UNWATCHED
        since = notes.mark()
        with Ahead() as ahead:
            cpu = target.Cpu(watch, ahead if watch is None else None)
            plan = cpu.assemble(closed, donated)
            notes.spent("plan", since)
            since = notes.mark()
            if not is_loaded() and _steps(plan.nodes) > MAX_WALKED_NODES:
                native(wait=False, wanted=True)  # somebody will wait for it
            used = sorted(launched(plan.nodes) | called(plan.slots))
            if watch is not None:
                watch.origins = origins([plan.codes[i] for i in used])
            made = compile_many([plan.codes[i] for i in used], ahead)
        code = dict(zip(used, made, strict=True))
        if watch is not None:
            watch.spent("LLVM", since)
            tell.tell(watch, plan)
        return plan, code

    def in_named_sizes(
        self, closed: ClosedJaxpr, donated: tuple[bool, ...], names: Any, eager: bool
    ) -> Any:
        return generic.Generic(closed, donated, names, eager=eager)

    def load(self, identity: Any) -> tuple[Assembly, dict[int, Address]] | None:
        return stored.find(identity)

    def keep(self, identity: Any, made: tuple[Assembly, dict[int, Address]]) -> None:
        stored.keep(identity, *made)

    def expect(self) -> None:
        prepare(needed=True)

    def short(self) -> int:
        return 2 * vector_bits() // 32 - 1


COMPILER = NativeCompiler()


def elements_of(closed: ClosedJaxpr) -> int:
    """How many elements a program is given and makes."""
    return sum([a.size for a in [*closed.in_avals, *closed.out_avals]])


def _rounds(closed: ClosedJaxpr) -> int:
    """How many rounds the loops of a program make; very many where that is not known."""
    total = 0
    for eqn in closed.eqns:
        rounds = eqn.primitive.rounds(eqn.params)
        if rounds is None:
            return UNKNOWN_ROUNDS
        parts = [p for x in eqn.params.values() for p in (x if type(x) is tuple else (x,))]
        inside = [_rounds(p) for p in parts if type(p) is ClosedJaxpr]
        total += rounds * ((eqn.primitive.nodes == "loop") + sum(inside))
    return total


class Hosts:
    """Equations that Python computes for a native program, and what it raises for it."""

    def __init__(self, plan: Assembly, out_avals: Any) -> None:
        self.plan = plan
        self.out_avals = out_avals

    def __call__(self, number: int, where: int) -> None:
        if number == -1:
            raise MemoryError(self._shortage())
        if number == -2:
            array = ctypes.cast(where, ctypes.py_object).value
            raise RuntimeError(
                f"array has been deleted: {array.aval.str_short()} was donated to a"
                " computation or freed with delete()"
            )
        eqn, ins, outs = self.plan.hosts[number]
        env = (ctypes.c_size_t * len(self.plan.slots)).from_address(where)
        values = [_at(env[i], x.aval) for i, x in zip(ins, eqn.invars, strict=True)]
        if _is_callback(eqn):  # users' functions may keep what they are given
            values = [v.copy() for v in values]
        avals = [v.aval for v in eqn.outvars]
        several = eqn.primitive.multiple_results
        with np.errstate(all="ignore"):
            found = run_primitive(eqn.primitive, avals if several else avals[0], values, eqn.params)
        for i, aval, value in zip(outs, avals, found if several else [found], strict=True):
            _at(env[i], aval)[...] = value

    def _shortage(self) -> str:
        """What a call needs beside its arguments, in the words of its types."""
        made = [s for s in self.plan.slots if s.role in ("out", "temp") and s.size]
        results = sum(s.size for s in made if s.role == "out")
        biggest = sorted(made, key=lambda s: -s.size)[:3]
        listed = "; ".join(f"{self._named(s)}, {s.size:,} bytes" for s in biggest)
        return errors.located(
            f"no memory for {results:,} bytes of results and {self.plan.arena:,} bytes of values"
            f" in between. The biggest: {listed}",
            "Compute in smaller pieces (lax.map with batch_size, lax.scan), or recompute instead of"
            " keeping (weft.checkpoint).",
        )

    def _named(self, slot: Any) -> str:
        if slot.role == "out":
            return f"result {slot.what} of type {self.out_avals[slot.what].str_short()}"
        if hasattr(slot.what, "str_short"):
            return f"a value of type {slot.what.str_short()}"
        return f"what {slot.what} works in" if slot.what else "room for a loop's values"


def _is_callback(eqn: Any) -> bool:
    return bool(eqn.effects) or "callback" in eqn.params


def _at(where: int, aval: Any) -> np.ndarray:
    """The memory of a value as a NumPy array."""
    dtype = storage_dtype(aval.dtype)
    size = prod(aval.shape) * dtype.itemsize
    if size == 0:
        return np.empty(aval.shape, dtype)
    return np.frombuffer((ctypes.c_char * size).from_address(where), dtype).reshape(aval.shape)


def _steps(nodes: Any) -> int:
    """How many nodes are run; a loop of unknown length, unless it is one function, is long."""
    total = 0
    for node in nodes:
        if isinstance(node, While) and node.body:
            total += MAX_WALKED_NODES
        times = node.trips if isinstance(node, For) else 1
        total += 1 + times * sum(_steps(region) for region in inner_regions(node))
    return total


def _stops(nodes: Any) -> bool:
    """Whether nodes may end before they are all done: by a signal, or by an error in Python."""
    return any(isinstance(node, (While, For, Python)) for node in all_nodes(nodes))


def compile_program(closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Any:
    """The executable of a program, made once; it may write over arguments that are donated."""
    key = key_of(donated)

    def make(source: ClosedJaxpr) -> Any:
        source = checked(source)
        with contextlib.suppress(Unplannable):
            if supported():
                return Executable(source, None, key.donated)
        return functools.partial(host_named("reference").run, source)

    return programs.compiled(closed, key, make)


def compile_noted(closed: ClosedJaxpr, donated: tuple[bool, ...], watch: Any) -> Executable | None:
    """The executable of a program with notes of how it was made, which calls run if they have none
    yet; None where the interpreter runs it."""
    key = key_of(donated)
    try:
        found = Executable(checked(programs.without_shardings(closed)), watch, key.donated)
    except Unplannable:
        return None
    if CODE.get(closed, key) is None:
        CODE.set(closed, key, found)
    return found


def key_of(donated: tuple[bool, ...]) -> CodeKey:
    """What the executable of a program is kept under, for arguments that are donated."""
    details = (knobs.thread.denormals, knobs.thread.reproducible, checking.asked())
    return CodeKey("cpu", donated if any(donated) else (), details)


def _runner(closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Any:
    """The executable of a program; while a trace is taken, one that notes its kernels."""
    if events.kernels is None:
        return compile_program(closed, donated)
    make = functools.partial(compile_noted, closed, donated)
    found = traces.traced(events.kernels, closed, key_of(donated), make)
    return found or compile_program(closed, donated)


def call_program(closed: ClosedJaxpr, args: Any, donated: Donated = NONE) -> list[Any]:
    """The results of a program on arrays, NumPy arrays and Python numbers, some of them in the
    memory of donated arguments, which are then deleted."""
    executable = _runner(closed, tuple(donated.flags))
    given = arguments(args, closed.in_avals)
    taken = getattr(executable, "taken", ())
    if not taken:
        return executable(given)  # type: ignore[no-any-return]
    kept = [i for i, alone in donated.refs if not alone or executable.stops]
    given, lost = given_up(given, closed.in_avals, taken, kept)
    try:
        return executable(given)  # type: ignore[no-any-return]
    except MemoryError:
        for i, _ in donated.refs:  # nothing has been written yet
            lost.pop(i, None)
        raise
    finally:
        for x in lost.values():
            x.delete()


def call_callee(primitive: Any, args: Any, params: Any) -> list[Any]:
    """The results of the program that a primitive calls."""
    closed = programs.called(primitive, params)
    assert closed is not None
    return call_program(closed, args)


def call_primitive(primitive: Any, args: Any, avals: Any, params: Any) -> list[Any] | None:
    """The results of a primitive on its own, or None where it has no program."""
    if primitive.nodes == "loop":
        return call_once(primitive, args, avals, params)
    closed = programs.of_primitive(primitive, avals, params)
    return None if closed is None else call_program(generalise(closed), args)


def call_once(primitive: Any, args: Any, avals: Any, params: Any) -> list[Any]:
    """The results of a primitive that carries programs, compiled for arguments like these."""
    closed = programs.of_loop(primitive, avals, params)
    if not is_general(closed):
        inner = [p for p in params.values() if type(p) is ClosedJaxpr]
        large = max(map(elements_of, inner)) >= LARGE_ROUND_ELEMENTS
        if large or _rounds(closed) <= SHORT_LOOP_ROUNDS:
            generalise(closed)
    return call_program(closed, args)


def arguments(args: Any, avals: Any) -> list[Any]:
    """Arguments as arrays, or as contiguous NumPy arrays of their types."""
    pairs = zip(args, avals, strict=True)
    return [x if type(x) is ArrayImpl else settled(x, aval) for x, aval in pairs]


def settled(x: Any, aval: Any) -> Any:
    """A value as a contiguous NumPy array of its type; what is no array stays what it is."""
    if not hasattr(aval, "dtype"):
        return x
    with np.errstate(all="ignore"):  # what is too large for the dtype becomes infinite
        found = np.ascontiguousarray(x, storage_dtype(aval.dtype)).reshape(aval.shape)
    return found if found.flags.aligned else found.copy()


def remember(pattern: Pattern, places: Any) -> bool:
    """Let native code answer calls like one; False if it is too early for that."""
    called = type(pattern) is CallPattern and pattern.given is None
    if not called and supported() and native(wait=False) is None and is_loading():
        return False
    closed = pattern.closed if type(pattern) is CallPattern else generalise(pattern.closed)
    executable = compile_program(closed, pattern.donated)
    if type(executable) is not Executable:
        return True
    if called:
        key = key_of(pattern.donated)
        make = lambda source: Executable(source, None, key.donated, exactly=True)
        if awaits_exact(executable, closed, key, make):
            return False
        if executable.call is None and executable.walked < 2:
            return False
    if places is not None:
        executable = executable.at(places)
    if executable.settle():
        entries.add(pattern, executable)
        return True
    return not called
