"""The processor as a client: programs compiled to native code, and calls that native code answers.

What loads the compiler is imported when a program is first compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from weft.backends.llvm.native import processor
from weft.base import checking
from weft.base.cores import threads, usable_cores
from weft.base.lazy import Late
from weft.core.jaxpr import ClosedJaxpr
from weft.core.trace import state, typeof
from weft.runtime import policy
from weft.runtime.array import ArrayImpl
from weft.runtime.client import NONE, Donated, Told
from weft.runtime.clients import HostClient, boxed, to_numpy
from weft.runtime.patterns import OperationPattern, Pattern
from weft.runtime.site import is_away

# programs compiled and called; calls answered natively; programs in named sizes; what became of a
# program; elements that a test picks
native = Late("weft.backends.cpu.calls.native")
dispatch = Late("weft.backends.llvm.calls.dispatch")
instances = Late("weft.backends.cpu.calls.instances")
studies = Late("weft.backends.cpu.calls.study")
selection = Late("weft.backends.cpu.calls.selection")


class Cpu(HostClient):
    """The processor."""

    learns = True

    def about(self) -> dict[str, str]:
        count, cores = threads(), usable_cores()
        told = {
            "processor": f"{processor.architecture()}, vectors of {processor.vector_bits()} bits",
            "threads": f"{count} of {cores} usable cores",
        }
        works = dispatch.supported()
        told["native code"] = "yes" if works else "no: NumPy computes everything, slowly"
        return told

    def prepare(self, wholly: bool = False, own: bool = False) -> None:
        """Have LLVM loaded, for a program that is about to be compiled.

        ``wholly`` loads the compiler beside it, and what most programs of users need besides;
        for a function of weft's ``own``, which may never be called, not that.
        """
        if wholly:
            dispatch.begin()
        native.prepare()
        if wholly and not own:
            native.load_products()

    def is_loaded(self) -> bool:
        """Whether native code can answer calls by now."""
        return dispatch.is_loaded()

    # --- programs ---------------------------------------------------------------------------------

    def run(self, closed: ClosedJaxpr, args: Sequence[Any], donated: Donated = NONE) -> list[Any]:
        return native.call_program(closed, args, donated)  # type: ignore[no-any-return]

    def operation(self, primitive: Any, args: Any, avals: Any, out: Any, params: Any) -> Any:
        if primitive.callee(params) is not None:
            return native.call_callee(primitive, args, params)
        if not state.axis_env and policy.is_native(primitive, avals, out, params):
            found = native.call_primitive(primitive, args, avals, params)
            if found is not None:
                return found if primitive.multiple_results else found[0]
        if primitive.nodes == "loop" and primitive.rounds(params) is None:
            return self._run_while(primitive, args, avals, params)
        return self.by_reference(primitive, args, avals, out, params)

    def _run_while(self, primitive: Any, args: Any, avals: Any, params: dict[str, Any]) -> Any:
        """A loop of unknown length: some rounds by the interpreter, the rest compiled."""
        body, condition = params["body_jaxpr"], params["cond_jaxpr"]
        rounds = None  # all of them
        if not primitive.eqn_effects(avals, params):
            rounds = 0 if checking.asked() else policy.interpreted_rounds(condition, body)
        if rounds == 0:
            return native.call_once(primitive, args, avals, params)
        values = [to_numpy(x, a) for x, a in zip(args, avals, strict=True)]
        with np.errstate(all="ignore"):
            carry, done = primitive.some_rounds(values, params, rounds)
        found = [boxed(v, a, True) for v, a in zip(carry, body.out_avals, strict=True)]
        if done:
            return found
        rest = [*args[: len(args) - len(found)], *found]
        return native.call_once(primitive, rest, avals, params)

    def executable(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Any:
        return native.compile_program(closed, donated)

    def study(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Any:
        return studies.study(closed, donated)

    def told(
        self, closed: ClosedJaxpr, name: str, traced: float, args: Sequence[Any] | None = None
    ) -> Told:
        return studies.Study(closed).told(name, traced, args)

    def generalise(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """A program that is not the user's own, to be compiled for arrays of many sizes at once."""
        return native.generalise(closed)

    def compile_eagerly(self, closed: ClosedJaxpr) -> bool:
        """Have the code of an eager operation, at the expense of those to come; False where memory
        does not allow it."""
        began = perf_counter()
        try:
            native.compile_program(closed)
        except MemoryError:
            return False
        policy.account.charge(began)
        return True

    # --- native calls -----------------------------------------------------------------------------

    def remember(self, pattern: Pattern, places: Any = None) -> bool:
        if places is not None and any(map(is_away, pattern.operands)):
            return True
        began = perf_counter()
        try:
            found = native.remember(pattern, places)
        except MemoryError:
            return False
        if type(pattern) is OperationPattern:
            policy.account.charge(began)
        return found

    def hits(self, function: Any) -> int:
        """How often native code has answered calls of a function."""
        return native.entries.hits(function) if hasattr(function, "_entries") else 0

    # --- programs in named sizes ------------------------------------------------------------------

    def shape_generic(self, closed: ClosedJaxpr, names: Sequence[str], guards: Any) -> Any:
        """A program in named sizes, which gives instances for numbers."""
        return instances.ShapeGeneric(closed, names, guards)

    def call_instance(self, instance: Any, leaves: Sequence[Any]) -> list[Any]:
        """The results of an instance of a program in named sizes."""
        settled = native.settled
        return instance.call(  # type: ignore[no-any-return]
            *[x if type(x) is ArrayImpl else settled(x, typeof(x)) for x in leaves]
        )

    def remember_instance(self, pattern: Pattern, avals: Any, instance: Any) -> None:
        """Let native code answer calls like one by an instance, for arguments of some types."""
        native.entries.add(pattern, instance, avals)

    # --- elements that a test picks ---------------------------------------------------------------

    def selects(self, count: int) -> bool:
        """Whether elements are picked natively among so many."""
        return count >= policy.LARGE_ELEMENTS and selection.supported()

    def select(self, test: str, source: np.ndarray, wanted: list[Any]) -> Any:
        """What is wanted of the elements that a test picks; None where NumPy finds it as soon."""
        return selection.select(test, source, wanted) if self.selects(source.size) else None


def clients() -> list[Cpu]:
    """The one client that there is."""
    return [Cpu()]
