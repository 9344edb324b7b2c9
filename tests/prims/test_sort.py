"""Sorting and largest elements: order, stability, derivatives, batches, text, errors."""

import numpy as np
import pytest

import weft
from tests.prims.derivatives import check_batch, check_derivatives, leaves
from weft import dtypes, lax
from weft.prims.sort import approximate_size

NAN, INF = np.nan, np.inf


def draw(shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iub":
        return rng.integers(0, 9, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dimension", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, np.bool_])
def test_values(dtype, dimension):
    x = draw((5, 7), dtype)
    out = lax.sort(x, dimension)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, np.sort(x, dimension))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "uint4"])
def test_narrow_dtypes(dtype):
    x = np.array([3, 0, 2, 1]).astype(dtype)
    out = np.asarray(lax.sort(x))
    assert out.dtype == dtype
    assert out.astype(np.float32).tolist() == [0, 1, 2, 3]


def test_zeros_are_equal_and_nan_is_last():
    x = np.array([NAN, 1, -0.0, 0.0, -INF, INF, -NAN, 3, 0.0, -0.0], np.float32)
    values, order = lax.sort((x, np.arange(10)))
    assert np.asarray(order).tolist() == [4, 2, 3, 8, 9, 1, 7, 5, 0, 6]
    assert np.signbit(values)[:5].tolist() == [True, True, False, False, True]


def test_complex_numbers_go_by_real_then_imaginary_part():
    x = np.array([1 + 1j, 1 - 1j, complex(NAN, 1), complex(0, NAN), 0, complex(-0.0, 2), 1j])
    _, order = lax.sort((x.astype(np.complex64), np.arange(7)))
    assert np.asarray(order).tolist() == [4, 6, 5, 3, 1, 0, 2]


def test_several_keys_and_payloads():
    first, second = draw((40,), np.int32), draw((40,), np.int32, 1)
    payload = np.arange(40)
    a, b, c = lax.sort((first, second, payload), num_keys=2)
    order = np.lexsort((second, first))
    np.testing.assert_array_equal(a, first[order])
    np.testing.assert_array_equal(b, second[order])
    np.testing.assert_array_equal(c, order)
    keys, values = lax.sort_key_val(first, payload)
    np.testing.assert_array_equal(values, np.argsort(first, kind="stable"))
    np.testing.assert_array_equal(keys, np.sort(first))


def test_top_k_goes_by_the_total_order():
    x = np.array([NAN, 1, -0.0, 0.0, -INF, INF, -NAN, 3, 0.0, -0.0], np.float32)
    _, order = lax.top_k(x, 10)
    assert np.asarray(order).tolist() == [0, 5, 7, 1, 3, 8, 2, 9, 4, 6]
    values, where = lax.top_k(np.array([[1, 5, 5], [7, 0, 2]], np.int32), 2)
    assert np.asarray(values).tolist() == [[5, 5], [7, 2]]
    assert np.asarray(where).tolist() == [[1, 2], [0, 2]]
    assert where.dtype == np.int32
    values, _ = lax.top_k(draw((6, 2)), 3, axis=0)
    np.testing.assert_array_equal(values, -np.sort(-draw((6, 2)), 0)[:3])


def test_approximate_search_is_exact_here():
    x = draw((3, 300))
    values, where = lax.approx_max_k(x, 5)
    np.testing.assert_array_equal(values, -np.sort(-x)[:, :5])
    np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(where), 1), values)
    values, _ = lax.approx_min_k(x, 2, reduction_dimension=0)
    np.testing.assert_array_equal(values, np.sort(x, 0)[:2])


# size, rank, k, recall, override -> candidates kept; as XLA says
SIZES = [
    (1716, 1, 90, 0.5, 4589, 2048),
    (1816, 2, 182, 0.99, 13243, 1816),
    (2120, 1, 54, 0.5, 4241, 2048),
    (313, 3, 102, 0.5, 1331, 256),
    (137, 2, 1, 0.5, -1, 128),
    (471753, 3, 8, 0.99, 3437431, 128),
    (950, 3, 71, 0.5, 5497, 128),
    (100, 2, 3, 0.95, -1, 100),
]


@pytest.mark.parametrize("case", SIZES)
def test_size_of_approximate_results(case):
    *given, want = case
    assert approximate_size(*given) == want


def test_unaggregated_results_have_the_size_announced():
    x = draw((1, 313))
    values, _ = lax.approx_max_k(
        x, 102, recall_target=0.5, reduction_input_size_override=1331, aggregate_to_topk=False
    )
    assert values.shape == (1, 256)


def several(x):
    return lax.sort((lax.sin(x), x, lax.mul(x, x)), dimension=0, num_keys=2)


FUNCTIONS = {
    "sort": lambda x: lax.sort(x, 0),
    "sort 1": lambda x: lax.sort(lax.mul(x, x), 1),
    "several": several,
    "top_k": lambda x: lax.top_k(x, 2),
    "top_k 0": lambda x: lax.top_k(x, 2, axis=0),
    "approx_max_k": lambda x: lax.approx_max_k(x, 2),
    "approx_min_k": lambda x: lax.approx_min_k(x, 2, reduction_dimension=0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_and_batches(name):
    check_derivatives(FUNCTIONS[name], draw((4, 5)))
    check_batch(FUNCTIONS[name], draw((4, 5)))


def test_batch_with_operands_that_are_not_mapped():
    keys, payload = draw((3, 4)), draw((4,), seed=1)
    out = weft.vmap(lambda k: lax.sort((k, payload)))(keys)
    order = np.argsort(keys, 1)
    for a, b in zip(leaves(out), (np.sort(keys), payload[order]), strict=True):
        np.testing.assert_array_equal(a, b)


TANGENT = """\
{ lambda ; a:f32[3] b:f32[3]. let
    c:u32[3] = iota[dimension=0 dtype=uint32 shape=(3,) sharding=None]
    d:f32[3] e:u32[3] = sort[dimension=0 is_stable=True num_keys=1] a c
    f:u32[3,1] = broadcast_in_dim[broadcast_dimensions=(0,)] e
    g:f32[3] = gather[
      dimension_numbers=GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), \
start_index_map=(0,), operand_batching_dims=(), start_indices_batching_dims=())
      fill_value=None
      indices_are_sorted=False
      mode=GatherScatterMode.PROMISE_IN_BOUNDS
      slice_sizes=(1,)
      unique_indices=False
    ] b f
  in (d, g) }"""


def test_text_of_a_tangent():
    x = np.ones(3, np.float32)
    text = str(weft.make_jaxpr(lambda x, t: weft.jvp(lax.sort, (x,), (t,)))(x, x))
    assert "\n".join(line.rstrip() for line in text.splitlines()) == TANGENT


ERRORS = [
    (lambda: lax.sort(np.ones((2, 3)), 2), ValueError, "axis 2"),
    (lambda: lax.sort(()), TypeError, "at least one operand"),
    (lambda: lax.sort(np.ones(3), num_keys=2), ValueError, "num_keys=2"),
    (lambda: lax.sort((np.ones(3),), num_keys=2), ValueError, "between 1"),
    (lambda: lax.sort((np.ones((2, 3)), np.ones(3))), TypeError, r"\(2, 3\) \(3,\)"),
    (lambda: lax.top_k(np.ones((2, 3)), 4), ValueError, "only 3 elements"),
    (lambda: lax.top_k(np.ones(3), -1), ValueError, "got -1"),
    (lambda: lax.top_k(np.ones(3, np.complex64), 1), ValueError, "complex"),
    (lambda: lax.top_k(np.float32(1), 1), ValueError, "out of bounds"),
    (lambda: lax.approx_max_k(np.ones(3), 0), ValueError, "positive"),
    (lambda: lax.approx_max_k(np.ones(3), 4), ValueError, "only 3"),
    (lambda: lax.approx_max_k(np.ones(3, np.int32), 1), ValueError, "floating"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_narrow_floats_keep_their_bits():
    x = draw((9,)).astype(dtypes.bfloat16)
    assert sorted(np.asarray(lax.sort(x)).view(np.uint16)) == sorted(x.view(np.uint16))
