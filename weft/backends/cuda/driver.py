"""The CUDA driver through ctypes: devices, memory, modules, launches and events."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from weft.base.functional import lru

_INT, _SIZE, _PTR = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
_DEVICE_POINTER = ctypes.c_uint64

# Functions of the driver and the types of their arguments; all return a status.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuDriverGetVersion": (_PTR,),
    "cuDeviceGetCount": (_PTR,),
    "cuDeviceGet": (_PTR, _INT),
    "cuDeviceGetName": (ctypes.c_char_p, _INT, _INT),
    "cuDeviceGetAttribute": (_PTR, _INT, _INT),
    "cuDeviceTotalMem_v2": (_PTR, _INT),
    "cuDevicePrimaryCtxRetain": (_PTR, _INT),
    "cuCtxSetCurrent": (_PTR,),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (_PTR, ctypes.c_char_p, ctypes.c_uint, _PTR, _PTR),
    "cuModuleGetFunction": (_PTR, _PTR, ctypes.c_char_p),
    "cuMemAlloc_v2": (_PTR, _SIZE),
    "cuMemFree_v2": (_DEVICE_POINTER,),
    "cuMemcpyHtoD_v2": (_DEVICE_POINTER, _PTR, _SIZE),
    "cuMemcpyDtoH_v2": (_PTR, _DEVICE_POINTER, _SIZE),
    "cuMemcpyDtoDAsync_v2": (_DEVICE_POINTER, _DEVICE_POINTER, _SIZE, _PTR),
    "cuLaunchKernel": (_PTR, *[ctypes.c_uint] * 7, _PTR, _PTR, _PTR),
    "cuEventCreate": (_PTR, ctypes.c_uint),
    "cuEventRecord": (_PTR, _PTR),
    "cuEventSynchronize": (_PTR,),
    "cuEventElapsedTime": (_PTR, _PTR, _PTR),
    "cuGetErrorName": (_INT, _PTR),
    "cuGetErrorString": (_INT, _PTR),
}
# Attributes of a device, as cuda.h numbers them.
_ATTRIBUTES = {"multiprocessors": 16, "major": 75, "minor": 76}
# The oldest driver that takes the PTX that is made here, as it numbers itself.
OLDEST_DRIVER = 12000


class DriverError(RuntimeError):
    """A call of the CUDA driver that failed, or a driver that can't be used."""


@lru(1)
def library() -> Any:
    """The driver's library, loaded and started."""
    try:
        found = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise DriverError("no CUDA driver (libcuda.so.1) on this machine") from None
    for name, types in _FUNCTIONS.items():
        getattr(found, name).argtypes = types
    status = found.cuInit(0)
    if status:
        raise DriverError(f"the CUDA driver does not start: {_explained(found, status)}")
    version = _INT()
    found.cuDriverGetVersion(ctypes.byref(version))
    if version.value < OLDEST_DRIVER:
        told = f"{version.value // 1000}.{version.value % 1000 // 10}"
        raise DriverError(f"the CUDA driver is for CUDA {told}; weft needs one for CUDA 12.0")
    return found


def _explained(found: Any, status: int) -> str:
    texts = []
    for name in ("cuGetErrorName", "cuGetErrorString"):
        text = ctypes.c_char_p()
        getattr(found, name)(status, ctypes.byref(text))
        texts.append((text.value or b"?").decode())
    return ": ".join(texts)


def call(name: str, *args: Any) -> None:
    """Call a function of the driver; its failures are errors."""
    found = library()
    status = getattr(found, name)(*args)
    if status:
        if status == 2:
            raise MemoryError("the GPU has no memory left for this")
        raise DriverError(f"{name}: {_explained(found, status)}")


class Device:
    """One GPU, its primary context current in the thread that asks for it."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        context = _PTR()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        self.context = context
        self.use()
        name = ctypes.create_string_buffer(256)
        call("cuDeviceGetName", name, 256, number)
        self.name = name.value.decode()
        self.multiprocessors = self.attribute("multiprocessors")
        self.architecture = 10 * self.attribute("major") + self.attribute("minor")

    def use(self) -> None:
        call("cuCtxSetCurrent", self.context)

    def attribute(self, name: str) -> int:
        value = _INT()
        call("cuDeviceGetAttribute", ctypes.byref(value), _ATTRIBUTES[name], self.number)
        return value.value


@lru(1)
def device() -> Device:
    """The first GPU."""
    return Device()


def count() -> int:
    """How many GPUs there are; 0 without a driver."""
    try:
        found = _INT()
        call("cuDeviceGetCount", ctypes.byref(found))
    except DriverError:
        return 0
    return found.value


# --- memory ---------------------------------------------------------------------------------------


def allocate(size: int) -> int:
    """The address of device memory."""
    found = _DEVICE_POINTER()
    call("cuMemAlloc_v2", ctypes.byref(found), max(size, 1))
    return found.value


def free(address: int) -> None:
    call("cuMemFree_v2", address)


def copy_in(address: int, host: int, size: int) -> None:
    """Host memory to device memory."""
    if size:
        call("cuMemcpyHtoD_v2", address, host, size)


def copy_out(host: int, address: int, size: int) -> None:
    """Device memory to host memory; waits for what is being computed."""
    if size:
        call("cuMemcpyDtoH_v2", host, address, size)


def copy(target: int, source: int, size: int) -> None:
    """Device memory to device memory."""
    if size:
        call("cuMemcpyDtoDAsync_v2", target, source, size, None)


def synchronize() -> None:
    call("cuCtxSynchronize")


# --- code -----------------------------------------------------------------------------------------


class Function:
    """A kernel of a loaded module."""

    def __init__(self, ptx: str, name: str) -> None:
        module, function = _PTR(), _PTR()
        log = ctypes.create_string_buffer(8192)
        # 5 and 6: a buffer for the assembler's errors, and its size
        options = (_INT * 2)(5, 6)
        values = (_PTR * 2)(ctypes.cast(log, _PTR), _PTR(len(log)))
        text = ptx.encode()
        try:
            call("cuModuleLoadDataEx", ctypes.byref(module), text, 2, options, values)
        except DriverError as error:
            raise DriverError(f"{error}\n{log.value.decode(errors='replace')}") from None
        call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        self.module, self.function = module, function

    def launch(self, grid: int, block: int, addresses: Sequence[int]) -> None:
        """Run the kernel on device memory."""
        values = (_DEVICE_POINTER * len(addresses))(*addresses)
        start = ctypes.addressof(values)
        row = (_PTR * len(addresses))(*[start + 8 * i for i in range(len(addresses))])
        call("cuLaunchKernel", self.function, grid, 1, 1, block, 1, 1, 0, None, row, None)


class Timer:
    """Time on the device between two moments, in milliseconds."""

    def __init__(self) -> None:
        self.events = [_PTR(), _PTR()]
        for event in self.events:
            call("cuEventCreate", ctypes.byref(event), 0)

    def start(self) -> None:
        call("cuEventRecord", self.events[0], None)

    def stop(self) -> float:
        call("cuEventRecord", self.events[1], None)
        call("cuEventSynchronize", self.events[1])
        found = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(found), *self.events)
        return found.value
