"""How many lanes the vectors of a loop have: more registers for small bodies, fewer for large."""

from __future__ import annotations

from typing import Any

from weft.backends.llvm.native.processor import registers, vector_bits
from weft.backends.llvm.text.rare import rare
from weft.backends.llvm.text.sizes import Sizes
from weft.base.sizes import Size, plain
from weft.kernel.kernel import Loop, Reduce, Store, statements
from weft.kernel.nodes import Value, walk

# Operations of a loop's body up to which its vectors are four and two registers wide.
_MAX_QUADRUPLE_OPS, _MAX_DOUBLE_OPS = 16, 400
# Operations up to which four registers are used where there are 32 of 128 bits, which two chains of
# dependent operations do not keep busy; and elements from which the remainder does not matter.
_MAX_WIDE_OPS, _MIN_WIDE_EXTENT = 160, 256
# Elements from lane to lane up to which vectors of memory are read, and shuffled.
_MAX_SHUFFLED_STRIDE = 4
# Operations from which masks in every iteration cost less than a second copy of the body.
_MIN_MASKED_OPS = 100
# Operations on single registers, of which three read an element, that are not too much for vectors
# of several rows: LLVM takes long for vectors of odd lengths.
_TEXT = 1000
# Operations from which a masked vector is worth it where the processor has no masks for memory; and
# accesses to memory up to which it is, where each of them becomes a branch for every lane.
_EMULATED, _MAX_BRANCHED = 40, 8


def native(value: Value) -> int:
    """Elements of a value's dtype in a register; the narrow ones are computed in 32 bits."""
    return max(1, vector_bits() // (8 * max(4, value.dtype.itemsize)))


def _operations(body: list[Any]) -> list[Value]:
    roots = [v for s in statements(body) if not isinstance(s, Loop) for v in s.operands]
    seldom = frozenset().union(*(group.inside for group in rare(roots)))
    return [v for v in walk(roots) if v.op != "const" and v.number not in seldom]


def lanes_of(loop: Loop, most: int = 0, sizes: Sizes | None = None) -> int:
    """Lanes for a loop, no more than cover its extent; at most so many, unless 0."""
    if loop.extent == 1:
        # LLVM makes a store of four bytes of a masked one of a single half that it knows of
        return 1
    operations = _operations(loop.body)
    widest = max((v.dtype.itemsize for v in operations if v.op != "index"), default=4)
    one = max(1, vector_bits() // (8 * max(4, widest)))
    count = len(operations)
    width = 2 if count <= _MAX_DOUBLE_OPS else 1
    if count <= _MAX_QUADRUPLE_OPS or _latency_bound(loop, count, sizes):
        width = 4
    if count <= _MAX_QUADRUPLE_OPS and all(isinstance(s, Reduce) for s in loop.body):
        # the fewer products there are, the fewer of them pass through slow tiny numbers on to zero
        width = 1 if any(s.op == "mul" for s in loop.body) else 8
    if _apart(loop, operations):
        width = 1  # lanes are read one by one: more of them are more text and no more speed
    lanes = one * width
    if most:
        lanes, one = min(lanes, most), min(one, most)
    extent: Any = loop.extent if sizes is None else plain(loop.extent)
    if sizes is not None and any(isinstance(s, Reduce) for s in loop.body):
        if sizes.small:
            return lanes
        extent = loop.extent  # the lanes say in which order numbers are added up
    while lanes > one and lanes >= 2 * extent:
        lanes //= 2
    return lanes


def latency_bound(loop: Loop, sizes: Sizes | None) -> bool:
    """Whether the latency of a loop's operations decides, rather than memory or their number."""
    return _latency_bound(loop, len(_operations(loop.body)), sizes)


def _latency_bound(loop: Loop, count: int, sizes: Sizes | None) -> bool:
    if vector_bits() != 128 or registers() != 32 or not _MAX_QUADRUPLE_OPS < count <= _MAX_WIDE_OPS:
        return False
    if sizes is None:
        return loop.extent >= _MIN_WIDE_EXTENT
    # Shape-generic code may not ask for an extent; a loop over all of many elements is long.
    return loop.axis == sizes.grid


def has_many_constants(body: list[Any]) -> bool:
    """Whether a body has more constants than Arm has registers, which it loads none of at once."""
    if vector_bits() != 128 or registers() != 32:
        return False
    roots = [v for s in statements(body) if not isinstance(s, Loop) for v in s.operands]
    return sum(v.op == "const" for v in walk(roots)) > registers()


def _apart(loop: Loop, operations: list[Value]) -> bool:
    """Whether a loop reads or writes elements of memory that lie further and further apart."""
    places = [v.attr[1] for v in operations if v.op == "load"]
    places += [s.at for s in statements(loop.body) if isinstance(s, Store)]
    steps = [place.coefficient(loop.axis) for place in places]
    return any(type(n) is Size or abs(n) > _MAX_SHUFFLED_STRIDE for n in steps)


def side_by_side(outer: Loop, inner: Loop, lanes: int) -> bool:
    """Whether short rows are to be computed several at a time, by vectors of so many lanes."""
    operations = _operations(inner.body)
    each = lanes // min([native(x.value) for x in inner.body])
    apart = 0
    for v in operations:
        if v.op == "load":
            across, along = (abs(v.attr[1].coefficient(x.axis)) for x in (outer, inner))
            near = plain(across) <= _MAX_SHUFFLED_STRIDE * inner.extent
            apart += not near or plain(along) > _MAX_SHUFFLED_STRIDE
    return len(operations) * each + 3 * apart * lanes <= _TEXT


def masks(body: list[Any]) -> bool:
    """Whether every iteration is masked, which saves the copy of the body for the last one."""
    return vector_bits() == 512 and len(_operations(body)) > _MIN_MASKED_OPS


def masks_last(body: list[Any]) -> bool:
    """Whether what is left of a loop is a masked vector; else it is done element by element."""
    if vector_bits() == 512:
        return True
    operations = _operations(body)
    accesses = sum(v.op == "load" for v in operations) + sum(1 for _ in statements(body))
    return len(operations) > _EMULATED and (vector_bits() > 128 or accesses <= _MAX_BRANCHED)


def writes_only(body: list[Any]) -> bool:
    """Whether a body is so small that the time it takes is that of writing what it computes."""
    return len(_operations(body)) <= _MAX_QUADRUPLE_OPS
