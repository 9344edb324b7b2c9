"""Products whose epilogues a library does, found on any machine."""

import pytest

import weft
from weft import nn
from weft import numpy as jnp
from weft.backends.cuda.program import Cuda
from weft.backends.cuda.routines import epilogues, lt
from weft.compiler.plan import Planner
from weft.kernel.program import Launch, Op


class Target(Cuda):
    def keeps(self, eqn):
        return True


CASES = {
    "bias": (lambda x, w, b: x @ w + b, "", True),
    "relu": (lambda x, w, b: nn.relu(x @ w), "relu", False),
    "maximum": (lambda x, w, b: jnp.maximum(x @ w, 0), "relu", False),
    "bias and relu": (lambda x, w, b: nn.relu(x @ w + b), "relu", True),
    "gelu": (lambda x, w, b: nn.gelu(x @ w), "gelu", False),
    "bias and gelu": (lambda x, w, b: nn.gelu(x @ w + b), "gelu", True),
}
APART = {
    "tanh": lambda x, w, b: jnp.tanh(x @ w + b),
    "a bias of rows": lambda x, w, b: x @ w + b[:, None],
    "exact gelu": lambda x, w, b: nn.gelu(x @ w, approximate=False),
    "another maximum": lambda x, w, b: jnp.maximum(x @ w, 1),
    "the product too": lambda x, w, b: (x @ w, nn.relu(x @ w)),
}


SHAPES = [(256, 96), (96, 256), (256,)]


def nodes_of(fun, dtype, monkeypatch, shapes=SHAPES):
    class Product:
        algorithm = 1

    monkeypatch.setattr(epilogues, "lt_product", lambda *args: Product())
    closed = weft.make_jaxpr(fun)(*(weft.ShapeDtypeStruct(s, dtype) for s in shapes))
    return Planner(Target()).program(closed).nodes


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("name", CASES)
def test_they_are_found(name, dtype, monkeypatch):
    fun, word, biased = CASES[name]
    nodes = nodes_of(fun, dtype, monkeypatch)
    if word == "gelu" and dtype == jnp.float32:  # the library's is exact to 16 bits only
        assert [type(n) for n in nodes] == [Op, Launch]
        return
    (node,) = nodes
    assert node.offer.word == word and (node.offer.bias is not None) == biased


SUMS = {
    "residual": (lambda x, w, c: x @ w + c, 1, 1),
    "factors": (lambda x, w, c: 3.5 * c - 2 * (x @ w), -2, 3.5),
    "step": (lambda x, w, c: c - 0.1 * (x @ w), -0.1, 1),
    "scores": (lambda x, w, c: (x @ w) * 0.25, 0.25, 0),
}
NO_SUMS = {
    "both ways": lambda x, w, c: x @ w + c.T,
    "one more": lambda x, w, c: x @ w + c * c,
    "a function": lambda x, w, c: x @ w + jnp.tanh(c),
}


@pytest.mark.parametrize("name", [*SUMS, *NO_SUMS])
def test_what_is_added_to_a_product_is_the_librarys(name, monkeypatch):
    fun, *factors = SUMS.get(name, (NO_SUMS.get(name),))
    shapes = [(256, 96), (96, 256), (256, 256)]
    nodes = nodes_of(fun, jnp.float32, monkeypatch, shapes)
    if not factors:
        assert len(nodes) == 2
        return
    (node,) = nodes
    offer = node.offer
    assert offer.word == "sum" and [offer.alpha, offer.beta] == pytest.approx(factors)
    assert (offer.added is None) == (name == "scores")
    assert [type(n) for n in nodes_of(fun, jnp.bfloat16, monkeypatch, shapes)] == [Op, Launch]


@pytest.mark.parametrize("biased", [False, True])
def test_gelu_keeps_what_its_gradient_needs(biased, monkeypatch):
    def fun(x, w, b):
        def loss(x, w, b):
            inside = x @ w + b if biased else x @ w
            return (nn.gelu(inside) @ w.T).astype(jnp.float32).sum()

        return weft.grad(loss, (0, 1, 2))(x, w, b)

    nodes = nodes_of(fun, jnp.bfloat16, monkeypatch)
    offers = [n.offer for n in nodes if isinstance(n, Op) and n.offer is not None]
    assert [o.word for o in offers] == ["gelu", "gelu gradient"]
    assert offers[0].input is not None and (offers[0].bias is not None) == biased
    assert [o.kind for o in offers] == [lt.GELU_AUX_BIAS if biased else lt.GELU_AUX, lt.DGELU]


def test_other_functions_keep_theirs_in_kernels(monkeypatch):
    def fun(x, w, b):
        def loss(x, w):
            return (jnp.tanh(x @ w) @ w.T).astype(jnp.float32).sum()

        return weft.grad(loss, (0, 1))(x, w)

    nodes = nodes_of(fun, jnp.bfloat16, monkeypatch)
    assert all(n.offer is None for n in nodes if isinstance(n, Op))


@pytest.mark.parametrize("name", APART)
def test_others_stay_kernels(name, monkeypatch):
    nodes = nodes_of(APART[name], jnp.bfloat16, monkeypatch)
    assert any(isinstance(n, Launch) for n in nodes)
    assert all(n.offer is None for n in nodes if isinstance(n, Op))
