"""Debugging aids: forbidden NaNs and infinities, logs of tracing, jit switched off."""

import logging
import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.errors.reading import text_of
from weft import lax

ONE = jnp.ones(3)

NANS = {
    "eager": ("log", lambda: jnp.log(jnp.float32(-1.0))),
    "operator": ("div", lambda: jnp.zeros(2) / jnp.zeros(2)),
    "in jit": ("log", lambda: weft.jit(lambda x: jnp.log(x) + 1)(-1.0)),
    "gradient": ("mul", lambda: weft.grad(lambda x: jnp.sqrt(x) * 0)(0.0)),
    "gradient in jit": ("mul", lambda: weft.jit(weft.grad(lambda x: jnp.sqrt(x) * 0))(0.0)),
    "vmap": ("log", lambda: weft.vmap(jnp.log)(jnp.array([1.0, -1.0]))),
    "scan": ("log", lambda: lax.scan(lambda c, x: (jnp.log(c) + x, c), 1.0, -ONE)),
    "scan in jit": (
        "log",
        lambda: weft.jit(lambda y: lax.scan(lambda c, x: (jnp.log(c) + x, c), 1.0, y))(-ONE),
    ),
    "product": ("dot_general", lambda: jnp.dot(jnp.array([np.inf]), jnp.array([0.0]))),
    "nested jit": ("sqrt", lambda: weft.jit(lambda x: weft.jit(jnp.sqrt)(x) * 2)(-1.0)),
}


@pytest.mark.parametrize("name", NANS)
def test_nan_names_its_primitive_and_line(name):
    primitive, fun = NANS[name]
    fun()
    with weft.debug_nans(True):
        text_of(FloatingPointError, fun, f"(nan) encountered in {primitive} ", "float32")


def test_infinities():
    fun = lambda: weft.jit(lambda x: 1 / x)(0.0)
    fun()
    with weft.debug_nans(True):
        fun()
    with weft.debug_infs(True):
        text_of(FloatingPointError, fun, "(inf) encountered in div", "none of them holds")


def test_nan_that_does_not_come_out_of_jit():
    with weft.debug_nans(True):
        masked = weft.jit(lambda x: jnp.where(x > 0, jnp.log(x), 0.0))
        assert float(masked(-1.0)) == 0.0


def test_nan_that_comes_in():
    with weft.debug_nans(True):
        text_of(FloatingPointError, lambda: weft.jit(lambda x: x + 1)(np.nan), "add",
                "operand 0 holds nan already")  # fmt: skip


@pytest.fixture
def messages(caplog):
    caplog.set_level(logging.WARNING, logger="weft")
    return lambda: [r.getMessage() for r in caplog.records if r.name.startswith("weft")]


def scale(x, n, *, shift=0):
    return x * n + shift


def test_log_of_compiles(messages):
    f = weft.jit(scale, static_argnums=1, static_argnames="shift")
    f.clear_cache()
    f(1.0, 2)
    assert messages() == []
    with weft.log_compiles(True):
        f(ONE, 3, shift=5)
        f(ONE, 3, shift=5)
    traced, message, *_ = messages()
    assert re.match(r"Finished tracing scale at .* for jit in .* s", traced)
    assert message.startswith(
        f"Compiling jit(scale) at test_reports.py:{scale.__code__.co_firstlineno}"
    )
    for part in ("x: float32[3]", "n = 3 (static)", "shift = 5 (static)", "called at test_rep"):
        assert part in message


def test_cache_misses_are_explained(messages):
    f = weft.jit(scale, static_argnums=1, static_argnames="shift")
    f.clear_cache()  # of what other jits of the function have staged
    with weft.explain_cache_misses(True):
        f(1.0, 2)
        f(2.0, 2)
        f(1, 2)
        f(1.0, 3)
        f(ONE, 2, shift=1)
        f(jnp.ones(4), 2, shift=1)
        f(jnp.float32(1), 2)
        with weft.enable_x64(True):
            f(1.0, 2)
    found = messages()
    assert len(found) == 7
    assert all("Cache miss of scale at test_reports.py:" in m for m in found)
    assert "first time" in found[0]
    assert "argument x was float32[], now int32[]" in found[1]
    assert "before n = 2 (static); now n = 3 (static)" in found[2]
    assert "argument x was float32[3], now float32[4]" in found[4]
    assert "weak_type=True, now float32[] weak_type=False" in found[5]
    assert "enable_x64=True" in found[6]


def test_jit_can_be_switched_off():
    seen = []
    f = weft.jit(lambda x: seen.append(x) or (x if x > 0 else -x))
    with weft.disable_jit():
        assert float(f(jnp.float32(-2.0))) == 2.0
        assert float(weft.jit(lambda n: sum(range(n)))(jnp.int32(4))) == 6
    assert float(seen[0]) == -2.0


def test_printed_tracers_say_what_they_are():
    seen = []
    show = lambda x: (seen.append(repr(x)), x * 2.0)[1]
    weft.jit(show)(1.0)
    weft.vmap(show)(ONE)
    weft.grad(show)(1.0)
    weft.jvp(show, (1.0,), (1.0,))
    assert seen == [
        "JitTracer(~float32[])",
        "VmapTracer(aval=float32[], batched=float32[3])",
        "GradTracer(primal=1.0, typeof(tangent)=f32[])",
        "JVPTracer(primal=1.0, tangent=1.0)",
    ]
