"""Several processes that run one program together, over MPI."""

import os

from weft.base import knobs as _knobs
from weft.core import processes as _processes
from weft.parallel.processes import divided as _divided
from weft.parallel.transport import mpi as _mpi
from weft.runtime import devices as _devices
from weft.runtime import spanning as _spanning

__all__ = ["initialize", "is_initialized", "shutdown"]

# Variables by which launchers say how many processes there are.
_LAUNCHERS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "SLURM_NTASKS", "MPI_LOCALNRANKS")


def is_initialized():
    """Whether this process is one of several, or was asked to be.

    >>> import weft
    >>> weft.distributed.is_initialized()
    False
    """
    return _processes.are_joined()


def _is_launched():
    return any(name in os.environ for name in _LAUNCHERS)


def initialize(
    coordinator_address=None,
    num_processes=None,
    process_id=None,
    local_device_ids=None,
    cluster_detection_method=None,
    initialization_timeout=300,
    heartbeat_timeout_seconds=100,
    shutdown_timeout_seconds=300,
    coordinator_bind_address=None,
    slice_index=None,
    partition_index=None,
):
    """Join the processes that ``mpiexec`` or ``srun`` has started; before the first computation.

    MPI knows the processes and their addresses: ``num_processes`` and ``process_id`` are checked
    against it where they are given, ``coordinator_address`` is not needed. With
    ``local_device_ids``, the process has as many devices. The end of a process is seen at once, so
    that heartbeats are not needed; the knob ``distributed_timeout`` says how long one waits for
    others that live.
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
    if not _is_launched() and (num_processes or 1) > 1:
        raise ValueError(
            f"weft.distributed.initialize was asked for {num_processes} processes, and this one was"
            f" not started by MPI; start all of them with: mpiexec -n {num_processes} python"
            " program.py (or srun), where initialize() needs no arguments"
        )
    if not _is_launched() and coordinator_address is None and cluster_detection_method is None:
        raise ValueError(
            "weft.distributed.initialize() finds the other processes by MPI, and this one was not"
            " started by it; write: mpiexec -n 2 python program.py (or srun)"
        )
    world = _mpi.load().COMM_WORLD
    for name, given, found in (
        ("num_processes", num_processes, world.Get_size()),
        ("process_id", process_id, world.Get_rank()),
    ):
        if given is not None and given != found:
            raise ValueError(
                f"weft.distributed.initialize was given {name}={given}, and MPI says {found};"
                " leave it out"
            )
    transport = _mpi.Mpi(_knobs.distributed_timeout.value, initialization_timeout)
    own = _devices.host_device_count() if local_device_ids is None else _length(local_device_ids)
    counts = tuple(int(c) for c in transport.world.allgather(own))
    _processes.set_up(transport.rank, counts, transport)
    _spanning.set_partitioner(_divided)


def _length(ids):
    return 1 if isinstance(ids, int) else len(ids)


def shutdown():
    """Leave the other processes, once all of them do; arrays over several are lost."""
    if not is_initialized():
        return
    _processes.transport.end()
    _processes.reset()
    _devices.forget()
