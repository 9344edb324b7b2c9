"""Backends that are given NumPy arrays and give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.core.interpret import run, storage_dtype
from weft.core.jaxpr import ClosedJaxpr
from weft.runtime import registry
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


class Interpreted:
    """A program without native code: run by the reference backend, or, where some of its values
    are not memory, equation by equation."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.closed = closed
        self.consts = [
            getattr(c, "_value", c)
            if hasattr(c, "_value") or not hasattr(v.aval, "dtype")
            else np.asarray(c, v.aval.dtype)
            for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)
        ]

    def __call__(self, args: Any) -> list[Any]:
        make = registry.PLAIN["reference"]
        found = call_plain("reference", make, self.closed, args, self.closed.in_avals)
        if found is not None:
            return found
        values = [x._value if type(x) is ArrayImpl else x for x in args]
        outs = run(self.closed.jaxpr, self.consts, values)
        # memory of the caller's own NumPy arrays, or a view of it, must not become an array's
        foreign = any(type(x) is np.ndarray for x in args)
        return [
            box(v.copy() if foreign else v, a) if hasattr(a, "dtype") else v
            for v, a in zip(outs, self.closed.out_avals, strict=True)
        ]
