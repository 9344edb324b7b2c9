"""Operands of products in other orders of axes: transposed once, and by what computes them."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from weft import numpy as jnp
from weft.backends.cuda import commands
from weft.backends.cuda.passes.orders import copied, orders
from weft.core.jaxpr import eval_jaxpr
from weft.core.verify import check_jaxpr

SPECS = ["bnhkd,bmhkd->hbnmk", "abc,cda->bda", "nab,mab->bnma", "ijkl,kmil->jkm", "abcd,dbe->ace"]


def products(spec):
    return lambda x, y: jnp.einsum(spec, x, y)


def gradients(spec):
    return weft.grad(lambda x, y: jnp.mean(jnp.square(jnp.einsum(spec, x, y))), (0, 1))


def operands(spec, dtype=np.float32):
    random = np.random.default_rng(len(spec))
    sizes = dict(zip("abcdehijklmn", (4, 6, 8, 16, 2, 4, 8, 6, 8, 4, 10, 12), strict=True))
    names = spec.split("->")[0].split(",")
    return [random.normal(size=[sizes[c] for c in part]).astype(dtype) for part in names]


@pytest.mark.parametrize("made", [products, gradients])
@pytest.mark.parametrize("spec", SPECS)
def test_results_stay(spec, made):
    args = operands(spec)
    closed = weft.make_jaxpr(made(spec))(*args)
    after = orders(closed)
    check_jaxpr(after)
    left = [eqn for eqn in after.jaxpr.eqns if eqn.primitive.contracts]
    assert left and all(copied(eqn) is None for eqn in left)
    for found, expected in zip(
        eval_jaxpr(after.jaxpr, after.consts, *args),
        eval_jaxpr(closed.jaxpr, closed.consts, *args),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_what_can_be_read_stays():
    x = np.ones((8, 16, 16), "f")
    for spec in ("bij,bjk->bik", "bji,bkj->bik", "ijk,ljk->il", "ijk,kl->ijl"):
        y = x if spec != "ijk,kl->ijl" else x[0]
        closed = weft.make_jaxpr(products(spec))(x, y)
        assert orders(closed) is closed


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_product_and_its_gradients_read_one_copy(monkeypatch, dtype):
    planned.install(monkeypatch)
    shape = weft.ShapeDtypeStruct((8, 64, 4, 16, 8), dtype)
    made = planned.planned(gradients("bnhkd,bmhkd->hbnmk"), shape, shape).commands
    kernels = [c for c in made if isinstance(c, commands.Launched)]
    # both operands, the cotangent in the order of the product, and two results
    assert len(kernels) == 4 and len(made) == 7
