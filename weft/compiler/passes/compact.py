"""Batched loops and branches as programs that work on the elements that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from weft.base.record import Record
from weft.compiler.analysis.cost import operations
from weft.compiler.passes.fix_order import in_any_batch
from weft.compiler.passes.inline import inline
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxprs_in_params

# Elements of a row from which on a few rows are summed in pieces, as many as there are threads for;
# and up to which short ones are summed side by side, where there are so many of them.
MAX_ROW_ELEMENTS, SHORT_ROW, MIN_SHORT_ROWS = 1 << 14, 32, 64
# Rows of a product from which on its order does not depend on their number, and the least sides of
# products of which each element has its own.
MIN_PRODUCT_ROWS, MIN_PRODUCT_SIDE = 64, 32
# Vectors times one matrix from which on a product of all of them is quicker than each alone,
# although it goes on until the last one ends; and the same for a matrix of so many bytes, which a
# cache does not hold.
MIN_SHARED_ROWS, MIN_ROWS_OF_LARGE, LARGE_MATRIX = 256, 16, 1 << 20
# Matrices of a stack from which on factorisations take them side by side.
MIN_STACK = 8
# Elements from which on batches that get smaller are quicker than each element alone, where their
# arrays have fewer numbers than this; and the same for matrices that are factorised.
MIN_SHORT_ELEMENTS, SHORT_ELEMENT = 2000, 16
MIN_FACTORISED, MIN_FACTORISED_SIDE, MAX_FACTORISED_SIDE = 256, 8, 32
# Numbers up to which a sum is written out in a fixed order, where that of a kernel depends on rows.
MAX_FIXED_SUM = 64

_ANY_ORDER = frozenset(["map", "move", "iota", "element", "expand", "update"])
_SUMS = frozenset("reduce_sum reduce_prod cumsum cumprod cumlogsumexp cummax cummin".split())
_STACKS = frozenset("lu cholesky triangular_solve qr householder_product lu_pivots_to_perm".split())
_OUTSIDE = frozenset("pure_callback io_callback debug_callback ffi_call custom_vmap_call".split())


def compact(closed: ClosedJaxpr, target: Any, is_own: Callable[[JaxprEqn], bool]) -> ClosedJaxpr:
    """The program with batched loops and branches that run each element no longer than needed,
    where that is cheaper and has the same bits; some equation is one of them. Loops that threads
    run, an element each, stay (``is_own``)."""
    judge = Judge(target)
    found: dict[int, Any] = {}
    eqns = []
    for eqn in closed.eqns:
        if eqn.primitive.compacts(eqn.params) and not is_own(eqn):
            eqn = eqn if target.general else _ordered(eqn, judge)
            program = None if target.general else eqn.primitive.compacted(eqn.params, judge)
            if program is None:
                program = eqn.primitive.program([x.aval for x in eqn.invars], eqn.params)
            found[id(eqn)] = program
        eqns.append(eqn)
    if any(a is not b for a, b in zip(eqns, closed.eqns, strict=True)):
        closed = closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns))
    if all(program is None for program in found.values()):
        return closed
    return inline(inline(closed, lambda eqn: found.get(id(eqn))))


def _ordered(eqn: JaxprEqn, judge: Judge) -> JaxprEqn:
    """An equation whose sums are the same in every batch, where that lets elements run alone."""
    if eqn.primitive.ordered is None:
        return eqn
    params = eqn.primitive.ordered(eqn.params, judge)
    return eqn if params is None else eqn.replace(params=params)


class Judge:
    """What the compiler says about programs over a batch."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def least(
        self,
        whole: tuple[ClosedJaxpr, ...],
        half: tuple[ClosedJaxpr, ...],
        one: ClosedJaxpr,
        total: int,
        products: bool,
    ) -> int | None:
        """The smallest batch that is worth its code and gives the same bits, or None.

        Programs are given over all elements and over another batch, the last of them also for one;
        ``products`` is whether they are as they stand in the program that was mapped.
        """
        if self.target.fills_lanes and _is_scalar(one):
            return None
        work = self.work(whole[-1])
        if work < self.target.min_lane_work:
            return None
        same = Same(total, self.target.same_rows, self.target.same_rows and products)
        bits = [same.batch(a.jaxpr, b.jaxpr) for a, b in zip(whole, half, strict=True)]
        if None in bits:
            return None
        paying = int(self.target.min_lane_work * total / (4 * work))
        return max([n for n in bits if n is not None] + [paying, 1])

    def ordered(
        self, cond: ClosedJaxpr, body: ClosedJaxpr
    ) -> tuple[ClosedJaxpr, ClosedJaxpr] | None:
        """Predicate and body of one element, with sums in an order of their own; None where there
        are none, or long ones, for which that takes too long."""
        if not self.target.same_rows and max(map(_longest_sum, (cond, body))) > MAX_FIXED_SUM:
            return None
        found = in_any_batch(cond), in_any_batch(body)
        return None if found[0] is cond and found[1] is body else found

    def gains(self, body: ClosedJaxpr, total: int, shared: Sequence[bool]) -> bool:
        """Whether many elements are quicker side by side, in batches that get smaller, than each
        alone: arrays that do not fill a vector, and matrices that are factorised.

        ``shared`` marks the first inputs that are the same for all elements.
        """
        flat = inline(body)
        # what each element reads in each round counts, too: alone, it has that in the cache
        common = {v for v, s in zip(flat.jaxpr.invars, shared, strict=False) if s}
        common |= set(flat.jaxpr.constvars)
        atoms = [x for eqn in flat.eqns for x in (*eqn.invars, *eqn.outvars)]
        variables = [x for x in atoms if type(x) is Literal or x not in common]
        largest = max([prod(v.aval.shape) for v in variables], default=0)
        primitives = [eqn.primitive for eqn in flat.eqns]
        named = [(eqn.primitive.name, eqn.invars) for eqn in flat.eqns]
        factors = [ins[0].aval for name, ins in named if name in _STACKS and len(ins) == 1]
        # factors of small matrices, and what is at an index, are not computed in vectors
        indexed = any(p.reads_at_indices or p.written is not None for p in primitives)
        short = total >= MIN_SHORT_ELEMENTS and largest < SHORT_ELEMENT
        if short and not factors and not indexed:
            return True
        side = max([aval.shape[-1] for aval in factors], default=0)
        return total >= MIN_FACTORISED and MIN_FACTORISED_SIDE <= side <= MAX_FACTORISED_SIDE

    def in_turn(
        self, whole: ClosedJaxpr, single: ClosedJaxpr, cond: ClosedJaxpr, body: ClosedJaxpr,
        total: int,
    ) -> bool:  # fmt: skip
        """Whether elements run one by one, each with the bits that it has alone.

        Predicate and body of one are given, and the body over all elements and over a batch of one.
        """
        if not self.target.same_rows or _is_scalar(body):
            return False
        products = [_products(program.jaxpr) for program in (whole, single)]
        # as rows of one product, vectors times a matrix read the matrix once for all of them
        if any(_gains(a, b, total) for a, b in zip(*products, strict=False)):
            return False
        return _runs_alone(cond.jaxpr) and _runs_alone(body.jaxpr)

    def work(self, closed: ClosedJaxpr) -> float:
        """Operations of a program, roughly."""
        return operations(closed.jaxpr)


def _runs_alone(jaxpr: Jaxpr) -> bool:
    """Whether a program over one element does nothing outside of it."""
    return not any(map(_acts_outside, jaxpr.eqns)) and all(
        _runs_alone(inner) for eqn in jaxpr.eqns for inner in jaxprs_in_params(eqn.params)
    )


def _longest_sum(closed: ClosedJaxpr) -> int:
    """How many numbers the longest sum of a program has."""
    flat = inline(closed)
    inner = [ClosedJaxpr(j, ()) for eqn in flat.eqns for j in jaxprs_in_params(eqn.params)]
    sums = [
        eqn.invars[0].aval.size // max(1, eqn.outvars[0].aval.size)
        for eqn in flat.eqns
        if eqn.primitive.form == "reduce"
    ]
    return max([*sums, *map(_longest_sum, inner)], default=0)


def _acts_outside(eqn: JaxprEqn) -> bool:
    """Whether an operation has effects, speaks to others, or is not for every batch."""
    primitive, name = eqn.primitive, eqn.primitive.name
    outside = primitive.collective or primitive.host or name in _OUTSIDE or name.startswith("rng_")
    return bool(eqn.effects or outside)


def _products(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """All products of a program."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.contracts:
            yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from _products(inner)


def _gains(eqn: JaxprEqn, other: JaxprEqn, total: int) -> bool:
    """Whether a product, which is given over all elements and over one, is quicker over all: where
    each is a vector times a matrix that all have."""
    nbytes = max(x.aval.size * x.aval.dtype.itemsize for x in other.invars)
    if total < (MIN_ROWS_OF_LARGE if nbytes >= LARGE_MATRIX else MIN_SHARED_ROWS):
        return False
    (x_sum, y_sum), (x_batch, y_batch) = other.params["dimension_numbers"]
    sides = [
        (prod(n for i, n in enumerate(x.aval.shape) if i not in axes), x.aval.shape != z.aval.shape)
        for x, z, axes in zip(
            other.invars, eqn.invars, ({*x_sum, *x_batch}, {*y_sum, *y_batch}), strict=True
        )
    ]
    return [n for n, grows in sides if grows] == [1]


def _is_scalar(closed: ClosedJaxpr) -> bool:
    """Whether a program works on single numbers alone, element by element over any batch."""
    avals = [*closed.in_avals, *closed.out_avals]
    flat = inline(closed)
    if any(getattr(a, "shape", None) != () for a in avals):
        return False
    forms = {eqn.primitive.form for eqn in flat.eqns}
    plain = all(v.aval.shape == () for eqn in flat.eqns for v in eqn.outvars)
    return forms <= {"map", "expand", "move"} and plain


class Same(Record):
    """From which batch on a program gives the same bits for an element as over all of ``total``;
    whether sums of a row, and products, may be asked."""

    total: int
    rows: bool
    products: bool

    def batch(self, whole: Jaxpr, half: Jaxpr) -> int | None:
        """The batch of a program; None if there is none smaller. It is given over two batches."""
        if len(whole.eqns) != len(half.eqns):
            return None
        least = 1
        for eqn, other in zip(whole.eqns, half.eqns, strict=True):
            found = self.equation(eqn, other)
            if found is None:
                return None
            least = max(least, found)
        return least

    def equation(self, eqn: JaxprEqn, other: JaxprEqn) -> int | None:
        primitive, name = eqn.primitive, eqn.primitive.name
        if primitive is not other.primitive or _acts_outside(eqn):
            return None
        avals = [x.aval for x in eqn.invars]
        if primitive.nodes or primitive.program(avals, eqn.params) is not None:
            pairs = zip(jaxprs_in_params(eqn.params), jaxprs_in_params(other.params), strict=True)
            found = [self.batch(a, b) for a, b in pairs]
            return None if None in found else max([f for f in found if f is not None], default=1)
        floats = any(getattr(v.aval.dtype, "kind", "V") in "fc" for v in eqn.outvars)
        if primitive.form in _ANY_ORDER or primitive.exact or not floats:
            return 1
        if name in ("sort", "top_k", "reduce_precision", "reduce_max", "reduce_min"):
            return 1
        if name in _SUMS and self.rows:
            elements = prod(avals[0].shape) // self.total
            if elements > MAX_ROW_ELEMENTS:
                return None
            return MIN_SHORT_ROWS if elements < SHORT_ROW else 1
        if name == "dot_general" and self.products:
            return _least_product(eqn, other)
        return MIN_STACK if name in _STACKS and self.products else None


def _least_product(eqn: JaxprEqn, other: JaxprEqn) -> int | None:
    """From which batch on a product is computed in the same way."""
    out = eqn.outvars[0].aval
    if out.dtype.kind == "c":
        return None
    (depth, _), (outer, _) = eqn.params["dimension_numbers"]
    sizes = [prod(e.invars[0].aval.shape[i] for i in outer) for e in (eqn, other)]
    if sizes[0] == sizes[1]:  # elements are rows or columns of one product
        return MIN_PRODUCT_ROWS
    sides = [
        prod(n for i, n in enumerate(x.aval.shape) if i not in {*axes, *first})
        for x, axes, first in zip(eqn.invars, *eqn.params["dimension_numbers"], strict=True)
    ]
    length = prod(eqn.invars[0].aval.shape[i] for i in depth)
    large = [n >= MIN_PRODUCT_SIDE for n in (*sides, length)]
    one = 1 in sides and any(large[:2])
    return MIN_STACK if large[2] and (one or all(large)) else None
