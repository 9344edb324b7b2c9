"""Texts of kernels that are assembled soon, and accesses of odd sizes."""

import re

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.test_columns import run_text
from tests.backends.cuda.test_rows import check, f32
from tests.backends.cuda.test_seams import kernels_of
from weft import numpy as jnp
from weft.backends.cuda import assemble, driver, groups, ptx
from weft.backends.cuda import schedule as schedules
from weft.backends.cuda.routines.sort import items_of
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text import join
from weft.backends.cuda.text.render import render
from weft.backends.llvm.code import Effort
from weft.kernel.run import run_kernel


def part_of(fun, *args):
    (kernel,) = kernels_of(fun, *args)
    (part,) = schedule(kernel).parts
    return part


@pytest.mark.parametrize("shape", [(515,), (103, 5)])
def test_the_last_thread_may_have_fewer_elements(shape, monkeypatch):
    """Arrays of odd sizes once were read element by element."""
    monkeypatch.setattr(schedules, "THREADS", 32)
    (part,) = check(lambda x: jnp.abs(x) * 2 + x, f32(*shape))
    assert (part.vector, part.blocks) == (4, 5)
    assert not schedule(part.kernel, aligned=False).parts[0].vector > 1


@pytest.mark.parametrize("shape, accesses", [((4001, 1009), 6), ((10, 2528707), 6), ((4096,), 2)])
def test_odd_sizes_have_wide_accesses(shape, accesses):
    text = ptx.assemble(render(part_of(lambda x: x * 2, f32(*shape))))
    found = [w for w in re.findall(r"(?:ld|st)\.global\S*", text) if "v4" in w or "b128" in w]
    assert len(found) == 2
    assert len(re.findall(r"(?:ld|st)\.global", text)) <= accesses


@pytest.mark.parametrize("width", [100, 1000, 1028])
def test_widths_that_are_no_power_of_two_have_wide_accesses(width):
    """Positions were remainders, of which LLVM didn't see that they are multiples of four."""
    fun = lambda x, y: x * y
    text = ptx.assemble(render(part_of(fun, f32(300, width), f32(width))))
    assert len(re.findall(r"(?:ld|st)\.global", text)) == 3 == text.count("v4.b32")
    kernels = kernels_of(lambda x: (x * x).sum(0), f32(300_000, width))
    first, _ = schedule(kernels[0]).parts
    assert ptx.assemble(render(first)).count("v4.b32") >= 4


@pytest.mark.parametrize("width", [100, 12])
def test_broadcast_rows_of_four_elements_a_thread_are_right(width, monkeypatch):
    monkeypatch.setattr(schedules, "THREADS", 32)
    (part,) = check(lambda x, y: x * y + x, f32(13, width), f32(width))
    assert part.vector == 4


def test_threads_have_several_elements_of_odd_rows(monkeypatch):
    """Rows of an odd length begin at no multiple of 16 bytes: a thread of each element had too
    little of memory on its way, and so many blocks that they took longer to begin than to run."""
    fun = lambda x, y: x * 2 + y[:, None]
    part = part_of(fun, f32(10, 2528707), f32(10))
    assert (part.vector, part.each) == (1, 4) and part.blocks == -(-25287070 // 1024)
    assert part_of(much, f32(10, 2528707)).each == 1  # it computes for longer than it reads
    assert part_of(fun, f32(100, 101), f32(100)).each == 1
    monkeypatch.setattr(schedules, "THREADS", 32)
    monkeypatch.setattr(schedules, "MANY_ELEMENTS", 1)
    (part,) = check(fun, f32(7, 43), f32(7))
    assert part.each == 4 and part.blocks == 3


def test_places_are_counted_in_32_bits():
    turned = lambda x, y: jnp.transpose(x, (2, 0, 1)) + y
    shapes = (5, 7, 11), (11, 5, 7)
    text = str(render(part_of(turned, *(f32(*s) for s in shapes))))
    assert "urem i32" in text and "urem i64" not in text
    check(turned, *(f32(*s) for s in shapes))
    large = part_of(lambda x, y: x + y[:, None], f32(140_000, 140_000), f32(140_000))
    assert "urem i64" in str(render(large))


def joined_ranges(fun, *args):
    """The ranges of a kernel as one launch."""
    (kernel,) = kernels_of(fun, *args)
    outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
    pieces = [groups.accesses(p, tuple(outside)).piece(outside) for p in schedule(kernel).parts]
    return kernel, groups.Joined(tuple(pieces), 0, True)


def test_ranges_that_read_the_same_are_in_turn(monkeypatch):
    """An array joined of x, 2 y and x + y reads x and y twice, the second time from the cache."""
    monkeypatch.setattr(schedules, "THREADS", 32)
    shapes = f32(10, 36), f32(10, 36)
    three = lambda x, y: jnp.abs(jnp.concatenate([x, y * 2, x + y], 0))
    kernel, made = joined_ranges(three, *shapes)
    text = join.render(made)
    assert len(made.pieces) == 3 and "urem i32 %own, 3" in str(text)
    rng = np.random.default_rng(0)
    whole = [rng.normal(size=b.size).astype(b.dtype) for b in kernel.buffers]
    mine = [x.copy() for x in whole]
    run_kernel(kernel, whole)
    run_text(made, mine, text)
    for a, b in zip(mine, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    for other in (lambda x, y: jnp.concatenate([x, y], 0), lambda x, y: jnp.roll(x, 3, 0) + y):
        assert "%own" not in str(join.render(joined_ranges(other, *shapes)[1]))


def much(x):
    for _ in range(2):
        x = jnp.sin(x) * jnp.exp(x) + jnp.log1p(x * x)
    return x


def test_much_work_for_few_elements_has_more_threads():
    """A kernel of 20,000 draws once was four times as long, and took half a second to assemble."""
    assert part_of(much, f32(20_000)).vector == 1
    assert part_of(much, f32(10**7)).vector == 4
    assert part_of(lambda x: x * 2, f32(20_000)).vector == 4


def test_long_texts_of_little_work_are_made_quickly(monkeypatch):
    few, many = (render(part_of(much, f32(n))) for n in (20_000, 10**7))
    assert few.effort is Effort.BRIEF and many.effort is Effort.OPTIMISE
    assert render(part_of(lambda x: x * 2, f32(20_000))).effort is Effort.OPTIMISE
    brief = ptx.GpuModule((), effort=Effort.INLINE)
    long = brief.replaced(declared={"f": f"declare void @{'f' * 70_000}()"})
    assert [ptx.level_of(x) for x in (few, many, brief, long)] == [
        0,
        3,
        0,
        3,
    ]
    levels = []
    monkeypatch.setattr(driver, "link", lambda text, path=None, level=4: levels.append(level))
    monkeypatch.setattr(assemble.disk, "save", lambda key, code: None)

    class Device:
        architecture = 90

        def use(self):
            pass

    for text in (few, many):
        assemble._compiled(text, b"", Device(), "", None)
    assert levels == [1, 4]


def test_joined_kernels_are_made_quickly():
    parts = [part_of(much, f32(n)) for n in (2_000, 3_000)]
    pieces = [
        groups.accesses(p, (2 * i, 2 * i + 1)).piece([0, 1, 2, 3]) for i, p in enumerate(parts)
    ]
    assert join.render(groups.Joined(tuple(pieces), 0, True)).effort is Effort.BRIEF
    ranges = [p._replace(schedule=p.schedule._replace(apart=True)) for p in pieces]
    assert join.render(groups.Joined(tuple(ranges), 0, True)).effort is not Effort.BRIEF


@pytest.mark.parametrize("count, shared", [(2, True), (1 << 16, False)])
def test_few_kernels_of_much_work_have_code_of_their_own(count, shared):
    """What they read is then known to be constant, and not to be what others write."""
    long = part_of(lambda x: jnp.tanh(jnp.sin(x) * jnp.exp(x)), f32(4 * count))
    pieces = [groups.accesses(long, (i, i + 1)).piece([0, 1, 2, 3]) for i in (0, 2)]
    text = str(join.render(groups.Joined(tuple(pieces), 0, True)))
    assert text.count("define internal void @piece") == 2 - shared


def test_short_code_is_not_shared_by_few():
    short = part_of(lambda x: x * 2, f32(8))
    pieces = [groups.accesses(short, (i, i + 1)).piece([0, 1, 2, 3]) for i in (0, 2)]
    text = str(join.render(groups.Joined(tuple(pieces), 0, True)))
    assert text.count("define internal void @piece") == 2


@pytest.mark.parametrize("count, shared", [(1, False), (8, True)])
def test_sums_of_many_leaves_share_code(count, shared):
    """Gradients that are clipped by their norm: launches of eight such kernels took half a second
    to assemble, and what threads combine was most of that."""
    sums = lambda *xs: tuple((x * x).sum() for x in xs)
    (kernel,) = kernels_of(sums, *[f32(2048)] * count)
    (part,) = schedule(kernel).parts
    size, rng = 2 * count, np.random.default_rng(0)
    pieces = [
        groups.accesses(part, tuple(range(i * size, i * size + size))).piece([*range(3 * size)])
        for i in range(3)
    ]
    made = groups.Joined(tuple(pieces), 0, True)
    text = join.render(made)
    assert str(text).count("define internal void @piece") == (1 if shared else 3)
    buffers = [kernel.buffers[i] for i in part.buffers] * 3
    arrays = [rng.normal(size=b.size).astype(np.float32) for b in buffers]
    run_text(made, arrays, text)
    given = [x for x, b in zip(arrays, buffers, strict=True) if b.role == "in"]
    found = [x for x, b in zip(arrays, buffers, strict=True) if b.role == "out"]
    for x, y in zip(given, found, strict=True):
        np.testing.assert_allclose((x * x).sum(), y, rtol=1e-5)


@pytest.mark.parametrize("width", [96, 1024, 4100])
def test_what_all_elements_of_a_row_need_is_computed_once(width):
    """The root is computed once for all elements of a thread."""
    unit = lambda x: x / jnp.sqrt((x * x).sum(-1, keepdims=True) + 1)
    (part,) = check(unit, f32(6, width))
    assert str(render(part)).count("call float @llvm.sqrt") == 1


def test_what_neighbours_need_is_computed_once(monkeypatch):
    monkeypatch.setattr(schedules, "THREADS", 32)
    (part,) = check(lambda x, y: x + jnp.sqrt(abs(y))[:, None], f32(40, 8), f32(40))
    assert part.vector == 4
    assert str(render(part)).count("call float @llvm.sqrt") == 1


def test_what_differs_is_not_hoisted(monkeypatch):
    """Neither is what is read where it is written, or only for a few elements."""
    monkeypatch.setattr(schedules, "THREADS", 32)
    mixed = lambda x, y: jnp.where(x > 3, jnp.log1p(jnp.exp(x * y[:, None])), y[:, None] - x)
    check(mixed, f32(40, 8), f32(40))
    soft = lambda x, y: jnp.exp(x - x.max(-1, keepdims=True)) * jnp.tanh(y)[:, None] / x.sum()
    kernels = kernels_of(soft, f32(6, 200), f32(6))
    assert all(str(render(p)) for k in kernels for p in schedule(k).parts)


def test_quick_texts_do_the_same(monkeypatch):
    monkeypatch.setattr(schedules, "THREADS", 32)
    (part,) = check(much, f32(70))
    assert render(part).effort is Effort.BRIEF


@pytest.mark.parametrize(
    "rows, length, size, items",
    [(1, 8874, 4, 4), (1, 32_000, 4, 4), (1, 10**6, 4, 8), (1, 10**6, 8, 4), (1, 10**7, 4, 16),
     (1, 10**7, 8, 8), (1, 3000, 4, 16), (1, 1500, 4, 8), (1000, 1000, 4, 16),
     (20, 1000, 4, 4), (1, 8874, 8, 4)],
)  # fmt: skip
def test_short_sorts_have_short_texts(rows, length, size, items):
    """The gradient of an embedding once waited for 0.4 s for the text of long sorts."""
    assert items_of(rows, length, size) == items


def test_trees_are_waited_for_once(monkeypatch):
    """To wait for 1,000 leaves once took 2.7 ms."""
    leaves = [jnp.ones(2) for _ in range(50)]
    client, waits = leaves[0]._type.placement.client, []
    monkeypatch.setattr(type(client), "wait", lambda self: waits.append(self))
    assert weft.block_until_ready({"a": leaves, "b": 3.0})["b"] == 3.0
    assert waits == [client]
    leaves[7].delete()
    with pytest.raises(RuntimeError, match="deleted"):
        weft.block_until_ready(leaves)


def polynomial(x, degree=90):
    for number in range(degree):
        x = x * 0.5 + number
    return x


def short(x):
    return polynomial(x, 5)


def long(x):
    return polynomial(x, 300)


@pytest.mark.parametrize(
    ("fun", "dtype", "elements"),
    [
        (jnp.negative, "bfloat16", 8),
        (short, "bfloat16", 8),
        (lambda x: polynomial(x, 20), "bfloat16", 4),
        (polynomial, "float32", 4),
        (long, "float32", 2),
    ],
)
def test_threads_have_fewer_elements_where_each_is_much_work(monkeypatch, fun, dtype, elements):
    planned.install(monkeypatch)
    (command,) = planned.planned(fun, weft.ShapeDtypeStruct((1 << 20,), dtype)).commands
    assert command.blocks == (1 << 20) // (256 * elements)
