"""Layers around layers that normalise their weights: WeightNorm, SpectralNorm."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from weft import lax, random, tree_util
from weft import numpy as jnp
from weft.linen import initializers
from weft.linen.dtypes import canonicalize_dtype
from weft.linen.module import Module, compact
from weft.linen.normalization import canonical_axes
from weft.linen.transforms import map_variables


def _unit(x, axis=None, eps=1e-12):
    """Scaled to length one."""
    return x * lax.rsqrt((x * x).sum(axis=axis, keepdims=True) + eps)


def _path_text(module, path) -> str:
    """Where a weight is, from the wrapped layer on; the collection is left out."""
    return f"{module.name}/{tree_util.keystr(path[1:], simple=True, separator='/')}"


class WeightNorm(Module):
    """A layer that calls another one with weights of length 1 a feature, times learnt scales.

    Reference: Salimans and Kingma, Weight Normalization, 2016.

    Args:
        layer_instance: the other layer.
        epsilon: a small number added to squared lengths.
        dtype: the dtype of the result. By default what weights and scales promote to.
        param_dtype: the dtype of the scales.
        use_scale: whether to multiply by a scale.
        scale_init: the initialiser of the scale.
        feature_axes: the axes of the features; lengths are taken over the others.
        variable_filter: the names of the weights to normalise; None for all.

    Example:
        >>> import weft
        >>> from weft import linen as nn
        >>> layer = WeightNorm(nn.Dense(2))
        >>> sorted(layer.init(weft.random.key(0), jnp.ones(3))["params"])
        ['layer_instance', 'layer_instance/kernel/scale']
    """

    layer_instance: Module
    epsilon: float = 1e-12
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_scale: bool = True
    scale_init: Callable = initializers.ones
    feature_axes: Any = -1
    variable_filter: Iterable | None = field(default_factory=lambda: frozenset({"kernel"}))

    @compact
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer with normalised weights."""
        change = lambda tree: tree_util.tree_map_with_path(self._scaled, tree)
        call = lambda layer: layer(*args, **kwargs)
        lifted = map_variables(call, trans_in_fn=change, init=self.is_initializing())
        return lifted(self.layer_instance)

    def _scaled(self, path, weight):
        value = jnp.asarray(weight)
        name = _path_text(self.layer_instance, path)
        if self.variable_filter and not any(part in name for part in self.variable_filter):
            return value
        given = () if self.feature_axes is None else self.feature_axes
        features = canonical_axes(value.ndim, given)
        axes = tuple(i for i in range(value.ndim) if i not in features)
        shape = tuple(value.shape[ax] for ax in features)
        aligned = tuple(value.shape[ax] if ax in features else 1 for ax in range(value.ndim))
        out, args = _unit(value, axes, self.epsilon), [weight]
        if self.use_scale:
            scale = self.param(name + "/scale", self.scale_init, shape, self.param_dtype)
            args.append(scale)
            out = out * jnp.reshape(scale, aligned)
        return jnp.asarray(out, canonicalize_dtype(*args, dtype=self.dtype))


class SpectralNorm(Module):
    """A layer that calls another one with weights divided by their largest singular value.

    It is estimated by power iteration. Reference: Miyato et al., Spectral Normalization for
    Generative Adversarial Networks, 2018.

    Args:
        layer_instance: the other layer.
        n_steps: how many steps of power iteration a call makes.
        epsilon: a small number added to lengths.
        dtype: the dtype of the result. By default that of the weights.
        param_dtype: the dtype of the vectors of the iteration.
        error_on_non_matrix: raise an error for weights of more than two dimensions, which are
            otherwise taken as matrices of (others, features).
        collection_name: the collection in which the vectors of the iteration are kept.

    Example:
        >>> import weft
        >>> from weft import linen as nn
        >>> layer = SpectralNorm(nn.Dense(2))
        >>> variables = layer.init(weft.random.key(0), jnp.ones(3), update_stats=False)
        >>> sorted(variables["batch_stats"])
        ['layer_instance/kernel/sigma', 'layer_instance/kernel/u']
    """

    layer_instance: Module
    n_steps: int = 1
    epsilon: float = 1e-12
    dtype: Any = None
    param_dtype: Any = jnp.float32
    error_on_non_matrix: bool = False
    collection_name: str = "batch_stats"

    @compact
    def __call__(self, *args: Any, update_stats: bool, **kwargs: Any) -> Any:
        """Call the layer with normalised weights; ``update_stats`` keeps the iterated vectors."""
        one = functools.partial(self._divided, update_stats=update_stats)
        change = lambda tree: tree_util.tree_map_with_path(one, tree)
        call = lambda layer: layer(*args, **kwargs)
        settings = {"init": self.is_initializing(), "mutable": True}
        return map_variables(call, trans_in_fn=change, **settings)(self.layer_instance)

    def _divided(self, path, weight, update_stats: bool):
        value = jnp.asarray(weight)
        shape = value.shape
        if value.ndim <= 1 or self.n_steps < 1:
            return value
        if value.ndim > 2:
            if self.error_on_non_matrix:
                raise ValueError(
                    f"the weight {_path_text(self.layer_instance, path)!r} isn't a matrix"
                )
            value = jnp.reshape(value, (-1, shape[-1]))
        where, name = self.collection_name, _path_text(self.layer_instance, path)
        # The key is taken only where the vector is made, so that apply needs no stream.
        known = self.has_variable(where, name + "/u")
        key = None if known else self.make_rng("params")
        size = (1, value.shape[-1])
        vector = self.variable(where, name + "/u", random.normal, key, size, self.param_dtype)
        norm = self.variable(where, name + "/sigma", jnp.ones, (), self.param_dtype)
        u = vector.value
        for _ in range(self.n_steps):
            v = _unit(jnp.matmul(u, value.T), eps=self.epsilon)
            u = _unit(jnp.matmul(v, value), eps=self.epsilon)
        u, v = lax.stop_gradient(u), lax.stop_gradient(v)
        sigma = jnp.matmul(jnp.matmul(v, value), u.T)[0, 0]
        value = jnp.reshape(value / jnp.where(sigma != 0, sigma, 1), shape)
        if update_stats:
            vector.value, norm.value = u, sigma
        return jnp.asarray(value, canonicalize_dtype(weight, u, v, sigma, dtype=self.dtype))
