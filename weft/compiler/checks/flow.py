"""Which values of a flat program to look at, so that no NaN that reaches a result stays unseen.

A NaN goes through arithmetic, so most values need no check of their own: what they become is
checked. A value must be looked at where NaNs end: at results, and at comparisons. Values that only
go into branches of ``select_n``, or that are only asked whether they are NaN, are *guarded*; a NaN
there is no mistake. Operands of what fusion leaves to libraries are in memory, so they are checked
too, and a search for the culprit needs to go back no further.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.compiler.checks.signs import Signs
from weft.compiler.checks.sites import factors_of, is_inexact
from weft.compiler.fuse import fusible
from weft.compiler.passes.inline import inline
from weft.core.caches import per_program
from weft.core.interpret import literal_value
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal

# What tells NaNs from other values.
_ASKS = frozenset(["is_finite", "zero_untaken"])
_EQUAL = frozenset(["eq", "ne"])
# Movements that keep all elements, which a check may go through.
VIEWS = frozenset(
    "reshape transpose broadcast_in_dim squeeze expand_dims rev copy stop_gradient".split()
)
# Movements: each element of the result is one of an operand, or one of what is filled in.
MOVES = VIEWS | frozenset(
    "slice concatenate stack pad gather dynamic_slice dynamic_update_slice tile".split()
)


class Taken(Record):
    """A branch of ``select_n`` that must be taken: the predicate, the case, and for each of its
    dimensions the axis of the value that it goes along; None for dimensions of one element."""

    which: Any
    case: int
    axes: tuple[int | None, ...]


@per_program
def flat(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program without calls."""
    return inline(closed)


class Flow:
    """A flat program, and what becomes of its values.

    Of results that are ``unread``, those who use them discard bad elements. Those that are
    ``carried`` are unread, but the next round of a loop takes some of their elements, or the user
    of the loop does. If ``strict``, bad elements count that go into loops and branches. If it looks
    ``quickly``, operands of products are left out: a NaN there goes through the product.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        unread: Collection[Any] = (),
        carried: Collection[Any] = (),
        strict: bool = False,
        quickly: bool = False,
    ) -> None:
        self.jaxpr = jaxpr
        self.carried = carried
        self.strict = strict
        self._inside: dict[Any, Any] = {}
        self._passed_on: set[Any] | None = None
        self.producer: dict[Any, Any] = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self.results = {x for x in jaxpr.outvars if type(x) is not Literal and x not in unread}
        self.users: dict[Any, list[tuple[Any, int]]] = {}
        results = {x for x in jaxpr.outvars if type(x) is not Literal}
        for eqn in reversed(jaxpr.eqns):
            if not eqn.effects and not any(v in results or v in self.users for v in eqn.outvars):
                continue  # nobody reads what it computes
            for i, x in enumerate(eqn.invars):
                if type(x) is not Literal:
                    self.users.setdefault(x, []).append((eqn, i))
        self.counting = self._counting()
        # values in memory: where a search backwards may end
        self.solid: set[Any] = set()
        others: set[Any] = set()
        for eqn in jaxpr.eqns:
            if fusible(eqn):
                continue
            known = is_closed(eqn)
            found = {self.source(x) for x in eqn.invars if type(x) is not Literal}
            found.update(v for v in eqn.outvars if known or not is_inexact(v.aval))
            self.solid |= found
            if not eqn.primitive.products:
                others |= found
        # a search goes on behind what is not looked at
        self.solid -= {x for x in self.producer if is_inexact(x.aval) and x not in self.counting}
        kept = {
            x for x in self.solid if is_inexact(x.aval) and self._may_be_bad(self.producer.get(x))
        }
        self.signs = Signs(self.producer, VIEWS)
        self._live: dict[Any, Any] = {}
        self.guarded: set[Any] = set()
        self.looked_at = self._looked_at(kept & others if quickly else kept)
        self.is_whole = not quickly or kept <= self.looked_at

    def source(self, x: Any) -> Any:
        """What a value was before it was moved."""
        while (eqn := self.producer.get(x)) is not None:
            name = eqn.primitive.name
            if name not in VIEWS or type(eqn.invars[0]) is Literal:
                break
            x = eqn.invars[0]
        return x

    def _may_be_bad(self, eqn: Any) -> bool:
        """Whether an equation can make a NaN, or pass on one."""
        if eqn is None or is_closed(eqn):
            return False
        name, written = eqn.primitive.name, all(type(x) is Literal for x in eqn.invars)
        return not (written and name in VIEWS)

    def _looked_at(self, kept: set[Any]) -> set[Any]:
        """The values that are checked."""
        found = set(kept)
        seen: set[Any] = set(found)  # a NaN in these is found
        for eqn in reversed(self.jaxpr.eqns):
            for v in eqn.outvars:
                if not is_inexact(v.aval) or v in found or is_closed(eqn):
                    continue
                if v not in self.counting:
                    self.guarded.add(v)
                    continue
                uses = [self._use(v, user, place) for user, place in self.users.get(v, ())]
                through = [r for use in uses if isinstance(use, list) for r in use]
                if any(r in seen for r in through):
                    seen.add(v)
                elif v in self.results or "lost" in uses:
                    found.add(v)
                    seen.add(v)
                else:
                    self.guarded.add(v)
        return found

    def _counting(self) -> set[Any]:
        """The values whose bad elements reach a result, or end in a comparison."""
        found = {x for x in self.results if is_inexact(x.aval)}

        def look(v: Any) -> None:
            if is_inexact(v.aval) and v not in found:
                if any(self._counts(v, eqn, i, found) for eqn, i in self.users.get(v, ())):
                    found.add(v)

        for eqn in reversed(self.jaxpr.eqns):
            for v in eqn.outvars:
                look(v)
        for v in (*self.jaxpr.constvars, *self.jaxpr.invars):
            look(v)
        return found

    def _counts(self, v: Any, eqn: Any, place: int, counting: set[Any]) -> bool:
        """Whether a bad element of a value counts where it is used."""
        use = self._use(v, eqn, place)
        if isinstance(use, list):
            return any(r in counting for r in use)
        if use == "lost" and eqn.primitive.nodes and not self.strict:
            inner = _operand_inside(eqn, place)
            if inner is not None:
                flags = tuple([r not in counting for r in eqn.outvars])
                return any(self._counts_inside(eqn, p, flags, i) for p, i in inner)
        return use == "lost"

    def _counts_inside(
        self, eqn: Any, closed: ClosedJaxpr, flags: tuple[bool, ...], place: int
    ) -> bool:
        """Whether a bad operand of a program in a loop or branch counts there, or in a later
        round."""
        key = (id(eqn), id(closed), flags)
        if key not in self._inside:
            jaxpr = closed.jaxpr
            unread, _ = unread_inside(eqn, jaxpr, flags)
            late = late_results(eqn, jaxpr, unread, flags)
            self._inside[key] = Flow(jaxpr, [x for x in unread if x not in late])
        flow = self._inside[key]
        return flow.jaxpr.invars[place] in flow.counting

    def discards(self, v: Any) -> bool:
        """Whether nobody takes bad elements of a value: no result, nor the next round of a loop."""
        if v not in self.guarded:
            return False
        return v not in self.passed_on()

    def passed_on(self) -> set[Any]:
        """The values that results are computed from which are carried."""
        if self._passed_on is None:
            self._passed_on = set(self.carried)
            for eqn in reversed(self.jaxpr.eqns) if self.carried else ():
                if any(r in self._passed_on for r in eqn.outvars):
                    self._passed_on.update(x for x in eqn.invars if type(x) is not Literal)
        return self._passed_on

    def unread(self, eqn: Any) -> list[bool]:
        """Of the results of a loop or branch, which have bad elements that don't count."""
        return [is_inexact(v.aval) and v not in self.counting for v in eqn.outvars]

    def carries(self, eqn: Any) -> list[bool]:
        """Of the results of a loop or branch, from which carried ones are computed."""
        return [v in self.passed_on() for v in eqn.outvars]

    def _use(self, v: Any, eqn: Any, place: int) -> Any:
        """What a use makes of a NaN: the results that have it too, ``guarded`` or ``lost``."""
        name = eqn.primitive.name
        if name in _ASKS or eqn.effects or (name == "select_n" and place):
            return "guarded"
        if name in _EQUAL and all(x is v for x in eqn.invars):
            return "guarded"
        through = [r for r in eqn.outvars if is_inexact(r.aval)]
        return through if through and not eqn.primitive.nodes else "lost"

    def quotient_of(self, eqn: Any) -> Any:
        """The division that goes with a remainder, as in ``x // y``; or the remainder itself."""
        if eqn.primitive.overflows or type(eqn.invars[1]) is Literal:
            return eqn
        for user, place in self.users.get(eqn.invars[1], ()):
            if place == 1 and user.primitive.overflows == "quotient":
                if _same(user.invars[0], eqn.invars[0]):
                    return user
        return eqn

    def slice(self, eqn: Any, more: Any = ()) -> tuple[list[Any], list[Any]]:
        """An equation and those that compute its operands and ``more`` values from values in
        memory, in order; and these. None of either where the equations cannot be run again."""
        eqns = [eqn, *(self.producer[x] for x in more if x in self.producer)]
        if any(is_closed(eqn) and not eqn.primitive.nodes for eqn in eqns):
            return [], []
        if any(getattr(x.aval, "is_ref", False) for eqn in eqns for x in eqn.invars):
            return [], []
        given: dict[Any, None] = dict.fromkeys(x for x in more if x not in self.producer)
        wanted, needed = {id(eqn) for eqn in eqns}, [*eqns]
        while needed:
            for x in needed.pop().invars:
                if type(x) is Literal:
                    continue
                eqn = self.producer.get(x)
                if eqn is None or x in self.solid:
                    given[x] = None
                elif id(eqn) not in wanted:
                    wanted.add(id(eqn))
                    needed.append(eqn)
        return [eqn for eqn in self.jaxpr.eqns if id(eqn) in wanted], list(given)

    def writes_cotangents(self, eqn: Any) -> bool:
        """Whether an equation is the transpose of one that reads an array by indices: where it
        writes zeros does not matter, as nobody has used what was read there."""
        name = eqn.primitive.name
        if eqn.primitive.writes_cotangents(eqn.params):
            return True
        if name not in ("scatter", "dynamic_update_slice") or type(eqn.invars[0]) is Literal:
            return False
        filled = self.producer.get(self.source(eqn.invars[0]))
        if filled is None or not filled.primitive.repeats:
            return False
        (x, *_) = filled.invars
        return type(x) is Literal and not np.any(literal_value(x))

    def live(self, v: Any) -> list[list[Taken]] | None:
        """When the value of an element is needed: None for always, else alternatives, each with
        what must be taken."""
        if not self._live:
            for eqn in reversed(self.jaxpr.eqns):  # users come first
                self._live.update((x, self._needed(x)) for x in eqn.outvars)
        return self._live[v]

    def _needed(self, v: Any) -> list[list[Taken]] | None:
        if v in self.results or v in self.carried:
            return None
        found: list[list[Taken]] = []
        for eqn, place in self.users.get(v, ()):
            if len(eqn.outvars) != 1 or is_closed(eqn):
                return None
            rest = self._live[eqn.outvars[0]]
            if rest is not None:
                rest = _through(eqn, place, rest)
            picks = _picks(eqn, place)
            if picks is not None:
                taken = self._taken(*picks, v.aval.shape)
                if taken is None:
                    return None
                found += [[taken]] if rest is None else [[taken, *more[:15]] for more in rest]
            elif rest is None:
                return None
            else:
                found += rest
        return found if len(found) <= 16 else None

    def _taken(self, which: Any, case: int, shape: tuple[int, ...]) -> Taken | None:
        """A predicate before it was repeated along other axes."""
        if type(which) is Literal or which.aval.shape not in ((), shape):
            return None
        axes: tuple[int | None, ...] = tuple(range(len(which.aval.shape)))
        while (eqn := self.producer.get(which)) is not None:
            (x, *others), out = eqn.invars, which.aval.shape
            if not eqn.primitive.repeats or others or type(x) is Literal:
                break
            dims = eqn.params["broadcast_dimensions"]
            if any(n not in (1, out[d]) for n, d in zip(x.aval.shape, dims, strict=True)):
                break
            axes = tuple(
                [None if n == 1 else axes[d] for n, d in zip(x.aval.shape, dims, strict=True)]
            )
            which = x
        return Taken(which, case, axes)

    def taken(self, alternatives: list[list[Taken]] | None) -> list[Any]:
        """The predicates of alternatives, each once."""
        return list(dict.fromkeys(x.which for several in alternatives or () for x in several))


def _same(x: Any, y: Any) -> bool:
    """Whether two operands are one value."""
    if type(x) is Literal and type(y) is Literal:
        return np.array_equal(literal_value(x), literal_value(y))
    return x is y


def _through(eqn: Any, place: int, alternatives: list[list[Taken]]) -> list[list[Taken]] | None:
    """What is asked of an equation's result, asked of an operand; None where that cannot be."""
    used = {axis for several in alternatives for x in several for axis in x.axes}
    used.discard(None)
    if not used:
        return alternatives  # of all elements at once
    if eqn.primitive.form == "map" and eqn.invars[place].aval.shape == eqn.outvars[0].aval.shape:
        return alternatives
    factors = factors_of(eqn)
    if factors is None:
        return None
    mine = list(factors.ins[place])
    moved: dict[Any, Any] = {None: None}
    for axis in used:
        labels = factors.outs[0][axis]
        if len(labels) != 1 or labels not in mine:
            return None
        moved[axis] = mine.index(labels)
    return [
        [x._replace(axes=tuple([moved[axis] for axis in x.axes])) for x in several]
        for several in alternatives
    ]


def _operand_inside(eqn: Any, place: int) -> list[tuple[ClosedJaxpr, int]] | None:
    """Where an operand of a loop or branch is in its programs; None where that isn't known."""
    name, params = eqn.primitive.name, eqn.params
    if name == "scan":
        # without rounds, what it carries is its result
        return [(flat(params["jaxpr"]), place)] if params["length"] else None
    if name == "cond" and place:
        return [(flat(branch), place - 1) for branch in params["branches"]]
    return None


def unread_inside(
    eqn: Any,
    jaxpr: Jaxpr,
    unread: Sequence[bool],
    carries: Sequence[bool] = (),
    strict: bool = False,
) -> tuple[set[Any], set[Any]]:
    """The results of a program in a loop or branch whose bad elements don't count, where they
    don't count for some results of the loop or branch; and those of them that are carried, or
    make results of the loop or branch that are.

    A bad element of a carry goes round. It counts if it makes an element bad that counts in the
    next round. Where that round discards it, it doesn't. If ``strict``, it counts if anything that
    counts is computed from it, also behind a choice.
    """
    params = eqn.params
    first, carried = params.get("num_consts", 0), params.get("num_carry", 0)
    asked: set[int] = set()
    if "body_jaxpr" in params:
        if len(jaxpr.outvars) != len(unread):
            return set(), set()  # the predicate
        first, carried = params["body_nconsts"], len(unread)
        asked = _asked(params["cond_jaxpr"], params["cond_nconsts"])
    elif "num_carry" not in params and eqn.primitive.nodes not in ("branch", "again"):
        return set(), set()
    results, own = jaxpr.outvars, jaxpr.invars[first : first + carried]
    wanted = {i for i, no in enumerate(unread) if not no}
    needed = wanted | {i for i, yes in enumerate(carries) if yes}

    def besides(read: Collection[int]) -> set[Any]:
        kept = {x for i, x in enumerate(results) if type(x) is not Literal and i in read}
        return {x for x in results if type(x) is not Literal and x not in kept}

    def closure(known: set[int], reads: bool) -> set[int]:
        """The parts of a carry that count: those known, and what their next round takes."""
        while True:
            rest = besides(known | (needed if reads else wanted))
            counting = Flow(jaxpr, rest).counting
            read = _read(jaxpr, rest) if reads else ()
            more = known | {i for i, v in enumerate(own) if v in counting or v in read}
            if more == known:
                return known
            known = more

    kept = besides(needed | closure(asked, True))
    if strict:
        return kept, set()
    if not carried:
        return besides(wanted), besides(wanted) - kept
    # integers count as they did, and so do results that aren't carried
    rest = {i for i in wanted if i >= carried or not is_inexact(results[i].aval)}
    free = besides(rest | closure(asked, False))
    return free, free - kept


def late_results(
    eqn: Any, jaxpr: Jaxpr, unread: Collection[Any], flags: Sequence[bool]
) -> set[Any]:
    """The results of a loop's body whose last values count, though those of other rounds don't."""
    pairs = zip(jaxpr.outvars, flags, strict=False)
    found = {x for x, no in pairs if not no and type(x) is not Literal and x in unread}
    return found if eqn.primitive.nodes == "loop" else set()


def _read(jaxpr: Jaxpr, unread: Collection[Any]) -> set[Any]:
    """The values that effects and results, but for some of these, are computed from."""
    found = {x for x in jaxpr.outvars if type(x) is not Literal and x not in unread}
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or any(v in found for v in eqn.outvars):
            found.update(x for x in eqn.invars if type(x) is not Literal)
    return found


def _asked(predicate: ClosedJaxpr, consts: int) -> set[int]:
    """The parts of a carry whose bad elements count for the predicate of a loop."""
    jaxpr = flat(predicate).jaxpr
    counting = Flow(jaxpr).counting
    return {i for i, v in enumerate(jaxpr.invars[consts:]) if v in counting}


def is_closed(eqn: Any) -> bool:
    """Whether an equation cannot be run again: it has effects, or reads what may change."""
    return bool(eqn.effects) or any(getattr(x.aval, "is_ref", False) for x in eqn.invars)


def _picks(eqn: Any, place: int) -> tuple[Any, int] | None:
    """What decides whether an operand is taken, and the case in which it is."""
    name = eqn.primitive.name
    if name == "select_n" and place:
        return eqn.invars[0], place - 1
    return (eqn.invars[0], 1) if name == "zero_untaken" and place == 1 else None
