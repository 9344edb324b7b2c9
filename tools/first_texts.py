"""Write the texts that LLVM compiles first, of their stubs: `python tools/first_texts.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from weft.backends.cpu.calls import first, first_stubs
from weft.backends.cpu.routines.stub_text import plain_text
from weft.backends.llvm.native.llvm import QUICK
from weft.kernel.kinds import f32

FOLDER = Path(first.__file__).parent
HEAD = "; Written by tools/first_texts.py from first_stubs.py; change it there.\n"


def share_text() -> str:
    """The text of what shares ranges, which is made in the least time."""
    return QUICK + HEAD + plain_text([first_stubs.share], {})


def tile_text(lanes: int) -> str:
    """The text of a tile, which is made with care."""
    return HEAD + plain_text([first_stubs.tile], {"V": f32.of(lanes)})


if __name__ == "__main__":
    for name, text in (("share", share_text()), ("tile", tile_text(first.LANES))):
        (FOLDER / f"first_{name}.ll").write_text(text, encoding="utf-8")
