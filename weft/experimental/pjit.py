"""``pjit``, which is ``jit``."""

from weft.api.jit import jit as _jit
from weft.base.traceback import bounded as _bounded

__all__ = ["pjit"]

pjit = _bounded(_jit, "weft")
