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
    """Call a Python function without effects; works under every transformation but derivatives.

    It is given arrays and must return what ``result_shape_dtypes`` promises. Under ``vmap``,
    ``vmap_method`` says whether it is called once for each element (``"sequential"``) or once for
    the whole batch, operands that are not mapped given with a leading axis of size one
    (``"expand_dims"``) or of the batch (``"broadcast_all"``).

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

    >>> import weft
    >>> seen = []
    >>> f = weft.jit(lambda x: io_callback(lambda v: seen.append(int(v)), None, x, ordered=True))
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
    """Wait until the effects of all calls so far have happened; calls are synchronous here.

    >>> effects_barrier()
    """
