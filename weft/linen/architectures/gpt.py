"""GPT, a decoder that writes text: with rotary positions and grouped queries, or as GPT-2 is.

References: Radford et al., Language Models Are Unsupervised Multitask Learners, 2019; Su et al.,
RoFormer, 2021; Ainslie et al., GQA, 2023; Touvron et al., Llama 2, 2023.
"""

from typing import Any

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft.linen.architectures.config import run_layers
from weft.linen.architectures.decoding import beam_search, sample
from weft.linen.architectures.gpt_config import GPTConfig
from weft.linen.architectures.prompts import align_prompts
from weft.linen.architectures.prompts import prefill as prefill_cache


def _norm(config: GPTConfig, name: str) -> nn.Module:
    kinds = {"rms": nn.RMSNorm, "layer": nn.LayerNorm}
    if config.norm not in kinds:
        raise ValueError(f"norm={config.norm!r} is neither 'rms' nor 'layer'")
    return kinds[config.norm](config.epsilon, config.dtype, name=name)


class Layer(nn.Module):
    """Attention and the feed-forward part, each normalised before and added to its input."""

    config: GPTConfig
    decode: bool = False

    @nn.compact
    def __call__(self, x, mask=None, positions=None, deterministic: bool = True):
        """One layer over (batch, length, features)."""
        c = self.config
        drop = nn.Dropout(c.dropout_rate, deterministic=deterministic)
        init = nn.initializers.normal(0.02)
        shared = {"use_bias": c.use_bias, "dtype": c.dtype, "kernel_init": init}
        attention = nn.GroupedQueryAttention(
            c.num_heads,
            c.num_kv_heads or c.num_heads,
            head_dim=c.head_dim,
            rotary=c.positions == "rotary",
            rotary_base=c.rotary_base,
            causal=True,
            decode=self.decode,
            name="attention",
            **shared,
        )
        x = x + drop(attention(_norm(c, "norm_1")(x), mask, positions))
        mlp = nn.FFN(
            c.hidden, activation=getattr(nn, c.activation), gated=c.gated, name="mlp", **shared
        )
        return x + drop(mlp(_norm(c, "norm_2")(x), deterministic))


class GPT(nn.Module):
    """A network from tokens to logits of the tokens that follow.

    Args:
        config: the sizes of the network.

    Example:
        >>> config = GPTConfig(vocab_size=20, max_length=8, features=8, hidden=16, num_layers=2,
        ...                    num_heads=4, num_kv_heads=2)
        >>> model, tokens = GPT(config), jnp.array([[3, 4, 5]])
        >>> variables = model.init(weft.random.key(0), tokens)
        >>> model.apply(variables, tokens).shape
        (1, 3, 20)
        >>> model.generate(variables, tokens, max_length=6).shape
        (1, 6)
    """

    config: GPTConfig

    @nn.compact
    def __call__(
        self,
        tokens,
        positions=None,
        segment_ids=None,
        *,
        decode: bool = False,
        deterministic: bool = True,
    ):
        """The logits of the next tokens.

        Args:
            tokens: (batch, length) integers.
            positions: (batch, length) integers, for packed texts; by default 0, 1, 2, ...
            segment_ids: (batch, length), the numbers of texts packed into one row.
            decode: take the next token or tokens and keep keys and values in the collection
                'cache'. The call that makes it, with ``mutable=["cache"]``, has tokens of full
                length.
            deterministic: no dropout.

        Returns:
            Logits (batch, length, vocab_size), in float32.
        """
        c = self.config
        init = nn.initializers.normal(0.02)
        embed = nn.Embed(c.vocab_size, c.features, c.dtype, embedding_init=init, name="tokens")
        x = embed(tokens)
        if c.positions == "learned":
            positions = self._positions(tokens, decode) if positions is None else positions
            table = nn.Embed(c.max_length, c.features, c.dtype, embedding_init=init, name="places")
            x = x + table(positions)
        elif c.positions != "rotary":
            raise ValueError(f"positions={c.positions!r} is neither 'rotary' nor 'learned'")
        x = nn.Dropout(c.dropout_rate)(x, deterministic)
        mask = None
        if segment_ids is not None:
            mask = nn.make_attention_mask(segment_ids, segment_ids, jnp.equal)
        turns = positions if c.positions == "rotary" else None
        x = run_layers(
            lambda name: Layer(c, decode, name=name),
            c.num_layers,
            lambda layer, x: layer(x, mask, turns, deterministic),
            x,
            scan=c.scan_layers,
            remat=c.remat,
        )
        x = _norm(c, "norm")(x).astype(jnp.float32)
        if c.tie_logits:
            return x @ embed.embedding.T
        return nn.Dense(c.vocab_size, use_bias=False, kernel_init=init, name="logits")(x)

    def _positions(self, tokens, decode: bool):
        """0, 1, 2, ... or, when decoding, the next one."""
        length = tokens.shape[1]
        if not decode and length > self.config.max_length:
            raise ValueError(f"{length} tokens are more than max_length={self.config.max_length}")
        if not decode:
            return jnp.arange(length)[None]
        started = self.has_variable("cache", "position")
        position = self.variable("cache", "position", lambda: jnp.zeros((), jnp.int32))
        now = position.value
        position.value = now + length if started else now
        return now + jnp.arange(length)[None]

    @nn.nowrap
    def generate(
        self,
        variables: Any,
        prompt: Any,
        *,
        max_length: int,
        beams: int = 1,
        length_penalty: float = 0.6,
        eos_id: int | None = None,
        prompt_lengths: Any = None,
        padding: str = "right",
        prefill: int | None = None,
        **sampling: Any,
    ):
        """Continue texts with the most likely next tokens, with drawn ones, or by a beam search.

        Prompts go through the network as a whole; then every token takes a pass of its own.

        Args:
            variables: what ``init`` gave.
            prompt: (batch, length) integers.
            max_length: how many tokens a text has at most, with its prompt.
            beams: from 2 up, how many candidates a beam search keeps.
            length_penalty: of the beam search.
            eos_id: the token that ends a text; a beam search needs one.
            prompt_lengths: (batch,), where prompts are shorter than ``prompt``.
            padding: the side of ``prompt`` where shorter ones are filled up, "right" or "left".
            prefill: tokens of the prompts that one pass takes: all, if None. Fewer need less
                memory; 1 passes them one by one.
            sampling: ``key``, ``temperature``, ``top_k`` and ``top_p`` of ``decoding.sample``.

        Returns:
            Tokens (batch, max_length), prompts first, with zeros after the end.
        """
        if self.config.positions == "learned" and max_length > self.config.max_length:
            raise ValueError(
                f"{max_length} tokens are more than {self.config.max_length} positions"
            )
        if beams > 1 and (eos_id is None or prompt_lengths is not None):
            raise ValueError("a beam search needs eos_id and prompts of the same length")
        prompt, lengths = align_prompts(prompt, prompt_lengths, padding)
        if prompt.shape[1] > max_length:
            raise ValueError(
                f"max_length={max_length} has no room for prompts of {prompt.shape[1]} tokens"
            )
        params = {"params": variables["params"]}
        apply = lambda state, tokens: self.apply(state, tokens, decode=True, mutable=["cache"])

        def step(tokens, cache):
            logits, updates = apply({**params, "cache": cache}, tokens)
            return logits[:, -1], updates["cache"]

        whole = jnp.zeros((prompt.shape[0] * beams, max_length), prompt.dtype)
        shapes = weft.eval_shape(lambda: apply(params, whole))[1]["cache"]
        cache = weft.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        rows, every = (jnp.repeat(x, beams, axis=0) for x in (prompt, lengths))
        cache, start = prefill_cache(step, cache, rows, every, prefill)
        options = {"max_length": max_length, "eos_id": eos_id, "start": start}
        if beams == 1:
            return sample(step, cache, prompt, prompt_lengths=lengths, **options, **sampling)
        options |= {"length_penalty": length_penalty, "cache_axis": int(self.config.scan_layers)}
        return beam_search(step, cache, prompt, beams=beams, **options)[0][:, 0]
