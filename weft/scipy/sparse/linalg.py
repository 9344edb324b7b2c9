"""Iterative solvers of linear systems: ``weft.scipy.sparse.linalg``.

Unknowns are pytrees of arrays; inside they are one vector. Derivatives are those of the solution,
not of the iteration.
"""

from __future__ import annotations

import sys as _sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax, tree
from weft.base.traceback import expose as _expose
from weft.core.array import Array
from weft.numpy import promotion

__all__ = ["bicgstab", "cg", "gmres"]

Vector = Array
Map = Callable[[Any], Any]


def _operator(name: str, a: Any) -> Map:
    """A linear map as a function."""
    if callable(a):
        return a
    if not (hasattr(a, "shape") and hasattr(a, "__matmul__")):
        raise TypeError(
            f"{name} takes a linear map as a function, a matrix, or an object with shape and"
            f" __matmul__, not {type(a)}"
        )
    if len(a.shape) != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"{name} needs a square matrix, got shape {a.shape}")
    if not isinstance(a, Array | np.ndarray):
        return a.__matmul__
    return partial(jnp.matmul, a, precision=lax.Precision.HIGHEST)


class _Layout:
    """How a pytree of arrays lies in one vector."""

    def __init__(self, like: Any, start: Any, keeps_weak: bool) -> None:
        leaves, self.treedef = tree.flatten(like)
        self.shapes = [leaf.shape for leaf in leaves]
        given = [*leaves, *tree.leaves(start)]
        weak = keeps_weak and all(dtypes.is_weakly_typed(x) for x in given)
        self.kinds = [(leaf.dtype, weak) for leaf in leaves]

    def pack(self, value: Any) -> Vector:
        leaves = promotion.promote_dtypes_inexact(*tree.leaves(value))
        return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])

    def unpack(self, vector: Vector) -> Any:
        found, start = [], 0
        for shape, (dtype, weak) in zip(self.shapes, self.kinds, strict=True):
            stop = start + int(np.prod(shape, dtype=int))
            leaf = vector[start:stop].reshape(shape)
            found.append(promotion.as_array(promotion.convert_operand(leaf, dtype, weak)))
            start = stop
        return tree.unflatten(self.treedef, found)


def _dot(x: Vector, y: Vector) -> Array:
    return jnp.vdot(x, y, precision=lax.Precision.HIGHEST)


def _square(x: Vector) -> Array:
    """The squared norm, real."""
    return _dot(x, x).real


def _limit(b: Vector, tol: Any, atol: Any) -> Array:
    """The squared norm of a residual that is small enough."""
    return jnp.maximum(jnp.square(tol) * _square(b), jnp.square(atol)).astype(_square(b).dtype)


def _cg(a: Map, b: Vector, x0: Vector, m: Map, limit: Array, maxiter: int) -> Vector:
    """Conjugate gradients (Hestenes and Stiefel, 1952), preconditioned."""

    def unfinished(state: Any) -> Array:
        _, r, _, _, k = state
        return (_square(r) > limit) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, p, gamma, k = state
        image = a(p)
        alpha = gamma / _dot(p, image).real.astype(gamma.dtype)
        factor = alpha.astype(p.dtype)  # of a complex vector too
        x, r = x + factor * p, r - factor * image
        z = m(r)
        following = _dot(r, z).real
        return x, r, z + (following / gamma).astype(p.dtype) * p, following, k + 1

    r = b - a(x0)
    z = m(r)
    return lax.while_loop(unfinished, step, (x0, r, z, _dot(r, z).real, 0))[0]


def _bicgstab(a: Map, b: Vector, x0: Vector, m: Map, limit: Array, maxiter: int) -> Vector:
    """Stabilized biconjugate gradients (van der Vorst, 1992), preconditioned."""

    def unfinished(state: Any) -> Array:
        *_, k, r = state
        # k is below 0 after a breakdown
        return (_square(r) > limit) & (k < maxiter) & (k >= 0)

    def step(state: Any) -> Any:
        x, shadow, alpha, omega, rho, p, image, k, r = state
        following = _dot(shadow, r)
        p = r + following / rho * alpha / omega * (p - omega * image)
        smoothed = m(p)
        image = a(smoothed)
        alpha = following / _dot(shadow, image)
        s = r - alpha * image
        enough = _square(s) < limit
        other = m(s)
        t = a(other)
        size = _dot(t, t)  # 0 where s is, as after a step that solves the system
        omega = jnp.where(size == 0, 0, _dot(t, s) / jnp.where(size == 0, 1, size))
        x = jnp.where(enough, x + alpha * smoothed, x + alpha * smoothed + omega * other)
        r = jnp.where(enough, s, s - omega * t)
        broken = (omega == 0) | (alpha == 0)
        k = jnp.where(broken & ~enough, -11, jnp.where(following == 0, -10, k + 1))
        return x, shadow, alpha, omega, following, p, image, k, r

    r = b - a(x0)
    one = jnp.ones((), r.dtype)
    zero = jnp.zeros_like(r)
    start = (x0, r, one, one, one, zero, zero, jnp.zeros((), int), r)
    return lax.while_loop(unfinished, step, start)[0]


def _rotation(p: Array, q: Array) -> tuple[Array, Array]:
    """The unitary (c, s) that turns (p, q) onto its first component."""
    r = jnp.sqrt(jnp.abs(p) ** 2 + jnp.abs(q) ** 2)
    safe = jnp.where(r == 0, 1, r).astype(p.dtype)
    return jnp.where(r == 0, jnp.ones_like(p), p / safe), q / safe


def _arnoldi(a: Map, first: Vector, norm: Array, restart: int, enough: Array) -> tuple[Any, ...]:
    """A basis of the Krylov space of a, and a triangular system for the best point of it.

    ``turns`` is the unitary matrix that made the system triangular; its first column times
    ``norm`` is the right side, with the residual at the end. Stops early when that is ``enough``
    or the space is complete.
    """
    dtype, tiny = first.dtype, float(jnp.finfo(first.dtype).eps)
    index = jnp.arange(restart + 1)

    def unfinished(state: Any) -> Array:
        _, _, turns, k, complete = state
        return (k < restart) & ~complete & (jnp.abs(turns[k, 0]) * norm > enough)

    def step(state: Any) -> Any:
        basis, triangle, turns, k, _ = state
        image = a(basis[k])
        size = jnp.sqrt(_square(image))
        h = jnp.zeros(restart + 1, dtype)
        for _ in range(2):  # a second time, for what rounding left
            part = jnp.matmul(basis.conj(), image, precision=lax.Precision.HIGHEST)
            image = image - jnp.matmul(part, basis, precision=lax.Precision.HIGHEST)
            h = h + part
        length = jnp.sqrt(_square(image))
        complete = length <= tiny * size
        image = jnp.where(complete, 0, image / jnp.where(complete, 1, length).astype(dtype))
        h = h.at[k + 1].set(jnp.where(complete, 0, length).astype(dtype))
        h = jnp.matmul(turns, h, precision=lax.Precision.HIGHEST)
        c, s = _rotation(h[k], h[k + 1])
        upper, lower = turns[k], turns[k + 1]
        turns = turns.at[k].set(c.conj() * upper + s.conj() * lower)
        turns = turns.at[k + 1].set(c * lower - s * upper)
        h = h.at[k].set(c.conj() * h[k] + s.conj() * h[k + 1])
        triangle = triangle.at[:, k].set(jnp.where(index <= k, h, 0)[:-1])
        return basis.at[k + 1].set(image), triangle, turns, k + 1, complete

    basis = jnp.zeros((restart + 1, first.size), dtype).at[0].set(first)
    turns, triangle = jnp.eye(restart + 1, dtype=dtype), jnp.eye(restart, dtype=dtype)
    basis, triangle, turns, used, _ = lax.while_loop(
        unfinished, step, (basis, triangle, turns, 0, False)
    )
    right = jnp.where(index < used, turns[:, 0] * norm.astype(dtype), 0)
    return basis[:-1], triangle, right[:-1]


def _gmres(
    a: Map,
    b: Vector,
    x0: Vector,
    m: Map,
    limit: Array,
    maxiter: int,
    *,
    restart: int,
    early: bool,
) -> Vector:
    """Generalized minimal residuals (Saad and Schultz, 1986), preconditioned from the left."""
    target = jnp.sqrt(_square(m(b))) * jnp.minimum(
        1, jnp.sqrt(limit / jnp.where(_square(b) == 0, 1, _square(b)))
    )

    def unfinished(state: Any) -> Array:
        _, _, norm, k = state
        return (norm > target) & (k < maxiter)

    def cycle(state: Any) -> Any:
        x, r, norm, k = state
        enough = target if early else jnp.zeros_like(target)
        first = r / norm.astype(r.dtype)
        basis, triangle, right = _arnoldi(lambda v: m(a(v)), first, norm, restart, enough)
        y = lax.linalg.triangular_solve(triangle, right[:, None], left_side=True)[:, 0]
        x = x + jnp.matmul(y, basis, precision=lax.Precision.HIGHEST)
        r = m(b - a(x))
        return x, r, jnp.sqrt(_square(r)), k + 1

    r = m(b - a(x0))
    return lax.while_loop(unfinished, cycle, (x0, r, jnp.sqrt(_square(r)), 0))[0]


def _solve(
    name: str,
    method: Callable[..., Vector],
    A: Any,
    b: Any,
    x0: Any,
    tol: Any,
    atol: Any,
    maxiter: int | None,
    M: Any,
    symmetric: bool = False,
    keeps_weak: bool = True,
) -> Any:
    a, m = _operator(name, A), (lambda x: x) if M is None else _operator(name, M)
    inexact = lambda x: promotion.as_array(promotion.promote_dtypes_inexact(jnp.asarray(x))[0])
    b = tree.map(inexact, b)
    x0 = tree.map(jnp.zeros_like, b) if x0 is None else tree.map(jnp.asarray, x0)
    if tree.structure(x0) != tree.structure(b):
        raise ValueError(
            f"{name}: x0 and b differ in structure: {tree.structure(x0)} and {tree.structure(b)}"
        )
    shapes = [[leaf.shape for leaf in tree.leaves(value)] for value in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{name}: x0 and b differ in shape: {shapes[0]} and {shapes[1]}")
    layout = _Layout(b, x0, keeps_weak)
    size = sum(leaf.size for leaf in tree.leaves(b))
    limit_count = 10 * size if maxiter is None else maxiter

    def matvec(x: Any) -> Any:
        image = a(x)
        if [jnp.shape(leaf) for leaf in tree.leaves(image)] != shapes[1]:
            raise ValueError(
                f"{name}: the linear map gives shapes"
                f" {[jnp.shape(leaf) for leaf in tree.leaves(image)]} where b has {shapes[1]}"
            )
        return image

    def solve(apply: Map, right: Any) -> Any:
        vector = layout.pack(right)
        flat = partial(_flat, layout, vector.dtype)
        start = layout.pack(x0).astype(vector.dtype)
        limit = _limit(vector, tol, atol)
        return layout.unpack(method(flat(apply), vector, start, flat(m), limit, limit_count))

    return lax.custom_linear_solve(matvec, b, solve, solve, symmetric=symmetric)


def _flat(layout: _Layout, dtype: Any, function: Map) -> Map:
    """A map of pytrees as one of vectors."""
    return lambda vector: layout.pack(function(layout.unpack(vector))).astype(dtype)


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-05,
    atol: Any = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve ``A x = b`` by conjugate gradients.

    Args:
        A: a Hermitian positive definite matrix, or a function that multiplies by one.
        b: the right side, an array or a pytree.
        x0: where to start. By default zeros.
        tol: stop when the residual is below ``tol`` times the norm of ``b``.
        atol: stop when the residual is below this. The larger of both bounds counts.
        maxiter: the largest number of iterations; 10 times the size of ``b`` by default.
        M: a preconditioner near the inverse of ``A``, a matrix or a function.

    Returns:
        A pair of the solution, with the structure of ``b``, and None.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.sparse.linalg import cg
        >>> x, _ = cg(jnp.diag(jnp.array([1.0, 2.0])), jnp.array([1.0, 4.0]))
        >>> x.round(3)
        Array([1., 2.], dtype=float32)
    """
    # a Hermitian matrix is its own transpose where it is real
    real = not any(np.iscomplexobj(leaf) for leaf in tree.leaves(b))
    options = {"symmetric": real, "keeps_weak": False}
    return _solve("cg", _cg, A, b, x0, tol, atol, maxiter, M, **options), None


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-05,
    atol: Any = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve ``A x = b`` by stabilised biconjugate gradients, for any square A.

    Args:
        A: a square matrix, or a linear function of arrays or pytrees like ``b``.
        b: the right side, an array or a pytree.
        x0: where to start. By default zeros.
        tol: stop when the residual is below ``tol`` times the norm of ``b``.
        atol: stop when the residual is below this. The larger of both bounds counts.
        maxiter: the largest number of iterations; 10 times the size of ``b`` by default.
        M: a preconditioner near the inverse of ``A``, a matrix or a function.

    Returns:
        A pair of the solution, with the structure of ``b``, and None.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.sparse.linalg import bicgstab
        >>> x, _ = bicgstab(jnp.array([[1.0, 1.0], [0.0, 2.0]]), jnp.array([3.0, 4.0]))
        >>> x.round(3)
        Array([1., 2.], dtype=float32)
    """
    return _solve("bicgstab", _bicgstab, A, b, x0, tol, atol, maxiter, M), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-05,
    atol: Any = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Array]:
    """Solve ``A x = b`` by generalised minimal residuals, for any square A.

    Args:
        A: a square matrix, or a linear function of arrays or pytrees like ``b``.
        b: the right side, an array or a pytree.
        x0: where to start. By default zeros.
        tol: stop when the residual is below ``tol`` times the norm of ``b``.
        atol: stop when the residual is below this. The larger of both bounds counts.
        restart: how many steps before the basis is built anew. More steps converge faster and take
            more memory.
        maxiter: the largest number of restarts; 10 times the size of ``b`` by default.
        M: a preconditioner near the inverse of ``A``, a matrix or a function.
        solve_method: ``'incremental'`` looks at the residual after every step, ``'batched'`` after
            ``restart`` steps.

    Returns:
        A pair of the solution, with the structure of ``b``, and 0, or -1 if the solution holds NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.sparse.linalg import gmres
        >>> x, info = gmres(jnp.array([[1.0, 1.0], [0.0, 2.0]]), jnp.array([3.0, 4.0]))
        >>> x.round(3)
        Array([1., 2.], dtype=float32)
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"gmres: solve_method {solve_method!r} is not 'batched' or 'incremental'")
    size = sum(np.size(leaf) for leaf in tree.leaves(b))
    if restart < 1:
        raise ValueError(f"gmres needs a restart of at least 1, got {restart}")
    early = solve_method == "incremental"
    method = partial(_gmres, restart=min(restart, size), early=early)
    x = _solve("gmres", method, A, b, x0, tol, atol, maxiter, M, keeps_weak=not early)
    failed = jnp.isnan(sum(_square(jnp.ravel(leaf)) for leaf in tree.leaves(x)))
    return x, jnp.where(failed, -1, 0)


_expose(_sys.modules[__name__])
