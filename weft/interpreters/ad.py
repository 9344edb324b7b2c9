"""Differentiation rules of primitives."""

from __future__ import annotations

from typing import Any

from weft.core.ad import Zero as Zero
from weft.core.ad import add_tangents as add_tangents
from weft.core.ad import instantiate as instantiate_zeros
from weft.core.ad import is_undef as is_undefined_primal
from weft.interpreters.tables import RuleTable
from weft.transforms.jvp import JVPTrace as JVPTrace
from weft.transforms.jvp import JVPTracer as JVPTracer
from weft.transforms.transpose import backward_pass as backward_pass

primitive_jvps = RuleTable("jvp", lambda p, rule: p.def_jvp(rule))
primitive_transposes = RuleTable("transpose", lambda p, rule: p.def_transpose(rule))


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
