"""What a compiled function moves between the devices of a mesh, told in the user's words."""

from __future__ import annotations

from typing import Any

from weft.api.shardings import of_inputs
from weft.core.jaxpr import ClosedJaxpr
from weft.core.sharding import Mesh, NamedSharding
from weft.division.programs.partition import Partitioned, partition
from weft.division.specs import spec_of
from weft.runtime.site import says_where


def partitioned(program: ClosedJaxpr, leaves: list[Any]) -> Partitioned | None:
    """The program of one device, for arguments that are where these are; None on one device."""
    shardings = of_inputs(program, leaves)
    where = says_where(program)
    known = [*shardings, *([] if where is None else [where.sharding])]
    meshes = [s.mesh for s in known if isinstance(s, NamedSharding) and isinstance(s.mesh, Mesh)]
    mesh = next((m for m in meshes if m.size > 1), None)
    if mesh is None:
        return None
    avals = program.in_avals
    specs = [
        spec_of(s, mesh, len(getattr(a, "shape", ())))
        for s, a in zip(shardings, avals, strict=True)
    ]
    return partition(program, mesh, specs)


def story(made: Partitioned) -> str:
    """One line in all, and one for each collective."""
    total = sum(m.bytes * max(m.times, 1) for m in made.moves)
    axes = ", ".join(f"{name}={n}" for name, n in made.mesh.shape.items())
    count = len(made.moves)
    head = (
        f"over {made.mesh.size} devices ({axes}): {count} collective{'s' if count != 1 else ''},"
        f" {total:,} bytes to each device"
    )
    return "\n".join([head, *(f"    {move}" for move in made.moves)])
