"""The public face of batching: vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from weft.api import vmappable
from weft.api.arguments import (
    argument_names,
    check_array_leaves,
    check_callable,
    check_references,
    check_results,
    second_call,
)
from weft.base.functional import wraps
from weft.base.traceback import api_boundary
from weft.core import sharding as meshes
from weft.core.array import Array
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, match_axis
from weft.core.debug_info import DebugInfo
from weft.core.high import flatten
from weft.core.registry import lookup
from weft.core.sharding import NamedSharding, PartitionSpec
from weft.core.trace import typeof
from weft.transforms.vmap import batch
from weft.tree.compare import flatten_axes
from weft.tree.functions import tree_flatten, tree_leaves, tree_unflatten

P = ParamSpec("P")
R = TypeVar("R")


def vmap(
    fun: Callable[P, R],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Callable[P, R]:
    """Return a function that maps ``fun`` over an axis of its arguments in one batched computation.

    Args:
        fun: Function of arrays or trees of arrays; it is written for one element.
        in_axes: Axis of each argument to map over: an integer for all, or a tuple with an integer,
            None (not mapped) or a tree of them for each argument. Arguments given by keyword are
            mapped over axis 0.
        out_axes: Where the mapped axis is in each result; None for results that don't depend on it.
        axis_name: Name of the axis, for collectives such as ``lax.psum``.
        axis_size: Size of the mapped axis; needed only if no argument is mapped.
        spmd_axis_name: Mesh axis over which the mapped axis is divided, for sharding constraints
            inside of ``fun``.
        sum_match: If true, results with ``out_axes=None`` that do depend on the axis are summed
            over it.

    Returns:
        Function with the arguments of ``fun``, each with one more axis where it is mapped.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.vmap(jnp.dot)(jnp.ones((3, 4)), jnp.ones((3, 4)))
        Array([4., 4., 4.], dtype=float32)
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    plain = in_axes is None or isinstance(in_axes, tuple) or _is_int(in_axes)
    if not (plain or vmappable.is_spec(in_axes)):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple with an entry for each positional"
            f" argument, got {second_call('vmap', in_axes)}"
        )
    for kind, spec in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not all(_is_int(x) or vmappable.is_spec(x) for x in tree_leaves(spec)):
            raise TypeError(
                f"vmap {kind} must hold integers and None (or containers of them), got {spec!r}"
            )

    @wraps(fun, "Over an axis of its arguments, the function")
    @api_boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"vmap in_axes has {len(in_axes)} entries but the call has {len(args)} positional"
                " arguments; give one entry for each"
            )
        leaves, in_tree = tree_flatten((args, kwargs), vmappable.leaf_test())
        names = functools.partial(argument_names, fun, args, kwargs)
        dims = flatten_axes("vmap in_axes", in_tree, (in_axes, 0), tupled_args=True)
        own = {i: (x, dims[i]) for i, x in enumerate(leaves) if type(x) in vmappable.kinds}
        for i in own:  # made of arrays when these are being mapped
            leaves[i], dims[i] = None, None
        # what is not mapped need not be an array: it is passed on as it is
        given = lambda: (args, kwargs)
        check_array_leaves(leaves, fun, names, "vmap", given, [d is not None for d in dims])
        dims = [
            _normalize(i, x, d, names) for i, (x, d) in enumerate(zip(leaves, dims, strict=True))
        ]
        check_references(leaves, (), fun, "vmap", names)
        size = _mapped_size(leaves, dims, axis_size, names)
        over = None
        if meshes.explicit_ones:
            over = _check_divided(leaves, dims, names, spmd_axis_name)
        axis = AxisData(axis_name, size, spmd_axis_name)
        trees: list[Any] = []

        made: dict[int, Any] = {}

        def flat(*xs: Any) -> list[Any]:
            if own:
                elements = {i: vmappable.element_of(*each) for i, each in own.items()}
                xs = tuple([elements.get(i, x) for i, x in enumerate(xs)])
            given, keywords = tree_unflatten(in_tree, xs)
            result = fun(*given, **keywords)
            if vmappable.kinds:
                outs, tree = tree_flatten(result, vmappable.leaf_test())
            else:
                outs, tree = flatten(result, results=True)
            trees.append(tree)
            if vmappable.kinds:
                specs = flatten_axes("vmap out_axes", tree, out_axes)
                for i, x in enumerate(outs):
                    if type(x) in vmappable.kinds:
                        made[i] = vmappable.value_of(size, x, specs[i])
                        outs[i] = 0
            check_results(outs, fun, "vmap")
            return outs

        outs, out_dims = batch(flat, axis, leaves, dims, DebugInfo("vmap", fun, names))
        wanted = flatten_axes("vmap out_axes", trees[0], out_axes)
        return tree_unflatten(
            trees[0],
            [
                made[i] if i in made else _place(size, x, d, w, sum_match, over)
                for i, (x, d, w) in enumerate(zip(outs, out_dims, wanted, strict=True))
            ],
        )

    return mapped


def _is_int(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _normalize(i: int, x: Any, dim: int | None, names: Any) -> int | None:
    if dim is None:
        return None
    shape = typeof(x).shape
    if not -len(shape) <= dim < len(shape):
        raise ValueError(
            f"vmap was asked to map axis {dim} of the argument {names()[i]} of shape {shape}, which"
            f" has only {len(shape)} axes; in_axes=None leaves an argument unmapped"
        )
    return int(dim) % len(shape)


def _check_divided(leaves: Any, dims: Any, names: Any, spmd: Any) -> Any:
    """How types say that mapped axes are divided: a mesh and its axes, or None; ValueError where
    they are in different ways."""
    found: dict[Any, int] = {}
    for i, (x, d) in enumerate(zip(leaves, dims, strict=True)):
        aval = None if d is None else typeof(x)
        if type(aval) is ShapedArray:
            found.setdefault(None if aval.divided is None else aval.divided.spec[d], i)
    over = next((axes for axes in found if axes is not None), None)
    if spmd is not None and over is not None and over != spmd:
        raise ValueError(
            f"vmap got spmd_axis_name={spmd!r}, and the mapped axes of its arguments are sharded "
            f"over {over!r}; leave spmd_axis_name out"
        )
    if len(found) > 1:
        labels = names()
        given = [f"{labels[i]} of type {typeof(leaves[i]).str_short()}" for i in found.values()]
        raise ValueError(
            f"vmap got arguments whose mapped axes are sharded over devices in different ways:"
            f" {' and '.join(given)}; move one of them first with weft.reshard"
        )
    return None if over is None else (typeof(leaves[found[over]]).divided.mesh, over)


def _mapped_size(leaves: Any, dims: Any, given: int | None, names: Any) -> int:
    sizes = {
        i: typeof(x).shape[d]
        for i, (x, d) in enumerate(zip(leaves, dims, strict=True))
        if d is not None
    }
    if not sizes:
        if given is None:
            raise ValueError(
                "vmap needs at least one argument to map over: an entry of in_axes that is not"
                " None, or axis_size"
            )
        return given
    distinct = set(sizes.values()) | ({given} if given is not None else set())
    if len(distinct) > 1:
        labels = names()
        lines = [
            f"\n  axis {dims[i]} of argument {labels[i]} of type"
            f" {typeof(leaves[i]).str_short()} has size {n}"
            for i, n in sizes.items()
        ]
        if given is not None:
            lines.append(f"\n  axis_size is {given}")
        lines.append("\nMake the sizes equal, or leave an argument unmapped by in_axes=None.")
        raise ValueError(
            "vmap got inconsistent sizes for array axes to be mapped:" + "".join(lines)
        )
    return distinct.pop()


def _place(
    size: int, x: Any, dim: int | None, wanted: int | None, sum_match: bool, over: Any
) -> Any:
    """A result with its mapped axis where ``out_axes`` wants it; one that is not mapped is divided
    along it as the arguments are, ``over`` axes of a mesh."""
    if wanted is None:
        if dim is not None and sum_match:
            return lookup("reduce_sum").bind(x, axes=(dim,), out_sharding=None)
        if dim is not None:
            raise ValueError(
                "vmap out_axes is None for a result that depends on the mapped axis; give an axis"
            )
        return x
    ndim = typeof(x).ndim + (dim is None)
    if not -ndim <= wanted < ndim:
        raise ValueError(
            f"vmap out_axes is {wanted} for a result that has {ndim} axes with the mapped one"
        )
    found = match_axis(size, dim, int(wanted) % ndim, x)
    if dim is not None or over is None or type(typeof(x)) is not ShapedArray:
        return found
    if not isinstance(x, Array):  # a number of Python's is the same for all
        return found
    mesh, axes = over
    own = typeof(x).divided
    parts = [None] * (ndim - 1) if own is None else list(own.spec)
    parts.insert(int(wanted) % ndim, axes)
    return lookup("reshard").bind(found, dst_sharding=NamedSharding(mesh, PartitionSpec(*parts)))
