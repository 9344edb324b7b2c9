"""Linear functions with a transpose of their own: ``linear_call``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.base.functional import split_list
from weft.control.initial_style import separate_consts, stage_tree_function
from weft.core.ad import Zero, instantiate
from weft.core.batching import AxisData, at_front
from weft.core.debug_info import DebugInfo
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.transforms.dce import close, convert_constvars
from weft.transforms.vmap import batch_jaxpr
from weft.tree.functions import tree_flatten, tree_unflatten, treedef_tuple


class LinearCall(Primitive):
    """A call, linear in its last operands, whose transpose is another program.

    Operands are what ``callee`` closes over, residuals, and the linear ones. ``transpose_thunk``
    gives the transposed program and what that closes over.
    """

    name = "linear_call"
    multiple_results = True

    def shape(self, *avals: Any, callee: ClosedJaxpr, **params: Any) -> list[Any]:
        return callee.out_avals

    def eqn_effects(self, avals: Any, params: Any) -> Any:
        return params["callee"].effects

    def callee(self, params: dict[str, Any]) -> ClosedJaxpr:
        return params["callee"]

    @staticmethod
    def ref(*args: Any, callee: ClosedJaxpr, **params: Any) -> list[Any]:
        return run(callee.jaxpr, (), args)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        fixed = params["num_callee_consts"] + params["num_res"]
        if any(type(t) is not Zero for t in tangents[:fixed]):
            raise NotImplementedError(
                "linear_call is differentiated by its linear arguments only, but a residual"
                " argument is perturbed; wrap residuals in lax.stop_gradient"
            )
        outs = self.bind(*primals, **params)
        moved = self.bind(*primals[:fixed], *map(instantiate, tangents[fixed:]), **params)
        return outs, moved

    def transpose(
        self,
        cts: Any,
        *args: Any,
        callee: ClosedJaxpr,
        transpose_thunk: Any,
        num_callee_consts: int,
        num_res: int,
    ) -> list[Any]:
        program, consts = transpose_thunk()
        callee_consts, residuals, _ = split_list(args, [num_callee_consts, num_res])
        outs = self.bind(
            *consts,
            *residuals,
            *map(instantiate, cts),
            callee=program,
            transpose_thunk=lambda: (callee, callee_consts),
            num_callee_consts=len(consts),
            num_res=num_res,
        )
        return [None] * (num_callee_consts + num_res) + outs

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        callee: ClosedJaxpr,
        transpose_thunk: Any,
        num_callee_consts: int,
        num_res: int,
    ) -> tuple[list[Any], list[int | None]]:
        fixed = num_callee_consts + num_res
        # Linear operands and results are batched together, so that the transpose fits.
        in_batched = [d is not None for d in dims[:fixed]] + [True] * (len(dims) - fixed)
        moved = [
            at_front(x, d, axis.size) if b else x
            for x, d, b in zip(args, dims, in_batched, strict=True)
        ]
        closed, _ = batch_jaxpr(callee, axis, in_batched, True)
        res_batched = in_batched[num_callee_consts:fixed]

        @functools.cache
        def batched_thunk() -> tuple[ClosedJaxpr, list[Any]]:
            program, consts = transpose_thunk()
            linear = len(program.in_avals) - len(consts) - num_res
            flags = [False] * len(consts) + res_batched + [True] * linear
            back, _ = batch_jaxpr(program, axis, flags, True)
            return close(convert_constvars(back.jaxpr)), [*back.consts, *consts]

        outs = self.bind(
            *closed.consts,
            *moved,
            callee=close(convert_constvars(closed.jaxpr)),
            transpose_thunk=batched_thunk,
            num_callee_consts=num_callee_consts + len(closed.consts),
            num_res=num_res,
        )
        return outs, [0] * len(outs)


linear_call_p = LinearCall()


def linear_call(
    fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any
) -> Any:
    """Return ``fun(residual_args, linear_args)``, which is transposed by another function.

    Args:
        fun: a function that is linear in its second argument.
        fun_transpose: ``fun_transpose(residual_args, cotangent)`` returns the cotangent of that
            argument.
        residual_args: the first argument, a tree.
        linear_args: the second argument, a tree.

    Returns:
        The result of ``fun``.

    Example:
        >>> import weft
        >>> halve = lambda x: linear_call(lambda r, x: x / r, lambda r, ct: ct / r, 2.0, x)
        >>> float(halve(8.0)), float(weft.linear_transpose(halve, 1.0)(3.0)[0])
        (4.0, 1.5)
    """
    residuals, res_tree = tree_flatten(residual_args)
    operands, lin_tree = tree_flatten(linear_args)
    res_avals = [typeof(x) for x in residuals]
    closed, out_tree = stage_tree_function(
        fun,
        treedef_tuple((res_tree, lin_tree)),
        [*res_avals, *(typeof(x) for x in operands)],
        DebugInfo("linear_call", fun),
    )
    callee, consts = separate_consts(closed)

    @functools.cache
    def transpose_thunk() -> tuple[ClosedJaxpr, list[Any]]:
        back, back_tree = stage_tree_function(
            fun_transpose,
            treedef_tuple((res_tree, out_tree)),
            [*res_avals, *callee.out_avals],
            DebugInfo("linear_call", fun_transpose),
        )
        if back_tree != lin_tree:
            raise TypeError(
                "the transpose given to linear_call must return the structure of the linear"
                f" arguments, {lin_tree}, but it returned {back_tree}"
            )
        return separate_consts(back)

    outs = linear_call_p.bind(
        *consts,
        *residuals,
        *operands,
        callee=callee,
        transpose_thunk=transpose_thunk,
        num_callee_consts=len(consts),
        num_res=len(residuals),
    )
    return tree_unflatten(out_tree, outs)
