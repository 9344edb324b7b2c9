"""Functions with derivative rules of their own, and the tools to write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from weft import dtypes
from weft.base.functional import wraps
from weft.control.custom_jvp import custom_jvp as custom_jvp
from weft.control.custom_jvp import custom_jvp_call_p as custom_jvp_call_p
from weft.control.custom_rules import SymbolicZero as SymbolicZero
from weft.control.custom_rules import name_of
from weft.control.custom_rules import zero_from_primal as zero_from_primal
from weft.control.custom_vjp import CustomVJPPrimal as CustomVJPPrimal
from weft.control.custom_vjp import custom_vjp as custom_vjp
from weft.control.custom_vjp import custom_vjp_call_p as custom_vjp_call_p
from weft.control.custom_vjp import custom_vjp_primal_tree_values as custom_vjp_primal_tree_values
from weft.control.linear_call import linear_call as linear_call
from weft.control.remat_opt import remat_opt_p as remat_opt_p
from weft.core.ad import Zero
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.staging import StagingTracer, stage
from weft.core.trace import Tracer, typeof
from weft.transforms.jvp import JVPTracer
from weft.transforms.vmap import BatchTracer
from weft.tree.functions import tree_flatten, tree_unflatten, treedef_is_leaf
from weft.tree.registry import register_pytree_node

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Staged:
    """A staged function with the values it closes over as the leaves of a tree."""

    def __init__(self, jaxpr: Jaxpr, in_tree: Any, out_tree: Any, consts: Any) -> None:
        self.jaxpr, self.in_tree, self.out_tree = jaxpr, in_tree, out_tree
        self.consts = consts


register_pytree_node(
    _Staged,
    lambda s: (tuple(s.consts), (s.jaxpr, s.in_tree, s.out_tree)),
    lambda aux, consts: _Staged(aux[0], aux[1], aux[2], consts),
)


def custom_gradient(fun: Callable[_P, tuple[_R, Any]]) -> custom_vjp[_P, _R]:
    """Return a function whose reverse-mode rule comes with its result.

    Args:
        fun: a function that returns a pair: the result, and a function from the cotangent of the
            result to the cotangents of the arguments.

    Returns:
        A function of the same arguments that returns the result.

    Example:
        >>> import weft
        >>> @custom_gradient
        ... def f(x):
        ...     return x * x, lambda ct: ct * 3.0
        >>> float(f(2.0)), float(weft.grad(f)(2.0))
        (4.0, 3.0)
    """

    pair: Callable[..., Any] = fun

    @custom_vjp
    @wraps(fun)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return pair(*args, **kwargs)[0]

    def fwd(*args: Any) -> tuple[Any, _Staged]:
        out, rule = pair(*args)
        outs, out_tree = tree_flatten(out)
        trees: list[Any] = []

        def flat(*cts: Any) -> list[Any]:
            found, tree = tree_flatten(rule(tree_unflatten(out_tree, cts)))
            trees.append(tree)
            return found

        closed = stage(flat, [typeof(x).to_cotangent_aval() for x in outs])
        return out, _Staged(closed.jaxpr, trees[0], out_tree, closed.consts)

    def bwd(staged: _Staged, ct: Any) -> Any:
        cts, tree = tree_flatten(ct)
        if tree != staged.out_tree:
            raise TypeError(
                f"the gradient function of {name_of(fun)} takes a cotangent of structure"
                f" {staged.out_tree}, but got {tree}"
            )
        found = tree_unflatten(staged.in_tree, eval_jaxpr(staged.jaxpr, staged.consts, *cts))
        return (found,) if treedef_is_leaf(staged.in_tree) else found

    wrapped.defvjp(fwd, bwd)
    return wrapped


def closure_convert(
    fun: Callable[..., _R], *example_args: Any
) -> tuple[Callable[..., _R], list[Any]]:
    """Return a function with the values it closes over as further arguments, and those values.

    Only values that may take part in differentiation become arguments.

    Args:
        fun: the function.
        *example_args: arguments of the types that it will be called with.

    Returns:
        A pair: a function of these arguments and the values, and the list of values.

    Example:
        >>> import weft
        >>> def at(c):
        ...     converted, hoisted = closure_convert(lambda x: c * x, 1.0)
        ...     return converted(2.0, *hoisted)
        >>> float(weft.grad(at)(5.0))
        2.0
    """
    leaves, in_tree = tree_flatten(example_args)
    trees: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        outs, tree = tree_flatten(fun(*tree_unflatten(in_tree, values)))
        trees.append(tree)
        return outs

    closed = stage(flat, [typeof(x) for x in leaves])
    out_tree = trees[0]
    hoist = [_may_be_perturbed(c) for c in closed.consts]
    hoisted = [c for c, h in zip(closed.consts, hoist, strict=True) if h]

    def converted(*args_and_hoisted: Any) -> Any:
        count = len(args_and_hoisted) - len(hoisted)
        args, given = args_and_hoisted[:count], iter(args_and_hoisted[count:])
        consts = [next(given) if h else c for c, h in zip(closed.consts, hoist, strict=True)]
        values, tree = tree_flatten(tuple(args))
        if tree != in_tree:
            raise TypeError(
                "a function made by closure_convert takes arguments of the structure of the"
                f" example arguments, {in_tree}, but got {tree}"
            )
        return tree_unflatten(out_tree, eval_jaxpr(closed.jaxpr, consts, *values))

    return converted, hoisted


def _may_be_perturbed(x: Any) -> bool:
    """Whether a value may have a tangent, now or when a program being staged is differentiated."""
    if not isinstance(x, Tracer):
        return False
    if isinstance(x, JVPTracer):
        return type(x.tangent) is not Zero or _may_be_perturbed(x.primal)
    if isinstance(x, BatchTracer):
        return _may_be_perturbed(x.val)
    if isinstance(x, StagingTracer):
        tangent = x.aval.to_tangent_aval()
        return getattr(tangent, "dtype", None) not in (None, dtypes.float0)
    return dtypes.issubdtype(x.aval.dtype, np.inexact)
