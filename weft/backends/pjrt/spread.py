"""Arrays over several devices of a plugin, and programs that all of them run.

The plugin's compiler divides a program, from the shardings in its module; each device is given its
parts of the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from weft.backends.llvm.calls import entries
from weft.backends.pjrt.buffers import View
from weft.backends.pjrt.device import (
    PjrtDevice,
    aliased,
    calls,
    name_of,
    noted_aliases,
    warn_of,
)
from weft.backends.pjrt.program import Executable, compile_for, device_options
from weft.backends.pjrt.story import Study
from weft.base.errors import JaxRuntimeError
from weft.base.functional import lru
from weft.base.knobs import thread
from weft.core import processes
from weft.core.jaxpr import ClosedJaxpr
from weft.core.sharding import NamedSharding, PartitionSpec
from weft.runtime import programs
from weft.runtime.array import ArrayImpl, over
from weft.runtime.client import Told
from weft.runtime.code import CodeKey
from weft.runtime.parts import Parts, SpannedMemory, SpreadClient, SpreadMemory
from weft.runtime.patterns import Pattern
from weft.runtime.places import array_type, placement
from weft.runtime.spanning import rows_of
from weft.stablehlo.module import Unlowered, sharded_text


@lru(1024)
def client_over(sharding: Any) -> PjrtDevices:
    """Who has the memory of arrays that a sharding divides over several devices."""
    return PjrtDevices(sharding)


class PjrtDevices(SpreadClient):
    """Several devices of a plugin that hold arrays together, as a sharding says."""

    clients: Sequence[PjrtDevice] = ()
    joins_processes = True

    def __init__(self, sharding: Any, division: Any = None) -> None:
        """``division`` has the shardings of arguments and results of programs that are studied."""
        whole = sharding.is_fully_addressable
        memory = SpreadMemory(sharding) if whole else SpannedMemory(sharding)
        self._division = division
        self.memory, self.sharding, self.clients = memory, sharding, memory.clients
        first = self.clients[0]
        self.platform, self.device_kind = first.platform, first.device_kind
        self.device_name, self.device_prefix = first.device_name, first.device_prefix
        self.platform_version, self.runtime_type = first.platform_version, first.runtime_type
        self.dlpack_device = first.dlpack_device

    # --- programs ---------------------------------------------------------------------------------

    def run(
        self, closed: ClosedJaxpr, args: Any, places: Any, donated: tuple[bool, ...] = ()
    ) -> list[Any] | None:
        mesh = self.sharding.mesh
        ins = tuple([_taken(x, mesh) for x in args])
        outs = tuple([_named(where.sharding, mesh) for where in places])
        executable = self._compiled(closed, mesh, ins, outs, tuple(donated))
        if executable is None:
            return None
        lost: list[int] = []
        kept: list[int] = []
        for i in executable.taken:
            (lost if _is_alone(args[i], ins[i]) else kept).append(i)
        given = zip(args, ins, closed.in_avals, strict=True)
        rows = [_parts(x, sharding, aval).buffers for x, sharding, aval in given]
        try:
            count = executable.devices
            found = executable.run([[row[k] for row in rows] for k in range(count)], kept)
        finally:
            for i in lost:
                args[i].delete()
        for client, row in zip(_own(mesh), found, strict=True):
            client.expect(row)
        results = []
        for k, (aval, where) in enumerate(zip(closed.out_avals, places, strict=True)):
            same = outs[k] is where.sharding
            there = where if same else placement(outs[k], True)
            made = over(Parts([row[k] for row in found]), array_type(aval, there))
            results.append(made if same else made._at(where))
        return results

    def _compiled(
        self, closed: ClosedJaxpr, mesh: Any, ins: Any, outs: Any, donated: tuple[bool, ...]
    ) -> Executable | None:
        donated = donated if any(donated) else ()

        def make(source: ClosedJaxpr) -> Executable | bool:
            aliases = aliased(source, donated, ins, outs)
            noted = noted_aliases(aliases, len(source.in_avals))
            try:
                text = sharded_text(source, name_of(source), mesh, ins, outs, False, noted)
            except Unlowered as error:
                if mesh.is_multi_process:
                    raise JaxRuntimeError(
                        f"UNIMPLEMENTED: {error}, and the host can't run a program over several "
                        "processes; move the operation out of the program"
                    ) from None
                warn_of(self, error)
                return False
            first = self.clients[0]
            ids = [d.client.id for d in mesh.devices.flat]
            options = device_options(ids, spmd=True, text=text)
            runtime, version = first.runtime, first.runtime.version
            if mesh.is_multi_process:
                ranks = tuple(sorted({d.process_index for d in mesh.devices.flat}))
                processes.transport.begin_program(name_of(source), ranks, text)
                version += f" process {processes.index} of {processes.count}"
            handle, _ = compile_for(first.api, runtime.handle, text, options, version)
            counts = len(source.in_avals), len(source.out_avals)
            return Executable(first.api, handle, len(_own(mesh)), *counts, aliases)

        return programs.compiled(
            closed, CodeKey("pjrt", donated, (mesh, ins, outs, thread.use_shardy_partitioner)), make
        )

    def native_program(
        self, closed: ClosedJaxpr, donated: tuple[bool, ...], places: Any, leaves: Any
    ) -> Any:
        """What native code runs for arguments like these, and on which devices; None for Python,
        which moves arguments and names results in other ways."""
        mesh = self.sharding.mesh
        if mesh.is_multi_process:
            return None
        clients = _own(mesh)
        ins = tuple([_taken(x, mesh) for x in leaves])
        outs = tuple([_named(where.sharding, mesh) for where in places])
        for x, sharding in zip(leaves, ins, strict=True):
            if type(x) is ArrayImpl:
                where = x._type.placement
                there: Any = where.client
                if where.sharding is not sharding or list(there.clients) != clients:
                    return None
        if any(out is not where.sharding for out, where in zip(outs, places, strict=True)):
            return None
        found = self._compiled(closed, mesh, ins, outs, donated)
        return None if found is None else (clients, found)

    def remember(self, pattern: Pattern, places: Any = None) -> bool:
        return entries.remember(pattern, lambda: calls.call(self, pattern, places))

    def divided_as(self, division: Any) -> PjrtDevices:
        return self if division is None else PjrtDevices(self.sharding, division)

    def executable(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Any:
        """A program compiled for all devices; on whole arguments where nobody says otherwise."""
        mesh = self.sharding.mesh
        _, ins, outs = self._division or (None, [None] * len(closed.in_avals), ())
        outs = outs or [None] * len(closed.out_avals)
        named_ins, named_outs = [tuple([_named(s, mesh) for s in x]) for x in (ins, outs)]
        return self._compiled(closed, mesh, named_ins, named_outs, tuple(donated))

    def study(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Study:
        """What became of a program here."""
        found = self.executable(closed, donated)
        return Study(closed, None if found is None else found.code, len(self.clients))

    def told(
        self, closed: Any, name: str, traced: float, args: Sequence[Any] | None = None
    ) -> Told:
        head = f"{name}: {{}} operations on {len(self.clients)} devices of {self.platform}: "
        return self.study(closed).told(head, {"trace": traced})

    def over(self, sharding: Any) -> PjrtDevices:
        return client_over(sharding)


def _own(mesh: Any) -> list[PjrtDevice]:
    """The devices of a mesh that are this process's, in the order of a program's partitions."""
    return [d.client for d in mesh.devices.flat if d.process_index == processes.index]


def _named(sharding: Any, mesh: Any) -> NamedSharding:
    """A sharding as a program has it: over the devices of its mesh, or whole."""
    if isinstance(sharding, NamedSharding) and sharding.num_devices == mesh.size:
        return sharding
    return NamedSharding(mesh, PartitionSpec())


def _taken(x: Any, mesh: Any) -> NamedSharding:
    """How a program takes an argument: as it is divided, else whole."""
    return _named(x._type.placement.sharding if type(x) is ArrayImpl else None, mesh)


def _is_alone(x: Any, sharding: Any) -> bool:
    """Whether an array is the only one that can see its memory, and is divided like this."""
    if type(x) is not ArrayImpl or x._type.placement.sharding is not sharding:
        return False
    # a reference from the array, or from the parts, one of the loop, and that of the question
    if x._owner is None or getrefcount(x._owner) > 2:
        return False
    return all(getrefcount(b) == 3 and type(b) is not View for b in x._owner.buffers)


def _parts(x: Any, sharding: Any, aval: Any) -> Parts:
    """The memory of an argument, divided as a program takes it; what is elsewhere is copied."""
    if type(x) is ArrayImpl:
        if x._type.placement.sharding is sharding:
            return x._alias()._owner
        value = x._value
    else:
        value = np.asarray(x, aval.dtype).reshape(aval.shape)
    memory = client_over(sharding).memory
    return memory.put(value if sharding.is_fully_addressable else rows_of(value, sharding))
