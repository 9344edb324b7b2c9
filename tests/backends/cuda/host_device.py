"""A driver made of the host: device memory is arrays, kernels are run by NumPy."""

import ctypes

import numpy as np

from weft.backends.cuda import assemble, conditions, driver, memory
from weft.kernel.run import run_kernel


class Kernel:
    """A scheduled kernel, run as the IR that it is."""

    dynamic = 0

    def __init__(self, kernel):
        self.kernel = kernel
        self.launches = 0

    def launch(self, blocks, threads, values, stream):
        self.launches += 1
        outside = [b for b in self.kernel.buffers if b.role != "row"]
        run_kernel(self.kernel, [at(v, b) for v, b in zip(values, outside, strict=True)])

    def attribute(self, name):
        return 0


def at(address, buffer):
    """Memory at an address as an array."""
    size = buffer.size * buffer.dtype.itemsize
    if not size:
        return np.zeros(0, buffer.dtype)
    return np.frombuffer((ctypes.c_char * size).from_address(address), buffer.dtype)


class Device:
    stream = context = None
    architecture = 90

    def use(self):
        pass

    def memory(self):
        return 1 << 30, 1 << 30


def install(monkeypatch, most=1 << 30):
    """Have programs run on the host; allocations beyond so many bytes fail."""
    blocks, device = {}, Device()

    def allocate(size):
        if size + sum(b.nbytes for b in blocks.values()) > most:
            raise driver.OutOfMemory("the GPU has no memory left for this")
        block = np.full(size + 64, 0xAB, np.uint8)
        address = block.ctypes.data + 63 & ~63
        blocks[address] = block
        return address

    parts = {}

    def render(part):
        parts[id(part)] = part
        return id(part)

    monkeypatch.setattr(memory.pool, "_allocate", allocate)
    monkeypatch.setattr(memory.pool, "_free", lambda address: blocks.pop(address))
    monkeypatch.setattr(memory.pool, "_kept", [])
    monkeypatch.setattr(driver, "device", lambda: device)
    monkeypatch.setattr(driver, "copy_in", lambda a, h, n: ctypes.memmove(a, h, n))
    monkeypatch.setattr(driver, "copy_out", lambda h, a, n: ctypes.memmove(h, a, n))
    monkeypatch.setattr(driver, "copy", lambda t, s, n, stream: ctypes.memmove(t, s, n))
    monkeypatch.setattr(driver, "fill", lambda a, v, n, stream: ctypes.memset(a, v, n))
    monkeypatch.setattr(conditions, "available", lambda: False)
    monkeypatch.setattr(assemble, "render", render)
    monkeypatch.setattr(assemble, "load", lambda key, dynamic=0: Kernel(parts[key].kernel))
    monkeypatch.setattr(assemble, "lower", lambda node, ins, outs: None)
    monkeypatch.setattr(assemble.c, "warn_of", lambda name: None)
    return blocks
