"""From the second shape on, compiled functions run code that serves other sizes too."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.runtime.sized import FUNCTIONS
from weft import lax
from weft.backends.cpu.target import Cpu
from weft.base import background, knobs
from weft.base.sizes import recording
from weft.compiler.generic import Walked, between
from weft.runtime.code import CODE

# Whose code depends on the very numbers: lengths of transforms, what LAPACK is asked, the steps of
# a tree of sums.
EXACT = {"fft", "eigh", "qr", "assoc"}


def executables(function: Any) -> list[Any]:
    """What was compiled of a function, in order."""
    staged = function._cache.values()
    found = [CODE.values(s.closed) for s in staged]
    return [made[-1] for made in found]


def close(got: Any, want: Any) -> None:
    for x, y in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape and x.dtype == y.dtype
        scale = max(1.0, float(np.max(np.abs(y), initial=0)))
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5 * scale)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_sizes(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    compiled = weft.jit(lambda *args: function(*args))
    for n in (9, 14, 22, 5, 40):
        given = arguments(n)
        got = compiled(*given)
        with knobs.scope(backend="interpret"):
            close(got, weft.jit(lambda *args: function(*args))(*given))
    if name not in EXACT:
        assert sum(e.generic for e in executables(compiled)) >= 3


def test_third_shape_compiles_nothing() -> None:
    compiled = weft.jit(lambda x, w: jnp.tanh(x @ w).sum(-1) * x.shape[0])
    w = jnp.ones((24, 16))
    for n in (30, 47):
        compiled(jnp.ones((n, 24)), w)
    for n in (53, 21, 64, 100):
        with generic_compiles_nothing():
            result = compiled(jnp.ones((n, 24)), w)
        np.testing.assert_allclose(result, np.full(n, 16 * n * np.tanh(24.0)), rtol=1e-6)


class generic_compiles_nothing:
    """Raise where a native function is compiled meanwhile."""

    def __enter__(self) -> None:
        from weft.backends.llvm.native import machine

        self.before = machine.compile_many

        def refuse(*_: Any) -> Any:
            raise AssertionError("compiled anew")

        machine.compile_many = refuse

    def __exit__(self, *_: Any) -> None:
        from weft.backends.llvm.native import machine

        machine.compile_many = self.before


def test_two_sizes_that_vary_apart() -> None:
    compiled = weft.jit(lambda x, y: (x[:, None] * y[None, :]).sum(0) + y)
    for n, m in ((8, 5), (9, 12), (30, 6), (3, 50), (12, 12), (7, 9)):
        x, y = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32)
        np.testing.assert_allclose(compiled(x, y), x.sum() * y + y, rtol=1e-6)
    assert executables(compiled)[-1].generic


def test_sizes_of_zero_and_one_have_code_of_their_own() -> None:
    compiled = weft.jit(lambda x: jnp.exp(x).sum(-1) + x.shape[0])
    for n in (6, 9, 1, 0, 12, 2):
        want = np.full(n, 4 + n, np.float32)
        np.testing.assert_array_equal(compiled(np.zeros((n, 4), np.float32)), want)


def test_python_sees_plain_numbers() -> None:
    seen = []

    def function(x: Any) -> Any:
        seen.append(x.shape[0])
        return x * 2 if x.shape[0] > 10 else x * 3

    compiled = weft.jit(function)
    for n in (4, 6, 20, 30, 8):
        expected = 2.0 if n > 10 else 3.0
        np.testing.assert_array_equal(compiled(jnp.ones(n)), np.full(n, expected, np.float32))
    assert seen == [4, 6, 20, 30, 8] and all(type(n) is int for n in seen)


def test_constants_of_other_sizes() -> None:
    tables = {n: jnp.arange(n, dtype=jnp.float32) for n in (5, 8, 13, 21)}
    compiled = weft.jit(lambda x: x * tables[x.shape[0]] + np.float32(1 / x.shape[0]))
    for n, table in tables.items():
        want = 2 * np.asarray(table) + np.float32(1 / n)
        np.testing.assert_allclose(compiled(jnp.full(n, 2.0)), want, rtol=1e-6)
    assert executables(compiled)[-1].generic


def test_other_constants_of_the_same_function() -> None:
    def made(factor: Any) -> Any:
        return weft.jit(lambda x: x * factor + 1)

    first, second = jnp.full((3,), 2.0), jnp.full((3,), 5.0)
    for n in (4, 7, 9):
        np.testing.assert_array_equal(made(first)(jnp.ones((n, 3))), np.full((n, 3), 3.0))
        np.testing.assert_array_equal(made(second)(jnp.ones((n, 3))), np.full((n, 3), 6.0))


def test_arrays_of_a_function_are_let_go() -> None:
    def run() -> Any:
        held = jnp.ones((64, 64)) * 3
        compiled = weft.jit(lambda x: x @ held)
        for n in (5, 8, 11):
            compiled(jnp.ones((n, 64)))
        return weakref.ref(held)

    found = run()
    gc.collect()
    assert found() is None


def test_donated_arguments() -> None:
    compiled = weft.jit(lambda x, y: (x + y, y * 2), donate_argnums=0)
    for n in (16, 24, 40, 9):
        x, y = jnp.ones((n, 8)), jnp.full((n, 8), 2.0)
        total, twice = compiled(x, y)
        assert x.is_deleted() and not y.is_deleted()
        np.testing.assert_array_equal(total, np.full((n, 8), 3.0))
        np.testing.assert_array_equal(twice, np.full((n, 8), 4.0))


def test_exact_code_takes_over() -> None:
    compiled = weft.jit(lambda x: jnp.sin(x).sum(-1))
    for n in (10, 12):
        compiled(jnp.ones((n, 6)))
    with knobs.scope(exact_after=3):
        for _ in range(3):
            compiled(jnp.ones((14, 6)))
        background.settle()
        assert not executables(compiled)[-1].generic
        for _ in range(4):
            np.testing.assert_allclose(compiled(jnp.ones((14, 6))), 6 * np.sin(1), rtol=1e-6)


def test_knobs() -> None:
    compiled = weft.jit(lambda x: jnp.cos(x) * 3)
    with knobs.scope(shape_generic=False):
        for n in (10, 12, 14):
            compiled(jnp.ones((n, 5)))
    assert not any(e.generic for e in executables(compiled))
    compiled = weft.jit(lambda x: jnp.cos(x) * 4)
    with knobs.scope(exact_after=0):
        for n in (10, 12, *[14] * 12):
            compiled(jnp.ones((n, 5)))
    assert executables(compiled)[-1].generic


def test_cache_info_tells_which_ran() -> None:
    compiled = weft.jit(lambda x: jnp.sqrt(x) - 1)
    for n in (10, 12, 14):
        compiled(jnp.ones((n, 3)))
    assert compiled.cache_info()["shape_generic"] == 2


def test_explain_tells_which_runs() -> None:
    compiled = weft.jit(lambda x: jnp.tanh(x) - 1)
    for n in (10, 12):
        compiled(jnp.ones((n, 3)))
    first, second = (weft.explain(compiled, quiet=True)(jnp.ones((n, 3))) for n in (10, 12))
    assert not first.shape_generic and "shape-generic" not in str(first)
    assert second.shape_generic and "shape-generic" in str(second)


def test_threads() -> None:
    compiled = weft.jit(lambda x: (x * 2).sum(0))
    found: dict[int, Any] = {}

    def run(n: int) -> None:
        found[n] = compiled(jnp.ones((n, 4)))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(5, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, result in found.items():
        np.testing.assert_array_equal(result, np.full(4, 2.0 * n))


def test_loops_of_other_lengths() -> None:
    def function(h: Any, xs: Any) -> Any:
        h, ys = lax.scan(lambda h, x: (h * 0.5 + x, h.sum()), h, xs)
        return h, ys

    compiled = weft.jit(function)
    for n in (6, 9, 12, 13, 3, 2):
        xs = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
        h = np.zeros(4, np.float32)
        sums = []
        for x in xs:
            sums.append(h.sum())
            h = h * np.float32(0.5) + x
        got, ys = compiled(jnp.zeros(4), xs)
        np.testing.assert_allclose(got, h, rtol=1e-6)
        np.testing.assert_allclose(ys, sums, rtol=1e-6)


def test_what_has_no_named_sizes_is_exact_code() -> None:
    def function(w: Any, xs: Any) -> Any:
        step = lambda h, x: (jnp.tanh(x @ w + h), h.sum())
        return lax.scan(step, jnp.zeros((8, 64)), xs)[1].mean()

    programs = []
    for n in (10, 13):
        shapes = [jnp.zeros((32, 64)), jnp.zeros((n, 8, 32))]
        programs.append(weft.make_jaxpr(weft.grad(function))(*shapes))
    first, second = [Walked(closed) for closed in programs]
    template = between(first, second, programs[1])
    with recording() as guards:
        made = Cpu(named=True).assemble(template.closed)
    exact = Cpu().assemble(programs[1])
    products = [{text for text, name in plan.codes if name == "product"} for plan in (made, exact)]
    assert products[0] and products[0] <= products[1]
    # nothing is asked about a length where other reasons decide
    assert not guards
