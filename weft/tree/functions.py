"""The functions of ``weft.tree`` and ``weft.tree_util`` that act on whole trees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from weft.tree.compare import broadcast_prefix, prefix_errors
from weft.tree.deep import deeply
from weft.tree.flattening import flatten_into, flatten_until, flatten_with_path
from weft.tree.kinds import TUPLE
from weft.tree.nodes import Node, make_node
from weft.tree.treedef import PyTreeDef, treedef_of

if TYPE_CHECKING:
    from weft.tree.tree_types import Dataclass, Leaf, Named

R = TypeVar("R")
K = TypeVar("K")
L = TypeVar("L", bound="Leaf")
T = TypeVar("T", bound="Named | Dataclass")

IsLeaf = Callable[[Any], bool]
Path = tuple[Any, ...]


class Unspecified:
    """The type of defaults that stand for an argument not given."""

    def __repr__(self) -> str:
        return "..."


_unspecified: Any = Unspecified()


def tree_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """Return the list of leaves of a tree, and its structure.

    Args:
        tree: a tree: nested lists, tuples, dictionaries and registered classes. Everything else is
            a leaf; None is an empty tree.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.

    Returns:
        A pair of the leaves and the structure, for ``unflatten``.

    Example:
        >>> from weft import tree
        >>> tree.flatten({"b": [1, 2], "a": None})
        ([1, 2], PyTreeDef({'a': None, 'b': [*, *]}))
        >>> tree.flatten({"b": [1, 2]}, is_leaf=lambda x: isinstance(x, list))
        ([[1, 2]], PyTreeDef({'b': *}))
    """
    leaves: list[Any] = []
    try:
        node = flatten_into(tree, leaves) if is_leaf is None else _until(tree, leaves, is_leaf)
    except RecursionError:
        leaves, node = deeply(lambda: _flattened(tree, is_leaf))
    return leaves, node.treedef or treedef_of(node)


def _flattened(tree: Any, is_leaf: IsLeaf | None) -> tuple[list[Any], Node]:
    leaves: list[Any] = []
    node = flatten_into(tree, leaves) if is_leaf is None else _until(tree, leaves, is_leaf)
    return leaves, node


def _until(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> Node:
    if not callable(is_leaf):
        raise TypeError(f"is_leaf must be a function, got {is_leaf!r}")
    return flatten_until(tree, leaves, is_leaf)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Return the tree of a given structure with given leaves.

    Args:
        treedef: the structure, from ``flatten`` or ``structure``.
        leaves: as many leaves as the structure has.

    Returns:
        The tree.

    Example:
        >>> from weft import tree
        >>> leaves, treedef = tree.flatten({"a": (1, 2)})
        >>> tree.unflatten(treedef, [x * 10 for x in leaves])
        {'a': (10, 20)}
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Return the leaves of a tree.

    Args:
        tree: a tree: nested lists, tuples, dictionaries and registered classes. Everything else is
            a leaf; None is an empty tree.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.

    Returns:
        A list, in the order of ``flatten``.

    Example:
        >>> from weft import tree
        >>> tree.leaves([1, (2, {"x": 3}), None])
        [1, 2, 3]
    """
    leaves: list[Any] = []
    try:
        if is_leaf is None:
            flatten_into(tree, leaves)
        else:
            _until(tree, leaves, is_leaf)
    except RecursionError:
        return deeply(lambda: _flattened(tree, is_leaf))[0]
    return leaves


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """Return the structure of a tree.

    Args:
        tree: a tree: nested lists, tuples, dictionaries and registered classes. Everything else is
            a leaf; None is an empty tree.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.

    Returns:
        A ``PyTreeDef``.

    Example:
        >>> from weft import tree
        >>> tree.structure([1, (2, {"x": 3}), None])
        PyTreeDef([*, (*, {'x': *}), None])
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[Path, Any]], PyTreeDef]:
    """Return the (path, leaf) pairs of a tree, and its structure.

    Args:
        tree: a tree: nested lists, tuples, dictionaries and registered classes. Everything else is
            a leaf; None is an empty tree.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.
        is_leaf_takes_path: call ``is_leaf`` with the path and the part.

    Returns:
        A list of pairs, and the structure. A path is a tuple of keys; ``keystr`` writes it as text.

    Example:
        >>> from weft import tree
        >>> pairs, treedef = tree.flatten_with_path({"a": [1, 2]})
        >>> pairs[1]
        ((DictKey(key='a'), SequenceKey(idx=1)), 2)
    """
    stop = is_leaf
    if is_leaf is not None and not is_leaf_takes_path:
        stop = _ignoring_path(is_leaf)
    try:
        pairs, node = flatten_with_path(tree, stop)
    except RecursionError:
        pairs, node = deeply(lambda: flatten_with_path(tree, stop))
    return pairs, treedef_of(node)


def _ignoring_path(is_leaf: IsLeaf) -> Callable[..., bool]:
    return lambda path, obj: is_leaf(obj)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[Path, Any]]:
    """Return the (path, leaf) pairs of a tree.

    Args:
        tree: a tree: nested lists, tuples, dictionaries and registered classes. Everything else is
            a leaf; None is an empty tree.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.
        is_leaf_takes_path: call ``is_leaf`` with the path and the part.

    Returns:
        A list of pairs. A path is a tuple of keys; ``keystr`` writes it as text.

    Example:
        >>> from weft import tree, tree_util
        >>> [tree_util.keystr(path) for path, _ in tree.leaves_with_path({"a": [1, 2]})]
        ["['a'][0]", "['a'][1]"]
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


# The last but one is for other classes: lists and dictionaries are not hashable.
@overload
def tree_map(f: Callable[..., R], tree: Leaf, *rest: Any) -> R: ...
@overload
def tree_map(f: Callable[..., Leaf], tree: T, *rest: Any) -> T: ...
@overload
def tree_map(f: Callable[..., R], tree: Named | Dataclass, *rest: Any) -> Any: ...
@overload
def tree_map(f: Callable[..., R], tree: dict[K, L], *rest: Any) -> dict[K, R]: ...
@overload
def tree_map(f: Callable[..., R], tree: dict[K, Any], *rest: Any) -> dict[K, Any]: ...
@overload
def tree_map(f: Callable[..., R], tree: list[L], *rest: Any) -> list[R]: ...
@overload
def tree_map(f: Callable[..., R], tree: list[Any], *rest: Any) -> list[Any]: ...
@overload
def tree_map(f: Callable[..., R], tree: tuple[L, ...], *rest: Any) -> tuple[R, ...]: ...
@overload
def tree_map(f: Callable[..., R], tree: Hashable, *rest: Any) -> Any: ...
@overload
def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None) -> Any: ...
def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Return a tree of what a function returns for each leaf.

    Args:
        f: a function of a leaf, and of what stands at its place in the further trees.
        tree: a tree: nested lists, tuples, dictionaries and registered classes. Everything else is
            a leaf; None is an empty tree.
        *rest: further trees. They may be deeper: ``f`` gets what stands at the places of the first
            one's leaves.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.

    Returns:
        A tree of the structure of ``tree``.

    Example:
        >>> from weft import tree
        >>> tree.map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
        {'a': 11, 'b': [22]}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    columns = _columns("tree", treedef, tree, rest, is_leaf)
    return treedef.unflatten(list(map(f, leaves, *columns)))


def _columns(
    name: str, treedef: PyTreeDef, tree: Any, rest: tuple[Any, ...], is_leaf: IsLeaf | None
) -> list[list[Any]]:
    """The leaves of further trees, or an error that names the place where one differs."""
    columns = []
    for i, other in enumerate(rest):
        try:
            columns.append(treedef.flatten_up_to(other))
        except Exception as error:
            which = "" if len(rest) == 1 else f" (tree {i + 2} of {len(rest) + 1})"
            for found in prefix_errors(tree, other, is_leaf):
                raise ValueError(f"{found(name)}{which}") from None
            raise error from None
    return columns


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Return a tree of what a function returns for the path and the value of each leaf.

    Args:
        f: a function of a path, a leaf, and what stands at its place in the further trees.
        tree: a tree: nested lists, tuples, dictionaries and registered classes. Everything else is
            a leaf; None is an empty tree.
        *rest: further trees, which may be deeper.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.
        is_leaf_takes_path: call ``is_leaf`` with the path and the part.

    Returns:
        A tree of the structure of ``tree``.

    Example:
        >>> from weft import tree, tree_util
        >>> tree.map_with_path(lambda path, x: f"{tree_util.keystr(path)}={x}", {"a": [1, 2]})
        {'a': ["['a'][0]=1", "['a'][1]=2"]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    stop = None if is_leaf_takes_path else is_leaf
    columns = _columns("tree", treedef, tree, rest, stop)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    return treedef.unflatten(list(map(f, paths, leaves, *columns)))


def tree_reduce(
    function: Callable[[Any, Any], R],
    tree: Any,
    initializer: Any = _unspecified,
    is_leaf: IsLeaf | None = None,
) -> R:
    """Return the leaves of a tree, combined from left to right.

    Args:
        function: a function of what was combined so far and a leaf.
        tree: a tree: nested lists, tuples, dictionaries and registered classes. Everything else is
            a leaf; None is an empty tree.
        initializer: what to start from. By default the first leaf.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.

    Returns:
        What the last call returns.

    Example:
        >>> from weft import tree
        >>> tree.reduce(lambda total, x: total + x, [1, (2, {"x": 3})])
        6
    """
    leaves = tree_leaves(tree, is_leaf)
    if isinstance(initializer, Unspecified):
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], R],
    tree: Any,
    *,
    identity: Any = _unspecified,
    is_leaf: IsLeaf | None = None,
) -> R:
    """Return the leaves of a tree, combined in a balanced tree of operations.

    Args:
        operation: an associative function of two leaves.
        tree: a tree: nested lists, tuples, dictionaries and registered classes. Everything else is
            a leaf; None is an empty tree.
        identity: the result for a tree without leaves.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.

    Returns:
        What the last call returns.

    Example:
        >>> from weft import tree
        >>> tree.reduce_associative(lambda a, b: f"({a}{b})", ["a", "b", "c", "d"])
        '((ab)(cd))'
    """
    leaves = tree_leaves(tree, is_leaf)
    if leaves:
        return _reduce_halves(operation, leaves)
    if isinstance(identity, Unspecified):
        raise TypeError("reduce_associative of a tree without leaves needs an identity")
    return identity


def _reduce_halves(operation: Callable[[Any, Any], Any], leaves: list[Any]) -> Any:
    if len(leaves) == 1:
        return leaves[0]
    half = len(leaves) // 2
    left = _reduce_halves(operation, leaves[:half])
    return operation(left, _reduce_halves(operation, leaves[half:]))


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Return whether every leaf is true.

    Args:
        tree: a tree: nested lists, tuples, dictionaries and registered classes. Everything else is
            a leaf; None is an empty tree.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.

    Returns:
        True or False; True for a tree without leaves.

    Example:
        >>> from weft import tree
        >>> tree.all({"a": True, "b": [True, False]})
        False
    """
    return all(tree_leaves(tree, is_leaf))


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Return a tree of the full structure whose leaves are those of a prefix.

    Args:
        prefix_tree: a tree whose leaves stand at inner places of the other.
        full_tree: the tree whose structure the result has.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.

    Returns:
        A tree in which a leaf of the prefix is repeated for all leaves below it.

    Example:
        >>> from weft import tree
        >>> tree.broadcast((0, 1), ("a", ["b", "c"]))
        (0, [1, 1])
    """
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(leaves)


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Return an inner tree of outer trees, from an outer tree of inner trees.

    Args:
        outer_treedef: the structure of the outer tree.
        inner_treedef: the structure of the inner trees; found from the first one if it is None.
        pytree_to_transpose: the tree.

    Returns:
        The tree with both structures exchanged.

    Example:
        >>> from weft import tree
        >>> outer, inner = tree.structure([0, 0]), tree.structure({"x": 0, "y": 0})
        >>> tree.transpose(outer, inner, [{"x": 1, "y": 2}, {"x": 3, "y": 4}])
        {'x': [1, 3], 'y': [2, 4]}
    """
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    inner, outer = inner_treedef.num_leaves, outer_treedef.num_leaves
    if len(leaves) != inner * outer:
        raise TypeError(
            f"cannot transpose a tree of structure\n{treedef}\nwhere the outer and inner "
            f"structures make\n{outer_treedef.compose(inner_treedef)}"
        )
    columns = [outer_treedef.unflatten(leaves[i::inner]) for i in range(inner)]
    return inner_treedef.unflatten(columns)


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees with given structures.

    Args:
        treedefs: the structures.

    Returns:
        A ``PyTreeDef``.

    Example:
        >>> from weft import tree
        >>> treedef_tuple([tree.structure([1, 2]), tree.structure(3)])
        PyTreeDef(([*, *], *))
    """
    nodes = []
    for treedef in treedefs:
        if not isinstance(treedef, PyTreeDef):
            raise TypeError(f"treedef_tuple takes PyTreeDefs, got {treedef!r}")
        nodes.append(treedef.node)
    return treedef_of(make_node(TUPLE, None, nodes))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the immediate children.

    Args:
        treedef: a structure.

    Returns:
        A list of ``PyTreeDef``.

    Example:
        >>> from weft import tree
        >>> treedef_children(tree.structure([(1, 2), 3]))
        [PyTreeDef((*, *)), PyTreeDef(*)]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Return whether a structure is a single node: a leaf, or an empty container.

    Args:
        treedef: a structure.

    Returns:
        True or False.

    Example:
        >>> from weft import tree
        >>> treedef_is_leaf(tree.structure(1)), treedef_is_leaf(tree.structure([1]))
        (True, False)
    """
    return treedef.num_nodes == 1


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Return whether every element is a leaf.

    Args:
        iterable: the elements.
        is_leaf: a function that says of a part of the tree, from the root down, whether to take it
            as a leaf.

    Returns:
        True or False.

    Example:
        >>> all_leaves([1, 2.0]), all_leaves([1, [2]])
        (True, False)
    """
    items = list(iterable)
    leaves = tree_leaves(items, is_leaf)
    return len(leaves) == len(items) and all(a is b for a, b in zip(items, leaves))
