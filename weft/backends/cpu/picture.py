"""The parts of a compiled program, for pictures of it, from the notes on its compilation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.backends.cpu.story import Told
from weft.compiler.watch import Seen, computed, equations_of
from weft.runtime.drawing import Numbers, Part, operations_of, places_of


def parts(seen: Sequence[Seen], told: Sequence[Told]) -> tuple[Part, ...]:
    """A part for each step, and in it those of the regions inside it."""
    return _parts(seen, told, Numbers())


def _parts(seen: Sequence[Seen], told: Sequence[Told], numbers: Numbers) -> tuple[Part, ...]:
    return tuple([_part(s, t, numbers) for s, t in zip(seen, told, strict=True)])


def _part(seen: Seen, told: Told, numbers: Numbers) -> Part:
    step, eqns = seen.step, equations_of(seen)
    ins: list[Any] = []
    outs: list[Any] = []
    if step.kernel is not None:
        _, outs = computed(seen)
        roles = [b.role for b in step.kernel.buffers]
        ins = [v for v, role in zip(step.buffers, roles, strict=False) if role == "in"]
    if step.eqn is not None:
        ins = [*ins, *step.eqn.invars]
        outs = [*outs, *(v for v in step.eqn.outvars if step.kernel is None)]
        own = {id(v) for v in step.eqn.outvars}
        ins = [v for v in ins if id(v) not in own]
    inner = _parts(seen.inner, told.inner, numbers)
    known = told.times if told.counted else 0
    return Part(
        told.name,
        told.kind,
        ", ".join(told.primitives),
        numbers.values(ins),
        numbers.values(outs),
        places_of(eqns),
        float(told.read) or sum(p.read * max(known, 1) for p in inner),
        float(told.written) or sum(p.written * max(known, 1) for p in inner),
        operations_of(eqns),
        told.seconds,
        known,
        tuple(told.details),
        inner,
    )
