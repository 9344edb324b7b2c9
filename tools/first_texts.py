"""Write the texts that LLVM compiles first, of their stubs: `python tools/first_texts.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from weft.backends.cpu.calls import first, first_stubs
from weft.backends.cpu.routines.stub_text import plain_module
from weft.kernel.kinds import f32

FOLDER = Path(first.__file__).parent
HEAD = "; Written by tools/first_texts.py from first_stubs.py; change it there.\n"


def share_text() -> str:
    """The text of what shares ranges, which is made in the least time."""
    return f"{HEAD}{plain_module([first_stubs.share], {})}"


def tile_text(lanes: int) -> str:
    """The text of a tile, which is made with care."""
    return f"{HEAD}{plain_module([first_stubs.tile], {'V': f32.of(lanes)})}"


if __name__ == "__main__":
    texts = {"share": share_text(), **{f"tile_{n}": tile_text(n) for n in first.LANES}}
    for name, text in texts.items():
        (FOLDER / f"first_{name}.ll").write_text(text, encoding="utf-8")
