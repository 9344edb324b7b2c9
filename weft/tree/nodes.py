"""The interned vertices that tree structures are made of, and the kinds of container behind them.

Two structures made alike share one ``Node``, so that comparing them is usually comparing pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

# More live structures than any sane program has; past it everything interned is forgotten at once.
MAX_NODES = 16384
# Wider nodes are not shared, so that the table stays small in bytes too.
MAX_CHILDREN = 4096


class Kind:
    """What one container type needs: how to open it, rebuild it and name its children.

    ``expand(obj)`` gives ``(children, aux)`` and ``build(aux, children)`` undoes it.
    ``child_keys(aux, n)`` names the children where the structure alone decides the names;
    where the object decides, it is None and ``expand_with_keys(obj)`` gives (key, child) pairs.
    ``fields`` are the attributes that hold the children, and those that hold the auxiliary data,
    of objects that are nothing else.
    """

    __slots__ = ("build", "child_keys", "expand", "expand_with_keys", "fields", "tag", "type")

    def __init__(
        self,
        type_: type | None,
        tag: str,
        expand: Callable[[Any], tuple[Sequence[Any], Any]],
        build: Callable[[Any, Sequence[Any]], Any],
        child_keys: Callable[[Any, int], Sequence[Any]] | None,
        expand_with_keys: Callable[[Any], tuple[Sequence[Any], Any]] | None = None,
        fields: tuple[tuple[str, ...], tuple[str, ...]] | None = None,
    ) -> None:
        self.type = type_
        self.tag = tag
        self.expand = expand
        self.build = build
        self.child_keys = child_keys
        self.expand_with_keys = expand_with_keys
        self.fields = fields


class Node:
    """One vertex of a structure. Equality is identity; ``same`` compares by value."""

    __slots__ = (
        "aux",
        "children",
        "flat",
        "flattener",
        "hash",
        "interned",
        "kind",
        "num_leaves",
        "num_nodes",
        "paths",
        "treedef",
        "unflattener",
        "uses",
    )
    num_leaves: int
    num_nodes: int
    flat: bool
    interned: bool

    def __init__(self, kind: Kind, aux: Any, children: tuple[Node, ...]) -> None:
        self.kind = kind
        self.aux = aux
        self.children = children
        self.num_leaves = sum(c.num_leaves for c in children)
        self.num_nodes = 1 + sum(c.num_nodes for c in children)
        self.flat = children.count(LEAF) == len(children) if children else True
        self.interned = False
        self.hash: int | None = None
        self.treedef: Any = None
        self.paths: list[tuple[Any, ...]] | None = None
        self.flattener: Callable[[Any, bool], list[Any] | None] | None = None
        self.unflattener: Callable[[Sequence[Any]], Any] | None = None
        self.uses = 0


def _leaf_kind() -> Kind:
    def expand(obj: Any) -> tuple[Sequence[Any], Any]:
        raise ValueError(f"a leaf of type {type(obj)} has no children")

    return Kind(None, "leaf", expand, lambda aux, children: children[0], None)


LEAF = Node(_leaf_kind(), None, ())
LEAF.num_leaves = 1
LEAF.flat = False
LEAF.interned = True

_table: dict[tuple[Any, ...], Node] = {}
_on_clear: list[Callable[[], None]] = []
_PLAIN = frozenset({int, bool, bytes, type, type(None)})


def on_clear(forget: Callable[[], None]) -> None:
    """Have ``forget`` called whenever the interned nodes are dropped."""
    _on_clear.append(forget)


def clear() -> None:
    """Forget every interned node; structures already handed out stay valid."""
    _table.clear()
    for forget in _on_clear:
        forget()


def exact(value: Any) -> Any:
    """A key under which only interchangeable values meet, or None if there is none.

    Equality is not enough: ``1 == True`` and ``0.0 == -0.0``, yet unflattening has to give back
    the one that was flattened. Objects that may be large or short-lived get no key, so that the
    table does not keep them alive.
    """
    kind = type(value)
    if kind is str:
        return value
    if kind in _PLAIN:
        return (kind, value)
    if kind is float:
        return (kind, value.hex())
    if kind is tuple:
        parts = tuple(map(exact, value))
        return None if any(part is None for part in parts) else (kind, parts)
    return None


def intern(kind: Kind, aux: Any, aux_key: Any, children: tuple[Node, ...]) -> Node:
    """The node of this make; ``aux_key`` None means that it cannot be shared."""
    if aux_key is None or len(children) > MAX_CHILDREN:
        return Node(kind, aux, children)
    key = (kind, aux_key, children)
    node = _table.get(key)
    if node is None:
        node = Node(kind, aux, children)
        if all(child.interned for child in children):
            if len(_table) >= MAX_NODES:
                clear()
            node.interned = True
            _table[key] = node
    return node


def make_node(kind: Kind, aux: Any, children: Iterable[Node]) -> Node:
    """The node of ``kind`` with this auxiliary data over ``children``."""
    return intern(kind, aux, exact(aux), tuple(children))


def node_hash(node: Node) -> int:
    """A hash that agrees with ``same``; data that cannot be hashed is left out."""
    if node.hash is None:
        try:
            aux = hash(node.aux)
        except TypeError:
            aux = 0
        children = tuple([node_hash(child) for child in node.children])
        node.hash = hash((node.kind.type, aux, children))
    return node.hash


def same(a: Node, b: Node) -> bool:
    """Whether two structures are equal by value."""
    if a is b:
        return True
    if a is LEAF or b is LEAF or a.kind.type is not b.kind.type:
        return False
    if len(a.children) != len(b.children) or not bool(a.aux == b.aux):
        return False
    return all(map(same, a.children, b.children))


def graft(node: Node, replace: Callable[[], Node]) -> Node:
    """The structure with each leaf, left to right, replaced by what ``replace`` returns."""
    if node is LEAF:
        return replace()
    return make_node(node.kind, node.aux, [graft(child, replace) for child in node.children])
