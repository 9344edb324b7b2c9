"""Special functions whose number of steps depends on the element (``llvm/text/special.py``)."""

from __future__ import annotations

from functools import partial

from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.llvm.text.special import NAMES, lower

LOWERINGS.update({name: partial(lower, name) for name in NAMES})
