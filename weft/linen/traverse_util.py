"""Nested dictionaries as flat ones, and back; and traversals: the counterpart of flax's module."""

import abc
import copy
import dataclasses

from weft import tree_util
from weft.linen import struct
from weft.linen.core import FrozenDict, unfreeze


@struct.dataclass
class _EmptyNode:
    """What an empty dictionary is in a flat one."""


empty_node = _EmptyNode()


def flatten_dict(xs, keep_empty_nodes: bool = False, is_leaf=None, sep: str | None = None) -> dict:
    """The leaves of a nested dictionary by their path, a tuple or, with ``sep``, text.

    >>> flatten_dict({"a": {"b": 1}, "c": 2}, sep="/")
    {'a/b': 1, 'c': 2}
    """
    if not isinstance(xs, (FrozenDict, dict)):
        raise AssertionError(f"flatten_dict takes a dictionary, not {type(xs).__name__}")
    flat = {}

    def walk(value, path):
        nested = isinstance(value, (FrozenDict, dict))
        if nested and not (is_leaf and is_leaf(path, value)):
            for key, inner in value.items():
                walk(inner, (*path, key))
            if value or not (keep_empty_nodes and path):
                return
            value = empty_node
        flat[path if sep is None else sep.join(path)] = value

    walk(xs, ())
    return flat


def unflatten_dict(xs, sep: str | None = None) -> dict:
    """The nested dictionary of a flat one.

    >>> unflatten_dict({"a/b": 1, "c": 2}, sep="/")
    {'a': {'b': 1}, 'c': 2}
    """
    if not isinstance(xs, dict):
        raise AssertionError(f"unflatten_dict takes a dictionary, not {type(xs).__name__}")
    nested: dict = {}
    for path, value in xs.items():
        *above, last = path.split(sep) if sep is not None else path
        place = nested
        for key in above:
            place = place.setdefault(key, {})
        place[last] = {} if value is empty_node else value
    return nested


def path_aware_map(f, nested_dict) -> dict:
    """Apply ``f(path, leaf)`` to every leaf of a nested dictionary.

    >>> path_aware_map(lambda path, x: (path[-1], x), {"a": {"b": 1}})
    {'a': {'b': ('b', 1)}}
    """
    flat = flatten_dict(nested_dict, keep_empty_nodes=True)
    return unflatten_dict({k: v if v is empty_node else f(k, v) for k, v in flat.items()})


class Traversal(abc.ABC):
    """A choice of places inside of a value: to read them all, or to replace them.

    >>> places = t_identity["a"].each()
    >>> list(places.iterate({"a": [1, 2]})), places.update(lambda x: -x, {"a": [1, 2]})
    ([1, 2], {'a': [-1, -2]})
    """

    @abc.abstractmethod
    def update(self, fn, inputs):
        """The value with a function applied at every place."""

    @abc.abstractmethod
    def iterate(self, inputs):
        """What is at the places, in order."""

    def set(self, values, inputs):
        """The value with others at the places."""
        rest = list(values)
        if len(rest) != len(list(self.iterate(inputs))):
            raise ValueError(f"{len(rest)} values for {len(list(self.iterate(inputs)))} places")
        return self.update(lambda _: rest.pop(0), inputs)

    def compose(self, other):
        """Places of another traversal inside of these."""
        return TraverseCompose(self, other)

    def merge(self, *traversals):
        """The places of several traversals inside of these."""
        return self.compose(TraverseMerge(*traversals))

    def each(self):
        """Every element of a list, tuple or dictionary."""
        return self.compose(TraverseEach())

    def tree(self):
        """Every leaf of a pytree."""
        return self.compose(TraverseTree())

    def filter(self, fn):
        """Only the places where a function of the value is true."""
        return self.compose(TraverseFilter(fn))

    def __getattr__(self, attr):
        if attr.startswith("__"):
            raise AttributeError(attr)
        return self.compose(TraverseAttr(attr))

    def __getitem__(self, key):
        return self.compose(TraverseItem(key))


class TraverseId(Traversal):
    """The value itself."""

    def update(self, fn, inputs):
        return fn(inputs)

    def iterate(self, inputs):
        yield inputs


t_identity = TraverseId()


class TraverseMerge(Traversal):
    """The places of several traversals, one after the other."""

    def __init__(self, *traversals):
        self._traversals = traversals

    def update(self, fn, inputs):
        for traversal in self._traversals:
            inputs = traversal.update(fn, inputs)
        return inputs

    def iterate(self, inputs):
        for traversal in self._traversals:
            yield from traversal.iterate(inputs)


class TraverseCompose(Traversal):
    """The places of one traversal inside of those of another."""

    def __init__(self, x, y):
        self._x, self._y = x, y

    def update(self, fn, inputs):
        return self._x.update(lambda inner: self._y.update(fn, inner), inputs)

    def iterate(self, inputs):
        for inner in self._x.iterate(inputs):
            yield from self._y.iterate(inner)


class TraverseFilter(Traversal):
    """The value itself, if a function of it is true."""

    def __init__(self, fn):
        self._fn = fn

    def update(self, fn, inputs):
        return fn(inputs) if self._fn(inputs) else inputs

    def iterate(self, inputs):
        if self._fn(inputs):
            yield inputs


class TraverseAttr(Traversal):
    """An attribute."""

    def __init__(self, attr):
        self._attr = attr

    def update(self, fn, inputs):
        changed = {self._attr: fn(getattr(inputs, self._attr))}
        if hasattr(inputs, "_replace"):
            return inputs._replace(**changed)
        if dataclasses.is_dataclass(inputs):
            return dataclasses.replace(inputs, **changed)
        made = copy.copy(inputs)
        setattr(made, self._attr, changed[self._attr])
        return made

    def iterate(self, inputs):
        yield getattr(inputs, self._attr)


class TraverseItem(Traversal):
    """An item, or a slice of a tuple."""

    def __init__(self, key):
        self._key = key

    def update(self, fn, inputs):
        if not isinstance(inputs, tuple):
            made = copy.copy(inputs)
            made[self._key] = fn(made[self._key])
            return made
        chosen = range(len(inputs))[self._key]
        chosen = {chosen} if isinstance(chosen, int) else set(chosen)
        items = [fn(x) if i in chosen else x for i, x in enumerate(inputs)]
        return type(inputs)(*items) if hasattr(inputs, "_fields") else type(inputs)(items)

    def iterate(self, inputs):
        found = inputs[self._key]
        yield from found if isinstance(self._key, slice) else (found,)


class TraverseEach(Traversal):
    """Every element of a list, tuple or dictionary."""

    def update(self, fn, inputs):
        if type(inputs) is dict:
            return {key: fn(value) for key, value in inputs.items()}
        if type(inputs) not in (list, tuple):
            raise ValueError(f"each() is for lists, tuples and dicts, not {type(inputs).__name__}")
        return type(inputs)(fn(x) for x in inputs)

    def iterate(self, inputs):
        yield from inputs.values() if isinstance(inputs, dict) else inputs


class TraverseTree(Traversal):
    """Every leaf of a pytree."""

    def update(self, fn, inputs):
        return tree_util.tree_map(fn, inputs)

    def iterate(self, inputs):
        yield from tree_util.tree_leaves(inputs)


class ModelParamTraversal(Traversal):
    """The parameters for which ``filter_fn(path, value)`` is true, by paths such as '/a/kernel'."""

    def __init__(self, filter_fn):
        self._filter_fn = filter_fn

    def _sorted(self, inputs):
        if not isinstance(inputs, (dict, FrozenDict)):
            raise ValueError(f"parameters are a nested dictionary, not {type(inputs).__name__}")
        return sorted(flatten_dict(unfreeze(inputs), keep_empty_nodes=True).items())

    def _chosen(self, key, value) -> bool:
        return value is not empty_node and self._filter_fn("/" + "/".join(key), value)

    def update(self, fn, inputs):
        flat = {k: fn(v) if self._chosen(k, v) else v for k, v in self._sorted(inputs)}
        made = unflatten_dict(flat)
        return FrozenDict(made) if isinstance(inputs, FrozenDict) else made

    def iterate(self, inputs):
        yield from (v for k, v in self._sorted(inputs) if self._chosen(k, v))
