"""Kernels attached to products and convolutions: which are, results to the bit, what is told."""

import re

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax, nn
from weft import numpy as jnp
from weft.backends.cpu import target
from weft.backends.llvm.native.processor import has_matrices
from weft.compiler import pipeline
from weft.compiler.attach import attach, reads, written
from weft.compiler.fuse import Fusion
from weft.kernel.kernel import show
from weft.kernel.spec import verify
from weft.runtime import compiling


def bias_relu(a, b, c):
    return nn.relu(a @ b + c)


def attention_mask(a, b):
    return jnp.where(jnp.tril(jnp.ones((a.shape[0], b.shape[1]), bool)), a @ b * 0.1, -1e9)


def heads(a, b, c):
    return jnp.reshape(a @ b, (4, 64, 8, 16)) + c


def both(a, b, c):
    h = a @ b
    return nn.relu(h + c), h


def later(a, b, c):
    h = a @ b
    return jnp.sum(jnp.where(h > 0, nn.gelu(h) + c, h), 0), h[:3]


def gated(a, b, c):
    return nn.silu(a @ b) * (a @ c)


def siblings(a, b, c):
    return nn.relu(a @ b), jnp.tanh(a @ c)


def step(w, m, x, g):
    """A product that a whole update goes on with."""
    grad = x.T @ g
    m = 0.9 * m + grad
    return w - 0.1 * m, m


def convolution(x, w, **options):
    spatial = x.ndim - 2
    options = {"window_strides": (1,) * spatial, "padding": "SAME"} | options
    names = ("NHWC", "HWIO", "NHWC") if spatial == 2 else ("NWC", "WIO", "NWC")
    return lax.conv_general_dilated(x, w, **{"dimension_numbers": names} | options)


def filtered(x, w, b, **options):
    return nn.relu(convolution(x, w, **options) + b)


def channels_first(x, w, b):
    names = ("NCHW", "OIHW", "NCHW")
    return nn.relu(convolution(x, w, dimension_numbers=names) + b[:, None, None])


def holes(x, w, b):
    return filtered(x, w, b, padding=((1, 2), (2, 1)), lhs_dilation=(2, 2))


def by_gradient(x, w, b):
    return w - 0.1 * weft.grad(lambda w: jnp.sum(filtered(x, w, b)))(w)


def in_scan(a, b, c):
    return lax.scan(lambda h, _: (jnp.tanh(h @ b + c), jnp.sum(h)), a, None, length=3)


# A function, the shapes of its arguments, and how many kernels are attached, if machines agree.
CASES = {
    "bias": (bias_relu, [(300, 40), (40, 100), (100,)], 1),
    "one column": (bias_relu, [(9000, 40), (40, 1), (1,)], 0),
    "narrow": (bias_relu, [(3000, 40), (40, 5), (5,)], 1),
    "shallow": (bias_relu, [(301, 3), (3, 501), (501,)], 1),
    "crooked": (bias_relu, [(611, 28), (28, 601), (601,)], 1),
    "deep": (bias_relu, [(257, 1500), (1500, 70), (70,)], 1),
    "small": (bias_relu, [(30, 40), (40, 10), (10,)], 0),
    "scale": (lambda a, b: nn.gelu(a @ b) * 0.5, [(200, 40), (40, 100)], 1),
    "residual": (lambda a, b, c: c + a @ b, [(200, 70), (70, 130), (200, 130)], 1),
    "row scale": (lambda a, b, c: (a @ b) * c[:, None], [(200, 40), (40, 100), (200,)], 1),
    "batched": (
        lambda a, b, c: jnp.where(c[:, None, None] > 0, a @ b, -1.0),
        [(8, 60, 40), (8, 40, 50), (8,)],
        1,
    ),
    "heads": (heads, [(256, 32), (32, 128), (8, 16)], 1),
    "other way": (lambda a, b: jnp.exp(a.T @ b * 0.1) + 1, [(40, 200), (40, 100)], 1),
    "turned": (lambda a, b: nn.relu((a @ b).T), [(200, 40), (40, 100)], 1),
    "across": (
        lambda a, b, c: jnp.swapaxes(jnp.reshape(a @ b + 1, (4, 64, 8, 16)), 1, 2) + c,
        [(256, 32), (32, 128), (4, 8, 64, 16)],
        0,
    ),
    "positions": (lambda a, b: a @ b + jnp.arange(100.0), [(200, 40), (40, 100)], 1),
    "mask": (attention_mask, [(200, 40), (40, 200)], 1),
    "to bfloat16": (lambda a, b: (a @ b).astype("bfloat16"), [(200, 40), (40, 100)], 1),
    "needed again": (both, [(200, 40), (40, 100), (100,)], 1),
    "needed later": (later, [(200, 40), (40, 100), (100,)], 0),
    "two products": (gated, [(200, 40), (40, 100), (40, 100)], 1),
    "siblings": (siblings, [(200, 40), (40, 100), (40, 100)], 2),
    "step": (step, [(200, 100), (200, 100), (70, 200), (70, 100)], 1),
    "in a loop": (in_scan, [(200, 100), (100, 100), (100,)], 1),
    "softmax": (lambda a, b: nn.softmax(a @ b), [(200, 40), (40, 100)], 0),
    "written over": (lambda a, b: (a @ b).at[3:5].set(0.0) * 2, [(200, 40), (40, 100)], 0),
    "complex": (lambda a, b: jnp.abs((a + 1j * a) @ (b - 2j * b)), [(200, 40), (40, 100)], 0),
    "image": (filtered, [(4, 14, 14, 16), (3, 3, 16, 32), (32,)], 1),
    "odd image": (filtered, [(3, 17, 19, 5), (3, 3, 5, 37), (37,)], 1),
    "line": (filtered, [(8, 100, 16), (5, 16, 24), (24,)], 1),
    "channels first": (channels_first, [(4, 16, 14, 16), (32, 16, 3, 3), (32,)], 1),
    "depthwise": (
        lambda x, w, b: filtered(x, w, b, feature_group_count=32),
        [(4, 14, 14, 32), (3, 3, 1, 32), (32,)],
        1,
    ),
    "holes": (holes, [(2, 14, 14, 16), (3, 3, 16, 32), (32,)], 4),
    "residual image": (
        lambda x, w, b: convolution(jnp.sin(x), w) * 2 + jnp.sin(x) * b,
        [(4, 14, 14, 32), (3, 3, 32, 32), (32,)],
        1,
    ),
    "filters": (by_gradient, [(4, 14, 14, 32), (3, 3, 32, 32), (32,)], None),
}


def operands(shapes, dtype=np.float32):
    random = np.random.default_rng(0)
    return [jnp.asarray(random.standard_normal(s).astype(np.float32)).astype(dtype) for s in shapes]


def bits(tree):
    return [np.asarray(x).tobytes() for x in weft.tree.leaves(tree)]


@pytest.fixture(autouse=True)
def by_native(monkeypatch):
    """Epilogues on every processor, also on those where two passes are faster."""
    ways.take("native", monkeypatch)
    monkeypatch.setattr(target, "has_wide_tiles", lambda: True)
    # a plan on disk would be one for the processor as it is
    monkeypatch.setattr(compiling, "_identity", lambda *given: None)


@pytest.fixture
def apart(monkeypatch):
    """A way to run functions whose products have no kernels attached."""

    def run(fun, *args):
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "attach", lambda steps, results: steps)
            return weft.jit(lambda *xs: fun(*xs))(*args)

    return run


def attached(fun, *args):
    """The steps of a function's programs in which a kernel goes on with a product."""
    program = weft.jit(lambda *xs: fun(*xs)).lower(*args).compile().as_text().split("\n\n")[0]
    return sum(", k" in line for line in program.splitlines())


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_two_passes(name, apart):
    fun, shapes, count = CASES[name]
    args = operands(shapes)
    function = weft.jit(lambda *xs: fun(*xs))
    want = apart(fun, *args)
    for _ in range(2):
        assert bits(function(*args)) == bits(want)
    assert count is None or attached(fun, *args) == count


def test_narrow_tiles_have_no_epilogues(monkeypatch):
    args = operands([(300, 40), (40, 100), (100,)])
    want = bits(weft.jit(bias_relu)(*args))
    monkeypatch.setattr(target, "has_wide_tiles", lambda: False)
    assert attached(bias_relu, *args) == 0
    assert bits(weft.jit(lambda *xs: bias_relu(*xs))(*args)) == want


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "int32", "uint16"])
def test_dtypes(dtype, apart):
    args = operands([(200, 70), (70, 170), (170,)], dtype)

    def fun(a, b, c):
        return jnp.maximum(a @ b + c, 0) * 3, (a @ b).astype("float32")

    # registers of matrices hand their blocks to nobody
    assert bool(attached(fun, *args)) != (dtype == "bfloat16" and has_matrices())
    assert bits(weft.jit(fun)(*args)) == bits(apart(fun, *args))


def test_float64(apart):
    with weft.enable_x64(True):
        args = [jnp.asarray(np.asarray(x, np.float64)) for x in operands([(90, 700), (700, 90)])]

        def fun(a, b):
            return jnp.tanh(a @ b * 0.01)

        assert attached(fun, *args)
        assert bits(weft.jit(fun)(*args)) == bits(apart(fun, *args))


@pytest.mark.parametrize("name", ["bias", "shallow", "crooked", "deep", "step", "odd image"])
def test_the_same_bits_at_any_number_of_threads(name):
    fun, shapes, _ = CASES[name]
    args = operands(shapes)
    function = weft.jit(fun)
    found = []
    for count in (1, 2, 8):
        with weft.num_threads(count):
            found.append(bits(function(*args)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("columns", [1, 3, 16, 31, 47, 65, 97])
def test_edges(columns, apart):
    rows = -(-8300 // columns)
    for depth in (3, 20, 70):
        args = operands([(rows, depth), (depth, columns), (columns,), (rows, columns)])

        def fun(a, b, c, d):
            return nn.relu(a @ b + c) - d

        assert bits(weft.jit(fun)(*args)) == bits(apart(fun, *args))


# --- steps ----------------------------------------------------------------------------------------


def steps_of(fun, *shapes):
    args = [weft.ShapeDtypeStruct(s, np.float32) for s in shapes]
    jaxpr = pipeline.simplify(weft.make_jaxpr(fun)(*args)).jaxpr
    fusion = Fusion(jaxpr)
    return attach(fusion.plan(), fusion.results)


def test_a_kernel_that_is_attached():
    (found,) = steps_of(bias_relu, (300, 40), (40, 100), (100,))
    assert found.eqn.primitive.name == "dot_general" and len(found.apart) == 2
    assert found.finish.axes == [("p0", 300), ("p1", 100)] and found.finish.size == 4
    verify(found.kernel)
    assert show(found.kernel) == "\n".join(
        [
            "kernel k(",
            "    in b0: float32[30000]",
            "    in b1: float32[100]",
            "    out b2: float32[30000]",
            ") grid p0 < 300:",
            "    for p1 < 100:",
            "        b2[100*p0 + p1] = max(add(b0[100*p0 + p1], b1[p1]), 0.0)",
        ]
    )


def test_a_value_that_others_need_is_written_too():
    (found,) = steps_of(both, (300, 40), (40, 100), (100,))
    (v,) = found.eqn.outvars
    assert found.writes[-1] is v and found.buffers.count(v) == 2
    verify(found.kernel)
    assert show(found.kernel).splitlines()[-1].strip() == "b3[100*p0 + p1] = b0[100*p0 + p1]"


def test_everything_is_there_before_it_is_read():
    def deep(p, m, x):
        def loss(p):
            h = x
            for w, b in p:
                h = jnp.tanh(h @ w + b)
            return jnp.sum(h * h)

        grads = weft.grad(loss)(p)
        m = weft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        return weft.tree.map(lambda p, m: p - 0.1 * m, p, m), m

    p = [(weft.ShapeDtypeStruct((120, 120), "float32"), weft.ShapeDtypeStruct((120,), "float32"))]
    closed = weft.make_jaxpr(deep)(p * 4, p * 4, weft.ShapeDtypeStruct((90, 120), "float32"))
    fusion = Fusion(pipeline.simplify(closed).jaxpr)
    steps = attach(fusion.plan(), fusion.results)
    assert sum(s.finish is not None for s in steps) >= 8
    known = set(fusion.given)
    for s in steps:
        assert all(v in known for v in reads(s) if s.finish is None or v is not s.eqn.outvars[0])
        known.update(written(s))
    assert known.issuperset(fusion.results)
    # the update of a layer is not put off until the gradients of all are there
    results = [i for i, s in enumerate(steps) if any(v in fusion.results for v in s.writes)]
    assert results[0] < max(i for i, s in enumerate(steps) if s.eqn is not None)


def test_it_is_told(capsys):
    args = operands([(300, 40), (40, 100), (100,)])
    told = str(weft.explain(bias_relu)(*args))
    assert re.search(r"k\d+ is an epilogue of dot_general", told) and "is never written" in told
    assert "1 kernel, 1 routine" in told and "writes 120 kB" in told
    assert "is written too" in str(weft.explain(both)(*args))
    text = weft.jit(bias_relu).lower(*args).compile().as_text()
    assert re.search(r", k\d+, ", text) and "b2[100*p0 + p1] = max(" in text
    costs = weft.jit(bias_relu).lower(*args).compile().cost_analysis()
    assert costs["bytes accessed"] == 4 * (300 * 40 + 40 * 100 + 100 + 300 * 100)
