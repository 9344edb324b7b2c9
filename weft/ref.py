"""Mutable references to arrays.

A reference holds an array and can be written. It may be passed to functions under ``jit``, ``scan``
and the like, or be closed over by them; it cannot be returned from them.

>>> import weft, weft.numpy as jnp
>>> count = weft.new_ref(jnp.zeros(()))
>>> @weft.jit
... def step(x):
...     count[...] += 1.0
...     return 2.0 * x
>>> float(step(1.0)), float(step(2.0))
(2.0, 4.0)
>>> count
Ref(2., dtype=float32)
"""

from __future__ import annotations

from typing import Any

from weft.base.traceback import api_boundary
from weft.core.array import Array
from weft.core.shape_dtype import abstractify
from weft.core.trace import typeof
from weft.state.primitives import empty_ref_p, free_ref_p, freeze_p, new_ref_p
from weft.state.types import AbstractRef as AbstractRef
from weft.state.types import Ref as Ref
from weft.state.types import addupdate as addupdate
from weft.state.types import dslice, set_
from weft.state.types import get as get
from weft.state.types import swap as swap

__all__ = (
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
)

ds, set = dslice, set_


@api_boundary
def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """Return a mutable reference that starts with a value.

    Args:
        init_val: the first value.
        memory_space: where the array lives.
        kind: ``'no_grad_no_remat'`` makes one into which values are written without their
            derivatives.

    Returns:
        A ``Ref``.

    Example:
        >>> import weft.numpy as jnp
        >>> ref = new_ref(jnp.arange(3))
        >>> ref[0] = 7
        >>> ref
        Ref([7, 1, 2], dtype=int32)
    """
    try:
        aval = typeof(init_val)
    except TypeError:
        raise TypeError(
            f"new_ref takes an array or a number, got {init_val!r} of type"
            f" {type(init_val).__name__}; convert it with jnp.array"
        ) from None
    if aval.is_ref:
        raise TypeError(
            f"new_ref takes an array, got a reference of type {aval}; read it: ref[...]"
        )
    return new_ref_p.bind(init_val, memory_space=memory_space, kind=kind)


@api_boundary
def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """Return a mutable reference to an array of a type, whose values are not set yet.

    Args:
        ty: the type, such as a ``ShapeDtypeStruct``.
        memory_space: where the array lives.

    Returns:
        A ``Ref``.

    Example:
        >>> import weft
        >>> empty_ref(weft.ShapeDtypeStruct((2, 3), "float32")).shape
        (2, 3)
    """
    return empty_ref_p.bind(ty=abstractify(ty), memory_space=memory_space)


@api_boundary
def freeze(ref: Any) -> Array:
    """Return the last value of a reference, which must not be used again.

    Args:
        ref: the reference. An array is returned as it is.

    Returns:
        An array.

    Example:
        >>> import weft.numpy as jnp
        >>> ref = new_ref(jnp.arange(3))
        >>> ref[1] = 5
        >>> freeze(ref)
        Array([0, 5, 2], dtype=int32)
    """
    return ref if isinstance(ref, Array) and not ref.aval.is_ref else freeze_p.bind(_checked(ref))


@api_boundary
def free_ref(ref: Any) -> None:
    """End a reference; to use it again is an error.

    Args:
        ref: the reference.

    Example:
        >>> import weft.numpy as jnp
        >>> free_ref(new_ref(jnp.zeros(3)))
    """
    free_ref_p.bind(_checked(ref))


def _checked(ref: Any) -> Any:
    if not isinstance(ref, Ref):
        raise ValueError(f"expected a mutable reference, got {ref!r}")
    return ref
