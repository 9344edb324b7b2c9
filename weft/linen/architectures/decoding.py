"""Writing token by token with a cache: sampling and beam search, for any model with a step.

A step takes tokens (batch, 1) and a cache, and gives logits (batch, vocabulary) of the tokens that
follow, and the cache of the next step.
"""

from collections.abc import Callable
from typing import Any

import weft
from weft import lax, random
from weft import numpy as jnp

Step = Callable[[Any, Any], tuple[Any, Any]]
LOW = -1.0e9  # the score of what cannot be, low enough to lose and finite


def filter_logits(logits, *, top_k: int = 0, top_p: float = 1.0):
    """Logits with all but the likeliest tokens at minus infinity.

    Args:
        logits: (..., vocabulary).
        top_k: keep so many tokens; 0 keeps all.
        top_p: keep the fewest tokens whose probabilities add up to this.

    Returns:
        The logits, in the same shape.

    Example:
        >>> filter_logits(jnp.array([1.0, 3.0, 2.0]), top_k=2)
        Array([-inf,   3.,   2.], dtype=float32)
    """
    if not (top_k >= 0 and 0 < top_p <= 1):
        raise ValueError(f"need top_k of at least 0 and top_p in (0, 1], not {top_k} and {top_p}")
    if 0 < top_k < logits.shape[-1]:
        least = lax.top_k(logits, top_k)[0][..., -1:]
        logits = jnp.where(logits < least, -jnp.inf, logits)
    if top_p < 1:
        ordered = jnp.sort(logits, axis=-1, descending=True)
        before = jnp.cumsum(weft.nn.softmax(ordered), axis=-1) - weft.nn.softmax(ordered)
        least = jnp.min(jnp.where(before < top_p, ordered, jnp.inf), axis=-1, keepdims=True)
        logits = jnp.where(logits < least, -jnp.inf, logits)
    return logits


def sample(
    step: Step,
    cache: Any,
    prompt: Any,
    *,
    max_length: int,
    prompt_lengths: Any = None,
    key: Any = None,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    eos_id: int | None = None,
    start: Any = 0,
) -> weft.Array:
    """Continue prompts token by token, with the likeliest tokens or with drawn ones.

    Args:
        step: gives logits and a new cache for tokens (batch, 1) and a cache.
        cache: of the first step, any pytree.
        prompt: (batch, length) integers that the texts begin with.
        max_length: how many tokens a text has, with its prompt.
        prompt_lengths: (batch,), where prompts are shorter than ``prompt``; the rest is written.
        key: a random key; without one, ``temperature`` is 0.
        temperature: divides the logits; 0 takes the likeliest token.
        top_k: draw from so many likeliest tokens; 0 draws from all.
        top_p: draw from the fewest tokens whose probabilities add up to this.
        eos_id: the token that ends a text.
        start: how many tokens of each prompt the cache has already, at most all but the last.

    Returns:
        Tokens (batch, max_length), with zeros after the end of a text.

    Example:
        >>> count = lambda tokens, cache: (weft.nn.one_hot(tokens[:, 0] + 1, 9), cache)
        >>> sample(count, None, jnp.array([[3], [5]]), max_length=4, eos_id=7)
        Array([[3, 4, 5, 6],
               [5, 6, 7, 0]], dtype=int32)
    """
    prompt = jnp.asarray(prompt, jnp.int32)
    batch, given = prompt.shape
    if not 0 < given <= max_length:
        raise ValueError(f"max_length={max_length} has no room for prompts of {given} tokens")
    if temperature > 0 and key is None:
        raise ValueError("sampling with a temperature needs a key: pass key=weft.random.key(0)")
    lengths = jnp.full(batch, given) if prompt_lengths is None else jnp.asarray(prompt_lengths)
    key = random.key(0) if key is None else key
    texts = jnp.zeros((batch, max_length), jnp.int32).at[:, :given].set(prompt)

    def choose(logits, i):
        if temperature == 0:
            return jnp.argmax(logits, axis=-1)
        filtered = filter_logits(logits / temperature, top_k=top_k, top_p=top_p)
        return random.categorical(random.fold_in(key, i), filtered)

    def going(state):
        i, _, ended, _ = state
        return (i < max_length - 1) & ~jnp.all(ended)

    def write(state):
        i, texts, ended, cache = state
        now = lax.dynamic_slice_in_dim(texts, i, 1, axis=1)
        logits, cache = step(now, cache)
        chosen = jnp.where(ended, 0, choose(logits, i)).astype(jnp.int32)
        forced = i + 1 < lengths
        there = lax.dynamic_slice_in_dim(texts, i + 1, 1, axis=1)[:, 0]
        new = jnp.where(forced, there, chosen)
        if eos_id is not None:
            ended = ended | (~forced & (new == eos_id))
        return i + 1, lax.dynamic_update_slice(texts, new[:, None], (0, i + 1)), ended, cache

    first = jnp.asarray(start, jnp.int32), texts, jnp.zeros(batch, bool), cache
    return lax.while_loop(going, write, first)[1]


def beam_search(
    step: Step,
    cache: Any,
    prompt: Any,
    *,
    beams: int,
    max_length: int,
    eos_id: int,
    length_penalty: float = 0.6,
    cache_axis: int = 0,
    start: Any = 0,
) -> tuple[weft.Array, weft.Array]:
    """The likeliest texts that a search finds which keeps the best ``beams`` beginnings.

    Scores are log probabilities divided by ``((5 + n) / 6) ** length_penalty`` for n tokens after
    the prompt (Wu et al., Google's Neural Machine Translation System, 2016).

    Args:
        step: gives logits and a new cache for tokens (batch * beams, 1) and a cache.
        cache: of the first step, a pytree with rows for batch * beams.
        prompt: (batch, length) integers that the texts begin with.
        beams: how many beginnings are kept.
        max_length: how many tokens a text has, with its prompt.
        eos_id: the token that ends a text.
        length_penalty: from 0 up; more favours longer texts.
        cache_axis: the axis of the rows in the cache; leaves of lower rank are left as they are.
        start: how many tokens of the prompts the cache has: all but the last.

    Returns:
        Tokens (batch, beams, max_length), best first, with zeros after the end, and their scores
        (batch, beams). Texts that did not end are among them only where too few did.

    Example:
        >>> table = jnp.log(jnp.array([[0.1, 0.5, 0.4], [0.1, 0.1, 0.8], [0.9, 0.05, 0.05]]))
        >>> step = lambda tokens, cache: (table[tokens[:, 0]], cache)
        >>> prompt = jnp.array([[1]])
        >>> texts, scores = beam_search(step, None, prompt, beams=2, max_length=4, eos_id=0)
        >>> texts[0, 0]
        Array([1, 2, 0, 0], dtype=int32)
    """
    prompt = jnp.asarray(prompt, jnp.int32)
    batch, given = prompt.shape
    if not 0 < given <= max_length:
        raise ValueError(f"max_length={max_length} has no room for prompts of {given} tokens")
    if isinstance(start, int) and start != given - 1:
        raise ValueError(
            f"a search starts after a prompt of {given} tokens: pass a cache with {given - 1} of "
            f"them and start={given - 1}, not {start}"
        )
    longest = float(max_length - given)
    pick = lambda x, rows: jnp.take_along_axis(
        x, rows.reshape(*rows.shape, *[1] * (x.ndim - 2)), axis=1
    )

    def penalty(n):
        return ((5.0 + n) / 6.0) ** length_penalty

    def move(cache, parents):
        rows = (jnp.arange(batch)[:, None] * beams + parents).reshape(-1)
        take = lambda x: jnp.take(x, rows, axis=cache_axis) if jnp.ndim(x) > cache_axis else x
        return weft.tree.map(take, cache)

    def going(state):
        i, _, scores, _, done, _ = state
        # A living text gains at most the smallest penalty that is to come.
        possible = scores[:, 0] / penalty(longest)
        return (i < max_length - 1) & jnp.any(possible > done[:, -1])

    def extend(state):
        i, texts, scores, ended, done, cache = state
        now = lax.dynamic_slice_in_dim(texts, i, 1, axis=2)
        logits, cache = step(now.reshape(-1, 1), cache)
        vocabulary = logits.shape[-1]
        totals = weft.nn.log_softmax(logits.astype(jnp.float32)).reshape(batch, beams, vocabulary)
        totals = (totals + scores[..., None]).reshape(batch, -1)
        # Of 2 * beams extensions at least ``beams`` go on: each beginning ends in one way.
        best, which = lax.top_k(totals, min(2 * beams, totals.shape[1]))
        parents, tokens = which // vocabulary, (which % vocabulary).astype(jnp.int32)
        new = lax.dynamic_update_slice(pick(texts, parents), tokens[..., None], (0, 0, i + 1))
        ends = tokens == eos_id
        scores, rows = lax.top_k(jnp.where(ends, LOW, best), beams)
        finished = jnp.where(ends & (best > LOW / 2), best / penalty(i + 2.0 - given), LOW)
        all_done = jnp.concatenate([done, finished], axis=1)
        done, kept = lax.top_k(all_done, beams)
        ended = pick(jnp.concatenate([ended, new], axis=1), kept)
        cache = move(cache, pick(parents, rows))
        return i + 1, pick(new, rows), scores, ended, done, cache

    texts = jnp.zeros((batch, beams, max_length), jnp.int32).at[:, :, :given].set(prompt[:, None])
    scores = jnp.where(jnp.arange(beams) == 0, 0.0, LOW) + jnp.zeros((batch, 1))
    nothing = jnp.zeros_like(texts), jnp.full((batch, beams), LOW)
    first = jnp.asarray(start, jnp.int32), texts, scores, *nothing, cache
    _, texts, scores, ended, done, _ = lax.while_loop(going, extend, first)
    alive = jnp.where(scores > LOW / 2, scores / penalty(longest), LOW)
    missing = done <= LOW / 2
    # The n-th missing text is the n-th living one.
    n = jnp.clip(jnp.cumsum(missing, axis=1) - 1, 0)
    texts = jnp.where(missing[..., None], pick(texts, n), ended)
    return texts, jnp.where(missing, pick(alive, n), done)
