"""Elementwise comparison, and selection by what it gives."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import Zero, is_undef
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, match_axis
from weft.core.dims.dim import broadcast_sizes
from weft.core.primitive import Primitive, divisions
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.prims.families import (
    ANY,
    EXTENDED,
    INEXACT,
    INTEGER,
    ORDERED,
    Elementwise,
    NonDifferentiable,
    align_batched,
    append_axes,
    broadcast_to,
    const,
    in_parts,
    kernel_complex,
    kind_of,
    lowered,
)


def bool_dtype(*_: Any, **__: Any) -> Any:
    return np.dtype(np.bool_)


class Comparison(NonDifferentiable):
    """An elementwise comparison: booleans."""

    accepts, result = ORDERED, staticmethod(bool_dtype)
    counts = "iu"


class Eq(Comparison):
    """Equal."""

    name, accepts = "eq", ANY | EXTENDED
    ref = staticmethod(operator.eq)  # unlike np.equal, knows the opaque elements of keys
    lower = lowered("eq")
    lower_parts = in_parts("eq")


class Ne(Comparison):
    """Not equal."""

    name, accepts = "ne", ANY | EXTENDED
    ref = staticmethod(operator.ne)
    lower = lowered("ne")
    lower_parts = in_parts("ne")


class Ge(Comparison):
    """Greater or equal."""

    name = "ge"
    ref = staticmethod(np.greater_equal)
    lower = lowered("ge")


class Gt(Comparison):
    """Greater."""

    name = "gt"
    ref = staticmethod(np.greater)
    lower = lowered("gt")


class Le(Comparison):
    """Less or equal."""

    name = "le"
    ref = staticmethod(np.less_equal)
    lower = lowered("le")


class Lt(Comparison):
    """Less."""

    name = "lt"
    ref = staticmethod(np.less)
    lower = lowered("lt")


class SelectN(Primitive):
    """One of several cases, chosen element by element."""

    name, form = "select_n", "map"
    masks, makes_masks = "taken", True
    counts = "iu"

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        which, *cases = specs
        found = divisions.check_alike(self.name, cases, avals[1:])
        if avals[0].shape and which != found and (divisions.in_mesh() or any(which)):
            raise divisions.different(self.name, avals)
        return [found]

    def lower(self, k: Any, which: Any, *cases: Any) -> Any:
        if which.dtype == np.bool_:
            return k.select(which, cases[-1], cases[0])
        result, reached = cases[0], cases[1 : dtypes.iinfo(which.dtype).max + 1]
        for i, case in enumerate(reached, 1):
            result = k.select(k.ge(which, k.like(which, i)), case, result)
        return result

    lower_parts = lower

    def shape(self, which: Any, *cases: Any) -> ShapedArray:
        if not cases:
            raise TypeError("select_n needs at least one case")
        first = cases[0]
        weak = True
        for case in cases:
            weak = weak and case.weak_type
            if case.shape != first.shape:
                shapes = ", ".join(str(c.shape) for c in cases)
                raise TypeError(f"select_n cases must have the same shape, got {shapes}")
            if case.dtype != first.dtype:
                kinds = ", ".join(c.str_short() for c in cases)
                raise TypeError(f"select_n cases must have the same dtype, got {kinds}")
        if which.shape and which.shape != first.shape:
            raise TypeError(
                f"select_n needs a predicate of shape () or {first.shape}, got {which.shape}"
            )
        if which.dtype != np.bool_ and not kind_of(which.dtype) & INTEGER:
            raise TypeError(f"select_n needs a bool or integer predicate, got {which.str_short()}")
        if which.dtype == np.bool_ and len(cases) > 2:
            raise TypeError(f"select_n with a boolean predicate takes 2 cases, got {len(cases)}")
        return ShapedArray(first.shape, first.dtype, weak)

    @staticmethod
    def ref(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
        out = cases[0].copy()
        for i, case in enumerate(cases[1:], 1):
            out = np.where(which >= i, case, out)
        return out.astype(cases[0].dtype)

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        which, *cases = primals
        out = self.bind(which, *cases)
        given = tangents[1:]
        if all(type(t) is Zero for t in given):
            return out, Zero.from_primal(out)
        zero = const(out, 0)
        filled = [broadcast_to(zero, np.shape(out)) if type(t) is Zero else t for t in given]
        return out, self.bind(which, *filled)

    def transpose(self, ct: Any, which: Any, *cases: Any) -> list[Any]:
        if type(ct) is Zero:
            return [None, *(Zero(c.aval) if is_undef(c) else None for c in cases)]
        zero = broadcast_to(const(ct, 0), np.shape(ct))
        grads: list[Any] = []
        for i, case in enumerate(cases):
            if not is_undef(case):
                grads.append(None)
                continue
            grads.append(self.bind(which, *[ct if j == i else zero for j in range(len(cases))]))
        return [None, *grads]

    def taken(self, which: Any, *cases: Any) -> list[Any]:
        last = len(cases) - 1
        masks: list[Callable[[], Any]]
        if typeof(which).dtype == np.bool_:
            masks = [lambda: lookup("not").bind(which), lambda: which]
        else:
            masks = [partial(_is_case, which, i, last) for i in range(len(cases))]
        return [None, *(mask if is_undef(c) else None for c, mask in zip(cases, masks))]

    def batch(self, axis: AxisData, args: Any, dims: Any) -> tuple[Any, int]:
        which, *cases = args
        which_dim, *case_dims = dims
        if which_dim is None and not np.ndim(which):
            aligned, dim = align_batched(axis, cases, case_dims)
            shape = broadcast_sizes(*(np.shape(x) for x in aligned))
            return self.bind(which, *(broadcast_to(x, shape) for x in aligned)), dim
        rank = np.ndim(cases[0]) - (case_dims[0] is not None)
        moved = []
        for x, d in zip(args, dims, strict=True):
            front = match_axis(axis.size, d, 0, x)
            moved.append(append_axes(front, rank + 1 - np.ndim(front)))
        shape = broadcast_sizes(*(np.shape(x) for x in moved))
        return self.bind(*(broadcast_to(x, shape) for x in moved)), 0


class Switch(SelectN):
    """``select_n`` between pieces of one function, as those of relu.

    Their derivatives are finite wherever the function is. Cotangents of pieces that weren't taken
    stay zero there, so no mask begins here. Masks that come back to it go on.
    """

    masks, makes_masks = "passed", False


class ZeroUntaken(Elementwise):
    """A cotangent with zeros for NaNs where a selection took another case.

    ``live`` is true where a case was taken. Elsewhere the cotangent is zero, whatever infinity it
    was multiplied by. Numbers stay as they are, so that nothing but NaNs changes. The backward pass
    binds it, see ``transforms.masks``; there its own cotangent gets the mask.
    """

    name = "zero_untaken"
    masks, makes_masks = "untaken", True

    def shape(self, live: Any, x: Any) -> ShapedArray:
        if live.dtype != np.bool_ or not kind_of(x.dtype) & INEXACT:
            raise TypeError(
                "zero_untaken takes booleans and floating or complex numbers, got"
                f" {live.str_short()} and {x.str_short()}"
            )
        if live.shape and live.shape != x.shape:
            raise TypeError(
                f"zero_untaken needs booleans of shape () or {x.shape}, got {live.shape}"
            )
        return ShapedArray(x.shape, x.dtype, x.weak_type)

    @staticmethod
    def ref(live: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.where(live | (x == x), x, np.zeros((), x.dtype))

    def lower(self, k: Any, live: Any, x: Any) -> Any:
        return k.select(k.or_(live, k.eq(x, x)), x, k.like(x, 0))

    def lower_parts(self, k: Any, live: Any, x: Any) -> Any:
        zero = x._replace(parts=tuple(k.like(p, 0) for p in x.parts))
        return k.select(k.or_(live, kernel_complex.eq(k, x, x)), x, zero)

    def d0(self, g: Any, out: Any, live: Any, x: Any) -> Any:
        return Zero.from_primal(out)

    def d1(self, g: Any, out: Any, live: Any, x: Any) -> Any:
        return self.bind(live, g)

    def transpose(self, ct: Any, live: Any, x: Any) -> list[Any]:
        return [None, ct]

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        (live, x), dim = align_batched(axis, args, dims)
        shape = broadcast_sizes(np.shape(live), np.shape(x))
        live = broadcast_to(live, shape) if np.ndim(live) else live
        return self.bind(live, broadcast_to(x, shape)), dim


def _is_case(which: Any, i: int, last: int) -> Any:
    """Where case ``i`` is chosen; numbers out of range choose the first or the last case."""
    compare = ge if i == last else le if i == 0 else eq
    return compare(which, const(which, i))


eq_p, ne_p, ge_p, gt_p, le_p, lt_p = Eq(), Ne(), Ge(), Gt(), Le(), Lt()
select_n_p, switch_p, zero_untaken_p = SelectN(), Switch(), ZeroUntaken()

eq, ne, ge, gt, le, lt = eq_p.bind, ne_p.bind, ge_p.bind, gt_p.bind, le_p.bind, lt_p.bind
select_n = select_n_p.bind
