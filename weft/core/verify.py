"""The verifier of programs: variables bound before use, types and effects as the rules say."""

from __future__ import annotations

from typing import Any

from weft.base import source
from weft.base.errors import JaxprTypeError
from weft.core.avals import same_type, without_axes
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, jaxprs_in_params
from weft.core.trace import extend_axis_env, typeof


def check_jaxpr(program: Jaxpr | ClosedJaxpr) -> None:
    """Raise ``JaxprTypeError`` unless the program is well formed and well typed.

    Args:
        program: the program.

    Example:
        >>> import weft
        >>> check_jaxpr(weft.make_jaxpr(lambda x: x + 1.0)(1.0))
    """
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    bound: set[Any] = set()
    for v in [*jaxpr.constvars, *jaxpr.invars]:
        _bind(bound, v, "an input")
    for eqn in jaxpr.eqns:
        for x in eqn.invars:
            _read(bound, x, eqn)
        mesh = eqn.params.get("mesh") if "manual_axes" in eqn.params else None
        with extend_axis_env(() if mesh is None else mesh.shape.items()):
            for sub in jaxprs_in_params(eqn.params):
                check_jaxpr(sub)
        eqn.primitive.verify([x.aval for x in eqn.invars], eqn.params)
        _check_types(eqn)
        if not eqn.effects <= jaxpr.effects:
            raise JaxprTypeError(
                f"equation {eqn.primitive} has effects {set(eqn.effects)} that the program does"
                f" not declare ({set(jaxpr.effects)})"
            )
        for v in eqn.outvars:
            if type(v) is not DropVar:
                _bind(bound, v, f"a result of {eqn.primitive}")
    for x in jaxpr.outvars:
        if type(x) is not Literal and x not in bound:
            raise JaxprTypeError(f"returned variable {x!r} is not defined")


def _bind(bound: set[Any], v: Var, role: str) -> None:
    if v in bound:
        raise JaxprTypeError(f"variable {v!r}, {role}, is defined twice")
    bound.add(v)


def _read(bound: set[Any], x: Any, eqn: JaxprEqn) -> None:
    if type(x) is not Literal and x not in bound:
        line = source.summarize(eqn.source_info)
        raise JaxprTypeError(f"{eqn.primitive} reads {x!r} before it is defined ({line})")


def _check_types(eqn: JaxprEqn) -> None:
    avals = [x.aval for x in eqn.invars]
    result, effects = eqn.primitive.abstract_eval(*avals, **eqn.params)
    results = result if eqn.primitive.multiple_results else [result]
    line = source.summarize(eqn.source_info)
    if len(results) != len(eqn.outvars):
        raise JaxprTypeError(
            f"{eqn.primitive} has {len(results)} results but {len(eqn.outvars)} variables ({line})"
        )
    for v, aval in zip(eqn.outvars, results, strict=True):
        if not same_type(without_axes(v.aval), without_axes(aval)):
            raise JaxprTypeError(
                f"{eqn.primitive} gives {aval.str_short()} where the program says"
                f" {v.aval.str_short()} ({line})"
            )
    if effects != eqn.effects:
        raise JaxprTypeError(f"{eqn.primitive} has effects {set(effects)}, not {eqn.effects}")


# --- what primitives check of the programs that they carry ----------------------------------------


def check_call(what: str, program: Any, ins: Any, outs: Any = None) -> None:
    """Raise unless a parameter is a program of operands, and maybe results, of given types."""
    if type(program) is not ClosedJaxpr:
        raise JaxprTypeError(f"{what} isn't a closed program: {type(program).__name__}")
    _check_avals(f"{what} takes", program.in_avals, ins)
    if outs is not None:
        _check_avals(f"{what} gives", program.out_avals, outs)


def check_combination(what: str, jaxpr: Any, consts: Any, scalars: Any, outs: Any = None) -> None:
    """Raise unless a parameter is a program of pairs of scalars, with its constants."""
    if type(jaxpr) is not Jaxpr:
        raise JaxprTypeError(f"{what} isn't a program: {type(jaxpr).__name__}")
    _check_avals(f"{what} has constants", [v.aval for v in jaxpr.constvars], map(typeof, consts))
    _check_avals(f"{what} takes", jaxpr.in_avals, [*scalars, *scalars])
    _check_avals(f"{what} gives", jaxpr.out_avals, scalars if outs is None else outs)


def _check_avals(what: str, found: Any, wanted: Any) -> None:
    found, wanted = ([without_axes(a) for a in x] for x in (found, wanted))
    if len(found) != len(wanted) or not all(map(same_type, found, wanted)):
        ours, theirs = (", ".join(a.str_short() for a in x) for x in (found, wanted))
        raise JaxprTypeError(f"{what} ({ours}) where ({theirs}) is expected")
