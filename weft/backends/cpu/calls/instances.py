"""Functions traced for named sizes: a call on a new shape fills in numbers and runs.

A function of weft's own is staged on arrays whose dimensions have names, and the values that they
had in some call. What its Python decides by these is recorded as guards, as are the decisions of
the compiler; so the program serves every shape that meets them, and no shape is traced again. What
native code reads is laid out once, as words that are the same for all shapes and places for those
that are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.calls import native
from weft.backends.cpu.calls.layout import LONG_BYTES, Layout, runs, work
from weft.backends.cpu.generic import Generic, Special
from weft.backends.llvm.calls import tables
from weft.backends.llvm.calls.dispatch import address, words_of
from weft.base import knobs
from weft.base.sizes import Guard, Size, evaluator
from weft.compiler.arena import Life, arrange
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr
from weft.runtime.places import HOME, array_type
from weft.runtime.policy import FEW_ELEMENTS, is_exact


class Instance:
    """A program for one shape, callable with the leaves of its arguments."""

    __slots__ = ("call", "generic", "numbers", "out_avals", "table", "types")

    call: Any
    table: np.ndarray
    taken: tuple[int, ...] = ()
    stops = True

    def __init__(self, generic: ShapeGeneric, numbers: list[int]) -> None:
        self.generic = generic
        self.numbers = numbers
        self.out_avals = [
            ShapedArray(tuple([numbers[n] for n in shape]), dtype, weak)
            for shape, dtype, weak in generic.outs
        ]
        self.types = [array_type(aval, HOME) for aval in self.out_avals]

    def elements(self) -> int:
        """How many elements its operands and results have."""
        return self.numbers[-1]

    def __call__(self, number: int, where: int) -> None:
        """What native code asks Python for: errors, told of as by any other program."""
        generic = self.generic
        plan = generic.made.filled(self.numbers, {})
        native.Hosts(plan, self.out_avals)(number, where)


class ShapeGeneric:
    """A program in named sizes, with its code and its tables."""

    def __init__(self, closed: ClosedJaxpr, names: Sequence[str], guards: Sequence[Guard]) -> None:
        self.closed = closed
        made = self.made = Generic(closed, (), names, guards)
        plan = made.assembly
        if plan.hosts or any(result.kind not in ("slot", "same") for result in plan.results):
            raise Special
        self.walks: Any = native.native()
        if self.walks is None:
            raise Special
        # code for exactly these sizes, which large arrays get, may round in another order
        self._is_same = is_exact(closed)
        self._sizes: list[Any] = []  # those that an instance has numbers for
        self._known: dict[Any, int] = {}
        for size in made.numbers.sizes:  # so that the plan can be filled in with the same numbers
            self._known.setdefault(size.terms, len(self._sizes))
            self._sizes.append(size)
        self._lay_out()
        self.outs = [
            (tuple([self._place(n) for n in a.shape]), a.dtype, a.weak_type)
            for a in closed.out_avals
        ]
        total = work(plan.nodes, plan)
        self._work = self._place(total)
        self._runs = [(self._place(r.extent), self._place(r.chunk)) for r in runs(plan.nodes)]
        self._lives = {i: (self._place(life.size), life) for i, life in plan.lives.items()}
        guarded = [g.size for g in made.numbers.guards]
        self._guards = [(g.relation == "==", g.holds) for g in made.numbers.guards]
        wanted: list[Any] = [*self._sizes, *guarded, native.elements_of(closed)]
        self._compute = evaluator(wanted, list(names))

    def _place(self, n: Any) -> int:
        """Where an instance has the number of a size."""
        key = n.terms if type(n) is Size else n
        if key not in self._known:
            self._known[key] = len(self._sizes)
            self._sizes.append(n)
        return self._known[key]

    def _lay_out(self) -> None:
        """Lay all tables out, with places for sizes."""
        closed, made = self.closed, self.made
        given = (made.assembly, made.code, len(closed.in_avals), closed.out_avals)
        found = Layout(*given, knobs.flushes(), self.walks)
        self._template, self._results = found.template, found.results
        words: list[Any] = found.words
        sized = [i for i, word in enumerate(words) if type(word) is Size]
        self._which = np.array([self._place(words[i]) for i in sized], np.intp)
        self._at = np.array(sized, np.intp)
        self._inside = np.array(found.inside, np.intp)
        plain = [0 if type(word) is Size else word for word in words]
        self._base = words_of(plain).view(np.int64)

    def instance(self, values: Sequence[int]) -> Instance | None:
        """The program for values of its names, or None where a guard does not hold."""
        try:
            numbers = self._compute(*values)
        except ZeroDivisionError:
            return None
        count = len(self._sizes)
        for (equal, holds), n in zip(self._guards, numbers[count:-1], strict=True):
            if (n == 0 if equal else n < 0) is not holds:
                return None
        if numbers[-1] > FEW_ELEMENTS and not self._is_same:
            return None
        made = Instance(self, numbers)
        words = self._base.copy()
        words[self._at] = np.array(numbers[:count], np.int64)[self._which]
        words[self._inside] += address(words)
        at = self._results + tables.TYPE
        for i, found in enumerate(made.types):
            words[at + i * tables.RESULT_WORDS] = id(found)
        words[tables.LONG] = numbers[self._work] >= LONG_BYTES
        words[tables.PARALLEL] = any(numbers[n] > numbers[chunk] for n, chunk in self._runs)
        if self._lives:
            lives = {
                i: Life(numbers[n], life.first, life.last) for i, (n, life) in self._lives.items()
            }
            offsets, words[tables.ARENA] = arrange(lives, len(self.made.assembly.slots))
            for i in lives:
                words[self._template + i] = offsets[i]
        words[tables.HOSTS] = id(made)
        made.table = words
        made.call = self.walks.function("call_flat", (words, made.types, made, self))
        return made
