"""Parameters and variables with logical names for their axes, kept in a collection beside them.

``param_with_axes`` stores the names of a parameter's axes in the collection ``params_axes``;
``get_axis_names`` reads them as specs, and ``axis_rules`` map them to the axes of a mesh. Models in
the style of T5X use this; ``weft.linen.with_logical_partitioning`` is the other way.
"""

import weft
from weft import tree_util
from weft.linen import lift, struct, transforms
from weft.linen.context import context
from weft.linen.core import freeze, unfreeze
from weft.linen.filters import union_filters
from weft.linen.scope import Variable
from weft.linen.spmd import (
    RulesFallback,
    _is_logical_spec,
    logical_to_mesh,
    logical_to_mesh_axes,
    with_logical_constraint,
)
from weft.linen.spmd import get_logical_axis_rules as get_axis_rules
from weft.linen.spmd import logical_axis_rules as axis_rules
from weft.linen.spmd import set_logical_axis_rules as set_axis_rules
from weft.linen.traverse_util import flatten_dict, unflatten_dict

__all__ = [
    "AxisMetadata", "PartitionedVariable", "RulesFallback", "ScanIn", "ScanOut", "axis_rules",
    "get_axis_names", "get_axis_rules", "logical_to_mesh", "logical_to_mesh_axes",
    "param_with_axes", "remat", "scan_with_axes", "set_axis_rules", "variable_with_axes",
    "vmap_with_axes", "with_sharding_constraint",
]  # fmt: skip

ScanIn, ScanOut = lift.In, lift.Out
with_sharding_constraint = with_logical_constraint


@struct.dataclass
class AxisMetadata:
    """The names of the axes of a variable, or a tree of them for a tree of arrays."""

    names: object = struct.field(pytree_node=False)


def _same_names(before, now):
    """What ``sow`` keeps: the names, which must not change from call to call."""
    if isinstance(before, AxisMetadata) and before != now:
        raise ValueError(
            f"the axes of a variable are named {before.names} in one place and {now.names} in "
            "another"
        )
    return now


def _current_module(module, what: str):
    module = context.modules[-1] if module is None else module
    if module is None:
        raise ValueError(f"{what} needs a module: call it in a method of one, or give module=")
    return module


def param_with_axes(name, init_fn, *init_args, axes=None, module=None, **init_kwargs):
    """A parameter of the module being called, with logical names for its axes.

    >>> import weft, weft.numpy as jnp
    >>> from weft import linen as nn
    >>> class Scale(nn.Module):
    ...     @nn.compact
    ...     def __call__(self, x):
    ...         return x * param_with_axes("scale", nn.initializers.ones, (3,), axes=("embed",))
    >>> variables = Scale().init(weft.random.key(0), jnp.ones(3))
    >>> get_axis_names(variables["params_axes"])
    FrozenDict({
        scale: P('embed',),
    })
    """
    module = _current_module(module, "param_with_axes")
    value = module.param(name, init_fn, *init_args, **init_kwargs)
    if axes is None:
        return value
    value = with_sharding_constraint(value, weft.sharding.PartitionSpec(*axes))
    module.sow("params_axes", f"{name}_axes", AxisMetadata(axes), reduce_fn=_same_names)
    return value


class PartitionedVariable(Variable):
    """A variable whose value is constrained to the sharding of its axes, read or assigned."""

    __slots__ = ("axes", "fallback")

    def __init__(
        self, scope, collection, name, axes=None, fallback=RulesFallback.AXIS_IS_UNSHARDED
    ):
        super().__init__(scope, collection, name)
        self.axes, self.fallback = axes, fallback

    def _constrained(self, value):
        if self.axes is None:
            return value
        return with_sharding_constraint(value, self.axes, fallback=self.fallback)

    @property
    def value(self):
        """What the variable holds now."""
        return self._constrained(Variable.value.fget(self))

    @value.setter
    def value(self, value):
        Variable.value.fset(self, self._constrained(value))


def variable_with_axes(
    collection,
    name,
    init_fn,
    *init_args,
    axes=None,
    module=None,
    fallback=RulesFallback.AXIS_IS_UNSHARDED,
    **init_kwargs,
):
    """A variable of the module being called, with logical names for its axes.

    The names are kept in the collection ``f"{collection}_axes"``.
    """
    module = _current_module(module, "variable_with_axes")

    def init(*args, **kwargs):
        value = init_fn(*args, **kwargs)
        return value if axes is None else with_sharding_constraint(value, axes, fallback=fallback)

    made = module.variable(collection, name, init, *init_args, **init_kwargs)
    if axes is not None:
        names = AxisMetadata(axes)
        module.sow(f"{collection}_axes", f"{name}_axes", names, reduce_fn=_same_names)
    return PartitionedVariable(made.scope, collection, name, axes, fallback)


def _map_names(fn, names):
    return tree_util.tree_map(
        lambda one: None if one is None else fn(one), names, is_leaf=_is_logical_spec
    )


def get_axis_names(axes_metadata):
    """The names of axes as specs, under the names of the variables they are of."""
    as_spec = lambda names: weft.sharding.PartitionSpec(*names)
    flat = flatten_dict(unfreeze(axes_metadata))
    found = {
        (*path[:-1], path[-1].removesuffix("_axes")): _map_names(as_spec, leaf.names)
        for path, leaf in flat.items()
    }
    return freeze(unflatten_dict(found))


def _with_axis(target, position, name: str, collection: str):
    """A lifted module or function whose names of axes have one more, where it is stacked."""
    position = getattr(position, "axis", position)

    def insert(names):
        names = list(names)
        names.insert(position, name)
        return tuple(names)

    def remove(names):
        names = list(names)
        if names[position] != name:
            raise ValueError(
                f"axis {position} of a variable of {collection!r} should be named {name!r}, but"
                f" its axes are {names}"
            )
        names.pop(position)
        return tuple(names)

    def mapped(fn):
        one = lambda x: x.replace(names=_map_names(fn, x.names)) if is_names(x) else x
        return lambda tree: tree_util.tree_map(one, tree, is_leaf=is_names)

    is_names = lambda x: isinstance(x, AxisMetadata)
    module = context.modules[-1]
    writes = True if module is None else module.is_mutable_collection(collection)
    return transforms.map_variables(
        target, collection, mapped(remove), mapped(insert), mutable=writes
    )


def scan_with_axes(
    target,
    variable_axes=transforms._NOTHING,
    variable_broadcast=False,
    variable_carry=False,
    split_rngs=transforms._NOTHING,
    in_axes=0,
    out_axes=0,
    length=None,
    reverse=False,
    unroll=1,
    axis_name="layers",
    axes_collections=("params",),
    data_transform=None,
    methods=None,
):
    """``weft.linen.scan`` that names the axis along which variables are stacked."""
    names = tuple(f"{collection}_axes" for collection in axes_collections)
    lifted = transforms.scan(
        target,
        variable_axes,
        union_filters(variable_broadcast, names),
        variable_carry,
        split_rngs,
        in_axes,
        out_axes,
        length,
        reverse,
        unroll,
        data_transform,
        methods=methods,
    )
    for collection in axes_collections:
        if collection in variable_axes:
            position = variable_axes[collection]
            lifted = _with_axis(lifted, position, axis_name, f"{collection}_axes")
    return lifted


def vmap_with_axes(
    target,
    variable_axes,
    split_rngs=transforms._NOTHING,
    in_axes=0,
    out_axes=0,
    axis_size=None,
    axis_name=None,
    partitioning_axis_names=transforms._NOTHING,
    spmd_axis_name=None,
    methods=None,
):
    """``weft.linen.vmap`` that names the axis along which the variables of collections are stacked.

    ``partitioning_axis_names`` gives the name for each collection.
    """
    given = dict(variable_axes)
    axes = {**given, **{f"{collection}_axes": None for collection in partitioning_axis_names}}
    lifted = transforms.vmap(
        target,
        axes,
        split_rngs,
        in_axes,
        out_axes,
        axis_size,
        axis_name,
        spmd_axis_name,
        methods=methods,
    )
    for collection, position in given.items():
        if collection in partitioning_axis_names:
            name = partitioning_axis_names[collection]
            lifted = _with_axis(lifted, position, name, f"{collection}_axes")
    return lifted


def remat(
    target,
    variables=True,
    rngs=True,
    concrete=False,
    prevent_cse=True,
    static_argnums=(),
    policy=None,
    methods=None,
):
    """``weft.linen.remat``, with ``static_argnums`` that count from the first argument."""
    shifted = tuple(i + 1 for i in static_argnums)
    return transforms.remat(
        target, variables, rngs, concrete, prevent_cse, shifted, policy, methods
    )
