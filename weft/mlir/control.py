"""Readers of calls, branches, loops, tuples and tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from weft import lax
from weft.mlir.errors import Unread
from weft.mlir.reading import TOKEN, Reading, Scope, Token, reader, readers
from weft.mlir.tree import Block, Operation, Symbol

COUNTED_STEPS = 1 << 31  # of a loop whose number of steps is known


@reader("func.call")
def _call(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return r.call(str(op.attributes["callee"]), ins)


@reader("builtin.unrealized_conversion_cast")
def _cast(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return ins  # between types of dialects that are the same here


@reader("composite")
def _composite(r: Reading, op: Operation, ins: list[Any]) -> Any:
    called, given = str(op.attributes.get("name", "")), op.attributes.get("composite_attributes")
    own = readers.get(called) if called.startswith("chlo.") else None
    if own is not None and not op.regions:
        given = given if isinstance(given, dict) else {}
        return own(r, replace(op, name=called, attributes=given), ins)
    name = op.attributes["decomposition"]
    if not isinstance(name, Symbol):
        raise Unread("a composite names the function it stands for: decomposition = @name")
    return r.call(str(name), ins)


@reader("case")
def _case(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    (index,) = ins
    branches = [_branch(r.region(region, scope)) for region in op.regions]
    count = len(branches)
    if index.dtype != np.int32 or np.shape(index):
        raise Unread("it takes the number of a branch, of type tensor<i32>")
    if isinstance(index, np.ndarray):
        at = int(index)
        return branches[at if 0 <= at < count else count - 1]()
    maker = scope.maker(op.operands[0])
    if count == 2 and _is_from_boolean(scope, maker):
        assert maker is not None
        return lax.cond(scope[maker.operands[0]], branches[1], branches[0])
    if maker is None or maker.name != "stablehlo.clamp":  # others than these are the last branch
        outside = lax.bitwise_or(lax.lt(index, np.int32(0)), lax.ge(index, np.int32(count)))
        index = lax.select(outside, lax.full_like(index, count - 1), index)
    return lax.switch(index, branches)


def _is_from_boolean(scope: Scope, maker: Operation | None) -> bool:
    if maker is None or maker.name != "stablehlo.convert":
        return False
    value = scope[maker.operands[0]]
    return bool(value.dtype == np.bool_) and not isinstance(value, np.ndarray)


@reader("if")
def _if(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    (which,) = ins
    if len(op.regions) != 2:
        raise Unread("it has two regions")
    then, other = [_branch(r.region(region, scope)) for region in op.regions]
    if isinstance(which, np.ndarray):
        return then() if which else other()
    return lax.cond(which, then, other)


def _branch(body: Any) -> Any:
    return lambda: [_array(x) for x in body()]


def _array(x: Any) -> Any:
    """A value as loops and branches carry it."""
    return np.zeros((), np.bool_) if isinstance(x, Token) else x


# --- loops ----------------------------------------------------------------------------------------


@reader("while")
def _while(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    if len(op.regions) != 2:
        raise Unread("it has two regions")
    cond, body = op.regions
    if len(cond.names) != len(ins) or len(body.names) != len(ins):
        raise Unread(f"it carries {len(ins)} values, but its regions take a different number")
    held = _unchanged(body)
    moving = [i for i in range(len(ins)) if i not in held]
    goes, steps = r.region(cond, scope), r.region(body, scope)

    def full(state: Any) -> list[Any]:
        args = list(ins)
        for i, x in zip(moving, state, strict=True):
            args[i] = x
        return args

    def step(state: Any) -> list[Any]:
        outs = steps(*full(state))
        if len(outs) != len(ins):
            raise Unread(f"its body returns {len(outs)} values, it carries {len(ins)}")
        return [_array(outs[i]) for i in moving]

    start = [_array(ins[i]) for i in moving]
    counter = _counter(cond, body, ins, scope)
    if counter is None:
        found = lax.while_loop(lambda s: goes(*full(s))[0], step, start)
    else:
        found, _ = lax.scan(lambda s, _: (step(s), None), start, None, length=counter)
    outs = full(found)
    return [TOKEN if isinstance(x, Token) else y for x, y in zip(ins, outs, strict=True)]


def _unchanged(body: Block) -> set[int]:
    """Which carried values a body returns as it got them."""
    last = body.operations[-1] if body.operations else None
    if last is None or not last.name.endswith(".return") or len(last.operands) != len(body.names):
        return set()
    pairs = zip(body.names, last.operands, strict=True)
    return {i for i, (name, out) in enumerate(pairs) if name == out}


def _counter(cond: Block, body: Block, ins: list[Any], scope: Scope) -> int | None:
    """How many steps a loop has that counts them from a known number to another.

    Such loops become ``scan``, which has a reverse derivative.
    """
    found = _bound(cond, scope)
    if found is None:
        return None
    at, limit = found
    start = ins[at]
    if not isinstance(start, np.ndarray) or start.dtype.kind not in "iu" or start.shape:
        return None
    out = body.operations[-1].operands[at] if body.operations else ""
    step = next((op for op in body.operations if op.results == [out]), None)
    if step is None or step.name != "stablehlo.add" or len(step.operands) != 2:
        return None
    by = [name for name in step.operands if name != body.names[at]]
    if len(by) != 1 or _known_in(body, by[0], scope) != 1:
        return None
    count = max(limit - int(start), 0)
    return count if count < COUNTED_STEPS else None


def _bound(cond: Block, scope: Scope) -> tuple[int, int] | None:
    """The argument that a condition compares with a known number, and the number."""
    if not cond.operations or len(cond.operations[-1].operands) != 1:
        return None
    out = cond.operations[-1].operands[0]
    compare = next((op for op in cond.operations if op.results == [out]), None)
    if compare is None or compare.name != "stablehlo.compare" or len(compare.operands) != 2:
        return None
    left, right = compare.operands
    if str(compare.attributes.get("comparison_direction")) != "LT" or left not in cond.names:
        return None
    limit = _known_in(cond, right, scope)
    return None if limit is None else (cond.names.index(left), limit)


def _known_in(block: Block, name: str, scope: Scope) -> int | None:
    """A number that is known before a region runs: a constant in it, or a value from outside."""
    maker = next((op for op in block.operations if name in op.results), None)
    value: Any = None
    if maker is not None:
        value = maker.attributes.get("value") if maker.name == "stablehlo.constant" else None
    elif name not in block.names:
        try:
            value = scope[name]
        except KeyError:
            return None
    if not isinstance(value, np.ndarray) or value.shape or value.dtype.kind not in "iu":
        return None
    return int(value)


# --- tuples and tokens ----------------------------------------------------------------------------


@reader("tuple")
def _tuple(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return [tuple(ins)]


@reader("get_tuple_element")
def _tuple_element(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,), index = ins, int(op.attributes["index"])
    if not isinstance(x, tuple) or not 0 <= index < len(x):
        raise Unread(f"there is no element {index} of its operand")
    return [x[index]]


@reader("after_all", "create_token")
def _token(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return TOKEN


@reader("optimization_barrier")
def _barrier(r: Reading, op: Operation, ins: list[Any]) -> Any:
    at = [i for i, x in enumerate(ins) if not isinstance(x, (Token, tuple))]
    found = lax.optimization_barrier(tuple([ins[i] for i in at]))
    outs = list(ins)
    for i, x in zip(at, found, strict=True):
        outs[i] = x
    return outs


@reader("infeed", "outfeed", "send", "recv")
def _host(r: Reading, op: Operation, ins: list[Any]) -> Any:
    raise Unread("it talks to the host while a program runs; export the function without callbacks")
