"""Why a call is traced or compiled again: what differs from the nearest earlier call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.api import changes
from weft.api.arguments import argument_names, bound_arguments, signature
from weft.api.changes import shown
from weft.base import history, knobs
from weft.base.functional import name_of
from weft.core.debug_info import DebugInfo
from weft.core.trace import Tracer, typeof
from weft.runtime.array import ArrayImpl
from weft.tree.functions import tree_leaves, tree_unflatten

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
    if _is_of_package(fun):  # not for the user to define
        return ["first call with arguments of these types and settings"], False
    return [*history.new_object(fun, known[-1], _ADVICE), *found], False


def _is_of_package(fun: Any) -> bool:
    return str(getattr(fun, "__module__", "")).partition(".")[0] == "weft"


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
        found += _of_labels(old_named, named, names)
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


def _of_labels(old: Any, new: Any, names: Sequence[str]) -> list[str]:
    """What differs between the meshes and memories of arguments."""
    count = len(new or old)
    old, new = (given or (None,) * count for given in (old, new))
    found = []
    for i, (was, now) in enumerate(zip(old, new, strict=False)):
        (mesh, memory), (new_mesh, new_memory) = was or (None, False), now or (None, False)
        name = names[i] if i < len(names) else f"leaf {i}"
        if mesh != new_mesh:
            found.append(f"{name}: {_mesh(mesh)} → {_mesh(new_mesh)}")
        if memory != new_memory:
            texts = [
                "memory of the host" if m else "memory of the device" for m in (memory, new_memory)
            ]
            found.append(f"{name}: {texts[0]} → {texts[1]}")
    return found or ["the arguments are on another mesh, or in another memory"]


def _mesh(mesh: Any) -> str:
    if mesh is None:
        return "no mesh"
    shape = getattr(mesh, "shape", None)
    return f"mesh {dict(shape)}" if shape else f"mesh {mesh}"


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
    found += _of_places_of_arguments(fun, key, old)
    if not found:
        was, new = (str(k[0]) for k in (old, key))
        found.append(f"structure of the arguments: {was} → {new}")
    both = [n for n in now if n in before]
    return found + [_of_types(n, before[n], now[n]) for n in both if before[n] != now[n]]


def _of_places_of_arguments(fun: Any, key: Any, old: Any) -> list[str]:
    """Arguments that are given in another way, or are other trees."""
    try:
        (args, keywords), (old_args, old_keywords) = (_arguments(k[0], k[2]) for k in (key, old))
        now, before = (
            bound_arguments(fun, args, keywords),
            bound_arguments(fun, old_args, old_keywords),
        )
        found = []
        for name, value in now.items():
            if name in keywords and name not in old_keywords and name in before:
                found.append(f"{name}: given by position → by name")
            elif name in old_keywords and name not in keywords:
                found.append(f"{name}: given by name → by position")
            if name in before:
                found += changes.of_structures(name, before[name], value)
            elif not tree_leaves(value):
                found.append(f"{name}: not given → {value!r}")
        gone = [n for n in before if n not in now and not tree_leaves(before[n])]
        return found + [f"{name}: {before[name]!r} → not given" for name in gone]
    except Exception:  # the user's class refused placeholders, or to be compared
        return []


def _arguments(tree: Any, static: Any) -> tuple[list[Any], dict[str, Any]]:
    """Placeholders for the arguments of a structure; None for static ones."""
    dynamic, keywords = tree_unflatten(tree, range(tree.num_leaves))
    rest, args = iter(dynamic), []
    fixed = {i for i, _ in static[0]} if static else set()
    for i in range(len(dynamic) + len(fixed)):
        args.append(None if i in fixed else next(rest))
    return args, keywords


def _names_of(fun: Any, tree: Any, static: Any) -> Sequence[str]:
    """The names of arguments of which there are only the structure and the static ones."""
    try:
        return argument_names(fun, *_arguments(tree, static))
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
        if was is None or new is None:
            texts = [_default(sig, name) if h is None else shown(h.value) for h in (was, new)]
            hint = " (equal in print; define __eq__ and __hash__)" if texts[0] == texts[1] else ""
            found.append(f"{name}: static value {texts[0]} → {texts[1]}{hint}")
        else:
            found += changes.of_values(name, was.value, new.value)
    return found


def _default(sig: Any, name: str) -> str:
    """What an argument is that was not given."""
    parameter = None if sig is None else sig.parameters.get(name)
    if parameter is None or parameter.default is parameter.empty:
        return "absent"
    return f"{shown(parameter.default)} (by default)"


# --- compiled again -------------------------------------------------------------------------------


def places_of(leaves: Iterable[Any]) -> tuple[Any, ...]:
    """Where the arrays among some leaves are, and what transformations made of them; None for
    others."""
    return tuple([_place(x) for x in leaves])


def _place(x: Any) -> Any:
    if type(x) is ArrayImpl:
        return x._type.placement
    return _traced(x) if isinstance(x, Tracer) else None


def _traced(x: Any) -> str:
    """What transformations make of a value, in words."""
    # by their fields: the modules of transformations are loaded with the first of them
    if hasattr(type(x), "batch_dim"):
        mapped = "" if x.batch_dim is None else f", mapped along axis {x.batch_dim}"
        return f"{_traced(x.val)}{mapped}"
    if hasattr(type(x), "primal"):
        return f"{_traced(x.primal)}, differentiated"
    return typeof(x).str_short()


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
        if was is not new and was != new:
            name = names[i] if i < len(names) else f"leaf {i}"
            found.append(f"{name}: {_placed(was, new)}")
    return found


def _placed(was: Any, new: Any) -> str:
    """What differs between two places."""
    if type(was) is str or type(new) is str:
        texts = [p if type(p) is str else "a value that is not transformed" for p in (was, new)]
        return f"{texts[0]} → {texts[1]}"
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
