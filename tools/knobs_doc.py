"""Write docs/knobs.md from the registry of knobs: `python tools/knobs_doc.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from weft.base import knobs

PAGE = Path(__file__).resolve().parent.parent / "docs" / "knobs.md"

HEAD = """\
# Settings

`tools/knobs_doc.py` writes this page from `weft/base/knobs.py`; edit that file instead.

The source calls a setting a *knob*. Set one for the process with its environment variable or with
`weft.config.update("jax_<name>", value)`, and for a scope of one thread with
`with weft.<name>(value):` if `weft` has that name. The variable is `WEFT_` followed by the name in
capitals, such as `WEFT_ENABLE_X64`; for settings of JAX, `JAX_ENABLE_X64` works as well. The
table names a variable only if it differs.

An asterisk marks settings that are part of cache keys: if they change, functions are traced again.
Where no values are listed, they are `True` and `False`.
"""

REST = """\

## Accepted for JAX, no effect

You can set and read these options, so programs that set them run. They belong to parts of JAX that
weft doesn't have (XLA, TPU, Pallas, jax2tf), or to choices that weft doesn't offer.

| setting | why it has no effect |
|---|---|
"""


def _code(text: str) -> str:
    return f"`{text}`"


def _variables(knob: knobs.Knob) -> str:
    """The environment variables, unless they follow from the name."""
    ours = f"WEFT_{knob.name.upper()}"
    if ours in knob.env and {*knob.env} <= {ours, f"JAX_{knob.name.upper()}"}:
        return ""
    if not knob.env:
        return " No variable."
    plural = "s" if len(knob.env) > 1 else ""
    return f" Variable{plural}: {', '.join(map(_code, knob.env))}."


def _row(knob: knobs.Knob) -> str:
    values = knob.allowed()
    if len(values) > 100:
        values = values[:90].rsplit(",", 1)[0] + ", …"
    name = _code(knob.name) + (" \\*" if knob.in_key else "")
    if values == "True, False":
        values = ""
    listed = _code(values) if values[:1] in ("'", "0") and values else values
    cells = [name, knob.doc + _variables(knob), _code(repr(knob.default)), listed]
    return f"| {' | '.join(cells)} |"


def render() -> str:
    """The page."""
    shown = [k for k in knobs.registry() if k.doc]
    lines = ["| setting | what it does | default | values |"]
    lines.append("|---|---|---|---|")
    lines += [_row(k) for k in shown if k.effect]
    why = lambda knob: knob.doc.removeprefix("Accepted for JAX, no effect. ")
    silent = "".join(f"| {_code(k.name)} | {why(k)} |\n" for k in shown if not k.effect)
    return HEAD + "\n" + "\n".join(lines) + "\n" + REST + silent


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
