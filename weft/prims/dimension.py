"""A symbolic dimension as a value: a whole number that is known once the program has its sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft import dtypes
from weft.base.sizes import Size
from weft.core.avals import ShapedArray
from weft.core.primitive import Primitive


def dim_aval() -> ShapedArray:
    """The type of dimensions as values."""
    return ShapedArray((), dtypes.default_int_dtype(), True)


class DimAsValue(Primitive):
    """A dimension as a value."""

    name = "dim_as_value"
    form = "element"
    holes = {"transpose": "it has no operands", "batch": "it has no operands"}

    def shape(self, *, dim: Any) -> ShapedArray:
        return dim_aval()

    @staticmethod
    def ref(*, dim: Any) -> np.ndarray:
        return np.asarray(int(dim), dim_aval().dtype)

    def element(
        self, k: Any, index: Any, ins: Any, outs: Any, number: int, *, dim: Any
    ) -> Iterator[Any]:
        yield from ()
        return k.const(dim if type(dim) is Size else int(dim), dim_aval().dtype)


dim_as_value_p = DimAsValue()
