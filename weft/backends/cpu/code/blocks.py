"""Copies that exchange two axes: blocks of a square number of elements turned in registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.text.instructions import memory_type
from weft.backends.llvm.text.render import Function
from weft.base.sizes import Size
from weft.kernel.kernel import Loop, Store


def turns(s: Loop) -> bool:
    """Whether a nest of two loops copies what follows along the outer one to follow along the
    inner one."""
    (inner, *others) = s.body
    if others or not isinstance(inner, Loop) or len(inner.body) != 1:
        return False
    (store,) = inner.body
    if not isinstance(store, Store) or store.marks is not None:
        return False
    if store.value.op != "load" or store.value.args:
        return False
    index = store.value.attr[1]
    return (
        store.at.coefficient(inner.axis) == 1
        and store.at.coefficient(s.axis) != 1
        and index.coefficient(s.axis) == 1
        and index.coefficient(inner.axis) not in (0, 1)
    )


def _side(dtype: np.dtype) -> int:
    return min(8, vector_bits() // (8 * dtype.itemsize))


def copy(f: Function, s: Loop, low: str, high: str, inner_high: str) -> None:
    """Whole blocks, then what is left of either axis, element by element."""
    (inner,) = s.body
    (store,) = inner.body
    side = _side(store.value.dtype)
    middle = f.whole_part(low, high, side)
    inner_middle = f.whole_part("0", inner_high, side)

    def block() -> None:
        _block(f, s, inner, store, side)

    def single() -> None:
        f.store(store)

    def along(start: str, stop: str, step: int, body: Any) -> Any:
        def run() -> None:
            f.offsets_before([store.at, store.value.attr[1]], inner.axis)
            _loop(f, inner.axis, start, stop, step, body)

        return run

    _loop(f, s.axis, low, middle, side, along("0", inner_middle, side, block))
    if inner_middle != inner_high:
        _loop(f, s.axis, low, middle, 1, along(inner_middle, inner_high, 1, single))
    if middle != high:
        _loop(f, s.axis, middle, high, 1, along("0", inner_high, 1, single))


def _loop(f: Function, axis: str, low: str, high: str, step: int, body: Any) -> None:
    outside = f.known

    def turn(index: str, _: list[str]) -> list[str]:
        f.known, f.axes[axis] = dict(outside), index
        body()
        return []

    f.carry(low, high, [], turn, step, once=False)
    f.known = outside


def _block(f: Function, outer: Loop, inner: Loop, store: Store, side: int) -> None:
    """A square of elements: read along the outer axis, exchanged, written along the inner one."""
    dtype = store.value.dtype
    kind = memory_type(dtype)
    vector = f"<{side} x {kind}>"
    buffer, index = store.value.attr
    rows = []
    far = index.coefficient(inner.axis)
    for at in _places(f, kind, f.address(buffer, f.offset(index)), side, far):
        rows.append(f.emit(f"load {vector}, ptr {at}, align {dtype.itemsize}"))
    rows = f.transposed(rows, vector)
    far, base = store.at.coefficient(outer.axis), f.address(store.buffer, f.offset(store.at))
    for i, at in enumerate(_places(f, kind, base, side, far)):
        f.line(f"store {vector} {rows[i]}, ptr {at}, align {dtype.itemsize}")


def _places(f: Function, kind: str, base: str, count: int, far: int) -> Iterator[str]:
    """Addresses at equal distances."""
    each = f.size(far)
    for i in range(count):
        if f.sizes is None and type(far) is not Size:
            yield f.emit(f"getelementptr {kind}, ptr {base}, i64 {i * far}")
        else:
            yield f.further_on(base, kind, each, i)
