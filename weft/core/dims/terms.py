"""Polynomials in named dimensions, as plain data in a canonical form.

A polynomial is a tuple of monomials with whole coefficients, the largest monomial first. A monomial
is a product of powers of factors. A factor is a name, or an operation (``floordiv``, ``mod``,
``max``, ``min``) on two polynomials.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

OPERATIONS = ("floordiv", "mod", "max", "min")


class Factor:
    """A name, or an operation on two polynomials."""

    __slots__ = ("_hash", "key", "kind", "name", "operands")

    def __init__(self, name: str = "", kind: str = "", operands: tuple[Terms, ...] = ()) -> None:
        self.name, self.kind, self.operands = name, kind, operands
        # by which factors are sorted: how large they are when written, then what they are
        if kind:
            parts = [_terms_key(x) for x in operands]
            self.key: tuple[Any, ...] = (1 + sum([p[0] for p in parts]), kind, *parts)
        else:
            self.key = (1, name)
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return type(other) is Factor and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.name or f"{self.kind}({', '.join(map(shown, self.operands))})"


class Monomial:
    """A product of powers of factors, the largest first; of none, the number 1."""

    __slots__ = ("_hash", "factors", "key")

    def __init__(self, factors: tuple[tuple[Factor, int], ...]) -> None:
        self.factors = factors
        size = sum([1 + power * f.key[0] for f, power in factors])
        self.key = (size, tuple([(f.key, power) for f, power in factors]))
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return type(other) is Monomial and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        smallest_first = sorted(self.factors, key=lambda pair: (pair[0].key, pair[1]))
        return "*".join([str(f) if p == 1 else f"{f}^{p}" for f, p in smallest_first])

    @property
    def factor(self) -> Factor | None:
        """The one factor that it is, if it is one."""
        return self.factors[0][0] if len(self.factors) == 1 and self.factors[0][1] == 1 else None

    def times(self, other: Monomial, power: int = 1) -> Monomial | None:
        """The product with a power of another; None if that is no monomial."""
        found = dict(self.factors)
        for f, p in other.factors:
            found[f] = found.get(f, 0) + power * p
        if min(found.values(), default=0) < 0:
            return None
        left = [(f, p) for f, p in found.items() if p]
        return Monomial(tuple(sorted(left, key=lambda pair: pair[0].key, reverse=True)))


ONE = Monomial(())
Terms = tuple[tuple[Monomial, int], ...]
Rules = Mapping[Monomial, tuple[Terms, int]]
ZERO: Terms = ((ONE, 0),)  # as an operand; results of arithmetic have no terms instead


def _terms_key(terms: Terms) -> tuple[int, Any]:
    size = sum([1 + abs(c) * m.key[0] for m, c in terms])
    return size, tuple([(m.key, c) for m, c in terms])


def ordered(found: Mapping[Monomial, int]) -> Terms:
    """The terms of coefficients by monomial."""
    left = [(m, c) for m, c in found.items() if c]
    if len(left) > 1:
        left.sort(key=lambda term: term[0].key, reverse=True)
    return tuple(left)


def number(n: int) -> Terms:
    """A constant."""
    return ((ONE, n),) if n else ()


def constant(terms: Terms) -> int | None:
    """The number that a polynomial is, or None."""
    if not terms:
        return 0
    return terms[0][1] if not terms[0][0].factors else None


def combined(a: Terms, k: int, b: Terms, n: int) -> Terms:
    """``k * a + n * b``."""
    if not n or not b:
        return tuple([(m, c * k) for m, c in a if c]) if k else ()
    found = {m: c * k for m, c in a}
    for m, c in b:
        found[m] = found.get(m, 0) + c * n
    return ordered(found)


def product(a: Terms, b: Terms) -> Terms:
    found: dict[Monomial, int] = {}
    for m, c in a:
        for n, d in b:
            both = m.times(n)
            assert both is not None
            found[both] = found.get(both, 0) + c * d
    return ordered(found)


def operation(kind: str, a: Terms, b: Terms) -> Terms:
    """An operation that stays as it is written."""
    return ((Monomial(((Factor(kind=kind, operands=(a or ZERO, b or ZERO)), 1),)), 1),)


def normal(terms: Terms, rules: Rules) -> Terms:
    """A polynomial with what equations of its scope say in place of their left sides."""
    if not rules:
        return terms
    for m, c in terms:
        for part in (m, *[Monomial((pair,)) for pair in m.factors if len(m.factors) > 1]):
            after, k = rules.get(part, ((), 0))
            if not k or c % k:
                continue
            rest = m.times(part, -1)
            assert rest is not None
            kept = combined(terms, 1, ((m, c),), -1)
            return combined(kept, 1, product(after, ((rest, 1),)), c // k)
    return terms


def divided(a: Terms, b: Terms, rules: Rules) -> tuple[Terms, Terms] | None:
    """Quotient, rounded down, and remainder, where they are polynomials; else None."""
    divisor = constant(b)
    head, scale = (ONE, divisor) if divisor is not None else b[0]
    if not scale:
        return None
    quotient: Terms = ()
    while constant(a) is None:
        m, c = a[0]
        left = m.times(head, -1)
        if left is None or c % scale:
            return None
        part = normal(((left, c // scale),), rules)
        quotient = normal(combined(quotient, 1, part, 1), rules)
        a = normal(combined(a, 1, normal(product(part, b), rules), -1), rules)
    rest = constant(a) or 0
    if divisor is None:
        return (quotient, ()) if not rest else None
    more, rest = divmod(rest, divisor)
    return normal(combined(quotient, 1, number(more), 1), rules), number(rest)


def names(terms: Terms) -> set[str]:
    """The names that a polynomial is written in."""
    found: set[str] = set()
    for m, _ in terms:
        for f, _ in m.factors:
            found.update([f.name] if f.name else set().union(*map(names, f.operands)))
    return found


def evaluated(terms: Terms, value: Callable[[str], Any], apply: Callable[..., Any]) -> Any:
    """What a polynomial is for values of its names; ``apply(kind, a, b)`` does operations."""
    total: Any = 0
    for m, c in terms:
        part: Any = c
        for f, power in m.factors:
            if f.name:
                n = value(f.name)
            else:
                n = apply(f.kind, *[evaluated(x, value, apply) for x in f.operands])
            part = part * (n if power == 1 else n**power)
        total = total + part
    return total


def on_numbers(kind: str, a: int, b: int) -> int:
    """An operation on plain numbers."""
    return _ON_NUMBERS[kind](a, b)


_ON_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}


def shown(terms: Terms) -> str:
    """A polynomial as text, which can be read again."""
    parts = []
    for m, c in terms:
        factors = [str(m)] if m.factors else []
        if abs(c) != 1 or not factors:
            factors.insert(0, str(abs(c)))
        parts.append(f"{'-' if c < 0 else '+'} {'*'.join(factors)}")
    text = " ".join(parts)
    return text[2:] if text.startswith("+ ") else text
