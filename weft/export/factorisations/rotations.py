"""Eigenvalues of Hermitian matrices and singular values by Jacobi's rotations.

Of n columns, n / 2 pairs are rotated at once, and n - 1 rounds meet all pairs (Brent and Luk, "The
solution of singular-value and symmetric eigenvalue problems on multiprocessor arrays", 1985): what
is left of each pair is in one half of the matrix, and what is right of it in the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft import numpy as jnp
from weft.export.factorisations.columns import (
    adjoint,
    conj,
    count,
    eye,
    is_complex,
    poisoned,
    real,
    real_dtype,
    repeat,
    sign,
    square,
    unit_of,
)
from weft.export.factorisations.reflectors import applied, geqrf

# Sweeps over all pairs; six to twelve are enough, which is seen.
MAX_SWEEPS = 40


# --- rotations ------------------------------------------------------------------------------------


def _angles(alpha: Any, beta: Any, gamma: Any) -> tuple[Any, Any, Any]:
    """Tangent, cosine, and sine times phase of the rotations that make [[α, γ], [γ*, β]] diagonal;
    of the two, the smaller."""
    length = abs(gamma)
    none = length == 0
    safe = jnp.where(none, 1, length)
    theta = (beta - alpha) / (2 * safe)
    # from there on, the square and 1 are the square, or infinite
    far = abs(theta) > 1 / np.finfo(theta.dtype).eps
    near = jnp.where(far, 1, abs(theta))
    tangent = jnp.where(far, 0.5 / abs(theta), 1 / (near + lax.sqrt(near * near + 1)))
    tangent = jnp.where(none, 0, sign(theta) * tangent)
    cosine = lax.rsqrt(tangent * tangent + 1)
    phase = gamma / safe if is_complex(gamma) else sign(gamma)
    return tangent, cosine, tangent * cosine * phase


def _turned(left: Any, right: Any, cosine: Any, sine: Any) -> tuple[Any, Any]:
    """Pairs of columns rotated."""
    c, s = cosine[..., None, :], sine[..., None, :]
    return c * left - conj(s) * right, s * left + c * right


def _moved(left: Any, right: Any, axis: int = -1) -> tuple[Any, Any]:
    """The pairs of the next round: all but the first move one place on, around both halves."""
    half = left.shape[axis]
    if half == 1:
        return left, right
    axis %= left.ndim

    def part(x: Any, start: int, stop: int) -> Any:
        return lax.slice_in_dim(x, start, stop, axis=axis)

    joined = [part(left, 0, 1), part(right, 0, 1), part(left, 1, half - 1)]
    others = [part(right, 1, half), part(left, half - 1, half)]
    return lax.concatenate(joined, axis), lax.concatenate(others, axis)


def _halves(a: Any) -> tuple[Any, Any]:
    """Both halves of the columns, of which a column of zeros makes an even number."""
    n = a.shape[-1]
    half = (n + 1) // 2
    filled = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, 2 * half - n)])
    return filled[..., :half], filled[..., half:]


def _sweeps(half: int, step: Any, begin: Any, goes_on: Any) -> Any:
    """What is left of sweeps over all pairs, while any matrix of the stack needs one.

    ``goes_on`` says which do; each sweep begins with a look.
    """

    def condition(carry: Any) -> Any:
        return (carry[0] < MAX_SWEEPS) & jnp.any(goes_on(carry[1]))

    def sweep(carry: Any) -> Any:
        number, values = carry
        return number + np.int32(1), repeat(2 * half - 1, step, values)

    return lax.while_loop(condition, sweep, (lax.full((), 0, np.int32), begin))[1]


# --- eigenvalues ----------------------------------------------------------------------------------


def eigh(
    a: Any,
    *,
    lower: bool,
    sort_eigenvalues: bool,
    subset_by_index: Any,
    algorithm: Any = None,
    vectors: bool = True,
) -> list[Any]:
    """Eigenvectors and ascending eigenvalues; the other triangle isn't read."""
    n = a.shape[-1]
    a = jnp.tril(a) if lower else adjoint(jnp.triu(a))
    diagonal = jnp.where(eye(a, n, n) != 0, real(a).astype(a.dtype), 0)
    a = jnp.tril(a, -1)
    a = a + diagonal + adjoint(a)
    unit = unit_of(a, (-2, -1))
    values, basis = _eigh(a / unit, vectors)
    places = jnp.broadcast_to(count(n), values.shape)
    values, order = lax.sort((values, places), dimension=values.ndim - 1, num_keys=1)
    values = values * unit[..., 0]
    if basis is None:
        basis = eye(a, n, n)
    else:
        basis = jnp.take_along_axis(basis, order[..., None, :], -1)
    part = slice(*(subset_by_index or (0, n)))
    return poisoned(a, basis[..., part], values[..., part])


def _eigh(a: Any, vectors: bool) -> tuple[Any, Any]:
    """Eigenvalues in some order, and their vectors if these are wanted."""
    n = a.shape[-1]
    if n == 1:
        return real(a)[..., 0], eye(a, 1, 1) if vectors else None
    left, right = _halves(a)
    half = left.shape[-1]
    left, right = (jnp.swapaxes(x, -1, -2) for x in (left, right))
    quarters = [jnp.swapaxes(y, -1, -2) for x in (left, right) for y in _halves(x)]
    basis = list(_halves(eye(a, n, n))) if vectors else []
    unit = count(half)[:, None] == count(half)
    norm = lax.sqrt(square(a).sum((-2, -1)))
    least = 4 * np.finfo(norm.dtype).eps * norm

    def rest(values: Any) -> Any:
        """The norm of what is off the diagonal."""
        tl, _, tr, br = values[1:5]
        others = square(jnp.where(unit, 0, tl)) + square(jnp.where(unit, 0, br)) + 2 * square(tr)
        return lax.sqrt(others.sum((-2, -1)))

    def step(k: Any, values: Any) -> Any:
        bound, tl, bl, tr, br, *basis = values
        bound = jnp.where(k == 0, _bound(rest(values), norm, n), bound)
        alpha, beta, gamma = (jnp.where(unit, x, 0).sum(-1) for x in (tl, br, tr))
        turns = abs(gamma) > bound[..., None]
        alpha, beta = real(alpha), real(beta)
        gamma = jnp.where(turns, gamma, 0)
        tangent, cosine, sine = _angles(alpha, beta, gamma)
        tl, tr = _turned(tl, tr, cosine, sine)
        bl, br = _turned(bl, br, cosine, sine)
        c, s = cosine[..., :, None], sine[..., :, None]
        tl, bl = c * tl - s * bl, conj(s) * tl + c * bl
        tr, br = c * tr - s * br, conj(s) * tr + c * br
        shift = tangent * abs(gamma)
        tl = jnp.where(unit, (alpha - shift)[..., None].astype(a.dtype), tl)
        br = jnp.where(unit, (beta + shift)[..., None].astype(a.dtype), br)
        turned = unit & turns[..., None]
        tr, bl = jnp.where(turned, 0, tr), jnp.where(turned, 0, bl)
        (tl, tr), (bl, br) = _moved(tl, tr), _moved(bl, br)
        (tl, bl), (tr, br) = _moved(tl, bl, -2), _moved(tr, br, -2)
        if basis:
            basis = [*_moved(*_turned(*basis, cosine, sine))]
        return [bound, tl, bl, tr, br, *basis]

    begin = [jnp.zeros_like(norm), *quarters, *basis]
    _, tl, _, _, br, *basis = _sweeps(half, step, begin, lambda values: rest(values) > least)
    values = [real(jnp.where(unit, x, 0).sum(-1)) for x in (tl, br)]
    found = lax.concatenate(values, a.ndim - 2)[..., :n]
    return found, lax.concatenate(basis, a.ndim - 1)[..., :n] if vectors else None


def _bound(rest: Any, norm: Any, n: int) -> Any:
    """The size up to which a sweep leaves numbers as they are, of which a sweep makes no less.

    Between equal eigenvalues these would give rotations of any angle, which move larger numbers to
    places that the sweep has been to (van Kempen 1966).
    """
    small = 8 * rest * (rest / jnp.where(norm == 0, 1, norm))
    return jnp.maximum(jnp.minimum(small, rest / 8), 2 * np.finfo(norm.dtype).eps * norm) / n


# --- singular values ------------------------------------------------------------------------------


def svd(
    a: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, algorithm: Any = None
) -> list[Any]:
    """Descending singular values, then U and Vᴴ."""
    m, n = a.shape[-2:]
    if m == 0 or n == 0:
        widths = (m, n) if full_matrices else (0, 0)
        none = jnp.zeros((*a.shape[:-2], 0), real_dtype(a))
        return [none, *([eye(a, m, widths[0]), eye(a, widths[1], n)] if compute_uv else [])]
    unit = unit_of(a, (-2, -1))
    x = a / unit
    found = _tall_svd(x if m >= n else adjoint(x), full_matrices, compute_uv)
    values = found[0] * unit[..., 0]
    if not compute_uv:
        found = poisoned(a, values)
    else:
        u, v = found[1:] if m >= n else reversed(found[1:])
        found = poisoned(a, values, u, adjoint(v))
    if subset_by_index is None:
        return found
    start, stop = subset_by_index
    found[0] = found[0][..., start:stop]
    if compute_uv and not full_matrices:
        found[1:] = found[1][..., start:stop], found[2][..., start:stop, :]
    return found


def _tall_svd(a: Any, whole: bool, vectors: bool) -> list[Any]:
    """Singular values, U and V of no fewer rows than columns."""
    m, n = a.shape[-2:]
    if m > n:
        packed, taus = geqrf(a)
        products, basis = _rotated(jnp.triu(packed[..., :n, :]), vectors)
    else:
        products, basis = _rotated(a, vectors)
    units = unit_of(products, (-2,))
    values = lax.sqrt(square(products / units).sum(-2)) * units[..., 0, :]
    places = jnp.broadcast_to(count(n), values.shape)
    negative, order = lax.sort((-values, places), dimension=values.ndim - 1, num_keys=1)
    if not vectors:
        return [-negative]
    products, basis = (jnp.take_along_axis(x, order[..., None, :], -1) for x in (products, basis))
    # The products are U Σ. Reflectors find U of them even where Σ has zeros.
    again, factors = geqrf(products)
    signs = jnp.where(eye(a, n, n) != 0, real(again), 0).sum(-2)
    u = applied(again, factors, eye(a, n, n)) * sign(signs)[..., None, :]
    if m > n:
        width = m if whole else n
        rest = eye(a, m, width)
        corner = jnp.pad(u, [(0, 0)] * (a.ndim - 2) + [(0, m - n), (0, width - n)])
        inside = (count(m)[:, None] < n) & (count(width) < n)
        u = applied(packed, taus, jnp.where(inside, corner, rest))
    return [-negative, u, basis]


def _rotated(a: Any, vectors: bool) -> tuple[Any, Any]:
    """A V with orthogonal columns, and V if it is wanted (one-sided rotations, Hestenes 1958)."""
    n = a.shape[-1]
    info = np.finfo(real_dtype(a))
    tolerance = 4 * float(info.eps) * a.shape[-2] ** 0.5
    none = float(info.eps) ** 2 * square(a).sum((-2, -1))[..., None]
    if n == 1:
        return a, eye(a, 1, 1) if vectors else None

    def step(k: Any, values: Any) -> Any:
        some, left, right, *basis = values
        alpha, beta = square(left).sum(-2), square(right).sum(-2)
        gamma = (conj(left) * right).sum(-2)
        least = tolerance * lax.sqrt(alpha) * lax.sqrt(beta)
        # columns too short to have a direction stay as they are, and so do two of roundings
        long = (jnp.minimum(alpha, beta) > info.tiny / info.eps) & (jnp.maximum(alpha, beta) > none)
        turns = (abs(gamma) > least) & long
        _, cosine, sine = _angles(alpha, beta, jnp.where(turns, gamma, 0))
        halves = [*_moved(*_turned(left, right, cosine, sine))]
        if basis:
            basis = [*_moved(*_turned(*basis, cosine, sine))]
        return [((k > 0) & some) | turns.any(-1), *halves, *basis]

    halves = _halves(a)
    basis = _halves(eye(a, n, n)) if vectors else ()
    begin = [jnp.ones(a.shape[:-2], bool), *halves, *basis]
    _, *found = _sweeps(halves[0].shape[-1], step, begin, lambda values: values[0])
    joined = [lax.concatenate(found[i : i + 2], a.ndim - 1)[..., :n] for i in (0, 2)[: 1 + vectors]]
    return joined[0], joined[1] if vectors else None
