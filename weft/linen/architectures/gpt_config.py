"""The configurations of GPT: GPT-2 and Llama by their published sizes."""

import dataclasses
from typing import Any, ClassVar

from weft import numpy as jnp
from weft.linen.architectures.config import Config


def _gpt2(features: int, num_layers: int, num_heads: int) -> dict[str, Any]:
    return {
        "features": features,
        "hidden": 4 * features,
        "num_layers": num_layers,
        "num_heads": num_heads,
        "positions": "learned",
        "norm": "layer",
        "gated": False,
        "activation": "gelu",
        "use_bias": True,
        "tie_logits": True,
    }


def _llama(features: int, num_layers: int, heads: tuple[int, int], hidden: int, **more) -> dict:
    sizes = {"features": features, "hidden": hidden, "num_layers": num_layers}
    return {**sizes, "num_heads": heads[0], "num_kv_heads": heads[1], "epsilon": 1e-5, **more}


@dataclasses.dataclass(frozen=True)
class GPTConfig(Config):
    """The sizes of a GPT; by default with rotary positions, RMS norm and a gated SiLU.

    Args:
        vocab_size: the number of tokens.
        max_length: the largest number of tokens of a text.
        features: the number of features of a token.
        hidden: the number of features in the middle of the feed-forward layers.
        num_layers: the number of layers.
        num_heads: the number of attention heads.
        num_kv_heads: the number of heads of keys and values, which query heads share. None gives
            each its own.
        head_dim: the number of features of a head; None for features / num_heads.
        positions: ``'rotary'`` or ``'learned'``.
        rotary_base: the largest period of rotary positions, over 2π.
        norm: ``'rms'`` or ``'layer'``.
        epsilon: the small number that normalisations add to the variance.
        gated: use a gated feed-forward layer.
        activation: the name of the activation function in ``weft.nn``.
        use_bias: whether linear layers have biases.
        tie_logits: use the embeddings as the last layer.
        dropout_rate: the probability of dropout in training.
        scan_layers: compile one layer and loop over all, with parameters stacked along a first
            axis.
        remat: compute intermediate results again in the backward pass, to save memory.
        dtype: the dtype of the computation.

    Example:
        >>> GPTConfig.named("gpt2-medium").num_layers
        24
    """

    vocab_size: int = 50257
    max_length: int = 1024
    features: int = 768
    hidden: int = 2048
    num_layers: int = 12
    num_heads: int = 12
    num_kv_heads: int | None = None
    head_dim: int | None = None
    positions: str = "rotary"
    rotary_base: float = 10000.0
    norm: str = "rms"
    epsilon: float = 1e-5
    gated: bool = True
    activation: str = "silu"
    use_bias: bool = False
    tie_logits: bool = False
    dropout_rate: float = 0.0
    scan_layers: bool = False
    remat: bool = False
    dtype: Any = jnp.float32

    sizes: ClassVar = {
        "gpt2": _gpt2(768, 12, 12),
        "gpt2-medium": _gpt2(1024, 24, 16),
        "gpt2-large": _gpt2(1280, 36, 20),
        "gpt2-xl": _gpt2(1600, 48, 25),
        "tinyllama-1.1b": _llama(2048, 22, (32, 4), 5632, vocab_size=32000, max_length=2048),
        "llama-2-7b": _llama(4096, 32, (32, 32), 11008, vocab_size=32000, max_length=4096),
        "llama-3-8b": _llama(
            4096, 32, (32, 8), 14336, vocab_size=128256, max_length=8192, rotary_base=500000.0
        ),
    }
