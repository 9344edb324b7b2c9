"""What lowerings to other primitives are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.core.registry import lookup
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.prims.families import scalar

I32, I64 = np.dtype(np.int32), np.dtype(np.int64)


def bind(name: str, *args: Any, **params: Any) -> Any:
    """A primitive by its name."""
    return lookup(name).bind(*args, **params)


def dtype_of(x: Any) -> Any:
    return typeof(x).dtype


def convert(x: Any, dtype: Any) -> Any:
    """Numbers in another dtype."""
    if dtype_of(x) == dtype:
        return x
    return bind("convert_element_type", x, new_dtype=dtype, weak_type=False, sharding=None)


def bits(x: Any, dtype: Any) -> Any:
    """The same bits as another dtype."""
    return bind("bitcast_convert_type", x, new_dtype=np.dtype(dtype))


def like(x: Any, value: Any) -> Any:
    """A number of the dtype of ``x``."""
    return scalar(dtype_of(x), value)


def fill(shape: tuple[int, ...], dtype: Any, value: Any) -> Any:
    """An array of one number."""
    return spread(scalar(dtype, value), shape, ())


def spread(x: Any, shape: tuple[int, ...], dims: Sequence[int]) -> Any:
    """An array whose axes become some of those of a larger one."""
    return bind("broadcast_in_dim", x, shape=shape, broadcast_dimensions=tuple(dims), sharding=None)


def where(test: Any, yes: Any, no: Any) -> Any:
    return bind("select_n", test, no, yes)


def repeat(step: Callable[..., Sequence[Any]], carry: Sequence[Any], length: int) -> list[Any]:
    """What is carried after ``length`` steps; a step is a function of it alone."""
    body = stage(lambda *xs: list(step(*xs)), [typeof(x).strip_weak_type() for x in carry])
    return bind(
        "scan", *carry, jaxpr=body, length=length, reverse=False, num_consts=0,
        num_carry=len(carry), unroll=1,
    )  # fmt: skip


def repeat_while(
    test: Callable[..., Any],
    step: Callable[..., Sequence[Any]],
    carry: Sequence[Any],
    given: Sequence[Any] = (),
) -> list[Any]:
    """What is carried when a test first fails; both functions see ``given`` first."""
    avals = [typeof(x).strip_weak_type() for x in (*given, *carry)]
    condition = stage(lambda *xs: [test(*xs)], avals)
    body = stage(lambda *xs: list(step(*xs)), avals)
    return bind(
        "while", *given, *given, *carry, cond_jaxpr=condition, cond_nconsts=len(given),
        body_jaxpr=body, body_nconsts=len(given),
    )  # fmt: skip
