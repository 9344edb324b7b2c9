"""How a contraction is done: its tile, which operands are packed, and how its sum is split.

One function decides for products and convolutions, from named dimensions and what is known of the
processor. What was measured for it: docs/decisions/0007-products.md.
"""

from __future__ import annotations

from math import ceil, prod

from weft.backends.cpu.routines.contractions.tiles import (
    LINE,
    Forms,
    Role,
    Split,
    Tiling,
    balanced,
    choose,
    kernel_bytes,
)
from weft.backends.llvm.native.processor import has_by_element_fma, registers
from weft.base import knobs
from weft.base.record import Record
from weft.base.sizes import Size, is_one, is_writing, plain

# Bytes of an operand that stays in the first cache however it is read, and of what a core's second
# cache keeps.
L1_BYTES, L2_BYTES = 32 << 10, 1 << 19
# Depths up to which writing the result takes longer than computing it: in general, and for a large
# result whose rows are not whole lines of the cache.
SHALLOW_DEPTH, SHALLOW_UNALIGNED_DEPTH, LARGE_RESULT_BYTES = 16, 32, 1 << 20
# Reads of the right operand from which packing it pays: in general, where a panel is narrower than
# a cache line and the operand larger than the second cache, and of one of some bytes that is near.
MIN_READS, MIN_READS_FAR, MIN_READS_NEAR, MIN_NEAR_BYTES = 40, 8, 512, 1 << 13
# Bytes of a row up to which it is read in place where vectors are lines of the cache, and cycles
# that a copy takes for an element, in terms of what is computed.
MAX_ROW_IN_PLACE, COPY_CYCLES = 512, 0.05
# Columns from which packing rows pays that are in pages of their own.
MIN_PACKED_COLUMNS, PAGE_BYTES = 512, 1 << 12
# Bytes up to which an operand is packed that need not be.
MAX_PACKED_BYTES = 1 << 26
# Sizes of a tile that is in a text for many shapes: few of them, and its vectors.
HEIGHTS, VECTORS = (12, 8, 6, 4, 2, 1), (1, 2, 3, 4, 6, 8)
# What a tile may cost in terms of the best one where many shapes are to have the same.
NEARLY = 1.08
# Cycles of a step where strides of rows are in registers, of which x86-64 has few for addresses.
STRIDES_STEP = 1.0
# Rows up to which vectors run along the depth, and columns that are then computed together at most.
FEW_ROWS, MAX_COLUMNS = 12, 8
# Multiply-adds of a part of a sum, parts of so many that make splitting it pay, parts to have work
# for more threads, and parts at most.
PART_WORK, MIN_WORTH, MIN_PARTS, MAX_PARTS = 1 << 16, 6, 3, 64
# The depth of a part where more tiles are to give all threads work, and where what is read again is
# to stay in the cache; reads that make the latter pay.
MIN_PART_DEPTH, MIN_NEAR_DEPTH, MIN_NEAR_READS = 768, 256, 64
# Pieces of work that are enough for all threads, and tiles of a piece that read the same panel,
# which is packed or not.
PIECES, PIECE_TILES = 32, (4, 16)
# Vectors of a panel, for what the second cache keeps of it; bytes of partial results that cost
# little, and at most.
PANEL_VECTORS, PARTIAL_BYTES, MAX_PARTIAL_BYTES = 3, 6 << 20, 1 << 26


class Shared(Record):
    """What is known of a contraction whose text serves many shapes: ``down``, the only dimension of
    its boxes, the bytes of a result's element, and whether the right operand has another type."""

    down: str
    out: int
    converts: bool


class Decision(Record):
    """A tile, with the split of its sum; whether each operand is packed, and whether writing the
    result decides how long it takes."""

    tiling: Tiling
    packed: tuple[bool, bool]
    writes: bool = False


def below(n: int) -> int:
    """The largest power of two up to ``n``."""
    return 1 << (max(n, 1).bit_length() - 1)


def decide(
    placed: list[Role],
    vector: str,
    lanes: int,
    itemsize: int,
    shared: Shared | None = None,
    tiling: Tiling | None = None,
    near: bool = True,
) -> Decision:
    """How to do a contraction with vectors along a dimension, whose ``tiling`` may be known.

    Where its text is ``shared``, vectors may run along the sum instead. Unless panels are to be
    ``near``, a sum is split only to have work for all threads.
    """
    known = [Role(*map(plain, r)) for r in placed]
    v = next(r for r in known if r.name == vector)
    left = writes = crooked = False
    one_chain = knobs.thread.reproducible  # all depths of a result in order, whatever the machine
    reads = prod([r.size for r in known if r.out and not r.right])
    if shared is None:
        right = _packs_right(known, v, lanes, itemsize, reads)
        tiling = (tiling or choose(known, vector, lanes, itemsize)).along(placed)
        right = right and not _reads_in_place(known, v, tiling, itemsize)
    else:
        (down,) = [r for r in known if r.name == shared.down]
        (depth,) = [r for r in known if not r.out]
        tiling = None if one_chain else _along_depth(placed, vector, shared.down, lanes)
        right = False
        if tiling is None:
            writes = _is_shallow(down, v, depth.size, shared.out)
            reads = 0 if writes else reads
            right = _packs_right(known, v, lanes, itemsize, reads)
            left = _packs_left(known, down, v, depth, lanes, itemsize)
            roles, lanes = known, min(lanes, below(v.size))
            if left:  # rows are side by side, depths at least a vector apart
                packed = {down.name: 1, depth.name: lanes}
                roles = [r._replace(times=packed.get(r.name, r.times)) for r in known]
            forms = _forms(down, v, lanes, itemsize, writes, not (right or shared.converts))
            tiling = choose(roles, vector, lanes, itemsize, forms).along(placed)
            crooked = depth.right % lanes != 0
    # a panel that is all of the operand lies like that already
    right = right and v.right > 0 and (v.right > 1 or crooked or not is_one(tiling.count))
    if shared is not None and shared.converts and tiling.vector == vector:
        right = True
    split = None if one_chain else _split(placed, known, tiling, right, lanes, itemsize, near)
    return Decision(tiling._replace(split=split), (left, right), writes)


def _is_shallow(down: Role, v: Role, depth: int, size: int) -> bool:
    """Whether writing the result decides how long a product takes."""
    crooked = down.out * size % LINE != 0
    far = down.size * v.size * size >= LARGE_RESULT_BYTES
    return depth <= SHALLOW_DEPTH or (depth <= SHALLOW_UNALIGNED_DEPTH and crooked and far)


def _packs_right(known: list[Role], v: Role, lanes: int, itemsize: int, reads: int) -> bool:
    """Whether the right operand is packed: where vectors are apart, or it is read often."""
    if v.right > 1 < v.size:
        return True
    # Packing reads far memory faster than tiles do, and tiles like vectors that are aligned.
    each, arm = kernel_bytes(known, itemsize), has_by_element_fma()
    far = arm and each > L2_BYTES and v.size * itemsize > 2 * LINE
    fewest = MIN_READS_FAR if far else MIN_READS
    if reads < fewest or (arm and v.size < 3 * lanes):
        return False
    crooked = any(r.right % lanes for r in known if not r.out)
    whole = prod([r.size for r in known if r.right]) * itemsize
    far = each > (L1_BYTES if reads < MIN_READS_NEAR else MIN_NEAR_BYTES)
    return (far or crooked) and (whole <= MAX_PACKED_BYTES or not arm)


def _reads_in_place(known: list[Role], v: Role, tiling: Tiling, itemsize: int) -> bool:
    """Whether rows of the right operand are short, and little is computed for a copy of them."""
    short = v.right == 1 and v.size * itemsize <= MAX_ROW_IN_PLACE and not has_by_element_fma()
    return short and prod([r.size for r in known if r.right]) > COPY_CYCLES * tiling.cost


def _packs_left(
    known: list[Role], down: Role, v: Role, depth: Role, lanes: int, itemsize: int
) -> bool:
    """Whether the left operand is packed: where its depths are apart, and two panels read it; or
    where many do and its rows are in pages of their own."""
    if depth.times == 1:
        often = v.size >= MIN_PACKED_COLUMNS and has_by_element_fma()
        whole = prod([r.size for r in known if r.times]) * itemsize
        return often and whole <= MAX_PACKED_BYTES and depth.size * itemsize >= PAGE_BYTES
    often = v.size > registers() // 4 * lanes and down.size >= 8
    return often and depth.size * down.size * itemsize > L1_BYTES


def _forms(down: Role, v: Role, lanes: int, itemsize: int, writes: bool, apart: bool) -> Forms:
    """The tiles of a text that serves many shapes, of a result whose writing decides or not; where
    sizes have names a few serve all."""
    arm = has_by_element_fma()
    vectors: tuple[int, ...] = VECTORS
    tallest = 3 * registers() // 8 if arm or not writes else 6
    heights = tuple([n for n in HEIGHTS if n <= min(tallest, down.size)])
    line, step = LINE // (lanes * itemsize), 0.0 if arm else STRIDES_STEP
    if arm and writes and down.out * itemsize % LINE == 0 and v.size >= line * lanes:
        vectors = tuple([n for n in VECTORS if n % line == 0])  # rows of tiles are whole lines
    if is_writing():
        vectors = tuple([n for n in (1, 2, 4, 8) if n == 1 or lanes * n <= v.size])
        return Forms(down.name, heights[:2], vectors, step, NEARLY, apart)
    if down.size < 2 * tallest:
        heights = tuple(balanced(down.size, tallest))
    return Forms(down.name, heights, vectors, step, apart=apart)


def _along_depth(placed: list[Role], vector: str, down: str, lanes: int) -> Tiling | None:
    """Vectors along the depth, for all rows and as many columns as leave registers for what they
    are multiplied with: where rows are few and the right operand is read along the depth.

    Otherwise that operand would have to be packed; many rows are worth it.
    """
    (rows,) = [r for r in placed if r.name == down]
    (columns,) = [r for r in placed if r.name == vector]
    (depth,) = [r for r in placed if not r.out]
    deep = plain(depth.size)
    if deep < 4 or depth.right != 1 or (columns.right == 1 and columns.size > 1):
        return None
    few = FEW_ROWS if deep >= 256 or columns.out != 1 else FEW_ROWS // 2
    if type(rows.size) is not int or rows.size > few:
        return None
    width = max(1, min(plain(columns.size), MAX_COLUMNS, 3 * registers() // 4 // rows.size))
    width, lanes = below(width) if is_writing() else width, min(lanes, below(deep))
    assert depth.size >= lanes and columns.size >= width
    return Tiling(0, depth.name, lanes, 1, ((rows, rows.size), (columns, width)), 0)


def _split(
    placed: list[Role],
    known: list[Role],
    tiling: Tiling,
    packed: bool,
    lanes: int,
    itemsize: int,
    near: bool,
) -> Split | None:
    """How a long sum is cut into equal parts: so that a small result leaves no threads idle, and so
    that what tiles read again stays in the second cache."""
    depth = prod([r.size for r in known if not r.out])
    if depth < 2 * MIN_NEAR_DEPTH:
        return None
    summed = [r for r in placed if not r.out and plain(r.size) > 1]
    outer = max(summed, key=lambda r: plain(r.times))
    if type(outer.size) is Size:
        return None
    results = prod([r.size for r in known if r.out])
    rights = prod([r.size for r in known if r.right])
    # Windows overlap: what is beside each other along an axis counts once.
    axes = {r.axis: r.size for r in sorted(known, key=lambda r: r.size) if r.times}
    lefts = prod(axes.values())
    worth = max(results * depth, 4 * (lefts + rights)) // PART_WORK
    if worth < MIN_WORTH:
        return None
    box = {r.name: n for r, n in tiling.box}
    box[tiling.vector] = tiling.width
    panels, walks = (
        prod([-(-r.size // box.get(r.name, 1)) for r in known if r.out and bool(r.right) is of])
        for of in (True, False)
    )
    pieces = panels * -(-walks // PIECE_TILES[packed])
    most, fewest = min(PIECES / pieces, worth, depth / MIN_PART_DEPTH), 1
    most = most if most >= MIN_PARTS else 1
    panel = depth * PANEL_VECTORS * lanes * itemsize
    # Between two walks over the same part of the right operand there are walks over all of it,
    # unless its panels are apart.
    far = panel > L2_BYTES or (not packed and rights * itemsize > L2_BYTES)
    if near and far and prod([r.size for r in known if not r.right]) >= MIN_NEAR_READS:
        again = rights + (lefts if packed and panels > 1 else 0)
        most = max(most, min(again * itemsize / L2_BYTES, depth / MIN_NEAR_DEPTH))
        fewest = ceil(panel / L2_BYTES)
    partial = results * itemsize
    counts = [n for n in range(1, min(MAX_PARTS, outer.size) + 1) if outer.size % n == 0]
    parts = max([n for n in counts if n <= max(1, min(most, PARTIAL_BYTES / partial))])
    if parts < fewest:
        enough = [n for n in counts if n >= fewest and n * partial <= MAX_PARTIAL_BYTES]
        parts = min(enough, default=parts)
    return None if parts == 1 else Split(outer.name, parts, outer.size // parts, outer.times)
