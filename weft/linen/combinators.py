"""Networks from functions and layers: Sequential, BatchApply."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from weft import numpy as jnp
from weft import tree_util
from weft.linen.module import Module, compact


class Sequential(Module):
    """A module that calls layers one after the other.

    A tuple that a layer returns becomes the arguments of the next one, a dictionary its keyword
    arguments.

    Args:
        layers: the layers: modules or functions.

    Example:
        >>> import weft
        >>> from weft import linen as nn
        >>> model = nn.Sequential([nn.Dense(4), nn.relu, nn.Dense(2)])
        >>> sorted(model.init(weft.random.key(0), jnp.ones(3))["params"])
        ['layers_0', 'layers_2']
    """

    layers: Sequence[Callable]

    def __post_init__(self):
        if not isinstance(self.layers, Sequence):
            kind = type(self.layers).__name__
            raise ValueError(f"Sequential takes a list of layers, not {kind}: write [a, b]")
        super().__post_init__()

    @compact
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The last layer's output."""
        if not self.layers:
            raise ValueError("a Sequential needs at least one layer")
        out = self.layers[0](*args, **kwargs)
        for layer in self.layers[1:]:
            if isinstance(out, tuple):
                out = layer(*out)
            elif isinstance(out, dict):
                out = layer(**out)
            else:
                out = layer(out)
        return out


class BatchApply:
    """A function that merges the leading axes of its inputs into one before it calls another.

    Args:
        f: the function to call. The merged axis of its results is split again.
        num_dims: how many leading axes to merge.

    Example:
        >>> BatchApply(lambda x: x.sum(-1))(jnp.ones((2, 3, 4))).shape
        (2, 3)
    """

    def __init__(self, f: Callable[..., Any], num_dims: int = 2) -> None:
        self._f, self.num_dims = f, num_dims

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        n = self.num_dims
        deep = [x for x in tree_util.tree_leaves((args, kwargs)) if jnp.ndim(x) >= n]
        if not deep:
            raise ValueError(f"BatchApply needs an input with at least {n} axes")
        batch = jnp.shape(deep[0])[:n]

        def merge(x):
            if jnp.ndim(x) < n:
                return x
            return jnp.reshape(x, (math.prod(jnp.shape(x)[:n]), *jnp.shape(x)[n:]))

        args, kwargs = tree_util.tree_map(merge, (args, kwargs))
        split = lambda y: jnp.reshape(y, batch + y.shape[1:])
        return tree_util.tree_map(split, self._f(*args, **kwargs))
