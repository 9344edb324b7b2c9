"""Filters of collections and random streams: True, False, a name, several names, or all but."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from weft.linen.errors import InvalidFilterError


@dataclass(frozen=True)
class DenyList:
    """A filter for every collection but those that another filter selects.

    Args:
        deny: the other filter: a name, a collection of names, True for all, or False for none.

    Example:
        >>> in_filter(DenyList(["params"]), "cache")
        True
    """

    deny: Any


def in_filter(filter_like, col: str) -> bool:
    """Whether a filter selects a collection."""
    if filter_like is True or filter_like is False:
        return filter_like
    if isinstance(filter_like, str):
        return col == filter_like
    if isinstance(filter_like, DenyList):
        return not in_filter(filter_like.deny, col)
    if isinstance(filter_like, Collection):
        return col in filter_like
    raise InvalidFilterError(filter_like)


def _parts(filter_like) -> tuple[set[str], bool]:
    """The names a filter lists, and whether it selects (False) or denies (True) them."""
    if isinstance(filter_like, DenyList):
        names, denies = _parts(filter_like.deny)
        return names, not denies
    if isinstance(filter_like, bool):
        return set(), filter_like
    if isinstance(filter_like, str):
        return {filter_like}, False
    if isinstance(filter_like, Collection):
        return set(filter_like), False
    raise InvalidFilterError(filter_like)


def _filter(names: set[str], denies: bool):
    if not names:
        return denies
    return DenyList(names) if denies else names


def is_filter_empty(filter_like) -> bool:
    """Whether a filter selects nothing."""
    names, denies = _parts(filter_like)
    return not names and not denies


def union_filters(a, b):
    """What either filter selects."""
    (x, x_denies), (y, y_denies) = _parts(a), _parts(b)
    if x_denies and y_denies:
        return _filter(x & y, True)
    if x_denies:
        return _filter(x - y, True)
    if y_denies:
        return _filter(y - x, True)
    return _filter(x | y, False)


def intersect_filters(a, b):
    """What both filters select."""
    (x, x_denies), (y, y_denies) = _parts(a), _parts(b)
    if x_denies and y_denies:
        return _filter(x | y, True)
    if x_denies:
        return _filter(y - x, False)
    if y_denies:
        return _filter(x - y, False)
    return _filter(x & y, False)


def subtract_filters(a, b):
    """What the first filter selects and the second does not."""
    names, denies = _parts(b)
    return intersect_filters(a, _filter(names, not denies))


def hashable_filter(filter_like):
    """A value that is equal for filters that select the same."""
    names, denies = _parts(filter_like)
    return tuple(sorted(names)), denies


def group_collections(xs: dict, filters) -> tuple[dict, ...]:
    """The collections by the first filter that selects them; others are left out."""
    groups, rest = [], dict(xs)
    for one in filters:
        group = {key: value for key, value in rest.items() if in_filter(one, key)}
        rest = {key: value for key, value in rest.items() if key not in group}
        groups.append(group)
    return tuple(groups)
