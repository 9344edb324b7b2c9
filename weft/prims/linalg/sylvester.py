"""Equations with an unknown matrix between two triangular ones, as Schur forms give them."""

from __future__ import annotations

from typing import Any

from weft.base import lapack
from weft.core.ad import Zero
from weft.prims.arithmetic import conj
from weft.prims.linalg.matrix import MatrixPrimitive, Shape, is_complex, reference, square


class TriangularSylvester(MatrixPrimitive):
    """X of A X + X B = C, or of Aᴴ X + X Bᴴ = C, for Schur forms A and B.

    Where A and -B have (nearly) the same eigenvalue, the nearest equation that has a solution.
    """

    name = "triangular_sylvester"
    library = "trsyl: X of A X + X B = C, A and B triangular"
    ranks = (2, 2, 2)

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        a, b, c = shapes
        wanted = square(self.name, a), square(self.name, b)
        if c != wanted:
            raise ValueError(
                f"{self.name} with a of shape {a} and b of shape {b} needs c of shape {wanted},"
                f" got {c}"
            )
        return [(c, dtype)]

    ref = reference(lapack.triangular_sylvester)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        a, b, _ = primals
        if not all(type(t) is Zero for t in tangents[:2]):
            raise NotImplementedError(
                "triangular_sylvester has a derivative in c only, as Schur forms have none; or wrap"
                " the matrices they are made of in lax.stop_gradient"
            )
        return self.bind(*primals, **params), self.bind(a, b, tangents[2], **params)

    def transpose(self, ct: Any, a: Any, b: Any, c: Any, **params: Any) -> list[Any]:
        if type(ct) is Zero:
            return [None, None, Zero(c.aval.to_cotangent_aval())]
        turned = {**params, "adjoint": not params["adjoint"]}
        # The primitive knows Aᴴ; what Aᵀ gives is the conjugate of what Aᴴ makes of conjugates.
        if is_complex(a):
            return [None, None, conj(self.bind(a, b, conj(ct), **turned))]
        return [None, None, self.bind(a, b, ct, **turned)]


triangular_sylvester_p = TriangularSylvester()
