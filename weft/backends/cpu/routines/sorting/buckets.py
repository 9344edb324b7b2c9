"""Rows that several threads sort, first split into buckets by keys from all over, as LLVM text."""

from __future__ import annotations

from weft.backends.cpu.routines.sorting import quick_stubs as stubs
from weft.backends.cpu.routines.sorting.network import Lanes
from weft.backends.cpu.routines.sorting.packing import counting, mask_type, splat, split_function
from weft.backends.cpu.routines.sorting.rows import Order, key_text, resized
from weft.backends.cpu.routines.writer import Function, Module


def _read_function(module: Module, v: Lanes, source: Order, placed: bool) -> None:
    """A function that makes at least a vector of elements of a row keys, and marks the row if keys
    do not tell all about one.

    If these are ``placed``, keys are records: they have the position of an element in its row in
    their lower half, with ``before`` elements in the row before these.
    """
    f = Function(module, "read", "ptr %src, ptr %dst, i64 %n, i64 %before, ptr %mark")
    kind, size, mask = f"<{v.count} x i{source.bits}>", source.bits // 8, mask_type(v)
    stop = f.emit(f"udiv i64 {f.add('%n', v.count - 1)}, {v.count}")
    with f.carried(0, stop, [(mask, "zeroinitializer")]) as (i, (noted,), after):
        at = f.smaller(f.mul(i, v.count), f.sub("%n", v.count))
        x = f.load(kind, f.at("%src", f.mul(at, size)), size)
        key, bad = key_text(f, source, kind, x)
        if bad is not None:
            after[0] = f.emit(f"or {mask} {noted}, {bad}")
        key = resized(f, kind, v.llvm, key, "zext")
        if placed:
            first = splat(f, v, str(f.add("%before", at)))
            place = f.emit(f"add {v.llvm} {first}, {counting(v)}")
            key = f.emit(f"shl {v.llvm} {key}, splat (i{v.bits} {v.bits // 2})")
            key = f.emit(f"or {v.llvm} {key}, {place}")
        f.store(v.llvm, key, f.at("%dst", f.mul(at, v.step)), v.step)
    bits = f.emit(f"bitcast {mask} {noted} to i{v.count}")
    with f.when(f.emit(f"icmp ne i{v.count} {bits}, 0")):
        f.store("i64", "1", "%mark", 8)
    f.close()


def keys_text(v: Lanes, source: Order, placed: bool = False) -> str:
    """Whole rows as keys, see `quick_stubs.sort_keys`."""
    module = Module()
    _read_function(module, v, source, placed)
    return stubs.control_text(module, v, source, stubs.sort_keys)


def sample_text(v: Lanes, source: Order, placed: bool = False) -> str:
    """Keys from all over each row, see `quick_stubs.sort_sample`."""
    return stubs.control_text(Module(), v, source, stubs.sort_sample, PLACED=int(placed))


def buckets_text(v: Lanes, source: Order, piece: int, placed: bool = False) -> str:
    """Pieces of rows as keys, bucket by bucket, see `quick_stubs.sort_buckets`."""
    module = Module()
    split_function(module, v)
    _read_function(module, v, source, placed)
    names = {"PIECE": piece * v.step, "PLACED": int(placed)}
    return stubs.control_text(module, v, source, stubs.sort_buckets, **names)
