"""Batched loops as one kernel: elements run to their own ends, with the bits they have alone."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda.passes.target import GpuTarget
from weft.base import knobs
from weft.compiler import own_loops
from weft.compiler.passes.inline import inline
from weft.compiler.plan import Planner
from weft.kernel import nodes
from weft.kernel.kernel import Serial, statements
from weft.kernel.nodes import BF16
from weft.kernel.program import Copy, Launch, inner_regions
from weft.kernel.run import run_kernel

SIZES = (1, 7, 1000)


def until(step):
    """A loop of as many rounds as its first operand says."""
    return lambda n, *args: lax.while_loop(
        lambda s: s[0] > 0, lambda s: (s[0] - 1, *step(*s[1:])), (n, *args)
    )[1:]


def lengths(size, kind="skewed", seed=0):
    """Rounds of each element; some have none."""
    if kind == "equal":
        return np.full(size, 6, np.int32)
    if kind == "none":
        return np.zeros(size, np.int32)
    found = np.random.default_rng(seed).geometric(0.2, size) - 1
    found[size // 3] = 25
    return np.minimum(found, 25).astype(np.int32)


def floats(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# --- programs run by NumPy ------------------------------------------------------------------------


def planned(fun, *args):
    return Planner(GpuTarget()).program(weft.make_jaxpr(fun)(*args))


def launches(program):
    """The loops among the kernels of a program; nothing in it waits for anything in Python."""
    assert not any(region for node in program.nodes for region in inner_regions(node))
    kernels = [node.kernel for node in program.nodes if isinstance(node, Launch)]
    return [k for k in kernels if any(isinstance(s, Serial) for s in k.body)]


def words(x):
    """An array, or the words of keys."""
    is_key = weft.dtypes.issubdtype(getattr(x, "dtype", None), weft.dtypes.prng_key)
    return np.ascontiguousarray(weft.random.key_data(x) if is_key else x)


def run(program, *args):
    """Results of a program of kernels, by their reference."""
    given = [words(x).reshape(-1).view(np.uint8) for x in weft.tree.leaves(args)]
    memory = {}
    for i, slot in enumerate(program.slots):
        if slot.role == "arg":
            memory[i] = given[slot.what].copy()
        elif slot.role == "const":
            memory[i] = words(program.constants[slot.what]).reshape(-1).view(np.uint8)
        else:
            memory[i] = np.full(slot.size, 0xAB, np.uint8)
    for node in program.nodes:
        if isinstance(node, Copy):
            memory[node.target][:] = memory[node.source]
            continue
        outside = [b for b in node.kernel.buffers if b.role != "row"]
        pairs = zip(node.slots, outside, strict=True)
        run_kernel(node.kernel, [memory[s].view(b.dtype) for s, b in pairs])
    return [memory[r.number] if r.kind == "slot" else given[r.number] for r in program.results]


def check(fun, *args, tolerance=2e-5, alone=(0, -1)):
    """A batched loop is one kernel; its elements are what they are one by one, and some of them
    have the same bits alone."""
    mapped = weft.vmap(fun)
    program = planned(mapped, *args)
    assert len(launches(program)) == 1
    got = run(program, *args)
    with knobs.scope(backend="native"):
        want = weft.tree.leaves(weft.jit(lambda *a: lax.map(lambda one: fun(*one), a))(*args))
    size = len(weft.tree.leaves(args)[0])
    for a, b in zip(got, map(words, want), strict=True):
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        a = a.view(b.dtype).reshape(b.shape).astype(wide)
        np.testing.assert_allclose(a, b.astype(wide), rtol=tolerance, atol=tolerance)
    for i in alone:
        i %= size
        single = [x[i : i + 1] for x in args]
        for a, b in zip(got, run(planned(mapped, *single), *single), strict=True):
            assert a.reshape(size, -1)[i].tobytes() == b.tobytes()
    return program


# --- what people write ----------------------------------------------------------------------------

TABLE = jnp.asarray(floats(100, seed=5))
ROWS = jnp.asarray(floats(50, 3, seed=6))


def newton(n, a):
    return until(lambda x: (0.5 * (x + abs(a) / x),))(n, abs(a) + 0.1)[0]


def collatz(n):
    step = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
    return lax.while_loop(lambda s: s[0] > 1, step, (n + 1, 0))[1]


def spiral(n, x):
    c = x * (0.5 + 0.25j)
    step = lambda s: (s[0] * s[0] + c, s[1] + 1)
    return lax.while_loop(lambda s: (abs(s[0]) < 2.0) & (s[1] < n), step, (c * 0, 0))


def bisection(n, c):
    def step(s):
        low, high = s
        middle = (low + high) / 2
        above = middle * middle * middle > c
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    return lax.while_loop(lambda s: s[1] - s[0] > 1e-3, step, (c * 0 - 3.0, 1.0 * n))


def bounds(n, x):
    return lax.fori_loop(n // 2, n, lambda i, v: jnp.sin(v) * 0.5 + i, x)


def nested(n, x):
    inner = lambda k, x: lax.fori_loop(0, k, lambda i, v: v * 0.9 + 0.1, x)
    return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, inner(*s)), (n, x))


def counted(n, x):
    return until(lambda x: (lax.fori_loop(0, 10, lambda i, v: v * 0.9 + 0.1 * i, x),))(n, x)


def branching(n, x):
    def step(x, k):
        long = lambda x: lax.fori_loop(0, k, lambda i, v: v * 0.5 + 1, x)
        return lax.cond(k % 2 == 0, jnp.sin, long, x), k - 1

    return until(step)(n, x, n)


def switching(n, x):
    cases = [lambda x: x + 1, lambda x: x * 0.5, lambda x: -x]
    return until(lambda x, k: (lax.switch(k % 5 - 1, cases, x), k + 1))(n, x, n)


def endless(n, x):
    """A branch whose loop would not end for those that don't take it."""
    search = lambda x: lax.while_loop(lambda v: v > 0, lambda v: v - 1, x)
    never = lambda x: lax.while_loop(lambda v: v != -1.0, lambda v: v, x)
    return until(lambda x: (lax.cond(x > -9.5, search, never, x),))(n, x)


def walk(n, x):
    def step(x, key):
        key, own = weft.random.split(key)
        return x + weft.random.normal(own), key

    return until(step)(n, x, weft.random.key(n))[0]


def reading(n, x):
    return until(lambda i, s: ((i * 7 + 3) % 100, s * 0.5 + TABLE[i]))(n, n, x)


def reading_rows(n, x):
    return until(lambda i, s: ((i * 7 + 3) % 50, s * 0.5 + ROWS[i]))(n, n, jnp.full(3, x))


def reading_its_own(n, x, rows):
    """A table of each element, which goes round as it is."""
    step = lambda s: (s[0] - 1, s[1] * 0.5 + s[2][s[0] % 40], s[2])
    return lax.while_loop(lambda s: s[0] > 0, step, (n, x, rows))


def vectors(n, x):
    return until(lambda x: (jnp.tanh(x) * 0.9 + 0.1 / (1 + jnp.sum(x**2)),))(n, x)


def matrices(n, a):
    goes = lambda s: (s[1] > 0) & (jnp.sum(s[0] ** 2) > 1e-12)
    return lax.while_loop(goes, lambda s: (jnp.tanh(a @ s[0]) * 0.9 + 0.1 * a, s[1] - 1), (a, n))[0]


def runge_kutta(n, y):
    turn = np.array([[0, 1], [-1, 0]], np.float32)

    def step(y):
        a = turn @ y
        b = turn @ (y + 0.05 * a)
        return (y + 0.05 * (a + b),)

    return until(step)(n, y)


def attractor(n, y):
    slope = lambda y: jnp.array([y[1] - y[0], y[0] * (2 - y[2]) - y[1], y[0] * y[1] - y[2]])
    return until(lambda y: (y + 0.01 * slope(y),))(n, y)


def updating(n, x):
    return until(lambda x, k: (x.at[k % 4].set(x[(k + 1) % 4] + 1).at[0].add(0.5), k + 1))(n, x, n)


def boxes(n, x):
    step = lambda x, k: (lax.dynamic_update_slice(x, x[1:] * 0.5, (k % 3,)), k + 1)
    return until(step)(n, x, n)


def moving(n, x):
    return until(lambda x: (jnp.roll(x, 1) * 0.5 + jnp.pad(x[1:], (0, 1)) * 0.25,))(n, x)


def sorting(n, x):
    return until(lambda x, k: (jnp.sort(x) * 0.5 + x[::-1], k + jnp.argmax(x)))(n, x, n)


def long_sums(n, x):
    return until(lambda x: (x * 0.5 + jnp.sum(TABLE * x) * 0.01 + jnp.max(TABLE - x),))(n, x)


def folding(n, x):
    total = lambda x: lax.scan(lambda c, t: (c * 0.5 + t, None), 0.0, x, reverse=True)[0]
    return until(lambda x: (total(x) * 0.1 + x * 0.5,))(n, x)


def rows_of_a_scan(n, x):
    return until(lambda x: (lax.scan(lambda c, t: (c * 0.5 + t, c), 0.0, x)[1],))(n, x)


def inner_batch(n, x):
    each = lambda v, m: lax.fori_loop(0, m, lambda i, v: v * 0.5 + 1, v)
    return until(lambda x: (weft.vmap(each)(x, jnp.arange(4)),))(n, x)


def logic(n, x):
    return until(lambda x, b: (jnp.where(b, x * 0.5, x - 1), ~b))(n, x, n > 3)


def halves(n, x):
    return until(lambda x: (jnp.sin(x) * 0.9 + 0.5,))(n, x)


NUMBERS = {
    name: (globals()[name], ())
    for name in "newton bisection bounds nested counted branching switching endless walk reading "
    "reading_rows long_sums logic spiral".split()
}
ARRAYS = {
    "vectors": (5,),
    "matrices": (3, 3),
    "runge_kutta": (2,),
    "attractor": (3,),
    "updating": (4,),
    "boxes": (4,),
    "moving": (5,),
    "sorting": (4,),
    "folding": (8,),
    "rows_of_a_scan": (3,),
    "inner_batch": (4,),
}
CASES = NUMBERS | {name: (globals()[name], shape) for name, shape in ARRAYS.items()}


@pytest.mark.parametrize("name", CASES)
def test_elements_run_to_their_own_end(name):
    fun, shape = CASES[name]
    for size in SIZES[:2] if name == "matrices" else SIZES:
        check(fun, lengths(size), floats(size, *shape))


@pytest.mark.parametrize("kind", ["equal", "none"])
def test_all_end_at_once(kind):
    for fun, shape in (CASES[name] for name in ("newton", "vectors", "nested", "reading")):
        n, x = lengths(33, kind), floats(33, *shape)
        check(fun, n, x)


def test_collatz_counts():
    n = np.arange(300, dtype=np.int32)
    (got,) = run(planned(weft.vmap(collatz), n), n)

    def steps(n):
        return 0 if n <= 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    assert got.view(np.int32).tolist() == [steps(i + 1) for i in n.tolist()]


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.uint8, np.int16])
def test_narrow_numbers(dtype):
    n, x = lengths(50), (floats(50) * 4).astype(dtype)
    fun = (
        halves if np.dtype(dtype).kind in "fV" else lambda n, x: until(lambda x: (x * 3 + 1,))(n, x)
    )
    check(fun, n, x, tolerance=0.02)


def test_wide_numbers():
    with weft.enable_x64(True):
        check(newton, lengths(50), floats(50).astype(np.float64), tolerance=1e-14)
        count = lambda n, x: until(lambda x: (x * 6364136223846793005 + 1,))(n, x)
        check(count, lengths(50), np.arange(50, dtype=np.uint64))


def test_keys_go_round():
    keys = weft.random.split(weft.random.key(3), 40)

    def one(n, key):
        step = lambda x, key: (x + weft.random.uniform(key), weft.random.split(key)[0])
        return until(step)(n, np.float32(0), key)

    check(one, lengths(40), keys)


def test_tables_of_each_element_and_of_all():
    check(reading_its_own, lengths(30), floats(30), floats(30, 40))
    # axes of the batch in other places
    n, a = lengths(30), floats(3, 30)
    mapped = weft.vmap(lambda n, a: until(lambda x: (x * 0.5 + a,))(n, a)[0], (0, 1), 1)
    (got,) = run(planned(mapped, n, a), n, a)
    np.testing.assert_allclose(
        got.view(np.float32).reshape(3, 30), weft.jit(mapped)(n, a), rtol=1e-6
    )


def test_two_axes():
    n = lengths(6 * 5).reshape(6, 5)
    for fun, a in (
        (weft.vmap(weft.vmap(newton, (0, None))), floats(6)),
        (weft.vmap(weft.vmap(newton)), floats(6, 5)),
    ):
        program = planned(fun, n, a)
        assert len(launches(program)) == 1
        (got,) = run(program, n, a)
        want = weft.jit(fun)(n, a)
        np.testing.assert_allclose(got.view(np.float32).reshape(6, 5), want, rtol=1e-6)


# --- rows that a warp shares ----------------------------------------------------------------------


def relaxed(n, x):
    return until(lambda x: (jnp.tanh(x) * 0.9 + 0.1 / (1 + jnp.sum(x**2)),))(n, x)


def softened(n, x):
    return until(lambda x: (weft.nn.softmax(x) * 3 + x * 0.5,))(n, x)


def until_small(n, x):
    goes = lambda s: (s[0] > 0) & (jnp.sqrt(jnp.mean(s[1] ** 2)) > 0.1)
    return lax.while_loop(goes, lambda s: (s[0] - 1, s[1] * 0.7), (n, x))


def conjugate_gradients(n, x):
    """Of a diagonal matrix."""
    diagonal = 1 + x * x

    def step(s):
        k, x, r, p, before = s
        q = diagonal * p
        rate = before / (jnp.dot(p, q) + 1e-9)
        x, r = x + rate * p, r - rate * q
        after = jnp.dot(r, r)
        return k - 1, x, r, r + after / (before + 1e-9) * p, after

    goes = lambda s: (s[0] > 0) & (s[4] > 1e-4)
    return lax.while_loop(goes, step, (n, 0 * x, x, x, jnp.float32(1)))[1]


def extremes(n, x):
    step = lambda x, most, k: (x * 0.9, jnp.maximum(most, x.max() - x.min()), jnp.any(x > 1))
    return until(step)(n, x, jnp.float32(0), n > 0)


def noisy(n, x):
    def step(x, key):
        key, own = weft.random.split(key)
        return x * 0.5 + weft.random.normal(own, x.shape), key

    return until(step)(n, x, weft.random.key(n))[0]


def stacked(n, x):
    """Rows of rows, branches and loops inside."""

    def step(y, k):
        shrink = lambda y: lax.fori_loop(0, k % 3, lambda i, v: v * 0.5 + jnp.sum(v) * 0.01, y)
        return lax.cond(k % 2 == 0, shrink, lambda y: y - y.mean(-1, keepdims=True), y), k + 1

    return until(step)(n, jnp.stack([x, x * 2]), n)[0]


def indexed(n, x):
    weights = lax.broadcasted_iota(jnp.float32, x.shape, 0) / x.shape[0]
    step = lambda x, k: (x.at[k].set(x[2 * k] + x[-1]) * weights, k + 1)
    return until(step)(n, x, n % 5)


SHARED = {
    f.__name__: f
    for f in (
        relaxed,
        softened,
        until_small,
        conjugate_gradients,
        extremes,
        noisy,
        stacked,
        indexed,
    )
}


def neighbours(kernel):
    return kernel.grid_axes[-1] == ("w", 32)


@pytest.mark.parametrize("name", SHARED)
def test_warps_share_rows(name):
    """Threads have places 32 apart; beyond the end of a row they have the last one again."""
    fun = SHARED[name]
    for size, length in ((1, 64), (7, 33), (40, 100), (300, 32)):
        args = lengths(size), floats(size, length)
        program = check(fun, *args, tolerance=2e-4)
        assert neighbours(launches(program)[0])


def test_rows_in_half_precision():
    args = lengths(9), floats(9, 50).astype(BF16)
    program = check(
        lambda n, x: until(lambda x: (x * 0.5 + jnp.mean(x),))(n, x), *args, tolerance=0.05
    )
    assert neighbours(launches(program)[0])


MOVES = {
    "backwards": lambda x: x[::-1] * 0.5 + 1,
    "stencil": lambda x: x + 0.1 * (jnp.roll(x, 1) + jnp.roll(x, -1) - 2 * x),
    "ends": lambda x: jnp.pad(x[1:] - x[:-1], (0, 1)) + x[0] * 0.1,
    "joined": lambda x: jnp.concatenate([x[20:], x[:20]]) * 0.5,
    "gathered": lambda x: x[(jnp.arange(x.size) * 7) % x.size] * 0.9,
    "found": lambda x: x.at[jnp.argmax(x)].add(-1.0),
    "halves": lambda x: jnp.where(x > 0, x[::-1], 0.5 * x).astype(BF16).astype(np.float32),
}


@pytest.mark.parametrize("name", MOVES)
def test_elements_of_a_row_move_between_threads(name):
    move = MOVES[name]
    for size, length in ((7, 33), (20, 64), (2, 300 if name != "gathered" else 90)):
        step = lambda x: (move(x),)
        program = check(until(step), lengths(size), floats(size, length), tolerance=2e-4)
        assert neighbours(launches(program)[0])


def test_products_with_rows():
    """Of a matrix that all elements have, or each its own."""
    table = jnp.asarray(floats(40, 40, seed=9)) * 0.1
    shared = lambda n, x: until(lambda x: (jnp.tanh(table @ x),))(n, x)
    own = lambda n, x, a: until(lambda x: (jnp.tanh(a.T @ x + (a * x).sum(1)) * 0.5,))(n, x)
    for fun, more in ((shared, ()), (own, (floats(7, 40, 40, seed=8) * 0.1,))):
        program = check(fun, lengths(7), floats(7, 40), *more, tolerance=2e-4)
        assert neighbours(launches(program)[0])


def test_neighbours_are_read_from_few_slots():
    """A thread knows in which of another's elements a shifted place is."""
    reads = []
    for length in (64, 512):
        step = lambda x: (MOVES["stencil"](x),)
        args = lengths(7), floats(7, length)
        (kernel,) = launches(planned(weft.vmap(until(step)), *args))
        values = nodes.walk(
            [v for s in statements(kernel.body) for v in getattr(s, "operands", [])]
        )
        reads.append(sum(v.op == "across" for v in values))
    assert reads == [8, 64]


def test_sorted_rows_and_long_products_stay():
    (made,) = loop_of(until(lambda x: (jnp.sort(x) + 1,)), lengths(7), floats(7, 100))
    assert type(made) is str
    table = jnp.ones((100, 100))
    (made,) = loop_of(until(lambda x: (table @ x * 0.01,)), lengths(7), floats(7, 100))
    assert made == "long sums of each thread"
    order = jnp.asarray(np.random.default_rng(0).permutation(512))
    (made,) = loop_of(until(lambda x: (x[order],)), lengths(7), floats(7, 512))
    assert made == "many elements of other threads"


# --- generated bodies -----------------------------------------------------------------------------


def generated(seed):
    """A loop of several numbers whose body is made at random: a program of one element, and how to
    draw its operands."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4))
    unary = [jnp.sin, jnp.tanh, jnp.abs, lambda x: x * 0.5, lambda x: -x, lambda x: x * x * 0.1]
    binary = [jnp.add, jnp.subtract, jnp.maximum, jnp.minimum, lambda x, y: x * y * 0.25]
    plans = []
    for _ in range(count):
        plan = []
        for _ in range(int(rng.integers(1, 6))):
            plan.append((int(rng.integers(0, 5)), *rng.integers(0, 1 << 16, 3).tolist()))
        plans.append(plan)

    def made(kind, x, y, k, a, c):
        if kind == 0:
            return unary[c % len(unary)](x)
        if kind == 1:
            return binary[c % len(binary)](x, y)
        if kind == 2:
            return jnp.where(x > y, x * 0.5, y)
        if kind == 3:
            return lax.fori_loop(0, k % (2 + c % 3), lambda i, v: v * 0.5 + y * 0.1, x)
        table = lambda x, y: x + jnp.minimum(x, TABLE[a % 90])
        return lax.cond(k % 2 == c % 2, table, jnp.minimum, x, y)

    def expression(plan, values, k):
        values = list(values)
        for kind, a, b, c in plan:
            x, y = values[a % len(values)], values[b % len(values)]
            values.append(made(kind, x, y, k, a, c))
        return jnp.clip(values[-1], -4, 4)

    def one(n, *xs):
        def step(s):
            k, *xs = s
            return k - 1, *[expression(plan, xs, k) for plan in plans]

        goes = lambda s: (s[0] > 0) & (jnp.abs(s[1]) < 3.9)
        return lax.while_loop(goes, step, (n, *xs))

    return one, count


@pytest.mark.parametrize("seed", range(60))
def test_generated_bodies(seed):
    fun, count = generated(seed)
    size = SIZES[seed % 3]
    for kind in ("skewed", "equal") if size < 1000 else ("skewed",):
        xs = [floats(size, seed=10 * seed + i) for i in range(count)]
        # a comparison of rounded numbers may go either way in the last bit
        check(fun, lengths(size, kind, seed), *xs, tolerance=2e-4)


def generated_rows(seed):
    """The same for two rows and a number, whose places and sums meet."""
    rng = np.random.default_rng(seed)
    plan = [rng.integers(0, 1 << 16, 4).tolist() for _ in range(int(rng.integers(2, 6)))]
    rows = [
        lambda x, y, s: jnp.sin(x) * 0.5 + y * 0.25,
        lambda x, y, s: x * 0.5 + jnp.mean(y),
        lambda x, y, s: jnp.where(x > y, x[::-1] * 0.5, y),
        lambda x, y, s: jnp.roll(x, 3) * 0.5 - s * 0.1,
        lambda x, y, s: x - jnp.max(y) * 0.1,
        lambda x, y, s: jnp.minimum(x, y).at[2].set(s * 0.5),
        lambda x, y, s: lax.cond(s > 0, lambda x: x * 0.5, lambda x: x - x[5] * 0.1, x),
    ]
    numbers = [
        lambda x, y, s: jnp.sum(x * y) * 0.01,
        lambda x, y, s: jnp.max(x) - jnp.min(y) * 0.5,
        lambda x, y, s: s * 0.5 + x[7],
        lambda x, y, s: jnp.where(jnp.any(x > 1), s * 0.5, x.mean()),
        lambda x, y, s: jnp.sqrt(jnp.mean(y * y)) + lax.fori_loop(0, 3, lambda i, v: v * 0.5, s),
    ]

    def one(n, x, y, s):
        def step(state):
            k, x, y, s = state
            for a, b, c, kind in plan:
                pair = (x, y) if kind % 2 else (y, x)
                x, y = jnp.clip(rows[a % len(rows)](*pair, s), -4, 4), pair[c % 2]
                s = jnp.clip(numbers[b % len(numbers)](x, y, s), -2, 2)
            return k - 1, x, y, s

        goes = lambda state: (state[0] > 0) & (jnp.mean(state[1] ** 2) < 9)
        return lax.while_loop(goes, step, (n, x, y, s))

    return one


@pytest.mark.parametrize("seed", range(24))
def test_generated_rows(seed):
    size, length = [(1, 64), (5, 37), (60, 32), (9, 70)][seed % 4]
    args = lengths(size, seed=seed), *[floats(size, length, seed=seed + i) for i in (1, 2)]
    fun = generated_rows(seed)
    check(fun, *args, floats(size), tolerance=5e-4)


# --- what stays as it is --------------------------------------------------------------------------


def loop_of(fun, *args):
    closed = inline(weft.make_jaxpr(weft.vmap(fun))(*args))
    return [own_loops.own_loop(e) for e in closed.eqns if e.primitive.nodes == "loop"]


def test_large_elements_stay():
    wide = lambda n, x: until(lambda x: (jnp.sin(x),))(n, x)
    (why,) = loop_of(wide, lengths(7), floats(7, 1000))
    assert why == "too many operations"
    many = lambda n, *xs: until(lambda *xs: tuple(x * 0.5 for x in xs))(n, *xs)
    (why,) = loop_of(many, lengths(7), *[floats(7, 1000)] * 2)
    assert why == "65 numbers that go round"


def test_few_elements_of_many_operations_stay():
    """Several threads for each of them take less time."""
    for size, fits in ((8, False), (2000, True)):
        (made,) = loop_of(matrices, lengths(size), floats(size, 6, 6))
        assert (type(made) is own_loops.OwnLoop) == fits and (fits or made == "too many operations")


def test_other_targets_and_the_same_bits_everywhere_stay():
    closed = weft.make_jaxpr(weft.vmap(newton))(lengths(7), floats(7))
    assert any("while" in str(e.primitive) for e in closed.eqns)
    with knobs.scope(reproducible=True):
        assert not any(
            isinstance(own_loops.own_loop(e), own_loops.OwnLoop)
            for e in closed.eqns
            if e.primitive.nodes == "loop"
        )


def test_loops_in_loops_are_kernels_of_rounds():
    """A batched loop in the body of a loop over all stays a kernel there."""

    def fun(n, x):
        return lax.fori_loop(0, 3, lambda i, x: weft.vmap(newton)(n, x)[::-1] + 1, x)

    program = planned(fun, lengths(20), floats(20))
    regions = [region for node in program.nodes for region in inner_regions(node)]
    kernels = [x.kernel.name for region in regions for x in region if isinstance(x, Launch)]
    assert "loop_of_elements" in kernels
