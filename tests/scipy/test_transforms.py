"""``weft.scipy.fft``, ``ndimage``, ``interpolate``, ``integrate`` and ``cluster`` against SciPy."""

import numpy as np
import pytest
from scipy import fft as reference_fft
from scipy import integrate as reference_integrate
from scipy import interpolate as reference_interpolate
from scipy import ndimage as reference_ndimage
from scipy.cluster import vq as reference_vq

import weft
import weft.numpy as jnp
from weft.scipy import cluster, fft, integrate, interpolate, ndimage

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def double():
    with weft.enable_x64(True):
        yield


def close(got, wanted, tolerance=1e-11):
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


# --- cosine transforms ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("name", ["dct", "idct"])
def test_cosine_transform(name, norm, n):
    got, wanted = getattr(fft, name), getattr(reference_fft, name)
    x = RNG.standard_normal((3, n))
    close(got(x, norm=norm), wanted(x, norm=norm))
    close(got(x, axis=0, norm=norm), wanted(x, axis=0, norm=norm))
    for length in (2, 11):
        close(got(x, n=length, norm=norm), wanted(x, n=length, norm=norm))
    z = x + 1j * x[::-1]
    close(got(z, norm=norm), wanted(z, norm=norm))


@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("name", ["dctn", "idctn"])
def test_cosine_transforms_of_several_axes(name, norm):
    got, wanted = getattr(fft, name), getattr(reference_fft, name)
    x = RNG.standard_normal((3, 4, 5))
    for options in ({}, {"axes": (0, 2)}, {"s": (2, 6), "axes": (1, 2)}, {"s": (3, 7)}):
        close(got(x, norm=norm, **options), wanted(x, norm=norm, **options))


def test_cosine_transform_under_transformations():
    x = RNG.standard_normal((2, 6))
    close(weft.vmap(fft.dct)(x), reference_fft.dct(x))
    close(weft.jit(fft.idct)(x), reference_fft.idct(x))
    matrix = reference_fft.dct(np.eye(6), axis=0)
    close(weft.jacobian(fft.dct)(x[0]), matrix)
    close(weft.jacobian(fft.idct)(x[0]), np.linalg.inv(matrix))
    with weft.enable_x64(False):
        assert fft.dct(jnp.ones(4, jnp.float16)).dtype == np.float32
        assert fft.dct(jnp.arange(4)).dtype == np.float32


def test_cosine_transform_refusals():
    x = jnp.ones((2, 3))
    for call, error in (
        (lambda: fft.dct(x, type=1), NotImplementedError),
        (lambda: fft.idctn(x, type=3), NotImplementedError),
        (lambda: fft.dct(x, norm="other"), ValueError),
        (lambda: fft.dct(jnp.zeros(0)), TypeError),
        (lambda: fft.dct(x, n=0), TypeError),
        (lambda: fft.dctn(x, axes=(0, 0)), ValueError),
        (lambda: fft.dctn(x, axes=(2,)), ValueError),
        (lambda: fft.dctn(x, s=(2, 3), axes=(0,)), ValueError),
        (lambda: fft.dct([1.0, 2.0]), TypeError),
    ):
        with pytest.raises(error):
            call()


# --- values between elements ----------------------------------------------------------------------

MODES = ["constant", "nearest", "wrap", "mirror", "reflect"]
# SciPy's modes that do with whole elements what JAX's do
SCIPY_MODES = {"constant": "grid-constant", "wrap": "grid-wrap"}


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_map_coordinates(mode, order):
    x = RNG.standard_normal((4, 5))
    at = RNG.uniform(-9, 12, (2, 60))
    got = ndimage.map_coordinates(x, list(at), order, mode=mode, cval=0.7)
    wanted = reference_ndimage.map_coordinates(
        x, at, order=order, mode=SCIPY_MODES.get(mode, mode), cval=0.7
    )
    close(got, wanted)
    compiled = weft.jit(lambda x, at: ndimage.map_coordinates(x, at, order, mode, 0.7))
    close(compiled(x, at), wanted)


def test_map_coordinates_kinds():
    x = np.arange(12).reshape(3, 4)
    at = [np.array([0.5, 1.5, 0.25]), np.array([0, 1.5, 3])]
    # JAX's answers: halves go away from zero
    np.testing.assert_array_equal(ndimage.map_coordinates(x, at, 1), [2, 8, 4])
    np.testing.assert_array_equal(ndimage.map_coordinates(-x, at, 1), [-2, -8, -4])
    z = x * (1 + 2j)
    close(ndimage.map_coordinates(z, at, 1), np.array([2, 7.5, 4]) * (1 + 2j))
    assert ndimage.map_coordinates(x.astype("float16"), at, 1).dtype == np.float16
    close(ndimage.map_coordinates(x * 1.0, [np.ones((2, 1)), np.ones(3)], 1), np.full((2, 3), 5.0))
    slope = weft.grad(lambda t: ndimage.map_coordinates(x * 1.0, [t, jnp.float64(1.5)], 1))(0.3)
    assert slope == 4
    for call, error in (
        (lambda: ndimage.map_coordinates(x, at[:1], 1), ValueError),
        (lambda: ndimage.map_coordinates(x, at, 2), NotImplementedError),
        (lambda: ndimage.map_coordinates(x, at, 1, mode="other"), NotImplementedError),
    ):
        with pytest.raises(error):
            call()


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, -1.5, None])
@pytest.mark.parametrize("trailing", [(), (2,)])
def test_grid_interpolation(method, fill, trailing):
    grid = np.array([0.0, 0.5, 2.0, 3.0]), np.array([-1.0, 0.0, 4.0])
    values = RNG.standard_normal((4, 3, *trailing))
    at = RNG.uniform(-2, 5, (50, 2))
    options = {"method": method, "bounds_error": False, "fill_value": fill}
    got = interpolate.RegularGridInterpolator(grid, values, **options)
    wanted = reference_interpolate.RegularGridInterpolator(grid, values, **options)(at)
    close(got(at), wanted)
    close(weft.jit(got)(at), wanted)
    close(got(at.reshape(5, 10, 2)), wanted.reshape(5, 10, *trailing))
    close(got((at[:, 0], at[:, 1])), wanted)
    close(got(at[0]), wanted[:1])


def test_grid_interpolation_derivatives_and_refusals():
    grid, values = (np.array([0.0, 1.0, 3.0]),), np.array([0.0, 2.0, 8.0])
    f = interpolate.RegularGridInterpolator(grid, values)
    close(weft.vmap(weft.grad(lambda t: f(t[None])[0]))(np.array([0.5, 2.0])), [2.0, 3.0])
    make = interpolate.RegularGridInterpolator
    for call, error in (
        (lambda: make(grid, values, method="cubic"), ValueError),
        (lambda: make(grid, values, bounds_error=True), NotImplementedError),
        (lambda: make(grid, values[:2]), ValueError),
        (lambda: make((grid[0], grid[0]), values), ValueError),
        (lambda: make(grid, values, fill_value=1j), ValueError),
        (lambda: make([[0.0, 1.0, 3.0]], values), TypeError),
        (lambda: f(np.ones((2, 2)), method="other"), ValueError),
        (lambda: f(np.ones((2, 2))), ValueError),
    ):
        with pytest.raises(error):
            call()


def test_trapezoid():
    y, x = RNG.standard_normal((3, 5)), np.sort(RNG.standard_normal(5))
    close(integrate.trapezoid(y, x), reference_integrate.trapezoid(y, x))
    close(integrate.trapezoid(y, dx=0.5, axis=0), reference_integrate.trapezoid(y, dx=0.5, axis=0))


# --- vector quantization --------------------------------------------------------------------------


@pytest.mark.parametrize("shapes", [((9, 3), (4, 3)), ((9,), (4,))], ids=str)
def test_vector_quantization(shapes):
    points, codes = (RNG.standard_normal(s) for s in shapes)
    for got, wanted in zip(
        cluster.vq.vq(points, codes), reference_vq.vq(points, codes), strict=True
    ):
        close(got, wanted)


def test_vector_quantization_refusals():
    vq = cluster.vq.vq
    for call, error in (
        (lambda: vq(jnp.ones((2, 3)), jnp.ones(2)), ValueError),
        (lambda: vq(jnp.ones((2, 3, 1)), jnp.ones((2, 3, 1))), ValueError),
        (lambda: vq(jnp.ones((2, 3)), jnp.ones((2, 2))), TypeError),
        (lambda: vq(jnp.ones((2, 3)), jnp.ones((0, 3))), ValueError),
        (lambda: vq([[1.0]], jnp.ones((1, 1))), TypeError),
    ):
        with pytest.raises(error):
            call()
