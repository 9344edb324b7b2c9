"""dm_pix's functions in ``weft.image``, against recorded answers of dm_pix, and their errors."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.image.pix_cases import MAKERS, batch, cases, cotangent
from weft import image

LIBRARY = SimpleNamespace(image=image, key=weft.random.key)


@pytest.fixture(scope="module")
def record():
    with np.load(Path(__file__).parent / "data" / "pix.npz") as file:
        return dict(file)


# dm_pix's own rounding, by which it differs from the same in double precision: 1.3e-6 in gradients
# of rotated images, 2.5e-6 in similarities. What is here has less, see the test after the next.
ROUNDED = {"rotate/grad": 2e-6, "ssim/value": 3e-6, "ssim/grad": 3e-6}


def close(found, expected, bound=1e-6):
    """Equal to a part of the largest value; what is not finite in dm_pix's gradients is free."""
    found, fine = np.asarray(found), np.isfinite(expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    bound *= max(1.0, np.max(np.abs(expected[fine]), initial=0))
    np.testing.assert_allclose(found[fine], expected[fine], rtol=0, atol=bound)


@pytest.mark.parametrize("name", list(MAKERS))
def test_answers_of_dm_pix(record, name):
    tried = 0
    for case_name, case in cases().items():
        if case_name.split("/")[0] != name:
            continue

        def answers(first, *rest, case=case):
            call = lambda x: case.call(LIBRARY, x, *rest)
            found = {"value": call(first)}
            if case.arrays[0].ndim < 4:
                found["vmap"] = weft.vmap(call)(jnp.asarray(batch(case.arrays[0])))
            if case.smooth:
                weights = cotangent(found["value"])
                found["grad"] = weft.grad(lambda x: (call(x) * weights).sum())(first)
            return found

        found = weft.jit(answers)(*map(jnp.asarray, case.arrays))
        for kind, array in found.items():
            close(array, record[f"{case_name}/{kind}"], ROUNDED.get(f"{name}/{kind}", 1e-6))
        tried += len(found)
    assert tried >= 3


def test_eager_calls_give_what_compiled_ones_give(record):
    for name, case in cases().items():
        if name.endswith("/0"):
            bound = ROUNDED.get(name.removesuffix("0") + "value", 1e-6)
            found = case.call(LIBRARY, *map(jnp.asarray, case.arrays))
            close(found, record[f"{name}/value"], bound)


@pytest.mark.parametrize(("name", "bound"), [("rotate", 1e-6), ("ssim", 5e-7)])
def test_rounding_is_less_than_that_of_dm_pix(record, name, bound):
    for number in range(3):
        case, key = cases()[f"{name}/{number}"], f"{name}/{number}"
        weights = cotangent(record[f"{key}/value"])

        def answers(first, *rest, case=case, weights=weights):
            call = lambda x: case.call(LIBRARY, x, *rest)
            slope = weft.grad(lambda x: (call(x) * weights).sum())
            return call(first), slope(first) if case.smooth else None

        found = weft.jit(answers)(*map(jnp.asarray, case.arrays))
        with weft.enable_x64(True):
            wide = [jnp.asarray(array.astype(np.float64)) for array in case.arrays]
            exact = [None if y is None else np.asarray(y) for y in answers(*wide)]
        for one, want in zip(found, exact, strict=True):
            if want is not None:
                close(one, want.astype(np.float32), bound)


def test_all_of_dm_pix_is_there():
    assert len(MAKERS) == 40
    assert set(MAKERS) <= set(dir(image))
    assert {"ResizeMethod", "resize", "scale_and_translate"} <= set(dir(image))


def test_grey_pixels_have_finite_gradients():
    grey = jnp.array([[[0.5, 0.5, 0.5], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]])
    for convert in (image.rgb_to_hsv, image.rgb_to_hsl, image.hsv_to_rgb, image.hsl_to_rgb):
        assert bool(jnp.all(jnp.isfinite(weft.grad(lambda x, f=convert: f(x).sum())(grey))))


def test_similarity_has_a_gradient_where_images_do_not_covary():
    a = jnp.array([[0.0, 1.0], [0.0, 1.0]])[..., None]
    b = jnp.array([[0.0, 0.0], [1.0, 1.0]])[..., None]
    grad = weft.grad(lambda x: image.ssim(x, b, filter_size=2))(a)
    # means are 1/2, variances 1/4: what remains between rows is that of the covariance
    c1, c2 = 0.01**2, 0.03**2
    slope = (2 * 0.25 + c1) * 2 / ((0.5 + c1) * (0.5 + c2))
    np.testing.assert_allclose(grad[1] - grad[0], np.full((2, 1), slope / 4), rtol=1e-5)


def test_colours_come_back():
    colours = weft.random.uniform(weft.random.key(0), (5, 6, 3))
    close(image.hsv_to_rgb(image.rgb_to_hsv(colours)), np.asarray(colours))
    close(image.hsl_to_rgb(image.rgb_to_hsl(colours)), np.asarray(colours))
    blocks = image.depth_to_space(weft.random.uniform(weft.random.key(0), (2, 3, 8)), 2)
    close(image.depth_to_space(image.space_to_depth(blocks, 2), 2), np.asarray(blocks))


def test_a_wide_blur_is_a_product_with_two_matrices():
    x = weft.random.uniform(weft.random.key(1), (40, 7, 2))
    taps = np.exp(-(np.arange(-20, 21) ** 2) / (2 * 6.0**2))
    taps /= taps.sum()
    padded = np.pad(taps, 40)
    band = lambda n: padded[60 + np.arange(n)[:, None] - np.arange(n)]
    expected = np.einsum("ij,jkc,lk->ilc", band(40), np.asarray(x), band(7))
    np.testing.assert_allclose(image.gaussian_blur(x, 6.0, 41), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: image.rgb_to_hsv(x[..., :2]), ValueError, "three channels along axis -1"),
        (lambda x: image.flip_left_right(x, channel_axis=1), ValueError, "third from the end"),
        (lambda x: image.gaussian_blur(x[0], 1.0, 3), ValueError, "a batch of images"),
        (lambda x: image.gaussian_blur(x, 1.0, 99, padding="VALID"), ValueError, "does not fit"),
        (lambda x: image.gaussian_blur(x, 1.0, 3, padding="FULL"), ValueError, "neither 'SAME'"),
        (lambda x: image.mse(x, x[:2]), ValueError, "two images of one shape"),
        (lambda x: image.mse(x.astype(int), x.astype(int)), TypeError, "floating-point images"),
        (lambda x: image.random_crop(weft.random.key(0), x, (9, 1, 1)), ValueError, "cannot take"),
        (lambda x: image.rgb_to_grayscale(x, luma_standard="pal"), ValueError, "not one of rec601"),
        (lambda x: image.affine_transform(x, jnp.eye(2)), ValueError, r"not \(2, 2\)"),
        (lambda x: image.depth_to_space(x, 2), ValueError, "not a multiple of block_size"),
        (lambda x: image.space_to_depth(x, 3), ValueError, "are not multiples of 3"),
        (lambda x: image.extract_patches(x[None], (3, 3), (1, 1), (1, 1)), ValueError, "sizes="),
        (
            lambda x: image.flat_nd_linear_interpolate(x, jnp.ones(3), unflattened_vol_shape=(2,)),
            ValueError,
            "a flat volume",
        ),
    ],
)
def test_wrong_arguments_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call(jnp.ones((4, 4, 3)))


def test_similarity_of_images_far_from_zero():
    """Variances of 1e-4 beside a mean of 1: squares alone would lose three digits."""
    draw = np.random.default_rng(0)
    a, b = (1 + 0.01 * draw.standard_normal((24, 24, 1)) for _ in range(2))
    with weft.enable_x64(True):
        exact = float(image.ssim(jnp.asarray(a), jnp.asarray(b)))
    found = float(image.ssim(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)))
    assert abs(found - exact) < 2e-6


def test_similarity_with_pixels_that_are_not_finite():
    x = weft.random.uniform(weft.random.key(0), (16, 16, 1))
    for bad in (jnp.nan, jnp.inf):
        y = x.at[3, 3].set(bad)
        whole, damaged = (image.ssim(z, x, filter_size=3, return_map=True) for z in (x, y))
        fine = np.isfinite(np.asarray(damaged))
        assert fine.sum() == 14 * 14 - 9
        np.testing.assert_allclose(np.asarray(damaged)[fine], np.asarray(whole)[fine], atol=1e-5)
