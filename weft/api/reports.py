"""What is logged of traced functions: that one is traced, for which types, and why again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.api.arguments import signature
from weft.base import logs, source
from weft.core.debug_info import DebugInfo


def report_trace(
    level: int, fun: Any, key: Any, names: Callable[[], Sequence[str]], seconds: float
) -> None:
    """Log that a function was traced: its name, the types of its arguments, and from where."""
    given = [f"{n}: {a.str_short()}" for n, a in zip(names(), key[1], strict=False)]
    given += _static_texts(fun, key[2])
    name = DebugInfo("jit", fun).func_src_info
    logs.log(level, f"Finished tracing {name} for jit in {seconds:.3g} s")
    logs.log(
        level,
        f"Compiling {name} for ({', '.join(given)}), called at"
        f" {source.summarize(source.current())}",
    )


def _static_texts(fun: Any, static: Any) -> list[str]:
    if static is None:
        return []
    positional, named = static
    sig = signature(fun)
    parameters = [] if sig is None else list(sig.parameters)
    pairs = [(parameters[i] if i < len(parameters) else f"argument {i}", h) for i, h in positional]
    return [f"{name} = {h.value!r} (static)" for name, h in [*pairs, *named]]


def explain_miss(fun: Any, key: Any, seen: Iterable[Any], names: Callable[[], Any]) -> None:
    """Log why a function is traced again: what differs from the most similar earlier call."""
    reasons = min(
        (_differences(fun, key, old, names()) for old in seen),
        key=len,
        default=["it is called for the first time (or was changed, or its cache cleared)"],
    )
    logs.log(
        logs.WARNING,
        f"Cache miss of {DebugInfo('jit', fun).func_src_info}, called at"
        f" {source.summarize(source.current())}:" + "".join(f"\n  {reason}" for reason in reasons),
    )


def _differences(fun: Any, key: Any, old: Any, names: Sequence[str]) -> list[str]:
    tree, avals, static, context, axes = key
    old_tree, old_avals, old_static, old_context, old_axes = old
    found = []
    if tree != old_tree:
        found.append(f"the arguments' tree structure was {old_tree}, now {tree}")
    else:
        for i, (now, before) in enumerate(zip(avals, old_avals, strict=True)):
            if now != before:
                name = names[i] if i < len(names) else f"{i}"
                was, new = before.str_short(), now.str_short()
                if was == new:
                    was, new = (f"{a.str_short()} weak_type={a.weak_type}" for a in (before, now))
                found.append(f"argument {name} was {was}, now {new}")
    if static != old_static:
        was, new = (", ".join(_static_texts(fun, s)) or "absent" for s in (old_static, static))
        found.append(f"before {was}; now {new}")
    if context != old_context:
        found.append(f"settings were {old_context}, now {context}")
    if axes != old_axes:
        found.append(f"named axes were {dict(old_axes)}, now {dict(axes)}")
    return found
