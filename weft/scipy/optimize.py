"""Minimization: ``weft.scipy.optimize``."""

from __future__ import annotations

import sys as _sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.api import autodiff
from weft.base.traceback import expose as _expose
from weft.core.array import Array

__all__ = ["OptimizeResults", "minimize"]

# The strong Wolfe conditions: sufficient decrease and curvature (Nocedal and Wright, 3.1).
_DECREASE, _CURVATURE = 1e-4, 0.9
# The first step tried goes at most that many times as far as the point is from the origin.
_REACH = 10


class OptimizeResults(NamedTuple):
    """The result of ``minimize``.

    Args:
        x: the minimum found.
        success: whether ``status`` is 0.
        status: why it stopped: 0, the gradient is small enough; 1, after ``maxiter`` iterations; 3,
            the line search found nothing lower; 5, the line search found no bracket or no number.
            For L-BFGS, 2 is too many evaluations of the function, 3 of its gradient, and 4 too
            small a decrease.
        fun: the value of the function at ``x``.
        jac: its gradient at ``x``.
        hess_inv: the estimate of its inverse Hessian; None for L-BFGS.
        nfev: the number of evaluations of the function.
        njev: the number of evaluations of its gradient.
        nit: the number of iterations.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.optimize import minimize
        >>> found = minimize(lambda x: jnp.sum((x - 3.0) ** 2), jnp.zeros(2), method="BFGS")
        >>> bool(found.success), int(found.status)
        (True, 0)
    """

    x: Array
    success: bool | Array
    status: int | Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int | Array
    njev: int | Array
    nit: int | Array


class _Point(NamedTuple):
    """A step along a line, with the function's value, slope and gradient there."""

    step: Array
    value: Array
    slope: Array
    gradient: Array


class _Search(NamedTuple):
    """A line search: the best step so far, the other end of the bracket, and the next to try."""

    low: _Point
    high: _Point
    trial: Array
    bracketed: Array
    done: Array
    count: Any


def _pick(condition: Array, yes: _Point, no: _Point) -> _Point:
    return _Point(*(jnp.where(condition, a, b) for a, b in zip(yes, no, strict=True)))


def _interpolated(low: _Point, high: _Point) -> Array:
    """Where the cubic with the values and slopes of both ends is least (Nocedal and Wright, 3.59).

    What is not inside the bracket, or too near to its lower end, is replaced by a fifth of it.
    """
    width = high.step - low.step
    mean = (high.value - low.value) / jnp.where(width == 0, 1, width)
    bend = low.slope + high.slope - 3 * mean
    root = jnp.sign(width) * jnp.sqrt(jnp.maximum(bend * bend - low.slope * high.slope, 0))
    divisor = high.slope - low.slope + 2 * root
    part = 1 - (high.slope + root - bend) / jnp.where(divisor == 0, 1, divisor)
    inside = (part > 1e-5) & (part < 0.99) & (divisor != 0)
    return low.step + width * jnp.where(inside, part, 0.2)


def _line_search(
    along: Callable[[Array], _Point], start: _Point, trial: Array, maxiter: int
) -> tuple[_Point, Array, Array, Any]:
    """A step that keeps the strong Wolfe conditions, found by doubling, then narrowing a bracket.

    Returns the step, whether it goes down, whether a bracket was found, and how many were tried.
    (Nocedal and Wright, algorithms 3.5 and 3.6, as one loop.)
    """

    def unfinished(state: _Search) -> Array:
        return ~state.done & (state.count < maxiter)

    def try_one(state: _Search) -> _Search:
        low, high = state.low, state.high
        point = along(state.trial)
        finite = jnp.isfinite(point.value) & jnp.isfinite(point.slope)
        highest = start.value + _DECREASE * point.step * start.slope
        too_high = ~finite | (point.value > highest) | (point.value >= low.value)
        # near the minimum values are equal but for rounding, and slopes still tell
        level = start.value + rounding * jnp.abs(start.value)
        enough = ~too_high | (finite & (point.value <= level))
        done = enough & (jnp.abs(point.slope) <= -_CURVATURE * start.slope)
        too_high &= ~done
        # beyond the minimum as seen from the lower end: that end becomes the other one
        passed = jnp.where(
            state.bracketed, point.slope * (high.step - low.step) >= 0, point.slope >= 0
        )
        new_high = _pick(too_high, point, _pick(passed, low, high))
        new_low = _pick(too_high, low, point)
        bracketed = state.bracketed | too_high | passed
        trial = jnp.where(bracketed, _interpolated(new_low, new_high), 2 * point.step)
        return _Search(new_low, new_high, trial, bracketed, done, state.count + 1)

    rounding = 2 * float(jnp.finfo(start.value.dtype).eps)
    first = _Search(start, start, trial, jnp.bool_(False), jnp.bool_(False), 0)
    found = lax.while_loop(unfinished, try_one, first)
    return found.low, found.done | (found.low.value < start.value), found.bracketed, found.count


class _State(NamedTuple):
    """An iteration of BFGS."""

    x: Array
    value: Array
    gradient: Array
    inverse: Array
    status: Array
    evaluations: Any
    iteration: Any
    converged: Array


def _updated(inverse: Array, s: Array, y: Array) -> Array:
    """The BFGS update of an inverse Hessian; left out where it would not stay positive."""
    product = jnp.dot(s, y, precision=lax.Precision.HIGHEST)
    usable = product > 0
    rho = jnp.where(usable, 1 / jnp.where(usable, product, 1), 0)
    left = jnp.eye(s.size, dtype=s.dtype) - rho * jnp.outer(s, y)
    turned = jnp.matmul(left, inverse, precision=lax.Precision.HIGHEST)
    turned = jnp.matmul(turned, left.T, precision=lax.Precision.HIGHEST)
    return jnp.where(usable, turned + rho * jnp.outer(s, s), inverse)


def _bfgs(
    fun: Callable[[Array], Array],
    x0: Array,
    maxiter: int | None = None,
    norm: Any = np.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    """The method of Broyden, Fletcher, Goldfarb and Shanno."""
    limit = 200 * x0.size if maxiter is None else maxiter
    value_and_grad = autodiff.value_and_grad(fun)

    def small(gradient: Array) -> Array:
        return jnp.linalg.norm(gradient, ord=norm) < gtol

    def unfinished(state: _State) -> Array:
        return ~state.converged & (state.status == 0) & (state.iteration < limit)

    def iterate(state: _State) -> _State:
        direction = -jnp.matmul(state.inverse, state.gradient, precision=lax.Precision.HIGHEST)
        slope = jnp.dot(direction, state.gradient)

        def along(step: Array) -> _Point:
            value, gradient = value_and_grad(state.x + step * direction)
            return _Point(step, value, jnp.dot(gradient, direction), gradient)

        zero = jnp.zeros((), state.x.dtype)
        start = _Point(zero, state.value, slope.astype(state.value.dtype), state.gradient)
        reach = _REACH * jnp.maximum(jnp.linalg.norm(state.x), 1) / jnp.linalg.norm(direction)
        trial = jnp.minimum(1, reach).astype(state.x.dtype)
        point, lower, bracketed, count = _line_search(along, start, trial, line_search_maxiter)
        status = jnp.where(bracketed & lower, 0, jnp.where(bracketed, 3, 5))
        fine = (jnp.abs(point.slope) <= -_CURVATURE * slope) & lower
        status = jnp.where(fine, 0, status)
        status = jnp.where(jnp.isfinite(state.value), status, 5)
        moved = status == 0
        s = jnp.where(moved, point.step * direction, 0)
        return _State(
            x=state.x + s,
            value=jnp.where(moved, point.value, state.value),
            gradient=jnp.where(moved, point.gradient, state.gradient),
            inverse=_updated(state.inverse, s, point.gradient - state.gradient),
            status=status,
            evaluations=state.evaluations + count,
            iteration=state.iteration + 1,
            converged=moved & small(point.gradient),
        )

    value, gradient = value_and_grad(x0)
    first = _State(
        x0, value, gradient, jnp.eye(x0.size, dtype=x0.dtype), jnp.asarray(0), 1, 0, small(gradient)
    )
    end = lax.while_loop(unfinished, iterate, first)
    status = jnp.where(end.converged, 0, jnp.where(end.status == 0, 1, end.status))
    return OptimizeResults(
        x=end.x,
        success=end.converged & jnp.all(jnp.isfinite(end.x)),
        status=status,
        fun=end.value,
        jac=end.gradient,
        hess_inv=end.inverse,
        nfev=end.evaluations,
        njev=end.evaluations,
        nit=end.iteration,
    )


class _Limited(NamedTuple):
    """An iteration of L-BFGS; the history has the last steps, the newest one at its end."""

    x: Array
    value: Array
    gradient: Array
    steps: Array
    changes: Array
    weights: Array
    status: Array
    evaluations: Any
    iteration: Any
    converged: Array


def _two_loops(state: _Limited) -> Array:
    """The inverse Hessian of the history times the gradient (Nocedal and Wright, 7.4)."""
    steps, changes, weights = state.steps, state.changes, state.weights

    def back(q: Array, row: Any) -> tuple[Array, Array]:
        s, y, rho = row
        part = rho * jnp.dot(s, q)
        return q - part * y, part

    def forth(r: Array, row: Any) -> tuple[Array, None]:
        s, y, rho, part = row
        return r + s * (part - rho * jnp.dot(y, r)), None

    q, parts = lax.scan(back, state.gradient, (steps, changes, weights), reverse=True)
    # the last step tells the scale; a history that is empty has weights of zero
    squared = jnp.dot(changes[-1], changes[-1]) * weights[-1]
    scale = jnp.where(squared > 0, 1 / jnp.where(squared > 0, squared, 1), 1)
    return lax.scan(forth, scale * q, (steps, changes, weights, parts))[0]


def _lbfgs(
    fun: Callable[[Array], Array],
    x0: Array,
    maxiter: int | None = None,
    norm: Any = np.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-05,
    maxfun: int | None = None,
    maxgrad: int | None = None,
    maxls: int = 20,
) -> OptimizeResults:
    """BFGS that remembers ``maxcor`` steps in place of a matrix (Liu and Nocedal, 1989)."""
    most = [np.iinfo(np.int32).max if n is None else n for n in (maxiter, maxfun, maxgrad)]
    value_and_grad = autodiff.value_and_grad(fun)

    def small(gradient: Array) -> Array:
        return jnp.linalg.norm(gradient, ord=norm) < gtol

    def unfinished(state: _Limited) -> Array:
        return ~state.converged & (state.status == 0)

    def iterate(state: _Limited) -> _Limited:
        direction = -_two_loops(state)

        def along(step: Array) -> _Point:
            value, gradient = value_and_grad(state.x + step * direction)
            return _Point(step, value, jnp.dot(gradient, direction), gradient)

        slope = jnp.dot(direction, state.gradient)
        zero = jnp.zeros((), state.x.dtype)
        start = _Point(zero, state.value, slope.astype(state.value.dtype), state.gradient)
        length = jnp.linalg.norm(direction)
        first = jnp.minimum(1, 1 / jnp.where(length > 0, length, 1))
        trial = jnp.where(state.iteration == 0, first, 1).astype(state.x.dtype)
        point, lower, bracketed, count = _line_search(along, start, trial, maxls)
        fine = (jnp.abs(point.slope) <= -_CURVATURE * slope) & lower
        found = ((bracketed & lower) | fine) & jnp.isfinite(state.value)
        s = jnp.where(found, point.step * direction, 0)
        y = jnp.where(found, point.gradient - state.gradient, 0)
        product = jnp.dot(s, y)
        kept = product > 0
        rho = jnp.where(kept, 1 / jnp.where(kept, product, 1), 0)

        def added(history: Array, new: Array) -> Array:
            return jnp.where(kept, jnp.concatenate([history[1:], new[None]]), history)

        evaluations, iteration = state.evaluations + count, state.iteration + 1
        value = jnp.where(found, point.value, state.value)
        reasons = (
            (~found, 5),
            (evaluations >= most[1], 2),
            (evaluations >= most[2], 3),
            (iteration >= most[0], 1),
            (state.value - value < ftol, 4),
        )
        status = jnp.asarray(0)
        for stopped, number in reversed(reasons):
            status = jnp.where(stopped, number, status)
        return _Limited(
            x=state.x + s,
            value=value,
            gradient=jnp.where(found, point.gradient, state.gradient),
            steps=added(state.steps, s),
            changes=added(state.changes, y),
            weights=added(state.weights, rho),
            status=status,
            evaluations=evaluations,
            iteration=iteration,
            converged=found & small(point.gradient),
        )

    value, gradient = value_and_grad(x0)
    history = jnp.zeros((maxcor, x0.size), x0.dtype)
    none = jnp.zeros(maxcor, x0.dtype)
    first = _Limited(
        x0, value, gradient, history, history, none, jnp.asarray(0), 1, 0, small(gradient)
    )
    end = lax.while_loop(unfinished, iterate, first)
    return OptimizeResults(
        x=end.x,
        success=end.converged & jnp.all(jnp.isfinite(end.x)),
        status=jnp.where(end.converged, 0, end.status),
        fun=end.value,
        jac=end.gradient,
        hess_inv=None,
        nfev=end.evaluations,
        njev=end.evaluations,
        nit=end.iteration,
    )


_METHODS = {"bfgs": _bfgs, "l-bfgs-experimental-do-not-rely-on-this": _lbfgs}


def minimize(
    fun: Callable[..., Array],
    x0: Array,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Return a local minimum of a function of a vector.

    Args:
        fun: the function to minimise, ``fun(x, *args)``. It returns a scalar.
        x0: the vector to start from.
        args: further arguments of ``fun``.
        method: ``'BFGS'``, or ``'l-bfgs-experimental-do-not-rely-on-this'``, which needs less
            memory for many variables.
        tol: another name for the option ``gtol``.
        options: a dictionary with ``maxiter`` (iterations), ``norm`` and ``gtol`` (when the
            gradient is small enough) and ``line_search_maxiter``. L-BFGS takes ``maxiter``,
            ``norm``, ``gtol``, ``maxcor`` (the steps that it remembers), ``ftol`` (the smallest
            decrease), ``maxfun``, ``maxgrad`` and ``maxls`` (of the line search).

    Returns:
        An ``OptimizeResults``; its field ``x`` is the minimum.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.optimize import minimize
        >>> found = minimize(lambda x: jnp.sum((x - 3.0) ** 2), jnp.zeros(2), method="BFGS")
        >>> found.x
        Array([3., 3.], dtype=float32)
    """
    if not isinstance(args, tuple):
        raise TypeError(f"minimize takes args as a tuple, got {args!r}")
    if method.lower() not in _METHODS:
        raise ValueError(f"minimize supports the methods {', '.join(_METHODS)}, not {method!r}")
    x0 = jnp.asarray(x0)
    is_complex = dtypes.issubdtype(x0.dtype, np.complexfloating) and method.lower() != "bfgs"
    if x0.ndim != 1 or not (is_complex or dtypes.issubdtype(x0.dtype, np.floating)):
        raise TypeError(
            f"minimize needs a vector x0 of floating-point numbers, got {x0.dtype} of"
            f" shape {x0.shape}"
        )
    settings = dict(options or {})
    if tol is not None:
        settings.setdefault("gtol", tol)
    wanted = lambda x: fun(x, *args)
    if is_complex:
        return _of_complex(_METHODS[method.lower()], wanted, x0, settings)
    return _METHODS[method.lower()](wanted, x0, **settings)


def _of_complex(method: Any, fun: Any, x0: Array, settings: Any) -> OptimizeResults:
    """A minimum over complex numbers: over their real and imaginary parts together."""
    n = x0.size
    joined = lambda parts: lax.complex(parts[:n], parts[n:])
    start = jnp.concatenate([x0.real, x0.imag])
    found = method(lambda parts: fun(joined(parts)), start, **settings)
    return found._replace(x=joined(found.x), jac=joined(found.jac).conj())


_expose(_sys.modules[__name__])
