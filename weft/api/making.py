"""Functions that make small arrays of numbers alone: what they made is kept and copied.

There is nothing to learn in ``zeros((3, 4))``: it is the same array each time, and copying it takes
less time than checking a shape and a dtype.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.base import events, knobs
from weft.base.functional import register_cache
from weft.base.source import refusing_warnings
from weft.core.avals import ShapedArray
from weft.core.trace import eval_trace, state
from weft.runtime.array import ArrayImpl, own
from weft.runtime.places import HOME

# Arrays that one function keeps; past it, it starts anew. Larger arrays are not kept.
KEPT, ELEMENTS = 512, 512

_NUMBERS = frozenset([int, float, complex, bool, type(None), str])
_NOTHING: Any = (None, None)


class Making:
    """A public function that makes arrays of numbers, shapes and dtypes."""

    __slots__ = ("_fun", "_made", "__weakref__")

    def __init__(self, fun: Callable[..., Any]) -> None:
        self._fun = fun
        # of each call that has come: values and type of the result; None where it is not kept
        self._made: dict[Any, tuple[np.ndarray | None, ShapedArray | None]] = {}
        register_cache(self)

    def cache_clear(self) -> None:
        self._made.clear()

    def make(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a call."""
        key = _key(args, kwargs)
        found = self._made.get(key)
        if found is not None:
            value, aval = found
            if value is not None and events.listener is None:
                return own(value.copy(), aval)  # type: ignore[arg-type]  # both or neither
        elif key is not None and state.trace is eval_trace:
            return self._keep(key, args, kwargs)
        return self._fun(*args, **kwargs)

    def _keep(self, key: Any, args: Any, kwargs: Any) -> Any:
        """The result, kept for the next time if it is small and comes without a warning."""
        if len(self._made) >= KEPT:
            self._made.clear()
        self._made[key] = _NOTHING
        try:
            with refusing_warnings():
                result = self._fun(*args, **kwargs)
        except Exception:
            return self._fun(*args, **kwargs)
        if type(result) is ArrayImpl and result.size <= ELEMENTS and result._type.placement is HOME:
            self._made[key] = (np.array(result._value), result.aval)
        return result


def _key(args: Any, kwargs: Any) -> Any:
    """What tells calls apart, by the types of numbers too; None where an argument is an array."""
    numbers: list[Any] = [len(args)]
    named: list[Any] = [knobs.context_key()]
    for x in (*args, *kwargs, *kwargs.values()) if kwargs else args:
        kind = type(x)
        if kind in _NUMBERS:
            numbers.append(x)
        elif kind is tuple or kind is list:
            # what is in there besides numbers may look like other things once it is written down
            if not _NUMBERS.issuperset(map(type, x)):
                return None
            numbers.append(x)
        elif isinstance(x, (type, np.dtype)):
            numbers.append(...)
            # classes of weft's own that stand for dtypes take longer to compare than these
            named.append(x if kind is type else getattr(x, "dtype", x))
        else:
            return None
    return marshal.dumps(numbers, 2), *named
