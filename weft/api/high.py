"""Compiled functions that are given mutable values of types that libraries define (hijax)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base.functional import wraps
from weft.core.high import Parts, is_high, is_mutable, take_apart
from weft.core.trace import Tracer
from weft.tree.functions import tree_leaves, tree_map
from weft.tree.registry import register_pytree_node


class Opened:
    """A mutable value as the arrays that it holds; ``number`` says which argument it is."""

    __slots__ = ("number", "parts")

    def __init__(self, number: int, parts: Parts) -> None:
        self.number, self.parts = number, parts


def _opened(aux: Any, arrays: Any) -> Opened:
    number, aval, state = aux
    return Opened(number, Parts(aval, state, arrays))


register_pytree_node(
    Opened,
    lambda o: (tuple(o.parts.arrays), (o.number, o.parts.aval, o.parts.state)),
    _opened,
)


class Returned:
    """An argument that a function returns as it is."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


register_pytree_node(Returned, lambda r: ((), r.number), lambda number, _: Returned(number))


def is_differentiated(trees: Any) -> bool:
    """Whether there is a value of a library's type that is being differentiated."""
    return any(isinstance(x, Tracer) and is_high(x) for x in tree_leaves(trees))


def has_mutable(trees: Any) -> bool:
    """Whether there is a mutable value of a library's type."""
    return any(is_mutable(x) for x in tree_leaves(trees))


def opening(fun: Callable[..., Any]) -> Callable[..., Any]:
    """``fun`` of opened arguments; it returns also what they hold in the end."""

    @wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        values: dict[int, Any] = {}

        def close(x: Any) -> Any:
            if type(x) is not Opened:
                return x
            parts = x.parts
            values[x.number] = parts.aval.new_from_loval(parts.state, *parts.arrays)
            return values[x.number]

        is_opened = lambda x: type(x) is Opened
        given, named = tree_map(close, (args, kwargs), is_leaf=is_opened)
        result = fun(*given, **named)
        numbers = {id(value): number for number, value in values.items()}
        shown = lambda x: Returned(numbers[id(x)]) if id(x) in numbers else x
        last = [Opened(n, take_apart(value, True)) for n, value in sorted(values.items())]
        return tree_map(shown, result), last

    return run


def call(inner: Callable[..., Any], args: Any, kwargs: Any, static: Any) -> Any:
    """Call a compiled ``opening`` function, and write into its arguments what they then hold.

    ``static`` has the positions and names of arguments that are not looked into.
    """
    values: list[Any] = []

    def open_(x: Any) -> Any:
        if not is_mutable(x):
            return x
        if any(x is y for y in values):
            raise ValueError(
                f"a mutable value of type {type(x).__name__} was passed twice; pass it once"
            )
        values.append(x)
        return Opened(len(values) - 1, take_apart(x, True))

    positions, names = static
    given = [x if i in positions else tree_map(open_, x) for i, x in enumerate(args)]
    named = {k: x if k in names else tree_map(open_, x) for k, x in kwargs.items()}
    result, last = inner(*given, **named)
    for opened in last:
        parts = opened.parts
        parts.aval.update_from_loval(parts.state, values[opened.number], *parts.arrays)
    shown = lambda x: values[x.number] if type(x) is Returned else x
    return tree_map(shown, result, is_leaf=lambda x: type(x) is Returned)
