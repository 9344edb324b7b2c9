"""A program run equation by equation at its own precision and with more digits, side by side.

Each operation rounds, and passes on the errors of its operands, more or less: ``rounding`` is the
first, ``condition`` the second. Integers and branches are those of the program as it is.

The rounding error of a sum is as large as its terms allow, also where they cancel. What sums that
cancel contribute is carried along (``Value.free``), and allowed. A number that rounding errors
decide in float64, too, has no digits to lose: its error counts relative to what cancelled
(``Value.floor``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.api.verifying.measure import epsilon, error
from weft.api.verifying.wide import Narrow, is_float, run_wide, widened_dtype, widened_params
from weft.base import source
from weft.core.interpret import constant_value, literal_value, run_primitive
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal

# Rounds of a loop that are looked at one by one; longer loops are taken for one operation.
MAX_ROUNDS = 64
# Runs with random rounding errors.
NOISY = 2
# Sums of products: with the magnitudes of operands, they give the sums of the magnitudes of terms.
SUMS = frozenset(
    "reduce_sum cumsum reduce_window_sum dot_general conv_general_dilated scatter-add".split()
)
# A sum cancels if its terms are this many times larger; this many times its noise is allowed.
CANCELS, FREE = 64.0, 8.0
# Random errors are no smaller than this, so that float64 holds them.
SHAKE = 2.0**-40
# Rounding errors decide numbers of up to this many times their noise.
UNDECIDED = 64.0
# Operations with several right results: vectors of either sign, blocks in any order.
SEVERAL = frozenset(["eig", "eigh", "hessenberg", "qr", "schur", "svd", "tridiagonal"])


class Value:
    """A value as it is (``low``), with more digits (``high``), and so with random errors: of all
    operations (``noisy``), of sums that cancel (``free``).

    ``inexact`` says whether floats decided it, ``unit`` is the size of the largest random errors.
    """

    __slots__ = ("low", "high", "noisy", "free", "unit", "inexact", "floor", "forgiven", "error")

    def __init__(
        self,
        low: Any,
        high: Any = None,
        noisy: Any = None,
        free: Any = None,
        unit: float = 0.0,
        inexact: bool = False,
    ) -> None:
        self.low = low
        self.high = _wide(low) if high is None else high
        self.noisy = [self.high] * NOISY if noisy is None else noisy
        self.free = self.high if free is None else free
        self.unit, self.inexact = unit, inexact
        self.floor, self.forgiven, self.error = 0.0, 0.0, 0.0
        if high is not None and self.is_float:
            self.floor = self._undecided()
            if self.free is not self.high:
                eps = epsilon(low.dtype) / shake(low.dtype)
                self.forgiven = FREE * eps * _gap(self.free, self.high)
            self.error = self.apart(low, True)

    def _undecided(self) -> Any:
        """The magnitude of what cancelled, for elements that rounding errors of float64 decide."""
        magnitude = self.magnitude()
        limit = UNDECIDED * epsilon(self.high.dtype) * magnitude
        return np.where(np.abs(self.high) <= limit, magnitude, 0.0)

    def magnitude(self) -> Any:
        """How large numbers are for their rounding errors: larger than they are where terms of them
        cancelled."""
        noise = functools.reduce(np.maximum, [_gap(n, self.high) for n in self.noisy])
        return noise / (self.unit or 1.0)

    def apart(self, found: Any, finite: bool = False) -> float:
        """The relative error of a result, less what sums that cancel have by nature."""
        return error(found, self.high, finite, self.floor, self.forgiven)

    @property
    def is_float(self) -> bool:
        """Whether it has digits to lose."""
        return hasattr(self.low, "dtype") and is_float(self.low.dtype)

    def map(self, f: Any) -> Value:
        """The same of a part of it."""
        free = None if self.free is self.high else f(self.free)
        noisy = [f(n) for n in self.noisy]
        return Value(f(self.low), f(self.high), noisy, free, self.unit, self.inexact)


def shake(dtype: Any) -> float:
    """How large random errors of a dtype are: its epsilon, and more where float64 would round them
    away."""
    return max(epsilon(dtype), SHAKE)


def _gap(a: Any, b: Any) -> Any:
    """The distance of numbers, 0 where there is none to tell."""
    with np.errstate(all="ignore"):
        gap = np.abs(np.subtract(a, b))
    return np.where(np.isfinite(gap), gap, 0.0)


def _wide(x: Any) -> Any:
    dtype = getattr(x, "dtype", None)
    return x.astype(widened_dtype(dtype)) if dtype is not None and is_float(dtype) else x


class Operation:
    """What an operation on one line did to the digits, at its worst.

    ``digits`` is how many decimal digits it lost, ``rounding`` its own error in ULPs,
    ``condition`` how much it magnified the errors of its operands, ``error`` the relative error
    behind it, ``made`` "inf" or "nan" if it made one of finite operands.
    """

    def __init__(self, name: str, line: str) -> None:
        self.name, self.line = name, line
        self.count, self.digits, self.rounding, self.condition = 0, 0.0, 0.0, 0.0
        self.error, self.made = 0.0, ""
        self.total = 0.0  # digits lost by all of its runs, one after the other

    def __repr__(self) -> str:
        if self.made:
            return f"{self.name} at {self.line}: makes {self.made} of finite numbers"
        return (
            f"{self.name} at {self.line}: loses {self.digits:.1f} digits (rounding"
            f" {self.rounding:.2g} ulp, condition {self.condition:.2g})"
        )


class Walk:
    """One run of a program; ``operations`` tells what each operation did."""

    def __init__(self, seed: int = 0) -> None:
        self.operations: dict[Any, Operation] = {}
        self.notes: dict[str, None] = {}
        self.coarsest = 0.0  # the epsilon of the dtype with the fewest digits
        self._random = np.random.default_rng(seed)
        self._lines: dict[int, str] = {}
        self._mixing: dict[int, bool] = {}

    def program(self, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        """The results of a program."""
        jaxpr = closed.jaxpr
        held = zip(closed.consts, jaxpr.constvars, strict=True)
        consts = [Value(constant_value(c, v.aval)) for c, v in held]
        return self._run(jaxpr, consts, args)

    def _run(self, jaxpr: Jaxpr, consts: Sequence[Value], args: Sequence[Value]) -> list[Value]:
        env: dict[Any, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        read = lambda x: Value(literal_value(x)) if type(x) is Literal else env[x]
        last = {
            v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars if type(v) is not Literal
        }
        kept = {v for v in jaxpr.outvars if type(v) is not Literal}
        for i, eqn in enumerate(jaxpr.eqns):
            values = [read(x) for x in eqn.invars]
            env.update(zip(eqn.outvars, self._equation(eqn, values), strict=True))
            for v in {x for x in eqn.invars if type(x) is not Literal}:
                if last[v] == i and v not in kept:
                    env.pop(v, None)
        return [read(x) for x in jaxpr.outvars]

    def _equation(self, eqn: Any, values: list[Value]) -> list[Value]:
        name, params = eqn.primitive.name, eqn.params
        callee = eqn.primitive.callee(params)
        if callee is not None:
            return self.program(callee, values)
        if name == "cond":
            branches = params["branches"]
            number = min(max(int(values[0].low), 0), len(branches) - 1)
            return self.program(branches[number], values[1:])
        if name == "scan" and 0 < params["length"] <= MAX_ROUNDS:
            return self._scan(params, values)
        if name == "while":
            found = self._while(eqn, values)
            if found is not None:
                return found
        return self._operation(eqn, values)

    # --- loops ------------------------------------------------------------------------------------

    def _scan(self, params: Any, values: list[Value]) -> list[Value]:
        first, carried, length = params["num_consts"], params["num_carry"], params["length"]
        consts, carry = values[:first], values[first : first + carried]
        xs, rows = values[first + carried :], []
        order, before, begun = range(length), self._totals(), _worst(values)
        for i in reversed(order) if params["reverse"] else order:
            given = [x.map(lambda a, i=i: a[i, ...]) for x in xs]
            outs = self.program(params["jaxpr"], [*consts, *carry, *given])
            carry = outs[:carried]
            rows.append(outs[carried:])
        self._note_loop(before, begun, carry)
        if params["reverse"]:
            rows.reverse()
        return [*carry, *[_stacked(column) for column in zip(*rows, strict=True)]]

    def _while(self, eqn: Any, values: list[Value]) -> list[Value] | None:
        """The carry at the end; None for long loops, and for those of several lanes."""
        params = eqn.params
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        cond, body = values[:n_cond], values[n_cond : n_cond + n_body]
        carry = values[n_cond + n_body :]
        saved = {k: vars(o).copy() for k, o in self.operations.items()}
        before, begun = self._totals(), _worst(values)
        for _ in range(MAX_ROUNDS):
            (going,) = self.program(params["cond_jaxpr"], [*cond, *carry])
            if np.ndim(going.low):
                break
            if not going.low:
                self._note_loop(before, begun, carry)
                return carry
            carry = self.program(params["body_jaxpr"], [*body, *carry])
        self.operations = {k: o for k, o in self.operations.items() if k in saved}
        for k, fields in saved.items():
            vars(self.operations[k]).update(fields)
        return None

    def _totals(self) -> dict[Any, float]:
        return {key: op.total for key, op in self.operations.items()}

    def _note_loop(self, before: dict[Any, float], begun: float, carry: Sequence[Value]) -> None:
        """Tell the operation that lost most where rounds of a loop lose few digits each, and many
        together."""
        gains = {k: op.total - before.get(k, 0.0) for k, op in self.operations.items()}
        worst = max(gains, key=lambda k: gains[k], default=None)
        error, eps = _worst(carry), self.coarsest
        if worst is None or not 0 < eps < error:
            return
        times = error / max(begun, eps)
        lost, op = min(gains[worst], math.log10(times), -math.log10(eps)), self.operations[worst]
        if lost > op.digits:
            op.digits, op.error, op.condition = lost, error, 10**lost

    # --- operations -------------------------------------------------------------------------------

    def _operation(self, eqn: Any, values: list[Value]) -> list[Value]:
        primitive, params = eqn.primitive, eqn.params
        avals = [v.aval for v in eqn.outvars]
        lows = [v.low for v in values]
        out = avals if primitive.multiple_results else avals[0]
        found = run_primitive(primitive, out, lows, params)
        results = list(found) if primitive.multiple_results else [found]
        inexact = any(v.inexact or v.is_float for v in values)
        floats = [hasattr(r, "dtype") and is_float(r.dtype) for r in results]
        if not any(floats):
            return [Value(r, inexact=inexact) for r in results]
        try:
            wide = widened_params(eqn)
            local = run_wide(eqn, [_wide(x) for x in lows], wide)
            made = self._made(eqn, values, results, local, wide)
        except Narrow:
            return [Value(r, inexact=inexact) for r in results]
        except Exception as failure:  # a rule for one dtype, a foreign function: it stays as it is
            self.notes[f"{primitive.name} has no float64 form ({type(failure).__name__})"] = None
            return [Value(r, inexact=inexact) for r in results]
        pairs = zip(results, local, strict=True)
        if primitive.name in SEVERAL and any(
            f and error(a, b, True) > math.sqrt(epsilon(a.dtype))
            for f, (a, b) in zip(floats, pairs, strict=True)
        ):
            self.notes[f"digits of {primitive.name}: it found another right result in float64"] = (
                None
            )
            return [Value(r, inexact=True) for r in results]
        for value, exact in zip(made, local, strict=True):
            if value.is_float:
                self._note(eqn, values, value, exact)
            value.inexact = inexact
        return made

    def _made(
        self, eqn: Any, values: list[Value], results: list[Any], local: list[Any], wide: Any
    ) -> list[Value]:
        """The results of an operation with more digits and with random errors."""
        high = run_wide(eqn, [v.high for v in values], wide)
        free = high
        if any(v.free is not v.high for v in values):
            free = run_wide(eqn, [v.free for v in values], wide)
        terms = self._terms(eqn, values, wide)
        rounds = [terms is not None or self._rounds(*pair)
                  for pair in zip(results, local, strict=True)]  # fmt: skip
        shaken = any(rounds) and terms is None
        noisy = [run_wide(eqn, self._shaken(eqn, values, k, shaken), wide) for k in range(NOISY)]
        made = []
        for i, low in enumerate(results):
            if not hasattr(low, "dtype") or not is_float(low.dtype):
                made.append(Value(low))
                continue
            eps, given, freed = shake(low.dtype), [n[i] for n in noisy], free[i]
            if rounds[i]:
                given = [n * (1 + eps * self._draw(n)) for n in given]
            if terms is not None:
                given = [n + eps * self._draw(n) * terms for n in given]
                cancelled = np.where(terms > CANCELS * np.abs(high[i]), terms, 0.0)
                if cancelled.any():
                    freed = freed + eps * self._draw(freed) * cancelled
            unit = max([*[v.unit for v in values], *[eps] * rounds[i]], default=0.0)
            made.append(Value(low, high[i], given, None if freed is high[i] else freed, unit))
        return made

    def _rounds(self, low: Any, local: Any) -> bool:
        """Whether an operation rounds; where float64 has no wider type, it may."""
        if not is_float(getattr(low, "dtype", np.dtype(bool))):
            return False
        wide = _wide(low)
        return wide.dtype == low.dtype or not np.array_equal(wide, local, equal_nan=True)

    def _draw(self, x: Any) -> Any:
        """Rounding errors: from a quarter to a half of an ULP, of either sign."""
        shape = np.shape(x)
        made = self._random.uniform(0.25, 0.5, shape) * self._random.choice([-1.0, 1.0], shape)
        if np.iscomplexobj(x):
            made = made * np.exp(2j * np.pi * self._random.random(shape))
        return made

    def _terms(self, eqn: Any, values: list[Value], wide: Any) -> Any:
        """The sums of the magnitudes of the terms of an operation that adds; None for others."""
        if eqn.primitive.name not in SUMS:
            return None
        parts = [np.abs(v.high) if v.is_float else v.high for v in values]
        parts = [p.astype(v.high.dtype) if v.is_float else p
                 for p, v in zip(parts, values, strict=True)]  # fmt: skip
        return np.abs(run_wide(eqn, parts, wide)[0])

    def _shaken(self, eqn: Any, values: list[Value], k: int, rounds: bool) -> list[Any]:
        """Operands with random errors. An operation whose elements are made of many has an error as
        if it had operands that are off by some ULPs."""
        given = [v.noisy[k] for v in values]
        if not rounds or not self._mixes(eqn):
            return given
        return [
            n * (1 + 4 * shake(v.low.dtype) * self._draw(n)) if v.is_float else n
            for n, v in zip(given, values, strict=True)
        ]

    def _mixes(self, eqn: Any) -> bool:
        """Whether an element of a result is made of several elements of an operand."""
        found = self._mixing.get(id(eqn))
        if found is None:
            found = self._mixing[id(eqn)] = _mixes(eqn)
        return found

    def _note(self, eqn: Any, values: list[Value], value: Value, local: Any) -> None:
        line = self._lines.get(id(eqn))
        if line is None:
            line = self._lines[id(eqn)] = source.summarize(eqn.source_info)
        key = (eqn.primitive.name, line)
        op = self.operations.get(key)
        if op is None:
            op = self.operations[key] = Operation(*key)
        op.count += 1
        eps = epsilon(value.low.dtype)
        self.coarsest = max(self.coarsest, eps)
        before = max((v.error for v in values), default=0.0)
        if not op.made and all(np.isfinite(v.low).all() for v in values if v.is_float):
            bad = value.low[~np.isfinite(value.low)] if np.ndim(value.low) else value.low
            if np.ndim(value.low) == 0:
                bad = np.asarray([] if np.isfinite(value.low) else [value.low])
            if bad.size:
                op.made = "nan" if np.isnan(bad).any() else "inf"
        lost = np.log10(value.error / max(before, eps)) if value.error > 0 else 0.0
        op.total += max(float(lost), 0.0)
        if lost > op.digits or op.count == 1:
            op.digits = min(max(float(lost), 0.0), -math.log10(eps))
            op.error = value.error
            op.rounding = error(value.low, local, True, value.floor, value.forgiven) / eps
            inherited = error(local, value.high, True, value.floor, value.forgiven)
            op.condition = inherited / before if before > 0 else 0.0


def _worst(values: Sequence[Value]) -> float:
    return max([v.error for v in values if v.is_float], default=0.0)


def _stacked(column: Sequence[Value]) -> Value:
    low, high = (np.stack([getattr(v, name) for v in column]) for name in ("low", "high"))
    noisy = [np.stack([v.noisy[k] for v in column]) for k in range(NOISY)]
    free = None
    if any(v.free is not v.high for v in column):
        free = np.stack([v.free for v in column])
    unit = max(v.unit for v in column)
    return Value(low, high, noisy, free, unit, any(v.inexact for v in column))


def _mixes(eqn: Any) -> bool:
    avals, outs = [x.aval for x in eqn.invars], [v.aval for v in eqn.outvars]
    f = eqn.primitive.factors(avals, outs, eqn.params)
    if f is None or f.combine:
        return True
    kept = {label for dims in f.outs for labels in dims for label in labels}
    return any(
        n > 1 and not (labels and kept.issuperset(labels))
        for aval, dims in zip(avals, f.ins, strict=True)
        for n, labels in zip(aval.shape, dims, strict=True)
    )
