"""Running again up to a failed check, and from a bad element back through the rounds of loops to
the operation that made it.

A check stands in a program, which may stand in the body of a loop, and so on: each is a frame. An
element that a frame was given comes from the round before, or from the frame around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base.checking import Kinds
from weft.base.record import Record
from weft.compiler.checks.flow import flat
from weft.compiler.checks.search import Fault, Search, value_of
from weft.compiler.checks.sites import Around, Site
from weft.core.interpret import constant_value, has_data, run, run_primitive
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal

# Equations of a loop that are run again, at most: NumPy takes some microseconds for each.
MAX_REPLAYED = 2_000_000
# The same for a loop that has ended, where a compiled program can look instead.
MAX_REPLAYED_AFTER = 20_000


class Unreachable(Exception):
    """The equation isn't among those that can be run again."""


class Frame(Record):
    """A program that was run again: what it stands in, which round or element that was, and its
    values."""

    around: Around | None
    number: int
    env: dict[Any, Any]
    eqns: Sequence[Any]


def entered(
    site: Site, rounds: Sequence[int], env: dict[Any, Any], eqns: Sequence[Any]
) -> list[Frame]:
    """The programs around a check, outermost first, in the rounds in which it failed."""
    numbers = list(rounds)
    frames = [Frame(None, 0, env, eqns)]
    for around in site.path:
        evaluated(frames[-1].eqns, frames[-1].env, around.eqn, False)
        counted = around.batch is not None or around.eqn.primitive.nodes == "loop"
        frames.append(_inside(frames[-1], around, numbers.pop(0) if counted else 0))
    evaluated(frames[-1].eqns, frames[-1].env, site.eqn, True)
    return frames


def evaluated(eqns: Sequence[Any], env: dict[Any, Any], last: Any, within: bool) -> None:
    """Compute the values of variables up to an equation: before it, or after it if that is
    ``within``; of all equations if it is None."""
    for eqn in eqns:
        # a loop may stand there in another form
        is_last = last is not None and eqn.outvars is last.outvars
        if is_last and not within:
            break
        if eqn.effects:
            if eqn.outvars:
                raise Unreachable  # it must not happen twice
            continue
        values = [value_of(env, x) for x in eqn.invars]
        primitive = eqn.primitive
        if primitive.multiple_results:
            avals = [v.aval for v in eqn.outvars]
            results = run_primitive(primitive, avals, values, eqn.params)
            env.update(zip(eqn.outvars, results, strict=True))
        else:
            aval = eqn.outvars[0].aval
            env[eqn.outvars[0]] = run_primitive(primitive, aval, values, eqn.params)
        if is_last:
            break


def _inside(outer: Frame, around: Around, number: int) -> Frame:
    """A program in another, before its first equation."""
    eqn, body, asks, batch = around
    values = [value_of(outer.env, x) for x in eqn.invars]
    name = eqn.primitive.name
    if name == "scan":
        args = _scanned(eqn.params, body, values, number)
    elif batch is not None:
        args = _of_element(batch, values, number)
    elif name == "while":
        args = _repeated(eqn.params, asks, values, number)
    else:
        args = values[1:] if name == "cond" else values
    jaxpr = body.jaxpr
    env = dict(zip(jaxpr.constvars, _constants(body), strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    return Frame(around, number, env, jaxpr.eqns)


def _quiet(closed: ClosedJaxpr, number: int) -> Jaxpr:
    """A loop's body without what it shows, to be run so many times again."""
    jaxpr = closed.jaxpr
    eqns = [eqn for eqn in jaxpr.eqns if not eqn.effects or eqn.outvars]
    if any(eqn.effects for eqn in eqns) or number * len(eqns) > MAX_REPLAYED:
        raise Unreachable
    return jaxpr.replace(eqns=eqns)


def _constants(closed: ClosedJaxpr) -> list[Any]:
    pairs = zip(closed.consts, closed.jaxpr.constvars, strict=True)
    return [constant_value(c, v.aval) if has_data(v.aval) else c for c, v in pairs]


def _scanned(params: Any, body: ClosedJaxpr, values: list[Any], number: int) -> list[Any]:
    """The arguments of one round of a scan."""
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    consts, carry = values[:n_consts], values[n_consts : n_consts + n_carry]
    xs, held, jaxpr = values[n_consts + n_carry :], _constants(body), _quiet(body, number)
    for i in range(number):
        at = _position(params, i)
        carry = run(jaxpr, held, [*consts, *carry, *[x[at] for x in xs]])[:n_carry]
    at = _position(params, number)
    return [*consts, *carry, *[x[at] for x in xs]]


def _position(params: Any, number: int) -> int:
    """Where in its arrays a round of a scan reads and writes."""
    return int(params["length"]) - 1 - number if params["reverse"] else number


def _of_element(batch: Any, values: list[Any], number: int) -> list[Any]:
    """The operands of the loop of one element of a batch."""
    index = np.unravel_index(number, batch.sizes)
    found = []
    for x, axes in zip(values, _batch_axes(batch, len(values)), strict=True):
        for i, axis in zip(index, axes, strict=True):
            x = x if axis is None else np.take(x, i, axis)
        found.append(x)
    return found


def _batch_axes(batch: Any, count: int) -> list[Any]:
    """The axes of each operand of a mapped loop that go along its batch."""
    dims = [*batch.cond_dims, *batch.body_dims]
    return [*dims, *[tuple([0] * len(batch.sizes))] * (count - len(dims))]


def _repeated(params: Any, asks: bool, values: list[Any], number: int) -> list[Any]:
    """The arguments of one round of a loop of unknown length, or of its predicate if that
    ``asks``."""
    body = params["body_jaxpr"]
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    consts, carry = values[n_cond : n_cond + n_body], values[n_cond + n_body :]
    held, jaxpr = _constants(body), _quiet(body, number)
    for _ in range(number):
        carry = run(jaxpr, held, [*consts, *carry])
    return [*(values[:n_cond] if asks else consts), *carry]


# --- from a bad element back ----------------------------------------------------------------------


def blamed(
    kinds: Kinds, frames: list[Frame], v: Any, mask: np.ndarray
) -> tuple[Fault, list[Frame]] | None:
    """What made a bad element in the last of some frames, and the frames of that; None if it was
    given to the first of them."""
    pending = [(frames, v, mask)]
    seen: set[Any] = set()
    while pending:
        frames, v, mask = pending.pop()
        place = (tuple([frame.number for frame in frames]), v)
        if place in seen:
            continue
        seen.add(place)
        search = Search(kinds, frames[-1].env, frames[-1].eqns)
        fault = search.blame(v, mask)
        if fault is not None:
            inner = _last_round(kinds, frames, fault)
            found = None if inner is None else blamed(kinds, *inner)
            return (fault, frames) if found is None else found
        for given, part in search.given:
            before = _before(frames, given, part)
            pending += [] if before is None else [before]
    return None


def _before(
    frames: list[Frame], v: Any, mask: np.ndarray
) -> tuple[list[Frame], Any, np.ndarray] | None:
    """Where an element that the last frame was given comes from; None if from nowhere else."""
    *around, frame = frames
    if frame.around is None or v not in frame.around.body.jaxpr.invars:
        return None  # given to the program, or a constant of it
    eqn, body, asks, batch = frame.around
    place, params, name = body.jaxpr.invars.index(v), eqn.params, eqn.primitive.name
    carry, body_of, shift = None, body, 0
    if batch is not None:
        axes = _batch_axes(batch, len(eqn.invars))[place]
        index = np.unravel_index(frame.number, batch.sizes)
        at = {a: int(i) for i, a in zip(index, axes, strict=True) if a is not None}
        mask = _part_of(eqn.invars[place], tuple(at), mask, at)
    elif name == "scan":
        carry = place - params["num_consts"]
        if carry >= params["num_carry"]:
            at = {0: _position(params, frame.number)}
            mask = _part_of(eqn.invars[place], (0,), mask, at)
            carry = None
    elif name == "while":
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        carry = place - (n_cond if asks else n_body)
        shift = n_body if asks and carry >= 0 else 0 if asks else n_cond
        body_of = flat(params["body_jaxpr"])
    elif name == "cond":
        shift = 1
    if carry is not None and carry >= 0 and frame.number > 0:
        last = _inside(around[-1], Around(eqn, body_of), frame.number - 1)
        evaluated(last.eqns, last.env, None, True)
        x = body_of.jaxpr.outvars[carry]
        return None if type(x) is Literal else ([*around, last], x, mask)
    x = eqn.invars[place + shift]
    return None if type(x) is Literal else (around, x, mask)


def _part_of(x: Any, axes: Sequence[int], mask: np.ndarray, at: dict[int, Any]) -> np.ndarray:
    """A mask of the whole of an operand, from that of the part which a round was given."""
    whole = np.zeros(x.aval.shape, bool)
    whole[tuple([at.get(axis, slice(None)) for axis in range(whole.ndim)])] = mask
    return whole


def _last_round(
    kinds: Kinds, frames: list[Frame], fault: Fault
) -> tuple[list[Frame], Any, np.ndarray] | None:
    """The round of a loop in which its bad result was computed; None where a compiled program looks
    for it instead."""
    eqn, env = fault.eqn, frames[-1].env
    name, params = eqn.primitive.name, eqn.params
    if name not in ("scan", "while") or eqn.primitive.nodes != "loop":
        return None
    body = flat(params["jaxpr" if name == "scan" else "body_jaxpr"])
    most = MAX_REPLAYED_AFTER // max(len(body.eqns), 1)
    place = next(i for i, v in enumerate(eqn.outvars) if v is fault.variable)
    mask = kinds.is_bad(env[fault.variable])
    if name == "scan":
        number = params["length"] - 1
        if number > most:
            return None
        if place >= params["num_carry"]:
            at = int(np.argwhere(mask)[0][0])
            number, mask = _position(params, at), mask[at]
    else:
        if eqn.primitive.remembered(params) is not None:
            return None
        number = _rounds(params, [value_of(env, x) for x in eqn.invars], most) - 1
    if number < 0:
        return None
    try:
        last = _inside(frames[-1], Around(eqn, body), number)
        evaluated(last.eqns, last.env, None, True)
    except Unreachable:
        return None
    x = body.jaxpr.outvars[place]
    return None if type(x) is Literal else ([*frames, last], x, mask)


def _rounds(params: Any, values: list[Any], most: int) -> int:
    """How many rounds a loop of unknown length takes; 0 if it takes more than ``most``."""
    predicate, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    tested, consts = values[:n_cond], values[n_cond : n_cond + n_body]
    carry = values[n_cond + n_body :]
    asked, jaxpr = _quiet(predicate, 0), _quiet(body, 0)
    held, kept = _constants(predicate), _constants(body)
    for number in range(most):
        if not np.all(run(asked, held, [*tested, *carry])[0]):
            return number
        carry = run(jaxpr, kept, [*consts, *carry])
    return 0
