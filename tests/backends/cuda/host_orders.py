"""Processes under mpiexec whose GPUs are the host, with an NCCL that MPI carries, for
``mpi_faults``: ``... KIND FOLDER``. As NCCL's, its messages have no mark of their program."""

import ctypes
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from tests.backends.cuda import fake_nccl, host_device
from weft.backends.cuda import client, driver, program
from weft.base import knobs
from weft.runtime import devices, registry

FAULTS = Path(__file__).resolve().parents[2] / "parallel" / "mpi_faults.py"


def memory(address, size):
    """Bytes at an address, for MPI."""
    return np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)


class Carried(fake_nccl.Fake):
    """Two processes and one communicator."""

    def __init__(self):
        super().__init__()
        self.comm = MPI.COMM_WORLD.Dup()

    def _GetUniqueId(self, key):
        key._obj.bytes = b"one for all"
        return 0

    def _CommInitRank(self, handle, size, key, rank):
        assert (size, rank) == (self.comm.Get_size(), self.comm.Get_rank())
        handle._obj.value = 1
        return 0

    def _AllGather(self, source, target, size, kind, handle, stream):
        self.comm.Allgather(memory(source, size), memory(target, size * self.comm.Get_size()))
        return 0

    def _Send(self, source, size, kind, to, handle, stream):
        sent = self.comm.Isend(memory(source, size), to)
        return self._begin(lambda: int(not sent.Wait()))

    def _Recv(self, target, size, kind, sender, handle, stream):
        received = self.comm.Irecv(memory(target, size), sender)
        return self._begin(lambda: int(not received.Wait()))


def main(patch):
    patch.setattr(fake_nccl, "Fake", Carried)
    with fake_nccl.installed(patch):
        host_device.install(patch, apart=True)
        patch.setattr(driver, "is_done", lambda stream: True)
        patch.setattr(driver, "copy_out", copy_out)
        patch.setattr(program.Cuda, "keeps", lambda self, eqn: True)
        patch.setattr(program, "length", lambda commands: 0)  # nothing to capture
        gpus = SimpleNamespace(clients=lambda: [client.gpu(0)])
        patch.setitem(registry.CLIENTS, "cuda", registry.Platform(gpus, names=("gpu",)))
        patch.setattr(devices, "_wanted", lambda known="", named="": ["cuda", "cpu"])
        knobs.config.update("default_device", "cuda")
        runpy.run_path(str(FAULTS), run_name="__main__")


def copy_out(target, source, size, wait=True):
    if wait:
        driver.finish(driver.device().stream)
    ctypes.memmove(target, source, size)


if __name__ == "__main__":
    assert len(sys.argv) == 3
    main(pytest.MonkeyPatch())
