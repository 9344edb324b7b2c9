"""Trees of arrays as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.base.traceback import api_boundary
from weft.core.trace import typeof
from weft.prims.convert import convert_element_type_p
from weft.tree.functions import tree_flatten, tree_unflatten


class _Unravel:
    """From a vector back to the tree; equal for equal trees, so that it may be a static argument.

    ``from_dtypes`` is None where all leaves had one dtype: then a vector of any dtype is taken.
    """

    __slots__ = ("treedef", "shapes", "from_dtypes", "to_dtype")

    def __init__(self, treedef: Any, shapes: Any, from_dtypes: Any, to_dtype: Any) -> None:
        self.treedef = treedef
        self.shapes = shapes
        self.from_dtypes = from_dtypes
        self.to_dtype = to_dtype

    def _fields(self) -> tuple[Any, ...]:
        return self.treedef, self.shapes, self.from_dtypes, self.to_dtype

    def __eq__(self, other: object) -> bool:
        return type(other) is _Unravel and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    @api_boundary
    def __call__(self, flat: Any) -> Any:
        if not self.shapes:
            return tree_unflatten(self.treedef, [])
        aval = typeof(flat)
        if self.from_dtypes is not None and aval.dtype != self.to_dtype:
            raise TypeError(
                f"this unravel function takes a vector of dtype {self.to_dtype}, as ravel_pytree"
                f" returned, but got {aval.str_short()}; convert it with astype"
            )
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        if aval.shape != (sum(sizes),):
            raise ValueError(
                f"this unravel function takes a vector of {sum(sizes)} elements, got shape"
                f" {aval.shape}"
            )
        chunks = lax.split(flat, sizes)
        leaves = [lax.reshape(c, s) for c, s in zip(chunks, self.shapes, strict=True)]
        if self.from_dtypes is not None:
            leaves = [_cast(x, d) for x, d in zip(leaves, self.from_dtypes, strict=True)]
        return tree_unflatten(self.treedef, leaves)


def _cast(x: Any, dtype: Any) -> Any:
    # Bound directly: the imaginary part that promotion added is dropped without a warning.
    if typeof(x).dtype == dtype:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=False, sharding=None)


@api_boundary
def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return a tree of arrays as one vector of their common dtype, and the function back.

    Args:
        pytree: the tree.

    Returns:
        A pair: the vector, and a function from such a vector to a tree of the same structure.

    Example:
        >>> import weft.numpy as jnp
        >>> flat, unravel = ravel_pytree({"a": jnp.ones(2), "b": 3.0})
        >>> flat
        Array([1., 1., 3.], dtype=float32)
        >>> unravel(2 * flat)
        {'a': Array([2., 2.], dtype=float32), 'b': Array(6., dtype=float32)}
    """
    leaves, treedef = tree_flatten(pytree)
    if not leaves:
        return lax.full((0,), 0, np.float32), _Unravel(treedef, (), None, None)
    shapes = tuple(np.shape(x) for x in leaves)
    found = tuple(typeof(x).dtype for x in leaves)
    to_dtype = dtypes.result_type(*found)
    if any(d != to_dtype for d in found):
        leaves = [lax.convert_element_type(x, to_dtype) for x in leaves]
        unravel = _Unravel(treedef, shapes, found, to_dtype)
    else:
        unravel = _Unravel(treedef, shapes, None, None)
    flat = [lax.reshape(x, (np.size(x),)) for x in leaves]
    return lax.concatenate(flat, 0), unravel
