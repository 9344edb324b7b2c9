"""``verify``: programs that lose digits, wrong rules and wrong code are found, with their lines."""

import importlib
import os
import pathlib
import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.samples import all_samples
from weft import lax, random
from weft.api.verifying import sampling
from weft.api.verifying.walk import MAX_ROUNDS
from weft.base import background, knobs
from weft.core.registry import lookup

HERE = pathlib.Path(__file__)
RANDOM = np.random.default_rng(3)


def line_of(text):
    """Where this file has a line, as reports name it."""
    found = [n for n, row in enumerate(HERE.read_text().splitlines(), 1) if row.strip() == text]
    assert len(found) == 1
    return f"{HERE.name}:{found[0]}"


def floats(*shape, scale=1.0, at=0.0):
    return jnp.asarray((RANDOM.standard_normal(shape) * scale + at).astype(np.float32))


# --- digits ---------------------------------------------------------------------------------------


def variance(x):
    squares = jnp.mean(x * x)
    mean = jnp.mean(x)
    return squares - mean * mean


def log_of_one_more(x):
    y = 1 + x
    return jnp.log(y) * 2


def softmax(x):
    e = jnp.exp(x)
    return e / jnp.sum(e)


def root(a, b, c):
    d = jnp.sqrt(b * b - 4 * a * c)
    near = -b + d
    return near / (2 * a)


def one_minus_cos(x):
    c = jnp.cos(x)
    return (1 - c) / (x * x)


def norm_difference(x, y):
    n = jnp.sqrt(jnp.sum(x**2))
    return n - jnp.sqrt(jnp.sum(y**2))


def in_a_loop(x):
    def body(total, y):
        small = (total + y) - total
        return total, small * 2

    return lax.scan(body, jnp.float32(1e5), x)[1]


LOSSES = {
    "variance": (variance, (floats(300, at=1000),), "sub", "return squares - mean * mean"),
    "log": (log_of_one_more, (jnp.float32(1e-5),), "log", "return jnp.log(y) * 2"),
    "softmax": (softmax, (jnp.array([1.0, 95.0, 2.0]),), "exp", "e = jnp.exp(x)"),
    "softmax far": (softmax, (jnp.array([1.0, 1000.0]),), "exp", "e = jnp.exp(x)"),
    "root": (root, (1.0, 1e4, 1.0), "add", "near = -b + d"),
    "cosine": (one_minus_cos, (jnp.float32(1e-3),), "sub", "return (1 - c) / (x * x)"),
    "norms": (
        norm_difference,
        (jnp.full(100, 3.0), jnp.full(100, 3.0 + 1e-5)),
        "sub",
        "return n - jnp.sqrt(jnp.sum(y**2))",
    ),
    "loop": (in_a_loop, (floats(8, scale=1e-3),), "sub", "small = (total + y) - total"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_lost_digits_are_found_on_their_line(name):
    fun, args, operation, text = LOSSES[name]
    report = weft.verify(fun, derivatives=False, schedules=False)(*args)
    assert not report.ok and not report
    worst = report.operations[0]
    assert worst.name == operation and worst.line.startswith(line_of(text) + " ")
    assert worst.digits >= 2 or worst.made == "inf"
    (failed,) = report.failures
    assert failed.name == "against float64" and line_of(text) in failed.detail
    with pytest.raises(AssertionError, match=r"FAILED") as caught:
        report.check()
    assert type(caught.value) is weft.errors.VerificationError and line_of(text) in str(
        caught.value
    )
    with pytest.raises(weft.errors.VerificationError):
        report.raise_if_failed()


def test_condition_is_told_from_rounding():
    report = weft.verify(variance, derivatives=False)(floats(300, at=1000))
    (sub, *others) = report.operations
    assert sub.condition > 1e4 and sub.rounding <= 1
    assert all(op.digits < 1.5 for op in others)


def adam_step(w, m, v):
    g = weft.grad(lambda w: jnp.sum(jnp.tanh(w) ** 2))(w)
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 0.001 * (m / 0.1) / (jnp.sqrt(v / 0.001) + 1e-8), m, v


GOOD = {
    "variance": (jnp.var, (floats(300, at=1000),)),
    "log1p": (jnp.log1p, (jnp.float32(1e-6),)),
    "softmax": (weft.nn.softmax, (jnp.array([1.0, 1000.0, 2.0]),)),
    "logsumexp": (lambda x: weft.nn.logsumexp(x), (floats(30, scale=100),)),
    "products": (lambda x, w: jnp.tanh(x @ w).sum(), (floats(8, 16), floats(16, 4))),
    "large": (lambda x: jnp.sin(x) @ x.T, (floats(60, 70),)),
    "scan": (lambda x: lax.scan(lambda c, y: (c * 0.9 + y, c), 0.0, x)[0], (floats(9, at=2),)),
    "long scan": (
        lambda x: lax.scan(lambda c, y: (c * 0.9 + y, c), 0.0, x)[0],
        (floats(MAX_ROUNDS + 5, at=2),),
    ),
    "while": (
        lambda x: lax.while_loop(lambda c: c[1] < 5, lambda c: (jnp.sin(c[0]), c[1] + 1), (x, 0)),
        (floats(4),),
    ),
    "long while": (
        lambda x: lax.while_loop(lambda c: c[1] < 99, lambda c: (c[0] * 0.9, c[1] + 1), (x, 0))[0],
        (floats(4),),
    ),
    "cond": (lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x), (jnp.float32(1.2),)),
    "inverse": (jnp.linalg.inv, (jnp.eye(4) + 0.1,)),
    "gelu": (weft.nn.gelu, (floats(9),)),
    "bfloat16": (lambda x: (x.astype("bfloat16") @ x.astype("bfloat16")).sum(), (floats(8, 8),)),
    "complex": (lambda x: jnp.fft.ifft(jnp.fft.fft(x) * 2).real, (floats(16),)),
    "checkpoint": (weft.checkpoint(lambda x: jnp.sin(jnp.sin(x))), (floats(5),)),
    "gradient": (weft.grad(lambda x: jnp.tanh(x).sum()), (floats(5),)),
    "adam": (adam_step, (floats(4), jnp.zeros(4), jnp.zeros(4))),
    "lanes": (
        weft.vmap(lambda v: lax.while_loop(lambda c: c < 10.0, lambda c: c * 1.5 + 1, v)),
        (jnp.abs(floats(5)),),
    ),
    "trees": (lambda p, n: {"y": p["w"] * 2, "n": n + 1}, ({"w": floats(3)}, jnp.arange(3))),
    "keyword": (weft.jit(lambda x, n: x * n, static_argnames="n"), (floats(3), 3)),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_programs_pass(name):
    fun, args = GOOD[name]
    report = weft.verify(fun)(*args).check()
    assert report.ok and report.runs[0].name == "against the reference"
    names = [f.name for f in report.findings]
    assert len(names) == len(set(names))
    if knobs.backend.value == "native":
        assert {"1 thread", "generated kernels only", "shape-generic code"} <= set(names)


def cancelling(*shape):
    """Numbers whose sum is 0, in an order that doesn't show it."""
    x = np.asarray(floats(*shape))
    return jnp.asarray(np.random.default_rng(1).permutation(np.concatenate([x, -x])))


def nearly(total, x):
    """Numbers whose sum is small."""
    x = np.array(x)
    x[1] -= np.float32(x.astype(np.float64).sum() - total)
    return jnp.asarray(x)


def normalised(x):
    return (x - x.mean()) / jnp.sqrt(jnp.var(x) + 1e-5)


ONES = jnp.full(100, 0.1)
CANCELLED = {
    "sum": (jnp.sum, (cancelling(300),)),
    "mean": (lambda x: jnp.mean(x) * 3, (cancelling(300),)),
    "product": (lambda x, w: x @ w, (cancelling(300), jnp.full(600, 0.7))),
    "products": (lambda x, y: x @ y, (jnp.stack([cancelling(40)] * 3), jnp.full((80, 2), 0.7))),
    "convolution": (lambda x: jnp.convolve(x, jnp.array([1.0, -2.0, 1.0])), (jnp.arange(64) / 7,)),
    "window": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (600,), (1,), "VALID"),
        (cancelling(300),),
    ),
    "cumsum": (lambda x: jnp.cumsum(x)[-1], (cancelling(300),)),
    "scatter": (lambda x: jnp.zeros(2).at[np.zeros(600, int)].add(x), (cancelling(300),)),
    "long scan": (
        lambda x: lax.scan(lambda c, y: (c + y, None), 0.0, x)[0],
        (cancelling(MAX_ROUNDS),),
    ),
    "centred": (lambda x: jnp.sum(x - jnp.mean(x)), (floats(300, at=100),)),
    "variance": (jnp.var, (ONES,)),
    "deviation": (jnp.std, (ONES,)),
    "textbook variance": (variance, (ONES,)),
    "normalised": (normalised, (ONES,)),
    "logsumexp": (lambda x: weft.nn.logsumexp(x) - weft.nn.logsumexp(x[::-1]), (floats(300),)),
    "probabilities": (lambda x: jnp.sum(weft.nn.softmax(x)) - 1, (floats(300),)),
    "gradient": (weft.grad(lambda x: jnp.sum(weft.nn.softmax(x))), (floats(300),)),
    "gradient of a variance": (weft.grad(jnp.var), (ONES,)),
    "gradient of a mean": (weft.grad(lambda x: jnp.sum(normalised(x))), (floats(300),)),
    "circle": (lambda x: jnp.sin(x) ** 2 + jnp.cos(x) ** 2 - 1, (floats(300),)),
    "odd": (lambda x: jnp.tanh(x) + jnp.tanh(-x), (floats(30),)),
    "cross": (lambda x: jnp.cross(x, 2.7 * x), (floats(3),)),
    "traces": (lambda a, b: jnp.trace(a @ b - b @ a), (floats(8, 8), floats(8, 8))),
    "inverse": (lambda a: a @ jnp.linalg.inv(a) - jnp.eye(9), (floats(9, 9) + 9 * jnp.eye(9),)),
    "residual": (lambda a, b: a @ jnp.linalg.solve(a, b) - b, (floats(9, 9), floats(9))),
    "transform": (lambda x: jnp.fft.ifft(jnp.fft.fft(x)).imag, (floats(300),)),
    "projection": (lambda a, q: (a - q * (q @ a) / (q @ q)) @ q, (floats(300), floats(300))),
    "small sum": (jnp.sum, (nearly(1e-6, floats(300)),)),
    "small mean": (lambda x: jnp.exp(x.mean()) * x.mean(), (nearly(1e-4, floats(9999)),)),
    "bfloat16": (
        lambda x, w: (x - 2.7 * x + w @ x).sum(),
        (floats(20).astype("bfloat16"), (1.7 * jnp.eye(20)).astype("bfloat16")),
    ),
}


@pytest.mark.parametrize("name", CANCELLED)
def test_sums_that_cancel_are_no_failures(name):
    fun, args = CANCELLED[name]
    weft.verify(fun)(*args).check()


@pytest.mark.parametrize("name", ["sum", "variance", "normalised", "circle", "traces", "inverse"])
def test_sums_that_cancel_are_no_failures_in_float64(name):
    fun, args = CANCELLED[name]
    with knobs.enable_x64(True):
        weft.verify(fun)(*[np.asarray(x, np.float64) for x in args]).check()


def test_a_sum_that_cancels_hides_no_loss_before_or_after_it():
    x = floats(300, at=1000)
    centred = lambda x: jnp.mean(x * x - jnp.mean(x) ** 2)
    difference = lambda x, a, b: x @ a - x @ b
    near = jnp.ones(300) * (1 + 1e-5 * floats(300))
    for fun, args in [
        (centred, (x,)),
        (variance, (x * 10 + 1e6,)),
        (difference, (floats(20, 300), jnp.ones(300), near)),
    ]:
        report = weft.verify(fun, derivatives=False, schedules=False)(*args)
        assert [f.name for f in report.failures] == ["against float64"]
        assert report.operations[0].digits > 2


def test_a_wrong_sum_that_cancels_is_caught(monkeypatch):
    verify = importlib.import_module("weft.api.verifying.verify")
    before = verify.run_on_host
    monkeypatch.setattr(
        verify, "run_on_host", lambda closed, xs: [y + 1e-2 for y in before(closed, xs)]
    )
    for fun in (jnp.sum, lambda x: jnp.sum(x) + jnp.zeros(2), lambda x: jnp.sum(x - jnp.mean(x))):
        assert "compiled for the CPU" in failures(fun, cancelling(300))


def test_functions_of_keys_integers_and_kinks():
    dropout = lambda key, x: jnp.where(weft.random.bernoulli(key, 0.5, x.shape), x * 2, 0.0)
    report = weft.verify(dropout)(weft.random.key(1), floats(9)).check()
    assert "vjp against jvp" in [f.name for f in report.transformations]
    for draw in (weft.random.gamma, weft.random.loggamma, weft.random.beta, weft.random.poisson):
        shape = (2.0, 3.0) if draw is weft.random.beta else (2.5,)
        weft.verify(lambda k, x, f=draw, a=shape: f(k, *[x * n for n in a]) * x, schedules=False)(
            weft.random.key(3), jnp.full(5, 1.5)
        ).check()
    report = weft.verify(lambda n: n * 3)(jnp.arange(4)).check()
    assert any("no argument is a real float" in text for text in report.skipped)
    assert any("digits: no result" in text for text in report.skipped)
    report = weft.verify(lambda x: jnp.abs(x).sum())(jnp.zeros(3)).check()
    assert any("not smooth enough" in text for text in report.skipped)
    report = weft.verify(jnp.argsort)(floats(7)).check()
    assert not report.transformations


def test_the_edge_of_what_is_defined():
    """Finite differences leave the domain; derivatives are compared with each other."""
    report = weft.verify(lambda v, g: g / (jnp.sqrt(v + g * g) + 1e-8))(jnp.zeros(3), floats(3))
    report.check()
    report = weft.verify(lambda v: jnp.sqrt(v) * 2 + v)(jnp.array([0.0, 1.0]))
    assert not any(f.name == "jvp against finite differences" for f in report.failures)


def test_poles_and_overflows_are_no_failures():
    edges = jnp.array([0.0, -1.0, -2.0, np.inf, np.nan, 1.5, 3e38])
    for fun in (lax.lgamma, jnp.exp, lambda x: 1 / x):
        weft.verify(fun, schedules=False)(edges).check()
    report = weft.verify(lambda x: jnp.sqrt(x).sum(), schedules=False)(jnp.array([0.0, 1.5]))
    assert "not comparable: a derivative is not finite here" in report.check().skipped
    # 0 in float32, and the root of a negative number in float64
    x = next(x for x in RANDOM.random(99).astype(np.float32) if float(x) ** 2 < float(x * x))
    report = weft.verify(lambda x, y: jnp.sqrt(x * x - y), derivatives=False)(x, x * x)
    assert "not comparable: 1 element is not finite in float64" in report.check().skipped


def test_an_infinity_that_has_digits_is_a_failure():
    naive = lambda x: jnp.log(jnp.exp(x).sum())
    assert not weft.verify(naive, schedules=False)(jnp.array([100.0, 1.0])).ok
    mixed = weft.custom_jvp(jnp.sqrt)
    mixed.defjvp(lambda x, t: (jnp.sqrt(x[0]), -0.5 * t[0] / jnp.sqrt(x[0])))
    report = weft.verify(lambda x: mixed(x).sum(), schedules=False)(jnp.array([2.0, 1.5]))
    assert [f.name for f in report.failures] == ["jvp against finite differences"]


def test_what_is_asked_for_is_no_failure():
    """Derivatives that are cut, digits that are dropped, vectors of either sign."""
    x = floats(3, 4)
    said = lambda fun, *args: " ".join(weft.verify(fun, schedules=False)(*args).check().skipped)
    assert not said(lambda x: jnp.sin(x) * lax.stop_gradient(x), x)
    assert not said(weft.jit(lambda x: weft.jit(lax.stop_gradient)(x) * x), x)
    assert "drops digits" in said(lambda x: lax.reduce_precision(x, 4, 3), x)
    assert "drops digits" not in said(lambda x: lax.reduce_precision(x, 8, 23), x)
    flipped = [m for m in (floats(5, 5) for _ in range(40)) if "schur" in said(lax.linalg.schur, m)]
    assert flipped


CUT = {
    "softmax": lambda x: weft.nn.softmax(x)[0],
    "checkpoint": weft.checkpoint(lambda x: weft.nn.logsumexp(x)),
    "vmap": weft.vmap(lambda x: weft.nn.logsumexp(x)),
    "straight through": lambda x: (x + lax.stop_gradient(jnp.round(3 * x) - x) * x).sum(),
    "cond": lambda x: lax.cond(x.sum() > -99, weft.nn.softmax, jnp.sin, x),
    "scan": lambda x: lax.scan(lambda c, r: (jnp.sin(c) * lax.stop_gradient(c) + r, c), x[0], x),
    "solver": lambda x: jnp.linalg.solve(x @ x.T + jnp.eye(3), x),
    "solver and softmax": lambda x: jnp.linalg.solve(x @ x.T + jnp.eye(3), weft.nn.softmax(x)),
}


@pytest.mark.parametrize("name", CUT)
def test_derivatives_beside_cut_ones_are_checked(name):
    """What ``stop_gradient`` gives is a constant in finite differences."""
    x, fun = floats(3, 4), CUT[name]
    report = weft.verify(fun, schedules=False)(x).check()
    assert "jvp against finite differences" in [
        f.name for f in report.runs + report.transformations
    ]
    wrong = weft.custom_jvp(jnp.sin)
    wrong.defjvp(lambda x, t: (jnp.sin(x[0]), -jnp.cos(x[0]) * t[0]))
    if name.startswith("solver"):  # no finite differences there, unless they agree
        return
    report = weft.verify(lambda x: fun(wrong(x)), schedules=False)(x)
    (failed,) = [f for f in report.failures if f.name == "jvp against finite differences"]
    assert "a rule of your own: " in failed.detail and "test_verify.py:" in failed.detail


def test_functions_of_keys_have_derivatives():
    def drawn(key, x):
        return weft.nn.log_softmax(x * random.normal(random.split(key)[0], x.shape))

    report = weft.verify(drawn)(random.key(1), floats(3, 4)).check()
    assert not report.skipped and len(report.transformations) == 5


def test_waves_shorter_than_a_step_are_no_failure():
    report = weft.verify(lambda x: jnp.sin(x * 1e6))(jnp.float32(30.0)).check()
    assert "not smooth enough" in " ".join(report.skipped)


def test_digits_lost_by_all_rounds_of_a_loop():
    def exp(x):
        def add(n, c):
            return c[0] + c[1] * x / n, c[1] * x / n

        return lax.fori_loop(1, 60, add, (jnp.float32(1), jnp.float32(1)))[0]

    worst = weft.verify(exp, derivatives=False, schedules=False)(jnp.float32(-20)).operations[0]
    assert worst.name == "add" and worst.digits > 5 and "(add)" in worst.line


def test_no_warning_of_numpy_leaves_it():
    x = floats(20, 3) + 1e4
    squares = (x * x).sum(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.verify(lambda x: jnp.sqrt(squares[:, None] + squares - 2 * x @ x.T))(x)


def impure():
    count, generator = [0], np.random.default_rng(0)
    table = {"rate": 0.0}

    def counted(x):
        count[0] += 1
        return x * count[0]

    def drawn(x):
        return x + jnp.asarray(generator.normal(size=3).astype(np.float32))

    def grows(x):
        count[0] += 1
        for _ in range(count[0]):
            x = jnp.sin(x)
        return x

    def shifted(x):
        table["rate"] += 0.5
        return lax.scan(lambda c, y: (c + y * table["rate"], c), 0.0, x)

    def turned(x):
        count[0] += 1
        return jnp.roll(x, count[0] % 2)

    return {
        "counted": (counted, "mul has the number 1.0 → 2.0 at .*test_verify.py"),
        "drawn": (drawn, "has other values"),
        "grows": (grows, r"sin at .*test_verify.py:\d+ \(grows\) is in one of them only"),
        "shifted": (shifted, r"mul has the number 0.5 → 1.0 at .*test_verify.py"),
        "turned": (turned, r" → .* at .*test_verify.py"),
    }


@pytest.mark.parametrize("name", impure())
def test_functions_of_more_than_their_arguments(name):
    fun, text = impure()[name]
    report = weft.verify(fun, schedules=False, derivatives=False)(jnp.ones(3))
    (failed,) = report.failures
    assert failed.name == "traced again" and re.search(text, failed.detail), failed.detail


_SAMPLES = [s for s in all_samples() if s.axis is None and "float32" in s.dtypes]


@pytest.mark.parametrize("part", range(4))
def test_no_sample_is_a_false_alarm(part):
    random = np.random.default_rng(0)
    picked = _SAMPLES[part :: max(4, len(_SAMPLES) // 35)]
    assert len(picked) > 25
    for sample in picked:
        args = sample.operands("float32", random)
        check = weft.verify(sample.function("float32"), schedules=False, allow_effects=True)
        check(*args).check()


def test_a_tolerance():
    x = jnp.float32(1e-5)
    assert weft.verify(log_of_one_more, rtol=0.01)(x).ok
    assert not weft.verify(log_of_one_more, rtol=1e-4)(x).ok
    with pytest.raises(ValueError, match="rtol above 0"):
        weft.verify(jnp.sin, rtol=0.0)
    with pytest.raises(TypeError):
        weft.verify(3)


# --- wrong code and wrong rules -------------------------------------------------------------------


def failures(fun, *args):
    return [f.name for f in weft.verify(fun)(*args).failures]


def test_a_wrong_kernel_is_caught(monkeypatch):
    sin, cos = type(lookup("sin")), type(lookup("cos"))
    monkeypatch.setattr(sin, "lower", cos.lower)
    weft.clear_caches()
    with knobs.cache("off"):
        found = failures(lambda x: jnp.sin(x) * 1.125, floats(37))
    monkeypatch.undo()
    weft.clear_caches()
    assert "against the reference" in found and "compiled for the CPU" in found
    assert "against float64" not in found


def test_a_kernel_that_is_a_little_wrong_is_caught(monkeypatch):
    """By a few hundred ULPs, which a test with a tolerance of 1e-5 would let pass."""
    exp = type(lookup("exp"))
    before = exp.lower
    wrong = lambda self, k, x, **rest: k.mul(before(self, k, x, **rest), k.like(x, 1 + 6e-6))
    monkeypatch.setattr(exp, "lower", wrong)
    weft.clear_caches()
    with knobs.cache("off"):
        found = failures(lambda x: jnp.exp(x) + 0.5, floats(41))
    monkeypatch.undo()
    weft.clear_caches()
    assert "against the reference" in found


def test_a_schedule_that_depends_on_threads_is_caught(monkeypatch):
    verify = importlib.import_module("weft.api.verifying.verify")
    before = verify.run_on_host

    def wrong(closed, leaves):
        outs = before(closed, leaves)
        return [x + 1e-6 for x in outs] if knobs.thread.num_threads == 1 else outs

    monkeypatch.setattr(verify, "run_on_host", wrong)
    assert failures(lambda x: x * 2, floats(5)) == ["1 thread"]


def test_wrong_derivatives_are_caught():
    forward = weft.custom_jvp(jnp.sin)
    forward.defjvp(lambda x, t: (jnp.sin(x[0]), -jnp.cos(x[0]) * t[0]))
    assert "jvp against finite differences" in failures(lambda x: forward(x) * 2, floats(5))
    backward = weft.custom_vjp(jnp.sin)
    backward.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (2 * ct * jnp.cos(x),))
    assert "vjp against finite differences" in failures(lambda x: backward(x) * 2, floats(5))
    right = weft.custom_vjp(jnp.sin)
    right.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x),))
    report = weft.verify(right)(floats(5)).check()
    assert any(text.startswith("jvp: TypeError") for text in report.skipped)


def test_a_wrong_transpose_is_caught(monkeypatch):
    cumsum = type(lookup("cumsum"))
    before = cumsum.transpose
    wrong = lambda self, *args, **params: [
        c if c is None else c * 1.5 for c in before(self, *args, **params)
    ]
    monkeypatch.setattr(cumsum, "transpose", wrong)
    found = failures(lambda x: jnp.cumsum(x) * 1.25, floats(6))
    assert "vjp against jvp" in found


def test_a_wrong_batching_rule_is_caught():
    twice = weft.custom_batching.custom_vmap(lambda x: x * 2)
    twice.def_vmap(lambda size, batched, x: (x * 3, True))
    assert "vmap against a loop" in failures(lambda x: twice(x) + 1, floats(4))


# --- what is not verified -------------------------------------------------------------------------


def test_side_effects_are_refused_or_told(capsys):
    def noisy(x):
        weft.debug.print("here {}", x)
        return x * 2

    with pytest.raises(ValueError, match=r"debug_print at test_verify.py:\d+ \(noisy\) several"):
        weft.verify(noisy)(1.0)
    weft.effects_barrier()
    assert not capsys.readouterr().out
    report = weft.verify(noisy, allow_effects=True, derivatives=False)(1.0).check()
    assert any("ran several times" in text for text in report.skipped)
    ref = weft.new_ref(jnp.ones(3))
    with pytest.raises(ValueError, match="mutable reference"):
        weft.verify(lambda x: x + ref[...])(1.0)
    calls = lambda x: weft.pure_callback(np.sin, weft.ShapeDtypeStruct(x.shape, x.dtype), x)
    report = weft.verify(lambda x: calls(x) * 2)(floats(3)).check()
    assert any(text.startswith("jvp: ") for text in report.skipped)
    called = []
    with pytest.raises(ValueError, match="io_callback"):
        weft.verify(lambda x: weft.experimental.io_callback(called.append, None, x))(1.0)
    assert not called


def test_donated_arguments_stay():
    x = floats(4)
    report = weft.verify(weft.jit(lambda x: x * 2, donate_argnums=0))(x).check()
    assert not x.is_deleted() and any("donation" in text for text in report.skipped)
    np.testing.assert_array_equal(report.result, np.asarray(x) * 2)


def test_inside_of_a_transformation():
    with pytest.raises(TypeError, match="inside a transformation"):
        weft.jit(lambda x: weft.verify(jnp.sin)(x).ok)(1.0)


def test_reports():
    report = weft.verify(variance)(floats(300, at=1000))
    text = str(report)
    assert text.startswith("variance: FAILED\n") and "digits lost  rounding" in text
    assert "✗" in report._repr_html_() and "<table>" in report._repr_html_()
    assert repr(report).startswith("<verification of variance: ")
    assert weft.verify(jnp.sin)(1.0).runs[0].ulps <= 4


# --- verify_rate ----------------------------------------------------------------------------------


@pytest.fixture
def mismatches():
    sampling._mismatches.clear()
    yield sampling._mismatches
    background.settle()
    sampling._mismatches.clear()


def test_sampled_calls(mismatches):
    good, bad = weft.jit(lambda x: x * 2), weft.jit(variance)
    x = floats(300, at=1000)
    good(x), bad(x)
    with knobs.verify_rate(1.0):
        good(x)
        background.settle()
        assert not mismatches
        bad(x)
        background.settle()
        with pytest.warns(UserWarning, match=r"call of variance at test_verify.py:\d+") as caught:
            good(x)
        assert caught[0].filename == __file__
        assert line_of("return squares - mean * mean") in str(caught[0].message)
        bad(x)
        background.settle()
        with knobs.verify_error(True), pytest.raises(weft.errors.VerificationError):
            good(x)


def test_sampled_calls_may_donate(mismatches):
    f = weft.jit(lambda x: x + 1, donate_argnums=0)
    x = floats(1000)
    want = np.asarray(x) + 5
    with knobs.verify_rate(1.0):
        for _ in range(5):
            x = f(x)
    background.settle()
    np.testing.assert_allclose(x, want, rtol=1e-5)
    assert not mismatches


def test_the_rate_is_kept(mismatches, monkeypatch):
    taken = []
    monkeypatch.setattr(sampling, "in_background", lambda task: (taken.append(1), task()))
    f = weft.jit(lambda x: x * 2)
    x = jnp.ones(3)
    sampling._random.seed(5)
    with knobs.verify_rate(0.1):
        for _ in range(400):
            f(x)
        assert 15 < len(taken) < 80
        assert f._cache_size() == 1
    count = len(taken)
    for _ in range(20):
        f(x)
    assert len(taken) == count
    for wrong in (-0.1, 1.5, "often"):
        with pytest.raises(ValueError, match="from 0 to 1"):
            knobs.verify_rate(wrong)


def test_the_knob_of_the_process(mismatches, monkeypatch):
    taken, before = [], sampling.in_background
    monkeypatch.setattr(sampling, "in_background", lambda task: (taken.append(1), before(task)))
    f = weft.jit(lambda x: x * 2)
    x = jnp.ones(3)
    weft.config.verify_rate = 1.0
    try:
        f(x), f(x)
        background.settle()
    finally:
        weft.config.verify_rate = 0.0
    assert len(taken) == 2  # not those that verify, too
    assert knobs.thread.context_key.plain is None


def test_functions_with_effects_are_left_alone(mismatches):
    seen = []
    f = weft.jit(lambda x: weft.experimental.io_callback(seen.append, None, x))
    with knobs.verify_rate(1.0), warnings.catch_warnings():
        warnings.simplefilter("error")
        f(1.0)
        weft.effects_barrier()
        background.settle()
        f(2.0)
    weft.effects_barrier()
    assert len(seen) == 2


ENDING = """
import sys, threading, numpy as np, weft, weft.numpy as jnp
def variance(x):
    return jnp.mean(x * x) - jnp.mean(x) ** 2
f, x = weft.jit(variance), jnp.asarray(np.random.default_rng(0).normal(1000, 1, 300), "float32")
weft.config.verify_rate = 1.0
threads = [threading.Thread(target=f, args=(x,)) for _ in range(int(sys.argv[1]))]
for thread in threads: thread.start()
for thread in threads: thread.join()
f(x)
"""


@pytest.mark.parametrize("threads", [0, 6])
def test_the_end_of_a_process_tells_what_no_call_has_told(threads):
    command = [sys.executable, "-W", "always", "-c", ENDING, str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "verify_rate found a mismatch in the call of variance" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_verifies_too(mismatches, monkeypatch):
    sampling._waiting.extend([None] * sampling.MAX_WAITING)
    try:
        child = os.fork()
        if not child:
            os._exit(len(sampling._waiting))
        assert os.waitpid(child, 0)[1] == 0
    finally:
        sampling._waiting.clear()


def test_no_thread_is_started_when_off():
    f = weft.jit(lambda x: x * 3)
    f(jnp.ones(2))
    background.settle()
    before = threading.active_count()
    for _ in range(5):
        f(jnp.ones(2))
    assert threading.active_count() <= before


def test_missing_values_have_no_direction():
    """Observations that are NaN and left out have a zero gradient, as have unknown bounds."""

    def likelihood(ys, scale):
        kept = jnp.isfinite(ys)
        errors = jnp.where(kept, jnp.where(kept, ys, 0.0) - 1, 0.0)
        return -(errors**2).sum() / scale

    ys = np.array([1.5, np.nan, 2.0, np.inf, -np.inf], np.float32)
    report = weft.verify(likelihood)(ys, 2.0)
    assert report.ok, report
    assert "vjp against jvp" in [f.name for f in report.transformations]


def test_a_rule_of_an_adaptive_solver_is_as_accurate_as_its_steps():
    from weft.experimental.ode import odeint

    def end(y, rate):
        field = lambda y, t, rate: jnp.stack([rate * y[0] - y[0] * y[1], y[0] * y[1] - y[1]])
        return odeint(field, y, jnp.array([0.0, 1.0]), rate)[-1]

    report = weft.verify(end)(np.float32([1, 0.5]), np.float32(1.2))
    assert report.ok, report


def test_a_range_of_floats_is_covered():
    report = weft.verify(lambda x: x * jnp.arange(4.0))(np.ones(4, np.float32))
    assert report.ok and not report.skipped
