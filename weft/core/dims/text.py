"""Symbolic shapes written as text: ``"b, 2*h, ..."``, with constraints, in a scope."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from weft.base import polynomials as t
from weft.base import source
from weft.base.polynomials import terms_of
from weft.core.dims.dim import Constraint, Dim, Scope, larger, made, named

_OPERATIONS = {name: function for function, name in t.NAMES.items()}
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?\w*)|([^\W\d]\w*)|(\.\.\.)|(==|>=|<=|\S))")


class SymbolicScope(Scope):
    """Symbolic dimensions that are used together, and what is known of them.

    Args:
        constraints_str: texts like ``"b >= 2"``, ``"b <= 8"``, ``"mod(b, 2) == 0"`` or ``"a ==
            2*b"``.

    Example:
        >>> from weft import export
        >>> scope = export.SymbolicScope(["b >= 2"])
        >>> (b,) = export.symbolic_shape("b", scope=scope)
        >>> b - 1 >= 1
        True
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        super().__init__()
        if isinstance(constraints_str, str):
            raise ValueError(f"constraints are a sequence of strings, got {constraints_str!r}")
        self.texts = tuple(constraints_str)
        self._made_at = source.summarize(source.current())
        for text in constraints_str:
            self.constrain(_constraint(text, self))

    def __str__(self) -> str:
        texts = ", ".join([repr(text) for text in self.texts])
        with_constraints = f" with constraints {texts}" if texts else ""
        return f"scope made at {self._made_at}{with_constraints}"

    __repr__ = __str__


def _constraint(text: Any, scope: Any) -> Constraint:
    if not isinstance(text, str):
        raise ValueError(f"a constraint is a string like 'b >= 2', got {text!r}")
    for relation in ("==", ">=", "<="):
        if relation in text:
            break
    else:
        raise ValueError(f"the constraint {text!r} has none of '==', '>=' and '<='")
    left, right = text.split(relation, 1)
    sides = [Parser(side, None, scope).one() for side in (left, right)]
    if relation == "<=":
        sides.reverse()
    a, b = [terms_of(x) for x in sides]
    return Constraint(text, relation == "==", a, b)


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """Return a shape with symbolic dimensions, read from text.

    Args:
        shape_spec: the text. Dimensions are numbers, names, sums, differences, products, powers
            like ``b^2``, and ``floordiv``, ``mod``, ``max`` and ``min`` of two of them. ``_``
            stands for a dimension of ``like``, and ``...`` for all that are left of it.
        constraints: what is known of the dimensions, as for ``SymbolicScope``.
        scope: the scope of the names. By default a new one.
        like: the shape that ``_`` and ``...`` refer to.

    Returns:
        A tuple of integers and symbolic dimensions.

    Example:
        >>> from weft import export
        >>> export.symbolic_shape("b, 2*h + 1, _, ...", like=(None, None, 3, 4))
        (b, 2*h + 1, 3, 4)
    """
    if shape_spec is None:
        shape_spec = "..."
    elif not isinstance(shape_spec, str):
        raise ValueError(f"a symbolic shape is a string or None, got {shape_spec!r}")
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError("constraints belong to a new scope: pass constraints= or scope=, not both")
    return Parser(shape_spec, like, scope).shape()


class Parser:
    """Reads dimensions from text."""

    def __init__(self, text: str, like: Sequence[Any] | None, scope: Any) -> None:
        self.text, self.like, self.scope = text, like, scope
        self.found: list[Any] = []
        self.at = 0  # the start of the token at hand
        self.next = 0
        self.token = self.number = self.name = ""
        self.advance()

    def advance(self) -> None:
        """Go on to the next token."""
        match = _TOKEN.match(self.text, self.next)
        if match is None:
            self.at, self.token, self.number, self.name = len(self.text), "", "", ""
            return
        self.number, self.name = match[1] or "", match[2] or ""
        self.token = match[0].strip()
        self.at, self.next = match.end() - len(self.token), match.end()

    def error(self, what: str) -> ValueError:
        return ValueError(
            f"the symbolic shape {self.text!r} cannot be read: dimension {len(self.found)} {what}"
            f" (read {self.text[: self.at]!r}, left {self.text[self.at :]!r})"
        )

    def expect(self, token: str) -> None:
        if self.token != token:
            raise self.error(f"has {self._here()} where {token!r} is expected")
        self.advance()

    def _here(self) -> str:
        return repr(self.token) if self.token else "its end"

    def shape(self) -> tuple[Any, ...]:
        """All of the text."""
        depth = 0
        while self.token == "(":
            depth += 1
            self.advance()
        self._dimensions()
        for _ in range(depth):
            self.expect(")")
        if self.token:
            raise self.error(f"has {self._here()} after the shape")
        return tuple(self.found)

    def one(self) -> Any:
        """The text as one dimension."""
        found = self.shape()
        if len(found) != 1:
            raise ValueError(f"{self.text!r} must be one dimension")
        return found[0]

    def _dimensions(self) -> None:
        while self.token not in ("", ")"):
            if self.token == "...":
                for n in self._like(len(self.found), "...")[len(self.found) :]:
                    self._add(n)
                self.advance()
                return
            if self.token == "_":
                n = self._like(len(self.found) + 1, "_")[len(self.found)]
                self.advance()
                self._add(n)
            else:
                self._add(self.sum())
            if self.token in ("", ")"):
                return
            self.expect(",")

    def _like(self, count: int, what: str) -> Sequence[Any]:
        if self.like is None:
            raise self.error(f"is {what}, for which like= must be given")
        if len(self.like) < count:
            raise self.error(f"is {what}, but like={self.like} has {len(self.like)} dimensions")
        return self.like

    def _add(self, n: Any) -> None:
        if n is None:
            raise self.error(f"is taken from like={self.like}, which has None there")
        if type(n) is not Dim and self.like is not None:
            there = self.like[len(self.found)] if len(self.found) < len(self.like) else None
            if n != there:
                raise self.error(f"is {n}, but like={self.like}")
        self.found.append(n)

    def sum(self) -> Any:
        """Terms with signs between them."""
        total: Any = None
        sign = 1
        if self.token in ("+", "-"):
            sign = -1 if self.token == "-" else 1
            self.advance()
        while True:
            part = sign * self.product()
            total = part if total is None else total + part
            if self.token in ("", ",", ")"):
                return total
            if self.token not in ("+", "-"):
                raise self.error(f"has {self._here()} where an operator is expected")
            sign = -1 if self.token == "-" else 1
            self.advance()

    def product(self) -> Any:
        found: Any = None
        while True:
            factor = self.factor()
            if self.token == "^":
                self.advance()
                factor = factor ** self._whole()
            found = factor if found is None else found * factor
            if self.token in ("", ",", ")", "+", "-"):
                return found
            self.expect("*")

    def factor(self) -> Any:
        if self.name:
            name = self.name
            self.advance()
            return (
                self._applied(_OPERATIONS[name]) if name in _OPERATIONS else named(name, self.scope)
            )
        sign = 1
        if self.token == "-":
            sign = -1
            self.advance()
        return sign * self._whole()

    def _whole(self) -> int:
        text = self.number
        if not text:
            raise self.error(f"has {self._here()} where a number or a name is expected")
        if not text.isdecimal():
            raise self.error(f"has {text}, which isn't an integer")
        self.advance()
        return int(text)

    def _applied(self, function: Any) -> Any:
        self.expect("(")
        a = self.sum()
        self.expect(",")
        b = self.sum()
        self.expect(")")
        if function in (max, min):
            return larger(a, b, function)
        return made(t.operation(function, terms_of(a), terms_of(b)), self.scope)
