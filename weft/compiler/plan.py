"""Programs from Jaxprs: which native function runs when, on which memory.

A region is a Jaxpr as a list of nodes. Its variables are slots; those of planned memory live from
the node that first writes them to the last that reads them, and share one arena where their lives
do not meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.compiler.arena import arrange
from weft.compiler.fuse import Step
from weft.compiler.in_place import (
    bind_sources,
    copies_to_itself,
    donations,
    free_after,
    last_uses,
    put_off,
    relabelled,
    renewed,
)
from weft.compiler.interchange import in_blocks
from weft.compiler.pipeline import fuse
from weft.compiler.slots import Slots
from weft.core.avals import AbstractToken
from weft.core.interpret import constant_value, has_data, literal_value, storage_dtype
from weft.core.jaxpr import ClosedJaxpr, DropVar, Literal
from weft.kernel.program import (
    Branch,
    Copy,
    Finish,
    For,
    Host,
    HostCall,
    Launch,
    Lowered,
    Place,
    Point,
    Program,
    Result,
    Slot,
    Swap,
    Type,
    While,
)

if TYPE_CHECKING:
    from weft.compiler.backend import Piece, Target
    from weft.compiler.watch import Watch

# Bytes from which on a value that goes round in a loop is in memory, where it may stay.
LARGE = 1 << 13


class Unplannable(Exception):
    """A program with values that are not memory; the interpreter runs it."""


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
        self.watch = watch
        self.codes: dict[tuple[str, str], int] = {}
        self.texts: list[tuple[str, str]] = []  # the same in a row
        self.given: dict[int, Any] = {}  # those of the program itself, by number
        self.hosts: list[HostCall] = []
        self.loops = 0  # loops around what is being planned
        self.held: dict[int, Any] = {}  # loops inside others by id, until these are complete
        self.looped: dict[int, Any] = {}  # kernels meant for a larger function, by their codes
        self.finished: dict[int, tuple[Step, Lowered]] = {}  # by the id of a step
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
        nodes = self._steps(jaxpr, env, bound, donated=given_up)
        for i, (kind, slot) in enumerate(results):
            if kind == "slot" and slot in self.taken:
                results[i] = Result("taken", self.taken[slot])
                self.slots[slot] = Slot("view", 0)
        nodes = self._shared(nodes)
        offsets, arena = arrange(self.lives, len(self.slots))
        texts, constants = self.texts, self.constants
        return Program(
            self.slots, offsets, arena, tuple(nodes), texts, constants, self.hosts, results
        )

    def _shared(self, nodes: list[Any]) -> list[Any]:
        """Nodes in which one native function stands for several that differ in numbers."""
        counts: dict[int, set[int]] = {}
        for node in nodes:
            if isinstance(node, Launch):
                counts.setdefault(node.code, set()).add(len(node.slots))
        # where another function's buffers follow, their number varies: a table has no place then
        buffers = {code: n for code, (n, *others) in counts.items() if not others}
        found = self.target.share(self.texts, buffers)
        for i, node in enumerate(nodes):
            if isinstance(node, Launch) and node.code in found:
                code, numbers = found[node.code]
                slots = (*node.slots, self.constant(np.array(numbers, np.int64)))
                nodes[i] = Launch(self._code(*code), slots, node.extent, node.chunk)
        return nodes

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
        for x, target in zip(jaxpr.outvars, targets, strict=True):
            source = self.constant(literal_value(x)) if type(x) is Literal else env[x]
            if (source, target) in pairs and bound.get(x) == target:
                self.stayed.add(target)
            elif source != target:
                nodes.append(self.node(Copy(target, source, self.slots[target].size)))
        return nodes

    def node(self, node: Any, *more: int) -> Any:
        """A node, its slots in use when it runs."""
        self.clock += 1
        if isinstance(node, Launch):
            self.touch(node.slots)
        elif isinstance(node, (Copy, Point, Swap)):
            self.touch(node[:2])
        self.touch(more)
        return node

    def _steps(
        self,
        jaxpr: Any,
        env: dict[Any, int],
        bound: dict[Any, int],
        pairs: dict[int, int] | None = None,
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
        fusion, steps = fuse(jaxpr, self.watch, self.target.general)
        steps = self._attached(steps)
        if donated:
            steps = put_off(steps, donated, jaxpr.outvars)
        last = last_uses(steps, jaxpr.outvars)
        least = LARGE if self.loops else 1  # in small loops values are in registers
        if donated:
            self._donate(donations(steps, last, bound, donated), env, bound)
        fixed = [env[v] for v in donated]
        bind_sources(steps, last, bound, least, fixed)
        own: set[int] = set()
        given = set(env.values()).difference(pairs or {}, fixed)  # nothing here writes to these
        copies = relabelled(steps)

        def allowed(v: Any, source: Any) -> bool:
            slot = env.get(source)  # what a kernel is attached to is nowhere in memory
            return slot is not None and self._renews(slot, bound.get(v), pairs or {}, own)

        for i, step in enumerate(steps):
            if self.watch is not None:
                self.watch.begin(fusion, step)
            self.clock += 1
            if step.source is not None and self._takes_over(
                steps, i, last, env[step.source], bound.get(step.writes[0]), pairs or {}, own
            ):
                env[step.writes[0]] = env[step.source]
                if self.watch is not None:
                    self.watch.end([])
                continue
            if len(step.writes) == 1 and step.writes[0] in copies:
                (v,) = step.writes
                slot = env.get(copies[v])
                if slot in given and v not in bound:
                    env[v] = slot
                    if self.watch is not None:
                        self.watch.end([])
                    continue
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
                made = self._finished(step, env)
            elif step.kernel is not None:
                made = self._kernel(step, env)
            else:
                made = self._equation(step.eqn, env)
            if self.watch is not None:
                self.watch.end(made)
            nodes += made
        return nodes

    def _donate(self, found: dict[int, Any], env: dict[Any, int], bound: dict[Any, int]) -> None:
        """Have results made in the memory of donated arguments."""
        for v, slot in bound.items():
            if slot in found:
                bound[v] = env[found[slot]]
        self.taken = {slot: self.slots[env[v]].what for slot, v in found.items()}

    def _takes_over(
        self,
        steps: list[Step],
        i: int,
        last: dict[Any, int],
        slot: int,
        target: int | None,
        pairs: dict[int, int],
        made: set[int],
    ) -> bool:
        """Whether a copy is not needed, because nothing reads what is copied any more."""
        if not free_after(steps, i, last.get(steps[i].source, i)):
            return False
        if target is not None:
            return slot == target or pairs.get(slot) == target
        # what comes from outside of the region may be needed again, if only by the next round
        return slot in pairs or (slot in made and self.slots[slot].role == "temp")

    def _renews(self, slot: int, target: int | None, pairs: dict[int, int], made: set[int]) -> bool:
        """Whether an operation may work in the memory of an operand that nothing else reads."""
        if target is not None:
            return slot == target or pairs.get(slot) == target
        return slot in pairs or (slot in made and self.slots[slot].role == "temp")

    def _code(self, text: str, name: str) -> int:
        number = len(self.codes)
        found = self.codes.setdefault((text, name), number)
        if found == number:
            self.texts.append((text, name))
            if not self.loops:  # in one, it may become part of a larger function instead
                self.target.begin(text, name)
        return found

    def _kernel(self, step: Step, env: dict[Any, int]) -> list[Any]:
        slots = [self._slot_of(v, env) for v in step.buffers]
        if copies_to_itself(step, slots):
            return []
        pieces, scratch = self.target.kernel(step.kernel, self.loops > 0)
        writes = [env[v] for v in step.writes]
        slots += [self.slot("temp", n) for n in scratch]
        nodes = []
        for piece in pieces:
            given = tuple(slots[i] for i in piece.buffers)
            if piece.sizes:
                given = (*given, self.constant(np.array(piece.sizes, np.int64)))
            launch = Launch(self._code(piece.text, piece.name), given, piece.extent, piece.chunk)
            nodes.append(self.node(launch, *writes))
        if self.loops and len(nodes) == 1 and not scratch and not self.target.general:
            seen = None if self.watch is None else self.watch.current
            self.looped[nodes[0].code] = (step.kernel, pieces[0], seen)
        return nodes

    def _attached(self, steps: list[Step]) -> list[Step]:
        """Steps in which kernels are attached to operations only where the target can do that."""
        found: list[Step] = []
        for step in steps:
            lowered = None
            if step.finish is not None:
                assert step.eqn is not None
                lowered = self._lowered(step.eqn, step.finish)
            if lowered is not None:
                self.finished[id(step)] = (step, lowered)
            found += [step] if lowered is not None or step.finish is None else step.apart
        return found

    def _lowered(self, eqn: Any, finish: Finish | None = None) -> Lowered | None:
        """The tasks of an equation, if the target has any."""
        if eqn.effects:
            return None
        ins, outs = (
            [Type(x.aval.shape, x.aval.dtype, type(x) is not DropVar) for x in xs]
            for xs in (eqn.invars, eqn.outvars)
        )
        looped = self.loops > 0
        return self.target.hero(eqn.primitive.name, ins, outs, eqn.params, finish, looped)

    def _finished(self, step: Step, env: dict[Any, int]) -> list[Any]:
        """The nodes of an operation and of the kernel that goes on with its result."""
        _, lowered = self.finished.pop(id(step))
        eqn, finish = step.eqn, step.finish
        assert eqn is not None and finish is not None
        ins = [self._slot_of(x, env) for x in eqn.invars]
        # what the buffer for the result stands for is nowhere in memory as a whole
        slots = [
            -1 if i == finish.buffer else self._slot_of(v, env) for i, v in enumerate(step.buffers)
        ]
        writes = [env[v] for v in step.writes]
        return self._tasks(eqn.primitive.name, lowered, ins, writes, slots)

    def _slot_of(self, x: Any, env: dict[Any, int]) -> int:
        return self.constant(literal_value(x)) if type(x) is Literal else env[x]

    def _equation(self, eqn: Any, env: dict[Any, int]) -> list[Any]:
        if not eqn.effects and not any(size_of(v.aval) for v in eqn.outvars):
            return []
        ins = [self._slot_of(x, env) for x in eqn.invars]
        outs = [env[v] for v in eqn.outvars]
        if eqn.primitive.name == "cond":
            return self._cond(eqn.params, size_of(eqn.invars[0].aval), ins, outs)
        if eqn.primitive.name in ("while", "scan"):
            found = in_blocks(self, eqn, ins, outs)
            if found is not None:
                return found
        if eqn.primitive.name == "while":
            params, taken = eqn.primitive.scalar_predicate(eqn.params)
            return self._while(params, [ins[i] for i in taken], outs)
        if eqn.primitive.name == "scan":
            return self._scan(eqn.params, ins, outs)
        if eqn.primitive.name == "remat2":
            # a region of its own: what is to be computed again must not be found computed
            nodes = self.region(ClosedJaxpr(eqn.params["jaxpr"], []), ins, outs)
            self.touch([*ins, *outs])
            return nodes
        lowered = self._lowered(eqn)
        if lowered is not None and lowered.in_place is not None and ins[0] == outs[0]:
            lowered = lowered.in_place
        if lowered is not None:
            return self._tasks(eqn.primitive.name, lowered, ins, outs)
        self.hosts.append(HostCall(eqn, tuple(ins), tuple(outs)))
        return [self.node(Host(len(self.hosts) - 1), *ins, *outs)]

    def _tasks(
        self, name: str, lowered: Lowered, ins: list[int], outs: list[int], finish: Any = ()
    ) -> list[Any]:
        scratch = [self.slot("temp", n, name) for n in lowered.scratch]
        known = {"in": ins, "out": outs, "scratch": scratch, "finish": finish}
        if self.watch is not None:
            self.watch.current.lowered = lowered
        nodes = []
        for task in lowered.tasks:
            slots = tuple(self._place(place, known) for place in task.places)
            sized = self.target.sized(task.text, task.name, len(slots))
            if sized is not None:
                slots = (*slots, self.constant(np.array(sized[1], np.int64)))
            code = self._code(task.text if sized is None else sized[0], task.name)
            nodes.append(self.node(Launch(code, slots, task.extent, task.chunk), *outs))
        return nodes

    def _place(self, place: Place, known: dict[str, list[int]]) -> int:
        kind, what = place
        if kind == "library":
            return self.library(str(what))
        if kind == "numbers":
            return self.constant(np.array(what, np.int64))
        if kind == "data":
            return self.constant(what)
        if kind == "code":
            assert isinstance(what, tuple)
            return self.slot("code", 0, self._code(*what))
        assert isinstance(what, int)
        return known[kind][what]

    # --- control flow -----------------------------------------------------------------------------

    def _repeat(self, begin: int) -> None:
        """End a loop: what was there before it and is used in it lives until now."""
        self.clock += 1
        for number, life in self.lives.items():
            if life.first < begin <= life.last:
                self.lives[number] = life._replace(last=self.clock)

    def _cond(self, params: Any, size: int, ins: list[int], outs: list[int]) -> list[Any]:
        index, *operands = ins
        regions = []
        for branch in params["branches"]:
            regions.append(tuple(self.region(branch, operands, outs)))
            self.touch([*operands, *outs])  # all branches are planned as if they ran in a row
        return [self.node(Branch(index, size, tuple(regions)), index, *outs)]

    def _carry(self, init: int, phases: tuple[int, int] | None = None) -> tuple[int, int, list]:
        """Two views that a loop reads and writes in turn, and the nodes that start them."""
        size = self.slots[init].size
        first, second = phases or (self.slot("temp", size), self.slot("temp", size))
        now, after = self.view(first, second), self.view(first, second)
        nodes = [
            self.node(Point(now, first)),
            self.node(Point(after, second)),
            self.node(Copy(now, init, size)),
        ]
        return now, after, nodes

    def _loop(self, node: Any, inside: int, touched: list[int]) -> list[Any]:
        """A loop as a node; a small one as a function that is called until it is done."""
        seen = None if self.watch is None else self.watch.current
        if self.loops:  # it may become part of the function of the loop around it
            self.held[id(node)] = (node, inside, seen)
            return [self.node(node, *touched)]
        made = self._small(node, inside, seen)
        own = len(self.slots)
        if made is not None:
            self.touch(made.externals)
            nodes = self._called(*made)
        else:
            nodes = self._walked(node, seen)
        self.clock += 1
        self.touch([*touched, *range(own, len(self.slots))])
        for _, _, inner in self.held.values():
            if inner is not None and made is not None:
                inner.loop = "one"
        self.held.clear()
        return nodes

    def _small(self, node: Any, inside: int, seen: Any) -> Any:
        """A loop as one function, if it is small."""
        made = self.target.loop(node, self.slots, self.texts, inside)
        if seen is not None:
            seen.loop = "nodes" if made is None else "one"
        return made

    def _walked(self, node: Any, seen: Any) -> list[Any]:
        """The nodes of a loop that is not small: those that call one function, or the loop."""
        found = self._settled(node)
        made = self.target.calls(found, self.slots)
        if made is None:
            return [found]
        if seen is not None:
            seen.loop = "calls"
        text, externals, codes, sizes = made
        slots = [*externals, *(self.slot("code", 0, code) for code in codes)]
        return self._called(text, slots, 0, sizes)

    def _called(
        self, text: str, externals: Sequence[int], room: int = 0, sizes: Sequence[int] = ()
    ) -> list[Any]:
        """The nodes that call a loop's function until it is done."""
        if sizes:
            externals = [*externals, self.constant(np.array(sizes, np.int64))]
        start = self.constant(np.zeros(2, np.int64))
        progress, flag = self.slot("temp", 16 + room), self.slot("temp", 1)
        for slot in (progress, flag):  # beside all that the loop and those around it work with
            self.lives[slot] = self.lives[slot]._replace(first=0)
        launch = Launch(self._code(text, "loop"), (progress, flag, *externals), 1, 1)
        return [Copy(progress, start, 16), While((launch,), flag, ())]

    def _settled(self, node: Any) -> Any:
        """A node of a loop that is walked, with small loops inside it as functions."""
        if isinstance(node, For):
            return node._replace(body=self._inner(node.body))
        if isinstance(node, While):
            condition, body = self._inner(node.condition), self._inner(node.body)
            return node._replace(condition=condition, body=body)
        if isinstance(node, Branch):
            return node._replace(regions=tuple(self._inner(r) for r in node.regions))
        if isinstance(node, Launch):
            return self._alone(node)
        return node

    def _alone(self, node: Launch) -> Launch:
        """A launch that is no part of a function: by a kernel with loops, if that is shorter."""
        if node.code in self.looped:
            kernel, meant, seen = self.looped[node.code]
            piece = self._shorter(kernel, meant, seen)
            if piece is not None:
                code = self._code(piece.text, piece.name)
                node = Launch(code, node.slots, piece.extent, piece.chunk)
                if seen is not None:
                    seen.nodes = [node]
        self.target.begin(*self.texts[node.code])
        return node

    def _shorter(self, kernel: Any, meant: Piece, seen: Any) -> Piece | None:
        """A kernel that was written without loops, as a piece with loops, if that is shorter."""
        watch = self.watch
        if watch is not None:
            watch.stack.append(seen)
            parts = seen.parts
        pieces, scratch = self.target.kernel(kernel)
        same = len(pieces) == 1 and not scratch and pieces[0].buffers == meant.buffers
        shorter = same and 2 * pieces[0].text.count("\n") < meant.text.count("\n")
        if watch is not None:
            watch.stack.pop()
            if not shorter:
                seen.parts = parts
        return pieces[0] if shorter else None

    def _inner(self, nodes: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for node in nodes:
            held = self.held.get(id(node))
            if held is None:
                found.append(self._settled(node))
                continue
            _, inside, seen = held
            made = self._small(node, inside, seen)
            found += self._walked(node, seen) if made is None else self._called(*made)
        return tuple(found)

    def _unneeded(self, nodes: list[Any], view: int, place: int) -> list[Any]:
        """Nodes without the view of a second place that nothing is written to."""
        del self.lives[place]
        return [x for x in nodes if not (isinstance(x, Point) and x.view == view)]

    def _while(self, params: Any, ins: list[int], outs: list[int]) -> list[Any]:
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
        begin, inside = self.clock, len(self.slots)
        flag = self.slot("temp", 1)
        self.loops += 1
        condition = self.region(params["cond_jaxpr"], [*cond_consts, *reads], [flag])
        inner = self.region(body, [*body_consts, *reads], writes, swaps)
        self.loops -= 1
        inner += [self.node(Swap(*pair)) for pair in swaps if pair[1] not in self.stayed]
        self.touch([flag, *reads, *writes])
        for _, after in swaps:
            if after in self.stayed:
                nodes = self._unneeded(nodes, after, self.under[after][1])
        self._repeat(begin)
        nodes += self._loop(While(tuple(condition), flag, tuple(inner)), inside, ins)
        for now, out in zip(reads, outs, strict=True):
            nodes.append(self.node(Copy(out, now, self.slots[out].size)))
        return nodes

    def _scan(self, params: Any, ins: list[int], outs: list[int]) -> list[Any]:
        n_consts, n_carry, trips = params["num_consts"], params["num_carry"], params["length"]
        consts, init = ins[:n_consts], ins[n_consts : n_consts + n_carry]
        body = self.target.simplify(params["jaxpr"])
        nodes: list[Any] = []
        reads, writes, swaps, copies = [], [], [], []
        ends: dict[int, tuple[int, int]] = {}
        for i, (start, out) in enumerate(zip(init, outs, strict=False)):
            if body.jaxpr.outvars[i] is body.jaxpr.invars[n_consts + i]:
                reads.append(start)
                writes.append(start)
                copies.append((out, start))
                continue
            # After an even number of trips the values are back where they began.
            other = self.slot("temp", self.slots[start].size)
            phases = (out, other) if trips % 2 == 0 else (other, out)
            now, after, begun = self._carry(start, phases)
            nodes += begun
            reads.append(now)
            writes.append(after)
            swaps.append((now, after))
            ends[now] = (out, other)
        slices = []
        for base in [*ins[n_consts + n_carry :], *outs[n_carry:]]:
            view = self.view(base)
            stride = self.slots[base].size // trips if trips else 0
            self.slots[view] = Slot("view", stride)
            slices.append((view, base, stride))
        n_xs = len(ins) - n_consts - n_carry
        xs, ys = [s[0] for s in slices[:n_xs]], [s[0] for s in slices[n_xs:]]
        begin, inside = self.clock, len(self.slots)
        self.loops += 1
        inner = self.region(body, [*consts, *reads, *xs], [*writes, *ys], swaps)
        self.loops -= 1
        inner += [self.node(Swap(*pair)) for pair in swaps if pair[1] not in self.stayed]
        self.touch([*reads, *writes, *xs, *ys])
        for now, after in swaps:
            if after in self.stayed:  # there is no other place it could end in
                out, other = ends[now]
                nodes = [_pointed(node, now, out) for node in nodes]
                nodes = self._unneeded(nodes, after, other)
        self._repeat(begin)
        node = For(trips, params["reverse"], tuple(slices), tuple(inner))
        nodes += self._loop(node, inside, [*ins, *outs])
        for out, start in copies:
            nodes.append(self.node(Copy(out, start, self.slots[out].size)))
        return nodes


def _pointed(node: Any, view: int, base: int) -> Any:
    """A node, or where it makes a view point somewhere, the one that makes it point at ``base``."""
    return Point(view, base) if isinstance(node, Point) and node.view == view else node
