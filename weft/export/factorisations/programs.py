"""Programs with their linear algebra written out, for targets without BLAS and LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import lax
from weft.base import knobs
from weft.compiler.expand import decomposition, substituted
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, jaxprs_in_params
from weft.export.factorisations import eliminations, reflectors, rotations, schur
from weft.export.factorisations.columns import is_complex
from weft.prims.dot import dot_general_p
from weft.prims.linalg.matrix import MatrixPrimitive

_FACTORISATIONS = {
    function.__name__: function
    for function in (
        eliminations.cholesky,
        eliminations.lu,
        eliminations.triangular_solve,
        eliminations.tridiagonal_solve,
        reflectors.geqrf,
        reflectors.geqp3,
        reflectors.hessenberg,
        reflectors.householder_product,
        reflectors.ormqr,
        reflectors.qr,
        reflectors.tridiagonal,
        rotations.eigh,
        rotations.svd,
        schur.eig,
        schur.schur,
        schur.triangular_sylvester,
    )
}
# What loops here are traced with, whatever the user's programs are.
_USUAL = {
    "numpy_dtype_promotion": "standard",
    "numpy_rank_promotion": "allow",
    "disable_jit": False,
}
_KINDS = frozenset("float32 float64 complex64 complex128".split())


def written_out(closed: ClosedJaxpr, lapack: bool, blas: bool) -> ClosedJaxpr:
    """The program with factorisations of empty matrices written out, which no library does, without
    ``lapack`` those of all others that are known here, and without ``blas`` complex products."""
    with knobs.scope(**_USUAL):
        jaxpr = _Writer(lapack, blas).jaxpr(closed.jaxpr)
    return closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, closed.consts)


class _Writer:
    """A walk over a program and those inside."""

    def __init__(self, lapack: bool, blas: bool) -> None:
        self.lapack, self.blas = lapack, blas

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        jaxpr = substituted(jaxpr, self._written)
        eqns = [self._inside(eqn) for eqn in jaxpr.eqns]
        if all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True)):
            return jaxpr
        return jaxpr.replace(eqns=eqns)

    def _written(self, eqn: JaxprEqn) -> Jaxpr | None:
        avals = [x.aval for x in (*eqn.invars, *eqn.outvars)]
        if eqn.primitive is dot_general_p:
            splits = not self.blas and avals[-1].dtype.kind == "c"
            return decomposition(eqn, _complex_product) if splits else None
        function = _FACTORISATIONS.get(eqn.primitive.name)
        if function is None or avals[0].dtype.name not in _KINDS:
            return None
        empty = any(0 in aval.shape for aval in avals)
        if (self.lapack and not empty) or all(0 in out.aval.shape for out in eqn.outvars):
            return None
        return decomposition(eqn, function)

    def _inside(self, eqn: JaxprEqn) -> JaxprEqn:
        params = {name: self._changed(value) for name, value in eqn.params.items()}
        if all(params[name] is value for name, value in eqn.params.items()):
            return eqn
        return eqn.replace(params=params)

    def _changed(self, value: Any) -> Any:
        if type(value) is ClosedJaxpr:
            jaxpr = self.jaxpr(value.jaxpr)
            return value if jaxpr is value.jaxpr else ClosedJaxpr(jaxpr, value.consts)
        if type(value) is Jaxpr:
            return self.jaxpr(value)
        if isinstance(value, tuple):
            parts = [self._changed(v) for v in value]
            if all(a is b for a, b in zip(parts, value, strict=True)):
                return value
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value


def _complex_product(a: Any, b: Any, *, preferred_element_type: Any, **params: Any) -> Any:
    """Products of real and imaginary parts."""
    dtype = np.dtype(preferred_element_type or a.dtype)
    params["preferred_element_type"] = np.dtype(f"f{dtype.itemsize // 2}")

    def times(x: Any, y: Any) -> Any:
        return dot_general_p.bind(x, y, **params)

    (ar, ai), (br, bi) = (
        (lax.real(x), lax.imag(x)) if is_complex(x) else (x, None) for x in (a, b)
    )
    real, parts = times(ar, br), []
    if ai is not None and bi is not None:
        real = lax.sub(real, times(ai, bi))
    if ai is not None:
        parts.append(times(ai, br))
    if bi is not None:
        parts.append(times(ar, bi))
    return lax.complex(real, parts[0] if len(parts) == 1 else lax.add(*parts))


def needs_lapack(eqn: JaxprEqn) -> bool:
    """Whether an equation is for LAPACK, once others are written out."""
    known = isinstance(eqn.primitive, MatrixPrimitive) and eqn.primitive.library
    return bool(known) and any(0 not in out.aval.shape for out in eqn.outvars)


def first_of(jaxpr: Jaxpr, test: Callable[[JaxprEqn], bool]) -> JaxprEqn | None:
    """The first equation of a program and those inside that passes a test."""
    for eqn in jaxpr.eqns:
        if test(eqn):
            return eqn
        for inner in jaxprs_in_params(eqn.params):
            found = first_of(inner, test)
            if found is not None:
                return found
    return None
