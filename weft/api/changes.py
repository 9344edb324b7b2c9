"""What differs between two static values, or between two structures of arguments, part by part."""

from __future__ import annotations

from typing import Any

from weft.base.lazy import Late
from weft.tree.flattening import expand_with_keys
from weft.tree.functions import tree_leaves
from weft.tree.keys import keystr
from weft.tree.kinds import kind_of

dataclasses = Late("dataclasses")

# Characters of a value that are shown, parts of a value that are told apart, and levels of them.
LONG_TEXT, MAX_PARTS, MAX_DEPTH = 80, 4, 4


def shown(value: Any) -> str:
    """A value as it prints, or the beginning of that."""
    return _cut(_text(value))


def _text(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # a user's own repr
        return f"<{type(value).__name__}>"


def _cut(text: str) -> str:
    return text if len(text) <= LONG_TEXT else f"{text[:LONG_TEXT]}…"


def _both(old: Any, new: Any) -> tuple[str, str]:
    """Two values as they print, cut to where they differ."""
    was, now = _text(old), _text(new)
    cut = _cut(was), _cut(now)
    if was == now or cut[0] != cut[1]:
        return cut
    same = next((i for i, (a, b) in enumerate(zip(was, now)) if a != b), min(len(was), len(now)))
    start = same - LONG_TEXT // 4
    return f"…{_cut(was[start:])}", f"…{_cut(now[start:])}"


def of_values(name: str, old: Any, new: Any) -> list[str]:
    """What differs between two static values: "config.rate: static value 0.1 → 0.2"."""
    found = _parts(name, old, new, 0)
    if len(found) > MAX_PARTS:
        found = [*found[:MAX_PARTS], (f"{name}: {len(found) - MAX_PARTS} more parts differ",)]
    return [part[0] if len(part) == 1 else _said(*part) for part in found]


def _said(name: str, old: Any, new: Any) -> str:
    was, now = _both(old, new)
    hint = ""
    if was == now:
        hint = " (equal in print; define __eq__ and __hash__)"
    elif _is_object(old, new):
        kind = type(new).__name__
        hint = f" (two objects of {kind} are never equal; define __eq__ and __hash__)"
    return f"{name}: static value {was} → {now}{hint}"


def _is_object(old: Any, new: Any) -> bool:
    """Whether two values of a class are equal only if they are one object."""
    kind = type(new)
    return type(old) is kind and kind.__eq__ is object.__eq__ and kind.__module__ != "builtins"


def _parts(name: str, old: Any, new: Any, depth: int) -> list[Any]:
    """The parts of two values that differ, each a name and two values."""
    whole = [(name, old, new)]
    if type(old) is not type(new) or depth == MAX_DEPTH or _is_object(old, new):
        return whole
    before, now = _members(old), _members(new)
    if before is None or now is None or before.keys() != now.keys():
        return whole
    try:
        changed = [key for key in now if not bool(before[key] == now[key])]
    except Exception:  # a user's own equality
        return whole
    found = [
        part for key in changed for part in _parts(name + key, before[key], now[key], depth + 1)
    ]
    return found or whole


def _members(value: Any) -> dict[str, Any] | None:
    """The parts of a value of a plain kind, by what stands behind its name."""
    kind = type(value)
    try:
        if hasattr(kind, "__dataclass_fields__"):
            fields = [f.name for f in dataclasses.fields(value) if f.compare]
            return {f".{field}": getattr(value, field) for field in fields}
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {f".{field}": getattr(value, field) for field in kind._fields}
    except Exception:  # a user's own attribute
        return None
    if kind in (tuple, list):
        return {f"[{i}]": part for i, part in enumerate(value)}
    return {f"[{k!r}]": part for k, part in value.items()} if kind is dict else None


def of_structures(name: str, old: Any, new: Any) -> list[str]:
    """What differs between two trees of placeholders, but for leaves that only one of them has."""
    kind, other = kind_of(type(new)), kind_of(type(old))
    if kind is None and other is None:
        return []
    if kind is None or other is None or kind.type is not other.type:
        was, now = (_kind(x, k) for x, k in ((old, other), (new, kind)))
        return [f"{name}: {was} → {now}"]
    (pairs, data), (old_pairs, old_data) = expand_with_keys(kind, new), expand_with_keys(kind, old)
    keys, old_keys = [k for k, _ in pairs], [k for k, _ in old_pairs]
    found = []
    if keys == old_keys and not bool(data == old_data):
        found += _of_data(name, old, new, old_data, data)
    before = dict(zip([keystr((k,)) for k in old_keys], [x for _, x in old_pairs], strict=True))
    for key, child in pairs:
        path = keystr((key,))
        if path in before:
            found += of_structures(name + path, before[path], child)
        elif not tree_leaves(child):
            found.append(f"{name}{path}: new, {_kind(child, kind_of(type(child)))}")
    return found


def _of_data(name: str, old: Any, new: Any, old_data: Any, data: Any) -> list[str]:
    """What differs between the data of two nodes of a user's class, which are static."""
    if hasattr(type(new), "__dataclass_fields__"):
        held, before = ({id(x) for x in tree_leaves(v)} for v in (new, old))
        fields = []
        for field in dataclasses.fields(new):
            was, now = (getattr(v, field.name, None) for v in (old, new))
            leaves = any(id(x) in seen for v, seen in ((now, held), (was, before))
                         for x in tree_leaves(v))  # fmt: skip
            if not leaves and not bool(was == now):
                fields += of_values(f"{name}.{field.name}", was, now)
        if fields:
            return fields
    return of_values(f"{name}, data of {type(new).__name__}", old_data, data)


def _kind(value: Any, kind: Any) -> str:
    if kind is None:
        return "an array"
    return "None" if value is None else f"a {type(value).__name__}"
