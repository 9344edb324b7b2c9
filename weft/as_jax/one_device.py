"""What belongs to several processes, in the one process that there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.parallel.shard_map import shard_map as spread
from weft.runtime.devices import local_devices

__all__ = ["colocated_cpu_devices", "global_state", "shard_map"]


class _Processes:
    """The state of several processes: there is one."""

    client = service = preemption_sync_manager = coordinator_address = None
    process_id, num_processes = 0, 1


global_state = _Processes()


def shard_map(
    f: Callable[..., Any],
    mesh: Any,
    in_specs: Any,
    out_specs: Any,
    check_rep: bool = True,
    auto: Any = frozenset(),
) -> Callable[..., Any]:
    """``weft.shard_map`` with the arguments that it had in ``jax.experimental``."""
    names = frozenset(mesh.axis_names) - frozenset(auto)
    return spread(
        f,
        mesh=mesh,
        in_specs=in_specs,
        out_specs=out_specs,
        check_vma=check_rep,
        axis_names=names,
    )


def _refuse_colocated(what: Any) -> Any:
    raise RuntimeError(
        "colocated Python runs functions on the hosts of remote devices; weft has none"
    )


colocated_python = colocated_python_class = _refuse_colocated


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices beside some devices: themselves."""
    return local_devices()
