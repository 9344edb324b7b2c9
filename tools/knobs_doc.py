"""Write docs/knobs.md from the registry of knobs: `python tools/knobs_doc.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from weft.base import knobs

PAGE = Path(__file__).resolve().parent.parent / "docs" / "knobs.md"

HEAD = """\
# Knobs

Written by `tools/knobs_doc.py` from `weft/base/knobs.py`; change it there.

A knob is set for the process by its environment variable or
`weft.config.update("jax_<name>", value)`, and for a scope of one thread by
`with weft.<name>(value):` where `weft` has that name. **Key** marks knobs that belong to cache
keys: functions are traced again where they differ.
"""

REST = """\

## Accepted for JAX, no effect

You can set and read these options, so that programs which set them run. They belong to parts of
JAX that weft doesn't have (XLA, TPU, Pallas, jax2tf), or to choices that weft doesn't leave open.

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
