"""Transposes folded into products: which ones, and that programs mean the same."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.compiler.passes import contract as contract_pass
from weft.compiler.passes.contract import contract
from weft.compiler.passes.cse import cse
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.core.verify import check_jaxpr


@pytest.fixture(autouse=True)
def small_products_stay(monkeypatch):
    """What is shown here of products of a few elements holds for large ones."""
    monkeypatch.setattr(contract_pass, "_MAX_INLINE_MULTIPLICATIONS", 0)


def array(*shape):
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


def folded(fun, *args):
    """Names of the equations left, after checking that results are the same."""
    closed = weft.make_jaxpr(fun)(*args)
    changed = prune(contract(cse(inline(closed))))
    check_jaxpr(changed)
    assert all(v.aval == w.aval for v, w in zip(closed.jaxpr.outvars, changed.jaxpr.outvars))
    for a, b in zip(
        weft.core.eval_jaxpr(closed.jaxpr, closed.consts, *args),
        weft.core.eval_jaxpr(changed.jaxpr, changed.consts, *args),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    return [eqn.primitive.name for eqn in changed.eqns]


A, B = array(5, 3), array(5, 4)


def test_transposed_operands_and_results_are_products_alone():
    assert folded(lambda a, b: a.T @ b, A, B) == ["dot_general"]
    assert folded(lambda a, b: b.T @ a, A, B) == ["dot_general"]
    assert folded(lambda a, b: (a.T @ b).T, A, B) == ["dot_general"]
    assert folded(lambda a, b: ((a.T.T.T @ b).T).T, A, B) == ["dot_general"]


def test_a_gradient_of_layers_has_no_transposes():
    def loss(w, v, x):
        return jnp.sum(jnp.tanh(x @ w) @ v)

    names = folded(weft.grad(loss, argnums=(0, 1)), array(4, 6), array(6, 2), array(8, 4))
    assert names.count("dot_general") == 4
    assert "transpose" not in names


def test_a_product_used_as_it_is_stays():
    assert sorted(folded(lambda a, b: (a.T @ b, (a.T @ b).T), A, B)) == [
        "dot_general",
        "transpose",
    ]


def test_a_transpose_used_elsewhere_stays():
    names = folded(lambda a, b: (a.T @ b, a.T), A, B)
    assert sorted(names) == ["dot_general", "transpose"]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2)])
def test_batches_in_any_order(order):
    x, y = array(2, 3, 4, 5), array(2, 3, 5, 6)
    names = folded(lambda x, y: lax.transpose(x @ y, order), x, y)
    assert names == ["dot_general"]


def test_free_axes_that_would_change_places_stay():
    x, y = array(2, 3, 5), array(5, 6)
    numbers = (((2,), (0,)), ((), ()))
    names = folded(lambda x, y: lax.dot_general(jnp.swapaxes(x, 0, 1), y, numbers), x, y)
    assert names == ["transpose", "dot_general"]
    names = folded(lambda x, y: lax.transpose(lax.dot_general(x, y, numbers), (1, 0, 2)), x, y)
    assert names == ["dot_general", "transpose"]


def test_attention_heads_are_read_where_they_are():
    q, k = array(2, 4, 3, 5), array(2, 6, 3, 5)
    names = folded(lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), q, k)
    assert names == ["dot_general"]


def test_a_product_without_reuse_is_a_multiplication():
    x, y = array(4, 3, 5), array(5, 4, 3)
    names = folded(lambda x, y: jnp.einsum("abc,cab->ab", x, y), x, y)
    assert sorted(names) == ["mul", "reduce_sum", "transpose"]
    names = folded(lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ()))), x[:, :1, 0], y[:1])
    assert "dot_general" not in names and "reduce_sum" not in names and "mul" in names
    numbers = (((1,), (1,)), ((0,), (0,)))
    narrow = [z.astype(jnp.bfloat16) for z in (array(4, 7, 1), array(4, 7, 1))]
    names = folded(lambda x, y: lax.dot_general(x, y, numbers), *narrow)
    assert names.count("convert_element_type") == 3 and "reduce_sum" in names
    assert folded(lambda x, y: x @ y, array(7), array(7)) == ["dot_general"]


def test_programs_without_products_are_left_alone():
    closed = weft.make_jaxpr(lambda a: a.T + 1)(A)
    assert contract(closed) is closed


def test_a_tiny_product_is_a_few_multiplications(monkeypatch):
    monkeypatch.setattr(contract_pass, "_MAX_INLINE_MULTIPLICATIONS", 256)
    x, y = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.ones((4, 2), np.float32)
    closed = contract(weft.make_jaxpr(lambda a, b: a @ b)(x, y))
    names = [eqn.primitive.name for eqn in closed.eqns]
    assert "dot_general" not in names and "reduce_sum" in names
    got = weft.jit(lambda a, b: a @ b)(x, y)
    assert np.array_equal(got, x @ y)


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("bij,bjk->bik", (70, 3, 3), (70, 3, 3)),
        ("bij,bkj->bki", (70, 2, 4), (70, 3, 4)),
        ("bji,jbk->bik", (70, 3, 2), (3, 70, 4)),
        ("bj,bjk->bk", (70, 3), (70, 3, 4)),
    ],
)
def test_many_small_products_are_written_out(text, left, right):
    x, y = array(*left), array(*right)
    names = folded(lambda x, y: jnp.einsum(text, x, y), x, y)
    assert "dot_general" not in names and "reduce_sum" not in names
    assert names.count("mul") == left[text.index("j")] == names.count("add") + 1
    narrow = [z.astype(jnp.bfloat16) for z in (x, y)]
    assert "dot_general" not in folded(lambda x, y: jnp.einsum(text, x, y), *narrow)
    got = weft.jit(lambda x, y: jnp.einsum(text, x, y))(x, y)
    assert np.array_equal(got, np.einsum(text, x, y))


def test_few_or_larger_small_products_stay():
    for left, right in (((20, 3, 3), (20, 3, 3)), ((70, 5, 5), (70, 5, 5))):
        assert folded(lambda x, y: x @ y, array(*left), array(*right)) == ["dot_general"]
