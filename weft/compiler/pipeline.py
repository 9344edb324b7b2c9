"""The pipeline: every pass between a staged function and what a backend makes code of, in one list.

Passes on programs take and give a ClosedJaxpr, passes on regions, which are flat programs, a Jaxpr.
Fusion makes steps of a region: kernels, and equations that are left to libraries. The planner makes
nodes of these, or of a loop as a whole; a kernel becomes parts that run in order. What follows
(memory, native code) is not a pass: compiler/plan.py and the backend. A target may bring passes on
programs of its own, which run after those of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.base import knobs
from weft.base.lazy import Late
from weft.base.record import Record
from weft.compiler.attach import attach, offer
from weft.compiler.backend import MIN_LANE_WORK, MIN_STORED_OPS
from weft.compiler.early import overlapping
from weft.compiler.expand import expand
from weft.compiler.fuse import Fusion, Step, fusible
from weft.compiler.in_place import put_off
from weft.compiler.interchange import in_blocks
from weft.compiler.lower import lower
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.contract import contract
from weft.compiler.passes.cse import cse
from weft.compiler.passes.diagonal import diagonal
from weft.compiler.passes.fission import fission
from weft.compiler.passes.grid import grid
from weft.compiler.passes.hoist import ASSUMED_CALLS, hoist
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.compiler.passes.split import Part, Parts, split
from weft.compiler.passes.tile import tile
from weft.compiler.passes.transform import transform
from weft.compiler.watch import UNWATCHED
from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.kernel.kernel import Kernel
from weft.kernel.program import Finish
from weft.kernel.spec import verify

# loaded when a knob asks for it
checks = Late("weft.core.verify")
fix_order = Late("weft.compiler.passes.fix_order")
# loaded for targets that compute again what is cheap
nearer = Late("weft.compiler.nearer")
refine = Late("weft.compiler.refine")
unroll = Late("weft.compiler.unroll")
# loaded for batched loops
compact = Late("weft.compiler.passes.compact")
own = Late("weft.compiler.own_loops")


class Pass(Record):
    """A step of the pipeline: its name, what it works on, the function that does it, and when it is
    asked for. Both are given what the work is for: a target, or a planner.
    """

    name: str
    on: str  # program, region, steps, loop, nodes or kernel; "fusion" makes steps of a region
    run: Callable[[Any, Any], Any]
    asked: Callable[[Any], bool] = lambda context: True


class Around(Record):
    """What the steps of a region are for."""

    target: Any
    results: list[Any]
    donated: Sequence[Any]  # arguments whose memory results may have
    looped: bool  # whether it is inside of a loop


class Plain:
    """A target without wishes of its own."""

    general = recomputes = neutral = own_loops = False
    passes: tuple[Pass, ...] = ()
    min_stored_ops = MIN_STORED_OPS
    fills_lanes = same_rows = False
    marks = ""
    min_lane_work = MIN_LANE_WORK

    def keeps(self, eqn: Any) -> bool:
        return True

    def epilogue(self, eqn: Any, finish: Finish, looped: bool) -> bool:
        return True

    def scatters(self, eqn: Any) -> int:
        return 0

    def outside(self, jaxpr: Jaxpr) -> Jaxpr:
        return jaxpr


PLAIN: Any = Plain()


def _each(run: Callable[[Kernel], Kernel]) -> Callable[[Parts, Any], Parts]:
    """A pass on kernels as one on all the parts of a kernel."""

    def run_all(parts: Parts, _: Any) -> Parts:
        return Parts([Part(run(p.kernel), p.buffers) for p in parts.parts], parts.scratch)

    return run_all


def _compact(closed: ClosedJaxpr, target: Any) -> ClosedJaxpr:
    has_batches = any(eqn.primitive.compacts(eqn.params) for eqn in closed.eqns)
    if not has_batches:
        return closed
    return compact.compact(closed, target, lambda eqn: _is_own(eqn, target))


def _hoist(closed: ClosedJaxpr, target: Any) -> ClosedJaxpr:
    # where sizes are to make no difference, whatever is costly leaves a loop
    times = ASSUMED_CALLS if target.general else 1
    return hoist(closed, times, lambda eqn: _is_own(eqn, target))


def _is_own(eqn: Any, target: Any) -> bool:
    """Whether threads run a batched loop, an element each; nothing then rewrites it."""
    return target.own_loops and eqn.primitive.compacts(eqn.params) and own.has_own_loop(eqn)


def _fuse(jaxpr: Jaxpr, around: tuple[Any, bool]) -> tuple[Fusion, list[Step]]:
    target, looped = around
    # a loop may become one kernel, which updates of its own would be too much for
    scatters = None if looped else target.scatters
    marks = "" if looped else target.marks
    least = target.min_stored_ops
    fusion = Fusion(jaxpr, target.general, target.recomputes, least, scatters, marks)
    return fusion, fusion.plan()


def _alone(run: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A pass that is the same whatever it is for."""
    return lambda given, context: run(given)


PIPELINE = (
    Pass("inline", "program", _alone(inline)),
    Pass("cse", "program", _alone(cse)),
    Pass("fix_order", "program", lambda closed, to: fix_order.fix_order(closed),
         lambda to: knobs.thread.reproducible),
    # the batches that pay are those of one size
    Pass("compact", "program", _compact, lambda to: not to.general),
    Pass("hoist", "program", _hoist),
    # whether products leave a loop depends on sizes
    Pass("fission", "program", _alone(fission), lambda to: not to.general),
    Pass("contract", "program", _alone(contract)),
    Pass("transform", "program", _alone(transform)),
    Pass("prune", "program", _alone(prune)),
    Pass("expand", "region", lambda jaxpr, to: expand(jaxpr, to.general and not to.neutral)),
    Pass("lower", "region", lambda jaxpr, to: lower(jaxpr, to.keeps)),
    Pass("unroll", "region", lambda jaxpr, to: unroll.unroll(jaxpr, fusible),
         lambda to: to.recomputes and not to.general and not knobs.thread.reproducible),
    # a copy of what both sides compute costs more than their arithmetic
    Pass("refine", "region", lambda jaxpr, to: refine.refine(jaxpr, fusible),
         lambda to: to.recomputes and not to.general and not knobs.thread.reproducible),
    Pass("nearer", "region", lambda jaxpr, to: nearer.nearer(jaxpr, fusible),
         lambda to: to.recomputes and not to.general),
    Pass("fuse", "fusion", _fuse),
    Pass("attach", "steps", lambda steps, around: attach(steps, around.results)),
    Pass("offer", "steps", lambda steps, to: offer(steps, to.target, to.looped)),
    Pass("put_off", "steps", lambda steps, to: put_off(steps, to.donated, to.results),
         lambda around: bool(around.donated)),
    Pass("own_loops", "loop", lambda given, planner: own.own_loops(planner, *given),
         lambda planner: planner.target.own_loops),
    Pass("interchange", "loop", lambda given, planner: in_blocks(planner, *given),
         lambda planner: not planner.target.own_loops),
    Pass("overlap", "nodes", overlapping),
    Pass("diagonal", "kernel", _each(diagonal)),
    Pass("collapse", "kernel", _each(collapse)),
    Pass("split", "kernel", lambda parts, _: split(parts.parts[0].kernel)),
    Pass("collapse", "kernel", _each(collapse)),
    Pass("tile", "kernel", _each(tile)),
    Pass("grid", "kernel", _each(grid)),
)  # fmt: skip

_PROGRAM, _REGION, _STEPS, _NODES, _KERNEL = (
    [p for p in PIPELINE if p.on == kind] for kind in "program region steps nodes kernel".split()
)
_FUSION, _LOOP = ([p for p in PIPELINE if p.on == kind] for kind in ("fusion", "loop"))


def simplify(closed: ClosedJaxpr, watch: Any = UNWATCHED, target: Any = PLAIN) -> ClosedJaxpr:
    """A program without calls and without what is computed twice or for nothing; made once."""
    fixed = knobs.thread.reproducible
    known, key = watch.simplified, (target.general, fixed, *[p.name for p in target.passes])
    found = known.get(closed, key)
    if found is None:
        found = known.set(closed, key, _run([*_PROGRAM, *target.passes], closed, target, watch))
        known.set(found, key, found)
    return found


def fuse(
    jaxpr: Jaxpr,
    watch: Any = UNWATCHED,
    target: Any = PLAIN,
    donated: Sequence[Any] = (),
    looped: bool = False,
) -> tuple[Fusion, list[Step]]:
    """The steps of a flat program: kernels, and equations that are left to libraries.

    ``donated`` are arguments whose memory results may have, ``looped`` is whether it is inside of a
    loop.
    """
    jaxpr = _run(_REGION, jaxpr if looped else target.outside(jaxpr), target, watch)
    fusion, steps = _run(_FUSION, jaxpr, (target, looped), watch)
    around = Around(target, fusion.results, donated, looped)
    return fusion, _run(_STEPS, steps, around, watch)


def interchange(planner: Any, eqn: Any, ins: list[int], outs: list[int]) -> list[Any] | None:
    """The nodes of a loop that does all rounds for a block of elements, then the next, or None."""
    return _run(_LOOP, (eqn, ins, outs), planner, planner.watch)


def order(nodes: Sequence[Any], under: Mapping[int, Sequence[int]], watch: Any) -> list[Any]:
    """Nodes of a region in the order in which they run; ``under`` is the memory of views."""
    return _run(_NODES, nodes, under, watch)


def schedule(kernel: Kernel, watch: Any = UNWATCHED) -> Parts:
    """Kernels that are run in order instead of one, and the scratch memory they share."""
    outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
    return _run(_KERNEL, Parts([Part(kernel, outside)], []), None, watch)


def _run(passes: list[Pass], given: Any, context: Any, watch: Any) -> Any:
    """What passes make of something, one after the other."""
    for step in passes:
        if not step.asked(context):
            continue
        since = watch.mark()
        given = step.run(given, context)
        watch.passed(step.name, step.on, given, since)
        if knobs.thread.verify:
            _verify(step, given)
    return given


def _verify(step: Pass, made: Any) -> None:
    """Check what a pass has made; an error names the pass."""
    try:
        if step.on == "program":
            checks.check_jaxpr(made)
        elif knobs.thread.verify > 1:
            steps = made[1] if step.on == "fusion" else made if step.on == "steps" else []
            kernels = [s.kernel for s in steps if s.kernel]
            kernels += [p.kernel for p in made.parts] if step.on == "kernel" else []
            for kernel in kernels:
                verify(kernel)
    except Exception as error:
        error.add_note(f"after the pass {step.name!r}")
        raise
