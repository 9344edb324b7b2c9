"""Conversions between an extended dtype and the dtype that holds its elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import batch_in_place
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.division.factors import Factors, elementwise
from weft.kernel.nodes import Parts
from weft.prims.convert import convert


class Relabel(Primitive):
    """The same bytes as elements of another dtype; tangents are converted by value."""

    form, view, elementwise = "element", True, True

    def element(self, k: Any, index: Any, ins: Any, outs: Any, number: int, **_: Any) -> Any:
        value = yield 0, index
        return Parts(outs[0].dtype, value.parts) if type(value) is Parts else value

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return elementwise(avals, outs)

    @staticmethod
    def ref(x: np.ndarray, **_: Any) -> np.ndarray:
        return x

    def d0(self, g: Any, out: Any, x: Any, **_: Any) -> Any:
        dtype = dtypes.primal_to_tangent_dtype(typeof(out).dtype)
        return Zero.from_primal(out) if dtype == dtypes.float0 else convert(g, dtype)

    def transpose(self, ct: Any, x: Any, **_: Any) -> Any:
        return [convert(ct, dtypes.primal_to_tangent_dtype(x.aval.dtype))]

    batch = batch_in_place


class ToEDType(Relabel):
    """Elements of an extended dtype, made of the dtype that holds them."""

    name = "to_edtype"

    def shape(self, x: Any, *, edtype: Any) -> ShapedArray:
        _check(edtype, x.dtype)
        return ShapedArray(x.shape, edtype)


class FromEDType(Relabel):
    """What holds the elements of an extended dtype."""

    name = "from_edtype"

    def shape(self, x: Any, *, dtype: Any) -> ShapedArray:
        _check(x.dtype, dtype)
        return ShapedArray(x.shape, dtype)


def _check(edtype: Any, dtype: Any) -> None:
    held = getattr(edtype, "primal_dtype", edtype)
    if dtype != held:
        raise ValueError(
            f"cannot convert between arrays of dtype {edtype} and {dtype}; {edtype} is held as"
            f" {held}: convert from and to that"
        )


to_edtype_p = ToEDType()
from_edtype_p = FromEDType()
