"""Where the arguments and results of an exported program are: specs over the axes of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.jaxpr import Jaxpr, jaxprs_in_params
from weft.core.sharding import AxisType, Mesh, MeshAxes, NamedSharding, PartitionSpec, Sharding
from weft.runtime.devices import devices

MAX_AXES = 64


def named(shardings: Sequence[Any]) -> tuple[PartitionSpec | None, ...]:
    """The specs of shardings over meshes; None for others."""
    return tuple([s.spec if isinstance(s, NamedSharding) else None for s in shardings])


def device_count(jaxpr: Jaxpr, shardings: Sequence[Any]) -> int:
    """How many devices a program with these arguments and results is for."""
    found = [s.num_devices for s in shardings if isinstance(s, Sharding)]
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            items = value if type(value) in (tuple, list) else (value,)
            found += [x.num_devices for x in items if isinstance(x, NamedSharding)]
            if isinstance(value, MeshAxes):
                found.append(value.size)
        found += [device_count(inner, ()) for inner in jaxprs_in_params(eqn.params)]
    return max(found, default=1)


def given_devices(leaves: Sequence[Any]) -> int:
    """Over how many devices the arguments of a call are."""
    return max([len(x.sharding.device_set) for x in leaves if hasattr(x, "sharding")], default=1)


# --- as plain values ------------------------------------------------------------------------------


def written_spec(spec: PartitionSpec | None) -> Any:
    """A spec as plain values."""
    if spec is None:
        return None
    return [list(part) if isinstance(part, tuple) else part for part in spec]


def read_spec(written: Any) -> PartitionSpec | None:
    """The spec of plain values, which anyone may have written."""
    if written is None:
        return None
    parts = [tuple(map(_name, part)) if type(part) is list else part for part in _list(written)]
    return PartitionSpec(*[part if type(part) is tuple else _axis(part) for part in parts])


def written_sharding(sharding: NamedSharding) -> dict[str, Any]:
    """A sharding as plain values: which devices they are is left to whoever reads it."""
    mesh = sharding.mesh
    return {
        "names": list(mesh.axis_names),
        "sizes": [int(n) for n in mesh.axis_sizes],
        "types": [t.name for t in mesh.axis_types],
        "spec": written_spec(sharding.spec),
    }


def read_sharding(written: Any) -> NamedSharding:
    """The sharding of plain values, over the first devices that there are here."""
    names = tuple(map(_name, _list(written["names"])))
    sizes = [n if type(n) is int and 0 < n < 2**20 else 0 for n in _list(written["sizes"])]
    types = tuple([AxisType[_name(t)] for t in _list(written["types"])])
    if not len(names) == len(sizes) == len(types) == len(set(names)) or 0 in sizes:
        raise ValueError(f"a mesh of axes {names} of sizes {sizes}")
    count, here = int(np.prod(sizes, dtype=object)), devices()
    if count > len(here):
        raise ValueError(f"it is for {count} devices, and there are {len(here)}")
    mesh = Mesh(np.array(here[:count], object).reshape(sizes), names, axis_types=types)
    spec = read_spec(written["spec"])
    if spec is None:
        raise ValueError("a sharding without a spec")
    return NamedSharding(mesh, spec)


def _axis(part: Any) -> Any:
    return None if part is None else _name(part)


def _name(x: Any) -> str:
    if type(x) is not str:
        raise ValueError(f"{x!r} isn't the name of an axis")
    return x


def _list(x: Any) -> list[Any]:
    if type(x) is not list or len(x) > MAX_AXES:
        raise ValueError(f"{x!r} isn't a list of axes")
    return x
