"""Kernels attached to the operation whose result they go on with.

A product is computed in blocks. What is done with its elements one by one, where each is read only
where something is written, can be done with a block as soon as that is complete, instead of by a
second pass over memory. Whether the backend can is for it to say, when the plan is made.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

from weft.compiler.fuse import Step, finishable
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.rewrite import Nest, Rewrite, loads, peel, position
from weft.core.jaxpr import Literal
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Store, in_loops
from weft.kernel.nodes import layout
from weft.kernel.program import Finish


def attach(steps: list[Step], results: list[Any]) -> list[Step]:
    """The steps with kernels attached to the equations whose results they are the first to read."""
    if not any(s.eqn is not None and finishable(s.eqn) for s in steps):
        return steps
    readers: dict[Any, list[int]] = {}
    for i, step in enumerate(steps):
        for v in dict.fromkeys(reads(step)):
            readers.setdefault(v, []).append(i)
    joined: dict[int, Step] = {}  # by the place of the equation
    taken: set[int] = set()
    known: dict[Any, Kernel | None] = {}  # what becomes of kernels that several steps have
    # of several products that one kernel reads, the last is the one it goes on with
    for i, step in reversed(list(enumerate(steps))):
        if step.eqn is None or not finishable(step.eqn):
            continue
        (v,) = step.eqn.outvars
        first, *others = readers.get(v, [len(steps)])
        if first in taken or first == len(steps):
            continue
        both = _joined(step, steps[first], v, bool(others) or v in results, known)
        if both is not None:
            joined[i] = both
            taken.add(first)
    return _ordered(steps, joined, taken) if joined else steps


def offer(steps: list[Step], target: Any, looped: bool) -> list[Step]:
    """Steps in which kernels are epilogues of operations only where the target can do that."""
    found: list[Step] = []
    for step in steps:
        if step.finish is None:
            found.append(step)
            continue
        made = target.epilogue(step.eqn, step.finish, looped)
        found += step.apart if made is None else [step._replace(offer=made)]
    return found


def _ordered(steps: list[Step], joined: dict[int, Step], taken: set[int]) -> list[Step]:
    """Joined steps where the equation was, or else as soon as all that the kernel reads is there.

    What the equation reads is then needed no longer than before.
    """
    missing: Counter[Any] = Counter()  # how many steps are still to write to a variable
    for step in steps:
        missing.update(written(step))
    found: list[Step] = []
    waiting: list[Step] = []

    def put(step: Step) -> None:
        found.append(step)
        parts = (step,) if step.finish is None else step.apart
        for part in parts:
            missing.subtract(written(part))

    for i, step in enumerate(steps):
        if i in joined:
            waiting.append(joined[i])
        elif i not in taken:
            put(step)
        while True:
            ready = [s for s in waiting if not any(missing[v] > 0 for v in _needed(s))]
            if not ready:
                break
            for s in ready:
                waiting.remove(s)
                put(s)
    assert not waiting
    return found


def _needed(step: Step) -> list[Any]:
    """What a joined step reads beside the value between its parts."""
    first, second = step.apart
    (v,) = first.eqn.outvars
    return [x for x in reads(second) if x is not v]


def written(step: Step) -> list[Any]:
    """The variables that a step writes to."""
    if step.kernel is None:
        return step.writes
    return [v for v, b in zip(step.buffers, step.kernel.buffers, strict=False) if b.role == "out"]


def reads(step: Step) -> list[Any]:
    """The variables that a step reads."""
    found = [] if step.eqn is None else [x for x in step.eqn.invars if type(x) is not Literal]
    if step.kernel is not None:
        roles = zip(step.buffers, step.kernel.buffers, strict=False)
        found += [v for v, b in roles if b.role == "in" and type(v) is not Literal]
    return found


def _joined(
    first: Step, second: Step, v: Any, kept: bool, known: dict[Any, Kernel | None]
) -> Step | None:
    """Two steps as one, or None. ``kept`` is whether the value between them is written too."""
    if second.kernel is None or second.eqn is not None or second.source is not None:
        return None
    number = second.buffers.index(v)
    key = (id(second.kernel), number, v.aval, kept)
    if key not in known:
        kernel = collapse(second.kernel)
        fits = _goes_on(kernel, number, v)
        known[key] = None if not fits else _keeping(kernel, number) if kept else kernel
    found = known[key]
    if found is None:
        return None
    buffers, writes = second.buffers, second.writes
    if kept:
        buffers, writes = [*buffers, v], [*writes, v]
    finish = Finish(found, number)
    return Step(found, buffers, first.eqn, writes, None, finish, (first, second))


def _goes_on(kernel: Kernel, number: int, v: Any) -> bool:
    """Whether a kernel reads a value only where it writes, once for every element."""
    nest = peel(kernel)
    if not nest.axes or nest.lanes or not all(isinstance(s, Store) for s in nest.body):
        return False
    if any(b.role == "row" for b in kernel.buffers):
        return False
    scalars = layout(v.aval.dtype)[1]
    count = prod(n for _, n in nest.axes)
    if count * scalars != kernel.buffers[number].size:
        return False
    return _all_here(kernel, nest, number, scalars)


def _all_here(kernel: Kernel, nest: Nest, number: int, scalars: int) -> bool:
    """Whether stores and reads of the result are where the loops are, and others in reach."""
    here = position(nest.axes)
    count = prod(n for _, n in nest.axes)
    for s in nest.body:
        if s.marks is not None:
            continue
        each = kernel.buffers[s.buffer].size // count
        if s.offset is not None or each == 0 or s.at not in _parts(here, each):
            return False
    last = nest.axes[-1][0]
    own = _parts(here, scalars)
    for load in loads(nest.body):
        if load.args:
            return False
        buffer, at = load.attr[:2]
        if buffer == number:
            if at not in own:
                return False
        elif abs(at.coefficient(last)) > 2:  # read across memory: better in tiles of its own
            return False
    return True


def _parts(here: Any, scalars: int) -> list[Any]:
    """Where the scalars of an element lie."""
    return [here.scaled(scalars, i) for i in range(scalars)]


def _keeping(kernel: Kernel, number: int) -> Kernel:
    """A kernel that also writes the value that it reads from a buffer to a new one."""
    given = kernel.buffers[number]
    nest = peel(kernel)
    k, here = Builder(), position(nest.axes)
    scalars = given.size // prod(n for _, n in nest.axes)
    place = len(kernel.buffers)
    body = Rewrite(k, {}).body(nest.body)
    for at in _parts(here, scalars):
        body.append(Store(place, at, k.load(number, given.dtype, at)))
    body = in_loops(nest.axes[1:], body)
    more = Buffer(given.dtype, given.size, "out")
    return kernel._replace(buffers=[*kernel.buffers, more], grid=nest.axes[0], body=body)
