"""How functions of several rooms take operands: checked, promoted, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.core.array import Array
from weft.numpy.promotion import check_arraylike, promote_args_inexact


def arraylike(name: str, x: Any) -> Array:
    """``x`` as an array; lists and other containers are refused."""
    if isinstance(x, Array):
        return x
    check_arraylike(name, x)
    return jnp.asarray(x)


def inexact(name: str, *operands: Any) -> list[Array]:
    """The operands at their common floating or complex dtype, of equal rank."""
    promoted = promote_args_inexact(name, *operands)
    return [x if isinstance(x, Array) else jnp.asarray(x) for x in promoted]


def real(name: str, *operands: Any) -> list[Array]:
    """As ``inexact``, but complex operands are refused: by distributions with a TypeError."""
    arrays = inexact(name, *operands)
    if dtypes.issubdtype(arrays[0].dtype, np.complexfloating):
        error = TypeError if "." in name else ValueError
        raise error(f"{name} is a function of real numbers, got dtype {arrays[0].dtype}")
    return arrays


def strong(name: str, *operands: Any) -> list[Array]:
    """As ``real``, of a weak type only if the first operand is a scalar of one, as in JAX."""
    arrays = real(name, *operands)
    if arrays[0].weak_type and not arrays[0].ndim:
        return arrays
    return [x.astype(x.dtype) if x.weak_type else x for x in arrays]


def is_complex(x: Array) -> bool:
    """Whether an array is complex."""
    return bool(dtypes.issubdtype(x.dtype, np.complexfloating))
