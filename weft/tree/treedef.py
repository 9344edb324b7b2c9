"""``PyTreeDef``: the structure of a tree, as users hold, compare, print and store it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from weft.base.lazy import Late
from weft.tree.deep import deeply
from weft.tree.flattening import (
    flatten_up_to,
    is_prefix,
    unflatten,
)
from weft.tree.kinds import kind_of
from weft.tree.nodes import LEAF, Node, graft, make_node, node_hash, same

# few programs write structures
proto = Late("weft.tree.proto")


class PyTreeDef:
    """The structure of a tree without its leaves; made by ``tree.structure`` and ``tree.flatten``.

    Args:
        *args: not accepted: the class cannot be called.
        **kwargs: not accepted.

    Example:
        >>> from weft import tree
        >>> tree.structure({"a": 1, "b": (2, 3)})
        PyTreeDef({'a': *, 'b': (*, *)})
    """

    __slots__ = ("__weakref__", "node")
    node: Node

    def __new__(cls, *args: Any, **kwargs: Any) -> PyTreeDef:
        """Refuse: structures come from trees."""
        raise TypeError("PyTreeDef has no constructor; use tree.structure(tree)")

    @property
    def num_leaves(self) -> int:
        """How many leaves a tree of this structure has."""
        return self.node.num_leaves

    @property
    def num_nodes(self) -> int:
        """How many containers and leaves a tree of this structure has."""
        return self.node.num_nodes

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with the given leaves."""
        node = self.node
        if type(leaves) is not list and type(leaves) is not tuple:
            leaves = list(leaves)
        if len(leaves) != node.num_leaves:
            few = "few" if len(leaves) < node.num_leaves else "many"
            raise ValueError(
                f"too {few} leaves for a structure with {node.num_leaves}: {len(leaves)} given"
            )
        given = leaves
        try:
            return unflatten(node, given)
        except RecursionError:
            return deeply(lambda: unflatten(node, given))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of ``tree`` that stand where this structure has leaves."""
        try:
            return flatten_up_to(self.node, tree)
        except RecursionError:
            return deeply(lambda: flatten_up_to(self.node, tree))

    def children(self) -> list[PyTreeDef]:
        """The structures of the immediate children."""
        return [treedef_of(child) for child in self.node.children]

    def node_data(self) -> tuple[type, Any] | None:
        """The container's type and auxiliary data, or None for a leaf."""
        node = self.node
        if node.kind.type is None:
            return None
        return node.kind.type, list(node.aux) if node.kind.tag == "dict" else node.aux

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """This structure with ``inner`` in the place of every leaf."""
        if not isinstance(inner, PyTreeDef):
            raise TypeError(f"compose takes a PyTreeDef, not {type(inner)}")
        return treedef_of(graft(self.node, lambda: inner.node))

    def is_prefix(self, other: PyTreeDef) -> bool:
        """Whether ``other`` has this structure, with anything in the place of the leaves."""
        return is_prefix(self.node, other.node)

    def walk(
        self,
        f_node: Callable[[tuple[Any, ...], Any], Any],
        f_leaf: Callable[[Any], Any] | None,
        leaves: Iterable[Any],
    ) -> Any:
        """Fold leaves from below: ``f_leaf`` at each leaf, ``f_node(children, data)`` above."""
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(f"{self} takes {self.num_leaves} leaves, got {len(given)}")
        return _walk(self.node, f_node, f_leaf, iter(given))

    def from_iterable_tree(self, tree: Any) -> Any:
        """The tree of this structure from nested iterables that hold the children."""
        return _from_iterables(self.node, tree)

    @staticmethod
    def from_node_data_and_children(
        registry: Any, node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """Undo ``node_data()`` and ``children()``."""
        nodes = [child.node for child in children]
        if node_data is None:
            if nodes:
                raise ValueError(f"a leaf has no children, but {len(nodes)} were given")
            return treedef_of(LEAF)
        cls, aux = node_data
        return treedef_of(_rebuild_node(cls, tuple(aux) if cls is dict else aux, nodes))

    def serialize_using_proto(self) -> bytes:
        """The structure as a protocol buffer, if it is of lists, tuples, dicts and None.

        >>> from weft import tree
        >>> data = tree.structure([1, {"a": 2}]).serialize_using_proto()
        >>> PyTreeDef.deserialize_using_proto(None, data)
        PyTreeDef([*, {'a': *}])
        """
        return proto.serialize(self.node)

    @staticmethod
    def deserialize_using_proto(registry: Any, data: bytes) -> PyTreeDef:
        """Undo ``serialize_using_proto``."""
        return treedef_of(proto.deserialize(data))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        if hash(self) != hash(other):
            return False
        try:
            return same(self.node, other.node)
        except RecursionError:
            return deeply(lambda: same(self.node, other.node))

    def __hash__(self) -> int:
        found = self.node.hash
        if found is not None:
            return found
        try:
            return node_hash(self.node)
        except RecursionError:
            return deeply(lambda: node_hash(self.node))

    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self.node)})"

    def __copy__(self) -> PyTreeDef:
        return self

    def __deepcopy__(self, memo: Any) -> PyTreeDef:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (_spec(self.node),)


def treedef_of(node: Node) -> PyTreeDef:
    """The public handle of a structure; the same one each time."""
    treedef = node.treedef
    if treedef is None:
        treedef = node.treedef = object.__new__(PyTreeDef)
        treedef.node = node
    return treedef


def _rebuild_node(cls: type, aux: Any, children: list[Node]) -> Node:
    kind = kind_of(cls)
    if kind is None:
        raise ValueError(f"{cls} is not registered as a pytree node")
    if kind.tag == "dict" and len(aux) != len(children):
        raise ValueError(f"a dict with keys {list(aux)} cannot have {len(children)} children")
    return make_node(kind, aux, children)


def _walk(node: Node, f_node: Any, f_leaf: Any, leaves: Any) -> Any:
    if node is LEAF:
        leaf = next(leaves)
        return leaf if f_leaf is None else f_leaf(leaf)
    children = tuple([_walk(child, f_node, f_leaf, leaves) for child in node.children])
    tag = node.kind.tag
    if tag == "namedtuple":
        return f_node(children, node.kind.type)
    return f_node(children, list(node.aux) if tag == "dict" else node.aux)


def _from_iterables(node: Node, given: Any) -> Any:
    if node is LEAF:
        return given
    parts = list(given)
    if len(parts) != len(node.children):
        raise ValueError(
            f"{node.kind.type} has {len(node.children)} children, but {len(parts)} were given"
        )
    children = tuple([_from_iterables(child, part) for child, part in zip(node.children, parts)])
    return node.kind.build(node.aux, children)


def _text(node: Node) -> str:
    if node is LEAF:
        return "*"
    tag = node.kind.tag
    parts = [_text(child) for child in node.children]
    inside = ", ".join(parts)
    if tag == "none":
        return "None"
    if tag == "list":
        return f"[{inside}]"
    if tag == "tuple":
        return f"({inside},)" if len(parts) == 1 else f"({inside})"
    if tag == "dict":
        items = [f"{key!r}: {part}" for key, part in zip(node.aux, parts)]
        return f"{{{', '.join(items)}}}"
    assert node.kind.type is not None
    name = node.kind.type.__name__
    head = f"namedtuple[{name}]" if tag == "namedtuple" else f"{name}[{node.aux}]"
    return f"CustomNode({head}, [{inside}])"


def _spec(node: Node) -> Any:
    """A structure as plain data and types, for pickling."""
    if node is LEAF:
        return None
    return node.kind.type, node.aux, [_spec(child) for child in node.children]


def _load(spec: Any) -> PyTreeDef:
    return treedef_of(_load_node(spec))


def _load_node(spec: Any) -> Node:
    if spec is None:
        return LEAF
    cls, aux, children = spec
    return _rebuild_node(cls, aux, [_load_node(child) for child in children])
