"""Step sizes searched along the update: backtracking, and a zoom into an interval of good steps.

The zoom follows Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6, with the
approximate decrease condition of Hager and Zhang (2005).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree


class BacktrackingLinesearchInfo(NamedTuple):
    """How many steps were tried, and by how much the last one missed the decrease asked for."""

    num_linesearch_steps: weft.Array
    decrease_error: weft.Array


class ScaleByBacktrackingLinesearchState(NamedTuple):
    """The state of ``scale_by_backtracking_linesearch``.

    Args:
        learning_rate: the last step size.
        value: the value of the loss at its end.
        grad: the gradient of the loss at its end; None unless ``store_grad``.
        info: what the line search did.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_backtracking_linesearch(10).init(jnp.zeros(2)).learning_rate
        Array(1., dtype=float32)
    """

    learning_rate: weft.Array
    value: weft.Array
    grad: base.Updates | None
    info: BacktrackingLinesearchInfo


class ZoomLinesearchInfo(NamedTuple):
    """What a zoom line search did.

    Args:
        num_linesearch_steps: how many step sizes were tried.
        decrease_error: by how much the last one missed the condition on the decrease.
        curvature_error: by how much it missed the condition on the slope.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_zoom_linesearch(10).init(jnp.zeros(2)).info.num_linesearch_steps
        Array(0, dtype=int32, weak_type=True)
    """

    num_linesearch_steps: weft.Array
    decrease_error: weft.Array
    curvature_error: weft.Array


class ScaleByZoomLinesearchState(NamedTuple):
    """The state of ``scale_by_zoom_linesearch``.

    Args:
        learning_rate: the last step size.
        value: the value of the loss at its end.
        grad: the gradient of the loss at its end.
        info: what the line search did.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_zoom_linesearch(10).init(jnp.zeros(2)).learning_rate
        Array(1., dtype=float32)
    """

    learning_rate: weft.Array
    value: weft.Array
    grad: base.Updates
    info: ZoomLinesearchInfo


class _Trial(NamedTuple):
    """A state of the backtracking loop."""

    learning_rate: weft.Array
    value: weft.Array
    grad: Any
    decrease_error: weft.Array
    count: weft.Array


class _Point(NamedTuple):
    """A step on the line, the value there and its derivative along the line."""

    step: weft.Array
    value: weft.Array
    slope: weft.Array


class _Search(NamedTuple):
    """A state of the zoom: the interval is between low and high, safe is the best step so far."""

    count: weft.Array
    here: _Point
    grad: Any
    low: _Point
    high: _Point
    reference: _Point
    safe: _Point
    safe_grad: Any
    decrease_error: weft.Array
    curvature_error: weft.Array
    interval_found: weft.Array
    done: weft.Array
    failed: weft.Array


def scale_by_backtracking_linesearch(
    max_backtracking_steps: int,
    slope_rtol: float = 1e-4,
    decrease_factor: float = 0.8,
    increase_factor: float = 1.5,
    max_learning_rate: float = 1.0,
    atol: float = 0.0,
    rtol: float = 0.0,
    store_grad: bool = False,
    verbose: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return a line search that shortens the step until the loss falls enough (Armijo's condition).

    ``update`` takes ``value=``, ``grad=`` and ``value_fn=``, and by name what else ``value_fn``
    takes.

    Args:
        max_backtracking_steps: how many step sizes to try.
        slope_rtol: the decrease that is asked for, relative to the slope.
        decrease_factor: the factor by which a step is shortened.
        increase_factor: the factor of the last step size that gives the first guess.
        max_learning_rate: the largest step size.
        atol: an increase of the loss that is tolerated.
        rtol: an increase of the loss that is tolerated, relative to its value.
        store_grad: keep the gradient at the end of the step, for ``value_and_grad_from_state``.
        verbose: print when the search fails.

    Returns:
        A gradient transformation; put it last in a chain.

    Example:
        >>> import weft, weft.numpy as jnp, weft.optim as optim
        >>> loss = lambda x: jnp.sum(x**2)
        >>> opt = optim.chain(optim.sgd(1.0), optim.scale_by_backtracking_linesearch(10))
        >>> x = jnp.array([1.0, 2.0])
        >>> state = opt.init(x)
        >>> value, grad = weft.value_and_grad(loss)(x)
        >>> step, state = opt.update(grad, state, x, value=value, grad=grad, value_fn=loss)
        >>> bool(loss(x + step) < value)
        True
    """

    def init(params):
        dtype = _value_dtype(params)
        return ScaleByBacktrackingLinesearchState(
            learning_rate=jnp.array(1.0, dtype=dtype),
            value=jnp.array(jnp.inf, dtype=dtype),
            grad=tree.zeros_like(params) if store_grad else None,
            info=BacktrackingLinesearchInfo(jnp.asarray(0), jnp.array(jnp.inf, dtype=dtype)),
        )

    def update(updates, state, params=None, *, value, grad, value_fn, **extra_args):
        name = "scale_by_backtracking_linesearch"
        base.check_params(name, updates, params)
        at = functools.partial(value_fn, **_arguments_of(name, value_fn, extra_args))
        slope = tree.real(tree.vdot(updates, tree.conj(grad)))

        def error_of(step, new_value):
            error = new_value - (1.0 + rtol) * value - step * slope_rtol * slope
            return jnp.maximum(jnp.where(jnp.isnan(error), jnp.inf, error), 0.0)

        def goes_on(trial):
            return ~(trial.decrease_error <= atol) & (trial.count <= max_backtracking_steps)

        def shorten(trial):
            rate = trial.learning_rate
            rate = jnp.where(trial.count > 0, decrease_factor * rate, rate)
            new_params = tree.add_scale(params, rate, updates)
            if store_grad:
                new_value, new_grad = weft.value_and_grad(at)(new_params)
            else:
                new_value, new_grad = at(new_params), trial.grad
            error = error_of(rate, new_value)
            return tree.cast_like(_Trial(rate, new_value, new_grad, error, trial.count + 1), trial)

        first = _Trial(
            learning_rate=jnp.minimum(increase_factor * state.learning_rate, max_learning_rate),
            value=jnp.asarray(value),
            grad=tree.zeros_like(params) if store_grad else None,
            decrease_error=jnp.array(jnp.inf),
            count=jnp.asarray(0),
        )
        last = lax.while_loop(goes_on, shorten, first)
        stuck = jnp.isinf(last.decrease_error)
        rate = jnp.where(stuck, 0.0, last.learning_rate)
        if verbose:
            _print_if(
                last.decrease_error > atol,
                "backtracking line search: no step with enough decrease. value {value}, slope "
                "{slope}, step {step}, decrease error {error}",
                value=value, slope=slope, step=last.learning_rate, error=last.decrease_error,
            )  # fmt: skip
        new_state = ScaleByBacktrackingLinesearchState(
            learning_rate=rate,
            value=last.value,
            grad=last.grad,
            info=BacktrackingLinesearchInfo(last.count, last.decrease_error),
        )
        return tree.scale(rate, updates), tree.cast_like(new_state, state)

    return base.GradientTransformationExtraArgs(init, update)


def scale_by_zoom_linesearch(
    max_linesearch_steps: int,
    max_learning_rate: float | None = None,
    tol: float = 0.0,
    increase_factor: float = 2.0,
    slope_rtol: float = 1e-4,
    curv_rtol: float = 0.9,
    approx_dec_rtol: float | None = 1e-6,
    stepsize_precision: float = 1e-5,
    initial_guess_strategy: str = "keep",
    verbose: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return a line search for a step that makes the loss lower and flatter (Wolfe's conditions).

    ``update`` takes ``value=``, ``grad=`` and ``value_fn=``, and by name what else ``value_fn``
    takes.

    Args:
        max_linesearch_steps: how many step sizes to try.
        max_learning_rate: the largest step size; None for no bound.
        tol: by how much the conditions may be missed.
        increase_factor: the factor by which the step grows until it is long enough.
        slope_rtol: the decrease that is asked for, relative to the slope.
        curv_rtol: how flat the loss must be at the end, relative to the slope at the start.
        approx_dec_rtol: the tolerance of an approximate decrease, for values near the limits of
            precision; None to switch it off.
        stepsize_precision: stop when the interval of step sizes is this small.
        initial_guess_strategy: the first guess: the last step (``'keep'``) or 1 (``'one'``).
        verbose: print when the search fails.

    Returns:
        A gradient transformation; put it last in a chain.

    Example:
        >>> import weft, weft.numpy as jnp, weft.optim as optim
        >>> loss = lambda x: jnp.sum(x**2)
        >>> opt = optim.chain(optim.sgd(1.0), optim.scale_by_zoom_linesearch(10))
        >>> x = jnp.array([1.0, 2.0])
        >>> value, grad = weft.value_and_grad(loss)(x)
        >>> step, state = opt.update(grad, opt.init(x), x, value=value, grad=grad, value_fn=loss)
        >>> bool(loss(x + step) < value)
        True
    """
    name = "scale_by_zoom_linesearch"
    if initial_guess_strategy not in ("keep", "one"):
        raise ValueError(
            f"{name}: initial_guess_strategy must be 'keep' or 'one', "
            f"got {initial_guess_strategy!r}"
        )
    rules = _Rules(
        max_linesearch_steps, max_learning_rate, tol, increase_factor, slope_rtol, curv_rtol,
        approx_dec_rtol, stepsize_precision,
    )  # fmt: skip

    @base.own_leaves
    def init(params):
        dtype = _value_dtype(params)
        infinity = jnp.asarray(jnp.inf)
        return ScaleByZoomLinesearchState(
            learning_rate=jnp.asarray(1.0, dtype=dtype),
            value=jnp.asarray(jnp.inf, dtype=dtype),
            grad=tree.zeros_like(params),
            info=ZoomLinesearchInfo(jnp.asarray(0), infinity, infinity),
        )

    def update(updates, state, params=None, *, value, grad, value_fn, **extra_args):
        base.check_params(name, updates, params)
        fn_kwargs = _arguments_of(name, value_fn, extra_args)
        dtype = _value_dtype(params)

        def at(step):
            moved = tree.add_scale(params, step, updates)
            new_value, new_grad = weft.value_and_grad(value_fn)(moved, **fn_kwargs)
            slope = tree.real(tree.vdot(tree.conj(new_grad), updates))
            return tree.cast_like(_Point(step, new_value, slope), start), new_grad

        start = _Point(
            jnp.asarray(0.0, dtype),
            jnp.asarray(value, dtype),
            jnp.asarray(tree.real(tree.vdot(updates, grad)), dtype),
        )
        guess = state.learning_rate if initial_guess_strategy == "keep" else jnp.asarray(1.0, dtype)
        last = _zoom(rules, at, start, grad, guess)
        if verbose:
            _report_failure(last, start, stepsize_precision)
        info = ZoomLinesearchInfo(last.count, last.decrease_error, last.curvature_error)
        new_state = ScaleByZoomLinesearchState(last.here.step, last.here.value, last.grad, info)
        return tree.scale(last.here.step, updates), tree.cast_like(new_state, state)

    return base.GradientTransformationExtraArgs(init, update)


class _Rules(NamedTuple):
    """The constants of a zoom."""

    max_steps: Any
    max_step: Any
    tol: Any
    increase_factor: Any
    slope_rtol: Any
    curv_rtol: Any
    approx_dec_rtol: Any
    interval_threshold: Any

    def errors(self, start, here):
        """By how much a point misses sufficient decrease and small curvature."""
        decrease = here.value - start.value - self.slope_rtol * here.step * start.slope
        if self.approx_dec_rtol is not None:
            rise = here.value - start.value - self.approx_dec_rtol * jnp.abs(start.value)
            by_slope = here.slope - (2 * self.slope_rtol - 1.0) * start.slope
            decrease = jnp.minimum(jnp.maximum(by_slope, rise), decrease)
        curvature = jnp.abs(here.slope) - self.curv_rtol * jnp.abs(start.slope)
        return tuple(
            jnp.where(jnp.isnan(error), jnp.inf, jnp.maximum(error, 0.0))
            for error in (decrease, curvature)
        )


def _zoom(rules, at, start, grad, guess):
    """Try steps until one satisfies both conditions; then the best with enough decrease."""
    infinity, no = jnp.asarray(jnp.inf, start.value.dtype), jnp.asarray(False)
    first = _Search(
        jnp.asarray(0),
        start,
        grad,
        start,
        start,
        start,
        start,
        grad,
        infinity,
        infinity,
        no,
        no,
        no,
    )

    def try_step(search):
        new = lax.cond(
            search.interval_found,
            lambda s: tree.cast_like(_narrow(rules, at, start, s), s),
            lambda s: tree.cast_like(_widen(rules, at, start, s, guess), s),
            search,
        )
        fall_back = new.failed & ((new.safe.step > 0.0) | jnp.isinf(new.decrease_error))
        here, new_grad = tree.where(fall_back, (new.safe, new.safe_grad), (new.here, new.grad))
        return new._replace(here=here._replace(slope=new.here.slope), grad=new_grad)

    return lax.while_loop(lambda search: ~(search.done | search.failed), try_step, first)


def _widen(rules, at, start, search, guess):
    """Try a larger step until there is an interval that holds a good one."""
    before = search.here
    step = jnp.where(search.count == 0, guess, rules.increase_factor * before.step)
    at_end = jnp.asarray(False)
    if rules.max_step is not None:
        at_end = step >= rules.max_step
        step = jnp.minimum(step, rules.max_step)
    here, grad = at(step)
    decrease, curvature = rules.errors(start, here)
    good = jnp.maximum(decrease, curvature) <= rules.tol
    safe, safe_grad = tree.where(
        decrease <= rules.tol, (here, grad), (search.safe, search.safe_grad)
    )
    is_high = (decrease > 0.0) | ((here.value >= before.value) & (search.count > 0))
    is_low = (here.slope >= 0.0) & ~is_high
    low, high = tree.where(is_low, (here, before), (before, here))
    found = is_high | is_low | good
    done = good | (at_end & ~found)
    failed = (search.count + 1 >= rules.max_steps) & ~done
    return _Search(
        search.count + 1, here, grad, low, high, low, safe, safe_grad, decrease, curvature, found,
        done, failed,
    )  # fmt: skip


def _narrow(rules, at, start, search):
    """Try a step inside the interval and keep the part that holds a good one."""
    low, high = search.low, search.high
    here, grad = at(_inside(low, high, search.reference))
    decrease, curvature = rules.errors(start, here)
    done = jnp.maximum(decrease, curvature) <= rules.tol
    safer = (decrease <= rules.tol) & (here.value < search.safe.value)
    safe, safe_grad = tree.where(safer, (here, grad), (search.safe, search.safe_grad))
    to_high = (decrease > 0.0) | (here.value >= low.value)
    turned = (here.slope * (high.step - low.step) >= 0.0) & ~to_high
    new_high = tree.where(turned, low, tree.where(to_high, here, high))
    reference = tree.where(to_high | turned, high, low)
    too_small = jnp.abs(high.step - low.step) <= rules.interval_threshold
    last = jnp.asarray(search.count + 1 >= rules.max_steps) | (too_small & (safe.step > 0.0))
    return _Search(
        search.count + 1, here, grad, tree.where(to_high, low, here), new_high, reference, safe,
        safe_grad, decrease, curvature, search.interval_found, done, last & ~done,
    )  # fmt: skip


def _inside(low, high, reference):
    """The minimum of a cubic, else of a parabola, else the middle; away from the ends."""
    size = jnp.abs(high.step - low.step)
    left, right = jnp.minimum(low.step, high.step), jnp.maximum(low.step, high.step)

    def keeps_off(step, share):
        return (step > left + share * size) & (step < right - share * size)

    cubic, parabola = _cubic_minimum(low, high, reference), _parabola_minimum(low, high)
    middle = (low.step + high.step) / 2.0
    otherwise = jnp.where(keeps_off(parabola, 0.1), parabola, middle)
    return jnp.where(keeps_off(cubic, 0.2), cubic, otherwise)


def _cubic_minimum(a, b, c):
    """Of the cubic through a, b and c with the slope of a."""
    to_b, to_c = b.step - a.step, c.step - a.step
    rest_b = b.value - a.value - a.slope * to_b
    rest_c = c.value - a.value - a.slope * to_c
    scale = (to_b * to_c) ** 2 * (to_b - to_c)
    third = (to_c**2 * rest_b - to_b**2 * rest_c) / scale
    second = (-(to_c**3) * rest_b + to_b**3 * rest_c) / scale
    root = jnp.sqrt(second * second - 3.0 * third * a.slope)
    return a.step + (-second + root) / (3.0 * third)


def _parabola_minimum(a, b):
    """Of the parabola through a and b with the slope of a."""
    to_b = b.step - a.step
    second = (b.value - a.value - a.slope * to_b) / to_b**2
    return a.step - a.slope / (2.0 * second)


def value_and_grad_from_state(
    value_fn: Callable[..., Any],
) -> Callable[..., tuple[weft.Array, Any]]:
    """Return ``weft.value_and_grad`` that reuses what a line search kept in the state.

    Args:
        value_fn: the loss, a function of the parameters and more.

    Returns:
        A function of the same arguments and ``state=``, the optimiser's state, that returns the
        value and the gradient.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> loss = lambda x: jnp.sum(x**2)
        >>> opt = optim.lbfgs()
        >>> x = jnp.array([1.0, 2.0])
        >>> value, grad = optim.value_and_grad_from_state(loss)(x, state=opt.init(x))
        >>> float(value)
        5.0
    """

    def value_and_grad(params, *fn_args, state, **fn_kwargs):
        value, grad = tree.get(state, "value"), tree.get(state, "grad")
        if value is None or grad is None:
            raise ValueError(
                "value_and_grad_from_state: the state does not store the value and gradient; use "
                "scale_by_zoom_linesearch, or backtracking with store_grad=True"
            )
        return lax.cond(
            jnp.isfinite(value),
            lambda: (value, grad),
            lambda: tree.cast_like(
                weft.value_and_grad(value_fn)(params, *fn_args, **fn_kwargs), (value, grad)
            ),
        )

    return value_and_grad


def _value_dtype(params):
    """The real dtype of the first parameter."""
    leaves = weft.tree.leaves(params)
    return jnp.real(jnp.zeros((), leaves[0].dtype)).dtype if leaves else jnp.zeros(()).dtype


def _arguments_of(name, value_fn, extra_args):
    """The extra arguments, all of which `value_fn` must take."""
    parameters = inspect.signature(value_fn).parameters
    unknown = sorted(set(extra_args) - set(parameters))
    if unknown:
        raise TypeError(f"{name}: value_fn has no argument named {', '.join(unknown)}")
    return extra_args


def _print_if(condition, message, **values):
    lax.cond(condition, lambda: weft.debug.print(message, **values), lambda: None)


def _report_failure(search, start, interval_threshold):
    _print_if(
        search.failed,
        "zoom line search: no step with small enough slope. value {value}, slope {slope}, step "
        "{step}, decrease error {decrease}, curvature error {curvature}, best step {safe}",
        value=start.value, slope=start.slope, step=search.here.step, safe=search.safe.step,
        decrease=search.decrease_error, curvature=search.curvature_error,
    )  # fmt: skip
    _print_if(
        search.failed & (jnp.abs(search.low.step - search.high.step) <= interval_threshold),
        "zoom line search: the interval became smaller than stepsize_precision",
    )
    _print_if(
        search.failed & (start.slope >= 0.0),
        "zoom line search: the update does not point downhill",
    )
