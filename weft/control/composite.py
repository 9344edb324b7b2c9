"""Operations that are made of others and keep a name of their own in programs."""

from __future__ import annotations

from typing import Any

from weft.control.jit import Called, jit_p, jit_parameters, used_axis_names
from weft.core.ad import Zero
from weft.core.batching import AxisData
from weft.core.jaxpr import ClosedJaxpr


class Composed(Called):
    """A program with a name; derivatives and batches are those of the program, as calls of it."""

    def jvp(self, primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, **params: Any) -> Any:
        if all(type(t) is Zero for t in tangents):
            outs = self.bind(*primals, jaxpr=jaxpr, **params)
            return outs, [Zero(aval.to_tangent_aval()) for aval in jaxpr.out_avals]
        return jit_p.jvp(primals, tangents, **jit_parameters(jaxpr, self.name))

    def transpose(self, cts: Any, *args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return jit_p.transpose(cts, *args, **jit_parameters(jaxpr, self.name))

    def batch(self, axis: AxisData, args: Any, dims: Any, *, jaxpr: ClosedJaxpr, **params: Any):
        return jit_p.batch(axis, args, dims, **jit_parameters(jaxpr, self.name))

    def axis_names(self, params: Any) -> Any:
        return used_axis_names(params["jaxpr"].jaxpr)


class Composite(Composed):
    """An operation of the user's own, known by its name.

    It has no derivative, as in JAX: that of the decomposition would be of another operation.
    """

    name = "composite"
    holes = {
        "jvp": "users define one with custom_jvp",
        "transpose": "users define one with custom_jvp",
    }

    def jvp(self, primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, **params: Any) -> Any:
        if all(type(t) is Zero for t in tangents):
            return super().jvp(primals, tangents, jaxpr=jaxpr, **params)
        raise ValueError(
            f"lax.composite {params['name']!r} has no derivative; give it one with weft.custom_jvp"
            " or weft.custom_vjp around the composite"
        )


composite_p = Composite()
