"""Partial evaluation: compute what is known, write down what is not.

A value is unknown if it is a tracer of the trace itself. Known values that unknown equations read
become constants of the program written down: the residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base.functional import partition_list
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, eval_jaxpr
from weft.core.registry import lookup
from weft.core.repeated import origin
from weft.core.staging import StagingTrace, StagingTracer, stage
from weft.core.trace import Trace, state, typeof
from weft.transforms.dce import convert_constvars, dce_jaxpr, drop_unused_consts


class PartialEvalTrace(StagingTrace):
    """Stages primitives with an unknown operand; hands the others to the parent."""

    __slots__ = ("parent",)

    def __init__(self, parent: Trace, debug_info: Any = None) -> None:
        super().__init__(debug_info)
        self.parent = parent

    def is_unknown(self, x: Any) -> bool:
        return type(x) is StagingTracer and x._trace is self

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        for x in args:
            if type(x) is StagingTracer and x._trace is self:
                break
        else:
            parent = self.parent
            previous = state.trace
            state.trace = parent
            try:
                return parent.process_primitive(primitive, args, params)
            finally:
                state.trace = previous
        if primitive.partial_eval is not None:
            previous = state.trace
            state.trace = self
            try:
                return primitive.partial_eval(self, args, params)
            finally:
                state.trace = previous
        if primitive.stage is not None:
            return primitive.stage(self, args, params)
        return self.emit(primitive, args, params)


def prune(jaxpr: Jaxpr, consts: Sequence[Any]) -> ClosedJaxpr:
    """Drop what no output needs; all inputs stay."""
    smaller, _ = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), True)
    return drop_unused_consts(ClosedJaxpr(smaller, consts))


def _repeating(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program that repeats booleans itself: it takes those that are repeated, and can tell."""
    found = [origin(c) for c in closed.consts]
    if not any(found):
        return closed
    variables, consts, eqns = [], [], []
    for v, c, smaller in zip(closed.jaxpr.constvars, closed.consts, found, strict=True):
        if smaller is not None:
            c, dims = smaller
            params = {"shape": v.aval.shape, "broadcast_dimensions": dims, "sharding": None}
            small = Var(typeof(c))
            eqns.append(JaxprEqn([small], [v], lookup("broadcast_in_dim"), params))
            v = small
        variables.append(v)
        consts.append(c)
    jaxpr = closed.jaxpr.replace(constvars=variables, eqns=[*eqns, *closed.jaxpr.eqns])
    return ClosedJaxpr(jaxpr, consts)


def partial_eval_jaxpr(
    closed: ClosedJaxpr, unknown: Sequence[bool], instantiate: Sequence[bool] | bool
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[Any]]:
    """Split a program by which inputs are unknown.

    Returns the known program (known inputs to known outputs and residuals), the unknown program
    (residuals and unknown inputs to unknown outputs), which outputs are unknown, and the types of
    the residuals. Outputs marked in ``instantiate`` count as unknown.
    """
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(closed.out_avals)
    return _partial_eval_jaxpr(closed, tuple(unknown), tuple(instantiate))


@per_program
def _partial_eval_jaxpr(
    closed: ClosedJaxpr, unknown: tuple[bool, ...], instantiate: tuple[bool, ...]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[Any]]:
    kept: dict[str, Any] = {}
    known_avals, _ = partition_list(unknown, closed.in_avals)

    def known_part(*known_args: Any) -> list[Any]:
        parent = state.trace
        trace = PartialEvalTrace(parent)
        given = iter(known_args)
        args = [
            trace.new_arg(aval) if u else next(given)
            for aval, u in zip(closed.in_avals, unknown, strict=True)
        ]
        state.trace = trace
        try:
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
            out_unknown = [i or trace.is_unknown(x) for x, i in zip(outs, instantiate, strict=True)]
            known_outs, unknown_outs = partition_list(out_unknown, outs)
            jaxpr, consts = trace.to_jaxpr(unknown_outs)
        finally:
            state.trace = parent
            trace.alive = False
        residual_program = _repeating(prune(jaxpr, consts))
        # Constants that are no tracers stay constants; only what the known part computes flows on.
        kept["unknown"] = residual_program
        kept["out_unknown"] = out_unknown
        return [*known_outs, *residual_program.consts]

    known = stage(known_part, known_avals)
    program: ClosedJaxpr = kept["unknown"]
    residual_avals = [v.aval for v in program.jaxpr.constvars]
    unknown_program = ClosedJaxpr(convert_constvars(program.jaxpr), ())
    return known, unknown_program, kept["out_unknown"], residual_avals
