"""Polar decomposition by the QR-based dynamically weighted Halley iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.api.jit import jit
from weft.core.array import Array
from weft.core.trace import typeof
from weft.lax.elementwise import rsqrt, sqrt
from weft.lax.loops import while_loop
from weft.prims.arithmetic import abs_, add, conj, mul, square, sub
from weft.prims.bits import and_, not_
from weft.prims.convert import convert
from weft.prims.families import scalar
from weft.prims.linalg.cholesky import cholesky_p
from weft.prims.linalg.matrix import (
    INT32,
    broadcast,
    concatenate,
    eye,
    full,
    iota,
    is_complex,
    matmul,
    mH,
    mT,
    rows,
    sum_over,
    symmetrize,
    tril,
)
from weft.prims.linalg.qr import qr_p
from weft.prims.linalg.solve import triangular_solve
from weft.prims.reduce import reduce_max_p, reduce_sum_p
from weft.prims.selection import eq, gt, lt, select_n

# Above this weight the Cholesky step loses accuracy (Nakatsukasa and Higham, "Stable and efficient
# spectral divide and conquer algorithms", 2013).
_CHOLESKY_LIMIT = 100.0


def _weights(eps: float, limit: int) -> list[tuple[float, float, float]]:
    """The a, b, c of each step, from a lower bound of the smallest singular value."""
    found = []
    low = eps
    while low + 5 * eps < 1 and len(found) < limit:
        square_ = low * low
        d = (4 * (1 - square_) / square_**2) ** (1 / 3)
        root = (1 + d) ** 0.5
        a = root + (2 - d + 2 * (2 - square_) / (square_ * root)) ** 0.5
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        low = low * (a + b * square_) / (1 + c * square_)
        found.append((a, b, c))
    return found


def _combine(u: Any, z: Any, keep: float, turn: float) -> Any:
    dtype = typeof(u).dtype
    return add(mul(scalar(dtype, keep), u), mul(scalar(dtype, turn), z))


def _qr_step(u: Any, a: float, b: float, c: float) -> Any:
    """(b/c) U + (a - b/c)/√c Q₁ Q₂ᴴ, where [√c U; I] = [Q₁; Q₂] R."""
    m, n = np.shape(u)
    dtype = typeof(u).dtype
    tall = concatenate([mul(scalar(dtype, c**0.5), u), eye(dtype, n)], 0)
    q, _ = qr_p.bind(tall, pivoting=False, full_matrices=False, use_magma=None)
    turned = matmul(rows(q, 0, m), mH(rows(q, m, m + n)))
    return _combine(u, turned, b / c, (a - b / c) / c**0.5)


def _cholesky_step(u: Any, a: float, b: float, c: float) -> Any:
    """(b/c) U + (a - b/c) U (I + c Uᴴ U)⁻¹."""
    n = np.shape(u)[1]
    dtype = typeof(u).dtype
    gram = add(mul(scalar(dtype, c), matmul(mH(u), u)), eye(dtype, n))
    factor = tril(cholesky_p.bind(gram))
    half = triangular_solve(factor, mT(u), left_side=True, lower=True, conjugate_a=True)
    half = conj(half) if is_complex(half) else half
    turned = triangular_solve(
        factor, half, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )
    return _combine(u, mH(turned), b / c, a - b / c)


def _length(x: Any) -> Any:
    """The Frobenius norm."""
    return sqrt(reduce_sum_p.bind(square(abs_(x)), axes=(0, 1), out_sharding=None))


def _mask(x: Any, sizes: Any) -> Any:
    """``x`` with zeros outside its leading block of ``sizes``."""
    shape = np.shape(x)
    inside = None
    for axis, size in enumerate(sizes):
        here = lt(iota(shape, axis), convert(size, INT32))
        inside = here if inside is None else and_(inside, here)
    return select_n(inside, full(shape, typeof(x).dtype, 0), x)


def _qdwh(x: Any, max_iterations: int, eps: float) -> tuple[Any, ...]:
    dtype = typeof(x).dtype
    size = abs_(x)
    one = reduce_max_p.bind(sum_over(size, 0), axes=(0,))
    most = reduce_max_p.bind(sum_over(size, 1), axes=(0,))
    real = typeof(one).dtype
    scale = mul(rsqrt(one), rsqrt(most))
    scale = select_n(eq(one, scalar(real, 0)), scale, scalar(real, 1))
    u = mul(x, broadcast(convert(scale, dtype), np.shape(x), ()))
    tolerance = scalar(real, (5 * eps) ** (1 / 3))
    moving: Any = np.bool_(True)
    weights = _weights(eps, max_iterations)
    for a, b, c in weights:
        if c > _CHOLESKY_LIMIT:
            u = _qr_step(u, a, b, c)
        else:
            u, before = _cholesky_step(u, a, b, c), u
            moving = gt(_length(sub(u, before)), tolerance)

    def unfinished(state: Any) -> Any:
        count, _, moving = state
        return and_(moving, lt(count, scalar(INT32, max_iterations)))

    def step(state: Any) -> Any:
        count, u, _ = state
        after = _cholesky_step(u, 3.0, 1.0, 3.0)
        moving = gt(_length(sub(after, u)), tolerance)
        return add(count, scalar(INT32, 1)), after, moving

    state = (scalar(INT32, len(weights)), u, moving)
    count, u, moving = while_loop(unfinished, step, state)
    # One Newton-Schulz step makes U unitary to working accuracy.
    u = _combine(u, matmul(u, matmul(mH(u), u)), 1.5, -0.5)
    return u, symmetrize(matmul(mH(u), x)), count, not_(moving)


_staged = jit(_qdwh, static_argnums=(1, 2))


def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Return the polar decomposition X = U H, the number of steps and whether they converged.

    Args:
        x: Matrix of shape (m, n), m >= n, floating-point or complex.
        is_hermitian: Your promise that ``x`` is Hermitian.
        max_iterations: Most steps to take; 10 by default.
        eps: Accuracy at which to stop; by default that of the dtype.
        dynamic_shape: Pair of sizes of the leading block of ``x`` that counts; the rest is ignored.

    Returns:
        Tuple of U with orthonormal columns, H, which is Hermitian and positive semidefinite, the
        number of steps, and a boolean.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> u, h, steps, converged = lax.linalg.qdwh(jnp.array([[0., -2.], [3., 0.]]))
        >>> bool(converged), bool(jnp.allclose(h, jnp.array([[3., 0.], [0., 2.]]), atol=1e-5))
        (True, True)
    """
    m, n = np.shape(x)
    if m < n:
        raise ValueError(f"qdwh needs at least as many rows as columns, got shape {(m, n)}")
    if dynamic_shape is not None:
        x = _mask(x, dynamic_shape)
    limit = 10 if max_iterations is None else int(max_iterations)
    accuracy = float(dtypes.finfo(typeof(x).dtype).eps) if eps is None else float(eps)
    return _staged(x, limit, accuracy)
