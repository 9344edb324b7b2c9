"""Modules as objects: fields, clones, tables, names, and what they cost beside plain functions."""

import copy
import gc
import pickle
import weakref

import pytest

import weft
import weft.numpy as jnp
from weft import linen as nn

KEY = weft.random.key(0)
X = jnp.ones((2, 3))


class Net(nn.Module):
    width: int = 4
    kinds: list = ()

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(self.width)(x))
        return nn.Dense(1)(x)


def test_modules_are_dataclasses_with_keyword_names():
    model = Net(3, kinds=[1, 2], name="net")
    assert (model.width, model.kinds, model.name) == (3, [1, 2], "net")
    assert Net(3) == Net(3) and Net(3) != Net(4) and hash(Net(3)) == hash(Net(3))
    assert "width = 3" in repr(model) and "parent" not in repr(model)
    with pytest.raises(TypeError):
        Net(3, [], "net")

    class Strict(nn.Module, kw_only=True):
        a: int = 1
        b: int

    assert Strict(b=2).b == 2
    with pytest.raises(TypeError):
        Strict(1, 2)


def test_clones_and_copies():
    model = Net(3)
    assert model.clone(width=5).width == 5 and model.width == 3
    assert copy.copy(model) == model and copy.deepcopy(model) == model
    assert pickle.loads(pickle.dumps(model)) == model
    with pytest.raises(TypeError, match="no hash"):
        hash(Net(kinds=[1]))
    bound = model.bind(model.init(KEY, X))
    with pytest.raises(TypeError, match="holds variables"):
        hash(bound)


def test_variables_are_freed_with_the_call():
    held = []

    class Keeps(nn.Module):
        @nn.compact
        def __call__(self, x):
            held.append(weakref.ref(nn.Dense(2)))
            return nn.Dense(2)(x)

    gc.disable()
    try:
        Keeps().init(KEY, X)
        assert held[0]() is None
    finally:
        gc.enable()


def test_given_variables_are_not_changed():
    model = nn.BatchNorm(use_running_average=False)
    variables = model.init(KEY, X)
    before = weft.tree.map(lambda x: x, variables)
    model.apply(variables, X + 1, mutable=True)
    assert weft.tree.all(weft.tree.map(lambda a, b: (a == b).all(), before, variables))
    assert model.apply(nn.FrozenDict(variables), X, mutable=["batch_stats"])[0].shape == (2, 3)


def test_numpy_parameters_and_inputs_are_accepted():
    variables = weft.tree.map(lambda x: x.__array__(), Net().init(KEY, X))
    assert Net().apply(variables, X.__array__()).shape == (2, 1)


def test_tables_show_what_parts_cost():
    text = Net().tabulate(KEY, X, compute_flops=True, compute_vjp_flops=True, compute_time=True)
    lines = text.splitlines()
    assert "Net Summary" in lines[0]
    for word in "path module inputs outputs flops bytes vjp_flops time params".split():
        assert word in lines[2]
    assert "Total Parameters: 21 (84 B)" in lines[-1]
    row = next(line for line in lines if "Dense_0" in line)
    flops = int(row.split("│")[5].replace(",", ""))
    assert 2 * 2 * 3 * 4 <= flops <= 2 * 2 * 3 * 4 + 20
    assert "Dense_0" not in Net().tabulate(KEY, X, depth=0)


def test_module_paths_are_those_of_submodules():
    paths = Net().module_paths(KEY, X)
    assert list(paths) == ["", "Dense_0", "Dense_1"]
    assert paths["Dense_1"].features == 1 and paths["Dense_1"].scope is None


def test_names_of_calls_can_be_turned_off():
    variables = Net().init(KEY, X)
    with nn.override_named_call(False):
        plain = weft.make_jaxpr(lambda x: Net().apply(variables, x))(X)
    named = weft.make_jaxpr(lambda x: Net().apply(variables, x))(X)
    assert len(plain.jaxpr.eqns) == len(named.jaxpr.eqns)
    nn.disable_named_call()
    nn.enable_named_call()


def test_a_module_adds_no_operations():
    variables = Net(4).init(KEY, X)
    p = variables["params"]

    def by_hand(p, x):
        dense = lambda p, x: (
            weft.lax.dot_general(x, p["kernel"], (((1,), (0,)), ((), ())))
            + jnp.reshape(p["bias"], (1, -1))
        )
        return dense(p["Dense_1"], nn.relu(dense(p["Dense_0"], x)))

    ours = weft.make_jaxpr(lambda p, x: Net(4).apply({"params": p}, x))(p, X)
    theirs = weft.make_jaxpr(by_hand)(p, X)
    names = lambda jaxpr: [eqn.primitive.name for eqn in jaxpr.jaxpr.eqns]
    assert names(ours) == names(theirs)


def test_jitted_modules_are_traced_once():
    traced = []

    class Counts(nn.Module):
        @nn.compact
        def __call__(self, x):
            traced.append(1)
            return nn.Dense(2)(x)

    model = nn.jit(Counts)()
    variables = model.init(KEY, X)
    count = len(traced)
    for _ in range(3):
        model.apply(variables, X)
    assert len(traced) == count + 1
    model.apply(variables, jnp.ones((5, 3)))
    assert len(traced) == count + 2


def test_modules_work_under_every_plain_transformation():
    model = Net()
    variables = model.init(KEY, X)
    call = lambda v, x: model.apply(v, x).sum()
    value = call(variables, X)
    assert float(weft.jit(call)(variables, X)) == pytest.approx(float(value), rel=1e-5)
    batched = weft.vmap(lambda x: model.apply(variables, x))(X)
    assert batched.shape == (2, 1)
    assert weft.hessian(lambda x: call(variables, x))(X).shape == (2, 3, 2, 3)
    stacked = weft.vmap(lambda key: model.init(key, X))(weft.random.split(KEY, 3))
    assert stacked["params"]["Dense_0"]["kernel"].shape == (3, 3, 4)
    shapes = weft.eval_shape(model.init, KEY, X)
    assert shapes["params"]["Dense_0"]["kernel"].shape == (3, 4)


def test_inherited_methods_and_properties():
    class Base(nn.Module):
        size: int = 2

        @property
        def double(self):
            return 2 * self.size

        @nn.nowrap
        def helper(self, x):
            return x * self.double

        @nn.compact
        def __call__(self, x):
            return self.helper(nn.Dense(self.size)(x))

    class Child(Base):
        more: int = 3

        @nn.compact
        def __call__(self, x):
            return super().__call__(x) + nn.Dense(self.size)(x)

    variables = Child().init(KEY, X)
    assert sorted(variables["params"]) == ["Dense_0", "Dense_1"]
    assert Child().helper(2) == 8


def test_sharding_rules():
    with nn.logical_axis_rules([("batch", "data"), ("embed", None), ("heads", "model")]):
        assert nn.get_logical_axis_rules()[0] == ("batch", "data")
        spec = nn.logical_to_mesh_axes(("batch", "embed", "heads", "other"))
        assert spec == weft.P("data", None, "model", None)
        assert nn.with_logical_constraint(X, ("batch", "embed")) is X
    assert nn.get_logical_axis_rules() == ()
    with pytest.raises(ValueError, match="no rule names"):
        rules = [("a", "x")]
        fallback = nn.spmd.RulesFallback.RAISE_ERROR
        nn.with_logical_constraint(X, ("a", "b"), rules=rules, fallback=fallback)
