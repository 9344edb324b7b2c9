"""A symbolic dimension as a value: a whole number that is known once the program has its sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.core.avals import ShapedArray
from weft.core.primitive import Primitive
from weft.core.registry import lookup


def dim_aval() -> ShapedArray:
    """The type of dimensions as values."""
    return ShapedArray((), dtypes.default_int_dtype(), True)


class DimAsValue(Primitive):
    """A dimension as a value."""

    name = "dim_as_value"
    form = "expand"
    holes = {"transpose": "no operands", "batch": "no operands"}

    def shape(self, *, dim: Any) -> ShapedArray:
        return dim_aval()

    @staticmethod
    def ref(*, dim: Any) -> np.ndarray:
        return np.asarray(int(dim), dim_aval().dtype)

    def decompose(self, *, dim: Any) -> Any:
        aval = dim_aval()
        return lookup("convert_element_type").bind(
            int(dim), new_dtype=aval.dtype, weak_type=True, sharding=None
        )


dim_as_value_p = DimAsValue()
