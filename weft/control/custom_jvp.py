"""Functions with a forward-mode rule of their own: the ``custom_jvp`` decorator and primitive."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from weft import dtypes
from weft.base.traceback import api_boundary, eager_form, named_as
from weft.control.custom_rules import (
    CustomCall,
    CustomFunction,
    OutputDims,
    P,
    R,
    SymbolicZero,
    call_rule,
    check_same_output,
    from_rule,
    lift_scalar,
    lift_scalars,
    name_of,
    named,
    same_types,
    static_positions,
    to_rule,
    unbatch_zeros,
    with_static,
)
from weft.core.ad import Zero, add_tangents, instantiate, zeros
from weft.core.batching import AxisData
from weft.core.debug_info import DebugInfo
from weft.core.effects import observable
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, jaxpr_as_fun
from weft.core.registry import lookup
from weft.core.staging import literal_types, stage
from weft.core.trace import Tracer, eval_trace, state, typeof
from weft.transforms.dce import close, convert_constvars, dce_closed
from weft.transforms.transpose import backward_pass
from weft.transforms.vmap import batch
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten


class CustomJVPCall(CustomCall):
    """A call of a function whose derivative is given by a rule.

    Bound with the functions ``fun`` and ``jvp`` of flat arguments; staged with the program
    ``call_jaxpr`` in place of ``fun``, whose first ``num_consts`` inputs the rule does not see.
    """

    name, masks = "custom_jvp_call", "call"

    def stage(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        staged, consts = stage_call(params["fun"], args)
        new_params = {
            "call_jaxpr": staged,
            "jvp_jaxpr_fun": params["jvp"],
            "num_consts": len(consts),
            "symbolic_zeros": params["symbolic_zeros"],
        }
        return trace.emit(self, [*consts, *args], new_params)

    def get_bind_params(self, params: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        rule, skipped = params["jvp_jaxpr_fun"], params["num_consts"]
        in_avals = params["call_jaxpr"].in_avals[skipped:]

        def jvp(*args: Any) -> Any:
            half = len(args) // 2
            primals = lift_scalars(args[skipped:half], in_avals)
            return rule(*primals, *args[half + skipped :])

        fun = call_function(params["call_jaxpr"])
        symbolic = params["symbolic_zeros"]
        return [], {"fun": fun, "jvp": named(jvp, rule), "symbolic_zeros": symbolic}

    def jvp(
        self, primals: Any, tangents: Any, *, fun: Any, jvp: Any, symbolic_zeros: bool
    ) -> tuple[list[Any], list[Any]]:
        given = map(to_rule if symbolic_zeros else _instantiated, tangents)
        outs = jvp(*primals, *given)
        half = len(outs) // 2
        return outs[:half], [_tangent(t) for t in outs[half:]]

    def transpose(self, cts: Any, *args: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return backward_pass(call_jaxpr.jaxpr, call_jaxpr.consts, args, cts)

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        fun: Any,
        jvp: Any,
        symbolic_zeros: bool,
    ) -> tuple[list[Any], list[int | None]]:
        decided = OutputDims(axis, all(d is None for d in dims))

        def batched_fun(*values: Any) -> list[Any]:
            return decided.settle(*batch(fun, axis, values, dims))

        def batched_jvp(*values: Any) -> list[Any]:
            given, given_dims = unbatch_zeros(values, [*dims, *dims])
            outs, out_dims = batch(jvp, axis, given, given_dims)
            half = len(outs) // 2
            return [
                *decided.settle(outs[:half], out_dims[:half]),
                *decided.settle(outs[half:], out_dims[half:]),
            ]

        batched_fun.debug_info = getattr(fun, "debug_info", None)  # type: ignore[attr-defined]
        outs = self.bind(
            *args, fun=batched_fun, jvp=named(batched_jvp, jvp), symbolic_zeros=symbolic_zeros
        )
        return outs, decided.dims or []

    def partial_eval(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        # Only linear functions are written down by partial evaluation: the rule has done its work.
        return list(params["fun"](*args))

    def dce(self, used: list[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        if not any(used) and not observable(eqn.effects):
            return None
        if all(used):
            return eqn
        params = eqn.params
        rule = params["jvp_jaxpr_fun"]

        def jvp(*args: Any) -> list[Any]:
            return [x for x, u in zip(rule(*args), [*used, *used], strict=True) if u]

        smaller, _ = dce_closed(params["call_jaxpr"], used, True)
        return eqn.replace(
            outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
            params=dict(params, call_jaxpr=smaller, jvp_jaxpr_fun=named(jvp, rule)),
            effects=smaller.effects,
        )


def _instantiated(t: Any) -> Any:
    """A tangent as an array; zeros of a number's type are one, too."""
    t = instantiate(t)
    return lift_scalar(t, typeof(t)) if type(t) in literal_types else t


def _tangent(t: Any) -> Any:
    t = from_rule(t)
    if type(t) is not Zero and getattr(t, "dtype", None) == dtypes.float0:
        return Zero(typeof(t))
    return t


def stage_call(fun: Any, args: Sequence[Any]) -> tuple[ClosedJaxpr, list[Any]]:
    """The program of a function, what it closes over as leading inputs, and these values."""
    closed = stage(fun, [typeof(x) for x in args], getattr(fun, "debug_info", None))
    jaxpr = convert_constvars(closed.jaxpr)
    jaxpr.debug_info = closed.debug_info
    return close(jaxpr), closed.consts


def call_function(closed: ClosedJaxpr) -> Any:
    """A function that binds the program's equations, under the name of the user's function."""
    fun = jaxpr_as_fun(closed)
    fun.debug_info = closed.debug_info
    return fun


custom_jvp_call_p = CustomJVPCall()


# --- the decorator --------------------------------------------------------------------------------


class custom_jvp(CustomFunction[P, R]):
    """A function with a derivative rule of your own, set with ``defjvp`` or ``defjvps``.

    Args:
        fun: Function of arrays and trees of arrays.
        nondiff_argnums: Positions of arguments that aren't differentiated, such as functions and
            flags; the rule gets them first.
        nondiff_argnames: Names of such arguments.

    A JVP rule serves forward and reverse mode, and can be differentiated again.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> @weft.custom_jvp
        ... def f(x):
        ...     return jnp.abs(x)
        >>> @f.defjvp
        ... def f_jvp(primals, tangents):
        ...     return f(*primals), 2.0 * tangents[0]
        >>> float(weft.grad(f)(3.0))
        2.0
    """

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        super().__init__(fun)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False
        self._inside: Any = self  # what is called while nothing is traced; this object: not known
        self.nondiff_argnums = static_positions(self._signature, nondiff_argnums, nondiff_argnames)

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the derivative rule of all arguments together.

        Args:
            jvp: Function ``jvp(primals, tangents)`` that returns the result and its tangent, which
                depends linearly on ``tangents``. Arguments named by ``nondiff_argnums`` come first,
                each on its own.
            symbolic_zeros: If true, tangents that are known to be zero are given as
                ``SymbolicZero`` objects.

        Returns:
            ``jvp``, so that it can be used as a decorator.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> relu = weft.custom_jvp(lambda x: jnp.maximum(x, 0))
            >>> @relu.defjvp
            ... def relu_jvp(primals, tangents):
            ...     return relu(*primals), tangents[0] * (primals[0] > 0)
            >>> float(weft.grad(relu)(0.0))
            0.0
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a derivative rule for each argument.

        Args:
            *jvps: For each argument a function ``jvp(tangent, result, *primals)`` that returns its
                part of the tangent, or None for zero.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> @weft.custom_jvp
            ... def product(x, y):
            ...     return x * y
            >>> product.defjvps(lambda dx, out, x, y: dx * y, None)
            >>> [float(g) for g in weft.grad(product, argnums=(0, 1))(2.0, 5.0)]
            [5.0, 0.0]
        """
        if self.nondiff_argnums:
            raise TypeError("defjvps cannot be used with nondiff_argnums; write one rule: defjvp")

        def jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
            out = cast(Any, self)(*primals)
            none = tree_map(lambda x: zeros(typeof(x).to_tangent_aval()), out)
            parts = [
                none if rule is None else rule(t, out, *primals)
                for rule, t in zip(jvps, tangents, strict=False)
            ]
            return out, tree_map(_sum, out, *parts)

        self.defjvp(jvp)

    @api_boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if state.trace is eval_trace:
            inside = self._inside
            if inside is self:
                inside = self._inside = eager_form(self._call_as(self.fun))
            if inside is not None:
                return inside(*args, **kwargs)
        return self._call(*args, **kwargs)

    def _call_as(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """The call, as a function that goes by the name of ``fun``."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(*args, **kwargs)

        return named_as(fun, call)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        fun, rule, static = self.fun, self.jvp, self.nondiff_argnums
        if rule is None:
            raise AttributeError(
                f"no JVP rule is defined for the custom_jvp function {name_of(fun)}; define one"
                f" with @{name_of(fun)}.defjvp"
            )
        args = self._signature.resolve("custom_jvp", args, kwargs)
        if static:
            args = tuple(_stopped(x) if i in static else x for i, x in enumerate(args))
            partial_fun = with_static(fun, static, args)
            rule = functools.partial(rule, *(args[i] for i in static))
            args = tuple(x for i, x in enumerate(args) if i not in static)
        else:
            partial_fun = fun
        leaves, in_tree = tree_flatten(args)
        flat = _FlatCall(fun, self.jvp, partial_fun, rule, in_tree)
        outs = custom_jvp_call_p.bind(
            *leaves,
            fun=flat,
            jvp=named(functools.partial(flat.differentiate), self.jvp),
            symbolic_zeros=self.symbolic_zeros,
        )
        return tree_unflatten(flat.out_tree, outs)


def _sum(_: Any, *tangents: Any) -> Any:
    return functools.reduce(add_tangents, tangents)


def _stopped(x: Any) -> Any:
    """``x`` without derivative."""
    stop = lookup("stop_gradient")
    return tree_map(lambda leaf: stop.bind(leaf) if isinstance(leaf, Tracer) else leaf, x)


class _FlatCall:
    """One call: the function and its rule over flat arguments, with checks of what they return."""

    def __init__(self, fun: Any, jvp: Any, partial_fun: Any, rule: Any, in_tree: Any) -> None:
        self.fun, self.jvp = fun, jvp
        self.partial_fun, self.rule = partial_fun, rule
        self.in_tree = in_tree
        self.out_tree: Any = None
        self.out_avals: list[Any] | None = None

    @property
    def debug_info(self) -> DebugInfo:
        return DebugInfo("custom_jvp", self.fun)

    def __call__(self, *flat: Any) -> list[Any]:
        outs, self.out_tree = tree_flatten(self.partial_fun(*tree_unflatten(self.in_tree, flat)))
        self.out_avals = [typeof(x) for x in outs]
        return outs

    def differentiate(self, *flat: Any) -> list[Any]:
        half = len(flat) // 2
        primals = tree_unflatten(self.in_tree, flat[:half])
        tangents = tree_unflatten(self.in_tree, flat[half:])
        pair = call_rule(self.rule, primals, tangents)
        fun, rule = name_of(self.fun), f"the JVP rule {name_of(self.jvp)}"
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"{rule} of {fun} must return a pair (list or tuple of length two) of the result"
                f" and its tangent, but got {pair}"
            )
        outs, out_tree = tree_flatten(pair[0])
        out_tangents, tangent_tree = tree_flatten(pair[1])
        if out_tree != tangent_tree:
            raise TypeError(
                f"{rule} of {fun} must return a result and a tangent of equal container (pytree)"
                f" structures, but got {out_tree} and {tangent_tree}"
            )
        avals = [typeof(x) for x in outs]
        if self.out_avals is not None:
            check_same_output(
                f"{rule} of {fun}", fun, (out_tree, avals), (self.out_tree, self.out_avals)
            )
        _check_tangents(f"{rule} of {fun}", avals, out_tangents)
        self.out_tree = out_tree
        return [*outs, *out_tangents]


def _check_tangents(rule: str, avals: Sequence[Any], tangents: Sequence[Any]) -> None:
    for aval, t in zip(avals, tangents, strict=True):
        expected = aval.to_tangent_aval()
        found = t.aval if type(t) is SymbolicZero else typeof(t)
        if not same_types([expected], [found]):
            raise TypeError(
                f"{rule} must return tangents with the shapes and dtypes of the results: expected "
                f"{expected.str_short()} (the tangent type of {aval.str_short()}) but got"
                f" {found.str_short()}"
            )
