"""Small kernels that are one launch: which are, and what they compute on the host."""

import os
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from tests.backends.cuda.host_device import install
from tests.backends.cuda.test_columns import run_text
from tests.backends.cuda.test_routines import assembler_path
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import assemble, commands, driver, groups, program, ptx
from weft.backends.cuda import schedule as schedules
from weft.backends.cuda.routines import attention
from weft.backends.cuda.text import join
from weft.compiler.plan import Planner
from weft.kernel.nodes import BF16


def draws(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class Target(program.Cuda):
    def keeps(self, eqn):
        return True


def compiled(fun, *args, donated=()):
    made = Target().compile(weft.make_jaxpr(fun)(*args), donated)
    made.capturable = False
    return made


def launches(run):
    return [c for c in commands.leaves(run.commands) if type(c) is commands.Launched]


def normal(x, gain):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * gain


def layer(x, gain, matrix):
    return normal(x, gain) @ matrix


def kept(keys, values, row, at):
    keys = lax.dynamic_update_slice(keys, 2 * row[None], (at, 0))
    return keys, lax.dynamic_update_slice(values, row[None] + 1, (at, 0))


def chain(x, y, at):
    """Two kernels of which the second reads what the first has written, and one of another."""
    one = lax.dynamic_update_slice(x, y[:2] * 3, (at, 0))
    two = lax.dynamic_update_slice(one, one[2:3] * y[:1], (at + 1, 0))
    return two, jnp.cumsum(y, 0)


PROGRAMS = {
    "a row before a product": (layer, [draws(512), draws(512), draws(512, 64)], (), 1),
    "updates": (kept, [draws(9, 64), draws(9, 64), draws(64), np.int32(3)], (1, 1, 0, 0), 1),
    "parts of reductions": (jnp.argmax, [draws(40000)], (), 3),
    "one after the other": (chain, [draws(8, 40), draws(4, 40), np.int32(1)], (1, 0, 0), None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_launches(name, monkeypatch):
    install(monkeypatch)
    fun, args, donated, count = PROGRAMS[name]
    run = compiled(fun, *args, donated=[bool(d) for d in donated])
    want = weft.tree.leaves(weft.jit(fun)(*args))
    for _ in range(2):
        for a, b in zip(run([x.copy() for x in args]), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert count is None or len(launches(run)) == count


def test_rows_that_are_written_over_are_not_done_twice(monkeypatch):
    """A kernel in place would find what another block has made of its operand."""
    install(monkeypatch)

    def fun(x, matrix):
        x = normal(x, 2.0)
        return x, x @ matrix

    args = [draws(512), draws(512, 64)]
    run = compiled(fun, *args, donated=[True, False])
    for a, b in zip(run([x.copy() for x in args]), fun(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    taken = any(result.kind == "taken" for result in run.program.results)
    assert len(launches(run)) == (2 if taken else 1)


def texts(fun, args, monkeypatch):
    """Launches that are joined, as text."""
    found = []
    install(monkeypatch)
    made = assemble.render_joined
    monkeypatch.setattr(
        assemble, "render_joined", lambda j, *more: found.append(j) or made(j, *more)
    )
    compiled(fun, *args)
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["a row before a product", "updates", "parts of reductions"])
def test_texts(name, monkeypatch):
    """The text of a launch, run by the threads of the host, and assembled."""
    monkeypatch.setattr(schedules, "ENOUGH_CLUSTER_BLOCKS", 2)
    fun, args, _, _ = PROGRAMS[name]
    (joined,) = texts(fun, args, monkeypatch)
    assert joined.repeated == (name != "updates")
    buffers = {}
    for schedule, places, _ in joined.pieces:
        for i, place in zip(schedule.buffers, places, strict=True):
            buffers[place] = schedule.kernel.buffers[i]
    rng = np.random.default_rng(0)
    arrays = [
        np.full(b.size, 3, b.dtype) if b.dtype.kind == "i" else rng.normal(size=b.size)
        for b in (buffers[i] for i in range(len(buffers)))
    ]
    arrays = [x.astype(buffers[i].dtype) for i, x in enumerate(arrays)]
    want = [x.copy() for x in arrays]
    for schedule, places, _ in joined.pieces:
        run_text(schedule, [want[i] for i in places])
    text = join.render(joined)
    run_text(joined, arrays, text)
    for a, b in zip(arrays, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    made = check_assembly(text)
    assert made.count("griddepcontrol.wait") == 1 and "ld.global.nc" not in made
    assert ("cp.async.cg" in made) == (name == "a row before a product")
    assert ("@kept" in str(text)) == (
        name != "updates"
    )  # blocks don't ask others for what they made


def adam(params, grads, first, second):
    each = weft.tree.map
    first = each(lambda a, g: 0.9 * a + 0.1 * g, first, grads)
    second = each(lambda b, g: 0.95 * b + 0.05 * g * g, second, grads)
    step = lambda p, a, b: p - 1e-3 * a / (jnp.sqrt(b) + 1e-8)
    return each(step, params, first, second), first, second


def leaves(count):
    """Parameters of a few shapes and of two dtypes, as of a network with many layers."""
    shapes, dtypes = ((64,), (7, 9), (33,), (64,)), (np.float32, np.float32, BF16, BF16)
    return [draws(*shapes[i % 4], seed=i).astype(dtypes[i % 4]) for i in range(count)]


def test_many_leaves_are_few_launches(monkeypatch):
    install(monkeypatch)
    params = leaves(96)
    args = [params, leaves(96), leaves(96), [abs(x) for x in params]]
    flat, tree = weft.tree.leaves(args), weft.tree.structure(args)
    run = compiled(lambda *xs: adam(*weft.tree.unflatten(tree, xs)), *flat)
    assert len(launches(run)) <= 4
    want = weft.tree.leaves(weft.jit(adam)(*args))
    for a, b in zip(run(flat), want, strict=True):
        near = 1e-5 if b.dtype == np.float32 else 2e-2
        np.testing.assert_allclose(np.float32(a), np.float32(b), rtol=near, atol=near)


def test_texts_of_many_share_code(monkeypatch):
    """Kernels of the same code have it once in a launch; operands and numbers of blocks differ."""
    args = [leaves(24)] * 4
    flat, tree = weft.tree.leaves(args), weft.tree.structure(args)
    found = texts(lambda *xs: adam(*weft.tree.unflatten(tree, xs)), flat, monkeypatch)
    joined = max(found, key=lambda j: len(j.pieces))
    codes = {groups.code_of(p.schedule) for p in joined.pieces}
    assert len(joined.pieces) >= groups.MIN_SHARING > len(codes)
    text = join.render(joined)
    assert str(text).count("define internal void @piece") == len(codes)
    check_as_alone(joined, text)


def check_as_alone(joined, text):
    """That a launch gives what its kernels give one by one, to the bit."""
    buffers = {
        place: schedule.kernel.buffers[i]
        for schedule, places, _ in joined.pieces
        for i, place in zip(schedule.buffers, places, strict=True)
    }
    rng = np.random.default_rng(0)
    kinds = [buffers[i] for i in range(len(buffers))]
    arrays = [abs(rng.normal(size=b.size)).astype(b.dtype) for b in kinds]
    want = [x.copy() for x in arrays]
    for schedule, places, _ in joined.pieces:
        run_text(schedule, [want[i] for i in places])
    run_text(joined, arrays, text)
    for a, b in zip(arrays, want, strict=True):
        np.testing.assert_array_equal(a, b)
    check_assembly(text)


def rates(ws, gs):
    """The rates of layers by the norms of their weights and gradients."""
    norm = lambda x: jnp.sqrt((x * x).sum())
    return [w - 1e-3 * norm(w) / (norm(g) + 1e-6) * g for w, g in zip(ws, gs, strict=True)]


def test_a_few_long_kernels_share_code(monkeypatch):
    """Eight kernels, each the sums of eight layers, once were a text of 300,000 characters."""
    args = [draws(8, 32, seed=i) for i in range(160)]
    found = texts(lambda *xs: rates(xs[:80], xs[80:]), args, monkeypatch)
    joined = max(found, key=lambda j: len(str(join.render(j))))
    codes = {groups.code_of(p.schedule) for p in joined.pieces}
    assert groups.MIN_SHARING > len(joined.pieces) > len(codes)
    text = join.render(joined)
    assert str(text).count("define internal void @piece") == len(codes)
    assert len(str(text)) < 1 << 16
    check_as_alone(joined, text)


def check_assembly(text):
    made = ptx.assemble(text)
    assert ".visible .entry kernel" in made
    if assembler_path() is not None:
        command = [assembler_path(), "-arch=sm_90", "-", "-o", os.devnull]
        subprocess.run(command, input=made.encode(), check=True, capture_output=True)
    return made


def decoded(q, k, v, keys, values, at):
    """Keys and values are kept, then all that are there are attended to."""
    keys = lax.dynamic_update_slice(keys, k[None], (at, 0, 0))
    values = lax.dynamic_update_slice(values, v[None], (at, 0, 0))
    scores = jnp.einsum("hd,thd->ht", q, keys) / 4
    weights = weft.nn.softmax(jnp.where(jnp.arange(40) <= at, scores, -1e30), -1)
    return keys, values, jnp.einsum("ht,thd->hd", weights, values)


def test_a_routine_after_small_kernels(monkeypatch):
    """Blocks of attention first write the new keys and values, all of them the same."""
    row, kept_rows = draws(3, 16), draws(40, 3, 16)
    args = [row, 2 * row, 3 * row, kept_rows, kept_rows + 1, np.int32(35)]
    want = [np.asarray(x) for x in weft.jit(decoded)(*args)]
    monkeypatch.setattr(attention, "MIN_KEPT", 1)
    monkeypatch.setattr(attention, "ROW_THREADS", 64)
    monkeypatch.setattr(attention, "SMALLEST_RANGE", 32)
    found = []
    monkeypatch.setattr(driver, "device", lambda: None)
    monkeypatch.setattr(assemble, "render_joined", lambda j, ahead: found.append(j))
    monkeypatch.setattr(assemble, "load", lambda *given: SimpleNamespace(name="", ready=None))
    closed = weft.make_jaxpr(decoded)(*args)
    planned = Planner(program.Cuda()).program(closed, [False, False, False, True, True, False])
    assembler = assemble.Assembler(planned)
    commands_ = assembler.nodes(planned.nodes)
    (launch,) = [c for c in commands_ if type(c) is commands.Launched]
    (joined,) = found
    assert joined.repeated == 2 and len(joined.pieces) == 3
    memory = {}
    for spot in launch.spots:
        role = assembler.roles[spot.slot]
        if role == "arg":
            memory[spot.slot] = np.array(args[planned.slots[spot.slot].what])
        else:
            memory[spot.slot] = np.zeros(assembler.sizes[spot.slot], np.uint8)
    text = join.render(joined)
    run_text(joined, [memory[spot.slot] for spot in launch.spots], text)
    kinds = [(r.kind, r.number) for r in planned.results]
    taken = {planned.slots[n].what: n for n in memory if assembler.roles[n] == "arg"}
    for (kind, number), b in zip(kinds, want, strict=True):
        slot = taken[number] if kind == "taken" else number
        a = memory[slot].view(np.float32).reshape(b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    check_assembly(text)


def network(x, gain, *matrices):
    for matrix in matrices:
        x = normal(x, gain) @ matrix
    return x


def test_a_launch_prefetches_what_the_next_but_one_reads(monkeypatch):
    monkeypatch.setattr(schedules, "ENOUGH_CLUSTER_BLOCKS", 2)
    install(monkeypatch)
    args = [draws(512), draws(512), *(draws(512, 512, seed=i) / 20 for i in range(4))]
    run = compiled(network, *args)
    (out,) = run([x.copy() for x in args])
    np.testing.assert_allclose(out, weft.jit(network)(*args), rtol=1e-3, atol=1e-4)
    found = launches(run)
    assert [c.numbers for c in found] == [(512 * 512 * 4,)] * 2 + [()] * 2
    slots = run.program.slots
    for c, matrix in zip(found, (4, 5), strict=False):
        assert slots[c.spots[-1].slot].what == matrix


def test_the_text_of_a_prefetch(monkeypatch):
    """Blocks have parts of what is prefetched; all else is as without it."""
    monkeypatch.setattr(schedules, "ENOUGH_CLUSTER_BLOCKS", 2)
    (joined,) = texts(layer, PROGRAMS["a row before a product"][1], monkeypatch)
    text = join.render(joined, True)
    rng = np.random.default_rng(0)
    sizes = {}
    for schedule, places, _ in joined.pieces:
        for i, place in zip(schedule.buffers, places, strict=True):
            sizes[place] = schedule.kernel.buffers[i].size
    arrays = [rng.normal(size=sizes[i]).astype(np.float32) for i in range(len(sizes))]
    want = [x.copy() for x in arrays]
    run_text(joined, want, join.render(joined))
    run_text(joined, [*arrays, arrays[0], np.zeros(0)], text)
    for a, b in zip(arrays, want, strict=True):
        np.testing.assert_array_equal(a, b)
    assert check_assembly(text).count("cp.async.bulk.prefetch.L2.global") == 1


def test_small_copies_are_parts_of_launches(monkeypatch):
    install(monkeypatch)

    def fun(x, n):
        return lax.fori_loop(0, 3, lambda i, c: (c[1] * 2, c[0] + n), (x, x + 1))

    x, n = np.float32(3), np.float32(2)
    run = compiled(fun, x, n)
    for a, b in zip(run([x, n]), weft.jit(fun)(x, n), strict=True):
        np.testing.assert_array_equal(a, b)
    moves = lambda run: [c for c in commands.leaves(run.commands) if type(c) is commands.Moved]
    assert not moves(run)
    monkeypatch.setattr(assemble, "SMALL_COPY", 0)
    assert moves(compiled(fun, x, n))
