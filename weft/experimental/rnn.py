"""Long short-term memory over padded batches of sequences, in one or both directions.

The weights of all layers are one vector: for every layer and direction the input-to-hidden and the
hidden-to-hidden matrix, then for every layer and direction the two biases. The four gates stand
one below the other: input, forget, cell, output.

Hochreiter and Schmidhuber, "Long short-term memory" (1997).
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from weft import lax, random
from weft import numpy as jnp
from weft.nn import sigmoid

__all__ = [
    "get_num_params_in_lstm", "init_lstm_weight", "lstm", "lstm_ref", "swap_lstm_gates",
    "unpack_lstm_weights",
]  # fmt: skip

GATES = 4


def _shapes(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> list[list[tuple[int, ...]]]:
    """For every layer and direction the shapes of its two matrices and two biases."""
    directions, rows = 1 + bidirectional, GATES * hidden_size
    found: list[list[tuple[int, ...]]] = []
    for layer in range(num_layers):
        width = input_size if layer == 0 else hidden_size * directions
        found += [[(rows, width), (rows, hidden_size), (rows,), (rows,)]] * directions
    return found


def _size(shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] if len(shape) == 2 else 1)


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """Return how many weights an LSTM has.

    Args:
        input_size: the number of input features.
        hidden_size: the size of the state.
        num_layers: the number of layers.
        bidirectional: whether each layer also runs backwards.

    Returns:
        An integer.

    Example:
        >>> get_num_params_in_lstm(3, 5, 2, False)
        440
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum(_size(shape) for cell in shapes for shape in cell)


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """Return random weights, uniform within one over the root of the hidden size.

    Args:
        rng: a random key.
        input_size: the number of input features.
        hidden_size: the size of the state.
        num_layers: the number of layers.
        bidirectional: whether each layer also runs backwards.

    Returns:
        A vector of weights.

    Example:
        >>> import weft
        >>> init_lstm_weight(weft.random.key(0), 3, 5, 1, False).shape
        (200,)
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    bound = sqrt(1.0 / hidden_size)
    return random.uniform(rng, (count,), jnp.float32, -bound, bound)


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[dict[int, Any], dict[int, Any], dict[int, Any], dict[int, Any]]:
    """Return the two matrices and the two biases of every layer and direction.

    Args:
        weights: all weights as one vector.
        input_size: the number of input features.
        hidden_size: the size of the state.
        num_layers: the number of layers.
        bidirectional: whether each layer also runs backwards.

    Returns:
        Four dictionaries by the number of layer and direction: input and state matrices, and their
        biases.

    Example:
        >>> w = jnp.zeros(get_num_params_in_lstm(3, 5, 1, False))
        >>> [part[0].shape for part in unpack_lstm_weights(w, 3, 5, 1, False)]
        [(20, 3), (20, 5), (20,), (20,)]
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    parts: tuple[dict[int, Any], ...] = ({}, {}, {}, {})
    at = 0
    for first in (0, 2):  # matrices, then biases
        for number, cell in enumerate(shapes):
            for kind in (first, first + 1):
                size = _size(cell[kind])
                parts[kind][number] = weights[at : at + size].reshape(cell[kind])
                at += size
    return parts  # type: ignore[return-value]


def swap_lstm_gates(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """Return the weights with the gates in the order input, forget, output, cell.

    Args:
        weights: all weights as one vector.
        input_size: the number of input features.
        hidden_size: the size of the state.
        num_layers: the number of layers.
        bidirectional: whether each layer also runs backwards.

    Returns:
        A vector of weights.

    Example:
        >>> w = jnp.zeros(get_num_params_in_lstm(3, 5, 1, False))
        >>> swap_lstm_gates(w, 3, 5, 1, False).shape
        (200,)
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)

    def swapped(x: Any) -> Any:
        i, f, c, o = jnp.split(x, GATES)
        return jnp.concatenate([i, f, o, c]).ravel()

    flat = []
    for first in (0, 2):
        for number in range(len(parts[0])):
            flat += [swapped(parts[first][number]), swapped(parts[first + 1][number])]
    return jnp.concatenate(flat)


def lstm(
    x: Any,
    h_0: Any,
    c_0: Any,
    weights: Any,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any = None,
) -> tuple[Any, Any, Any]:
    """Return the outputs of the last layer, and the last hidden and cell states of all layers.

    Args:
        x: the inputs, of shape (batch, time, input_size).
        h_0: the first hidden states, of shape (layers * directions, batch, hidden_size).
        c_0: the first cell states, of the same shape.
        weights: all weights as one vector.
        seq_lengths: the length of each sequence, of shape (batch,). Outputs past it are zero.
        input_size: the number of input features.
        hidden_size: the size of the state.
        num_layers: the number of layers.
        dropout: must be 0: there is no dropout between layers.
        bidirectional: whether each layer also runs backwards.
        precision: the precision of the products on accelerators.

    Returns:
        Three arrays: outputs of shape (batch, time, directions * hidden_size), and both states.

    Example:
        >>> w = jnp.zeros(get_num_params_in_lstm(3, 5, 1, False))
        >>> h = c = jnp.zeros((1, 2, 5))
        >>> y, _, _ = lstm(jnp.ones((2, 4, 3)), h, c, w, jnp.array([4, 4]), 3, 5, 1, 0.0, False)
        >>> y.shape
        (2, 4, 5)
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    rest = (seq_lengths, input_size, hidden_size, num_layers, dropout, bidirectional)
    return lstm_ref(x, h_0, c_0, *parts, *rest)


def lstm_ref(
    x: Any,
    h_0: Any,
    c_0: Any,
    W_ih: dict[int, Any],
    W_hh: dict[int, Any],
    b_ih: dict[int, Any],
    b_hh: dict[int, Any],
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Any, Any, Any]:
    """Return the same as ``lstm``, of weights that ``unpack_lstm_weights`` took apart.

    Args:
        x: the inputs, of shape (batch, time, input_size).
        h_0: the first hidden states, of shape (layers * directions, batch, hidden_size).
        c_0: the first cell states, of the same shape.
        W_ih: the input matrices, by layer and direction.
        W_hh: the state matrices.
        b_ih: the input biases.
        b_hh: the state biases.
        seq_lengths: the length of each sequence, of shape (batch,). Outputs past it are zero.
        input_size: the number of input features.
        hidden_size: the size of the state.
        num_layers: the number of layers.
        dropout: must be 0: there is no dropout between layers.
        bidirectional: whether each layer also runs backwards.

    Returns:
        Three arrays, as ``lstm``.

    Example:
        >>> parts = unpack_lstm_weights(jnp.zeros(200), 3, 5, 1, False)
        >>> h = c = jnp.zeros((1, 2, 5))
        >>> x, lengths = jnp.ones((2, 4, 3)), jnp.array([4, 4])
        >>> lstm_ref(x, h, c, *parts, lengths, 3, 5, 1, 0.0, False)[0].shape
        (2, 4, 5)
    """
    if dropout:
        raise ValueError("lstm has no dropout between layers: pass dropout=0.0")
    steps = x.shape[1]
    seq_lengths = jnp.asarray(seq_lengths)
    valid = jnp.arange(steps)[:, None] < seq_lengths[None]
    inputs = x.swapaxes(0, 1)  # time first
    directions = 1 + bidirectional
    last_h, last_c = [], []
    for layer in range(num_layers):
        outs = []
        for direction in range(directions):
            number = layer * directions + direction
            given = _reversed(inputs, seq_lengths) if direction else inputs
            cell = (W_ih[number], W_hh[number], b_ih[number], b_hh[number])
            (h, c), out = _run(cell, h_0[number], c_0[number], given, valid)
            outs.append(_reversed(out, seq_lengths) if direction else out)
            last_h.append(h)
            last_c.append(c)
        inputs = jnp.concatenate(outs, -1)
    inputs = jnp.where(valid[..., None], inputs, 0.0)
    return inputs.swapaxes(0, 1), jnp.stack(last_h), jnp.stack(last_c)


def _run(cell: Any, h: Any, c: Any, inputs: Any, valid: Any) -> Any:
    """The last states and the outputs of one layer in one direction."""
    W_ih, W_hh, b_ih, b_hh = cell

    def step(carry: Any, at: Any) -> Any:
        h, c = carry
        x, here = at
        gates = x @ W_ih.T + b_ih[None] + h @ W_hh.T + b_hh[None]
        i, f, g, o = jnp.split(gates, GATES, -1)
        new_c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        new_h = sigmoid(o) * jnp.tanh(new_c)
        h = jnp.where(here[:, None], new_h, h)
        c = jnp.where(here[:, None], new_c, c)
        return (h, c), new_h

    return lax.scan(step, (h, c), (inputs, valid))


def _reversed(x: Any, lengths: Any) -> Any:
    """Sequences, time first, each turned round within its length."""
    time = jnp.arange(x.shape[0])[:, None]
    source = jnp.where(time < lengths[None], lengths[None] - 1 - time, time)
    return jnp.take_along_axis(x, source[..., None], 0)
