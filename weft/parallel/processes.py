"""Programs on arrays over several processes: divided by the partitioner, then made for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.jaxpr import ClosedJaxpr
from weft.core.sharding import NamedSharding, PartitionSpec
from weft.division.programs.partition import partition
from weft.division.programs.process_program import process_program
from weft.division.specs import as_spec, spec_of
from weft.runtime.site import says_where


def divided(closed: ClosedJaxpr, given: Sequence[Any]) -> tuple[ClosedJaxpr, list[Any], list[Any]]:
    """The program of this process, and how its arguments and results are divided.

    ``given`` are the shardings of arguments that are on a mesh of several processes.
    """
    said = says_where(closed)
    known = [s for s in given if s is not None] + ([] if said is None else [said.sharding])
    named = [s for s in known if isinstance(s, NamedSharding) and not s.is_fully_addressable]
    if not named:
        raise ValueError(
            f"a program over several processes needs arrays on a mesh of them, got {known[0]}; put"
            " them on one with weft.device_put(x, weft.NamedSharding(mesh, spec))"
        )
    mesh = named[0].mesh
    specs = [
        spec_of(s, mesh, len(getattr(a, "shape", ())))
        for s, a in zip(given, closed.in_avals, strict=True)
    ]
    made = partition(closed, mesh, specs)
    ins, outs = ([_spec(s) for s in specs] for specs in (made.in_specs, made.out_specs))
    program = process_program(made.jaxpr, mesh, ins, outs, mesh.axis_names)
    given_by, made_by = ([NamedSharding(mesh, s) for s in specs] for specs in (ins, outs))
    return program, given_by, made_by


def _spec(spec: Any) -> PartitionSpec:
    return as_spec(tuple(part if isinstance(part, tuple) else (part,) for part in spec))
