"""The primitive that runs a program which looks at checks again."""

from __future__ import annotations

from typing import Any

from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive


class Look(Primitive):
    """A program that says which check fails, for operands in memory."""

    multiple_results = True
    holes = dict.fromkeys(("jvp", "transpose", "batch"), "it runs when a check has failed")

    def shape(self, *avals: Any, jaxpr: ClosedJaxpr) -> list[Any]:
        return list(jaxpr.out_avals)

    def callee(self, params: dict[str, Any]) -> ClosedJaxpr:
        return params["jaxpr"]  # type: ignore[no-any-return]


look_p = Look()
look_p.name = "look"  # no program has it, so it isn't in the table of primitives
