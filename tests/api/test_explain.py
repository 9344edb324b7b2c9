"""``weft.explain``, the compiled stage of ``jit``, and the knobs ``debug`` and ``dump``."""

import os
import re
import time

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.backends.cpu.calls import native, study
from weft.base import knobs

F32 = np.float32


def spec(*shape, dtype=F32):
    return weft.ShapeDtypeStruct(shape, dtype)


def layer(x, w, b):
    return weft.nn.softmax(jnp.tanh(x @ w + b))


LAYER = (spec(64, 32), spec(32, 48), spec(48))


@pytest.fixture
def told(capsys):
    told = weft.explain(layer)(*LAYER)
    assert capsys.readouterr().out == f"{told}\n"
    return told


def flat(steps):
    return [t for step in steps for t in [step, *flat(step.inner)]]


def test_softmax_of_a_product_is_one_kernel(told):
    assert (told.kernels, told.python) == (1, 0)
    assert told.libraries + told.own == 1
    kernel = told.steps[-1]
    assert kernel.kind == "kernel"
    assert {"tanh", "exp", "div"} <= set(kernel.primitives)
    assert "64 rows of 48, 3 passes over each row (one from memory, then from the cache)" in str(
        told
    )


def test_the_story_names_the_users_lines(told):
    line = layer.__code__.co_firstlineno + 1
    assert all(t.lines == [f"test_explain.py:{line} (layer)"] for t in told.steps)
    assert f"[test_explain.py:{line} (layer)]" in str(told)


def test_bytes_are_those_of_the_buffers(told):
    product, kernel = told.steps
    assert (product.read, product.written) == (4 * (64 * 32 + 32 * 48), 4 * 64 * 48)
    assert (kernel.read, kernel.written) == (4 * (64 * 48 + 48), 4 * 64 * 48)
    assert told.moved == product.moved + kernel.moved < told.unfused
    # the product in between, and copies of the operands, by whole tiles, where they are packed
    assert 4 * 64 * 48 <= told.arena <= 4 * 64 * 48 + 2 * product.read


def test_times_and_origins_are_there(told):
    assert {"trace", "simplify", "fuse", "schedule", "render", "plan", "LLVM"} <= set(told.seconds)
    assert all(seconds >= 0 for seconds in told.seconds.values())
    functions = sum(told.origins.values())
    assert functions >= 2  # a product may also have one for each operand that it packs
    again = weft.explain(layer)(*LAYER)
    assert again.origins == {"memory": functions}


@pytest.mark.parametrize(
    ("fun", "args", "why"),
    [
        (lambda x: x / jnp.sum(x), (spec(5000),), "the next step needs the whole reduction"),
        (lambda x: jnp.sin(x) @ x, (spec(64, 64),), "dot_general reads it from memory"),
        (
            lambda x: (jnp.sum(jnp.exp(x), 0), jnp.sum(jnp.exp(x), 1)),
            (spec(300, 400),),
            "several kernels use it, and recomputing it costs more",
        ),
    ],
)
def test_why_not_more_is_fused(fun, args, why, capsys):
    assert why in str(weft.explain(fun)(*args))


def test_loops_and_branches_hold_their_steps(capsys):
    def f(x):
        c, ys = lax.scan(lambda c, _: (jnp.sin(c @ x), jnp.sum(c)), x, None, length=7)
        return lax.cond(ys[0] > 0, lambda x: x + 1, lambda x: x - 1, c)

    told = weft.explain(f)(spec(100, 100))
    loop = next(t for t in told.steps if t.kind == "loop")
    branch = next(t for t in told.steps if t.kind == "branch")
    assert (loop.times, len(branch.inner)) == (7, 2)
    assert loop.moved == 7 * sum(t.moved for t in loop.inner) > 0
    assert "7 iterations" in str(told)


def test_what_python_runs_is_named(capsys):
    def f(x):
        return weft.pure_callback(np.sin, spec(3), x) + 1

    told = weft.explain(f)(spec(3))
    assert told.python >= 1
    assert "in Python" in str(told)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.checkpoint, weft.vmap])
def test_calls_with_rules_of_their_own_do_not_run_in_python(wrap, capsys):
    @weft.custom_vjp
    def ruled(x):
        return jnp.sin(x)

    ruled.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))

    def loss(x, w):
        return jnp.sum(wrap(lambda x: ruled(weft.nn.relu(x @ w)))(x))

    for fun in (loss, weft.grad(loss)):
        told = weft.explain(fun)(spec(9, 8), spec(8, 8))
        assert told.python == 0, str(told)


def test_what_is_computed_again_is_told(capsys):
    f = weft.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    told = weft.explain(weft.grad(lambda x: jnp.sum(f(x))))(spec(5))
    assert "again" in [t.kind for t in told.steps]
    assert "because checkpoint asks for it" in str(told)


def test_the_interpreter_is_named(capsys):
    with knobs.backend("reference"):
        told = weft.explain(layer)(*LAYER)
    assert told.kernels == 0
    assert "each run with NumPy" in str(told)


def test_nothing_is_run(capsys):
    def f(x):
        weft.debug.callback(lambda: pytest.fail("it ran"))
        return x + 1

    weft.explain(f)(spec(3))


def test_jitted_functions_and_static_arguments(capsys):
    f = weft.jit(lambda x, n: x**n, static_argnums=1)
    assert weft.explain(f)(jnp.ones(3), 3).kernels == 1


def test_an_empty_function(capsys):
    told = weft.explain(lambda x: x)(spec(3))
    assert (told.kernels, told.moved, told.steps) == (0, 0, [])


# --- the compiled stage ---------------------------------------------------------------------------


def test_compiled_text_has_nodes_and_kernels():
    text = weft.jit(lambda x: jnp.sum(x * 2.0)).lower(spec(10)).compile().as_text()
    assert text.startswith("program <lambda>(\n    arg0: f32[10]\n")
    assert "k0(arg0, out0)" in text
    assert "s0 add= mul(b0[r0], 2.0)" in text


def test_costs_have_the_names_of_xla():
    lowered = weft.jit(layer).lower(*LAYER)
    before, after = lowered.cost_analysis(), lowered.compile().cost_analysis()
    assert set(before) == set(after)
    assert {"flops", "transcendentals", "bytes accessed", "bytes accessed0{}"} <= set(after)
    assert after["transcendentals"] == 2 * 64 * 48
    assert 2 * 64 * 32 * 48 < after["flops"] < 2 * 64 * 32 * 48 + 10 * 64 * 48
    assert after["bytes accessed"] < before["bytes accessed"]


def test_costs_of_loops_count_every_iteration():
    def f(x):
        return lax.scan(lambda c, _: (c @ x, None), x, None, length=5)[0]

    costs = weft.jit(f).lower(spec(8, 8)).cost_analysis()
    assert costs["flops"] == 5 * 2 * 8**3


def test_memory_of_an_executable():
    compiled = weft.jit(layer).lower(*LAYER).compile()
    stats = compiled.memory_analysis()
    assert stats.argument_size_in_bytes == 4 * (64 * 32 + 32 * 48 + 48)
    assert stats.output_size_in_bytes == 4 * 64 * 48
    assert stats.temp_size_in_bytes >= 4 * 64 * 48
    assert stats.generated_code_size_in_bytes > 0
    assert stats.alias_size_in_bytes == 0


def test_compile_compiles_ahead():
    compiled = weft.jit(lambda x: jnp.cos(x) - 1).lower(spec(4)).compile()
    assert compiled.runtime_executable() is compiled.runtime_executable()
    np.testing.assert_allclose(compiled(jnp.ones(4)), np.cos(1) - 1, rtol=1e-6)


# --- the compilation that is told -----------------------------------------------------------------


def of_several_sizes(*xs):  # kernels that differ in sizes alone are one
    return [jnp.tanh(x - x.max(1, keepdims=True)) for x in xs]


def recurrence(x, w):
    c, ys = lax.scan(lambda c, x: (jnp.sin(c @ w), jnp.sum(c + x)), x[0], x)
    return lax.while_loop(lambda c: c.sum() > 0, lambda c: c - 1, c), ys


def elements(x, w):
    halves = [jnp.exp(x[:n]).sum(1) + jnp.cos(x[n:]).sum() for n in (3, 7, 11, 19)]
    return [*halves, jnp.sort(w, 1), jnp.cumsum(w, 0)]


@pytest.mark.parametrize(
    ("fun", "shapes"),
    [
        (of_several_sizes, [(30, 160), (50, 320), (40, 480), (62, 96)]),
        (recurrence, [(64, 40), (40, 40)]),
        (elements, [(64, 40), (40, 40)]),
    ],
)
def test_what_is_told_is_what_runs(fun, shapes):
    closed = weft.jit(fun).trace(*[spec(*shape) for shape in shapes])._program
    with knobs.scope(shape_generic=False):
        runs = native.compile_program(closed)
        told = study.Study(closed).executable
    assert told is not runs
    assert told.plan.codes == runs.plan.codes
    assert told.plan.nodes == runs.plan.nodes
    assert told.plan.arena == runs.plan.arena


def test_a_function_that_was_explained_is_not_compiled_again(monkeypatch, capsys):
    made = []
    usual = native.COMPILER.make
    noted = lambda *args: made.append(args) or usual(*args)
    monkeypatch.setattr(native.COMPILER, "make", noted)
    f = weft.jit(lambda x: jnp.sin(x).sum() * 2.25)
    weft.explain(f)(jnp.ones(37))
    f.lower(jnp.ones(37)).compile()
    np.testing.assert_allclose(f(jnp.ones(37)), 37 * 2.25 * np.sin(1), rtol=1e-5)
    assert len(made) == 1


# --- knobs ----------------------------------------------------------------------------------------


def shown(level, capsys):
    with knobs.debug(level):
        weft.jit(lambda x: jnp.exp(x) * 2.0)(jnp.ones(3))
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_debug_is_a_ladder(capsys):
    texts = [shown(level, capsys) for level in range(8)]
    assert texts[0] == ""
    assert len(texts[1].splitlines()) == 1
    assert "<lambda>: 2 operations → 1 kernel" in texts[1]
    marks = ["memory traffic 24 B",
             "lambda ; a:f32[3]", "kernel k0(", "program <lambda>(", "define void",
             "pass cse"]  # fmt: skip
    for level, mark in enumerate(marks, 2):
        assert [mark in text for text in texts] == [n >= level for n in range(8)], mark


def test_dump_writes_numbered_files(tmp_path, capsys):
    folder = tmp_path / "dump"
    with knobs.dump(str(folder)):
        for scale in (2.0, 3.0):
            weft.jit(lambda x, scale=scale: jnp.exp(x) * scale)(jnp.ones(3))
    assert capsys.readouterr().err == ""
    rooms = sorted(os.listdir(folder))
    assert len(rooms) == 2 and [r[:4] for r in rooms] == ["0000", "0001"]
    files = sorted(os.listdir(folder / rooms[0]))
    names = [f.partition("-")[2] for f in files]
    assert [int(f[:3]) for f in files] == list(range(len(files)))
    passes = "inline cse compact hoist fission contract transform prune".split()
    assert names[:10] == ["story.txt", "traced.txt", *(f"{name}.txt" for name in passes)]
    assert {"fused-k0.txt", "scheduled-k0.txt", "program.txt", "llvm-k0.ll"} <= set(names)
    assert "define void" in (folder / rooms[0] / files[names.index("llvm-k0.ll")]).read_text()


def test_measured_kernels_have_times_rates_and_shares():
    def f(w, x):
        return jnp.tanh(x @ w).sum(), jnp.sort(x, axis=0)

    told = weft.explain(f, quiet=True, measure=True)(jnp.ones((64, 64)), jnp.ones((256, 64)))
    assert all(t.seconds > 0 and t.launches == 1 for t in told.steps)
    assert sum(t.share for t in told.steps) == pytest.approx(1)
    for line in told.lines()[1:]:
        assert re.search(r"\], took [\d.]+ us \([\d.e+-]+ GB/s, \d+ %\)$", line), line
    assert re.search(r"one call took [\d.]+ us, [\d.]+ us of it below", str(told))
    # nothing of it is kept: the function's own calls have no clocks
    assert "took" not in str(weft.explain(f, quiet=True)(jnp.ones((64, 64)), jnp.ones((256, 64))))


def test_measured_loops_have_the_time_of_all_rounds():
    def body(c, x):
        c = lax.fori_loop(0, 7, lambda i, z: jnp.sin(z) * 1.1, c @ x)
        c = lax.while_loop(lambda q: q[0] < 5, lambda q: (q[0] + 1, jnp.sort(q[1], 0)), (0, c))[1]
        return c, jnp.linalg.cholesky(c @ c.T + 1e3 * jnp.eye(64)).sum()

    told = weft.explain(lambda x, xs: lax.scan(body, x, xs), quiet=True, measure=True)(
        jnp.ones((64, 64)), 0.01 * jnp.ones((5, 64, 64))
    )
    (loop,) = [t for t in told.steps if t.kind == "loop"]
    assert loop.inner and "in 5 runs" in loop.head()
    assert loop.seconds > 0 and sum(t.seconds or 0 for t in loop.inner) > 0
    measured = [t for t in loop.inner if t.nodes and t.name != "no kernel"]
    assert all(t.seconds for t in measured), [t.head() for t in measured if not t.seconds]
    assert {t.launches for t in loop.inner if t.seconds and not t.inner} == {5}


def test_kernels_that_a_loop_of_one_function_calls_are_measured():
    def f(x, xs):
        return lax.scan(lambda c, x: (jnp.tanh(c @ x), c.sum()), x, xs)

    args = jnp.ones((64, 64)), 0.01 * jnp.ones((50, 64, 64))
    told = weft.explain(f, quiet=True, measure=True)(*args)
    (loop,) = [t for t in told.steps if t.kind == "loop"]
    assert "in 50 runs" in loop.head()
    kernels = [t for t in loop.inner if t.name != "no kernel"]
    assert len(kernels) >= 2 and all(t.seconds > 0 and t.launches == 50 for t in kernels)
    assert sum(t.seconds for t in kernels) < 4 * loop.seconds
    # the program that calls run is another one
    want = weft.jit(f)(*args)
    for a, b in zip(weft.jit(f)(*args), want, strict=True):
        assert a.tolist() == b.tolist()


def test_functions_with_effects_are_measured_in_one_run():
    def f(x):
        weft.debug.callback(seen.append, x[0])
        return lax.cond(x[0] > 0, lambda x: jnp.sort(x), lambda x: x * 2, x)

    seen = []
    told = weft.explain(f, quiet=True, measure=True)(jnp.ones(5000))
    weft.effects_barrier()
    assert len(seen) == 1
    (branch,) = [t for t in told.steps if t.kind == "branch"]
    assert [t.seconds is None for t in branch.inner].count(False) == 1
    assert any(t.kind == "python" and t.seconds > 0 for t in told.steps)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_measured_time_is_that_of_all_threads_together(threads):
    x = jnp.ones(1 << 20)
    for _ in range(3):  # the clock of a virtual machine may jump
        with weft.num_threads(threads):
            began = time.perf_counter()
            told = weft.explain(lambda x: jnp.sin(jnp.exp(x)), quiet=True, measure=True)(x)
            spent = time.perf_counter() - began
        (kernel,) = told.steps
        fast = kernel.moved / kernel.seconds > 1e12  # bytes a second that no memory has
        if not fast:
            break
    assert kernel.launches == 1 and 0 < kernel.seconds < spent / 3  # of three runs or more
    assert not fast


def test_measuring_needs_arrays():
    with pytest.raises(TypeError, match=r"needs arrays, not just their types"):
        weft.explain(lambda x: x + 1, measure=True)(weft.ShapeDtypeStruct((3,), jnp.float32))
