"""The same functions by weft and by JAX on one GPU: ``python -m bench.gpu_jax [TEXT ...]``.

Arrays stay on the device. A time is that of many calls, waited for at the end, over their number;
the best of three counts. A ratio above 1 says that weft is slower.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Seconds that the calls of one measurement take, about.
SPAN = 0.02


@dataclass(frozen=True)
class Row:
    """A function of a library (``weft`` or ``jax``) and operands; the operands that are made."""

    name: str
    fun: Callable[..., Any]
    operands: Callable[[np.random.Generator], tuple[np.ndarray, ...]]


def _normal(*shape: int, dtype: Any = np.float32) -> Callable[..., Any]:
    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        found = rng.standard_normal(shape, np.float32)
        if np.dtype(dtype).kind == "c":
            found = found + 1j * rng.standard_normal(shape, np.float32)
        return (found.astype(dtype),)

    return make


def _positive(*shape: int, dtype: Any = np.float32) -> Callable[..., Any]:
    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        (x,) = _normal(*shape, dtype=dtype)(rng)
        product = x @ x.conj().swapaxes(-1, -2)
        return ((product + shape[-1] * np.eye(shape[-1])).astype(dtype),)

    return make


def _solved(*shape: int) -> Callable[..., Any]:
    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        (a,) = _normal(*shape)(rng)
        (b,) = _normal(*shape)(rng)
        return a + shape[-1] * np.eye(shape[-1], dtype=np.float32), b

    return make


def _indexed(count: int, size: int, width: int, ordered: bool) -> Callable[..., Any]:
    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        places = rng.integers(0, size, count).astype(np.int32)
        if ordered:
            places.sort()
        shape = (count, width) if width else (count,)
        return rng.standard_normal(shape, np.float32), places

    return make


def _taken(size: int, width: int, count: int) -> Callable[..., Any]:
    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        shape = (size, width) if width else (size,)
        places = rng.integers(0, size, count).astype(np.int32)
        return rng.standard_normal(shape, np.float32), places

    return make


def _tridiagonal(count: int, size: int) -> Callable[..., Any]:
    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        rows = [rng.standard_normal((count, size), np.float32) for _ in range(3)]
        rows[0][:, 0] = rows[2][:, -1] = 0
        rows[1] += 4
        return *rows, rng.standard_normal((count, size, 1), np.float32)

    return make


def _sums(size: int) -> Callable[..., Any]:
    return lambda lib, x, i: lib.ops.segment_sum(x, i, size)


def _added(size: int) -> Callable[..., Any]:
    return lambda lib, x, i: lib.numpy.zeros((size, *x.shape[1:]), x.dtype).at[i].add(x)


def _linalg(name: str, **options: Any) -> Callable[..., Any]:
    return lambda lib, *xs: getattr(lib.lax.linalg, name)(*xs, **options)


def _eig(lib: Any, x: Any) -> Any:
    return lib.lax.linalg.eig(x, compute_left_eigenvectors=False)


LINALG = [
    Row("cholesky 64 x 128", _linalg("cholesky"), _positive(64, 128, 128)),
    Row("cholesky 64 x 128 complex", _linalg("cholesky"), _positive(64, 128, 128, dtype="c8")),
    Row("cholesky 2048", _linalg("cholesky"), _positive(2048, 2048)),
    Row("lu 64 x 128", _linalg("lu"), _normal(64, 128, 128)),
    Row("lu 2048", _linalg("lu"), _normal(2048, 2048)),
    Row("solve 64 x 128", lambda lib, a, b: lib.numpy.linalg.solve(a, b), _solved(64, 128, 128)),
    Row("triangular solve 64 x 128",
        _linalg("triangular_solve", left_side=True, lower=True), _solved(64, 128, 128)),
    Row("triangular solve 2048",
        _linalg("triangular_solve", left_side=True, lower=True), _solved(2048, 2048)),
    Row("qr 64 x 128", _linalg("qr", full_matrices=False), _normal(64, 128, 128)),
    Row("qr 1024 x 16", _linalg("qr", full_matrices=False), _normal(1024, 16, 16)),
    Row("qr 2048", _linalg("qr", full_matrices=False), _normal(2048, 2048)),
    Row("eigh 64 x 128", _linalg("eigh", symmetrize_input=False), _positive(64, 128, 128)),
    Row("eigh 64 x 128 complex",
        _linalg("eigh", symmetrize_input=False), _positive(64, 128, 128, dtype="c8")),
    Row("eigh 1024", _linalg("eigh", symmetrize_input=False), _positive(1024, 1024)),
    Row("svd 1000 x 16", _linalg("svd", full_matrices=False), _normal(1000, 16, 16)),
    Row("svd 8 x 128", _linalg("svd", full_matrices=False), _normal(8, 128, 128)),
    Row("svd 512", _linalg("svd", full_matrices=False), _normal(512, 512)),
    Row("svd 512 x 256 complex",
        _linalg("svd", full_matrices=False), _normal(512, 256, dtype="c8")),
    Row("eig 256", _eig, _normal(256, 256)),
    Row("tridiagonal solve 4096 x 512", _linalg("tridiagonal_solve"), _tridiagonal(4096, 512)),
    Row("tridiagonal solve 1 M", _linalg("tridiagonal_solve"), _tridiagonal(1, 1 << 20)),
]  # fmt: skip

MEMORY = [
    Row("segment_sum 16 M to 64 k", _sums(1 << 16), _indexed(1 << 24, 1 << 16, 0, False)),
    Row("segment_sum 16 M to 64 k, in order", _sums(1 << 16), _indexed(1 << 24, 1 << 16, 0, True)),
    Row("segment_sum 16 M to 1 M", _sums(1 << 20), _indexed(1 << 24, 1 << 20, 0, False)),
    Row("scatter-add 1 M rows of 64 to 64 k",
        _added(1 << 16), _indexed(1 << 20, 1 << 16, 64, False)),
    Row("scatter-add 8 k rows of 1024 to 32 k",
        _added(1 << 15), _indexed(1 << 13, 1 << 15, 1024, False)),
    Row("gather 16 M of 64 M", lambda lib, x, i: x[i], _taken(1 << 26, 0, 1 << 24)),
    Row("gather 1 M rows of 64", lambda lib, x, i: x[i], _taken(1 << 20, 64, 1 << 20)),
    Row("gather 8 k rows of 1024", lambda lib, x, i: x[i], _taken(1 << 15, 1024, 1 << 13)),
    Row("top 8 of 16 k rows of 4096", lambda lib, x: lib.lax.top_k(x, 8), _normal(16384, 4096)),
    Row("top 100 of 64 rows of 128 k", lambda lib, x: lib.lax.top_k(x, 100), _normal(64, 1 << 17)),
    Row("top 50 of 8 rows of 50 k", lambda lib, x: lib.lax.top_k(x, 50), _normal(8, 50000)),
    Row("sort 16 k rows of 1024", lambda lib, x: lib.numpy.sort(x, 1), _normal(16384, 1024)),
    Row("sort 4 k rows of 8192", lambda lib, x: lib.numpy.sort(x, 1), _normal(4096, 8192)),
    Row("argsort 16 k rows of 1024", lambda lib, x: lib.numpy.argsort(x, 1), _normal(16384, 1024)),
    Row("fft 4 k x 4 k", lambda lib, x: lib.numpy.fft.fft(x), _normal(4096, 4096, dtype="c8")),
    Row("fft 16 M", lambda lib, x: lib.numpy.fft.fft(x), _normal(1 << 24, dtype="c8")),
    Row("rfft2 64 x 512 x 512", lambda lib, x: lib.numpy.fft.rfft2(x), _normal(64, 512, 512)),
    Row("ifft2 4 k x 4 k", lambda lib, x: lib.numpy.fft.ifft2(x), _normal(4096, 4096, dtype="c8")),
]  # fmt: skip
ROWS = [*LINALG, *MEMORY]


def per_call(call: Callable[[], Any], wait: Callable[[], None]) -> float:
    """Seconds of a call, many of them put on the device before it is waited for."""
    for _ in range(3):
        call()
    wait()
    begin = time.perf_counter()
    call()
    wait()
    first = time.perf_counter() - begin
    count = max(1, min(100, int(SPAN / first)))
    best = first
    for _ in range(3 if first < 0.3 else 1):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        best = min(best, (time.perf_counter() - begin) / count)
    return best


def by_weft(row: Row, arrays: tuple[np.ndarray, ...]) -> tuple[float, list[np.ndarray]]:
    import weft
    from weft.backends.cuda import driver
    from weft.backends.cuda.program import Cuda, get, put

    closed = weft.make_jaxpr(lambda *xs: row.fun(weft, *xs))(*arrays)
    run = Cuda().compile(closed)
    given = [put(x) for x in arrays]
    took = per_call(lambda: run.run_on_device(given), driver.synchronize)
    made = run.run_on_device(given)
    return took, [get(x, a) for x, a in zip(made, closed.out_avals, strict=True)]


def by_jax(row: Row, arrays: tuple[np.ndarray, ...]) -> tuple[float, list[np.ndarray]]:
    import jax

    run = jax.jit(lambda *xs: row.fun(jax, *xs))
    given = [jax.device_put(x) for x in arrays]
    found: list[Any] = []

    def call() -> None:
        found[:] = jax.tree.leaves(run(*given))

    took = per_call(call, lambda: jax.block_until_ready(found))
    return took, [np.asarray(x) for x in found]


def difference(mine: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The largest difference of sizes, over the largest number: signs and phases are free."""
    worst = 0.0
    for a, b in zip(mine, theirs, strict=True):
        x, y = np.abs(a.astype(np.complex128)), np.abs(b.astype(np.complex128))
        worst = max(worst, float(np.max(np.abs(x - y)) / max(np.max(y), 1e-30)))
    return worst


def main(*texts: str) -> None:
    print(f"{'':40} {'weft':>10} {'JAX':>10} {'ratio':>7}   differs by")
    for row in ROWS:
        if texts and not any(text in row.name for text in texts):
            continue
        arrays = row.operands(np.random.default_rng(0))
        try:
            mine, one = by_weft(row, arrays)
            theirs, two = by_jax(row, arrays)
        except Exception as error:
            print(f"{row.name:40} {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        differs = difference(one, two)
        ratio = mine / theirs
        told = f"{1e6 * mine:10.1f} {1e6 * theirs:10.1f} {ratio:7.2f}   {differs:.1e}"
        print(f"{row.name:40} {told}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
