"""The primitive that ends a program where a check has failed."""

from __future__ import annotations

from typing import Any

from weft.core.effects import Effect
from weft.core.primitive import Primitive
from weft.kernel.program import Branch, Host


class CheckEffect(Effect):
    """A program may stop here."""

    repeatable = True

    def __repr__(self) -> str:
        return "Check"


check_effect = CheckEffect()


class StopIf(Primitive):
    """Raises if its first operand is true.

    The next ones say which check failed, in which rounds of loops; the others are the values in
    memory from which the search for the culprit starts.
    """

    nodes = "branch"
    multiple_results = True
    effects = frozenset({check_effect})
    unplanned = ("culprit",)
    holes = dict.fromkeys(("jvp", "transpose"), "it is added to programs that are compiled")

    def shape(self, *avals: Any, culprit: Any) -> list[Any]:
        return []

    def eqn_effects(self, avals: Any, params: Any) -> Any:
        return self.effects

    def plan(self, planner: Any, eqn: Any, ins: Any, outs: Any) -> list[Any]:
        stopped = Host(eqn, tuple(ins), ())
        return [Branch(ins[0], 1, ((), (stopped,)), tuple(ins))]

    @staticmethod
    def ref(failed: Any, *values: Any, culprit: Any) -> list[Any]:
        if failed:
            error = culprit.error(values)
            if error is not None:
                raise error
        return []


stop_if_p = StopIf()
# its name is not in the table of primitives: no program has it before it is compiled
stop_if_p.name = "stop_if"
