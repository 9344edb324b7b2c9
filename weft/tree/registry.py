"""Registering classes as tree nodes, and asking what a type is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, TypeVar

from weft.base.lazy import Late
from weft.tree.flattening import (
    expand_with_keys,
    flatten_into,
    flatten_until,
    flatten_with_path,
    forget_type,
)
from weft.tree.kinds import custom_kind, dataclass_kind, kind_of, kinds
from weft.tree.nodes import Kind
from weft.tree.treedef import PyTreeDef, treedef_of

# a millisecond to import, and of use to those who have dataclasses
dataclasses = Late("dataclasses")

T = TypeVar("T", bound=type)


def _register(kind: Kind) -> None:
    cls = kind.type
    if not isinstance(cls, type):
        raise TypeError(f"only types can be registered as pytree nodes, not {cls!r}")
    if cls in kinds:
        raise ValueError(f"{cls} is already registered as a pytree node")
    kinds[cls] = kind
    forget_type(cls)


def register_pytree_node(
    nodetype: type[Any],
    flatten_func: Callable[[Any], tuple[Any, Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Make a class a tree node.

    Args:
        nodetype: the class.
        flatten_func: ``flatten_func(obj)`` returns ``(children, aux_data)``. The auxiliary data
            belongs to the structure and should be hashable.
        unflatten_func: ``unflatten_func(aux_data, children)`` makes an object again.
        flatten_with_keys_func: the same as ``flatten_func`` with ``(key, child)`` pairs, for paths.

    Example:
        >>> from weft import tree
        >>> class Span:
        ...     def __init__(self, low, high, unit):
        ...         self.low, self.high, self.unit = low, high, unit
        >>> register_pytree_node(
        ...     Span,
        ...     lambda s: ((s.low, s.high), s.unit),
        ...     lambda unit, ends: Span(*ends, unit),
        ... )
        >>> tree.flatten(Span(1, 2, "m"))
        ([1, 2], PyTreeDef(CustomNode(Span[m], [*, *])))
    """
    for name, func in (("flatten_func", flatten_func), ("unflatten_func", unflatten_func)):
        if not callable(func):
            raise TypeError(f"{name} must be a function, got {func!r}")
    if flatten_with_keys_func is not None and not callable(flatten_with_keys_func):
        raise TypeError(f"flatten_with_keys_func must be a function, got {flatten_with_keys_func}")
    _register(custom_kind(nodetype, flatten_func, unflatten_func, flatten_with_keys_func))


def register_pytree_with_keys(
    nodetype: type[Any],
    flatten_with_keys: Callable[[Any], tuple[Any, Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Make a class a tree node whose children have keys of their own.

    Args:
        nodetype: the class.
        flatten_with_keys: ``flatten_with_keys(obj)`` returns ``(pairs, aux_data)``, with a ``(key,
            child)`` pair for each child.
        unflatten_func: ``unflatten_func(aux_data, children)`` makes an object again.
        flatten_func: a quicker way to the same children without keys.

    Example:
        >>> from weft import tree, tree_util
        >>> class Point:
        ...     def __init__(self, x, y):
        ...         self.x, self.y = x, y
        >>> register_pytree_with_keys(
        ...     Point,
        ...     lambda p: (
        ...         ((tree_util.GetAttrKey("x"), p.x), (tree_util.GetAttrKey("y"), p.y)), None
        ...     ),
        ...     lambda aux, xy: Point(*xy),
        ... )
        >>> [tree_util.keystr(path) for path, leaf in tree.leaves_with_path([Point(3, 4)])]
        ['[0].x', '[0].y']
    """
    if not flatten_func:

        def without_keys(obj: Any) -> tuple[Any, Any]:
            pairs, aux = flatten_with_keys(obj)
            return [child for _, child in pairs], aux

        flatten_func = without_keys
    register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: T) -> T:
    """Make a class with methods ``tree_flatten`` and ``tree_unflatten`` a tree node.

    Args:
        cls: the class.

    Returns:
        The class, for use as a decorator.

    Example:
        >>> from weft import tree
        >>> @register_pytree_node_class
        ... class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        ...     def tree_flatten(self):
        ...         return (self.a, self.b), None
        ...     @classmethod
        ...     def tree_unflatten(cls, aux, children):
        ...         return cls(*children)
        >>> tree.leaves(Pair(1, [2, 3]))
        [1, 2, 3]
    """
    register_pytree_node(cls, methodcaller("tree_flatten"), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_pytree_with_keys_class(cls: T) -> T:
    """Make a class with ``tree_flatten_with_keys`` and ``tree_unflatten`` a tree node.

    A method ``tree_flatten``, if there is one, is used where keys are not asked for.

    Args:
        cls: the class.

    Returns:
        The class, for use as a decorator.

    Example:
        >>> from weft import tree, tree_util
        >>> @register_pytree_with_keys_class
        ... class Cell:
        ...     def __init__(self, value):
        ...         self.value = value
        ...     def tree_flatten_with_keys(self):
        ...         return [(tree_util.GetAttrKey("value"), self.value)], None
        ...     @classmethod
        ...     def tree_unflatten(cls, aux, children):
        ...         return cls(*children)
        >>> tree.leaves_with_path(Cell(7))
        [((GetAttrKey(name='value'),), 7)]
    """
    plain = methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None
    with_keys = methodcaller("tree_flatten_with_keys")
    register_pytree_with_keys(cls, with_keys, cls.tree_unflatten, plain)  # type: ignore[attr-defined]
    return cls


def register_static(cls: T) -> T:
    """Make a class a tree node without leaves: its instances are part of the structure.

    Instances must be hashable and comparable; compiled functions treat them as static.

    Args:
        cls: the class.

    Returns:
        The class, for use as a decorator.

    Example:
        >>> from weft import tree
        >>> @register_static
        ... class Mode(str):
        ...     pass
        >>> tree.leaves([1, Mode("train")])
        [1]
    """
    register_pytree_node(cls, lambda obj: ((), obj), lambda obj, _: obj, lambda obj: ((), obj))
    return cls


def static(**kwargs: Any) -> Any:
    """Return a dataclass field that belongs to the structure, not to the leaves.

    Args:
        **kwargs: the arguments of ``dataclasses.field``.

    Returns:
        The field.

    Example:
        >>> from dataclasses import dataclass
        >>> from weft import tree
        >>> from weft.tree_util import register_dataclass
        >>> @register_dataclass
        ... @dataclass
        ... class Scale:
        ...     factor: float
        ...     name: str = static(default="x")
        >>> tree.flatten(Scale(2.0))
        ([2.0], PyTreeDef(CustomNode(Scale[('x',)], [*])))
    """
    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)


def register_dataclass(
    nodetype: T,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> T:
    """Make a dataclass a tree node: data fields are children, meta fields are structure.

    Without field lists, fields whose metadata holds ``static=True`` are meta fields, and all others
    data fields.

    Args:
        nodetype: the class.
        data_fields: the names of the data fields. Classes that are no dataclasses need both lists.
        meta_fields: the names of the meta fields.
        drop_fields: the names of fields that are neither.

    Returns:
        The class, for use as a decorator.

    Example:
        >>> from dataclasses import dataclass
        >>> from weft import tree
        >>> from weft.tree_util import register_dataclass
        >>> @register_dataclass
        ... @dataclass
        ... class Linear:
        ...     w: float
        ...     b: float
        >>> tree.map(lambda x: 2 * x, Linear(w=1.0, b=3.0))
        Linear(w=2.0, b=6.0)
    """
    if data_fields is None or meta_fields is None:
        data_fields, meta_fields = _infer_fields(nodetype, data_fields, meta_fields)
    data, meta = tuple(data_fields), tuple(meta_fields)
    if dataclasses.is_dataclass(nodetype):
        _check_fields(nodetype, {*data, *meta}, drop_fields)
    both = set(data) & set(meta)
    if both:
        raise ValueError(
            f"fields of {nodetype} must be data or meta, not both: {', '.join(sorted(both))}"
        )
    _register(dataclass_kind(nodetype, data, meta))
    return nodetype


def _infer_fields(
    nodetype: Any, data: Sequence[str] | None, meta: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    if data is not None or meta is not None:
        raise TypeError(
            "register_dataclass takes both data_fields and meta_fields or neither, "
            f"got data_fields={data} and meta_fields={meta}"
        )
    if not dataclasses.is_dataclass(nodetype):
        raise TypeError(
            f"{nodetype} is not a dataclass: give register_dataclass its data_fields and "
            "meta_fields"
        )
    fields = [(f.name, f.metadata.get("static", False)) for f in dataclasses.fields(nodetype)]
    return [name for name, fixed in fields if not fixed], [name for name, fixed in fields if fixed]


def _check_fields(nodetype: Any, given: set[str], drop: Sequence[str]) -> None:
    wanted = {f.name for f in dataclasses.fields(nodetype) if f.init} - set(drop)
    if given == wanted:
        return
    text = f"the data and meta fields of {nodetype} must be its fields with init=True"
    if wanted - given:
        missing = ", ".join(sorted(wanted - given))
        text += f"; missing: {missing} (name them in drop_fields to leave them out)"
    if given - wanted:
        text += f"; unexpected: {', '.join(sorted(given - wanted))}"
    raise ValueError(text)


def is_tree_node(typ: type) -> bool:
    """Return whether objects of a type are containers rather than leaves.

    Args:
        typ: the type.

    Returns:
        True or False.

    Example:
        >>> is_tree_node(dict), is_tree_node(float)
        (True, False)
    """
    return isinstance(typ, type) and kind_of(typ) is not None


def flatten_one_level(tree: Any) -> tuple[Any, Any]:
    """Return the children of a container, not opened further, and its auxiliary data.

    Args:
        tree: a container.

    Returns:
        A pair of the children and the auxiliary data.

    Example:
        >>> flatten_one_level({"a": [1, 2], "b": {"c": 3}})
        (([1, 2], {'c': 3}), ('a', 'b'))
    """
    return _require(default_registry.flatten_one_level(tree), tree)


def flatten_one_level_with_keys(tree: Any) -> tuple[Any, Any]:
    """Return the (key, child) pairs of a container, and its auxiliary data.

    Args:
        tree: a container.

    Returns:
        A pair of the pairs and the auxiliary data.

    Example:
        >>> flatten_one_level_with_keys([5])
        (((SequenceKey(idx=0), 5),), None)
    """
    return _require(default_registry.flatten_one_level_with_keys(tree), tree)


def _require(found: tuple[Any, Any] | None, tree: Any) -> tuple[Any, Any]:
    if found is None:
        raise ValueError(f"an object of type {type(tree)} is a leaf and cannot be flattened")
    return found


class PyTreeRegistry:
    """The types known as tree nodes, as an object; there is one, ``default_registry``."""

    def flatten(
        self, tree: Any, leaf_predicate: Callable[[Any], bool] | None = None
    ) -> tuple[list[Any], PyTreeDef]:
        """The leaves and the structure of a tree."""
        leaves: list[Any] = []
        if leaf_predicate is None:
            return leaves, treedef_of(flatten_into(tree, leaves))
        return leaves, treedef_of(flatten_until(tree, leaves, leaf_predicate))

    def flatten_with_path(
        self, tree: Any, leaf_predicate: Callable[[Any, Any], bool] | None = None
    ) -> tuple[list[tuple[Any, Any]], PyTreeDef]:
        """The (path, leaf) pairs and the structure of a tree."""
        pairs, node = flatten_with_path(tree, leaf_predicate)
        return pairs, treedef_of(node)

    def flatten_one_level(self, tree: Any) -> tuple[Any, Any] | None:
        """The children and auxiliary data of a container, None for a leaf."""
        kind = kind_of(type(tree))
        if kind is None:
            return None
        children, aux = kind.expand(tree)
        return (list(children), kind.type) if kind.tag == "namedtuple" else (children, aux)

    def flatten_one_level_with_keys(self, tree: Any) -> tuple[Any, Any] | None:
        """The (key, child) pairs and auxiliary data of a container, None for a leaf."""
        kind = kind_of(type(tree))
        if kind is None:
            return None
        pairs, aux = expand_with_keys(kind, tree)
        return tuple(pairs), kind.type if kind.tag == "namedtuple" else aux

    def is_node(self, typ: type) -> bool:
        """Whether objects of this type are containers."""
        return is_tree_node(typ)

    def register_node(
        self,
        nodetype: type[Any],
        to_iterable: Callable[[Any], Any],
        from_iterable: Callable[[Any, Any], Any],
        to_iterable_with_keys: Callable[[Any], Any] | None = None,
    ) -> None:
        """As ``register_pytree_node``."""
        register_pytree_node(nodetype, to_iterable, from_iterable, to_iterable_with_keys)

    def register_dataclass_node(
        self, nodetype: type[Any], data_fields: Sequence[str], meta_fields: Sequence[str]
    ) -> None:
        """As ``register_dataclass``, without its checks of the fields."""
        _register(dataclass_kind(nodetype, tuple(data_fields), tuple(meta_fields)))

    def __reduce__(self) -> str:
        return "default_registry"


default_registry = PyTreeRegistry()
