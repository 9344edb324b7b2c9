"""Readers of calls of foreign code that weft has operations for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import lax
from weft.mlir.reading import Reading, Unread, known, reader
from weft.mlir.tree import Operation, Symbol

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
            " (docs/export.md). Write the module without it"
        )
    return found(r, op, ins)


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


@target("annotate_device_placement")
def _same(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return ins


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


def called(r: Reading, op: Operation, ins: list[Any]) -> list[Any] | None:
    """The results of the one function that a call names, if it names one."""
    names = op.attributes.get("called_computations")
    if isinstance(names, list) and len(names) == 1 and isinstance(names[0], Symbol):
        return r.call(str(names[0]), ins)
    return None
