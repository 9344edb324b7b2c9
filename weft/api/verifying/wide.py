"""Programs with more digits: every float of a program becomes a float64, and what it does stays."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.core.avals import ShapedArray
from weft.core.interpret import run_primitive
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from weft.core.registry import lookup
from weft.core.staging import stage
from weft.core.trace import typeof

# Operations on the bits of floats, which mean nothing to a wider type, and a user's own functions.
NARROW = frozenset(["bitcast_convert_type", "nextafter", "pure_callback", "io_callback"])
_WIDE = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}


class Narrow(Exception):
    """An operation that has no wider form."""


def is_float(dtype: Any) -> bool:
    """Whether a dtype is one of floats or complex numbers."""
    return not isinstance(dtype, dtypes.ExtendedDType) and dtypes.issubdtype(dtype, np.inexact)


def widened_dtype(dtype: Any) -> Any:
    """float64 for floats, complex128 for complex numbers, and other dtypes as they are."""
    if dtype is None or not is_float(dtype):
        return dtype
    return _WIDE["c" if np.dtype(dtype).kind == "c" else "f"]


def widened_aval(aval: Any) -> Any:
    """The type of the same value with more digits."""
    if type(aval) is not ShapedArray or not is_float(aval.dtype):
        return aval
    return aval.update(dtype=widened_dtype(aval.dtype))


def is_narrow(eqn: Any) -> bool:
    """Whether an operation has no wider form; draws of random numbers are others then."""
    keys = any(dtypes.issubdtype(x.aval.dtype, dtypes.prng_key) for x in eqn.invars if _typed(x))
    return keys or eqn.primitive.name in NARROW


def _typed(x: Any) -> bool:
    return hasattr(x.aval, "dtype")


def drops_digits(eqn: Any) -> bool:
    """Whether an operation rounds to fewer digits than its dtype has, because it was asked to."""
    if eqn.primitive.name != "reduce_precision":
        return False
    held = dtypes.finfo(eqn.outvars[0].aval.dtype)
    return eqn.params["mantissa_bits"] < held.nmant or eqn.params["exponent_bits"] < held.nexp


def widened_params(eqn: Any) -> dict[str, Any]:
    """The parameters of an operation with more digits; raises Narrow where there is none."""
    if is_narrow(eqn):
        raise Narrow(eqn.primitive.name)
    return {name: _widened(value) for name, value in eqn.params.items()}


def _converted(x: Any, dtype: Any) -> Any:
    if x.dtype == dtype:
        return x
    convert = lookup("convert_element_type")
    return convert.bind(x, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)


def _widened_rule(rule: Any) -> Any:
    """A user's rule of derivatives, which is checked against the types of one call, for others."""
    method = rule.func if type(rule) is functools.partial and not rule.args else rule
    call = getattr(method, "__self__", None)
    if call is None or not hasattr(call, "out_avals"):
        return rule
    call = copy.copy(call)
    call.out_avals = None
    if hasattr(call, "in_avals"):
        call.in_avals = [widened_aval(a) for a in call.in_avals]
    return functools.partial(getattr(call, method.__name__))


def _widened(value: Any) -> Any:
    if type(value) is ClosedJaxpr:
        return widened(value)
    if type(value) is Jaxpr:
        return widened(ClosedJaxpr(value, ())).jaxpr if not value.constvars else value
    if isinstance(value, (np.dtype, type)):
        return widened_dtype(value) if isinstance(value, np.dtype) else value
    if callable(value):
        return _widened_rule(value)
    if isinstance(value, tuple):
        parts = [_widened(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def widened(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program with more digits; raises Narrow where it has none."""
    avals = [widened_aval(a) for a in closed.in_avals]
    with knobs.enable_x64(True):
        return stage(lambda *xs: evaluate(closed, xs), avals)


def evaluate(closed: ClosedJaxpr, args: Any) -> list[Any]:
    """Bind the equations of a program with more digits."""
    jaxpr = closed.jaxpr
    consts = [widened_value(c, v.aval) for c, v in zip(closed.consts, jaxpr.constvars, strict=True)]
    env: dict[Any, Any] = dict(
        zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True)
    )
    read = lambda x: widened_value(x.val, x.aval) if type(x) is Literal else env[x]
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        values = [read(x) for x in eqn.invars]
        if primitive.name == "reduce_precision":
            env[eqn.outvars[0]] = values[0]
            continue
        if is_narrow(eqn):
            given = [_converted(v, x.aval.dtype) for v, x in zip(values, eqn.invars, strict=True)]
            outs = primitive.bind(*given, **eqn.params)
            outs = outs if primitive.multiple_results else [outs]
            outs = [_converted(y, widened_dtype(y.dtype)) for y in outs]
            env.update(zip(eqn.outvars, outs, strict=True))
            continue
        wide = widened_params(eqn)
        # a program inside that stayed as it was would read wide memory as narrow
        primitive.verify([typeof(x) for x in values], wide)
        leading, params = primitive.get_bind_params(wide)
        outs = primitive.bind(*leading, *values, **params)
        env.update(zip(eqn.outvars, outs if primitive.multiple_results else [outs], strict=True))
    return [read(x) for x in jaxpr.outvars]


def widened_value(value: Any, aval: Any) -> Any:
    """A constant with more digits."""
    if type(aval) is not ShapedArray or isinstance(aval.dtype, dtypes.ExtendedDType):
        return value
    return np.asarray(np.asarray(value, aval.dtype), widened_dtype(aval.dtype))


def run_wide(eqn: Any, values: list[Any], params: dict[str, Any]) -> list[Any]:
    """The results of an operation on NumPy arrays with more digits."""
    primitive = eqn.primitive
    if primitive.name == "reduce_precision" and not drops_digits(eqn):
        return [values[0]]
    given = zip(eqn.invars, values, strict=True)
    avals = [widened_aval(x.aval) for x, _ in given]
    with knobs.enable_x64(True):
        primitive.verify(avals, params)
        out = primitive.shape(*avals, **params)
        found = run_primitive(primitive, out, values, params)
    return list(found) if primitive.multiple_results else [found]
