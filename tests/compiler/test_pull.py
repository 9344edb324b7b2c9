"""Gathered, joined, padded, random and complex values inside kernels, and where kernels end."""

import numpy as np
import pytest

import weft
from tests.compiler.test_fuse import passes, plan, roles, run
from weft import lax, random
from weft import numpy as jnp
from weft.base import knobs
from weft.compiler import fuse, pull
from weft.compiler.expand import expand
from weft.compiler.fuse import Fusion
from weft.compiler.passes.cse import cse
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.core.registry import lookup
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Buffer, Kernel, Store, affine, show, statements
from weft.kernel.nodes import F32, I64, walk
from weft.kernel.spec import KernelError, verify


def planned(fun, *args):
    closed = prune(cse(inline(weft.make_jaxpr(fun)(*args))))
    steps = Fusion(expand(closed.jaxpr)).plan()
    for step in steps:
        if step.kernel is not None:
            verify(step.kernel)
    return steps


def operations(step):
    roots = [v for s in statements(step.kernel.body) if isinstance(s, Store) for v in s.operands]
    return [v.op for v in walk(roots)]


def same(fun, *args, exact=True):
    """Native results against the interpreter's."""
    args = [np.asarray(x) for x in args]
    closed = weft.make_jaxpr(fun)(*args)
    with knobs.scope(backend="reference"):
        want = [np.asarray(x) for x in weft.core.eval_jaxpr(closed.jaxpr, closed.consts, *args)]
    for a, b in zip(run(fun, *args), want, strict=True):
        if exact:
            np.testing.assert_array_equal(np.asarray(a), b)
        else:
            np.testing.assert_allclose(np.asarray(a), b, 3e-6, 1e-6)


X = np.arange(60, dtype=np.float32).reshape(6, 10)


# --- random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [random.uniform, random.normal, random.bits])
def test_random_numbers_are_made_where_they_are_used(draw):
    key = random.PRNGKey(3)
    (step,) = planned(lambda k: draw(k, (1000,)) * 2, key)
    assert roles(step).count("in") == 1 and step.kernel.buffers[0].size == 2
    same(lambda k: draw(k, (77,)), np.asarray(key), exact=draw is not random.normal)


def test_keys_are_split_folded_and_wrapped_in_kernels():
    def fun(seed, n):
        keys = random.split(random.key(seed), 5)
        more = random.fold_in(keys[2], n)
        return random.bits(more, (4,)), random.key_data(keys)[:, 1], random.bits(keys[1], (3, 2))

    closed = prune(cse(inline(weft.make_jaxpr(fun)(7, 8))))
    assert all(step.eqn is None for step in Fusion(expand(closed.jaxpr)).plan())
    same(fun, np.int32(7), np.int32(-8))


def test_the_two_words_of_a_hash_are_one_computation():
    words = np.arange(40, dtype=np.uint32)
    fun = lambda x: lookup("threefry2x32").bind(x, x + 1, x + 2, x + 3)
    (step,) = planned(fun, words)
    assert len(step.writes) == 2
    same(fun, words)


# --- complex numbers ------------------------------------------------------------------------------


def test_complex_arithmetic_is_one_kernel_of_pairs():
    z = (X + 1j * X[::-1]).astype(np.complex64)
    fun = lambda z: jnp.conj(z * z + 2) / (z + (1 - 3j)) - jnp.where(z.real > 20, z, 1j)
    (step,) = planned(fun, z)
    assert {b.dtype.name for b in step.kernel.buffers} == {"float32"}
    assert step.kernel.buffers[0].size == 2 * z.size
    same(fun, z, exact=False)


def test_complex_parts_sums_and_functions():
    z = (X / 20 - 1 + 1j * (X[::-1] / 30 - 1)).astype(np.complex64)
    fun = lambda z: (
        z.real,
        z.imag,
        abs(z),
        jnp.sum(z, 1),
        jnp.exp(z),
        jnp.log(z),
        z**3,
        z == z.T.T,
    )
    assert all(step.eqn is None for step in planned(fun, z))
    same(fun, z, exact=False)


# --- joined arrays --------------------------------------------------------------------------------


def test_a_large_joined_array_is_written_piece_by_piece(monkeypatch):
    monkeypatch.setattr(fuse, "MAX_SEQUENTIAL_ELEMENTS", 10)
    fun = lambda x: jnp.concatenate([x, x * 2, -x]) + 1
    first, second, third = planned(fun, X)
    assert len(first.writes) == 1 and second.writes == third.writes == []
    assert all("select" not in operations(s) for s in (first, second, third))
    same(fun, X)


def test_pieces_side_by_side_are_written_row_by_row(monkeypatch):
    monkeypatch.setattr(fuse, "MAX_SEQUENTIAL_ELEMENTS", 10)
    fun = lambda x: jnp.concatenate([x, x * 2, -x], 1) + 1
    (step,) = planned(fun, X)
    assert step.kernel.grid[1] == 6 and len(passes(step)) == 3
    same(fun, X)
    first, middle, last = planned(lambda x: jnp.pad(x, 1) * 2, X)
    assert [len(s.writes) for s in (first, middle, last)] == [1, 0, 0] and len(passes(middle)) == 3


def test_a_small_joined_array_is_one_kernel():
    fun = lambda x: jnp.stack([x, x * 2, -x]) + 1
    (step,) = planned(fun, X)
    assert step.kernel.grid is None and "select" not in operations(step)
    same(fun, X)


@pytest.mark.parametrize("small", [10, 1 << 14])
def test_padding_cropping_and_spreading(small, monkeypatch):
    monkeypatch.setattr(fuse, "MAX_SEQUENTIAL_ELEMENTS", small)
    configs = [((1, 2, 0), (0, 3, 0)), ((-1, 2, 0), (3, -4, 0)), ((2, 1, 2), (-3, 5, 1))]
    for config in configs:
        same(lambda x, c=config: lax.pad(x, np.float32(7), c) * 2, X)
    same(lambda x: jnp.pad(x, 1)[::-1] + jnp.roll(jnp.pad(x, 1), 2, 0), X)
    same(lambda x: jnp.tile(x, (2, 3)) + 1, X)
    same(lambda x: [a + 1 for a in jnp.split(x, [2, 3])] + list(x.T), X)


def test_joined_arrays_behind_reductions_and_reshapes():
    same(lambda x: jnp.concatenate([x, x + 1], 1).sum(1), X)
    same(lambda x: jnp.concatenate([x, x + 1], 0).reshape(-1)[::7] * 2, X)
    same(lambda x: jnp.concatenate([x[:, :3], (x - x.max(1, keepdims=True))[:, 3:]], 1), X)
    same(lambda x: jnp.concatenate([x - x.max(1, keepdims=True), x]), X)


def test_too_many_pieces_are_not_made():
    def fun(x):
        for i in range(8):
            x = jnp.roll(x, i + 1) + x
        return x

    steps = planned(fun, np.arange(100_000, dtype=np.float32))
    assert len(steps) < 8 * fuse.MAX_KERNEL_PARTS
    same(fun, np.arange(1000, dtype=np.float32))


# --- places from data -----------------------------------------------------------------------------


def test_a_gather_is_fused_with_what_makes_its_indices_and_uses_its_elements():
    rng = np.random.default_rng(0)
    idx = rng.integers(-60, 80, (7, 3)).astype(np.int32)
    fun = lambda x, i: jnp.exp(x.reshape(-1)[i + 1]) * 2
    (step,) = planned(fun, X, idx)
    assert roles(step).count("in") == 2
    for mode in ("fill", "clip"):
        same(lambda x, i, m=mode: x.at[i].get(mode=m) + 1, X, idx[:, 0] % 9)
        same(lambda x, i, m=mode: x.at[:, i].get(mode=m), X, idx)
    table = lambda x, i: x[i % 6]
    (step,) = planned(table, X, idx)
    assert any(v.op == "load" and v.args for v in walk([statements_of(step)[0].value]))
    same(table, X, idx)


def statements_of(step):
    return [s for s in statements(step.kernel.body) if isinstance(s, Store)]


def test_what_is_gathered_from_is_written_first():
    x = np.linspace(0, 1, 1000, dtype=np.float32)
    idx = np.arange(0, 1000, 3, dtype=np.int32)
    first, second = planned(lambda x, i: jnp.exp(x)[i] + 1, x, idx)
    assert first.writes[0] in second.buffers


@pytest.mark.parametrize("start", [-3, 0, 2, 50])
def test_slices_at_computed_places(start):
    fun = lambda x, i: lax.dynamic_slice(x * 2, (i, i - i + 1), (3, 4)) + 1
    assert len(planned(fun, X, np.int32(start))) == 1
    same(fun, X, np.int32(start))
    same(fun, X, np.uint8(start % 256))


@pytest.mark.parametrize("start", [-3, 0, 2, 50])
def test_an_update_is_a_copy_and_a_box(start):
    fun = lambda x, u, i: lax.dynamic_update_slice(x, u * 2, (i, 1)) + 1
    u = -X[:2, :3]
    copy, box, after = planned(fun, X, u, np.int32(start))
    assert copy.source is copy.buffers[0] and box.writes == []
    assert [s.offset is not None for s in statements_of(box)] == [True]
    assert copy.writes[0] in after.buffers
    same(fun, X, u, np.int32(start))


# --- reductions -----------------------------------------------------------------------------------


def test_positions_of_extrema_are_found_in_one_kernel():
    (step,) = plan(lambda x: jnp.argmax(x, 1), (40, 50))
    assert len(passes(step)) == 2
    x = X.copy()
    x[2, 4], x[2, 7], x[3] = np.nan, np.nan, 0.0
    for axis in (0, 1, None):
        same(lambda x, a=axis: (jnp.argmax(x, a), jnp.argmin(x, a)), x)


def test_reductions_along_leading_axes_share_a_kernel_with_what_follows():
    fun = lambda x: (jnp.sqrt(x.sum(0)) + 1, (x * x).sum(0), x.max(0))
    (step,) = plan(fun, (40, 50))
    assert len(step.writes) == 3
    same(fun, X, exact=False)
    (step,) = plan(lambda x: jnp.sqrt((x * x).sum()), (40, 50))
    assert [v.aval.shape for v in step.writes] == [()]


def test_variances_along_leading_axes():
    steps = plan(lambda x: x.var(0), (400, 50))
    assert len(steps) == 2
    same(lambda x: (x.mean(0), x.var(0), x.var()), X, exact=False)


# --- limits ---------------------------------------------------------------------------------------


def test_values_that_many_kernels_need_are_written_once():
    def fun(x):
        y = x
        for i in range(20):
            y = y * 1.5 + i
        return y.sum(0), y[::-1], y.T + 1

    first, *others = plan(fun, (40, 50))
    assert any(v.aval.shape == (40, 50) for v in first.writes)
    assert all(first.writes[0] in s.buffers for s in others)


def test_a_stencil_of_stencils_does_not_grow_without_bounds():
    def fun(x):
        for _ in range(12):
            x = x[1:] + x[:-1] * 2 + 1
        return x

    for step in plan(fun, (5000,)):
        assert len(operations(step)) < 200
    x = np.arange(300, dtype=np.float32) / 1e3
    same(fun, x, exact=False)


def test_large_kernels_end_where_values_meet(monkeypatch):
    monkeypatch.setattr(pull, "MAX_KERNEL_OPS", 100)

    def fun(x):
        for _ in range(12):
            x = jnp.sin(x) + 0.1 * x
        return x

    steps = plan(fun, (5000,))
    assert len(steps) == 4 and all(roles(s).count("in") == 1 for s in steps)
    assert len({id(s.kernel) for s in steps}) == 1  # all of the same length, none with a rest


def test_large_kernels_of_complex_numbers_end_too():
    def fun(x):
        return weft.grad(lambda v: jnp.prod(v.astype(jnp.complex64)).real)(x)

    # a tree of halves: without an end each level would be computed at twice as many places
    assert max(len(operations(s)) for s in plan(fun, (96,))) < 4 * pull.MAX_KERNEL_OPS
    same(fun, np.linspace(0.9, 1.1, 24, dtype=np.float32), exact=False)


# --- the kernel -----------------------------------------------------------------------------------


def indirect(index, size=10):
    k = Builder()
    value = k.cast(k.load(0, np.int32, affine(0, {"p0": 1})), I64)
    at = index(k, value)
    buffers = [Buffer(np.dtype(np.int32), 4, "in"), Buffer(F32, size, "in"), Buffer(F32, 4, "out")]
    store = Store(2, affine(0, {"p0": 1}), k.load(1, F32, at))
    return Kernel("k", buffers, ("p0", 4), [store])


def test_places_from_data_are_verified_and_shown():
    kernel = indirect(lambda k, v: k.place(v, 10))
    verify(kernel)
    assert "b1[0 + cast.int64(b0[p0])]" in show(kernel)
    with pytest.raises(KernelError, match="reaches"):
        verify(indirect(lambda k, v: k.place(v, 10).scaled(1, 1)))
    with pytest.raises(KernelError, match="reaches"):
        verify(indirect(lambda k, v: k.place(v, 4).scaled(3, 0), 9))
    assert Builder().place(Builder().const(0, I64), 1) == Affine()


def test_an_offset_must_be_an_index():
    kernel = indirect(lambda k, v: k.place(v, 10))
    (store,) = kernel.body
    k = Builder()
    wrong = store._replace(offset=k.const(1, F32), value=k.const(1, F32))
    with pytest.raises(KernelError, match="offset"):
        verify(kernel._replace(body=[wrong]))
