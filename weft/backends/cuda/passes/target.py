"""A GPU as a target of planning: which operations it has routines for, and passes of its own."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.loops import is_small
from weft.backends.cuda.passes.attention import attention
from weft.backends.cuda.passes.attention_decode import decode
from weft.backends.cuda.passes.attention_packed import pack
from weft.backends.cuda.passes.attention_views import straighten
from weft.backends.cuda.passes.boxes import boxes
from weft.backends.cuda.passes.factors import factors
from weft.backends.cuda.passes.fresh import fresh
from weft.backends.cuda.passes.orders import orders
from weft.backends.cuda.passes.rematerialise import rematerialise
from weft.backends.cuda.passes.special import inner_products, special
from weft.backends.cuda.passes.triangles import triangles
from weft.backends.cuda.routines.attention import prepare, row_supported, supported
from weft.backends.cuda.routines.base import deterministic
from weft.backends.cuda.routines.epilogues import offer
from weft.backends.cuda.routines.scatter import MIN_FUSED, added_at_a_time
from weft.backends.cuda.routines.table import keeps
from weft.base import knobs
from weft.base.sizes import plain
from weft.compiler.backend import Target
from weft.compiler.numbers import with_numbers
from weft.compiler.passes.one_hot import Costs, one_hot
from weft.compiler.pipeline import Pass, simplify
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.kernel.program import Finish

# Roughly those of an H200.
COSTS = Costs(2.5e12, 4e13, 2.5e-6, 4e-6, MIN_FUSED)


class GpuTarget(Target):
    """What planning asks of a GPU."""

    general, neutral, recomputes, own_loops, marks = False, True, True, True, "all"
    # on an H200, writing and reading a float32 takes as long as about 50 instructions on it
    min_stored_ops = 96
    passes: tuple[Pass, ...] = (
        Pass("decode", "program", lambda closed, _: decode(closed, row_supported)),
        Pass("attention", "program", lambda closed, _: attention(closed, supported)),
        Pass("straighten", "program", lambda closed, _: straighten(closed)),
        Pass("pack", "program", lambda closed, _: pack(closed)),
        Pass(
            "one_hot",
            "program",
            lambda closed, _: one_hot(closed, COSTS, deterministic()),
            lambda to: not knobs.thread.reproducible,
        ),
        Pass("special", "program", lambda closed, _: special(closed)),
        Pass(
            "factors",
            "program",
            lambda closed, _: factors(closed),
            lambda to: not knobs.thread.reproducible,
        ),
        Pass("orders", "program", lambda closed, _: orders(closed)),
        Pass("fresh", "program", lambda closed, _: fresh(closed)),
        Pass("triangles", "program", lambda closed, _: triangles(closed)),
        Pass("boxes", "program", lambda closed, _: boxes(closed)),
    )

    def keeps(self, eqn: Any) -> bool:
        return keeps(eqn)

    def epilogue(self, eqn: Any, finish: Finish, looped: bool) -> Any:
        # a loop of small products becomes one kernel, where what follows is no epilogue
        return None if looped and is_small(eqn) else offer(eqn, finish)

    def scatters(self, eqn: Any) -> int:
        return added_at_a_time(eqn)

    def outside(self, jaxpr: Jaxpr) -> Jaxpr:
        return inner_products(jaxpr)

    def simplify(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """A program in its simplest form, with attention as one operation."""
        found = simplify(closed, target=self)
        _prepare_all(found)
        return found

    def exact(self) -> GpuTarget:
        return self

    def block(self, size: int, values: int) -> int:
        return 1

    def blocks(self, blocks: Any) -> None:
        return None


class SavingTarget(GpuTarget):
    """What planning asks of a GPU whose memory is short."""

    passes = (
        *GpuTarget.passes,
        Pass("rematerialise", "program", lambda closed, _: rematerialise(closed)),
    )


class NamedTarget(GpuTarget):
    """What planning of programs in named sizes asks of a GPU.

    Whether there is a routine for an operation is asked for the sizes at hand, and seen again for
    those of an instance.
    """

    general, marks = True, ""
    passes = (
        Pass("decode", "program", lambda closed, _: decode(closed, row_supported)),
        Pass("attention", "program", lambda closed, _: attention(closed, supported)),
        Pass("straighten", "program", lambda closed, _: straighten(closed)),
    )

    def keeps(self, eqn: Any) -> bool:
        return keeps(with_numbers(eqn, _at_hand))

    def epilogue(self, eqn: Any, finish: Finish, looped: bool) -> None:
        return None

    def scatters(self, eqn: Any) -> int:
        return 0

    def outside(self, jaxpr: Jaxpr) -> Jaxpr:
        return jaxpr

    def simplify(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        return simplify(closed, target=self)


def _at_hand(x: Any) -> Any:
    """A value with the numbers at hand in place of sizes."""
    if isinstance(x, tuple):
        return tuple.__new__(type(x), [_at_hand(y) for y in x])
    return plain(x)


@per_program
def _prepare_all(closed: ClosedJaxpr) -> None:
    for eqn in closed.jaxpr.eqns:
        prepare(eqn)
