"""Types of libraries that vmap maps over by functions which the library gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base.record import Record
from weft.core.batching import match_axis
from weft.core.trace import set_trace, state


class Kind(Record):
    """How values of a type are taken apart into elements and put together again."""

    spec: type
    to_element: Callable[..., Any]
    from_element: Callable[..., Any]


kinds: dict[type, Kind] = {}


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable[..., Any],
    from_elt: Callable[..., Any],
    make_iota: Callable[..., Any] | None,
) -> None:
    """Let ``vmap`` map over values of a type by specs of another type.

    ``to_elt(cont, index, value, spec)`` gives one element of a value: ``cont(array, axis)`` one of
    an array that it holds. ``from_elt(cont, size, element, spec)`` gives the value of elements:
    ``cont(size, array, axis)`` the array of all.
    """
    if data_type in kinds:
        raise ValueError(f"{data_type.__name__} is already registered with vmap")
    kinds[data_type] = Kind(spec_type, to_elt, from_elt)


def unregister_vmappable(data_type: type) -> None:
    """Forget a type."""
    if kinds.pop(data_type, None) is None:
        raise ValueError(f"{data_type.__name__} is not registered with vmap")


def leaf_test() -> Callable[[Any], bool] | None:
    """What tells values of such types, which are leaves although they may be trees elsewhere."""
    return (lambda x: type(x) in kinds) if kinds else None


def is_spec(x: Any) -> bool:
    """Whether an entry of ``in_axes`` or ``out_axes`` is for values of such a type."""
    return any(type(x) is kind.spec for kind in kinds.values())


def element_of(value: Any, spec: Any) -> Any:
    """One element of a value, in the trace that maps it."""
    trace: Any = state.trace

    def part(x: Any, axis: Any) -> Any:
        return element_of(x, axis) if type(x) in kinds else trace.wrap(x, axis)

    return kinds[type(value)].to_element(part, None, value, spec)


def value_of(size: int, element: Any, spec: Any) -> Any:
    """The value of all elements, in the trace outside."""
    trace: Any = state.trace

    def whole(count: int, x: Any, axis: Any) -> Any:
        if type(x) in kinds:
            return value_of(count, x, axis)
        value, dim = trace.split(x)
        with set_trace(trace.parent):
            return match_axis(count, dim, axis, value)

    return kinds[type(element)].from_element(whole, size, element, spec)
