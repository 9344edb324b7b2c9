"""Gradients of functions of matrices behind ``where``: one that is left out, and is NaN or
singular, changes nothing. Beside each is the same function of matrices that are all good."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.scipy.linalg as linalg
from weft import lax

OK = np.array([True, False, True])
SIDE = np.array([1.0, 2.0, -1.0])
_normal = np.random.default_rng(0).normal(size=(3, 3, 3))
GENERAL = _normal + 3 * np.eye(3)
POSITIVE = _normal @ _normal.swapaxes(-1, -2) + 3 * np.eye(3)


def weights(*shape):
    return np.cos(np.arange(int(np.prod(shape)))).reshape(shape)


def log_density(m):
    return weft.scipy.stats.multivariate_normal.logpdf(SIDE, jnp.zeros(3), m)


# name: good matrices, function
FUNCTIONS = {
    "cholesky": (POSITIVE, jnp.linalg.cholesky),
    "cho_solve": (POSITIVE, lambda m: linalg.cho_solve(linalg.cho_factor(m), SIDE)),
    "log_density": (POSITIVE, log_density),
    "inv": (GENERAL, jnp.linalg.inv),
    "solve": (GENERAL, lambda m: jnp.linalg.solve(m, SIDE)),
    "slogdet": (GENERAL, lambda m: jnp.linalg.slogdet(m)[1]),
    "lstsq": (GENERAL, lambda m: jnp.linalg.lstsq(m[:, :2], SIDE)[0]),
    "pinv": (GENERAL, lambda m: jnp.linalg.pinv(m[:, :2])),
    "matrix_power": (GENERAL, lambda m: jnp.linalg.matrix_power(m, 5)),
    "expm": (GENERAL, linalg.expm),
    "qr": (GENERAL, lambda m: jnp.linalg.qr(m)[0]),
    "eigenvectors": (POSITIVE, lambda m: jnp.linalg.eigh(m)[1] ** 2),
    "singular vectors": (GENERAL, lambda m: jnp.linalg.svd(m)[0] ** 2),
    "largest singular value": (GENERAL, lambda m: jnp.linalg.norm(m, 2)),
    "lu_solve": (GENERAL, lambda m: linalg.lu_solve(linalg.lu_factor(m), SIDE)),
    "spectrum": (GENERAL, lambda m: jnp.abs(jnp.fft.fft(m / jnp.linalg.norm(m)))),
}
WAYS = {
    "vmap": lambda f, x: weft.vmap(f)(x),
    "scan": lambda f, x: lax.scan(lambda c, m: (c, f(m)), 0.0, x)[1],
    "stack": lambda f, x: jnp.stack([f(m) for m in x]),
}
CASES = [(name, "vmap", np.nan) for name in FUNCTIONS]
CASES += [(name, "vmap", 0.0) for name in FUNCTIONS if name != "expm"]
CASES += [
    (name, way, np.nan)
    for way in ("scan", "stack")
    for name in ("cholesky", "log_density", "singular vectors", "largest singular value")
]


@pytest.mark.parametrize(("name", "way", "bad"), CASES)
def test_matrices_left_out(name, way, bad):
    good, f = FUNCTIONS[name]
    given = np.where(OK[:, None, None], good, bad)
    direction = np.where(OK[:, None, None], weights(3, 3, 3), 0)

    def total(x):
        y = WAYS[way](f, x)
        kept = jnp.where(OK.reshape(3, *[1] * (y.ndim - 1)), y, 0.0)
        return (kept * weights(*y.shape[1:])).sum()

    def twice(x):
        return weft.grad(lambda x: (weft.grad(total)(x) * direction).sum())(x)

    def along(x):
        return weft.jvp(weft.grad(total), (x,), (direction,))[1]

    with weft.enable_x64(True):
        for derivative in (weft.grad(total), along, twice):
            want = np.where(OK[:, None, None], derivative(good), 0)
            np.testing.assert_allclose(derivative(given), want, rtol=1e-7, atol=1e-8)


def test_inside_of_the_loop():
    """A choice that an iteration makes for all of its matrix."""

    def total(x):
        def step(c, given):
            m, ok = given
            return c + (jnp.where(ok, linalg.expm(m), 0.0) * weights(3, 3)).sum(), None

        return lax.scan(step, 0.0, (x, OK))[0]

    with weft.enable_x64(True):
        for derivative in (weft.grad(total), weft.grad(lambda x: weft.grad(total)(x)[:, 0].sum())):
            found = derivative(np.where(OK[:, None, None], GENERAL, np.nan))
            want = np.where(OK[:, None, None], derivative(GENERAL), 0)
            np.testing.assert_allclose(found, want, rtol=1e-7, atol=1e-8)


def test_a_nan_that_is_taken_stays():
    """What is known of one example says nothing of the others."""
    given = np.where(OK[:, None, None], POSITIVE, np.nan)
    given[2] = -np.eye(3)
    for f in (jnp.linalg.cholesky, linalg.expm):
        with weft.enable_x64(True):
            kept = lambda x, f=f: jnp.where(OK[:, None, None], weft.vmap(f)(x), 0.0).sum()
            found = np.asarray(weft.grad(kept)(given))
        assert np.isfinite(found[:2]).all()
        assert np.isnan(found[2]).any() == (f is jnp.linalg.cholesky)


def _normed(x):
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


# a choice for each element, whose rows nobody has named
ELEMENTS = {
    "spectra of rows": lambda x: jnp.fft.fft(_normed(x)).real,
    "spectra in a loop": lambda x: lax.map(lambda r: jnp.fft.fft(_normed(r)).real, x),
    "spectra in a scan": lambda x: lax.scan(
        lambda c, r: (c + 1, jnp.fft.rfft(_normed(r)).real), 0.0, x
    )[1],
    "columns of solve_triangular": lambda x: linalg.solve_triangular(
        np.tril(np.ones((3, 3))), _normed(x).T, lower=True
    ),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_choices_of_elements(name):
    """One of three vectors is zero, so all elements made of it are NaN, and each is left out."""
    f = ELEMENTS[name]
    good = GENERAL[0]
    given = np.where(OK[:, None], good, 0.0)
    direction = np.where(OK[:, None], weights(3, 3), 0)

    def total(x):
        y = f(x)
        return (jnp.where(jnp.isfinite(y), y, 0.0) * weights(*y.shape)).sum()

    def twice(x):
        return weft.grad(lambda x: (weft.grad(total)(x) * direction).sum())(x)

    with weft.enable_x64(True):
        for derivative in (weft.grad(total), twice):
            want = np.where(OK[:, None], derivative(good), 0)
            np.testing.assert_allclose(derivative(given), want, rtol=1e-7, atol=1e-8)


def test_a_loop_of_products_at_the_end_of_a_gradient():
    """What enters the loop is an argument: nothing behind it asks for the mask."""

    def powers(x):
        return lax.scan(lambda m, _: (m @ m / 4, None), x, length=3)[0]

    def total(x):
        return (jnp.where(OK[:, None, None], weft.vmap(powers)(x), 0.0) * weights(3, 3)).sum()

    def twice(x):
        direction = np.where(OK[:, None, None], weights(3, 3, 3), 0)
        return weft.grad(lambda x: (weft.grad(total)(x) * direction).sum())(x)

    with weft.enable_x64(True):
        for derivative in (weft.grad(total), twice):
            found = derivative(np.where(OK[:, None, None], GENERAL, np.nan))
            want = np.where(OK[:, None, None], derivative(GENERAL), 0)
            np.testing.assert_allclose(found, want, rtol=1e-7, atol=1e-8)
