"""Matrix decompositions and solvers with gradients, and Fourier transforms."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, DIFF, Adder, Tol, call, family

REAL = ("f32", "f64")
ANY = ("f32", "f64", "c64", "c128")
BATCHES = ((), (2,))
LOOSE = Tol(256, True)


@family("lax_linalg", LOOSE)
def linalg(add: Adder) -> None:
    """``lax.linalg``: unique factors are compared as they are, others by what they make."""
    for d in ANY:
        for batch in BATCHES:
            for n in (1, 3, 4):
                tag = f"{d}/{'x'.join(map(str, batch)) or 'one'}/{n}"
                rng = add.rng(tag)
                spd, square = rng.spd(n, d, batch), rng.square(n, d, batch)
                add(f"cholesky/{tag}", call("linalg.cholesky"), [spd], modes=ALL)
                lower = call("linalg.cholesky", symmetrize_input=False)
                add(f"cholesky/lower/{tag}", lower, [spd], modes=BATCH)
                add(f"lu/{tag}", call("linalg.lu"), [square], modes=ALL)
                add(f"eigh/values/{tag}", eigh_values, [spd], modes=ALL)
                add(f"eigh/rebuild/{tag}", eigh_rebuild, [spd], modes=ALL)
                add(f"svd/values/{tag}", svd_values, [square], modes=ALL)
                add(f"qr/rebuild/{tag}", qr_rebuild, [square], modes=BATCH)
                add(f"qr/r/{tag}", qr_r, [square], modes=ALL)
                add(f"eig/values/{tag}", eig_values, [square], modes=("value", "jit"))
    rectangular(add)
    triangular(add)
    others(add)


def eigh_values(J: Any, x: Any) -> Any:
    return J.linalg.eigh(x)[1]


def eigh_rebuild(J: Any, x: Any) -> Any:
    v, w = J.linalg.eigh(x)
    return J.jnp.matmul(v * J.jnp.sin(w)[..., None, :], J.jnp.conj(v.swapaxes(-1, -2)))


def svd_values(J: Any, x: Any) -> Any:
    return J.linalg.svd(x, compute_uv=False)


def svd_rebuild(J: Any, x: Any) -> Any:
    u, s, vh = J.linalg.svd(x, full_matrices=False)
    return J.jnp.matmul(u * J.jnp.sin(s)[..., None, :], vh)


def qr_rebuild(J: Any, x: Any) -> Any:
    q, r = J.linalg.qr(x, full_matrices=False)
    return J.jnp.matmul(q, r), J.jnp.abs(r)


def qr_r(J: Any, x: Any) -> Any:
    return J.jnp.abs(J.linalg.qr(x, full_matrices=False)[1])


def eig_values(J: Any, x: Any) -> Any:
    w = J.linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]
    return J.jnp.sort(w.real), J.jnp.sort(J.jnp.abs(w.imag))


def rectangular(add: Adder) -> None:
    """Tall and wide matrices."""
    for d in ANY:
        for m, n in ((4, 2), (2, 4), (5, 3)):
            tag = f"{d}/{m}x{n}"
            rng = add.rng(tag)
            x = rng.f((m, n), d)
            add(f"svd/rebuild/{tag}", svd_rebuild, [x], modes=ALL)
            add(f"svd/values/{tag}", svd_values, [x], modes=ALL)
            full = lambda J, x: [o.shape for o in J.linalg.svd(x, full_matrices=True)]
            add(f"svd/full/{tag}", full, [x], modes=("value",))
            add(f"qr/rebuild/{tag}", qr_rebuild, [x], modes=ALL if m >= n else BATCH)
            shapes = lambda J, x: [o.shape for o in J.linalg.qr(x, full_matrices=True)]
            add(f"qr/full/{tag}", shapes, [x], modes=("value",))
            add(f"lu/{tag}", call("linalg.lu"), [x], modes=ALL)


def triangular(add: Adder) -> None:
    """triangular_solve over all its switches."""
    for d in ("f32", "f64", "c64"):
        rng = add.rng("triangular" + d)
        a = rng.square(3, d)
        for left in (True, False):
            b = rng.f((3, 2) if left else (2, 3), d)
            for lower in (True, False):
                for transpose in (False, True):
                    for unit in (False, True):
                        for conj in (False, True):
                            if conj and not (transpose and d == "c64"):
                                continue
                            flags = "".join("01"[f] for f in (left, lower, transpose, unit, conj))
                            fn = call(
                                "linalg.triangular_solve",
                                left_side=left,
                                lower=lower,
                                transpose_a=transpose,
                                conjugate_a=conj,
                                unit_diagonal=unit,
                            )
                            key = f"triangular_solve/{d}/{flags}"
                            add(key, fn, [a, b], modes=ALL, each=True)
        a, b = rng.square(3, d, (2,)), rng.f((2, 3, 2), d)
        fn = call("linalg.triangular_solve", left_side=True, lower=True)
        add(f"triangular_solve/{d}/batched", fn, [a, b], modes=ALL, each=True)


def others(add: Adder) -> None:
    """Householder products, tridiagonal systems, updates, Schur and Hessenberg forms."""
    for d in ("f32", "f64", "c64"):
        rng = add.rng("others" + d)
        square, spd = rng.square(4, d), rng.spd(4, d)
        dl, mid, du = (rng.f((5,), d, 0.2, 0.9) for _ in range(3))
        mid = (mid + np.asarray(3, mid.dtype)).astype(mid.dtype)
        dl[0] = du[-1] = 0
        b = rng.f((5, 2), d)
        fn = call("linalg.tridiagonal_solve")
        add(f"tridiagonal_solve/{d}", fn, [dl, mid, du, b], modes=("value", "jit", "vmap"))
        add(f"hessenberg/{d}", hessenberg, [square], modes=("value", "jit"))
        add(f"tridiagonal/{d}", tridiagonal, [spd], modes=("value", "jit"))
        if d != "c64":
            w = rng.f((4,), d)
            add(f"cholesky_update/{d}", cholesky_update, [np.triu(spd), w], modes=("value", "jit"))
            fn = call("linalg.symmetric_product", alpha=2.0, beta=0.5, symmetrize_output=True)
            add(f"symmetric_product/{d}", fn, [rng.f((4, 3), d), spd], modes=("value", "jit"))
        taus = rng.f((2,), d, 0.1, 0.5)
        add(
            f"householder_product/{d}", call("linalg.householder_product"), [rng.f((4, 2), d), taus]
        )
        add(f"schur/{d}", schur, [square], modes=("value", "jit"))
    pivots = np.array([1, 2, 2, 3], np.int32)
    add("lu_pivots", call("linalg.lu_pivots_to_permutation", 5), [pivots], modes=BATCH)
    wide = np.array([[1, 2, 2], [0, 1, 2]], np.int32)
    add("lu_pivots/batch", call("linalg.lu_pivots_to_permutation", 4), [wide], modes=BATCH)


def hessenberg(J: Any, x: Any) -> Any:
    a, taus = J.linalg.hessenberg(x)
    return J.jnp.abs(J.jnp.triu(a, -1)), taus


def tridiagonal(J: Any, x: Any) -> Any:
    _, d, e, _ = J.linalg.tridiagonal(x)
    return d, J.jnp.abs(e)


def cholesky_update(J: Any, r: Any, w: Any) -> Any:
    return J.linalg.cholesky_update(r, w)


def schur(J: Any, x: Any) -> Any:
    t, q = J.linalg.schur(x)
    return q @ t @ J.jnp.conj(q.T), J.jnp.sort(J.jnp.abs(J.jnp.diagonal(t)))


@family("jnp_linalg", LOOSE)
def numpy_linalg(add: Adder) -> None:
    """``numpy.linalg`` and ``scipy.linalg`` with gradients."""
    simple: dict[str, Any] = {
        "inv": call("jnp.linalg.inv"),
        "det": call("jnp.linalg.det"),
        "slogdet": call("jnp.linalg.slogdet"),
        "matrix_power/3": call("jnp.linalg.matrix_power", 3),
        "matrix_power/-2": call("jnp.linalg.matrix_power", -2),
        "matrix_power/0": call("jnp.linalg.matrix_power", 0),
        "norm": call("jnp.linalg.norm"),
        "norm/nuc": call("jnp.linalg.norm", "nuc", (-2, -1)),
        "norm/1": call("jnp.linalg.norm", 1, (-2, -1)),
        "norm/inf": call("jnp.linalg.norm", np.inf, (-2, -1)),
        "norm/2": call("jnp.linalg.norm", 2, (-2, -1)),
        "norm/-2": call("jnp.linalg.norm", -2, (-2, -1)),
        "cond": call("jnp.linalg.cond"),
        "matrix_norm": call("jnp.linalg.matrix_norm"),
        "vector_norm": call("jnp.linalg.vector_norm", axis=-1),
        "svdvals": call("jnp.linalg.svdvals"),
        "pinv": call("jnp.linalg.pinv"),
        "matrix_rank": call("jnp.linalg.matrix_rank"),
        "trace": call("jnp.linalg.trace"),
        "diagonal": call("jnp.linalg.diagonal"),
        "matrix_transpose": call("jnp.linalg.matrix_transpose"),
        "expm": call("sla.expm"),
    }
    for d in ("f32", "f64", "c64"):
        for batch in BATCHES:
            tag = f"{d}/{'x'.join(map(str, batch)) or 'one'}"
            for name, fn in simple.items():
                x = add.rng(f"{name}{tag}").square(3, d, batch)
                plain = batch and name in ("norm", "expm")
                modes = ALL if not plain and not (name == "cond") else ("value", "jit")
                add(f"{name}/{tag}", fn, [x], modes=modes, tol=Tol(1024, True))
            rng = add.rng("solve" + tag)
            a, b = rng.square(3, d, batch), rng.f((*batch, 3, 2), d)
            add(f"solve/{tag}", call("jnp.linalg.solve"), [a, b], modes=ALL, each=True)
            add(f"solve/vector/{tag}", call("jnp.linalg.solve"), [a, rng.f((3,), d)], modes=ALL)
            spd = rng.spd(3, d, batch)
            add(f"cholesky/{tag}", call("jnp.linalg.cholesky"), [spd], modes=ALL)
            add(f"cholesky/upper/{tag}", call("jnp.linalg.cholesky", upper=True), [spd], modes=ALL)
            add(f"eigvalsh/{tag}", call("jnp.linalg.eigvalsh"), [spd], modes=ALL)
            cho = lambda J, a, b: J.sla.cho_solve(J.sla.cho_factor(a), b)
            lu = lambda J, a, b: J.sla.lu_solve(J.sla.lu_factor(a), b)
            add(f"cho_solve/{tag}", cho, [spd, b], modes=DIFF)
            add(f"lu_solve/{tag}", lu, [a, b], modes=DIFF)
    numpy_vectors(add)


def numpy_vectors(add: Adder) -> None:
    """Vector norms at 0 and elsewhere, least squares, solvers of scipy."""
    for order in (None, 0, 1, 2, 3, np.inf, -np.inf, -1, 0.5):
        for axis in (None, 0, 1):
            x = add.rng(f"norm{order}{axis}").f((4,) if axis is None else (3, 4))
            fn = call("jnp.linalg.norm", order, axis)
            add(f"vector/{order}/{axis}", fn, [x], modes=ALL)
    zero = np.zeros(3, np.float32)
    add("norm/zero", call("jnp.linalg.norm"), [zero], modes=ALL)
    add("norm/zero/1", call("jnp.linalg.norm", 1), [zero], modes=ALL)
    add("norm/zero/inf", call("jnp.linalg.norm", np.inf), [zero], modes=ALL)
    for d in REAL:
        rng = add.rng("lstsq" + d)
        a, b = rng.f((5, 3), d), rng.f((5,), d)
        add(f"lstsq/{d}", lambda J, a, b: J.jnp.linalg.lstsq(a, b)[0], [a, b], modes=DIFF)
        add(
            f"multi_dot/{d}",
            lambda J, *xs: J.jnp.linalg.multi_dot(xs),
            [rng.f((2, 3), d), rng.f((3, 4), d), rng.f((4, 2), d)],
            modes=ALL,
        )
        square = rng.square(3, d)
        for trans in (0, 1, 2):
            for lower in (False, True):
                fn = call("sla.solve_triangular", trans=trans, lower=lower)
                add(
                    f"solve_triangular/{d}/{trans}/{lower}", fn, [square, rng.f((3,), d)], modes=ALL
                )
        add(f"lu/{d}", call("sla.lu"), [square], modes=ALL)
        add(f"block_diag/{d}", call("sla.block_diag"), [square, rng.f((1, 2), d)], modes=ALL)
        add(f"toeplitz/{d}", call("sla.toeplitz"), [rng.f((4,), d)], modes=ALL)
        fn = call("sla.solve", assume_a="pos")
        add(f"solve/pos/{d}", fn, [rng.spd(3, d), rng.f((3,), d)], modes=DIFF)
        add(f"tensorinv/{d}", call("jnp.linalg.tensorinv", 1), [square], modes=("value", "jit"))
        add(f"cross/{d}", call("jnp.linalg.cross"), [rng.f((2, 3), d), rng.f((2, 3), d)], modes=ALL)
        add(f"outer/{d}", call("jnp.linalg.outer"), [rng.f((2,), d), rng.f((3,), d)], modes=ALL)
        add(
            f"eigh/{d}",
            lambda J, x: J.jnp.abs(J.jnp.linalg.eigh(x)[1]),
            [rng.spd(3, d)],
            modes=DIFF,
        )
        add(f"qr/{d}", lambda J, x: J.jnp.linalg.qr(x)[0] @ J.jnp.linalg.qr(x)[1], [a], modes=DIFF)


@family("lax_fft", Tol(32, True))
def fft(add: Adder) -> None:
    """Fourier transforms of lax and of numpy.fft, all kinds, lengths, axes and norms."""
    for kind in ("fft", "ifft", "rfft", "irfft"):
        for shape, lengths in (
            ((5,), (5,)),
            ((2, 6), (6,)),
            ((3, 4), (3, 4)),
            ((2, 3, 4), (2, 3, 4)),
        ):
            for double in (False, True):
                real = kind == "rfft"
                d = ("f64" if double else "f32") if real else ("c128" if double else "c64")
                key = f"lax/{kind}/{'x'.join(map(str, shape))}/{len(lengths)}/{d}"
                if kind == "irfft":
                    shape = (*shape[:-1], lengths[-1] // 2 + 1)
                x = add.rng(key).f(shape, d)
                fn = call("lax.fft", kind, lengths)
                upper = lambda J, x, k=kind, n=lengths: J.lax.fft(
                    x, getattr(J.lax.FftType, k.upper()), n
                )
                add(key, fn, [x], modes=ALL)
                add(key + "/enum", upper, [x], modes=("value",))
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        for n in (None, 3, 8):
            for axis in (0, -1):
                for norm in (None, "ortho", "forward"):
                    if norm and n:
                        continue
                    d = "f32" if name in ("rfft", "ihfft") else "c64"
                    key = f"numpy/{name}/{n}/{axis}/{norm}"
                    x = add.rng(key).f((4, 5), d)
                    add(key, call(f"jnp.fft.{name}", n, axis, norm), [x], modes=ALL)
    for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
        for s in (None, (3, 6)):
            d = "f32" if name.startswith("r") else "c64"
            x = add.rng(name).f((4, 5), d)
            axes = (0, 1)
            add(f"numpy/{name}/{s}", call(f"jnp.fft.{name}", s, axes), [x], modes=ALL)
    for n in (1, 4, 5):
        add(f"fftfreq/{n}", lambda J, n=n: J.jnp.fft.fftfreq(n, 0.5))
        add(f"rfftfreq/{n}", lambda J, n=n: J.jnp.fft.rfftfreq(n, 0.5))
    x = add.rng("shift").f((4, 5))
    for axes in (None, 0, (0, 1)):
        add(f"fftshift/{axes}", call("jnp.fft.fftshift", axes), [x], modes=ALL)
        add(f"ifftshift/{axes}", call("jnp.fft.ifftshift", axes), [x], modes=ALL)
    i = add.rng("int").i((4,), "i32")
    add("numpy/fft/int", call("jnp.fft.fft"), [i])
    add("numpy/fft/real", call("jnp.fft.fft"), [x], modes=ALL)
