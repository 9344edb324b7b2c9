"""Where in a program a check stands."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.base.record import Record


class Around(Record):
    """A loop or branch around a check: its equation, the flat program in it that has the check, and
    whether that is a loop's predicate.

    Of a loop under ``vmap`` that is checked element by element, ``batch`` is what was mapped, and
    the program has the loop of one element.
    """

    eqn: Any
    body: Any
    asks: bool = False
    batch: Any = None


class Site(Record):
    """A check: its kind, the equation it is about, and what is around that, outermost first."""

    kind: str  # value, index, division or overflow
    eqn: Any
    variable: Any  # what is looked at, of a check of values
    path: tuple[Around, ...] = ()

    def inside(self, around: Around) -> Site:
        """The same, seen from outside of a loop or branch."""
        return self._replace(path=(around, *self.path))


def is_inexact(aval: Any) -> bool:
    """Whether values of a type may be NaN."""
    dtype = getattr(aval, "dtype", None)
    if getattr(aval, "is_ref", False):
        return False
    return isinstance(dtype, np.dtype) and dtypes.issubdtype(dtype, np.inexact)


def is_integer(aval: Any) -> bool:
    """Whether values of a type are integers."""
    kind = getattr(getattr(aval, "dtype", None), "kind", "")
    return kind in ("i", "u") and not getattr(aval, "is_ref", False)
