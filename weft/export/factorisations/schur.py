"""Schur forms by the QR algorithm with two shifts at a time, as LAPACK's hqr, and what follows from
them: eigenvalues and eigenvectors of general matrices, and triangular Sylvester equations.

All matrices of a stack go on together. A sweep is the same loop for all of them, and a matrix takes
part between the first and the last row of the block that it works on (Golub and Van Loan, "Matrix
Computations", 4th edition, 7.5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft import numpy as jnp
from weft.export.factorisations.columns import (
    adjoint,
    column_at,
    conj,
    count,
    diagonal,
    eye,
    is_complex,
    poisoned,
    real_dtype,
    repeat,
    row_at,
    sign,
    size,
    square,
    unit_of,
)
from weft.export.factorisations.reflectors import applied, hessenberg, reflector

# Sweeps for each row of a matrix; two are usual, and LAPACK gives up after 30.
MAX_SWEEPS = 30
# Sweeps without progress after which shifts are chosen in another way.
STALLED = 10


def schur(
    a: Any, *, compute_schur_vectors: bool, sort_eig_vals: bool = False, select_callable: Any = None
) -> list[Any]:
    """The Schur form, and its basis if it is wanted."""
    unit = unit_of(_finite(a), (-2, -1))
    form, basis = _schur(_finite(a) / unit)
    return poisoned(a, form * unit, basis)[: 1 + compute_schur_vectors]


def eig(
    a: Any,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    **params: Any,
) -> list[Any]:
    """Eigenvalues, then left and right eigenvectors as asked for."""
    unit = unit_of(_finite(a), (-2, -1))
    form, basis = _schur(_finite(a) / unit)
    values = _eigenvalues(form)
    upper, basis = _triangular(form, basis)
    found = [values * unit[..., 0]]
    if compute_left_eigenvectors:
        vectors = _flipped(_upper_vectors(_flipped(adjoint(upper))))
        found.append(_normalised(_product(basis, vectors), values, is_complex(a)))
    if compute_right_eigenvectors:
        vectors = _product(basis, _upper_vectors(upper))
        found.append(_normalised(vectors, values, is_complex(a)))
    return poisoned(a, *found)


def triangular_sylvester(a: Any, b: Any, c: Any, *, adjoint: bool) -> Any:
    """X of A X + X B = C, or of Aᴴ X + X Bᴴ = C; column by column, between triangular matrices."""
    left, u = _triangular(a, eye(a, *a.shape[-2:]))
    right, v = _triangular(b, eye(b, *b.shape[-2:]))
    inner = _product(_product(_adjoint(u), c.astype(u.dtype)), v)
    if adjoint:
        left, right = _flipped(_adjoint(left)), _flipped(_adjoint(right))
        found = _flipped(_between_upper(left, right, _flipped(inner)))
    else:
        found = _between_upper(left, right, inner)
    found = _product(_product(u, found), _adjoint(v))
    return found if is_complex(c) else lax.real(found)


_adjoint = adjoint


def _finite(a: Any) -> Any:
    """The matrices of a stack, zeros for those with a NaN or an infinity."""
    return jnp.where((size(a) < np.inf).all((-2, -1), keepdims=True), a, 0)


def _product(a: Any, b: Any) -> Any:
    step = lambda k, total: total + column_at(a, k)[..., :, None] * row_at(b, k)[..., None, :]
    begin = jnp.zeros((*a.shape[:-1], b.shape[-1]), a.dtype)
    return repeat(a.shape[-1], step, begin)


def _flipped(a: Any) -> Any:
    """Rows and columns in reverse order: the adjoint of an upper triangle is one again."""
    return lax.rev(a, (a.ndim - 2, a.ndim - 1))


def _wide(a: Any) -> np.dtype:
    return np.dtype(f"c{2 * real_dtype(a).itemsize}")


# --- the QR algorithm -----------------------------------------------------------------------------


def _schur(a: Any) -> tuple[Any, Any]:
    """The Schur form and its basis of matrices whose numbers are at most about 1; NaN where the
    iteration does not end."""
    n = a.shape[-1]
    if n == 1:
        return a, eye(a, 1, 1)
    packed, taus = hessenberg(a)
    inner = applied(packed[..., 1:, :-1], taus, eye(a, n - 1, n - 1))
    whole = [(0, 0)] * (a.ndim - 2)
    basis = jnp.pad(inner, [*whole, (1, 0), (1, 0)])
    basis = jnp.where((count(n)[:, None] == 0) & (count(n) == 0), 1, basis)
    form = jnp.triu(packed, -1)
    if n > 2:
        norm = lax.sqrt(square(form).sum((-2, -1)))[..., None]
        # reflectors of three rows end two rows behind the last
        form = jnp.pad(form, [*whole, (0, 2), (0, 2)])
        basis = jnp.pad(basis, [*whole, (0, 0), (0, 2)])
        form, basis, ended = _iterated(form, basis, norm, n)
        form, basis = form[..., :n, :n], basis[..., :n]
        form, basis = (jnp.where(ended[..., None, None], x, np.nan) for x in (form, basis))
    solve = _complex_block if is_complex(a) else _real_block
    return _blocks_solved(form, basis, solve)


def _iterated(form: Any, basis: Any, norm: Any, n: int) -> tuple[Any, Any, Any]:
    """Sweeps until no block has more than two rows, and which matrices got there."""
    places = count(n - 1)
    below = (count(n + 2)[:, None] == count(n + 2) + 1) & (count(n + 2) < n - 1)
    eps = np.finfo(norm.dtype).eps

    def look(form: Any) -> tuple[Any, Any, Any]:
        """Which rows are joined to the next, and the first and last row of the last block of three
        or more; -1 for both where there is none."""
        lengths = size(diagonal(form))[..., :n]
        beside = lengths[..., :-1] + lengths[..., 1:]
        joined = size(diagonal(form, -1))[..., : n - 1] > eps * jnp.where(beside == 0, norm, beside)
        three = joined[..., :-1] & joined[..., 1:]
        last = jnp.where(three, count(n - 2) + 2, -1).max(-1)
        cut = ~joined & (places < last[..., None])
        first = jnp.where(cut, places + 1, 0).max(-1)
        return joined, jnp.where(last < 0, -1, first), last

    def condition(carry: Any) -> Any:
        number, form, _, _, _ = carry
        return (number < MAX_SWEEPS * n) & (look(form)[2] >= 0).any()

    def sweep(carry: Any) -> Any:
        number, form, basis, stalled, before = carry
        joined, first, last = look(form)
        whole = jnp.pad(joined, [(0, 0)] * (joined.ndim - 1) + [(0, 3)])
        form = jnp.where(below & ~whole[..., None, :], 0, form)
        stalled = jnp.where(last == before, stalled + np.int32(1), np.int32(0))
        start = _first_column(form, first, last, stalled)
        form, basis = _swept(form, basis, start, first, last, n)
        return number + np.int32(1), form, basis, stalled, last

    none = jnp.full(norm.shape[:-1], -1, np.int32)
    begin = lax.full((), 0, np.int32), form, basis, jnp.zeros_like(none), none
    _, form, basis, _, _ = lax.while_loop(condition, sweep, begin)
    joined, _, last = look(form)
    whole = jnp.pad(joined, [(0, 0)] * (joined.ndim - 1) + [(0, 3)])
    return jnp.where(below & ~whole[..., None, :], 0, form), basis, last < 0


def _first_column(form: Any, first: Any, last: Any, stalled: Any) -> Any:
    """Three numbers in proportion to the first column of (H - σ)(H - τ), σ and τ the shifts."""
    first, last = jnp.maximum(first, 0), jnp.maximum(last, 2)
    diagonals = {offset: diagonal(form, offset) for offset in (-1, 0, 1)}

    def at(offset: int, row: Any) -> Any:
        found = jnp.take_along_axis(diagonals[offset], row[..., None], -1, mode="clip")
        return found[..., 0]

    a, d = at(0, last - 1), at(0, last)
    b, c = at(1, last - 1), at(-1, last - 1)
    again = (stalled % STALLED == STALLED - 1) & (stalled > 0)
    from_top = again & (stalled % (2 * STALLED) == 2 * STALLED - 1)
    bottom = size(c) + size(at(-1, last - 2))
    top = size(at(-1, first)) + size(at(-1, first + 1))
    other = jnp.where(from_top, top, bottom)
    near = jnp.where(from_top, at(0, first), d) + 0.75 * other
    a, d = (jnp.where(again, near, x) for x in (a, d))
    b, c = jnp.where(again, -0.4375 * other, b), jnp.where(again, other.astype(c.dtype), c)
    a, d, b, c = _shifts(a, b, c, d)
    # (H - σ)(H - τ) with σ + τ = a and (h - σ)(h - τ) of the first number h
    h, right, under = at(0, first), at(1, first), at(-1, first)
    following, lower = at(0, first + 1), at(-1, first + 1)
    if is_complex(form):
        parts = size(h - d) + size(under)
        scale = jnp.where(parts == 0, 1, parts)
        product = (h - b) * ((h - d) / scale)
    else:
        parts = abs(h - d) + abs(c) + abs(under)
        scale = jnp.where(parts == 0, 1, parts)
        product = (h - d) * ((h - d) / scale) + c * (c / scale)
    under = under / scale
    return jnp.stack([under * right + product, under * (h + following - a), under * lower], axis=-1)


def _shifts(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    """The sum of both eigenvalues of [[a, b], [c, d]], and both of them; of real matrices the real
    part and the imaginary part, and for two real ones twice the one that is next to d."""
    scale = size(a) + size(b) + size(c) + size(d)
    scale = jnp.where(scale == 0, 1, scale)
    a, b, c, d = (x / scale for x in (a, b, c, d))
    middle = (a + d) / 2
    below = (a - middle) * (d - middle) - b * c
    if is_complex(a):
        root = lax.sqrt(-below)
        low, high = (middle - root) * scale, (middle + root) * scale
        return low + high, high, low, low
    root = lax.sqrt(abs(below))
    nearer = jnp.where(abs(middle - root - d) <= abs(middle + root - d), -root, root)
    part = jnp.where(below >= 0, middle, middle + nearer) * scale
    turn = jnp.where(below >= 0, root, 0) * scale
    return 2 * part, part, part, turn


def _swept(form: Any, basis: Any, start: Any, first: Any, last: Any, n: int) -> tuple[Any, Any]:
    """One sweep: a reflector of three rows for each row of the block."""
    across = count(form.shape[-1])

    def step(k: Any, carry: Any) -> Any:
        form, basis, x = carry
        within = ((k >= first) & (k < last))[..., None]
        begins = (k == first)[..., None]
        x = jnp.where(begins, start, x)
        x = jnp.where((count(3) == 2) & (k + 2 > last)[..., None], 0, x)
        v, tau, head = reflector(jnp.where(within, x, 0), np.int32(0))
        v = v[..., :, None]
        tau = jnp.where(within, tau, 0)[..., None]
        rows = lax.dynamic_slice_in_dim(form, k, 3, form.ndim - 2)
        rows = rows - conj(tau) * v * (conj(v) * rows).sum(-2, keepdims=True)
        ended = jnp.where(count(3) == 0, head, 0)[..., :, None]
        here = (across == k - 1) & (within & ~begins)[..., None]
        rows = jnp.where(here, ended, rows)
        form = lax.dynamic_update_slice_in_dim(form, rows, k, form.ndim - 2)
        v = jnp.swapaxes(v, -1, -2)

        def turned(x: Any) -> tuple[Any, Any]:
            columns = lax.dynamic_slice_in_dim(x, k, 3, x.ndim - 1)
            columns = columns - tau * (columns * v).sum(-1, keepdims=True) * conj(v)
            return lax.dynamic_update_slice_in_dim(x, columns, k, x.ndim - 1), columns

        form, columns = turned(form)
        basis, _ = turned(basis)
        x = lax.dynamic_slice_in_dim(columns[..., 0], k + 1, 3, columns.ndim - 2)
        return form, basis, x

    return repeat(n - 1, step, (form, basis, start))[:2]


# --- blocks of two rows ---------------------------------------------------------------------------


def _blocks_solved(form: Any, basis: Any, solve: Any) -> tuple[Any, Any]:
    """All blocks of two rows in their final form, which ``solve`` says with the turn that leads
    there: [[c, -s*], [s, c*]] from the right."""
    if form.shape[-1] < 2:
        return form, basis

    def step(k: Any, carry: Any) -> Any:
        form, basis = carry
        rows = lax.dynamic_slice_in_dim(form, k, 2, form.ndim - 2)
        block = lax.dynamic_slice_in_dim(rows, k, 2, form.ndim - 1)
        done, cosine, sine = solve(block)
        cosine, sine = cosine[..., None, None], sine[..., None, None]
        upper, lower = rows[..., :1, :], rows[..., 1:, :]
        rows = [conj(cosine) * upper + conj(sine) * lower, cosine * lower - sine * upper]
        form = lax.dynamic_update_slice_in_dim(form, jnp.concatenate(rows, -2), k, form.ndim - 2)

        def turned(x: Any) -> Any:
            columns = lax.dynamic_slice_in_dim(x, k, 2, x.ndim - 1)
            left, right = columns[..., :1], columns[..., 1:]
            both = [left * cosine + right * sine, right * conj(cosine) - left * conj(sine)]
            return lax.dynamic_update_slice_in_dim(x, jnp.concatenate(both, -1), k, x.ndim - 1)

        form, basis = turned(form), turned(basis)
        start = [np.int32(0)] * (form.ndim - 2)
        return lax.dynamic_update_slice(form, done, [*start, k, k]), basis

    return repeat(form.shape[-1] - 1, step, (form, basis))


def _entries(block: Any) -> tuple[Any, Any, Any, Any]:
    return block[..., 0, 0], block[..., 0, 1], block[..., 1, 0], block[..., 1, 1]


def _block(a: Any, b: Any, c: Any, d: Any) -> Any:
    return jnp.stack([jnp.stack([a, b], -1), jnp.stack([c, d], -1)], -2)


def _complex_block(block: Any) -> tuple[Any, Any, Any]:
    """An upper triangle."""
    a, b, c, d = _entries(block)
    none = c == 0
    half = (a - d) / 2
    root = lax.sqrt(half * half + b * c)
    along = lax.real(conj(half) * root) >= 0
    x = half + jnp.where(along, root, -root)
    length = lax.sqrt(square(x) + square(c))
    length = jnp.where(none | (length == 0), 1, length)
    cosine, sine = jnp.where(none, 1, x / length), jnp.where(none, 0, c / length)
    upper = conj(cosine) * a + conj(sine) * c, conj(cosine) * b + conj(sine) * d
    lower = cosine * c - sine * a, cosine * d - sine * b
    first = upper[0] * cosine + upper[1] * sine
    second = upper[1] * conj(cosine) - upper[0] * conj(sine)
    fourth = lower[1] * conj(cosine) - lower[0] * conj(sine)
    return _block(first, second, jnp.zeros_like(c), fourth), cosine, sine


def _real_block(block: Any) -> tuple[Any, Any, Any]:
    """An upper triangle, or for complex eigenvalues equal numbers on the diagonal and those beside
    of different signs (LAPACK's lanv2)."""
    a, b, c, d = _entries(block)
    one, zero = jnp.ones_like(a), jnp.zeros_like(a)
    none, only = c == 0, (c != 0) & (b == 0)
    equal = ~none & ~only & (a == d) & (sign(b) != sign(c))
    half = (a - d) / 2
    larger = jnp.maximum(abs(b), abs(c))
    smaller = jnp.minimum(abs(b), abs(c)) * sign(b) * sign(c)
    scale = jnp.maximum(abs(half), larger)
    scale = jnp.where(scale == 0, 1, scale)
    under = half / scale * half + larger / scale * smaller
    apart = under >= 4 * np.finfo(a.dtype).eps * scale
    # two real eigenvalues
    z = half + sign(half) * lax.sqrt(scale) * lax.sqrt(jnp.where(apart, under, 0))
    z = jnp.where(z == 0, 1, z)
    length = _length(c, z)
    real = d + z, b - c, zero, d - larger / z * smaller, z / length, c / length
    # complex ones, or nearly equal ones
    total = b + c
    length = _length(total, a - d)
    length = jnp.where(length == 0, 1, length)
    cosine = lax.sqrt((1 + abs(total) / length) / 2)
    sine = -(half / (length * cosine)) * sign(total)
    upper = a * cosine + b * sine, b * cosine - a * sine
    lower = c * cosine + d * sine, d * cosine - c * sine
    middle = ((upper[0] * cosine + lower[0] * sine) + (lower[1] * cosine - upper[1] * sine)) / 2
    beside = upper[1] * cosine + lower[1] * sine
    under = lower[0] * cosine - upper[0] * sine
    turned = middle, beside, under, middle, cosine, sine
    # equal after all: one more turn makes c zero
    left, right = lax.sqrt(abs(beside)), lax.sqrt(abs(under))
    shift = sign(under) * left * right
    whole = abs(beside + under)
    inverse = lax.rsqrt(jnp.where(whole == 0, 1, whole))
    more, rest = left * inverse, right * inverse
    split = (
        middle + shift, beside - under, zero, middle - shift,
        cosine * more - sine * rest, cosine * rest + sine * more,
    )  # fmt: skip
    swapped = middle, -under, zero, middle, -sine, cosine
    near = (under != 0) & (beside != 0) & (sign(beside) == sign(under))
    lone = (under != 0) & (beside == 0)
    cases = [
        (none | equal, (a, b, c, d, one, zero)),
        (only, (d, -c, zero, a, zero, one)),
        (apart, real),
        (near, split),
        (lone, swapped),
    ]
    found = turned
    for chosen, values in reversed(cases):
        found = tuple([jnp.where(chosen, x, y) for x, y in zip(values, found, strict=True)])
    return _block(*found[:4]), found[4], found[5]


def _length(x: Any, y: Any) -> Any:
    """sqrt(x² + y²) of numbers whose squares may vanish."""
    larger = jnp.maximum(abs(x), abs(y))
    safe = jnp.where(larger == 0, 1, larger)
    return larger * lax.sqrt((x / safe) ** 2 + (y / safe) ** 2)


def _triangular(form: Any, basis: Any) -> tuple[Any, Any]:
    """A Schur form as a complex upper triangle, and the basis that belongs to it."""
    if is_complex(form):
        return form, basis
    wide = _wide(form)
    return _blocks_solved(form.astype(wide), basis.astype(wide), _complex_block)


# --- eigenvalues, vectors, equations --------------------------------------------------------------


def _eigenvalues(form: Any) -> Any:
    """Those of a block of two rows are its diagonal ± i sqrt(-b c)."""
    values = diagonal(form)
    if is_complex(form):
        return values
    none = [(0, 0)] * (values.ndim - 1)
    turn = lax.sqrt(abs(diagonal(form, -1))) * lax.sqrt(abs(diagonal(form, 1)))
    return lax.complex(values, jnp.pad(turn, [*none, (0, 1)]) - jnp.pad(turn, [*none, (1, 0)]))


def _safe(number: Any, least: Any) -> Any:
    """A divisor, no smaller than LAPACK lets it be."""
    return jnp.where(size(number) < least, least.astype(number.dtype), number)


def _upper_vectors(upper: Any) -> Any:
    """Eigenvectors of upper triangles, in columns whose largest number is about 1."""
    n = upper.shape[-1]
    at = count(n)
    info = np.finfo(real_dtype(upper))
    values = diagonal(upper)
    least = jnp.maximum(float(info.eps) * size(values), float(info.tiny / info.eps) * n)

    def step(k: Any, x: Any) -> Any:
        i = n - 1 - k
        right = jnp.where(at > i, row_at(upper, i), 0)
        found = -(right[..., :, None] * x).sum(-2)
        found = found / _safe(column_at(values, i)[..., None] - values, least)
        found = jnp.where(at > i, found, 0)
        largest = size(found)
        shrink = 1 / jnp.maximum(largest, 1)
        x = x * shrink[..., None, :]
        found = jnp.where(at == i, 1, found * shrink)
        return jnp.where((at == i)[:, None], found[..., None, :], x)

    return repeat(n, step, jnp.zeros_like(upper))


def _normalised(vectors: Any, values: Any, complex_matrix: bool) -> Any:
    """Columns of length 1 whose largest number is real; those of real matrices are real, or come in
    conjugate pairs, where their eigenvalues do."""
    vectors = _turned_real(vectors)
    if complex_matrix:
        return vectors
    turn = lax.imag(values)[..., None, :]
    plain = jnp.where(turn == 0, lax.real(vectors), vectors)
    plain = plain / lax.sqrt(square(plain).sum(-2, keepdims=True))
    before = jnp.concatenate([plain[..., -1:], plain[..., :-1]], -1)
    return jnp.where(turn < 0, conj(before), plain)


def _turned_real(vectors: Any) -> Any:
    vectors = vectors / unit_of(vectors, (-2,))
    squares = square(vectors)
    largest = lax.argmax(squares, squares.ndim - 2, np.int32)[..., None, :]
    chosen = count(vectors.shape[-2])[:, None] == largest
    first = jnp.where(chosen, vectors, 0).sum(-2, keepdims=True)
    length = lax.sqrt(jnp.where(chosen, squares, 0).sum(-2, keepdims=True))
    vectors = vectors * (conj(first) / length)
    vectors = jnp.where(chosen, lax.real(vectors), vectors)
    return vectors / lax.sqrt(square(vectors).sum(-2, keepdims=True))


def _between_upper(a: Any, b: Any, c: Any) -> Any:
    """X of A X + X B = C for upper triangles: column after column, each from its last row up."""
    m, n = c.shape[-2:]
    rows, columns = count(m), count(n)
    info = np.finfo(real_dtype(c))
    largest = jnp.maximum(size(a).max((-2, -1)), size(b).max((-2, -1)))[..., None]
    least = jnp.maximum(float(info.eps) * largest, float(info.tiny / info.eps) * m * n)
    left = diagonal(a)

    def column(j: Any, x: Any) -> Any:
        right = jnp.where(columns < j, column_at(b, j), 0)
        rest = column_at(c, j) - (x * right[..., None, :]).sum(-1)
        divisors = _safe(left + column_at(diagonal(b), j)[..., None], least)

        def row(k: Any, rest: Any) -> Any:
            i = m - 1 - k
            found = (column_at(rest, i) / column_at(divisors, i))[..., None]
            moved = rest - column_at(a, i) * found
            return jnp.where(rows < i, moved, jnp.where(rows == i, found, rest))

        found = repeat(m, row, rest)
        return jnp.where(columns == j, found[..., :, None], x)

    return repeat(n, column, jnp.zeros_like(c))
