"""Logical names of axes, and the rules that map them to axes of a mesh."""

import contextlib
import enum
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

from weft import lax, sharding, tree_util
from weft.linen import meta, struct

_T = TypeVar("_T")


class _Rules(threading.local):
    def __init__(self):
        self.rules = ()


class _Unassigned:
    """An axis that no rule names."""

    def __repr__(self):
        return "unassigned"


_current, _unassigned = _Rules(), _Unassigned()


def set_logical_axis_rules(rules: Any) -> None:
    """Set the rules that map logical axis names to mesh axes.

    Args:
        rules: pairs of a logical name and a mesh axis (or None, or several axes).

    Example:
        >>> from weft import linen as nn
        >>> nn.set_logical_axis_rules([("batch", "data")])
        >>> nn.get_logical_axis_rules()
        [('batch', 'data')]
        >>> nn.set_logical_axis_rules(())
    """
    _current.rules = rules


def get_logical_axis_rules() -> Sequence[tuple[Any, Any]]:
    """Return the rules that map logical axis names to mesh axes.

    Returns:
        The pairs that ``set_logical_axis_rules`` or ``logical_axis_rules`` set.

    Example:
        >>> from weft import linen as nn
        >>> with nn.logical_axis_rules([("batch", "data")]):
        ...     nn.get_logical_axis_rules()
        [('batch', 'data')]
    """
    return _current.rules


@contextlib.contextmanager
def logical_axis_rules(rules: Any) -> Iterator[None]:
    """Return a context manager that sets the rules for a scope.

    Args:
        rules: pairs of a logical name and a mesh axis (or None, or several axes).

    Returns:
        A context manager.

    Example:
        >>> with logical_axis_rules([("batch", "data"), ("embed", None)]):
        ...     logical_to_mesh_axes(("batch", "embed"))
        P('data', None)
    """
    before, _current.rules = _current.rules, rules
    try:
        yield
    finally:
        _current.rules = before


def _axis_names(value) -> set:
    names = set(tree_util.tree_leaves(value))
    return names - {None, _unassigned, sharding.PartitionSpec.UNCONSTRAINED}


def _assign(names, rules):
    """The mesh axis of every axis: of the first rule that names it and whose mesh axes are free."""
    if names is None:
        return None
    rules = get_logical_axis_rules() if rules is None else rules
    twice = [k for k, count in Counter(names).items() if count > 1 and isinstance(k, str)]
    if twice:
        raise ValueError(
            f"the axes {twice} appear twice in {names}; an array can use each axis only once"
        )
    if not isinstance(rules, (tuple, list)):
        raise ValueError(f"logical axis rules are a list of pairs, not {rules!r}")
    found = [_unassigned if isinstance(name, str) else name for name in names]
    for logical, mesh in rules:
        if logical not in names:
            continue
        at = list(names).index(logical)
        if found[at] is _unassigned and not _axis_names(mesh) & _axis_names(found):
            found[at] = mesh
    return found


@overload
def logical_to_mesh_axes(array_dim_names: None, rules: Any = None) -> None: ...
@overload
def logical_to_mesh_axes(array_dim_names: Any, rules: Any = None) -> sharding.PartitionSpec: ...
def logical_to_mesh_axes(array_dim_names: Any, rules: Any = None) -> sharding.PartitionSpec | None:
    """Return the PartitionSpec of an array with logically named axes.

    Args:
        array_dim_names: for each axis its logical name or None.
        rules: pairs of a logical name and a mesh axis (or None, or several axes). By default those
            that are set.

    Returns:
        A ``PartitionSpec`` of mesh axes; None if ``array_dim_names`` is None.

    Example:
        >>> from weft import linen as nn
        >>> nn.logical_to_mesh_axes(("batch", "embed"), [("batch", "data")])
        P('data', None)
    """
    found = _assign(array_dim_names, rules)
    if found is None:
        return None
    return sharding.PartitionSpec(*(None if x is _unassigned else x for x in found))


def _is_spec(x):
    return isinstance(x, sharding.PartitionSpec)


def logical_to_mesh(tree: _T, rules: Any = None) -> _T:
    """Return the specs of a tree, with mesh axes in the place of logical names.

    Args:
        tree: a tree of ``PartitionSpec`` with logical names.
        rules: pairs of a logical name and a mesh axis (or None, or several axes). By default those
            that are set.

    Returns:
        A tree of ``PartitionSpec`` with mesh axes.

    Example:
        >>> import weft
        >>> from weft import linen as nn
        >>> nn.logical_to_mesh({"w": weft.P("embed", None)}, [("embed", "model")])
        {'w': P('model', None)}
    """
    return tree_util.tree_map(lambda x: logical_to_mesh_axes(x, rules), tree, is_leaf=_is_spec)


def logical_to_mesh_sharding(tree: Any, mesh: Any, rules: Any = None) -> Any:
    """Return the shardings over a mesh that a tree of logical specs stands for.

    Args:
        tree: a tree of ``PartitionSpec`` with logical names.
        mesh: the mesh.
        rules: pairs of a logical name and a mesh axis (or None, or several axes). By default those
            that are set.

    Returns:
        A tree of ``NamedSharding``.

    Example:
        >>> import weft
        >>> from weft import linen as nn
        >>> mesh = weft.make_mesh((1,), ("model",))
        >>> nn.logical_to_mesh_sharding(weft.P("embed"), mesh, [("embed", "model")]).spec
        P('model',)
    """
    specs = logical_to_mesh(tree, rules)
    one = lambda spec: sharding.NamedSharding(mesh, spec)
    return tree_util.tree_map(one, specs, is_leaf=_is_spec)


class RulesFallback(enum.Enum):
    """What to do with a logical name that no rule has."""

    AXIS_IS_UNSHARDED = "axis_is_unsharded"
    RAISE_ERROR = "raise_error"
    NO_CONSTRAINT = "no_constraint"


def _constrain(names, x, fallback, rules, mesh):
    axes = _assign(names, rules)
    spec = None
    if axes is not None:
        if any(a is _unassigned for a in axes) and fallback != RulesFallback.AXIS_IS_UNSHARDED:
            if fallback == RulesFallback.RAISE_ERROR:
                raise ValueError(f"no rule names all of the axes {names}")
            return x
        spec = sharding.PartitionSpec(*(None if a is _unassigned else a for a in axes))
    if mesh is None and not meta.global_mesh_defined():
        return x
    if mesh is not None and spec is not None:
        return lax.with_sharding_constraint(x, sharding.NamedSharding(mesh, spec))
    return x if spec is None else lax.with_sharding_constraint(x, spec)


def _is_logical_spec(x) -> bool:
    unconstrained = sharding.PartitionSpec.UNCONSTRAINED
    name = lambda e: e is None or isinstance(e, str) or e is unconstrained
    return x is None or (isinstance(x, tuple) and all(map(name, x)))


def with_logical_constraint(
    x: _T,
    logical_axis_resources: Any,
    rules: Any = None,
    mesh: Any = None,
    fallback: Any = RulesFallback.AXIS_IS_UNSHARDED,
) -> _T:
    """Return an array, or a tree of them, constrained to the sharding its logical names stand for.

    Args:
        x: the array or tree.
        logical_axis_resources: for each axis its logical name or None; a tree of such tuples for a
            tree.
        rules: pairs of a logical name and a mesh axis (or None, or several axes). By default those
            that are set.
        mesh: the mesh. By default the one that is set.
        fallback: what to do with a name that no rule has: a ``RulesFallback``.

    Returns:
        ``x``, with the constraint. It is unchanged where there are no rules or no mesh.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import linen as nn
        >>> nn.with_logical_constraint(jnp.ones(2), ("batch",)).shape
        (2,)
    """
    rules = get_logical_axis_rules() if rules is None else rules
    if not rules or logical_axis_resources is None:
        return x
    one = functools.partial(_constrain, fallback=fallback, rules=rules, mesh=mesh)
    return tree_util.tree_map(one, logical_axis_resources, x, is_leaf=_is_logical_spec)


class LogicallyPartitioned(meta.Partitioned):
    """A value with logical names for its axes, and the rules that map them to a mesh.

    Args:
        rules: pairs of a logical name and a mesh axis. By default those that are set.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import linen as nn
        >>> nn.LogicallyPartitioned(jnp.ones((2, 3)), ("batch", "embed")).get_partition_spec()
        P('batch', 'embed')
    """

    rules: object = struct.field(default=None, pytree_node=False)

    def unbox(self, apply_constraint=True):
        """The value, constrained to its sharding where a mesh is known."""
        if not apply_constraint or (self.mesh is None and not meta.global_mesh_defined()):
            return self.value
        spec = self.get_partition_spec()
        return with_logical_constraint(self.value, spec, rules=self.rules, mesh=self.mesh)


def with_logical_partitioning(
    fn: Callable[..., Any], names: Any, mesh: Any = None, rules: Any = None
) -> Callable[..., Any]:
    """Return an initialiser whose result is boxed with logical names of its axes.

    Args:
        fn: the initialiser.
        names: for each axis its logical name or None.
        mesh: the mesh. By default the one that is set.
        rules: pairs of a logical name and a mesh axis (or None, or several axes). By default those
            that are set.

    Returns:
        An initialiser that returns ``LogicallyPartitioned`` values.

    Example:
        >>> import weft
        >>> from weft import linen as nn
        >>> init = nn.with_logical_partitioning(nn.initializers.ones, ("batch", None))
        >>> init(weft.random.key(0), (2, 3)).names
        ('batch', None)
    """

    @functools.wraps(fn)
    def boxed(*args, **kwargs):
        return LogicallyPartitioned(fn(*args, **kwargs), names, mesh=mesh, rules=rules)

    return boxed
