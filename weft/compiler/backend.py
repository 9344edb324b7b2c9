"""What planning asks of a backend: which operations it can do together with others."""

from __future__ import annotations

from typing import Any, Protocol

from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.kernel.program import Blocks, Finish

# Operations from which on values that several kernels need are written, on most targets.
MIN_STORED_OPS = 12
# Operations of a round of a batched loop from which on smaller batches pay, on most targets.
MIN_LANE_WORK = 1 << 20


class Target(Protocol):
    """What planning asks of a backend.

    An offer is whatever the backend wants to remember of its answer; it comes back in the node.
    """

    general: bool  # whether code is to do for arrays of other sizes too
    recomputes: bool = False  # whether functions of elements cost less than keeping them in memory
    passes: tuple[Any, ...] = ()  # passes on programs of its own, run after those of all targets
    # operations from which on values that several kernels need are written, not computed again
    min_stored_ops: int = MIN_STORED_OPS
    fills_lanes: bool = False  # whether elements of loops in blocks end one by one
    same_rows: bool = (
        False  # whether sums and products of a row do not depend on how many there are
    )
    min_lane_work: int = MIN_LANE_WORK
    own_loops: bool = False  # whether threads run small elements of batched loops to their own end
    # what kernels may note of what they compute: "all" that holds anywhere in it, or only "checks"
    marks: str = ""
    neutral: bool  # whether routines for some operations are turned off, see ``keeps``

    def keeps(self, eqn: Any) -> bool:
        """Whether an operation that isn't fused stays one, for a routine of the backend's own or
        its reference; else it is lowered to kernels."""

    def scatters(self, eqn: Any) -> int:
        """Elements that a kernel adds at a time which computes the updates of a scatter; 0 where
        it is a routine, which reads them."""
        return 0

    def outside(self, jaxpr: Jaxpr) -> Jaxpr:
        """A program that is outside of loops, which have other forms of some operations."""
        return jaxpr

    def exact(self) -> Target:
        """The same machine, for code of sizes that are the same for all arrays."""

    def simplify(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """A program without calls, shared and pruned."""

    def epilogue(self, eqn: Any, finish: Finish, looped: bool) -> Any:
        """An offer for an operation with an epilogue, or None where they stay apart; ``looped`` is
        whether it is inside of a loop."""

    def block(self, size: int, values: int) -> int:
        """Elements that a loop is done for at a time, so that values of that size, so many and
        some more, are in registers."""

    def blocks(self, blocks: Blocks) -> Any:
        """An offer for a loop that is done block by block, or None."""
