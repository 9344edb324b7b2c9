"""Sizes that are not fixed: whole numbers written in named dimensions.

A ``Size`` stands where a dimension, a stride or a count of elements stands. It is a polynomial with
whole coefficients in its atoms: names, quotients and remainders of other sizes, and what functions
compute of them.

A size made for a program that is to be shape-generic has a value besides, that of the call at hand.
Where a decision cannot be made for all sizes (a comparison), or a plain number is asked for
(``range(n)``, ``np.zeros(n)``, ``str(n)``), the answer is the one for that value, and what was
assumed is recorded as a guard: the program serves other sizes where its guards hold. So whatever is
computed with a size is right, and what isn't prepared for sizes is merely less general.

Arithmetic with floats is about what takes how long, and is done with the value alone.

A size without a value belongs to a symbolic shape; a comparison that depends on it is an error.

>>> n = size_named("n")
>>> 2 * (n + 3) - n, (4 * n + 8) // 4, 4 * n % 2
(n + 6, n + 2, 0)
>>> n + 1 > n
True
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from weft.base.errors import InconclusiveDimensionOperation

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


_SIGNS = {"floordiv": "//", "mod": "%"}

Monomial = tuple[Any, ...]  # atoms, in order; repeated for powers
Terms = tuple[tuple[Monomial, int], ...]


class Size:
    """A whole number written in named dimensions."""

    __slots__ = ("_hash", "_value", "scope", "terms")

    def __init__(self, terms: Terms, scope: Mapping[str, int] | None) -> None:
        self.terms = terms
        self.scope = scope  # the values of its names, for the call at hand
        self._hash = hash(terms)
        self._value: int | None = None

    @property
    def value(self) -> int | None:
        """What it is for the call at hand."""
        if self._value is None and self.scope is not None:
            self._value = self.at(self.scope)
        return self._value

    def at(self, values: Mapping[str, int]) -> int:
        """What it is for values of its names."""
        total = 0
        for monomial, c in self.terms:
            for atom in monomial:
                c *= values[atom] if type(atom) is str else _atom_at(atom, values)
            total += c
        return total

    def names(self) -> set[str]:
        """The names that it is written in."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if type(atom) is str:
                    found.add(atom)
                else:
                    found.update(*[n.names() for n in atom if type(n) is Size])
        return found

    # --- arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return _sum(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _sum(self, other, -1)

    def __rsub__(self, other: Any) -> Any:
        found = _sum(self, other, -1)
        return found if found is NotImplemented else -found

    def __neg__(self) -> Size:
        return Size(tuple([(m, -c) for m, c in self.terms]), self.scope)

    def __pos__(self) -> Size:
        return self

    def __mul__(self, other: Any) -> Any:
        if type(other) is float and self.scope is not None:  # what takes how long
            return plain(self) * other
        other = _whole(other)
        if other is None:
            return NotImplemented
        if type(other) is int:
            if other == 1:
                return self
            return Size(tuple([(m, c * other) for m, c in self.terms]), self.scope) if other else 0
        found: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                both = tuple(sorted(m + n, key=_order)) if m and n else m or n
                found[both] = found.get(both, 0) + c * d
        return _made(found, self.scope or other.scope)

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Any:
        found: Any = 1
        for _ in range(power):
            found = self * found
        return found

    def __floordiv__(self, other: Any) -> Any:
        return _divided(self, other, 0)

    def __rfloordiv__(self, other: Any) -> Any:
        return _divided(other, self, 0)

    def __mod__(self, other: Any) -> Any:
        return _divided(self, other, 1)

    def __rmod__(self, other: Any) -> Any:
        return _divided(other, self, 1)

    def __divmod__(self, other: Any) -> Any:
        return _divided(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return _divided(other, self)

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other)

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << other)

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    # --- comparisons ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Any:
        return True if self is other else _compared(_sum(self, other, -1), "==")

    def __ne__(self, other: object) -> Any:
        found = self.__eq__(other)
        return found if found is NotImplemented else not found

    def __lt__(self, other: Any) -> Any:
        return _compared(_sum(self, other, -1), "<")

    def __gt__(self, other: Any) -> Any:
        return _compared(self.__rsub__(other), "<")

    def __ge__(self, other: Any) -> Any:
        found = self.__lt__(other)
        return found if found is NotImplemented else not found

    def __le__(self, other: Any) -> Any:
        found = self.__gt__(other)
        return found if found is NotImplemented else not found

    def __bool__(self) -> bool:
        return not _compared(self, "==")

    def __hash__(self) -> int:
        return self._hash

    # --- as a plain number ------------------------------------------------------------------------

    def __index__(self) -> int:
        """The number itself; what asks for it serves this number only."""
        value = self.value
        if value is None:
            raise InconclusiveDimensionOperation(
                f"the symbolic dimension {self!r} is used where a number must be known"
            )
        _record(self - value, "==", True)
        return value

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
        if self.value is None or self.value < 0:
            return int(self).bit_length()
        found = self.value.bit_length()
        assert 1 << found >> 1 <= self < 1 << found  # a guard
        return found

    def bit_count(self) -> int:
        return int(self).bit_count()

    def __str__(self) -> str:
        if self.scope is None:
            return repr(self)
        return str(int(self)) if _here.write is None else _here.write(self)

    def __format__(self, spec: str) -> str:
        return str(self) if spec in ("", "d") else format(int(self), spec)

    def __repr__(self) -> str:
        parts = []
        for monomial, c in self.terms:
            factors = [_shown(a) for a in monomial]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            parts.append(f"{'-' if c < 0 else '+'} {'*'.join(factors)}")
        text = " ".join(parts)
        return text[2:] if text.startswith("+") else "-" + text[2:]


def size_named(name: str, scope: Mapping[str, int] | None = None) -> Size:
    """A dimension of that name."""
    return Size((((name,), 1),), scope)


def computed(function: Callable[..., int], *args: Any) -> Any:
    """What a function computes of numbers; a size where they are sizes.

    A function is known by its identity: the same one is given for the same purpose.
    """
    scope = next((n.scope for n in args if type(n) is Size), None)
    if scope is None:
        return function(*args)
    return Size(((((function, *args),), 1),), scope)


def plain(n: Any) -> Any:
    """The number at hand, for decisions that at most cost time where it is another one."""
    return n.value if type(n) is Size and n.scope is not None else n


def at_most(n: Any, most: int) -> int:
    """A number up to some; that one where it has no fixed value."""
    return most if type(n) is Size else min(n, most)


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


def shown(n: Any) -> str:
    """A size as people read it; nothing is assumed about it."""
    return repr(n) if type(n) is Size else str(n)


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
    text = ", ".join([_source(size, places, functions) for size in sizes])
    return eval(f"lambda {', '.join(places.values())}: [{text}]", functions)


def _source(n: Any, places: Mapping[str, str], functions: dict[str, Any]) -> str:
    if type(n) is not Size:
        return f"({n})"
    parts = []
    for monomial, c in n.terms:
        factors = [str(c)] if c != 1 or not monomial else []
        for atom in monomial:
            if type(atom) is str:
                factors.append(places[atom])
                continue
            args = [_source(x, places, functions) for x in atom[1:]]
            sign = _SIGNS.get(atom[0])
            if sign is None:
                name = f"f{id(atom[0])}"
                functions[name] = atom[0]
                factors.append(f"{name}({', '.join(args)})")
            else:
                factors.append(f"({args[0]}{sign}{args[1]})")
        parts.append("*".join(factors))
    return f"({'+'.join(parts)})"


# --- how it is done -------------------------------------------------------------------------------


def _record(size: Any, relation: str, holds: bool) -> None:
    if _here.guards is not None and type(size) is Size:
        guard = Guard(size, relation, holds)
        if guard not in _here.guards:
            _here.guards[guard] = None


def _compared(difference: Any, relation: str) -> Any:
    """Whether a difference is 0, or below it."""
    if type(difference) is not Size:
        if difference is NotImplemented:
            return NotImplemented
        return difference == 0 if relation == "==" else difference < 0
    low, high = _bounds(difference)
    if high is not None and high < 0:
        return relation == "<"
    if low is not None and (low > 0 or (low == 0 and relation == "<")):
        return False
    value = difference.value
    if value is None:
        words = "0" if relation == "==" else "less than 0"
        raise InconclusiveDimensionOperation(
            f"whether {difference!r} is {words} isn't the same for all values of its dimensions"
        )
    holds = value == 0 if relation == "==" else value < 0
    _record(difference, relation, holds)
    return holds


def _bounds(size: Any) -> tuple[int | None, int | None]:
    """What a size is at least and at most, as far as its terms tell one by one."""
    if type(size) is not Size:
        return size, size
    low: int | None = 0
    high: int | None = 0
    least = LEAST if size.scope is not None else 1
    for monomial, c in size.terms:
        ends: tuple[int | None, int | None] = (1, 1)
        for atom in monomial:
            ends = _times(ends, (least, None) if type(atom) is str else _atom_bounds(atom))
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


def _atom_bounds(atom: Any) -> tuple[int | None, int | None]:
    if atom[0] not in _SIGNS:
        return None, None
    kind, a, b = atom
    low, high = _bounds(b)
    if low is None or low <= 0:
        return None, None
    if kind == "mod":
        return 0, None if high is None else high - 1
    first, last = _bounds(a)
    if type(b) is int:
        return None if first is None else first // b, None if last is None else last // b
    return 0 if first is not None and first >= 0 else None, None


def _order(atom: Any) -> tuple[int, str]:
    return (0, atom) if type(atom) is str else (1, _shown(atom))


def _whole(n: Any) -> Any:
    """A number as an int or a Size; None if it is neither."""
    if type(n) is int or type(n) is Size:
        return n
    if isinstance(n, (float, complex)) or not hasattr(n, "__index__"):
        return None
    return n.__index__()


def _made(found: Mapping[Monomial, int], scope: Any) -> Any:
    terms = [(m, c) for m, c in found.items() if c]
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    if len(terms) > 1:
        terms.sort(key=lambda t: (-len(t[0]), [_order(a) for a in t[0]]))
    return Size(tuple(terms), scope)


def _sum(a: Size, b: Any, sign: int) -> Any:
    """``a + sign * b``."""
    if type(b) is float and a.scope is not None:
        return plain(a) + sign * b
    b = _whole(b)
    if b is None:
        return NotImplemented
    if type(b) is int:
        if b == 0:
            return a
        *rest, last = a.terms
        const = sign * b
        if last[0]:
            return Size((*a.terms, ((), const)), a.scope)
        const += last[1]
        if const:
            return Size((*rest, ((), const)), a.scope)
        return Size(tuple(rest), a.scope)
    if is_same(a, b):
        return 0 if sign < 0 else a * 2
    found = dict(a.terms)
    for m, c in b.terms:
        found[m] = found.get(m, 0) + sign * c
    return _made(found, a.scope or b.scope)


def _divided(a: Any, b: Any, which: int | None = None) -> Any:
    """Quotient, rounded down, and remainder, or one of them."""
    a, b = _whole(a), _whole(b)
    if a is None or b is None:
        return NotImplemented
    pair = _quotient(a, b)
    return pair if which is None else pair[which]


def _quotient(a: Any, b: Any) -> tuple[Any, Any]:
    if type(b) is int and b == 1:
        return a, 0
    quotient, rest = _multiples(a, b)
    if type(rest) is int and rest == 0:
        return quotient, 0
    if type(rest) is int and type(b) is int:
        more, rest = divmod(rest, b)
        return quotient + more, rest
    scope = a.scope if type(a) is Size else b.scope
    whole = Size((((("floordiv", rest, b),), 1),), scope)
    left = Size((((("mod", rest, b),), 1),), scope)
    return quotient + whole, left


def _multiples(a: Any, b: Any) -> tuple[Any, Any]:
    """What of ``a`` is a multiple of ``b``, in units of it, and the rest."""
    terms = a.terms if type(a) is Size else (((), a),)
    head, factor = b.terms[0] if type(b) is Size else ((), b)
    several = type(b) is Size and len(b.terms) > 1
    scope = a.scope if type(a) is Size else b.scope
    found: Any = 0
    rest: Any = a
    for monomial, c in terms:
        left = list(monomial)
        if c % factor or any(left.count(atom) < head.count(atom) for atom in head):
            continue
        for atom in head:
            left.remove(atom)
        part = _made({tuple(left): c // factor}, scope)
        found, rest = found + part, rest - part * b
        if several:
            break
    return found, rest


def _atom_at(atom: Any, values: Mapping[str, int]) -> int:
    args = [int(at(x, values)) for x in atom[1:]]
    if atom[0] not in _SIGNS:
        return atom[0](*args)
    return args[0] // args[1] if atom[0] == "floordiv" else args[0] % args[1]


def _shown(atom: Any) -> str:
    if type(atom) is str:
        return atom
    name = atom[0] if atom[0] in _SIGNS else f"f{id(atom[0])}"
    return f"{name}({', '.join(map(repr, atom[1:]))})"
