"""Random bits below keys: the generators under lax's names. ``weft.random`` is what most want."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.api.placement import result_sharding
from weft.core.array import Array
from weft.lax.shape import canonical_shape
from weft.prims.bit_generator import RandomAlgorithm, rng_bit_generator_p, rng_uniform_p


def rng_bit_generator(
    key: Any,
    shape: Any,
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """Return random unsigned integers and the state that follows.

    Args:
        key: State of the generator: an array of uint32 of shape (4,), or of uint64 of shape (2,).
        shape: Shape of the random array.
        dtype: Unsigned integer dtype of the random array.
        algorithm: A ``RandomAlgorithm``.
        out_sharding: Sharding of the random array, for meshes with explicit axes.

    Returns:
        Pair of the next key and an array of random bits. ``weft.random.bits`` is what most programs
        want.

    Example:
        >>> from weft import lax
        >>> import numpy as np
        >>> key, bits = lax.rng_bit_generator(np.array([1, 2, 3, 4], np.uint32), (3,))
        >>> key
        Array([1, 2, 4, 4], dtype=uint32)
    """
    key, bits = rng_bit_generator_p.bind(
        key,
        shape=canonical_shape(shape),
        dtype=dtypes.check_user_dtype(dtype, "rng_bit_generator"),
        algorithm=algorithm,
        out_sharding=result_sharding(out_sharding, "rng_bit_generator"),
    )
    return key, bits


def rng_uniform(a: Any, b: Any, shape: Any) -> Array:
    """Return random numbers between two bounds from a generator with hidden state.

    Args:
        a: Lower bound, a scalar.
        b: Upper bound, which is not included, of the same dtype.
        shape: Shape of the result.

    Returns:
        Array with other numbers in every call. For results that can be repeated use
        ``weft.random.uniform``.

    Example:
        >>> from weft import lax
        >>> lax.rng_uniform(0.0, 1.0, (3,)).shape
        (3,)
    """
    return rng_uniform_p.bind(a, b, shape=canonical_shape(shape))
