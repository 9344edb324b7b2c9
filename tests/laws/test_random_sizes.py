"""Products and convolutions of sizes drawn at random, outside of ``jit`` and of a function that had
other shapes before: code for any sizes, whose plans depend on them, gives what NumPy gives.
"""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp

# Relative to the sum of the products' sizes.
STEPS = {"float32": 1.2e-7, "float64": 2.3e-16, "bfloat16": 8e-3, "complex64": 3e-7}
PRODUCTS, CONVOLUTIONS = 40, 12
MOST_PRODUCTS = 3e7  # multiplications
# The first two have found errors.
SEEDS = [5, 8, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(10, 70))]


def size(rng, most):
    """A number that is as often small as large."""
    return int(np.exp(rng.uniform(0, np.log(most))))


def numbers(rng, shape, dtype):
    x = rng.standard_normal(shape)
    if dtype == "complex64":
        return (x + 1j * rng.standard_normal(shape)).astype(dtype)
    return np.asarray(jnp.asarray(x).astype(dtype))


def check(functions, args, want, sizes, dtype, terms):
    tolerance = STEPS[dtype] * (1.01 if dtype == "bfloat16" else 8 + np.sqrt(terms))
    for name, function in functions.items():
        got = np.asarray(function(*args)).astype(want.dtype)
        wrong = ~(np.abs(got - want) <= tolerance * sizes)
        assert not wrong.any(), f"{name}, {dtype}, {[x.shape for x in args]}: {wrong.mean():.2%}"


@pytest.mark.parametrize("seed", SEEDS)
def test_products(seed):
    rng, known = np.random.default_rng(seed), {}
    with weft.enable_x64():
        for _ in range(PRODUCTS):
            dtype = str(rng.choice(["float32", "float32", "float64", "bfloat16", "complex64"]))
            m, n, k = size(rng, 1500), size(rng, 1500), size(rng, rng.choice([12, 2000]))
            batch = size(rng, 20) if rng.integers(2) else 1
            if batch * m * k * n > MOST_PRODUCTS:
                continue
            turned = tuple(rng.integers(2, size=2).tolist())
            x = numbers(rng, (batch, k, m) if turned[0] else (batch, m, k), dtype)
            y = numbers(rng, (batch, n, k) if turned[1] else (batch, k, n), dtype)
            axes = (((2 - turned[0],), (1 + turned[1],)), ((0,), (0,)))
            plain = lambda x, y, axes=axes: lax.dot_general(x, y, axes)
            jitted = known.setdefault((dtype, turned), weft.jit(plain))
            wide = np.complex128 if dtype == "complex64" else np.float64
            a, b = x.astype(wide), y.astype(wide)
            a = a.swapaxes(1, 2) if turned[0] else a
            b = b.swapaxes(1, 2) if turned[1] else b
            functions = {"outside of jit": plain, "jit": jitted}
            check(functions, (x, y), a @ b, np.abs(a) @ np.abs(b), dtype, k)


def convolved(x, w, strides, padding):
    """A convolution, the taps of the window one after another."""
    x = np.pad(x, [(0, 0), *padding, (0, 0)])
    count = [(n - k) // s + 1 for n, k, s in zip(x.shape[1:], w.shape, strides, strict=False)]
    found = np.zeros((x.shape[0], *count, w.shape[-1]))
    for tap in np.ndindex(*w.shape[:2]):
        at = [slice(i, i + (n - 1) * s + 1, s) for i, n, s in zip(tap, count, strides, strict=True)]
        found += x[:, at[0], at[1]] @ w[tap]
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_convolutions(seed):
    rng, known = np.random.default_rng(seed), {}
    with weft.enable_x64():
        for _ in range(CONVOLUTIONS):
            dtype = str(rng.choice(["float32", "float32", "float64", "bfloat16"]))
            window, space = rng.choice([1, 2, 3, 5], 2), [size(rng, 40) + 4 for _ in range(2)]
            images, channels, filters = size(rng, 8), size(rng, 64), size(rng, 64)
            terms = int(np.prod(window)) * channels
            if images * np.prod(space) * terms * filters > MOST_PRODUCTS:
                continue
            strides = tuple(rng.integers(1, 3, 2).tolist())
            padding = tuple((int(i), int(j)) for i, j in rng.integers(0, 3, (2, 2)))
            x = numbers(rng, (images, *space, channels), dtype)
            w = numbers(rng, (*window, channels, filters), dtype)
            plain = lambda x, w, s=strides, p=padding: lax.conv_general_dilated(
                x, w, s, p, dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            jitted = known.setdefault((dtype, strides, padding), weft.jit(plain))
            a, b = x.astype(np.float64), w.astype(np.float64)
            want, sizes = (convolved(f(a), f(b), strides, padding) for f in (np.array, np.abs))
            check({"outside of jit": plain, "jit": jitted}, (x, w), want, sizes, dtype, terms)
