"""Products: values, dtypes, derivatives, transposes, batches, printing and errors."""

import string

import numpy as np
import pytest

import weft
from weft import dtypes, lax
from weft.base import knobs

# lhs, rhs, ((contracting), (batch))
CASES = {
    "inner": ((4,), (4,), (((0,), (0,)), ((), ()))),
    "outer": ((3,), (4,), (((), ()), ((), ()))),
    "scalars": ((), (), (((), ()), ((), ()))),
    "scalar and vector": ((), (3,), (((), ()), ((), ()))),
    "matmul": ((3, 4), (4, 2), (((1,), (0,)), ((), ()))),
    "both transposed": ((4, 3), (2, 4), (((0,), (1,)), ((), ()))),
    "batch": ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    "batch last": ((3, 4, 2), (4, 5, 2), (((1,), (0,)), ((2,), (2,)))),
    "batch only": ((3, 2), (2, 3), (((), ()), ((0, 1), (1, 0)))),
    "two of each": ((2, 3, 4, 2, 5), (3, 2, 2, 4), (((2, 3), (3, 2)), ((0, 1), (1, 0)))),
    "crossed": ((2, 3, 4), (4, 3, 5), (((1, 2), (1, 0)), ((), ()))),
    "free between": ((2, 4, 3), (5, 4, 6), (((1,), (1,)), ((), ()))),
    "nothing to sum": ((3, 0), (0, 2), (((1,), (0,)), ((), ()))),
    "nothing": ((0, 4), (4, 2), (((1,), (0,)), ((), ()))),
}


def draw(shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iub":
        return rng.integers(0, 4, shape).astype(dtype)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def by_einsum(x, y, numbers):
    """The product by its definition."""
    (left, right), (lhs_batch, rhs_batch) = numbers
    names = iter(string.ascii_letters)
    x_names = [next(names) for _ in range(x.ndim)]
    y_names = [next(names) for _ in range(y.ndim)]
    for i, j in (*zip(left, right, strict=True), *zip(lhs_batch, rhs_batch, strict=True)):
        y_names[j] = x_names[i]
    out = [x_names[i] for i in lhs_batch]
    out += [n for i, n in enumerate(x_names) if i not in (*left, *lhs_batch)]
    out += [n for i, n in enumerate(y_names) if i not in (*right, *rhs_batch)]
    return np.einsum(f"{''.join(x_names)},{''.join(y_names)}->{''.join(out)}", x, y)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64, np.uint8])
def test_values(case, dtype):
    left, right, numbers = CASES[case]
    x, y = draw(left, dtype), draw(right, dtype, 1)
    out = lax.dot_general(x, y, numbers)
    want = by_einsum(x, y, numbers)
    assert out.dtype == dtype
    assert out.shape == want.shape
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, dtypes.bfloat16])
def test_narrow_floats_are_summed_in_float32_and_rounded_once(dtype):
    x, y = draw((3, 200)).astype(dtype), draw((200, 2), seed=1).astype(dtype)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    out = np.asarray(lax.dot(x, y))
    assert out.dtype == dtype
    ulp = np.spacing(np.abs(exact).astype(dtype)).astype(np.float64)
    assert np.all(np.abs(out.astype(np.float64) - exact) <= 0.51 * ulp + 1e-4)


PREFERRED = [
    ("int8", "int32", "int32"),
    ("int8", "float32", "float32"),
    ("int8", "uint8", "uint8"),
    ("uint8", "int32", "int32"),
    ("bool", "int32", "int32"),
    ("bfloat16", "float32", "float32"),
    ("float32", "bfloat16", "bfloat16"),
    ("float32", "complex64", "complex64"),
    ("float32", None, "float32"),
    ("int32", "int8", TypeError),
    ("int32", "bfloat16", TypeError),
    ("complex64", "float16", TypeError),
]


@pytest.mark.parametrize(("source", "preferred", "want"), PREFERRED)
def test_preferred_element_type(source, preferred, want):
    source, preferred = np.dtype(source), None if preferred is None else np.dtype(preferred)
    x, y = draw((2, 30), np.int8).astype(source), draw((30, 2), np.int8, 1).astype(source)
    if want is TypeError:
        with pytest.raises(TypeError, match=f"{preferred} is narrower than {source}"):
            lax.dot(x, y, preferred_element_type=preferred)
        return
    out = lax.dot(x, y, preferred_element_type=preferred)
    exact = x.astype(np.complex128) @ y.astype(np.complex128)
    assert out.dtype == want
    np.testing.assert_allclose(np.asarray(out).astype(np.complex128), exact, rtol=1e-2)


MIXED = [
    ("int8", "uint8", "int8"),
    ("int8", "int32", "int32"),
    ("bool", "int8", "int8"),
    ("int32", "float16", "float16"),
    ("float16", "bfloat16", "bfloat16"),
    ("bfloat16", "float32", "float32"),
    ("float32", "complex64", "complex64"),
]


@pytest.mark.parametrize(("left", "right", "want"), MIXED)
def test_mixed_dtypes_take_the_wider(left, right, want):
    x, y = draw((2, 3), np.int8).astype(left), draw((3, 2), np.int8, 1).astype(right)
    for product in (np.asarray(lax.dot(x, y)), np.asarray(lax.dot(y.T, x.T)).T):
        assert product.dtype == want
        exact = x.astype(np.complex128) @ y.astype(np.complex128)
        np.testing.assert_allclose(product.astype(np.complex128), exact)


def test_bool_products_are_any_of_and():
    x, y = draw((3, 4), np.int32) > 2, draw((4, 2), np.int32, 1) > 2
    out = lax.dot(x, y)
    assert out.dtype == np.bool_
    np.testing.assert_array_equal(out, (x[:, :, None] & y).any(1))


def test_small_integers_wrap():
    x = np.full((1, 3), 7, dtypes.int4)
    np.testing.assert_array_equal(np.asarray(lax.dot(x, x.T)).astype(int), [[3]])
    x = np.full((1, 3), 100, np.int8)
    np.testing.assert_array_equal(lax.dot(x, x.T), [[48]])


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case):
    left, right, numbers = CASES[case]
    with weft.enable_x64(True):
        x, y = draw(left, np.float64), draw(right, np.float64, 1)
        dx, dy = draw(left, np.float64, 2), draw(right, np.float64, 3)
        fun = lambda x, y: lax.dot_general(x, y, numbers)
        out, tangent = weft.jvp(fun, (x, y), (dx, dy))
        step = 1e-5
        above, below = fun(x + step * dx, y + step * dy), fun(x - step * dx, y - step * dy)
        want = (np.asarray(above) - np.asarray(below)) / (2 * step)
        np.testing.assert_allclose(tangent, want, rtol=1e-7, atol=1e-7)
        ct = draw(out.shape, np.float64, 4)
        _, pull = weft.vjp(fun, x, y)
        back = pull(weft.numpy.asarray(ct))
        forward = np.sum(np.asarray(tangent) * ct)
        reverse = np.sum(np.asarray(back[0]) * dx) + np.sum(np.asarray(back[1]) * dy)
        assert back[0].shape == left
        assert back[1].shape == right
        np.testing.assert_allclose(forward, reverse, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_batches(case):
    left, right, numbers = CASES[case]
    xs, ys = draw((2, *left)), draw((2, *right), seed=1)
    fun = lambda x, y: lax.dot_general(x, y, numbers)
    for i in range(len(left) + 1):
        for j in range(len(right) + 1):
            x, y = np.moveaxis(xs, 0, i), np.moveaxis(ys, 0, j)
            both = [fun(xs[k], ys[k]) for k in range(2)]
            np.testing.assert_allclose(weft.vmap(fun, (i, j))(x, y), both, rtol=1e-5, atol=1e-5)
            one = [fun(xs[k], ys[0]) for k in range(2)]
            got = weft.vmap(fun, (i, None))(x, ys[0])
            np.testing.assert_allclose(got, one, rtol=1e-5, atol=1e-5)
            one = [fun(xs[0], ys[k]) for k in range(2)]
            got = weft.vmap(fun, (None, j))(xs[0], y)
            np.testing.assert_allclose(got, one, rtol=1e-5, atol=1e-5)


VJP = """\
{ lambda ; a:f32[3,2] b:f32[3,4] c:f32[2,4]. let
    _:f32[2,4] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a b
    d:f32[4,3] = dot_general[dimension_numbers=(([0], [1]), ([], []))] c a
    e:f32[3,4] = transpose[permutation=(1, 0)] d
    f:f32[2,3] = dot_general[dimension_numbers=(([1], [1]), ([], []))] c b
    g:f32[3,2] = transpose[permutation=(1, 0)] f
  in (g, e) }"""


def test_printed_transposes():
    fun = lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ())))
    program = weft.make_jaxpr(lambda x, y, ct: weft.vjp(fun, x, y)[1](ct))
    assert str(program(draw((3, 2)), draw((3, 4)), draw((2, 4)))) == VJP


def test_printed_precision():
    program = weft.make_jaxpr(lambda x: lax.dot(x, x, precision="highest"))
    assert "precision=(Precision.HIGHEST, Precision.HIGHEST)" in str(program(draw((2, 2))))


def test_gradient_of_a_narrow_operand_has_its_dtype():
    x, y = draw((2, 3)).astype(dtypes.bfloat16), draw((3, 2)).astype(dtypes.bfloat16)
    fun = lambda x, y: lax.dot(x, y, preferred_element_type=np.float32)
    out, pull = weft.vjp(fun, x, y)
    assert [g.dtype for g in pull(out)] == [dtypes.bfloat16, dtypes.bfloat16]


ERRORS = [
    ((3, 4), (5, 2), (((1,), (0,)), ((), ())), "contracting dimensions must have equal sizes"),
    ((2, 4), (3, 4), (((1,), (1,)), ((0,), (0,))), "batch dimensions must have equal sizes"),
    ((2, 4), (4,), (((2,), (0,)), ((), ())), "dimension 2 is not an axis of lhs"),
    ((2, 4), (4,), (((1,), (-1,)), ((), ())), "dimension -1 is not an axis of rhs"),
    ((4, 4), (4, 4), (((0, 0), (0, 1)), ((), ())), "a dimension of lhs is named twice"),
    ((4, 4), (4, 4), (((0,), (0,)), ((0,), (1,))), "both contracting and batch"),
    ((4, 4), (4, 4), (((0,), (0,)), ((1,), ())), "batch dimensions must have equal sizes"),
]


@pytest.mark.parametrize(("left", "right", "numbers", "problem"), ERRORS)
def test_errors_show_shapes_and_dimension_numbers(left, right, numbers, problem):
    with pytest.raises(TypeError, match=problem) as info:
        lax.dot_general(draw(left), draw(right), numbers)
    assert str(left) in str(info.value)
    assert str(right) in str(info.value)
    assert f"lhs_contracting={numbers[0][0]}" in str(info.value)


def test_errors_of_the_short_forms():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(4, 2\).*dimension_numbers"):
        lax.dot(draw((2, 3)), draw((4, 2)))
    with pytest.raises(ValueError, match="same rank"):
        lax.batch_matmul(draw((2, 3)), draw((1, 3, 2)))
    with pytest.raises(ValueError, match="precision 'exact' is not known"):
        lax.dot(draw((2, 3)), draw((3, 2)), precision="exact")


def test_lists_and_single_axes_are_dimension_numbers():
    x, y = draw((3, 4)), draw((4, 2))
    np.testing.assert_allclose(lax.dot_general(x, y, (([1], [0]), ([], []))), x @ y, rtol=1e-5)
    np.testing.assert_allclose(lax.dot_general(x, y, ((1, 0), ((), ()))), x @ y, rtol=1e-5)


def test_batch_matmul():
    x, y = draw((2, 2, 3, 4)), draw((2, 2, 4, 5), seed=1)
    np.testing.assert_allclose(lax.batch_matmul(x, y), x @ y, rtol=1e-5)


@pytest.mark.parametrize(
    ("preset", "error"),
    [("DEFAULT", 1e-5), ("F32_F32_F32", 1e-5), ("F16_F16_F32", 2e-2), ("BF16_BF16_F32_X3", 1e-5)],
)
def test_algorithms(preset, error):
    x, y = draw((4, 30)), draw((30, 3), seed=1)
    out = lax.dot(x, y, precision=preset)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, x.astype(np.float64) @ y, atol=error)
    spelled = lax.DotAlgorithm(np.float16, np.float16, np.float32)
    out = lax.dot(x, y, precision=spelled)
    np.testing.assert_allclose(out, x.astype(np.float64) @ y, atol=2e-2)


def test_float8_algorithms_want_float8_operands():
    x = draw((2, 2))
    with pytest.raises(ValueError, match="float8 operands, got float32"):
        lax.dot(x, x, precision="ANY_F8_ANY_F8_F32")


def test_precision_by_default():
    with knobs.default_matmul_precision("float32"):
        text = str(weft.make_jaxpr(lambda x: lax.dot(x, x))(draw((2, 2))))
    assert "Precision.HIGHEST" in text


# --- ragged products ------------------------------------------------------------------------------

Numbers = lax.RaggedDotDimensionNumbers
ROWS = Numbers((((1,), (1,)), ((), ())), (0,), (0,))
RAGGED = {
    "rows": ((6, 4), (3, 4, 2), [2, 1, 3], ROWS),
    "short": ((6, 4), (3, 4, 2), [2, 1, 1], ROWS),
    "batch": (
        (2, 6, 4),
        (3, 2, 4, 5),
        [[2, 1, 3], [1, 1, 1]],
        Numbers((((2,), (2,)), ((0,), (1,))), (1,), (0,)),
    ),
    "crossed": (
        (4, 6, 3, 2),
        (2, 5, 3, 4, 2),
        [[2, 4], [3, 1]],
        Numbers((((0, 2), (3, 2)), ((3,), (4,))), (1,), (0,)),
    ),
    "contracting": ((3, 6), (6, 4), [2, 1, 3], Numbers((((1,), (0,)), ((), ())), (1,), ())),
    "contracting in a batch": (
        (2, 6, 3),
        (6, 4, 2),
        [[2, 1, 3], [1, 2, 0]],
        Numbers((((1,), (0,)), ((0,), (2,))), (1,), ()),
    ),
    "batch itself": (
        (4, 3, 2),
        (4, 2, 5),
        [1, 3],
        Numbers((((2,), (1,)), ((0,), (0,))), (0,), ()),
    ),
}


def ragged(case):
    left, right, sizes, numbers = RAGGED[case]
    x, y, sizes = draw(left), draw(right, seed=1), np.array(sizes, np.int32)
    return x, y, sizes, lambda x, y, sizes: lax.ragged_dot_general(x, y, sizes, numbers)


def test_ragged_rows():
    x, y, sizes, _ = ragged("short")
    want = np.concatenate([x[:2] @ y[0], x[2:3] @ y[1], x[3:4] @ y[2], np.zeros((2, 2))])
    np.testing.assert_allclose(lax.ragged_dot(x, y, sizes), want, rtol=1e-5, atol=1e-6)


def test_ragged_contraction():
    x, y, sizes, fun = ragged("contracting")
    want = [x[:, :2] @ y[:2], x[:, 2:3] @ y[2:3], x[:, 3:] @ y[3:]]
    np.testing.assert_allclose(fun(x, y, sizes), want, rtol=1e-5, atol=1e-6)


def test_ragged_groups_that_differ_in_a_batch():
    x, y, sizes, fun = ragged("batch")
    want = [lax.ragged_dot(x[i], y[:, i], sizes[i]) for i in range(2)]
    np.testing.assert_allclose(fun(x, y, sizes), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", RAGGED)
def test_ragged_rules(case):
    x, y, sizes, fun = ragged(case)
    dx, dy = draw(x.shape, seed=2), draw(y.shape, seed=3)
    out, tangent = weft.jvp(lambda x, y: fun(x, y, sizes), (x, y), (dx, dy))
    want = np.asarray(fun(dx, y, sizes)) + np.asarray(fun(x, dy, sizes))
    np.testing.assert_allclose(tangent, want, rtol=1e-5, atol=1e-5)
    ct = draw(out.shape, seed=4)
    _, pull = weft.vjp(lambda x, y: fun(x, y, sizes), x, y)
    back = pull(weft.numpy.asarray(ct))
    reverse = np.sum(np.asarray(back[0]) * dx) + np.sum(np.asarray(back[1]) * dy)
    np.testing.assert_allclose(np.sum(want * ct), reverse, rtol=1e-4, atol=1e-4)
    xs, ys = np.stack([x, dx], 1), np.stack([y, dy])
    loop = [fun(x, y, sizes), fun(dx, dy, sizes)]
    got = weft.vmap(fun, (1, 0, None))(xs, ys, sizes)
    np.testing.assert_allclose(got, loop, rtol=1e-5, atol=1e-5)
    other = sizes[..., ::-1]
    loop = [fun(x, y, sizes), fun(x, y, other)]
    got = weft.vmap(fun, (None, None, 0))(x, y, np.stack([sizes, other]))
    np.testing.assert_allclose(got, loop, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", RAGGED)
def test_ragged_decomposition(case):
    x, y, sizes, fun = ragged(case)
    primitive = weft.core.registry.lookup("ragged_dot_general")
    params = {
        "ragged_dot_dimension_numbers": RAGGED[case][3],
        "precision": None,
        "preferred_element_type": None,
        "group_offset": None,
        "out_sharding": None,
    }
    got = primitive.decompose(x, y, sizes, **params)
    np.testing.assert_allclose(got, fun(x, y, sizes), rtol=1e-5, atol=1e-5)


def test_ragged_errors():
    x, y, sizes = draw((6, 4)), draw((3, 4, 2)), np.array([1, 2], np.int32)
    with pytest.raises(TypeError, match="rhs has 3 groups but group_sizes has 2"):
        lax.ragged_dot(x, y, sizes)
    with pytest.raises(TypeError, match="integer group_sizes"):
        lax.ragged_dot(x, y, np.ones(3, np.float32))
    with pytest.raises(TypeError, match="one group dimension"):
        lax.ragged_dot_general(x, y, sizes, Numbers((((1,), (1,)), ((), ())), (0,), ()))
    with pytest.raises(TypeError, match="exactly one ragged dimension"):
        lax.ragged_dot_general(x, y, sizes, Numbers((((1,), (1,)), ((), ())), (0, 1), (0,)))
