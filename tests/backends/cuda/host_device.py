"""A driver made of the host: device memory is arrays, kernels are run by NumPy, loops that are one
kernel by threads."""

import ctypes
import threading

import numpy as np
import pytest

from weft.backends.cuda import assemble, conditions, driver, memory, profile, program
from weft.backends.cuda.calls import fast
from weft.backends.cuda.chain import Chain
from weft.backends.cuda.text import join, runs
from weft.backends.llvm.code import Module
from weft.kernel.run import run_kernel
from weft.runtime import devices

# All kernels, which native code knows by their number from 1 on; calls of native code, and graphs
# that were launched after they had been closed.
_kernels = []
native_launches = []
closed_launches = []


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
def launch_kernel(handle, blocks, _1, _2, threads, _3, _4, dynamic, stream, row, extra):
    """What native code calls for the driver's function."""
    kernel = _kernels[handle - 1]
    count = kernel.parameters()
    pointers = (ctypes.c_size_t * count).from_address(row)
    values = [ctypes.c_size_t.from_address(p).value for p in pointers]
    kernel.launch(blocks, threads, values, stream)
    native_launches.append(handle)
    return 0


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p)
def launch_graph(handle, stream):
    """The same for graphs."""
    _kernels[handle - 1].launch(stream)
    native_launches.append(handle)
    return 0


class Kernel:
    """A scheduled kernel, run as the IR that it is."""

    dynamic = 0
    waits = True

    def __init__(self, kernel, name=""):
        self.kernel, self.name = kernel, name
        self.launches = 0
        _kernels.append(self)
        self.handle = len(_kernels)

    def parameters(self):
        return len([b for b in self.kernel.buffers if b.role != "row"])

    def launch_early(self, *given):
        self.launch(*given)

    def launch(self, blocks, threads, values, stream):
        self.launches += 1
        outside = [b for b in self.kernel.buffers if b.role != "row"]
        run_kernel(self.kernel, [at(v, b) for v, b in zip(values, outside, strict=False)])

    def attribute(self, name):
        return 0

    def ready(self):
        pass


class Together(Kernel):
    """Several scheduled kernels as one launch, by blocks that come in an unlucky order."""

    def __init__(self, joined, name=""):
        super().__init__(None, name)
        self.joined = joined

    def parameters(self):
        return len(self.joined.only_read)

    def launch(self, blocks, threads, values, stream):
        self.launches += 1
        assert (blocks, threads) == (self.joined.blocks, self.joined.block_threads)
        if isinstance(self.joined.pieces[-1].schedule, Chain):
            from tests.backends.cuda.test_columns import run_text

            ahead = (len(values) - len(self.joined.only_read)) // 2
            run_text(self.joined, values, join.render(self.joined, ahead))
            return
        first = self.joined.pieces[: self.joined.repeated]
        # another block may do the first ones after one has done all; the others are in any order
        for schedule, places, _ in (*first, *reversed(self.joined.pieces[len(first) :]), *first):
            given = [values[i] for i in places]
            outside = [b for b in schedule.kernel.buffers if b.role != "row"]
            run_kernel(schedule.kernel, [at(v, b) for v, b in zip(given, outside, strict=True)])


class Text(Kernel):
    """A kernel that is run by its text: that of a loop, or one that takes sizes."""

    def __init__(self, text, dynamic, name=""):
        from tests.backends.cuda import emulation

        super().__init__(None, name)
        self.loop = emulation.Loop(text, dynamic)
        self.launch_together = self.loop.launch_together
        self.count = str(text).partition("define ptx_kernel")[2].partition(")")[0].count(",") + 1

    def parameters(self):
        return self.count

    def launch(self, blocks, threads, values, stream):
        self.launches += 1
        self.loop.launch(blocks, threads, values, stream)


def at(address, buffer):
    """Memory at an address as an array."""
    size = buffer.size * buffer.dtype.itemsize
    if not size:
        return np.zeros(0, buffer.dtype)
    return np.frombuffer((ctypes.c_char * size).from_address(address), buffer.dtype)


class Device:
    stream = capturing = ctypes.c_void_p(7)
    context = None
    architecture = 90
    multiprocessors, shared_memory = 2, 227 << 10
    name = "host"

    def __init__(self, number):
        self.number, self.lock = number, threading.RLock()

    def use(self):
        used.device = self

    def identity(self):
        return f"GPU {self.number}"

    def bandwidth(self):
        return 4e12

    def memory(self):
        return 1 << 30, 1 << 30


# Memory of all devices that there were: arrays of earlier tests may be there still.
_all = []
used = threading.local()


def install(monkeypatch, most=1 << 30, count=1, apart=False):
    """Have programs run on the host, as several GPUs; allocations beyond so many bytes fail.

    Memory of a real GPU and of the host must not meet: where there is one, this needs a process of
    its own (``apart``).
    """
    if not apart and driver.count():
        pytest.skip("a GPU made of the host can't share a process with a real one")
    blocks, devices = {}, [Device(i) for i in range(count)]
    _all.append(blocks)

    def device(number=None):
        if number is None:
            return getattr(used, "device", devices[0])
        return devices[number]

    def allocate(size):
        if size + sum(b.nbytes for b in [*blocks.values()]) > most:
            raise driver.OutOfMemory("the GPU is out of memory")
        return make(size, blocks)

    def make(size, blocks, made=lambda n: np.full(n, 0xAB, np.uint8)):
        block = made(size + 64)
        address = block.ctypes.data + 63 & ~63
        blocks[address] = block
        return address

    parts = {}

    def render(part, ahead=False):
        parts[id(part)] = part
        return id(part)

    devices[0].use()
    others = {i: memory.Pool(allocate, blocks.pop, i) for i in range(1, count)}
    monkeypatch.setattr(memory, "_pools", {0: memory.pool, **others})
    pool = memory.Pool(allocate, lambda address: blocks.pop(address))
    _all.append(pool)  # which blocks go back to, whenever that is
    for module in (memory, program):
        monkeypatch.setattr(module, "pool", pool)
    monkeypatch.setitem(memory._pools, 0, pool)
    held = {}
    _all.append(held)
    monkeypatch.setattr(memory, "pinned", memory.Pool(lambda size: make(size, held), held.pop))
    monkeypatch.setattr(memory, "_rings", {})
    # rings are large, and nothing is read there before it is written
    host = lambda size: make(size, held, lambda n: np.empty(n, np.uint8))
    monkeypatch.setattr(driver, "allocate_host", host)
    monkeypatch.setattr(driver, "synchronize", lambda: None)
    monkeypatch.setattr("weft.backends.cuda.dlpack.order", lambda first, then: None)
    monkeypatch.setattr(driver, "is_idle", lambda: True)
    monkeypatch.setattr(driver, "device", device)
    monkeypatch.setattr(driver, "in_use", lambda: device())
    monkeypatch.setattr(driver, "copy_in", lambda a, h, n, wait=True: ctypes.memmove(a, h, n))
    monkeypatch.setattr(driver, "copy_out", lambda h, a, n, wait=True: ctypes.memmove(h, a, n))
    monkeypatch.setattr(driver, "copy_aside", ctypes.memmove)
    monkeypatch.setattr(driver, "moment", lambda stream: None)
    monkeypatch.setattr(driver, "wait_until", lambda event: None)
    monkeypatch.setattr(driver, "copy", lambda t, s, n, stream: ctypes.memmove(t, s, n))
    monkeypatch.setattr(driver, "fill", lambda a, v, n, stream: ctypes.memset(a, v, n))
    monkeypatch.setattr(conditions, "available", lambda: False)
    monkeypatch.setattr(assemble, "render", render)
    monkeypatch.setattr(assemble, "render_joined", render)
    # the host has a thread for each of a kernel's: tests of runs ask for them
    monkeypatch.setattr(runs, "MIN_LAUNCHES", 1 << 30)

    def load(key, dynamic=0, label=""):
        if isinstance(key, Module):
            return Text(key, dynamic, label)
        made = parts[key]
        return Together(made, label) if hasattr(made, "pieces") else Kernel(made.kernel, label)

    monkeypatch.setattr(assemble, "load", load)
    monkeypatch.setattr(assemble, "lower", lambda node, ins, outs: None)
    monkeypatch.setattr(assemble.c, "warn_of", lambda name: None)
    monkeypatch.setattr(profile, "announce", lambda: None)  # traces after this know of no GPU
    return blocks


def install_client(monkeypatch, most=1 << 30):
    """Have a GPU made of the host among the devices, and it."""
    install(monkeypatch, most)
    from weft.backends.cuda.gpu import Gpu

    gpu = devices.Device(0, Gpu(0))
    monkeypatch.setitem(devices._others, "cuda", [gpu])
    monkeypatch.setattr(devices, "_wanted", lambda known="", named="": ["cpu", "cuda"])
    functions = [ctypes.cast(f, ctypes.c_void_p).value for f in (launch_kernel, launch_graph)]
    monkeypatch.setattr(driver, "addresses", lambda: tuple(functions))
    monkeypatch.setattr(driver, "is_plain", lambda function: True)
    monkeypatch.setattr("weft.backends.cuda.calls.fast._ring", fast._ring.__wrapped__)
    monkeypatch.setattr("weft.backends.cuda.program.Executable._captured", _replayed)
    return gpu


def _replayed(executable, addresses):
    class Graph:
        def __init__(self):
            _kernels.append(self)
            self.handle = len(_kernels)

            self.closed = False

        def launch(self, stream):
            if self.closed:
                closed_launches.append(self.handle)
            assemble.c.State(list(addresses), stream).run(executable.commands)

        def close(self):
            self.closed = True

    return Graph()
