"""The programs of devices with memory of their own, from a program on a mesh of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.jaxpr import ClosedJaxpr
from weft.core.sharding import NamedSharding, PartitionSpec
from weft.division.programs.partition import partition
from weft.division.programs.process_program import process_program
from weft.division.specs import as_spec, spec_of


def programs_of_devices(
    closed: ClosedJaxpr, mesh: Any, given: Sequence[Any], wanted: Sequence[Any] | None = None
) -> tuple[list[ClosedJaxpr], list[NamedSharding], list[NamedSharding]]:
    """What each device of a mesh computes, in its order, and how arguments and results are divided.

    ``given`` are the shardings of arguments, None for those that all devices have; ``wanted`` are
    those of results. What is a ``shard_map`` runs as it is written; other programs are divided by
    the partitioner.
    """
    made, ins, outs, manual = _of_one(closed, mesh, given, wanted)
    programs = [process_program(made, mesh, ins, outs, manual, own=i) for i in range(mesh.size)]
    places = [[NamedSharding(mesh, s) for s in specs] for specs in (ins, outs)]
    return programs, places[0], places[1]


def _of_one(
    closed: ClosedJaxpr, mesh: Any, given: Sequence[Any], wanted: Sequence[Any] | None
) -> tuple[Any, ...]:
    """The program of one device, how arguments and results are divided, and its axes."""
    found = _written(closed)
    if found is not None:
        return found
    ranks = [len(getattr(a, "shape", ())) for a in closed.in_avals]
    specs = [spec_of(s, mesh, n) for s, n in zip(given, ranks, strict=True)]
    results = None
    if wanted is not None:
        sizes = [len(getattr(a, "shape", ())) for a in closed.out_avals]
        results = [spec_of(s, mesh, n) for s, n in zip(wanted, sizes, strict=True)]
    made = partition(closed, mesh, specs, results)
    ins, outs = ([_spec(s) for s in specs] for specs in (made.in_specs, made.out_specs))
    return made.jaxpr, ins, outs, mesh.axis_names


def _written(closed: ClosedJaxpr) -> tuple[Any, ...] | None:
    """The same of a program that is a single ``shard_map``."""
    if len(closed.eqns) != 1 or closed.consts:
        return None
    (eqn,) = closed.eqns
    if eqn.invars != closed.jaxpr.invars or eqn.outvars != closed.jaxpr.outvars:
        return None
    if eqn.primitive.name == "shard_map":
        p = eqn.params
        return p["jaxpr"], p["in_specs"], p["out_specs"], p["manual_axes"]
    callee = eqn.primitive.callee(eqn.params)
    return None if callee is None else _written(callee)


def _spec(spec: Any) -> PartitionSpec:
    return as_spec(tuple(part if isinstance(part, tuple) else (part,) for part in spec))
