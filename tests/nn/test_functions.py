"""``weft.nn``: values and derivatives as JAX 0.10.2 gives them, and what each function promises."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, nn
from weft.base import knobs

X = np.array([-7.0, -2.5, -1.0, -0.25, 0.0, 0.5, 1.0, 3.0, 6.0, 8.0], np.float32)

# Values and derivatives at X, recorded from JAX.
RECORDED = {
    "celu": (
        [-0.9990881, -0.917915, -0.6321205, -0.2211992, 0.0, 0.5, 1.0, 3.0, 6.0, 8.0],
        [0.0009118915, 0.08208501, 0.3678795, 0.7788008, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ),
    "elu": (
        [-0.9990881, -0.917915, -0.6321205, -0.2211992, 0.0, 0.5, 1.0, 3.0, 6.0, 8.0],
        [0.0009118915, 0.08208501, 0.3678795, 0.7788008, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ),
    "gelu": (
        [-0.0, -0.0150843, -0.158808, -0.1003246, 0.0, 0.345714, 0.841192, 2.996363, 6.0, 8.0],
        [0.0, -0.03795173, -0.08296407, 0.3046459, 0.5, 0.8673699, 1.082964, 1.011584, 1.0, 1.0],
    ),
    "hard_sigmoid": (
        [0.0, 0.08333334, 0.3333333, 0.4583333, 0.5, 0.5833334, 0.6666667, 1.0, 1.0, 1.0],
        [0.0, 0.1666667, 0.1666667, 0.1666667, 0.1666667, 0.1666667, 0.1666667, 0.0, 0.0, 0.0],
    ),
    "hard_silu": (
        [-0.0, -0.2083333, -0.3333333, -0.1145833, 0.0, 0.2916667, 0.6666667, 3.0, 6.0, 8.0],
        [0.0, -0.3333333, 0.1666667, 0.4166667, 0.5, 0.6666667, 0.8333334, 1.0, 1.0, 1.0],
    ),
    "hard_tanh": (
        [-1.0, -1.0, -1.0, -0.25, 0.0, 0.5, 1.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    ),
    "leaky_relu": (
        [-0.07, -0.025, -0.01, -0.0025, 0.0, 0.5, 1.0, 3.0, 6.0, 8.0],
        [0.01, 0.01, 0.01, 0.01, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ),
    "log_sigmoid": (
        [
            -7.000911,
            -2.57889,
            -1.313262,
            -0.8259394,
            -0.6931472,
            -0.474077,
            -0.3132617,
            -0.04858735,
            -0.002475685,
            -0.0003354064,
        ],
        [
            0.9990892,
            0.9241417,
            0.7310585,
            0.5621765,
            0.5,
            0.3775407,
            0.2689414,
            0.04742587,
            0.002472623,
            0.00033535,
        ],
    ),
    "mish": (
        [
            -0.006380263,
            -0.1968162,
            -0.3034014,
            -0.129927,
            0.0,
            0.3752452,
            0.8650985,
            2.986536,
            5.999927,
            8.0,
        ],
        [
            -0.005465888,
            -0.1097436,
            0.05921675,
            0.4398156,
            0.6,
            0.8864244,
            1.049036,
            1.021106,
            1.000133,
            1.0,
        ],
    ),
    "relu": (
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 8.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ),
    "relu6": (
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 6.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0],
    ),
    "selu": (
        [
            -1.756496,
            -1.613786,
            -1.111331,
            -0.3888902,
            0.0,
            0.5253505,
            1.050701,
            3.152103,
            6.304206,
            8.405608,
        ],
        [
            0.001603196,
            0.1443136,
            0.6467686,
            1.369209,
            1.758099,
            1.050701,
            1.050701,
            1.050701,
            1.050701,
            1.050701,
        ],
    ),
    "sigmoid": (
        [
            0.0009110512,
            0.07585818,
            0.2689414,
            0.4378235,
            0.5,
            0.6224594,
            0.7310586,
            0.9525741,
            0.9975274,
            0.9996647,
        ],
        [
            0.0009102211,
            0.07010371,
            0.1966119,
            0.2461341,
            0.25,
            0.2350037,
            0.1966119,
            0.04517666,
            0.002466466,
            0.0003352233,
        ],
    ),
    "silu": (
        [
            -0.006377358,
            -0.1896454,
            -0.2689414,
            -0.1094559,
            0.0,
            0.3112297,
            0.7310586,
            2.857722,
            5.985165,
            7.997317,
        ],
        [
            -0.005460497,
            -0.0994011,
            0.07232949,
            0.37629,
            0.5,
            0.7399612,
            0.9276705,
            1.088104,
            1.012326,
            1.002346,
        ],
    ),
    "soft_sign": (
        [-0.875, -0.7142857, -0.5, -0.2, 0.0, 0.3333333, 0.5, 0.75, 0.8571429, 0.8888889],
        [0.015625, 0.08163267, 0.25, 0.64, 1.0, 0.4444445, 0.25, 0.0625, 0.02040817, 0.01234568],
    ),
    "softplus": (
        [
            0.0009114665,
            0.07888974,
            0.3132617,
            0.5759394,
            0.6931472,
            0.974077,
            1.313262,
            3.048587,
            6.002476,
            8.000336,
        ],
        [
            0.0009110514,
            0.07585817,
            0.2689414,
            0.4378235,
            0.5,
            0.6224594,
            0.7310585,
            0.9525741,
            0.9975273,
            0.9996644,
        ],
    ),
    "sparse_plus": (
        [0.0, 0.0, 0.0, 0.140625, 0.25, 0.5625, 1.0, 3.0, 6.0, 8.0],
        [0.0, 0.0, 0.0, 0.375, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0],
    ),
    "sparse_sigmoid": (
        [0.0, 0.0, 0.0, 0.375, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 0.25, 0.5, 0.5, 0.5, 0.25, 0.0, 0.0, 0.0],
    ),
    "squareplus": (
        [
            0.1400549,
            0.3507811,
            0.618034,
            0.8827822,
            1.0,
            1.280776,
            1.618034,
            3.302776,
            6.162278,
            8.123106,
        ],
        [
            0.01923805,
            0.1095656,
            0.2763932,
            0.4379826,
            0.5,
            0.6212678,
            0.7236068,
            0.9160252,
            0.9743416,
            0.9850713,
        ],
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_activation_and_its_derivative(name):
    fun = getattr(nn, name)
    values, slopes = RECORDED[name]
    got = fun(jnp.asarray(X))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, values, rtol=3e-6, atol=1e-7)
    _, tangent = weft.jvp(fun, (jnp.asarray(X),), (jnp.ones_like(X),))
    np.testing.assert_allclose(tangent, slopes, rtol=3e-6, atol=1e-6)
    gradient = weft.grad(lambda x: fun(x).sum())(jnp.asarray(X))
    np.testing.assert_allclose(gradient, slopes, rtol=3e-6, atol=1e-6)
    narrow = fun(jnp.asarray(X, jnp.bfloat16))
    assert narrow.dtype == jnp.bfloat16


def test_names_of_the_api():
    assert nn.swish is nn.silu and nn.hard_swish is nn.hard_silu
    assert nn.tanh is jnp.tanh


def test_exact_gelu_and_log1mexp():
    x = np.array([0.3, 1.0, 5.0], np.float32)
    wanted = [0.18537343, 0.84134477, 4.9999986]
    np.testing.assert_allclose(nn.gelu(x, approximate=False), wanted, rtol=1e-6)
    np.testing.assert_allclose(nn.log1mexp(x), np.log(-np.expm1(-x.astype(float))), rtol=1e-6)
    slopes = weft.grad(lambda v: nn.log1mexp(v).sum())(jnp.asarray(x))
    np.testing.assert_allclose(slopes, 1 / np.expm1(x.astype(float)), rtol=1e-6)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("masked", [False, True])
def test_softmax_and_logsumexp(axis, masked):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    where = rng.random((2, 3, 4)) > 0.3 if masked else None
    if masked:
        where[:, :, 0] = True
    terms = np.exp(x.astype(float)) * (1 if where is None else where)
    total = terms.sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(nn.softmax(x, axis, where=where), terms / total, rtol=1e-5)
    with np.errstate(divide="ignore"):
        wanted = np.log(terms / total)
    np.testing.assert_allclose(nn.log_softmax(x, axis, where=where), wanted, rtol=1e-5, atol=1e-6)
    got = nn.logsumexp(x, axis, where=where)
    np.testing.assert_allclose(got, np.log(terms.sum(axis=axis)), rtol=1e-5, atol=1e-6)
    got = nn.logsumexp(x, axis, where=where, keepdims=True)
    np.testing.assert_allclose(got, np.log(total), rtol=1e-5, atol=1e-6)
    count = np.sum(np.ones(x.shape) if where is None else where, axis=axis)
    got = nn.logmeanexp(x, axis, where=where)
    np.testing.assert_allclose(got, np.log(terms.sum(axis=axis) / count), rtol=1e-5, atol=1e-6)


def test_logsumexp_of_extremes_and_signs():
    assert float(nn.logsumexp(jnp.array([-jnp.inf, -jnp.inf]))) == -np.inf
    assert float(nn.logsumexp(jnp.array([jnp.inf, 0.0]))) == np.inf
    value, sign = nn.logsumexp(jnp.array([1.0, 2.0]), b=jnp.array([1.0, -1.0]), return_sign=True)
    np.testing.assert_allclose([value, sign], [np.log(np.e**2 - np.e), -1], rtol=1e-6)
    assert np.isnan(nn.logsumexp(jnp.array([1.0, 2.0]), b=jnp.array([1.0, -1.0])))


@pytest.mark.parametrize("rule", [False, True])
def test_softmax_derivative(rule):
    x = jnp.array([0.1, -0.4, 2.0])
    with knobs.softmax_custom_jvp(rule):
        jacobian = weft.jacrev(nn.softmax)(x)
    y = np.asarray(nn.softmax(x))
    np.testing.assert_allclose(jacobian, np.diag(y) - np.outer(y, y), atol=1e-6)


def test_standardize():
    x = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    for algorithm in ("fast", "stable"):
        y = np.asarray(nn.standardize(x, algorithm=algorithm))
        np.testing.assert_allclose(y.mean(-1), 0, atol=1e-5)
        np.testing.assert_allclose(y.std(-1), 1, rtol=1e-3)
    with pytest.raises(ValueError, match="'fast' or 'stable'"):
        nn.standardize(x, algorithm="quick")


def test_one_hot():
    index = jnp.array([[0, 2, 5]])
    for axis in (-1, 0, 1):
        wanted = np.moveaxis(np.eye(6, dtype=np.float32)[np.asarray(index)][..., :3], -1, axis)
        np.testing.assert_array_equal(nn.one_hot(index, 3, axis=axis), wanted)
    assert nn.one_hot(index, 3, dtype=jnp.int8).dtype == np.int8
    with pytest.warns(DeprecationWarning, match="takes integers, got dtype float32"):
        assert nn.one_hot(jnp.array([1.0]), 2).tolist() == [[0.0, 1.0]]
    rows = weft.vmap(lambda _: nn.one_hot(jnp.array([0, 2]), 3, axis="i"), axis_name="i")
    np.testing.assert_array_equal(rows(jnp.arange(3)), [[1, 0], [0, 0], [0, 1]])


def test_glu_halves():
    x = jnp.arange(6.0)
    np.testing.assert_allclose(nn.glu(x), x[:3] * nn.sigmoid(x[3:]), rtol=1e-6)
    with pytest.raises(AssertionError, match="even size"):
        nn.glu(jnp.arange(5.0))


def test_lists_are_refused():
    with pytest.raises(TypeError, match="list"):
        nn.silu([1.0, 2.0])


# Attention.


def attention(query, key, value, visible=None, bias=0.0):
    """The definition, in float64, heads repeated over their groups."""
    groups = query.shape[2] // key.shape[2]
    key, value = (np.repeat(x.astype(float), groups, axis=2) for x in (key, value))
    logits = np.einsum("btnh,bsnh->bnts", query.astype(float), key) / np.sqrt(query.shape[-1])
    logits = logits + bias
    if visible is not None:
        logits = np.where(visible, logits, -1e30)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.einsum("bnts,bsnh->btnh", weights / weights.sum(-1, keepdims=True), value)


@pytest.fixture
def operands():
    rng = np.random.default_rng(2)
    shapes = (2, 5, 4, 8), (2, 7, 2, 8), (2, 7, 2, 8)
    return [rng.normal(size=s).astype(np.float32) for s in shapes]


def test_attention_masks(operands):
    rng = np.random.default_rng(3)
    rows, columns = np.arange(5)[:, None], np.arange(7)[None, :]
    mask = rng.random((2, 1, 5, 7)) > 0.4
    mask[..., 0] = True
    bias = rng.normal(size=(1, 4, 5, 7)).astype(np.float32)
    cases = [
        ({}, None, 0.0),
        ({"is_causal": True}, rows >= columns, 0.0),
        ({"mask": mask}, mask, 0.0),
        ({"bias": bias}, None, bias),
        ({"local_window_size": (1, 0)}, (rows <= columns + 1) & (rows >= columns), 0.0),
        ({"local_window_size": 2}, np.abs(rows - columns) <= 2, 0.0),
    ]
    for arguments, visible, added in cases:
        got = nn.dot_product_attention(*operands, **arguments)
        np.testing.assert_allclose(got, attention(*operands, visible, added), rtol=1e-4, atol=1e-5)


def test_attention_lengths_residual_and_gradient(operands):
    lengths = np.array([3, 5], np.int32), np.array([2, 7], np.int32)
    visible = np.arange(7)[None, None, None, :] < lengths[1][:, None, None, None]
    wanted = attention(*operands, visible)
    wanted[0, 3:] = 0
    got = nn.dot_product_attention(
        *operands, query_seq_lengths=lengths[0], key_value_seq_lengths=lengths[1]
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    out, residual = nn.dot_product_attention(*operands, return_residual=True)
    assert out.shape == (2, 5, 4, 8) and residual.shape == (2, 5, 4)
    gradient = weft.grad(lambda q: nn.dot_product_attention(q, *operands[1:]).sum())(operands[0])
    assert np.isfinite(gradient).all()
    alone = nn.dot_product_attention(*(x[0] for x in operands))
    np.testing.assert_allclose(alone, attention(*operands)[0], rtol=1e-4, atol=1e-5)


def test_attention_errors(operands):
    query, key, value = operands
    with pytest.raises(ValueError, match="value of shape"):
        nn.dot_product_attention(query, key, value[:, :3])
    with pytest.raises(ValueError, match="multiple of the"):
        nn.dot_product_attention(query[:, :, :3], key, value)
    with pytest.raises(ValueError, match="implementation"):
        nn.dot_product_attention(query, key, value, implementation="other")


# Block-scaled products.


@pytest.mark.parametrize(("mode", "bound"), [("mxfp8", 0.08), ("nvfp4", 0.25)])
def test_scaled_dot_general(mode, bound):
    rng = np.random.default_rng(4)
    lhs = rng.normal(size=(32, 2, 64)).astype(np.float32)
    rhs = rng.normal(size=(64, 32)).astype(np.float32)
    numbers = (((2,), (0,)), ((), ()))
    configs = [nn.get_scaled_dot_general_config(mode)] * 3
    got = nn.scaled_dot_general(lhs, rhs, numbers, configs=configs)
    wanted = lax.dot_general(lhs, rhs, numbers)
    assert np.abs(got - wanted).max() < bound * np.abs(wanted).max()

    def total(fun):
        return weft.grad(lambda a, b: fun(a, b).sum(), (0, 1))(lhs, rhs)

    scaled = total(lambda a, b: nn.scaled_dot_general(a, b, numbers, configs=configs))
    plain = total(lambda a, b: lax.dot_general(a, b, numbers))
    for a, b in zip(scaled, plain, strict=True):
        assert np.abs(a - b).max() < 0.1 * np.abs(b).max()


def test_scaled_matmul():
    rng = np.random.default_rng(5)
    lhs, rhs = (rng.integers(-3, 4, (2, n, 8)).astype(np.float32) for n in (3, 5))
    scales = [2.0 ** rng.integers(-2, 3, (2, n, 2)).astype(np.float32) for n in (3, 5)]
    wide = [np.repeat(s, 4, axis=-1) for s in scales]
    wanted = np.einsum("bmk,bnk->bmn", lhs * wide[0], rhs * wide[1])
    np.testing.assert_allclose(nn.scaled_matmul(lhs, rhs, *scales), wanted)
    with pytest.raises(ValueError, match="scaled_matmul needs"):
        nn.scaled_matmul(lhs, rhs, scales[1], scales[0])
