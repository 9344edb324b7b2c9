"""The vision transformer: patches of an image as tokens.

Reference: Dosovitskiy et al., An Image Is Worth 16x16 Words, 2021.
"""

import dataclasses
from functools import partial
from typing import Any, ClassVar

from weft import linen as nn
from weft import numpy as jnp
from weft.linen.architectures.config import Config, run_layers


def _size(features: int, hidden: int, num_layers: int, num_heads: int, patch_size: int) -> dict:
    return {
        "features": features,
        "hidden": hidden,
        "num_layers": num_layers,
        "num_heads": num_heads,
        "patch_size": patch_size,
    }


@dataclasses.dataclass(frozen=True)
class ViTConfig(Config):
    """The sizes of a ViT; by default ViT-B/16.

    Args:
        image_size: the height and width of the images.
        patch_size: the height and width of a patch.
        features: the number of features of a patch.
        hidden: the number of features in the middle of the feed-forward layers.
        num_layers: the number of layers.
        num_heads: the number of attention heads.
        num_classes: the number of classes.
        pool: ``'token'`` classifies by a token of its own, ``'mean'`` by the mean of all patches.
        epsilon: the small number that normalisations add to the variance.
        dropout_rate: the probability of dropout in training.
        scan_layers: compile one layer and loop over all, with parameters stacked along a first
            axis.
        remat: compute intermediate results again in the backward pass, to save memory.
        dtype: the dtype of the computation.

    Example:
        >>> ViTConfig.named("vit-s/16", image_size=32, patch_size=4).num_patches
        64
    """

    image_size: int = 224
    patch_size: int = 16
    features: int = 768
    hidden: int = 3072
    num_layers: int = 12
    num_heads: int = 12
    num_classes: int = 1000
    pool: str = "token"
    epsilon: float = 1e-6
    dropout_rate: float = 0.0
    scan_layers: bool = False
    remat: bool = False
    dtype: Any = jnp.float32

    sizes: ClassVar = {
        "vit-ti/16": _size(192, 768, 12, 3, 16),
        "vit-s/16": _size(384, 1536, 12, 6, 16),
        "vit-s/32": _size(384, 1536, 12, 6, 32),
        "vit-b/16": _size(768, 3072, 12, 12, 16),
        "vit-b/32": _size(768, 3072, 12, 12, 32),
        "vit-l/16": _size(1024, 4096, 24, 16, 16),
        "vit-h/14": _size(1280, 5120, 32, 16, 14),
    }

    @property
    def num_patches(self) -> int:
        """How many patches an image has."""
        return (self.image_size // self.patch_size) ** 2


class Layer(nn.Module):
    """Attention and the feed-forward part, each normalised before and added to its input."""

    config: ViTConfig

    @nn.compact
    def __call__(self, x, deterministic: bool = True):
        """One layer over (batch, tokens, features)."""
        c = self.config
        norm = partial(nn.LayerNorm, epsilon=c.epsilon, dtype=c.dtype)
        drop = nn.Dropout(c.dropout_rate, deterministic=deterministic)
        attention = nn.MultiHeadAttention(
            c.num_heads,
            dtype=c.dtype,
            dropout_rate=c.dropout_rate,
            deterministic=deterministic,
            name="attention",
        )
        x = x + drop(attention(norm(name="norm_1")(x)))
        gelu = partial(nn.gelu, approximate=False)
        mlp = nn.FFN(
            c.hidden, activation=gelu, dropout_rate=c.dropout_rate, dtype=c.dtype, name="mlp"
        )
        return x + drop(mlp(norm(name="norm_2")(x), deterministic))


class ViT(nn.Module):
    """A network from images (batch, height, width, channels) to logits.

    Args:
        config: the sizes of the network.

    Example:
        >>> import weft
        >>> config = ViTConfig(image_size=8, patch_size=4, features=8, hidden=16, num_layers=2,
        ...                    num_heads=2, num_classes=10)
        >>> model, images = ViT(config), jnp.ones((2, 8, 8, 3))
        >>> variables = model.init(weft.random.key(0), images)
        >>> model.apply(variables, images).shape
        (2, 10)
    """

    config: ViTConfig

    @nn.compact
    def __call__(self, images, *, deterministic: bool = True, features: bool = False):
        """The logits of the classes.

        Args:
            images: (batch, image_size, image_size, channels).
            deterministic: no dropout.
            features: return the outputs of the last layer for all tokens instead.

        Returns:
            Logits (batch, num_classes) in float32, or features (batch, tokens, features).
        """
        c = self.config
        if images.shape[1:3] != (c.image_size, c.image_size) or c.image_size % c.patch_size:
            raise ValueError(
                f"ViT expects images (batch, {c.image_size}, {c.image_size}, channels), whole "
                f"patches of {c.patch_size}, not {images.shape}: pass ViTConfig other sizes"
            )
        if c.pool not in ("token", "mean"):
            raise ValueError(f"pool={c.pool!r} is neither 'token' nor 'mean'")
        patch = c.patch_size, c.patch_size
        embed = nn.Conv(c.features, patch, patch, "VALID", dtype=c.dtype, name="embed")
        x = embed(images).reshape(images.shape[0], c.num_patches, c.features)
        tokens = c.num_patches
        if c.pool == "token":
            token = self.param("token", nn.initializers.zeros, (1, 1, c.features))
            token = jnp.broadcast_to(token.astype(x.dtype), (x.shape[0], 1, c.features))
            x, tokens = jnp.concatenate([token, x], axis=1), tokens + 1
        init = nn.initializers.normal(0.02)
        x = x + self.param("positions", init, (1, tokens, c.features)).astype(x.dtype)
        x = nn.Dropout(c.dropout_rate)(x, deterministic)
        x = run_layers(
            lambda name: Layer(c, name=name),
            c.num_layers,
            lambda layer, x: layer(x, deterministic),
            x,
            scan=c.scan_layers,
            remat=c.remat,
        )
        x = nn.LayerNorm(c.epsilon, c.dtype, name="norm")(x)
        if features:
            return x
        pooled = x[:, 0] if c.pool == "token" else jnp.mean(x, axis=1)
        return nn.Dense(c.num_classes, name="head")(pooled.astype(jnp.float32))
