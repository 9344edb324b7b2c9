"""Scatters: a copy of the operand, and updates by atomic instructions or in their order.

Sums of floats come in any order unless the knob ``deterministic_ops`` is set. What has to come in
order is sorted by where it belongs, stably, so that every run gives the same bits; a few updates
are done by one block, and those of which the user says that no two meet directly. Extremes are the
same in any order, and of updates that replace each other the last is found by a maximum.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any

import numpy as np

from weft.backends.cuda import driver
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Fill,
    Move,
    Place,
    Routine,
    Run,
    bits_kind,
    deterministic,
    given,
    launch,
    made,
    module_of,
)
from weft.backends.cuda.routines.cumulative import numbers_of
from weft.backends.cuda.routines.device import combining
from weft.backends.cuda.routines.sort import Scratch, key_names, sort_rows
from weft.backends.cuda.routines.stubs import scatter_stubs as stubs
from weft.backends.llvm.text.stub import known_to
from weft.core.jaxpr import Literal
from weft.kernel.kinds import i32, i64, kind_of, u32, u64
from weft.kernel.program import Type, contiguous

_OPS = {
    "scatter": stubs.SET,
    "scatter-add": stubs.ADD,
    "scatter-sub": stubs.SUB,
    "scatter-mul": stubs.MUL,
    "scatter-min": stubs.MIN,
    "scatter-max": stubs.MAX,
}
# Updates up to which one block does them.
FEW = 1 << 10
# Updates from which on a kernel may compute and add them, and the least size of a window.
MIN_FUSED, MIN_WINDOW = 1 << 14, 4
_CLIP = "CLIP"
# What instructions do in any order.
_COMBINING = {stubs.ADD: "add", stubs.SUB: "add", stubs.MIN: "min", stubs.MAX: "max"}


def _elements(t: Type, op: int) -> tuple[np.dtype, int] | None:
    """What an element is made of, and how many there are; None where it can't be combined."""
    dtype: Any = t.dtype
    if op == stubs.SET:
        size = getattr(dtype, "itemsize", 0)
        physical = getattr(dtype, "physical_dtype", None)
        if physical is not None:
            return physical, prod(dtype.physical_shape)
        if size == 16:
            return np.dtype(np.uint64), 2
        return (np.dtype(f"u{size}"), 1) if size in (1, 2, 4, 8) else None
    if dtype.kind == "c":
        if op not in (stubs.ADD, stubs.SUB):
            return None
        return np.dtype(f"f{dtype.itemsize // 2}"), 2
    if dtype.kind == "b" and op not in (stubs.MIN, stubs.MAX):
        return None
    return dtype, 1


def _merged(axes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Axes from the last to the first, those that follow each other in both arrays made one."""
    found: list[tuple[int, int, int]] = []
    for size, one, two in reversed(axes):
        if size == 1:
            continue
        if found and (one, two) == (found[-1][0] * found[-1][1], found[-1][0] * found[-1][2]):
            found[-1] = (found[-1][0] * size, *found[-1][1:])
        else:
            found.append((size, one, two))
    return found or [(1, 0, 0)]


def _table(ins: list[Type], params: dict[str, Any], parts: int) -> tuple[np.ndarray, Any]:
    """The numbers of a scatter, and what stubs are told of them."""
    operand, indices, updates = ins
    numbers = params["dimension_numbers"]
    shape, told = (*operand.shape, parts), (*updates.shape, parts)
    strides, steps = contiguous(shape), contiguous(told)
    batching = numbers.operand_batching_dims
    inside = list(numbers.update_window_dims)
    absent = (*numbers.inserted_window_dims, *batching)
    kept = [i for i in range(len(operand.shape)) if i not in absent]
    sizes = {a: updates.shape[i] for a, i in zip(kept, inside, strict=True)}
    axes = [(sizes[a], strides[a], steps[i]) for a, i in zip(kept, inside, strict=True)]
    axes = _merged([*axes, (parts, 1, 1)])
    index_map = numbers.scatter_dims_to_operand_dims
    bounds = [(max(operand.shape[a] - sizes.get(a, 1), 0), strides[a]) for a in index_map]
    outer = [i for i in range(len(updates.shape)) if i not in inside]
    shared = dict(zip(numbers.scatter_indices_batching_dims, batching, strict=True))
    batch = [
        (n, strides[shared[i]] if i in shared else 0, steps[outer[i]])
        for i, n in enumerate(indices.shape[:-1])
    ]
    batch = _merged(batch)
    table = [*(x for b in bounds for x in b), *(x for a in axes for x in a)]
    table += [x for b in batch for x in b]
    window = prod(n for n, _, _ in axes)
    names = {"DIMS": len(bounds), "AXES": len(axes), "BATCH": len(batch), "WINDOW": window}
    overlap = any(sizes.get(a, 1) > 1 for a in index_map)
    return np.array(table, np.int64), (names, overlap)


def _reduces(dtype: np.dtype, op: int) -> bool:
    """Whether updates may come in any order, by instructions of the GPU's."""
    if dtype.kind not in "iuf" or dtype.itemsize < 4 or op not in _COMBINING:
        return False
    if dtype.kind != "f":
        return True
    return op in (stubs.ADD, stubs.SUB) and not deterministic()


def _launch(main: Any, total: int, places: tuple[Place, ...], **names: Any) -> Run:
    """A stub run with what it has parameters for."""
    return launch(main, total, places, **known_to(main, names))


def _any_order(names: dict[str, Any], dtype: np.dtype, table: Place) -> Run:
    negated = names["OP"] == stubs.SUB
    combine = combining(_COMBINING[names["OP"]], names["C"])
    names = {**names, "combine": combine, "NEGATED": int(negated)}
    if negated:
        names["OP"] = stubs.ADD
    main: Any = stubs.scatter_any_order
    total = names["COUNT"] * names["WINDOW"]
    if names["WINDOW"] == 1:
        main = stubs.scatter_neighbours
    elif dtype == np.float32 and _in_fours(names, table.what) and driver.reduces_vectors():
        main, total = stubs.scatter_fours, total // 4
    return _launch(main, total, _operands(table), **names)


def _in_fours(names: dict[str, Any], table: np.ndarray) -> bool:
    """Whether windows are rows in both arrays that begin, and end, at multiples of four."""
    dims = 2 * names["DIMS"]
    window, batch = table[dims : dims + 3], table[dims + 3 * names["AXES"] :].reshape(-1, 3)
    strides = [*table[1:dims:2], *batch[:, 1], *batch[:, 2], names["WINDOW"]]
    return names["AXES"] == 1 and list(window[1:]) == [1, 1] and not any(x % 4 for x in strides)


def added_at_a_time(eqn: Any) -> int:
    """Elements that a thread adds at a time in a kernel that computes the updates of a scatter;
    0 where a routine is better, which reads them."""
    if eqn.primitive.name != "scatter-add" or any(type(x) is Literal for x in eqn.invars[1:]):
        return 0
    ins = [Type(x.aval.shape, x.aval.dtype) for x in eqn.invars]
    operand, _, updates = ins
    window = eqn.params["dimension_numbers"].update_window_dims
    total, size = prod(updates.shape), prod(operand.shape)
    if not MIN_FUSED <= total < 1 << 31 or size >= 1 << 31 or len(updates.shape) - 1 not in window:
        return 0
    dtype = operand.dtype
    if getattr(dtype, "kind", "") not in tuple("iuf") or not _reduces(dtype, stubs.ADD):
        return 0
    table, (names, _) = _table(ins, eqn.params, 1)
    # sums of single numbers add those of neighbours first
    if names["WINDOW"] < MIN_WINDOW:
        return 0
    fours = dtype == np.float32 and _in_fours(names, table) and updates.shape[-1] % 4 == 0
    return 4 if fours and driver.reduces_vectors() else 1


# Floats of which instructions of the GPU's find extremes.
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def _extremes(names: dict[str, Any], dtype: np.dtype, table: Place) -> list[Any]:
    """Steps that find extremes of floats by instructions for integers."""
    told = key_names(dtype)
    smallest, wide = names["OP"] == stubs.MIN, dtype.itemsize == 8
    told = {k: told[k] for k in ("K", "SIGN", "MOST", "INFINITE", "UNKNOWN")}
    # the NaN that is below all integers with a sign, or above them
    told["UNKNOWN"] |= told["SIGN"] if smallest else 0
    signed, bits = (i64, u64) if wide else (i32, u32)
    along, against = ("min", "max") if smallest else ("max", "min")
    more = {
        "signed_extreme": combining(along, signed, bits, "signed_extreme"),
        "unsigned_extreme": combining(against, bits, bits, "unsigned_extreme"),
    }
    copy = _launch(stubs.same_unknowns, names["SIZE"], (given(0), made(0)), **names, **told)
    total = names["COUNT"] * names["WINDOW"]
    scatter = _launch(stubs.scatter_extremes, total, _operands(table), **names, **told, **more)
    return [copy, scatter]


def _last_ones(room: Scratch, names: dict[str, Any], table: Place) -> list[Any]:
    """Steps by which the last of updates to one place counts, without a sort."""
    dims, batch = 2 * names["DIMS"], 2 * names["DIMS"] + 3 * names["AXES"]
    strides = [*table.what[1:dims:2], *table.what[batch + 1 :: 3]]
    step = gcd(*map(int, strides)) or 1
    size = 4 * (names["SIZE"] // step + 1)
    last = room.new(size)
    told = {**names, "STEP": step, "combine": combining("max", u32)}
    marked = _launch(stubs.mark_last, names["COUNT"], (given(1), table, last), **told)
    places = (given(1), given(2), table, last, made(0))
    total = names["COUNT"] * names["WINDOW"]
    return [Fill(last, 0, size), marked, _launch(stubs.scatter_last, total, places, **told)]


def _operands(table: Place) -> tuple[Place, ...]:
    return given(1), given(2), table, made(0)


def lowering(name: str) -> Any:
    op = _OPS[name]

    def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
        operand, indices, updates = ins
        found = _elements(operand, op)
        if found is None or (op == stubs.SET and params["update_jaxpr"] is not None):
            return None
        dtype, parts = found
        common = numbers_of(dtype)
        size = prod(operand.shape) * parts
        if common is None or size >= 1 << 31 or prod(updates.shape) * parts >= 1 << 31:
            return None
        copy = Move(made(0), given(0), size * dtype.itemsize)
        if not prod(updates.shape):
            return Routine([copy])
        if op == stubs.SET:
            common |= {"C": bits_kind(dtype), "NARROW": 0, "FLOATING": 0, "WIDTH": dtype.itemsize}
        table, (names, overlap) = _table(ins, params, parts)
        names |= {**common, "OP": op, "I": kind_of(indices.dtype), "SIZE": size}
        names |= {"CLIP": int(params["mode"].name == _CLIP), "COUNT": prod(indices.shape[:-1])}
        names["UNSIGNED"] = int(indices.dtype == np.uint64)
        unique = params["unique_indices"] and not overlap
        room = Scratch()
        if not unique and dtype in _FLOATS and op in (stubs.MIN, stubs.MAX):
            return Routine(_extremes(names, dtype, Place("const", table)))
        if not unique and _reduces(dtype, op):
            return Routine([copy, _any_order(names, dtype, Place("const", table))])
        steps = _steps(room, names, Place("const", table), unique, overlap)
        return Routine([copy, *steps], tuple(room.sizes))

    return lower


def _steps(
    room: Scratch, names: dict[str, Any], table: Place, unique: bool, overlap: bool
) -> list[Any]:
    count, window = names["COUNT"], names["WINDOW"]
    total = count * window
    if unique or count == 1:
        return [_launch(stubs.scatter_apart, total, _operands(table), **names)]
    if total <= FEW:
        code = module_of(stubs.scatter_few, **known_to(stubs.scatter_few, names))
        return [Run(code, 1, 128, _operands(table))]
    if names["OP"] == stubs.SET and not overlap:
        return _last_ones(room, names, table)
    main: Any = stubs.element_keys if overlap else stubs.window_keys
    number = total if overlap else count
    keys = room.new(4 * number)
    run = _launch(main, number, (given(1), table, keys), **names)
    told = key_names(np.dtype(np.uint32))
    bits = names["SIZE"].bit_length()
    more, ordered, order = sort_rows(room, keys, None, 1, number, told, True, bits=bits)
    places = (ordered, order, given(2), table, made(0))
    last = _launch(stubs.scatter_runs, total, places, **names, WIDE=int(not overlap))
    return [run, *more, last]


for _name in _OPS:
    ROUTINES[_name] = lowering(_name)
