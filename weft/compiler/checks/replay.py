"""From a check that failed to the error: which operation, at which element, with which operands.

Only the equations between the values in memory and the check are run again, by NumPy; of a loop,
the rounds up to the one that failed. From the values there the search goes backwards, from a bad
element to the operation that had no bad operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base import errors, source
from weft.base.checking import Kinds
from weft.compiler.checks.predicates import bounds, in_floats
from weft.compiler.checks.sites import Around, Site, is_inexact, is_integer
from weft.core.avals import ShapedArray
from weft.core.interpret import constant_value, has_data, literal_value, run, run_primitive
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from weft.core.trace import state

# Equations of a loop that are run again, at most: NumPy takes some microseconds for each.
MAX_REPLAYED = 2_000_000
_SIGNS = {"sum": "+", "difference": "-", "product": "*", "quotient": "/", "rem": "%"}
_ADVICE = {
    "nan": "Guard the operand, as in `jnp.where(ok, {name}(jnp.where(ok, x, 1)), 0)`, or print it"
    " there with `weft.debug.print`.",
    "several": "Guard the operands with `jnp.where`, or print them there with `weft.debug.print`.",
    "arrays": "Check the operands (is a matrix singular?), or print them there with"
    " `weft.debug.print`.",
    "inf": "Scale the operand or guard it with `jnp.where`, or check with `inf=False`.",
    "index": 'Check the index, or say what it means out of bounds: `x.at[i].get(mode="clip")`.',
    "division": "Write `jnp.where(d == 0, other, n / jnp.where(d == 0, 1, d))`, or check with"
    " `division=False`.",
    "overflow": "Use a wider dtype or floats, or leave the dtype out:"
    ' `weft.checks(overflow=("int64",))`.',
}
_CLASSES: dict[str, Any] = {
    "nan": errors.NaNCheckError,
    "inf": errors.NaNCheckError,
    "index": errors.IndexCheckError,
    "division": errors.DivisionCheckError,
    "overflow": errors.OverflowCheckError,
}


class Culprit:
    """What a stop knows: the checks of the program, and the equations to run again."""

    def __init__(
        self, kinds: Kinds, sites: list[Site], eqns: Sequence[Any], given: Sequence[Any]
    ) -> None:
        self.kinds = kinds
        self.sites = sites
        self.eqns = eqns
        self.given = given

    def error(self, values: Sequence[Any]) -> Exception | None:
        """The error of a failed check; None if the bad values came from outside of the program."""
        failure, *given = values
        numbers = [int(n) for n in np.asarray(failure).reshape(-1)]
        site, rounds = self.sites[abs(numbers[0]) - 1], numbers[1:]
        error = self.replayed(site, rounds, given)
        if error is None and numbers[0] < 0:  # it has ended a loop, which began clean
            return self.unseen(site, rounds)
        return error

    def replayed(self, site: Site, rounds: list[int], given: Sequence[Any]) -> Exception | None:
        with np.errstate(all="ignore"):
            try:
                env = dict(zip(self.given, given, strict=True))
                env, eqns = _entered(site, rounds, env, self.eqns)
            except (_Unreachable, KeyError):
                return self.unseen(site, rounds)
            return self.found(site, rounds, env, eqns)

    def found(
        self, site: Site, rounds: list[int], env: dict[Any, Any], eqns: Sequence[Any]
    ) -> Exception | None:
        if site.kind != "value":
            told = _TOLD[site.kind](site.eqn, env, self.kinds)
            if told is None:
                return self.unseen(site, rounds)
            return self.made(site.kind, told, site.eqn, site, rounds)
        bad = self.kinds.is_bad(env[site.variable])
        if not bad.any():
            return self.unseen(site, rounds)
        search = _Search(self.kinds, env, eqns)
        fault = search.blame(site.variable, bad)
        if fault is None:
            return None
        eqn, value, told = fault
        return self.made("inf" if np.isinf(value) else "nan", told, eqn, site, rounds)

    def unseen(self, site: Site, rounds: list[int]) -> Exception:
        """The error where the values could not be found again."""
        kind = ("nan" if self.kinds.nan else "inf") if site.kind == "value" else site.kind
        name = site.eqn.primitive.name
        what = {
            "nan": f"{name}, or what it was computed from, made nan",
            "inf": f"{name}, or what it was computed from, made inf",
            "index": f"{name} got an index out of bounds",
            "division": f"{name} divided by zero",
            "overflow": f"{name} overflowed {_result_type(site.eqn)}",
        }[kind]
        return self.made(kind, f"{what}; its operands are not available", site.eqn, site, rounds)

    def made(self, kind: str, told: str, eqn: Any, site: Site, rounds: Sequence[int]) -> Exception:
        text = errors.located(told, where=eqn.source_info or source.UNKNOWN)
        loops = [around for around in site.path if around.eqn.primitive.nodes == "loop"]
        for around, number in zip(loops, rounds, strict=False):
            text += f"; {_iteration(around, number)}"
        advice = _ADVICE[_nan_of(eqn) if kind == "nan" else kind].format(name=eqn.primitive.name)
        return _CLASSES[kind](f"{text}\n{advice}")


def _iteration(around: Around, number: int) -> str:
    """A round of a loop, or an element of a batch of loops, in words."""
    if around.batch is None:
        return f"iteration {number} of the loop at {source.summarize(around.eqn.source_info)}"
    index = [int(i) for i in np.unravel_index(number, around.batch.sizes)]
    return f"element {index[0] if len(index) == 1 else index} of the batch"


def _nan_of(eqn: Any) -> str:
    """Which advice helps where an operation made a NaN."""
    if eqn.primitive.form != "map" and not eqn.primitive.elementwise:
        return "arrays"
    return "nan" if len(eqn.invars) == 1 else "several"


def _result_type(eqn: Any) -> str:
    return eqn.outvars[0].aval.dtype.name


# --- running again --------------------------------------------------------------------------------


class _Unreachable(Exception):
    """The equation isn't among those that can be run again."""


def _value(env: dict[Any, Any], x: Any) -> Any:
    return literal_value(x) if type(x) is Literal else env[x]


def _evaluated(eqns: Sequence[Any], env: dict[Any, Any], last: Any, within: bool) -> dict[Any, Any]:
    """The values of variables up to an equation: before it, or after it if that is ``within``."""
    for eqn in eqns:
        is_last = eqn.outvars is last.outvars  # a loop may stand there in another form
        if is_last and not within:
            break
        if eqn.effects:
            if eqn.outvars:
                raise _Unreachable  # it must not happen twice
            continue
        values = [_value(env, x) for x in eqn.invars]
        primitive = eqn.primitive
        if primitive.multiple_results:
            avals = [v.aval for v in eqn.outvars]
            results = run_primitive(primitive, avals, values, eqn.params)
            env.update(zip(eqn.outvars, results, strict=True))
        else:
            aval = eqn.outvars[0].aval
            env[eqn.outvars[0]] = run_primitive(primitive, aval, values, eqn.params)
        if is_last:
            break
    return env


def _entered(
    site: Site, rounds: Sequence[int], env: dict[Any, Any], eqns: Sequence[Any]
) -> tuple[dict[Any, Any], Sequence[Any]]:
    """The values of the program in which a check stands, in the rounds in which it failed."""
    numbers = list(rounds)
    for eqn, body, asks, batch in site.path:
        env = _evaluated(eqns, env, eqn, False)
        values = [_value(env, x) for x in eqn.invars]
        name = eqn.primitive.name
        if name == "scan":
            args = _scanned(eqn.params, body, values, numbers.pop(0))
        elif batch is not None:
            args = _of_element(batch, values, numbers.pop(0))
        elif name == "while":
            args = _repeated(eqn.params, asks, values, numbers.pop(0))
        else:
            args = values[1:] if name == "cond" else values
        jaxpr = body.jaxpr
        env = dict(zip(jaxpr.constvars, _constants(body), strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        eqns = jaxpr.eqns
    return _evaluated(eqns, env, site.eqn, True), eqns


def _quiet(closed: ClosedJaxpr, number: int) -> Jaxpr:
    """A loop's body without what it shows, to be run so many times again."""
    jaxpr = closed.jaxpr
    eqns = [eqn for eqn in jaxpr.eqns if not eqn.effects or eqn.outvars]
    if any(eqn.effects for eqn in eqns) or number * len(eqns) > MAX_REPLAYED:
        raise _Unreachable
    return jaxpr.replace(eqns=eqns)


def _constants(closed: ClosedJaxpr) -> list[Any]:
    pairs = zip(closed.consts, closed.jaxpr.constvars, strict=True)
    return [constant_value(c, v.aval) if has_data(v.aval) else c for c, v in pairs]


def _scanned(params: Any, body: ClosedJaxpr, values: list[Any], number: int) -> list[Any]:
    """The arguments of one round of a scan."""
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    consts, carry = values[:n_consts], values[n_consts : n_consts + n_carry]
    xs, held, jaxpr = values[n_consts + n_carry :], _constants(body), _quiet(body, number)
    last = params["length"] - 1
    for i in range(number):
        at = last - i if params["reverse"] else i
        carry = run(jaxpr, held, [*consts, *carry, *[x[at] for x in xs]])[:n_carry]
    at = last - number if params["reverse"] else number
    return [*consts, *carry, *[x[at] for x in xs]]


def _of_element(batch: Any, values: list[Any], number: int) -> list[Any]:
    """The operands of the loop of one element of a batch."""
    index = np.unravel_index(number, batch.sizes)
    dims = [*batch.cond_dims, *batch.body_dims]
    carried = [tuple([0] * len(index))] * (len(values) - len(dims))
    found = []
    for x, axes in zip(values, [*dims, *carried], strict=True):
        for i, axis in zip(index, axes, strict=True):
            x = x if axis is None else np.take(x, i, axis)
        found.append(x)
    return found


def _repeated(params: Any, asks: bool, values: list[Any], number: int) -> list[Any]:
    """The arguments of one round of a loop of unknown length, or of its predicate if that
    ``asks``."""
    body = params["body_jaxpr"]
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    consts, carry = values[n_cond : n_cond + n_body], values[n_cond + n_body :]
    held, jaxpr = _constants(body), _quiet(body, number)
    for _ in range(number):
        carry = run(jaxpr, held, [*consts, *carry])
    return [*(values[:n_cond] if asks else consts), *carry]


# --- the operation that did it --------------------------------------------------------------------


class _Search:
    """A search among the values of a flat program."""

    def __init__(self, kinds: Kinds, env: dict[Any, Any], eqns: Sequence[Any]) -> None:
        self.kinds = kinds
        self.env = env
        self.producer = {v: eqn for eqn in eqns for v in eqn.outvars}
        self.seen: set[Any] = set()

    def blame(self, v: Any, mask: np.ndarray) -> tuple[Any, Any, str] | None:
        """The equation that made a bad element, the element and the text; None if it was given."""
        pending = [(v, mask)]
        while pending:
            v, mask = pending.pop()
            eqn = None if type(v) is Literal else self.producer.get(v)
            if eqn is None or (v in self.seen and eqn.primitive.form != "map"):
                continue
            self.seen.add(v)
            made, before = self.made(eqn, v, mask)
            if made.any():
                at = tuple(int(i) for i in np.argwhere(made)[0])
                value = np.asarray(self.env[v])[at]
                return eqn, value, self.told(eqn, v, at, value)
            pending += before
        return None

    def made(self, eqn: Any, v: Any, mask: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Bad elements that come from no bad operand, and the operands that others come from."""
        operands = [_value(self.env, x) for x in eqn.invars]
        bad = [
            self.kinds.is_bad(y) if is_inexact(x.aval) else np.zeros(np.shape(y), bool)
            for x, y in zip(eqn.invars, operands, strict=True)
        ]
        name = eqn.primitive.name
        if name == "select_n":
            which, bad = np.asarray(operands[0]).astype(int), bad[1:]
            parts = [mask & (which == k) & b for k, b in enumerate(bad)]
            return np.zeros(mask.shape, bool), list(zip(eqn.invars[1:], parts, strict=True))[::-1]
        shapes = {np.shape(y) for y in operands if np.shape(y)}
        if eqn.primitive.form == "map" and shapes <= {mask.shape}:
            inherited = np.zeros(mask.shape, bool)
            before = []
            for x, b in zip(eqn.invars, bad, strict=True):
                part = mask & b
                if part.any():
                    inherited |= part
                    before.append((x, part if np.shape(b) else np.asarray(part.any())))
            return mask & ~inherited, before[::-1]
        before = [(x, b) for x, b in zip(eqn.invars, bad, strict=True) if b.any()]
        return (mask & (not before)), before[::-1]

    def told(self, eqn: Any, v: Any, at: tuple[int, ...], value: Any) -> str:
        name = eqn.primitive.name
        what = "inf" if np.isinf(value) else "nan"
        where = f" at {list(at)}" if at else ""
        shown = _operands(eqn, self.env, at)
        return f"{name} made {what}{where}: {shown}"


def _number(x: Any) -> str:
    x = np.asarray(x)
    if x.dtype.kind in "iub":
        return str(x.item())
    if x.dtype.kind == "c":
        return f"{complex(x):.6g}"
    return f"{float(x):.6g}"


def _operands(eqn: Any, env: dict[Any, Any], at: tuple[int, ...]) -> str:
    """The operands of an equation at an element; their types and ranges where it has many."""
    values = [np.asarray(_value(env, x)) for x in eqn.invars]
    shape = eqn.outvars[0].aval.shape
    name = eqn.primitive.name
    if eqn.primitive.form == "map" and all(v.shape in ((), shape) for v in values):
        shown = [_number(v[at] if v.shape else v) for v in values]
        sign = _SIGNS.get(eqn.primitive.overflows or name)
        if sign == "/" and is_integer(eqn.outvars[0].aval):
            sign = "//"
        if sign is not None and len(shown) == 2:
            return f"{shown[0]} {sign} {shown[1]}"
        return f"{name}({', '.join(shown)})"
    return f"{name}({', '.join(map(_summary, values))})"


def _summary(value: np.ndarray) -> str:
    """An array in a few words."""
    text = f"{value.dtype.name}{list(value.shape)}"
    if value.size == 1 and value.dtype.kind in "iubfc":
        return _number(value.reshape(()))
    if value.dtype.kind in "iuf" and value.size:
        infinite = np.isinf(value) if value.dtype.kind == "f" else np.zeros(value.shape, bool)
        finite = value[~infinite]
        text += f" from {_number(finite.min())} to {_number(finite.max())}" if finite.size else ""
        if infinite.any():
            text += f", inf at {[int(i) for i in np.argwhere(infinite)[0]]}"
    return text


# --- indices, divisors, wrapped integers ----------------------------------------------------------


def _index(eqn: Any, env: dict[Any, Any], kinds: Kinds) -> str | None:
    for place, last in bounds(eqn) or ():
        index = np.asarray(_value(env, eqn.invars[place]))
        outside = (index < 0) | (index > last)
        if not outside.any():
            continue
        at = tuple(int(i) for i in np.argwhere(outside)[0])
        axis = _axis(eqn, place, at)
        shape = eqn.invars[0].aval.shape
        most = int(np.broadcast_to(last, index.shape)[at] if index.shape else last)
        block = shape[axis] - most
        name, size = eqn.primitive.name, shape[axis]
        number = int(index[at])
        what = (
            f"index {number}" if number >= 0 else f"index {number} ({number - size} from the end)"
        )
        what = what if block == 1 else f"{what} of {block} elements"
        where = f", at {list(at)} of its indices" if at else ""
        return f"{name} got {what} for axis {axis} of size {size}{where}"
    return None


def _axis(eqn: Any, place: int, at: tuple[int, ...]) -> int:
    """The axis that an index is for."""
    name = eqn.primitive.name
    if name == "dynamic_slice":
        return place - 1
    if name == "dynamic_update_slice":
        return place - 2
    numbers = eqn.params["dimension_numbers"]
    gathers = name == "gather"
    axes = numbers.start_index_map if gathers else numbers.scatter_dims_to_operand_dims
    return int(axes[at[-1]])


def _division(eqn: Any, env: dict[Any, Any], kinds: Kinds) -> str | None:
    d = np.asarray(_value(env, eqn.invars[1]))
    zero = np.broadcast_to(d == 0, eqn.outvars[0].aval.shape)
    if not zero.any():
        return None
    at = tuple(int(i) for i in np.argwhere(zero)[0])
    where = f" at {list(at)}" if at else ""
    return f"{eqn.primitive.name} divided by zero{where}: {_operands(eqn, env, at)}"


def _overflow(eqn: Any, env: dict[Any, Any], kinds: Kinds) -> str | None:
    name, kind = eqn.primitive.name, _result_type(eqn)
    values = [np.asarray(_value(env, x)) for x in eqn.invars]
    result = np.asarray(env[eqn.outvars[0]])
    if eqn.primitive.overflows == "cast":
        far = values[0] != result.astype(values[0].dtype)
    elif eqn.primitive.overflows in _IN_FLOATS:
        far = abs(_of_floats(eqn, values) - result) >= 2.0 ** (8 * result.dtype.itemsize - 1)
    else:
        wide = [v.astype(object) for v in values]
        exact = _EXACT[eqn.primitive.overflows](wide, eqn.params)
        far = np.broadcast_to(exact != result.astype(object), result.shape)
    far = np.asarray(far, bool)
    if not far.any():
        return None
    at = tuple(int(i) for i in np.argwhere(far)[0])
    where = f" at {list(at)}" if at else ""
    return f"{name} overflowed {kind}{where}: {_operands(eqn, env, at)}"


def _of_floats(eqn: Any, values: Sequence[np.ndarray]) -> np.ndarray:
    """The result of an equation whose operands are floats."""
    places, params = in_floats(eqn)
    floats = np.dtype(np.float64)
    given = [x.astype(floats) if i in places else x for i, x in enumerate(values)]
    aval = eqn.outvars[0].aval
    return np.asarray(run_primitive(eqn.primitive, aval.update(dtype=floats), given, params))


def _quotient(values: Any, params: Any) -> Any:
    n, d = values
    d = np.where(d == 0, 1, d)
    return np.where((n < 0) != (d < 0), -(abs(n) // abs(d)), abs(n) // abs(d))


# Operations that are compared with the same on floats.
_IN_FLOATS = frozenset(["sums of products", "sums of updates", "windows"])
# What others give without wrapping, on Python's integers.
_EXACT: dict[str, Any] = {
    "sum": lambda v, p: v[0] + v[1],
    "difference": lambda v, p: v[0] - v[1],
    "product": lambda v, p: v[0] * v[1],
    "negative": lambda v, p: -v[0],
    "size": lambda v, p: abs(v[0]),
    "quotient": _quotient,
    "power": lambda v, p: v[0] ** p["y"],
    "square": lambda v, p: v[0] * v[0],
    "total": lambda v, p: np.sum(v[0], axis=tuple(p["axes"])),
    "total product": lambda v, p: np.prod(v[0], axis=tuple(p["axes"])),
    "running sum": lambda v, p: _running(np.cumsum, v[0], p),
    "running product": lambda v, p: _running(np.cumprod, v[0], p),
}


def _running(function: Any, value: Any, params: Any) -> Any:
    axis = params["axis"]
    if not params["reverse"]:
        return function(value, axis=axis)
    return np.flip(function(np.flip(value, axis), axis=axis), axis)


_TOLD = {"index": _index, "division": _division, "overflow": _overflow}


# --- one operation --------------------------------------------------------------------------------


def check_operation(
    kinds: Kinds, primitive: Any, values: Sequence[Any], result: Any, params: Any
) -> None:
    """Raise the error of an operation that NumPy has computed, if a check of it fails."""
    results = list(result) if primitive.multiple_results else [result]
    if not all(isinstance(getattr(x, "dtype", None), np.dtype) for x in [*values, *results]):
        return
    variables = [Var(ShapedArray(np.shape(x), x.dtype)) for x in [*values, *results]]
    ins, outs = variables[: len(values)], variables[len(values) :]
    info = state.source or source.current()
    eqn = JaxprEqn(list(ins), list(outs), primitive, params, source_info=info)
    env = dict(zip(variables, [*values, *results], strict=True))
    culprit = Culprit(kinds, [], [eqn], ins)
    for kind, told in _TOLD.items():
        found = told(eqn, env, kinds) if _looks(kind, kinds, eqn) else None
        if found is not None:
            raise culprit.made(kind, found, eqn, Site(kind, eqn, None), ())
    for v in outs if kinds.nan or kinds.inf else ():
        if is_inexact(v.aval):
            error = culprit.found(Site("value", eqn, v), [], env, [eqn])
            if error is not None and kinds.is_bad(env[v]).any():
                raise error


def _looks(kind: str, kinds: Kinds, eqn: Any) -> bool:
    """Whether an operation is looked at for a kind of failure."""
    name = eqn.primitive.name
    if kind == "index":
        return kinds.indices
    if kind == "division":
        return kinds.division and name in ("div", "rem")
    known = eqn.primitive.overflows != ""
    integers = all(is_integer(x.aval) for x in eqn.invars)
    return known and integers and kinds.wraps(eqn.outvars[0].aval.dtype)
