"""Memory of programs: values that are alive together never meet, in loops and branches too."""

import random

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.assembly import Python, Run
from weft.backends.cpu.target import Cpu
from weft.backends.llvm.calls.dispatch import supported
from weft.compiler.arena import ALIGNMENT, Life, arrange
from weft.compiler.slots import IMPOSSIBLE_BYTES
from weft.kernel.program import Branch, Copy, For, Point, Swap, While

# --- the arena ------------------------------------------------------------------------------------


def random_lives(seed):
    rng = random.Random(seed)
    count = rng.randint(1, 60)
    lives = {}
    for i in range(count):
        if rng.random() < 0.1:
            continue
        first = rng.randint(0, 40)
        last = first + rng.choice([0, 1, 2, 5, 30])
        lives[i] = Life(
            rng.choice([0, 1, 63, 64, 65, 1000, 4096, rng.randint(0, 9999)]), first, last
        )
    return lives, count


@pytest.mark.parametrize("seed", range(200))
def test_values_alive_together_do_not_meet(seed):
    lives, count = random_lives(seed)
    offsets, total = arrange(lives, count)
    assert len(offsets) == count
    most = 0
    for i, one in lives.items():
        assert offsets[i] % ALIGNMENT == 0 and offsets[i] + one.size <= total
        for j, other in lives.items():
            meet = one.first <= other.last and other.first <= one.last
            apart = offsets[i] + one.size <= offsets[j] or offsets[j] + other.size <= offsets[i]
            assert i == j or not meet or apart or not one.size or not other.size
        alive = [x.size for x in lives.values() if x.first <= one.first <= x.last]
        most = max(most, sum(alive))
    rounded = sum(-(-x.size // ALIGNMENT) * ALIGNMENT + ALIGNMENT for x in lives.values())
    assert most <= total <= rounded


def test_memory_is_used_again():
    chain = {i: Life(1000, i, i + 1) for i in range(50)}
    assert arrange(chain, 50)[1] <= 2 * 1024
    nested = {i: Life(1000, i, 100 - i) for i in range(20)}
    assert arrange(nested, 20)[1] == 20 * 1024


def test_nothing_to_arrange():
    assert arrange({}, 3) == ([0, 0, 0], 0)


# --- programs -------------------------------------------------------------------------------------


class Walked(Cpu):
    """Loops that are not small as nodes."""

    def calls(self, node, slots, codes):
        return None


class Plain(Walked):
    """Loops as nodes, however small."""

    def loop(self, node, slots, codes, inside):
        return None


class Memory:
    """The arena while a program is walked: which slot has last taken each line of it."""

    def __init__(self, program, choice):
        self.program = program
        self.choice = choice
        self.lines = {}
        self.born = set()
        self.views = {}
        self.checked = 0

    def base(self, slot):
        while slot in self.views:
            slot = self.views[slot]
        return slot

    def use(self, slot):
        """A slot that has a value must still have it; one that has none takes its memory."""
        slot = self.base(slot)
        entry = self.program.slots[slot]
        if entry.role != "temp":
            assert entry.role != "view", "a view that points nowhere"
            return
        begin = self.program.offsets[slot]
        lines = range(begin, begin + max(entry.size, 1), ALIGNMENT)
        if slot in self.born:
            for line in lines:
                assert self.lines[line] == slot, f"slot {slot} was overwritten"
            self.checked += 1
        else:
            self.born.add(slot)
            self.lines.update(dict.fromkeys(lines, slot))

    def repeat(self, times, run):
        before = set(self.born)
        for _ in range(times):
            self.born &= before | {self.base(v) for v in self.views}
            run()

    def walk(self, nodes):
        for node in nodes:
            self.step(node)

    def step(self, node):
        if isinstance(node, Run):
            for slot in node.slots:
                self.use(slot)
        elif isinstance(node, Copy):
            self.use(node.source)
            self.use(node.target)
        elif isinstance(node, Point):
            self.views[node.view] = self.base(node.base)
        elif isinstance(node, Swap):
            first, second = self.base(node.first), self.base(node.second)
            self.views[node.first], self.views[node.second] = second, first
        elif isinstance(node, Branch):
            self.use(node.choice)
            self.walk(node.regions[min(self.choice, len(node.regions) - 1)])
        elif isinstance(node, While):

            def turn():
                self.walk(node.condition)
                self.use(node.flag)
                self.walk(node.body)

            self.repeat(3, turn)
            self.walk(node.condition)
        elif isinstance(node, For):
            for view, base, _ in node.slices:
                self.views[view] = self.base(base)
            self.repeat(min(node.trips, 4 - node.trips % 2), lambda: self.walk(node.body))
        else:
            assert isinstance(node, Python)
            _, ins, outs = self.program.hosts[node.number]
            for slot in (*ins, *outs):
                self.use(slot)


def layers(x, n=6):
    for i in range(n):
        x = jnp.sort(jnp.sin(x @ x) + i, axis=0)
    return x


def closing_loop(x):
    kept, other = jnp.sort(x), x @ x
    y = lax.fori_loop(0, 5, lambda i, c: jnp.sort(c @ kept) + other, x)
    return y + kept


def loop_over_early_values(x):
    kept, limit = jnp.sort(x), jnp.sum(jnp.sort(x @ x))

    def body(c):
        c = jnp.sort(c @ kept)
        return layers(c * 0.5, 2)

    return lax.while_loop(lambda c: jnp.sum(c) < limit, body, x)


def nested_loops(x):
    kept = jnp.sort(x)

    def outer(c, row):
        inner = lax.fori_loop(0, 3, lambda i, d: jnp.sort(d @ kept) + c, x)
        return c + inner, (inner[0], row * 2)

    return lax.scan(outer, x, x)


def branches(x):
    kept = jnp.sort(x)
    y = lax.switch(
        x[0, 0].astype(int),
        [lambda v: layers(v, 2) + kept, lambda v: v, lambda v: jnp.sort(v @ kept)],
        x,
    )
    return y, kept


def branch_in_loop(x):
    kept = x @ x

    def body(c):
        n, v = c
        v = lax.cond(n > 2, lambda v: jnp.sort(v) @ kept, lambda v: layers(v, 2), v)
        return n + 1, v

    return lax.while_loop(lambda c: (c[0] < 5) & (jnp.sum(c[1]) < 1e9), body, (0, x))[1] + kept


def shifting(x):
    def step(c, row):
        a, b, s = c
        return (b, jnp.sort(a) @ b, s), (a[0] + row, s)

    return lax.scan(step, (x, x + 1, x * 2), x, reverse=True)


def hosted(x):
    kept = jnp.sort(x)
    shape = weft.ShapeDtypeStruct(x.shape, x.dtype)
    y = weft.pure_callback(lambda v: np.asarray(v), shape, kept @ x)
    return jnp.sort(y) + kept


def gradient(x):
    return weft.grad(lambda v: jnp.sum(nested_loops(v)[0]))(x)


PROGRAMS = [layers, closing_loop, loop_over_early_values, nested_loops, branches]
PROGRAMS += [branch_in_loop, shifting, hosted, gradient]


@pytest.mark.skipif(not supported(), reason="no native programs here")
@pytest.mark.parametrize("target", [Walked, Plain])
@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda f: f.__name__)
def test_values_last_until_they_are_read(fun, target):
    closed = weft.make_jaxpr(fun)(jnp.ones((30, 30)))
    for choice in (0, 1, 2):
        program = target().assemble(closed)
        memory = Memory(program, choice)
        memory.walk(program.nodes)
        assert memory.checked > 0 or program.arena == 0
        for slot in range(len(program.slots)):
            if program.slots[slot].role == "temp":
                assert program.offsets[slot] + program.slots[slot].size <= program.arena


def test_a_chain_needs_the_memory_of_two():
    n = 200
    closed = weft.make_jaxpr(lambda x: layers(x, 20))(jnp.ones((n, n)))
    program = Cpu().assemble(closed)
    assert program.arena <= 8 * n * n * 4


def test_more_memory_than_there_can_be():
    closed = weft.make_jaxpr(lambda x: jnp.broadcast_to(x, (IMPOSSIBLE_BYTES,)))(1.0)
    with pytest.raises(MemoryError, match="bytes"):
        Cpu().assemble(closed)


# --- values written over where they lie -----------------------------------------------------------


def several(x):
    y = jnp.sort(x, axis=0)
    return y.at[0].set(1), y.at[1].set(2), y.at[1, 2].add(3), y


def chains(x):
    y = jnp.sort(x, axis=0)
    z = y.at[0].set(1)
    w = z.at[1].set(z[0] * 2)
    return w.at[2].set(y[0]) + w


def read_after(x):
    y = jnp.sort(x, axis=0)
    z = lax.dynamic_update_slice(y, y[1:3] * 2, (0, 0))
    return z + y, z


def in_loops(x):
    kept = jnp.sort(x, axis=0)

    def body(i, c):
        changed = kept.at[i].set(c[i] + 1)
        c = c.at[i + 1].set(changed[i] * 2)
        return c + changed * 0.5

    return lax.fori_loop(0, 3, body, jnp.sort(x * 2, axis=0)), kept


def old_and_new(x):
    def body(c, i):
        new = c.at[i].set(c[i + 1] + 1)
        return new, (c[i], new[i], jnp.sum(c - new))

    return lax.scan(body, jnp.sort(x, axis=0), jnp.arange(4))


def carries_that_swap(x):
    def body(c, i):
        a, b = c
        return (b.at[i].set(a[0]), a.at[0].set(i)), a[1] + b[1]

    return lax.scan(body, (x, x * 2), jnp.arange(5))


def in_branches(x):
    y = jnp.sort(x, axis=0)

    def body(i, c):
        return lax.cond(i % 2 == 0, lambda v: v.at[0].set(y[1]), lambda v: y.at[1].set(v[0]), c)

    return lax.fori_loop(0, 5, body, y), y


def in_nested_loops(x):
    y = jnp.sort(x, axis=0)

    def outer(i, c):
        return lax.fori_loop(0, 3, lambda j, d: d.at[i, j].set(y[j, i] + d[0, 0]), y) + c

    return lax.fori_loop(0, 3, outer, y)


def while_with_kept(x):
    y = jnp.sort(x, axis=0)

    def body(c):
        i, v = c
        return i + 1, v.at[i].set(y[i]) + y.at[0].set(0.0)

    return lax.while_loop(lambda c: c[0] < 4, body, (0, y))


def of_other_shapes(x):
    y, z = x.reshape(-1), x.reshape(1, *x.shape)
    changed = y.at[jnp.arange(3)].set(1), lax.dynamic_update_slice(y, y[1:3] * 2, (0,))
    return changed, jnp.sort(y), y.at[2].add(y[1]), jnp.sort(z, axis=1), x.reshape(-1, 1), z


def of_other_shapes_in_loops(x):
    kept = x.reshape(-1)

    def body(c, i):
        flat = c.reshape(-1)
        new = flat.at[i].set(jnp.sort(kept)[i] + 1)
        same = lax.cond(i > 1, lambda v: v, lambda v: jnp.sort(v) + kept, new).reshape(x.shape)
        return same.at[0].set(flat[1]), (jnp.sort(flat), kept.at[i].set(0.0))

    return lax.scan(body, x, jnp.arange(3)), lax.fori_loop(0, 2, lambda i, c: jnp.sort(c), kept)


UPDATES = [several, chains, read_after, in_loops, old_and_new, carries_that_swap, in_branches]
UPDATES += [in_nested_loops, while_with_kept, of_other_shapes, of_other_shapes_in_loops]


@pytest.mark.skipif(not supported(), reason="no native programs here")
@pytest.mark.parametrize("size", [6, 90])
@pytest.mark.parametrize("fun", UPDATES, ids=lambda f: f.__name__)
def test_values_are_written_over_only_when_nothing_needs_them(fun, size):
    x = jnp.cos(jnp.arange(float(size * size))).reshape(size, size)
    before = np.array(x)
    want = ways.interpreted(fun, x)
    function = weft.jit(lambda v: fun(v))
    donating = weft.jit(lambda v: fun(v), donate_argnums=0)
    for _ in range(3):
        for got in (function(x), function(before), donating(jnp.array(before))):
            assert weft.tree.structure(got) == weft.tree.structure(want)
            for one, two in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)
        assert np.array_equal(x, before)


def test_an_array_reshaped_in_its_own_memory_is_not_copied():
    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    compiled = weft.jit(lambda x: jnp.repeat(x, 2, axis=0)).lower(x).compile()
    assert compiled.as_text().count("kernel k") == 1
    np.testing.assert_array_equal(compiled(x), np.repeat(x, 2, 0))


def test_an_argument_of_another_shape_is_not_copied():
    x = np.arange(12.0, dtype=np.float32)[::-1].reshape(4, 3).copy()
    compiled = weft.jit(lambda x: jnp.sort(x.reshape(-1))).lower(x).compile()
    assert "kernel k" not in compiled.as_text()
    np.testing.assert_array_equal(compiled(x), np.arange(12.0))
    at = np.array([3, 1, 3], np.int32)
    u = np.array([1, 2, 4], np.float32)
    summed = weft.jit(lambda u, at: weft.ops.segment_sum(u, at, 5)).lower(u, at).compile()
    assert summed.as_text().count("kernel k") == 1  # the zeros to begin with
    np.testing.assert_array_equal(summed(u, at), [0, 2, 0, 5, 0])


def test_no_rounds_of_a_loop_that_branches_on_what_it_is_given():
    """The choice is one number of its type, though there are none of them."""

    def last(x, choices):
        step = lambda c, i: (lax.switch(i, [jnp.sin, jnp.cos], c), None)
        return lax.scan(step, x, choices)[0]

    assert float(weft.jit(last)(2.0, np.zeros(0, np.int32))) == 2.0
    assert float(weft.jit(last)(0.0, np.ones(2, np.int32))) == float(jnp.cos(1.0))
