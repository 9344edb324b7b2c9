"""The ``scan`` primitive: a body run over the leading axis of arrays, with a carry.

Operands are constants (the same in every step), the carry, and the arrays scanned over. Results
are the final carry and the stacked outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.errors import JaxprTypeError
from weft.base.functional import either, merge_lists, partition_list, split_list
from weft.base.lazy import Late
from weft.base.record import Record
from weft.control.initial_style import (
    forwarded_inputs,
    interleave,
    keep_outputs,
    rearrange,
    settled,
    tangents_of,
)
from weft.control.jit import numpy_consts, used_axis_names
from weft.control.parts import on_parts, split_carry
from weft.control.scan_transpose import transpose_linear
from weft.core.ad import Zero, filled, instantiate, is_undef
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, match_axis, moveaxis
from weft.core.effects import Effects, observable
from weft.core.interpret import run, storage_dtype
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.verify import check_call
from weft.division.propagate import flow_through, joined
from weft.prims.families import element
from weft.prims.shape import broadcast_in_dim, concatenate_p
from weft.transforms.dce import dce_closed
from weft.transforms.jvp import jvp_jaxpr
from weft.transforms.partial_eval import partial_eval_jaxpr
from weft.transforms.vmap import batch_jaxpr

# needed with mutable references only
without_refs = Late("weft.transforms.discharge")


def stacked(aval: Any, length: int) -> ShapedArray:
    """The type of ``length`` values of a type."""
    shape = (length, *aval.shape)
    made = ShapedArray(shape, aval.dtype, aval.weak_type, manual_axis_type=aval.mat)
    if aval.divided is None:
        return made if aval.named is None else made.on_mesh(aval.named)
    return made.update(sharding=aval.divided.with_parts([None, *aval.divided.spec]))


# Equations that steps may be unrolled to, if all are of these forms, on arrays of so many elements.
UNROLLED, MANY = 400, 1 << 14
ALONG = frozenset(["map", "move", "element"])


def _stack(parts: Sequence[Any], aval: Any) -> Any:
    """Values of a type under one another."""
    if not parts:
        return filled(0, stacked(aval, 0))
    dims = tuple(range(1, len(aval.shape) + 1))
    shape = (1, *aval.shape)
    return concatenate_p.bind(*(broadcast_in_dim(x, shape, dims) for x in parts), dimension=0)


class Scan(Primitive):
    """A loop of a known number of steps."""

    name, nodes, exact = "scan", "loop", True
    masks = "loop"
    multiple_results = True
    takes_refs = True
    split_carry = staticmethod(split_carry)
    on_parts = staticmethod(on_parts)

    def plan(self, planner: Any, eqn: Any, ins: Any, outs: Any) -> list[Any]:
        return planner.scan(eqn.params, ins, outs)

    def rounds(self, params: dict[str, Any]) -> int:
        return params["length"]

    def carried(self, params: dict[str, Any]) -> slice:
        """Which operands go round."""
        first = params["num_consts"]
        return slice(first, first + params["num_carry"])

    def flow(self, params: Any, ins: Any, outs: Any, mesh: Any) -> tuple[Any, Any]:
        """What the body makes of its specs, until the carry keeps its own."""
        first, carried = params["num_consts"], params["num_carry"]
        consts, carry, xs = split_list(ins, [first, carried])
        carry = [joined(a, b) for a, b in zip(carry, outs[:carried], strict=True)]
        rows, made = [s[1:] for s in xs], [s[1:] for s in outs[carried:]]
        while True:
            given, found = flow_through(
                params["jaxpr"], [*consts, *carry, *rows], [*carry, *made], mesh
            )
            consts, held, rows = split_list(given, [first, carried])
            after = [joined(a, b) for a, b in zip(held, found[:carried], strict=True)]
            if after == carry:
                break
            carry, made = after, found[carried:]
        behind = [((), *s) for s in rows], [((), *s) for s in found[carried:]]
        return [*consts, *carry, *behind[0]], [*carry, *behind[1]]

    def shape(
        self, *avals: Any, jaxpr: ClosedJaxpr, length: int, num_carry: int, **params: Any
    ) -> list[Any]:
        if len(avals) != len(jaxpr.jaxpr.invars):
            raise ValueError(
                f"scan was given {len(avals)} operands for a body of {len(jaxpr.jaxpr.invars)}"
            )
        outs = jaxpr.out_avals
        return outs[:num_carry] + [stacked(a, length) for a in outs[num_carry:]]

    def verify(self, avals: Any, params: dict[str, Any]) -> None:
        length, count, body = params["length"], params["num_carry"], params["jaxpr"]
        if len(params) != 6:
            raise TypeError(f"scan has six parameters, got {', '.join(params)}")
        numbers = {name: params[name] for name in ("num_consts", "num_carry", "unroll")}
        wrong = {name: n for name, n in numbers.items() if type(n) is not int or n < 0}
        if type(params["reverse"]) is not bool:
            wrong["reverse"] = params["reverse"]
        if wrong or params["num_consts"] + count > len(avals):
            raise JaxprTypeError(f"scan of {len(avals)} operands has {wrong or numbers}")
        consts, carry, xs = split_list(avals, [params["num_consts"], count])
        if length < 0 or any(x.shape[:1] != (length,) for x in xs):
            raise JaxprTypeError(f"scan of {length} steps takes an array of another length")
        if params["unroll"] < 1:
            raise JaxprTypeError(f"scan unrolls by {params['unroll']}")
        rows = [x.update(shape=x.shape[1:]) for x in xs]
        check_call("the body of scan", body, [*consts, *carry, *rows])
        check_call("the body of scan", body, body.in_avals, [*carry, *body.out_avals[count:]])

    def eqn_effects(self, avals: Any, params: Any) -> Effects:
        return params["jaxpr"].effects

    def axis_names(self, params: Any) -> Any:
        return used_axis_names(params["jaxpr"].jaxpr)

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        """Whether a few steps on large arrays, element by element, are one pass over memory."""
        closed, length, carried = params["jaxpr"], params["length"], params["num_carry"]
        body = closed.jaxpr
        if carried != len(body.outvars) or closed.consts:
            return False
        # a length that isn't fixed is asked about last: the answer holds for some lengths only
        if type(length) is int and length * len(body.eqns) > UNROLLED:
            return False
        made = {v for e in body.eqns for v in e.outvars}
        outs = {x for x in body.outvars if type(x) is not Literal and x in made}
        if len(outs) < carried or any(
            e.effects or e.primitive.form not in ALONG for e in body.eqns
        ):
            return False
        # a counter may go along
        sizes = [size for v in outs if (size := prod(v.aval.shape)) != 1]
        return min(sizes, default=0) >= MANY and 0 < length * len(body.eqns) <= UNROLLED

    def decompose(
        self,
        *args: Any,
        jaxpr: ClosedJaxpr,
        length: int,
        reverse: bool,
        num_consts: int,
        num_carry: int,
        **_: Any,
    ) -> list[Any]:
        """Every step after the other."""
        consts, carry, xs = split_list(args, [num_consts, num_carry])
        for k in reversed(range(length)) if reverse else range(length):
            rows = [element(x, 0, k) for x in xs]
            carry = eval_jaxpr(jaxpr.jaxpr, (), *consts, *carry, *rows)
        return carry

    @staticmethod
    def unrolled(avals: Sequence[Any], params: dict[str, Any]) -> Jaxpr | None:
        """Every step after the other as a program, where steps differ in nothing but the carry: by
        renaming, in a quarter of the time that staging takes."""
        closed, count = params["jaxpr"], params["num_consts"]
        if len(avals) > count + params["num_carry"] or closed.jaxpr.constvars:
            return None
        body, invars = closed.jaxpr, [Var(aval) for aval in avals]
        state: list[Any] = invars[count:]
        eqns = []
        for _ in range(params["length"]):
            env: dict[Any, Any] = dict(zip(body.invars, [*invars[:count], *state], strict=True))
            for eqn in body.eqns:
                ins = [x if type(x) is Literal else env[x] for x in eqn.invars]
                outs = [
                    v if type(v) is DropVar else env.setdefault(v, Var(v.aval)) for v in eqn.outvars
                ]
                eqns.append(eqn.replace(invars=ins, outvars=outs))
            state = [x if type(x) is Literal else env[x] for x in body.outvars]
        return Jaxpr((), invars, state, eqns)

    def by_steps(self, args: Any, params: dict[str, Any]) -> list[Any] | None:
        """The results of the steps one after the other; references are passed to all of them."""
        body, count = params["jaxpr"], params["num_carry"]
        consts, carry, xs = split_list(args, [params["num_consts"], count])
        if any(typeof(x).is_ref for x in xs):
            return None
        places = range(params["length"])
        rows: list[list[Any]] = []
        for k in reversed(places) if params["reverse"] else places:
            here = [element(x, 0, k) for x in xs]
            outs = eval_jaxpr(body.jaxpr, body.consts, *consts, *carry, *here)
            carry = outs[:count]
            rows.append(outs[count:])
        if params["reverse"]:
            rows.reverse()
        avals = body.out_avals[count:]
        return [*carry, *(_stack([row[i] for row in rows], a) for i, a in enumerate(avals))]

    @staticmethod
    def ref(
        *args: Any,
        jaxpr: ClosedJaxpr,
        length: int,
        reverse: bool,
        num_consts: int,
        num_carry: int,
        unroll: int,
    ) -> list[Any]:
        consts, carry, xs = split_list(args, [num_consts, num_carry])
        values = numpy_consts(jaxpr)
        y_avals = jaxpr.out_avals[num_carry:]
        ys = [np.empty((length, *a.shape), storage_dtype(a.dtype)) for a in y_avals]
        for i in reversed(range(length)) if reverse else range(length):
            outs = run(jaxpr.jaxpr, values, [*consts, *carry, *(x[i, ...] for x in xs)])
            carry = outs[:num_carry]
            for y, out in zip(ys, outs[num_carry:], strict=True):
                y[i] = out
        return [*carry, *ys]

    def jvp(
        self,
        primals: Any,
        tangents: Any,
        *,
        jaxpr: ClosedJaxpr,
        num_consts: int,
        num_carry: int,
        **params: Any,
    ) -> tuple[list[Any], list[Any]]:
        num_xs = len(primals) - num_consts - num_carry
        num_ys = len(jaxpr.out_avals) - num_carry
        nonzero = [type(t) is not Zero for t in tangents]
        consts_nz, carry_nz, xs_nz = split_list(nonzero, [num_consts, num_carry])
        program, out_nz, carry_nz = settled(
            carry_nz,
            lambda carry: jvp_jaxpr(jaxpr, consts_nz + carry + xs_nz, carry + [False] * num_ys),
        )
        nonzero = consts_nz + carry_nz + xs_nz
        given = [instantiate(t) if nz else t for t, nz in zip(tangents, nonzero, strict=True)]
        consts, init, xs = split_list(primals, [num_consts, num_carry])
        consts_dot, init_dot, xs_dot = (
            [t for t in group if type(t) is not Zero]
            for group in split_list(given, [num_consts, num_carry])
        )
        body = interleave(
            program,
            [num_consts, num_carry, num_xs],
            [len(consts_dot), len(init_dot), len(xs_dot)],
            [num_carry, num_ys],
            [len(init_dot), sum(out_nz) - len(init_dot)],
        )
        outs = self.bind(
            *consts,
            *consts_dot,
            *init,
            *init_dot,
            *xs,
            *xs_dot,
            jaxpr=body,
            num_consts=num_consts + len(consts_dot),
            num_carry=num_carry + len(init_dot),
            **params,
        )
        carry, carry_dot, ys, ys_dot = split_list(outs, [num_carry, len(init_dot), num_ys])
        return carry + ys, tangents_of(carry + ys, out_nz, carry_dot + ys_dot)

    def transpose(self, cts: Any, *args: Any, **params: Any) -> list[Any]:
        num_consts, num_carry = params["num_consts"], params["num_carry"]
        linear = [is_undef(x) for x in args]
        carry = linear_carry(params["jaxpr"], linear, num_consts, num_carry)
        if all(carry):
            return transpose_linear(self, cts, args, params)
        # Part of the loop is not linear (a counter, say): run that first, keep its residuals.
        split = split_scan(self, args, linear, params)
        unknown_cts = [ct for ct, u in zip(cts, split.out_unknown, strict=True) if u]
        outs = transpose_linear(self, unknown_cts, split.args, split.params)
        return [outs[_position(split.args, x)] if is_undef(x) else None for x in args]

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        jaxpr: ClosedJaxpr,
        num_consts: int,
        num_carry: int,
        **params: Any,
    ) -> tuple[list[Any], list[int | None]]:
        num_ys = len(jaxpr.out_avals) - num_carry
        batched = [d is not None for d in dims]
        consts_b, carry_b, xs_b = split_list(batched, [num_consts, num_carry])
        program, out_b, carry_b = settled(
            carry_b,
            lambda carry: batch_jaxpr(
                jaxpr, axis, consts_b + carry + xs_b, carry + [False] * num_ys
            ),
        )
        consts, init, xs = split_list(list(zip(args, dims, strict=True)), [num_consts, num_carry])
        outs = self.bind(
            *(x if d is None else moveaxis(x, d, 0) for x, d in consts),
            *(
                match_axis(axis.size, d, 0, x) if b else x
                for (x, d), b in zip(init, carry_b, strict=True)
            ),
            *(x if d is None else moveaxis(x, d, 1) for x, d in xs),
            jaxpr=program,
            num_consts=num_consts,
            num_carry=num_carry,
            **params,
        )
        ys_b = out_b[num_carry:]
        return outs, [0 if b else None for b in carry_b] + [1 if b else None for b in ys_b]

    def discharge(
        self, *args: Any, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **params: Any
    ) -> list[Any]:
        """References that steps share are carried, those scanned over are scanned and stacked."""
        pure, written = without_refs.discharge_closed(jaxpr)
        values = without_refs.values_of(args)
        shared = [i for i in range(num_consts) if written[i]]
        fixed = [i for i in range(num_consts) if not written[i]]
        count = len(jaxpr.out_avals)
        body = rearrange(
            pure,
            [*fixed, *shared, *range(num_consts, len(args))],
            [
                *range(count, count + len(shared)),
                *range(count),
                *range(count + len(shared), len(pure.out_avals)),
            ],
        )
        outs = self.bind(
            *(values[i] for i in (*fixed, *shared)),
            *values[num_consts:],
            jaxpr=body,
            num_consts=len(fixed),
            num_carry=len(shared) + num_carry,
            **params,
        )
        first = outs[: len(shared)]
        rest, stacks = outs[len(shared) : len(shared) + count], outs[len(shared) + count :]
        return without_refs.store(args, written, [*rest, *first, *stacks])

    def partial_eval(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        split = split_scan(self, args, [trace.is_unknown(x) for x in args], params)
        unknown_outs = trace.emit(self, split.args, split.params)
        return merge_lists(split.out_unknown, split.known_outs, unknown_outs)

    def dce(self, used: list[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        if not any(used) and not observable(eqn.effects):
            return None
        params = eqn.params
        jaxpr, num_consts, num_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
        num_xs = len(eqn.invars) - num_consts - num_carry
        carry, ys = split_list(used, [num_carry])
        while True:
            keep = [False] * num_consts + carry + [False] * num_xs
            body, read = dce_closed(jaxpr, carry + ys, keep)
            carry_read = read[num_consts : num_consts + num_carry]
            if carry_read == carry:
                break
            carry = either(carry, carry_read)
        return eqn.replace(
            invars=[x for x, r in zip(eqn.invars, read, strict=True) if r],
            outvars=[v for v, u in zip(eqn.outvars, carry + ys, strict=True) if u],
            params=dict(
                params, jaxpr=body, num_consts=sum(read[:num_consts]), num_carry=sum(carry)
            ),
            effects=body.effects,
        )


def _position(items: Sequence[Any], item: Any) -> int:
    return next(i for i, x in enumerate(items) if x is item)


# --- partial evaluation ---------------------------------------------------------------------------


class SplitScan(Record):
    """A scan of which the known part has run: what is left, and what came out."""

    known_outs: list[Any]
    out_unknown: list[bool]
    args: list[Any]
    params: dict[str, Any]


def split_scan(
    primitive: Scan, args: Sequence[Any], unknown: Sequence[bool], params: dict[str, Any]
) -> SplitScan:
    """Run the known part of a scan; residuals become operands of the scan that is left.

    Residuals that are the same in every step stay unstacked, as constants; arrays scanned over
    that the unknown part reads are handed on as they are; the others are stacked.
    """
    jaxpr, num_consts, num_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
    num_ys = len(jaxpr.out_avals) - num_carry
    consts_u, carry_u, xs_u = split_list(unknown, [num_consts, num_carry])
    while True:
        known, rest, out_unknown, residual_avals = partial_eval_jaxpr(
            jaxpr, consts_u + carry_u + xs_u, carry_u + [False] * num_ys
        )
        if out_unknown[:num_carry] == carry_u:
            break
        carry_u = either(carry_u, out_unknown[:num_carry])
    num_residuals = len(residual_avals)
    groups = split_list(args, [num_consts, num_carry])
    (known_consts, consts), (known_init, init), (known_xs, xs) = (
        partition_list(u, group) for u, group in zip((consts_u, carry_u, xs_u), groups)
    )
    loop = _run_known(primitive, known, known_consts, known_init, known_xs, num_residuals, params)
    invariant = [i for i in range(num_residuals) if i in loop.invariant]
    varying = [i for i in range(num_residuals) if i not in loop.invariant]
    given = range(num_residuals, num_residuals + len(consts) + len(init) + len(xs))
    left = dict(
        params,
        jaxpr=rearrange(rest, [*invariant, *given, *varying]),
        num_consts=len(invariant) + len(consts),
        num_carry=len(init),
    )
    hoisted = [loop.invariant[i] for i in invariant]
    scanned = [loop.varying[i] for i in varying]
    operands = [*hoisted, *consts, *init, *xs, *scanned]
    return SplitScan(loop.outs, out_unknown, operands, left)


class _KnownLoop(Record):
    """Results of the known part, and its residuals by their number."""

    outs: list[Any]
    invariant: dict[int, Any]
    varying: dict[int, Any]


def _run_known(
    primitive: Scan,
    known: ClosedJaxpr,
    consts: list[Any],
    init: list[Any],
    xs: list[Any],
    num_residuals: int,
    params: dict[str, Any],
) -> _KnownLoop:
    num_outs = len(known.out_avals) - num_residuals
    loop, loop_consts, invariant = _hoist(known, consts, num_outs)
    moving = [i for i in range(num_residuals) if i not in invariant]
    first_x = len(loop_consts) + len(init)
    sources = forwarded_inputs(loop.jaxpr)[num_outs:]
    passed = [s is not None and s >= first_x for s in sources]
    body = keep_outputs(loop, [True] * num_outs + [not p for p in passed])
    outs: list[Any] = []
    if body.out_avals or body.effects:
        left = dict(params, jaxpr=body, num_consts=len(loop_consts), num_carry=len(init))
        outs = primitive.bind(*loop_consts, *init, *xs, **left)
    computed = iter(outs[num_outs:])
    varying = {
        i: xs[s - first_x] if p and s is not None else next(computed)
        for i, s, p in zip(moving, sources, passed, strict=True)
    }
    return _KnownLoop(list(outs[:num_outs]), invariant, varying)


def _hoist(
    known: ClosedJaxpr, consts: list[Any], num_outs: int
) -> tuple[ClosedJaxpr, list[Any], dict[int, Any]]:
    """Compute once what is the same in every step.

    Returns the body that is left, its constants, and the residuals that do not vary, which it no
    longer returns, by their number.
    """
    count = len(consts)
    num_residuals = len(known.out_avals) - num_outs
    if observable(known.effects):
        # effects happen in every step, so equations stay where they are
        sources = forwarded_inputs(known.jaxpr)[num_outs:]
        fixed = {i: consts[s] for i, s in enumerate(sources) if s is not None and s < count}
        keep = [True] * num_outs + [i not in fixed for i in range(num_residuals)]
        return keep_outputs(known, keep), consts, fixed
    varies = [False] * count + [True] * (len(known.in_avals) - count)
    once, loop, out_varies, _ = partial_eval_jaxpr(
        known, varies, [True] * num_outs + [False] * num_residuals
    )
    values = eval_jaxpr(once.jaxpr, once.consts, *consts)
    still = [i for i, v in enumerate(out_varies[num_outs:]) if not v]
    return loop, values[len(still) :], dict(zip(still, values[: len(still)], strict=True))


# --- transposition --------------------------------------------------------------------------------


def linear_carry(
    jaxpr: ClosedJaxpr, linear: Sequence[bool], num_consts: int, num_carry: int
) -> list[bool]:
    """Which parts of the carry depend on linear operands."""
    consts, carry, xs = split_list(linear, [num_consts, num_carry])
    while True:
        marked = consts + carry + xs
        depends: set[Any] = {v for v, m in zip(jaxpr.jaxpr.invars, marked, strict=True) if m}
        for eqn in jaxpr.eqns:
            if any(x in depends for x in eqn.invars):
                depends.update(eqn.outvars)
        after = either(carry, [v in depends for v in jaxpr.jaxpr.outvars[:num_carry]])
        if after == carry:
            return carry
        carry = after


scan_p = Scan()
