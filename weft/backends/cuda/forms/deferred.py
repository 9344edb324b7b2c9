"""Programs on a GPU with their operations put off: what is left when a shape or a process ends.

Launches of kernels stay what they are but for their numbers. Operations become commands again, for
the sizes and the GPU at hand: libraries are asked anew, and nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from weft.backends.cuda import commands as c
from weft.backends.cuda.assemble import Assembled, Assembler, Deferred
from weft.backends.cuda.routines.epilogues import offer
from weft.backends.cuda.routines.table import HOST
from weft.base.record import Record
from weft.compiler.numbers import with_numbers
from weft.kernel.program import Op, Program

# Operations without a routine that are no fallbacks: assembling does them.
_OWN = frozenset([*HOST, "platform_index"])


class Entry(Record):
    """A command, the slots that it only reads, and its instructions, where these are known."""

    command: Any
    reads: frozenset[int] | None
    operations: Any


class Nest(Record):
    """A command with regions, which it has none of here, and its regions.

    ``uses`` are slots in use throughout; those from ``inside`` up are its own.
    """

    command: Any
    regions: tuple[tuple[Any, ...], ...]
    uses: tuple[int, ...]
    inside: int | None


class Form(Record):
    """A program without nodes, the roles and sizes of all slots, and entries for commands."""

    program: Program
    roles: list[str]
    sizes: list[Any]
    entries: tuple[Any, ...]
    saved: int = 0


def form_of(made: Assembled) -> Form:
    """An assembled program with its operations put off."""
    entries = _entries(made, made.commands)
    count = len(made.program.slots)
    # constants of routines are theirs to make again; what barriers count in belongs to kernels
    counts = {s for x in c.leaves(made.commands) if type(x) is c.LoopKernel for s in x.slots()}
    rest = [
        role if role != "const" else "count" if number in counts else "temp"
        for number, role in enumerate(made.roles[count:], count)
    ]
    roles = [*made.roles[:count], *rest]
    program = made.program._replace(nodes=())
    return Form(program, roles, list(made.sizes), entries, made.saved)


def _entries(made: Assembled, commands: Sequence[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    for command in commands:
        if type(command) is Deferred:
            found.append(command)
            continue
        if id(command) in made.sources:
            _, deferred, is_first = made.sources[id(command)]
            if is_first:
                found.append(deferred)
            continue
        regions = c.regions_of(command)
        if regions:
            _, uses, inside = made.around[id(command)]
            within = tuple([_entries(made, region) for region in regions])
            empty = c.with_regions(command, [()] * len(regions))
            found.append(Nest(empty, within, uses, inside))
            continue
        _, reads = made.only_read.get(id(command), (None, None))
        found.append(Entry(command, reads, made.operations.get(id(command))))
    return tuple(found)


def _same(x: Any) -> Any:
    return x


def expanded(form: Form, program: Program, fill: Callable[[Any], Any] = _same) -> Assembled | None:
    """A program of this form, assembled; ``fill`` puts numbers in place of sizes. None where an
    operation has no routine for them."""
    made = Assembler(program)
    made.sizes, made.roles = [fill(n) for n in form.sizes], list(form.roles)
    for number, role in enumerate(form.roles):
        if role == "count":
            made.count_in(number)
    commands = _commands(form.entries, made, fill)
    return None if commands is None else made.assembled(commands)._replace(saved=form.saved)


def _commands(entries: Sequence[Any], made: Assembler, fill: Callable[[Any], Any]) -> Any:
    found: list[Any] = []
    for entry in entries:
        if type(entry) is Deferred:
            more = _operation(entry, made, fill)
            if more is None:
                return None
            found += more
            continue
        command = fill(entry.command)
        if type(entry) is Nest:
            regions = [_commands(region, made, fill) for region in entry.regions]
            if any(region is None for region in regions):
                return None
            command = c.with_regions(command, regions)
            made.around[id(command)] = (command, entry.uses, entry.inside)
        else:
            if entry.reads is not None:
                made.only_read[id(command)] = (command, entry.reads)
            if entry.operations is not None:
                made.operations[id(command)] = fill(entry.operations)
        found.append(command)
    return tuple(found)


def _operation(deferred: Deferred, made: Assembler, fill: Any) -> list[Any] | None:
    """The commands of an operation; None where there is no routine for it any more."""
    node, made.label, made.lines = deferred
    eqn = with_numbers(node.eqn, fill)
    node = node._replace(eqn=eqn)
    if type(node) is Op:
        if node.epilogue is not None and node.offer is None:
            node = node._replace(offer=offer(eqn, node.epilogue))
            if node.offer is None:
                return None
        computes = any(prod(x.aval.shape) for x in eqn.outvars)
        if computes and eqn.primitive.name not in _OWN and made.lowered(node) is None:
            return None
    return made.node(node)
