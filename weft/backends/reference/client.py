"""The host as NumPy: programs are planned, and each step is run by its reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.reference.program import Executable, Reference
from weft.base import checking
from weft.core import sharding as meshes
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr
from weft.division.plain import plain
from weft.runtime.array import ArrayImpl, box
from weft.runtime.checked import PlainClient, interpreted
from weft.runtime.client import NONE, Donated
from weft.runtime.code import CodeKey
from weft.runtime.compiling import checked
from weft.runtime.programs import called, compiled


class NumPy(PlainClient):
    """The reference of every backend."""

    def executable(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Executable | None:
        key = CodeKey("reference", (), (checking.asked(),))
        return compiled(closed, key, lambda source: Reference().compile(checked(source)))

    def run(self, closed: ClosedJaxpr, args: Sequence[Any], donated: Donated = NONE) -> list[Any]:
        if meshes.explicit_ones:
            closed = plain(closed)
        executable = self.executable(closed)
        if executable is None:
            return interpreted(checked(closed), args)
        given = []
        for x, aval in zip(args, closed.in_avals, strict=True):
            value = x._value if type(x) is ArrayImpl else np.asarray(x, storage_dtype(aval.dtype))
            given.append(value)
        # memory of the caller's own NumPy arrays, or a view of it, must not become an array's
        foreign = any(type(x) is not ArrayImpl for x in args)
        return [
            box(v.copy() if foreign else v, a)
            for v, a in zip(executable(given), closed.out_avals, strict=True)
        ]

    def operation(self, primitive: Any, args: Any, avals: Any, out: Any, params: Any) -> Any:
        callee = called(primitive, params)
        if callee is None or self.executable(callee) is None:
            return self.by_reference(primitive, args, avals, out, params)
        return self.run(callee, args)


def clients() -> list[NumPy]:
    """The one client that there is."""
    return [NumPy()]
