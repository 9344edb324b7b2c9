"""Families of primitives: rules that many operations share, and what rules are written with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.base.lazy import Late
from weft.base.polynomials import Polynomial
from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, broadcast_axis, moveaxis
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.trace import box, typeof
from weft.division.factors import Factors, elementwise

BOOL, UINT, INT, FLOAT, COMPLEX, EXTENDED = 1, 2, 4, 8, 16, 32
INTEGER = UINT | INT
INEXACT = FLOAT | COMPLEX
NUMBER = INTEGER | INEXACT
ORDERED = BOOL | INTEGER | FLOAT
ANY = BOOL | NUMBER

_KIND_NAMES = {
    BOOL: "bool",
    UINT: "unsigned integer",
    INT: "signed integer",
    FLOAT: "floating",
    COMPLEX: "complex",
    EXTENDED: "key",
}
_kinds: dict[Any, int] = {}


def kind_of(dtype: Any) -> int:
    """Which of the kinds above a dtype is."""
    kind = _kinds.get(dtype)
    if kind is None:
        kind = _kinds[dtype] = _classify(dtype)
    return kind


def _classify(dtype: Any) -> int:
    if isinstance(dtype, dtypes.ExtendedDType):
        return EXTENDED
    for parent, kind in (
        (np.bool_, BOOL),
        (np.unsignedinteger, UINT),
        (np.signedinteger, INT),
        (np.floating, FLOAT),
        (np.complexfloating, COMPLEX),
    ):
        if dtypes.issubdtype(dtype, parent):
            return kind
    return 0


def describe_kinds(accepted: int) -> str:
    return ", ".join(name for bit, name in _KIND_NAMES.items() if accepted & bit)


# --- scalars in rules -----------------------------------------------------------------------------

_scalars: dict[Any, Any] = {}


def const(like: Any, value: Any) -> Any:
    """The scalar ``value`` in the dtype (and weak type) of ``like``."""
    aval = typeof(like)
    if isinstance(value, Polynomial):
        return _of_dim(aval.dtype, value, aval.weak_type)
    if aval.weak_type:
        return dtypes.scalar_type_of(aval.dtype)(value)
    dtype = aval.dtype
    if dtypes.canonicalize_dtype(dtype, True) != dtype:
        # A NumPy scalar of 64 bits would be narrowed; an array keeps its dtype, as ``like`` does.
        return box(np.array(value, dtype), ShapedArray((), dtype))
    return scalar(dtype, value)


def scalar(dtype: Any, value: Any) -> Any:
    """The NumPy scalar ``value`` of a dtype; the same object for the same number."""
    if isinstance(value, Polynomial):
        return _of_dim(dtype, value, False)
    # 0.0 equals -0.0, but is another number
    key = (dtype, value if value and type(value) is not complex else repr(value), type(value))
    found = _scalars.get(key)
    if found is None:
        try:
            found = _element(dtype, value)
        except OverflowError:
            return _wrapped(dtype, value)
        if len(_scalars) < 4096:
            _scalars[key] = found
    return found


def _of_dim(dtype: Any, value: Polynomial, weak: bool) -> Any:
    """A dimension without a fixed value as a number of a dtype, in a program that is traced."""
    return converted(lookup("dim_as_value").bind(dim=value), dtype, weak)


def _element(dtype: Any, value: Any) -> Any:
    if not isinstance(dtype, dtypes.ExtendedDType):
        if type(value) is float and dtype.kind in "iu":
            value = _saturated(dtype, value)
        return np.asarray(value, dtype)[()]
    # All the numbers that one element is made of are ``value``.
    parts = np.full(dtype.physical_shape, value, dtype.physical_dtype).reshape(-1)
    return box(parts.view(dtype.storage).reshape(()), ShapedArray((), dtype))


def _saturated(dtype: Any, value: float) -> int:
    """A float as an integer of ``dtype``, as conversion has it: cut to the range, NaN to 0."""
    limits = np.iinfo(dtype)
    if value != value:
        return 0
    return limits.min if value < limits.min else limits.max if value > limits.max else int(value)


def _wrapped(dtype: Any, value: int) -> Any:
    """A Python integer too large for ``dtype``: it is a default integer first, then wraps."""
    default = dtypes.canonicalize_dtype(np.int64)
    try:
        return np.asarray(value, default).astype(dtype)[()]
    except OverflowError:
        raise OverflowError(
            f"Python int {value} does not fit into {default}; use a float, or enable_x64 for"
            " integers of 64 bits"
        ) from None


# --- operations that rules are written with ------------------------------------------------------


def converted(x: Any, dtype: Any, weak_type: bool = False) -> Any:
    """``x`` in a dtype; also where it has that."""
    convert = lookup("convert_element_type")
    return convert.bind(x, new_dtype=dtype, weak_type=weak_type, sharding=None)


def broadcast_in_dim(
    x: Any, shape: tuple[int, ...], dims: tuple[int, ...] = (), sharding: Any = None
) -> Any:
    """``x`` with its axes at ``dims`` of a larger shape."""
    broadcast = lookup("broadcast_in_dim")
    return broadcast.bind(x, shape=shape, broadcast_dimensions=dims, sharding=sharding)


def along(x: Any, axis: int, start: int, limit: int, step: int | None = None) -> Any:
    """The positions from ``start`` up to ``limit`` along an axis, or every ``step``-th of them."""
    shape = np.shape(x)
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], steps[axis] = start, limit, step or 1
    params = {"start_indices": tuple(starts), "limit_indices": tuple(limits)}
    return lookup("slice").bind(x, **params, strides=None if step is None else tuple(steps))


def element(x: Any, axis: int, position: int, step: int | None = None) -> Any:
    """One position along an axis, which goes."""
    one = along(x, axis, position, position + 1, step)
    return lookup("squeeze").bind(one, dimensions=(axis,))


def positions_along(shape: tuple[int, ...], dimension: int, dtype: Any = np.int32) -> Any:
    """The position of each element along an axis."""
    iota = lookup("iota")
    return iota.bind(dtype=np.dtype(dtype), shape=shape, dimension=dimension, sharding=None)


# --- the families ---------------------------------------------------------------------------------


def broadcast_shapes(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of an elementwise result: equal ranks, sizes equal or 1; scalars go anywhere."""
    found: tuple[int, ...] = ()
    for shape in shapes:
        if shape and shape != found:
            found = _joined(name, found, shape, shapes) if found else shape
    return found


def _joined(name: str, first: Any, second: Any, shapes: Any) -> tuple[int, ...]:
    if len(first) != len(second):
        raise TypeError(
            f"{name} got arrays of different rank: shapes {_list(shapes)}; lax functions broadcast"
            f" sizes of 1 but not ranks: reshape one, or use weft.numpy"
        )
    sizes = list(first)
    for i, n in enumerate(second):
        if n == sizes[i] or n == 1:
            continue
        if sizes[i] != 1:
            raise TypeError(
                f"{name} got incompatible shapes for broadcasting: {_list(shapes)};"
                f" the sizes of axis {i}, {sizes[i]} and {n}, must be equal or 1"
            )
        sizes[i] = n
    return tuple(sizes)


def _list(shapes: Sequence[tuple[int, ...]]) -> str:
    return " and ".join(map(str, shapes))


class Elementwise(Primitive):
    """Result element i depends on operand elements i. Says dtypes; the rest follows.

    ``accepts`` is the kinds of dtype taken (one for all operands, or a tuple with one for each);
    ``result`` makes the result's dtype of the first operand's, where it differs.
    """

    accepts: Any = ANY
    result: Any = None
    same_dtypes = True
    arithmetic = True

    def __init__(self) -> None:
        super().__init__()
        if self.lower is not None or self.lower_parts is not None:
            self.form = "map"

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors:
        return elementwise(avals, outs)

    def shape(self, *avals: Any, **params: Any) -> ShapedArray:
        first = avals[0]
        dtype = first.dtype
        accepts = self.accepts
        if isinstance(accepts, tuple):
            for aval, accepted in zip(avals, accepts, strict=True):
                if not accepted & kind_of(aval.dtype):
                    raise self._wrong_kind(aval, accepted)
        elif not accepts & kind_of(dtype):
            raise self._wrong_kind(first, accepts)
        if self.result is None and avals.count(first) == len(avals):
            return first  # the usual case: types are interned, so this compares by identity
        if len(avals) == 1:
            shape, weak = first.shape, first.weak_type
        else:
            weak = True
            for aval in avals:
                weak = weak and aval.weak_type
                if aval.dtype != dtype and self.same_dtypes:
                    raise self._different_dtypes(avals)
            shape = broadcast_shapes(self.name, [a.shape for a in avals])
        if self.result is not None:
            dtype = self.result(*[a.dtype for a in avals], **params)
        return ShapedArray(shape, dtype, weak)

    def _wrong_kind(self, aval: Any, accepted: int) -> TypeError:
        return TypeError(
            f"{self.name} does not accept dtype {aval.dtype}; it takes"
            f" {describe_kinds(accepted)} operands: convert with astype"
        )

    def _different_dtypes(self, avals: Any) -> TypeError:
        given = ", ".join(a.str_short() for a in avals)
        return TypeError(
            f"lax.{self.name} requires operands of the same dtype, got {given}; convert one with"
            f" lax.convert_element_type, or use weft.numpy, which promotes"
        )

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        args, dim = align_batched(axis, args, dims)
        return self.bind(*args, **params), dim


def align_batched(axis: AxisData, args: Any, dims: Any) -> tuple[list[Any], int]:
    """Operands of one elementwise operation with their batch dimensions made to agree."""
    first: Any = None
    alike, rank = True, 0
    for x, d in zip(args, dims, strict=True):
        shape = typeof(x).shape
        if d is None:
            alike = alike and not shape
            rank = max(rank, len(shape))
        else:
            first = first or (shape, d)
            alike = alike and first == (shape, d)
            rank = max(rank, len(shape) - 1)
    if alike:
        return list(args), first[1]
    aligned = []
    for x, d in zip(args, dims, strict=True):
        if d is None:
            aligned.append(broadcast_axis(x, 1, 0) if typeof(x).shape else x)
        else:
            front = moveaxis(x, d, 0)
            aligned.append(append_axes(front, rank + 1 - len(typeof(front).shape)))
    return aligned, 0


def append_axes(x: Any, count: int) -> Any:
    """``x`` with axes of size 1 added at the end."""
    if not count:
        return x
    shape = typeof(x).shape
    return broadcast_in_dim(x, (*shape, *[1] * count), tuple(range(len(shape))))


def unbroadcast(aval: Any, x: Any) -> Any:
    """The cotangent of an operand of type ``aval`` that was broadcast to the shape of ``x``."""
    shape = typeof(x).shape
    if shape == aval.shape:
        return x
    reduce_sum = lookup("reduce_sum")
    if not aval.shape:
        return reduce_sum.bind(x, axes=tuple(range(len(shape))), out_sharding=None)
    axes = tuple(i for i, (n, m) in enumerate(zip(shape, aval.shape, strict=True)) if n != m)
    summed = reduce_sum.bind(x, axes=axes, out_sharding=None)
    return lookup("reshape").bind(summed, new_sizes=aval.shape, dimensions=None, sharding=None)


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    """``x`` (a scalar, or of equal rank with sizes of 1) at a larger shape."""
    have = typeof(x).shape
    if have == shape:
        return x
    return broadcast_in_dim(x, shape, tuple(range(len(shape))) if have else ())


class NonDifferentiable(Elementwise):
    """Elementwise and piecewise constant: the tangent is zero everywhere."""

    holes = {"transpose": "piecewise constant, so never part of a linear program"}


class LinearUnary(Primitive):
    """Linear in its single operand: the tangent is the operation applied to the tangent."""

    linear = True


def transpose_unary(rule: Any) -> Any:
    """A transpose rule for one linear operand, from a function of the cotangent alone."""

    def transpose(self: Any, ct: Any, x: Any, **params: Any) -> list[Any]:
        if type(ct) is Zero:
            return [Zero(x.aval.to_cotangent_aval())]
        return [rule(self, ct, x, **params)]

    return transpose


def lowered(name: str) -> Any:
    """A lowering that is one operation of the kernel builder."""

    def lower(self: Any, k: Any, *operands: Any, **params: Any) -> Any:
        return getattr(k, name)(*operands)

    return lower


# What the rules for the compiler are written with, loaded when something is compiled.
kernels = Late("weft.kernel.kernel")
kernel_math = Late("weft.kernel.math")
kernel_complex = Late("weft.kernel.math_complex")
kernel_plane = Late("weft.kernel.math_plane")
kernel_series = Late("weft.kernel.math_series")
kernel_random = Late("weft.kernel.math_random")
kernel_tiny = Late("weft.kernel.tiny")
kernel_elements = Late("weft.kernel.elements")


def computed(function: str) -> Any:
    """A lowering that is a function of the kernel's mathematics, of this name."""

    def lower(self: Any, k: Any, *operands: Any, **params: Any) -> Any:
        return getattr(kernel_math, function)(k, *operands)

    return lower


def in_parts(function: str, module: Any = kernel_complex) -> Any:
    """A lowering of complex numbers, by a function of the kernel's mathematics of this name."""

    def lower_parts(self: Any, k: Any, *operands: Any, **params: Any) -> Any:
        return getattr(module, function)(k, *operands)

    return lower_parts


def on_plane(function: str) -> Any:
    """A lowering of complex numbers, by one of the transcendental functions."""
    return in_parts(function, kernel_plane)


def unmoved(self: Any, index: Any, have: Any, want: Any, **params: Any) -> Any:
    """The movement of an operation that is the identity: the element at the same index."""
    return index


def forwarded(
    self: Any, k: Any, index: Any, ins: Any, outs: Any, number: int, **params: Any
) -> Any:
    """The element rule of an operation that hands its operands on."""
    return (yield number, index)


def element_rule(module: Any, name: str) -> Any:
    """The rule of this name in a module of the kernel room, for one element of a result."""

    def element(self: Any, *args: Any, **params: Any) -> Any:
        return getattr(module, name)(*args, **params)

    return element


# --- references in NumPy --------------------------------------------------------------------------


_NARROW = ("bfloat16", "float16", "float8_", "float6_", "float4_")


def is_narrow(dtype: Any) -> bool:
    """Whether arithmetic in this float type is done in float32 and rounded."""
    return dtype.name.startswith(_NARROW)


def widened(function: Any) -> Any:
    """A NumPy function that computes narrow floats in float32; the caller rounds the result."""

    def reference(*args: Any, **params: Any) -> Any:
        if any(is_narrow(x.dtype) for x in args):
            args = tuple(x.astype(np.float32) if is_narrow(x.dtype) else x for x in args)
        return function(*args)

    return staticmethod(reference)
