"""Over which mesh axes values vary in ``shard_map``: types carry it, and operands are made alike.

A value of a mapped function may be the same on all devices along an axis. An operation on values of
both kinds sees the shared ones as ones that each device has (``pvary``), whose transpose is the sum
over the devices.
"""

from __future__ import annotations

from typing import Any

from weft.base.lazy import Late
from weft.core.avals import ShapedArray, varying_of
from weft.core.jaxpr import ClosedJaxpr, jaxprs_in_params
from weft.core.registry import lookup
from weft.core.sharding import SHARED
from weft.core.trace import state, typeof

# needed where types are unreduced or reduced
marks = Late("weft.division.marks")

# How many scopes there are in which types say what varies, in all threads: one look at this costs
# less than one at a thread's own state.
scopes = 0
# Primitives whose programs have the types of their operands and results.
_CALLS = frozenset(
    "jit scan while cond remat2 remat_opt custom_jvp_call custom_vjp_call shard_map".split()
)
# Operations that only rename how values vary.
_CASTS = frozenset(["pvary", "pshared", "pcast"])


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
        names = state.manual & frozenset(primitive.axis_names(params))
        _check_marks(primitive, avals, names)
        wanted |= names.difference(*[a.mat.unreduced for a in avals])
    if all(a.mat.varying == wanted for a in avals):
        return args
    given = zip(args, avals, strict=True)
    return tuple([_made_varying(x, a, wanted - a.mat.varying) for x, a in given])


def _made_varying(x: Any, aval: Any, axes: frozenset[Any]) -> Any:
    """``x``, which all devices along axes share, as a value that each of them has."""
    mat = getattr(aval, "mat", SHARED)
    if not axes or axes <= mat.unreduced:
        return x
    if mat.reduced == axes:
        return cast(x, axes, "reduced", "varying")
    if axes & (mat.reduced | mat.unreduced):
        raise ValueError(
            f"{aval.str_short()} meets values that vary over {', '.join(ordered(axes))}; convert "
            "it with lax.pcast(x, axes, to='varying'), or reduce it first"
        )
    return lookup("pvary").bind(x, axes=ordered(axes))


def cast(x: Any, axes: Any, source: str, to: str) -> Any:
    """A value of which types say otherwise what it is over axes: 'varying', 'unreduced', 'reduced'
    or 'invarying'."""
    return lookup("pcast").bind(x, axes=ordered(axes), source=source, to=to)


def _check_marks(primitive: Any, avals: Any, names: frozenset[Any]) -> None:
    """Raise ValueError where a collective is given what is unreduced or reduced over its axes."""
    for aval in avals:
        found = names & aval.mat.reduced
        if primitive.name != "psum":
            found |= names & aval.mat.unreduced
        if found:
            raise ValueError(
                f"{primitive.name} over {', '.join(ordered(names))} does not take "
                f"{aval.str_short()}; sum it first with lax.psum, or mark it as varying with "
                "lax.pcast(x, axes, to='varying')"
            )


def like(x: Any, model: Any) -> Any:
    """``x``, made to vary over the axes that a model, a value or a type, varies over."""
    if not state.manual:
        return x
    own = typeof(x)
    aval = model if type(model) is ShapedArray else typeof(model)
    return _made_varying(x, own, varying_of(aval) - varying_of(own))


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
    if primitive.name == "pcast" or any(type(a) is ShapedArray and not a.mat.empty for a in avals):
        typed = _with_marks(primitive, avals, params, programs, typed)
    return typed if primitive.multiple_results else typed[0]


def _with_marks(primitive: Any, avals: Any, params: Any, programs: Any, results: Any) -> list[Any]:
    """Types of results that are unreduced or reduced over axes of ``shard_map``."""
    if not any(type(a) is ShapedArray and (a.mat.unreduced or a.mat.reduced) for a in avals):
        if primitive.name != "pcast":
            return list(results)
    if programs:
        bodies = [p.jaxpr if isinstance(p, ClosedJaxpr) else p for p in programs]
        outs = next((b.outvars for b in bodies if len(b.outvars) == len(results)), ())
        mats = [getattr(v.aval, "mat", SHARED) for v in outs]
        marked = [(m.unreduced, m.reduced) for m in mats]
    elif primitive.name == "pcast":
        marked = [primitive.marks(avals[0].mat, params)]
    elif primitive.name == "psum":
        marked = [(avals[0].mat.unreduced - frozenset(params["axes"]), avals[0].mat.reduced)]
    else:
        marked = [marks.of_results(primitive, avals, params, None, None)] * len(results)
    if len(marked) != len(results):
        return list(results)
    return [_marked(a, *axes) for a, axes in zip(results, marked, strict=True)]


def _marked(aval: Any, unreduced: frozenset[Any], reduced: frozenset[Any]) -> Any:
    if type(aval) is not ShapedArray:
        return aval
    own = aval.mat.varying
    mat = aval.mat.update(unreduced=unreduced - own, reduced=reduced - own)
    return aval.update(manual_axis_type=mat)


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
