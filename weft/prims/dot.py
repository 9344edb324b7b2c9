"""Products of arrays: ``dot_general``. The work is left to ``np.matmul``; narrow floats are
multiplied and summed in float32."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.base.functional import lru
from weft.core.ad import is_undef
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData
from weft.core.primitive import Primitive, divisions
from weft.core.trace import typeof
from weft.division.factors import Factors, labelled
from weft.prims.arithmetic import mul
from weft.prims.convert import convert
from weft.prims.families import BOOL, COMPLEX, EXTENDED, FLOAT, INTEGER, UINT, is_narrow, kind_of
from weft.prims.precision import DotAlgorithm, DotAlgorithmPreset, algorithm_dtypes
from weft.prims.reduce import reduce_sum
from weft.prims.shape import transpose

Dims = tuple[int, ...]
DimensionNumbers = tuple[tuple[Dims, Dims], tuple[Dims, Dims]]


def remaining(ndim: int, *taken: Sequence[int]) -> Dims:
    """The axes that are in none of the sequences, in order."""
    used = {axis for axes in taken for axis in axes}
    return tuple(axis for axis in range(ndim) if axis not in used)


# --- shapes and dtypes ----------------------------------------------------------------------------


def check_dimensions(name: str, lhs: Dims, rhs: Dims, dimension_numbers: DimensionNumbers) -> None:
    """Raise TypeError unless the dimension numbers fit operands of these shapes."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers

    def error(problem: str) -> TypeError:
        return TypeError(
            f"{name}: {problem}. Got lhs of shape {lhs} and rhs of shape {rhs} with"
            f" dimension_numbers=((lhs_contracting={lhs_contract}, rhs_contracting={rhs_contract}),"
            f" (lhs_batch={lhs_batch}, rhs_batch={rhs_batch}))"
        )

    sides = (("lhs", lhs, lhs_contract, lhs_batch), ("rhs", rhs, rhs_contract, rhs_batch))
    for side, shape, contract, batch in sides:
        for axis in (*contract, *batch):
            if not 0 <= axis < len(shape):
                raise error(f"dimension {axis} is not an axis of {side}, which has {len(shape)}")
        if len(set(contract)) != len(contract) or len(set(batch)) != len(batch):
            raise error(f"a dimension of {side} is named twice")
        if set(contract) & set(batch):
            raise error(f"a dimension of {side} is both contracting and batch")
    pairs = (
        ("contracting", lhs_contract, rhs_contract),
        ("batch", lhs_batch, rhs_batch),
    )
    for what, left, right in pairs:
        sizes = tuple(lhs[i] for i in left), tuple(rhs[i] for i in right)
        if sizes[0] != sizes[1]:
            raise error(f"{what} dimensions must have equal sizes, got {sizes[0]} and {sizes[1]}")


@lru()
def dot_shape(lhs: Dims, rhs: Dims, dimension_numbers: DimensionNumbers) -> Dims:
    """The shape of a product: batch, free dimensions of lhs, free dimensions of rhs."""
    check_dimensions("dot_general", lhs, rhs, dimension_numbers)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    lhs_free = remaining(len(lhs), lhs_contract, lhs_batch)
    rhs_free = remaining(len(rhs), rhs_contract, rhs_batch)
    sizes = [lhs[i] for i in (*lhs_batch, *lhs_free)]
    return (*sizes, *(rhs[i] for i in rhs_free))


def _bits(dtype: Any) -> int:
    """The width of a number, of one part if it is complex."""
    kind = kind_of(dtype)
    return 1 if kind == BOOL else dtypes.itemsize_bits(dtype) // (2 if kind == COMPLEX else 1)


def _rank(dtype: Any) -> tuple[Any, ...]:
    """How much a dtype holds; of two operands' dtypes the product has the higher."""
    complex_, real = False, dtype
    if kind_of(dtype) == COMPLEX:
        complex_, real = True, np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    exponent = mantissa = -1
    if kind_of(real) == FLOAT:
        info = dtypes.finfo(real)
        exponent, mantissa = info.maxexp, info.nmant
    return complex_, exponent, mantissa, _bits(real), kind_of(real) != UINT


@lru()
def dot_dtype(name: str, lhs: Any, rhs: Any, preferred: Any, exact: bool) -> Any:
    """The dtype of a product; ``exact`` forbids preferring one narrower than integer operands'."""
    if lhs == rhs:
        dtype = lhs
    else:
        left, right = _rank(lhs), _rank(rhs)
        if left == right:
            raise TypeError(
                f"{name} cannot choose between operands of dtypes {lhs} and {rhs}; convert one with"
                " lax.convert_element_type"
            )
        dtype = lhs if left > right else rhs
    if kind_of(dtype) == EXTENDED:
        raise TypeError(f"{name} multiplies numbers, got elements of dtype {dtype}")
    if preferred is None or preferred == dtype:
        return dtype
    if exact and kind_of(dtype) != FLOAT and _bits(preferred) < _bits(dtype):
        raise TypeError(
            f"{name}: preferred_element_type {preferred} is narrower than {dtype}, the dtype of the"
            " product; convert the result instead"
        )
    return preferred


def is_algorithm(precision: Any) -> bool:
    return isinstance(precision, (DotAlgorithm, DotAlgorithmPreset))


def reading_dtypes(lhs: Any, rhs: Any, out: Any, precision: Any) -> tuple[Any, Any, Any]:
    """The dtypes in which a product reads both operands and rounds its result."""
    if is_algorithm(precision):
        return algorithm_dtypes(precision, lhs, rhs, out)
    return lhs, rhs, out


# --- the reference --------------------------------------------------------------------------------


def working_dtype(out: Any, operands: Iterable[Any]) -> Any:
    """The dtype in which NumPy multiplies and sums operands for a result of dtype ``out``."""
    inexact = [d for d in (out, *operands) if kind_of(d) & (FLOAT | COMPLEX)]
    if inexact:
        wide = [np.dtype(np.float32) if is_narrow(d) else d for d in inexact]
        return np.result_type(*wide)
    if kind_of(out) & INTEGER and dtypes.itemsize_bits(out) < 8:
        return np.dtype(np.int32)
    return out


def contract(lhs: np.ndarray, rhs: np.ndarray, dimension_numbers: DimensionNumbers) -> np.ndarray:
    """The product of two NumPy arrays of one dtype."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    lhs_free = remaining(lhs.ndim, lhs_contract, lhs_batch)
    rhs_free = remaining(rhs.ndim, rhs_contract, rhs_batch)
    batch = [lhs.shape[i] for i in lhs_batch]
    rows, columns = [lhs.shape[i] for i in lhs_free], [rhs.shape[i] for i in rhs_free]
    depth = prod(lhs.shape[i] for i in lhs_contract)
    left = lhs.transpose((*lhs_batch, *lhs_free, *lhs_contract))
    right = rhs.transpose((*rhs_batch, *rhs_contract, *rhs_free))
    out = np.matmul(
        _for_blas(left.reshape((*batch, prod(rows), depth))),
        _for_blas(right.reshape((*batch, depth, prod(columns)))),
    )
    return out.reshape((*batch, *rows, *columns))


def _for_blas(matrix: np.ndarray) -> np.ndarray:
    """``matrix`` with one of its last two axes contiguous, else ``matmul`` avoids BLAS."""
    if matrix.itemsize in matrix.strides[-2:]:
        return matrix
    return np.ascontiguousarray(matrix)


def multiply(
    lhs: np.ndarray, rhs: np.ndarray, dimension_numbers: DimensionNumbers, out: Any, precision: Any
) -> np.ndarray:
    """The product in at least the precision of ``out``, as the algorithm asks if there is one."""
    left, right, total = reading_dtypes(lhs.dtype, rhs.dtype, out, precision)
    lhs, rhs = lhs.astype(left, copy=False), rhs.astype(right, copy=False)
    work = working_dtype(total, (lhs.dtype, rhs.dtype))
    product = contract(
        lhs.astype(work, copy=False), rhs.astype(work, copy=False), dimension_numbers
    )
    if kind_of(work) == COMPLEX and kind_of(total) != COMPLEX:
        product = product.real
    return product if total == out else product.astype(total)


# --- dot_general ----------------------------------------------------------------------------------


def _shifted(dims: Dims, batch_dim: int) -> Dims:
    """Dimensions of an operand after a batch dimension is inserted."""
    return tuple(d + (d >= batch_dim) for d in dims)


@lru()
def batched_dimensions(
    ndims: tuple[int, int],
    dims: tuple[int | None, int | None],
    dimension_numbers: DimensionNumbers,
) -> tuple[DimensionNumbers, int]:
    """Dimension numbers of a product of batched operands, and the result's batch dimension."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    (lhs_ndim, rhs_ndim), (lhs_dim, rhs_dim) = ndims, dims
    if lhs_dim is not None:
        lhs_contract = _shifted(lhs_contract, lhs_dim)
        lhs_batch = _shifted(lhs_batch, lhs_dim)
    if rhs_dim is not None:
        rhs_contract = _shifted(rhs_contract, rhs_dim)
        rhs_batch = _shifted(rhs_batch, rhs_dim)
    if lhs_dim is not None and rhs_dim is not None:
        lhs_batch, rhs_batch = (lhs_dim, *lhs_batch), (rhs_dim, *rhs_batch)
        out_dim = 0
    elif lhs_dim is not None:
        out_dim = len(lhs_batch) + remaining(lhs_ndim, lhs_contract, lhs_batch).index(lhs_dim)
    else:
        assert rhs_dim is not None
        free = remaining(rhs_ndim, rhs_contract, rhs_batch)
        out_dim = lhs_ndim - len(lhs_contract) + free.index(rhs_dim)
    return ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)), out_dim


@lru()
def _cotangent_dimensions(
    x_ndim: int, y_ndim: int, dimension_numbers: DimensionNumbers, swapped: bool
) -> tuple[DimensionNumbers, Dims]:
    """Dimension numbers of cotangent times y, and the permutation that makes x of the product."""
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    x_free = remaining(x_ndim, x_contract, x_batch)
    y_free = remaining(y_ndim, y_contract, y_batch)
    start = len(x_batch) + (0 if swapped else len(x_free))
    ct_free = tuple(range(start, start + len(y_free)))
    numbers = ((ct_free, y_free), (tuple(range(len(x_batch))), y_batch))
    by_y = sorted(range(len(y_contract)), key=y_contract.__getitem__)
    axes = (*x_batch, *x_free, *(x_contract[i] for i in by_y))
    return numbers, inverse(axes)


def inverse(permutation: Sequence[int]) -> Dims:
    """The permutation that undoes another."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


class DotGeneral(Primitive):
    """Sums of products over contracting dimensions, elementwise over batch dimensions."""

    arithmetic = True
    name = "dot_general"
    neutral = "products.dot_general"
    fixed_order = "fixed_order.complex_dot"
    in_blocks = "once"
    reading_dtypes = staticmethod(reading_dtypes)

    products = contracts = True
    masks = "product"
    overflows = "sums of products"

    def flops(self, avals: Any, outs: Any, params: dict[str, Any]) -> float:
        (summed, _), _ = params["dimension_numbers"]
        return 2 * outs[0].size * prod(avals[0].shape[i] for i in summed)

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        (x_sum, y_sum), (x_batch, y_batch) = params["dimension_numbers"]
        x: list[Any] = [("x", d) for d in range(len(avals[0].shape))]
        y: list[Any] = [("y", d) for d in range(len(avals[1].shape))]
        for i, (d, e) in enumerate(zip(x_batch, y_batch, strict=True)):
            x[d] = y[e] = ("batch", i)
        for i, (d, e) in enumerate(zip(x_sum, y_sum, strict=True)):
            x[d] = y[e] = ("sum", i)
        free = [n for names in (x, y) for n in names if n[0] in "xy"]
        out = [*(("batch", i) for i in range(len(x_batch))), *free]
        sums = {("sum", i): "add" for i in range(len(x_sum))}
        return labelled([x, y], [out], avals, outs, sums)

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        factors = self.factors(avals, outs, params)
        return divisions.contracted(factors, specs, avals, outs)

    def shape(
        self,
        lhs: Any,
        rhs: Any,
        *,
        dimension_numbers: Any,
        precision: Any,
        preferred_element_type: Any,
        out_sharding: Any,
    ) -> ShapedArray:
        dtype = lhs.dtype
        if dtype != rhs.dtype or preferred_element_type is not None:
            exact = not is_algorithm(precision)
            dtype = dot_dtype("dot_general", dtype, rhs.dtype, preferred_element_type, exact)
        shape = dot_shape(lhs.shape, rhs.shape, dimension_numbers)
        return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)

    @staticmethod
    def ref(
        lhs: np.ndarray,
        rhs: np.ndarray,
        *,
        dimension_numbers: Any,
        precision: Any,
        preferred_element_type: Any,
        out_sharding: Any,
    ) -> np.ndarray:
        exact = not is_algorithm(precision)
        out = dot_dtype("dot_general", lhs.dtype, rhs.dtype, preferred_element_type, exact)
        return multiply(lhs, rhs, dimension_numbers, out, precision)

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        """Whether it is a product of two complex vectors, which is a sum, and not the library's."""
        lhs, rhs = avals
        wanted = params["preferred_element_type"]
        if len(lhs.shape) != 1 or len(rhs.shape) != 1 or not params["dimension_numbers"][0][0]:
            return False
        return (
            kind_of(lhs.dtype) == COMPLEX and lhs.dtype == rhs.dtype and wanted in (None, lhs.dtype)
        )

    def decompose(self, lhs: Any, rhs: Any, **_: Any) -> Any:
        """The sum of products of two vectors."""
        return reduce_sum(mul(lhs, rhs), (0,))

    def d0(self, g: Any, out: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
        return self.bind(g, rhs, **params)

    def d1(self, g: Any, out: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
        return self.bind(lhs, g, **params)

    def transpose(self, ct: Any, lhs: Any, rhs: Any, **params: Any) -> list[Any]:
        if is_undef(lhs):
            return [self._cotangent(ct, lhs.aval, rhs, False, **params), None]
        (left, right), (lhs_batch, rhs_batch) = params["dimension_numbers"]
        params["dimension_numbers"] = (right, left), (rhs_batch, lhs_batch)
        return [None, self._cotangent(ct, rhs.aval, lhs, True, **params)]

    def _cotangent(self, ct: Any, x: Any, y: Any, swapped: bool, **params: Any) -> Any:
        given = params.pop("dimension_numbers")
        numbers, permutation = _cotangent_dimensions(x.ndim, typeof(y).ndim, given, swapped)
        out = transpose(self.bind(ct, y, dimension_numbers=numbers, **params), permutation)
        return out if typeof(out).dtype == x.dtype else convert(out, x.dtype, x.weak_type)

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, dimension_numbers: Any, **params: Any
    ) -> tuple[Any, int]:
        lhs, rhs = args
        ndims = typeof(lhs).ndim, typeof(rhs).ndim
        numbers, dim = batched_dimensions(ndims, tuple(dims), dimension_numbers)
        return self.bind(lhs, rhs, dimension_numbers=numbers, **params), dim


dot_general_p = DotGeneral()
