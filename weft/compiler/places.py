"""At how many places the kernels of a program would compute each value.

A stencil reads its operand at several places, and one that follows it would compute the first at
each of them: the values between are written instead. That is decided here, before kernels are
built; finding it out by building them (`pull`) takes longer and leaves values written in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from weft.base.sizes import plain
from weft.compiler.pull import MIN_STORED_ELEMENTS, PLACES
from weft.core.jaxpr import Jaxpr, JaxprEqn, Literal

Place = tuple[Any, ...]
# Places from which a value is one of a stencil's, and those that are told apart.
MIN_STENCIL, MAX_TOLD_APART = 3, 32
# Forms of primitives that read their operands at other places.
_MOVING = ("move", "element")


def between_stencils(
    jaxpr: Jaxpr, fuses: Callable[[JaxprEqn], bool], users: Any, roots: Iterable[Any]
) -> tuple[set[Any], set[Any]]:
    """Values to be written because stencils of them would be computed at too many places, and what
    is written of such stencils, which isn't computed along with what it reads.

    ``fuses`` says which equations are parts of kernels; ``roots`` are written in any case.
    """
    written, found = set(roots), set[Any]()
    if not any(eqn.primitive.form in _MOVING for eqn in jaxpr.eqns):
        return found, set()
    places: dict[Any, set[Place]] = {}
    first: dict[Any, Any] = {}  # the value nearest to the result that is at several places
    given = [v for v in (*jaxpr.invars, *jaxpr.constvars) if users.get(v)]
    # values from the last to the first, then what is given
    order: list[tuple[Any, Any]] = [
        (eqn, v) for eqn in reversed(jaxpr.eqns) if fuses(eqn) for v in eqn.outvars
    ]
    order += [(None, v) for v in given]
    at = {v: i for i, (_, v) in enumerate(order)}
    number = 0
    while number < len(order):
        eqn, v = order[number]
        number += 1
        where, before = _looked_at(v, users.get(v, ()), fuses, places, first)
        if v in written:
            where, before = {_here(v)}, None
        stored = eqn is not None and v not in written and _is_stored(eqn, v)
        most = PLACES[eqn is not None and eqn.primitive.costly]
        chosen = before if before is not None else v if stored else None
        if (stored or eqn is None) and len(where) > most and chosen is not None:
            written.add(chosen)
            found.add(chosen)
            number = at[chosen]  # and all behind it again
            continue
        if before is None and stored and len(where) >= MIN_STENCIL:
            before = v
        places[v], first[v] = where, before
    return found, _read_by(found, order, written, users, fuses) if found else set()


def _read_by(found: set[Any], order: Any, written: set[Any], users: Any, fuses: Any) -> set[Any]:
    """Values that are written and computed from some that are."""
    ends: dict[Any, frozenset[Any]] = {}
    result: set[Any] = set()
    for _, v in order:
        fused = [out for user in users.get(v, ()) if fuses(user) for out in user.outvars]
        behind = frozenset[Any]().union(*(ends.get(out, ()) for out in fused))
        if v in found:
            result |= behind
        ends[v] = frozenset([v]) if v in written else behind
    return result


def _is_stored(eqn: JaxprEqn, v: Any) -> bool:
    """Whether a value is worth the memory: reading it takes fewer accesses than computing it."""
    if eqn.primitive.form != "map":
        return False
    several = sum(type(x) is not Literal and prod(x.aval.shape) > 1 for x in eqn.invars) > 1
    return several and plain(prod(v.aval.shape)) >= MIN_STORED_ELEMENTS


def _here(v: Any) -> Place:
    return (0,) * len(v.aval.shape)


def _looked_at(v: Any, users: Any, fuses: Any, places: Any, first: Any) -> tuple[set[Place], Any]:
    """Where a value is needed for an element of what is written, and the first of a stencil."""
    found: set[Place] = set()
    before = None
    for user in users:
        if not fuses(user):
            found.add(_here(v))
            continue
        for out in user.outvars:
            for place in places.get(out, ()):
                if len(found) < MAX_TOLD_APART:
                    found.update(_moved(user, out, v, place))
            before = before if before is not None else first.get(out)
    return found, before


def _moved(user: JaxprEqn, out: Any, v: Any, place: Place) -> Iterable[Place]:
    """Where an operand is needed for a result at a place: distances along axes, where it is known
    how far a movement goes."""
    name, params, shape = user.primitive.name, user.params, v.aval.shape
    if user.primitive.form == "map":
        return [_around(place, shape) if len(place) == len(shape) else _here(v)]
    if user.primitive.form == "reduce":
        return [_here(v)]
    if any(type(x) is not int for x in place):
        return [(name, place)]
    if _thins_out(name, params):  # places of which each has elements of its own
        return [_here(v)]
    if name == "slice":
        start = params["start_indices"]
        return [_around([x + s for x, s in zip(place, start, strict=True)], shape)]
    if name == "pad":
        if v is not user.invars[0]:
            return [_here(v)]
        low = [low for low, _, _ in params["padding_config"]]
        return [_around([x - s for x, s in zip(place, low, strict=True)], shape)]
    if name == "split":
        axis = params["axis"]
        start = sum(params["sizes"][: list(user.outvars).index(out)])
        return [_around([x + start * (i == axis) for i, x in enumerate(place)], shape)]
    if name == "concatenate":
        return _joined(user, v, place)
    if user.primitive.form == "move":  # the same elements in another order
        return [(name, place) if any(place) else _here(v)]
    return [(id(user), place)]


def _thins_out(name: str, params: Any) -> bool:
    """Whether a movement takes every other element, or puts others between them."""
    if name == "slice":
        return any(step != 1 for step in params["strides"] or ())
    return name == "pad" and any(inner for _, _, inner in params["padding_config"])


def _joined(user: JaxprEqn, v: Any, place: Place) -> Iterable[Place]:
    axis, start = user.params["dimension"], 0
    for x in user.invars:
        if x is v:
            yield _around([p - start * (i == axis) for i, p in enumerate(place)], v.aval.shape)
        start += x.aval.shape[axis]


def _around(place: Iterable[Any], shape: tuple[int, ...]) -> Place:
    """Distances that differ by a whole axis, as those of a roll do, are one."""
    return tuple(
        x % n if type(x) is int and type(n) is int and n else x
        for x, n in zip(place, shape, strict=True)
    )
