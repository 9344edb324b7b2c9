"""The public face of callbacks: Python functions called from staged programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.base.traceback import api_boundary
from weft.control.callbacks import FlatCallback, io_callback_p, pure_callback_p
from weft.core.avals import ShapedArray
from weft.tree.functions import tree_flatten, tree_unflatten

VMAP_METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
    None,
)


def _promised(what: str, result_shape_dtypes: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    leaves, tree = tree_flatten(result_shape_dtypes)
    avals = []
    for leaf in leaves:
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise TypeError(
                f"result_shape_dtypes of {what} holds things with a shape and a dtype, such as"
                f" ShapeDtypeStruct or arrays, got {leaf!r} of type {type(leaf).__name__}"
            )
        if dtypes.canonicalize_dtype(leaf.dtype, allow_extended_dtype=True) != leaf.dtype:
            raise ValueError(
                f"result_shape_dtypes of {what} cannot name the 64-bit type {leaf.dtype} while"
                " jax_enable_x64 is off; use a 32-bit type, or switch it on"
            )
        avals.append(ShapedArray(leaf.shape, leaf.dtype))
    return tuple(avals), tree


@api_boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return the result of a Python function that is called while a compiled program runs.

    Args:
        callback: Function of arrays without side effects; it may be called more than once, or not
            at all.
        result_shape_dtypes: Tree of arrays or ``ShapeDtypeStruct``: the shapes and dtypes that it
            returns.
        *args: Arguments, trees of arrays.
        sharding: Where the function runs, for programs over several devices.
        vmap_method: What ``vmap`` does: "sequential" (in a loop) and "sequential_unrolled" call
            once for each element, "expand_dims" once with arguments that aren't mapped given an
            axis of size 1, "broadcast_all" once with every argument repeated to the batch. None
            raises an error under ``vmap``.
        **kwargs: Arguments by keyword, trees of arrays.

    Returns:
        Tree of arrays as ``result_shape_dtypes`` says. It can't be differentiated; wrap it in
        ``custom_jvp`` or ``custom_vjp``.

    Example:
        >>> import numpy as np, weft, weft.numpy as jnp
        >>> host_sort = lambda x: weft.pure_callback(np.sort, x, x)
        >>> weft.jit(host_sort)(jnp.array([3, 1, 2]))
        Array([1, 2, 3], dtype=int32)
    """
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"vmap_method must be one of {VMAP_METHODS}, got {vmap_method!r}")
    leaves, in_tree = tree_flatten((args, kwargs))
    avals, out_tree = _promised("pure_callback", result_shape_dtypes)
    outs = pure_callback_p.bind(
        *leaves,
        callback=FlatCallback(callback, in_tree),
        result_avals=avals,
        sharding=sharding,
        vmap_method=vmap_method,
    )
    return tree_unflatten(out_tree, outs)


@api_boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Return what a Python function with effects returns, each time the program gets here.

    Args:
        callback: the function.
        result_shape_dtypes: the types of its results, a tree of ``ShapeDtypeStruct``; None for no
            results.
        *args: the arguments of the function.
        sharding: the device that calls it, as a ``SingleDeviceSharding``.
        ordered: keep the order of the program among ordered calls.
        **kwargs: the keyword arguments of the function.

    Returns:
        The results, as arrays.

    Example:
        >>> import weft
        >>> seen = []
        >>> keep = lambda v: seen.append(int(v))
        >>> f = weft.jit(lambda x: io_callback(keep, None, x, ordered=True))
        >>> f(1); f(2); seen
        [1, 2]
    """
    leaves, in_tree = tree_flatten((args, kwargs))
    avals, out_tree = _promised("io_callback", result_shape_dtypes)
    outs = io_callback_p.bind(
        *leaves,
        callback=FlatCallback(callback, in_tree),
        result_avals=avals,
        sharding=sharding,
        ordered=ordered,
    )
    return tree_unflatten(out_tree, outs)


def effects_barrier() -> None:
    """Wait until the effects of all calls so far, such as prints from compiled code, have happened.

    Example:
        >>> effects_barrier()
    """
