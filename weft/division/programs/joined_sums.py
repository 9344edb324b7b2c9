"""Small sums over devices made together: one collective for several costs the latency of one."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.core.effects import NamedAxisEffect
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var
from weft.core.registry import lookup
from weft.core.staging import stage
from weft.core.trace import state

# Sums of more bytes in all are bound by bandwidth, and better begun early than joined.
MAX_JOINED_BYTES = 1 << 20


def joined_sums(closed: ClosedJaxpr, marks: dict[Any, Any]) -> ClosedJaxpr:
    """The program with small sums over the same axes joined, where none needs another."""
    # what has other effects keeps its place
    still = any(type(e) is not NamedAxisEffect for eqn in closed.eqns for e in eqn.effects)
    groups = [] if still else _groups(closed.eqns)
    if not groups:
        return closed
    later = {id(eqn): group for group in groups for eqn in group}
    last = {id(group[-1]): group for group in groups}
    eqns: list[JaxprEqn] = []
    for eqn in closed.eqns:
        if id(eqn) in last:
            eqns += _joined(last[id(eqn)], marks)
        elif id(eqn) not in later:
            eqns.append(eqn)
    jaxpr = closed.jaxpr
    return ClosedJaxpr(jaxpr.replace(eqns=_in_order(eqns, jaxpr)), closed.consts)


def _groups(eqns: list[JaxprEqn]) -> list[list[JaxprEqn]]:
    """Sums that can be made at the place of the last of them."""
    open_groups: dict[Any, list[JaxprEqn]] = {}
    depends: dict[Any, set[Any]] = {}  # of a value: the keys of open groups that it needs
    found: list[list[JaxprEqn]] = []

    def close(key: Any) -> None:
        group = open_groups.pop(key)
        if len(group) > 1:
            found.append(group)

    for eqn in eqns:
        needs = {k for x in eqn.invars if type(x) is not Literal for k in depends.get(x, ())}
        if eqn.primitive.name != "psum":
            for v in eqn.outvars:
                depends[v] = needs
            continue
        aval = eqn.invars[0].aval
        params = eqn.params
        key = (params["axes"], aval.dtype, str(params["axis_index_groups"]))
        group = open_groups.get(key, [])
        size = sum(prod(e.invars[0].aval.shape) for e in (*group, eqn))
        if group and (key in needs or size * storage_dtype(aval.dtype).itemsize > MAX_JOINED_BYTES):
            close(key)
            depends = {v: ks - {key} for v, ks in depends.items()}
        open_groups.setdefault(key, []).append(eqn)
        depends[eqn.outvars[0]] = needs | {key}
    for key in list(open_groups):
        close(key)
    return found


def _joined(group: list[JaxprEqn], marks: dict[Any, Any]) -> list[JaxprEqn]:
    """The equations of one sum over the values of several, and of its parts."""
    avals = [eqn.invars[0].aval for eqn in group]
    params = group[0].params
    reshape, cut = lookup("reshape").bind, lookup("slice").bind

    def together(*xs: Any) -> list[Any]:
        flat = [
            reshape(x, new_sizes=(prod(a.shape),), dimensions=None, sharding=None)
            for x, a in zip(xs, avals, strict=True)
        ]
        total = lookup("psum").bind(lookup("concatenate").bind(*flat, dimension=0), **params)
        parts, start = [], 0
        for a in avals:
            end = start + prod(a.shape)
            part = cut(total, start_indices=(start,), limit_indices=(end,), strides=None)
            parts.append(reshape(part, new_sizes=a.shape, dimensions=None, sharding=None))
            start = end
        return parts

    previous, state.source = state.source, group[-1].source_info
    try:
        made = stage(together, avals)
    finally:
        state.source = previous
    names: dict[Any, Any] = dict(
        zip(made.jaxpr.invars, [eqn.invars[0] for eqn in group], strict=True)
    )
    for x, eqn in zip(made.jaxpr.outvars, group, strict=True):
        names[x] = eqn.outvars[0]
    found = []
    for eqn in made.eqns:
        ins = [x if type(x) is Literal else names[x] for x in eqn.invars]
        outs = [names.setdefault(v, v) for v in eqn.outvars]
        found.append(eqn.replace(invars=ins, outvars=outs))
        if eqn.primitive.name == "psum":
            moves = [marks[e.outvars[0]] for e in group if e.outvars[0] in marks]
            if moves:
                marks[outs[0]] = moves[0]._replace(
                    bytes=sum(m.bytes for m in moves),
                    operand=f"{len(moves)} arrays, {eqn.invars[0].aval.str_short(True)}",
                )
    for eqn in group:
        marks.pop(eqn.outvars[0], None)
    return found


def _in_order(eqns: list[JaxprEqn], jaxpr: Any) -> list[JaxprEqn]:
    """Equations put after those that they need, else in the order that they have."""
    maker = {v: i for i, eqn in enumerate(eqns) for v in eqn.outvars}
    placed: set[int] = set()
    found: list[JaxprEqn] = []
    for root in range(len(eqns)):
        stack = [root]
        while stack:
            i = stack[-1]
            if i in placed:
                stack.pop()
                continue
            missing = [
                maker[x]
                for x in eqns[i].invars
                if type(x) is Var and x in maker and maker[x] not in placed
            ]
            if missing:
                stack += missing
                continue
            stack.pop()
            placed.add(i)
            found.append(eqns[i])
    return found
