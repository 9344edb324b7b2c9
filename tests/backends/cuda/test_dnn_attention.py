"""cuDNN's graphs of attention, evaluated by NumPy, and the choice between cuDNN and our kernels."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.backends.cuda.emulation import run_routine
from weft.backends.cuda.routines import attention, dnn_attention, dnn_graph
from weft.backends.cuda.routines.base import ROUTINES, Library, Run
from weft.core.registry import lookup
from weft.kernel.nodes import BF16, F16
from weft.kernel.program import Type

g = dnn_graph
POINTWISE = {
    g.ADD: np.add,
    g.MUL: np.multiply,
    g.DIV: np.divide,
    g.SUB: np.subtract,
    g.EXP: np.exp,
    g.LOG: np.log,
    g.IDENTITY: lambda x: x,
    g.GREATER_EQUAL: np.greater_equal,
    g.SELECT: lambda x, y, seen: np.where(seen, x, y),
}


def evaluate(graph, arrays):
    """The tensors of a graph by number; arrays are those in memory that operations read."""
    values = dict(arrays)
    values |= {t.number: t.value.reshape(t.sizes) for t in graph.tensors if t.value is not None}
    for op in graph.operations:
        ins = [values[t.number].astype(np.float64) for t in op.ins]
        values[op.out.number] = COMPUTE[op.name](op, *ins)
        assert values[op.out.number].shape == op.out.sizes
    return values


def matmul(op, a, b):
    return a @ np.repeat(b, a.shape[1] // b.shape[1], 1)


def pointwise(op, *ins):
    if op.mode == g.INDEX:
        return np.indices(op.out.sizes)[op.axis]
    return POINTWISE[op.mode](*ins)


def reduction(op, x):
    fun = {g.SUM: np.sum, g.MAX: np.max}[op.mode]
    sizes = [
        n for pair in zip(op.out.sizes, x.shape, strict=True) for n in (pair[0], pair[1] // pair[0])
    ]
    return fun(x.reshape(sizes), axis=(1, 3, 5, 7))


def reshape(op, x):
    """What is at an element's place in memory."""
    (of,) = op.ins
    strides = [8 * s for s in of.strides]
    room = np.empty(1 + sum((n - 1) * s for n, s in zip(of.sizes, of.strides, strict=True)))
    np.lib.stride_tricks.as_strided(room, of.sizes, strides)[...] = x
    strides = [8 * s for s in op.out.strides]
    return np.lib.stride_tricks.as_strided(room, op.out.sizes, strides)


COMPUTE = {"matmul": matmul, "pointwise": pointwise, "reduction": reduction, "reshape": reshape}

CASES = {
    "plain": ((2, 2, 6, 8), (2, 2, 6, 8), None),
    "causal": ((2, 2, 6, 8), (2, 2, 6, 8), 0),
    "more rows": ((1, 2, 9, 8), (1, 2, 6, 8), 0),
    "last rows": ((1, 2, 4, 8), (1, 2, 7, 8), 3),
    "shared heads": ((2, 6, 5, 8), (2, 2, 5, 8), 0),
    "one head for all": ((2, 4, 5, 8), (2, 1, 7, 8), None),
}


@pytest.mark.parametrize("name", CASES)
def test_graphs(name):
    many, few, causal = CASES[name]
    rng = np.random.default_rng(0)
    q, k, v, dy = (rng.normal(size=s).astype(np.float32) for s in (many, few, few, many))
    params = {"orders": ("bhtd",) * 3, "scale": 0.5, "causal": causal}
    out, stats = lookup("attention").ref(q, k, v, **params)
    orders = ("bthd", "bhtd", "thbd", "bthd", "htbd")
    types = [
        Type(tuple(x.shape["bhtd".index(c)] for c in order), BF16)
        for x, order in zip((q, k, v, q, dy), orders, strict=True)
    ]
    params["orders"] = orders[:3]
    graph = dnn_attention.forward(attention._apart(types[:3], params).sizes)
    across = lambda x: x.swapaxes(2, 3)
    found = evaluate(graph, {1: q, 2: across(k), 3: v})
    np.testing.assert_allclose(found[4], out, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[5][..., 0] * np.log2(np.e), stats, rtol=1e-5, atol=1e-6)

    params["orders"] = (*orders[:3], orders[4])
    ins = [*types[:4], None, types[4]]
    graph = dnn_attention.backward(attention._apart(ins, params).sizes)
    given = (q, across(k), across(v), out, dy, stats[..., None] / np.log2(np.e))
    found = evaluate(graph, dict(enumerate(given, 1)))
    params["orders"] = ("bhtd",) * 4
    want = lookup("attention_backward").ref(q, k, v, out, stats, dy, **params)
    for i in range(3):
        np.testing.assert_allclose(found[7 + i], want[i], rtol=1e-4, atol=1e-5)


def test_strides_are_those_of_the_order():
    t = Type((2, 128, 3, 64), BF16)
    params = {"scale": 1.0, "causal": 0, "orders": ("bthd",) * 3}
    sizes = attention._apart([t] * 3, params).sizes
    assert sizes.strides[0] == (128 * 3 * 64, 64, 3 * 64)
    assert (sizes.batch, sizes.heads, sizes.rows, sizes.depth) == (2, 3, 128, 64)
    keys = dnn_attention.forward(sizes).tensors[1]
    assert keys.sizes == (2, 3, 64, 128) and keys.strides == (128 * 3 * 64, 64, 1, 3 * 64)


def sizes_of(rows=256, columns=256, depth=64, shift=0):
    return dnn_attention.Sizes(BF16, 1, 1, 1, rows, columns, depth, ((0, 0, 0),) * 4, 1.0, shift)


@pytest.mark.parametrize(
    ("sizes", "version", "architecture", "want"),
    [
        (sizes_of(), 91200, 90, True),
        (sizes_of(depth=128, shift=None), 91200, 90, True),
        (sizes_of(rows=128, shift=128), 91200, 90, True),
        (sizes_of(), 91200, 80, False),
        (sizes_of(), 90500, 90, False),
        (sizes_of(), 91000, 90, False),
        (sizes_of(depth=32), 91200, 90, False),
        (sizes_of(shift=5), 91200, 90, False),
        (sizes_of()._replace(heads=2), 91200, 90, True),
        (sizes_of(rows=16), 91200, 90, False),
        (sizes_of(columns=200), 91500, 90, False),
        (sizes_of(columns=200), 91600, 90, True),
    ],
)
def test_known(sizes, version, architecture, want):
    assert dnn_attention.known(sizes, version, architecture) == want


MANY, FEW = (1, 128, 2, 64), (1, 256, 1, 64)
FORWARD = [Type(MANY, F16), Type(FEW, F16), Type(FEW, F16)]
ROWS = Type((1, 2, 128), np.dtype(np.float32))
BACKWARD = [*FORWARD, Type(MANY, F16), ROWS, Type(MANY, F16)]
PARAMS = {"orders": ("bthd",) * 3, "scale": 0.25, "causal": None}


def test_cudnn_is_asked(monkeypatch):
    plan = SimpleNamespace(workspace=100, run=lambda *args: None)
    monkeypatch.setattr(dnn_attention, "plan", lambda write, sizes: plan)
    found = ROUTINES["attention"](FORWARD, [], PARAMS)
    assert [type(step) for step in found.steps] == [Library] and found.scratch == (100,)
    params = PARAMS | {"orders": ("bthd",) * 4}
    found = ROUTINES["attention_backward"](BACKWARD, FORWARD, params)
    assert [type(step) for step in found.steps] == [Library]
    assert found.scratch == (4 * 256, 4 * 256 * 64, 100)


def test_stubs_are_for_other_gpus(monkeypatch):
    monkeypatch.setattr(dnn_attention, "plan", lambda write, sizes: None)
    monkeypatch.setattr(attention.hopper, "known", lambda sizes: False)
    found = ROUTINES["attention"](FORWARD, [], PARAMS)
    assert [type(step) for step in found.steps] == [Run]
    params = PARAMS | {"orders": ("bthd",) * 4}
    found = ROUTINES["attention_backward"](BACKWARD, FORWARD, params)
    assert [type(step) for step in found.steps] == [Run] * 3


@pytest.mark.parametrize(
    ("flags", "want"),
    [("", False), ("--xla_gpu_deterministic_ops=true", True), ("--xla_gpu_deterministic_ops", True)]
    + [("--xla_gpu_deterministic_ops=false --xla_dump_to=/x", False)],
)
def test_deterministic(monkeypatch, flags, want):
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert dnn_attention.deterministic() == want


@pytest.mark.parametrize(("heads", "causal"), [((2, 2), 0), ((4, 2), None)])
def test_packed(monkeypatch, heads, causal):
    """Our kernels read and write parts of rows."""
    monkeypatch.setattr(attention, "WARPS", 1)
    monkeypatch.setattr(attention, "COLUMNS", 16)
    rng = np.random.default_rng(0)
    packed, whole = (1, 20, 16 * (heads[0] + 2 * heads[1])), (1, 20, heads[0], 16)
    x, dy = rng.normal(size=packed).astype(BF16), rng.normal(size=whole).astype(BF16)
    params = {"heads": heads, "depth": 16, "scale": 0.25, "causal": causal}
    out, stats = np.zeros(whole, BF16), np.zeros((1, heads[0], 20), np.float32)
    run_routine(ROUTINES["packed_attention"]([Type(packed, BF16)], [], params), [x], [out, stats])
    want, logs = lookup("packed_attention").ref(x, **params)
    np.testing.assert_allclose(stats, logs, rtol=1e-5, atol=1e-5)
    close(out, want)
    given, made = [x, out, stats, dy], np.zeros(packed, BF16)
    types = [Type(a.shape, a.dtype) for a in given]
    run_routine(ROUTINES["packed_attention_backward"](types, [], params), given, [made])
    close(made, lookup("packed_attention_backward").ref(*given, **params)[0])


def close(a, b):
    a, b = a.astype(np.float32), b.astype(np.float32)
    assert np.abs(a - b).max() < 0.02 * np.abs(b).max()
