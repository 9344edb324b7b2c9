"""Stacks of small real matrices, one a lane: elimination on as many at a time as vectors hold.

LAPACK takes longer to be called than to do such a matrix.
"""

from __future__ import annotations

from weft.backends.cpu.routines.fourier.fft_text import Lanes
from weft.backends.cpu.routines.squares import square
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.backends.llvm.native import processor
from weft.base.sizes import plain
from weft.kernel.program import Lowered, Place, Task, Type

NAME = "small"
# Bytes of one piece of work, and the most that the matrices of all lanes may take on the stack.
CHUNK_BYTES, MEMORY = 1 << 15, 1 << 17
# Sides of matrices up to which code for any number of them is for one size: it has few loops then.
MAX_SPECIALISED_SIDE = 8


def fits(kind: Type, count: int, elements: int) -> bool:
    """Whether there are as many matrices as lanes, and all of their elements fit."""
    if kind.dtype.name not in ("float32", "float64"):
        return False
    v = Lanes(kind.dtype.itemsize, processor.vector_bits())
    return count >= v.count and elements * v.bytes <= MEMORY


def settled_all(*kinds: Type) -> list[Type]:
    """Types of stacks; those of tiny matrices with numbers for their sides, whatever they are."""
    sides = [n for kind in kinds for n in kind.shape[-2:]]
    if max(sides) > MAX_SPECIALISED_SIDE:
        return list(kinds)
    return [k._replace(shape=(*k.shape[:-2], *map(int, k.shape[-2:]))) for k in kinds]


def settled(kind: Type) -> Type:
    return settled_all(kind)[0]


class Small:
    """A kernel over groups of matrices; arrays of all lanes are split element by element.

    It does for any number of matrices, and for any size of those with a longest side that is not
    tiny.
    """

    def __init__(self, kind: Type, count: int, longest: int = 0) -> None:
        self.v = Lanes(kind.dtype.itemsize, processor.vector_bits())
        self.count = count
        self.module = Module()
        self.f = kernel(self.module, NAME)
        self.places: list[Place] = []
        self.elements = 0
        self.reads = max(*kind.shape[-2:], longest) > MAX_SPECIALISED_SIDE
        self.limit: Number = count - self.v.count
        if not self.reads:
            table = self.pointer("numbers", (self.limit,))
            self.limit = "%sized.limit"  # a name which says that all is read that is to be read
            self.f.line(f"{self.limit} = load i64, ptr {table}, align 8")

    def pointer(self, kind: str, what: int | tuple[int, ...]) -> str:
        self.places.append(Place(kind, what))
        return self.f.pointer(len(self.places) - 1)

    def local(self, elements: int) -> str:
        """Memory for so many elements of all lanes, as many as a matrix has."""
        if not self.reads:
            return self.cells(elements)
        self.elements += elements
        return self.f.emit(f"alloca i8, i64 {elements * self.v.bytes}, align 64")

    def cells(self, elements: int) -> str:
        """The same where their number is no size."""
        self.elements += elements
        return self.f.local(elements * self.v.bytes)

    def apart(self, size: int) -> Number:
        """How far apart rows are: written once, if it is read."""
        return self.f.emit(f"add i64 {size}, 0") if self.reads else size

    def first(self, g: str) -> Number:
        """The first matrix of a group; the last group overlaps the one before."""
        return self.f.smaller(self.f.mul(g, self.v.count), self.limit)

    def lowered(self) -> Lowered:
        groups = -(-self.count // self.v.count)
        chunk = CHUNK_BYTES // plain(self.elements * self.v.bytes)
        chunk = max(1, min(plain(groups), chunk))
        self.f.close()
        task = Task(self.module.text(), NAME, tuple(self.places), groups, chunk)
        return Lowered([task], ())

    # --- moves ------------------------------------------------------------------------------------

    def load(self, base: str, first: Number, size: int, to: str) -> None:
        """The arrays of ``size`` numbers of all lanes."""
        v, f = self.v, self.f
        at = f.at(base, f.mul(first, size * v.itemsize))
        if size < v.count:
            with f.loop(0, v.count) as lane, f.loop(0, size) as i:
                spot = f.at(at, f.mul(f.add(f.mul(lane, size), i), v.itemsize))
                value = f.load(v.base, spot, v.itemsize)
                spot = f.at(to, f.mul(f.add(f.mul(i, v.count), lane), v.itemsize))
                f.store(v.base, value, spot, v.itemsize)
            return
        with f.loop(0, size, v.count) as i:
            column = f.smaller(i, size - v.count)
            spot = f.at(at, f.mul(column, v.itemsize))
            place = f.at(to, f.mul(column, v.bytes))
            square(f, v, spot, self.apart(size * v.itemsize), place, v.bytes)

    def store(self, at: str, size: int, base: str, first: Number) -> None:
        """The opposite of ``load``."""
        v, f = self.v, self.f
        to = f.at(base, f.mul(first, size * v.itemsize))
        if size < v.count:
            with f.loop(0, v.count) as lane, f.loop(0, size) as i:
                spot = f.at(at, f.mul(f.add(f.mul(i, v.count), lane), v.itemsize))
                value = f.load(v.base, spot, v.itemsize)
                spot = f.at(to, f.mul(f.add(f.mul(lane, size), i), v.itemsize))
                f.store(v.base, value, spot, v.itemsize)
            return
        with f.loop(0, size, v.count) as i:
            column = f.smaller(i, size - v.count)
            spot = f.at(at, f.mul(column, v.bytes))
            place = f.at(to, f.mul(column, v.itemsize))
            square(f, v, spot, v.bytes, place, self.apart(size * v.itemsize))

    # --- elements ---------------------------------------------------------------------------------

    def element(self, base: str, index: Number) -> str:
        if self.reads:
            return self.f.emit(f"getelementptr {self.v.kind}, ptr {base}, i64 {index}")
        return self.f.at(base, self.f.mul(index, self.v.bytes))

    def get(self, base: str, index: Number) -> str:
        return self.f.load(self.v.kind, self.element(base, index), self.v.itemsize)

    def put(self, base: str, index: Number, value: str) -> None:
        self.f.store(self.v.kind, value, self.element(base, index), self.v.itemsize)

    def minus_product(self, base: str, index: Number, a: str, b: str) -> None:
        """Subtract a product from an element."""
        v, f = self.v, self.f
        at = self.element(base, index)
        old = f.load(v.kind, at, v.itemsize)
        f.store(v.kind, v.fma(f, v.neg(f, a), b, old), at, v.itemsize)

    def op(self, name: str, a: str, b: str) -> str:
        return self.v.op(self.f, name, a, b)

    def compare(self, how: str, a: str, b: str) -> str:
        return self.f.emit(f"fcmp {how} {self.v.kind} {a}, {b}")

    def choose(self, mask: str, a: str, b: str) -> str:
        bits, kind = f"<{self.v.count} x i1>", self.v.kind
        return self.f.emit(f"select {bits} {mask}, {kind} {a}, {kind} {b}")

    def intrinsic(self, name: str, a: str) -> str:
        v = self.v
        full = self.f.declare(f"llvm.{name}.{v.suffix}", v.kind, v.kind)
        return self.f.emit(f"call {v.kind} {full}({v.kind} {a})")


def cholesky(kind: Type, count: int) -> Lowered:
    """Lower factors; a pivot that is not positive makes all of its matrix NaN."""
    n = kind.shape[-1]
    s = Small(kind, count)
    f, v = s.f, s.v
    source, target = s.pointer("in", 0), s.pointer("out", 0)
    a, state = s.local(n * n), s.cells(1)
    one, nan = v.splat(1.0), f"splat ({v.base} 0x7FF8000000000000)"
    with f.loop("%start", "%stop") as g:
        first = s.first(g)
        s.load(source, first, n * n, a)
        s.put(state, 0, "zeroinitializer")
        with f.loop(0, n) as k:
            pivot = s.get(a, f.mul(k, n + 1))
            good = s.compare("ogt", pivot, "zeroinitializer")
            s.put(state, 0, s.choose(good, s.get(state, 0), nan))
            root = s.intrinsic("sqrt", pivot)
            s.put(a, f.mul(k, n + 1), root)
            inverse = s.op("fdiv", one, root)
            after = f.add(k, 1)
            with f.loop(after, n) as i:
                place = f.add(f.mul(i, n), k)
                s.put(a, place, s.op("fmul", s.get(a, place), inverse))
            with f.loop(after, n) as j:
                factor = s.get(a, f.add(f.mul(j, n), k))
                with f.loop(j, n) as i:
                    s.minus_product(
                        a, f.add(f.mul(i, n), j), s.get(a, f.add(f.mul(i, n), k)), factor
                    )
        # NaN added to what is kept, zeros above it.
        fault = s.get(state, 0)
        with f.loop(0, n) as i:
            with f.loop(0, f.add(i, 1)) as j:
                place = f.add(f.mul(i, n), j)
                s.put(a, place, s.op("fadd", s.get(a, place), fault))
            with f.loop(f.add(i, 1), n) as j:
                s.put(a, f.add(f.mul(i, n), j), "zeroinitializer")
        s.store(a, n * n, target, first)
    return s.lowered()


def lu(kind: Type, count: int) -> Lowered:
    """Packed factors, the row swaps and the permutation, by elimination with row swaps."""
    m, n = kind.shape[-2:]
    k_max = min(m, n)
    s = Small(kind, count)
    f, v = s.f, s.v
    source = s.pointer("in", 0)
    targets = [s.pointer("out", i) for i in range(3)]
    a, chosen, best = s.local(m * n), s.cells(1), s.cells(1)
    whole = f"<{v.count} x i32>"
    zero, one = "zeroinitializer", v.splat(1.0)
    with f.loop("%start", "%stop") as g:
        first = s.first(g)
        s.load(source, first, m * n, a)
        pivots = f.at(targets[1], f.mul(first, 4 * k_max))
        with f.loop(0, k_max) as k:
            f.store(whole, _everywhere(s, k), chosen, 4)
            s.put(best, 0, s.intrinsic("fabs", s.get(a, f.mul(k, n + 1))))
            with f.loop(f.add(k, 1), m) as i:
                size = s.intrinsic("fabs", s.get(a, f.add(f.mul(i, n), k)))
                larger = s.compare("ogt", size, s.get(best, 0))
                s.put(best, 0, s.choose(larger, size, s.get(best, 0)))
                old = f.load(whole, chosen, 4)
                mine = _everywhere(s, i)
                bits = f"<{v.count} x i1>"
                new = f.emit(f"select {bits} {larger}, {whole} {mine}, {whole} {old}")
                f.store(whole, new, chosen, 4)
            with f.loop(0, v.count) as lane:
                which = f.load("i32", f.at(chosen, f.mul(lane, 4)), 4)
                at = f.at(pivots, f.mul(f.add(f.mul(lane, k_max), k), 4))
                f.store("i32", which, at, 4)
                row = f.emit(f"zext i32 {which} to i64")
                with f.when(f.emit(f"icmp ne i64 {row}, {k}")):
                    _swap(s, a, n, k, row, lane)
            pivot = s.get(a, f.mul(k, n + 1))
            usable = s.compare("une", pivot, zero)
            inverse = s.op("fdiv", one, s.choose(usable, pivot, one))
            with f.loop(f.add(k, 1), m) as i:
                place = f.add(f.mul(i, n), k)
                factor = s.op("fmul", s.get(a, place), inverse)
                s.put(a, place, factor)
                with f.loop(f.add(k, 1), n) as j:
                    s.minus_product(
                        a, f.add(f.mul(i, n), j), s.get(a, f.add(f.mul(k, n), j)), factor
                    )
        s.store(a, m * n, targets[0], first)
        order = f.at(targets[2], f.mul(first, 4 * m))
        with f.loop(0, v.count) as lane:
            mine = f.at(pivots, f.mul(lane, 4 * k_max))
            permutation(s.f, mine, f.at(order, f.mul(lane, 4 * m)), k_max, m)
    return s.lowered()


def _everywhere(s: Small, index: Number) -> str:
    """An index in every lane, as 32-bit integers."""
    f, kind = s.f, f"<{s.v.count} x i32>"
    narrow = f.emit(f"trunc i64 {index} to i32")
    first = f.emit(f"insertelement {kind} poison, i32 {narrow}, i64 0")
    return f.emit(f"shufflevector {kind} {first}, {kind} poison, {kind} zeroinitializer")


def _swap(s: Small, a: str, n: int, k: Number, row: Number, lane: Number) -> None:
    """Two rows of one lane's matrix change places."""
    f, v = s.f, s.v
    with f.loop(0, n) as j:
        spots = []
        for r in (k, row):
            index = f.add(f.mul(f.add(f.mul(r, n), j), v.count), lane)
            spots.append(f.at(a, f.mul(index, v.itemsize)))
        values = [f.load(v.base, spot, v.itemsize) for spot in spots]
        f.store(v.base, values[1], spots[0], v.itemsize)
        f.store(v.base, values[0], spots[1], v.itemsize)


def permutation(f: Function, pivots: str, order: str, count: int, size: int) -> None:
    """The order of rows that a sequence of swaps makes."""
    with f.loop(0, size) as i:
        f.store("i32", f.emit(f"trunc i64 {i} to i32"), f.at(order, f.mul(i, 4)), 4)
    with f.loop(0, count) as i:
        j = f.emit(f"sext i32 {f.load('i32', f.at(pivots, f.mul(i, 4)), 4)} to i64")
        spots = f.at(order, f.mul(i, 4)), f.at(order, f.mul(j, 4))
        values = [f.load("i32", spot, 4) for spot in spots]
        f.store("i32", values[1], spots[0], 4)
        f.store("i32", values[0], spots[1], 4)


def triangular_solve(
    a_type: Type,
    b_type: Type,
    count: int,
    left: bool,
    lower: bool,
    turned: bool,
    unit: bool,
) -> Lowered:
    """Solutions by substitution; a right side is a left side of transposed matrices."""
    n = a_type.shape[-1]
    m, k = b_type.shape[-2:]
    s = Small(a_type, count, max(m, k))
    f, v = s.f, s.v
    sources, target = [s.pointer("in", 0), s.pointer("in", 1)], s.pointer("out", 0)
    a, b = s.local(n * n), s.local(m * k)
    across = turned == left  # whether the matrix that is solved with is a's transpose
    row_step, column_step = (1, n) if across else (n, 1)
    forward = lower != across
    sides, side_step, b_step = (k, 1, k) if left else (m, k, 1)
    one = v.splat(1.0)
    with f.loop("%start", "%stop") as g:
        first = s.first(g)
        s.load(sources[0], first, n * n, a)
        s.load(sources[1], first, m * k, b)
        with f.loop(0, n) as t:
            j = t if forward else f.sub(n - 1, t)
            inverse = one if unit else s.op("fdiv", one, s.get(a, f.mul(j, n + 1)))
            with f.loop(0, sides) as c:
                place = f.add(f.mul(j, b_step), f.mul(c, side_step))
                x = s.get(b, place)
                if not unit:
                    x = s.op("fmul", x, inverse)
                    s.put(b, place, x)
                bounds = (f.add(j, 1), n) if forward else (0, j)
                with f.loop(*bounds) as i:
                    factor = s.get(a, f.add(f.mul(i, row_step), f.mul(j, column_step)))
                    s.minus_product(b, f.add(f.mul(i, b_step), f.mul(c, side_step)), factor, x)
        s.store(b, m * k, target, first)
    return s.lowered()


def qr(kind: Type, count: int, k: int) -> Lowered:
    """Q of k columns and R by reflections, with the signs that LAPACK chooses."""
    m, n = kind.shape[-2:]
    least = min(m, n)
    k = k if max(m, n) > MAX_SPECIALISED_SIDE else int(k)
    s = Small(kind, count)
    f = s.f
    source, targets = s.pointer("in", 0), [s.pointer("out", 0), s.pointer("out", 1)]
    a, q, r, taus = (s.local(size) for size in (m * n, m * k, k * n, least))
    total = s.cells(1)
    zero = "zeroinitializer"
    with f.loop("%start", "%stop") as g:
        first = s.first(g)
        s.load(source, first, m * n, a)
        with f.loop(0, least) as t:
            s.put(taus, t, _reflector(s, a, m, n, t, total))
            with f.loop(f.add(t, 1), n) as j:
                _reflect(s, (a, m, n, t), s.get(taus, t), (a, n, j), total)
        with f.loop(0, m * k) as i:
            s.put(q, i, zero)
        with f.loop(0, k) as i:
            s.put(q, f.mul(i, k + 1), s.v.splat(1.0))
        with f.loop(0, least) as back:
            t = f.sub(least - 1, back)
            with f.loop(t, k) as j:
                _reflect(s, (a, m, n, t), s.get(taus, t), (q, k, j), total)
        with f.loop(0, k) as i:
            with f.loop(0, f.smaller(i, n)) as j:
                s.put(r, f.add(f.mul(i, n), j), zero)
            with f.loop(i, n) as j:
                place = f.add(f.mul(i, n), j)
                s.put(r, place, s.get(a, place))
        s.store(q, m * k, targets[0], first)
        s.store(r, k * n, targets[1], first)
    return s.lowered()


def _reflector(s: Small, a: str, m: int, n: int, t: Number, total: str) -> str:
    """Turn column t below row t into a reflector; its factor.

    The length is measured in units of a power of two near the largest element, so that no square
    overflows or is lost.
    """
    f, v = s.f, s.v
    one, zero = v.splat(1.0), "zeroinitializer"
    corner, below = f.mul(t, n + 1), f.add(t, 1)
    alpha = s.get(a, corner)
    s.put(total, 0, s.intrinsic("fabs", alpha))
    with f.loop(below, m) as i:
        size = s.intrinsic("fabs", s.get(a, f.add(f.mul(i, n), t)))
        s.put(total, 0, s.choose(s.compare("ogt", size, s.get(total, 0)), size, s.get(total, 0)))
    unit, inverse_unit = power_of_two(s, s.get(total, 0))
    s.put(total, 0, zero)
    with f.loop(below, m) as i:
        x = s.op("fmul", s.get(a, f.add(f.mul(i, n), t)), inverse_unit)
        s.put(total, 0, v.fma(f, x, x, s.get(total, 0)))
    rest = s.get(total, 0)
    scaled = s.op("fmul", alpha, inverse_unit)
    length = s.intrinsic("sqrt", v.fma(f, scaled, scaled, rest))
    beta = v.neg(f, with_sign(s, s.op("fmul", length, unit), alpha))
    none = s.compare("oeq", rest, zero)
    safe = s.choose(none, one, beta)
    tau = s.op("fdiv", s.op("fsub", safe, alpha), safe)
    divisor = s.choose(none, one, s.op("fsub", alpha, beta))
    s.put(a, corner, s.choose(none, alpha, beta))
    with f.loop(below, m) as i:
        place = f.add(f.mul(i, n), t)
        s.put(a, place, s.choose(none, zero, s.op("fdiv", s.get(a, place), divisor)))
    return s.choose(none, zero, tau)


def power_of_two(s: Small, size: str) -> tuple[str, str]:
    """A power of two near a vector of sizes, and its inverse."""
    f, v = s.f, s.v
    bits, exponent = (32, 23) if v.itemsize == 4 else (64, 52)
    top = (1 << (bits - 1)) - (1 << exponent)  # the exponent of infinity
    one = 1 << exponent
    kind = f"<{v.count} x i{bits}>"
    held = f.emit(f"bitcast {v.kind} {size} to {kind}")
    held = f.emit(f"and {kind} {held}, splat (i{bits} {top})")
    for name, bound in (("umax", one), ("umin", top - 2 * one)):
        full = f.declare(f"llvm.{name}.v{v.count}i{bits}", kind, f"{kind}, {kind}")
        held = f.emit(f"call {kind} {full}({kind} {held}, {kind} splat (i{bits} {bound}))")
    other = f.emit(f"sub {kind} splat (i{bits} {top - one}), {held}")
    unit, inverse = (f.emit(f"bitcast {kind} {x} to {v.kind}") for x in (held, other))
    return unit, inverse


def with_sign(s: Small, size: str, sign: str) -> str:
    kind = s.v.kind
    name = s.f.declare(f"llvm.copysign.{s.v.suffix}", kind, f"{kind}, {kind}")
    return s.f.emit(f"call {kind} {name}({kind} {size}, {kind} {sign})")


def _reflect(
    s: Small,
    reflector: tuple[str, int, int, Number],
    tau: str,
    column: tuple[str, int, Number],
    total: str,
) -> None:
    """Reflect a column of a matrix: x -= tau v (v . x), where v has a 1 at its row t."""
    f, v = s.f, s.v
    a, m, n, t = reflector
    base, width, j = column
    corner, below = f.add(f.mul(t, width), j), f.add(t, 1)
    s.put(total, 0, s.get(base, corner))
    with f.loop(below, m) as i:
        x, y = s.get(a, f.add(f.mul(i, n), t)), s.get(base, f.add(f.mul(i, width), j))
        s.put(total, 0, v.fma(f, x, y, s.get(total, 0)))
    amount = s.op("fmul", s.get(total, 0), tau)
    s.put(base, corner, s.op("fsub", s.get(base, corner), amount))
    with f.loop(below, m) as i:
        s.minus_product(base, f.add(f.mul(i, width), j), s.get(a, f.add(f.mul(i, n), t)), amount)
