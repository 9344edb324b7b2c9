"""Small loops as one function: the same as loops that are walked, and as the interpreter."""

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu import target
from weft.backends.cpu.assembly import called, launched
from weft.kernel.program import For, While

X = jnp.arange(5.0) * 0.25


def nested(n):
    def outer(i, c):
        return lax.fori_loop(0, i, lambda j, d: d * 0.5 + j, c)

    return lax.fori_loop(0, n, outer, 1.0)


def thrice(n):
    def inner(c, x):
        return lax.scan(lambda d, y: (d + x * y, d), c, jnp.arange(3.0))

    return lax.scan(inner, jnp.float32(n), X)


def branching(n):
    def body(c):
        i, v = c
        v = lax.cond(i % 2 == 0, lambda v: v * 2 + 1, lambda v: v - X, v)
        return i + 1, v

    return lax.while_loop(lambda c: c[0] < n, body, (0, X))


def switching(n):
    def body(i, c):
        steps = [lambda v: v + 1, lambda v: v * 2, lambda v: -v, lambda v: v]
        return lax.switch(i - 1, steps, c)

    return lax.fori_loop(0, n, body, X)


def looping_branch(n):
    def body(i, c):
        return lax.cond(
            c[0] > 1, lambda v: lax.fori_loop(0, 3, lambda j, w: w * 0.5, v), lambda v: v + i, c
        )

    return lax.fori_loop(0, n, body, X)


def slices(reverse):
    def fun(n):
        rows = jnp.arange(35.0).reshape(7, 5) * 0.125
        return lax.scan(lambda c, r: (c * 0.5 + r, (c, r.sum())), X + n, rows, reverse=reverse)

    return fun


def trips(count, reverse=False):
    def fun(n):
        numbers = jnp.arange(count) + n
        return lax.scan(lambda c, k: (c * 3 + k, c), n, numbers, reverse=reverse)

    return fun


def nothing_carried(n):
    return lax.scan(lambda c, k: (c, k * n), None, jnp.arange(9))


def shifting(n):
    def step(c, _):
        a, b, d = c
        return (b, d, a + b), None

    return lax.scan(step, (n, n + 1, n + 2), length=11)[0]


def swapping(n):
    return lax.fori_loop(0, n, lambda i, c: (c[1], c[0]), (X, X + 1))


def constant_carry(n):
    def step(c, k):
        v, same, number = c
        return (v + same * number, same, 7), same

    return lax.scan(step, (X, X * 2, n), jnp.arange(6))


def types(dtype):
    def fun(n):
        start = jnp.asarray([1, 0, 1], dtype)

        def body(i, c):
            v, flag, wide = c
            return v + jnp.asarray(i, dtype), jnp.logical_not(flag), wide * 3 + 1

        return lax.fori_loop(0, n, body, (start, True, jnp.asarray(n, dtype)))

    return fun


def special(n):
    values = jnp.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42])
    return lax.fori_loop(0, n, lambda i, c: c * jnp.array([1, 2, 2, 1, -1, 0.5]), values)


def indexing(n):
    def body(i, c):
        return c.at[i % 5].set(c[(i + 1) % 5] + i)

    return lax.fori_loop(0, n, body, X)


def reducing(n):
    return lax.while_loop(lambda v: jnp.sum(v) < n * 10, lambda v: v + jnp.max(v) * 0.1 + 1, X)


def mapped(n):
    def one(x):
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + x, c[1] + 1), (x, 0))

    return weft.vmap(one)(jnp.arange(1.0, 5.0))


def differentiated(n):
    def total(x):
        return jnp.sum(lax.scan(lambda c, r: (c * r + x, c), x, jnp.ones((4, 5)) * 0.5)[0])

    return weft.value_and_grad(total)(X + n)


def after_and_before(n):
    y = X * 2 + n
    z = lax.fori_loop(0, 4, lambda i, c: c + y, y)
    return lax.fori_loop(0, 3, lambda i, c: c * 0.5 + z, z) - y, z


LOOPS = {f.__name__: f for f in (nested, thrice, branching, switching, looping_branch)}
LOOPS |= {f.__name__: f for f in (nothing_carried, shifting, swapping, constant_carry, special)}
LOOPS |= {f.__name__: f for f in (indexing, reducing, mapped, differentiated, after_and_before)}
LOOPS |= {"slices": slices(False), "slices reversed": slices(True)}
LOOPS |= {f"{n} trips": trips(n) for n in (0, 1, 2, 3, 16, 17)}
LOOPS |= {f"{n} trips reversed": trips(n, True) for n in (0, 1, 4, 5)}
TYPES = ("float32", "float64", "int8", "uint8", "int32", "int64", "uint64", "float16", "bfloat16")


def close(got, want):
    assert weft.tree.structure(got) == weft.tree.structure(want)
    for x, y in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
        assert weft.typeof(x) is weft.typeof(y)
        x, y = np.asarray(x), np.asarray(y)
        if weft.dtypes.issubdtype(x.dtype, np.inexact):
            bound = 20 * float(weft.numpy.finfo(x.dtype).eps)
            x, y = (v.astype(np.float64) for v in (x, y))
            np.testing.assert_allclose(x, y, rtol=bound, atol=bound)
            assert np.array_equal(np.signbit(x), np.signbit(y))
        else:
            assert np.array_equal(x, y)


def check(fun, monkeypatch):
    for way in ways.WAYS:
        with monkeypatch.context() as patch:
            ways.take(way, patch)
            numbers = (0, 1, 2, 3, 6, 7)
            want = [ways.interpreted(fun, n) for n in numbers]
            small = weft.jit(lambda n: fun(n))
            found = [small(n) for n in numbers]
            again = [small(n) for n in numbers]
            patch.setattr(target.Cpu, "loop", lambda *_: None)
            calling = weft.jit(lambda n: fun(n))
            called = [calling(n) for n in numbers]
            patch.setattr(target.Cpu, "calls", lambda *_: None)
            walked = weft.jit(lambda n: fun(n))
            for n, one, two, three, expected in zip(
                numbers, found, again, called, want, strict=True
            ):
                close(one, expected)
                ways.same(two, one)
                ways.same(three, one)
                ways.same(walked(n), one)


@pytest.mark.parametrize("name", LOOPS)
def test_small_loops_are_walked_loops(name, monkeypatch):
    check(LOOPS[name], monkeypatch)


@pytest.mark.parametrize("dtype", TYPES)
def test_carries_of_every_type(dtype, monkeypatch):
    with weft.enable_x64(True):
        check(types(dtype), monkeypatch)


# --- which loops are small ------------------------------------------------------------------------


def loops(fun, *args):
    """The loops that a program walks; a small one is a function that is called until it is done."""
    found = []

    def visit(nodes):
        for node in nodes:
            if isinstance(node, For) or (isinstance(node, While) and node.body):
                found.append(node)
            for part in node:
                if isinstance(part, tuple) and part and not isinstance(part[0], int):
                    for region in [part] if hasattr(part[0], "_fields") else part:
                        visit(region if isinstance(region, tuple) else ())

    visit(target.Cpu().assemble(weft.make_jaxpr(fun)(*args)).nodes)
    return found


def test_small_loops_are_functions():
    for name in ("switching", "shifting", "17 trips", "swapping", "special"):
        assert loops(LOOPS[name], 3) == [], name


def test_loops_whose_work_is_shared_are_walked():
    step = lambda i, c: jnp.sin(c @ c)
    assert loops(lambda n: lax.fori_loop(0, n, step, jnp.ones((600, 600))), 3)
    assert not loops(lambda n: lax.fori_loop(0, n, step, jnp.ones((60, 60))), 3)
    shape = weft.ShapeDtypeStruct((), np.float32)
    back = lambda i, c: weft.pure_callback(lambda x: x, shape, c)
    assert loops(lambda n: lax.fori_loop(0, n, back, 1.0), 3)


def test_long_small_loops_return_in_between(monkeypatch):
    """A function that does few rounds at a time is called until it is done."""
    from weft.backends.cpu.code import loop_text

    ways.take("native", monkeypatch)
    monkeypatch.setattr(loop_text, "LINES_PER_POLL", 1)  # then 16 rounds at a time
    for count in (15, 16, 17, 31, 32, 33, 1000, 1001):
        for reverse in (False, True):
            numbers = np.arange(count, dtype=np.int32)

            def fun(c, xs, reverse=reverse):
                return lax.scan(lambda c, k: (c * 3 + k, c), c, xs, reverse=reverse)

            ways.same(weft.jit(fun)(1, numbers), ways.interpreted(fun, 1, numbers))

    def until(n):
        return lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[2], c[1] + c[2]), (0, 1, 1)
        )

    function = weft.jit(until)
    for n in (0, 1, 15, 16, 17, 47, 48, 49, 500):
        ways.same(function(n), ways.interpreted(until, n))


@pytest.mark.parametrize("way", ways.WAYS)
@pytest.mark.parametrize("name", LOOPS)
def test_functions_that_call_kernels_return_in_between(name, way, monkeypatch):
    """Pointers are where they were when a loop goes on, whatever else is in memory."""
    from weft.backends.cpu.code import loop_text

    ways.take(way, monkeypatch)
    monkeypatch.setattr(target.Cpu, "loop", lambda *_: None)
    clock = loop_text.counter()[:3]
    monkeypatch.setattr(loop_text, "counter", lambda: (*clock, 0))  # after every round
    fun = LOOPS[name]
    function = weft.jit(lambda n: fun(n))
    for n in (0, 1, 2, 7):
        close(function(n), ways.interpreted(fun, n))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8"])
def test_single_narrow_elements_leave_their_neighbours_alone(dtype):
    def squares(x, places):
        def step(x, i):
            old = lax.dynamic_slice(x, (i,), (1,))
            return lax.dynamic_update_slice(x, old * old, (i,)), None

        return lax.scan(step, x, places)[0]

    x, places = jnp.arange(1, 9).astype(dtype), np.array([0, 1, 2, 1, 5], np.int32)
    got = np.asarray(weft.jit(squares)(x, places)).astype(np.float32)
    np.testing.assert_array_equal(got, [1, 16, 9, 4, 5, 36, 7, 8])


# --- loops of unknown length inside of others -----------------------------------------------------


def roots(n):
    def step(total, a):
        def far(s):
            return (s[1] < 40) & (jnp.abs(s[0] * s[0] - a) > 1e-6 * a)

        root, count = lax.while_loop(far, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1), (a, 0))
        return total + root, (root, count)

    return lax.scan(step, 0.0, jnp.arange(1.0, 9.0) * 1000 + n, reverse=True)


def collatz(n):
    def step(most, k):
        def turn(s):
            return jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1

        count = lax.while_loop(lambda s: s[0] > 1, turn, (k + n, 0))[1]
        return jnp.maximum(most, count), count

    return lax.scan(step, 0, jnp.arange(1, 30))


def three_deep(n):
    """Loops of unknown length around a loop over slices around one of unknown length."""
    rows = jnp.arange(6.0).reshape(3, 2)

    def outer(c):
        i, v = c

        def row(w, r):
            w = lax.while_loop(lambda z: jnp.sum(z) < 40 + r[1], lambda z: z * 1.25 + r[::-1], w)
            return w * 0.125 + r, w[0]

        w, firsts = lax.scan(row, v, rows)
        return i + 1, w + jnp.sum(firsts) * 0.01

    return lax.while_loop(lambda c: c[0] < n, outer, (0, jnp.ones(2)))


def in_branches(n):
    def body(i, c):
        def halved(v):
            return lax.while_loop(lambda w: w[0] > 1, lambda w: w * 0.75, v)

        return lax.cond(i % 2 == 0, halved, lambda v: v * 50 + X, c)

    return lax.fori_loop(0, n + 3, body, X + 9)


def swapped(n):
    """What goes round changes places, an odd or even number of times."""

    def outer(c, k):
        a, b = lax.fori_loop(0, k % 5 + n, lambda j, d: (d[1] + 1, d[0]), c)
        return (b, a), a - b

    return lax.scan(outer, (1, 100), jnp.arange(17))


def empty(n):
    """Values without elements beside others: there is nothing of them to keep."""

    def outer(c, k):
        def turn(s):
            i, e, f = s
            return i + 1, jnp.sin(e) + f[:, 0], jnp.concatenate([f, f])[: f.shape[0]] * 2

        i, e, f = lax.while_loop(lambda s: s[0] < k + n, turn, (0, c[1], c[2]))
        return (c[0] + i, jnp.cos(e), f + 1), e

    begin = (0, jnp.zeros(0), jnp.zeros((0, 2)))
    return lax.scan(outer, begin, jnp.arange(5))


WAITING = {f.__name__: f for f in (roots, collatz, three_deep, in_branches, swapped, empty)}


@pytest.mark.parametrize("patience", [1, 1 << 26])
@pytest.mark.parametrize("way", ways.WAYS)
@pytest.mark.parametrize("name", WAITING)
def test_loops_of_unknown_length_inside(name, way, patience, monkeypatch):
    """They are part of the function, which goes on in them where it has returned."""
    from weft.backends.cpu.code import loop_text

    ways.take(way, monkeypatch)
    monkeypatch.setattr(loop_text, "LINES_PER_POLL", patience)
    fun = WAITING[name]
    assert loops(fun, 3) == []
    function = weft.jit(lambda n: fun(n))
    for n in (0, 1, 2, 7):
        close(function(n), ways.interpreted(fun, n))


def test_loops_without_end_inside_of_others_can_be_interrupted():
    import signal

    def endless(x):
        def step(c, r):
            return lax.while_loop(lambda v: v > -1, lambda v: v * 0.5 + r, c), None

        return lax.scan(step, x, jnp.ones(3))[0]

    def stop(*_):
        raise InterruptedError("enough")

    assert loops(endless, 1.0) == []
    compiled = weft.jit(endless).lower(1.0).compile()
    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(InterruptedError, match="enough"):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            compiled(1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_kernels_of_loops_that_are_not_small_have_loops():
    """Text without loops is for functions that keep values in registers; it takes LLVM long."""

    def fun(x):
        return lax.scan(lambda c, _: (c * 0.5 + x, None), x, length=3)[0]

    x = jnp.ones((64, 64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.compiler.plan.interchange", lambda *_: None)
        program = target.Cpu().assemble(weft.make_jaxpr(fun)(x))
    used = launched(program.nodes) | called(program.slots)
    assert len(used) == 2 and all(program.codes[i][0].line_count < 120 for i in used)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_kernels_of_loops_are_not_long(axis):
    def fun(x):
        return lax.scan(lambda c, _: (c * 0.5, jnp.sum(c * x, axis)), x, length=3)[1]

    for shape in ((128, 512), (128, 10), (3, 300), (300, 3)):
        program = target.Cpu().assemble(weft.make_jaxpr(fun)(jnp.ones(shape)))
        assert max(made.line_count for made, _ in program.codes) < 900, shape


@pytest.mark.parametrize("extreme", [lax.max, lax.min])
def test_gradients_of_pools_in_loops(extreme):
    """LLVM once ended the process over the loops inside of these."""
    start = np.float32(-np.inf if extreme is lax.max else np.inf)

    def pool(x):
        return lax.reduce_window(x, start, extreme, (1, 3), (1, 1), "SAME")

    def fun(x):
        return jnp.sum(lax.scan(lambda c, y: (jnp.tanh(c + pool(y)), c), x[0], x)[0])

    x = np.random.default_rng(0).standard_normal((3, 2, 5)).astype(np.float32)
    with weft.base.knobs.scope(backend="reference"):
        want = weft.grad(fun)(x)
    with weft.base.knobs.scope(backend="native"):
        np.testing.assert_allclose(weft.jit(weft.grad(fun))(x), want, rtol=1e-5, atol=1e-6)
