"""What factorisations are written with: loops that count, columns and rows, units, Hermitian
transposes. All work on stacks of real or complex matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft import numpy as jnp


def repeat(length: int, step: Any, begin: Any) -> Any:
    """What is carried after a loop over columns, whose numbers are int32 whatever the knobs say."""

    def body(carry: Any, _: Any) -> Any:
        k, values = carry
        return (lax.add(k, np.int32(1)), step(k, values)), None

    if length == 0:
        return begin
    return lax.scan(body, (lax.full((), 0, np.int32), begin), None, length=length)[0][1]


def count(n: int) -> Any:
    """The numbers below n, in int32."""
    return lax.iota(np.int32, n)


def column_at(a: Any, k: Any) -> Any:
    """One column of each matrix."""
    return lax.dynamic_index_in_dim(a, k, -1, keepdims=False)


def row_at(a: Any, k: Any) -> Any:
    """One row of each matrix."""
    return lax.dynamic_index_in_dim(a, k, a.ndim - 2, keepdims=False)


def is_complex(a: Any) -> bool:
    """Whether the elements are complex."""
    return bool(np.dtype(a.dtype).kind == "c")


def conj(a: Any) -> Any:
    """The complex conjugate; real arrays as they are."""
    return lax.conj(a) if is_complex(a) else a


def real(a: Any) -> Any:
    """The real part; real arrays as they are."""
    return lax.real(a) if is_complex(a) else a


def adjoint(a: Any) -> Any:
    """The Hermitian transpose of each matrix."""
    return conj(jnp.swapaxes(a, -1, -2))


def size(a: Any) -> Any:
    """|Re a| + |Im a|, by which LAPACK chooses pivots."""
    return abs(lax.real(a)) + abs(lax.imag(a)) if is_complex(a) else abs(a)


def sign(a: Any) -> Any:
    """1 or -1, of zeros one of them."""
    return jnp.copysign(jnp.ones_like(a), a)


def square(a: Any) -> Any:
    """|a|², which is real."""
    return lax.real(a) ** 2 + lax.imag(a) ** 2 if is_complex(a) else a * a


def eye(a: Any, m: int, n: int) -> Any:
    """Identity matrices of m rows and n columns, of a's dtype and as many as a has."""
    unit = (count(m)[:, None] == count(n)).astype(a.dtype)
    return jnp.broadcast_to(unit, (*a.shape[:-2], m, n))


def diagonal(a: Any, offset: int = 0) -> Any:
    """The diagonal of each square matrix that begins ``offset`` columns right of the first."""
    n = a.shape[-1]
    there = count(n)[:, None] + np.int32(offset) == count(n)
    found = jnp.where(there, a, 0).sum(-1 if offset >= 0 else -2)
    return found[..., : n - abs(offset)]


def unit_of(a: Any, axes: tuple[int, ...]) -> Any:
    """The largest power of two up to the largest number along some axes, which are kept: division
    by it is exact, and squares of what is left neither overflow nor all vanish."""
    info = np.finfo(real_dtype(a))
    largest = size(a).max(axes, keepdims=True)
    whole = np.dtype(f"u{info.dtype.itemsize}")
    mask = np.array(np.inf, info.dtype).view(whole)[()]
    bits = lax.bitcast_convert_type(largest, whole)
    power = lax.bitcast_convert_type(lax.bitwise_and(bits, lax.full_like(bits, mask)), info.dtype)
    power = jnp.maximum(power, info.tiny)
    return jnp.where(power < np.inf, power, 1)  # NaNs and infinities have no power


def real_dtype(a: Any) -> np.dtype:
    """The dtype of the real part."""
    dtype = np.dtype(a.dtype)
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def poisoned(a: Any, *results: Any) -> list[Any]:
    """The results, NaN for each matrix that has a NaN or an infinity."""
    finite = (size(a) < np.inf).all((-2, -1))
    return [
        jnp.where(jnp.expand_dims(finite, tuple(range(finite.ndim, x.ndim))), x, np.nan)
        for x in results
    ]
