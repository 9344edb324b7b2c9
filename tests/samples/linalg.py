"""Samples of linear algebra: well-conditioned matrices, alone and in stacks."""

from functools import partial

import numpy as np

from tests.samples import Sample, between, fixed, normal, whole
from weft import lax
from weft.lax import linalg
from weft.prims.linalg.matrix import matmul, mH, triu
from weft.prims.linalg.sylvester import triangular_sylvester_p

REAL = ("float32", "float64")
INEXACT = (*REAL, "complex64", "complex128")
# Errors grow with the size and the condition number of the matrices, about 10 each here.
TOL = 400
FIRST_ONLY = "a second derivative goes through eigenvectors, which must be asked for"


def spread(n, *stack, m=None):
    """Matrices whose singular values are well apart from each other and from zero."""

    def make(rng):
        columns = m or n
        k = min(n, columns)
        left = np.linalg.qr(rng.standard_normal((*stack, n, n)))[0][..., :k]
        right = np.linalg.qr(rng.standard_normal((*stack, columns, columns)))[0][..., :k, :]
        return (left * (1.0 + 0.7 * np.arange(k))) @ right

    return make


def dominant(n, *stack):
    """Matrices with a large, increasing diagonal: pivots are clear, eigenvalues apart."""
    return lambda rng: rng.standard_normal((*stack, n, n)) * 0.3 + np.diag(3.0 + 2 * np.arange(n))


def upper(n):
    return lambda rng: np.triu(dominant(n)(rng))


def sylvester(adjoint):
    return partial(triangular_sylvester_p.bind, adjoint=adjoint)


def cholesky(x):
    return linalg.cholesky(matmul(x, mH(x)), symmetrize_input=False)


def hermitian(x):
    return lax.add(x, mH(x))


def cholesky_update(r, w):
    return linalg.cholesky_update(triu(r), w)


def eigh(x, **options):
    """Of the eigenvectors only what does not depend on their phase."""
    v, w = linalg.eigh(hermitian(x), symmetrize_input=False, **options)
    return abs(v), w


def svd(x, **options):
    out = linalg.svd(x, **options)
    return [abs(part) for part in out] if isinstance(out, (tuple, list)) else out


def sample(prim, label, args, fun, dtypes=INEXACT, **options):
    options = {"tol": TOL, **options}
    return Sample(f"{prim}_{label}", prim, args, fun=fun, dtypes=dtypes, **options)


def eigenvalues(x):
    options = {"compute_left_eigenvectors": False, "compute_right_eigenvectors": False}
    return linalg.eig(x, **options)[0]


def lu(x):
    return linalg.lu(x)[0]


def symmetric_product(a, c):
    return linalg.symmetric_product(a, c, alpha=2.0, beta=0.5)


SAMPLES = [
    sample("cholesky", "one", [dominant(3)], cholesky),
    sample("cholesky", "stack", [dominant(3, 2)], cholesky),
    sample("cholesky_update", "one", [upper(3), normal(3)], cholesky_update, REAL),
    sample("symmetric_product", "one", [normal(3, 2), normal(3, 3)], symmetric_product, REAL),
    sample("eigh", "one", [dominant(3)], eigh),
    sample("eigh", "stack", [dominant(3, 2)], eigh),
    sample("eigh", "subset", [dominant(4)], partial(eigh, subset_by_index=(1, 3))),
    sample("eig", "values", [dominant(3)], eigenvalues, order=1, notes=FIRST_ONLY),
    sample("eig", "stack", [dominant(3, 2)], eigenvalues, order=1, notes=FIRST_ONLY),
    sample("eig", "vectors", [dominant(3)], partial(linalg.eig, enable_eigvec_derivs=True)),
    sample("svd", "values", [spread(3, m=4)], partial(svd, compute_uv=False)),
    sample("svd", "wide", [spread(2, m=3)], partial(svd, full_matrices=False)),
    sample("svd", "tall", [spread(4, m=2)], partial(svd, full_matrices=False)),
    sample("svd", "square", [spread(3)], svd),
    sample("svd", "stack", [spread(2, 2, m=3)], partial(svd, full_matrices=False)),
    sample("svd", "full", [spread(2, m=3)], svd, wrt=(), notes="full U and V are not unique"),
    sample("qr", "square", [spread(3)], linalg.qr),
    sample("qr", "thin", [spread(4, m=2)], partial(linalg.qr, full_matrices=False)),
    sample("qr", "full", [spread(4, m=2)], linalg.qr),
    sample("qr", "stack", [spread(3, 2)], linalg.qr),
    sample("lu", "square", [dominant(3)], lu),
    sample("lu", "stack", [dominant(3, 2)], lu),
    sample("lu", "tall", [lambda rng: dominant(4)(rng)[:, :2]], lu),
    sample("lu", "wide", [lambda rng: dominant(4)(rng)[:2]], lu),
]

FLAGS = {
    "left_lower": (True, True, False, False, False),
    "left_upper_transposed": (True, False, True, False, False),
    "right_lower": (False, True, False, False, False),
    "right_upper_unit": (False, False, False, False, True),
    "conjugated": (True, True, True, True, False),
}


def triangular(left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    return partial(
        linalg.triangular_solve,
        left_side=left_side,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal,
    )


SAMPLES += [
    sample(
        "triangular_solve",
        label,
        [dominant(3), normal(3, 2) if flags[0] else normal(2, 3)],
        triangular(*flags),
        linear=((1,),),
    )
    for label, flags in FLAGS.items()
]
SAMPLES += [
    sample("triangular_solve", "stack", [dominant(3, 2), normal(2, 3, 2)],
           triangular(*FLAGS["left_lower"]), linear=((1,),)),
    sample("tridiagonal_solve", "one", [normal(4), between(3, 5, 4), normal(4), normal(4, 2)],
           linalg.tridiagonal_solve, linear=((3,),)),
    sample("tridiagonal_solve", "stack",
           [normal(2, 4), between(3, 5, 2, 4), normal(2, 4), normal(2, 4, 3)],
           linalg.tridiagonal_solve, linear=((3,),)),
    sample("tridiagonal_solve", "perturbed",
           [normal(4), between(3, 5, 4), normal(4), normal(4, 2)],
           partial(linalg.tridiagonal_solve, perturb_singular=True), linear=((3,),)),
    sample("ormqr", "left", [normal(3, 2), between(0.5, 1.5, 2), normal(3, 4)], linalg.ormqr,
           wrt=(2,), linear=((2,),)),
    sample("ormqr", "right", [normal(3, 2), between(0.5, 1.5, 2), normal(4, 3)],
           partial(linalg.ormqr, left=False, transpose=True), wrt=(2,), linear=((2,),)),
    sample("triangular_sylvester", "one", [upper(3), upper(2), normal(3, 2)], sylvester(False),
           wrt=(2,), linear=((2,),)),
    sample("triangular_sylvester", "adjoint", [upper(3), upper(2), normal(3, 2)], sylvester(True),
           wrt=(2,), linear=((2,),)),
    sample("householder_product", "tall", [normal(4, 3), between(0.5, 1.5, 3)],
           linalg.householder_product),
    sample("hessenberg", "one", [normal(4, 4)], linalg.hessenberg),
    sample("schur", "one", [normal(4, 4)], linalg.schur),
    sample("tridiagonal", "one", [normal(4, 4)], lambda x: linalg.tridiagonal(hermitian(x))),
    sample("tridiagonal", "stack", [normal(2, 3, 3)], lambda x: linalg.tridiagonal(hermitian(x))),
    Sample("lu_pivots_to_permutation", "lu_pivots_to_permutation",
           [whole(2, 5, 2, dtype=np.int32)], {"permutation_size": 5}, ("int32",)),
    Sample("geqrf_packed", "geqrf", [normal(4, 3)], dtypes=INEXACT, tol=TOL),
    Sample("geqp3", "geqp3", [normal(4, 3), fixed([0, 0, 0], np.int32)], {"use_magma": None},
           INEXACT, tol=TOL),
]  # fmt: skip
