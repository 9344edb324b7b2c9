"""The ``jit`` primitive: a staged function, called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base.functional import merge_lists, partition_list
from weft.base.lazy import Late
from weft.core.ad import UndefPrimal, Zero, instantiate, is_undef
from weft.core.batching import AxisData, mapped_from
from weft.core.caches import per_program
from weft.core.effects import observable
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr, DropVar, JaxprEqn, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.sharding import UNSPECIFIED
from weft.core.staging import stage
from weft.transforms.dce import dce_closed
from weft.transforms.jvp import jvp_jaxpr
from weft.transforms.partial_eval import partial_eval_jaxpr
from weft.transforms.transpose import backward_pass
from weft.transforms.vmap import batch_jaxpr

Flags = Sequence[bool]

# loaded when a staged function is transformed
initial_style = Late("weft.control.initial_style")
# needed with mutable references only
without_refs = Late("weft.transforms.discharge")


@per_program
def numpy_consts(closed: ClosedJaxpr) -> list[Any]:
    """The constants of a program as NumPy arrays."""
    return [
        getattr(c, "_value", None) if hasattr(c, "_value") else np.asarray(c, v.aval.dtype)
        for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)
    ]


def jit_params(closed: ClosedJaxpr, params: dict[str, Any], donated: Any = None) -> dict[str, Any]:
    """Parameters of a ``jit`` equation for another program made of the same function."""
    n_in, n_out = len(closed.in_avals), len(closed.out_avals)
    return dict(
        params,
        jaxpr=closed,
        in_shardings=(UNSPECIFIED,) * n_in,
        out_shardings=(UNSPECIFIED,) * n_out,
        in_layouts=(None,) * n_in,
        out_layouts=(None,) * n_out,
        donated_invars=(False,) * n_in if donated is None else tuple(donated),
    )


def jit_parameters(closed: ClosedJaxpr, name: str) -> dict[str, Any]:
    """Parameters of a ``jit`` equation that calls a program, with nothing special about it."""
    n_in, n_out = len(closed.in_avals), len(closed.out_avals)
    return {
        "jaxpr": closed,
        "in_shardings": (UNSPECIFIED,) * n_in,
        "out_shardings": (UNSPECIFIED,) * n_out,
        "in_layouts": (None,) * n_in,
        "out_layouts": (None,) * n_out,
        "donated_invars": (False,) * n_in,
        "ctx_mesh": None,
        "name": name,
        "keep_unused": False,
        "inline": False,
        "compiler_options_kvs": (),
    }


class Called(Primitive):
    """A program that is its parameter ``jaxpr``."""

    multiple_results = True

    def shape(self, *avals: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return jaxpr.out_avals

    def eqn_effects(self, avals: Any, params: Any) -> Any:
        return params["jaxpr"].effects

    def callee(self, params: dict[str, Any]) -> ClosedJaxpr:
        return params["jaxpr"]

    @staticmethod
    def ref(*args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return run(jaxpr.jaxpr, numpy_consts(jaxpr), args)


class Jit(Called):
    """A call of a staged function."""

    name, exact = "jit", True
    takes_refs = True

    def compacts(self, params: dict[str, Any]) -> bool:
        return mapped_from.get(params["jaxpr"], None) is not None

    def one_size(self, params: dict[str, Any]) -> bool:
        return self.compacts(params)

    def compacted(self, params: dict[str, Any], judge: Any) -> ClosedJaxpr | None:
        closed = params["jaxpr"]
        index, *ops = closed.in_avals
        found = mapped_from.get(closed, None)
        return None if found is None else found.ladder(index, ops, judge)

    def stage(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        if params["inline"]:
            closed = params["jaxpr"]
            return eval_jaxpr(closed.jaxpr, closed.consts, *args)
        return trace.emit(self, args, params)

    def jvp(self, primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, **params: Any) -> Any:
        nonzeros = [type(t) is not Zero for t in tangents]
        closed, out_nonzeros = jvp_jaxpr(jaxpr, nonzeros, False)
        given = [t for t in tangents if type(t) is not Zero]
        donated = params["donated_invars"]
        donated = (*donated, *(d for d, nz in zip(donated, nonzeros, strict=True) if nz))
        outs = self.bind(*primals, *given, **jit_params(closed, params, donated))
        count = len(out_nonzeros)
        return outs[:count], initial_style.tangents_of(outs[:count], out_nonzeros, outs[count:])

    def transpose(self, cts: Any, *args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        linear = [is_undef(x) for x in args]
        known = [x for x in args if not is_undef(x)]
        nonzero = [type(ct) is not Zero for ct in cts]
        given = [ct for ct in cts if type(ct) is not Zero]
        closed, out_nonzero = transpose_jaxpr(jaxpr, linear, nonzero)
        outs = self.bind(*known, *given, **jit_params(closed, params))
        return initial_style.cotangents_of(args, out_nonzero, outs)

    def batch(self, axis: AxisData, args: Any, dims: Any, *, jaxpr: ClosedJaxpr, **params: Any):
        in_batched = [d is not None for d in dims]
        closed, out_batched = batch_jaxpr(jaxpr, axis, in_batched, False)
        moved = initial_style.mapped_at_front(args, dims)
        outs = self.bind(*moved, **jit_params(closed, params, params["donated_invars"]))
        return outs, [0 if b else None for b in out_batched]

    def axis_names(self, params: Any) -> Any:
        return used_axis_names(params["jaxpr"].jaxpr)

    def discharge(self, *args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        pure, written = without_refs.discharge_closed(jaxpr)
        kept = zip(params["donated_invars"], jaxpr.in_avals, strict=True)
        donated = [d and not a.is_ref for d, a in kept]
        outs = self.bind(*without_refs.values_of(args), **jit_params(pure, params, donated))
        return without_refs.store(args, written, outs)

    def partial_eval(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        unknown = [trace.is_unknown(x) for x in args]
        jaxpr = params["jaxpr"]
        known, rest, out_unknown, _ = partial_eval_jaxpr(jaxpr, unknown, False)
        known_args, unknown_args = partition_list(unknown, args)
        n_known_out = len(out_unknown) - sum(out_unknown)
        known_outs = self.bind(*known_args, **jit_params(known, params))
        known_vals, residuals = known_outs[:n_known_out], known_outs[n_known_out:]
        residuals = forward_residuals(known, n_known_out, known_args, known_vals, residuals)
        unknown_outs = trace.emit(self, [*residuals, *unknown_args], jit_params(rest, params))
        return merge_lists(out_unknown, known_vals, unknown_outs)

    def dce(self, used: list[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        closed = eqn.params["jaxpr"]
        if not any(used) and not observable(eqn.effects):
            return None
        smaller, used_in = dce_closed(closed, used)
        params = jit_params(
            smaller,
            eqn.params,
            [d for d, u in zip(eqn.params["donated_invars"], used_in, strict=True) if u],
        )
        return eqn.replace(
            invars=[x for x, u in zip(eqn.invars, used_in, strict=True) if u],
            outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
            params=params,
            effects=smaller.effects,
        )


def forward_residuals(
    known: ClosedJaxpr, n_out: int, args: Any, outs: Any, residuals: Any
) -> list[Any]:
    """Residuals that are inputs, results or constants of the known program, as those values."""
    jaxpr = known.jaxpr
    place = {
        v: x for v, x in zip(jaxpr.outvars[:n_out], outs, strict=True) if type(v) is not DropVar
    }
    place.update(zip(jaxpr.invars, args, strict=True))
    place.update(zip(jaxpr.constvars, known.consts, strict=True))
    return [place.get(v, r) for v, r in zip(jaxpr.outvars[n_out:], residuals, strict=True)]


@per_program
def used_axis_names(jaxpr: Any) -> frozenset[Any]:
    """The names of mapped axes that a program speaks to."""
    speaking = [eqn for eqn in jaxpr.eqns if eqn.primitive.axis_names is not None]
    return frozenset().union(*[eqn.primitive.axis_names(eqn.params) for eqn in speaking])


def transpose_jaxpr(
    closed: ClosedJaxpr, linear: Flags, nonzero: Flags, instantiated: Flags | bool = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """The transposed program: known inputs and nonzero cotangents to cotangents of the linear.

    Says also which linear inputs have a cotangent; those marked in ``instantiated`` have one.
    """
    if isinstance(instantiated, bool):
        instantiated = [instantiated] * sum(linear)
    return _transposed(closed, tuple(linear), tuple(nonzero), tuple(instantiated))


@per_program
def _transposed(
    closed: ClosedJaxpr,
    linear: tuple[bool, ...],
    nonzero: tuple[bool, ...],
    instantiated: tuple[bool, ...],
) -> tuple[ClosedJaxpr, list[bool]]:
    wanted: list[bool] = []
    known_avals, _ = partition_list(linear, closed.in_avals)
    ct_avals = [
        a.to_cotangent_aval() for a, nz in zip(closed.out_avals, nonzero, strict=True) if nz
    ]

    def backward(*args: Any) -> list[Any]:
        known = iter(args[: len(known_avals)])
        given = iter(args[len(known_avals) :])
        primals = [
            UndefPrimal(a) if lin else next(known)
            for a, lin in zip(closed.in_avals, linear, strict=True)
        ]
        cts = [
            next(given) if nz else Zero(a.to_cotangent_aval())
            for a, nz in zip(closed.out_avals, nonzero, strict=True)
        ]
        outs = backward_pass(closed.jaxpr, closed.consts, primals, cts)
        found = [ct for ct, lin in zip(outs, linear, strict=True) if lin]
        wanted.extend(
            inst or type(ct) is not Zero for ct, inst in zip(found, instantiated, strict=True)
        )
        return [instantiate(ct) for ct, w in zip(found, wanted, strict=True) if w]

    return stage(backward, [*known_avals, *ct_avals], closed.debug_info), wanted


jit_p = Jit()
