"""The sizes of T5 models, by name."""

import dataclasses
from typing import Any, ClassVar

from weft import numpy as jnp
from weft.linen.architectures.config import Config


def _sizes(prefix: str, shared: dict[str, Any], rows: dict[str, tuple[int, ...]]) -> dict:
    fields = "encoder_layers decoder_layers num_heads head_dim features hidden".split()
    return {
        f"{prefix}-{name}": {**shared, **dict(zip(fields, row, strict=True))}
        for name, row in rows.items()
    }


_V1_0 = {
    "small": (6, 6, 8, 64, 512, 2048),
    "base": (12, 12, 12, 64, 768, 3072),
    "large": (24, 24, 16, 64, 1024, 4096),
    "3b": (24, 24, 32, 128, 1024, 16384),
    "11b": (24, 24, 128, 128, 1024, 65536),
}
_V1_1 = {
    "small": (8, 8, 6, 64, 512, 1024),
    "base": (12, 12, 12, 64, 768, 2048),
    "large": (24, 24, 16, 64, 1024, 2816),
    "xl": (24, 24, 32, 64, 2048, 5120),
    "xxl": (24, 24, 64, 64, 4096, 10240),
}
_BYTES = {
    "small": (12, 4, 6, 64, 1472, 3584),
    "base": (18, 6, 12, 64, 1536, 3968),
    "large": (36, 12, 16, 64, 1536, 3840),
    "xl": (36, 12, 32, 64, 2560, 6720),
    "xxl": (36, 12, 64, 64, 4672, 12352),
}


@dataclasses.dataclass(frozen=True)
class T5Config(Config):
    """The sizes of a T5; by default those of version 1.1, small.

    Version 1.0 has ``gated=False, activation="relu", tie_logits=True``.

    Args:
        vocab_size: the number of tokens.
        features: the number of features of a token.
        num_heads: the number of attention heads.
        head_dim: the number of features of a head.
        hidden: the number of features in the middle of the feed-forward layers.
        encoder_layers: the number of layers of the encoder.
        decoder_layers: the number of layers of the decoder.
        gated: use a gated feed-forward layer.
        activation: the name of the activation function in ``weft.nn``.
        tie_logits: use the embeddings as the last layer.
        share_embeddings: let encoder and decoder share their embeddings.
        position_buckets: the number of buckets that distances between positions are sorted into.
        max_distance: the distance from which on all share the last bucket.
        epsilon: the small number that normalisations add to the variance.
        dropout_rate: the probability of dropout in training.
        scan_layers: compile one layer and loop over all, with parameters stacked along a first
            axis.
        remat: compute intermediate results again in the backward pass, to save memory.
        dtype: the dtype of the computation.

    Example:
        >>> T5Config.named("byt5-small").vocab_size
        384
    """

    vocab_size: int = 32128
    features: int = 512
    num_heads: int = 6
    head_dim: int = 64
    hidden: int = 1024
    encoder_layers: int = 8
    decoder_layers: int = 8
    gated: bool = True
    activation: str = "gelu"
    tie_logits: bool = False
    share_embeddings: bool = True
    position_buckets: int = 32
    max_distance: int = 128
    epsilon: float = 1e-6
    dropout_rate: float = 0.0
    scan_layers: bool = False
    remat: bool = False
    dtype: Any = jnp.float32

    sizes: ClassVar = {
        **_sizes("t5", {"gated": False, "activation": "relu", "tie_logits": True}, _V1_0),
        **_sizes("t5-v1_1", {}, _V1_1),
        **_sizes("mt5", {"vocab_size": 250112}, _V1_1),
        **_sizes("byt5", {"vocab_size": 384}, _BYTES),
    }
