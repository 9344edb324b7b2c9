"""Transposition of linear programs: cotangents flow from the results back to the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base import knobs, source
from weft.base.lazy import Late
from weft.base.source import NO_NAMES, NameStack
from weft.core import sharding as meshes
from weft.core.ad import UndefPrimal, Zero, add_tangents, is_undef
from weft.core.jaxpr import Jaxpr, JaxprEqn, Literal
from weft.core.trace import state
from weft.transforms.masks import Masked, settled, summed, transposed

# needed where types carry shardings
explicit = Late("weft.division.explicit")


def backward_pass(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Any],
    cotangents: Sequence[Any],
    unwanted: Sequence[bool] = (),
    named: NameStack = NO_NAMES,
) -> list[Any]:
    """Cotangents of the arguments that are ``UndefPrimal``; ``None`` for the others.

    Equations that depend on no linear input are evaluated forward first. What only cotangents of
    ``unwanted`` arguments need is not computed. ``named`` is what name stacks say of it.
    Cotangents may have masks (see ``masks``); those returned have, where the argument says so.
    """
    if all(type(ct) is Zero for ct in cotangents) and not jaxpr.effects:
        return [Zero(x.aval.to_cotangent_aval()) if is_undef(x) else None for x in args]
    linear: set[Any] = set()
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    for v, x in zip(jaxpr.invars, args, strict=True):
        if is_undef(x):
            linear.add(v)
        else:
            env[v] = x
    cts: dict[Any, Any] = {}
    ends = None
    if knobs.thread.safe_where_gradients:
        ends = {v for v, x in zip(jaxpr.invars, args, strict=True) if is_undef(x) and not x.masked}
    info = inside = None
    previous, strictly = state.source, state.loosely
    state.loosely = True  # what types say of shardings was checked when this was staged
    try:
        linear_eqns = _forward(jaxpr, env, linear)
        for atom, ct in zip(jaxpr.outvars, cotangents, strict=True):
            _accumulate(cts, linear, atom, ct)
        if any(unwanted):
            pairs = zip(jaxpr.invars, unwanted, strict=True)
            linear_eqns = _leading_from(linear_eqns, {v for v, skip in pairs if not skip})
        for eqn in reversed(linear_eqns):
            if eqn.source_info is not info:  # neighbours are of one place
                info = inside = eqn.source_info
                if info is not None and named:
                    inside = info.replace(name_stack=_seen_from(info.name_stack).inside(named))
            state.source = inside
            _transpose_eqn(eqn, env, linear, cts, ends)
        out = _of_arguments(jaxpr, args, cts)
    finally:
        state.source, state.loosely = previous, strictly
    return out


def _of_arguments(jaxpr: Jaxpr, args: Sequence[Any], cts: dict[Any, Any]) -> list[Any]:
    out: list[Any] = []
    for v, x in zip(jaxpr.invars, args, strict=True):
        if not is_undef(x):
            out.append(None)
        else:
            ct = cts.get(v)
            if ct is None:
                out.append(Zero(v.aval.to_cotangent_aval()))
            else:
                out.append(ct if x.masked else settled(ct))
    return out


def _seen_from(names: NameStack) -> NameStack:
    """Names without those of the scope that is current, which it was staged in already."""
    current = state.name_stack
    return NameStack(names[len(current) :]) if names[: len(current)] == current else names


def _forward(jaxpr: Jaxpr, env: dict[Any, Any], linear: set[Any]) -> list[JaxprEqn]:
    """Evaluate the equations without linear operands; return the others."""
    linear_eqns = []
    for eqn in jaxpr.eqns:
        if any(type(x) is not Literal and x in linear for x in eqn.invars):
            linear.update(eqn.outvars)
            linear_eqns.append(eqn)
            continue
        state.source = eqn.source_info
        values = [x.val if type(x) is Literal else env[x] for x in eqn.invars]
        leading, params = eqn.primitive.get_bind_params(eqn.params)
        out = eqn.primitive.bind(*leading, *values, **params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
    return linear_eqns


def _leading_from(eqns: list[JaxprEqn], wanted: set[Any]) -> list[JaxprEqn]:
    """The equations that depend on wanted variables, or have effects."""
    found = []
    for eqn in eqns:
        if eqn.effects or any(type(x) is not Literal and x in wanted for x in eqn.invars):
            wanted.update(eqn.outvars)
            found.append(eqn)
    return found


def _accumulate(cts: dict[Any, Any], linear: set[Any], v: Any, ct: Any) -> None:
    if ct is None or type(ct) is Zero or type(v) is Literal or v not in linear:
        return
    old = cts.get(v)
    if old is not None:
        masked = type(old) is Masked or type(ct) is Masked
        ct = summed(old, ct) if masked else add_tangents(old, ct)
    cts[v] = ct


def _transpose_eqn(
    eqn: JaxprEqn, env: dict[Any, Any], linear: set[Any], cts: dict[Any, Any], ends: Any
) -> None:
    """Add the cotangents of an equation's operands to ``cts``.

    ``ends`` are the variables whose cotangents are to have no mask, None where nothing has one.
    """
    primitive = eqn.primitive
    found = [cts.pop(v, None) for v in eqn.outvars]
    if all(ct is None for ct in found) and not eqn.effects:
        return
    incoming = [
        Zero(v.aval.to_cotangent_aval()) if ct is None else ct
        for v, ct in zip(eqn.outvars, found, strict=True)
    ]
    operands = [
        x.val
        if type(x) is Literal
        else UndefPrimal(x.aval, ends is not None and x not in ends)
        if x in linear
        else env[x]
        for x in eqn.invars
    ]
    if primitive.transpose is None:
        raise NotImplementedError(
            f"transposition of {primitive} is not defined: it is not linear, or has no reverse-mode"
            f" rule ({source.summarize(eqn.source_info)})"
        )

    def rule(cts: Sequence[Any], operands: Sequence[Any]) -> Sequence[Any]:
        ct = cts if primitive.multiple_results else cts[0]
        if meshes.explicit_ones:
            return _transpose_typed(primitive, ct, operands, eqn.params)
        return primitive.transpose(ct, *operands, **eqn.params)

    if ends is not None and (primitive.makes_masks or any(type(ct) is Masked for ct in incoming)):
        outgoing = transposed(primitive, incoming, operands, eqn.params, rule)
    else:
        outgoing = rule(incoming, operands)
    for x, operand, new in zip(eqn.invars, operands, outgoing, strict=True):
        if is_undef(operand):
            _accumulate(cts, linear, x, new)


def _transpose_typed(primitive: Any, ct: Any, operands: Any, params: Any) -> list[Any]:
    """Cotangents where types may carry shardings: they have those of the operands."""
    wanted = [x.aval.to_cotangent_aval() for x in operands if is_undef(x)]
    with explicit.loosely(explicit.sums_in(wanted)):
        found = primitive.transpose(ct, *operands, **explicit.without_said(primitive, params))
    return [
        _moved(new, x.aval) if is_undef(x) and new is not None and type(new) is not Zero else new
        for x, new in zip(operands, found, strict=True)
    ]


def _moved(ct: Any, aval: Any) -> Any:
    """A cotangent with the sharding of its operand's type; a mask stays as it is."""
    if type(ct) is Masked:
        return Masked(explicit.cotangent_moved(ct.value, aval), ct.live, ct.dirty)
    return explicit.cotangent_moved(ct, aval)
