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


class Tag(core.Primitive):
    """Rules are methods, some under names that are free for subclasses."""

    multiple_results = True

    def __init__(self):
        super().__init__("tag")
        weft.interpreters.ad.primitive_jvps[self] = self._jvp
        weft.interpreters.batching.primitive_batchers[self] = self._batch
        weft.interpreters.mlir.register_lowering(self, self._lowering)

    def impl(self, *args, count):
        return args[:count]

    def abstract_eval(self, *avals, count):
        return avals[:count], frozenset()

    def _jvp(self, primals, tangents, *, count):
        return self.bind(*primals, count=count), tangents[:count]

    def _batch(self, args, dims, *, count):
        return self.bind(*args, count=count), dims[:count]

    def _lowering(self, context, *values, count):
        raise AssertionError("a rule that writes MLIR")


def test_rules_may_be_methods_of_a_subclass():
    tag = Tag()
    x = jnp.arange(3.0)

    def f(x):
        first, _ = tag.bind(x * 2, x + 1, count=2)
        return first * x

    np.testing.assert_array_equal(f(x), 2 * x * x)
    np.testing.assert_array_equal(weft.jit(f)(x), 2 * x * x)
    np.testing.assert_array_equal(weft.grad(lambda x: f(x).sum())(x), 4 * x)
    np.testing.assert_array_equal(weft.vmap(f)(x), 2 * x * x)
    (eqn,) = [e for e in weft.make_jaxpr(f)(x).eqns if e.primitive is tag]
    assert len(eqn.outvars) == 2 and not eqn.effects


def test_effects_are_those_of_a_subclass():
    class Loud(core.Primitive):
        def abstract_eval(self, aval):
            return aval, {"noise"}

    assert Loud("loud").eqn_effects([weft.typeof(1.0)], {}) == {"noise"}
    quiet = Loud("quiet")
    quiet.def_abstract_eval(lambda aval: aval)
    assert quiet.eqn_effects is None and quiet.abstract_eval(3) == (3, frozenset())


def test_missing_rules_are_named():
    bare = core.Primitive("bare")
    for rule, wanted in ((bare.impl, "def_impl"), (bare.abstract_eval, "def_abstract_eval")):
        with pytest.raises(NotImplementedError, match=wanted):
            rule(1.0)
    assert not bare.has_impl
    bare.def_impl(lambda x: 2 * x)
    assert bare.has_impl and bare.impl(3) == 6


def test_equations_that_are_run_again_keep_their_lines():
    from weft.extend import source_info_util

    (eqn,) = weft.make_jaxpr(lambda x: jnp.sin(x))(1.0).eqns

    def again(x):
        with source_info_util.user_context(eqn.source_info.traceback, name_stack=("layer",)):
            assert source_info_util.current_name_stack() == ("layer",)
            return eqn.primitive.bind(x, **eqn.params)

    (found,) = weft.make_jaxpr(again)(1.0).eqns
    lines = [source_info_util.summarize(e.source_info) for e in (found, eqn)]
    assert lines[0].split("(")[0] == lines[1].split("(")[0] and "test_extend" in lines[0]
    assert source_info_util.current_name_stack() == ()
