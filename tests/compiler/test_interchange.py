"""Loops in blocks: the same bits as round after round, and only where rounds work by element."""

import functools
import signal

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu import target
from weft.backends.cpu.assembly import launched
from weft.base.sizes import recording
from weft.compiler import interchange, plan
from weft.compiler.generic import Walked, alone


def numbers(*shape, dtype=np.float32):
    size = int(np.prod(shape))
    found = (np.arange(size) * 7919 % 1000 / 499 - 1).reshape(shape)
    if np.dtype(dtype).kind == "c":
        return (found + 1j * found[::-1]).astype(dtype)
    return (found * 50).astype(dtype) if np.dtype(dtype).kind in "iu" else found.astype(dtype)


def in_blocks(fun, *args):
    """Whether a program has a loop in blocks."""
    program = target.Cpu().assemble(weft.make_jaxpr(fun)(*args))
    return any(name == "blocks" for _, name in program.codes)


def check(fun, *args, exact=True, monkeypatch):
    assert in_blocks(fun, *args)
    got = weft.jit(lambda *a: fun(*a))(*args)
    want = ways.interpreted(fun, *args)
    if exact:
        ways.same(got, want)
    with monkeypatch.context() as patch:
        ways.take("walk", patch)
        ways.same(weft.jit(lambda *a: fun(*a))(*args), got)
        patch.setattr(plan, "interchange", lambda *_: None)
        ways.same(weft.jit(lambda *a: fun(*a))(*args), got)
    for x, y in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def repeated(x, n=30):
    return lax.fori_loop(0, n, lambda i, v: v * x + 1, x)


def counting(x):
    return lax.fori_loop(3, 43, lambda i, v: v + x * i, jnp.zeros_like(x))


def dynamic(x, n):
    return lax.fori_loop(0, n, lambda i, v: v * x - i, x)


def with_rows(x, reverse=False):
    weights = jnp.arange(1.0, 40.0)
    step = lambda c, w: (c * 0.5 + x * w, None)
    return lax.scan(step, jnp.ones_like(x), weights, reverse=reverse)[0]


def several(x):
    def step(i, c):
        a, b, same, flags, total = c
        return b, a + same, same, jnp.logical_xor(flags, a > b), total + 2

    start = (x, x * 2, x + 1, x > 0, jnp.int32(1))
    return lax.fori_loop(0, 50, step, start)


def around(x):
    """Values that do not change: broadcast, counted, summed up."""

    def step(i, v):
        places = lax.broadcasted_iota(jnp.float32, x.shape, 1)
        return v * 0.5 + places + x[0] + jnp.max(x)

    return lax.fori_loop(0, 80, step, x)


def complex_numbers(c):
    def step(s):
        count, z, inside = s
        z = z * z + c
        return count + 1, z, inside + (z.real < 2)

    return lax.while_loop(
        lambda s: s[0] < 5, step, (0, jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32))
    )


def each_until(x):
    """A loop of its own for each element."""

    def one(a):
        return lax.while_loop(
            lambda s: s[0] < 20 * a, lambda s: (s[0] + 1, s[1] * a), (jnp.float32(0), a)
        )

    return weft.vmap(one)(x)


def roots(x):
    step = lambda i, y: 0.5 * (y + (x * x + 1) / y)
    return lax.fori_loop(0, 40, step, jnp.ones_like(x)), jnp.sin(x)


def nested(x):
    def outer(c, w):
        return lax.fori_loop(0, 30, lambda i, v: v * 0.5 + x * w, c), jnp.sum(c)

    return lax.scan(outer, x, jnp.arange(3.0))


SHAPES = [(256,), (300,), (17, 31), (1, 1000), (4, 5, 63)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fun", [repeated, counting, with_rows, several], ids=lambda f: f.__name__)
def test_blocks_are_rounds(fun, shape, monkeypatch):
    check(fun, numbers(*shape), monkeypatch=monkeypatch)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "uint16", "bfloat16", "float16"])
def test_blocks_of_types(dtype, monkeypatch):
    with weft.enable_x64(True):
        check(repeated, jnp.asarray(numbers(333), dtype), monkeypatch=monkeypatch)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_carries(dtype, monkeypatch):
    with weft.enable_x64(True):
        c = numbers(20, 21, dtype=np.complex128).astype(dtype)
        check(complex_numbers, c, exact=False, monkeypatch=monkeypatch)


def test_other_loops_in_blocks(monkeypatch):
    check(functools.partial(with_rows, reverse=True), numbers(400), monkeypatch=monkeypatch)
    check(around, numbers(20, 30), monkeypatch=monkeypatch)
    check(each_until, numbers(1001), monkeypatch=monkeypatch)
    check(roots, numbers(500), exact=False, monkeypatch=monkeypatch)
    check(nested, numbers(20, 30), exact=False, monkeypatch=monkeypatch)
    for n in (0, 1, 2, 7):
        check(dynamic, numbers(40, 10), n, monkeypatch=monkeypatch)


def test_special_values_go_round(monkeypatch):
    x = np.resize(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, 3], np.float32), 300)
    check(lambda x: lax.fori_loop(0, 5, lambda i, v: v * x, x), x, monkeypatch=monkeypatch)


@pytest.mark.parametrize("count", [2, 31, 32, 33, 63, 64, 65, 100])
def test_long_loops_return_in_between(count, monkeypatch):
    monkeypatch.setattr(interchange, "ELEMENTS_PER_POLL", 1)  # then 16 rounds at a time
    check(functools.partial(repeated, n=count), numbers(300), monkeypatch=monkeypatch)
    check(dynamic, numbers(300), count, monkeypatch=monkeypatch)
    check(each_until, numbers(300) * count / 20, monkeypatch=monkeypatch)


def test_donated_operands(monkeypatch):
    x = jnp.asarray(numbers(50, 20))
    want = np.asarray(ways.interpreted(repeated, x))
    np.testing.assert_array_equal(weft.jit(repeated, donate_argnums=0)(x + 0), want)


def test_rounds_that_look_at_other_elements_stay_whole():
    x = numbers(300, 10)
    assert in_blocks(repeated, x)
    others = {
        "rolled": lambda v: jnp.roll(v, 1) * 0.5,
        "summed": lambda v: v / (1 + jnp.sum(v * v)),
        "reversed": lambda v: v[::-1] * 0.5,
        "multiplied": lambda v: v @ jnp.ones((10, 10)) * 0.1,
        "placed": lambda v: v.at[3].set(1.0),
    }
    for name, step in others.items():
        fun = lambda x, step=step: lax.fori_loop(0, 900, lambda i, v: step(v), x)
        assert not in_blocks(fun, x), name
        np.testing.assert_allclose(
            weft.jit(fun)(x), ways.interpreted(fun, x), rtol=1e-3, atol=1e-4, err_msg=name
        )
    # a predicate of all elements, and results of every round
    until = lambda x: lax.while_loop(lambda v: jnp.any(v < 9), lambda v: v + 0.5, x)
    assert not in_blocks(until, x)
    np.testing.assert_array_equal(weft.jit(until)(x), ways.interpreted(until, x))
    assert not in_blocks(lambda x: lax.scan(lambda c, _: (c * 0.5, c), x, None, length=50)[1], x)


def test_an_endless_loop_can_be_interrupted(monkeypatch):
    ways.take("native", monkeypatch)
    x = jnp.asarray(numbers(1000))
    endless = weft.jit(
        lambda x: lax.while_loop(lambda c: c[0] >= 0, lambda c: (0, c[1] * x), (0, x))
    )
    assert in_blocks(
        lambda x: lax.while_loop(lambda c: c[0] >= 0, lambda c: (0, c[1] * x), (0, x)), x
    )

    def ring(*_):
        raise TimeoutError

    compiled = endless.lower(x).compile()
    old = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(TimeoutError):
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            compiled(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_complex_numbers_in_named_sizes():
    def escape(c):
        step = lambda s: (s[0] * s[0] + c, s[1] + 1)
        return lax.while_loop(lambda s: s[1] < 50, step, (c, 0))[0]

    closed = weft.make_jaxpr(escape)(np.zeros((30, 40), np.complex64))
    template = alone(Walked(closed), closed, 0)
    assert template.stand_ins  # the 50, which others may have another number for
    with recording():
        made = target.Cpu(named=True, eager=True).assemble(template.closed)
    assert launched(made.nodes)


def unchanged(x, n=4):
    """Its backward loop carries the cotangent as it is, beside a counter."""
    return lax.fori_loop(0, n, lambda i, c: c + i, x)


def stepped(x):
    return lax.scan(lambda c, _: (c + 1, None), x, None, length=3)[0]


def part(x):
    return unchanged(x)[:5]


@pytest.mark.parametrize("size", [8, 16, 56, 300])
@pytest.mark.parametrize("fun", [unchanged, stepped, part])
def test_jacobians_of_loops_that_carry_cotangents_as_they_are(fun, size):
    x = numbers(size)
    want = np.eye(size, dtype=np.float32)[: fun(x).shape[0]]
    np.testing.assert_array_equal(weft.jit(weft.jacrev(fun))(x), want)
    np.testing.assert_array_equal(weft.jit(weft.jacfwd(fun))(x), want)


def test_loops_whose_large_values_stay():
    """The carry that changes is a scalar, or of another shape than the one that stays."""
    still, small = numbers(40, 30), numbers(7)
    loop = lambda s, c: lax.fori_loop(0, 5, lambda i, v: (v[0], v[1] * 2 + i), (s, c))
    for fun, args in [(loop, (still, small)), (loop, (still, np.float32(2)))]:
        assert not in_blocks(fun, *args)
        got, want = weft.jit(fun)(*args), ways.interpreted(fun, *args)
        ways.same(got, want)
    until = lambda s, n: lax.while_loop(lambda v: v[1] < n, lambda v: (v[0], v[1] + 1), (s, 0))
    ways.same(weft.jit(until)(still, 9), ways.interpreted(until, still, 9))
