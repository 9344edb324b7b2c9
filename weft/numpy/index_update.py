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
    method.__doc__ = doc
    return learnt_method(method, _part, masked)


class IndexUpdateRef:
    """A part of an array, to be read or updated."""

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
        """``x[idx]``, with a say in what happens out of bounds."""
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
        """A copy with ``func`` applied at the index, as often as the index names an element."""

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
    set = _updating(lax.scatter, None, "set", "A copy in which ``values`` stand at the index.")
    add = _updating(lax.scatter_add, lax.add, "add", "A copy with ``values`` added at the index.")
    subtract = _updating(
        lax.scatter_sub, lax.sub, "subtract", "A copy with ``values`` subtracted at the index."
    )
    multiply = mul = _updating(
        lax.scatter_mul, lax.mul, "multiply", "A copy multiplied by ``values`` at the index."
    )
    divide = _updating(
        lax.scatter_mul,
        lax.mul,
        "divide",
        "A copy divided by ``values`` at the index.",
        operator.truediv,
    )
    power = _updating(
        lax.scatter_mul, lax.mul, "power", "A copy raised to ``values`` at the index.", operator.pow
    )
    min = _updating(
        lax.scatter_min,
        lax.min,
        "min",
        "A copy with the smaller of old value and ``values`` at the index.",
    )
    max = _updating(
        lax.scatter_max,
        lax.max,
        "max",
        "A copy with the larger of old value and ``values`` at the index.",
    )
