"""What all sparse formats share: their base class, and operations that keep their name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft import numpy as jnp
from weft.api.batching import vmap
from weft.base import errors, knobs
from weft.base.functional import lru
from weft.base.record import Record
from weft.control.composite import Composed
from weft.core.jaxpr import ClosedJaxpr
from weft.core.staging import stage
from weft.core.trace import Tracer, typeof


class SparseEfficiencyError(ValueError):
    """The error where a sparse array would take much more memory than it needs.

    >>> from weft.experimental import sparse
    >>> issubclass(sparse.SparseEfficiencyError, ValueError)
    True
    """


class SparseEfficiencyWarning(UserWarning):
    """The warning where a sparse array takes much more memory than it needs.

    >>> from weft.experimental import sparse
    >>> issubclass(sparse.SparseEfficiencyWarning, UserWarning)
    True
    """


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """The warning for an operation without a fast form in a GPU's library of sparse operations.

    >>> from weft.experimental import sparse
    >>> issubclass(sparse.CuSparseEfficiencyWarning, sparse.SparseEfficiencyWarning)
    True
    """


class SparseInfo(Record):
    """What is known of a sparse array besides its buffers."""

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


class SparseOperation(Composed):
    """A function of buffers of sparse arrays, which programs show by its name.

    ``compute`` gives its results as a list; derivatives and batches are those of ``compute``.
    """

    def __init__(self, compute: Callable[..., list[Any]], name: str | None = None) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__
        self.name = name or compute.__name__.removesuffix("_p")
        super().__init__()

    def call(self, *args: Any, **params: Any) -> list[Any]:
        """The results for these buffers."""
        avals = tuple([typeof(x) for x in args])
        jaxpr = _program(self, avals, tuple(params.items()), knobs.context_key())
        return super().bind(*args, jaxpr=jaxpr, **params)

    def bind(self, *args: Any, **params: Any) -> Any:
        """The same, a single result without its list; programs give the staged computation too."""
        if "jaxpr" in params:
            return super().bind(*args, **params)
        outs = self.call(*args, **params)
        return outs if len(outs) > 1 else outs[0]


@lru(1024)
def _program(operation: SparseOperation, avals: Any, params: Any, context: Any) -> ClosedJaxpr:
    return stage(lambda *args: operation.compute(*args, **dict(params)), avals)


class JAXSparse:
    """The base of sparse arrays: buffers, a shape, and operators that keep them sparse.

    Args:
        args: the buffers, as the format has them.
        shape: the shape of the array.

    Example:
        >>> from weft.experimental import sparse
        >>> isinstance(sparse.eye(2), sparse.JAXSparse)
        True
    """

    data: Any
    shape: tuple[int, ...]
    __array_ufunc__ = None  # so that NumPy leaves its operators to the ones here
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, args: tuple[Any, ...], *, shape: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define its buffers")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def nse(self) -> int:
        """The number of stored elements."""
        return self.data.shape[-1]

    @property
    def T(self) -> Any:
        return self.transpose()

    @property
    def _bufs(self) -> tuple[Any, ...]:
        return self.tree_flatten()[0]

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        raise NotImplementedError(f"{type(self).__name__} has no buffers")

    def todense(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no dense form")

    def transpose(self, axes: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no transpose")

    def block_until_ready(self) -> Any:
        for buffer in self._bufs:
            buffer.block_until_ready()
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            layout = "".join(
                f", {key}={getattr(self, key)}"
                for key in ("n_batch", "n_dense")
                if getattr(self, key, 0)
            )
            sizes = ", ".join(map(str, self.shape))
            return f"{name}({self.dtype.name}[{sizes}], nse={self.nse}{layout})"
        except (AttributeError, IndexError, TypeError):  # in a tree of other things than arrays
            return f"{name}({', '.join(map(repr, self._bufs))})"


# --- small helpers --------------------------------------------------------------------------------


def over_batch(fun: Callable[..., Any], count: int) -> Callable[..., Any]:
    """``fun`` mapped over ``count`` leading dimensions of all its arguments."""
    for _ in range(count):
        fun = vmap(fun)
    return fun


def columns(indices: Any, which: Any = None) -> tuple[Any, ...]:
    """Rows of indices as one array for each dimension."""
    chosen = range(indices.shape[-1]) if which is None else which
    return tuple(indices[..., i] for i in chosen)


def taken(arr: Any, places: Any) -> Any:
    """The elements at some places, zero at those outside."""
    return arr.at[places].get(mode="fill", fill_value=0, wrap_negative_indices=False)


def scattered(shape: Any, places: Any, values: Any) -> Any:
    """Zeros with values added at some places; those outside count for nothing."""
    zeros = jnp.zeros(shape, values.dtype)
    return zeros.at[places].add(values, mode="drop", wrap_negative_indices=False)


def inside(indices: Any, shape: Any) -> Any:
    """Which rows of indices lie within a shape; the others are padding."""
    return (indices < limits(shape, indices.dtype, indices.ndim)).all(-1)


def limits(shape: Any, dtype: Any, ndim: int = 1) -> Any:
    """A shape as a row of indices, with leading dimensions of size 1 up to ``ndim``."""
    return jnp.array(shape, dtype).reshape((1,) * (ndim - 1) + (len(shape),))


def trailing(mask: Any, like: Any) -> Any:
    """A mask with dimensions of size 1 after its own, as many as ``like`` has more."""
    return mask.reshape(mask.shape + (1,) * (like.ndim - mask.ndim))


def concrete_count(value: Any, what: str) -> int:
    """A number that decides shapes, which must be known while a function is traced."""
    if isinstance(value, Tracer):
        raise errors.ConcretizationTypeError(
            value, f"the number of stored elements of {what} depends on values; pass nse="
        )
    return int(value)
