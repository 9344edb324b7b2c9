"""Functions of ``weft.image`` against dm_pix on JAX: compiled calls, gradients and first calls."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from bench.rows import Program, Row, same

SIDE = 224


def _functions(jax: Any) -> Any:
    """The functions that go with a library: `weft.image`, or dm_pix."""
    return importlib.import_module("dm_pix" if jax.__name__ == "jax" else "weft.image")


def _images(count: int, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.random((count, SIDE, SIDE, 3), np.float32)


def _each(call: Any, count: int = 4) -> Any:
    """A program that changes a batch of images, one function of an image mapped over them."""

    def setup(jax: Any) -> Program:
        image = _functions(jax)
        return Program(jax.vmap(lambda x: call(image, jax, x)), (_images(count),))

    return setup


def _pairs(call: Any, gradient: bool = False) -> Any:
    """A program that compares two batches of images, or its gradient."""

    def setup(jax: Any) -> Program:
        image = _functions(jax)
        compare = lambda a, b: call(image, a, b)
        if gradient:
            compare = jax.grad(lambda a, b: call(image, a, b).sum())
        return Program(compare, (_images(4), _images(4, seed=1)))

    return setup


def _augment(image: Any, jax: Any, x: Any) -> Any:
    """What a training does to an image."""
    keys = jax.random.split(jax.random.key(0), 5)
    x = image.random_crop(keys[0], x, (192, 192, 3))
    x = image.random_flip_left_right(keys[1], x)
    x = image.random_brightness(keys[2], x, 0.2)
    x = image.random_contrast(keys[3], x, 0.5, 1.5)
    return image.random_hue(keys[4], x, 0.1)


CALLS = {
    "adjust_contrast": lambda image, jax, x: image.adjust_contrast(x, 1.5),
    "adjust_gamma": lambda image, jax, x: image.adjust_gamma(x, 2.2),
    "adjust_hue": lambda image, jax, x: image.adjust_hue(x, 0.2),
    "rgb_to_hsl": lambda image, jax, x: image.rgb_to_hsl(x),
    "rgb_to_grayscale": lambda image, jax, x: image.rgb_to_grayscale(x),
    "gaussian_blur, 9 pixels": lambda image, jax, x: image.gaussian_blur(x, 2.0, 9),
    "rotate": lambda image, jax, x: image.rotate(x, 0.3),
    "affine_transform": lambda image, jax, x: image.affine_transform(
        x, np.array([[0.9, 0.1, 0, 3], [-0.1, 0.9, 0, 5], [0, 0, 1, 0]], np.float32)
    ),
    "elastic_deformation": lambda image, jax, x: image.elastic_deformation(
        jax.random.key(0), x, 10.0, 2.0
    ),
    "extract_patches, 3 by 3": lambda image, jax, x: image.extract_patches(
        x[None], (1, 3, 3, 1), (1, 1, 1, 1), (1, 1, 1, 1)
    ),
    "extract_patches, 16 by 16": lambda image, jax, x: image.extract_patches(
        x[None], (1, 16, 16, 1), (1, 16, 16, 1), (1, 1, 1, 1)
    ),
    "space_to_depth": lambda image, jax, x: image.space_to_depth(x, 4),
    "five random changes": _augment,
}

PAIRS = {
    "psnr": lambda image, a, b: image.psnr(a, b),
    "ssim": lambda image, a, b: image.ssim(a, b),
}

# How far results may be apart. Coordinates near 200 have a rounding error of 1e-5, and so have
# similarities of noise, which are near 0.
TOLERANCE = 1e-6
TOLERANCES = dict.fromkeys(("rotate", "affine_transform", "elastic_deformation", "ssim"), 1e-4)
TOLERANCES["ssim, gradient"] = 3e-6

ROWS = [
    *(
        Row(
            name,
            "4 images of 224 by 224 pixels",
            same(_each(call)),
            unit="ms",
            clock="wall",
            ratio=1.0,
            limit=60.0,
            tolerance=TOLERANCES.get(name, TOLERANCE),
        )
        for name, call in CALLS.items()
    ),
    *(
        Row(
            name,
            "4 pairs of images of 224 by 224 pixels",
            same(setup),
            unit="ms",
            clock="wall",
            ratio=1.0,
            tolerance=TOLERANCES.get(name, TOLERANCE),
        )
        for name, setup in {
            f"{name}{', gradient' if gradient else ''}": _pairs(call, gradient)
            for name, call in PAIRS.items()
            for gradient in (False, True)
        }.items()
    ),
    *(
        Row(
            f"{kind}: {name}",
            "first call on 4 images of 224 by 224 pixels",
            same(setup),
            kind=kind,
            unit="ms",
            clock="wall",
            ratio=1.0 if kind == "cold" else 0.5,
            limit=120.0,
        )
        for kind in ("cold", "warm")
        for name, setup in {
            "five random changes": _each(_augment),
            "ssim, gradient": _pairs(PAIRS["ssim"], gradient=True),
        }.items()
    ),
]
