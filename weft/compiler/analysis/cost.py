"""What programs and kernels cost: operations on numbers, and bytes that pass through memory."""

from __future__ import annotations

from math import log2, prod
from typing import Any

from weft.base.record import Record
from weft.core.interpret import has_data, storage_dtype
from weft.core.jaxpr import Jaxpr, JaxprEqn, jaxprs_in_params
from weft.kernel.kernel import Kernel, Loop, Store
from weft.kernel.nodes import walk

_TRANSCENDENTAL = frozenset(
    "exp exp2 expm1 log log1p logistic tanh sin cos tan asin acos atan sinh cosh asinh acosh atanh"
    " atan2 pow sqrt rsqrt cbrt erf erfc erf_inv lgamma digamma".split()
)
# Multiplications and additions of a factorisation or solve, in cubes of the matrix's side.
_CUBIC = {"cholesky": 1 / 3, "lu": 2 / 3, "geqrf": 4 / 3, "qr": 4 / 3, "eigh": 9, "svd": 21}


class Cost(Record):
    """Operations that count as arithmetic, others, and bytes read and written."""

    flops: float = 0.0
    transcendentals: float = 0.0
    moved: float = 0.0

    def plus(self, other: Cost, times: float = 1.0) -> Cost:
        return Cost(*(a + times * b for a, b in zip(self, other, strict=True)))


def size_of(aval: Any) -> int:
    """Bytes of a value; what is no memory has none."""
    if not has_data(aval):
        return 0
    return prod(aval.shape) * storage_dtype(aval.dtype).itemsize


def cost(jaxpr: Jaxpr) -> Cost:
    """The cost of a program whose equations run one by one, each on values in memory.

    Of a loop whose length is not known one iteration counts, of branches the dearest.
    """
    total = Cost()
    for eqn in jaxpr.eqns:
        total = total.plus(equation_cost(eqn))
    return total


def equation_cost(eqn: JaxprEqn) -> Cost:
    """The cost of one equation, its inner programs included."""
    name, params = eqn.primitive.name, eqn.params
    inner = [cost(j) for j in jaxprs_in_params(params)]
    if name == "cond":
        return max(inner, key=lambda c: c.moved, default=Cost())
    if inner and name not in ("scatter", "reduce") and not name.startswith(("scatter", "reduce_")):
        times = params.get("length", 1) if name == "scan" else 1
        total = Cost()
        for c in inner:
            total = total.plus(c, times)
        return total
    moved = float(sum(size_of(x.aval) for x in [*eqn.invars, *eqn.outvars]))
    elements = float(sum(_elements(v) for v in eqn.outvars))
    if name in _TRANSCENDENTAL:
        return Cost(0.0, elements, moved)
    return Cost(float(_flops(eqn, elements)), 0.0, moved)


def _elements(x: Any) -> int:
    return prod(getattr(x.aval, "shape", ()))


def _flops(eqn: JaxprEqn, elements: float) -> float:
    name, params, form = eqn.primitive.name, eqn.params, eqn.primitive.form
    shape: tuple[int, ...] = getattr(eqn.invars[0].aval, "shape", ()) if eqn.invars else ()
    if name == "dot_general":
        depth = prod(shape[i] for i in params["dimension_numbers"][0][0])
        return 2 * elements * depth
    if name == "conv_general_dilated":
        kernel = eqn.invars[1].aval.shape
        return 2 * elements * prod(kernel) / kernel[params["dimension_numbers"].rhs_spec[0]]
    if name.startswith("reduce_window") or name == "select_and_scatter_add":
        return elements * prod(params["window_dimensions"])
    if name.startswith("cum"):
        return elements
    if form == "reduce" or name.startswith(("reduce_", "arg")):
        return max(_elements(eqn.invars[0]) - elements, 0)
    if name in ("sort", "top_k"):
        n = shape[params.get("dimension", -1)] if shape else 1
        return _elements(eqn.invars[0]) * log2(max(n, 2))
    if name == "fft":
        return 5 * _elements(eqn.invars[0]) * log2(max(prod(params["fft_lengths"]), 2))
    if name in _CUBIC:
        return _CUBIC[name] * prod(shape[:-1]) * shape[-1] ** 2
    if name == "triangular_solve":
        return elements * shape[-1]
    if name.startswith("scatter"):
        return _elements(eqn.invars[2])
    return elements if form in ("map", "clamp") else 0.0


# --- kernels --------------------------------------------------------------------------------------


def kernel_bytes(kernel: Kernel) -> tuple[int, int]:
    """Bytes that a kernel reads and writes; those that it meets again count once."""
    touched: dict[tuple[int, bool], int] = {}

    def note(buffer: int, wrote: bool, count: int) -> None:
        b = kernel.buffers[buffer]
        if b.role != "row":
            key = buffer, wrote
            touched[key] = min(touched.get(key, 0) + count, b.size)

    met: set[tuple[int, Any]] = set()

    def visit(body: list[Any], extents: dict[str, int]) -> None:
        for s in body:
            if isinstance(s, Loop):
                visit(s.body, extents | {s.axis: s.extent})
                continue
            for v in walk(s.operands):
                if v.op == "load" and (v.attr[0], (v.attr[1], bool(v.args))) not in met:
                    met.add((v.attr[0], (v.attr[1], bool(v.args))))
                    axes = extents if v.args else [a for a, _ in v.attr[1].terms]
                    note(v.attr[0], False, prod(extents.get(a, 1) for a in axes))
            if isinstance(s, Store):
                axes = [a for a, _ in s.at.terms]
                note(s.buffer, True, prod(extents.get(a, 1) for a in axes))

    visit(kernel.body, {} if kernel.grid is None else dict([kernel.grid]))
    totals = [0, 0]
    for (buffer, wrote), count in touched.items():
        totals[wrote] += count * kernel.buffers[buffer].dtype.itemsize
    return totals[0], totals[1]
