"""The pass that adds checks to a program: predicates beside operations, and what follows them.

At the top of a program a check that fails stops it. In loops and branches the first failure goes
round or comes out as numbers: which check it was, and in which rounds; the stop follows the loop.
A program for devices that cannot stop returns these numbers as results.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.checking import Kinds
from weft.compiler.checks import early, predicates
from weft.compiler.checks.flow import Flow, flat, is_closed, late_results, unread_inside
from weft.compiler.checks.origins import Origins
from weft.compiler.checks.replay import Culprit, Second
from weft.compiler.checks.signs import ABOVE
from weft.compiler.checks.sites import Around, Site, is_integer
from weft.compiler.checks.stop import stop_if_p
from weft.core.caches import per_program
from weft.core.interpret import literal_value
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, jaxpr_as_fun
from weft.core.staging import stage
from weft.core.trace import state, typeof

_SCALAR = np.int32


@per_program
def stopping(closed: ClosedJaxpr, kinds: Kinds) -> ClosedJaxpr:
    """The program that raises where a check fails; itself if there is nothing to check."""
    body = flat(closed)
    writer = _Writer(kinds)
    made = stage(lambda *args: writer.top(body, args), closed.in_avals, closed.debug_info)
    return made if writer.sites else closed


@per_program
def telling(closed: ClosedJaxpr, kinds: Kinds, quickly: bool = False) -> tuple[ClosedJaxpr, Any]:
    """The program with one more result, a vector that says which check failed first and in which
    rounds; and what to ask for the error. None for it where there is nothing to check.

    Where that is to cost little, fewer values are looked at. The program can then say that a check
    failed, but which one failed first is for the one with all checks to say. That one has to run
    with the same arguments, so programs with effects get all checks at once.
    """
    body = flat(closed)
    writer = _Writer(kinds, quickly=quickly and not any(is_closed(eqn) for eqn in body.eqns))

    def run(*args: Any) -> list[Any]:
        outs, failure = writer.region(body.jaxpr, body.consts, args)
        return [*outs, *predicates.vector(failure)]

    made = stage(run, closed.in_avals, closed.debug_info)
    if not writer.sites:
        return closed, None
    eqns, given = body.eqns, [*body.jaxpr.constvars, *body.jaxpr.invars]
    outs = body.jaxpr.outvars
    return made, Culprit(kinds, writer.sites, eqns, given, second_look, outs, writer.is_whole)


@per_program
def passing(closed: ClosedJaxpr, kinds: Kinds) -> tuple[ClosedJaxpr, Any]:
    """The same program with few checks, which gives its arguments back behind all else."""
    made, culprit = telling(closed, kinds, True)
    jaxpr = made.jaxpr.replace(outvars=[*made.jaxpr.outvars, *made.jaxpr.invars])
    return (made if culprit is None else ClosedJaxpr(jaxpr, made.consts)), culprit


def second_look(
    kinds: Kinds, eqns: Sequence[Any], given: Sequence[Any], outs: Sequence[Any] = ()
) -> Second | None:
    """The program that says which check of some equations fails first for values that an operation
    has made bad; None where they cannot be run again."""
    plain = all(isinstance(getattr(x.aval, "dtype", None), np.dtype) for x in given)
    if not plain or any(is_closed(eqn) for eqn in eqns):
        return None
    writer = _Writer(kinds, second=True)
    jaxpr = Jaxpr([], list(given), list(outs), list(eqns))
    run = lambda *args: predicates.vector(writer.region(jaxpr, (), args)[1])
    made = stage(run, [x.aval for x in given])
    return Second(made, writer.sites) if writer.sites else None


class _Writer:
    """Writes one program with its checks; for a ``second`` look, with those of what operations have
    made bad; ``quickly``, with as few as tell whether one fails."""

    def __init__(self, kinds: Kinds, second: bool = False, quickly: bool = False) -> None:
        self.kinds = kinds
        self.second = second
        self.quickly = quickly
        self.is_whole = True  # whether no check was left out
        self.sites: list[Site] = []
        self.ends_early = False  # whether a loop in it may
        # of a loop or branch, results whose bad elements don't count, and those that go on to
        # the next round of a loop around it
        self.unread: tuple[list[bool], list[bool]] = ([], [])
        self.before: Any = None  # where a loop has ended early, the failure that did it

    def site(self, site: Site) -> int:
        """The number of a check."""
        self.sites.append(site)
        return len(self.sites)

    # --- the program as a whole -------------------------------------------------------------------

    def top(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        jaxpr = closed.jaxpr
        flow = Flow(jaxpr)
        env = _environment(jaxpr, closed.consts, args)

        def found(eqn: Any, failed: Any, failure: Any, live: Any = None) -> None:
            eqns, given = flow.slice(eqn, flow.taken(live))
            outs = None  # only the first failure comes out of a loop or branch
            if eqn.primitive.nodes:
                unread = zip(eqn.outvars, flow.unread(eqn), strict=True)
                outs = [v for v, no in unread if not no]
            culprit = Culprit(self.kinds, self.sites, eqns, given, second_look, outs)
            values = [env[x] for x in given]
            stop_if_p.bind(failed, *predicates.vector(failure), *values, culprit=culprit)

        self.equations(flow, env, found)
        return [_value(env, x) for x in jaxpr.outvars]

    def region(
        self,
        jaxpr: Jaxpr,
        consts: Sequence[Any],
        args: Sequence[Any],
        unread: Collection[Any] = (),
        carried: Collection[Any] = (),
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """The results of a program inside another, and its first failure; bad elements of results
        that are ``unread`` are none, or are looked at in the next round if they are ``carried``."""
        env = _environment(jaxpr, consts, args)
        failures: list[tuple[Any, tuple[Any, ...]]] = []

        def found(eqn: Any, failed: Any, failure: Any, live: Any = None) -> None:
            failures.append((failed, failure))

        flow = Flow(jaxpr, unread, carried, self.second, self.quickly)
        self.is_whole = self.is_whole and flow.is_whole
        self.equations(flow, env, found)
        first = (_SCALAR(0),)
        for failed, failure in reversed(failures):
            if self.ends_early:  # what ends a loop comes before others
                kept = predicates.both(
                    predicates.below(first[0], 0),
                    predicates.negated(predicates.below(failure[0], 0)),
                )
                failed = predicates.both(failed, predicates.negated(kept))
            first = predicates.chosen(failed, failure, first)
        return [_value(env, x) for x in jaxpr.outvars], first

    # --- equations --------------------------------------------------------------------------------

    def equations(self, flow: Flow, env: dict[Any, Any], found: Any) -> None:
        """Bind the equations of a flat program, and tell ``found`` of their checks."""
        before = state.source
        later: list[Any] = []
        made = Origins(self.kinds, env) if self.second else None
        try:
            for eqn in flow.jaxpr.eqns:
                state.source = eqn.source_info
                within = self.nested(flow, eqn, env, found)
                if within is None:
                    self.plain(eqn, env)
                    if made is not None:
                        made.follow(eqn)
                for kind, failed, alternatives in self.own(flow, eqn, env):
                    named = flow.quotient_of(eqn) if kind == "division" else eqn
                    zeros = kind == "index" and flow.writes_cotangents(eqn)
                    number = self.site(Site(kind, named, None, (), alternatives, zeros))
                    if alternatives is None:
                        found(named, predicates.any_of(failed), (_SCALAR(number),))
                    else:
                        later.append((named, failed, alternatives, number))
                for v in eqn.outvars:
                    if within is not None and v not in within:
                        continue  # it is looked at there
                    if v in flow.looked_at and (self.kinds.nan or self.kinds.inf):
                        if made is None:
                            failed = predicates.any_of(predicates.bad(env[v], self.kinds))
                        elif (failed := made.failed(v)) is None:
                            continue
                        number = self.site(Site("value", eqn, v))
                        found(eqn, failed, (_SCALAR(number),))
            for eqn, failed, alternatives, number in later:
                state.source = eqn.source_info
                shape = eqn.outvars[0].aval.shape
                live = predicates.taken(alternatives, lambda x: _value(env, x), shape)
                failed = predicates.any_of(predicates.both(failed, live))
                found(eqn, failed, (_SCALAR(number),), alternatives)
        finally:
            state.source = before

    def plain(self, eqn: Any, env: dict[Any, Any]) -> None:
        values = [_value(env, x) for x in eqn.invars]
        leading, params = eqn.primitive.get_bind_params(eqn.params)
        out = eqn.primitive.bind(*leading, *values, **params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))

    def own(self, flow: Flow, eqn: Any, env: dict[Any, Any]) -> list[Any]:
        """The predicates of an equation: kind, where it fails, and when its result counts."""
        made: list[Any] = []
        operands = [literal_value(x) if type(x) is Literal else env[x] for x in eqn.invars]
        if self.kinds.indices:
            live = flow.live(eqn.outvars[0]) if eqn.primitive.reads_at_indices else None
            zeros = flow.writes_cotangents(eqn)
            failed = predicates.outside(eqn, operands, live is not None, zeros)
            made += [] if failed is None else [("index", failed, live)]
        name = eqn.primitive.name
        if self.kinds.division and name in ("div", "rem"):
            live, divisor = flow.live(eqn.outvars[0]), eqn.invars[1]
            above = flow.signs.of(divisor) == ABOVE  # it cannot be zero
            if live is None and type(divisor) is Var:  # all copies of an element are zero, or none
                operands = [*operands[:-1], env[flow.source(divisor)]]
            guarded = live is None and flow.discards(eqn.outvars[0])
            failed = None if above else predicates.zero_divisor(eqn, operands, live is not None)
            if not guarded and failed is not None:
                made.append(("division", failed, live))
        if any(is_integer(v.aval) and self.kinds.wraps(v.aval.dtype) for v in eqn.outvars):
            failed = predicates.wrapped(eqn, operands, env[eqn.outvars[0]])
            if failed is not None:
                made.append(("overflow", failed, flow.live(eqn.outvars[0])))
        return made

    # --- loops and branches -----------------------------------------------------------------------

    def nested(self, flow: Flow, eqn: Any, env: dict[Any, Any], found: Any) -> set[Any] | None:
        """Bind an equation that carries programs, with checks in them, and give those of its
        results that are to be looked at behind it; None for others."""
        rules = {
            "scan": self.scan, "while": self.loop, "cond": self.branches, "remat2": self.again
        }  # fmt: skip
        rule = rules.get(eqn.primitive.name)
        if rule is None:
            return None
        count, around = len(self.sites), self.unread
        self.unread = (flow.unread(eqn), flow.carries(eqn))
        outs, failure = rule(eqn, [_value(env, x) for x in eqn.invars])
        self.unread = around
        if failure is None:
            del self.sites[count:]
            return None
        env.update(zip(eqn.outvars, outs, strict=True))
        found(eqn, predicates.differs(failure[0], 0), failure)
        if self.ends_early:  # the loops that follow need not begin
            before = _SCALAR(0) if self.before is None else self.before
            self.before = predicates.least(before, failure[0])
        return self.late(eqn, flow.unread(eqn))

    def late(self, eqn: Any, flags: Sequence[bool]) -> set[Any]:
        """The results of a loop that its rounds don't look at."""
        closed = eqn.params.get("jaxpr", eqn.params.get("body_jaxpr"))
        if self.second or eqn.primitive.nodes != "loop":
            return set()
        jaxpr = flat(closed).jaxpr
        late = late_results(eqn, jaxpr, unread_inside(eqn, jaxpr, flags)[0], flags)
        pairs = zip(jaxpr.outvars, eqn.outvars, strict=True)
        return {v for x, v in pairs if type(x) is not Literal and x in late}

    def body(
        self, eqn: Any, closed: ClosedJaxpr, args: Any, before: Any, asks: bool = False
    ) -> Any:
        """The results and the failure of a program that an equation carries, or of its predicate if
        that ``asks``; ``before`` is the number of an earlier failure."""
        inner = flat(closed)
        begin = len(self.sites)
        around, self.before = self.before, before
        unread, carried = unread_inside(eqn, inner.jaxpr, *self.unread, self.second)
        outs, failure = self.region(inner.jaxpr, inner.consts, args, unread, carried)
        self.before = around
        self.enclose(begin, Around(eqn, inner, asks))
        return outs, failure

    def enclose(self, begin: int, around: Around) -> None:
        """Have checks from a number on stand inside of a loop or branch."""
        self.sites[begin:] = [site.inside(around) for site in self.sites[begin:]]

    def scan(self, eqn: Any, values: list[Any]) -> tuple[list[Any], Any]:
        params = eqn.params
        n_consts, n_carry = params["num_consts"], params["num_carry"]
        closed = params["jaxpr"]
        depth = [0]

        def step(*args: Any) -> list[Any]:
            consts, rest = args[:n_consts], args[n_consts:]
            outs, state = self.round(eqn, closed, [*consts, *rest[depth[0] :]], rest, depth[0])
            return [*state, *outs]

        made = self.staged(eqn, step, closed, n_consts, depth)
        if made is None:
            return [], None
        initial = [_SCALAR(0)] * depth[0]
        new = dict(params, jaxpr=made, num_carry=n_carry + depth[0])
        bound = eqn.primitive.bind(*values[:n_consts], *initial, *values[n_consts:], **new)
        return bound[depth[0] :], tuple(bound[1 : depth[0]])

    def elements(self, eqn: Any, batch: Any, values: list[Any]) -> tuple[list[Any], Any]:
        """A mapped loop with the checks of each element's own loop, mapped again: the compiler runs
        each no longer than it needs. The failure is that of the first element that has one."""
        n_cond = eqn.params["cond_nconsts"]
        avals = [*batch.cond.in_avals[:n_cond], *batch.body.in_avals]
        ins, outs = [Var(a) for a in avals], [Var(a) for a in batch.body.out_avals]
        params = {**eqn.params, "cond_jaxpr": batch.cond, "body_jaxpr": batch.body}
        one = eqn.replace(invars=ins, outvars=outs, params=params)
        begin, around, depth = len(self.sites), self.before, 0

        def run(before: Any, *args: Any) -> list[Any]:
            nonlocal depth
            self.before = before
            found, failure = self.loop(one, list(args))
            depth = 0 if failure is None else len(failure)
            return [*(failure or ()), *found]

        made = stage(run, [predicates.SCALAR, *avals])
        self.before = around
        if not depth:
            return [], None
        self.enclose(begin, Around(eqn, ClosedJaxpr(Jaxpr([], ins, outs, [one]), ()), False, batch))
        before = _SCALAR(0) if around is None else around
        bound = jaxpr_as_fun(eqn.primitive.over_batch(batch, made, 1))(before, *values)
        return bound[depth:], predicates.first_element(bound[:depth])

    def loop(self, eqn: Any, values: list[Any]) -> tuple[list[Any], Any]:
        batch = eqn.primitive.remembered(eqn.params)
        if batch is not None and prod(batch.sizes):
            return self.elements(eqn, batch, values)
        # elements of a batch that are done go round with the others: what they become is discarded
        params, taken = eqn.primitive.scalar_predicate(eqn.params)
        eqn = eqn.replace(params=params, invars=[eqn.invars[i] for i in taken])
        values = [values[i] for i in taken]
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        condition, closed = params["cond_jaxpr"], params["body_jaxpr"]
        depth, asks = self.trial(eqn, closed), self.trial(eqn, condition)
        if not depth and not asks:
            return [], None
        wide = 1 + max(depth, asks)
        init, clean = values[n_cond + n_body :], early.clean(self.kinds, params, values)
        marks = clean is not None
        self.ends_early = self.ends_early or marks
        own = values[n_cond : n_cond + n_body]
        given = [*([clean] if marks else []), *(values[:n_cond] if asks else []), *own]

        def asked(given: Any, carry: Any, number: Any, known: Any) -> tuple[list[Any], Any]:
            """The predicate before a round, and the first failure up to there."""
            args = [*given[marks : marks + n_cond], *carry]
            more, failure = self.body(eqn, condition, args, known[0], asks=True)
            return more, self.first(known, given, marks, (failure[0], number, *failure[1:]))

        def step(*args: Any) -> list[Any]:
            """A round. A predicate with checks of its own is asked at the end of the round before,
            and is part of the state."""
            given, (*_, number), known, carry = _parted(args, count, asks, wide)
            outs, failure = self.body(
                eqn, closed, [*given[len(given) - n_body :], *carry], known[0]
            )
            known = self.first(known, given, marks, (failure[0], number, *failure[1:]))
            number = predicates.next_number(number)
            more: list[Any] = []
            if asks:
                more, known = asked(given, outs, number, known)
            return [*more, number, *known, *outs]

        count = len(given)
        known: Any = [_SCALAR(0)] * wide
        if self.before is not None:
            known[0] = predicates.least(self.before, known[0])
        more: list[Any] = []
        if asks:
            more, known = asked(given, init, _SCALAR(0), known)
        state = [*more, _SCALAR(0), *known]
        inner = flat(condition)

        def goes_on(*args: Any) -> list[Any]:
            consts, (*more, _), known, carry = _parted(args, 0 if asks else n_cond, asks, wide)
            if not asks:
                env = _environment(inner.jaxpr, inner.consts, [*consts, *carry])
                for each in inner.eqns:
                    self.plain(each, env)
                more = [_value(env, x) for x in inner.jaxpr.outvars]
            if self.ends_early:
                more = [predicates.both(more[0], predicates.negated(predicates.below(known[0], 0)))]
            return more

        avals = [typeof(x) for x in given]
        around = [*[typeof(x) for x in state], *closed.out_avals]
        tested = [] if asks else values[:n_cond]
        new = {
            **params,
            "cond_nconsts": len(tested),
            "cond_jaxpr": stage(
                goes_on, [*[typeof(x) for x in tested], *around], condition.debug_info
            ),
            "body_nconsts": len(given),
            "body_jaxpr": stage(step, [*avals, *around], closed.debug_info),
        }
        bound = eqn.primitive.bind(*tested, *given, *state, *init, **new)
        lead = len(state)
        return bound[lead:], tuple(bound[lead - wide : lead])

    def trial(self, eqn: Any, closed: ClosedJaxpr) -> int:
        """How many numbers a failure in a program has; 0 if nothing in it is checked."""
        inner, count = flat(closed), len(self.sites)
        failure: Any = None

        def look(*args: Any) -> list[Any]:
            nonlocal failure
            unread, carried = unread_inside(eqn, inner.jaxpr, *self.unread, self.second)
            failure = self.region(inner.jaxpr, inner.consts, args, unread, carried)[1]
            return []

        around, self.before = self.before, None
        stage(look, closed.in_avals)
        self.before = around
        if len(self.sites) == count:
            return 0
        del self.sites[count:]
        return len(failure)

    def staged(self, eqn: Any, step: Any, closed: ClosedJaxpr, first: int, depth: list[int]) -> Any:
        """A loop's body with its state behind its constants; None if nothing in it is checked.

        The state is the number of this round, then the first failure.
        """
        count = self.trial(eqn, closed)
        if not count:
            return None
        depth[0] = 2 + count
        scalars = [predicates.SCALAR] * depth[0]
        avals = closed.in_avals
        return stage(step, [*avals[:first], *scalars, *avals[first:]], closed.debug_info)

    def round(self, eqn: Any, closed: Any, args: Any, rest: Any, depth: int) -> Any:
        """The results of one round, and the state after it."""
        number, *known = rest[:depth]
        outs, failure = self.body(eqn, closed, args, known[0])
        known = self.first(known, (), False, (failure[0], number, *failure[1:]))
        return outs, [predicates.next_number(number), *known]

    def first(self, known: Any, given: Any, marks: bool, failure: Any) -> tuple[Any, ...]:
        """The first failure, with that of a round; one that has ended a loop comes before others.

        ``given`` begins with whether the loop began clean, if it ``marks`` failures by that.
        """
        if marks:
            failure = early.marked(given[0], failure)
        later = predicates.differs(known[0], 0)
        if self.ends_early:
            ended = predicates.both(
                predicates.below(failure[0], 0), predicates.negated(predicates.below(known[0], 0))
            )
            later = predicates.both(later, predicates.negated(ended))
        return predicates.chosen(later, tuple(known), failure)

    def branches(self, eqn: Any, values: list[Any]) -> tuple[list[Any], Any]:
        branches = eqn.params["branches"]
        depths = [self.trial(eqn, branch) for branch in branches]
        if not any(depths):
            return [], None
        depth = max(depths)
        made = []
        for branch in branches:

            def run(before: Any, *args: Any, branch: Any = branch) -> list[Any]:
                outs, failure = self.body(eqn, branch, args, before)
                return [*predicates.padded(failure, depth), *outs]

            avals = [predicates.SCALAR, *branch.in_avals]
            made.append(stage(run, avals, branch.debug_info))
        new = dict(eqn.params, branches=tuple(made))
        before = _SCALAR(0) if self.before is None else self.before
        bound = eqn.primitive.bind(values[0], before, *values[1:], **new)
        return bound[depth:], tuple(bound[:depth])

    def again(self, eqn: Any, values: list[Any]) -> tuple[list[Any], Any]:
        """What a backward pass computes again."""
        jaxpr, flags = eqn.params["jaxpr"], eqn.params["prevent_cse"]
        closed = ClosedJaxpr(jaxpr, ())
        depth = self.trial(eqn, closed)
        if not depth:
            return [], None

        def run(before: Any, *args: Any) -> list[Any]:
            outs, failure = self.body(eqn, closed, args, before)
            return [*failure, *outs]

        made = stage(run, [predicates.SCALAR, *closed.in_avals], closed.debug_info)
        inner = made.jaxpr
        inner = inner.replace(constvars=[], invars=[*inner.constvars, *inner.invars])
        first = [*made.consts, _SCALAR(0) if self.before is None else self.before]
        if isinstance(flags, tuple):
            flags = (*[True] * len(first), *flags)
        new = dict(eqn.params, jaxpr=inner, prevent_cse=flags)
        bound = eqn.primitive.bind(*first, *values, **new)
        return bound[depth:], tuple(bound[:depth])


def _environment(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> dict[Any, Any]:
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    return env


def _parted(args: Any, consts: int, asks: int, wide: int) -> tuple[Any, Any, Any, Any]:
    """The operands of a loop's programs: constants, a predicate and the number of the round, the
    first failure, and what the loop itself carries."""
    lead = consts + 1 + (asks > 0)
    parts = slice(consts), slice(consts, lead), slice(lead, lead + wide), slice(lead + wide, None)
    a, b, c, d = [list(args[part]) for part in parts]
    return a, b, c, d


def _value(env: dict[Any, Any], x: Any) -> Any:
    return x.val if type(x) is Literal else env[x]
