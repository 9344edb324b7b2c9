"""Primitives of third parties under every transformation, and programs walked from outside."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.extend import core
from weft.interpreters import ad, batching, mlir


def make_cube(with_impl):
    cube_p = core.Primitive("cube")
    cube_p.def_abstract_eval(lambda x: x)
    if with_impl:
        cube_p.def_impl(lambda x: x * x * x)
    else:
        mlir.register_lowering(cube_p, mlir.lower_fun(lambda x: x * x * x, multiple_results=False))
    ad.defjvp(cube_p, lambda g, x: g * 3.0 * x * x)
    batching.defvectorized(cube_p)
    return cube_p


@pytest.mark.parametrize("with_impl", [True, False])
def test_own_primitive_under_transformations(with_impl):
    cube_p = make_cube(with_impl)
    x = jnp.array([1.0, 2.0])
    f = cube_p.bind
    assert f(x).tolist() == [1.0, 8.0]
    assert weft.jit(f)(x).tolist() == [1.0, 8.0]
    assert weft.grad(f)(2.0) == 12.0
    assert weft.grad(weft.grad(weft.jit(f)))(2.0) == 12.0
    assert weft.vmap(weft.grad(f))(x).tolist() == [3.0, 12.0]
    assert lax.scan(lambda c, v: (c + f(v), c), 0.0, x)[0] == 9.0
    assert str(weft.make_jaxpr(f)(2.0)) == "{ lambda ; a:f32[]. let b:f32[] = cube a in (b,) }"


def test_linear_primitive_is_transposed():
    twice_p = core.Primitive("twice")
    twice_p.def_abstract_eval(lambda x: x)
    twice_p.def_impl(lambda x: x + x)
    ad.deflinear2(twice_p, lambda ct, x: [twice_p.bind(ct)])
    assert weft.grad(lambda x: twice_p.bind(x) * x)(3.0) == 12.0
    assert weft.linear_transpose(twice_p.bind, 1.0)(5.0)[0] == 10.0


def test_several_results():
    pair_p = core.Primitive("pair")
    pair_p.multiple_results = True
    pair_p.def_abstract_eval(lambda x: [x, x])
    pair_p.def_impl(lambda x: [x + 1, x * 2])
    assert [v.item() for v in weft.jit(lambda x: pair_p.bind(x))(3.0)] == [4.0, 6.0]


def test_missing_rules_say_how_to_give_them():
    bare_p = core.Primitive("bare")
    with pytest.raises(NotImplementedError, match="def_impl"):
        bare_p.bind(1.0)
    with pytest.raises(NotImplementedError, match="def_abstract_eval"):
        weft.jit(bare_p.bind)(1.0)
    bare_p.def_abstract_eval(lambda x: x)
    bare_p.def_impl(lambda x: x)
    with pytest.raises(NotImplementedError, match="def_jvp"):
        weft.grad(bare_p.bind)(1.0)
    with pytest.raises(NotImplementedError, match="batching"):
        weft.vmap(bare_p.bind)(jnp.ones(3))


def count(jaxpr, found):
    """Primitive names of a program and of the programs inside it."""
    for eqn in jaxpr.eqns:
        found.append(eqn.primitive.name)
        for value in eqn.params.values():
            for item in value if isinstance(value, (tuple, list)) else [value]:
                if isinstance(item, core.ClosedJaxpr):
                    count(item.jaxpr, found)
    return found


def test_programs_can_be_walked():
    constant = jnp.arange(3.0)

    def f(x):
        y = weft.jit(lambda v: jnp.sin(v) * 2.0)(x) + constant
        return lax.cond(y[0] > 0, lambda v: v + 1, lambda v: v, y)

    closed = weft.make_jaxpr(f)(jnp.ones(3))
    assert isinstance(closed, core.ClosedJaxpr) and isinstance(closed.jaxpr, core.Jaxpr)
    names = count(closed.jaxpr, [])
    assert {"jit", "sin", "mul", "add", "cond"} <= set(names)
    (call,) = [e for e in closed.eqns if e.primitive.name == "jit"]
    assert isinstance(call.params["jaxpr"], core.ClosedJaxpr)
    literals = [x for x in call.params["jaxpr"].eqns[1].invars if isinstance(x, core.Literal)]
    assert [x.val for x in literals] == [2.0]
    assert all(isinstance(v, core.Var) for v in closed.jaxpr.invars)
    out = core.jaxpr_as_fun(closed)(jnp.ones(3))
    np.testing.assert_allclose(out[0], f(jnp.ones(3)))
    core.check_jaxpr(closed.jaxpr)


def test_an_interpreter_written_outside():
    """A transformation of a user: replace every sine by a cosine."""

    def evaluate(jaxpr, consts, *args):
        env = dict(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        read = lambda x: x.val if isinstance(x, core.Literal) else env[x]
        for eqn in jaxpr.eqns:
            primitive = core.primitives.cos_p if eqn.primitive.name == "sin" else eqn.primitive
            out = primitive.bind(*map(read, eqn.invars), **eqn.params)
            outs = out if eqn.primitive.multiple_results else [out]
            env.update(zip(eqn.outvars, outs, strict=True))
        return [read(x) for x in jaxpr.outvars]

    closed = weft.make_jaxpr(lambda x: jnp.sin(x) * 2.0)(1.0)
    assert evaluate(closed.jaxpr, closed.consts, 0.0)[0] == 2.0
