"""What the rules of linear algebra are written with: products, triangles, diagonals of stacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import Zero, zeros
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, all_at_front
from weft.core.primitive import Primitive, divisions
from weft.core.registry import lookup
from weft.core.trace import loosely, typeof
from weft.division.factors import Factors, leading
from weft.prims.arithmetic import add, conj, div
from weft.prims.convert import convert
from weft.prims.families import (
    COMPLEX,
    FLOAT,
    INTEGER,
    along,
    broadcast_in_dim,
    describe_kinds,
    is_narrow,
    kind_of,
    positions_along,
    scalar,
)
from weft.prims.index import gather
from weft.prims.index_dims import GatherDimensionNumbers
from weft.prims.precision import Precision
from weft.prims.selection import eq, ge, select_n

Shape = tuple[int, ...]
INT32 = np.dtype(np.int32)


class MatrixPrimitive(Primitive):
    """Works on the last axes of its operands; the axes before them are a stack.

    ``ranks`` is how many axes of each operand belong to one problem. ``cores`` makes, of the
    first operand's dtype and the shapes of one problem, shape and dtype of each result.
    """

    ranks: tuple[int, ...] = (2,)
    accepts: int = FLOAT | COMPLEX
    cubes = 0.0  # multiplications and additions, in cubes of the matrix's side

    def flops(self, avals: Any, outs: Any, params: dict[str, Any]) -> float:
        *lead, columns = avals[0].shape
        return self.cubes * prod(lead) * columns**2

    def undivided(self, avals: Any, params: dict[str, Any]) -> Any:
        ranks = zip(avals, self.ranks, strict=True)
        return [range(len(a.shape) - rank, len(a.shape)) for a, rank in ranks]

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        found = super().explicit(specs, avals, outs, params)
        stacks = [s[: len(s) - rank] for s, rank in zip(specs, self.ranks, strict=True)]
        if any(stack != stacks[0] for stack in stacks):
            raise divisions.different(self.name, avals)
        return found

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        raise TypeError(f"{self.name} does not say what its results look like")

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        stack = len(avals[0].shape) - self.ranks[0]
        return leading(avals, outs, self.ranks, [len(a.shape) - stack for a in outs])

    def shape(self, *avals: Any, **params: Any) -> Any:
        batches = self._stacks(avals)
        batch = batches[0]
        inner = [a.shape[len(batch) :] for a in avals]
        weak = all(a.weak_type for a in avals)
        found = self.cores(avals[0].dtype, *inner, **params)
        self._check_dtypes(avals)
        if any(other != batch for other in batches):
            shapes = ", ".join(str(a.shape) for a in avals)
            raise ValueError(
                f"the operands of {self.name} must have the same leading (stack) axes, got shapes"
                f" {shapes}: broadcast them first"
            )
        results = [ShapedArray((*batch, *shape), dtype, weak) for shape, dtype in found]
        return results if self.multiple_results else results[0]

    def _stacks(self, avals: Sequence[Any]) -> list[Shape]:
        """The axes of the stack of each operand, after a look at ranks."""
        batches = []
        for i, (aval, rank) in enumerate(zip(avals, self.ranks, strict=True)):
            if aval.ndim < rank:
                raise TypeError(
                    f"operand {i} of {self.name} needs at least {rank} axes, got shape {aval.shape}"
                )
            batches.append(aval.shape[: aval.ndim - rank])
        if any(len(batch) != len(batches[0]) for batch in batches):
            shapes = ", ".join(str(a.shape) for a in avals)
            raise TypeError(
                f"the operands of {self.name} must have as many leading (stack) axes, got shapes"
                f" {shapes}: broadcast them first"
            )
        return batches

    def _check_dtypes(self, avals: Sequence[Any]) -> None:
        for aval in avals:
            if not kind_of(aval.dtype) & self.accepts:
                raise TypeError(
                    f"{self.name} does not accept dtype {aval.dtype}; it takes"
                    f" {describe_kinds(self.accepts)} operands: convert with astype"
                )
            if aval.dtype != avals[0].dtype:
                given = ", ".join(a.str_short() for a in avals)
                raise TypeError(f"{self.name} needs operands of the same dtype, got {given}")

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
        out = self.bind(*all_at_front(axis, args, dims), **params)
        return out, ([0] * len(out) if self.multiple_results else 0)


class LinearInLast(MatrixPrimitive):
    """Linear in its last operand; it has no derivative in those before it.

    A parameter, ``adjoint``, says whether their adjoint is meant.
    """

    adjoint = ""
    why = ""

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        if not all(type(t) is Zero for t in tangents[:-1]):
            raise NotImplementedError(f"{self.name} has a derivative in c only, {self.why}")
        return self.bind(*primals, **params), self.bind(*primals[:-1], tangents[-1], **params)

    def transpose(self, ct: Any, *operands: Any, **params: Any) -> list[Any]:
        *fixed, c = operands
        nothing = [None] * len(fixed)
        if type(ct) is Zero:
            return [*nothing, Zero(c.aval.to_cotangent_aval())]
        turned = {**params, self.adjoint: not params[self.adjoint]}
        # What the transpose gives is the conjugate of what the adjoint makes of conjugates.
        if is_complex(fixed[0]):
            return [*nothing, conj(self.bind(*fixed, conj(ct), **turned))]
        return [*nothing, self.bind(*fixed, ct, **turned)]


NO_DERIVATIVE = "no derivative is defined, as in JAX"


class Undifferentiated(MatrixPrimitive):
    """A packed form whose derivative is not defined; differentiate what is made of it instead."""

    instead = ""
    holes = {"jvp": NO_DERIVATIVE, "transpose": "not linear"}

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        raise NotImplementedError(
            f"{self.name} has no derivative{self.instead}; or wrap its operand in lax.stop_gradient"
        )


def square(name: str, shape: Shape) -> int:
    """The size of a square matrix, or an error that names the primitive."""
    if shape[0] != shape[1]:
        raise ValueError(f"{name} needs square matrices of shape (..., n, n), got {shape}")
    return shape[0]


def reference(function: Callable[..., Any]) -> Any:
    """A rule on NumPy arrays from one for LAPACK's dtypes: narrow floats compute in float32."""

    def ref(*args: Any, **params: Any) -> Any:
        wide = [x.astype(np.float32) if is_narrow(x.dtype) else x for x in args]
        return function(*wide, **params)

    return staticmethod(ref)


# --- functions of traced values -------------------------------------------------------------------


def mT(x: Any) -> Any:
    """The transposed matrices."""
    ndim = np.ndim(x)
    return lookup("transpose").bind(x, permutation=(*range(ndim - 2), ndim - 1, ndim - 2))


def is_complex(x: Any) -> bool:
    return kind_of(typeof(x).dtype) == COMPLEX


def mH(x: Any) -> Any:
    """The adjoint matrices."""
    return conj(mT(x)) if is_complex(x) else mT(x)


def symmetrize(x: Any) -> Any:
    """The Hermitian part."""
    shape = np.shape(x)
    if len(shape) > 1 and shape[-1] != shape[-2]:
        raise TypeError(f"a Hermitian matrix has as many rows as columns, got shape {shape}")
    if kind_of(typeof(x).dtype) & INTEGER:
        x = convert(x, dtypes.default_float_dtype())
    return div(add(x, mH(x)), scalar(typeof(x).dtype, 2))


def matmul(a: Any, b: Any) -> Any:
    """The products of two stacks of matrices."""
    ndim = np.ndim(a)
    batch = tuple(range(ndim - 2))
    return lookup("dot_general").bind(
        a,
        b,
        dimension_numbers=(((ndim - 1,), (ndim - 2,)), (batch, batch)),
        precision=(Precision.HIGHEST, Precision.HIGHEST),
        preferred_element_type=None,
        out_sharding=None,
    )


def iota(shape: Shape, dimension: int, dtype: Any = INT32) -> Any:
    """The index along one axis."""
    return positions_along(shape, dimension, dtype)


def broadcast(x: Any, shape: Shape, dims: Sequence[int]) -> Any:
    """``x`` with its axes at ``dims`` of a larger shape."""
    return x if np.shape(x) == shape else broadcast_in_dim(x, shape, tuple(dims))


def broadcast_stack(x: Any, stack: tuple[int, ...], rank: int) -> Any:
    """``x`` with the axes before its last ``rank`` ones broadcast to ``stack``."""
    shape = np.shape(x)
    whole = (*stack, *shape[len(shape) - rank :])
    return broadcast(x, whole, range(len(whole) - len(shape), len(whole)))


def insert_axis(x: Any, axis: int) -> Any:
    """``x`` with a new axis of size 1 at ``axis`` (which may be negative) of the result."""
    shape = list(np.shape(x))
    axis %= len(shape) + 1
    shape.insert(axis, 1)
    return broadcast(x, tuple(shape), [i for i in range(len(shape)) if i != axis])


def lift(x: Any, ndim: int) -> Any:
    """``x`` with axes of size 1 in front, to rank ``ndim``."""
    shape = np.shape(x)
    extra = ndim - len(shape)
    return broadcast(x, (1,) * extra + shape, range(extra, ndim))


def _triangle(x: Any, offset: int) -> tuple[Any, Any]:
    """Where row + offset >= column, and zeros, both shaped like ``x``."""
    shape = np.shape(x)
    m, n = shape[-2:]
    rows = add(iota((m, n), 0), scalar(INT32, offset))
    mask = ge(rows, iota((m, n), 1))
    mask = broadcast(mask, shape, (len(shape) - 2, len(shape) - 1))
    return mask, zeros(typeof(x))


def full(shape: Shape, dtype: Any, value: Any) -> Any:
    """An array of one value."""
    return broadcast(scalar(dtype, value), shape, ())


def tril(x: Any, offset: int = 0) -> Any:
    """The lower triangles up to diagonal ``offset``, zero above."""
    with loosely():
        mask, zeros = _triangle(x, offset)
        return select_n(mask, zeros, x)


def triu(x: Any, offset: int = 0) -> Any:
    """The upper triangles from diagonal ``offset``, zero below."""
    with loosely():
        mask, zeros = _triangle(x, offset - 1)
        return select_n(mask, x, zeros)


def eye(dtype: Any, m: int, n: int | None = None) -> Any:
    """Ones on the diagonal of an m by n matrix."""
    shape = (m, m if n is None else n)
    rows = add(iota(shape, 0), scalar(INT32, 0))
    return convert(eq(rows, iota(shape, 1)), dtype)


def sum_over(x: Any, axis: int) -> Any:
    """The sum along one axis, which may be negative."""
    return lookup("reduce_sum").bind(x, axes=(axis % np.ndim(x),), out_sharding=None)


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices."""
    shape = np.shape(x)
    mask = eq(iota(shape[-2:], 0), iota(shape[-2:], 1))
    mask = broadcast(mask, shape, (len(shape) - 2, len(shape) - 1))
    with loosely():  # a mask is whole, and divided as what it is for
        return sum_over(select_n(mask, zeros(typeof(x)), x), -2)


def columns(x: Any, start: int, stop: int) -> Any:
    """Columns ``start`` to ``stop`` of every matrix (the last axis of any array)."""
    return _box(x, -1, start, stop)


def rows(x: Any, start: int, stop: int) -> Any:
    """Rows ``start`` to ``stop`` of every matrix."""
    return _box(x, -2, start, stop)


def _box(x: Any, axis: int, start: int, stop: int) -> Any:
    shape = np.shape(x)
    if (start, stop) == (0, shape[axis]):
        return x
    return along(x, axis, start, stop)


def concatenate(parts: Sequence[Any], axis: int) -> Any:
    """Arrays joined along an axis, which may be negative."""
    return lookup("concatenate").bind(*parts, dimension=axis % np.ndim(parts[0]))


def take_rows(x: Any, order: Any) -> Any:
    """The rows of every matrix of ``x`` in the order that ``order``, of shape (..., k), says."""
    shape = np.shape(x)
    ndim = len(shape)
    stack = tuple(range(ndim - 2))
    row = ndim - 2
    numbers = GatherDimensionNumbers(
        offset_dims=(ndim - 1,),
        collapsed_slice_dims=(row,),
        start_index_map=(row,),
        operand_batching_dims=stack,
        start_indices_batching_dims=stack,
    )
    sizes = (*[1] * (ndim - 1), shape[-1])
    return gather(x, insert_axis(order, -1), numbers, sizes, unique_indices=True)
