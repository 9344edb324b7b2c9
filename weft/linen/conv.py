"""Convolutions: Conv, ConvLocal and ConvTranspose, with channels last."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import lax
from weft import numpy as jnp
from weft.linen import initializers
from weft.linen.dtypes import promote_dtype
from weft.linen.linear import add_bias, default_kernel_init
from weft.linen.module import Module, compact

_PAD_MODES = {"CIRCULAR": "wrap", "REFLECT": "reflect"}


def _spread(x, rank: int) -> tuple[int, ...]:
    """One number, None for 1, or one number a dimension."""
    if x is None:
        return (1,) * rank
    return (x,) * rank if isinstance(x, int) else tuple(x)


def canonicalize_padding(padding, rank: int):
    """Padding as a name, or as a pair of numbers a dimension."""
    if isinstance(padding, str):
        return padding
    if isinstance(padding, int):
        return [(padding, padding)] * rank
    if isinstance(padding, Sequence) and len(padding) == rank:
        pairs = [(p, p) if isinstance(p, int) else p for p in padding]
        if all(isinstance(p, tuple) and len(p) == 2 for p in pairs):
            return pairs
    raise ValueError(
        f"padding={padding!r} must be a name, a number, or {rank} numbers or pairs of numbers"
    )


def _dimension_numbers(ndim: int):
    space = tuple(range(1, ndim - 1))
    lhs = (0, ndim - 1, *space)
    rhs = (ndim - 1, ndim - 2, *range(ndim - 2))
    return lax.ConvDimensionNumbers(lhs, rhs, lhs)


def _merge_batch(inputs, rank: int):
    """Inputs with exactly one batch axis, and the batch axes they had."""
    batch = inputs.ndim - rank - 1
    if batch < 0:
        raise ValueError(
            f"a kernel of {rank} dimensions needs inputs of at least {rank + 1} axes (the last "
            f"one for the features), not shape {inputs.shape}"
        )
    shape = inputs.shape[:batch]
    return (inputs if batch == 1 else jnp.reshape(inputs, (-1, *inputs.shape[batch:]))), shape


def _split_batch(y, batch: tuple[int, ...]):
    return y if len(batch) == 1 else jnp.reshape(y, batch + y.shape[1:])


def _check_mask(mask, shape) -> None:
    if mask is not None and mask.shape != shape:
        raise ValueError(f"the mask has the shape {mask.shape}, but the kernel has {shape}")


class _Conv(Module):
    """What convolutions with shared and with local weights have in common."""

    features: int
    kernel_size: int | Sequence[int]
    strides: int | Sequence[int] | None = 1
    padding: Any = "SAME"
    input_dilation: int | Sequence[int] | None = 1
    kernel_dilation: int | Sequence[int] | None = 1
    feature_group_count: int = 1
    use_bias: bool = True
    mask: Any = None
    dtype: Any = None
    param_dtype: Any = jnp.float32
    precision: Any = None
    kernel_init: Callable = default_kernel_init
    bias_init: Callable = initializers.zeros
    promote_dtype: Callable = promote_dtype
    conv_general_dilated: Callable | None = None
    conv_general_dilated_cls: Any = None

    @property
    def shared_weights(self) -> bool:
        """Whether one kernel is used at every position."""
        raise TypeError("use Conv or ConvLocal")

    def _convolution(self):
        if self.conv_general_dilated_cls is not None:
            return self.conv_general_dilated_cls()
        given = self.conv_general_dilated
        return lax.conv_general_dilated if given is None else given

    @compact
    def __call__(self, inputs: Any) -> weft.Array:
        """Convolve with the kernel and add the bias."""
        size = (self.kernel_size,) if isinstance(self.kernel_size, int) else tuple(self.kernel_size)
        rank = len(size)
        inputs, batch = _merge_batch(inputs, rank)
        dilation = _spread(self.kernel_dilation, rank)
        inputs, padding = self._pad(inputs, size, dilation)
        settings = {
            "lhs_dilation": _spread(self.input_dilation, rank),
            "rhs_dilation": dilation,
            "dimension_numbers": _dimension_numbers(inputs.ndim),
        }
        strides = _spread(self.strides, rank)
        kernel_shape, bias_shape = self._shapes(inputs, size, strides, padding, settings)
        _check_mask(self.mask, kernel_shape)
        kernel = self.param("kernel", self.kernel_init, kernel_shape, self.param_dtype)
        if self.mask is not None:
            kernel = kernel * self.mask
        bias = None
        if self.use_bias:
            bias = self.param("bias", self.bias_init, bias_shape, self.param_dtype)
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        settings["precision"] = self.precision
        if self.shared_weights:
            groups = {"feature_group_count": self.feature_group_count}
            y = self._convolution()(inputs, kernel, strides, padding, **settings, **groups)
        else:
            y = lax.conv_general_dilated_local(
                inputs, kernel, strides, padding, filter_shape=size, **settings
            )
        if bias is not None:
            y = add_bias(y, bias)
        return _split_batch(y, batch)

    def _pad(self, inputs, size, dilation):
        """Inputs padded by the modes that lax does not know, and the padding that is left."""
        padding = canonicalize_padding(self.padding, len(size))
        if padding == "CAUSAL":
            if len(size) != 1:
                raise ValueError("causal padding is for convolutions over one axis")
            left = dilation[0] * (size[0] - 1)
            return jnp.pad(inputs, [(0, 0), (left, 0), (0, 0)]), "VALID"
        if isinstance(padding, str) and padding in _PAD_MODES:
            reach = [(k - 1) * d + 1 for k, d in zip(size, dilation)]
            pads = [(0, 0), *(((k - 1) // 2, k // 2) for k in reach), (0, 0)]
            return jnp.pad(inputs, pads, mode=_PAD_MODES[padding]), "VALID"
        return inputs, padding

    def _shapes(self, inputs, size, strides, padding, settings):
        """The shapes of kernel and bias."""
        channels, groups = inputs.shape[-1], self.feature_group_count
        if self.shared_weights:
            if channels % groups:
                raise ValueError(f"{channels} input features do not split into {groups} groups")
            return (*size, channels // groups, self.features), (self.features,)
        if groups != 1:
            raise NotImplementedError("local convolutions do not split features into groups")
        kernel = weft.ShapeDtypeStruct((*size, channels, self.features), inputs.dtype)
        convolve = lambda x, k: self._convolution()(x, k, strides, padding, **settings)
        out = weft.eval_shape(convolve, inputs, kernel).shape
        return (*out[1:-1], math.prod(size) * channels, self.features), out[1:]


class Conv(_Conv):
    """A convolution, with channels last, over as many spatial axes as the kernel has.

    Args:
        features: the number of output features.
        kernel_size: the size of the window along each spatial axis.
        strides: the step of the window along each spatial axis.
        padding: ``'SAME'``, ``'VALID'``, ``'CIRCULAR'``, ``'REFLECT'``, ``'CAUSAL'`` (for one
            spatial axis), or pairs of padding before and after each axis.
        input_dilation: how far apart the elements of the input are along each axis.
        kernel_dilation: how far apart the elements of the kernel are along each axis.
        feature_group_count: how many groups the input features are divided into; each makes its
            part of the output features.
        use_bias: whether to add a bias.
        mask: an array of the shape of the kernel that multiplies it.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        kernel_init: the initialiser of the kernel: a function of key, shape and dtype.
        bias_init: the initialiser of the bias.
        promote_dtype: the function that brings inputs and parameters to one dtype.
        conv_general_dilated: a function to use instead of ``lax.conv_general_dilated``.
        conv_general_dilated_cls: a class whose instances are used instead of
            ``lax.conv_general_dilated``.

    Example:
        >>> import weft
        >>> layer = Conv(features=4, kernel_size=(3, 3), strides=2)
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((1, 8, 8, 3)))[0].shape
        (1, 4, 4, 4)
    """

    @property
    def shared_weights(self) -> bool:
        """True: one kernel for all positions."""
        return True


class ConvLocal(_Conv):
    """A convolution with a kernel of its own for every position.

    Args:
        features: the number of output features.
        kernel_size: the size of the window along each spatial axis.
        strides: the step of the window along each spatial axis.
        padding: ``'SAME'``, ``'VALID'``, ``'CIRCULAR'``, ``'REFLECT'``, ``'CAUSAL'`` (for one
            spatial axis), or pairs of padding before and after each axis.
        input_dilation: how far apart the elements of the input are along each axis.
        kernel_dilation: how far apart the elements of the kernel are along each axis.
        feature_group_count: how many groups the input features are divided into; each makes its
            part of the output features.
        use_bias: whether to add a bias.
        mask: an array of the shape of the kernel that multiplies it.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        kernel_init: the initialiser of the kernel: a function of key, shape and dtype.
        bias_init: the initialiser of the bias.
        promote_dtype: the function that brings inputs and parameters to one dtype.
        conv_general_dilated: a function to use instead of ``lax.conv_general_dilated``.
        conv_general_dilated_cls: a class whose instances are used instead of
            ``lax.conv_general_dilated``.

    Example:
        >>> import weft
        >>> layer = ConvLocal(features=4, kernel_size=(3,))
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((1, 8, 3)))[0].shape
        (1, 8, 4)
    """

    @property
    def shared_weights(self) -> bool:
        """False: every position has its own kernel."""
        return False


class ConvTranspose(Module):
    """The transpose of a convolution, which enlarges inputs by its strides.

    Args:
        features: the number of output features.
        kernel_size: the size of the window along each spatial axis.
        strides: the step of the window along each spatial axis.
        padding: ``'SAME'``, ``'VALID'``, ``'CIRCULAR'``, or pairs of padding before and after each
            axis.
        kernel_dilation: how far apart the elements of the kernel are along each axis.
        use_bias: whether to add a bias.
        mask: an array of the shape of the kernel that multiplies it.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        kernel_init: the initialiser of the kernel: a function of key, shape and dtype.
        bias_init: the initialiser of the bias.
        transpose_kernel: flip the kernel and exchange its inputs and outputs, so that it is the
            gradient of a convolution.
        promote_dtype: the function that brings inputs and parameters to one dtype.
        preferred_element_type: the dtype in which products are summed.

    Example:
        >>> import weft
        >>> layer = ConvTranspose(features=4, kernel_size=(3, 3), strides=(2, 2))
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((1, 8, 8, 3)))[0].shape
        (1, 16, 16, 4)
    """

    features: int
    kernel_size: int | Sequence[int]
    strides: Sequence[int] | None = None
    padding: Any = "SAME"
    kernel_dilation: Sequence[int] | None = None
    use_bias: bool = True
    mask: Any = None
    dtype: Any = None
    param_dtype: Any = jnp.float32
    precision: Any = None
    kernel_init: Callable = default_kernel_init
    bias_init: Callable = initializers.zeros
    transpose_kernel: bool = False
    promote_dtype: Callable = promote_dtype
    preferred_element_type: Any = None

    @compact
    def __call__(self, inputs: Any) -> weft.Array:
        """Spread the inputs by the strides, convolve, and add the bias."""
        size = (self.kernel_size,) if isinstance(self.kernel_size, int) else tuple(self.kernel_size)
        rank = len(size)
        inputs, batch = _merge_batch(inputs, rank)
        strides = _spread(self.strides, rank)
        channels = inputs.shape[-1], self.features
        shape = size + (channels[::-1] if self.transpose_kernel else channels)
        _check_mask(self.mask, shape)
        kernel = self.param("kernel", self.kernel_init, shape, self.param_dtype)
        if self.mask is not None:
            kernel = kernel * self.mask
        bias = None
        if self.use_bias:
            bias = self.param("bias", self.bias_init, (self.features,), self.param_dtype)
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        circular = self.padding == "CIRCULAR"
        y = lax.conv_transpose(
            inputs,
            kernel,
            strides,
            "VALID" if circular else canonicalize_padding(self.padding, rank),
            rhs_dilation=_spread(self.kernel_dilation, rank),
            transpose_kernel=self.transpose_kernel,
            precision=self.precision,
            preferred_element_type=self.preferred_element_type,
        )
        if circular:
            spread = [n * s for n, s in zip(inputs.shape[1:-1], strides)]
            y = _wrap_around(y, spread, self.transpose_kernel)
        if bias is not None:
            y = add_bias(y, bias)
        return _split_batch(y, batch)


def _wrap_around(y, period, transposed: bool):
    """Add what lies outside of one period to where it is inside."""
    pads = [(0, 0)]
    for n, p in zip(y.shape[1:-1], period):
        missing = -(n - p) % (2 * p)
        half, other = missing // 2, (missing + 1) // 2
        pads.append((half, other) if transposed else (other, half))
    y = jnp.pad(y, [*pads, (0, 0)])
    for axis, p in enumerate(period, 1):
        y = jnp.reshape(y, (*y.shape[:axis], -1, p, *y.shape[axis + 1 :])).sum(axis)
    return y
