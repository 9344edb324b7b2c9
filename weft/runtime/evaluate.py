"""Evaluation of a bound primitive when nothing is being traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.base import errors, knobs, source
from weft.core.avals import ShapedArray
from weft.core.interpret import check_floats, run_primitive
from weft.core.trace import state, typeof
from weft.runtime.array import ArrayImpl, box
from weft.runtime.native import compile_program


def to_numpy(x: Any, aval: Any) -> Any:
    """The NumPy form of an operand, at the dtype of its abstract value."""
    if type(x) is ArrayImpl:
        return x._value
    if type(aval) is not ShapedArray:
        return x
    return np.asarray(x, aval.dtype)


def evaluate(primitive: Any, args: Any, params: dict[str, Any]) -> Any:
    """Compute a primitive by its reference and box the results."""
    avals = [typeof(x) for x in args]
    try:
        out = primitive.shape(*avals, **params)
    except Exception as error:
        errors.locate(error, state.source)
        raise
    values = [to_numpy(x, a) for x, a in zip(args, avals, strict=True)]
    foreign = any(type(x) is np.ndarray for x in args)
    with np.errstate(all="ignore"):
        callee = primitive.callee(params) if knobs.thread.backend == "native" else None
        if callee is None:
            result = run_primitive(primitive, out, values, params)
        else:
            result = compile_program(callee)(values)
        if knobs.thread.debug_nans or knobs.thread.debug_infs:
            info = state.source or source.current()
            check_floats(primitive, out, values, params, result, info)
    if primitive.multiple_results:
        return [_boxed(v, a, foreign) for v, a in zip(result, out, strict=True)]
    return _boxed(result, out, foreign)


def _boxed(value: Any, aval: Any, foreign: bool) -> Any:
    if type(aval) is not ShapedArray:
        return value
    # memory of the caller's own NumPy arrays must not become an array's
    if foreign:
        value = value.copy()
    return box(value, aval)
