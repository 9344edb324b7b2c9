"""Convolutions and their gradients as cuDNN is asked for them, computed by NumPy."""

from itertools import product

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.emulation import run_routine
from weft.backends.cuda import assemble, libraries
from weft.backends.cuda.passes.special import special
from weft.backends.cuda.program import Cuda
from weft.backends.cuda.routines import conv, dnn, products
from weft.backends.cuda.routines.base import Library
from weft.compiler.pipeline import simplify
from weft.compiler.plan import Planner
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import eval_jaxpr
from weft.kernel.nodes import BF16, F32
from weft.kernel.program import Op, Type

PLANE, CHANNELS_FIRST = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


class ByNumpy:
    """A convolution of cuDNN's: each kind is the same sum, by one of its three arrays."""

    workspace = 0

    def __init__(self, kind, sizes):
        self.kind, self.sizes = kind, sizes
        for n, o, k, p, s, d in self._axes():  # what the library asks of sizes
            assert (n + 2 * p - ((k - 1) * d + 1)) // s + 1 == o
        assert sizes.data[1] == sizes.groups * sizes.filters[1]
        assert sizes.filters[0] == sizes.result[1] and sizes.filters[0] % sizes.groups == 0

    def _axes(self):
        s = self.sizes
        shapes = (s.data[2:], s.result[2:], s.filters[2:])
        return list(zip(*shapes, s.padding, s.strides, s.dilation, strict=True))

    def _array(self, address, shape):
        s = self.sizes
        stored = (shape[0], *shape[2:], shape[1]) if s.last else shape
        size = int(np.prod(shape)) * s.dtype.itemsize
        buffer = (libraries.ctypes.c_char * size).from_address(address)
        found = np.frombuffer(buffer, s.dtype).reshape(stored)
        return np.moveaxis(found, -1, 1) if s.last else found

    def run(self, stream, first, second, out, work):
        s = self.sizes
        shapes = {"data": s.data, "filters": s.filters, "result": s.result}
        order = {
            dnn.FORWARD: ("data", "filters", "result"),
            dnn.DATA: ("filters", "result", "data"),
            dnn.FILTER: ("data", "result", "filters"),
        }[self.kind]
        arrays = {
            name: self._array(at, shapes[name])
            for name, at in zip(order, (first, second, out), strict=True)
        }
        found = self._computed({k: v.astype(np.float64) for k, v in arrays.items()}, order[2])
        arrays[order[2]][...] = found.astype(s.dtype)

    def _computed(self, arrays, wanted):
        s, axes = self.sizes, self._axes()
        pads = [(0, 0), (0, 0), *((p, p) for _, _, _, p, _, _ in axes)]
        x = np.pad(arrays["data"], pads)
        w, y = arrays["filters"], arrays["result"]
        made = np.zeros_like({"data": x, "filters": w, "result": y}[wanted])
        ins, outs = s.data[1] // s.groups, s.filters[0] // s.groups
        for g, at in product(range(s.groups), np.ndindex(*s.filters[2:])):
            tap = tuple(k - 1 - i for i, k in zip(at, s.filters[2:], strict=True))
            tap = tap if s.flipped else at
            cut = tuple(
                slice(i * d, i * d + (o - 1) * st + 1, st)
                for i, (_, o, _, _, st, d) in zip(at, axes, strict=True)
            )
            here = (slice(None), slice(g * ins, (g + 1) * ins), *cut)
            there = (slice(None), slice(g * outs, (g + 1) * outs))
            taps = (slice(g * outs, (g + 1) * outs), slice(None), *tap)
            if wanted == "result":
                made[there] += np.einsum("ni...,oi->no...", x[here], w[taps])
            elif wanted == "data":
                made[here] += np.einsum("no...,oi->ni...", y[there], w[taps])
            else:
                flat = lambda a: a.reshape(*a.shape[:2], -1)
                made[taps] += np.einsum("nop,nip->oi", flat(y[there]), flat(x[here]))
        inner = tuple(slice(p, p + n) for n, _, _, p, _, _ in axes)
        return made[(slice(None), slice(None), *inner)] if wanted == "data" else made


def conv_of(numbers=PLANE, strides=(1, 1), padding="SAME", **more):
    return lambda x, w: weft.lax.conv_general_dilated(
        x, w, strides, padding, dimension_numbers=numbers, **more
    )


def transposed(x, w):
    return weft.lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=PLANE)


# Functions, and the shapes of their operands.
CASES = {
    "plain": (conv_of(), (2, 6, 7, 3), (3, 3, 3, 4)),
    "strided": (conv_of(strides=(2, 2)), (2, 7, 9, 3), (3, 3, 3, 4)),
    "grouped": (conv_of(feature_group_count=2), (2, 6, 7, 4), (3, 3, 2, 6)),
    "grouped, strided": (
        conv_of(strides=(2, 2), feature_group_count=2), (2, 7, 9, 4), (3, 3, 2, 6)
    ),
    "grouped, first": (
        conv_of(CHANNELS_FIRST, feature_group_count=3), (2, 6, 7, 8), (6, 2, 3, 3)
    ),
    "depthwise": (conv_of(feature_group_count=4), (2, 6, 9, 4), (5, 5, 1, 8)),
    "depthwise, along a line": (
        conv_of(("NWC", "WIO", "NWC"), (1,), [(3, 0)], feature_group_count=4), (2, 9, 4), (4, 1, 4)
    ),
    "along a line": (conv_of(("NWC", "WIO", "NWC"), (1,)), (2, 9, 6), (5, 6, 4)),
    "along a line, first": (conv_of(("NCW", "OIW", "NCW"), (1,)), (2, 6, 9), (4, 6, 5)),
    "dilated": (conv_of(rhs_dilation=(2, 2)), (2, 8, 9, 3), (3, 3, 3, 4)),
    "transposed": (transposed, (2, 5, 6, 3), (3, 3, 3, 4)),
    "transposed, wide": (transposed, (2, 6, 7, 3), (4, 5, 3, 4)),
}  # fmt: skip


def convolutions(closed):
    return [e for e in closed.jaxpr.eqns if e.primitive.name == "conv_general_dilated"]


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_library_s(name, dtype, monkeypatch):
    """All three convolutions of a gradient, as they are asked for in each layout."""
    monkeypatch.setattr(libraries, "has", lambda name: True)
    monkeypatch.setattr(conv, "_convolution", ByNumpy)
    monkeypatch.setattr(conv.window, "depthwise", lambda *given: None)
    fun, *shapes = CASES[name]
    if name == "grouped, first":
        shapes[0] = (2, 6, 6, 7)
    args = [np.zeros(shape, dtype) for shape in shapes]
    loss = lambda *xs: (fun(*xs).astype("float32") ** 2).sum()
    closed = weft.make_jaxpr(weft.grad(loss, (0, 1)))(*args)
    found = convolutions(closed)
    assert len(found) == 3
    rng = np.random.default_rng(0)
    for eqn in found:
        ins = [Type(v.aval.shape, v.aval.dtype) for v in eqn.invars]
        outs = [Type(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
        given = [rng.integers(-3, 4, t.shape).astype(storage_dtype(t.dtype)) for t in ins]
        want = eqn.primitive.ref(*given, **eqn.params)
        tried = conv.layouts(ins[0], eqn.params)
        for last in tried:
            monkeypatch.setattr(conv, "layouts", lambda *_: (last,))  # noqa: B023
            routine = conv.conv_general_dilated(ins, outs, eqn.params)
            assert any(isinstance(step, Library) for step in routine.steps), eqn.params
            out = np.zeros(outs[0].shape, storage_dtype(dtype))
            run_routine(routine, given, [out])
            np.testing.assert_allclose(out.astype(float), want.astype(float), rtol=2e-2)
        monkeypatch.undo()
        monkeypatch.setattr(libraries, "has", lambda name: True)
        monkeypatch.setattr(conv, "_convolution", ByNumpy)
        monkeypatch.setattr(conv.window, "depthwise", lambda *given: None)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("first", [False, True])
def test_lines_are_read_where_they_are(dtype, first, monkeypatch):
    """A line with its channels last, or of float32 with them first, is as the library wants it; of
    other ones it is what kernels around it write."""
    planned.install(monkeypatch)
    monkeypatch.setattr(products, "has_tf32", lambda: True)
    numbers = ("NCW", "OIW", "NCW") if first else ("NWC", "WIO", "NWC")
    shapes = [(4, 64, 4096), (64, 64, 5)] if first else [(4, 4096, 64), (5, 64, 64)]
    args = [weft.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    made = planned.planned(conv_of(numbers, (1,)), *args)
    moved = [c for c in made.commands if getattr(getattr(c, "function", 0), "name", 0) == "permute"]
    sizes = [c.blocks for c in moved]
    assert len(sizes) <= 1 and sum(sizes) < 100


def test_permutes_around_a_library_go_through_shared_memory(monkeypatch):
    """Scratch memory never overlaps an operand, so a kernel may read one and write the other."""
    texts = []
    planned.install(monkeypatch)
    load = assemble.load
    monkeypatch.setattr(assemble, "load", lambda m, *a: texts.append(str(m)) or load(m, *a))
    exact = conv_of(precision="highest")
    args = [weft.ShapeDtypeStruct(s, "float32") for s in ((4, 28, 28, 64), (3, 3, 64, 96))]
    planned.planned(exact, *args)
    shared = [text for text in texts if "addrspace(3)" in text]
    assert len(texts) == 3 and len(shared) == 2  # the filters have too few elements an axis


@pytest.mark.parametrize("seed", range(8))
def test_narrow_channels_come_last(seed):
    """In any layout, with gradients: the library's operands need no extra permute."""
    rng = np.random.default_rng(seed)
    rank, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2]))
    letters = "DHW"[3 - rank :]
    mixed = lambda word: "".join(rng.permutation(list(word)))
    numbers = ("NC" + letters, mixed("OI" + letters), mixed("NC" + letters))
    if seed % 2:
        numbers = (mixed(numbers[0]), *numbers[1:])
    sizes = dict(zip("NCOI" + letters, (3, 4, 6, 4 // groups, 9, 8, 7), strict=False))
    window = sizes | dict.fromkeys(letters, 3)
    shapes = [[sizes[c] for c in numbers[0]], [window[c] for c in numbers[1]]]
    strides = tuple(int(n) for n in rng.choice([1, 2], rank))
    fun = conv_of(numbers, strides, [(1, 1)] * rank, feature_group_count=groups)
    loss = lambda x, w: (fun(x, w).astype("float32") ** 2).sum()
    args = [rng.integers(-1, 2, shape).astype(BF16) for shape in shapes]
    for function in (lambda x, w: [fun(x, w)], weft.grad(loss, (0, 1))):
        closed = simplify(weft.make_jaxpr(function)(*args))
        found = special(closed)
        got, want = (eval_jaxpr(c.jaxpr, c.consts, *args) for c in (found, closed))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(np.asarray(a, np.float32), np.asarray(b, np.float32))
        (first, *_) = convolutions(found)
        batch, channels, *space = first.params["dimension_numbers"][0]
        assert [batch, *space, channels] == sorted([batch, channels, *space])


def test_gradients_of_narrow_channels_share_what_is_last(monkeypatch):
    """One transpose of the data is for two convolutions, and ReLU is transposed as it is made."""
    planned.install(monkeypatch)
    fun = lambda x, w: weft.nn.relu(conv_of(CHANNELS_FIRST)(x, w))
    args = [weft.ShapeDtypeStruct(s, "bfloat16") for s in ((4, 64, 64, 64), (96, 64, 3, 3))]
    assert len(planned.planned(fun, *args).commands) == 4
    loss = lambda x, w: (fun(x, w).astype("float32") ** 2).sum()
    assert len(planned.planned(weft.grad(loss, (0, 1)), *args).commands) <= 9


def test_gradients_by_filters_are_not_made_larger(monkeypatch):
    """Of a transposed convolution, a part of a much larger result was once computed."""
    monkeypatch.setattr(libraries, "has", lambda name: True)
    monkeypatch.setattr(conv, "_convolution", ByNumpy)
    loss = lambda w, x: (transposed(x, w) ** 2).sum()
    args = np.zeros((3, 3, 4, 4), np.float32), np.zeros((2, 14, 14, 4), np.float32)
    nodes = Planner(Cuda()).program(weft.make_jaxpr(weft.grad(loss))(*args)).nodes
    shapes = [n.eqn.outvars[0].aval.shape for n in nodes if isinstance(n, Op)]
    assert shapes == [(2, 29, 29, 4), (3, 3, 4, 4)]


def test_neighbouring_threads_have_neighbouring_features(monkeypatch):
    """The gradient by depthwise filters, without a library: channels come last in memory."""
    monkeypatch.setattr(libraries, "has", lambda name: False)
    monkeypatch.setattr(conv.window, "depthwise", lambda *given: None)
    texts = []
    launch = conv.launch
    monkeypatch.setattr(conv, "launch", lambda *a, **k: texts.append(k) or launch(*a, **k))
    for numbers, x, w, first in (
        (PLANE, (2, 6, 7, 4), (3, 3, 1, 4), 1),
        (CHANNELS_FIRST, (2, 4, 6, 7), (4, 1, 3, 3), 0),
    ):
        fun = conv_of(numbers, feature_group_count=4)
        loss = lambda w, x: fun(x, w).sum()  # noqa: B023
        args = np.zeros(w, np.float32), np.zeros(x, np.float32)
        (eqn,) = [
            e
            for e in convolutions(weft.make_jaxpr(weft.grad(loss))(*args))
            if e.params["batch_group_count"] > 1
        ]
        types = [[Type(v.aval.shape, v.aval.dtype) for v in vs] for vs in (eqn.invars, eqn.outvars)]
        rng = np.random.default_rng(0)
        given = [rng.normal(size=t.shape).astype(np.float32) for t in types[0]]
        texts.clear()
        routine = conv.conv_general_dilated(*types, eqn.params)
        assert texts[0]["FEATURES_FIRST"] == first
        out = np.zeros(types[1][0].shape, np.float32)
        run_routine(routine, given, [out])
        want = eqn.primitive.ref(*given, **eqn.params)
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 8])
def test_products_without_axes_to_slide_along_are_planned(monkeypatch, groups):
    planned.install(monkeypatch)
    convolve = weft.lax.conv_general_dilated
    fun = lambda x, w: convolve(x, w, (), "VALID", feature_group_count=groups)
    x, w = (weft.ShapeDtypeStruct(s, np.float32) for s in ((4, 8), (8, 8 // groups)))
    assert len(planned.planned(fun, x, w).commands) == 1
