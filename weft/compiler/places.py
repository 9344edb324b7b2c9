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
    here, shape = _here(v), v.aval.shape
    for user in users:
        if not fuses(user):
            found.add(here)
            continue
        form = user.primitive.form
        for out in user.outvars:
            reads: list[Any] | None = None
            same = form == "map" and out.aval.shape == shape
            for place in places.get(out, ()):
                if len(found) >= MAX_TOLD_APART:
                    break
                if same and len(place) == len(shape):  # of an array of this shape
                    found.add(place)
                elif form == "map":
                    found.add(_around(place, shape) if len(place) == len(shape) else here)
                elif form == "reduce":
                    found.add(here)
                else:
                    if reads is None:
                        reads = _distances(user, out, v)
                    found.update(_moved(user, v, place, reads))
            before = before if before is not None else first.get(out)
    return found, before


def _distances(user: JaxprEqn, out: Any, v: Any) -> list[Any]:
    """How far each read of an operand is from a result, along axes; None where that isn't known."""
    ins = [x.aval for x in user.invars]
    result = next(i for i, x in enumerate(user.outvars) if x is out)
    distances = user.primitive.distances
    return [distances(user.params, ins, i, result) for i, x in enumerate(user.invars) if x is v]


def _moved(user: JaxprEqn, v: Any, place: Place, reads: Iterable[Any]) -> Iterable[Place]:
    """Where an operand that is read so far from a result is needed for one at a place: distances
    along axes, where it is known how far a movement goes."""
    primitive, shape = user.primitive, v.aval.shape
    found: list[Place] = []
    numbers = all(type(x) is int for x in place)
    for by in reads:
        if by is not None and numbers:
            moved = zip(place, by, strict=True) if by else ()
            found.append(_around([x + distance for x, distance in moved], shape))
        elif primitive.form == "move":  # the same elements in another order
            found.append((primitive.form, place) if any(place) else _here(v))
        else:
            found.append((id(user), place))
    return found


def _around(place: Iterable[Any], shape: tuple[int, ...]) -> Place:
    """Distances that differ by a whole axis, as those of a roll do, are one."""
    return tuple(
        [
            x % n if x and type(x) is int and type(n) is int and n else x
            for x, n in zip(place, shape, strict=True)
        ]
    )
