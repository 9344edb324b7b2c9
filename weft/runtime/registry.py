"""The backends by name: the one place that names them, each loaded when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base.lazy import Late

# The processor: programs compiled and called, calls answered natively, programs in named sizes,
# what became of a program, elements that a test picks.
native = Late("weft.backends.cpu.calls.native")
dispatch = Late("weft.backends.llvm.calls.dispatch")
instances = Late("weft.backends.cpu.calls.instances")
study = Late("weft.backends.cpu.calls.study")
selection = Late("weft.backends.cpu.calls.selection")

# Backends that are given NumPy arrays and give them, by the value of the knob ``backend``.
reference = Late("weft.backends.reference.program")
cuda = Late("weft.backends.cuda.program")
PLAIN = {"reference": lambda: reference.Reference(), "cuda": lambda: cuda.Cuda()}

# Platforms with memory of their own: what gives a client for each of their devices.
gpus = Late("weft.backends.cuda.client")
PLATFORMS = {"cuda": lambda: gpus.clients()}
NAMES = {"gpu": "cuda"}  # other names of platforms
MARKS = {"cuda": "/dev/nvidiactl"}  # files that are there where a platform may be
# Who has an array that a sharding divides over several GPUs of this process.
spread = Late("weft.backends.cuda.spread")
# (program, mesh, shardings of arguments, of results) -> the programs of the mesh's devices, and how
# arguments and results are divided; filled by ``weft.api.placement``
divide: Callable[..., Any]


# closed program -> whether it leaves sums to be made; the same program on their parts; filled by
# ``weft.api.placement``
has_sums: Callable[[Any], bool]
on_parts: Callable[[Any], Any]


def set_sums(has: Callable[[Any], bool], make: Callable[[Any], Any]) -> None:
    """Say how programs become programs on the parts of sums."""
    global has_sums, on_parts
    has_sums, on_parts = has, make


def set_divider(function: Callable[..., Any]) -> None:
    """Say how programs are divided over devices with memory of their own."""
    global divide
    divide = function
