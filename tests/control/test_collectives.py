"""Collectives under vmap: against NumPy, with gradients, over several axes, and their errors."""

import numpy as np
import pytest

import weft
from weft import lax as wlax
from weft.lax import parallel as lax

N = 3
X = np.arange(N * N, dtype=np.float32).reshape(N, N) + 1


def total(x):
    return wlax.reduce_sum(x, tuple(range(x.ndim)))


def everyone(x):
    return np.broadcast_to(x, (N, *np.shape(x)))


CASES = {
    "psum": (lambda x: lax.psum(x, "i"), everyone(X.sum(0))),
    "psum of a tree": (lambda x: lax.psum({"a": x}, "i")["a"], everyone(X.sum(0))),
    "psum with a position": (lambda x: lax.psum(x, ("i", 0)), everyone(X.sum())),
    "psum of a constant": (lambda x: x * lax.psum(2.0, "i"), 6 * X),
    "psum of an array": (lambda x: lax.psum(np.ones(N, np.float32), "i") + x, X + 3),
    "psum in groups": (lambda x: lax.psum(x, "i", axis_index_groups=[[2], [0], [1]]), X),
    "pmean": (lambda x: lax.pmean(x, "i"), everyone(X.mean(0))),
    "pmax": (lambda x: lax.pmax(x, "i"), everyone(X.max(0))),
    "pmin": (lambda x: lax.pmin(x, "i"), everyone(X.min(0))),
    "all_gather": (lambda x: lax.all_gather(x, "i"), everyone(X)),
    "all_gather at 1": (lambda x: lax.all_gather(x, "i", axis=1), everyone(X.T)),
    "all_gather tiled": (lambda x: lax.all_gather(x, "i", tiled=True), everyone(X.ravel())),
    "axis_index": (lambda x: lax.axis_index("i") + 0 * x, np.arange(N)[:, None] + 0 * X),
    "axis_size": (lambda x: lax.axis_size("i") * x, N * X),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]), np.roll(X, 1, 0)),
    "ppermute in part": (
        lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]),
        np.concatenate([0 * X[:1], X[:2]]),
    ),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", [2, 0, 1]), X[[2, 0, 1]]),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 1), everyone(X[1])),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), X.sum(0)),
    "psum_scatter tiled": (lambda x: lax.psum_scatter(x, "i", tiled=True), X.sum(0)[:, None]),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0), X.T),
    "all_to_all tiled": (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), X.T),
    "pswapaxes": (lambda x: lax.pswapaxes(x, "i", 0), X.T),
}
NOT_DIFFERENTIABLE = ("pmax", "pmin", "axis_index")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit])
def test_under_vmap(name, wrap):
    f, expected = CASES[name]
    np.testing.assert_allclose(weft.vmap(wrap(f), axis_name="i")(X), expected, rtol=1e-6)
    by_columns = weft.vmap(f, in_axes=1, axis_name="i")(X.T)
    np.testing.assert_allclose(by_columns, expected, rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in CASES if n not in NOT_DIFFERENTIABLE])
def test_transpose_is_adjoint(name):
    f, _ = CASES[name]
    batched = weft.vmap(f, axis_name="i")
    rng = np.random.default_rng(0)
    v = rng.normal(size=X.shape).astype(np.float32)
    out, tangent = weft.jvp(batched, (X,), (v,))
    ct = rng.normal(size=out.shape).astype(np.float32)
    (back,) = weft.vjp(batched, X)[1](ct)
    np.testing.assert_allclose(np.vdot(tangent, ct), np.vdot(v, back), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [n for n in CASES if n not in NOT_DIFFERENTIABLE])
def test_gradient_inside_is_the_gradient_outside(name):
    f, _ = CASES[name]
    inside = weft.vmap(weft.grad(lambda x: total(f(x) * f(x))), axis_name="i")(X)
    batched = weft.vmap(f, axis_name="i")
    outside = weft.grad(lambda x: total(batched(x) * batched(x)))(X)
    np.testing.assert_allclose(inside, outside, rtol=1e-5)


def test_unmapped_operands():
    c = np.float32(2.0)

    def f(x, c):
        gathered = lax.all_gather(c, "i")
        shifted = lax.ppermute(c, "i", [(0, 1)])
        return lax.psum(c, "i"), lax.pmax(c, "i"), gathered, shifted, lax.pbroadcast(c, "i", 0)

    outs = weft.vmap(f, in_axes=(0, None), axis_name="i")(X, c)
    assert np.asarray(outs[0]).tolist() == [6.0] * 3
    assert np.asarray(outs[1]).tolist() == [2.0] * 3
    assert np.asarray(outs[2]).tolist() == [[2.0] * 3] * 3
    assert np.asarray(outs[3]).tolist() == [0.0, 2.0, 0.0]
    assert np.asarray(outs[4]).tolist() == [2.0] * 3


I, J = 2, 3
Y = np.arange(I * J * 12 * 2, dtype=np.float32).reshape(I, J, 12, 2)
BOTH = ("i", "j")


def all_to_all_reference(x, split, concat):
    """``x`` has shape (members, ...): cut, exchange, join."""
    members = len(x)
    parts = [np.split(row, members, axis=split) for row in x]
    return np.stack([np.concatenate([p[k] for p in parts], axis=concat) for k in range(members)])


FLAT = Y.reshape(I * J, 12, 2)
SEVERAL = {
    "psum": (lambda x: lax.psum(x, BOTH), np.broadcast_to(FLAT.sum(0), FLAT.shape)),
    "axis_index": (lambda x: lax.axis_index(BOTH), np.arange(6)),
    "axis_size": (lambda x: lax.axis_size(BOTH) * x[0, 0], 6 * FLAT[:, 0, 0]),
    "all_gather": (lambda x: lax.all_gather(x, BOTH), np.broadcast_to(FLAT, (6, *FLAT.shape))),
    "all_gather tiled": (
        lambda x: lax.all_gather(x, BOTH, axis=1, tiled=True),
        np.broadcast_to(np.concatenate(FLAT, axis=1), (6, 12, 12)),
    ),
    "psum_scatter": (
        lambda x: lax.psum_scatter(x, BOTH, tiled=True),
        FLAT.sum(0).reshape(6, 2, 2),
    ),
    "pbroadcast": (lambda x: lax.pbroadcast(x, BOTH, 4), np.broadcast_to(FLAT[4], FLAT.shape)),
    "all_to_all same": (
        lambda x: lax.all_to_all(x, BOTH, 0, 0, tiled=True),
        all_to_all_reference(FLAT, 0, 0),
    ),
    "all_to_all other": (
        lambda x: lax.all_to_all(x, BOTH, 0, 1, tiled=True),
        all_to_all_reference(FLAT, 0, 1),
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("inner_first", [True, False])
def test_over_several_axes(name, inner_first):
    f, expected = SEVERAL[name]
    if inner_first:
        out = weft.vmap(weft.vmap(f, axis_name="j"), axis_name="i")(Y)
    else:
        inner = weft.vmap(f, in_axes=0, axis_name="i")
        out = weft.vmap(inner, in_axes=1, out_axes=1, axis_name="j")(Y)
    np.testing.assert_allclose(np.asarray(out).reshape(expected.shape), expected)


def test_all_to_all_makes_and_removes_axes():
    x = np.arange(2 * 2 * 3, dtype=np.float32).reshape(2, 2, 3)
    out = weft.vmap(lambda x: lax.all_to_all(x, "i", 0, 1), axis_name="i")(x)
    np.testing.assert_array_equal(out, x.transpose(1, 2, 0))
    y = x.transpose(0, 2, 1)
    out = weft.vmap(lambda x: lax.all_to_all(x, "i", 1, 0), axis_name="i")(y)
    np.testing.assert_array_equal(out, y.transpose(2, 0, 1))


def test_staged_text_is_that_of_jax():
    program = weft.make_jaxpr(weft.vmap(lambda x: lax.psum(x, "i"), axis_name="i"))(X)
    assert (
        str(program)
        == """\
{ lambda ; a:f32[3,3]. let
    b:f32[3] = psum[axes=(0,) axis_index_groups=None] a
    c:f32[3,3] = broadcast_in_dim[broadcast_dimensions=(1,)] b
  in (c,) }"""
    )
    program = weft.make_jaxpr(lambda x: lax.ppermute(x, "i", [(0, 1)]), axis_env=[("i", 3)])(X)
    assert "ppermute[axis_name=('i',) perm=((0, 1),)] a" in str(program)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.psum(x, "i"),
        lambda x: lax.psum(1, "i"),
        lambda x: lax.pmax(x, "i"),
        lambda x: lax.all_gather(x, "i"),
        lambda x: lax.axis_index("i"),
        lambda x: lax.axis_size("i"),
        lambda x: lax.ppermute(x, "i", [(0, 0)]),
    ],
)
def test_unbound_axis(f, wrap):
    with pytest.raises(NameError, match="unbound axis name 'i'"):
        wrap(f)(X)


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: lax.psum(x, "j"), NameError, "bound here: 'i'"),
        (lambda x: lax.ppermute(x, "i", [(0, 5)]), ValueError, "destinations"),
        (lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]), ValueError, "sources"),
        (lambda x: lax.pshuffle(x, "i", [0, 0, 1]), ValueError, "permutation"),
        (lambda x: lax.pbroadcast(x, "i", 7), ValueError, "source 7"),
        (lambda x: lax.psum_scatter(x[:2], "i"), ValueError, "must equal 3"),
        (lambda x: lax.all_to_all(x[:2], "i", 0, 0), ValueError, "must equal 3"),
        (lambda x: lax.all_gather(x, "i", axis=5), ValueError, "out of bounds"),
        (lambda x: lax.psum(x, "i", axis_index_groups=[[0], [0]]), ValueError, "exactly once"),
        (
            lambda x: weft.grad(lambda x: total(lax.pmax(x, "i")))(x),
            NotImplementedError,
            "no derivative",
        ),
        (lambda x: lax.pcast(x, "i", to="varying"), ValueError, "shard_map"),
        (lambda x: lax.pcast(x, "i", to="nothing"), ValueError, "one of"),
    ],
)
def test_errors(f, error, words):
    with pytest.raises(error, match=words):
        weft.vmap(f, axis_name="i")(X)
