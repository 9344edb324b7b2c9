"""The public face of staging: make_jaxpr, eval_shape, and the staging of one call."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from weft.api.arguments import (
    as_tuple,
    check_callable,
    check_results,
    checked_positions,
    debug_info,
)
from weft.base import knobs
from weft.base.functional import name_of, weakref_lru_cache, wraps
from weft.base.source import SourceInfo
from weft.base.traceback import api_boundary
from weft.core.avals import labels_of
from weft.core.high import flatten
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_in_params
from weft.core.shape_dtype import abstractify, struct_of
from weft.core.staging import check_tracing, stage
from weft.core.trace import Tracer, extend_axis_env, state, typeof
from weft.tree.functions import tree_unflatten


def stage_call(
    fun: Callable[..., Any], args: Any, kwargs: Any, avals: Any, in_tree: Any, what: str
) -> tuple[ClosedJaxpr, Any]:
    """The program of ``fun`` on arguments of these types, and the tree of its result.

    ``args`` and ``kwargs`` only give names to the arguments; static ones among them are None.
    """
    check_tracing(fun, what)
    trees: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        given, keywords = tree_unflatten(in_tree, leaves)
        outs, tree = flatten(fun(*given, **keywords), results=True)
        check_results(outs, fun, what)
        trees.append(tree)
        return outs

    closed = stage(flat, avals, debug_info(what, fun, args, kwargs))
    return closed, trees[0]


def mark_lines(jaxpr: Jaxpr, caller: SourceInfo) -> None:
    """Mark the equations of a new program of weft's own that stand at its caller's line: others
    will call it, too."""
    marked = caller.marked()
    for eqn in jaxpr.eqns:
        info = eqn.source_info
        if info is not None and info.is_at(caller) and not info.of_caller:
            plain = not (info.name_stack or info.notes)
            eqn.source_info = marked if plain else info.marked()
        for inner in jaxprs_in_params(eqn.params):
            mark_lines(inner, caller)


# Functions whose programs are remembered by make_jaxpr and eval_shape, and types of each.
STAGED_PROGRAMS = 1024


def _closes_over_nothing_traced(staged: tuple[ClosedJaxpr, Any]) -> bool:
    return not any(isinstance(c, Tracer) or typeof(c).is_ref for c in staged[0].consts)


@weakref_lru_cache(
    maxsize=STAGED_PROGRAMS,
    context=lambda: (knobs.context_key(), state.axis_env),
    keep=_closes_over_nothing_traced,
)
def _stage_again(
    fun: Any, in_tree: Any, avals: Any, what: str, named: Any
) -> tuple[ClosedJaxpr, Any]:
    args, kwargs = tree_unflatten(in_tree, range(in_tree.num_leaves))
    return stage_call(fun, args, kwargs, avals, in_tree, what)


def _stage_once(fun: Any, args: Any, kwargs: Any, what: str) -> tuple[ClosedJaxpr, Any]:
    """``stage_call``, remembered for the same function and types as long as the function lives."""
    leaves, in_tree = flatten((args, kwargs))
    avals = tuple([abstractify(x) for x in leaves])
    try:
        hash(fun)
        weakref.ref(fun)
    except TypeError:
        return stage_call(fun, args, kwargs, avals, in_tree, what)
    if knobs.thread.check_tracer_leaks:  # which are looked for while a function is staged
        return stage_call(fun, args, kwargs, avals, in_tree, what)
    return _stage_again(fun, in_tree, avals, what, labels_of(avals))


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: Any = (),
    axis_env: Any = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns the traced program (jaxpr) of ``fun`` instead of running it.

    Args:
        fun: Function of arrays and trees of arrays.
        static_argnums: Positions of arguments that are compile-time constants.
        axis_env: List of (name, size) pairs of mapped axes, for functions with collectives.
        return_shape: If true, also return the shapes and dtypes of the results as a tree.

    Returns:
        Function with the arguments of ``fun`` that returns a ``ClosedJaxpr``; with ``return_shape``
        a pair.

    Example:
        >>> import weft
        >>> weft.make_jaxpr(lambda x: 2.0 * x)(1.0)
        { lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] a in (b,) }
    """
    check_callable(fun)
    static = as_tuple(checked_positions("make_jaxpr", "static_argnums", static_argnums))

    @wraps(fun)
    @api_boundary
    def make_jaxpr_of(*args: Any, **kwargs: Any) -> Any:
        if not static:
            with extend_axis_env(axis_env or ()):
                closed, out_tree = _stage_once(fun, args, kwargs, "make_jaxpr")
            return _with_shape(closed, out_tree) if return_shape else closed
        positions = {n % len(args) for n in static} if args else set()
        dynamic = tuple(x for i, x in enumerate(args) if i not in positions)

        @wraps(fun)
        def of_dynamic(*given: Any, **keywords: Any) -> Any:
            rest = iter(given)
            full = [x if i in positions else next(rest) for i, x in enumerate(args)]
            return fun(*full, **keywords)

        leaves, in_tree = flatten((dynamic, kwargs))
        avals = [abstractify(x) for x in leaves]
        with extend_axis_env(axis_env or ()):
            given = [None if i in positions else x for i, x in enumerate(args)]
            closed, out_tree = stage_call(of_dynamic, given, kwargs, avals, in_tree, "make_jaxpr")
        return _with_shape(closed, out_tree) if return_shape else closed

    make_jaxpr_of.__name__ = make_jaxpr_of.__qualname__ = f"make_jaxpr({name_of(fun)})"
    return make_jaxpr_of


def _with_shape(closed: ClosedJaxpr, out_tree: Any) -> tuple[ClosedJaxpr, Any]:
    return closed, tree_unflatten(out_tree, map(struct_of, closed.out_avals))


@api_boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of a function's results without computing them.

    Args:
        fun: Function of arrays and trees of arrays.
        *args: Arguments: arrays, or anything with ``shape`` and ``dtype`` such as
            ``ShapeDtypeStruct``.
        **kwargs: Arguments by keyword.

    Returns:
        Tree like the result, with ``ShapeDtypeStruct`` in place of arrays.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.eval_shape(jnp.sum, jnp.ones((2, 3)))
        ShapeDtypeStruct(shape=(), dtype=float32)
    """
    closed, out_tree = _stage_once(fun, args, kwargs, "eval_shape")
    return tree_unflatten(out_tree, map(struct_of, closed.out_avals))
