"""Primitives that call a program, as programs of extensions may hold them.

weft's own calls are ``jit``; these two are evaluated, compiled and transformed like it.
"""

from __future__ import annotations

from typing import Any

from weft.core.ad import instantiate
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from weft.core.primitive import Primitive
from weft.transforms.dce import close
from weft.transforms.jvp import jvp
from weft.transforms.transpose import backward_pass
from weft.transforms.vmap import batch


class ProgramCall(Primitive):
    """A call of the program ``call_jaxpr``."""

    multiple_results = True

    def __init__(self, name: str) -> None:
        self.name = name  # not entered among weft's own primitives
        self.differentials = ()

    def callee(self, params: dict[str, Any]) -> ClosedJaxpr:
        called = params["call_jaxpr"]
        return close(called) if type(called) is Jaxpr else called

    def shape(self, *avals: Any, **params: Any) -> list[Any]:
        return self.callee(params).out_avals

    def eqn_effects(self, avals: Any, params: Any) -> Any:
        return self.callee(params).jaxpr.effects

    def ref(self, *args: Any, **params: Any) -> list[Any]:  # type: ignore[override]
        closed = self.callee(params)
        return run(closed.jaxpr, closed.consts, args)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        return jvp(jaxpr_as_fun(self.callee(params)), primals, tangents)

    def batch(self, axis: Any, args: Any, dims: Any, **params: Any) -> tuple[Any, Any]:
        return batch(jaxpr_as_fun(self.callee(params)), axis, args, dims)

    def transpose(self, cts: Any, *args: Any, **params: Any) -> list[Any]:
        closed = self.callee(params)
        return backward_pass(closed.jaxpr, closed.consts, args, list(map(instantiate, cts)))

    masks = "call"


call_p, closed_call_p = ProgramCall("call"), ProgramCall("closed_call")
