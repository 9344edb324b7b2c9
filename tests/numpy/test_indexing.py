"""``x[...]``, ``x.at[...]`` and the functions about indices, against NumPy and JAX's rules."""

import re
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import ConcretizationTypeError, NonConcreteBooleanIndexError

X = np.arange(20, dtype=np.float32).reshape(4, 5)


def random_index(rng, shape):
    """A random index of an array of this shape, all in bounds."""
    count = rng.integers(0, len(shape) + 1)
    hole = rng.integers(0, count + 1) if count < len(shape) and rng.random() < 0.4 else count
    kept = (*shape[:hole], *shape[len(shape) - (count - hole) :])
    broadcast = [(3,), (2, 3), (1, 3)][rng.integers(3)]
    items = []
    for place, n in enumerate(kept):
        if place == hole:
            items.append(Ellipsis)
        kind = rng.integers(7)
        if kind == 0:
            items.append(int(rng.integers(-n, n)))
        elif kind in (1, 2):
            bounds = rng.integers(-n - 2, n + 3, 2)
            step = int(rng.choice([-2, -1, 1, 1, 2, 3]))
            start, stop = (None if rng.random() < 0.3 else int(b) for b in bounds)
            items.append(slice(start, stop, step if rng.random() < 0.7 else None))
        elif kind in (3, 4):
            items.append(rng.integers(-n, n, broadcast[rng.integers(len(broadcast)) :]))
        elif kind == 5:
            items.append(np.int32(rng.integers(-n, n)))
        else:
            items.append(slice(None))
        if rng.random() < 0.2:
            items.append(None)
    return tuple(items)


def as_arrays(index):
    return tuple(jnp.array(i) if isinstance(i, np.ndarray) else i for i in index)


@pytest.mark.parametrize("seed", range(80))
def test_reads_as_numpy(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
    x = rng.integers(-99, 99, shape).astype(np.float32)
    index = random_index(rng, shape)
    want = x[index]
    array = jnp.array(x)
    np.testing.assert_array_equal(array[index], want)
    np.testing.assert_array_equal(array[as_arrays(index)], want)
    arrays = [i for i in index if isinstance(i, np.ndarray)]

    def traced(a, *given):
        given = iter(given)
        return a[tuple(next(given) if isinstance(i, np.ndarray) else i for i in index)]

    np.testing.assert_array_equal(weft.jit(traced)(array, *arrays), want)
    batch = jnp.array(np.stack([x, 2 * x]))
    both = weft.vmap(lambda a: traced(a, *map(jnp.array, arrays)))(batch)
    np.testing.assert_array_equal(both, np.stack([want, 2 * want]))


@pytest.mark.parametrize("seed", range(60))
def test_updates_as_numpy(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
    x = rng.integers(-9, 9, shape).astype(np.float32)
    index = random_index(rng, shape)
    part = x[index]
    values = rng.integers(1, 5, part.shape[rng.integers(part.ndim + 1) :]).astype(np.float32)
    array = jnp.array(x)

    def by_ufunc(ufunc):
        out = x.copy()
        ufunc.at(out, index, np.broadcast_to(values, part.shape).copy())
        return out

    at = array.at[index]
    np.testing.assert_array_equal(at.add(values), by_ufunc(np.add))
    np.testing.assert_array_equal(at.subtract(values), by_ufunc(np.subtract))
    np.testing.assert_array_equal(at.multiply(values), by_ufunc(np.multiply))
    np.testing.assert_array_equal(at.min(values), by_ufunc(np.minimum))
    np.testing.assert_array_equal(at.max(values), by_ufunc(np.maximum))
    np.testing.assert_allclose(at.divide(values), by_ufunc(np.divide), rtol=1e-6)
    overwritten = x.copy()
    overwritten[index] = 3
    np.testing.assert_array_equal(at.set(3), overwritten)
    staged = weft.jit(lambda a, v: a.at[index].add(v))(array, values)
    np.testing.assert_array_equal(staged, by_ufunc(np.add))
    np.testing.assert_array_equal(array, x)


def test_boolean_masks():
    x = jnp.array(X)
    mask = X % 3 == 0
    np.testing.assert_array_equal(x[mask], X[mask])
    np.testing.assert_array_equal(x[jnp.array(mask)], X[mask])
    np.testing.assert_array_equal(x[X[:, 0] > 4, 1:3], X[X[:, 0] > 4, 1:3])
    np.testing.assert_array_equal(x[:, [True, False, True, False, False]], X[:, [0, 2]])
    np.testing.assert_array_equal(x.at[mask].set(0), np.where(mask, 0, X))
    assert x[True].shape == (1, 4, 5) and x[False].shape == (0, 4, 5)
    assert x[:, True].shape == (4, 1, 5) and x[None, True, 0].shape == X[None, True, 0].shape
    np.testing.assert_array_equal(x.at[True].set(1), np.ones((4, 5)))
    np.testing.assert_array_equal(x.at[False].set(1), X)


def test_out_of_bounds():
    x = jnp.array(X[0])
    assert x[10] == 4 and x[-10] == 0
    assert x[jnp.array([10, -10])].tolist() == [4, 0]
    assert np.isnan(x.at[jnp.array([10, 1])].get(mode="fill")).tolist() == [True, False]
    assert x.at[jnp.array([10, 1])].get(mode="fill", fill_value=-1).tolist() == [-1, 1]
    assert x.at[10].get(mode="fill", fill_value=7) == 7
    assert x.at[10].get(mode="clip") == 4
    assert x.at[-1].get(mode="fill", wrap_negative_indices=False, fill_value=7) == 7
    assert x.at[jnp.array([10, -1])].set(9).tolist() == [0, 1, 2, 3, 9]
    assert x.at[jnp.array([10, 0])].set(9, mode="clip").tolist() == [9, 1, 2, 3, 9]
    assert x.at[-1].set(9, wrap_negative_indices=False, mode="drop").tolist() == [0, 1, 2, 3, 4]
    integers = jnp.arange(3)
    assert integers.at[jnp.array([7])].get(mode="fill").tolist() == [-(2**31)]
    assert jnp.arange(3, dtype=jnp.uint8).at[7].get(mode="fill") == 255


def test_update_dtypes():
    x = jnp.arange(4)
    assert x.at[0].set(7).dtype == jnp.int32
    with pytest.warns(FutureWarning, match="float32"):
        assert x.at[0].add(2.5).tolist() == [2, 1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jnp.zeros(2).at[0].set(1).tolist() == [1, 0]
        assert jnp.zeros(2).at[0].add(np.float32(1)).tolist() == [1, 0]


def test_apply_counts_repetitions():
    x = jnp.arange(4.0)
    out = x.at[jnp.array([1, 1, 3])].apply(lambda v: v * 10 + 1)
    assert out.tolist() == [0, 111, 2, 31]


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("function", [jnp.exp, jnp.isnan, lambda v: jnp.stack([v, v])])
def test_apply_keeps_the_dtype(function, staged):
    def put(x):
        return x.at[1].apply(function)

    with pytest.raises(ValueError, match="one of the same dtype, got one that returns"):
        (weft.jit(put) if staged else put)(jnp.arange(4))


@pytest.mark.parametrize(
    "index, error, words",
    [
        (0.5, TypeError, "integer or boolean"),
        (np.array([0.5]), TypeError, "float"),
        ("a", TypeError, "string"),
        ([0, 1], TypeError, r"jnp.array\(seq\)"),
        ([slice(None), 0], TypeError, r"tuple\(seq\)"),
        ((0, 0, 0), IndexError, "3 were indexed"),
        ((..., ...), IndexError, "one ellipsis"),
        (np.array([True, False]), IndexError, r"\(2,\)"),
        (object(), IndexError, "integers, slices"),
        (slice(0.5, None), TypeError, "integer"),
    ],
)
def test_wrong_indices(index, error, words):
    x = jnp.array(X)
    with pytest.raises(error, match=words):
        x[index]
    with pytest.raises(error, match=words):
        weft.jit(lambda a: a[index])(x)
    with pytest.raises(error, match=words):
        x.at[index].set(0)


def test_wrong_indices_under_a_trace():
    x = jnp.array(X)
    with pytest.raises(IndexError, match="dynamic_slice"):
        weft.jit(lambda a, i: a[i:])(x, 1)
    with pytest.raises(NonConcreteBooleanIndexError):
        weft.jit(lambda a: a[a > 3])(x)
    with pytest.raises(ConcretizationTypeError):
        weft.jit(jnp.nonzero)(x)
    with pytest.raises(IndexError, match="size 0"):
        jnp.zeros((0, 5))[0]
    with pytest.raises(ValueError, match="broadcast"):
        x.at[0].set(jnp.ones(3))
    with pytest.raises(ValueError, match="scalar"):
        x.at[jnp.array([0])].get(mode="fill", fill_value=np.ones(2))


# What JAX 0.10.2 stages; the index arguments are traced.
PROGRAMS = {
    "x[1, ::-2]": """
        c:f32[1,3] = slice[limit_indices=(2, 5) start_indices=(1, 0) strides=(1, 2)] a
        d:f32[1,3] = rev[dimensions=(1,)] c
        e:f32[3] = squeeze[dimensions=(0,)] d""",
    "x[:, None, 1:2]": """
        c:f32[4,1] = slice[limit_indices=(4, 2) start_indices=(0, 1) strides=None] a
        d:f32[4,1,1] = broadcast_in_dim[broadcast_dimensions=(0, 2)] c""",
    "x[i[0]]": """
        c:i32[1] = slice[limit_indices=(1,) start_indices=(0,) strides=None] b
        d:i32[] = squeeze[dimensions=(0,)] c
        e:bool[] = lt d 0:i32[]
        f:i32[] = add d 4:i32[]
        g:i32[] = select_n e d f
        h:bool[] = lt 0:i32[] 0:i32[]
        i:i32[] = add 0:i32[] 5:i32[]
        j:i32[] = select_n h 0:i32[] i
        k:f32[1,5] = dynamic_slice[slice_sizes=(1, 5)] a g j
        l:f32[5] = squeeze[dimensions=(0,)] k""",
    "x[i, ::-2]": """
        c:bool[2] = lt b 0:i32[]
        d:i32[2] = add b 4:i32[]
        e:i32[2] = select_n c b d
        f:i32[3] = iota[dimension=0 dtype=int32 shape=(3,) sharding=None]
        g:i32[3] = mul -2:i32[] f
        h:i32[3] = add 4:i32[] g
        i:i32[3] = rev[dimensions=(0,)] h
        j:i32[2,3,1] = broadcast_in_dim[broadcast_dimensions=(0,)] e
        k:i32[2,3,1] = broadcast_in_dim[broadcast_dimensions=(1,)] i
        l:i32[2,3,2] = concatenate[dimension=2] j k
        m:f32[2,3] = gather[ dimension_numbers=GatherDimensionNumbers(offset_dims=(),
        collapsed_slice_dims=(0, 1), start_index_map=(0, 1), operand_batching_dims=(),
        start_indices_batching_dims=()) fill_value=None indices_are_sorted=False
        mode=GatherScatterMode.PROMISE_IN_BOUNDS slice_sizes=(1, 1) unique_indices=False ] a l
        n:f32[2,3] = rev[dimensions=(1,)] m""",
    "x.at[i, 1].add(2)": """
        c:bool[2] = lt b 0:i32[]
        d:i32[2] = add b 4:i32[]
        e:i32[2] = select_n c b d
        f:i32[2] = broadcast_in_dim 1:i32[]
        g:i32[2] = convert_element_type[new_dtype=int32 weak_type=False] f
        h:i32[2,1] = broadcast_in_dim[broadcast_dimensions=(0,)] e
        i:i32[2,1] = broadcast_in_dim[broadcast_dimensions=(0,)] g
        j:i32[2,2] = concatenate[dimension=1] h i
        k:f32[2] = broadcast_in_dim 2.0:f32[]
        l:f32[4,5] = scatter-add[ dimension_numbers=ScatterDimensionNumbers(update_window_dims=(),
        inserted_window_dims=(0, 1), scatter_dims_to_operand_dims=(0, 1),
        operand_batching_dims=(), scatter_indices_batching_dims=()) indices_are_sorted=False
        mode=GatherScatterMode.FILL_OR_DROP unique_indices=False update_consts=()
        update_jaxpr={ lambda ; m:f32[] n:f32[]. let o:f32[] = add m n in (o,) } ] a j k""",
}


@pytest.mark.parametrize("expression", PROGRAMS)
def test_programs_are_those_of_jax(expression):
    i = jnp.array([2, 0])
    program = weft.make_jaxpr(lambda x, i: eval(expression, {"x": x, "i": i}))(jnp.array(X), i)
    text = re.sub(r"\s+", " ", str(program))
    body = text.removeprefix("{ lambda ; a:f32[4,5] b:i32[2]. let ")
    body = re.sub(r" in \(\w+,\) }$", "", body)
    assert body == re.sub(r"\s+", " ", PROGRAMS[expression]).strip()


# --- functions ------------------------------------------------------------------------------------


def test_take():
    x = jnp.array(X)
    i = np.array([[2, 0], [1, -1]])
    np.testing.assert_array_equal(jnp.take(x, i), X.ravel()[i])
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(jnp.take(x, i, axis=axis), np.take(X, i, axis=axis))
    for mode in ("wrap", "clip"):
        far = np.array([-7, 11])
        np.testing.assert_array_equal(
            jnp.take(x, far, axis=0, mode=mode), np.take(X, far, axis=0, mode=mode)
        )
    assert np.isnan(jnp.take(x, np.array([7]), axis=0)).all()
    assert jnp.take(x, 2, axis=1).shape == (4,)
    assert jnp.take(x, np.zeros((0, 2), int), axis=1).shape == (4, 0, 2)
    with pytest.raises(ValueError, match="bad"):
        jnp.take(x, i, mode="bad")
    with pytest.raises(TypeError):
        jnp.take(x, [0, 1])


def test_take_along_axis():
    rng = np.random.default_rng(0)
    x = jnp.array(X)
    for shape, axis in [((4, 2), 1), ((1, 2), 1), ((3, 5), 0), ((3, 1), 0)]:
        i = rng.integers(-X.shape[axis], X.shape[axis], shape)
        want = np.take_along_axis(
            X,
            np.broadcast_to(
                i,
                np.broadcast_shapes(
                    shape, tuple(1 if d == axis else n for d, n in enumerate(X.shape))
                ),
            ),
            axis,
        )
        np.testing.assert_array_equal(jnp.take_along_axis(x, i, axis), want)
        np.testing.assert_array_equal(jnp.take_along_axis(x, i, axis, mode="one_hot"), want)
    np.testing.assert_array_equal(jnp.take_along_axis(x, np.array([3, 19]), None), [3, 19])
    assert np.isnan(jnp.take_along_axis(x, np.array([[9]]), 1)).all()
    with pytest.raises(TypeError, match="integer"):
        jnp.take_along_axis(x, x, 0)


def test_put():
    x = jnp.array(X)
    i = np.array([[1], [0], [3], [-1]])
    want = X.copy()
    np.put_along_axis(want, i, 9, 1)
    np.testing.assert_array_equal(jnp.put_along_axis(x, i, 9, 1, inplace=False), want)
    for mode in ("clip", "wrap"):
        want = X.copy()
        np.put(want, [3, 25, -2], [50, 60], mode=mode)
        got = jnp.put(x, np.array([3, 25, -2]), np.array([50.0, 60.0]), mode=mode, inplace=False)
        np.testing.assert_array_equal(got, want)
    want = X.copy()
    np.place(want, X > 11, [1, 2, 3])
    np.testing.assert_array_equal(jnp.place(x, x > 11, np.array([1, 2, 3]), inplace=False), want)
    for function, args in [(jnp.put, (x, 0, 1)), (jnp.place, (x, x > 1, 1))]:
        with pytest.raises(ValueError, match="inplace=False"):
            function(*args)


def test_choose_select_compress_extract():
    rows = [X[0, :3], X[1, :3], X[2, :3]]
    i = np.array([2, 0, 1])
    np.testing.assert_array_equal(jnp.choose(i, rows), np.choose(i, rows))
    far = np.array([5, -2, 1])
    for mode in ("wrap", "clip"):
        want = np.choose(far, rows, mode=mode)
        np.testing.assert_array_equal(jnp.choose(far, rows, mode=mode), want)
    with pytest.raises(ValueError, match="3 choices"):
        jnp.choose(far, rows)
    conditions, choices = [X < 3, X < 9], [X, X[0] * 10]
    np.testing.assert_array_equal(
        jnp.select(conditions, choices, 7), np.select(conditions, choices, 7)
    )
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(jnp.compress(mask, X, axis=1), np.compress(mask, X, axis=1))
    padded = weft.jit(lambda m, a: jnp.compress(m, a, axis=1, size=3, fill_value=-1))(mask, X)
    np.testing.assert_array_equal(
        padded, np.pad(X[:, [0, 2]], ((0, 0), (0, 1)), constant_values=-1)
    )
    np.testing.assert_array_equal(jnp.extract(X > 15, X), [16, 17, 18, 19])


def test_positions():
    mask = X % 4 == 1
    for ours, theirs in zip(jnp.nonzero(mask), np.nonzero(mask), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    find = weft.jit(lambda m: jnp.nonzero(m, size=7, fill_value=(-1, -2)))
    for ours, theirs, fill in zip(find(mask), np.nonzero(mask), (-1, -2), strict=True):
        np.testing.assert_array_equal(ours, np.r_[theirs, [fill] * (7 - len(theirs))])
    assert [a.tolist() for a in jnp.nonzero(mask, size=2)] == [[0, 1], [1, 0]]
    np.testing.assert_array_equal(jnp.flatnonzero(mask), np.flatnonzero(mask))
    np.testing.assert_array_equal(jnp.argwhere(mask), np.argwhere(mask))
    with pytest.raises(ValueError, match="scalar"):
        jnp.nonzero(3)
    flat = np.array([0, 7, 19, -1])
    rows, columns = jnp.unravel_index(flat, (4, 5))
    assert rows.tolist() == [0, 1, 3, 3] and columns.tolist() == [0, 2, 4, 4]
    assert jnp.ravel_multi_index((rows, columns), (4, 5)).tolist() == [0, 7, 19, 19]
    assert jnp.ravel_multi_index((rows, columns), (4, 5), order="F").tolist() == [0, 9, 19, 19]
    grid = jnp.ix_(np.array([0, 2]), np.array([1, 3, 4]))
    np.testing.assert_array_equal(jnp.array(X)[grid], X[np.ix_([0, 2], [1, 3, 4])])


# --- derivatives ----------------------------------------------------------------------------------


def test_gradients_of_reads():
    x = jnp.array(X)
    i = jnp.array([2, 0, 2])
    np.testing.assert_array_equal(
        weft.grad(lambda a: a[i, 1].sum())(x), np.pad([[1], [0], [2], [0]], ((0, 0), (1, 3)))
    )
    outside = weft.grad(lambda a: a.at[jnp.array([9, 1])].get(mode="fill").sum())(x)
    assert outside.sum(axis=1).tolist() == [0, 5, 0, 0]
    clipped = weft.grad(lambda a: a.at[jnp.array([9, 1])].get(mode="clip").sum())(x)
    assert clipped.sum(axis=1).tolist() == [0, 5, 0, 5]
    strided = weft.grad(lambda a: (a[::2, ::-3] ** 2).sum())(x)
    want = np.zeros_like(X)
    want[::2, ::-3] = 2 * X[::2, ::-3]
    np.testing.assert_array_equal(strided, want)


def test_gradients_of_updates():
    x, v = jnp.arange(4.0), jnp.array([5.0, 6.0, 7.0])
    i = jnp.array([1, 1, 3])
    dx, dv = weft.grad(lambda x, v: (x.at[i].set(v) ** 2).sum(), (0, 1))(x, v)
    assert dx.tolist() == [0, 0, 4, 0] and dv.tolist() == [0, 12, 14]
    dx, dv = weft.grad(lambda x, v: (x.at[i].add(v) ** 2).sum(), (0, 1))(x, v)
    assert dx.tolist() == [0, 24, 4, 20] and dv.tolist() == [24, 24, 20]
    ties = jnp.array([1.0, 1.0, 7.0])
    dx, dv = weft.grad(lambda x, v: x.at[i].max(v).sum(), (0, 1))(x, ties)
    np.testing.assert_allclose(dx, [1, 1 / 3, 1, 0], rtol=1e-6)
    np.testing.assert_allclose(dv, [1 / 3, 1 / 3, 1], rtol=1e-6)
    one = jnp.array([1, 3])
    dx, dv = weft.grad(lambda x, v: x.at[one].mul(v, unique_indices=True).sum(), (0, 1))(x, v[:2])
    assert dx.tolist() == [1, 5, 1, 6] and dv.tolist() == [1, 3]
    with pytest.raises(NotImplementedError, match="unique_indices"):
        weft.grad(lambda v: x.at[i].mul(v).sum())(v)
    with pytest.raises(NotImplementedError, match="apply"):
        weft.grad(lambda x: x.at[i].apply(jnp.sin).sum())(x)


def test_dynamic_slices_of_lax():
    x = jnp.array(X)
    assert lax.dynamic_slice(x, (-1, 9), (2, 2)).tolist() == X[2:4, 3:5].tolist()
    assert lax.dynamic_slice(x, jnp.array([1, 2]), (1, 1)).tolist() == [[7]]
    assert lax.dynamic_index_in_dim(x, 2, 1, keepdims=False).tolist() == X[:, 2].tolist()
    assert lax.slice_in_dim(x, 1, -1, 2, axis=1).tolist() == X[:, 1:-1:2].tolist()
    out = lax.dynamic_update_index_in_dim(x, jnp.zeros(5), -1, 0)
    assert out.tolist() == np.r_[X[:3], np.zeros((1, 5))].tolist()
    with pytest.raises(IndexError, match="5"):
        lax.index_in_dim(x, 5, 0)
    with pytest.raises(ValueError, match="one start index"):
        lax.dynamic_slice(x, (0,), (2, 2))
    with pytest.raises(TypeError, match="one dtype"):
        lax.dynamic_slice(x, (0.5, 1.5), (2, 2))
    with pytest.raises(TypeError, match="dtype"):
        lax.dynamic_update_slice(x, np.zeros((1, 1), int), (0, 0))


@pytest.mark.parametrize("value", ["a", "1", "float32", b"1"])
def test_strings_are_no_updates(value):
    x = jnp.zeros(3)
    for update in (x.at[0].set, x.at[1:].add, x.at[x > 1].set, weft.jit(x.at[0].set)):
        with pytest.raises(TypeError, match=r"string|not a valid"):
            update(value)
