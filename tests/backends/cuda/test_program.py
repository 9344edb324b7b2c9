"""Programs for GPUs, run with a driver that is the host: commands, memory plans and results."""

from itertools import pairwise

import numpy as np
import pytest

import weft
from tests.backends.cuda.host_device import Kernel, install
from tests.backends.test_reference import PROGRAMS
from weft import numpy as jnp
from weft.backends.cuda import commands, memory, program
from weft.backends.cuda.calls import fast, stubs


class Target(program.Cuda):
    """All operations stay, and the host computes them."""

    def keeps(self, eqn):
        return True


def compiled(fun, *args):
    made = Target().compile(weft.make_jaxpr(fun)(*args))
    made.capturable = False
    return made


@pytest.fixture
def blocks(monkeypatch):
    found = install(monkeypatch)
    yield found


def draws(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, blocks):
    args = [draws(4, 4), draws(6, 4)]
    run = compiled(PROGRAMS[name], *args)
    want = weft.tree.leaves(weft.jit(PROGRAMS[name])(*args))
    for _ in range(2):
        for a, b in zip(run(args), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def test_device_memory_in_and_out(blocks):
    x = draws(100)
    run = compiled(lambda x, y: (x + y, y, jnp.sin(x)), x, x)
    given = [program.put(x), program.put(2 * x)]
    one, same, other = run.run_on_device(given)
    assert same is given[1]
    avals = run.out_avals
    np.testing.assert_allclose(program.get(one, avals[0]), 3 * x, rtol=1e-6)
    np.testing.assert_allclose(program.get(other, avals[2]), np.sin(x), rtol=1e-5)


def test_temporaries_share_memory(blocks):
    def fun(x):
        for _ in range(6):
            x = jnp.sort(x + 1)
        return x

    run = compiled(fun, draws(1000))
    temporaries = [run.sizes[n] for n, role in enumerate(run.roles) if role == "temp"]
    assert len(temporaries) > 4 and run.arena < sum(temporaries) / 2


def test_memory_is_given_back(blocks):
    x = draws(1000)
    run = compiled(lambda x: jnp.sort(x + 1) * 2, x)
    run([x])
    before = memory.pool.stats()
    run([x])
    after = memory.pool.stats()
    assert after["bytes_in_use"] == before["bytes_in_use"]
    assert after["bytes_reserved"] == before["bytes_reserved"]
    assert after["num_allocs"] > before["num_allocs"]


def test_exhausted_memory_names_the_largest_values(monkeypatch):
    install(monkeypatch, most=1 << 20)
    x = draws(100)
    run = compiled(lambda x: jnp.sort(jnp.outer(jnp.sort(jnp.tile(x, 10)), x), 0)[0], x)
    with pytest.raises(weft.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED") as error:
        run([x] * 1)
        compiled(lambda x: jnp.sort(jnp.outer(jnp.tile(x, 100), x), 0)[0], x)([x])
    assert "float32[" in str(error.value) and "MiB" in str(error.value)
    (got,) = compiled(jnp.sort, x)([x])
    np.testing.assert_array_equal(got, np.sort(x))


def test_explain_tells_of_commands(blocks):
    def fun(x):
        return weft.lax.fori_loop(0, 3, lambda i, c: jnp.sort(c) + i, jnp.sin(x))

    told = compiled(fun, draws(100)).explain()
    assert "blocks of" in told and "registers" in told and "sort on the host" in told
    assert "3 iterations, several kernels per iteration (sort in it):" in told


def test_loops_are_counted(blocks):
    def fun(x):
        return weft.lax.scan(lambda c, y: (jnp.sort(c + y), c.sum()), x, jnp.ones((7, 4)))

    run = compiled(fun, draws(4))
    (loop,) = [c for c in run.commands if isinstance(c, commands.LoopedFor)]
    assert commands.length([loop]) == 7 * commands.length(loop.body) > 7


def test_what_only_moves_views_is_no_work_of_a_gpu():
    small = commands.Launched(None, 4, 32, ())
    large = commands.Launched(None, 1 << 20, 32, ())
    views = [commands.Pointed(0, 1)] * 9
    once = [commands.Filled(commands.Spot(0), 0, 4)] * 5
    for body, early in (((*views, small), True), ((*views, small, large), False)):
        loop = commands.LoopedFor(32, False, (), body)
        assert commands.mostly_small([*once, loop]) == early


@pytest.mark.parametrize("matrices", [0, 2])
def test_small_kernels_of_graphs_begin_early(blocks, monkeypatch, matrices):
    early = []
    launch = lambda self, *given: early.append(self.launch(*given))
    monkeypatch.setattr(Kernel, "launch_early", launch)
    x = np.ones((8, 8), np.float32)

    def fun(x):
        y = jnp.sin(x.sum(0)).sum() + jnp.cos((x * 2).sum(1)).max()
        for _ in range(matrices):
            x = x @ x
        return y, x

    run = compiled(fun, x)
    small = [commands.is_small(command) for command in run.commands]
    assert sum(small) > 1 and run.early == (matrices == 0)
    results = [program.Buffer(size) for _, size in run.outs]
    places = [program.put(x), *results, program.Buffer(max(run.arena, 1))]
    addresses = run._addresses([place.address for place in places])
    for told in (True, False):
        commands.State(list(addresses), None, True, told).run(run.commands)
        assert len(early) == sum(a and b for a, b in pairwise(small))


def test_native_lists_give_the_lowest_addresses_first():
    """A training step once had results at other addresses at each call, as 12 orders followed each
    other, and no graph of it was launched a second time."""
    pieces, rng = fast._pieces(), np.random.default_rng(0)
    table = np.zeros(stubs.LIST_WORDS, np.int64)
    where, held = table.ctypes.data, []
    for count in (1, 40, 1000):
        for address in (512 * rng.permutation(np.arange(1, count + 1))).tolist():
            pieces.put(where, address)
        assert [pieces.take(where) for _ in range(count)] == [512 * n for n in range(1, count + 1)]
        assert pieces.take(where) is None
    for address in (512 * rng.permutation(np.arange(1, 2001))).tolist():
        pieces.put(where, address)
        held.append(address)
        if rng.random() < 0.4:
            held.remove(min(held))
            pieces.put(where, pieces.take(where))  # the same is lowest again
            pieces.take(where)
    assert [pieces.take(where) for _ in held] == sorted(held)
