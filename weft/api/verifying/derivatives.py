"""Derivatives and batches of a program, compared with each other and with finite differences.

All of it in float64, so that what is compared are the rules, not their rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.api.autodiff import jvp, vjp
from weft.api.batching import vmap
from weft.api.jit import jit
from weft.api.verifying.measure import epsilon
from weft.api.verifying.report import Finding, Verification
from weft.api.verifying.wide import Narrow, drops_digits, is_float, widened, widened_value
from weft.base import knobs, source
from weft.core.interpret import constant_value, run
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, jaxpr_as_fun, jaxprs_in_params
from weft.runtime.array import box

# Relative step of finite differences, and what may differ: between them at two steps, between them
# and derivatives, between derivatives, and between float32 and float64.
STEP, SMOOTH, RULES, SAME = 1e-4, 1e-5, 1e-6, 1e-7
# What rules of functions may differ that repeat something until it is accurate enough.
ITERATED = 1e-4
# Of what a result is, the parts below which derivatives, and compiled gradients, are zero.
NOTHING, CANCELLED = 1e-5, 1e-3
# Calls with custom derivatives, and those that are differentiated as solutions.
_RULED, _IMPLICIT = ("custom_jvp", "custom_vjp"), "custom_linear_solve"
# Lines of functions with custom rules that a report lists, at most.
LISTED_RULES = 3


class Flat:
    """A program as a function of those of its arguments that are floats."""

    def __init__(self, closed: ClosedJaxpr, args: Sequence[Any]) -> None:
        self.program = widened(closed)
        self.args = [widened_value(x, v) for x, v in zip(args, closed.in_avals, strict=True)]
        self.places = [i for i, x in enumerate(self.args) if _is_real(x)]
        self.rounds = _any(closed.jaxpr, drops_digits)
        self.rules = _rules(closed.jaxpr)
        self.iterated = bool(self.rules) and _any(closed.jaxpr, _is_while)
        self._tape = Tape()
        # a solver may stop gradients of what it solves with, and the solution moves all the same
        self.solves = _any(closed.jaxpr, _is_solver) and _any(closed.jaxpr, _is_cut)
        program = self.program.jaxpr
        self._held = program if self.solves else holding(program, self._tape)
        outs = self.program.out_avals
        self.outs = [i for i, a in enumerate(outs) if _is_real(a)]
        held = zip(self.program.consts, self.program.jaxpr.constvars, strict=True)
        self._consts = [constant_value(c, v.aval) for c, v in held]
        self.keys = {i: box(self.args[i], v) for i, v in enumerate(closed.in_avals) if _is_key(v)}

    @property
    def floats(self) -> list[Any]:
        return [self.args[i] for i in self.places]

    def given(self, floats: Sequence[Any]) -> list[Any]:
        full = list(self.args)
        for i, x in zip(self.places, floats, strict=True):
            full[i] = x
        return full

    def __call__(self, *floats: Any) -> list[Any]:
        given = [self.keys.get(i, x) for i, x in enumerate(self.given(floats))]
        outs = jaxpr_as_fun(self.program)(*given)
        return [outs[i] for i in self.outs]

    def by_numpy(self, floats: Sequence[Any]) -> list[Any]:
        """The results by NumPy. What has no derivative is that of the first call."""
        with self._tape, np.errstate(all="ignore"):
            outs = run(self._held, self._consts, self.given(floats))
        return [outs[i] for i in self.outs]


class Diverged(Exception):
    """A run that stops gradients elsewhere than the first one did."""


class Tape:
    """The results of ``stop_gradient`` in a first run, which all others get: to derivatives, they
    are constants. As a primitive, it is in the place of that."""

    name, multiple_results = "stop_gradient", False

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._recorded, self._next = False, 0

    def __enter__(self) -> None:
        self._next = 0

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None and self._recorded and self._next != len(self._values):
            raise Diverged
        self._recorded = True

    def flushes(self, *_: Any) -> bool:
        return False

    def ref(self, x: Any) -> Any:
        if not self._recorded:
            self._values.append(x)
            return x
        if self._next == len(self._values) or self._values[self._next].shape != x.shape:
            raise Diverged
        self._next += 1
        return self._values[self._next - 1]


def holding(value: Any, tape: Tape) -> Any:
    """A program with a tape in the place of ``stop_gradient``; or the parameters of one."""
    if type(value) is ClosedJaxpr:
        return ClosedJaxpr(holding(value.jaxpr, tape), value.consts)
    if type(value) is Jaxpr:
        if not _any(value, _is_cut):
            return value
        return value.replace(eqns=[_with_tape(eqn, tape) for eqn in value.eqns])
    if type(value) is tuple:
        return tuple([holding(v, tape) for v in value])
    return value


def _with_tape(eqn: Any, tape: Tape) -> Any:
    if _is_cut(eqn):
        return eqn.replace(primitive=tape)
    if eqn.primitive.name.startswith(_RULED):  # its rule decides, whatever is inside
        return eqn
    params = {name: holding(value, tape) for name, value in eqn.params.items()}
    return eqn.replace(params=params)


def _is_cut(eqn: Any) -> bool:
    return bool(eqn.primitive.name == "stop_gradient")


def _is_solver(eqn: Any) -> bool:
    return bool(eqn.primitive.name == _IMPLICIT)


def _is_key(aval: Any) -> bool:
    return hasattr(aval, "dtype") and isinstance(aval.dtype, dtypes.ExtendedDType)


def _rules(jaxpr: Jaxpr) -> list[str]:
    """The lines of calls that have a rule of the user's for derivatives."""
    found: dict[str, None] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name.startswith(_RULED):
            found[source.summarize(eqn.source_info)] = None
        for inner in jaxprs_in_params(eqn.params):
            found.update(dict.fromkeys(_rules(inner)))
    return list(found)


def _is_while(eqn: Any) -> bool:
    """Whether an operation is a loop that ends by what it has computed."""
    return bool(eqn.primitive.name == "while")


def _any(jaxpr: Jaxpr, test: Callable[[Any], Any]) -> Any:
    """What a test says of an operation of a program for which it holds, or None."""
    for eqn in jaxpr.eqns:
        found = test(eqn)
        for inner in () if found else jaxprs_in_params(eqn.params):
            found = found or _any(inner, test)
        if found:
            return found
    return None


def _is_real(x: Any) -> bool:
    return hasattr(x, "dtype") and is_float(x.dtype) and np.dtype(x.dtype).kind != "c"


def compare(
    closed: ClosedJaxpr, args: Sequence[Any], values: Sequence[Any], report: Verification
) -> None:
    """Compare the derivatives and batches of a program."""
    with knobs.scope(enable_x64=True, backend="reference"), np.errstate(all="ignore"):
        try:
            flat = Flat(closed, args)
        except Narrow as error:
            report.skipped.append(f"derivatives: {error} has no float64 form")
            return
        except Exception as error:  # a rule that takes one dtype only
            report.skipped.append(f"derivatives: no float64 form ({_said(error)})")
            return
        if not flat.places or not flat.outs:
            what = "argument" if not flat.places else "result"
            report.skipped.append(f"derivatives: no {what} is a real float")
            return
        random = np.random.default_rng(0)
        tangents = [_direction(x, random) for x in flat.floats]
        try:
            outs = flat.by_numpy(flat.floats)
        except Exception as error:  # a function of the user's that takes one dtype only
            report.skipped.append(f"derivatives: no float64 form ({_said(error)})")
            return
        weights = [random.standard_normal(np.shape(y)) for y in outs]
        if not all(np.isfinite(y).all() for y in outs):
            report.skipped.append("derivatives: a result is not finite here")
            return
        found = Derivatives(flat, tangents, weights, report)
        # where terms of results cancel, their derivatives cancel as well
        sizes = [np.maximum(np.abs(y), values[i].magnitude())
                 for y, i in zip(outs, flat.outs, strict=True)]  # fmt: skip
        total = dot([np.abs(w) for w in weights], sizes)
        found.floor, found.noise = NOTHING * total, total * float(np.finfo(np.float64).eps)
        found.directional()
        found.batched()
    if flat.rounds:
        report.skipped.append("compiled gradient: reduce_precision drops digits of it")
    elif found.pulled is not None:
        _compiled(closed, args, flat, weights, found.pulled, total, report)


def _direction(x: Any, random: Any) -> Any:
    """A direction in proportion to each element; those that are NaN or infinite stay."""
    size = np.where(x == 0, 1.0, np.where(np.isfinite(x), np.abs(x), 0.0))
    return random.standard_normal(np.shape(x)) * size


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def dot(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The inner product of two lists of arrays."""
    return float(sum(np.sum(np.asarray(x) * np.asarray(y)) for x, y in zip(xs, ys, strict=True)))


class Derivatives:
    """The derivatives of one function at one point, along one direction."""

    def __init__(self, flat: Flat, tangents: Any, weights: Any, report: Verification) -> None:
        self.flat, self.tangents, self.weights, self.report = flat, tangents, weights, report
        self.pulled: Any = None
        self.floor, self.noise = 0.0, 0.0

    def _attempt(self, what: str, compute: Callable[[], Any]) -> Any:
        try:
            return compute()
        except Exception as error:  # no rule, or not for these: said, not hidden
            self.report.skipped.append(f"{what}: {_said(error)}")
            return None

    def _add(
        self,
        name: str,
        found: float,
        want: float,
        scale: float,
        allowed: float,
        rules: Sequence[str] = (),
    ) -> None:
        off = abs(found - want) / max(scale, 1e-30)
        ok = bool(off <= allowed)
        detail = f"relative difference {off:.1g}"
        if not ok:
            detail = f"{found:.6g} where {want:.6g} was expected, {detail}"
            if rules:
                more = f" and {len(rules) - LISTED_RULES} more" * (len(rules) > LISTED_RULES)
                lines = ", ".join(rules[:LISTED_RULES])
                detail += f"; functions with a rule of your own: {lines}{more}"
        self.report.transformations.append(Finding(name, ok, off, None, allowed, detail))

    def directional(self) -> None:
        """Forward and reverse mode against finite differences, and against each other."""
        flat, xs, vs, ws = self.flat, self.flat.floats, self.tangents, self.weights
        pushed = self._attempt("jvp", lambda: jvp(flat, tuple(xs), tuple(vs))[1])
        self.pulled = self._attempt("vjp", lambda: vjp(flat, *xs)[1](self._cotangents()))
        try:
            slopes, kink = [self._slope(h) for h in (STEP, STEP / 3)], self._kink()
        except Diverged:
            slopes, kink = [np.nan, np.nan], 0.0
        forward = None if pushed is None else dot(ws, pushed)
        backward = None if self.pulled is None else dot(self.pulled, vs)
        scale = self.floor + (abs(slopes[1]) if np.isfinite(slopes[1]) else 0.0)
        if pushed is not None:
            scale += sum(float(np.abs(np.asarray(w) * p).sum())
                         for w, p in zip(ws, pushed, strict=True))  # fmt: skip
        # finite differences see the rounding errors of float64, magnified as those of float32 are
        magnified = max(
            [r.ulps or 0.0 for r in self.report.runs if r.name == "against float64"] or [0.0]
        )
        noise = 10 * magnified * np.finfo(np.float64).eps / STEP
        noise += 10 * self.noise / STEP / max(scale, 1e-30)
        noise += 10 * abs(slopes[0] - slopes[1]) / max(scale, 1e-30)
        noise += kink / max(scale, 1e-30)
        checked = "jvp" if forward is not None else "vjp"
        derivative = backward if forward is None else forward
        if not noise <= SMOOTH * 100:
            self.report.skipped.append("finite differences: the function is not smooth enough here")
        elif derivative is not None:
            allowed = (ITERATED if flat.iterated else RULES) + noise
            off = abs(derivative - slopes[1]) / max(scale, 1e-30)
            if off > allowed and self.flat.solves:
                what = "stop_gradient has a derivative of its own"
                self.report.skipped.append(f"finite differences: {what}")
            elif off > allowed and self._wobbles(slopes[1], off * scale, 30 * noise * scale):
                what = "the function is not smooth enough here"
                self.report.skipped.append(f"finite differences: {what}")
            else:
                name, rules = f"{checked} against finite differences", self.flat.rules
                self._add(name, derivative, slopes[1], scale, allowed, rules)
        if forward is None or backward is None:
            return
        if not np.isfinite(forward):
            self.report.skipped.append("not comparable: a derivative is not finite here")
        else:
            self._add("vjp against jvp", backward, forward, scale, SAME)

    def _cotangents(self) -> list[Any]:
        return [np.asarray(w, np.float64) for w in self.weights]

    def _along(self, t: float) -> float:
        """The weighted results at a point along the direction."""
        moved = [
            np.asarray(x + t * v) for x, v in zip(self.flat.floats, self.tangents, strict=True)
        ]
        return dot(self.weights, self.flat.by_numpy(moved))

    def _kink(self) -> float:
        """By how much the slopes to both sides differ, if that is not for want of a small step."""
        here = self._along(0.0)
        gaps = [abs(self._along(h) + self._along(-h) - 2 * here) / h for h in (STEP, STEP / 3)]
        return gaps[1] if gaps[1] > 0.6 * gaps[0] else 0.0

    def _wobbles(self, slope: float, gap: float, noise: float) -> bool:
        """Whether smaller steps give other slopes, by a part of a gap: steps are longer than the
        waves of the function then."""
        more = [self._slope(h) for h in (STEP / 7, STEP / 30)]
        return not all(abs(s - slope) <= 0.01 * gap + noise for s in more)

    def _slope(self, h: float) -> float:
        """The derivative along the direction, by finite differences of order four."""
        at = self._along
        return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)

    def batched(self) -> None:
        """``vmap`` against a loop, and ``grad`` of ``vmap`` against ``vmap`` of ``grad``."""
        flat, vs = self.flat, self.tangents
        points = [
            flat.floats,
            [np.asarray(x + 0.01 * v) for x, v in zip(flat.floats, vs, strict=True)],
        ]
        stacked = [np.stack(column) for column in zip(*points, strict=True)]
        alone = self._attempt("vmap", lambda: [flat(*p) for p in points])
        together = self._attempt("vmap", lambda: vmap(flat)(*stacked))
        if alone is None or together is None:
            return
        self._same("vmap against a loop", together, [np.stack(c) for c in zip(*alone, strict=True)])
        if self.pulled is None:
            return
        ws = [np.stack([w, w]) for w in self._cotangents()]
        inner = lambda xs, ws: vjp(flat, *xs)[1](list(ws))
        of_grad = self._attempt("vmap of grad", lambda: vmap(inner)(tuple(stacked), tuple(ws)))
        of_vmap = self._attempt("grad of vmap", lambda: vjp(vmap(flat), *stacked)[1](ws))
        if of_grad is not None and of_vmap is not None:
            self._same("grad of vmap against vmap of grad", of_vmap, of_grad)

    def _same(self, name: str, found: Sequence[Any], want: Sequence[Any]) -> None:
        off = _apart(found, want)
        ok = bool(off <= SAME)
        detail = f"relative difference {off:.1g}"
        self.report.transformations.append(Finding(name, ok, off, None, SAME, detail))


def _compiled(
    closed: ClosedJaxpr,
    args: Any,
    flat: Flat,
    weights: Any,
    want: Any,
    total: float,
    report: Verification,
) -> None:
    """The compiled gradient at the function's own precision against that in float64."""
    own = jaxpr_as_fun(closed)

    def gradient(*floats: Any) -> Any:
        full = [flat.keys.get(i, x) for i, x in enumerate(args)]
        for i, x in zip(flat.places, floats, strict=True):
            full[i] = x
        outs = lambda *xs: [own(*_put(full, flat.places, xs))[i] for i in flat.outs]
        ys, pull = vjp(outs, *floats)
        return pull([np.asarray(w, y.dtype) for w, y in zip(weights, ys, strict=True)])

    try:
        found = jit(gradient)(*[args[i] for i in flat.places])
    except Exception as error:  # said, not hidden
        report.skipped.append(f"compiled gradient: {_said(error)}")
        return
    # gradients that cancel to nothing have no digits: they are measured by what results are
    sizes = [float(np.sqrt(np.mean(np.square(x)))) if np.size(x) else 0.0 for x in flat.floats]
    # an element of the gradient that is not finite is no number to compare with
    found = [np.where(np.isfinite(b), a, b) for a, b in zip(found, want, strict=True)]
    half = max([math.sqrt(epsilon(args[i].dtype)) for i in flat.places])  # of the digits
    part = max(CANCELLED, half)
    off = _apart(found, want, [part * total / (size or 1.0) for size in sizes])
    allowed = 10 * max(report.rtol, half)
    detail = f"relative difference {off:.1g}"
    name = "compiled gradient against float64"
    report.transformations.append(Finding(name, off <= allowed, off, None, allowed, detail))


def _apart(found: Sequence[Any], want: Sequence[Any], floors: Any = None) -> float:
    """The largest difference between arrays, relative to the size of each, or a floor."""
    off = 0.0
    for a, b, floor in zip(found, want, floors or [0.0] * len(found), strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        with np.errstate(all="ignore"):
            gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
            worst = float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0))
        known = b[np.isfinite(b)]
        size = float(np.sqrt(np.mean(np.square(known)))) if known.size else 0.0
        off = max(off, worst / max(size, floor, 1e-30) if worst else 0.0)
    return off


def _put(full: list[Any], places: Sequence[int], xs: Sequence[Any]) -> list[Any]:
    made = list(full)
    for i, x in zip(places, xs, strict=True):
        made[i] = x
    return made
