"""Parts of a state found by name, read, replaced, and mapped over where they follow parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import weft

T = TypeVar("T")


@weft.tree_util.register_pytree_node_class
class ParamsPlaceholder:
    """What stands for the parameters while their places in a state are looked for."""

    def tree_flatten(self):
        """No leaves."""
        return (), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        """A placeholder again."""
        return cls()


@dataclass(frozen=True)
class NamedTupleKey:
    """The step of a path that leads to a field of a named tuple."""

    tuple_name: str
    name: str

    def __str__(self):
        return f"{self.tuple_name}.{self.name}"


def tree_map_params(
    initable: Any,
    f: Callable,
    state: Any,
    /,
    *rest: Any,
    transform_non_params: Callable[..., Any] | None = None,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Return a state with ``f`` applied to those leaves that stand for parameters.

    Args:
        initable: the optimiser, or its ``init``: it shows where in the state parameters are.
        f: a function of a leaf, and of the leaves of ``rest`` that belong to it.
        state: the state.
        *rest: further trees with the structure of the parameters.
        transform_non_params: a function of the other leaves. By default they stay.
        is_leaf: a function that says which nodes are leaves, as in ``weft.tree.map``.

    Returns:
        A state of the same structure.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.sgd(0.1, momentum=0.9)
        >>> state = opt.init({"w": jnp.ones(2)})
        >>> optim.tree.map_params(opt, lambda leaf: leaf.shape, state)[0].trace
        {'w': (2,)}
    """
    init = initable.init if hasattr(initable, "init") else initable

    def visit(place, value):
        if isinstance(place, ParamsPlaceholder):
            return weft.tree.map(f, value, *rest, is_leaf=is_leaf)
        return value if transform_non_params is None else transform_non_params(value)

    return weft.tree.map(
        visit,
        init(ParamsPlaceholder()),
        state,
        is_leaf=lambda node: isinstance(node, ParamsPlaceholder),
    )


def tree_get_all_with_path(tree: Any, key: Any, filtering: Any = None) -> list[tuple[Any, Any]]:
    """Every value called `key`, with its path: fields, keys of dictionaries, names of states.

    `filtering(path, value)` says which of them to keep.
    """
    found = _find(tree, key)
    if filtering is not None:
        found = [(path, value) for path, value in found if filtering(path, value)]
    return found


def tree_get(tree: Any, key: Any, default: Any = None, filtering: Any = None) -> Any:
    """The value called `key`, which must be the only one; the default if there is none.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> int(optim.tree.get(optim.adam(0.1).init(jnp.ones(2)), "count"))
    0
    """
    found = tree_get_all_with_path(tree, key, filtering)
    if len(found) > 1:
        paths = ", ".join(_show(path) for path, _ in found)
        raise KeyError(
            f"{key!r} is found more than once, at {paths}; choose with filtering=, "
            "or take all of them with tree_get_all_with_path"
        )
    return found[0][1] if found else default


def tree_set(tree: T, filtering: Any = None, /, **kwargs: Any) -> T:
    """The tree with the values of these names replaced.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> state = optim.adam(0.1).init(jnp.ones(2))
    >>> optim.tree.set(state, count=7)[0].count
    7
    """
    for key in kwargs:
        if not tree_get_all_with_path(tree, key, filtering):
            chosen = " that filtering lets through" if filtering else ""
            raise KeyError(f"there is nothing called {key!r}{chosen} in the tree")

    def replace(path, node):
        if not _has_any(node, kwargs):
            return node
        name = type(node).__name__
        if _is_named_tuple(node) and name in kwargs and _keeps(filtering, path, node):
            return kwargs[name]
        children = {}
        for key, step, child in _children(node):
            child_path = (*path, step)
            if key in kwargs and _keeps(filtering, child_path, child):
                children[key] = kwargs[key]
            else:
                children[key] = replace_below(child_path, child)
        return node._replace(**children) if _is_named_tuple(node) else children

    def replace_below(path, tree):
        pairs = _named_leaves(tree, lambda node: _has_any(node, kwargs))
        structure = weft.tree.structure(tree, is_leaf=lambda node: _has_any(node, kwargs))
        return structure.unflatten([replace((*path, *below), leaf) for below, leaf in pairs])

    return replace_below((), tree)


def _keeps(filtering, path, value) -> bool:
    return filtering is None or filtering(path, value)


def _find(tree, key) -> list[tuple[tuple, Any]]:
    """Matches of the outer nodes before those inside of them."""
    holders = [
        (path, node)
        for path, node in _named_leaves(tree, lambda node: _has_any(node, (key,)))
        if _has_any(node, (key,))
    ]
    found = []
    for path, node in holders:
        if _is_named_tuple(node) and type(node).__name__ == key:
            found.append((path, node))
            continue
        for name, step, child in _children(node):
            if name == key:
                found.append(((*path, step), child))
    for path, node in holders:
        for _, step, child in _children(node):
            found += [((*path, step, *below), value) for below, value in _find(child, key)]
    return found


def _is_named_tuple(node) -> bool:
    return isinstance(node, tuple) and hasattr(node, "_fields")


def _has_any(node, names) -> bool:
    """Whether a name is that of a field, of a key or of the named tuple itself."""
    if _is_named_tuple(node):
        return type(node).__name__ in names or any(name in node._fields for name in names)
    return isinstance(node, dict) and any(name in node for name in names)


def _children(node):
    """The name, the step of the path and the value of each child."""
    if _is_named_tuple(node):
        for name in node._fields:
            yield name, NamedTupleKey(type(node).__name__, name), getattr(node, name)
    elif isinstance(node, dict):
        for name, value in node.items():
            yield name, weft.tree_util.DictKey(name), value


def _named_leaves(tree, is_leaf) -> list[tuple[tuple, Any]]:
    """Leaves with paths whose steps through named tuples say the name of the tuple."""
    pairs = []
    for path, node in weft.tree.leaves_with_path(
        tree, is_leaf=lambda node: is_leaf(node) or _is_named_tuple(node)
    ):
        if is_leaf(node) or not _is_named_tuple(node):
            pairs.append((path, node))
            continue
        for _, step, child in _children(node):
            pairs += [
                ((*path, step, *below), leaf) for below, leaf in _named_leaves(child, is_leaf)
            ]
    return pairs


def _show(path) -> str:
    return "".join(f"[{step}]" if isinstance(step, NamedTupleKey) else str(step) for step in path)
