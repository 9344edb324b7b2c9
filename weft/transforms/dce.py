"""Dead-code elimination on programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.caches import per_program
from weft.core.effects import no_effects, observable
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, join_effects


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: Sequence[bool] | bool = False
) -> tuple[Jaxpr, list[bool]]:
    """The program of the used outputs only, and which inputs it still reads.

    Inputs marked in ``instantiate`` are kept although they are not read.
    """
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(jaxpr.invars)
    return _dce(jaxpr, tuple(used_outputs), tuple(instantiate))


@per_program
def _dce(
    jaxpr: Jaxpr, used_outputs: tuple[bool, ...], instantiate: tuple[bool, ...]
) -> tuple[Jaxpr, list[bool]]:
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live: set[Any] = {v for v in outvars if type(v) is not Literal}
    kept: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        used = [v in live for v in eqn.outvars]
        rule = eqn.primitive.dce
        if not any(used) and not (eqn.effects and observable(eqn.effects)):
            continue
        if rule is not None:
            smaller = rule(used, eqn)
            if smaller is None:
                continue
            eqn = smaller
        elif not all(used):
            outvars_ = [v if u else DropVar(v.aval) for v, u in zip(eqn.outvars, used, strict=True)]
            eqn = eqn.replace(outvars=outvars_)
        kept.append(eqn)
        live.update(x for x in eqn.invars if type(x) is not Literal)
    kept.reverse()
    used_inputs = [v in live or k for v, k in zip(jaxpr.invars, instantiate, strict=True)]
    invars = [v for v, used in zip(jaxpr.invars, used_inputs, strict=True) if used]
    effects = join_effects(eqn.effects for eqn in kept) if jaxpr.effects else no_effects
    pruned = jaxpr.replace(invars=invars, outvars=outvars, eqns=kept, effects=effects)
    pruned.debug_info = None if len(invars) != len(jaxpr.invars) else jaxpr.debug_info
    return pruned, used_inputs


def dce_closed(
    closed: ClosedJaxpr, used_outputs: Sequence[bool], instantiate: Sequence[bool] | bool = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """``dce_jaxpr`` on a closed program; constants that are no longer read are dropped."""
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(closed.jaxpr.invars)
    return _dce_closed(closed, tuple(used_outputs), tuple(instantiate))


@per_program
def _dce_closed(
    closed: ClosedJaxpr, used_outputs: tuple[bool, ...], instantiate: tuple[bool, ...]
) -> tuple[ClosedJaxpr, list[bool]]:
    jaxpr, used_inputs = dce_jaxpr(closed.jaxpr, used_outputs, instantiate)
    return drop_unused_consts(closed.replace(jaxpr=jaxpr)), used_inputs


def drop_unused_consts(closed: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    read: set[Any] = {v for v in jaxpr.outvars if type(v) is not Literal}
    for eqn in jaxpr.eqns:
        read.update(x for x in eqn.invars if type(x) is not Literal)
    kept = [i for i, v in enumerate(jaxpr.constvars) if v in read]
    if len(kept) == len(jaxpr.constvars):
        return closed
    smaller = jaxpr.replace(constvars=[jaxpr.constvars[i] for i in kept])
    return closed.replace(jaxpr=smaller, consts=[closed.consts[i] for i in kept])


@per_program
def convert_constvars(jaxpr: Jaxpr) -> Jaxpr:
    """The program with its constants as leading inputs."""
    invars = [*jaxpr.constvars, *jaxpr.invars]
    return jaxpr.replace(constvars=[], invars=invars, debug_info=None)


@per_program
def close(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A closed program of one without constants; the same object for the same program."""
    return ClosedJaxpr(jaxpr, ())
