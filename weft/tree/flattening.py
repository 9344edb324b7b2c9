"""Taking trees apart: leaves into one list, structure into a node.

Handlers by type do the common work; a dictionary remembers its key order and, once the same
structure has come back often enough, the code generated for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from weft.tree import generate
from weft.tree.kinds import DICT, LIST, NONE, TUPLE, kind_of, sorted_keys
from weft.tree.nodes import (
    LEAF,
    MAX_CHILDREN,
    Kind,
    Node,
    clear,
    exact,
    intern,
    make_node,
    on_clear,
    same,
)

Handler = Callable[[Any, list[Any]], Node]

# A structure seen this often in one place gets code of its own.
_OFTEN = 16
_MAX_TYPES = 4096
_ONLY_STR = {str}
_NO_DATA = exact(None)

# The handler of each type met so far; None marks leaves, which `leaf_types` lists as well.
handlers: dict[type, Handler | None] = {}
leaf_types: set[type] = set()


def _meet(obj: Any, leaves: list[Any]) -> Node:
    """The handler of last resort: classify a type on first sight, then flatten the object."""
    cls = type(obj)
    kind = kind_of(cls)
    if len(handlers) >= _MAX_TYPES:
        _forget()
    if kind is None:
        handlers[cls] = None
        leaf_types.add(cls)
        leaves.append(obj)
        return LEAF
    handler = handlers[cls] = _handler_of(kind)
    return handler(obj, leaves)


def _handler_of(kind: Kind) -> Handler:
    if kind is NONE:
        return _flatten_none
    if kind is DICT:
        return _flatten_dict
    if kind is TUPLE or kind is LIST or kind.tag == "namedtuple":
        return _sequence_handler(kind)
    return _custom_handler(kind)


def forget_type(cls: type) -> None:
    """Drop what is known about a type, because it has just been registered."""
    if handlers.get(cls) is not None:
        # A named tuple until now: generated code may hold on to that.
        clear()
    leaf_types.discard(cls)
    handlers.pop(cls, None)


def _forget() -> None:
    handlers.clear()
    leaf_types.clear()
    _dict_shapes.clear()


on_clear(_forget)


def flatten_into(obj: Any, leaves: list[Any]) -> Node:
    """Append the leaves of ``obj`` to ``leaves`` and return its structure."""
    handler = handlers.get(type(obj), _meet)
    if handler is None:
        leaves.append(obj)
        return LEAF
    return handler(obj, leaves)


def _flatten_all(objects: Iterable[Any], leaves: list[Any]) -> tuple[Node, ...]:
    find, nodes = handlers.get, []
    for obj in objects:
        handler = find(type(obj), _meet)
        if handler is None:
            leaves.append(obj)
            nodes.append(LEAF)
        else:
            nodes.append(handler(obj, leaves))
    return tuple(nodes)


class _Guess:
    """The structure that one place tends to show, and the code for it once that is settled."""

    __slots__ = ("flattener", "misses", "node", "seen", "strikes")

    def __init__(self) -> None:
        self.node: Node = LEAF
        self.seen = 0
        self.misses = 0
        self.strikes = 0
        self.flattener: Callable[[Any, bool], list[Any] | None] | None = None

    def note(self, node: Node) -> None:
        """Learn from a tree that was flattened the general way."""
        if node is self.node:
            self.seen += 1
            if self.seen == _OFTEN and self.strikes < 3 and node.interned:
                self.flattener = flattener_of(node)
            return
        self.misses += 1
        if self.flattener is None or self.misses > _OFTEN:
            self.strikes += self.flattener is not None
            self.node, self.seen, self.misses, self.flattener = node, 0, 0, None


class _DictShape(_Guess):
    """The keys of dictionaries in one insertion order; all of them are exact ``str``."""

    __slots__ = ("flat", "get", "key", "keys")

    def __init__(self, keys: tuple[str, ...], ordered: bool) -> None:
        super().__init__()
        self.keys = keys
        self.key = exact(keys)
        self.flat = intern(DICT, keys, self.key, (LEAF,) * len(keys))
        self.get: Callable[[Any], Any] = dict.values if ordered else itemgetter(*keys)


_dict_shapes: dict[tuple[str, ...], _DictShape] = {}
_MAX_SHAPES = 4096
_LONG = 8

_none_node = make_node(NONE, None, ())
_empty_dict = make_node(DICT, (), ())


def _flatten_none(obj: None, leaves: list[Any]) -> Node:
    return _none_node


def _flatten_dict(obj: dict[Any, Any], leaves: list[Any]) -> Node:
    if not obj:
        return _empty_dict
    keys = tuple(obj)
    shape = _dict_shapes.get(keys)
    if shape is None:
        return _flatten_new_dict(obj, keys, leaves)
    if shape.flattener is not None:
        found = shape.flattener(obj, True)
        if found is not None:
            shape.misses = 0
            leaves += found
            return shape.node
    if set(map(type, keys)) != _ONLY_STR:
        return _flatten_odd_dict(obj, leaves)
    values = shape.get(obj)
    if set(map(type, values)) <= leaf_types:
        leaves += values
        return shape.flat
    node = intern(DICT, shape.keys, shape.key, _flatten_all(values, leaves))
    shape.note(node)
    return node


def _flatten_new_dict(obj: dict[Any, Any], keys: tuple[Any, ...], leaves: list[Any]) -> Node:
    if len(keys) > MAX_CHILDREN or set(map(type, keys)) != _ONLY_STR:
        return _flatten_odd_dict(obj, leaves)
    if len(_dict_shapes) >= _MAX_SHAPES:
        _dict_shapes.clear()
    ordered = tuple(sorted(keys))
    _dict_shapes[keys] = _DictShape(ordered, ordered == keys)
    return _flatten_dict(obj, leaves)


def _flatten_odd_dict(obj: dict[Any, Any], leaves: list[Any]) -> Node:
    """Dictionaries that are very large, or whose keys are not all text."""
    keys = sorted_keys(obj)
    return make_node(DICT, keys, _flatten_all([obj[key] for key in keys], leaves))


def _sequence_handler(kind: Kind) -> Handler:
    # All of these die with the handler when the interned nodes are dropped.
    known: dict[tuple[Node, ...], Node] = {}
    all_leaves: dict[int, Node] = {}
    guesses: dict[int, _Guess] = {}

    def short(obj: Sequence[Any], leaves: list[Any]) -> Node:
        nodes = _flatten_all(obj, leaves)
        return known.get(nodes) or _remember(kind, nodes, known)

    def handler(obj: Sequence[Any], leaves: list[Any]) -> Node:
        n = len(obj)
        if n < _LONG:
            return short(obj, leaves)
        if set(map(type, obj)) <= leaf_types:
            leaves += obj
            return all_leaves.get(n) or _remember(kind, (LEAF,) * n, all_leaves, n)
        guess = guesses.get(n)
        if guess is None:
            guess = guesses[n] = _Guess()
        elif guess.flattener is not None:
            found = guess.flattener(obj, True)
            if found is not None:
                guess.misses = 0
                leaves += found
                return guess.node
        node = short(obj, leaves)
        guess.note(node)
        return node

    return short if kind.tag == "namedtuple" else handler


def _remember(
    kind: Kind, nodes: tuple[Node, ...], known: dict[Any, Node], key: int | None = None
) -> Node:
    node = intern(kind, None, _NO_DATA, nodes)
    if node.interned:
        known[nodes if key is None else key] = node
    return node


def _custom_handler(kind: Kind) -> Handler:
    expand = kind.expand

    def handler(obj: Any, leaves: list[Any]) -> Node:
        children, aux = expand(obj)
        return intern(kind, aux, exact(aux), _flatten_all(children, leaves))

    return handler


def flatten_until(obj: Any, leaves: list[Any], is_leaf: Callable[[Any], bool]) -> Node:
    """As ``flatten_into``, but stop where ``is_leaf`` says so."""
    if _decide(is_leaf(obj)):
        leaves.append(obj)
        return LEAF
    return _open_until(obj, leaves, is_leaf)


def _open_until(obj: Any, leaves: list[Any], is_leaf: Callable[[Any], bool]) -> Node:
    cls = type(obj)
    kind = kind_of(cls)
    if kind is None:
        leaf_types.add(cls)
        handlers[cls] = None
        leaves.append(obj)
        return LEAF
    keys = tuple(obj) if kind is DICT else ()
    shape = _dict_shapes.get(keys)
    if shape is None or set(map(type, keys)) != _ONLY_STR:
        children, aux = kind.expand(obj)
        aux_key = exact(aux)
    else:
        children, aux, aux_key = shape.get(obj), shape.keys, shape.key
    find, nodes = handlers.get, []
    for child in children:
        stop = is_leaf(child)
        if stop is True or (find(type(child), _meet) is None and _decide(stop) is False):
            leaves.append(child)
            nodes.append(LEAF)
        else:
            _decide(stop)
            nodes.append(_open_until(child, leaves, is_leaf))
    return intern(kind, aux, aux_key, tuple(nodes))


def _decide(answer: Any) -> bool:
    if answer is True or answer is False:
        return answer
    raise ValueError(f"is_leaf must return True or False, but it returned {answer!r}")


def expand_with_keys(kind: Kind, obj: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The children of ``obj`` with their keys, and its auxiliary data."""
    if kind.child_keys is None:
        assert kind.expand_with_keys is not None
        pairs, aux = kind.expand_with_keys(obj)
        return [(key, child) for key, child in pairs], aux
    children, aux = kind.expand(obj)
    return list(zip(kind.child_keys(aux, len(children)), children)), aux


def flatten_with_path(
    obj: Any, is_leaf: Callable[[tuple[Any, ...], Any], bool] | None
) -> tuple[list[tuple[tuple[Any, ...], Any]], Node]:
    """The (path, leaf) pairs and the structure of a tree."""
    if is_leaf is None:
        leaves: list[Any] = []
        node = flatten_into(obj, leaves)
        paths = node.paths or structure_paths(node)
        if paths is not None:
            return list(zip(paths, leaves)), node
    found: list[tuple[tuple[Any, ...], Any]] = []
    return found, _walk_with_path((), obj, found, is_leaf)


def _walk_with_path(
    path: tuple[Any, ...],
    obj: Any,
    found: list[tuple[tuple[Any, ...], Any]],
    is_leaf: Callable[[tuple[Any, ...], Any], bool] | None,
) -> Node:
    kind = None
    if is_leaf is None or not _decide(is_leaf(path, obj)):
        kind = kind_of(type(obj))
    if kind is None:
        found.append((path, obj))
        return LEAF
    pairs, aux = expand_with_keys(kind, obj)
    nodes = [_walk_with_path((*path, key), child, found, is_leaf) for key, child in pairs]
    return make_node(kind, aux, nodes)


def structure_paths(node: Node) -> list[tuple[Any, ...]] | None:
    """The paths of the leaves, or None where objects name their own children."""
    if node is LEAF:
        return [()]
    if node.paths is None:
        if node.kind.child_keys is None:
            return None
        paths: list[tuple[Any, ...]] = []
        keys = node.kind.child_keys(node.aux, len(node.children))
        for key, child in zip(keys, node.children):
            below = structure_paths(child)
            if below is None:
                return None
            paths += [(key, *path) for path in below]
        node.paths = paths
    return node.paths


def flatten_up_to(node: Node, obj: Any) -> list[Any]:
    """The subtrees of ``obj`` at the places where ``node`` has leaves."""
    run = node.flattener
    if run is None:
        node.uses += 1
        if node.uses > _OFTEN:
            run = flattener_of(node)
    if run is not None:
        found = run(obj, False)
        if found is not None:
            return found
    found = []
    _up_to(node, obj, found)
    return found


def _up_to(node: Node, obj: Any, found: list[Any]) -> None:
    if node is LEAF:
        found.append(obj)
        return
    kind = node.kind
    if type(obj) is not kind.type:
        raise ValueError(f"expected {_article(kind)}, got {obj!r} of type {type(obj)}")
    children, aux = kind.expand(obj)
    if kind.tag == "dict" and aux != node.aux:
        raise ValueError(f"expected a dict with keys {list(node.aux)}, got keys {list(aux)}")
    if len(children) != len(node.children):
        raise ValueError(
            f"expected {_article(kind)} with {len(node.children)} children, "
            f"got one with {len(children)}: {obj!r}"
        )
    if not bool(aux == node.aux):
        raise ValueError(
            f"expected {_article(kind)} with auxiliary data {node.aux!r}, got {aux!r}: {obj!r}"
        )
    if node.flat:
        found += children
    else:
        for child_node, child in zip(node.children, children):
            _up_to(child_node, child, found)


def _article(kind: Kind) -> str:
    if kind.tag in ("custom", "dataclass", "namedtuple"):
        return f"an object of type {kind.type}"
    return "None" if kind.tag == "none" else f"a {kind.tag}"


def _open_node(obj: Any, leaves: list[Any], node: Node, full: bool) -> bool:
    """Flatten a container on behalf of generated code; False where the structure differs."""
    if full:
        return flatten_into(obj, leaves) is node
    try:
        _up_to(node, obj, leaves)
    except ValueError:
        return False
    return True


def flattener_of(node: Node) -> Callable[[Any, bool], list[Any] | None] | None:
    """The generated flattener of a structure, or None where the structure is too large."""
    if node.flattener is None and node.num_nodes <= generate.MAX_GENERATED:
        node.flattener = generate.flattener(node, leaf_types, _open_node)
    return node.flattener


def unflatten(node: Node, leaves: Sequence[Any]) -> Any:
    """The tree of this structure with these leaves, whose number must be right."""
    if node.unflattener is not None:
        return node.unflattener(leaves)
    node.uses += 1
    if node.uses > _OFTEN and node.num_nodes <= generate.MAX_GENERATED:
        return unflattener_of(node)(leaves)
    return _build(node, iter(leaves))


def _build(node: Node, leaves: Any) -> Any:
    if node is LEAF:
        return next(leaves)
    children = tuple([_build(child, leaves) for child in node.children])
    return node.kind.build(node.aux, children)


def unflattener_of(node: Node) -> Callable[[Sequence[Any]], Any]:
    """The generated function that rebuilds trees of a structure."""
    if node.unflattener is None:
        node.unflattener = generate.unflattener(node)
    return node.unflattener


def broadcast(prefix: Node, prefix_leaves: list[Any], full: Node) -> list[Any] | None:
    """Each leaf of the prefix, repeated for the leaves below it; None where it is no prefix."""
    leaves: list[Any] = []
    return leaves if _broadcast(prefix, iter(prefix_leaves), full, leaves) else None


def _broadcast(prefix: Node, given: Any, full: Node, leaves: list[Any]) -> bool:
    if prefix is LEAF:
        leaves += [next(given)] * full.num_leaves
        return True
    if full is LEAF or prefix.kind.type is not full.kind.type:
        return False
    if len(prefix.children) != len(full.children) or not bool(prefix.aux == full.aux):
        return False
    pairs = zip(prefix.children, full.children)
    return all(_broadcast(below, given, child, leaves) for below, child in pairs)


def is_prefix(prefix: Node, full: Node) -> bool:
    """Whether ``full`` is ``prefix`` with its leaves replaced by structures."""
    if same(prefix, full):
        return True
    return broadcast(prefix, [None] * prefix.num_leaves, full) is not None
