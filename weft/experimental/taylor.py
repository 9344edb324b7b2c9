"""The trace of Taylor mode: values are the coefficients of truncated power series.

``x(t) = x0 + x1 t + x2 t² + ...``; a rule for a primitive says which series comes out. Where a
primitive has no rule its ``jvp`` makes one, for ``y' = J(x) x'`` gives the coefficients of ``y``
from those of ``y'``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from weft import dtypes
from weft import numpy as jnp
from weft.base.functional import unzip2
from weft.core.ad import Zero
from weft.core.trace import Trace, Tracer, state, typeof
from weft.tree.registry import register_pytree_node

Rule = Callable[..., tuple[Any, Any]]

# (primals, series, **params) -> (result, terms): rules of users, all terms are arrays.
jet_rules: dict[Any, Rule] = {}
# (primitive, primals, series, params) -> (result, terms): rules here, terms may be zero_term.
sparse_rules: dict[Any, Rule] = {}


class ZeroTerm:
    """A coefficient known to be zero."""


class ZeroSeries:
    """All coefficients but the first known to be zero."""


zero_term = ZeroTerm()
zero_series = ZeroSeries()
register_pytree_node(ZeroTerm, lambda z: ((), None), lambda _, xs: zero_term)
register_pytree_node(ZeroSeries, lambda z: ((), None), lambda _, xs: zero_series)


class JetTracer(Tracer):
    """A value with the higher coefficients of its series; they belong to the parent trace."""

    __slots__ = ("primal", "terms")

    def __init__(self, trace: JetTrace, primal: Any, terms: Any) -> None:
        self._trace = trace
        self.primal = primal
        self.terms = terms
        self.aval = typeof(primal)

    def _concrete(self) -> Any:
        primal = self.primal
        return primal._concrete() if isinstance(primal, Tracer) else primal


class JetTrace(Trace):
    """Applies the rules of Taylor mode; hands what they compute to the parent."""

    __slots__ = ("tag", "parent_trace", "order")

    def __init__(self, tag: Any, parent_trace: Trace, order: int) -> None:
        self.alive = True
        self.tag = tag
        self.parent_trace = parent_trace
        self.order = order

    def to_primal_terms_pair(self, x: Any) -> tuple[Any, Any]:
        if type(x) is JetTracer and x._trace is self:
            return x.primal, x.terms
        return x, zero_series

    def wrap(self, primal: Any, terms: Any) -> Any:
        if is_zero(terms):
            return primal
        return JetTracer(self, primal, terms)

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        primals, series = unzip2(self.to_primal_terms_pair(x) for x in args)
        parent = self.parent_trace
        if primitive.name in _CALLS and "fun" in params and not all_zero(series):
            return params["fun"](*args)  # their derivative rules know nothing of series
        previous = state.trace
        state.trace = parent
        try:
            if all_zero(series):
                return parent.process_primitive(primitive, primals, params)
            out, terms = self._apply(primitive, primals, series, params)
        finally:
            state.trace = previous
        if not primitive.multiple_results:
            return self.wrap(out, terms)
        if type(terms) is ZeroSeries:
            return out
        return [self.wrap(x, ts) for x, ts in zip(out, terms, strict=True)]

    def _apply(self, primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
        order = self.order
        expanded = [[zero_term] * order if type(ts) is ZeroSeries else ts for ts in series]
        rule = sparse_rules.get(primitive)
        if rule is not None and primitive not in jet_rules:
            return rule(primitive, primals, expanded, params)
        rule = jet_rules.get(primitive)
        if rule is None:
            return by_jvp(primitive, primals, expanded, params)
        dense = [filled_terms(x, ts, order) for x, ts in zip(primals, expanded, strict=True)]
        return rule(primals, dense, **params)


_CALLS = ("custom_jvp_call", "custom_vjp_call")


def is_zero(terms: Any) -> bool:
    return type(terms) is ZeroSeries or all(type(t) is ZeroTerm for t in terms)


def all_zero(series: Iterable[Any]) -> bool:
    return all(map(is_zero, series))


def filled_terms(x: Any, terms: Any, order: int) -> list[Any]:
    """The terms of ``x`` with zeros as arrays."""
    if type(terms) is ZeroSeries:
        terms = [zero_term] * order
    return [zeros_of(x) if type(t) is ZeroTerm else t for t in terms]


def zeros_of(x: Any) -> Any:
    return jnp.zeros(np.shape(x), typeof(x).dtype)


def run_on_series(
    fun: Callable[..., Any], order: int, primals: Any, series: Any, tag: Any = None
) -> tuple[list[Any], list[Any]]:
    """Results and their series, a list of terms or ``zero_series`` for each."""
    parent = state.trace
    trace = JetTrace(tag, parent, order)
    args = [trace.wrap(x, terms) for x, terms in zip(primals, series, strict=True)]
    state.trace = trace
    try:
        pairs = [trace.to_primal_terms_pair(x) for x in fun(*args)]
    finally:
        state.trace = parent
        trace.alive = False
    return unzip2(pairs)


def by_jvp(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    """The rule that a primitive's ``jvp`` implies, by one order less of that."""
    order = len(series[0])
    moving = [not is_zero(ts) and _has_tangent(x) for x, ts in zip(primals, series, strict=True)]
    dense = [
        filled_terms(x, ts, order) for x, ts, m in zip(primals, series, moving, strict=True) if m
    ]
    chosen = [x for x, m in zip(primals, moving, strict=True) if m]
    slopes = [[(k + 1) * t if k else t for k, t in enumerate(ts)] for ts in dense]
    still: list[bool] = []

    def tangent(*args: Any) -> list[Any]:
        xs, dxs = iter(args[: len(chosen)]), iter(args[len(chosen) :])
        at = [next(xs) if m else x for x, m in zip(primals, moving, strict=True)]
        along = [next(dxs) if m else Zero.from_primal(x) for x, m in zip(primals, moving)]
        _, out = primitive.jvp(at, along, **params)
        outs = out if primitive.multiple_results else [out]
        still.extend(type(t) is Zero for t in outs)
        return [t for t in outs if type(t) is not Zero]

    out = primitive.bind(*primals, **params)
    if not chosen:
        return out, zero_series
    found, found_terms = run_on_series(
        tangent,
        order - 1,
        [*chosen, *(s[0] for s in slopes)],
        [*(ts[:-1] for ts in dense), *(s[1:] for s in slopes)],
    )
    given = iter(
        [t if not k else t / (k + 1) for k, t in enumerate([x, *filled_terms(x, ts, order - 1)])]
        for x, ts in zip(found, found_terms, strict=True)
    )
    terms = [zero_series if z else next(given) for z in still]
    return out, terms if primitive.multiple_results else terms[0]


def _has_tangent(x: Any) -> bool:
    return typeof(x).to_tangent_aval().dtype != dtypes.float0
