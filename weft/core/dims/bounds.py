"""Bounds of polynomials in named dimensions, by eliminating their terms one after the other.

Every name is at least 1, the constraints of a scope hold, and operations bring facts of their own:
a remainder is less than its divisor, a maximum no less than its operands. To bound ``k*t + rest``
a fact ``n*t + other >= 0`` is taken, and both are added so that ``t`` falls out; what is left is
smaller, and is bounded in the same way. What is found holds for all values; where nothing is found
the bound is infinite.
"""

from __future__ import annotations

import itertools
import operator
from math import inf
from typing import Any

from weft.base import polynomials as t
from weft.base.errors import InconclusiveDimensionOperation
from weft.base.polynomials import Monomial, Rules, Terms

Bound = float  # a whole number, or infinite
# Steps of one question, after which what is known by then is the answer.
MAX_STEPS = 4000


class Unsatisfiable(ValueError):
    """Constraints that no values satisfy."""


class Facts:
    """What is known of monomials and of polynomials: that they are 0, or at least that."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.bounds: dict[Monomial, tuple[Bound, Bound]] = {}
        # polynomials that are 0 (True) or not below, by their first monomial
        self.polynomials: dict[Monomial, dict[tuple[bool, Terms], None]] = {}
        self.seen: set[Monomial] = set()
        self.steps = 0

    def copy(self) -> Facts:
        made = Facts(self.rules)
        made.bounds, made.seen = dict(self.bounds), set(self.seen)
        made.polynomials = {m: dict(found) for m, found in self.polynomials.items()}
        return made

    # --- collecting facts -------------------------------------------------------------------------

    def constrain(self, equal: bool, polynomial: Terms, text: str = "") -> None:
        """Take up that a polynomial is 0, or not less."""
        number = t.constant(polynomial)
        if number is not None:
            if number < 0 or (equal and number):
                raise Unsatisfiable(text or t.shown(polynomial))
            return
        self._keep(equal, polynomial, text)
        for is_equal, more in self._consequences(equal, polynomial, text):
            self._keep(is_equal, more, text)

    def _at_least(self, polynomial: Terms, low: Bound) -> None:
        if low > -inf:
            self.constrain(False, t.combined(polynomial, 1, t.number(int(low)), -1))

    def _at_most(self, polynomial: Terms, high: Bound) -> None:
        if high < inf:
            self.constrain(False, t.combined(t.number(int(high)), 1, polynomial, -1))

    def _keep(self, equal: bool, polynomial: Terms, text: str) -> None:
        rest = t.constant(polynomial[1:])
        if rest is None:
            found = self.polynomials.setdefault(polynomial[0][0], {})
            found[equal, polynomial] = None
            return
        (monomial, k) = polynomial[0]  # k * monomial + rest
        low, high = self.bounds.get(monomial, (-inf, inf))
        if equal:
            if rest % k:
                raise Unsatisfiable(text)
            low, high = max(low, -rest // k), min(high, -rest // k)
        elif k > 0:
            low = max(low, -(rest // k))
        else:
            high = min(high, rest // -k)
        if low > high:
            raise Unsatisfiable(text)
        self.bounds[monomial] = low, high

    def _with(self, monomial: Monomial, smaller: bool) -> list[tuple[bool, Terms, int]]:
        """Facts in which a monomial occurs, and its coefficient; ``smaller`` for those alone in
        which it is the largest."""
        found: list[tuple[bool, Terms, int]] = []
        low, high = self.bounds.get(monomial, (-inf, inf))
        if low == high:
            found.append((True, ((monomial, 1), *t.number(-int(low))), 1))
        else:
            if low > -inf:
                found.append((False, ((monomial, 1), *t.number(-int(low))), 1))
            if high < inf:
                found.append((False, ((monomial, -1), *t.number(int(high))), -1))
        several = [self.polynomials.get(monomial, {})] if smaller else self.polynomials.values()
        for facts in several:
            for equal, polynomial in facts:
                k = dict(polynomial).get(monomial)
                if k is not None:
                    found.append((equal, polynomial, k))
        return found

    def _consequences(self, equal: bool, polynomial: Terms, text: str) -> Any:
        """What a new fact and each known one say together, without a monomial of both."""
        found: dict[tuple[bool, Terms], None] = {}
        for monomial, k in polynomial:
            if not monomial:
                continue
            for is_equal, fact, n in self._with(monomial, smaller=False):
                scale = -n if k > 0 else n  # of the new fact, so that the monomial falls out
                if scale <= 0 and not equal:
                    continue
                self.steps += 1
                both = t.normal(t.combined(polynomial, scale, fact, abs(k)), self.rules)
                number = t.constant(both)
                if number is None:
                    found[equal and is_equal, both] = None
                elif number < 0 or (number and equal and is_equal):
                    raise Unsatisfiable(text or t.shown(polynomial))
                if self.steps > MAX_STEPS:
                    return found
        return found

    # --- what operations bring --------------------------------------------------------------------

    def add_implied(self, polynomial: Terms) -> None:
        """Take up what follows from what monomials of a polynomial are."""
        for monomial, _ in polynomial:
            if monomial and monomial not in self.seen and self.steps <= MAX_STEPS:
                self.seen.add(monomial)
                if len(monomial) > 1:
                    self._of_product(monomial)
                elif type(monomial[0]) is str:
                    self._at_least(((monomial, 1),), 1)
                else:
                    self._of_operation(((monomial, 1),), *monomial[0])

    def _of_product(self, monomial: Monomial) -> None:
        ends = []
        for power in t.powers(monomial):
            one = ((power[:1], 1),)
            self.add_implied(one)
            low, high = self.find(one)
            ends.append(_power(low, high, len(power)))
        corners = [_product(corner) for corner in itertools.product(*ends)]
        self._at_least(((monomial, 1),), min(corners))
        self._at_most(((monomial, 1),), max(corners))

    def _of_operation(self, it: Terms, function: Any, a: Terms, b: Terms) -> None:
        self.add_implied(a)
        self.add_implied(b)
        minus = lambda x, y: t.normal(t.combined(x, 1, y, -1), self.rules)
        if function is operator.mod:
            low, high = self.find(b)
            if low > 0:
                self._at_least(it, 0)
                self.constrain(False, minus(t.combined(b, 1, t.number(1), -1), it))
                self._at_most(it, high - 1)
            elif high < 0:
                self.constrain(False, minus(it, t.combined(b, 1, t.number(1), 1)))
                self._at_least(it, low + 1)
                self._at_most(it, 0)
            return
        (a_low, a_high), (b_low, b_high) = self.find(a), self.find(b)
        if function is operator.floordiv:
            if b_low <= 0 <= b_high:
                raise InconclusiveDimensionOperation(
                    f"the divisor {t.shown(b)} may be 0 for some values of its dimensions; give a"
                    " constraint that rules that out"
                )
            ends = [_floor(x, y) for x in (a_low, a_high) for y in (b_low, b_high)]
            self._at_least(it, min(ends))
            self._at_most(it, max(ends))
            if b_low >= 0:
                rest = t.normal(t.operation(operator.mod, a, b), self.rules)
                self.add_implied(rest)
                whole = t.normal(t.product(b, it), self.rules)
                again = t.normal(t.combined(whole, 1, rest, 1), self.rules)
                self.constrain(True, minus(a, again))
            return
        self._at_least(it, function(a_low, b_low))
        self._at_most(it, function(a_high, b_high))
        for x in (a, b):
            self.constrain(False, minus(it, x) if function is max else minus(x, it))

    # --- answers ----------------------------------------------------------------------------------

    def find(self, polynomial: Terms) -> tuple[Bound, Bound]:
        """What a polynomial is at least, and at most."""
        number = t.constant(polynomial)
        if number is not None:
            return number, number
        low, high = -inf, inf
        if self.steps > MAX_STEPS:
            return low, high
        monomial, k = polynomial[0]
        for equal, fact, n in self._with(monomial, smaller=True):
            self.steps += 1
            # scale * polynomial + abs(k) * fact has smaller monomials only
            scale = -n if k > 0 else n
            rest_low, rest_high = self.find(t.combined(polynomial, scale, fact, abs(k)))
            if rest_high < inf:  # as the fact is not negative
                if scale > 0:
                    high = min(high, rest_high // scale)
                else:
                    low = max(low, -(rest_high // -scale))
            if rest_low > -inf and equal:
                if scale > 0:
                    low = max(low, -(-rest_low // scale))
                else:
                    high = min(high, -rest_low // -scale)
        atom = monomial[0]
        if len(monomial) == 1 and atom[0] in (max, min):
            rest = polynomial[1:]
            sides = [self.find(t.combined(rest, 1, x, k)) for x in atom[1:]]
            pick = max if (atom[0] is max) is (k > 0) else min
            low = max(low, pick(sides[0][0], sides[1][0]))
            high = min(high, pick(sides[0][1], sides[1][1]))
        return low, high


def _power(low: Bound, high: Bound, power: int) -> tuple[Bound, Bound]:
    if power == 1:
        return low, high
    ends = low**power, high**power
    if power % 2 or low >= 0:
        return ends
    return (0 if high >= 0 else min(ends)), max(ends)


def _product(numbers: tuple[Bound, ...]) -> Bound:
    found: Bound = 1
    for n in numbers:
        found = found * n if found and n else 0  # also where one is infinite
    return found


def _floor(a: Bound, b: Bound) -> Bound:
    """The quotient, or what it tends to."""
    if abs(b) < inf:
        if abs(a) < inf:
            return a // b
        return a if b > 0 else -a
    if abs(a) < inf:
        return 0 if (a >= 0) == (b > 0) or a == 0 else -1
    return inf if (a > 0) == (b > 0) else -inf
