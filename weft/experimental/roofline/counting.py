"""What is counted of an operation, and the rules by which it is, one for each primitive."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from weft.core.avals import ShapedArray

Counts = dict[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineShape:
    """The shape and the dtype of an operand or result."""

    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def from_aval(cls, aval: Any) -> RooflineShape:
        """That of a type, which must be an array's."""
        if not isinstance(aval, ShapedArray):
            raise TypeError(f"a roofline counts arrays, got {aval} of type {type(aval).__name__}")
        return cls(shape=aval.shape, dtype=aval.dtype)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.itemsize

    @classmethod
    def total_bytes(cls, avals: Sequence[Any]) -> int:
        """The bytes of arrays of several types."""
        return sum(cls.from_aval(aval).bytes for aval in avals)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineRuleContext:
    """What a rule receives: the equation that it counts."""

    primitive: Any
    avals_in: Sequence[Any]
    avals_out: Sequence[Any]
    mesh: Any
    pin_lhs_in_vmem: bool
    pin_rhs_in_vmem: bool
    name_stack: Any = None
    jaxpr_eqn_ctx: Any = None

    @property
    def operands(self) -> list[RooflineShape]:
        return [RooflineShape.from_aval(aval) for aval in self.avals_in]

    @property
    def results(self) -> list[RooflineShape]:
        return [RooflineShape.from_aval(aval) for aval in self.avals_out]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineResult:
    """Operations, bytes to and from memory, and bytes and hops between devices by mesh axis.

    ``flops`` and ``hbm_bytes`` are those of products of matrices; ``unfused_*`` those of all
    operations, each on its own.
    """

    flops: int = 0
    unfused_flops: int = 0
    ici_bytes: Counts = dataclasses.field(default_factory=dict)
    ici_latency: Counts = dataclasses.field(default_factory=dict)
    hbm_bytes: int = 0
    peak_hbm_bytes: int = 0
    unfused_hbm_bytes: int = 0

    @classmethod
    def zeros(cls) -> RooflineResult:
        return cls()

    def __add__(self, other: RooflineResult) -> RooflineResult:
        """Both after one another: what is alive at once does not add up."""
        sums: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            a, b = getattr(self, field.name), getattr(other, field.name)
            if isinstance(a, dict):
                sums[field.name] = {k: a.get(k, 0) + b.get(k, 0) for k in {**a, **b}}
            else:
                sums[field.name] = max(a, b) if field.name == "peak_hbm_bytes" else a + b
        return RooflineResult(**sums)

    def __mul__(self, constant: float) -> RooflineResult:
        scaled: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, dict):
                scaled[field.name] = {k: int(v * constant) for k, v in value.items()}
            else:
                scaled[field.name] = int(value * constant)
        return RooflineResult(**scaled)

    __rmul__ = __mul__


Rule = Callable[..., RooflineResult]
rules: dict[str, Rule] = {}


def register_roofline(prim: Any) -> Callable[[Rule], Rule]:
    """A decorator for the function that counts an operation: ``rule(context, *shapes, **params)``.

    >>> from weft.experimental import roofline
    >>> from weft.extend.core import Primitive
    >>> @roofline.register_roofline(Primitive("free"))
    ... def count(context, *shapes, **params):
    ...     return roofline.RooflineResult()
    """

    def register(rule: Rule) -> Rule:
        rules[prim.name] = rule
        return rule

    return register


def register_standard_roofline(prim: Any) -> None:
    """Count an operation as nothing, as those are that only move data.

    >>> from weft.experimental import roofline
    >>> from weft.extend.core import Primitive
    >>> roofline.register_standard_roofline(Primitive("moved"))
    """
    rules[prim.name] = lambda context, *shapes, **params: RooflineResult()
