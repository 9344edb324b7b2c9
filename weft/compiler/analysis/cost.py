"""What programs and kernels cost: operations on numbers, and bytes that pass through memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from weft.base.record import Record
from weft.core.interpret import has_data, storage_dtype
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, jaxprs_in_params
from weft.kernel.kernel import Kernel, Loop, Store
from weft.kernel.nodes import walk

# What a function of numbers costs next to an operation; bytes that do.
FUNCTION_OPS, BYTES_PER_OP = 8, 4


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


def cost(jaxpr: Jaxpr, rounds: int = 1) -> Cost:
    """The cost of a program whose equations run one by one, each on values in memory.

    Of a loop whose length is not known so many ``rounds`` count, of branches the dearest.
    """
    total = Cost()
    for eqn in jaxpr.eqns:
        total = total.plus(equation_cost(eqn, rounds))
    return total


def operations(jaxpr: Jaxpr, rounds: int = 1) -> float:
    """The cost of a program as one number: roughly its operations; ``rounds`` is as for `cost`."""
    found = cost(jaxpr, rounds)
    return found.flops + FUNCTION_OPS * found.transcendentals + found.moved / BYTES_PER_OP


def equation_cost(eqn: JaxprEqn, rounds: int = 1) -> Cost:
    """The cost of one equation, its inner programs included; ``rounds`` is as for `cost`."""
    primitive, params = eqn.primitive, eqn.params
    ins, outs = [x.aval for x in eqn.invars], [v.aval for v in eqn.outvars]
    moved = float(sum(map(size_of, [*ins, *outs])))
    if primitive.flops is not None:
        return Cost(float(primitive.flops(ins, outs, params)), 0.0, moved)
    inner = [cost(j, rounds) for j in jaxprs_in_params(params)]
    if primitive.nodes == "branch":
        return max(inner, key=lambda c: c.moved, default=Cost())
    if inner:
        times = primitive.rounds(params) or (rounds if primitive.nodes == "loop" else 1)
        total = Cost()
        for c in inner:
            total = total.plus(c, times)
        return total
    elements = float(sum(prod(getattr(a, "shape", ())) for a in outs))
    if primitive.function_ops:
        return Cost(0.0, elements, moved)
    return Cost(elements if primitive.form == "map" else 0.0, 0.0, moved)


# --- kernels --------------------------------------------------------------------------------------


def unfused_costs(closed: ClosedJaxpr) -> dict[str, float]:
    """Operations and bytes of a program whose equations run one by one, under XLA's names."""
    total = cost(closed.jaxpr)
    found = {
        "flops": total.flops,
        "transcendentals": total.transcendentals,
        "bytes accessed": total.moved,
    }
    for i, aval in enumerate(closed.in_avals):
        found[f"bytes accessed{i}{{}}"] = float(size_of(aval))
    found["bytes accessedout{}"] = float(sum(map(size_of, closed.out_avals)))
    return found


class CompiledMemoryStats(Record):
    """Bytes of an executable: of what it is given, gives, needs in between, and is made of."""

    generated_code_size_in_bytes: int = 0
    argument_size_in_bytes: int = 0
    output_size_in_bytes: int = 0
    alias_size_in_bytes: int = 0
    temp_size_in_bytes: int = 0
    host_generated_code_size_in_bytes: int = 0
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0
    peak_memory_in_bytes: int = 0


def memory_stats(
    closed: ClosedJaxpr, taken: Sequence[int] = (), arena: int = 0, code: int = 0
) -> CompiledMemoryStats:
    """Bytes of a program with results in the memory of arguments that are ``taken``."""
    given = sum(map(size_of, closed.in_avals))
    made = sum(map(size_of, closed.out_avals))
    alias = sum(size_of(closed.in_avals[i]) for i in taken)
    return CompiledMemoryStats(
        generated_code_size_in_bytes=code,
        argument_size_in_bytes=given,
        output_size_in_bytes=made,
        alias_size_in_bytes=alias,
        temp_size_in_bytes=arena,
        peak_memory_in_bytes=given + made - alias + arena,
    )


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
