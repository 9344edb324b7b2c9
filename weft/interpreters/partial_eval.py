"""Staging and partial evaluation, for those who write transformations."""

from __future__ import annotations

from typing import Any

from weft.core.jaxpr import Jaxpr
from weft.core.staging import StagingTrace as DynamicJaxprTrace
from weft.core.staging import StagingTracer as DynamicJaxprTracer
from weft.core.staging import stage
from weft.core.trace import set_trace, state, typeof
from weft.transforms.dce import convert_constvars as convert_constvars_jaxpr
from weft.transforms.dce import dce_jaxpr as dce_jaxpr
from weft.transforms.partial_eval import PartialEvalTrace as JaxprTrace

__all__ = [
    "DynamicJaxprTrace",
    "DynamicJaxprTracer",
    "JaxprTrace",
    "PartialVal",
    "convert_constvars_jaxpr",
    "dce_jaxpr",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]


class PartialVal(tuple[Any, Any]):
    """A value that is known, ``(None, value)``, or of which the type is, ``(aval, None)``.

    >>> PartialVal.known(1.5).is_known(), PartialVal.known(1.5).get_aval()
    (True, ShapedArray(float32[], weak_type=True))
    """

    def __new__(cls, pair: Any) -> PartialVal:
        return tuple.__new__(cls, pair)

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self) -> Any:
        """The value, or None if it is not known."""
        return self[1] if self[0] is None else None

    def get_aval(self) -> Any:
        return typeof(self[1]) if self[0] is None else self[0]


def trace_to_jaxpr_nounits(
    fun: Any, pvals: Any, instantiate: Any = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """What of a function cannot be computed from the known of its arguments, as a program.

    Gives the program of the unknown results, all results as partial values, and the known values
    that the program reads. ``instantiate`` makes known results part of the program, too.
    """
    trace = JaxprTrace(state.trace)
    args = [p.get_known() if p.is_known() else trace.new_arg(p.get_aval()) for p in pvals]
    call = fun.call_wrapped if hasattr(fun, "call_wrapped") else fun
    with set_trace(trace):
        outs = list(call(*args))
    flags = [instantiate] * len(outs) if isinstance(instantiate, bool) else list(instantiate)
    unknown = [trace.is_unknown(x) or flag for x, flag in zip(outs, flags, strict=True)]
    results = [
        PartialVal.unknown(typeof(x)) if u else PartialVal.known(x)
        for x, u in zip(outs, unknown, strict=True)
    ]
    jaxpr, consts = trace.to_jaxpr([x for x, u in zip(outs, unknown, strict=True) if u])
    trace.invalidate()
    return jaxpr, results, consts


def trace_to_jaxpr_dynamic(fun: Any, in_avals: Any, **_: Any) -> tuple[Jaxpr, Any, Any]:
    """Program, types of results and constants of a wrapped function of flat arguments."""
    call = fun.call_wrapped if hasattr(fun, "call_wrapped") else fun
    closed = stage(call, list(in_avals))
    return closed.jaxpr, closed.out_avals, closed.consts
