"""The pipeline: every pass between a staged function and its kernels, in one list.

Passes on programs take and give a ClosedJaxpr, passes on kernels the parts that a kernel is made
of; fusion leads from the ones to the others. What follows (the plan of nodes and memory, LLVM) is
not a pass: compiler/plan.py and the backend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from weft.base import knobs
from weft.base.lazy import Late
from weft.base.record import Record
from weft.compiler.attach import attach
from weft.compiler.fuse import Fusion, Step
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.contract import contract
from weft.compiler.passes.cse import cse
from weft.compiler.passes.diagonal import diagonal
from weft.compiler.passes.fission import fission
from weft.compiler.passes.grid import grid, plain_grid
from weft.compiler.passes.hoist import hoist, hoist_any
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.compiler.passes.split import Part, Parts, oriented, split
from weft.compiler.passes.tile import tile
from weft.compiler.passes.transform import transform
from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.kernel.kernel import Kernel
from weft.kernel.spec import verify

if TYPE_CHECKING:
    from weft.compiler.watch import Watch

# loaded when a knob asks for it
checks = Late("weft.core.verify")


class Pass(Record):
    """A step of the pipeline: its name, what it works on, and the function that does it."""

    name: str
    on: str  # "program" or "kernel"; "fusion" is what makes kernels of a program
    run: Callable[[Any], Any]


def _fuse(
    jaxpr: Jaxpr, general: bool = False, recomputes: bool = False
) -> tuple[Fusion, list[Step]]:
    fusion = Fusion(jaxpr, general, recomputes)
    return fusion, attach(fusion.plan(), fusion.results)


def _fuse_any(jaxpr: Jaxpr) -> tuple[Fusion, list[Step]]:
    return _fuse(jaxpr, True)


def _each(run: Callable[[Kernel], Kernel]) -> Callable[[Parts], Parts]:
    """A pass on kernels as one on all the parts of a kernel."""

    def run_all(parts: Parts) -> Parts:
        return Parts([Part(run(p.kernel), p.buffers) for p in parts.parts], parts.scratch)

    return run_all


def _split(parts: Parts) -> Parts:
    return split(parts.parts[0].kernel)


PIPELINE = (
    Pass("inline", "program", inline),
    Pass("cse", "program", cse),
    Pass("hoist", "program", hoist),
    Pass("fission", "program", fission),
    Pass("contract", "program", contract),
    Pass("transform", "program", transform),
    Pass("prune", "program", prune),
    Pass("fuse", "fusion", _fuse),
    Pass("diagonal", "kernel", _each(diagonal)),
    Pass("collapse", "kernel", _each(collapse)),
    Pass("split", "kernel", _split),
    Pass("collapse", "kernel", _each(collapse)),
    Pass("tile", "kernel", _each(tile)),
    Pass("grid", "kernel", _each(grid)),
)

# What becomes of kernels of few elements that are to do for others of their kind.
_SMALL = (
    Pass("diagonal", "kernel", _each(diagonal)),
    Pass("collapse", "kernel", _each(collapse)),
    Pass("orient", "kernel", _each(oriented)),
    Pass("grid", "kernel", _each(plain_grid)),
)

_PROGRAM = [p for p in PIPELINE if p.on == "program"]
_KERNEL = [p for p in PIPELINE if p.on == "kernel"]
(_FUSION,) = (p for p in PIPELINE if p.on == "fusion")
_FUSION_ANY = _FUSION._replace(run=_fuse_any)
_FUSION_AGAIN = _FUSION._replace(run=partial(_fuse, recomputes=True))
# Whether products leave a loop depends on sizes.
_PROGRAM_ANY = [
    p._replace(run=hoist_any) if p.name == "hoist" else p for p in _PROGRAM if p.name != "fission"
]


def simplify(closed: ClosedJaxpr, watch: Watch | None = None, general: bool = False) -> ClosedJaxpr:
    """A program without calls and without what is computed twice or for nothing; made once.

    General ones are the same for arrays of other sizes, wherever they can be.
    """
    memo = closed._memo if watch is None else watch.memo(closed)
    key = "simple for any" if general else "simple"
    found = memo.get(key)
    if found is None:
        found = closed
        for step in _PROGRAM_ANY if general else _PROGRAM:
            found = _run(step, found, watch)
        memo[key] = found
        (found._memo if watch is None else watch.memo(found))[key] = found
    return found


def fuse(
    jaxpr: Jaxpr, watch: Watch | None = None, general: bool = False, recomputes: bool = False
) -> tuple[Fusion, list[Step]]:
    """The steps of a flat program: kernels, and equations that are left to libraries.

    General kernels are the same for arrays of other sizes, wherever they can be; ``recomputes`` is
    whether memory costs more than functions of elements.
    """
    step = _FUSION_ANY if general else _FUSION_AGAIN if recomputes else _FUSION
    return _run(step, jaxpr, watch)


def schedule(kernel: Kernel, watch: Watch | None = None, small: bool = False) -> Parts:
    """Kernels that are run in order instead of one, and the scratch memory they share.

    Small ones stay in one piece that does not depend on how large they are.
    """
    outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
    parts = Parts([Part(kernel, outside)], [])
    for step in _SMALL if small else _KERNEL:
        parts = _run(step, parts, watch)
    return parts


def _run(step: Pass, given: Any, watch: Watch | None) -> Any:
    if watch is None:
        made = step.run(given)
    else:
        begin = perf_counter()
        made = step.run(given)
        watch.passed(step.name, step.on, made, perf_counter() - begin)
    if knobs.thread.verify:
        _verify(step, made)
    return made


def _verify(step: Pass, made: Any) -> None:
    """Check what a pass has made; an error names the pass."""
    try:
        if step.on == "program":
            checks.check_jaxpr(made)
        elif knobs.thread.verify > 1:
            kernels = [s.kernel for s in made[1] if s.kernel] if step.on == "fusion" else []
            kernels += [p.kernel for p in made.parts] if step.on == "kernel" else []
            for kernel in kernels:
                verify(kernel)
    except Exception as error:
        error.add_note(f"after the pass {step.name!r}")
        raise
