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
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.base.lazy import Late
from weft.base.polynomials import linear
from weft.base.record import Record
from weft.base.sizes import LEAST, Size, plain, recording, size_named, substituted
from weft.compiler.passes.inline import inline
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from weft.core.primitive import Primitive

# loaded for batched loops
own = Late("weft.compiler.own_loops")

_SAME = frozenset([type(None), bool, int, float, complex, str, bytes])
# Parameters that are sizes or distances; whole numbers elsewhere say what is computed, not of how
# much.
_SIZES = frozenset(
    "shape sizes new_sizes start_indices limit_indices slice_sizes length padding padding_config"
    " fft_lengths reps permutation_size".split()
)
# Elements of an array, and of all arguments and results of a program, up to which it is small.
SMALL_ELEMENTS = 1 << 13
MAX_FIXED_LITERAL = 8
# Floats among the literals that a program reads: more of them are coefficients.
MAX_LOOSE = 16
_programs = itertools.count()


class Different(Exception):
    """Programs that have no common form."""


def _has_own_loop(eqn: JaxprEqn) -> bool:
    """Whether threads run a batched loop, an element each."""
    return eqn.primitive.compacts(eqn.params) and own.has_own_loop(eqn)


class Walked:
    """A program taken apart: its structure, its whole numbers, its literals and its constants."""

    def __init__(self, closed: ClosedJaxpr, own_loops: bool = False) -> None:
        self.own_loops = own_loops  # whether threads run batched loops, which is for one size
        self.numbers: list[int] = []
        self.literals: list[Any] = []
        self.loose: list[bool] = []
        self.consts: list[Any] = []
        self.types: dict[int, Any] = {}
        if closed.effects or knobs.thread.reproducible:
            raise Different  # the order of sums is written for one size
        self.in_while = 0  # loops around the program at hand whose length is not known
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
            if eqn.primitive.one_size(eqn.params) or (self.own_loops and _has_own_loop(eqn)):
                raise Different
            key.append(eqn.primitive)
            for x in eqn.invars:
                key.append(self._literal(x, eqn) if type(x) is Literal else numbers[x])
            loops = eqn.primitive.rounds(eqn.params) is None
            self.in_while += loops
            for name, value in eqn.params.items():
                key.append(name)
                key.append(self._numbers(value) if name in _SIZES else self._value(value))
            self.in_while -= loops
            for v in eqn.outvars:
                numbers[v] = len(numbers)
                key.append(kind(v.aval))
        key += [self._literal(x) if type(x) is Literal else numbers[x] for x in jaxpr.outvars]
        return (len(jaxpr.constvars), len(jaxpr.invars), tuple(key))

    def _type(self, aval: Any) -> Any:
        if type(aval) is not ShapedArray:
            raise Different
        self.numbers += aval.shape
        return (len(aval.shape), aval.dtype, aval.weak_type, aval.mat)

    def _literal(self, x: Literal, eqn: Any = None) -> Any:
        self.literals.append(x.val)
        loose = False  # whether others may have another number there
        if eqn is not None and eqn.primitive.counts and x.aval.ndim == 0:
            kind = x.aval.dtype.kind
            if kind == "f" and not self.in_while:
                loose = kind in eqn.primitive.counts and float(x.val) not in (-1.0, 0.0, 1.0)
            elif kind in "iu" and x.aval.dtype.itemsize >= 4:
                loose = abs(int(x.val)) > MAX_FIXED_LITERAL
        self.loose.append(loose)
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


class StandIn:
    """Stands for a constant of a program in named sizes, or for a literal that is another one for
    other sizes: that of the instance at hand until the code is there.

    ``number`` is that of the constant, or ``-1 - number`` that of the literal.
    """

    def __init__(self, number: int, value: Any, aval: Any) -> None:
        self.number, self.value, self.aval = number, value, aval

    @property
    def _value(self) -> np.ndarray:
        return np.asarray(getattr(self.value, "_value", self.value))


class Template:
    """A program in named sizes, and what makes another program an instance of it."""

    def __init__(
        self, walked: Walked, named: Named, literal_changes: list[int], closed: ClosedJaxpr
    ) -> None:
        """``named`` has the sizes that stand for its numbers; some literals are the instance's."""
        self.key = walked.key
        self.sizes, self.scope, self.firsts, self.least = named
        self.changing = [i for i, n in enumerate(self.sizes) if type(n) is Size]
        self.literal_changes = literal_changes
        self.literals = walked.literals
        self.stand_ins: list[StandIn] = []
        self.closed = _Rebuilt(self).program(closed)

    def forget(self) -> None:
        """Let go of the arrays of the instance it was made of, once its code is there."""
        for found in self.stand_ins:
            found.value = None

    def match(self, walked: Walked) -> dict[str, int] | None:
        """The values of the names in which a program is an instance of this one, or None."""
        numbers = walked.numbers
        if walked.key != self.key or len(numbers) != len(self.sizes):
            return None
        values = {name: numbers[i] for name, i in zip(self.scope, self.firsts, strict=True)}
        if min(values.values(), default=LEAST) < LEAST:
            return None
        if any(values[name] < n for name, n in self.least.items()):
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


class Named(Record):
    """The sizes of a program, in the order of its numbers, and the names that they are written in.

    ``firsts`` says where each name's number stands; some names are at least some number.
    """

    sizes: list[Any]
    scope: dict[str, int]
    firsts: list[int]
    least: dict[str, int]


def between(first: Walked, second: Walked, closed: ClosedJaxpr) -> Template:
    """What two programs are instances of: numbers in which they differ have names."""
    if first.key != second.key:
        raise Different
    program = next(_programs)
    found: dict[tuple[int, int], Any] = {}
    named = Named([], {}, [], {})
    for i, pair in enumerate(zip(first.numbers, second.numbers, strict=True)):
        size: Any = pair[0]
        if pair[0] != pair[1]:
            size = found.get(pair)
            if size is None:
                size = _derived(pair, found)
                if size is None:
                    if min(pair) < LEAST:
                        raise Different
                    name = f"n{len(named.firsts)}.{program}"
                    named.scope[name] = pair[1]
                    named.firsts.append(i)
                    size = size_named(name, named.scope)
                found[pair] = size
        named.sizes.append(size)
    pairs = zip(first.literals, second.literals, strict=True)
    changes = [i for i, (a, b) in enumerate(pairs) if not _equal(a, b)]
    return Template(second, named, changes, closed)


def _derived(pair: tuple[int, int], found: Mapping[tuple[int, int], Any]) -> Any:
    """A number as one that follows from those before it, or None."""
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
    return None


def is_large(closed: ClosedJaxpr) -> bool:
    """Whether a program has so many elements that it matters how its loops are cut and tiled."""
    return sum([prod(a.shape) for a in [*closed.in_avals, *closed.out_avals]]) > SMALL_ELEMENTS


def alone(walked: Walked, closed: ClosedJaxpr, short: int) -> Template:
    """What a program is an instance of: all of its numbers have names, but for 0 and 1.

    Dimensions of large arrays stay numbers up to ``short``: several rows that are so short fill a
    vector.
    """
    try:
        named = _Namer(walked.numbers, short).program(inline(closed))
    except Exception:
        # it carries programs, or a rule does not see that two names are equal
        named = _Namer(walked.numbers, short if is_large(closed) else 0).by_value()
    if not named.scope:
        raise Different
    changes = [i for i, loose in enumerate(walked.loose) if loose]
    floats = [i for i in changes if isinstance(walked.literals[i], (float, np.floating))]
    if len(floats) > MAX_LOOSE:
        changes = [i for i in changes if i not in floats]
    return Template(walked, named, changes, closed)


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


class _Namer:
    """Names for the numbers of one program, as few as the rules of its operations leave."""

    def __init__(self, numbers: list[int], short: int = 0) -> None:
        self.numbers = numbers
        self.suffix = f".a{next(_programs)}"
        self.short = short
        self.sizes: list[Any] = []
        self.scope: dict[str, int] = {}
        self.least: dict[str, int] = {}
        self.places: dict[str, int] = {}  # where names stand first
        self.solved: dict[str, Any] = {}  # names that are written in others

    def by_value(self) -> Named:
        """Equal numbers are one."""
        known: dict[int, Any] = {}
        for n in self.numbers:
            if n in known:
                self.sizes.append(known[n])
            else:
                known[n] = self._fresh(self.short)
        return self._settled()

    def program(self, closed: ClosedJaxpr) -> Named:
        """Every number of an argument or a parameter has its own name, unless a rule of an
        operation says that it equals something else."""
        jaxpr = closed.jaxpr
        env: dict[Any, Any] = {}
        for v in itertools.chain(jaxpr.constvars, jaxpr.invars):
            short = self._short_rows(v.aval.shape)
            env[v] = v.aval.update(shape=tuple([self._fresh(short) for _ in v.aval.shape]))
        for eqn in jaxpr.eqns:
            params = {}
            for name, value in eqn.params.items():
                if type(value) in (ClosedJaxpr, Jaxpr, ShapedArray, dict):
                    raise Different
                params[name] = self._parameter(value) if name in _SIZES else value
            avals = [x.aval if type(x) is Literal else env[x] for x in eqn.invars]
            if eqn.primitive.form == "map":
                self._alike([a.shape for a in avals if a.shape])
            avals = [self._current(a) for a in avals]
            with recording() as guards:
                outs = eqn.primitive.shape(*avals, **params)
            for guard in guards:
                if guard.relation == "==" and guard.holds:
                    self._solve(guard.size)
            outs = outs if eqn.primitive.multiple_results else [outs]
            for v, aval in zip(eqn.outvars, outs, strict=True):
                env[v] = aval
                self._result(aval)
        if len(self.sizes) != len(self.numbers):
            raise Different
        return self._settled()

    def _alike(self, shapes: Sequence[tuple[Any, ...]]) -> None:
        """Take for equal what operations on elements ask to be equal."""
        for dims in zip(*shapes, strict=True):
            first, *others = [n for n in dims if plain(n) != 1] or [1]
            for n in others:
                self._solve(first - n)

    def _current(self, aval: Any) -> Any:
        """A type by what is known of names by now."""
        if not self.solved or not aval.shape:
            return aval
        return aval.update(shape=tuple([substituted(n, self.solved) for n in aval.shape]))

    def _short_rows(self, shape: Sequence[Any]) -> int:
        """Up to which number dimensions of an array stay numbers."""
        is_large = len(shape) > 1 and prod(map(plain, shape)) > SMALL_ELEMENTS
        return self.short if is_large else 0

    def _parameter(self, value: Any) -> Any:
        if type(value) is int:
            return self._fresh()
        if isinstance(value, (tuple, list)):
            return _like(value, [self._parameter(v) for v in value])
        return value

    def _result(self, aval: Any) -> None:
        short = self._short_rows(aval.shape)
        for n in aval.shape:
            if plain(n) != self.numbers[len(self.sizes)]:
                raise Different
            self.sizes.append(n)
            if type(n) is Size and LEAST <= plain(n) <= short:
                self._solve(n - plain(n))

    def _fresh(self, short: int = 0) -> Any:
        n = self.numbers[len(self.sizes)]
        size: Any = n
        if n >= LEAST and n > short:
            name = f"n{len(self.scope)}{self.suffix}"
            self.scope[name] = n
            self.places[name] = len(self.sizes)
            if short:
                self.least[name] = short + 1
            size = size_named(name, self.scope)
        self.sizes.append(size)
        return size

    def _solve(self, size: Any) -> None:
        """Take a size for 0: its last name that can be is written in the others."""
        size = substituted(size, self.solved)
        if type(size) is not Size:
            return
        for name in sorted(size.names(), key=self.places.__getitem__, reverse=True):
            found = linear(size.terms, name)
            if found is None or abs(found[0]) != 1:
                continue
            rest = size_named(name, self.scope) - size * found[0]
            self.solved = {k: substituted(v, {name: rest}) for k, v in self.solved.items()}
            self.solved[name] = rest
            return

    def _settled(self) -> Named:
        sizes = [substituted(n, self.solved) for n in self.sizes]
        for name in self.solved:
            del self.scope[name]
            self.least.pop(name, None)
        return Named(sizes, self.scope, [self.places[name] for name in self.scope], self.least)


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
            consts.append(StandIn(first + i, c, env[v].aval))
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
            constvars.append(made)
            consts.append(StandIn(-1 - number, np.asarray(x.val, x.aval.dtype), x.aval))
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
        template.stand_ins += consts
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


def _like(value: Any, items: list[Any]) -> Any:
    """Items in a list or a tuple of the same class."""
    return items if isinstance(value, list) else tuple.__new__(type(value), items)
