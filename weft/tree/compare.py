"""Saying where two trees differ, and spreading a prefix of a tree over the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.tree.flattening import broadcast, expand_with_keys, flatten_into, flatten_until
from weft.tree.keys import Key, keystr
from weft.tree.kinds import kind_of
from weft.tree.nodes import Kind, Node
from weft.tree.treedef import PyTreeDef

IsLeaf = Callable[[Any], bool]
Path = tuple[Any, ...]
Difference = tuple[Path, str, str, str]


class _Leaf:
    """Stands for any leaf where only the structure is known."""

    def __repr__(self) -> str:
        return "pytree leaf"


def _open(obj: Any, is_leaf: IsLeaf | None) -> Kind | None:
    if is_leaf is not None and is_leaf(obj):
        return None
    return kind_of(type(obj))


def _describe(obj: Any) -> str:
    return "pytree leaf" if isinstance(obj, _Leaf) else str(type(obj))


def _name(key: Any) -> str:
    return repr(key._value) if isinstance(key, Key) else str(key)


def _only(here: list[Any], there: list[Any]) -> str:
    return ", ".join(_name(key) for key in here if key not in there)


def _count(kind: Kind, n: int) -> str:
    if kind.tag in ("tuple", "list", "namedtuple"):
        assert kind.type is not None
        return f"{kind.type.__name__} of length {n}"
    return f"{kind.type} with {n} {'child' if n == 1 else 'children'}"


def _differences(
    path: Path, one: Any, two: Any, is_leaf: IsLeaf | None, prefix: bool
) -> Iterator[Difference]:
    """Where ``one`` is not the structure (with ``prefix``: not a prefix) of ``two``."""
    kind = _open(one, is_leaf)
    other = _open(two, None if prefix else is_leaf)
    if kind is None and (prefix or other is None):
        return
    if kind is None or other is None or kind.type is not other.type:
        yield path, _describe(one), _describe(two), "their Python types differ"
        return
    pairs, data = expand_with_keys(kind, one)
    other_pairs, other_data = expand_with_keys(kind, two)
    keys, other_keys = [k for k, _ in pairs], [k for k, _ in other_pairs]
    if len(pairs) != len(other_pairs):
        why = "the numbers of children do not match"
        if kind.tag in ("tuple", "list", "namedtuple"):
            why = "the lengths do not match"
        else:
            only = [text for text in (_only(keys, other_keys), _only(other_keys, keys)) if text]
            why += f"; only one of them has {' and '.join(only)}" if only else ""
        yield path, _count(kind, len(pairs)), _count(kind, len(other_pairs)), why
        return
    if not bool(data == other_data):
        what = "keys" if kind.tag == "dict" else "pytree metadata"
        yield (
            path,
            f"{kind.type} with {what} {data}",
            f"{kind.type} with {what} {other_data}",
            f"the {what} do not match" if what == "keys" else f"the {what} does not match",
        )
        return
    for (key, child), (_, other_child) in zip(pairs, other_pairs):
        yield from _differences((*path, key), child, other_child, is_leaf, prefix)


def equality_errors(tree1: Any, tree2: Any, is_leaf: IsLeaf | None = None) -> Iterator[Difference]:
    """The places where two structures differ, as (path, thing 1, thing 2, explanation).

    >>> for path, one, two, why in equality_errors({"a": (1, 2)}, {"a": (1, 2, 3)}):
    ...     print(f"{keystr(path)}: a {one} and a {two}: {why}")
    ['a']: a tuple of length 2 and a tuple of length 3: the lengths do not match
    """
    yield from _differences((), tree1, tree2, is_leaf, prefix=False)


def equality_errors_treedef(one: PyTreeDef, two: PyTreeDef) -> list[Difference]:
    """As ``equality_errors``, of structures."""
    try:
        return list(equality_errors(_dummy(one), _dummy(two)))
    except Exception:
        # Some class could not be rebuilt around placeholders; the structures still tell.
        return [((), str(one), str(two), "their structures differ")]


def _dummy(treedef: PyTreeDef) -> Any:
    return treedef.unflatten([_Leaf() for _ in range(treedef.num_leaves)])


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> list[Callable[[str], ValueError]]:
    """The reasons why one tree is no prefix of another, each a function of the tree's name.

    >>> error, = prefix_errors({"a": (1, 2)}, {"a": [1, 2]})
    >>> print(error("in_axes"))
    pytree structure mismatch at in_axes['a']: there the prefix in_axes has <class 'tuple'>, but \
the full tree has <class 'list'>; their Python types differ
    """
    found = _differences((), prefix_tree, full_tree, is_leaf, prefix=True)
    return [_prefix_error(difference) for difference in found]


def _prefix_error(difference: Difference) -> Callable[[str], ValueError]:
    path, one, two, why = difference

    def error(name: str) -> ValueError:
        return ValueError(
            f"pytree structure mismatch at {name}{keystr(path)}: there the prefix {name} has "
            f"{one}, but the full tree has {two}; {why}"
        )

    return error


def _flatten(tree: Any, is_leaf: IsLeaf | None) -> tuple[list[Any], Node]:
    leaves: list[Any] = []
    if is_leaf is None:
        return leaves, flatten_into(tree, leaves)
    return leaves, flatten_until(tree, leaves, is_leaf)


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a prefix, each repeated for the leaves below its place in the full tree.

    >>> broadcast_prefix((0, 1), ("a", ["b", "c"]))
    [0, 1, 1]
    """
    given, prefix = _flatten(prefix_tree, is_leaf)
    leaves = broadcast(prefix, given, flatten_into(full_tree, []))
    if leaves is None:
        for error in prefix_errors(prefix_tree, full_tree, is_leaf):
            raise error("prefix_tree")
        raise ValueError(f"{prefix_tree!r} is not a prefix of {full_tree!r}")
    return leaves


def _is_none(obj: Any) -> bool:
    return obj is None


def flatten_axes(
    name: str, treedef: PyTreeDef, axis_tree: Any, *, tupled_args: bool = False
) -> list[Any]:
    """Return a prefix of axes spread over a structure; None is a leaf of the prefix.

    Args:
        name: what the prefix is called, for errors.
        treedef: the structure.
        axis_tree: the prefix: a tree of axes whose leaves stand at inner places of the structure.
        tupled_args: whether the structure is that of a tuple of arguments, for errors.

    Returns:
        A list with the axis of each leaf.

    Example:
        >>> from weft import tree
        >>> flatten_axes("in_axes", tree.structure((1, {"a": 2, "b": 3})), (0, None))
        [0, None, None]
    """
    given, prefix = _flatten(axis_tree, _is_none)
    axes = broadcast(prefix, given, treedef.node)
    if axes is None:
        raise ValueError(_axes_message(name, treedef, axis_tree, prefix, tupled_args))
    return axes


def _axes_message(
    name: str, treedef: PyTreeDef, axis_tree: Any, prefix: Node, tupled_args: bool
) -> str:
    text = f"{name} must be a tree prefix of the corresponding value, got {name}={axis_tree!r}"
    try:
        errors = [str(error(name)) for error in prefix_errors(axis_tree, _dummy(treedef), _is_none)]
    except Exception:
        errors = [f"the value has the structure {treedef}"]
    text += "".join(f"\n  {error}" for error in errors)
    if not tupled_args:
        return text
    text += f"\n{name} that is not one number needs a tuple with an entry for each argument"
    inner = treedef.node.children
    if len(inner) == 1 and broadcast(prefix, [None] * prefix.num_leaves, inner[0]) is not None:
        text += f"; here is one argument, so write {name}=({axis_tree!r},)"
    return text + "."
