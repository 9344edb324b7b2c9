"""The second look at a failed check: which values an operation of the program has made bad.

Checks look at few values, and only the first failure comes out of a loop. If that is a bad number
that was passed in, another program is run, which tells apart what was passed in and what operations
have made of other numbers, element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base.checking import Kinds
from weft.compiler.checks import predicates
from weft.compiler.checks.flow import MOVES
from weft.compiler.checks.sites import is_inexact
from weft.core.interpret import literal_value
from weft.core.jaxpr import Literal


class Origins:
    """For values of a program that is being written, the elements that an operation has made bad,
    or that were computed from such elements."""

    def __init__(self, kinds: Kinds, env: dict[Any, Any]) -> None:
        self.kinds = kinds
        self.env = env
        self.made: dict[Any, Any] = {}  # absent where there are none
        self.known: dict[Any, Any] = {}

    def failed(self, v: Any) -> Any:
        """Whether any element of a value was made bad; None if none can be."""
        return None if v not in self.made else predicates.any_of(self.made[v])

    def bad(self, x: Any) -> Any:
        """Where a value is bad; None where it cannot be."""
        if not is_inexact(x.aval):
            return None
        if type(x) is Literal:
            value = self.kinds.is_bad(literal_value(x))
            return value if value.any() else None
        if x not in self.known:
            self.known[x] = predicates.bad(self.env[x], self.kinds)
        return self.known[x]

    def follow(self, eqn: Any) -> None:
        """Note what an equation has made, once it is bound."""
        name = eqn.primitive.name
        for v in eqn.outvars:
            if not is_inexact(v.aval):
                continue
            mine = [None if type(x) is Literal else self.made.get(x) for x in eqn.invars]
            made = self._chosen(eqn, mine) if name == "select_n" else self._computed(eqn, v, mine)
            if made is not None:
                self.made[v] = made

    def _chosen(self, eqn: Any, mine: Sequence[Any]) -> Any:
        return None if all(mask is None for mask in mine) else self._moved(eqn, mine)

    def _moved(self, eqn: Any, masks: Sequence[Any]) -> Any:
        """The masks of an equation's operands, chosen or moved as these are."""
        values = []
        for x, mask in zip(eqn.invars, masks, strict=True):
            if mask is not None:
                values.append(mask)
            elif is_inexact(x.aval):
                values.append(predicates.nowhere(x.aval.shape))
            else:
                values.append(x.val if type(x) is Literal else self.env[x])
        params = {**eqn.params, "fill_value": False} if "fill_value" in eqn.params else eqn.params
        return eqn.primitive.bind(*values, **params)

    def _computed(self, eqn: Any, v: Any, mine: Sequence[Any]) -> Any:
        """Bad elements that meet no bad operand, and those that meet one that was made."""
        given = self._met(eqn, v, [self.bad(x) for x in eqn.invars])
        passed = self._met(eqn, v, mine)
        out = self.bad(v)
        if given is None:
            return out
        new = predicates.negated(given)
        new = new if passed is None else predicates.either(new, passed)
        return predicates.both(out, new)

    def _met(self, eqn: Any, v: Any, masks: Sequence[Any]) -> Any:
        """The elements of a result that some elements of operands go into."""
        if eqn.primitive.name in MOVES and any(mask is not None for mask in masks):
            return self._moved(eqn, masks)
        found = None
        for place, mask in enumerate(masks):
            if mask is not None:
                mask = predicates.reached(eqn, place, mask, v.aval.shape)
                found = mask if found is None else predicates.either(found, mask)
        return found
