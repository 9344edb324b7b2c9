"""What cuBLASLt does with a product before it is written: a bias added, ReLU, GELU.

The compiler's kernel that goes on with a product is compared with what these would be as kernels.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda.routines import lt
from weft.backends.cuda.routines.base import Library, Place, Routine, given, made, scratch
from weft.backends.cuda.routines.moves import permute
from weft.backends.cuda.routines.products import analyse, compute_of, known, lt_product
from weft.base.record import Record
from weft.kernel import math as real
from weft.kernel.build import Builder
from weft.kernel.nodes import F32, NARROW, Value, walk
from weft.kernel.program import Finish, Op, Type

_KINDS = {
    ("", False): lt.NONE,
    ("relu", False): lt.RELU,
    ("gelu", False): lt.GELU,
    ("", True): lt.BIAS,
    ("relu", True): lt.RELU_BIAS,
    ("gelu", True): lt.GELU_BIAS,
}


def _done(k: Builder, operation: Any, dtype: np.dtype, *xs: Value) -> Value:
    """An operation on values of a type: narrow floats are computed in float32 and rounded."""
    if dtype not in NARROW:
        return operation(k, *xs)
    return k.cast(operation(k, *(k.cast(x, F32) for x in xs)), dtype)


def _relu(k: Builder, x: Value) -> Value:
    return _done(k, Builder.max, x.dtype, x, k.like(x, 0))


def _gelu(k: Builder, x: Value) -> Value:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))), as `nn.gelu` writes it."""
    dtype = x.dtype
    number = lambda n: k.const(np.asarray(n, np.float32).astype(dtype), dtype)
    do = lambda operation, *xs: _done(k, operation, dtype, *xs)
    cube = do(lambda k, x: k.mul(x, k.mul(x, x)), x)
    wide = do(Builder.add, x, do(Builder.mul, number(0.044715), cube))
    inner = do(Builder.mul, number(np.sqrt(2 / np.pi)), wide)
    half = do(Builder.mul, number(0.5), do(Builder.add, number(1.0), do(real.tanh, inner)))
    return do(Builder.mul, x, half)


_FUNCTIONS = {"": lambda k, x: x, "relu": _relu, "gelu": _gelu}


def same(a: Value, b: Value, leaves: tuple[Value, Value]) -> bool:
    """Whether two values are computed alike of a leaf each."""
    known_pairs: dict[int, int] = {leaves[0].number: leaves[1].number}
    reached = {leaves[0].number}
    stack = [a]
    order: list[Value] = []
    while stack:  # operands have the lower numbers
        v = stack.pop()
        if v.number not in reached:
            reached.add(v.number)
            order.append(v)
            stack += v.args
    others = {v.number: v for v in walk([b])}
    others[leaves[1].number] = leaves[1]
    table = {
        (v.op, v.dtype, v.attr, tuple(x.number for x in v.args)): v.number for v in others.values()
    }
    for v in sorted(order, key=lambda v: v.number):
        args = tuple(known_pairs.get(x.number, -1) for x in v.args)
        found = table.get((v.op, v.dtype, v.attr, args))
        if found is None and v.op in ("mul", "add", "max") and len(args) == 2:
            found = table.get((v.op, v.dtype, v.attr, args[::-1]))
        if found is None:
            return False
        known_pairs[v.number] = found
    return known_pairs.get(a.number) == b.number


class Offer(Record):
    """A product with an epilogue: the function, and which buffer has the bias."""

    word: str
    bias: int | None

    def routine(self, node: Op) -> Routine | None:
        eqn = node.eqn
        lhs, rhs = (Type(x.aval.shape, x.aval.dtype) for x in eqn.invars)
        out = eqn.outvars[0].aval
        shape, left, right = analyse(lhs, rhs, eqn.params["dimension_numbers"])
        steps: list[Any] = []
        rooms: list[int] = []
        places: list[Place] = []
        for i, (t, order) in enumerate(((lhs, left), (rhs, right))):
            place = given(i)
            if order is not None:
                place = scratch(len(rooms))
                rooms.append(prod(t.shape) * t.dtype.itemsize)
                steps.append((permute(t.shape, order, t.dtype.itemsize), (given(i), place)))
            places.append(place)
        kind = _KINDS[self.word, self.bias is not None]
        found = lt_product(shape, lhs.dtype, out.dtype, compute_of(lhs.dtype, eqn.params), kind)
        if self.bias is not None:
            places.append(Place("slot", self.bias))

        def run(stream: Any, left: int, right: int, *more: int) -> None:
            *bias, result = more
            found.run(stream, right, left, result, *bias)

        name = f"cublasLtMatmul, {self.word or 'bias'}"
        steps.append(Library(run, (*places, made(0)), name))
        return Routine(steps, tuple(rooms))


def offer(eqn: Any, finish: Finish) -> Offer | None:
    """An offer for a product with an epilogue, or None where the library has no such thing."""
    if eqn.primitive.name != "dot_general" or len(finish.body) != 1:
        return None
    lhs, rhs = (Type(x.aval.shape, x.aval.dtype) for x in eqn.invars)
    out = Type(eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype)
    (store,) = finish.body
    if store.value.dtype != out.dtype or not known(lhs, rhs, out) or store.offset is not None:
        return None
    shape, _, _ = analyse(lhs, rhs, eqn.params["dimension_numbers"])
    if not prod(out.shape) or not shape.depth or lhs.dtype.kind == "c":
        return None
    found = _matched(finish, store.value, shape.columns)
    if found is None or (found.word == "gelu" and out.dtype not in NARROW):
        return None  # the library's GELU is exact to 16 bits only
    kind = _KINDS[found.word, found.bias is not None]
    if kind == lt.NONE:
        return None
    product = lt_product(shape, lhs.dtype, out.dtype, compute_of(lhs.dtype, eqn.params), kind)
    return None if product.algorithm is None else found


def _matched(finish: Finish, value: Value, columns: int) -> Offer | None:
    """The function and the bias that a kernel's value is."""
    loads = [v for v in walk([value]) if v.op == "load"]
    own = [v for v in loads if v.attr[0] == finish.buffer]
    others = [v for v in loads if v.attr[0] != finish.buffer]
    if len(own) != 1 or own[0].args or len(others) > 1:
        return None
    leaf, bias = own[0], None
    if others:
        (other,) = others
        last, extent = finish.axes[-1]
        along = other.attr[1]
        if other.args or extent != columns or along.const or along.terms != ((last, 1),):
            return None
        pair, narrow = {leaf, other}, leaf.dtype in NARROW
        if narrow:
            pair = {v for v in walk([value]) if v.op == "cast" and v.args[0] in pair}
        sums = [v for v in walk([value]) if v.op == "add" and set(v.args) == pair]
        if narrow:
            sums = [v for v in walk([value]) if v.op == "cast" and v.args[0] in sums]
        if len(sums) != 1 or sums[0].dtype != leaf.dtype:
            return None
        leaf, bias = sums[0], other.attr[0]
    for word, function in _FUNCTIONS.items():
        k = Builder()
        start = k.load(0, leaf.dtype)
        if same(value, function(k, start), (leaf, start)):
            return Offer(word, bias)
    return None
