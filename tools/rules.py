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
    "all_gather_invariant": "weft uses all_gather, then pshared",
    "psum_invariant": "weft uses psum; its type says over which axes the result varies",
    "pallas_call": "Pallas is not supported",
    "run_state": "Pallas is not supported",
    "xla_pmap": "JAX itself replaced it with jit over a mesh",
}

# The sections of the page, by the room that defines their primitives.
TITLES = {
    "control": "Calls, control flow and custom rules",
    "division": "Arrays over devices",
    "experimental": "Sparse matrices and checks",
    "prims": "Arrays",
    "state": "Mutable references",
}

ON_HOST = """\
In a program for a GPU, these primitives run on the CPU, and their operands and results are copied.
Except for callbacks, a `HostFallbackWarning` names each of them once. Factorisations of 16-bit
floats run on the CPU, too."""

HEAD = """\
# Rules

A *primitive* is an operation that weft's transformations know, such as `add` or `dot_general`. The
functions of `weft.numpy`, `weft.lax` and the rest are made of primitives. This page lists all
primitives and says where each gets its rules. `tools/rules.py` writes it from the source; do not
edit it.

| column | the rule gives |
|---|---|
| shape | the shape and dtype of the result |
| ref | the result itself, computed with NumPy |
| jvp | the derivative in forward mode |
| transpose | the transpose of a linear primitive; reverse mode uses it |
| batch | the primitive under `vmap` |
| partial_eval | the split of a program that it contains into a known and an unknown part |
| dce | the removal of unused results of such a program |
| decompose | an equivalent program of simpler primitives |
| lowering | the form in compiled code, see below |

| entry | meaning |
|---|---|
| own | the class of the primitive defines the rule |
| family | a base class defines the rule for several primitives |
| linear | the primitive is linear, so it is its own derivative |
| zero | the derivative is zero, or no operand can be differentiated |
| – | there is no rule; the list below the table gives the reason |
| empty | not needed |

| lowering | compiled to |
|---|---|
| map, move, element, iota | a part of a fused kernel: element-wise work or index arithmetic |
| reduce, update | a part of a fused kernel: a reduction, or an update in place |
| kernels | kernels of its own, from `prims/lowerings` |
| program | a program of other primitives |
| call | the program that it contains |
| nodes | a loop, a branch or a recomputation |
| library | a call of BLAS or LAPACK, or of weft's own code; the specification follows |
| collective | communication between devices; on one device, an operation on a batch |
| host | a call of Python; the list below the table gives the reason |
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
        said.append("host")
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
    return f"| {' | '.join(cells)} |"


def _reasons(name: str, primitive: Primitive) -> list[str]:
    """Why a primitive lacks rules or runs on the host, as an item of a list."""
    reasons: dict[str, list[str]] = {}
    for rule, reason in primitive.holes.items():
        reasons.setdefault(reason, []).append(rule)
    if primitive.host:
        reasons.setdefault(primitive.host, []).append("host")
    told = "; ".join(f"{', '.join(rules)}: {why}" for why, rules in reasons.items())
    return [f"- `{name}`: {told}"] if told else []


def render() -> str:
    """The page."""
    rooms: dict[str, dict[str, Primitive]] = {}
    for name, primitive in load().items():
        rooms.setdefault(room_of(primitive), {})[name] = primitive
    title = " | ".join(["primitive", *RULES, *EXTRA, "lowering"])
    lines = [HEAD]
    for room, found in sorted(rooms.items()):
        lines += [f"## {TITLES[room]}", "", f"| {title} |"]
        lines.append("|---" * (len(RULES) + len(EXTRA) + 2) + "|")
        lines += [_row(*item) for item in found.items()]
        reasons = [line for item in found.items() for line in _reasons(*item)]
        lines += ["", *([*reasons, ""] if reasons else [])]
    lines += [
        "## On the CPU, in programs for GPUs",
        "",
        ON_HOST,
        "",
        "| primitive | why |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(HOST.items())]
    lines.append("")
    lines += ["## Primitives of JAX that weft lacks", ""]
    lines += ["| primitive | why |", "|---|---|"]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(LEFT_OUT.items())]
    return "\n".join(lines) + "\n"


def main(*_: Any) -> None:
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
