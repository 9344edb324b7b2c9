"""Special functions whose number of steps depends on the element, each as one kernel."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.kernel import special_functions as functions
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Store, affine
from weft.kernel.lowering import Lowering, buffer_of
from weft.kernel.nodes import F64
from weft.kernel.program import Type
from weft.kernel.scalar import Table, Translator
from weft.kernel.special_coefficients import EXACTNESS, coefficients, names_for


def _lowered(name: str, ins: list[Type], outs: list[Type]) -> Lowering | None:
    (out,) = outs
    if out.dtype not in EXACTNESS or any(t.shape != out.shape for t in ins):
        return None
    numbers = np.array(coefficients(out.dtype)[1], np.int64).view(np.float64)
    k, n = Builder(), len(ins)
    at = affine(0, {"i": 1})
    translator = Translator(k, names_for(name, out.dtype))
    given = [k.cast(k.load(i, out.dtype, at), F64) for i in range(n)]
    table = Table(n + 1, len(numbers))
    value = translator.call(getattr(functions, name), [table, *given])
    body = [*translator.body, Store(n, at, k.cast(value, out.dtype))]
    buffers = [buffer_of(t, "in") for t in ins] + [buffer_of(out, "out")]
    buffers.append(Buffer(F64, len(numbers), "in"))
    kernel = Kernel(name, buffers, ("i", prod(out.shape)), body, serial=True)
    return Lowering([(kernel, tuple(range(n + 2)))], (numbers,))


def _of(name: str) -> Any:
    def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowering | None:
        return _lowered(name, ins, outs)

    return lower


igamma, igammac, igamma_grad_a = _of("igamma"), _of("igammac"), _of("igamma_grad_a")
random_gamma_grad, zeta, polygamma = _of("random_gamma_grad"), _of("zeta"), _of("polygamma")
regularized_incomplete_beta = _of("regularized_incomplete_beta")
