"""The evaluator of scalar values against compiled kernels, operation by operation."""

import numpy as np
import pytest

from tests.backends.tasks import function
from weft import dtypes
from weft.backends.cpu.code.loops import render
from weft.backends.llvm.native.machine import compile_one
from weft.kernel.build import Builder
from weft.kernel.evaluate import evaluate
from weft.kernel.kernel import Affine, Buffer, Kernel, Loop, Reduce, Store, affine
from weft.kernel.nodes import BOOL, walk
from weft.kernel.spec import verify

WHOLE = affine(0, {"p0": 1})
FLOATS = ["float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
ALL = [*FLOATS, "float16", "bfloat16", *INTEGERS, "bool"]
WIDTHS = (1, 4, 16)


def values(dtype, seed=0, size=203):
    """Values of a type, its ends among them."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype == BOOL:
        return rng.random(size) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, size, dtype, endpoint=True)
        x[::3] = rng.integers(0, 20, len(x[::3]))
        x[:4] = info.min, info.max, 0, 1
        return x
    x = rng.standard_normal(size) * 10.0 ** rng.integers(-4, 5, size)
    x[:9] = 0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 1.0, float(dtypes.finfo(dtype).tiny) / 2
    return x.astype(dtype)


def compiled(build, arrays, width):
    """A value of the loaded elements, by machine code and by the evaluator."""
    k = Builder()
    value = build(k, *(k.load(i, x.dtype, WHOLE) for i, x in enumerate(arrays)))
    size = len(arrays[0])
    buffers = [*(Buffer(x.dtype, size, "in") for x in arrays), Buffer(value.dtype, size, "out")]
    body = [Store(len(arrays), WHOLE, value)]
    kernel = Kernel("op", buffers, ("p0", size), body)
    verify(kernel)
    out = np.zeros(size, value.dtype)
    addresses = [x.ctypes.data for x in [*arrays, out]]
    function(compile_one(render(kernel, width), "op"))(addresses, 0, size)
    (want,) = evaluate([value], lambda attr: arrays[attr[0]])
    return out, np.broadcast_to(want, size).astype(value.dtype, copy=False)


def agree(build, *arrays):
    for width in WIDTHS:
        got, want = compiled(build, arrays, width)
        assert got.dtype == want.dtype
        bits = f"u{got.dtype.itemsize}"
        nan = (got != got) & (want != want)
        same = nan | (got.view(bits) == np.ascontiguousarray(want).view(bits))
        wrong = np.flatnonzero(~same)[:3]
        assert same.all(), [([x[i] for x in arrays], got[i], want[i]) for i in wrong]


BINARY = ["add", "sub", "mul", "min", "max", "eq", "ne", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize("op", BINARY)
def test_binary_operations(op):
    for dtype in [*FLOATS, *INTEGERS]:
        agree(lambda k, x, y: getattr(k, op)(x, y), values(dtype), values(dtype, 1))


@pytest.mark.parametrize("op", ["and_", "or_", "xor"])
def test_logic(op):
    for dtype in ["bool", *INTEGERS]:
        agree(lambda k, x, y: getattr(k, op)(x, y), values(dtype), values(dtype, 1))


@pytest.mark.parametrize("op", ["neg", "abs", "sqrt", "floor", "ceil", "rint", "trunc", "isnan"])
def test_functions_of_floats(op):
    for dtype in FLOATS:
        agree(lambda k, x: getattr(k, op)(x), values(dtype))


@pytest.mark.parametrize("op", ["neg", "not_", "popcount", "clz"])
def test_functions_of_integers(op):
    for dtype in INTEGERS:
        agree(lambda k, x: getattr(k, op)(x), values(dtype))


def test_quotients():
    for dtype in FLOATS:
        for op in ("div", "copysign"):
            agree(lambda k, x, y, op=op: getattr(k, op)(x, y), values(dtype), values(dtype, 1))
    for dtype in INTEGERS:
        divisor = np.where(values(dtype, 1) == 0, 3, values(dtype, 1)).astype(dtype)
        if divisor.dtype.kind == "i":
            divisor[divisor == -1] = 5  # the quotient of the lowest number overflows
        for op in ("div", "rem"):
            agree(lambda k, x, y, op=op: getattr(k, op)(x, y), values(dtype), divisor)


@pytest.mark.parametrize("op", ["shl", "lshr", "ashr"])
def test_shifts_within_the_width(op):
    for dtype in INTEGERS:
        bits = 8 * np.dtype(dtype).itemsize
        amount = np.arange(203).astype(np.int64) % bits
        agree(lambda k, x, y: getattr(k, op)(x, y), values(dtype), amount.astype(dtype))


@pytest.mark.parametrize("have", ALL)
def test_conversions(have):
    for want in ALL:
        if {have, want} & {"float16", "bfloat16"} and want not in FLOATS and have not in FLOATS:
            continue  # by way of float32, as fusion writes it
        if (have, want) == ("float64", "bfloat16"):
            continue  # rounded to float32 first
        with np.errstate(all="ignore"):
            agree(lambda k, x, want=want: k.cast(x, want), values(have))


def test_bits_of_another_type():
    for a, b in [("float32", "uint32"), ("int64", "float64"), ("uint16", "float16")]:
        agree(lambda k, x, b=b: k.bitcast(x, b), values(a))


def test_selection():
    for dtype in [*FLOATS, *INTEGERS, "bool"]:
        agree(lambda k, c, x, y: k.select(c, x, y), values("bool"), values(dtype), values(dtype, 1))


def test_fused_multiply_add_rounds_once():
    x, y, z = (np.random.default_rng(i).standard_normal(203).astype(np.float32) for i in range(3))
    agree(lambda k, x, y, z: k.fma(x, y, z), x, y, z)
    near = np.float32(1 + 2.0**-12) * np.ones(203, np.float32)
    got, _ = compiled(lambda k, x, y, z: k.fma(x, y, z), [near, near, -(near * near)], 16)
    np.testing.assert_array_equal(got, np.float32(2.0**-24))


def test_constants_keep_their_bits():
    for number in (-0.0, np.inf, -np.inf, 1e-45, 0.1):
        for dtype in FLOATS:
            agree(lambda k, x, n=number: k.copysign(k.like(x, n), x), values(dtype))


def test_equal_operations_are_one_value():
    k = Builder()
    x = k.load(0, np.float32, WHOLE)
    assert k.add(x, k.like(x, 1)) is k.add(x, k.like(x, 1))
    assert k.like(x, 0.0) is not k.like(x, -0.0)
    root = k.mul(k.add(x, x), k.add(x, x))
    assert len(walk([root])) == 3


@pytest.mark.parametrize("op", ["add", "sub", "fma", "select", "eq"])
def test_operands_of_different_types_are_refused(op):
    k = Builder()
    x, y = k.load(0, np.float32, WHOLE), k.load(1, np.float64, WHOLE)
    args = {"fma": (x, y, x), "select": (k.isnan(x), x, y)}.get(op, (x, y))
    with pytest.raises(TypeError):
        getattr(k, op)(*args)


@pytest.mark.parametrize("extent", [0, 1, 3, 16, 17, 77])
@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "and", "or", "xor"])
def test_reductions_of_any_length(op, extent):
    start = {"mul": 1, "and": -1, "min": 2**31 - 1, "max": -(2**31)}.get(op, 0)
    k = Builder()
    x = values("int32", size=max(extent, 9))[:extent]
    dtype = np.dtype(np.int32)
    loop = Loop("r0", extent, [Reduce(0, op, k.load(0, dtype, affine(0, {"r0": 1})), dtype, start)])
    total = Store(1, Affine(), k.make("acc", (), dtype, 0))
    buffers = [Buffer(dtype, extent, "in"), Buffer(dtype, 1, "out")]
    kernel = Kernel("total", buffers, None, [loop._replace(carries=(0,)), total])
    verify(kernel)
    names = {"mul": "multiply", "min": "minimum", "max": "maximum"}
    name = names.get(op, op if op == "add" else f"bitwise_{op}")
    want = getattr(np, name).reduce(x, dtype=dtype, initial=start)
    for width in WIDTHS:
        out = np.zeros(1, dtype)
        address = compile_one(render(kernel, width), "total")
        function(address)([x.ctypes.data, out.ctypes.data], 0, 1)
        assert out[0] == want
