"""Calls of dm_pix's functions, drawn by seed; they run on dm_pix and on ``weft.image``.

A case is a function of a library and arrays. ``library.image`` has the functions, ``library.key``
makes a random key.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

DRAWS = 3
SHAPES = [(9, 7, 3), (8, 8, 3), (6, 11, 3), (2, 7, 9, 3)]


class Case(NamedTuple):
    """A call, its arrays, and whether it has a gradient with respect to the first of them."""

    call: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    smooth: bool = True


def _image(draw, shape):
    return draw.uniform(0, 1, shape).astype(np.float32)


def _with_channels(draw, shapes=SHAPES):
    """An image with its channels last, or in front of height and width, and their axis."""
    image = _image(draw, shapes[draw.randint(len(shapes))])
    axis = [-1, -3][draw.randint(2)]
    return (image if axis == -1 else np.ascontiguousarray(np.moveaxis(image, -1, -3))), axis


def _single(name, draw_options):
    """Cases of a function of an image and options, with either place of the channels."""

    def make(draw):
        image, axis = _with_channels(draw)
        args, options = draw_options(draw)
        return Case(
            lambda L, x: getattr(L.image, name)(x, *args, channel_axis=axis, **options), (image,)
        )

    return make


def _plain(name, draw_options, shapes=SHAPES):
    """Cases of a function of an image and options, without an axis of channels."""

    def make(draw):
        image = _image(draw, shapes[draw.randint(len(shapes))])
        args, options = draw_options(draw)
        return Case(lambda L, x: getattr(L.image, name)(x, *args, **options), (image,))

    return make


def _keyed(name, draw_options, channels=True):
    """Cases of a function of a key, an image and options."""

    def make(draw):
        image, axis = _with_channels(draw) if channels else (_image(draw, SHAPES[0]), None)
        args, options = draw_options(draw)
        if axis is not None:
            options = {**options, "channel_axis": axis}
        seed = draw.randint(1000)
        return Case(lambda L, x: getattr(L.image, name)(L.key(seed), x, *args, **options), (image,))

    return make


def _pair(name, draw_options=lambda draw: {}, shape=(9, 12, 2)):
    def make(draw):
        shape_ = shape if draw.randint(2) else (2, *shape)
        a, b = _image(draw, shape_), _image(draw, shape_)
        nans = bool(draw.randint(2))
        options = {**draw_options(draw), "ignore_nans": nans}
        if nans:
            b[..., 3, 4, 1] = np.nan
        call = lambda L, x, y: getattr(L.image, name)(x, y, **options)
        return Case(call, (a, b), smooth=not nans)

    return make


def _volume(name, constant):
    def make(draw):
        rank = draw.randint(1, 4)
        shape = tuple(draw.randint(2, 6, rank))
        whole = bool(draw.randint(3) == 0)
        volume = draw.randint(0, 100, shape) if whole else _image(draw, shape)
        places = draw.uniform(-1.5, 6, (rank, 4, 3)).astype(np.float32)
        options = {"cval": float(draw.uniform(0, 1))} if constant else {}
        if draw.randint(2):
            options["unflattened_vol_shape"] = shape
            volume = volume.reshape(-1)
        volume = volume.astype(np.int32) if whole else volume
        call = lambda L, x, y: getattr(L.image, name)(x, y, **options)
        return Case(call, (volume, places), smooth=not whole)

    return make


MODES = [
    (1, "nearest"),
    (1, "constant"),
    (0, "nearest"),
    (1, "reflect"),
    (0, "wrap"),
    (1, "mirror"),
]


def _interpolation(draw):
    order, mode = MODES[draw.randint(len(MODES))]
    return {"order": order, "mode": mode, "cval": float(draw.uniform(0, 1))}


def _affine(draw):
    image = _image(draw, SHAPES[draw.randint(3)])
    options = _interpolation(draw)
    kind = draw.randint(3)
    if kind == 0:
        matrix = draw.uniform(0.7, 1.3, 3)
        options["offset"] = draw.uniform(-1, 1, 3).astype(np.float32)
    else:
        matrix = np.eye(3, 3 + (kind == 2)) + draw.uniform(-0.2, 0.2, (3, 3 + (kind == 2)))
        options |= {"offset": float(draw.uniform(-1, 1))} if kind == 1 else {}
    if draw.randint(2):
        matrix = matrix if matrix.ndim == 1 else matrix[:, : matrix.shape[1]]
    call = lambda L, x, m: L.image.affine_transform(x, m, **options)
    return Case(call, (image, matrix.astype(np.float32)))


def _rotate(draw):
    image = _image(draw, SHAPES[draw.randint(3)])
    options = _interpolation(draw)
    angle = np.float32(draw.uniform(-3, 3))
    return Case(lambda L, x, a: L.image.rotate(x, a, **options), (image, angle))


def _patches(draw):
    image = _image(draw, (2, 9, 8, 2))
    sizes = [1, *draw.randint(1, 4, 2), 1]
    strides = sizes if draw.randint(2) else [1, *draw.randint(1, 4, 2), 1]
    rates = [1, *draw.randint(1, 3, 2), 1]
    sizes, strides, rates = ([int(n) for n in row] for row in (sizes, strides, rates))
    padding = ["VALID", "SAME"][draw.randint(2)]
    call = lambda L, x: L.image.extract_patches(x, sizes, strides, rates, padding=padding)
    return Case(call, (image,))


def _elastic(draw):
    image, axis = _with_channels(draw, SHAPES[:3])
    options = {**_interpolation(draw), "channel_axis": axis}
    alpha, sigma, seed = float(draw.uniform(2, 8)), float(draw.uniform(1, 3)), draw.randint(1000)
    call = lambda L, x: L.image.elastic_deformation(L.key(seed), x, alpha, sigma, **options)
    return Case(call, (image,))


def _crop(draw):
    image = _image(draw, (9, 7, 3))
    sizes = int(draw.randint(1, 10)), int(draw.randint(1, 8)), 3
    seed = draw.randint(1000)
    return Case(lambda L, x: L.image.random_crop(L.key(seed), x, sizes), (image,))


def _blocks(name, shape):
    return _plain(name, lambda draw: ((2,), {}), [shape, (2, *shape)])


number = lambda low, high: lambda draw: ((float(draw.uniform(low, high)),), {})
nothing = lambda draw: ((), {})
size = lambda draw: (tuple(int(n) for n in draw.randint(3, 13, 2)), {})
lower_upper = lambda draw: ((float(draw.uniform(0.2, 1)), float(draw.uniform(1, 2))), {})
pads = lambda key: (
    lambda draw: (
        size(draw)[0],
        {key: ["constant", "edge", "reflect"][draw.randint(3)]},
    )
)
gamma = lambda draw: (
    (float(draw.uniform(0.5, 2)),),
    {"gain": float(draw.uniform(0.5, 2)), "assume_in_bounds": bool(draw.randint(2))},
)
blur = lambda draw: (
    (float(draw.uniform(0.5, 3)), float(draw.uniform(1, 6))),
    {"padding": ["SAME", "VALID"][draw.randint(2)]},
)
luma = lambda draw: (
    (),
    {
        "keep_dims": bool(draw.randint(2)),
        "luma_standard": ["rec601", "rec709", "bt2001"][draw.randint(3)],
    },
)
window = lambda draw: {
    "filter_size": int(draw.randint(3, 9)),
    "filter_sigma": float(draw.uniform(1, 3)),
    "max_val": float(draw.uniform(1, 2)),
    "return_map": bool(draw.randint(2)),
}

MAKERS = {
    "adjust_brightness": _plain("adjust_brightness", number(-0.5, 0.5)),
    "adjust_contrast": _single("adjust_contrast", number(0.2, 2)),
    "adjust_gamma": _plain("adjust_gamma", gamma),
    "adjust_hue": _single("adjust_hue", number(-0.5, 0.5)),
    "adjust_saturation": _single("adjust_saturation", number(0.2, 2)),
    "affine_transform": _affine,
    "center_crop": _single("center_crop", size),
    "depth_to_space": _blocks("depth_to_space", (3, 4, 8)),
    "elastic_deformation": _elastic,
    "extract_patches": _patches,
    "flat_nd_linear_interpolate": _volume("flat_nd_linear_interpolate", False),
    "flat_nd_linear_interpolate_constant": _volume("flat_nd_linear_interpolate_constant", True),
    "flip_left_right": _single("flip_left_right", nothing),
    "flip_up_down": _single("flip_up_down", nothing),
    "gaussian_blur": _single("gaussian_blur", blur),
    "hsl_to_rgb": _single("hsl_to_rgb", nothing),
    "hsv_to_rgb": _single("hsv_to_rgb", nothing),
    "mae": _pair("mae"),
    "mse": _pair("mse"),
    "pad_to_size": _single("pad_to_size", pads("mode")),
    "psnr": _pair("psnr"),
    "random_brightness": _keyed("random_brightness", number(0.1, 0.9), channels=False),
    "random_contrast": _keyed("random_contrast", lower_upper),
    "random_crop": _crop,
    "random_flip_left_right": _keyed("random_flip_left_right", nothing, channels=False),
    "random_flip_up_down": _keyed("random_flip_up_down", nothing, channels=False),
    "random_gamma": _keyed("random_gamma", lower_upper, channels=False),
    "random_hue": _keyed("random_hue", number(0.1, 0.5)),
    "random_saturation": _keyed("random_saturation", lower_upper),
    "resize_with_crop_or_pad": _single("resize_with_crop_or_pad", pads("pad_mode")),
    "rgb_to_grayscale": _single("rgb_to_grayscale", luma),
    "rgb_to_hsl": _single("rgb_to_hsl", nothing),
    "rgb_to_hsv": _single("rgb_to_hsv", nothing),
    "rmse": _pair("rmse"),
    "rot90": _single("rot90", lambda draw: ((int(draw.randint(-2, 5)),), {})),
    "rotate": _rotate,
    "simse": _pair("simse"),
    "solarize": _plain("solarize", number(0.2, 0.8)),
    "space_to_depth": _blocks("space_to_depth", (4, 6, 3)),
    "ssim": _pair("ssim", window),
}


def cases():
    """Every case by its name."""
    return {
        f"{name}/{i}": make(np.random.RandomState([ord(c) for c in name] + [i]))
        for name, make in MAKERS.items()
        for i in range(DRAWS)
    }


def cotangent(output):
    """What an output is multiplied by for its gradient: the same numbers in both libraries."""
    return np.cos(np.arange(np.size(output), dtype=np.float32)).reshape(np.shape(output))


def batch(array):
    """Three arrays to map over."""
    if not np.issubdtype(array.dtype, np.floating):
        return np.stack([array, array[::-1], array])
    return np.stack([array, array * np.float32(0.5), array[::-1] if array.ndim else array])
