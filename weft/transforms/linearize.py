"""Linearisation and reverse mode: jvp, partially evaluated on known primals, then transposed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import dtypes
from weft.base.lazy import Late
from weft.core.ad import UndefPrimal, Zero, instantiate_array
from weft.core.jaxpr import ClosedJaxpr, eval_jaxpr
from weft.core.trace import JVP, TRANSPOSE, state, typeof
from weft.transforms.jvp import JVPTrace
from weft.transforms.partial_eval import PartialEvalTrace, prune
from weft.transforms.transpose import backward_pass

# needed with mutable references only
without_refs = Late("weft.transforms.discharge")


class Linearized:
    """A linear program from input tangents to output tangents; ``None`` marks zero tangents."""

    __slots__ = ("program", "in_avals", "out_avals", "nonzero_outs")

    def __init__(
        self, program: ClosedJaxpr, in_avals: list[Any], out_avals: list[Any], nonzero: list[bool]
    ) -> None:
        self.program = program
        self.in_avals = in_avals
        self.out_avals = out_avals
        self.nonzero_outs = nonzero

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """Output tangents of input tangents; those of references are references."""
        refs = [t for t, a in zip(tangents, self.in_avals, strict=True) if a.is_ref]
        given = [t[...] if a.is_ref else t for t, a in zip(tangents, self.in_avals, strict=True)]
        found = eval_jaxpr(self.program.jaxpr, self.program.consts, *given)
        for ref, last in zip(refs, found[len(found) - len(refs) :], strict=True):
            ref[...] = last
        outs = iter(found)
        return [
            next(outs) if nonzero else instantiate_array(Zero(aval))
            for aval, nonzero in zip(self.out_avals, self.nonzero_outs, strict=True)
        ]

    def pull(
        self,
        cotangents: Sequence[Any],
        last: Sequence[Any] = (),
        unwanted: Sequence[bool] = (),
    ) -> list[Any]:
        """Input cotangents (symbolic zeros included) of output cotangents.

        ``last`` are the cotangents of what references among the inputs hold at the end; those of
        ``unwanted`` inputs may be left out.
        """
        wanted = [ct for ct, nz in zip(cotangents, self.nonzero_outs, strict=True) if nz]
        wanted.extend(last)
        unknown = [UndefPrimal(a.inner_aval if a.is_ref else a) for a in self.in_avals]
        program = self.program
        return backward_pass(program.jaxpr, program.consts, unknown, wanted, unwanted, TRANSPOSE)


def _is_void(aval: Any) -> bool:
    return getattr(aval, "dtype", None) == dtypes.float0


def linearize(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    perturbed: Sequence[bool] | None = None,
) -> tuple[list[Any], Linearized]:
    """Return the results of a function of flat arguments, and its linear map at ``primals``.

    Args:
        fun: the function.
        primals: the arguments.
        perturbed: which arguments have a tangent: those are the inputs of the linear map. By
            default all.

    Returns:
        A pair of the list of results and the linear map.

    Example:
        >>> import weft.numpy as jnp
        >>> out, linear = linearize(lambda x: [jnp.sin(x)], [0.0])
        >>> [float(x) for x in out]
        [0.0]
    """
    parent, names = state.trace, state.name_stack
    partial = PartialEvalTrace(parent)
    trace = JVPTrace(partial, linear=True)
    if perturbed is None:
        perturbed = [True] * len(primals)
    in_avals = []
    args = []
    for x, p in zip(primals, perturbed, strict=True):
        if p:
            aval = typeof(x).to_tangent_aval()
            in_avals.append(aval)
            tangent = partial.new_arg(aval)
            # integers have no derivatives: nothing is to be computed of their tangents
            args.append(trace.wrap(x, Zero(aval) if _is_void(aval) else tangent))
        else:
            args.append(x)
    state.trace, state.name_stack = trace, JVP.inside(names)
    try:
        outs = [trace.split(x) for x in fun(*args)]
        state.trace = partial
        nonzero = [type(t) is not Zero for _, t in outs]
        jaxpr, consts = partial.to_jaxpr([t for _, t in outs if type(t) is not Zero])
    finally:
        state.trace, state.name_stack = parent, names
        trace.alive = partial.alive = False
    out_avals = [t.aval if type(t) is Zero else typeof(t) for _, t in outs]
    program = prune(jaxpr, consts)
    if any(a.is_ref for a in in_avals) or any(e.on_refs for e in program.effects):
        program = without_refs.discharge_linear(program)
    return [p for p, _ in outs], Linearized(program, in_avals, out_avals, nonzero)
