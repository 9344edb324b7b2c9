"""Arrays over several GPUs of this process: a part in the memory of each, and programs on all.

An array owns a buffer on each GPU of its mesh. A program on such arrays is divided as that of
processes is, and each GPU runs its part (``several.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from weft.backends.cuda.gpu import Gpu
from weft.backends.cuda.several import Executable
from weft.base.functional import lru
from weft.compiler.plan import Unplannable
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr
from weft.core.sharding import NamedSharding
from weft.runtime import programs, site
from weft.runtime.array import ArrayImpl, over
from weft.runtime.parts import Parts, SpreadClient, SpreadMemory
from weft.runtime.places import array_type, placement


@lru(1024)
def client_over(sharding: Any) -> Gpus:
    """Who has the memory of arrays that a sharding divides over several GPUs."""
    return Gpus(sharding)


@per_program
def _executable(
    closed: ClosedJaxpr, mesh: Any, given: Any, places: Any, donated: tuple[bool, ...]
) -> Executable | None:
    wanted = [p.sharding for p in places]
    numbers = [d.client.number for d in mesh.devices.flat]
    try:
        with programs.observed(closed):
            made, ins, outs = site.divide(closed, mesh, given, wanted)
            return Executable(made, ins, outs, numbers, donated=donated)
    except Unplannable:
        return None


class Gpus(SpreadClient):
    """Several GPUs that hold arrays together, as a sharding says, and run programs on them."""

    platform, device_name = Gpu.platform, Gpu.device_name
    device_prefix = Gpu.device_prefix
    clients: Sequence[Gpu] = ()

    def __init__(self, sharding: Any) -> None:
        memory = SpreadMemory(sharding)
        self.memory, self.sharding, self.clients = memory, sharding, memory.clients
        self.dlpack_device = self.clients[0].dlpack_device

    # --- programs ---------------------------------------------------------------------------------

    def run(
        self, closed: ClosedJaxpr, args: Any, places: Any, donated: tuple[bool, ...] = ()
    ) -> list[Any] | None:
        donated = tuple(donated) if any(donated) else ()
        given = tuple(map(_sharding, args))
        run = _executable(closed, self.sharding.mesh, given, tuple(places), donated)
        if run is None:
            return None
        rows, lost = [], []
        for i, (x, sharding, aval) in enumerate(zip(args, run.ins, closed.in_avals, strict=True)):
            alone = i in run.taken and _is_alone(x)
            row = _parts(x, sharding, aval)
            if alone:
                lost.append(x)
            elif i in run.taken:
                row = client_over(sharding).memory.copy(row)
            rows.append(row)
        each = [[row.buffers[i] for row in rows] for i in range(len(self.clients))]
        try:
            found = run.run_on_devices(each)
        finally:
            for x in lost:
                x.delete()
        results = []
        for k, (aval, where) in enumerate(zip(closed.out_avals, places, strict=True)):
            own = run.outs[k]
            same = own.is_equivalent_to(where.sharding, len(aval.shape))
            there = where if same else placement(own, True)
            made = over(Parts([row[k] for row in found]), array_type(aval, there))
            results.append(made if same else made._at(where))
        return results

    def over(self, sharding: Any) -> Gpus:
        return client_over(sharding)


def _sharding(x: Any) -> Any:
    """How an argument is divided; None for one that all GPUs have."""
    found = x._type.placement.sharding if type(x) is ArrayImpl else None
    return found if isinstance(found, NamedSharding) and found.num_devices > 1 else None


def _is_alone(x: Any) -> bool:
    """Whether an array is the only one that can see its memory, which is that of GPUs."""
    if type(x) is not ArrayImpl or not isinstance(x._type.placement.client, Gpus):
        return False
    # a reference from the array, or from the parts, one of the loop, and that of the question
    if x._owner is None or getrefcount(x._owner) > 2:
        return False
    return all(getrefcount(b) == 3 and b.foreign is None for b in x._owner.buffers)


def _parts(x: Any, sharding: Any, aval: Any) -> Parts:
    """The memory of an argument, divided as a program takes it; what is elsewhere is copied."""
    if type(x) is ArrayImpl:
        where = x._type.placement
        if isinstance(where.client, Gpus) and where.sharding.is_equivalent_to(sharding, x.ndim):
            x._alias()  # which says where it has been deleted
            return _ordered(x._owner, where.client, sharding)
        value = x._value
    else:
        value = np.asarray(x, aval.dtype).reshape(aval.shape)
    return client_over(sharding).memory.put(value)


def _ordered(owner: Parts, client: Gpus, sharding: Any) -> Parts:
    """Buffers in the order of another mesh of the same GPUs."""
    have, want = client.sharding._device_assignment, sharding._device_assignment
    if have == want:
        return owner
    return Parts([owner.buffers[have.index(d)] for d in want])
