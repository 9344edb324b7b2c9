"""Whether something holds anywhere, noted by the kernels that compute it: their text on the host,
and how many launches programs have with it."""

import re

import numpy as np
import pytest

import weft
from bench.suites import models
from tests.backends.cuda import planned
from tests.backends.cuda.test_columns import launch
from weft import nn
from weft import numpy as jnp
from weft.backends.cuda import commands
from weft.backends.cuda import schedule as schedules
from weft.backends.cuda.passes.target import GpuTarget
from weft.backends.cuda.program import Cuda
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text.render import render
from weft.base import checking
from weft.compiler import marks
from weft.compiler.checks import instrument
from weft.compiler.plan import Planner
from weft.kernel.kernel import Store, statements
from weft.kernel.program import Launch


def draws(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def planned_nodes(fun, args):
    closed = weft.make_jaxpr(fun)(*args)
    return closed, Planner(GpuTarget()).program(closed)


def marked(program):
    """The kernels that mark something."""
    kernels = [node.kernel for node in program.nodes if isinstance(node, Launch)]
    return [k for k in kernels if any(_marks(s) for s in statements(k.body))]


def _marks(s):
    return isinstance(s, Store) and s.marks is not None


def run(fun, args):
    """The results of a program, each kernel as its text for a GPU, on the host; and the program."""
    closed, program = planned_nodes(fun, args)
    assert all(isinstance(node, Launch) for node in program.nodes)
    slots = [np.full(-(-slot.size // 16) * 16, 0xAB, np.uint8) for slot in program.slots]
    for number, slot in enumerate(program.slots):
        if slot.role in ("arg", "const"):
            value = args[slot.what] if slot.role == "arg" else program.constants[slot.what]
            slots[number][: slot.size] = np.ascontiguousarray(value).view(np.uint8).reshape(-1)
    for node in program.nodes:
        outside = [i for i, b in enumerate(node.kernel.buffers) if b.role != "row"]
        memory = dict(zip(outside, [slots[s] for s in node.slots], strict=True))
        distinct = len(set(node.slots)) == len(node.slots)
        parts, scratch = schedule(node.kernel, True, distinct)
        for i, b in enumerate(scratch):
            memory[len(node.kernel.buffers) + i] = np.zeros(b.size * b.dtype.itemsize, np.uint8)
        for part in parts:
            launch(part, [memory[i] for i in part.buffers])
    found = []
    for (_, number), aval in zip(program.results, closed.out_avals, strict=True):
        size = aval.size * aval.dtype.itemsize
        found.append(slots[number][:size].view(aval.dtype).reshape(aval.shape))
    return found, program


def asked(x):
    """Three questions about an array, so that all are marked, however small it is."""
    return jnp.any(x > 4), jnp.all(x < 4), jnp.any(x != x)


def beside(x, y):
    z = x * 2 + y
    return z, *asked(z)


def of_rows(x, y):
    z = nn.softmax(x + y, -1)
    return z, *asked(z), *asked(x.max(-1))


def of_columns(x, y):
    z = (x * y).sum(0)
    return z, *asked(z)


def transposed(x, y):
    z = (x + y).T * 2
    return z, *asked(z)


def joined(x, y):
    z = jnp.concatenate([x, -y, x * 3], 0)
    return z, *asked(z)


def alone(x, y):
    return asked(x * y)


def used(x, y):
    found = jnp.stack(asked(x - y))
    return jnp.where(found[0], x, y), found


def narrow(x, y):
    z = x.astype(jnp.bfloat16) * y.astype(jnp.bfloat16)
    return z, *asked(z)


def in_turn(x, y):
    """What is asked of a value decides over what is asked next."""
    first = jnp.any(x > 4)
    z = jnp.where(first, x, y)
    return z, jnp.any(z > 4), jnp.all(z < 4)


PROGRAMS = [beside, of_rows, of_columns, transposed, joined, alone, used, narrow, in_turn]
CASES = [(fun, shape) for fun in PROGRAMS for shape in ((3, 5), (64, 64))]
CASES += [(fun, (9, 257)) for fun in (beside, joined, transposed)]


@pytest.mark.parametrize(("fun", "shape"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_what_holds_anywhere(fun, shape):
    for place, value in ((None, 0), (0, 9), (-1, np.nan)):
        x, y = np.clip(draws(*shape), -3.9, 3.9) / 4, np.clip(draws(*shape, seed=1), -0.9, 0.9)
        if place is not None:
            x.reshape(-1)[place] = value * 10
            y.reshape(-1)[place] = 3
        found, program = run(fun, [x, y])
        assert marked(program)
        with weft.disable_jit():
            wanted = fun(jnp.asarray(x), jnp.asarray(y))
        for one, other in zip(found, wanted, strict=True):
            near = 2e-2 if one.dtype.itemsize == 2 else 1e-5
            np.testing.assert_allclose(
                one.astype(np.float32), np.asarray(other).astype(np.float32), near, near
            )


@pytest.mark.parametrize("many", [1 << 10, schedules.MANY_ELEMENTS])
def test_one_question_about_a_large_array_reads_it_once(many, monkeypatch):
    monkeypatch.setattr(schedules, "MANY_ELEMENTS", many)  # a thread has elements far apart
    x, y = draws(17, 1001), np.zeros(1001, np.float32)
    for value, place in ((0, 0), (np.nan, 0), (np.nan, -1), (np.nan, 7777)):
        x[...] = 0
        x.reshape(-1)[place] = value
        (found,), program = run(lambda x, y: jnp.any(jnp.isnan(x + y)), [x, y])
        assert found == np.isnan(value)
    begin, kernel = [node.kernel for node in program.nodes]
    assert not any(b.size > 1 for b in begin.buffers)
    (part,) = schedule(kernel).parts
    assert (part.each > 1) == (many < x.size)


def test_what_is_marked_is_not_written_again():
    """All threads would write to one place, one after the other."""
    _, program = planned_nodes(lambda x: jnp.any(x > 0), [draws(1 << 15)])
    (part,) = schedule(marked(program)[0]).parts
    text = str(render(part))
    assert text.count("store i8") == 1
    before = text[: text.index("store i8")].splitlines()
    assert re.search(r"load i8, ptr %\w+", "\n".join(before[-5:]))


def test_a_small_question_alone_is_a_reduction():
    _, program = planned_nodes(lambda x: jnp.any(x > 0), [draws(100)])
    assert not marked(program) and len(program.nodes) == 1


def test_an_array_and_its_questions_are_one_kernel():
    def f(x, y):
        z = jnp.exp(x) * y
        return z, jnp.any(z != z), jnp.all(z > 0)

    _, program = planned_nodes(f, [draws(300, 300)] * 2)
    _, kernel = [node.kernel for node in program.nodes]
    assert sum(b.size > 1 for b in kernel.buffers) == 3  # nothing else is read or written
    stores = [s for s in statements(kernel.body) if isinstance(s, Store)]
    assert [s.marks for s in stores] == [None, True, False]


def test_questions_in_loops_are_reductions():
    """A loop may be one kernel, in which they are numbers."""
    from weft import lax

    step = lambda i, c: (c[0] * 1.5, c[1] | jnp.any(c[0] > 4) | jnp.all(c[0] > 1))
    _, program = planned_nodes(
        lambda x: lax.fori_loop(0, 9, step, (x, jnp.any(x > 5))), [draws(300, 300)]
    )
    inner = [k for node in program.nodes if hasattr(node, "body") for k in node.body]
    assert inner and not any(
        _marks(s)
        for node in inner
        if isinstance(node, Launch)
        for s in statements(node.kernel.body)
    )


def test_equal_layers_are_the_same_kernel():
    def f(xs):
        return [jnp.any(jnp.tanh(x) > 0.5) for x in xs]

    _, program = planned_nodes(f, [[draws(50, 400)] * 5])
    assert len({str(k.body) for k in marked(program)}) == 1


def test_no_more_than_a_kernel_has_room_for_begin_at_once(monkeypatch):
    monkeypatch.setattr(marks, "MAX_BEGUN", 2)
    found, program = run(
        lambda *xs: [jnp.any(x > 0.5) for x in xs], [draws(9, 4, seed=i) for i in range(5)]
    )
    assert all(found) and len(program.nodes) == 3 + 1


# --- compiled checks ------------------------------------------------------------------------------


def training(which):
    if which == "ResNet-18":
        return models.sgd(weft, models.resnet_loss(weft)), models.resnet_arguments(2)
    if which == "transformer":
        return models.adam(weft, models.language_loss(weft)), models.language_arguments(2)
    return models.sgd(weft, models.mlp_loss(weft)), models.mlp_arguments(int(which))


@pytest.mark.parametrize(
    ("which", "most"), [("128", 1.2), ("8192", 1.15), ("transformer", 1.1), ("ResNet-18", 1.03)]
)
def test_checks_add_few_launches(which, most, monkeypatch):
    """Each checked array once took two launches more: 32 for 16, 161 for 90, and 511 for 385."""
    planned.install(monkeypatch)
    function, args = training(which)
    closed = weft.make_jaxpr(function)(*args)
    with weft.checks(nan=True):
        kinds = checking.asked()
    told, culprit = instrument.telling(closed, kinds)
    assert len(culprit.sites) > 10
    made = [list(commands.leaves(Cuda().make(x).commands)) for x in (closed, told)]
    plain, checked = map(len, made)
    assert checked <= most * plain, (plain, checked)
