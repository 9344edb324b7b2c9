"""Squares of numbers transposed from memory to memory, as many a side as a vector has lanes.

Vectors are put together from 16 bytes of every fourth row (or every other), so that the rest is
done within these 16 bytes: few shuffles, all of a kind that processors have and LLVM finds at once.
"""

from __future__ import annotations

from weft.backends.cpu.routines.fourier.fft_text import Lanes
from weft.backends.cpu.routines.writer import Function, Number

_PARAMETERS = (
    "ptr noalias %source, i64 %step, ptr noalias %target, i64 %stride,"
    " i64 %count, i64 %ahead, i64 %down"
)


def squares(
    f: Function,
    v: Lanes,
    source: tuple[str, Number, Number],
    target: tuple[str, Number, Number],
    count: Number,
) -> None:
    """Transpose so many squares.

    Of source and target: where the first square is, how many bytes its rows are apart, and how many
    the squares are.
    """
    name = f"squares{v.count}"
    if name not in f.module.functions:
        own = Function(f.module, name, _PARAMETERS)
        with own.loop(0, "%count") as i:
            at, to = own.at("%source", own.mul(i, "%ahead")), own.at("%target", own.mul(i, "%down"))
            square(own, v, at, "%step", to, "%stride")
        own.close()
    (at, step, ahead), (to, stride, down) = source, target
    f.line(
        f"call void @{name}(ptr {at}, i64 {step}, ptr {to}, i64 {stride},"
        f" i64 {count}, i64 {ahead}, i64 {down})"
    )


def square(f: Function, v: Lanes, at: str, step: Number, to: str, stride: Number) -> None:
    """Transpose a square with rows ``step`` bytes apart to one with rows ``stride`` bytes apart."""
    each = 16 // v.itemsize  # numbers in 16 bytes
    with f.loop(0, v.count, each) as column:
        spots = _apart(f, f.at(at, f.mul(column, v.itemsize)), step, v.count)
        kind = f"<{each} x {v.base}>"
        pieces = [f.load(kind, spot, v.itemsize) for spot in spots]
        vectors = [_joined(f, v, pieces[i::each]) for i in range(each)]
        places = _apart(f, f.at(to, f.mul(column, stride)), stride, each)
        for place, x in zip(places, _turned(f, v, vectors, each), strict=True):
            f.store(v.kind, x, place, v.itemsize)


def _apart(f: Function, at: str, step: Number, count: int) -> list[str]:
    """Where rows begin."""
    spots = [f.opaque(at)]
    if isinstance(step, int):
        return [f.at(spots[0], k * step) for k in range(count)]
    while len(spots) < count:
        spots.append(f.at(spots[-1], step))
    return spots


def _joined(f: Function, v: Lanes, pieces: list[str]) -> str:
    """Pieces one after another as a vector."""
    size = v.count // len(pieces)
    while len(pieces) > 1:
        kind = f"<{size} x {v.base}>"
        size *= 2
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [f.shuffle(kind, a, b, range(size)) for a, b in pairs]
    return pieces[0]


def _turned(f: Function, v: Lanes, rows: list[str], each: int) -> list[str]:
    """The squares that lie side by side in a few vectors, each of them transposed."""
    low = [i - i % each + i % each // 2 + i % 2 * v.count for i in range(v.count)]
    high = [i + each // 2 for i in low]
    if each == 2:
        return [v.shuffle(f, *rows, picks) for picks in (low, high)]
    even = [v.shuffle(f, rows[0], rows[2], picks) for picks in (low, high)]
    odd = [v.shuffle(f, rows[1], rows[3], picks) for picks in (low, high)]
    pairs = zip(even, odd, strict=True)
    return [v.shuffle(f, a, b, picks) for a, b in pairs for picks in (low, high)]
