"""The ``jit`` primitive: a staged function, called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.base import knobs, source
from weft.base.functional import merge_lists, partition_list, split_list
from weft.base.lazy import Late
from weft.base.record import Record
from weft.core.ad import UndefPrimal, Zero, instantiate, is_undef
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, mapped_from
from weft.core.caches import per_program
from weft.core.effects import observable
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.sharding import UNSPECIFIED
from weft.core.staging import stage
from weft.core.trace import state
from weft.transforms.dce import dce_closed

if TYPE_CHECKING:
    from weft.transforms.masks import Live, Masked

Flags = Sequence[bool]

# loaded when a staged function is transformed
initial_style = Late("weft.control.initial_style")
forward = Late("weft.transforms.jvp")
partial = Late("weft.transforms.partial_eval")
transposing = Late("weft.transforms.transpose")
batching = Late("weft.transforms.vmap")
wheres = Late("weft.transforms.masks")
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

    name, exact, keeps_callee = "jit", True, True
    masks = "call"
    takes_refs = True

    def compacts(self, params: dict[str, Any]) -> bool:
        return mapped_from.get(params["jaxpr"], None) is not None

    def one_size(self, params: dict[str, Any]) -> bool:
        return self.compacts(params)

    def ordered(self, params: dict[str, Any], judge: Any) -> dict[str, Any] | None:
        found = mapped_from.get(params["jaxpr"], None)
        if found is None or not any(found.shared):
            return None
        closed = found.without_copies(params["jaxpr"].in_avals)
        mapped_from.set(closed, None, found)
        return params | {"jaxpr": closed}

    def compacted(self, params: dict[str, Any], judge: Any) -> ClosedJaxpr | None:
        closed = params["jaxpr"]
        index, *ops = closed.in_avals
        found = mapped_from.get(closed, None)
        return None if found is None else found.ladder(index, ops, judge)

    def stage(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        if params["inline"]:
            closed = params["jaxpr"]
            return eval_jaxpr(_called_here(closed.jaxpr), closed.consts, *args)
        return trace.emit(self, args, params)

    def jvp(self, primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, **params: Any) -> Any:
        nonzeros = [type(t) is not Zero for t in tangents]
        closed, out_nonzeros = forward.jvp_jaxpr(jaxpr, nonzeros, False)
        given = [t for t in tangents if type(t) is not Zero]
        donated = params["donated_invars"]
        donated = (*donated, *(d for d, nz in zip(donated, nonzeros, strict=True) if nz))
        outs = self.bind(*primals, *given, **jit_params(closed, params, donated))
        count = len(out_nonzeros)
        return outs[:count], initial_style.tangents_of(outs[:count], out_nonzeros, outs[count:])

    def transpose(self, cts: Any, *args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        call = transposed_call(jaxpr, cts, args)
        outs = self.bind(*call.known, *call.given, **jit_params(call.program, params))
        return call.cotangents(args, outs)

    def batch(self, axis: AxisData, args: Any, dims: Any, *, jaxpr: ClosedJaxpr, **params: Any):
        in_batched = [d is not None for d in dims]
        closed, out_batched = batching.batch_jaxpr(jaxpr, axis, in_batched, False)
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
        known, rest, out_unknown, _ = partial.partial_eval_jaxpr(jaxpr, unknown, False)
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


def _called_here(jaxpr: Jaxpr) -> Jaxpr:
    """A program of weft's own at the line that calls it now."""
    if not any(eqn.source_info is not None and eqn.source_info.of_caller for eqn in jaxpr.eqns):
        return jaxpr
    here = state.source or source.current()
    lines = [eqn.source_info and eqn.source_info.called_from(here) for eqn in jaxpr.eqns]
    eqns = [x.replace(source_info=line) for x, line in zip(jaxpr.eqns, lines, strict=True)]
    return jaxpr.replace(eqns=eqns)


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
    closed: ClosedJaxpr,
    linear: Flags,
    nonzero: Flags,
    instantiated: Flags | bool = False,
    given: Sequence[Any] = (),
) -> tuple[ClosedJaxpr, list[bool]]:
    """The transposed program: known inputs and nonzero cotangents to cotangents of the linear.

    Says also which linear inputs have a cotangent; those marked in ``instantiated`` have one. Masks
    that are ``given`` (see ``Masks``) are its last inputs.
    """
    if isinstance(instantiated, bool):
        instantiated = [instantiated] * sum(linear)
    safe = knobs.thread.safe_where_gradients
    masks = Masks(safe, tuple(given) or (None,) * len(nonzero), (False,) * len(linear))
    return _transposed(closed, tuple(linear), tuple(nonzero), tuple(instantiated), masks)[:2]


class Masks(Record):
    """The masks of cotangents at a call.

    ``safe`` is the knob that makes them. ``given`` has, for each result, what programs say of its
    cotangent's mask (see ``masks_given``); ``kept`` says which inputs' cotangents may have one.
    """

    safe: bool
    given: tuple[Any, ...]
    kept: tuple[bool, ...]


def masks_given(cts: Any) -> tuple[Any, ...]:
    """What programs say of the masks of cotangents: the shape, whether the cotangent is dirty, the
    shape and the axes of its rows, None without, and whether the mask is a repaired gradient's;
    None for a cotangent without a mask."""
    return tuple([_mask_type(ct) if type(ct) is wheres.Masked else None for ct in cts])


def _mask_type(ct: Masked) -> tuple[Any, ...]:
    live, rows = ct.live, ct.live.rows
    kind = None if rows is None else (rows[0].shape, rows[1])
    return live.shape, ct.dirty, kind, live.repaired


def mask_values(cts: Any) -> list[Live]:
    """The masks of cotangents in the order in which programs have them: first all, then rows."""
    lives = [ct.live for ct in cts if type(ct) is wheres.Masked]
    return [*lives, *(live.rows[0] for live in lives if live.rows is not None)]


def mask_shapes(given: Sequence[Any]) -> list[tuple[int, ...]]:
    """The shapes of these masks."""
    masks = [mask for mask in given if mask is not None]
    return [*(mask[0] for mask in masks), *(mask[2][0] for mask in masks if mask[2] is not None)]


def with_masks(cts: Sequence[Any], given: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Cotangents with their masks."""
    count = sum(mask is not None for mask in given)
    lives, rows = iter(values[:count]), iter(values[count:])

    def masked(ct: Any, mask: Any) -> Masked:
        shape, dirty, kind, repaired = mask
        found = None if kind is None else (_known(kind[0], next(rows)), kind[1])
        return wheres.Masked(ct, _known(shape, next(lives), found, repaired), dirty)

    return [ct if mask is None else masked(ct, mask) for ct, mask in zip(cts, given, strict=True)]


class Transposed(Record):
    """A transposed program: known inputs, cotangents and masks to cotangents and masks.

    ``wanted`` says which linear inputs have a cotangent, ``read`` which of the given masks are
    inputs, and ``masks`` has, for each cotangent returned, what ``masks_given`` says of it.
    """

    program: ClosedJaxpr
    wanted: list[bool]
    read: list[bool]
    masks: list[Any]


class TransposedCall(Record):
    """A call of a transposed program: ``known`` operands, and cotangents with their masks."""

    transposed: Transposed
    known: list[Any]
    given: list[Any]

    @property
    def program(self) -> ClosedJaxpr:
        return self.transposed.program

    def cotangents(self, args: Any, outs: Any) -> list[Any]:
        """Cotangents of the call's operands, with their masks, of the program's results."""
        masks = self.transposed.masks
        found = with_masks(outs[: len(masks)], masks, outs[len(masks) :])
        return initial_style.cotangents_of(args, self.transposed.wanted, found)


def transposed_call(closed: ClosedJaxpr, cts: Any, args: Any) -> TransposedCall:
    """The transposed call of a program; masks of cotangents go in and come out."""
    linear = tuple(is_undef(x) for x in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    kept = tuple(is_undef(x) and x.masked for x in args)
    masks = Masks(knobs.thread.safe_where_gradients, masks_given(cts), kept)
    found = _transposed_read(closed, linear, nonzero, (False,) * sum(linear), masks)
    values = [ct.value if type(ct) is wheres.Masked else ct for ct in cts if type(ct) is not Zero]
    lives = [m.value() for m, read in zip(mask_values(cts), found.read, strict=True) if read]
    return TransposedCall(found, [x for x in args if not is_undef(x)], [*values, *lives])


def _known(shape: tuple[int, ...], value: Any, rows: Any = None, repaired: bool = False) -> Live:
    return wheres.Live(shape, lambda: value, rows, repaired)


@per_program
def _transposed_read(closed: ClosedJaxpr, *form: Any) -> Transposed:
    program, wanted, returned = _transposed(closed, *form)
    count = len(mask_shapes(form[-1].given))
    program, read = _without_unread(program, count)
    return Transposed(program, wanted, read, returned)


@per_program
def _transposed(
    closed: ClosedJaxpr,
    linear: tuple[bool, ...],
    nonzero: tuple[bool, ...],
    instantiated: tuple[bool, ...],
    masks: Masks,
) -> tuple[ClosedJaxpr, list[bool], list[Any]]:
    wanted: list[bool] = []
    returned: list[Any] = []
    known_avals, _ = partition_list(linear, closed.in_avals)
    ct_avals = [
        a.to_cotangent_aval() for a, nz in zip(closed.out_avals, nonzero, strict=True) if nz
    ]
    mask_avals = [ShapedArray(shape, np.dtype(np.bool_)) for shape in mask_shapes(masks.given)]
    sizes = [len(known_avals), len(ct_avals)]

    def backward(*args: Any) -> list[Any]:
        parts = split_list(args, sizes)
        known, given = map(iter, parts[:2])
        primals = [
            UndefPrimal(a, kept) if lin else next(known)
            for a, lin, kept in zip(closed.in_avals, linear, masks.kept, strict=True)
        ]
        cts = [
            next(given) if nz else Zero(a.to_cotangent_aval())
            for a, nz in zip(closed.out_avals, nonzero, strict=True)
        ]
        cts = with_masks(cts, masks.given, parts[2])
        outs = transposing.backward_pass(closed.jaxpr, closed.consts, primals, cts)
        found = [ct for ct, lin in zip(outs, linear, strict=True) if lin]
        wanted.extend(
            inst or type(ct) is not Zero for ct, inst in zip(found, instantiated, strict=True)
        )
        found = [instantiate(ct) for ct, w in zip(found, wanted, strict=True) if w]
        returned.extend(masks_given(found))
        values = [ct.value if type(ct) is wheres.Masked else ct for ct in found]
        return [*values, *(live.value() for live in mask_values(found))]

    staged = stage(backward, [*known_avals, *ct_avals, *mask_avals], closed.debug_info)
    return staged, wanted, returned


def _without_unread(closed: ClosedJaxpr, count: int) -> tuple[ClosedJaxpr, list[bool]]:
    """A program without those of its last ``count`` inputs that it does not read."""
    if not count:
        return closed, []
    jaxpr = closed.jaxpr
    read = {x for eqn in jaxpr.eqns for x in eqn.invars if type(x) is not Literal}
    read |= {x for x in jaxpr.outvars if type(x) is not Literal}
    first, last = jaxpr.invars[:-count], jaxpr.invars[-count:]
    kept = [v in read for v in last]
    smaller = jaxpr.replace(invars=[*first, *(v for v in last if v in read)])
    return ClosedJaxpr(smaller, closed.consts), kept


jit_p = Jit()
