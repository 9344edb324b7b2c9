"""The ``remat2`` primitive: a call whose intermediate values are computed again when needed.

What may be kept for the backward pass is a policy's choice: a function of a primitive, the types
of its operands and its parameters. Inputs of the call are always kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs, logs, source
from weft.base.functional import ById, merge_lists, partition_list
from weft.base.lazy import Late
from weft.base.record import Record
from weft.control.initial_style import mapped_at_front, tangents_of
from weft.control.jit import transposed_call, used_axis_names
from weft.control.recompute import Policy, chosen, recompute, substituted
from weft.core.ad import Zero, is_undef
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, batch_in_place
from weft.core.caches import per_program
from weft.core.effects import observable
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.core.verify import check_call
from weft.division.factors import Factors, elementwise
from weft.division.propagate import flow_through
from weft.prims.families import unmoved
from weft.transforms.dce import close, convert_constvars, dce_jaxpr
from weft.transforms.jvp import jvp_jaxpr
from weft.transforms.partial_eval import partial_eval_jaxpr
from weft.transforms.vmap import batch_jaxpr

_LOGGER = "weft.ad_checkpoint"
# What name stacks say of what is computed again.
_AGAIN = source.NameStack(["rematted_computation"])

# needed with mutable references only
without_refs = Late("weft.transforms.discharge")

# --- names ----------------------------------------------------------------------------------------


class Name(Primitive):
    """The identity, with a name that policies refer to."""

    name, form = "name", "move"
    pull = unmoved
    holes = {"transpose": "its jvp passes tangents through without it"}

    divided_as = 0

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return elementwise(avals, outs)

    def shape(self, x: Any, *, name: str) -> Any:
        return x

    @staticmethod
    def ref(x: Any, *, name: str) -> Any:
        return x

    def jvp(self, primals: Any, tangents: Any, *, name: str) -> tuple[Any, Any]:
        return self.bind(*primals, name=name), tangents[0]

    batch = batch_in_place


name_p = Name()


# --- the primitive --------------------------------------------------------------------------------


class Remat(Primitive):
    """A call of a program that keeps only what its policy allows.

    ``differentiated`` marks the equation of a backward pass, the one that computes again;
    ``prevent_cse`` (one flag, or one for each operand) keeps the compiler from undoing that.
    """

    name, nodes, pinned = "remat2", "again", True
    masks = "call"
    unplanned = ("policy",)
    multiple_results = True
    takes_refs = True

    def plan(self, planner: Any, eqn: Any, ins: Any, outs: Any) -> list[Any]:
        # a region of its own: what is to be computed again must not be found computed
        return planner.region(close(eqn.params["jaxpr"]), ins, outs)

    def flow(self, params: Any, ins: Any, outs: Any, mesh: Any) -> tuple[Any, Any]:
        return flow_through(close(params["jaxpr"]), list(ins), list(outs), mesh)

    def shape(self, *avals: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
        return jaxpr.out_avals

    def verify(self, avals: Any, params: dict[str, Any]) -> None:
        check_call("the program of remat2", close(params["jaxpr"]), avals)

    def eqn_effects(self, avals: Any, params: Any) -> Any:
        return params["jaxpr"].effects

    def callee(self, params: dict[str, Any]) -> ClosedJaxpr | None:
        return None if params["differentiated"] else close(params["jaxpr"])

    @staticmethod
    def ref(*args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
        return run(jaxpr, (), args)

    def axis_names(self, params: Any) -> Any:
        return used_axis_names(params["jaxpr"])

    def jvp(
        self, primals: Any, tangents: Any, *, jaxpr: Jaxpr, prevent_cse: Any, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        nonzero = [type(t) is not Zero for t in tangents]
        closed, out_nonzero = jvp_jaxpr(close(jaxpr), nonzero, False)
        given = [t for t in tangents if type(t) is not Zero]
        program, operands, cse = _open(closed, [*primals, *given], prevent_cse, len(given))
        results = self.bind(*operands, jaxpr=program, prevent_cse=cse, **params)
        count = len(out_nonzero)
        return results[:count], tangents_of(results[:count], out_nonzero, results[count:])

    def transpose(
        self, cts: Any, *args: Any, jaxpr: Jaxpr, prevent_cse: Any, **params: Any
    ) -> list[Any]:
        call = transposed_call(close(jaxpr), cts, args)
        if isinstance(prevent_cse, tuple):
            prevent_cse = tuple(partition_list([is_undef(x) for x in args], prevent_cse)[0])
        given = [*call.known, *call.given]
        program, operands, cse = _open(call.program, given, prevent_cse, len(call.given))
        found = self.bind(*operands, jaxpr=program, prevent_cse=cse, **params)
        return call.cotangents(args, found)

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, prevent_cse: Any, **params: Any
    ) -> tuple[list[Any], list[int | None]]:
        in_batched = [d is not None for d in dims]
        closed, out_batched = batch_jaxpr(close(jaxpr), axis, in_batched, False)
        moved = mapped_at_front(args, dims)
        program, operands, cse = _open(closed, moved, prevent_cse, 0)
        outs = self.bind(*operands, jaxpr=program, prevent_cse=cse, **params)
        return outs, [0 if b else None for b in out_batched]

    def discharge(self, *args: Any, jaxpr: Jaxpr, prevent_cse: Any, **params: Any) -> list[Any]:
        pure, written = without_refs.discharge_closed(close(jaxpr))
        program, operands, cse = _open(pure, without_refs.values_of(args), prevent_cse, 0)
        outs = self.bind(*operands, jaxpr=program, prevent_cse=cse, **params)
        return without_refs.store(args, written, outs)

    def partial_eval(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        jaxpr, prevent_cse, policy = params["jaxpr"], params["prevent_cse"], params["policy"]
        unknown = tuple(trace.is_unknown(x) for x in args)
        split = _split(jaxpr, unknown, ById(policy))
        known_args, _ = partition_list(unknown, args)
        inputs = [*split.consts, *known_args]
        results = eval_jaxpr(split.known, (), *inputs)
        outs, saved = results[: split.num_outs], results[split.num_outs :]
        flags = prevent_cse if isinstance(prevent_cse, tuple) else [True] * len(args)
        operands = [
            *((x, True) for x in (*saved, *split.consts)),
            *zip(args, flags, strict=True),
        ]
        read = [x for x, used in zip(operands, split.used, strict=True) if used]
        level = logs.level_of(knobs.thread.log_checkpoint_residuals, _LOGGER)
        if level:
            _log_residuals(level, split, args, unknown)
        new_params = dict(
            params,
            jaxpr=split.unknown,
            differentiated=True,
            prevent_cse=tuple(f for _, f in read)
            if isinstance(prevent_cse, tuple)
            else prevent_cse,
        )
        unknown_outs = trace.emit(self, [x for x, _ in read], new_params)
        return merge_lists(split.out_unknown, outs, unknown_outs)

    def dce(self, used: list[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        if not any(used) and not observable(eqn.effects):
            return None
        smaller, used_in = dce_jaxpr(eqn.params["jaxpr"], used)
        params = dict(eqn.params, jaxpr=smaller)
        if isinstance(params["prevent_cse"], tuple):
            params["prevent_cse"] = tuple(chosen(params["prevent_cse"], used_in))
        return eqn.replace(
            invars=chosen(eqn.invars, used_in),
            outvars=chosen(eqn.outvars, used),
            params=params,
            effects=smaller.effects,
        )


def _open(
    closed: ClosedJaxpr, args: list[Any], prevent_cse: Any, added: int
) -> tuple[Jaxpr, list[Any], Any]:
    """A program without constants, its operands, and ``prevent_cse`` for ``added`` new ones."""
    if isinstance(prevent_cse, tuple):
        prevent_cse = (False,) * len(closed.consts) + prevent_cse + (True,) * added
    return convert_constvars(closed.jaxpr), [*closed.consts, *args], prevent_cse


remat_p = Remat()


# --- what is kept and what is computed again ------------------------------------------------------


class Split(Record):
    """A differentiated program in two parts.

    ``known`` computes the known results and the values to keep from ``consts`` and the known
    inputs; ``unknown`` computes the rest from those of [kept values, consts, all inputs] that are
    marked in ``used``.
    """

    known: Jaxpr
    num_outs: int
    consts: list[Any]
    unknown: Jaxpr
    used: list[bool]
    out_unknown: list[bool]


@per_program
def _split(jaxpr: Jaxpr, unknown: tuple[bool, ...], by_policy: ById) -> Split:
    policy: Policy | None = by_policy.value
    known, rest, out_unknown, residual_avals = partial_eval_jaxpr(close(jaxpr), unknown, False)
    forward = convert_constvars(known.jaxpr)
    count = len(forward.outvars) - len(residual_avals)
    residuals = forward.outvars[count:]
    eqns, saved, again = recompute(forward.eqns, residuals, policy)
    kept_forward = forward.replace(eqns=eqns, outvars=[*forward.outvars[:count], *saved])
    kept_forward, _ = dce_jaxpr(_guarded(kept_forward, saved), [True] * (count + len(saved)), True)
    backward = rest.jaxpr
    n_res, n_const = len(residuals), len(known.consts)
    stand_in = dict(zip(backward.invars[:n_res], residuals, strict=True))
    backward_eqns = [
        eqn.replace(invars=[substituted(x, stand_in) for x in eqn.invars]) for eqn in backward.eqns
    ]
    in_consts, in_known = forward.invars[:n_const], forward.invars[n_const:]
    inputs = merge_lists(unknown, in_known, backward.invars[n_res:])
    whole = backward.replace(
        invars=[*saved, *in_consts, *inputs],
        eqns=_interleaved([_named(eqn) for eqn in again], backward_eqns),
        outvars=[substituted(x, stand_in) for x in backward.outvars],
        debug_info=None,
    )
    pruned, used = dce_jaxpr(whole, [True] * len(whole.outvars))
    return Split(kept_forward, count, known.consts, pruned, used, out_unknown)


def _named(eqn: JaxprEqn) -> JaxprEqn:
    """An equation that is computed again, with a name stack that says so."""
    info = eqn.source_info
    if info is None:
        return eqn
    return eqn.replace(source_info=info.replace(name_stack=info.name_stack.inside(_AGAIN)))


def _interleaved(first: Sequence[JaxprEqn], second: Sequence[JaxprEqn]) -> list[JaxprEqn]:
    """Both lists in their order, those of the second as soon as the first has what they read.

    So values that are computed again are used while they are fresh.
    """
    missing = {v for eqn in first for v in eqn.outvars}
    waiting = list(reversed(second))
    out: list[JaxprEqn] = []
    for eqn in first:
        while waiting and missing.isdisjoint(
            x for x in waiting[-1].invars if type(x) is not Literal
        ):
            out.append(waiting.pop())
        out.append(eqn)
        missing.difference_update(eqn.outvars)
    return [*out, *reversed(waiting)]


def _guarded(jaxpr: Jaxpr, saved: Sequence[Var]) -> Jaxpr:
    """The forward program, its kept values rounded where it reads them itself.

    The forward and the backward pass must see the same bits although a compiler may hold a value
    in more precision than its dtype has.
    """
    read = {x for eqn in jaxpr.eqns for x in eqn.invars if type(x) is not Literal}
    guarded = {v for v in saved if v in read and _is_inexact(v.aval)}
    if not guarded:
        return jaxpr
    reduce_precision = lookup("reduce_precision")
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        renamed = {v: Var(v.aval) for v in eqn.outvars if v in guarded}
        if not renamed:
            eqns.append(eqn)
            continue
        eqns.append(eqn.replace(outvars=[renamed.get(v, v) for v in eqn.outvars]))
        for v, raw in renamed.items():
            info = dtypes.finfo(v.aval.dtype)
            params = {"exponent_bits": info.nexp, "mantissa_bits": info.nmant}
            eqns.append(JaxprEqn([raw], [v], reduce_precision, params, source_info=eqn.source_info))
    return jaxpr.replace(eqns=eqns)


def _is_inexact(aval: Any) -> bool:
    return type(aval) is ShapedArray and dtypes.issubdtype(aval.dtype, np.inexact)


def _log_residuals(level: int, split: Split, args: Any, unknown: Sequence[bool]) -> None:
    inputs = [
        f"  {typeof(x).str_short()}"
        for x, u, used in zip(args, unknown, split.used[-len(args) :], strict=True)
        if used and not u
    ]
    makers = {v: eqn for eqn in split.known.eqns for v in eqn.outvars}
    values = [
        f"  {v.aval.str_short()} from {makers[v].primitive}"
        f" at {source.summarize(makers[v].source_info)}"
        for v in split.known.outvars[split.num_outs :]
        if v in makers
    ]
    lines = ["checkpoint keeps these inputs:", *inputs] if inputs else []
    lines += ["checkpoint keeps these intermediates:", *values] if values else []
    if lines:
        logs.log(level, "\n".join(lines), _LOGGER)
