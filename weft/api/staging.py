"""The public face of staging: make_jaxpr, eval_shape, and the staging of one call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.api.arguments import as_tuple, check_callable, check_results, debug_info
from weft.base.traceback import api_boundary
from weft.core.jaxpr import ClosedJaxpr
from weft.core.shape_dtype import abstractify, struct_of
from weft.core.staging import stage
from weft.core.trace import extend_axis_env
from weft.tree.functions import tree_flatten, tree_unflatten


def stage_call(
    fun: Callable[..., Any], args: Any, kwargs: Any, avals: Any, in_tree: Any, what: str
) -> tuple[ClosedJaxpr, Any]:
    """The program of ``fun`` on arguments of these types, and the tree of its result.

    ``args`` and ``kwargs`` only give names to the arguments; static ones among them are None.
    """
    trees: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        given, keywords = tree_unflatten(in_tree, leaves)
        outs, tree = tree_flatten(fun(*given, **keywords))
        check_results(outs, fun, what)
        trees.append(tree)
        return outs

    closed = stage(flat, avals, debug_info(what, fun, args, kwargs))
    return closed, trees[0]


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: Any = (),
    axis_env: Any = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that returns the program of ``fun`` instead of running it.

    >>> import weft
    >>> weft.make_jaxpr(lambda x: 2.0 * x)(1.0)
    { lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] a in (b,) }
    """
    check_callable(fun)
    static = as_tuple(static_argnums)

    @functools.wraps(fun, updated=())
    @api_boundary
    def make_jaxpr_of(*args: Any, **kwargs: Any) -> Any:
        positions = {n % len(args) for n in static} if args else set()
        dynamic = tuple(x for i, x in enumerate(args) if i not in positions)

        @functools.wraps(fun, updated=())
        def of_dynamic(*given: Any, **keywords: Any) -> Any:
            rest = iter(given)
            full = [x if i in positions else next(rest) for i, x in enumerate(args)]
            return fun(*full, **keywords)

        leaves, in_tree = tree_flatten((dynamic, kwargs))
        avals = [abstractify(x) for x in leaves]
        with extend_axis_env(axis_env or ()):
            given = [None if i in positions else x for i, x in enumerate(args)]
            closed, out_tree = stage_call(of_dynamic, given, kwargs, avals, in_tree, "make_jaxpr")
        if return_shape:
            return closed, tree_unflatten(out_tree, map(struct_of, closed.out_avals))
        return closed

    return make_jaxpr_of


@api_boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of the results of ``fun``, without computing them.

    >>> import weft, weft.numpy as jnp
    >>> weft.eval_shape(jnp.sum, jnp.ones((2, 3)))
    ShapeDtypeStruct(shape=(), dtype=float32)
    """
    leaves, in_tree = tree_flatten((args, kwargs))
    avals = [abstractify(x) for x in leaves]
    closed, out_tree = stage_call(fun, args, kwargs, avals, in_tree, "eval_shape")
    return tree_unflatten(out_tree, map(struct_of, closed.out_avals))
