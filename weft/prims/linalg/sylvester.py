"""Equations with an unknown matrix between two triangular ones, as Schur forms give them."""

from __future__ import annotations

from typing import Any

from weft.lapack import stacks as lapack
from weft.prims.linalg.matrix import LinearInLast, Shape, reference, square


class TriangularSylvester(LinearInLast):
    """X of A X + X B = C, or of Aᴴ X + X Bᴴ = C, for Schur forms A and B.

    Where A and -B have (nearly) the same eigenvalue, the nearest equation that has a solution.
    """

    name = "triangular_sylvester"
    library = "trsyl: X of A X + X B = C, A and B triangular"
    ranks = (2, 2, 2)
    adjoint = "adjoint"
    why = "as Schur forms have none; or wrap the matrices they are made of in lax.stop_gradient"

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


triangular_sylvester_p = TriangularSylvester()
