"""Exchanges of slices of different sizes between members, and transfers by halves."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax


def by_loops(operand, output, starts, sends, targets, receives):
    """What ``ragged_all_to_all`` says, member by member and slice by slice."""
    size, parts = starts.shape
    out = output.copy()
    for sender in range(size):
        for i in range(parts):
            begin, count, write = starts[sender, i], sends[sender, i], targets[sender, i]
            rows = operand[sender, begin : begin + count]
            out[i // (parts // size), write : write + count] = rows
    return out


def slices(rng, size, each, rows, total, rest):
    """Operands of an exchange in which no two slices meet."""
    parts = size * each
    cuts = np.sort(rng.integers(0, rows + 1, (size, parts)), axis=1)
    starts = np.concatenate([np.zeros((size, 1), int), cuts[:, :-1]], axis=1)
    sends = cuts - starts
    by_pair = sends.reshape(size, size, each)
    receives = by_pair.transpose(1, 0, 2).reshape(size, parts)
    ends = np.cumsum(receives, axis=1)
    targets = (ends - receives).reshape(size, size, each).transpose(1, 0, 2).reshape(size, parts)
    operand = rng.standard_normal((size, rows, *rest)).astype(np.float32)
    output = rng.standard_normal((size, max(total, ends.max()), *rest)).astype(np.float32)
    places = [x.astype(np.int32) for x in (starts, sends, targets, receives)]
    return operand, output, *places


def exchange(*args):
    return lax.ragged_all_to_all(*args, axis_name="i")


def members(fun, **options):
    return weft.vmap(fun, axis_name="i", **options)


CASES = [(1, 1, 3, 3, ()), (2, 1, 5, 6, ()), (3, 2, 7, 5, (2,)), (4, 1, 4, 10, (2, 3))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_slice_arrives(case):
    args = slices(np.random.default_rng(0), *case)
    wanted = by_loops(*args)
    np.testing.assert_array_equal(members(exchange)(*args), wanted)
    np.testing.assert_array_equal(weft.jit(members(exchange))(*args), wanted)


@pytest.mark.parametrize("case", CASES[1:3], ids=str)
def test_over_a_batch(case):
    rng = np.random.default_rng(1)
    size, each, rows, _, rest = case
    sets = [slices(rng, size, each, rows, 40, rest) for _ in range(2)]
    wanted = np.stack([by_loops(*args) for args in sets])
    stacked = [np.stack(x) for x in zip(*sets, strict=True)]
    np.testing.assert_array_equal(weft.vmap(members(exchange))(*stacked), wanted)
    inside = members(weft.vmap(exchange), in_axes=1, out_axes=1)
    np.testing.assert_array_equal(inside(*stacked), wanted)


@pytest.mark.parametrize("case", CASES[1:3], ids=str)
def test_derivatives(case):
    rng = np.random.default_rng(2)
    operand, output, *places = slices(rng, *case)
    dot = rng.standard_normal(operand.shape).astype(np.float32)
    _, tangent = weft.jvp(lambda x: members(exchange)(x, output, *places), (operand,), (dot,))
    np.testing.assert_array_equal(tangent, by_loops(dot, 0 * output, *places))
    ct = rng.standard_normal(output.shape).astype(np.float32)

    def score(x, y, ct, *places):
        return (exchange(x, y, *places) * ct).sum()

    outside = weft.grad(lambda x, y: members(score)(x, y, ct, *places).sum(), (0, 1))
    inside = members(weft.grad(score, (0, 1)))(operand, output, ct, *places)
    for got, wanted in zip(inside, outside(operand, output), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_what_an_exchange_refuses():
    x, i = jnp.zeros((2, 4)), jnp.zeros((2, 2), int)
    for error, match, args in (
        (ValueError, "integers as input_offsets", (x, x, i * 1.0, i, i, i)),
        (ValueError, "a vector", (x, x, i[:, :, None], i, i, i)),
        (ValueError, "of one length", (x, x, i, i, i, jnp.zeros((2, 4), int))),
        (ValueError, "divisible by the number 2", (x, x, *[jnp.zeros((2, 3), int)] * 4)),
        (ValueError, "rows of the operand", (x, jnp.zeros((2, 4, 3)), i, i, i, i)),
    ):
        with pytest.raises(error, match=match):
            members(exchange)(*args)
    with pytest.raises(NameError, match="unbound axis name"):
        exchange(x[0], x[0], i[0], i[0], i[0], i[0])
    grouped = lambda *a: lax.ragged_all_to_all(*a, axis_name="i", axis_index_groups=[[0], [1]])
    with pytest.raises(NotImplementedError, match="axis_index_groups"):
        members(grouped)(x, x, i, i, i, i)


def test_halves_are_staged_and_refused_by_vmap():
    def both(x):
        token = lax.psend(x, "i", [(0, 1)])
        return lax.precv(token, weft.ShapeDtypeStruct((2,), x.dtype), "i", [(0, 1)])

    text = str(weft.make_jaxpr(both, axis_env=[("i", 2)])(jnp.ones(2)))
    assert "b:Tok = psend[axis_name=('i',) perm=((0, 1),)] a" in text
    assert "c:f32[2] = precv[axis_name=('i',) out_shape=float32[2] perm=((0, 1),)] b" in text
    with pytest.raises(NotImplementedError, match="use lax"):
        members(both)(jnp.ones((2, 2)))
    with pytest.raises(NameError, match="unbound axis name"):
        lax.psend(jnp.ones(2), "i", [(0, 1)])
    env = weft.make_jaxpr(lambda x: lax.psend(x, "i", [(0, 5)]), axis_env=[("i", 2)])
    with pytest.raises(ValueError, match="destinations"):
        env(jnp.ones(2))
