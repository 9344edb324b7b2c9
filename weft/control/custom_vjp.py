"""Functions with a reverse-mode rule of their own: the ``custom_vjp`` decorator and primitives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.base.errors import UnexpectedTracerError
from weft.base.lazy import Late
from weft.base.traceback import api_boundary
from weft.control.custom_jvp import call_function, stage_call
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
    lift_scalars,
    name_of,
    named,
    static_positions,
    to_rule,
    unbatch_zeros,
    with_static,
)
from weft.control.remat_opt import cheap_primal
from weft.core.ad import Zero, instantiate, zeros
from weft.core.avals import ShapedArray, same_type, varying_of, without_axes
from weft.core.batching import AxisData, match_axis
from weft.core.debug_info import DebugInfo
from weft.core.effects import observable
from weft.core.jaxpr import JaxprEqn
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.trace import Tracer, box, state, typeof
from weft.prims.arithmetic import mul
from weft.prims.families import const
from weft.transforms.dce import dce_closed
from weft.transforms.masks import Masked
from weft.transforms.vmap import batch, batched
from weft.tree.functions import (
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_unflatten,
    treedef_children,
)
from weft.tree.keys import keystr

# needed where a cotangent has a mask
live = Late("weft.transforms.live")


class CustomVJPException(Exception):
    """A custom_vjp function was differentiated by something it closes over."""

    def __init__(self) -> None:
        super().__init__(
            "a custom_vjp function was differentiated with respect to a closed-over value, of"
            " which its rule knows nothing; pass the value to the function as an argument and let"
            " the bwd rule return a cotangent for it"
        )


class CustomVJPCall(CustomCall):
    """A call of a function whose reverse-mode derivative is given by two rules.

    Bound with functions of flat values: ``fun(*args)``; ``fwd(args, perturbed)`` that returns
    results, residuals and a context; ``bwd(context, residuals, cotangents)`` that returns the
    cotangents of all arguments. Staged with ``call_jaxpr`` in place of ``fun``; its first
    ``num_consts`` inputs are what the function closes over.
    """

    name = "custom_vjp_call"
    holes = {"transpose": "reverse mode goes through custom_lin, which jvp binds"}

    def stage(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        staged, consts = stage_call(params["fun"], args)
        new_params = {
            "call_jaxpr": staged,
            "fwd_jaxpr_thunk": params["fwd"],
            "bwd": params["bwd"],
            "num_consts": len(consts),
            "out_trees": params["out_trees"],
            "symbolic_zeros": params["symbolic_zeros"],
        }
        return trace.emit(self, [*consts, *args], new_params)

    def get_bind_params(self, params: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        closed, skipped = params["call_jaxpr"], params["num_consts"]
        fwd_rule, bwd_rule = params["fwd_jaxpr_thunk"], params["bwd"]
        bwd = bwd_rule
        in_avals = closed.in_avals[skipped:]

        def fwd(args: Any, perturbed: Any) -> Any:
            if any(perturbed[:skipped]):
                raise CustomVJPException
            return fwd_rule(lift_scalars(args[skipped:], in_avals), perturbed[skipped:])

        if skipped:
            const_cts = [Zero(a.to_cotangent_aval()) for a in closed.in_avals[:skipped]]

            def bwd(context: Any, residuals: Any, cts: Any) -> list[Any]:
                return [*const_cts, *bwd_rule(context, residuals, cts)]

        return [], {
            "fun": call_function(closed),
            "fwd": named(fwd, fwd_rule),
            "bwd": named(bwd, bwd_rule) if skipped else bwd,
            "out_trees": params["out_trees"],
            "symbolic_zeros": params["symbolic_zeros"],
        }

    def jvp(
        self, primals: Any, tangents: Any, *, fwd: Any, bwd: Any, symbolic_zeros: bool, **_: Any
    ) -> tuple[list[Any], list[Any]]:
        # what a rule does to references is its own: cotangents do not flow through them
        in_zeros = [
            type(t) is Zero or typeof(x).is_ref for x, t in zip(primals, tangents, strict=True)
        ]
        perturbed = [
            not z and dtypes.issubdtype(typeof(x).dtype, np.inexact)
            for x, z in zip(primals, in_zeros, strict=True)
        ]
        outs, residuals, context = fwd(primals, perturbed)
        out_avals = [typeof(x).to_tangent_aval() for x in outs]
        given = [t for t, z in zip(tangents, in_zeros, strict=True) if not z]
        out_tangents = custom_lin_p.bind(
            *residuals,
            *given,
            num_res=len(residuals),
            bwd=named(functools.partial(bwd, context), bwd),
            out_avals=out_avals,
            symbolic_zeros=symbolic_zeros,
            in_zeros=in_zeros,
        )
        return outs, [
            Zero(a) if a.dtype == dtypes.float0 else t
            for t, a in zip(out_tangents, out_avals, strict=True)
        ]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, fun: Any, fwd: Any, bwd: Any, **params: Any
    ) -> tuple[list[Any], list[int | None]]:
        call = _BatchedCall(axis, dims, fun, fwd, bwd)
        call.run.debug_info = getattr(fun, "debug_info", None)  # type: ignore[attr-defined]
        outs = self.bind(
            *args, fun=call.run, fwd=named(call.fwd, fwd), bwd=named(call.bwd, bwd), **params
        )
        return outs, call.decided.dims or []

    def dce(self, used: list[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        if not any(used) and not observable(eqn.effects):
            return None
        if all(used):
            return eqn
        params = eqn.params
        fwd_rule, bwd_rule = params["fwd_jaxpr_thunk"], params["bwd"]
        out_avals = params["call_jaxpr"].out_avals
        empty = SymbolicZero if params["symbolic_zeros"] else zeros

        def fwd(args: Any, perturbed: Any) -> Any:
            outs, residuals, context = fwd_rule(args, perturbed)
            return [x for x, u in zip(outs, used, strict=True) if u], residuals, context

        def bwd(context: Any, residuals: Any, cts: Any) -> list[Any]:
            given = iter(cts)
            full = [
                next(given) if u else empty(a.to_cotangent_aval())
                for a, u in zip(out_avals, used, strict=True)
            ]
            return bwd_rule(context, residuals, full)

        smaller, _ = dce_closed(params["call_jaxpr"], used, True)
        rules = {"fwd_jaxpr_thunk": named(fwd, fwd_rule), "bwd": named(bwd, bwd_rule)}
        return eqn.replace(
            outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
            params=dict(params, call_jaxpr=smaller, **rules),
            effects=smaller.effects,
        )


class _BatchedCall:
    """The function and rules of a call, over a batch."""

    def __init__(self, axis: AxisData, dims: Any, fun: Any, fwd: Any, bwd: Any) -> None:
        self.axis, self.dims = axis, dims
        decided = self.decided = OutputDims(axis, all(d is None for d in dims))

        def batched_fun(*values: Any) -> list[Any]:
            return decided.settle(*batch(fun, axis, values, dims))

        def batched_fwd(values: Any, perturbed: Any) -> Any:
            kept: list[Any] = []

            def flat(*args: Any) -> list[Any]:
                outs, residuals, context = fwd(args, perturbed)
                kept.extend((len(outs), context))
                return [*outs, *residuals]

            results, result_dims = batch(flat, axis, values, dims)
            count, context = kept
            outs = decided.settle(results[:count], result_dims[:count])
            return outs, results[count:], (context, result_dims[count:])

        def batched_bwd(context: Any, residuals: Any, cts: Any) -> list[Any]:
            inner, residual_dims = context
            given_dims = [*residual_dims, *(decided.dims or ())]
            given, given_dims = unbatch_zeros([*residuals, *cts], given_dims)
            count = len(residuals)

            def flat(*args: Any) -> list[Any]:
                return bwd(inner, args[:count], args[count:])

            outs, out_dims = batch(flat, axis, given, given_dims)
            return [self._cotangent(*each) for each in zip(outs, out_dims, dims, strict=True)]

        self.run, self.fwd, self.bwd = batched_fun, batched_fwd, batched_bwd

    def _cotangent(self, ct: Any, dim: int | None, wanted: int | None) -> Any:
        """The cotangent of an operand over a batch; the sum over it if the operand has none."""
        size = self.axis.size
        if type(ct) in (Zero, SymbolicZero):
            return Zero(batched(ct.aval, size, wanted))
        if wanted is not None:
            return match_axis(size, dim, wanted, ct)
        if dim is not None:
            return lookup("reduce_sum").bind(ct, axes=(dim,), out_sharding=None)
        if all(d is None for d in self.decided.dims or ()):
            return ct  # nothing is mapped: one call stands for the whole batch
        return mul(ct, const(ct, size))


class CustomLin(Primitive):
    """The linear map of a custom_vjp function: it can only be transposed, by the bwd rule."""

    name, masks = "custom_lin", "call"
    host = "it exists during differentiation only, never in compiled programs"
    multiple_results = True
    takes_refs = True
    holes = {
        "ref": "a custom_vjp function has no forward-mode derivative to compute",
        "jvp": "it appears only in linear programs, which are transposed, not differentiated",
        "batch": "a custom_vjp function has no forward-mode derivative to batch",
    }

    def shape(self, *avals: Any, out_avals: Any, **params: Any) -> list[Any]:
        return list(out_avals)

    def evaluate(self, args: Any, params: dict[str, Any]) -> Any:
        raise forward_mode_error(params["bwd"])

    @staticmethod
    def ref(*args: Any, bwd: Any, **params: Any) -> Any:
        raise forward_mode_error(bwd)

    def jvp(self, primals: Any, tangents: Any, *, bwd: Any, **params: Any) -> Any:
        raise forward_mode_error(bwd)

    def batch(self, axis: AxisData, args: Any, dims: Any, *, bwd: Any, **params: Any) -> Any:
        raise forward_mode_error(bwd)

    def transpose(
        self, cts: Any, *args: Any, num_res: int, bwd: Any, in_zeros: Any, **params: Any
    ) -> list[Any]:
        as_seen = to_rule if params["symbolic_zeros"] else instantiate
        given = [_as_array(ct if type(ct) is Masked else as_seen(ct)) for ct in cts]
        if any(type(ct) is Masked for ct in given):
            found = live.with_masks(lambda cts: bwd(args[:num_res], cts), given)
        else:
            found = bwd(args[:num_res], given)
        wanted = [from_rule(ct) for ct, z in zip(found, in_zeros, strict=True) if not z]
        return [None] * num_res + wanted


def _as_array(ct: Any) -> Any:
    """A cotangent as an array: ``grad`` starts from a plain number."""
    if type(ct) is Masked:
        return Masked(_as_array(ct.value), ct.live, ct.dirty)
    if isinstance(ct, (int, float, complex)):
        aval = typeof(ct)
        return box(np.asarray(ct, aval.dtype), aval)
    return ct


def forward_mode_error(bwd: Any) -> TypeError:
    return TypeError(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function (its bwd rule is"
        f" {name_of(bwd)}); define it with custom_jvp, which serves both modes, or use reverse"
        " mode: grad, vjp, jacrev"
    )


custom_vjp_call_p = CustomVJPCall()
custom_lin_p = CustomLin()


# --- the decorator --------------------------------------------------------------------------------


class CustomVJPPrimal:
    """What a fwd rule with ``symbolic_zeros=True`` receives for each leaf of its arguments.

    It is a leaf of trees itself.

    Args:
        value: the value of the leaf.
        perturbed: whether it is differentiated.

    Example:
        >>> from weft.custom_derivatives import CustomVJPPrimal
        >>> CustomVJPPrimal(1.0, True).value
        1.0
    """

    __slots__ = ("value", "perturbed")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed!r})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """Return the values in a tree of ``CustomVJPPrimal``.

    Args:
        tree: the tree.

    Returns:
        A tree of values.

    Example:
        >>> from weft.custom_derivatives import CustomVJPPrimal, custom_vjp_primal_tree_values
        >>> custom_vjp_primal_tree_values([CustomVJPPrimal(1.0, True)])
        [1.0]
    """

    def value(leaf: Any) -> Any:
        if type(leaf) is not CustomVJPPrimal:
            raise TypeError(f"expected leaves of type CustomVJPPrimal, got {type(leaf).__name__}")
        return leaf.value

    return tree_map(value, tree)


class custom_vjp(CustomFunction[P, R]):
    """A function with a reverse-mode derivative of your own, set with ``defvjp``.

    Args:
        fun: Function of arrays and trees of arrays.
        nondiff_argnums: Positions of arguments that aren't differentiated, such as functions and
            flags.
        nondiff_argnames: Names of such arguments.

    Forward mode (``jvp``, ``jacfwd``) raises an error; for both modes use ``custom_jvp``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> @weft.custom_vjp
        ... def clipped(x):
        ...     return x
        >>> def fwd(x):
        ...     return x, None
        >>> def bwd(residuals, ct):
        ...     return (jnp.clip(ct, -1.0, 1.0),)
        >>> clipped.defvjp(fwd, bwd)
        >>> float(weft.grad(lambda x: 10.0 * clipped(x))(3.0))
        1.0
    """

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        super().__init__(fun)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False
        self.optimize_remat = False
        self.nondiff_argnums = static_positions(self._signature, nondiff_argnums, nondiff_argnames)

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the forward and the backward rule.

        Args:
            fwd: Function ``fwd(*args)`` that returns the result and residuals for ``bwd``.
            bwd: Function ``bwd(residuals, cotangent)`` that returns a tuple of cotangents, one for
                each argument, None for zero. Arguments named by ``nondiff_argnums`` come first,
                each on its own, and get no cotangent.
            symbolic_zeros: If true, ``fwd`` gets objects that say which arguments are
                differentiated, and ``bwd`` zero cotangents as ``SymbolicZero``.
            optimize_remat: If true, ``fun`` runs instead of ``fwd`` where nobody needs the
                residuals, such as in the forward pass under ``checkpoint``. Can't be combined with
                ``symbolic_zeros``.

        Example:
            >>> import weft
            >>> double = weft.custom_vjp(lambda x: x)
            >>> double.defvjp(lambda x: (x, None), lambda residuals, ct: (2 * ct,))
            >>> float(weft.grad(double)(1.0))
            2.0
        """
        if symbolic_zeros and optimize_remat:
            raise NotImplementedError(
                "optimize_remat=True cannot be combined with symbolic_zeros=True; choose one"
            )
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros = symbolic_zeros
        self.optimize_remat = optimize_remat

    @api_boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        fun, fwd, bwd, static = self.fun, self.fwd, self.bwd, self.nondiff_argnums
        if fwd is None or bwd is None:
            raise AttributeError(
                f"no VJP rule is defined for the custom_vjp function {name_of(fun)}; define one"
                f" with {name_of(fun)}.defvjp(fwd, bwd)"
            )
        given: tuple[Any, ...] = self._signature.resolve("custom_vjp", args, kwargs)
        if static:
            for i in static:
                _check_no_tracer(fun, i, given[i])
            bwd = functools.partial(bwd, *(given[i] for i in static))
            partial_fun, fwd = with_static(fun, static, given), with_static(fwd, static, given)
            given = tuple(x for i, x in enumerate(given) if i not in static)
        else:
            partial_fun = fun
        if self.optimize_remat:
            fwd = cheap_primal(partial_fun, fwd, fun)
        leaves, in_tree = tree_flatten(given)
        avals = [typeof(x) for x in leaves]
        if knobs.thread.mutable_array_checks:
            _refuse_repeated_refs(fun, leaves, avals)
        if knobs.thread.custom_vjp3:
            _refuse_closed_over(fun, partial_fun, in_tree, leaves)
        call = _FlatCall(self, partial_fun, fwd, bwd, in_tree, avals)
        outs = custom_vjp_call_p.bind(
            *leaves,
            fun=call,
            fwd=named(functools.partial(call.forward), self.fwd),
            bwd=named(functools.partial(call.backward), self.bwd),
            out_trees=lambda: call.out_tree,
            symbolic_zeros=self.symbolic_zeros,
        )
        return tree_unflatten(call.out_tree, outs)


def _check_no_tracer(fun: Any, position: int, value: Any) -> None:
    if any(isinstance(leaf, Tracer) for leaf in tree_leaves(value)):
        raise UnexpectedTracerError(
            f"argument {position} of the custom_vjp function {name_of(fun)} is named by"
            " nondiff_argnums, but a traced array was passed there; nondiff_argnums is for "
            "arguments that are not arrays, such as functions: pass the array as an ordinary"
            " argument and let the bwd rule return None for it"
        )


def _refuse_repeated_refs(fun: Any, leaves: Any, avals: Any) -> None:
    refs = [x for x, aval in zip(leaves, avals, strict=True) if aval.is_ref]
    if len({id(x) for x in refs}) < len(refs):
        raise ValueError(
            f"one mutable reference was passed twice to the custom_vjp function {name_of(fun)};"
            " a write through one would not be visible through the other; pass it once"
        )


def _refuse_returned_refs(what: str, avals: Any) -> None:
    for aval in avals:
        if aval.is_ref:
            raise ValueError(
                f"{what} returned a mutable reference of type {aval.str_short()}; references "
                "cannot be returned; return the value, ref[...]"
            )


def _refuse_closed_over(fun: Any, partial_fun: Any, in_tree: Any, leaves: Any) -> None:
    """Raise if the function closes over tracers; the knob ``custom_vjp3`` asks for it."""

    def flat(*values: Any) -> list[Any]:
        return tree_leaves(partial_fun(*tree_unflatten(in_tree, values)))

    _, consts = stage_call(flat, leaves)
    for value in consts:
        if isinstance(value, Tracer):
            raise UnexpectedTracerError(
                f"the custom_vjp function {name_of(fun)} closes over a traced array of type"
                f" {value.aval.str_short()}, which custom_vjp3 forbids; pass it as an argument"
            )


class _FlatCall:
    """One call: the function and its rules over flat values, with checks of what they return."""

    def __init__(
        self, owner: custom_vjp, fun: Any, fwd: Any, bwd: Any, in_tree: Any, in_avals: Any
    ) -> None:
        self.owner = owner
        self.fun, self.fwd, self.bwd = fun, fwd, bwd
        self.in_tree, self.in_avals = in_tree, in_avals
        self.out_tree: Any = None
        self.out_avals: list[Any] | None = None

    @property
    def debug_info(self) -> DebugInfo:
        return DebugInfo("custom_vjp", self.owner.fun)

    def __call__(self, *flat: Any) -> list[Any]:
        outs, self.out_tree = tree_flatten(self.fun(*tree_unflatten(self.in_tree, flat)))
        self.out_avals = [typeof(x) for x in outs]
        _refuse_returned_refs(f"the custom_vjp function {name_of(self.owner.fun)}", self.out_avals)
        return outs

    def forward(self, flat: Any, perturbed: Any) -> tuple[list[Any], list[Any], Any]:
        fun = name_of(self.owner.fun)
        rule = f"the VJP fwd rule {name_of(self.owner.fwd)} of {fun}"
        if self.owner.symbolic_zeros:
            flat = [CustomVJPPrimal(x, p) for x, p in zip(flat, perturbed, strict=True)]
        pair = call_rule(self.fwd, *tree_unflatten(self.in_tree, flat))
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"{rule} must return a pair (list or tuple of length two) of the result and the"
                f" residuals for the bwd rule, but got {pair}"
            )
        outs, out_tree = tree_flatten(pair[0])
        residuals, res_tree = tree_flatten(pair[1])
        avals = [typeof(x) for x in outs]
        _refuse_returned_refs(rule, avals)
        if self.out_avals is not None:
            check_same_output(rule, fun, (out_tree, avals), (self.out_tree, self.out_avals))
        self.out_tree = out_tree
        return outs, residuals, (out_tree, res_tree)

    def backward(self, context: Any, residuals: Any, cts: Any) -> list[Any]:
        out_tree, res_tree = context
        given = tree_unflatten(res_tree, residuals), tree_unflatten(out_tree, cts)
        found = call_rule(self.bwd, *given)
        rule = f"the VJP bwd rule {name_of(self.owner.bwd)} of {name_of(self.owner.fun)}"
        flat = _flatten_cotangents(rule, found, self.in_tree)
        return [
            _checked_cotangent(rule, self.in_tree, i, aval, ct)
            for i, (aval, ct) in enumerate(zip(self.in_avals, flat, strict=True))
        ]


def _flatten_cotangents(rule: str, found: Any, in_tree: Any) -> list[Any]:
    """The cotangents that a bwd rule returned, one for each leaf, None where it said so."""
    if isinstance(found, list) and len(found) == len(treedef_children(in_tree)):
        found = tuple(found)
    marks = tree_unflatten(in_tree, [object()] * in_tree.num_leaves)
    flat: list[Any] = []

    def take(ct: Any, mark: Any) -> None:
        count = len(tree_leaves(mark))
        flat.extend([ct] * count)

    try:
        if not isinstance(found, tuple):
            raise ValueError
        leaves, structure = tree_flatten(found, is_leaf=lambda x: x is None)
        for leaf, mark in zip(leaves, structure.flatten_up_to(marks), strict=True):
            take(leaf, mark)
    except ValueError:
        raise TypeError(
            f"{rule} must return a tuple with one cotangent for each argument, in containers"
            " (pytrees) like those of the arguments, but it returned the structure"
            f" {tree_flatten(found)[1]} for arguments of structure {in_tree}; return None for an"
            " argument whose cotangent is zero"
        ) from None
    return flat


def _checked_cotangent(rule: str, in_tree: Any, i: int, aval: Any, ct: Any) -> Any:
    expected = aval.to_cotangent_aval()
    if getattr(expected, "dtype", None) == dtypes.float0:
        return Zero(expected)
    if ct is None:
        # zeros, not nothing: rules behind this one run as they would for any other cotangent
        return instantiate(Zero(expected)) if type(expected) is ShapedArray else Zero(expected)
    found = ct.aval if type(ct) is SymbolicZero else typeof(ct)
    extra = varying_of(found) - varying_of(aval)
    if extra and state.manual.issuperset(extra):
        # what all devices share gets the sum of what each of them has to say
        ct = lookup("psum").bind(ct, axes=tuple(sorted(extra, key=str)), axis_index_groups=None)
        found = typeof(ct)
    expected, found = without_axes(expected), without_axes(found)
    unchecked = knobs.thread.disable_bwd_checks
    if not unchecked and not _acceptable(expected, found, type(ct) is SymbolicZero):
        marks = tree_unflatten(in_tree, range(in_tree.num_leaves))
        path = keystr(tree_flatten_with_path(marks)[0][i][0])
        raise ValueError(
            f"{rule} must return cotangents of the types of the arguments, but at output{path} it"
            f" returned {found.str_short()} for an argument of type {aval.str_short()}"
        )
    return Zero(found) if type(ct) is SymbolicZero else ct


def _acceptable(expected: Any, found: Any, exactly: bool) -> bool:
    if same_type(expected, found):
        return True
    if exactly or type(expected) is not ShapedArray or type(found) is not ShapedArray:
        return False
    # Rules often compute in another precision than their arguments have; that is let through.
    return expected.shape == found.shape and dtypes.issubdtype(expected.dtype, np.inexact)
