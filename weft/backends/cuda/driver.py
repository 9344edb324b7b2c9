"""The CUDA driver through ctypes: devices, streams, memory, modules, graphs and events."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from weft.base.functional import lru

_INT, _SIZE, _PTR = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
_UINT, _LONG = ctypes.c_uint, ctypes.c_uint64
_DEVICE_POINTER = ctypes.c_uint64

# Functions of the driver and the types of their arguments; all return a status.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (_UINT,),
    "cuDriverGetVersion": (_PTR,),
    "cuDeviceGetCount": (_PTR,),
    "cuDeviceGet": (_PTR, _INT),
    "cuDeviceGetName": (ctypes.c_char_p, _INT, _INT),
    "cuDeviceGetAttribute": (_PTR, _INT, _INT),
    "cuDeviceTotalMem_v2": (_PTR, _INT),
    "cuDevicePrimaryCtxRetain": (_PTR, _INT),
    "cuCtxSetCurrent": (_PTR,),
    "cuCtxSynchronize": (),
    "cuStreamCreate": (_PTR, _UINT),
    "cuStreamSynchronize": (_PTR,),
    "cuModuleLoadDataEx": (_PTR, ctypes.c_char_p, _UINT, _PTR, _PTR),
    "cuModuleGetFunction": (_PTR, _PTR, ctypes.c_char_p),
    "cuFuncGetAttribute": (_PTR, _INT, _PTR),
    "cuFuncSetAttribute": (_PTR, _INT, _INT),
    "cuLinkCreate_v2": (_UINT, _PTR, _PTR, _PTR),
    "cuLinkAddData_v2": (_PTR, _INT, ctypes.c_char_p, _SIZE, ctypes.c_char_p, _UINT, _PTR, _PTR),
    "cuLinkAddFile_v2": (_PTR, _INT, ctypes.c_char_p, _UINT, _PTR, _PTR),
    "cuLinkComplete": (_PTR, _PTR, _PTR),
    "cuLinkDestroy": (_PTR,),
    "cuMemAlloc_v2": (_PTR, _SIZE),
    "cuMemFree_v2": (_DEVICE_POINTER,),
    "cuMemGetInfo_v2": (_PTR, _PTR),
    "cuMemcpyHtoDAsync_v2": (_DEVICE_POINTER, _PTR, _SIZE, _PTR),
    "cuMemcpyDtoHAsync_v2": (_PTR, _DEVICE_POINTER, _SIZE, _PTR),
    "cuMemcpyDtoDAsync_v2": (_DEVICE_POINTER, _DEVICE_POINTER, _SIZE, _PTR),
    "cuMemsetD8Async": (_DEVICE_POINTER, ctypes.c_ubyte, _SIZE, _PTR),
    "cuLaunchKernel": (_PTR, *[_UINT] * 7, _PTR, _PTR, _PTR),
    "cuStreamBeginCapture_v2": (_PTR, _INT),
    "cuStreamBeginCaptureToGraph": (_PTR, _PTR, _PTR, _PTR, _SIZE, _INT),
    "cuStreamEndCapture": (_PTR, _PTR),
    "cuStreamGetCaptureInfo_v3": (_PTR, _PTR, _PTR, _PTR, _PTR, _PTR, _PTR),
    "cuStreamUpdateCaptureDependencies_v2": (_PTR, _PTR, _PTR, _SIZE, _UINT),
    "cuGraphAddNode_v2": (_PTR, _PTR, _PTR, _PTR, _SIZE, _PTR),
    "cuGraphConditionalHandleCreate": (_PTR, _PTR, _PTR, _UINT, _UINT),
    "cuGraphInstantiateWithFlags": (_PTR, _PTR, _LONG),
    "cuGraphLaunch": (_PTR, _PTR),
    "cuGraphExecDestroy": (_PTR,),
    "cuGraphDestroy": (_PTR,),
    "cuEventCreate": (_PTR, _UINT),
    "cuEventRecord": (_PTR, _PTR),
    "cuEventSynchronize": (_PTR,),
    "cuEventElapsedTime": (_PTR, _PTR, _PTR),
    "cuGetErrorName": (_INT, _PTR),
    "cuGetErrorString": (_INT, _PTR),
}
# Functions that drivers from CUDA 12.4 on have.
_NEWER = frozenset(
    "cuStreamBeginCaptureToGraph cuStreamGetCaptureInfo_v3 cuStreamUpdateCaptureDependencies_v2"
    " cuGraphAddNode_v2 cuGraphConditionalHandleCreate".split()
)
# Attributes of a device, and of a function, as cuda.h numbers them.
_ATTRIBUTES = {"multiprocessors": 16, "major": 75, "minor": 76}
_FUNCTION_ATTRIBUTES = {"shared": 1, "local": 3, "registers": 4}
_MOST_DYNAMIC = 8
# The oldest driver that takes the PTX that is made here, as it numbers itself.
OLDEST_DRIVER = 12000
_NO_MEMORY = 2
_THREAD_LOCAL = 1  # how far the rules of capturing reach


class DriverError(RuntimeError):
    """A call of the CUDA driver that failed, or a driver that can't be used."""


class OutOfMemory(MemoryError):
    """The GPU has no memory left."""


@lru(1)
def library() -> Any:
    """The driver's library, loaded and started."""
    try:
        found = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise DriverError("no CUDA driver (libcuda.so.1) on this machine") from None
    for name, types in _FUNCTIONS.items():
        if name not in _NEWER or hasattr(found, name):
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


def has_conditional_nodes() -> bool:
    """Whether the driver knows graphs with loops and branches."""
    found = library()
    return all(hasattr(found, name) for name in _NEWER)


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
        if status == _NO_MEMORY:
            raise OutOfMemory("the GPU has no memory left for this")
        raise DriverError(f"{name}: {_explained(found, status)}")


class Device:
    """One GPU, its primary context current in the thread that asks for it.

    All that is computed is put in order by one stream; another is for what is being captured.
    """

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
        self.stream = _new_stream()

    def use(self) -> None:
        call("cuCtxSetCurrent", self.context)

    def attribute(self, name: str) -> int:
        value = _INT()
        call("cuDeviceGetAttribute", ctypes.byref(value), _ATTRIBUTES[name], self.number)
        return value.value

    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and all there are."""
        free, total = _SIZE(), _SIZE()
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


def _new_stream() -> Any:
    stream = _PTR()
    call("cuStreamCreate", ctypes.byref(stream), 1)
    return stream


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
    """Host memory to device memory; the host's may change when this returns."""
    if size:
        stream = device().stream
        call("cuMemcpyHtoDAsync_v2", address, host, size, stream)
        call("cuStreamSynchronize", stream)


def copy_out(host: int, address: int, size: int) -> None:
    """Device memory to host memory; waits for what is being computed."""
    if size:
        stream = device().stream
        call("cuMemcpyDtoHAsync_v2", host, address, size, stream)
        call("cuStreamSynchronize", stream)


def copy(target: int, source: int, size: int, stream: Any) -> None:
    """Device memory to device memory."""
    if size and target != source:
        call("cuMemcpyDtoDAsync_v2", target, source, size, stream)


def fill(address: int, value: int, size: int, stream: Any) -> None:
    """Bytes set to a value."""
    if size:
        call("cuMemsetD8Async", address, value, size, stream)


def synchronize() -> None:
    call("cuStreamSynchronize", device().stream)


# --- code -----------------------------------------------------------------------------------------


class Function:
    """A kernel of a loaded module, from PTX or machine code."""

    def __init__(self, code: str | bytes, name: str, dynamic: int = 0) -> None:
        module, function = _PTR(), _PTR()
        log = ctypes.create_string_buffer(8192)
        # 5 and 6: a buffer for the assembler's errors, and its size
        options = (_INT * 2)(5, 6)
        values = (_PTR * 2)(ctypes.cast(log, _PTR), _PTR(len(log)))
        text = code.encode() if isinstance(code, str) else code
        try:
            call("cuModuleLoadDataEx", ctypes.byref(module), text, 2, options, values)
        except DriverError as error:
            raise DriverError(f"{error}\n{log.value.decode(errors='replace')}") from None
        call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        self.module, self.function, self.dynamic = module, function, dynamic
        self._launch = library().cuLaunchKernel
        if dynamic > 48 << 10:
            call("cuFuncSetAttribute", function, _MOST_DYNAMIC, dynamic)

    def attribute(self, name: str) -> int:
        """``registers`` and ``local`` bytes of a thread, bytes of ``shared`` memory of a block."""
        value = _INT()
        number = _FUNCTION_ATTRIBUTES[name]
        call("cuFuncGetAttribute", ctypes.byref(value), number, self.function)
        return value.value

    def launch(self, grid: int, block: int, values: Sequence[int], stream: Any) -> None:
        """Run the kernel; its parameters are 64-bit numbers."""
        count = len(values)
        given = (_DEVICE_POINTER * count)(*values)
        start = ctypes.addressof(given)
        row = (_PTR * count)(*range(start, start + 8 * count, 8))
        status = self._launch(
            self.function, grid, 1, 1, block, 1, 1, self.dynamic, stream, row, None
        )
        if status:
            raise DriverError(f"cuLaunchKernel: {_explained(library(), status)}")


def link(ptx: str, path: str | None = None) -> bytes:
    """Machine code from PTX, and from a library of device code if there is one."""
    state = _PTR()
    log = ctypes.create_string_buffer(8192)
    options = (_INT * 2)(5, 6)
    values = (_PTR * 2)(ctypes.cast(log, _PTR), _PTR(len(log)))
    call("cuLinkCreate_v2", 2, options, values, ctypes.byref(state))
    text = ptx.encode() + b"\0"
    try:
        call("cuLinkAddData_v2", state, 1, text, len(text), b"ptx", 0, None, None)
    except DriverError as error:
        raise DriverError(f"{error}\n{log.value.decode(errors='replace')}") from None
    if path is not None:
        call("cuLinkAddFile_v2", state, 4, path.encode(), 0, None, None)
    code, size = _PTR(), _SIZE()
    call("cuLinkComplete", state, ctypes.byref(code), ctypes.byref(size))
    assert code.value is not None
    found = ctypes.string_at(code.value, size.value)
    call("cuLinkDestroy", state)
    return found


# --- graphs ---------------------------------------------------------------------------------------


class Graph:
    """Launches that were captured, to be run again at once."""

    def __init__(self, graph: Any) -> None:
        self.executable = _PTR()
        call("cuGraphInstantiateWithFlags", ctypes.byref(self.executable), graph, 0)
        call("cuGraphDestroy", graph)
        self._launch = library().cuGraphLaunch

    def launch(self, stream: Any) -> None:
        status = self._launch(self.executable, stream)
        if status:
            raise DriverError(f"cuGraphLaunch: {_explained(library(), status)}")

    def close(self) -> None:
        call("cuGraphExecDestroy", self.executable)


def begin_capture(stream: Any) -> None:
    call("cuStreamBeginCapture_v2", stream, _THREAD_LOCAL)


def end_capture(stream: Any) -> Any:
    graph = _PTR()
    call("cuStreamEndCapture", stream, ctypes.byref(graph))
    return graph


class _Conditional(ctypes.Structure):
    """The parameters of a conditional node; what others have in its place is bytes here."""

    _fields_ = [
        ("type", _INT),
        ("reserved", _INT * 3),
        ("handle", _LONG),
        ("kind", _INT),
        ("size", _UINT),
        ("graphs", ctypes.POINTER(_PTR)),
        ("context", _PTR),
        ("rest", ctypes.c_char * (232 - 32)),
        ("last", ctypes.c_longlong),
    ]


IF, WHILE = 0, 1
_CONDITIONAL = 13


def _capturing(stream: Any) -> tuple[Any, Any, int]:
    """The graph that a stream is captured into, and the nodes that the next depends on."""
    status, graph, nodes, edges, number = _INT(), _PTR(), _PTR(), _PTR(), _SIZE()
    call(
        "cuStreamGetCaptureInfo_v3",
        *(stream, ctypes.byref(status), None, ctypes.byref(graph), ctypes.byref(nodes)),
        *(ctypes.byref(edges), ctypes.byref(number)),
    )
    return graph, nodes, number.value


def new_condition(stream: Any) -> int:
    """The handle of a condition of the graph that a stream is captured into."""
    graph, _, _ = _capturing(stream)
    handle = _LONG()
    call("cuGraphConditionalHandleCreate", ctypes.byref(handle), graph, device().context, 0, 0)
    return handle.value


def add_conditional(stream: Any, handle: int, kind: int, capture: Any) -> None:
    """A node that runs what ``capture(stream)`` captures if, or while, a condition holds."""
    graph, nodes, number = _capturing(stream)
    told = _Conditional(type=_CONDITIONAL, handle=handle, kind=kind, size=1)
    told.context = device().context
    node = _PTR()
    call("cuGraphAddNode_v2", ctypes.byref(node), graph, nodes, None, number, ctypes.byref(told))
    inner = _new_stream()
    body = told.graphs[0]
    call("cuStreamBeginCaptureToGraph", inner, body, None, None, 0, _THREAD_LOCAL)
    try:
        capture(inner)
    finally:
        ended = _PTR()
        call("cuStreamEndCapture", inner, ctypes.byref(ended))
    after = (_PTR * 1)(node)
    call("cuStreamUpdateCaptureDependencies_v2", stream, after, None, 1, 1)


class Timer:
    """Time on the device between two moments, in milliseconds."""

    def __init__(self) -> None:
        self.events = [_PTR(), _PTR()]
        for event in self.events:
            call("cuEventCreate", ctypes.byref(event), 0)

    def start(self) -> None:
        call("cuEventRecord", self.events[0], device().stream)

    def stop(self) -> float:
        call("cuEventRecord", self.events[1], device().stream)
        call("cuEventSynchronize", self.events[1])
        found = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(found), *self.events)
        return found.value
