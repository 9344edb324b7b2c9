"""Fusion: which values of a flat program are written to memory, and by which kernel.

Values are pulled (compiler/pull.py): a kernel has a domain, the shape of what it writes, and asks
for the value of a variable at an index. So producers, consumers, siblings and row reductions fall
together without patterns; here it is decided where that ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from weft.base.sizes import plain, same
from weft.compiler import pull
from weft.compiler.alike import Alike
from weft.compiler.backend import MIN_STORED_OPS
from weft.compiler.marks import beginnings, feeding, marks_of, unmarked
from weft.compiler.passes.contract import users_of
from weft.compiler.places import between_stencils
from weft.compiler.pull import Cut, Domain, Memory, Puller, reduces, reduction_domain
from weft.compiler.work import REPEATED, Work
from weft.core.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal
from weft.kernel.elements import added_at
from weft.kernel.kernel import Atomic, Buffer, Kernel, Loop, linear
from weft.kernel.nodes import FLOATS, layout, tiny
from weft.kernel.program import Finish

_INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
_SUPPORTED = FLOATS | {np.dtype(name) for name in ["bool", *_INTEGERS.split()]}
_COMPOUND = frozenset([np.dtype(np.complex64), np.dtype(np.complex128)])
# Forms of movements, which bytes that have to be decoded may go through as they are.
_MOVING = frozenset(["move", "element", "update"])
# A kernel in more pieces than this is not made: what it would be cut for is written first.
MAX_KERNEL_PARTS = 12
# The whole of a kernel whose rims are computed slowly, as a multiple of what is inside, at most.
RIMS = 4
# Elements up to which the pieces of a kernel are run one after the other, in one.
MAX_SEQUENTIAL_ELEMENTS = 1 << 14
# Functions of elements from which what each row or column of a matrix is multiplied by is written
# first.
MIN_REPEATED_OPS = 2
# A small array that is spread over a larger one has a kernel if the larger one has so many elements
# and the small one takes so many operations, or more.
MIN_SPREAD, MIN_SPREAD_OPS = 1 << 22, 16
# Elements up to which an array that is reduced is one row.
MAX_SINGLE_ROW = 1 << 14
# Values of shorter rows are a kernel of their own, which computes them in whole vectors.
MIN_JOINED_ROW = 256


def supported(aval: Any) -> bool:
    """Whether kernels can hold values of this type, as one scalar or as several."""
    dtype = getattr(aval, "dtype", None)
    dtype = getattr(dtype, "primal_dtype", dtype)  # that it is held as
    if dtype in _SUPPORTED or dtype in _COMPOUND:
        return True
    return dtype is not None and (dtype.name == "key<fry>" or tiny(dtype))


def fusible(eqn: JaxprEqn) -> bool:
    """Whether an equation can be pulled through."""
    primitive = eqn.primitive
    if primitive.form is None or eqn.effects:
        return False
    avals = [x.aval for x in [*eqn.invars, *eqn.outvars]]
    plain = True
    for a in avals:
        if getattr(a, "dtype", None) not in _SUPPORTED:
            plain = False
            if not supported(a):
                return False
    if not primitive.fuses(eqn.params, avals[: len(eqn.invars)]):
        return False
    if primitive.form in ("element", "update") and all(0 in v.aval.shape for v in eqn.outvars):
        return False
    if plain:
        return primitive.form != "map" or primitive.lower is not None
    if any(tiny(a.dtype) for a in avals) and primitive.form not in _MOVING:
        if primitive.form != "map" or not primitive.widens:
            return False
    if all(a.dtype in _SUPPORTED or tiny(a.dtype) for a in avals):
        return primitive.form != "map" or primitive.lower is not None
    if primitive.form == "map":
        return primitive.lower_parts is not None
    return primitive.form != "reduce" or primitive.reduction(**eqn.params)[0] == "add"


# Bytes of a result from which on a second pass over it is worth saving.
LARGE_RESULT_BYTES = 1 << 15


def finishable(eqn: JaxprEqn) -> bool:
    """Whether a kernel may go on with what an equation computes, while it is being computed."""
    if not eqn.primitive.in_blocks or eqn.effects or len(eqn.outvars) != 1:
        return False
    aval = eqn.outvars[0].aval
    return plain(prod(aval.shape)) * aval.dtype.itemsize >= LARGE_RESULT_BYTES


# Arrays that a kernel with several roots reads and writes: a GPU's has a parameter for each, and
# room for 500.
MAX_ARRAYS = 384
# Roots of one kernel that share nothing but its domain.
MAX_UNRELATED_ROOTS = 16
# So few roots are one kernel in any case.
FEW_ROOTS = 8
# Arrays that such roots read and write together. With ten leaves of Adam's update in a kernel, 70
# of them, a step took twice as long as with two, and so did compiling it.
STREAMS = 16
# The same where the arrays are large, so that each is a stream from memory: with three leaves of
# Lion's update in a kernel, 15 of them, a step took 2.4 times as long as with one.
LARGE_STREAMS = 8
# Arrays that a value which several kernels need is computed from before it is written instead.
_MAX_READ_AGAIN = 3
# Kernels that compute a small value again before it is written instead.
_MAX_RECOMPUTATIONS = 3


class Step(NamedTuple):
    """One step of a plan: a kernel with its variables, or an equation left to a library.

    A kernel may write to a buffer that is not in ``writes``: it adds to what an earlier step has
    begun. ``source`` is a variable whose memory the result may take over if nothing else needs it;
    the step is then left out. ``finish`` says that the kernel goes on with blocks of the equation's
    result; ``apart`` are the two steps to be taken where the backend cannot do that, ``offer`` is
    what it says where it can.
    """

    kernel: Kernel | None
    buffers: list[Any]
    eqn: JaxprEqn | None
    writes: list[Any]
    source: Any = None
    finish: Finish | None = None
    apart: tuple[Any, ...] = ()
    offer: Any = None


class Built(NamedTuple):
    """The steps of a group of roots, and the variables that are computed on the way to them."""

    steps: list[Step]
    computed: set[Any]


class Fusion:
    """Decides what is materialised and builds the kernels of a program.

    General kernels read numbers that are written into the program, as sizes of arrays are. With
    ``recomputes``, functions of elements are computed again rather than kept in memory. With
    ``marks``, kernels note whether something holds anywhere in what they compute.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        general: bool = False,
        recomputes: bool = False,
        min_stored_ops: int = MIN_STORED_OPS,
        scatters: Callable[[JaxprEqn], int] | None = None,
        marks: str = "",
    ) -> None:
        self.jaxpr = jaxpr
        self.recomputes = recomputes
        self.work = min_stored_ops
        self.general = general
        self.producer: dict[Any, JaxprEqn] = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self.fusible = {id(eqn) for eqn in jaxpr.eqns if fusible(eqn)}
        self.scatters = self._scatters(scatters) if scatters is not None else {}
        fuses = lambda eqn: id(eqn) in self.fusible
        self.marks = marks_of(jaxpr, fuses, marks == "checks") if marks else {}
        self.reductions = {
            id(e): reduction_domain(e)
            for e in jaxpr.eqns
            if reduces(e) and e.outvars[0] not in self.marks
        }
        self.given = {*jaxpr.constvars, *jaxpr.invars}
        self.users = users_of(jaxpr)
        self.asking = feeding(jaxpr, self.marks, self.users) if self.marks else set[int]()
        self.results = [x for x in jaxpr.outvars if type(x) is not Literal]
        self.apart: set[Any] = set()  # roots that read others in ways one kernel cannot
        self.materialised = self._roots()
        self.plain: set[Any] = set()  # roots that reductions cannot be computed along with
        self.shared: set[Any] = set()  # values written because several kernels need them
        self.built: dict[Any, Built] = {}
        self.alike = Alike(self, general)
        self.numbers: dict[int, Any] = {}  # literals that the kernel being built reads from arrays
        self._positions: dict[int, int] = {}

    def positions(self) -> dict[int, int]:
        """The places of equations in the program, by id."""
        if not self._positions:
            self._positions = {id(eqn): i for i, eqn in enumerate(self.jaxpr.eqns)}
        return self._positions

    def _roots(self) -> set[Any]:
        """Results, and operands of what cannot be fused."""
        roots = {x for x in self.results if x not in self.given}
        for eqn in self.jaxpr.eqns:
            if id(eqn) not in self.fusible:
                # what updates are added to is written with other arrays of its shape
                read = eqn.invars[:1] if id(eqn) in self.scatters else eqn.invars
                roots.update(x for x in read if type(x) is not Literal)
                roots.update(eqn.outvars)
            elif eqn.primitive.form == "update" or not self._absorbable(eqn):
                roots.add(eqn.outvars[0])
        roots.update(self.marks)
        if self.recomputes:
            roots |= self._repeated()
            if not self.general:
                roots |= self._spread()
        roots -= self.given
        if self.recomputes and not self.general:
            fuses = lambda eqn: id(eqn) in self.fusible
            found, self.apart = between_stencils(self.jaxpr, fuses, self.users, roots)
            roots |= found
        return roots | self._crossing(roots)

    def _scatters(self, width: Callable[[JaxprEqn], int]) -> dict[int, int]:
        """Scatters whose kernels compute the updates, by id, and the elements that these add at a
        time."""
        found: dict[int, int] = {}
        for eqn in self.jaxpr.eqns:
            # the updates come last
            made = self.producer.get(eqn.invars[-1]) if eqn.primitive.in_place else None
            if made is not None and id(made) in self.fusible:
                count = width(eqn)
                if count:
                    found[id(eqn)] = count
        return found

    def _repeated(self) -> set[Any]:
        """Short rows that are multiplied by all rows or columns of a matrix: each would compute
        them again."""
        found: set[Any] = set()
        for eqn in self.jaxpr.eqns:
            product = self.producer.get(eqn.invars[0]) if id(eqn) in self.reductions else None
            if product is None or product.primitive.name != "mul":
                continue
            for x in product.invars:
                spread = None if type(x) is Literal else self.producer.get(x)
                if spread is None or not spread.primitive.repeats:
                    continue
                v = self._unwidened(spread.invars[0])
                size = 1 if type(v) is Literal else plain(prod(v.aval.shape))
                if 1 < size <= MAX_SINGLE_ROW and REPEATED * size <= plain(prod(x.aval.shape)):
                    if self._maps_behind(v, MIN_REPEATED_OPS) >= MIN_REPEATED_OPS:
                        found.add(v)
        return found

    def _spread(self) -> set[Any]:
        """Small arrays that are much work and are spread over large ones, as the deviations of
        groups are: each element of the large ones would compute them again. Those of rows whose
        sums the same kernel has at hand are part of it, and those that differ from neighbour to
        neighbour are found when kernels are built.
        """
        found: set[Any] = set()
        for eqn in self.jaxpr.eqns:
            out = plain(prod(eqn.outvars[0].aval.shape)) if eqn.outvars else 0
            if out < MIN_SPREAD or id(eqn) not in self.fusible:
                continue
            if eqn.primitive.form != "map" and not eqn.primitive.repeats:
                continue
            for x in eqn.invars:
                if type(x) is Literal or x in found or not 1 < (n := plain(prod(x.aval.shape))):
                    continue
                if n > MAX_SINGLE_ROW or out < REPEATED * n or not _is_inside(x, eqn):
                    continue
                if self._is_dear(x, found):
                    found.add(x)
        return found

    def _is_dear(self, x: Any, written: set[Any]) -> bool:
        """Whether a value takes many operations after those that are written, and no reduction of
        rows."""
        ops, seen, waiting = 0, set(written), [x]
        while waiting:
            v = waiting.pop()
            eqn = None if type(v) is Literal else self.producer.get(v)
            if v in seen or eqn is None or id(eqn) not in self.fusible:
                continue
            seen.add(v)
            domain = self.reductions.get(id(eqn))
            if domain is None:
                ops += self._cost(eqn)
                waiting += eqn.invars
            elif self.in_rows(domain):
                return False
        return ops >= MIN_SPREAD_OPS

    def _unwidened(self, x: Any) -> Any:
        """What a value was converted from, where that is narrower."""
        while type(x) is not Literal and (eqn := self.producer.get(x)) is not None:
            if not eqn.primitive.converts or id(eqn) not in self.fusible:
                break
            if eqn.invars[0].aval.dtype.itemsize > x.aval.dtype.itemsize:
                break
            x = eqn.invars[0]
        return x

    def _maps_behind(self, x: Any, enough: int) -> int:
        """Functions of elements that a value is computed by, up to a number."""
        eqn = None if type(x) is Literal else self.producer.get(x)
        if eqn is None or id(eqn) not in self.fusible or id(eqn) in self.reductions:
            return 0
        own = int(eqn.primitive.form == "map" and not eqn.primitive.converts)
        for y in eqn.invars:
            if own < enough:
                own += self._maps_behind(y, enough - own)
        return own

    def _crossing(self, roots: set[Any]) -> set[Any]:
        """Values that are much work and are needed both before and after something is complete.

        Kernels on both sides would compute them; `_recomputed` would find that out, one large
        kernel after the other.
        """
        level: dict[Any, int] = {}
        ends = set(roots)
        for eqn in self.jaxpr.eqns:
            behind = [x for x in eqn.invars if type(x) is not Literal]
            at = max((level.get(x, 0) + (x in ends) for x in behind), default=0)
            level.update((v, at) for v in eqn.outvars)
            domain = self.reductions.get(id(eqn))
            if domain is not None and not self.in_rows(domain):
                ends.update(eqn.outvars)
        found: set[Any] = set()
        work = Work(self)
        arrays: dict[Any, frozenset[Any]] = {}  # what else would be read, a few of them
        for eqn in self.jaxpr.eqns:
            operands = {x for x in eqn.invars if type(x) is not Literal}
            total = work.of(eqn, operands)
            read = frozenset[Any]()
            if self.apart:  # of stencils, which later ones would compute again and again
                read = read.union(*(arrays.get(x, {x}) for x in operands))
            for v in eqn.outvars:
                users = {level[u.outvars[0]] for u in self.users.get(v, ()) if u.outvars}
                kept = v in roots
                if not kept and len(users) > 1:
                    kept = total >= self._most_ops(v) or self._reads_much(v, read)
                if kept:
                    found.add(v)
                else:
                    work.note(v)
                    if id(eqn) in self.fusible and v not in ends:
                        arrays[v] = read
        return found | self._after_products(level, roots)

    def _reads_much(self, v: Any, arrays: frozenset[Any]) -> bool:
        """Whether to compute a value again would read several arrays of its size instead of it."""
        size = plain(prod(v.aval.shape))
        large = sum(2 * plain(prod(x.aval.shape)) >= size for x in arrays)
        return size > MAX_SINGLE_ROW and large >= _MAX_READ_AGAIN

    def _most_ops(self, v: Any) -> int:
        """Operations from which on a value that several kernels need is written; small ones cost no
        memory to speak of."""
        small = self.recomputes and plain(prod(v.aval.shape)) <= MAX_SINGLE_ROW
        return MIN_STORED_OPS if small else self.work

    def _cost(self, eqn: JaxprEqn) -> int:
        """The work of an equation for one element."""
        if not eqn.primitive.costly:
            return int(eqn.primitive.form != "move")
        ops = eqn.primitive.function_ops if self.recomputes else 0
        return min(ops or self.work, self.work)

    def _after_products(self, level: dict[Any, int], roots: set[Any]) -> set[Any]:
        """What products become element by element before several kernels need it: sums with a
        bias and a residual. Written once, or by the product, they are read instead of their parts.
        """
        made = [e for e in self.jaxpr.eqns if finishable(e) and id(e) not in self.fusible]
        if not made:
            return set()
        kinds: dict[Any, frozenset[Any]] = {}  # kernels that need a value, two at most
        for eqn in reversed(self.jaxpr.eqns):
            domain = self.reductions.get(id(eqn))
            across = domain is not None and not self.in_rows(domain)
            own = {(level[v], across) for v in eqn.outvars if across or v in roots}
            for x in eqn.invars:
                if type(x) is Literal or len(kinds.get(x, ())) > 1 or id(eqn) not in self.fusible:
                    continue
                rest = () if across else (kinds.get(v, frozenset()) for v in eqn.outvars)
                kinds[x] = kinds.get(x, frozenset()).union(own, *rest)
        found = set()
        for eqn in made:
            v = product = eqn.outvars[0]
            while v not in self.results and len(self.users.get(v, ())) == 1:
                (user,) = self.users[v]
                out = user.outvars[0]
                if id(user) not in self.fusible or user.primitive.form != "map":
                    break
                if out.aval.shape != product.aval.shape:
                    break
                if self.recomputes and out.aval.dtype.itemsize > v.aval.dtype.itemsize:
                    break  # what is narrow is read faster
                v = out
            if v is not product and len(kinds.get(v, ())) > 1:
                found.add(v)
        return found

    def _absorbable(self, eqn: JaxprEqn) -> bool:
        """Whether a kernel of what an equation's users are may hold it too, if it reduces."""
        domain = self.reductions.get(id(eqn))
        if domain is None or self.in_rows(domain):
            return True
        (out,) = eqn.outvars
        return all(v.aval.shape == domain.rows for u in self.users.get(out, ()) for v in u.outvars)

    # --- the plan ---------------------------------------------------------------------------------

    def plan(self) -> list[Step]:
        """Steps in an order in which everything is computed before it is read."""
        while True:
            self.missing: set[Any] = set()
            known = len(self.apart) + len(self.plain)
            steps, counts = self._steps()
            again = self._recomputed(counts)
            self.shared |= again
            grown = self.missing | again
            if not grown and len(self.apart) + len(self.plain) == known:
                if not self.alike.outdated:
                    return steps
                while self.alike.outdated:
                    self.built.pop(self.alike.outdated.pop(), None)
                continue
            if len(self.apart) + len(self.plain) == known and grown <= self.materialised:
                raise AssertionError(f"fusion cannot place {grown}")
            self.materialised |= grown
            stale = [key for key, b in self.built.items() if not grown.isdisjoint(b.computed)]
            for key in stale:
                del self.built[key]

    def _steps(self) -> tuple[list[Step], dict[Any, int]]:
        self._look_behind()
        steps = [Step(k, list(own), None, list(own)) for k, own in beginnings(self.marks)]
        counts: dict[Any, int] = {}
        pending: list[list[Any]] = []
        for eqn in self.jaxpr.eqns:
            if id(eqn) not in self.fusible:
                self._flush(pending, steps, counts)
                if id(eqn) in self.scatters:
                    self._count(self._scattered(eqn), steps, counts)
                else:
                    steps.append(Step(None, [], eqn, list(eqn.outvars)))
                continue
            for out in eqn.outvars:
                if out in self.materialised:
                    self._add(pending, out)
        self._flush(pending, steps, counts)
        return steps, counts

    def _look_behind(self) -> None:
        """For each variable, as bits, the materialised ones it is computed from, and the kinds of
        reductions that a kernel would compute for it."""
        self.bits: dict[Any, int] = {}
        self.reads: dict[Any, int] = {}
        self.behind: dict[Any, frozenset[Domain]] = {}
        self.support: dict[Any, int] = {}  # arrays of several elements that it is computed from
        self.arrays = arrays = dict[Any, int]()
        self.marked = 0  # bits of marks, which no kernel that makes them can read
        given, materialised, fusible = self.given, self.materialised, self.fusible
        bits, reads, behind, supports = self.bits, self.reads, self.behind, self.support
        nothing: frozenset[Domain] = frozenset()
        for eqn in self.jaxpr.eqns:
            if id(eqn) not in fusible:
                for v in eqn.outvars:
                    behind[v] = nothing
                continue
            mask, found, support = 0, nothing, 0
            for x in eqn.invars:
                if type(x) is Literal:
                    continue
                stored = x in materialised
                known = supports.get(x)
                if known is None or stored:
                    known = arrays.get(x, 0)
                    if not known and prod(x.aval.shape) > 1 and id(eqn) not in self.asking:
                        known = arrays[x] = 1 << len(arrays)
                support |= known
                if x in given:
                    continue
                mask |= reads.get(x, 0) | bits.get(x, 0)
                if not stored and len(found) < 2:
                    found = found | behind[x]
            if id(eqn) in self.reductions:
                found = found | {self.reductions[id(eqn)]}
            for v in eqn.outvars:
                reads[v] = mask
                behind[v] = found
                supports[v] = support
                if v in materialised:
                    bits[v] = 1 << len(bits)
                    self.marked |= bits[v] if v in self.marks else 0
        self.products = 0  # those of the arrays that kernels may be attached to
        for v, bit in arrays.items():
            made = self.producer.get(v)
            if made is not None and id(made) not in self.fusible and finishable(made):
                self.products |= bit

    def shape(self, out: Any) -> tuple[int, ...]:
        """The shape of what a kernel goes through for a root: for a mark, what is looked at."""
        if out in self.marks:
            return self.producer[out].invars[0].aval.shape  # type: ignore[no-any-return]
        return out.aval.shape  # type: ignore[no-any-return]

    def domain(self, out: Any) -> Domain:
        """The rows and columns of the kernel that writes a variable."""
        eqn = self.producer[out]
        shape = self.shape(out)
        if id(eqn) in self.reductions:
            return self.reductions[id(eqn)]
        found = self.behind[out]
        if len(found) == 1 and out not in self.plain:
            (known,) = found
            whole = known.trailing and shape == (*known.rows, *known.columns)
            if shape == known.rows or (whole and self.in_rows(known)):
                return known
        return Domain(shape)

    def _add(self, pending: list[list[Any]], out: Any) -> None:
        """Put a root into a waiting kernel of the same domain, if its operands are there by then.

        It may read other roots of that kernel where it writes itself: they share their values.
        """
        reads, bit = self.reads[out], self.bits[out]
        if self.producer[out].primitive.form == "update":
            pending.append([None, [out], bit])
            return
        domain, chosen = self.domain(out), None
        for group in reversed(pending):
            blocked = group[2] & reads
            if (
                group[0] is not None
                and not blocked & self.marked
                and not (blocked and out in self.apart)
            ):
                joint = self._joint(group[0], domain, bool(blocked))
                if joint is None and blocked and out in self.marks:
                    joint = self._with_sums(group[0], domain)
                if joint is not None and (
                    group[0] == domain or self.plain.isdisjoint([out, *group[1]])
                ):
                    chosen = group, joint
            if blocked:
                break
        if chosen is None:
            pending.append([domain, [out], bit])
            return
        group, group[0] = chosen
        group[1].append(out)
        group[2] |= bit

    def in_rows(self, domain: Domain) -> bool:
        """Whether a kernel may go through each row of a domain several times. One row alone is one
        where arithmetic is cheap: a block of threads has it at hand."""
        if not domain.trailing:
            return False
        alone = self.recomputes and bool(domain.columns)
        return bool(domain.rows) or (alone and plain(prod(domain.columns)) <= MAX_SINGLE_ROW)

    def _joint(self, one: Domain, other: Domain, reads: bool) -> Domain | None:
        """The domain in which the roots of two may be computed, or None.

        Values of a row join the kernel of its reductions only if they read what that computes.
        """
        if same(one, other):
            return one
        for rows, flat in ((one, other), (other, one)):
            if rows.columns and not flat.columns and self.in_rows(rows):
                if same(flat.rows, (*rows.rows, *rows.columns)):
                    return rows
        if reads and one.columns and self.in_rows(one) and not other.columns:
            long = self.recomputes or plain(prod(one.columns)) >= MIN_JOINED_ROW
            if long and pull.is_of_rows(other.rows, one):
                return one
        return None

    @staticmethod
    def _with_sums(one: Domain, other: Domain) -> Domain | None:
        """The domain of a reduction that may mark what it gives, or None."""
        return one if not other.columns and same(one.rows, other.rows) else None

    def _flush(self, pending: list[list[Any]], steps: list[Step], counts: dict[Any, int]) -> None:
        groups = [
            (domain, part)
            for domain, roots, _ in pending
            for apart in self._by_product(domain, roots)
            for whole in self._parts(apart)
            for part in self._within_limits(whole)
        ]
        for domain, roots in groups:
            key = (domain, tuple(roots))
            built = self.built.get(key)
            if built is None:
                grown = len(self.missing) + len(self.apart) + len(self.plain)
                alone = domain is None
                built = self._update(roots[0]) if alone else self.alike.build(domain, roots)
                if grown == len(self.missing) + len(self.apart) + len(self.plain):
                    self.built[key] = built
            self._count(built, steps, counts)
        pending.clear()

    def _count(self, built: Built, steps: list[Step], counts: dict[Any, int]) -> None:
        for made in built.steps:
            own = [v for v in made.writes if v not in self.marks]
            steps.append(made if len(own) == len(made.writes) else made._replace(writes=own))
        for v in built.computed:
            counts[v] = counts.get(v, 0) + 1

    def _by_product(self, domain: Domain | None, roots: list[Any]) -> list[list[Any]]:
        """Roots that go on with different products in kernels of their own: each may be attached
        to one."""
        if domain is None or domain.columns or len(roots) < 2:
            return [roots]
        products = self.products
        masks = [self.support[out] & products for out in roots]
        joined = _connected(roots, self._linked(roots, masks))
        several = [members for mask, members in joined if mask & products]
        if len(several) < 2:
            return [roots]
        others = [out for mask, members in joined if not mask & products for out in members]
        order = {out: i for i, out in enumerate(roots)}
        found = [sorted(part, key=order.__getitem__) for part in (others, *several) if part]
        return sorted(found, key=lambda part: order[part[0]])

    def _parts(self, roots: list[Any]) -> list[list[Any]]:
        """Roots that share no array in kernels of their own, where they are many.

        Equal ones, of the leaves of a large tree, then compile once; those that share arrays are
        together, as one pass over them should do. Pieces of arrays are kernels of their own where
        these are to be the same for arrays of other sizes, of which there are more or fewer pieces.
        """
        if self.general and len(roots) > 1 and all(map(self._is_piece, roots)):
            return [[out] for out in roots]
        large = not self.general and prod(self.shape(roots[0])) > MAX_SEQUENTIAL_ELEMENTS
        if unmarked(roots, self.marks) <= (1 if large else FEW_ROOTS):
            return [roots]
        most = LARGE_STREAMS if large else STREAMS
        parts: list[list[Any]] = [[]]
        masks = [self.support[out] | self.arrays.get(out, 0) for out in roots]
        known, streams = (1 << len(self.arrays)) - 1, 0
        for mask, members in _connected(roots, self._linked(roots, masks)):
            written = unmarked(members, self.marks)
            more = (mask & known).bit_count() + written
            together = unmarked(parts[-1], self.marks) + written
            if parts[-1] and (together > MAX_UNRELATED_ROOTS or streams + more > most):
                parts.append([])
                streams = 0
            parts[-1] += members
            streams += more
        order = {out: i for i, out in enumerate(roots)}
        return [sorted(part, key=order.__getitem__) for part in parts]

    def _within_limits(self, roots: list[Any]) -> list[list[Any]]:
        """Roots in order, in kernels of no more arrays than one may have."""
        if 2 * len(roots) <= MAX_ARRAYS:
            return [roots]
        found: list[list[Any]] = [[]]
        read: set[Any] = set()
        for out in roots:
            own = self._read_by(out)
            if found[-1] and len(read | own) + len(found[-1]) >= MAX_ARRAYS:
                found.append([])
                read = set()
            found[-1].append(out)
            read |= own
        return found

    def _read_by(self, out: Any) -> set[Any]:
        """The values in memory that a root is computed from."""
        found: set[Any] = set()
        seen, stack = {out}, [out]
        while stack:
            for x in self.producer[stack.pop()].invars:
                if type(x) is Literal or x in seen:
                    continue
                seen.add(x)
                if x in self.materialised or x not in self.producer:
                    found.add(x)
                else:
                    stack.append(x)
        return found

    def _is_piece(self, out: Any) -> bool:
        """Whether a value is a part of an array that is given."""
        while out not in self.given:
            eqn = self.producer.get(out)
            if eqn is None or not (eqn.primitive.form == "move" or eqn.primitive.view):
                return False
            out = eqn.invars[0]
            if type(out) is Literal:
                return False
        return True

    def _linked(self, roots: list[Any], masks: list[int]) -> list[int]:
        """Masks with more bits, which roots that read each other have in common: the kernels of
        roots apart are run in any order."""
        own = 0
        for out in roots:
            own |= self.bits[out]
        above = len(self.arrays)
        return [
            mask | ((self.reads[out] & own | self.bits[out]) << above)
            for out, mask in zip(roots, masks, strict=True)
        ]

    # --- what is computed more than once ----------------------------------------------------------

    def _recomputed(self, counts: dict[Any, int]) -> set[Any]:
        """Values with something costly behind them that several kernels compute, and of these the
        last ones: what is computed by fewer kernels from there on."""
        dear: set[Any] = set()
        work = Work(self)
        for eqn in self.jaxpr.eqns:
            again = [v for v in eqn.outvars if counts.get(v, 0) > 1]
            if not again:
                continue
            known = [x for x in eqn.invars if type(x) is not Literal]
            costly = work.of(eqn, known) >= self.work or id(eqn) in self.reductions
            for v in again:
                work.note(v)
                if costly or any(x in dear and self._keeps(v, x) for x in known):
                    dear.add(v)
        if not dear:
            return dear
        last: set[Any] = set()
        for eqn in reversed(self.jaxpr.eqns):
            for v in eqn.outvars:
                if v in dear and any(
                    self._fewer(u, counts, counts[v], last) for u in self.users.get(v, ())
                ):
                    last.add(v)
        # a movement is nothing to store: what it moves is
        moved = {v for v in last if self.producer[v].primitive.form == "move"}
        few = pull.MIN_STORED_ELEMENTS
        often = {v for v in last - moved if counts[v] > _MAX_RECOMPUTATIONS}
        return often | {v for v in last - moved if plain(prod(v.aval.shape)) >= few}

    def _keeps(self, v: Any, x: Any) -> bool:
        """Whether a value made of one that is written is written itself: where arithmetic is cheap,
        only if it isn't the larger one."""
        return not self.recomputes or plain(prod(v.aval.shape)) <= plain(prod(x.aval.shape))

    @staticmethod
    def _fewer(user: JaxprEqn, counts: dict[Any, int], count: int, last: set[Any]) -> bool:
        """Whether fewer kernels than so many compute what uses a value."""
        if max(counts.get(v, 0) for v in user.outvars) < count:
            return True
        return user.primitive.form == "move" and not last.isdisjoint(user.outvars)

    # --- kernels ----------------------------------------------------------------------------------

    def kernels(self, domain: Domain, roots: list[Any]) -> Built:
        """The kernel of some roots, or several where joined arrays cut it into pieces."""
        boxes: list[Any] = [tuple([(0, n) for n in domain.rows])]
        pieces: list[tuple[Puller, Any, Any]] = []
        # GPUs run the pieces of one kernel side by side
        few = self.recomputes or plain(prod(domain.rows)) <= MAX_SEQUENTIAL_ELEMENTS
        small = few and not domain.columns
        memory, rows = Memory(), None
        while boxes:
            box = boxes.pop(0)
            if pieces and not small and (domain.columns or box[0] != rows):
                memory = Memory()
            known = len(memory.buffers)
            puller = Puller(self, domain, roots, memory, box)
            try:
                pieces.append((puller, *puller.build()))
                rows = box[0] if box else None
            except Cut as cut:
                memory.forget(known)
                many = len(boxes) + len(pieces) + len(cut.points) >= MAX_KERNEL_PARTS
                if many and cut.variable not in roots:
                    inside = self._inside(domain, roots)
                    if inside is not None:
                        return inside
                    self.missing.add(cut.variable)
                    return Built([], set())
                boxes[:0] = _split(box, cut)
        return self._assembled(pieces, roots, small)

    def _inside(self, domain: Domain, roots: list[Any]) -> Built | None:
        """The kernel of the largest box without seams, and those of the rims around it.

        That is how the gradient of a stencil looks: a sum of arrays that are padded on all sides,
        each by other amounts. None where the rims would be most of something large.
        """
        whole = box = tuple([(0, n) for n in domain.rows])
        pieces: list[tuple[Puller, Any, Any]] = []
        together = self.recomputes and not domain.columns
        memory = Memory()
        try:
            while not pieces:
                memory = Memory()
                puller = Puller(self, domain, roots, memory, box)
                try:
                    pieces.append((puller, *puller.build()))
                except Cut as cut:
                    if not cut.chooses:
                        return None
                    box = max(_split(box, cut), key=_size)
                    if RIMS * _size(box) < _size(whole):
                        if _size(whole) > MAX_SEQUENTIAL_ELEMENTS:
                            return None
                        box = ()
                        break
            for rim in _around(box, domain.rows) if box else [whole]:
                own = memory if together else Memory()
                puller = Puller(self, domain, roots, own, rim, rim=True)
                pieces.append((puller, *puller.build()))
        except Cut:
            return None
        return self._assembled(pieces, roots, together)

    def _assembled(self, pieces: Any, roots: list[Any], small: bool) -> Built:
        computed = set().union(*(puller.computed for puller, _, _ in pieces))
        if small and len(pieces) > 1:
            # one kernel, piece after piece
            body: list[Any] = []
            for _, inner, grid in pieces:
                body += inner if grid is None else [Loop(grid[0], grid[1], inner)]
            return Built([step(pieces[0][0].memory, [], None, body, roots)], computed)
        steps = []
        for memory, alike in groupby(pieces, lambda piece: piece[0].memory):
            # pieces of the same rows are run row by row
            parts = list(alike)
            body = [s for _, inner, _ in parts for s in inner]
            steps.append(step(memory, parts[0][0].kept, parts[0][2], body, roots))
        return Built(steps[:1] + [s._replace(writes=[]) for s in steps[1:]], computed)

    def _update(self, out: Any) -> Built:
        """A copy of an operand, then a box of it written over."""
        eqn = self.producer[out]
        x, update = eqn.invars[:2]
        ins = [v.aval for v in eqn.invars]
        steps = []
        computed: set[Any] = set()
        for first, source in ((True, x), (False, update)):
            memory, puller = self._pulling(source.aval.shape)
            try:
                value = puller.pull(source, puller.row_index)
                at = puller.row_index
                if not first:
                    starts = [puller.pull(v, ()) for v in eqn.invars[2:]]
                    at = eqn.primitive.target(puller.k, at, starts, ins)
                stores = puller.stores(out, linear(at, out.aval.shape), value)
            except Cut as cut:
                self.missing.add(cut.variable)
                return Built([], set())
            body, grid = puller.looped(stores)
            made = step(memory, [], grid, body, [out])
            computed.update(puller.computed)
            if not first:
                made = made._replace(writes=[])
            elif type(x) is not Literal and (x in self.given or x in self.materialised):
                made = made._replace(source=x)
            steps.append(made)
        return Built(steps, computed)

    def _pulling(self, shape: tuple[int, ...]) -> tuple[Memory, Puller]:
        memory = Memory()
        return memory, Puller(self, Domain(shape), [], memory, [(0, n) for n in shape])

    def _scattered(self, eqn: JaxprEqn) -> Built:
        """A copy of an operand, then updates added to it where they are computed; or a routine,
        which reads them."""
        x, _, updates = eqn.invars
        (out,) = eqn.outvars
        if updates in self.materialised:
            needed = {v for v in eqn.invars if type(v) is not Literal} - self.given
            if needed <= self.materialised:
                return Built([Step(None, [], eqn, [out])], set())
            self.missing |= needed
            return Built([], set())
        try:
            memory, puller = self._pulling(x.aval.shape)
            value = puller.pull(x, puller.row_index)
            stores = puller.stores(out, linear(puller.row_index, out.aval.shape), value)
            body, grid = puller.looped(stores)
            first = step(memory, [], grid, body, [out])
            if type(x) is not Literal:
                first = first._replace(source=x)
            second, computed = self._adding(eqn)
        except Cut as cut:
            self.missing.add(cut.variable)
            return Built([], set())
        return Built([first, second], {*puller.computed, *computed})

    def _adding(self, eqn: JaxprEqn) -> tuple[Step, set[Any]]:
        """The kernel that computes the updates of a scatter and adds them."""
        updates, (out,) = eqn.invars[2], eqn.outvars
        ins, width = [v.aval for v in eqn.invars], self.scatters[id(eqn)]
        *outer, last = updates.aval.shape
        memory, puller = self._pulling((*outer, last // width))
        k, body = memory.k, []
        for i in range(width):
            index = (*puller.row_index[:-1], puller.row_index[-1].scaled(width, i))
            rule = added_at(k, index, ins, **eqn.params)
            answer = None
            while True:
                try:
                    operand, place = rule.send(answer)
                except StopIteration as done:
                    place, counts = done.value
                    break
                answer = puller.pull(eqn.invars[operand], place)
            value, at = puller.pull(updates, index), linear(place, out.aval.shape)
            offset, reach = None, (0, 0)
            if k.from_data(at):
                at, offset, reach = k.apart(at)
            combines = eqn.primitive.operator.name
            body.append(Atomic(memory.place(out), at, combines, value, offset, reach, counts))
        axes = tuple(puller.extents.items())
        made = step(memory, [], ("u", prod(n for _, n in axes)), body, [out], axes)
        return made._replace(writes=[]), set(puller.computed)


def step(
    memory: Memory,
    kept: list[Buffer],
    grid: Any,
    body: list[Any],
    writes: list[Any],
    axes: tuple[tuple[str, int], ...] = (),
) -> Step:
    """A kernel over its buffers; with ``axes``, which the grid counts, iterations combine what they
    write."""
    buffers = []
    for v in memory.buffers:
        part, n = layout(v.aval.dtype)
        buffers.append(Buffer(part, n * prod(v.aval.shape), "out" if v in writes else "in"))
    kernel = Kernel("k", buffers + kept, grid, body, axes, bool(axes))
    return Step(kernel, list(memory.buffers), None, [v for v in writes if type(v) is not DropVar])


def _is_inside(x: Any, eqn: JaxprEqn) -> bool:
    """Whether neighbours in the result of an equation read the same element of an operand."""
    shape = x.aval.shape
    if eqn.primitive.repeats:
        last = eqn.outvars[0].aval.ndim - 1
        dims = eqn.params["broadcast_dimensions"]
        return all(d != last or n == 1 for d, n in zip(dims, shape, strict=True))
    return bool(shape) and shape[-1] == 1


def _connected(roots: list[Any], masks: list[int]) -> list[tuple[int, list[Any]]]:
    """Roots together whose masks have bits in common, directly or by way of others."""
    joined: dict[int, tuple[int, list[Any]]] = {}
    owner: dict[int, int] = {}  # of bits, the group that they came with
    became: dict[int, int] = {}  # of groups that are part of another, that
    for number, (out, mask) in enumerate(zip(roots, masks, strict=True)):
        members, found = [out], set[int]()
        for bit in _bits_of(mask):
            group = owner.setdefault(bit, number)
            while group in became:
                group = became[group]
            owner[bit] = group  # next time the way is short
            found.add(group)
        for group in sorted(found - {number}):
            other, known = joined.pop(group)
            mask, members = mask | other, known + members
            became[group] = number
        joined[number] = mask, members
    return list(joined.values())


def _bits_of(mask: int) -> Iterator[int]:
    """The numbers of the bits of a mask."""
    while mask:
        low = mask & -mask
        yield low.bit_length()
        mask ^= low


def _split(box: Any, cut: Cut) -> list[Any]:
    """A box in pieces along an axis."""
    low, high = box[cut.axis]
    ends = [low, *(low + p for p in cut.points), high]
    return [(*box[: cut.axis], pair, *box[cut.axis + 1 :]) for pair in pairwise(ends)]


def _size(box: Any) -> int:
    return prod(high - low for low, high in box)


def _around(box: Any, shape: tuple[int, ...]) -> list[Any]:
    """What is left of a whole outside of a box: at most two boxes for each axis."""
    found = []
    for axis, (low, high) in enumerate(box):
        rest = tuple([(0, n) for n in shape[axis + 1 :]])
        for pair in ((0, low), (high, shape[axis])):
            if pair[0] < pair[1]:
                found.append((*box[:axis], pair, *rest))
    return found
