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
`with weft.<name>(value):` if `weft` has that name. **Key** marks settings that are part of cache
keys: if they change, functions are traced again.
"""

REST = """\

## Accepted for JAX, no effect

You can set and read these options, so programs that set them run. They belong to parts of JAX that
weft doesn't have (XLA, TPU, Pallas, jax2tf), or to choices that weft doesn't offer.

| knob | why it has no effect |
|---|---|
"""


def _code(text: str) -> str:
    return f"`{text}`"


def _row(knob: knobs.Knob) -> str:
    variables = ", ".join(_code(v) for v in knob.env) or "–"
    values = knob.allowed()
    if len(values) > 100:
        values = values[:90].rsplit(",", 1)[0] + ", …"
    key = "yes" if knob.in_key else ""
    cells = [_code(knob.name), variables, _code(values), _code(repr(knob.default)), key, knob.doc]
    return f"| {' | '.join(cells)} |"


def render() -> str:
    """The page."""
    shown = [k for k in knobs.registry() if k.doc]
    lines = ["| knob | environment | values | default | key | what it does |"]
    lines.append("|---|---|---|---|---|---|")
    lines += [_row(k) for k in shown if k.effect]
    why = lambda knob: knob.doc.removeprefix("Accepted for JAX, no effect. ")
    silent = "".join(f"| {_code(k.name)} | {why(k)} |\n" for k in shown if not k.effect)
    return HEAD + "\n" + "\n".join(lines) + "\n" + REST + silent


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
