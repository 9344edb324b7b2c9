"""Cases of products, linear algebra and Fourier transforms of ``numpy``."""

from typing import Any

import numpy as np

from tests.differential.harness import COMPLEX, FLOATS, INTS, Spec, Table

table, linalg, fft = Table("numpy"), Table("numpy.linalg"), Table("numpy.fft")
BOTH = FLOATS + COMPLEX


def regular(x: np.ndarray) -> np.ndarray:
    """Square matrices far from singular."""
    return x + (4 * np.eye(x.shape[-1])).astype(x.dtype)


def definite(x: np.ndarray) -> np.ndarray:
    """Matrices that are positive definite, and Hermitian to the last bit."""
    square = regular((x @ np.conj(x.swapaxes(-1, -2))).astype(x.dtype))
    return (square + np.conj(square.swapaxes(-1, -2))) / 2


# --- products -------------------------------------------------------------------------------------

PRODUCTS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
)
for name in ("dot", "matmul"):
    table.binary(name, PRODUCTS, dtypes=FLOATS + INTS + COMPLEX, ulp=8, scaled=True)
table.binary(
    "matmul", (((5, 2, 3), (3, 4)), ((2, 1, 3, 4), (5, 4, 2))), dtypes=BOTH, ulp=8, scaled=True
)
table.binary("dot", (((), (2, 3)), ((2, 3, 4), (4,))), ulp=8, scaled=True)
table.binary("inner", (((3,), (3,)), ((2, 3), (4, 3))), dtypes=BOTH + INTS, ulp=8, scaled=True)
table.binary(
    "outer", (((3,), (4,)), ((2, 2), (3,)), ((0,), (3,))), dtypes=BOTH + INTS, ulp=2, scaled=True
)
table.binary("vdot", (((3,), (3,)), ((2, 3), (2, 3))), dtypes=BOTH + INTS, ulp=8, scaled=True)
table.binary("vecdot", (((2, 3), (3,)), ((2, 1, 3), (4, 3))), dtypes=BOTH, ulp=8, scaled=True)
table.binary("matvec", (((2, 3), (3,)), ((5, 2, 3), (5, 3))), dtypes=BOTH, ulp=8, scaled=True)
table.binary("vecmat", (((2,), (2, 3)), ((5, 2), (5, 2, 3))), dtypes=BOTH, ulp=8, scaled=True)
table.binary("kron", (((2, 3), (3, 2)), ((3,), (2, 2)), ((), (2,))), dtypes=FLOATS + INTS, ulp=2)
table.add(
    "tensordot",
    lambda m, x, y: [
        m.tensordot(x, y, 1),
        m.tensordot(x, y, axes=((1, 2), (1, 0))),
        m.tensordot(x, y, axes=0),
        m.tensordot(x, y, axes=([-1], [0])),
    ],
    (2, 3, 4),
    (4, 3, 2),
    dtypes=BOTH + INTS,
    ulp=16,
    scaled=True,
)
for text, *shapes in (
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,kj", (2, 3), (4, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ijk->kji", (2, 3, 4)),
    ("...i,...i->...", (2, 3), (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("ij,j,jk->ik", (2, 3), (3,), (3, 2)),
    ("ij->", (2, 3)),
):
    table.add(
        "einsum",
        lambda m, *xs, text=text: m.einsum(text, *xs),
        *shapes,
        label=text.replace("/", ""),
        dtypes=FLOATS + INTS,
        ulp=16,
        scaled=True,
    )
table.add(
    "einsum_path",
    lambda m, x: np.array(m.einsum_path("ij,jk->ik", x, x)[0][-1]),
    (3, 3),
    jit=False,
    dtype=False,
)
table.add("cross", None, (2, 3), (3,), dtypes=FLOATS + INTS, ulp=8, scaled=True)
table.add("cross", lambda m, x, y: m.cross(x, y, axis=0), (3, 2), (3, 2), ulp=8, scaled=True)

# --- linear algebra -------------------------------------------------------------------------------

square = Spec((3, 3), make=regular)
stack = Spec((2, 4, 4), make=regular)
none = Spec((0, 3, 3), make=regular)
TIGHT: dict[str, Any] = {"ulp": 64, "scaled": True}
LOOSE: dict[str, Any] = {"ulp": 512, "scaled": True}

for spec in (square, stack, none):
    linalg.add("det inv", None, spec, dtypes=BOTH, **LOOSE)
    linalg.add("slogdet", None, spec, dtypes=BOTH, **LOOSE)
    linalg.add("svdvals", None, spec, dtypes=BOTH, **LOOSE)
for spec in (Spec((3, 3), make=definite), Spec((2, 4, 4), make=definite)):
    linalg.add("cholesky", None, spec, dtypes=BOTH, **LOOSE)
    linalg.add("cholesky", lambda m, x: m.cholesky(x, upper=True), spec, dtypes=BOTH, **LOOSE)
    linalg.add("eigvalsh", None, spec, dtypes=BOTH, **LOOSE)
    linalg.add("eigvalsh", lambda m, x: m.eigvalsh(x, UPLO="U"), spec, dtypes=BOTH, **LOOSE)
    linalg.add(
        "eigh",
        lambda m, x: (lambda w, v: [w, v * w[..., None, :] @ m.matrix_transpose(v.conj())])(
            *m.eigh(x)
        ),
        spec,
        dtypes=BOTH,
        **LOOSE,
    )
for shape in ((3, 3), (4, 2), (2, 3, 4)):
    linalg.add(
        "qr",
        lambda m, x: [(lambda q, r: q @ r)(*m.qr(x)), abs(m.qr(x, mode="r"))],
        shape,
        dtypes=BOTH,
        **LOOSE,
    )
    linalg.add(
        "svd",
        lambda m, x: [
            (lambda u, s, v: (u * s[..., None, :]) @ v)(*m.svd(x, full_matrices=False)),
            m.svd(x, compute_uv=False),
        ],
        shape,
        dtypes=BOTH,
        **LOOSE,
    )
    linalg.add("pinv", lambda m, x: m.pinv(x), shape, dtypes=BOTH, **LOOSE)
    linalg.add("cond", lambda m, x: m.cond(x), shape, dtypes=FLOATS, ulp=4096, scaled=True)
    linalg.add("matrix_rank", lambda m, x: m.matrix_rank(x), shape, dtypes=BOTH)
linalg.add(
    "cond", lambda m, x: [m.cond(x, p) for p in (1, -1, 2, -2, np.inf, "fro")], square, **LOOSE
)
linalg.add(
    "matrix_rank", lambda m, x: m.matrix_rank(x), Spec((4, 4), make=lambda x: x[:, :1] * x[:1])
)
linalg.add(
    "solve",
    lambda m, x, y: [m.solve(x, y), m.solve(x, y[:, 0])],
    square,
    (3, 2),
    dtypes=BOTH,
    **LOOSE,
)
linalg.add("solve", None, stack, (2, 4, 3), dtypes=BOTH, **LOOSE)
linalg.add(
    "lstsq",
    lambda m, x, y: [m.lstsq(x, y)[0], m.lstsq(x, y, rcond=None)[3]],
    (5, 3),
    (5, 2),
    **LOOSE,
)
linalg.add(
    "matrix_power", lambda m, x: [m.matrix_power(x, n) for n in (0, 1, 3, -2)], square, **LOOSE
)
linalg.add(
    "eigvals",
    lambda m, x: [
        abs((m.eigvals(x)).sum()),
        abs(m.matmul(x.astype("complex64"), m.eig(x)[1]) - m.eig(x)[1] * m.eig(x)[0]),
    ],
    square,
    dtypes=BOTH,
    dtype=False,
    **LOOSE,
)
for order in (None, 1, 2, 3, np.inf, -np.inf, 0, -1):
    linalg.add(
        "norm", lambda m, x, o=order: m.norm(x, o), (5,), label=f"{order}", dtypes=BOTH, **TIGHT
    )
for kind in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
    linalg.add("norm", lambda m, x, o=kind: m.norm(x, o), (3, 4), label=f"matrix {kind}", **TIGHT)
linalg.add(
    "norm",
    lambda m, x: [
        m.norm(x, axis=1),
        m.norm(x, axis=(0, 1), keepdims=True),
        m.norm(x, 1, axis=0),
        m.vector_norm(x),
        m.vector_norm(x, axis=0, ord=3),
        m.matrix_norm(x, keepdims=True),
        m.matrix_norm(x, ord=1),
    ],
    (3, 4),
    dtypes=BOTH,
    **TIGHT,
)
linalg.add(
    "multi_dot",
    lambda m, x, y: [
        m.multi_dot([x, y, x]),
        m.matmul(x, y),
        m.outer(x[0], y[0]),
        m.tensordot(x, y, axes=1),
        m.trace(x, offset=1),
        m.vecdot(x, y),
        m.diagonal(x, offset=-1),
        m.cross(x, y),
        m.matrix_transpose(x),
    ],
    (3, 3),
    (3, 3),
    dtypes=BOTH + INTS,
    **TIGHT,
)
linalg.add(
    "tensorinv",
    lambda m, x, b: [m.tensorinv(x.reshape(2, 3, 6), ind=2), m.tensorsolve(x.reshape(2, 3, 6), b)],
    Spec((6, 6), make=regular),
    (2, 3),
    **LOOSE,
)

# --- transforms -----------------------------------------------------------------------------------

SMOOTH: dict[str, Any] = {"ulp": 16, "scaled": True}
ONE: list[dict[str, Any]] = [
    {},
    {"n": 4},
    {"n": 11},
    {"axis": 0},
    {"axis": -2, "norm": "ortho"},
    {"norm": "forward"},
]
MANY: list[dict[str, Any]] = [
    {},
    {"axes": (0, 1)},
    {"s": (4, 3), "axes": (1, 2)},
    {"norm": "ortho"},
]
TWO: list[dict[str, Any]] = [{}, {"s": (4, 3)}, {"axes": (0, 2)}, {"norm": "forward"}]
fft.options("fft ifft", ONE, (3, 4, 7), dtypes=FLOATS + COMPLEX + INTS, **SMOOTH)
fft.options("irfft hfft", ONE, (3, 4, 7), dtypes=COMPLEX, **SMOOTH)
fft.options("rfft ihfft", ONE, (3, 4, 7), dtypes=FLOATS, **SMOOTH)
fft.options("fftn ifftn", MANY, (3, 4, 5), dtypes=BOTH, **SMOOTH)
fft.options("irfftn", MANY, (3, 4, 5), dtypes=COMPLEX, **SMOOTH)
fft.options("rfftn", MANY, (3, 4, 5), dtypes=FLOATS, **SMOOTH)
fft.options("fft2 ifft2", TWO, (3, 4, 5), dtypes=BOTH, **SMOOTH)
fft.options("irfft2", TWO, (3, 4, 5), dtypes=COMPLEX, **SMOOTH)
fft.options("rfft2", TWO, (3, 4, 5), dtypes=FLOATS, **SMOOTH)
fft.options("fft ifft", [{}], (64,), dtypes=BOTH, **SMOOTH)
fft.options("fft rfft", [{}], (97,), dtypes=FLOATS, ulp=64, scaled=True)
fft.add(
    "fftfreq",
    lambda m: [m.fftfreq(5), m.fftfreq(6, d=0.5), m.rfftfreq(7), m.rfftfreq(8, 0.1)],
    ulp=4,
)
fft.options(
    "fftshift ifftshift", [{}, {"axes": 1}, {"axes": (0, -1)}], (3, 4, 5), dtypes=BOTH + INTS
)
