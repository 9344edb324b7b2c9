"""Sums that are left to be made: which types are unreduced or reduced over mesh axes, by operation.

Of an array that is unreduced over an axis each device holds one part of a sum; what is linear may
be done to the parts. An array that is reduced over an axis is the same on all devices, and its
cotangent is unreduced. Types say so outside of ``shard_map`` in their specs, inside in ``mat``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.avals import ShapedArray
from weft.core.sharding import NamedSharding, PartitionSpec, ShardingTypeError, axes_of
from weft.core.trace import state

Axes = frozenset[Any]
NONE: Axes = frozenset()


def unreduced(aval: Any) -> Axes:
    """The axes over which values of a type are parts of sums."""
    if type(aval) is not ShapedArray:
        return NONE
    if aval.mat.unreduced:
        return aval.mat.unreduced
    return NONE if aval.divided is None else aval.divided.spec.unreduced


def reduced(aval: Any) -> Axes:
    """The axes over which cotangents of a type are parts of sums."""
    if type(aval) is not ShapedArray:
        return NONE
    if aval.mat.reduced:
        return aval.mat.reduced
    return NONE if aval.divided is None else aval.divided.spec.reduced


def axes_of_sum(aval: Any) -> tuple[Any, ...]:
    """The axes over which a type is unreduced, in the order of its mesh."""
    divided = getattr(aval, "divided", None)
    if divided is None or not divided.spec.unreduced:
        return ()
    return tuple(n for n in divided.mesh.axis_names if n in divided.spec.unreduced)


def stored_aval(aval: Any) -> Any:
    """The type of the parts of a sum; any other type without what it says of sums."""
    axes = axes_of_sum(aval)
    if not axes:
        if not reduced(aval) or aval.divided is None:
            return aval
        return aval.update(sharding=aval.divided.with_spec(tuple(aval.divided.spec)))
    sizes = [aval.divided.mesh.shape[n] for n in axes]
    spec = PartitionSpec(*aval.divided.spec, *axes)
    return ShapedArray(
        (*aval.shape, *sizes),
        aval.dtype,
        aval.weak_type,
        sharding=NamedSharding(aval.divided.mesh, spec),
    )


def marked(avals: Any) -> bool:
    """Whether any of these types is unreduced or reduced."""
    return any(unreduced(a) or reduced(a) for a in avals)


def of_results(
    primitive: Any, avals: Any, params: dict[str, Any], said: Any, mesh: Any
) -> tuple[Axes, Axes]:
    """The axes over which an operation's results are unreduced, and reduced."""
    if state.loosely:
        return _loosely(primitive, avals, params)
    rule = _RULES.get(primitive.name)
    if rule is not None:
        found: tuple[Axes, Axes] = rule(primitive, avals, params, said, mesh)
        return found
    if primitive.form == "map" or primitive.elementwise:
        return _elementwise(primitive, avals, mesh)
    if mesh is None:
        return NONE, NONE
    if marked(avals):
        raise _refused(primitive, avals)
    return (NONE, NONE) if said is None else (said.spec.unreduced, said.spec.reduced)


def _loosely(primitive: Any, avals: Any, params: dict[str, Any]) -> tuple[Axes, Axes]:
    """Where the operation is a step of a rule: it is linear in the parts of sums."""
    parts: Axes = frozenset().union(*map(unreduced, avals))
    if state.sums and primitive.name in _SUMS:
        parts = parts | (_SUMS[primitive.name](avals, params) & state.sums)
    if primitive.name == "dot_general":
        return parts, NONE
    shared: Axes = frozenset().union(*map(reduced, avals))
    return parts, frozenset() if parts else shared


def _refused(primitive: Any, avals: Any) -> NotImplementedError:
    given = ", ".join(a.str_short() for a in avals)
    return NotImplementedError(
        f"{primitive.name} of {given}: what it is of a sum that is left to be made is not defined;"
        " compute the sum first, as with weft.reshard(x, P())"
    )


# --- rules ----------------------------------------------------------------------------------------


def _shared(name: str, avals: Any, mesh: Any) -> Axes:
    """The axes over which all operands are reduced: scalars fit any, others must be so too."""
    wanted = {r for a in avals if (r := reduced(a))}
    if len(wanted) > 1:
        raise ShardingTypeError(
            f"{name} takes operands that are reduced over the same axes, got"
            f" {' and '.join(a.str_short() for a in avals)}"
        )
    axes = wanted.pop() if wanted else NONE
    for a in avals if axes else ():
        if mesh is not None and len(avals) == 2 and not a.shape and not unreduced(a):
            continue
        if reduced(a) != axes and unreduced(a) != axes:
            raise ShardingTypeError(
                f"{name} cannot combine {a.str_short()} with an operand that is reduced over"
                f" {', '.join(map(str, axes))}; move one of them first with weft.reshard"
            )
    return axes


def _elementwise(primitive: Any, avals: Any, mesh: Any) -> tuple[Axes, Axes]:
    axes = _shared(primitive.name, avals, mesh) if len(avals) > 1 else reduced(avals[0])
    if any(map(unreduced, avals)):
        raise _refused(primitive, avals)
    return NONE, axes


def _add(primitive: Any, avals: Any, params: Any, said: Any, mesh: Any) -> tuple[Axes, Axes]:
    axes = _shared(primitive.name, avals, mesh)
    first, second = map(unreduced, avals)
    if first != second:
        raise ShardingTypeError(
            f"{primitive.name} of {avals[0].str_short()} and {avals[1].str_short()}: both must be "
            "unreduced over the same axes, or neither; compute the sum first, as with"
            " weft.reshard(x, P())"
        )
    return first, axes


def _mul(primitive: Any, avals: Any, params: Any, said: Any, mesh: Any) -> tuple[Axes, Axes]:
    axes = _shared(primitive.name, avals, mesh)
    left, right = avals
    if unreduced(left) and unreduced(right):
        raise ShardingTypeError(
            f"mul of {left.str_short()} and {right.str_short()}: the product of two sums is not"
            " the sum of products; compute one of the sums first, as with weft.reshard(x, P())"
        )
    parts = unreduced(left) or unreduced(right)
    other = right if unreduced(left) else left
    if parts and reduced(other) != parts:
        raise ShardingTypeError(
            f"mul of {left.str_short()} and {right.str_short()}: the other factor of an unreduced "
            "operand must be reduced over the same axes; move it first, as with"
            f" weft.reshard(x, P(reduced={set(parts)}))"
        )
    return parts, NONE if parts else axes


def _first(primitive: Any, avals: Any, params: Any, said: Any, mesh: Any) -> tuple[Axes, Axes]:
    """The results are what the first operand is."""
    return unreduced(avals[0]), reduced(avals[0])


def _made(primitive: Any, avals: Any, params: Any, said: Any, mesh: Any) -> tuple[Axes, Axes]:
    """The results are what the first operand is, or what is said of them."""
    if said is None:
        return _first(primitive, avals, params, said, mesh)
    return said.spec.unreduced, said.spec.reduced


def _only_reduced(
    primitive: Any, avals: Any, params: Any, said: Any, mesh: Any
) -> tuple[Axes, Axes]:
    if any(map(unreduced, avals)):
        raise _refused(primitive, avals)
    return NONE, reduced(avals[0])


def _joined(primitive: Any, avals: Any, params: Any, said: Any, mesh: Any) -> tuple[Axes, Axes]:
    """All operands that are unreduced, or reduced, are so over the same axes."""
    found = []
    for kind in (unreduced, reduced):
        sets = {kind(a) for a in avals}
        if len(sets) > 1:
            raise ShardingTypeError(
                f"{primitive.name} takes operands that are {kind.__name__} over the same axes, got"
                f" {', '.join(a.str_short() for a in avals)}"
            )
        found.append(sets.pop() if sets else NONE)
    return found[0], found[1]


def _written(primitive: Any, avals: Any, params: Any, said: Any, mesh: Any) -> tuple[Axes, Axes]:
    """An array and what is written into it are unreduced and reduced over the same axes."""
    a, b = avals[:2]
    if unreduced(a) != unreduced(b) or reduced(a) != reduced(b):
        raise ShardingTypeError(
            f"{primitive.name} of {a.str_short()} and {b.str_short()}: both must be unreduced, or"
            " reduced, over the same axes; move one of them first with weft.reshard"
        )
    return unreduced(a), reduced(a)


def _selected(primitive: Any, avals: Any, params: Any, said: Any, mesh: Any) -> tuple[Axes, Axes]:
    which, *cases = avals
    axes = _joined(primitive, cases, params, said, mesh)
    if unreduced(which):
        raise _refused(primitive, avals)
    return axes


def _reshaped(primitive: Any, avals: Any, params: Any, said: Any, mesh: Any) -> tuple[Axes, Axes]:
    x = avals[0]
    if said is not None:
        spec = said.spec
        if (spec.unreduced, spec.reduced) != (unreduced(x), reduced(x)):
            raise ValueError(
                f"reshape of {x.str_short()} was given out_sharding={spec}: it does not change a "
                "sum, so both must be unreduced, or reduced, over the same axes; use"
                " weft.reshard"
            )
    return unreduced(x), reduced(x)


def _dot(primitive: Any, avals: Any, params: Any, said: Any, mesh: Any) -> tuple[Axes, Axes]:
    given = " and ".join(a.str_short() for a in avals)
    if any(map(unreduced, avals)):
        raise ShardingTypeError(
            f"dot_general of {given}: compute the sum first, as with weft.reshard(x, P())"
        )
    if said is None or not said.spec.unreduced:
        return NONE, NONE
    (left, right), _ = params["dimension_numbers"]
    sides = [
        [axes_of(part) for part in _parts(a, dims)]
        for a, dims in zip(avals, (left, right), strict=True)
    ]
    summed = {axis for part in sides[0] for axis in part}
    if sides[0] != sides[1] or summed != said.spec.unreduced:
        raise ShardingTypeError(
            f"dot_general of {given} was given out_sharding={said.spec}: the unreduced axes must "
            "be those that shard the summed dimensions of both operands"
        )
    return said.spec.unreduced, NONE


def _parts(aval: Any, dims: Sequence[int]) -> list[Any]:
    """The entries of a type's spec for some dimensions."""
    if aval.divided is None:
        return [None] * len(dims)
    return [aval.divided.spec[d] for d in dims]


def _dot_axes(avals: Any, params: dict[str, Any]) -> Axes:
    (left, right), _ = params["dimension_numbers"]
    sides = [_parts(a, dims) for a, dims in zip(avals, (left, right), strict=True)]
    alike = [a for a, b in zip(*sides, strict=True) if a == b]
    return frozenset(axis for part in alike for axis in axes_of(part))


def _sum_axes(avals: Any, params: dict[str, Any]) -> Axes:
    parts = _parts(avals[0], params["axes"])
    return frozenset(axis for part in parts for axis in axes_of(part))


def _sum(primitive: Any, avals: Any, params: Any, said: Any, mesh: Any) -> tuple[Axes, Axes]:
    x = avals[0]
    if said is None or not said.spec.unreduced:
        return unreduced(x), reduced(x)
    if not said.spec.unreduced <= _sum_axes(avals, params) | unreduced(x):
        raise ShardingTypeError(
            f"reduce_sum of {x.str_short()} over {params['axes']} was given"
            f" out_sharding={said.spec}: only axes that divide the summed dimensions can be"
            " unreduced"
        )
    return said.spec.unreduced, reduced(x)


# Operations that sum over dimensions, and the axes that divide these: what they give may be left as
# the parts of the sum.
_SUMS = {"dot_general": _dot_axes, "reduce_sum": _sum_axes}

_RULES: dict[str, Any] = {
    "add": _add,
    "add_any": _add,
    "mul": _mul,
    "dot_general": _dot,
    "reduce_sum": _sum,
    "reshape": _reshaped,
    "concatenate": _joined,
    "stack": _joined,
    "dynamic_update_slice": _written,
    "select_n": _selected,
    "broadcast_in_dim": _made,
    **dict.fromkeys(
        "convert_element_type reduce_precision squeeze transpose split pad copy copy_p"
        " expand_dims".split(),
        _first,
    ),
    **dict.fromkeys("slice dynamic_slice".split(), _only_reduced),
}
