"""Types without values: what functions can be staged on."""

from __future__ import annotations

from math import prod
from typing import Any

from weft import dtypes
from weft.base import knobs
from weft.base.lazy import Late
from weft.core.avals import AbstractToken, ShapedArray
from weft.core.registry import lookup
from weft.core.sharding import NamedSharding, PartitionSpec, Sharding, check_rank
from weft.core.trace import aval_handlers, typeof

_set = object.__setattr__

# loaded when a struct is given a sharding
layouts = Late("weft.core.layout")


class ShapeDtypeStruct:
    """The shape and dtype of an array that need not exist.

    Args:
        shape: Sizes of the dimensions.
        dtype: Dtype of the elements.
        sharding: Sharding of the array, or a format, for ``jit(...).lower``. A ``PartitionSpec``
            speaks of the mesh that is set when the sharding is asked for.
        weak_type: Whether the dtype gives way in promotion, as that of a Python scalar does.
        manual_axis_type: Ignored; accepted for JAX's signature.
        is_ref: Whether it stands for a mutable reference.

    Example:
        >>> import numpy as np
        >>> ShapeDtypeStruct((2, 3), np.float32)
        ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("shape", "dtype", "_sharding", "weak_type", "is_ref")

    shape: tuple[Any, ...]
    dtype: Any
    _sharding: Any
    weak_type: bool
    is_ref: bool

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
        _set(self, "shape", tuple(shape))
        _set(self, "dtype", dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True))
        _set(self, "_sharding", _sharding_of(sharding, self.shape))
        _set(self, "weak_type", weak_type)
        _set(self, "is_ref", is_ref)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self, name):
            raise AttributeError(f"a ShapeDtypeStruct has no attribute {name!r}")
        raise RuntimeError(
            f"a ShapeDtypeStruct does not change: write struct.update({name}=...) for another one"
        )

    def __setstate__(self, state: Any) -> None:
        for name, value in state[1].items():
            _set(self, name, value)

    @property
    def sharding(self) -> Any:
        """How the array is divided; None if that is not said."""
        found = self._sharding
        if not isinstance(found, PartitionSpec):
            return found
        mesh = (knobs.thread.mesh or (None,))[0]
        if mesh is None or mesh.empty:
            raise TypeError(
                f"a ShapeDtypeStruct with sharding={found} speaks of the mesh that is set, and none"
                " is; write NamedSharding(mesh, spec), or with weft.set_mesh(mesh)"
            )
        return NamedSharding(mesh, found)

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
            f"{self!r} has a type but no value: it can be traced (eval_shape, make_jaxpr, "
            "jit(f).lower), but not computed with or used as a constant"
        )

    # what NumPy asks for when it makes an array of an object
    __float__ = __int__ = __complex__ = _no_value

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        shape = changes.pop("shape", self.shape)
        dtype = changes.pop("dtype", self.dtype)
        options = {"sharding": self._sharding, "weak_type": self.weak_type, "is_ref": self.is_ref}
        options |= changes
        return ShapeDtypeStruct(shape, dtype, **options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def _key(self) -> Any:
        return (self.shape, self.dtype, self._sharding, self.weak_type, self.is_ref)

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        sharding = f", sharding={self._sharding}" if self._sharding is not None else ""
        weak = f", weak_type={self.weak_type}" if self.weak_type else ""
        name = getattr(self.dtype, "name", str(self.dtype))
        ref = ", is_ref=True" if self.is_ref else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={name}{sharding}{weak}{ref})"


def _sharding_of(given: Any, shape: tuple[Any, ...]) -> Any:
    """The sharding that a struct of a shape was given, which must fit it."""
    if given is None:
        return None
    if isinstance(given, layouts.Format):
        if isinstance(given.layout, layouts.AutoLayout):
            raise TypeError("a ShapeDtypeStruct cannot have Layout.AUTO; pass a Layout")
        given = given.sharding_for(shape, "ShapeDtypeStruct")
    elif not isinstance(given, (Sharding, PartitionSpec)):
        raise ValueError(
            "the sharding of a ShapeDtypeStruct is a Sharding, a PartitionSpec or a Format, got"
            f" {given!r} of type {type(given).__name__}"
        )
    if isinstance(given, PartitionSpec):
        check_rank(given, shape)
    elif given is not None:
        given.check_compatible_aval(shape)
    return given


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
