"""Boxes around variables that say how their axes are named: the counterpart of ``flax.core.meta``.

A box is a pytree node; modules see what is inside, ``init`` returns it boxed.
"""

import abc
import functools
from collections.abc import Callable
from typing import Any

from weft import lax, sharding, tree_util
from weft.linen import struct
from weft.linen.errors import PartitioningUnspecifiedError

PARTITION_NAME = "partition_name"


class AxisMetadata(abc.ABC):
    """A box around a value whose axes have a meaning, which lifted transformations keep."""

    @abc.abstractmethod
    def unbox(self):
        """The value inside."""

    @abc.abstractmethod
    def replace_boxed(self, val):
        """The same box around another value."""

    @abc.abstractmethod
    def add_axis(self, index, params):
        """The box after a lifted transformation added an axis."""

    @abc.abstractmethod
    def remove_axis(self, index, params):
        """The box after a lifted transformation removed an axis."""


def is_axis_metadata(val) -> bool:
    """Whether a value is a box."""
    return isinstance(val, AxisMetadata)


def map_axis_meta(fn, tree):
    """Apply a function to every box in a tree."""
    return tree_util.tree_map(
        lambda x: fn(x) if isinstance(x, AxisMetadata) else x, tree, is_leaf=is_axis_metadata
    )


def add_axis(tree, index, params):
    """Tell every box in a tree about a new axis."""
    return map_axis_meta(lambda x: x.add_axis(index, params), tree)


def remove_axis(tree, index, params):
    """Tell every box in a tree that an axis is gone."""
    return map_axis_meta(lambda x: x.remove_axis(index, params), tree)


def unbox(tree: Any) -> Any:
    """Return a tree of variables without the boxes that name their axes.

    Args:
        tree: the tree.

    Returns:
        The tree with the values of the boxes in their place.

    Example:
        >>> from weft import linen as nn
        >>> nn.unbox({"w": nn.Partitioned(1.0, ("data",)), "b": 2.0})
        {'b': 2.0, 'w': 1.0}
    """
    return map_axis_meta(lambda x: unbox(x.unbox()), tree)


def replace_boxed(tree, updates):
    """The tree with other values in its boxes."""

    def update(old, new):
        if not isinstance(old, AxisMetadata):
            return new
        return old.replace_boxed(replace_boxed(old.unbox(), new))

    return tree_util.tree_map(update, tree, updates, is_leaf=is_axis_metadata)


def global_mesh_defined() -> bool:
    """Whether a mesh is set for the current scope."""
    return not sharding.get_abstract_mesh().empty


class Partitioned(struct.PyTreeNode, AxisMetadata):
    """A box around a value that names the mesh axis of each of its axes.

    Args:
        value: the value, usually an array.
        names: for each axis the name of a mesh axis, or None.
        mesh: the mesh. By default the one that is set.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import linen as nn
        >>> nn.Partitioned(jnp.ones((2, 3)), ("data", None)).get_partition_spec()
        P('data', None)
    """

    value: object
    names: tuple = struct.field(pytree_node=False)
    mesh: object = struct.field(default=None, pytree_node=False)

    def unbox(self, apply_constraint=True):
        """The value, constrained to its sharding where a mesh is known."""
        if not apply_constraint or (self.mesh is None and not global_mesh_defined()):
            return self.value
        spec = self.get_partition_spec()
        where = spec if self.mesh is None else sharding.NamedSharding(self.mesh, spec)
        return lax.with_sharding_constraint(self.value, where)

    def replace_boxed(self, val):
        return self.replace(value=val)

    def _axis_name(self, params):
        if PARTITION_NAME not in params:
            raise PartitioningUnspecifiedError(self)
        return params[PARTITION_NAME]

    def add_axis(self, index, params):
        name = self._axis_name(params)
        names = list(self.names)
        names += [None] * (index - len(names))
        names.insert(index, name)
        return self.replace(names=tuple(names))

    def remove_axis(self, index, params):
        name = self._axis_name(params)
        names = list(self.names)
        if names.pop(index) != name:
            raise ValueError(
                f"axis {index} of {self.names} is not named {name!r}, the name in metadata_params"
            )
        return self.replace(names=tuple(names))

    def get_partition_spec(self):
        """The names as a PartitionSpec."""
        return sharding.PartitionSpec(*self.names)

    def get_sharding(self, mesh):
        """The names as a sharding over a mesh."""
        return sharding.NamedSharding(mesh, self.get_partition_spec())


def with_partitioning(fn: Callable[..., Any], names: Any, mesh: Any = None) -> Callable[..., Any]:
    """Return an initialiser whose result is boxed with the names of its axes.

    Args:
        fn: the initialiser.
        names: for each axis the name of a mesh axis, or None.
        mesh: the mesh. By default the one that is set.

    Returns:
        An initialiser that returns ``Partitioned`` values.

    Example:
        >>> import weft
        >>> init = with_partitioning(weft.nn.initializers.ones, ("data", None))
        >>> init(weft.random.key(0), (2, 3)).names
        ('data', None)
    """

    @functools.wraps(fn)
    def boxed(*args, **kwargs):
        return Partitioned(fn(*args, **kwargs), names, mesh=mesh)

    return boxed


def _spec(x):
    if hasattr(x, "get_partition_spec"):
        return x.get_partition_spec()
    return sharding.PartitionSpec() if hasattr(x, "shape") else None


def get_partition_spec(tree: Any) -> Any:
    """Return the PartitionSpec of every variable in a tree.

    Args:
        tree: a tree of variables, boxed or not, or of their shapes.

    Returns:
        A tree of ``PartitionSpec``, empty where a variable has no box.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import linen as nn
        >>> nn.get_partition_spec({"w": nn.Partitioned(jnp.ones(2), ("data",)), "b": jnp.ones(2)})
        {'b': P(), 'w': P('data',)}
    """
    return tree_util.tree_map(_spec, tree, is_leaf=is_axis_metadata)


def get_sharding(tree: Any, mesh: Any) -> Any:
    """Return the sharding over a mesh of every variable in a tree.

    Args:
        tree: a tree of variables, boxed or not, or of their shapes.
        mesh: the mesh.

    Returns:
        A tree of ``NamedSharding``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> mesh = weft.make_mesh((1,), ("data",))
        >>> nn.get_sharding(nn.Partitioned(jnp.ones(2), ("data",)), mesh).spec
        P('data',)
    """

    def one(x):
        if hasattr(x, "get_sharding"):
            return x.get_sharding(mesh)
        spec = _spec(x)
        return None if spec is None else sharding.NamedSharding(mesh, spec)

    return tree_util.tree_map(one, tree, is_leaf=is_axis_metadata)
