"""Backends that are given NumPy arrays and give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr
from weft.runtime.array import ArrayImpl, box
from weft.runtime.programs import compiled


def call_plain(
    name: str, make: Callable[[], Any], closed: ClosedJaxpr, args: Any, avals: Any
) -> list[Any] | None:
    """The results of a program by a backend on NumPy arrays; None where it has no plan.

    ``make`` makes the backend of that name.
    """
    executable = compiled(closed, ("executable", name), lambda source: make().compile(source))
    if executable is None:
        return None
    given = []
    for x, aval in zip(args, avals, strict=True):
        value = x._value if type(x) is ArrayImpl else np.asarray(x, storage_dtype(aval.dtype))
        given.append(value)
    foreign = any(type(x) is not ArrayImpl for x in args)
    results = executable(given)
    return [
        box(v.copy() if foreign else v, a) for v, a in zip(results, closed.out_avals, strict=True)
    ]
