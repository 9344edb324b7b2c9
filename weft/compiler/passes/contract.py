"""Products in their simplest form.

A product reads its operands in any order, so a transposed operand need not be made, and a product
whose transpose alone is used is computed as that transpose. Conversions that a product asks for by
an algorithm or by its types become equations of their own. Products with nothing to reuse, of one
depth or of one row and column for each batch, become multiplications, which fuse with what is
around them.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

import numpy as np

from weft.base import knobs
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from weft.core.registry import lookup

Dims = tuple[int, ...]

# The types that are multiplied and summed as they are, and those that are in float32.
_EXACT = ("float32", "float64", "int32", "int64", "uint32", "uint64")
_NARROW = ("bfloat16", "float16")
# Multiplications of a product that is no more work than a call.
_MAX_INLINE_MULTIPLICATIONS = 256
# Many products of so few results and such a depth each are written out: batch, results, depth.
_MIN_UNROLLED_BATCH, _MAX_UNROLLED_RESULTS, _MAX_UNROLLED_DEPTH = 64, 16, 4


def uses_of(jaxpr: Jaxpr) -> Counter[Any]:
    """How often each variable is read, results counted."""
    uses = Counter(x for eqn in jaxpr.eqns for x in eqn.invars if type(x) is not Literal)
    uses.update(x for x in jaxpr.outvars if type(x) is not Literal)
    return uses


def users_of(jaxpr: Jaxpr) -> dict[Any, list[JaxprEqn]]:
    """The equations that read each variable."""
    users: dict[Any, list[JaxprEqn]] = {}
    for eqn in jaxpr.eqns:
        for x in eqn.invars:
            if type(x) is not Literal:
                users.setdefault(x, []).append(eqn)
    return users


def contract(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with products of and under transposes written as products alone.

    What nothing needs any more is left for ``prune``.
    """
    jaxpr = closed.jaxpr
    if not any(eqn.primitive.contracts for eqn in jaxpr.eqns):
        return closed
    uses = uses_of(jaxpr)
    made: dict[Any, Any] = {}
    eqns: list[Any] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.contracts:
            eqn = _with_operands(eqn, made)
        elif eqn.primitive.permutes:
            product = made.get(eqn.invars[0]) if type(eqn.invars[0]) is not Literal else None
            if product is not None and uses[eqn.invars[0]] == 1:
                eqn = _transposed(product, eqn) or eqn
        for v in eqn.outvars:
            made[v] = eqn
        eqns.append(eqn)
    plain = [e for eqn in eqns for product in _converted(eqn) for e in _multiplied(product)]
    return ClosedJaxpr(jaxpr.replace(eqns=plain), closed.consts)


def _free(ndim: int, *taken: Dims) -> Dims:
    used = {axis for axes in taken for axis in axes}
    return tuple(axis for axis in range(ndim) if axis not in used)


def _with_operands(eqn: Any, made: dict[Any, Any]) -> Any:
    """A product of what its operands are transposes of, where the result stays the same."""
    contracting, batch = eqn.params["dimension_numbers"]
    invars, sides = [], []
    for x, depth, outer in zip(eqn.invars, contracting, batch, strict=True):
        while True:
            source = made.get(x) if type(x) is not Literal else None
            if source is None or not source.primitive.permutes:
                break
            order = source.params["permutation"]
            free = [order[i] for i in _free(len(order), depth, outer)]
            if free != sorted(free):  # free axes of the result would change places
                break
            depth, outer = (tuple(order[i] for i in axes) for axes in (depth, outer))
            x = source.invars[0]
        invars.append(x)
        sides.append((depth, outer))
    (lhs_depth, lhs_outer), (rhs_depth, rhs_outer) = sides
    numbers = ((lhs_depth, rhs_depth), (lhs_outer, rhs_outer))
    if numbers == eqn.params["dimension_numbers"]:
        return eqn
    return eqn.replace(invars=invars, params={**eqn.params, "dimension_numbers": numbers})


def _transposed(product: Any, eqn: Any) -> Any:
    """The product that is the transpose of another, or None where no product is."""
    if not product.primitive.contracts or product.params["out_sharding"] is not None:
        return None
    (lhs_depth, rhs_depth), (lhs_outer, rhs_outer) = product.params["dimension_numbers"]
    order = eqn.params["permutation"]
    outer = len(lhs_outer)
    rows = product.invars[0].aval.ndim - len(lhs_depth) - outer
    first, rest = order[:outer], tuple(order[outer:])
    if sorted(first) != list(range(outer)):
        return None
    row_axes = tuple(range(outer, outer + rows))
    column_axes = tuple(range(outer + rows, len(order)))
    lhs_outer, rhs_outer = (tuple(axes[i] for i in first) for axes in (lhs_outer, rhs_outer))
    invars: Any = product.invars
    if rest == (*column_axes, *row_axes):
        invars = invars[::-1]
        numbers = ((rhs_depth, lhs_depth), (rhs_outer, lhs_outer))
    elif rest == (*row_axes, *column_axes):
        numbers = ((lhs_depth, rhs_depth), (lhs_outer, rhs_outer))
    else:
        return None
    params = {**product.params, "dimension_numbers": numbers}
    return product.replace(invars=invars, outvars=eqn.outvars, params=params)


# --- multiplications ------------------------------------------------------------------------------


class Writer:
    """Equations that stand for another one, under construction."""

    def __init__(self, eqn: Any) -> None:
        self.eqn = eqn
        self.eqns: list[Any] = []

    def bind(self, name: str, shape: Dims, dtype: Any, /, *xs: Any, **params: Any) -> Any:
        weak = name != "convert_element_type" and all(x.aval.weak_type for x in xs)
        out = Var(ShapedArray(shape, dtype, weak))
        made = self.eqn.replace(
            invars=list(xs), outvars=[out], primitive=lookup(name), params=params
        )
        self.eqns.append(made)
        return out

    def transpose(self, x: Any, order: Dims) -> Any:
        if order == tuple(range(len(order))):
            return x
        shape = tuple(x.aval.shape[i] for i in order)
        return self.bind("transpose", shape, x.aval.dtype, x, permutation=order)

    def reshape(self, x: Any, shape: Dims) -> Any:
        if x.aval.shape == shape:
            return x
        params = {"new_sizes": shape, "dimensions": None, "sharding": None}
        return self.bind("reshape", shape, x.aval.dtype, x, **params)

    def broadcast(self, x: Any, shape: Dims, dims: Dims) -> Any:
        if x.aval.shape == shape:
            return x
        params = {"shape": shape, "broadcast_dimensions": dims, "sharding": None}
        return self.bind("broadcast_in_dim", shape, x.aval.dtype, x, **params)

    def convert(self, x: Any, dtype: Any) -> Any:
        if x.aval.dtype == dtype:
            return x
        params = {"new_dtype": dtype, "weak_type": False, "sharding": None}
        return self.bind("convert_element_type", x.aval.shape, dtype, x, **params)

    def done(self, x: Any) -> list[Any]:
        """The equations, the last of which has the result of the one they stand for."""
        assert self.eqns[-1].outvars[0] is x
        self.eqns[-1] = self.eqns[-1].replace(outvars=self.eqn.outvars)
        return self.eqns


def _plain(dtypes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types in which a product of operands and a result of these types is computed.

    Sums of zeros and ones are zero only if all of them are, however they are rounded.
    """
    if dtypes[-1].kind == "c":
        return (np.result_type(*(d for d in dtypes if d.kind in "fc")),) * 3
    rare = [d.kind == "b" or d.name.startswith(("float8", "float4")) for d in dtypes]
    return tuple(np.dtype(np.float32) if r else d for d, r in zip(dtypes, rare, strict=True))


def _converted(eqn: Any) -> list[Any]:
    """A product whose algorithm and uncommon types are written as conversions around it."""
    if not eqn.primitive.contracts or any(type(x) is Literal for x in eqn.invars):
        return [eqn]
    out, precision = eqn.outvars[0].aval, eqn.params["precision"]
    given = (*(x.aval.dtype for x in eqn.invars), out.dtype)
    read = eqn.primitive.reading_dtypes(*given, precision)
    work, is_algorithm = _plain(read), hasattr(precision, "accumulation_type")
    if not is_algorithm and work == given:
        return [eqn]
    if read[-1].kind != "c" and any(d.kind == "c" for d in read):
        return [eqn]
    w = Writer(eqn)
    xs = [
        w.convert(w.convert(x, dtype), wide)
        for x, dtype, wide in zip(eqn.invars, read[:2], work[:2], strict=True)
    ]
    if is_algorithm:  # whose operands are rounded by now, as far as it asks for that
        fast = getattr(precision, "name", "") in ("TF32_TF32_F32", "BF16_BF16_F32")
        precision = None if fast else ("HIGHEST", "HIGHEST")
    params = {**eqn.params, "precision": precision, "preferred_element_type": work[2]}
    x = w.bind("dot_general", out.shape, work[2], *xs, **params)
    return w.done(w.convert(w.convert(x, read[2]), out.dtype))


def _written_out(w: Writer, eqn: Any, depth: int) -> list[Any]:
    """Many small products as sums of multiplications, so that vectors run along the results."""
    out = eqn.outvars[0].aval
    contracting, batch = eqn.params["dimension_numbers"]
    work = np.dtype(np.float32) if out.dtype.name in _NARROW else out.dtype
    first, sides = len(batch[0]), []
    for x, (depth_axis,), outer_axes in zip(eqn.invars, contracting, batch, strict=True):
        rest = _free(x.aval.ndim, (depth_axis,), outer_axes)
        x = w.convert(w.transpose(x, (*outer_axes, *rest, depth_axis)), work)
        dims = (*range(len(outer_axes)), *range(first, first + len(rest)))
        first += len(rest)
        shape = x.aval.shape[:-1]
        zeros = (0,) * len(shape)
        found = []
        for k in range(depth):
            cut = {"start_indices": (*zeros, k), "limit_indices": (*shape, k + 1), "strides": None}
            one = w.reshape(w.bind("slice", (*shape, 1), work, x, **cut), shape)
            found.append(w.broadcast(one, out.shape, dims))
        sides.append(found)
    total = None
    for left, right in zip(*sides, strict=True):
        term = w.bind("mul", out.shape, work, left, right, out_dtype=None)
        total = term if total is None else w.bind("add", out.shape, work, total, term)
    return w.done(w.convert(total, out.dtype))


def _multiplied(eqn: Any) -> list[Any]:
    """A product as multiplications and a sum, where it is small or reads nothing twice."""
    if not eqn.primitive.contracts or any(type(x) is Literal for x in eqn.invars):
        return [eqn]
    out = eqn.outvars[0].aval
    dtypes = {x.aval.dtype for x in eqn.invars} | {out.dtype}
    precision = eqn.params["precision"]
    if len(dtypes) > 1 or out.dtype.name not in _EXACT + _NARROW:
        return [eqn]
    if hasattr(precision, "accumulation_type") or eqn.params["out_sharding"] is not None:
        return [eqn]
    contracting, batch = eqn.params["dimension_numbers"]
    lhs = eqn.invars[0].aval.shape
    depth = tuple(lhs[i] for i in contracting[0])
    outer = tuple(lhs[i] for i in batch[0])
    free = tuple(out.shape[len(outer) :])
    one_depth, one_each = prod(depth) == 1, prod(free) == 1 and prod(outer) > 1
    # a few multiplications: in a loop, one function then holds them all
    # sums are in another order then: it holds for all sizes of a program, or for none
    tiny = prod(out.shape) * prod(depth) <= _MAX_INLINE_MULTIPLICATIONS
    small = len(depth) == 1 and prod(outer) >= _MIN_UNROLLED_BATCH
    small = small and prod(free) <= _MAX_UNROLLED_RESULTS and prod(depth) <= _MAX_UNROLLED_DEPTH
    if out.weak_type or 0 in out.shape or 0 in depth:
        return [eqn]
    if not (one_depth or one_each or tiny or small):
        return [eqn]
    if knobs.thread.reproducible and not one_depth:
        return [eqn]  # in the same order however many there are
    w = Writer(eqn)
    if small and not (one_depth or one_each or tiny):
        return _written_out(w, eqn, depth[0])
    work = np.dtype(np.float32) if out.dtype.name in _NARROW else out.dtype
    sides = []
    first = len(outer)
    for x, depth_axes, outer_axes in zip(eqn.invars, contracting, batch, strict=True):
        rest = _free(x.aval.ndim, depth_axes, outer_axes)
        sizes = tuple(x.aval.shape[i] for i in rest)
        x = w.convert(w.transpose(x, (*outer_axes, *rest, *depth_axes)), work)
        if one_depth:
            dims = (*range(len(outer)), *range(first, first + len(rest)))
            sides.append(w.broadcast(w.reshape(x, (*outer, *sizes)), out.shape, dims))
            first += len(rest)
        elif not one_each:
            last = range(out.ndim, out.ndim + len(depth))
            dims = (*range(len(outer)), *range(first, first + len(rest)), *last)
            sides.append(w.broadcast(x, (*out.shape, *depth), dims))
            first += len(rest)
        else:
            sides.append(w.reshape(x, (*outer, *depth)))
    x = w.bind("mul", sides[0].aval.shape, work, *sides, out_dtype=None)
    if not one_depth:
        kept = outer if one_each else out.shape
        axes = tuple(range(len(kept), len(kept) + len(depth)))
        x = w.bind("reduce_sum", kept, work, x, axes=axes, out_sharding=None)
    return w.done(w.convert(w.reshape(x, out.shape), out.dtype))
