"""The interpreter: a program evaluated by the NumPy references of its primitives. The truth."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs, source
from weft.core.avals import ShapedArray
from weft.core.jaxpr import Jaxpr, Literal
from weft.core.staging import stage


def storage_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype that holds elements of ``dtype``; opaque bytes for extended ones."""
    if isinstance(dtype, dtypes.ExtendedDType):
        return dtype.storage
    return dtype


def literal_value(literal: Literal) -> np.ndarray:
    return np.asarray(literal.val, literal.aval.dtype)


def constant_value(const: Any, aval: Any) -> np.ndarray:
    """The memory of a program's constant; a copy of the caller's own, which may change."""
    value = getattr(const, "_value", None)
    if value is None:
        value = np.array(const, storage_dtype(aval.dtype))
    return np.ascontiguousarray(value).reshape(value.shape)


def settle(value: Any, aval: Any) -> np.ndarray:
    """A reference's result at the dtype that the primitive's shape rule says."""
    value = np.asarray(value)
    dtype = storage_dtype(aval.dtype)
    if value.dtype != dtype:
        value = value.astype(dtype)
    if value.shape != aval.shape:
        raise AssertionError(f"a reference gave shape {value.shape} where {aval} was declared")
    return value


# Of each dtype whose denormal numbers native code takes for zeros: the integers as wide, the bits
# of the exponent and that of the sign. A number is denormal, or zero, where the exponent is 0.
_FLUSHED: dict[Any, tuple[Any, Any, Any]] = {
    np.dtype(dtype): (word, word(exponent), word(1 << (8 * np.dtype(word).itemsize - 1)))
    for dtype, word, exponent in (
        (dtypes.bfloat16, np.uint16, 0x7F80),
        (np.float32, np.uint32, 0x7F800000),
        (np.float64, np.uint64, 0x7FF << 52),
    )
}


def flushed(value: Any) -> Any:
    """An array with zeros of the same sign for denormal numbers, as native arithmetic has them."""
    dtype = getattr(value, "dtype", None)
    facts = _FLUSHED.get(dtype)
    if facts is None:
        if getattr(dtype, "kind", "") != "c":
            return value
        parts = np.ascontiguousarray(value).reshape(-1).view(value.real.dtype)
        return flushed(parts).view(dtype).reshape(value.shape)
    word, exponent, sign = facts
    bits = value.view(word)
    small = (bits & exponent) == 0
    if not small.any():
        return value
    return np.where(small, bits & sign, bits).view(dtype)


def run_primitive(primitive: Any, avals: Any, values: Any, params: dict[str, Any]) -> Any:
    """Results of one primitive on NumPy arrays: an array, or a list for several results."""
    flushes = primitive.flushes(values, params) and knobs.flushes()
    if flushes:
        values = [flushed(v) for v in values]
    result = primitive.ref(*values, **params)
    if primitive.multiple_results:
        result = [settle(v, a) if has_data(a) else v for v, a in zip(result, avals, strict=True)]
        return [flushed(v) for v in result] if flushes else result
    result = settle(result, avals) if has_data(avals) else result
    return flushed(result) if flushes else result


def has_data(aval: Any) -> bool:
    return hasattr(aval, "dtype") and not aval.is_ref


def decomposed(primitive: Any, *values: Any, **params: Any) -> Any:
    """The reference of a primitive that is made of others: what it is made of, run by NumPy."""
    avals = [ShapedArray(v.shape, v.dtype) for v in values]
    return run_decomposed(primitive, avals, values, params)


def run_decomposed(primitive: Any, avals: Any, values: Any, params: dict[str, Any]) -> Any:
    """The same for operands of given types."""
    given = (primitive, tuple(avals), tuple(sorted(params.items())))
    try:
        program, consts = _known(knobs.context_key(), *given)
    except TypeError:  # a parameter that cannot be a key
        program, consts = _staged(*given)
    with np.errstate(all="ignore"):
        found = run(program, consts, values)
    return found if primitive.multiple_results else found[0]


@functools.lru_cache(256)
def _known(context: Any, *given: Any) -> tuple[Jaxpr, list[np.ndarray]]:
    return _staged(*given)


def _staged(primitive: Any, avals: Any, params: Any) -> tuple[Jaxpr, list[np.ndarray]]:
    def made(*args: Any) -> Sequence[Any]:
        found = primitive.decompose(*args, **dict(params))
        return found if primitive.multiple_results else [found]

    wide = any(isinstance(a.dtype, np.dtype) and a.dtype.itemsize >= 8 for a in avals)
    # types are the operands', whatever the knob says by now
    with knobs.enable_x64(wide or knobs.enable_x64.value):
        closed = stage(made, avals)
    held = zip(closed.consts, closed.jaxpr.constvars, strict=True)
    return closed.jaxpr, [constant_value(c, v.aval) for c, v in held]


class _Search(threading.local):
    """Whether programs are run to find the equation that gives a NaN or an infinity."""

    on = False


_search = _Search()


def forbidden(values: Sequence[Any]) -> str:
    """What the knobs ``debug_nans`` and ``debug_infs`` forbid and an array holds, or nothing."""
    for value in values:
        dtype = getattr(value, "dtype", None)
        if not isinstance(dtype, np.dtype) or not dtypes.issubdtype(dtype, np.inexact):
            continue
        if knobs.thread.debug_nans and np.isnan(value).any():
            return "nan"
        if knobs.thread.debug_infs and np.isinf(value).any():
            return "inf"
    return ""


def check_floats(primitive: Any, avals: Any, values: Any, params: Any, result: Any, info: Any):
    """Raise FloatingPointError if a result holds what the knobs forbid.

    Programs inside the primitive run once more, equation by equation, to name the one that did it.
    """
    results = result if primitive.multiple_results else [result]
    found = forbidden(results)
    if not found:
        return
    if not _search.on:
        _search.on = True
        try:
            run_primitive(primitive, avals, values, params)
        finally:
            _search.on = False
    operands = ", ".join(f"{v.dtype}[{','.join(map(str, np.shape(v)))}]" for v in values)
    raise FloatingPointError(
        f"invalid value ({found}) encountered in {primitive} — {source.summarize(info)}\n"
        f"Its operands are ({operands}); {_holding(values)}."
    )


def _holding(values: Sequence[Any]) -> str:
    bad = [f"operand {i} holds {found}" for i, v in enumerate(values) if (found := forbidden([v]))]
    return f"{', '.join(bad)} already" if bad else "none of them holds such a value"


def run(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Outputs of a program on NumPy arrays."""
    searching = _search.on
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        values = [literal_value(x) if type(x) is Literal else env[x] for x in eqn.invars]
        primitive = eqn.primitive
        avals: Any
        if primitive.multiple_results:
            avals = [v.aval for v in eqn.outvars]
            result = run_primitive(primitive, avals, values, eqn.params)
            env.update(zip(eqn.outvars, result, strict=True))
        else:
            avals = eqn.outvars[0].aval
            result = run_primitive(primitive, avals, values, eqn.params)
            env[eqn.outvars[0]] = result
        if searching:
            check_floats(primitive, avals, values, eqn.params, result, eqn.source_info)
    return [literal_value(x) if type(x) is Literal else env[x] for x in jaxpr.outvars]
