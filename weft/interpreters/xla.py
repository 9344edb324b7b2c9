"""Primitives applied to concrete arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    return prim.impl(*args, **params)
