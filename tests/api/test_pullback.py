"""The object that ``vjp`` returns: its residuals, which may be looked at and replaced."""

import pytest

import weft
import weft.numpy as jnp
from weft import ad_checkpoint
from weft.api.pullback import NotNeeded

X, Y = jnp.arange(3.0), jnp.array([2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("fun", "args", "needed", "opaque"),
    [
        (lambda x, y: x * y, (X, Y), [True, True], 0),
        (lambda x, y: jnp.sin(x) * y, (X, Y), [False, True], 2),
        (weft.jit(lambda x, y: jnp.sin(x) * y), (X, Y), [False, True], 2),
        (lambda x: x + 1, (X,), [False], 0),
        (jnp.sin, (3.0,), [False], 1),
    ],
)
def test_residuals_that_are_arguments(fun, args, needed, opaque):
    pull = weft.vjp(fun, *args)[1]
    assert [type(r) is not NotNeeded for r in pull.args_res] == needed
    for r, x, n in zip(pull.args_res, args, needed, strict=True):
        assert not n or r is x
    assert len(pull.opaque_residuals) == opaque
    assert len(weft.tree.leaves(pull)) == sum(needed) + opaque


def test_containers_are_tuples():
    pull = weft.vjp(lambda d: d["a"] * d["b"][0], {"a": X, "b": [Y]})[1]
    ((first, (second,)),) = pull.args_res
    assert first is X and second is Y


def test_residuals_may_be_replaced():
    pull = weft.vjp(lambda x, y: x * y, X, Y)[1]
    pull.args_res[0] = 5 * X
    assert pull(jnp.ones(3))[1].tolist() == [0, 5, 10]
    pull.args_res[0] = None
    with pytest.raises(ValueError, match="needs argument 0 in args_res"):
        pull(jnp.ones(3))


def test_pullbacks_leave_jit():
    pull = weft.jit(lambda x, y: weft.vjp(lambda x, y: jnp.sin(x) * y, x, y)[1])(X, Y)
    assert type(pull.args_res[0]) is NotNeeded and len(pull.opaque_residuals) == 2
    want = weft.vjp(lambda x, y: jnp.sin(x) * y, X, Y)[1](Y)
    for one, two in zip(pull(Y), want, strict=True):
        assert jnp.allclose(one, two)
    with weft.check_tracer_leaks():
        relu = weft.checkpoint(lambda x: weft.nn.relu(1.0 * x))
        value, pull = weft.jit(lambda i: weft.vjp(relu, i))(1.0)
    assert value == 1.0 and pull(2.0) == (2.0,)


def test_linear_transpose_of_integers():
    assert weft.linear_transpose(lambda x: 2 * x, 1)(3) == (6,)
    (found,) = weft.linear_transpose(jnp.sum, jnp.arange(3))(3)
    assert found.dtype == "int32" and found.tolist() == [3, 3, 3]
    found = weft.linear_transpose(lambda x, y: x, 1, jnp.arange(2))(3)
    assert found[0] == 3 and found[1].dtype == "int32" and found[1].tolist() == [0, 0]
    for fun, x in ((lambda x: x.astype(float), 1), (lambda x: x, True)):
        with pytest.raises(TypeError, match="linear_transpose takes"):
            weft.linear_transpose(fun, x)
    transposed = weft.jit(lambda y: weft.linear_transpose(lambda x: y * x, 1.0))(2.0)
    assert transposed(3.0) == (6.0,)


def test_rules_need_no_trees_of_none():
    class Box(list):
        pass

    def rebuild(_, children):
        assert children[0] is not None
        return Box(children)

    weft.tree_util.register_pytree_node(Box, lambda box: (box, None), rebuild)

    @weft.custom_vjp
    def first(box):
        return box[0]

    first.defvjp(lambda box: (box[0], None), lambda _, g: (Box([g]),))
    for grad in (weft.grad(first), weft.jit(weft.grad(first))):
        found = grad(Box([1.0]))
        assert type(found) is Box and found == [1.0]


def test_constants_of_jitted_functions_are_saved_as_such():
    @weft.jit
    def f(x, y):
        return jnp.sin(3.0) * (x[0] * x[1]) * y * jnp.array([3.0])

    origins = [origin for _, origin in ad_checkpoint.saved_residuals(f, (2.0, 3.0), y=4.0)]
    assert origins[:4] == [
        "from a constant",
        *(f"from the argument {x}" for x in ("x[0]", "x[1]", "y")),
    ]
    assert len(origins) == 6 and all("jitted function 'f'" in o for o in origins[4:])
