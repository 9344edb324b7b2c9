"""Products of bfloat16 by registers of whole matrices, where the processor has them."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.backends.cpu.routines.products import product
from weft.backends.llvm.native.processor import has_matrices

pytestmark = pytest.mark.skipif(not has_matrices(), reason="needs a processor with AMX")

SIZES = [(16, 64, 32), (32, 32, 64), (17, 61, 35), (100, 50, 70), (31, 40, 33), (257, 130, 90)]


def random(*shape):
    numbers = np.random.default_rng(sum(shape)).normal(size=shape)
    return jnp.asarray(numbers, jnp.bfloat16)


@pytest.fixture
def used(monkeypatch):
    """The products that went this way."""
    found = []
    way = product.matrix_tasks
    monkeypatch.setattr(product, "matrix_tasks", lambda *args: (found.append(args), way(*args)))
    return found


@pytest.mark.parametrize("out", [jnp.bfloat16, jnp.float32])
@pytest.mark.parametrize("right", ["plain", "turned"])
@pytest.mark.parametrize("left", ["plain", "turned"])
@pytest.mark.parametrize("size", SIZES)
def test_products_of_all_layouts(used, size, left, right, out):
    rows, columns, depth = size
    a = random(rows, depth) if left == "plain" else random(depth, rows)
    b = random(depth, columns) if right == "plain" else random(columns, depth)

    def product(a, b):
        a, b = (a if left == "plain" else a.T), (b if right == "plain" else b.T)
        return jnp.matmul(a, b, preferred_element_type=out)

    got = weft.jit(product)(a, b)
    a, b = (np.asarray(x, np.float64) for x in (a, b))
    want = (a if left == "plain" else a.T) @ (b if right == "plain" else b.T)
    assert used and got.dtype == out
    scale = depth * np.finfo(np.float32).eps
    if out == jnp.bfloat16:
        scale += 2.0**-8
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=scale, atol=8 * scale)


def test_outer_axes_and_what_is_shared(used):
    a, b = random(3, 40, 64), random(64, 48)
    got = weft.jit(lambda a, b: (a @ b, jnp.einsum("bij,bkj->bik", a, a)))(a, b)
    wide = np.asarray(a, np.float64)
    np.testing.assert_allclose(got[0], wide @ np.asarray(b, np.float64), rtol=0.01, atol=0.1)
    np.testing.assert_allclose(got[1], wide @ wide.transpose(0, 2, 1), rtol=0.01, atol=0.1)
    assert len(used) == 2


def test_what_is_no_number_or_infinite_stays_so(used):
    a = np.ones((40, 64), np.float32)
    a[3, 5], a[7, 1], a[39, 63] = np.nan, np.inf, -np.inf
    got = np.asarray(weft.jit(jnp.matmul)(jnp.asarray(a, jnp.bfloat16), random(64, 33) ** 2 + 1))
    assert used and np.isnan(got[3]).all() and np.isposinf(got[7]).all()
    assert np.isneginf(got[39]).all() and np.isfinite(np.delete(got, (3, 7, 39), 0)).all()


def test_the_same_bits_by_any_number_of_threads(used):
    a, b = random(300, 200), random(200, 170)
    found = []
    for threads in (1, 2, 8):
        with weft.num_threads(threads):
            found.append(np.asarray(weft.jit(lambda a, b: a @ b)(a, b)).tobytes())
    assert used and len(set(found)) == 1


def test_a_gradient_and_what_follows_a_product(used):
    a, b = random(64, 96), random(96, 80)

    def loss(a, b):
        return jnp.sum(jnp.tanh(a @ b).astype(jnp.float32))

    got = weft.jit(weft.grad(loss, (0, 1)))(a, b)
    wide = [x.astype(jnp.float32) for x in (a, b)]
    want = weft.grad(loss, (0, 1))(*wide)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one.astype(jnp.float32), other, rtol=0.1, atol=0.3)
    assert len(used) == 3
