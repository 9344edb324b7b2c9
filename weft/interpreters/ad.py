"""Differentiation rules of primitives."""

from __future__ import annotations

from typing import Any

from weft.core.ad import UndefPrimal as UndefinedPrimal
from weft.core.ad import Zero as Zero
from weft.core.ad import add_tangents as add_tangents
from weft.core.ad import instantiate as instantiate_zeros
from weft.core.ad import is_undef as is_undefined_primal
from weft.core.ad import zeros as zeros_like_aval
from weft.core.registry import lookup as _lookup
from weft.interpreters.tables import RuleTable
from weft.transforms.jvp import JVPTrace as JVPTrace
from weft.transforms.jvp import JVPTracer as JVPTracer
from weft.transforms.transpose import backward_pass as backward_pass


def _give_jvp(primitive: Any, rule: Any) -> None:
    if hasattr(primitive, "def_jvp"):
        primitive.def_jvp(rule)
    else:  # one of weft's own
        primitive.jvp = rule


def _give_transpose(primitive: Any, rule: Any) -> None:
    primitive.transpose = rule


primitive_jvps = RuleTable("jvp", _give_jvp)
primitive_transposes = RuleTable("transpose", _give_transpose)


__all__ = [
    "JVPTrace", "JVPTracer", "UndefinedPrimal", "Zero", "add_jaxvals", "add_tangents",
    "backward_pass", "defbilinear", "defjvp", "defjvp2", "deflinear", "deflinear2",
    "get_primitive_transpose", "instantiate_zeros", "is_undefined_primal", "primitive_jvps",
    "primitive_transposes", "zeros_like_aval",
]  # fmt: skip


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two tangents of one type."""
    return _lookup("add_any").bind(x, y)


def get_primitive_transpose(primitive: Any) -> Any:
    """The rule by which a primitive is transposed."""
    rule = primitive_transposes.get(primitive)
    if rule is None:
        raise NotImplementedError(
            f"transposition rule for {primitive} is not defined, so it cannot be differentiated in"
            " reverse mode"
        )
    return rule


def defjvp(primitive: Any, *rules: Any) -> None:
    """Give a primitive one rule for each operand: ``rule(tangent, *operands, **params)``."""
    defjvp2(
        primitive,
        *(None if rule is None else _without_result(rule) for rule in rules),
    )


def _without_result(rule: Any) -> Any:
    return lambda tangent, out, *operands, **params: rule(tangent, *operands, **params)


def defjvp2(primitive: Any, *rules: Any) -> None:
    """Like ``defjvp``, with the result: ``rule(tangent, result, *operands, **params)``."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        total: Any = Zero.from_primal(out)
        for rule, tangent in zip(rules, tangents, strict=False):
            if rule is not None and type(tangent) is not Zero:
                total = add_tangents(total, rule(tangent, out, *primals, **params))
        return out, total

    primitive.def_jvp(jvp)


def deflinear2(primitive: Any, transpose_rule: Any) -> None:
    """Say that a primitive is linear, and give its transpose."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return out, Zero.from_primal(out)
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive.def_jvp(jvp)
    primitive.def_transpose(transpose_rule)


def deflinear(primitive: Any, transpose_rule: Any) -> None:
    """Like ``deflinear2``, with a transpose of the cotangent alone."""
    deflinear2(primitive, lambda ct, *operands, **params: transpose_rule(ct, **params))


def defbilinear(primitive: Any, left: Any, right: Any) -> None:
    """Say that a primitive of two operands is linear in each, and give both transposes."""
    defjvp(
        primitive,
        lambda g, x, y, **params: primitive.bind(g, y, **params),
        lambda g, x, y, **params: primitive.bind(x, g, **params),
    )

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> list[Any]:
        if is_undefined_primal(x):
            return [left(ct, x, y, **params), None]
        return [None, right(ct, x, y, **params)]

    primitive.def_transpose(transpose)
