"""``verify``: one call of a function, run in every way that weft has, and compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.api.arguments import check_callable
from weft.api.jit import JitFunction, jit
from weft.api.verifying import derivatives
from weft.api.verifying.again import difference
from weft.api.verifying.measure import epsilon, error, not_comparable, same_bits
from weft.api.verifying.report import Finding, Verification
from weft.api.verifying.walk import Value, Walk, shake
from weft.api.verifying.wide import is_float
from weft.base import errors, knobs, source
from weft.base.cores import threads
from weft.base.functional import wraps
from weft.base.traceback import api_boundary
from weft.core.jaxpr import ClosedJaxpr
from weft.core.trace import is_tracing
from weft.runtime.array import ArrayImpl
from weft.runtime.client import host
from weft.tree.functions import tree_leaves, tree_map

# How many times the noise of rounding two ways to run a program may differ by, and the ULPs that
# they may at least.
SLACK, MIN_ULPS = 16.0, 8.0


def verify(
    fun: Callable[..., Any],
    *,
    rtol: float | None = None,
    derivatives: bool = True,
    schedules: bool = True,
    allow_effects: bool = False,
) -> Callable[..., Verification]:
    """Return a function that runs ``fun`` in every way that weft has, and compares the results.

    Args:
        fun: Function of arrays, compiled by ``jit`` or not.
        rtol: Relative error against float64 that is allowed; by default the square root of the
            machine epsilon: half of the digits.
        derivatives: Whether to check derivatives and batches, too.
        schedules: Whether to compile it in other ways, too.
        allow_effects: Whether a function with side effects may run several times.

    Returns:
        Function of the same arguments that returns a report. ``report.ok`` says whether everything
        agreed, ``report.check()`` raises an AssertionError if not, and ``print(report)`` names the
        operations that lose digits, with your line.

    The call runs compiled, by the NumPy reference of each operation, with float64 in place of each
    float, with one thread, without hand-written routines, and as shape-generic code. Each operation
    is measured: its own *rounding*, and its *condition*, which is how much it magnifies the errors
    of its operands. Derivatives are compared with finite differences in float64, reverse mode with
    forward mode, and ``grad`` of ``vmap`` with ``vmap`` of ``grad``. What can't be verified is
    listed in ``report.skipped``. Functions with side effects are refused, since they would happen
    several times; arguments that are donated are copied first.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> report = weft.verify(lambda x: jnp.log1p(x))(jnp.float32(1e-5)).check()
        >>> report.ok
        True
        >>> weft.verify(lambda x: jnp.log(1 + x))(jnp.float32(1e-5)).operations[0].name
        'log'
    """
    check_callable(fun)
    if rtol is not None and not rtol > 0:
        raise ValueError(f"verify takes rtol above 0, got {rtol!r}")
    compiled: Any = fun if isinstance(fun, JitFunction) else jit(fun)

    @api_boundary
    @wraps(fun, updated=())
    def verified(*args: Any, **kwargs: Any) -> Verification:
        if is_tracing():
            raise TypeError(
                errors.located(
                    "verify needs concrete values, but was called inside a transformation",
                    "Call it outside of jit, grad and vmap, on a function that uses them.",
                )
            )
        check = Check(compiled, rtol, allow_effects)
        check.call(args, kwargs)
        check.trace_again(args, kwargs)
        check.walk()
        check.compare()
        if schedules:
            check.schedules()
        if derivatives:
            check.derivatives()
        return check.report

    return verified


class Check:
    """The verification of one call."""

    def __init__(self, function: JitFunction, rtol: float | None, allow_effects: bool) -> None:
        self.function, self.rtol, self.allow_effects = function, rtol, allow_effects
        self.report = Verification(function._name, rtol or 0.0)

    def call(self, args: Any, kwargs: Any) -> None:
        """Stage the function, and run it compiled."""
        leaves, staged = self.function._stage(args, kwargs)
        closed = self.closed = staged.closed
        if staged.refs:
            raise ValueError(
                f"verify cannot run {self.function._name} several times: it reads or writes a"
                " mutable reference. Verify a function that takes its value, ref[...]"
            )
        self._check_effects(closed)
        args, kwargs = tree_map(_copied, (args, kwargs))
        self.report.result = self.function(*args, **kwargs)
        self.outs = [to_host(x) for x in tree_leaves(self.report.result)]
        avals = closed.in_avals[len(staged.hoisted) :]
        self.given = [to_host(x, a) for x, a in zip(leaves, avals, strict=True)]
        if any(staged.params["donated_invars"]):
            self.report.skipped.append("donation: the arguments that are donated were copied first")
        if any(x._type.placement.is_spread for x in leaves if type(x) is ArrayImpl):
            self.report.skipped.append("the schedules of each shard: they run on one device here")

    def trace_again(self, args: Any, kwargs: Any) -> None:
        """Trace the function again: what depends on more than its arguments is another program."""
        found = difference(self.closed, self.function._traced_again(args, kwargs))
        if found:
            detail = f"another program: {found}"
            self.report.runs.append(Finding("traced again", False, 0.0, None, 0.0, detail))

    def _check_effects(self, closed: ClosedJaxpr) -> None:
        eqn = next(_effectful(closed), None)
        if eqn is None:
            return
        name, where = eqn.primitive.name, source.summarize(eqn.source_info)
        if self.allow_effects:
            self.report.skipped.append(f"side effects: {name} at {where} ran several times")
            return
        raise ValueError(
            f"verify would run {name} at {where} several times, and it has side effects; remove "
            "it from the function, or pass verify(f, allow_effects=True)"
        )

    def walk(self) -> None:
        """Run the program equation by equation, also with more digits."""
        walk, report = Walk(), self.report
        with np.errstate(all="ignore"):
            self.values = walk.program(self.closed, [Value(x) for x in self.given])
        report.operations = sorted(
            walk.operations.values(), key=lambda op: (-_rank(op), -op.condition)
        )
        report.skipped += walk.notes
        self.coarsest = walk.coarsest
        report.rtol = self.rtol or math.sqrt(max(walk.coarsest, epsilon(np.float32)))
        if any(v.is_float and v.low.dtype in (np.float64, np.complex128) for v in self.values):
            report.skipped.append("float64 results against more digits: there is no wider type")

    def compare(self) -> None:
        """Compare the compiled function with the reference and with float64."""
        report = self.report
        self._add("against the reference", self.outs)
        floats = [v for v in self.values if v.is_float and v.low.dtype.itemsize < _wide_size(v.low)]
        if not floats:
            report.skipped.append("digits: no result is a float below float64")
            return
        apart = sum(not_comparable(v.low, v.high) for v in floats)
        if apart:
            elements = "1 element is" if apart == 1 else f"{apart} elements are"
            report.skipped.append(f"not comparable: {elements} not finite in float64")
        off = max(v.error for v in floats)
        eps = max(epsilon(v.low.dtype) for v in floats)
        ok = off <= report.rtol
        left = "no digits" if off >= 1 else f"{-math.log10(max(off, eps / 2)):.1f} digits"
        detail = f"{off / eps:.2g} ulp, {left} right"
        made = [op for op in report.operations if op.made]
        if any(np.isnan(v.low).any() for v in floats) and _finite(self.given):
            ok, detail = False, "NaN from finite arguments"
        if not ok:
            lost = [op for op in report.operations if op.digits >= 1]
            detail += f": {(made or lost or report.operations)[0]!r}"
        report.runs.append(Finding("against float64", ok, off, off / eps, report.rtol, detail))

    def _add(self, name: str, outs: Sequence[Any], exact: Sequence[Any] | None = None) -> None:
        """Compare results with the reference's, or with others bit by bit."""
        worst = Finding(name, True, 0.0, 0.0, 0.0, "same bits")
        for i, (out, value) in enumerate(zip(outs, self.values, strict=True)):
            if exact is not None:
                if not same_bits(np.asarray(out), np.asarray(exact[i])):
                    return self.report.runs.append(
                        Finding(name, False, 0.0, None, 0.0, f"result {i} has other bits")
                    )
                continue
            found = _against(name, i, out, value)
            if (not found.ok, found.error) > (not worst.ok, worst.error):
                worst = found
        self.report.runs.append(worst)

    def schedules(self) -> None:
        """Run the program compiled in other ways."""
        if not host().learns:
            self.report.skipped.append("schedules: this backend doesn't compile")
            return
        program, given = self.closed, self.given
        fresh = lambda: ClosedJaxpr(program.jaxpr, program.consts)
        run = lambda closed: [to_host(x) for x in run_on_host(closed, given)]
        try:
            base = run(fresh())
            self._add("compiled for the CPU", base)
            for count in {1, max(2, threads())}:
                with knobs.num_threads(count):
                    name = "1 thread" if count == 1 else f"{count} threads"
                    self._add(name, run(fresh()), base)
            with knobs.routines("off"):
                self._add("generated kernels only", run(fresh()))
            self._add("shape-generic code", run(host().generalise(fresh())))
        except errors.JaxRuntimeError as error:
            self.report.skipped.append(f"schedules: {error}")

    def derivatives(self) -> None:
        """Compare derivatives and batches."""
        with np.errstate(all="ignore"):
            derivatives.compare(self.closed, self.given, self.values, self.report)


def _rank(op: Any) -> float:
    return math.inf if op.made else op.digits


def _against(name: str, i: int, out: Any, value: Value) -> Finding:
    """How a result compares with that of the reference."""
    out, low = np.asarray(out), value.low
    if not value.is_float:
        count = int((out != low).sum()) if np.shape(out) == np.shape(low) else out.size
        if not count:
            return Finding(name, True, 0.0, 0.0, 0.0, "same bits")
        ok = value.inexact and count <= max(1, out.size // 100)
        tie = ", which floats decide" if value.inexact else ""
        detail = f"result {i} differs in {count} of {out.size} elements{tie}"
        return Finding(name, ok, math.inf, None, 0.0, detail)
    eps = epsilon(low.dtype)
    noise = max([value.error, *[error_of(n, value) for n in value.noisy]])
    allowed = max(SLACK * noise, MIN_ULPS * eps)
    off = value.apart(out.astype(low.dtype))
    wide = low.astype(value.high.dtype)
    apart = error(out.astype(low.dtype), wide, False, value.floor, value.forgiven)
    ok = min(off, apart) <= allowed
    detail = "same bits" if same_bits(out, low) else f"{apart / eps:.2g} ulp apart"
    if not ok:
        detail = f"result {i} is {apart / eps:.2g} ulp apart; rounding explains {allowed / eps:.2g}"
    return Finding(name, ok, apart, apart / eps, allowed, detail)


def error_of(noisy: Any, value: Value) -> float:
    """The error of a result with random rounding errors."""
    if not np.isfinite(noisy).all() or not value.low.size:
        return 0.0
    with np.errstate(all="ignore"):
        off = error(noisy.astype(value.high.dtype), value.high, False, value.floor)
    return off * epsilon(value.low.dtype) / shake(value.low.dtype)


def run_on_host(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """The results of a program that the host runs, wherever the arguments were."""
    return host().call(closed, args)


def to_host(x: Any, aval: Any = None) -> Any:
    """A value as the reference takes it."""
    if type(x) is ArrayImpl:
        return np.asarray(x._value)
    return np.asarray(x, None if aval is None else getattr(aval, "dtype", None))


def _copied(x: Any) -> Any:
    return x.__copy__() if type(x) is ArrayImpl else x


def _wide_size(x: Any) -> int:
    return 16 if x.dtype.kind == "c" else 8


def _finite(values: Sequence[Any]) -> bool:
    return all(np.isfinite(x).all() for x in values if is_float(x.dtype))


def _effectful(closed: ClosedJaxpr) -> Any:
    """The operations of a program that do something besides."""
    for eqn in closed.eqns:
        inner = [p for v in eqn.params.values() for p in (v if type(v) is tuple else (v,))]
        inner = [p for p in inner if hasattr(p, "eqns")]
        if inner:
            for program in inner:
                yield from _effectful(program)
        elif eqn.effects:
            yield eqn
