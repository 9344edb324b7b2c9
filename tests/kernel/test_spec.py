"""The specification of kernels: good ones pass, each kind of mistake is named."""

import numpy as np
import pytest

from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Buffer, Kernel, Loop, Reduce, Store
from weft.kernel.nodes import BOOL, F32, F64, I32, I64
from weft.kernel.spec import KernelError, verify

ROW, CELL = Affine(0, (("p", 8),)), Affine(0, (("p", 8), ("q", 1)))
BUFFERS = [Buffer(F32, 32, "in"), Buffer(F32, 32, "out")]


def made(body, buffers=BUFFERS, grid=("p", 4)) -> Kernel:
    return Kernel("k", list(buffers), grid, body)


def row_sum() -> Kernel:
    k = Builder()
    x = k.load(0, F32, CELL)
    total = k.make("acc", (), F32, 0)
    first = Loop("q", 8, [Reduce(0, "add", k.mul(x, x), F32, 0)])
    second = Loop("q", 8, [Store(1, CELL, k.div(x, k.sqrt(total)))])
    return made([first, second])


def test_a_good_kernel_passes() -> None:
    verify(row_sum())
    k = Builder()
    verify(made([Store(1, Affine(), k.const(1, F32))], grid=None))
    verify(made([Loop("q", 0, [Store(1, Affine(99), k.const(1, F32))])]))


def store(value, at=ROW, buffer=1):
    return made([Store(buffer, at, value)])


def mistakes():
    k = Builder()
    x, one, flag = k.load(0, F32, ROW), k.const(1, F32), k.const(True, BOOL)
    yield store(one, buffer=0), "may only read"
    yield store(one, buffer=7), "among its 2 buffers"
    yield store(k.const(1, F64)), "b1 of float32 is given float64"
    yield store(one, at=CELL), "uses q"
    yield store(one, at=Affine(1, (("p", 11),))), "from 1 to 34 of 32"
    yield store(one, at=Affine(-1, (("p", 8),))), "from -1"
    yield store(k.load(0, F32, Affine(40))), "from 40"
    yield store(k.load(0, F32, None)), "indexed by None"
    yield store(k.cast(k.load(0, I32, ROW), F32)), "int32 loaded from float32"
    yield store(k.make("add", (x, k.const(1, F64)), F32)), "add of float32, float64"
    yield store(k.make("add", (x,), F32)), "add of float32 gives"
    yield store(k.make("xor", (x, x), F32)), "xor of float32"
    yield store(k.make("popcount", (x,), F32)), "popcount of float32"
    yield store(k.cast(k.make("sqrt", (k.const(1, I64),), I64), F32)), "sqrt of int64"
    yield store(k.make("select", (x, x, x), F32)), "select of float32"
    yield store(k.make("select", (flag, x, k.const(1, F64)), F32)), "select of bool"
    yield store(k.make("bitcast", (k.const(1, I64),), F32)), "bitcast of int64"
    yield store(k.make("frobnicate", (x,), F32)), "no operation"
    yield store(k.make("const", (), F32, b"\0")), "a constant of float32"
    yield store(k.cast(k.index("z"), F32)), "no axis z"
    yield store(k.make("acc", (), F32, 3)), "s3 of float32 is not complete"
    yield made([Reduce(0, "add", one, F64, 0)]), "s0 of float64 combines float32"
    yield made([Reduce(0, "xor", one, F32, 0)]), "reduced by xor"
    yield made([Reduce(0, "add", one, F32, 0), Reduce(0, "add", one, F32, 0)]), "twice"
    yield made([Loop("p", 3, [])]), "inside itself"
    yield made([Loop("q", -3, [])]), "extent -3"
    yield made([Loop("q", 3, [], carries=(5,))]), "carries s5"
    yield made(["text"]), "str is no statement"
    yield made([], [Buffer(np.dtype(np.complex64), 1, "in")]), "complex64"
    yield made([], [Buffer(F32, 1, "sideways")]), "sideways"
    yield made([])._replace(name="a b"), "name 'a b'"


@pytest.mark.parametrize(("kernel", "message"), list(mistakes()))
def test_mistakes_are_named(kernel: Kernel, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        verify(kernel)
