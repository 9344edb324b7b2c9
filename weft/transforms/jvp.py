"""Forward-mode differentiation: a trace that carries tangents beside primals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.base.lazy import Late
from weft.base.source import NO_NAMES, NameStack
from weft.core import sharding as meshes
from weft.core.ad import Zero, instantiate
from weft.core.caches import per_program
from weft.core.effects import touches_refs
from weft.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from weft.core.staging import stage
from weft.core.trace import JVP, Trace, Tracer, box, escaped_tracer_error, state, typeof

# needed where types carry shardings
explicit = Late("weft.division.explicit")
# needed with mutable references only
without_refs = Late("weft.transforms.discharge")


class JVPTracer(Tracer):
    """A primal value with its tangent; both belong to the parent trace.

    Args:
        trace: the trace that it belongs to.
        primal: the value.
        tangent: its tangent.

    Example:
        >>> import weft
        >>> seen = []
        >>> def f(x):
        ...     seen.append(isinstance(x, JVPTracer))
        ...     return x
        >>> _ = weft.jvp(f, (1.0,), (1.0,))
        >>> seen
        [True]
    """

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.primal = primal
        self.tangent = tangent
        self.aval = typeof(primal)

    def known(self) -> Any:
        """The primal; a Python number has the dtype of the time when it was first seen, whatever
        ``enable_x64`` is now."""
        primal = self.primal
        if type(primal) in (float, int, complex) and typeof(primal).dtype != self.aval.dtype:
            return box(np.array(primal, self.aval.dtype), self.aval)
        return primal

    @property
    def display(self) -> str:  # type: ignore[override]
        return "GradTracer" if self._trace.linear else "JVPTracer"

    def _concrete(self) -> Any:
        primal = self.primal
        return primal._concrete() if isinstance(primal, Tracer) else primal

    def _origin_msg(self) -> str:
        primal = self.primal
        inner = primal._origin_msg() if isinstance(primal, Tracer) else ""
        verb = "is being" if self._trace.alive else "was"
        return inner or f"The value {verb} differentiated (by grad, jvp, vjp, linearize, ...)."

    def __repr__(self) -> str:
        if self._trace.linear:
            tangent = typeof(self.tangent).str_short(short_dtypes=True)
            return f"{self.display}(primal={self.primal!r}, typeof(tangent)={tangent})"
        return f"{self.display}(primal={self.primal!r}, tangent={self.tangent!r})"


class JVPTrace(Trace):
    """Applies each primitive's ``jvp`` rule; hands primals and tangents to the parent."""

    __slots__ = ("parent", "linear")

    def __init__(self, parent: Trace, linear: bool = False) -> None:
        self.alive = True
        self.parent = parent
        self.linear = linear  # whether tangents are unknown: the trace of grad and linearize

    def split(self, x: Any) -> tuple[Any, Any]:
        """Primal and tangent of ``x``."""
        if type(x) is JVPTracer and x._trace is self:
            return x.known(), x.tangent
        return x, Zero.from_primal(x)

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        primals, tangents, differentiated = [], [], False
        for x in args:
            if type(x) is JVPTracer and x._trace is self:
                primals.append(x.known())
                tangents.append(x.tangent)
                if type(x.tangent) is not Zero:
                    differentiated = True
            else:
                primals.append(x)
                tangents.append(None)
        if primitive.discharge is not None and differentiated and touches_refs(primitive, params):
            return without_refs.bind_discharged(primitive, args, params)
        parent = self.parent
        previous = state.trace
        state.trace = parent
        try:
            if not (differentiated or primitive.makes_ref):
                return parent.process_primitive(primitive, primals, params)
            for i, t in enumerate(tangents):
                if t is None:
                    tangents[i] = Zero.from_primal(primals[i])
            if meshes.explicit_ones:
                out, tangent = _jvp_typed(primitive, primals, tangents, params)
            else:
                out, tangent = primitive.jvp(primals, tangents, **params)
        except Exception as error:
            primitive.check_types([typeof(x) for x in primals], params, error)
            raise
        finally:
            state.trace = previous
        if primitive.multiple_results:
            return [self.wrap(p, t) for p, t in zip(out, tangent, strict=True)]
        return self.wrap(out, tangent)

    def wrap(self, primal: Any, tangent: Any) -> Any:
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)


def _jvp_typed(primitive: Any, primals: Any, tangents: Any, params: Any) -> tuple[Any, Any]:
    """Results and tangents where types may carry shardings: tangents have those of results."""
    avals = [typeof(x) for x in primals]
    if not explicit.concerns(primitive, avals, params):
        return primitive.jvp(primals, tangents, **params)
    wanted = explicit.expected(primitive, avals, params)
    params = explicit.without_said(primitive, params)
    with explicit.loosely(explicit.sums_in(wanted)):
        out, tangent = primitive.jvp(primals, tangents, **params)
    several = primitive.multiple_results
    outs = [explicit.moved(x, a) for x, a in zip(out if several else [out], wanted, strict=True)]
    found = [
        t if type(t) is Zero else explicit.moved(t, a)
        for t, a in zip(tangent if several else [tangent], wanted, strict=True)
    ]
    return (outs, found) if several else (outs[0], found[0])


def jvp(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    named: NameStack = JVP,
) -> tuple[list[Any], list[Any]]:
    """Results and tangents of a function of flat arguments; tangents may be symbolic zeros.

    ``named`` is what name stacks say of it; in a program inside of another the outer one says it.
    """
    parent, names = state.trace, state.name_stack
    trace = JVPTrace(parent)
    args = [trace.wrap(p, t) for p, t in zip(primals, tangents, strict=True)]
    state.trace, state.name_stack = trace, named.inside(names)
    try:
        outs = [trace.split(x) for x in fun(*args)]
    finally:
        state.trace, state.name_stack = parent, names
        trace.alive = False
    for out, _ in outs:
        if isinstance(out, Tracer) and not out._trace.alive:
            raise escaped_tracer_error(out)
    return [p for p, _ in outs], [t for _, t in outs]


def jvp_jaxpr(
    closed: ClosedJaxpr, nonzeros: Sequence[bool], instantiated: Sequence[bool] | bool
) -> tuple[ClosedJaxpr, list[bool]]:
    """The program of results and tangents, and which results have a tangent.

    Its inputs are all primals, then the tangents of those marked in ``nonzeros``; its outputs all
    results, then the tangents of those that have one or are marked in ``instantiated``.
    """
    if isinstance(instantiated, bool):
        instantiated = [instantiated] * len(closed.out_avals)
    return _jvp_jaxpr(closed, tuple(nonzeros), tuple(instantiated))


@per_program
def _jvp_jaxpr(
    closed: ClosedJaxpr, nonzeros: tuple[bool, ...], instantiated: tuple[bool, ...]
) -> tuple[ClosedJaxpr, list[bool]]:
    has_tangent: list[bool] = []
    fun = jaxpr_as_fun(closed)

    def with_tangents(*args: Any) -> list[Any]:
        primals = args[: len(nonzeros)]
        given = iter(args[len(nonzeros) :])
        tangents = [
            next(given) if nonzero else Zero.from_primal(p)
            for p, nonzero in zip(primals, nonzeros, strict=True)
        ]
        outs, out_tangents = jvp(fun, primals, tangents, NO_NAMES)
        wanted = [
            keep or type(t) is not Zero for keep, t in zip(instantiated, out_tangents, strict=True)
        ]
        has_tangent.extend(wanted)
        kept = [instantiate(t) for t, w in zip(out_tangents, wanted, strict=True) if w]
        return [*outs, *kept]

    in_tangents = [
        a.to_tangent_aval() for a, nz in zip(closed.in_avals, nonzeros, strict=True) if nz
    ]
    staged = stage(with_tangents, [*closed.in_avals, *in_tangents], closed.debug_info)
    return staged, has_tangent
