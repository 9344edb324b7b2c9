"""Boxes of arrays that are set or added to, as choices between old and new elements.

``u.at[1:-1, 1:-1].set(f(u))``, as stencils with boundaries are written, reads what it overwrites,
so that it is a copy of the array and a kernel for the box. Chosen by position, both are one kernel.
So is a box of what is computed for it alone: ``(x + y).at[0].set(0)``.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.compiler.fuse import fusible
from weft.compiler.passes.contract import Writer, uses_of
from weft.core.avals import ShapedArray
from weft.core.interpret import literal_value
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var

# Boxes of this part of an array, at least, are worth reading the rest of it.
MIN_PART = 0.5
# How many boxes one kernel may choose between, one after the other.
MAX_BOXES = 4
# Numbers of a constant that says where a box is.
_MAX_PLACES = 16
# What such constants are made of.
_CONSTANT = ("broadcast_in_dim", "concatenate", "convert_element_type", "reshape")

Box = list[tuple[int, int]]  # the first element and the extent, along each axis


def boxes(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with such boxes as choices."""
    closed = _with_places_inside(closed)
    jaxpr = closed.jaxpr
    if not any(_is_box(eqn) for eqn in jaxpr.eqns):
        return closed
    uses = uses_of(jaxpr)
    # a box of these isn't set where they are computed, as something else reads them too
    read_and_set = {_array(e) for e in jaxpr.eqns if _is_box(e) and uses[_array(e)] > 1}
    made: dict[Any, JaxprEqn] = {}
    chosen: dict[Any, int] = {}  # results of choices, and how many these are one after the other
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        found = [eqn]
        x = _array(eqn)
        if x is not None and _is_box(eqn):
            box = _box_of(eqn, made)
            before = chosen.get(x, 0)
            if box is not None and before < MAX_BOXES:
                part = prod(n for _, n in box) / prod(x.aval.shape)
                alone = uses[x] == 1 and x in made and _is_computed(made[x])
                wide = uses[x] > 1 and MIN_PART <= part < 1
                if alone or (wide and eqn.outvars[0] not in read_and_set):
                    found = _choice(eqn, box)
                    chosen[eqn.outvars[0]] = 1 + before if alone else 1
        eqns += found
        made.update((v, eqn) for eqn in found for v in eqn.outvars)
    if not chosen:
        return closed
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), closed.consts)


def _with_places_inside(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program whose loops over rows make constants themselves that say where boxes are."""
    made: dict[Any, JaxprEqn] = {}
    eqns: list[JaxprEqn] = []
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive.name == "scan":
            eqn = _with_own_places(eqn, made)
        eqns.append(eqn)
        made.update((v, eqn) for v in eqn.outvars)
    if all(a is b for a, b in zip(eqns, closed.jaxpr.eqns, strict=True)):
        return closed
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)


def _with_own_places(eqn: JaxprEqn, made: dict[Any, JaxprEqn]) -> JaxprEqn:
    body = eqn.params["jaxpr"]
    invars, first = list(body.jaxpr.invars), list[JaxprEqn]()
    for i, v in enumerate(eqn.invars[: eqn.params["num_consts"]]):
        if type(v) is not Literal and _is_plain(v) and v.aval.dtype.kind == "i" and v.aval.shape:
            if _value(v, made) is not None:
                invars[i] = Var(v.aval)
                first += _copied(v, body.jaxpr.invars[i], made)
    if not first:
        return eqn
    inner = body.jaxpr.replace(invars=invars, eqns=[*first, *body.jaxpr.eqns])
    return eqn.replace(params={**eqn.params, "jaxpr": ClosedJaxpr(inner, body.consts)})


def _copied(v: Any, to: Any, made: dict[Any, JaxprEqn]) -> list[JaxprEqn]:
    """Equations that make a constant once more."""
    eqn, before, invars = made[v], list[JaxprEqn](), list[Any]()
    for x in eqn.invars:
        if type(x) is not Literal:
            own = Var(x.aval)
            before += _copied(x, own, made)
            x = own
        invars.append(x)
    return [*before, eqn.replace(invars=invars, outvars=[to])]


def _array(eqn: JaxprEqn) -> Any:
    """The array that an equation reads first."""
    return None if not eqn.invars or type(eqn.invars[0]) is Literal else eqn.invars[0]


def _is_box(eqn: JaxprEqn) -> bool:
    name = eqn.primitive.name
    sets = name in ("scatter", "scatter-add", "dynamic_update_slice")
    return sets and not eqn.effects and _is_plain(eqn.outvars[0])


def _is_plain(v: Any) -> bool:
    """Whether a value is an array of numbers: no key of random numbers, and no reference."""
    return isinstance(v.aval, ShapedArray) and isinstance(v.aval.dtype, np.dtype)


def _is_computed(eqn: JaxprEqn) -> bool:
    """Whether a kernel computes what an equation makes; a fill is written box by box anyway."""
    return fusible(eqn) and not eqn.primitive.repeats


def _box_of(eqn: JaxprEqn, made: dict[Any, JaxprEqn]) -> Box | None:
    """Where the one box is that an equation writes, if that is known and inside of the array."""
    x, second, *rest = (v.aval for v in eqn.invars)
    if not prod(x.shape):
        return None
    if eqn.primitive.name == "dynamic_update_slice":
        starts = [_value(v, made) for v in eqn.invars[2:]]
        extents = second.shape
        if any(s is None for s in starts):
            return None
        ends = zip(starts, x.shape, extents, strict=True)
        first = [min(max(int(s), 0), n - e) for s, n, e in ends]  # type: ignore[arg-type]
        return list(zip(first, extents, strict=True))
    numbers = eqn.params["dimension_numbers"]
    places = _value(eqn.invars[1], made)
    if places is None or prod(second.shape[:-1]) != 1 or numbers.operand_batching_dims:
        return None
    if any(n != 1 for n in second.shape[:-1]):
        return None
    first, extents = [0] * x.ndim, [1] * x.ndim
    for axis, place in zip(numbers.scatter_dims_to_operand_dims, places.ravel(), strict=True):
        first[axis] = int(place)
    kept = [axis for axis in range(x.ndim) if axis not in numbers.inserted_window_dims]
    for axis, i in zip(kept, numbers.update_window_dims, strict=True):
        extents[axis] = rest[0].shape[i]
    box = list(zip(first, extents, strict=True))
    inside = all(0 <= i and i + n <= size for (i, n), size in zip(box, x.shape, strict=True))
    return box if inside else None


def _value(v: Any, made: dict[Any, JaxprEqn]) -> np.ndarray | None:
    """The value of a small constant."""
    if type(v) is Literal:
        return literal_value(v)
    eqn = made.get(v)
    if eqn is None or eqn.primitive.name not in _CONSTANT or prod(v.aval.shape) > _MAX_PLACES:
        return None
    given = [_value(x, made) for x in eqn.invars]
    if any(x is None for x in given):
        return None
    return np.asarray(eqn.primitive.ref(*given, **eqn.params))


def _choice(eqn: JaxprEqn, box: Box) -> list[JaxprEqn]:
    """New elements in the box, old ones beside it."""
    w = Writer(eqn)
    x: Any = eqn.invars[0]
    new = eqn.invars[1] if eqn.primitive.name == "dynamic_update_slice" else eqn.invars[2]
    shape, dtype, extents = x.aval.shape, x.aval.dtype, tuple(n for _, n in box)
    config = tuple((i, size - i - n, 0) for (i, n), size in zip(box, shape, strict=True))
    if type(new) is Literal:
        new = w.broadcast(new, extents, ())
    new = w.reshape(new, extents)
    new = w.bind("pad", shape, dtype, new, _number(0, dtype), padding_config=config)
    if eqn.primitive.name == "scatter-add":
        new = w.bind("add", shape, dtype, x, new)
    flag = np.dtype(np.bool_)
    mask = w.broadcast(_number(1, flag), extents, ()) if extents else _number(1, flag)
    mask = w.bind("pad", shape, flag, mask, _number(0, flag), padding_config=config)
    return w.done(w.bind("select_n", shape, dtype, mask, x, new))


def _number(value: int, dtype: Any) -> Literal:
    return Literal(np.asarray(value, dtype)[()], ShapedArray((), dtype))
