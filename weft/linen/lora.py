"""Low-rank adapters: train a small product of two matrices beside a frozen kernel."""

from collections.abc import Callable
from typing import Any

import weft
from weft import lax
from weft import numpy as jnp
from weft.linen import initializers
from weft.linen.core import FrozenDict
from weft.linen.dtypes import promote_dtype
from weft.linen.module import Module, compact


class LoRA(Module):
    """A low-rank product, ``x @ a @ b * alpha / rank``, plus the output of another layer.

    The factors are 'lora_a' and 'lora_b' in the collection 'params', which optimisers can select by
    name. Reference: Hu et al., LoRA, 2021.

    Args:
        features: the number of output features.
        rank: the rank of the adapter.
        alpha: the adapter's product is multiplied by ``alpha / rank``. By default ``alpha`` is the
            rank.
        base: the layer to adapt; None for the product alone.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        a_init: the initialiser of the first factor.
        b_init: the initialiser of the second factor; zeros, so that an adapted layer begins as it
            was.

    Example:
        >>> import weft
        >>> from weft.linen import Dense
        >>> layer = LoRA(features=4, rank=2, base=Dense(4))
        >>> sorted(layer.init(weft.random.key(0), jnp.ones((1, 3)))["params"])
        ['base', 'lora_a', 'lora_b']
    """

    features: int
    rank: int
    alpha: float | None = None
    base: Callable | None = None
    dtype: Any = None
    param_dtype: Any = jnp.float32
    a_init: Callable = initializers.he_uniform()
    b_init: Callable = initializers.zeros

    @compact
    def __call__(self, x: Any) -> weft.Array:
        """Add the adapter to the base layer's output."""
        if self.rank < 1:
            raise ValueError(f"the rank of an adapter is at least 1, not {self.rank}")
        a = self.param("lora_a", self.a_init, (x.shape[-1], self.rank), self.param_dtype)
        b = self.param("lora_b", self.b_init, (self.rank, self.features), self.param_dtype)
        inputs, a, b = promote_dtype(x, a, b, dtype=self.dtype)
        scale = (self.rank if self.alpha is None else self.alpha) / self.rank
        out = jnp.dot(jnp.dot(inputs, a), b) * scale
        return out if self.base is None else out + self.base(x)


class LoRADense(Module):
    """A Dense layer with a frozen kernel and a trained low-rank adapter.

    No gradient flows to the kernel and the bias, which have the names that Dense gives them.

    Args:
        features: the number of output features.
        rank: the rank of the adapter.
        alpha: the adapter's product is multiplied by ``alpha / rank``. By default ``alpha`` is the
            rank.
        use_bias: whether to add a bias.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        kernel_init: the initialiser of the kernel: a function of key, shape and dtype.
        bias_init: the initialiser of the bias.
        a_init: the initialiser of the first factor.
        b_init: the initialiser of the second factor; zeros, so that an adapted layer begins as it
            was.

    Example:
        >>> import weft
        >>> layer = LoRADense(features=4, rank=2)
        >>> sorted(layer.init(weft.random.key(0), jnp.ones((1, 3)))["params"])
        ['bias', 'kernel', 'lora_a', 'lora_b']
    """

    features: int
    rank: int
    alpha: float | None = None
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = jnp.float32
    kernel_init: Callable = initializers.lecun_normal()
    bias_init: Callable = initializers.zeros
    a_init: Callable = initializers.he_uniform()
    b_init: Callable = initializers.zeros

    @compact
    def __call__(self, x: Any) -> weft.Array:
        """The frozen layer plus the adapter."""
        shape = (x.shape[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, self.param_dtype)
        bias = None
        if self.use_bias:
            bias = self.param("bias", self.bias_init, (self.features,), self.param_dtype)
        a = self.param("lora_a", self.a_init, (x.shape[-1], self.rank), self.param_dtype)
        b = self.param("lora_b", self.b_init, (self.rank, self.features), self.param_dtype)
        x, kernel, bias, a, b = promote_dtype(x, kernel, bias, a, b, dtype=self.dtype)
        scale = (self.rank if self.alpha is None else self.alpha) / self.rank
        out = jnp.dot(x, lax.stop_gradient(kernel)) + jnp.dot(jnp.dot(x, a), b) * scale
        return out if bias is None else out + lax.stop_gradient(bias)


def merge_lora(params: Any, alpha: float | None = None) -> Any:
    """Return parameters of plain Dense layers from those of LoRADense, anywhere in a tree.

    Args:
        params: the parameters, nested dictionaries.
        alpha: the ``alpha`` of the layers.

    Returns:
        The parameters without adapters, whose products were added to the kernels.

    Example:
        >>> adapter = {"lora_a": jnp.ones((3, 1)), "lora_b": jnp.ones((1, 2))}
        >>> merge_lora({"kernel": jnp.zeros((3, 2)), **adapter})["kernel"][0]
        Array([1., 1.], dtype=float32)
    """
    if not isinstance(params, (dict, FrozenDict)):
        return params
    if "lora_a" not in params or "kernel" not in params:
        return {name: merge_lora(value, alpha) for name, value in params.items()}
    a, b = params["lora_a"], params["lora_b"]
    scale = (a.shape[-1] if alpha is None else alpha) / a.shape[-1]
    rest = {name: value for name, value in params.items() if not name.startswith("lora_")}
    return {**rest, "kernel": params["kernel"] + (a @ b) * scale}
