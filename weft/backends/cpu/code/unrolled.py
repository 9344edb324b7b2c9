"""Kernels of a few elements as LLVM text without loops, for loops that become one function.

Every place in memory is a constant there, so that LLVM keeps what one kernel hands to the next in
registers.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.code.instructions import scalar_type
from weft.backends.cpu.code.loops import combine, load_first
from weft.backends.cpu.code.rare import rare
from weft.backends.cpu.code.render import Function
from weft.backends.cpu.native.processor import vector_bits
from weft.kernel.kernel import Kernel, Loop, Reduce, Store, statements
from weft.kernel.nodes import walk

# Operations that a kernel may be unrolled to, and those of a loop from which vectors pay.
MAX_UNROLLED_OPS, MIN_VECTOR_OPS = 400, 48
# Elements that are too few for a vector, whatever is done with them.
MIN_VECTOR_ELEMENTS = 4


def render_unrolled(kernel: Kernel) -> str | None:
    """The LLVM text of a kernel without loops, or None where that would be long."""
    body = kernel.body if kernel.grid is None else [Loop(*kernel.grid, kernel.body)]
    if kernel.axes or any(isinstance(s, Loop) and s.whole for s in statements(body)):
        return None
    if _length(body) > MAX_UNROLLED_OPS:
        return None
    f = Function(kernel)
    f.begin()
    _Unroll(f).body(body)
    return f.text()


def _operations(body: list[Any]) -> int:
    roots = [v for s in body if not isinstance(s, Loop) for v in s.operands]
    return sum(v.op not in ("const", "index", "acc") for v in walk(roots)) + len(roots)


def _length(body: list[Any], times: int = 1, in_lanes: bool = False) -> int:
    """The operations that statements are unrolled to; no more are counted than are too many.

    In the lanes of a vector, all iterations of loops inside are done one after the other.
    """
    total = times * _operations(body)
    for s in body:
        if isinstance(s, Loop) and total <= MAX_UNROLLED_OPS:
            if in_lanes or not _in_vector(s):
                total += _length(s.body, times * s.extent, in_lanes)
                continue
            pieces = _pieces(s)
            around = any(isinstance(x, Loop) for x in s.body)
            total += _length(s.body, times * len(pieces), around)
            if not around:  # halves of a vector that are combined, again and again
                steps = sum(lanes.bit_length() - 1 for _, lanes in pieces)
                total += times * 3 * len(s.carries) * steps
    return total


def _in_vector(s: Loop) -> bool:
    """Whether all iterations of a loop are done side by side."""
    if s.extent < MIN_VECTOR_ELEMENTS:
        return False
    around = any(isinstance(x, Loop) for x in s.body)
    if around and (s.carries or any(isinstance(x, Loop) and x.lanes for x in s.body)):
        return False
    stores = [x for x in statements(s.body) if isinstance(x, Store)]
    if any(x.at.coefficient(s.axis) not in (1, 2) or x.offset is not None for x in stores):
        return False
    values = walk([v for x in statements(s.body) if not isinstance(x, Loop) for v in x.operands])
    loads = [v for v in values if v.op == "load"]
    if any(v.args and s.axis in v.args[0].axes for v in loads):
        return False
    if around and not s.lanes:
        # rows side by side, where they follow each other in memory
        if any(v.attr[1].coefficient(s.axis) not in (0, 1) for v in loads):
            return False
    return s.extent * _all_operations(s.body) >= MIN_VECTOR_OPS


def _pieces(s: Loop) -> list[tuple[int, int]]:
    """Where the vectors of a loop begin, and how many lanes they have.

    Those are up to four registers of floats, and but for the last one powers of two: LLVM makes
    such of others.
    """
    found, at, lanes = [], 0, vector_bits() // 8
    while at < s.extent:
        if lanes > s.extent - at:
            lanes = max(lanes // 2, 1) if s.extent - at > vector_bits() // 32 else s.extent - at
            continue
        found.append((at, lanes))
        at += lanes
    return found


def _all_operations(body: list[Any]) -> int:
    inner = [x for x in body if isinstance(x, Loop)]
    return _operations(body) + sum(x.extent * _all_operations(x.body) for x in inner)


class _Unroll:
    """The statements of a kernel, one after the other."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.found: dict[int, list[str]] = {}  # what reductions combine, while it is computed

    def body(self, body: list[Any]) -> None:
        f = self.f
        flat = [s for s in body if not isinstance(s, Loop)]
        if len(flat) == len(body):
            operands = [v for s in flat for v in s.operands]
            f.expect(rare(operands))
            load_first(f, flat)
        rest = list(body)
        while rest:
            s = rest.pop(0)
            if isinstance(s, Loop):
                self.loop(s)
            elif isinstance(s, Reduce):
                value = f.value(s.value)
                if s.symbol in self.found:
                    self.found[s.symbol] += self.joined(s, value)
                else:
                    f.accumulators[s.symbol] = value
            elif rest and f.follow(s, rest[0]):
                f.store_both(s, rest.pop(0))
            else:
                f.store(s)
        f.expect([])

    def joined(self, s: Reduce, value: str) -> list[str]:
        """What a vector along a reduced axis combines to, else a value as it is."""
        f = self.f
        if f.lanes == 1 or f.in_lanes:
            return [value]
        base, lanes = scalar_type(s.dtype), f.lanes
        over: list[str] = []
        while f.lanes > 1:
            kind, half = f"<{f.lanes} x {base}>", f.lanes // 2
            if f.lanes % 2:
                over.append(f.emit(f"extractelement {kind} {value}, i64 {f.lanes - 1}"))
            if half == 1:
                a, b = (f.emit(f"extractelement {kind} {value}, i64 {i}") for i in (0, 1))
            else:
                a = f.shuffle(kind, value, "poison", [*range(half)])
                b = f.shuffle(kind, value, "poison", [*range(half, 2 * half)])
            f.lanes = half
            value = combine(f, s.op, s.dtype, a, b)
        f.lanes = lanes
        return [value, *over]

    def loop(self, s: Loop) -> None:
        f = self.f
        begun = [symbol for symbol in s.carries if symbol not in self.found]
        self.found.update((symbol, []) for symbol in begun)
        outside = f.known
        if f.lanes == 1 and _in_vector(s):
            f.in_lanes = any(isinstance(x, Loop) for x in s.body)
            for i, f.lanes in _pieces(s):
                f.steps = {s.axis: tuple(range(f.lanes))} if f.lanes > 1 else {}
                self.iteration(s, i, outside)
            f.lanes, f.steps, f.in_lanes = 1, {}, False
        else:
            for i in range(s.extent):
                self.iteration(s, i, outside)
        f.known = outside
        for symbol in begun:
            f.accumulators[symbol] = self.total(f.reduces[symbol], self.found.pop(symbol))

    def iteration(self, s: Loop, i: int, outside: dict[Any, str]) -> None:
        self.f.axes[s.axis] = str(i)
        self.f.known = dict(outside)
        self.body(s.body)

    def total(self, s: Reduce, values: list[str]) -> str:
        """All values combined, neighbours first."""
        f = self.f
        if s.op == "add" or not values:
            # zero is what a sum of zeros is, also if they are all negative
            first = f.initial(s.symbol, f.lanes)
            begun = [combine(f, s.op, s.dtype, first, v) for v in values[:1]] or [first]
            values = begun + values[1:]
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            odd = values[-1:] if len(values) % 2 else []
            values = [combine(f, s.op, s.dtype, a, b) for a, b in pairs] + odd
        return values[0]
