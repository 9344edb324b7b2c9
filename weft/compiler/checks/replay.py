"""From a check that failed to the error: which operation, at which element, with which operands.

Only the equations between the values in memory and the check are run again, by NumPy; of a loop,
the rounds up to the one that failed. From the values there the search goes backwards, from a bad
element to the operation that had no bad operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.base import errors, knobs, source
from weft.base.checking import Kinds
from weft.base.record import Record
from weft.compiler.checks.look import look_p
from weft.compiler.checks.predicates import bounds, in_floats, index_axes
from weft.compiler.checks.rounds import Frame, Unreachable, blamed, entered, evaluated
from weft.compiler.checks.search import Fault, at, operands, sign_of, value_of
from weft.compiler.checks.sites import Around, Site, is_inexact, is_integer
from weft.core import hooks
from weft.core.avals import ShapedArray
from weft.core.interpret import run_primitive
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var
from weft.core.trace import state

_ADVICE = {
    "nan": "Guard the operand, as in `jnp.where(ok, {name}(jnp.where(ok, x, 1)), 0)`, or print it"
    " there with `weft.debug.print`.",
    "several": "Guard the operands with `jnp.where`, or print them there with `weft.debug.print`.",
    "from inf": "Keep the operand of `{name}` smaller: scale it, subtract its maximum, or use"
    " `jnp.clip`.",
    "pole": "Guard the operand of `{name}` with `jnp.where`: it makes an infinity there.",
    "matrix": "Check the operands (is a matrix singular?), or print them there with"
    " `weft.debug.print`.",
    "random": "Check the parameters of the distribution, or print them there with"
    " `weft.debug.print`.",
    "inf": "Scale the operand or guard it with `jnp.where`, or check with `inf=False`.",
    "index": 'Check the index, or say what it means out of bounds: `x.at[i].get(mode="clip")`.',
    "update": 'Check the index, or say what it means out of bounds: `x.at[i].set(y, mode="drop")`.',
    "block": "Check the index, or say what it means out of bounds:"
    " `jnp.clip(i, 0, x.shape[axis] - size)`.",
    "division": "Write `jnp.where(d == 0, other, n {sign} jnp.where(d == 0, 1, d))`, or check with"
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


class Second(Record):
    """A program that looks for values that operations have made bad, and its checks."""

    program: ClosedJaxpr
    sites: list[Site]

    def error(self, culprit: Culprit, given: Sequence[Any]) -> Exception | None:
        """The error of the first check that fails for values in memory."""
        off = dict.fromkeys(("check_nan", "check_inf", "check_index", "check_division"), False)
        with knobs.scope(**off, check_overflow=""):
            (failure,) = hooks.evaluate(look_p, list(given), {"jaxpr": self.program})
        numbers = [int(n) for n in np.asarray(failure).reshape(-1)]
        if not numbers[0]:
            return None
        return culprit.replayed(self.sites[abs(numbers[0]) - 1], numbers[1:], given)


class Culprit:
    """What a stop knows: the checks of the program, and the equations to run again."""

    def __init__(
        self,
        kinds: Kinds,
        sites: list[Site],
        eqns: Sequence[Any],
        given: Sequence[Any],
        look: Callable[..., Second | None] | None = None,
        outs: Sequence[Any] | None = None,
        is_whole: bool = True,
    ) -> None:
        self.kinds = kinds
        self.sites = sites
        self.is_whole = is_whole  # whether the program has all checks, and knows which fails first
        self.eqns = eqns
        self.given = given
        # makes the programs of second looks; and, where one failure may hide others, the results
        # of the equations, of which such a program is made when it is needed
        self.look = look
        self.outs = outs
        self.second: Second | None = None

    def error(self, values: Sequence[Any]) -> Exception | None:
        """The error of a failed check; None if the bad values came from outside of the program."""
        failure, *given = values
        numbers = [int(n) for n in np.asarray(failure).reshape(-1)]
        site, rounds = self.sites[abs(numbers[0]) - 1], numbers[1:]
        if numbers[0] > 0 and site.path and self.is_given(given) and self.second_look():
            return self.hidden(given)
        error = self.replayed(site, rounds, given)
        if error is None and numbers[0] < 0:  # it has ended a loop, which began clean
            return self.unseen(site, rounds)
        return self.hidden(given) if error is None else error

    def is_given(self, given: Sequence[Any]) -> bool:
        """Whether bad values are passed in: the rounds of a loop need not be replayed for these."""
        pairs = zip(self.given, given, strict=True)
        return any(is_inexact(v.aval) and self.kinds.is_bad(x).any() for v, x in pairs)

    def second_look(self) -> Second | None:
        """The program that finds checks which the first failure hides."""
        if self.second is None and self.outs is not None and self.look is not None:
            self.second = self.look(self.kinds, self.eqns, self.given, self.outs)
            self.outs = None
        return self.second

    def hidden(self, given: Sequence[Any]) -> Exception | None:
        """The error of another check, after that of a bad number that was passed in."""
        second = self.second_look()
        return None if second is None else second.error(self, given)

    def within(self, fault: Fault, env: dict[Any, Any]) -> Exception | None:
        """The error of what made an element bad in a loop or branch; None where it is unknown."""
        eqn = fault.eqn
        if self.look is None or eqn.primitive.nodes not in ("loop", "branch"):
            return None
        given = list(dict.fromkeys(x for x in eqn.invars if type(x) is not Literal))
        second = self.look(self.kinds, [eqn], given, eqn.outvars)
        if second is None:
            return None
        inner = Culprit(self.kinds, second.sites, [eqn], given, self.look)
        return second.error(inner, [env[x] for x in given])

    def replayed(self, site: Site, rounds: list[int], given: Sequence[Any]) -> Exception | None:
        with np.errstate(all="ignore"):
            try:
                env = dict(zip(self.given, given, strict=True))
                return self.found(site, rounds, entered(site, rounds, env, self.eqns))
            except (Unreachable, KeyError):
                return self.unseen(site, rounds)

    def found(self, site: Site, rounds: list[int], frames: list[Frame]) -> Exception | None:
        env, eqns = frames[-1].env, frames[-1].eqns
        if site.kind != "value":
            told = _TOLD[site.kind](site.eqn, env, _live(site, env, eqns), site.zeros)
            if told is None:
                return self.unseen(site, rounds)
            return self.made(site.kind, told, site.eqn, site, rounds)
        bad = self.kinds.is_bad(env[site.variable])
        if not bad.any():
            return self.unseen(site, rounds)
        found = blamed(self.kinds, frames, site.variable, bad)
        if found is None:
            return None
        fault, frames = found
        env, eqns = frames[-1].env, frames[-1].eqns
        error = self.within(fault, env)
        if error is not None:
            return error
        inner = [(frame.around, frame.number) for frame in frames if frame.around is not None]
        rounds = [number for around, number in inner if around.eqn.primitive.nodes == "loop"]
        site = Site("value", fault.eqn, None, tuple([around for around, _ in inner]))
        return self.made(fault.kind, fault.told, fault.eqn, site, rounds, fault.origin(env, eqns))

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

    def made(
        self,
        kind: str,
        told: str,
        eqn: Any,
        site: Site,
        rounds: Sequence[int],
        origin: Fault | None = None,
    ) -> Exception:
        text = errors.located(told, where=_line(eqn, site.path))
        depths = [i for i, x in enumerate(site.path) if x.eqn.primitive.nodes == "loop"]
        for i, number in zip(depths, rounds, strict=False):
            text += f"; {_iteration(site.path[: i + 1], number)}"
        if origin is not None:
            text += f"; {origin.told} — {source.summarize(_line(origin.eqn, site.path))}"
        return _CLASSES[kind](f"{text}\n{_advice(kind, eqn, site, origin)}")


def _line(eqn: Any, path: Sequence[Around]) -> source.SourceInfo:
    """The line of an equation in the innermost program of a path."""
    infos = [x.source_info for x in (eqn, *(around.eqn for around in reversed(path)))]
    known = [info for info in infos if info is not None and not info.of_caller]
    if known:
        return known[0]
    here = source.current()  # a function of weft's own was called, not a compiled one of the user's
    return here if here.code is not None else infos[0] or source.UNKNOWN


def _iteration(path: Sequence[Around], number: int) -> str:
    """A round of the last loop of a path, or an element of a batch of loops, in words."""
    around = path[-1]
    if around.batch is None:
        loop = f"of the loop at {source.summarize(_line(around.eqn, path[:-1]))}"
        if around.eqn.params.get("reverse"):  # as of the backward pass
            last = around.eqn.params["length"] - 1
            return f"iteration {last - number} {loop}, which runs backwards from {last}"
        return f"iteration {number} {loop}"
    index = [int(i) for i in np.unravel_index(number, around.batch.sizes)]
    return f"element {index[0] if len(index) == 1 else index} of the batch"


def _advice(kind: str, eqn: Any, site: Site, origin: Fault | None) -> str:
    """What to do about an error."""
    blamed = (eqn if origin is None else origin.eqn).primitive
    if kind == "nan":
        if "linalg" in type(blamed).__module__:
            kind = "matrix"
        elif blamed.name.startswith("random_"):
            kind = "random"
        elif origin is not None:
            kind = "pole" if blamed.has_poles else "from inf"
        elif blamed.form != "map" or len(eqn.invars) > 1:
            kind = "several"
    elif kind == "index" and not (blamed.name == "gather" or site.zeros):
        kind = "block" if blamed.name.startswith("dynamic") else "update"
    return _ADVICE[kind].format(name=blamed.name, sign=sign_of(eqn) or "/")


def _result_type(eqn: Any) -> str:
    return eqn.outvars[0].aval.dtype.name


# --- what failed ---------------------------------------------------------------------------------


def _live(site: Site, env: dict[Any, Any], eqns: Sequence[Any]) -> Any:
    """Where the result of a check's equation counts, an array of its shape; None for everywhere."""
    if site.live is None:
        return None
    wanted = {branch.which for several in site.live for branch in several}
    for eqn in eqns:
        if wanted <= env.keys():
            break
        if not any(v in env for v in eqn.outvars) and not eqn.effects:
            evaluated([eqn], env, eqn, True)
    shape = site.eqn.outvars[0].aval.shape
    live = np.zeros(shape, bool)
    for several in site.live:
        holds = np.ones(shape, bool)
        for which, case, axes in several:
            holds &= _along(np.asarray(env[which]) == case, axes, shape)
        live |= holds
    return live


def _along(x: np.ndarray, axes: Sequence[int | None], shape: tuple[int, ...]) -> np.ndarray:
    """An array whose dimensions go along axes of a shape."""
    kept = [axis for axis in axes if axis is not None]
    x = x.reshape([n for n, axis in zip(x.shape, axes, strict=True) if axis is not None])
    x = x.transpose(np.argsort(kept))
    return x.reshape([shape[axis] if axis in kept else 1 for axis in range(len(shape))])


# --- indices, divisors, wrapped integers ----------------------------------------------------------


def _index(eqn: Any, env: dict[Any, Any], live: Any, zeros: bool) -> str | None:
    for place, last in bounds(eqn) or ():
        index = np.asarray(value_of(env, eqn.invars[place]))
        outside = (index < 0) | (index > last)
        rank = max(index.ndim - 1, 0)
        for used in (live, _written(eqn, env) if zeros else None):
            if used is not None and rank:
                axes = index_axes(eqn, used.ndim)
                used = used.any(axis=tuple(a for a in range(used.ndim) if a not in axes))
                outside &= used.reshape((*used.shape, 1))
            elif used is not None:
                outside &= used.any()
        if not outside.any():
            continue
        at_index = tuple(int(i) for i in np.argwhere(outside)[0])
        axis, name, shape = (
            _axis(eqn, place, at_index),
            eqn.primitive.name,
            eqn.invars[0].aval.shape,
        )
        most = int(np.broadcast_to(last, index.shape)[at_index] if index.shape else last)
        block, size, number = shape[axis] - most, shape[axis], int(index[at_index])
        what = f"index {number}"
        what = what if number >= 0 else f"{what} ({number - size} from the end)"
        what = what if block == 1 else f"{what} of {block} elements"
        where = f", at {list(at_index[:-1])} of its indices" if at_index[:-1] else ""
        return f"{name} got {what} for axis {axis} of size {size}{where}"
    return None


def _written(eqn: Any, env: dict[Any, Any]) -> np.ndarray:
    """Where what is written isn't zero."""
    update = eqn.invars[eqn.primitive.written]
    return np.asarray(value_of(env, update)) != 0


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


def _division(eqn: Any, env: dict[Any, Any], live: Any, zeros: bool) -> str | None:
    d = np.asarray(value_of(env, eqn.invars[1]))
    zero = np.broadcast_to(d == 0, eqn.outvars[0].aval.shape)
    zero = zero if live is None else zero & live
    if not zero.any():
        return None
    index = tuple(int(i) for i in np.argwhere(zero)[0])
    return f"{eqn.primitive.name} divided by zero{at(index)}: {operands(eqn, env, index)}"


def _overflow(eqn: Any, env: dict[Any, Any], live: Any, zeros: bool) -> str | None:
    name, kind = eqn.primitive.name, _result_type(eqn)
    values = [np.asarray(value_of(env, x)) for x in eqn.invars]
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
    far = far if live is None else far & live
    if not far.any():
        return None
    index = tuple(int(i) for i in np.argwhere(far)[0])
    return f"{name} overflowed {kind}{at(index)}: {operands(eqn, env, index)}"


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
        found = told(eqn, env, None, False) if _looks(kind, kinds, eqn) else None
        if found is not None:
            raise culprit.made(kind, found, eqn, Site(kind, eqn, None), ())
    for v in outs if kinds.nan or kinds.inf else ():
        if is_inexact(v.aval):
            error = culprit.found(Site("value", eqn, v), [], [Frame(None, 0, env, [eqn])])
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
