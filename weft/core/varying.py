"""Over which mesh axes values vary in ``shard_map``: types carry it, and operands are made alike.

A value of a mapped function may be the same on all devices along an axis. An operation on values of
both kinds sees the shared ones as ones that each device has (``pvary``), whose transpose is the sum
over the devices.
"""

from __future__ import annotations

from typing import Any

from weft.core.avals import ShapedArray, varying_of
from weft.core.jaxpr import ClosedJaxpr, jaxprs_in_params
from weft.core.registry import lookup
from weft.core.trace import state, typeof

# How many scopes there are in which types say what varies, in all threads: one look at this costs
# less than one at a thread's own state.
scopes = 0
# Primitives whose programs have the types of their operands and results.
_CALLS = frozenset(
    "jit scan while cond remat2 remat_opt custom_jvp_call custom_vjp_call shard_map".split()
)
# Operations that only rename how values vary.
_CASTS = frozenset(["pvary", "pshared"])


def alike(primitive: Any, args: Any, params: dict[str, Any]) -> Any:
    """Operands that all vary over the same axes; collectives, over those that they speak to."""
    if primitive.name in _CASTS or primitive.takes_refs or any(jaxprs_in_params(params)):
        return args
    if any(callable(p) and not isinstance(p, type) for p in params.values()):
        return args
    avals = [typeof(x) for x in args]
    if not all(type(a) is ShapedArray for a in avals):
        return args
    wanted = frozenset().union(*[a.mat.varying for a in avals])
    if primitive.axis_names is not None:
        wanted |= state.manual & frozenset(primitive.axis_names(params))
    if all(a.mat.varying == wanted for a in avals):
        return args
    pvary = lookup("pvary")
    return tuple(
        [
            x if not (left := wanted - a.mat.varying) else pvary.bind(x, axes=ordered(left))
            for x, a in zip(args, avals, strict=True)
        ]
    )


def like(x: Any, model: Any) -> Any:
    """``x``, made to vary over the axes that a model, a value or a type, varies over."""
    if not state.manual:
        return x
    aval = model if type(model) is ShapedArray else typeof(model)
    left = varying_of(aval) - varying_of(typeof(x))
    return lookup("pvary").bind(x, axes=ordered(left)) if left else x


def ordered(axes: Any) -> tuple[Any, ...]:
    """Mesh axes in the order of their names."""
    return tuple(sorted(axes, key=str))


def together(*xs: Any) -> list[Any]:
    """Values that all vary over the axes that any of them varies over."""
    found = list(xs)
    for model in xs:
        found = [like(x, model) for x in found]
    return found


def vary(primitive: Any, avals: Any, params: dict[str, Any], result: Any) -> Any:
    """The types of an equation's results, with the axes over which they vary."""
    results = result if primitive.multiple_results else [result]
    programs = list(jaxprs_in_params(params)) if primitive.name in _CALLS else ()
    if programs:
        found = _of_programs(programs, avals, params, results)
    else:
        given = frozenset().union(*map(varying_of, avals))
        rule = primitive.vma
        one = given if rule is None else rule(given, params)
        found = [one] * len(results)
    typed = [
        a.varying(v) if type(a) is ShapedArray else a for a, v in zip(results, found, strict=True)
    ]
    return typed if primitive.multiple_results else typed[0]


def _of_programs(programs: Any, avals: Any, params: Any, results: Any) -> list[frozenset[Any]]:
    """Results vary as those of the programs inside, and with what chooses among them."""
    found = [frozenset[Any]()] * len(results)
    for program in programs:
        jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
        if len(jaxpr.outvars) == len(results):
            outs = [varying_of(v.aval) for v in jaxpr.outvars]
            found = [a | b for a, b in zip(found, outs, strict=True)]
    if "manual_axes" in params:
        found = [v - params["manual_axes"] for v in found]
    if "branches" in params:
        found = [v | varying_of(avals[0]) for v in found]
    return found
