"""Types without values: what functions can be staged on."""

from __future__ import annotations

from math import prod
from typing import Any

from weft import dtypes
from weft.core.avals import AbstractToken, ShapedArray
from weft.core.layout import Format
from weft.core.registry import lookup
from weft.core.trace import aval_handlers, typeof


class ShapeDtypeStruct:
    """The shape and dtype of an array that need not exist.

    Args:
        shape: Sizes of the dimensions.
        dtype: Dtype of the elements.
        sharding: Sharding of the array, or a format, for ``jit(...).lower``.
        weak_type: Whether the dtype gives way in promotion, as that of a Python scalar does.
        manual_axis_type: Ignored; accepted for JAX's signature.
        is_ref: Whether it stands for a mutable reference.

    Example:
        >>> import numpy as np
        >>> ShapeDtypeStruct((2, 3), np.float32)
        ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("shape", "dtype", "sharding", "weak_type", "is_ref")

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        manual_axis_type: Any = None,
        is_ref: bool = False,
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct needs a dtype")
        self.shape = tuple(shape)
        self.dtype = dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
        self.sharding = sharding
        if isinstance(sharding, Format):
            self.sharding = sharding.sharding_for(self.shape, "ShapeDtypeStruct")
        self.weak_type = weak_type
        self.is_ref = is_ref

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The struct of an array, or of anything that has a shape and a dtype.

        >>> import numpy as np
        >>> ShapeDtypeStruct.like(np.ones((2, 3), np.float32))
        ShapeDtypeStruct(shape=(2, 3), dtype=float32)
        """
        if isinstance(x, ShapeDtypeStruct):
            return x
        aval = abstractify(x)
        where = x.sharding if getattr(x, "committed", False) else aval.divided
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=where)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def _no_value(self) -> Any:
        raise TypeError(
            f"{self!r} has a type but no value: it can be staged on (eval_shape, make_jaxpr,"
            " jit(f).lower), not computed with or written into a compiled program"
        )

    # what NumPy asks for when it makes an array of an object
    __float__ = __int__ = __complex__ = _no_value

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        shape = changes.pop("shape", self.shape)
        dtype = changes.pop("dtype", self.dtype)
        options = {"sharding": self.sharding, "weak_type": self.weak_type, "is_ref": self.is_ref}
        options |= changes
        return ShapeDtypeStruct(shape, dtype, **options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def _key(self) -> Any:
        return (self.shape, self.dtype, self.sharding, self.weak_type, self.is_ref)

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        sharding = f", sharding={self.sharding}" if self.sharding is not None else ""
        weak = f", weak_type={self.weak_type}" if self.weak_type else ""
        name = getattr(self.dtype, "name", str(self.dtype))
        ref = ", is_ref=True" if self.is_ref else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={name}{sharding}{weak}{ref})"


def _aval_of_struct(x: ShapeDtypeStruct) -> Any:
    aval = ShapedArray(x.shape, x.dtype, x.weak_type, sharding=x.sharding)
    return lookup("new_ref").shape(aval, memory_space=None, kind=None) if x.is_ref else aval


aval_handlers[ShapeDtypeStruct] = _aval_of_struct  # a value that only staging can do with


def abstractify(x: Any) -> Any:
    """Return the type of an array, or of anything that has a shape and a dtype.

    Args:
        x: the array or number.

    Returns:
        A ``ShapedArray``.

    Example:
        >>> abstractify(1.5)
        ShapedArray(float32[], weak_type=True)
    """
    try:
        return typeof(x)
    except TypeError:
        if hasattr(x, "shape") and hasattr(x, "dtype"):
            dtype = dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True)
            return ShapedArray(x.shape, dtype, getattr(x, "weak_type", False))
        raise


def struct_of(aval: Any) -> Any:
    """The public description of an abstract value; a token has no other."""
    if type(aval) is AbstractToken:
        return aval
    divided = getattr(aval, "divided", None)
    if divided is None and type(aval) is ShapedArray:
        there = aval.sharding
        divided = there if there.mesh.are_all_axes_explicit else None
    elif divided is not None and not divided.mesh.are_all_axes_explicit:
        divided = None
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=divided)
