"""Reductions by a function: the primitives ``reduce``, ``reduce_window``, ``select_and_scatter``.

Their functions are staged for scalars; on arrays they are evaluated over a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.errors import JaxprTypeError
from weft.base.functional import ById
from weft.control.initial_style import settled, tangents_of
from weft.core.ad import Zero, instantiate
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, at_front
from weft.core.caches import per_program
from weft.core.interpret import decomposed
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.staging import stage
from weft.core.verify import check_call, check_combination
from weft.division.factors import Factors, labelled
from weft.prims.bits import and_, or_
from weft.prims.families import const
from weft.prims.in_turn import MOST as MOST_PLACES
from weft.prims.in_turn import PLACE, update_in_turn
from weft.prims.reduce import flatten_axes_first, pad_one_row, reduction_flops, rows
from weft.prims.selection import ge, lt, select_n
from weft.prims.shape import concatenate_p, full, iota, reshape, squeeze
from weft.prims.window import (
    Padding,
    Shape,
    counted_windows,
    insert_axis,
    stack_windows,
    trivial_dims,
    window_flops,
)
from weft.transforms.jvp import jvp, jvp_jaxpr
from weft.transforms.vmap import batch, batch_to

# Elements of windows that are sliced out one by one when compiled.
MOST = 64

# --- evaluation on NumPy arrays -------------------------------------------------------------------


def closed_of(jaxpr: Jaxpr, consts: Sequence[Any]) -> ClosedJaxpr:
    """The program with its constants, one object for each."""
    return _closed(jaxpr, *map(ById, consts))


@per_program
def _closed(jaxpr: Jaxpr, *consts: ById) -> ClosedJaxpr:
    return ClosedJaxpr(jaxpr, [const.value for const in consts])


# --- reduce ---------------------------------------------------------------------------------------


def over_axes(function: Callable[..., Any], sizes: Shape) -> Callable[..., Any]:
    """A function of scalars as one of arrays of these sizes."""
    for size in reversed(sizes):
        function = _over_axis(function, size)
    return function


def _over_axis(function: Callable[..., Any], size: int) -> Callable[..., Any]:
    def mapped(*args: Any) -> list[Any]:
        count = len(args) // 2
        return batch_to(function, AxisData(None, size), args, [0] * len(args), [0] * count)

    return mapped


def reduce_tree(closed: ClosedJaxpr, xs: Sequence[Any], inits: Sequence[Any]) -> list[Any]:
    """Reduce the first axis by combining halves, the odd one out with the identity."""
    scalar = jaxpr_as_fun(closed)
    xs = list(xs)
    while (n := np.shape(xs[0])[0]) > 1:
        half = (n + 1) // 2
        first = [rows(x, 0, half) for x in xs]
        second = [rows(x, half, n) for x in xs]
        if n % 2:
            second = [pad_one_row(x, i) for x, i in zip(second, inits, strict=True)]
        xs = over_axes(scalar, np.shape(first[0]))(*first, *second)
    if n == 0:
        return [full(np.shape(x)[1:], i) for x, i in zip(xs, inits, strict=True)]
    return [squeeze(x, (0,)) for x in xs]


def reduce_from(closed: ClosedJaxpr, xs: Sequence[Any], inits: Sequence[Any]) -> list[Any]:
    """Reduce the first axis and combine with start values that need not be the identity."""
    scalar = jaxpr_as_fun(closed)
    xs = list(xs)
    rest = np.shape(xs[0])[1:]
    starts = [full(rest, i) for i in inits]
    while (n := np.shape(xs[0])[0]) > 1:
        even = n // 2 * 2
        first = [rows(x, 0, even, 2) for x in xs]
        second = [rows(x, 1, even, 2) for x in xs]
        combined = over_axes(scalar, np.shape(first[0]))(*first, *second)
        if n % 2:
            last = [rows(x, n - 1, n) for x in xs]
            combined = [
                concatenate_p.bind(c, x, dimension=0) for c, x in zip(combined, last, strict=True)
            ]
        xs = combined
    if n == 0:
        return starts
    return over_axes(scalar, rest)(*starts, *[squeeze(x, (0,)) for x in xs])


def unrolls(closed: ClosedJaxpr, avals: Sequence[Any]) -> bool:
    """Whether a reduction may be replaced by the operations of its function, on halves."""
    jaxpr = closed.jaxpr
    plain = all(e.primitive.form == "map" and not e.effects for e in jaxpr.eqns)
    made = {v for e in jaxpr.eqns for v in e.outvars}
    distinct = len(set(map(id, jaxpr.outvars))) == len(jaxpr.outvars)
    whole = all(0 not in a.shape for a in avals)
    outs = [x for x in jaxpr.outvars if type(x) is not Literal and x in made]
    return plain and distinct and whole and len(outs) == len(jaxpr.outvars) and not closed.consts


class Reduce(Primitive):
    """Arrays reduced along dimensions by an associative function of pairs."""

    name, flops = "reduce", reduction_flops
    multiple_results = True
    ref = decomposed

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        if not prod(avals[0].shape[i] for i in params["dimensions"]):
            return True
        return unrolls(params["jaxpr"], avals)

    def decompose(
        self, *args: Any, computation: Any, jaxpr: ClosedJaxpr, dimensions: Shape
    ) -> list[Any]:
        count = len(args) // 2
        shape = np.shape(args[0])
        if not prod(shape[i] for i in dimensions):
            kept = tuple([n for i, n in enumerate(shape) if i not in dimensions])
            return [lookup("copy").bind(full(kept, i)) for i in args[count:]]
        flat = [flatten_axes_first(x, dimensions) for x in args[:count]]
        return reduce_from(jaxpr, flat, args[count:])

    holes = {"transpose": "not linear; its tangent is a tree of the function's own operations"}

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        count = len(avals) // 2
        dims: list[Any] = list(range(len(avals[0].shape)))
        kept = [d for d in dims if d not in params["dimensions"]]
        given = [d if d in kept else None for d in dims]
        return labelled([given] * count + [()] * count, [kept] * count, avals, outs)

    def shape(
        self, *avals: Any, computation: Any, jaxpr: ClosedJaxpr, dimensions: Shape
    ) -> list[ShapedArray]:
        count = len(avals) // 2
        operands, inits = avals[:count], avals[count:]
        if any(a.shape for a in inits):
            shapes = [a.shape for a in inits]
            raise ValueError(f"reduce needs scalar initial values, got shapes {shapes}")
        if any(x.dtype != i.dtype for x, i in zip(operands, inits, strict=True)):
            given = ", ".join(a.str_short() for a in avals)
            raise TypeError(f"reduce needs initial values of the operands' dtypes, got {given}")
        first = operands[0].shape
        if any(x.shape != first for x in operands):
            shapes = [x.shape for x in operands]
            raise TypeError(f"reduce needs operands of equal shapes, got {shapes}")
        if any(not 0 <= d < len(first) for d in dimensions):
            raise IndexError(f"reduce dimensions {dimensions} are out of bounds for shape {first}")
        kept = tuple([n for i, n in enumerate(first) if i not in dimensions])
        return [
            ShapedArray(kept, x.dtype, x.weak_type and i.weak_type)
            for x, i in zip(operands, inits, strict=True)
        ]

    def verify(self, avals: Any, params: dict[str, Any]) -> None:
        one = [a.update(shape=()) for a in avals[: len(avals) // 2]]
        check_call("the function of reduce", params["jaxpr"], [*one, *one], one)

    def jvp(
        self, primals: Any, tangents: Any, *, computation: Any, jaxpr: Any, dimensions: Shape
    ) -> tuple[list[Any], list[Any]]:
        count = len(primals) // 2
        moved = [flatten_axes_first(x, dimensions) for x in primals[:count]]
        moving = [
            t if type(t) is Zero else flatten_axes_first(t, dimensions) for t in tangents[:count]
        ]
        moving = [
            Zero.from_primal(x) if type(t) is Zero else t
            for x, t in zip(moved, moving, strict=True)
        ]
        inits = primals[count:]
        if all(type(t) is Zero for t in tangents[count:]):
            return jvp(lambda *xs: reduce_tree(jaxpr, xs, inits), moved, moving)
        return jvp(
            lambda *xs: reduce_from(jaxpr, xs[:count], xs[count:]),
            [*moved, *inits],
            [*moving, *tangents[count:]],
        )

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        computation: Any,
        jaxpr: ClosedJaxpr,
        dimensions: Shape,
    ) -> tuple[list[Any], list[int | None]]:
        count = len(args) // 2
        if any(d is not None for d in dims[count:]):

            def reduced(*xs: Any) -> list[Any]:
                flat = [flatten_axes_first(x, dimensions) for x in xs[:count]]
                return reduce_from(jaxpr, flat, xs[count:])

            return batch(reduced, axis, args, dims)
        moved = [at_front(x, d, axis.size) for x, d in zip(args[:count], dims[:count], strict=True)]
        outs = self.bind(
            *moved,
            *args[count:],
            computation=computation,
            jaxpr=jaxpr,
            dimensions=tuple([d + 1 for d in dimensions]),
        )
        return outs, [0] * count


# --- reduce_window --------------------------------------------------------------------------------


class ReduceWindow(Primitive):
    """The windows of arrays, each reduced by an associative function of pairs."""

    name, flops = "reduce_window", window_flops
    multiple_results = True
    ref = decomposed

    divided_as = "each"

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        if params["consts"] or prod(params["window_dimensions"]) > MOST:
            return False
        return unrolls(closed_of(params["jaxpr"], ()), avals)

    def decompose(self, *args: Any, jaxpr: Jaxpr, consts: Any, **window: Any) -> list[Any]:
        return reduce_windows(closed_of(jaxpr, consts), args, window)

    holes = {"transpose": "the function need not be linear; sums have reduce_window_sum"}

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        count = len(avals) // 2
        names = trivial_dims(params)
        return labelled([names] * count + [()] * count, [names] * count, avals, outs)

    def shape(self, *avals: Any, jaxpr: Jaxpr, consts: Any, **window: Any) -> list[ShapedArray]:
        count = len(avals) // 2
        operands, inits = avals[:count], avals[count:]
        if any(x.dtype != i.dtype for x, i in zip(operands, inits, strict=True)):
            given = ", ".join(a.str_short() for a in avals)
            raise TypeError(
                f"reduce_window needs initial values of the operands' dtypes, got {given}"
            )
        if any(i.shape for i in inits):
            shapes = [i.shape for i in inits]
            raise TypeError(f"reduce_window needs scalar initial values, got shapes {shapes}")
        first = operands[0]
        if any(x.shape != first.shape for x in operands):
            shapes = [x.shape for x in operands]
            raise TypeError(f"reduce_window needs operands of equal shapes, got {shapes}")
        sizes = counted_windows("reduce_window", first, **window)
        return [ShapedArray(sizes, x.dtype) for x in operands]

    def verify(self, avals: Any, params: dict[str, Any]) -> None:
        one = [a.update(shape=()) for a in avals[: len(avals) // 2]]
        what = "the function of reduce_window"
        check_combination(what, params["jaxpr"], params["consts"], one)

    def jvp(
        self, primals: Any, tangents: Any, *, jaxpr: Jaxpr, consts: Any, **window: Any
    ) -> tuple[list[Any], list[Any]]:
        count = len(primals) // 2
        moving = [
            type(x) is not Zero or type(i) is not Zero
            for x, i in zip(tangents[:count], tangents[count:], strict=True)
        ]
        with_tangents, moving = pair_jvp_jaxpr(closed_of(jaxpr, consts), moving)
        given = [instantiate(t) for t, m in zip(tangents[:count], moving, strict=True) if m]
        starts = [instantiate(t) for t, m in zip(tangents[count:], moving, strict=True) if m]
        outs = self.bind(
            *primals[:count],
            *given,
            *primals[count:],
            *starts,
            jaxpr=with_tangents.jaxpr,
            consts=tuple(with_tangents.consts),
            **window,
        )
        return outs[:count], tangents_of(outs[:count], moving, outs[count:])

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, consts: Any, **window: Any
    ) -> tuple[list[Any], list[int | None]]:
        count = len(args) // 2
        operands = [
            at_front(x, d, axis.size) for x, d in zip(args[:count], dims[:count], strict=True)
        ]
        if any(d is not None for d in dims[count:]):
            closed = closed_of(jaxpr, consts)
            return batch(lambda *xs: reduce_windows(closed, xs, window), axis, args, dims)
        params = insert_axis(window, 0)
        outs = self.bind(*operands, *args[count:], jaxpr=jaxpr, consts=consts, **params)
        return outs, [0] * count

    def partial_eval(self, trace: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        """Operation by operation, so that values do not wait for the tangents beside them."""
        window = dict(params)
        closed = closed_of(window.pop("jaxpr"), window.pop("consts"))
        return reduce_windows(closed, args, window)


def reduce_windows(closed: ClosedJaxpr, args: Sequence[Any], window: dict[str, Any]) -> list[Any]:
    """The reduction of windows by the function's own operations on slices of the operands."""
    count = len(args) // 2
    operands, inits = args[:count], args[count:]
    elements = [stack_windows(x, init, **window) for x, init in zip(operands, inits, strict=True)]
    return reduce_from(closed, elements, inits)


def pair_jvp_jaxpr(closed: ClosedJaxpr, moving: list[bool]) -> tuple[ClosedJaxpr, list[bool]]:
    """A combining program that carries tangents too, and which of its values have one.

    Its inputs are the left values and their tangents, then the right ones; a value has a tangent
    as soon as a combination may give it one.
    """
    return _pair_jvp(closed, tuple(moving))


@per_program
def _pair_jvp(closed: ClosedJaxpr, given: tuple[bool, ...]) -> tuple[ClosedJaxpr, list[bool]]:
    made, _, moving = settled(list(given), lambda flags: jvp_jaxpr(closed, [*flags, *flags], flags))
    count, extra = len(moving), sum(moving)
    function = jaxpr_as_fun(made)

    def combine(*args: Any) -> list[Any]:
        left, right = args[: count + extra], args[count + extra :]
        return function(*left[:count], *right[:count], *left[count:], *right[count:])

    side = closed.in_avals[:count]
    side = [*side, *[a.to_tangent_aval() for a, m in zip(side, moving, strict=True) if m]]
    return stage(combine, [*side, *side]), moving


# --- select_and_scatter ---------------------------------------------------------------------------


class SelectAndScatter(Primitive):
    """One source element for each window, combined into the place of the element it selects."""

    name = "select_and_scatter"
    ref = decomposed
    holes = {
        "jvp": "its functions are arbitrary; max-pooling has select_and_scatter_add",
        "transpose": "not linear",
    }

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        names = trivial_dims(params)
        return labelled([names, names, ()], [names], avals, outs)

    divided_as = 0

    def shape(self, x: Any, source: Any, init: Any, **params: Any) -> ShapedArray:
        window = [params[k] for k in ("window_dimensions", "window_strides", "padding")]
        expected = counted_windows(self.name, x, *window)
        if source.shape != expected:
            raise TypeError(
                f"{self.name} needs one source element for each window: shape {expected}, got"
                f" {source.shape}"
            )
        return ShapedArray(x.shape, x.dtype, x.weak_type and source.weak_type and init.weak_type)

    def verify(self, avals: Any, params: dict[str, Any]) -> None:
        x, source, init = avals
        one = [x.update(shape=())]
        if not source.dtype == init.dtype == x.dtype or init.shape:
            given = ", ".join(a.str_short() for a in avals)
            raise JaxprTypeError(f"{self.name} takes arrays of one dtype, got {given}")
        select, scatter = params["select_jaxpr"], params["scatter_jaxpr"]
        chosen = [ShapedArray((), np.bool_)]
        check_combination("the selection", select, params["select_consts"], one, chosen)
        check_combination("the scatter", scatter, params["scatter_consts"], one)

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        if params["select_consts"] or params["scatter_consts"]:
            return False
        plain = all(e.primitive.form == "map" for e in params["select_jaxpr"].eqns)
        few = 0 < prod(params["window_dimensions"]) <= MOST
        return 0 in avals[1].shape or (plain and few and avals[0].size <= MOST_PLACES)

    def decompose(self, x: Any, source: Any, init: Any, **params: Any) -> Any:
        names = ("window_dimensions", "window_strides", "padding")
        out = full(np.shape(x), init)
        if 0 in np.shape(source):
            return lookup("copy").bind(out)
        select = closed_of(params["select_jaxpr"], params["select_consts"])
        places = select_places(select, x, *(params[k] for k in names))
        combine = jaxpr_as_fun(closed_of(params["scatter_jaxpr"], params["scatter_consts"]))
        return update_in_turn(out, places, source, lambda old, new: combine(old, new)[0])

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        x, source = [at_front(a, d, axis.size) for a, d in zip(args[:2], dims[:2], strict=True)]
        if dims[2] is not None:
            raise ValueError("select_and_scatter cannot be mapped over its initial value")
        names = ("window_dimensions", "window_strides", "padding")
        wider = insert_axis({k: params[k] for k in names}, 0)
        return self.bind(x, source, args[2], **(params | wider)), 0


def select_places(
    select: ClosedJaxpr, x: Any, window: Shape, strides: Shape, padding: Padding
) -> Any:
    """For every window the flat place of the element that ``select`` keeps; -1 for all padding."""
    shape = np.shape(x)
    ones = (1,) * len(shape)
    params = (window, strides, padding, ones, ones)
    values = stack_windows(x, const(x, 0), *params)
    numbers = reshape(iota(PLACE, (prod(shape),)), shape)
    places = stack_windows(numbers, PLACE.type(-1), *params)
    kept, chosen = [squeeze(rows(v, 0, 1), (0,)) for v in (values, places)]
    nothing = full(np.shape(chosen), PLACE.type(0))
    keeps = over_axes(jaxpr_as_fun(select), np.shape(chosen))
    for i in range(1, prod(window)):
        value, place = [squeeze(rows(v, i, i + 1), (0,)) for v in (values, places)]
        (keep,) = keeps(kept, value)
        keep = and_(ge(chosen, nothing), keep)
        keep = or_(keep, lt(place, nothing))
        kept, chosen = select_n(keep, value, kept), select_n(keep, place, chosen)
    return chosen


reduce_p, reduce_window_p, select_and_scatter_p = Reduce(), ReduceWindow(), SelectAndScatter()
