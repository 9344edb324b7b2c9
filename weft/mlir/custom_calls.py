"""Readers of calls of foreign code that weft has operations for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from weft import lax
from weft.mlir.attributes import integers
from weft.mlir.errors import Unread
from weft.mlir.patterns import expressions
from weft.mlir.reading import Reading, known, reader, sizes_of
from weft.mlir.tree import Operation, Tensor
from weft.numpy.index_functions import take_along_axis

Call = Callable[[Reading, Operation, list[Any]], Any]
targets: dict[str, Call] = {}


def target(*names: str) -> Callable[[Call], Call]:
    """Register what calls of these targets do."""

    def register(function: Call) -> Call:
        targets.update(dict.fromkeys(names, function))
        return function

    return register


@reader("custom_call")
def _custom_call(r: Reading, op: Operation, ins: list[Any]) -> Any:
    name = str(op.attributes["call_target_name"])
    found = targets.get(name)
    if found is None:
        raise Unread(
            f"weft has no custom call {name[:60]!r}; it knows {', '.join(sorted(targets)[:4])}, ..."
            " (docs/export.md). Export the module without it"
        )
    return found(r, *_with_known_shapes(op, ins))


def _with_known_shapes(op: Operation, ins: list[Any]) -> tuple[Operation, list[Any]]:
    """A call without the operands that are only the shapes of its results."""
    given = op.attributes.get("indices_of_shape_operands")
    if given is None:
        return op, ins
    at = integers(given, "indices_of_shape_operands")
    if len(at) != len(op.types) or not all(0 <= i < len(ins) for i in at):
        raise Unread("indices_of_shape_operands has an operand for each result")
    shapes = [sizes_of(ins[i], "the shape of a result") for i in at]
    types = [Tensor(shape, kind.dtype) for shape, kind in zip(shapes, op.types, strict=True)]
    return replace(op, types=types), [x for i, x in enumerate(ins) if i not in at]


def config(op: Operation) -> dict[str, Any]:
    """The options of a call."""
    found = op.attributes.get("mhlo.backend_config") or op.attributes.get("backend_config")
    return found if isinstance(found, dict) else {}


@target("shape_assertion")
def _shape_assertion(r: Reading, op: Operation, ins: list[Any]) -> Any:
    ok, *values = ins
    if not bool(known(ok, "a condition on shapes")):
        message = str(op.attributes.get("error_message", "shapes do not fit"))
        for i, x in enumerate(values):
            message = message.replace(f"{{{i}}}", str(np.asarray(x)))
        raise Unread(message)
    return []


@target("mhlo.topk", "TopK")
def _top_k(r: Reading, op: Operation, ins: list[Any]) -> Any:
    given = op.attributes.get("mhlo.attributes") or config(op)
    k = op.types[0].shape[-1]
    x = ins[0]
    if given.get("largest", True) is not True:
        values, places = lax.top_k(lax.neg(x), k)
        return [lax.neg(values), places]
    return lax.top_k(x, k)


_BY_NAME = {
    "mhlo.erf": lax.erf, "mhlo.asin": lax.asin, "mhlo.sinh": lax.sinh, "mhlo.cosh": lax.cosh,
    "mhlo.acos": lax.acos, "mhlo.acosh": lax.acosh, "mhlo.asinh": lax.asinh,
    "mhlo.atanh": lax.atanh, "mhlo.tan": lax.tan, "mhlo.erf_inv": lax.erf_inv,
}  # fmt: skip


@target(*_BY_NAME)
def _function(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return _BY_NAME[str(op.attributes["call_target_name"])](*ins)


@target("ApproxTopK", "PartialReduce")
def _approximate_top_k(r: Reading, op: Operation, ins: list[Any]) -> Any:
    """The largest or smallest numbers along an axis, and what lies beside them."""
    given = config(op)
    axis, count = int(given["reduction_dim"]), int(given["top_k"])
    names = op.attributes.get("called_computations")
    if not isinstance(names, list) or len(names) != 1 or len(ins) != 4:
        raise Unread("it takes an array, positions and one comparator")
    found = expressions(r.function(str(names[0])).body)
    pair = (("arg", 0), ("arg", 1))
    if not found or found[0][0] not in ("GT", "LT") or found[0][2:] != pair:
        raise Unread("its comparator compares two numbers by GT or LT")
    x, places = ins[:2]
    _, order = lax.top_k(x if found[0][0] == "GT" else lax.neg(x), count, axis=axis)
    return [take_along_axis(y, order, axis) for y in (x, places)]
