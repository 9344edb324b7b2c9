"""The interpreter: a program evaluated by the NumPy references of its primitives. The truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.jaxpr import Jaxpr, Literal


def storage_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype that holds elements of ``dtype``; opaque bytes for extended ones."""
    if isinstance(dtype, dtypes.ExtendedDType):
        return dtype.storage
    return dtype


def literal_value(literal: Literal) -> np.ndarray:
    return np.asarray(literal.val, literal.aval.dtype)


def settle(value: Any, aval: Any) -> np.ndarray:
    """A reference's result at the dtype that the primitive's shape rule says."""
    value = np.asarray(value)
    dtype = storage_dtype(aval.dtype)
    if value.dtype != dtype:
        value = value.astype(dtype)
    if value.shape != aval.shape:
        raise AssertionError(f"a reference gave shape {value.shape} where {aval} was declared")
    return value


def run_primitive(primitive: Any, avals: Any, values: Any, params: dict[str, Any]) -> Any:
    """Results of one primitive on NumPy arrays: an array, or a list for several results."""
    result = primitive.ref(*values, **params)
    if primitive.multiple_results:
        return [settle(v, a) if has_data(a) else v for v, a in zip(result, avals, strict=True)]
    return settle(result, avals) if has_data(avals) else result


def has_data(aval: Any) -> bool:
    return hasattr(aval, "dtype")


def run(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Outputs of a program on NumPy arrays."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        values = [literal_value(x) if type(x) is Literal else env[x] for x in eqn.invars]
        primitive = eqn.primitive
        if primitive.multiple_results:
            avals = [v.aval for v in eqn.outvars]
            env.update(
                zip(eqn.outvars, run_primitive(primitive, avals, values, eqn.params), strict=True)
            )
        else:
            aval = eqn.outvars[0].aval
            env[eqn.outvars[0]] = run_primitive(primitive, aval, values, eqn.params)
    return [literal_value(x) if type(x) is Literal else env[x] for x in jaxpr.outvars]
