"""The ``cond`` primitive: one of several programs, chosen by an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base.errors import JaxprTypeError
from weft.base.functional import ById, merge_lists, partition_list
from weft.base.lazy import Late
from weft.control.initial_style import (
    cotangents_of,
    keep_outputs,
    mapped_at_front,
    must_not_repeat,
    tangents_of,
)
from weft.control.jit import (
    jit_p,
    jit_parameters,
    mask_values,
    masks_given,
    numpy_consts,
    transpose_jaxpr,
    used_axis_names,
)
from weft.control.one_by_one import by_device, one_by_one
from weft.core.ad import Zero, is_undef, zeros
from weft.core.batching import AxisData, at_front, mapped_from
from weft.core.caches import ProgramCache
from weft.core.effects import Effects, observable
from weft.core.interpret import run
from weft.core.jaxpr import (
    ClosedJaxpr,
    JaxprEqn,
    Literal,
    Var,
    eval_jaxpr,
    join_effects,
)
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.staging import stage
from weft.core.trace import Tracer, typeof
from weft.core.verify import check_call
from weft.division.propagate import flow_through, joined
from weft.prims.arithmetic import stop_gradient_p
from weft.prims.families import broadcast_in_dim, const
from weft.prims.selection import eq, select_n
from weft.transforms.dce import dce_closed
from weft.transforms.jvp import jvp_jaxpr
from weft.transforms.masks import Masked
from weft.transforms.partial_eval import partial_eval_jaxpr
from weft.transforms.vmap import batch_jaxpr

# needed with mapped indices, and with mutable references only
lanes = Late("weft.control.lanes")
without_refs = Late("weft.transforms.discharge")

Branches = tuple[ClosedJaxpr, ...]


class Cond(Primitive):
    """Operands are an int32 index in range, then what every branch takes."""

    name, nodes, exact = "cond", "branch", True
    masks = "loop"
    multiple_results = True
    takes_refs = True

    def plan(self, planner: Any, eqn: Any, ins: Any, outs: Any) -> list[Any]:
        return planner.branch(eqn, ins, outs)

    def flow(self, params: Any, ins: Any, outs: Any, mesh: Any) -> tuple[Any, Any]:
        """What branches make of their specs, the first that says anything of a dimension."""
        for branch in params["branches"]:
            given, found = flow_through(branch, list(ins[1:]), list(outs), mesh)
            ins = [ins[0], *(joined(a, b) for a, b in zip(ins[1:], given, strict=True))]
            outs = [joined(a, b) for a, b in zip(outs, found, strict=True)]
        return list(ins), list(outs)

    def shape(self, index: Any, *avals: Any, branches: Branches, **params: Any) -> list[Any]:
        return branches[0].out_avals

    def verify(self, avals: Any, params: dict[str, Any]) -> None:
        index, *ops = avals
        branches = params["branches"]
        if type(branches) is not tuple or any(type(b) is not ClosedJaxpr for b in branches):
            raise JaxprTypeError(f"the branches of cond are programs in a tuple, not {branches!r}")
        if (index.shape, index.dtype) != ((), np.int32) or not branches:
            raise JaxprTypeError(f"cond chooses one of {len(branches)} by {index.str_short()}")
        for branch in branches:
            check_call("a branch of cond", branch, ops, branches[0].out_avals)

    def eqn_effects(self, avals: Any, params: Any) -> Effects:
        return join_effects(b.effects for b in params["branches"])

    def axis_names(self, params: Any) -> Any:
        return set().union(*(used_axis_names(b.jaxpr) for b in params["branches"]))

    @staticmethod
    def ref(index: Any, *args: Any, branches: Branches, **params: Any) -> list[Any]:
        chosen = branches[min(max(int(index), 0), len(branches) - 1)]
        return run(chosen.jaxpr, numpy_consts(chosen), args)

    def jvp(self, primals: Any, tangents: Any, *, branches: Branches, **params: Any) -> Any:
        index, *ops = primals
        nonzeros = [type(t) is not Zero for t in tangents[1:]]
        out_nonzeros = _any(jvp_jaxpr(b, nonzeros, False)[1] for b in branches)
        with_tangents = tuple(jvp_jaxpr(b, nonzeros, out_nonzeros)[0] for b in branches)
        given = [t for t in tangents[1:] if type(t) is not Zero]
        outs = self.bind(index, *ops, *given, branches=with_tangents, **params)
        count = len(out_nonzeros)
        return outs[:count], tangents_of(outs[:count], out_nonzeros, outs[count:])

    def transpose(
        self, cts: Any, index: Any, *ops: Any, branches: Branches, **params: Any
    ) -> list[Any]:
        linear = [is_undef(x) for x in ops]
        nonzero = [type(ct) is not Zero for ct in cts]
        masks = masks_given(cts)
        given = (linear, nonzero, False, masks)
        wanted = _any(transpose_jaxpr(b, *given)[1] for b in branches)
        backward = tuple(transpose_jaxpr(b, linear, nonzero, wanted, masks)[0] for b in branches)
        known = [x for x in ops if not is_undef(x)]
        values = [ct.value if type(ct) is Masked else ct for ct in cts if type(ct) is not Zero]
        lives = [live.value() for live in mask_values(cts)]
        outs = self.bind(index, *known, *values, *lives, branches=backward, **params)
        return [None, *cotangents_of(ops, wanted, outs)]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, branches: Branches, **params: Any
    ) -> tuple[list[Any], list[int | None]]:
        index, index_dim = args[0], dims[0]
        if index_dim is not None and "branches_platforms" in params:
            # every element runs on the same platform: ask for it again, unbatched
            index = lookup("platform_index").bind(platforms=params["branches_platforms"])
            index_dim = None
        if index_dim is not None and by_device(axis, join_effects(b.effects for b in branches)):
            return one_by_one(self, axis, args, dims, {"branches": branches, **params}, 1)
        if index_dim is not None:
            return _select_branches(axis, args, dims, branches)
        batched = [d is not None for d in dims[1:]]
        ops = mapped_at_front(args[1:], dims[1:])
        out_batched = _any(batch_jaxpr(b, axis, batched, False)[1] for b in branches)
        over_batch = tuple(batch_jaxpr(b, axis, batched, out_batched)[0] for b in branches)
        outs = self.bind(index, *ops, branches=over_batch, **params)
        return outs, [0 if b else None for b in out_batched]

    def by_steps(self, args: Any, params: dict[str, Any]) -> list[Any] | None:
        """The results of the branch, where it is known which one it is."""
        index = args[0]._concrete() if isinstance(args[0], Tracer) else args[0]
        if index is None or np.ndim(index):
            return None
        branch = params["branches"][int(index)]
        return eval_jaxpr(branch.jaxpr, branch.consts, *args[1:])

    def discharge(self, index: Any, *args: Any, branches: Branches, **params: Any) -> list[Any]:
        plans = [without_refs.discharge_closed(b) for b in branches]
        written = _any(plan.written for plan in plans)
        pure = tuple(_returning(plan, written) for plan in plans)
        outs = self.bind(index, *without_refs.values_of(args), branches=pure, **params)
        return without_refs.store(args, written, outs)

    def partial_eval(
        self,
        trace: Any,
        args: Any,
        params: dict[str, Any],
    ) -> list[Any]:
        unknown = [trace.is_unknown(x) for x in args]
        if unknown[0]:
            return trace.emit(self, args, params)
        branches = params["branches"]
        known_ops, unknown_ops = partition_list(unknown[1:], args[1:])
        split = _split_branches(branches, unknown[1:])
        known_outs: list[Any] = []
        if split.known[0].out_avals or any(b.effects for b in split.known):
            known_outs = self.bind(args[0], *known_ops, **dict(params, branches=split.known))
        n_known = len(split.out_unknown) - sum(split.out_unknown)
        residuals = [known_ops[i] for i in split.forwarded] + list(known_outs[n_known:])
        rest = [args[0], *residuals, *unknown_ops]
        unknown_outs = trace.emit(self, rest, dict(params, branches=split.unknown))
        return merge_lists(split.out_unknown, known_outs[:n_known], unknown_outs)

    def dce(
        self,
        used: list[bool],
        eqn: JaxprEqn,
    ) -> JaxprEqn | None:
        if not any(used) and not observable(eqn.effects):
            return None
        branches = eqn.params["branches"]
        used_ops = _any(dce_closed(b, used)[1] for b in branches)
        smaller = tuple(dce_closed(b, used, used_ops)[0] for b in branches)
        index, *ops = eqn.invars
        return eqn.replace(
            invars=[index, *(x for x, u in zip(ops, used_ops, strict=True) if u)],
            outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
            params=dict(eqn.params, branches=smaller),
            effects=join_effects(b.effects for b in smaller),
        )


def _any(flags: Any) -> list[bool]:
    """Flags that are true in any of several lists."""
    return [any(column) for column in zip(*flags, strict=True)]


def _returning(plan: Any, written: Sequence[bool]) -> ClosedJaxpr:
    """A branch without references that returns the value of every one written in any branch."""
    jaxpr = plan.program.jaxpr
    count = len(jaxpr.outvars) - sum(plan.written)
    own = iter(jaxpr.outvars[count:])
    after = [next(own) if w else v for v, w in zip(jaxpr.invars, plan.written, strict=True)]
    outvars = jaxpr.outvars[:count] + [v for v, w in zip(after, written, strict=True) if w]
    return ClosedJaxpr(jaxpr.replace(outvars=outvars), plan.program.consts)


def _select_branches(
    axis: AxisData,
    args: Any,
    dims: Any,
    branches: Branches,
) -> tuple[list[Any], list[int | None]]:
    """All branches over the whole batch, then each element's own result."""
    if any(must_not_repeat(b.effects) for b in branches):
        raise NotImplementedError(
            "vmap over the predicate of cond runs all branches, so they must not have effects like"
            " io_callback's; use pure_callback, or lax.map instead of vmap"
        )
    given = [at_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)]
    if lanes.are_costly(branches, axis):
        # a call of its own, which the compiler may run on the elements of each branch
        avals = tuple([typeof(x) for x in given])
        closed = _selections.made(
            branches[0],
            (*map(ById, branches[1:]), axis, avals, tuple([d is None for d in dims])),
            lambda: stage(lambda *args: _selected(axis, args, branches), avals),
        )
        shared = tuple([d is None for d in dims[1:]])
        mapped_from.set(closed, None, lanes.Branches(branches, axis.size, shared))
        outs = jit_p.bind(*given, **jit_parameters(closed, "cond"))
    else:
        outs = _selected(axis, given, branches)
    return outs, [0] * len(outs)


# The selections of mapped branches, kept with the first; by the others, axis and types.
_selections: ProgramCache[tuple[Any, ...], ClosedJaxpr] = ProgramCache("selections")


def _selected(axis: AxisData, args: Any, branches: Branches) -> list[Any]:
    """The results of all branches over the whole batch, selected by the index."""
    index, *ops = args
    branch_outs = []
    for i, branch in enumerate(branches):
        program, _ = batch_jaxpr(branch, axis, [True] * len(ops), True)
        chosen = eq(index, const(index, i))
        # Elements that take another branch must not put NaN into the derivatives of this one.
        guarded = [_broadcast_select(chosen, stop_gradient_p.bind(x), x) for x in ops]
        branch_outs.append(eval_jaxpr(program.jaxpr, program.consts, *guarded))
    return [_broadcast_select(index, *cases) for cases in zip(*branch_outs, strict=True)]


def _broadcast_select(which: Any, *cases: Any) -> Any:
    shape = np.shape(cases[0])
    if np.ndim(which) != len(shape):
        which = broadcast_in_dim(which, shape, tuple(range(np.ndim(which))))
    return select_n(which, *cases)


class _Split:
    """Branches split in known and unknown parts of one signature.

    Residuals are known operands (at positions ``forwarded`` among them), then results of the
    known branches; a branch fills those of another with zeros.
    """

    __slots__ = ("known", "unknown", "out_unknown", "forwarded")

    def __init__(
        self,
        known: Any,
        unknown: Any,
        out_unknown: Any,
        forwarded: Any,
    ) -> None:
        self.known: Branches = known
        self.unknown: Branches = unknown
        self.out_unknown: list[bool] = out_unknown
        self.forwarded: list[int] = forwarded


def _split_branches(
    branches: Branches,
    unknown: Sequence[bool],
) -> _Split:
    key = (*map(ById, branches[1:]), tuple(unknown))
    return _splits.made(branches[0], key, lambda: _split(branches, unknown))


# How a conditional is split, kept with its first branch; by the others and what is unknown.
_splits: ProgramCache[tuple[Any, ...], _Split] = ProgramCache("splits")


def _split(
    branches: Branches,
    unknown: Sequence[bool],
) -> _Split:
    out_unknown = _any(partial_eval_jaxpr(b, unknown, False)[2] for b in branches)
    parts = [partial_eval_jaxpr(b, unknown, out_unknown) for b in branches]
    n_known = len(out_unknown) - sum(out_unknown)
    sources = [_residual_sources(known, n_known) for known, *_ in parts]
    forwarded = sorted({i for source in sources for i in source if i is not None})
    computed = [
        [a for a, s in zip(avals, source, strict=True) if s is None]
        for (*_, avals), source in zip(parts, sources, strict=True)
    ]
    merged, places = merge_types(computed)
    known_parts, unknown_parts = [], []
    for (known, rest, _, avals), source, place in zip(parts, sources, places, strict=True):
        keep = [True] * n_known + [s is None for s in source]
        known_parts.append(fill_outputs(keep_outputs(known, keep), n_known, merged, place))
        slots = _residual_slots(source, forwarded, place)
        in_avals = [known.in_avals[i] for i in forwarded] + merged
        unknown_parts.append(widen_inputs(rest, len(avals), slots, in_avals))
    return _Split(tuple(known_parts), tuple(unknown_parts), out_unknown, forwarded)


def _residual_sources(
    known: ClosedJaxpr,
    n_known: int,
) -> list[int | None]:
    """For each residual, which operand it is, or None if the known branch computes it."""
    place: dict[Any, int] = {v: i for i, v in enumerate(known.jaxpr.invars)}
    residuals = known.jaxpr.outvars[n_known:]
    return [None if type(v) is Literal else place.pop(v, None) for v in residuals]


def merge_types(
    branch_avals: Sequence[Sequence[Any]],
) -> tuple[list[Any], list[list[int]]]:
    """Types that hold any branch's residuals, and where each branch finds its own.

    The k-th residual of some type shares its place with the k-th of that type elsewhere.
    """
    places: dict[tuple[Any, int], int] = {}
    merged: list[Any] = []
    found = []
    for avals in branch_avals:
        seen: dict[Any, int] = {}
        mine = []
        for aval in avals:
            k = seen[aval] = seen.get(aval, -1) + 1
            if (aval, k) not in places:
                places[aval, k] = len(merged)
                merged.append(aval)
            mine.append(places[aval, k])
        found.append(mine)
    return merged, found


def fill_outputs(
    known: ClosedJaxpr,
    n_known: int,
    merged: Sequence[Any],
    place: Sequence[int],
) -> ClosedJaxpr:
    """The known branch with an output for every merged residual, zeros where it has none."""
    if list(place) == list(range(len(merged))):
        return known

    def filled(*args: Any) -> list[Any]:
        outs = eval_jaxpr(known.jaxpr, known.consts, *args)
        own = dict(zip(place, outs[n_known:], strict=True))
        return outs[:n_known] + [own[i] if i in own else zeros(a) for i, a in enumerate(merged)]

    return stage(filled, known.in_avals, known.debug_info)


def _residual_slots(
    source: Sequence[int | None],
    forwarded: Sequence[int],
    place: Sequence[int],
) -> list[int]:
    """Where each residual of a branch is among the residuals of all."""
    computed = iter(place)
    position = {i: k for k, i in enumerate(forwarded)}
    return [len(forwarded) + next(computed) if s is None else position[s] for s in source]


def widen_inputs(
    rest: ClosedJaxpr,
    count: int,
    slots: Sequence[int],
    avals: Sequence[Any],
) -> ClosedJaxpr:
    """The unknown branch, taking the residuals of all in the place of its own ``count``."""
    jaxpr = rest.jaxpr
    leading: list[Var] = [Var(aval) for aval in avals]
    for slot, v in zip(slots, jaxpr.invars[:count], strict=True):
        leading[slot] = v
    wide = jaxpr.replace(invars=[*leading, *jaxpr.invars[count:]], debug_info=None)
    return ClosedJaxpr(wide, rest.consts)


cond_p = Cond()
