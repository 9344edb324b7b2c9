"""Masks of cotangents through backward rules of the user: what a rule multiplies by, moves or adds
up stays zero where it came in as a zero that ``where`` did not take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.jaxpr import eval_jaxpr
from weft.core.registry import lookup
from weft.core.trace import Trace, Tracer, state, typeof
from weft.transforms.masks import Live, Masked, as_number, both, either, nonzero, scaled, settled

# Equations of a compiled function up to which a rule's call of it is looked into.
MAX_CALL_EQUATIONS = 64


class LiveTracer(Tracer):
    """A value that is computed from a cotangent with a mask."""

    __slots__ = ("masked",)

    def __init__(self, trace: Trace, masked: Masked) -> None:
        self._trace = trace
        self.masked = masked
        self.aval = typeof(masked.value)

    def _concrete(self) -> Any:
        value = settled(self.masked)
        return value._concrete() if isinstance(value, Tracer) else value


class LiveTrace(Trace):
    """Applies primitives to values, and to their masks where these go on."""

    __slots__ = ("parent",)

    def __init__(self, parent: Trace) -> None:
        super().__init__()
        self.parent = parent

    def wrap(self, x: Any) -> Any:
        return LiveTracer(self, x) if type(x) is Masked else x

    def unwrap(self, x: Any) -> Any:
        return x.masked if type(x) is LiveTracer and x._trace is self else x

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        given = [self.unwrap(x) for x in args]
        masked = any(type(x) is Masked for x in given)
        if masked and primitive is lookup("jit"):
            closed = params["jaxpr"]
            if len(closed.eqns) <= MAX_CALL_EQUATIONS and not closed.effects:
                return eval_jaxpr(closed.jaxpr, closed.consts, *args)
        state.trace = self.parent
        try:
            out = None
            if masked and not primitive.multiple_results:
                out = _applied(primitive, given, params)
            if out is None:
                return self.parent.process_primitive(primitive, [*map(settled, given)], params)
        finally:
            state.trace = self
        return self.wrap(out)


def with_masks(rule: Callable[[Sequence[Any]], Sequence[Any]], cts: Sequence[Any]) -> list[Any]:
    """What a rule makes of cotangents, some with masks; so are its results."""
    parent = state.trace
    trace = LiveTrace(parent)
    given = [trace.wrap(ct) for ct in cts]
    state.trace = trace
    try:
        found = rule(given)
    finally:
        state.trace = parent
        trace.alive = False
    return [trace.unwrap(x) for x in found]


def _applied(primitive: Any, given: Sequence[Any], params: dict[str, Any]) -> Masked | None:
    """The result with its mask; None where no mask goes on."""
    if primitive.masks == "each":
        return _each(primitive, given, params)
    if primitive.masks in ("taken", "passed"):
        return _chosen(primitive, given, params)
    if primitive.masks in ("moved", "summed") and primitive.linear and len(given) == 1:
        (x,) = given
        moved = lambda: nonzero(primitive.bind(as_number(x), **params))
        out = primitive.bind(settled(x), **params)
        return Masked(out, Live(typeof(out).shape, moved), False)
    return None


def _each(primitive: Any, given: Sequence[Any], params: dict[str, Any]) -> Masked | None:
    """A product is zero where one factor is, a quotient where its numerator is, a sum where all of
    its terms are."""
    shapes = [typeof(x.value if type(x) is Masked else x).shape for x in given]
    whole = max(shapes, key=len)
    if any(s not in ((), whole) for s in shapes):
        return None
    given = [settled(x) if s != whole else x for x, s in zip(given, shapes, strict=True)]
    if primitive.scales == "div":
        given = [given[0], settled(given[1])]
    masks = [x.live for x in given if type(x) is Masked]
    if not masks or (not primitive.scales and len(masks) < len(given)):
        return None
    live, join = masks[0], both if primitive.scales else either
    for other in masks[1:]:
        live = live if other is live else join(live, other)
    values = [x.value if type(x) is Masked else x for x in given]
    dirty = any(type(x) is Masked and x.dirty for x in given)
    out = primitive.bind(*values, **params)
    return Masked(out, live, dirty or scaled(primitive, values))


def _chosen(primitive: Any, given: Sequence[Any], params: dict[str, Any]) -> Masked | None:
    """A choice is zero where the case that it takes is."""
    which, *cases = given
    if type(which) is Masked or not all(type(x) is Masked for x in cases):
        return None
    shape = typeof(cases[0].value).shape
    if any(x.live.shape != shape for x in cases):
        return None
    live = Live(shape, lambda: primitive.bind(which, *[x.live.value() for x in cases], **params))
    out = primitive.bind(which, *[x.value for x in cases], **params)
    return Masked(out, live, any(x.dirty for x in cases))
