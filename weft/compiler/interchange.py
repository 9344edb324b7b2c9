"""Loops that work element by element: all rounds for one block of elements, then the next block.

What goes round then stays in registers, where round after round would go through all of memory.
The rounds are planned for a block, as a program of its own; the backend makes one function of it
that does block after block.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from weft.base.record import Record
from weft.base.sizes import plain
from weft.compiler.expand import expand
from weft.compiler.fuse import fusible
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from weft.core.registry import lookup
from weft.kernel.nodes import layout
from weft.kernel.program import Blocks, Copy, For, Lanes, RunBlocks, Swap, While

# Elements from which on blocks pay, and equations that a round may have.
MIN_BLOCK_ELEMENTS, MAX_ROUND_EQUATIONS = 256, 200
# Elements from which on blocks pay, where each element ends for itself.
MIN_LANES = 16
# Elements times iterations between two polls for signals: below a tenth of a second, unless a
# single iteration takes longer.
ELEMENTS_PER_POLL = 1 << 25


class Given(Record):
    """A loop: its programs, and the slots of their operands and results."""

    body: ClosedJaxpr  # of constants, the carry and a row, to the carry
    consts: list[int]
    init: list[int]
    outs: list[int]
    rows: list[int]
    trips: int | None
    reverse: bool
    condition: ClosedJaxpr | None  # of constants of its own and the carry
    tests: list[int]


class Rounds(Record):
    """A program taken apart: what rounds do not change, and what is left to them.

    ``made`` are the equations of what does not change, ``needed`` the variables of that, among
    them operands, that ``left`` reads; ``outvars`` are the results.
    """

    invars: list[Any]
    made: list[JaxprEqn]
    needed: list[Any]
    left: list[JaxprEqn]
    outvars: list[Any]


def in_blocks(planner: Any, eqn: Any, ins: list[int], outs: list[int]) -> list[Any] | None:
    """The nodes of a loop that is done in blocks, or None where it cannot be."""
    largest = max((plain(prod(v.aval.shape)) for v in eqn.outvars), default=0)
    # where sizes are not known, values of few elements are not in registers either
    known = eqn.primitive.rounds(eqn.params) is not None
    apart = not known and eqn.params["cond_jaxpr"].out_avals[0].shape != ()
    least = 2 if planner.target.general else MIN_LANES if apart else MIN_BLOCK_ELEMENTS
    if largest < least or eqn.effects or not {*ins}.isdisjoint(outs):
        return None
    given = _scan(eqn, ins, outs) if known else _while(eqn, ins, outs)
    if given is None:
        return None
    seen = planner.watch.current
    found = _Interchange(planner, eqn, given).run()
    if seen is not None and found is None:
        seen.inner.clear()
    elif seen is not None:
        seen.loop = "blocks"
    return found


def _scan(eqn: Any, ins: list[int], outs: list[int]) -> Given | None:
    params = eqn.params
    start, trips = params["num_consts"] + params["num_carry"], params["length"]
    if params["num_carry"] != len(outs) or trips < 2:
        return None
    if any(prod(x.aval.shape[1:]) != 1 for x in eqn.invars[start:]):
        return None
    consts, init = ins[: params["num_consts"]], ins[params["num_consts"] : start]
    return Given(
        params["jaxpr"], consts, init, outs, ins[start:], trips, params["reverse"], None, []
    )


def _while(eqn: Any, ins: list[int], outs: list[int]) -> Given:
    params = eqn.params
    n_cond = params["cond_nconsts"]
    start = n_cond + params["body_nconsts"]
    body, condition = params["body_jaxpr"], params["cond_jaxpr"]
    consts = ins[n_cond:start]
    return Given(body, consts, ins[start:], outs, [], None, False, condition, ins[:n_cond])


def _single(shape: tuple[int, ...]) -> bool:
    return prod(shape) == 1


class _Interchange:
    """One loop while it is turned inside out."""

    def __init__(self, planner: Any, eqn: Any, given: Given) -> None:
        self.planner = planner
        self.primitive = eqn.primitive
        self.given = given
        self.kept: list[Any] = []  # copies of what goes through all rounds as it is
        self.shape = max((v.aval.shape for v in eqn.outvars), key=prod)
        self.total = prod(self.shape)

    def run(self) -> list[Any] | None:
        simple = self.planner.target.simplify(self.given.body)
        if simple.consts or len(simple.eqns) > MAX_ROUND_EQUATIONS:
            return None
        given = self.given = self._settled(simple)
        avals = [x.aval for x in given.body.jaxpr.outvars]
        if all(a.shape != self.shape for a in avals):
            return None  # the large values go through all rounds as they are
        if not self._fits(avals) or self._rounds(given.body, len(given.consts)) is None:
            return None
        body, condition, before, after = given.body, given.condition, None, None
        if any(a.dtype.kind == "c" for a in avals):
            before, after = self.primitive.split_carry(avals)
            body = self.primitive.on_parts(body, len(given.consts), avals)
            if condition is not None:
                condition = self.primitive.on_parts(condition, len(given.tests), avals, False)
        rounds = self._rounds(body, len(given.consts))
        test = None if condition is None else self._rounds(condition, len(given.tests))
        if rounds is None or (condition is not None and test is None):
            return None
        return self._plan(rounds, test, before, after)

    def _settled(self, simple: ClosedJaxpr) -> Given:
        """The loop with what goes through all rounds as it is among its constants."""
        given, jaxpr = self.given, simple.jaxpr
        first, count = len(given.consts), len(given.init)
        carry, rows = jaxpr.invars[first : first + count], jaxpr.invars[first + count :]
        moving = [v is not x for v, x in zip(carry, jaxpr.outvars, strict=True)]
        if all(moving):
            return given._replace(body=simple)

        def parts(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            pairs = list(zip(values, moving, strict=True))
            return [v for v, m in pairs if not m], [v for v, m in pairs if m]

        still, init = parts(given.init)
        done, outs = parts(given.outs)
        sizes = [self.planner.slots[slot].size for slot in done]
        self.kept = [Copy(*copy) for copy in zip(done, still, sizes, strict=True)]
        fixed, moved = parts(carry)
        invars = [*jaxpr.invars[:first], *fixed, *moved, *rows]
        body = ClosedJaxpr(jaxpr.replace(invars=invars, outvars=parts(jaxpr.outvars)[1]))
        consts, condition, tests = [*given.consts, *still], given.condition, given.tests
        if condition is not None:
            inner, n = condition.jaxpr, len(tests)
            fixed, moved = parts(inner.invars[n:])
            invars = [*inner.invars[:n], *fixed, *moved]
            condition = condition.replace(jaxpr=inner.replace(invars=invars))
            tests = [*tests, *still]
        return given._replace(
            body=body, consts=consts, init=init, outs=outs, condition=condition, tests=tests
        )

    # --- what a round does ------------------------------------------------------------------------

    def _fits(self, avals: Sequence[Any]) -> bool:
        return all(a.shape == self.shape or _single(a.shape) for a in avals)

    def _rounds(self, closed: ClosedJaxpr, count: int) -> Rounds | None:
        """A program whose first operands do not change, if it works element by element."""
        simple = self.planner.target.simplify(closed)
        if simple.consts:
            return None
        jaxpr = expand(simple.jaxpr)
        steady = {*jaxpr.invars[:count]}
        made, left, needed = [], [], dict[Any, None]()
        wide: dict[Any, Any] = {}
        for eqn in jaxpr.eqns:
            if not eqn.effects and all(type(x) is Literal or x in steady for x in eqn.invars):
                made.append(eqn)
                steady.update(eqn.outvars)
                continue
            invars = [self._widened(x, made, wide) if x in steady else x for x in eqn.invars]
            eqn = eqn.replace(invars=invars)
            steady.update(wide.values())
            if not self._by_element(eqn):
                return None
            left.append(eqn)
            needed.update((x, None) for x in invars if x in steady)
        needed.update((x, None) for x in jaxpr.outvars if type(x) is not Literal and x in steady)
        if not self._fits([x.aval for x in needed]):
            return None
        return Rounds(jaxpr.invars, made, [*needed], left, jaxpr.outvars)

    def _widened(self, x: Any, made: list[JaxprEqn], wide: dict[Any, Any]) -> Any:
        """A value that does not change, as large as what it meets, where that is larger."""
        shape = x.aval.shape
        fits = len(shape) == len(self.shape) and all(
            n in (1, m) for n, m in zip(shape, self.shape, strict=True)
        )
        if not fits or shape == self.shape or _single(shape):
            return x
        if x not in wide:
            wide[x] = Var(x.aval.update(shape=self.shape))
            axes = tuple(range(len(shape)))
            params = {"shape": self.shape, "broadcast_dimensions": axes, "sharding": None}
            made.append(JaxprEqn([x], [wide[x]], lookup("broadcast_in_dim"), params))
        return wide[x]

    def _by_element(self, eqn: JaxprEqn) -> bool:
        if not self._fits([x.aval for x in [*eqn.invars, *eqn.outvars]]) or not fusible(eqn):
            return False
        if eqn.primitive.form == "map":
            return True
        return eqn.primitive.repeats and _single(eqn.invars[0].aval.shape)

    # --- for a block ------------------------------------------------------------------------------

    def _width(self, rounds: Rounds, count: int) -> int:
        """Elements of a block: as many as leave room in registers for what rounds need."""
        carry = rounds.invars[count:]
        variables = [*rounds.needed, *carry, *(v for eqn in rounds.left for v in eqn.outvars)]
        kinds = [layout(v.aval.dtype) for v in variables if v.aval.shape == self.shape]
        widest = max(part.itemsize for part, _ in kinds)
        held = [v for v in [*rounds.needed, *carry] if v.aval.shape == self.shape]
        target = self.planner.target
        width = target.block(widest, sum(layout(v.aval.dtype)[1] for v in held))
        while width > plain(self.total) // (2 if self.apart else 1) and width > 1:
            width //= 2
        assert self.total >= width
        return width

    def _aval(self, aval: Any) -> Any:
        if aval.shape == self.shape:
            return aval.update(shape=(self.width,))
        return aval.update(shape=(1,)) if aval.shape else aval

    def _narrow(self, invars: list[Any], eqns: list[JaxprEqn], outvars: list[Any]) -> ClosedJaxpr:
        """A program for a block."""
        env: dict[Any, Any] = {}

        def new(x: Any) -> Any:
            if type(x) is Literal:
                return Literal(x.val, self._aval(x.aval))
            if x not in env:
                env[x] = type(x)(self._aval(x.aval))
            return env[x]

        found = []
        for eqn in eqns:
            given, made = [new(x) for x in eqn.invars], [new(x) for x in eqn.outvars]
            params = eqn.params
            if eqn.primitive.repeats:
                axes = tuple(range(given[0].aval.ndim))
                params = params | {"shape": made[0].aval.shape, "broadcast_dimensions": axes}
            found.append(eqn.replace(invars=given, outvars=made, params=params))
        return ClosedJaxpr(Jaxpr([], [new(x) for x in invars], [new(x) for x in outvars], found))

    def _narrowed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr = self.planner.target.simplify(closed).jaxpr
        return self._narrow(jaxpr.invars, jaxpr.eqns, jaxpr.outvars)

    # --- the plan ---------------------------------------------------------------------------------

    def _plan(self, rounds: Rounds, test: Rounds | None, before: Any, after: Any) -> Any:
        given, planner = self.given, self.planner
        self.apart = test is not None and test.outvars[0].aval.shape == self.shape
        self.width = self._width(rounds, len(given.consts))
        if not self.apart and MIN_BLOCK_ELEMENTS <= plain(self.total) < 2 * self.width:
            return None
        # a block is of the same size for all arrays
        sub = self.sub = type(planner)(planner.target.exact(), planner.watch)
        sub.loops = 1
        self.arrays: dict[int, int] = {}
        avals = [x.aval for x in given.body.jaxpr.outvars]
        init, outs = ([self._slot(role, a) for a in avals] for role in ("arg", "out"))
        carry = rounds.invars[len(given.consts) :]
        carry = carry[: len(carry) - len(given.rows)]
        reads, writes = ([sub.slot("temp", self._size(v.aval)) for v in carry] for _ in "12")
        nodes = self._moved(before, init, reads)
        known: dict[int, Any] = {}
        node, live = self._loop(rounds, test, reads, writes, known)
        if node is None:
            return None
        nodes = [*nodes, node, *self._moved(after, reads, outs)]
        lanes = None
        if live is not None:
            lanes = Lanes(sub.slot("temp", self.width), tuple(zip(init, outs, strict=True)))
            nodes.append(Copy(lanes.live, live, self.width))
        most = max(1, ELEMENTS_PER_POLL // plain(self.total))
        blocks = Blocks(
            sub.slots,
            sub.constants,
            tuple(nodes),
            self.width,
            self.total,
            self.arrays,
            most,
            given.trips,
            bool(given.rows),
            lanes,
        )
        offer = planner.target.blocks(blocks)
        if offer is None:
            return None
        return self._nodes(blocks, offer, rounds, test, known, init, outs)

    def _size(self, aval: Any) -> int:
        return prod(self._aval(aval).shape) * storage_dtype(aval.dtype).itemsize

    def _slot(self, role: str, aval: Any) -> int:
        number = self.sub.slot(role, self._size(aval))
        if aval.shape == self.shape:
            self.arrays[number] = storage_dtype(aval.dtype).itemsize
        return number

    def _moved(self, closed: Any, given: list[int], targets: list[int]) -> list[Any]:
        if closed is not None:
            return self.sub.region(self._narrowed(closed), given, targets)
        pairs = zip(targets, given, strict=True)
        return [Copy(to, source, self.sub.slots[to].size) for to, source in pairs]

    def _loop(
        self,
        rounds: Rounds,
        test: Rounds | None,
        reads: list[int],
        writes: list[int],
        known: dict[int, Any],
    ) -> tuple[Any, int | None]:
        """The loop of a block, and the slot of its predicate where elements end one by one; says
        which slots of it stand for what."""
        given, sub = self.given, self.sub
        made = self._constants(rounds, given.consts, known)
        after = rounds.invars[len(given.consts) :]
        body = self._narrow([*rounds.needed, *after], rounds.left, rounds.outvars)
        swaps = [Swap(*pair) for pair in zip(reads, writes, strict=True)]
        if test is None:
            slices = []
            for slot, v in zip(given.rows, after[len(reads) :], strict=True):
                base = sub.slot("arg", self.planner.slots[slot].size)
                known[base] = slot
                slices.append((sub.slot("view", self._size(v.aval)), base, self._size(v.aval)))
            inner = sub.region(body, [*made, *reads, *(view for view, _, _ in slices)], writes)
            trips = (given.trips or 0) if given.reverse else 0
            return For(trips, given.reverse, tuple(slices), (*inner, *swaps)), None
        if test.outvars[0].aval.shape not in ((), self.shape):
            return None, None
        tests = self._constants(test, given.tests, known)
        after = test.invars[len(given.tests) :]
        condition = self._narrow([*test.needed, *after], test.left, test.outvars)
        flag = sub.slot("temp", 1)
        if not self.apart:
            head = sub.region(condition, [*tests, *reads], [flag])
            inner = sub.region(body, [*made, *reads], writes)
            return While(tuple(head), flag, (*inner, *swaps)), None
        live = sub.slot("temp", self.width)
        counted, masked = self.primitive.counted(condition, body, len(made))
        head = sub.region(counted, [*tests, *reads], [flag, live])
        inner = sub.region(masked, [live, *made, *reads], writes)
        return While(tuple(head), flag, (*inner, *swaps)), live

    def _constants(self, rounds: Rounds, slots: list[int], known: dict[int, Any]) -> list[int]:
        """Slots of what rounds need and do not change."""
        where = dict(zip(rounds.invars, slots, strict=False))
        found = []
        for v in rounds.needed:
            found.append(self._slot("arg", v.aval))
            known[found[-1]] = where.get(v, v)
        return found

    def _computed(self, rounds: Rounds, slots: list[int], found: dict[Any, int]) -> list[Any]:
        """The nodes that compute what rounds need and do not change, before all of them."""
        operands = rounds.invars[: len(slots)]
        needed = [v for v in rounds.needed if v not in operands]
        if not needed:
            return []
        sizes = [prod(v.aval.shape) * storage_dtype(v.aval.dtype).itemsize for v in needed]
        found.update((v, self.planner.slot("temp", n)) for v, n in zip(needed, sizes, strict=True))
        closed = ClosedJaxpr(Jaxpr([], operands, needed, rounds.made))
        return self.planner.region(closed, slots, [found[v] for v in needed])

    def _nodes(
        self,
        blocks: Blocks,
        offer: Any,
        rounds: Rounds,
        test: Rounds | None,
        known: dict[int, Any],
        init: list[int],
        outs: list[int],
    ) -> list[Any]:
        """The nodes that compute what iterations don't change, and run all blocks."""
        given, planner = self.given, self.planner
        found: dict[Any, int] = {}
        nodes = self._computed(rounds, given.consts, found)
        if test is not None:
            nodes += self._computed(test, given.tests, found)
        places = {inner: found.get(slot, slot) for inner, slot in known.items()}
        others = [planner.slot("temp", planner.slots[slot].size) for slot in given.outs]
        starts = tuple(zip(init, given.init, strict=True))
        ends = tuple(zip(outs, given.outs, strict=True))
        return [*nodes, RunBlocks(blocks, places, starts, ends, tuple(others), offer), *self.kept]
