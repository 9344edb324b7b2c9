"""Layers of neural networks as pairs ``(init_fun, apply_fun)``, and ways to combine them.

``output_shape, params = init_fun(key, input_shape)``; ``outputs = apply_fun(params, inputs)``,
where ``apply_fun`` may take the keyword ``rng``. New programs are better served by ``weft.linen``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from weft import lax, random
from weft import numpy as jnp
from weft.api.staging import eval_shape
from weft.core.shape_dtype import ShapeDtypeStruct
from weft.nn import elu as elu
from weft.nn import gelu as gelu
from weft.nn import leaky_relu as leaky_relu
from weft.nn import log_softmax as log_softmax
from weft.nn import relu as relu
from weft.nn import selu as selu
from weft.nn import sigmoid as sigmoid
from weft.nn import softmax as softmax
from weft.nn import softplus as softplus
from weft.nn import standardize as standardize
from weft.nn.initializers import glorot_normal as glorot_normal
from weft.nn.initializers import normal as normal
from weft.nn.initializers import ones as ones
from weft.nn.initializers import zeros as zeros

__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu",
    "Exp", "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv",
    "GeneralConvTranspose", "Identity", "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu",
    "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise", "elu", "gelu", "glorot",
    "glorot_normal", "leaky_relu", "log_softmax", "logsoftmax", "normal", "ones", "parallel",
    "randn", "relu", "selu", "serial", "shape_dependent", "sigmoid", "softmax", "softplus",
    "standardize", "zeros",
]  # fmt: skip

Layer = tuple[Callable[..., Any], Callable[..., Any]]
glorot, randn, logsoftmax = glorot_normal, normal, log_softmax


def Dense(out_dim: int, W_init: Any = None, b_init: Any = None) -> Layer:
    """Return a fully connected layer.

    Args:
        out_dim: the number of output features.
        W_init: the initialiser of the weights.
        b_init: the initialiser of the bias.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = Dense(3)
        >>> shape, params = init_fun(random.key(0), (-1, 4))
        >>> shape, apply_fun(params, jnp.ones((2, 4))).shape
        ((-1, 3), (2, 3))
    """
    W_init, b_init = W_init or glorot_normal(), b_init or normal()

    def init_fun(rng: Any, input_shape: Any) -> Any:
        k1, k2 = random.split(rng)
        W, b = W_init(k1, (input_shape[-1], out_dim)), b_init(k2, (out_dim,))
        return (*input_shape[:-1], out_dim), (W, b)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return jnp.dot(inputs, W) + b

    return init_fun, apply_fun


def _conv_layer(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Any,
    strides: Any,
    padding: Any,
    W_init: Any,
    b_init: Any,
    transposed: bool,
) -> Layer:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    strides = strides or (1,) * len(filter_shape)
    W_init = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))
    b_init = b_init or normal(1e-6)

    def convolve(x: Any, W: Any) -> Any:
        if transposed:
            return lax.conv_transpose(x, W, strides, padding, dimension_numbers=dimension_numbers)
        return lax.conv_general_dilated(x, W, strides, padding, dimension_numbers=dimension_numbers)

    def shape_of(input_shape: Any, W_shape: Any) -> tuple[int, ...]:
        # a batch that is not known yet, -1, plays no part
        batch = lhs_spec.index("N")
        known = [1 if i == batch else n for i, n in enumerate(input_shape)]
        out = list(lax_shape(convolve, known, W_shape))
        out[out_spec.index("N")] = input_shape[batch]
        return tuple(out)

    def init_fun(rng: Any, input_shape: Any) -> Any:
        sizes = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
        W_shape = [channels[c] if c in channels else next(sizes) for c in rhs_spec]
        b_shape = [out_chan if c == "C" else 1 for c in out_spec]
        k1, k2 = random.split(rng)
        return shape_of(input_shape, W_shape), (W_init(k1, W_shape), b_init(k2, b_shape))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return convolve(inputs, W) + b

    return init_fun, apply_fun


def lax_shape(fun: Callable[..., Any], *shapes: Any) -> tuple[int, ...]:
    """The shape of the result of a function of float32 arrays."""
    structs = [ShapeDtypeStruct(tuple(shape), jnp.float32) for shape in shapes]
    return eval_shape(fun, *structs).shape


def GeneralConv(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Any,
    strides: Any = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = None,
) -> Layer:
    """Return a convolution of arrays with a given layout.

    Args:
        dimension_numbers: the layouts of inputs, kernels and outputs, such as ``('NHWC', 'HWIO',
            'NHWC')``.
        out_chan: the number of output channels.
        filter_shape: the size of the window along each spatial axis.
        strides: the step of the window along each spatial axis; 1 by default.
        padding: ``'SAME'``, ``'VALID'``, or pairs of padding before and after each axis.
        W_init: the initialiser of the weights.
        b_init: the initialiser of the bias.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = GeneralConv(("NHWC", "HWIO", "NHWC"), 4, (3, 3))
        >>> init_fun(random.key(0), (1, 8, 8, 3))[0]
        (1, 6, 6, 4)
    """
    rest = (out_chan, filter_shape, strides, padding, W_init, b_init)
    return _conv_layer(dimension_numbers, *rest, transposed=False)


def GeneralConvTranspose(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Any,
    strides: Any = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = None,
) -> Layer:
    """Return a transposed convolution of arrays with a given layout.

    Args:
        dimension_numbers: the layouts of inputs, kernels and outputs, such as ``('NHWC', 'HWIO',
            'NHWC')``.
        out_chan: the number of output channels.
        filter_shape: the size of the window along each spatial axis.
        strides: the step of the window along each spatial axis; 1 by default.
        padding: ``'SAME'``, ``'VALID'``, or pairs of padding before and after each axis.
        W_init: the initialiser of the weights.
        b_init: the initialiser of the bias.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = GeneralConvTranspose(("NHWC", "HWIO", "NHWC"), 4, (3, 3))
        >>> init_fun(random.key(0), (1, 8, 8, 3))[0]
        (1, 10, 10, 4)
    """
    rest = (out_chan, filter_shape, strides, padding, W_init, b_init)
    return _conv_layer(dimension_numbers, *rest, transposed=True)


_IMAGES, _SIGNALS = ("NHWC", "HWIO", "NHWC"), ("NHC", "HIO", "NHC")


def Conv(out_chan: int, filter_shape: Any, *args: Any, **kwargs: Any) -> Layer:
    """Return a convolution of images ``(batch, height, width, channels)``.

    Args:
        out_chan: the number of output channels.
        filter_shape: the size of the window along each spatial axis.
        *args: further arguments of the general layer: strides, padding, initialisers.
        **kwargs: the same by keyword.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = Conv(4, (3, 3))
        >>> init_fun(random.key(0), (1, 8, 8, 3))[0]
        (1, 6, 6, 4)
    """
    return GeneralConv(_IMAGES, out_chan, filter_shape, *args, **kwargs)


def ConvTranspose(out_chan: int, filter_shape: Any, *args: Any, **kwargs: Any) -> Layer:
    """Return a transposed convolution of images ``(batch, height, width, channels)``.

    Args:
        out_chan: the number of output channels.
        filter_shape: the size of the window along each spatial axis.
        *args: further arguments of the general layer: strides, padding, initialisers.
        **kwargs: the same by keyword.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = ConvTranspose(4, (3, 3))
        >>> init_fun(random.key(0), (1, 8, 8, 3))[0]
        (1, 10, 10, 4)
    """
    return GeneralConvTranspose(_IMAGES, out_chan, filter_shape, *args, **kwargs)


def Conv1DTranspose(out_chan: int, filter_shape: Any, *args: Any, **kwargs: Any) -> Layer:
    """Return a transposed convolution of signals ``(batch, length, channels)``.

    Args:
        out_chan: the number of output channels.
        filter_shape: the size of the window along each spatial axis.
        *args: further arguments of the general layer: strides, padding, initialisers.
        **kwargs: the same by keyword.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = Conv1DTranspose(4, (3,))
        >>> init_fun(random.key(0), (1, 8, 3))[0]
        (1, 10, 4)
    """
    return GeneralConvTranspose(_SIGNALS, out_chan, filter_shape, *args, **kwargs)


def BatchNorm(
    axis: Any = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Return a layer that normalises by the mean and variance of each batch.

    Args:
        axis: the axes over which both are taken.
        epsilon: a small number added to the variance.
        center: whether to add a learnt bias.
        scale: whether to multiply by a learnt scale.
        beta_init: the initialiser of the bias.
        gamma_init: the initialiser of the scale.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = BatchNorm()
        >>> shape, params = init_fun(random.key(0), (2, 4, 4, 3))
        >>> apply_fun(params, jnp.ones((2, 4, 4, 3))).shape
        (2, 4, 4, 3)
    """
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)

    def init_fun(rng: Any, input_shape: Any) -> Any:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axes)
        k1, k2 = random.split(rng)
        beta = beta_init(k1, shape) if center else ()
        gamma = gamma_init(k2, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply_fun(params: Any, x: Any, **kwargs: Any) -> Any:
        spread = tuple(None if i in axes else slice(None) for i in range(x.ndim))
        z = standardize(x, axes, epsilon=epsilon)
        if scale:
            z = params[1][spread] * z
        return z + params[0][spread] if center else z

    return init_fun, apply_fun


def _pool_layer(
    name: str, what: str, reducer: Any, initial: float, rescale: Any = None
) -> Callable[..., Layer]:
    def layer(
        window_shape: Any, strides: Any = None, padding: Any = "VALID", spec: Any = None
    ) -> Layer:
        window, step = list(window_shape), list(strides or (1,) * len(window_shape))
        for i in sorted((spec.index("N"), spec.index("C"))) if spec else (0, len(window) + 1):
            window.insert(i, 1)
            step.insert(i, 1)

        def pool(x: Any) -> Any:
            return lax.reduce_window(x, initial, reducer, window, step, padding)

        def init_fun(rng: Any, input_shape: Any) -> Any:
            known = [max(n, 0) for n in input_shape]
            return lax_shape(pool, known), ()

        def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
            out = pool(inputs)
            return rescale(out, pool, inputs) if rescale else out

        return init_fun, apply_fun

    layer.__name__ = layer.__qualname__ = name
    layer.__doc__ = f"""Return a layer that takes {what} of every window.

    Args:
        window_shape: the size of the window along each spatial axis.
        strides: the step of the window along each spatial axis; 1 by default.
        padding: ``'SAME'``, ``'VALID'``, or pairs of padding before and after each axis.
        spec: the layout of the inputs, such as ``'NHWC'``. By default channels come last.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = {name}((2, 2))
        >>> apply_fun((), jnp.ones((1, 4, 4, 3))).shape
        (1, 3, 3, 3)
    """
    return layer


def _by_count(out: Any, pool: Any, inputs: Any) -> Any:
    """Sums over windows, divided by how many elements each window has."""
    return out / pool(jnp.ones(inputs.shape, inputs.dtype))


MaxPool = _pool_layer("MaxPool", "the largest element", lax.max, -jnp.inf)
SumPool = _pool_layer("SumPool", "the sum", lax.add, 0.0)
AvgPool = _pool_layer("AvgPool", "the mean", lax.add, 0.0, _by_count)


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """Return a layer that applies a function and has no parameters.

    Args:
        fun: the function of an array.
        **fun_kwargs: further arguments of it.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = elementwise(jnp.tanh)
        >>> float(apply_fun((), 0.0))
        0.0
    """
    return _no_parameters, lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs)


def _no_parameters(rng: Any, input_shape: Any) -> Any:
    return input_shape, ()


Tanh = elementwise(jnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)
Identity: Layer = (_no_parameters, lambda params, inputs, **kwargs: inputs)
Flatten: Layer = (
    lambda rng, input_shape: ((input_shape[0], prod(input_shape[1:])), ()),
    lambda params, inputs, **kwargs: jnp.reshape(inputs, (inputs.shape[0], -1)),
)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Return a layer that keeps elements with probability ``rate``, scaled up; it needs ``rng=``.

    Args:
        rate: the probability that an element is kept.
        mode: ``'train'``, or anything else to keep all.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = Dropout(0.5, mode="test")
        >>> apply_fun((), jnp.ones(2), rng=random.key(0))
        Array([1., 1.], dtype=float32)
    """

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError("a Dropout layer needs a key: call apply_fun(params, inputs, rng=key)")
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(keep, inputs / rate, 0)

    return _no_parameters, apply_fun


# --- combining ------------------------------------------------------------------------------------


def FanOut(num: int) -> Layer:
    """Return a layer that repeats its input several times.

    Args:
        num: how many times.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = FanOut(2)
        >>> apply_fun((), 1.0)
        [1.0, 1.0]
    """
    return (
        lambda rng, input_shape: ([input_shape] * num, ()),
        lambda params, inputs, **kwargs: [inputs] * num,
    )


FanInSum: Layer = (
    lambda rng, input_shape: (input_shape[0], ()),
    lambda params, inputs, **kwargs: sum(inputs),
)


def FanInConcat(axis: int = -1) -> Layer:
    """Return a layer that joins several inputs along an axis.

    Args:
        axis: the axis.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = FanInConcat()
        >>> apply_fun((), [jnp.ones(1), jnp.zeros(1)])
        Array([1., 0.], dtype=float32)
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        at = axis % len(input_shape[0])
        joined = sum(shape[at] for shape in input_shape)
        return (*input_shape[0][:at], joined, *input_shape[0][at + 1 :]), ()

    return init_fun, lambda params, inputs, **kwargs: jnp.concatenate(inputs, axis)


def serial(*layers: Layer) -> Layer:
    """Return layers one after the other, as a layer.

    Args:
        *layers: the layers.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = serial(Dense(8), Relu, Dense(2))
        >>> _, params = init_fun(random.key(0), (-1, 4))
        >>> apply_fun(params, jnp.ones((3, 4))).shape
        (3, 2)
    """
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init_fun(rng: Any, input_shape: Any) -> Any:
        params = []
        for init in inits:
            rng, own = random.split(rng)
            input_shape, param = init(own, input_shape)
            params.append(param)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.pop("rng", None)
        rngs = [None] * len(layers) if rng is None else random.split(rng, len(layers))
        for fun, param, own in zip(applies, params, rngs, strict=True):
            inputs = fun(param, inputs, rng=own, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """Return layers side by side, each with an input of its own, as a layer.

    Args:
        *layers: the layers.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = parallel(Identity, Relu)
        >>> _, params = init_fun(random.key(0), ((1,), (1,)))
        >>> apply_fun(params, (jnp.ones(1), -jnp.ones(1)))
        [Array([1.], dtype=float32), Array([0.], dtype=float32)]
    """
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init_fun(rng: Any, input_shape: Any) -> Any:
        rngs = random.split(rng, len(layers))
        pairs = [f(k, shape) for f, k, shape in zip(inits, rngs, input_shape, strict=True)]
        return tuple(zip(*pairs, strict=True))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.pop("rng", None)
        rngs = [None] * len(layers) if rng is None else random.split(rng, len(layers))
        given = zip(applies, params, inputs, rngs, strict=True)
        return [f(p, x, rng=r, **kwargs) for f, p, x, r in given]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """Return a layer that is made when the shape of its input is known.

    Args:
        make_layer: a function from the shape to a layer.

    Returns:
        A layer: the functions ``init_fun(rng, input_shape)`` and ``apply_fun(params, inputs)``.

    Example:
        >>> init_fun, apply_fun = shape_dependent(lambda shape: Dense(shape[-1]))
        >>> init_fun(random.key(0), (-1, 4))[0]
        (-1, 4)
    """
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )
