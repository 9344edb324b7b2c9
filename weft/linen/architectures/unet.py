"""The U-Net of diffusion models: an image and a time to an image of the same size.

References: Ronneberger et al., U-Net, 2015; Ho et al., Denoising Diffusion Probabilistic Models,
2020.
"""

import dataclasses
import math
from functools import partial
from typing import Any, ClassVar

from weft import linen as nn
from weft import numpy as jnp
from weft.image import resize
from weft.linen.architectures.config import Config


@dataclasses.dataclass(frozen=True)
class UNetConfig(Config):
    """The sizes of a U-Net; by default that of DDPM for CIFAR-10.

    Args:
        channels: the number of channels of the images.
        features: the number of channels of the first level.
        multipliers: the channels of each level over ``features``. Each level is half as high and
            wide as the one before.
        blocks: the number of residual blocks of each level.
        attention_levels: the numbers of the levels with self-attention.
        num_heads: the number of attention heads.
        num_groups: the number of groups of the normalisations.
        num_classes: the number of labels that the network takes too; None for none.
        dropout_rate: the probability of dropout in training.
        epsilon: the small number that normalisations add to the variance.
        dtype: the dtype of the computation.

    Example:
        >>> UNetConfig.named("ddpm-cifar10").multipliers
        (1, 2, 2, 2)
    """

    channels: int = 3
    features: int = 128
    multipliers: tuple[int, ...] = (1, 2, 2, 2)
    blocks: int = 2
    attention_levels: tuple[int, ...] = (1,)
    num_heads: int = 1
    num_groups: int = 32
    num_classes: int | None = None
    dropout_rate: float = 0.0
    epsilon: float = 1e-6
    dtype: Any = jnp.float32

    sizes: ClassVar = {
        "ddpm-cifar10": {"dropout_rate": 0.1},
        "ddpm-celebahq": {"multipliers": (1, 1, 2, 2, 4, 4), "attention_levels": (4,)},
        "tiny": {
            "channels": 1,
            "features": 16,
            "multipliers": (1, 2),
            "blocks": 1,
            "num_groups": 4,
        },
    }


def time_embedding(time, features: int, max_period: float = 10000.0):
    """Sines and cosines of times, with frequencies from 1 down to almost 1 / ``max_period``.

    Args:
        time: (batch,) numbers, such as the step of a diffusion.
        features: how many numbers a time becomes, an even number.
        max_period: of the slowest wave, divided by two pi.

    Returns:
        An array (batch, features): sines, then cosines.

    Example:
        >>> time_embedding(jnp.array([0.0]), 4)
        Array([[0., 0., 1., 1.]], dtype=float32)
    """
    if features % 2:
        raise ValueError(f"time_embedding needs an even number of features, not {features}")
    half = features // 2
    frequencies = jnp.exp(jnp.arange(half, dtype=jnp.float32) * (-math.log(max_period) / half))
    angles = jnp.asarray(time, jnp.float32)[:, None] * frequencies
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def _norm(config: UNetConfig, name: str) -> nn.Module:
    return nn.GroupNorm(config.num_groups, epsilon=config.epsilon, dtype=config.dtype, name=name)


class Block(nn.Module):
    """Two 3x3 convolutions, with the time added between them, added to their input."""

    config: UNetConfig
    features: int

    @nn.compact
    def __call__(self, x, time, deterministic: bool = True):
        """One block over (batch, height, width, channels) and embedded times."""
        c = self.config
        conv = partial(nn.Conv, kernel_size=(3, 3), dtype=c.dtype)
        h = conv(self.features, name="conv_1")(nn.silu(_norm(c, "norm_1")(x)))
        shift = nn.Dense(self.features, dtype=c.dtype, name="time")(nn.silu(time))
        h = nn.silu(_norm(c, "norm_2")(h + shift[:, None, None]))
        h = nn.Dropout(c.dropout_rate)(h, deterministic)
        h = conv(self.features, kernel_init=nn.initializers.zeros, name="conv_2")(h)
        if x.shape[-1] != self.features:
            x = nn.Dense(self.features, dtype=c.dtype, name="shortcut")(x)
        return x + h


class ImageAttention(nn.Module):
    """Self-attention between all pixels, added to its input."""

    config: UNetConfig

    @nn.compact
    def __call__(self, x):
        """Attend over (batch, height, width, channels)."""
        c = self.config
        pixels = _norm(c, "norm")(x).reshape(x.shape[0], -1, x.shape[-1])
        attention = nn.MultiHeadAttention(c.num_heads, dtype=c.dtype, name="attention")
        return x + attention(pixels).reshape(x.shape)


class UNet(nn.Module):
    """A network from noisy images and times to what a diffusion model predicts, such as the noise.

    The last convolution begins with zeros, and so does the output.

    Args:
        config: the sizes of the network.

    Example:
        >>> import weft
        >>> model, images = UNet(UNetConfig.named("tiny")), jnp.ones((2, 8, 8, 1))
        >>> variables = model.init(weft.random.key(0), images, jnp.array([1, 7]))
        >>> model.apply(variables, images, jnp.array([1, 7])).shape
        (2, 8, 8, 1)
    """

    config: UNetConfig

    @nn.compact
    def __call__(self, images, time, labels=None, *, deterministic: bool = True):
        """The prediction for images at given times.

        Args:
            images: (batch, height, width, channels); each level but the last halves them.
            time: (batch,) numbers.
            labels: (batch,) integers, with ``num_classes`` only.
            deterministic: no dropout.

        Returns:
            An array (batch, height, width, config.channels), in float32.
        """
        c = self.config
        self._check(images, labels)
        dense = partial(nn.Dense, 4 * c.features, dtype=c.dtype)
        time = time_embedding(time, c.features).astype(c.dtype)
        time = dense(name="time_2")(nn.silu(dense(name="time_1")(time)))
        if c.num_classes is not None:
            time = time + nn.Embed(c.num_classes, 4 * c.features, c.dtype, name="labels")(labels)
        conv = partial(nn.Conv, kernel_size=(3, 3), dtype=c.dtype)

        def block(x, level, name):
            x = Block(c, c.features * c.multipliers[level], name=name)(x, time, deterministic)
            if level in c.attention_levels:
                x = ImageAttention(c, name=f"{name}_attention")(x)
            return x

        last = len(c.multipliers) - 1
        x = conv(c.features, name="first")(images)
        kept = [x]
        for level in range(last + 1):
            for i in range(c.blocks):
                x = block(x, level, f"down_{level}_block_{i}")
                kept.append(x)
            if level < last:
                x = conv(x.shape[-1], strides=(2, 2), name=f"down_{level}")(x)
                kept.append(x)
        width = c.features * c.multipliers[-1]
        x = Block(c, width, name="middle_1")(x, time, deterministic)
        x = ImageAttention(c, name="middle_attention")(x)
        x = Block(c, width, name="middle_2")(x, time, deterministic)
        for level in reversed(range(last + 1)):
            for i in range(c.blocks + 1):
                x = jnp.concatenate([x, kept.pop()], axis=-1)
                x = block(x, level, f"up_{level}_block_{i}")
            if level > 0:
                batch, height, width, features = x.shape
                x = resize(x, (batch, 2 * height, 2 * width, features), "nearest")
                x = conv(features, name=f"up_{level}")(x)
        x = nn.silu(_norm(c, "last_norm")(x)).astype(jnp.float32)
        zeros = nn.initializers.zeros
        return nn.Conv(c.channels, (3, 3), kernel_init=zeros, name="last")(x)

    def _check(self, images, labels) -> None:
        factor = 2 ** (len(self.config.multipliers) - 1)
        if images.shape[1] % factor or images.shape[2] % factor:
            raise ValueError(
                f"UNet halves images {len(self.config.multipliers) - 1} times: height and width "
                f"of {images.shape} are to be multiples of {factor}"
            )
        if (labels is None) != (self.config.num_classes is None):
            given = "labels" if labels is not None else "no labels"
            raise ValueError(f"UNet got {given} with num_classes={self.config.num_classes}")
