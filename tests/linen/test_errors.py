"""Wrong uses of modules: the class is flax's, and the text says what to do instead."""

import pytest

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft.linen import errors, serialization, struct

KEY = weft.random.key(0)
X = jnp.ones((2, 3))


class Net(nn.Module):
    width: int = 4

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1, name="last")(nn.relu(nn.Dense(self.width, name="first")(x)))


def variables(model=None):
    return (model or Net()).init(KEY, X)


def fails(kind, *parts):
    """A context in which an error of a class must be raised whose text has all these parts."""

    class Check:
        def __enter__(self):
            self.inner = pytest.raises(kind)
            self.info = self.inner.__enter__()

        def __exit__(self, *args):
            done = self.inner.__exit__(*args)
            text = str(self.info.value)
            assert all(part in text for part in parts), text
            return done

    return Check()


def test_a_parameter_of_another_shape_is_named_with_both_shapes():
    given = variables()
    given["params"]["first"]["kernel"] = jnp.ones((3, 7))
    with fails(errors.ScopeParamShapeError, "'kernel'", "/first", "(3, 7)", "(3, 4)"):
        Net().apply(given, X)
    with fails(errors.ScopeParamShapeError, "(3, 4)", "(5, 4)"):
        Net().apply(variables(), jnp.ones((2, 5)))


def test_a_parameter_of_another_kind_is_refused():
    given = variables()
    given["params"]["first"]["kernel"] = jnp.ones((3, 4), jnp.int32)
    with fails(errors.ScopeParamDtypeError, "'kernel'", "int32", "float32", "astype"):
        Net().apply(given, X)
    given["params"]["first"]["kernel"] = jnp.ones((3, 4), jnp.complex64)
    with fails(errors.ScopeParamDtypeError, "complex64"):
        Net().apply(given, X)
    given["params"]["first"]["kernel"] = jnp.ones((3, 4), jnp.bfloat16)
    assert Net().apply(given, X).dtype == jnp.float32


def test_a_missing_parameter_is_named_with_what_is_there():
    given = variables()
    del given["params"]["first"]["bias"]
    with fails(errors.ScopeParamNotFoundError, "'bias'", "/first", "'kernel'"):
        Net().apply(given, X)
    with fails(errors.ScopeCollectionNotFound, "'params'", "empty or missing"):
        Net().apply({}, X)


def test_check_variables_lists_everything_that_is_wrong():
    given = variables()
    given["params"]["first"]["kernel"] = jnp.ones((3, 7))
    given["params"]["last"]["bias"] = jnp.ones(1, jnp.bfloat16)
    del given["params"]["last"]["kernel"]
    given["params"]["more"] = {"kernel": jnp.ones(2)}
    with pytest.raises(ValueError) as info:
        nn.check_variables(Net(), given, X)
    assert str(info.value).splitlines() == [
        "the variables do not fit Net:",
        "  params/first/kernel is float32[3,7], not float32[3,4]",
        "  params/last/bias is bfloat16[1], not float32[1]",
        "  params/last/kernel is missing, float32[4,1]",
        "  params/more/kernel is extra, float32[2]",
    ]
    nn.check_variables(Net(), variables(), X)


def test_a_missing_stream_says_how_to_pass_it():
    model = nn.Dropout(0.5, deterministic=False)
    with fails(errors.InvalidRngError, "'dropout'", "none", "rngs={'dropout': key}"):
        model.apply({}, X)
    with fails(errors.InvalidRngError, "'other'"):
        model.apply({}, X, rngs={"other": KEY})


@pytest.mark.parametrize("wrong", [3, "key", jnp.ones(2), {"params": 3}, {1: KEY}, None])
def test_what_is_no_key_is_refused_by_init(wrong):
    with fails(errors.InvalidRngError, "init", "weft.random.key(0)"):
        Net().init(wrong, X)


def test_writing_to_an_immutable_collection_says_what_to_pass():
    model = nn.BatchNorm(use_running_average=False)
    with fails(errors.ModifyScopeVariableError, "'mean'", "mutable=['batch_stats']"):
        model.apply(variables(model), X)


def test_a_variable_that_cannot_be_made_says_what_to_pass():
    class Count(nn.Module):
        @nn.compact
        def __call__(self):
            return self.variable("state", "n", lambda: 0).value

    with fails(errors.ScopeCollectionNotFound, "'n'", "'state'", "mutable=['state']"):
        Count().apply({})
    with fails(errors.ScopeVariableNotFoundError, "'n'", "mutable=['state']"):
        Count().apply({"state": {"m": 1}})


@pytest.mark.parametrize("kind", ["submodule", "param", "variable"])
def test_a_name_that_is_taken_is_refused(kind):
    class Clash(nn.Module):
        @nn.compact
        def __call__(self, x):
            nn.Dense(2, name="a")(x)
            if kind == "submodule":
                return nn.Dense(2, name="a")(x)
            if kind == "param":
                return self.param("a", nn.initializers.ones, (2,))
            return self.variable("state", "a", lambda: 0)

    with fails(errors.NameInUseError, f"{kind} 'a'", "Clash", "taken"):
        Clash().init(KEY, X)


def test_calling_an_unbound_module_says_what_to_call():
    with fails(errors.CallCompactUnboundModuleError, "Net", "init", "apply", "bind"):
        Net()(X)


def test_a_module_made_outside_of_setup_is_refused():
    class Outside(nn.Module):
        def setup(self):
            self.first = nn.Dense(2)

        def __call__(self, x):
            return nn.Dense(3)(self.first(x))

    with fails(errors.AssignSubModuleError, "Dense", "Outside", "setup", "@nn.compact"):
        Outside().init(KEY, X)


def test_parameters_and_variables_are_made_in_setup_or_compact():
    class Outside(nn.Module):
        def __call__(self, x):
            return self.param("w", nn.initializers.ones, (2,))

    with fails(ValueError, "'w'", "setup", "@nn.compact"):
        Outside().init(KEY, X)


def test_fields_are_frozen_when_bound():
    class Sets(nn.Module):
        width: int = 3

        @nn.compact
        def __call__(self, x):
            self.width = 4
            return x

    with fails(errors.SetAttributeFrozenModuleError, "Sets.width", "clone"):
        Sets().init(KEY, X)

    class InSetup(nn.Module):
        width: int = 3

        def setup(self):
            self.width = 4

        def __call__(self, x):
            return x

    with fails(errors.SetAttributeInModuleSetupError, "'width'"):
        InSetup().init(KEY, X)


def test_reserved_fields_are_refused():
    with fails(errors.ReservedModuleAttributeError, "'parent'"):

        class Parent(nn.Module):
            parent: int = 0

    with fails(errors.ReservedModuleAttributeError, "name"):

        class Name(nn.Module):
            name: int = 0


def test_variables_of_a_wrong_form_are_refused():
    with fails(errors.ApplyScopeInvalidVariablesTypeError, "dictionary of collections"):
        Net().apply({"params": X}, X)
    with fails(errors.ApplyScopeInvalidVariablesTypeError, "list"):
        Net().apply([1], X)
    with fails(errors.ApplyScopeInvalidVariablesStructureError, "'params' twice"):
        Net().apply({"params": variables()}, X)


def test_methods_must_exist_and_take_the_module():
    with fails(errors.ApplyModuleInvalidMethodError, "method="):
        Net().apply(variables(), method=lambda: 1)
    with fails(AttributeError, "Net", "'missing'"):
        Net().apply(variables(), X, method="missing")
    with fails(TypeError, "Net.width", "cannot be called"):
        Net().apply(variables(), X, method="width")
    with fails(errors.InvalidInstanceModuleError, "instance"):
        Net.apply(variables(), X)
    with fails(errors.CallSetupUnboundModuleError, "setup"):
        nn.Embed(3, 2).setup()
    with fails(errors.CallUnbindOnUnboundModuleError, "bind"):
        Net().unbind()
    with fails(errors.CallShareScopeOnUnboundModuleError, "setup"):
        nn.share_scope(Net(), Net())


def test_post_init_must_call_the_base_class():
    class Forgets(nn.Module):
        def __post_init__(self):
            pass

    with fails(errors.IncorrectPostInitOverrideError, "super().__post_init__()"):
        Forgets().init(KEY, X)


def test_a_bound_module_does_not_outlive_its_call():
    kept = []

    class Leaks(nn.Module):
        @nn.compact
        def __call__(self, x):
            kept.append(self)
            return nn.Dense(2)(x)

    Leaks().init(KEY, X)
    with fails(errors.InvalidScopeError, "ended", "bind"):
        kept[0](X)


def test_an_attribute_error_inside_of_a_property_is_reported_as_such():
    class Broken(nn.Module):
        @property
        def size(self):
            return self.missing

        @nn.compact
        def __call__(self, x):
            return self.size

    with fails(errors.DescriptorAttributeError, "'size'", "missing"):
        Broken().init(KEY, X)


def test_lifted_methods_return_arrays():
    class Returns(nn.Module):
        @nn.remat
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)

    with fails(errors.TransformedMethodReturnValueError, "__call__", "arrays"):
        Returns().init(KEY, X)
    with fails(errors.TransformTargetError, "class"):
        nn.jit(Net())


def test_collections_that_a_lifted_transformation_does_not_know_are_named():
    Many = nn.vmap(nn.BatchNorm, variable_axes={"params": None}, split_rngs={"params": False})
    with fails(errors.ScopeCollectionNotFound, "batch_stats", "nn.vmap", "told of"):
        Many(use_running_average=False).init(KEY, jnp.ones((3, 4, 2)))


def test_a_broadcast_variable_must_not_depend_on_the_loop():
    class Step(nn.Module):
        @nn.compact
        def __call__(self, carry, x):
            self.variable("fixed", "x", lambda: carry)
            return carry + x, None

    Loop = nn.scan(Step, variable_broadcast="fixed", split_rngs={"params": False})
    with fails(ValueError, "broadcast", "variable_carry"):
        Loop().init(KEY, jnp.ones(2), jnp.ones((3, 2)))


@pytest.mark.parametrize("given", [(None, None), (True, False)])
def test_options_are_given_once(given):
    model = nn.Dropout(0.5, deterministic=given[0])
    with fails(ValueError, "'deterministic'", "once" if given[0] else "must be given"):
        model.apply({}, X, deterministic=given[1], rngs={"dropout": KEY})


@pytest.mark.parametrize(
    "module, x, parts",
    [
        (nn.Embed(3, 2), X, ["integers", "float32"]),
        (nn.GroupNorm(num_groups=2), X, ["3 channels", "2 groups"]),
        (nn.GroupNorm(num_groups=2, group_size=2), X, ["not both"]),
        (nn.Conv(4, (3, 3)), X, ["2 dimensions", "(2, 3)"]),
        (nn.Conv(4, (3,), padding="CAUSAL", feature_group_count=2), X[None], ["2 groups"]),
        (nn.Conv(4, (3,), padding=(1, 2)), X[None], ["padding=(1, 2)"]),
        (nn.Conv(4, (3,), mask=jnp.ones(2)), X[None], ["mask", "(3, 3, 4)"]),
        (nn.InstanceNorm(feature_axes=0), X, ["batch"]),
        (nn.DenseGeneral(3, batch_dims=(1,)), X, ["batch_dims", "(1,)"]),
        (nn.Einsum((3, 2), "ab,bc"), X, ["einsum_str", "'ab,bc'"]),
        (nn.MultiHeadAttention(2), X[None], ["3 features", "2 heads"]),
        (nn.Sequential([]), X, ["at least one layer"]),
        (nn.Dense(3, dtype=jnp.int32), X, ["int32"]),
        (nn.MoE(2, 4, top_k=3), X, ["top_k=3", "2 experts"]),
        (nn.GroupedQueryAttention(4, 3), X[None], ["4 query heads", "3 heads"]),
        (nn.LoRA(3, rank=0), X, ["at least 1"]),
    ],
)
def test_layers_refuse_what_they_cannot_do(module, x, parts):
    with fails(ValueError, *parts):
        module.init(KEY, x)


def test_sequential_wants_a_list():
    with fails(ValueError, "list of layers"):
        nn.Sequential(nn.Dense(3))


def test_unknown_fields_are_refused_by_clone():
    with fails(TypeError, "Net", "depth"):
        Net().clone(depth=3)


def test_filters_are_names_or_booleans():
    with fails(errors.InvalidFilterError, "3", "DenyList"):
        Net().apply(variables(), X, mutable=3)


def test_names_of_axes_are_needed_where_an_axis_is_added():
    boxed = nn.with_partitioning(nn.initializers.ones, ("in", "out"))
    Many = nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True})
    with fails(errors.PartitioningUnspecifiedError, "metadata_params"):
        Many(2, kernel_init=boxed).init(KEY, X)


def test_lazy_init_names_what_it_cannot_know():
    class Takes(nn.Module):
        @nn.compact
        def __call__(self, x):
            return self.param("w", lambda key: x)

    with fails(errors.LazyInitError, "ShapeDtypeStruct"):
        Takes().lazy_init(KEY, weft.ShapeDtypeStruct((2,), jnp.float32))


def test_state_that_does_not_fit_is_refused_with_its_place():
    with fails(ValueError, "lacks 'b'", "'./a'"):
        serialization.from_state_dict({"a": {"b": 1}}, {"a": {"c": 1}})
    with fails(ValueError, "2 elements", "1"):
        serialization.from_state_dict([1, 2], {"0": 1})

    @struct.dataclass
    class Point:
        x: float

    with fails(ValueError, "Point", "y"):
        serialization.from_state_dict(Point(1.0), {"x": 2.0, "y": 3.0})
    with fails(ValueError, "middle of a value"):
        serialization.from_bytes(Point(1.0), serialization.to_bytes(Point(1.0))[:-3])
    with fails(TypeError, "cannot serialize", "object"):
        serialization.to_bytes({"a": object()})


class Plain(nn.Module):
    """A module that makes its parameters inside of a plain transformation."""

    transform: object

    @nn.compact
    def __call__(self, x):
        return self.transform(lambda x: nn.Dense(3, name="inner")(x))(x)


def by_scan(f):
    return lambda x: weft.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]


@pytest.mark.parametrize("transform", [weft.jit, weft.checkpoint, by_scan])
@pytest.mark.parametrize("outer", [lambda f: f, weft.jit])
def test_parameters_made_inside_of_a_plain_transformation(transform, outer):
    model = Plain(transform)
    with fails(errors.JaxTransformError, "params/inner/kernel", "nn.scan", "weft.jit"):
        outer(model.init)(KEY, X)


def test_plain_transformations_that_keep_nothing_are_fine():
    given = {"params": {"inner": nn.Dense(3).init(KEY, X)["params"]}}
    for transform in (weft.jit, weft.vmap, weft.checkpoint, by_scan):
        assert Plain(transform).apply(given, X).shape == (2, 3)
    assert Plain(weft.vmap).init(KEY, X)["params"]["inner"]["kernel"].shape == (3, 3)


def test_products_of_other_formats_than_8_bits():
    with fails(TypeError, "float16", "float8_e4m3fn"):
        nn.fp8_ops.quantize(X, jnp.float16, jnp.ones(1), jnp.float32)
    with pytest.warns(UserWarning, match="leave precision out"):
        metas = {f"{s}_scale": jnp.ones(1) for s in ("lhs", "rhs", "grad")}
        metas |= {f"{s}_amax_history": jnp.zeros(2) for s in ("lhs", "rhs", "grad")}
        nn.fp8_ops.fp8_scaled_dot_general(X, X.T, (((1,), (0,)), ((), ())), "highest", **metas)
    with pytest.warns(DeprecationWarning, match="Fp8DirectDotGeneralOp"):
        nn.Fp8DotGeneralOp()
