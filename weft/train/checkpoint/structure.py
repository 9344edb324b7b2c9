"""Pytrees as leaves by name, and the shape of the tree as JSON.

A name is the path to a leaf, its parts joined by ``/``, as in ``params/Dense_0/kernel``.
"""

from typing import Any

from weft import tree_util
from weft.train.checkpoint.errors import CheckpointError

MAX_DEPTH = 200


def escape(part: Any) -> str:
    """A key as a part of a name: ``/`` and ``~`` are written ``~1`` and ``~0``.

    >>> escape("a/b"), escape(3)
    ('a~1b', '3')
    """
    return str(part).replace("~", "~0").replace("/", "~1")


def _plain_key(entry: Any) -> Any:
    """The key, index or attribute that an entry of a path stands for."""
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return str(entry)


def name_of(path: tuple[Any, ...]) -> str:
    """The name of a leaf, from its path as ``tree_flatten_with_path`` gives it.

    >>> name_of((tree_util.DictKey("params"), tree_util.SequenceKey(0)))
    'params/0'
    """
    return "/".join(escape(_plain_key(entry)) for entry in path)


def named_leaves(tree: Any, is_leaf: Any = None) -> tuple[dict[str, Any], Any]:
    """The leaves of a tree by name, and its treedef.

    >>> named_leaves({"a": (1, 2)})[0]
    {'a/0': 1, 'a/1': 2}
    """
    entries, treedef = tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
    leaves: dict[str, Any] = {}
    for path, leaf in entries:
        name = name_of(path)
        if name in leaves:
            raise CheckpointError(f"two leaves of the tree are named {name!r}")
        leaves[name] = leaf
    return leaves, treedef


def _children(tree: Any) -> list[tuple[Any, Any]] | None:
    """The keys and values one level below a node; None for a leaf."""
    entries = tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)[0]
    if len(entries) == 1 and not entries[0][0]:
        return None
    return [(_plain_key(path[0]), value) for path, value in entries]


def describe(tree: Any, prefix: str = "", depth: int = 0) -> Any:
    """The shape of a tree as JSON, in which a leaf is its name.

    Dictionaries, lists, tuples and None are named as such; other nodes by their type, for readers.

    >>> describe({"a": [1, None]})
    {'kind': 'dict', 'items': [['a', {'kind': 'list', 'items': ['a/0', None]}]]}
    """
    if depth > MAX_DEPTH:
        raise CheckpointError(f"the tree is more than {MAX_DEPTH} levels deep, at {prefix!r}")
    if tree is None:
        return None
    children = _children(tree)
    if children is None:
        return prefix
    below = [
        (key, describe(value, f"{prefix}/{escape(key)}" if depth else escape(key), depth + 1))
        for key, value in children
    ]
    if type(tree) in (list, tuple):
        return {"kind": type(tree).__name__, "items": [node for _, node in below]}
    plain = type(tree) is dict and all(type(key) in (str, int) for key, _ in below)
    items = [[key if plain else str(key), node] for key, node in below]
    if plain:
        return {"kind": "dict", "items": items}
    return {"kind": "node", "type": type(tree).__name__, "items": items}


def plain_tree(tree: Any, where: str) -> tuple[Any, dict[str, Any]]:
    """The description and the leaves of dictionaries, lists and tuples that come from a file.

    Keys need no order here, and no code is made for the tree, as weft does for a program's own.

    >>> plain_tree({"a": [1, None]}, "a file")[1]
    {'a/0': 1}
    """
    leaves: dict[str, Any] = {}

    def walk(node: Any, prefix: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise CheckpointError(f"{where}: its tree is more than {MAX_DEPTH} levels deep")
        if node is None:
            return None
        below = lambda key: f"{prefix}/{escape(key)}" if depth else escape(key)
        if type(node) is dict:
            if not all(type(key) in (str, int) for key in node):
                raise CheckpointError(f"{where}: its tree has a key that is not text")
            items = [[key, walk(child, below(key), depth + 1)] for key, child in node.items()]
            return {"kind": "dict", "items": items}
        if type(node) in (list, tuple):
            children = [walk(child, below(i), depth + 1) for i, child in enumerate(node)]
            return {"kind": type(node).__name__, "items": children}
        if prefix in leaves:
            raise CheckpointError(f"{where}: two leaves are named {prefix!r:.80}")
        leaves[prefix] = node
        return prefix

    return walk(tree, "", 0), leaves


def check(node: Any, names: set[str], where: str, depth: int = 0) -> None:
    """Raise unless a description is one, and take the names of its leaves from ``names``."""
    if depth > MAX_DEPTH + 1:
        raise CheckpointError(f"{where}: its tree is more than {MAX_DEPTH} levels deep")
    if node is None:
        return
    if type(node) is str:
        if node not in names:
            raise CheckpointError(f"{where}: its tree names {node!r:.80}, which is not there once")
        names.remove(node)
        return
    if type(node) is not dict or type(node.get("items")) is not list:
        raise CheckpointError(f"{where}: its tree has a node {node!r:.80}")
    kind, fields = node.get("kind"), {"kind", "items"} | ({"type"} & set(node))
    if set(node) != fields or kind not in ("list", "tuple", "dict", "node"):
        raise CheckpointError(f"{where}: its tree has a node of kind {kind!r:.80}")
    if ("type" in node) != (kind == "node") or type(node.get("type", "")) is not str:
        raise CheckpointError(f"{where}: its tree has a node without a type, or with one too many")
    children = node["items"]
    if kind in ("dict", "node"):
        keyed = all(
            type(item) is list and len(item) == 2 and type(item[0]) in (str, int)
            for item in children
        )
        if not keyed or len({item[0] for item in children}) != len(children):
            raise CheckpointError(f"{where}: its tree has a {kind} with wrong or equal keys")
        children = [item[1] for item in children]
    for child in children:
        check(child, names, where, depth + 1)


def build(node: Any, leaves: dict[str, Any]) -> Any:
    """The tree of a checked description; nodes of other types become dictionaries.

    >>> build(describe({"a": (1, None)}), {"a/0": 10})
    {'a': (10, None)}
    """
    if node is None:
        return None
    if type(node) is str:
        return leaves[node]
    if node["kind"] in ("dict", "node"):
        return {key: build(child, leaves) for key, child in node["items"]}
    made = [build(child, leaves) for child in node["items"]]
    return tuple(made) if node["kind"] == "tuple" else made


def below(node: Any, at: str) -> Any:
    """The part of a description at a name; KeyError where there is none.

    >>> below(describe({"a": (1, 2)}), "a/1")
    'a/1'
    """
    for part in at.split("/") if at else []:
        if type(node) is not dict:
            raise KeyError(at)
        if node["kind"] in ("dict", "node"):
            found = {escape(key): child for key, child in node["items"]}
        else:
            found = {str(i): child for i, child in enumerate(node["items"])}
        node = found[part]
    return node
