"""Structures of trees written without code: containers by name, registered classes by a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base.record import Record
from weft.base.traceback import api_boundary
from weft.tree.functions import tree_structure, tree_unflatten
from weft.tree.registry import flatten_one_level, is_tree_node


class _Kind(Record):
    """How objects of a class are written."""

    cls: type
    name: str
    write_aux: Callable[[Any], bytes]
    read_aux: Callable[[bytes], Any]
    make: Callable[[Any, Any], Any]


_by_class: dict[type, _Kind] = {}
_by_name: dict[str, _Kind] = {}


def _register(kind: _Kind) -> None:
    if kind.name in _by_name or kind.cls in _by_class:
        raise ValueError(f"{kind.cls} or the name {kind.name!r} is already registered")
    _by_class[kind.cls] = _by_name[kind.name] = kind


@api_boundary
def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Let exported functions take and return named tuples of a class.

    Args:
        nodetype: the class.
        serialized_name: the name by which it is known in serialised functions.

    Returns:
        The class.

    Example:
        >>> from typing import NamedTuple
        >>> class Point(NamedTuple):
        ...     x: float
        ...     y: float
        >>> register_namedtuple_serialization(Point, serialized_name="docs.Point").__name__
        'Point'
    """
    if not (issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(f"{nodetype} isn't a named tuple class")
    make = lambda aux, children: nodetype(*children)
    _register(_Kind(nodetype, serialized_name, lambda aux: b"", lambda data: None, make))
    return nodetype


@api_boundary
def register_pytree_node_serialization(
    nodetype: type,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Any], Any] | None = None,
) -> type:
    """Let exported functions take and return objects of a class that is a registered tree node.

    Args:
        nodetype: the class.
        serialized_name: the name by which it is known in serialised functions.
        serialize_auxdata: a function from auxiliary data to bytes.
        deserialize_auxdata: a function from these bytes to auxiliary data.
        from_children: a function of auxiliary data and children that makes an object. By default as
            registered.

    Returns:
        The class.

    Example:
        >>> from weft import tree_util
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> take_apart = lambda pair: ((pair.a, pair.b), None)
        >>> _ = tree_util.register_pytree_node(Pair, take_apart, lambda _, c: Pair(*c))
        >>> register_pytree_node_serialization(
        ...     Pair, serialized_name="docs.Pair", serialize_auxdata=lambda aux: b"",
        ...     deserialize_auxdata=lambda data: None,
        ...     from_children=lambda aux, c: Pair(*c)).__name__
        'Pair'
    """
    if not is_tree_node(nodetype):
        raise ValueError(f"{nodetype} isn't a tree node; register it with tree_util first")
    make = from_children
    if make is None:
        unflatten = getattr(nodetype, "tree_unflatten", None)
        if unflatten is None:
            raise ValueError(f"{nodetype} has no constructor from children: pass from_children")
        make = unflatten
    _register(_Kind(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, make))
    return nodetype


class _Leaf:
    """Stands for an array."""


def write_tree(tree: Any) -> Any:
    """A structure as plain values."""
    return _write(tree_unflatten(tree, [_Leaf()] * tree.num_leaves))


def _write(x: Any) -> Any:
    kind = type(x)
    if kind is _Leaf:
        return ("leaf",)
    if x is None:
        return ("none",)
    if kind in (tuple, list):
        return (kind.__name__, [_write(item) for item in x])
    if kind is dict:
        return ("dict", [(_key(key), _write(item)) for key, item in x.items()])
    known = _by_class.get(kind)
    if known is None:
        raise ValueError(
            f"an exported function takes or returns objects of {kind}, which is not registered; "
            "call export.register_namedtuple_serialization or register_pytree_node_serialization"
        )
    children, aux = flatten_one_level(x)
    return ("node", known.name, known.write_aux(aux).hex(), [_write(item) for item in children])


def _key(key: Any) -> Any:
    if type(key) not in (str, int, bool, float):
        raise TypeError(f"keys of dictionaries are strings or numbers, got {key!r}")
    return key


def read_tree(written: Any) -> Any:
    """The structure of plain values that ``write_tree`` made."""
    return tree_structure(_read(written))


def _read(written: Any) -> Any:
    if type(written) is not tuple:
        raise ValueError(f"{written!r} isn't a structure")
    what = written[0]
    if what == "leaf":
        return _Leaf()
    if what == "none":
        return None
    if what in ("tuple", "list"):
        children = [_read(item) for item in written[1]]
        return tuple(children) if what == "tuple" else children
    if what == "dict":
        return {key: _read(item) for key, item in written[1]}
    _, name, aux, children = written
    if name not in _by_name:
        raise ValueError(f"an exported function uses {name!r}, which is not registered here")
    known = _by_name[name]
    return known.make(known.read_aux(bytes.fromhex(aux)), [_read(item) for item in children])
