"""Products of a scan that need not wait for its rounds, done for all of them at once.

A product of a row and a constant is computed before the loop; what rounds only add up, as they do
gradients of weights, or only return as a row, is computed after it. One product of all rounds has
large tiles, packs its operands once and is one launch; sums stay in registers instead of going
through memory in each round. What is left in the loop is what one round has to tell the next.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.base.record import Record
from weft.compiler.passes.contract import users_of, uses_of
from weft.compiler.passes.cse import cse
from weft.compiler.passes.inline import inline
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var

# Rounds of a loop, and multiplications of a product in one, from which on it is moved.
MIN_ROUNDS, MIN_PRODUCT = 4, 1 << 17
# Bytes that an operand of all rounds may take.
MAX_STACKED_BYTES = 1 << 27


def fission(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with products of loops taken out of them."""
    if not any(eqn.primitive.name == "scan" for eqn in closed.eqns):
        return closed
    eqns: list[JaxprEqn] = []
    for eqn in closed.eqns:
        found = None
        if eqn.primitive.name == "scan" and not eqn.effects:
            found = _Loop(eqn).parted() if eqn.params["length"] >= MIN_ROUNDS else None
        eqns += [eqn] if found is None else found
    if len(eqns) == len(closed.eqns):
        return closed
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)


class _Sum(Record):
    """A product, or a sum over an axis, that rounds add up: what moves it, and to which carries."""

    source: JaxprEqn
    moves: list[JaxprEqn]
    adds: list[JaxprEqn]


class _Loop:
    """A scan while it is taken apart."""

    def __init__(self, eqn: JaxprEqn) -> None:
        self.eqn, params = eqn, eqn.params
        self.length = params["length"]
        self.body = cse(inline(params["jaxpr"]))
        jaxpr = self.body.jaxpr
        first, second = params["num_consts"], params["num_consts"] + params["num_carry"]
        self.consts = dict(zip(jaxpr.invars[:first], eqn.invars[:first], strict=True))
        self.carry = jaxpr.invars[first:second]
        self.init = eqn.invars[first:second]
        self.rows = dict(zip(jaxpr.invars[second:], eqn.invars[second:], strict=True))
        self.carried = jaxpr.outvars[: len(self.carry)]
        self.returned = jaxpr.outvars[len(self.carry) :]
        self.uses = uses_of(jaxpr)
        self.users = users_of(jaxpr)
        self.stacked: dict[Any, Var] = {}  # values of a round that are needed of all
        self.removed: set[int] = set()  # equations, by identity
        self.before: list[JaxprEqn] = []
        self.after: list[JaxprEqn] = []

    def parted(self) -> list[JaxprEqn] | None:
        """Equations before the loop, the loop, and equations after it; None if it stays."""
        products = [eqn for eqn in self.body.eqns if _is_product(eqn)]
        if not products:
            return None
        more = self._products_before(products)
        sums = self._sums(products)
        returned = self._products_after(products)
        if not self.removed:
            return None
        kept = [i for i, c in enumerate(self.carry) if not any(c in _read(s) for s in sums)]
        rows = [i for i in range(len(self.returned)) if i not in returned]
        count = len(self.carry)
        jaxpr = self.body.jaxpr
        left = Jaxpr(
            jaxpr.constvars,
            [*self.consts, *(self.carry[i] for i in kept), *self.rows, *more],
            [
                *(self.carried[i] for i in kept),
                *(self.returned[i] for i in rows),
                *self.stacked,
            ],
            [eqn for eqn in jaxpr.eqns if id(eqn) not in self.removed],
            jaxpr.effects,
            jaxpr.debug_info,
        )
        loop = self.eqn.replace(
            params={
                **self.eqn.params,
                "jaxpr": ClosedJaxpr(left, self.body.consts),
                "num_carry": len(kept),
            },
            invars=[
                *self.consts.values(),
                *(self.init[i] for i in kept),
                *self.rows.values(),
                *more.values(),
            ],
            outvars=[
                *(self.eqn.outvars[i] for i in kept),
                *(self.eqn.outvars[count + i] for i in rows),
                *self.stacked.values(),
            ],
        )
        return [*self.before, loop, *self.after]

    def _of_all(self, x: Any) -> Any:
        """The values of all rounds of a variable, or None where that is nothing to have."""
        if type(x) is Literal or x in self.consts or x in self.body.jaxpr.constvars:
            return None
        found = self.rows.get(x) or self.stacked.get(x)
        if found is None:
            aval = _of_rounds(x.aval, self.length)
            if prod(aval.shape) * aval.dtype.itemsize > MAX_STACKED_BYTES:
                return None
            found = self.stacked[x] = Var(aval)
        return found

    def _products_before(self, products: list[JaxprEqn]) -> dict[Any, Var]:
        """Products of rows and constants: rows of their own, by what was the product."""
        found = {}
        for eqn in products:
            lhs, rhs = eqn.invars
            if lhs not in self.rows or rhs not in self.consts or _has_batch(eqn):
                continue
            (out,) = eqn.outvars
            made = Var(_of_rounds(out.aval, self.length))
            if prod(made.aval.shape) * made.aval.dtype.itemsize > MAX_STACKED_BYTES:
                continue
            operands = [self.rows[lhs], self.consts[rhs]]
            self.before.append(_of_all_rounds(eqn, operands, made, False))
            self.removed.add(id(eqn))
            found[out] = made
        return found

    def _sums(self, products: list[JaxprEqn]) -> list[_Sum]:
        """What rounds only add up: products first, then sums of operands that are there anyway."""
        found = []
        adds = self._additions()
        for eqn in products:
            if id(eqn) not in self.removed:
                found += self._moved_sum(eqn, adds)
        for eqn in self.body.eqns:
            if eqn.primitive.name == "reduce_sum" and eqn.invars[0] in self.stacked:
                found += self._moved_sum(eqn, adds)
        return found

    def _additions(self) -> dict[int, tuple[JaxprEqn, int]]:
        """Equations that do nothing but add to what goes round, with the place of that."""
        found = {}
        for i, (c, out) in enumerate(zip(self.carry, self.carried, strict=True)):
            if self.uses[c] == 1 and type(out) is not Literal and self.uses[out] == 1:
                (eqn,) = self.users.get(c, [None])
                if eqn is not None and eqn.primitive.name in ("add", "add_any"):
                    if eqn.outvars[0] is out and all(x.aval == c.aval for x in eqn.invars):
                        found[id(eqn)] = eqn, i
        return found

    def _moved_sum(self, source: JaxprEqn, adds: dict[int, tuple[JaxprEqn, int]]) -> list[_Sum]:
        """A sum over rounds, with its equations put after the loop; nothing where it is needed."""
        results = {x for x in self.body.jaxpr.outvars if type(x) is not Literal}
        seen, moves, ends = list(source.outvars), [], []
        for v in seen:
            if v in results:
                return []
            for user in self.users.get(v, ()):
                if id(user) in adds:
                    ends.append(user)
                elif _moves(user):
                    moves.append(user)
                    seen += [out for out in user.outvars if type(out) is not DropVar]
                else:
                    return []
        operands = [self._of_all(x) for x in source.invars] if ends else [None]
        if None in operands:
            return []
        env: dict[Any, Any] = {source.outvars[0]: Var(source.outvars[0].aval)}
        self.after.append(_of_all_rounds(source, operands, env[source.outvars[0]], True))
        for eqn in moves:
            outs = [v if type(v) is DropVar else Var(v.aval) for v in eqn.outvars]
            env.update(zip(eqn.outvars, outs, strict=True))
            self.after.append(eqn.replace(invars=[env[eqn.invars[0]]], outvars=outs))
        for eqn in ends:
            i = adds[id(eqn)][1]
            operands = [self.init[i] if x is self.carry[i] else env[x] for x in eqn.invars]
            self.after.append(eqn.replace(invars=operands, outvars=[self.eqn.outvars[i]]))
        self.removed.update(id(eqn) for eqn in (source, *moves, *ends))
        return [_Sum(source, moves, ends)]

    def _products_after(self, products: list[JaxprEqn]) -> set[int]:
        """Products with constants that are only returned as rows: the places of these."""
        found: set[int] = set()
        for eqn in products:
            (out,) = eqn.outvars
            places = [i for i, x in enumerate(self.returned) if x is out]
            if id(eqn) in self.removed or not places or self.uses[out] != len(places):
                continue
            lhs, rhs = eqn.invars
            if rhs not in self.consts or _has_batch(eqn):
                continue
            operand = self._of_all(lhs)
            if operand is None:
                continue
            for i in places:
                made = self.eqn.outvars[len(self.carry) + i]
                operands = [operand, self.consts[rhs]]
                self.after.append(_of_all_rounds(eqn, operands, made, False))
            found.update(places)
            self.removed.add(id(eqn))
        return found


def _moves(eqn: JaxprEqn) -> bool:
    """Whether an equation may stand between a product and the sum over rounds: it moves elements,
    whichever they are."""
    primitive = eqn.primitive
    return len(eqn.invars) == 1 and (primitive.form == "move" or primitive.view)


def _read(found: _Sum) -> set[Any]:
    return {x for eqn in found.adds for x in eqn.invars if type(x) is not Literal}


def _is_product(eqn: JaxprEqn) -> bool:
    """Whether an equation is a product of variables that is worth moving."""
    if not eqn.primitive.contracts or eqn.params.get("out_sharding") is not None:
        return False
    if any(type(x) is Literal for x in eqn.invars):
        return False
    (contracted, _), _ = eqn.params["dimension_numbers"]
    depth = prod(eqn.invars[0].aval.shape[i] for i in contracted)
    return depth * prod(eqn.outvars[0].aval.shape) >= MIN_PRODUCT


def _has_batch(eqn: JaxprEqn) -> bool:
    return bool(eqn.params["dimension_numbers"][1][0])


def _of_rounds(aval: Any, length: int) -> ShapedArray:
    return ShapedArray((length, *aval.shape), aval.dtype)


def _of_all_rounds(eqn: JaxprEqn, operands: list[Any], out: Any, summed: bool) -> JaxprEqn:
    """An equation of one round for all: summed over rounds, or with one constant operand."""
    if eqn.primitive.name == "reduce_sum":
        axes = (0, *(i + 1 for i in eqn.params["axes"]))
        return eqn.replace(params={**eqn.params, "axes": axes}, invars=operands, outvars=[out])
    contracted, batch = eqn.params["dimension_numbers"]
    lhs, rhs = (tuple(i + 1 for i in axes) for axes in contracted)
    if summed:
        numbers = (
            ((0, *lhs), (0, *rhs)),
            tuple(tuple(i + 1 for i in axes) for axes in batch),
        )
    else:
        numbers = ((lhs, tuple(contracted[1])), ((), ()))
    params = {**eqn.params, "dimension_numbers": numbers}
    return eqn.replace(params=params, invars=operands, outvars=[out])
