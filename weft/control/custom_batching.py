"""Functions with a batching rule of their own: the ``custom_vmap`` decorator and primitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.base.traceback import api_boundary
from weft.control.custom_rules import CustomFunction, call_rule, name_of
from weft.control.initial_style import (
    mapped_at_front,
    separate_consts,
    stage_tree_function,
    tangents_of,
)
from weft.control.jit import used_axis_names
from weft.core.ad import Zero, instantiate
from weft.core.batching import AxisData, at_front
from weft.core.debug_info import DebugInfo
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.transforms.dce import close, convert_constvars
from weft.transforms.jvp import jvp, jvp_jaxpr
from weft.transforms.vmap import batch
from weft.tree.functions import tree_flatten, tree_structure, tree_unflatten


class CustomVmapCall(Primitive):
    """A call of a function that says itself what a batch of calls is.

    ``rule(axis_size, batched, args)`` takes flat operands with batch dimensions in front, and
    returns the results over the batch and which of them are batched.
    """

    name = "custom_vmap_call"
    multiple_results = True
    holes = {"transpose": "reverse mode differentiates the function itself"}

    def shape(self, *avals: Any, call: ClosedJaxpr, **params: Any) -> list[Any]:
        return call.out_avals

    def eqn_effects(self, avals: Any, params: Any) -> Any:
        return params["call"].effects

    def axis_names(self, params: Any) -> Any:
        return used_axis_names(params["call"].jaxpr)

    def callee(self, params: dict[str, Any]) -> ClosedJaxpr:
        return params["call"]

    @staticmethod
    def ref(*args: Any, call: ClosedJaxpr, **params: Any) -> list[Any]:
        return run(call.jaxpr, (), args)

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, call: ClosedJaxpr, rule: Any, **params: Any
    ) -> tuple[list[Any], list[int | None]]:
        moved = mapped_at_front(args, dims)
        outs, out_batched = rule(axis.size, [d is not None for d in dims], moved)
        return outs, [0 if b else None for b in out_batched]

    def jvp(
        self, primals: Any, tangents: Any, *, call: ClosedJaxpr, rule: Any, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        nonzero = [type(t) is not Zero for t in tangents]
        closed, out_nonzero = jvp_jaxpr(call, nonzero, False)
        given = [t for t in tangents if type(t) is not Zero]
        operands = [*closed.consts, *primals, *given]
        results = self.bind(
            *operands,
            call=close(convert_constvars(closed.jaxpr)),
            rule=JvpRule(rule, nonzero, out_nonzero, len(closed.consts)),
            in_tree=tree_structure(operands),
            out_tree=tree_structure(closed.out_avals, is_leaf=lambda x: type(x) is not list),
        )
        count = len(out_nonzero)
        return results[:count], tangents_of(results[:count], out_nonzero, results[count:])

    def partial_eval(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        call = params["call"]
        return eval_jaxpr(call.jaxpr, call.consts, *args)


class JvpRule:
    """The batching rule of a function's derivative: the derivative of its batching rule."""

    def __init__(
        self, rule: Any, nonzero: Sequence[bool], out_nonzero: Sequence[bool], skipped: int
    ) -> None:
        self.rule = rule
        self.nonzero, self.out_nonzero = nonzero, out_nonzero
        self.skipped = skipped

    def __call__(
        self, axis_size: int, batched: Sequence[bool], args: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        args, batched = args[self.skipped :], batched[self.skipped :]
        count = len(self.nonzero)
        primals, flags = list(args[:count]), list(batched[:count])
        given = iter(zip(args[count:], batched[count:], strict=True))
        pairs = [next(given) if nz else (None, False) for nz in self.nonzero]
        both = [p and t for p, (_, t) in zip(flags, pairs, strict=True)]
        if not any(both) and any([*flags, *(t for _, t in pairs)]):
            return self._over_halves(axis_size, primals, flags, pairs)
        tangents: list[Any] = []
        for i, (t, t_batched) in enumerate(pairs):
            if t is None:
                tangents.append(Zero.from_primal(primals[i]))
                continue
            if t_batched and not flags[i]:
                primals[i], flags[i] = at_front(primals[i], None, axis_size), True
            elif flags[i] and not t_batched:
                t = at_front(t, None, axis_size)
            tangents.append(t)
        return self._differentiated(axis_size, flags, primals, tangents)

    def _differentiated(
        self, axis_size: int, flags: Sequence[bool], primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        """The derivative of the batching rule, at operands that are batched with their tangents."""
        kept: list[bool] = []

        def over_batch(*values: Any) -> list[Any]:
            outs, out_batched = self.rule(axis_size, flags, list(values))
            kept.extend(out_batched)
            return outs

        outs, out_tangents = jvp(over_batch, primals, tangents)
        flagged = zip(out_tangents, kept, self.out_nonzero, strict=True)
        wanted = [(instantiate(t), b) for t, b, nz in flagged if nz]
        return [*outs, *(t for t, _ in wanted)], [*kept, *(b for _, b in wanted)]

    def _over_halves(
        self, axis_size: int, primals: Any, flags: Any, pairs: Any
    ) -> tuple[list[Any], list[bool]]:
        """The same where of operand and tangent one alone is batched.

        To the rule nothing is batched then: its derivative is, as that of any other function.
        """
        values = [*primals, *(t for t, _ in pairs if t is not None)]
        dims = [0 if b else None for b in (*flags, *(b for t, b in pairs if t is not None))]

        def one(*args: Any) -> list[Any]:
            given = iter(args[len(primals) :])
            tangents = [
                Zero.from_primal(p) if t is None else next(given)
                for p, (t, _) in zip(args, pairs, strict=False)
            ]
            none = [False] * len(primals)
            return self._differentiated(axis_size, none, args[: len(primals)], tangents)[0]

        outs, out_dims = batch(one, AxisData(None, axis_size), values, dims)
        moved = [
            x if d is None else at_front(x, d, axis_size)
            for x, d in zip(outs, out_dims, strict=True)
        ]
        return moved, [d is not None for d in out_dims]


custom_vmap_p = CustomVmapCall()


class UserRule:
    """A user's batching rule, over flat operands, with checks of what it returns."""

    def __init__(self, rule: Callable[..., Any], in_tree: Any, out_tree: Any, skipped: int) -> None:
        self.rule = rule
        self.in_tree, self.out_tree = in_tree, out_tree
        self.skipped = skipped

    def __repr__(self) -> str:
        return repr(self.rule)

    def __call__(
        self, axis_size: int, batched: Sequence[bool], args: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        flags = list(tree_unflatten(self.in_tree, batched[self.skipped :]))
        given = tree_unflatten(self.in_tree, args[self.skipped :])
        pair = call_rule(self.rule, axis_size, flags, *given)
        name = name_of(self.rule)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"the vmap rule {name} must return a pair of the results and which of them are"
                f" batched, but got {pair!r}"
            )
        outs, tree = tree_flatten(pair[0])
        out_batched, batched_tree = tree_flatten(pair[1])
        if tree != batched_tree:
            raise ValueError(
                f"the vmap rule {name} must return results and flags of one structure, but got"
                f" {tree} and {batched_tree}"
            )
        if tree != self.out_tree:
            raise ValueError(
                f"the vmap rule {name} must return results of the structure that the function"
                f" returns, {self.out_tree}, but got {tree}"
            )
        return outs, out_batched


class custom_vmap(CustomFunction):
    """A function whose batched version is given by a rule, set with ``def_vmap``.

    Args:
        fun: the function.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> @custom_vmap
        ... def f(x):
        ...     return x + 1
        >>> @f.def_vmap
        ... def rule(axis_size, in_batched, xs):
        ...     return xs + 10, in_batched[0]
        >>> f(jnp.zeros(2)), weft.vmap(f)(jnp.zeros(2))
        (Array([1., 1.], dtype=float32), Array([10., 10.], dtype=float32))
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        super().__init__(fun)
        self.vmap_rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule: ``rule(axis_size, in_batched, *args)`` gives results and batched flags."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = self._signature.resolve("custom_vmap", args, kwargs)
        if self.vmap_rule is None:
            raise AttributeError(
                f"no batching rule is defined for the custom_vmap function {name_of(self.fun)};"
                f" define one with @{name_of(self.fun)}.def_vmap"
            )
        leaves, in_tree = tree_flatten(args)
        info = DebugInfo("custom_vmap", self.fun)
        closed, out_tree = stage_tree_function(self.fun, in_tree, [typeof(x) for x in leaves], info)
        call, consts = separate_consts(closed)
        outs = custom_vmap_p.bind(
            *consts,
            *leaves,
            call=call,
            rule=UserRule(self.vmap_rule, in_tree, out_tree, len(consts)),
            in_tree=tree_structure((consts, args)),
            out_tree=out_tree,
        )
        return tree_unflatten(out_tree, outs)
