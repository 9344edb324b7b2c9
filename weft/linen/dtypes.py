"""The dtype that a layer computes in, from its inputs, its parameters and its ``dtype`` field."""

import weft
from weft import numpy as jnp


def canonicalize_dtype(*args, dtype=None, inexact: bool = True):
    """The dtype to compute in: the given one, or what the arguments promote to."""
    if dtype is None:
        dtype = jnp.result_type(*[x for x in args if x is not None])
        if inexact and not jnp.issubdtype(dtype, jnp.inexact):
            dtype = jnp.promote_types(jnp.float32, dtype)
    if inexact and not jnp.issubdtype(dtype, jnp.inexact):
        raise ValueError(f"a layer needs a floating-point or complex dtype, not {dtype}")
    return dtype


def promote_dtype(*args, dtype=None, inexact: bool = True) -> list:
    """The arguments in the dtype to compute in; None stays None.

    >>> [x.dtype.name for x in promote_dtype(jnp.ones(2, jnp.bfloat16), jnp.ones(2))]
    ['float32', 'float32']
    """
    if _agree(args, dtype):
        return list(args)
    dtype = canonicalize_dtype(*args, dtype=dtype, inexact=inexact)
    return [None if x is None else jnp.asarray(x, dtype) for x in args]


def _agree(args, dtype) -> bool:
    """Whether all arguments are arrays of one dtype, as in nearly every call of every layer."""
    wanted = None
    for x in args:
        if x is None:
            continue
        if not isinstance(x, weft.Array) or x.weak_type:
            return False
        if wanted is None:
            wanted = x.dtype
            if wanted.kind not in "fc" or (dtype is not None and wanted != dtype):
                return False
        elif x.dtype != wanted:
            return False
    return wanted is not None
