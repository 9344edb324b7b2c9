"""Checks of derivatives: against finite differences, and of one mode against the other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.api.autodiff import jvp, vjp
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten

_TOLERANCE = {"float64": 1e-5, "complex128": 1e-5, "float32": 2e-2, "complex64": 2e-2}
_LOOSEST = 2e-1


_Tolerance = float | Mapping[Any, float] | None


def _tolerance(tree: Any, given: _Tolerance) -> float:
    """The tolerance for results of a function of these arrays, as given or by their dtypes.

    One given by dtype holds where that dtype occurs; other dtypes keep their own.
    """
    if given is not None and not isinstance(given, Mapping):
        return float(given)
    known = {np.dtype(d).name: float(t) for d, t in (given or {}).items()}
    names = {dtypes.dtype(x).name for x in tree_flatten(tree)[0]}
    return max((known.get(n, _TOLERANCE.get(n, _LOOSEST)) for n in names), default=1e-5)


def _close(got: Any, want: Any, atol: float, rtol: float, message: str) -> None:
    got_leaves, got_tree = tree_flatten(got)
    want_leaves, want_tree = tree_flatten(want)
    if got_tree != want_tree:
        raise AssertionError(f"{message}: tree structures differ: {got_tree} and {want_tree}")
    for g, w in zip(got_leaves, want_leaves, strict=True):
        a, b = np.asarray(g), np.asarray(w)
        if a.dtype == dtypes.float0 or b.dtype == dtypes.float0:
            continue
        wide = np.complex128 if np.iscomplexobj(a) else np.float64
        np.testing.assert_allclose(
            a.astype(wide), b.astype(wide), atol=atol, rtol=rtol, err_msg=message
        )


def _direction(rng: np.random.Generator, tree: Any) -> Any:
    """A random tangent of a tree of arrays."""

    def leaf(x: Any) -> Any:
        value = np.asarray(x)
        if not dtypes.issubdtype(value.dtype, np.inexact):
            return np.zeros(value.shape, dtypes.float0)
        random = rng.standard_normal(value.shape)
        if np.iscomplexobj(value):
            random = random + 1j * rng.standard_normal(value.shape)
        return np.asarray(random).astype(value.dtype)

    return tree_map(leaf, tree)


def _step(x: Any, t: Any, scale: float) -> Any:
    value, tangent = np.asarray(x), np.asarray(t)
    if tangent.dtype == dtypes.float0:
        return x
    wide = np.complex128 if np.iscomplexobj(value) else np.float64
    return (value.astype(wide) + scale * tangent.astype(wide)).astype(value.dtype)


def numerical_jvp(f: Callable[..., Any], primals: Any, tangents: Any, eps: float = 1e-4) -> Any:
    """Return the derivative of ``f`` along ``tangents``, by central differences.

    Args:
        f: the function.
        primals: the arguments.
        tangents: the directions, with the structure of the arguments.
        eps: the step of the differences.

    Returns:
        The derivative, with the structure of the result.

    Example:
        >>> float(numerical_jvp(lambda x: 3.0 * x, (1.0,), (1.0,)).round(2))
        3.0
    """

    def at(scale: float) -> Any:
        moved = tree_map(lambda x, t: _step(x, t, scale), tuple(primals), tuple(tangents))
        return f(*moved)

    def difference(high: Any, low: Any) -> Any:
        a, b = np.asarray(high), np.asarray(low)
        if not dtypes.issubdtype(a.dtype, np.inexact):
            return np.zeros(a.shape, dtypes.float0)
        wide = np.complex128 if np.iscomplexobj(a) else np.float64
        return ((a.astype(wide) - b.astype(wide)) / (2 * eps)).astype(a.dtype)

    return tree_map(difference, at(eps), at(-eps))


def _inner(x: Any, y: Any) -> float:
    total = 0.0
    for a, b in zip(tree_flatten(x)[0], tree_flatten(y)[0], strict=True):
        u, v = np.asarray(a), np.asarray(b)
        if u.dtype == dtypes.float0 or v.dtype == dtypes.float0:
            continue
        wide = np.complex128 if np.iscomplexobj(u) or np.iscomplexobj(v) else np.float64
        total += np.real(np.sum(u.astype(wide) * v.astype(wide)))
    return total


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: _Tolerance = None,
    rtol: _Tolerance = None,
    eps: float = 1e-4,
    err_msg: str = "",
) -> None:
    """Check a derivative ``f_jvp(primals, tangents)`` against central differences.

    Args:
        f: the function.
        f_jvp: the derivative, which returns the result and its tangent.
        args: the arguments at which to check.
        atol: the absolute tolerance, or one for each dtype. By default by dtype.
        rtol: the relative tolerance, or one for each dtype. By default by dtype.
        eps: the step of the differences.
        err_msg: what an error says first.

    Example:
        >>> import functools, weft
        >>> f = lambda x: x * x
        >>> check_jvp(f, functools.partial(weft.jvp, f), (3.0,))
    """
    rng = np.random.default_rng(0)
    tangents = _direction(rng, tuple(args))
    out, out_tangent = f_jvp(tuple(args), tangents)
    expected = numerical_jvp(f, args, tangents, eps)
    low, high = _tolerance(args, atol), _tolerance(args, rtol)
    _close(out, f(*args), low, high, f"{err_msg} primal result of jvp")
    _close(out_tangent, expected, low, high, f"{err_msg} tangent of jvp")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: _Tolerance = None,
    rtol: _Tolerance = None,
    eps: float = 1e-4,
    err_msg: str = "",
) -> None:
    """Check a pullback ``f_vjp(*args) -> (result, pull)`` against central differences.

    Args:
        f: the function.
        f_vjp: the pullback.
        args: the arguments at which to check.
        atol: the absolute tolerance, or one for each dtype. By default by dtype.
        rtol: the relative tolerance, or one for each dtype. By default by dtype.
        eps: the step of the differences.
        err_msg: what an error says first.

    Example:
        >>> import functools, weft
        >>> f = lambda x: x * x
        >>> check_vjp(f, functools.partial(weft.vjp, f), (3.0,))
    """
    rng = np.random.default_rng(0)
    tangents = _direction(rng, tuple(args))
    expected = numerical_jvp(f, args, tangents, eps)
    out, pull = f_vjp(*args)
    low, high = _tolerance(args, atol), _tolerance(args, rtol)
    _close(out, f(*args), low, high, f"{err_msg} primal result of vjp")
    cotangents = _direction(rng, out)
    back = pull(cotangents)
    left, right = _inner(tangents, back), _inner(expected, cotangents)
    np.testing.assert_allclose(
        left, right, atol=low, rtol=high, err_msg=f"{err_msg} inner product of vjp"
    )


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: _Tolerance = None,
    rtol: _Tolerance = None,
    eps: float | None = None,
) -> None:
    """Check derivatives of ``f`` up to an order, in both modes and their mixtures.

    Args:
        f: the function.
        args: the arguments at which to check.
        order: the largest order.
        modes: ``'fwd'``, ``'rev'``, or both.
        atol: the absolute tolerance, or one for each dtype. By default by dtype.
        rtol: the relative tolerance, or one for each dtype. By default by dtype.
        eps: the step of the differences.

    Example:
        >>> import weft.numpy as jnp
        >>> check_grads(jnp.sin, (1.0,), order=2)
    """
    unknown = set(modes) - {"fwd", "rev"}
    if unknown:
        raise ValueError(f"modes are 'fwd' and 'rev', got {sorted(unknown)}")
    step = 1e-4 if eps is None else eps
    args = tuple(args)

    def check(g: Callable[..., Any], at: Sequence[Any], depth: int, path: str) -> None:
        if "fwd" in modes:
            push = functools.partial(jvp, g)
            check_jvp(g, push, at, atol, rtol, step, f"{path}jvp of")
            if depth > 1:
                tangents = _direction(np.random.default_rng(1), tuple(at))
                check(lambda *xs: push(xs, tangents), at, depth - 1, f"{path}jvp of ")
        if "rev" in modes:
            pull_of = functools.partial(vjp, g)
            check_vjp(g, pull_of, at, atol, rtol, step, f"{path}vjp of")
            if depth > 1:
                out = g(*at)
                cotangents = _direction(np.random.default_rng(2), out)

                def back(*xs: Any) -> Any:
                    result, pull = pull_of(*xs)
                    leaves, tree = tree_flatten(pull(cotangents))
                    kept = [x for x in leaves if dtypes.dtype(x) != dtypes.float0]
                    return result, kept if len(kept) != len(leaves) else tree_unflatten(
                        tree, leaves
                    )

                check(back, at, depth - 1, f"{path}vjp of ")

    check(f, args, order, "")
