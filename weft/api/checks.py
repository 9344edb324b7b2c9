"""``weft.checks``: errors inside compiled code, with the user's line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base import checking, knobs
from weft.base.traceback import api_boundary


@api_boundary
def checks(
    *,
    nan: bool | None = None,
    inf: bool | None = None,
    index: bool | None = None,
    division: bool | None = None,
    overflow: bool | Sequence[Any] | None = None,
) -> knobs.Setting:
    """Return a scope in which operations that go wrong raise an error, in compiled code too.

    The error names the operation, your line, the element, the operands there, and the iteration of
    each loop around it. Without arguments it checks all but infinities.

    Args:
        nan: raise where an operation makes a NaN. A NaN that ``where`` discards, or that is passed
            in, is none.
        inf: the same for infinities.
        index: raise where an index is out of bounds.
        division: raise where a number is divided by zero.
        overflow: raise where a signed integer wraps, or an integer of one of these dtypes.

    Returns:
        A context manager, which is a decorator too. Arguments that are None keep their setting.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> @weft.jit
        ... def f(x, i):
        ...     return jnp.sqrt(x)[i]
        >>> with weft.checks(nan=True, index=True):
        ...     f(jnp.arange(4.0), 7)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        weft.errors.IndexCheckError: dynamic_slice got index 7 for axis 0 of size 4...
    """
    given = {"nan": nan, "inf": inf, "index": index, "division": division}
    values: dict[str, Any] = {f"check_{k}": bool(v) for k, v in given.items() if v is not None}
    if overflow is not None:
        values["check_overflow"] = _dtypes(overflow)
    if not values:
        values = {"check_nan": True, "check_index": True, "check_division": True}
        values["check_overflow"] = "signed"
    return checking.Scope(knobs.scope(**values).changes)


def _dtypes(overflow: Any) -> str:
    """The knob's value for an argument."""
    if isinstance(overflow, (bool, np.bool_)):
        return "signed" if overflow else ""
    given = (overflow,) if isinstance(overflow, (str, type, np.dtype)) else tuple(overflow)
    return ",".join(dict.fromkeys(_name(x) for x in given))


def _name(x: Any) -> str:
    try:
        dtype = np.dtype(x)
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind not in "iu":
        raise TypeError(
            f"overflow takes True, False or integer dtypes, got {x!r}; write"
            " overflow=(jnp.int32, jnp.uint8)"
        )
    return dtype.name
