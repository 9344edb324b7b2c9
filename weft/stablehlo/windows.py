"""Rules of the operations that derivatives of pooling are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.stablehlo.elementwise import compare, out_of
from weft.stablehlo.emitter import Emitter, Typed, rule
from weft.stablehlo.types import array, dense, physical, tensor


@rule("select_and_scatter_add")
def _select_and_scatter_add(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    source, x = ins
    p = eqn.params
    kinds = [((), x.dtype)] * 2
    direction = {"ge": "GE", "le": "LE"}[p["select_prim"].name]
    select = e.block(kinds, lambda a, b: [compare(e, direction, a, b)])
    scatter = e.block(kinds, lambda a, b: [e.one("add", [a, b], (), x.dtype)])
    zero = e.constant(np.zeros((), x.dtype))
    given = [x, source, zero]
    return e.op("select_and_scatter", given, [out_of(eqn)], _window(p), [select, scatter])


@rule("select_and_scatter")
def _select_and_scatter(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    p = eqn.params
    kinds = [((), ins[0].dtype)] * 2

    def block(name: str) -> str:
        jaxpr, consts = p[f"{name}_jaxpr"], p[f"{name}_consts"]
        body = lambda *args: e.program(jaxpr, consts, args)
        return e.block(kinds, body)

    regions = [block("select"), block("scatter")]
    results: list[tuple[Any, Any]] = [physical(eqn.outvars[0].aval)]
    found: list[Typed] = e.op("select_and_scatter", ins, results, _window(p), regions)
    return found


def _window(p: dict[str, Any]) -> str:
    pads = np.asarray(p["padding"], np.int64).reshape(-1, 2)
    return (
        f"window_dimensions = {array(p['window_dimensions'])},"
        f" window_strides = {array(p['window_strides'])},"
        f" padding = {dense(pads)} : {tensor(pads.shape, pads.dtype)}"
    )
