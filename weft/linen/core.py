"""Frozen dictionaries: ``weft.linen.core``, the counterpart of ``flax.core``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from weft import tree_util


class FrozenDict(Mapping):
    """An immutable, hashable dictionary that is a pytree.

    Args:
        *args: what ``dict`` takes: a mapping, or pairs of key and value.
        **kwargs: further entries by keyword.

    Example:
        >>> FrozenDict({"a": 1, "b": 2})["b"]
        2
    """

    __slots__ = ("_dict", "_hash")

    def __init__(self, *args: Any, __unsafe_skip_copy__: bool = False, **kwargs: Any) -> None:
        given = dict(*args, **kwargs)
        self._dict = given if __unsafe_skip_copy__ else {k: _thaw(v) for k, v in given.items()}
        self._hash = None

    def __getitem__(self, key: Any) -> Any:
        value = self._dict[key]
        return _wrap(value) if type(value) is dict else value

    def __setitem__(self, key, value):
        raise ValueError("a FrozenDict cannot be changed: use .copy({...}) or unfreeze it first")

    def __contains__(self, key):
        return key in self._dict

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __repr__(self):
        return self.pretty_repr()

    def __reduce__(self):
        return FrozenDict, (self.unfreeze(),)

    def __hash__(self):
        if self._hash is None:
            self._hash = hash(frozenset(self.items()))
        return self._hash

    def items(self) -> Any:
        """The keys and values, with inner dictionaries frozen."""
        return [(key, self[key]) for key in self._dict]

    def pretty_repr(self, num_spaces: int = 4) -> str:
        """The nested keys and values, one a line."""
        return f"FrozenDict({_layout(self._dict, num_spaces)})"

    def copy(self, add_or_replace: Mapping[Any, Any] = MappingProxyType({})) -> FrozenDict:
        """A new frozen dictionary with these entries added or replaced."""
        return type(self)({**self._dict, **unfreeze(dict(add_or_replace))})

    def pop(self, key: Any) -> tuple[FrozenDict, Any]:
        """A new frozen dictionary without the key, and the value it had."""
        rest = {k: v for k, v in self._dict.items() if k != key}
        return type(self)(rest), self[key]

    def unfreeze(self) -> dict:
        """A mutable copy, all the way down."""
        return unfreeze(self)

    def tree_flatten_with_keys(self):
        keys = tuple(sorted(self._dict))
        return tuple((tree_util.DictKey(k), self._dict[k]) for k in keys), keys

    def tree_flatten(self):
        keys = tuple(sorted(self._dict))
        return tuple(self._dict[k] for k in keys), keys

    @classmethod
    def tree_unflatten(cls, keys, values):
        return _wrap(dict(zip(keys, values)))


tree_util.register_pytree_with_keys_class(FrozenDict)


def _wrap(plain: dict) -> FrozenDict:
    frozen = object.__new__(FrozenDict)
    frozen._dict, frozen._hash = plain, None
    return frozen


def _thaw(value):
    """Dictionaries without their frozen wrappers, copied so that nobody else can write them."""
    if isinstance(value, FrozenDict):
        return value._dict
    if isinstance(value, dict):
        return {key: _thaw(inner) for key, inner in value.items()}
    return value


def _layout(value, spaces: int) -> str:
    if not isinstance(value, dict):
        return repr(value)
    if not value:
        return "{}"
    margin = " " * spaces
    lines = "".join(f"{key}: {_layout(inner, spaces)},\n" for key, inner in value.items())
    return "{\n" + "".join(margin + line + "\n" for line in lines.splitlines()) + "}"


def freeze(xs: Mapping[Any, Any]) -> FrozenDict:
    """An immutable copy of a nested dictionary.

    >>> freeze({"a": 1}) == {"a": 1}
    True
    """
    return FrozenDict(xs)


def unfreeze(x: Any) -> Any:
    """A mutable copy of a nested dictionary, frozen or not.

    >>> unfreeze(freeze({"a": {"b": 1}}))
    {'a': {'b': 1}}
    """
    if isinstance(x, FrozenDict):
        x = x._dict
    if isinstance(x, dict):
        return {key: unfreeze(value) for key, value in x.items()}
    return x


def copy(x: Any, add_or_replace: Mapping[Any, Any] = MappingProxyType({})) -> Any:
    """A copy of a frozen or plain dictionary, with these entries added or replaced."""
    if isinstance(x, FrozenDict):
        return x.copy(add_or_replace)
    if isinstance(x, dict):
        return {**unfreeze(x), **add_or_replace}
    raise TypeError(f"copy takes a FrozenDict or a dict, not {type(x).__name__}")


def pop(x: Any, key: Any) -> tuple[Any, Any]:
    """A frozen or plain dictionary without the key, and the value it had."""
    if isinstance(x, FrozenDict):
        return x.pop(key)
    if isinstance(x, dict):
        rest = unfreeze(x)
        return rest, rest.pop(key)
    raise TypeError(f"pop takes a FrozenDict or a dict, not {type(x).__name__}")


def pretty_repr(x, num_spaces: int = 4) -> str:
    """A nested dictionary, one entry a line."""
    return x.pretty_repr(num_spaces) if isinstance(x, FrozenDict) else _layout(x, num_spaces)
