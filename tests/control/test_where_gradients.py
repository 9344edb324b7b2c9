"""Gradients through ``where``: the branch that was not taken contributes zero, and nothing else
changes."""

import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.samples import all_samples
from weft import lax
from weft.base import knobs
from weft.core.registry import lookup

INF = np.inf
LINE = np.array([0.0, 1.0, 2.0], np.float32)
ROWS = np.array([[0.0, 0.0], [3.0, 4.0]], np.float32)
SCORES = np.array([[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]], np.float32)
MASK = np.array([[True, True, False], [False, False, False]])
WEIGHTS = np.arange(3, dtype=np.float32)


def positive(f, other=0.0):
    return lambda x: jnp.where(x > 0, f(x), other).sum()


def unit_rows(x):
    norm = jnp.linalg.norm(x, axis=-1, keepdims=True)
    return (jnp.where(jnp.any(x != 0, -1, keepdims=True), x / norm, 0) * WEIGHTS[:2]).sum()


def masked_softmax(x):
    p = weft.nn.softmax(jnp.where(MASK, x, -INF), -1)
    return (jnp.where(MASK, p, 0) * WEIGHTS).sum()


def softmax_of_masked(x):
    return (jnp.where(jnp.isfinite(x), weft.nn.softmax(x, -1), 0) * WEIGHTS).sum()


def softmax_by_hand(x):
    e = jnp.exp(jnp.where(MASK, x, -INF) - jnp.max(jnp.where(MASK, x, -INF), -1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return (jnp.where(MASK.any(-1, keepdims=True), p, 0) * WEIGHTS).sum()


def attention(x):
    scores = x @ x.T @ x
    p = jnp.exp(jnp.where(MASK, scores, -INF))
    p = jnp.where(MASK, p / p.sum(-1, keepdims=True), 0)
    return (p @ np.ones((3, 2), np.float32) * x[:, :2]).sum()


def in_scan(x):
    step = lambda c, v: (c + jnp.where(v > 0, jnp.sqrt(v) * c, 0), None)
    return lax.scan(step, 1.0, x)[0]


def around_scan(x):
    return jnp.where(x > 0, lax.scan(lambda c, v: (c, jnp.sqrt(v)), 1.0, x)[1], 0).sum()


def around_cond(x):
    chosen = lax.cond(x.sum() > 1, lambda x: jnp.sqrt(x) * 2, jnp.log, x)
    return jnp.where(x > 0, chosen, 0).sum()


def batched_cond(x):
    one = lambda v: lax.cond(v > 0, lambda v: jnp.sqrt(v) * v, lambda v: 3 * v, v)
    return weft.vmap(one)(x).sum()


def three_cases(x):
    return lax.select_n(np.array([0, 1, 2], np.int32), 3 * x, jnp.log(x - 1), jnp.sqrt(x)).sum()


VALUES = np.arange(6, dtype=np.float32).reshape(3, 2)
ALLOWED = MASK.any(-1)


def attention_rows(x):
    """A row of scores that are all masked is NaN, and so is its product."""
    p = weft.nn.softmax(jnp.where(MASK, x, -INF), -1)
    return jnp.where(ALLOWED[:, None], p @ (VALUES * x[0, 0]) @ VALUES.T, 0).sum()


def attention_of_heads(x):
    q = jnp.stack([x, 2 * x], 1)
    mask = jnp.array([[True, False], [False, False]])
    p = weft.nn.softmax(jnp.where(mask, jnp.einsum("thd,shd->hts", q, q), -INF), -1)
    out = jnp.einsum("hts,shd->thd", p, q).reshape(2, 6) @ np.ones((6, 2), np.float32)
    return jnp.where(mask.any(-1)[:, None], out, 0).sum()


def tokens_without_loss(x):
    logits = jnp.log(x) @ np.eye(2, dtype=np.float32) * x[1, 0]
    losses = jnp.take_along_axis(weft.nn.log_softmax(logits), np.array([[0], [1]]), 1)[:, 0]
    return -jnp.mean(losses, where=(x > 0).all(-1))


def relu_and_dropout(x):
    h = weft.nn.relu(jnp.sqrt(x) @ (np.eye(2, dtype=np.float32) * x[1, 1]))
    h = jnp.where(np.array([[True, False], [True, True]]), h / 0.9, 0)
    return jnp.where((x > 0).all(-1, keepdims=True), h, 0).sum()


def images_left_out(x):
    y = lax.conv_general_dilated(
        jnp.sqrt(x)[..., None], jnp.ones((2, 1, 3)) * x[1, 1], (1,), "SAME",
        dimension_numbers=("NHC", "HIO", "NHC"),
    )  # fmt: skip
    return jnp.where((x > 0).all(-1)[:, None, None], y, 0).sum()


def norm_of_product(x):
    h = x @ np.eye(2, dtype=np.float32)
    norm = jnp.linalg.norm(h, axis=-1, keepdims=True)
    return (jnp.where(norm > 0, h / norm, 0) @ VALUES[:2]).sum()


def rows_of_calls(x):
    layer = weft.jit(lambda x, w: jnp.log(x) @ w)
    step = lambda c, _: (jnp.where((x > 0).all(-1, keepdims=True), layer(x, c), c), None)
    return lax.scan(step, x, None, length=2)[0].sum()


def given(x):
    return (x != 0).any(-1)


def dot_of_each(x):
    return jnp.where(given(x), jnp.einsum("bi,bi->b", unit(x), x), 0.0).sum()


def dot_under_vmap(x):
    return weft.vmap(lambda r: jnp.where(given(r), unit(r) @ r, 0.0))(x).sum()


def energy_of_each(x):
    form = jnp.array([[1.0, 2.0], [0.5, 3.0]])
    return jnp.where(given(x), jnp.einsum("bi,ij,bj->b", unit(x), form, x), 0.0).sum()


def unit(x):
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def power_spectrum(x):
    power = jnp.abs(jnp.fft.fft(unit(x)) + 2) ** 2
    return jnp.where(given(x)[:, None], power, 0.0)[:, 0].sum()


MATRICES = np.stack([np.eye(2), np.zeros((2, 2)), 2 * np.eye(2)]).astype(np.float32)


def factors_of_examples(x):
    ok = given(x).any(-1)
    return (jnp.where(ok[:, None, None], jnp.linalg.cholesky(x), 0.0) * MATRICES).sum()


def elements_of_systems(x):
    found = lax.linalg.triangular_solve(x, jnp.ones((3, 2, 1)), left_side=True, lower=True)
    return jnp.where(given(x)[:, :, None], found, 0.0).sum()


def factors_under_vmap(x):
    def log_det(m):
        return jnp.where(given(m).any(), jnp.log(jnp.diagonal(jnp.linalg.cholesky(m))).sum(), 0.0)

    return weft.vmap(log_det)(x).sum()


def triangular_systems(x):
    found = lax.linalg.triangular_solve(x, jnp.ones((3, 2, 1)), left_side=True, lower=True)
    return jnp.where(given(x).any(-1)[:, None, None], found, 0.0).sum()


SINGULAR = np.stack([[[2, 1], [1, 3]], [[1, 2], [2, 4]], [[4, 1], [2, 3]]]).astype(np.float32)
REGULAR = np.array([True, False, True])


def inverses_of_regular(x):
    found = jnp.where(jnp.linalg.det(x)[:, None, None] > 0.5, jnp.linalg.inv(x), 0.0)
    return (found * SINGULAR).sum()


def elements_of_inverses(x):
    return jnp.where(REGULAR, jnp.linalg.inv(x)[:, 0, 1], 0.0).sum()


def systems(x):
    found = jnp.linalg.solve(x, jnp.ones((3, 2, 1)) + x[:, :, :1])
    return (jnp.where(REGULAR[:, None, None], found, 0.0) ** 2).sum()


def sides_of_systems(x):
    found = jnp.linalg.solve(SINGULAR, x)
    return (jnp.where(REGULAR[:, None, None], found, 0.0) ** 2).sum()


def inverses_under_vmap(x):
    one = lambda m: jnp.where(jnp.linalg.det(m) > 0.5, jnp.linalg.inv(m), 0.0)
    return (weft.vmap(one)(x) * SINGULAR).sum()


SYMMETRIC = np.stack([[[2, 1], [1, 3]], [[1, 0], [0, 1]], [[4, 1], [1, 3]]]).astype(np.float32)


def spectra(x):
    """Derivatives of eigenvectors divide by differences of eigenvalues."""
    values, vectors = jnp.linalg.eigh(x)
    found = jnp.where(REGULAR[:, None, None], vectors * vectors, 0.0)
    return (found * SINGULAR).sum() + jnp.where(REGULAR[:, None], values, 0.0).sum()


def orthogonal_factors(x):
    found = jnp.linalg.qr(x * REGULAR[:, None, None])[0]
    return (jnp.where(REGULAR[:, None, None], found, 0.0) * SINGULAR).sum()


def singular_vectors(x):
    found = jnp.linalg.svd(x)[0] ** 2
    return (jnp.where(REGULAR[:, None, None], found, 0.0) * SINGULAR).sum()


def systems_of_one_matrix(x):
    """A matrix for each of several right-hand sides, of roots that are not taken."""
    matrix = jnp.where(np.eye(2) > 0, jnp.sqrt(x[0]), 0.0) + jnp.eye(2)
    return jnp.linalg.solve(matrix, jnp.ones((2, 3))).sum()


# name: function, argument, gradient
CLASSICS = {
    "sqrt": (positive(jnp.sqrt), LINE, [0, 0.5, 0.35355338]),
    "log": (positive(jnp.log), LINE, [0, 1, 0.5]),
    "division": (positive(lambda x: 1 / x), LINE, [0, -1, -0.25]),
    "x_log_x": (positive(lambda x: x * jnp.log(x)), LINE, [0, 1, 1.6931472]),
    "arccos": (lambda x: jnp.where(x < 1, jnp.arccos(x), 0).sum(), LINE, [-1, 0, 0]),
    "arctanh": (lambda x: jnp.where(x < 2, jnp.arctanh(x / 2), 0).sum(), LINE, [0.5, 2 / 3, 0]),
    "power": (positive(lambda x: x**0.5), LINE, [0, 0.5, 0.35355338]),
    "x_to_the_x": (positive(lambda x: x**x), LINE, [0, 1, 6.7725887]),
    "norm": (
        lambda x: jnp.where(jnp.any(x != 0), jnp.linalg.norm(x), 0),
        np.zeros(3, np.float32),
        [0, 0, 0],
    ),
    "norm_of_rows": (
        lambda x: jnp.where(jnp.any(x != 0, -1), jnp.linalg.norm(x, axis=-1), 0).sum(),
        ROWS,
        [[0, 0], [0.6, 0.8]],
    ),
    "unit_rows": (unit_rows, ROWS, [[0, 0], [-0.096, 0.072]]),
    "deviation": (
        lambda x: jnp.where(jnp.ptp(x, -1) > 0, jnp.std(x, -1), 0).sum(),
        np.array([[1, 1, 1], [1, 2, 3]], np.float32),
        [[0, 0, 0], [-0.40824828, 0, 0.40824828]],
    ),
    "logsumexp": (
        lambda x: jnp.where(jnp.isfinite(x).any(-1), weft.nn.logsumexp(x, -1), 0).sum(),
        np.array([[-INF, -INF], [0, 1]], np.float32),
        [[0, 0], [0.26894143, 0.7310586]],
    ),
    "masked_softmax": (masked_softmax, SCORES, [[-0.249376, 0.249376, 0], [0, 0, 0]]),
    "softmax_by_hand": (softmax_by_hand, SCORES, [[-0.249376, 0.249376, 0], [0, 0, 0]]),
    "softmax_of_masked": (
        softmax_of_masked,
        np.where(MASK, SCORES, -INF).astype(np.float32),
        [[-0.249376, 0.249376, 0], [0, 0, 0]],
    ),
    "attention": (attention, SCORES, None),
    "select": (
        lambda x: jnp.select([x <= 0, x > 1], [3 * x, jnp.log(x)], jnp.sqrt(x)).sum(),
        LINE,
        [3, 0.5, 0.5],
    ),
    "piecewise": (
        lambda x: jnp.piecewise(x, [x <= 0, x > 1], [lambda v: 3 * v, jnp.log, jnp.sqrt]).sum(),
        LINE,
        [3, 0.5, 0.5],
    ),
    "clamp": (lambda x: lax.clamp(0.1, jnp.sqrt(x), 1.2).sum(), LINE, [0, 0.5, 0]),
    "three_cases": (three_cases, np.array([0, 2, 4], np.float32), [3, 1, 0.25]),
    "batched_cond": (batched_cond, LINE, [3, 1.5, 2.1213203]),
    "around_cond": (around_cond, LINE, [0, 1, 0.70710677]),
    "in_scan": (in_scan, LINE, [0, 1.2071068, 0.70710677]),
    "around_scan": (around_scan, LINE, [0, 0.5, 0.35355338]),
    "loop": (
        positive(lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sqrt(c), x)),
        LINE,
        [0, 0.125, 0.06815673],
    ),
    "jit_inside": (positive(weft.jit(lambda x: jnp.sqrt(x) * x)), LINE, [0, 1.5, 2.1213203]),
    "remat_inside": (positive(weft.checkpoint(jnp.sqrt)), LINE, [0, 0.5, 0.35355338]),
    "movements": (
        lambda x: jnp.where(x > 0, jnp.flip(jnp.sqrt(jnp.flip(x))[None])[0], 0).sum(),
        LINE,
        [0, 0.5, 0.35355338],
    ),
    "broadcast": (
        lambda x: jnp.where(x[:, None] > 0, jnp.sqrt(x)[:, None] * WEIGHTS, 0).sum(),
        LINE,
        [0, 1.5, 1.0606601],
    ),
    "dot_of_each": (dot_of_each, ROWS, [[0, 0], [0.6, 0.8]]),
    "dot_under_vmap": (dot_under_vmap, ROWS, [[0, 0], [0.6, 0.8]]),
    "energy_of_each": (energy_of_each, ROWS, None),
    "power_spectrum": (power_spectrum, ROWS, None),
    "factors_of_examples": (factors_of_examples, MATRICES, None),
    "elements_of_systems": (elements_of_systems, MATRICES, None),
    "factors_under_vmap": (factors_under_vmap, MATRICES, None),
    "triangular_systems": (triangular_systems, MATRICES, None),
    "inverses_of_regular": (inverses_of_regular, SINGULAR, None),
    "elements_of_inverses": (elements_of_inverses, SINGULAR, None),
    "systems": (systems, SINGULAR, None),
    "sides_of_systems": (sides_of_systems, SINGULAR, None),
    "inverses_under_vmap": (inverses_under_vmap, SINGULAR, None),
    "spectra": (spectra, SYMMETRIC, None),
    "orthogonal_factors": (orthogonal_factors, SINGULAR, None),
    "singular_vectors": (singular_vectors, SYMMETRIC, None),
    "systems_of_one_matrix": (systems_of_one_matrix, MATRICES, None),
    "attention_rows": (attention_rows, SCORES, None),
    "attention_of_heads": (attention_of_heads, SCORES[:2], None),
    "tokens_without_loss": (tokens_without_loss, ROWS, None),
    "relu_and_dropout": (relu_and_dropout, ROWS, None),
    "images_left_out": (images_left_out, ROWS, None),
    "norm_of_product": (norm_of_product, ROWS, None),
    "rows_of_calls": (rows_of_calls, np.array([[0, 2], [3, 4]], np.float32), None),
    "bfloat16": (positive(lambda x: jnp.sqrt(x.astype(jnp.bfloat16))), LINE, [0, 0.5, 0.3535]),
    "complex": (positive(lambda x: jnp.abs(jnp.sqrt(x + 0j))), LINE, [0, 0.5, 0.35355338]),
}


def ways(f, x):
    return {
        "eager": lambda: weft.grad(f)(x),
        "jit of grad": lambda: weft.jit(weft.grad(f))(x),
        "grad of jit": lambda: weft.grad(weft.jit(f))(x),
        "vmap of grad": lambda: weft.vmap(weft.grad(f))(x[None])[0],
        "grad of vmap": lambda: weft.grad(lambda x: weft.vmap(f)(x[None])[0])(x),
        "grad of remat": lambda: weft.grad(weft.checkpoint(f))(x),
        "forward": lambda: weft.jacfwd(f)(x),
    }


@pytest.mark.parametrize("name", CLASSICS)
def test_classics(name):
    f, x, want = CLASSICS[name]
    want = weft.jacfwd(f)(jnp.asarray(x)) if want is None else want
    for how, compute in ways(f, jnp.asarray(x)).items():
        got = np.asarray(compute())
        assert np.isfinite(got).all(), how
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-5, err_msg=how)


def test_explicit_meshes_elsewhere_change_nothing():
    """A mesh with explicit axes somewhere in the process is not the mesh of these arrays."""
    weft.make_mesh((1,), ("x",), axis_types=(weft.sharding.AxisType.Explicit,))
    for name in ("movements", "broadcast", "attention_rows"):
        f, x, _ = CLASSICS[name]
        assert np.isfinite(weft.grad(f)(jnp.asarray(x))).all()


TWICE = ["sqrt", "norm_of_rows", "softmax_of_masked", "in_scan", "loop", "systems"]


TWICE += ["inverses_of_regular", "sides_of_systems", "spectra"]


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives(name):
    f, x, _ = CLASSICS[name]
    want = weft.jacfwd(weft.jacfwd(f))(x)
    assert not np.isnan(want).any()
    for second in (weft.hessian, lambda f: weft.jacrev(weft.grad(f))):
        np.testing.assert_allclose(second(f)(x), want, rtol=1e-4, atol=1e-5)


def test_knob_restores_nan():
    f, x, _ = CLASSICS["sqrt"]
    with knobs.safe_where_gradients(False):
        assert np.isnan(weft.grad(f)(x)[0])
        assert np.isnan(weft.jit(weft.grad(f))(x)[0])
        assert np.isnan(weft.grad(weft.jit(f))(x)[0])
    assert not np.isnan(weft.jit(weft.grad(f))(x)).any()


def test_nan_of_live_elements_stays():
    x = np.array([0.0, -1.0, 4.0], np.float32)
    got = weft.grad(lambda x: jnp.where(x != 0, jnp.sqrt(x), 0).sum())(x)
    np.testing.assert_array_equal(np.isnan(got), [False, True, False])
    both = weft.grad(lambda x: (jnp.where(x > 0, jnp.sqrt(x), 0) + jnp.sqrt(x)).sum())(x)
    assert np.isinf(both[0]) and np.isnan(both[1])


def test_custom_rules_keep_their_answers():
    """A bwd rule need not be linear: the mask ends where it makes something else of zeros."""
    f = weft.custom_vjp(jnp.sqrt)
    f.defvjp(lambda x: (jnp.sqrt(x), x), lambda x, ct: (jnp.full_like(ct, np.nan),))
    got = weft.grad(lambda x: jnp.where(x[0] > 0, f(x), 0).sum())(LINE)
    assert np.isnan(got).all()


def with_rule(bwd, f=jnp.sqrt):
    made = weft.custom_vjp(f)
    made.defvjp(lambda x: (f(x), (x, f(x))), bwd)
    return made


_slope = lambda res, ct: (ct / (2 * res[1]),)
RULES = {
    "division": _slope,
    "product": lambda res, ct: (ct * (0.5 / res[1]),),
    "two products": lambda res, ct: (-(ct * 0.5) * -(1 / res[1]),),
    "a sum": lambda res, ct: (ct / (4 * res[1]) + ct * (0.25 / res[1]),),
    "jit": weft.jit(_slope),
    "choice": lambda res, ct: (jnp.where(res[0] > 1, ct / (2 * res[1]), ct * 0.5 / res[1]),),
    "movement": lambda res, ct: (
        (jnp.flip(ct.reshape(-1, 1)) / jnp.flip(2 * res[1]).reshape(-1, 1)).ravel()[::-1],
    ),
    "a look at it": lambda res, ct: (ct / (2 * res[1]) if ct.sum() > 0 else ct,),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_of_the_user(name):
    f = with_rule(RULES[name])
    loss = lambda x: jnp.where(x > 0, f(x), 0).sum()
    expected = np.array([0.0, 0.5, 1 / np.sqrt(8)], np.float32)
    np.testing.assert_allclose(weft.grad(loss)(LINE), expected, rtol=1e-6)
    with weft.safe_where_gradients(False):
        assert np.isnan(weft.grad(loss)(LINE)[0])
    if name != "a look at it":
        np.testing.assert_allclose(weft.jit(weft.grad(loss))(LINE), expected, rtol=1e-6)
        each = lambda x: jnp.where(x > 0, f(x.reshape(1))[0], 0)
        np.testing.assert_allclose(weft.vmap(weft.grad(each))(LINE), expected, rtol=1e-6)


def test_a_mask_goes_on_behind_a_rule():
    """The rule's cotangent is zero where it was not taken: so it is for what comes before."""
    f = with_rule(lambda res, ct: (ct * 2,), lambda x: 2 * x)
    loss = lambda x: jnp.where(x > 0, f(jnp.sqrt(x)), 0).sum()
    got = weft.jit(weft.grad(loss))(LINE)
    np.testing.assert_allclose(got, [0.0, 1.0, 1 / np.sqrt(2)], rtol=1e-6)


def test_sums_in_a_rule_have_no_nans_of_what_was_not_taken():
    def bwd(res, ct):
        scaled = ct / (2 * res[1])
        return (scaled / jnp.maximum(1, jnp.abs(scaled).sum()),)

    f = with_rule(bwd)
    got = weft.grad(lambda x: jnp.where(x > 0, f(x), 0).sum())(LINE)
    np.testing.assert_allclose(got, [0.0, 0.5, 1 / np.sqrt(8)], rtol=1e-6)


def test_rules_of_symbolic_zeros_and_live_nans():
    f = weft.custom_vjp(lambda x, y: jnp.sqrt(x) * y)

    def fwd(x, y):
        root = jnp.sqrt(x.value)
        return root * y.value, (root, y.value)

    f.defvjp(fwd, lambda res, ct: (ct * res[1] / (2 * res[0]), ct * res[0]), symbolic_zeros=True)
    loss = lambda x, y: jnp.where(x > 0, f(x, y), 0).sum()
    x, y = weft.grad(loss, (0, 1))(LINE, LINE)
    np.testing.assert_allclose(x, [0, 0.5, 1 / np.sqrt(2)], rtol=1e-6)
    np.testing.assert_allclose(y, [0, 1, np.sqrt(2)], rtol=1e-6)
    g = with_rule(_slope)
    got = weft.grad(lambda x: jnp.where(x > -2, g(x), 0).sum())(np.float32([-1, 4]))
    np.testing.assert_array_equal(np.isnan(got), [True, False])


def test_a_choice_of_elements_ends_at_a_product():
    """A limit: which terms count would take two more products for each. Before the product, a
    choice of elements is free."""
    p = np.array([[1.0, 2.0], [np.nan, 4.0]], np.float32)
    kept = np.array([[True, True], [False, True]])
    v = np.ones((2, 2), np.float32)
    after = weft.grad(lambda v: jnp.where(kept, p @ v, 0).sum())(v)
    np.testing.assert_array_equal(np.isnan(after), [[True, True], [False, False]])
    rows = weft.grad(lambda v: jnp.where(kept.all(1, keepdims=True), p @ v, 0).sum())(v)
    np.testing.assert_array_equal(rows, [[1, 1], [2, 2]])
    before = weft.grad(lambda v: (jnp.where(kept, p, 0) @ v).sum())(v)
    np.testing.assert_array_equal(before, [[1, 1], [6, 6]])


@pytest.mark.parametrize("devices", [1, 2])
def test_masks_go_through_shard_map(devices):
    if len(weft.devices()) >= devices:
        return check_shard_map(devices)
    code = (
        f"import weft; weft.config.update('num_cpu_devices', {devices});"
        "from tests.control.test_where_gradients import check_shard_map as check;"
        f"check({devices}); print('checked')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "checked\n", run.stderr


def check_shard_map(devices):
    mesh = weft.make_mesh((devices,), ("x",), (weft.sharding.AxisType.Auto,))
    x = np.array([0, 1, 4, 0, 0, 1, 9, 0], np.float32)

    def mapped(f, into, out):
        return weft.shard_map(f, mesh=mesh, in_specs=into, out_specs=out)

    def chosen(f, values):
        return lambda x: jnp.where(f(jnp.asarray(values)) > 0, f(x), 0).sum()

    parts = mapped(jnp.sqrt, weft.P("x"), weft.P("x"))
    total = mapped(lambda x: jnp.sqrt(lax.psum(x, "x")), weft.P("x"), weft.P())
    place = weft.NamedSharding(mesh, weft.P("x"))
    put = lambda x: lax.with_sharding_constraint(jnp.sqrt(x), place)
    for f in (parts, total, put, weft.jit(parts), lambda x: weft.device_put(jnp.sqrt(x), place)):
        got = weft.grad(chosen(f, x))(x)
        np.testing.assert_array_equal(np.isfinite(got), True)
        np.testing.assert_array_equal(weft.jit(weft.grad(chosen(f, x)))(x), got)
    np.testing.assert_allclose(weft.grad(chosen(parts, x))(x)[1:3], [0.5, 0.25])
    with weft.safe_where_gradients(False):
        assert np.isnan(weft.grad(chosen(parts, x))(x)[0])


def test_training_steps_have_nothing_to_add():
    """Masks without rows end at products; relu, dropout and masked scores leave no trace."""

    def loss(w, x, keep):
        h = weft.nn.relu(x @ w)
        h = jnp.where(keep, h / 0.9, 0)
        scores = jnp.where(keep, h @ w, -1e9) * 0.125
        return jnp.sum(weft.nn.softmax(scores, -1) @ w)

    w, keep = jnp.ones((4, 4)), np.ones((3, 4), bool)
    assert "zero_untaken" not in str(weft.make_jaxpr(weft.grad(loss))(w, jnp.ones((3, 4)), keep))


PIECES = [weft.nn.relu, weft.nn.relu6, weft.nn.leaky_relu, weft.nn.elu, weft.nn.selu, weft.nn.celu]
PIECES += [weft.nn.hard_tanh, weft.nn.hard_sigmoid, weft.nn.hard_swish, weft.nn.sparse_plus]


@pytest.mark.parametrize("act", PIECES, ids=lambda f: f.__name__)
def test_activations_of_pieces_begin_no_mask(act):
    """Behind a normalisation, too, gradients are the same programs as without masks."""

    def loss(x, scale, shift):
        y = (x - x.mean(0)) * lax.rsqrt(x.var(0) + 1e-5) * scale + shift
        return jnp.sum(act(y) ** 2)

    made = lambda: weft.make_jaxpr(weft.grad(loss, (0, 1, 2)))(ROWS, jnp.ones(2), jnp.ones(2))
    on = str(made())
    with knobs.safe_where_gradients(False):
        assert on == str(made())


def test_variances_of_too_few_numbers():
    """They are NaN, as are their gradients; rows of them that ``where`` leaves out have none."""
    x = jnp.arange(6.0).reshape(2, 3)
    keep = np.array([[True, True, False], [False] * 3])
    rows = lambda x: jnp.where(keep.any(1), jnp.var(x, 1, where=keep), 0).sum()
    np.testing.assert_allclose(weft.grad(rows)(x), [[-0.5, 0.5, 0], [0, 0, 0]])
    assert np.isnan(weft.grad(lambda x: jnp.var(x[:1], ddof=1))(x[0])[0])


@pytest.mark.parametrize("act", PIECES, ids=lambda f: f.__name__)
def test_masks_go_through_activations_of_pieces(act):
    x = jnp.array([0.0, 1.0, 4.0])
    f = lambda x: jnp.where(x > 0, act(jnp.sqrt(x)), 0).sum()
    for g in (weft.grad(f), weft.jit(weft.grad(f))):
        assert g(x)[0] == 0 and np.isfinite(g(x)).all()


# --- the law: nothing but NaNs changes ------------------------------------------------------------


def assert_only_nans_change(gradient, what):
    on = [np.asarray(x) for x in weft.tree.leaves(gradient())]
    with knobs.safe_where_gradients(False):
        off = [np.asarray(x) for x in weft.tree.leaves(gradient())]
    changed = 0
    for a, b in zip(on, off, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        if b.dtype.kind in "iub" or b.dtype.itemsize == 0:
            continue
        nan = np.isnan(b)
        same = np.where(nan, 0, a).tobytes() == np.where(nan, 0, b).tobytes()
        assert same, (what, a, b)
        changed += int((nan & ~np.isnan(a)).sum())
    return changed


def first_of_each_linear_primitive():
    found = {}
    for sample in all_samples():
        usable = sample.dtypes[0] == "float32" and sample.differentiable and sample.reverse
        primitive = lookup(sample.prim)
        if primitive.transpose is None or {"jvp", "transpose"} & {*primitive.holes}:
            continue
        if usable and sample.axis is None:
            found.setdefault(sample.prim, sample)
    return list(found.values())


def elements(y):
    return jnp.where(np.arange(y.size).reshape(y.shape) % 3 > 0, y, 0)


def rows(y):
    if not y.ndim:
        return y
    return jnp.where((np.arange(y.shape[0]) % 2 > 0).reshape(-1, *[1] * (y.ndim - 1)), y, 0)


@pytest.mark.parametrize("left_out", [elements, rows], ids=["elements", "rows"])
@pytest.mark.parametrize("sample", first_of_each_linear_primitive(), ids=repr)
def test_law_over_samples(sample, left_out):
    rng = np.random.default_rng(3)
    args = sample.operands("float32", rng)
    wrt = [i for i, x in enumerate(args) if x.dtype == np.float32]
    if sample.wrt is not None:
        wrt = [i for i in wrt if i in sample.wrt]
    if not wrt:
        pytest.skip("no operand has a derivative")
    fun = sample.function("float32")

    def masked(*given):
        full = list(args)
        for i, x in zip(wrt, given, strict=True):
            full[i] = jnp.where(x > 0.5, x, jnp.sqrt(x * 0))
        outs = [y for y in weft.tree.leaves(fun(*full)) if jnp.issubdtype(y.dtype, np.inexact)]
        return [left_out(y) for y in outs]

    given = [args[i] for i in wrt]
    with weft.enable_x64(True):
        cts = [rng.standard_normal(y.shape).astype(y.dtype) for y in masked(*given)]
        assert_only_nans_change(lambda: weft.vjp(masked, *given)[1](cts), sample.name)


UNARY = [jnp.sqrt, jnp.log, jnp.exp, jnp.sin, jnp.tanh, jnp.arccos, lambda x: 1 / x]
UNARY += [lambda x: -x, lambda x: x * x, jnp.abs, lambda x: x**1.5, jnp.cbrt, weft.nn.softmax]
SHAPES = [
    lambda x: x[::-1],
    lambda x: x.T,
    lambda x: x.reshape(-1)[::-1].reshape(x.shape),
    lambda x: x - x.mean(-1, keepdims=True),
    lambda x: x / jnp.linalg.norm(x, axis=0),
    lambda x: jnp.cumsum(x, 0),
    lambda x: jnp.concatenate([x[1:], x[:1]]),
    lambda x: x @ jnp.eye(x.shape[1], dtype=x.dtype),
    lambda x: lax.scan(lambda c, r: (jnp.sqrt(c) * r, c + r), x[0], x)[1],
    lambda x: jnp.take(x, np.array([1, 0, 1, 2]) % x.shape[0], 0)[: x.shape[0]],
    weft.jit(lambda x: jnp.where(x > 1, jnp.log(x), x)),
]


def random_program(rng):
    steps = []
    for _ in range(rng.integers(2, 7)):
        kind = rng.integers(5)
        if kind == 4:
            f = UNARY[rng.integers(len(UNARY))]
            steps.append(lambda x, f=f: f(x) @ (x.T @ x))
            steps.append(lambda x: jnp.where(jnp.isfinite(x).all(-1, keepdims=True), x, 1))
        elif kind == 0:
            steps.append(SHAPES[rng.integers(len(SHAPES))])
        elif kind == 1:
            bound, other = rng.integers(-1, 2), UNARY[rng.integers(len(UNARY))]
            f = UNARY[rng.integers(len(UNARY))]
            steps.append(lambda x, b=bound, f=f, g=other: jnp.where(x > b, f(x), g(x)))
        elif kind == 2:
            f = UNARY[rng.integers(len(UNARY))]
            steps.append(lambda x, f=f: jnp.where((x == x) & (x > 0), f(x), 0))
        else:
            steps.append(UNARY[rng.integers(len(UNARY))])

    def program(x):
        for step in steps:
            x = step(x)
        return jnp.where(x == x, x, 0).sum()

    return program


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_law_over_random_programs(first):
    changed = 0
    for seed in range(first, first + 8):
        rng = np.random.default_rng(seed)
        gradient = weft.grad(random_program(rng))
        x = rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0], (3, 3)).astype(np.float32)
        changed += assert_only_nans_change(lambda g=gradient, x=x: g(x), seed)
    second = weft.grad(lambda x: gradient(x).sum())
    changed += assert_only_nans_change(lambda: second(x), seed)
    changed += assert_only_nans_change(lambda: weft.jit(gradient)(x), seed)
    assert changed > 10


def test_beside_explicit_meshes():
    """Once there is a mesh of explicit axes, cotangents are given the shardings of types."""
    mesh = weft.make_mesh((1,), ("x",), (weft.sharding.AxisType.Explicit,))

    def f(x):
        y = lax.fori_loop(0, 2, lambda i, c: jnp.exp(c) + 0 * c, x)
        return jnp.where(jnp.isfinite(y), y, 0).sum()

    x = weft.device_put(LINE, weft.NamedSharding(mesh, weft.P("x")))
    expected = weft.grad(f)(LINE)
    np.testing.assert_allclose(weft.grad(f)(x), expected, rtol=1e-6)
    np.testing.assert_allclose(weft.jit(weft.grad(f))(x), expected, rtol=1e-6)


def test_a_gradient_that_devices_share_stays_shared():
    mesh = weft.make_mesh((1,), ("x",), (weft.sharding.AxisType.Auto,))

    def local(w, x):
        first = lax.axis_index("x") == 0
        return lax.psum(jnp.where(first, jnp.sqrt(w * x), 0.0).sum(), "x")

    share = weft.shard_map(
        weft.grad(local), mesh=mesh, in_specs=(weft.P(), weft.P("x")), out_specs=weft.P()
    )
    assert np.isfinite(share(jnp.float32(2.0), LINE + 1))


def test_masks_end_at_movements_of_explicit_shardings():
    """A limit: between arrays whose types carry shardings, masks follow elementwise operations."""
    mesh = weft.make_mesh((1,), ("x",), (weft.sharding.AxisType.Explicit,))
    x = weft.device_put(LINE, weft.NamedSharding(mesh, weft.P("x")))

    def moved(x):
        return jnp.where(x.reshape(3, 1) > 0, jnp.sqrt(x).reshape(3, 1), 0).sum()

    np.testing.assert_array_equal(np.isnan(weft.grad(moved)(LINE)), False)
    np.testing.assert_array_equal(np.isnan(weft.grad(moved)(x)), [True, False, False])
    assert np.isfinite(weft.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0).sum())(x)).all()
