"""The public face of differentiation: grad, jvp, vjp, linearize, linear_transpose."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, Unpack, overload

import numpy as np

from weft import dtypes
from weft.api.arguments import (
    argument_names,
    check_array_leaves,
    check_callable,
    check_results,
    checked_positions,
    chosen_names,
    debug_info,
    split_argnums,
)
from weft.api.jit import jit
from weft.api.pullback import Pullback
from weft.base.functional import wraps
from weft.base.lazy import Late
from weft.base.traceback import api_boundary
from weft.core.ad import UndefPrimal, Zero, instantiate_array
from weft.core.array import Array, ArrayLike
from weft.core.debug_info import DebugInfo
from weft.core.jaxpr import ClosedJaxpr
from weft.core.shape_dtype import abstractify
from weft.core.staging import stage
from weft.core.trace import TRANSPOSE, Tracer, typeof
from weft.transforms.jvp import jvp as jvp_flat
from weft.transforms.linearize import Linearized
from weft.transforms.linearize import linearize as linearize_flat
from weft.transforms.transpose import backward_pass
from weft.tree.compare import equality_errors_treedef
from weft.tree.functions import tree_flatten, tree_unflatten
from weft.tree.partial import Partial

if TYPE_CHECKING:
    from weft.api.function_types import Function, GradOptions, Opaque

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
T = TypeVar("T")
N = TypeVar("N", bound=ArrayLike)

# needed with mutable references only
wanted = Late("weft.api.wanted")
without_refs = Late("weft.transforms.discharge")


def flatten_arguments(fun: Any, args: Any) -> tuple[list[Any], Any]:
    """Leaves and tree of positional arguments; TypeError names a leaf that is not an array."""
    leaves, tree = tree_flatten(tuple(args))
    names = lambda: argument_names(fun, args, {})
    check_array_leaves(leaves, fun, names, "grad", lambda: (tuple(args), {}))
    return leaves, tree


def flat_with_aux(
    fun: Callable[..., Any], in_tree: Any, has_aux: bool, what: str
) -> tuple[Callable[..., list[Any]], dict[str, Any]]:
    """A function of flat arguments returning flat results, then flat auxiliary results."""
    found: dict[str, Any] = {}

    def flat(*leaves: Any) -> list[Any]:
        result = fun(*tree_unflatten(in_tree, leaves))
        if not has_aux:
            outs, found["out_tree"] = tree_flatten(result)
            check_results(outs, fun, what)
            found["n"] = len(outs)
            return outs
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"with has_aux=True the function must return a pair (output, aux), got"
                f" {type(result).__name__}"
            )
        outs, found["out_tree"] = tree_flatten(result[0])
        check_results(outs, fun, what)
        found["aux"], found["aux_tree"] = tree_flatten(result[1])
        found["n"] = len(outs)
        return [*outs, *(x for x in found["aux"] if isinstance(x, Tracer))]

    return flat, found


def rebuild_aux(found: dict[str, Any], values: Sequence[Any]) -> Any:
    """Auxiliary results with traced leaves replaced by their values; others as returned."""
    given = iter(values)
    leaves = [next(given) if isinstance(x, Tracer) else x for x in found["aux"]]
    return tree_unflatten(found["aux_tree"], leaves)


def _name_of(fun: Callable[..., Any], args: Any, number: int) -> str:
    """What a leaf of the arguments is called."""
    return argument_names(fun, args, {})[number]


@overload
def jvp(
    fun: Callable[..., ArrayLike], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Array, Array]: ...
@overload
def jvp(fun: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[..., tuple[R, A]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[True],
) -> tuple[R, R, A]: ...
@overload
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]: ...
@api_boundary
def jvp(
    fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False
) -> tuple[Any, ...]:
    """Return a function's value and its derivative along tangents, by forward mode.

    Args:
        fun: Function of arrays or trees of arrays that returns the same.
        primals: Tuple or list of the arguments at which to evaluate.
        tangents: Tuple or list with the tangent of each argument: same tree and shapes, same dtypes
            (float0 for integers).
        has_aux: If true, ``fun`` returns a pair of the result and auxiliary data that isn't
            differentiated.

    Returns:
        Pair of the result and its tangent; with ``has_aux`` a triple, with the auxiliary data last.

    Example:
        >>> import weft
        >>> y, t = weft.jvp(lambda x: x * x, (3.0,), (1.0,))
        >>> float(y), float(t)
        (9.0, 6.0)
    """
    check_callable(fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            "jvp takes primals and tangents as tuples or lists of arguments, got"
            f" {type(primals).__name__} and {type(tangents).__name__}; write jvp(f, (x,), (dx,))"
        )
    leaves, in_tree = flatten_arguments(fun, primals)
    tangent_leaves, tangent_tree = tree_flatten(tuple(tangents))
    if in_tree != tangent_tree:
        raise TypeError(
            "jvp needs primals and tangents of the same tree structure, got"
            f" {in_tree} and {tangent_tree}"
        )
    for i, (p, t) in enumerate(zip(leaves, tangent_leaves, strict=True)):
        _check_tangent(p, t, functools.partial(_name_of, fun, primals, i))
    flat, found = flat_with_aux(fun, in_tree, has_aux, "jvp")
    symbolic = [_symbolic_tangent(p, t) for p, t in zip(leaves, tangent_leaves, strict=True)]
    outs, out_tangents = jvp_flat(flat, leaves, symbolic)
    n = found["n"]
    primal_out = tree_unflatten(found["out_tree"], outs[:n])
    shown = map(_shown_tangent, outs[:n], out_tangents[:n])
    tangent_out = tree_unflatten(found["out_tree"], shown)
    if has_aux:
        return primal_out, tangent_out, rebuild_aux(found, outs[n:])
    return primal_out, tangent_out


def _shown_tangent(primal: Any, tangent: Any) -> Any:
    """A tangent as the user sees it: an array, or a number as given where the primal is one."""
    if isinstance(primal, Array) or type(tangent) is Zero:
        return instantiate_array(tangent)
    return tangent


def _shown_cotangent(ct: Any, seed: Any = None) -> Any:
    """A cotangent as the user sees it: a number that a rule returned or the user gave as it is."""
    return instantiate_array(ct) if type(ct) is Zero or ct is seed else ct


def _check_tangent(p: Any, t: Any, name: Callable[[], str]) -> None:
    primal, tangent = typeof(p), typeof(t)
    expected = primal.to_tangent_aval()
    if primal.is_high:
        if expected != tangent:
            raise TypeError(
                f"jvp needs for the argument {name()} of type {primal.str_short()} a tangent of"
                f" type {expected.str_short()}, got {tangent.str_short()}"
            )
        return
    if expected.dtype != tangent.dtype:
        raise TypeError(
            f"jvp needs for the argument {name()} of dtype {primal.dtype} a tangent of dtype"
            f" {_dtype_name(expected.dtype)}, got {tangent.dtype}"
        )
    if primal.shape != tangent.shape:
        raise ValueError(
            f"jvp needs for the argument {name()} of shape {primal.shape} a tangent of that shape,"
            f" got {tangent.shape}"
        )


def _dtype_name(dtype: Any) -> str:
    return "float0" if dtype == dtypes.float0 else str(dtype)


def _symbolic_tangent(p: Any, t: Any) -> Any:
    aval = typeof(p).to_tangent_aval()
    return Zero(aval) if getattr(aval, "dtype", None) == dtypes.float0 else t


class _LinearFunction:
    """What a linearised function needs besides its residuals; part of the tree structure."""

    def __init__(self, linear: Linearized, in_tree: Any, out_tree: Any, name: str) -> None:
        self.jaxpr = linear.program.jaxpr
        self.in_avals, self.out_avals = linear.in_avals, linear.out_avals
        self.nonzero_outs = linear.nonzero_outs
        # the residuals are left out: a tree structure may outlive the trace they belong to
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.name = name

    def bind(self, residuals: Sequence[Any]) -> Linearized:
        program = ClosedJaxpr(self.jaxpr, residuals)
        return Linearized(program, self.in_avals, self.out_avals, self.nonzero_outs)


class _Push(_LinearFunction):
    @api_boundary
    def __call__(self, residuals: Any, *tangents: Any) -> Any:
        leaves, tree = tree_flatten(tuple(tangents))
        if tree != self.in_tree:
            raise TypeError(
                "a linearized function takes tangents with the structure of the primals,"
                f" {self.in_tree}, got {tree}"
            )
        for expected, t in zip(self.in_avals, leaves, strict=True):
            got = typeof(t)
            if got.shape != expected.shape or got.dtype != expected.dtype:
                raise ValueError(
                    "a linearized function takes tangents of the type of the primals:"
                    f" expected {expected.str_short()}, got {got.str_short()}"
                )
        return tree_unflatten(self.out_tree, self.bind(residuals).push(leaves))


class _Pull(_LinearFunction):
    sources: list[int | None]  # which argument a residual is; filled by Pullback.of

    @api_boundary
    def __call__(self, residuals: Any, *cotangents: Any) -> Any:
        leaves = self.check(cotangents)
        if any(aval.is_ref for aval in self.in_avals):
            raise ValueError(
                f"{self.name} was differentiated with respect to a mutable reference, so its "
                "cotangent goes into a reference too; write f_vjp.with_refs(...)(cotangent)"
            )
        cts = self.bind(residuals).pull(leaves)
        return tree_unflatten(self.in_tree, map(_shown_cotangent, cts))

    @api_boundary
    def into(self, wants: Any, residuals: Any, *cotangents: Any) -> Any:
        """The same, with cotangents added to references."""
        leaves = self.check(cotangents)
        return wanted.pull_into(self.bind(residuals), self.in_tree, wants, leaves)

    def check(self, cotangents: Any) -> list[Any]:
        """The leaves of the cotangent of the output."""
        if len(cotangents) != 1:
            raise TypeError(
                f"the function returned by vjp takes one argument, the cotangent of the output of"
                f" {self.name}, got {len(cotangents)}"
            )
        leaves, tree = tree_flatten(cotangents[0])
        if tree != self.out_tree:
            raise ValueError(_structure_message(self.name, self.out_tree, tree))
        for expected, ct in zip(self.out_avals, leaves, strict=True):
            got = typeof(ct)
            void = expected.dtype == dtypes.float0  # of an integer: whatever is given is not read
            if got.shape != expected.shape or (got.dtype != expected.dtype and not void):
                raise ValueError(
                    f"the cotangent given to a vjp function has type {got.str_short()}, but the"
                    f" output of {self.name} asks for {expected.str_short()}"
                )
        return leaves


def _structure_message(name: str, expected: Any, got: Any) -> str:
    details = "".join(
        f"\n  at {path or 'the top'}: {one} in the output, {two} in the cotangent, so {why}"
        for path, one, two, why in _readable(equality_errors_treedef(expected, got))
    )
    return (
        f"the cotangent given to a vjp function must have the tree structure of the output of"
        f" {name}: expected {expected}, got {got}{details}"
    )


def _readable(differences: Any) -> Any:
    for path, one, two, why in differences:
        yield "".join(map(str, path)), one, two, why


def _linear_function(kind: Any, linear: Linearized, in_tree: Any, out_tree: Any, fun: Any) -> Any:
    return kind(linear, in_tree, out_tree, DebugInfo("vjp", fun).func_src_info)


def _linearize(fun: Any, primals: Any, has_aux: bool, what: str) -> tuple[Any, Any, Any, Any]:
    """Results and linear map of a tree function at its primals."""
    check_callable(fun)
    leaves, in_tree = flatten_arguments(fun, primals)
    flat, found = flat_with_aux(fun, in_tree, has_aux, what)
    outs, linear = linearize_flat(flat, leaves)
    n = found["n"]
    aux = None
    if has_aux:
        aux = rebuild_aux(found, outs[n:])
        linear = _drop_outputs(linear, n)
    return outs[:n], linear, (in_tree, found["out_tree"]), aux


def _drop_outputs(linear: Linearized, n: int) -> Linearized:
    """The linear map of the first ``n`` outputs alone."""
    kept = sum(linear.nonzero_outs[:n])
    jaxpr = linear.program.jaxpr
    smaller = jaxpr.replace(outvars=jaxpr.outvars[:kept])
    program = ClosedJaxpr(smaller, linear.program.consts)
    return Linearized(program, linear.in_avals, linear.out_avals[:n], linear.nonzero_outs[:n])


@overload
def vjp(
    fun: Callable[..., ArrayLike], *primals: Any, reduce_axes: Any = ()
) -> tuple[Array, Pullback]: ...
@overload
def vjp(fun: Callable[..., R], *primals: Any, reduce_axes: Any = ()) -> tuple[R, Pullback]: ...
@overload
def vjp(
    fun: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True], reduce_axes: Any = ()
) -> tuple[R, Pullback, A]: ...
@overload
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()
) -> tuple[Any, ...]: ...
@api_boundary
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()
) -> tuple[Any, ...]:
    """Return a function's value and its vector-Jacobian product, by reverse mode.

    Args:
        fun: Function of arrays or trees of arrays that returns the same.
        *primals: Arguments at which to evaluate.
        has_aux: If true, ``fun`` returns a pair of the result and auxiliary data that isn't
            differentiated.
        reduce_axes: Must be empty; sum over mapped axes with ``lax.psum``.

    Returns:
        Pair of the result and a function from a cotangent of the result to a tuple of cotangents,
        one for each argument; with ``has_aux`` a triple, with the auxiliary data last.

    Example:
        >>> import weft
        >>> y, pull = weft.vjp(lambda x: x * x, 3.0)
        >>> float(pull(1.0)[0])
        6.0
    """
    _refuse_reduce_axes("vjp", reduce_axes)
    outs, linear, (in_tree, out_tree), aux = _linearize(fun, primals, has_aux, "vjp")
    result = tree_unflatten(out_tree, outs)
    function = _linear_function(_Pull, linear, in_tree, out_tree, fun)
    pull = Pullback.of(function, tree_flatten(primals)[0], linear.program.consts)
    return (result, pull, aux) if has_aux else (result, pull)


@overload
def linearize(
    fun: Callable[..., ArrayLike], *primals: Any
) -> tuple[Array, Callable[..., Array]]: ...
@overload
def linearize(fun: Callable[..., R], *primals: Any) -> tuple[R, Callable[..., R]]: ...
@overload
def linearize(
    fun: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True]
) -> tuple[R, Callable[..., R], A]: ...
@overload
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]: ...
@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return a function's value and its linear approximation at a point.

    Args:
        fun: Function of arrays or trees of arrays that returns the same.
        *primals: Arguments at which to linearise.
        has_aux: If true, ``fun`` returns a pair of the result and auxiliary data.

    Returns:
        Pair of the result and a function from tangents of the arguments to the tangent of the
        result, which can be called many times without evaluating ``fun`` again; with ``has_aux`` a
        triple.

    Example:
        >>> import weft
        >>> y, push = weft.linearize(lambda x: x * x, 3.0)
        >>> float(push(2.0))
        12.0
    """
    outs, linear, (in_tree, out_tree), aux = _linearize(fun, primals, has_aux, "linearize")
    result = tree_unflatten(out_tree, outs)
    function = _linear_function(_Push, linear, in_tree, out_tree, fun)
    push = Partial(function, list(linear.program.consts))
    return (result, push, aux) if has_aux else (result, push)


@api_boundary
def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()
) -> Callable[[Any], tuple[Any, ...]]:
    """Return the transpose of a linear function.

    Args:
        fun: Linear function of arrays or trees of arrays.
        *primals: Arrays or ``ShapeDtypeStruct`` that give the types of the arguments; values don't
            matter.
        reduce_axes: Must be empty; sum over mapped axes with ``lax.psum``.

    Returns:
        Function from a cotangent of the result to a tuple of cotangents, one for each argument.

    Example:
        >>> import weft
        >>> float(weft.linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)[0])
        6.0
    """
    check_callable(fun)
    _refuse_reduce_axes("linear_transpose", reduce_axes)
    leaves, in_tree = tree_flatten(tuple(primals))
    avals = [abstractify(x) for x in leaves]
    flat, found = flat_with_aux(fun, in_tree, False, "linear_transpose")
    closed = stage(flat, avals, debug_info("linear_transpose", fun, primals, {}))
    if any(effect.on_refs for effect in closed.effects):
        closed = without_refs.discharge_closed(closed).program
    _check_transposable([*avals, *closed.out_avals])
    function = _Transposed(closed.jaxpr, avals, in_tree, found["out_tree"])
    return Partial(function, list(closed.consts))


def _refuse_reduce_axes(what: str, axes: Any) -> None:
    if axes:
        raise NotImplementedError(
            f"{what} no longer takes reduce_axes; sum over mapped axes with lax.psum instead"
        )


def _check_transposable(avals: Sequence[Any]) -> None:
    """Raise unless all are numbers of a field, or all integers."""
    kinds = [
        next((k for k in (np.inexact, np.integer) if dtypes.issubdtype(a.dtype, k)), None)
        for a in avals
        if a.dtype != dtypes.float0
    ]
    if None in kinds or len(set(kinds)) > 1:
        raise TypeError(
            "linear_transpose takes functions with real or complex inputs and outputs, or with "
            f"integers only, got {', '.join(a.str_short() for a in avals)}"
        )


class _Transposed:
    """The transpose of a linear program, but for the values that it closes over."""

    def __init__(self, jaxpr: Any, avals: Sequence[Any], in_tree: Any, out_tree: Any) -> None:
        self.jaxpr = jaxpr
        self.avals = avals
        self.in_tree = in_tree
        self.out_tree = out_tree

    @api_boundary
    def __call__(self, consts: Sequence[Any], cotangent: Any) -> Any:
        cts, tree = tree_flatten(cotangent)
        if tree != self.out_tree:
            raise TypeError(
                f"the transposed function takes a cotangent of structure {self.out_tree}, got"
                f" {tree}"
            )
        for v, ct in zip(self.jaxpr.outvars, cts, strict=True):
            if typeof(ct).shape != v.aval.shape or typeof(ct).dtype != v.aval.dtype:
                raise TypeError(
                    f"the transposed function takes {v.aval.str_short()}, got"
                    f" {typeof(ct).str_short()}"
                )
        undefined = [UndefPrimal(a) for a in self.avals]
        outs = backward_pass(self.jaxpr, consts, undefined, cts, named=TRANSPOSE)
        return tree_unflatten(self.in_tree, map(_cotangent_array, outs, self.avals))


def _cotangent_array(ct: Any, aval: Any) -> Any:
    """A cotangent as the user sees it; of an integer that is not used it is 0, not float0."""
    integer = dtypes.issubdtype(aval.dtype, np.integer)
    return _shown_cotangent(Zero(aval) if integer and type(ct) is Zero else ct)


# --- gradients ------------------------------------------------------------------------------------


def _check_inputs(what: str, holomorphic: bool, allow_int: bool, x: Any, name: Any) -> None:
    if typeof(x).is_ref:
        raise ValueError(
            f"{what} cannot give the gradient of a mutable reference, the argument {name()}, as a"
            " value; use vjp and with_refs, or choose other arguments with argnums"
        )
    if typeof(x).is_high:
        return  # its type says what tangents it has
    dtype = typeof(x).dtype
    if holomorphic and not dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            f"{what} with holomorphic=True takes complex inputs, got {dtype} for the argument"
            f" {name()}; convert it"
        )
    if dtypes.issubdtype(dtype, dtypes.extended):
        if not allow_int:
            raise TypeError(
                f"{what} takes real or complex inputs, got {dtype} for the argument {name()}"
            )
    elif not dtypes.issubdtype(dtype, np.inexact):
        if not allow_int:
            raise TypeError(
                f"{what} takes real or complex inputs, got {dtype} for the argument {name()};"
                " convert it to a floating dtype, choose other arguments with argnums, or pass"
                " allow_int=True"
            )


def _check_output(what: str, holomorphic: bool, x: Any) -> None:
    dtype = typeof(x).dtype
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(f"{what} with holomorphic=True takes complex outputs, got {dtype}")
    elif dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            f"{what} takes functions with real output, got {dtype}; pass holomorphic=True for a"
            " holomorphic function, or take the real part or the absolute value"
        )
    elif not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(
            f"{what} takes functions with real output, got {dtype}; use vjp for functions with "
            "integer output"
        )


@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Function[P, tuple[R, Any]]: ...
@overload
def value_and_grad(
    fun: Callable[Concatenate[Opaque, P], R],
    argnums: Literal[0] = 0,
    has_aux: bool = False,
    **options: Unpack[GradOptions],
) -> Function[Concatenate[Any, P], tuple[R, Any]]: ...
@overload
def value_and_grad(
    fun: Callable[Concatenate[N, P], R],
    argnums: Literal[0] = 0,
    has_aux: bool = False,
    **options: Unpack[GradOptions],
) -> Function[Concatenate[N, P], tuple[R, Array]]: ...
@overload
def value_and_grad(
    fun: Callable[Concatenate[T, P], R],
    argnums: Literal[0] = 0,
    has_aux: bool = False,
    **options: Unpack[GradOptions],
) -> Function[Concatenate[T, P], tuple[R, T]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: tuple[int, ...] | list[int],
    has_aux: bool = False,
    **options: Unpack[GradOptions],
) -> Function[P, tuple[R, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Function[P, tuple[R, Any]]: ...
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Any:
    """Return a function that computes the value of ``fun`` and its gradient in one pass.

    Args:
        fun: Function that returns a real scalar; its differentiated arguments are arrays or trees
            of arrays.
        argnums: Position, or sequence of positions, of the arguments to differentiate with respect
            to.
        has_aux: If true, ``fun`` returns a pair of the scalar and auxiliary data that isn't
            differentiated.
        holomorphic: Your promise that ``fun`` is holomorphic: arguments and result are then
            complex.
        allow_int: If true, integer arguments are allowed; their gradients are zeros of dtype
            float0.
        reduce_axes: Must be empty; sum over mapped axes with ``lax.psum``.

    Returns:
        Function with the arguments of ``fun`` that returns (value, gradient), or ((value, aux),
        gradient) with ``has_aux``.

    Example:
        >>> import weft
        >>> v, g = weft.value_and_grad(lambda x: x ** 2)(3.0)
        >>> float(v), float(g)
        (9.0, 6.0)
    """
    check_callable(fun)
    argnums = checked_positions("value_and_grad", "argnums", argnums)
    _refuse_reduce_axes("grad", reduce_axes)

    @wraps(fun, "The value and the gradient of")
    @api_boundary
    def value_and_grad_of(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen, positions = split_argnums(fun, argnums, args, "grad")
        leaves = tree_flatten(chosen)[0]
        names = functools.partial(chosen_names, fun, args, positions)
        check_array_leaves(leaves, fun, names, "grad", lambda: (tuple(chosen), {}))
        for i, x in enumerate(leaves):
            name = lambda i=i: names()[i]
            _check_inputs("grad", holomorphic, allow_int, x, name)

        @wraps(fun)
        def with_kwargs(*xs: Any) -> Any:
            return of_chosen(*xs, **kwargs)

        outs, linear, (in_tree, out_tree), aux = _linearize(with_kwargs, chosen, has_aux, "grad")
        value = tree_unflatten(out_tree, outs)
        _check_scalar_output(value, outs)
        _check_output("grad", holomorphic, value)
        aval = typeof(value)
        weak = aval.weak_type
        one = dtypes.scalar_type_of(aval.dtype)(1) if weak else aval.dtype.type(1)
        cts = linear.pull([one])
        grads = tree_unflatten(in_tree, [_shown_cotangent(ct, one) for ct in cts])
        result = grads[0] if isinstance(argnums, int) else grads
        return ((value, aux), result) if has_aux else (value, result)

    return value_and_grad_of


def _check_scalar_output(value: Any, outs: Sequence[Any]) -> None:
    if len(outs) != 1 or outs[0] is not value:
        raise TypeError(
            f"grad takes functions with scalar output, got a {type(value).__name__}; use "
            "has_aux=True"
            " to return more than the scalar, or jacrev"
        )
    shape = np.shape(value)
    if shape:
        raise TypeError(
            f"grad takes functions with scalar output, got shape {shape}; reduce it, for example"
            " with .sum(), or use jacrev"
        )


@overload
def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Function[P, Any]: ...
@overload
def grad(
    fun: Callable[Concatenate[Opaque, P], Any],
    argnums: Literal[0] = 0,
    **options: Unpack[GradOptions],
) -> Function[Concatenate[Any, P], Any]: ...
@overload
def grad(
    fun: Callable[Concatenate[N, P], Any], argnums: Literal[0] = 0, **options: Unpack[GradOptions]
) -> Function[Concatenate[N, P], Array]: ...
@overload
def grad(
    fun: Callable[Concatenate[T, P], Any], argnums: Literal[0] = 0, **options: Unpack[GradOptions]
) -> Function[Concatenate[T, P], T]: ...
@overload
def grad(
    fun: Callable[Concatenate[Opaque, P], tuple[Any, A]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    **options: Unpack[GradOptions],
) -> Function[Concatenate[Any, P], tuple[Any, A]]: ...
@overload
def grad(
    fun: Callable[Concatenate[N, P], tuple[Any, A]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    **options: Unpack[GradOptions],
) -> Function[Concatenate[N, P], tuple[Array, A]]: ...
@overload
def grad(
    fun: Callable[Concatenate[T, P], tuple[Any, A]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    **options: Unpack[GradOptions],
) -> Function[Concatenate[T, P], tuple[T, A]]: ...
@overload
def grad(
    fun: Callable[P, Any], argnums: tuple[int, ...] | list[int], **options: Unpack[GradOptions]
) -> Function[P, tuple[Any, ...]]: ...
@overload
def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Function[P, Any]: ...
def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Any:
    """Return a function that computes the gradient of ``fun``, by reverse mode.

    Args:
        fun: Function that returns a real scalar; its differentiated arguments are arrays or trees
            of arrays.
        argnums: Position, or sequence of positions, of the arguments to differentiate with respect
            to.
        has_aux: If true, ``fun`` returns a pair of the scalar and auxiliary data that isn't
            differentiated.
        holomorphic: Your promise that ``fun`` is holomorphic: arguments and result are then
            complex.
        allow_int: If true, integer arguments are allowed; their gradients are zeros of dtype
            float0.
        reduce_axes: Must be empty; sum over mapped axes with ``lax.psum``.

    Returns:
        Function with the arguments of ``fun`` that returns a tree like the argument, or a tuple of
        them for several ``argnums``; with ``has_aux`` a pair of it and the auxiliary data.

    Example:
        >>> import weft
        >>> float(weft.grad(lambda x: x ** 3)(2.0))
        12.0
    """
    argnums = checked_positions("grad", "argnums", argnums)
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @wraps(fun, "The gradient of")
    @api_boundary
    def grad_of(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_of


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a forward and a backward function: results with a pullback, and the pullback applied.

    Args:
        fun: Function of arrays or trees of arrays.
        argnums: Position, or sequence of positions, of the arguments to differentiate with respect
            to.
        has_aux: If true, ``fun`` returns a pair of the result and auxiliary data.
        jitted: If true, both functions are compiled with ``jit``.

    Returns:
        Pair ``(fwd, bwd)``: ``fwd(*args)`` returns (result, pullback), ``bwd(pullback, cotangent)``
        the gradients.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> fwd, bwd = weft.fwd_and_bwd(jnp.square, 0)
        >>> y, pull = fwd(3.0)
        >>> float(y), float(bwd(pull, 1.0))
        (9.0, 6.0)
    """

    def fwd(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen, _ = split_argnums(fun, argnums, args, "fwd_and_bwd")
        return vjp(functools.partial(of_chosen, **kwargs), *chosen, has_aux=has_aux)

    def bwd(pull: Any, cotangent: Any) -> Any:
        grads = pull(cotangent)
        return grads[0] if isinstance(argnums, int) else grads

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
