"""A program run equation by equation at its own precision and with more digits, side by side.

Each operation rounds, and passes on the errors of its operands, more or less: ``rounding`` is the
first, ``condition`` the second. Integers and branches are those of the program as it is.
"""

from __future__ import annotations

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
# Operations with several right results: vectors of either sign, blocks in any order.
SEVERAL = frozenset(["eig", "eigh", "hessenberg", "qr", "schur", "svd", "tridiagonal"])


class Value:
    """A value as it is, with more digits, and with random errors; whether floats decided it."""

    __slots__ = ("low", "high", "noisy", "inexact", "error")

    def __init__(self, low: Any, high: Any = None, noisy: Any = None, inexact: bool = False):
        self.low = low
        self.high = _wide(low) if high is None else high
        self.noisy = [self.high] * NOISY if noisy is None else noisy
        self.inexact = inexact
        self.error = error(low, self.high, True) if high is not None and self.is_float else 0.0

    @property
    def is_float(self) -> bool:
        """Whether it has digits to lose."""
        return hasattr(self.low, "dtype") and is_float(self.low.dtype)

    def map(self, f: Any) -> Value:
        """The same of a part of it."""
        return Value(f(self.low), f(self.high), [f(n) for n in self.noisy], self.inexact)


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
        order = range(length)
        for i in reversed(order) if params["reverse"] else order:
            given = [x.map(lambda a, i=i: a[i, ...]) for x in xs]
            outs = self.program(params["jaxpr"], [*consts, *carry, *given])
            carry = outs[:carried]
            rows.append(outs[carried:])
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
        for _ in range(MAX_ROUNDS):
            (going,) = self.program(params["cond_jaxpr"], [*cond, *carry])
            if np.ndim(going.low):
                break
            if not going.low:
                return carry
            carry = self.program(params["body_jaxpr"], [*body, *carry])
        self.operations = {k: o for k, o in self.operations.items() if k in saved}
        for k, fields in saved.items():
            vars(self.operations[k]).update(fields)
        return None

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
            high = run_wide(eqn, [v.high for v in values], wide)
            noisy = [run_wide(eqn, [v.noisy[k] for v in values], wide) for k in range(NOISY)]
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
        made = []
        for i, low in enumerate(results):
            if not floats[i]:
                made.append(Value(low, inexact=inexact))
                continue
            given = [self._perturbed(n[i], low, local[i]) for n in noisy]
            value = Value(low, high[i], given, inexact)
            self._note(eqn, values, value, local[i])
            made.append(value)
        return made

    def _perturbed(self, noisy: Any, low: Any, local: Any) -> Any:
        """A result with a random rounding error, if the operation rounds."""
        if np.array_equal(_wide(low), local, equal_nan=True):
            return noisy
        return noisy * (1 + epsilon(low.dtype) * (self._random.random(np.shape(noisy)) - 0.5))

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
        if lost > op.digits or op.count == 1:
            op.digits = min(max(float(lost), 0.0), -math.log10(eps))
            op.error = value.error
            op.rounding = error(value.low, local, True) / eps
            inherited = error(local, value.high, True)
            op.condition = inherited / before if before > 0 else 0.0


def _stacked(column: Sequence[Value]) -> Value:
    low, high = (np.stack([getattr(v, name) for v in column]) for name in ("low", "high"))
    noisy = [np.stack([v.noisy[k] for v in column]) for k in range(NOISY)]
    return Value(low, high, noisy, any(v.inexact for v in column))
