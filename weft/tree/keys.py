"""Entries of key paths: how a child is reached from its parent, and how that is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

KeyEntry = TypeVar("KeyEntry", bound=Any)
KeyPath = tuple[KeyEntry, ...]


class Key:
    """Shared behaviour of path entries: one value, compared by class and value."""

    __slots__ = ("_value",)
    _label = "key"

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Key):
            return type(self) is type(other) and bool(self._value == other._value)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._label}={self._value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._value,)


def _hash_with_kind(self: Key) -> int:
    """Positions of two kinds in one dictionary of paths are told apart by their hashes."""
    return hash((type(self).__name__, self._value))


class SequenceKey(Key):
    """The position of a child in a list or tuple, as a step of a path.

    Args:
        idx: the position.

    Example:
        >>> str(SequenceKey(2)), SequenceKey(2).idx
        ('[2]', 2)
    """

    __slots__ = ()
    __match_args__ = ("idx",)
    _label = "idx"

    def __init__(self, idx: int) -> None:
        self._value = idx

    @property
    def idx(self) -> int:
        """The position."""
        return self._value

    __hash__ = _hash_with_kind

    def __str__(self) -> str:
        return f"[{self._value}]"


class DictKey(Key):
    """The key of a child in a dictionary, as a step of a path.

    Args:
        key: the key.

    Example:
        >>> str(DictKey("w")), DictKey("w").key
        ("['w']", 'w')
    """

    __slots__ = ()
    __match_args__ = ("key",)

    def __init__(self, key: Any) -> None:
        self._value = key

    @property
    def key(self) -> Any:
        """The dictionary's key."""
        return self._value

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class GetAttrKey(Key):
    """The attribute that holds a child, as a step of a path.

    Args:
        name: the name of the attribute.

    Example:
        >>> str(GetAttrKey("bias")), GetAttrKey("bias").name
        ('.bias', 'bias')
    """

    __slots__ = ()
    __match_args__ = ("name",)
    _label = "name"

    def __init__(self, name: str) -> None:
        self._value = name

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self._value

    def __str__(self) -> str:
        return f".{self._value}"


class FlattenedIndexKey(Key):
    """The position of a child of a class that was registered without keys, as a step of a path.

    Args:
        key: the position.

    Example:
        >>> str(FlattenedIndexKey(0)), FlattenedIndexKey(0).key
        ('[<flat index 0>]', 0)
    """

    __slots__ = ()
    __match_args__ = ("key",)

    def __init__(self, key: int) -> None:
        self._value = key

    @property
    def key(self) -> int:
        """The position."""
        return self._value

    __hash__ = _hash_with_kind

    def __str__(self) -> str:
        return f"[<flat index {self._value}>]"


def keystr(keys: Iterable[Any], *, simple: bool = False, separator: str = "") -> str:
    """Return a path as text.

    Args:
        keys: the path, a sequence of keys.
        simple: leave brackets, dots and quotes out.
        separator: what to write between keys.

    Returns:
        The text.

    Example:
        >>> path = (DictKey("layers"), SequenceKey(0), GetAttrKey("w"))
        >>> keystr(path)
        "['layers'][0].w"
        >>> keystr(path, simple=True, separator="/")
        'layers/0/w'
    """
    if simple:
        return separator.join(str(k._value) if isinstance(k, Key) else str(k) for k in keys)
    return separator.join(map(str, keys))
