"""Cases of ``scipy.linalg``."""

from typing import Any

from tests.differential.harness import COMPLEX, FLOATS, Spec, Table
from tests.differential.numpy_products import definite, regular

table = Table("scipy.linalg")
BOTH = FLOATS + COMPLEX
LOOSE: dict[str, Any] = {"ulp": 1024, "scaled": True}
square, positive = Spec((4, 4), make=regular), Spec((4, 4), make=definite)

table.add("det inv expm", None, square, dtypes=BOTH, **LOOSE)
table.add(
    "cholesky",
    lambda m, x: [m.cholesky(x), m.cholesky(x, lower=True)],
    positive,
    dtypes=BOTH,
    **LOOSE,
)
table.add(
    "cho_factor",
    lambda m, x, b: [
        m.cho_solve(m.cho_factor(x), b),
        m.cho_solve(m.cho_factor(x, lower=True), b),
    ],
    positive,
    (4, 2),
    dtypes=BOTH,
    **LOOSE,
)
table.add(
    "lu",
    lambda m, x, b: [
        *m.lu(x),
        *m.lu_factor(x),
        m.lu_solve(m.lu_factor(x), b),
        m.lu_solve(m.lu_factor(x), b, trans=1),
    ],
    square,
    (4, 2),
    dtypes=BOTH,
    dtype=False,
    **LOOSE,
)
table.add(
    "solve",
    lambda m, x, b: [m.solve(x, b), m.solve(x, b[:, 0]), m.solve(x, b, assume_a="pos")],
    positive,
    (4, 2),
    dtypes=BOTH,
    **LOOSE,
)
table.add(
    "solve_triangular",
    lambda m, x, b: [
        m.solve_triangular(x, b),
        m.solve_triangular(x, b, lower=True),
        m.solve_triangular(x, b, trans=1),
        m.solve_triangular(x, b, lower=True, trans="T", unit_diagonal=True),
    ],
    square,
    (4, 2),
    dtypes=BOTH,
    **LOOSE,
)
table.add(
    "eigh",
    lambda m, x: [
        m.eigh(x, eigvals_only=True),
        (lambda w, v: (v * w) @ v.conj().T)(*m.eigh(x)),
        m.eigh(x, lower=False, eigvals_only=True),
    ],
    positive,
    dtypes=BOTH,
    **LOOSE,
)
table.add(
    "eigh_tridiagonal",
    lambda m, d, e: m.eigh_tridiagonal(d, e, eigvals_only=True),
    (5,),
    (4,),
    **LOOSE,
)
table.add(
    "svd",
    lambda m, x: [
        m.svd(x, compute_uv=False),
        (lambda u, s, v: (u * s) @ v)(*m.svd(x, full_matrices=False)),
    ],
    (4, 3),
    dtypes=BOTH,
    **LOOSE,
)
table.add(
    "qr",
    lambda m, x: [
        (lambda q, r: q @ r)(*m.qr(x)),
        (lambda q, r: q @ r)(*m.qr(x, mode="economic")),
        abs(m.qr(x, mode="r")[0]),
    ],
    (4, 3),
    dtypes=BOTH,
    **LOOSE,
)
table.add(
    "qr",
    lambda m, x, c: (lambda q, r: [q @ r[:, :1]])(*m.qr_multiply(x, c)),
    square,
    (4, 4),
    label="multiply",
    **LOOSE,
)
table.add(
    "hessenberg",
    lambda m, x: (lambda h, q: q @ h @ q.conj().T)(*m.hessenberg(x, calc_q=True)),
    square,
    dtypes=BOTH,
    **LOOSE,
)
table.add(
    "schur",
    lambda m, x: [
        (lambda t, z: z @ t @ z.conj().T)(*m.schur(x, output="complex")),
        (lambda t, z: z @ t @ z.conj().T)(*m.schur(x)),
        (lambda t, z: z @ t @ z.conj().T)(*m.rsf2csf(*m.schur(x))),
    ],
    square,
    dtype=False,
    **LOOSE,
)
table.add("sqrtm", lambda m, x: m.sqrtm(x), positive, dtype=False, **LOOSE)
table.add("funm", lambda m, x: m.funm(x, lambda v: v * v), square, dtype=False, **LOOSE)
table.add("expm", lambda m, x: m.expm(x), (2, 3, 3), dtypes=BOTH, **LOOSE)
table.add("expm_frechet", lambda m, x, e: list(m.expm_frechet(x, e)), (3, 3), (3, 3), **LOOSE)
table.add("polar", lambda m, x: list(m.polar(x)), square, dtypes=BOTH, **LOOSE)
table.add(
    "solve_sylvester",
    lambda m, a, b, q: m.solve_sylvester(a, b, q),
    square,
    Spec((3, 3), make=regular),
    (4, 3),
    **LOOSE,
)
table.add(
    "block_diag",
    lambda m, x, y: [
        m.block_diag(x[:, None], y[None]),
        m.circulant(x),
        m.companion(y),
        *(m.convolution_matrix(x, 5, mode=k) for k in ("full", "same", "valid")),
        m.hankel(x),
        m.hankel(x, y),
        m.toeplitz(x),
        m.toeplitz(x, y),
        m.leslie(x, y[1:]),
        m.fiedler(x),
        m.fiedler_companion(y),
    ],
    (3,),
    Spec((3,), low=1),
    ulp=4,
)
table.add(
    "dft",
    lambda m: [
        m.dft(5),
        m.dft(4, scale="sqrtn"),
        m.hadamard(4),
        m.helmert(4),
        m.helmert(3, full=True),
        m.hilbert(4),
        m.invhilbert(4),
        m.pascal(4),
        m.pascal(4, kind="lower"),
        m.invpascal(4),
    ],
    ulp=16,
    scaled=True,
    dtype=False,
)
