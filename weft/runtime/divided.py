"""Programs divided over processes, and over the parts of sums, before clients run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core import processes
from weft.core.sharding import NamedSharding
from weft.core.trace import state, typeof
from weft.division import marks
from weft.runtime import programs, site, spanning, spread
from weft.runtime.array import ArrayImpl, as_placed, as_sum
from weft.runtime.client import HOST_MEMORY, NONE, Donated, Runner
from weft.runtime.patterns import CallPattern, Pattern
from weft.runtime.places import placement

# Whether some of the arrays of a computation belong to several processes.
spans = spanning.spans


class Processes(Runner):
    """Programs that several processes run together, each on its part of the arrays."""

    memory = HOST_MEMORY

    def call(
        self, closed: Any, args: Sequence[Any], places: Any = None, donated: Donated = NONE
    ) -> list[Any]:
        name = getattr(closed.debug_info, "func_name", "a program")
        return self._called(closed, args, name, () if donated.refs else donated.flags)

    def evaluate(
        self, primitive: Any, args: Sequence[Any], params: dict[str, Any], places: Any = None
    ) -> Any:
        closed = programs.of_operation(primitive, [typeof(x) for x in args], params)
        found = self._called(closed, args, params.get("name", primitive.name))
        return found if primitive.multiple_results else found[0]

    def _called(
        self, closed: Any, args: Sequence[Any], name: str, donated: tuple[bool, ...] = ()
    ) -> list[Any]:
        form = spanning.form_of(closed, args, name, site.says_where(closed))
        given, client = form.memory(args), form.client
        if client.memory.is_host:
            return form.results(client.call(form.program, given))
        places = (client.home(),) * len(form.program.out_avals)
        # memory that arguments share with what is given is given up with them
        lent = [
            (x, own)
            for x, own, gone in zip(args, given, donated, strict=False)
            if gone and type(x) is ArrayImpl and own._owner is x._owner
        ]
        for x, _ in lent:
            x.delete()
        try:
            return form.results(client.call(form.program, given, places, Donated(donated)))
        finally:
            for x, own in lent:  # those whose memory was not taken
                x._owner = own._owner

    def remember(self, pattern: Pattern, places: Any = None) -> bool:
        """Let native code answer calls on arrays of the host that are where the program takes
        them."""
        if type(pattern) is not CallPattern:
            return True
        closed, leaves = pattern.closed, pattern.leaves
        form = spanning.form_of(closed, leaves, "a program", site.says_where(closed))
        if not form.client.memory.is_host or any(type(x) is not ArrayImpl for x in leaves):
            return True
        if any(x._type.placement is not p for x, p in zip(leaves, form.ins, strict=True)):
            return True
        own = pattern._replace(closed=form.program, donated=(), hoisted=(), written=())
        return form.client.remember(own, tuple(form.types))


class Sums(Runner):
    """Programs that leave sums over mesh axes to be made, run on the parts of these."""

    memory = HOST_MEMORY

    def call(
        self, closed: Any, args: Sequence[Any], places: Any = None, donated: Donated = NONE
    ) -> list[Any]:
        program = site.on_parts(closed)
        given = [x._parts() if type(x) is ArrayImpl and x._is_sum else x for x in args]
        name = getattr(closed.debug_info, "func_name", "a program")
        if processes.count > 1 and spans(given, site.says_where(program)):
            return self._as_sums(closed, PROCESSES.call(program, given))
        where = site.of_program(program, given, name)
        return self._as_sums(closed, where.client.call(program, given, where.places))

    def _as_sums(self, closed: Any, found: list[Any]) -> list[Any]:
        """Results with those as sums that are left to be made."""
        made = []
        for i, (y, a) in enumerate(zip(found, closed.out_avals, strict=True)):
            y = as_sum(y, a) if marks.axes_of_sum(a) else y
            there = getattr(y, "sharding", None)
            if type(y) is ArrayImpl and marks.reduced(a) and isinstance(there, NamedSharding):
                spec = there.spec.update(reduced=marks.reduced(a))
                y = as_placed(y, placement(there.with_spec(spec), True))
            if isinstance(there, NamedSharding) and there.num_devices > 1:
                own = spread.kept(closed, there.mesh).get(i)
                y = y if own is None else as_placed(y, placement(there.with_spec(own), True))
            made.append(y)
        return made

    def evaluate(
        self, primitive: Any, args: Sequence[Any], params: dict[str, Any], places: Any = None
    ) -> Any:
        closed = primitive.callee(params)
        if closed is None:
            closed = programs.staged(primitive, [typeof(x) for x in args], params)
        found = self.call(closed, args)
        if primitive.per_process is not None:
            there = [placement(s, True) for s in primitive.shardings(params) if s is not None]
            if len(there) == len(found):
                found = [as_placed(y, where) for y, where in zip(found, there, strict=True)]
        return found if primitive.multiple_results else found[0]

    def remember(self, pattern: Pattern, places: Any = None) -> bool:
        return True  # Python takes sums apart


PROCESSES, SUMS = Processes(), Sums()


def leaves_sums(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether an operation takes sums that are left to be made, or makes some."""
    closed = primitive.callee(params)
    if closed is None:
        said = [params.get(key) for key in ("dst_sharding", "out_sharding", "sharding")]
        given = [*[getattr(x, "sharding", None) for x in args], *said]
        if not state.sums and not any(map(_is_sum, given)):
            return False
        closed = programs.staged(primitive, [typeof(x) for x in args], params)
    return site.has_sums(closed)


def _is_sum(sharding: Any) -> bool:
    return isinstance(sharding, NamedSharding) and bool(sharding.spec.unreduced)
