"""Cumulative reductions along an axis, and the parallel scan by which they are differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.core.avals import ShapedArray
from weft.core.batching import AxisData
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.division.factors import Factors, elementwise
from weft.prims.arithmetic import (
    abs_,
    add,
    complex_,
    imag,
    max_p,
    maximum,
    min_p,
    mul,
    mul_p,
    neg,
    real,
    rem,
    sub,
)
from weft.prims.bits import or_
from weft.prims.families import (
    COMPLEX,
    FLOAT,
    NUMBER,
    along,
    broadcast_in_dim,
    broadcast_to,
    const,
    describe_kinds,
    kind_of,
)
from weft.prims.reduce import computable
from weft.prims.selection import eq, lt, ne, select_n
from weft.prims.shape import concatenate_p, pad_p, rev_p
from weft.prims.transcendental import exp, log1p_p

# --- the parallel scan ----------------------------------------------------------------------------


def parallel_scan(
    combine: Callable[[list[Any], list[Any]], Sequence[Any]],
    elems: Sequence[Any],
    reverse: bool,
    axis: int,
) -> list[Any]:
    """All partial results of an associative ``combine`` over flat lists, in logarithmic depth.

    Results at odd positions are the scan of combined neighbours; those at even positions combine
    the odd result before them with their own element (Blelloch 1990).
    """
    elems = list(elems)
    if reverse:
        elems = [rev_p.bind(x, dimensions=(axis,)) for x in elems]
    scanned = _scan(combine, elems, axis)
    if reverse:
        scanned = [rev_p.bind(x, dimensions=(axis,)) for x in scanned]
    return scanned


def _scan(combine: Any, elems: list[Any], axis: int) -> list[Any]:
    n = np.shape(elems[0])[axis]
    if n < 2:
        return elems
    first = [along(x, axis, 0, n - 1, 2) for x in elems]
    odd = _scan(combine, list(combine(first, [along(x, axis, 1, n, 2) for x in elems])), axis)
    before = odd if n % 2 else [along(x, axis, 0, n // 2 - 1, 1) for x in odd]
    rest = combine(before, [along(x, axis, 2, n, 2) for x in elems])
    heads = [along(x, axis, 0, 1, 1) for x in elems]
    even = [
        concatenate_p.bind(head, later, dimension=axis)
        for head, later in zip(heads, rest, strict=True)
    ]
    return interleave(even, odd, axis)


def interleave(even: list[Any], odd: list[Any], axis: int) -> list[Any]:
    """The elements of ``even`` and ``odd`` in turn; there are as many even ones or one more."""
    equal = np.shape(even[0])[axis] == np.shape(odd[0])[axis]
    first, second = (0, int(equal), 1), (1, int(not equal), 1)
    spread = [_pad_axis(x, axis, first) for x in even]
    between = [_pad_axis(x, axis, second) for x in odd]
    return [
        (or_ if typeof(a).dtype == np.bool_ else add)(a, b)
        for a, b in zip(spread, between, strict=True)
    ]


def _pad_axis(x: Any, axis: int, amounts: tuple[int, int, int]) -> Any:
    config = [(0, 0, 0)] * np.ndim(x)
    config[axis] = amounts
    return pad_p.bind(x, const(x, 0), padding_config=tuple(config))


# --- the family -----------------------------------------------------------------------------------


class Cumulative(Primitive):
    """Partial results along an axis; subclasses say ``accumulate`` and ``pair_jvp``."""

    arithmetic = True
    accepts = NUMBER
    accumulate: Any
    pair_jvp: Any = None  # (primals, tangents) -> (out, tangent) of the combining operation
    joins = ""  # the operation that combines partial results of neighbours

    def flops(self, avals: Any, outs: Any, params: dict[str, Any]) -> float:
        return outs[0].size

    def undivided(self, avals: Any, params: dict[str, Any]) -> Any:
        return [(params["axis"],)]

    divided_as = 0

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return elementwise(avals, outs) if self.joins else super().factors(avals, outs, params)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        """Partial results of a part, and before them what all parts before it come to."""
        (x,), axis, reverse = args, params["axis"], params["reverse"]
        found = self.bind(x, **params)
        labels = part.factors.ins[0][axis]
        n = part.count(labels)
        if n == 1:
            return found
        size = np.shape(x)[axis]
        last = 0 if reverse else size - 1
        total = along(found, axis, last, last + 1)
        sums = self.bind(part.gather(total, axis, labels), **params)
        join = lookup(self.joins).bind
        # the first part has nobody before it, so it takes a result that it has no use for
        before = along(sums, axis, 1, n) if reverse else along(sums, axis, 0, n - 1)
        first = [along(sums, axis, 0, 1)]
        padded = [before, *first] if reverse else [*first, before]
        every = concatenate_p.bind(*padded, dimension=axis)
        index = part.index(labels)
        starts = [index if d == axis else np.int32(0) for d in range(np.ndim(x))]
        sizes = tuple(1 if d == axis else k for d, k in enumerate(np.shape(x)))
        mine = lookup("dynamic_slice").bind(every, *starts, slice_sizes=sizes)
        mine = broadcast_in_dim(mine, np.shape(x), tuple(range(np.ndim(x))))
        alone = eq(index, np.int32(n - 1 if reverse else 0))
        return select_n(alone, join(mine, found), found)

    def shape(self, x: Any, *, axis: int, reverse: bool) -> ShapedArray:
        if not 0 <= axis < len(x.shape):
            raise ValueError(
                f"{self.name} got axis {axis} for an operand of shape {x.shape}: it must be at"
                f" least 0 and below {len(x.shape)}"
            )
        if not self.accepts & kind_of(x.dtype):
            raise TypeError(
                f"{self.name} does not accept dtype {x.dtype}; it takes"
                f" {describe_kinds(self.accepts)} operands: convert with astype"
            )
        return x

    def ref(self, x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        wide = computable(x)
        if reverse:
            return np.flip(self.accumulate(np.flip(wide, axis), axis), axis)
        return self.accumulate(wide, axis)

    def jvp(self, primals: Any, tangents: Any, *, axis: int, reverse: bool) -> tuple[Any, Any]:
        if self.linear:
            return self._linear_jvp(primals, tangents, {"axis": axis, "reverse": reverse})
        self.shape(typeof(primals[0]), axis=axis, reverse=reverse)

        def combine(a: list[Any], b: list[Any]) -> Any:
            return self.pair_jvp((a[0], b[0]), (a[1], b[1]))

        out, tangent = parallel_scan(combine, (primals[0], tangents[0]), reverse, axis)
        return out, tangent

    def batch(
        self, axis_data: AxisData, args: Any, dims: Any, *, axis: int, reverse: bool
    ) -> tuple[Any, int]:
        (dim,) = dims
        return self.bind(args[0], axis=axis + (axis >= dim), reverse=reverse), dim


class CumSum(Cumulative):
    """Partial sums along an axis."""

    name, joins, overflows = "cumsum", "add", "running sum"
    masks = "summed"
    kernels = "cumulative.sums"
    neutral = fixed_order = "cumulative.scanned_sums"
    linear = True

    @staticmethod
    def accumulate(x: np.ndarray, axis: int) -> np.ndarray:
        # Sums start at zero: the sum of negative zeros is zero.
        return np.add.accumulate(x, axis=axis, dtype=x.dtype) + x.dtype.type(0)

    def transpose(self, ct: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
        return [self.bind(ct, axis=axis, reverse=not reverse)]


class CumProd(Cumulative):
    """Partial products along an axis."""

    name, joins, overflows = "cumprod", "mul", "running product"
    kernels = "cumulative.products"
    neutral = fixed_order = "cumulative.scanned_products"
    holes = {"transpose": "not linear"}
    pair_jvp = staticmethod(mul_p.jvp)

    def expands(self, avals: Any, params: Any) -> bool:
        return kind_of(avals[0].dtype) == COMPLEX and avals[0].shape[params["axis"]] > 0

    def decompose(self, x: Any, *, axis: int, reverse: bool) -> Any:
        if np.shape(x)[axis] == 1:
            return lookup("copy").bind(x)
        combine = lambda a, b: [mul_p.bind(a[0], b[0])]
        return parallel_scan(combine, [x], reverse, axis)[0]

    @staticmethod
    def accumulate(x: np.ndarray, axis: int) -> np.ndarray:
        return np.multiply.accumulate(x, axis=axis, dtype=x.dtype)


def _with_signed_zeros(x: np.ndarray, out: np.ndarray, axis: int, sign: bool) -> np.ndarray:
    """Partial extrema in which a zero of the given sign bit wins over the other zero."""
    if x.dtype.kind != "f" or not np.any(out == 0):
        return out
    wins = np.logical_or.accumulate((x == 0) & (np.signbit(x) == sign), axis=axis)
    return np.where((out == 0) & wins, x.dtype.type(-0.0 if sign else 0.0), out)


class RunningExtreme(Cumulative):
    """The extremum so far, along an axis; its tangent is that of the elements that it equals."""

    exact = True
    holes = {"transpose": "not linear"}

    def jvp(self, primals: Any, tangents: Any, *, axis: int, reverse: bool) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        if kind_of(typeof(x).dtype) != FLOAT or typeof(x).dtype != typeof(t).dtype:
            return super().jvp(primals, tangents, axis=axis, reverse=reverse)
        out = self.bind(x, axis=axis, reverse=reverse)
        shared = lookup("extreme_tangent").bind
        least = self.joins == "min"
        tangent = shared(t, x, out, axis=axis, reverse=reverse, least=least, transposed=False)
        return out, tangent


class CumMax(RunningExtreme):
    """The largest element so far, along an axis."""

    name, joins = "cummax", "max"
    kernels, neutral = "cumulative.greatest", "cumulative.scanned_greatest"
    pair_jvp = staticmethod(max_p.jvp)

    @staticmethod
    def accumulate(x: np.ndarray, axis: int) -> np.ndarray:
        return _with_signed_zeros(x, np.maximum.accumulate(x, axis=axis), axis, False)


class CumMin(RunningExtreme):
    """The smallest element so far, along an axis."""

    name, joins = "cummin", "min"
    kernels, neutral = "cumulative.least", "cumulative.scanned_least"
    pair_jvp = staticmethod(min_p.jvp)

    @staticmethod
    def accumulate(x: np.ndarray, axis: int) -> np.ndarray:
        return _with_signed_zeros(x, np.minimum.accumulate(x, axis=axis), axis, True)


def logaddexp(x: Any, y: Any) -> Any:
    """The logarithm of the sum of two exponentials, without overflow."""
    largest = maximum(x, y)
    if kind_of(typeof(x).dtype) == COMPLEX:
        delta = sub(add(x, y), mul(largest, const(largest, 2)))
        out = add(largest, log1p_p.bind(exp(delta), accuracy=None))
        return complex_(real(out), _wrapped_angle(imag(out)))
    delta = sub(x, y)
    # The difference is NaN for a NaN and for equal infinities: there the sum is the answer.
    indefinite = ne(delta, delta)
    total = add(x, y)
    return select_n(
        indefinite, add(largest, log1p_p.bind(exp(neg(abs_(delta))), accuracy=None)), total
    )


def _wrapped_angle(x: Any) -> Any:
    """An angle moved between -pi and pi."""
    pi, two_pi = const(x, np.pi), const(x, 2 * np.pi)
    left = rem(add(x, pi), two_pi)
    left = select_n(lt(left, const(x, 0)), left, add(left, two_pi))
    return sub(left, pi)


def _finite_exponent(x: Any) -> Any:
    """``x``, with zero for infinity."""
    infinite = eq(x, const(x, np.inf))
    return select_n(infinite, x, broadcast_to(const(x, 0), np.shape(x)))


def logaddexp_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """``logaddexp`` and its tangent."""
    out = logaddexp(*primals)
    terms = [
        mul(g, exp(sub(_finite_exponent(x), _finite_exponent(out))))
        for x, g in zip(primals, tangents, strict=True)
    ]
    return out, add(*terms)


def _complex_logaddexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    largest = np.maximum(x, y)
    out = largest + np.log1p(np.exp(x + y - 2 * largest))
    angle = np.remainder(out.imag + np.pi, 2 * np.pi) - np.pi
    return out.real + 1j * angle


class CumLogSumExp(Cumulative):
    """The logarithm of partial sums of exponentials, along an axis."""

    name, accepts = "cumlogsumexp", FLOAT | COMPLEX
    kernels = "cumulative.logarithms"
    neutral = fixed_order = "cumulative.scanned_logarithms"
    holes = {"transpose": "not linear"}
    pair_jvp = staticmethod(logaddexp_jvp)

    @staticmethod
    def accumulate(x: np.ndarray, axis: int) -> np.ndarray:
        if x.dtype.kind != "c":
            return np.logaddexp.accumulate(x, axis=axis) + x.dtype.type(0)
        out = np.moveaxis(x, axis, 0).copy()
        step = 1
        while step < len(out):
            out[step:] = _complex_logaddexp(out[:-step], out[step:])
            step *= 2
        return np.moveaxis(out, 0, axis)


cumsum_p, cumprod_p, cumlogsumexp_p = CumSum(), CumProd(), CumLogSumExp()
cummax_p, cummin_p = CumMax(), CumMin()
