"""Dtypes whose tangents are of another dtype, such as int8 with gradients in bfloat16.

Programs treat their elements as opaque: they move them, and convert them to the dtype that holds
them and back.
"""

from __future__ import annotations

from typing import Any

from weft.dtypes.canonical import dtype as dtype_of
from weft.dtypes.kinds import AnyDType, DType, ExtendedDType, extended, short_name


class primal_tangent_dtype_scalar(extended):
    """Scalar class of these dtypes; exists for ``issubdtype`` and has no instances."""


class PrimalTangentDType(ExtendedDType):
    """A dtype that is held as one dtype and has tangents of another.

    Args:
        primal_dtype: the dtype of the values.
        tangent_dtype: the dtype of tangents and gradients.
        name: its name.

    Example:
        >>> from weft.experimental import primal_tangent_dtype
        >>> isinstance(primal_tangent_dtype("float32", "bfloat16"), PrimalTangentDType)
        True
    """

    def __init__(self, primal_dtype: DType, tangent_dtype: DType, name: str) -> None:
        self._fields = primal_dtype, tangent_dtype, name

    @property
    def type(self) -> type:
        return primal_tangent_dtype_scalar

    @property
    def primal_dtype(self) -> DType:
        return self._fields[0]

    @property
    def tangent_dtype(self) -> AnyDType:
        return self._fields[1]

    @property
    def name(self) -> str:
        return self._fields[2]

    @property
    def physical_shape(self) -> tuple[int, ...]:
        return ()

    physical_dtype = storage = primal_dtype

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is PrimalTangentDType and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    def __reduce__(self) -> Any:
        return PrimalTangentDType, self._fields


def primal_tangent_dtype(
    primal_dtype: Any, tangent_dtype: Any, name: str | None = None
) -> PrimalTangentDType:
    """Return a dtype that is held as one dtype and has tangents of another.

    ``lax.convert_element_type`` makes arrays of it from arrays of ``primal_dtype``, and back.

    Args:
        primal_dtype: the dtype of the values.
        tangent_dtype: the dtype of tangents and gradients.
        name: the name of the new dtype.

    Returns:
        A dtype, for ``lax.convert_element_type``.

    Example:
        >>> import weft
        >>> from weft.experimental import primal_tangent_dtype
        >>> small = primal_tangent_dtype("float32", "bfloat16")
        >>> x = weft.lax.convert_element_type(weft.numpy.ones(2), small)
        >>> weft.typeof(x).dtype, weft.typeof(x).to_tangent_aval().dtype
        (PrimalTangentDType{f32/bf16}, dtype(bfloat16))
    """
    primal, tangent = (_ordinary(x) for x in (primal_dtype, tangent_dtype))
    short = f"{short_name(primal)}/{short_name(tangent)}"
    return PrimalTangentDType(primal, tangent, name or f"PrimalTangentDType{{{short}}}")


def _ordinary(x: Any) -> DType:
    if isinstance(x, ExtendedDType):
        raise TypeError(f"primal_tangent_dtype takes ordinary dtypes, got {x}")
    return dtype_of(x)
