"""Abstract values: what is known of a value while it is traced; interned, equal means same."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.base.polynomials import Polynomial
from weft.base.spaces import MemorySpace
from weft.core import sharding as shardings
from weft.core.sharding import (
    NO_AXES,
    SHARED,
    AbstractMesh,
    ManualAxisType,
    NamedSharding,
    PartitionSpec,
    axes_of,
    explicit_part,
    full_spec,
)


class AbstractValue:
    """What is known of a value without computing it."""

    __slots__ = ()
    is_ref = False  # whether it is the type of a mutable reference
    is_high = False  # whether it is a type that a library defines
    has_qdd = False  # whether it is one of values that change

    def to_tangent_aval(self) -> AbstractValue:
        raise TypeError(f"{self} has no tangent type")

    def to_cotangent_aval(self) -> AbstractValue:
        return self.to_tangent_aval()

    def strip_weak_type(self) -> AbstractValue:
        return self

    def normalize(self) -> AbstractValue:
        """The type that values of it are compared by."""
        return self.strip_weak_type()

    # What a value is made of; more than itself only for types that libraries define.
    def lo_ty(self) -> list[AbstractValue]:
        return [self]

    def lower_val(self, value: Any) -> list[Any]:
        return [value]

    def raise_val(self, *values: Any) -> Any:
        (value,) = values
        return value

    def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
        return str(self)

    def at_least_vspace(self) -> AbstractValue:
        return self.to_tangent_aval()


class ShapedArray(AbstractValue):
    """Shape, dtype and weak type of an array; one object for each distinct triple.

    Inside of ``shard_map`` a type says over which mesh axes values vary. The type of an array that
    is divided over explicit mesh axes carries its sharding; all other types carry none. The type of
    an array on a mesh also names the mesh, which says where it came from and nothing of its values:
    types that differ only in that are equal.

    >>> ShapedArray((3,), np.float32) is ShapedArray((3,), np.dtype('float32'))
    True
    """

    __slots__ = (
        "shape",
        "dtype",
        "weak_type",
        "mat",
        "divided",
        "named",
        "in_host",
        "_tangent",
        "_home",
        "__weakref__",
    )

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    mat: ManualAxisType  # over which mesh axes it varies, in shard_map
    divided: NamedSharding | None  # over which explicit mesh axes, for all dimensions
    named: AbstractMesh | None  # the mesh of an array that is not divided over such axes
    in_host: bool  # whether it is in the host's memory by the user's wish
    _tangent: ShapedArray | None
    _home: Any  # the type of arrays in memory where most are, see runtime.places

    def __new__(
        cls,
        shape: Any,
        dtype: Any,
        weak_type: bool = False,
        *,
        sharding: NamedSharding | None = None,
        manual_axis_type: ManualAxisType = SHARED,
        memory_space: Any = None,
    ) -> ShapedArray:
        if manual_axis_type is not SHARED or sharding is not None or memory_space is not None:
            sizes, mat = tuple([dimension(n) for n in shape]), manual_axis_type
            divided = None if sharding is None else explicit_part(sharding, len(sizes))
            made = _intern(sizes, _dtype_object(dtype), bool(weak_type), mat, divided)
            if divided is None and isinstance(sharding, NamedSharding):
                made = made.on_mesh(sharding.mesh.abstract_mesh)
            return made.in_space(memory_space is MemorySpace.Host)
        try:
            return _interned[shape, dtype, weak_type]
        except (KeyError, TypeError):
            pass
        return _intern(tuple([dimension(n) for n in shape]), _dtype_object(dtype), bool(weak_type))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def sharding(self) -> NamedSharding:
        """How it is divided over explicit mesh axes: by none where the type does not say."""
        if self.divided is not None:
            return self.divided
        current, mesh = knobs.thread.mesh, self.named
        if mesh is None:
            mesh = NO_AXES if current is None else current[1]
        return NamedSharding(mesh, PartitionSpec(*[None] * len(self.shape)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(other) is ShapedArray
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak_type == other.weak_type
            and self.mat == other.mat
            and self.divided == other.divided
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type))

    def update(self, **changes: Any) -> ShapedArray:
        shape = changes.get("shape", self.shape)
        dtype = changes.get("dtype", self.dtype)
        weak_type = changes.get("weak_type", self.weak_type)
        divided = self.divided if shape is self.shape else None
        sharding = changes.get("sharding", divided)
        mat = changes.get("manual_axis_type", self.mat)
        made = ShapedArray(shape, dtype, weak_type, sharding=sharding, manual_axis_type=mat)
        space = changes.get("memory_space")
        if self.in_host if space is None else space is MemorySpace.Host:
            made = made.in_space(True)
        return made if self.named is None or sharding is not None else made.on_mesh(self.named)

    def on_mesh(self, mesh: AbstractMesh | None) -> ShapedArray:
        """The type of the same arrays on a mesh, or on none."""
        if self.divided is not None or mesh is self.named:
            return self
        named = None if mesh is None or mesh.empty else mesh
        return self._labelled(None, named, self.in_host)

    def in_space(self, host: bool) -> ShapedArray:
        """The type of the same arrays in the host's memory, or in the device's."""
        if host is self.in_host:
            return self
        return self._labelled(self.divided, self.named, host)

    def _labelled(self, divided: Any, named: Any, host: bool) -> ShapedArray:
        shardings.named_ones |= named is not None or host
        return _intern(self.shape, self.dtype, self.weak_type, self.mat, divided, named, host)

    @property
    def memory_space(self) -> MemorySpace:
        return MemorySpace.Host if self.in_host else MemorySpace.Device

    @property
    def manual_axis_type(self) -> ManualAxisType:
        return self.mat

    def varying(self, axes: frozenset[Any]) -> ShapedArray:
        """The type of values that vary over axes, and over no others."""
        if axes == self.mat.varying:
            return self
        left = {k: getattr(self.mat, k) - axes for k in ("unreduced", "reduced")}
        return self.update(manual_axis_type=ManualAxisType(varying=axes, **left))

    def strip_weak_type(self) -> ShapedArray:
        if not self.weak_type:
            return self
        return self.update(weak_type=False)

    def to_tangent_aval(self) -> ShapedArray:
        tangent = self._tangent
        if tangent is None:
            dtype = dtypes.primal_to_tangent_dtype(self.dtype)
            weak_type = self.weak_type and dtype == self.dtype
            tangent = self._tangent = self.update(dtype=dtype, weak_type=weak_type)
        return tangent

    def to_cotangent_aval(self) -> ShapedArray:
        """The type of cotangents: of a reduced value they are unreduced, and the reverse."""
        tangent = self.to_tangent_aval()
        if self.divided is None and self.mat is SHARED:
            return tangent
        mat = self.mat.update(unreduced=self.mat.reduced, reduced=self.mat.unreduced)
        if self.divided is None:
            return tangent.update(manual_axis_type=mat)
        spec = self.divided.spec
        spec = spec.update(unreduced=spec.reduced, reduced=spec.unreduced)
        return tangent.update(sharding=self.divided.with_spec(spec), manual_axis_type=mat)

    def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
        if short_dtypes or self.dtype == dtypes.float0:
            name = dtypes.short_name(self.dtype)
        else:
            name = self.dtype.name
        sizes = map(repr, self.shape) if self.divided is None else self._divided_sizes()
        space = "<host>" if self.in_host else ""
        return f"{name}{space}[{','.join(sizes)}]{self._marks()}"

    def _marks(self) -> str:
        """Over which axes it varies, is a sum to be made, or one that gradients are."""
        spec = PartitionSpec() if self.divided is None else self.divided.spec
        given = {
            "V": self.mat.varying,
            "U": self.mat.unreduced | spec.unreduced,
            "R": self.mat.reduced | spec.reduced,
        }
        mesh = NO_AXES if self.divided is None else self.divided.mesh
        if mesh.empty and knobs.thread.mesh is not None:
            mesh = knobs.thread.mesh[1]
        order = {axis: i for i, axis in enumerate(mesh.axis_names)}
        texts = []
        for mark, axes in given.items():
            names = sorted(axes, key=lambda axis: (order.get(axis, len(order)), str(axis)))
            listed = ",".join(map(str, names))
            if names:
                texts.append(f"{mark}:{listed if len(names) == 1 else f'({listed})'}")
        return f"{{{', '.join(texts)}}}" if texts else ""

    def _divided_sizes(self) -> list[str]:
        """Sizes with the mesh axes that divide them."""
        found = []
        for n, part in zip(self.shape, full_spec(self.divided, len(self.shape)), strict=True):
            axes = [str(axis) for axis in axes_of(part)]
            over = axes[0] if len(axes) == 1 else f"({','.join(axes)})"
            found.append(f"{n}@{over}" if axes else str(n))
        return found

    def __str__(self) -> str:
        return f"{'~' if self.weak_type else ''}{self.str_short()}"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"

    def __reduce__(self) -> Any:
        given = (self.shape, self.dtype, self.weak_type, self.divided, self.mat)
        return _unpickled, given

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]


class AbstractToken(AbstractValue):
    """The type of a token, which orders effects and carries no data.

    >>> from weft.extend.core import AbstractToken
    >>> AbstractToken().str_short()
    'Tok'
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is AbstractToken

    def __hash__(self) -> int:
        return hash(AbstractToken)

    def to_tangent_aval(self) -> AbstractValue:
        return self

    def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
        return "Tok"

    def __repr__(self) -> str:
        return "AbstractToken()"


abstract_token = AbstractToken()

# A program uses few distinct types; the limit only bounds processes that make new shapes for ever.
# Dropping the table is safe: equality falls back to comparing the fields.
INTERN_LIMIT = 1 << 16
_interned: dict[Any, ShapedArray] = {}


def dimension(n: Any) -> Any:
    """A dimension of an array: a symbolic one, a size of a program, or a plain number."""
    return n if isinstance(n, Polynomial) else int(n)


def _dtype_object(dtype: Any) -> Any:
    return dtype if isinstance(dtype, dtypes.ExtendedDType) else np.dtype(dtype)


def _intern(
    shape: tuple[int, ...],
    dtype: Any,
    weak_type: bool,
    mat: ManualAxisType = SHARED,
    divided: NamedSharding | None = None,
    named: AbstractMesh | None = None,
    in_host: bool = False,
) -> ShapedArray:
    key: Any = (shape, dtype, weak_type)
    if mat is not SHARED and mat.empty:
        mat = SHARED
    if mat is not SHARED or divided is not None or named is not None or in_host:
        key = (shape, dtype, weak_type, mat, divided, named, in_host)
    aval = _interned.get(key)
    if aval is None:
        if len(_interned) >= INTERN_LIMIT:
            _interned.clear()
        aval = object.__new__(ShapedArray)
        aval.shape, aval.dtype, aval.weak_type, aval.mat = shape, dtype, weak_type, mat
        aval.divided, aval.named, aval.in_host = divided, named, in_host
        aval._tangent = aval._home = None
        aval = _interned.setdefault(key, aval)
    return aval


def _unpickled(shape: Any, dtype: Any, weak: bool, divided: Any, mat: Any) -> ShapedArray:
    return ShapedArray(shape, dtype, weak, sharding=divided, manual_axis_type=mat)


def varying_of(aval: Any) -> frozenset[Any]:
    """The mesh axes over which values of a type vary."""
    return getattr(aval, "mat", SHARED).varying


def labels_of(avals: Any) -> tuple[Any, ...] | None:
    """Meshes and memories that types name, which comparing types does not tell apart."""
    if not shardings.named_ones:
        return None
    if not any(type(a) is ShapedArray and (a.named is not None or a.in_host) for a in avals):
        return None
    return tuple([(a.named, a.in_host) if type(a) is ShapedArray else None for a in avals])


def without_axes(aval: Any) -> Any:
    """An abstract value that says nothing of mesh axes: over which it varies or is divided."""
    if type(aval) is ShapedArray:
        if aval.mat is SHARED and aval.divided is None and aval.named is None and not aval.in_host:
            return aval
        return ShapedArray(aval.shape, aval.dtype, aval.weak_type)
    return aval if getattr(aval, "mat", SHARED).empty else aval.update(manual_axis_type=SHARED)


def same_type(a: AbstractValue, b: AbstractValue) -> bool:
    """Whether two abstract values agree up to weak type."""
    return a is b or a.strip_weak_type() == b.strip_weak_type()
