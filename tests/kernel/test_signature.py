"""Signatures: equal for equal kernels however they were built, different for different ones."""

from __future__ import annotations

import numpy as np
import pytest

from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Loop, Reduce, Store, affine, signature

F32 = np.dtype(np.float32)


def kernel(noise: int = 0, number: float = 1.0, at: int = 0, initial: float = 0.0) -> Kernel:
    k = Builder()
    for i in range(noise):  # values that nothing uses
        k.const(float(100 + i), F32)
    x = k.load(0, F32, affine(at, {"p0": 8, "r0": 1}))
    y = k.add(k.mul(x, x), k.const(number, F32))
    reduce = Reduce(0, "add", y, F32, initial)
    store = Store(1, affine(0, {"p0": 1}), k.make("acc", (), F32, 0))
    buffers = [Buffer(F32, 64, "in"), Buffer(F32, 8, "out")]
    return Kernel("k", buffers, ("p0", 8), [Loop("r0", 8, [reduce], (0,)), store])


def test_equal_kernels_have_equal_signatures() -> None:
    assert signature(kernel()) == signature(kernel(noise=5))
    assert hash(signature(kernel())) == hash(signature(kernel(noise=5)))


@pytest.mark.parametrize(
    "change", [{"number": 2.0}, {"number": -1.0}, {"at": 1}, {"initial": -0.0}, {"initial": 1.0}]
)
def test_what_differs_shows(change: dict[str, float]) -> None:
    assert signature(kernel()) != signature(kernel(**change))


def test_loops_and_buffers_are_part_of_it() -> None:
    made = kernel()
    longer = made._replace(body=[made.body[0]._replace(extent=7), made.body[1]])
    wider = made._replace(buffers=[made.buffers[0]._replace(size=65), made.buffers[1]])
    assert len({signature(k) for k in (made, longer, wider, made._replace(grid=("p0", 7)))}) == 4
