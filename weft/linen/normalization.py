"""Normalisation of activations: BatchNorm, LayerNorm, RMSNorm, GroupNorm, InstanceNorm."""

from collections.abc import Callable, Iterable
from typing import Any

import weft
from weft import lax
from weft import numpy as jnp
from weft.linen import initializers
from weft.linen.dtypes import canonicalize_dtype
from weft.linen.module import Module, compact, merge_param


def canonical_axes(ndim: int, axes) -> tuple[int, ...]:
    """One axis or several, counted from the front, in order and once each."""
    axes = tuple(axes) if isinstance(axes, Iterable) else (axes,)
    return tuple(sorted({ax + ndim if ax < 0 else ax for ax in axes}))


def _square(x):
    if jnp.iscomplexobj(x):
        return lax.square(lax.real(x)) + lax.square(lax.imag(x))
    return lax.square(x)


def _mean(layer, mask, axes, across, *xs):
    """Means over axes of the array and, for a named axis, over devices: all in one reduction."""
    means = [jnp.mean(x, axes, where=mask) for x in xs]
    if across is None:
        return means
    groups = {"axis_index_groups": layer.axis_index_groups}
    if len(means) == 1:
        return [lax.pmean(means[0], across, **groups)]
    together = lax.pmean(jnp.stack(means), across, **groups)
    return [together[i] for i in range(len(means))]


def statistics(layer, x, axes, mask=None, use_mean: bool = True, across=None):
    """Mean and variance over axes, in at least float32 unless the layer says otherwise."""
    dtype = jnp.result_type(x) if layer.dtype is None else layer.dtype
    if layer.force_float32_reductions:
        dtype = jnp.promote_types(dtype, jnp.float32)
    x = jnp.asarray(x, dtype)
    axes = canonical_axes(x.ndim, axes)
    mask = None if mask is None else jnp.asarray(mask, bool)
    if not use_mean:
        (var,) = _mean(layer, mask, axes, across, _square(x))
        return None, var
    if layer.use_fast_variance:
        mean, square = _mean(layer, mask, axes, across, x, _square(x))
        return mean, jnp.maximum(0.0, square - _square(mean))
    (mean,) = _mean(layer, mask, axes, across, x)
    (var,) = _mean(layer, mask, axes, across, _square(x - jnp.expand_dims(mean, axes)))
    return mean, var


def normalize(layer, x, mean, var, axes, feature_axes, use_bias: bool):
    """``(x - mean) / sqrt(var + epsilon) * scale + bias``, parameters over the feature axes."""
    axes = canonical_axes(x.ndim, axes)
    feature_axes = canonical_axes(x.ndim, feature_axes)
    shape = tuple(x.shape[ax] for ax in feature_axes)
    aligned = tuple(x.shape[ax] if ax in feature_axes else 1 for ax in range(x.ndim))
    args = [x]

    def parameter(name, init):
        value = jnp.reshape(layer.param(name, init, shape, layer.param_dtype), aligned)
        if not layer.force_float32_reductions:
            value = jnp.asarray(value, layer.param_dtype)
        args.append(value)
        return value

    y = x if mean is None else x - jnp.expand_dims(mean, axes)
    factor = lax.rsqrt(jnp.expand_dims(var, axes) + layer.epsilon)
    if layer.use_scale:
        factor = factor * parameter("scale", layer.scale_init)
    y = y * factor
    if use_bias:
        y = y + parameter("bias", layer.bias_init)
    return jnp.asarray(y, canonicalize_dtype(*args, dtype=layer.dtype))


class BatchNorm(Module):
    """A layer that normalises over the batch, with running averages in 'batch_stats'.

    In training, pass ``use_running_average=False`` and ``mutable=["batch_stats"]``.

    Args:
        use_running_average: normalise by the running averages, as at test time. It can be given to
            the call instead.
        axis: the axis or axes of the features; statistics are taken over the others.
        momentum: the weight of the past in the running averages.
        epsilon: a small number added to the variance.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        use_bias: whether to add a bias.
        use_scale: whether to multiply by a scale.
        bias_init: the initialiser of the bias.
        scale_init: the initialiser of the scale.
        axis_name: the name of a mapped axis (of ``pmap``, ``vmap`` or ``shard_map``) over which
            statistics are combined.
        axis_index_groups: the groups of devices along ``axis_name`` that are combined; all by
            default.
        use_fast_variance: compute the variance as mean(x²) - mean(x)², which is faster and less
            precise.
        force_float32_reductions: compute statistics in float32 at least.

    Example:
        >>> import weft
        >>> layer = BatchNorm(use_running_average=False)
        >>> variables = layer.init(weft.random.key(0), jnp.ones((8, 3)))
        >>> y, updates = layer.apply(variables, jnp.ones((8, 3)), mutable=["batch_stats"])
        >>> updates["batch_stats"]["mean"]
        Array([0.01, 0.01, 0.01], dtype=float32)
    """

    use_running_average: bool | None = None
    axis: int = -1
    momentum: float = 0.99
    epsilon: float = 1e-5
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Callable = initializers.zeros
    scale_init: Callable = initializers.ones
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(
        self, x: Any, use_running_average: bool | None = None, *, mask: Any = None
    ) -> weft.Array:
        """Normalise, and move the running averages where they are not used."""
        running = merge_param("use_running_average", self.use_running_average, use_running_average)
        features = canonical_axes(x.ndim, self.axis)
        axes = tuple(i for i in range(x.ndim) if i not in features)
        shape = tuple(x.shape[ax] for ax in features)
        dtype = jnp.float32 if self.force_float32_reductions else self.param_dtype
        old_mean = self.variable("batch_stats", "mean", jnp.zeros, shape, dtype)
        old_var = self.variable("batch_stats", "var", jnp.ones, shape, dtype)
        if running:
            mean, var = old_mean.value, old_var.value
            if not self.force_float32_reductions:
                mean, var = (jnp.asarray(v, self.param_dtype) for v in (mean, var))
        else:
            starting = self.is_initializing()
            across = None if starting else self.axis_name
            mean, var = statistics(self, x, axes, mask, across=across)
            if not starting:
                keep, move = self.momentum, 1 - self.momentum
                old_mean.value = keep * old_mean.value + move * mean
                old_var.value = keep * old_var.value + move * var
        return normalize(self, x, mean, var, axes, features, self.use_bias)


class LayerNorm(Module):
    """A layer that normalises over the features of each example.

    Args:
        epsilon: a small number added to the variance.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        use_bias: whether to add a bias.
        use_scale: whether to multiply by a scale.
        bias_init: the initialiser of the bias.
        scale_init: the initialiser of the scale.
        reduction_axes: the axes over which mean and variance are taken.
        feature_axes: the axes that have a scale and a bias of their own.
        axis_name: the name of a mapped axis (of ``pmap``, ``vmap`` or ``shard_map``) over which
            statistics are combined.
        axis_index_groups: the groups of devices along ``axis_name`` that are combined; all by
            default.
        use_fast_variance: compute the variance as mean(x²) - mean(x)², which is faster and less
            precise.
        force_float32_reductions: compute statistics in float32 at least.

    Example:
        >>> import weft
        >>> LayerNorm().init_with_output(weft.random.key(0), jnp.array([[1.0, 3.0]]))[0].round(3)
        Array([[-1.,  1.]], dtype=float32)
    """

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Callable = initializers.zeros
    scale_init: Callable = initializers.ones
    reduction_axes: Any = -1
    feature_axes: Any = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> weft.Array:
        """Normalise over the reduction axes."""
        mean, var = statistics(self, x, self.reduction_axes, mask, across=self.axis_name)
        axes = self.reduction_axes, self.feature_axes
        return normalize(self, x, mean, var, *axes, self.use_bias)


class RMSNorm(Module):
    """A layer that divides by the root mean square of each example's features.

    Args:
        epsilon: a small number added to the variance.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        use_scale: whether to multiply by a scale.
        scale_init: the initialiser of the scale.
        reduction_axes: the axes over which the mean square is taken.
        feature_axes: the axes that have a scale of their own.
        axis_name: the name of a mapped axis (of ``pmap``, ``vmap`` or ``shard_map``) over which
            statistics are combined.
        axis_index_groups: the groups of devices along ``axis_name`` that are combined; all by
            default.
        use_fast_variance: compute the variance as mean(x²) - mean(x)², which is faster and less
            precise.
        force_float32_reductions: compute statistics in float32 at least.

    Example:
        >>> import weft
        >>> RMSNorm().init_with_output(weft.random.key(0), jnp.array([[1.0, 7.0]]))[0].round(3)
        Array([[0.2, 1.4]], dtype=float32)
    """

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_scale: bool = True
    scale_init: Callable = initializers.ones
    reduction_axes: Any = -1
    feature_axes: Any = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> weft.Array:
        """Divide by the root mean square over the reduction axes."""
        across = self.axis_name
        _, var = statistics(self, x, self.reduction_axes, mask, use_mean=False, across=across)
        return normalize(self, x, None, var, self.reduction_axes, self.feature_axes, False)


class GroupNorm(Module):
    """A layer that normalises over groups of channels of each example.

    Args:
        num_groups: the number of groups; None if ``group_size`` is given.
        group_size: how many channels a group has; None if ``num_groups`` is given.
        epsilon: a small number added to the variance.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        use_bias: whether to add a bias.
        use_scale: whether to multiply by a scale.
        bias_init: the initialiser of the bias.
        scale_init: the initialiser of the scale.
        reduction_axes: the axes over which mean and variance are taken, the channels among them. By
            default all but the first.
        axis_name: the name of a mapped axis (of ``pmap``, ``vmap`` or ``shard_map``) over which
            statistics are combined.
        axis_index_groups: the groups of devices along ``axis_name`` that are combined; all by
            default.
        use_fast_variance: compute the variance as mean(x²) - mean(x)², which is faster and less
            precise.
        force_float32_reductions: compute statistics in float32 at least.

    Example:
        >>> import weft
        >>> layer = GroupNorm(num_groups=2)
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((1, 5, 4)))[0].shape
        (1, 5, 4)
    """

    num_groups: int | None = 32
    group_size: int | None = None
    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Callable = initializers.zeros
    scale_init: Callable = initializers.ones
    reduction_axes: Any = None
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> weft.Array:
        """Normalise each group over its channels and all axes but the batch."""
        given = self.reduction_axes
        axes = canonical_axes(x.ndim, [*range(1, x.ndim - 1), -1] if given is None else given)
        if axes[-1] != x.ndim - 1:
            raise ValueError(f"reduction_axes={given} must include the last axis, the features")
        groups = self._groups(x.shape[-1])
        size = x.shape[-1] // groups
        split = lambda a: jnp.reshape(a, (*a.shape[:-1], groups, size))
        mask = None if mask is None else split(mask)
        inner = (*axes[:-1], x.ndim)
        mean, var = statistics(self, split(x), inner, mask, across=self.axis_name)
        mean, var = (jnp.repeat(v, size, axis=-1) for v in (mean, var))
        return normalize(self, x, mean, var, axes[:-1], -1, self.use_bias)

    def _groups(self, channels: int) -> int:
        if (self.num_groups is None) == (self.group_size is None):
            raise ValueError(
                "GroupNorm needs num_groups or group_size, not both: with group_size, pass "
                "num_groups=None"
            )
        groups = self.num_groups
        if self.group_size is not None:
            groups = channels // self.group_size if channels % self.group_size == 0 else 0
        if groups <= 0 or channels % groups:
            size = f"groups of {self.group_size}" if self.group_size else f"{groups} groups"
            raise ValueError(f"{channels} channels do not split into {size}")
        return groups


class InstanceNorm(Module):
    """A layer that normalises every channel of every example over the other axes.

    Args:
        epsilon: a small number added to the variance.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        use_bias: whether to add a bias.
        use_scale: whether to multiply by a scale.
        bias_init: the initialiser of the bias.
        scale_init: the initialiser of the scale.
        feature_axes: the axes of the channels.
        axis_name: the name of a mapped axis (of ``pmap``, ``vmap`` or ``shard_map``) over which
            statistics are combined.
        axis_index_groups: the groups of devices along ``axis_name`` that are combined; all by
            default.
        use_fast_variance: compute the variance as mean(x²) - mean(x)², which is faster and less
            precise.
        force_float32_reductions: compute statistics in float32 at least.

    Example:
        >>> import weft
        >>> InstanceNorm().init_with_output(weft.random.key(0), jnp.ones((1, 5, 4)))[0].shape
        (1, 5, 4)
    """

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Callable = initializers.zeros
    scale_init: Callable = initializers.ones
    feature_axes: Any = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> weft.Array:
        """Normalise over all axes but the batch and the features."""
        features = canonical_axes(x.ndim, self.feature_axes)
        if 0 in features:
            raise ValueError("feature_axes cannot include axis 0, which is the batch")
        axes = tuple(i for i in range(1, x.ndim) if i not in features)
        mean, var = statistics(self, x, axes, mask, across=self.axis_name)
        return normalize(self, x, mean, var, axes, features, self.use_bias)
