"""The backends by name: the one place that names them, each loaded when it is first used."""

from __future__ import annotations

from weft.base.lazy import Late

# The processor: programs compiled and called, calls answered natively, shape-generic code, what
# became of a program, elements that a test picks.
native = Late("weft.backends.cpu.calls.native")
dispatch = Late("weft.backends.cpu.calls.dispatch")
generic = Late("weft.backends.cpu.calls.generic")
instances = Late("weft.backends.cpu.calls.instances")
study = Late("weft.backends.cpu.calls.study")
selection = Late("weft.backends.cpu.calls.selection")

# Backends that are given NumPy arrays and give them, by the value of the knob ``backend``.
reference = Late("weft.backends.reference.program")
cuda = Late("weft.backends.cuda.program")
PLAIN = {"reference": lambda: reference.Reference(), "cuda": lambda: cuda.Cuda()}
