"""The type of mutable references, the references themselves, and views of parts of them."""

from __future__ import annotations

from operator import attrgetter
from sys import getrefcount
from typing import Any

import numpy as np

from weft.base.functional import lru
from weft.core.avals import AbstractValue
from weft.core.batching import broadcast_axis
from weft.core.dims.dim import Dim, whole
from weft.core.effects import Effect
from weft.core.registry import lookup
from weft.core.trace import Tracer, eval_trace, state, typeof
from weft.state.indexing import NDIndexer, Reshaped, Slice, Step
from weft.transforms.discharge import AnyCell
from weft.tree.functions import tree_flatten, tree_unflatten
from weft.tree.registry import register_pytree_node


class RefEffect(Effect):
    """Something is done to a mutable reference."""

    on_refs = True


class ReadEffect(RefEffect):
    """A reference is read."""


class WriteEffect(RefEffect):
    """A reference is written."""


class AccumEffect(RefEffect):
    """Something is added to a reference."""


class InternalMutableArrayEffect(RefEffect):
    """A reference is made, or its last value taken."""


class AbstractRef(AbstractValue):
    """The type of a reference to an array.

    Args:
        inner_aval: the type of the array.
        memory_space: where the array lives.
        kind: ``'no_grad_no_remat'`` for a reference without derivatives.

    Example:
        >>> import weft.numpy as jnp
        >>> AbstractRef(jnp.ones(3).aval)
        Ref{float32[3]}
    """

    __slots__ = ("inner_aval", "memory_space", "kind")
    is_ref = True
    effects = frozenset([ReadEffect()])  # of programs that take one, whether they look at it or not

    def __init__(self, inner_aval: Any, memory_space: Any = None, kind: str | None = None) -> None:
        self.inner_aval = inner_aval
        self.memory_space = memory_space
        self.kind = kind

    shape: Any = property(attrgetter("inner_aval.shape"))
    dtype: Any = property(attrgetter("inner_aval.dtype"))
    ndim: Any = property(attrgetter("inner_aval.ndim"))
    size: Any = property(attrgetter("inner_aval.size"))
    weak_type: Any = property(attrgetter("inner_aval.weak_type"))
    sharding: Any = property(attrgetter("inner_aval.sharding"))

    def __len__(self) -> int:
        return len(self.inner_aval)

    def update(self, **changes: Any) -> AbstractRef:
        space = changes.pop("memory_space", self.memory_space)
        kind = changes.pop("kind", self.kind)
        inner = changes.pop("inner_aval", self.inner_aval)
        return AbstractRef(inner.update(**changes) if changes else inner, space, kind)

    def strip_weak_type(self) -> AbstractRef:
        return AbstractRef(self.inner_aval.strip_weak_type(), self.memory_space, self.kind)

    def to_tangent_aval(self) -> AbstractRef:
        return AbstractRef(self.inner_aval.to_tangent_aval(), self.memory_space, self.kind)

    def _key(self) -> Any:
        return (self.inner_aval, self.memory_space, self.kind)

    def __eq__(self, other: object) -> bool:
        return type(other) is AbstractRef and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((AbstractRef, *self._key()))

    def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
        return f"Ref{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __repr__(self) -> str:
        return self.str_short()

    # What tracers of this type do.

    def getitem(self, ref: Any, index: Any) -> Any:
        return get(ref, index)

    def setitem(self, ref: Any, index: Any, value: Any) -> None:
        set_(ref, index, value)

    def at(self, ref: Any) -> RefIndexer:
        return RefIndexer(ref)

    def addupdate(self, ref: Any, x: Any, index: Any) -> None:
        addupdate(ref, index, x)

    def reshape(self, ref: Any, *sizes: Any) -> TransformedRef:
        return reshaped(ref, sizes)

    def cell(self, ref: Any) -> LiveCell:
        return LiveCell(ref)

    def widened(self, ref: Any, size: int) -> Any:
        """A reference to as many of what one holds, along a new leading axis."""
        start = broadcast_axis(get(ref), size, 0)
        return lookup("new_ref").bind(start, memory_space=self.memory_space, kind=self.kind)


@lru()
def reference_type(inner: Any, memory_space: Any, kind: Any) -> AbstractRef:
    """The type of references to an array: one object, by which native code knows it."""
    return AbstractRef(inner, memory_space, kind)


class LiveCell(AnyCell):
    """A reference as a cell: to look at it is to bind a primitive."""

    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    @property
    def value(self) -> Any:  # type: ignore[override]
        return get(self.ref)

    @value.setter
    def value(self, value: Any) -> None:
        set_(self.ref, None, value)


def another(value: Any) -> Any:
    """Another array with the same memory: what a reference holds, nobody else deletes."""
    return value._alias() if hasattr(value, "_alias") else value


class _RefKind(type):
    """Makes tracers of references instances of ``Ref``."""

    def __instancecheck__(cls, x: Any) -> bool:
        return type(x) is cls or (isinstance(x, Tracer) and x.aval.is_ref)


class Ref(AnyCell, metaclass=_RefKind):
    """A mutable reference to an array; made by ``weft.new_ref``.

    Args:
        aval: the type of the reference.
        refs: what holds the array.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> ref = weft.new_ref(jnp.zeros(3))
        >>> ref[1] = 5.0
        >>> ref[...] += 1.0
        >>> ref
        Ref([1., 6., 1.], dtype=float32)
        >>> ref[1:]
        Array([6., 1.], dtype=float32)
    """

    __slots__ = ("_aval", "_refs", "__weakref__")

    def __init__(self, aval: AbstractRef, refs: Any) -> None:
        self._aval = aval
        self._refs = another(refs)

    aval: Any = property(attrgetter("_aval"))
    shape: Any = property(attrgetter("_aval.shape"))
    dtype: Any = property(attrgetter("_aval.dtype"))
    ndim: Any = property(attrgetter("_aval.ndim"))
    size: Any = property(attrgetter("_aval.size"))
    sharding: Any = property(attrgetter("value.sharding"))
    format: Any = property(attrgetter("value.format"))
    committed: Any = property(attrgetter("value.committed"))

    @property
    def value(self) -> Any:  # type: ignore[override]
        """The array that it holds now."""
        if self._refs is None:
            raise ValueError(f"a reference of type {self._aval} was used after free_ref")
        return self._refs

    @value.setter
    def value(self, value: Any) -> None:
        self._refs = another(value)

    def free(self) -> None:
        self._refs = None

    def holds_alone(self) -> bool:
        return getrefcount(self._refs) == 2  # and the question's own

    def unsafe_buffer_pointer(self) -> int:
        return self.value.unsafe_buffer_pointer()

    @property
    def at(self) -> RefIndexer:
        """Views of parts: ``ref.at[i]`` is read and written like ``ref``."""
        return RefIndexer(self)

    def __getitem__(self, index: Any) -> Any:
        if index is Ellipsis and state.trace is eval_trace:
            return another(self.value)
        return get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        set_(self, index, value)

    def addupdate(self, x: Any, idx: Any = ()) -> None:
        """Add ``x`` at an index."""
        addupdate(self, idx, x)

    def reshape(self, *shape: Any) -> TransformedRef:
        """A view with the same elements in another shape.

        >>> import weft, weft.numpy as jnp
        >>> ref = weft.new_ref(jnp.arange(4))
        >>> ref.reshape(2, 2)[1] = jnp.array([7, 8])
        >>> ref
        Ref([0, 1, 7, 8], dtype=int32)
        """
        return reshaped(self, shape)

    def __len__(self) -> int:
        return len(self._aval)

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d reference")
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return "Ref" + repr(self.value).removeprefix("Array")

    def __bool__(self) -> bool:
        return True

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"a reference of type {self._aval} is not an array; read it with ref[...]")

    def __deepcopy__(self, memo: Any) -> Ref:
        return Ref(self._aval, self.value)

    def __reduce__(self) -> Any:
        aval = self._aval
        return _unpickled, (self.value, aval.memory_space, aval.kind)


def _unpickled(value: Any, memory_space: Any, kind: Any) -> Ref:
    return Ref(reference_type(typeof(value), memory_space, kind), value)


class RefIndexer:
    """What ``ref.at`` is: indexed, it gives a view."""

    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __getitem__(self, index: Any) -> TransformedRef:
        ref, transforms = _parts(self.ref)
        shape = transforms[-1].result_shape if transforms else ref.shape
        return TransformedRef(ref, (*transforms, *_indexers(index, shape)))


class TransformedRef:
    """A part of a reference; reading and writing it reads and writes the reference."""

    __slots__ = ("ref", "transforms")

    def __init__(self, ref: Any, transforms: tuple[Step, ...]) -> None:
        self.ref = ref
        self.transforms = transforms

    @property
    def shape(self) -> tuple[int, ...]:
        return self.transforms[-1].result_shape if self.transforms else self.ref.shape

    dtype: Any = property(attrgetter("ref.dtype"))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def at(self) -> RefIndexer:
        return RefIndexer(self)

    def reshape(self, *shape: Any) -> TransformedRef:
        """A view of the same elements in another shape."""
        return reshaped(self, shape)

    def __getitem__(self, index: Any) -> Any:
        return get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        set_(self, index, value)

    def get(self, index: Any = None) -> Any:
        return get(self, index)

    def set(self, value: Any, index: Any = None) -> None:
        set_(self, index, value)

    def swap(self, value: Any, index: Any = None) -> Any:
        return swap(self, index, value)

    def addupdate(self, x: Any, idx: Any = ()) -> None:
        addupdate(self, idx, x)

    def __repr__(self) -> str:
        return f"TransformedRef({typeof(self.ref)}, shape={self.shape})"


def reshaped(ref: Any, sizes: tuple[Any, ...]) -> TransformedRef:
    """A view of a reference, or of a part of one, in another shape."""
    ref, transforms = _parts(ref)
    shape = transforms[-1].result_shape if transforms else ref.shape
    return TransformedRef(ref, (*transforms, Reshaped.of(sizes, shape)))


_DYNAMIC = object()  # stands for an index that is not known


def _part_leaves(part: TransformedRef) -> tuple[Any, Any]:
    """The reference and computed indices of a part; what is known stays with its structure."""
    leaves, tree = tree_flatten(part.transforms)
    known = tuple([x if type(x) in (int, Dim) else _DYNAMIC for x in leaves])
    computed = [x for x, held in zip(leaves, known, strict=True) if held is _DYNAMIC]
    return (part.ref, *computed), (known, tree)


def _part_of(data: Any, children: Any) -> TransformedRef:
    known, tree = data
    ref, *computed = children
    rest = iter(computed)
    leaves = [next(rest) if x is _DYNAMIC else x for x in known]
    return TransformedRef(ref, tree_unflatten(tree, leaves))


register_pytree_node(TransformedRef, _part_leaves, _part_of)


# --- reading and writing --------------------------------------------------------------------------


def _indexers(index: Any, shape: tuple[int, ...]) -> tuple[Step, ...]:
    """The index as a chain of indexers: none where everything is meant."""
    if index is None or index is Ellipsis or (type(index) is tuple and not index):
        return ()
    indexer = NDIndexer.of(index, shape)
    return () if indexer.is_whole else (indexer,)


def _parts(ref: Any) -> tuple[Any, tuple[Step, ...]]:
    if type(ref) is TransformedRef:
        return ref.ref, ref.transforms
    return ref, ()


def _place(ref: Any, index: Any, what: str) -> tuple[Any, list[Any], Any]:
    """A reference, the operands of an index into it, and their tree."""
    ref, transforms = _parts(ref)
    if not isinstance(ref, Ref):
        raise ValueError(
            f"{what} takes a mutable reference, got {ref!r}; make one with weft.new_ref"
        )
    shape = transforms[-1].result_shape if transforms else ref.shape
    operands, tree = tree_flatten((*transforms, *_indexers(index, shape)))
    return ref, operands, tree


def get(ref: Any, idx: Any = None) -> Any:
    """Return what a reference holds at an index.

    Args:
        ref: the reference.
        idx: the index, as for arrays. By default all of it.

    Returns:
        An array.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> get(weft.new_ref(jnp.arange(5)), slice(1, 3))
        Array([1, 2], dtype=int32)
    """
    ref, operands, tree = _place(ref, idx, "ref.get")
    return lookup("get").bind(ref, *operands, tree=tree)


def set_(ref: Any, idx: Any, value: Any) -> None:
    """Put a value at an index of a reference.

    Args:
        ref: the reference.
        idx: the index, as for arrays; ``...`` for all of it.
        value: the value, which broadcasts to the indexed shape.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> ref = weft.new_ref(jnp.zeros(3))
        >>> set_(ref, 0, 2.0)
        >>> ref
        Ref([2., 0., 0.], dtype=float32)
    """
    primitive = lookup("swap")
    ref, operands, tree = _place(ref, idx, "ref.set")
    value = primitive.value_for(typeof(ref), value)
    if state.trace is eval_trace:  # nobody asks for what was there
        primitive.put(ref, value, operands, tree)
    else:
        primitive.bind(ref, value, *operands, tree=tree)


def swap(ref: Any, idx: Any, value: Any, _function_name: str = "ref_swap") -> Any:
    """Put a value at an index of a reference, and return what was there.

    Args:
        ref: the reference.
        idx: the index, as for arrays; ``...`` for all of it.
        value: the value, which broadcasts to the indexed shape.

    Returns:
        An array.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> ref = weft.new_ref(jnp.arange(3))
        >>> swap(ref, 2, 10)
        Array(2, dtype=int32)
        >>> ref
        Ref([ 0,  1, 10], dtype=int32)
    """
    primitive = lookup("swap")
    ref, operands, tree = _place(ref, idx, "ref.swap")
    return primitive.bind(ref, primitive.value_for(typeof(ref), value), *operands, tree=tree)


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Add a value at an index of a reference; where an index is repeated, all is added.

    Args:
        ref: the reference.
        idx: the index, as for arrays; ``...`` for all of it.
        x: the value, which broadcasts to the indexed shape.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> ref = weft.new_ref(jnp.arange(3))
        >>> addupdate(ref, 2, 10)
        >>> ref
        Ref([ 0,  1, 12], dtype=int32)
    """
    primitive = lookup("addupdate")
    ref, operands, tree = _place(ref, idx, "ref.addupdate")
    primitive.bind(ref, primitive.value_for(typeof(ref), x), *operands, tree=tree)


def dslice(start: Any, size: Any = None, stride: Any = None) -> Any:
    """Return the slice of ``size`` elements from ``start`` on; the start may be traced.

    Args:
        start: First index; given alone, the number of elements from 0 on. ``dslice(None)`` is
            ``:``.
        size: Number of elements, static.
        stride: Step, static; 1 by default.

    Returns:
        Slice to index arrays and references with.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> jnp.arange(10)[weft.ds(jnp.int32(3), 2)]
        Array([3, 4], dtype=int32)
    """
    if start is None:
        return slice(None)
    if stride is None:
        stride = 1
    if not isinstance(stride, int) or stride < 1:
        raise ValueError(f"a dslice has a stride of 1 or more that is known, got {stride!r}")
    if size is None:
        start, size = 0, start
    if not isinstance(size, (int, np.integer, Dim)):
        raise TypeError(f"the size of a dslice must be an integer known while tracing, got {size}")
    return Slice(start, whole(size), stride)
