"""Calls of weft's own functions that differ in sizes alone, told by what is left of their types."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from weft.base import knobs
from weft.base.background import in_background
from weft.base.sizes import LEAST, Size, recording, size_named
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr
from weft.core.trace import typeof
from weft.runtime.array import ArrayImpl
from weft.runtime.client import host
from weft.runtime.places import HOME

# What stages a function for avals, and gives what belongs to the program besides.
Trace = Callable[[list[Any]], tuple[ClosedJaxpr, Any]]

# Programs for calls that differ in sizes alone; shapes without one after which one is made.
MAX_PROGRAMS, SHAPES = 4, 3
# Calls that differ in more than sizes, of one function.
KINDS = 64
_numbers = itertools.count()
_SMALL = range(-(1 << 31), 1 << 31)


class Named:
    """Calls of one function that differ in sizes alone, and the programs that serve them."""

    def __init__(self) -> None:
        self.shapes = 0  # that have come
        self.failed = False
        self.programs: list[tuple[list[int], list[int], Any, Any]] = []

    def find(self, dims: list[int]) -> tuple[Any, Any] | None:
        """The program for dimensions, and what was staged with it."""
        for firsts, names, generic, rest in self.programs:
            values = [dims[i] for i in firsts]
            for n, name in zip(dims, names, strict=True):
                if values[name] != n:
                    break
            else:
                found = generic.instance(values)
                if found is not None:
                    return found, rest
        return None

    def came(self, leaves: Sequence[Any], trace: Trace) -> None:
        """Note that no program served a call; have one made in the background after some."""
        self.shapes += 1
        if self.shapes == SHAPES and not self.failed:
            self.shapes = 0
            avals = [typeof(x) for x in leaves]
            in_background(lambda: self.make(avals, trace))

    def make(self, avals: Sequence[Any], trace: Trace) -> None:
        """Have a program for arguments of some types; equal dimensions are taken for one."""
        number = next(_numbers)
        scope: dict[str, int] = {}
        known: dict[int, Size] = {}
        firsts: list[int] = []
        names: list[int] = []

        def named(n: int) -> Any:
            if n < LEAST:
                return n
            if n not in known:
                name = f"n{len(known)}.e{number}"  # types are interned: a name is of one program
                scope[name] = n
                known[n] = size_named(name, scope)
                firsts.append(len(names))
            names.append(list(known).index(n))
            return known[n]

        sized = [a.update(shape=tuple([named(n) for n in a.shape])) for a in avals]
        try:
            with recording() as guards:
                closed, rest = trace(sized)
            generic = host().shape_generic(closed, list(scope), list(guards))
        except Exception:
            # it is compiled for each shape then, whatever was the matter
            self.failed = True
            return
        self.programs = [(firsts, names, generic, rest), *self.programs]
        self.failed = len(self.programs) >= MAX_PROGRAMS


class Kinds:
    """The calls of one function, by what is left of them without sizes."""

    __slots__ = ("_named",)

    def __init__(self) -> None:
        self._named: dict[Any, Named] = {}

    def find(
        self, leaves: Sequence[Any], structure: tuple[Any, ...], trace: Trace
    ) -> tuple[Any, Any] | None:
        """The program of a call on leaves, and what was staged with it; None where there is none.

        ``structure`` is what of the call is part of its program besides. After some calls without
        a program, one is made in the background.
        """
        found = dimensions(leaves)
        if found is None:
            return None
        kinds, dims = found
        thread = knobs.thread
        key = (knobs.context_key(), thread.denormals, *kinds, *structure)
        named = self._named.get(key)
        if named is None:
            if len(self._named) >= KINDS:
                self._named.clear()
            named = self._named[key] = Named()
        served = named.find(dims)
        if served is None:
            named.came(leaves, trace)
        return served


def dimensions(leaves: Sequence[Any]) -> tuple[list[Any], list[int]] | None:
    """The types of leaves apart from sizes, and these; None where that is not all they are."""
    kinds: list[Any] = []
    dims: list[int] = []
    for x in leaves:
        if type(x) is ArrayImpl:
            aval = x.aval
            if x._type.placement is not HOME or type(aval) is not ShapedArray:
                return None
            pattern = []
            for n in aval.shape:
                if n >= LEAST:
                    dims.append(n)
                    pattern.append(-1)
                else:
                    pattern.append(n)
            kinds.append((aval.dtype, aval.weak_type, tuple(pattern)))
        elif type(x) is float or type(x) is bool or (type(x) is int and x in _SMALL):
            kinds.append(type(x))
        else:
            return None
    return (kinds, dims) if dims else None
