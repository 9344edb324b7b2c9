"""Collectives: functions that speak to the other members of a named axis.

Axes get their names from ``vmap(..., axis_name=...)`` and from the functions that spread work
over devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np

from weft import dtypes
from weft.core.array import Array, ArrayData
from weft.core.shape_dtype import abstractify
from weft.core.trace import Tracer, state, typeof
from weft.division import varying
from weft.lax.elementwise import add, convert_element_type, div, full_like, lt, mul, select
from weft.lax.reductions import reduce_max, reduce_min, reduce_sum
from weft.lax.shape import (
    broadcast,
    broadcast_in_dim,
    concatenate,
    expand_dims,
    reshape,
    squeeze,
    transpose,
)
from weft.lax.slicing import dynamic_index_in_dim, dynamic_slice_in_dim
from weft.prims.collective import (
    all_gather_p,
    all_to_all_p,
    as_names,
    axes_size,
    axis_index_p,
    named_axes,
    pbroadcast_p,
    pmax_p,
    pmin_p,
    ppermute_p,
    pshared_p,
    psum_p,
    pvary_p,
    reduce_scatter_p,
)
from weft.prims.exchange import precv_p, psend_p, ragged_all_to_all_p
from weft.prims.families import const
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten

T = TypeVar("T")

Groups = Sequence[Sequence[int]] | None


def _canonical_groups(groups: Groups) -> Any:
    return None if groups is None else tuple(tuple(int(i) for i in g) for g in groups)


def _checked_groups(name: str, axes: tuple[Any, ...], groups: Groups) -> Any:
    """Groups that cover every member once, for axes that are all named."""
    if groups is None:
        return None
    if len(named_axes(axes)) != len(axes):
        raise ValueError(f"{name} takes axis_index_groups only with named axes, got axes {axes}")
    members = [i for g in groups for i in g]
    if sorted(members) != list(range(len(members))):
        raise ValueError(
            f"axis_index_groups of {name} must name every member exactly once, got {groups}"
        )
    return _canonical_groups(groups)


@overload
def psum(
    x: np.ndarray | np.generic, axis_name: Any, *, axis_index_groups: Groups = None
) -> Array: ...
@overload
def psum(x: T, axis_name: Any, *, axis_index_groups: Groups = None) -> T: ...
def psum(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """Return the sum over a named axis, the same on each member.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        axis_index_groups: List of lists of positions on the axis: each group communicates among
            itself. By default all members are one group.

    Returns:
        Tree like ``x``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.vmap(lambda x: x / weft.lax.psum(x, "i"), axis_name="i")(jnp.array([1.0, 3.0]))
        Array([0.25, 0.75], dtype=float32)
    """
    axes = as_names(axis_name)
    if not axes:
        return x
    groups = _checked_groups("psum", axes, axis_index_groups)
    leaves, tree = tree_flatten(x)
    leaves = [
        convert_element_type(leaf, np.int32) if typeof(leaf).dtype == np.bool_ else leaf
        for leaf in leaves
    ]
    if groups is not None:
        outs = [_over_groups(leaf, axes, groups, _sum_rows) for leaf in leaves]
    elif any(isinstance(leaf, Tracer) for leaf in leaves):
        outs = [psum_p.bind(leaf, axes=axes, axis_index_groups=groups) for leaf in leaves]
    else:
        size = axes_size(named_axes(axes))
        outs = [_sum_of_equals(leaf, size, axes) for leaf in leaves]
    return tree_unflatten(tree, outs)


def _sum_of_equals(x: Any, size: int, axes: tuple[Any, ...]) -> Any:
    if type(x) in (int, float, complex):
        return type(x)(size) * x
    places = [a % np.ndim(x) for a in axes if isinstance(a, int)]
    return mul(const(x, size), reduce_sum(x, places) if places else x)


@overload
def pmean(x: ArrayData, axis_name: Any, *, axis_index_groups: Groups = None) -> Array: ...
@overload
def pmean(x: T, axis_name: Any, *, axis_index_groups: Groups = None) -> T: ...
def pmean(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """Return the mean over a named axis, the same on each member.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        axis_index_groups: List of lists of positions on the axis: each group communicates among
            itself. By default all members are one group.

    Returns:
        Tree like ``x``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.vmap(lambda x: x - weft.lax.pmean(x, "i"), axis_name="i")(jnp.array([1.0, 3.0]))
        Array([-1.,  1.], dtype=float32)
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = psum(1, axis_name, axis_index_groups=axis_index_groups)
    if axis_index_groups is not None and len({len(g) for g in axis_index_groups}) > 1:
        size = psum(np.int32(1), axis_name, axis_index_groups=axis_index_groups)

    def divide(leaf: Any) -> Any:
        if type(leaf) in (int, float, complex):
            return leaf / size
        aval = typeof(leaf)
        if not dtypes.issubdtype(aval.dtype, np.inexact):
            leaf = convert_element_type(leaf, dtypes.to_inexact_dtype(aval.dtype))
        if type(size) is int:
            return div(leaf, const(leaf, size))
        return div(leaf, broadcast(convert_element_type(size, typeof(leaf).dtype), np.shape(leaf)))

    return tree_map(divide, total)


@overload
def pmax(x: ArrayData, axis_name: Any, *, axis_index_groups: Groups = None) -> Array: ...
@overload
def pmax(x: T, axis_name: Any, *, axis_index_groups: Groups = None) -> T: ...
def pmax(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """Return the largest value over a named axis, the same on each member.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        axis_index_groups: List of lists of positions on the axis: each group communicates among
            itself. By default all members are one group.

    Returns:
        Tree like ``x``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.vmap(lambda x: weft.lax.pmax(x, "i"), axis_name="i")(jnp.array([1, 3]))
        Array([3, 3], dtype=int32)
    """
    axes = as_names(axis_name)
    groups = _checked_groups("pmax", axes, axis_index_groups)
    if groups is not None:
        rows = lambda y: reduce_max(y, (0,))
        return tree_map(lambda leaf: _over_groups(leaf, axes, groups, rows), x)
    return tree_map(lambda leaf: pmax_p.bind(leaf, axes=axes, axis_index_groups=groups), x)


@overload
def pmin(x: ArrayData, axis_name: Any, *, axis_index_groups: Groups = None) -> Array: ...
@overload
def pmin(x: T, axis_name: Any, *, axis_index_groups: Groups = None) -> T: ...
def pmin(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """Return the smallest value over a named axis, the same on each member.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        axis_index_groups: List of lists of positions on the axis: each group communicates among
            itself. By default all members are one group.

    Returns:
        Tree like ``x``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.vmap(lambda x: weft.lax.pmin(x, "i"), axis_name="i")(jnp.array([1, 3]))
        Array([1, 1], dtype=int32)
    """
    axes = as_names(axis_name)
    groups = _checked_groups("pmin", axes, axis_index_groups)
    if groups is not None:
        rows = lambda y: reduce_min(y, (0,))
        return tree_map(lambda leaf: _over_groups(leaf, axes, groups, rows), x)
    return tree_map(lambda leaf: pmin_p.bind(leaf, axes=axes, axis_index_groups=groups), x)


@overload
def pbroadcast(x: ArrayData, axis_name: Any, source: int) -> Array: ...
@overload
def pbroadcast(x: T, axis_name: Any, source: int) -> T: ...
def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Return, on each member of a named axis, the value of one member.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        source: Position on the axis of the member whose value is taken.

    Returns:
        Tree like ``x``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.vmap(lambda x: weft.lax.pbroadcast(x, "i", 1), axis_name="i")(jnp.array([1, 3]))
        Array([3, 3], dtype=int32)
    """
    return tree_map(
        lambda leaf: _checked(pbroadcast_p, leaf, axis_name=axis_name, source=source), x
    )


@overload
def ppermute(x: ArrayData, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Array: ...
@overload
def ppermute(x: T, axis_name: Any, perm: Sequence[tuple[int, int]]) -> T: ...
def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Return values sent from member to member of a named axis; zeros where none arrives.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        perm: Pairs (source, destination) of positions on the axis; each occurs at most once on
            either side.

    Returns:
        Tree like ``x``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> shift = lambda x: weft.lax.ppermute(x, "i", [(0, 1), (1, 2)])
        >>> weft.vmap(shift, axis_name="i")(jnp.array([5, 6, 7]))
        Array([0, 5, 6], dtype=int32)
    """
    pairs = tuple((int(s), int(t)) for s, t in perm)
    names = as_names(axis_name)
    if len(names) > 1:
        return tree_map(lambda leaf: _permuted(leaf, names, pairs), x)
    return tree_map(lambda leaf: _checked(ppermute_p, leaf, axis_name=names, perm=pairs), x)


def _permuted(x: Any, names: tuple[Any, ...], pairs: Any) -> Any:
    """``ppermute`` over several axes at once: every member picks what is sent to it."""
    ppermute_p.shape(typeof(x), axis_name=names, perm=pairs)
    size = axes_size(names)
    rows, sent = np.zeros(size, np.int32), np.zeros(size, np.bool_)
    for source, target in pairs:
        rows[target], sent[target] = source, True
    here = axis_index(names)
    found = _row(all_gather(x, names), _row(rows, here))
    if sent.all():
        return found
    return select(broadcast(_row(sent, here), np.shape(x)), found, full_like(found, 0))


def _row(table: Any, index: Any) -> Any:
    """One row of an array, at a traced position."""
    return dynamic_index_in_dim(table, index, 0, keepdims=False)


def _group_of_each(groups: Any) -> tuple[np.ndarray, np.ndarray]:
    """For every member the members of its group, and its place among them."""
    size = len(groups[0])
    if any(len(g) != size for g in groups):
        raise ValueError(f"axis_index_groups must be of equal sizes, got {groups}")
    count = len({member for group in groups for member in group})
    rows = np.zeros((count, size), np.int32)
    place = np.zeros(count, np.int32)
    for group in groups:
        for at, member in enumerate(dict.fromkeys(group)):
            rows[member], place[member] = group, at
    return rows, place


def _gathered_group(x: Any, names: tuple[Any, ...], groups: Any) -> tuple[Any, Any]:
    """What the members of this member's group have, stacked, and its place among them."""
    rows, place = _group_of_each(groups)
    if len(rows) != axes_size(names):
        raise ValueError(
            f"axis_index_groups {groups} are of {len(rows)} members, the axes {names} have"
            f" {axes_size(names)}"
        )
    here = axis_index(names)
    every = all_gather(x, names)
    members = _row(rows, here)
    taken = [_row(every, squeeze(members[i : i + 1], (0,))) for i in range(rows.shape[1])]
    stacked = concatenate([expand_dims(t, (0,)) for t in taken], 0)
    return stacked, _row(place, here)


def _over_groups(x: Any, axes: tuple[Any, ...], groups: Any, reduce: Any) -> Any:
    if isinstance(x, (int, float, complex)) and not isinstance(x, bool) and reduce is _sum_rows:
        return x * len(groups[0])
    sizes = np.zeros(sum(map(len, groups)), np.int32)
    for group in groups:
        sizes[list(group)] = len(group)
    if (sizes == sizes[0]).all():
        return reduce(_gathered_group(x, axes, groups)[0])
    # groups of different sizes: the smaller ones have their first members more than once
    most = int(sizes.max())
    stacked, _ = _gathered_group(x, axes, [[*g, *[g[0]] * (most - len(g))] for g in groups])
    if reduce is _sum_rows:
        own = broadcast_in_dim(np.arange(most, dtype=np.int32), np.shape(stacked), (0,))
        count = broadcast(_row(sizes, axis_index(axes)), np.shape(stacked))
        stacked = select(lt(own, count), stacked, full_like(stacked, 0))
    return reduce(stacked)


def _sum_rows(x: Any) -> Any:
    return reduce_sum(x, (0,))


def psend(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values to other members of a named axis, for ``precv`` to receive.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        perm: Pairs (source, destination) of positions on the axis.

    Returns:
        Token to give to ``precv``.

    Under ``vmap`` the two halves cannot find each other: use ``ppermute``, which is both.

    Example:
        >>> import weft
        >>> send = lambda x: weft.lax.psend(x, 'i', [(0, 1)])
        >>> weft.make_jaxpr(send, axis_env=[('i', 2)])(1.0).eqns[0].primitive
        psend
    """
    pairs = tuple((int(s), int(t)) for s, t in perm)
    names = as_names(axis_name)
    return tree_map(lambda leaf: _checked(psend_p, leaf, axis_name=names, perm=pairs), x)


def precv(token: Any, out_shape: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Array:
    """Return the values that other members of a named axis sent with ``psend``.

    Args:
        token: What ``psend`` or ``create_token`` returned.
        out_shape: ``ShapeDtypeStruct`` of the value to receive.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        perm: Pairs (source, destination) of positions on the axis, as for ``psend``.

    Returns:
        Array of the type ``out_shape``. Under ``vmap`` use ``ppermute``.

    Example:
        >>> import weft
        >>> like = weft.ShapeDtypeStruct((), 'float32')
        >>> swap = lambda x: weft.lax.precv(weft.lax.psend(x, 'i', [(0, 1)]), like, 'i', [(0, 1)])
        >>> weft.make_jaxpr(swap, axis_env=[('i', 2)])(1.0).out_avals
        [ShapedArray(float32[])]
    """
    pairs = tuple((int(s), int(t)) for s, t in perm)
    aval, names = abstractify(out_shape), as_names(axis_name)
    return _checked(precv_p, token, out_shape=aval, axis_name=names, perm=pairs)


@overload
def pshuffle(x: ArrayData, axis_name: Any, perm: Sequence[int]) -> Array: ...
@overload
def pshuffle(x: T, axis_name: Any, perm: Sequence[int]) -> T: ...
def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Return values moved between members: member k gets the value of member ``perm[k]``.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        perm: Sequence of positions on the axis, a permutation.

    Returns:
        Tree like ``x``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.vmap(lambda x: weft.lax.pshuffle(x, "i", [1, 0]), axis_name="i")(jnp.array([5, 6]))
        Array([6, 5], dtype=int32)
    """
    if sorted(perm) != list(range(len(perm))):
        raise ValueError(f"pshuffle needs a permutation of 0..{len(perm) - 1}, got {list(perm)}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


@overload
def pswapaxes(
    x: ArrayData,
    axis_name: Any,
    axis: int,
    *,
    axis_index_groups: Groups = None,
) -> Array: ...
@overload
def pswapaxes(x: T, axis_name: Any, axis: int, *, axis_index_groups: Groups = None) -> T: ...
def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Groups = None) -> Any:
    """Return values with a named axis exchanged for a positional axis of the same size.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        axis: Positional axis of ``x``, of the size of the named axis.
        axis_index_groups: List of lists of positions on the axis: each group communicates among
            itself. By default all members are one group.

    Returns:
        Tree like ``x``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> x = jnp.array([[1, 2], [3, 4]])
        >>> weft.vmap(lambda row: weft.lax.pswapaxes(row, "i", 0), axis_name="i")(x)
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


@overload
def all_to_all(
    x: ArrayData,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Array: ...
@overload
def all_to_all(
    x: T,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> T: ...
def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    """Return values cut along one axis, exchanged between members and joined along another.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        split_axis: Axis of ``x`` that is cut into one part for each member.
        concat_axis: Axis of the result along which the parts are joined.
        axis_index_groups: List of lists of positions on the axis: each group communicates among
            itself. By default all members are one group.
        tiled: If true, axes keep their place and are cut and concatenated; else ``split_axis``, of
            the size of the named axis, is removed and a new axis is made.

    Returns:
        Tree like ``x``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> x = jnp.array([[1, 2], [3, 4]])
        >>> f = lambda row: weft.lax.all_to_all(row, "i", 0, 0, tiled=True)
        >>> weft.vmap(f, axis_name="i")(x)
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    groups = _canonical_groups(axis_index_groups)

    def one(leaf: Any) -> Any:
        size = axes_size(as_names(axis_name)) if groups is None else len(groups[0])
        if groups is not None:
            return _exchanged_in_groups(leaf, as_names(axis_name), split_axis, concat_axis, groups)
        return _all_to_all(leaf, axis_name, split_axis, concat_axis, groups, tiled, size)

    return tree_map(one, x)


def _all_to_all(
    x: Any, axis_name: Any, split: int, concat: int, groups: Any, tiled: bool, size: int
) -> Any:
    n = np.shape(x)[split]
    if n % size if tiled else n != size:
        must = "be divisible by" if tiled else "equal"
        raise ValueError(
            f"all_to_all splits axis {split} of shape {np.shape(x)} over the {size} members of"
            f" {axis_name!r}: its size {n} must {must} {size}"
        )
    if not tiled and split != concat:
        # concat counts positions in the result, where the split axis is gone and a new one made
        concat += split < concat
        x = expand_dims(x, (concat,))
        split += concat <= split
    out = all_to_all_p.bind(
        x,
        axis_name=axis_name,
        split_axis=split,
        concat_axis=concat,
        axis_index_groups=groups,
        tiled=tiled,
    )
    return out if tiled or split == concat else squeeze(out, (split,))


def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Groups = None,
) -> Array:
    """Return ``output`` with rows written to it that all members sent, in slices of varying size.

    Args:
        operand: Array whose rows are sent.
        output: Array that receives rows; rows that nothing is written to stay.
        input_offsets: Vector: the first row of each slice of ``operand``.
        send_sizes: Vector: the number of rows of each slice.
        output_offsets: Vector: the row of the receiver's output at which each slice is written.
        recv_sizes: Vector: the number of rows that arrive in each slice.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        axis_index_groups: List of lists of positions on the axis: each group communicates among
            itself. By default all members are one group. ``vmap`` supports no groups here.

    Returns:
        Array with the shape and dtype of ``output``.

    Slice ``i`` of the operand begins at ``input_offsets[i]`` and has ``send_sizes[i]`` rows. With
    ``n`` slices and ``size`` members, it goes to member ``i // (n // size)``, which writes it at
    ``output_offsets[i]`` of its output. ``recv_sizes[i]`` is the number of rows that come from
    member ``i // (n // size)``.

    Inside of ``vmap``, slices of the operand must not overlap if you differentiate in reverse mode.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> rows = jnp.array([[1, 2, 2], [3, 4, 0]])  # member 0 sends 1 row and 2, member 1 1 and 1
        >>> begin, sizes = jnp.array([[0, 1], [0, 1]]), jnp.array([[1, 2], [1, 1]])
        >>> write = jnp.array([[0, 0], [1, 2]])
        >>> def exchange(rows, begin, sizes, write, arriving):
        ...     blank = jnp.zeros(4, int)
        ...     return weft.lax.ragged_all_to_all(
        ...         rows, blank, begin, sizes, write, arriving, axis_name="i"
        ...     )
        >>> weft.vmap(exchange, axis_name="i")(rows, begin, sizes, write, sizes.T)
        Array([[1, 3, 0, 0],
               [2, 2, 4, 0]], dtype=int32)
    """
    places = (input_offsets, send_sizes, output_offsets, recv_sizes)
    params = {"axis_name": as_names(axis_name), "axis_index_groups": None}
    params["axis_index_groups"] = _canonical_groups(axis_index_groups)
    ragged_all_to_all_p.shape(*map(typeof, (operand, output, *places)), **params)
    return ragged_all_to_all_p.bind(operand, output, *places, **params)


@overload
def all_gather(
    x: ArrayData,
    axis_name: Any,
    *,
    axis_index_groups: Groups = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Array: ...
@overload
def all_gather(
    x: T,
    axis_name: Any,
    *,
    axis_index_groups: Groups = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> T: ...
def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Groups = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """Return the values of all members of a named axis, stacked or joined, on each member.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        axis_index_groups: List of lists of positions on the axis: each group communicates among
            itself. By default all members are one group.
        axis: Position of the new axis, or with ``tiled`` the axis to join along.
        tiled: If true, join along an existing axis instead of stacking along a new one.
        to: How the result varies over the mesh axis for ``shard_map``: "varying", "invarying" or
            "reduced".

    Returns:
        Tree like ``x`` with larger arrays.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.vmap(lambda x: weft.lax.all_gather(x, "i"), axis_name="i")(jnp.array([5, 6]))
        Array([[5, 6],
               [5, 6]], dtype=int32)
    """
    if to not in ("varying", "reduced", "invarying"):
        raise ValueError(f"all_gather takes to='varying', 'reduced' or 'invarying', got {to!r}")
    names = as_names(axis_name)
    if not names:
        return x
    groups = _canonical_groups(axis_index_groups)
    size = axes_size(names) if groups is None else len(groups[0])

    def one(leaf: Any) -> Any:
        rank = np.ndim(leaf) + (not tiled)
        at = _position(axis, rank)
        if groups is not None:
            found, _ = _gathered_group(leaf, names, groups)
            return _placed_rows(found, at, tiled)
        out = all_gather_p.bind(
            leaf,
            all_gather_dimension=at,
            axis_name=names,
            axis_index_groups=None,
            axis_size=size,
            tiled=tiled,
        )
        if to == "reduced" and state.manual.issuperset(names):
            return varying.cast(out, names, "varying", "reduced")
        return pshared_p.bind(out, axes=names, size=size) if to == "invarying" else out

    return tree_map(one, x)


@overload
def psum_scatter(
    x: ArrayData,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Array: ...
@overload
def psum_scatter(
    x: T,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> T: ...
def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    """Return each member's part of the sum over a named axis.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        scatter_dimension: Axis of ``x`` that is cut into one part for each member.
        axis_index_groups: List of lists of positions on the axis: each group communicates among
            itself. By default all members are one group.
        tiled: If true, the axis stays, smaller; else it has the size of the named axis and is
            removed.

    Returns:
        Tree like ``x`` with smaller arrays.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> x = jnp.array([[1, 2], [3, 4]])
        >>> weft.vmap(lambda row: weft.lax.psum_scatter(row, "i"), axis_name="i")(x)
        Array([4, 6], dtype=int32)
    """
    names = as_names(axis_name)
    groups = _canonical_groups(axis_index_groups)
    size = axes_size(names) if groups is None else len(groups[0])

    def one(leaf: Any) -> Any:
        if groups is not None:
            return _scattered_in_groups(leaf, names, scatter_dimension, groups, tiled)
        parts = typeof(leaf).mat.unreduced & frozenset(names)
        if parts:
            leaf = varying.cast(leaf, parts, "unreduced", "varying")
        return _checked(
            reduce_scatter_p,
            leaf,
            axis_name=names,
            scatter_dimension=_position(scatter_dimension, np.ndim(leaf)),
            axis_index_groups=None,
            axis_size=size,
            tiled=tiled,
        )

    return tree_map(one, x)


def _placed_rows(stacked: Any, at: int, tiled: bool) -> Any:
    """Rows along an axis instead of in front, as one axis with the next if ``tiled``."""
    rank = np.ndim(stacked)
    order = [*range(1, at + 1), 0, *range(at + 1, rank)]
    moved = transpose(stacked, order)
    if not tiled:
        return moved
    shape = np.shape(moved)
    return reshape(moved, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))


def _scattered_in_groups(x: Any, names: Any, dim: int, groups: Any, tiled: bool) -> Any:
    stacked, place = _gathered_group(x, names, groups)
    total, size = reduce_sum(stacked, (0,)), len(groups[0])
    dim = _position(dim, np.ndim(x))
    n = np.shape(x)[dim]
    if n % size if tiled else n != size:
        raise ValueError(
            f"psum_scatter cannot split dimension {dim} of {np.shape(x)} into {size} parts"
        )
    if not tiled:
        return dynamic_index_in_dim(total, place, dim, keepdims=False)
    return dynamic_slice_in_dim(total, mul(place, np.int32(n // size)), n // size, dim)


def _exchanged_in_groups(x: Any, names: Any, split: int, concat: int, groups: Any) -> Any:
    """``all_to_all`` in groups, tiled: every member takes its part of what the others have."""
    stacked, place = _gathered_group(x, names, groups)
    size, n = len(groups[0]), np.shape(x)[split]
    part = dynamic_slice_in_dim(stacked, mul(place, np.int32(n // size)), n // size, split + 1)
    rows = [squeeze(part[i : i + 1], (0,)) for i in range(size)]
    return concatenate(rows, concat)


def axis_index(axis_name: Any) -> Array:
    """Return the position of this member on a named axis; row-major over several.

    Args:
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.

    Returns:
        int32 scalar.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.vmap(lambda x: weft.lax.axis_index("i") * x, axis_name="i")(jnp.array([5, 6]))
        Array([0, 6], dtype=int32)
    """
    if not isinstance(axis_name, (tuple, list)):
        return axis_index_p.bind(axis_name=axis_name)
    index: Any = np.int32(0)
    inner = 1
    for name in reversed(axis_name):
        index = add(index, mul(axis_index(name), np.int32(inner)))
        inner *= axis_size(name)
    return index


def axis_size(axis_name: Any) -> int:
    """Return the number of members of a named axis, or of several together.

    Args:
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.

    Returns:
        Python integer.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.vmap(lambda x: x * weft.lax.axis_size("i"), axis_name="i")(jnp.array([5, 6]))
        Array([10, 12], dtype=int32)
    """
    return axes_size(as_names(axis_name))


_CASTS = ("varying", "reduced", "unreduced")


@overload
def pcast(x: ArrayData, axis_name: Any, *, to: str) -> Array: ...
@overload
def pcast(x: T, axis_name: Any, *, to: str) -> T: ...
def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Return ``x`` marked as varying, or not, over axes of the mesh; only under ``shard_map``.

    Args:
        x: Array or tree of arrays.
        axis_name: Name of a mapped axis (of ``vmap``, ``pmap`` or ``shard_map``), or a tuple of
            names.
        to: "varying", "reduced" or "unreduced", as far as the present state allows it.

    Returns:
        Tree like ``x``, with the same values.

    Example:
        >>> pcast(1.0, (), to="varying")
        1.0
    """
    if isinstance(axis_name, (set, frozenset)):
        raise TypeError(f"pcast takes an axis name or a tuple of them, got {axis_name}")
    if not axis_name:
        return x
    if to not in _CASTS:
        raise ValueError(f"pcast takes to= one of {', '.join(_CASTS)}, got {to!r}")
    names = as_names(axis_name)
    bound = {name for name, _ in state.axis_env}
    mapped = any(type(size) is frozenset for _, size in state.axis_env)
    if not mapped or not bound.issuperset(names):
        raise ValueError(
            f"pcast to {to!r} over {axis_name!r} should be called under shard_map; no mesh axis of"
            " that name is bound here"
        )
    return tree_map(lambda leaf: _cast(leaf, names, to), x)


# What a value may be cast to, from what it is over axes.
_ALLOWED = {
    "invarying": ("varying", "reduced"),
    "varying": ("unreduced",),
    "reduced": ("varying",),
}


def _cast(x: Any, names: tuple[Any, ...], to: str) -> Any:
    if not state.manual:  # types say nothing of axes here
        return x
    mat, text = typeof(x).mat, typeof(x).str_short()
    kinds = sorted({_kind(mat, name) for name in names})
    if len(kinds) > 1:
        raise ValueError(
            f"pcast over {names} got {text}, which is {' and '.join(kinds)} over these axes; cast"
            " axis by axis"
        )
    source = kinds[0]
    if to not in _ALLOWED.get(source, ()):
        already = f"varies over {list(names)} already" if source == to == "varying" else ""
        raise ValueError(
            f"pcast to {to!r} over {names} got a value that"
            f" {already or f'is {source} over them'}: {text}; an invarying value can become varying"
            " or reduced, a varying one unreduced, a reduced one varying; sum with psum"
        )
    if to == "varying" and source == "invarying":
        return pvary_p.bind(x, axes=names)
    return varying.cast(x, names, source, to)


def _kind(mat: Any, name: Any) -> str:
    """What a value is over an axis."""
    for kind in ("varying", "unreduced", "reduced"):
        if name in getattr(mat, kind):
            return kind
    return "invarying"


def pvary(x: Any, axis_name: Any) -> Any:
    """``x``, which all members of mesh axes share, as a value that each of them has.

    >>> pvary(1.0, ())
    1.0
    """
    names = as_names(axis_name)
    for name in names:
        axes_size((name,))

    def one(leaf: Any) -> Any:
        left = tuple([n for n in names if n in state.manual and n not in typeof(leaf).mat.varying])
        return pvary_p.bind(leaf, axes=left) if left else leaf

    return tree_map(one, x)


def _checked(primitive: Any, x: Any, **params: Any) -> Any:
    """Bind a primitive, checked first: batching turns it into something else."""
    primitive.shape(typeof(x), **params)
    return primitive.bind(x, **params)


def _position(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of bounds for an array of rank {rank}")
    return axis % rank
