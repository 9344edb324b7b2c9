"""Why a call is traced or compiled again: what differs from the nearest earlier call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.api.arguments import argument_names, signature
from weft.base import history, knobs
from weft.base.functional import name_of
from weft.core.debug_info import DebugInfo
from weft.runtime.array import ArrayImpl
from weft.tree.functions import tree_unflatten

LONG_TEXT = 80
_ADVICE = "define it, and call jit, once"


def reasons(
    fun: Any, key: Any, seen: Sequence[Any], names: Callable[[], Sequence[str]]
) -> tuple[list[str], bool]:
    """Why a function is traced for a call, and whether it is the first call of it.

    ``seen`` are the keys of its earlier calls.
    """
    if seen:
        return nearest(fun, key, seen, names()), False
    known = history.known(fun)
    if not known:
        return ["first call"], True
    keys = [t.key for t in known]
    found = [] if any(_same_types(key, k) for k in keys) else nearest(fun, key, keys, names())
    if any(t.function() is fun for t in known):
        return ["its cache was cleared, or it is under a jit with other options", *found], False
    return [*history.new_object(fun, known[-1], _ADVICE), *found], False


def note(fun: Any, key: Any) -> None:
    """Remember that a function was traced; of static values, which may be large, nothing."""
    tree, avals, _, context, axes, named = key
    history.note(fun, (tree, avals, None, context, axes, named))


def _same_types(key: Any, old: Any) -> bool:
    return all(a == b for i, (a, b) in enumerate(zip(key, old, strict=True)) if i != 2)


def nearest(fun: Any, key: Any, seen: Iterable[Any], names: Sequence[str]) -> list[str]:
    """What differs from the most similar earlier call, of several the last one."""
    return min((differences(fun, key, old, names) for old in reversed([*seen])), key=len)


def differences(fun: Any, key: Any, old: Any, names: Sequence[str]) -> list[str]:
    """What differs between two calls, in the user's words."""
    tree, avals, static, context, axes, named = key
    old_tree, old_avals, old_static, old_context, old_axes, old_named = old
    found = []
    if tree == old_tree:
        for i, (now, before) in enumerate(zip(avals, old_avals, strict=True)):
            if now != before:
                found.append(_of_types(names[i] if i < len(names) else f"leaf {i}", before, now))
    else:
        found += _of_trees(fun, key, old, names)
    if old_static is not None or static is None:
        found += _of_statics(fun, static, old_static)
    for name, was, new in knobs.differences(old_context, context):
        found.append(f"setting {name}: {was!r} → {new!r}")
    if named != old_named:
        found.append("the arguments are on another mesh, or in another memory")
    if axes != old_axes:
        found.append(f"named axes: {dict(old_axes)} → {dict(axes)}")
    return found or ["it was traced before, and could not be kept: it uses values of another trace"]


def _of_types(name: str, before: Any, now: Any) -> str:
    """What differs between the types of an argument."""
    parts = []
    for what in ("shape", "dtype"):
        was, new = getattr(before, what, None), getattr(now, what, None)
        if was != new:
            parts.append(f"{what} {_sizes(was)} → {_sizes(new)}")
    was, new = (getattr(a, "weak_type", False) for a in (before, now))
    if was != new:
        kinds = [("weak (as of a Python number)" if w else "not weak") for w in (was, new)]
        parts.append(f"weak type: {kinds[0]} → {kinds[1]}")
    was, new = (getattr(a, "divided", None) for a in (before, now))
    if was != new:
        parts.append(f"sharding {_spec(was)} → {_spec(new)}")
    if not parts:
        parts.append(f"type {before.str_short()} → {now.str_short()}")
    return f"{name}: {', '.join(parts)}"


def _sizes(x: Any) -> str:
    return f"({', '.join(map(str, x))}{',' * (len(x) == 1)})" if type(x) is tuple else str(x)


def _spec(sharding: Any) -> str:
    return "none" if sharding is None else str(getattr(sharding, "spec", sharding))


def _of_trees(fun: Any, key: Any, old: Any, names: Sequence[str]) -> list[str]:
    """What differs between arguments of another structure."""
    before = dict(zip(_names_of(fun, old[0], old[2]), old[1], strict=False))
    now = dict(zip(names, key[1], strict=False))
    found = [f"{n}: new, {a.str_short()}" for n, a in now.items() if n not in before]
    found += [f"{n}: missing, was {a.str_short()}" for n, a in before.items() if n not in now]
    if not found:
        was, new = (str(k[0]) for k in (old, key))
        found.append(f"structure of the arguments: {was} → {new}")
    both = [n for n in now if n in before]
    return found + [_of_types(n, before[n], now[n]) for n in both if before[n] != now[n]]


def _names_of(fun: Any, tree: Any, static: Any) -> Sequence[str]:
    """The names of arguments of which there are only the structure and the static ones."""
    try:
        dynamic, keywords = tree_unflatten(tree, range(tree.num_leaves))
        rest, args = iter(dynamic), []
        fixed = {i for i, _ in static[0]} if static else set()
        for i in range(len(dynamic) + len(fixed)):
            args.append(None if i in fixed else next(rest))
        return argument_names(fun, args, keywords)
    except Exception:  # the user's class refused placeholders; messages do without the names
        return ()


def _of_statics(fun: Any, static: Any, old_static: Any) -> list[str]:
    sig = signature(fun)
    parameters = [] if sig is None else list(sig.parameters)

    def named(given: Any) -> dict[str, Any]:
        positional, by_name = given or ((), ())
        of = {parameters[i] if i < len(parameters) else f"argument {i}": h for i, h in positional}
        return of | dict(by_name)

    found, before, now = [], named(old_static), named(static)
    for name in [*now, *[n for n in before if n not in now]]:
        was, new = before.get(name), now.get(name)
        if was == new:
            continue
        texts = [_default(sig, name) if h is None else _shown(h.value) for h in (was, new)]
        hint = " (equal in print; define __eq__ and __hash__)" if texts[0] == texts[1] else ""
        if not hint and was is not None and new is not None and _is_object(was.value, new.value):
            kind = type(new.value).__name__
            hint = f" (two objects of {kind} are never equal; define __eq__ and __hash__)"
        found.append(f"{name}: static value {texts[0]} → {texts[1]}{hint}")
    return found


def _is_object(old: Any, new: Any) -> bool:
    """Whether two values of a class are equal only if they are one object."""
    kind = type(new)
    return type(old) is kind and kind.__eq__ is object.__eq__ and kind.__module__ != "builtins"


def _default(sig: Any, name: str) -> str:
    """What an argument is that was not given."""
    parameter = None if sig is None else sig.parameters.get(name)
    if parameter is None or parameter.default is parameter.empty:
        return "absent"
    return f"{_shown(parameter.default)} (by default)"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # a user's own repr
        text = f"<{type(value).__name__}>"
    return text if len(text) <= LONG_TEXT else f"{text[:LONG_TEXT]}…"


# --- compiled again -------------------------------------------------------------------------------


def places_of(leaves: Iterable[Any]) -> tuple[Any, ...]:
    """Where the arrays among some leaves are; None for others."""
    return tuple([x._type.placement if type(x) is ArrayImpl else None for x in leaves])


def moved(places: Any, seen: Sequence[Any], names: Callable[[], Sequence[str]]) -> list[str]:
    """Why a program that was traced before is compiled: arguments are elsewhere."""
    if not seen:
        return ["traced before, and compiled for the first time"]
    if places in seen:
        return ["compiled before for other donated arguments, or other settings of the thread"]
    return min((_of_places(places, old, names()) for old in reversed(seen)), key=len)


def _of_places(places: Any, old: Any, names: Sequence[str]) -> list[str]:
    found = []
    for i, (was, new) in enumerate(zip(old, places, strict=False)):
        if was is not new:
            name = names[i] if i < len(names) else f"leaf {i}"
            found.append(f"{name}: {_placed(was, new)}")
    return found


def _placed(was: Any, new: Any) -> str:
    """What differs between two places."""
    if was is None or new is None:
        was, new = (
            "a value of the host" if p is None else f"an array on {_where(p)}" for p in (was, new)
        )
        return f"{was} → {new}"
    if was.sharding != new.sharding:
        return f"sharding {_where(was)} → {_where(new)}"
    words = ["committed" if p.committed else "not committed" for p in (was, new)]
    return f"{words[0]} → {words[1]} to {_where(new)}"


def _where(place: Any) -> str:
    sharding = place.sharding
    devices = sharding._device_assignment
    if len(devices) == 1:
        return str(devices[0])
    spec = getattr(sharding, "spec", None)
    return f"{len(devices)} devices" if spec is None else f"{spec} over {len(devices)} devices"


def title(fun: Any, own: bool) -> str:
    """A function, with the line that defines it if it is the user's."""
    return name_of(fun) if own else DebugInfo("jit", fun).func_src_info
