"""Staging and partial evaluation, for those who write transformations."""

from __future__ import annotations

from typing import Any

from weft.core.jaxpr import Jaxpr
from weft.core.staging import StagingTrace as DynamicJaxprTrace
from weft.core.staging import StagingTracer as DynamicJaxprTracer
from weft.core.staging import stage
from weft.transforms.dce import convert_constvars as convert_constvars_jaxpr
from weft.transforms.dce import dce_jaxpr as dce_jaxpr

__all__ = [
    "DynamicJaxprTrace",
    "DynamicJaxprTracer",
    "convert_constvars_jaxpr",
    "dce_jaxpr",
    "trace_to_jaxpr_dynamic",
]


def trace_to_jaxpr_dynamic(fun: Any, in_avals: Any, **_: Any) -> tuple[Jaxpr, Any, Any]:
    """Program, types of results and constants of a wrapped function of flat arguments."""
    call = fun.call_wrapped if hasattr(fun, "call_wrapped") else fun
    closed = stage(call, list(in_avals))
    return closed.jaxpr, closed.out_avals, closed.consts
