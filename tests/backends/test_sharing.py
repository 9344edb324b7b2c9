"""Native functions that differ in sizes alone are one."""

import numpy as np
import pytest

import weft
from weft import numpy as jnp
from weft.backends.cpu import target
from weft.backends.cpu.assembly import Run
from weft.backends.cpu.calls import native
from weft.backends.cpu.native.machine import Ahead
from weft.backends.cpu.sharing import shared, sizable, sized
from weft.core.interpret import run as interpret

LINES = """define void @kernel(ptr noalias %buffers, i64 %start, i64 %stop) #0 {
entry:
  %b0 = load ptr, ptr %buffers, align 8
  %v1 = mul i64 %start, 7
  %v2 = getelementptr float, ptr %b0, i64 7
  %v3 = sub i64 9, 0
  %v4 = udiv i64 %start, 5
  %v5 = load <8 x float>, ptr %v2, align 4
"""
END = "  ret void\n}\nattributes #0 = { nounwind }\n"
REST = "".join(f"  %w{i} = add i64 %v1, 3\n" for i in range(30))
TEXT = LINES + REST + END


def test_sizes_are_apart_from_what_is_between_them():
    assert sizable(TEXT)
    apart = sized(TEXT)
    assert apart.sizes[:4] == (7, 7, 9, 5) and apart.sizes[4:] == (3,) * 30
    assert sized(TEXT.replace(" 7\n", " 70\n")).between == apart.between
    # widths of vectors, alignments and other functions' numbers are no sizes
    assert sized(TEXT.replace("<8 x", "<4 x")).between != apart.between
    assert sized(TEXT.replace("align 4", "align 8")).between != apart.between


@pytest.mark.parametrize(
    "text",
    [
        LINES + END,  # too short
        TEXT + TEXT.replace("@kernel", "@other"),
        "; optimise\n" + TEXT,
        TEXT.replace("i64 %stop", "i64 %stop, ptr %more"),
    ],
)
def test_other_texts_are_left_alone(text):
    assert not sizable(text)


def test_one_text_reads_what_others_have_written_in():
    second = TEXT.replace(" 7\n", " 70\n").replace("%start, 5", "%start, 6")
    text, rows = shared([sized(TEXT), sized(second)], 3)
    assert rows == [[7, 5], [70, 6]]
    assert "getelementptr ptr, ptr %buffers, i64 3\n" in text
    assert "mul i64 %start, %sized0\n" in text and "ptr %b0, i64 %sized0\n" in text
    assert "udiv i64 %start, %sized1\n" in text and "sub i64 9, 0\n" in text


def test_too_many_sizes_stay_where_they_are():
    def other(n):
        lines = [f"  %w{i} = add i64 %v1, {n + 3 * i * n}\n" for i in range(30)]
        return sized(LINES + "".join(lines) + END)

    assert shared([other(1), other(2)], 1) is None


def planned(fun, *args):
    closed = weft.make_jaxpr(fun)(*args)
    with Ahead() as ahead:
        return target.Cpu(None, ahead).assemble(closed)


def check(fun, *args):
    closed = weft.make_jaxpr(fun)(*args)
    made = native.Executable(closed)
    expected = interpret(closed.jaxpr, [np.asarray(c) for c in closed.consts], list(args))
    for got, want in zip(made(list(args)), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    return made.plan


def rows(*shapes, dtype=np.float32):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def softmax(x):
    e = jnp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def below(x):
    return jnp.tanh(x - x.max(1, keepdims=True))


SHAPES = [(30, 160), (50, 320), (40, 480), (62, 96)]


@pytest.mark.parametrize("function", [below, lambda x: x.sum(0), lambda x: x + x[:1]])
def test_kernels_of_other_sizes_share_code(function):
    fun = lambda *xs: [function(x) for x in xs]
    plan = check(fun, *rows(*SHAPES))
    launches = [node for node in plan.nodes if isinstance(node, Run)]
    assert len({node.code for node in launches}) < len(launches)
    texts = [plan.codes[node.code][0] for node in launches]
    assert any("%sized" in text for text in texts)
    again = planned(fun, *rows(*SHAPES))
    assert [n.code for n in again.nodes] == [n.code for n in plan.nodes]


def test_those_that_are_not_alike_do_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(target, "HELD", 1)
    check(lambda *xs: [softmax(x) for x in xs], *rows(*SHAPES))
    check(lambda x: [softmax(x), x.sum(0), jnp.cumsum(x, 1), x.T * 2], *rows((60, 70)))


def test_code_that_a_loop_uses_too():
    def fun(x, y):
        def body(_, x):
            return softmax(x) @ jnp.ones((160, 160)) * 0.01

        return weft.lax.fori_loop(0, 3, body, softmax(x)), softmax(y)

    check(fun, *rows((30, 160), (50, 320)))
