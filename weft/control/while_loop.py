"""The ``while`` primitive: a body repeated as long as a predicate of the carry holds.

Operands are constants of the predicate, constants of the body, and the carry. The predicate may
have axes of a batch, which then lead in every part of the carry: the loop runs while any element
goes on, and elements that are done keep their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base import source
from weft.base.errors import JaxprTypeError
from weft.base.functional import either, merge_lists, partition_list, split_list
from weft.base.lazy import Late
from weft.control.initial_style import (
    interleave,
    keep_outputs,
    must_not_repeat,
    rearrange,
    settled,
    tangents_of,
)
from weft.control.jit import numpy_consts, used_axis_names
from weft.control.one_by_one import by_device, one_by_one
from weft.control.parts import on_parts, split_carry
from weft.core.ad import Zero, instantiate
from weft.core.batching import AxisData, mapped_from, match_axis
from weft.core.caches import per_program
from weft.core.effects import Effects, observable
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Var, eval_jaxpr, jaxpr_as_fun
from weft.core.primitive import Primitive
from weft.core.staging import stage
from weft.core.trace import Tracer, state, typeof
from weft.core.verify import check_call
from weft.division.propagate import flow_through, joined
from weft.prims.convert import convert
from weft.prims.reduce import reduce_or_p, reduce_sum
from weft.prims.selection import select_n_p
from weft.prims.shape import broadcast_in_dim
from weft.transforms.dce import dce_closed
from weft.transforms.jvp import jvp_jaxpr
from weft.transforms.partial_eval import partial_eval_jaxpr
from weft.transforms.vmap import batch_jaxpr, batch_to, batched

# needed with mapped predicates, and with mutable references only
lanes = Late("weft.control.lanes")
without_refs = Late("weft.transforms.discharge")

Dims = Sequence[int | None]


class While(Primitive):
    """A loop whose number of steps is not known before it runs."""

    name, nodes, exact, pinned = "while", "loop", True, True
    multiple_results = True
    takes_refs = True
    split_carry = staticmethod(split_carry)
    on_parts = staticmethod(on_parts)

    def plan(self, planner: Any, eqn: Any, ins: Any, outs: Any) -> list[Any]:
        params, taken = self.scalar_predicate(eqn.params)
        return planner.repeat(params, [ins[i] for i in taken], outs)

    def compacts(self, params: dict[str, Any]) -> bool:
        return mapped_from.get(params["body_jaxpr"], None) is not None

    def one_size(self, params: dict[str, Any]) -> bool:
        return self.compacts(params) and lanes.has_rows(params["body_jaxpr"])

    def compacted(self, params: dict[str, Any], judge: Any) -> ClosedJaxpr | None:
        return lanes.ladder(params, judge)

    def remembered(self, params: dict[str, Any]) -> Any:
        return lanes.remembered(params) if self.compacts(params) else None

    def over_batch(self, found: Any, program: ClosedJaxpr, shared: int) -> ClosedJaxpr:
        return lanes.over_batch(found, program, shared)

    def unbatched(self, params: dict[str, Any]) -> Any:
        return lanes.unbatched(params) if self.compacts(params) else None

    def ordered(self, params: dict[str, Any], judge: Any) -> dict[str, Any] | None:
        return lanes.ordered(params, judge)

    def rounds(self, params: dict[str, Any]) -> None:
        return None

    def carried(self, params: dict[str, Any]) -> slice:
        """Which operands go round."""
        return slice(params["cond_nconsts"] + params["body_nconsts"], None)

    def flow(self, params: Any, ins: Any, outs: Any, mesh: Any) -> tuple[Any, Any]:
        """What the body makes of its specs, until the carry keeps its own."""
        counts = [params["cond_nconsts"], params["body_nconsts"]]
        first, consts, carry = split_list(ins, counts)
        # axes of a predicate lead in the carry, and all devices have the same predicate
        lead = params["cond_jaxpr"].out_avals[0].ndim
        carry = [joined(a, b) for a, b in zip(carry, outs, strict=True)]
        while True:
            carry = [((),) * lead + s[lead:] for s in carry]
            given, found = flow_through(params["body_jaxpr"], [*consts, *carry], carry, mesh)
            consts, held = given[: counts[1]], given[counts[1] :]
            after = [joined(a, b) for a, b in zip(held, found, strict=True)]
            after = [((),) * lead + s[lead:] for s in after]
            if after == carry:
                return [*first, *consts, *carry], carry
            carry = after

    def shape(self, *avals: Any, body_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return body_jaxpr.out_avals

    def verify(self, avals: Any, params: dict[str, Any]) -> None:
        sizes = [params["cond_nconsts"], params["body_nconsts"]]
        cond_consts, body_consts, carry = split_list(avals, sizes)
        check_call("the predicate of while", params["cond_jaxpr"], [*cond_consts, *carry])
        check_call("the body of while", params["body_jaxpr"], [*body_consts, *carry], carry)
        (going,) = params["cond_jaxpr"].out_avals
        if going.dtype != np.bool_ or any(
            a.shape[: going.ndim] != going.shape for a in carry if not a.is_ref
        ):
            raise JaxprTypeError(f"the condition of while is {going.str_short()}, not a boolean")

    def eqn_effects(self, avals: Any, params: Any) -> Effects:
        return params["cond_jaxpr"].effects | params["body_jaxpr"].effects

    def axis_names(self, params: Any) -> Any:
        cond, body = params["cond_jaxpr"], params["body_jaxpr"]
        return used_axis_names(cond.jaxpr) | used_axis_names(body.jaxpr)

    def ref(self, *args: Any, **params: Any) -> list[Any]:
        return self.some_rounds(args, params, None)[0]

    def by_steps(self, args: Any, params: dict[str, Any]) -> list[Any] | None:
        """The carry at the end, round by round, where the predicate can be looked at."""
        cond, body = params["cond_jaxpr"], params["body_jaxpr"]
        sizes = [params["cond_nconsts"], params["body_nconsts"]]
        cond_consts, body_consts, carry = split_list(args, sizes)
        while True:
            (going,) = eval_jaxpr(cond.jaxpr, cond.consts, *cond_consts, *carry)
            known = going._concrete() if isinstance(going, Tracer) else going
            if known is None or np.ndim(known):
                return None
            if not known:
                return list(carry)
            carry = eval_jaxpr(body.jaxpr, body.consts, *body_consts, *carry)

    def some_rounds(self, args: Any, params: Any, most: int | None) -> tuple[list[Any], bool]:
        """The carry after at most so many rounds, and whether the loop is over."""
        sizes = [params["cond_nconsts"], params["body_nconsts"]]
        cond_consts, body_consts, carry = split_list(args, sizes)
        cond, body = params["cond_jaxpr"], params["body_jaxpr"]
        cond_values, body_values = numpy_consts(cond), numpy_consts(body)
        rounds = 0
        while most is None or rounds < most:
            (going,) = run(cond.jaxpr, cond_values, [*cond_consts, *carry])
            if not going.any():
                return carry, True
            after = run(body.jaxpr, body_values, [*body_consts, *carry])
            if not going.all():
                after = [_where(going, new, old) for new, old in zip(after, carry, strict=True)]
            carry = after
            rounds += 1
        return carry, False

    def scalar_predicate(self, params: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """The same loop with a predicate of one element, and which operands it takes, in order.

        It goes on while any element does; the body leaves those that are done as they are.
        """
        cond, body = params["cond_jaxpr"], params["body_jaxpr"]
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        count = n_cond + n_body + len(body.out_avals)
        axes = tuple(range(cond.out_avals[0].ndim))
        if not axes:
            return params, list(range(count))
        going, after = jaxpr_as_fun(cond), jaxpr_as_fun(body)

        def some(*args: Any) -> list[Any]:
            return [reduce_or_p.bind(*going(*args), axes=axes)]

        def step(*args: Any) -> list[Any]:
            cond_consts, body_consts, carry = split_list(args, [n_cond, n_body])
            (more,) = going(*cond_consts, *carry)
            return _masked(more, carry, after(*body_consts, *carry), axes)

        consts = [*cond.in_avals[:n_cond], *body.in_avals[:n_body]]
        plain = {
            "cond_nconsts": n_cond,
            "cond_jaxpr": stage(some, cond.in_avals),
            "body_nconsts": n_cond + n_body,
            "body_jaxpr": stage(step, [*consts, *body.out_avals]),
        }
        return plain, [*range(n_cond), *range(count)]

    def counted(
        self, cond: ClosedJaxpr, body: ClosedJaxpr, consts: int
    ) -> tuple[ClosedJaxpr, ClosedJaxpr]:
        """The predicate with the number of elements that go on (at most 255) ahead of it, and the
        body with the predicate as first operand, which leaves those that are done as they are.

        ``consts`` is the number of the body's constants.
        """
        going, after = jaxpr_as_fun(cond), jaxpr_as_fun(body)
        (more,) = cond.out_avals
        axes = tuple(range(more.ndim))

        def count(*args: Any) -> list[Any]:
            (more,) = going(*args)
            return [reduce_sum(convert(more, np.dtype(np.uint8)), axes), more]

        def step(more: Any, *args: Any) -> list[Any]:
            return _masked(more, args[consts:], after(*args), axes)

        return stage(count, cond.in_avals), stage(step, [more, *body.in_avals])

    def jvp(
        self,
        primals: Any,
        tangents: Any,
        *,
        cond_nconsts: int,
        cond_jaxpr: ClosedJaxpr,
        body_nconsts: int,
        body_jaxpr: ClosedJaxpr,
    ) -> tuple[list[Any], list[Any]]:
        sizes = [cond_nconsts, body_nconsts]
        cond_consts, body_consts, init = split_list(primals, sizes)
        _, consts_dot, init_dot = split_list(tangents, sizes)
        consts_nz = [type(t) is not Zero for t in consts_dot]
        carry_nz = [type(t) is not Zero for t in init_dot]
        program, _, carry_nz = settled(
            carry_nz, lambda carry: jvp_jaxpr(body_jaxpr, consts_nz + carry, carry)
        )
        consts_dot = [t for t in consts_dot if type(t) is not Zero]
        init_dot = [instantiate(t) for t, nz in zip(init_dot, carry_nz, strict=True) if nz]
        count = len(init)
        body = interleave(
            program,
            [body_nconsts, count],
            [len(consts_dot), len(init_dot)],
            [count],
            [len(init_dot)],
        )
        tangent_avals = [
            v.aval.to_tangent_aval()
            for v, nz in zip(body_jaxpr.jaxpr.outvars, carry_nz, strict=True)
            if nz
        ]
        outs = self.bind(
            *cond_consts,
            *body_consts,
            *consts_dot,
            *init,
            *init_dot,
            cond_nconsts=cond_nconsts,
            cond_jaxpr=_ignore_more(cond_jaxpr, tangent_avals),
            body_nconsts=body_nconsts + len(consts_dot),
            body_jaxpr=body,
        )
        return outs[:count], tangents_of(outs[:count], carry_nz, outs[count:])

    def discharge(
        self,
        *args: Any,
        cond_nconsts: int,
        cond_jaxpr: ClosedJaxpr,
        body_nconsts: int,
        body_jaxpr: ClosedJaxpr,
    ) -> list[Any]:
        """References that the body writes are carried, ahead of the carry."""
        cond, cond_writes = without_refs.discharge_closed(cond_jaxpr)
        body, body_writes = without_refs.discharge_closed(body_jaxpr)
        if any(cond_writes):
            raise NotImplementedError(
                "the predicate of while_loop writes to a mutable reference; write in the body"
            )
        cond_consts, body_consts, carry = split_list(args, [cond_nconsts, body_nconsts])
        written = [x for x, w in zip(body_consts, body_writes) if w]
        place = {id(x): i for i, x in enumerate(written)}
        init = [*without_refs.values_of(written), *carry]

        def on_values(program: ClosedJaxpr, consts: Any) -> tuple[ClosedJaxpr, list[Any]]:
            """The program, finding what is written in the carry, and its other constants."""
            fun = jaxpr_as_fun(program)
            fixed = [x for x in consts if id(x) not in place]
            values = without_refs.values_of(fixed)

            def of_values(*args: Any) -> list[Any]:
                others, carried = iter(args[: len(fixed)]), args[len(fixed) :]
                found = [carried[place[id(x)]] if id(x) in place else next(others) for x in consts]
                return fun(*found, *carried[len(written) :])

            return stage(of_values, [typeof(x) for x in (*values, *init)]), values

        predicate, cond_values = on_values(cond, cond_consts)
        step, body_values = on_values(body, body_consts)
        count = len(carry)
        outs = self.bind(
            *cond_values,
            *body_values,
            *init,
            cond_nconsts=len(cond_values),
            cond_jaxpr=predicate,
            body_nconsts=len(body_values),
            body_jaxpr=rearrange(step, None, [*range(count, len(init)), *range(count)]),
        )
        without_refs.store(written, [True] * len(written), outs[: len(written)])
        return outs[len(written) :]

    def transpose(self, cts: Any, *args: Any, **params: Any) -> list[Any]:
        raise ValueError(
            "reverse-mode differentiation does not work through lax.while_loop, nor through"
            " lax.fori_loop with bounds that are traced: the number of steps, and so the memory"
            " for their intermediate values, is not known in advance. Use lax.scan, or fori_loop"
            " with bounds that are Python integers; forward mode (jvp, jacfwd) works as it is."
            f" ({source.summarize(state.source or source.current())})"
        )

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        cond_nconsts: int,
        cond_jaxpr: ClosedJaxpr,
        body_nconsts: int,
        body_jaxpr: ClosedJaxpr,
    ) -> tuple[list[Any], list[int | None]]:
        sizes = [cond_nconsts, body_nconsts]
        cond_dims, body_dims, init_dims = split_list(dims, sizes)
        carry = [d is not None for d in init_dims]
        body_batched = [d is not None for d in body_dims]
        _, _, carry = settled(
            carry, lambda carry: batch_jaxpr(body_jaxpr, axis, body_batched + carry, carry)
        )
        cond_batched = [d is not None for d in cond_dims]
        _, (predicate_batched,) = batch_jaxpr(cond_jaxpr, axis, cond_batched + carry, False)
        carry_dims: list[int | None]
        if predicate_batched:
            effects = cond_jaxpr.effects | body_jaxpr.effects
            if by_device(axis, effects):
                programs = {"cond_jaxpr": cond_jaxpr, "body_jaxpr": body_jaxpr}
                counts = {"cond_nconsts": cond_nconsts, "body_nconsts": body_nconsts}
                return one_by_one(self, axis, args, dims, {**programs, **counts}, 1)
            if must_not_repeat(effects):
                raise NotImplementedError(
                    "vmap over the predicate of while_loop runs the body for elements that are "
                    "already done, so it must not have effects like io_callback's; use lax.map"
                )
            carry_dims = [0] * len(carry)
            predicate_dim: int | None = 0
        else:
            # the axes of the predicate, if it has some, must lead in the carry too
            rank = len(cond_jaxpr.out_avals[0].shape)
            carry_dims = [rank if b else None for b in carry]
            predicate_dim = None
        body = _batch_at(body_jaxpr, axis, [*body_dims, *carry_dims], carry_dims)
        cond = _batch_at(cond_jaxpr, axis, [*cond_dims, *carry_dims], [predicate_dim])
        if predicate_batched:
            given = (cond_jaxpr, body_jaxpr)
            lanes.remember((cond, body), given, axis, (cond_dims, body_dims))
        count = cond_nconsts + body_nconsts
        init = [
            match_axis(axis.size, d, wanted, x)
            for x, d, wanted in zip(args[count:], init_dims, carry_dims, strict=True)
        ]
        outs = self.bind(
            *args[:count],
            *init,
            cond_nconsts=cond_nconsts,
            cond_jaxpr=cond,
            body_nconsts=body_nconsts,
            body_jaxpr=body,
        )
        return outs, carry_dims

    def partial_eval(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        """Run the known part; write down the whole loop again for what is unknown.

        Residuals cannot be kept, since the number of steps is not known; this serves ``linearize``
        and leaves the error of reverse mode to ``transpose``.
        """
        sizes = [params["cond_nconsts"], params["body_nconsts"]]
        unknown = [trace.is_unknown(x) for x in args]
        cond_unknown, body_unknown, carry = split_list(unknown, sizes)
        body_jaxpr, cond_jaxpr = params["body_jaxpr"], params["cond_jaxpr"]
        while True:
            known, _, out, _ = partial_eval_jaxpr(body_jaxpr, body_unknown + carry, carry)
            if out == carry:
                break
            carry = either(carry, out)
        cond_known, _, (predicate_unknown,), _ = partial_eval_jaxpr(
            cond_jaxpr, cond_unknown + carry, False
        )
        if predicate_unknown or all(carry):
            return trace.emit(self, args, params)
        kept = len(carry) - sum(carry)
        known_args, _ = partition_list([*cond_unknown, *body_unknown, *carry], args)
        known_outs = self.bind(
            *known_args,
            cond_nconsts=len(cond_unknown) - sum(cond_unknown),
            cond_jaxpr=cond_known,
            body_nconsts=len(body_unknown) - sum(body_unknown),
            body_jaxpr=keep_outputs(known, [i < kept for i in range(len(known.out_avals))]),
        )
        outs = trace.emit(self, args, params)
        return merge_lists(carry, known_outs, [x for x, u in zip(outs, carry, strict=True) if u])

    def dce(self, used: list[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        if not any(used) and not observable(eqn.effects):
            return None
        params = eqn.params
        sizes = [params["cond_nconsts"], params["body_nconsts"]]
        cond, cond_used = dce_closed(params["cond_jaxpr"], [True])
        carry = either(used, cond_used[sizes[0] :])
        while True:
            keep_body = [False] * sizes[1] + carry
            body, body_used = dce_closed(params["body_jaxpr"], carry, keep_body)
            if body_used[sizes[1] :] == carry:
                break
            carry = either(carry, body_used[sizes[1] :])
        cond, cond_used = dce_closed(params["cond_jaxpr"], [True], [False] * sizes[0] + carry)
        read = [*cond_used[: sizes[0]], *body_used[: sizes[1]], *carry]
        before = (params["cond_jaxpr"], params["body_jaxpr"])
        lanes.remember_less(before, (cond, body), carry, (cond_used, body_used))
        return eqn.replace(
            invars=[x for x, r in zip(eqn.invars, read, strict=True) if r],
            outvars=[v for v, c in zip(eqn.outvars, carry, strict=True) if c],
            params={
                "cond_nconsts": sum(cond_used[: sizes[0]]),
                "cond_jaxpr": cond,
                "body_nconsts": sum(body_used[: sizes[1]]),
                "body_jaxpr": body,
            },
            effects=cond.effects | body.effects,
        )


def _masked(more: Any, carry: Sequence[Any], new: Sequence[Any], axes: Any) -> list[Any]:
    """What goes round after a step, of elements that are done as it was."""
    masks = [broadcast_in_dim(more, typeof(x).shape, axes) for x in carry]
    return [select_n_p.bind(m, x, y) for m, x, y in zip(masks, carry, new, strict=True)]


def _where(going: Any, new: Any, old: Any) -> Any:
    spread = going.reshape(going.shape + (1,) * (new.ndim - going.ndim))
    return np.where(spread, new, old)


def _ignore_more(closed: ClosedJaxpr, avals: Sequence[Any]) -> ClosedJaxpr:
    """The program with more inputs that it does not read."""
    return _with_inputs(closed, *avals) if avals else closed


@per_program
def _with_inputs(closed: ClosedJaxpr, *avals: Any) -> ClosedJaxpr:
    invars = [*closed.jaxpr.invars, *(Var(aval) for aval in avals)]
    return closed.replace(jaxpr=closed.jaxpr.replace(invars=invars, debug_info=None))


def _batch_at(closed: ClosedJaxpr, axis: AxisData, in_dims: Dims, out_dims: Dims) -> ClosedJaxpr:
    """The program over a batch, its batch dimensions where they are said to be."""
    return _batched_at(closed, axis, tuple(in_dims), tuple(out_dims))


@per_program
def _batched_at(
    closed: ClosedJaxpr, axis: AxisData, in_dims: tuple[Any, ...], out_dims: tuple[Any, ...]
) -> ClosedJaxpr:
    fun = jaxpr_as_fun(closed)
    avals = [batched(a, axis.size, d) for a, d in zip(closed.in_avals, in_dims, strict=True)]
    mapped = lambda *args: batch_to(fun, axis, args, in_dims, out_dims)
    return stage(mapped, avals, closed.debug_info)


while_p = While()
