"""Transposition of scans: a scan in the other direction, over cotangents and their masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.base.functional import partition_list, split_list
from weft.base.record import Record
from weft.core.ad import UndefPrimal, Zero, filled, instantiate, is_undef, zeros
from weft.core.avals import ShapedArray
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.prims.families import broadcast_to
from weft.transforms.dce import dce_closed
from weft.transforms.masks import Live, Masked, Rows
from weft.transforms.transpose import backward_pass

_BOOL = np.dtype(np.bool_)


class _Mask(Record):
    """What a body knows of the mask of a cotangent: whether the cotangent is dirty, whether the
    mask is a repaired gradient's, and the shape and the axes of its rows in one iteration."""

    dirty: bool
    repaired: bool
    rows: tuple[tuple[int, ...], tuple[int, ...]] | None = None


class _Form(Record):
    """What the body of a transposed scan depends on, beside the body of the scan.

    ``safe`` is the knob that makes masks.
    ``carry_masks`` and ``ys_masks`` have None for a cotangent without a mask. ``kept`` says which
    operands' cotangents may have a mask.
    """

    safe: bool
    linear: tuple[bool, ...]
    num_consts: int
    num_carry: int
    ys_nonzero: tuple[bool, ...]
    carry_masks: tuple[_Mask | None, ...]
    ys_masks: tuple[_Mask | None, ...]
    kept: tuple[bool, ...]


class _Body(Record):
    """A transposed body.

    [known consts | sums, carry cts, carry masks | ys cts, ys masks, known xs]
    -> [sums, carry cts, carry masks | xs cts, xs masks].

    ``carry_masks`` and ``ys_masks`` say which of the given masks it takes; ``xs_masks`` has None
    for a cotangent without a mask. ``dirty`` says whether the carry's cotangents with a mask are.
    """

    program: ClosedJaxpr
    dirty: list[bool]
    carry_masks: list[bool]
    ys_masks: list[bool]
    xs_masks: list[Any]


def transpose_linear(
    primitive: Any, cts: Sequence[Any], args: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    """Transpose a scan whose carry is all linear, by a scan in the other direction.

    The cotangents of linear constants are summed up in its carry.
    """
    jaxpr, num_consts, num_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
    if any(type(ct) is Masked for ct in cts):
        # a carry without a cotangent is live nowhere, until a step makes it so
        cts = [*map(_nowhere_live, cts[:num_carry]), *cts[num_carry:]]
    form = _form_of(cts, args, num_consts, num_carry)
    linear = form.linear
    body = _transposed_body(jaxpr, form)
    consts_lin, _, xs_lin = split_list(linear, [num_consts, num_carry])
    known_consts, consts = partition_list(consts_lin, args[:num_consts])
    known_xs, _ = partition_list(xs_lin, args[num_consts + num_carry :])
    carry, ys = cts[:num_carry], [ct for ct in cts[num_carry:] if type(ct) is not Zero]
    carry_masks = _chosen(list(map(_whole, filter(_is_masked, carry))), body.carry_masks)
    outs = primitive.bind(
        *known_consts,
        *(zeros(x.aval.to_cotangent_aval()) for x in consts),
        *(instantiate(_plain(ct)) for ct in carry),
        *carry_masks,
        *map(_plain, ys),
        *_chosen(_y_masks(ys), body.ys_masks),
        *known_xs,
        jaxpr=body.program,
        length=params["length"],
        reverse=not params["reverse"],
        num_consts=len(known_consts),
        num_carry=len(consts) + num_carry + len(carry_masks),
        unroll=params["unroll"],
    )
    sizes = [len(consts), num_carry, len(carry_masks), len(body.xs_masks)]
    sums, carry_cts, after, xs_cts, xs_lives = split_list(outs, sizes)
    lives, taken = iter(after), iter(zip(body.carry_masks, body.dirty, strict=True))
    first = []
    for old, ct in zip(carry, carry_cts, strict=True):
        has, dirty = next(taken) if type(old) is Masked else (False, False)
        if has:
            ct = Masked(ct, _known(next(lives), None, old.live.repaired), dirty)
        first.append(ct)
    xs = _masked(xs_cts, list(map(_stacked, body.xs_masks)), xs_lives)
    found = iter([*sums, *first, *xs])
    result = [next(found) if lin else None for lin in linear]
    return [ct if is_undef(x) else None for ct, x in zip(result, args, strict=True)]


def _form_of(cts: Sequence[Any], args: Sequence[Any], num_consts: int, num_carry: int) -> _Form:
    linear = [is_undef(x) for x in args]
    linear[num_consts : num_consts + num_carry] = [True] * num_carry
    ys = cts[num_carry:]
    return _Form(
        knobs.thread.safe_where_gradients,
        tuple(linear),
        num_consts,
        num_carry,
        tuple(type(ct) is not Zero for ct in ys),
        tuple(
            _Mask(ct.dirty, ct.live.repaired) if type(ct) is Masked else None
            for ct in cts[:num_carry]
        ),
        tuple(_inside(ct) if type(ct) is Masked else None for ct in ys),
        tuple(is_undef(x) and x.masked for x in args),
    )


def _mask_of(ct: Masked) -> _Mask:
    rows = ct.live.rows
    return _Mask(
        ct.dirty, ct.live.repaired, None if rows is None else (tuple(rows[0].shape), rows[1])
    )


def _inside(ct: Masked) -> _Mask:
    """A stacked cotangent's mask in one iteration."""
    rows = _rows_inside(ct)
    kind = None if rows is None else (rows[0].shape[1:], tuple([a - 1 for a in rows[1][1:]]))
    return _Mask(ct.dirty, ct.live.repaired, kind)


def _stacked(mask: _Mask | None) -> _Mask | None:
    """A mask of one iteration as that of all."""
    if mask is None or mask.rows is None:
        return mask
    return mask._replace(rows=(mask.rows[0], (0, *[a + 1 for a in mask.rows[1]])))


def _rows_inside(ct: Masked) -> Rows | None:
    """The rows of a stacked cotangent's mask, if they tell iterations apart."""
    rows = ct.live.rows
    return rows if rows is not None and rows[1][:1] == (0,) else None


def _nowhere_live(ct: Any) -> Any:
    aval: Any = ct.aval if type(ct) is Zero else None
    if aval is None or not dtypes.issubdtype(aval.dtype, np.inexact):
        return ct
    return Masked(zeros(aval), Live((), lambda: np.bool_(False)), False)


def _plain(ct: Any) -> Any:
    return ct.value if type(ct) is Masked else ct


def _known(value: Any, rows: Rows | None = None, repaired: bool = False) -> Live:
    return Live(np.shape(value), lambda: value, rows, repaired)


def _is_masked(ct: Any) -> bool:
    return type(ct) is Masked


def _chosen(masks: Sequence[Any], taken: Sequence[bool]) -> list[Any]:
    """The masks that a body takes."""
    return [mask for mask, t in zip(masks, taken, strict=True) if t]


def _y_masks(ys: Sequence[Any]) -> list[Any]:
    """The masks of stacked cotangents, each of its cotangent's shape, then their rows."""
    masked = [ct for ct in ys if type(ct) is Masked]
    rows = [_rows_inside(ct) for ct in masked]
    return [*map(_whole, masked), *(found[0].value() for found in rows if found is not None)]


def _whole(ct: Masked) -> Any:
    return broadcast_to(ct.live.value(), typeof(ct.value).shape)


@per_program
def _transposed_body(jaxpr: ClosedJaxpr, form: _Form) -> _Body:
    num_consts, num_carry = form.num_consts, form.num_carry
    in_avals, out_avals = jaxpr.in_avals, jaxpr.out_avals
    consts_lin, _, xs_lin = split_list(form.linear, [num_consts, num_carry])
    known_consts, consts = partition_list(consts_lin, in_avals[:num_consts])
    known_xs, _ = partition_list(xs_lin, in_avals[num_consts + num_carry :])
    carry_avals, y_avals = split_list([a.to_cotangent_aval() for a in out_avals], [num_carry])
    y_given = [a for a, nz in zip(y_avals, form.ys_nonzero, strict=True) if nz]
    carry_mask_avals = _mask_avals(carry_avals, form.carry_masks)
    y_mask_avals = _mask_avals(y_avals, form.ys_masks)
    # A linear constant is also made an output: its cotangent there is the sum so far, to which
    # the backward pass adds in the order in which cotangents arise.
    _, const_vars = partition_list(consts_lin, jaxpr.jaxpr.invars[:num_consts])
    summing = jaxpr.jaxpr.replace(outvars=[*jaxpr.jaxpr.outvars, *const_vars])
    sizes = [len(known_consts), len(consts), num_carry, len(carry_mask_avals)]
    sizes += [len(y_given), len(y_mask_avals)]
    xs_masks: list[Any] = []
    dirty: list[bool] = []

    def backward(*args: Any) -> list[Any]:
        const_values, sums, carry_cts, lives, given, y_lives, x_values = split_list(args, sizes)
        known = iter(const_values + x_values)
        primals = [
            UndefPrimal(a, _may_keep(form, i)) if lin else next(known)
            for i, (a, lin) in enumerate(zip(in_avals, form.linear, strict=True))
        ]
        ys = iter(given)
        ys_cts = [
            next(ys) if nz else Zero(a) for a, nz in zip(y_avals, form.ys_nonzero, strict=True)
        ]
        carry = _masked(carry_cts, form.carry_masks, lives)
        cts = [*carry, *_masked(ys_cts, form.ys_masks, y_lives), *sums]
        outs = backward_pass(summing, jaxpr.consts, primals, cts)
        found = [instantiate(ct) for ct, lin in zip(outs, form.linear, strict=True) if lin]
        sums, carry_cts, xs_cts = split_list(found, [len(consts), num_carry])
        after = [
            _whole(ct) if type(ct) is Masked else filled(True, ShapedArray(a.shape, _BOOL))
            for ct, a, m in zip(carry_cts, carry_avals, form.carry_masks, strict=True)
            if m is not None
        ]
        dirty.extend(type(ct) is Masked and ct.dirty for ct in carry_cts)
        xs_masks.extend(_mask_of(ct) if type(ct) is Masked else None for ct in xs_cts)
        xs_rows = [ct.live.rows for ct in xs_cts if type(ct) is Masked]
        xs_lives = [_whole(ct) for ct in xs_cts if type(ct) is Masked]
        xs_lives += [rows[0].value() for rows in xs_rows if rows is not None]
        return [*sums, *map(_plain, carry_cts), *after, *map(_plain, xs_cts), *xs_lives]

    avals = [
        *known_consts,
        *(a.to_cotangent_aval() for a in consts),
        *carry_avals,
        *carry_mask_avals,
        *y_given,
        *y_mask_avals,
        *known_xs,
    ]
    staged = stage(backward, avals, jaxpr.debug_info)
    if not carry_mask_avals and not y_mask_avals:
        return _Body(staged, [], [], [], xs_masks)
    after = [
        None if m is None else m._replace(dirty=m.dirty or d)
        for m, d in zip(form.carry_masks, dirty, strict=True)
    ]
    if after != list(form.carry_masks):  # a step makes a carry dirty: so it is before the next one
        return _transposed_body(jaxpr, form._replace(carry_masks=tuple(after)))
    _, carry_kept, _ = split_list(form.kept, [num_consts, num_carry])
    wanted = [k or m.dirty for k, m in zip(carry_kept, after, strict=True) if m is not None]
    left = [m.dirty for m in after if m is not None]
    return _without_unread(staged, sizes, wanted, left, xs_masks)


def _may_keep(form: _Form, i: int) -> bool:
    """Whether the body's cotangent of operand ``i`` may have a mask."""
    first = form.num_consts
    if first <= i < first + form.num_carry:
        return form.carry_masks[i - first] is not None
    return i >= first and form.kept[i]


def _mask_avals(avals: Sequence[Any], masks: Sequence[Any]) -> list[Any]:
    pairs = zip(avals, masks, strict=True)
    shapes = [a.shape for a, m in pairs if m is not None]
    shapes += [m.rows[0] for m in masks if m is not None and m.rows is not None]
    return [ShapedArray(shape, _BOOL) for shape in shapes]


def _masked(cts: Sequence[Any], masks: Sequence[Any], lives: Sequence[Any]) -> list[Any]:
    count = sum(mask is not None for mask in masks)
    given, rows = iter(lives[:count]), iter(lives[count:])

    def masked(ct: Any, mask: _Mask) -> Masked:
        found = None if mask.rows is None else (_known(next(rows)), mask.rows[1])
        return Masked(ct, _known(next(given), found, mask.repaired), mask.dirty)

    return [ct if m is None else masked(ct, m) for ct, m in zip(cts, masks, strict=True)]


def _without_unread(
    closed: ClosedJaxpr,
    sizes: Sequence[int],
    wanted: Sequence[bool],
    dirty: list[bool],
    xs_masks: list[Any],
) -> _Body:
    """A body without the masks that no cotangent depends on."""
    n_known, n_sums, n_carry, n_masks, n_ys, n_y_masks = sizes
    carried, n_outs = n_sums + n_carry, len(closed.out_avals)
    at = n_known + carried
    kept = list(wanted)
    while True:
        used = [True] * carried + kept + [True] * (n_outs - carried - n_masks)
        _, read = dce_closed(closed, used)
        if read[at : at + n_masks] == kept:
            break
        more = [a or b for a, b in zip(kept, read[at : at + n_masks], strict=True)]
        if more == kept:
            break
        kept = more
    first_y = at + n_masks + n_ys
    ys_read = read[first_y : first_y + n_y_masks]
    given = [True] * at + kept + [True] * n_ys + ys_read
    given += [True] * (len(read) - len(given))
    smaller, _ = dce_closed(closed, used, given)
    return _Body(smaller, dirty, kept, ys_read, xs_masks)
