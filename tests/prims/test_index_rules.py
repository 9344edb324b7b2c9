"""Derivatives and batching of slices, gather and scatters, on random dimension numbers."""

import numpy as np
import pytest

import weft
from tests.samples.index_cases import random_case
from weft import lax
from weft.compiler.expand import expand
from weft.prims.index_dims import scatter_numbers

MODES = ("clip", "fill", "promise_in_bounds")
COMBINING = ("scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")


def floats(rng, shape):
    """Floats far apart, so that small steps change no order."""
    return rng.permutation(np.arange(np.prod(shape, dtype=int)) - 3.5).reshape(shape).astype("f4")


def case(seed, in_bounds=False, unique=False):
    rng = np.random.default_rng(seed)
    shape, index_shape, numbers, sizes = random_case(rng)
    indices = rng.integers(-2, 6, index_shape).astype(np.int32)
    if in_bounds:
        for k, axis in enumerate(numbers.start_index_map):
            indices[..., k] %= shape[axis] - sizes[axis] + 1
    x = floats(rng, shape)
    result = np.shape(lax.gather(x, indices, numbers, sizes))
    updates = floats(rng, result) + np.float32(0.25)
    return rng, x, indices, updates, numbers, sizes


def inner(a, b):
    return sum(float(np.vdot(np.asarray(x), np.asarray(y))) for x, y in zip(a, b, strict=True))


def check_linear(fun, *args, rng):
    """That ``fun`` is linear, and that its transpose is its adjoint."""
    out, tangent = weft.jvp(fun, args, args)
    np.testing.assert_array_equal(out, tangent)
    y = floats(rng, np.shape(out))
    back = weft.linear_transpose(fun, *args)(y)
    assert inner([out], [y]) == pytest.approx(inner(args, back), rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("mode", MODES)
def test_gather_is_linear(seed, mode):
    rng, x, indices, _, numbers, sizes = case(seed, in_bounds=mode == "promise_in_bounds")
    check_linear(
        lambda a: lax.gather(a, indices, numbers, sizes, mode=mode, fill_value=0), x, rng=rng
    )


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("mode", MODES)
def test_adding_scatters_are_linear(seed, mode):
    rng, x, indices, updates, numbers, _ = case(seed, in_bounds=mode == "promise_in_bounds")
    dims = scatter_numbers(numbers)
    for scatter in (lax.scatter_add, lax.scatter_sub):
        check_linear(lambda a, u, f=scatter: f(a, indices, u, dims, mode=mode), x, updates, rng=rng)


def directional(fun, args, directions):
    """A central difference in float64 of a function of NumPy arrays."""
    step = 1e-3
    ahead = fun(*(a + step * d for a, d in zip(args, directions)))
    behind = fun(*(a - step * d for a, d in zip(args, directions)))
    return (np.asarray(ahead, np.float64) - np.asarray(behind, np.float64)) / (2 * step)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("name", ("scatter", "scatter_min", "scatter_max"))
def test_derivatives_are_differences(seed, name):
    rng, x, indices, updates, numbers, _ = case(seed)
    dims = scatter_numbers(numbers)
    fun = lambda a, u: getattr(lax, name)(a, indices, u, dims)
    directions = [rng.integers(-4, 5, np.shape(a)).astype("f4") for a in (x, updates)]
    _, tangent = weft.jvp(fun, (x, updates), tuple(directions))
    want = directional(fun, (x, updates), directions)
    np.testing.assert_allclose(tangent, want, atol=2e-2)
    y = rng.integers(-4, 5, np.shape(x)).astype("f4")
    _, pull = weft.vjp(fun, x, updates)
    assert inner([y], [tangent]) == pytest.approx(inner(pull(y), directions), rel=1e-5, abs=1e-3)


def test_scatter_mul_with_unique_indices():
    x, u = np.array([2.0, 3.0, 5.0], "f4"), np.array([7.0, 11.0], "f4")
    indices, dims = np.array([[2], [0]]), lax.ScatterDimensionNumbers((), (0,), (0,))
    fun = lambda a, b: lax.scatter_mul(a, indices, b, dims, unique_indices=True)
    dx, du = weft.vjp(fun, x, u)[1](np.array([1.0, 10.0, 100.0], "f4"))
    assert dx.tolist() == [11, 10, 700] and du.tolist() == [500, 2]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "mapped", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 1, 1)]
)
def test_batching_is_a_loop(seed, mapped):
    rng, x, indices, updates, numbers, sizes = case(seed)
    dims = scatter_numbers(numbers)
    args, axes = [], []
    for a, flag in zip((x, indices, updates), mapped):
        if not flag:
            args.append(a)
            axes.append(None)
            continue
        other = a[..., ::-1] if a.ndim and a is not indices else a
        other = np.roll(a, 1) if a is indices else other * 2
        axis = int(rng.integers(a.ndim + 1))
        args.append(np.stack([a, other], axis))
        axes.append(axis)

    def member(k):
        return [a if axis is None else np.take(a, k, axis) for a, axis in zip(args, axes)]

    mode = str(rng.choice(MODES))
    functions = [
        lambda a, i, u, name=name: getattr(lax, name)(a, i, u, dims, mode=mode)
        for name in ("scatter", *COMBINING)
    ]
    if any(mapped[:2]):
        functions.append(lambda a, i, u: lax.gather(a, i, numbers, sizes, mode=mode))
    for fun in functions:
        together = weft.vmap(fun, tuple(axes))(*args)
        one_by_one = np.stack([np.asarray(fun(*member(k))) for k in range(2)])
        np.testing.assert_array_equal(together, one_by_one)


def test_slices_differentiate_and_batch():
    x = np.arange(24, dtype="f4").reshape(4, 6)
    u = -np.ones((2, 3), "f4")
    rng = np.random.default_rng(0)
    check_linear(lambda a: lax.slice(a, (1, 0), (4, 6), (2, 4)), x, rng=rng)
    check_linear(lambda a: lax.slice(a, (1, 2), (1, 6), (2, 3)), x, rng=rng)
    for start in ((0, 1), (3, -2), (-9, 9)):
        check_linear(lambda a, s=start: lax.dynamic_slice(a, s, (2, 3)), x, rng=rng)
        check_linear(lambda a, b, s=start: lax.dynamic_update_slice(a, b, s), x, u, rng=rng)
    starts = np.array([0, 3, -1, 9])
    got = weft.vmap(lambda r, i: lax.dynamic_slice(r, (i,), (2,)))(x, starts)
    want = [lax.dynamic_slice(x[k], (starts[k],), (2,)) for k in range(4)]
    np.testing.assert_array_equal(got, np.stack(want))
    rows = weft.vmap(lambda i: lax.dynamic_update_slice(x[0], u[0], (i,)))(starts)
    want = [lax.dynamic_update_slice(x[0], u[0], (i,)) for i in starts]
    np.testing.assert_array_equal(rows, np.stack(want))
    columns = weft.vmap(lambda c: lax.slice(c, (1,), (4,), (2,)), 1, 1)(x)
    np.testing.assert_array_equal(columns, x[1:4:2])
    scalars = weft.vmap(lambda s: lax.dynamic_slice(s, (), ()))(x[0])
    np.testing.assert_array_equal(scalars, x[0])


def test_nothing_to_batch_along_an_axis_of_size_zero():
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    read = lambda a, i: lax.gather(a, i, numbers, (1,))
    assert weft.vmap(read)(np.zeros((0, 3), "f4"), np.zeros((0, 2, 1), "i4")).shape == (0, 2)


def test_errors_of_the_primitives():
    x = np.zeros((3, 4), "f4")
    numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    dims = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    with pytest.raises(ValueError, match="integer"):
        lax.gather(x, np.zeros((2, 1), "f4"), numbers, (1, 4))
    with pytest.raises(TypeError, match="dtype"):
        lax.scatter(x, np.zeros((2, 1), "i4"), np.zeros((2, 4), "i4"), dims)
    with pytest.raises(ValueError, match="one_hot"):
        lax.gather(x, np.zeros((2, 1), "i4"), numbers, (1, 4), mode="one_hot")
    with pytest.raises(TypeError, match="bool"):
        flags = np.zeros((3, 4), bool)
        lax.scatter_add(flags, np.zeros((2, 1), "i4"), np.zeros((2, 4), bool), dims)
    with pytest.raises(NotImplementedError, match="outside"):
        weft.jit(
            lambda a, s: lax.scatter_apply(
                a, np.zeros((2, 1), "i4"), lambda v: v * s, dims, update_shape=(2, 4)
            )
        )(x, 2.0)


@pytest.mark.parametrize("way", (weft.jit, lambda f: f))
@pytest.mark.parametrize("op", ("max", "min"))
@pytest.mark.parametrize("index", (9, -9, [1, 9, 1]))
def test_dropped_extrema_leave_gradients_alone(way, op, index):
    fun = lambda x, u, i: getattr(weft.numpy.asarray(x).at[i], op)(u).sum()
    index = np.asarray(index, np.int32)
    x, u = np.ones(4, np.float32), np.ones(index.shape, np.float32)
    with weft.debug_nans(True), weft.debug_infs(True):
        dx, du = way(weft.grad(fun, (0, 1)))(x, u, index)
    inside = (index == 1).astype(np.float32)
    third = np.float32(1 / 3)
    np.testing.assert_allclose(du, inside * third, rtol=1e-6)
    np.testing.assert_allclose(dx, [1, third if inside.any() else 1, 1, 1], rtol=1e-6)


@pytest.mark.parametrize("index", (2**32 + 2, 2**63 + 2, 2**32 - 1, -(2**40), 3))
@pytest.mark.parametrize("mode", ("drop", "clip"))
def test_wide_indices_are_not_cut(index, mode):
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    fun = lambda x, i: lax.scatter_add(x, i, np.float32(10), numbers, mode=mode)
    x = np.arange(5, dtype=np.float32)
    want, place = x.copy(), min(max(index, 0), 4)
    want[place] += 10 * (mode == "clip" or place == index)
    with weft.enable_x64(True):
        given = np.asarray([index], np.uint64 if index > 2**62 else np.int64)
        assert fun(x, given).tolist() == weft.jit(fun)(x, given).tolist() == want.tolist()


@pytest.mark.parametrize("length, bits", ((2**31 - 1, 32), (2**31, 64), (2**31 + 9, 64)))
def test_one_window_is_counted_in_a_dtype_that_holds_the_axis(length, bits):
    specs = [weft.ShapeDtypeStruct((length,), np.int8), weft.ShapeDtypeStruct((1,), np.int32)]
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    fun = lambda x, i: lax.scatter_add(x, i, np.int8(1), numbers, mode="drop")
    jaxpr = expand(weft.make_jaxpr(fun)(*specs).jaxpr)
    (last,) = [e for e in jaxpr.eqns if e.primitive.name == "dynamic_update_slice"]
    assert last.invars[2].aval.dtype == np.dtype(f"int{bits}")
