"""References of the functions that are computed by series: the stubs of kernels, run by Python.

In float64 the error is a few ULP, except deep in the tails of the incomplete functions, whose
relative error grows like the logarithm of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from weft.base.functional import lru
from weft.kernel import special_functions as stubs
from weft.kernel.nodes import F64
from weft.kernel.special_coefficients import coefficients, names_for
from weft.prims.special_reference import Array, digamma, erfc, in_double


class _Kind:
    """A kind of machine value as Python has it: numbers, and memory that is a list."""

    def __init__(self, number: type) -> None:
        self.number = number

    def __call__(self, value: Any) -> Any:
        return self.number(value)

    def __getitem__(self, place: tuple[list[Any], int]) -> Any:
        return self.number(place[0][place[1]])

    def __setitem__(self, place: tuple[list[Any], int], value: Any) -> None:
        place[0][place[1]] = value


_WORDS = {
    "f64": _Kind(np.float64),
    "i64": _Kind(int),
    "stack": lambda size: [0.0] * (size // 8),
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "power": np.power,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "erfc": erfc,
    "digamma": digamma,
}


@lru(16)
def reference(name: str) -> Callable[..., Array]:
    """One of the stubs as a function of arrays."""
    names = dict(vars(stubs))
    for each, value in vars(stubs).items():
        if type(value) is FunctionType:
            names[each] = FunctionType(value.__code__, names)
    names.update(_WORDS, **names_for(name, F64))
    table = np.array(coefficients(F64)[1], np.int64).view(np.float64).tolist()

    def compute(*operands: Array) -> Array:
        rows = zip(*(x.flat for x in operands), strict=True)
        found = [names[name](table, *row) for row in rows]
        return np.array(found, np.float64).reshape(operands[0].shape)

    return in_double(compute)
