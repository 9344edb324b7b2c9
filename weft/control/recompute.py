"""What a checkpoint keeps and what it computes again, through calls, loops and branches.

A policy is a function of a primitive, the types of its operands and its parameters that says
whether results may be kept for the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.control.cond import cond_p, fill_outputs, merge_types, widen_inputs
from weft.control.jit import jit_p, jit_params
from weft.control.scan import scan_p, stacked
from weft.core.effects import observable
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from weft.transforms.dce import dce_jaxpr

# --- what a policy may answer ---------------------------------------------------------------------


class SaveableType:
    """Keep the value."""

    def __repr__(self) -> str:
        return "Saveable"


class RecomputeType:
    """Compute the value again."""

    def __repr__(self) -> str:
        return "Recompute"

    def __bool__(self) -> bool:
        return False


class Offloadable(Record):
    """The answer of a policy to keep a value in another memory; where there is one memory, keep it.

    Args:
        src: the memory that the value comes from.
        dst: the memory that it is kept in.

    Example:
        >>> from weft.ad_checkpoint import Offloadable
        >>> Offloadable("device", "pinned_host").dst
        'pinned_host'
    """

    src: str
    dst: str


Saveable, Recompute = SaveableType(), RecomputeType()
Policy = Callable[..., Any]


def may_save(policy: Policy | None, eqn: JaxprEqn) -> bool:
    """Whether the results of an equation may be kept for the backward pass."""
    if policy is None:
        return False
    answer = policy(eqn.primitive, *(x.aval for x in eqn.invars), **eqn.params)
    if isinstance(answer, (bool, np.bool_, SaveableType, RecomputeType, Offloadable)):
        return bool(answer)
    raise TypeError(
        "a checkpoint policy must return a bool, Saveable, Recompute or Offloadable, but for"
        f" {eqn.primitive} it returned {answer!r} of type {type(answer).__name__}"
    )


# --- what is kept and what is computed again ------------------------------------------------------


def substituted(x: Any, stand_in: dict[Any, Any]) -> Any:
    """What stands for a variable; a literal is itself."""
    return x if type(x) is Literal else stand_in.get(x, x)


def recompute(
    eqns: Sequence[JaxprEqn], wanted: Sequence[Any], policy: Policy | None
) -> tuple[list[JaxprEqn], list[Var], list[JaxprEqn]]:
    """How to have the variables ``wanted`` in the backward pass.

    Returns the equations of the forward pass (calls, loops and branches may have more results than
    before), the variables to keep, and the equations to compute again; inputs need not be kept.
    """
    needed = {x for x in wanted if type(x) is not Literal}
    forward: list[JaxprEqn] = []
    saved: list[Var] = []
    again: list[JaxprEqn] = []
    for eqn in reversed(eqns):
        found = [v for v in eqn.outvars if v in needed]
        repeats = _repeats(eqn)
        # a policy is asked about what is inside of calls, loops and branches
        splitting = SPLITTING.get(eqn.primitive) if policy is not None else None
        second: JaxprEqn | None = None
        if not found:
            if repeats:
                second = eqn
        elif observable(eqn.effects) and not repeats:
            saved.extend(reversed(found))
        elif splitting is None:
            if may_save(policy, eqn):
                saved.extend(reversed(found))
            else:
                second = eqn
        elif (split := splitting(eqn, needed, policy)) is None:
            second = eqn
        else:
            eqn, kept, second = split
            saved.extend(reversed(kept))
        if second is not None:
            again.append(second)
            needed.update(x for x in second.invars if type(x) is not Literal)
        forward.append(eqn)
    for each in (forward, saved, again):
        each.reverse()
    return forward, saved, again


def _repeats(eqn: JaxprEqn) -> bool:
    """Whether an equation's effects are such that recomputation repeats them: debugging."""
    return bool(eqn.effects) and all(getattr(e, "repeatable", False) for e in eqn.effects)


# --- equations with programs: a first one that hands out more, and one to do again ----------------

# The equation with what is kept as further results, the variables to keep, and what to do again;
# no answer where the whole has to be done again.
Parts = tuple[JaxprEqn, list[Var], JaxprEqn | None]


def _split_call(eqn: JaxprEqn, needed: set[Any], policy: Policy) -> Parts:
    closed = eqn.params["jaxpr"]
    inner = closed.jaxpr
    wanted = [v in needed for v in eqn.outvars]
    asked = [x for x, w in zip(inner.outvars, wanted, strict=True) if w]
    inner_eqns, kept, again = recompute(inner.eqns, asked, policy)
    saved, extra = _handed_out(kept, inner.outvars, eqn.outvars, lambda aval: aval)
    bigger = inner.replace(
        eqns=inner_eqns, outvars=[*inner.outvars, *(x for x, _ in extra)], debug_info=None
    )
    program = ClosedJaxpr(bigger, closed.consts)
    first = eqn.replace(
        outvars=[*eqn.outvars, *(v for _, v in extra)],
        params=jit_params(program, eqn.params, eqn.params["donated_invars"]),
    )
    keeping = set(saved)
    rest = [v in needed and v not in keeping for v in eqn.outvars]
    if not any(rest) and not any(map(_repeats, again)):
        return first, saved, None
    second = inner.replace(
        invars=[*kept, *inner.invars],
        eqns=again,
        outvars=[x for x, r in zip(inner.outvars, rest, strict=True) if r],
        debug_info=None,
    )
    pruned, used = dce_jaxpr(_fresh(second), [True] * len(second.outvars))
    operands = [x for x, u in zip([*saved, *eqn.invars], used, strict=True) if u]
    call = eqn.replace(
        invars=operands,
        outvars=[v for v, r in zip(eqn.outvars, rest, strict=True) if r],
        params=jit_params(ClosedJaxpr(pruned, closed.consts), eqn.params),
        effects=pruned.effects,
    )
    return first, saved, call


def _split_scan(eqn: JaxprEqn, needed: set[Any], policy: Policy) -> Parts | None:
    """What the policy keeps of a step is stacked; a second scan goes over it.

    A carry that the second scan reads is carried again, computed from what is kept.
    """
    params, closed = eqn.params, eqn.params["jaxpr"]
    body, num_consts, num_carry = closed.jaxpr, params["num_consts"], params["num_carry"]
    first_x = num_consts + num_carry
    wanted = [v in needed for v in eqn.outvars]
    while True:
        asked = [x for x, w in zip(body.outvars, wanted, strict=True) if w]
        inner_eqns, kept, again = recompute(body.eqns, asked, policy)
        read = {x for e in again for x in e.invars if type(x) is not Literal}
        read.update(x for x in asked if type(x) is not Literal)
        carried = [
            w or v in read
            for w, v in zip(wanted[:num_carry], body.invars[num_consts:first_x], strict=True)
        ]
        if carried == wanted[:num_carry]:
            break
        wanted[:num_carry] = carried
    if not kept:
        return None
    saved, extra = _handed_out(
        kept,
        body.outvars[num_carry:],
        eqn.outvars[num_carry:],
        lambda aval: stacked(aval, params["length"]),
    )
    bigger = body.replace(
        eqns=inner_eqns, outvars=[*body.outvars, *(x for x, _ in extra)], debug_info=None
    )
    first = eqn.replace(
        outvars=[*eqn.outvars, *(v for _, v in extra)],
        params=dict(params, jaxpr=ClosedJaxpr(bigger, closed.consts)),
    )
    keeping = set(saved)
    rest = [w and v not in keeping for w, v in zip(wanted, eqn.outvars, strict=True)]
    if not any(rest) and not any(map(_repeats, again)):
        return first, saved, None
    reads = [True] * num_consts + carried + [True] * (len(body.invars) - first_x)
    second = body.replace(
        invars=[*chosen(body.invars, reads), *kept],
        eqns=again,
        outvars=chosen(body.outvars, rest),
        debug_info=None,
    )
    results = chosen(eqn.outvars, rest)
    loop = eqn.replace(
        invars=[*chosen(eqn.invars, reads), *saved],
        outvars=[v if v in needed else DropVar(v.aval) for v in results],
        params=dict(
            params, jaxpr=ClosedJaxpr(_fresh(second), closed.consts), num_carry=sum(carried)
        ),
    )
    return first, saved, scan_p.dce([v in needed for v in results], loop)


def _split_cond(eqn: JaxprEqn, needed: set[Any], policy: Policy) -> Parts | None:
    """Branches share the places of what they keep by type, as those of residuals."""
    branches = eqn.params["branches"]
    wanted = [v in needed for v in eqn.outvars]
    parts = [recompute(b.eqns, chosen(b.jaxpr.outvars, wanted), policy) for b in branches]
    if not any(kept for _, kept, _ in parts):
        return None
    sets = [set(kept) for _, kept, _ in parts]
    # results that every branch keeps are kept as they are
    direct = [
        w and all(x in each for x, each in zip(column, sets, strict=True))
        for w, *column in zip(wanted, *(b.jaxpr.outvars for b in branches), strict=True)
    ]
    own = []
    for b, (_, kept, _) in zip(branches, parts, strict=True):
        out = set(chosen(b.jaxpr.outvars, direct))
        own.append([x for x in kept if x not in out])
    merged, places = merge_types([[x.aval for x in mine] for mine in own])
    rest = [w and not d for w, d in zip(wanted, direct, strict=True)]
    firsts, seconds = [], []
    for b, (eqns, _, again), mine, place in zip(branches, parts, own, places, strict=True):
        inner = b.jaxpr
        bigger = inner.replace(eqns=eqns, outvars=[*inner.outvars, *mine], debug_info=None)
        count = len(inner.outvars)
        firsts.append(fill_outputs(ClosedJaxpr(bigger, b.consts), count, merged, place))
        second = inner.replace(
            invars=[*mine, *_distinct(chosen(inner.outvars, direct)), *inner.invars],
            eqns=again,
            outvars=chosen(inner.outvars, rest),
            debug_info=None,
        )
        left = ClosedJaxpr(_fresh(second), b.consts)
        seconds.append(widen_inputs(left, len(mine), place, merged))
    extra = [Var(aval) for aval in merged]
    first = eqn.replace(
        outvars=[*eqn.outvars, *extra], params=dict(eqn.params, branches=tuple(firsts))
    )
    kept_results = chosen(eqn.outvars, direct)
    saved = [*extra, *kept_results]
    if not any(rest) and not any(_repeats(e) for _, _, again in parts for e in again):
        return first, saved, None
    index, *operands = eqn.invars
    choice = eqn.replace(
        invars=[index, *extra, *kept_results, *operands],
        outvars=chosen(eqn.outvars, rest),
        params=dict(eqn.params, branches=tuple(seconds)),
    )
    return first, saved, cond_p.dce([True] * sum(rest), choice)


SPLITTING: dict[Any, Callable[..., Parts | None]] = {
    jit_p: _split_call,
    scan_p: _split_scan,
    cond_p: _split_cond,
}


def _handed_out(
    kept: Sequence[Var],
    inner: Sequence[Any],
    outer: Sequence[Var],
    outside: Callable[[Any], Any],
) -> tuple[list[Var], list[tuple[Var, Var]]]:
    """The results that hold the variables ``kept`` of a program, and which of them are new.

    ``outside`` is the type that a type in the program has as a result of the equation.
    """
    results = dict(zip(inner, outer, strict=True))
    saved = []
    extra: list[tuple[Var, Var]] = []
    for x in kept:
        result = results.get(x)
        if result is None or type(result) is DropVar:
            result = Var(outside(x.aval))
            extra.append((x, result))
        saved.append(result)
    return saved, extra


def chosen(xs: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [x for x, f in zip(xs, flags, strict=True) if f]


def _distinct(variables: Sequence[Var]) -> list[Var]:
    """Every variable once, a new one in the place of another occurrence."""
    seen: set[Var] = set()
    found = []
    for v in variables:
        found.append(Var(v.aval) if v in seen else v)
        seen.add(v)
    return found


def _fresh(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with variables of its own."""
    names: dict[Any, Any] = {v: Var(v.aval) for v in (*jaxpr.constvars, *jaxpr.invars)}
    eqns = []
    for eqn in jaxpr.eqns:
        invars = [substituted(x, names) for x in eqn.invars]
        outvars = [v if type(v) is DropVar else Var(v.aval) for v in eqn.outvars]
        names.update(zip(eqn.outvars, outvars, strict=True))
        eqns.append(eqn.replace(invars=invars, outvars=outvars))
    return jaxpr.replace(
        constvars=[names[v] for v in jaxpr.constvars],
        invars=[names[v] for v in jaxpr.invars],
        outvars=[substituted(x, names) for x in jaxpr.outvars],
        eqns=eqns,
    )
