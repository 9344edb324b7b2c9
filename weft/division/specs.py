"""How an array is divided: as rules compute with it, and as users write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.sharding import NamedSharding, PartitionSpec, axes_of
from weft.division.factors import Spec, whole


def spec_of(sharding: Any, mesh: Any, ndim: int) -> Spec:
    """The mesh axes of each dimension; none where an array is whole, or on another mesh."""
    if not isinstance(sharding, NamedSharding) or not same_mesh(sharding.mesh, mesh):
        return whole(ndim)
    parts = [axes_of(part) for part in sharding.spec[:ndim]]
    return (*parts, *((),) * (ndim - len(parts)))


def specs_of(args: Sequence[Any], avals: Sequence[Any], mesh: Any) -> list[Spec]:
    """How a program's arguments are divided; what it takes before ``args`` is whole."""
    given = [*[None] * (len(avals) - len(args)), *args]
    return [
        spec_of(getattr(x, "sharding", None), mesh, len(getattr(a, "shape", ())))
        for x, a in zip(given, avals, strict=True)
    ]


def same_mesh(a: Any, b: Any) -> bool:
    """Whether two meshes are the same but for the types of their axes."""
    return a is b or tuple(a.shape.items()) == tuple(b.shape.items())


def as_spec(spec: Spec) -> PartitionSpec:
    """A spec as users write it."""
    parts = list(spec)
    while parts and not parts[-1]:
        parts.pop()
    return PartitionSpec(*parts)
