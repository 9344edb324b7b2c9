"""Reading and updating parts of arrays with NumPy's indices: ``x[...]`` and what ``x.at[...]``
stands on. Plans come from ``index_plan``; this file carries them out."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.placement import resharded
from weft.base import errors, knobs
from weft.base.source import warn
from weft.core.ad import filled
from weft.core.array import Array
from weft.core.trace import Tracer, is_tracing, typeof
from weft.numpy.index_plan import (
    DynamicPlan,
    GatherPlan,
    Shape,
    StaticPlan,
    check_static_bounds,
    chosen,
    parse,
    plan_dynamic,
    plan_gather,
    plan_rows,
    plan_static,
)
from weft.numpy.promotion import beside, convert_operand
from weft.prims.convert import convert
from weft.prims.families import FLOAT, INTEGER, kind_of, scalar
from weft.prims.index_dims import GatherScatterMode, scatter_numbers
from weft.prims.slice import dynamic_slice_p, slice_p
from weft.runtime.array import ArrayImpl, box

CLIP = GatherScatterMode.CLIP
PROMISE_IN_BOUNDS = GatherScatterMode.PROMISE_IN_BOUNDS


def getitem(x: Array, index: Any) -> Array:
    """``x[index]``."""
    if x.aval.is_ref or x.aval.is_high:
        return x.aval.getitem(x, index)
    plan = plan_static(index, x.shape)
    if plan is not None and not knobs.thread.check_static_indices:
        return _slice(x, plan)
    return take_index(x, index)


def take_index(
    x: Array,
    index: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
    wrap_negative_indices: bool = True,
) -> Array:
    """``x[index]`` with a say in what happens out of bounds."""
    wrap = wrap_negative_indices
    try:
        parsed: Any = PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.asked(mode)
    except ValueError:
        parse(index, x.shape)  # a fault of the index comes first
        raise
    if parsed in (CLIP, PROMISE_IN_BOUNDS):
        plan = plan_static(index, x.shape, wrap, parsed is CLIP)
        if plan is not None:
            return _slice(x, plan)
    x = _where_indices_are(x, index)
    plan = plan_rows(index, x.shape, wrap)
    if plan is None:
        mask = index[0] if type(index) is tuple and len(index) == 1 else index
        if _is_known_mask(x, mask):
            value = chosen(np.ravel(mask), np.ravel(x._value))
            where = x._type.placement
            if not where.memory.is_host:
                return box(value, x.aval.update(shape=value.shape), where)
            return beside(box(value, x.aval.update(shape=value.shape)), x)
        entries = parse(index, x.shape)
        if parsed is PROMISE_IN_BOUNDS and knobs.thread.check_static_indices:
            check_static_bounds(entries, x.shape, wrap)
        if parsed in (CLIP, PROMISE_IN_BOUNDS):
            dynamic = plan_dynamic(entries, x.shape, wrap)
            if dynamic is not None:
                return _dynamic_slice(x, dynamic)
        plan = plan_gather(entries, x.shape, wrap)
    return _gather(
        x,
        plan,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=parsed,
        fill_value=_static_fill_value(fill_value),
    )


def _where_indices_are(x: Any, index: Any) -> Any:
    """``x``, moved to the device of an index that is committed if ``x`` is not.

    The values of indices are read, so that what computes with them wouldn't know of their device.
    """
    if type(x) is ArrayImpl and not x.committed:
        for part in index if type(index) is tuple else (index,):
            if type(part) is ArrayImpl and part.committed and part.dtype != np.bool_:
                return beside(x, part)
    return x


def _is_known_mask(x: Array, index: Any) -> bool:
    """Whether elements of known values are picked one by one, while nothing is traced."""
    if type(x) is not ArrayImpl or not isinstance(index, (ArrayImpl, np.ndarray)) or is_tracing():
        return False
    known = not isinstance(x.dtype, dtypes.ExtendedDType) and x.ndim
    return bool(known and index.dtype == np.bool_ and index.shape == x.shape)


def _slice(x: Array, plan: StaticPlan) -> Array:
    if plan.strides is not None or plan.limits != list(x.shape) or any(plan.starts):
        x = slice_p.bind(
            x,
            start_indices=tuple(plan.starts),
            limit_indices=tuple(plan.limits),
            strides=None if plan.strides is None else tuple(plan.strides),
        )
    return _rearranged(x, plan)


def _dynamic_slice(x: Array, plan: DynamicPlan) -> Array:
    if plan.sizes != list(x.shape) or plan.squeezed_axes or plan.reversed_axes:
        x = dynamic_slice_p.bind(x, *plan.starts, slice_sizes=tuple(plan.sizes))
    return _rearranged(x, plan)


def _rearranged(x: Array, plan: StaticPlan | DynamicPlan) -> Array:
    if plan.reversed_axes:
        x = lax.rev(x, plan.reversed_axes)
    if plan.squeezed_axes:
        x = lax.squeeze(x, plan.squeezed_axes)
    if plan.new_axes:
        x = lax.expand_dims(x, plan.new_axes)
    return x


def _gather(
    x: Array,
    plan: GatherPlan,
    *,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> Array:
    if plan.bool_axes:
        x = lax.expand_dims(x, plan.bool_axes)
    if 0 in plan.result_shape:
        return filled(0, typeof(x).update(shape=plan.result_shape))
    if 0 not in np.shape(plan.indices):
        x = lax.gather(
            x,
            plan.indices,
            plan.numbers,
            plan.sizes,
            unique_indices=unique_indices or plan.distinct,
            indices_are_sorted=indices_are_sorted or plan.distinct,
            mode=mode,
            fill_value=fill_value,
        )
    if plan.reversed_axes:
        x = lax.rev(x, plan.reversed_axes)
    return lax.expand_dims(x, plan.new_axes) if plan.new_axes else x


def _static_fill_value(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Tracer):
        known = value._concrete()
        if known is None:
            raise errors.ConcretizationTypeError(
                value, "the fill_value of .at[...].get() must be known while tracing"
            )
        value = known
    if np.ndim(value):
        raise ValueError(
            f"the fill_value of .at[...].get() must be a scalar, got shape {np.shape(value)}"
        )
    return np.asarray(value).item() if isinstance(value, (Array, np.ndarray)) else value


# --- updates --------------------------------------------------------------------------------------


def update_index(
    x: Any,
    index: Any,
    values: Any,
    scatter: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
    wrap_negative_indices: bool = True,
) -> Array:
    """A copy of ``x`` with the elements at ``index`` combined with ``values``.

    ``scatter`` is one of the scatters of ``weft.lax``.
    """
    target = typeof(x)
    x, values = _where_indices_are(x, index), _updates_of(values, target)
    plan = plan_rows(index, target.shape, wrap_negative_indices)
    if plan is None:
        plan = plan_gather(parse(index, target.shape), target.shape, wrap_negative_indices)
    _warn_of_lossy_update(values, target)
    if 0 in plan.result_shape:
        return x
    dtype, weak_type = dtypes.lattice_result_type(x, values)
    operand = convert(x, dtype, weak_type)
    given = np.shape(values)
    values = _broadcast(convert_operand(values, dtype, weak_type), plan.result_shape)
    if plan.new_axes:
        values = lax.squeeze(values, plan.new_axes)
    if plan.reversed_axes:
        values = lax.rev(values, plan.reversed_axes)
    if plan.bool_axes:
        operand = lax.expand_dims(operand, plan.bool_axes)
    if target.divided is not None and given != plan.result_shape:
        values = _divided_updates(operand, plan, values)
    out = scatter(
        operand,
        plan.indices,
        values,
        scatter_numbers(plan.numbers),
        indices_are_sorted=indices_are_sorted or plan.distinct,
        unique_indices=unique_indices or plan.distinct,
        mode=mode,
    )
    if plan.bool_axes:
        out = lax.squeeze(out, plan.bool_axes)
    return convert(out, target.dtype, target.weak_type)


def _divided_updates(operand: Any, plan: Any, values: Any) -> Any:
    """Updates that were broadcast, divided as the windows that they go into."""
    parts, numbers = operand.aval.divided.spec, plan.numbers
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    kept = [d for d in range(len(parts)) if d not in gone]
    shape, whole = np.shape(values), np.shape(operand)
    spec: list[Any] = [None] * len(shape)
    for at, d in zip(numbers.offset_dims, kept, strict=True):
        spec[at] = parts[d] if shape[at] == whole[d] else None
    return resharded(values, operand.aval.divided.with_spec(spec))


def update_masked(x: Any, mask: Any, value: Any, combine: Any) -> Array:
    """What ``update_index`` gives for a mask over leading axes of ``x``, and one number.

    The mask may be traced. ``combine`` makes new elements of old ones and the number, which
    takes their place where it is None.
    """
    target = typeof(x)
    if combine is not None and not kind_of(target.dtype) & (INTEGER | FLOAT):
        raise TypeError(
            f"no update of {target.dtype} can use a mask whose values are unknown while tracing"
        )
    value = _updates_of(value, target)
    _warn_of_lossy_update(value, target)
    dtype, weak_type = dtypes.lattice_result_type(x, value)
    operand = convert(x, dtype, weak_type)
    values = _broadcast(convert_operand(value, dtype, weak_type), target.shape)
    wide = lax.broadcast_in_dim(mask, target.shape, tuple(range(np.ndim(mask))))
    out = lax.select(wide, combine(operand, values) if combine else values, operand)
    return convert(out, target.dtype, target.weak_type)


def _updates_of(values: Any, target: Any) -> Any:
    """The updates as given, or an integer in the integer dtype of the target if it fits."""
    if isinstance(values, int) and dtypes.issubdtype(target.dtype, np.integer):
        limits = dtypes.iinfo(target.dtype)
        if limits.min <= values <= limits.max:
            return scalar(target.dtype, int(values))
    if isinstance(values, (list, tuple)):
        return np.asarray(values)
    if isinstance(values, (str, bytes)):  # which would be taken for the name of a dtype
        raise TypeError(f"an update takes numbers or arrays of them, got the string {values!r}")
    return values


def _warn_of_lossy_update(values: Any, target: Any) -> None:
    if dtypes.safe_to_cast(values, target):
        return
    warn(
        f"scatter inputs have incompatible types: an update of dtype {typeof(values).dtype} is "
        f"put into an array of dtype {target.dtype} and loses information; this will be an "
        "error. Convert one of them first.",
        FutureWarning,
    )


def _broadcast(x: Any, shape: Shape) -> Any:
    have = np.shape(x)
    if have == shape:
        return x
    lead = len(shape) - len(have)
    if lead < 0 or any(n not in (1, m) for n, m in zip(have, shape[lead:])):
        raise ValueError(
            f"an update of shape {have} cannot be broadcast to the indexed part, of shape {shape}"
        )
    return lax.broadcast_in_dim(x, shape, tuple(range(lead, len(shape))))
