"""Programs without references: what is read from them comes in, what is written goes out.

While a program is rewritten, a reference is stood for by a cell, which has a ``value``. A
primitive that meets references says by its rule ``discharge(*args, **params)`` what it does to
cells in their place; those that carry programs bind themselves again on values, with programs
that return what they have written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base import knobs, source
from weft.base.record import Record
from weft.core.caches import per_program
from weft.core.effects import touches_refs
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, eval_jaxpr, jaxprs_in_params
from weft.core.staging import stage
from weft.core.trace import state, typeof
from weft.transforms.partial_eval import prune


class AnyCell:
    """Something with a ``value`` that can be read and set."""

    __slots__ = ()

    value: Any

    def free(self) -> None:
        """Give the value up: it is not read again."""

    def holds_alone(self) -> bool:
        """Whether nobody else has its value, as an object."""
        return False


class Cell(AnyCell):
    """The value of a reference at one point of a program."""

    __slots__ = ("_value", "written")

    def __init__(self, value: Any) -> None:
        self._value = value
        self.written = False

    @property
    def value(self) -> Any:  # type: ignore[override]
        if self._value is None:
            raise ValueError("a reference was used after free_ref")
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value
        self.written = True

    def free(self) -> None:
        if self._value is None:
            raise ValueError("a reference was freed twice by free_ref")
        self._value = None


class Discharged(Record):
    """A program on values: its results, then those of the inputs that it writes."""

    program: ClosedJaxpr
    written: list[bool]  # of every input, whether it is a reference that is written


def discharge_closed(closed: ClosedJaxpr) -> Discharged:
    """The program with the values of references for its references."""
    # indices that are checked are read as they are
    return _discharged(closed, knobs.thread.check_index)


@per_program
def _discharged(closed: ClosedJaxpr, checked: bool) -> Discharged:
    written: list[bool] = []
    refs = [a.is_ref for a in closed.in_avals]

    def on_values(*values: Any) -> list[Any]:
        args = [Cell(x) if r else x for x, r in zip(values, refs, strict=True)]
        outs = run(closed.jaxpr, closed.consts, args)
        written.extend(type(x) is Cell and x.written for x in args)
        return outs + [x.value for x, w in zip(args, written, strict=True) if w]

    avals = [a.inner_aval if a.is_ref else a for a in closed.in_avals]
    return Discharged(stage(on_values, avals, closed.debug_info), written)


def run(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Bind the equations one after the other; those that meet references act on cells."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    previous = state.source
    try:
        for eqn in jaxpr.eqns:
            values = [x.val if type(x) is Literal else env[x] for x in eqn.invars]
            state.source = eqn.source_info
            out = _run_eqn(eqn, values)
            outs = out if eqn.primitive.multiple_results else [out]
            env.update(zip(eqn.outvars, outs, strict=True))
    finally:
        state.source = previous
    return [x.val if type(x) is Literal else env[x] for x in jaxpr.outvars]


def _run_eqn(eqn: Any, values: list[Any]) -> Any:
    primitive = eqn.primitive
    if any(type(x) is Cell for x in values) or any(e.on_refs for e in eqn.effects):
        if primitive.discharge is not None:
            return primitive.discharge(*values, **eqn.params)
        called = primitive.callee(eqn.params)
        if called is not None:
            return run(called.jaxpr, called.consts, values)
        raise NotImplementedError(
            f"{primitive} was given a mutable reference, which it does not support; read it first"
            f" with ref[...] ({source.summarize(eqn.source_info)})"
        )
    leading, params = primitive.get_bind_params(eqn.params)
    return primitive.bind(*leading, *values, **params)


# --- what rules are written with ------------------------------------------------------------------


def values_of(args: Sequence[Any]) -> list[Any]:
    """The arguments with values for cells; ValueError if one cell is there twice."""
    cells = [id(x) for x in args if isinstance(x, AnyCell)]
    if len(set(cells)) < len(cells) and knobs.thread.mutable_array_checks:
        raise ValueError(
            "one mutable reference was passed in two places of one call: a write through one "
            "would not be visible through the other; pass it once"
        )
    return [x.value if isinstance(x, AnyCell) else x for x in args]


def store(args: Sequence[Any], written: Sequence[bool], outs: Sequence[Any]) -> list[Any]:
    """Put the last results into the cells that were written; gives the other results."""
    count = len(outs) - sum(written)
    cells = [x for x, w in zip(args, written, strict=True) if w]
    for cell, value in zip(cells, outs[count:], strict=True):
        cell.value = value
    return list(outs[:count])


def cells_of(args: Sequence[Any]) -> list[Any]:
    """The arguments with cells for references, one for each."""
    cells: dict[int, Any] = {}
    given = []
    for x in args:
        aval = typeof(x)
        given.append(cells.setdefault(id(x), aval.cell(x)) if aval.is_ref else x)
    return given


# --- under transformations ------------------------------------------------------------------------


def bind_discharged(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Bind a primitive that carries programs with references: read them, run, write them."""
    if any(map(_ruled, jaxprs_in_params(params))):
        called = primitive.callee(params)
        if called is not None:
            return eval_jaxpr(called.jaxpr, called.consts, *args)
        # the rules act on the references themselves: step by step, in this order and back
        outs = None if primitive.by_steps is None else primitive.by_steps(args, params)
        if outs is None:
            raise NotImplementedError(
                "a function with a custom derivative rule is given a mutable reference inside "
                f"{primitive}, which is differentiated or mapped and has an unknown number of "
                f"steps; call it outside of {primitive}"
            )
        return outs
    return primitive.discharge(*cells_of(args), **params)


def _ruled(jaxpr: Jaxpr) -> bool:
    """Whether a program gives references to a function whose derivative is a rule's."""
    for eqn in jaxpr.eqns:
        own = eqn.primitive.discharge is None and eqn.primitive.callee(eqn.params) is not None
        if own and (touches_refs(eqn.primitive, eqn.params) or _given_refs(eqn)):
            return True
        if any(map(_ruled, jaxprs_in_params(eqn.params))):
            return True
    return False


def _given_refs(eqn: Any) -> bool:
    return any(x.aval.is_ref for x in eqn.invars)


def discharge_linear(program: ClosedJaxpr) -> ClosedJaxpr:
    """A linear program on values, which returns the tangents of all references at the end."""
    pure, written = discharge_closed(program)
    jaxpr = pure.jaxpr
    count = len(jaxpr.outvars) - sum(written)
    own = iter(jaxpr.outvars[count:])
    last = [
        next(own) if w else v
        for v, w, a in zip(jaxpr.invars, written, program.in_avals, strict=True)
        if a.is_ref
    ]
    jaxpr = jaxpr.replace(outvars=[*jaxpr.outvars[:count], *last])
    return prune(jaxpr, pure.consts)
