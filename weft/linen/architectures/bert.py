"""BERT, an encoder of texts: hidden states, a summary of the text, and logits of hidden tokens.

Reference: Devlin et al., BERT, 2019.
"""

import dataclasses
from functools import partial
from typing import Any, ClassVar, NamedTuple

from weft import linen as nn
from weft import numpy as jnp
from weft.linen.architectures.config import Config, run_layers


def _size(features: int, num_layers: int, num_heads: int, vocab_size: int = 30522) -> dict:
    return {
        "vocab_size": vocab_size,
        "features": features,
        "hidden": 4 * features,
        "num_layers": num_layers,
        "num_heads": num_heads,
    }


@dataclasses.dataclass(frozen=True)
class BERTConfig(Config):
    """The sizes of a BERT; by default bert-base-uncased.

    Args:
        vocab_size: the number of tokens.
        max_length: the largest number of tokens of a text.
        token_types: the number of segments that a token can belong to.
        features: the number of features of a token.
        hidden: the number of features in the middle of the feed-forward layers.
        num_layers: the number of layers.
        num_heads: the number of attention heads.
        pooler: whether to compute a vector for the whole text.
        masked_lm: whether to predict the tokens that are masked.
        epsilon: the small number that normalisations add to the variance.
        dropout_rate: the probability of dropout in training.
        scan_layers: compile one layer and loop over all, with parameters stacked along a first
            axis.
        remat: compute intermediate results again in the backward pass, to save memory.
        dtype: the dtype of the computation.

    Example:
        >>> BERTConfig.named("bert-large-uncased").features
        1024
    """

    vocab_size: int = 30522
    max_length: int = 512
    token_types: int = 2
    features: int = 768
    hidden: int = 3072
    num_layers: int = 12
    num_heads: int = 12
    pooler: bool = True
    masked_lm: bool = True
    epsilon: float = 1e-12
    dropout_rate: float = 0.0
    scan_layers: bool = False
    remat: bool = False
    dtype: Any = jnp.float32

    sizes: ClassVar = {
        "bert-tiny": _size(128, 2, 2),
        "bert-mini": _size(256, 4, 4),
        "bert-base-uncased": _size(768, 12, 12),
        "bert-base-cased": _size(768, 12, 12, 28996),
        "bert-large-uncased": _size(1024, 24, 16),
        "bert-large-cased": _size(1024, 24, 16, 28996),
    }


class BERTOutput(NamedTuple):
    """The outputs of BERT; heads that the configuration leaves out are None.

    Under ``jit``, outputs that are not used cost nothing.

    Args:
        hidden: a vector for each token, of shape (batch, length, features).
        pooled: a vector for each text, of shape (batch, features).
        logits: scores of the tokens, of shape (batch, length, vocab_size).

    Example:
        >>> BERTOutput(None, None, None)._fields
        ('hidden', 'pooled', 'logits')
    """

    hidden: Any
    pooled: Any
    logits: Any


def _norm(config: BERTConfig, name: str) -> nn.Module:
    return nn.LayerNorm(config.epsilon, config.dtype, use_fast_variance=False, name=name)


class Layer(nn.Module):
    """Attention and the feed-forward part, each added to its input and normalised after."""

    config: BERTConfig

    @nn.compact
    def __call__(self, x, mask, deterministic: bool = True):
        """One layer over (batch, length, features)."""
        c = self.config
        drop = nn.Dropout(c.dropout_rate, deterministic=deterministic)
        init = nn.initializers.normal(0.02)
        attention = nn.MultiHeadAttention(
            c.num_heads,
            dtype=c.dtype,
            dropout_rate=c.dropout_rate,
            deterministic=deterministic,
            kernel_init=init,
            name="attention",
        )
        x = _norm(c, "norm_1")(x + drop(attention(x, mask=mask)))
        gelu = partial(nn.gelu, approximate=False)
        mlp = nn.FFN(c.hidden, activation=gelu, dtype=c.dtype, kernel_init=init, name="mlp")
        return _norm(c, "norm_2")(x + drop(mlp(x, deterministic)))


class BERT(nn.Module):
    """A network from tokens to vectors that depend on the tokens around them, and to predictions.

    Args:
        config: the sizes of the network.

    Example:
        >>> import weft
        >>> config = BERTConfig(vocab_size=20, max_length=8, features=8, hidden=16, num_layers=2,
        ...                     num_heads=2)
        >>> model, tokens = BERT(config), jnp.array([[3, 4, 5]])
        >>> variables = model.init(weft.random.key(0), tokens)
        >>> output = model.apply(variables, tokens)
        >>> output.hidden.shape, output.pooled.shape, output.logits.shape
        ((1, 3, 8), (1, 8), (1, 3, 20))
    """

    config: BERTConfig

    @nn.compact
    def __call__(self, tokens, token_types=None, mask=None, *, deterministic: bool = True):
        """Hidden states, the summary and the logits.

        Args:
            tokens: (batch, length) integers.
            token_types: (batch, length), 0 for the first sentence and 1 for the second.
            mask: (batch, length), 0 where there is padding; by default there is none.
            deterministic: no dropout.

        Returns:
            A ``BERTOutput``; its logits are in float32.
        """
        c = self.config
        if tokens.shape[1] > c.max_length:
            raise ValueError(f"{tokens.shape[1]} tokens are more than max_length={c.max_length}")
        init = nn.initializers.normal(0.02)
        table = lambda size, name: nn.Embed(
            size, c.features, c.dtype, embedding_init=init, name=name
        )
        embed = table(c.vocab_size, "tokens")
        types = jnp.zeros_like(tokens) if token_types is None else token_types
        x = embed(tokens) + table(c.max_length, "places")(jnp.arange(tokens.shape[1]))
        x = x + table(c.token_types, "token_types")(types)
        x = nn.Dropout(c.dropout_rate)(_norm(c, "norm")(x), deterministic)
        seen = None if mask is None else jnp.asarray(mask, bool)[:, None, None]
        hidden = run_layers(
            lambda name: Layer(c, name=name),
            c.num_layers,
            lambda layer, x: layer(x, seen, deterministic),
            x,
            scan=c.scan_layers,
            remat=c.remat,
        )
        dense = partial(nn.Dense, c.features, dtype=c.dtype, kernel_init=init)
        pooled = logits = None
        if c.pooler:
            pooled = nn.tanh(dense(name="pooler")(hidden[:, 0]))
        if c.masked_lm:
            h = nn.gelu(dense(name="masked_lm")(hidden), approximate=False)
            h = _norm(c, "masked_lm_norm")(h).astype(jnp.float32)
            bias = self.param("masked_lm_bias", nn.initializers.zeros, (c.vocab_size,))
            logits = h @ embed.embedding.T + bias
        return BERTOutput(hidden, pooled, logits)
