"""Factors of a few elements: straight code that Python runs on NumPy's numbers gives the bits of
the native function."""

import itertools

import numpy as np
import pytest

from tests.backends.by_python import Cells, runnable
from tests.backends.tasks import run_tasks
from weft.backends.cpu.routines.factorisations import tiny, tiny_stubs
from weft.kernel.program import Type

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
# Matrices that have no factors among others.
A = np.random.default_rng(0).normal(size=(2, 2, 3, 3)).astype(F32)
A[1, 0] = 0.0
A[1, 1, 1, 0] = np.nan


def by_python(name, count, ins, outs, params):
    """The results of an operation on so many matrices, run by Python."""
    types = [Type(x.shape, x.dtype) for x in ins]
    names = tiny.PLANS[name](types, outs, params)[1] | {"COUNT": count, "F": Cells(F32)}
    found = [np.zeros(t.shape, t.dtype) for t in outs]
    with np.errstate(all="ignore"):
        runnable(getattr(tiny_stubs, name), **names)([x.reshape(-1) for x in [*ins, *found]])
    return found


def check(name, count, ins, outs, **params):
    lowered = tiny.lower(name, [Type(x.shape, x.dtype) for x in ins], outs, params)
    for got, want in zip(
        run_tasks(lowered, ins, outs), by_python(name, count, ins, outs, params), strict=True
    ):
        np.testing.assert_array_equal(got, want)


def test_cholesky():
    spd = A @ np.swapaxes(A, -1, -2)
    check("cholesky", 4, [spd], [Type(spd.shape, F32)])
    check("cholesky", 1, [spd[0, 0, :1, :1].copy()], [Type((1, 1), F32)])


@pytest.mark.parametrize("shape", [(2, 2, 3, 3), (2, 2, 3, 2), (2, 2, 2, 3), (2, 2, 1, 3)])
def test_lu(shape):
    a = np.ascontiguousarray(A[..., : shape[-2], : shape[-1]])
    least = min(shape[-2:])
    outs = [Type(shape, F32), Type((2, 2, least), I32), Type((2, 2, shape[-2]), I32)]
    check("lu", 4, [a], outs)
    (_, pivots, order), outs = by_python("lu", 4, [a], outs, {}), [outs[2]]
    check("lu_pivots_to_permutation", 4, [pivots], outs)
    found = by_python("lu_pivots_to_permutation", 4, [pivots], outs, {})
    np.testing.assert_array_equal(found[0], order)


@pytest.mark.parametrize("left", [False, True])
def test_triangular_solve(left):
    b = np.ascontiguousarray(A[0, :, :, :2] if left else A[0, :, :2])
    for lower, turned, unit in itertools.product((False, True), repeat=3):
        params = {"left_side": left, "lower": lower, "transpose_a": turned}
        ins = [A[:, 0].copy(), b]
        check("triangular_solve", 2, ins, [Type(b.shape, F32)], unit_diagonal=unit, **params)


def test_what_is_not_tiny():
    for shape, dtype in [((9, 9), F32), ((2, 0, 0), F32), ((2, 2), np.dtype(np.complex64))]:
        assert tiny.lower("cholesky", [Type(shape, dtype)], [Type(shape, dtype)], {}) is None
    assert tiny.lower("qr", [Type((2, 2), F32)], [Type((2, 2), F32)] * 2, {}) is None
