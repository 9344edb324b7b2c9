"""Names by which a library defines types of its own; weft has no such types, so using them fails.

``flax.nnx`` defines classes and registers effects when it is imported, and uses them only where
its variables are asked to be hijax types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.avals import AbstractValue


def _refused(what: str) -> TypeError:
    return TypeError(
        f"{what} needs types defined by libraries (hijax), which weft does not have; for flax.nnx"
        " leave variable_hijax off"
    )


class HiType(AbstractValue):
    """A type that a library defines."""


class MutableHiType(HiType):
    """A mutable type that a library defines."""


class AvalQDD:
    """A type with data that changes."""


class AvalMutableQDD(AvalQDD):
    """A type with data that changes, and the changes."""


class HiPrimitive:
    """An operation on types that a library defines."""

    multiple_results = False

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply it, which fails."""
        raise _refused(f"the primitive {self.name}")


class VJPHiPrimitive(HiPrimitive):
    """The same with a reverse-mode rule."""


class _Effects:
    def add_type(self, effect: type) -> None:
        """Allow an effect in loops: weft allows all that are not ordered."""


control_flow_allowed_effects = _Effects()


def register_hitype(val_cls: type, typeof_fn: Callable[..., Any]) -> None:
    """Say that values of a class have a type of the library's own."""


def aval_property(fget: Callable[..., Any]) -> property:
    """A property of values that their type computes."""
    return property(fget)


def aval_method(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A method of values that their type has."""
    return fun


def cur_qdd(x: Any) -> Any:
    """The changing data of a value, which none has."""
    raise _refused("cur_qdd")
