"""The CUDA driver through ctypes: devices, streams, memory, modules, graphs and events."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.base.functional import lru
from weft.core import processes

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
    "cuDeviceGetUuid": (_PTR, _INT),
    "cuDevicePrimaryCtxRetain": (_PTR, _INT),
    "cuCtxSetCurrent": (_PTR,),
    "cuCtxSynchronize": (),
    "cuStreamCreate": (_PTR, _UINT),
    "cuStreamSynchronize": (_PTR,),
    "cuStreamQuery": (_PTR,),
    "cuStreamWaitEvent": (_PTR, _PTR, _UINT),
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
    "cuMemHostAlloc": (_PTR, _SIZE, _UINT),
    "cuMemFreeHost": (_PTR,),
    "cuMemGetInfo_v2": (_PTR, _PTR),
    "cuMemcpyHtoDAsync_v2": (_DEVICE_POINTER, _PTR, _SIZE, _PTR),
    "cuMemcpyDtoHAsync_v2": (_PTR, _DEVICE_POINTER, _SIZE, _PTR),
    "cuMemcpyDtoDAsync_v2": (_DEVICE_POINTER, _DEVICE_POINTER, _SIZE, _PTR),
    "cuMemsetD8Async": (_DEVICE_POINTER, ctypes.c_ubyte, _SIZE, _PTR),
    "cuLaunchKernel": (_PTR, *[_UINT] * 7, _PTR, _PTR, _PTR),
    "cuLaunchCooperativeKernel": (_PTR, *[_UINT] * 7, _PTR, _PTR),
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
    "cuLaunchKernelEx": (_PTR, _PTR, _PTR, _PTR),
    "cuTensorMapEncodeTiled": (_PTR, _INT, _UINT, *[_PTR] * 5, *[_INT] * 4),
    "cuEventCreate": (_PTR, _UINT),
    "cuEventRecord": (_PTR, _PTR),
    "cuEventDestroy_v2": (_PTR,),
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
_ATTRIBUTES = {
    "multiprocessors": 16,
    "memory clock": 36,
    "bus width": 37,
    "major": 75,
    "minor": 76,
    "shared": 97,
}
_FUNCTION_ATTRIBUTES = {"shared": 1, "local": 3, "registers": 4}
_MOST_DYNAMIC, _SHARED_PART = 8, 9
# The oldest driver that takes the PTX that is made here, as it numbers itself.
OLDEST_DRIVER = 12000
_NO_MEMORY, _NOT_READY = 2, 600
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
        raise DriverError(f"the CUDA driver supports CUDA {told}; weft needs CUDA 12.0 or newer")
    return found


def reduces_vectors() -> bool:
    """Whether the GPU adds four numbers to memory at once, and the driver knows how."""
    try:
        found, version = library(), _INT()
        found.cuDriverGetVersion(ctypes.byref(version))
        return version.value >= 12010 and device().architecture >= 90
    except DriverError:
        return False


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
            raise OutOfMemory("the GPU is out of memory")
        raise DriverError(f"{name}: {_explained(found, status)}")


class Device:
    """One GPU: its primary context, and the stream that puts all that it computes in order."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.context = _created("cuDevicePrimaryCtxRetain", number)
        call("cuCtxSetCurrent", self.context)
        name = ctypes.create_string_buffer(256)
        call("cuDeviceGetName", name, 256, number)
        self.name = name.value.decode()
        self.multiprocessors = self.attribute("multiprocessors")
        self.shared_memory = self.attribute("shared")  # bytes that a block may have
        self.architecture = 10 * self.attribute("major") + self.attribute("minor")
        self.stream = _new_stream()
        self.capturing = _new_stream()
        self._lanes: list[Any] = []
        self._copying: Any = None
        # commands of several threads are not mixed: libraries' handles have one stream at a time
        self.lock = threading.RLock()

    def use(self) -> None:
        """Have what this thread does from now on done by this GPU."""
        call("cuCtxSetCurrent", self.context)
        _thread.device = self

    def lanes(self, count: int) -> list[Any]:
        """Streams that commands are captured on side by side; the first is that of captures."""
        while len(self._lanes) < count - 1:
            self._lanes.append(_new_stream())
        return [self.capturing, *self._lanes[: count - 1]]

    def copying(self) -> Any:
        """A stream for copies that what follows doesn't wait for."""
        if self._copying is None:
            self._copying = _new_stream()
        return self._copying

    def attribute(self, name: str) -> int:
        value = _INT()
        call("cuDeviceGetAttribute", ctypes.byref(value), _ATTRIBUTES[name], self.number)
        return value.value

    def identity(self) -> str:
        """What no other GPU is called, on any machine."""
        found = ctypes.create_string_buffer(16)
        call("cuDeviceGetUuid", found, self.number)
        return found.raw.hex()

    def bandwidth(self) -> float:
        """Bytes a second that kernels get of the memory: nine tenths of what its clock and the
        width of its bus come to."""
        return 0.9 * 2e3 * self.attribute("memory clock") * self.attribute("bus width") / 8

    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and all there are."""
        free, total = _SIZE(), _SIZE()
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


def _created(name: str, *given: Any) -> Any:
    """What a function of the driver makes, and writes to where its first argument says."""
    found = _PTR()
    call(name, ctypes.byref(found), *given)
    return found


def _new_stream() -> Any:
    return _created("cuStreamCreate", 1)


class _Thread(threading.local):
    """The GPU that a thread uses; None for that of the process."""

    device: Device | None = None


_thread = _Thread()
_devices: dict[int, Device] = {}
_lock = threading.Lock()


def device(number: int | None = None) -> Device:
    """A GPU by its number; without one, that which this thread uses.

    That is the first, or, where several processes of a machine run a program together, one for
    each.
    """
    if number is None:
        if _thread.device is not None:
            return _thread.device
        number = processes.place % max(count(), 1) if processes.place else 0
    found = _devices.get(number)
    if found is None:
        with _lock:
            found = _devices.get(number)
            if found is None:
                found = Device(number)
                (_thread.device or found).use()
                _devices[number] = found
    return found


def in_use() -> Device | None:
    """The GPU that this thread uses, if it has used any."""
    return _thread.device


def per_device(size: int) -> Any:
    """A cache of so many results of a function, which are of the GPU that it was called for."""

    def decorate(function: Callable[..., Any]) -> Any:
        @lru(size)
        def found(number: int, *args: Any, **named: Any) -> Any:
            return function(*args, **named)

        @functools.wraps(function)
        def looked_up(*args: Any, **named: Any) -> Any:
            try:
                number = device().number
            except DriverError:
                number = -1  # no GPU: the function says so, where it needs one
            return found(number, *args, **named)

        return looked_up

    return decorate


def driver_version() -> int:
    """The version of CUDA that the driver has, as a thousand times the major number."""
    version = _INT()
    library().cuDriverGetVersion(ctypes.byref(version))
    return version.value


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


def allocate_host(size: int) -> int:
    """The address of memory of the host that is never paged out."""
    found = _created("cuMemHostAlloc", max(size, 1), 0)
    assert found.value is not None
    return found.value


def free_host(address: int) -> None:
    call("cuMemFreeHost", address)


def copy_in(address: int, host: int, size: int, wait: bool = True) -> None:
    """Host memory to device memory; with ``wait``, the host's may change when this returns."""
    if size:
        stream = device().stream
        call("cuMemcpyHtoDAsync_v2", address, host, size, stream)
        if wait:
            finish(stream)


def copy_out(host: int, address: int, size: int, wait: bool = True) -> None:
    """Device memory to host memory; with ``wait``, the values are there when this returns."""
    if size:
        stream = device().stream
        call("cuMemcpyDtoHAsync_v2", host, address, size, stream)
        if wait:
            finish(stream)


def copy_aside(host: int, address: int, size: int) -> Any:
    """Device memory to host memory, once all is done that the stream was given so far; what comes
    after doesn't wait for that. The moment when the values are there."""
    aside = device().copying()
    computed = moment(device().stream)
    wait_for(aside, computed)
    destroy_event(computed)
    call("cuMemcpyDtoHAsync_v2", host, address, size, aside)
    return moment(aside)


def copy(target: int, source: int, size: int, stream: Any) -> None:
    """Device memory to device memory."""
    if size and target != source:
        call("cuMemcpyDtoDAsync_v2", target, source, size, stream)


def fill(address: int, value: int, size: int, stream: Any) -> None:
    """Bytes set to a value."""
    if size:
        call("cuMemsetD8Async", address, value, size, stream)


def synchronize() -> None:
    """Wait for all that this thread's GPU was given to do."""
    finish(device().stream)


# What waits for a stream where others may never answer (``messages.py``).
_patience: Callable[[Any], None] | None = None


def set_patience(function: Callable[[Any], None] | None) -> None:
    """Have a function wait for streams; None for the driver itself."""
    global _patience
    _patience = function


def is_patient() -> bool:
    """Whether somebody else waits for streams, as other processes may fail meanwhile."""
    return _patience is not None


def finish(stream: Any) -> None:
    """Wait until all is done that a stream was given."""
    if _patience is None:
        call("cuStreamSynchronize", stream)
    else:
        _patience(stream)


def is_done(stream: Any) -> bool:
    """Whether all is done that a stream was given."""
    status = library().cuStreamQuery(stream)
    if status not in (0, _NOT_READY):
        raise DriverError(f"cuStreamQuery: {_explained(library(), status)}")
    return status == 0


def synchronize_all() -> None:
    """Wait for all GPUs that are in use."""
    before = device()
    for found in list(_devices.values()):
        found.use()
        call("cuStreamSynchronize", found.stream)
    before.use()


def is_idle() -> bool:
    """Whether all that was put on the stream is done."""
    return is_done(device().stream)


def new_event() -> Any:
    """A moment of a stream, without its time."""
    return _created("cuEventCreate", 2)


def moment(stream: Any) -> Any:
    """An event for when all that a stream has been given so far is done."""
    event = new_event()
    record(event, stream)
    return event


def wait_until(event: Any) -> None:
    """Wait for a moment that is to come, and forget it."""
    call("cuEventSynchronize", event)
    destroy_event(event)


def wait_for(stream: Any, event: Any) -> None:
    """Have a stream wait for a moment of another."""
    call("cuStreamWaitEvent", stream, event, 0)


# --- code -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _logged(level: int = 4) -> Iterator[tuple[Any, ...]]:
    """Options for the driver's assembler: its level, and a log, which is part of errors inside."""
    log = ctypes.create_string_buffer(8192)
    # 5 and 6: a buffer for errors, and its size; 7: the level
    values = (_PTR * 3)(ctypes.cast(log, _PTR), _PTR(len(log)), _PTR(level))
    try:
        yield 3, (_INT * 3)(5, 6, 7), values
    except DriverError as error:
        raise DriverError(f"{error}\n{log.value.decode(errors='replace')}") from None


class Function:
    """A kernel of a loaded module, from PTX or machine code, or from what gives that when it is
    waited for: such a one has to be loaded before it is launched."""

    def __init__(
        self,
        code: str | bytes | Callable[[], bytes],
        name: str,
        dynamic: int = 0,
        waits: bool = False,
        key: bytes = b"",
    ) -> None:
        """``waits``: whether the kernel waits by itself for the one before it; ``key`` is what its
        code is found by on the disk."""
        self.name, self.dynamic, self.waits, self.key = name, dynamic, waits, key
        # what makes better code, where this was made quickly
        self.better: Callable[[], bytes] | None = None
        self._improving = threading.Lock()
        self.begins_early = False
        self.function: Any = None
        self._launch = library().cuLaunchKernel
        if callable(code):
            self._waiting = code
        else:
            self._load(code)

    def ready(self) -> None:
        """Load a kernel that was waited for."""
        if self.function is None:
            self._load(self._waiting())

    def improve(self) -> None:
        """Make better code, where this was made quickly, and launch that from now on."""
        with self._improving:
            if self.better is not None:
                self._load(self.better())  # graphs may launch the code before, which stays
                self.better = None

    def _load(self, code: str | bytes) -> None:
        text = code.encode() if isinstance(code, str) else code
        with _logged() as options:
            module = _created("cuModuleLoadDataEx", text, *options)
        function = _created("cuModuleGetFunction", module, self.name.encode())
        if self.dynamic:  # with what the text declares it may be more than is given unasked
            call("cuFuncSetAttribute", function, _MOST_DYNAMIC, self.dynamic)
        if self.begins_early:
            call("cuFuncSetAttribute", function, _SHARED_PART, 100)
        self.module, self.function = module, function

    @property
    def handle(self) -> int:
        """The kernel as the driver knows it."""
        return self.function.value or 0

    def attribute(self, name: str) -> int:
        """``registers`` and ``local`` bytes of a thread, bytes of ``shared`` memory of a block."""
        value = _INT()
        number = _FUNCTION_ATTRIBUTES[name]
        call("cuFuncGetAttribute", ctypes.byref(value), number, self.function)
        return value.value

    def launch_with(self, grid: int, block: int, given: Sequence[Any], stream: Any) -> None:
        """Run the kernel with parameters of any type of ctypes."""
        self._launch_row(grid, block, (_PTR * len(given))(*map(ctypes.addressof, given)), stream)

    def _launch_row(self, grid: int, block: int, row: Any, stream: Any) -> None:
        status = self._launch(
            self.function, grid, 1, 1, block, 1, 1, self.dynamic, stream, row, None
        )
        if status:
            raise DriverError(f"cuLaunchKernel: {_explained(library(), status)}")

    def launch(self, grid: int, block: int, values: Sequence[int], stream: Any) -> None:
        """Run the kernel; its parameters are 64-bit numbers."""
        row, _given = _parameters(values)
        self._launch_row(grid, block, row, stream)

    def launch_early(self, grid: int, block: int, values: Sequence[int], stream: Any) -> None:
        """Run the kernel, whose blocks may begin while the kernel before it on the stream ends:
        it waits for that one by itself (`ptx.WAIT`). All such kernels have the same part of a
        multiprocessor's memory for sharing: another one would have to wait for its blocks."""
        if not self.begins_early:
            call("cuFuncSetAttribute", self.function, _SHARED_PART, 100)
            self.begins_early = True
        row, _given = _parameters(values)
        attribute = _LaunchAttribute(_PROGRAMMATIC_SERIALIZATION, value=1)
        pointer = ctypes.addressof(attribute)
        config = _LaunchConfig(grid, 1, 1, block, 1, 1, self.dynamic, stream, pointer, 1)
        call("cuLaunchKernelEx", ctypes.byref(config), self.function, row, None)

    def launch_together(self, grid: int, block: int, values: Sequence[int], stream: Any) -> None:
        """Run the kernel with all its blocks resident at once, so that they may wait for each
        other."""
        row, _given = _parameters(values)
        sizes = (grid, 1, 1, block, 1, 1, self.dynamic)
        call("cuLaunchCooperativeKernel", self.function, *sizes, stream, row)


def _parameters(values: Sequence[int]) -> tuple[Any, Any]:
    """A row of addresses of 64-bit numbers, and the numbers, which have to live as long."""
    count = len(values)
    given = (_DEVICE_POINTER * count)(*values)
    start = ctypes.addressof(given)
    return (_PTR * count)(*range(start, start + 8 * count, 8)), given


# An attribute of a launch: it need not wait for the end of the kernel before it.
_PROGRAMMATIC_SERIALIZATION = 6


class _LaunchAttribute(ctypes.Structure):
    _fields_ = (
        ("name", _INT),
        ("gap", _INT),  # values begin at a multiple of 8
        ("value", _INT),
        ("rest", ctypes.c_char * 60),
    )


class _LaunchConfig(ctypes.Structure):
    """Blocks and threads in three directions, shared memory, the stream, attributes."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "dynamic")),
        ("stream", _PTR),
        ("attributes", _PTR),
        ("count", ctypes.c_uint),
    )


class TensorMap(ctypes.Structure):
    """An array as copies of its tiles take it."""

    _fields_ = [("words", _LONG * 16)]


_MAP_TYPES = {"f16": 6, "bf16": 9}
_SWIZZLE_128, _PROMOTE_256 = 3, 3


def tensor_map(
    kind: str, address: int, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int]
) -> TensorMap:
    """An array of 16-bit floats, its axes from the innermost on, with the strides of the others in
    bytes; tiles have the sizes of a box and are swizzled by 128 bytes."""
    room = (ctypes.c_char * (128 + 64))()
    start = ctypes.addressof(room) + 63 & ~63
    rank = len(sizes)
    call(
        "cuTensorMapEncodeTiled",
        *(start, _MAP_TYPES[kind], rank, address, (_LONG * rank)(*sizes)),
        *((_LONG * (rank - 1))(*strides), (_UINT * rank)(*box), (_UINT * rank)(*[1] * rank)),
        *(0, _SWIZZLE_128, _PROMOTE_256, 0),
    )
    return TensorMap.from_buffer_copy(ctypes.string_at(start, 128))


def link(ptx: str, path: str | None = None, level: int = 4) -> bytes:
    """Machine code from PTX, and from a library of device code if there is one; the assembler does
    little at the first levels, and all it can at the fourth."""
    state = _PTR()
    text = ptx.encode() + b"\0"
    with _logged(level) as options:
        call("cuLinkCreate_v2", *options, ctypes.byref(state))
        call("cuLinkAddData_v2", state, 1, text, len(text), b"ptx", 0, None, None)
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
        self.executable = _created("cuGraphInstantiateWithFlags", graph, 0)
        call("cuGraphDestroy", graph)
        self._launch = library().cuGraphLaunch

    @property
    def handle(self) -> int:
        """The graph as the driver knows it."""
        return self.executable.value or 0

    def launch(self, stream: Any) -> None:
        status = self._launch(self.executable, stream)
        if status:
            raise DriverError(f"cuGraphLaunch: {_explained(library(), status)}")

    def close(self) -> None:
        call("cuGraphExecDestroy", self.executable)


def addresses() -> tuple[int, int]:
    """Where the driver's functions are that launch a kernel and a graph."""
    found = library()
    names = ("cuLaunchKernel", "cuGraphLaunch")
    kernel, graph = [ctypes.cast(getattr(found, name), _PTR).value or 0 for name in names]
    return kernel, graph


def is_plain(function: Any) -> bool:
    """Whether a kernel is launched as most are."""
    return type(function) is Function


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
        end_capture(inner)
    after = (_PTR * 1)(node)
    call("cuStreamUpdateCaptureDependencies_v2", stream, after, None, 1, 1)


def timed_event() -> Any:
    """A moment of a stream."""
    return _created("cuEventCreate", 0)


def record(event: Any, stream: Any) -> None:
    """Have an event be the moment when a stream gets here."""
    call("cuEventRecord", event, stream)


def destroy_event(event: Any) -> None:
    call("cuEventDestroy_v2", event)


def elapsed(first: Any, last: Any) -> float:
    """Milliseconds between two events, once the last has come."""
    call("cuEventSynchronize", last)
    found = ctypes.c_float()
    call("cuEventElapsedTime", ctypes.byref(found), first, last)
    return found.value


class Timer:
    """Time on the device between two moments, in milliseconds."""

    def __init__(self) -> None:
        self.events = [timed_event(), timed_event()]

    def start(self) -> None:
        record(self.events[0], device().stream)

    def stop(self) -> float:
        record(self.events[1], device().stream)
        return elapsed(*self.events)
