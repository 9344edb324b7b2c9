"""Dimension numbers, out-of-bounds modes and result shapes of the slicing, gather and scatter
family. Plain data and checks: no arrays, no tracing."""

import enum
import functools
import itertools
import operator
from collections.abc import Sequence

from weft.base.record import Record
from weft.core.dims.dim import divided_up

Shape = tuple[int, ...]


class GatherDimensionNumbers(Record):
    """How the axes of operand, indices and result of a gather correspond.

    Args:
        offset_dims: Axes of the result that hold a window, ascending.
        collapsed_slice_dims: Axes of the operand with window size 1 that the result lacks.
        start_index_map: For each entry of an index vector, the axis of the operand it is a position
            on.
        operand_batching_dims: Axes of the operand, with window size 1, that run together with axes
            of the indices.
        start_indices_batching_dims: The axes of the indices that they run together with.

    The last axis of the indices holds the index vector; entry ``k`` of that vector is a
    position along operand axis ``start_index_map[k]``. Each index vector selects a window
    of the operand. Window axes named in ``collapsed_slice_dims`` (size 1) and in
    ``operand_batching_dims`` are left out of the result; the others appear, in order, at the
    result axes ``offset_dims``. All further result axes come from the indices, in order.
    ``operand_batching_dims[k]`` runs together with ``start_indices_batching_dims[k]``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
        >>> lax.gather(jnp.eye(3), jnp.array([[2], [0]]), rows, (1, 3))
        Array([[0., 0., 1.],
               [1., 0., 0.]], dtype=float32)
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(Record):
    """How the axes of operand, indices and updates of a scatter correspond.

    Args:
        update_window_dims: Axes of the updates that hold a window, ascending.
        inserted_window_dims: Axes of the operand with window size 1 that the updates lack.
        scatter_dims_to_operand_dims: For each entry of an index vector, the axis of the operand it
            is a position on.
        operand_batching_dims: Axes of the operand that run together with axes of the indices.
        scatter_indices_batching_dims: The axes of the indices that they run together with.

    The mirror image of ``GatherDimensionNumbers``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> single = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter(jnp.zeros(3), jnp.array([[1]]), jnp.array([5.0]), single)
        Array([0., 5., 0.], dtype=float32)
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(enum.Enum):
    """What a gather or scatter does with a window that is not wholly inside the operand.

    ``CLIP`` moves the window inside. ``FILL_OR_DROP`` gathers a fill value, or drops the
    update, for the whole window. ``PROMISE_IN_BOUNDS`` is the caller's word that it does not
    happen (if it does: gathers clip and scatters drop). ``ONE_HOT`` asks indexing to use a
    product with a one-hot matrix; it is not a mode of the primitives.

    Example:
        >>> from weft import lax
        >>> lax.GatherScatterMode.from_any("clip").name
        'CLIP'
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()
    # As FILL_OR_DROP, which the program has asked for: checks of indices leave it alone.
    FILL_OR_DROP_ASKED = enum.auto()

    def __str__(self) -> str:
        return f"GatherScatterMode.{self.name.removesuffix('_ASKED')}"

    @property
    def drops(self) -> bool:
        """Whether windows out of bounds are filled or dropped."""
        return self in (GatherScatterMode.FILL_OR_DROP, GatherScatterMode.FILL_OR_DROP_ASKED)

    @staticmethod
    def asked(s: "str | GatherScatterMode | None") -> "str | GatherScatterMode | None":
        """A mode that is an argument of a public function; None if it isn't given.

        >>> GatherScatterMode.asked("drop").drops, GatherScatterMode.asked(None)
        (True, None)
        """
        if s is None:
            return None
        mode = GatherScatterMode.from_any(s)
        return GatherScatterMode.FILL_OR_DROP_ASKED if mode.drops else mode

    @staticmethod
    def from_any(s: "str | GatherScatterMode | None") -> "GatherScatterMode":
        """The mode named by a string, a mode, or None (fill or drop).

        >>> GatherScatterMode.from_any("clip")
        <GatherScatterMode.CLIP: 1>
        """
        if isinstance(s, GatherScatterMode):
            return s
        try:
            return _MODE_NAMES[s]
        except (KeyError, TypeError):
            names = ", ".join(repr(name) for name in _MODE_NAMES if name)
            raise ValueError(f"Unknown gather mode {s!r}: it is one of {names}") from None


_MODE_NAMES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


def scatter_numbers(dims: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """The dimension numbers of the scatter that writes where this gather reads."""
    return ScatterDimensionNumbers(*dims)


def gather_numbers(dims: ScatterDimensionNumbers) -> GatherDimensionNumbers:
    """The dimension numbers of the gather that reads where this scatter writes."""
    return GatherDimensionNumbers(*dims)


def window_sizes(ndim: int, updates: Shape, dims: ScatterDimensionNumbers) -> Shape:
    """The extent of a scatter's window along each of the ``ndim`` operand axes."""
    absent = set(dims.inserted_window_dims) | set(dims.operand_batching_dims)
    extents = iter([updates[d] for d in dims.update_window_dims])
    return tuple(1 if d in absent else next(extents) for d in range(ndim))


def slice_shape(shape: Shape, starts: Shape, limits: Shape, strides: Shape | None = None) -> Shape:
    """The shape of ``slice``; raises where the bounds do not fit the operand."""
    given = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    for name, values in given.items():
        if values is not None and len(values) != len(shape):
            raise ValueError(
                f"slice needs one entry of {name} for each axis of the operand, "
                f"got {values} for an operand of shape {shape}"
            )
    for size, start, limit in zip(shape, starts, limits):
        if not 0 <= start <= limit <= size:
            raise TypeError(
                "slice needs 0 <= start_indices <= limit_indices <= the operand's shape, "
                f"got start_indices {starts}, limit_indices {limits} and shape {shape}"
            )
    if strides is None:
        return tuple(map(operator.sub, limits, starts))
    if any(stride <= 0 for stride in strides):
        raise TypeError(f"slice strides must be positive, got {strides}")
    return tuple(
        divided_up(limit - start, stride) for start, limit, stride in zip(starts, limits, strides)
    )


def dynamic_slice_shape(shape: Shape, index_shapes: Sequence[Shape], sizes: Shape) -> Shape:
    """The shape of ``dynamic_slice``; raises TypeError where the sizes do not fit."""
    _check_scalar_indices("dynamic_slice", shape, index_shapes)
    if len(sizes) != len(shape):
        raise TypeError(
            "dynamic_slice needs one slice size for each axis of the operand, "
            f"got slice_sizes {sizes} for an operand of shape {shape}"
        )
    for size, extent in zip(sizes, shape):
        if not 0 <= size <= extent:
            raise TypeError(
                "dynamic_slice needs slice_sizes between 0 and the operand's shape, "
                f"got slice_sizes {sizes} for an operand of shape {shape}"
            )
    return sizes


def dynamic_update_slice_shape(shape: Shape, update: Shape, index_shapes: Sequence[Shape]) -> Shape:
    """The shape of ``dynamic_update_slice``; raises TypeError where the update does not fit."""
    if len(shape) != len(update):
        raise TypeError(
            "dynamic_update_slice needs an update with as many axes as the operand, "
            f"got an update of shape {update} for an operand of shape {shape}"
        )
    _check_scalar_indices("dynamic_update_slice", shape, index_shapes)
    if any(size > extent for size, extent in zip(update, shape)):
        raise TypeError(
            "dynamic_update_slice needs an update no larger than the operand, "
            f"got an update of shape {update} for an operand of shape {shape}"
        )
    return shape


def _check_scalar_indices(name: str, shape: Shape, index_shapes: Sequence[Shape]) -> None:
    if len(index_shapes) != len(shape):
        raise TypeError(
            f"{name} needs one start index for each axis of the operand, "
            f"got {len(index_shapes)} for an operand of shape {shape}"
        )
    if any(index_shape != () for index_shape in index_shapes):
        raise TypeError(
            f"{name} needs scalar start indices, got indices of shapes {tuple(index_shapes)}"
        )


@functools.lru_cache(maxsize=4096)
def gather_shape(
    operand: Shape, indices: Shape, dims: GatherDimensionNumbers, sizes: Shape
) -> Shape:
    """The shape of ``gather``; raises TypeError where the dimension numbers do not fit."""
    if not indices:
        raise TypeError(
            "gather needs indices with at least one axis (the last one holds the index "
            "vector), got a scalar: add an axis with indices[None]"
        )
    ndim = len(operand)
    out_ndim = len(dims.offset_dims) + len(indices) - 1
    _check_sorted_dims("gather", "offset_dims", dims.offset_dims, out_ndim)
    _check_index_map("gather", "start_index_map", dims.start_index_map, ndim, indices)
    _check_sorted_dims("gather", "collapsed_slice_dims", dims.collapsed_slice_dims, ndim)
    _check_batching("gather", "start_indices_batching_dims", operand, indices, dims)
    if len(sizes) != ndim:
        raise TypeError(
            "gather needs one slice size for each axis of the operand, "
            f"got slice_sizes {sizes} for an operand of shape {operand}"
        )
    absent = dims.collapsed_slice_dims + dims.operand_batching_dims
    if ndim != len(dims.offset_dims) + len(absent):
        raise TypeError(
            "every operand axis of a gather must be an offset dimension, collapsed or batched: "
            f"an operand of shape {operand} has {ndim} axes, got {dims}"
        )
    if 0 not in indices[:-1]:
        for axis, (size, extent) in enumerate(zip(sizes, operand)):
            if not 0 <= size <= extent:
                raise TypeError(
                    f"gather got slice size {size} for operand axis {axis} of size {extent}: "
                    f"slice_sizes {sizes}, operand of shape {operand}"
                )
    for axis in dims.collapsed_slice_dims:
        if sizes[axis] != 1:
            raise TypeError(
                f"gather can only collapse axes of slice size 1, but axis {axis} has "
                f"slice size {sizes[axis]}"
            )
    for axis in dims.operand_batching_dims:
        if sizes[axis] > 1:
            raise TypeError(
                "gather needs slice size 0 or 1 along operand batching dimensions, but axis "
                f"{axis} has slice size {sizes[axis]}"
            )
    batch = iter(indices[:-1])
    window = iter([size for axis, size in enumerate(sizes) if axis not in absent])
    return tuple(next(window if axis in dims.offset_dims else batch) for axis in range(out_ndim))


@functools.lru_cache(maxsize=4096)
def scatter_shape(
    operand: Shape, indices: Shape, updates: Shape, dims: ScatterDimensionNumbers
) -> Shape:
    """The shape of a scatter; raises TypeError where the dimension numbers do not fit."""
    if not indices:
        raise TypeError(
            "scatter needs indices with at least one axis (the last one holds the index "
            "vector), got a scalar: add an axis with indices[None]"
        )
    ndim = len(operand)
    if len(updates) != len(indices) - 1 + len(dims.update_window_dims):
        raise TypeError(
            f"scatter needs updates with {len(indices) - 1 + len(dims.update_window_dims)} axes "
            f"for indices of shape {indices} and update_window_dims {dims.update_window_dims}, "
            f"got updates of shape {updates}"
        )
    _check_sorted_dims("scatter", "update_window_dims", dims.update_window_dims, len(updates))
    _check_sorted_dims("scatter", "inserted_window_dims", dims.inserted_window_dims, ndim)
    _check_batching(
        "scatter", "scatter_indices_batching_dims", operand, indices, gather_numbers(dims)
    )
    absent = tuple(dims.inserted_window_dims) + tuple(dims.operand_batching_dims)
    if ndim != len(dims.update_window_dims) + len(absent):
        raise TypeError(
            "every operand axis of a scatter must be a window dimension, inserted or batched: "
            f"an operand of shape {operand} has {ndim} axes, got {dims}"
        )
    name = "scatter_dims_to_operand_dims"
    _check_index_map("scatter", name, dims.scatter_dims_to_operand_dims, ndim, indices)
    kept = [extent for axis, extent in enumerate(operand) if axis not in absent]
    for axis, extent in zip(dims.update_window_dims, kept):
        if updates[axis] > extent:
            raise TypeError(
                f"scatter got a window larger than the operand: axis {axis} of the updates, of "
                f"shape {updates}, has size {updates[axis]}, the operand axis has size {extent}"
            )
    batch = tuple(n for axis, n in enumerate(updates) if axis not in dims.update_window_dims)
    if batch != indices[:-1]:
        raise TypeError(
            "the axes of a scatter's updates that are not window dimensions must match the "
            f"indices without their last axis: got {batch} of updates {updates}, and "
            f"{indices[:-1]} of indices {indices}"
        )
    return operand


def _check_sorted_dims(op: str, name: str, dims: Shape, rank: int) -> None:
    if any(a >= b for a, b in itertools.pairwise(dims)):
        raise TypeError(f"{name} of {op} must be sorted and must not repeat, got {dims}")
    if dims and not (dims[0] >= 0 and dims[-1] < rank):
        raise TypeError(f"{name} of {op} must be at least 0 and less than {rank}, got {dims}")


def _check_index_map(op: str, name: str, dims: Shape, rank: int, indices: Shape) -> None:
    if len(dims) != indices[-1]:
        raise TypeError(
            f"{name} of {op} needs one entry for each component of an index vector: got {dims} "
            f"for indices of shape {indices}, whose last axis has size {indices[-1]}"
        )
    _check_distinct_dims(op, name, dims, rank)


def _check_distinct_dims(op: str, name: str, dims: Shape, rank: int) -> None:
    if len(set(dims)) != len(dims):
        raise TypeError(f"{name} of {op} must not repeat, got {dims}")
    if any(not 0 <= d < rank for d in dims):
        raise TypeError(f"{name} of {op} must be at least 0 and less than {rank}, got {dims}")


def _check_batching(
    op: str, name: str, operand: Shape, indices: Shape, dims: GatherDimensionNumbers
) -> None:
    batching, others = dims.operand_batching_dims, dims.start_indices_batching_dims
    if not batching and not others:
        return
    _check_sorted_dims(op, "operand_batching_dims", batching, len(operand))
    if set(batching) & {*dims.collapsed_slice_dims, *dims.start_index_map}:
        raise TypeError(
            f"operand_batching_dims of {op} must be neither collapsed nor indexed, got {dims}"
        )
    _check_distinct_dims(op, name, others, len(indices))
    if len(indices) - 1 in others:
        raise TypeError(
            f"{name} of {op} must not name the last axis of the indices, which holds the index "
            f"vector: got {others} for indices of shape {indices}"
        )
    ours, theirs = tuple(operand[d] for d in batching), tuple(indices[d] for d in others)
    if ours != theirs:
        raise TypeError(
            f"the batching dimensions of {op} must have equal sizes, got {ours} (operand, axes "
            f"{batching}) and {theirs} (indices, axes {others})"
        )
