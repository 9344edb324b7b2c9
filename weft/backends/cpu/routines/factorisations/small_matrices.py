"""Stacks of small real matrices: elimination and rotations on as many as vectors have lanes.

LAPACK takes longer to be called than to do such a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import Any

import numpy as np

from weft.backends.cpu.routines.factorisations import jacobi_stubs, small_stubs
from weft.backends.cpu.routines.factorisations.tiny import triangular_names
from weft.backends.cpu.routines.lanes import Lanes
from weft.backends.cpu.routines.square_stubs import square_names
from weft.backends.llvm.code import Module, hole
from weft.backends.llvm.native import processor
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.backends.llvm.text.stub import known_to, translate_main
from weft.base.functional import lru
from weft.base.sizes import Size, plain
from weft.kernel.kinds import i32, kind_of, truth, u32, u64
from weft.kernel.program import Type

# Bytes of one piece of work, and the most that the matrices of all lanes may take on the stack.
CHUNK_BYTES, MEMORY = 1 << 15, 1 << 17
# Sides of matrices up to which code for any number of them is for one size: it has few loops then.
MAX_SPECIALISED_SIDE = 8
# The longest side of a matrix that is turned; the work for a longer one grows faster than LAPACK's.
MAX_ROTATED_SIDE = 16

Types = list[Type]
# The stub that does an operation, the elements it keeps of a matrix, and the names it is given.
Plan = tuple[Any, int, dict[str, Any]]


def lowered(name: str, ins: Types, outs: Types, params: dict[str, Any]) -> Lowered | None:
    """The task of an operation on a stack of at least as many matrices as vectors have lanes, if
    these are small. It does for any number of them, and for any size that is not tiny."""
    dtype, count = ins[0].dtype, prod(ins[0].shape[:-2])
    if name not in _PLANS or dtype.name not in ("float32", "float64"):
        return None
    v = Lanes(dtype.itemsize, processor.vector_bits())
    if count < v.count:
        return None
    plan = _PLANS[name](*_settled(ins, outs), params)
    if plan is None or plan[1] * v.bytes > MEMORY:
        return None
    main, elements, names = plan
    names["LIMIT"] = count - v.count
    sizes = {name: str(n) for name, n in names.items() if type(n) is Size}
    known = tuple([(name, n) for name, n in names.items() if name not in sizes])
    module = _module(main, dtype, v.count, known, tuple(sizes)).filled(sizes)
    places = [Place("in", i) for i in range(len(ins))] + [Place("out", i) for i in range(len(outs))]
    groups = -(-count // v.count)
    chunk = max(1, min(plain(groups), CHUNK_BYTES // plain(elements * v.bytes)))
    return Lowered([Task(module, main.__name__, tuple(places), groups, chunk)], ())


def _settled(*groups: Types) -> list[Types]:
    """Types of stacks; those of tiny matrices with numbers for their sides, whatever they are."""
    sides = [n for kind in groups[0] for n in kind.shape[-2:]]
    if max(sides) > MAX_SPECIALISED_SIDE:
        return list(groups)
    stack = len(groups[0][0].shape) - 2
    return [
        [k._replace(shape=(*k.shape[:stack], *map(int, k.shape[stack:]))) for k in kinds]
        for kinds in groups
    ]


@lru(256)
def _module(main: Any, dtype: np.dtype, lanes: int, known: tuple, sizes: tuple[str, ...]) -> Module:
    """The module of a stub, with holes for those of its names that are sizes."""
    lane, whole = kind_of(dtype), u32 if dtype.itemsize == 4 else u64
    one = 1 << np.finfo(dtype).nmant
    names = dict(known) | {name: hole(name) for name in sizes}
    names |= {"F": lane, "V": lane.of(lanes), "BITS": whole.of(lanes), "I": i32.of(lanes)}
    names |= {"MASK": truth.of(lanes), "LANES": lanes, "ITEM": lane.size}
    names |= {"BYTES": lanes * lane.size, **square_names(Lanes(lane.size, lanes * 8 * lane.size))}
    names |= {"ONE_BITS": one, "TOP_BITS": (1 << 8 * lane.size - 1) - one}
    return translate_main(main, known_to(main, names), loop=True)


# --- which stubs, and what they are given ---------------------------------------------------------


def _cholesky(ins: Types, outs: Types, params: Any) -> Plan:
    n = ins[0].shape[-1]
    return small_stubs.cholesky, n * n, {"N": n}


def _lu(ins: Types, outs: Types, params: Any) -> Plan:
    m, n = ins[0].shape[-2:]
    return small_stubs.lu, m * n, {"M": m, "N": n, "LEAST": min(m, n)}


def _triangular_solve(ins: Types, outs: Types, params: Any) -> Plan:
    names = triangular_names(ins, params)
    return small_stubs.triangular_solve, prod(ins[0].shape[-2:]) + prod(ins[1].shape[-2:]), names


def _qr(ins: Types, outs: Types, params: Any) -> Plan | None:
    (m, n), k = ins[0].shape[-2:], outs[0].shape[-1]
    if params["pivoting"]:
        return None
    return small_stubs.qr, (m + k) * (n + k), {"M": m, "N": n, "K": k, "LEAST": min(m, n)}


def _eigh(ins: Types, outs: Types, params: Any) -> Plan | None:
    n = ins[0].shape[-1]
    if params["subset_by_index"] is not None or n > MAX_ROTATED_SIDE:
        return None
    names = {"N": n, "LOWER": params["lower"], "VECTORS": params.get("vectors", True)}
    names["BOUND"] = float(np.finfo(ins[0].dtype).eps) / 8
    return jacobi_stubs.eigh, 2 * n * n + n, names


def _svd(ins: Types, outs: Types, params: Any) -> Plan | None:
    m, n = ins[0].shape[-2:]
    k, long, tall = min(m, n), max(m, n), m >= n
    by_qr = getattr(params["algorithm"], "name", "") == "QR"
    if params["subset_by_index"] is not None or by_qr or long > MAX_ROTATED_SIDE:
        return None
    width = 0 if len(outs) == 1 else long if params["full_matrices"] else k
    names: dict[str, Any] = {"M": m, "N": n, "K": k, "LONG": long, "WIDTH": width, "TALL": tall}
    names["VECTORS"] = len(outs) > 1
    names |= {"LEFT": m * (width if tall else m), "RIGHT": n * (n if tall else width)}
    apart = {"X": (1, n), "T": (n, 1), "B": (1, width)} if tall else {}
    apart = apart or {"X": (n, 1), "T": (1, k), "B": (n, 1)}
    for matrix, (between, step) in apart.items():
        names |= {f"{matrix}_APART": between, f"{matrix}_STEP": step}
    limits = np.finfo(ins[0].dtype)
    # the square of a shorter column has lost digits
    shortest = limits.dtype.type(sqrt(limits.tiny) / float(limits.eps))
    side = MAX_ROTATED_SIDE if long > MAX_SPECIALISED_SIDE else long
    names |= {"SHORTEST": float(shortest), "BOUND": float(limits.eps) * side}
    return jacobi_stubs.svd, m * n + 3 * MAX_ROTATED_SIDE**2, names


_OWN: tuple[Callable[..., Plan | None], ...] = (
    *(_cholesky, _lu, _triangular_solve),
    *(_qr, _eigh, _svd),
)
_PLANS = {f.__name__[1:]: f for f in _OWN}
