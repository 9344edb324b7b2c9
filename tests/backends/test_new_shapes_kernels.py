"""Kernels of middle and large arrays read their sizes: new shapes of a kind compile nothing."""

import numpy as np
import pytest

import weft
from weft import lax, nn
from weft import numpy as jnp
from weft.base import knobs

# The first two of each are learnt from; no other test has them. Rows of 65 to 80 elements are one
# kind, as they end in the same register, and so are those of three.
SHAPES = {
    "planes": [(131, 137), (142, 140), (139, 151), (151, 133)],
    "rows": [(513, 73), (522, 66), (511, 79), (598, 70)],
    "narrow": [(9011, 3), (7012, 3), (8003, 3), (10001, 3)],
    "few rows": [(3, 9013), (3, 8004), (3, 7771), (3, 9999)],
}

CALLS = {
    "sum of rows": lambda x: jnp.sum(x, 1),
    "sum of columns": lambda x: jnp.sum(x, 0),
    "mean of columns": lambda x: jnp.mean(x, 0),
    "std of columns": lambda x: jnp.std(x, 0),
    "std of rows": lambda x: jnp.std(x, 1),
    "max of rows": lambda x: jnp.max(x, 1),
    "argmax of rows": lambda x: jnp.argmax(x, 1),
    "argmin of columns": lambda x: jnp.argmin(x, 0),
    "all of rows": lambda x: jnp.all(x > -1, 1),
    "softmax": nn.softmax,
    "softmax of columns": lambda x: nn.softmax(x, 0),
    "log_softmax": nn.log_softmax,
    "standardize": nn.standardize,
    "logmeanexp": nn.logmeanexp,
    "plus a row": lambda x: x + x[0],
    "plus a column": lambda x: x + x[:, :1],
    "transpose": lambda x: x.T + 1,
    "permuted": lambda x: jnp.transpose(x),
    "rot90": jnp.rot90,
    "flip": jnp.flip,
    "flip of rows": lambda x: jnp.flip(x, 1),
    "roll": lambda x: jnp.roll(x, 2, 1),
    "inside": lambda x: x[1:, 1:],
    "steps": lambda x: x[::3],
    "pad": lambda x: jnp.pad(x, 2),
    "pad by wrapping": lambda x: jnp.pad(x, 2, "wrap"),
    "diff": lambda x: jnp.diff(x, axis=1),
    "gradient": lambda x: jnp.gradient(x)[0],
    "concatenate": lambda x: jnp.concatenate([x, x], 1),
    "repeat": lambda x: jnp.repeat(x, 2, 1),
    "repeat of rows": lambda x: jnp.repeat(x, 3, 0),
    "triangle": jnp.tril,
    "diagonal": jnp.diagonal,
    "trace": jnp.trace,
    "rows": lambda x: x[jnp.asarray([2, 0, 1])],
    "take along": lambda x: jnp.take_along_axis(x, jnp.argsort(x, 0)[:2], 0),
    "update": lambda x: lax.dynamic_update_slice(x, x[:2, :2], (1, 1)),
    "update of a row": lambda x: lax.dynamic_update_index_in_dim(x, x[0], 1, 0),
    "box": lambda x: lax.dynamic_slice(x, (1, 1), (2, 2)),
    "reduce": lambda x: lax.reduce(x, 0.0, lax.add, (1,)),
    "pairs": lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID"),
}


def array(shape, dtype=np.float32):
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype))


def check(fun, x, found):
    with knobs.scope(backend="reference"):
        wanted = fun(x)
    for a, b in zip(weft.tree.leaves(found), weft.tree.leaves(wanted), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def run(fun, shapes, texts):
    for i, shape in enumerate(shapes):
        x = array(shape)
        for _ in range(2):
            found = fun(x)
        if i > 1:
            assert texts == []
        texts.clear()
        check(fun, x, found)
        texts.clear()


EVERY = [(name, kind) for kind in ("planes", "narrow") for name in CALLS]
EVERY += [(name, kind) for kind in ("rows", "few rows") for name in [*CALLS][::2]]


@pytest.mark.parametrize("name, kind", EVERY)
def test_a_new_shape_compiles_nothing(name, kind, texts):
    run(CALLS[name], SHAPES[kind], texts)


LINES = [(20011,), (21006,), (17005,), (23002,)]
CUBES = [(41, 42, 61), (43, 40, 64), (45, 39, 63), (40, 50, 62)]
SQUARES = [(101, 101), (110, 110), (103, 103), (106, 106)]
OTHERS = {
    "pieces": (lambda x: jnp.array_split(x, 4), LINES),
    "repeat": (lambda x: jnp.repeat(x, 3), LINES),
    "steps": (lambda x: x[::5], LINES),
    "pad": (lambda x: lax.pad(x, 0.0, ((2, 3, 0),)), LINES),
    "bits": (lambda x: jnp.unpackbits(x.astype(jnp.uint8)), LINES),
    "moveaxis": (lambda x: jnp.moveaxis(x, 0, -1), CUBES),
    "permuted": (lambda x: jnp.permute_dims(x, (2, 0, 1)), CUBES),
    "swapped": (lambda x: jnp.swapaxes(x, 0, 2), CUBES),
    "unstack": (lambda x: jnp.unstack(x), CUBES),
    "kron": (lambda x: jnp.kron(x, jnp.ones((4, 4))), SQUARES),
    "diagonal sum": (lambda x: jnp.einsum("ii->", x), SQUARES),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_new_shape_of_another_kind_compiles_nothing(name, texts):
    run(*OTHERS[name], texts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.bool_])
def test_rows_of_any_length_are_what_compiled_functions_make_of_them(dtype):
    with weft.enable_x64(True):
        for n in (2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 64, 65, 80, 127, 128, 129, 160):
            x = array((9000 // n + 3, n), dtype)
            for fun in (
                lambda x: x.sum(1),
                lambda x: x.max(1),
                lambda x: x[:, ::-1],
                jnp.transpose,
            ):
                found, wanted = fun(x), weft.jit(lambda x, fun=fun: fun(x))(x)
                assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes()


def test_a_number_that_changes_nothing_is_looked_at():
    x = array((300, 40))
    for first in (0.0, 1.0, 0.0):
        for _ in range(3):
            found = lax.reduce(x, first, lax.add, (1,))
        np.testing.assert_allclose(found, np.asarray(x).sum(1) + first, rtol=1e-5, atol=1e-5)
