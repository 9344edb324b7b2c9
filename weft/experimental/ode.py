"""Ordinary differential equations: Dormand and Prince's method of order 5 with adaptive steps.

J. R. Dormand, P. J. Prince, "A family of embedded Runge-Kutta formulae" (1980); L. F. Shampine,
"Some practical Runge-Kutta formulas" (1986) for values between steps; R. T. Q. Chen et al.,
"Neural ordinary differential equations" (2018), appendix C, for the adjoint gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft import numpy as jnp
from weft.api.autodiff import vjp
from weft.api.batching import vmap
from weft.api.jit import jit
from weft.base import knobs
from weft.base.functional import safe_map as safe_map
from weft.base.functional import safe_zip as safe_zip
from weft.base.traceback import api_boundary
from weft.core.trace import typeof
from weft.custom_derivatives import closure_convert, custom_vjp
from weft.extend.linear_util import WrappedFun, wrap_init
from weft.flatten_util import ravel_pytree as ravel_pytree
from weft.numpy.promotion import promote_dtypes_inexact as promote_dtypes_inexact
from weft.tree.functions import tree_leaves as tree_leaves
from weft.tree.functions import tree_map as tree_map

map = safe_map
zip = safe_zip

# The tableau: times of the stages, their weights, the weights of the result, those of the
# difference between the results of order 5 and 4, and those of the value in the middle.
_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1, 0])
_STAGES = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
    ]
)
_RESULT = _STAGES[5]
_EMBEDDED = np.array(
    [1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60]
)
_ERROR = _RESULT - _EMBEDDED
_MIDDLE = 0.5 * np.array(
    [
        6025192743 / 30085553152,
        0,
        51252292925 / 65400821598,
        -2691868925 / 45128329728,
        187940372067 / 1594534317056,
        -1776094331 / 19743644256,
        11237099 / 235043384,
    ]
)


def ravel_first_arg(f: Callable[..., Any], unravel: Any, debug_info: Any = None) -> Any:
    """Return a function with its first argument and its result as vectors.

    Args:
        f: the function.
        unravel: the function from a vector to the argument.
        debug_info: the names of the function and its arguments.

    Returns:
        A function.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.flatten_util import ravel_pytree
        >>> flat, unravel = ravel_pytree({"a": jnp.ones(2)})
        >>> ravel_first_arg(lambda y: {"a": 2 * y["a"]}, unravel)(flat)
        Array([2., 2.], dtype=float32)
    """
    return ravel_first_arg_(wrap_init(f, debug_info=debug_info), unravel).call_wrapped


def ravel_first_arg_(fun: WrappedFun, unravel: Any) -> WrappedFun:
    """Return a wrapped function with its first argument and its result as vectors.

    Args:
        fun: the wrapped function.
        unravel: the function from a vector to the argument.

    Returns:
        A wrapped function.
    """

    def raveled(y: Any, *args: Any) -> Any:
        return ravel_pytree(fun.call_wrapped(unravel(y), *args))[0]

    return wrap_init(raveled)


def interp_fit_dopri(y0: Any, y1: Any, k: Any, dt: Any) -> Any:
    """Return the coefficients, highest power first, of the polynomial through a step.

    Args:
        y0: the state at the start.
        y1: the state at the end of the step.
        k: the derivatives of all stages.
        dt: the length of the step.

    Returns:
        An array of coefficients.

    Example:
        >>> import weft.numpy as jnp
        >>> interp_fit_dopri(jnp.zeros(1), jnp.ones(1), jnp.ones((7, 1)), jnp.array(1.0)).shape
        (5, 1)
    """
    middle = jnp.asarray(_MIDDLE, y0.dtype)
    y_mid = y0 + dt.astype(y0.dtype) * jnp.dot(middle, k)
    return jnp.asarray(fit_4th_order_polynomial(y0, y1, y_mid, k[0], k[-1], dt))


def fit_4th_order_polynomial(
    y0: Any, y1: Any, y_mid: Any, dy0: Any, dy1: Any, dt: Any
) -> tuple[Any, ...]:
    """Return the polynomial on [0, 1] with given values at 0, 1/2, 1 and slopes at 0 and 1.

    Args:
        y0: the state at the start.
        y1: the state at the end of the step.
        y_mid: the state at 1/2.
        dy0: the derivative at the start.
        dy1: the derivative at the end.
        dt: the length of the step.

    Returns:
        Five coefficients, highest power first.

    Example:
        >>> import weft.numpy as jnp
        >>> one = jnp.array(1.0)
        >>> [float(c) for c in fit_4th_order_polynomial(0 * one, one, one / 2, one, one, one)]
        [0.0, 0.0, 0.0, 1.0, 0.0]
    """
    dt = dt.astype(y0.dtype)
    a = -2.0 * dt * dy0 + 2.0 * dt * dy1 - 8.0 * y0 - 8.0 * y1 + 16.0 * y_mid
    b = 5.0 * dt * dy0 - 3.0 * dt * dy1 + 18.0 * y0 + 14.0 * y1 - 32.0 * y_mid
    c = -4.0 * dt * dy0 + dt * dy1 - 11.0 * y0 - 5.0 * y1 + 16.0 * y_mid
    return a, b, c, dt * dy0, y0


def initial_step_size(
    fun: Callable[..., Any], t0: Any, y0: Any, order: Any, rtol: Any, atol: Any, f0: Any
) -> Any:
    """Return a first step that keeps the error of a method near the tolerance.

    E. Hairer, S. P. Nørsett, G. Wanner, "Solving ordinary differential equations I", II.4.

    Args:
        fun: the derivative, ``fun(y, t)``.
        t0: the time at the start.
        y0: the state at the start.
        order: the order of the method.
        rtol: the relative error that is tolerated.
        atol: the absolute error that is tolerated.
        f0: the derivative at the start.

    Returns:
        A scalar.

    Example:
        >>> import weft.numpy as jnp
        >>> f = lambda y, t: -y
        >>> float(initial_step_size(f, 0.0, jnp.ones(1), 4, 1e-3, 1e-3, -jnp.ones(1))) > 0
        True
    """
    y0, f0 = promote_dtypes_inexact(y0, f0)
    dtype = y0.dtype
    scale = (atol + jnp.abs(y0) * rtol).astype(dtype)
    size = jnp.linalg.norm(y0 / scale)
    slope = jnp.linalg.norm(f0 / scale)
    tiny = (size < 1e-5) | (slope < 1e-5)
    guess = jnp.where(tiny, 1e-6, 0.01 * size / slope)
    f1 = fun(y0 + guess.astype(dtype) * f0, t0 + guess)
    bend = jnp.linalg.norm((f1 - f0) / scale) / guess
    flat = (slope <= 1e-15) & (bend <= 1e-15)
    by_order = (0.01 / jnp.maximum(slope, bend)) ** (1.0 / (order + 1.0))
    step = jnp.where(flat, jnp.maximum(1e-6, guess * 1e-3), by_order)
    return jnp.minimum(100.0 * guess, step)


def runge_kutta_step(
    func: Callable[..., Any], y0: Any, f0: Any, t0: Any, dt: Any
) -> tuple[Any, Any, Any, Any]:
    """Return one step of the Dormand-Prince method.

    Args:
        func: the derivative, ``func(y, t)``.
        y0: the state at the start.
        f0: the derivative at the start.
        t0: the time at the start.
        dt: the length of the step.

    Returns:
        The state at the end, its derivative, the estimated error, and the derivatives of all
        stages.

    Example:
        >>> import weft.numpy as jnp
        >>> y, t, dt = jnp.ones(1), jnp.array(0.0), jnp.array(0.1)
        >>> runge_kutta_step(lambda y, t: -y, y, -y, t, dt)[0].round(4)
        Array([0.9048], dtype=float32)
    """
    dtype = f0.dtype
    times = jnp.asarray(_TIMES, dt.dtype)
    stages = jnp.asarray(_STAGES, dtype)
    step = dt.astype(dtype)

    def stage(i: Any, k: Any) -> Any:
        y = y0 + step * jnp.dot(stages[i - 1, :], k)
        return k.at[i, :].set(func(y, t0 + dt * times[i - 1]))

    k = jnp.zeros((7, f0.shape[0]), dtype).at[0, :].set(f0)
    k = lax.fori_loop(1, 7, stage, k)
    y1 = step * jnp.dot(jnp.asarray(_RESULT, dtype), k) + y0
    error = step * jnp.dot(jnp.asarray(_ERROR, dtype), k)
    return y1, k[-1], error, k


def abs2(x: Any) -> Any:
    """Return the square of the absolute value.

    Args:
        x: an array, real or complex.

    Returns:
        A real array of the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> float(abs2(jnp.array(3.0 + 4.0j)))
        25.0
    """
    if jnp.iscomplexobj(x):
        return x.real**2 + x.imag**2
    return x**2


def mean_error_ratio(error_estimate: Any, rtol: Any, atol: Any, y0: Any, y1: Any) -> Any:
    """Return the error of a step in units of what is tolerated (root mean square).

    Args:
        error_estimate: the error of each element.
        rtol: the relative error that is tolerated.
        atol: the absolute error that is tolerated.
        y0: the state at the start.
        y1: the state at the end of the step.

    Returns:
        A scalar.

    Example:
        >>> import weft.numpy as jnp
        >>> float(mean_error_ratio(jnp.ones(2), 0.0, 0.5, jnp.ones(2), jnp.ones(2)))
        2.0
    """
    tolerated = atol + rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    ratio = error_estimate / tolerated.astype(error_estimate.dtype)
    return jnp.sqrt(jnp.mean(abs2(ratio)))


def optimal_step_size(
    last_step: Any,
    mean_error_ratio: Any,
    safety: Any = 0.9,
    ifactor: Any = 10.0,
    dfactor: Any = 0.2,
    order: Any = 5.0,
) -> Any:
    """Return the next step; it shrinks only after a failed step.

    Args:
        last_step: the length of the last step.
        mean_error_ratio: its error in units of what is tolerated.
        safety: a factor below 1 that makes steps shorter.
        ifactor: the largest factor by which a step grows.
        dfactor: the smallest factor by which it shrinks.
        order: the order of the method.

    Returns:
        A scalar.

    Example:
        >>> import weft.numpy as jnp
        >>> float(optimal_step_size(jnp.array(0.1), jnp.array(0.0)))
        1.0
    """
    least = jnp.where(mean_error_ratio < 1, 1.0, dfactor)
    wanted = jnp.maximum(mean_error_ratio ** (-1.0 / order) * safety, least)
    factor = jnp.minimum(ifactor, wanted)
    return jnp.where(mean_error_ratio == 0, last_step * ifactor, last_step * factor)


@api_boundary
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """Return the solution of ``dy/dt = func(y, t, *args)``, ``y(t[0]) = y0`` at given times.

    Gradients with respect to ``y0``, ``t`` and ``args`` (and what ``func`` closes over) solve the
    adjoint equation backwards: no step is stored.

    Args:
        func: the derivative, ``func(y, t, *args)``.
        y0: the state at the first time, a tree of arrays.
        t: the times, strictly increasing.
        *args: further arguments of ``func``.
        rtol: the relative error that is tolerated.
        atol: the absolute error that is tolerated.
        mxstep: the largest number of steps between two times.
        hmax: the largest length of a step.

    Returns:
        A tree like ``y0``, with a first axis for the times.

    Example:
        >>> import weft.numpy as jnp
        >>> y = odeint(lambda y, t: -y, jnp.array(1.0), jnp.array([0.0, 1.0]), rtol=1e-6)
        >>> print(f"{y[1]:.4f}")
        0.3679
    """
    for arg in tree_leaves(args):
        try:
            typeof(arg)
        except TypeError:
            raise TypeError(
                f"odeint takes arrays, numbers and trees of them as *args, got {arg!r} of type"
                f" {type(arg).__name__}; close over anything else in func"
            ) from None
    if not dtypes.issubdtype(typeof(t).dtype, np.floating):
        raise TypeError(f"odeint takes times t as an array of floats, got {typeof(t)}")
    converted, consts = closure_convert(func, y0, t[0], *args)
    with knobs.default_matmul_precision("highest"):
        return _solve_tree(converted, rtol, atol, mxstep, hmax, y0, t, *args, *consts)


@jit(static_argnums=(0, 1, 2, 3, 4))
def _solve_tree(
    func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, y0: Any, ts: Any, *args: Any
) -> Any:
    flat, unravel = ravel_pytree(y0)
    out = _solve(ravel_first_arg(func, unravel), rtol, atol, mxstep, hmax, flat, ts, *args)
    return vmap(unravel)(out)


@partial(custom_vjp, nondiff_argnums=(0, 1, 2, 3, 4))
def _solve(
    func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, y0: Any, ts: Any, *args: Any
) -> Any:
    """The solution for a vector, one row for each time."""

    def derivative(y: Any, t: Any) -> Any:
        return func(y, t, *args)

    def advance(state: Any) -> Any:
        i, y, f, t, dt, last_t, polynomial = state
        next_y, next_f, error, k = runge_kutta_step(derivative, y, f, t, dt)
        ratio = mean_error_ratio(error, rtol, atol, y, next_y)
        next_polynomial = interp_fit_dopri(y, next_y, k, dt)
        next_dt = jnp.clip(optimal_step_size(dt, ratio), 0.0, hmax)
        accepted = [i + 1, next_y, next_f, t + dt, next_dt, t, next_polynomial]
        rejected = [i + 1, y, f, t, next_dt, last_t, polynomial]
        return [jnp.where(ratio <= 1.0, a, r) for a, r in zip(accepted, rejected)]

    def to_time(carry: Any, target: Any) -> Any:
        def unfinished(state: Any) -> Any:
            i, _, _, t, dt, _, _ = state
            return (t < target) & (i < mxstep) & (dt > 0)

        _, *carry = lax.while_loop(unfinished, advance, [0, *carry])
        _, _, t, _, last_t, polynomial = carry
        place = (target - last_t) / (t - last_t)
        return carry, jnp.polyval(polynomial, place.astype(polynomial.dtype))

    start = ts[0]
    f0 = derivative(y0, start)
    first = initial_step_size(derivative, start, y0, 4, rtol, atol, f0)
    dt = jnp.clip(first, 0.0, hmax)
    polynomial = jnp.stack([y0] * 5)
    _, ys = lax.scan(to_time, [y0, f0, start, dt, start, polynomial], ts[1:])
    return jnp.concatenate((y0[None], ys))


def _solve_fwd(
    func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, y0: Any, ts: Any, *args: Any
) -> Any:
    ys = _solve(func, rtol, atol, mxstep, hmax, y0, ts, *args)
    return ys, (ys, ts, args)


def _solve_bwd(func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, saved: Any, g: Any) -> Any:
    ys, ts, args = saved

    def adjoint(state: Any, negative_t: Any, *args: Any) -> Any:
        """The solution itself and the cotangents of it, time and arguments, backwards in time."""
        y, y_bar, *_ = state
        slope, pull = vjp(func, y, -negative_t, *args)
        return (-slope, *pull(y_bar))

    def to_earlier(carry: Any, i: Any) -> Any:
        y_bar, t0_bar, args_bar = carry
        # moving a measurement's time moves its value along the slope; time is real
        t_bar = jnp.dot(func(ys[i], ts[i], *args), g[i]).real
        times = jnp.stack([-ts[i], -ts[i - 1]])
        state = (ys[i], y_bar, t0_bar - t_bar, args_bar)
        options = {"rtol": rtol, "atol": atol, "mxstep": mxstep, "hmax": hmax}
        _, *bars = odeint(adjoint, state, times, *args, **options)
        y_bar, t0_bar, args_bar = tree_map(lambda x: x[1], bars)
        return (y_bar + g[i - 1], t0_bar, args_bar), t_bar

    with knobs.default_matmul_precision("highest"):
        init = (g[-1], jnp.zeros((), ts.dtype), tree_map(jnp.zeros_like, args))
        backwards = jnp.arange(len(ts) - 1, 0, -1)
        (y_bar, t0_bar, args_bar), ts_bar = lax.scan(to_earlier, init, backwards)
        ts_bar = jnp.concatenate([t0_bar[None], ts_bar[::-1]])
    return (y_bar, ts_bar, *args_bar)


_solve.defvjp(_solve_fwd, _solve_bwd)
