"""Every target answers all that planning asks, whatever the program."""

import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.backends.c.program import Portable
from weft.backends.cpu.target import Cpu
from weft.backends.cuda.passes.target import GpuTarget
from weft.backends.reference.program import Reference
from weft.compiler.backend import Target
from weft.compiler.plan import Planner

TARGETS = {
    "cpu": Cpu,
    "gpu": GpuTarget,
    "reference": Reference,
    "neutral reference": lambda: Reference(neutral=True),
    "c": Portable,
}


def batched_loop(x):
    return lax.while_loop(lambda c: c.sum() < 50, lambda c: jnp.sin(c) + c + 1, x)


def batched_branch(x):
    return lax.cond(x[0] > 0, lambda x: x @ jnp.ones((4, 4)), jnp.cos, x)


PROGRAMS = [
    weft.vmap(batched_loop),
    weft.vmap(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * 2 + 1, x[0])),
    weft.vmap(weft.grad(lambda x: batched_branch(x).sum())),
    lambda x: lax.scan(lambda c, r: (c + r, c @ r), x[0], x),
    lambda x: weft.nn.softmax(x @ x[:4, :4]).sort(),
]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_are_planned(name, number):
    target = TARGETS[name]()
    closed = weft.make_jaxpr(PROGRAMS[number])(jnp.ones((6, 4)))
    assert Planner(target).program(closed).nodes


@pytest.mark.parametrize("name", TARGETS)
def test_all_questions_have_answers(name):
    asked = [word for word in vars(Target) if not word.startswith("_")]
    asked += [word for word in Target.__annotations__ if not word.startswith("_")]
    assert len(asked) > 8
    assert [word for word in asked if not hasattr(TARGETS[name](), word)] == []
