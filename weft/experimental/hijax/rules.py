"""Operations on trees of arrays whose derivative and batching are given by methods."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from weft.api.batching import vmap
from weft.base.knobs import context_key
from weft.control.custom_vjp import custom_vjp
from weft.control.jit import numpy_consts
from weft.core.ad import Zero, add_tangents, instantiate, is_undef
from weft.core.batching import AxisData
from weft.core.high import is_high
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive
from weft.core.staging import StagingTrace, stage
from weft.core.trace import state, typeof
from weft.experimental.hijax.primitives import HiPrimitive
from weft.transforms.jvp import JVPTrace, jvp
from weft.transforms.partial_eval import PartialEvalTrace
from weft.transforms.vmap import batched
from weft.tree.functions import tree_flatten, tree_leaves, tree_map, tree_unflatten


class Accumulator:
    """Where a reverse-mode rule puts the cotangent of an operand."""

    __slots__ = ("aval", "total")

    def __init__(self, aval: Any) -> None:
        self.aval = aval
        self.total: Any = Zero(aval)

    def accum(self, cotangent: Any) -> None:
        """Add to the cotangent."""
        self.total = add_tangents(self.total, cotangent)


class VJPHiPrimitive:
    """An operation with its rules, one object for each set of types and parameters.

    A subclass's ``__init__`` sets ``in_avals``, ``out_aval`` and ``params`` and then calls this
    one's; the parameters become attributes. ``expand`` says what it computes.

    >>> import weft, weft.numpy as jnp
    >>> class Clipped(VJPHiPrimitive):
    ...     def __init__(self, aval):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
    ...         super().__init__()
    ...     def expand(self, x):
    ...         return jnp.clip(x, -1, 1)
    ...     def vjp_fwd(self, nonzero, x):
    ...         return self(x), None
    ...     def vjp_bwd_retval(self, residuals, cotangent):
    ...         return (cotangent,)  # as if it were not clipped
    >>> float(weft.grad(lambda x: Clipped(weft.typeof(x))(x))(3.0))
    1.0
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Hashable]
    effects: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(
                    f"{type(self).__name__}.__init__ must set self.{name} before it calls"
                    " super().__init__()"
                )
        if _defines(self, "vjp_bwd") and _defines(self, "vjp_bwd_retval"):
            raise AttributeError(
                f"{type(self).__name__} defines vjp_bwd and vjp_bwd_retval; it needs one of them"
            )
        self.in_avals_flat, self.in_tree = tree_flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = tree_flatten(self.out_aval)
        self.__dict__.update(self.params)
        self.check(*self.in_avals)

    def _undefined(self, what: str, name: str) -> NotImplementedError:
        return NotImplementedError(f"{what} {type(self).__name__} needs a method {name}")

    # --- what subclasses define -------------------------------------------------------------------

    def check(self, *arg_tys: Any) -> None:
        """Raise unless the types of the operands are good."""

    def expand(self, *args: Any) -> Any:
        """The result, by other operations."""
        raise self._undefined("to be computed", "expand")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """The result, and what the reverse-mode rule needs; ``nzs_in`` says of what is asked."""
        raise self._undefined("for reverse mode", "vjp_fwd")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Add the cotangents of the operands to accumulators."""
        found = self.in_tree.flatten_up_to(self.vjp_bwd_retval(res, outgrad))
        for accumulator, ct in zip(tree_leaves(arg_accums), found, strict=True):
            accumulator.accum(ct)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """The cotangents of the operands."""
        raise self._undefined("for reverse mode", "vjp_bwd_retval or vjp_bwd")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """The result and its tangent."""
        raise self._undefined("for forward mode", "jvp")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """The result, and what ``linearized`` needs."""
        raise self._undefined("for linearize", "lin")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """The tangent of the result."""
        raise self._undefined("for linearize", "linearized")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """Add to the accumulators among the operands, where the operation is linear in them."""
        raise self._undefined("to be transposed", "transpose")

    def batch(self, axis_data: AxisData, args: Any, dims: Any) -> Any:
        """The result over a batch, and where its batch dimension is."""
        out_dim = self.batch_dim_rule(axis_data, dims)
        return Mapped(self, axis_data, dims, out_dim)(*args), out_dim

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        """Where the batch dimension of the result is."""
        raise self._undefined("for vmap", "batch or batch_dim_rule")

    # --- applying it ------------------------------------------------------------------------------

    def __call__(self, *args: Any) -> Any:
        leaves, tree = tree_flatten(args)
        if tree != self.in_tree:
            raise TypeError(
                f"{self!r} was made for arguments of structure {self.in_tree}, got {tree}"
            )
        types = [*self.in_avals_flat, *self.out_avals_flat]
        primitive: Any = call_p
        if any(aval.is_high for aval in types) or any(map(is_high, leaves)):
            primitive = call_high_p
        return tree_unflatten(self.out_tree, primitive.bind(*leaves, _prim=self))

    def flat(self, *leaves: Any) -> list[Any]:
        """``expand`` of flat arguments."""
        result = self.expand(*tree_unflatten(self.in_tree, leaves))
        return self.out_tree.flatten_up_to(result)

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.params.items()), self.effects))

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and self.params == other.params  # type: ignore[attr-defined]
            and self.in_avals_flat == other.in_avals_flat  # type: ignore[attr-defined]
        )


def _defines(operation: VJPHiPrimitive, name: str) -> bool:
    return getattr(type(operation), name) is not getattr(VJPHiPrimitive, name)


def _is_zero(x: Any) -> bool:
    return type(x) is Zero


def _differentiate(operation: VJPHiPrimitive, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Results and tangents of flat operands, by the rule that there is.

    What is linearised to be transposed takes the reverse-mode rule, if there is one.
    """
    reverse, forward = _defines(operation, "vjp_fwd"), _defines(operation, "jvp")
    if _defines(operation, "lin") and not (reverse or forward):
        return _linearized(operation, primals, tangents)
    trace = state.trace
    staged = isinstance(trace, StagingTrace) and not forward  # which may be linearised later
    if reverse and (staged or isinstance(trace, PartialEvalTrace)):
        return jvp(_with_reverse_rule(operation, tangents), primals, tangents)
    given = [tree_unflatten(operation.in_tree, xs) for xs in (primals, tangents)]
    out, out_tangents = operation.jvp(*given)
    flatten = operation.out_tree.flatten_up_to
    return flatten(out), flatten(out_tangents)


def _linearized(operation: VJPHiPrimitive, primals: Any, tangents: Any) -> tuple[Any, Any]:
    tree = operation.in_tree
    nonzero = tree_unflatten(tree, [not _is_zero(t) for t in tangents])
    out, residuals = operation.lin(nonzero, *tree_unflatten(tree, primals))[:2]
    found = operation.linearized(residuals, *tree_unflatten(tree, map(instantiate, tangents)))
    flatten = operation.out_tree.flatten_up_to
    return flatten(out), flatten(found)


def _with_reverse_rule(operation: VJPHiPrimitive, tangents: Any) -> Any:
    """``expand`` of flat operands, with the reverse-mode rule."""
    tree, out_tree = operation.in_tree, operation.out_tree
    nonzero = [not _is_zero(t) for t in tangents]

    def forward(*leaves: Any) -> tuple[Any, Any]:
        marks = tree_unflatten(tree, nonzero)
        out, residuals = operation.vjp_fwd(marks, *tree_unflatten(tree, leaves))[:2]
        return out_tree.flatten_up_to(out), residuals

    def backward(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        sums = [Accumulator(a.to_cotangent_aval()) for a in operation.in_avals_flat]
        operation.vjp_bwd(residuals, tree_unflatten(out_tree, cotangents), *_placed(tree, sums))
        return tuple([instantiate(s.total) for s in sums])

    function = custom_vjp(lambda *leaves: call_p.bind(*leaves, _prim=operation))
    function.defvjp(forward, backward)
    return function


def _placed(tree: Any, leaves: Any) -> Any:
    return tree_unflatten(tree, leaves)


class CallOperation(Primitive):
    """An operation of a library on arrays, as programs have it."""

    multiple_results = True

    def __init__(self) -> None:
        self.name = "call_hi_primitive"  # not entered among weft's own primitives
        self.differentials = ()
        self._programs: dict[Any, ClosedJaxpr] = {}

    def shape(self, *avals: Any, _prim: VJPHiPrimitive) -> list[Any]:
        for got, wanted in zip(avals, _prim.in_avals_flat, strict=True):
            if got.strip_weak_type() != wanted.strip_weak_type():
                raise TypeError(
                    f"{_prim!r} was made for an operand {wanted.str_short()}, got {got.str_short()}"
                )
        return list(_prim.out_avals_flat)

    def eqn_effects(self, avals: Any, params: dict[str, Any]) -> frozenset[Any]:
        return params["_prim"].effects

    def evaluate(self, args: Any, params: dict[str, Any]) -> list[Any]:
        return params["_prim"].flat(*args)

    def program(self, avals: Any, params: dict[str, Any]) -> ClosedJaxpr:
        key = (params["_prim"], tuple(avals), context_key())
        found = self._programs.get(key)
        if found is None:
            if len(self._programs) >= MAX_PROGRAMS:
                self._programs.clear()
            found = self._programs[key] = stage(params["_prim"].flat, avals)
        return found

    def ref(self, *values: Any, **params: Any) -> list[Any]:  # type: ignore[override]
        closed = self.program([typeof(v) for v in values], params)
        return run(closed.jaxpr, numpy_consts(closed), values)

    def jvp(self, primals: Any, tangents: Any, *, _prim: VJPHiPrimitive) -> tuple[Any, Any]:
        return _differentiate(_prim, primals, tangents)

    def batch(self, axis: Any, args: Any, dims: Any, *, _prim: VJPHiPrimitive) -> Any:
        tree = _prim.in_tree
        given, places = tree_unflatten(tree, args), tree_unflatten(tree, dims)
        out, out_dims = _prim.batch(axis, given, places)
        return _prim.out_tree.flatten_up_to(out), _prim.out_tree.flatten_up_to(out_dims)

    def transpose(self, cts: Any, *args: Any, _prim: VJPHiPrimitive) -> list[Any]:
        sums = [Accumulator(x.aval.to_cotangent_aval()) if is_undef(x) else x for x in args]
        given = tree_unflatten(_prim.in_tree, sums)
        _prim.transpose(tree_unflatten(_prim.out_tree, cts), *given)
        return [s.total if is_undef(x) else None for s, x in zip(sums, args, strict=True)]


MAX_PROGRAMS = 1024
call_p = CallOperation()


class CallHigh(HiPrimitive):
    """An operation of a library on values of its own types."""

    multiple_results = True

    def bind(self, *args: Any, **params: Any) -> Any:
        trace = state.trace
        if isinstance(trace, (JVPTrace, PartialEvalTrace)):
            return trace.process_primitive(self, args, params)
        return super().bind(*args, **params)

    def abstract_eval(self, *avals: Any, _prim: VJPHiPrimitive) -> Any:
        return list(_prim.out_avals_flat), _prim.effects

    def to_lojax(self, *args: Any, _prim: VJPHiPrimitive) -> list[Any]:
        return _prim.flat(*args)

    def jvp(self, primals: Any, tangents: Any, *, _prim: VJPHiPrimitive) -> tuple[Any, Any]:
        return _differentiate(_prim, primals, tangents)


call_high_p = CallHigh("call_hi_primitive")


class Mapped(VJPHiPrimitive):
    """An operation over a batch: its rules, mapped."""

    prim: VJPHiPrimitive
    axis_data: AxisData
    in_dims: Any
    out_dim: Any

    def __init__(self, prim: VJPHiPrimitive, axis_data: AxisData, in_dims: Any, out_dim: Any):
        whole = lambda tree, dims: tree_unflatten(
            tree_flatten(tree)[1],
            [
                batched(a, axis_data.size, d)
                for a, d in zip(tree_leaves(tree), _dims(tree, dims), strict=True)
            ],
        )
        self.in_avals = whole(prim.in_avals, in_dims)
        self.out_aval = whole(prim.out_aval, out_dim)
        self.params = {
            "prim": prim, "axis_data": axis_data,
            "in_dims": in_dims, "out_dim": out_dim,
        }  # fmt: skip
        super().__init__()

    def __hash__(self) -> int:
        return hash((Mapped, self.prim, self.axis_data.size))

    def _map(self, fun: Any, in_axes: Any, out_axes: Any) -> Any:
        size, name = self.axis_data.size, self.axis_data.name
        return vmap(fun, in_axes, out_axes, axis_name=name, axis_size=size)

    def expand(self, *args: Any) -> Any:
        return self._map(self.prim.expand, self.in_dims, self.out_dim)(*args)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        tangents = tree_map(instantiate, tangents, is_leaf=_is_zero)
        dims = (self.in_dims, self.in_dims)
        rule = lambda primals, tangents: self.prim.jvp(primals, tangents)
        return self._map(rule, dims, (self.out_dim, self.out_dim))(primals, tangents)

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        rule = lambda *xs: tuple(self.prim.vjp_fwd(nzs_in, *xs)[:2])
        return self._map(rule, self.in_dims, (self.out_dim, 0))(*args)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        def rule(res: Any, outgrad: Any) -> tuple[Any, ...]:
            avals = self.prim.in_avals_flat
            sums = [Accumulator(a.to_cotangent_aval()) for a in avals]
            self.prim.vjp_bwd(res, outgrad, *_placed(self.prim.in_tree, sums))
            return tuple([instantiate(s.total) for s in sums])

        outgrad = tree_map(instantiate, outgrad, is_leaf=_is_zero)
        dims = _dims(self.prim.in_avals, self.in_dims)
        places = tuple([0 if d is None else d for d in dims])
        found = self._map(rule, (0, self.out_dim), places)(res, outgrad)
        summed = [ct.sum(0) if d is None else ct for ct, d in zip(found, dims, strict=True)]
        return tree_unflatten(self.in_tree, summed)

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        inner, outer = _dims(self.prim.in_avals, self.in_dims), _dims(self.prim.in_avals, dims)
        without = [
            d if d is None or own is None else d - (own < d)
            for d, own in zip(outer, inner, strict=True)
        ]
        rule = self.prim.batch_dim_rule(axis_data, tree_unflatten(self.prim.in_tree, without))
        own = _dims(self.prim.out_aval, self.out_dim)
        found = [
            d if d is None or mine is None else d + (mine <= d)
            for d, mine in zip(_dims(self.prim.out_aval, rule), own, strict=True)
        ]
        return tree_unflatten(self.prim.out_tree, found)


def _dims(tree: Any, dims: Any) -> list[Any]:
    """The batch dimension of every leaf of a tree; ``dims`` may have one for a part of it."""
    structure = tree_flatten(tree)[1]
    if dims is None or isinstance(dims, int):
        return [dims] * structure.num_leaves
    return structure.flatten_up_to(dims)
