"""Images: ``weft.image`` has the functions of ``jax.image`` and of dm_pix.

Values of pixels are floating-point numbers from 0 to 1; channels are last unless ``channel_axis``
says otherwise.
"""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    from weft.image.adjusting import adjust_brightness as adjust_brightness
    from weft.image.adjusting import adjust_contrast as adjust_contrast
    from weft.image.adjusting import adjust_gamma as adjust_gamma
    from weft.image.adjusting import adjust_hue as adjust_hue
    from weft.image.adjusting import adjust_saturation as adjust_saturation
    from weft.image.adjusting import gaussian_blur as gaussian_blur
    from weft.image.adjusting import solarize as solarize
    from weft.image.colours import hsl_to_rgb as hsl_to_rgb
    from weft.image.colours import hsv_to_rgb as hsv_to_rgb
    from weft.image.colours import rgb_to_grayscale as rgb_to_grayscale
    from weft.image.colours import rgb_to_hsl as rgb_to_hsl
    from weft.image.colours import rgb_to_hsv as rgb_to_hsv
    from weft.image.geometry import affine_transform as affine_transform
    from weft.image.geometry import center_crop as center_crop
    from weft.image.geometry import elastic_deformation as elastic_deformation
    from weft.image.geometry import flip_left_right as flip_left_right
    from weft.image.geometry import flip_up_down as flip_up_down
    from weft.image.geometry import pad_to_size as pad_to_size
    from weft.image.geometry import resize_with_crop_or_pad as resize_with_crop_or_pad
    from weft.image.geometry import rot90 as rot90
    from weft.image.geometry import rotate as rotate
    from weft.image.interpolation import flat_nd_linear_interpolate as flat_nd_linear_interpolate
    from weft.image.interpolation import (
        flat_nd_linear_interpolate_constant as flat_nd_linear_interpolate_constant,
    )
    from weft.image.metrics import mae as mae
    from weft.image.metrics import mse as mse
    from weft.image.metrics import psnr as psnr
    from weft.image.metrics import rmse as rmse
    from weft.image.metrics import simse as simse
    from weft.image.metrics import ssim as ssim
    from weft.image.patches import depth_to_space as depth_to_space
    from weft.image.patches import extract_patches as extract_patches
    from weft.image.patches import space_to_depth as space_to_depth
    from weft.image.random_changes import random_brightness as random_brightness
    from weft.image.random_changes import random_contrast as random_contrast
    from weft.image.random_changes import random_crop as random_crop
    from weft.image.random_changes import random_flip_left_right as random_flip_left_right
    from weft.image.random_changes import random_flip_up_down as random_flip_up_down
    from weft.image.random_changes import random_gamma as random_gamma
    from weft.image.random_changes import random_hue as random_hue
    from weft.image.random_changes import random_saturation as random_saturation
    from weft.image.resizing import ResizeMethod as ResizeMethod
    from weft.image.resizing import resize as resize
    from weft.image.resizing import scale_and_translate as scale_and_translate
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        (),
        {
            "weft.image.adjusting": (
                "adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_saturation "
                "gaussian_blur solarize"
            ),
            "weft.image.colours": "hsl_to_rgb hsv_to_rgb rgb_to_grayscale rgb_to_hsl rgb_to_hsv",
            "weft.image.geometry": (
                "affine_transform center_crop elastic_deformation flip_left_right flip_up_down "
                "pad_to_size resize_with_crop_or_pad rot90 rotate"
            ),
            "weft.image.interpolation": (
                "flat_nd_linear_interpolate flat_nd_linear_interpolate_constant"
            ),
            "weft.image.metrics": "mae mse psnr rmse simse ssim",
            "weft.image.patches": "depth_to_space extract_patches space_to_depth",
            "weft.image.random_changes": (
                "random_brightness random_contrast random_crop random_flip_left_right "
                "random_flip_up_down random_gamma random_hue random_saturation"
            ),
            "weft.image.resizing": "ResizeMethod resize scale_and_translate",
        },
    )
