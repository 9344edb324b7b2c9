"""How results are divided over explicit mesh axes, for families of primitives.

A spec has the mesh axes of each dimension, as a tuple. What is not clear is a ShardingTypeError
that says what to write instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.sharding import PartitionSpec, ShardingTypeError
from weft.division.explicit import in_mesh
from weft.division.factors import Factors, Spec, axis_sizes, forwards


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


# --- reshape --------------------------------------------------------------------------------------


def reshaped(spec: Spec, divided: Any, old: Any, new: Any) -> Spec | None:
    """How a reshaped array is divided; None where it is not clear."""
    if not any(spec):
        return ((),) * len(new)
    mesh = divided.mesh
    kept = [(n, s) for n, s in zip(old, spec, strict=True) if n != 1]
    if [n for n, _ in kept] == [n for n in new if n != 1]:
        rest = iter([s for _, s in kept])
        return tuple([() if n == 1 else next(rest) for n in new])
    if 0 in old or len(old) == len(new):
        return None
    joins = len(new) < len(old)
    runs = _runs(new, old) if joins else _runs(old, new)
    if runs is None:
        return None
    found: list[Any] = []
    for i, run in enumerate(runs):
        parts = [spec[k] for k in run] if joins else [spec[i]]
        if len(run) == 1:
            found.append(parts[0])
            continue
        while parts and not parts[-1]:
            parts.pop()
        if not all(parts):
            return None
        sizes = [new[i]] if joins else [new[k] for k in run]
        dealt = _dealt([axis for part in parts for axis in part], sizes, mesh)
        if dealt is None:
            return None
        found += dealt
    return tuple(found)


def _dealt(axes: list[Any], sizes: list[int], mesh: Any) -> list[Any] | None:
    """Axes dealt out to dimensions in order, each as many as it can be divided by."""
    left, found = list(axes), []
    for n in sizes:
        part: list[Any] = []
        while n > 1 and left:
            count = mesh.shape[left[0]]
            if n % count:
                return None
            n //= count
            part.append(left.pop(0))
        found.append(tuple(part))
    return None if left else found


def _runs(few: Any, many: Any) -> list[range] | None:
    """For each of a few dimensions the run of others that it is made of; None where two of them
    are made of several. Ones belong to the run before them."""
    few, many, ones = list(few), list(many), 0
    while few and many and few[-1] == many[-1] == 1:
        few.pop()
        many.pop()
        ones += 1
    runs: list[range] = []
    at = several = 0
    for i, size in enumerate(few):
        stop, total = at + 1, many[at] if at < len(many) else 0
        if total != size:
            several += 1
            while total != size:
                if total > size or stop >= len(many):
                    return None
                total *= many[stop]
                stop += 1
            after = few[i + 1] if i + 1 < len(few) else None
            while stop < len(many) and many[stop] == 1 and after != 1:
                stop += 1
        runs.append(range(at, stop))
        at = stop
    if at != len(many) or several > 1:
        return None
    return [*runs, *[range(at + k, at + k + 1) for k in range(ones)]]


def unclear_reshape(aval: Any, shape: Any) -> ShardingTypeError:
    """The error for a reshape that would move elements between devices."""
    return ShardingTypeError(
        f"reshape of {aval.str_short()} to {tuple(shape)} leaves open how the result is divided;"
        " say it, as with jnp.reshape(x, shape, out_sharding=P(...))"
    )


# --- indexing -------------------------------------------------------------------------------------


def gathered(specs: Sequence[Spec], avals: Any, out: Any, numbers: Any, sizes: Any) -> Spec | None:
    """How what is gathered is divided: as the dimensions that are taken whole, and as batches."""
    operand, indices = specs[0], list(specs[1])
    if any(operand[d] and sizes[d] != avals[0].shape[d] for d in numbers.start_index_map):
        return None
    pairs = list(
        zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    )
    if any(operand[d] and indices[i] and operand[d] != indices[i] for d, i in pairs):
        return None
    batches = set(numbers.start_indices_batching_dims)
    if any(s for i, s in enumerate(indices) if i not in batches):
        return None
    for d, i in pairs:
        indices[i] = indices[i] or operand[d]
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    windows = iter([s for d, s in enumerate(operand) if d not in gone])
    others = iter(indices)
    offsets = set(numbers.offset_dims)
    return tuple([next(windows if d in offsets else others) for d in range(len(out.shape))])


def scattered(specs: Sequence[Spec], avals: Any, numbers: Any) -> Spec | None:
    """How an array is divided into which updates are scattered."""
    operand, indices, updates = specs
    windows = numbers.update_window_dims
    queries = [d for d in range(len(updates)) if d not in windows]
    batch = list(
        zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    )
    batched = [(d, i, queries[i]) for d, i in batch]
    found = list(operand)
    for d, i, u in batched:
        axes = {s for s in (operand[d], indices[i], updates[u]) if s}
        if len(axes) > 1:
            return None
        found[d] = axes.pop() if axes else ()
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    kept = [d for d in range(len(operand)) if d not in gone]
    for u, d in zip(windows, kept, strict=True):
        whole = avals[2].shape[u] == avals[0].shape[d] and updates[u] == operand[d]
        if not whole and (updates[u] or operand[d]):
            return None
    if any(operand[d] for d in numbers.inserted_window_dims):
        return None
    if any(updates[u] for u in queries if u not in [b for _, _, b in batched]):
        return None
    if any(s for i, s in enumerate(indices) if i not in [b for _, b, _ in batched]):
        return None
    return tuple(found)


def unclear_index(name: str, avals: Any, method: str) -> ShardingTypeError:
    """The error for indices into divided dimensions."""
    given = ", ".join(a.str_short() for a in avals)
    return ShardingTypeError(
        f"{name} of {given} reads or writes across devices, which leaves open how the result is"
        f" divided; say it, as with x.at[...].{method}(..., out_sharding=P(...)), or make the"
        " indexed dimensions whole with weft.reshard"
    )
