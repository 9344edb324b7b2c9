"""Operations without routines: lowered to kernels, they give what their references say, by NumPy
and by the CPU's renderer of kernels."""

import numpy as np
import pytest

import weft
from tests.backends.test_reference import SAMPLES, check_samples, leaves_of
from tests.laws.checks import assert_close, seed_of
from tests.laws.test_laws import one_of_each_kind
from tests.runtime import ways
from tests.samples import WIDE
from weft import dtypes, lax, random
from weft import numpy as jnp
from weft.backends.cpu.routines import choices as routines
from weft.backends.cpu.target import Cpu
from weft.backends.reference.program import Reference
from weft.base import knobs
from weft.compiler.plan import Planner, Unplannable
from weft.core.interpret import run, storage_dtype
from weft.core.registry import lookup
from weft.kernel.program import Host, Op, inner_regions

NAMES = sorted({s.prim for s in SAMPLES})
SLOW = {f"special.{n}" for n in "igamma igammac igamma_grad_a random_gamma_grad".split()}
SLOW |= {"special.regularized_incomplete_beta", "special.polygamma", "special.zeta"}
LOWERED = [n for n in NAMES if lookup(n).kernels or lookup(n).neutral]


def operations(nodes):
    """Equations that kernels are not made of."""
    for node in nodes:
        if isinstance(node, (Op, Host)):
            yield node.eqn
        for region in inner_regions(node):
            yield from operations(region)


@pytest.mark.parametrize("prim", LOWERED)
def test_lowerings_run_by_numpy_are_right(prim):
    # kernels with many serial steps take NumPy long
    check_samples(Reference(neutral=True), prim, 2 if lookup(prim).kernels in SLOW else None)


@pytest.mark.parametrize("prim", NAMES)
def test_nothing_but_libraries_and_python_is_left(prim):
    for sample in (s for s in SAMPLES if s.prim == prim):
        for dtype in one_of_each_kind(sample.dtypes):
            args = sample.operands(dtype, seed_of(sample))
            with weft.enable_x64(dtype in WIDE):
                closed = weft.make_jaxpr(sample.function(dtype))(*args)
                try:
                    program = Planner(Reference(neutral=True)).program(closed)
                except Unplannable:
                    continue
            for eqn in operations(program.nodes):
                assert eqn.primitive.library or eqn.primitive.host or eqn.effects, eqn


@pytest.mark.parametrize("prim", LOWERED)
def test_the_cpu_does_without_routines(prim):
    """One sample of each lowered primitive; laws with the knob set have all of them."""
    sample = next(s for s in SAMPLES if s.prim == prim)
    dtype = sample.dtypes[0]
    args = sample.operands(dtype, seed_of(sample))
    with weft.enable_x64(dtype in WIDE), knobs.scope(routines="off"):
        closed = weft.make_jaxpr(sample.function(dtype))(*args)
        assembly = Cpu().assemble(closed)
        assert not [h.eqn for h in assembly.hosts if not h.eqn.primitive.library]
        got = weft.tree.leaves(weft.jit(sample.function(dtype))(*args))
        given = zip(leaves_of(args), closed.in_avals, strict=True)
        leaves = [np.asarray(x, storage_dtype(a.dtype)) for x, a in given]
        with np.errstate(all="ignore"):
            want = run(closed.jaxpr, [getattr(c, "_value", c) for c in closed.consts], leaves)
    for a, b in zip(got, want, strict=True):
        if dtypes.issubdtype(np.asarray(b).dtype, np.generic):
            assert_close(a._value, b, 4 * max(sample.tol, 4.0), str(sample))
        else:
            assert a._value.tobytes() == np.asarray(b).tobytes()


# --- larger than samples are ----------------------------------------------------------------------

rng = np.random.default_rng(0)
X = rng.normal(size=(37, 50)).astype(np.float32)
PLACES = rng.integers(-3, 60, (400,)).astype(np.int32)
A, B = (np.exp(2 * rng.normal(size=500)).astype(np.float32) for _ in range(2))


PROGRAMS = {
    "sort": lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1), lax.top_k(x, 7)),
    "sums": lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cumlogsumexp(x, 1)),
    "scatter": lambda x: (
        x[0].at[PLACES].add(1.0, mode="drop"),
        x[0].at[PLACES].set(np.arange(400.0, dtype=np.float32), mode="drop"),
        x.at[:, PLACES].max(0.5, mode="clip"),
    ),
    "fourier": lambda x: (jnp.fft.fft(x[:, :36]), jnp.fft.rfft(x, axis=0), jnp.fft.irfft2(x)),
    "products": lambda x: (x @ x.T, jnp.einsum("ij,kj->ki", x, x[:5])),
    "convolution": lambda x: lax.conv(x[None, None], x[None, None, :3, :4], (1, 2), "SAME"),
    "pooling": lambda x: weft.grad(
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (2, 2), "SAME").sum()
    )(x),
    "gamma": lambda x: (lax.igamma(A, B), lax.igammac(A, B), lax.random_gamma_grad(A, B)),
    "beta": lambda x: lax.betainc(A, B, B / (A + B)),
    "zeta": lambda x: (lax.zeta(1 + A, B), lax.polygamma(jnp.floor(A), B)),
    "draws": lambda x: (
        random.gamma(random.key(1), A),
        random.poisson(random.key(2), 10 * A),
        random.binomial(random.key(3), 20.0, A / (A + B)),
    ),
    "bits": lambda x: lax.rng_bit_generator(np.arange(4, dtype=np.uint32), (5, 7))[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_without_routines(name):
    want = weft.tree.leaves(ways.interpreted(PROGRAMS[name], X))
    with knobs.scope(routines="off"):
        got = weft.tree.leaves(weft.jit(lambda x: PROGRAMS[name](x))(X))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_the_same_bits_with_any_number_of_threads():
    found = []
    for threads in (1, 2, 4):
        with knobs.scope(routines="off", num_threads=threads):
            found.append(weft.tree.leaves(weft.jit(lambda x: PROGRAMS["scatter"](x))(X)))
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(a, b)


# --- the table and the knob -----------------------------------------------------------------------


def test_every_routine_accelerates_something_that_has_a_lowering():
    for names in routines.ROUTINES.values():
        for name in names.split():
            primitive = lookup(name)
            assert primitive.kernels or primitive.neutral or primitive.decompose, name


def test_single_routines_are_turned_off():
    with knobs.scope(routines="-sorting,-fourier"):
        assert not routines.is_on("sort") and not routines.is_on("fft")
        assert routines.is_on("dot_general") and routines.is_on("cholesky")
    assert routines.is_on("sort")


def test_unknown_routines_are_refused():
    with pytest.raises(ValueError, match="routines"), knobs.scope(routines="sorting"):
        pass
    with (
        knobs.scope(routines="-sortign"),
        pytest.raises(ValueError, match=r"sortign.*cumulative.*sorting"),
    ):
        weft.jit(jnp.sort)(X)


def test_laws_hold_for_lowered_gradients():
    """Derivatives are programs too: nothing in them needs a routine."""
    loss = lambda x: jnp.sum(jnp.sort(x, 0) * jnp.cumsum(x, 1)) + jnp.sum(jnp.abs(jnp.fft.fft(x)))
    want = ways.interpreted(weft.grad(loss), X)
    with knobs.scope(routines="off"):
        np.testing.assert_allclose(weft.jit(weft.grad(loss))(X), want, rtol=1e-3, atol=1e-3)
