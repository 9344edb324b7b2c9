"""Batched loops that pay for the elements that live: the ladder of batches that a loop runs on.

A loop mapped by ``vmap`` goes on until its last element is done. Its body remembers the program
that was mapped, so that the compiler can map it over fewer elements: once few of them go on, these
are gathered in a smaller batch, which goes on alone, and so on. An element's own operations stay
the same; the compiler asks for it only where they give the same bits in a batch of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.functional import merge_lists, partition_list, split_list
from weft.base.record import Record
from weft.control.jit import used_axis_names
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, mapped_from, moveaxis
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, jaxpr_as_fun, jaxprs_in_params
from weft.core.registry import lookup
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.prims.arithmetic import add_p, div_p, mul, rem_p, sub_p
from weft.prims.convert import convert
from weft.prims.cumulative import cumsum_p
from weft.prims.families import broadcast_in_dim, element, scalar
from weft.prims.index import gather, scatter
from weft.prims.index_dims import GatherDimensionNumbers, ScatterDimensionNumbers
from weft.prims.reduce import reduce_sum
from weft.prims.selection import gt_p, select_n_p
from weft.prims.shape import full, iota, reshape
from weft.transforms.dce import dce_closed
from weft.transforms.vmap import batch_jaxpr, batch_to, batched

# Elements of a batch from which on smaller ones are worth their code.
MIN_LANES = 8
# The batches of a ladder, as parts of the whole: most of the work of elements that end at random is
# in the first ones. Smaller batches are a quarter of the one before.
RUNGS = (3 / 4, 1 / 2, 3 / 8, 1 / 4, 1 / 8, 1 / 16)
# Operations of a branch, for one element, from which on it may be worth running it on those alone
# that take it; and rounds that a loop in it is taken to have.
MIN_BRANCH_OPS, USUAL_ROUNDS = 2048, 16
I32 = np.dtype(np.int32)


class Unbatched(Record):
    """A loop before it was mapped: its programs, and the sizes of mapped axes, outermost first.

    Constants have an axis of the batch, or None, for each of these. ``predicate`` is the mapped
    predicate that belongs to the body.
    """

    predicate: ClosedJaxpr
    cond: ClosedJaxpr
    body: ClosedJaxpr
    sizes: tuple[int, ...]
    cond_dims: tuple[tuple[int | None, ...], ...]
    body_dims: tuple[tuple[int | None, ...], ...]


def remember(
    mapped: tuple[ClosedJaxpr, ClosedJaxpr],
    plain: tuple[ClosedJaxpr, ClosedJaxpr],
    axis: AxisData,
    dims: tuple[Sequence[int | None], Sequence[int | None]],
) -> None:
    """Have the body of a mapped loop remember what was mapped; both come as predicate and body."""
    cond, body = plain
    names = used_axis_names(cond.jaxpr) | used_axis_names(body.jaxpr)
    if axis.spmd_name is not None or axis.spread or names or cond.effects or body.effects:
        return
    inner = mapped_from.get(body, None)
    if inner is not None and inner.predicate is cond:
        found = inner._replace(
            predicate=mapped[0],
            sizes=(axis.size, *inner.sizes),
            cond_dims=_outside(dims[0], inner.cond_dims),
            body_dims=_outside(dims[1], inner.body_dims),
        )
    elif cond.out_avals[0].shape == ():
        sides = (tuple([(d,) for d in side]) for side in dims)
        found = Unbatched(mapped[0], cond, body, (axis.size,), *sides)
    else:
        return
    mapped_from.set(mapped[1], None, found)


def remembered(params: dict[str, Any]) -> Unbatched | None:
    """What was mapped of a loop, or None where nothing was."""
    found = mapped_from.get(params["body_jaxpr"], None)
    return None if found is None or found.predicate is not params["cond_jaxpr"] else found


def unbatched(params: dict[str, Any]) -> Unbatched | None:
    """What was mapped of a loop, for one element alone, or None where nothing was."""
    found = remembered(params)
    if found is None:
        return None
    return found._replace(cond=forgetful(found.cond), body=forgetful(found.body))


def over_batch(found: Unbatched, program: ClosedJaxpr, shared: int) -> ClosedJaxpr:
    """A program of a loop's operands for one element, mapped over the batch of the loop; before
    these come ``shared`` operands that are the same for all elements."""
    dims = [*[(None,) * len(found.sizes)] * shared, *found.cond_dims, *found.body_dims]
    return _mapped_again(program, found.sizes, dims, len(found.body.out_avals))


def has_rows(body: ClosedJaxpr) -> bool:
    """Whether the elements of a mapped loop are arrays; numbers are filled into blocks."""
    found = mapped_from.get(body, None)
    return found is not None and any(a.shape != () for a in found.body.out_avals)


def _outside(dims: Sequence[int | None], inner: Any) -> tuple[tuple[int | None, ...], ...]:
    return tuple([(d, *more) for d, more in zip(dims, inner, strict=True)])


def remember_less(
    before: tuple[ClosedJaxpr, ClosedJaxpr],
    after: tuple[ClosedJaxpr, ClosedJaxpr],
    carry: Sequence[bool],
    used: tuple[Sequence[bool], Sequence[bool]],
) -> None:
    """The same for a loop without what nothing needs: parts of the carry, and operands."""
    found = mapped_from.get(before[1], None)
    if found is None or found.predicate is not before[0]:
        return
    cond, cond_used = dce_closed(found.cond, [True], list(used[0]))
    body, body_used = dce_closed(found.body, list(carry), list(used[1]))
    if list(cond_used) != list(used[0]) or list(body_used) != list(used[1]):
        return
    cond_dims, body_dims = (
        tuple([d for d, u in zip(side, given, strict=False) if u])
        for side, given in zip((found.cond_dims, found.body_dims), used, strict=True)
    )
    less = Unbatched(after[0], cond, body, found.sizes, cond_dims, body_dims)
    mapped_from.set(after[1], None, less)


# --- the ladder -----------------------------------------------------------------------------------


def rungs(total: int, least: int) -> list[int]:
    """The sizes of batches after the whole one, the largest first."""
    found: list[int] = []
    sizes = [int(np.ceil(total * part)) for part in RUNGS]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 4))
    for size in sizes:
        if least <= size < (found[-1] if found else total):
            found.append(size)
    return found


def ordered(params: dict[str, Any], judge: Any) -> dict[str, Any] | None:
    """The parameters of a mapped loop with sums in an order that is part of the program, where that
    lets it run on smaller and smaller batches; None where it need not, or does not help."""
    found = _eligible(params)
    if found is None or _least(found, judge) is not None:
        return None
    if _may_go_in_turn(found, judge) and not judge.gains(
        found.body, prod(found.sizes), _shared(found)
    ):
        return None
    programs = judge.ordered(found.cond, found.body)
    if programs is None:
        return None
    found = found._replace(cond=programs[0], body=programs[1])
    if _least(found, judge) is None:
        return None
    cond, body = (
        _mapped_again(program, found.sizes, dims, len(found.body.out_avals))
        for program, dims in zip(programs, (found.cond_dims, found.body_dims), strict=True)
    )
    mapped_from.set(body, None, found._replace(predicate=cond))
    return params | {"cond_jaxpr": cond, "body_jaxpr": body}


def _may_go_in_turn(found: Unbatched, judge: Any) -> bool:
    """Whether elements may run one by one."""
    total = prod(found.sizes)
    bodies = [_mapped(found, size)[1] for size in (total, 1)]
    allowed: bool = judge.in_turn(*bodies, found.cond, found.body, total)
    return allowed


def _least(found: Unbatched, judge: Any) -> int | None:
    """The smallest batch that pays and has the same bits."""
    total = prod(found.sizes)
    whole, half = (_mapped(found, size) for size in (total, max(1, total // 2)))
    least: int | None = judge.least(whole, half, found.body, total, len(found.sizes) == 1)
    return least if least is not None and rungs(total, least) else None


def _shared(found: Unbatched) -> list[bool]:
    """Which constants of the body are the same for all elements."""
    return [all(d is None for d in dims) for dims in found.body_dims]


def _mapped_again(
    program: ClosedJaxpr, sizes: Sequence[int], dims: Sequence[Sequence[int | None]], count: int
) -> ClosedJaxpr:
    """The predicate or the body of a loop over all of its batch."""
    for i in reversed(range(len(sizes))):
        program = _over_one_axis(program, sizes[i], [*[d[i] for d in dims], *[0] * count])
    return program


def _over_one_axis(program: ClosedJaxpr, size: int, dims: Sequence[int | None]) -> ClosedJaxpr:
    axis, fun, outs = AxisData(None, size), jaxpr_as_fun(program), [0] * len(program.out_avals)
    avals = [batched(a, size, d) for a, d in zip(program.in_avals, dims, strict=True)]
    return stage(lambda *args: batch_to(fun, axis, args, dims, outs), avals)


def _eligible(params: dict[str, Any]) -> Unbatched | None:
    """What was mapped, where a loop may run in another way."""
    found = remembered(params)
    if found is None:
        return None
    if prod(found.sizes) < MIN_LANES or any(a.is_ref for a in params["body_jaxpr"].in_avals):
        return None
    return found


def ladder(params: dict[str, Any], judge: Any) -> ClosedJaxpr | None:
    """A program that does what a mapped loop does, in smaller and smaller batches; None where that
    isn't cheaper, or where the bits might be others.

    ``judge`` is the compiler: it gives the smallest batch that pays and has the same bits.
    """
    found = _eligible(params)
    if found is None:
        return None
    total, least = prod(found.sizes), _least(found, judge)
    apart = least is None or not judge.gains(found.body, total, _shared(found))
    if apart and _may_go_in_turn(found, judge):
        return _in_turn(params, found)
    return None if least is None else _Ladder(params, found, rungs(total, least)).program()


def _mapped(found: Unbatched, size: int) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Predicate and body over another batch, its axis in front."""
    axis = AxisData(None, size)
    count = len(found.body.out_avals)
    both = ((found.cond, found.cond_dims), (found.body, found.body_dims))
    made = []
    for program, dims in both:
        given = [any(d is not None for d in ds) for ds in dims] + [True] * count
        made.append(batch_jaxpr(program, axis, given, True)[0])
    return made[0], forgetful(made[1])


def forgetful(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program whose inner loops and branches do not remember what was mapped: they would be
    written for all batches of theirs, in each of the batches of the loop around them."""
    return _forgetful(closed, False)


@per_program
def _forgetful(closed: ClosedJaxpr, inner: bool) -> ClosedJaxpr:
    def plain(value: Any) -> Any:
        if type(value) is ClosedJaxpr:
            return _forgetful(value, True)
        if type(value) is tuple and any(type(x) is ClosedJaxpr for x in value):
            return tuple([plain(x) for x in value])
        return value

    eqns = [
        eqn.replace(params={name: plain(value) for name, value in eqn.params.items()})
        if any(True for _ in jaxprs_in_params(eqn.params))
        else eqn
        for eqn in closed.eqns
    ]
    changed = inner or any(a is not b for a, b in zip(eqns, closed.eqns, strict=True))
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns)) if changed else closed


def _in_turn(params: dict[str, Any], found: Unbatched) -> ClosedJaxpr:
    """A loop for each element, one after the other: each in the cache, none waits for another."""
    counts = [params["cond_nconsts"], params["body_nconsts"]]
    total, rank = prod(found.sizes), len(found.sizes)
    loop = {"cond_jaxpr": found.cond, "body_jaxpr": forgetful(found.body)}
    loop |= {"cond_nconsts": counts[0], "body_nconsts": counts[1]}

    def all_of_them(*args: Any) -> list[Any]:
        tests, consts, carry = split_list(args, counts)
        shapes = [typeof(x).shape for x in carry]
        rows = [_Rows(x, d, found.sizes) for x, d in zip(tests, found.cond_dims)]
        rows += [_Rows(x, d, found.sizes) for x, d in zip(consts, found.body_dims)]
        carry = [reshape(x, (total, *s[rank:])) for x, s in zip(carry, shapes, strict=True)]
        # what each element has a row of is read in order
        apart = [len(row.strides) > 0 for row in rows]
        every = iota(I32, (total,))
        tables = [row.x if row.strides == [(1, total, 1)] else row.at(every) for row in rows]
        shared, own = partition_list(apart, tables)

        def step(*args: Any) -> list[Any]:
            held, mine, given = split_list(args, [len(shared), len(own)])
            return lookup("while").bind(*merge_lists(apart, held, mine), *given, **loop)

        given = [typeof(x) for x in shared]
        given += [typeof(x).update(shape=typeof(x).shape[1:]) for x in (*own, *carry)]
        outs = lookup("scan").bind(
            *shared, *own, *carry,
            jaxpr=stage(step, given), num_consts=len(shared), num_carry=0, length=total,
            reverse=False, unroll=1, linear=(False,) * len(given), _split_transpose=False,
        )  # fmt: skip
        return [reshape(x, s) for x, s in zip(outs, shapes, strict=True)]

    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    return stage(all_of_them, [*cond.in_avals[: counts[0]], *body.in_avals])


class _Ladder:
    """A mapped loop while it is written as several."""

    def __init__(self, params: dict[str, Any], found: Unbatched, sizes: list[int]) -> None:
        self.params, self.found, self.sizes = params, found, sizes
        self.total = prod(found.sizes)
        self.counts = [params["cond_nconsts"], params["body_nconsts"]]

    def program(self) -> ClosedJaxpr:
        cond, body = self.params["cond_jaxpr"], self.params["body_jaxpr"]
        avals = [*cond.in_avals[: self.counts[0]], *body.in_avals]
        return stage(self.whole, avals)

    def whole(self, *args: Any) -> list[Any]:
        tests, consts, carry = split_list(args, self.counts)
        shapes = [typeof(x).shape for x in carry]
        programs = self.params["cond_jaxpr"], forgetful(self.params["body_jaxpr"])
        going, carry = _repeated(programs, tests, consts, carry, self.sizes[0])
        going = reshape(going, (self.total,))
        rank = len(self.found.sizes)
        carry = [reshape(x, (self.total, *s[rank:])) for x, s in zip(carry, shapes, strict=True)]
        rows = [_Rows(x, d, self.found.sizes) for x, d in zip(tests, self.found.cond_dims)]
        more = [_Rows(x, d, self.found.sizes) for x, d in zip(consts, self.found.body_dims)]
        carry = self.rest(0, None, going, carry, rows, more)
        return [reshape(x, s) for x, s in zip(carry, shapes, strict=True)]

    def rest(
        self, rung: int, ids: Any, going: Any, carry: list[Any], tests: list[Any], consts: list[Any]
    ) -> list[Any]:
        """The carry when all are done, for elements of which few go on; none may."""
        given = [*_tables(tests), *_tables(consts), going, *([] if ids is None else [ids]), *carry]

        def some(*args: Any) -> list[Any]:
            parts = [len(_tables(tests)), len(_tables(consts)), 1, 0 if ids is None else 1]
            first, second, (going,), own, carry = split_list(args, parts)
            own_tests, own_consts = _with_tables(tests, first), _with_tables(consts, second)
            return self.smaller(rung, own[0] if own else None, going, carry, own_tests, own_consts)

        def none(*args: Any) -> list[Any]:
            return list(args[len(args) - len(carry) :])

        avals = [typeof(x) for x in given]
        which = convert(gt_p.bind(_count(going), scalar(I32, 0)), I32)
        branches = (stage(none, avals), stage(some, avals))
        return lookup("cond").bind(which, *given, branches=branches)

    def smaller(
        self, rung: int, ids: Any, going: Any, carry: list[Any], tests: list[Any], consts: list[Any]
    ) -> list[Any]:
        """The same, in a batch that has room for those that go on."""
        size = self.sizes[rung]
        place, pick = _live(going, size)
        ids = pick if ids is None else _take(ids, pick)
        programs = _mapped(self.found, size)
        few = [_take(x, pick) for x in carry]
        own_tests, own_consts = ([x.at(ids) for x in side] for side in (tests, consts))
        last = rung + 1 == len(self.sizes)
        least = 0 if last else self.sizes[rung + 1]
        more, few = _repeated(programs, own_tests, own_consts, few, least, _take(going, pick))
        if not last:
            few = self.rest(rung + 1, ids, more, few, tests, consts)
        return [_chosen(going, x, _take(y, place)) for x, y in zip(carry, few, strict=True)]


class _Rows:
    """A constant of a mapped loop: the row that belongs to each element."""

    def __init__(self, x: Any, dims: Sequence[int | None], sizes: Sequence[int]) -> None:
        self.x, self.strides = x, []
        if all(d is None for d in dims):
            return
        front, radix = 0, 1
        for dim in dims:
            if dim is not None:
                self.x = moveaxis(self.x, front + dim, front)
                front += 1
        shape = typeof(self.x).shape
        self.x = reshape(self.x, (prod(shape[:front]), *shape[front:]))
        stride = 1
        for dim, size in zip(reversed(list(dims)), reversed(list(sizes)), strict=True):
            if dim is not None:  # an element's number, divided, is its position along the axis
                self.strides.append((stride, size, radix))
                radix *= size
            stride *= size
        if len(self.strides) == len(sizes):
            self.strides = [(1, stride, 1)]

    def at(self, ids: Any) -> Any:
        """The rows of elements; the constant where all have the same."""
        if not self.strides:
            return self.x
        rows: Any = None
        for stride, size, radix in self.strides:
            at = ids if stride == 1 else div_p.bind(ids, _like(ids, stride))
            at = rem_p.bind(at, _like(ids, size))
            at = at if radix == 1 else mul(at, _like(ids, radix))
            rows = at if rows is None else add_p.bind(rows, at)
        return _take(self.x, rows)


def _tables(rows: Sequence[_Rows]) -> list[Any]:
    return [row.x for row in rows]


def _with_tables(rows: Sequence[_Rows], xs: Sequence[Any]) -> list[_Rows]:
    found = []
    for row, x in zip(rows, xs, strict=True):
        made = object.__new__(_Rows)
        made.x, made.strides = x, row.strides
        found.append(made)
    return found


def _repeated(
    programs: tuple[ClosedJaxpr, ClosedJaxpr],
    tests: Sequence[Any],
    consts: Sequence[Any],
    carry: Sequence[Any],
    least: int,
    going: Any = None,
) -> tuple[Any, list[Any]]:
    """A batch while more than ``least`` elements go on: which do then, and the carry."""
    test, step = (jaxpr_as_fun(p) for p in programs)
    if going is None:
        (going,) = test(*tests, *carry)
    counts = [len(tests), len(consts), 1]

    def many(going: Any, *carry: Any) -> list[Any]:
        return [gt_p.bind(_count(going), scalar(I32, least))]

    def after(*args: Any) -> list[Any]:
        tests, consts, (going,), carry = split_list(args, counts)
        new = step(*consts, *carry)
        new = [_chosen(going, x, y) for x, y in zip(carry, new, strict=True)]
        (more,) = test(*tests, *new)
        return [more, *new]

    state = [going, *carry]
    avals = [typeof(x) for x in state]
    fixed = [typeof(x) for x in (*tests, *consts)]
    outs = lookup("while").bind(
        *tests,
        *consts,
        *state,
        cond_nconsts=0,
        cond_jaxpr=stage(many, avals),
        body_nconsts=len(fixed),
        body_jaxpr=stage(after, [*fixed, *avals]),
    )
    return outs[0], list(outs[1:])


# --- branches -------------------------------------------------------------------------------------


class Branches(Record):
    """The branches of a ``cond`` whose index was mapped, and the size of the batch.

    ``shared`` says which operands are the same for all elements, although each has its own.
    """

    branches: tuple[ClosedJaxpr, ...]
    size: int
    shared: tuple[bool, ...]

    def without_copies(self, avals: Sequence[Any]) -> ClosedJaxpr:
        """The same over operands of which there is one for all elements. Differentiation, for which
        each needs its own, is over by now."""

        def whole(index: Any, *ops: Any) -> list[Any]:
            ops = self.given(ops)
            cases = [jaxpr_as_fun(_over(self, b, self.size))(*ops) for b in self.branches]
            return [
                select_n_p.bind(_like_rows(index, xs[0]), *xs) for xs in zip(*cases, strict=True)
            ]

        return stage(whole, list(avals))

    def given(self, ops: Sequence[Any]) -> tuple[Any, ...]:
        """The operands of a batch: those that are shared once."""
        pairs = zip(ops, self.shared, strict=True)
        return tuple([element(x, 0, 0) if shared else x for x, shared in pairs])

    def taken(self, ops: Sequence[Any], rows: Any) -> list[Any]:
        """The operands of some elements."""
        pairs = zip(ops, self.shared, strict=True)
        return [x if shared else _take(x, rows) for x, shared in pairs]

    def ladder(self, index: Any, ops: Sequence[Any], judge: Any) -> ClosedJaxpr | None:
        return branch_ladder(self, index, ops, judge)


def are_costly(branches: Sequence[ClosedJaxpr], axis: AxisData) -> bool:
    """Whether branches of a mapped index may be worth running on their own elements alone."""
    if type(axis.size) is not int or axis.size < MIN_LANES:
        return False
    if axis.spmd_name is not None or axis.spread:
        return False
    for branch in branches:
        avals = [*branch.in_avals, *branch.out_avals]
        data = all(type(a) is ShapedArray and isinstance(a.dtype, np.dtype) for a in avals)
        if branch.effects or not data or used_axis_names(branch.jaxpr):
            return False
    return any(_operations(branch.jaxpr) >= MIN_BRANCH_OPS for branch in branches)


def _operations(jaxpr: Jaxpr) -> float:
    """Operations of a program, roughly; a loop whose length isn't known has some rounds."""
    total = 0.0
    for eqn in jaxpr.eqns:
        primitive, outs = eqn.primitive, [v.aval for v in eqn.outvars]
        inner = sum(_operations(j) for j in jaxprs_in_params(eqn.params))
        if primitive.flops is not None:
            total += float(primitive.flops([x.aval for x in eqn.invars], outs, eqn.params))
        elif inner:
            rounds = primitive.rounds(eqn.params) if primitive.nodes == "loop" else 1
            total += inner * (USUAL_ROUNDS if rounds is None else rounds)
        else:
            elements = sum(prod(getattr(a, "shape", ())) for a in outs)
            total += elements * max(1, primitive.function_ops)
    return total


def branch_ladder(
    found: Branches, index: Any, ops: Sequence[Any], judge: Any
) -> ClosedJaxpr | None:
    """A program of the index and the operands of branches, that runs each branch on a batch with
    room for the elements that take it; None where that isn't cheaper. Given are types."""
    size, rows = found.size, []
    for branch in found.branches:
        both = [(_over(found, branch, n),) for n in (size, max(1, size // 2))]
        least = judge.least(*both, branch, size, True)
        sizes = [] if least is None else rungs(size, least)[::2]
        rows.append(sizes)
    if not any(rows):
        return None

    def whole(index: Any, *ops: Any) -> list[Any]:
        ops, first = found.given(ops), _over(found, found.branches[0], size)
        outs = [full(a.shape, scalar(a.dtype, 0)) for a in first.out_avals]
        last = len(found.branches) - 1
        index = lookup("clamp").bind(scalar(I32, 0), index, scalar(I32, last))
        for i, (branch, sizes) in enumerate(zip(found.branches, rows, strict=True)):
            going = lookup("eq").bind(index, _like(index, i))
            outs = _one_branch(found, branch, [size, *sizes], going, ops, outs)
        return outs

    return stage(whole, [index, *ops])


def _over(found: Branches, branch: ClosedJaxpr, size: int) -> ClosedJaxpr:
    own = [not shared for shared in found.shared]
    return forgetful(batch_jaxpr(branch, AxisData(None, size), own, True)[0])


def _one_branch(
    found: Branches,
    branch: ClosedJaxpr,
    sizes: list[int],
    going: Any,
    ops: Sequence[Any],
    outs: list[Any],
) -> list[Any]:
    """Results with those of one branch for the elements that take it."""
    count = _count(going)
    # batches that are large enough, the whole one among them; beyond the last, if there are none
    fits = [convert(lookup("le").bind(count, scalar(I32, n)), I32) for n in [*sizes, 0]]
    which = fits[0]
    for fit in fits[1:]:
        which = add_p.bind(which, fit)

    def over(size: int) -> Any:
        def some(going: Any, *args: Any) -> list[Any]:
            ops, outs = args[: len(args) - count_outs], args[len(args) - count_outs :]
            step = jaxpr_as_fun(_over(found, branch, size))
            if size == sizes[0]:
                return [_chosen(going, x, y) for x, y in zip(outs, step(*ops), strict=True)]
            place, pick = _live(going, size)
            new = step(*found.taken(ops, pick))
            return [_chosen(going, x, _take(y, place)) for x, y in zip(outs, new, strict=True)]

        return some

    def none(going: Any, *args: Any) -> list[Any]:
        return list(args[len(args) - count_outs :])

    count_outs = len(outs)
    given = [going, *ops, *outs]
    avals = [typeof(x) for x in given]
    programs = [stage(over(n), avals) for n in sizes] + [stage(none, avals)]
    which = sub_p.bind(which, scalar(I32, 1))
    return lookup("cond").bind(which, *given, branches=tuple(programs))


# --- rows of batches ------------------------------------------------------------------------------


def _like(x: Any, value: int) -> Any:
    return full(typeof(x).shape, scalar(I32, value))


def _like_rows(x: Any, y: Any) -> Any:
    """A number for each row of ``y``, as large as that."""
    return broadcast_in_dim(x, typeof(y).shape, tuple(range(typeof(x).ndim)))


def _count(going: Any) -> Any:
    axes = tuple(range(typeof(going).ndim))
    return reduce_sum(convert(going, I32), axes)


def _chosen(going: Any, old: Any, new: Any) -> Any:
    """``new`` for elements that go on, ``old`` for others."""
    axes = tuple(range(typeof(going).ndim))
    return select_n_p.bind(broadcast_in_dim(going, typeof(old).shape, axes), old, new)


def _take(x: Any, rows: Any) -> Any:
    """Rows of an array, all of which it has."""
    shape = typeof(x).shape
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape))), (0,), (0,))
    indices = reshape(rows, (*typeof(rows).shape, 1))
    return gather(x, indices, numbers, (1, *shape[1:]))


def _live(going: Any, size: int) -> tuple[Any, Any]:
    """For each element its place among those that go on, and for each of so many places its
    element; one that is done where they are too few."""
    total = typeof(going).shape[0]
    count = cumsum_p.bind(convert(going, I32), axis=0, reverse=False)
    place = sub_p.bind(count, _like(count, 1))
    numbers = iota(I32, (total,))
    done = lookup("argmin").bind(convert(going, I32), axes=(0,), index_dtype=I32)
    # those that are done go to a place that isn't there
    to = select_n_p.bind(going, _like(place, size), place)
    dims = ScatterDimensionNumbers((), (0,), (0,))
    pick = scatter(full((size,), done), reshape(to, (total, 1)), numbers, dims, mode="drop")
    inside = select_n_p.bind(going, _like(place, 0), place)
    return inside, pick
