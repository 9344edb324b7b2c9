"""One kernel: the values of its roots, pulled from operand to operand up to what is in memory.

A value is asked for at an index: elementwise and movement equations pass the question on to their
operands, a reduction along the kernel's columns becomes a loop, and the rest is loaded.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from weft.base.functional import lru
from weft.base.sizes import plain, same
from weft.compiler import rows
from weft.core.jaxpr import JaxprEqn, Literal
from weft.kernel.build import Builder, Recipe
from weft.kernel.kernel import Affine, Buffer, Loop, Reduce, Store, Within, affine, in_loops, linear
from weft.kernel.nodes import F32, NARROW, Parts, Value, layout, tiny, walk
from weft.kernel.tiny import decode, encode

Index = tuple[Affine, ...]
Rule = Generator[Any, Any, Any]
ZERO = Affine()

# Fewer elements than this are sooner computed again than written by a kernel of their own.
MIN_STORED_ELEMENTS = 128
# Operations after which a kernel is cut: the time that LLVM takes grows faster than they do, and
# vectors of two registers are no longer worth it, which are faster by more than a pass over memory.
MAX_KERNEL_OPS = 350
# Operations of a value that is too little work for a large kernel to be cut there.
LITTLE = 64
# Operations that are not computed again for every row, though they are for a few kernels.
SLOW = frozenset(["div", "rem", "sqrt"])
# Operations of a function that is computed again rather than kept where arithmetic is cheap, and
# how often one may be needed less than.
FEW_OPS, FEW_TIMES = 32, 4
# Rows and columns from which on the order in which memory is read matters.
CROSSWISE = 16
# At how many places a kernel may compute one variable: cheap ones, and costly ones.
PLACES = (8, 3)


class Domain(NamedTuple):
    """What a kernel runs over: rows, the columns its reductions go along, and their order."""

    rows: tuple[int, ...]
    columns: tuple[int, ...] = ()
    pattern: tuple[bool, ...] = ()  # for each axis of what is reduced, whether it is a column

    @property
    def trailing(self) -> bool:
        """Whether columns are the last axes, so that results may have them too."""
        return not any(a and not b for a, b in zip(self.pattern, self.pattern[1:], strict=False))


class Cut(Exception):
    """A joined array is read on both sides of a seam: the kernel has to be cut there."""

    def __init__(self, variable: Any, axis: int, points: list[int], chooses: bool) -> None:
        self.variable = variable
        self.axis = axis
        self.points = points
        self.chooses = chooses  # whether its elements may be chosen one by one instead


class _Stored(Exception):
    """A value that cannot be computed where it is asked for."""


class Memory:
    """The buffers of a kernel, and its values: shared by all the pieces that it is made of."""

    def __init__(self) -> None:
        self.k = Builder()
        self.buffers: list[Any] = []
        self.places: dict[Any, int] = {}

    def place(self, v: Any) -> int:
        place = self.places.get(v)
        if place is None:
            place = self.places[v] = len(self.buffers)
            self.buffers.append(v)
        return place

    def forget(self, known: int) -> None:
        """Leave out all buffers but the first ones."""
        for v in self.buffers[known:]:
            del self.places[v]
        del self.buffers[known:]


class Puller:
    """Computes some roots over a box of their domain.

    At a rim, elements on both sides of the seams of padded arrays are chosen one by one; so are
    they, where arithmetic is cheap, if several axes decide on which side one is.
    """

    def __init__(
        self,
        fusion: Any,
        domain: Domain,
        roots: list[Any],
        memory: Memory,
        box: Any,
        rim: bool = False,
    ) -> None:
        self.fusion = fusion
        self.domain = domain
        self.memory = memory
        self.rim = rim
        self.k = memory.k
        self.roots = dict.fromkeys(roots)
        self.row_axes = [f"p{i}" for i in range(len(domain.rows))]
        self.column_axes = [f"r{i}" for i in range(len(domain.columns))]
        # an axis of one element has one index, as the rules of reshapes and broadcasts have it
        self.row_index = tuple(
            affine(low, {} if high - low == 1 else {a: 1})
            for a, (low, high) in zip(self.row_axes, box, strict=True)
        )
        self.column_index = tuple(
            ZERO if n == 1 else affine(0, {a: 1})
            for a, n in zip(self.column_axes, domain.columns, strict=True)
        )
        self.extents = {a: high - low for a, (low, high) in zip(self.row_axes, box, strict=True)}
        self.extents.update(zip(self.column_axes, domain.columns, strict=True))
        self.values: dict[Any, Any] = {}
        self.stages: list[tuple[int, Reduce]] = []
        self.symbols: dict[Any, tuple[list[int], int]] = {}
        self.reduced: dict[int, Any] = {}
        self.depth: dict[int, int] = {}
        self.current: Any = None
        self.cut = 0  # operations before the last place at which a large kernel is cut
        self.begun: dict[Any, int] = {}  # operations before the first of a variable
        self.computed: dict[Any, int] = {}  # variables, and at how many places
        self.costly: dict[int, Value] = {}
        self.kept: list[Buffer] = []

    def own_index(self, root: Any) -> Index:
        """Where a root is written."""
        shape = self.fusion.shape(root)
        if len(shape) == len(self.domain.rows):
            return self.row_index
        if is_of_rows(shape, self.domain):
            return (*self.row_index, *[ZERO] * (len(shape) - len(self.row_index)))
        return (*self.row_index, *self.column_index)

    # --- pulling ----------------------------------------------------------------------------------

    def pull(self, x: Any, index: Index) -> Any:
        """The value of a variable at an index."""
        if type(x) is Literal:
            return self._literal(x)
        values = self.values
        key = (x, index)
        if key in values:
            return values[key]
        stack = [(key, self._rule(x, index))]
        answer = None
        while stack:  # not by recursion: programs are longer than Python's stack is deep
            try:
                x, index = stack[-1][1].send(answer)
            except StopIteration as done:
                answer = values[stack.pop()[0]] = done.value
                continue
            if type(x) is Literal:
                answer = self._literal(x)
                continue
            answer = values.get((x, index))
            if answer is None:
                stack.append(((x, index), self._rule(x, index)))
        return values[key]

    def _literal(self, x: Literal) -> Any:
        dtype = x.aval.dtype
        part, n = layout(dtype)
        read = self.fusion.numbers.get(id(x))
        if read is not None:
            value = self.k.load(self.memory.place(read[0]), part, Affine(read[1]))
            return value if n == 1 else Parts(dtype, (value, self.k.const(0.0, part)))
        if n == 1:
            return self.k.const(np.asarray(x.val, dtype).view(part), part)
        numbers = np.asarray(x.val, dtype).reshape(1).view(part)
        return Parts(dtype, tuple(self.k.const(v, part) for v in numbers))

    def _computes(self, x: Any, index: Index) -> bool:
        """Whether a variable is computed here at an index; else it is read from memory."""
        if x in self.roots:
            return index == self.own_index(x)
        fusion = self.fusion
        return x not in fusion.given and x not in fusion.materialised and x not in fusion.missing

    def _rule(self, x: Any, index: Index) -> Rule:
        """The value of a variable at an index; yields those that it is made of."""
        if not self._computes(x, index):
            return self._load(x, index)
        if x not in self.roots:
            self.computed[x] = self.computed.get(x, 0) + 1
            if self._wanders(x, index):
                self.fusion.missing.add(x)
                return self._load(x, index)
        eqn = self.fusion.producer[x]
        form = eqn.primitive.form
        self.begun[x] = self.k.count
        if form == "map":
            operands = []
            for v in eqn.invars:
                operands.append((yield v, broadcast_index(index, v.aval.shape, x.aval.shape)))
            return self._map(x, eqn, index, operands)
        if form == "move":
            operand = eqn.invars[0]
            pulled = eqn.primitive.pull(index, operand.aval, x.aval, **eqn.params)
            if pulled is None:
                return self._relabelled(operand, x, index)
            return (yield operand, pulled)
        if form == "iota":
            return self._iota(x, eqn, index)
        if form == "reduce":
            return (yield from self._reduction(x, eqn, index))
        try:
            return (yield from self._element(x, eqn, index))
        except _Stored:
            return self._stored(x, index)

    def _wanders(self, x: Any, index: Index) -> bool:
        """Whether too much of a variable would be computed again at other places."""
        eqn = self.fusion.producer[x]
        primitive = eqn.primitive
        if primitive.form == "move" or self.rim:
            return False
        if self.fusion.recomputes and primitive.form == "map" and len(eqn.invars) == 1:
            return False  # it takes one access, as reading the result would
        often = self.computed[x] > PLACES[primitive.costly]
        if often and prod(x.aval.shape) >= MIN_STORED_ELEMENTS:
            return True
        # a computation at places from data would have to gather every one of its operands
        reads = self.k.computes_places and any(self.k.varies(entry) for entry in index)
        return reads and primitive.form != "iota" and prod(x.aval.shape) >= MIN_STORED_ELEMENTS

    def _element(self, x: Any, eqn: JaxprEqn, index: Index) -> Rule:
        """A value by the rule of its primitive, which asks for operands and for seams."""
        ins = [v.aval for v in eqn.invars]
        outs = [v.aval for v in eqn.outvars]
        number = next(i for i, v in enumerate(eqn.outvars) if v is x)
        rule = eqn.primitive.element(self.k, index, ins, outs, number, **eqn.params)
        answer = None
        while True:
            try:
                asked = rule.send(answer)
            except StopIteration as done:
                if eqn.primitive.costly:
                    self._note_cost(x, index, done.value)
                return self._settled(x, eqn, index, done.value)
            if type(asked) is Within:
                answer = self._side(x, asked)
            else:
                operand, at = asked
                answer = yield eqn.invars[operand], at

    def _side(self, x: Any, asked: Within) -> int | None:
        """On which side of the seams of a joined array an index lies, or a cut."""
        entry, points, chooses, cheaply = asked
        chooses = chooses and (self.fusion.recomputes or not cheaply)
        low, high = self.k.range_of(entry, self.extents)
        side = sum(p <= low for p in points)
        if side == sum(p <= high for p in points) or high < low:
            return side
        if chooses and self.rim:
            return None
        ((axis, step), *others) = entry.terms
        if others or axis not in self.row_axes:
            if chooses and self.fusion.recomputes and not cheaply:
                return None
            raise _Stored
        cuts = [_crossing(p - entry.const, step) for p in points]
        inside = sorted({c for c in cuts if 0 < c < self.extents[axis]})
        raise Cut(x, self.row_axes.index(axis), inside, chooses)

    def _stored(self, x: Any, index: Index) -> Any:
        """Something in place of a value that has to be in memory; the plan is made anew."""
        if x in self.roots:
            self.fusion.plain.add(x)
        else:
            self.fusion.missing.add(x)
        return self._load(x, index)

    def _load(self, x: Any, index: Index) -> Any:
        return self._read(x, linear(index, x.aval.shape))

    def _read(self, x: Any, at: Affine) -> Any:
        if x in self.roots:
            # not yet written there: the reader needs a kernel of its own, after this one
            self.fusion.apart.add(self.current)
        place = self.memory.place(x)
        part, n = layout(x.aval.dtype)
        if n == 1:
            return self.k.load(place, part, at)
        return Parts(
            x.aval.dtype, tuple(self.k.load(place, part, at.scaled(n, i)) for i in range(n))
        )

    def _relabelled(self, operand: Any, x: Any, index: Index) -> Any:
        """An element of a reshaped array: the same memory, counted by the new shape."""
        if type(operand) is Literal:
            return self._literal(operand)
        if operand not in self.fusion.given and operand not in self.fusion.materialised:
            self.fusion.missing.add(operand)
        return self._read(operand, linear(index, x.aval.shape))

    # --- values -----------------------------------------------------------------------------------

    def _map(self, x: Any, eqn: JaxprEqn, index: Index, operands: list[Any]) -> Any:
        k, primitive = self.k, eqn.primitive
        if primitive.widens:
            operands = [k.cast(v, F32) if v.dtype in NARROW else v for v in operands]
        kinds = [v.aval.dtype for v in eqn.invars]
        if any(tiny(d) for d in kinds if d.itemsize == 1):
            pairs = zip(operands, kinds, strict=True)
            operands = [decode(k, v, d) if tiny(d) else v for v, d in pairs]
        whole = layout(x.aval.dtype)[1] == 1 and not any(type(v) is Parts for v in operands)
        if whole and primitive.costly:
            result = _followed(k, eqn, operands)
        else:
            lower = primitive.lower if whole else primitive.lower_parts
            result = lower(k, *operands, **eqn.params)
        if tiny(x.aval.dtype):
            result = encode(k, result, x.aval.dtype)
        if primitive.costly:
            self._note_cost(x, index, result)
        elif x not in self.roots and _is_slow(result, primitive):
            if self._repeats(x, index, FEW_TIMES if self.fusion.recomputes else 2):
                self.fusion.missing.add(x)
        return self._settled(x, eqn, index, result)

    def _settled(self, x: Any, eqn: JaxprEqn, index: Index, result: Any) -> Any:
        """A rule's result in the dtype that it has; several results become known at once."""
        if type(result) is list:
            for v, r in zip(eqn.outvars, result, strict=True):
                self.values[v, index] = r
            return self.values[x, index]
        if type(result) is Value:
            result = self.k.cast(result, layout(x.aval.dtype)[0])
        last = max(v.number for v in result.parts) if type(result) is Parts else result.number
        if last - self.k.constants > self.cut + MAX_KERNEL_OPS and x not in self.roots:
            return self._cut_at(x, index, result, last)
        return result

    def _cut_at(self, x: Any, index: Index, result: Any, last: int) -> Any:
        """End a large kernel, soon where several values need one, then anywhere."""
        count = last - self.k.constants  # each part of a kernel has constants of its own
        if count <= self.cut + 2 * MAX_KERNEL_OPS and len(self.fusion.users[x]) < 2:
            return result
        # without a value that is little work the kernel is as large as before, and the next is cut
        if self.fusion.general and count - self.begun[x] < LITTLE:
            return result
        self.cut = count
        self.fusion.missing.add(x)
        self.fusion.apart.update((x, self.current))
        return self._load(x, index)

    def _repeats(self, x: Any, index: Index, often: int = 2) -> bool:
        """Whether the kernel would compute the same element of a variable over and over."""
        whole = plain(prod(self.extents.values()))
        if whole < often * plain(prod(x.aval.shape)) or whole < MIN_STORED_ELEMENTS:
            return False
        # what stays the same along the innermost axis is computed before its loop
        innermost = [*self.row_axes, *self.column_axes][-1:]
        return any(
            entry.coefficient(axis) or self.k.varies(entry) for axis in innermost for entry in index
        )

    def _note_cost(self, x: Any, index: Index, value: Any) -> None:
        ops = self.fusion.producer[x].primitive.function_ops
        few = self.fusion.recomputes and 0 < ops <= FEW_OPS
        if x not in self.roots and self._repeats(x, index, FEW_TIMES if few else 2):
            self.fusion.missing.add(x)
        if any(entry.coefficient(axis) for axis in self.column_axes for entry in index):
            for v in scalars(value):
                self.costly[v.number] = v

    def _iota(self, x: Any, eqn: JaxprEqn, index: Index) -> Any:
        entry, dtype = index[eqn.params["dimension"]], x.aval.dtype
        if dtype.kind in "iu":
            return self.k.position(entry, dtype)
        total = self.k.position(entry)
        part, n = layout(dtype)
        if n > 1:
            return Parts(dtype, (self.k.cast(total, part), self.k.const(0, part)))
        return self.k.cast(self.k.cast(total, F32) if dtype in NARROW else total, dtype)

    # --- reductions -------------------------------------------------------------------------------

    def _reduction(self, x: Any, eqn: JaxprEqn, index: Index) -> Rule:
        op, axes = eqn.primitive.reduction(**eqn.params)
        operand = eqn.invars[0]
        shape = operand.aval.shape
        if not reduces(eqn):
            rest = iter(index)
            at = tuple(ZERO if i in axes else next(rest) for i in range(len(shape)))
            return (yield operand, at)
        if reduction_domain(eqn) != self.domain or index != self.row_index:
            self.fusion.missing.add(x)
            return self._load(x, index)
        if x not in self.symbols:
            row, column = iter(self.row_index), iter(self.column_index)
            at = tuple(next(column if i in axes else row) for i in range(len(shape)))
            self._reduce(x, op, (yield operand, at))
        symbols, depth = self.symbols[x]
        part, n = layout(x.aval.dtype)
        found = []
        for symbol in symbols:
            acc = self.k.make("acc", (), accumulator(part), symbol)
            self.depth[acc.number] = depth + 1
            found.append(self.k.cast(acc, part))
        return found[0] if n == 1 else Parts(x.aval.dtype, tuple(found))

    def _reduce(self, x: Any, op: str, value: Any) -> None:
        symbols = []
        depth = 0
        parts = scalars(value)
        dtype = accumulator(layout(x.aval.dtype)[0])
        for part in parts:
            part = self.k.cast(part, dtype)
            depth = max(depth, self._stage_of(part))
            symbol = len(self.reduced)
            self.reduced[symbol] = x
            symbols.append(symbol)
            self.stages.append((depth, Reduce(symbol, op, part, dtype, identity(op, dtype))))
        self.symbols[x] = (symbols, depth)
        if depth and not self.fusion.in_rows(self.domain):
            # columns outside of rows: a second pass would go through all of memory again
            known = [self.reduced[v.attr] for v in walk(parts) if v.op == "acc"]
            self.fusion.missing.update(v for v in known if v not in self.roots)
            if any(v in self.roots for v in known):
                self.fusion.apart.add(self.current)

    def _stage_of(self, value: Value) -> int:
        """After how many reductions a value can be computed."""
        found = self.depth.get(value.number)
        if found is not None:
            return found
        stack = [value]
        while stack:
            v = stack[-1]
            waiting = [a for a in v.args if a.number not in self.depth]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if v.number not in self.depth:
                self.depth[v.number] = max((self.depth[a.number] for a in v.args), default=0)
        return self.depth[value.number]

    # --- loops ------------------------------------------------------------------------------------

    def build(self) -> tuple[list[Any], tuple[str, int] | None]:
        """The statements that compute the roots, and the axis that threads may share."""
        full: list[Store] = []
        single: list[Store] = []
        for root in self.roots:
            self.current = root
            index = self.own_index(root)
            of_rows = self.column_axes and is_of_rows(self.fusion.shape(root), self.domain)
            stores = single if of_rows else full
            if root in self.fusion.marks:
                stores.append(self._marked(root, index))
                continue
            stores += self.stores(root, linear(index, root.aval.shape), self.pull(root, index))
        if not self.stages:
            return self.looped(full + single)
        if not self.fusion.in_rows(self.domain):
            return self._around_columns(single)
        if full and self._crosswise():
            # rows one by one would go through memory in steps, twice: first the reductions alone
            known = [self.reduced[r.symbol] for _, r in self.stages]
            self.fusion.missing.update(v for v in known if v not in self.roots)
            if any(v in self.roots for v in known):
                self.fusion.apart.update(v for v in self.roots if v not in known)
        return self._over_rows(full, single)

    def _marked(self, root: Any, index: Index) -> Store:
        """The statement that notes of an element that it has what is looked for."""
        before = self.fusion.marks[root]
        holds = self.pull(self.fusion.producer[root].invars[0], index)
        if before:  # it is true until an element isn't
            holds = self.k.make("not", (holds,), holds.dtype, None)
        return Store(self.memory.place(root), ZERO, holds, marks=not before)

    def _crosswise(self) -> bool:
        """Whether it is rows, not columns, that follow each other in all that reductions read."""
        if not self.row_axes:
            return False
        row, column = self.row_axes[-1], self.column_axes[-1]
        if min(plain(self.extents[row]), plain(self.extents[column])) < CROSSWISE:
            return False
        found = [v.attr[1] for v in walk([r.value for _, r in self.stages]) if v.op == "load"]
        along = any(abs(i.coefficient(column)) == 1 for i in found)
        return not along and any(abs(i.coefficient(row)) == 1 for i in found)

    def looped(self, stores: list[Store]) -> tuple[list[Any], tuple[str, int] | None]:
        """Statements for every element, and the axis that threads may share."""
        body = self._nest(stores, [*self.row_axes, *self.column_axes])
        if len(body) == 1 and isinstance(body[0], Loop):
            return body[0].body, (body[0].axis, body[0].extent)
        return body, None

    def stores(self, root: Any, at: Affine, value: Any) -> list[Store]:
        """The statements that write an element."""
        place = self.memory.place(root)
        parts = scalars(value)
        if self.k.from_data(at):
            at, offset, reach = self.k.apart(at.scaled(len(parts), 0))
            return [
                Store(place, at.plus(affine(i, {})), v, offset, reach) for i, v in enumerate(parts)
            ]
        return [Store(place, at.scaled(len(parts), i), v) for i, v in enumerate(parts)]

    def _over_rows(self, full: list[Store], single: list[Store]) -> Any:
        """Reductions by depth, then the stores that need them; each depth is one pass of a row."""
        last = max(depth for depth, _ in self.stages)
        passes: list[list[Any]] = []
        for depth in range(last + 2):
            inner: list[Any] = [r for d, r in self.stages if d == depth]
            inner += [s for s in full if self._stage_of(s.value) == depth]
            if inner:
                passes.append(inner)
        position = linear(self.column_index, self.domain.columns)
        row = prod(self.domain.columns)
        place = len(self.memory.buffers)
        limit = rows.MAX_ROW_BYTES_ON_CHIP if self.fusion.recomputes else rows.MAX_ROW_BUFFER_BYTES
        passes, self.kept = rows.keep(self.k, passes, self.costly, position, row, place, limit)
        body = [s for inner in passes for s in self._nest(inner, self.column_axes)]
        body += single
        if not self.row_axes:
            return body, None
        first, *rest = self._ranges(self.row_axes)
        return in_loops(rest, body), first

    def _around_columns(self, single: list[Store]) -> Any:
        """Reductions over axes that are not all trailing: a serial nest around each result."""
        body = [*self._nest([r for _, r in self.stages], self.column_axes), *single]
        if not self.row_axes:
            return body, None
        # results that are neighbours in memory are computed side by side
        *outer, last = self.row_axes
        body = [Loop(last, self.extents[last], body, (), not self.domain.pattern[-1])]
        if not outer:
            return body, None
        first, *rest = self._ranges(outer)
        return in_loops(rest, body), first

    def _nest(self, statements: list[Any], axes: Sequence[str]) -> list[Any]:
        carries = tuple(s.symbol for s in statements if isinstance(s, Reduce))
        return in_loops(self._ranges(axes), statements, carries)

    def _ranges(self, axes: Sequence[str]) -> list[tuple[str, int]]:
        return [(axis, self.extents[axis]) for axis in axes]


def is_of_rows(shape: tuple[int, ...], domain: Domain) -> bool:
    """Whether an array has one element for each row of a domain, perhaps with axes of one."""
    count = len(domain.rows)
    rest = shape[count:]
    if not same(shape[:count], domain.rows) or (rest and same(rest, domain.columns)):
        return False
    return all(n == 1 for n in rest)


def scalars(value: Any) -> Sequence[Value]:
    """The scalars that a rule has made."""
    if type(value) is Value:
        return [value]
    return value.parts if type(value) is Parts else [v for one in value for v in scalars(one)]


def _followed(k: Builder, eqn: JaxprEqn, operands: list[Value]) -> Any:
    """The result of a rule that makes many operations, written down the first time it is used."""
    recipe = None
    if not any(v.op == "const" for v in operands) and len(set(operands)) == len(operands):
        dtypes = tuple([v.dtype for v in operands])
        try:
            recipe = _recipe(eqn.primitive, dtypes, tuple(eqn.params.items()))
        except TypeError:  # a parameter that cannot be a key
            pass
    if recipe is None:
        return eqn.primitive.lower(k, *operands, **eqn.params)
    return k.follow(recipe, operands)


@lru(256)
def _recipe(primitive: Any, dtypes: tuple[np.dtype, ...], params: Any) -> Recipe | None:
    """What a rule makes of operands of which it knows nothing but their dtypes."""
    k = Builder()
    operands = [k.load(i, dtype) for i, dtype in enumerate(dtypes)]
    result = primitive.lower(k, *operands, **dict(params))
    return k.recipe(operands, result) if type(result) is Value else None


def _is_slow(value: Any, primitive: Any) -> bool:
    return value.op in SLOW if type(value) is Value else primitive.slow_parts


def reduces(eqn: JaxprEqn) -> bool:
    """Whether an equation combines elements: a reduction along an axis of more than one."""
    if eqn.primitive.form != "reduce":
        return False
    shape = eqn.invars[0].aval.shape
    return any(shape[axis] != 1 for axis in eqn.primitive.reduction(**eqn.params)[1])


def reduction_domain(eqn: JaxprEqn) -> Domain:
    """The domain of a kernel that holds a reduction."""
    _, axes = eqn.primitive.reduction(**eqn.params)
    shape = eqn.invars[0].aval.shape
    pattern = tuple([i in axes for i in range(len(shape))])
    columns = tuple([n for n, c in zip(shape, pattern, strict=True) if c])
    return Domain(eqn.outvars[0].aval.shape, columns, pattern)


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype in which a reduction is carried."""
    return F32 if dtype in NARROW else dtype


def identity(op: str, dtype: np.dtype) -> Any:
    """The value that leaves every other unchanged."""
    if op == "add" or op in ("or", "xor"):
        return 0
    if op == "mul":
        return 1
    if op == "and":
        return True if dtype == np.bool_ else -1 if dtype.kind == "i" else np.iinfo(dtype).max
    if dtype == np.bool_:
        return op == "min"
    if dtype.kind == "f":
        return np.inf if op == "min" else -np.inf
    info = np.iinfo(dtype)
    return info.max if op == "min" else info.min


def broadcast_index(index: Index, have: tuple[int, ...], want: tuple[int, ...]) -> Index:
    """The index into an operand that is broadcast to the shape the index is for."""
    if not have:
        return ()
    if have == want:
        return index
    return tuple(
        ZERO if n == 1 and m != 1 else entry for entry, n, m in zip(index, have, want, strict=True)
    )


def _crossing(distance: int, step: int) -> int:
    """The first position at which ``step * position`` has crossed a distance."""
    if step > 0:
        return -(-distance // step)
    return -distance // -step + 1
