"""``reproducible``: the same bits on every processor, by vectors of any width, for any batch."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.laws import reproducible_cases as cases
from weft import numpy as jnp
from weft.base import knobs

ROOT = Path(__file__).parents[2]
RECORDED = json.loads(cases.RECORD.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def reproducible():
    with knobs.scope(reproducible=True):
        yield


@pytest.mark.parametrize("name", [*cases.CASES])
def test_bits_are_those_of_all_processors(name):
    """The record was made on aarch64; tests on x86-64 compare with the same one."""
    assert cases.digest(name) == RECORDED[name]


def test_bits_do_not_depend_on_the_width_of_vectors():
    """All cases, with plans for vectors of 512 bits."""
    program = (
        "from tests.machines.processors import pretend; pretend('avx512', False);"
        " import json; from tests.laws.reproducible_cases import digests;"
        " print(json.dumps(digests()))"
    )
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "WEFT_CACHE": "off"}
    given = {"cwd": ROOT, "env": env, "check": True, "capture_output": True, "text": True}
    python = shlex.split(os.environ.get("WEFT_TEST_PYTHON", "")) or [sys.executable]
    found = subprocess.run([*python, "-c", program], **given)
    assert json.loads(found.stdout) == RECORDED


@pytest.mark.parametrize("count", [1, 2, 7])
def test_bits_do_not_depend_on_threads(count):
    x, w = cases.floats(400, 300), cases.floats(300, 200, step=31)
    fun = lambda x, w: (x @ w, x.sum(), jnp.cumsum(x, 0))
    want = cases.bits(weft.jit(fun)(x, w))
    with knobs.scope(num_threads=count):
        assert cases.bits(weft.jit(lambda *a: fun(*a))(x, w)) == want


def test_bits_do_not_depend_on_the_batch():
    """Each row of a batch has the bits that it has alone, compiled or not."""
    w, x = cases.weights(), cases.floats(70, 33, step=17)
    stack = cases.floats(70, 5, 40)
    funs = {
        "model": lambda x: cases.model(w, x),
        "rows": lambda x: x.sum(1),
        "product of rows": weft.vmap(lambda x: x @ x),
        "softmax": weft.nn.softmax,
    }
    for name, fun in funs.items():
        whole = np.asarray(weft.jit(fun)(x))
        for size in (1, 2, 3, 8, 33):
            part = np.asarray(weft.jit(fun)(x[:size]))
            assert part.tobytes() == whole[:size].tobytes(), (name, size)
        eager = np.asarray(fun(jnp.asarray(x)))
        assert eager.tobytes() == whole.tobytes(), name
    gram = weft.jit(weft.vmap(lambda a: a @ a.T))
    whole = np.asarray(gram(stack))
    for size in (1, 2, 9, 64):
        assert np.asarray(gram(stack[:size])).tobytes() == whole[:size].tobytes()


@pytest.mark.parametrize("layout", cases.LAYOUTS, ids=lambda layout: layout[0])
def test_convolutions_do_not_depend_on_the_batch(layout):
    """Vectors along channels, space or the batch, and copies of the input, sum in one order."""
    whole = cases.convolutions(layout)
    for some in (slice(0, 1), slice(4, 9)):
        for i, (part, all_of_it) in enumerate(
            zip(cases.convolutions(layout, some), whole, strict=True)
        ):
            found, want = np.asarray(part).tobytes(), np.asarray(all_of_it)[some].tobytes()
            assert found == want, (cases.CONVOLUTIONS[i], some)


def test_the_gradient_of_a_convolution_does_not_depend_on_the_batch():
    x, w = cases.floats(13, 8, 7, 2), cases.floats(3, 3, 2, 4, step=31)
    fun = weft.jit(weft.grad(lambda x: (cases.conv(x, w) ** 2).sum()))
    whole = np.asarray(fun(x))
    for size in (1, 2, 5):
        assert np.asarray(fun(x[:size])).tobytes() == whole[:size].tobytes()


def test_a_product_is_one_chain_along_its_depth():
    x, y = cases.floats(9, 77), cases.floats(77, 5, step=31)
    found = np.zeros((9, 5), np.float32)
    for k in range(77):  # the products are exact in float64, and are rounded once with the sum
        found = (found + np.outer(x[:, k].astype("f8"), y[k].astype("f8"))).astype("f4")
    np.testing.assert_allclose(weft.jit(jnp.dot)(x, y), found, rtol=3e-7, atol=1e-6)


def test_a_sum_is_combined_by_halves():
    x = cases.floats(13)
    parts = list(x)
    while len(parts) > 1:
        half = len(parts) // 2
        rest = parts[2 * half :]
        parts = [a + b for a, b in zip(parts[:half], parts[half : 2 * half], strict=True)] + rest
    assert np.asarray(weft.jit(jnp.sum)(x)).tobytes() == parts[0].tobytes()


def test_empty_and_single_sums():
    assert float(jnp.sum(jnp.zeros((0,)))) == 0.0 and float(jnp.prod(jnp.zeros((0,)))) == 1.0
    np.testing.assert_array_equal(jnp.sum(jnp.ones((3, 1)), 1), np.ones(3))
    np.testing.assert_array_equal(jnp.sum(jnp.ones((3, 0)), 1), np.zeros(3))
    np.testing.assert_array_equal(jnp.sum(jnp.arange(10)), 45)


def test_denormal_numbers_are_kept():
    """Processors that flush them do not agree which results these are."""
    x = np.float32(1e-38)
    assert (
        float(weft.jit(lambda x: x * np.float32(0.25))(x)) == np.float32(x * np.float32(0.25)) > 0
    )
