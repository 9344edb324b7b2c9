"""What a region computes, where it is one of the forms that have an operation of their own.

A region is turned into an expression of its arguments: nested tuples of names, which are compared
with those of sums, comparators and selections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.mlir.tree import Block, Operation, Tensor

MONOIDS = {
    "stablehlo.add": "add", "stablehlo.multiply": "mul", "stablehlo.maximum": "max",
    "stablehlo.minimum": "min", "stablehlo.and": "and", "stablehlo.or": "or",
    "stablehlo.xor": "xor",
}  # fmt: skip
MAX_OPERATIONS = 200  # of a region that is looked at


def expressions(block: Block) -> list[Any] | None:
    """What a block returns, as expressions of its arguments; None for one that is not simple."""
    if len(block.operations) > MAX_OPERATIONS:
        return None
    env: dict[str, Any] = {name: ("arg", i) for i, name in enumerate(block.names)}
    for op in block.operations:
        if op.name.endswith(".return"):
            found = [_named(env, name) for name in op.operands]
            return None if None in found else found
        value = _expression(op, env)
        if value is None or len(op.results) != 1:
            return None
        env[op.results[0]] = value
    return None


def _named(env: dict[str, Any], name: str) -> Any:
    return env.get(name, env.get(name.removesuffix("#0")))


def _expression(op: Operation, env: dict[str, Any]) -> Any:
    if op.regions:
        return None
    if op.name == "stablehlo.constant":
        value = op.attributes.get("value")
        if not isinstance(value, np.ndarray) or value.size != 1:
            return None
        return ("constant", value.dtype.name, value.tobytes())
    ins = [_named(env, name) for name in op.operands]
    if None in ins:
        return None
    if op.name == "stablehlo.compare":
        kind = str(op.attributes.get("compare_type", ""))
        return (str(op.attributes.get("comparison_direction")), kind == "TOTALORDER", *ins)
    if op.name == "stablehlo.convert" and ins:
        kind = op.types[0]
        return ("convert", kind.dtype.name if isinstance(kind, Tensor) else "", *ins)
    return (op.name.partition(".")[2], *ins)


def monoid(block: Block) -> str | None:
    """The name of the operation that a region of two arguments is."""
    if len(block.operations) != 2 or len(block.names) != 2:
        return None
    first, last = block.operations
    both = first.operands in (block.names, block.names[::-1])
    if not both or not last.name.endswith(".return") or last.operands != first.results:
        return None
    found = MONOIDS.get(first.name)
    kind = block.types[0]
    if isinstance(kind, Tensor) and kind.dtype == np.bool_:
        logic = {"add": "or", "max": "or", "mul": "and", "min": "and"}
        return logic.get(str(found), found)
    return found


def log_add(dtype: Any) -> Any:
    """The logarithm of the sum of two exponentials, as weft writes it."""
    x, y = ("arg", 0), ("arg", 1)
    zero = _constant(0, dtype)
    top: Any = ("maximum", x, y)
    top = ("select", ("is_finite", top), top, zero)
    both = [("exponential", ("subtract", v, top)) for v in (x, y)]
    return ("add", ("log", ("add", *both)), top)


def returns_argument(block: Block) -> int | None:
    """Which argument a region returns as it is."""
    if len(block.operations) != 1 or len(block.operations[0].operands) != 1:
        return None
    name = block.operations[0].operands[0]
    return block.names.index(name) if name in block.names else None


def _constant(value: Any, dtype: Any) -> Any:
    return ("constant", np.dtype(dtype).name, np.asarray(value).astype(dtype).tobytes())


# --- comparators ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """What a comparator compares: an operand or a part of it, by which order, in which direction.

    ``order`` is "plain" for numbers as they are, "one" where zeros are equal and NaNs are last, and
    "total" for the order of their bits.
    """

    operand: int
    part: str
    order: str
    descends: bool


def comparator(block: Block) -> list[Key] | None:
    """The keys that a region of a sort compares, one after the other."""
    found = expressions(block)
    if found is None or len(found) != 1:
        return None
    keys: list[Key] = []
    rest = found[0]
    while True:
        first, rest = _first_key(rest)
        key = _compared(first, block)
        if key is None:
            return None
        keys.append(key)
        if rest is None:
            return keys


def _first_key(x: Any) -> tuple[Any, Any]:
    """The comparison that decides first, and the one for those that are equal by it."""
    if x[0] == "or" and len(x) == 3 and x[2][0] == "and" and len(x[2]) == 3:
        less, (_, equal, rest) = x[1], x[2]
        if len(less) == 4 and equal == ("EQ", less[1], less[2], less[3]):
            return less, rest
    if x[0] == "select" and len(x) == 4 and x[1][0] == "or" and len(x[1]) == 3:
        before = x[2]
        after = (*before[:2], before[3], before[2]) if len(before) == 4 else None
        if x[1] == ("or", before, after):
            return before, x[3]
    return x, None


def _compared(x: Any, block: Block) -> Key | None:
    """One comparison of two arguments that belong together."""
    if len(x) != 4 or x[0] not in ("LT", "GT"):
        return None
    first, second = _argument(x[2], block), _argument(x[3], block)
    if first is None or second is None or first[1:] != second[1:]:
        return None
    low, high = sorted((first[0], second[0]))
    if low % 2 or high != low + 1:
        return None
    descends = (x[0] == "GT") != (first[0] > second[0])
    is_one = first[2]
    return Key(low // 2, first[1], "one" if is_one else "total" if x[1] else "plain", descends)


def _argument(x: Any, block: Block) -> tuple[int, str, bool] | None:
    """An argument or a part of it, and whether it was given one zero and one NaN."""
    inner, is_one = x, False
    while inner[0] == "select" and len(inner) == 4:
        inner, is_one = inner[3], True
    bare, part = inner, ""
    if bare[0] in ("real", "imag") and len(bare) == 2:
        bare, part = bare[1], bare[0]
    if bare[0] != "arg":
        return None
    kind = block.types[bare[1]]
    if is_one and (not isinstance(kind, Tensor) or x not in _ordered(inner, kind.dtype)):
        return None
    return bare[1], part, is_one


def _ordered(x: Any, dtype: Any) -> list[Any]:
    """The expressions that give a number one zero and one NaN."""
    part = {"complex64": np.float32, "complex128": np.float64}.get(np.dtype(dtype).name, dtype)
    zero, nan = _constant(0, part), _constant(np.nan, part)
    plain = ("select", ("EQ", False, x, zero), zero, x)
    return [("select", ("NE", False, y, y), nan, plain) for y in (x, plain)]


# --- positions ------------------------------------------------------------------------------------


def extremum(block: Block) -> str | None:
    """ "argmax" or "argmin" for a region that finds an extremum and its first position."""
    found = expressions(block)
    if found is None or len(block.names) != 4:
        return None
    a, i, b, j = [("arg", n) for n in range(4)]
    for name, direction in (("argmax", "GT"), ("argmin", "LT")):
        first = ("or", (direction, False, a, b), ("NE", False, a, a))
        either = ("or", first, ("and", ("EQ", False, a, b), ("LT", False, i, j)))
        if found == [("select", first, a, b), ("select", either, i, j)]:
            return name
    return None
