"""Primitives applied to concrete arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.control.jit import jit_p, jit_parameters
from weft.core.trace import typeof
from weft.extend.core.primitive import Primitive

__all__ = ["apply_primitive", "canonicalize_dtype_handlers"]


def _same(x: Any) -> Any:
    return x


# For types that libraries teach to be arrays, what a value of the type stands for.
canonicalize_dtype_handlers: dict[type, Any] = dict.fromkeys(
    (np.ndarray, np.generic, bool, int, float, complex), _same
)


def apply_primitive(prim: Any, *args: Any, **params: Any) -> Any:
    """The results of a primitive on concrete arrays.

    >>> from weft.extend.core.primitives import add_p
    >>> float(apply_primitive(add_p, 1.0, 2.0))
    3.0
    """
    if not isinstance(prim, Primitive):
        return prim.impl(*args, **params)
    closed = prim.program([typeof(x) for x in args], params)
    if closed is None:
        if prim.has_impl and getattr(prim.impl, "func", prim.impl) is not apply_primitive:
            return prim.impl(*args, **params)
        raise NotImplementedError(
            f"{prim.name} has no lowering, which apply_primitive needs; register one with"
            f" mlir.register_lowering({prim.name}_p, mlir.lower_fun(...))"
        )
    found = jit_p.bind(*args, **jit_parameters(closed, prim.name))
    return found if prim.multiple_results else found[0]
