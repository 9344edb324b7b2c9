"""Symbolic dimensions: arithmetic, comparisons that hold for all values, use as values.

``Dim`` stands where a size of a shape does, in types and parameters of staged programs. Nothing is
known of its value but that it is at least 1, and what the constraints of its scope say. A
comparison that depends on more raises ``InconclusiveDimensionOperation``. An exported program is
instantiated for plain numbers before it is compiled (``substitute``).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from math import inf
from typing import Any

from weft.base import polynomials as t
from weft.base.errors import InconclusiveDimensionOperation, located
from weft.base.polynomials import Monomial, Polynomial, Terms, terms_of
from weft.core.dims.bounds import Bound, Facts, Unsatisfiable
from weft.core.registry import lookup


class Scope:
    """What dimensions that are used together have in common: constraints, and what was derived."""

    def __init__(self) -> None:
        self.constraints: list[Constraint] = []
        self.rules: dict[Monomial, tuple[Terms, int]] = {}
        self._facts: Facts | None = None
        self._bounds: dict[Terms, tuple[Bound, Bound]] = {}

    def constrain(self, constraint: Constraint) -> None:
        """Take up that one polynomial is another, or not less than it."""
        difference = t.constant(constraint.difference)
        if difference is not None:
            if difference < 0 or (constraint.equal and difference):
                raise ValueError(f"no values satisfy the constraint {constraint.text!r}")
            return
        if constraint.equal:
            self._replace(constraint)
        self.constraints.append(constraint)
        self._facts = None
        self._bounds.clear()
        self.facts()  # raises where no values satisfy it

    def _replace(self, constraint: Constraint) -> None:
        """Have the right side of an equation stand for its left one from now on."""
        left, right = constraint.left, constraint.right
        if len(left) != 1 or not left[0][0]:
            raise ValueError(
                f"the constraint {constraint.text!r} must have one term on its left, as in"
                " 'a == 2*b' or 'mod(b, 2) == 0'"
            )
        monomial, k = left[0]
        if monomial in self.rules:
            raise NotImplementedError(
                f"several constraints say what {t.shown(((monomial, 1),))} is equal to"
            )
        self.rules[monomial] = right, k
        atom = monomial[0]
        if k == 1 and not right and len(monomial) == 1 and atom[0] is operator.mod:
            _, size, divisor = atom
            n = t.constant(divisor)
            if n is not None:  # what is divided without a remainder can be multiplied again
                quotient = t.operation(operator.floordiv, size, divisor)
                whole = t.combined(quotient, n, (), 0)
                text = f"{t.shown(whole)} == {t.shown(size)}"
                self.constrain(Constraint(text, True, whole, size, follows=True))

    def facts(self) -> Facts:
        """What the constraints say."""
        if self._facts is None:
            facts = Facts(self.rules)
            for constraint in self.constraints:
                difference = t.normal(constraint.difference, {})
                try:
                    facts.add_implied(difference)
                    facts.constrain(constraint.equal, difference, constraint.text)
                except Unsatisfiable:
                    raise ValueError(
                        f"no values satisfy the constraint {constraint.text!r} with those before it"
                    ) from None
            self._facts = facts
        return self._facts

    def bounds(self, polynomial: Terms) -> tuple[Bound, Bound]:
        """What a polynomial is at least, and at most."""
        found = self._bounds.get(polynomial)
        if found is None:
            facts = self.facts().copy()
            try:
                facts.add_implied(polynomial)
                found = facts.find(polynomial)
            except Unsatisfiable:  # of consequences: no values at all
                found = -inf, inf
            if len(self._bounds) >= MAX_BOUNDS:
                self._bounds.clear()
            self._bounds[polynomial] = found
        return found


MAX_BOUNDS = 4096  # of polynomials that a scope remembers


class Constraint:
    """That one polynomial is another (``equal``), or not less than it."""

    __slots__ = ("difference", "equal", "follows", "left", "right", "text")

    def __init__(
        self, text: str, equal: bool, left: Terms, right: Terms, follows: bool = False
    ) -> None:
        self.text, self.equal, self.left, self.right = text, equal, left, right
        self.follows = follows  # from another one
        self.difference = t.combined(left, 1, right, -1)


class Dim(Polynomial):
    """A size of a symbolic shape."""

    __slots__ = ()
    is_size = True
    __array_priority__ = 1000  # so that arrays of NumPy's leave arithmetic to it

    @property
    def rules(self) -> t.Rules:  # type: ignore[override]  # a plain attribute of the class above
        return self.scope.rules

    def _terms_of(self, other: Any) -> Terms | None:
        if type(other) is Dim and other.scope is not self.scope:
            raise mixed(self, other)
        return super()._terms_of(other)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: Any) -> Dim:
        return self

    def __eq__(self, other: object) -> bool:
        """Whether both are the same for all values; False also where it depends on them."""
        if self is other or type(other) is not Dim:  # no dimension that is a number is a Dim
            return self is other
        same = self._hash == other._hash and self.scope is other.scope
        return same and self.terms == other.terms

    __hash__ = Polynomial.__hash__

    def _is_negative(self, difference: Terms, relation: str, other: Terms) -> bool:
        low, high = self.scope.bounds(difference)
        if low < 0 <= high:
            raise inconclusive(f"{self} {relation} {t.shown(other)}", self.scope)
        return high < 0

    # --- as a value -------------------------------------------------------------------------------

    def __truediv__(self, other: Any) -> Any:
        return self._with_other("__truediv__", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with_other("__rtruediv__", other)

    def __int__(self) -> int:
        raise InconclusiveDimensionOperation(
            located(
                f"the symbolic dimension {self} is used where a known number is needed",
                "It has no single value: compute with the dimension itself, which shapes and"
                " operations take, or export the function for one shape.",
            )
        )

    __float__ = __complex__ = __int__  # type: ignore[assignment]

    def __jax_array__(self) -> Any:
        return lookup("dim_as_value").bind(dim=self)

    def dimension_as_value(self) -> Any:
        """The dimension as a whole number to compute with, in a function that is traced."""
        return self.__jax_array__()

    def _with_other(self, method: str, other: Any) -> Any:
        if isinstance(other, (list, tuple, str)):  # repeated
            return int(self)
        return getattr(self.__jax_array__(), method)(other)


def made(terms: Terms, scope: Any) -> Any:
    """A dimension, or the number that it is."""
    return Dim(terms, scope).made(terms)


def named(name: str, scope: Any) -> Any:
    """The dimension of a name."""
    return made((((name,), 1),), scope)


def bounds(n: Any) -> tuple[Bound, Bound]:
    """What a dimension or a number is at least, and at most, for all values."""
    return n.scope.bounds(n.terms) if type(n) is Dim else (n, n)


def max_dim(a: Any, b: Any) -> Any:
    """The larger of two dimensions or numbers."""
    return larger(a, b, max) if type(a) is Dim or type(b) is Dim else max(a, b)


def min_dim(a: Any, b: Any) -> Any:
    """The smaller of two dimensions or numbers."""
    return larger(a, b, min) if type(a) is Dim or type(b) is Dim else min(a, b)


def larger(a: Any, b: Any, pick: Any) -> Any:
    """The one of two dimensions or numbers that ``max`` or ``min`` picks."""
    scope = a.scope if type(a) is Dim else b.scope if type(b) is Dim else None
    if scope is None:
        return pick(a, b)
    low, high = bounds(a - b)
    if low >= 0 or high <= 0:
        return a if (low >= 0) is (pick is max) else b
    return made(t.operation(pick, terms_of(a), terms_of(b)), scope)


def substitute(n: Any, values: Mapping[str, Any]) -> Any:
    """A dimension for values of its names, which may be numbers or other dimensions."""
    if type(n) is not Dim:
        return n
    return _substituted(n.terms, n.scope, values)


def _substituted(terms: Terms, scope: Any, values: Mapping[str, Any]) -> Any:
    def value(name: str) -> Any:
        if name in values:
            return values[name]
        rule = scope.rules.get((name,))
        if rule is None or rule[1] != 1:
            raise KeyError(name)
        return _substituted(rule[0], scope, values)

    def apply(function: Any, a: Any, b: Any) -> Any:
        return larger(a, b, function) if function in (max, min) else function(a, b)

    return t.evaluated(terms, value, apply)


def is_symbolic_dim(p: Any) -> bool:
    """Return whether a dimension is symbolic.

    Args:
        p: an element of a shape.

    Returns:
        True or False.

    Example:
        >>> from weft import export
        >>> b, n = export.symbolic_shape("b, 4")
        >>> export.is_symbolic_dim(b), export.is_symbolic_dim(n)
        (True, False)
    """
    return type(p) is Dim


def whole(n: Any) -> Any:
    """A size as a plain number, or the dimension without a fixed value that it is."""
    return n if isinstance(n, Polynomial) else operator.index(n)


def broadcast_sizes(*shapes: Any) -> tuple[Any, ...]:
    """The shape that shapes broadcast to together; ValueError if they do not."""
    found: list[Any] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for i, n in enumerate(shape, len(found) - len(shape)):
            size = n if type(n) is int else whole(n)
            if found[i] == 1:
                found[i] = size
            fits = size == found[i] or size == 1
            if not fits or (type(size) is int and size < 0):
                raise ValueError(f"shapes do not broadcast: {', '.join(map(str, shapes))}")
    return tuple(found)


def exceeds(n: Any, most: int) -> bool:
    """Whether a size is beyond what a machine's number holds; a symbolic one is taken not to be."""
    return type(n) is not Dim and n > most


def divided_up(n: Any, by: Any) -> Any:
    """A quotient of sizes, rounded up."""
    return (n + (by - 1)) // by


def is_constant_shape(shape: Any) -> bool:
    """Whether all sizes are plain numbers."""
    return not any(type(n) is Dim for n in shape)


def mixed(a: Any, b: Any) -> ValueError:
    return ValueError(
        f"the dimensions {a} and {b} are of different scopes: {a.scope}; {b.scope}. Dimensions that"
        " meet must be made by one call of symbolic_shape, or with one scope="
    )


def inconclusive(text: str, scope: Any) -> InconclusiveDimensionOperation:
    told = f"They are of the {scope}.\n" if scope.constraints else ""
    return InconclusiveDimensionOperation(
        located(
            f"whether {text} isn't the same for all values of the dimensions",
            f"{told}Say what is known with constraints=[...] of symbolic_shape, or decide by values"
            " with lax.cond or jnp.where.",
        )
    )
