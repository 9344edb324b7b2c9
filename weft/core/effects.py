"""Effects: what an equation does besides computing its results."""

from __future__ import annotations

from typing import Any


class Effect:
    """A kind of side effect; equal kinds are equal.

    >>> from weft.extend.core import Effect
    >>> Effect() == Effect()
    True
    """

    ordered = False
    on_refs = False  # whether it reads or writes mutable references

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return type(self).__name__


class OrderedEffect(Effect):
    """A side effect whose occurrences must keep their order."""

    ordered = True


Effects = frozenset[Effect]
no_effects: Effects = frozenset()


class NamedAxisEffect(Effect):
    """The equation refers to an axis by name."""

    def __init__(self, name: object) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return type(other) is NamedAxisEffect and other.name == self.name

    def __hash__(self) -> int:
        return hash((NamedAxisEffect, self.name))

    def __repr__(self) -> str:
        return f"NamedAxisEffect({self.name!r})"


def observable(effects: Effects) -> bool:
    """Whether an equation with these effects must be kept even if its results are unused."""
    return any(type(effect) is not NamedAxisEffect for effect in effects)


def touches_refs(primitive: Any, params: dict[str, Any]) -> bool:
    """Whether a primitive that carries programs reads or writes references in them."""
    rule = primitive.eqn_effects
    return rule is not None and any(effect.on_refs for effect in rule((), params))
