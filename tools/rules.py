"""Write docs/rules.md, the table of primitives and their rules: `python tools/rules.py`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import weft
from weft.backends.cuda.routines.table import HOST
from weft.core.primitive import Primitive
from weft.core.registry import primitives

PAGE = Path(__file__).resolve().parent.parent / "docs" / "rules.md"
RULES = ("shape", "ref", "jvp", "transpose", "batch")
EXTRA = ("partial_eval", "dce", "decompose")

LEFT_OUT = {
    "all_gather_invariant": "all_gather, then pshared",
    "psum_invariant": "psum, whose type says over which axes its result varies",
    "pallas_call": "kernels for TPU and GPU",
    "run_state": "mutable references of Pallas kernels",
    "xla_pmap": "replaced in JAX itself by jit over a mesh",
}

ON_HOST = """\
The host computes these primitives while the rest of a program runs on a GPU. A
`HostFallbackWarning` names each once, except callbacks. Matrices of 16-bit floats run on the host,
too."""

HEAD = """\
# Rules

`tools/rules.py` writes this page from the primitives; edit those instead. It shows the rules of
every primitive: derivative, transpose, batching, and lowering.

| word | meaning |
|---|---|
| own | the primitive's class defines it |
| family | a shared base class defines it |
| linear | the primitive is linear: it applies to tangents as it is |
| zero | the primitive is piecewise constant or has no differentiable operand |
| – | absent, for the reason in the last column |

The next columns concern primitives that carry a program (special rules for partial evaluation and
pruning) and primitives that are functions of others. "Lowering" says what the compiler makes of a
primitive on any device:

| word | meaning |
|---|---|
| map, move, reduce, … | its form inside fused kernels |
| kernels | separate kernels, in `prims/lowerings` |
| program | a function of other primitives, there or in its class |
| call, nodes | the program that it calls; control flow of the planner |
| library | a backend's library computes it; the specification follows |
| collective | devices communicate; one device computes it by batching |
| host | Python computes it: an effect, or for the reason that follows |
"""


def load() -> dict[str, Primitive]:
    """Every primitive by name, those included that `import weft` does not need."""
    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        importlib.import_module(module.name)
    return {name: p for name, p in sorted(primitives.items()) if ours(p)}


def ours(primitive: Primitive) -> bool:
    """Not one that a test or an example has defined."""
    return type(primitive).__module__.startswith("weft.")


def owner(primitive: Primitive, rule: str) -> type | None:
    """The class that states a rule, or None."""
    for kind in type(primitive).__mro__:
        if kind.__dict__.get(rule) is not None:
            return kind
    return None


def status(primitive: Primitive, rule: str) -> str:
    """How a primitive comes by a rule; the empty string if it has neither rule nor reason."""
    if rule in primitive.holes:
        return "–"
    kind = owner(primitive, rule)
    if rule == "jvp" and kind is Primitive:
        if primitive.linear:
            return "linear"
        kind = owner(primitive, "d0") or owner(primitive, "d1") or owner(primitive, "d2")
        return "zero" if kind is None else _word(primitive, kind)
    if kind is None or kind is Primitive:
        return ""
    return _word(primitive, kind)


def _word(primitive: Primitive, kind: type) -> str:
    return "own" if kind is type(primitive) else "family"


def lowering(primitive: Primitive) -> str:
    """What the compiler makes of a primitive on any device; empty if nothing is said."""
    kind = type(primitive)
    said = []
    if primitive.form is not None:
        said.append("program" if primitive.form == "expand" else primitive.form)
    if primitive.kernels:
        said.append("kernels")
    if primitive.nodes:
        said.append("nodes")
    elif kind.callee is not Primitive.callee:
        said.append("call")
    own = primitive.decompose is not None and not primitive.library and "program" not in said
    if primitive.neutral or (own and not said):
        said.append("program")
    if primitive.library:
        said.append(f"library: {primitive.library}")
    if primitive.host:
        said.append(f"host: {primitive.host}")
    if said:
        return ", ".join(said)
    if primitive.axis_names is not None:
        return "collective"
    effects = primitive.effects or primitive.eqn_effects is not None
    return "host" if effects or primitive.discharge is not None else ""


def gaps() -> Iterator[tuple[str, str]]:
    """Rules that are neither there nor accounted for."""
    for name, primitive in load().items():
        for rule in RULES:
            if not status(primitive, rule):
                yield name, rule
        if not lowering(primitive):
            yield name, "lowering"


def room_of(primitive: Primitive) -> str:
    return type(primitive).__module__.split(".")[1]


def _row(name: str, primitive: Primitive) -> str:
    cells = [f"`{name}`", *(status(primitive, rule) or "**missing**" for rule in RULES)]
    cells += [status(primitive, rule) for rule in EXTRA]
    cells.append(lowering(primitive) or "**missing**")
    cells.append("; ".join(f"{rule}: {reason}" for rule, reason in primitive.holes.items()))
    return f"| {' | '.join(cells)} |"


def render() -> str:
    """The page."""
    rooms: dict[str, list[str]] = {}
    for name, primitive in load().items():
        rooms.setdefault(room_of(primitive), []).append(_row(name, primitive))
    title = " | ".join(["primitive", *RULES, *EXTRA, "lowering", "why not"])
    lines = [HEAD]
    for room, rows in sorted(rooms.items()):
        lines += [f"## {room}", "", f"| {title} |", "|---" * (len(RULES) + len(EXTRA) + 3) + "|"]
        lines += [*rows, ""]
    lines += ["## On the host", "", ON_HOST, "", "| primitive | why |", "|---|---|"]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(HOST.items())]
    lines.append("")
    lines += ["## Left out", "", "Primitives of JAX that weft does without.", ""]
    lines += ["| primitive | why |", "|---|---|"]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(LEFT_OUT.items())]
    return "\n".join(lines) + "\n"


def main(*_: Any) -> None:
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
