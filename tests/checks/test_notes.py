"""Checks on the CPU: kernels note what is wrong in what they compute; nothing is read again."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from bench.suites import models
from weft import nn
from weft.backends.cpu.target import Cpu
from weft.base.checking import asked
from weft.compiler.checks.instrument import stopping
from weft.compiler.plan import Planner
from weft.kernel.kernel import Store, statements
from weft.kernel.program import Launch

F32, F64 = np.float32, np.float64


def elements(x):
    return jnp.sqrt(x) * 2 + 1


def several(x):
    y = jnp.sqrt(x)
    return y + 1, y * y, jnp.tanh(y) - x


def transposed(x):
    return jnp.sqrt(x).T * 2, x + 1


def rows(x):
    return nn.softmax(jnp.sqrt(x) + x, -1)


def sums(x):
    return jnp.sqrt(x).sum(0), jnp.sqrt(x).sum(-1)


def joined(x):
    return jnp.concatenate([x + 1, jnp.sqrt(x), x * 3])


def short_rows(x):
    return (jnp.sqrt(x)[..., None] * jnp.arange(3, dtype=x.dtype)), x * 2


def epilogue(x):
    w = jnp.ones((x.shape[-1], 40), x.dtype)
    return jnp.maximum(jnp.sqrt(x) @ w, 0) + 1


def after_a_product(x):
    w = jnp.eye(x.shape[-1], dtype=x.dtype)
    return jnp.sqrt(x @ w) * 2, x


def products_as_results(x):
    w = jnp.ones((x.shape[-1], 24), x.dtype)
    return jnp.where(x < 0, jnp.inf, x) @ (0 * w)  # inf times zero


def narrow(x):
    return jnp.sqrt(x.astype(jnp.bfloat16)) + 1


def complex_numbers(x):
    return jnp.sqrt(x) + 1j * x


PROGRAMS = [
    elements, several, transposed, rows, sums, joined, short_rows, epilogue, after_a_product,
    products_as_results, narrow, complex_numbers,
]  # fmt: skip
SHAPES = [(3, 5), (64, 64), (9, 257), (130, 3), (70, 70)]
CASES = [(f, shape, F32) for f in PROGRAMS for shape in SHAPES]
CASES += [(f, (9, 65), F64) for f in PROGRAMS]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("fun", "shape", "dtype"), CASES, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_one_bad_element_anywhere_is_found(fun, shape, dtype, request):
    with weft.enable_x64(dtype is F64):
        x = np.random.default_rng(0).uniform(0.5, 2, shape).astype(dtype)
        f = weft.jit(fun)
        wanted = f(x)
        places = [0, x.size - 1, x.size // 2, (7 * x.size) // 9]
        if request.config.getoption("--full", False):
            places += range(0, x.size, 13)
        with weft.checks(nan=True):
            for one, other in zip(weft.tree.leaves(f(x)), weft.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(
                    np.asarray(one, np.complex128), np.asarray(other, np.complex128), 1e-5
                )
            for place in places:
                bad = x.copy()
                bad.reshape(-1)[place] = -1
                with pytest.raises(FloatingPointError, match=r"(sqrt|dot_general) made nan"):
                    f(bad)
                f(x)


def planned(function, *args):
    closed = weft.make_jaxpr(function)(*args)
    with weft.checks(nan=True):
        return Planner(Cpu()).program(stopping(closed, asked()))


def test_no_kernel_of_a_training_step_only_looks():
    """Each note of a large array is in the kernel that computes it, or in a product's epilogue."""
    step, args = models.sgd(weft, models.mlp_loss(weft)), models.mlp_arguments()
    plain = Planner(Cpu()).program(weft.make_jaxpr(step)(*args))
    nodes = planned(step, *args).nodes
    launches = [node.kernel for node in nodes if isinstance(node, Launch)]
    read = [k for k in launches if any(b.size > 1 << 12 and b.role == "in" for b in k.buffers)]
    before = [node.kernel for node in plain.nodes if isinstance(node, Launch)]
    known = [k for k in before if any(b.size > 1 << 12 and b.role == "in" for b in k.buffers)]
    assert len(read) <= len(known)


def test_what_users_ask_stays_a_reduction():
    """It may end at the first element that decides."""
    x = np.ones((300, 300), F32)
    nodes = planned(lambda x: (jnp.any(x > 2), x), x).nodes
    marked = [
        s
        for node in nodes
        if isinstance(node, Launch)
        for s in statements(node.kernel.body)
        if isinstance(s, Store) and s.marks is not None
    ]
    assert not marked


def test_an_infinity_that_was_given_makes_no_alarm():
    x = np.array([[np.inf, 1.0], [np.nan, 2.0]] * 40, F32)
    with weft.checks(nan=True):
        weft.jit(lambda x: (x + 1, jnp.exp(-x)))(x)
    with weft.checks(nan=True), pytest.raises(FloatingPointError, match=r"sub made nan at .*0, 0"):
        weft.jit(lambda x: (x + 1) - (x * 2))(x)
