"""How exactly products are computed: the precisions and algorithms that products and convolutions
accept, and what an algorithm means for the dtypes of operands and accumulator."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.base.record import Record


class Precision(enum.Enum):
    """How much of float32 a product on an accelerator keeps; CPUs always keep all of it.

    ``DEFAULT`` is the fastest, ``HIGHEST`` is full float32. Functions take their names too, such as
    "highest", "tensorfloat32" or "float32".

    Example:
        >>> Precision("float32")
        Precision.HIGHEST
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _by_name.get(value)

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


_by_name: dict[Any, Precision] = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    None: Precision.DEFAULT,
}


class DotAlgorithm(Record):
    """How a product is computed: the dtypes operands are read in and the dtype sums are kept in.

    Args:
        lhs_precision_type: Dtype that the left operand is rounded to.
        rhs_precision_type: Dtype that the right operand is rounded to.
        accumulation_type: Dtype of the sums.
        lhs_component_count: Number of narrow parts that the left operand is split into.
        rhs_component_count: Number of narrow parts that the right operand is split into.
        num_primitive_operations: Number of products of parts that are computed.
        allow_imprecise_accumulation: Whether partial sums may be kept in less than
            ``accumulation_type``.

    Example:
        >>> DotAlgorithm(np.float16, np.float16, np.float32).num_primitive_operations
        1
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Algorithms by name, ``LHS_RHS_ACCUMULATOR``; ``_X3`` and the like count narrow products.

    Example:
        >>> DotAlgorithmPreset["F16_F16_F32"].accumulation_type
        <class 'numpy.float32'>
    """

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def supported_lhs_types(self) -> tuple[Any, ...] | None:
        """Dtypes the left operand may have; another is converted to the first. None: any."""
        return _OPERANDS.get(self.name, None if _any_operand(self.name) else (np.float32,))

    @property
    def supported_rhs_types(self) -> tuple[Any, ...] | None:
        """Dtypes the right operand may have; another is converted to the first. None: any."""
        return self.supported_lhs_types

    @property
    def accumulation_type(self) -> Any:
        """The dtype that sums are kept in; None where the result's dtype decides."""
        return _ACCUMULATORS.get(self.name, np.float32)

    def supported_output_types(self, lhs_dtype: Any, rhs_dtype: Any) -> tuple[Any, ...] | None:
        """Dtypes a result may have for these operands; another is converted to. None: any."""
        if self.name.startswith("ANY_F8_ANY_F8_F32"):
            return _FROM_FLOAT8
        accumulator = self.accumulation_type
        if accumulator is None:
            return None
        if self.name in ("F16_F16_F32", "BF16_BF16_F32"):
            narrow = np.float16 if self.name == "F16_F16_F32" else dtypes.bfloat16
            if dtypes.promote_types(lhs_dtype, rhs_dtype) == narrow:
                return (accumulator, narrow)
        return (accumulator,)


_OPERANDS: dict[str, tuple[Any, ...]] = {
    "F16_F16_F16": (np.float16,),
    "F16_F16_F32": (np.float16,),
    "BF16_BF16_BF16": (dtypes.bfloat16, np.float32),
    "BF16_BF16_F32": (dtypes.bfloat16, np.float32),
    "F64_F64_F64": (np.float64,),
}
_ACCUMULATORS: dict[str, Any] = {
    "DEFAULT": None,
    "ANY_F8_ANY_F8_ANY": None,
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM": None,
    "F16_F16_F16": np.float16,
    "BF16_BF16_BF16": dtypes.bfloat16,
    "F64_F64_F64": np.float64,
}
_FROM_FLOAT8 = (
    np.float32,
    np.float16,
    dtypes.bfloat16,
    dtypes.float8_e4m3fn,
    dtypes.float8_e5m2,
    dtypes.float8_e5m2fnuz,
    dtypes.float8_e4m3fnuz,
    dtypes.float8_e4m3b11fnuz,
)


def _any_operand(name: str) -> bool:
    return name == "DEFAULT" or name.startswith("ANY_F8")


PrecisionLike = (
    str
    | Precision
    | tuple[str, str]
    | tuple[Precision, Precision]
    | DotAlgorithm
    | DotAlgorithmPreset
    | None
)
CanonicalPrecision = tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset | None


def canonicalize_precision(precision: Any) -> CanonicalPrecision:
    """A precision argument as the parameter of a primitive: None, a pair, or an algorithm.

    >>> canonicalize_precision("highest")
    (Precision.HIGHEST, Precision.HIGHEST)
    >>> canonicalize_precision("F32_F32_F32")
    DotAlgorithmPreset.F32_F32_F32
    """
    if precision is None:
        default = knobs.default_matmul_precision.value
        return None if default is None else canonicalize_precision(default)
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, Precision):
        return precision, precision
    if isinstance(precision, str):
        if precision in _by_name:
            return _by_name[precision], _by_name[precision]
        if precision in DotAlgorithmPreset.__members__:
            return DotAlgorithmPreset[precision]
    elif isinstance(precision, (list, tuple)) and len(precision) == 2:
        if all(isinstance(p, Precision) for p in precision):
            return precision[0], precision[1]
        if all(isinstance(p, str) and p in _by_name for p in precision):
            return _by_name[precision[0]], _by_name[precision[1]]
    names = ", ".join(repr(name) for name in _by_name if name)
    raise ValueError(
        f"precision {precision!r} is not known; write None, one of {names}, a lax.Precision, a pair"
        " of these, a lax.DotAlgorithm, or a lax.DotAlgorithmPreset or its name"
    )


def algorithm_dtypes(algorithm: Any, lhs: Any, rhs: Any, out: Any) -> tuple[Any, Any, Any]:
    """Dtypes in which an algorithm reads both operands and rounds their product."""
    if isinstance(algorithm, DotAlgorithm):
        left, right, total = algorithm[:3]
        return np.dtype(left), np.dtype(right), np.dtype(total)
    if algorithm.name.startswith("ANY_F8"):
        for dtype in (lhs, rhs):
            if not dtype.name.startswith("float8"):
                raise ValueError(
                    f"the algorithm {algorithm} multiplies float8 operands, got {lhs} and {rhs}"
                )
    left = _nearest(lhs, algorithm.supported_lhs_types)
    right = _nearest(rhs, algorithm.supported_rhs_types)
    return left, right, _nearest(out, algorithm.supported_output_types(left, right))


def _nearest(dtype: Any, supported: tuple[Any, ...] | None) -> Any:
    if supported is None or any(dtype == np.dtype(one) for one in supported):
        return dtype
    return np.dtype(supported[0])
