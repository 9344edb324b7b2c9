"""Staging of user functions on trees, and the rearrangements of programs that control flow needs.

What a staged function closes over (tracers of outer traces, arrays) are the constants of its
program; ``separate_consts`` turns them into leading inputs, to be passed as operands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.base import history, knobs, observing, source
from weft.base.functional import either, name_of, weakref_lru_cache
from weft.core.ad import Zero, is_undef
from weft.core.batching import moveaxis
from weft.core.caches import per_program
from weft.core.debug_info import DebugInfo
from weft.core.effects import Effects, NamedAxisEffect
from weft.core.high import flatten
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from weft.core.staging import check_tracing, stage
from weft.core.trace import Tracer, state, typeof
from weft.transforms.dce import close, convert_constvars
from weft.tree.functions import tree_leaves_with_path, tree_unflatten
from weft.tree.keys import keystr
from weft.tree.treedef import PyTreeDef

Flags = Sequence[bool]


def _context() -> Any:
    return knobs.context_key(), state.axis_env


@weakref_lru_cache(context=_context)
def _trace_cell(fun: Any, in_tree: PyTreeDef, in_avals: tuple[Any, ...], line: Any) -> list[Any]:
    return []


def _line_of(fun: Any) -> Any:
    """Where a function of weft's own is given to control flow: its operations stand there. One that
    was made for another function has that one's lines."""
    if not str(getattr(fun, "__module__", "")).startswith("weft."):
        return None
    name = getattr(fun, "__qualname__", None)
    if type(name) is not str or "<locals>" in name:
        return None
    here = source.current()
    return here.code, here.lasti


def stage_tree_function(
    fun: Callable[..., Any],
    in_tree: PyTreeDef,
    in_avals: Sequence[Any],
    debug: DebugInfo | None = None,
) -> tuple[ClosedJaxpr, PyTreeDef]:
    """The program of a function of positional trees, and the structure of its result.

    ``in_tree`` is the structure of the tuple of arguments. A function is traced once for the same
    types while it lives, unless it closes over tracers; one of weft's own once for each line.
    """
    try:
        cell = _trace_cell(fun, in_tree, tuple(in_avals), _line_of(fun))
    except TypeError:  # neither weak references to it nor a hash: nothing to remember it by
        return _stage(fun, in_tree, in_avals, debug)
    if not cell:
        staged = _stage(fun, in_tree, in_avals, debug)
        if any(isinstance(c, Tracer) for c in staged[0].consts):
            return staged
        cell.append(staged)
    return cell[0]


def _stage(
    fun: Callable[..., Any], in_tree: PyTreeDef, in_avals: Sequence[Any], debug: DebugInfo | None
) -> tuple[ClosedJaxpr, PyTreeDef]:
    what = "control flow" if debug is None else debug.traced_for
    check_tracing(fun, what)
    out_trees: list[PyTreeDef] = []

    def flat(*leaves: Any) -> list[Any]:
        result = fun(*tree_unflatten(in_tree, leaves))
        outs, out_tree = flatten(result)
        _check_results(outs, out_tree, fun, debug)
        out_trees.append(out_tree)
        return outs

    with _observed(fun, what, (in_tree, tuple(in_avals))):
        return stage(flat, in_avals, debug), out_trees[0]


def _observed(fun: Any, what: str, key: Any) -> Any:
    """A scope in which a function is traced for control flow: those who listen are told."""
    known = history.known(fun) if observing.is_on() else []
    history.note(fun, key)
    if not observing.is_on():
        return contextlib.nullcontext()

    def why() -> list[str]:
        if not known:
            return ["first call"]
        if any(t.function() is fun for t in known):
            return ["the types of what it is given, or settings, changed"]
        return history.new_object(fun, known[-1])

    return observing.making("traced", f"{name_of(fun)} of {what}", why, not known)


def _check_results(outs: list[Any], out_tree: PyTreeDef, fun: Any, debug: Any) -> None:
    for i, x in enumerate(outs):
        try:
            if typeof(x).is_ref:
                info = debug or DebugInfo("staging", fun)
                raise ValueError(
                    f"function {info.func_src_info}, traced for {info.traced_for}, returned a"
                    f" mutable reference of type {typeof(x).str_short()}; a function cannot "
                    "return or carry a reference: let it close over the reference"
                )
        except TypeError:
            info = debug or DebugInfo("staging", fun)
            path = leaf_paths(out_tree)[i]
            where = f" at output{keystr(path)}" if path else ""
            raise TypeError(
                f"function {info.func_src_info}, traced for {info.traced_for}, returned {x!r} of"
                f" type {type(x).__name__}{where}; functions under transformations return arrays,"
                " numbers and containers of them"
            ) from None


def leaf_paths(structure: PyTreeDef) -> list[tuple[Any, ...]]:
    """The path of every leaf of a structure; empty paths where a class cannot be rebuilt."""
    try:
        dummies = tree_unflatten(structure, range(structure.num_leaves))
        return [path for path, _ in tree_leaves_with_path(dummies)]
    except Exception:  # the user's class refused placeholders; messages do without the path
        return [()] * structure.num_leaves


def separate_consts(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """The program with its constants as leading inputs, and the constants."""
    return close(convert_constvars(closed.jaxpr)), closed.consts


def merge_branch_consts(
    programs: Sequence[ClosedJaxpr],
) -> tuple[list[ClosedJaxpr], list[Any]]:
    """Programs that all take the constants of any of them as leading inputs, and the constants."""
    place: dict[int, int] = {}
    consts: list[Any] = []
    avals: list[Any] = []
    for closed in programs:
        for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True):
            if id(c) not in place:
                place[id(c)] = len(consts)
                consts.append(c)
                avals.append(v.aval)
    widened = [
        _take_consts(p.jaxpr, tuple(place[id(c)] for c in p.consts), tuple(avals)) for p in programs
    ]
    return widened, consts


@per_program
def _take_consts(jaxpr: Jaxpr, positions: tuple[int, ...], avals: tuple[Any, ...]) -> ClosedJaxpr:
    if positions == tuple(range(len(avals))):
        return close(convert_constvars(jaxpr))
    leading = [Var(aval) for aval in avals]
    for i, v in zip(positions, jaxpr.constvars, strict=True):
        leading[i] = v
    return close(jaxpr.replace(constvars=[], invars=[*leading, *jaxpr.invars], debug_info=None))


def must_not_repeat(effects: Effects) -> bool:
    """Whether there are effects that happen exactly as often as the user's program says."""
    return any(
        not getattr(effect, "repeatable", False) and type(effect) is not NamedAxisEffect
        for effect in effects
    )


def tangents_of(outs: Sequence[Any], nonzero: Flags, given: Iterable[Any]) -> list[Any]:
    """The tangents of results, of which those that are not zero are given."""
    rest = iter(given)
    return [next(rest) if nz else Zero.from_primal(x) for x, nz in zip(outs, nonzero, strict=True)]


def cotangents_of(args: Sequence[Any], nonzero: Flags, given: Iterable[Any]) -> list[Any]:
    """The cotangents of linear operands, of which those that are not zero are given; None for
    others."""
    flags, rest = iter(nonzero), iter(given)
    zero = lambda x: Zero(x.aval.to_cotangent_aval())
    return [(next(rest) if next(flags) else zero(x)) if is_undef(x) else None for x in args]


def settled(carry: list[bool], step: Callable[[list[bool]], Any]) -> tuple[Any, Any, list[bool]]:
    """What ``step`` gives, a program and flags of its results, once these are those of the carry
    that it is for; a carry has more and more of them until then."""
    while True:
        made, flags = step(carry)
        if flags[: len(carry)] == carry:
            return made, flags, carry
        carry = either(carry, flags[: len(carry)])


def mapped_at_front(args: Any, dims: Any) -> list[Any]:
    """Operands with their batch dimensions first, where they have one."""
    return [x if d is None else moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)]


def forwarded_inputs(jaxpr: Jaxpr) -> list[int | None]:
    """For each output, which input it merely hands on, or None."""
    place: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}
    return [None if type(v) is Literal else place.get(v) for v in jaxpr.outvars]


def rearrange(
    closed: ClosedJaxpr, inputs: Sequence[int] | None, outputs: Sequence[int] | None = None
) -> ClosedJaxpr:
    """The program with its inputs and outputs in the order given by old positions.

    Outputs may be left out; inputs must all be there. None keeps them as they are.
    """
    jaxpr = closed.jaxpr
    ins = tuple(range(len(jaxpr.invars)) if inputs is None else inputs)
    outs = tuple(range(len(jaxpr.outvars)) if outputs is None else outputs)
    if ins == tuple(range(len(jaxpr.invars))) and outs == tuple(range(len(jaxpr.outvars))):
        return closed
    return _rearranged(closed, ins, outs)


@per_program
def _rearranged(closed: ClosedJaxpr, ins: tuple[int, ...], outs: tuple[int, ...]) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    same_inputs = ins == tuple(range(len(jaxpr.invars)))
    changed = jaxpr.replace(
        invars=[jaxpr.invars[i] for i in ins],
        outvars=[jaxpr.outvars[i] for i in outs],
        debug_info=jaxpr.debug_info if same_inputs else None,
    )
    return closed.replace(jaxpr=changed)


def keep_outputs(closed: ClosedJaxpr, keep: Flags) -> ClosedJaxpr:
    """The program without the outputs that are not marked."""
    return rearrange(closed, None, [i for i, k in enumerate(keep) if k])


def inputs_to_front(closed: ClosedJaxpr, move: Flags) -> ClosedJaxpr:
    """The program with the marked inputs first."""
    order = [i for i, m in enumerate(move) if m] + [i for i, m in enumerate(move) if not m]
    return rearrange(closed, order)


def interleave(
    closed: ClosedJaxpr,
    primals_in: Sequence[int],
    tangents_in: Sequence[int],
    primals_out: Sequence[int],
    tangents_out: Sequence[int],
) -> ClosedJaxpr:
    """A program of primals then tangents, with each group of tangents behind its primals.

    The numbers are the sizes of the groups: [a, b, da, db] becomes [a, da, b, db].
    """
    return rearrange(
        closed,
        _interleaved(primals_in, tangents_in),
        _interleaved(primals_out, tangents_out),
    )


def _interleaved(firsts: Sequence[int], seconds: Sequence[int]) -> list[int]:
    order: list[int] = []
    first, second = 0, sum(firsts)
    for n, m in zip(firsts, seconds, strict=True):
        order += [*range(first, first + n), *range(second, second + m)]
        first, second = first + n, second + m
    return order
