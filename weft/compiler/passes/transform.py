"""Fourier transforms along any axis: transposes around a transform of the last one folded into it.

Transforms along columns need no transposes: their lanes are neighbouring columns.
"""

from __future__ import annotations

from typing import Any

from weft.compiler.passes.contract import uses_of
from weft.core.jaxpr import ClosedJaxpr, Literal


def transform(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with a transform between two transposes, one the other's inverse, as one.

    What nothing needs any more is left for ``prune``.
    """
    jaxpr = closed.jaxpr
    if not any(eqn.primitive.name == "fft" for eqn in jaxpr.eqns):
        return closed
    uses = uses_of(jaxpr)
    made: dict[Any, Any] = {}
    eqns: list[Any] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.permutes and uses[eqn.invars[0]] == 1:
            eqn = _along(eqn, made) or eqn
        for v in eqn.outvars:
            made[v] = eqn
        eqns.append(eqn)
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), closed.consts)


def _along(back: Any, made: dict[Any, Any]) -> Any:
    """The transform that a transpose of one of a transpose is, or None."""
    inner = made.get(back.invars[0])
    if inner is None or inner.primitive.name != "fft" or len(inner.params["fft_lengths"]) != 1:
        return None
    forth = made.get(inner.invars[0]) if type(inner.invars[0]) is not Literal else None
    if forth is None or not forth.primitive.permutes:
        return None
    if inner.params["fft_type"].name not in ("FFT", "IFFT"):  # half spectra are packed along rows
        return None
    order = forth.params["permutation"]
    axis = order[-1]
    rest = [i for i in range(len(order)) if i != axis]
    if list(order[:-1]) != rest or [order[i] for i in back.params["permutation"]] != sorted(order):
        return None
    return inner.replace(
        invars=forth.invars, outvars=back.outvars, params={**inner.params, "axis": axis}
    )
