"""A random generator that keeps its own state, in a mutable reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes, random
from weft.core.trace import is_tracing, state
from weft.numpy.creation import asarray, zeros
from weft.ref import Ref, new_ref
from weft.transforms.vmap import BatchTrace
from weft.tree.registry import register_pytree_node

__all__ = ("StatefulPRNG", "stateful_rng")

Size = int | Sequence[int] | None


class StatefulPRNG:
    """A generator whose draws differ from one another; ``stateful_rng`` makes it.

    It may be an argument of functions under ``jit`` and the like, or be closed over by them, but
    not be returned from them.

    >>> rng = stateful_rng(42)
    >>> rng.uniform()
    Array(0.5302608, dtype=float32)
    >>> rng.uniform()
    Array(0.72766423, dtype=float32)
    """

    def __init__(self, _base_key: Any, _counter: Ref) -> None:
        if not dtypes.issubdtype(getattr(_base_key, "dtype", None), dtypes.prng_key):
            raise ValueError(
                f"StatefulPRNG takes a typed key, weft.random.key(0), got {_base_key!r}; or write"
                " stateful_rng(seed)"
            )
        if not isinstance(_counter, Ref):
            raise ValueError(
                f"StatefulPRNG counts in a reference to an integer, weft.new_ref(0), got"
                f" {_counter!r}"
            )
        self._base_key = _base_key
        self._counter = _counter

    def __repr__(self) -> str:
        return f"StatefulPRNG(_base_key={self._base_key!r}, _counter={self._counter!r})"

    def key(self, shape: int | Sequence[int] = ()) -> Any:
        """A new key, or an array of them; the generator moves on.

        >>> stateful_rng(0).key(3).shape
        (3,)
        """
        self._check_mapped()
        count = self._counter[...]
        self._counter[...] = count + 1
        key = random.fold_in(self._base_key, count)
        return random.split(key, shape) if _shape(shape) else key

    def _check_mapped(self) -> None:
        """Raise where a function under vmap would draw the same for all rows."""
        trace = state.trace
        while type(trace) is not BatchTrace and hasattr(trace, "parent"):
            trace = trace.parent
        counter = self._counter
        if type(trace) is BatchTrace and getattr(counter, "_trace", None) is not trace:
            raise ValueError(
                "vmap closes over a random generator, so every row would draw the same numbers; "
                "pass one generator per row: vmap(f)(rng.split(n), ...)"
            )

    def random(self, size: Size = None, dtype: Any = float) -> Any:
        """Floats from 0 up to, but not including, 1."""
        return random.uniform(self.key(), _shape(size), dtype)

    def uniform(self, low: Any = 0, high: Any = 1, size: Size = None, *, dtype: Any = float) -> Any:
        """Floats distributed evenly between ``low`` and ``high``."""
        shape = _shape(size, low, high)
        return random.uniform(self.key(), shape, dtype, minval=low, maxval=high)

    def normal(self, loc: Any = 0, scale: Any = 1, size: Size = None, *, dtype: Any = float) -> Any:
        """Floats of the normal distribution of mean ``loc`` and deviation ``scale``."""
        drawn = random.normal(self.key(), _shape(size, loc, scale), dtype)
        return asarray(loc, drawn.dtype) + asarray(scale, drawn.dtype) * drawn

    def integers(self, low: Any, high: Any = None, size: Size = None, *, dtype: Any = int) -> Any:
        """Integers from ``low`` up to, but not including, ``high``; below ``low`` if that is all.

        >>> stateful_rng(42).integers(0, 10, 3)
        Array([4, 1, 9], dtype=int32)
        """
        if high is None:
            low, high = 0, low
        return random.randint(self.key(), _shape(size, low, high), low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Independent generators in one, to be mapped over by ``vmap``.

        >>> import weft
        >>> weft.vmap(lambda rng: rng.uniform())(stateful_rng(123).split(3)).shape
        (3,)
        """
        return StatefulPRNG(self.key(num), new_ref(zeros(_shape(num), int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of independent generators.

        >>> [int(rng.integers(10)) for rng in stateful_rng(123).spawn(2)]
        [4, 2]
        """
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]


def _rebuilt(_: Any, children: Any) -> StatefulPRNG:
    """A generator of the leaves of a tree, which may be placeholders of any kind."""
    rng = object.__new__(StatefulPRNG)
    rng._base_key, rng._counter = children
    return rng


register_pytree_node(StatefulPRNG, lambda rng: ((rng._base_key, rng._counter), ()), _rebuilt)


def _shape(size: Any, *parameters: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*map(np.shape, parameters))
    return (int(size),) if np.ndim(size) == 0 else tuple(size)


def stateful_rng(seed: Any = None, *, impl: str | None = None) -> StatefulPRNG:
    """Return a random generator that changes with every draw, like ``numpy.random.default_rng``.

    Args:
        seed: an integer or a random key. Without one it starts differently each time, which only
            works outside of traced functions.
        impl: the name of the generator of keys; ``weft.random.key`` lists them.

    Returns:
        A ``StatefulPRNG``.

    Example:
        >>> import weft
        >>> rng = stateful_rng(42)
        >>> draw = weft.jit(rng.normal)
        >>> float(draw()) == float(draw())
        False
    """
    if seed is None:
        if is_tracing():
            raise TypeError(
                "stateful_rng needs a seed inside a traced function, or every run of the compiled "
                "function would draw the same numbers; pass seed="
            )
        seed = np.random.default_rng().integers(1 << 32)
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))
