"""Sums of diagonals read the diagonal alone, and give what the sum of everything masked gives."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.compiler.fuse import Fusion
from weft.compiler.passes.cse import cse
from weft.compiler.passes.diagonal import diagonal
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.kernel.kernel import Loop, statements
from weft.kernel.spec import verify


def array(*shape):
    return np.random.default_rng(sum(shape)).integers(-9, 10, shape).astype(np.float32)


def rounds(fun, *args):
    """How often the innermost statements of the kernels of a program run."""
    closed = prune(cse(inline(weft.make_jaxpr(fun)(*args))))
    kernels = [s.kernel for s in Fusion(closed.jaxpr).plan() if s.kernel is not None]
    total = 0
    for kernel in map(diagonal, kernels):
        verify(kernel)
        extents = [s.extent for s in statements(kernel.body) if isinstance(s, Loop)]
        total += int(np.prod(extents)) * (kernel.grid[1] if kernel.grid else 1)
    return total


@pytest.mark.parametrize("shape", [(7, 7), (5, 9), (9, 5)])
@pytest.mark.parametrize("offset", [0, 1, -1, 4, -4, 8, -8, 20])
def test_traces(shape, offset):
    x = array(*shape)
    assert weft.jit(lambda x: jnp.trace(x, offset))(x) == np.trace(x, offset)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("ii->", (6, 6)),
        ("ii->i", (6, 6)),
        ("iij->j", (6, 6, 4)),
        ("iij->ij", (6, 6, 4)),
        ("iij->i", (6, 6, 4)),
        ("iii->", (5, 5, 5)),
        ("iii->i", (5, 5, 5)),
        ("iji->ij", (5, 3, 5)),
        ("aiib->ba", (3, 4, 4, 2)),
    ],
)
def test_repeated_names(text, shape):
    x = array(*shape)
    np.testing.assert_array_equal(
        weft.jit(lambda x: jnp.einsum(text, x * 2))(x), np.einsum(text, x * 2)
    )


def test_only_the_diagonal_is_read():
    x = array(50, 50)
    assert rounds(jnp.trace, x) == 50
    assert rounds(lambda x: jnp.trace(x, 3), x) == 47
    assert rounds(lambda x: jnp.trace(jnp.exp(x) * x), x) == 50
    assert rounds(lambda x: jnp.einsum("iii->", x), array(9, 9, 9)) == 9
    assert rounds(lambda x: jnp.einsum("ii->i", x), x) == 50


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float16", "complex64"])
def test_dtypes(dtype):
    x = (array(12, 12) % 2).astype(dtype)
    assert weft.jit(jnp.trace)(x) == np.trace(x)


def test_what_is_off_the_diagonal_does_not_matter():
    x = array(6, 6)
    x[0, 1], x[3, 2] = np.nan, np.inf
    assert weft.jit(jnp.trace)(x) == np.trace(x)


def test_other_masks_keep_their_loops():
    def counted(x, limit):
        rows, columns = lax.broadcasted_iota(np.int32, x.shape, 0), lax.iota(np.int32, 8)
        wrapped = rows.astype(np.int8) * 64 == columns.astype(np.int8)  # not a line: it repeats
        below = rows < limit
        return jnp.where(wrapped, x, 0).sum(), jnp.where(below, x, 0).sum()

    x = array(8, 8)
    wrapped = (np.arange(8, dtype=np.int8) * np.int8(64))[:, None] == np.arange(8, dtype=np.int8)
    first, second = weft.jit(counted)(x, 3)
    assert first == x[wrapped].sum()
    assert second == x[:3].sum()
    assert rounds(lambda x: jnp.where(jnp.eye(8, dtype=bool), x, 1).sum(), x) == 64
