"""Booleans whose byte is neither 0 nor 1, as views of other data have: any byte but 0 is True, on
GPUs as on the host. The text of kernels for GPUs is run on the host."""

import numpy as np
import pytest

import weft
from tests.backends.cuda.test_columns import launch
from tests.backends.cuda.test_ptx import kernels_of
from weft import numpy as jnp
from weft.backends.cuda.schedule import schedule
from weft.kernel.run import run_kernel

BYTES = np.array([0, 1, 2, 3, 128, 254, 255, 0], np.uint8)
FUNCTIONS = {
    "where": lambda a, b, x: jnp.where(a, x, -x),
    "not": lambda a, b, x: ~a,
    "and": lambda a, b, x: a & b,
    "or": lambda a, b, x: a | b,
    "xor": lambda a, b, x: a ^ b,
    "equal": lambda a, b, x: a == b,
    "less": lambda a, b, x: a < b,
    "float": lambda a, b, x: a.astype(jnp.float32) + x,
    "integer": lambda a, b, x: a.astype(jnp.int32) * 3,
    "select": lambda a, b, x: jnp.where(b, a, ~a),
    "maximum": lambda a, b, x: jnp.maximum(a, b),
    "bytes": lambda a, b, x: (a & b).view(jnp.uint8),
    "sum": lambda a, b, x: a.sum(1),
    "count": lambda a, b, x: jnp.count_nonzero(a ^ b, axis=0),
    "any": lambda a, b, x: a.any(1),
    "all": lambda a, b, x: (a | b).all(0),
    "weighted": lambda a, b, x: (a * x).sum(1),
}


ON_GPUS = ("where", "and", "xor", "equal", "float", "select", "sum", "any", "weighted")


def odd(rng, shape):
    return rng.choice(BYTES, shape)


@pytest.mark.parametrize("name", ON_GPUS)
def test_kernels_take_any_byte_but_zero_for_true(name):
    shape = (6, 40)
    rng = np.random.default_rng(0)
    flags = weft.ShapeDtypeStruct(shape, np.bool_)
    numbers = weft.ShapeDtypeStruct(shape, np.float32)
    for kernel in kernels_of(FUNCTIONS[name], flags, flags, numbers):
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        memory, plain = {}, []
        for i in outside:
            b = kernel.buffers[i]
            if b.dtype == bool:
                given = odd(rng, b.size)
                memory[i], known = given.view(bool), given != 0
            else:
                known = rng.normal(size=b.size).astype(b.dtype)
                memory[i] = known.copy()
            plain.append(known)
        parts, scratch = schedule(kernel)
        for i, b in enumerate(scratch):
            memory[len(kernel.buffers) + i] = np.zeros(b.size, b.dtype)
        run_kernel(kernel, plain)
        for part in parts:
            launch(part, [memory[i] for i in part.buffers])
        for i, x in zip(outside, plain, strict=True):
            found = memory[i]
            if kernel.buffers[i].role == "in":
                continue
            if found.dtype == bool:  # what is written is 0 or 1
                assert set(np.unique(found.view(np.uint8))) <= {0, 1}
            np.testing.assert_allclose(found, x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_so_does_the_host(name):
    rng = np.random.default_rng(1)
    a, b = odd(rng, (6, 40)), odd(rng, (6, 40))
    x = rng.normal(size=(6, 40)).astype(np.float32)
    wanted = FUNCTIONS[name](jnp.asarray(a != 0), jnp.asarray(b != 0), jnp.asarray(x))
    function = FUNCTIONS[name]
    for run in (function, weft.jit(function)):
        found = run(jnp.asarray(a.view(bool)), jnp.asarray(b.view(bool)), jnp.asarray(x))
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5, atol=1e-5)
    found = weft.jit(function)(a.view(bool), b.view(bool), x)  # memory of the caller's
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5, atol=1e-5)
