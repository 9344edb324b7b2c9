"""The eager policy: what of that which runs outside of ``jit`` is native, and from when on.

What native code rounds in another way than NumPy is native from the first call on, so that the same
call gives the same bits every time; so is what is large. The rest is run by NumPy while it is new,
and compiled when it comes again, if there is time for it.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from weft.base import knobs
from weft.core.avals import ShapedArray
from weft.core.caches import ProgramCache, per_program
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_in_params

# Elements of operands and results from which on a native program is worth making.
LARGE_ELEMENTS = 1 << 15
# Elements up to which a program in named sizes stays in use, where code for exactly these could be
# made.
FEW_ELEMENTS = 1 << 14
# Operations from which on a program is sooner planned, its code being known, than these are run one
# by one on arrays of a new size.
MIN_PLANNED_OPERATIONS = 40
# Equations that a loop runs, in all its calls, from which on it is worth compiling; and how many
# calls, where its length is not known.
LOOP_EQUATIONS, LOOP_CALLS = 1 << 11, 8
# Seconds of compiling that the account holds at most.
CAPACITY = 0.02

_COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))
_IN_ORDER = frozenset(["map", "move", "iota", "element", "expand", "update"])


def is_native(primitive: Any, avals: Any, out: Any, params: dict[str, Any]) -> bool:
    """Whether a primitive on its own runs natively."""
    rounds = primitive.rounds(params) if primitive.nodes == "loop" else None
    if rounds is not None:
        body = params["jaxpr"]
        return not body.effects and not is_interpreted(body, rounds * (1 + len(body.eqns)))
    if primitive.effects or primitive.eqn_effects is not None:
        return False
    if primitive.costly:
        return True
    if primitive.form is None and primitive.lower is None and primitive.axis_names is not None:
        return False
    every = [*avals, *(out if primitive.multiple_results else [out])]
    if any(type(a) is not ShapedArray for a in every):
        return False
    if knobs.thread.reproducible and any(map(_is_float, every)):
        return True
    if primitive.native_kinds and avals[0].dtype.kind in primitive.native_kinds:
        return True
    return sum([a.size for a in every]) >= LARGE_ELEMENTS


# Equations of a loop's body that NumPy has run.
_interpreted: ProgramCache[None, int] = ProgramCache("interpreted")


def is_interpreted(body: ClosedJaxpr, work: int) -> bool:
    """Whether a loop that is about to run so many equations is still run by NumPy: it has not been
    run for long, and that makes no difference to its results."""
    if not _is_exact_round(body):
        return False
    spent = (_interpreted.get(body, None) or 0) + work
    return _interpreted.set(body, None, spent) < LOOP_EQUATIONS


def interpreted_rounds(condition: ClosedJaxpr, body: ClosedJaxpr) -> int:
    """How many rounds of a loop of unknown length NumPy runs before the rest is compiled."""
    if not _is_exact_round(condition) or not is_interpreted(body, LOOP_EQUATIONS // LOOP_CALLS):
        return 0
    return LOOP_EQUATIONS // (1 + len(body.eqns) + len(condition.eqns))


def runs_by_operations(closed: ClosedJaxpr) -> bool:
    """Whether a function may be run operation by operation, at first: its results have the same
    bits in whatever order it is computed, and its arrays are small."""
    if sum([a.size for a in closed.in_avals + closed.out_avals]) >= LARGE_ELEMENTS:
        return False
    return not any(eqn.primitive.costly for eqn in closed.eqns) and is_exact(closed)


# --- whether a program has the same bits by NumPy and by native code ------------------------------


def is_exact(program: ClosedJaxpr | Jaxpr, controlled: bool = False) -> bool:
    """Whether the results of a program have the same bits in whatever order it is computed.

    Branches and rounds of loops on their own are computed by NumPy, which rounds what is costly in
    other ways.
    """
    for eqn in program.eqns:
        primitive = eqn.primitive
        if controlled and primitive.costly:
            return False
        if any(getattr(v.aval, "dtype", None) in _COMPLEX for v in eqn.outvars):
            return False  # NumPy multiplies and divides them by other steps
        if primitive.form in _IN_ORDER:
            continue
        if not primitive.exact and any(_is_float(v.aval) for v in eqn.outvars):
            return False
        within = controlled or bool(primitive.nodes)
        if not all(is_exact(inner, within) for inner in jaxprs_in_params(eqn.params)):
            return False
    return True


@per_program
def _is_exact_round(closed: ClosedJaxpr) -> bool:
    """The same for the body of a loop, looked at once."""
    return is_exact(closed, True)


def _is_float(aval: Any) -> bool:
    return type(aval) is not ShapedArray or getattr(aval.dtype, "kind", "V") in "fcV"


# --- time for compiling ---------------------------------------------------------------------------


class Account:
    """Seconds of compiling that eager operations may take.

    An operation that comes again is worth compiling, but not all of them in one call of a model:
    that call would take a hundred times as long as the next. Time that passes fills the account,
    compiling empties it; operations that find it empty run by NumPy once more. Only those wait
    whose results are the same either way.
    """

    __slots__ = ("balance", "last")

    def __init__(self) -> None:
        self.balance, self.last = CAPACITY, perf_counter()

    def allows(self) -> bool:
        """Whether an operation may be compiled now."""
        share = knobs.thread.eager_compile_share
        if share >= 1:
            return True
        now = perf_counter()
        self.balance = min(CAPACITY, self.balance + share * (now - self.last))
        self.last = now
        return self.balance > 0

    def charge(self, began: float) -> None:
        """Note that an operation has been compiled since a time."""
        self.balance -= perf_counter() - began


account = Account()
