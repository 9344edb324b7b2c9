"""Recurrent cells, and RNN and Bidirectional, which run them over sequences."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import weft
from weft import numpy as jnp
from weft import random, tree_util
from weft.linen import initializers, transforms
from weft.linen.conv import Conv
from weft.linen.core import FrozenDict
from weft.linen.dtypes import promote_dtype
from weft.linen.linear import Dense, add_bias, default_kernel_init
from weft.linen.module import Module, compact, nowrap

_sigmoid, _tanh = weft.nn.sigmoid, weft.nn.tanh
_orthogonal = initializers.orthogonal()


class RNNCellBase(Module):
    """The base of recurrent cells: ``cell(carry, inputs) -> (carry, outputs)``.

    >>> from weft import linen as nn
    >>> issubclass(nn.GRUCell, nn.RNNCellBase)
    True
    """

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: Any) -> Any:
        """The carry before the first step, for inputs of a shape."""
        raise NotImplementedError(f"{type(self).__name__} must define initialize_carry")

    @property
    def num_feature_axes(self) -> int:
        """How many of the last axes of the inputs are features."""
        raise NotImplementedError(f"{type(self).__name__} must define num_feature_axes")


class _VectorCell(RNNCellBase):
    """A cell whose inputs and carry have their features on the last axis."""

    @property
    def num_feature_axes(self) -> int:
        """One: the last axis."""
        return 1

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: Any) -> Any:
        """The hidden state before the first step."""
        return self._carry(rng, input_shape)

    @nowrap
    def _carry(self, rng, input_shape):
        return self.carry_init(rng, (*input_shape[:-1], self.features), self.param_dtype)

    @nowrap
    def _dense(self, features, **options):
        return partial(
            Dense, features=features, dtype=self.dtype, param_dtype=self.param_dtype, **options
        )


class _GatedCell(_VectorCell):
    """What cells with gates are made with."""

    features: int
    gate_fn: Callable = _sigmoid
    activation_fn: Callable = _tanh
    kernel_init: Callable = default_kernel_init
    recurrent_kernel_init: Callable = _orthogonal
    bias_init: Callable = initializers.zeros
    dtype: Any = None
    param_dtype: Any = jnp.float32
    carry_init: Callable = initializers.zeros


class _CellWithMemory(_GatedCell):
    """A cell whose carry is a memory and a hidden state."""

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: Any) -> Any:
        """The memory and the hidden state before the first step."""
        first, second = random.split(rng)
        return self._carry(first, input_shape), self._carry(second, input_shape)


class LSTMCell(_CellWithMemory):
    """A long short-term memory cell, with one product for each gate and input.

    Reference: Hochreiter and Schmidhuber, Long Short-Term Memory, 1997.

    Args:
        features: the size of the state and of the outputs.
        gate_fn: the function of the gates.
        activation_fn: the function of the new state.
        kernel_init: the initialiser of the kernels of the inputs.
        recurrent_kernel_init: the initialiser of the kernels of the state.
        bias_init: the initialiser of the biases.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        carry_init: the initialiser of the state at the start.

    Example:
        >>> cell = LSTMCell(features=3)
        >>> carry = cell.initialize_carry(weft.random.key(0), (2, 4))
        >>> (carry, y), _ = cell.init_with_output(weft.random.key(1), carry, jnp.ones((2, 4)))
        >>> y.shape
        (2, 3)
    """

    @compact
    def __call__(self, carry: Any, inputs: Any) -> tuple[Any, weft.Array]:
        """One step."""
        c, h = carry
        width = h.shape[-1]
        of_h = self._dense(width, kernel_init=self.recurrent_kernel_init, bias_init=self.bias_init)
        of_x = self._dense(width, use_bias=False, kernel_init=self.kernel_init)
        both = lambda gate: of_x(name="i" + gate)(inputs) + of_h(name="h" + gate)(h)
        i, f = self.gate_fn(both("i")), self.gate_fn(both("f"))
        g, o = self.activation_fn(both("g")), self.gate_fn(both("o"))
        c = f * c + i * g
        h = o * self.activation_fn(c)
        return (c, h), h


class DenseParams(Module):
    """The kernel and bias of a Dense layer, for those who multiply by several at once."""

    features: int
    use_bias: bool = True
    param_dtype: Any = jnp.float32
    precision: Any = None
    kernel_init: Callable = default_kernel_init
    bias_init: Callable = initializers.zeros

    @compact
    def __call__(self, inputs: Any) -> Any:
        """The kernel for these inputs, and the bias or None."""
        shape = (inputs.shape[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, self.param_dtype)
        if not self.use_bias:
            return kernel, None
        return kernel, self.param("bias", self.bias_init, (self.features,), self.param_dtype)


class OptimizedLSTMCell(_CellWithMemory):
    """The same cell as ``LSTMCell``, parameters included, with one product for all four gates.

    Args:
        features: the size of the state and of the outputs.
        gate_fn: the function of the gates.
        activation_fn: the function of the new state.
        kernel_init: the initialiser of the kernels of the inputs.
        recurrent_kernel_init: the initialiser of the kernels of the state.
        bias_init: the initialiser of the biases.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        carry_init: the initialiser of the state at the start.

    Example:
        >>> cell = OptimizedLSTMCell(features=3)
        >>> carry = cell.initialize_carry(weft.random.key(0), (2, 4))
        >>> (carry, y), _ = cell.init_with_output(weft.random.key(1), carry, jnp.ones((2, 4)))
        >>> y.shape
        (2, 3)
    """

    @compact
    def __call__(self, carry: Any, inputs: Any) -> tuple[Any, weft.Array]:
        """One step."""
        c, h = carry
        of_x, of_h = [], []
        make = partial(DenseParams, h.shape[-1], param_dtype=self.param_dtype)
        recurrent = self.recurrent_kernel_init
        for gate in "ifgo":
            ours = make(use_bias=False, kernel_init=self.kernel_init, name="i" + gate)
            of_x.append(ours(inputs))
            theirs = make(kernel_init=recurrent, bias_init=self.bias_init, name="h" + gate)
            of_h.append(theirs(h))
        # The order of the additions is flax's: the bias belongs to the recurrent half.
        gates = zip(self._product(h, of_h), self._product(inputs, of_x))
        i, f, g, o = (a + b for a, b in gates)
        c = self.gate_fn(f) * c + self.gate_fn(i) * self.activation_fn(g)
        h = self.gate_fn(o) * self.activation_fn(c)
        return (c, h), h

    def _product(self, x, params):
        kernels, biases = zip(*params)
        kernel = jnp.concatenate(kernels, axis=-1)
        bias = None if biases[0] is None else jnp.concatenate(biases, axis=-1)
        x, kernel, bias = promote_dtype(x, kernel, bias, dtype=self.dtype)
        y = jnp.dot(x, kernel)
        return jnp.split(y if bias is None else add_bias(y, bias), len(params), axis=-1)


class SimpleCell(_VectorCell):
    """The plain recurrent cell, ``h = tanh(W x + U h + b)``.

    Args:
        features: the size of the state and of the outputs.
        activation_fn: the function of the new state.
        kernel_init: the initialiser of the kernels of the inputs.
        recurrent_kernel_init: the initialiser of the kernels of the state.
        bias_init: the initialiser of the bias.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        carry_init: the initialiser of the state at the start.
        residual: add the state to the result.

    Example:
        >>> cell = SimpleCell(features=3)
        >>> carry = cell.initialize_carry(weft.random.key(0), (2, 4))
        >>> cell.init_with_output(weft.random.key(1), carry, jnp.ones((2, 4)))[0][1].shape
        (2, 3)
    """

    features: int
    activation_fn: Callable = _tanh
    kernel_init: Callable = default_kernel_init
    recurrent_kernel_init: Callable = _orthogonal
    bias_init: Callable = initializers.zeros
    dtype: Any = None
    param_dtype: Any = jnp.float32
    carry_init: Callable = initializers.zeros
    residual: bool = False

    @compact
    def __call__(self, carry: Any, inputs: Any) -> tuple[Any, weft.Array]:
        """One step."""
        width = carry.shape[-1]
        of_h = self._dense(width, use_bias=False, kernel_init=self.recurrent_kernel_init)
        of_x = self._dense(width, kernel_init=self.kernel_init, bias_init=self.bias_init)
        h = of_x(name="i")(inputs) + of_h(name="h")(carry)
        h = self.activation_fn(h + carry if self.residual else h)
        return h, h


class GRUCell(_GatedCell):
    """A gated recurrent unit.

    Reference: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014.

    Args:
        features: the size of the state and of the outputs.
        gate_fn: the function of the gates.
        activation_fn: the function of the new state.
        kernel_init: the initialiser of the kernels of the inputs.
        recurrent_kernel_init: the initialiser of the kernels of the state.
        bias_init: the initialiser of the biases.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        carry_init: the initialiser of the state at the start.

    Example:
        >>> cell = GRUCell(features=3)
        >>> carry = cell.initialize_carry(weft.random.key(0), (2, 4))
        >>> cell.init_with_output(weft.random.key(1), carry, jnp.ones((2, 4)))[0][1].shape
        (2, 3)
    """

    @compact
    def __call__(self, carry: Any, inputs: Any) -> tuple[Any, weft.Array]:
        """One step."""
        h = carry
        width, bias = h.shape[-1], {"bias_init": self.bias_init}
        recurrent = self.recurrent_kernel_init
        of_h = self._dense(width, use_bias=False, kernel_init=recurrent, **bias)
        of_x = self._dense(width, kernel_init=self.kernel_init, **bias)
        r = self.gate_fn(of_x(name="ir")(inputs) + of_h(name="hr")(h))
        z = self.gate_fn(of_x(name="iz")(inputs) + of_h(name="hz")(h))
        n = of_x(name="in")(inputs) + r * of_h(name="hn", use_bias=True)(h)
        h = (1.0 - z) * self.activation_fn(n) + z * h
        return h, h


class MGUCell(_VectorCell):
    """A minimal gated unit: one gate that forgets and resets.

    Reference: Zhou et al., Minimal Gated Unit for Recurrent Neural Networks, 2016.

    Args:
        features: the size of the state and of the outputs.
        gate_fn: the function of the gates.
        activation_fn: the function of the new state.
        kernel_init: the initialiser of the kernels of the inputs.
        recurrent_kernel_init: the initialiser of the kernels of the state.
        forget_bias_init: the initialiser of the bias of the gate.
        activation_bias_init: the initialiser of the bias of the new state.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        carry_init: the initialiser of the state at the start.
        reset_gate: whether the gate also resets the state.

    Example:
        >>> cell = MGUCell(features=3)
        >>> carry = cell.initialize_carry(weft.random.key(0), (2, 4))
        >>> cell.init_with_output(weft.random.key(1), carry, jnp.ones((2, 4)))[0][1].shape
        (2, 3)
    """

    features: int
    gate_fn: Callable = _sigmoid
    activation_fn: Callable = _tanh
    kernel_init: Callable = default_kernel_init
    recurrent_kernel_init: Callable = _orthogonal
    forget_bias_init: Callable = initializers.ones
    activation_bias_init: Callable = initializers.zeros
    dtype: Any = None
    param_dtype: Any = jnp.float32
    carry_init: Callable = initializers.zeros
    reset_gate: bool = True

    @compact
    def __call__(self, carry: Any, inputs: Any) -> tuple[Any, weft.Array]:
        """One step."""
        h = carry
        width, bias = h.shape[-1], self.activation_bias_init
        recurrent = self.recurrent_kernel_init
        of_h = self._dense(width, use_bias=False, kernel_init=recurrent, bias_init=bias)
        of_x = self._dense(width, kernel_init=self.kernel_init)
        forget = of_x(name="if", bias_init=self.forget_bias_init)(inputs) + of_h(name="hf")(h)
        f = self.gate_fn(forget)
        past = of_h(name="hn", use_bias=self.reset_gate)(h)
        past = past * f if self.reset_gate else past
        n = self.activation_fn(of_x(name="in", bias_init=bias)(inputs) + past)
        h = (1.0 - f) * n + f * h
        return h, h


class ConvLSTMCell(RNNCellBase):
    """An LSTM cell whose products are convolutions.

    Reference: Shi et al., Convolutional LSTM Network, 2015.

    Args:
        features: the number of channels of the state and of the outputs.
        kernel_size: the size of the window along each spatial axis.
        strides: the step of the window along each axis; 1 by default.
        padding: ``'SAME'``, ``'VALID'``, or pairs of padding before and after each axis.
        use_bias: whether to add a bias.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        carry_init: the initialiser of the state at the start.

    Example:
        >>> cell = ConvLSTMCell(features=3, kernel_size=(2, 2))
        >>> carry = cell.initialize_carry(weft.random.key(0), (1, 5, 5, 4))
        >>> cell.init_with_output(weft.random.key(1), carry, jnp.ones((1, 5, 5, 4)))[0][1].shape
        (1, 5, 5, 3)
    """

    features: int
    kernel_size: Sequence[int]
    strides: Sequence[int] | None = None
    padding: Any = "SAME"
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = jnp.float32
    carry_init: Callable = initializers.zeros

    @compact
    def __call__(self, carry: Any, inputs: Any) -> tuple[Any, weft.Array]:
        """One step."""
        c, h = carry
        convolve = partial(
            Conv,
            features=4 * self.features,
            kernel_size=self.kernel_size,
            strides=self.strides,
            padding=self.padding,
            use_bias=self.use_bias,
            dtype=self.dtype,
            param_dtype=self.param_dtype,
        )
        gates = convolve(name="ih")(inputs) + convolve(name="hh")(h)
        i, g, f, o = jnp.split(gates, 4, axis=-1)
        c = _sigmoid(f + 1) * c + _sigmoid(i) * jnp.tanh(g)
        h = _sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: Any) -> Any:
        """The memory and the hidden state before the first step."""
        first, second = random.split(rng)
        shape = (*input_shape[:-1], self.features)
        make = lambda key: self.carry_init(key, shape, self.param_dtype)
        return make(first), make(second)

    @property
    def num_feature_axes(self) -> int:
        """The axes of the kernel, and the channels."""
        return len(self.kernel_size) + 1


class RNN(Module):
    """A layer that runs a cell over sequences of shape (batch..., time, features...).

    Args:
        cell: the cell, such as ``LSTMCell(features=3)``.
        time_major: time is the first axis, not the one after the batch.
        return_carry: return a pair of the last state and the outputs.
        reverse: go backwards through time.
        keep_order: with ``reverse``, return outputs in the order of the inputs.
        unroll: how many steps of the loop to unroll, as in ``lax.scan``.
        variable_axes: collections with a value for each step, and their axis.
        variable_broadcast: collections that all steps share.
        variable_carry: collections that each step passes to the next.
        split_rngs: for each random stream, whether every step gets a key of its own.

    Example:
        >>> layer = RNN(LSTMCell(features=3))
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((2, 7, 4)))[0].shape
        (2, 7, 3)
    """

    cell: RNNCellBase
    time_major: bool = False
    return_carry: bool = False
    reverse: bool = False
    keep_order: bool = False
    unroll: int = 1
    variable_axes: Mapping = FrozenDict()
    variable_broadcast: Any = "params"
    variable_carry: Any = False
    split_rngs: Mapping = FrozenDict({"params": False})

    def __call__(
        self,
        inputs: Any,
        *,
        initial_carry: Any = None,
        init_key: Any = None,
        seq_lengths: Any = None,
        return_carry: bool | None = None,
        time_major: bool | None = None,
        reverse: bool | None = None,
        keep_order: bool | None = None,
    ) -> Any:
        """The outputs of all steps and, with ``return_carry``, before them the last carry."""
        choose = lambda given, default: default if given is None else given
        return_carry = choose(return_carry, self.return_carry)
        time_major = choose(time_major, self.time_major)
        reverse = choose(reverse, self.reverse)
        keep_order = choose(keep_order, self.keep_order)
        features = self.cell.num_feature_axes
        axis = 0 if time_major else inputs.ndim - features - 1
        batch = inputs.ndim - features - 1
        flip = partial(
            flip_sequences, seq_lengths=seq_lengths, num_batch_dims=batch, time_major=time_major
        )
        if reverse:
            inputs = tree_util.tree_map(flip, inputs)
        carry = initial_carry
        if carry is None:
            key = random.key(0) if init_key is None else init_key
            carry = self.cell.initialize_carry(key, inputs.shape[:axis] + inputs.shape[axis + 1 :])
        carries = seq_lengths is not None and return_carry

        def step(cell, carry, x):
            carry, y = cell(carry, x)
            return carry, ((carry, y) if carries else y)

        run = transforms.scan(
            step,
            in_axes=axis,
            out_axes=(0, axis) if carries else axis,
            unroll=self.unroll,
            variable_axes=self.variable_axes,
            variable_broadcast=self.variable_broadcast,
            variable_carry=self.variable_carry,
            split_rngs=self.split_rngs,
        )
        carry, outputs = run(self.cell, carry, inputs)
        if carries:  # sequences of different lengths end at different steps
            history, outputs = outputs
            last = seq_lengths - 1
            pick = lambda x: x[last, jnp.arange(x.shape[1])]
            carry = tree_util.tree_map(pick, history)
        if reverse and keep_order:
            outputs = tree_util.tree_map(flip, outputs)
        return (carry, outputs) if return_carry else outputs


def flip_sequences(inputs, seq_lengths, num_batch_dims: int, time_major: bool):
    """Sequences in reverse order; what is beyond their length stays behind them.

    >>> flip_sequences(jnp.array([[1, 2, 3, 0]]), jnp.array([3]), 1, False)
    Array([[3, 2, 1, 0]], dtype=int32)
    """
    axis = 0 if time_major else num_batch_dims
    if seq_lengths is None:
        return jnp.flip(inputs, axis=axis)
    steps = inputs.shape[axis]
    lengths = jnp.expand_dims(seq_lengths, axis)
    shape = [1] * (num_batch_dims + 1)
    shape[axis] = steps
    order = jnp.reshape(jnp.arange(steps - 1, -1, -1), shape)
    order = (order + lengths) % steps
    order = jnp.reshape(order, order.shape + (1,) * (inputs.ndim - order.ndim))
    return jnp.take_along_axis(inputs, order, axis=axis)


def _concatenate(a, b):
    return jnp.concatenate([a, b], axis=-1)


class Bidirectional(Module):
    """A layer that runs one RNN forwards and another backwards, and joins their outputs.

    Args:
        forward_rnn: the RNN that goes forwards.
        backward_rnn: the RNN that goes backwards.
        merge_fn: a function of both outputs. By default they are concatenated along the features.
        time_major: time is the first axis, not the one after the batch.
        return_carry: return a pair of both last states and the outputs.

    Example:
        >>> layer = Bidirectional(RNN(GRUCell(3)), RNN(GRUCell(3)))
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((2, 7, 4)))[0].shape
        (2, 7, 6)
    """

    forward_rnn: Callable
    backward_rnn: Callable
    merge_fn: Callable = _concatenate
    time_major: bool = False
    return_carry: bool = False

    def __call__(
        self,
        inputs: Any,
        *,
        initial_carry: Any = None,
        init_key: Any = None,
        seq_lengths: Any = None,
        return_carry: bool | None = None,
        time_major: bool | None = None,
        reverse: bool | None = None,
        keep_order: bool | None = None,
    ) -> Any:
        """The joined outputs and, with ``return_carry``, both carries first."""
        time_major = self.time_major if time_major is None else time_major
        return_carry = self.return_carry if return_carry is None else return_carry
        keys = (None, None) if init_key is None else random.split(init_key)
        starts = (None, None) if initial_carry is None else initial_carry
        common = {"seq_lengths": seq_lengths, "return_carry": True, "time_major": time_major}
        ahead, outputs = self.forward_rnn(
            inputs, initial_carry=starts[0], init_key=keys[0], reverse=False, **common
        )
        back, others = self.backward_rnn(
            inputs,
            initial_carry=starts[1],
            init_key=keys[1],
            reverse=True,
            keep_order=True,
            **common,
        )
        joined = tree_util.tree_map(self.merge_fn, outputs, others)
        return ((ahead, back), joined) if return_carry else joined
