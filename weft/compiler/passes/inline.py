"""Calls replaced by what they call, so that fusion sees one flat program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, Literal, Var


def inline(closed: ClosedJaxpr, called: Callable[[Any], Any] | None = None) -> ClosedJaxpr:
    """The program without calls: equations of ``jit`` and its kin replaced by their bodies.

    ``called`` gives the program that stands for an equation, if others than those are meant.
    """
    called = called or _called
    if not any(called(eqn) is not None for eqn in closed.eqns):
        return closed
    constvars = list(closed.jaxpr.constvars)
    consts = list(closed.consts)
    eqns: list[Any] = []
    env: dict[Any, Any] = {}
    _inline(closed.jaxpr, env, eqns, constvars, consts, called)
    outvars = [x if type(x) is Literal else env.get(x, x) for x in closed.jaxpr.outvars]
    jaxpr = closed.jaxpr
    flat = Jaxpr(constvars, jaxpr.invars, outvars, eqns, jaxpr.effects, jaxpr.debug_info)
    return ClosedJaxpr(flat, consts)


def _inline(
    jaxpr: Jaxpr,
    env: dict[Any, Any],
    eqns: list[Any],
    constvars: list[Any],
    consts: list[Any],
    called: Callable[[Any], Any],
    caller: Any = None,
) -> None:
    for eqn in jaxpr.eqns:
        info = eqn.source_info
        info = info if info is None else info.called_from(caller)
        invars = [x if type(x) is Literal else env.get(x, x) for x in eqn.invars]
        callee = called(eqn)
        if callee is None:
            outvars = [v if type(v) is DropVar else _renamed(env, v) for v in eqn.outvars]
            eqns.append(eqn.replace(invars=invars, outvars=outvars, source_info=info))
            continue
        inner_env: dict[Any, Any] = dict(zip(callee.jaxpr.invars, invars, strict=True))
        for v, c in zip(callee.jaxpr.constvars, callee.consts, strict=True):
            fresh = Var(v.aval)
            inner_env[v] = fresh
            constvars.append(fresh)
            consts.append(c)
        _inline(callee.jaxpr, inner_env, eqns, constvars, consts, called, info)
        for v, x in zip(eqn.outvars, callee.jaxpr.outvars, strict=True):
            if type(v) is not DropVar:
                env[v] = x if type(x) is Literal else inner_env.get(x, x)


def _called(eqn: Any) -> ClosedJaxpr | None:
    if eqn.primitive.compacts(eqn.params):
        return None  # left to passes/compact.py
    return eqn.primitive.program([x.aval for x in eqn.invars], eqn.params)


def _renamed(env: dict[Any, Any], v: Var) -> Var:
    """A fresh name: a program inlined twice defines its variables once each."""
    fresh = Var(v.aval)
    env[v] = fresh
    return fresh
