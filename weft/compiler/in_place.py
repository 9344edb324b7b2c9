"""Which results may be written over which operands.

An element may be overwritten by a kernel that reads it only where it writes, and by anything once
nothing reads it any more. Steps are those of a plan, in order; what is said here holds for any
memory: a temporary that dies, a value that goes round in a loop, an argument that was donated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from weft.base.sizes import plain, same
from weft.compiler.attach import reads, written
from weft.compiler.fuse import Step
from weft.compiler.passes.rewrite import loads, peel
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import DropVar, Literal
from weft.kernel.kernel import Kernel, Loop, Store, statements

Last = dict[Any, int]


def bytes_of(v: Any) -> int:
    """Bytes of a variable."""
    return prod(v.aval.shape) * storage_dtype(v.aval.dtype).itemsize


def last_uses(steps: list[Step], outvars: Any) -> Last:
    """The last step that reads each variable; past all of them for results."""
    last: Last = {}
    for i, step in enumerate(steps):
        read = step.buffers if step.eqn is None else [*step.eqn.invars, *step.buffers]
        for v in read:
            if type(v) is not Literal:
                last[v] = i
    last.update((v, len(steps)) for v in outvars if type(v) is not Literal)
    return last


def renewed(
    steps: list[Step],
    i: int,
    last: Last,
    least: int = 1,
    allowed: Callable[[Any, Any], bool] | None = None,
) -> dict[Any, Any]:
    """Results of a step, each with an operand whose memory it may have, as nothing reads that
    later; of kernels only those of so many bytes. ``allowed`` says which pairs are asked for."""
    step = steps[i]
    if step.kernel is None:
        assert step.eqn is not None
        if not step.eqn.primitive.in_place:
            return {}
        source, *others = step.eqn.invars
        if type(source) is Literal or last[source] != i or any(x is source for x in others):
            return {}
        wanted = allowed is None or allowed(step.writes[0], source)
        return {step.writes[0]: source} if wanted else {}
    dying = dict.fromkeys(v for v in reads(step) if last[v] == i and plain(bytes_of(v)) >= least)
    found: dict[Any, Any] = {}
    known = _Accesses(step.kernel, step.buffers) if dying else None
    for v in step.writes:
        for source in dying if last.get(v, -1) > i else ():
            if (allowed is None or allowed(v, source)) and overwrites(step, source, v, known):
                found[v] = source
                del dying[source]
                break
    return found


def bind_sources(
    steps: list[Step], last: Last, bound: dict[Any, int], least: int, fixed: Sequence[int] = ()
) -> None:
    """Let operands be made where results that may have their memory belong, but for some slots."""
    made = {v for step in steps for v in step.writes}
    for i in reversed(range(len(steps))):
        for v, source in renewed(steps, i, last, least).items():
            if source in made and source not in bound and bound.get(v) is not None:
                if bound[v] not in fixed:
                    bound[source] = bound[v]


def free_after(steps: list[Step], i: int, last: int) -> bool:
    """Whether the operand that step ``i`` copies may be overwritten by what comes after.

    Nothing may read it later, but for kernels that read each element only where they write it.
    """
    source, (target,) = steps[i].source, steps[i].writes
    for step in steps[i + 1 : last + 1]:
        read = any(x is source for x in reads(step))
        if read and not overwrites(step, source, target):
            return False
    return last < len(steps)


def _ends(buffers: Sequence[Any]) -> tuple[dict[Any, int], dict[Any, int]]:
    """The first and the last buffer that each variable is."""
    last = {v: i for i, v in enumerate(buffers)}
    return {v: len(buffers) - 1 - i for i, v in enumerate(reversed(buffers))}, last


class _Accesses:
    """Where a kernel reads and writes each of its buffers, looked at once for all pairs of them;
    and the first and the last buffer that each variable is."""

    def __init__(self, kernel: Kernel, buffers: Sequence[Any]) -> None:
        self.ends = _ends(buffers)
        self.is_plain = all(isinstance(s, (Store, Loop)) for s in statements(kernel.body))
        nest = peel(kernel) if self.is_plain else kernel
        self.is_plain = self.is_plain and all(isinstance(s, Store) for s in nest.body)
        self.stores, self.elements = len(nest.body), prod(n for _, n in nest.axes)
        self.written: dict[int, list[Any]] = {}
        self.read: dict[int, list[Any]] = {}
        if self.is_plain:
            for s in nest.body:
                place = (s.at, () if s.offset is None else (s.offset,))
                self.written.setdefault(s.buffer, []).append(place)
            for v in loads(nest.body):
                self.read.setdefault(v.attr[0], []).append((v.attr[1], v.args))


def overwrites(step: Step, source: Any, target: Any, known: _Accesses | None = None) -> bool:
    """Whether a kernel reads elements of one variable only to write the same of another; ``known``
    is what is known of its accesses."""
    kernel = step.kernel
    if kernel is None:
        return False
    first, final = known.ends if known else _ends(step.buffers)
    read, last = first.get(source), final.get(target)  # what is read may be kept too
    if read is None or last is None:
        return False
    if step.eqn is not None:
        if step.eqn.primitive.in_blocks != "once":
            return False
        if any(x is source for x in [*step.eqn.invars, *step.eqn.outvars]):
            return False  # the operation reads it elsewhere too, or it is nowhere in memory
    given, made = kernel.buffers[read], kernel.buffers[last]
    if read == last or not same(given.size, made.size):
        return False
    if given.dtype.itemsize != made.dtype.itemsize:
        return False
    known = known or _Accesses(kernel, step.buffers)
    places = known.written.get(last)
    if not known.is_plain or not places:
        return False
    if known.elements == 1:
        return known.stores == 1  # one element, whose operands are read before it is written
    return all(place in places for place in known.read.get(read, ()))


# --- copies ---------------------------------------------------------------------------------------


def relabelled(steps: list[Step]) -> dict[Any, Any]:
    """Variables that are others element by element, in the same order of memory, and stay so."""
    found: dict[Any, Any] = {}
    for step in steps:
        if step.kernel is not None and step.source is None and step.eqn is None:
            source = _copied(step)
            if source is not None:
                found[step.writes[0]] = source
    if found:
        times = Counter(v for step in steps for v in written(step))
        found = {v: source for v, source in found.items() if times[v] == 1}
    return found


def _copied(step: Step) -> Any:
    """The variable that a kernel copies the whole of, each element to the place it has; or None."""
    kernel = step.kernel
    assert kernel is not None
    if len(step.buffers) != 2 or len(step.writes) != 1 or len(kernel.buffers) != 2:
        return None
    nest = peel(kernel)
    store = nest.body[0]
    if len(nest.body) != 1 or not isinstance(store, Store) or store.offset is not None:
        return None
    if store.marks is not None:
        return None
    value = store.value
    if value.op != "load" or value.args:
        return None
    single = {axis for axis, n in nest.axes if n == 1}
    at, read = (
        (place.const, [term for term in place.terms if term[0] not in single])
        for place in (store.at, value.attr[1])
    )
    if at != read:
        return None
    given, made = kernel.buffers[value.attr[0]], kernel.buffers[store.buffer]
    count = prod(n for _, n in nest.axes)
    whole = same(count, made.size) and same(count, given.size)
    if not whole or given.dtype != made.dtype or value.attr[0] == store.buffer:
        return None
    return step.buffers[value.attr[0]]


# --- donated arguments ----------------------------------------------------------------------------


def copies_to_itself(step: Step, slots: Sequence[int]) -> bool:
    """Whether a kernel writes every element of some memory where it has read it.

    So does what merely reshapes an array in its own memory.
    """
    if step.kernel is None or len(step.writes) != 1 or len(set(slots)) != 1:
        return False
    inside = [s for s in statements(step.kernel.body) if not isinstance(s, Loop)]
    if len(inside) != 1 or not isinstance(inside[0], Store) or inside[0].offset is not None:
        return False
    (store,) = inside
    value = store.value
    return value.op == "load" and not value.args and value.attr[1] == store.at


def put_off(steps: list[Step], donated: Sequence[Any], results: Sequence[Any]) -> list[Step]:
    """Steps whose results could be written over donated arguments after others that read these.

    They stay where they are if something needs their results before.
    """
    given, wanted = set(donated), set(results)
    found = list(steps)
    for step in steps:
        over = given.intersection(reads(step))
        if not over or not any(overwrites(step, v, x) for v in over for x in step.writes):
            continue
        if wanted.isdisjoint(step.writes):
            continue
        here = next(i for i, s in enumerate(found) if s is step)
        after = [i for i in range(here + 1, len(found)) if not over.isdisjoint(reads(found[i]))]
        made = set(written(step))
        if after and not any(
            made.intersection([*reads(s), *written(s)]) for s in found[here + 1 : after[-1] + 1]
        ):
            found.insert(after[-1], found.pop(here))
    return found


def donations(
    steps: list[Step], last: Last, bound: dict[Any, int], donated: Iterable[Any]
) -> dict[int, Any]:
    """Slots of results, each with the donated argument whose memory it may have."""
    waiting = [v for v in dict.fromkeys(donated) if last.get(v, -1) < len(steps) and bytes_of(v)]
    found: dict[int, Any] = {}
    for alike_only in (True, False):  # arguments of the same type first
        for x, slot in bound.items():
            if slot in found:
                continue
            for v in waiting:
                alike = x.aval.strip_weak_type() == v.aval.strip_weak_type()
                if (alike or not alike_only) and _gives_way(steps, last, x, v):
                    found[slot] = v
                    waiting.remove(v)
                    break
    return found


def _gives_way(steps: list[Step], last: Last, x: Any, v: Any) -> bool:
    """Whether a result may have the memory of an argument."""
    if bytes_of(x) != bytes_of(v):
        return False
    first = next(i for i, step in enumerate(steps) if x in written(step))
    end, step = last.get(v, -1), steps[first]
    if end < first:
        return True
    if step.source is v:
        return free_after(steps, first, end)
    if end > first:
        return False
    if overwrites(step, v, x) or _goes_round(step, v, x):
        return True
    return step.kernel is None and renewed(steps, first, last).get(x) is v


def _goes_round(step: Step, v: Any, target: Any) -> bool:
    """Whether a variable is but what a value that goes round in a loop begins as."""
    eqn = step.eqn
    if eqn is None or eqn.primitive.nodes != "loop":
        return False
    carried = eqn.invars[eqn.primitive.carried(eqn.params)]
    if sum(x is v for x in eqn.invars) != 1:
        return False
    pairs = zip(carried, eqn.outvars, strict=False)
    return any(x is v and out is target for x, out in pairs if type(out) is not DropVar)
