"""Statements of kernels beyond loops, stores and reductions: serial loops, atomics, barriers. NumPy
and the CPU's code agree on all of them."""

import ctypes

import numpy as np
import pytest

from weft.backends.cpu.code.serial import chunk, render_serial
from weft.backends.llvm.native.machine import compile_many
from weft.kernel.build import Builder
from weft.kernel.kernel import (
    Affine,
    Atomic,
    Barrier,
    Buffer,
    Carry,
    Kernel,
    Loop,
    Reduce,
    Serial,
    Store,
    affine,
    show,
    signature,
)
from weft.kernel.nodes import F32, I32, I64
from weft.kernel.run import run_kernel
from weft.kernel.spec import KernelError, verify

AT = affine(0, {"i": 1})


def native(kernel, buffers):
    """Run a kernel's code, chunk by chunk."""
    (address,) = compile_many([(render_serial(kernel), kernel.name)])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
    table = (ctypes.c_void_p * len(buffers))(*[b.ctypes.data for b in buffers])
    extent = 1 if kernel.grid is None else kernel.grid[1]
    for low in range(0, extent, chunk(kernel)):
        function(ctypes.addressof(table), low, min(extent, low + chunk(kernel)))


def both(kernel, *buffers):
    """A kernel's results by NumPy and by the CPU, which are the same."""
    verify(kernel)
    found = []
    for run in (run_kernel, native):
        own = [b.copy() for b in buffers]
        run(kernel, own)
        found.append(own)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    return found[0]


def collatz():
    """Steps until a number is 1: a loop that ends at another time for each element."""
    k = Builder()
    n, steps = k.make("acc", (), I64, 0), k.make("acc", (), I64, 1)
    one = k.const(1, I64)
    even = k.eq(k.and_(n, one), k.const(0, I64))
    odd = k.add(k.mul(n, k.const(3, I64)), one)
    after = k.select(even, k.div(n, k.const(2, I64)), odd)
    carried = (Carry(0, k.load(0, I64, AT), after), Carry(1, k.const(0, I64), k.add(steps, one)))
    loop = Serial(carried, [], None, 0, k.gt(n, one))
    buffers = [Buffer(I64, 30, "in"), Buffer(I64, 30, "out")]
    return Kernel("collatz", buffers, ("i", 30), [loop, Store(1, AT, steps)], serial=True)


def steps(n):
    count = 0
    while n > 1:
        n, count = 3 * n + 1 if n % 2 else n // 2, count + 1
    return count


def test_a_loop_with_a_condition():
    numbers = np.arange(1, 31)
    _, found = both(collatz(), numbers, np.zeros(30, np.int64))
    np.testing.assert_array_equal(found, [steps(n) for n in range(1, 31)])


def test_a_loop_in_order_hands_its_state_on():
    k = Builder()
    at = affine(0, {"i": 7, "j": 1})
    total = k.add(k.mul(k.make("acc", (), F32, 0), k.const(0.5, F32)), k.load(0, F32, at))
    loop = Serial((Carry(0, k.const(0, F32), total),), [Store(1, at, total)], "j", 7)
    buffers = [Buffer(F32, 35, "in"), Buffer(F32, 35, "out")]
    kernel = Kernel("decay", buffers, ("i", 5), [loop], serial=True)
    x = np.arange(35, dtype=np.float32)
    _, found = both(kernel, x, np.zeros_like(x))
    want, state = x.reshape(5, 7).copy(), np.zeros(5, np.float32)
    for j in range(7):
        want[:, j] = state = state * np.float32(0.5) + x.reshape(5, 7)[:, j]
    np.testing.assert_array_equal(found, want.ravel())


@pytest.mark.parametrize("op", ["add", "mul", "min", "max"])
def test_atomics_meet_in_memory(op):
    k = Builder()
    place = k.cast(k.load(0, I32, AT), I64)
    mask = k.ge(place, k.const(0, I64))
    inside = k.max(place, k.const(0, I64))
    atomic = Atomic(2, Affine(), op, k.load(1, F32, AT), inside, (0, 3), mask)
    buffers = [Buffer(I32, 50, "in"), Buffer(F32, 50, "in"), Buffer(F32, 4, "out")]
    kernel = Kernel("meet", buffers, ("i", 50), [atomic], serial=True)
    assert chunk(kernel) == 50  # one thread, in order
    rng = np.random.default_rng(0)
    places = rng.integers(-1, 4, 50).astype(np.int32)
    values = rng.normal(size=50).astype(np.float32)
    *_, found = both(kernel, places, values, np.ones(4, np.float32))
    want = np.ones(4, np.float32)
    combine = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    combine.at(want, places[places >= 0], values[places >= 0])
    np.testing.assert_array_equal(found, want)


def test_threads_share_memory_and_wait_for_each_other():
    """A sort of short rows by odd and even neighbours, in memory that the threads share."""
    n = 8
    k = Builder()
    here, row = affine(0, {"t": 1}), affine(0, {"i": n, "t": 1})
    fill = Loop("t", n, [Store(2, here, k.load(0, F32, row))], threads=True)
    turn = k.index("r")
    odd = k.and_(turn, k.const(1, I64))
    first = k.add(k.mul(k.index("p"), k.const(2, I64)), odd)
    second = k.min(k.add(first, k.const(1, I64)), k.const(n - 1, I64))
    first = k.min(first, k.const(n - 1, I64))
    a, b = (k.make("load", (v,), F32, (2, Affine(), (0, n - 1))) for v in (first, second))
    swap = [
        Store(2, Affine(), k.min(a, b), first, (0, n - 1)),
        Store(2, Affine(), k.max(a, b), second, (0, n - 1)),
    ]
    turns = Serial((), [Loop("p", n // 2, swap, threads=True), Barrier()], "r", n)
    out = Loop("t", n, [Store(1, row, k.load(2, F32, here))], threads=True)
    buffers = [Buffer(F32, 5 * n, "in"), Buffer(F32, 5 * n, "out"), Buffer(F32, n, "row")]
    body = [fill, Barrier(), turns, out]
    kernel = Kernel("rows", buffers, ("i", 5), body, serial=True)
    x = np.random.default_rng(1).normal(size=5 * n).astype(np.float32)
    _, found = both(kernel, x, np.zeros_like(x))
    np.testing.assert_array_equal(found.reshape(5, n), np.sort(x.reshape(5, n), 1))
    assert "by threads" in show(kernel) and "barrier" in show(kernel)


def test_rows_of_loops_inside_of_the_grid():
    """Scratch that each iteration of a loop fills and reads at other places before the next."""
    k = Builder()
    given = affine(0, {"i": 12, "p": 4, "q": 1})
    fill = Loop("q", 4, [Store(2, affine(0, {"q": 1}), k.load(0, F32, given))])
    turned = Loop("q", 4, [Store(1, given, k.load(2, F32, affine(3, {"q": -1})))])
    buffers = [Buffer(F32, 60, "in"), Buffer(F32, 60, "out"), Buffer(F32, 4, "row")]
    kernel = Kernel("turned", buffers, ("i", 5), [Loop("p", 3, [fill, turned])], serial=True)
    x = np.arange(60, dtype=np.float32)
    _, found = both(kernel, x, np.zeros_like(x))
    np.testing.assert_array_equal(found.reshape(15, 4), x.reshape(15, 4)[:, ::-1])


def test_reductions_inside_of_serial_loops():
    k = Builder()
    at = affine(0, {"j": 4, "q": 1})
    reduce = Reduce(5, "max", k.load(0, F32, at), F32, -np.inf)
    most = k.make("acc", (), F32, 5)
    total = k.add(k.make("acc", (), F32, 0), most)
    loop = Serial((Carry(0, k.const(0, F32), total),), [Loop("q", 4, [reduce], (5,))], "j", 6)
    done = Store(1, Affine(), k.make("acc", (), F32, 0))
    kernel = Kernel(
        "most", [Buffer(F32, 24, "in"), Buffer(F32, 1, "out")], None, [loop, done], serial=True
    )
    x = np.random.default_rng(2).integers(-9, 9, 24).astype(np.float32)
    _, found = both(kernel, x, np.zeros(1, np.float32))
    assert found[0] == x.reshape(6, 4).max(1).sum()


def test_signatures_tell_statements_apart():
    kernel = collatz()
    loop, store = kernel.body
    other = kernel._replace(body=[loop._replace(axis="j", extent=3, condition=None), store])
    assert signature(kernel) == signature(collatz()) != signature(other)


def wrong(change):
    kernel = collatz()
    return change(kernel, *kernel.body)


K = Builder()
WRONG = {
    "not marked": lambda kernel, loop, store: kernel._replace(serial=False),
    "twice": lambda kernel, loop, store: kernel._replace(body=[loop, loop, store]),
    "before": lambda kernel, loop, store: kernel._replace(body=[store, loop]),
    "condition": lambda kernel, loop, store: kernel._replace(
        body=[loop._replace(condition=K.const(1, I64)), store]
    ),
    "no end": lambda kernel, loop, store: kernel._replace(
        body=[loop._replace(condition=None), store]
    ),
    "operation": lambda kernel, loop, store: kernel._replace(
        body=[Atomic(1, AT, "xor", K.const(1, I64))]
    ),
    "bounds": lambda kernel, loop, store: kernel._replace(
        body=[Atomic(1, affine(1, {"i": 1}), "add", K.const(1, I64))]
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_kernels_that_are_not_well_formed(name):
    with pytest.raises(KernelError):
        verify(wrong(WRONG[name]))
