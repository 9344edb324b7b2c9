"""Reductions along axes: sums, products, extrema, logic, and the positions of extrema."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.core.ad import Zero, filled
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData
from weft.core.dims.dim import exceeds
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.division.factors import Factors, labelled
from weft.prims.arithmetic import add_any_p, div, mul
from weft.prims.bits import or_
from weft.prims.families import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INTEGER,
    NUMBER,
    ORDERED,
    along,
    broadcast_in_dim,
    const,
    converted,
    describe_kinds,
    is_narrow,
    kind_of,
    positions_along,
    scalar,
)
from weft.prims.selection import eq, ne, select_n

Axes = tuple[int, ...]
_HALVES = (np.dtype(np.float16), np.dtype(dtypes.bfloat16))


# --- what references share ------------------------------------------------------------------------


def computable(x: np.ndarray) -> np.ndarray:
    """``x`` in a dtype NumPy computes in: narrow floats in float32, narrow integers in bytes."""
    if is_narrow(x.dtype):
        return x.astype(np.float32)
    if x.dtype.kind == "V" and kind_of(x.dtype) & INTEGER:
        signed = dtypes.issubdtype(x.dtype, np.signedinteger)
        return x.astype(np.int8 if signed else np.uint8)
    return x


def max_identity(dtype: Any) -> np.ndarray:
    """The value below all others of a dtype."""
    return _end_of_range(dtype, -1)


def min_identity(dtype: Any) -> np.ndarray:
    """The value above all others of a dtype."""
    return _end_of_range(dtype, 1)


def _end_of_range(dtype: Any, sign: int) -> np.ndarray:
    kind = kind_of(dtype)
    if kind == BOOL:
        return np.array(sign > 0)
    if kind & INTEGER:
        limits: Any = dtypes.iinfo(dtype)
    elif kind & (FLOAT | COMPLEX) and dtypes.supports_inf(dtype):
        return np.array(sign * np.inf, dtype)
    elif kind & FLOAT:
        limits = dtypes.finfo(dtype)
    else:
        raise ValueError(f"dtype {dtype} has no order, so no largest or smallest value")
    return np.array(limits.max if sign > 0 else limits.min, dtype)


def _with_signed_zeros(x: np.ndarray, out: np.ndarray, axes: Axes, sign: bool) -> np.ndarray:
    """An extremum in which a zero of the given sign bit wins over the other zero."""
    if not kind_of(x.dtype) & FLOAT or not np.any(out == 0):
        return out
    wins = np.any((x == 0) & (np.signbit(x) == sign), axis=axes)
    return np.where((out == 0) & wins, out.dtype.type(-0.0 if sign else 0.0), out)


# --- the family -----------------------------------------------------------------------------------


def reduced_shape(name: str, x: Any, axes: Axes) -> tuple[int, ...]:
    """The shape left when ``axes`` are gone."""
    shape = x.shape
    ndim = len(shape)
    for axis in axes:
        if not 0 <= axis < ndim:
            raise ValueError(
                f"{name} axes {tuple(axes)} are out of bounds for {x.str_short()}: each must be"
                f" at least 0 and below {ndim}"
            )
    if len(axes) != len(set(axes)):
        raise ValueError(f"{name} axes {tuple(axes)} name an axis twice")
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def batched_axes(axes: Axes, dim: int) -> tuple[Axes, int]:
    """The axes of a reduction over a batch, and the result's batch dimension."""
    moved = tuple([a + (a >= dim) for a in axes])
    return moved, dim - sum(a < dim for a in moved)


def reduction_flops(self: Any, avals: Any, outs: Any, params: dict[str, Any]) -> float:
    """One operation for each element but the first of each result."""
    return max(avals[0].size - sum(out.size for out in outs), 0)


class Reduction(Primitive):
    """One result for all elements along ``axes``; subclasses say kinds, reference, derivative."""

    combines = ""
    ufunc: Any
    flops = reduction_flops

    accepts = NUMBER
    keeps_weak_type = True

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        axes, dims = params["axes"], range(len(avals[0].shape))
        kept = [d for d in dims if d not in axes]
        return labelled([dims], [kept], avals, outs, dict.fromkeys(axes, self.combines))

    def shape(self, x: Any, *, axes: Axes, **_: Any) -> ShapedArray:
        if not self.accepts & kind_of(x.dtype):
            raise TypeError(
                f"{self.name} does not accept dtype {x.dtype}; it takes"
                f" {describe_kinds(self.accepts)} operands: convert with astype"
            )
        weak = self.keeps_weak_type and x.weak_type
        return ShapedArray(reduced_shape(self.name, x, axes), x.dtype, weak)

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, axes: Axes, **params: Any
    ) -> tuple[Any, int]:
        moved, out_dim = batched_axes(axes, dims[0])
        return self.bind(args[0], axes=moved, **params), out_dim

    def ref(self, x: np.ndarray, *, axes: Axes, **_: Any) -> np.ndarray:
        wide = computable(x)
        return self.ufunc.reduce(wide, axis=axes, dtype=wide.dtype)

    def reduction(self, *, axes: Axes, **_: Any) -> tuple[str, Axes]:
        """How the compiler combines elements, and along which axes."""
        return self.combines, axes


def reduce_sum(x: Any, axes: Axes) -> Any:
    """Bind a sum along axes."""
    return reduce_sum_p.bind(x, axes=axes, out_sharding=None)


class ReduceSum(Reduction):
    """The sum along axes; its transpose is a broadcast."""

    masks = "moved"
    arithmetic = True
    name, form, combines, ufunc = "reduce_sum", "reduce", "add", np.add
    overflows = "total"
    fixed_order = "fixed_order.sums"
    linear = True

    def shape(self, x: Any, **params: Any) -> Any:
        adds = any(n != 1 for i, n in enumerate(x.shape) if i in params["axes"])
        if not knobs.thread.allow_f16_reductions and x.dtype in _HALVES and adds:
            raise ValueError(
                f"reduce_sum of {x.str_short()} is not allowed, because allow_f16_reductions is "
                "False; convert the operand with astype(jnp.float32)"
            )
        return super().shape(x, **params)

    def transpose(self, ct: Any, x: Any, *, axes: Axes, out_sharding: Any) -> list[Any]:
        shape = x.aval.shape
        if np.shape(ct) == shape:
            return [ct]
        kept = tuple([i for i in range(len(shape)) if i not in axes])
        return [broadcast_in_dim(ct, shape, kept)]


class ReduceProd(Reduction):
    """The product along axes, differentiated as a tree of products so that zeros are no trouble."""

    arithmetic = True
    name, form, combines, ufunc = "reduce_prod", "reduce", "mul", np.multiply
    overflows = "total product"
    fixed_order = "fixed_order.products"
    holes = {"transpose": "not linear"}

    def expands(self, avals: Any, params: Any) -> bool:
        return kind_of(avals[0].dtype) == COMPLEX

    def whole(self, avals: Any, params: Any) -> bool:
        """Many short rows are quicker multiplied all at once, and have few lengths."""
        (x,) = avals
        short = prod([x.shape[i] for i in params["axes"]]) < 64
        return not (short and x.size >= 100_000 and x.ndim - 1 in params["axes"])

    def fuses(self, params: Any, ins: Any) -> bool:
        return kind_of(ins[0].dtype) != COMPLEX

    def decompose(self, x: Any, *, axes: Axes) -> Any:
        """Neighbours multiplied until one is left: kernels reduce complex numbers by sums alone."""
        if not axes:
            return lookup("copy").bind(x)
        if not prod([np.shape(x)[i] for i in axes]):
            nothing = lookup("reduce_sum").bind(x, axes=axes, out_sharding=None)
            return add_any_p.bind(nothing, filled(1, typeof(nothing)))
        x = flatten_axes_first(x, axes)
        while (n := np.shape(x)[0]) > 1:
            product = mul(rows(x, 0, n // 2 * 2, 2), rows(x, 1, n // 2 * 2, 2))
            last = [rows(x, n - 1, n)] if n % 2 else []
            x = lookup("concatenate").bind(product, *last, dimension=0) if last else product
        return lookup("squeeze").bind(x, dimensions=(0,))

    def jvp(self, primals: Any, tangents: Any, *, axes: Axes) -> tuple[Any, Any]:
        (x,), (g,) = primals, tangents
        one, zero = const(x, 1), const(g, 0)
        x, g = flatten_axes_first(x, axes), flatten_axes_first(g, axes)
        while (n := np.shape(x)[0]) > 1:
            half = (n + 1) // 2
            x1, g1 = rows(x, 0, half), rows(g, 0, half)
            x2, g2 = rows(x, half, n), rows(g, half, n)
            if n % 2:
                x2, g2 = pad_one_row(x2, one), pad_one_row(g2, zero)
            x = mul(x1, x2)
            g = add_any_p.bind(mul(g1, x2), mul(x1, g2))
        if n == 0:
            aval = typeof(x)
            out = filled(one, ShapedArray(aval.shape[1:], aval.dtype, aval.weak_type))
            return out, Zero.from_primal(out)
        squeeze = lookup("squeeze")
        return squeeze.bind(x, dimensions=(0,)), squeeze.bind(g, dimensions=(0,))


def flatten_axes_first(x: Any, axes: Axes) -> Any:
    """``x`` with ``axes`` moved to the front and made one."""
    shape = np.shape(x)
    others = tuple([i for i in range(len(shape)) if i not in axes])
    order: Any = (*axes, *others)
    if order == tuple(range(len(shape))):
        order = None
    sizes = (prod([shape[i] for i in axes]), *[shape[i] for i in others])
    if order is None and sizes == shape:
        return x
    return lookup("reshape").bind(x, new_sizes=sizes, dimensions=order, sharding=None)


def rows(x: Any, start: int, limit: int, step: int = 1) -> Any:
    """Part of the first axis of ``x``."""
    return along(x, 0, start, limit, step)


def pad_one_row(x: Any, value: Any) -> Any:
    """``x`` with one more row of ``value`` at the end of its first axis."""
    config = ((0, 1, 0), *[(0, 0, 0)] * (np.ndim(x) - 1))
    return lookup("pad").bind(x, value, padding_config=config)


class Extremum(Reduction):
    """The largest or smallest element; equal ones share the tangent equally."""

    accepts, exact = ANY, True
    identity: Any
    holes = {"transpose": "not linear"}

    def ref(self, x: np.ndarray, *, axes: Axes) -> np.ndarray:
        wide = computable(x)
        initial = self.identity(x.dtype).astype(wide.dtype)
        out = self.ufunc.reduce(wide, axis=axes, initial=initial)
        return _with_signed_zeros(wide, out, axes, self.ufunc is np.minimum)

    def flushes(self, values: Any, params: dict[str, Any]) -> bool:
        return any(values[0].shape[i] != 1 for i in params["axes"])  # otherwise it is a reshape

    def d0(self, g: Any, out: Any, x: Any, *, axes: Axes) -> Any:
        shape = tuple([1 if i in axes else n for i, n in enumerate(np.shape(x))])
        if np.shape(out) != shape:
            out = lookup("reshape").bind(out, new_sizes=shape, dimensions=None, sharding=None)
        chosen = converted(eq(x, out), typeof(g).dtype)
        counts = reduce_sum(chosen, axes)
        return div(reduce_sum(mul(g, chosen), axes), counts)


class ReduceMax(Extremum):
    """The largest element along axes, NaN if there is one, the least value if there is none."""

    name, form, combines, ufunc = "reduce_max", "reduce", "max", np.maximum
    identity = staticmethod(max_identity)


class ReduceMin(Extremum):
    """The smallest element along axes, NaN if there is one, the greatest value if there is none."""

    name, form, combines, ufunc = "reduce_min", "reduce", "min", np.minimum
    identity = staticmethod(min_identity)


class Logical(Reduction):
    """Bits combined along axes."""

    accepts, exact = BOOL | INTEGER, True
    keeps_weak_type = False
    holes = {"transpose": "piecewise constant, so never part of a linear program"}


class ReduceAnd(Logical):
    """Bitwise or logical conjunction along axes."""

    name, form, combines, ufunc = "reduce_and", "reduce", "and", np.bitwise_and


class ReduceOr(Logical):
    """Bitwise or logical disjunction along axes."""

    name, form, combines, ufunc = "reduce_or", "reduce", "or", np.bitwise_or


class ReduceXor(Logical):
    """Bitwise or logical exclusive or along axes."""

    name, form, combines, ufunc = "reduce_xor", "reduce", "xor", np.bitwise_xor


class ArgExtremum(Primitive):
    """The first position of an extremum along one axis; a NaN counts as the extremum."""

    form = "expand"
    flops = reduction_flops
    extremum = ""
    find: Any
    holes = {"transpose": "piecewise constant, so never part of a linear program"}

    def ref(self, x: np.ndarray, *, axes: Axes, index_dtype: Any) -> np.ndarray:
        return self.find(computable(x), axis=axes[0])

    def decompose(self, x: Any, *, axes: Axes, index_dtype: Any) -> Any:
        """The least of the positions at which the extremum is: two passes, both in vectors."""
        shape = np.shape(x)
        (axis,) = axes
        best = lookup(self.extremum).bind(x, axes=axes)
        kept = tuple([i for i in range(len(shape)) if i != axis])
        found = eq(x, broadcast_in_dim(best, shape, kept))
        if kind_of(typeof(x).dtype) & FLOAT:
            found = or_(found, ne(x, x))
        counting = np.dtype(np.int64 if exceeds(shape[axis], (1 << 31) - 1) else np.int32)
        at = positions_along(shape, axis, counting)
        never = broadcast_in_dim(scalar(counting, (1 << (8 * counting.itemsize - 1)) - 1), shape)
        first = lookup("reduce_min").bind(select_n(found, never, at), axes=axes)
        return converted(first, np.dtype(index_dtype))

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        axes, dims = params["axes"], range(len(avals[0].shape))
        kept = [d for d in dims if d not in axes]
        return labelled([dims], [kept], avals, outs, dict.fromkeys(axes, "own"))

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        """Each device's extremum and its position; of these the first that is the extremum."""
        (x,), (axis,) = args, params["axes"]
        labels = part.factors.ins[0][axis]
        at = self.bind(x, **params)
        if part.count(labels) == 1:
            return at
        start = part.start(labels, np.shape(x)[axis])
        start = converted(start, np.dtype(params["index_dtype"]))
        start = broadcast_in_dim(start, np.shape(at))
        places = part.gather(lookup("add").bind(at, start), 0, labels, tiled=False)
        best = lookup(self.extremum).bind(x, axes=(axis,), out_sharding=None)
        values = part.gather(best, 0, labels, tiled=False)
        which = self.bind(values, axes=(0,), index_dtype=np.dtype(np.int32))
        whole = np.shape(places)
        count = positions_along(whole, 0)
        which = broadcast_in_dim(which, whole, tuple(range(1, len(whole))))
        chosen = select_n(eq(count, which), filled(0, typeof(places)), places)
        return reduce_sum(chosen, (0,))

    def shape(self, x: Any, *, axes: Axes, index_dtype: Any) -> ShapedArray:
        (axis,) = axes
        if not 0 <= axis < len(x.shape):
            raise ValueError(f"{self.name} got axis {axis} for an operand of shape {x.shape}")
        if x.shape[axis] < 1:
            raise ValueError(
                f"{self.name} of no elements: axis {axis} of an operand of shape {x.shape} is empty"
            )
        if not kind_of(np.dtype(index_dtype)) & INTEGER:
            raise TypeError(f"{self.name} needs an integer index_dtype, got {index_dtype}")
        if not kind_of(x.dtype) & ORDERED:
            raise TypeError(f"{self.name} does not order dtype {x.dtype}")
        return ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], index_dtype)

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, axes: Axes, index_dtype: Any
    ) -> tuple[Any, int]:
        moved, out_dim = batched_axes(axes, dims[0])
        return self.bind(args[0], axes=moved, index_dtype=index_dtype), out_dim


class ArgMax(ArgExtremum):
    """The first position of the largest element along an axis."""

    name, extremum = "argmax", "reduce_max"
    find = staticmethod(np.argmax)


class ArgMin(ArgExtremum):
    """The first position of the smallest element along an axis."""

    name, extremum = "argmin", "reduce_min"
    find = staticmethod(np.argmin)


reduce_sum_p, reduce_prod_p = ReduceSum(), ReduceProd()
reduce_max_p, reduce_min_p = ReduceMax(), ReduceMin()
reduce_and_p, reduce_or_p, reduce_xor_p = ReduceAnd(), ReduceOr(), ReduceXor()
argmax_p, argmin_p = ArgMax(), ArgMin()
