"""Programs on sums that are left to be made, as programs on the parts of these sums.

An array that is unreduced over mesh axes is stored as its parts: behind its own dimensions it has
one for each of these axes, divided over it, so that each device holds its part. A program whose
types are unreduced becomes one of such arrays here; who compiles and runs it knows nothing of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.control.jit import jit_p, jit_parameters
from weft.control.shard_map import has_marks
from weft.core.batching import AxisData, broadcast_axis, moveaxis
from weft.core.caches import per_program
from weft.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    Literal,
    jaxprs_in_params,
    with_programs,
)
from weft.core.registry import lookup
from weft.core.sharding import NamedSharding
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.division.explicit import loosely, moved, spec_of
from weft.division.marks import axes_of_sum, stored_aval
from weft.transforms.vmap import batch


@per_program
def has_sums(closed: ClosedJaxpr) -> bool:
    """Whether a type anywhere in a program is unreduced, outside of ``shard_map``."""
    return _has_sums(closed.jaxpr)


def _has_sums(jaxpr: Jaxpr) -> bool:
    if any(axes_of_sum(v.aval) for v in (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)):
        return True
    for eqn in jaxpr.eqns:
        if any(axes_of_sum(v.aval) for v in eqn.outvars) or eqn.primitive.name in _PARTS:
            return True
        if eqn.primitive.name == "shard_map" and has_marks(eqn.params):
            return True
        if any(map(_has_sums, jaxprs_in_params(eqn.params))):
            return True
    return False


@per_program
def stored(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program on parts of sums."""
    jaxpr = closed.jaxpr

    def run(*args: Any) -> list[Any]:
        consts = [parts_of(x) for x in closed.consts]
        env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

        def read(atom: Any) -> Any:
            return atom.val if type(atom) is Literal else env[atom]

        for eqn in jaxpr.eqns:
            found = _apply(eqn, [read(x) for x in eqn.invars])
            several = eqn.primitive.multiple_results
            for v, y in zip(eqn.outvars, found if several else [found], strict=True):
                env[v] = moved(y, stored_aval(v.aval))
        return [read(x) for x in jaxpr.outvars]

    with loosely():
        return stage(run, [stored_aval(v.aval) for v in jaxpr.invars], closed.debug_info)


def parts_of(x: Any) -> Any:
    """A constant of a program; of a sum, its parts."""
    return x._parts() if axes_of_sum(typeof(x)) else x


def _apply(eqn: Any, args: list[Any]) -> Any:
    """The results of an equation, of parts of sums."""
    primitive, params = eqn.primitive, eqn.params
    ins = [axes_of_sum(v.aval) for v in eqn.invars]
    outs = [axes_of_sum(v.aval) for v in eqn.outvars]
    leading: Sequence[Any] = ()
    if primitive.name in _RULES:
        if any(ins) or any(outs) or primitive.name in _PARTS:
            return _RULES[primitive.name](eqn, args)
    elif primitive.name == "shard_map":
        callee = primitive.callee(params)
        if has_sums(callee):
            return jit_p.bind(*args, **jit_parameters(stored(callee), "shard_map"))
    elif any(map(_has_sums, jaxprs_in_params(params))):
        params = with_programs(params, stored)
    elif not any(ins):
        params = _unmarked(params)
    leading, params = primitive.get_bind_params(params)
    if any(jaxprs_in_params(params)) or not any(ins):
        found = primitive.bind(*leading, *args, **params)
        if any(outs) and not any(jaxprs_in_params(params)):
            found = _in_all_parts(eqn.outvars[0].aval, found)
        return found
    if primitive.shardings is None:
        params = _unsaid(params)
    axes = max(ins, key=len)
    sizes = _sizes(eqn)
    several = primitive.multiple_results

    def one(*xs: Any) -> list[Any]:
        found = primitive.bind(*xs, **params)
        return found if several else [found]

    results = _mapped(one, args, ins, axes, sizes)
    return results if several else results[0]


def _sizes(eqn: Any) -> dict[Any, int]:
    for v in (*eqn.invars, *eqn.outvars):
        if axes_of_sum(v.aval):
            return dict(v.aval.divided.mesh.shape)
    return {}


def _unsaid(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters that say nothing of shardings: the types of results do."""
    given = ("out_sharding", "sharding")
    return {
        k: None if k in given and isinstance(v, NamedSharding) else v for k, v in params.items()
    }


def _unmarked(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters whose shardings leave no sums to be made."""
    found = dict(params)
    for key in ("out_sharding", "sharding"):
        given = found.get(key)
        if isinstance(given, NamedSharding) and given.spec.unreduced:
            found[key] = given.with_spec(given.spec.update(unreduced=frozenset()))
    return found


def _mapped(one: Any, args: Any, ins: Any, axes: Any, sizes: Any) -> list[Any]:
    """A function of single parts, of all: the dimensions of the axes are the last of each."""
    if not axes:
        return list(one(*args))
    *rest, last = axes
    dims = [np.ndim(x) - 1 if last in own else None for x, own in zip(args, ins, strict=True)]
    fewer = [tuple(a for a in own if a != last) for own in ins]
    inner = lambda *xs: _mapped(one, xs, fewer, rest, sizes)
    found, out_dims = batch(inner, AxisData(None, sizes[last]), args, dims)
    return [
        broadcast_axis(y, sizes[last], np.ndim(y)) if d is None else moveaxis(y, d, np.ndim(y) - 1)
        for y, d in zip(found, out_dims, strict=True)
    ]


def _in_all_parts(aval: Any, x: Any) -> Any:
    """Parts of which each is a value."""
    for axis in axes_of_sum(aval):
        x = broadcast_axis(x, aval.divided.mesh.shape[axis], np.ndim(x))
    return x


# --- operations that make sums, or leave them to be made ------------------------------------------


def _reshape(x: Any, shape: Sequence[int]) -> Any:
    return lookup("reshape").bind(x, new_sizes=tuple(shape), dimensions=None, sharding=None)


def _transposed(x: Any, order: Sequence[int]) -> Any:
    return lookup("transpose").bind(x, permutation=tuple(order))


def _total(x: Any, dims: Sequence[int]) -> Any:
    if not dims:
        return x
    return lookup("reduce_sum").bind(x, axes=tuple(dims), out_sharding=None)


def _split(x: Any, spec: Any, dims: Sequence[int], sizes: dict[Any, int]) -> tuple[Any, Any, Any]:
    """``x`` with dimensions split into one for each axis that divides them, and the rest; where
    the axes are, and where each old dimension is."""
    shape: list[int] = []
    axis_at: dict[Any, int] = {}
    at: list[int] = []
    for d, n in enumerate(np.shape(x)):
        for axis in spec[d] if d in dims else ():
            axis_at[axis] = len(shape)
            shape.append(sizes[axis])
            n //= sizes[axis]
        at.append(len(shape))
        shape.append(n)
    return _reshape(x, shape), axis_at, at


def _reduce_sum(eqn: Any, args: list[Any]) -> Any:
    (x,), aval, out = args, eqn.invars[0].aval, eqn.outvars[0].aval
    own, wanted, sizes = axes_of_sum(aval), axes_of_sum(out), _sizes(eqn)
    ndim = len(aval.shape)
    spec = (*spec_of(aval), *((),) * len(own))
    x, axis_at, at = _split(x, spec, eqn.params["axes"], sizes)
    for i, axis in enumerate(own):
        axis_at[axis] = at[ndim + i]
    kept = [at[d] for d in range(ndim) if d not in eqn.params["axes"]]
    order = [*kept, *[axis_at[axis] for axis in wanted]]
    rest = [i for i in range(np.ndim(x)) if i not in order]
    return _total(_transposed(x, [*order, *rest]), range(len(order), np.ndim(x)))


def _dot_general(eqn: Any, args: list[Any]) -> Any:
    wanted, sizes = axes_of_sum(eqn.outvars[0].aval), _sizes(eqn)
    params = _unsaid(eqn.params)
    contract, stacked = params["dimension_numbers"]
    ins = [axes_of_sum(v.aval) for v in eqn.invars]
    if any(ins):  # a product by what all devices share
        one = lambda *xs: [eqn.primitive.bind(*xs, **params)]
        return _mapped(one, args, ins, max(ins, key=len), sizes)[0]
    cut = []
    for x, v, dims, batched in zip(args, eqn.invars, contract, stacked, strict=True):
        x, axis_at, at = _split(x, spec_of(v.aval), dims, sizes)
        others = [axis_at[a] for a in axis_at if a not in wanted]
        summed = (*[at[d] for d in dims], *sorted(others))
        cut.append((x, summed, (*[axis_at[a] for a in wanted], *[at[d] for d in batched])))
    numbers = ((cut[0][1], cut[1][1]), (cut[0][2], cut[1][2]))
    found = eqn.primitive.bind(cut[0][0], cut[1][0], **{**params, "dimension_numbers": numbers})
    count = len(wanted)
    return _transposed(found, [*range(count, np.ndim(found)), *range(count)])


def _reshard(eqn: Any, args: list[Any]) -> Any:
    """Sums are made over axes that are unreduced no more. What was no sum is one of parts of which
    only one has each element."""
    (x,), aval, out = args, eqn.invars[0].aval, eqn.outvars[0].aval
    own, wanted = axes_of_sum(aval), axes_of_sum(out)
    ndim = len(aval.shape)
    x = _total(x, [ndim + i for i, axis in enumerate(own) if axis not in wanted])
    have = [axis for axis in own if axis in wanted]
    sizes = dict(out.divided.mesh.shape) if wanted else {}
    stays = [
        axes if tuple(a for a in axes if a not in wanted) == kept else ()
        for axes, kept in zip(spec_of(aval), spec_of(out), strict=True)
    ]  # dimensions of which no device is given more than it has
    for axis in wanted:
        if axis not in have:
            x = _one_part(x, axis, sizes, stays)
            have.append(axis)
    order = [*range(ndim), *[ndim + have.index(axis) for axis in wanted]]
    return _transposed(x, order)


def _one_part(x: Any, axis: Any, sizes: dict[Any, int], spec: Any) -> Any:
    """Parts along an axis that add up to ``x``: each has the elements that it had, or the first
    has all."""
    shape = (*np.shape(x), sizes[axis])
    kind = np.dtype(np.int32)
    along = lambda d: lookup("iota").bind(dtype=kind, shape=shape, dimension=d, sharding=None)
    place = along(len(shape) - 1)
    whose: Any = np.int32(0)
    for d, axes in enumerate(spec):
        if axis in axes:
            block = shape[d] // prod(sizes[a] for a in axes)
            after = prod(sizes[a] for a in axes[axes.index(axis) + 1 :])
            number = lookup("div").bind(along(d), np.full(shape, block * after, kind))
            whose = lookup("rem").bind(number, np.full(shape, sizes[axis], kind))
    if np.ndim(whose) == 0:
        whose = np.full(shape, 0, kind)
    every = broadcast_axis(x, sizes[axis], np.ndim(x))
    none = np.zeros(shape, typeof(x).dtype)
    return lookup("select_n").bind(lookup("eq").bind(place, whose), none, every)


def _same(eqn: Any, args: list[Any]) -> Any:
    return args[0]


def _spread(eqn: Any, args: list[Any]) -> Any:
    x = args[0]
    for axis in eqn.params["axes"]:
        x = broadcast_axis(x, eqn.params["mesh"].shape[axis], np.ndim(x))
    return x


def _one(eqn: Any, args: list[Any]) -> Any:
    x = args[0]
    for _ in eqn.params["axes"]:
        limits = [*np.shape(x)[:-1], 1]
        x = lookup("slice").bind(
            x, start_indices=(0,) * np.ndim(x), limit_indices=tuple(limits), strides=None
        )
        x = lookup("squeeze").bind(x, dimensions=(np.ndim(x) - 1,))
    return x


# Between types and the parts that stand for them, see prims.sums.
_PARTS = frozenset(["sum_to_parts", "parts_to_sum", "shared_to_parts", "parts_to_shared"])
_RULES = {
    "reduce_sum": _reduce_sum,
    "dot_general": _dot_general,
    "reshard": _reshard,
    "sum_to_parts": _same,
    "parts_to_sum": _same,
    "shared_to_parts": _spread,
    "parts_to_shared": _one,
}
