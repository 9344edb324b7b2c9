"""Polynomials with whole coefficients in named dimensions: plain data in a canonical form.

A polynomial is a tuple of monomials and their coefficients, the largest monomial first. A monomial
is a tuple of atoms, the largest first, repeated for powers. An atom is a name, or a function and
the polynomials that it is applied to, as in ``(operator.mod, a, b)``.

``Polynomial`` is the arithmetic on them. What comparisons answer, and what becomes of other values,
is left to its two kinds: a ``Size`` has a value for the call at hand (``weft.base.sizes``), a
``Dim`` answers for all values (``weft.core.dims``).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from weft.base.functional import lru

Monomial = tuple[Any, ...]
Terms = tuple[tuple[Monomial, int], ...]
Rules = Mapping[Monomial, tuple[Terms, int]]

NAMES: dict[Any, str] = {
    operator.floordiv: "floordiv",
    operator.mod: "mod",
    max: "max",
    min: "min",
}


def _function_name(function: Any) -> str:
    return NAMES.get(function) or f"f{id(function)}"


# --- order ----------------------------------------------------------------------------------------


@lru()
def _key(monomial: Monomial) -> tuple[int, Any]:
    """By which monomials are sorted: how large they are when written, then what they are."""
    keys = tuple([_atom_key(atom) for atom in monomial])
    return len(set(keys)) + sum([key[0] for key in keys]), keys


def _atom_key(atom: Any) -> tuple[Any, ...]:
    if type(atom) is str:
        return 1, atom
    parts = [_terms_key(terms or (((), 0),)) for terms in atom[1:]]
    return 1 + sum([part[0] for part in parts]), _function_name(atom[0]), *parts


def _terms_key(terms: Terms) -> tuple[int, Any]:
    keys = [(_key(m), c) for m, c in terms]
    return sum([1 + abs(c) * key[0] for key, c in keys]), tuple(keys)


def _ordered(found: Mapping[Monomial, int]) -> Terms:
    terms = [term for term in found.items() if term[1]]
    if len(terms) > 1:
        terms.sort(key=lambda term: _key(term[0]), reverse=True)
    return tuple(terms)


# --- arithmetic -----------------------------------------------------------------------------------


def number(n: int) -> Terms:
    """A constant."""
    return (((), n),) if n else ()


def constant(terms: Terms) -> int | None:
    """The number that a polynomial is, or None."""
    if not terms:
        return 0
    return None if terms[0][0] else terms[0][1]


def combined(a: Terms, k: int, b: Terms, n: int) -> Terms:
    """``k * a + n * b``."""
    if k != 1:
        a = tuple([(m, c * k) for m, c in a]) if k else ()
    if not n or not b:
        return a
    if not b[0][0]:  # numbers are last
        n *= b[0][1]
        if a and not a[-1][0]:
            n += a[-1][1]
            a = a[:-1]
        return (*a, ((), n)) if n else a
    found = dict(a)
    for m, c in b:
        found[m] = found.get(m, 0) + c * n
    return _ordered(found)


def product(a: Terms, b: Terms) -> Terms:
    if not b or not b[0][0]:
        return combined(a, b[0][1] if b else 0, (), 0)
    found: dict[Monomial, int] = {}
    for m, c in a:
        for n, d in b:
            both = tuple(sorted(m + n, key=_atom_key, reverse=True)) if m and n else m or n
            found[both] = found.get(both, 0) + c * d
    return _ordered(found)


def operation(function: Callable[..., int], *operands: Terms) -> Terms:
    """What a function computes of polynomials, as it is written."""
    return ((((function, *operands),), 1),)


def without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """A monomial divided by another; None if that is no monomial."""
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def normal(terms: Terms, rules: Rules) -> Terms:
    """A polynomial with what equations say in place of their left sides."""
    for m, c in terms if rules else ():
        for part in dict.fromkeys([m, *powers(m)]):
            after, k = rules.get(part, ((), 0))
            if not k or c % k:
                continue
            rest = without(m, part)
            assert rest is not None
            kept = combined(terms, 1, ((m, c),), -1)
            return combined(kept, 1, product(after, ((rest, 1),)), c // k)
    return terms


def powers(monomial: Monomial) -> list[Monomial]:
    """The powers of single atoms that a monomial is the product of."""
    return [tuple(same) for _, same in itertools.groupby(monomial)]


def divided(a: Terms, b: Terms, rules: Rules) -> tuple[Terms, Terms]:
    """What of a polynomial is a multiple of another, in units of it, and the rest."""
    head, scale = b[0]
    quotient: Terms = ()
    rest: Terms = ()
    while a:
        m, c = a[0]
        left = without(m, head) if head else m
        if left is None or c % scale:
            rest, a = (*rest, a[0]), a[1:]
            continue
        part = normal(((left, c // scale),), rules)
        quotient = normal(combined(quotient, 1, part, 1), rules)
        a = normal(combined(a, 1, normal(product(part, b), rules), -1), rules)
    return quotient, rest


# --- what they say --------------------------------------------------------------------------------


def names(terms: Terms) -> set[str]:
    """The names that a polynomial is written in."""
    found: set[str] = set()
    for monomial, _ in terms:
        for atom in monomial:
            if type(atom) is str:
                found.add(atom)
            else:
                found.update(*map(names, atom[1:]))
    return found


def linear(terms: Terms, name: str) -> tuple[int, Terms] | None:
    """The factor of a name and the rest, which does not have it; None if there is no such."""
    k = dict(terms).get((name,))
    rest = tuple([term for term in terms if term[0] != (name,)])
    return None if k is None or name in names(rest) else (k, rest)


def evaluated(terms: Terms, value: Callable[[str], Any], apply: Callable[..., Any]) -> Any:
    """What a polynomial is for values of its names; ``apply(function, *operands)``."""
    total: Any = 0
    for monomial, part in terms:
        for atom in monomial:
            if type(atom) is str:
                part = part * value(atom)
            else:
                operands = [evaluated(x, value, apply) for x in atom[1:]]
                part = part * apply(atom[0], *operands)
        total = total + part
    return total


def shown(terms: Terms) -> str:
    """A polynomial as text, which can be read again."""
    parts = []
    for monomial, c in terms:
        factors = [_shown_power(p[0], len(p)) for p in reversed(powers(monomial))]
        if abs(c) != 1 or not factors:
            factors.insert(0, str(abs(c)))
        parts.append(f"{'-' if c < 0 else '+'} {'*'.join(factors)}")
    return " ".join(parts).removeprefix("+ ") or "0"


def _shown_power(atom: Any, power: int) -> str:
    text = atom
    if type(atom) is not str:
        text = f"{_function_name(atom[0])}({', '.join(map(shown, atom[1:]))})"
    return text if power == 1 else f"{text}^{power}"


# --- as numbers -----------------------------------------------------------------------------------


def terms_of(n: Any) -> Terms:
    """The polynomial that a size or a number is."""
    return n.terms if isinstance(n, Polynomial) else number(operator.index(n))


def _operator(name: str, compute: Callable[[Any, Terms], Any]) -> Any:
    def method(self: Any, other: Any) -> Any:
        terms = number(other) if type(other) is int else self._terms_of(other)
        return self._with_other(name, other) if terms is None else compute(self, terms)

    return method


class Polynomial:
    """A whole number written in named dimensions."""

    __slots__ = ("_hash", "scope", "terms")
    # Whether what is no multiple of a divisor is divided apart from what is.
    divides_parts = False
    rules: Rules = {}  # the equations that hold

    def __init__(self, terms: Terms, scope: Any) -> None:
        self.terms = terms
        self.scope = scope
        self._hash = hash(terms)

    def _terms_of(self, other: Any) -> Terms | None:
        """The polynomial that another number is; None for other values."""
        if type(other) is float:
            return None
        try:
            return terms_of(other)
        except Exception:  # a traced array says in its own way that it is no number
            return None

    def _with_other(self, method: str, other: Any) -> Any:
        """What an operator does with what is no whole number."""
        raise NotImplementedError

    def _is_negative(self, difference: Terms, relation: str, other: Terms) -> bool:
        """Whether the difference to another is, which tells whether a relation holds."""
        raise NotImplementedError

    def made(self, terms: Terms) -> Any:
        """A polynomial of the same scope, or the number that it is."""
        if self.rules:
            terms = normal(terms, self.rules)
        if not terms or not terms[0][0]:
            return constant(terms)
        return self if terms is self.terms else type(self)(terms, self.scope)

    def names(self) -> set[str]:
        """The dimensions that it is written in."""
        return names(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return shown(self.terms)

    def __neg__(self) -> Any:
        return self.made(combined(self.terms, -1, (), 0))

    def __pos__(self) -> Any:
        return self

    __add__ = _operator("__add__", lambda a, b: a.made(combined(a.terms, 1, b, 1)))
    __radd__ = _operator("__radd__", lambda a, b: a.made(combined(a.terms, 1, b, 1)))
    __sub__ = _operator("__sub__", lambda a, b: a.made(combined(a.terms, 1, b, -1)))
    __rsub__ = _operator("__rsub__", lambda a, b: a.made(combined(a.terms, -1, b, 1)))
    __mul__ = _operator("__mul__", lambda a, b: a.made(product(a.terms, b)))
    __rmul__ = _operator("__rmul__", lambda a, b: a.made(product(a.terms, b)))
    __floordiv__ = _operator("__floordiv__", lambda a, b: a._divided(a.terms, b, 0))
    __rfloordiv__ = _operator("__rfloordiv__", lambda a, b: a._divided(b, a.terms, 0))
    __mod__ = _operator("__mod__", lambda a, b: a._divided(a.terms, b, 1))
    __rmod__ = _operator("__rmod__", lambda a, b: a._divided(b, a.terms, 1))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def _divided(self, a: Terms, b: Terms, which: int) -> Any:
        """Quotient, rounded down (0), or remainder (1)."""
        if not b:
            raise ZeroDivisionError(f"{shown(a)} is divided by 0")
        quotient, rest = divided(a, b, self.rules)
        divisor, left = constant(b), constant(rest)
        if left is not None and divisor is not None:
            more, left = divmod(left, divisor)
            return left if which else self.made(combined(quotient, 1, number(more), 1))
        if not rest:
            return 0 if which else self.made(quotient)
        if not self.divides_parts:
            quotient, rest = (), a
        if which:
            return self.made(operation(operator.mod, rest, b))
        return self.made(combined(operation(operator.floordiv, rest, b), 1, quotient, 1))

    def __pow__(self, power: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            raise NotImplementedError("a power of a symbolic dimension can't have a modulus")
        if isinstance(power, Polynomial):
            return power.__rpow__(self)
        if power != int(power) or power < 0:
            raise ValueError(
                f"a symbolic dimension has whole powers from 0 up: got ({self!r}) ** {power}"
            )
        found: Any = 1
        for _ in range(int(power)):
            found = self * found
        return found

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        return self._with_other("__rpow__", other)

    __lt__ = _operator("__lt__", lambda a, b: a._compared(b, "<"))
    __le__ = _operator("__le__", lambda a, b: a._compared(b, "<="))
    __gt__ = _operator("__gt__", lambda a, b: a._compared(b, ">"))
    __ge__ = _operator("__ge__", lambda a, b: a._compared(b, ">="))

    def _compared(self, other: Terms, relation: str) -> bool:
        sign = 1 if relation in ("<", ">=") else -1
        difference = normal(combined(self.terms, sign, other, -sign), self.rules)
        return self._is_negative(difference, relation, other) is (relation in ("<", ">"))
