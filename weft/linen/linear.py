"""Layers that multiply by a matrix: Dense, DenseGeneral, Einsum, Embed."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import weft
from weft import lax
from weft import numpy as jnp
from weft.linen import initializers
from weft.linen.dtypes import promote_dtype
from weft.linen.meta import AxisMetadata, replace_boxed
from weft.linen.module import Module, compact, merge_param
from weft.linen.scope import CONCRETE

default_kernel_init = initializers.lecun_normal()
default_embed_init = initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0)


def dot_general_of(layer):
    """The product that a layer uses: made by a class, given as a function, or weft's own."""
    if layer.dot_general_cls is not None:
        return layer.dot_general_cls()
    return lax.dot_general if layer.dot_general is None else layer.dot_general


def as_tuple(x) -> tuple:
    """One number, or several, as a tuple."""
    return tuple(x) if isinstance(x, Iterable) else (x,)


def add_bias(y, bias):
    """Add a bias over the last axes."""
    return y + jnp.reshape(bias, (1,) * (y.ndim - bias.ndim) + bias.shape)


class Dense(Module):
    """A linear layer over the last axis, ``y = x @ kernel + bias``.

    Args:
        features: the number of output features.
        use_bias: whether to add a bias.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        kernel_init: the initialiser of the kernel: a function of key, shape and dtype.
        bias_init: the initialiser of the bias.
        promote_dtype: the function that brings inputs and parameters to one dtype.
        dot_general: a function to use instead of ``lax.dot_general``.
        dot_general_cls: a class whose instances are used instead of ``lax.dot_general``, such as
            ``Fp8DotGeneralOp``.

    Example:
        >>> import weft
        >>> layer = Dense(features=4)
        >>> variables = layer.init(weft.random.key(0), jnp.ones((1, 3)))
        >>> layer.apply(variables, jnp.ones((7, 3))).shape
        (7, 4)
    """

    features: int
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = jnp.float32
    precision: Any = None
    kernel_init: Callable = default_kernel_init
    bias_init: Callable = initializers.zeros
    promote_dtype: Callable = promote_dtype
    dot_general: Callable | None = None
    dot_general_cls: Any = None

    @compact
    def __call__(self, inputs: Any) -> weft.Array:
        """Multiply by the kernel and add the bias."""
        given = inputs.shape if type(inputs) is CONCRETE else jnp.shape(inputs)
        shape = (given[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, self.param_dtype)
        bias = None
        if self.use_bias:
            bias = self.param("bias", self.bias_init, (self.features,), self.param_dtype)
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        dimensions = (((inputs.ndim - 1,), (0,)), ((), ()))
        y = dot_general_of(self)(inputs, kernel, dimensions, precision=self.precision)
        return y if bias is None else add_bias(y, bias)


class DenseGeneral(Module):
    """A linear layer over any axes, to any number of new axes.

    Args:
        features: the sizes of the new axes, which come last.
        axis: the axis or axes of the input to contract.
        batch_dims: leading axes for each element of which the kernel and bias are different.
        use_bias: whether to add a bias.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        kernel_init: the initialiser of the kernel: a function of key, shape and dtype.
        bias_init: the initialiser of the bias.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        promote_dtype: the function that brings inputs and parameters to one dtype.
        dot_general: a function to use instead of ``lax.dot_general``.
        dot_general_cls: a class whose instances are used instead of ``lax.dot_general``, such as
            ``Fp8DotGeneralOp``.

    Example:
        >>> import weft
        >>> layer = DenseGeneral(features=(2, 3), axis=(-2, -1))
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((7, 4, 5)))[0].shape
        (7, 2, 3)
    """

    features: int | Sequence[int]
    axis: int | Sequence[int] = -1
    batch_dims: Sequence[int] = ()
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = jnp.float32
    kernel_init: Callable = default_kernel_init
    bias_init: Callable = initializers.zeros
    precision: Any = None
    promote_dtype: Callable = promote_dtype
    dot_general: Callable | None = None
    dot_general_cls: Any = None

    @compact
    def __call__(self, inputs: Any) -> weft.Array:
        """Contract the axes with the kernel and add the bias."""
        features, batch = as_tuple(self.features), as_tuple(self.batch_dims)
        if batch and set(batch) != set(range(max(batch) + 1)):
            raise ValueError(f"batch_dims must be the leading axes 0, 1, ..., not {batch}")
        ndim = inputs.ndim
        axis = tuple(sorted(ax % ndim for ax in as_tuple(self.axis)))
        batch = tuple(sorted(batch))
        batch_shape = tuple(inputs.shape[ax] for ax in batch)
        contracted = tuple(inputs.shape[ax] for ax in axis)
        fans = math.prod(batch_shape) * math.prod(contracted), math.prod(features)
        kernel = self.param(
            "kernel",
            _flat_init(self.kernel_init, fans),
            batch_shape + contracted + features,
            self.param_dtype,
        )
        bias = None
        if self.use_bias:
            flat = (math.prod(batch_shape) * math.prod(features),)
            init = _flat_init(self.bias_init, flat)
            bias = self.param("bias", init, batch_shape + features, self.param_dtype)
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        n = len(batch)
        dimensions = ((axis, tuple(range(n, n + len(axis)))), (batch, tuple(range(n))))
        out = dot_general_of(self)(inputs, kernel, dimensions, precision=self.precision)
        if bias is None:
            return out
        kept = [ax for ax in range(ndim) if ax not in axis]
        aligned = tuple(inputs.shape[ax] if ax in batch else 1 for ax in kept)
        return out + jnp.reshape(bias, aligned + features)


def _flat_init(init, flat_shape):
    """An initialiser that sees the matrix a kernel of many axes stands for."""

    def make(key, shape, dtype=jnp.float32):
        made = init(key, flat_shape, dtype)
        if isinstance(made, AxisMetadata):
            return replace_boxed(made, jnp.reshape(made.unbox(), shape))
        return jnp.reshape(made, shape)

    return make


class Einsum(Module):
    """A layer that contracts the inputs with a kernel as an einsum equation says, and adds a bias.

    Args:
        shape: the shape of the kernel.
        einsum_str: the equation, such as ``'abc,cde->abde'``. It can be given to the call instead.
        use_bias: whether to add a bias, over those axes of the result that the kernel brings.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        kernel_init: the initialiser of the kernel: a function of key, shape and dtype.
        bias_init: the initialiser of the bias.
        promote_dtype: the function that brings inputs and parameters to one dtype.
        preferred_element_type: the dtype in which products are summed.

    Example:
        >>> import weft
        >>> layer = Einsum((3, 4, 5), "abc,cde->abde")
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((2, 2, 3)))[0].shape
        (2, 2, 4, 5)
    """

    shape: Sequence[int]
    einsum_str: str | None = None
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = jnp.float32
    precision: Any = None
    kernel_init: Callable = default_kernel_init
    bias_init: Callable = initializers.zeros
    promote_dtype: Callable = promote_dtype
    preferred_element_type: Any = None

    @compact
    def __call__(self, inputs: Any, einsum_str: str | None = None) -> weft.Array:
        """Contract with the kernel as the equation says."""
        equation = merge_param("einsum_str", self.einsum_str, einsum_str).replace(" ", "")
        if "->" not in equation or equation.count(",") != 1:
            raise ValueError(
                f"einsum_str needs two operands and an explicit result, as 'abc,cd->abd', not "
                f"{equation!r}"
            )
        kernel = self.param("kernel", self.kernel_init, tuple(self.shape), self.param_dtype)
        bias = None
        if self.use_bias:
            shape, aligned = self._bias_shapes(equation, inputs.ndim)
            bias = self.param("bias", self.bias_init, shape, self.param_dtype)
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        options = {"preferred_element_type": self.preferred_element_type}
        y = jnp.einsum(equation, inputs, kernel, precision=self.precision, **options)
        return y if bias is None else y + jnp.reshape(bias, aligned)

    def _bias_shapes(self, equation: str, ndim: int):
        """The shape of the bias, and the same with ones where it has no axis of the result."""
        operands, _, result = equation.partition("->")
        left, _, right = operands.partition(",")
        hidden = [max(n - len(t.replace("...", "")), 0) if "..." in t else 0
                  for t, n in ((left, ndim), (right, len(self.shape)))]  # fmt: skip
        sizes = dict(zip(_axes(right, hidden[1]), self.shape))
        axes = _axes(result, max(hidden))
        aligned = tuple(sizes.get(axis, 1) for axis in axes)
        return tuple(sizes[axis] for axis in axes if axis in sizes), aligned


def _axes(term: str, hidden: int) -> list:
    """The axes of an operand of an equation: letters, and -1, -2, ... for those of an ellipsis."""
    before, ellipsis, after = term.partition("...")
    return [*before, *(range(-hidden, 0) if ellipsis else ()), *after]


class Embed(Module):
    """A table of vectors, looked up by integers.

    Args:
        num_embeddings: the number of vectors.
        features: the length of a vector.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        embedding_init: the initialiser of the table.
        promote_dtype: the function that brings the table to ``dtype``.

    Example:
        >>> import weft
        >>> layer = Embed(num_embeddings=10, features=3)
        >>> layer.init_with_output(weft.random.key(0), jnp.array([[1, 2]]))[0].shape
        (1, 2, 3)
    """

    num_embeddings: int
    features: int
    dtype: Any = None
    param_dtype: Any = jnp.float32
    embedding_init: Callable = default_embed_init
    promote_dtype: Callable = promote_dtype

    def setup(self) -> None:
        shape = (self.num_embeddings, self.features)
        self.embedding = self.param("embedding", self.embedding_init, shape, self.param_dtype)

    def __call__(self, inputs: Any) -> weft.Array:
        """The vectors at integer positions."""
        if not jnp.issubdtype(inputs.dtype, jnp.integer):
            raise ValueError(f"Embed takes integers, not {inputs.dtype}")
        (table,) = self.promote_dtype(self.embedding, dtype=self.dtype, inexact=False)
        if self.num_embeddings == 1:
            return jnp.broadcast_to(table, (*inputs.shape, self.features))
        return jnp.take(table, inputs, axis=0)

    def attend(self, query: Any) -> weft.Array:
        """The products of queries with all vectors of the table."""
        query, table = self.promote_dtype(query, self.embedding, dtype=self.dtype)
        return jnp.dot(query, table.T)
