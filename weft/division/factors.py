"""Factors: how the dimensions of an operation's operands and results belong together.

A factor is an index that a program could loop over: a row of a product, a column, the index that
is summed. A dimension is one factor, several (a reshape joins them, the first is the slowest), or
none, where it has to be whole. Dividing a factor over mesh axes divides every dimension that it is
part of, so one rule for each primitive serves types that carry shardings, propagation forwards and
backwards, and partitioning.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any

Dims = tuple[tuple[int, ...], ...]
# The mesh axes of each dimension of an array.
Spec = tuple[tuple[Any, ...], ...]
# The mesh axes of each factor.
Division = dict[int, tuple[Any, ...]]


class Factors:
    """The factors of each dimension of operands and results, and their sizes.

    ``combine`` says of factors that results lack how the results of devices are put together:
    "add", "max", "min", "and", "or", "mul", "xor", or "own" where the primitive's ``local`` does.
    ``names`` are the factors of dimensions by names, where each has one: those of at most one
    element are always whole for devices, but types keep their axes. Of ``asks`` and ``alike``,
    which are such names, types ask more: where one of ``asks`` is divided, devices would have to
    exchange elements, so that the type of the result is to be said; operands divide those of
    ``alike`` in the same way, or none does.
    """

    __slots__ = ("ins", "outs", "sizes", "combine", "names", "asks", "alike")

    def __init__(
        self,
        ins: Sequence[Dims],
        outs: Sequence[Dims],
        sizes: dict[int, int],
        combine: dict[int, str] | None = None,
        names: tuple[Sequence[Any], Sequence[Any]] | None = None,
        asks: Collection[Any] = (),
        alike: Collection[Any] = (),
    ) -> None:
        self.ins = list(ins)
        self.outs = list(outs)
        self.sizes = sizes
        self.combine = combine or {}
        self.names = names
        self.asks = asks
        self.alike = alike


def forwards(
    f: Factors, specs: Sequence[Spec], outs: Any, mesh: dict[Any, int], first: bool = False
) -> list[Spec]:
    """How results are divided where operands are divided in some way.

    Of operands that divide a factor the first one counts; with ``first`` the first that has the
    factor at all. An axis that divides two factors divides both in the results, if they have both.
    """
    found: dict[Any, tuple[Any, ...]] = {}
    if f.names is not None:
        for names, spec in zip(f.names[0], specs, strict=True):
            for name, axes in zip(names, spec, strict=True):
                if axes or first:
                    found.setdefault(name, axes)
        found[None] = ()
        return [tuple([found.get(name, ()) for name in names]) for names in f.names[1]]
    for dims, spec in zip(f.ins, specs, strict=True):
        for labels, axes in zip(dims, spec, strict=True):
            for label, mine in split_axes(labels, axes, f.sizes, mesh):
                found.setdefault(label, mine)
    made = [spec_for(dims, a.shape, found, f, mesh) for dims, a in zip(f.outs, outs, strict=True)]
    return [whole(len(a.shape)) if s is None else s for s, a in zip(made, outs, strict=True)]


def labelled(
    ins: Sequence[Sequence[Any]],
    outs: Sequence[Sequence[Any]],
    avals: Any,
    results: Any,
    combine: dict[Any, str] | None = None,
    asks: Collection[Any] = (),
    alike: Collection[Any] = (),
) -> Factors:
    """Factors by names, which are any hashables, one for each dimension; None for a whole one.

    A dimension of at most one element is always whole.
    """
    numbers: dict[Any, int] = {}
    sizes: dict[int, int] = {}

    def dims(names: Sequence[Any], shape: Sequence[int]) -> Dims:
        found: list[tuple[int, ...]] = []
        for name, n in zip(names, shape, strict=True):
            if name is None or n <= 1:
                found.append(())
                continue
            label = numbers.setdefault(name, len(numbers))
            sizes.setdefault(label, n)
            found.append((label,))
        return tuple(found)

    given = [dims(x, a.shape) for x, a in zip(ins, avals, strict=True)]
    made = [dims(x, a.shape) for x, a in zip(outs, results, strict=True)]
    kinds = {numbers[k]: how for k, how in (combine or {}).items() if k in numbers}
    return Factors(given, made, sizes, kinds, (ins, outs), asks, alike)


def elementwise(avals: Any, outs: Any) -> Factors:
    """A factor for each dimension of the result; operands may lack dimensions, or have size 1."""
    rank = len(outs[0].shape)
    sizes = dict(enumerate(outs[0].shape))

    def dims(shape: Sequence[int]) -> Dims:
        first = rank - len(shape)
        return tuple(
            (first + i,) if n > 1 and n == sizes[first + i] else () for i, n in enumerate(shape)
        )

    def names(shape: Sequence[int]) -> list[int | None]:
        first = rank - len(shape)
        return [first + i if n == sizes[first + i] else None for i, n in enumerate(shape)]

    ins, made = ([names(a.shape) for a in side] for side in (avals, outs))
    return Factors(
        [dims(a.shape) for a in avals], [dims(a.shape) for a in outs], sizes, names=(ins, made)
    )


def all_but(whole: Sequence[int], avals: Any, outs: Any) -> Factors:
    """Factors for all dimensions but some, of operands and results of one rank."""
    names = [None if d in whole else d for d in range(len(avals[0].shape))]
    return labelled([names] * len(avals), [names] * len(outs), avals, outs)


def leading(avals: Any, outs: Any, inner: Sequence[int], out_inner: Sequence[int]) -> Factors:
    """Factors for dimensions before the last ``inner`` ones, which are whole; aligned at the
    front."""
    whole = [None] * max([0, *inner, *out_inner])

    def names(aval: Any, rank: int) -> list[Any]:
        return [*range(len(aval.shape) - rank), *whole[:rank]]

    return labelled(
        [names(a, r) for a, r in zip(avals, inner, strict=True)],
        [names(a, r) for a, r in zip(outs, out_inner, strict=True)],
        avals,
        outs,
    )


def reshaped(old: Sequence[int], new: Sequence[int]) -> Factors:
    """The factors of a reshape: the finest split that both shapes are made of, from the front."""
    if [n for n in old if n != 1] == [n for n in new if n != 1]:
        return _of_ones(old, new)
    sizes: dict[int, int] = {}
    found: tuple[list[list[int]], list[list[int]]] = ([[] for _ in old], [[] for _ in new])
    at, left = [0, 0], [0, 0]
    shapes = (old, new)

    def take(side: int) -> bool:
        """Whether a dimension with something left is at hand, on one side."""
        while left[side] <= 1:
            if left[side] == 1:
                at[side] += 1
                left[side] = 0
            elif at[side] == len(shapes[side]):
                return False
            else:
                left[side] = shapes[side][at[side]]
        return True

    while 0 not in (*old, *new) and take(0) and take(1):
        small, big = min(left), max(left)
        if big % small:
            break
        label = len(sizes)
        sizes[label] = small
        for side in (0, 1):
            found[side][at[side]].append(label)
            left[side] //= small
    ins, outs = (tuple(map(tuple, side)) for side in found)
    return Factors([ins], [outs], sizes)


def _of_ones(old: Sequence[int], new: Sequence[int]) -> Factors:
    """The factors of a reshape that only adds or drops dimensions of one element."""

    def dims(shape: Sequence[int]) -> Dims:
        labels = iter(range(len(shape)))
        return tuple([() if n == 1 else (next(labels),) for n in shape])

    return Factors([dims(old)], [dims(new)], dict(enumerate(n for n in old if n != 1)))


# --- divisions ------------------------------------------------------------------------------------


def count(axes: Sequence[Any], mesh: dict[Any, int]) -> int:
    """How many parts axes make."""
    return prod(mesh[a] for a in axes)


def split_axes(
    labels: Sequence[int], axes: Sequence[Any], sizes: dict[int, int], mesh: dict[Any, int]
) -> list[tuple[int, tuple[Any, ...]]]:
    """The axes of a dimension given to its factors, slowest first, as far as they fit."""
    found: list[tuple[int, tuple[Any, ...]]] = []
    rest = list(axes)
    for label in labels:
        mine: list[Any] = []
        size = sizes[label]
        while rest and size % (count(mine, mesh) * mesh[rest[0]]) == 0:
            if count(mine, mesh) == size and label != labels[-1]:
                break  # axes of one device, of the next factor
            mine.append(rest.pop(0))
        if mine:
            found.append((label, tuple(mine)))
        if not rest or count(mine, mesh) != size:
            break
    return found


def spec_for(
    dims: Dims,
    shape: Sequence[int],
    division: Division,
    f: Factors,
    mesh: dict[Any, int],
    runs: bool = True,
) -> Spec | None:
    """The spec of an array under a division of factors; None where it is not one of equal runs.

    Without ``runs``, a factor may be divided in part before another one.
    """
    found: list[tuple[Any, ...]] = []
    for labels, n in zip(dims, shape, strict=True):
        axes: list[Any] = []
        full = True
        for label in labels:
            mine = division.get(label, ())
            if mine and not full:
                return None
            axes += mine
            full = full and (count(mine, mesh) == f.sizes[label] if runs else bool(mine))
        if n % count(axes, mesh):
            return None
        found.append(tuple(axes))
    return tuple(found)


def axis_sizes(avals: Any) -> dict[Any, int]:
    """The sizes of the mesh axes that types are divided over."""
    found = [a.divided for a in avals if getattr(a, "divided", None) is not None]
    return dict(found[0].mesh.shape) if found else {}


def whole(ndim: int) -> Spec:
    """The spec of an array that every device has."""
    return ((),) * ndim


def fitting(spec: Spec, shape: Sequence[int], mesh: dict[Any, int]) -> Spec:
    """A spec without the axes that do not divide their dimensions, or divide another already."""
    taken: set[Any] = set()
    found = []
    for n, axes in zip(shape, spec, strict=True):
        found.append(axes if n % count(axes, mesh) == 0 and taken.isdisjoint(axes) else ())
        taken.update(found[-1])
    return tuple(found)
