"""The forward rule of a custom_vjp function that turns back into the function under ``remat``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.control.initial_style import mapped_at_front, tangents_of
from weft.control.jit import jit_p, jit_parameters
from weft.core.ad import Zero
from weft.core.batching import AxisData
from weft.core.debug_info import DebugInfo
from weft.core.effects import observable
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn
from weft.core.primitive import Primitive
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.transforms.dce import close, convert_constvars, dce_closed
from weft.transforms.jvp import jvp_jaxpr
from weft.transforms.vmap import batch_jaxpr
from weft.tree.functions import tree_flatten, tree_unflatten


class RematOpt(Primitive):
    """Residuals and results of a fwd rule; only the function itself if no residual is read."""

    name = "remat_opt"
    multiple_results = True
    holes = {"transpose": "a fwd rule is not linear"}

    def shape(self, *avals: Any, fwd_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return fwd_jaxpr.out_avals

    def eqn_effects(self, avals: Any, params: Any) -> Any:
        return params["fwd_jaxpr"].effects

    def callee(self, params: dict[str, Any]) -> ClosedJaxpr | None:
        return params["fwd_jaxpr"]

    @staticmethod
    def ref(*args: Any, fwd_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return run(fwd_jaxpr.jaxpr, (), args)

    def jvp(
        self, primals: Any, tangents: Any, *, fwd_jaxpr: ClosedJaxpr, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        """The rule's own derivative; the choice of the cheaper function ends here."""
        nonzero = [type(t) is not Zero for t in tangents]
        closed, out_nonzero = jvp_jaxpr(fwd_jaxpr, nonzero, False)
        given = [t for t in tangents if type(t) is not Zero]
        results = jit_p.bind(*primals, *given, **jit_parameters(closed, "fwd"))
        count = len(out_nonzero)
        return results[:count], tangents_of(results[:count], out_nonzero, results[count:])

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        num_consts: int,
        num_res: int,
        fwd_jaxpr: ClosedJaxpr,
        fun_jaxpr_thunk: Any,
    ) -> tuple[list[Any], list[int | None]]:
        in_batched = [d is not None for d in dims]
        moved = mapped_at_front(args, dims)
        closed, out_batched = batch_jaxpr(fwd_jaxpr, axis, in_batched, False)

        @functools.cache
        def batched_thunk() -> ClosedJaxpr:
            fun_batched = in_batched[num_consts:]
            return batch_jaxpr(fun_jaxpr_thunk(), axis, fun_batched, out_batched[num_res:])[0]

        outs = self.bind(
            *closed.consts,
            *moved,
            num_consts=num_consts + len(closed.consts),
            num_res=num_res,
            fwd_jaxpr=close(convert_constvars(closed.jaxpr)),
            fun_jaxpr_thunk=batched_thunk,
        )
        return outs, [0 if b else None for b in out_batched]

    def dce(self, used: list[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        if not any(used) and not observable(eqn.effects):
            return None
        params, num_res = eqn.params, eqn.params["num_res"]
        outvars = [v for v, u in zip(eqn.outvars, used, strict=True) if u]
        if not any(used[:num_res]):
            program, used_in = dce_closed(params["fun_jaxpr_thunk"](), used[num_res:])
            operands = eqn.invars[params["num_consts"] :]
            new_params = jit_parameters(program, "fun")
            primitive: Primitive = jit_p
        else:
            count = params["num_consts"]
            # All operands stay: the next elimination may choose the function itself.
            kept = [False] * count + [True] * (len(eqn.invars) - count)
            program, used_in = dce_closed(params["fwd_jaxpr"], used, kept)
            operands, primitive = eqn.invars, self
            new_params = dict(
                params,
                fwd_jaxpr=program,
                num_consts=sum(used_in[:count]),
                num_res=sum(used[:num_res]),
                fun_jaxpr_thunk=_selected(params["fun_jaxpr_thunk"], used[num_res:]),
            )
        return eqn.replace(
            invars=[x for x, u in zip(operands, used_in, strict=True) if u],
            outvars=outvars,
            primitive=primitive,
            params=new_params,
            effects=program.effects,
        )


def _selected(thunk: Callable[[], ClosedJaxpr], used: list[bool]) -> Callable[[], ClosedJaxpr]:
    return functools.cache(lambda: dce_closed(thunk(), used, True)[0])


remat_opt_p = RematOpt()


def cheap_primal(fun: Any, fwd: Any, owner: Any) -> Callable[..., Any]:
    """``fwd`` as one equation, of which ``remat`` keeps only ``fun`` where it can."""

    def wrapped(*args: Any) -> tuple[Any, Any]:
        leaves, in_tree = tree_flatten(args)
        avals = [typeof(x) for x in leaves]
        trees: list[Any] = []

        def flat_fwd(*flat: Any) -> list[Any]:
            out, residuals = fwd(*tree_unflatten(in_tree, flat))
            outs, out_tree = tree_flatten(out)
            res, res_tree = tree_flatten(residuals)
            trees.extend((out_tree, res_tree))
            return [*res, *outs]

        def flat_fun(*flat: Any) -> list[Any]:
            return tree_flatten(fun(*tree_unflatten(in_tree, flat)))[0]

        info = DebugInfo("custom_vjp", owner)
        closed = stage(flat_fwd, avals, info)
        out_tree, res_tree = trees
        results = remat_opt_p.bind(
            *closed.consts,
            *leaves,
            num_consts=len(closed.consts),
            num_res=res_tree.num_leaves,
            fwd_jaxpr=close(convert_constvars(closed.jaxpr)),
            fun_jaxpr_thunk=functools.cache(lambda: stage(flat_fun, avals, info)),
        )
        count = res_tree.num_leaves
        return tree_unflatten(out_tree, results[count:]), tree_unflatten(res_tree, results[:count])

    return wrapped
