"""Fusion: which values of a flat program are written to memory, and by which kernel.

Values are pulled. A kernel has a domain, the shape of what it writes, and asks for the value of a
variable at an index that is affine in its axes. Elementwise and movement equations pass the
question on to their operands at the same or another index; a reduction over the trailing axes of
the domain becomes a loop inside the kernel; everything else is loaded from memory. So producers,
consumers, siblings and row reductions fall together without patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from weft.compiler import rows
from weft.core.jaxpr import Jaxpr, JaxprEqn, Literal
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Buffer, Kernel, Loop, Reduce, Store, affine
from weft.kernel.nodes import F32, FLOATS, NARROW, Value

Index = tuple[Affine, ...]

_INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
_SUPPORTED = FLOATS | {np.dtype(name) for name in ["bool", *_INTEGERS.split()]}
# Fewer elements than this are sooner computed again than written by a kernel of their own.
_FEW = 128
# Operations after which a kernel is cut: the time that LLVM takes grows faster than they do.
_LARGE = 3000


def supported(aval: Any) -> bool:
    """Whether kernels can hold values of this type."""
    return getattr(aval, "dtype", None) in _SUPPORTED


def fusible(eqn: JaxprEqn) -> bool:
    """Whether an equation can be pulled through."""
    if eqn.effects or not eqn.primitive.fuses(eqn.params):
        return False
    return all(supported(x.aval) for x in [*eqn.invars, *eqn.outvars])


def reduces(eqn: JaxprEqn) -> bool:
    """Whether an equation combines elements: a reduction along an axis of more than one."""
    if eqn.primitive.form != "reduce":
        return False
    shape = eqn.invars[0].aval.shape
    return any(shape[axis] != 1 for axis in eqn.primitive.reduction(**eqn.params)[1])


class Step(NamedTuple):
    """One step of a plan: a kernel with its variables, or an equation left to a library."""

    kernel: Kernel | None
    buffers: list[Any]
    eqn: JaxprEqn | None
    writes: list[Any]


class Domain(NamedTuple):
    """What a kernel runs over: rows, and the columns that its reductions go along."""

    rows: tuple[int, ...]
    columns: Any  # extents, or the root itself for a reduction that has a kernel of its own


class Fusion:
    """Decides what is materialised and builds the kernels of a program."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        self.producer: dict[Any, JaxprEqn] = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self.fusible = {id(eqn) for eqn in jaxpr.eqns if fusible(eqn)}
        self.given = {*jaxpr.constvars, *jaxpr.invars}
        self.users: dict[Any, list[JaxprEqn]] = {}
        for eqn in jaxpr.eqns:
            for x in eqn.invars:
                if type(x) is not Literal:
                    self.users.setdefault(x, []).append(eqn)
        self.results = [x for x in jaxpr.outvars if type(x) is not Literal]
        self.materialised = self._roots()
        self.apart: set[Any] = set()  # roots that read others in ways one kernel cannot

    def _roots(self) -> set[Any]:
        """Results, and operands of what cannot be fused."""
        roots = {x for x in self.results if x not in self.given}
        for eqn in self.jaxpr.eqns:
            if id(eqn) not in self.fusible:
                roots.update(x for x in eqn.invars if type(x) is not Literal)
                roots.update(eqn.outvars)
            elif reduces(eqn) and not self._absorbable(eqn):
                roots.add(eqn.outvars[0])
        return roots - self.given

    def _absorbable(self, eqn: JaxprEqn) -> bool:
        """Whether a reduction goes along trailing axes, so that a kernel over rows can hold it."""
        _, axes = eqn.primitive.reduction(**eqn.params)
        shape = eqn.invars[0].aval.shape
        kept = len(shape) - len(axes)
        return kept > 0 and sorted(axes) == list(range(kept, len(shape)))

    # --- the plan ---------------------------------------------------------------------------------

    def plan(self) -> list[Step]:
        """Steps in an order in which everything is computed before it is read."""
        while True:
            self.missing: set[Any] = set()
            self.counts: dict[Any, int] = {}
            apart = len(self.apart)
            steps = self._steps()
            grown = self.missing | self._recomputed()
            if not grown and len(self.apart) == apart:
                return steps
            if len(self.apart) == apart and grown <= self.materialised:
                raise AssertionError(f"fusion cannot place {grown}")
            self.materialised |= grown

    def _steps(self) -> list[Step]:
        steps: list[Step] = []
        pending: list[tuple[Domain, list[Any]]] = []
        for eqn in self.jaxpr.eqns:
            if id(eqn) not in self.fusible:
                self._flush(pending, steps)
                steps.append(Step(None, [], eqn, list(eqn.outvars)))
                continue
            (out,) = eqn.outvars
            if out in self.materialised:
                self._add(pending, steps, out)
        self._flush(pending, steps)
        return steps

    def _add(self, pending: list[Any], steps: list[Step], out: Any) -> None:
        """Put a root into a waiting kernel of the same domain, if its operands are there by then.

        It may read other roots of that kernel where it writes itself: they share their values.
        """
        domain = self.domain(out)
        depends = self._reads(out)
        for i, (other, roots) in enumerate(pending):
            after = pending[i if out in self.apart else i + 1 :]
            if other == domain and not any(self._blocked(depends, p) for p in after):
                roots.append(out)
                return
        pending.append((domain, [out]))

    @staticmethod
    def _blocked(depends: set[Any], group: tuple[Domain, list[Any]]) -> bool:
        return any(root in depends for root in group[1])

    def _flush(self, pending: list[Any], steps: list[Step]) -> None:
        for domain, roots in pending:
            builder = KernelBuilder(self, domain, roots, len(steps))
            steps.append(builder.build())
            for v in builder.computed:
                self.counts[v] = self.counts.get(v, 0) + 1
        pending.clear()

    def _recomputed(self) -> set[Any]:
        """Values with something costly behind them that several kernels compute, and of these the
        last ones: what is computed once from there on."""
        dear: set[Any] = set()
        for eqn in self.jaxpr.eqns:
            if self.counts.get(eqn.outvars[0] if eqn.outvars else None, 0) > 1:
                if eqn.primitive.costly or any(
                    type(x) is not Literal and x in dear for x in eqn.invars
                ):
                    dear.add(eqn.outvars[0])
        last: set[Any] = set()
        for eqn in reversed(self.jaxpr.eqns):
            if not dear.isdisjoint(eqn.outvars):
                (v,) = eqn.outvars
                if any(self._once(user, dear, last) for user in self.users.get(v, ())):
                    last.add(v)
        # a movement is nothing to store: what it moves is
        moved = {v for v in last if self.producer[v].primitive.form == "move"}
        return {v for v in last - moved if prod(v.aval.shape) >= _FEW}

    @staticmethod
    def _once(user: JaxprEqn, dear: set[Any], last: set[Any]) -> bool:
        (out, *_) = user.outvars
        return out not in dear or (user.primitive.form == "move" and out in last)

    def _reads(self, out: Any) -> set[Any]:
        """The materialised variables that a root is computed from, at any distance within a run."""
        seen: set[Any] = set()
        found: set[Any] = set()
        stack = [x for x in self.producer[out].invars if type(x) is not Literal]
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            if v in self.materialised:
                found.add(v)
            eqn = self.producer.get(v)
            if eqn is not None and id(eqn) in self.fusible:
                stack.extend(x for x in eqn.invars if type(x) is not Literal)
        return found

    def domain(self, out: Any) -> Domain:
        """The rows and columns of the kernel that writes a variable."""
        eqn = self.producer[out]
        shape = out.aval.shape
        if reduces(eqn):
            operand = eqn.invars[0].aval.shape
            return Domain(shape, operand[len(shape) :] if self._absorbable(eqn) else ("own", out))
        columns = self._row_reductions(out, shape)
        if columns is None:
            return Domain(shape, ())
        kept = len(shape) - len(columns)
        if columns and shape[kept:] == columns:
            return Domain(shape[:kept], columns)
        return Domain(shape, columns)

    def _row_reductions(self, out: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """The extents along which reductions behind a variable go, if they all agree."""
        found: set[tuple[int, ...]] = set()
        seen: set[Any] = set()
        stack = [out]
        while stack:
            v = stack.pop()
            if v in seen or (v is not out and v in self.materialised) or v in self.given:
                continue
            seen.add(v)
            eqn = self.producer[v]
            if reduces(eqn):
                found.add(eqn.invars[0].aval.shape[len(v.aval.shape) :])
            stack.extend(x for x in eqn.invars if type(x) is not Literal)
        return found.pop() if len(found) == 1 else None


class KernelBuilder:
    """Builds the kernel of some roots over one domain."""

    def __init__(self, fusion: Fusion, domain: Domain, roots: list[Any], number: int) -> None:
        self.fusion = fusion
        self.domain = domain
        self.roots = roots
        self.name = f"k{number}"
        self.k = Builder()
        self.buffers: list[Any] = []
        self.places: dict[Any, int] = {}
        self.values: dict[Any, Value] = {}
        self.row_axes = [f"p{i}" for i in range(len(domain.rows))]
        self.own = domain.columns[:1] == ("own",)
        columns = () if self.own else domain.columns
        self.column_axes = [f"r{i}" for i in range(len(columns))]
        self.columns = columns
        self.stages: list[tuple[int, Reduce]] = []
        self.symbols: dict[Any, tuple[int, int]] = {}
        self.depth: dict[int, int] = {}
        self.current: Any = None
        self.cut = 0  # the number of the last value at which a large kernel is cut
        self.computed: set[Any] = set()
        self.costly: dict[int, Value] = {}
        self.kept: list[Buffer] = []

    def build(self) -> Step:
        if self.own:
            return self._own_reduction(self.roots[0])
        stores: list[tuple[Any, Store]] = []
        for root in self.roots:
            self.current = root
            index = self._own_index(root)
            value = self.pull(root, index)
            place = self._buffer(root)
            stores.append((root, Store(place, linear(index, root.aval.shape), value)))
        body = self._schedule(stores)
        return self._finish(body, list(self.roots))

    def _axes_of(self, root: Any) -> list[str]:
        rows, columns = self.domain.rows, self.columns
        shape = root.aval.shape
        if shape == (*rows, *columns):
            return [*self.row_axes, *self.column_axes]
        return self.row_axes

    def _own_index(self, root: Any) -> Index:
        """Where a root is written."""
        return tuple(affine(0, {a: 1}) for a in self._axes_of(root))

    def _buffer(self, v: Any) -> int:
        place = self.places.get(v)
        if place is None:
            place = self.places[v] = len(self.buffers)
            self.buffers.append(v)
        return place

    # --- pulling ----------------------------------------------------------------------------------

    def pull(self, x: Any, index: Index) -> Value:
        """The value of a variable at an index."""
        if type(x) is Literal:
            return self.k.const(np.asarray(x.val, x.aval.dtype), x.aval.dtype)
        key = (x, index)
        stack = [key]
        while stack:  # not by recursion: programs are longer than Python's stack is deep
            if stack[-1] in self.values:
                stack.pop()
                continue
            asked = self._asks(*stack[-1])
            waiting = [k for k in asked if type(k[0]) is not Literal and k not in self.values]
            if waiting:
                stack.extend(waiting)
            else:
                current = stack.pop()
                self.values[current] = self._value(*current, asked)
        return self.values[key]

    def _computes(self, x: Any, index: Index) -> bool:
        """Whether a variable is computed here at an index; else it is read from memory."""
        if x in self.roots:
            return index == self._own_index(x)
        return x not in self.fusion.given and x not in self.fusion.materialised

    def _asks(self, x: Any, index: Index) -> list[tuple[Any, Index]]:
        """The operands, each at its index, that the value of a variable is made of."""
        if not self._computes(x, index):
            return []
        eqn = self.fusion.producer[x]
        form = eqn.primitive.form
        if form == "map":
            shape = x.aval.shape
            return [(v, broadcast_index(index, v.aval.shape, shape)) for v in eqn.invars]
        if form == "move":
            operand = eqn.invars[0]
            pulled = eqn.primitive.pull(index, operand.aval, x.aval, **eqn.params)
            return [] if pulled is None else [(operand, pulled)]
        if form == "iota":
            return []
        _, axes = eqn.primitive.reduction(**eqn.params)
        if not reduces(eqn):
            rest = iter(index)
            whole = range(len(index) + len(axes))
            return [(eqn.invars[0], tuple(ZERO if i in axes else next(rest) for i in whole))]
        if not self._fits(eqn, axes, index):
            return []
        columns = tuple(affine(0, {a: 1}) for a in self.column_axes)
        return [(eqn.invars[0], (*index, *columns))]

    def _value(self, x: Any, index: Index, asked: list[tuple[Any, Index]]) -> Value:
        """The value of a variable whose operands are known."""
        if not self._computes(x, index):
            return self._load(x, index)
        if x not in self.roots:
            self.computed.add(x)
        eqn = self.fusion.producer[x]
        form = eqn.primitive.form
        if form == "map":
            return self._map(x, eqn, index, [self.pull(*key) for key in asked])
        if form == "iota":
            return self._iota(x, eqn, index)
        if form == "move" and not asked:
            return self._relabelled(eqn.invars[0], x, index)
        if reduces(eqn):
            return self._reduction(x, eqn, index, asked)
        return self.pull(*asked[0])

    def _load(self, x: Any, index: Index) -> Value:
        return self._read(x, linear(index, x.aval.shape))

    def _read(self, x: Any, at: Affine) -> Value:
        if x in self.roots:
            # not yet written there: the reader needs a kernel of its own, after this one
            self.fusion.apart.add(self.current)
        return self.k.load(self._buffer(x), x.aval.dtype, at)

    def _relabelled(self, operand: Any, x: Any, index: Index) -> Value:
        """An element of a reshaped array: the same memory, counted by the new shape."""
        if type(operand) is Literal:
            return self.pull(operand, ())
        if operand not in self.fusion.given and operand not in self.fusion.materialised:
            self.fusion.missing.add(operand)
        return self._read(operand, linear(index, x.aval.shape))

    def _map(self, x: Any, eqn: JaxprEqn, index: Index, operands: list[Value]) -> Value:
        operands = [self.k.cast(v, F32) if v.dtype in NARROW else v for v in operands]
        result = eqn.primitive.lower(self.k, *operands, **eqn.params)
        result = self.k.cast(result, x.aval.dtype)
        if eqn.primitive.costly:
            self._note_cost(x, index, result)
        if result.number > self.cut + _LARGE and x not in self.roots:
            self.cut = result.number
            self.fusion.missing.add(x)
            self.fusion.apart.update((x, self.current))
        return result

    def _repeats(self, x: Any, index: Index) -> bool:
        """Whether the kernel would compute the same element of a variable over and over."""
        whole = prod(self.domain.rows) * prod(self.columns)
        if self.own or whole < 2 * prod(x.aval.shape) or whole < _FEW:
            return False
        # what stays the same along the innermost axis is computed before its loop
        innermost = [*self.row_axes, *self.column_axes][-1:]
        return any(entry.coefficient(axis) for axis in innermost for entry in index)

    def _note_cost(self, x: Any, index: Index, value: Value) -> None:
        if x not in self.roots and self._repeats(x, index):
            self.fusion.missing.add(x)
        if any(entry.coefficient(axis) for axis in self.column_axes for entry in index):
            self.costly[value.number] = value

    def _iota(self, x: Any, eqn: JaxprEqn, index: Index) -> Value:
        entry = index[eqn.params["dimension"]]
        total = self.k.const(entry.const, np.int64)
        for axis, factor in entry.terms:
            scaled = self.k.mul(self.k.index(axis), self.k.const(factor, np.int64))
            total = self.k.add(total, scaled)
        if x.aval.dtype in NARROW:
            return self.k.cast(self.k.cast(total, F32), x.aval.dtype)
        return self.k.cast(total, x.aval.dtype)

    def _is_row_index(self, index: Index) -> bool:
        return index == tuple(affine(0, {a: 1}) for a in self.row_axes)

    def _fits(self, eqn: JaxprEqn, axes: Sequence[int], index: Index) -> bool:
        """Whether a reduction goes along the kernel's columns, for the row that is being run."""
        shape = eqn.invars[0].aval.shape
        kept = len(shape) - len(axes)
        trailing = sorted(axes) == list(range(kept, len(shape)))
        return trailing and shape[kept:] == self.columns and self._is_row_index(index)

    def _reduction(
        self, x: Any, eqn: JaxprEqn, index: Index, asked: list[tuple[Any, Index]]
    ) -> Value:
        if not asked:
            self.fusion.missing.add(x)
            return self._load(x, index)
        op, _ = eqn.primitive.reduction(**eqn.params)
        known = self.symbols.get(x)
        dtype = accumulator(x.aval.dtype)
        if known is None:
            value = self.k.cast(self.pull(*asked[0]), dtype)
            symbol = len(self.symbols)
            depth = self._stage_of(value)
            self.symbols[x] = (symbol, depth)
            self.stages.append((depth, Reduce(symbol, op, value, dtype, identity(op, dtype))))
            known = (symbol, depth)
        acc = self.k.make("acc", (), dtype, known[0])
        self.depth[acc.number] = known[1] + 1
        return self.k.cast(acc, x.aval.dtype)

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

    def _schedule(self, stores: list[tuple[Any, Store]]) -> list[Any]:
        """Reductions by depth, then the stores that need them; each depth is one pass of a row."""
        columns = set(self.column_axes)
        full = [s for root, s in stores if self._axes_of(root) != self.row_axes or not columns]
        scalars = [s for root, s in stores if self._axes_of(root) == self.row_axes and columns]
        if not self.stages:
            return self._nest([s for _, s in stores], [*self.row_axes, *self.column_axes])
        last = max(depth for depth, _ in self.stages)
        passes: list[list[Any]] = []
        for depth in range(last + 2):
            inner: list[Any] = [r for d, r in self.stages if d == depth]
            inner += [s for s in full if self._stage_of(s.value) == depth]
            if inner:
                passes.append(inner)
        position = linear(tuple(affine(0, {a: 1}) for a in self.column_axes), self.columns)
        row = prod(self.columns)
        place = len(self.buffers)
        passes, self.kept = rows.keep(self.k, passes, self.costly, position, row, place)
        body = [s for inner in passes for s in self._nest(inner, self.column_axes)]
        return body + scalars

    def _nest(self, statements: list[Any], axes: Sequence[str]) -> list[Any]:
        body = statements
        carries = tuple(s.symbol for s in statements if isinstance(s, Reduce))
        for axis in reversed(axes):
            body = [Loop(axis, self._extent(axis), body, carries)]
        return body

    def _extent(self, axis: str) -> int:
        i = int(axis[1:])
        return self.domain.rows[i] if axis[0] == "p" else self.columns[i]

    def _finish(self, body: list[Any], writes: list[Any]) -> Step:
        buffers = [
            Buffer(v.aval.dtype, prod(v.aval.shape), "out" if v in writes else "in")
            for v in self.buffers
        ]
        buffers += self.kept
        if self.stages and self.row_axes:
            for axis in reversed(self.row_axes[1:]):
                body = [Loop(axis, self._extent(axis), body)]
            grid = (self.row_axes[0], self.domain.rows[0])
        elif body and isinstance(body[0], Loop) and len(body) == 1:
            grid = (body[0].axis, body[0].extent)
            body = body[0].body
        else:
            grid = None
        kernel = Kernel(self.name, buffers, grid, body)
        return Step(kernel, list(self.buffers), None, writes)

    def _own_reduction(self, root: Any) -> Step:
        """A reduction over axes that are not all trailing: a serial nest around each result."""
        eqn = self.fusion.producer[root]
        operand = eqn.invars[0]
        self.current = root
        op, axes = eqn.primitive.reduction(**eqn.params)
        shape = operand.aval.shape
        kept = [i for i in range(len(shape)) if i not in axes]
        names = {i: f"p{kept.index(i)}" if i in kept else f"r{i}" for i in range(len(shape))}
        index = tuple(affine(0, {names[i]: 1}) for i in range(len(shape)))
        dtype = accumulator(root.aval.dtype)
        value = self.k.cast(self.pull(operand, index), dtype)
        reduce = Reduce(0, op, value, dtype, identity(op, dtype))
        result = self.k.cast(self.k.make("acc", (), dtype, 0), root.aval.dtype)
        place = self._buffer(root)
        out_index = tuple(affine(0, {f"p{i}": 1}) for i in range(len(kept)))
        store = Store(place, linear(out_index, root.aval.shape), result)
        buffers = [
            Buffer(v.aval.dtype, prod(v.aval.shape), "out" if v is root else "in")
            for v in self.buffers
        ]
        inner: list[Any] = [reduce]
        for i in reversed([i for i in range(len(shape)) if i in axes]):
            inner = [Loop(f"r{i}", shape[i], inner, (0,))]
        body: list[Any] = [*inner, store]
        if not kept:
            return Step(Kernel(self.name, buffers, None, body), list(self.buffers), None, [root])
        # results that are neighbours in memory are computed side by side
        last = len(kept) - 1
        body = [Loop(f"p{last}", shape[kept[last]], body, (), kept[last] == len(shape) - 1)]
        for i in reversed(range(last)):
            body = [Loop(f"p{i}", shape[kept[i]], body)]
        if last == 0:
            return Step(Kernel(self.name, buffers, None, body), list(self.buffers), None, [root])
        grid = (body[0].axis, body[0].extent)
        return Step(
            Kernel(self.name, buffers, grid, body[0].body), list(self.buffers), None, [root]
        )


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


def linear(index: Index, shape: tuple[int, ...]) -> Affine:
    """The element offset of an index into a row-major array."""
    const, stride = 0, 1
    terms: dict[str, int] = {}
    for entry, size in zip(reversed(index), reversed(shape), strict=True):
        const += entry.const * stride
        for axis, factor in entry.terms:
            terms[axis] = terms.get(axis, 0) + factor * stride
        stride *= size
    return affine(const, terms)


ZERO = Affine()


def broadcast_index(index: Index, have: tuple[int, ...], want: tuple[int, ...]) -> Index:
    """The index into an operand that is broadcast to the shape the index is for."""
    if not have:
        return ()
    if have == want:
        return index
    return tuple(
        ZERO if n == 1 and m != 1 else entry for entry, n, m in zip(index, have, want, strict=True)
    )
