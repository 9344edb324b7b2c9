"""Sizes of programs that are to be shape-generic: polynomials in named dimensions, with values.

A ``Size`` stands where a dimension, a stride or a count of elements stands. It has a value besides,
that of the call at hand. Where a decision cannot be made for all sizes (a comparison), or a plain
number is asked for (``range(n)``, ``np.zeros(n)``, ``str(n)``), the answer is the one for that
value, and what was assumed is recorded as a guard: the program serves other sizes where its guards
hold. So whatever is computed with a size is right, and what isn't prepared for sizes is merely less
general.

Arithmetic with floats is about what takes how long, and is done with the value alone.

>>> n = size_named("n", {"n": 5})
>>> 2 * (n + 3) - n, (4 * n + 8) // 4, 4 * n % 2
(n + 6, n + 2, 0)
>>> n + 1 > n
True
"""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from weft.base.polynomials import (
    NAMES,
    Polynomial,
    Terms,
    combined,
    constant,
    evaluated,
    number,
    operation,
    terms_of,
)

# Values of named dimensions are at least this: empty arrays, and those that are broadcast, have
# programs of their own.
LEAST = 2


class Guard(NamedTuple):
    """What was assumed: how a size compares with 0 (``==``, ``<``), and whether it does."""

    size: Size
    relation: str
    holds: bool

    def is_met(self, values: Mapping[Any, int]) -> bool:
        n = self.size.at(values)
        return (n == 0 if self.relation == "==" else n < 0) is self.holds

    def pins(self) -> set[str]:
        """The names that have one value at most where it holds."""
        atoms = {atom for monomial, _ in self.size.terms for atom in monomial}
        if self.relation != "==" or not self.holds or any(type(a) is not str for a in atoms):
            return set()
        return atoms if len(atoms) == 1 else set()

    def __str__(self) -> str:
        relation = self.relation if self.holds else {"==": "!=", "<": ">="}[self.relation]
        return f"{self.size!r} {relation} 0"


class _Here(threading.local):
    guards: dict[Guard, Any] | None = None
    write: Any = None  # what writes a size into the text of a native function


_here = _Here()


@contextlib.contextmanager
def recording() -> Iterator[dict[Guard, Any]]:
    """Collect what is assumed of sizes meanwhile, in order."""
    before, _here.guards = _here.guards, {}
    try:
        yield _here.guards
    finally:
        _here.guards = before


@contextlib.contextmanager
def writing(write: Any) -> Iterator[None]:
    """Have ``write`` say what stands for a size in text meanwhile, instead of its value."""
    before, _here.write = _here.write, write
    try:
        yield
    finally:
        _here.write = before


class Size(Polynomial):
    """A whole number written in named dimensions, for the values that its scope gives these."""

    __slots__ = ("_value",)
    divides_parts = True

    @property
    def value(self) -> int:
        """What it is for the call at hand."""
        try:
            return self._value
        except AttributeError:
            self._value: int = self.at(self.scope)
            return self._value

    def at(self, values: Mapping[str, int]) -> int:
        """What it is for values of its names."""
        return evaluated(self.terms, values.__getitem__, operator.call)

    def _with_other(self, method: str, other: Any) -> Any:
        return getattr(float(self.value), method)(other) if type(other) is float else NotImplemented

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other)

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << other)

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    # --- comparisons ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        terms = self._terms_of(other)
        if terms is None:
            return self._with_other("__eq__", other)
        return terms == self.terms or self._holds(combined(self.terms, 1, terms, -1), "==")

    def __ne__(self, other: object) -> Any:
        found = self.__eq__(other)
        return found if found is NotImplemented else not found

    __hash__ = Polynomial.__hash__

    def __bool__(self) -> bool:
        return not self._holds(self.terms, "==")

    def _is_negative(self, difference: Terms, relation: str, other: Terms) -> bool:
        return self._holds(difference, "<")

    def _holds(self, terms: Terms, relation: str) -> bool:
        """Whether a polynomial is 0, or below it."""
        low, high = _bounds(terms)
        if high is not None and high < 0:
            return relation == "<"
        if low is not None and (low > 0 or (low == 0 and relation == "<")):
            return False
        value = evaluated(terms, self.scope.__getitem__, operator.call)
        holds = value == 0 if relation == "==" else value < 0
        self._record(terms, relation, holds)
        return holds

    def _record(self, terms: Terms, relation: str, holds: bool) -> None:
        if _here.guards is not None and constant(terms) is None:
            _here.guards[Guard(Size(terms, self.scope), relation, holds)] = None

    # --- as a plain number ------------------------------------------------------------------------

    def __index__(self) -> int:
        """The number itself; what asks for it serves this number only."""
        self._record(combined(self.terms, 1, number(self.value), -1), "==", True)
        return self.value

    __int__ = __trunc__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __truediv__(self, other: Any) -> Any:
        return int(self) / (int(other) if type(other) is Size else other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / int(self)

    def __and__(self, other: Any) -> int:
        return int(self) & int(other)

    def __or__(self, other: Any) -> int:
        return int(self) | int(other)

    __rand__, __ror__ = __and__, __or__

    def bit_length(self) -> int:
        """That of the value; it is the same up to the next power of two."""
        if self.value < 0:
            return int(self).bit_length()
        found = self.value.bit_length()
        assert 1 << found >> 1 <= self < 1 << found  # a guard
        return found

    def bit_count(self) -> int:
        return int(self).bit_count()

    def __str__(self) -> str:
        return str(int(self)) if _here.write is None else _here.write(self)

    def __format__(self, spec: str) -> str:
        return str(self) if spec in ("", "d") else format(int(self), spec)


def size_named(name: str, scope: Mapping[str, int]) -> Size:
    """A dimension of that name."""
    return Size((((name,), 1),), scope)


def computed(function: Callable[..., int], *args: Any) -> Any:
    """What a function computes of numbers; a size where they are sizes.

    A function is known by its identity: the same one is given for the same purpose.
    """
    size = next((n for n in args if type(n) is Size), None)
    if size is None or function in NAMES:
        return function(*args)
    return Size(operation(function, *map(terms_of, args)), size.scope)


def substituted(n: Any, values: Mapping[str, Any]) -> Any:
    """A size with others in place of some of its names."""
    if type(n) is not Size or not values or not n.names() & values.keys():
        return n

    def value(name: str) -> Any:
        return values[name] if name in values else size_named(name, n.scope)

    return evaluated(n.terms, value, computed)


def plain(n: Any) -> Any:
    """The number at hand, for decisions that at most cost time where it is another one."""
    return n.value if type(n) is Size else n


def at_most(n: Any, most: int) -> int:
    """A number up to some; that one where it has no fixed value."""
    return most if type(n) is Size else min(n, most)


def room_for(n: Any, least: int = 1) -> int:
    """The elements that memory of fixed size has for a number of them: where that has no fixed
    value, a power of two, at least some."""
    if type(n) is not Size:
        return n
    return least if n <= least else 1 << (n - 1).bit_length()


def same(a: Any, b: Any) -> bool:
    """Whether sizes, or tuples of them, are written the same: equal whatever their names are."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is Size or type(b) is Size:
        return type(a) is type(b) and is_same(a, b)
    return bool(a == b)


def is_same(a: Size, b: Size) -> bool:
    """Whether sizes are written the same; nothing is assumed about others."""
    return a._hash == b._hash and a.terms == b.terms


def is_one(n: Any) -> bool:
    """Whether a number is 1 for all values of its names."""
    return type(n) is not Size and n == 1


def is_writing() -> bool:
    """Whether sizes stand for themselves in text now."""
    return _here.write is not None


def at(n: Any, values: Mapping[str, int]) -> Any:
    """A size or a number, for values of names."""
    return n.at(values) if type(n) is Size else n


def evaluator(sizes: Sequence[Size], names: Sequence[str]) -> Any:
    """A function of values of names that gives those of all sizes at once."""
    places = {name: f"n{i}" for i, name in enumerate(names)}
    functions: dict[str, Any] = {}
    text = ", ".join([_source(terms_of(size), places, functions) for size in sizes])
    return eval(f"lambda {', '.join(places.values())}: [{text}]", functions)


def _source(terms: Terms, places: Mapping[str, str], functions: dict[str, Any]) -> str:
    parts = []
    for monomial, c in terms:
        factors = [str(c)] if c != 1 or not monomial else []
        for atom in monomial:
            if type(atom) is str:
                factors.append(places[atom])
                continue
            operands = [_source(x, places, functions) for x in atom[1:]]
            sign = _SIGNS.get(atom[0])
            if sign is None:
                name = f"f{id(atom[0])}"
                functions[name] = atom[0]
                factors.append(f"{name}({', '.join(operands)})")
            else:
                factors.append(f"({operands[0]}{sign}{operands[1]})")
        parts.append("*".join(factors))
    return f"({'+'.join(parts) or 0})"


_SIGNS: dict[Any, str] = {operator.floordiv: "//", operator.mod: "%"}


# --- how it is done -------------------------------------------------------------------------------


def _bounds(terms: Terms) -> tuple[int | None, int | None]:
    """What a polynomial is at least and at most, as far as its terms tell one by one."""
    low: int | None = 0
    high: int | None = 0
    for monomial, c in terms:
        ends: tuple[int | None, int | None] = (1, 1)
        for atom in monomial:
            ends = _times(ends, (LEAST, None) if type(atom) is str else _atom_bounds(*atom))
        first, last = ends if c > 0 else ends[::-1]
        low = None if low is None or first is None else low + c * first
        high = None if high is None or last is None else high + c * last
    return low, high


def _times(a: Any, b: Any) -> tuple[int | None, int | None]:
    """The bounds of a product."""
    if a == (1, 1):
        return b
    if a[0] is None or b[0] is None or a[0] < 0 or b[0] < 0:
        return None, None
    return a[0] * b[0], None if a[1] is None or b[1] is None else a[1] * b[1]


def _atom_bounds(function: Any, *operands: Terms) -> tuple[int | None, int | None]:
    if function not in _SIGNS:
        return None, None
    a, b = operands
    low, high = _bounds(b)
    if low is None or low <= 0:
        return None, None
    if function is operator.mod:
        return 0, None if high is None else high - 1
    first, last = _bounds(a)
    n = constant(b)
    if n is not None:
        return None if first is None else first // n, None if last is None else last // n
    return 0 if first is not None and first >= 0 else None, None
