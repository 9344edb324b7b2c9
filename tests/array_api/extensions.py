"""Checks of linear algebra, in the main namespace and its extension, and of Fourier transforms."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.array_api import table
from tests.array_api.suite import Library, Suite, compare, raises, sample, tolerance

SHAPES: tuple[tuple[int, ...], ...] = ((3, 3), (2, 4, 4), (0, 2, 2))


def square(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Matrices far from singular."""
    return sample(dtype, shape, -1, 1) + (3 * np.eye(shape[-1])).astype(dtype)


def positive(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    x = square(dtype, shape)
    return (x @ np.conj(x.swapaxes(-1, -2))).astype(dtype)


def products(m: Any, x: Any, y: Any, v: Any, w: Any) -> list[Any]:
    matrix = m.matrix_transpose(y)
    return [
        m.matmul(x, matrix),
        x @ matrix,
        m.matmul(v, v),
        m.matmul(x, v),
        m.matmul(v, matrix),
        m.linalg.matmul(w, matrix),
        m.tensordot(x, y, axes=2),
        m.tensordot(v, v, axes=0),
        m.linalg.tensordot(x, y, axes=([0], [0])),
        m.tensordot(w, x, axes=((2,), (1,))),
        m.vecdot(x, y),
        m.vecdot(x, y, axis=-1),
        m.linalg.vecdot(w, v),
        m.linalg.outer(v, v),
        m.matrix_transpose(w),
        m.linalg.matrix_transpose(x),
    ]


def parts(m: Any, x: Any) -> list[Any]:
    return [
        m.linalg.diagonal(x),
        m.linalg.diagonal(x, offset=1),
        m.linalg.diagonal(x, offset=-2),
        m.linalg.trace(x),
        m.linalg.trace(x, offset=1),
    ]


NORMS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "matrix_norm": lambda m, x: [
        m.linalg.matrix_norm(x),
        m.linalg.matrix_norm(x, ord=1),
        m.linalg.matrix_norm(x, ord=-1),
        m.linalg.matrix_norm(x, ord=2),
        m.linalg.matrix_norm(x, ord=-2),
        m.linalg.matrix_norm(x, ord=np.inf, keepdims=True),
        m.linalg.matrix_norm(x, ord=-np.inf),
        m.linalg.matrix_norm(x, ord="nuc"),
    ],
    "vector_norm": lambda m, x: [
        m.linalg.vector_norm(x),
        m.linalg.vector_norm(x, ord=1, axis=0),
        m.linalg.vector_norm(x, ord=0, axis=1),
        m.linalg.vector_norm(x, ord=3, axis=(0, 1)),
        m.linalg.vector_norm(x, ord=np.inf, keepdims=True),
        m.linalg.vector_norm(x, ord=-np.inf, axis=-1),
        m.linalg.vector_norm(x, ord=-1, axis=-1),
    ],
    "det": lambda m, x: [m.linalg.det(x), *m.linalg.slogdet(x)],
    "slogdet": lambda m, x: [m.linalg.slogdet(x).sign, m.linalg.slogdet(x).logabsdet],
    "inv": lambda m, x: [m.linalg.inv(x), m.linalg.pinv(x)],
    "pinv": lambda m, x: [m.linalg.pinv(x[..., :2]), m.linalg.pinv(x, rtol=1e-3)],
    "solve": lambda m, x: [m.linalg.solve(x, x[..., :2]), m.linalg.solve(x, x[0, :, 0])],
    "matrix_power": lambda m, x: [m.linalg.matrix_power(x, n) for n in (0, 1, 2, 5, -1, -2)],
    "matrix_rank": lambda m, x: [
        m.linalg.matrix_rank(x),
        m.linalg.matrix_rank(x, rtol=1e-3),
        m.linalg.matrix_rank(m.zeros_like(x)),
    ],
    "svdvals": lambda m, x: [m.linalg.svdvals(x), m.linalg.svdvals(x[..., :2])],
}


def check_cholesky(dtype: str, library: Library) -> None:
    for shape in SHAPES:
        x = positive(dtype, shape)
        lower = library.xp.linalg.cholesky(library.array(x))
        compare(library, lower, np.linalg.cholesky(x))
        upper = library.xp.linalg.cholesky(library.array(x), upper=True)
        compare(library, upper, np.conj(np.linalg.cholesky(x).swapaxes(-1, -2)))


def check_eigh(dtype: str, library: Library) -> None:
    for shape in SHAPES:
        x = positive(dtype, shape)
        values, vectors = library.xp.linalg.eigh(library.array(x))
        compare(library, values, np.linalg.eigvalsh(x))
        compare(library, library.xp.linalg.eigvalsh(library.array(x)), np.linalg.eigvalsh(x))
        assert vectors.dtype == library.dtypes[dtype]
        result = library.xp.linalg.eigh(library.array(x))
        assert result.eigenvalues.shape == shape[:-1] and result.eigenvectors.shape == shape
        v = np.asarray(vectors)
        close(x @ v, v * np.asarray(values)[..., None, :], dtype)


def check_qr(dtype: str, library: Library) -> None:
    for shape in ((3, 2), (2, 2, 4), (0, 3, 3)):
        x = sample(dtype, shape)
        for mode in ("reduced", "complete"):
            result = library.xp.linalg.qr(library.array(x), mode=mode)
            want = np.linalg.qr(x, mode=mode)
            assert result.Q.shape == want.Q.shape and result.R.shape == want.R.shape
            assert result.Q.dtype == result.R.dtype == library.dtypes[dtype]
            close(np.asarray(result.Q) @ np.asarray(result.R), x, dtype)


def check_svd(dtype: str, library: Library) -> None:
    for shape in ((3, 2), (2, 2, 4), (0, 3, 3)):
        x = sample(dtype, shape)
        for full in (True, False):
            result = library.xp.linalg.svd(library.array(x), full_matrices=full)
            want = np.linalg.svd(x, full_matrices=full)
            compare(library, result.S, want.S)
            assert result.U.shape == want.U.shape and result.Vh.shape == want.Vh.shape
            assert result.U.dtype == result.Vh.dtype == library.dtypes[dtype]
            k = min(shape[-2:])
            u, vh = np.asarray(result.U)[..., :k], np.asarray(result.Vh)[..., :k, :]
            close((u * np.asarray(result.S)[..., None, :]) @ vh, x, dtype)


def close(got: np.ndarray, want: np.ndarray, dtype: str) -> None:
    scale = np.abs(want).max(initial=0)
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance(dtype) * max(float(scale), 1))


def add_linalg(suite: Suite) -> None:
    for dtype in table.KINDS["numeric"]:
        shapes: list[tuple[int, ...]] = [(3, 4), (3, 4), (4,), (2, 3, 4)]
        values = [sample(dtype, shape, -2, 2) for shape in shapes]
        suite.same(f"linalg/products/{dtype}", products, *values)
        suite.same(f"linalg/parts/{dtype}", parts, values[3])
        suite.same(
            f"linalg/cross/{dtype}",
            lambda m, x, y: [m.linalg.cross(x, y), m.linalg.cross(x.mT, y.mT, axis=0)],
            values[0][:, :3],
            values[0][:, 1:],
        )
    for dtype in table.FLOATS + table.COMPLEX:
        for name, call in NORMS.items():
            values = square(dtype, (3, 3)) if name == "vector_norm" else square(dtype, (2, 3, 3))
            suite.same(f"linalg/{name}/{dtype}", call, values, rtol=32 * tolerance(dtype))
        for check in (check_cholesky, check_eigh, check_qr, check_svd):
            suite.add(f"linalg/{check.__name__[6:]}/{dtype}", partial(check, dtype))
    for name, call in {
        "matmul": lambda xp: xp.matmul(xp.ones((2, 3)), xp.ones((2, 3))),
        "matmul of scalars": lambda xp: xp.matmul(xp.asarray(1.0), xp.ones(1)),
        "cross": lambda xp: xp.linalg.cross(xp.ones(4), xp.ones(4)),
        "cholesky": lambda xp: xp.linalg.cholesky(xp.ones((2, 3))),
    }.items():
        suite.add(f"refuses/{name}", lambda lib, call=call: raises(lambda: call(lib.xp)))


def transforms(name: str, m: Any, x: Any) -> list[Any]:
    function = getattr(m.fft, name)
    if name.endswith("n") and name != "fftn_":
        return [
            function(x),
            function(x, axes=(0, 1)),
            function(x, s=(4, 5), axes=(0, 2)),
            function(x, norm="ortho"),
            function(x, axes=(1,), norm="forward"),
        ]
    return [
        function(x),
        function(x, n=3),
        function(x, n=9, axis=0),
        function(x, axis=-2, norm="ortho"),
        function(x, norm="forward"),
    ]


def add_fft(suite: Suite) -> None:
    for name in "fft ifft fftn ifftn irfft irfftn hfft".split():
        for dtype in table.COMPLEX:
            x = sample(dtype, (2, 3, 5))
            suite.same(f"fft/{name}/{dtype}", partial(transforms, name), x)
    for name in ("rfft", "rfftn", "ihfft"):
        for dtype in table.FLOATS:
            x = sample(dtype, (2, 3, 5))
            suite.same(f"fft/{name}/{dtype}", partial(transforms, name), x)
    for dtype in table.FLOATS:
        suite.same(
            f"fft/fft of reals/{dtype}", partial(transforms, "fft"), sample(dtype, (2, 3, 5))
        )
    for name in ("fftfreq", "rfftfreq"):
        suite.same(
            f"fft/{name}",
            lambda m, name=name: [getattr(m.fft, name)(5), getattr(m.fft, name)(6, d=0.5)],
        )
    for name in ("fftshift", "ifftshift"):
        for dtype in table.FLOATS + table.COMPLEX:
            suite.same(
                f"fft/{name}/{dtype}",
                lambda m, x, name=name: [
                    getattr(m.fft, name)(x),
                    getattr(m.fft, name)(x, axes=1),
                    getattr(m.fft, name)(x, axes=(0, -1)),
                ],
                sample(dtype, (2, 3, 5)),
            )


def add_all(suite: Suite) -> None:
    add_linalg(suite)
    add_fft(suite)
