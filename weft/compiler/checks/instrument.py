"""The pass that adds checks to a program: predicates beside operations, and what follows them.

At the top of a program a check that fails stops it. In loops and branches the first failure goes
round or comes out as numbers: which check it was, and in which rounds; the stop follows the loop.
A program for devices that cannot stop returns these numbers as results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base.checking import Kinds
from weft.compiler.checks import predicates
from weft.compiler.checks.flow import Flow
from weft.compiler.checks.replay import Culprit
from weft.compiler.checks.sites import Site, is_integer
from weft.compiler.checks.stop import stop_if_p
from weft.compiler.passes.inline import inline
from weft.core.caches import per_program
from weft.core.interpret import literal_value
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from weft.core.staging import stage
from weft.core.trace import state

_SCALAR = np.int32


@per_program
def flat(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program without calls."""
    return inline(closed)


@per_program
def stopping(closed: ClosedJaxpr, kinds: Kinds) -> ClosedJaxpr:
    """The program that raises where a check fails; itself if there is nothing to check."""
    body = flat(closed)
    writer = _Writer(kinds)
    made = stage(lambda *args: writer.top(body, args), closed.in_avals, closed.debug_info)
    return made if writer.sites else closed


@per_program
def telling(closed: ClosedJaxpr, kinds: Kinds) -> tuple[ClosedJaxpr, Any]:
    """The program with one more result, a vector that says which check failed first and in which
    rounds; and what to ask for the error. None for it where there is nothing to check."""
    body = flat(closed)
    writer = _Writer(kinds)

    def run(*args: Any) -> list[Any]:
        outs, failure = writer.region(body.jaxpr, body.consts, args)
        return [*outs, *predicates.vector(failure)]

    made = stage(run, closed.in_avals, closed.debug_info)
    if not writer.sites:
        return closed, None
    eqns, given = body.eqns, [*body.jaxpr.constvars, *body.jaxpr.invars]
    return made, Culprit(kinds, writer.sites, eqns, given)


class _Writer:
    """Writes one program with its checks."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.sites: list[Site] = []

    def site(self, site: Site) -> int:
        """The number of a check."""
        self.sites.append(site)
        return len(self.sites)

    # --- the program as a whole -------------------------------------------------------------------

    def top(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        jaxpr = closed.jaxpr
        flow = Flow(jaxpr)
        env = _environment(jaxpr, closed.consts, args)

        def found(eqn: Any, failed: Any, failure: Any) -> None:
            eqns, given = flow.slice([eqn])
            culprit = Culprit(self.kinds, self.sites, eqns, given)
            values = [env[x] for x in given]
            stop_if_p.bind(failed, *predicates.vector(failure), *values, culprit=culprit)

        self.equations(flow, env, found)
        return [_value(env, x) for x in jaxpr.outvars]

    def region(
        self, jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """The results of a program inside another, and its first failure."""
        env = _environment(jaxpr, consts, args)
        failures: list[tuple[Any, tuple[Any, ...]]] = []

        def found(eqn: Any, failed: Any, failure: Any) -> None:
            failures.append((failed, failure))

        self.equations(Flow(jaxpr), env, found)
        first = (_SCALAR(0),)
        for failed, failure in reversed(failures):
            first = predicates.chosen(failed, failure, first)
        return [_value(env, x) for x in jaxpr.outvars], first

    # --- equations --------------------------------------------------------------------------------

    def equations(self, flow: Flow, env: dict[Any, Any], found: Any) -> None:
        """Bind the equations of a flat program, and tell ``found`` of their checks."""
        before = state.source
        later: list[Any] = []
        try:
            for eqn in flow.jaxpr.eqns:
                state.source = eqn.source_info
                if not self.nested(eqn, env, found):
                    self.plain(eqn, env)
                for kind, failed, alternatives in self.own(flow, eqn, env):
                    number = self.site(Site(kind, eqn, None))
                    if alternatives is None:
                        found(eqn, predicates.any_of(failed), (_SCALAR(number),))
                    else:
                        later.append((eqn, failed, alternatives, number))
                for v in eqn.outvars:
                    if v in flow.looked_at and (self.kinds.nan or self.kinds.inf):
                        number = self.site(Site("value", eqn, v))
                        failed = predicates.any_of(predicates.bad(env[v], self.kinds))
                        found(eqn, failed, (_SCALAR(number),))
            for eqn, failed, alternatives, number in later:
                state.source = eqn.source_info
                live = predicates.taken(alternatives, lambda x: _value(env, x))
                failed = predicates.any_of(predicates.both(failed, live))
                found(eqn, failed, (_SCALAR(number),))
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
            failed = predicates.outside(eqn, operands)
            made += [] if failed is None else [("index", failed, None)]
        name = eqn.primitive.name
        if self.kinds.division and name in ("div", "rem"):
            live, divisor = flow.live(eqn.outvars[0]), eqn.invars[1]
            if live is None and type(divisor) is Var:  # all copies of an element are zero, or none
                operands = [*operands[:-1], env[flow.source(divisor)]]
            guarded = live is None and eqn.outvars[0] in flow.guarded
            failed = predicates.zero_divisor(eqn, operands, live is not None)
            if not guarded and failed is not None:
                made.append(("division", failed, live))
        if any(is_integer(v.aval) and self.kinds.wraps(v.aval.dtype) for v in eqn.outvars):
            failed = predicates.wrapped(eqn, operands, env[eqn.outvars[0]])
            if failed is not None:
                elementwise = eqn.primitive.form == "map"
                made.append(
                    ("overflow", failed, flow.live(eqn.outvars[0]) if elementwise else None)
                )
        return made

    # --- loops and branches -----------------------------------------------------------------------

    def nested(self, eqn: Any, env: dict[Any, Any], found: Any) -> bool:
        """Bind an equation that carries programs, with checks in them; False for others."""
        rule = {"scan": self.scan, "while": self.loop, "cond": self.branches}.get(
            eqn.primitive.name
        )
        if rule is None:
            return False
        count = len(self.sites)
        outs, failure = rule(eqn, [_value(env, x) for x in eqn.invars])
        if failure is None:
            del self.sites[count:]
            return False
        env.update(zip(eqn.outvars, outs, strict=True))
        found(eqn, predicates.differs(failure[0], 0), failure)
        return True

    def body(self, eqn: Any, closed: ClosedJaxpr, consts: Any, args: Any) -> Any:
        """The results and the failure of a program that an equation carries."""
        inner = flat(closed)
        begin = len(self.sites)
        outs, failure = self.region(inner.jaxpr, inner.consts, args)
        for i in range(begin, len(self.sites)):
            self.sites[i] = self.sites[i].inside(eqn, inner)
        return outs, failure

    def scan(self, eqn: Any, values: list[Any]) -> tuple[list[Any], Any]:
        params = eqn.params
        n_consts, n_carry = params["num_consts"], params["num_carry"]
        closed = params["jaxpr"]
        depth = [0]

        def step(*args: Any) -> list[Any]:
            consts, rest = args[:n_consts], args[n_consts:]
            outs, state = self.round(eqn, closed, [*consts, *rest[depth[0] :]], rest, depth[0])
            return [*state, *outs]

        made = self.staged(step, closed, n_consts, depth)
        if made is None:
            return [], None
        initial = [_SCALAR(0)] * depth[0]
        new = dict(params, jaxpr=made, num_carry=n_carry + depth[0])
        bound = eqn.primitive.bind(*values[:n_consts], *initial, *values[n_consts:], **new)
        return bound[depth[0] :], tuple(bound[1 : depth[0]])

    def loop(self, eqn: Any, values: list[Any]) -> tuple[list[Any], Any]:
        # elements of a batch that are done go round with the others: what they become is discarded
        params, taken = eqn.primitive.scalar_predicate(eqn.params)
        eqn = eqn.replace(params=params, invars=[eqn.invars[i] for i in taken])
        values = [values[i] for i in taken]
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        closed, condition = params["body_jaxpr"], params["cond_jaxpr"]
        depth = [0]

        def step(*args: Any) -> list[Any]:
            consts, rest = args[:n_body], args[n_body:]
            outs, state = self.round(eqn, closed, [*consts, *rest[depth[0] :]], rest, depth[0])
            return [*state, *outs]

        made = self.staged(step, closed, n_body, depth)
        if made is None:
            return [], None
        scalars = [predicates.SCALAR] * depth[0]
        asked = condition.in_avals
        inner = flat(condition)

        def goes_on(*args: Any) -> list[Any]:
            env = _environment(
                inner.jaxpr, inner.consts, [*args[:n_cond], *args[n_cond + depth[0] :]]
            )
            for each in inner.eqns:
                self.plain(each, env)
            return [_value(env, x) for x in inner.jaxpr.outvars]

        test = stage(goes_on, [*asked[:n_cond], *scalars, *asked[n_cond:]], condition.debug_info)
        new = dict(params, body_jaxpr=made, cond_jaxpr=test)
        first = n_cond + n_body
        initial = [_SCALAR(0)] * depth[0]
        bound = eqn.primitive.bind(*values[:first], *initial, *values[first:], **new)
        return bound[depth[0] :], tuple(bound[1 : depth[0]])

    def staged(self, step: Any, closed: ClosedJaxpr, first: int, depth: list[int]) -> Any:
        """A loop's body with its state behind its constants; None if nothing in it is checked.

        The state is the number of this round, then the first failure.
        """
        avals, count = closed.in_avals, len(self.sites)
        trial = flat(closed)
        failure: Any = None

        def look(*args: Any) -> list[Any]:
            nonlocal failure
            failure = self.region(trial.jaxpr, trial.consts, args)[1]
            return []

        stage(look, avals)
        if len(self.sites) == count:
            return None
        del self.sites[count:]
        depth[0] = 2 + len(failure)
        scalars = [predicates.SCALAR] * depth[0]
        return stage(step, [*avals[:first], *scalars, *avals[first:]], closed.debug_info)

    def round(self, eqn: Any, closed: Any, args: Any, rest: Any, depth: int) -> Any:
        """The results of one round, and the state after it."""
        number, *known = rest[:depth]
        outs, failure = self.body(eqn, closed, (), args)
        failure = (failure[0], number, *failure[1:])
        none = predicates.differs(known[0], 0)
        known = predicates.chosen(none, tuple(known), failure)
        return outs, [predicates.next_number(number), *known]

    def branches(self, eqn: Any, values: list[Any]) -> tuple[list[Any], Any]:
        branches = eqn.params["branches"]
        count = len(self.sites)
        depths = []
        for branch in branches:
            inner = flat(branch)
            kept: list[Any] = []

            def look(*args: Any, inner: Any = inner, kept: Any = kept) -> list[Any]:
                kept.append(self.region(inner.jaxpr, inner.consts, args)[1])
                return []

            stage(look, branch.in_avals)
            depths.append(len(kept[0]))
        if len(self.sites) == count:
            return [], None
        del self.sites[count:]
        depth = max(depths)
        made = []
        for branch in branches:

            def run(*args: Any, branch: Any = branch) -> list[Any]:
                outs, failure = self.body(eqn, branch, (), args)
                return [*predicates.padded(failure, depth), *outs]

            made.append(stage(run, branch.in_avals, branch.debug_info))
        new = dict(eqn.params, branches=tuple(made))
        bound = eqn.primitive.bind(*values, **new)
        return bound[depth:], tuple(bound[:depth])


def _environment(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> dict[Any, Any]:
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    return env


def _value(env: dict[Any, Any], x: Any) -> Any:
    return x.val if type(x) is Literal else env[x]
