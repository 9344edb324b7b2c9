"""`weft.linen.partitioning`; the expected names and shapes are those that flax 0.12.8 gives."""

import pytest

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft.linen import partitioning
from weft.sharding import PartitionSpec as P

KEY, X = weft.random.key(0), jnp.ones((2, 3))


class Layer(nn.Module):
    width: int = 3

    @nn.compact
    def __call__(self, x, _=None):
        init = nn.initializers.lecun_normal()
        shape = (x.shape[-1], self.width)
        kernel = partitioning.param_with_axes("kernel", init, shape, axes=("embed", "mlp"))
        zeros = lambda: jnp.zeros(self.width)
        count = partitioning.variable_with_axes("cache", "count", zeros, axes=("mlp",))
        count.value = count.value + 1
        return partitioning.with_sharding_constraint(x @ kernel, ("batch", "mlp")), None


def names(variables, collection):
    return dict(partitioning.get_axis_names(variables[f"{collection}_axes"]))


def test_names_of_axes_are_kept_beside_the_variables():
    variables = Layer().init(KEY, X)
    assert sorted(variables) == ["cache", "cache_axes", "params", "params_axes"]
    assert names(variables, "params") == {"kernel": P("embed", "mlp")}
    assert names(variables, "cache") == {"count": P("mlp")}
    _, changed = Layer().apply(variables, X, mutable=["cache"])
    assert sorted(changed) == ["cache"] and changed["cache"]["count"].tolist() == [2.0] * 3


@pytest.mark.parametrize(
    "position, shape, spec",
    [(0, (4, 3, 3), ("layers", "embed", "mlp")), (1, (3, 4, 3), ("embed", "layers", "mlp"))],
)
def test_scan_names_the_axis_of_layers(position, shape, spec):
    scanned = partitioning.scan_with_axes(
        Layer,
        variable_axes={"params": position, "cache": 0},
        split_rngs={"params": True},
        length=4,
        axes_collections=("params", "cache"),
    )()
    variables = scanned.init(KEY, X)
    assert variables["params"]["kernel"].shape == shape
    assert names(variables, "params") == {"kernel": P(*spec)}
    assert names(variables, "cache") == {"count": P("layers", "mlp")}
    (out, _), _ = scanned.apply(variables, X, mutable=["cache"])
    assert out.shape == (2, 3)


def test_vmap_names_the_axes_of_each_collection():
    mapped = partitioning.vmap_with_axes(
        Layer,
        variable_axes={"params": 0, "cache": 0},
        split_rngs={"params": True},
        partitioning_axis_names={"params": "heads", "cache": "other"},
        axis_size=5,
        in_axes=None,
    )()
    variables = mapped.init(KEY, X)
    assert variables["params"]["kernel"].shape == (5, 3, 3)
    assert names(variables, "params") == {"kernel": P("heads", "embed", "mlp")}
    assert names(variables, "cache") == {"count": P("other", "mlp")}


def test_a_wrong_name_at_the_stacked_axis_is_refused():
    scan = lambda name: partitioning.scan_with_axes(
        Layer, {"params": 0, "cache": 0}, split_rngs={"params": True}, length=2, axis_name=name
    )()
    variables = scan("layers").init(KEY, X)
    with pytest.raises(ValueError, match="should be named 'other'"):
        scan("other").apply(variables, X, mutable=["cache", "params_axes"])


def test_scans_inside_of_modules_run_without_the_names():
    class Outer(nn.Module):
        @nn.compact
        def __call__(self, x):
            scan = partitioning.scan_with_axes(
                Layer, {"params": 0, "cache": 0}, split_rngs={"params": True}, length=2
            )
            return scan(name="layers")(x)[0]

    variables = Outer().init(KEY, X)
    out, changed = Outer().apply({"params": variables["params"]}, X, mutable=["cache"])
    assert out.shape == (2, 3) and sorted(changed) == ["cache"]


def test_names_may_not_change():
    class Twice(nn.Module):
        @nn.compact
        def __call__(self, x):
            ones = nn.initializers.ones
            kernel = partitioning.param_with_axes("p", ones, (3,), axes=("a",))
            other = partitioning.AxisMetadata(("b",))
            self.sow("params_axes", "p_axes", other, reduce_fn=partitioning._same_names)
            return x * kernel

    with pytest.raises(ValueError, match=r"\('a',\) in one place and \('b',\) in another"):
        Twice().init(KEY, X)


def test_trees_of_parameters_have_trees_of_names():
    class Tree(nn.Module):
        @nn.compact
        def __call__(self, x):
            init = lambda key: {"u": jnp.ones(2), "v": jnp.ones((2, 3))}
            axes = {"u": ("a",), "v": ("a", "b")}
            return partitioning.param_with_axes("p", init, axes=axes)["u"]

    found = names(Tree().init(KEY, X), "params")
    assert dict(found["p"]) == {"u": P("a"), "v": P("a", "b")}


def test_rules_map_names_to_a_mesh():
    with partitioning.axis_rules([("embed", "x"), ("mlp", None)]):
        assert partitioning.get_axis_rules() == [("embed", "x"), ("mlp", None)]
        assert partitioning.logical_to_mesh_axes(("embed", "mlp")) == P("x", None)
    assert not partitioning.get_axis_rules()
    partitioning.set_axis_rules([("a", "b")])
    assert partitioning.logical_to_mesh_axes(("a", "q")) == P("b", None)
    partitioning.set_axis_rules(())


def test_static_arguments_of_remat_count_from_the_first():
    class Switched(nn.Module):
        @nn.compact
        def __call__(self, x, on):
            return nn.Dense(2)(x) if on else x

    module = partitioning.remat(Switched, static_argnums=(1,))()
    variables = module.init(KEY, X, True)
    assert variables["params"]["Dense_0"]["kernel"].shape == (3, 2)
    assert module.apply(variables, X, False).shape == (2, 3)


def test_a_parameter_needs_a_module():
    with pytest.raises(ValueError, match="needs a module"):
        partitioning.param_with_axes("p", nn.initializers.ones, (3,), axes=("a",))
