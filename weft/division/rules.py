"""How results are divided over explicit mesh axes, for families of primitives.

A spec has the mesh axes of each dimension, as a tuple. What is not clear is a ShardingTypeError
that says what to write instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from weft.core.sharding import PartitionSpec, ShardingTypeError
from weft.division.explicit import in_mesh
from weft.division.factors import (
    Factors,
    Spec,
    axis_sizes,
    count,
    forwards,
    spec_for,
    split_axes,
)


def shown(spec: Spec) -> str:
    """A spec as users write it."""
    return repr(PartitionSpec(*spec))


def merged(name: str, specs: Sequence[Spec], avals: Any) -> Spec:
    """How an elementwise result is divided: as all operands that are divided."""
    ranked = [(s, a.shape) for s, a in zip(specs, avals, strict=True) if getattr(a, "shape", ())]
    if not ranked:
        return ()
    found = []
    for d in range(len(ranked[0][0])):
        axes: set[Any] = {s[d] for s, _ in ranked if s[d]}
        if len(axes) > 1:
            given = " and ".join([a.str_short() for a in avals if a.shape])
            raise ShardingTypeError(
                f"{name} got operands whose dimension {d} is sharded in different ways: {given}; "
                "move one of them first, as with weft.reshard(x, weft.typeof(y).sharding)"
            )
        found.append(axes.pop() if axes else ())
    return tuple(found)


def check_whole(name: str, spec: Spec, aval: Any, dims: Any) -> None:
    """Raise ShardingTypeError unless dimensions are divided over no axis."""
    for d in dims:
        if spec[d]:
            raise ShardingTypeError(
                f"{name} works along dimension {d} of {aval.str_short()}, which is sharded over"
                f" {', '.join(map(str, spec[d]))}; replicate it first with weft.reshard, or use"
                " weft.sharding.auto_axes"
            )


def check_alike(name: str, specs: Sequence[Spec], avals: Any) -> Spec:
    """The spec that all operands have; without a mesh, all that are divided at all."""
    wanted = list(specs) if in_mesh() else [s for s in specs if any(s)]
    if any(s != wanted[0] for s in wanted):
        raise different(name, avals)
    return wanted[0] if wanted else specs[0]


def unclear(primitive: Any, avals: Any) -> ShardingTypeError:
    """The error for a primitive without a rule."""
    given = ", ".join(a.str_short() for a in avals)
    return ShardingTypeError(
        f"how the results of {primitive.name} of {given} are divided is not known; leave it to the"
        " compiler with weft.sharding.auto_axes(f, out_sharding=...), or make the operands whole"
        " with weft.reshard"
    )


def common(specs: Sequence[Spec]) -> Spec:
    """The axes that all divided operands have, dimension by dimension; none where they differ."""
    found = []
    for parts in zip(*specs, strict=True):
        axes = {p for p in parts if p}
        found.append(axes.pop() if len(axes) == 1 else ())
    return tuple(found)


def different(name: str, avals: Any) -> ShardingTypeError:
    """The error for operands that are divided in different ways."""
    given = ", ".join(a.str_short() for a in avals)
    return ShardingTypeError(
        f"{name} needs operands that are divided in the same way, got {given}; move them first, as"
        " with weft.reshard(x, weft.typeof(y).sharding)"
    )


def different_kernels(avals: Any) -> ShardingTypeError:
    """The error for a convolution whose sums run over divided dimensions."""
    given = " and ".join(a.str_short() for a in avals)
    return ShardingTypeError(
        f"conv_general_dilated of {given}: kernels and features that are divided leave open how the"
        " result is; give out_sharding, or make them whole with weft.reshard"
    )


def contracted(f: Factors, specs: Sequence[Spec], avals: Any, outs: Any) -> list[Spec]:
    """How a product is divided: as the dimensions that it keeps, batches as the left operand."""
    left, right = ({labels: d for d, labels in enumerate(dims) if labels} for dims in f.ins)
    given = " and ".join(a.str_short() for a in avals)
    for labels in left.keys() & right.keys():
        i, j = left[labels], right[labels]
        a, b, summed = specs[0][i], specs[1][j], labels[0] in f.combine
        if a and b and a != b:
            raise ShardingTypeError(
                f"dot_general of {given}: the {'summed' if summed else 'batch'} dimensions {i} and"
                f" {j} are sharded in different ways; move one operand first with weft.reshard"
            )
        if summed and a and b:
            raise ShardingTypeError(
                f"dot_general of {given} sums over dimensions {i} and {j}, which are both sharded "
                f"over {', '.join(map(str, a))}: say how the result is sharded, as with "
                "jnp.dot(x, y, out_sharding=P(...))"
            )
    return forwards(f, specs, outs, axis_sizes(avals), first=True)


def solved(specs: Sequence[Spec], avals: Any, left: bool, transposed: bool) -> Spec:
    """How the solution of triangular systems is divided."""
    (*stack, a0, a1), (*other, b0, b1) = specs
    if stack != other:
        raise different("triangular_solve", avals)
    check_whole("triangular_solve", specs[0], avals[0], [len(stack) + (left ^ transposed)])
    check_whole("triangular_solve", specs[1], avals[1], [len(stack) + (not left)])
    rows = (a0, a1)
    pair = (rows[transposed], b1) if left else (b0, rows[not transposed])
    return (*stack, *pair)


# --- rules that are the description ---------------------------------------------------------------


def described(name: str, f: Factors, specs: Sequence[Spec], avals: Any, outs: Any) -> list[Spec]:
    """How results are divided where each dimension of operands is a factor, a name.

    What is divided is to be clear: no dimension that has to be whole, no factor that asks, and none
    in several ways.
    """
    assert f.names is not None
    found: dict[Any, tuple[int, int]] = {}
    for i, (names, spec) in enumerate(zip(f.names[0], specs, strict=True)):
        for d, (factor, axes) in enumerate(zip(names, spec, strict=True)):
            if axes and (factor is None or factor in f.asks):
                raise open_result(name, i, d, axes, avals)
            if factor is None or not (axes or factor in f.alike):
                continue
            j, e = found.setdefault(factor, (i, d))
            if specs[j][e] != axes:
                raise ShardingTypeError(
                    f"{name} of {_given(avals)} goes along dimension {e} of operand {j} and"
                    f" dimension {d} of operand {i} together, which are sharded in different ways;"
                    " move one operand first with weft.reshard, or say how the result is sharded"
                    f"{_saying(name)}"
                )
    return forwards(f, specs, outs, axis_sizes(avals))


def reshaped(f: Factors, spec: Spec, old: Sequence[int], new: Sequence[int], mesh: Any) -> Any:
    """How a reshaped array is divided; None where it is not clear: each axis must divide a factor,
    and between the dimensions that both shapes begin and end with, one is cut, or all are joined.
    """
    division: dict[int, Any] = {}
    for labels, axes in zip(f.ins[0], spec, strict=True):
        parts = split_axes(labels, axes, f.sizes, mesh)
        if count(axes, mesh) > prod(count(mine, mesh) for _, mine in parts):
            return None
        division.update(parts)
    if [n for n in old if n != 1] != [n for n in new if n != 1]:
        first = _common(old, new)
        last = _common(old[first:][::-1], new[first:][::-1])
        if min(len(old), len(new)) - first - last > 1:
            return None
    return spec_for(f.outs[0], new, division, f, mesh, runs=False)


def _common(xs: Sequence[int], ys: Sequence[int]) -> int:
    """How many numbers two lists begin with alike."""
    return next((i for i, (x, y) in enumerate(zip(xs, ys, strict=False)) if x != y),
                min(len(xs), len(ys)))  # fmt: skip


def unclear_reshape(aval: Any, shape: Any) -> ShardingTypeError:
    """The error for a reshape that would move elements between devices."""
    return ShardingTypeError(
        f"reshape of {aval.str_short()} to {tuple(shape)} leaves open how the result is divided;"
        " say it, as with jnp.reshape(x, shape, out_sharding=P(...))"
    )


# How the result of an operation is said to be divided.
_SAID = {
    "gather": "x.at[...].get(out_sharding=P(...))",
    "scatter": "x.at[...].set(y, out_sharding=P(...))",
    "scatter-add": "x.at[...].add(y, out_sharding=P(...))",
    "scatter-sub": "x.at[...].subtract(y, out_sharding=P(...))",
    "scatter-mul": "x.at[...].multiply(y, out_sharding=P(...))",
    "scatter-min": "x.at[...].min(y, out_sharding=P(...))",
    "scatter-max": "x.at[...].max(y, out_sharding=P(...))",
}


def _saying(name: str) -> str:
    return f", as with {_SAID[name]}" if name in _SAID else ""


def _given(avals: Any) -> str:
    return ", ".join(a.str_short() for a in avals)


def open_result(name: str, i: int, d: int, axes: Any, avals: Any) -> ShardingTypeError:
    """The error for a dimension that has to be whole, or for one that leaves open how the result is
    divided."""
    return ShardingTypeError(
        f"{name} of {_given(avals)} would exchange elements along dimension {d} of operand {i},"
        f" {avals[i].str_short()}, which is sharded over {', '.join(map(str, axes))}; say how the"
        f" result is sharded{_saying(name)}, or make the dimension whole with weft.reshard"
    )
