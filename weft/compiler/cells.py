"""Small programs as scalar values of one thread: what a loop of one element of a batch computes.

Arrays of a few elements are held as scalars, operands are read from memory, and everything between
is computed where it is needed. Loops inside become serial loops, branches become choices.

The threads of a warp may share a program: each has every 32nd place of axes of one length, and all
of them have everything else. What is summed along such axes is summed across the threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.compiler.expand import expand
from weft.compiler.fuse import fusible
from weft.compiler.lower import lower
from weft.compiler.passes.cse import cse
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.compiler.pull import Index, Puller, Rule, accumulator, identity, scalars
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from weft.kernel.build import Builder
from weft.kernel.elements import clamped
from weft.kernel.kernel import Affine, Carry, Serial, affine, linear
from weft.kernel.nodes import BOOL, I32, I64, NEIGHBOURS, Across, Parts, Value, is_float, layout

# Elements of an array that a thread holds, terms of a sum and rounds of a loop that are written
# out.
MAX_HELD, MAX_WRITTEN_TERMS, MAX_WRITTEN_ROUNDS = 64, 64, 4
# How often a thread reads what another thread has.
MAX_READ = 192
# The axis of the threads that share a row.
NEIGHBOUR = "w"
_COMBINE = {"and": "and_", "or": "or_"}


class Unfit(Exception):
    """A program that one thread can't run well, and why."""


class Held(Record):
    """An array whose elements, in row-major order, are values."""

    shape: tuple[int, ...]
    values: tuple[Any, ...]


class Stored(Record):
    """An array in memory: its buffer, where it begins, and its strides, in elements."""

    buffer: int
    at: Affine
    strides: tuple[int, ...]


class Passed(Record):
    """A variable of a program around, or a row of it."""

    cells: Any
    variable: Any
    row: Index = ()


class Thread:
    """What a thread does while it is written: values, at most so many, and statements in order.

    With a ``row``, the threads of a warp share axes of that length: ``slots`` are the places of a
    thread, where those beyond the end are the last one again, and ``inside`` says which are not.
    """

    def __init__(self, most: int, row: int = 0) -> None:
        self.most, self.row = most, row
        self.slots: list[Affine] = []
        self.inside: list[Value | None] = []
        self.apart: set[int] = set()  # symbols of what threads have each for itself
        self.k = Builder()
        self.body: list[Any] = []
        self.symbols = self.read = 0
        for first in range(0, row, NEIGHBOURS):
            self._slot(affine(first, {NEIGHBOUR: 1}), first + NEIGHBOURS <= row)

    def _slot(self, place: Affine, whole: bool) -> None:
        k, test = self.k, None
        if not whole:
            last, number = k.const(self.row - 1, I64), k.position(place)
            test, place = k.le(number, last), k.place(k.min(number, last), self.row)
        self.slots.append(place)
        self.inside.append(test)

    def varies(self, entry: Affine) -> bool:
        """Whether an index is another one for other threads of a warp."""
        places = [self.k.computed(axis) for axis, _ in entry.terms]
        return any(v is not None and self._varies(v) for v in places) or (
            entry.coefficient(NEIGHBOUR) != 0
        )

    def _varies(self, value: Value) -> bool:
        """Whether a value is another one for other threads."""
        seen, stack = set(), [value]
        while stack:
            v = stack.pop()
            if v.number in seen or v.op == "across":
                continue
            seen.add(v.number)
            if (v.op == "acc" and v.attr in self.apart) or (
                v.op == "index" and v.attr == NEIGHBOUR
            ):
                return True
            if v.op == "load" and self.varies(v.attr[1]):
                return True
            stack += v.args
        return False

    def own(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many places along each axis of an array a thread has."""
        if self.row and list(shape).count(self.row) > 1:
            raise Unfit("an array of two long axes")
        return tuple([len(self.slots) if n == self.row else n for n in shape])

    def places(self, shape: Sequence[int]) -> list[Index]:
        """All places of an array that a thread has, in row-major order."""
        self.own(shape)
        along = [self.slots if n == self.row else [*map(Affine, range(n))] for n in shape]
        return list(product(*along))

    def symbol(self) -> int:
        self.symbols += 1
        return self.symbols - 1

    def carried(self, aval: Any) -> tuple[list[int], Held]:
        """Symbols of an array that goes round, and the array."""
        part, n = layout(aval.dtype)
        symbols, values = [], []
        for _ in range(prod(self.own(aval.shape))):
            own = [self.symbol() for _ in range(n)]
            accs = tuple([self.k.make("acc", (), part, s) for s in own])
            values.append(accs[0] if n == 1 else Parts(aval.dtype, accs))
            symbols += own
        if self.row in aval.shape:
            self.apart.update(symbols)
        return symbols, Held(aval.shape, tuple(values))


class _Program(Record):
    """What `Puller` asks of the program that a kernel is made of."""

    producer: dict[Any, Any]
    numbers: dict[int, Any]
    recomputes: bool = True
    general: bool = False


@per_program
def flat(closed: ClosedJaxpr) -> Jaxpr:
    """A program of operations on elements."""
    simple = prune(cse(inline(cse(inline(closed)))))
    if simple.consts:
        raise Unfit("constants")
    return lower(expand(simple.jaxpr), lambda eqn: False)


class Cells(Puller):
    """The variables of one program; ``given`` says where its operands are."""

    def __init__(self, thread: Thread, jaxpr: Jaxpr, given: Sequence[Any]) -> None:
        self.thread, self.k, self.jaxpr = thread, thread.k, jaxpr
        self.sources: dict[Any, Any] = dict(zip(jaxpr.invars, given, strict=True))
        producer = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self.fusion = _Program(producer, {})
        self.roots, self.values = {}, {}
        self.computed, self.begun, self.extents = {}, {}, {}

    def run(self, live: Value | None = None) -> Cells:
        """Write the statements of a program: its loops, and sums of many terms. With ``live``, only
        threads where that holds go round."""
        for eqn in self.jaxpr.eqns:
            primitive = eqn.primitive
            if eqn.effects:
                raise Unfit("effects")
            if primitive.nodes == "loop":
                counted = primitive.rounds(eqn.params) is not None
                outs = self._counted(eqn, live) if counted else self._repeated(eqn, live)
                self.sources.update(zip(eqn.outvars, outs, strict=True))
            elif primitive.nodes == "branch":
                self.sources.update(zip(eqn.outvars, self._branch(eqn, live), strict=True))
            elif primitive.form == "reduce" and self._terms(eqn) > MAX_WRITTEN_TERMS:
                self.sources[eqn.outvars[0]] = self._sums(eqn)
            elif not (primitive.contracts or primitive.form == "update" or fusible(eqn)):
                raise Unfit(primitive.name)
        return self

    def results(self) -> list[Held]:
        return [self.held(x) for x in self.jaxpr.outvars]

    def held(self, x: Any) -> Held:
        """All elements of a variable."""
        shape = x.aval.shape
        if prod(self.thread.own(shape)) > MAX_HELD:
            raise Unfit(f"an array of {prod(shape)} elements")
        return Held(shape, tuple([self.pull(x, at) for at in self.thread.places(shape)]))

    # --- values at an index -----------------------------------------------------------------------

    def _computes(self, x: Any, index: Index) -> bool:
        return x not in self.sources

    def _rule(self, x: Any, index: Index) -> Rule:
        if x in self.sources:
            return self._load(x, index)
        eqn = self.fusion.producer[x]
        if eqn.primitive.contracts:
            return (yield from self._product(eqn, index))
        if eqn.primitive.form == "update":
            return (yield from self._update(eqn, index))
        return (yield from super()._rule(x, index))

    def _load(self, x: Any, index: Index) -> Any:
        source = self.sources[x]
        if type(source) is Passed:
            return source.cells.pull(source.variable, (*source.row, *index))
        if type(source) is Held:
            return self._held(source, index)
        at = source.at
        for entry, stride in zip(index, source.strides, strict=True):
            at = at.plus(entry.scaled(stride, 0))
        part, n = layout(x.aval.dtype)
        if n == 1:
            return self.k.load(source.buffer, part, at)
        parts = [self.k.load(source.buffer, part, at.scaled(n, i)) for i in range(n)]
        return Parts(x.aval.dtype, tuple(parts))

    def _held(self, held: Held, index: Index) -> Any:
        """An element of an array that this thread holds, or that one of its warp does."""
        thread, at, far = self.thread, list(index), None
        for i, n in enumerate(held.shape):
            if thread.row and n == thread.row:
                far = i if at[i] not in thread.slots else None
                at[i] = Affine() if far is not None else Affine(thread.slots.index(at[i]))
        shape = thread.own(held.shape)
        if far is None:
            return self._chosen(held, linear(at, shape))
        entry, k = index[far], self.k
        place = k.position(entry, I32)
        found = None
        for j in self._slots(entry):
            at[far] = Affine(j)
            value = self._of_thread(self._chosen(held, linear(at, shape)), place)
            if found is not None:
                here = k.ge(place, k.const(j * NEIGHBOURS, I32))
                value = k.select(here, value, found)
            found = value
        return found

    def _slots(self, entry: Affine) -> range:
        """In which slots of threads a place of a row is."""
        low = high = float(entry.const)
        for axis, factor in entry.terms:
            value = self.k.computed(axis)
            ends = _ends(self.k.index(axis) if value is None else value)
            low, high = low + min(factor * x for x in ends), high + max(factor * x for x in ends)
        last = len(self.thread.slots) - 1
        first, end = (int(min(max(x // NEIGHBOURS, 0), last)) for x in (low, high))
        return range(first, end + 1)

    def _of_thread(self, value: Any, place: Value) -> Any:
        """What the thread has that a place of a row belongs to."""
        if type(value) is Parts:
            return Parts(value.dtype, tuple([self._of_thread(v, place) for v in value.parts]))
        k = self.k
        self.thread.read += 1
        if self.thread.read > MAX_READ:
            raise Unfit("many elements of other threads")
        which = k.and_(place, k.const(NEIGHBOURS - 1, I32))
        return k.make("across", (value, which), value.dtype, Across("get"))

    def _chosen(self, held: Held, at: Affine) -> Any:
        """The element of an array that is held at a place, which may be computed."""
        if not at.terms:
            return held.values[at.const]
        k = self.k
        place, found = k.position(at, I32), held.values[0]
        for i, value in enumerate(held.values[1:], 1):
            found = k.select(k.eq(place, k.const(i, I32)), value, found)
        return found

    def _relabelled(self, operand: Any, x: Any, index: Index) -> Any:
        """An element of a reshaped array."""
        if type(operand) is Literal:
            return self._literal(operand)
        at = linear(index, x.aval.shape)
        if at.terms:
            raise Unfit("a reshape at computed places")
        place = []
        rest = at.const
        for n in reversed(operand.aval.shape):
            rest, last = divmod(rest, n)
            place.append(Affine(last))
        return self.pull(operand, tuple(reversed(place)))

    def _stored(self, x: Any, index: Index) -> Any:
        raise Unfit("a value that must be in memory")

    def _side(self, x: Any, asked: Any) -> int | None:
        entry, points, chooses, _ = asked
        if not entry.terms:
            return sum(p <= entry.const for p in points)
        if not chooses:
            raise Unfit("joined arrays at computed places")
        return None

    def _settled(self, x: Any, eqn: Any, index: Index, result: Any) -> Any:
        if self.k.count > self.thread.most:
            raise Unfit("too many operations")
        if type(result) is list:
            for v, r in zip(eqn.outvars, result, strict=True):
                self.values[v, index] = r
            return self.values[x, index]
        if type(result) is Value:
            return self.k.cast(result, layout(x.aval.dtype)[0])
        return result

    def _wanders(self, x: Any, index: Index) -> bool:
        return False

    def _note_cost(self, x: Any, index: Index, value: Any) -> None:
        pass

    def _repeats(self, x: Any, index: Index, often: int = 2) -> bool:
        return False

    # --- sums and products ------------------------------------------------------------------------

    def _combined(self, op: str, x: Any, y: Any) -> Any:
        combine = getattr(self.k, _COMBINE.get(op, op))
        if type(x) is Parts:
            if op != "add":
                raise Unfit(f"{op} of complex numbers")
            return Parts(x.dtype, tuple(map(combine, x.parts, y.parts)))
        return combine(x, y)

    def _reduction(self, x: Any, eqn: Any, index: Index) -> Rule:
        op, axes = eqn.primitive.reduction(**eqn.params)
        (operand,), total = eqn.invars, None
        lengths = [operand.aval.shape[a] for a in axes]
        for term in self._all_terms(lengths, index):
            value = self._wide(x, (yield operand, _merged(index, axes, term)))
            value = self._inside(op, value, term)
            total = value if total is None else self._combined(op, total, value)
        if total is None:
            raise Unfit("a sum of nothing")
        return self._settled(x, eqn, index, self._across(op, total, lengths, index))

    def _shares(self, lengths: Sequence[int], index: Index) -> bool:
        """Whether a sum is that of all threads that share a row: along it, at a place that is the
        same for all of them."""
        row = self.thread.row
        return bool(row) and row in lengths and not any(map(self.thread.varies, index))

    def _all_terms(self, lengths: Sequence[int], index: Index) -> list[Index]:
        """The places of the terms that a thread sums."""
        thread = self.thread
        if thread.row not in lengths or self._shares(lengths, index):
            places = thread.places(lengths)
        elif prod(lengths) > MAX_WRITTEN_TERMS:
            raise Unfit("long sums of each thread")
        else:  # each thread has another sum, of what all of them have
            places = list(product(*[[*map(Affine, range(n))] for n in lengths]))
        return places

    def _inside(self, op: str, value: Any, term: Index) -> Any:
        """A term of a sum, or, beyond the end of a row, what changes nothing."""
        for place, test in zip(self.thread.slots, self.thread.inside, strict=True):
            if test is not None and place in term:
                parts = [self.k.const(identity(op, v.dtype), v.dtype) for v in scalars(value)]
                unit = Parts(value.dtype, tuple(parts)) if type(value) is Parts else parts[0]
                return self.k.select(test, value, unit)
        return value

    def _across(self, op: str, total: Any, lengths: Sequence[int], index: Index) -> Any:
        """The sum of all threads that share a row, if they do."""
        if not self._shares(lengths, index):
            return total
        parts = [self.k.make("across", (v,), v.dtype, Across(op)) for v in scalars(total)]
        return Parts(total.dtype, tuple(parts)) if type(total) is Parts else parts[0]

    def _terms(self, eqn: Any) -> int:
        """How many terms of a sum a thread has."""
        shape = eqn.invars[0].aval.shape
        return prod(self.thread.own([shape[a] for a in eqn.primitive.reduction(**eqn.params)[1]]))

    def _wide(self, x: Any, value: Any) -> Any:
        """A term of a sum in the dtype in which it is summed."""
        part = accumulator(layout(x.aval.dtype)[0])
        return value if type(value) is Parts else self.k.cast(value, part)

    def _sums(self, eqn: Any) -> Held:
        """Sums of many terms, by loops."""
        op, axes = eqn.primitive.reduction(**eqn.params)
        (x,), (operand,) = eqn.outvars, eqn.invars
        part, n = layout(x.aval.dtype)
        places = self.thread.places(x.aval.shape)
        if n != 1 or len(axes) != 1 or len(places) > MAX_HELD:
            raise Unfit("long sums")
        k, wide, found = self.k, accumulator(part), []
        for index in places:
            symbol = self.thread.symbol()
            if any(map(self.thread.varies, index)):
                self.thread.apart.add(symbol)
            axis, acc = f"j{symbol}", k.make("acc", (), wide, symbol)
            term = self.pull(operand, _merged(index, axes, (affine(0, {axis: 1}),)))
            after = self._combined(op, acc, k.cast(term, wide))
            carry = Carry(symbol, k.const(identity(op, wide), wide), after)
            extent = operand.aval.shape[axes[0]]
            self.thread.body.append(Serial((carry,), [], axis, extent))
            found.append(k.cast(acc, part))
        return Held(x.aval.shape, tuple(found))

    def _product(self, eqn: Any, index: Index) -> Rule:
        """An element of a product of small arrays."""
        (x,), k = eqn.outvars, self.k
        (left_sum, right_sum), (left_batch, right_batch) = eqn.params["dimension_numbers"]
        left, right = (v.aval for v in eqn.invars)
        part, n = layout(x.aval.dtype)
        terms = [left.shape[a] for a in left_sum]
        parts = [layout(a.dtype) for a in (left, right)]
        if n != 1 or part == BOOL or any(m != 1 or p == BOOL for p, m in parts):
            raise Unfit(f"a product of {x.aval.dtype}")
        places = self._all_terms(terms, index)
        if not 0 < len(places) <= MAX_WRITTEN_TERMS:
            raise Unfit("a long product")
        batch, rest = index[: len(left_batch)], iter(index[len(left_batch) :])
        sides = []
        for aval, summed, batched in (
            (left, left_sum, left_batch),
            (right, right_sum, right_batch),
        ):
            given = dict(zip(batched, batch, strict=True))
            free = [a for a in range(len(aval.shape)) if a not in (*summed, *batched)]
            sides.append((given | {a: next(rest) for a in free}, summed))
        wide, total = accumulator(part), None
        for term in places:
            both: list[Value] = []
            for v, (given, summed) in zip(eqn.invars, sides, strict=True):
                at = given | dict(zip(summed, term, strict=True))
                both.append(k.cast((yield v, tuple([at[a] for a in sorted(at)])), wide))
            x_term, y_term = both
            x_term = self._inside("add", x_term, term)
            if total is not None and is_float(wide):
                total = k.fma(x_term, y_term, total)
            else:
                made = k.mul(x_term, y_term)
                total = made if total is None else k.add(total, made)
        return self._settled(x, eqn, index, self._across("add", total, terms, index))

    def _update(self, eqn: Any, index: Index) -> Rule:
        """An element of an array with a box overwritten."""
        k, (x, update, *starts) = self.k, eqn.invars
        at, inside = [], None
        pairs = zip(index, starts, x.aval.shape, update.aval.shape, strict=True)
        for entry, start, extent, size in pairs:
            if size == extent:
                at.append(entry)
                continue
            begin, _ = clamped(k, (yield start, ()), extent - size)
            place = k.sub(k.position(entry), k.cast(begin, I64))
            zero, last = k.const(0, I64), k.const(size - 1, I64)
            here = k.and_(k.ge(place, zero), k.le(place, last))
            inside = here if inside is None else k.and_(inside, here)
            at.append(k.place(k.min(k.max(place, zero), last), size))
        new = yield update, tuple(at)
        return new if inside is None else k.select(inside, new, (yield x, index))

    # --- loops and branches -----------------------------------------------------------------------

    def inner(self, closed: ClosedJaxpr, given: Sequence[Any]) -> Cells:
        return Cells(self.thread, flat(closed), given)

    def _passed(self, xs: Sequence[Any]) -> list[Any]:
        return [Passed(self, x) for x in xs]

    def _repeated(self, eqn: Any, live: Value | None) -> list[Held]:
        """A loop that goes on as long as its condition holds."""
        params, taken = eqn.primitive.scalar_predicate(eqn.params)
        ins, n = [eqn.invars[i] for i in taken], params["cond_nconsts"]
        start = n + params["body_nconsts"]
        init = [self.held(x) for x in ins[start:]]
        programs = params["cond_jaxpr"], params["body_jaxpr"]
        consts = self._passed(ins[:n]), self._passed(ins[n:start])
        return self.loop(programs, consts, init, live)

    def loop(
        self,
        programs: tuple[ClosedJaxpr, ClosedJaxpr],
        consts: tuple[list[Any], list[Any]],
        init: Sequence[Any],
        live: Value | None,
    ) -> list[Any]:
        """A loop of a predicate and a body, each with its constants, and the carry after it."""
        body = flat(programs[1])
        given = body.invars[len(consts[1]) :]
        pairs = list(zip(given, body.outvars, strict=True))
        carry = list(init)
        symbols: list[list[int]] = []
        for i, (v, x) in enumerate(pairs):
            symbols.append([])
            if v is not x:  # what goes through all rounds as it is isn't carried
                if prod(self.thread.own(v.aval.shape)) > MAX_HELD:
                    raise Unfit(f"an array of {prod(v.aval.shape)} elements")
                symbols[i], carry[i] = self.thread.carried(v.aval)
        outside, self.thread.body = self.thread.body, []
        going = self.inner(programs[0], [*consts[0], *carry]).run()
        if self.thread.body:
            raise Unfit("a loop in a condition")
        (condition,) = going.held(going.jaxpr.outvars[0]).values
        if live is not None:
            condition = self.k.and_(live, condition)
        step = Cells(self.thread, body, [*consts[1], *carry]).run()
        carried = []
        for own, start, (v, x) in zip(symbols, init, pairs, strict=True):
            if v is not x:
                before, after = scalars(list(start.values)), scalars(list(step.held(x).values))
                carried += [Carry(*c) for c in zip(own, before, after, strict=True)]
        outside.append(Serial(tuple(carried), self.thread.body, None, 0, condition))
        self.thread.body = outside
        return carry

    def _counted(self, eqn: Any, live: Value | None) -> list[Held]:
        """A loop of a known number of rounds."""
        params = eqn.params
        length, n = params["length"], params["num_consts"]
        start = n + params["num_carry"]
        consts, rows = self._passed(eqn.invars[:n]), eqn.invars[start:]
        carry = [self.held(x) for x in eqn.invars[n:start]]
        body = flat(params["jaxpr"])
        n_ys = len(body.outvars) - len(carry)
        if n_ys or length <= MAX_WRITTEN_ROUNDS:
            return self._written(params, body, consts, carry, rows, live)
        symbols, given = [], []
        for v in body.invars[n:start]:
            own, held = self.thread.carried(v.aval)
            symbols.append(own)
            given.append(held)
        axis = f"j{self.thread.symbol()}"
        row = affine(0, {axis: 1})
        row = row.scaled(-1, length - 1) if params["reverse"] else row
        outside, self.thread.body = self.thread.body, []
        slices = [Passed(self, x, (row,)) for x in rows]
        step = Cells(self.thread, body, [*consts, *given, *slices]).run(live)
        carried = []
        for own, held, x in zip(symbols, carry, body.outvars, strict=True):
            before, after = scalars(list(held.values)), scalars(list(step.held(x).values))
            carried += [Carry(*c) for c in zip(own, before, after, strict=True)]
        outside.append(Serial(tuple(carried), self.thread.body, axis, length))
        self.thread.body = outside
        return given

    def _written(
        self, params: Any, body: Jaxpr, consts: list[Any], carry: list[Held], rows: Any, live: Any
    ) -> list[Held]:
        """The rounds of a loop written out, with the rows that they give."""
        length, count = params["length"], len(carry)
        order = range(length)[::-1] if params["reverse"] else range(length)
        made: dict[int, list[Held]] = {}
        for i in order:
            slices = [Passed(self, x, (Affine(i),)) for x in rows]
            step = Cells(self.thread, body, [*consts, *carry, *slices]).run(live)
            found = step.results()
            carry, made[i] = found[:count], found[count:]
        stacked = []
        for j, v in enumerate(body.outvars[count:]):
            shape = (length, *v.aval.shape)
            if prod(shape) > MAX_HELD or length == self.thread.row:
                raise Unfit("many rows")
            values = [x for i in range(length) for x in made[i][j].values]
            stacked.append(Held(shape, tuple(values)))
        return [*carry, *stacked]

    def _branch(self, eqn: Any, live: Value | None) -> list[Held]:
        """All branches, and the results of the one that is taken."""
        k, (index, *ops) = self.k, eqn.invars
        (which,) = self.held(index).values
        branches = eqn.params["branches"]
        if which.dtype == BOOL:
            from_one = [which]
        else:
            from_one = [k.ge(which, k.const(i, which.dtype)) for i in range(1, len(branches))]
        outs: list[Held] = []
        for i, branch in enumerate(branches):
            here = live
            tests = [*from_one[i - 1 : i]] + [k.not_(t) for t in from_one[i : i + 1]]
            for test in tests:
                here = test if here is None else k.and_(here, test)
            new = self.inner(branch, self._passed(ops)).run(here).results()
            if i:
                for n, (old, other) in enumerate(zip(outs, new, strict=True)):
                    pairs = zip(other.values, old.values, strict=True)
                    chosen = [k.select(from_one[i - 1], a, b) for a, b in pairs]
                    outs[n] = Held(old.shape, tuple(chosen))
            else:
                outs = new
        return outs


def _ends(v: Value) -> tuple[float, float]:
    """The least and the largest number that an integer may be."""
    if v.op == "const":
        number = float(np.frombuffer(v.attr, v.dtype)[0])
        return number, number
    if v.op == "index" and v.attr == NEIGHBOUR:
        return 0.0, NEIGHBOURS - 1.0
    if v.op == "cast" and v.args[0].dtype.kind in "iu":
        return _ends(v.args[0])
    if v.op in ("add", "sub", "min", "max", "select"):
        (a, b), (c, d) = map(_ends, v.args[-2:])
        if v.op == "select":
            return min(a, c), max(b, d)
        if v.op in ("min", "max"):
            return (min if v.op == "min" else max)(a, c), (min if v.op == "min" else max)(b, d)
        return (a + c, b + d) if v.op == "add" else (a - d, b - c)
    return -np.inf, np.inf


def _merged(index: Index, axes: Sequence[int], term: Index) -> Index:
    """The place of a term of a sum, from those of its result and along the axes of the sum."""
    rest, along = iter(index), dict(zip(axes, term, strict=True))
    rank = len(index) + len(axes)
    return tuple([along[a] if a in along else next(rest) for a in range(rank)])
