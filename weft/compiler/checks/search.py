"""The search from a bad element back to the operation that made it, and operands as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base.checking import Kinds
from weft.base.record import Record
from weft.compiler.checks.flow import MOVES
from weft.compiler.checks.sites import axes_met, is_inexact, is_integer
from weft.core.interpret import literal_value, run_primitive
from weft.core.jaxpr import Literal

_SIGNS = {"sum": "+", "difference": "-", "product": "*", "quotient": "/", "rem": "%"}
_INFINITIES = Kinds(False, True, False, False, "")


def value_of(env: dict[Any, Any], x: Any) -> Any:
    return literal_value(x) if type(x) is Literal else env[x]


def at(index: Sequence[int]) -> str:
    return f" at {list(index)}" if index else ""


class Fault(Record):
    """An equation, the element of its result that it made bad, and the text that says so."""

    eqn: Any
    element: tuple[int, ...]
    kind: str  # nan or inf
    told: str
    variable: Any = None

    def origin(self, env: dict[Any, Any], eqns: Sequence[Any]) -> Fault | None:
        """What made the infinity that a NaN was made of, if an operation there has."""
        if self.kind == "inf":
            return None
        search = Search(_INFINITIES, env, eqns)
        for x in self.eqn.invars:
            if type(x) is Literal or not is_inexact(x.aval):
                continue
            bad = _INFINITIES.is_bad(env[x])
            here = _broadcast_index(bad.shape, self.eqn.outvars[0].aval.shape, self.element)
            if here is not None and _is_elementwise(self.eqn):
                bad = bad & _only(bad.shape, here)
            fault = search.blame(x, bad) if bad.any() else None
            if fault is not None:
                return fault
        return None


class Search:
    """A search among the values of a flat program."""

    def __init__(self, kinds: Kinds, env: dict[Any, Any], eqns: Sequence[Any]) -> None:
        self.kinds = kinds
        self.env = env
        self.producer = {v: eqn for eqn in eqns for v in eqn.outvars}
        self.seen: set[Any] = set()
        self.given: list[tuple[Any, np.ndarray]] = []  # variables that were, and their bad elements

    def blame(self, v: Any, mask: np.ndarray) -> Fault | None:
        """The equation that made a bad element; None if it was given."""
        pending = [(v, mask)]
        while pending:
            v, mask = pending.pop()
            eqn = None if type(v) is Literal else self.producer.get(v)
            if eqn is None:
                self.given += [] if type(v) is Literal else [(v, mask)]
                continue
            if v in self.seen and eqn.primitive.form != "map":
                continue
            self.seen.add(v)
            made, before = self.made(eqn, v, mask)
            if made.any():
                index = tuple(int(i) for i in np.argwhere(made)[0])
                kind = "inf" if np.isinf(np.asarray(self.env[v])[index]) else "nan"
                told = f"{eqn.primitive.name} made {kind}{at(index)}"
                told = f"{told}: {operands(eqn, self.env, index)}"
                return Fault(eqn, index, kind, told, v)
            pending += before
        return None

    def made(self, eqn: Any, v: Any, mask: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Bad elements that come from no bad operand, and the operands that others come from."""
        given = [value_of(self.env, x) for x in eqn.invars]
        bad = [
            self.kinds.is_bad(y) if is_inexact(x.aval) else np.zeros(np.shape(y), bool)
            for x, y in zip(eqn.invars, given, strict=True)
        ]
        name = eqn.primitive.name
        if name == "select_n":
            which, bad = np.asarray(given[0]).astype(int), bad[1:]
            parts = [mask & (which == k) & b for k, b in enumerate(bad)]
            return np.zeros(mask.shape, bool), list(zip(eqn.invars[1:], parts, strict=True))[::-1]
        if name in MOVES:
            return self._moved(eqn, given, bad, mask)
        inherited = np.zeros(mask.shape, bool)
        before = []
        for i, (x, b) in enumerate(zip(eqn.invars, bad, strict=True)):
            if not b.any():
                continue
            reached = _reached(eqn, i, b, mask.shape)
            part = b
            if eqn.primitive.form == "map":  # what other elements are made of doesn't matter
                reached = reached & mask
                part = _met(reached, b.shape) & b
            if part.any():
                inherited |= reached
                before.append((x, part))
        return mask & ~inherited, before[::-1]

    def _moved(
        self, eqn: Any, given: list[Any], bad: list[Any], mask: np.ndarray
    ) -> tuple[np.ndarray, list[Any]]:
        """The same of a movement: each operand's elements are found by moving their numbers."""
        inherited, before = np.zeros(mask.shape, bool), []
        floats = np.dtype(np.float64)
        none = [
            np.full(np.shape(y), -1.0) if is_inexact(x.aval) else y
            for x, y in zip(eqn.invars, given, strict=True)
        ]
        params = {**eqn.params, "fill_value": -1} if "fill_value" in eqn.params else eqn.params
        for i, (x, b) in enumerate(zip(eqn.invars, bad, strict=True)):
            if not b.any():
                continue
            numbers = np.arange(float(b.size)).reshape(b.shape)
            aval = eqn.outvars[0].aval.update(dtype=floats)
            moved = run_primitive(eqn.primitive, aval, [*none[:i], numbers, *none[i + 1 :]], params)
            sources = np.asarray(moved)[mask].astype(np.int64)
            part = np.zeros(b.size, bool)
            part[sources[sources >= 0]] = True
            part = part.reshape(b.shape) & b
            reached = (moved >= 0) & b.reshape(-1)[np.maximum(moved, 0).astype(np.int64)]
            inherited |= reached & mask
            if part.any():
                before.append((x, part))
        return mask & ~inherited, before[::-1]


def _reached(eqn: Any, place: int, bad: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of a result that bad elements of an operand may have gone into."""
    if not bad.shape or not shape:
        return np.full(shape, bad.any())
    axes = axes_met(eqn, place, len(shape))
    kept = [a for a in axes if a is not None]
    some = np.asarray(bad.any(axis=tuple(a for a in range(bad.ndim) if a not in kept)))
    some = some.transpose([sorted(kept).index(a) for a in kept])
    some = some.reshape([n if a is not None else 1 for a, n in zip(axes, shape, strict=True)])
    return np.broadcast_to(some, shape)


def _met(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of an operand that go into some elements of an elementwise result."""
    if mask.shape == shape:
        return mask
    lead = mask.ndim - len(shape)
    axes = [a for a in range(mask.ndim) if a < lead or shape[a - lead] == 1]
    return mask.any(axis=tuple(axes), keepdims=True).reshape(shape)


def _only(shape: tuple[int, ...], index: tuple[int, ...]) -> np.ndarray:
    mask = np.zeros(shape, bool)
    mask[index] = True
    return mask


# --- operands as text -----------------------------------------------------------------------------


def _is_elementwise(eqn: Any) -> bool:
    return eqn.primitive.form == "map" or bool(eqn.primitive.elementwise)


def _broadcast_index(
    shape: Sequence[int], result: Sequence[int], index: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Where the element of an operand is that goes into an element of an elementwise result."""
    if not shape:
        return ()
    if len(shape) != len(result):
        return None
    if any(n not in (1, m) for n, m in zip(shape, result, strict=True)):
        return None
    return tuple([0 if n == 1 else i for n, i in zip(shape, index, strict=True)])


def sign_of(eqn: Any) -> str | None:
    """The sign of an operation in Python, where it has one."""
    sign = _SIGNS.get(eqn.primitive.overflows or eqn.primitive.name)
    return "//" if sign == "/" and is_integer(eqn.outvars[0].aval) else sign


def operands(eqn: Any, env: dict[Any, Any], index: tuple[int, ...]) -> str:
    """The operands of an equation at an element; their types and ranges where it has many."""
    values = [np.asarray(value_of(env, x)) for x in eqn.invars]
    shape = eqn.outvars[0].aval.shape
    name = eqn.primitive.name
    whole = not _is_elementwise(eqn)
    places = [None if whole else _broadcast_index(v.shape, shape, index) for v in values]
    if not whole and all(p is not None for p in places):
        shown = [_number(v[p]) for v, p in zip(values, places, strict=True)]
        sign = sign_of(eqn)
        if sign is not None and len(shown) == 2:
            return f"{shown[0]} {sign} {shown[1]}"
        return f"{name}({', '.join(shown)})"
    pairs = zip(eqn.invars, values, strict=True)
    return f"{name}({', '.join([_summary(x.aval, v) for x, v in pairs])})"


def _number(x: Any) -> str:
    x = np.asarray(x)
    if x.dtype.kind in "iub":
        return str(x.item())
    if x.dtype.kind == "c":
        return f"{complex(x):.6g}"
    return f"{float(x):.6g}"


def _summary(aval: Any, value: np.ndarray) -> str:
    """An array in a few words."""
    if is_inexact(aval) and value.dtype.kind not in "fc":
        value = value.astype(np.float32)  # a dtype that NumPy doesn't have
    if value.dtype.kind not in "biufc":
        return str(aval.str_short())
    if value.size == 1:
        return _number(value.reshape(()))
    text = f"{aval.dtype.name}{list(value.shape)}"
    if value.dtype.kind not in "iuf" or not value.size:
        return text
    finite = value[np.isfinite(value)]
    text += f" from {_number(finite.min())} to {_number(finite.max())}" if finite.size else ""
    for name, there in (("inf", np.isinf(value)), ("nan", np.isnan(value))):
        if there.any():
            text += f", {name} at {[int(i) for i in np.argwhere(there)[0]]}"
    return text
