"""T5, an encoder and a decoder with relative positions: versions 1.0 and 1.1, mT5 and ByT5.

Parameters have the names and shapes of FlaxFormer's T5. References: Raffel et al., Exploring the
Limits of Transfer Learning, 2020; Shazeer, GLU Variants Improve Transformer, 2020; Xue et al.,
ByT5, 2022.
"""

from typing import Any

from weft import linen as nn
from weft import numpy as jnp
from weft.linen.architectures.config import run_layers
from weft.linen.architectures.decoding import beam_search, sample
from weft.linen.architectures.t5_config import T5Config as T5Config
from weft.linen.architectures.t5_layers import (
    DecoderLayer,
    EncoderLayer,
    PositionBias,
    drop,
    norm,
)


def _embed(config: T5Config, name: str = "token_embedder") -> nn.Module:
    init = nn.initializers.normal(1.0)
    return nn.Embed(
        config.vocab_size, config.features, config.dtype, embedding_init=init, name=name
    )


class Encoder(nn.Module):
    """Tokens to vectors that know of the tokens around them."""

    config: T5Config
    embed: nn.Module | None = None

    @nn.compact
    def __call__(self, tokens, mask, deterministic: bool = True):
        """The output (batch, length, features) for tokens (batch, length)."""
        c = self.config
        x = (self.embed or _embed(c))(tokens)
        x = drop(c, x, deterministic)
        positions = jnp.arange(tokens.shape[1])
        bias = PositionBias(c, bidirectional=True, name="relpos_bias")(positions, positions)
        x = run_layers(
            lambda name: EncoderLayer(c, name=name),
            c.encoder_layers,
            lambda layer, x: layer(x, bias, mask, deterministic),
            x,
            scan=c.scan_layers,
            remat=c.remat,
        )
        return drop(c, norm(c, "encoder_norm")(x), deterministic)


class Decoder(nn.Module):
    """Tokens and the encoder's output to logits of the tokens that follow."""

    config: T5Config
    embed: nn.Module | None = None

    @nn.compact
    def __call__(self, tokens, encoded, mask, encoder_mask, *, length=None, deterministic=True):
        """The logits (batch, length, vocabulary); with ``length``, of one position of so many."""
        c = self.config
        embed = self.embed or _embed(c)
        x = drop(c, embed(tokens), deterministic)
        keys = queries = jnp.arange(tokens.shape[1])
        cache = None
        if length is not None:
            started = self.has_variable("cache", "position")
            position = self.variable("cache", "position", lambda: jnp.zeros((), jnp.int32))
            cache = position.value, length
            keys, queries = jnp.arange(length), position.value[None]
            mask = (keys <= position.value)[None, None, None]
            if started:
                position.value = position.value + 1
        bias = PositionBias(c, bidirectional=False, name="relpos_bias")(queries, keys)
        x = run_layers(
            lambda name: DecoderLayer(c, name=name),
            c.decoder_layers,
            lambda layer, x: layer(x, encoded, bias, mask, encoder_mask, cache, deterministic),
            x,
            scan=c.scan_layers,
            remat=c.remat,
        )
        x = drop(c, norm(c, "decoder_norm")(x), deterministic).astype(jnp.float32)
        if c.tie_logits:
            return x @ embed.embedding.T / jnp.sqrt(c.features).astype(jnp.float32)
        init = nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal")
        return nn.Dense(c.vocab_size, False, kernel_init=init, name="logits_dense")(x)


class T5(nn.Module):
    """An encoder and a decoder: text to text. Token 0 is padding, token 1 ends a text.

    Args:
        config: the sizes of the network.

    Example:
        >>> import weft
        >>> model = T5(T5Config(vocab_size=20, features=8, num_heads=2, head_dim=4, hidden=16,
        ...                     encoder_layers=1, decoder_layers=1))
        >>> tokens = jnp.array([[3, 4, 1, 0]])
        >>> variables = model.init(weft.random.key(0), tokens, tokens)
        >>> model.apply(variables, tokens, tokens).shape
        (1, 4, 20)
        >>> model.generate(variables, tokens, max_length=6).shape
        (1, 6)
    """

    config: T5Config

    def setup(self):
        """The encoder and the decoder, and the embedding if they share one."""
        c = self.config
        embed = None
        if c.share_embeddings:
            self.token_embedder = embed = _embed(c, None)
        self.encoder = Encoder(c, embed)
        self.decoder = Decoder(c, embed)

    def __call__(
        self,
        encoder_input_tokens,
        decoder_input_tokens,
        decoder_target_tokens=None,
        encoder_segment_ids=None,
        decoder_segment_ids=None,
        *,
        deterministic: bool = True,
    ):
        """The logits of a decoder's next tokens.

        Args:
            encoder_input_tokens: (batch, length) integers; 0 is padding.
            decoder_input_tokens: (batch, length), the targets moved right by one position.
            decoder_target_tokens: (batch, length), to hide padding in the decoder too. Without
                them the decoder's mask is causal and nothing else.
            encoder_segment_ids: (batch, length), the numbers of examples packed into one row.
            decoder_segment_ids: the same for the decoder.
            deterministic: no dropout.

        Returns:
            Logits (batch, length, vocab_size), in float32.
        """
        encoded = self.encode(
            encoder_input_tokens, encoder_segment_ids, deterministic=deterministic
        )
        targets = decoder_target_tokens
        mask = nn.make_causal_mask(decoder_input_tokens)
        seen = jnp.ones_like(decoder_input_tokens) if targets is None else targets > 0
        across = nn.make_attention_mask(seen, encoder_input_tokens > 0)
        if targets is not None:
            mask = mask * nn.make_attention_mask(seen, seen)
        if decoder_segment_ids is not None:
            ours, theirs = decoder_segment_ids, encoder_segment_ids
            mask = mask * nn.make_attention_mask(ours, ours, jnp.equal)
            across = across * nn.make_attention_mask(ours, theirs, jnp.equal)
        inputs = decoder_input_tokens, encoded, mask > 0, across > 0
        return self.decoder(*inputs, deterministic=deterministic)

    def encode(self, tokens, segment_ids=None, *, deterministic: bool = True):
        """The encoder's output (batch, length, features) for tokens (batch, length)."""
        mask = nn.make_attention_mask(tokens > 0, tokens > 0)
        if segment_ids is not None:
            mask = mask * nn.make_attention_mask(segment_ids, segment_ids, jnp.equal)
        return self.encoder(tokens, mask > 0, deterministic)

    def decode(self, tokens, encoded, encoder_tokens, max_length: int):
        """The logits (batch, 1, vocab_size) after one more token of each text, with a cache.

        The first call, with ``mutable=["cache"]``, makes the collection 'cache' with room for
        ``max_length`` tokens. Calls that are given it fill it, beginning with the first token.
        """
        across = (encoder_tokens > 0)[:, None, None]
        return self.decoder(tokens, encoded, None, across, length=max_length)

    @nn.nowrap
    def generate(
        self,
        variables: Any,
        encoder_tokens: Any,
        *,
        max_length: int,
        beams: int = 1,
        length_penalty: float = 0.6,
        eos_id: int = 1,
        start_id: int = 0,
        **sampling: Any,
    ):
        """Write texts for inputs: the most likely next tokens, samples, or a beam search.

        Args:
            variables: what ``init`` gave.
            encoder_tokens: (batch, length) integers.
            max_length: how many tokens are written at most.
            beams: from 2 up, how many candidates a beam search keeps.
            length_penalty: of the beam search.
            eos_id: the token that ends a text.
            start_id: the decoder's first input.
            sampling: ``key``, ``temperature``, ``top_k`` and ``top_p`` of ``decoding.sample``.

        Returns:
            Tokens (batch, max_length), with zeros after the end.
        """
        encoder_tokens = jnp.repeat(jnp.asarray(encoder_tokens), beams, axis=0)
        params = {"params": variables["params"]}
        encoded = self.apply(params, encoder_tokens, method="encode")
        apply = lambda state, tokens: self.apply(
            state, tokens, encoded, encoder_tokens, max_length, method="decode", mutable=["cache"]
        )

        def step(tokens, cache):
            logits, updates = apply({**params, "cache": cache}, tokens)
            return logits[:, -1], updates["cache"]

        rows = encoder_tokens.shape[0]
        cache = apply(params, jnp.zeros((rows, 1), jnp.int32))[1]["cache"]
        prompt = jnp.full((rows // beams, 1), start_id, jnp.int32)
        options = {"max_length": max_length + 1, "eos_id": eos_id}
        if beams > 1:
            axis = int(self.config.scan_layers)
            options |= {"length_penalty": length_penalty, "cache_axis": axis}
            return beam_search(step, cache, prompt, beams=beams, **options)[0][:, 0, 1:]
        return sample(step, cache, prompt, **options, **sampling)[:, 1:]
