"""The logarithm of the sum of two exponentials, as a function that other native code calls."""

from __future__ import annotations

import numpy as np

from weft.backends.llvm.text.render import Function
from weft.backends.llvm.words import defined
from weft.kernel import math
from weft.kernel.build import Builder
from weft.kernel.kernel import Kernel
from weft.kernel.kinds import External, kind_of
from weft.kernel.nodes import Value


def logaddexp(k: Builder, x: Value, y: Value) -> Value:
    """``log(exp(x) + exp(y))`` without overflow."""
    apart = k.sub(x, y)
    small = math.log1p(k, math.exp(k, k.neg(k.abs(apart))))
    # The difference is NaN for a NaN and for equal infinities: there the sum is the answer.
    return k.select(k.isnan(apart), k.add(x, y), k.add(k.max(x, y), small))


def native(dtype: np.dtype, lanes: int) -> External:
    """The function on so many lanes."""
    name = "logaddexp_lanes" if lanes > 1 else "logaddexp"
    k = Builder()
    x, y = k.load(0, dtype), k.load(1, dtype)
    f = Function(Kernel(name, [], None, []), lanes)
    f.lanes = lanes
    f.known.update({(x.number, lanes): "%0", (y.number, lanes): "%1"})
    found = f.value(logaddexp(k, x, y))
    kind = kind_of(dtype).of(lanes)
    lines = ["entry:", *f.lines, f"ret {kind.llvm} {found}"]
    made = defined(kind, name, (kind, kind), *lines)
    apart = lambda f: f._replace(attributes=("nounwind", "noinline"))
    return made._replace(definition=made.definition.mapped(apart).replaced(declared=f.declared))
