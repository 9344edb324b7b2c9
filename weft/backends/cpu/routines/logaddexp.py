"""The logarithm of the sum of two exponentials, as a function that other native code calls."""

from __future__ import annotations

import numpy as np

from weft.backends.cpu.routines.writer import Module
from weft.backends.llvm.text.instructions import scalar_type
from weft.backends.llvm.text.render import Function
from weft.kernel import math
from weft.kernel.build import Builder
from weft.kernel.kernel import Kernel
from weft.kernel.nodes import Value


def logaddexp(k: Builder, x: Value, y: Value) -> Value:
    """``log(exp(x) + exp(y))`` without overflow."""
    apart = k.sub(x, y)
    small = math.log1p(k, math.exp(k, k.neg(k.abs(apart))))
    # The difference is NaN for a NaN and for equal infinities: there the sum is the answer.
    return k.select(k.isnan(apart), k.add(x, y), k.add(k.max(x, y), small))


def add_function(module: Module, dtype: np.dtype, lanes: int) -> str:
    """Add the function on so many lanes to a module; its name there."""
    name = f"logaddexp{lanes}"
    if name in module.functions:
        return f"@{name}"
    k = Builder()
    x, y = k.load(0, dtype), k.load(1, dtype)
    f = Function(Kernel(name, [], None, []), lanes)
    f.lanes = lanes
    f.known.update({(x.number, lanes): "%x", (y.number, lanes): "%y"})
    found = f.value(logaddexp(k, x, y))
    kind = scalar_type(dtype) if lanes == 1 else f"<{lanes} x {scalar_type(dtype)}>"
    head = f"define internal {kind} @{name}({kind} %x, {kind} %y) #0 {{"
    module.functions[name] = "\n".join([head, "entry:", *f.lines, f"  ret {kind} {found}", "}"])
    module.declared.update(f.declared)
    return f"@{name}"
