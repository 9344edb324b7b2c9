"""Programs that differ in sizes alone, as one program in named sizes.

A function staged for two shapes gives two Jaxprs. If they differ in nothing but whole numbers and
in what constants hold, there is one program in named sizes (``weft.base.sizes``) that both are
instances of. Which numbers belong together is read off the two; whether a third Jaxpr is an
instance too is checked number by number, so that nothing depends on a guess.
"""

from __future__ import annotations

import enum
import itertools
import operator
from typing import Any

import numpy as np

from weft import dtypes
from weft.base.record import Record
from weft.base.sizes import LEAST, Size, size_named
from weft.compiler.passes.inline import inline
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from weft.core.primitive import Primitive

_SAME = frozenset([type(None), bool, int, float, complex, str, bytes])
# Parameters that are sizes or distances; whole numbers elsewhere say what is computed, not of how
# much.
_SIZES = frozenset(
    "shape sizes new_sizes start_indices limit_indices slice_sizes length padding padding_config"
    " fft_lengths".split()
)
_programs = itertools.count()


class Different(Exception):
    """Programs that have no common form."""


class Walked:
    """A program taken apart: its structure, its whole numbers, its literals and its constants."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.numbers: list[int] = []
        self.literals: list[Any] = []
        self.consts: list[Any] = []
        self.types: dict[int, Any] = {}
        if closed.effects:
            raise Different
        self.key = self._program(closed)

    def distance(self, other: Walked) -> int:
        """In how many numbers a program of the same structure is another one."""
        return sum(map(operator.ne, self.numbers, other.numbers))

    def _program(self, closed: ClosedJaxpr) -> Any:
        closed = inline(closed)
        jaxpr = closed.jaxpr
        self.consts += closed.consts
        numbers: dict[Any, int] = {}
        kind, key = self._type, []
        for v in itertools.chain(jaxpr.constvars, jaxpr.invars):
            numbers[v] = len(numbers)
            key.append(kind(v.aval))
        for eqn in jaxpr.eqns:
            key.append(eqn.primitive)
            for x in eqn.invars:
                key.append(self._literal(x) if type(x) is Literal else numbers[x])
            for name, value in eqn.params.items():
                key.append(name)
                key.append(self._numbers(value) if name in _SIZES else self._value(value))
            for v in eqn.outvars:
                numbers[v] = len(numbers)
                key.append(kind(v.aval))
        key += [self._literal(x) if type(x) is Literal else numbers[x] for x in jaxpr.outvars]
        return (len(jaxpr.constvars), len(jaxpr.invars), tuple(key))

    def _type(self, aval: Any) -> Any:
        if type(aval) is not ShapedArray:
            raise Different
        self.numbers += aval.shape
        return (len(aval.shape), aval.dtype, aval.weak_type, aval.vma)

    def _literal(self, x: Literal) -> Any:
        self.literals.append(x.val)
        return (type(x.val), x.aval)

    def _numbers(self, value: Any) -> Any:
        """A size, or sizes."""
        if type(value) is int:
            self.numbers.append(value)
            return int
        if isinstance(value, (tuple, list)):
            return (type(value), *[self._numbers(v) for v in value])
        return self._value(value)

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SAME:
            return value
        if kind is tuple or kind is list:
            return (kind, *[self._value(v) for v in value])
        if kind is ClosedJaxpr:
            return self._program(value)
        if kind is ShapedArray:
            return self._type(value)
        if isinstance(value, tuple):  # a record
            return (kind, *[self._value(v) for v in value])
        if isinstance(value, (np.dtype, dtypes.ExtendedDType, enum.Enum, Primitive, type)):
            return value
        if kind is Jaxpr:
            if value.constvars:
                raise Different
            return self._program(ClosedJaxpr(value, []))
        if kind is dict:
            return tuple([(k, self._value(v)) for k, v in value.items()])
        if getattr(kind, "__hash__", None) is None:
            raise Different
        return value


class Fixed(Record):
    """A constant of a program in named sizes, or a literal that is another one for other sizes.

    ``number`` is that of the constant, or ``-1 - number`` that of the literal.
    """

    number: int
    stand_in: Any  # what it is in the program in named sizes
    aval: Any


class Template:
    """A program in named sizes, and what makes another program an instance of it."""

    def __init__(self, first: Walked, second: Walked, closed: ClosedJaxpr) -> None:
        if first.key != second.key:
            raise Different
        self.key = second.key
        program = next(_programs)
        ones, others = np.array(first.numbers, object), np.array(second.numbers, object)
        self.scope: dict[str, int] = {}
        self.firsts: list[int] = []  # where each name's number stands first
        found: dict[tuple[int, int], Any] = {}
        self.sizes: list[Any] = []
        for i, pair in enumerate(zip(ones, others, strict=True)):
            if pair[0] == pair[1]:
                self.sizes.append(pair[0])
                continue
            size = found.get(pair)
            if size is None:
                size = found[pair] = self._named(pair, found, f"n{len(self.firsts)}.{program}", i)
            self.sizes.append(size)
        self.fixed = [i for i, n in enumerate(self.sizes) if type(n) is not Size]
        self.changing = [i for i, n in enumerate(self.sizes) if type(n) is Size]
        pairs = zip(first.literals, second.literals, strict=True)
        self.literal_changes = [i for i, (a, b) in enumerate(pairs) if not _equal(a, b)]
        self.literals = second.literals
        self.stand_ins: list[Fixed] = []
        self.closed = _Rebuilt(self).program(closed)

    def forget(self) -> None:
        """Let go of the arrays of the instance it was made of, once its code is there."""
        for found in self.stand_ins:
            found.stand_in.value = None

    def _named(self, pair: tuple[int, int], found: Any, name: str, place: int) -> Any:
        """A number as one that follows from those before it, or as a name of its own."""
        a, b = pair
        simple = [(c, d, size) for (c, d), size in found.items() if len(size.terms) == 1]
        for c, d, size in simple:
            factor, rest = divmod(a - b, c - d)
            offset = a - factor * c
            if rest == 0 and factor > 0 and (offset == 0 or (factor <= 8 and abs(offset) <= 64)):
                return factor * size + offset
        for (c, d, size), (e, f, other) in itertools.combinations_with_replacement(simple, 2):
            factor, rest = divmod(a, c * e)
            if factor > 0 and rest == 0 and b == factor * d * f:
                return size * other * factor
        if min(pair) < LEAST:
            raise Different
        self.scope[name] = b
        self.firsts.append(place)
        return size_named(name, self.scope)

    def match(self, walked: Walked) -> dict[str, int] | None:
        """The values of the names in which a program is an instance of this one, or None."""
        numbers = walked.numbers
        if walked.key != self.key or len(numbers) != len(self.sizes):
            return None
        values = {name: numbers[i] for name, i in zip(self.scope, self.firsts, strict=True)}
        if min(values.values(), default=LEAST) < LEAST:
            return None
        known: dict[int, int] = {}
        for wanted, n in zip(self.sizes, numbers, strict=True):
            if type(wanted) is Size:
                found = known.get(id(wanted))
                if found is None:
                    found = known[id(wanted)] = wanted.at(values)
                if found != n:
                    return None
            elif wanted != n:
                return None
        changes = set(self.literal_changes)
        for i, (a, b) in enumerate(zip(self.literals, walked.literals, strict=True)):
            if a is not b and i not in changes and not _equal(a, b):
                return None
        return values


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


class _Rebuilt:
    """A program with sizes in place of numbers, gone through as ``Walked`` does."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self.sizes = iter(template.sizes)
        self.literal = self.const = 0

    def program(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        template = self.template
        closed = inline(closed)
        jaxpr = closed.jaxpr
        first = self.const
        self.const += len(closed.consts)
        env: dict[Any, Any] = {}
        constvars: list[Var] = []
        consts: list[Any] = []
        for i, (v, c) in enumerate(zip(jaxpr.constvars, closed.consts, strict=True)):
            env[v] = Var(self._type(v.aval))
            constvars.append(env[v])
            consts.append(StandIn(c))
            template.stand_ins.append(Fixed(first + i, consts[i], v.aval))
        invars = []
        for v in jaxpr.invars:
            env[v] = Var(self._type(v.aval))
            invars.append(env[v])

        def operand(x: Any) -> Any:
            if type(x) is not Literal:
                return env[x]
            number = self.literal
            self.literal += 1
            if number not in template.literal_changes:
                return x
            made = Var(x.aval)
            stand_in = StandIn(np.asarray(x.val, x.aval.dtype))
            template.stand_ins.append(Fixed(-1 - number, stand_in, x.aval))
            constvars.append(made)
            consts.append(stand_in)
            return made

        eqns = []
        for eqn in jaxpr.eqns:
            ins = [operand(x) for x in eqn.invars]
            params = {
                name: self._numbers(value) if name in _SIZES else self._value(value)
                for name, value in eqn.params.items()
            }
            outs: list[Any] = []
            for v in eqn.outvars:
                env[v] = type(v)(self._type(v.aval))
                outs.append(env[v])
            eqns.append(JaxprEqn(ins, outs, eqn.primitive, params, eqn.effects, eqn.source_info))
        outvars = [operand(x) for x in jaxpr.outvars]
        made = Jaxpr(constvars, invars, outvars, eqns, jaxpr.effects, jaxpr.debug_info)
        return ClosedJaxpr(made, consts)

    def _type(self, aval: Any) -> Any:
        return aval.update(shape=self._several(aval.ndim))

    def _several(self, count: int) -> tuple[Any, ...]:
        return tuple([next(self.sizes) for _ in range(count)])

    def _numbers(self, value: Any) -> Any:
        if type(value) is int:
            return next(self.sizes)
        if isinstance(value, (tuple, list)):
            return _like(value, [self._numbers(v) for v in value])
        return self._value(value)

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SAME:
            return value
        if kind is tuple or kind is list:
            return kind([self._value(v) for v in value])
        if kind is ClosedJaxpr:
            return self.program(value)
        if kind is ShapedArray:
            return self._type(value)
        if isinstance(value, (np.dtype, dtypes.ExtendedDType, enum.Enum, Primitive, type)):
            return value
        if isinstance(value, tuple):
            return _like(value, [self._value(v) for v in value])
        if kind is Jaxpr:
            made = self.program(ClosedJaxpr(value, []))
            if made.consts:
                raise Different
            return made.jaxpr
        if kind is dict:
            return {k: self._value(v) for k, v in value.items()}
        return value


class StandIn:
    """Stands for a constant: that of the instance at hand until the code is there."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def _value(self) -> np.ndarray:
        return np.asarray(getattr(self.value, "_value", self.value))


def _like(value: Any, items: list[Any]) -> Any:
    """Items in a list or a tuple of the same class."""
    return items if isinstance(value, list) else tuple.__new__(type(value), items)
