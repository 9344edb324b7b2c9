"""Cotangents with a mask: what ``select_n`` did not take contributes zero, not 0 · inf.

A cotangent that comes back through ``select_n`` is zero where another case was chosen. Its mask
says where it is live. The mask follows the cotangent back through linear operations. Where it ends,
NaNs at elements that are not live become zeros; nothing else changes.

A mask that repeats a smaller one has *rows*: the smaller mask, and the axes that it has. They go
through products and convolutions, where elements of the other operand that meet no live row would
make NaNs of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.base.lazy import Late
from weft.core import sharding as meshes
from weft.core.ad import Zero, add_tangents, is_undef
from weft.core.avals import varying_of
from weft.core.registry import lookup
from weft.core.repeated import origin
from weft.core.trace import Tracer, typeof
from weft.transforms import examples

# loaded when a mask is used
families = Late("weft.prims.families")
# needed where types carry shardings
explicit = Late("weft.division.explicit")

Rule = Callable[[Any, Sequence[Any]], Sequence[Any]]


class Live:
    """Which elements may be other than zero: booleans, made when they are first asked for.

    The shape is that of the cotangent, or () where one boolean is for all its elements. ``rows``
    has a smaller mask and the axes that it has, all longer than 1, in its order: elements are live
    only where it is. ``repaired`` says that the mask is that of a gradient which had NaNs to
    replace: a second derivative, which asks products for whole examples.
    """

    __slots__ = ("shape", "rows", "repaired", "_make", "_value")

    def __init__(
        self,
        shape: tuple[int, ...],
        make: Callable[[], Any],
        rows: Rows | None = None,
        repaired: bool = False,
    ) -> None:
        self.shape = shape
        self.rows = rows
        self.repaired = repaired
        self._make: Callable[[], Any] | None = make
        self._value: Any = None

    def value(self) -> Any:
        if self._make is not None:
            self._value, self._make = self._make(), None
        return self._value


Rows = tuple[Live, tuple[int, ...]]


class Masked:
    """A cotangent with its mask.

    ``dirty`` says whether elements that are not live may be NaN: whether something scaled them
    since they became zero.
    """

    __slots__ = ("value", "live", "dirty")

    def __init__(self, value: Any, live: Live, dirty: bool) -> None:
        self.value = value
        self.live = live
        self.dirty = dirty


def settled(ct: Any) -> Any:
    """A cotangent without its mask: zero where it was NaN and not live."""
    if type(ct) is not Masked:
        return ct
    x = ct.value
    if not ct.dirty or not dtypes.issubdtype(typeof(x).dtype, np.inexact):
        return x
    live = ct.live.value()
    if not varying_of(typeof(live)) <= varying_of(typeof(x)):
        return x  # the same on devices whose masks differ: it has to stay so
    return lookup("zero_untaken").bind(live, x)


def summed(x: Any, y: Any) -> Any:
    """The sum of two cotangents; it is live where one of them is."""
    if type(x) is not Masked or type(y) is not Masked:
        return add_tangents(settled(x), settled(y))
    if x.live is y.live:
        return Masked(add_tangents(x.value, y.value), x.live, x.dirty or y.dirty)
    return Masked(add_tangents(settled(x), settled(y)), either(x.live, y.live), False)


def transposed(
    primitive: Any,
    incoming: Sequence[Any],
    operands: Sequence[Any],
    params: dict[str, Any],
    rule: Rule,
) -> Sequence[Any]:
    """Cotangents of the operands, some with masks; ``rule`` is the transposition itself."""
    if primitive.masks == "taken":
        return _chosen(primitive, incoming[0], operands, rule)
    if primitive.masks == "passed" and type(incoming[0]) is Masked:
        return _chosen(primitive, incoming[0], operands, rule)
    if primitive.masks == "untaken":
        return _untaken(incoming[0], operands)
    if primitive.masks == "call":
        return rule(incoming, operands)
    given = [ct for ct in incoming if type(ct) is not Zero]
    all_masked = all(type(ct) is Masked for ct in given)
    if all_masked and primitive.masks != "end" and not any(ct.live.shape for ct in given):
        return _all_or_nothing(primitive, incoming, operands, rule)
    if primitive.masks == "loop":
        outs = rule(incoming, operands)
        if all_masked and given:
            outs = _around_loop(primitive, incoming, operands, params, outs)
        return outs
    if not all_masked:
        return rule([settled(ct) for ct in incoming], operands)
    if primitive.masks == "each" and len(given) == 1:
        return _each(primitive, incoming[0], operands, rule)
    if meshes.explicit_ones and _has_shardings(incoming, operands):
        return rule([settled(ct) for ct in incoming], operands)
    if primitive.masks in ("moved", "summed"):
        return _moved(primitive, incoming, operands, params, rule)
    if primitive.masks == "product":
        return _product(primitive, incoming[0], operands, params, rule)
    if primitive.masks == "apart" and len(given) == 1:
        return _apart(primitive, incoming[0], operands, params, rule)
    if all(_is_one(ct.live) for ct in given):
        whole = [_as_one(ct) if type(ct) is Masked else ct for ct in incoming]
        return _all_or_nothing(primitive, whole, operands, rule)
    return rule([settled(ct) for ct in incoming], operands)


def _is_one(live: Live) -> bool:
    """Whether one boolean may stand for a mask: it repeats one, or is that of a repaired gradient,
    where a look at all elements is worth it."""
    return live.repaired or (live.rows is not None and not live.rows[1])


def _as_one(ct: Masked) -> Masked:
    """A cotangent with one boolean: it is live everywhere, or nowhere."""
    rows = ct.live.rows
    one = rows[0] if rows is not None and not rows[1] else _any_along(ct.live, ())[0]
    return Masked(settled(ct), one, False)


def _has_shardings(incoming: Sequence[Any], operands: Sequence[Any]) -> bool:
    """Whether a type of a cotangent or an operand carries a sharding."""
    cts = [typeof(ct.value) for ct in incoming if type(ct) is Masked]
    return explicit.carries([*cts, *[x.aval if is_undef(x) else typeof(x) for x in operands]])


def _chosen(primitive: Any, ct: Any, operands: Any, rule: Rule) -> list[Any]:
    """Back through a choice: each case is live where it was taken."""
    if type(ct) is Zero:
        return list(rule([ct], operands))
    plain = ct.value if type(ct) is Masked else ct
    shape = typeof(operands[0]).shape
    rows = iter(_rows_taken(primitive, operands))
    outs: list[Any] = []
    for out, taken in zip(rule([plain], operands), primitive.taken(*operands), strict=True):
        if taken is None:
            outs.append(out)
            continue
        live = Live(shape, taken, next(rows))
        if type(ct) is Masked:
            outs.append(Masked(out, both(ct.live, live), ct.dirty))
        else:
            outs.append(Masked(out, live, False))
    return outs


def _rows_taken(primitive: Any, operands: Any) -> list[Rows | None]:
    """The rows of each case's mask, where the choice repeats a smaller one."""
    which, *cases = operands
    found = origin(which)
    count = sum(is_undef(case) for case in cases)
    if found is None:
        return [None] * count
    small, axes = found
    taken = [make for make in primitive.taken(small, *cases) if make is not None]
    return [_rows(Live(typeof(small).shape, make), axes) for make in taken]


def _rows(live: Live, axes: Sequence[int]) -> Rows:
    """A smaller mask and its axes as rows: without those of length 1."""
    kept = [i for i, n in enumerate(live.shape) if n != 1]
    if len(kept) == len(live.shape):
        return live, tuple(axes)
    shape = tuple(live.shape[i] for i in kept)
    bare = {"new_sizes": shape, "dimensions": None, "sharding": None}
    squeezed = Live(shape, lambda: lookup("reshape").bind(live.value(), **bare))
    return squeezed, tuple(axes[i] for i in kept)


def _untaken(ct: Any, operands: Any) -> list[Any]:
    """Back through ``zero_untaken``: what is zero by a selection has no derivative.

    So its cotangent is zero, too. A number there would meet the infinities that made the NaN.
    """
    if type(ct) is Zero:
        return [None, ct]
    which = operands[0]
    shape = typeof(which).shape
    found = origin(which)
    rows = None
    if found is not None:
        small, axes = found
        rows = _rows(Live(typeof(small).shape, lambda: small), axes)
    live = Live(shape, lambda: which, rows, repaired=True)
    plain = ct.value if type(ct) is Masked else ct
    zero = families.broadcast_to(families.const(plain, 0), typeof(plain).shape)
    kept = lookup("select_n").bind(which, zero, plain)
    if type(ct) is Masked:
        return [None, Masked(kept, both(ct.live, live), ct.dirty)]
    return [None, Masked(kept, live, False)]


def _all_or_nothing(primitive: Any, incoming: Any, operands: Any, rule: Rule) -> list[Any]:
    """Back through any linear operation where one boolean is for all elements."""
    given = [ct for ct in incoming if type(ct) is Masked]
    live = given[0].live
    for ct in given[1:]:
        live = live if ct.live is live else either(live, ct.live)
    any_way = primitive.masks in ("", "loop", "product") or scaled(primitive, operands)
    dirty = any_way or any(ct.dirty for ct in given)
    outs = rule([ct.value if type(ct) is Masked else ct for ct in incoming], operands)
    return [_with(out, live, dirty) for out in outs]


def _each(primitive: Any, ct: Masked, operands: Any, rule: Rule) -> list[Any]:
    """Back through an elementwise operation, whose operands may be broadcast."""
    live = ct.live
    if all(x.aval.shape == live.shape for x in operands if is_undef(x)):
        dirty = ct.dirty or scaled(primitive, operands)
        return [_with(out, live, dirty) for out in rule([ct.value], operands)]
    if scaled(primitive, operands):
        operands = [x if is_undef(x) else _harmless(primitive, x, live) for x in operands]
    return [
        out
        if not is_undef(x)
        else _with(out, live if x.aval.shape == live.shape else _shrunk(live, x.aval), False)
        for x, out in zip(operands, rule([settled(ct)], operands), strict=True)
    ]


def _shrunk(live: Live, aval: Any) -> Live:
    """The mask of an operand that was broadcast: live where one of its copies is."""

    def make() -> Any:
        return nonzero(families.unbroadcast(aval, families.converted(live.value(), aval.dtype)))

    return Live(aval.shape, make, None, live.repaired)


def _moved(
    primitive: Any, incoming: Any, operands: Any, params: dict[str, Any], rule: Rule
) -> list[Any]:
    """Back through an operation that only moves and adds elements: so it does with masks."""
    sums = primitive.masks == "summed"
    plain = [settled(ct) if sums else ct.value if type(ct) is Masked else ct for ct in incoming]
    dirty = not sums and any(type(ct) is Masked and ct.dirty for ct in incoming)
    repaired = any(type(ct) is Masked and ct.live.repaired for ct in incoming)
    made: list[Any] = []

    def masks() -> list[Any]:
        if not made:
            ones = [as_number(ct) for ct in incoming]
            made.extend(rule(ones, operands))
        return made

    def of_operand(i: int) -> Live:
        shape = operands[i].aval.shape
        rows = _rows_moved(primitive, incoming, operands, params, i, shape)
        live = Live(shape, lambda: nonzero(masks()[i]), rows, repaired)
        if rows is None and len(incoming) == 1:
            live.rows = _rows_of_part(live, incoming[0].live)
        return live

    return [
        _with(out, of_operand(i), dirty) if is_undef(operands[i]) else out
        for i, out in enumerate(rule(plain, operands))
    ]


def _rows_of_part(part: Live, whole: Live) -> Rows | None:
    """The rows of the mask of a part of an array whose mask has rows: one of them, or along the
    same axes. They are made where something asks for them."""
    if whole.rows is None:
        return None
    small, axes = whole.rows
    if prod(part.shape) * prod(small.shape) == prod(whole.shape):
        return _any_along(part, ())
    return _any_along(part, axes) if len(part.shape) == len(whole.shape) else None


def _rows_moved(
    primitive: Any, incoming: Any, operands: Any, params: dict[str, Any], i: int, shape: Any
) -> Rows | None:
    """The rows of an operand's mask, where they are one by one those of the only result."""
    if len(incoming) != 1:
        return None
    live = incoming[0].live
    rows = live.rows
    if rows is None:
        if len(live.shape) >= len(shape):
            return None
        rows = _rows(live, range(len(live.shape)))  # repeated along the axes that are new
    return _aligned(primitive, operands, params, rows, live.shape).get(i)


def _aligned(
    primitive: Any, operands: Any, params: dict[str, Any], rows: Rows, shape: Any
) -> dict[int, Rows]:
    """Rows of a result as rows of each operand that has all their axes."""
    avals = [x.aval if is_undef(x) else typeof(x) for x in operands]
    if not all(type(n) is int for aval in avals for n in aval.shape):
        return {}
    result = avals[0].update(shape=tuple(shape), sharding=None)
    factors = primitive.factors(avals, [result], params)
    if factors is None:
        return {}
    small, axes = rows
    wanted = [factors.outs[0][axis] for axis in axes]
    if any(len(dims) != 1 for dims in wanted):
        return {}
    return {
        i: (small, tuple(dims.index(w) for w in wanted))
        for i, dims in enumerate(factors.ins)
        if all(w in dims for w in wanted)
    }


def _product(
    primitive: Any, ct: Masked, operands: Any, params: dict[str, Any], rule: Rule
) -> list[Any]:
    """Back through a product: elements of the known operand that only rows meet that are not live
    are harmless, and a row that is not live stays so."""
    plain = settled(ct)
    shape = typeof(plain).shape
    found = _aligned(primitive, operands, params, _known_rows(ct.live), shape)
    if ct.live.repaired and any(is_undef(x) and i not in found for i, x in enumerate(operands)):
        bare = Live(shape, ct.live.value, None, repaired=True)
        found = _examples(primitive, operands, params, bare, shape) or found
    given = [
        _finite(x, found[i]) if i in found and not is_undef(x) else x
        for i, x in enumerate(operands)
    ]
    outs = list(rule([plain], given))
    for i, x in enumerate(operands):
        if is_undef(x) and i in found:
            live = _of_rows(found[i], x.aval.shape, ct.live.repaired)
            outs[i] = _with(outs[i], live, False)
    return outs


def _apart(
    primitive: Any, ct: Masked, operands: Any, params: dict[str, Any], rule: Rule
) -> list[Any]:
    """Back through an operation of many examples, each alone: one that isn't live stays so, even if
    what it meets is NaN or infinite."""
    plain = settled(ct)
    find = _of_solve if primitive.multiple_results else _examples
    found = find(primitive, operands, params, ct.live, typeof(plain).shape)
    repaired = ct.live.repaired
    return [
        _with(out, _of_rows(found[i], x.aval.shape, repaired), True)
        if is_undef(x) and i in found
        else out
        for i, (x, out) in enumerate(zip(operands, rule([plain], operands), strict=True))
    ]


def _around_loop(
    primitive: Any, incoming: Any, operands: Any, params: dict[str, Any], outs: Sequence[Any]
) -> Sequence[Any]:
    """Cotangents that lost their masks in a loop: examples that the loop keeps apart stay so."""
    lives = [ct.live for ct in incoming if type(ct) is Masked]
    if all(live.rows is None and not live.repaired for live in lives):
        return outs
    one = None
    if all(map(_is_one, lives)):
        one = _any_of([_as_one(ct).live for ct in incoming if type(ct) is Masked])
    results = examples.of_loop(primitive, params)
    found = list(outs)
    for i, (x, out) in enumerate(zip(operands, outs, strict=True)):
        if not is_undef(x) or out is None or type(out) is Zero:
            continue
        shape = x.aval.shape
        live = None if results is None else _of_loop(i, shape, incoming, results)
        if live is None and one is not None:
            live = _of_rows((one, ()), shape, any(live.repaired for live in lives))
        if live is not None:
            # inside, a mask may have ended: then all elements are said to be live
            masked = type(out) is Masked
            value, live = (out.value, both(out.live, live)) if masked else (out, live)
            found[i] = Masked(value, live, True)
    return found


def _any_of(lives: Sequence[Live]) -> Live:
    joined = lives[0]
    for other in lives[1:]:
        joined = joined if other is joined else either(joined, other)
    return joined


def _of_loop(i: int, shape: Any, incoming: Any, results: Sequence[Any]) -> Live | None:
    """The mask of a loop's operand: examples that are live in any result made of it."""
    parts = [
        (ct.live, result[i])
        for ct, result in zip(incoming, results, strict=True)
        if type(ct) is Masked and i in result
    ]
    axes = [a for a in range(len(shape)) if all(a in own for _, own in parts) and shape[a] != 1]
    if not parts or not axes:
        return None
    lives: list[Live] = []
    for live, own in parts:
        if len(live.shape) != len(own):
            return None
        small, _ = _any_along(live, [own.index(a) for a in axes])
        lives.append(small)
    joined = _any_of(lives)
    repaired = any(live.repaired for live, _ in parts)
    return _of_rows((joined, tuple(axes)), shape, repaired)


def _examples(
    primitive: Any, operands: Any, params: dict[str, Any], live: Live, shape: Any
) -> dict[int, Rows]:
    """The rows of each linear operand: examples in which any element of the result is live."""
    found = _aligned(primitive, operands, params, _known_rows(live), shape)
    avals = [x.aval if is_undef(x) else typeof(x) for x in operands]
    if found or live.shape != tuple(shape) or not all(type(n) is int for n in shape):
        return found
    factors = primitive.factors(avals, [avals[0].update(shape=tuple(shape), sharding=None)], params)
    if factors is None:
        return {}
    # what meets a product's known operand makes NaN of its zeros; an example's mends itself
    product, pairs = primitive.masks == "product", zip(operands, factors.ins, strict=True)
    met = [dims for x, dims in pairs if product or is_undef(x)]
    axes = [
        axis
        for axis, labels in enumerate(factors.outs[0])
        if len(labels) == 1 and all(labels in dims for dims in met)
    ]
    return _aligned(primitive, operands, params, _any_along(live, axes), shape)


def _of_solve(
    primitive: Any, operands: Any, params: dict[str, Any], live: Live, shape: Any
) -> dict[int, Rows]:
    """The same of a solve that is a program: the right-hand side, whose axes are the result's."""
    avals = [x.aval if is_undef(x) else typeof(x) for x in operands]
    if live.shape != tuple(shape) or not all(type(n) is int for n in shape):
        return {}
    axes = primitive.examples(avals, params, len(shape))
    return {} if axes is None else {len(operands) - 1: _any_along(live, axes)}


def _any_along(live: Live, axes: Sequence[int]) -> Rows:
    """Where along some axes any element is live, as rows."""
    rest = tuple([axis for axis in range(len(live.shape)) if axis not in axes])
    kept = tuple([live.shape[axis] for axis in axes])
    make = lambda: lookup("reduce_or").bind(live.value(), axes=rest, out_sharding=None)
    return _rows(Live(kept, make), axes)


def _known_rows(live: Live) -> Rows:
    """The rows of a mask: itself, along all axes, where it repeats no smaller one."""
    return live.rows if live.rows is not None else _rows(live, range(len(live.shape)))


def _of_rows(rows: Rows, shape: Any, repaired: bool = False) -> Live:
    return Live(tuple(shape), lambda: _repeated(rows, shape), rows, repaired)


def _repeated(rows: Rows, shape: Any) -> Any:
    small, axes = rows
    return families.broadcast_in_dim(small.value(), tuple(shape), axes)


def _finite(x: Any, rows: Rows) -> Any:
    """A known operand with zeros for NaNs and infinities of rows that are not live; so has its
    tangent, which may be infinite where the operand is not."""
    aval = typeof(x)
    if not dtypes.issubdtype(aval.dtype, np.inexact):
        return x
    live = _repeated(rows, aval.shape)
    one = families.broadcast_to(families.const(x, 1), aval.shape)
    same = lookup("add").bind(one, lookup("sub").bind(x, x))  # 1, or NaN
    kept = lookup("zero_untaken").bind(live, lookup("mul").bind(x, same))
    return lookup("select_n").bind(live, kept, x)


def as_number(ct: Any) -> Any:
    """A mask as a cotangent: 1 where it is live."""
    if type(ct) is Zero:
        return ct
    aval = typeof(ct.value)
    return families.broadcast_to(
        families.converted(ct.live.value(), aval.dtype, aval.weak_type), aval.shape
    )


def nonzero(x: Any) -> Any:
    """A mask of a cotangent that stands for it."""
    return lookup("ne").bind(x, families.const(x, 0))


def _with(out: Any, live: Live, dirty: bool) -> Any:
    """A cotangent that is live only where one boolean is; it may have come from a loop with a mask
    that began there."""
    if out is None or type(out) is Zero:
        return out
    if type(out) is not Masked:
        return Masked(out, live, dirty)
    own = out.live
    live = _of_rows((live, ()), own.shape, live.repaired) if own.shape else live
    return Masked(out.value, both(own, live), dirty or out.dirty)


def both(x: Live, y: Live) -> Live:
    """Where both masks are live."""
    make = lambda: lookup("and").bind(x.value(), y.value())
    repaired, shape = x.repaired or y.repaired, x.shape or y.shape
    rows = _rows_of_both(_own_rows(x), _own_rows(y)) if shape else None
    return Live(shape, make, rows, repaired)


def _own_rows(live: Live) -> Rows | None:
    """The rows of a mask; one boolean for all elements is its own."""
    return (live, ()) if live.rows is None and not live.shape else live.rows


def _rows_of_both(x: Rows | None, y: Rows | None) -> Rows | None:
    if x is None or y is None:
        return x or y
    if x[1] != y[1]:
        return min(x, y, key=lambda rows: len(rows[1]))
    return x if x[0] is y[0] else (both(x[0], y[0]), x[1])


def either(x: Live, y: Live) -> Live:
    """Where one of two masks is live."""
    repaired, shape = x.repaired or y.repaired, x.shape or y.shape
    rows = _rows_of_either(_own_rows(x), _own_rows(y)) if shape else None
    return Live(shape, lambda: lookup("or").bind(x.value(), y.value()), rows, repaired)


def _rows_of_either(x: Rows | None, y: Rows | None) -> Rows | None:
    if x is None or y is None:
        return None
    axes = tuple([axis for axis in x[1] if axis in y[1]])
    if not axes and (x[1] or y[1]):
        return None
    first, second = (_rows_along(rows, axes) for rows in (x, y))
    return x if first is second else (either(first, second), axes)


def _rows_along(rows: Rows, axes: tuple[int, ...]) -> Live:
    """Rows along some of their axes: live where any is."""
    small, own = rows
    return small if own == axes else _any_along(small, [own.index(axis) for axis in axes])[0]


# --- what scales ----------------------------------------------------------------------------------


def scaled(primitive: Any, operands: Any) -> bool:
    """Whether a known operand may make NaN of a zero."""
    return bool(primitive.scales) and not all(
        is_undef(x) or _is_plain_number(x, primitive.scales) for x in operands
    )


def _is_plain_number(x: Any, scales: str) -> bool:
    """Whether an operand is a number that is known by now, and that keeps zeros zeros."""
    if not isinstance(x, (bool, int, float, complex, np.generic)):
        if isinstance(x, Tracer) or np.shape(x) != ():
            return False
        x = np.asarray(x)[()]
    return bool(np.isfinite(x)) and (scales == "mul" or bool(x != 0))


def _harmless(primitive: Any, x: Any, live: Live) -> Any:
    """A known operand with 1 where no live element meets it and it would make NaN of a zero."""
    aval = typeof(x)
    if not dtypes.issubdtype(aval.dtype, np.inexact):
        return x
    x = families.broadcast_to(x, live.shape)
    rest = lookup("sub").bind(x, x)
    good = lookup("eq").bind(rest, rest)  # neither NaN nor infinite
    if primitive.scales == "div":
        good = lookup("and").bind(good, nonzero(x))
    kept = lookup("or").bind(live.value(), good)
    return lookup("select_n").bind(kept, families.broadcast_to(families.const(x, 1), live.shape), x)
