"""Attention is found in plain programs, and what is found computes the same."""

from collections import Counter

import numpy as np
import pytest

import weft
from weft import numpy as jnp
from weft.backends.cuda.passes.attention import attention
from weft.backends.cuda.passes.attention_decode import decode
from weft.backends.cuda.passes.attention_packed import pack
from weft.backends.cuda.passes.attention_views import straighten
from weft.compiler.pipeline import simplify
from weft.core.interpret import run
from weft.core.verify import check_jaxpr

BF16 = np.dtype(jnp.bfloat16)


def masked(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.125
    seen = jnp.tril(jnp.ones((q.shape[2], k.shape[2]), bool))
    weights = weft.nn.softmax(jnp.where(seen, scores, -1e9).astype(jnp.float32))
    return jnp.einsum("bhqk,bhkd->bhqd", weights.astype(q.dtype), v)


def rows_first(q, k, v):
    scores = jnp.einsum("...qhd,...khd->...hqk", q / jnp.sqrt(4).astype(q.dtype), k)
    return jnp.einsum("...hqk,...khd->...qhd", weft.nn.softmax(scores), v)


def rows_last(q, k, v):
    scores = jnp.einsum("bhdq,bhdk->bhqk", q, k) * 0.25
    return jnp.einsum("bhqk,bhdk->bhqd", weft.nn.softmax(scores), v)


def plain(q, k, v):
    return weft.nn.softmax(q @ k.T * 0.5) @ v


def library(causal):
    return lambda q, k, v: weft.nn.dot_product_attention(q, k, v, is_causal=causal)


ROWS = (2, 8, 3, 16)
CASES = {
    "causal": (masked, [(2, 3, 8, 16)] * 3),
    "rows first": (rows_first, [ROWS] * 3),
    "rows last": (rows_last, [(2, 3, 16, 8)] * 3),
    "other rows": (rows_first, [(2, 5, 3, 16), ROWS, ROWS]),
    "library, causal": (library(True), [ROWS] * 3),
    "library": (library(False), [ROWS] * 3),
    "shared heads": (library(True), [(2, 8, 6, 16), ROWS, ROWS]),
    "one head for all": (library(True), [(2, 8, 6, 16)] + [(2, 8, 1, 16)] * 2),
    "one head": (plain, [(40, 16)] * 3),
    "batched": (weft.vmap(plain), [(3, 40, 16)] * 3),
}


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(BF16)


def with_gradients(fun):
    def both(q, k, v, g):
        out, back = weft.vjp(fun, q, k, v)
        return out, back(g)

    return both


def found_in(fun, args):
    before = simplify(weft.make_jaxpr(fun)(*args))
    after = attention(before, lambda dtype, depth: dtype == BF16)
    return before, pack(straighten(after))


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_found(name, backward):
    fun, shapes = CASES[name]
    args = [draw(s, i) for i, s in enumerate(shapes)]
    if backward:
        args.append(draw(weft.eval_shape(fun, *args).shape, 3))
        fun = with_gradients(fun)
    _, after = found_in(fun, args)
    check_jaxpr(after)
    counts = Counter(eqn.primitive.name for eqn in after.jaxpr.eqns)
    assert counts["attention"] == 1 and not counts["dot_general"] and not counts["exp"]
    orders = [order for eqn in after.jaxpr.eqns for order in eqn.params.get("orders", ())]
    assert orders and all(order[-1] == "d" for order in orders)  # rows lie in one piece
    assert counts["attention_backward"] == backward
    got = run(after.jaxpr, [getattr(c, "_value", c) for c in after.consts], args)
    want = weft.tree.leaves(fun(*(x.astype(np.float32) for x in args)))
    for a, b in zip(got, want, strict=True):
        error = np.abs(a.astype(np.float32) - np.asarray(b)).max() / np.abs(np.asarray(b)).max()
        assert error < 0.02


REFUSED = {
    "weights are results": lambda q, k, v: (
        plain(q, k, v),
        weft.nn.softmax(q @ k.T * 0.5),
    ),
    "weights are changed": lambda q, k, v: (weft.nn.softmax(q @ k.T) ** 2) @ v,
    "another axis": lambda q, k, v: weft.nn.softmax(q @ k.T, axis=0) @ v,
    "a mask that is data": lambda q, k, v: (
        weft.nn.softmax(jnp.where((q[:, :1] > 0), q @ k.T, -1e9)) @ v
    ),
    "a mask upside down": lambda q, k, v: (
        weft.nn.softmax(jnp.where(jnp.triu(jnp.ones((40, 40), bool), 1), q @ k.T, -1e9)) @ v
    ),
    "a small number for what is hidden": lambda q, k, v: (
        weft.nn.softmax(jnp.where(jnp.tril(jnp.ones((40, 40), bool)), q @ k.T, -1.0)) @ v
    ),
    "a scale that varies": lambda q, k, v: weft.nn.softmax(q @ k.T * q[:, :1]) @ v,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_only_looks_like_it_stays(name):
    args = [draw((40, 16))] * 3
    before, after = found_in(REFUSED[name], args)
    assert after is before


def test_a_gradient_of_another_function_stays():
    def fun(q, k, v):
        weights = weft.nn.softmax(q @ k.T)
        return weights @ v, (weights * weights).sum()

    args = [draw((40, 16))] * 3
    loss = lambda *xs: sum(x.astype(jnp.float32).sum() for x in fun(*xs))
    before, after = found_in(weft.grad(loss, (0, 1, 2)), args)
    assert after is before


def test_types_that_the_target_lacks_stay():
    args = [draw((40, 16)).astype(np.float32)] * 3
    before, after = found_in(plain, args)
    assert after is before


@pytest.mark.parametrize("heads", [3, 6])
@pytest.mark.parametrize("causal", [False, True])
def test_results_are_used_as_they_are(causal, heads):
    """Axes that were moved and moved back, by the einsums of the library, aren't."""
    many = (2, 8, heads, 16)
    args = [draw(s, i) for i, s in enumerate((many, ROWS, ROWS, many))]
    _, after = found_in(with_gradients(library(causal)), args)
    counts = Counter(eqn.primitive.name for eqn in after.jaxpr.eqns)
    assert set(counts) <= {"attention", "attention_backward", "reshape"}
    made = {v for eqn in after.jaxpr.eqns if "attention" in eqn.primitive.name for v in eqn.outvars}
    assert made.issuperset(after.jaxpr.outvars)


def projected(heads, shared, parts=1, depth=16):
    """Attention of one array's parts, as layers compute it; with 2 ``parts`` one is read again."""

    def fun(x, weights):
        sizes = [heads * depth, (heads + shared) * depth]
        q, k, v = jnp.split(x @ weights, sizes, -1)
        q, k, v = (z.reshape(*z.shape[:2], -1, depth) for z in (q, k, v))
        out = weft.nn.dot_product_attention(q, k, v, is_causal=True)
        return (out + q if parts > 1 else out).reshape(*x.shape[:2], -1)

    return fun, [(2, 8, 12), (12, (heads + 2 * shared) * 16)]


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("shared", [4, 2])
def test_parts_of_one_array(shared, backward):
    fun, shapes = projected(4, shared)
    args = [draw(s, i) for i, s in enumerate(shapes)]
    if backward:
        args.append(draw((2, 8, 64), 3))

    def both(x, weights, g):
        out, back = weft.vjp(fun, x, weights)
        return out, back(g)

    before, after = found_in(both if backward else fun, args)
    check_jaxpr(after)
    counts = Counter(eqn.primitive.name for eqn in after.jaxpr.eqns)
    assert counts["packed_attention"] == 1 and counts["packed_attention_backward"] == backward
    assert not counts["split"] and not counts["concatenate"]
    found = (
        run(c.jaxpr, [getattr(x, "_value", x) for x in c.consts], args) for c in (before, after)
    )
    for a, b in zip(*found, strict=True):
        a, b = (np.asarray(x, np.float32) for x in (a, b))
        assert np.abs(a - b).max() < 0.05 * np.abs(b).max()


def test_parts_that_are_used_elsewhere_are_made():
    fun, shapes = projected(4, 4, parts=2)
    _, after = found_in(fun, [draw(s, i) for i, s in enumerate(shapes)])
    counts = Counter(eqn.primitive.name for eqn in after.jaxpr.eqns)
    assert counts["attention"] == 1 and counts["split"] == 1


# --- one row --------------------------------------------------------------------------------------


def seen(scores, mask, hidden=-1e30):
    return weft.nn.softmax(jnp.where(mask, scores.astype(jnp.float32), hidden), -1)


def kept_rows(x, keys, values, at):
    """The layer of a decoder: queries are a part of what a product gives."""
    q = jnp.split(x, (48, 96))[0].reshape(3, 16)
    scores = jnp.einsum("hd,thd->ht", q, keys) / 8
    weights = seen(scores, jnp.arange(40) <= at)
    return jnp.einsum("ht,thd->hd", weights.astype(q.dtype), values).reshape(-1)


def batched_rows(q, keys, values, lengths):
    scores = jnp.einsum("bhd,bthd->bht", q, keys) * 0.25
    weights = seen(scores, jnp.arange(40) < lengths[:, None, None], -jnp.inf)
    return jnp.einsum("bht,bthd->bhd", weights.astype(q.dtype), values)


def grouped_rows(q, keys, values, at):
    q = q.reshape(2, 3, 2, 16)
    scores = jnp.einsum("bhgd,bthd->bhgt", q, keys) * 0.25
    weights = seen(scores, at + 1 > jnp.arange(40))
    return jnp.einsum("bhgt,bthd->bhgd", weights.astype(q.dtype), values)


def library_rows(q, keys, values, at):
    mask = jnp.broadcast_to(jnp.arange(40) <= at, (2, 1, 1, 40))
    return weft.nn.dot_product_attention(q, keys, values, mask=mask)


def all_rows(q, keys, values, at):
    return weft.nn.dot_product_attention(q, keys, values)


KEPT = (2, 40, 3, 16)
ONE_ROW = {
    "parts of an array": (kept_rows, [(144,), (40, 3, 16), (40, 3, 16)], np.int32(11)),
    "lengths": (batched_rows, [(2, 3, 16), KEPT, KEPT], np.array([5, 40], np.int32)),
    "shared heads": (grouped_rows, [(2, 6, 16), KEPT, KEPT], np.int32(39)),
    "library": (library_rows, [(2, 1, 3, 16), KEPT, KEPT], np.int32(7)),
    "library, all": (all_rows, [(2, 1, 3, 16), KEPT, KEPT], np.int32(7)),
}


@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float32)], ids=str)
@pytest.mark.parametrize("name", ONE_ROW)
def test_one_row_is_found(name, dtype):
    fun, shapes, at = ONE_ROW[name]
    args = [draw(s, i).astype(dtype) for i, s in enumerate(shapes)]
    before = simplify(weft.make_jaxpr(fun)(*args, at))
    after = straighten(decode(before, lambda dtype, depth, kept: kept >= 1600))
    check_jaxpr(after)
    counts = Counter(eqn.primitive.name for eqn in after.jaxpr.eqns)
    assert counts["decode_attention"] == 1 and not counts["dot_general"] and not counts["exp"]
    assert not counts["split"] and not counts["transpose"]
    (got,) = run(after.jaxpr, [getattr(c, "_value", c) for c in after.consts], [*args, at])
    want = np.asarray(fun(*(x.astype(np.float32) for x in args), at))
    assert np.abs(got.astype(np.float32) - want).max() < 0.02 * np.abs(want).max()


NOT_ONE_ROW = {
    "rows of a matrix": lambda q, k, v, at: seen(q @ k.T, jnp.arange(40) <= at) @ v,
    "a mask that is data": lambda q, k, v, at: seen(q[0] @ k.T, k[:, 0] > 0) @ v,
    "those after": lambda q, k, v, at: seen(q[0] @ k.T, jnp.arange(40) >= at) @ v,
    "a small number for what is hidden": lambda q, k, v, at: (
        seen(q[0] @ k.T, jnp.arange(40) <= at, -1.0) @ v
    ),
    "a number that may be large": lambda q, k, v, at: (
        seen(q[0] @ k.T, jnp.arange(40, dtype=np.uint32) <= at.astype(np.uint32)) @ v
    ),
    "weights are results": lambda q, k, v, at: (
        seen(q[0] @ k.T, jnp.arange(40) <= at) @ v,
        seen(q[0] @ k.T, jnp.arange(40) <= at),
    ),
    "keys along rows": lambda q, k, v, at: seen(q[0] @ k, jnp.arange(40) <= at) @ v,
}


@pytest.mark.parametrize("name", NOT_ONE_ROW)
def test_what_only_looks_like_one_row_stays(name):
    args = [draw((40, 40))] * 3
    before = simplify(weft.make_jaxpr(NOT_ONE_ROW[name])(*args, np.int32(5)))
    assert decode(before, lambda dtype, depth, kept: kept >= 1600) is before
