"""``weft.image`` against JAX's recorded answers and against what resizing must keep."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import image

X = np.arange(12, dtype=np.float32).reshape(3, 4)

# method, antialias, the rows of the result of shape (2, 7)
RECORDED = [
    ("nearest", True, [[0, 0, 1, 2, 2, 3, 3], [8, 8, 9, 10, 10, 11, 11]]),
    ("linear", True, [[1.5, 1.85714, 2.42857, 3, 3.57143, 4.14286, 4.5],
                      [6.5, 6.85714, 7.42857, 8, 8.57143, 9.14286, 9.5]]),
    ("linear", False, [[1, 1.35714, 1.92857, 2.5, 3.07143, 3.64286, 4],
                       [7, 7.35714, 7.92857, 8.5, 9.07143, 9.64286, 10]]),
    ("cubic", True, [[1.15984, 1.50304, 2.16318, 2.73916, 3.31515, 3.97529, 4.31849],
                     [6.68151, 7.02471, 7.68485, 8.26083, 8.83682, 9.49696, 9.84016]]),
    ("cubic", False, [[0.59221, 0.93541, 1.59555, 2.17153, 2.74752, 3.40766, 3.75086],
                      [7.24914, 7.59234, 8.25248, 8.82847, 9.40446, 10.06459, 10.40779]]),
    ("lanczos3", True, [[1.01551, 1.32563, 2.00535, 2.5958, 3.18625, 3.86597, 4.17609],
                        [6.82391, 7.13403, 7.81375, 8.4042, 8.99465, 9.67437, 9.98449]]),
    ("lanczos5", False, [[0.1703, 0.59308, 1.21799, 1.79838, 2.37878, 3.00368, 3.42647],
                         [7.57353, 7.99632, 8.62122, 9.20162, 9.78201, 10.40692, 10.82971]]),
    ("cubic-pytorch", False, [[0.66641, 1.04487, 1.66222, 2.26562, 2.86903, 3.48638, 3.86484],
                              [7.13516, 7.51362, 8.13097, 8.73438, 9.33778, 9.95513, 10.33359]]),
    ("area", True, [[1.33333, 1.58333, 2.33333, 2.83333, 3.33333, 4.08333, 4.33333],
                    [6.66667, 6.91667, 7.66667, 8.16667, 8.66667, 9.41667, 9.66667]]),
]  # fmt: skip
METHODS = sorted({name for name, _, _ in RECORDED})


@pytest.mark.parametrize(("method", "antialias", "wanted"), RECORDED)
def test_recorded(method, antialias, wanted):
    found = image.resize(X, (2, 7), method, antialias)
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    compiled = weft.jit(lambda x: image.resize(x, (2, 7), method, antialias))(X)
    np.testing.assert_allclose(compiled, found, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_constants_stay(method):
    for shape in ((5, 3), (1, 9), (3, 4)):
        np.testing.assert_allclose(image.resize(np.ones((3, 4)), shape, method), 1, rtol=1e-6)
    np.testing.assert_array_equal(image.resize(X, (3, 4), method), X)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "nearest"])
def test_linear_in_the_image(method):
    x = jnp.asarray(np.random.default_rng(0).standard_normal((3, 4)), jnp.float32)

    def total(x):
        return (image.resize(x, (5, 2), method) ** 2).sum()

    slope = weft.grad(total)(x)
    np.testing.assert_allclose((slope * x).sum(), 2 * total(x), rtol=1e-5)
    mapped = weft.vmap(lambda x: image.resize(x, (5, 2), method))(jnp.stack([x, -x]))
    np.testing.assert_allclose(mapped[1], -image.resize(x, (5, 2), method), rtol=1e-5, atol=1e-6)


def test_names():
    names = {"bilinear": "LINEAR", "trilinear": "LINEAR", "triangle": "LINEAR", "bicubic": "CUBIC",
             "tricubic": "CUBIC", "nearest": "NEAREST", "area": "AREA"}  # fmt: skip
    for name, method in names.items():
        assert image.ResizeMethod.from_string(name) is image.ResizeMethod[method]
    np.testing.assert_allclose(
        image.resize(X, (2, 2), image.ResizeMethod.CUBIC), [[1.82594, 3.65239], [7.34761, 9.17406]],
        atol=1e-5,
    )  # fmt: skip


def test_dtypes():
    assert image.resize(jnp.arange(4), (8,), "nearest").dtype == np.int32
    assert image.resize(jnp.arange(4), (8,), "linear").dtype == np.float32
    assert image.resize(X.astype(np.float16), (2, 4), "cubic").dtype == np.float16
    assert image.resize(X * 1j, (2, 4), "cubic").dtype == np.complex64
    assert image.resize(X, (0, 4), "linear").shape == (0, 4)


def test_scale_and_translate():
    scale, shift = jnp.array([2.0, 0.5]), jnp.array([-1.0, 0.5])
    found = image.scale_and_translate(X, (3, 4), (0, 1), scale, shift, "linear")
    wanted = [[1.25, 2.5, 3.75, 0], [3.25, 4.5, 5.75, 0], [5.25, 6.5, 7.75, 0]]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    half = jnp.array([0.5])
    found = image.scale_and_translate(X, (3, 6), (1,), half, half, "cubic")
    np.testing.assert_allclose(found[0], [0.015625, 1.5, 2.984375, 0, 0, 0], atol=1e-6)
    found = image.scale_and_translate(X, (3, 6), (-1,), half, half, "area")
    np.testing.assert_allclose(found[0], [0, 1.5, 3, 0, 0, 0], atol=1e-6)

    def total(scale, shift):
        return image.scale_and_translate(X, (3, 4), (0, 1), scale, shift, "linear").sum()

    np.testing.assert_allclose(weft.grad(total)(scale, shift), [-22.5, -18.0], rtol=1e-5)


def test_refusals():
    one = jnp.ones(1)
    for call in (
        lambda: image.resize(X, (2,), "linear"),
        lambda: image.resize(X, (2, 2), "other"),
        lambda: image.resize(X, (2, 2), 3),
        lambda: image.resize(jnp.zeros((0, 4)), (2, 4), "linear"),
        lambda: image.scale_and_translate(X, (3, 4), (1,), one, one, "nearest"),
        lambda: image.scale_and_translate(X, (3,), (0,), one, one, "linear"),
        lambda: image.scale_and_translate(X, (4, 4), (1,), one, one, "linear"),
        lambda: image.scale_and_translate(X, (3, 4), (2,), one, one, "linear"),
        lambda: image.scale_and_translate(X, (3, 4), (0, 1), one, one, "linear"),
        lambda: image.scale_and_translate(X, (3, 4), (1, 1), jnp.ones(2), jnp.ones(2), "linear"),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            call()
    with pytest.raises(TypeError):
        image.resize([1.0, 2.0], (4,), "linear")
