"""Residual networks for images: ResNet 18, 34, 50, 101 and 152.

Stages halve the image in the 3x3 convolution of their first block (version 1.5), and padding is the
same on both sides. References: He et al., Deep Residual Learning, 2016; Goyal et al., Accurate,
Large Minibatch SGD, 2017.
"""

import dataclasses
from functools import partial
from typing import Any, ClassVar

from weft import linen as nn
from weft import numpy as jnp
from weft.linen.architectures.config import Config


@dataclasses.dataclass(frozen=True)
class ResNetConfig(Config):
    """The sizes of a ResNet; by default ResNet-50 for ImageNet.

    Args:
        depths: the number of blocks of each stage.
        features: the number of features of each stage.
        bottleneck: use blocks with 1x1 convolutions before and after.
        num_classes: the number of classes.
        stem: ``'imagenet'`` begins with a 7x7 convolution and a pooling that leave a quarter of the
            height and width; ``'small'``, for images such as CIFAR's, with a 3x3 convolution.
        momentum: the weight of the past in the running averages.
        epsilon: the small number that normalisations add to the variance.
        axis_name: the name of a mapped axis over which batch statistics are combined.
        dtype: the dtype of the computation.

    Example:
        >>> ResNetConfig.named("resnet-18", num_classes=10, stem="small").depths
        (2, 2, 2, 2)
    """

    depths: tuple[int, ...] = (3, 4, 6, 3)
    features: tuple[int, ...] = (64, 128, 256, 512)
    bottleneck: bool = True
    num_classes: int = 1000
    stem: str = "imagenet"
    momentum: float = 0.9
    epsilon: float = 1e-5
    axis_name: str | None = None
    dtype: Any = jnp.float32

    sizes: ClassVar = {
        "resnet-18": {"depths": (2, 2, 2, 2), "bottleneck": False},
        "resnet-34": {"depths": (3, 4, 6, 3), "bottleneck": False},
        "resnet-50": {"depths": (3, 4, 6, 3)},
        "resnet-101": {"depths": (3, 4, 23, 3)},
        "resnet-152": {"depths": (3, 8, 36, 3)},
    }


def _parts(config: ResNetConfig, train: bool):
    """The convolution and the normalisation of a network, without their sizes and names."""
    conv = partial(
        nn.Conv,
        use_bias=False,
        dtype=config.dtype,
        kernel_init=nn.initializers.variance_scaling(2.0, "fan_out", "normal"),
    )
    norm = partial(
        nn.BatchNorm,
        use_running_average=not train,
        momentum=config.momentum,
        epsilon=config.epsilon,
        axis_name=config.axis_name if train else None,
        dtype=config.dtype,
    )
    return conv, norm


class Block(nn.Module):
    """Two 3x3 convolutions, or with a bottleneck 1x1, 3x3 and 1x1, added to their input.

    The last normalisation begins with the scale 0, so that a new block passes its input on.
    """

    config: ResNetConfig
    features: int
    stride: int = 1

    @nn.compact
    def __call__(self, x, train: bool = False):
        """One block over (batch, height, width, channels)."""
        conv, norm = _parts(self.config, train)
        wide = 4 * self.features if self.config.bottleneck else self.features
        shapes = [(self.features, 3, self.stride), (wide, 3, 1)]
        if self.config.bottleneck:
            shapes = [(self.features, 1, 1), (self.features, 3, self.stride), (wide, 1, 1)]
        y = x
        for i, (features, size, stride) in enumerate(shapes, start=1):
            last = i == len(shapes)
            window = (size, size), (stride, stride), size // 2
            y = conv(features, *window, name=f"conv_{i}")(y)
            init = nn.initializers.zeros if last else nn.initializers.ones
            y = norm(scale_init=init, name=f"norm_{i}")(y)
            y = y if last else nn.relu(y)
        if x.shape != y.shape:
            x = conv(wide, (1, 1), (self.stride, self.stride), 0, name="shortcut_conv")(x)
            x = norm(name="shortcut_norm")(x)
        return nn.relu(x + y)


class ResNet(nn.Module):
    """A network from images to logits, with running averages in 'batch_stats'.

    Images have the shape (batch, height, width, channels).

    Args:
        config: the sizes of the network.

    Example:
        >>> import weft
        >>> config = ResNetConfig(depths=(1, 1), features=(4, 8), num_classes=10, stem="small")
        >>> model, images = ResNet(config), jnp.ones((2, 8, 8, 3))
        >>> variables = model.init(weft.random.key(0), images)
        >>> logits, updates = model.apply(variables, images, train=True, mutable=["batch_stats"])
        >>> logits.shape, sorted(variables["params"])
        ((2, 10), ['head', 'stage_0_block_0', 'stage_1_block_0', 'stem_conv', 'stem_norm'])
    """

    config: ResNetConfig

    @nn.compact
    def __call__(self, images, train: bool = False, *, features: bool = False):
        """The logits of the classes.

        Args:
            images: (batch, height, width, channels).
            train: normalise by the statistics of the batch, and move the running averages; call
                ``apply`` with ``mutable=["batch_stats"]``.
            features: return the averages over each image that the last layer takes.

        Returns:
            Logits (batch, num_classes) in float32, or features (batch, channels).
        """
        c = self.config
        if c.stem not in ("imagenet", "small"):
            raise ValueError(f"stem={c.stem!r} is neither 'imagenet' nor 'small'")
        conv, norm = _parts(c, train)
        size, stride = (7, 2) if c.stem == "imagenet" else (3, 1)
        window = (size, size), (stride, stride), size // 2
        x = conv(c.features[0], *window, name="stem_conv")(images)
        x = nn.relu(norm(name="stem_norm")(x))
        if c.stem == "imagenet":
            x = nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
        for i, (depth, width) in enumerate(zip(c.depths, c.features, strict=True)):
            for j in range(depth):
                stride = 2 if i > 0 and j == 0 else 1
                x = Block(c, width, stride, name=f"stage_{i}_block_{j}")(x, train)
        x = jnp.mean(x, axis=(1, 2), dtype=jnp.float32)
        return x if features else nn.Dense(c.num_classes, name="head")(x)
