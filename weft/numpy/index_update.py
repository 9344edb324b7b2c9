"""The ``at`` property of arrays: updates of parts of an array, without changing the array."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from weft import lax
from weft.api.eager import learnt_method
from weft.api.placement import divided_as
from weft.base.traceback import api_boundary
from weft.core.ad import filled
from weft.core.array import Array
from weft.core.trace import typeof
from weft.numpy.indexing import take_index, update_index, update_masked


class IndexUpdateHelper:
    """Updates of parts of an array as functions that return a new array.

    ============================  ==============================
    expression                    what it computes
    ============================  ==============================
    ``x.at[idx].set(y)``          ``x[idx] = y``
    ``x.at[idx].add(y)``          ``x[idx] += y``
    ``x.at[idx].subtract(y)``     ``x[idx] -= y``
    ``x.at[idx].multiply(y)``     ``x[idx] *= y``
    ``x.at[idx].divide(y)``       ``x[idx] /= y``
    ``x.at[idx].power(y)``        ``x[idx] **= y``
    ``x.at[idx].min(y)``          ``x[idx] = minimum(x[idx], y)``
    ``x.at[idx].max(y)``          ``x[idx] = maximum(x[idx], y)``
    ``x.at[idx].apply(f)``        ``x[idx] = f(x[idx])``
    ``x.at[idx].get()``           ``x[idx]``
    ============================  ==============================

    Each is done on a copy, and every update counts: where an index is repeated, ``add`` adds
    all its values. ``mode`` says what happens out of bounds: "drop" (updates, their default)
    leaves out, "fill" (``get`` only) returns ``fill_value``, "clip" takes the nearest position,
    "promise_in_bounds" (default of ``get``) says that it does not happen. ``unique_indices`` and
    ``indices_are_sorted`` are promises that allow faster code. Negative indices count from the
    end unless ``wrap_negative_indices=False``.

    >>> import weft.numpy as jnp
    >>> jnp.zeros(4).at[jnp.array([1, 1, 3])].add(2.0)
    Array([0., 4., 0., 2.], dtype=float32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> Any:
        aval = self.array.aval
        if aval.is_ref:
            return aval.at(self.array)[index]
        return IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.array!r})"


def _part(x: Any, index: Any) -> IndexUpdateRef:
    return IndexUpdateRef(x, index)


def _updating(
    scatter: Any,
    combine: Any,
    name: str,
    doc: str,
    example: str,
    finish: Callable[[Any, Any], Any] | None = None,
) -> Callable[..., Array]:
    """A method that scatters values; with ``finish``, into ones that are then combined with x.

    ``combine`` does to one element what ``scatter`` does, or is None where the value replaces it.
    """

    def method(
        self: IndexUpdateRef,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        options: dict[str, Any] = {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
            "mode": mode,
            "wrap_negative_indices": wrap_negative_indices,
        }
        if out_sharding is not None:
            return divided_as(out_sharding, lambda: method(self, values, **options), f"at[].{name}")
        target = self.array if finish is None else filled(1, typeof(self.array))
        updated = update_index(target, self.index, values, scatter, **options)
        return updated if finish is None else finish(self.array, updated)

    def masked(x: Any, mask: Any, value: Any, **options: Any) -> Array:
        target = x if finish is None else filled(1, typeof(x))
        updated = update_masked(target, mask, value, combine)
        return updated if finish is None else finish(x, updated)

    method.__name__ = name
    method.__qualname__ = f"IndexUpdateRef.{name}"
    method.__doc__ = f"""{doc}

    Args:
        values: Array or scalar that broadcasts to the shape of ``x[index]``.
        indices_are_sorted: Your promise that indices ascend.
        unique_indices: Your promise that no element is named twice, which allows faster code.
        mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest ones,
            "promise_in_bounds" says that all are inside.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
        wrap_negative_indices: Whether negative indices count from the end.

    Returns:
        Array with the shape and dtype of ``x``, which is not changed.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.array([1.0, 6.0]).at[1].{name}(2.0)
        {example}
    """
    return learnt_method(method, _part, masked)


class IndexUpdateRef:
    """A part ``x.at[index]`` of an array, to be read or updated on a copy.

    Args:
        array: The array.
        index: Any index that ``x[index]`` takes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.zeros(3).at[1:].set(5.0)
        Array([0., 5., 5.], dtype=float32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.array!r}, {self.index!r})"

    def _get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return the elements ``x[index]``, with a choice of what happens out of bounds.

        Args:
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice.
            mode: "fill" returns ``fill_value`` out of bounds, "clip" the nearest element,
                "promise_in_bounds" (the default) says that all are inside.
            fill_value: Value for "fill"; by default NaN, the smallest signed or largest unsigned
                integer, or True.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array of the elements.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.arange(3.0).at[jnp.array([1, 7])].get(mode="fill", fill_value=-1.0)
            Array([ 1., -1.], dtype=float32)
        """
        options: dict[str, Any] = {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
            "mode": mode,
            "fill_value": fill_value,
            "wrap_negative_indices": wrap_negative_indices,
        }
        if out_sharding is not None:
            return divided_as(out_sharding, lambda: self._get(**options), "at[...].get")
        return take_index(self.array, self.index, **options)

    @api_boundary
    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy with a function applied to the elements at the index.

        Args:
            func: Function of an array, applied elementwise; to an element that is named twice,
                twice.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``. It can't be differentiated.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.array([1.0, 4.0]).at[1].apply(jnp.sqrt)
            Array([1., 2.], dtype=float32)
        """

        def scatter(x: Any, indices: Any, updates: Any, numbers: Any, **options: Any) -> Any:
            shape = typeof(updates).shape
            return lax.scatter_apply(x, indices, func, numbers, update_shape=shape, **options)

        return update_index(
            self.array,
            self.index,
            filled(0, typeof(self.array).update(shape=())),
            scatter,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            wrap_negative_indices=wrap_negative_indices,
        )

    _get.__name__, _get.__qualname__ = "get", "IndexUpdateRef.get"
    get = learnt_method(_get, _part)
    set = _updating(
        lax.scatter,
        None,
        "set",
        "Return a copy with ``values`` written at the index.",
        "Array([1., 2.], dtype=float32)",
    )
    add = _updating(
        lax.scatter_add,
        lax.add,
        "add",
        "Return a copy with ``values`` added at the index.",
        "Array([1., 8.], dtype=float32)",
    )
    subtract = _updating(
        lax.scatter_sub,
        lax.sub,
        "subtract",
        "Return a copy with ``values`` subtracted at the index.",
        "Array([1., 4.], dtype=float32)",
    )
    multiply = mul = _updating(
        lax.scatter_mul,
        lax.mul,
        "multiply",
        "Return a copy multiplied by ``values`` at the index.",
        "Array([ 1., 12.], dtype=float32)",
    )
    divide = _updating(
        lax.scatter_mul,
        lax.mul,
        "divide",
        "Return a copy divided by ``values`` at the index.",
        "Array([1., 3.], dtype=float32)",
        operator.truediv,
    )
    power = _updating(
        lax.scatter_mul,
        lax.mul,
        "power",
        "Return a copy raised to the power ``values`` at the index.",
        "Array([ 1., 36.], dtype=float32)",
        operator.pow,
    )
    min = _updating(
        lax.scatter_min,
        lax.min,
        "min",
        "Return a copy with the smaller of old value and ``values`` at the index.",
        "Array([1., 2.], dtype=float32)",
    )
    max = _updating(
        lax.scatter_max,
        lax.max,
        "max",
        "Return a copy with the larger of old value and ``values`` at the index.",
        "Array([1., 6.], dtype=float32)",
    )
