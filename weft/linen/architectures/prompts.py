"""Prompts: brought to one side, and read into a cache many tokens at a time."""

from typing import Any

import numpy as np

import weft
from weft import lax
from weft import numpy as jnp
from weft.linen.architectures.decoding import Step


def align_prompts(prompt: Any, lengths: Any = None, padding: str = "right"):
    """Prompts that begin in the first column, and their lengths.

    Args:
        prompt: (batch, length) integers.
        lengths: (batch,), how many tokens each prompt has; all, if None.
        padding: the side where shorter prompts are filled up, "right" or "left".

    Returns:
        Prompts (batch, length) with zeros behind them, and lengths (batch,).

    Example:
        >>> prompts, _ = align_prompts(jnp.array([[3, 4, 5], [9, 9, 7]]), jnp.array([3, 1]), "left")
        >>> prompts
        Array([[3, 4, 5],
               [7, 0, 0]], dtype=int32)
    """
    prompt = jnp.asarray(prompt)
    if prompt.ndim != 2 or not jnp.issubdtype(prompt.dtype, jnp.integer) or not prompt.shape[1]:
        raise ValueError(
            "prompts are integers of shape (batch, length) with at least one token,"
            f" not {prompt.dtype}{list(prompt.shape)}"
        )
    if padding not in ("left", "right"):
        raise ValueError(f"padding={padding!r} is neither 'left' nor 'right'")
    batch, given = prompt.shape
    lengths = jnp.full(batch, given) if lengths is None else jnp.asarray(lengths)
    if lengths.shape != (batch,) or not jnp.issubdtype(lengths.dtype, jnp.integer):
        raise ValueError(
            f"prompt_lengths are integers, one for each of {batch} prompts,"
            f" not {lengths.dtype}{list(lengths.shape)}"
        )
    if not isinstance(lengths, weft.core.Tracer):
        known = np.asarray(lengths)
        if known.size and not (known.min() >= 1 and known.max() <= given):
            raise ValueError(f"prompt_lengths are from 1 to {given}, not {known.tolist()}")
    columns = jnp.arange(given)
    if padding == "left":
        places = jnp.minimum(columns + given - lengths[:, None], given - 1)
        prompt = jnp.take_along_axis(prompt, places, axis=1)
    return jnp.where(columns < lengths[:, None], prompt, 0).astype(jnp.int32), lengths


def prefill(step: Step, cache: Any, prompt: Any, lengths: Any, size: int | None = None):
    """Read prompts into a cache, so that writing can begin at the last token of the shortest.

    Args:
        step: gives logits and a new cache for tokens (batch, n) and a cache. Integers in the cache
            are positions: how many tokens it has seen.
        cache: of the first step, any pytree.
        prompt: (batch, length) integers, from the first column on.
        lengths: (batch,), how many tokens of each row are its prompt.
        size: how many tokens a pass takes at most; all, if None.

    Returns:
        The cache, and how many tokens it has of every text.

    Example:
        >>> count = lambda tokens, seen: (None, seen + tokens.shape[1])
        >>> prefill(count, jnp.zeros((), int), jnp.ones((2, 5), int), jnp.array([5, 3]))
        (Array(2, dtype=int32), Array(2, dtype=int32))
    """
    prompt = jnp.asarray(prompt)
    batch, rest = prompt.shape[0], prompt.shape[1] - 1
    size = rest if size is None else size
    if not isinstance(size, int) or (rest and size < 1):
        raise ValueError(f"prefill is at least 1 token a pass, not {size!r}")
    count = rest // size if rest else 0
    if count == 1:
        cache = step(prompt[:, :size], cache)[1]
    elif count:
        pieces = jnp.moveaxis(prompt[:, : count * size].reshape(batch, count, size), 1, 0)
        cache = lax.scan(lambda cache, piece: (step(piece, cache)[1], None), cache, pieces)[0]
    if rest and rest % size:
        cache = step(prompt[:, count * size : rest], cache)[1]
    # Longer prompts have left something behind the shortest: it is written over, and not read.
    start = (jnp.min(lengths, initial=rest + 1) - 1).astype(jnp.int32)
    back = lambda x: jnp.full_like(x, start) if jnp.issubdtype(x.dtype, jnp.integer) else x
    return weft.tree.map(back, cache), start
