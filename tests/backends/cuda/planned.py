"""Programs planned for a GPU that isn't there: commands and memory, of any sizes, nothing run.

Library calls are planned as they are on a GPU with cuBLAS and cuDNN; what these would work in is
not counted.
"""

from __future__ import annotations

from types import SimpleNamespace

import weft
from tests.backends.cuda.host_device import Device
from weft.backends.cuda import assemble, commands, driver, libraries
from weft.backends.cuda.program import Cuda
from weft.backends.cuda.routines import conv, products

# The number of a GPU that no machine has: what libraries make is kept by GPU.
NOWHERE = 999


class _Gpu(Device):
    multiprocessors, shared_memory = 132, 227 << 10

    def memory(self):
        return 1 << 37, 1 << 37


class Algorithm:
    """A library's function that does nothing."""

    workspace, biased, reads, algorithm = 0, False, False, 1

    def __init__(self, *given):
        pass

    def run(self, *given):
        pass


def _kernel(module, dynamic=0, label=""):
    return SimpleNamespace(name=label, dynamic=dynamic, waits=True, handle=1)


def install(monkeypatch):
    """Have programs planned for a GPU with libraries; their kernels are written, not compiled."""
    gpu = _Gpu(NOWHERE)
    monkeypatch.setattr(driver, "device", lambda number=None: gpu)
    monkeypatch.setattr(driver, "in_use", lambda: gpu)
    monkeypatch.setattr(libraries, "has", lambda name: True)
    monkeypatch.setattr(conv, "_convolution", Algorithm)
    monkeypatch.setattr(products, "Product", Algorithm)
    monkeypatch.setattr(assemble, "load", _kernel)
    monkeypatch.setattr(commands, "warn_of", lambda name: None)


def planned(fun, *args, donated=()):
    """What a program becomes, for arguments or their shapes."""
    return Cuda().make(weft.make_jaxpr(fun)(*args), donated)


def live(made):
    """What is in the arena when most bytes are in use: those bytes, and slots with the moments of
    their lives, largest first."""
    moments = [set(c.slots()) for c in made.commands]
    lives = {}
    for i, slots in enumerate(moments):
        for slot in slots:
            if made.roles[slot] == "temp":
                lives[slot] = (lives.get(slot, (i, i))[0], i)
    totals = [0] * (len(moments) + 1)
    for slot, (first, last) in lives.items():
        for i in range(first, last + 1):
            totals[i] += made.sizes[slot]
    most = totals.index(max(totals))
    held = [s for s, (first, last) in lives.items() if first <= most <= last]
    rows = sorted(((made.sizes[s], s, *lives[s]) for s in held), reverse=True)
    return totals[most], most, rows
