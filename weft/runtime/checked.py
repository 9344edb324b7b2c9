"""The host under ``debug_nans`` and ``debug_infs``: every result is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base import source
from weft.compiler.analysis.cost import memory_stats, unfused_costs
from weft.core.interpret import check_floats, run
from weft.core.jaxpr import ClosedJaxpr, count_eqns
from weft.core.trace import state
from weft.runtime.array import ArrayImpl, box
from weft.runtime.client import NONE, Donated, Told
from weft.runtime.clients import HostClient
from weft.runtime.patterns import CallPattern, Pattern


class Study:
    """A program that is run equation by equation."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.closed = closed

    def text(self) -> str:
        return str(self.closed)

    def costs(self) -> dict[str, float]:
        return unfused_costs(self.closed)

    def memory(self) -> Any:
        return memory_stats(self.closed)


class PlainClient(HostClient):
    """A client of the host that computes everything by NumPy: nothing of it becomes native."""

    def remember(self, pattern: Pattern, places: Any = None) -> bool:
        return type(pattern) is CallPattern

    def prepare(self, wholly: bool = False, own: bool = False) -> None:
        """There is nothing to load."""

    def is_loaded(self) -> bool:
        return False

    def generalise(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        return closed

    def compile_eagerly(self, closed: ClosedJaxpr) -> bool:
        return False

    def hits(self, function: Any) -> int:
        return 0

    def selects(self, count: int) -> bool:
        return False

    def select(self, test: str, source: np.ndarray, wanted: list[Any]) -> None:
        return None

    def study(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Study:
        return Study(closed)

    def told(
        self, closed: ClosedJaxpr, name: str, traced: float, args: Sequence[Any] | None = None
    ) -> Told:
        return told_plainly(closed, name, traced)


class Interpreter(PlainClient):
    """The host as NumPy: programs are run equation by equation."""

    def run(self, closed: ClosedJaxpr, args: Sequence[Any], donated: Donated = NONE) -> list[Any]:
        return interpreted(closed, args)

    def operation(self, primitive: Any, args: Any, avals: Any, out: Any, params: Any) -> Any:
        return self.by_reference(primitive, args, avals, out, params)

    def check(self, primitive: Any, out: Any, values: Any, params: Any, result: Any) -> None:
        info = state.source or source.current()
        check_floats(primitive, out, values, params, result, info)

    def executable(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> None:
        return None


def told_plainly(closed: ClosedJaxpr, name: str, traced: float) -> Told:
    """The story of a program that NumPy runs."""
    count, moved = count_eqns(closed.jaxpr), unfused_costs(closed)["bytes accessed"]
    text = (
        f"{name}: {count} operations, each run with NumPy: native code is off or not available"
        " here, or the function handles values that are not numeric arrays"
    )
    return Told(text, python=count, moved=moved, unfused=moved, seconds={"trace": traced})


def interpreted(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """The results of a program, equation by equation."""
    consts = [
        getattr(c, "_value", c)
        if hasattr(c, "_value") or not hasattr(v.aval, "dtype")
        else np.asarray(c, v.aval.dtype)
        for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)
    ]
    values = [x._value if type(x) is ArrayImpl else x for x in args]
    with np.errstate(all="ignore"):
        outs = run(closed.jaxpr, consts, values)
    # memory of the caller's own NumPy arrays, or a view of it, must not become an array's
    foreign = any(type(x) is np.ndarray for x in args)
    return [
        box(v.copy() if foreign else v, a) if hasattr(a, "dtype") else v
        for v, a in zip(outs, closed.out_avals, strict=True)
    ]


def clients() -> list[Interpreter]:
    """The one client that there is."""
    return [Interpreter()]
