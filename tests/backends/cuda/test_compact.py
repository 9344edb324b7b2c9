"""Texts for first calls, with loops over the elements of a thread: they give the bits of others."""

import re

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.convergence import Kernel
from tests.backends.cuda.test_columns import run_text
from tests.backends.cuda.test_ptx import kernels_of
from tests.backends.cuda.test_rows import BF16, f32
from weft import nn
from weft import numpy as jnp
from weft.backends.cuda import assemble, ptx
from weft.backends.cuda import schedule as schedules
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text import join
from weft.backends.cuda.text.render import render
from weft.backends.llvm.code import Effort


def much(x):
    return jnp.sin(x) * jnp.exp(x) / (2 + x * x)


def normal(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def narrow(*shape):
    return weft.ShapeDtypeStruct(shape, BF16)


PROGRAMS = {
    "elements": (much, f32(300)),
    "a rest": (much, f32(5, 61)),
    "two axes": (lambda x, y: much(x) + y[:, None], f32(30, 64), f32(30)),
    "transposed": (lambda x, y: much(x).T * y, f32(40, 33), f32(33, 40)),
    "bfloat16": (lambda x, y: jnp.exp(x) * y - x, narrow(16, 40), narrow(16, 40)),
    "softmax": (lambda x: nn.softmax(x, -1), f32(3, 250)),
    "softmax of few": (lambda x: nn.softmax(x, -1), f32(70, 5)),
    "softmax of bfloat16": (lambda x: nn.softmax(x, -1), narrow(70, 6)),
    "norm": (normal, f32(3, 200)),
    "long norm": (normal, f32(2, 4099)),
    "gradient": (weft.grad(lambda x: (nn.softmax(normal(x), -1) ** 2).sum()), f32(3, 96)),
    "sums": (lambda x: (x.sum(1), (x * x).max(1), jnp.exp(x)), f32(4, 320)),
    "whole sum": (lambda x: much(x).sum(), f32(5000)),
    "masked": (lambda x, y: jnp.where(x > 0, y, much(x)), f32(7, 36), f32(7, 36)),
    "pieces": (lambda x, y: jnp.concatenate([much(x), y[::-1]]), f32(90), f32(70)),
}  # fmt: skip


def parts_of(fun, *args):
    """The scheduled kernels of a function, with arrays for their buffers."""
    rng = np.random.default_rng(0)
    for kernel in kernels_of(fun, *args):
        parts, scratch = schedule(kernel)
        own = [(i, b) for i, b in enumerate(kernel.buffers) if b.role != "row"]
        arrays = {i: rng.normal(size=b.size).astype(b.dtype) for i, b in own}
        for i, b in enumerate(scratch):
            arrays[len(kernel.buffers) + i] = np.zeros(b.size, b.dtype)
        for part in parts:
            yield part, [arrays[i] for i in part.buffers]


@pytest.mark.parametrize("few", [True, False], ids=["few blocks", "many"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_the_same(name, few, monkeypatch):
    if few:  # as large arrays are: threads have several elements, and blocks several rows
        monkeypatch.setattr(schedules, "ENOUGH_THREADS", 1)
        monkeypatch.setattr(schedules, "ENOUGH_BLOCKS", 1)
    for part, arrays in parts_of(*PROGRAMS[name]):
        module = render(part)
        if module.compact is None:
            continue
        found = [x.copy() for x in arrays]
        run_text(part, found, module.compact())
        run_text(part, arrays, module)
        for x, y in zip(arrays, found, strict=True):
            np.testing.assert_array_equal(x.view(np.uint8), y.view(np.uint8))


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_meet_at_barriers(name):
    for part, _ in parts_of(*PROGRAMS[name]):
        module = render(part)
        if module.compact is not None:
            text = ptx.assemble(module.compact().with_effort(Effort.SOON))
            assert not Kernel(text).apart()


def test_loops_take_fewer_instructions():
    (kernel,) = kernels_of(much, f32(10**7))
    (part,) = schedule(kernel).parts
    module = render(part)
    quick = ptx.soon(module)
    assert quick.effort is Effort.SOON
    assert len(str(quick)) < 0.5 * len(str(module))
    count = lambda m: len(re.findall(r"fma\.rn", ptx.assemble(m)))
    assert count(quick) * part.vector == count(module)


def test_short_code_has_one_text():
    (kernel,) = kernels_of(lambda x: x * 2 + 1, f32(10**7))
    (part,) = schedule(kernel).parts
    module = render(part)
    assert len(str(module)) < ptx.COMPACT_TEXT
    assert ptx.soon(module) is None or ptx.soon(module).functions == module.functions


def test_code_for_little_work_is_made_again_where_loops_are_shorter():
    (kernel,) = kernels_of(weft.grad(lambda x: (nn.softmax(normal(x)) ** 2).sum()), f32(64, 512))
    (part,) = schedule(kernel).parts
    module = render(part)
    assert module.effort is Effort.BRIEF
    assert ptx.soon(module).effort is Effort.SOON


def test_launches_of_several_kernels_have_the_same_bits(monkeypatch):
    """The bits of kernels that are one launch, side by side."""
    planned.install(monkeypatch)
    made = []
    real = join.render
    record = lambda joined, ahead=0: made.append(joined) or real(joined, ahead)
    monkeypatch.setattr(assemble, "render_joined", record)
    planned.planned(lambda x, y: (nn.softmax(x, -1), normal(y)), f32(6, 512), f32(7, 500))
    assert made
    rng = np.random.default_rng(0)
    for joined in made:
        module = real(joined)
        sizes = {}
        for piece in joined.pieces:
            for number, place in zip(piece.schedule.buffers, piece.places, strict=True):
                sizes[place] = piece.schedule.kernel.buffers[number]
        arrays = [rng.normal(size=sizes[i].size).astype(sizes[i].dtype) for i in range(len(sizes))]
        found = [x.copy() for x in arrays]
        assert module.compact is not None
        run_text(joined, arrays, module)
        run_text(joined, found, module.compact())
        for x, y in zip(arrays, found, strict=True):
            np.testing.assert_array_equal(x, y)
