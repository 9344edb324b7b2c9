"""Programs with symbolic dimensions, for the sizes of one call.

``Unknowns`` finds what the named dimensions are from the shapes of arguments, and checks that the
shapes are those that the program was exported for. ``instantiated`` is the program with these
values in place of the dimensions; it is typed as if it had been staged for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from weft.base import polynomials as t
from weft.base.errors import InconclusiveDimensionOperation
from weft.core.avals import ShapedArray
from weft.core.dims.dim import Dim, made, mixed, substitute
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from weft.core.registry import lookup
from weft.tree.functions import tree_flatten_with_path, tree_unflatten
from weft.tree.keys import keystr

# Named dimensions are at least this in shape-generic code.
LEAST_GENERIC = 2


class UnexpectedDimVar(Exception):
    """A program uses a dimension that the shapes of its arguments do not tell."""


def dims_in(x: Any) -> Iterator[Dim]:
    """The symbolic dimensions of a program, a type or a parameter."""
    found: dict[Dim, None] = {}

    def note(dim: Dim) -> Dim:
        found[dim] = None
        return dim

    _Mapped(note).value(x)
    return iter(found)


def is_symbolic(avals: Any) -> bool:
    """Whether a type among some has a symbolic dimension."""
    return any(type(n) is Dim for aval in avals for n in aval.shape)


def instantiated(closed: ClosedJaxpr, values: Mapping[str, Any]) -> ClosedJaxpr:
    """A program for values of its dimensions, which may be symbolic themselves."""
    known: dict[Dim, Any] = {}

    def replace(dim: Dim) -> Any:
        n = known.get(dim)
        if n is None:
            n = known[dim] = substitute(dim, values)
        return n

    return _Mapped(replace).value(closed)


class _Mapped:
    """A copy of a program with something else in place of its symbolic dimensions."""

    def __init__(self, replace: Callable[[Dim], Any]) -> None:
        self.replace = replace
        self.avals: dict[int, Any] = {}

    def value(self, x: Any) -> Any:
        """A parameter, a type or a program; the same object where nothing changes."""
        kind = type(x)
        if kind is Dim:
            return self.replace(x)
        if kind in _PLAIN:
            return x
        if kind is ShapedArray:
            return self.aval(x)
        if kind is ClosedJaxpr:
            jaxpr = self.program(x.jaxpr)
            return x if jaxpr is x.jaxpr else ClosedJaxpr(jaxpr, x.consts)
        if kind is Jaxpr:
            return self.program(x)
        if kind is tuple or kind is list:
            items = [self.value(item) for item in x]
            return x if all(a is b for a, b in zip(items, x, strict=True)) else kind(items)
        if kind is dict:
            return {k: self.value(v) for k, v in x.items()}
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            items = [self.value(item) for item in x]
            if all(a is b for a, b in zip(items, x, strict=True)):
                return x
            return tuple.__new__(kind, items)
        return x

    def aval(self, aval: Any) -> Any:
        if type(aval) is not ShapedArray:
            return aval
        found = self.avals.get(id(aval))
        if found is None:
            shape = tuple([self.replace(n) if type(n) is Dim else n for n in aval.shape])
            for n in shape:
                if type(n) is int and n < 0:
                    raise ValueError(
                        f"an array of type {aval.str_short()} would have the shape {shape}"
                    )
            found = aval if shape == aval.shape else aval.update(shape=shape)
            self.avals[id(aval)] = found
        return found

    def program(self, jaxpr: Jaxpr) -> Jaxpr:
        env: dict[Any, Any] = {}

        def bound(v: Any) -> Any:
            aval = self.aval(v.aval)
            made = env[v] = v if aval is v.aval else type(v)(aval)
            return made

        def operand(x: Any) -> Any:
            return x if type(x) is Literal else env[x]

        constvars = [bound(v) for v in jaxpr.constvars]
        invars = [bound(v) for v in jaxpr.invars]
        eqns: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            params = {name: self.value(value) for name, value in eqn.params.items()}
            if eqn.primitive is lookup("dim_as_value") and type(params["dim"]) is not Dim:
                aval = eqn.outvars[0].aval
                env[eqn.outvars[0]] = Literal(np.asarray(params["dim"], aval.dtype)[()], aval)
                continue
            ins = [operand(x) for x in eqn.invars]
            outs = [bound(v) for v in eqn.outvars]
            eqns.append(JaxprEqn(ins, outs, eqn.primitive, params, eqn.effects, eqn.source_info))
        outvars = [operand(x) for x in jaxpr.outvars]
        return Jaxpr(constvars, invars, outvars, eqns, jaxpr.effects, jaxpr.debug_info)


_PLAIN = frozenset([type(None), bool, int, float, complex, str, bytes])


def unknowns_of(closed: ClosedJaxpr, avals: Any, in_tree: Any, name: str) -> Unknowns | None:
    """The named dimensions of a program; None if all its sizes are numbers."""
    dims = list(dims_in(closed))
    if not dims:
        return None
    unknowns = Unknowns(avals, in_tree)
    unknowns.check_constraints(name)
    for dim in dims:
        if unknowns.scope is not None and dim.scope is not unknowns.scope:
            raise mixed(unknowns.solved[0].dim, dim)
        missing = dim.names() - set(unknowns.names)
        if missing:
            known = ", ".join(unknowns.names) or "none"
            raise UnexpectedDimVar(
                f"{name} uses the dimension {', '.join(sorted(missing))}, which does not appear "
                f"in the shapes of its arguments; they have: {known}"
            )
    return unknowns


# --- what dimensions are --------------------------------------------------------------------------


class _Solved:
    """A dimension of an argument that tells the value of a name."""

    __slots__ = ("argument", "axis", "dim", "factor", "name", "rest")

    def __init__(self, argument: int, axis: int, dim: Dim, name: str, factor: int, rest: Any):
        self.argument, self.axis, self.dim = argument, axis, dim
        self.name, self.factor, self.rest = name, factor, rest  # dim == factor * name + rest


class Unknowns:
    """The named dimensions of arguments: how shapes tell their values, and what must hold."""

    def __init__(self, avals: Any, in_tree: Any) -> None:
        self.avals, self.in_tree = avals, in_tree
        self.scope: Any = None
        waiting: list[tuple[int, int, Dim]] = []
        for i, aval in enumerate(avals):
            for axis, n in enumerate(aval.shape):
                if type(n) is not Dim:
                    continue
                if self.scope is not None and n.scope is not self.scope:
                    raise mixed(waiting[0][2], n)
                self.scope = n.scope
                waiting.append((i, axis, n))
        self.solved: list[_Solved] = []
        self.checked: list[tuple[int, int, Dim]] = []
        self._solve(waiting)
        self.names = [found.name for found in self.solved]

    def _solve(self, waiting: list[tuple[int, int, Dim]]) -> None:
        """Find names one after the other by equations that are linear in one unknown."""
        known: set[str] = set()
        while waiting:
            left = []
            for i, axis, dim in waiting:
                unknown = dim.names() - known
                if not unknown:
                    self.checked.append((i, axis, dim))
                    continue
                found = self._linear(dim, next(iter(unknown))) if len(unknown) == 1 else None
                if found is None:
                    left.append((i, axis, dim))
                    continue
                self.solved.append(_Solved(i, axis, dim, *found))
                known.add(found[0])
            if len(left) == len(waiting):
                names = set().union(*[dim.names() - known for _, _, dim in left])
                raise ValueError(
                    f"the values of the dimensions {', '.join(sorted(names))} cannot be found from"
                    f" {', '.join([f'{dim} of {self._place(i, axis)}' for i, axis, dim in left])}:"
                    " each must be the only unknown in some dimension of an argument, as in"
                    f" 'b' or '2*b + 1'.{self._specification()}"
                )
            waiting = left

    @staticmethod
    def _linear(dim: Dim, name: str) -> tuple[str, int, Any] | None:
        found = t.linear(dim.terms, name)
        return None if found is None else (name, found[0], made(found[1], dim.scope))

    def check_constraints(self, function: str) -> None:
        """Refuse constraints on dimensions that no shape of an argument tells."""
        for constraint in self.scope.constraints if self.scope is not None else ():
            missing = Dim(constraint.difference, self.scope).names() - set(self.names)
            if missing and not constraint.equal:
                raise UnexpectedDimVar(
                    f"the constraint {constraint.text!r} of {function} is about"
                    f" {', '.join(sorted(missing))}, which no shape of its arguments has"
                )

    # --- for one call -----------------------------------------------------------------------------

    def values(self, given: Any) -> dict[str, Any]:
        """What the names are for arguments of types; an error if the types are others."""
        for i, (aval, got) in enumerate(zip(self.avals, given, strict=True)):
            self._check_type(i, aval, got)
        values: dict[str, Any] = {}
        for found in self.solved:
            self._take(found, given[found.argument].shape[found.axis], values)
        for i, axis, dim in self.checked:
            size, wanted = given[i].shape[axis], substitute(dim, values)
            if size != wanted:
                raise self._wrong(
                    f"{self._place(i, axis)} is {size}, but {dim} would be {wanted}", values
                )
        for constraint in self.scope.constraints if self.scope is not None else ():
            if not constraint.follows:
                self._check(constraint, values)
        return values

    def _check_type(self, i: int, aval: Any, got: Any) -> None:
        if len(aval.shape) != len(got.shape):
            raise ValueError(
                f"{self._place(i)} has the wrong number of dimensions: the function was exported "
                f"for shape {aval.shape} and is called with {got.shape}"
            )
        if aval.dtype != got.dtype:
            raise ValueError(
                f"{self._place(i)} has the wrong dtype: the function was exported for {aval.dtype}"
                f" and is called with {got.dtype}"
            )
        for axis, (n, size) in enumerate(zip(aval.shape, got.shape, strict=True)):
            if type(n) is not Dim and (type(size) is Dim or n != size):
                raise ValueError(
                    f"{self._place(i, axis)} has the wrong size: the function was exported for "
                    "shape"
                    f" {aval.shape} and is called with {got.shape}"
                )

    def _take(self, found: _Solved, size: Any, values: dict[str, Any]) -> None:
        value = size - substitute(found.rest, values)
        if found.factor != 1:
            value, rest = divmod(value, found.factor)
            if rest != 0:
                raise self._wrong(
                    f"{self._place(found.argument, found.axis)} is {size}, of which {found.dim}"
                    f" leaves a remainder of {rest} for {found.name}",
                    values,
                )
        try:
            good = value >= 1
        except InconclusiveDimensionOperation:
            good = False
        if not good:
            raise self._wrong(
                f"{self._place(found.argument, found.axis)} is {size}, so {found.name} of"
                f" {found.dim} would be {value}, and a dimension is at least 1",
                values,
            )
        values[found.name] = value

    def _check(self, constraint: Any, values: dict[str, Any]) -> None:
        try:
            difference = self._difference(constraint, values)
            good = difference == 0 if constraint.equal else difference >= 0
        except InconclusiveDimensionOperation:
            good, difference = False, "not known"
        except KeyError:  # of dimensions that no argument has
            return
        if not good:
            relation = "0" if constraint.equal else "at least 0"
            size = t.shown(constraint.difference)
            raise self._wrong(
                f"the constraint {constraint.text!r} does not hold: {size} is {difference} instead"
                f" of {relation}",
                values,
            )

    def _difference(self, constraint: Any, values: Mapping[str, Any]) -> Any:
        return substitute(Dim(constraint.difference, self.scope), values)

    def holds_for(self, values: Mapping[str, int]) -> bool:
        """Whether numbers satisfy all constraints."""
        try:
            for constraint in self.scope.constraints:
                difference = self._difference(constraint, values)
                if difference < 0 or (constraint.equal and difference):
                    return False
        except KeyError:
            return False
        return True

    def others(self, values: Mapping[str, int]) -> dict[str, int] | None:
        """Other numbers that satisfy the constraints, or None if none are found quickly."""
        for step in (8, 12, 5, 3, 2, 1, 24, -8, -12, -3, -2, -1):
            for spread in (1, 0):
                tried = {
                    name: n + step * (1 + spread * i) for i, (name, n) in enumerate(values.items())
                }
                if min(tried.values()) >= LEAST_GENERIC and self.holds_for(tried):
                    return tried
        return None

    def _place(self, i: int, axis: int | None = None) -> str:
        from_args = _argument_names(self.in_tree)
        return from_args[i] if axis is None else f"{from_args[i]}.shape[{axis}]"

    def _specification(self) -> str:
        names = _argument_names(self.in_tree)
        told = [
            f"{name}: {aval.shape}"
            for name, aval in zip(names, self.avals, strict=True)
            if is_symbolic([aval])
        ]
        return f" Exported for {', '.join(told)}."

    def _wrong(self, what: str, values: Mapping[str, Any]) -> ValueError:
        found = ", ".join([f"{name} = {n}" for name, n in values.items()])
        found = f" Found {found}." if found else ""
        return ValueError(
            f"the shapes of arguments do not match the symbolic shapes: {what}."
            f"{self._specification()}{found}"
        )


def _argument_names(in_tree: Any) -> list[str]:
    args = tree_unflatten(in_tree, range(in_tree.num_leaves))
    names = []
    for path, _ in tree_flatten_with_path(args)[0]:
        names.append(f"{'args' if path[0].idx == 0 else 'kwargs'}{keystr(path[1:])}")
    return names
