"""A GPU as a place for arrays: its memory, and programs that run where their operands are.

Calls return before their results are computed: all work of a device is put in order by one stream,
and who asks for values waits for them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from sys import getrefcount
from time import perf_counter
from typing import Any

import numpy as np

from weft.backends.cuda import dlpack, driver
from weft.backends.cuda.calls import fast
from weft.backends.cuda.memory import (
    Arrival,
    Buffer,
    begin_copy_out,
    copy_in,
    copy_out,
    memory_stats,
)
from weft.backends.cuda.program import Cuda, Executable
from weft.backends.cuda.story import Study
from weft.backends.llvm.calls import entries
from weft.base import checking
from weft.base.errors import JaxRuntimeError
from weft.base.garbage import uncollected
from weft.base.switches import brisk_switches
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr
from weft.runtime import guards, programs
from weft.runtime.array import ArrayImpl, over
from weft.runtime.client import Memory, Told
from weft.runtime.clients import DeviceClient
from weft.runtime.code import CodeKey
from weft.runtime.compiling import awaits_exact, code
from weft.runtime.devices import devices
from weft.runtime.patterns import Pattern
from weft.runtime.places import array_type, on_device

# Sets of placements that results of an executable have types for.
_MOST_TYPES = 64


class GpuMemory(Memory):
    """Memory of a GPU: what arrays there own are buffers."""

    def __init__(self, client: Gpu) -> None:
        self.client = client

    def copy_out(self, owner: Buffer, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        """The values, copied to the host once they are computed."""
        guards.to_host(dtype, shape)
        checking.settle()
        self.client.use()
        found = copy_out(owner, dtype, shape)
        found.flags.writeable = False
        return found

    def begin_copy_out(self, owner: Buffer, dtype: Any, shape: tuple[int, ...]) -> None:
        """Begin to copy values to the host, for ``copy_out`` to find."""
        checking.settle()
        self.client.use()
        begin_copy_out(owner, dtype, shape)

    def copy(self, owner: Buffer) -> Buffer:
        """A copy on the device."""
        self.client.use()
        found = _fresh(owner.size)
        driver.copy(found.address, owner.address, owner.size, driver.device().stream)
        return found

    def put(self, value: np.ndarray) -> Buffer:
        """Values of the host's, which may change when this returns."""
        self.client.use()
        value = np.ascontiguousarray(value)
        found = _fresh(value.nbytes)
        copy_in(found, value)
        return found

    def moved(self, x: ArrayImpl) -> Buffer:
        """The values of an array that is elsewhere."""
        return self.put(x._value)


def _fresh(size: int) -> Buffer:
    """Memory for an array."""
    try:
        return Buffer(size)
    except driver.OutOfMemory as error:
        raise JaxRuntimeError(
            f"RESOURCE_EXHAUSTED: out of memory on the GPU: an array of {size / 2**20:,.0f} MiB;"
            f" {error}. Delete arrays that you no longer need (x.delete()), or donate them"
        ) from error


class Gpu(DeviceClient):
    """A GPU that holds arrays and runs programs."""

    platform = "gpu"
    device_name, device_prefix = "CudaDevice", "cuda"

    def __init__(self, number: int, over: Callable[[Any], Any] | None = None) -> None:
        """``over`` gives the client of arrays that a sharding divides over several GPUs."""
        self.memory = GpuMemory(self)
        self.number, self._over = number, over
        self._most_held: int | None = None
        self.dlpack_device = (dlpack.CUDA, number)
        self.target = Cuda(number)

    @property
    def device_kind(self) -> str:  # type: ignore[override]
        return driver.device(self.number).name

    def use(self) -> None:
        """Have the GPU current in this thread."""
        device = driver.device(self.number)
        if driver.in_use() is not device:
            device.use()

    def about(self) -> dict[str, str]:
        device = driver.device(self.number)
        free, total = device.memory()
        version = driver.driver_version()
        return {
            f"GPU {self.number}": f"{device.name}, sm_{device.architecture},"
            f" {free / 2**30:.0f} of {total / 2**30:.0f} GiB free",
            "CUDA driver": f"{version // 1000}.{version % 1000 // 10}",
        }

    # --- waiting ----------------------------------------------------------------------------------

    def wait(self) -> None:
        """Wait for all that is being computed."""
        checking.settle()
        self.use()
        driver.synchronize()

    def is_idle(self) -> bool:
        """Whether all that was asked for has been computed."""
        self.use()
        return driver.is_idle()

    def memory_stats(self) -> dict[str, Any]:
        return memory_stats(self.number)

    # --- programs ---------------------------------------------------------------------------------

    def executable(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Executable | None:
        """A program compiled for the GPU; None where some of its values are not memory."""
        donated = donated if any(donated) else ()
        make = functools.partial(self._made, donated=donated)
        return programs.compiled(closed, CodeKey(self, donated), make)

    def _made(
        self, closed: ClosedJaxpr, donated: tuple[bool, ...], exactly: bool = False
    ) -> Executable:
        self.use()
        with uncollected(), brisk_switches:
            made, generic = code(self.target, closed, donated, exactly)
            return Executable(made, closed.out_avals, generic)

    def run(
        self, closed: ClosedJaxpr, args: Any, places: Any, donated: tuple[bool, ...] = ()
    ) -> list[Any] | None:
        executable = self.executable(closed, tuple(donated))
        if executable is None:
            return None
        self.use()
        lost, given = [], []
        for i, (x, aval) in enumerate(zip(args, closed.in_avals, strict=True)):
            alone = i in executable.taken and self._is_alone(x)
            owner = self.owner_of(x, aval)
            if alone:
                lost.append(x)
            elif i in executable.taken:
                owner = self.memory.copy(owner)
            given.append(owner)
        try:
            buffers = executable.run_on_device(given)
        finally:
            for x in lost:
                x.delete()
        types = executable.types.get(places)
        if types is None:
            if len(executable.types) >= _MOST_TYPES:
                executable.types.clear()
            avals = zip(closed.out_avals, places, strict=True)
            types = executable.types[places] = [array_type(a, where) for a, where in avals]
        return [over(b, t) for b, t in zip(buffers, types, strict=True)]

    def study(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Study:
        """What became of a program here."""
        return Study(closed, self.executable(closed, tuple(donated)))

    def told(
        self, closed: ClosedJaxpr, name: str, traced: float, args: Sequence[Any] | None = None
    ) -> Told:
        begin = perf_counter()
        study = self.study(closed)
        seconds = {"trace": traced, "compile": perf_counter() - begin}
        given = None
        if args is not None:
            self.use()
            given = [self.owner_of(x, a) for x, a in zip(args, closed.in_avals, strict=True)]
        return study.told(f"{name}: {{}} operations on {self}: ", seconds, given)

    def _is_alone(self, x: Any) -> bool:
        """Whether an array is the only one that can see its memory, which is this GPU's."""
        if type(x) is not ArrayImpl or x._type.placement.client is not self:
            return False
        # a reference from the array, and one of the question itself
        return x._owner is not None and getrefcount(x._owner) == 2 and x._owner.foreign is None

    def remember(self, pattern: Pattern, places: Any = None) -> bool:
        closed, donated = pattern.closed, pattern.donated if any(pattern.donated) else ()
        executable, key = self.executable(closed, donated), CodeKey(self, donated)
        make = functools.partial(self._made, donated=donated, exactly=True)
        if executable is not None and awaits_exact(executable, closed, key, make):
            return False
        return entries.remember(pattern, lambda: fast.call(self, pattern, places))

    def remember_watched(self, pattern: Any, places: Any, asked: Any) -> bool:
        found = None if driver.is_patient() else self.watched(pattern, places, asked)
        return True if found is None else self.remember(*found)

    def most_held(self) -> int:
        """A sixteenth of the GPU's memory, but no less than other devices hold."""
        if self._most_held is None:
            self.use()
            self._most_held = max(super().most_held(), driver.device().memory()[1] >> 4)
        return self._most_held

    def small_result(self, x: ArrayImpl) -> Callable[[], np.ndarray] | None:
        self.use()
        if driver.is_patient():
            return None
        return Arrival(x._owner, storage_dtype(x.aval.dtype), x.aval.shape)

    # --- other libraries --------------------------------------------------------------------------

    def to_dlpack(
        self, x: ArrayImpl, stream: Any, max_version: Any, dl_device: Any, copy: bool | None
    ) -> Any:
        """An array's memory as a capsule that other libraries read, without a copy unless asked."""
        if dl_device is not None and tuple(dl_device) != self.dlpack_device:
            raise BufferError(
                f"__dlpack__ to the device {tuple(dl_device)}: the array is on"
                f" {self.dlpack_device}; move it first with weft.device_put"
            )
        checking.settle()
        self.use()
        owner = self.memory.copy(x._owner) if copy else x._owner
        return dlpack.export(owner, x.aval, self.number, stream, max_version, bool(copy))

    def from_dlpack(self, x: Any, copy: bool | None) -> ArrayImpl:
        """An array over memory of this GPU that another library exports."""
        self.use()
        buffer, aval = dlpack.take(x)
        if copy:
            buffer = self.memory.copy(buffer)
        return over(buffer, array_type(aval, self.home()))

    def array_interface(self, x: ArrayImpl) -> dict[str, Any]:
        """What Numba's protocol says of an array on a GPU."""
        checking.settle()
        dtype = storage_dtype(x.aval.dtype)
        if dtype.kind not in "biufc" or dtype.isbuiltin != 1:
            raise AttributeError(
                f"__cuda_array_interface__ cannot represent {x.aval.dtype}; use weft.dlpack"
            )
        return {
            "shape": x.aval.shape,
            "typestr": dtype.str,
            "data": (x._owner.address if x.aval.size else 0, False),
            "strides": None,
            "stream": driver.device().stream.value,
            "version": 3,
        }

    def part(self, x: ArrayImpl, device: Any, index: tuple[slice, ...]) -> ArrayImpl:
        return x  # there is no other

    def over(self, sharding: Any) -> Any:
        return self if self._over is None else self._over(sharding)

    def home(self) -> Any:
        return on_device(next(d for d in devices("cuda") if d.client is self))
