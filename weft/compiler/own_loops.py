"""Batched loops as one kernel: a thread, or a warp, runs an element of the batch to its own end.

Elements that are done wait for nobody: each thread tests its own condition, and what goes round is
in its registers. This holds where one element is a few numbers, or rows whose places need only
their sums of each other, see `cells`; it has the bits that it has alone, in a batch of any size.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.base import knobs
from weft.base.record import Record
from weft.compiler.cells import NEIGHBOUR, Cells, Held, Stored, Thread, Unfit, flat
from weft.compiler.pull import scalars
from weft.core.caches import ProgramCache
from weft.core.jaxpr import Jaxpr, Var
from weft.kernel.kernel import Buffer, Kernel, Loop, Store, affine
from weft.kernel.nodes import NEIGHBOURS, layout
from weft.kernel.program import Launch
from weft.kernel.spec import verify

# Scalars that a thread may carry from round to round.
MAX_CARRIED = 64
# Elements of a row from which on the threads of a warp share it.
MIN_ROW = 24
# Operations that a thread may do, alone and in a warp, in batches of fewer elements than this:
# where there are few elements, more threads do the operations of each of them in less time.
MAX_OPS = ((1 << 10, 700, 1500), (1 << 14, 2000, 3000), (float("inf"), 3000, 3000))
# Kernels of loops by their bodies, or why there is none.
_known: ProgramCache[None, Any] = ProgramCache("loops of elements")


class OwnLoop(Record):
    """A kernel, and the operands and results that its buffers are."""

    kernel: Kernel
    operands: tuple[int, ...]
    results: tuple[int, ...]


def has_own_loop(eqn: Any) -> bool:
    """Whether threads run a batched loop, an element each."""
    return type(own_loop(eqn)) is OwnLoop


def own_loop(eqn: Any) -> OwnLoop | str | None:
    """The kernel of a batched loop; why there is none, or None where it isn't batched."""
    if eqn.effects or eqn.primitive.unbatched is None or knobs.thread.reproducible:
        return None
    found = eqn.primitive.unbatched(eqn.params)
    if found is None:
        return None

    def make() -> Any:
        why = ""
        for row in _rows(found):
            try:
                return _Writer(eqn, found, row).whole()
            except Unfit as reason:
                why = why or str(reason)
        return why

    return _known.made(eqn.params["body_jaxpr"], None, make)


def own_loops(planner: Any, eqn: Any, ins: list[int], outs: list[int]) -> list[Any] | None:
    """The node of a loop that threads run, an element each; None where they can't."""
    made = own_loop(eqn)
    if type(made) is not OwnLoop or not {*ins}.isdisjoint(outs):
        return None
    if planner.watch.current is not None:
        planner.watch.current.loop = "elements"
    writes = [outs[i] for i in made.results]
    return [Launch(made.kernel, (*[ins[i] for i in made.operands], *writes), tuple(writes))]


class _Writer:
    """The kernel of a loop while it is written."""

    def __init__(self, eqn: Any, found: Any, row: int) -> None:
        self.eqn, self.found = eqn, found
        self.sizes = found.sizes
        self.axes = [f"p{i}" for i in range(len(self.sizes))]
        avals = [x.aval for x in [*eqn.invars, *eqn.outvars]]
        plain = all(type(n) is int for a in avals for n in a.shape)
        if not plain or any(a.is_ref or not prod(a.shape) for a in avals):
            raise Unfit("sizes that aren't known")
        _, alone, shared = next(x for x in MAX_OPS if prod(self.sizes) < x[0])
        self.thread = Thread(shared if row else alone, row)
        self.buffers: list[Buffer] = []

    def buffer(self, aval: Any, role: str) -> int:
        part, n = layout(aval.dtype)
        self.buffers.append(Buffer(part, n * prod(aval.shape), role))
        return len(self.buffers) - 1

    def whole(self) -> OwnLoop:
        eqn, found, params = self.eqn, self.found, self.eqn.params
        counts = params["cond_nconsts"], params["body_nconsts"]
        start = sum(counts)
        every = (0,) * len(self.sizes)
        dims = [*found.cond_dims, *found.body_dims, *[every] * len(eqn.outvars)]
        shapes = [a.shape for a in found.cond.in_avals[: counts[0]]]
        shapes += [a.shape for a in found.body.in_avals]
        places = []
        for x, own, shape in zip(eqn.invars, dims, shapes, strict=True):
            places.append(self.place(x.aval, own, shape))
        cells = Cells(self.thread, Jaxpr([], [], [], []), ())
        body = found.body
        init = []
        moving = self.moving(body, counts[1])
        for source, aval, moves in zip(places[start:], found.body.out_avals, moving, strict=True):
            init.append(self.read(cells, source, aval) if moves else source)
        carried = [v for x in init if type(x) is Held for v in scalars(list(x.values))]
        if len(carried) > MAX_CARRIED:
            raise Unfit(f"{len(carried)} numbers that go round")
        consts = places[: counts[0]], places[counts[0] : start]
        outs = cells.loop((found.cond, body), consts, init, None)
        statements = list(self.thread.body)
        for x, held, source, aval in zip(
            eqn.outvars, outs, places[start:], found.body.out_avals, strict=True
        ):
            target = self.place(x.aval, every, aval.shape, "out")
            statements += self.stores(cells, target, held, source, aval)
        axes = list(zip(self.axes, self.sizes, strict=True))
        axes += [(NEIGHBOUR, NEIGHBOURS)] if self.thread.row else []
        grid = axes[0]
        if len(axes) > 1:
            grid = "p", prod(n for _, n in axes)
        kernel = Kernel(
            "loop_of_elements", self.buffers, grid, statements, tuple(axes[1:] and axes), True
        )
        verify(kernel)
        return OwnLoop(kernel, tuple(range(len(eqn.invars))), tuple(range(len(eqn.outvars))))

    def moving(self, body: Any, count: int) -> list[bool]:
        """Which parts of the carry rounds change."""
        jaxpr = flat(body)
        return [v is not x for v, x in zip(jaxpr.invars[count:], jaxpr.outvars, strict=True)]

    def place(self, aval: Any, dims: Any, shape: tuple[int, ...], role: str = "in") -> Stored:
        """Where an element's part of an array is: of axes of the batch, outermost first, some may
        be missing."""
        strides = [prod(aval.shape[i + 1 :]) for i in range(len(aval.shape))]
        axes, front = list(range(len(strides))), 0
        terms = {}
        for name, dim in zip(self.axes, dims, strict=True):
            if dim is not None:
                axis = axes.pop(front + dim)
                axes.insert(front, axis)
                terms[name] = strides[axis]
                front += 1
        own = axes[front:]
        assert tuple([aval.shape[i] for i in own]) == tuple(shape)
        at = affine(0, terms)
        return Stored(self.buffer(aval, role), at, tuple([strides[i] for i in own]))

    def read(self, cells: Cells, source: Stored, aval: Any) -> Held:
        """The numbers of an element that are in memory."""
        v = Var(aval)
        cells.sources[v] = source
        return cells.held(v)

    def stores(self, cells: Cells, target: Stored, held: Any, source: Any, aval: Any) -> list[Any]:
        """The statements that write a result of an element."""
        if type(held) is Held:
            return self.written(target, list(held.values), aval)
        # what goes through all rounds as it is
        v = Var(aval)
        cells.sources[v] = source
        names = [f"{target.buffer}c{i}" for i in range(len(aval.shape))]
        axes = [f"c{name}" for name in names]
        index = tuple([affine(0, {a: 1}) for a in axes])
        at = target.at
        for entry, stride in zip(index, target.strides, strict=True):
            at = at.plus(entry.scaled(stride, 0))
        parts = scalars(cells.pull(v, index))
        body: list[Any] = [
            Store(target.buffer, at.scaled(len(parts), i), x) for i, x in enumerate(parts)
        ]
        for axis, extent in reversed(list(zip(axes, aval.shape, strict=True))):
            body = [Loop(axis, extent, body)]
        return body

    def written(self, target: Stored, values: list[Any], aval: Any) -> list[Any]:
        found = []
        for index, value in zip(self.thread.places(aval.shape), values, strict=True):
            at, k = target.at, self.thread.k
            for entry, stride in zip(index, target.strides, strict=True):
                at = at.plus(entry.scaled(stride, 0))
            parts = scalars(value)
            at = at.scaled(len(parts), 0)
            offset, reach = None, (0, 0)
            if k.from_data(at):
                at, offset, reach = k.apart(at)
            for i, x in enumerate(parts):
                found.append(Store(target.buffer, at.scaled(1, i), x, offset, reach))
        return found


def _rows(found: Any) -> list[int]:
    """The lengths of axes that the threads of a warp share, best first; 0 for a thread alone."""
    longest = max((n for aval in found.body.out_avals for n in aval.shape), default=0)
    return [0] if longest < MIN_ROW else [longest, 0]
