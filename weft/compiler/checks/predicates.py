"""Predicates of checks, as operations of the program that is being written.

Each says where an operation fails: on elements, or on indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.checking import Kinds
from weft.base.knobs import enable_x64
from weft.compiler.checks.sites import axes_met, is_inexact, is_integer
from weft.core.avals import ShapedArray
from weft.core.registry import lookup
from weft.core.trace import Tracer, typeof

SCALAR = ShapedArray((), np.dtype(np.int32))


def _bind(name: str, *args: Any, **params: Any) -> Any:
    return lookup(name).bind(*args, **params)


def _const(value: Any, dtype: Any) -> Any:
    return np.asarray(value, dtype)[()]


def any_of(failed: Any) -> Any:
    """Whether something holds anywhere."""
    shape = np.shape(failed)
    if not shape:
        return failed
    return _bind("reduce_or", failed, axes=tuple(range(len(shape))), out_sharding=None)


def both(x: Any, y: Any) -> Any:
    return _bind("and", _spread(x, np.shape(y)), _spread(y, np.shape(x)))


def either(x: Any, y: Any) -> Any:
    return _bind("or", _spread(x, np.shape(y)), _spread(y, np.shape(x)))


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    """A scalar as an array of a shape; what is one already stays."""
    if np.shape(x) or not shape:
        return x
    return _bind("broadcast_in_dim", x, shape=shape, broadcast_dimensions=(), sharding=None)


def differs(x: Any, number: int) -> Any:
    return _bind("ne", x, _const(number, typeof(x).dtype))


def negated(x: Any) -> Any:
    return _bind("not", x)


def minus(x: Any) -> Any:
    return _bind("neg", x)


def least(x: Any, y: Any) -> Any:
    return _bind("min", x, y)


def below(x: Any, number: int) -> Any:
    return _bind("lt", x, _const(number, typeof(x).dtype))


def is_inexact_value(x: Any) -> bool:
    return is_inexact(typeof(x))


def next_number(x: Any) -> Any:
    return _bind("add", x, np.int32(1))


def padded(failure: Sequence[Any], depth: int) -> tuple[Any, ...]:
    """A failure with rounds of loops that are not there."""
    return (*failure, *[np.int32(0)] * (depth - len(failure)))


def vector(failure: Sequence[Any]) -> list[Any]:
    """A failure as one array."""
    parts = [
        _bind("broadcast_in_dim", x, shape=(1,), broadcast_dimensions=(), sharding=None)
        for x in failure
    ]
    return [parts[0] if len(parts) == 1 else _bind("concatenate", *parts, dimension=0)]


def chosen(failed: Any, failure: Sequence[Any], otherwise: Sequence[Any]) -> tuple[Any, ...]:
    """One of two failures."""
    depth = max(len(failure), len(otherwise))
    pairs = zip(padded(otherwise, depth), padded(failure, depth), strict=True)
    return tuple([_bind("select_n", failed, no, yes) for no, yes in pairs])


def first_element(failures: Sequence[Any]) -> tuple[Any, ...]:
    """The failure of one element of a batch, of arrays with the batch's axes: its check, the number
    of the element, and its rounds. It is the first element whose failure has ended a loop, or the
    first with a failure if there is none."""
    count = prod(np.shape(failures[0]))
    rows = [
        _bind("reshape", x, new_sizes=(count,), dimensions=None, sharding=None) for x in failures
    ]
    number = _bind("iota", dtype=np.dtype(np.int32), shape=(count,), dimension=0, sharding=None)
    many = _spread(np.int32(count), (count,))
    later = _bind("add", number, many)
    failed = _bind("select_n", differs(rows[0], 0), _bind("add", later, many), later)
    rank = _bind("select_n", below(rows[0], 0), failed, number)
    least = _bind("reduce_min", rank, axes=(0,), out_sharding=None)
    element = _bind("rem", least, np.int32(count))
    this = _bind("eq", number, _spread(element, (count,)))
    none = _spread(np.int32(0), (count,))
    first, *rounds = [
        _bind("reduce_sum", _bind("select_n", this, none, x), axes=(0,), out_sharding=None)
        for x in rows
    ]
    return (first, element, *rounds)


def taken(alternatives: Any, value: Callable[[Any], Any], shape: tuple[int, ...]) -> Any:
    """Where one of several lists of branches is taken in full, as elements of a shape."""
    found = None
    for alternative in alternatives:
        holds = None
        for branch in alternative:
            x = value(branch.which)
            if typeof(x).dtype == np.bool_:
                x = x if branch.case else negated(x)
            else:
                x = _bind("eq", x, _const(branch.case, typeof(x).dtype))
            x = along(x, branch.axes, shape)
            holds = x if holds is None else both(holds, x)
        found = holds if found is None else either(found, holds)
    return np.bool_(False) if found is None else found


def along(x: Any, axes: Sequence[int | None], shape: tuple[int, ...]) -> Any:
    """An array repeated so that its dimensions go along axes of a shape; a single number stays."""
    kept = [n for n, axis in zip(np.shape(x), axes, strict=True) if axis is not None]
    if len(kept) < len(axes):
        x = _bind("reshape", x, new_sizes=tuple(kept), dimensions=None, sharding=None)
    if not kept or tuple(kept) == shape:
        return x
    dims = tuple([axis for axis in axes if axis is not None])
    return _bind("broadcast_in_dim", x, shape=shape, broadcast_dimensions=dims, sharding=None)


def nowhere(shape: tuple[int, ...]) -> Any:
    """False for all elements of a shape."""
    return _spread(np.bool_(False), shape)


def reached(eqn: Any, place: int, mask: Any, shape: tuple[int, ...]) -> Any:
    """The elements of an equation's result that some elements of an operand may go into."""
    here = np.shape(mask)
    if here == shape and eqn.primitive.form == "map":
        return mask
    if not here or not shape:
        return _spread(any_of(mask), shape)
    axes: list[int | None] = axes_met(eqn, place, len(shape))
    if eqn.primitive.form == "map":  # an operand may be repeated along axes that it lacks
        lead = len(shape) - len(here)
        axes = [
            a - lead if a >= lead and here[a - lead] == shape[a] else None
            for a in range(len(shape))
        ]
    kept = [a for a in axes if a is not None]
    rest = tuple([a for a in range(len(here)) if a not in kept])
    if rest:
        mask = _bind("reduce_or", mask, axes=rest, out_sharding=None)
    order = tuple([sorted(kept).index(a) for a in kept])
    if order != tuple(sorted(order)):
        mask = _bind("transpose", mask, permutation=order)
    dims = tuple([i for i, a in enumerate(axes) if a is not None])
    if np.shape(mask) == shape:
        return mask
    return _bind("broadcast_in_dim", mask, shape=shape, broadcast_dimensions=dims, sharding=None)


# --- numbers --------------------------------------------------------------------------------------


def bad(x: Any, kinds: Kinds) -> Any:
    """Where a value is what must not be made."""
    unequal = _bind("ne", x, x)
    if not kinds.inf:
        return unequal
    dtype = typeof(x).dtype
    if dtype.kind == "c":
        parts = [_infinite(_bind(name, x)) for name in ("real", "imag")]
        infinite = either(*parts)
    else:
        infinite = _infinite(x)
    return either(unequal, infinite) if kinds.nan else infinite


def _infinite(x: Any) -> Any:
    return _bind("eq", _bind("abs", x), _const(np.inf, typeof(x).dtype))


def zero_divisor(eqn: Any, operands: Sequence[Any], each: bool) -> Any:
    """Where a divisor is zero, for ``each`` element of the result or of the divisor; None where
    that cannot be."""
    divisor = operands[1]
    aval = typeof(divisor)
    if not (is_inexact(aval) or is_integer(aval)):
        return None
    if not isinstance(divisor, Tracer):
        if np.all(np.asarray(divisor) != 0):
            return None
    divisor = _spread(divisor, eqn.outvars[0].aval.shape) if each else divisor
    return _bind("eq", divisor, _const(0, aval.dtype))


def wrapped(eqn: Any, operands: Sequence[Any], result: Any) -> Any:
    """Where an integer has wrapped; None for operations that never do."""
    rule = _WRAPS.get(eqn.primitive.overflows)
    with enable_x64(True):
        return None if rule is None else rule(eqn, operands, result)


def _signed(dtype: Any) -> bool:
    return dtype.kind == "i"


def _wrapped_sum(eqn: Any, operands: Any, result: Any) -> Any:
    x, y = operands
    dtype = typeof(result).dtype
    if not _signed(dtype):
        return _bind("lt", result, _spread(x, np.shape(result)))
    change = _bind("and", _bind("xor", result, x), _bind("xor", result, y))
    return _bind("lt", change, _const(0, dtype))


def _wrapped_difference(eqn: Any, operands: Any, result: Any) -> Any:
    x, y = operands
    dtype = typeof(result).dtype
    if not _signed(dtype):
        return _bind("lt", _spread(x, np.shape(result)), _spread(y, np.shape(result)))
    change = _bind("and", _bind("xor", x, y), _bind("xor", result, x))
    return _bind("lt", change, _const(0, dtype))


def _wrapped_product(eqn: Any, operands: Any, result: Any) -> Any:
    dtype = typeof(result).dtype
    if dtype.itemsize < 8:
        wide = np.int64 if dtype.itemsize == 4 else np.int32
        # int64 holds the bits of a product of two uint32
        whole = _bind("mul", *[_cast(x, wide) for x in operands])
        return _bind("ne", whole, _cast(result, wide))
    return _far(_bind("mul", *[_cast(x, np.float64) for x in operands]), result)


def _wrapped_negation(eqn: Any, operands: Any, result: Any) -> Any:
    dtype = typeof(result).dtype
    if not _signed(dtype):
        return differs(operands[0], 0)
    return _bind("eq", operands[0], _const(np.iinfo(dtype).min, dtype))


def _wrapped_size(eqn: Any, operands: Any, result: Any) -> Any:
    return _wrapped_negation(eqn, operands, result) if _signed(typeof(result).dtype) else None


def _wrapped_quotient(eqn: Any, operands: Any, result: Any) -> Any:
    dtype = typeof(result).dtype
    if not _signed(dtype):
        return None
    shape = np.shape(result)
    least = _bind("eq", _spread(operands[0], shape), _const(np.iinfo(dtype).min, dtype))
    return both(least, _bind("eq", _spread(operands[1], shape), _const(-1, dtype)))


def _wrapped_power(eqn: Any, operands: Any, result: Any) -> Any:
    whole = _bind("integer_pow", _cast(operands[0], np.float64), y=eqn.params["y"])
    return _far(whole, result) if eqn.params["y"] > 0 else None


def _wrapped_total(eqn: Any, operands: Any, result: Any) -> Any:
    """Sums along axes, compared with sums of floats."""
    whole = eqn.primitive.bind(_cast(operands[0], np.float64), **eqn.params)
    return _far(whole, result)


def _wrapped_square(eqn: Any, operands: Any, result: Any) -> Any:
    return _wrapped_product(eqn, [operands[0], operands[0]], result)


def _wrapped_sums(eqn: Any, operands: Any, result: Any) -> Any:
    """Products of matrices and updates of arrays, compared with those of floats."""
    places, params = in_floats(eqn)
    values = [_cast(x, np.float64) if i in places else x for i, x in enumerate(operands)]
    return _far(eqn.primitive.bind(*values, **params), result)


def in_floats(eqn: Any) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The operands of an equation that are floats where it computes floats, and its parameters."""
    params = dict(eqn.params)
    if "preferred_element_type" in params:
        params["preferred_element_type"] = np.dtype(np.float64)
    if "update_jaxpr" in params:
        params.update(update_jaxpr=None, update_consts=())
        return (0, 2), params
    return tuple(range(len(eqn.invars))), params


def _wrapped_cast(eqn: Any, operands: Any, result: Any) -> Any:
    """A wider integer that does not fit."""
    before, dtype = typeof(operands[0]).dtype, typeof(result).dtype
    if before.kind not in ("i", "u") or before.itemsize <= dtype.itemsize:
        return None
    return _bind("ne", operands[0], _cast(result, before))


def _far(whole: Any, result: Any) -> Any:
    """Where integers are not near the floats that they should be: what wraps is off by a power of
    two that no rounding comes near."""
    dtype = typeof(result).dtype
    off = _bind("abs", _bind("sub", whole, _cast(result, np.float64)))
    most = np.float32(2.0 ** (8 * dtype.itemsize - 1))
    return _bind("ge", off, _spread(_cast(most, np.float64), np.shape(off)))


def _cast(x: Any, dtype: Any) -> Any:
    dtype = np.dtype(dtype)
    if not isinstance(x, Tracer):
        if dtype.itemsize < 8 or np.asarray(x).dtype.itemsize == 8:
            return np.asarray(x, dtype)[()]
        # an equation: a literal would be narrow where the program is mapped, unless x64 is on
        x = np.asarray(x)[()]
    return _bind("convert_element_type", x, new_dtype=dtype, weak_type=False, sharding=None)


_WRAPS: dict[str, Callable[..., Any]] = {
    "sum": _wrapped_sum,
    "difference": _wrapped_difference,
    "product": _wrapped_product,
    "negative": _wrapped_negation,
    "size": _wrapped_size,
    "quotient": _wrapped_quotient,
    "power": _wrapped_power,
    "total": _wrapped_total,
    "running sum": _wrapped_total,
    "total product": _wrapped_total,
    "running product": _wrapped_total,
    "cast": _wrapped_cast,
    "square": _wrapped_square,
    "windows": _wrapped_total,
    "sums of products": _wrapped_sums,
    "sums of updates": _wrapped_sums,
}


# --- indices --------------------------------------------------------------------------------------


def outside(eqn: Any, operands: Sequence[Any], each: bool = False, zeros: bool = False) -> Any:
    """Where indices are out of bounds, or None for operations without indices, indices that are
    known, and modes that say what such indices mean. It is one boolean, or with ``each`` one for
    each element that is read. With ``zeros``, it does not matter where zeros are written."""
    found = bounds(eqn)
    failed = None
    for place, last in found or ():
        index = operands[place]
        known = index if not isinstance(index, Tracer) else None
        if known is not None and np.all((np.asarray(known) >= 0) & (np.asarray(known) <= last)):
            continue
        dtype = typeof(index).dtype
        shape = np.shape(index)
        if dtype.kind not in ("i", "u") or 0 in shape:
            continue
        most = np.minimum(last, np.iinfo(dtype).max).astype(dtype)
        if most.ndim and not np.all(most == most[0]):
            row = most.reshape((1,) * (len(shape) - 1) + most.shape)
            limit = np.ascontiguousarray(np.broadcast_to(row, shape))
        else:
            limit = most.reshape(-1)[0]
        over = _bind("gt", index, limit)
        if dtype.kind == "i":
            over = either(over, _bind("lt", index, _const(0, dtype)))
        if (each or zeros) and shape:
            over = _bind("reduce_or", over, axes=(len(shape) - 1,), out_sharding=None)
        elif not each:
            over = any_of(over)
        failed = over if failed is None else either(failed, over)
    if failed is None or not (each or zeros):
        return failed
    if each:
        return _along_indices(eqn, failed, eqn.outvars[0].aval.shape)
    update = operands[eqn.primitive.written]
    written = differs(update, 0)
    return any_of(both(written, _along_indices(eqn, failed, np.shape(update))))


def _along_indices(eqn: Any, failed: Any, shape: tuple[int, ...]) -> Any:
    """What holds of each index, for the elements that are read or written there."""
    axes = index_axes(eqn, len(shape)) if np.shape(failed) else ()
    return _spread(along(failed, axes, shape), shape)


def index_axes(eqn: Any, rank: int) -> tuple[int, ...]:
    """The axes of what a gather reads, or a scatter writes, that go along those of its indices."""
    numbers = eqn.params["dimension_numbers"]
    reads = eqn.primitive.reads_at_indices
    windows = numbers.offset_dims if reads else numbers.update_window_dims
    return tuple([axis for axis in range(rank) if axis not in windows])


def bounds(eqn: Any) -> list[tuple[int, Any]] | None:
    """The operands of an equation that are indices, each with the largest that is in bounds: a
    number, or one for each column."""
    name, avals = eqn.primitive.name, [x.aval for x in eqn.invars]
    if name in ("dynamic_slice", "dynamic_update_slice"):
        slices = name == "dynamic_slice"
        sizes = eqn.params["slice_sizes"] if slices else avals[1].shape
        first = 1 if slices else 2
        last = np.subtract(avals[0].shape, sizes)
        return [(first + i, np.asarray(n)) for i, n in enumerate(last)]
    if name == "gather":
        numbers = eqn.params["dimension_numbers"]
        axes = numbers.start_index_map
        shape = avals[0].shape
        last = [shape[i] - eqn.params["slice_sizes"][i] for i in axes]
    elif name.startswith("scatter"):
        numbers = eqn.params["dimension_numbers"]
        axes = numbers.scatter_dims_to_operand_dims
        shape = avals[0].shape
        absent = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        window = iter([avals[2].shape[i] for i in numbers.update_window_dims])
        sizes = [1 if i in absent else next(window) for i in range(len(shape))]
        last = [shape[i] - sizes[i] for i in axes]
    else:
        return None
    if not axes or _is_meant(eqn.params["mode"], numbers):
        return None
    return [(1, np.asarray(last))]


def _is_meant(mode: Any, numbers: Any) -> bool:
    """Whether the program says what indices out of bounds mean. A batch of dynamic slices clips
    too, which nobody has asked for: it takes blocks, and no axis is dropped."""
    name = getattr(mode, "name", "")
    dropped = getattr(numbers, "collapsed_slice_dims", ()) or getattr(
        numbers, "inserted_window_dims", ()
    )
    return name == "FILL_OR_DROP_ASKED" or (name == "CLIP" and bool(dropped))
