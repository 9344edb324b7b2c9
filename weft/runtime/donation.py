"""Donated arrays: whether their memory may be written over.

It may if the array is the only one that can see it. Everything else that does (a NumPy view, an
export, another array, a call that is running) holds a reference to the memory's owner, so that the
counts of references say it.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from weft.runtime.array import ArrayImpl, box
from weft.runtime.memory import Block


def alone(x: Any) -> bool:
    """Whether an array is the only one that can see its memory, which is our own.

    Counts are of one reference from what holds a thing, and one of the question itself.
    """
    if type(x) is not ArrayImpl or x._owner is None:
        return False
    if x._view is not None and x._view is not x._owner:
        if getrefcount(x._view) > 2:
            return False
        x._view = None  # it can be made again
    if type(x._owner) is not np.ndarray:
        return type(x._owner).__module__ == "weft.runtime" and getrefcount(x._owner) == 2
    if getrefcount(x._owner) > 2 + (x._view is x._owner) or x._owner.base is None:
        return False
    if type(x._owner.base) is not np.ndarray or getrefcount(x._owner.base) > 2:
        return False
    if x._owner.base.flags.owndata:
        return x._owner.base.flags.writeable
    return type(x._owner.base.base) is Block and getrefcount(x._owner.base.base) == 2


def given_up(
    args: list[Any], avals: Any, taken: Any, kept: Any = ()
) -> tuple[list[Any], dict[int, Any]]:
    """Arguments whose memory may be written over where that is to be, and those that lose theirs.

    Where others can see it, or where it is to be kept, a copy is written over instead.
    """
    found, lost = list(args), {}
    for i in taken:
        if i not in kept and alone(args[i]):
            lost[i] = args[i]
        else:
            value = args[i]._value if type(args[i]) is ArrayImpl else args[i]
            found[i] = box(np.array(value, order="C", copy=True), avals[i])
    return found, lost
