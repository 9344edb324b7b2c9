"""Decompositions and solves of matrices of new sizes: right, and by code that is there already."""

import ctypes
import functools

import numpy as np
import pytest

from tests.backends import test_linalg as usual
from tests.backends.modules import module
from tests.backends.shapes import in_named_sizes
from weft import lax, scipy
from weft import numpy as jnp
from weft.backends.cpu.routines.factorisations.transpose import turn_code
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.sizes import Written, at_hand
from weft.backends.llvm.native import compiling, machine, processor
from weft.backends.llvm.tasks import Place, Task
from weft.kernel.program import Type

F32, F64, C64, C128 = usual.DTYPES


# --- results --------------------------------------------------------------------------------------

FEW, MANY = usual.STACKS
CHECKS = {
    "cholesky": (usual.test_cholesky, [(F32, FEW), (F64, MANY), (C64, MANY)]),
    "cholesky in tiles": (
        usual.test_a_large_cholesky_factor_is_made_in_tiles,
        [(F32,), (C128,)],
    ),
    "svd": (usual.test_svd, [(F64, FEW), (C64, FEW), (F32, MANY)]),
    "triangular solve": (usual.test_triangular_solve, [(F32, FEW), (C128, MANY), (F64, MANY)]),
    "tridiagonal solve": (usual.test_tridiagonal_solve, [(F32,), (C64,)]),
    "narrow vectors": (usual.test_copies_with_narrower_vectors, [(128,), (256,)]),
    "threads": (usual.test_the_same_bits_on_any_number_of_threads, [()]),
}


@pytest.mark.parametrize("name", CHECKS)
def test_code_for_any_size_is_right(name, monkeypatch):
    named = {name: in_named_sizes(lowering) for name, lowering in LOWERINGS.items()}
    monkeypatch.setattr(usual, "LOWERINGS", named)
    check, cases = CHECKS[name]
    for case in cases:
        if "narrow" in name:
            check(*case, monkeypatch)
        else:
            check(*case)


def test_texts_have_no_sizes():
    """Matrices that are square, tall or wide, of any number, have the same code."""
    found = {}
    for stack, m, n in [((), 20, 20), ((3,), 30, 18), ((2, 2), 17, 40), ((70,), 33, 19)]:
        for dtype in (C64, C128):  # real ones that are small have code of their own
            a, k = Type((*stack, m, n), np.dtype(dtype)), min(m, n)
            square, rows = a._replace(shape=(*stack, m, m)), a._replace(shape=(*stack, m))
            taus = a._replace(shape=(*stack, k))
            whole = Type((*stack, k), np.dtype(np.int32))
            flags = {"lower": True, "conjugate_a": True, "transpose_a": False}
            flags |= {"left_side": True, "unit_diagonal": False, "adjoint": True}
            other = a._replace(shape=(*stack, n, n))
            for name, ins, outs in [
                ("cholesky", [square], [square]),
                ("lu", [a], [a, whole, whole]),
                ("geqrf", [a], [a, taus]),
                ("schur", [square], [square, square]),
                ("hessenberg", [square], [square, rows]),
                ("triangular_solve", [square, a], [a]),
                ("triangular_sylvester", [square, other, a], [a]),
            ]:
                lowered = LOWERINGS[name](ins, outs, flags)
                found.setdefault((name, dtype), set()).update([t.module for t in lowered.tasks])
    assert {len(texts) for texts in found.values()} == {1}


@pytest.mark.parametrize("bits", [128, 512])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_matrices_of_all_shapes_are_transposed_by_one_function(size, bits, monkeypatch):
    monkeypatch.setattr(processor, "vector_bits", lambda: bits)
    kind = np.dtype({4: F32, 8: F64, 16: C128}[size])
    (code,) = machine.compile_many([turn_code(size)])
    word = ctypes.c_int64
    turn = ctypes.CFUNCTYPE(None, word, word, word, word, word, word)(int(code))
    for rows, columns, more in [
        (1, 1, 0),
        (1, 9, 0),
        (9, 1, 0),
        (2, 50, 1),
        (33, 3, 2),
        (17, 40, 0),
    ]:
        x = np.zeros((rows, columns + more), kind)
        x[:, :columns] = usual.draw((rows, columns), kind)
        got = np.zeros((columns, rows + more), kind)
        turn(x.ctypes.data, x.strides[0], got.ctypes.data, got.strides[0], rows, columns)
        assert np.array_equal(got[:, :rows], x[:, :columns].T)
        assert not got[:, rows:].any()


def test_sizes_that_a_text_reads():
    written = Written()
    rows, columns = written.named((12, 96))
    with written.writing():
        text = module(f"""declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal void @g(i64 %n) #0 {{
entry:
  %m = mul i64 %n, {columns}
  ret void
}}
define void @f(ptr %buffers, i64 %start, i64 %stop) #0 {{
entry:
  %a = getelementptr ptr, ptr %buffers, i64 12
  %b = load ptr, ptr %a, align 8
  %d = mul i64 %start, {rows}
  %e = getelementptr i8, ptr %b, i64 %d
  %g = call i32 %b(i32 102, i8 signext 85, i32 {rows}, ptr %e)
  call void @g(i64 {8 * rows})
  ret void
}}
""")
    places = (Place("in", 0),)
    task = at_hand(written.task(Task(text, "f", places)))
    assert task.places == (*places, Place("numbers", (96, 12, 96)))
    text = str(task.module)
    assert "ptr %buffers, i64 12" in text and "mul i64 %start, %sized1" in text
    assert "i32 102, i8 signext 85, i32 %sized1.i32" in text
    assert "@g(ptr %sized, i64 %n)" in text and "@g(ptr %sized, i64 %sized2)" in text
    assert compiling.compile_now(task.module)
    other = module("define void @f() {\nentry:\n}\n")
    assert written.task(Task(other, "f", places)).places == places


# --- new shapes -----------------------------------------------------------------------------------

# the first ones are of no other test: operators do not forget what they have learnt
SINGLE = [(27, 27), (31, 31), (20, 20), (43, 43)]
TINY = [(43, 7, 7), (61, 7, 7), (35, 7, 7)]
SMALL = [(20, 13, 13), (23, 11, 11), (18, 14, 14)]


def adjoint(x):
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def by_eigh(a):
    v, w = lax.linalg.eigh(a, symmetrize_input=False)
    return (np.asarray(v) * np.asarray(w)[..., None, :]) @ np.asarray(adjoint(v))


def by_svd(a):
    u, s, v = map(np.asarray, lax.linalg.svd(a, full_matrices=False))
    return (u * s[..., None, :]) @ v


def by_lu(a):
    packed, _, order = map(np.asarray, lax.linalg.lu(a))
    lower = np.tril(packed, -1) + np.eye(a.shape[-1], dtype=packed.dtype)
    product = lower @ np.triu(packed)
    return np.take_along_axis(product, np.argsort(order, -1)[..., None], -2)


def by_qr(a, pivoting=False):
    q, r, *order = map(np.asarray, lax.linalg.qr(a, pivoting=pivoting))
    if pivoting:
        return np.take_along_axis(q @ r, np.argsort(order[0], -1)[..., None, :], -1)
    return q @ r


def by_schur(a):
    form, vectors = map(np.asarray, lax.linalg.schur(a))
    return vectors @ form @ np.conj(np.swapaxes(vectors, -1, -2))


def by_eig(a):
    w, v = map(np.asarray, lax.linalg.eig(a, compute_left_eigenvectors=False))
    return (v * w[..., None, :]) @ np.linalg.inv(v)


def by_cholesky(a):
    factor = np.asarray(lax.linalg.cholesky(a, symmetrize_input=False))
    return factor @ np.conj(np.swapaxes(factor, -1, -2))


def by_triangle(a):
    lower = np.tril(np.asarray(a))
    solve = functools.partial(lax.linalg.triangular_solve, left_side=True, lower=True)
    return lower @ np.asarray(solve(a, a))


EVERY = {
    "cholesky": by_cholesky,
    "lu": by_lu,
    "qr": by_qr,
    "svd": by_svd,
    "eigh": by_eigh,
    "triangular_solve": by_triangle,
}
ALONE = {
    **EVERY,
    "qr with pivoting": functools.partial(by_qr, pivoting=True),
    "schur": by_schur,
    "eig": by_eig,
}


def check_new_shapes(fun, shapes, dtype, texts):
    for i, shape in enumerate(shapes):
        a = usual.positive(shape, dtype)
        given = jnp.asarray(a)
        for _ in range(3):
            found = fun(given)
        bound = 32 * shape[-1] * np.finfo(dtype).eps * np.abs(a).max()
        assert np.abs(found - a).max() <= bound
        assert i == 0 or texts == []
        texts.clear()


@pytest.mark.parametrize("name", ALONE)
def test_one_matrix(name, texts):
    for dtype in (F32, C64):
        check_new_shapes(ALONE[name], SINGLE, dtype, texts)


@pytest.mark.parametrize("shapes", [TINY, SMALL], ids=["tiny", "small"])
@pytest.mark.parametrize("name", EVERY)
def test_many_small_matrices(name, shapes, texts):
    check_new_shapes(EVERY[name], shapes, F32, texts)


def test_large_matrices(texts):
    for fun, shapes in [(by_cholesky, [(391, 391), (402, 402)]), (by_lu, [(290, 290), (277, 277)])]:
        check_new_shapes(fun, shapes, F32, texts)


FUNCTIONS = {
    "inv": (jnp.linalg.inv, np.linalg.inv),
    "det": (jnp.linalg.det, np.linalg.det),
    "pinv": (jnp.linalg.pinv, np.linalg.pinv),
    "solve": (lambda a: jnp.linalg.solve(a, a[0]), lambda a: np.linalg.solve(a, a[0])),
    "lstsq": (
        lambda a: jnp.linalg.lstsq(a[:, :9], a[0])[0],
        lambda a: np.linalg.lstsq(a[:, :9], a[0], rcond=None)[0],
    ),
    "norm": (lambda a: jnp.linalg.norm(a, 2), lambda a: np.linalg.norm(a, 2)),
    "cond": (jnp.linalg.cond, np.linalg.cond),
    "polyfit": (
        lambda a: jnp.polyfit(a[0] / len(a), a[1], 2),
        lambda a: np.polyfit(a[0] / len(a), a[1], 2),
    ),
    "companion": (
        lambda a: scipy.linalg.companion(a[0] + 90) @ a[0, 1:],
        lambda a: (
            np.append(-(a[0, 1:] / (a[0, :1] + 90)) @ (a[0, 1:]), a[0, 1:-1])
            + np.eye(1, len(a) - 1)[0] * -((90 / (a[0, 0] + 90)) * a[0, 1:].sum())
        ),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_matrix(name, texts):
    ours, numpys = FUNCTIONS[name]
    for i, n in enumerate([26, 28, 19, 27]):
        a = (usual.positive((n, n), F32) / n).astype(F32)
        for _ in range(3):
            found = ours(jnp.asarray(a))
        np.testing.assert_allclose(found, numpys(a.astype(F64)), rtol=2e-3, atol=2e-3)
        assert i == 0 or texts == []
        texts.clear()


def test_determinants_of_complex_matrices(texts):
    for n in (29, 6):
        jnp.linalg.det(usual.draw((n, n), C64))
        jnp.linalg.slogdet(usual.draw((n, n), C64))
    texts.clear()
    for n in (4, 5, 7, 9, 16, 23, 31, 40):
        a = (usual.draw((n, n), C64) / np.sqrt(n)).astype(C64)
        want = np.linalg.det(a.astype(C128))
        assert abs(np.asarray(jnp.linalg.det(a)) - want) <= 1e-4 * abs(want)
        sign, size = map(np.asarray, jnp.linalg.slogdet(a))
        assert abs(sign * np.exp(size) - want) <= 1e-4 * abs(want)
        assert texts == [], n
