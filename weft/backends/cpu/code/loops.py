"""Loops of a kernel as LLVM text: vectors over the innermost axis, the last one masked."""

from __future__ import annotations

from collections import Counter
from math import gcd
from typing import Any

import numpy as np

from weft.backends.cpu.code import blocks
from weft.backends.cpu.code.width import (
    has_many_constants,
    lanes_of,
    latency_bound,
    masks,
    masks_last,
    native,
    side_by_side,
    writes_only,
)
from weft.backends.llvm.code import Module
from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.text.instructions import TooLong, scalar_type
from weft.backends.llvm.text.loops import carry, combine, scalar_loop
from weft.backends.llvm.text.rare import rare
from weft.backends.llvm.text.render import Function
from weft.backends.llvm.text.sizes import Sizes
from weft.base.sizes import Size, plain
from weft.compiler.passes.rewrite import roots
from weft.kernel.kernel import Kernel, Loop, Reduce, Store, statements
from weft.kernel.nodes import F32, F64, Value, walk

# Integers as wide as floats.
_WORDS = {F32: "i32", F64: "i64"}
# Vectors that iterations of a short loop may be put side by side in.
_MAX_UNROLLED_VECTORS = 8
# Bytes of a cache line.
LINE = 64
# Lines that a kernel may be unrolled to; operations of a loop from which vectors pay in it, and
# elements that are too few for one, whatever is done with them.
MAX_UNROLLED_LINES, MIN_VECTOR_OPS, MIN_VECTOR_ELEMENTS = 1000, 48, 4
_LEAVES = frozenset(["const", "index", "acc"])
# Lanes of vectors that are worth a loop of their own for what wider ones leave.
_MIN_REMAINDER_LANES = 4


def render(kernel: Kernel, width: int = 0, chunk: int = 0) -> Module:
    """The module of a kernel, with vectors of at most ``width`` lanes; 0 is no limit.

    All calls are for whole chunks of the grid, but for the last; 0 is for any range.
    """
    f = Function(kernel, width)
    if chunk:
        f.extent, f.pieces = ranges(kernel, chunk)
    return _module(f)


def ranges(kernel: Kernel, chunk: int) -> tuple[int, int]:
    """The extent of the grid, or 0 where it is in chunks, and what the ends of all ranges are
    multiples of."""
    if kernel.grid is None:
        return 0, 1
    extent = kernel.grid[1]
    return (0, gcd(extent, chunk)) if chunk < extent else (extent, extent)


def render_sized(kernel: Kernel) -> tuple[Module, list[Size]]:
    """The module of a kernel that reads its named sizes from a table, which is its last buffer;
    and these."""
    f = Function(kernel)
    f.table = f.sizes = Sizes(kernel)
    return _module(f), f.table.numbers


def render_unified(kernel: Kernel, extent: int, pieces: int) -> tuple[Module, list[Size]]:
    """The same for a kernel of which only few instances are wanted, as good as code for each: what
    it assumes of sizes is recorded.

    ``extent`` is that of the grid where it is to be known, or 0, and the ends of all ranges of the
    grid are multiples of ``pieces``.
    """
    f = Function(kernel)
    f.table, f.extent, f.pieces = Sizes(kernel), extent, pieces
    return _module(f), f.table.numbers


def render_unrolled(kernel: Kernel) -> Module | None:
    """The module of a kernel without loops, or None where that would be long: for loops of
    programs that become one function.

    Every place in memory is a constant then, so that LLVM keeps what one kernel hands to the next
    in registers.
    """
    body = kernel.body if kernel.grid is None else [Loop(*kernel.grid, kernel.body)]
    if kernel.axes or any(isinstance(s, Loop) and s.whole for s in statements(body)):
        return None
    f = Function(kernel)
    f.unrolled = MAX_UNROLLED_LINES
    f.begin()
    try:
        block(f, body)
    except TooLong:
        return None
    return f.module()


def _vectors_pay(s: Loop) -> bool:
    """Whether there is enough to do along a loop that is written out for vectors, and elements are
    not all over memory."""
    apart = any(v.op == "load" and v.args and s.axis in v.args[0].axes for v in walk(roots(s.body)))
    many = s.extent >= MIN_VECTOR_ELEMENTS and s.extent * _work(s.body) >= MIN_VECTOR_OPS
    return many and not apart


def _has_rows_in_lanes(s: Loop) -> bool:
    """Whether a loop that is written out is around others whose rows are done side by side, as
    they follow each other in memory."""
    inner = [x for x in s.body if isinstance(x, Loop)]
    if not inner or s.carries or any(x.lanes for x in inner):
        return False
    return _easily_masked(s) and _vectors_pay(s)


def _work(body: list[Any]) -> int:
    """Operations of statements, those of loops as often as they run."""
    inner = [x for x in body if isinstance(x, Loop)]
    values = walk([v for x in body if not isinstance(x, Loop) for v in x.operands])
    own = len(body) - len(inner) + sum(v.op not in _LEAVES for v in values)
    return own + sum(x.extent * _work(x.body) for x in inner)


def _module(f: Function) -> Module:
    kernel = f.kernel
    f.begin()
    if kernel.grid is None:
        block(f, kernel.body)
    elif kernel.axes:
        outer_loop(f, Loop(kernel.grid[0], kernel.grid[1], kernel.body), "%start", "%stop")
    else:
        loop(f, Loop(kernel.grid[0], kernel.grid[1], kernel.body), "%start", "%stop")
    return f.module()


def block(f: Function, body: list[Any]) -> None:
    """Statements one after the other; a reduction here is a single value."""
    for s in body:
        if isinstance(s, Loop):
            loop(f, s, "0", end(f, s))
        elif isinstance(s, Store):
            f.store(s)
        else:
            value, so_far = f.value(s.value), f.carried.get(s.symbol)
            if so_far is not None:
                value = combine(f, s.op, s.dtype, so_far, value)
            f.accumulators[s.symbol] = value


def end(f: Function, s: Loop) -> str:
    """Where a loop that starts at 0 stops: earlier in the last piece of a longer axis."""
    if s.whole is None:
        return f.size(s.extent)
    outer, total = s.whole
    known = f.sizes is None or (type(total) is not Size and type(s.extent) is not Size)
    extent = f.size(s.extent)
    if known and total % s.extent == 0:
        return extent
    before = f.emit(f"mul i64 {f.axes[outer]}, {extent}")
    left = f.emit(f"sub i64 {f.size(total)}, {before}")
    less = f.emit(f"icmp slt i64 {left}, {extent}")
    return f.emit(f"select i1 {less}, i64 {left}, i64 {extent}")


def loop(f: Function, s: Loop, low: str, high: str) -> None:
    if s.lanes or (f.unrolled and not f.in_lanes and _has_rows_in_lanes(s)):
        lanes_loop(f, s, low, high)
    elif f.in_lanes or not any(isinstance(inner, Loop) for inner in s.body):
        write = outer_loop if f.in_lanes else _unrolled_loop if f.unrolled else inner_loop
        write(f, s, low, high)
    elif blocks.turns(s):
        blocks.copy(f, s, low, high, end(f, s.body[0]))
    elif _fills(f, s):
        short_loop(f, s, low, high)
    else:
        outer_loop(f, s, low, high)


def _several(inner: Loop) -> int:
    """How many short rows fill a vector."""
    lanes = min(native(x.value) for x in inner.body)
    return lanes // gcd(inner.extent, lanes)


def _fills(f: Function, s: Loop) -> bool:
    """Whether a loop has short rows that follow each other, enough of them for a vector."""
    return _is_short(f, s) and plain(s.extent) >= _several(s.body[0])


def _is_short(f: Function, s: Loop) -> bool:
    """Whether iterations of a loop follow each other in memory, each too short for vectors."""
    (inner, *others) = s.body
    if others or not isinstance(inner, Loop) or inner.whole is not None:
        return False
    if not all(isinstance(x, Store) for x in inner.body):
        return False
    m = inner.extent
    lanes = min(native(x.value) for x in inner.body)
    if (type(m) is Size and f.sizes is not None) or not 0 < m < 2 * lanes:
        return False
    if m // gcd(m, lanes) > _MAX_UNROLLED_VECTORS:
        return False
    if not side_by_side(s, inner, lanes // gcd(m, lanes) * m):
        return False
    written = [x for x in inner.body if x.marks is None]
    return all(x.at.coefficient(inner.axis) == 1 for x in written) and all(
        x.at.coefficient(s.axis) == m for x in written
    )


def short_loop(f: Function, s: Loop, low: str, high: str) -> None:
    """Several iterations of the outer axis in one vector, which they fill."""
    (inner,) = s.body
    m, several = inner.extent, _several(inner)
    f.axes[inner.axis] = "0"
    steps = {s.axis: tuple(i // m for i in range(several * m))}
    steps[inner.axis] = tuple(i % m for i in range(several * m))
    flat = s._replace(body=inner.body)
    if _whole(f, low, high, several):
        _run(f, flat, steps, {}, low, high, several, False)
        return
    middle = f.whole_part(low, high, several)
    _run(f, flat, steps, {}, low, middle, several, False)
    known = None if masks_last(inner.body) else _extent(f, low, high)
    if known is not None and known <= _MAX_UNROLLED_VECTORS * several:  # those that are left count
        rest = known % several
        steps = {axis: lanes[: rest * m] for axis, lanes in steps.items()}
        _run(f, flat, steps, {}, middle, high, rest, False)
        return
    f.single_lanes = True
    outer_loop(f, s, middle, high)
    f.single_lanes = False


def _whole(f: Function, low: str, high: str, step: int) -> bool:
    """Whether steps of that many end where the range does."""
    known = f.length(low, high)
    if known is not None:
        return known % step == 0
    pieces = f.pieces if (low, high) == ("%start", "%stop") else f.exact
    return pieces % step == 0


def _extent(f: Function, low: str, high: str) -> int | Size | None:
    """How long a range is, where that is known."""
    known = f.length(low, high)
    if known is not None:
        return known
    return f.extent or None if (low, high) == ("%start", "%stop") else None


def masked(f: Function, index: str, high: str) -> str:
    """The lanes before the end."""
    left = f.emit(f"sub i64 {high}, {index}")
    # counted in 32 bits, which take half the registers; more than all lanes are all lanes
    left = f.scalar_min(left, 1 << 30)
    count = f.emit(f"trunc i64 {left} to i32")
    limit = f.splat(np.dtype(np.int32), count)
    order = ", ".join(f"i32 {i}" for i in range(f.lanes))
    return f.emit(f"icmp slt <{f.lanes} x i32> <{order}>, {limit}")


def lanes_loop(f: Function, s: Loop, low: str, high: str) -> None:
    """Iterations side by side, each running the loops inside; the last ones masked."""
    width = lanes_of(s, f.width, f.sizes)
    if f.unrolled:
        width = min(width, 1 << (s.extent.bit_length() - 1))
    plain = s._replace(lanes=False, carries=())
    whole = _whole(f, low, high, width)
    middle = high if whole else f.whole_part(low, high, width)
    f.in_lanes, f.lanes, f.steps = True, width, {s.axis: tuple(range(width))}
    outer_loop(f, plain, low, middle, width)
    if not whole:
        if not f.unrolled and masks_last(s.body) and _easily_masked(s):
            outer_loop(f, plain, middle, high, width, mask=True)
        else:
            rest = s.extent % width if f.unrolled else 1
            f.lanes, f.steps = rest, {s.axis: tuple(range(rest))} if rest > 1 else {}
            outer_loop(f, plain, middle, high, rest)
    f.lanes, f.steps, f.in_lanes, f.mask = 1, {}, False, None


def _opened(f: Function, s: Loop) -> dict[int, int]:
    """Reductions that go through this loop into vectors inside, and their lanes."""
    if f.in_lanes or not s.carries or set(s.carries) & set(f.wide):
        return {}
    inner = s
    while len(inner.body) == 1 and isinstance(inner.body[0], Loop):
        inner = inner.body[0]
    if any(isinstance(x, Loop) for x in inner.body):
        return {}
    width = lanes_of(inner, f.width, f.sizes)
    return dict.fromkeys(s.carries, width)


def outer_loop(
    f: Function, s: Loop, low: str, high: str, step: int = 1, mask: bool = False
) -> None:
    """A scalar loop around other loops; its carried reductions go through it."""
    if f.in_lanes and f.sizes is not None and s.axis not in f.steps:
        _hoist_lanes(f, s)
    opened = _opened(f, s) if not f.unrolled else {}
    f.wide.update(opened)

    def write(f: Function, body: list[Any]) -> None:
        if mask:
            f.mask = masked(f, f.axes[s.axis], high)
        block(f, body)

    scalar_loop(f, s, low, high, write, step)
    for symbol, lanes in opened.items():
        del f.wide[symbol]
        f.accumulators[symbol] = _horizontal(
            f, f.reduces[symbol], f.accumulators[symbol], lanes, f.start_of(symbol)
        )


def _unrolled_loop(f: Function, s: Loop, start: str, stop: str) -> None:
    """Vectors without a loop, of fewer and fewer lanes towards the end."""
    reduces = [r for r in s.body if isinstance(r, Reduce)]
    so_far = {r.symbol: f.start_of(r.symbol) for r in reduces}
    low, high, lanes = int(start), int(stop), lanes_of(s, f.width) if _vectors_pay(s) else 1
    while low < high:
        while lanes > high - low:
            lanes //= 2
        middle = high - (high - low) % lanes
        steps = {s.axis: tuple(range(lanes))} if lanes > 1 else {}
        for symbol, vector in _run(f, s, steps, {}, str(low), str(middle), lanes, False).items():
            so_far[symbol] = _horizontal(f, f.reduces[symbol], vector, lanes, so_far[symbol])
        low = middle
    f.accumulators.update(so_far)


def inner_loop(f: Function, s: Loop, low: str, high: str) -> None:
    """Whole vectors, then one of which only some lanes count or that has fewer, or single
    elements."""
    reduces = [r for r in s.body if isinstance(r, Reduce)]
    width = f.wide.get(reduces[0].symbol, 0) if reduces else 0
    width = width or lanes_of(s, f.width, f.sizes)
    known = _extent(f, low, high)
    starts = {}
    for r in reduces:
        carried = f.wide.get(r.symbol) is not None
        starts[r.symbol] = f.start_of(r.symbol) if carried else f.initial(r.symbol, width)
    steps = {s.axis: tuple(range(width))}
    cut = masks_last(s.body) and _easily_masked(s)
    f.spilled_lanes = width if latency_bound(s, f.sizes) else 0
    if f.single_lanes or width == 1:
        finals = _run(f, s, {}, starts, low, high, 1, False)
    elif cut and (masks(s.body) or (known is not None and known < width)):
        finals = _run(f, s, steps, starts, low, high, width, True)
    elif _whole(f, low, high, width):
        finals = _run(f, s, steps, starts, low, high, width, False)
    elif known is not None and not cut and not reduces and _easily_masked(s):
        # what is left is a vector of just so many lanes, which LLVM makes of whole registers
        rest = known % width
        last = low if rest == known else f.whole_part(low, high, width)
        if rest < known:
            _run(f, s, steps, {}, low, last, width, False)
        finals = _run(f, s, {s.axis: tuple(range(rest))}, {}, last, high, rest, False)
    else:
        if cut and _written_askew(f, s, width):
            few = LINE // f.kernel.buffers[s.body[0].buffer].dtype.itemsize
            first = _next_line(f, s, low, high)
            _run(f, s, {s.axis: tuple(range(few))}, {}, low, first, few, True)
            low = first
        middle = f.whole_part(low, high, width)
        finals = _run(f, s, steps, starts, low, middle, width, False)
        if cut and not reduces:  # by single registers: less text than all of them at once
            few = min(width, *(native(v) for x in s.body for v in x.operands))
            _run(f, s, {s.axis: tuple(range(few))}, {}, middle, high, few, True)
        elif cut:
            finals = _run(f, s, steps, finals, middle, high, width, True)
        else:
            if not reduces and width >= 4 * _MIN_REMAINDER_LANES and writes_only(s.body):
                # what is left of wide vectors by narrow ones first
                last = f.whole_part(middle, high, width // 4)
                few = {s.axis: tuple(range(width // 4))}
                _run(f, s, few, {}, middle, last, width // 4, False)
                middle = last
            finals = _singles(f, s, reduces, finals, middle, high, width)
    f.spilled_lanes = 0
    for r in reduces:
        final = finals[r.symbol]
        if r.symbol not in f.wide:
            final = _horizontal(f, r, final, width, f.start_of(r.symbol))
        f.accumulators[r.symbol] = final


def _written_askew(f: Function, s: Loop, width: int) -> bool:
    """Whether a long loop does little but write rows that do not begin where cache lines do.

    A vector that lies in two lines takes twice as long to write.
    """
    store, buffers = s.body[0], f.kernel.buffers
    if not all(isinstance(x, Store) and x.offset is None and x.marks is None for x in s.body):
        return False
    size = buffers[store.buffer].dtype.itemsize
    if any(x.at != store.at or buffers[x.buffer].dtype.itemsize != size for x in s.body):
        return False
    rows = [size * n % LINE for axis, n in store.at.terms if axis != s.axis]
    long = plain(s.extent) >= 4 * width and vector_bits() == 8 * LINE
    return long and any(rows) and writes_only(s.body)


def _next_line(f: Function, s: Loop, low: str, high: str) -> str:
    """The first iteration, or the end, that writes from the beginning of a cache line on."""
    store, known = s.body[0], f.known
    f.known, f.axes[s.axis] = dict(known), low
    place = f.emit(f"ptrtoint ptr {f.address(store.buffer, f.offset(store.at))} to i64")
    f.known = known
    ahead = f.emit(f"and i64 {f.emit(f'sub i64 0, {place}')}, {LINE - 1}")
    size = f.kernel.buffers[store.buffer].dtype.itemsize
    first = f.emit(f"add i64 {low}, {f.emit(f'udiv i64 {ahead}, {size}')}")
    less = f.emit(f"icmp slt i64 {first}, {high}")
    return f.emit(f"select i1 {less}, i64 {first}, i64 {high}")


def _singles(
    f: Function,
    s: Loop,
    reduces: list[Reduce],
    so_far: dict[int, str],
    low: str,
    high: str,
    lanes: int,
) -> dict[int, str]:
    """Elements one by one; what they reduce to joins the first lane of what there is."""
    starts = {r.symbol: f.initial(r.symbol, 1) for r in reduces}
    totals = _run(f, s, {}, starts, low, high, 1, False)
    finals = {}
    for r in reduces:
        base, neutral = scalar_type(r.dtype), f.initial(r.symbol, lanes)
        total = f"{base} {totals[r.symbol]}, i64 0"
        vector = f.emit(f"insertelement <{lanes} x {base}> {neutral}, {total}")
        f.lanes = lanes
        finals[r.symbol] = combine(f, r.op, r.dtype, so_far[r.symbol], vector)
        f.lanes = 1
    return finals


def _easily_masked(s: Loop) -> bool:
    """Whether the memory that lanes touch is in one stretch, which a mask can cut short."""
    for x in statements(s.body):
        if isinstance(x, Store) and x.marks is None:
            if x.at.coefficient(s.axis) != 1 or (x.offset is not None and s.axis in x.offset.axes):
                return False
    for v in walk(roots(s.body)):
        if v.op == "load" and v.attr[1].coefficient(s.axis) not in (0, 1):
            return False
        if v.op == "load" and v.args and s.axis in v.args[0].axes:
            return False
    return True


def _run(
    f: Function,
    s: Loop,
    steps: dict[str, tuple[int, ...]],
    starts: dict[int, str],
    low: str,
    high: str,
    step: int,
    mask: bool,
) -> dict[int, str]:
    """One loop of vectors; accumulators in, accumulators out.

    ``steps`` say where the lanes are; those past the end may be masked.
    """
    reduces = [r for r in s.body if isinstance(r, Reduce)]
    extent = _extent(f, low, high)
    one_turn = extent is not None and 0 < extent <= step
    from_start = one_turn and low in ("0", "%start")
    outside, f.known = f.known, dict(f.known) if from_start else _without_kept(f.known)
    f.lanes, f.steps = len(next(iter(steps.values()), (0,))), steps
    operands = [v for x in s.body for v in x.operands]
    f.expect(rare(operands))
    _hoist(f, operands, s.axis)
    f.offsets_before([x.at for x in s.body if isinstance(x, Store)], s.axis)
    inside = f.known

    def turn(index: str, so_far: list[str]) -> list[str]:
        f.known, f.axes[s.axis] = dict(inside), index
        if mask:
            f.mask = masked(f, index, high)
        load_first(f, s.body)
        before, found = iter(so_far), []
        rest = list(s.body)
        while rest:
            statement = rest.pop(0)
            if rest and f.follow(statement, rest[0]):
                f.store_both(statement, rest.pop(0))
            elif isinstance(statement, Store):
                f.store(statement)
            else:
                found.append(_accumulated(f, statement, next(before, "")))
        f.mask = None
        return found

    if one_turn:
        finals = turn(low, [*starts.values()])
        if from_start:
            outside.update(_kept(f, s.body))
    else:
        carried = [(f.type_of(r.dtype), starts.get(r.symbol, "")) for r in reduces]
        if not f.unrolled and f.length(low, high) is not None and has_many_constants(s.body):
            # Before a loop that is tested for, LLVM hoists all constants and spills some to the
            # stack; before another it leaves those that find no register to every iteration.
            high = f.emit(f"add i64 {high}, 0")
        finals = carry(f, reduces, low, high, carried, turn, step)
    f.lanes, f.steps, f.known = 1, {}, outside
    f.expect([])
    return {r.symbol: final for r, final in zip(reduces, finals, strict=True)}


def _kept(f: Function, body: list[Any]) -> dict[Any, str]:
    """What a single vector has written to buffers of its row, for those who read it there."""
    times = Counter(s.buffer for s in statements(f.kernel.body) if isinstance(s, Store))
    return {
        (("row", s.buffer, s.at), f.lanes): f.known[s.value.number, f.lanes]
        for s in body
        if isinstance(s, Store)
        and f.kernel.buffers[s.buffer].role == "row"
        and times[s.buffer] == 1
    }


def _without_kept(known: dict[Any, str]) -> dict[Any, str]:
    """What is known but for ``_kept``: that is of a row's first vector, and of no other."""
    kept = lambda key: isinstance(key[0], tuple) and key[0][0] == "row"
    return {key: name for key, name in known.items() if not kept(key)}


def load_first(f: Function, body: list[Any]) -> None:
    """Read before anything is written: a result may take the place of an operand."""
    if sum(isinstance(s, Store) for s in body) > 1:
        for v in walk([v for s in body for v in s.operands]):
            if v.op == "load" and v.number not in f.inside:
                f.value(v)


def _accumulated(f: Function, r: Reduce, so_far: str) -> str:
    kind = f.type_of(r.dtype)
    value = f.value(r.value)
    if f.mask is not None:
        neutral = f.initial(r.symbol, f.lanes)
        value = f.emit(f"select <{f.lanes} x i1> {f.mask}, {kind} {value}, {kind} {neutral}")
    return combine(f, r.op, r.dtype, so_far, value) if so_far else value


def _horizontal(f: Function, r: Reduce, vector: str, lanes: int, start: str) -> str:
    """The lanes of an accumulator combined by halves, then with the start value."""
    if r.op in ("min", "max") and r.dtype in _WORDS and lanes >= 4 and vector_bits() > 128:
        name = _extreme(f, r, vector, lanes)
        return name if start == f.initial(r.symbol, 1) else combine(f, r.op, r.dtype, start, name)
    base = scalar_type(r.dtype)
    name, width = vector, lanes
    while width > 1:
        half = width // 2
        kind = f"<{width} x {base}>"
        if half == 1:
            a = f.emit(f"extractelement {kind} {name}, i64 0")
            b = f.emit(f"extractelement {kind} {name}, i64 1")
        else:
            a = f.shuffle(kind, name, "poison", list(range(half)))
            b = f.shuffle(kind, name, "poison", list(range(half, width)))
        f.lanes = half
        name = combine(f, r.op, r.dtype, a, b)
        width = half
    f.lanes = 1
    return combine(f, r.op, r.dtype, start, name)


def _extreme(f: Function, r: Reduce, vector: str, lanes: int) -> str:
    """The least or the greatest lane as that of integers in the same order, NaN if one is NaN.

    What takes one instruction for integers takes six for floats where NaN and the sign of zero
    have to be looked after, and here each waits for the one before.
    """
    base, word, bits = scalar_type(r.dtype), _WORDS[r.dtype], 8 * r.dtype.itemsize
    flags = f.emit(f"fcmp uno <{lanes} x {base}> {vector}, {vector}")
    name = f"@llvm.vector.reduce.or.v{lanes}i1"
    f.declared[name] = f"declare i1 {name}(<{lanes} x i1>)"
    odd = f.emit(f"call i1 {name}(<{lanes} x i1> {flags})")

    def turned(x: str) -> str:
        """Negative numbers in the order of integers, and back."""
        kind = f"<{f.lanes} x {word}>"
        sign = f.emit(f"ashr {kind} {x}, splat ({word} {bits - 1})")
        rest = f.emit(f"and {kind} {sign}, splat ({word} {(1 << (bits - 1)) - 1})")
        return f.emit(f"xor {kind} {x}, {rest}")

    f.lanes = lanes
    found = turned(f.emit(f"bitcast <{lanes} x {base}> {vector} to <{lanes} x {word}>"))
    while f.lanes > 1:
        kind, half = f"<{f.lanes} x {word}>", max(2, f.lanes // 2)
        first = found if f.lanes == 2 else f.shuffle(kind, found, "poison", [*range(half)])
        order = [1, 0] if f.lanes == 2 else [*range(half, 2 * half)]
        second = f.shuffle(kind, found, "poison", [*order])
        last, f.lanes = f.lanes == 2, half
        found = f.call(f"s{r.op}", np.dtype(f"int{bits}"), [first, second])
        if last:
            break
    found = f.emit(f"bitcast <2 x {word}> {turned(found)} to <2 x {base}>")
    f.lanes = 1
    found = f.emit(f"extractelement <2 x {base}> {found}, i64 0")
    nan = f.constant_scalar(r.dtype, np.nan)
    return f.emit(f"select i1 {odd}, {base} {nan}, {base} {found}")


def _hoist_lanes(f: Function, s: Loop) -> None:
    """Render what does not depend on the axis of a loop inside of vectors: LLVM does not know that
    what is read, as sizes and numbers of the program are, stays the same."""
    if any(isinstance(x, Loop) for x in s.body):
        return
    values = walk([v for x in s.body for v in x.operands])
    own = {x.symbol for x in s.body if isinstance(x, Reduce)}
    if not any(v.op == "acc" and v.attr in own for v in values):
        for v in values:
            if s.axis not in v.axes:
                f.single(v)


def _hoist(f: Function, roots: list[Value], axis: str) -> None:
    """Render what does not depend on the axis before the loop."""
    values = walk(roots)
    for v in values:
        if axis not in v.axes and v.number not in f.inside:
            f.scalar(v) if f.sizes is not None and f.is_odd(v) else f.value(v)
    f.offsets_before([v.attr[1] for v in values if v.op == "load"], axis)
