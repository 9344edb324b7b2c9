"""Reports on traced functions: logs, warnings about captured arrays, programs as files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.api.arguments import signature
from weft.base import knobs, logs, source
from weft.base.lazy import Late
from weft.core.debug_info import DebugInfo
from weft.core.jaxpr import ClosedJaxpr

# needed where programs are written to a folder
stablehlo = Late("weft.stablehlo.module")

_numbers = itertools.count()  # of programs written to a folder


def report_trace(
    level: int, fun: Any, key: Any, names: Callable[[], Sequence[str]], seconds: float
) -> None:
    """Log that a function was traced: its name, the types of its arguments, and from where."""
    given = [f"{n}: {a.str_short()}" for n, a in zip(names(), key[1], strict=False)]
    given += _static_texts(fun, key[2])
    info = DebugInfo("jit", fun)
    place = info.func_src_info.removeprefix(info.func_name)
    logs.log(level, f"Finished tracing {info.func_src_info} for jit in {seconds:.3g} s")
    logs.log(
        level,
        f"Compiling jit({info.func_name}){place} for ({', '.join(given)}), called at"
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
    tree, avals, static, context, axes, named = key
    old_tree, old_avals, old_static, old_context, old_axes, old_named = old
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
    if named != old_named:
        found.append("the arguments are on another mesh, or in another memory")
    if axes != old_axes:
        found.append(f"named axes were {dict(old_axes)}, now {dict(axes)}")
    return found


# --- captured constants, dumps --------------------------------------------------------------------


def check_captured(fun: Any, closed: ClosedJaxpr) -> None:
    """Warn if a function closes over more bytes of arrays than the knob allows."""
    limit = knobs.thread.captured_constants_warn_bytes
    sizes = [getattr(c, "nbytes", 0) for c in closed.consts]
    total = sum(sizes)
    if limit < 0 or total <= limit:
        return
    frames = knobs.thread.captured_constants_report_frames
    lines = [] if not frames else [
        f"\n  {v.aval.str_short()}, {size:,} bytes, read at {_first_read(closed, v)}"
        for v, size in zip(closed.jaxpr.constvars, sizes, strict=True)
    ]  # fmt: skip
    source.warn(
        f"{DebugInfo('jit', fun).func_src_info} closes over {total:,} bytes of arrays, which stay"
        " in memory with its program. Pass them as arguments; or set captured_constants_warn_bytes"
        " to -1 to turn this warning off, captured_constants_report_frames to 1 to see where they"
        f" are read{'.' if not lines else ':'}{''.join(lines)}",
        UserWarning,
    )


def _first_read(closed: ClosedJaxpr, variable: Any) -> str:
    """The line of the first equation that reads a constant."""
    for eqn in closed.eqns:
        if variable in eqn.invars:
            return source.summarize(eqn.source_info)
    return "the end: it is returned"


def dump_program(name: str, closed: ClosedJaxpr) -> None:
    """Write a traced program to the folder of the knob ``dump_ir_to``."""
    from pathlib import Path  # which few programs need

    folder, number = Path(knobs.thread.dump_ir_to), next(_numbers)
    folder.mkdir(parents=True, exist_ok=True)
    for mode in [m.strip() for m in knobs.thread.dump_ir_modes.split(",") if m.strip()]:
        if mode == "jaxpr":
            text = closed.pretty_print()
        elif mode == "stablehlo":
            try:
                text = str(stablehlo.Module(closed, name))
            except NotImplementedError as error:
                text = f"// {error}\n"
        else:
            raise ValueError(f"dump_ir_modes takes 'jaxpr' and 'stablehlo', got {mode!r}")
        plain = "".join(c if c.isalnum() or c in "_-" else "_" for c in name)
        suffix = "mlir" if mode == "stablehlo" else mode
        (folder / f"jax_ir{number}_jit_{plain}.{suffix}").write_text(text, encoding="utf-8")
