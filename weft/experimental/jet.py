"""Taylor mode: the derivatives of all orders up to a given one, along a curve, in one pass.

A. Griewank, A. Walther, "Evaluating derivatives" (2008), chapter 13.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import lax
from weft.base.functional import safe_zip as safe_zip
from weft.base.functional import unzip2 as unzip2
from weft.base.functional import weakref_lru_cache as weakref_lru_cache
from weft.base.traceback import api_boundary
from weft.experimental.taylor import JetTrace as JetTrace
from weft.experimental.taylor import JetTracer as JetTracer
from weft.experimental.taylor import ZeroSeries as ZeroSeries
from weft.experimental.taylor import ZeroTerm as ZeroTerm
from weft.experimental.taylor import filled_terms, run_on_series
from weft.experimental.taylor import jet_rules as jet_rules
from weft.experimental.taylor import zero_series as zero_series
from weft.experimental.taylor import zero_term as zero_term
from weft.experimental.taylor_rules import integral
from weft.extend.linear_util import WrappedFun, wrap_init
from weft.tree.functions import tree_flatten as tree_flatten
from weft.tree.functions import tree_structure as tree_structure
from weft.tree.functions import tree_unflatten as tree_unflatten
from weft.tree.functions import treedef_is_leaf as treedef_is_leaf
from weft.tree.registry import register_pytree_node as register_pytree_node

call_param_updaters: dict[Any, Callable[..., Any]] = {}


@api_boundary
def jet(
    fun: Callable[..., Any], primals: Any, series: Any, factorial_scaled: bool = True, **_: Any
) -> tuple[Any, Any]:
    """Return the series of a function of arguments that are series: its value and higher terms.

    Args:
        fun: the function.
        primals: the values of the arguments.
        series: for each argument the list of its higher terms.
        factorial_scaled: whether terms are derivatives along a curve; False for Taylor coefficients
            (derivative / k!).

    Returns:
        A pair: the result, and its higher terms, of the same kind.

    Example:
        >>> import weft.numpy as jnp
        >>> value, (first, second) = jet(lambda x: x**3, (2.0,), ((1.0, 0.0),))
        >>> float(value), float(first), float(second)
        (8.0, 12.0, 12.0)
    """
    lengths = set(map(len, series))
    if len(lengths) != 1:
        raise ValueError(
            "jet terms have inconsistent lengths for different arguments: series must have the"
            f" same number of terms for each, got {[len(terms) for terms in series]}"
        )
    for i, (x, terms) in enumerate(zip(primals, series, strict=False)):
        if not treedef_is_leaf(tree_structure(x)):
            raise ValueError(f"primal value at position {i} is not an array: {x!r}")
        for j, term in enumerate(terms):
            if not treedef_is_leaf(tree_structure(term)):
                raise ValueError(f"term {j} for argument {i} is not an array: {term!r}")
    (order,) = lengths
    trees: list[Any] = []

    def flat(*args: Any) -> list[Any]:
        outs, tree = tree_flatten(fun(*args))
        trees.append(tree)
        return outs

    if factorial_scaled:
        series = [[t / fact(k + 1) for k, t in enumerate(terms)] for terms in series]
    run = jet_fun(jet_subtrace(wrap_init(flat)), order)
    outs, out_terms = run.call_wrapped(primals, series)
    if factorial_scaled:
        out_terms = [[t * fact(k + 1) for k, t in enumerate(terms)] for terms in out_terms]
    return tree_unflatten(trees[0], outs), tree_unflatten(trees[0], out_terms)


@api_boundary
def jet2(
    fun: Callable[..., Any], primals: Any, series: Any, *, factorial_scaled: bool = False, **_: Any
) -> tuple[Any, Any]:
    """Return the series of a function as ``jet`` does, on plain Taylor coefficients.

    Args:
        fun: the function.
        primals: the values of the arguments.
        series: for each argument the list of its higher coefficients.
        factorial_scaled: whether terms are derivatives instead.

    Returns:
        A pair: the result, and its higher coefficients.

    Example:
        >>> value, terms = jet2(lambda x: x * x, (3.0,), ((1.0, 0.0),))
        >>> [float(t) for t in terms]
        [6.0, 1.0]
    """
    return jet(fun, primals, series, factorial_scaled)


def fact(n: Any) -> Any:
    """Return the factorial, as a float.

    Args:
        n: a whole number.

    Returns:
        A float.

    Example:
        >>> fact(4)
        24.0
    """
    if isinstance(n, (int, np.integer)):
        return float(math.factorial(n))
    return lax.exp(lax.lgamma(n + 1.0))


# --- functions of primals and series --------------------------------------------------------------


def jet_fun(fun: WrappedFun, order: int) -> WrappedFun:
    """Return a function of primals and series, with all terms there, from a ``jet_subtrace``.

    Args:
        fun: the wrapped function.
        order: the number of higher terms.

    Returns:
        A wrapped function.
    """

    def run(primals: Any, series: Any) -> tuple[list[Any], list[Any]]:
        outs, terms = fun.call_wrapped(None, order, primals, series)
        return outs, [filled_terms(x, ts, order) for x, ts in zip(outs, terms, strict=True)]

    return wrap_init(run)


def jet_subtrace(fun: WrappedFun) -> WrappedFun:
    """Return a function of tag, order, primals and series that runs ``fun`` on tracers of them.

    Args:
        fun: the wrapped function.

    Returns:
        A wrapped function.
    """

    def run(tag: Any, order: int, primals: Any, series: Any) -> tuple[list[Any], list[Any]]:
        return run_on_series(fun.call_wrapped, order, primals, series, tag)

    return wrap_init(run)


def traceable(fun: WrappedFun, in_tree_def: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """Return a function of flat values from one of primals and series, and its result's structure.

    Args:
        fun: the wrapped function.
        in_tree_def: the structure of primals and series.

    Returns:
        A wrapped function, and a function that returns the structure of its result.
    """
    trees: list[Any] = []

    def run(*values: Any) -> list[Any]:
        outs, tree = tree_flatten(fun.call_wrapped(*tree_unflatten(in_tree_def, values)))
        trees.append(tree)
        return outs

    return wrap_init(run), lambda: trees[-1]


# --- rules of users -------------------------------------------------------------------------------


def defzero(prim: Any) -> None:
    """Say that a primitive is piecewise constant.

    Args:
        prim: the primitive.
    """
    jet_rules[prim] = functools.partial(zero_prop, prim)


def zero_prop(prim: Any, primals_in: Any, series_in: Any, **params: Any) -> tuple[Any, Any]:
    """Return the value and zero terms of a piecewise constant primitive: its rule.

    Args:
        prim: the primitive.
        primals_in: the values of the operands.
        series_in: the higher terms of the operands.
        **params: the parameters of the primitive.

    Returns:
        A pair of the result and its terms.
    """
    return prim.bind(*primals_in, **params), zero_series


def deflinear(prim: Any) -> None:
    """Say that a primitive is linear in all its operands together.

    Args:
        prim: the primitive.
    """
    jet_rules[prim] = functools.partial(linear_prop, prim)


def linear_prop(prim: Any, primals_in: Any, series_in: Any, **params: Any) -> tuple[Any, Any]:
    """Return the value and terms of a linear primitive: each term by itself.

    Args:
        prim: the primitive.
        primals_in: the values of the operands.
        series_in: the higher terms of the operands.
        **params: the parameters of the primitive.

    Returns:
        A pair of the result and its terms.
    """
    out = prim.bind(*primals_in, **params)
    terms = [prim.bind(*given, **params) for given in safe_zip(*series_in)]
    return out, safe_zip(*terms) if prim.multiple_results else terms


def def_deriv(prim: Any, deriv: Callable[[Any], Any]) -> None:
    """Give the rule of a primitive of one operand by its derivative.

    Args:
        prim: the primitive.
        deriv: the derivative, a function of the operand.
    """
    jet_rules[prim] = functools.partial(deriv_prop, prim, deriv)


def deriv_prop(
    prim: Any, deriv: Callable[[Any], Any], primals_in: Any, series_in: Any
) -> tuple[Any, Any]:
    """Return the value and terms of a primitive with a given derivative.

    Args:
        prim: the primitive.
        deriv: the derivative, a function of the operand.
        primals_in: the values of the operands.
        series_in: the higher terms of the operands.

    Returns:
        A pair of the result and its terms.
    """
    (x,), (terms,) = primals_in, series_in
    slope, slope_terms = jet2(deriv, (x,), (terms[:-1],)) if terms else (None, [])
    return prim.bind(x), integral([slope, *slope_terms], [x, *terms])


def def_comp(prim: Any, comp: Callable[..., Any], **kwargs: Any) -> None:
    """Give the rule of a primitive as a composition of others.

    Args:
        prim: the primitive.
        comp: a function of the operands made of other primitives.
        **kwargs: further arguments of it.
    """
    jet_rules[prim] = functools.partial(jet2, comp, **kwargs)
