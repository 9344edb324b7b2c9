"""Loops that carry complex numbers, as loops that carry their real and imaginary parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.prims.arithmetic import complex_, imag, real


def _is_complex(x: Any) -> bool:
    return typeof(x).dtype.kind == "c"


def _apart(xs: Sequence[Any]) -> list[Any]:
    """Values, complex ones as two."""
    return [part for x in xs for part in ((real(x), imag(x)) if _is_complex(x) else (x,))]


def _together(parts: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Values of these types from their parts."""
    rest = iter(parts)
    return [complex_(next(rest), next(rest)) if a.dtype.kind == "c" else next(rest) for a in avals]


def _part_avals(avals: Sequence[Any]) -> list[Any]:
    found = []
    for a in avals:
        if a.dtype.kind == "c":
            found += [ShapedArray(a.shape, f"float{4 * a.dtype.itemsize}")] * 2
        else:
            found.append(a)
    return found


def split_carry(avals: Sequence[Any]) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Programs that take a carry apart and that put it together."""
    before = stage(lambda *xs: _apart(xs), avals)
    return before, stage(lambda *xs: _together(xs, avals), _part_avals(avals))


def on_parts(
    closed: ClosedJaxpr, first: int, avals: Sequence[Any], carries: bool = True
) -> ClosedJaxpr:
    """A program on the parts of the carry, whose operands begin at ``first``; it may give one."""
    fun, count = jaxpr_as_fun(closed), len(avals)
    given = closed.in_avals

    def run(*args: Any) -> list[Any]:
        end = len(args) - (len(given) - first - count)
        carry = _together(args[first:end], avals)
        outs = fun(*args[:first], *carry, *args[end:])
        return [*_apart(outs[:count]), *outs[count:]] if carries else outs

    rest = given[first + count :]
    return stage(run, [*given[:first], *_part_avals(avals), *rest])
