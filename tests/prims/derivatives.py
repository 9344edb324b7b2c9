"""Checks of derivative and batching rules by finite differences, inner products and loops."""

import numpy as np

import weft


def leaves(tree):
    return [np.asarray(x) for x in weft.tree.leaves(tree)]


def floats(tree):
    return [x for x in leaves(tree) if x.dtype.kind in "fc"]


def check_forward(fun, x, direction, step=1e-6, tol=1e-6):
    """The tangent of ``fun`` against central differences, in double precision."""
    with weft.enable_x64(True):
        _, tangent = weft.jvp(fun, (x,), (direction,))
        ahead, behind = floats(fun(x + step * direction)), floats(fun(x - step * direction))
        for t, a, b in zip(floats(tangent), ahead, behind, strict=True):
            # Windows of padding alone are infinite and do not change.
            change = np.subtract(a, b, out=np.zeros_like(a), where=a != b)
            np.testing.assert_allclose(t, change / (2 * step), rtol=tol, atol=tol)


def check_reverse(fun, x, direction, seed=0):
    """``<J v, w> = <v, J' w>`` at ``x``."""
    with weft.enable_x64(True):
        _, tangent = weft.jvp(fun, (x,), (direction,))
        out, pull = weft.vjp(fun, x)
        rng = np.random.default_rng(seed)
        weights = [rng.standard_normal(np.shape(y)) for y in floats(out)]
        given = iter(weights)
        cts = weft.tree.map(
            lambda y: (
                next(given)
                if np.asarray(y).dtype.kind in "fc"
                else np.zeros(np.shape(y), weft.dtypes.float0)
            ),
            out,
        )
        (back,) = pull(cts)
        forward = sum(np.vdot(t, w) for t, w in zip(floats(tangent), weights, strict=True))
        np.testing.assert_allclose(forward, np.vdot(direction, back), rtol=1e-9, atol=1e-9)


def check_second(fun, x, direction, step=1e-6, tol=1e-5):
    """The tangent of the tangent against central differences."""
    check_forward(lambda y: weft.jvp(fun, (y,), (direction,))[1], x, direction, step, tol)


def check_derivatives(fun, x, seed=0):
    """First and second derivatives in a random direction, forward and reverse."""
    x = np.asarray(x, np.float64)
    direction = np.random.default_rng(seed + 99).standard_normal(x.shape)
    check_forward(fun, x, direction)
    check_reverse(fun, x, direction)
    check_second(fun, x, direction)


def check_batch(fun, x, size=3, seed=0):
    """``vmap`` against a loop, for every place of the batch axis."""
    rng = np.random.default_rng(seed)
    members = [rng.permutation(x.reshape(-1)).reshape(x.shape) for _ in range(size)]
    want = [leaves(fun(m)) for m in members]
    for axis in range(x.ndim + 1):
        out = leaves(weft.vmap(fun, in_axes=axis)(np.stack(members, axis)))
        for i, batched in enumerate(out):
            one_by_one = np.stack([w[i] for w in want])
            np.testing.assert_allclose(batched, one_by_one, rtol=1e-6, atol=1e-6)
