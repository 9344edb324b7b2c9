"""What functions with derivative rules of their own share: arguments, symbolic zeros, messages."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np

from weft.base import source
from weft.base.annotations import signature_of
from weft.base.errors import UnexpectedTracerError
from weft.base.functional import take_names
from weft.control.jit import used_axis_names
from weft.core.ad import Zero, zeros
from weft.core.avals import same_type, without_axes
from weft.core.batching import AxisData, match_axis
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive
from weft.core.staging import StagingTrace, literal_types
from weft.core.trace import box, state, typeof
from weft.transforms.vmap import batched, unbatched
from weft.tree.functions import tree_map, tree_unflatten


class SymbolicZero:
    """A tangent or cotangent known to be zero, as rules with ``symbolic_zeros=True`` see it.

    Args:
        aval: its type.

    Example:
        >>> from weft.custom_derivatives import zero_from_primal
        >>> zero_from_primal(1.5, symbolic_zeros=True).shape
        ()
    """

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return "SymbolicZero"

    def __getattr__(self, name: str) -> Any:
        if name == "aval":
            raise AttributeError(name)
        return getattr(self.aval, name)

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        return SymbolicZero(typeof(val).to_tangent_aval())


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """Return zero tangents for a tree of values.

    Args:
        val: the values.
        symbolic_zeros: return ``SymbolicZero`` instead of arrays.

    Returns:
        A tree of the same structure.

    Example:
        >>> zero_from_primal(1.5, symbolic_zeros=True)
        SymbolicZero
    """
    make = SymbolicZero if symbolic_zeros else zeros
    return tree_map(lambda x: make(typeof(x).to_tangent_aval()), val)


def to_rule(x: Any) -> Any:
    """A tangent as a rule sees it."""
    return SymbolicZero(x.aval) if type(x) is Zero else x


def from_rule(x: Any) -> Any:
    """A tangent that a rule returned."""
    return Zero(x.aval) if type(x) is SymbolicZero else x


def lift_scalars(values: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Operands of a staged call as its rule sees them: literals of the program become arrays."""
    return [
        lift_scalar(x, a) if type(x) in literal_types else x
        for x, a in zip(values, avals, strict=True)
    ]


def lift_scalar(x: Any, aval: Any) -> Any:
    """A Python number as an array, written into a program as the literal that it is."""
    trace = state.trace
    if type(trace) is StagingTrace:
        return trace.literal(x, aval)
    return box(np.asarray(x, aval.dtype), aval)


class AnyAxis:
    """Stands for the axis names of a Python function, which may speak to any of them.

    It may also close over what is mapped: an axis without a name (None) is among them too.
    """

    def __contains__(self, name: object) -> bool:
        return True


any_axis = AnyAxis()


def run_plainly(fun: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    """Results of a function with nothing traced; says what is wrong if it meets a tracer."""
    try:
        return list(fun(*args))
    except UnexpectedTracerError as error:
        hint = (
            "If a function with a custom rule closes over a value that is being differentiated or"
            " mapped, pass it as an argument instead."
        )
        text = str(error)
        raise UnexpectedTracerError(text if hint in text else f"{text}\n{hint}") from None


# --- arguments ------------------------------------------------------------------------------------


class CustomCall(Primitive):
    """A call of a function with rules of its own: ``fun``, and once it is staged ``call_jaxpr``."""

    exact = True
    multiple_results = True
    takes_refs = True

    def shape(self, *avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return call_jaxpr.out_avals

    def eqn_effects(self, avals: Any, params: Any) -> Any:
        return params["call_jaxpr"].effects

    def evaluate(self, args: Any, params: dict[str, Any]) -> list[Any]:
        return run_plainly(params["fun"], args)

    def callee(self, params: dict[str, Any]) -> ClosedJaxpr | None:
        return params.get("call_jaxpr")  # None before it is staged

    @staticmethod
    def ref(*args: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return run(call_jaxpr.jaxpr, (), args)

    def axis_names(self, params: Any) -> Any:
        closed = params.get("call_jaxpr")
        return any_axis if closed is None else used_axis_names(closed.jaxpr)


def name_of(fun: Any) -> str:
    """Return the name of a function for messages and printed programs.

    Args:
        fun: the function.

    Returns:
        The name.

    Example:
        >>> name_of(len)
        'len'
    """
    name = getattr(fun, "__name__", None)
    return name if name and isinstance(name, str) else type(fun).__name__


def named(flat: Any, fun: Any) -> Any:
    """``flat``, printed under the name of ``fun``."""
    flat.__name__ = name_of(fun)
    return flat


def call_rule(rule: Callable[..., Any], *args: Any) -> Any:
    """The result of a user's rule. While a program is interpreted, what the rule binds stands at
    its own lines, not at that of the call which it is for."""
    info, names = state.source, state.name_stack
    if info is None:
        return rule(*args)
    state.source, state.name_stack = None, info.name_stack.inside(names)
    try:
        return source.on_behalf_of(info.replace(name_stack=source.NO_NAMES), rule, *args)
    finally:
        state.source, state.name_stack = info, names


class Signature:
    """Makes positional arguments of those of a call, by the signature of the function."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        self.signature: inspect.Signature | None = None
        if not isinstance(fun, functools.partial):
            try:
                self.signature = signature_of(fun)
            except (TypeError, ValueError):
                pass
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [] if self.signature is None else list(self.signature.parameters.values())
        self.positional = [p.name for p in parameters if p.kind in kinds]
        # With so many positional arguments and no others, nothing is left to resolve.
        self.complete = len(parameters) if len(self.positional) == len(parameters) else -1

    def resolve(self, what: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments of a call, all of them positional, defaults filled in."""
        if not kwargs and len(args) == self.complete:
            return args
        try:
            if self.signature is None:
                if kwargs:
                    raise TypeError(f"its signature is not known, keywords given: {list(kwargs)}")
                return args
            bound = self.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            keyword_only = [k for k in bound.kwargs if k in kwargs]
            if keyword_only:
                raise TypeError(f"keyword-only arguments have no position: {keyword_only}")
        except TypeError as error:
            raise TypeError(
                f"the arguments of the {what} function {name_of(self.fun)} must have positions:"
                f" {error}"
            ) from None
        return bound.args

    def positions(self, names: Sequence[str]) -> list[int]:
        """Positions of the parameters of the given names."""
        given = (names,) if isinstance(names, str) else names
        for name in given:
            if name not in self.positional:
                raise ValueError(
                    f"nondiff_argnames names {name!r}, but {name_of(self.fun)} has the positional"
                    f" parameters {', '.join(self.positional) or 'none'}"
                )
        return [self.positional.index(name) for name in given]


P = ParamSpec("P")
R = TypeVar("R")


class CustomFunction(Generic[P, R]):
    """A function with rules of the user's; for the rest it is like the function."""

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def __init__(self, fun: Callable[P, R]) -> None:
        take_names(self, fun)
        self.fun = fun
        self._signature = Signature(fun)

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)


def static_positions(signature: Signature, argnums: Any, argnames: Any) -> tuple[int, ...]:
    """The positions that ``nondiff_argnums`` and ``nondiff_argnames`` speak of."""
    nums = {argnums} if isinstance(argnums, int) else set(argnums)
    if argnames:
        nums.update(signature.positions(argnames))
    return tuple(sorted(nums))


def with_static(fun: Callable[..., Any], static: tuple[int, ...], args: Sequence[Any]) -> Any:
    """``fun`` as a function of the other arguments, those at ``static`` held fixed."""

    # the others are not kept: they may be tracers, and the function outlives their trace
    fixed, count = {i: args[i] for i in static}, len(args)

    def of_rest(*rest: Any) -> Any:
        given = iter(rest)
        return fun(*(fixed[i] if i in fixed else next(given) for i in range(count)))

    return of_rest


# --- messages -------------------------------------------------------------------------------------


def types_in(tree: Any, avals: Sequence[Any]) -> str:
    """The container with types in place of leaves."""
    return str(tree_unflatten(tree, [_Bare(a.str_short()) for a in avals]))


class _Bare(str):
    """Text that containers print without quotation marks."""

    __slots__ = ()
    __repr__ = str.__str__


def same_types(avals: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two lists of abstract values agree up to weak types and axes of shard_map."""
    return len(avals) == len(others) and all(
        a is b or same_type(without_axes(a), without_axes(b))
        for a, b in zip(avals, others, strict=True)
    )


def check_same_output(rule: str, fun: str, found: Any, expected: Any) -> None:
    """Raise TypeError unless what the rule gives as the result is what the function gives."""
    (tree, avals), (expected_tree, expected_avals) = found, expected
    if tree != expected_tree:
        raise TypeError(
            f"{rule} must return what {fun} returns as the first element of its pair, but the "
            f"containers (pytree structures) differ: the rule has {types_in(tree, avals)}, the "
            "function"
            f" {types_in(expected_tree, expected_avals)}"
        )
    if not same_types(avals, expected_avals):
        raise TypeError(
            f"{rule} must return what {fun} returns as the first element of its pair, but the "
            f"shapes/dtypes differ: the rule has {types_in(tree, avals)}, the function"
            f" {types_in(expected_tree, expected_avals)}"
        )


# --- batching -------------------------------------------------------------------------------------


class OutputDims:
    """Batch dimensions of results, decided by whichever of function and rule runs first."""

    def __init__(self, axis: AxisData, keep_unmapped: bool) -> None:
        self.axis = axis
        self.keep_unmapped = keep_unmapped
        self.dims: list[int | None] | None = None

    def settle(self, outs: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
        """``outs`` with their batch dimensions as decided."""
        if self.dims is None:
            self.dims = [d if d is not None or self.keep_unmapped else 0 for d in dims]
        return [self.move(x, d, wanted) for x, d, wanted in zip(outs, dims, self.dims, strict=True)]

    def move(self, x: Any, dim: int | None, wanted: int | None) -> Any:
        if type(x) is SymbolicZero:
            return SymbolicZero(batched(x.aval, self.axis.size, wanted))
        return match_axis(self.axis.size, dim, wanted, x)


def unbatch_zeros(values: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], list[Any]]:
    """Values and dimensions for a batched call; symbolic zeros become those of one element."""
    out: list[Any] = []
    out_dims: list[int | None] = []
    for x, d in zip(values, dims, strict=True):
        symbolic = type(x) is SymbolicZero
        out.append(SymbolicZero(unbatched(x.aval, d)) if symbolic else x)
        out_dims.append(None if symbolic else d)
    return out, out_dims
