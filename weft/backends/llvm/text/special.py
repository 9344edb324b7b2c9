"""Special functions whose number of steps depends on the element: one native loop over them.

The incomplete gamma and beta functions, and zeta and polygamma of float64; the functions of one
element are in kernel/special_functions.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.backends.llvm.code import Module
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.backends.llvm.text.scalar_math import translate_with_math
from weft.backends.llvm.text.stub import known_to
from weft.base.functional import lru
from weft.kernel import special_functions as stubs
from weft.kernel.kinds import kind_of
from weft.kernel.program import Type
from weft.kernel.special_coefficients import EXACTNESS, coefficients, names_for

# Elements of a piece of work.
CHUNK_ELEMENTS = 1 << 10
NAMES = (
    "igamma igammac igamma_grad_a random_gamma_grad regularized_incomplete_beta zeta polygamma"
).split()


@lru(16)
def _module(name: str, dtype: np.dtype) -> Module:
    function = getattr(stubs, name)
    main: Any = stubs.of_two if function.__code__.co_argcount == 3 else stubs.of_three
    names = names_for(name, dtype) | {"F": kind_of(dtype)}
    return translate_with_math(main, known_to(main, names, function), FUNCTION=function)


def lower(name: str, ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The task of one of the functions; None where it has no code for the types."""
    (out,) = outs
    if out.dtype not in EXACTNESS or any(t.shape != out.shape for t in ins):
        return None
    places = [Place("numbers", coefficients(out.dtype)[1])]
    places += [Place("in", i) for i in range(len(ins))]
    places.append(Place("out", 0))
    module = _module(name, out.dtype)
    main = "of_two" if len(ins) == 2 else "of_three"
    return Lowered([Task(module, main, tuple(places), math.prod(out.shape), CHUNK_ELEMENTS)])
