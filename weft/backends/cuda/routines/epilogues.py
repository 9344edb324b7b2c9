"""What cuBLASLt does with a product before it is written: a bias added, ReLU, GELU, its gradient,
or factors for it and for an array of its shape that is added.

The compiler's kernel that goes on with a product is compared with what these would be as kernels.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda.routines import lt
from weft.backends.cuda.routines.base import Library, Place, Routine
from weft.backends.cuda.routines.products import analyse, compute_of, known, lt_product, transposed
from weft.base.record import Record
from weft.kernel import math as real
from weft.kernel.build import Builder
from weft.kernel.nodes import F32, NARROW, Value, walk
from weft.kernel.program import Finish, Op, Type

# Epilogues by their function, and by whether there is a bias, and what GELU is computed of beside.
_KINDS = {
    ("", False, False): lt.NONE,
    ("relu", False, False): lt.RELU,
    ("gelu", False, False): lt.GELU,
    ("", True, False): lt.BIAS,
    ("relu", True, False): lt.RELU_BIAS,
    ("gelu", True, False): lt.GELU_BIAS,
    ("gelu", False, True): lt.GELU_AUX,
    ("gelu", True, True): lt.GELU_AUX_BIAS,
    ("gelu gradient", False, True): lt.DGELU,
    ("sum", False, False): lt.NONE,
}


def _done(k: Builder, operation: Any, dtype: np.dtype, *xs: Value) -> Value:
    """An operation on values of a type: narrow floats are computed in float32 and rounded."""
    if dtype not in NARROW:
        return operation(k, *xs)
    return k.cast(operation(k, *(k.cast(x, F32) for x in xs)), dtype)


def _relu(k: Builder, x: Value) -> Value:
    return _done(k, Builder.max, x.dtype, x, k.like(x, 0))


class _Tanh:
    """The parts of GELU by a tanh, as `nn.gelu` writes them, for values of a type."""

    def __init__(self, k: Builder, x: Value) -> None:
        self.k, self.x, self.dtype = k, x, x.dtype
        self.scale, self.cubic = self.number(np.sqrt(2 / np.pi)), self.number(0.044715)
        self.half, self.one = self.number(0.5), self.number(1.0)
        cube = self.do(lambda k, x: k.mul(x, k.mul(x, x)), x)
        wide = self.do(Builder.add, x, self.mul(self.cubic, cube))
        self.tanh = self.do(real.tanh, self.mul(self.scale, wide))
        self.weight = self.mul(self.half, self.do(Builder.add, self.one, self.tanh))

    def number(self, n: float) -> Value:
        return self.k.const(np.asarray(n, np.float32).astype(self.dtype), self.dtype)

    def do(self, operation: Any, *xs: Value) -> Value:
        return _done(self.k, operation, self.dtype, *xs)

    def mul(self, x: Value, y: Value) -> Value:
        return self.do(Builder.mul, x, y)


def _gelu(k: Builder, x: Value) -> Value:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x³)))."""
    return _done(k, Builder.mul, x.dtype, x, _Tanh(k, x).weight)


def _gelu_gradient(k: Builder, x: Value, g: Value) -> Value:
    """What `_gelu` at x passes on of a gradient, as differentiation writes it."""
    t = _Tanh(k, x)
    less = t.do(Builder.sub, t.one, t.tanh)
    inner = t.mul(t.mul(t.half, t.mul(x, g)), less)
    inner = t.mul(t.scale, t.do(Builder.add, inner, t.mul(inner, t.tanh)))
    first = t.do(Builder.add, t.mul(g, t.weight), inner)
    square = t.do(lambda k, x: k.mul(x, x), x)
    return t.do(Builder.add, first, t.mul(t.mul(t.cubic, inner), t.mul(t.number(3.0), square)))


_FUNCTIONS = {"": lambda k, x: x, "relu": _relu, "gelu": _gelu}


def same(a: Value, b: Value, *leaves: tuple[Value, Value]) -> bool:
    """Whether two values are computed alike of some leaves each, given in pairs."""
    known_pairs: dict[int, int] = {one.number: other.number for one, other in leaves}
    reached = set(known_pairs)
    stack = [a]
    order: list[Value] = []
    while stack:  # operands have the lower numbers
        v = stack.pop()
        if v.number not in reached:
            reached.add(v.number)
            order.append(v)
            stack += v.args
    others = {v.number: v for v in walk([b])}
    others.update((other.number, other) for _, other in leaves)
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
    """A product with an epilogue: the function, and which buffers have the bias, the result, and
    what GELU is computed of: written beside GELU, read for its gradient. Or ``alpha`` times the
    product and ``beta`` times what a buffer ``added`` has."""

    word: str
    bias: int | None
    result: int = 0
    input: int | None = None
    alpha: float = 1.0
    beta: float = 0.0
    added: int | None = None

    @property
    def overwrites(self) -> bool:
        return False  # the library takes half as long again for it

    @property
    def kind(self) -> int:
        return _KINDS[self.word, self.bias is not None, self.input is not None]

    def routine(self, node: Op) -> Routine | None:
        eqn = node.eqn
        lhs, rhs = (Type(x.aval.shape, x.aval.dtype) for x in eqn.invars)
        out = eqn.outvars[0].aval
        shape, left, right = analyse(lhs, rhs, eqn.params["dimension_numbers"])
        places, steps, rooms = transposed((lhs, rhs), (left, right))
        compute = compute_of(lhs.dtype, eqn.params)
        found = lt_product(shape, lhs.dtype, out.dtype, compute, self.kind)
        more = [n for n in (self.result, self.bias, self.input, self.added) if n is not None]
        places += [Place("slot", n) for n in more]
        if self.word == "sum":
            return Routine([*steps, self._sum(found, places)], tuple(rooms))
        biased = self.bias is not None

        def run(stream: Any, left: int, right: int, result: int, *more: int) -> None:
            bias, *rest = more if biased else (0, *more)
            found.run(stream, right, left, result, bias, *rest)

        name = f"cublasLtMatmul, {self.word or 'bias'}"
        steps.append(Library(run, tuple(places), name))
        return Routine(steps, tuple(rooms))

    def _sum(self, product: Any, places: list[Place]) -> Library:
        factors = [np.full(1, x, np.float32) for x in (self.alpha, self.beta)]

        def run(stream: Any, left: int, right: int, result: int, added: int = 0) -> None:
            product.run(stream, right, left, result, factors=factors, added=added)

        return Library(run, tuple(places), "cublasLtMatmul, sum")


def offer(eqn: Any, finish: Finish) -> Offer | None:
    """An offer for a product with an epilogue, or None where the library has no such thing."""
    if eqn.primitive.name != "dot_general" or len(finish.body) > 2:
        return None
    lhs, rhs = (Type(x.aval.shape, x.aval.dtype) for x in eqn.invars)
    out = Type(eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype)
    stores = finish.body
    if not known(lhs, rhs, out) or any(s.offset is not None for s in stores):
        return None
    if any(s.value.dtype != out.dtype or s.marks is not None for s in stores):
        return None
    shape, _, _ = analyse(lhs, rhs, eqn.params["dimension_numbers"])
    if not prod(out.shape) or not shape.depth or lhs.dtype.kind == "c":
        return None
    # of two values, the one that is less work is what GELU is computed of
    *kept, store = sorted(stores, key=lambda s: len(walk([s.value])))
    found = None if kept else _summed(finish, store)
    found = found or _matched(finish, store, shape.columns, kept[0] if kept else None)
    if found is None or (found.word.startswith("gelu") and out.dtype not in NARROW):
        return None  # the library's GELU is exact to 16 bits only
    if found.word == "" and found.bias is None:
        return None
    if found.input is not None and not _has_input(shape):
        return None
    compute = compute_of(lhs.dtype, eqn.params)
    product = lt_product(shape, lhs.dtype, out.dtype, compute, found.kind)
    return None if product.algorithm is None else found


def _has_input(shape: Any) -> bool:
    """Whether the library reads or writes what GELU is computed of, for matrices of a shape."""
    return shape.batch == 1 and shape.columns % 8 == 0


def _summed(finish: Finish, store: Any) -> Offer | None:
    """The factors of a sum of a product of float32 and one array, or of a product alone."""
    value = store.value
    if value.dtype != F32:
        return None
    signs = {"add": (1.0, 1.0), "sub": (1.0, -1.0)}.get(value.op)
    parts = [(1.0, value)] if signs is None else list(zip(signs, value.args, strict=True))
    factors: dict[bool, tuple[float, Value]] = {}  # by whether it is the product
    for sign, part in parts:
        factor, leaf = _scaled(part)
        own = leaf.op == "load" and leaf.attr[0] == finish.buffer
        if leaf.op != "load" or leaf.args or leaf.dtype != F32 or own in factors:
            return None
        factors[own] = sign * factor, leaf
    if True not in factors:
        return None
    alpha, product = factors[True]
    if False not in factors:
        return Offer("sum", None, store.buffer, alpha=alpha) if alpha != 1 else None
    beta, other = factors[False]
    if other.attr[1] != product.attr[1]:
        return None
    return Offer("sum", None, store.buffer, None, alpha, beta, other.attr[0])


def _scaled(v: Value) -> tuple[float, Value]:
    """What a value is multiplied by, and that value."""
    if v.op == "neg":
        factor, leaf = _scaled(v.args[0])
        return -factor, leaf
    if v.op == "mul":
        for one, other in (v.args, v.args[::-1]):
            if one.op == "const":
                factor, leaf = _scaled(other)
                return factor * float(np.frombuffer(one.attr, np.float32)[0]), leaf
    return 1.0, v


def _matched(finish: Finish, store: Any, columns: int, kept: Any) -> Offer | None:
    """The function and the bias that a kernel's value is; it may keep what GELU is computed of."""
    value = store.value
    loads = [v for v in walk([value]) if v.op == "load"]
    own = [v for v in loads if v.attr[0] == finish.buffer]
    others = [v for v in loads if v.attr[0] != finish.buffer]
    if len(own) != 1 or own[0].args or len(others) > 1:
        return None
    if others and kept is None and others[0].attr == (others[0].attr[0], own[0].attr[1]):
        k = Builder()
        leaves = (k.load(0, own[0].dtype), k.load(1, own[0].dtype))
        expected = _gelu_gradient(k, leaves[1], leaves[0])
        if not others[0].args and same(value, expected, *zip((own[0], others[0]), leaves)):
            return Offer("gelu gradient", None, store.buffer, others[0].attr[0])
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
    if kept is not None and kept.value is not leaf:
        return None
    for word, function in _FUNCTIONS.items():
        k = Builder()
        start = k.load(0, leaf.dtype)
        if same(value, function(k, start), (leaf, start)):
            if kept is not None:
                return Offer(word, bias, store.buffer, kept.buffer) if word == "gelu" else None
            return Offer(word, bias, store.buffer)
    return None
