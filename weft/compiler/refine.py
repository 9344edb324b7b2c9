"""Elementwise work on both sides of a reshape, done in one shape.

A kernel that writes ``[n, 512]`` cannot compute an array ``[n, 32, 16]`` on the way: the index of
an element is no longer affine. So the array would be written to memory, reshaped and read again.
Where only elementwise operations, broadcasts and reductions are between, as in group
normalisation, all of it is computed in the finest of the shapes instead, and what goes in and
comes out is reshaped, which moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from weft.core.avals import ShapedArray
from weft.core.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var
from weft.core.registry import lookup

Shape = tuple[int, ...]
# Smaller arrays stay as they are: a pass over them costs no more than a kernel launch.
MIN_REFINED = 1 << 16


def refine(jaxpr: Jaxpr, fuses: Callable[[JaxprEqn], bool]) -> Jaxpr:
    """The program with reshapes moved to the ends of what is computed element by element.

    ``fuses`` says which equations are parts of kernels.
    """
    given = {*jaxpr.constvars, *jaxpr.invars}
    made = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    between = [
        eqn
        for eqn in jaxpr.eqns
        if _reshapes(eqn) and fuses(eqn) and _in_the_way(eqn, given, made, fuses)
    ]
    if not between:
        return jaxpr
    groups = _groups(jaxpr, fuses)
    users: dict[Any, list[JaxprEqn]] = {}
    for eqn in jaxpr.eqns:
        for x in eqn.invars:
            if type(x) is not Literal:
                users.setdefault(x, []).append(eqn)
    shapes: dict[Any, Shape] = {}  # the new ones, of all variables of refined groups
    seen: set[int] = set()
    for eqn in between:
        group = groups[eqn.outvars[0]]
        if id(group) in seen:
            continue
        seen.add(id(group))
        shape = common([v.aval.shape for v in group])
        if shape is not None and all(_may(v, shape, group, made, users, fuses) for v in group):
            shapes.update(dict.fromkeys(group, shape))
    return _rewritten(jaxpr, shapes, users, fuses) if shapes else jaxpr


def common(shapes: Iterable[Shape]) -> Shape | None:
    """The coarsest shape whose dimensions can be joined to give all of these, or None.

    >>> common([(6, 512), (6, 32, 16), (3, 2, 512)])
    (3, 2, 32, 16)
    >>> common([(4, 6), (6, 4)])
    """
    ends: set[int] = set()
    for shape in shapes:
        size = 1
        for n in reversed(shape):
            size *= n
            ends.add(size)
    found: list[int] = []
    last = 1
    for size in sorted(ends - {1}):
        if size % last:
            return None
        found.append(size // last)
        last = size
    return tuple(reversed(found))


def parts(shape: Shape, fine: Shape) -> list[tuple[int, ...]] | None:
    """The dimensions of a finer shape that make up each dimension of a shape, or None.

    >>> parts((6, 1, 512), (3, 2, 512))
    [(0, 1), (), (2,)]
    """
    found, at = [], 0
    for n in shape:
        start, size = at, 1
        while size < n and at < len(fine):
            size *= fine[at]
            at += 1
        if size != n:
            return None
        found.append(tuple(range(start, at)))
    return found if at == len(fine) else None


def _reshapes(eqn: JaxprEqn) -> bool:
    return eqn.primitive.reshapes and eqn.params["dimensions"] is None


def _in_the_way(eqn: JaxprEqn, given: set[Any], made: Any, fuses: Any) -> bool:
    """Whether a reshape of something computed joins dimensions and stands between kernels."""
    (x,), (out,) = eqn.invars, eqn.outvars
    if type(x) is Literal or x in given or prod(out.aval.shape) < MIN_REFINED:
        return False
    source = made[x]
    if not fuses(source) or source.primitive.form != "map":
        return False
    fine = tuple(n for n in out.aval.shape if n != 1)
    return parts(x.aval.shape, fine) is None


def _groups(jaxpr: Jaxpr, fuses: Any) -> dict[Any, list[Any]]:
    """For each large variable those that are computed element by element together."""
    groups: dict[Any, list[Any]] = {}

    def group(v: Any) -> list[Any]:
        return groups.setdefault(v, [v])

    for eqn in jaxpr.eqns:
        if not fuses(eqn) or not (eqn.primitive.form == "map" or _reshapes(eqn)):
            continue
        size = prod(eqn.outvars[0].aval.shape)
        if size < MIN_REFINED:
            continue
        together = [*eqn.outvars, *(x for x in eqn.invars if type(x) is not Literal)]
        first = group(together[0])
        for v in together[1:]:
            if prod(v.aval.shape) == size and (other := group(v)) is not first:
                small, first = sorted((first, other), key=len)
                first += small
                groups.update(dict.fromkeys(small, first))
    return groups


def _may(v: Any, shape: Shape, group: list[Any], made: Any, users: Any, fuses: Any) -> bool:
    """Whether a variable of a group can have the shape of the group."""
    if type(v.aval) is not ShapedArray or v.aval.divided is not None:
        return False
    own = v.aval.shape
    fits = parts(own, shape)
    if fits is None:
        return False
    coarse = any(len(axes) > 1 for axes in fits)
    eqn = made.get(v)
    if eqn is not None and fuses(eqn):
        inside = eqn.primitive.form == "map" or _reshapes(eqn) or eqn.primitive.repeats
        if coarse and not inside:
            return False
    for user in users.get(v, ()):
        if not fuses(user) or user.primitive.form == "map" or _reshapes(user):
            continue
        if user.primitive.form == "reduce" and set(user.params) <= {"axes", "out_sharding"}:
            if any(fits[axis] for axis in user.params["axes"]):
                continue
        if coarse:
            return False
    return True


class _Writer:
    """The equations of a program in which some variables have other shapes."""

    def __init__(self, shapes: dict[Any, Shape]) -> None:
        self.shapes = shapes
        self.eqns: list[JaxprEqn] = []
        self.fine: dict[Any, Any] = {}  # variables in the shapes of their groups

    def reshaped(self, x: Any, shape: Shape, info: Any, out: Any = None) -> Any:
        """A variable at another shape."""
        if out is None and x.aval.shape == shape:
            return x
        out = Var(x.aval.update(shape=shape)) if out is None else out
        params = {"new_sizes": shape, "dimensions": None, "sharding": None}
        self.eqns.append(JaxprEqn([x], [out], lookup("reshape"), params, source_info=info))
        return out

    def enter(self, v: Any, info: Any) -> None:
        """A variable that has been made in its own shape, in that of its group."""
        if v in self.shapes:
            self.fine[v] = self.reshaped(v, self.shapes[v], info)

    def at(self, x: Any, own: Shape, fine: Shape, info: Any) -> Any:
        """An operand of a map, for the fine shape of the result. Dimensions of one element, which
        the operation spreads, stay so."""
        if x.aval.shape == () or type(x) is Literal or x in self.shapes:
            return self.fine.get(x, x) if type(x) is not Literal else x
        fits = parts(own, fine)
        assert fits is not None
        shape: list[int] = []
        for n, whole, axes in zip(x.aval.shape, own, fits, strict=True):
            shape += [fine[axis] if n == whole else 1 for axis in axes]
        return self.reshaped(x, tuple(shape), info)

    def map(self, eqn: JaxprEqn) -> None:
        own = next(v for v in eqn.outvars if v in self.shapes)
        shapes = own.aval.shape, self.shapes[own]
        ins = [self.at(x, *shapes, eqn.source_info) for x in eqn.invars]
        outs = []
        for v in eqn.outvars:
            fine = v.aval.update(shape=self.shapes[v]) if v in self.shapes else v.aval
            made = v if type(v) is DropVar or fine.shape == v.aval.shape else Var(fine)
            self.fine[v] = made
            outs.append(made)
        self.eqns.append(eqn.replace(invars=ins, outvars=outs))

    def repeat(self, eqn: JaxprEqn) -> None:
        """A broadcast of an operand without dimensions of one element, which has those of the
        result that it goes along."""
        (x,), (v,) = eqn.invars, eqn.outvars
        shape = self.shapes[v]
        fits = parts(v.aval.shape, shape)
        assert fits is not None
        sizes, dims = x.aval.shape, eqn.params["broadcast_dimensions"]
        axes = [
            axis
            for n, d in zip(sizes, dims, strict=True)
            if n == v.aval.shape[d]
            for axis in fits[d]
        ]
        if type(x) is not Literal:
            x = self.reshaped(x, tuple(shape[axis] for axis in axes), eqn.source_info)
        params = {**eqn.params, "shape": shape, "broadcast_dimensions": tuple(axes)}
        self.fine[v] = Var(v.aval.update(shape=shape))
        self.eqns.append(eqn.replace(invars=[x], outvars=[self.fine[v]], params=params))

    def reduce(self, eqn: JaxprEqn) -> None:
        (x,), (v,) = eqn.invars, eqn.outvars
        shape = self.shapes[x]
        fits = parts(x.aval.shape, shape)
        assert fits is not None
        axes = tuple(axis for d in sorted(eqn.params["axes"]) for axis in fits[d])
        rest = tuple(n for axis, n in enumerate(shape) if axis not in axes)
        same = rest == v.aval.shape or type(v) is DropVar
        made = v if same else Var(v.aval.update(shape=rest))
        params = {**eqn.params, "axes": axes}
        self.eqns.append(eqn.replace(invars=[self.fine[x]], outvars=[made], params=params))
        if not same:
            self.reshaped(made, v.aval.shape, eqn.source_info, v)
        self.enter(v, eqn.source_info)


def _rewritten(jaxpr: Jaxpr, shapes: dict[Any, Shape], users: Any, fuses: Any) -> Jaxpr:
    writer = _Writer(shapes)
    results = {x for x in jaxpr.outvars if type(x) is not Literal}
    infos = {v: eqns[0].source_info for v, eqns in users.items()}
    for v in (*jaxpr.constvars, *jaxpr.invars):
        writer.enter(v, infos.get(v))
    for eqn in jaxpr.eqns:
        refined = any(v in shapes for v in eqn.outvars) and fuses(eqn)
        if refined and eqn.primitive.form == "map":
            writer.map(eqn)
        elif refined and _reshapes(eqn):
            writer.fine[eqn.outvars[0]] = writer.fine[eqn.invars[0]]
        elif refined and eqn.primitive.repeats:
            writer.repeat(eqn)
        elif fuses(eqn) and _reduces_refined(eqn, shapes):
            writer.reduce(eqn)
            continue
        else:
            writer.eqns.append(eqn)
            for v in eqn.outvars:
                writer.enter(v, eqn.source_info)
            continue
        for v in eqn.outvars:  # what others read is reshaped back
            fine = writer.fine[v]
            outside = v in results or any(_reads(user, shapes, fuses) for user in users.get(v, ()))
            if fine is not v and outside:
                writer.reshaped(fine, v.aval.shape, eqn.source_info, v)
    return jaxpr.replace(eqns=writer.eqns)


def _reduces_refined(eqn: JaxprEqn, shapes: dict[Any, Shape]) -> bool:
    if eqn.primitive.form != "reduce" or type(eqn.invars[0]) is Literal:
        return False
    shape = shapes.get(eqn.invars[0])
    if shape is None or not set(eqn.params) <= {"axes", "out_sharding"}:
        return False
    fits: Sequence[tuple[int, ...]] | None = parts(eqn.invars[0].aval.shape, shape)
    return fits is not None and any(fits[axis] for axis in eqn.params["axes"])


def _reads(user: JaxprEqn, shapes: dict[Any, Shape], fuses: Any) -> bool:
    """Whether an equation reads a variable of a group in its own shape."""
    if not fuses(user):
        return True
    inside = any(v in shapes for v in user.outvars)
    if inside and (user.primitive.form == "map" or _reshapes(user)):
        return False
    return not _reduces_refined(user, shapes)
