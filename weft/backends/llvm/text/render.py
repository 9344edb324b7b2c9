"""Kernels as LLVM text: explicit vectors over one axis, scalars for what is left over.

The function made is ``void name(ptr buffers, i64 start, i64 stop)``: ``buffers`` is an array of
pointers, and the grid axis runs from ``start`` to ``stop``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.llvm import code
from weft.backends.llvm.code import Module
from weft.backends.llvm.native.processor import has_ieee_minimum
from weft.backends.llvm.text.instructions import (
    MEMORY,
    SUFFIXES,
    Instructions,
    memory_type,
    scalar_type,
)
from weft.backends.llvm.text.rare import Rare
from weft.backends.llvm.text.sizes import Sizes
from weft.base.sizes import Size
from weft.kernel.kernel import Affine, Kernel, Reduce, Store, statements
from weft.kernel.nodes import BF16, BOOL, F32, I64, REDUCED, Value, is_float, walk

_BINARY_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
_INTRINSIC = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "rint": "roundeven",
    "trunc": "trunc",
}
# The intrinsic that clamps a number: select(bound < x, bound, x), and the same with >.
_CLAMPS = {"lt": "minimum", "gt": "maximum"}
# Elements from lane to lane up to which that is part of the text; and those of short rows.
_MAX_WRITTEN_STRIDE, _MAX_WRITTEN_IN_ROWS = 16, 64
# Bytes that stack slots are aligned to: no more than the stack is, which would then be realigned.
_SLOT_ALIGNMENT = 16
# Operations that places in arrays are made of.
_PLACES = frozenset(["add", "sub", "mul"])


def _decides(op: str, number: Any) -> bool:
    """Whether a number may stand for the extreme of itself and an equal one: not if that can be the
    zero of the other sign, and not if it is NaN."""
    if number == 0:
        return bool(np.signbit(number)) == (op == "min")
    return bool(number == number)


def _is_clamp(v: Value) -> bool:
    """Whether a select is IEEE 754's minimum or maximum of a number (or NaN) and a constant."""
    test, bound, x = v.args
    if test.op not in _CLAMPS or bound.op != "const" or not is_float(v.dtype):
        return False
    number = np.frombuffer(bound.attr, v.dtype)[0]
    return test.args[0] is bound and test.args[1] is x and number != 0 and number == number


class Function(Instructions):
    """The text of one kernel while it is written."""

    def __init__(self, kernel: Kernel, width: int = 0) -> None:
        super().__init__()
        self.kernel = kernel
        self.width = width  # the most lanes that vectors may have, unless 0
        self.axes: dict[str, str] = {}
        self.steps: dict[str, tuple[int, ...]] = {}  # how far each lane is along an axis
        self.rare: dict[int, Rare] = {}
        self.inside: frozenset[int] = frozenset()  # values to be computed by a branch alone
        self.single_lanes = False  # element by element, where vectors would be longer than loops
        self.wide: dict[int, int] = {}  # lanes of reductions carried through several loops
        self.accumulators: dict[int, str] = {}
        self.known: dict[Any, str] = {}
        self.reduces: dict[int, Reduce] = {}
        self.carried: dict[int, str] = {}
        self.in_lanes = False
        # whether IEEE 754's minimum is one instruction, whatever the numbers
        self.ieee_minimum = has_ieee_minimum()
        self.extent = 0  # of the grid, unless it is not to be known
        self.exact = 1  # what the lengths of other ranges with unknown ends are multiples of
        self.pieces = 1  # what the ends of all ranges of the grid are multiples of
        self.table: Sizes | None = None  # named sizes, which are read from a table, if any are
        self.sizes: Sizes | None = None  # the same where code is to do for all sizes
        # An Arm FMA overwrites its addend, so that a constant addend has to be copied first.
        # Loading it from the stack leaves the vector pipes free. Lanes for which that is done (0:
        # none), and the names of the stack slots by type and constant.
        self.spilled_lanes = 0
        self.spilled: dict[tuple[str, str], str] = {}

    def module(self) -> Module:
        """The kernel's module, when the body is written."""
        sizes = [] if self.table is None else self.table.head()
        lines = ("entry:", *sizes, *self.spilled_head(), *self.lines, "  ret void")
        own = code.Function(self.kernel.name, code.RANGE, lines, attributes=("#0",))
        return Module([own], self.declared)

    # --- leaves -----------------------------------------------------------------------------------

    def start_of(self, symbol: int) -> str:
        """What a reduction starts from: its value so far, or its initial one."""
        found = self.carried.get(symbol)
        return found if found is not None else self.initial(symbol, self.accumulator_lanes(symbol))

    def initial(self, symbol: int, lanes: int) -> str:
        reduce = self.reduces[symbol]
        text = self.constant_scalar(reduce.dtype, reduce.initial)
        return text if lanes == 1 else f"splat ({scalar_type(reduce.dtype)} {text})"

    def accumulator_lanes(self, symbol: int) -> int:
        return self.lanes if self.in_lanes else self.wide.get(symbol, 1)

    def accumulator_type(self, symbol: int) -> str:
        base, lanes = scalar_type(self.reduces[symbol].dtype), self.accumulator_lanes(symbol)
        return base if lanes == 1 else f"<{lanes} x {base}>"

    def whole_part(self, low: str, high: str, step: int) -> str:
        """Where the last whole step ends; the very end where that is known."""
        known = self.length(low, high)
        if known is not None and known % step == 0:
            return high
        if type(known) is int:
            return str(int(high) - known % step)
        span = self.emit(f"sub i64 {high}, {low}")
        if step & (step - 1) == 0:
            whole = self.emit(f"and i64 {span}, {-step}")
        else:
            whole = self.emit(f"sdiv i64 {span}, {step}")
            whole = self.emit(f"mul i64 {whole}, {step}")
        return self.emit(f"add i64 {low}, {whole}")

    def size(self, number: int) -> str:
        """A size, a distance or a bound: itself, or the name under which it is read."""
        return str(number) if self.table is None else self.table.name(number)

    def length(self, low: str, high: str) -> int | Size | None:
        """How long a range is, where that is known: a number, or a size that has some values."""
        if low.isdigit() and high.isdigit():
            return int(high) - int(low)
        if low != "0" or self.table is None or self.sizes is not None:
            return None
        return self.table.known(high)

    def read(self, v: Value) -> str:
        """A size as a number of some type in all lanes."""
        assert self.table is not None
        return self.table.vector(v.attr, scalar_type(v.dtype), self.lanes)

    def offset(self, index: Affine) -> str:
        """The element offset of an index, as an i64; that of the first lane in vectors."""
        key = ("offset", index)
        found = self.known.get(key)
        if found is not None:
            return found
        if self.sizes is not None and (near := self._before(index)):
            self.known[key] = near
            return near
        known = {axis: int(self.axes[axis]) for axis, _ in index.terms if self.axes[axis].isdigit()}
        first = index.const + sum(known.get(axis, 0) * factor for axis, factor in index.terms)
        total = self.size(first)
        for axis, factor in index.terms:
            term = self.axes[axis]
            if axis in known:
                continue
            if factor != 1:
                term = self.emit(f"mul i64 {term}, {self.size(factor)}")
            total = term if total == "0" else self.emit(f"add i64 {total}, {term}")
        self.known[key] = total
        return total

    def _before(self, index: Affine) -> str | None:
        """The offset of an index, if all but that along one axis is known from outside a loop."""
        for axis, factor in index.terms:
            outside = self.known.get(("offset", without(index, axis)))
            if outside is not None and not self.axes[axis].isdigit():
                term = self.axes[axis]
                if factor != 1:
                    term = self.emit(f"mul i64 {term}, {self.size(factor)}")
                return self.emit(f"add i64 {outside}, {term}")
        return None

    def offsets_before(self, indices: list[Affine], axis: str) -> None:
        """Compute what of some places is the same along an axis, before the loop over it, where
        sizes are read: that would take registers for all of them within."""
        if self.sizes is not None:
            for index in indices:
                if len(index.terms) > 1 and index.coefficient(axis):
                    self.offset(without(index, axis))

    def far(self, index: Affine) -> dict[str, str]:
        """The axes of lanes along which elements are far apart, and how far, if that is read."""
        if self.sizes is None:
            return {}
        near = _MAX_WRITTEN_STRIDE if len(self.steps) == 1 else _MAX_WRITTEN_IN_ROWS
        factors = {axis: index.coefficient(axis) for axis in self.steps}
        return {a: self.size(n) for a, n in factors.items() if type(n) is Size or abs(n) > near}

    def pattern(self, index: Affine) -> list[int]:
        """How far the element of each lane lies from that of the first, but for what is read."""
        found, far = [0] * self.lanes, self.far(index)
        for axis, steps in self.steps.items():
            factor = index.coefficient(axis)
            if factor and axis not in far:
                found = [o + factor * step for o, step in zip(found, steps, strict=True)]
        return found

    def varies(self, index: Affine) -> bool:
        return any(index.coefficient(axis) for axis in self.steps)

    def begin(self) -> None:
        """Find the reductions; read the addresses of all buffers as ``%b`` with their numbers."""
        body = statements(self.kernel.body)
        self.reduces = {s.symbol: s for s in body if isinstance(s, Reduce)}
        for i, buffer in enumerate(self.kernel.buffers):
            if buffer.role == "row":
                kind, size = memory_type(buffer.dtype), self.size(buffer.size)
                many = f"[{size} x {kind}]" if size.isdigit() else f"{kind}, i64 {size}"
                self.line(f"%b{i} = alloca {many}, align 64")
                continue
            self.line(f"%p{i} = getelementptr ptr, ptr %buffers, i64 {i}")
            self.line(f"%b{i} = load ptr, ptr %p{i}, align 8")

    def address(self, buffer: int, offset: str) -> str:
        kind = memory_type(self.kernel.buffers[buffer].dtype)
        return self.emit(f"getelementptr {kind}, ptr %b{buffer}, i64 {offset}")

    def load(self, value: Value, args: list[str]) -> str:
        buffer, index = value.attr[:2]
        dtype = value.dtype
        base = self.address(buffer, self.offset(index))
        distances = None
        if args:
            base, distances = self.moved(base, memory_type(dtype), value.args[0], args[0])
        kind = memory_type(dtype)
        if self.lanes == 1 or not (distances or self.varies(index)):
            name = self.emit(f"load {kind}, ptr {base}, align {dtype.itemsize}")
            name = self.splat(MEMORY.get(dtype, dtype), name)
        elif distances:
            name = self.gather(base, dtype, self.sum_of(distances, index))
        elif self.mask is None and not args and (step := self.turns(buffer, index)):
            name = self.load_part(buffer, index, dtype, step)
            if dtype == BOOL:
                return name  # bits of wider numbers
        else:
            name = self.load_vector(base, dtype, index)
        if dtype not in MEMORY:
            return name
        kind = self.type_of(MEMORY[dtype])
        if dtype == BOOL:  # any byte but 0 is True: memory of others may hold such
            return self.emit(f"icmp ne {kind} {name}, zeroinitializer")
        return self.emit(f"bitcast {kind} {name} to {self.type_of(dtype)}")

    def turns(self, buffer: int, index: Affine) -> int:
        """In steps of how many elements lanes read, where what lies between is there to read."""
        pattern = self.pattern(index)
        step, size = pattern[1], self.kernel.buffers[buffer].size
        if step not in (2, 4, 8) or self.far(index):
            return 0
        if self.sizes is not None and self.sizes.small and type(size) is Size:
            return 0  # one text for all sizes is worth more
        if size % step or any(n % step for _, n in index.terms):
            return 0
        if pattern != list(range(0, step * self.lanes, step)):
            return 0
        few = step * self.kernel.buffers[buffer].dtype.itemsize <= 8
        return step if step == 2 or few else 0

    def load_part(self, buffer: int, index: Affine, dtype: np.dtype, step: int) -> str:
        """Every so many elements of memory that is read once for all that lie between."""
        part, kind = index.const % step, memory_type(dtype)
        first = index.plus(Affine(-part))
        size = 8 * step * dtype.itemsize
        key = (("turns", buffer, first, step), self.lanes)
        whole = dtype.kind in "biu" and dtype.itemsize < 4 and size in (16, 32, 64)
        wide = f"<{self.lanes} x i{size}>" if whole else f"<{step * self.lanes} x {kind}>"
        if key not in self.known:
            base = self.address(buffer, self.offset(first))
            self.known[key] = self.emit(f"load {wide}, ptr {base}, align {dtype.itemsize}")
        if not whole:
            order = list(range(part, step * self.lanes, step))
            return self.shuffle(wide, self.known[key], "poison", [*order])
        name = self.known[key]
        if dtype == BOOL:
            bit = self.emit(f"and {wide} {name}, splat (i{size} {255 << 8 * part})")
            return self.emit(f"icmp ne {wide} {bit}, zeroinitializer")
        if part:
            name = self.emit(f"lshr {wide} {name}, splat (i{size} {8 * part * dtype.itemsize})")
        return self.emit(f"trunc {wide} {name} to {self.type_of(dtype)}")

    def moved(self, base: str, kind: str, offset: Value, text: str) -> tuple[str, str | None]:
        """An address with an offset from data added, or the offsets where they differ by lane."""
        if self.lanes > 1:
            reduced = self.in_lanes and REDUCED in offset.axes
            if reduced or not offset.axes.isdisjoint(self.steps):
                return base, text
            text = self.emit(f"extractelement <{self.lanes} x i64> {text}, i64 0")
        return self.emit(f"getelementptr {kind}, ptr {base}, i64 {text}"), None

    def sum_of(self, distances: str, index: Affine) -> str:
        """Distances, and those of the lanes."""
        pattern, kind = self.pattern(index), f"<{self.lanes} x i64>"
        if any(pattern):
            distances = self.emit(f"add {kind} {distances}, {_vector(pattern)}")
        return self.further(distances, index)

    def distances(self, index: Affine) -> str:
        """How far lanes lie from the first."""
        return self.further(_vector(self.pattern(index)), index)

    def further(self, distances: str, index: Affine) -> str:
        """Distances, and those of the lanes along axes where they are read."""
        kind = f"<{self.lanes} x i64>"
        for axis, far in self.far(index).items():
            steps = _vector(list(self.steps[axis]))
            much = self.emit(f"mul {kind} {steps}, {self.splat(I64, far)}")
            distances = self.emit(f"add {kind} {distances}, {much}")
        return distances

    def further_on(self, at: str, kind: str, size: str, count: int) -> str:
        """The address of what is so many times a size that is read further on.

        By two steps: one for each number would take many registers, and going on from one address
        to the next would be to wait for it.
        """
        for n in (count & ~3, count & 3):
            if n:
                key = ("times", size, n)
                if key not in self.known:
                    self.known[key] = size if n == 1 else self.emit(f"mul i64 {size}, {n}")
                at = self.emit(f"getelementptr {kind}, ptr {at}, i64 {self.known[key]}")
        return at

    def places(self, base: str, kind: str, index: Affine) -> tuple[list[Any], dict[Any, str]]:
        """What each lane's element is next to, and how far from it; and where these things are."""
        far = self.far(index)
        steps = [self.steps[axis] for axis in far]
        keys = list(zip(*steps, strict=True)) if far else [()] * self.lanes
        found: dict[Any, str] = {}
        for key in dict.fromkeys(keys):
            found[key] = base
            for n, size in zip(key, far.values(), strict=True):
                found[key] = self.further_on(found[key], kind, size, n)
        return list(zip(keys, self.pattern(index), strict=True)), found

    def load_vector(self, base: str, dtype: np.dtype, index: Affine) -> str:
        """The elements at distances from an address; no byte beyond them is read."""
        kind = memory_type(dtype)
        vector = f"<{self.lanes} x {kind}>"
        following = not self.far(index) and self.pattern(index) == list(range(self.lanes))
        if self.mask is not None:
            if following:
                return self.masked("load", base, dtype)
            return self.gather(base, dtype, self.distances(index))
        if following:
            return self.emit(f"load {vector}, ptr {base}, align {dtype.itemsize}")
        pattern, bases = self.places(base, kind, index)
        windows = [
            (key, *window)
            for key in bases
            for window in _windows([n for k, n in pattern if k == key], self.lanes)
        ]
        if len(windows) > 4:
            distinct = sorted(set(pattern))
            part, name = f"<{len(distinct)} x {kind}>", "poison"
            for i, (key, distance) in enumerate(distinct):
                at = self.emit(f"getelementptr {kind}, ptr {bases[key]}, i64 {distance}")
                one = self.emit(f"load {kind}, ptr {at}, align {dtype.itemsize}")
                name = self.emit(f"insertelement {part} {name}, {kind} {one}, i64 {i}")
            if pattern == distinct:
                return name
            return self.shuffle(part, name, "poison", [distinct.index(o) for o in pattern])
        name = ""
        for key, first, size in windows:
            at = self.emit(f"getelementptr {kind}, ptr {bases[key]}, i64 {first}")
            part = f"<{size} x {kind}>"
            some = self.emit(f"load {part}, ptr {at}, align {dtype.itemsize}")
            inside = [k == key and 0 <= n - first < size for k, n in pattern]
            order = [n - first if ok else None for (_, n), ok in zip(pattern, inside, strict=True)]
            spread = self.shuffle(part, some, "poison", order)
            if name:
                taken = [self.lanes + i if ok else i for i, ok in enumerate(inside)]
                spread = self.shuffle(vector, name, spread, list(taken))
            name = spread
        return name

    def gather(self, base: str, dtype: np.dtype, distances: str) -> str:
        """Elements at distances from an address."""
        return self.masked("gather", self.spread(base, dtype, distances), dtype)

    def spread(self, base: str, dtype: np.dtype, distances: str) -> str:
        kind = memory_type(dtype)
        return self.emit(f"getelementptr {kind}, ptr {base}, <{self.lanes} x i64> {distances}")

    def masked(self, rule: str, where: str, dtype: np.dtype, value: str = "") -> str:
        """A load, store, gather or scatter of the lanes that may touch memory."""
        kind = memory_type(dtype)
        vector, flags = f"<{self.lanes} x {kind}>", f"<{self.lanes} x i1>"
        one = rule in ("load", "store")
        pointers, point = ("ptr", "p0") if one else (f"<{self.lanes} x ptr>", f"v{self.lanes}p0")
        name = f"@llvm.masked.{rule}.v{self.lanes}{SUFFIXES.get(kind, kind)}.{point}"
        mask = self.mask if self.mask is not None else "splat (i1 true)"
        place = f"{pointers} {where}, i32 {dtype.itemsize}, {flags} {mask}"
        if value:
            self.declared[name] = f"declare void {name}({vector}, {pointers}, i32, {flags})"
            self.line(f"call void {name}({vector} {value}, {place})")
            return ""
        self.declared[name] = f"declare {vector} {name}({pointers}, i32, {flags}, {vector})"
        return self.emit(f"call {vector} {name}({place}, {vector} zeroinitializer)")

    def position(self, axis: str, dtype: np.dtype = I64) -> str:
        """The position along an axis, in an integer type: of narrow ones a register has more."""
        kind = scalar_type(dtype)
        name = self.axes[axis]
        if dtype.itemsize < 8:
            name = self.emit(f"trunc i64 {name} to {kind}")
        name = self.splat(dtype, name)
        if self.lanes > 1 and axis in self.steps:
            steps = ", ".join(f"{kind} {step}" for step in self.steps[axis])
            name = self.emit(f"add <{self.lanes} x {kind}> {name}, <{steps}>")
        return name

    # --- values -----------------------------------------------------------------------------------

    def value(self, root: Value) -> str:
        """Text for a value and all it depends on; each operation once a block."""
        for v in walk([root]):
            if v.number not in self.inside:
                self.single(v)
        return self.known[root.number, self.lanes]

    def single(self, v: Value) -> None:
        """Text for a value whose operands have theirs."""
        key = (v.number, self.lanes)
        if key in self.known:
            return
        if v.number in self.rare:
            self.branch(self.rare[v.number])
            return
        if self.sizes is not None and (self.is_odd(v) or self._is_place(v)):
            self.known[key] = self.splat(v.dtype, self.scalar(v))
            return
        self.known[key] = self.render(v, [self.known[a.number, self.lanes] for a in v.args])

    def is_odd(self, v: Value) -> bool:
        """Whether a value is the same for all lanes of vectors of an odd length, which LLVM would
        keep element by element from one block to another."""
        if self.lanes & (self.lanes - 1) == 0 or v.op in ("const", "size", "index", "acc"):
            return False
        return v.axes.isdisjoint(self.steps)

    def _is_place(self, v: Value) -> bool:
        """Whether a value is a place along axes, the same for all lanes."""
        if self.lanes == 1 or v.op not in _PLACES or v.dtype != I64:
            return False
        if not v.axes or not v.axes.isdisjoint(self.steps):
            return False
        return all(x.op in _PLACES or x.op in ("index", "const", "size") for x in walk([v]))

    def scalar(self, v: Value) -> str:
        """A value that is the same for all lanes, computed once: LLVM would not see that it is,
        where sizes that it does not know are parts of it."""
        state = self.lanes, self.steps, self.mask
        self.lanes, self.steps, self.mask = 1, {}, None
        name = self.value(v)
        self.lanes, self.steps, self.mask = state
        return name

    def expect(self, found: list[Rare]) -> None:
        """The rare choices of the values that are rendered from now on."""
        self.rare = {v.number: group for group in found for v in group.choices}
        self.inside = frozenset().union(*(group.inside for group in found))

    def branch(self, group: Rare) -> None:
        """Choices whose first arms are computed if some lane needs them."""
        condition = self.value(group.condition)
        usual = [self.value(v.args[2]) for v in group.choices]
        tag = self.fresh("r")[1:]
        before, some = self.block, self.any_lane(condition)
        self.line(f"br i1 {some}, label %{tag}some, label %{tag}join")
        self.label(f"{tag}some")
        known, inside = dict(self.known), self.inside
        self.inside = inside - group.inside
        chosen = []
        for v, other in zip(group.choices, usual, strict=True):
            self.value(v.args[1])
            chosen.append(
                self.render(v, [condition, self.known[v.args[1].number, self.lanes], other])
            )
        self.known, self.inside = known, inside
        after = self.block
        self.line(f"br label %{tag}join")
        self.label(f"{tag}join")
        for v, other, name in zip(group.choices, usual, chosen, strict=True):
            kind = self.type_of(v.dtype)
            merged = f"phi {kind} [ {other}, %{before} ], [ {name}, %{after} ]"
            self.known[v.number, self.lanes] = self.emit(merged)

    def extreme(self, v: Value, args: list[str]) -> str:
        """The smaller or larger of two floats; NaN if one is, and zeros are told apart."""
        low = v.op == "min"
        if self.ieee_minimum:
            return self.call("minimum" if low else "maximum", v.dtype, args)
        kind = self.type_of(v.dtype)
        flags = "i1" if self.lanes == 1 else f"<{self.lanes} x i1>"
        for value, known, other in zip(v.args, args, reversed(args), strict=True):
            if value.op == "const" and _decides(v.op, np.frombuffer(value.attr, v.dtype)[0]):
                test = self.emit(f"fcmp {'oge' if low else 'ole'} {kind} {other}, {known}")
                return self.emit(f"select {flags} {test}, {kind} {known}, {kind} {other}")
        return self.call("minimum" if low else "maximum", v.dtype, args)

    def spilled_constant(self, v: Value) -> str:
        """A constant in every lane, loaded from the stack."""
        key = (self.type_of(v.dtype), self.constant(v.dtype, v.attr))
        slot = self.spilled.setdefault(key, f"%spilled{len(self.spilled)}")
        return self.emit(f"load {key[0]}, ptr {slot}, align {_SLOT_ALIGNMENT}")

    def spilled_head(self) -> list[str]:
        """The lines of the entry block that store constants to the stack."""
        lines = []
        for (kind, text), slot in self.spilled.items():
            lines.append(f"  {slot} = alloca {kind}, align {_SLOT_ALIGNMENT}")
            lines.append(f"  store {kind} {text}, ptr {slot}, align {_SLOT_ALIGNMENT}")
        return lines

    def render(self, v: Value, args: list[str]) -> str:
        op, dtype = v.op, v.dtype
        if op == "const":
            return self.constant(dtype, v.attr)
        if op == "size":
            return self.read(v)
        if op == "load":
            kept = None if args else self.known.get((("row", *v.attr[:2]), self.lanes))
            return self.load(v, args) if kept is None else kept
        if op == "index":
            return self.position(v.attr)
        if op == "acc":
            found = self.accumulators[v.attr]
            return found if self.in_lanes else self.splat(dtype, found)
        kind = self.type_of(v.args[0].dtype if op in _SIGNED else dtype)
        if op in _SIGNED:
            return self.comparison(v, kind, args)
        if op == "select":
            if self.ieee_minimum and _is_clamp(v):
                return self.call(_CLAMPS[v.args[0].op], dtype, args[1:])
            condition = self.type_of(BOOL)
            return self.emit(f"select {condition} {args[0]}, {kind} {args[1]}, {kind} {args[2]}")
        if op == "cast":
            if v.args[0].op == "index" and dtype.kind in "iu":
                return self.position(v.args[0].attr, dtype)
            return self.cast(v.args[0].dtype, dtype, args[0])
        if op == "bitcast":
            return self.emit(f"bitcast {self.type_of(v.args[0].dtype)} {args[0]} to {kind}")
        if is_float(dtype) or (op == "isnan"):
            return self.float_operation(v, args)
        return self.integer_operation(op, dtype, kind, args)

    def comparison(self, v: Value, kind: str, args: list[str]) -> str:
        operand = v.args[0].dtype
        if operand == BF16:
            kind, args = self.type_of(F32), [self.from_bfloat(x) for x in args]
        if is_float(operand):
            return self.emit(f"fcmp {_FLOAT_COMPARE[v.op]} {kind} {args[0]}, {args[1]}")
        table = _UNSIGNED if operand.kind in "ub" else _SIGNED
        return self.emit(f"icmp {table[v.op]} {kind} {args[0]}, {args[1]}")

    def float_operation(self, v: Value, args: list[str]) -> str:
        op, dtype = v.op, v.dtype
        if op == "isnan":
            operand, x = v.args[0].dtype, args[0]
            if operand == BF16:
                operand, x = F32, self.from_bfloat(x)
            return self.emit(f"fcmp uno {self.type_of(operand)} {x}, {x}")
        kind = self.type_of(dtype)
        if op in _BINARY_FLOAT:
            return self.emit(f"{_BINARY_FLOAT[op]} {kind} {args[0]}, {args[1]}")
        if op == "neg":
            return self.emit(f"fneg {kind} {args[0]}")
        if op in ("abs", "copysign"):
            return self.call("fabs" if op == "abs" else op, dtype, args)
        if op in _INTRINSIC:
            return self.call(_INTRINSIC[op], dtype, args)
        if op == "fma":
            if v.args[2].op == "const" and self.lanes == self.spilled_lanes:
                args = [*args[:2], self.spilled_constant(v.args[2])]
            return self.call("fma", dtype, args)
        if op in ("min", "max"):
            return self.extreme(v, args)
        raise TypeError(f"cannot render {op} of {dtype}")

    # --- statements -------------------------------------------------------------------------------

    def follow(self, s: Any, after: Any) -> bool:
        """Whether two statements write the even and the odd elements of the same memory."""
        if self.lanes == 1 or self.mask is not None or not isinstance(after, Store):
            return False
        if not isinstance(s, Store) or s.offset is not None or after.offset is not None:
            return False
        if s.buffer != after.buffer or s.value.dtype in MEMORY:
            return False
        beside = s.at.plus(Affine(1)) == after.at
        if not beside or self.far(s.at):
            return False
        return self.pattern(s.at) == list(range(0, 2 * self.lanes, 2))

    def store_both(self, s: Store, after: Store) -> None:
        """Elements of two statements, in turns."""
        even, odd = self.value(s.value), self.value(after.value)
        dtype, lanes = s.value.dtype, self.lanes
        order = [i // 2 + lanes * (i % 2) for i in range(2 * lanes)]
        both = self.shuffle(self.type_of(dtype), even, odd, [*order])
        base = self.address(s.buffer, self.offset(s.at))
        wide = f"<{2 * lanes} x {memory_type(dtype)}>"
        self.line(f"store {wide} {both}, ptr {base}, align {dtype.itemsize}")

    def any_lane(self, holds: str) -> str:
        """Whether a condition holds in some lane."""
        if self.lanes == 1:
            return holds
        name = f"@llvm.vector.reduce.or.v{self.lanes}i1"
        self.declared[name] = f"declare i1 {name}(<{self.lanes} x i1>)"
        return self.emit(f"call i1 {name}(<{self.lanes} x i1> {holds})")

    def mark(self, s: Store) -> None:
        """Write a boolean if its condition holds in some lane: threads write the same to it."""
        holds = self.value(s.value)
        if self.mask is not None:
            holds = self.emit(f"and {self.type_of(BOOL)} {self.mask}, {holds}")
        tag = self.fresh("m")[1:]
        base = self.address(s.buffer, self.offset(s.at))
        self.line(f"br i1 {self.any_lane(holds)}, label %{tag}note, label %{tag}go")
        self.label(f"{tag}note")
        self.line(f"store i8 {int(bool(s.marks))}, ptr {base}, align 1")
        self.line(f"br label %{tag}go")
        self.label(f"{tag}go")

    def store(self, s: Store) -> None:
        if s.marks is not None:
            self.mark(s)
            return
        dtype = self.kernel.buffers[s.buffer].dtype
        name = self.value(s.value)
        base = self.address(s.buffer, self.offset(s.at))
        kind = memory_type(dtype)
        distances = None
        if s.offset is not None:
            base, distances = self.moved(base, kind, s.offset, self.value(s.offset))
        if dtype in MEMORY:
            rule = "zext" if dtype == BOOL else "bitcast"
            bits = self.type_of(MEMORY[dtype])
            name = self.emit(f"{rule} {self.type_of(dtype)} {name} to {bits}")
        if self.lanes == 1:
            self.line(f"store {kind} {name}, ptr {base}, align {dtype.itemsize}")
            return
        vector = f"<{self.lanes} x {kind}>"
        if distances:
            where = self.spread(base, dtype, self.sum_of(distances, s.at))
            self.masked("scatter", where, dtype, name)
        elif not self.far(s.at) and self.pattern(s.at) == list(range(self.lanes)):
            if self.mask is not None:
                self.masked("store", base, dtype, name)
            else:
                self.line(f"store {vector} {name}, ptr {base}, align {dtype.itemsize}")
        elif self.mask is not None:
            self.masked("scatter", self.spread(base, dtype, self.distances(s.at)), dtype, name)
        else:
            pattern, bases = self.places(base, kind, s.at)
            for i, (key, distance) in enumerate(pattern):
                one = self.emit(f"extractelement {vector} {name}, i64 {i}")
                at = self.emit(f"getelementptr {kind}, ptr {bases[key]}, i64 {distance}")
                self.line(f"store {kind} {one}, ptr {at}, align {dtype.itemsize}")


def without(index: Affine, axis: str) -> Affine:
    """An index at the beginning of an axis."""
    return Affine(index.const, tuple([term for term in index.terms if term[0] != axis]))


def _vector(numbers: list[int]) -> str:
    return "<" + ", ".join(f"i64 {n}" for n in numbers) + ">"


def _windows(pattern: list[int], most: int = 0) -> list[tuple[int, int]]:
    """Stretches of memory, each no longer than a vector, that hold all elements of a pattern."""
    found = []
    offsets = sorted(set(pattern))
    most, low = most or len(pattern), offsets[0]
    while offsets:
        inside = [o for o in offsets if o < offsets[0] + most]
        size = inside[-1] - inside[0] + 1
        # a length that registers have, where memory before it may be read
        size = max(size, min(1 << (size - 1).bit_length(), inside[-1] - low + 1, most))
        found.append((inside[-1] - size + 1, size))
        offsets = offsets[len(inside) :]
    return found
