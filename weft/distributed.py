"""Several processes that run one program together, over MPI or TCP."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from weft.base import knobs as _knobs
from weft.base import source as _source
from weft.core import processes as _processes
from weft.parallel.processes import divided as _divided
from weft.parallel.transport import mpi as _mpi
from weft.parallel.transport import store as _store
from weft.runtime import devices as _devices
from weft.runtime import spanning as _spanning

__all__ = ["initialize", "is_initialized", "shutdown"]

# Variables by which launchers say how many processes there are.
_LAUNCHERS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "SLURM_NTASKS", "MPI_LOCALNRANKS")


def is_initialized() -> bool:
    """Return whether this process is one of several, or was asked to be.

    Returns:
        True or False.

    Example:
        >>> import weft
        >>> weft.distributed.is_initialized()
        False
    """
    return _processes.are_joined()


def _is_launched():
    return any(name in os.environ for name in _LAUNCHERS)


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Join the other processes of a job, before the first computation.

    Processes that ``mpiexec`` or ``srun`` has started need no arguments: MPI knows them. Others
    meet at ``coordinator_address``, and send messages through process 0, which is slower for large
    arrays; arrays on devices of a PJRT plugin don't go that way. The end of a process is seen at
    once, so heartbeats are not needed; the knob ``distributed_timeout`` says how long to wait for
    others that live.

    Args:
        coordinator_address: "host:port" of process 0. MPI doesn't need it.
        num_processes: the number of processes; under MPI it is only checked.
        process_id: the number of this process, from 0; under MPI it is only checked.
        local_device_ids: the numbers of this process's devices. Without it, the first process of a
            machine has the first GPU, and so on.
        cluster_detection_method: accepted for JAX, no effect.
        initialization_timeout: how many seconds to wait for the other processes at the start.
        heartbeat_timeout_seconds: accepted for JAX, no effect.
        shutdown_timeout_seconds: accepted for JAX, no effect.
        coordinator_bind_address: "host:port" where process 0 listens, if it isn't
            ``coordinator_address``.
        slice_index: accepted for JAX, no effect.
        partition_index: accepted for JAX, no effect.

    Example:
        >>> import weft
        >>> weft.distributed.initialize()  # doctest: +SKIP
    """
    if is_initialized():
        raise RuntimeError(
            "weft.distributed.initialize has been called already; call it once, at the start of the"
            " program"
        )
    if _devices.are_in_use():
        raise RuntimeError(
            "weft.distributed.initialize must be called before the first computation: devices or"
            " arrays have been used already"
        )
    transport = _joined(
        coordinator_address,
        num_processes,
        process_id,
        initialization_timeout,
        cluster_detection_method,
        coordinator_bind_address,
    )
    ids = [local_device_ids] if isinstance(local_device_ids, int) else local_device_ids
    own = _devices.host_device_count() if ids is None else len(ids)
    # a plugin is asked for its devices when all processes can answer it
    plugin = _devices.wanted_plugin()
    backend = plugin or _devices.default_backend()
    told = [json.loads(row) for row in transport.share(json.dumps([own, backend]).encode())]
    place = transport.place
    if any(other != told[0][1] for _, other in told):
        named = ", ".join(f"process {i}: {name}" for i, (_, name) in enumerate(told))
        _source.warn(f"processes have different platforms, so they use CPUs ({named})")
        backend = "cpu"
        _knobs.config.update("default_device", None)
        plugin = None
    if backend != "cpu" and plugin is None and ids is not None:
        if len(ids) > 1:
            raise ValueError(
                f"weft.distributed.initialize was given local_device_ids={local_device_ids}, and"
                " a process has one GPU; start as many processes as there are GPUs"
            )
        place = ids[0]
    counts = tuple(int(count) for count, _ in told)
    shared = None if backend == "cpu" else _devices.platform_of(backend)
    if plugin is not None and not hasattr(transport, "store"):
        rest = (transport.size, transport.rank, initialization_timeout)
        transport.store = _store.beside(transport, *rest)
    _devices.forget()
    _processes.set_up(transport.rank, counts, transport, place, shared)
    _spanning.set_partitioner(_divided)


def _joined(address, count, number, limit, method, bind):
    """What carries the messages of this process."""
    if not _is_launched():
        given = (address, count, number)
        if None not in given:
            if not 0 <= number < count:
                raise ValueError(
                    f"weft.distributed.initialize was given process_id={number} of"
                    f" num_processes={count}; processes are numbered 0 to {count - 1}"
                )
            timeout = _knobs.distributed_timeout.value
            return _store.Messages(address, count, number, timeout, limit, bind)
        missing = [n for n, v in zip(("num_processes", "process_id"), given[1:]) if v is None]
        if address is not None and method is None:
            raise ValueError(
                f"weft.distributed.initialize was given coordinator_address={address!r} without"
                f" {' and '.join(missing)}, and MPI did not start this process; give all three"
            )
        if (count or 1) > 1:
            raise ValueError(
                f"weft.distributed.initialize was asked for {count} processes, and this one was"
                f" not started by MPI; start all of them with: mpiexec -n {count} python"
                " program.py (or srun), where initialize() needs no arguments; or give each of them"
                " coordinator_address, num_processes and process_id"
            )
        if address is None and method is None:
            raise ValueError(
                "weft.distributed.initialize() finds the other processes through MPI, which did "
                "not start this one; run: mpiexec -n 2 python program.py (or srun), or give"
                " coordinator_address, num_processes and process_id"
            )
    world = _mpi.load().COMM_WORLD
    for name, given, found in (
        ("num_processes", count, world.Get_size()),
        ("process_id", number, world.Get_rank()),
    ):
        if given is not None and given != found:
            raise ValueError(
                f"weft.distributed.initialize was given {name}={given}, and MPI says {found};"
                " leave it out"
            )
    return _mpi.Mpi(_knobs.distributed_timeout.value, limit)


def shutdown() -> None:
    """Leave the other processes, once all of them do; arrays over several processes are lost.

    >>> import weft
    >>> weft.distributed.shutdown()
    """
    if not is_initialized():
        return
    _processes.transport.end()
    _processes.reset()
    _devices.forget()
