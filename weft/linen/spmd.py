"""Logical names of axes, and the rules that map them to axes of a mesh."""

import contextlib
import enum
import functools
import threading
from collections import Counter

from weft import lax, sharding, tree_util
from weft.linen import meta, struct


class _Rules(threading.local):
    def __init__(self):
        self.rules = ()


class _Unassigned:
    """An axis that no rule names."""

    def __repr__(self):
        return "unassigned"


_current, _unassigned = _Rules(), _Unassigned()


def set_logical_axis_rules(rules) -> None:
    """Set the rules, pairs of a logical name and a mesh axis (or None, or several)."""
    _current.rules = rules


def get_logical_axis_rules():
    """The rules that are set."""
    return _current.rules


@contextlib.contextmanager
def logical_axis_rules(rules):
    """A scope with other rules.

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
        raise ValueError(f"the axes {twice} occur twice in {names}: one array cannot have that")
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


def logical_to_mesh_axes(array_dim_names, rules=None):
    """The PartitionSpec of an array with logically named axes."""
    found = _assign(array_dim_names, rules)
    if found is None:
        return None
    return sharding.PartitionSpec(*(None if x is _unassigned else x for x in found))


def _is_spec(x):
    return isinstance(x, sharding.PartitionSpec)


def logical_to_mesh(tree, rules=None):
    """The specs of a tree, with mesh axes in the place of logical names."""
    return tree_util.tree_map(lambda x: logical_to_mesh_axes(x, rules), tree, is_leaf=_is_spec)


def logical_to_mesh_sharding(tree, mesh, rules=None):
    """The specs of a tree as shardings over a mesh."""
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
    x,
    logical_axis_resources,
    rules=None,
    mesh=None,
    fallback=RulesFallback.AXIS_IS_UNSHARDED,
):
    """Constrain an array, or a tree of them, to the sharding its logical names stand for."""
    rules = get_logical_axis_rules() if rules is None else rules
    if not rules or logical_axis_resources is None:
        return x
    one = functools.partial(_constrain, fallback=fallback, rules=rules, mesh=mesh)
    return tree_util.tree_map(one, logical_axis_resources, x, is_leaf=_is_logical_spec)


class LogicallyPartitioned(meta.Partitioned):
    """A value with logical names for its axes, and the rules that map them to a mesh."""

    rules: object = struct.field(default=None, pytree_node=False)

    def unbox(self, apply_constraint=True):
        """The value, constrained to its sharding where a mesh is known."""
        if not apply_constraint or (self.mesh is None and not meta.global_mesh_defined()):
            return self.value
        spec = self.get_partition_spec()
        return with_logical_constraint(self.value, spec, rules=self.rules, mesh=self.mesh)


def with_logical_partitioning(fn, names, mesh=None, rules=None):
    """An initialiser whose result is boxed with logical names of its axes."""

    @functools.wraps(fn)
    def boxed(*args, **kwargs):
        return LogicallyPartitioned(fn(*args, **kwargs), names, mesh=mesh, rules=rules)

    return boxed
