"""Matrices in full: ``scipy.linalg``, and what the tables of ``linalg`` leave out."""

from typing import Any

import numpy as np

from ..table import ALL, VALUE, Adder, Tol, family

WIDE = Tol(512, True)


@family("scipy_linalg", WIDE)
def scipy_linalg(add: Adder) -> None:
    """Factorisations, solvers, functions of matrices; unique results only."""
    for d in ("f32", "f64", "c64"):
        rng = add.rng("matrices" + d)
        a, s, b = rng.square(3, d), rng.spd(3, d), rng.f((3, 2), d)
        many = rng.square(3, d, (2,))
        tables: dict[str, tuple[Any, list[Any]]] = {
            "cholesky": (lambda m, s: m.cholesky(s), [s]),
            "cholesky/lower": (lambda m, s: m.cholesky(s, lower=True), [s]),
            "cho_factor": (lambda m, s: m.cho_factor(s)[0], [s]),
            "cho_solve": (lambda m, s, b: m.cho_solve(m.cho_factor(s), b), [s, b]),
            "cho_solve/lower": (
                lambda m, s, b: m.cho_solve(m.cho_factor(s, lower=True), b),
                [s, b],
            ),
            "det": (lambda m, a: m.det(a), [a]),
            "det/many": (lambda m, a: m.det(a), [many]),
            "inv": (lambda m, a: m.inv(a), [a]),
            "inv/many": (lambda m, a: m.inv(a), [many]),
            "lu": (lambda m, a: m.lu(a), [a]),
            "lu/permute": (lambda m, a: m.lu(a, permute_l=True), [a]),
            "lu_factor": (lambda m, a: m.lu_factor(a), [a]),
            "lu_solve": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b), [a, b]),
            "lu_solve/trans": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b, trans=1), [a, b]),
            "solve": (lambda m, a, b: m.solve(a, b), [a, b]),
            "solve/pos": (lambda m, a, b: m.solve(a, b, assume_a="pos"), [s, b]),
            "solve/sym": (lambda m, a, b: m.solve(a, b, assume_a="sym"), [s, b]),
            "solve/wrong": (lambda m, a, b: m.solve(a, b, assume_a="wrong"), [s, b]),
            "solve/vector": (lambda m, a, b: m.solve(a, b[:, 0]), [a, b]),
            "solve_triangular": (lambda m, a, b: m.solve_triangular(a, b), [a, b]),
            "solve_triangular/lower": (
                lambda m, a, b: m.solve_triangular(a, b, lower=True, trans="T"),
                [a, b],
            ),
            "solve_triangular/unit": (
                lambda m, a, b: m.solve_triangular(a, b, unit_diagonal=True, trans=2),
                [a, b],
            ),
            "expm": (lambda m, a: m.expm(a / 4), [a]),
            "expm/many": (lambda m, a: m.expm(a / 4), [many]),
            "expm_frechet": (lambda m, a, e: m.expm_frechet(a / 4, e), [a, s]),
            "expm_frechet/one": (
                lambda m, a, e: m.expm_frechet(a / 4, e, compute_expm=False),
                [a, s],
            ),
            "sqrtm": (lambda m, s: m.sqrtm(s), [s]),
            "polar": (lambda m, a: m.polar(a), [a]),
            "polar/left": (lambda m, a: m.polar(a, side="left"), [a]),
            "polar/svd": (lambda m, a: m.polar(a, method="svd"), [a]),
            "funm": (lambda m, a: m.funm(a, lambda x: x * x), [a]),
            "svd/values": (lambda m, a: m.svd(a, compute_uv=False), [a]),
            "eigh/values": (lambda m, a: m.eigh(a, eigvals_only=True), [s]),
            "eigh/two": (lambda m, a, b: m.eigh(a, b, eigvals_only=True), [s, s + s]),
            "qr/r": (lambda m, a: m.qr(a, mode="r"), [a]),
            "hessenberg": (lambda m, a: m.hessenberg(a), [a]),
            "schur/product": (lambda m, a: product(m.schur(a)), [s]),
            "rsf2csf": (lambda m, a: product(m.rsf2csf(*m.schur(a))), [a]),
            "solve_sylvester": (lambda m, a, b, c: m.solve_sylvester(a, b, c), [a, s, a]),
            "toeplitz": (lambda m, a: m.toeplitz(a[0], a[1]), [a]),
            "hankel": (lambda m, a: m.hankel(a[0], a[1]), [a]),
            "hankel/one": (lambda m, a: m.hankel(a[0]), [a]),
            "circulant": (lambda m, a: m.circulant(a[0]), [a]),
            "companion": (lambda m, a: m.companion(a[0]), [a]),
            "fiedler": (lambda m, a: m.fiedler(a[0]), [a]),
            "fiedler_companion": (lambda m, a: m.fiedler_companion(a[0]), [a]),
            "leslie": (lambda m, a: m.leslie(a[0], a[1, :2]), [a]),
            "convolution_matrix": (lambda m, a: m.convolution_matrix(a[0], 4), [a]),
            "convolution_matrix/same": (
                lambda m, a: m.convolution_matrix(a[0], 4, mode="same"),
                [a],
            ),
            "block_diag": (lambda m, a, b: m.block_diag(a, b, 2.0), [a, b]),
            "eigh/product": (lambda m, a: spectral(m.eigh(a)), [s]),
            "svd/product": (lambda m, a: recomposed(m.svd(a, full_matrices=False)), [a]),
            "qr/product": (lambda m, a: product(m.qr(a, mode="economic"), 1), [a]),
            "qr_multiply": (lambda m, a, b: abs(m.qr_multiply(a, b, mode="left")[0]), [a, b]),
            "cholesky/wrong": (lambda m, a, b: m.cholesky(b), [a, b]),
            "inv/wrong": (lambda m, a, b: m.inv(b), [a, b]),
            "det/wrong": (lambda m, a, b: m.det(b), [a, b]),
            "solve/shapes": (lambda m, a, b: m.solve(a, b[:2]), [a, b]),
        }
        for name, (f, args) in tables.items():
            fn = lambda J, *xs, f=f: f(J.sla, *xs)
            modes = ALL if d == "f32" else VALUE
            modes = VALUE if name.startswith(("schur", "rsf2csf", "hessenberg")) else modes
            tol = Tol(8192, True) if name.startswith(("sqrtm", "funm", "rsf")) else WIDE
            add(f"{name}/{d}", fn, args, modes=modes, error="maybe", tol=tol)
    made(add)


def product(parts: Any, last: int = 0) -> Any:
    """A matrix from its factors: what they multiply to does not depend on signs."""
    if last:
        return parts[0] @ parts[1]
    triangle, vectors = parts
    return vectors @ triangle @ vectors.conj().T


def spectral(parts: Any) -> Any:
    values, vectors = parts
    return values, (vectors * values) @ vectors.conj().T


def recomposed(parts: Any) -> Any:
    left, values, right = parts
    return values, (left * values) @ right


def made(add: Adder) -> None:
    """Matrices made of a size."""
    for n in (1, 2, 4, 0, 3):
        table: dict[str, Any] = {
            "dft": lambda m, n=n: m.dft(n),
            "dft/scale": lambda m, n=n: m.dft(n, scale="sqrtn"),
            "hadamard": lambda m, n=n: m.hadamard(n),
            "helmert": lambda m, n=n: m.helmert(n),
            "helmert/full": lambda m, n=n: m.helmert(n, full=True),
            "hilbert": lambda m, n=n: m.hilbert(n),
            "invhilbert": lambda m, n=n: m.invhilbert(n),
            "pascal": lambda m, n=n: m.pascal(n),
            "pascal/lower": lambda m, n=n: m.pascal(n, kind="lower"),
            "invpascal": lambda m, n=n: m.invpascal(n),
            "invpascal/upper": lambda m, n=n: m.invpascal(n, kind="upper"),
        }
        for name, f in table.items():
            add(f"{name}/{n}", lambda J, f=f: f(J.sla), error="maybe")
    for d in ("f32", "f64"):
        rng = add.rng("tridiagonal" + d)
        diagonal, off = rng.f((4,), d), rng.f((3,), d)
        fn = lambda J, a, b: J.sla.eigh_tridiagonal(a, b, eigvals_only=True)
        add(f"eigh_tridiagonal/{d}", fn, [diagonal, off], modes=VALUE, tol=Tol(4096, True))
        for select, span in (("i", (0, 1)), ("v", (-0.5, 1.5)), ("wrong", None)):
            fn = lambda J, a, b, s=select, r=span: J.sla.eigh_tridiagonal(
                a, b, eigvals_only=True, select=s, select_range=r
            )
            key = f"eigh_tridiagonal/{select}/{d}"
            add(key, fn, [diagonal, off], modes=VALUE, error="maybe", tol=Tol(4096, True))


@family("linalg_rest", WIDE)
def linalg_rest(add: Adder) -> None:
    """numpy.linalg and lax.linalg where other tables have no derivative or no batch."""
    for d in ("f32", "f64", "c64"):
        rng = add.rng("rest" + d)
        a, s, b = rng.square(3, d), rng.spd(3, d), rng.f((3, 2), d)
        tall = rng.f((4, 3), d)
        cube, four = rng.f((2, 3, 4), d), rng.square(4, d)
        table: dict[str, tuple[Any, list[Any]]] = {
            "cond": (lambda J, x: J.jnp.linalg.cond(x), [a]),
            "cond/1": (lambda J, x: J.jnp.linalg.cond(x, 1), [a]),
            "cond/inf": (lambda J, x: J.jnp.linalg.cond(x, np.inf), [a]),
            "cond/fro": (lambda J, x: J.jnp.linalg.cond(x, "fro"), [a]),
            "cond/tall": (lambda J, x: J.jnp.linalg.cond(x, 2), [tall]),
            "cond/wrong": (lambda J, x: J.jnp.linalg.cond(x, "wrong"), [a]),
            "eigh": (lambda J, x: spectral(J.jnp.linalg.eigh(x)), [s]),
            "eigh/upper": (lambda J, x: spectral(J.jnp.linalg.eigh(x, UPLO="U")), [s]),
            "eigvalsh": (lambda J, x: J.jnp.linalg.eigvalsh(x), [s]),
            "lstsq": (lambda J, x, y: J.jnp.linalg.lstsq(x, y)[0], [tall, rng.f((4,), d)]),
            "lstsq/all": (
                lambda J, x, y: J.jnp.linalg.lstsq(x, y, numpy_resid=True),
                [tall, rng.f((4, 2), d)],
            ),
            "matmul": (lambda J, x, y: J.jnp.linalg.matmul(x, y), [a, b]),
            "matrix_rank": (lambda J, x: J.jnp.linalg.matrix_rank(x), [tall]),
            "matrix_rank/rtol": (lambda J, x: J.jnp.linalg.matrix_rank(x, rtol=0.5), [a]),
            "qr": (lambda J, x: product(J.jnp.linalg.qr(x), 1), [tall]),
            "qr/r": (lambda J, x: J.jnp.linalg.qr(x, mode="r"), [tall]),
            "qr/wrong": (lambda J, x: J.jnp.linalg.qr(x, mode="wrong"), [tall]),
            "svd": (lambda J, x: recomposed(J.jnp.linalg.svd(x, full_matrices=False)), [tall]),
            "svd/values": (lambda J, x: J.jnp.linalg.svd(x, compute_uv=False), [tall]),
            "svd/hermitian": (
                lambda J, x: J.jnp.linalg.svd(x, compute_uv=False, hermitian=True),
                [s],
            ),
            "svdvals": (lambda J, x: J.jnp.linalg.svdvals(x), [tall]),
            "tensordot": (lambda J, x, y: J.jnp.linalg.tensordot(x, y, axes=1), [a, b]),
            "tensordot/axes": (
                lambda J, x, y: J.jnp.linalg.tensordot(x, y, axes=((0, 1), (1, 0))),
                [a, a],
            ),
            "tensorinv": (lambda J, x: J.jnp.linalg.tensorinv(x.reshape(2, 2, 4)), [four]),
            "tensorinv/1": (lambda J, x: J.jnp.linalg.tensorinv(x.reshape(4, 2, 2), ind=1), [four]),
            "tensorsolve": (
                lambda J, x, y: J.jnp.linalg.tensorsolve(x.reshape(2, 2, 4), y[:2, :2]),
                [four, a],
            ),
            "vecdot": (lambda J, x, y: J.jnp.linalg.vecdot(x, y), [a, a * 2]),
            "vecdot/axis": (lambda J, x, y: J.jnp.linalg.vecdot(x, y, axis=0), [a, a * 2]),
            "pinv": (lambda J, x: J.jnp.linalg.pinv(x), [tall]),
            "pinv/hermitian": (lambda J, x: J.jnp.linalg.pinv(x, hermitian=True), [s]),
            "matrix_power/0": (lambda J, x: J.jnp.linalg.matrix_power(x, 0), [a]),
            "matrix_power/-2": (lambda J, x: J.jnp.linalg.matrix_power(x, -2), [a]),
            "matrix_power/5": (lambda J, x: J.jnp.linalg.matrix_power(x, 5), [a]),
            "multi_dot": (lambda J, x, y: J.jnp.linalg.multi_dot([x, x, y]), [a, b]),
            "slogdet/qr": (lambda J, x: J.jnp.linalg.slogdet(x, method="qr"), [a]),
            "eigvals": (lambda J, x: abs(J.jnp.linalg.eigvals(x)).sort(), [a]),
            "eig": (lambda J, x: abs(J.jnp.linalg.eig(x)[0]).sort(), [a]),
            "trace/offset": (lambda J, x: J.jnp.linalg.trace(x, offset=1), [cube]),
            "diagonal/offset": (lambda J, x: J.jnp.linalg.diagonal(x, offset=-1), [cube]),
            "cross": (lambda J, x, y: J.jnp.linalg.cross(x, y), [a, a[::-1]]),
            "outer": (lambda J, x, y: J.jnp.linalg.outer(x[0], y[0]), [a, b]),
        }
        for ord_ in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc", 3, "wrong"):
            for axis in (None, 0, (0, 1)):
                f = lambda J, x, o=ord_, ax=axis: J.jnp.linalg.norm(x, o, ax)
                table[f"norm/{ord_}/{axis}"] = (f, [a])
            f = lambda J, x, o=ord_: J.jnp.linalg.matrix_norm(x, ord=o, keepdims=True)
            table[f"matrix_norm/{ord_}"] = (f, [a])
            f = lambda J, x, o=ord_: J.jnp.linalg.vector_norm(x, ord=o, axis=-1)
            table[f"vector_norm/{ord_}"] = (f, [a])
        for name, (f, args) in table.items():
            norms = "norm/" in name
            modes = VALUE if d == "f64" or (norms and d == "c64") else ALL
            each = d == "f32" and len(args) > 1
            add(f"{name}/{d}", f, args, modes=modes, error="maybe", each=each)
    lax_rest(add)


def lax_rest(add: Adder) -> None:
    """lax.linalg: updates, products, rotations, tridiagonal systems."""
    for d in ("f32", "f64"):
        rng = add.rng("laxrest" + d)
        s, v, a = rng.spd(3, d), rng.f((3,), d), rng.f((4, 3), d)
        lower, upper, diagonal = rng.f((4,), d), rng.f((4,), d), rng.f((4,), d, 3, 4)
        lower[0] = upper[-1] = 0
        table: dict[str, tuple[Any, list[Any]]] = {
            "cholesky_update": (
                lambda J, s, v: J.linalg.cholesky_update(J.linalg.cholesky(s).T, v),
                [s, v],
            ),
            "symmetric_product": (
                lambda J, a, s: J.linalg.symmetric_product(
                    a.T, s, alpha=2.0, beta=0.5, symmetrize_output=True
                ),
                [a, s],
            ),
            "tridiagonal_solve": (
                lambda J, lo, di, up, b: J.linalg.tridiagonal_solve(lo, di, up, b),
                [lower, diagonal, upper, a],
            ),
            "householder_product": (
                lambda J, a, t: J.linalg.householder_product(a, t[:3]),
                [a, diagonal],
            ),
            "ormqr": (lambda J, a, t, c: J.linalg.ormqr(a, t[:3], c), [a, diagonal, a]),
            "qdwh": (lambda J, a: J.linalg.qdwh(a)[:2], [a]),
            "schur": (lambda J, s: J.linalg.schur(s, compute_schur_vectors=False), [s]),
            "hessenberg": (lambda J, s: abs(J.linalg.hessenberg(s)[0]), [s]),
            "tridiagonal": (lambda J, s: J.linalg.tridiagonal(s)[1], [s]),
            "eig": (
                lambda J, s: J.linalg.eig(
                    s, compute_left_eigenvectors=False, compute_right_eigenvectors=False
                )[0].real.sort(),
                [s],
            ),
            "lu_pivots_to_permutation": (
                lambda J, s: J.linalg.lu_pivots_to_permutation(np.array([1, 2, 2], np.int32), 3),
                [s],
            ),
            "triangular_solve": (
                lambda J, s, a: J.linalg.triangular_solve(s, a, lower=True, transpose_a=True),
                [s, a],
            ),
        }
        for name, (f, args) in table.items():
            add(f"lax/{name}/{d}", f, args, modes=ALL, error="maybe", tol=Tol(1024, True))
