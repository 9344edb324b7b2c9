"""Programs from Jaxprs: which kernel or operation runs when, on which memory.

A region is a Jaxpr as a list of nodes, and its variables are slots. How long the memory of each is
in use, and how a node becomes code, is for the backend to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from weft.base.sizes import Size
from weft.compiler.analysis.cost import operations
from weft.compiler.fuse import Step
from weft.compiler.in_place import (
    bind_sources,
    copies_to_itself,
    donations,
    free_after,
    last_uses,
    relabelled,
    renewed,
)
from weft.compiler.lower import kernels_of
from weft.compiler.pipeline import fuse, interchange
from weft.compiler.slots import Slots
from weft.compiler.watch import UNWATCHED, Watch
from weft.core.avals import AbstractToken
from weft.core.interpret import constant_value, has_data, literal_value, storage_dtype
from weft.core.jaxpr import ClosedJaxpr, Literal
from weft.kernel.program import (
    Branch,
    Collective,
    Copy,
    For,
    Host,
    Launch,
    Op,
    Point,
    Program,
    Result,
    Slot,
    Swap,
    While,
)

if TYPE_CHECKING:
    from weft.compiler.backend import Target
    from weft.kernel.lowering import Lowering

# Bytes from which on a value that goes round in a loop is in memory, where it may stay.
MIN_MEMORY_CARRY_BYTES = 1 << 13
# Rounds that a loop is taken to have where their number isn't known.
USUAL_ROUNDS = 16


class Unplannable(Exception):
    """A program with values that are not memory; it is run equation by equation."""


def size_of(aval: Any) -> int:
    """Bytes of a value."""
    if type(aval) is AbstractToken:
        raise Unplannable("tokens are not memory")
    return prod(aval.shape) * storage_dtype(aval.dtype).itemsize


class Planner(Slots):
    """One program while it is made."""

    def __init__(self, target: Target, watch: Watch | None = None) -> None:
        super().__init__()
        self.target = target
        self.watch: Any = watch or UNWATCHED
        self.given: dict[int, Any] = {}  # constants of the program itself, by number
        self.loops = 0  # loops around what is being planned
        self.taken: dict[int, int] = {}  # donated arguments by the slots whose part they take
        self.stayed: set[int] = set()  # targets whose values stayed in the slot they were read from

    def program(self, closed: ClosedJaxpr, donated: Sequence[bool] = ()) -> Program:
        """The whole of a function; results may have the memory of donated arguments."""
        closed = self.target.simplify(closed)
        jaxpr = closed.jaxpr
        args = [self.slot("arg", size_of(v.aval), i) for i, v in enumerate(jaxpr.invars)]
        env: dict[Any, int] = dict(zip(jaxpr.invars, args, strict=True))
        self._bind_constants(closed, env)
        results: list[Result] = []
        first: dict[Any, int] = {}
        given = {v: Result("arg", i) for i, v in enumerate(jaxpr.invars)}
        for i, x in enumerate(jaxpr.outvars):
            if type(x) is Literal:
                slot = self.constant(literal_value(x))
                results.append(Result("const", self.slots[slot].what))
            elif x in given:
                results.append(given[x])
            elif x in env:
                results.append(Result("const", self.slots[env[x]].what))
            elif x in first:
                results.append(Result("same", first[x]))
            else:
                first[x] = i
                slot = self.slot("out", size_of(x.aval), i)
                results.append(Result("slot", slot))
        bound = {x: results[i].number for x, i in first.items()}
        given_up = [v for v, d in zip(jaxpr.invars, donated, strict=False) if d]
        nodes = self._steps(jaxpr, env, bound, {}, given_up)
        for i, (kind, slot) in enumerate(results):
            if kind == "slot" and slot in self.taken:
                results[i] = Result("taken", self.taken[slot])
                self.slots[slot] = Slot("view", 0)
        return Program(self.slots, self.under, self.constants, self.given, tuple(nodes), results)

    def _bind_constants(self, closed: ClosedJaxpr, env: dict[Any, int]) -> None:
        for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            if not has_data(v.aval):
                raise Unplannable
            # by identity: a plan does not depend on what arrays hold
            number = self.known_constants.get(("given", id(c)))
            if number is None:
                number = self._add_constant(constant_value(c, v.aval), ("given", id(c)))
                self.given[self.slots[number].what] = c
            env[v] = number

    # --- regions ----------------------------------------------------------------------------------

    def region(
        self,
        closed: ClosedJaxpr,
        given: list[int],
        targets: list[int],
        pairs: list[tuple[int, int]] | tuple[()] = (),
    ) -> list[Any]:
        """Nodes that compute a program from slots into slots.

        ``pairs`` are slots that may be overwritten, each with the target of what follows it; where
        that is the same memory updated, it stays where it is.
        """
        closed = self.target.simplify(closed)
        jaxpr = closed.jaxpr
        env: dict[Any, int] = dict(zip(jaxpr.invars, given, strict=True))
        self._bind_constants(closed, env)
        bound: dict[Any, int] = {}
        for x, target in zip(jaxpr.outvars, targets, strict=True):
            if type(x) is not Literal and x not in env:
                bound.setdefault(x, target)
        nodes = self._steps(jaxpr, env, bound, dict(pairs))
        used = set(env.values())  # a value on the way to a result may be in the result's place
        for x, target in zip(jaxpr.outvars, targets, strict=True):
            source = self.constant(literal_value(x)) if type(x) is Literal else env[x]
            if (source, target) in pairs and bound.get(x) == target and target not in used:
                self.stayed.add(target)
            elif source != target:
                nodes.append(Copy(target, source, self.slots[target].size))
        return nodes

    def _steps(
        self,
        jaxpr: Any,
        env: dict[Any, int],
        bound: dict[Any, int],
        pairs: Mapping[int, int],
        donated: Sequence[Any] = (),
    ) -> list[Any]:
        """Nodes of a flat program.

        ``bound`` says which variables belong in which slots, ``pairs`` which of the slots that are
        given may be overwritten, and where what follows them belongs; ``donated`` are arguments
        whose memory results may have.
        """
        for eqn in jaxpr.eqns:
            if not all(has_data(x.aval) for x in [*eqn.invars, *eqn.outvars]):
                raise Unplannable
        nodes: list[Any] = []
        fusion, steps = fuse(jaxpr, self.watch, self.target, donated, self.loops > 0)
        last = last_uses(steps, jaxpr.outvars)
        copies = relabelled(steps)
        if self.target.recomputes:
            # copies that are not made: nothing may be written over what they share
            for v, source in copies.items():
                if v not in bound:
                    last[v] = last[source] = len(steps)
        # in small loops values are in registers
        least = MIN_MEMORY_CARRY_BYTES if self.loops else 1
        if donated:
            self._donate(donations(steps, last, bound, donated), env, bound)
        fixed = [env[v] for v in donated]
        bind_sources(steps, last, bound, least, fixed)
        own: set[int] = set()
        given = set(env.values()).difference(pairs, fixed)  # nothing here writes to these

        def allowed(v: Any, source: Any) -> bool:
            """Whether a result may be made in the memory of what nothing else reads."""
            slot: Any = env.get(source)  # what a kernel is attached to is nowhere in memory
            if v in bound:
                return slot == bound[v] or pairs.get(slot) == bound[v]
            # what comes from outside of the region may be needed again, if only by the next round
            return slot in pairs or (slot in own and self.slots[slot].role == "temp")

        for i, step in enumerate(steps):
            self.watch.begin(fusion, step)
            # a copy is not needed where nothing reads what is copied any more
            if step.source is not None and free_after(steps, i, last.get(step.source, i)):
                if allowed(step.writes[0], step.source):
                    env[step.writes[0]] = env[step.source]
                    self.watch.end([])
                    continue
            if len(step.writes) == 1 and step.writes[0] in copies:
                (v,) = step.writes
                slot = env.get(copies[v])
                if (slot in given or (slot in own and self.target.recomputes)) and v not in bound:
                    env[v] = slot
                    self.watch.end([])
                    continue
            if step.finish is None or getattr(step.offer, "overwrites", True):
                for v, source in renewed(steps, i, last, least, allowed).items():
                    env[v] = env[source]
            for v in step.writes:
                target = bound.get(v)
                if v in env:
                    continue
                if target is None:
                    target = self.slot("temp", size_of(v.aval), v.aval)
                    own.add(target)
                env[v] = target
            if step.finish is not None:
                made = [self._with_epilogue(step, env)]
            elif step.kernel is not None:
                made = self._kernel(step, env)
            else:
                made = self._equation(step.eqn, env)
            self.watch.end(made)
            nodes += made
        return nodes

    def _donate(self, found: dict[int, Any], env: dict[Any, int], bound: dict[Any, int]) -> None:
        """Have results made in the memory of donated arguments."""
        for v, slot in bound.items():
            if slot in found:
                bound[v] = env[found[slot]]
        self.taken = {slot: self.slots[env[v]].what for slot, v in found.items()}

    def _kernel(self, step: Step, env: dict[Any, int]) -> list[Any]:
        slots = [self._slot_of(v, env) for v in step.buffers]
        if copies_to_itself(step, slots):
            return []
        assert step.kernel is not None
        return [Launch(step.kernel, tuple(slots), tuple(env[v] for v in step.writes))]

    def _with_epilogue(self, step: Step, env: dict[Any, int]) -> Op:
        """The node of an operation and its epilogue."""
        eqn, finish = step.eqn, step.finish
        assert eqn is not None and finish is not None
        ins = [self._slot_of(x, env) for x in eqn.invars]
        # what the buffer for the result stands for is nowhere in memory as a whole
        slots = [
            -1 if i == finish.buffer else self._slot_of(v, env) for i, v in enumerate(step.buffers)
        ]
        writes = [env[v] for v in step.writes]
        return Op(eqn, tuple(ins), tuple(writes), finish, tuple(slots), step.offer)

    def _slot_of(self, x: Any, env: dict[Any, int]) -> int:
        return self.constant(literal_value(x)) if type(x) is Literal else env[x]

    def _equation(self, eqn: Any, env: dict[Any, int]) -> list[Any]:
        if not eqn.effects and not any(size_of(v.aval) for v in eqn.outvars):
            return []
        ins = [self._slot_of(x, env) for x in eqn.invars]
        outs = [env[v] for v in eqn.outvars]
        if eqn.primitive.nodes:
            found = interchange(self, eqn, ins, outs) if eqn.primitive.nodes == "loop" else None
            return eqn.primitive.plan(self, eqn, ins, outs) if found is None else found
        if eqn.primitive.collective:
            return [Collective(eqn, tuple(ins), tuple(outs))]
        if not eqn.effects and not self.target.keeps(eqn):
            lowered = kernels_of(eqn)
            if lowered is not None:
                return self._lowered(lowered, ins, outs)
        return [(Host if eqn.effects else Op)(eqn, tuple(ins), tuple(outs))]

    def _lowered(self, lowered: Lowering, ins: list[int], outs: list[int]) -> list[Any]:
        """The kernels that an operation is lowered to."""
        constants = [self.constant(c) for c in lowered.constants]
        scratch = [self.slot("temp", b.size * b.dtype.itemsize) for b in lowered.scratch]
        slots = [*ins, *outs, *constants, *scratch]
        nodes = []
        for kernel, buffers in lowered.kernels:
            own = [slots[i] for i in buffers]
            writes = [s for s, b in zip(own, kernel.buffers, strict=False) if b.role == "out"]
            nodes.append(Launch(kernel, tuple(own), tuple(writes)))
        return nodes

    # --- control flow -----------------------------------------------------------------------------

    def branch(self, eqn: Any, ins: list[int], outs: list[int]) -> list[Any]:
        """One of several regions, by an index."""
        index, *operands = ins
        regions = []
        for branch in eqn.params["branches"]:
            regions.append(tuple(self.region(branch, operands, outs)))
        size = size_of(eqn.invars[0].aval)
        return [Branch(index, size, tuple(regions), (*operands, *outs))]

    def _carry(self, init: int, phases: tuple[int, int] | None = None) -> tuple[int, int, list]:
        """Two views that a loop reads and writes in turn, and the nodes that start them."""
        size = self.slots[init].size
        first, second = phases or (self.slot("temp", size), self.slot("temp", size))
        now, after = self.view(first, second), self.view(first, second)
        return now, after, [Point(now, first), Point(after, second), Copy(now, init, size)]

    def _unneeded(self, nodes: list[Any], view: int) -> list[Any]:
        """Nodes without the view of a second place that nothing is written to."""
        return [x for x in nodes if not (isinstance(x, Point) and x.view == view)]

    def repeat(self, params: Any, ins: list[int], outs: list[int]) -> list[Any]:
        """A loop that goes on as long as a condition holds."""
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        cond_consts, body_consts = ins[:n_cond], ins[n_cond : n_cond + n_body]
        body = self.target.simplify(params["body_jaxpr"])
        nodes: list[Any] = []
        reads, writes, swaps = [], [], []
        for i, init in enumerate(ins[n_cond + n_body :]):
            if body.jaxpr.outvars[i] is body.jaxpr.invars[n_body + i]:
                reads.append(init)
                writes.append(init)
                continue
            now, after, start = self._carry(init)
            nodes += start
            reads.append(now)
            writes.append(after)
            swaps.append((now, after))
        inside = len(self.slots)
        flag = self.slot("temp", 1)
        self.loops += 1
        condition = self.region(params["cond_jaxpr"], [*cond_consts, *reads], [flag])
        inner = self.region(body, [*body_consts, *reads], writes, swaps)
        self.loops -= 1
        inner += [Swap(*pair) for pair in swaps if pair[1] not in self.stayed]
        for now, after in swaps:
            if after in self.stayed:
                self.under[now] = self.under[now][:1]
                nodes = self._unneeded(nodes, after)
        uses = self._used([flag, *reads, *writes, *ins])
        nodes.append(While(tuple(condition), flag, tuple(inner), uses, inside))
        for now, out in zip(reads, outs, strict=True):
            nodes.append(Copy(out, now, self.slots[out].size))
        return nodes

    def scan(self, params: Any, ins: list[int], outs: list[int]) -> list[Any]:
        """A loop of a known number of rounds, over the rows of arrays."""
        n_consts, n_carry, trips = params["num_consts"], params["num_carry"], params["length"]
        consts, init = ins[:n_consts], ins[n_consts : n_consts + n_carry]
        body = self.target.simplify(params["jaxpr"])
        nodes: list[Any] = []
        reads, writes, swaps, copies = [], [], [], []
        ends: dict[int, int] = {}
        for i, (start, out) in enumerate(zip(init, outs, strict=False)):
            if body.jaxpr.outvars[i] is body.jaxpr.invars[n_consts + i]:
                reads.append(start)
                writes.append(start)
                copies.append((out, start))
                continue
            # After an even number of trips the values are back where they began.
            if type(trips) is Size:  # it isn't known where they end
                now, after, begun = self._carry(start)
                copies.append((out, now))
            else:
                other = self.slot("temp", self.slots[start].size)
                phases = (out, other) if trips % 2 == 0 else (other, out)
                now, after, begun = self._carry(start, phases)
                ends[now] = out
            nodes += begun
            reads.append(now)
            writes.append(after)
            swaps.append((now, after))
        slices = []
        for base in [*ins[n_consts + n_carry :], *outs[n_carry:]]:
            view = self.view(base)
            stride = self.slots[base].size // trips if trips else 0
            self.slots[view] = Slot("view", stride)
            slices.append((view, base, stride))
        n_xs = len(ins) - n_consts - n_carry
        xs, ys = [s[0] for s in slices[:n_xs]], [s[0] for s in slices[n_xs:]]
        inside = len(self.slots)
        self.loops += 1
        inner = self.region(body, [*consts, *reads, *xs], [*writes, *ys], swaps)
        self.loops -= 1
        inner += [Swap(*pair) for pair in swaps if pair[1] not in self.stayed]
        for now, after in swaps:
            if after in self.stayed:  # there is no other place it could end in
                if now not in ends:
                    self.under[now] = self.under[now][:1]
                    nodes = self._unneeded(nodes, after)
                    continue
                out = ends[now]
                self.under[now] = (out,)
                nodes = [_pointed(node, now, out) for node in nodes]
                nodes = self._unneeded(nodes, after)
        uses = self._used([*reads, *writes, *xs, *ys, *ins, *outs])
        work = 0.0 if swaps or type(trips) is Size else operations(body.jaxpr, USUAL_ROUNDS)
        whole = For(trips, params["reverse"], tuple(slices), tuple(inner), uses, inside, work)
        if type(trips) is Size or trips:  # writers of loops count on a first round
            nodes.append(whole)
        for out, start in copies:
            nodes.append(Copy(out, start, self.slots[out].size))
        return nodes

    def _used(self, slots: list[int]) -> tuple[int, ...]:
        """Slots without views of a second place that is not needed."""
        return tuple(dict.fromkeys(s for s in slots if s not in self.stayed))


def _pointed(node: Any, view: int, base: int) -> Any:
    """A node, or where it makes a view point somewhere, the one that makes it point at ``base``."""
    return Point(view, base) if isinstance(node, Point) and node.view == view else node
